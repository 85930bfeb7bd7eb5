/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * wire_thread.h - what a thread of the target has (see wire.h): its slot and ring, and the stacks
 * that it remembers.
 */
#ifndef MTRUN_WIRE_THREAD_H
#define MTRUN_WIRE_THREAD_H

#include <stddef.h>
#include <stdint.h>

#include "wire_event.h"
#include "wire_mail.h"
#include "wire_stack.h"

#define WIRE_BUSY 1ull /* of wire_thread.mark */

/* Stacks for hooks whose thread's own stack may have no room: at most 32, a bit for each. */
#define WIRE_STACKS	32u
#define WIRE_STACK_SIZE 8192u /* bytes */

#define WIRE_RING    8192u /* events; a power of two */
#define WIRE_SMALL   256u  /* of the ring that a thread begins with */
#define WIRE_THREADS 8192u /* slots, taken from the lowest free one */
#define WIRE_BIGS    2048u /* those without go on in their small rings */
/*
 * The first WIRE_WHOLE_RINGS big ones use their whole ring, the others WIRE_PART_RING events of it.
 * So 64 busy threads have 5.7 MB of our memory instead of 10.6, at the same cost; 256 have 19 MB
 * instead of 42, and a pair costs 138 ns instead of 113, as they take turns on two processors more
 * often.
 */
#define WIRE_WHOLE_RINGS 12u
#define WIRE_PART_RING	 (WIRE_RING / 4)
#define WIRE_FINDER	 16384u /* entries of wire_process.finder */

enum { NEEDS_RBP = 1, NEEDS_RSP = 2 }; /* wire_frame.needs */
/* One frame of the thread's last stack (inject/walk.c tells how they are used). */
struct wire_frame {
	uint64_t slot;		/* where its pc was found */
	uint64_t pc;		/* the pc; WIRE_PC_EXACT if it was interrupted */
	uint64_t rbp;		/* rbp in that frame */
	uint32_t node;		/* 0: not known */
	uint16_t checks;	/* entries of `check` before this frame's own */
	uint8_t own_checks : 4; /* this frame's own: 1 to 3 */
	/* what decides what lies further out, besides slot and pc: NEEDS_* */
	uint8_t needs : 4;
	uint8_t rbp_use; /* while walking: what the frame's rule does with rbp */
	union {
		/* while walking: where the caller's rbp was loaded from; 0: it is the same */
		uint64_t rbp_slot;
		uint64_t path; /* remembered: the hash of its path */
	};
	/*
	 * while walking: where rsp was loaded from (signal frames, re-aligned stacks), 0: nowhere
	 */
	uint64_t rsp_slot;
	uint64_t rsp_word; /* what was there; kept where rsp decides */
};
/* the remembered stack holds as long as *slot == value */
struct wire_check {
	uint64_t slot, value;
};
struct wire_range {
	uint64_t lo, hi;
}; /* stack pages known to be readable */
#define WIRE_RANGES	4
#define WIRE_CHECKS	(2 + 3 * WIRE_DEPTH)
#define WIRE_STALE_SHOW 2u

/*
 * Whole stacks that were seen more than once, of one thread, and the tree by which one is found
 * (inject/whole.h tells how they are used). The stacks stand one behind the other in a log; a ref
 * names one by its place there, or with WIRE_IS_FORK a fork of the tree; 0: nothing.
 */
#define WIRE_WHOLE_WORDS 128u	/* of one stack, at most; a multiple of four */
#define WIRE_WHOLE_LOG	 32768u /* words; of those behind WIRE_WHOLE_RINGS a quarter */
#define WIRE_WHOLE_UNIT	 4u	/* a stack begins at a multiple of so many words */
#define WIRE_WHOLE_SEEN	 512u
#define WIRE_STARTS	 512u
#define WIRE_FORKS	 1024u
#define WIRE_FORK_KIDS	 13u
#define WIRE_IS_FORK	 0x8000u
/* Followed by `words` / 4 words of offsets, four of 16 bits each, and by `words` values. */
struct wire_whole {
	uint64_t slot, pc, rbp; /* where it starts; slot 0: nothing */
	uint32_t node;
	uint16_t words; /* innermost first; a multiple of four */
	uint16_t reach; /* so many words above `slot` its highest one is */
	uint8_t needs_rbp, truncated, pad[6];
};
#define WIRE_WHOLE_HEAD (sizeof(struct wire_whole) / 8) /* in words */
_Static_assert(sizeof(struct wire_whole) == 40, "a whole stack's head is 40 bytes");
/* Stacks that have the same words up to a place, where they differ. */
struct wire_fork {
	uint16_t word;	/* in words above the start; or FORK_RBP, FORK_START: rbp, the start */
	uint16_t shift; /* by which a value's hash says the kid */
	uint16_t any;	/* the ref of a stack behind it */
	uint16_t kid[WIRE_FORK_KIDS];
};
_Static_assert(sizeof(struct wire_fork) == 32, "two forks are a line");
/* The stacks whose slot and pc have one hash. */
struct wire_start {
	uint16_t ref;
	int8_t luck; /* goes up with hits; below 0: these stacks are passed by that many times */
	uint8_t pad;
};

struct wire_thread {
	/* written by the owner; what every hook reads is in this line */
	/*
	 * thread pointer; 0 never used, 1 was used. Set to 1 by the supervisor at the thread's end
	 */
	uint64_t fs;
	/* entry rsp of the outermost hook | WIRE_BUSY while it keeps books; 0: outside */
	uint64_t mark;
	uint64_t head;	/* events written so far; see wire_event_at() */
	uint64_t until; /* `head` may come to this without another look at `tail` */
	/*
	 * the ring in use: how far behind `small` it is, in bytes, and its events - 1. 0: not yet
	 */
	uint64_t ring;
	uint32_t mask;
	uint32_t ms;	 /* of its last time event */
	uint64_t memory; /* the address, in the target, of `big`; 0: it has none */
	uint32_t flush;	 /* wire_process.flush at its last walk that was remembered; 0: none was */
	uint32_t depth;	 /* valid entries of `last` */
	/* written by the supervisor */
	uint64_t tail; /* offset 64: events taken so far */
	uint64_t pad1[7];
	/* futex: the owner sleeps until `tail` moves; the supervisor sets 0 and wakes */
	uint32_t waiting;
	/*
	 * 1: `range` may name what cannot be read any more, and is to be forgotten; or
	 * WIRE_STALE_SHOW
	 */
	uint32_t stale;
	/* stacks of this thread that end in [truncated]; of these, deeper than was asked for */
	uint32_t truncated, deep;
	uint32_t lost; /* events that could not be written */
	struct wire_range range[WIRE_RANGES];
	uint64_t countdown; /* bytes until the next sample, at least 1 */
	uint64_t sample;    /* the period that it was drawn for */
	uint32_t tid;
	/* which of the big ones is its own, counted from 1; 0: none. `moved` is stored before */
	uint32_t big;
	uint64_t moved;			     /* `head` then: events from there on are in it */
	_Alignas(64) uint64_t given;	     /* by the supervisor; these three: see ASK_ROOM */
	uint64_t charged, settled, credited; /* by the owner */
	/* `head` when it last asked: blocks since have been charged */
	uint64_t asked;
	/* what `charged` becomes if what was given is enough; stored before `given` is looked at */
	uint64_t charging;
	/* where the event of what is charged goes: stored once `head` is above it */
	uint64_t settles;
	_Alignas(64) uint64_t waited; /* microseconds that it waited for the reader */
	uint64_t random;	      /* state of its random numbers; 0: not yet */
	uint64_t drawn;		      /* `countdown` when the last sample was taken */
	uint64_t told;		      /* the block told of last while sampling */
	uint32_t base_truncated;      /* the remembered stack ends in [truncated] */
	/* operator new(0) was called: the malloc(1) that follows is of 0 bytes */
	uint32_t new_zero;
	/* of `signal` that its handlers have taken and not filled yet */
	uint32_t places;
	uint32_t ranges_turn;  /* counts changes of `range`; odd: one is under way */
	uint32_t gave_up;      /* it has waited for mtrun for too long (patience.c), */
	uint64_t gave_up_tail; /* when `tail` was this */
	/* its share of wire_process.calls: its own handler does not wait for them */
	uint32_t calls;
	_Alignas(64) struct wire_mail mail;
	_Alignas(64) struct wire_event small[WIRE_SMALL];
	uint64_t pc[WIRE_DEPTH]; /* of a walk that is not remembered, innermost first */
	uint8_t pad2[2560];
};
_Static_assert(sizeof(struct wire_thread) == 16384, "slots are whole pages");
_Static_assert(offsetof(struct wire_thread, tail) == 64, "the first line is full");

/* What a thread has besides its slot once it has written WIRE_SMALL events. */
struct wire_big {
	_Alignas(4096) struct wire_event ring[WIRE_RING];
	/* where the walk ended, then outermost frame's first */
	struct wire_check check[WIRE_CHECKS];
	struct wire_frame last[WIRE_DEPTH];  /* outermost first */
	struct wire_frame fresh[WIRE_DEPTH]; /* the walk under way, innermost first */
	/* in the order in which they are touched: a thread of few stacks has little of it */
	uint32_t whole_seen[WIRE_WHOLE_SEEN]; /* nodes of stacks that were walked lately */
	struct wire_start start[WIRE_STARTS];
	uint32_t hits;	 /* stacks found since the log was empty */
	uint32_t rest;	 /* so many walks more no stack is kept */
	uint32_t forks;	 /* so many are in use, without the first one, which is none */
	uint32_t logged; /* units of the log in use, without the first one, which is none */
	/* wherever in it a stack begins, its words are in here */
	uint64_t log[WIRE_WHOLE_LOG + WIRE_WHOLE_HEAD + 3 * WIRE_WHOLE_WORDS];
	_Alignas(64) struct wire_fork fork[WIRE_FORKS];
};

/* Events that the ring of the BIGth big one holds, counted from 1; a power of two. */
static inline uint32_t wire_ring_size(uint32_t big)
{
	return big <= WIRE_WHOLE_RINGS ? WIRE_RING : WIRE_PART_RING;
}

/* Where T's event of number N is; BIG: the first of the big ones. N is below T's head. */
static inline struct wire_event *wire_event_at(struct wire_thread *t, struct wire_big *big,
					       uint64_t n)
{
	return t->big && n - t->moved < 1ull << 63
		       ? &big[t->big - 1].ring[n & (wire_ring_size(t->big) - 1)]
		       : &t->small[n & (WIRE_SMALL - 1)];
}
static inline uint32_t wire_finder_hash(uint64_t fs)
{
	return (uint32_t)((fs >> 6) * 0x9e3779b1u >> 16 & (WIRE_FINDER - 1));
}

#endif
