/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * errors_books.h - what a process has freed wrongly: each error once for its pair of stacks, and
 * how often. Embedded in struct process; errors.h keeps it.
 */
#ifndef MTRUN_ERRORS_BOOKS_H
#define MTRUN_ERRORS_BOOKS_H

#include "base/types.h"

enum error_action { ERRORS_REPORT, ERRORS_STOP, ERRORS_OFF, ERROR_ACTIONS };
extern const char *const error_action_names[ERROR_ACTIONS];

enum error_kind {
	ERROR_DOUBLE,	/* of a block that was freed before */
	ERROR_INTERIOR, /* of an address within a block, or a mapping */
	ERROR_FOREIGN,	/* of what no allocator has given */
	ERROR_MISMATCH, /* by another family than the one that gave the block */
	ERROR_KINDS
};

struct error {
	enum error_kind kind;
	raddr_t address; /* of the first such call, as is what follows */
	bool resize;	 /* it was a realloc */
	/* enum wire_family: the call's; MISMATCH: the block's */
	unsigned family, gave;
	pid_t tid;
	uint32_t stack; /* 0: was not taken */
	uint64_t ms;
	/* FOREIGN: nothing of these. `known`: by whom the block was allocated, and when */
	raddr_t block;
	uint64_t size;
	bool mapping, known;
	uint32_t block_stack;
	pid_t block_tid;
	uint64_t block_ms;
	/* DOUBLE: the first release; stack 0: was not taken */
	uint32_t freed_stack;
	pid_t freed_tid;
	uint64_t freed_ms;
	const char *place; /* FOREIGN: what is there, static */
	uint64_t count;	   /* how often at these stacks */
};

#define ERRORS_MOST	 100u /* different ones that are told apart */
#define ERRORS_DISMISSED 1024u
struct errors {
	struct error *error;
	size_t errors;
	size_t told;	/* the shell's: those before it were told */
	bool unlisted;	/* there were more of them */
	uint64_t count; /* all of them, with repetitions */
	uint64_t counts[ERROR_KINDS];
	/*
	 * pairs of stacks, the call's and the block's, of what looks like a mismatch and is not to
	 * be told; each where its hash says, until another one is put there. NULL: none
	 */
	uint64_t *dismissed;
	/* frees of what was never seen: not all that is allocated is known */
	uint64_t unexplained;
	/* a block that was freed before then may have been used again unseen; 0: none */
	uint64_t trust_ms;
	/* 0: none. Until then other threads may have given and freed blocks unseen */
	uint64_t forked_ms;
	/* at mappings and symbols: how many more are left, when one was added last */
	unsigned looks;
	uint64_t looks_ms;
	/* trusted(), for so many modules and hooks */
	bool trusted;
	size_t trusted_modules, trusted_hooks;
	size_t served; /* the session's: those before it have stopped P, if they are to */
	/* the shell's: P stays stopped for one; `on error` is to hear of some */
	bool frozen, due;
};

#endif
