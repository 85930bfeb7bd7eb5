/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * shared.h - the trust boundary: memory that a target can write, and what it says there about
 * itself. Every reading of it goes by these functions, or is one copy of one word by those who own
 * what it means (stream.c, limit.c, nodes.c, cfi.c), which check it before they use it. shared.c
 * says what an attacker can do with each field.
 */
#ifndef MTRUN_SHARED_H
#define MTRUN_SHARED_H

#include "base/types.h"
#include "inject/wire.h"

/* The process part of an agent, mapped here. Embedded in struct process. */
struct shared {
	struct wire_beacon *beacon; /* NULL: none (any more) */
	/* in the same; of `thread` only as many as `slots` may be touched */
	struct wire_process *wire;
	uint32_t slots;
	struct wire_big *big; /* so many of them are mapped */
	uint32_t bigs;
};

/*
 * Takes hold of the memory file that the target has just made as its descriptor NUMBER: an
 * unlinked, empty, unsealed one that the target itself may write. What it is really is looked at,
 * NUMBER is only the target's word. It gets SIZE bytes, and can neither lose nor gain any from then
 * on. Returns a descriptor or -errno; -EPERM: it is none.
 */
int shared_take(pid_t pid, int64_t number, uint64_t size) MUST_USE;

/*
 * Maps FD, with SLOTS threads. 0 or -errno. Its other fields are zeros, as far as the target has
 * left them so.
 */
int shared_map(struct shared *s, int fd, uint32_t slots) MUST_USE;
void shared_unmap(struct shared *s);
/*
 * Process PID has something else where its process part was, at WHERE: it has replaced its mapping,
 * or never had this one.
 */
bool shared_is_lost(const struct shared *s, pid_t pid, raddr_t where) MUST_USE;

/* How many slots there are to be looked at, all of them mapped: WIRE_THREADS at most. */
uint32_t shared_slots(struct shared *s);
uint32_t shared_slots_mapped(const struct shared *s); /* those of them that are mapped already */

/* How many events the ring that SLOT uses now can hold. */
uint32_t shared_ring_size(const struct shared *s, uint32_t slot);
/*
 * How far SLOT, of which TAKEN events were taken, has been written, in *HEAD. False: the others
 * cannot be looked at, as there is no memory for that.
 */
bool shared_ring_head(struct shared *s, uint32_t slot, uint64_t taken, uint64_t *head);
/*
 * Copies N events of SLOT, from number AT on; those that are nowhere are WIRE_NONE. After
 * shared_ring_head(), and not past what that said.
 */
void shared_events(const struct shared *s, uint32_t slot, uint64_t at, struct wire_event *to,
		   uint32_t n);
/* The thread of SLOT is gone and its events were taken: the slot is another's, and its memory. */
void shared_slot_free(struct shared *s, uint32_t slot);

/* A question that a thread has asked: a copy, which the thread cannot change any more. */
struct shared_question {
	struct wire_mail *mail; /* to be answered there */
	uint32_t slot;
	uint32_t asked; /* the mailbox' state with its turn, for agent_answer() */
	uint32_t what;	/* anything; enum wire_what, if the target is honest */
	pid_t tid;	/* as the target says */
	uint64_t arg[5];
};
/* The next one from slot *SLOT on, which starts at 0. False: there is none. */
bool shared_question(struct shared *s, uint32_t *slot, struct shared_question *q);

#endif
