/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * capture_make.h - how a capture is made, step by step: for session/capturing.c, which sees to it
 * that the process stands still where that is asked for. Functions return 0 or -errno.
 */
#ifndef MTRUN_CAPTURE_MAKE_H
#define MTRUN_CAPTURE_MAKE_H

#include "memory/capture.h"
#include "memory/copy.h"
#include "memory/pages.h"

struct ledger;
struct glibc_malloc;
struct process;

/*
 * Nothing is in it. NULL: out of memory. INTERRUPTED(CTX), if not NULL, ends what takes long with
 * -EINTR when it is true.
 */
struct capture *capture_new(bool (*interrupted)(void *ctx), void *ctx) MUST_USE;
void capture_free(struct capture *c);
/* As it was then, but for its way and pause. */
void capture_clear(struct capture *c);

/* The ranges that P has now. */
int capture_ranges(struct capture *c, const struct process *p) MUST_USE;
/* Registers; VECTOR[BYTES] is copied. */
int capture_thread(struct capture *c, pid_t tid, const struct user_regs_struct *general,
		   const void *vector, size_t bytes) MUST_USE;
/* Their names, which may be asked for when they run again. */
void capture_names(struct capture *c, pid_t pid);
/* The live blocks of L, as they are now. */
int capture_blocks(struct capture *c, struct ledger *l, uint64_t ms) MUST_USE;

/*
 * Those that glibc's heaps hold beside them, G being where its allocator is: they were there before
 * recording began. -ENOTSUP: not all of them can be told.
 */
int capture_before(struct capture *c, const struct glibc_malloc *g) MUST_USE;

/*
 * They are copied from process PID, while nobody writes them; at most MOST bytes: -E2BIG. Or they
 * are read there, when somebody asks for them.
 */
int capture_copy(struct capture *c, pid_t pid, uint64_t most) MUST_USE;
int capture_read_there(struct capture *c, pid_t pid) MUST_USE;

#endif
