/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * hint.h - whether a release looks wrong, so that its stack is worth taking.
 *
 * Whether a release is an error is for the supervisor to say, which knows all blocks; but by then
 * the call is over. A stack for each release would cost as much as one for each allocation. So
 * there is a table of bytes, one for each 16 bytes of the heap, by a hash (wire_hint()). A byte
 * says what was told last of a block there:
 *
 *	7     5 4        0
 *	+------+----------+
 *	| code | tag      |	tag: of the address, as several addresses share a byte
 *	+------+----------+
 *
 * A release looks wrong if the byte does not say that the block lives and is of the family that
 * takes it. Where another address has taken the byte, nothing is known. It is only a hint: a stack
 * too many, or one that is missing. It is exact for a heap within 4 MiB; of a larger one it loses
 * what has not been used for long. Only plain stores are made, by whoever owns the block at that
 * moment.
 */
#ifndef MTRUN_HINT_H
#define MTRUN_HINT_H

#include <stdbool.h>

#include "wire.h"

/* HINT_LIVE + enum wire_family: it lives. A byte that was never written is 0. */
enum hint_code { HINT_NOTHING, HINT_FREED, HINT_LIVE };

static inline uint8_t hint_byte(uint64_t address, uint32_t code)
{
	return (uint8_t)(code << 5 | ((address >> 22 ^ address) & 31));
}

static inline void hint_store(struct wire_process *p, uint64_t address, uint8_t byte)
{
	__atomic_store_n(&p->hint[wire_hint(address)], byte, __ATOMIC_RELAXED);
}

static inline void hint_given(struct wire_process *p, uint64_t address, uint32_t family)
{
	hint_store(p, address, hint_byte(address, HINT_LIVE + family));
}

/*
 * BYTE is not that of a live block of FAMILY at ADDRESS: whether the release looks wrong. An
 * address within the 16 bytes at which a block begins lies within that block, whatever the
 * allocator.
 */
static inline bool hint_doubts(uint8_t byte, uint64_t address, uint32_t family)
{
	uint32_t code = byte >> 5;

	if (code == HINT_NOTHING)
		return true;
	if (byte != hint_byte(address, code))
		return byte == hint_byte(address & ~15ull, code);
	return code == HINT_FREED || (family != FAMILY_ANY && code != HINT_LIVE + FAMILY_ANY &&
				      code != HINT_LIVE + family);
}

/* The block at ADDRESS is about to be released by FAMILY: notes that. Whether it looks wrong. */
static inline bool hint_taken(struct wire_process *p, uint64_t address, uint32_t family)
{
	uint8_t byte = __atomic_load_n(&p->hint[wire_hint(address)], __ATOMIC_RELAXED);

	hint_store(p, address, hint_byte(address, HINT_FREED));
	return __builtin_expect(byte != hint_byte(address, HINT_LIVE + family), 0) &&
	       hint_doubts(byte, address, family);
}

#endif
