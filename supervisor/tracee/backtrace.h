/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * backtrace.h - the stack of a stopped thread, or of a thread in a capture, by libunwind's remote
 * unwinding. It makes no ptrace call: the registers are given, memory is read by patient_read() or
 * by the caller's function. A pc in a moved instruction is given as where it was moved from.
 */
#ifndef MTRUN_BACKTRACE_H
#define MTRUN_BACKTRACE_H

#include <sys/user.h>

#include "base/types.h"

struct process;

struct unwind_frame {
	raddr_t pc;  /* a pc in an island is translated to the function that it belongs to */
	raddr_t cfa; /* rsp in the caller, before its next push; 0: not known */
	/* the pc itself was about to run; otherwise it is a return address */
	bool exact;
	bool ours; /* in the trampoline */
};

/* The memory at that time: READ(CTX, ADDRESS, TO, LEN) returns how many bytes could be read. */
struct unwind_memory {
	size_t (*read)(void *ctx, raddr_t address, void *to, size_t len);
	void *ctx;
};

/*
 * All frames, at most MAX, leaf first; the trampoline's are marked `ours`. MEMORY NULL: the
 * process' own. Returns how many (at least 1), or -errno. *COMPLETE, if not NULL: whether the
 * outermost frame was reached.
 */
ssize_t unwind_frames(const struct process *p, const struct unwind_memory *memory,
		      const struct user_regs_struct *regs, struct unwind_frame *frame, size_t max,
		      bool *complete) MUST_USE;

/*
 * The program's own frames, leaf first: pc[0] is exact, the others are return addresses, or exact
 * with WIRE_PC_EXACT set where a signal interrupted. Where the thread is inside the trampoline,
 * pc[0] lies in the call that led there. Returns how many, or -errno.
 */
int unwind_stack(struct process *p, const struct user_regs_struct *regs, uint64_t *pc,
		 size_t max) MUST_USE;

/* Frees the tables of files, which are kept between calls. */
void backtrace_release(void);

#endif
