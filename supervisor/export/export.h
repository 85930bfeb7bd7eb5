/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * export.h - what a process held, in the formats of other people's viewers. One table (export.c)
 * names the formats; each is written by a file of its own.
 *
 * What is exported is `report --by stack`: the rows of that view, in its order. One rule is added,
 * so that a viewer's leaf is the function that `text` has as flat: frames at a stack's inner end
 * that are an allocator's (operator new, __rust_alloc) are left out, unless there are no others.
 * (heap.c has them all.)
 *
 * A writer prints to a stream and need not look at its errors: the caller does, at the end. It
 * calls export_rest() for each stack, so that a live process is served meanwhile.
 */
#ifndef MTRUN_EXPORT_H
#define MTRUN_EXPORT_H

#include <stdio.h>

#include "base/types.h"
#include "process/marks.h"
#include "process/profile.h"
#include "report/sites.h"
#include "report/view.h"

struct activity;
struct kept;
struct leak_report;
struct log_lifetime;
struct modules;
struct residency;
struct text_buffer;

/*
 * The most that was live in [from_ms, to_ms), and when that was. Points follow each other without
 * gaps; values hold until they change.
 */
struct export_point {
	uint64_t from_ms, to_ms;
	uint64_t bytes, ms;
};

struct export
{
	/* what is exported */
	/*
	 * by stack, all rows; view->ms: the moment, view->is_difference, view->since_ms;
	 * has_totals: what is live *now*
	 */
	const struct view *view;
	struct sites *sites;
	/* the amounts are what was allocated in total, live or not */
	bool total;
	/* the same for people: "now", "at the peak", "at 3.2 s", "since 'before'" */
	const char *moment;
	unsigned counted; /* LEDGER_COUNT_*: which kinds are in it */
	/*
	 * bytes on average between two that are recorded now; 0: each is. view->estimated: what is
	 * exported was scaled up from some
	 */
	uint64_t sample;

	/* whose it is; each may be NULL */
	pid_t pid;		   /* 0: unknown */
	const char *command, *exe; /* its name; the executable's path */
	const char *command_line;  /* with its arguments, one blank between */
	unsigned others;	   /* processes that are recorded beside it */
	const struct modules *modules;
	/* when tracing began, ms of the clock: what all other times count from */
	uint64_t began;
	uint64_t began_ms, now_ms; /* of the process; its end if that has been */

	/* what was live over time; points 0: not known */
	const struct export_point *point;
	size_t points;
	uint64_t peak, peak_ms;
	const struct activity *activity; /* more finely; empty or NULL: not known */
	const struct marks *marks;	 /* NULL: none */
	/* what its resident memory is made of, and who keeps that; NULL: not known */
	const struct residency *residency;
	const struct kept *kept;
	const struct leak_report *leaks; /* what is lost; NULL: not known */
	/*
	 * What was live at the maximum of the point that MS is in, by stack; for the caller to
	 * release. 0 or -errno.
	 */
	int (*past)(void *ctx, uint64_t ms, struct profile *out);
	/*
	 * What is live now by thread or by block size, DETAIL: PROFILE_THREADS or PROFILE_SIZES,
	 * without stacks; for the caller to release. 0 or -errno. NULL: single blocks are not
	 * known.
	 */
	int (*parts)(void *ctx, unsigned detail, struct profile *out);
	/*
	 * How long blocks lived, by stack; for the caller to free. How many stacks, or -errno.
	 * `activity` is known only then. NULL: it is not known, as no log is open.
	 */
	ssize_t (*lifetimes)(void *ctx, struct log_lifetime **out);
	pid_t thread_names; /* the process in /proc that has these threads; 0: there is none */

	bool quick; /* pprof: it matters more that it is there soon than how long it is */

	/* html: where the page hears of what comes after, on the same server; NULL: nowhere */
	const char *events;

	bool (*interrupted)(void *ctx); /* the user has enough; NULL: never */
	void *ctx;
};

enum export_flags {
	/*
	 * a difference may have negative amounts in it; elsewhere the caller leaves such rows out,
	 * and says so
	 */
	EXPORT_SIGNED = 1,
	/* wants the totals, too: rows with nothing live are in the view */
	EXPORT_TOTALS = 2,
	/* is about the whole time, unless one moment is asked for, and about all stacks */
	EXPORT_TIMELINE = 4,
	EXPORT_BINARY = 8, /* no text: nothing for a terminal */
	/* wants to have what resident memory is made of */
	EXPORT_RESIDENCY = 16,
	/* wants to have what is lost */
	EXPORT_LEAKS = 32,
};

/*
 * What is written becomes what FILE's ending says by a shell command, of its input; NULL: it is
 * that already. A NULL ending ends a list.
 */
struct export_ending {
	const char *ending, *command;
};

struct export_format {
	const char *name;
	unsigned flags;					 /* enum export_flags */
	int (*write)(FILE *out, const struct export *e); /* 0, -ENOMEM, -EINTR */
	const struct export_ending *ending; /* what FILE may end in; NULL: in anything */
};
/* The table, in the order of help and manual; a NULL name ends it. */
extern const struct export_format export_formats[];
const struct export_format *export_format(const char *name); /* NULL: there is none */

/* ---- for the writers ----------------------------------------------------- */

const struct activity *export_activity(const struct export *e); /* never NULL */
/* The amounts of a row: what is live, or with `total` what was allocated. */
int64_t export_size(const struct export *e, const struct view_row *r);
int64_t export_count(const struct export *e, const struct view_row *r);
/* Sums of these over all rows. */
int64_t export_total(const struct export *e);
/* "812 bytes", "31.2 MiB". */
const char *export_amount(struct text_buffer *b, int64_t bytes);
/* What the amounts are: "live", "allocated in total", "more than before". */
const char *export_noun(const struct export *e);
/* To be called for each stack: 0, or -EINTR. */
int export_rest(const struct export *e) MUST_USE;
/*
 * The rows' amounts as a profile, which a table or a tree can be made of; for the caller to
 * release. 0 or -ENOMEM.
 */
int export_profile(const struct export *e, struct profile *p) MUST_USE;

/*
 * The stack of a row, innermost first. Starts empty (all zeros), is used again for each row,
 * export_stack_release() frees.
 */
struct export_location {
	/* innermost first, count >= 1; their address identifies the location */
	struct symbol_frames frames;
	uint32_t node;
};
struct export_stack {
	size_t count, room; /* count >= 1 after export_stack() */
	struct export_location *location;
};
/* 0 or -ENOMEM */
int export_stack(const struct export *e, const struct view_row *r,
		 struct export_stack *stack) MUST_USE;
void export_stack_release(struct export_stack *stack);
/*
 * Within the call; 0: a pseudo-frame, as [truncated]. It is asked of the process' stacks, behind a
 * lock: for each location once, not for each frame of each stack.
 */
raddr_t export_address(const struct export *e, const struct export_location *l);

/*
 * The executable parts of modules as rows of /proc/PID/maps, for readers that look names up there.
 */
void export_modules(FILE *out, const struct export *e);

/* A function's name for a viewer: never NULL or empty. */
const char *export_name(const struct symbol_frame *f);

/* ---- the writers --------------------------------------------------------- */

int export_heap(FILE *out, const struct export *e);
int export_pprof(FILE *out, const struct export *e);
int export_pprof_text(FILE *out, const struct export *e);
int export_jemalloc(FILE *out, const struct export *e);
int export_folded(FILE *out, const struct export *e);
int export_flamegraph(FILE *out, const struct export *e);
int export_graph(FILE *out, const struct export *e);
extern const struct export_ending graph_endings[];
int export_massif(FILE *out, const struct export *e);
int export_heaptrack(FILE *out, const struct export *e);
int export_dhat(FILE *out, const struct export *e);
int export_speedscope(FILE *out, const struct export *e);
int export_csv(FILE *out, const struct export *e);
int export_json(FILE *out, const struct export *e);
int export_html(FILE *out, const struct export *e);

#endif
