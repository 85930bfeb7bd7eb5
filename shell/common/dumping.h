/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * dumping.h - when .heap files are written (`dump`, SIGUSR1, --dump-every, --dump-peak, the end, a
 * hit of the limit), and what they are called: PREFIX<pid>.<seq>.<why>.heap. A file is there whole
 * or not at all. What cannot be written is said, and the program goes on;
 * in batch mtrun's exit status is 125 then.
 */
#ifndef MTRUN_DUMPING_H
#define MTRUN_DUMPING_H

#include "base/types.h"

struct dump_record;
struct limit_hit;
struct options;
struct process;
struct shell;

enum dump_why { DUMP_EVERY, DUMP_PEAK, DUMP_ASKED, DUMP_END, DUMP_LIMIT, DUMP_WHYS };

/* A file that was written, or not. */
struct dumped {
	/* its name, to be freed; NULL: out of memory before there was one */
	char *file;
	int64_t bytes, blocks; /* what is in it */
	size_t stacks;
};

/* Before the program runs: whether files that are due by O could be made. 0, or -1 (said). */
int dumping_check(const struct options *o);
void dumping_init(struct shell *shell);
void dumping_release(struct shell *shell);
/* To be called between two turns of the loop: writes what is due. */
void dumping_turn(struct shell *shell);
/* The file that was written at PID's end, NULL: none. */
const char *dumping_at_end(const struct shell *shell, pid_t pid);
/*
 * Writes one of P, of now; the symbols are read while the loop turns. PREFIX NULL: that of -o, or
 * the default. 0 or -errno, -EINTR if the user does not want it any more; *D is filled in any case.
 */
int dumping_write(struct shell *shell, struct process *p, const char *prefix, enum dump_why why,
		  struct dumped *d) MUST_USE;
/* dumping_write() for HIT, by TELLER, who asks beside SHELL, whose files it is among. */
int dumping_limit(struct shell *shell, struct shell *teller, const struct limit_hit *hit,
		  struct dumped *d) MUST_USE;
/*
 * D was due and could not be written: it is said, once in a row, and mtrun's exit status tells it.
 */
void dumping_failed(struct shell *shell, const struct dumped *d, int err);

#endif
