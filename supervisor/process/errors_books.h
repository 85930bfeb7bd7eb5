/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * errors_books.h - the errors of a process: one entry for each pair of stacks, with how often it
 * came. Embedded in struct process; errors.c keeps it.
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
	raddr_t address; /* this and what follows: of the first such call */
	bool resize;	 /* it was a realloc */
	/* enum wire_family: the call's; MISMATCH: the block's */
	unsigned family, gave;
	pid_t tid;
	uint32_t stack; /* 0: it was not taken */
	uint64_t ms;
	/* not of FOREIGN. `known`: who allocated the block, and when, is known */
	raddr_t block;
	uint64_t size;
	bool mapping, known;
	uint32_t block_stack;
	pid_t block_tid;
	uint64_t block_ms;
	/* DOUBLE: the first release; stack 0: it was not taken */
	uint32_t freed_stack;
	pid_t freed_tid;
	uint64_t freed_ms;
	const char *place; /* FOREIGN: what is there, static */
	uint64_t count;	   /* how often at these stacks */
};

#define ERRORS_MOST	 100u /* entries */
#define ERRORS_DISMISSED 1024u
struct errors {
	struct error *error;
	size_t errors;
	size_t told;	/* the shell's: entries before it were told */
	bool unlisted;	/* there were more than ERRORS_MOST */
	uint64_t count; /* all of them, with repetitions */
	uint64_t counts[ERROR_KINDS];
	/*
	 * a cache, by hash, of pairs of stacks, the call's and the block's, that look like a
	 * mismatch and are none. NULL: there are none
	 */
	uint64_t *dismissed;
	/* how many blocks were freed that were never seen to be given */
	uint64_t unexplained;
	/* blocks freed before that time may have been given again unseen; 0: none */
	uint64_t trust_ms;
	/* until that time other threads may have given and freed blocks unseen; 0: none */
	uint64_t forked_ms;
	/* how many looks at mappings and symbols are left; when one was last added */
	unsigned looks;
	uint64_t looks_ms;
	/* the last answer of trusted(), and how many modules and hooks there were */
	bool trusted;
	size_t trusted_modules, trusted_hooks;
	size_t served; /* the session's: entries before it have stopped P, if they were to */
	/* the shell's: P stays stopped for one; `on error` is to hear of some */
	bool frozen, due;
};

#endif
