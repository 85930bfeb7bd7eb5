/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * shared.h - the trust boundary: memory that a target can write, and what it says there about
 * itself. It is read by these functions, or word by word by the module that a word belongs to
 * (stream.c, limit.c, nodes.c, cfi.c), which copies it once and checks the copy. shared.c says what
 * an attacker can do with each field.
 */
#ifndef MTRUN_SHARED_H
#define MTRUN_SHARED_H

#include "base/types.h"
#include "inject/wire.h"

/* The process part of an agent, mapped here. Embedded in struct process. */
struct shared {
	struct wire_beacon *beacon; /* NULL: none (any more) */
	struct wire_process *wire;  /* within the beacon's mapping */
	uint32_t slots;		    /* of `wire->thread`, that are mapped */
	struct wire_big *big;
	uint32_t bigs; /* of `big`, that are mapped */
};

/*
 * Opens the memory file that PID has just made as its descriptor NUMBER, which may be a lie: the
 * file must be unlinked, empty, unsealed and writable for the target. It gets SIZE bytes and is
 * sealed against shrinking and growing. Returns a descriptor, the caller's, or -errno; -EPERM: it
 * is no such file.
 */
int shared_take(pid_t pid, int64_t number, uint64_t size) MUST_USE;

/*
 * Maps the process part in FD (borrowed for the call), with SLOTS threads. 0 or -errno.
 * shared_unmap() ends it.
 */
int shared_map(struct shared *s, int fd, uint32_t slots) MUST_USE;
void shared_unmap(struct shared *s);
/*
 * Whether process PID has something else at WHERE, where its process part was mapped: it has
 * replaced the mapping, or never had this one.
 */
bool shared_is_lost(const struct shared *s, pid_t pid, raddr_t where) MUST_USE;

/* How many slots were ever used, at most WIRE_THREADS. Maps those that are not mapped yet. */
uint32_t shared_slots(struct shared *s);
uint32_t shared_slots_mapped(const struct shared *s); /* how many of them are mapped already */

/* How many events SLOT's present ring can hold. */
uint32_t shared_ring_size(const struct shared *s, uint32_t slot);
/*
 * *HEAD: how many events SLOT has written; TAKEN were taken. Maps its big ring if need be. False:
 * there is no memory for that.
 */
bool shared_ring_head(struct shared *s, uint32_t slot, uint64_t taken, uint64_t *head);
/*
 * Copies N events of SLOT, from number AT on; not past what shared_ring_head() has said. What
 * cannot be found is WIRE_NONE.
 */
void shared_events(const struct shared *s, uint32_t slot, uint64_t at, struct wire_event *to,
		   uint32_t n);
/* The thread of SLOT is gone and its events were taken: frees the slot and its big one. */
void shared_slot_free(struct shared *s, uint32_t slot);

/* A question that a thread has asked: a copy, which the thread cannot change any more. */
struct shared_question {
	struct wire_mail *mail; /* to be answered there */
	uint32_t slot;
	uint32_t asked; /* the mailbox' state with its turn, for mail_answer() */
	uint32_t what;	/* anything; enum wire_what, if the target is honest */
	pid_t tid;	/* as the target says */
	uint64_t arg[5];
};
/* The next one from slot *SLOT on, which starts at 0. False: there is none. */
bool shared_question(struct shared *s, uint32_t *slot, struct shared_question *q);

#endif
