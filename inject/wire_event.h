/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * wire_event.h - what the hooks tell (see wire.h): events, the counters that order those on one
 * address, and which of them are left out while sampling.
 */
#ifndef MTRUN_WIRE_EVENT_H
#define MTRUN_WIRE_EVENT_H

#include <stdint.h>

/*
 *  63         52 51   47 46                            0
 * +-------------+-------+-------------------------------+
 * | seq 0..11   | kind  | address                       |   a
 * +-------------+-------+---------------+---------------+
 * | stack (24)          | size (24)     | seq 12..27    |   b
 * +---------------------+---------------+---------------+
 *  63                 40 39           16 15            0
 * A wide event is followed by one more 16-byte slot:  { size or length (64) , ticket (64) }.
 *
 * The size field of a block's event, ALLOC to GONE:
 *
 *   23   22      14 13  12 11       0
 * +----+----+------+------+----------+
 * | S  | C  |  0   |family| size     |    ALLOC, BECAME. Of the wide forms `size` is 0
 * +----+----+------+------+----------+
 * | 0  | L  |  0   |family|        F |    FREE, LEAVE, GONE
 * +----+----+------+------+----------+
 * family: enum wire_family. S, C: WIRE_SAMPLED, _COUNTED. L, F: WIRE_LATER, _FROM_LIBC.
 */
struct wire_event {
	uint64_t a, b;
};
_Static_assert(sizeof(struct wire_event) == 16, "an event is 16 bytes");

enum wire_kind {
	WIRE_NONE,
	/*
	 * b: the beacon's ms. Before the first event of a thread in a new millisecond. No counter
	 */
	WIRE_TIME,
	/* address: tid; the slot has a new owner. No counter. Always the owner's first event */
	WIRE_THREAD,
	WIRE_ALLOC,	 /* address, size, stack */
	WIRE_ALLOC_WIDE, /* address, stack; size >= WIRE_WIDE; second slot {size, ticket} */
	/*
	 * address; size field: WIRE_FROM_LIBC; stack: the freeing stack or 0. It is there where
	 * free_stacks asks for it, and where the release looked wrong to the hook (hint.h)
	 */
	WIRE_FREE,
	WIRE_FREE_WIDE, /* as FREE; second slot {0, ticket} */
	/* realloc is about to be called for this address; stack: where it looked wrong, or 0 */
	WIRE_LEAVE,
	/*
	 * realloc gave this address (takes this address' counter); size, stack. Ends the thread's
	 * LEAVE
	 */
	WIRE_BECAME,
	WIRE_BECAME_WIDE, /* address, stack; second slot {size, ticket} */
	/* realloc failed: the block of LEAVE (same address, its counter again) is as it was */
	WIRE_STAYED,
	/*
	 * realloc(p, 0) freed it: as STAYED, but the block is gone; stack: where free_stacks asks
	 * for it
	 */
	WIRE_GONE,
	/*
	 * mappings: no address counter, ordered by their tickets alone; always two slots, {length,
	 * ticket}; `size` field: protection, flags
	 */
	WIRE_MAP,	   /* mmap gave address; size field: WIRE_PROT_* | WIRE_MAP_*; stack */
	WIRE_UNMAP,	   /* munmap of address is about to be called */
	WIRE_UNMAP_FAILED, /* munmap failed: what UNMAP took out is put back */
	WIRE_REMAP_LEAVE,  /* mremap of address (old length) is about to be called */
	/* mremap gave address, new length; stack. Ends the thread's REMAP_LEAVE */
	WIRE_REMAP,
	WIRE_REMAP_FAILED, /* mremap failed: what REMAP_LEAVE took out is put back */
	/* mprotect(address, length, size field: WIRE_PROT_*) succeeded; stack */
	WIRE_PROTECT,
	/* the program's own brk/sbrk: address = the new break, length = the old one; stack */
	WIRE_BREAK,
	/* b: the period of this thread's samples from here on. No counter */
	WIRE_PERIOD,
	WIRE_KINDS
};

/*
 * The family of the function that gives or takes a block. What one family gave, the same family is
 * to take.
 */
enum wire_family {
	FAMILY_HEAP,  /* malloc, calloc, memalign, .., realloc; free */
	FAMILY_NEW,   /* operator new; operator delete */
	FAMILY_ARRAY, /* operator new[]; operator delete[] */
	/* not to be judged: --hook's, and operators of allocators and programs */
	FAMILY_ANY
};
#define WIRE_FAMILY_SHIFT 12 /* in the size field */

#define WIRE_WIDE 4096u /* sizes from here on take a ticket, and a second slot */
/* FREE: called from inside libc (thread exit frees its cached chunks again) */
#define WIRE_FROM_LIBC 1u
/* ALLOC*, BECAME*: the block stands for others, too (see below) */
#define WIRE_SAMPLED (1u << 23)
/* ALLOC*, BECAME*: the hook has counted its address in wire_process.known */
#define WIRE_COUNTED (1u << 22)
/* FREE*, LEAVE, while sampling: the block is not what its thread has allocated last */
#define WIRE_LATER	(1u << 22)
#define WIRE_FLAGS	(WIRE_SAMPLED | WIRE_COUNTED) /* what sampling adds */
#define WIRE_PROT_READ	1u			      /* as PROT_* */
#define WIRE_PROT_WRITE 2u
#define WIRE_PROT_EXEC	4u
#define WIRE_MAP_ANON	8u
#define WIRE_MAP_SHARED 16u

#define WIRE_ADDRESS_BITS 47
#define WIRE_ADDRESS_MASK ((1ull << WIRE_ADDRESS_BITS) - 1)
/*
 * FREE, LEAVE: stands for whatever address has more bits than that. Nothing is ever mapped there:
 * the kernel leaves out the last page below 2^47 (TASK_SIZE_MAX).
 */
#define WIRE_BEYOND	(WIRE_ADDRESS_MASK + 1 - 4096)
#define WIRE_SEQ_BITS	28
#define WIRE_SEQ_MASK	((1u << WIRE_SEQ_BITS) - 1)
#define WIRE_STACK_BITS 24

static inline uint64_t wire_told(uint64_t address)
{
	return address > WIRE_ADDRESS_MASK ? WIRE_BEYOND : address;
}

static inline struct wire_event wire_pack(enum wire_kind kind, uint64_t address, uint32_t seq,
					  uint32_t size, uint32_t stack)
{
	struct wire_event e = {
		.a = (address & WIRE_ADDRESS_MASK) | (uint64_t)kind << 47 | (uint64_t)seq << 52,
		.b = (uint64_t)stack << 40 | (uint64_t)(size & 0xffffff) << 16 |
		     ((seq >> 12) & 0xffff),
	};
	return e;
}
static inline enum wire_kind wire_kind(struct wire_event e)
{
	return (enum wire_kind)(e.a >> 47 & 31);
}
static inline uint64_t wire_address(struct wire_event e) { return e.a & WIRE_ADDRESS_MASK; }
static inline uint32_t wire_seq(struct wire_event e)
{
	return (uint32_t)(e.a >> 52) | (uint32_t)(e.b & 0xffff) << 12;
}
static inline uint32_t wire_size(struct wire_event e)
{
	return (uint32_t)(e.b >> 16) & (WIRE_WIDE - 1);
}
static inline enum wire_family wire_family(struct wire_event e)
{
	return (enum wire_family)(e.b >> (16 + WIRE_FAMILY_SHIFT) & 3);
}
static inline uint32_t wire_flags(struct wire_event e)
{
	return (uint32_t)(e.b >> 16) & WIRE_FLAGS;
}
static inline uint32_t wire_stack(struct wire_event e) { return (uint32_t)(e.b >> 40); }
static inline int wire_is_wide(enum wire_kind k)
{
	return k == WIRE_ALLOC_WIDE || k == WIRE_FREE_WIDE || k == WIRE_BECAME_WIDE ||
	       (k >= WIRE_MAP && k <= WIRE_BREAK);
}
static inline int wire_has_counter(enum wire_kind k) { return k >= WIRE_ALLOC && k <= WIRE_GONE; }

/*
 * Which counter an address takes its numbers from. Counters start at 0; the first event of a
 * counter has seq 0. The counters of neighbouring addresses are spread: side by side in one line
 * they make a server of eight threads 10 % cheaper, but frees by other threads cost up to half as
 * much again.
 */
#define WIRE_COUNTERS 4096u
static inline uint32_t wire_counter(uint64_t address)
{
	return (uint32_t)((address >> 4) * 0x9e3779b1u >> 20 & (WIRE_COUNTERS - 1));
}

/*
 * Sampling. With wire_process.sample (a period, in bytes; 0: every block is told of) a thread
 * counts down the bytes that are asked for, from an exponentially distributed random number with
 * that mean. The block that uses it up is told of, as WIRE_SAMPLED; of the others there is no event
 * and no number, and their release is told of only where it cannot be excluded that the supervisor
 * knows the block:
 *
 * `known` counts, by a hash of their addresses, blocks that the supervisor knows. The hook adds the
 * block before its ALLOC or BECAME (WIRE_COUNTED), the supervisor takes it out when it has applied
 * the release. So an entry is never too small, and a release is left out where it is 0. Blocks that
 * were told of before sampling began are added by the supervisor, which sets `filter` when all are
 * in: until then every release is told of. A hook counts what it tells of whenever `sample` is set
 * at that moment, whatever it was when the call began; with the thread's mark WIRE_BUSY, so that
 * the supervisor can know when those that had seen 0 are done.
 *
 * Until the supervisor has applied it a release leaves its block in `known`, and such an address
 * comes again at once: `released` has, for each counter, the address of the FREE told of last, or 0
 * once an allocation was told of. A FREE stores it before the real function is called, so an
 * address found there is one that the supervisor does not know.
 */
/*
 * the longest period: a block of one byte then stands for as many as a count in the timeline can
 * hold
 */
#define SAMPLE_MAX	(1ull << 30)
#define WIRE_KNOWN	(1u << 18)
#define WIRE_KNOWN_FULL 255u /* cannot be told any more: stays */
static inline uint32_t wire_known(uint64_t address)
{
	/* neighbours stay neighbours; entry.S has the same */
	return (uint32_t)(address >> 4 ^ address >> 22) & (WIRE_KNOWN - 1);
}
static inline void wire_known_add(uint8_t *known, uint64_t address)
{
	uint8_t *at = &known[wire_known(address)], n = __atomic_load_n(at, __ATOMIC_RELAXED);
	while (n != WIRE_KNOWN_FULL &&
	       !__atomic_compare_exchange_n(at, &n, (uint8_t)(n + 1), 0, __ATOMIC_SEQ_CST,
					    __ATOMIC_RELAXED))
		;
}
static inline void wire_known_take(uint8_t *known, uint64_t address)
{
	uint8_t *at = &known[wire_known(address)], n = __atomic_load_n(at, __ATOMIC_RELAXED);
	while (n && n != WIRE_KNOWN_FULL &&
	       !__atomic_compare_exchange_n(at, &n, (uint8_t)(n - 1), 0, __ATOMIC_SEQ_CST,
					    __ATOMIC_RELAXED))
		;
}

#endif
