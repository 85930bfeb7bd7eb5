/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * profile.h - what stacks hold at one moment: the one form that every report is made from, wherever
 * the numbers come from (a ledger now, at its peak or at a time in between, a snapshot, the
 * difference of two of them; later files, logs). A copy: it stays as it was while the target runs
 * on. Caller's storage, profile_release() frees.
 */
#ifndef MTRUN_PROFILE_H
#define MTRUN_PROFILE_H

#include "base/types.h"

struct profile_row {
	uint32_t stack;
	uint32_t thread;     /* tid; 0 unless PROFILE_THREADS */
	uint64_t block;	     /* the size of each of its blocks; 0 unless PROFILE_SIZES */
	int64_t size, count; /* live */
	uint64_t total_size, total_count, temporary; /* since the start; 0 unless `has_totals` */
	/* the usable size of those blocks (usable.h); 0 unless `has_usable` */
	int64_t usable;
	/* of a difference: the live bytes at the earlier moment, `size` being what came since */
	int64_t before;
	int64_t count_before;
	double variance; /* of `size`, in bytes squared; 0: `size` is exact, or not `has_variance` */
};

struct profile {
	uint64_t ms;	   /* the moment, since tracing began */
	uint64_t since_ms; /* of a difference: the earlier moment */
	bool has_totals, has_usable, is_difference;
	bool estimated;	   /* from samples, already scaled up (weights.h) */
	bool has_variance; /* of these it is known how far off they may be */
	uint64_t peak; /* of a ledger when it was copied: the highest sum of sizes so far, bytes */
	uint64_t peak_ms; /* when that was, since tracing began */
	size_t count, room;
	struct profile_row *row; /* one for each stack (thread, block size) */
};

/* An empty profile with memory for ROOM rows, allocated in advance. 0 or -ENOMEM. */
int profile_reserve(struct profile *p, size_t room) MUST_USE;
/* Of the sizes and of the counts of all rows: views may multiply them a little. */
#define PROFILE_SUM_MOST (INT64_MAX / 1024)
/* Completes a profile: sorts its rows by stack, and bounds them so that no sum overflows. */
void profile_settle(struct profile *p);

/* Its rows in the order of their stacks. */
void profile_sort(struct profile *p);

/* TO is empty; it may have room. 0 or -ENOMEM */
int profile_copy(struct profile *to, const struct profile *from) MUST_USE;
/*
 * P becomes what has come since BEFORE (less: negative), stack by stack; both by stack alone, and
 * may be sorted here. 0 or -ENOMEM.
 */
int profile_subtract(struct profile *p, struct profile *before) MUST_USE;
/* Of a difference: what holds as much as before is left out. */
void profile_drop_unchanged(struct profile *p);
/*
 * P is of samples, one for each PERIOD bytes (0: not known), and of sums alone: how far off these are
 * is reckoned as if all blocks of a stack had been sampled, and had one size.
 */
void profile_reckon_variance(struct profile *p, uint64_t period);
/* Sizes, counts and totals of all rows. */
struct profile_row profile_sum(const struct profile *p);
size_t profile_holding(const struct profile *p); /* how many rows hold blocks */
void profile_release(struct profile *p);

#endif
