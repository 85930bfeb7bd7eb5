/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * replay.h - a set of log files, open: the processes that they tell of, each with a ledger that is
 * as it was at the end, and any moment before that.
 *
 * Opening reads what stands at the files' ends; where that is missing, all that is in them. A
 * moment is then made from the checkpoint before it. So memory is in proportion to stacks and
 * intervals, however long the logs are.
 */
#ifndef MTRUN_LOG_REPLAY_H
#define MTRUN_LOG_REPLAY_H

#include "ledger/ledger.h"
#include "log/records.h"
#include "log/sets.h"
#include "process/marks.h"

struct replay;
struct replay_process;

/* How those who wait are told. All are called in the caller's thread; CTX is theirs. */
struct replay_watch {
	void *ctx;
	unsigned workers; /* 0: one for each file, at most the processors */
	/* Something is wrong with a file, and what that means, in a line. */
	void (*trouble)(void *ctx, const char *text);
	/* PATH is done. */
	void (*file)(void *ctx, const char *path);
	/* Several times a second: how much is done of how much. False: to be given up. */
	bool (*progress)(void *ctx, uint64_t done, uint64_t all);
};

/*
 * The newest files of SET that go on in each other. NULL: WHY says so, in a line; "" if it was
 * given up. A damaged file is open up to where it is whole.
 */
struct replay *replay_open(const struct log_set *set, const struct replay_watch *watch, char *why,
			   size_t len) MUST_USE;
void replay_free(struct replay *r);
/*
 * Reads every event of all files, and compares what they come to with what the index says. *EVENTS:
 * how many. 0, -EINVAL (TROUBLE heard what), -ECANCELED, -ENOMEM.
 */
int replay_check(struct replay *r, const struct replay_watch *watch, uint64_t *events) MUST_USE;

const struct log_run *replay_run(const struct replay *r);
uint64_t replay_set(const struct replay *r);	  /* the same number in all its files */
uint64_t replay_clock_ms(const struct replay *r); /* when tracing began, since 1970 */
/* where the record begins, and ends, since then */
uint64_t replay_began_ms(const struct replay *r);
uint64_t replay_ended_ms(const struct replay *r);
/* of its files; OUTSIDE_NOBODY if they have several */
uid_t replay_owner(const struct replay_process *p);
size_t replay_files(const struct replay *r);
const char *replay_file(const struct replay *r, size_t i, uint64_t *bytes); /* its path */
/* in all files, as far as it is said there */
uint64_t replay_events(const struct replay *r);

/* ---- its processes ------------------------------------------------------- */

size_t replay_processes(const struct replay *r); /* in order of appearance */
struct replay_process *replay_process(const struct replay *r, size_t i);
const struct replay *replay_whole(const struct replay_process *p); /* that it is of */

/*
 * As log_process of records.h, but that of a process whose end is not told ended_ms is the
 * record's.
 */
const struct log_process *replay_facts(const struct replay_process *p);
uint64_t replay_recorded_ms(const struct replay_process *p); /* where its record begins */
/*
 * As it was at the end; who asks it for earlier moments gets them from the log (ledger_look_back).
 * NULL: out of memory. The caller frees it, before the replay.
 */
struct ledger *replay_ledger(struct replay_process *p) MUST_USE;
/*
 * What ended the record early, or keeps what was asked for last from being known, in a line; once.
 * "": nothing.
 */
const char *replay_trouble(struct replay_process *p);
bool replay_troubled(const struct replay_process *p); /* there is something to be told */
/* Of both, the caller becomes the owner. */
int replay_modules(struct replay_process *p, struct modules *modules) MUST_USE; /* 0 or -ENOMEM */
int replay_marks(struct replay_process *p, struct marks *marks) MUST_USE;

/*
 * How long the blocks of its stacks lived, for the caller to free: how many stacks, or -ENOMEM,
 * -EINTR (GIVE_UP has said so), -EBADMSG: some of the record is damaged. ACTIVITY, which is empty,
 * becomes that of its ledger, for the caller to release. All events are read anew; nobody else's
 * questions are in the way of that.
 */
struct log_lifetime;
ssize_t replay_lifetimes(struct replay_process *p, bool (*give_up)(void *ctx), void *ctx,
			 struct log_lifetime **out, struct activity *activity) MUST_USE;

/* Its stacks, as struct sites_source has them. MODULES: what replay_modules() gave. */
uint32_t replay_parent(struct replay_process *p, uint32_t node, uint64_t *pc);
/* False: they are not in the log. */
bool replay_frames(struct replay_process *p, const struct modules *modules, uint32_t node,
		   uint64_t pc, struct symbol_frames *frames);
/* As symbols_site_skip(). */
int replay_site_skip(struct replay_process *p, const char *regex, const char **error) MUST_USE;

#endif
