/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * hash_index.h - numbers from 1 on, found by a hash of what they stand for, which the caller keeps:
 * open addressing, at most half full. All zeros is an empty index; hash_index_release() frees.
 */
#ifndef MTRUN_HASH_INDEX_H
#define MTRUN_HASH_INDEX_H

#include "base/secret.h"
#include "base/types.h"

struct hash_index {
	struct hash_slot {
		uint32_t hash, number; /* 0: free */
	} * slot;
	size_t size, count; /* of slots, a power of two; of numbers */
};

/*
 * The number that was added with HASH and for which IS, an expression with N in it, is true; 0:
 * there is none.
 *
 *	n = HASH_FIND(&t->names, hash_text(HASH_SEED, text), n, !strcmp(t->name[n - 1], text));
 */
#define HASH_FIND(X, HASH, N, IS)                                        \
	({                                                               \
		const struct hash_index *index_ = (X);                   \
		uint32_t hash_ = (HASH), N = 0;                          \
		if (index_->size)                                        \
			for (size_t at_ = hash_ & (index_->size - 1);    \
			     (N = index_->slot[at_].number) &&           \
			     !(index_->slot[at_].hash == hash_ && (IS)); \
			     at_ = (at_ + 1) & (index_->size - 1))       \
				;                                        \
		N;                                                       \
	})
/* NUMBER, which is not in it, with HASH. 0 or -ENOMEM: it is as it was. */
int hash_index_add(struct hash_index *x, uint32_t hash, uint32_t number) MUST_USE;
void hash_index_clear(struct hash_index *x); /* empty, with its memory */
void hash_index_release(struct hash_index *x);

/* Hashes: of a text (NULL as ""), of a number; and of several things, one after the other. */
#define HASH_SEED ((uint32_t)(secret(1) >> 32))
uint32_t hash_text(uint32_t seed, const char *text);
static inline uint32_t hash_number(uint32_t seed, uint64_t n)
{
	n = (n ^ seed) * secret(0);
	return (uint32_t)(n ^ n >> 32);
}

#endif
