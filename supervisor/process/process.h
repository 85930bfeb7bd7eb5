/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * process.h - one supervised process: what it is, what of ours is in it, what it has told.
 * Lives from the fork or exec that made it until the session ends; exec replaces the record by a new one (the old one stays, state REPLACED).
 */
#ifndef MTRUN_PROCESS_H
#define MTRUN_PROCESS_H

#include "process/preattach_heap.h"
#include "unwind/cfi.h"
#include "session/credible.h"
#include "unwind/image.h"
#include "ledger/ledger.h"
#include "process/limit.h"
#include "process/marks.h"
#include "symbols/module.h"
#include "base/outside.h"
#include "patch/plant.h"
#include "process/sampling.h"
#include "transport/shared.h"
#include "process/snapshots.h"
#include "transport/stream.h"
#include "symbols/symbols.h"
#include "base/types.h"

enum process_state { PROCESS_RUNNING, PROCESS_STOPPED, PROCESS_HELD, PROCESS_EXITED, PROCESS_REPLACED, PROCESS_DETACHED };
const char *process_state_name(enum process_state state);	/* "running", "stopped", "exited", ... HELD is "exited" */

struct nodes;				/* nodes.h */
struct heap;				/* heap.h */
struct record;				/* log/recorder.h */
struct replay_process;			/* log/replay.h */

struct process_unseen {			/* the shell's: what is mapped without being counted, while a limit is in force */
	uint64_t checked_ms;		/* when it was looked at last */
	int64_t rest;			/* bytes of its data beyond what is counted, then */
	uint64_t base, bytes;		/* what was there at first; unaccounted bytes beyond that */
	bool begun, told;
};

struct process {
	struct process *next;		/* in order of appearance */
	pid_t pid, ppid;
	pid_t via;			/* the thread by which /proc and the memory are read: another one where the first has ended before the others */
	char *command;			/* argv[0]'s last part, as in /proc/PID/comm */
	char *exe;			/* path of the executable */
	enum process_state state;
	int wait_status;		/* as from wait(2), once EXITED */
	uint64_t began_ms, ended_ms;
	unsigned threads;		/* alive now */
	const char *unsupervised;	/* why its allocations are not known (static and stripped, ...), or NULL */

	raddr_t home;			/* 0: not planted yet */
	struct shared shared;		/* our mapping of the process part */
	uint32_t question;		/* the slot whose question is the next to be looked at */
	uint64_t filters_ms;		/* when it was looked at for a seccomp filter last */
	uint64_t refresh_after_ms;	/* it did not answer us: its libraries are not looked at before then */
	struct wire_process *wire;	/* in the same, NULL when it has none (any more) */
	struct nodes *nodes;		/* its stacks, NULL: it never had any */
	struct image *image;
	struct image_view view;		/* how much of that its own mappings show */
	struct modules modules;
	struct plant plant;
	struct ledger *ledger;		/* never NULL */
	struct stream *stream;		/* NULL until planted */
	struct outside *outside;	/* who names the files that are looked at for it; never NULL */
	struct symbols *symbols;	/* never NULL */
	uint64_t image_bytes;		/* the executable's text, as VmExe */
	struct marks marks;		/* what it said by mtrun_mark() */
	struct snapshots snapshots;
	struct process_unseen unseen;
	struct limit limit;
	struct before before;		/* -p: the heap that was there */
	struct sampling sampling;
	struct credible credible;
	bool off;			/* nothing is recorded, and its answers are of `off_ms` (off.c) */
	uint64_t off_ms;
	uint64_t recorded_ms;		/* when what is recorded of it begins: with itself, or when it was off last */
	struct ledger *deaf;		/* off: gets what still comes from hooks that were on their way; else NULL */
	bool fences;			/* membarrier(2) reaches its threads */
	bool attached;			/* it ran before we came */
	bool attaching;			/* and we are not yet in */
	bool lent;			/* another tracer has it, and is going to give it back */
	bool lent_loaded;		/* libraries came or went meanwhile */
	int pidfd;			/* to hear of its end meanwhile; 0 or -1: none */
	bool traces;			/* it traces processes, and that was said */
	bool left;			/* nothing of ours is mapped in it any more */
	uint64_t paused_us;		/* the longest that all its threads stood still to plant, or to leave */

	struct heap *heap;		/* it is what a file says of one: stacks, symbols and the only profile are in there, the ledger is empty; else NULL */
	struct replay_process *log;	/* it is what a log says of one: stacks and symbols are in there, the ledger is as it was at the end; borrowed, else NULL */

	struct record *record;		/* in the log; NULL: it was never logged */
	struct process *parent;		/* between the fork and the child's first stop: where its home comes from */
	bool ledger_used;		/* it has run as itself: the record is kept when an exec replaces it */
	struct stream_stats last_stats;	/* once `stream` is gone: what it said last, */
	int64_t missing;		/* and stream_missing() */
};

/* LEDGER: taken over, or NULL for a new one that counts COUNT (LEDGER_COUNT_*). NULL: out of memory. */
struct process *process_new(pid_t pid, pid_t ppid, unsigned count, struct ledger *ledger) MUST_USE;
/* The process that HEAP, which is taken over, tells of. NULL: out of memory. */
struct process *process_of_heap(struct heap *heap) MUST_USE;
/* The one that LOG, which is to live longer, tells of; COUNT: LEDGER_COUNT_*. NULL: out of memory. */
struct process *process_of_log(struct replay_process *log, unsigned count) MUST_USE;
void process_free(struct process *p);
void process_describe(struct process *p);	/* command, exe, image_bytes from /proc */
bool process_own_mapping(void *process, uint32_t stack);	/* for stream_new() */

/* Parent node of STACK, 0 at a root; *PC its pc. */
uint32_t process_stack_parent(const struct process *p, uint32_t stack, uint64_t *pc);
/* What process_frames() asks symbols_resolve() about: false for a pseudo-frame. */
struct symbol_question {
	const struct module *module;
	raddr_t pc;
	bool exact;
};
bool process_question(const struct process *p, uint32_t node, uint64_t pc, struct symbol_question *q);
/* `set site-skip`, as symbols_site_skip(). */
int process_site_skip(struct process *p, const char *regex, const char **error) MUST_USE;
/* Symbol frames at a node: as symbols_resolve with the module that was there. */
struct symbol_frames process_frames(struct process *p, uint32_t node, uint64_t pc);

#endif
