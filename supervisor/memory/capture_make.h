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

struct block_list;
struct ledger;
struct glibc_malloc;
struct protect;

/*
 * Nothing is in it. NULL: out of memory. INTERRUPTED(CTX), if not NULL, ends what takes long with
 * -EINTR when it is true.
 */
struct capture *capture_new(bool (*interrupted)(void *ctx), void *ctx) MUST_USE;
void capture_free(struct capture *c);
/* No threads, blocks and ranges are in it. */
void capture_clear(struct capture *c);

/* The ranges that process PID has now; its agent's, at AGENT, are left out. */
int capture_ranges(struct capture *c, pid_t pid, raddr_t agent) MUST_USE;
/* Registers; VECTOR[BYTES] is copied. */
int capture_thread(struct capture *c, pid_t tid, const struct user_regs_struct *general,
		   const void *vector, size_t bytes) MUST_USE;
/* Their names, which may be asked for when they run again. */
void capture_names(struct capture *c, pid_t pid);
/*
 * It is MS, as of which L has the blocks. Those that a realloc is at work on are left out: whether
 * they live is not known.
 */
int capture_instant(struct capture *c, const struct ledger *l, uint64_t ms) MUST_USE;
/*
 * The blocks are those of LIST, sorted, which was begun then: they take its memory, and nothing is
 * in it any more. SAMPLED: they stand for others.
 */
int capture_blocks(struct capture *c, struct block_list *list, bool sampled) MUST_USE;

/*
 * Those that glibc's heaps hold beside them, G being where its allocator is: they were there before
 * recording began. -ENOTSUP: not all of them can be told.
 */
int capture_before(struct capture *c, const struct glibc_malloc *g) MUST_USE;

/*
 * Pages are read in process PID, which nobody else writes meanwhile: by capture_next(), when
 * somebody asks for them; or to be copied. QUICK: as in struct memory.
 */
int capture_open(struct capture *c, pid_t pid, bool quick) MUST_USE;
/* How many bytes are there to be read. */
int capture_measure(struct capture *c, uint64_t *bytes) MUST_USE;
/* A copy of at most MOST bytes; nothing is in it. */
int capture_begin_copy(struct capture *c, uint64_t most) MUST_USE;
/* It may have so many from now on. */
void capture_allow(struct capture *c, uint64_t most);
/* About BYTES more will come into it, by capture_copy() or the first round. */
void capture_expect(struct capture *c, uint64_t bytes);
/* What is not in the copy comes into it, and the process is not needed any more. -E2BIG */
int capture_copy(struct capture *c) MUST_USE;
/*
 * It is a clone of process PID that was opened: what it has not is copied from PID, as it is now.
 * -E2BIG
 */
int capture_copy_uncloned(struct capture *c, pid_t pid) MUST_USE;

/*
 * The beginning of the first round: pieces of it, evenly over all that is there, about BYTES.
 * *WRITTEN: how many bytes a second were written for the first time since, if the rest is like most
 * of these.
 */
int capture_probe(struct capture *c, raddr_t agent, struct protect *protect, uint64_t bytes,
		  uint64_t *written) MUST_USE;
/*
 * By rounds, while the process runs: what was written since the last one is copied; the first time,
 * everything that is there. The process was opened, and is protected by PROTECT. *BYTES: how many
 * these were. *UNTRACKED: how many cannot be protected, and so are left for the last round.
 */
int capture_round(struct capture *c, raddr_t agent, struct protect *protect, uint64_t *bytes,
		  uint64_t *untracked) MUST_USE;
/* The last one: the process stands still, and its ranges were looked at for that. */
int capture_last_round(struct capture *c) MUST_USE;
/* After it, and when the process runs again: what has gone from the process is not there. */
void capture_end_rounds(struct capture *c);
/* Before that: nothing can be protected any more. */
void capture_leave(struct capture *c, struct protect *protect);

#endif
