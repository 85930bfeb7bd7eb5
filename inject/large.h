/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * large.h - which addresses have blocks whose release takes a ticket, as their allocation did
 * (WIRE_ALLOC_WIDE).
 *
 * A release knows only the block's address, and that of a small block must stay cheap. So there are
 * two tables: `large` counts, in a byte for each hash, the addresses of such blocks; where it is
 * not 0, `large_at` has the addresses, in lines of WIRE_LARGE_WAYS. An address is added by whoever
 * got the block, before anybody else can have it, and taken out by whoever releases it, before the
 * real function is called: so nobody else changes its entry.
 *
 * An address whose release was not told of (nothing was recorded then) stays until it is used and
 * released again: that release takes a ticket in vain. When a line is full the byte becomes
 * WIRE_LARGE_FULL for good: each release with that hash takes a ticket, needed or not. So no ticket
 * is ever missing.
 */
#ifndef MTRUN_LARGE_H
#define MTRUN_LARGE_H

#include <stdbool.h>

#include "wire.h"

static inline void large_count(uint8_t *at, int by)
{
	uint8_t n = __atomic_load_n(at, __ATOMIC_RELAXED);

	while (n != WIRE_LARGE_FULL &&
	       !__atomic_compare_exchange_n(at, &n, (uint8_t)(n + by), true, __ATOMIC_ACQ_REL,
					    __ATOMIC_RELAXED))
		;
}

static inline uint64_t *large_line(struct wire_process *p, uint32_t hash)
{
	return p->large_at[hash / WIRE_LARGE_HASHES];
}

static inline void large_add(struct wire_process *p, uint64_t address)
{
	uint32_t hash = wire_large_hash(address);
	uint64_t *way = large_line(p, hash);

	for (int i = 0; i < WIRE_LARGE_WAYS; i++)
		if (__atomic_load_n(&way[i], __ATOMIC_RELAXED) == address)
			return;
	for (int i = 0; i < WIRE_LARGE_WAYS; i++) {
		uint64_t none = 0;

		if (!__atomic_load_n(&way[i], __ATOMIC_RELAXED) &&
		    __atomic_compare_exchange_n(&way[i], &none, address, false, __ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED)) {
			large_count(&p->large[hash], 1);
			return;
		}
	}
	__atomic_store_n(&p->large[hash], WIRE_LARGE_FULL, __ATOMIC_RELEASE);
}

static __attribute__((__noinline__, __unused__)) bool large_take_found(struct wire_process *p,
								       uint64_t address)
{
	uint32_t hash = wire_large_hash(address);
	uint64_t *way = large_line(p, hash);

	for (int i = 0; i < WIRE_LARGE_WAYS; i++)
		if (__atomic_load_n(&way[i], __ATOMIC_RELAXED) == address) {
			__atomic_store_n(&way[i], 0, __ATOMIC_RELEASE);
			large_count(&p->large[hash], -1);
			return true;
		}
	return __atomic_load_n(&p->large[hash], __ATOMIC_RELAXED) == WIRE_LARGE_FULL;
}

/* Takes ADDRESS out, if it is in. Whether its release takes a ticket. */
static inline bool large_take(struct wire_process *p, uint64_t address)
{
	return __builtin_expect(__atomic_load_n(&p->large[wire_large_hash(address)],
						__ATOMIC_RELAXED) != 0,
				0) &&
	       large_take_found(p, address);
}

/* TO's tables, which are empty, become FROM's. Only lines that are in use are touched. */
static inline void large_copy(struct wire_process *to, const struct wire_process *from)
{
	for (uint32_t hash = 0; hash < WIRE_LARGE; hash++) {
		to->large[hash] = from->large[hash];
		if (to->large[hash])
			for (int i = 0; i < WIRE_LARGE_WAYS; i++)
				large_line(to, hash)[i] =
					from->large_at[hash / WIRE_LARGE_HASHES][i];
	}
}

static inline void large_clear(struct wire_process *p)
{
	for (uint32_t hash = 0; hash < WIRE_LARGE; hash++) {
		if (!p->large[hash])
			continue;
		p->large[hash] = 0;
		for (int i = 0; i < WIRE_LARGE_WAYS; i++)
			large_line(p, hash)[i] = 0;
	}
}

#endif
