/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * leaking.h - a scan for leaks of a process that lives: its memory is captured, and looked at
 * beside the loop; Ctrl-C ends it. What was lost then is remembered, by process, for `leaks --new`.
 */
#ifndef MTRUN_LEAKING_H
#define MTRUN_LEAKING_H

#include "leaks/captured.h"
#include "leaks/leaks.h"
#include "report/print_leaks.h"

struct leaked; /* what was lost when processes were scanned last */
struct process;
struct shell;

struct leaking {
	struct shell *shell;
	struct process *process;
	struct capture *capture;
	struct captured captured;
	struct leaks *leaks;
	struct leaks_span *constant;
	uint64_t took_ms;
};

/* Why P cannot be scanned, in one line; NULL: it can. */
const char *leaking_refused(const struct shell *shell, const struct process *p);
/*
 * Captures P, of which the caller holds a reference, and looks at what was captured. L may not be
 * moved afterwards. 0 or -errno with WHY in one line, which is empty if the user has had enough: L
 * need not be released then.
 */
int leaking_make(struct shell *shell, struct process *p, struct leaking *l, char *why,
		 size_t len) MUST_USE;
void leaking_release(struct leaking *l);

/*
 * All kinds of L, or (FRESH) of what is lost only what was not when P was remembered last. 0 or
 * -ENOMEM. The report needs L no more, and leaking_report_release().
 */
int leaking_report(const struct leaking *l, bool fresh, struct leak_report *r) MUST_USE;
void leaking_report_release(struct leak_report *r);
/* All but LEAK_REACHABLE. */
#define LEAKING_LOST (1u << LEAK_DEFINITE | 1u << LEAK_INDIRECT | 1u << LEAK_POSSIBLE)
/* Records of other kinds than KINDS, a bit each, are left out: the sums stay. */
void leaking_choose(struct leak_report *r, unsigned kinds);
/* What is lost in L is known from now on. Out of memory: as if it had not been scanned. */
void leaking_remember(const struct leaking *l);
void leaking_forget(struct shell *shell);

#endif
