/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * weights.h - what sampled blocks stand for: bytes and blocks, by address; and how that is
 * reckoned. Pure data. A zeroed struct weights is an empty one that has no memory;
 * weights_release() gives it back.
 */
#ifndef MTRUN_WEIGHTS_H
#define MTRUN_WEIGHTS_H

#include "base/types.h"

struct weight {
	uint64_t bytes, count;
};

struct weights_entry {
	raddr_t address; /* 0: free */
	struct weight weight;
};

struct weights {
	struct weights_entry *entry; /* open addressing */
	size_t mask, used;	     /* entries - 1, when there are any */
	/* odd, random: the target must not be able to choose addresses that collide */
	uint64_t factor;
	double bytes, count; /* what is left over of weights given so far */
};

void weights_release(struct weights *w);
/* TO is uninitialised storage. 0 or -ENOMEM */
int weights_copy(struct weights *to, const struct weights *from) MUST_USE;
size_t weights_memory(const struct weights *w);

/*
 * A block of SIZE bytes that was sampled with PERIOD (0: one that stands for itself alone). Bytes
 * and count are whole numbers, so that all sums agree; what rounding leaves over goes to the next
 * one, so that the sum of all is right to 1.
 */
struct weight weights_of(struct weights *w, uint64_t size, uint64_t period);

/*
 * How far what sampled blocks stand for may be off: the variance of their bytes, in bytes squared.
 * Of one block of SIZE bytes that counts for W, a whole number, so that sums of these can be taken
 * down again without a rest; 0: it stands for itself. And of all that was sampled with PERIOD and
 * counts for BYTES and COUNT, if these blocks had one size.
 */
unsigned __int128 weight_variance(struct weight w, uint64_t size);
double weights_variance(int64_t bytes, int64_t count, uint64_t period);

/* 0 or -ENOMEM */
int weights_put(struct weights *w, raddr_t address, const struct weight *weight) MUST_USE;
/* False: *WEIGHT is as it was. */
bool weights_get(const struct weights *w, raddr_t address, struct weight *weight);
void weights_take(struct weights *w, raddr_t address);

#endif
