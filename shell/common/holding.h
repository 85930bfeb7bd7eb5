/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * holding.h - where a pointer is that holds a block: a thread's register, a frame on a thread's
 * stack, a variable, memory that is nobody's.
 */
#ifndef MTRUN_HOLDING_H
#define MTRUN_HOLDING_H

#include "leaks/path.h"
#include "process/process.h"
#include "shell/common/leaking.h"

struct holding {
	const char *kind;    /* "register", "stack", "variable", "thread-local", "memory" */
	char *name;	     /* what it is called; NULL: not known */
	uint64_t offset;     /* bytes into it; without a name, into `module` */
	const char *module;  /* the file that it is in; NULL: none */
	const char *section; /* of that */
	raddr_t address;     /* 0: a register */
	pid_t thread;	     /* whose it is; 0: nobody's */
	char thread_name[64];
	struct symbol_question function; /* a frame's, whose name is still to be looked up */
};

/* STEP, the first of a path from a root. 0 or -ENOMEM; the caller releases H. */
int holding_describe(const struct leaking *l, const struct leak_step *step,
		     struct holding *h) MUST_USE;
/* The function of a frame; the loop turns meanwhile, and L is not needed. 0 or -ENOMEM. */
int holding_look_up(struct shell *shell, struct process *p, struct holding *h) MUST_USE;
void holding_release(struct holding *h);

#endif
