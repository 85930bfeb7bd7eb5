// SPDX-License-Identifier: GPL-3.0-or-later
#include "transport/stream.h"

#include "base/bounds.h"
#include "ledger/ledger.h"
#include "transport/shared.h"
#include "transport/turns.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 * Each thread of the target writes into a ring of its own; the ledger needs one order. There are
 * four that must agree:
 *
 * - within a ring, the order written;
 * - per address, the sequence numbers that events took from its counter: one whose predecessor has
 *   not been seen yet is held in its counter's reorder queue until then, while the rest of its ring
 *   goes on. A thread's realloc events (LEAVE and its outcomes) must also be applied in the order
 *   written: one whose turn in its counter comes before the thread's earlier ones is held, too. Both
 *   orders are that in which the sequence numbers were taken, so there is no deadlock;
 * - large blocks and mappings, the tickets: a ring whose next event is not the next ticket's stands
 *   still while the others go on. If the ticket does not come one event passes it over. Until it
 *   has come, all others go by their tickets, each after a look for what may come before it;
 * - time: rings are taken in turns of a few events, the one that is furthest back (by its time
 *   events) first, so that sums are never those of one thread's future with another's past.
 *
 * The first two are kept whatever happens; the others as long as nobody has to wait long for them.
 * Numbers and tickets are taken just before the event is stored, so what is missing is on its way,
 * unless its thread was killed in between or does not get to run. An event that is only late must
 * not be given up, as it would then be applied in the wrong order. A sequence number is given up
 * when it has not come after a second in which others ran (a target that is stopped does not age);
 * but not while there is a thread that may still come with it, which is in the middle of a hook and
 * has written nothing for half of that time: of a thousand busy threads each has a processor every
 * few seconds.
 *
 * An answer (stream_settle) does not wait that long. What is held is applied when that is certainly
 * right: an allocation at an address where nothing lives, a free where something does, if no other
 * event on that address is held before it, and every ring was read once more since it came. A hook
 * stores a free before the real one is called, and an allocation before its caller knows the
 * address: so what is not in the rings by then is not about that address.
 *
 * The rings are the target's memory, whatever it does with them: every word is copied once
 * (shared.c) and then checked, positions are ours, reorder queues are bounded, and each pass ends
 * after what was there when it began.
 */

#define BATCH	  64u  /* events of one ring at a turn */
#define PUBLISH	  512u /* tell the writer at least that often */
#define HELD_MOST (1u << 20)
#define HELD_FEW  256u /* of a process that nobody asks about */
/* Search steps in reorder queues: each event adds EACH, and at most SAVED are kept for later. */
#define SEARCH_EACH  64u
#define SEARCH_SAVED (1u << 22)
#define HINTS	     64u
#define GAP_MS	     1000u
#define GAP_MOST_MS  60000u /* even if a thread may still come with it */
#define STEP_MS	     20u    /* at most so much counts between two passes */
/* how long all rings stand still for a missing ticket */
#define TICKET_MS 100u
/* how often, with 1 ms between, an answer looks again for what is on its way: twice at most */
#define SETTLE_TRIES (STREAM_NAPS / 2)
/* and how many held events it looks at meanwhile, all in all */
#define SETTLE_MOST (1u << 17)
/* how often a pass looks for new events when all rings stand still */
#define LOOKS	     8u
#define NO_THREAD    UINT32_MAX
#define EARLIES	     64u
#define MISSING_MOST (UINT64_MAX / 2) /* of two such numbers the sum fits */

struct source {		     /* where an event came from */
	uint64_t ms, period; /* period: bytes a sample; 0: nothing is sampled */
	uint32_t thread, slot;
};

struct ring {
	struct source from;
	/* events taken; written, as last seen; `tail` as last published */
	uint64_t tail, head, told;
	uint64_t ms;	 /* of its last time event */
	uint64_t turn;	 /* when it was last served: the stream's `turn` then */
	uint64_t ticket; /* of its next event, for which it stands still */
	uint32_t tid;
	uint32_t realloc_head, realloc_tail; /* held events of_realloc(), in the order written */
	/*
	 * its last entry in a reorder queue, by the counter's low bits; the entry may be reused by
	 * now
	 */
	uint32_t hint[HINTS];
	bool seen;
	bool halted; /* it stands still for `ticket` */
	bool asleep; /* its writer slept when `tail` was last published, and may sleep still */
	/* `head` when gaps were last looked at, and `ran` when that value was seen first */
	uint64_t busy_head, busy_since;
};

struct held {
	struct wire_event e, more;
	struct source from;
	uint32_t next, seq;	     /* index into `held`; 0: none */
	uint32_t next_realloc, look; /* its ring's next one; `look` of the stream when it came */
	bool done;		     /* applied before its turn */
	bool in_queue;		     /* false: the entry is free */
};

struct reorder_queue {
	uint32_t head, tail;
	/* `ran` when it began to wait for its present predecessor */
	uint64_t since;
};

struct stream {
	struct shared *shared;
	struct wire_process *wire;
	struct ledger *ledger;
	bool (*own)(void *ctx, uint32_t stack);
	void *ctx;
	stream_watcher *watcher; /* or NULL */
	void *watcher_ctx;

	/* sequence numbers seen or given up, per counter; the low 28 bits are the next one's */
	uint32_t expected[WIRE_COUNTERS];
	struct reorder_queue queue[WIRE_COUNTERS];
	uint64_t waiting[WIRE_COUNTERS / 64]; /* reorder queues that are not empty */
	/* reorder queues whose first may have become ready */
	uint64_t again[WIRE_COUNTERS / 64];
	uint32_t agains, look; /* bits in `again`; looks into the rings */
	uint32_t steps;	       /* that searches may take */
	struct held *held;
	uint32_t held_room, held_used, held_idle, held_now, held_most, held_done;
	uint32_t held_limit;

	uint64_t ticket; /* next */
	/* tickets seen before their turn (from signal handlers) */
	uint64_t early[EARLIES];
	unsigned earlies;
	bool halted;			   /* at the end of the last pass some ring stood still, */
	uint64_t halted_ticket, halted_ms; /* for this one, for so long, by steps of STEP_MS */
	uint64_t sure;	  /* the ticket to be taken next when the rings were looked at */
	uint64_t missing; /* tickets that were passed over, and have not come */
	uint64_t gaps_ms, turn, now;
	uint64_t ran; /* ms in which events came */

	struct ring ring[WIRE_THREADS]; /* by slot; of one that was not `seen` all is 0 */
	/* by slot: the source of what its thread's signal handlers tell. NULL: there was nothing */
	struct ring *handlers;
	/* rings with events to take: by time; and those that stand still, by ticket. In a pass only */
	struct turns going, halting;
	struct turn going_room[WIRE_THREADS], halting_room[WIRE_THREADS];
	uint64_t signal_head; /* as it was when the places were last looked at */
	bool signal_quiet;    /* no place was taken or ready then */

	uint64_t events, gaps, bad;
};

static inline uint64_t load64(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static inline uint32_t load32(const uint32_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }

static void ring_init(struct ring *r, uint32_t slot)
{
	r->from = (struct source){ .thread = NO_THREAD, .slot = slot };
}

/* Slots from WIRE_THREADS on are those of handlers. */
static inline struct ring *ring_at(struct stream *s, uint32_t slot)
{
	return slot < WIRE_THREADS ? &s->ring[slot] : &s->handlers[slot - WIRE_THREADS];
}

/*
 * The rooms of all slots are three megabytes, of which few pages are used. calloc() has zeros that
 * cost nothing for so much only until the first is freed: from then on it clears what was used.
 */
struct stream *stream_new(struct shared *shared, struct ledger *ledger,
			  bool (*own)(void *ctx, uint32_t stack), void *ctx)
{
	struct stream *s =
		mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (s == MAP_FAILED)
		return NULL;
	s->shared = shared;
	s->wire = shared->wire;
	s->ledger = ledger;
	s->own = own;
	s->ctx = ctx;
	s->going.at = s->going_room;
	s->halting.at = s->halting_room;
	s->held_used = 1;
	s->held_limit = HELD_MOST;
	s->steps = SEARCH_SAVED;
	s->signal_quiet = true;
	return s;
}

void stream_free(struct stream *s)
{
	if (!s)
		return;
	free(s->handlers);
	free(s->held);
	munmap(s, sizeof(*s));
}

/* ---- one event ----------------------------------------------------------- */

static __attribute__((noinline)) void apply_mapping(struct stream *s, const struct source *from,
						    struct wire_event e, struct wire_event more)
{
	struct ledger *l = s->ledger;
	raddr_t addr = wire_address(e);
	uint32_t stack = wire_stack(e), flags = wire_size(e), t = from->thread;
	uint64_t ms = from->ms;
	switch (wire_kind(e)) {
	case WIRE_MAP:
		ledger_map(l, t, ms, addr, more.a, flags, stack,
			   flags & WIRE_MAP_ANON && s->own(s->ctx, stack));
		break;
	case WIRE_UNMAP: ledger_unmap(l, t, ms, addr, more.a); break;
	case WIRE_UNMAP_FAILED: ledger_unmap_failed(l, t, ms); break;
	case WIRE_REMAP_LEAVE: ledger_remap_leave(l, t, ms, addr, more.a); break;
	case WIRE_REMAP: ledger_remap(l, t, ms, addr, more.a, stack); break;
	case WIRE_REMAP_FAILED: ledger_remap_failed(l, t, ms); break;
	case WIRE_PROTECT: ledger_protect(l, t, ms, addr, more.a, flags, stack); break;
	case WIRE_BREAK: ledger_break(l, t, ms, addr, more.a, stack, s->own(s->ctx, stack)); break;
	default: break;
	}
}

/* An event of a block with WIRE_FLAGS. False: it is still to be applied as any other. */
static __attribute__((noinline)) bool apply_counted(struct stream *s, const struct source *from,
						    struct wire_event e, struct wire_event more)
{
	uint64_t period = wire_flags(e) & WIRE_SAMPLED ? from->period : 0;
	uint64_t size = wire_is_wide(wire_kind(e)) ? more.a : wire_size(e);
	switch (wire_kind(e)) {
	case WIRE_ALLOC:
	case WIRE_ALLOC_WIDE:
		ledger_alloc_counted(s->ledger, from->thread, from->ms, wire_address(e), size,
				     wire_stack(e), period);
		return true;
	case WIRE_BECAME:
	case WIRE_BECAME_WIDE:
		ledger_became_counted(s->ledger, from->thread, from->ms, wire_address(e), size,
				      wire_stack(e), period);
		return true;
	case WIRE_FREE:
	case WIRE_FREE_WIDE:
	case WIRE_LEAVE: ledger_went_on(s->ledger, from->thread); return false;
	default: return false;
	}
}

static inline void apply(struct stream *s, const struct source *from, struct wire_event e,
			 struct wire_event more)
{
	struct ledger *l = s->ledger;
	raddr_t addr = wire_address(e);
	uint32_t t = from->thread;
	s->events++;
	if (wire_has_counter(wire_kind(e)))
		ledger_family(l, wire_family(e));
	if (__builtin_expect(wire_flags(e), 0) && apply_counted(s, from, e, more))
		return;
	switch (wire_kind(e)) {
	case WIRE_ALLOC: ledger_alloc(l, t, from->ms, addr, wire_size(e), wire_stack(e)); break;
	case WIRE_FREE:
	case WIRE_FREE_WIDE:
		ledger_release_by(l, t, from->ms, addr, wire_size(e) & WIRE_FROM_LIBC,
				  wire_stack(e));
		break;
	case WIRE_ALLOC_WIDE: ledger_alloc(l, t, from->ms, addr, more.a, wire_stack(e)); break;
	case WIRE_LEAVE: ledger_leave_by(l, t, from->ms, addr, wire_stack(e)); break;
	case WIRE_BECAME: ledger_became(l, t, from->ms, addr, wire_size(e), wire_stack(e)); break;
	case WIRE_BECAME_WIDE: ledger_became(l, t, from->ms, addr, more.a, wire_stack(e)); break;
	case WIRE_STAYED: ledger_stayed(l, t, from->ms); break;
	case WIRE_GONE: ledger_gone_by(l, t, from->ms, wire_stack(e)); break;
	default: apply_mapping(s, from, e, more);
	}
}

/* ---- sequence numbers ---------------------------------------------------- */

static void held_free(struct stream *s, uint32_t i)
{
	s->held[i].in_queue = false;
	s->held[i].next = s->held_idle;
	s->held_idle = i;
	s->held_now--;
}

static uint32_t held_new(struct stream *s)
{
	uint32_t i = s->held_idle;
	if (i) {
		s->held_idle = s->held[i].next;
	} else {
		if (s->held_used >= s->held_room) {
			uint32_t room = s->held_room ? s->held_room * 2 : 256;
			struct held *v = room <= 2 * HELD_MOST ? realloc(s->held, room * sizeof(*v))
							       : NULL;
			if (!v)
				return 0;
			s->held = v;
			s->held_room = room;
		}
		i = s->held_used++;
	}
	if (++s->held_now > s->held_most)
		s->held_most = s->held_now;
	return i;
}

/* LEAVE and its outcomes: the ledger must get those of one thread in the order written. */
static inline bool of_realloc(enum wire_kind k) { return k >= WIRE_LEAVE && k <= WIRE_GONE; }

static inline uint32_t counter_of(const struct stream *s, uint32_t i)
{
	return wire_counter(wire_address(s->held[i].e));
}

static void realloc_put(struct stream *s, uint32_t i)
{
	struct ring *r = ring_at(s, s->held[i].from.slot);
	if (r->realloc_head)
		s->held[r->realloc_tail].next_realloc = i;
	else
		r->realloc_head = i;
	r->realloc_tail = i;
	s->held[i].next_realloc = 0;
}

/* Entry I, its ring's first realloc event, was applied: the next one's queue may go on. */
static void realloc_taken(struct stream *s, uint32_t i)
{
	struct ring *r = ring_at(s, s->held[i].from.slot);
	uint32_t c;
	r->realloc_head = s->held[i].next_realloc;
	if (!r->realloc_head)
		return;
	c = counter_of(s, r->realloc_head);
	if (!(s->again[c / 64] >> c % 64 & 1)) {
		s->again[c / 64] |= 1ull << c % 64;
		s->agains++;
	}
}

/* No earlier realloc event of its thread is held. */
static inline bool in_turn(struct stream *s, uint32_t i)
{
	return !of_realloc(wire_kind(s->held[i].e)) ||
	       ring_at(s, s->held[i].from.slot)->realloc_head == i;
}

static void apply_held(struct stream *s, uint32_t i)
{
	struct held *h = &s->held[i];
	ledger_late(s->ledger, true);
	apply(s, &h->from, h->e, h->more);
	ledger_late(s->ledger, false);
	if (of_realloc(wire_kind(h->e)))
		realloc_taken(s, i);
}

static void queue_pop(struct stream *s, uint32_t c)
{
	struct reorder_queue *q = &s->queue[c];
	uint32_t i = q->head;
	if (s->held[i].done)
		s->held_done--;
	q->head = s->held[i].next;
	q->since = s->ran;
	held_free(s, i);
	if (!q->head) {
		q->tail = 0;
		s->waiting[c / 64] &= ~(1ull << c % 64);
	}
}

static void queue_run_one(struct stream *s, uint32_t c)
{
	struct reorder_queue *q = &s->queue[c];
	while (q->head && s->held[q->head].seq == (s->expected[c] & WIRE_SEQ_MASK) &&
	       (s->held[q->head].done || in_turn(s, q->head))) {
		s->expected[c]++;
		if (!s->held[q->head].done)
			apply_held(s, q->head);
		queue_pop(s, c);
	}
}

static void queues_run_again(struct stream *s)
{
	while (s->agains)
		for (uint32_t w = 0; w < WIRE_COUNTERS / 64; w++)
			while (s->again[w]) {
				uint32_t c = w * 64 + (uint32_t)__builtin_ctzll(s->again[w]);
				s->again[w] &= s->again[w] - 1;
				s->agains--;
				queue_run_one(s, c);
			}
}

/* Applies what follows in the reorder queue of counter C, and what that lets go on. */
static void queue_run(struct stream *s, uint32_t c)
{
	queue_run_one(s, c);
	if (s->agains)
		queues_run_again(s);
}

/* How many sequence numbers before the queue's first one have not come. */
static inline uint32_t queue_missing(const struct stream *s, uint32_t c)
{
	return (s->held[s->queue[c].head].seq - s->expected[c]) & WIRE_SEQ_MASK;
}

/* The missing sequence numbers before the queue's first one will not come. */
static void queue_give_up(struct stream *s, uint32_t c)
{
	uint32_t missing = queue_missing(s, c);
	s->gaps += missing;
	s->expected[c] += missing;
	queue_run(s, c);
}

/*
 * A deadlock: the first entry of queue C has waited for long for an earlier realloc event of its
 * thread, which waits for it. A handler in a handler has written its event before the one that it
 * interrupted. The entry becomes the first of its thread's realloc events.
 */
static void queue_uncircle(struct stream *s, uint32_t c)
{
	uint32_t first = s->queue[c].head, i;
	struct ring *r = ring_at(s, s->held[first].from.slot);
	for (i = r->realloc_head; i && s->held[i].next_realloc != first;)
		i = s->held[i].next_realloc;
	if (!i)
		return;
	s->held[i].next_realloc = s->held[first].next_realloc;
	if (r->realloc_tail == first)
		r->realloc_tail = i;
	s->held[first].next_realloc = r->realloc_head;
	r->realloc_head = first;
	queue_run(s, c);
}

/* What is still held although no sequence number is missing is deadlocked; no hook writes that. */
static void queues_break(struct stream *s)
{
	for (uint32_t c = 0; c < WIRE_COUNTERS; c++)
		while (s->queue[c].head) {
			const struct held *h = &s->held[s->queue[c].head];
			s->expected[c] += ((h->seq - s->expected[c]) & WIRE_SEQ_MASK) + 1;
			s->bad++;
			if (!h->done)
				apply(s, &h->from, h->e, h->more);
			queue_pop(s, c);
		}
	for (uint32_t i = 0; i < (s->handlers ? 2 : 1) * WIRE_THREADS; i++)
		if (ring_at(s, i)->seen)
			ring_at(s, i)->realloc_head = 0;
}

/* Whether some thread may have taken a sequence number long ago and may still write its event. */
static bool anyone_owes(struct stream *s)
{
	uint32_t high = shared_slots(s->shared);
	bool any = false;
	for (uint32_t i = 0; i < high; i++) {
		const struct wire_thread *t = &s->wire->thread[i];
		struct ring *r = &s->ring[i];
		uint64_t head = load64(&t->head);
		if (load64(&t->fs) <= 1 || !(load64(&t->mark) & WIRE_BUSY) ||
		    head != r->busy_head) {
			r->busy_head = head;
			r->busy_since = s->ran;
		}
		any |= s->ran - r->busy_since >= GAP_MS / 2;
	}
	return any;
}

static void queues_give_up(struct stream *s, bool all)
{
	uint64_t most = anyone_owes(s) ? GAP_MOST_MS : GAP_MS;
	bool progress = true;
	while (progress && s->held_now) {
		progress = false;
		for (uint32_t w = 0; w < WIRE_COUNTERS / 64 && s->held_now; w++)
			for (uint64_t left = s->waiting[w]; left; left &= left - 1) {
				uint32_t c = w * 64 + (uint32_t)__builtin_ctzll(left);
				while (s->queue[c].head && queue_missing(s, c) &&
				       (all || s->ran - s->queue[c].since >= most)) {
					queue_give_up(s, c);
					progress = true;
				}
				if (s->queue[c].head && !all && !queue_missing(s, c) &&
				    s->ran - s->queue[c].since >= 2 * GAP_MS)
					queue_uncircle(s, c);
			}
	}
	if (all && s->held_now)
		queues_break(s);
}

/* Whether entry I can be applied before its predecessors: see the top of the file. */
static bool certain(struct stream *s, uint32_t i)
{
	const struct held *h = &s->held[i];
	enum wire_kind k = wire_kind(h->e);
	bool releases = k == WIRE_FREE || k == WIRE_FREE_WIDE || k == WIRE_LEAVE;
	if (h->look == s->look || !in_turn(s, i))
		return false;
	return k == WIRE_STAYED || k == WIRE_GONE ||
	       ledger_holds(s->ledger, wire_address(h->e)) == releases;
}

static void queue_hurry(struct stream *s, uint32_t c)
{
	/* a bit for each address, by a hash, that an earlier entry is held for */
	uint64_t passed[16] = { 0 };
	for (uint32_t i = s->queue[c].head; i; i = s->held[i].next) {
		uint64_t address = wire_address(s->held[i].e), *word = &passed[address >> 16 & 15],
			 bit = 1ull << (address >> 4 & 63);
		if (s->held[i].done)
			continue;
		if (*word & bit || !certain(s, i)) {
			*word |= bit;
			continue;
		}
		apply_held(s, i);
		s->held[i].done = true;
		s->held_done++;
	}
}

/* Applies what is held wherever its predecessors cannot matter. */
static void queues_hurry(struct stream *s)
{
	for (uint32_t w = 0; w < WIRE_COUNTERS / 64 && s->held_now; w++)
		for (uint64_t left = s->waiting[w]; left; left &= left - 1)
			queue_hurry(s, w * 64 + (uint32_t)__builtin_ctzll(left));
	queues_run_again(s);
}

/* How far entry I (not 0) is ahead of the sequence number that counter C waits for. */
static inline uint32_t ahead_of(const struct stream *s, uint32_t c, uint32_t i)
{
	return (s->held[i].seq - s->expected[c]) & WIRE_SEQ_MASK;
}

/*
 * The entry of queue C after which a sequence number AHEAD of the expected one belongs; 0: it is
 * the first. The sequence numbers of a SLOT ascend, so the search goes on where its last one ended,
 * and all searches together pass each entry once for each thread. UINT32_MAX: the number is there
 * already, or the searches take longer than honest threads' would.
 */
static uint32_t queue_place(struct stream *s, uint32_t c, uint32_t ahead, uint32_t slot)
{
	const struct reorder_queue *q = &s->queue[c];
	uint32_t hint = ring_at(s, slot)->hint[c % HINTS], after = 0;
	s->steps = s->steps < SEARCH_SAVED ? s->steps + SEARCH_EACH : SEARCH_SAVED;
	if (q->tail && ahead_of(s, c, q->tail) < ahead)
		return q->tail;
	/* the hint may be from before stream_hold_few() */
	if (q->head && hint && hint < s->held_used && s->held[hint].in_queue &&
	    counter_of(s, hint) == c && ahead_of(s, c, hint) < ahead)
		after = hint;
	for (uint32_t i = after ? s->held[after].next : q->head; i;
	     after = i, i = s->held[i].next) {
		if (ahead_of(s, c, i) == ahead || s->steps-- == 1)
			return UINT32_MAX;
		if (ahead_of(s, c, i) > ahead)
			break;
	}
	return after;
}

static inline void accept_event(struct stream *s, const struct source *from, struct wire_event e,
				struct wire_event more);

/*
 * An event whose sequence number is not the next one of its counter, or which must wait for a
 * realloc event of its thread.
 */
static __attribute__((noinline)) void out_of_turn(struct stream *s, const struct source *from,
						  struct wire_event e, struct wire_event more,
						  uint32_t c)
{
	uint32_t ahead = (wire_seq(e) - s->expected[c]) & WIRE_SEQ_MASK;
	if (ahead > WIRE_SEQ_MASK / 2) { /* it was given up, and comes after all */
		if (s->gaps)
			s->gaps--;
		else
			s->bad++;
		apply(s, from, e, more);
		return;
	}
	if (s->held_now >= s->held_limit) {
		queues_give_up(s, true);
		accept_event(s, from, e, more);
		return;
	}
	uint32_t after = queue_place(s, c, ahead, from->slot),
		 i = after == UINT32_MAX ? 0 : held_new(s);
	if (!i) {
		s->bad++;
		apply(s, from, e, more);
		return;
	}
	struct reorder_queue *q = &s->queue[c];
	if (!q->head) {
		q->since = s->ran;
		s->waiting[c / 64] |= 1ull << c % 64;
	}
	s->held[i] = (struct held){ .e = e,
				    .more = more,
				    .from = *from,
				    .seq = wire_seq(e),
				    .look = s->look,
				    .in_queue = true };
	uint32_t *link = after ? &s->held[after].next : &q->head;
	s->held[i].next = *link;
	*link = i;
	if (!s->held[i].next)
		q->tail = i;
	ring_at(s, from->slot)->hint[c % HINTS] = i;
	if (of_realloc(wire_kind(e)))
		realloc_put(s, i);
}

/* Applies or holds E. It was checked: its kind is known, and MORE is its second slot if it has one. */
static inline void accept_event(struct stream *s, const struct source *from, struct wire_event e,
				struct wire_event more)
{
	if (!wire_has_counter(wire_kind(e))) {
		apply(s, from, e, more);
		return;
	}
	uint32_t c = wire_counter(wire_address(e)), seq = wire_seq(e);
	if (__builtin_expect((s->expected[c] & WIRE_SEQ_MASK) != seq, 0) ||
	    (__builtin_expect(s->held_now, 0) && of_realloc(wire_kind(e)) &&
	     ring_at(s, from->slot)->realloc_head)) {
		out_of_turn(s, from, e, more, c);
		return;
	}
	s->expected[c]++;
	apply(s, from, e, more);
	if (__builtin_expect(s->held_now, 0) && s->queue[c].head)
		queue_run(s, c);
}

/* ---- tickets ------------------------------------------------------------- */

/* One of the tickets that were passed over has come. */
static void ticket_late(struct stream *s) { s->missing -= s->missing != 0; }

static void ticket_past(struct stream *s, uint64_t ticket)
{
	if (ticket < s->ticket)
		ticket_late(s);
	else {
		s->missing = least(s->missing, MISSING_MOST) +
			     least(ticket - s->ticket, MISSING_MOST);
		s->ticket = ticket + 1;
	}
	for (unsigned i = 0; i < s->earlies;) {
		if (s->early[i] > s->ticket) {
			i++;
			continue;
		}
		if (s->early[i] == s->ticket)
			s->ticket++;
		else
			ticket_late(s);
		s->early[i] = s->early[--s->earlies];
		i = 0;
	}
}

/* A ticket of a signal handler's event, which no ring stands still for. */
static void ticket_early(struct stream *s, uint64_t ticket)
{
	if (ticket <= s->ticket || s->earlies == EARLIES)
		ticket_past(s, ticket);
	else
		s->early[s->earlies++] = ticket;
}

/* ---- rings --------------------------------------------------------------- */

/*
 * Publishes R's tail. A writer that sleeps is woken when half of the ring is free: woken for less
 * it would soon sleep again, and each time take the processor from its reader.
 */
static void ring_tell(struct stream *s, struct ring *r)
{
	struct wire_thread *t = &s->wire->thread[r->from.slot];
	if (r->told == r->tail && !r->asleep)
		return;
	r->told = r->tail;
	__atomic_store_n(&t->tail, r->tail, __ATOMIC_SEQ_CST);
	r->asleep = __atomic_load_n(&t->waiting, __ATOMIC_SEQ_CST);
	if (r->asleep && r->head - r->tail <= shared_ring_size(s->shared, r->from.slot) / 2) {
		__atomic_store_n(&t->waiting, 0, __ATOMIC_SEQ_CST);
		syscall(SYS_futex, &t->waiting, FUTEX_WAKE, 1, NULL, NULL, 0);
		r->asleep = false;
	}
}

/* The beacon's 32-bit MS in 64 bits. It may be later than `now`, when this pass began. */
static uint64_t full_time(const struct stream *s, uint32_t ms)
{
	int32_t ago = (int32_t)((uint32_t)s->now - ms);
	return ago > 0 && (uint64_t)ago > s->now ? s->now : s->now - (uint64_t)(int64_t)ago;
}

/* MS, but not later than `now`. */
static uint64_t past_time(const struct stream *s, uint64_t ms) { return ms < s->now ? ms : s->now; }

static void new_owner(struct stream *s, struct ring *r, uint32_t tid)
{
	if (r->from.thread != NO_THREAD) {
		if (tid == r->tid)
			return;
		ledger_thread_ended(s->ledger, r->from.thread);
	}
	r->tid = tid;
	r->from.thread = ledger_thread(s->ledger, (pid_t)(tid & INT32_MAX));
}

/*
 * How many of the N events at E, from the first one on, are plain allocations and frees whose turn
 * it is. Their sequence numbers are counted as seen; they can be applied together.
 */
static inline uint32_t plain_run(struct stream *s, const struct wire_event *e, uint32_t n)
{
	const bool held = s->held_now;
	uint32_t i;
	for (i = 0; i < n; i++) {
		uint32_t c = wire_counter(wire_address(e[i]));
		if (!((1u << WIRE_ALLOC | 1u << WIRE_FREE) >> wire_kind(e[i]) & 1) ||
		    ((s->expected[c] ^ wire_seq(e[i])) & WIRE_SEQ_MASK) || wire_flags(e[i]))
			break;
		if (__builtin_expect(held, 0) && s->queue[c].head)
			break;
		s->expected[c]++;
	}
	return i;
}

/*
 * Takes the event at E; N slots are there. Returns how many it has, or 0 if the ring must stand
 * still for a ticket. If *FORCE is set the ring goes on without it, and *FORCE is cleared: that is
 * for one event. *STOP: a new millisecond begins.
 */
static uint32_t ring_one(struct stream *s, struct ring *r, const struct wire_event *e, uint32_t n,
			 bool *force, bool *stop)
{
	enum wire_kind k = wire_kind(e[0]);
	if (k == WIRE_TIME) {
		uint64_t ms = full_time(s, (uint32_t)e[0].b);
		*stop = ms > r->ms;
		if (*stop) {
			r->ms = ms;
			r->from.ms = past_time(s, ms);
		}
		return 1;
	}
	if (k == WIRE_PERIOD) {
		r->from.period = e[0].b < SAMPLE_MAX ? e[0].b : SAMPLE_MAX;
		return 1;
	}
	if (k == WIRE_THREAD) {
		new_owner(s, r, (uint32_t)wire_address(e[0]));
		return 1;
	}
	bool wide = wire_is_wide(k);
	if (k >= WIRE_KINDS || k == WIRE_NONE || (wide && n < 2)) {
		s->bad++; /* (or its second slot was never written) */
		return 1;
	}
	if (wide && (e[1].b > s->ticket || s->missing)) {
		if (!*force) {
			r->halted = true;
			r->ticket = e[1].b;
			return 0;
		}
		*force = false;
	}
	if (wide)
		ticket_past(s, e[1].b);
	accept_event(s, &r->from, e[0], wide ? e[1] : (struct wire_event){ 0, 0 });
	return wide ? 2 : 1;
}

static __attribute__((noinline)) void watched_run(struct stream *s, const struct ring *r,
						  const struct wire_event *e, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		ledger_batch(s->ledger, r->from.thread, r->from.ms, e + i, 1);
		s->watcher(s->watcher_ctx, r->from.thread, e[i]);
	}
}

/*
 * Takes up to BATCH events of R; stops at a new millisecond, and where the ring must stand still
 * for a ticket. FORCE: the first event that would have to wait does not. Returns how many slots
 * were taken.
 */
static size_t ring_run(struct stream *s, struct ring *r, bool force)
{
	struct wire_event buf[BATCH + 1];
	uint64_t there = r->head - r->tail;
	uint32_t have = there < BATCH + 1 ? (uint32_t)there : BATCH + 1, i = 0;
	bool stop = false;
	r->halted = false;
	shared_events(s->shared, r->from.slot, r->tail, buf, have);
	while (i < have && i < BATCH && !stop) {
		uint32_t n = plain_run(s, buf + i, (have < BATCH ? have : BATCH) - i);
		if (n) {
			if (__builtin_expect(s->watcher != NULL, 0))
				watched_run(s, r, buf + i, n);
			else
				ledger_batch(s->ledger, r->from.thread, r->from.ms, buf + i, n);
			s->events += n;
			i += n;
			continue;
		}
		n = ring_one(s, r, buf + i, have - i, &force, &stop);
		if (!n)
			break;
		if (__builtin_expect(s->watcher != NULL, 0))
			s->watcher(s->watcher_ctx, r->from.thread, buf[i]);
		i += n;
	}
	r->tail += i;
	if (r->tail - r->told >= PUBLISH)
		ring_tell(s, r);
	return i;
}

/* R waits for its turn, if it has events. */
static void ring_queue(struct stream *s, const struct ring *r)
{
	if (r->tail == r->head)
		return;
	if (r->halted)
		turns_add(&s->halting, (struct turn){ r->ticket, 0, r->from.slot });
	else
		turns_add(&s->going, (struct turn){ r->ms, r->turn, r->from.slot });
}

/*
 * Looks how far each ring has been written. Tickets below `sure` were taken before the look, and
 * what must come before their events was stored before they were taken: so the look finds it.
 */
static void rings_look(struct stream *s)
{
	uint32_t high = shared_slots(s->shared);
	s->sure = load64(&s->wire->ticket);
	s->going.count = s->halting.count = 0;
	s->look++;
	for (uint32_t i = 0; i < high; i++) {
		struct ring *r = &s->ring[i];
		struct wire_thread *t = &s->wire->thread[i];
		uint64_t head;
		if (!r->seen) {
			ring_init(r, i);
			r->seen = true;
			r->tail = r->told = load64(&t->tail);
		}
		if (!shared_ring_head(s->shared, i, r->tail, &head))
			continue;
		if (head - r->tail > WIRE_RING) { /* no hook does that */
			s->bad++;
			r->tail = head;
			ring_tell(s, r);
		}
		r->head = head;
		r->halted = false;
		ring_queue(s, r);
	}
}

/* ---- events of handlers -------------------------------------------------- */

struct ready { /* a place with an event */
	uint64_t order;
	uint32_t place, slot;
};

static int by_order(const void *a, const void *b)
{
	uint64_t x = ((const struct ready *)a)->order, y = ((const struct ready *)b)->order;
	return (x > y) - (x < y);
}

static void place_free(struct stream *s, uint32_t place)
{
	__atomic_store_n(&s->wire->signal[place].state, PLACE_FREE, __ATOMIC_RELEASE);
}

/*
 * The places that are ready, in order. One that is half written stays until its thread goes on, or
 * is gone. One whose order is HEAD or later stays, too: an earlier event of its thread may have
 * become ready only after its place was looked at.
 */
static size_t places_look(struct stream *s, uint64_t head, struct ready ready[WIRE_SIGNAL_PLACES])
{
	size_t n = 0;
	s->signal_quiet = true;
	for (uint32_t i = 0; i < WIRE_SIGNAL_PLACES; i++) {
		uint32_t state = load32(&s->wire->signal[i].state), slot = state >> 2;
		uint64_t order = __atomic_load_n(&s->wire->signal[i].order, __ATOMIC_RELAXED);
		if (state == PLACE_FREE)
			continue;
		s->signal_quiet = false;
		if (slot < WIRE_THREADS &&
		    ((state & 3) == PLACE_TAKEN ||
		     ((state & 3) == PLACE_READY && order - head < WIRE_SIGNAL_PLACES)))
			continue;
		if ((state & 3) != PLACE_READY || slot >= WIRE_THREADS || order >= head) {
			s->bad++; /* no hook writes that */
			place_free(s, i);
			continue;
		}
		ready[n++] = (struct ready){ order, i, slot };
	}
	qsort(ready, n, sizeof(*ready), by_order);
	return n;
}

static void signal_one(struct stream *s, const struct ready *at)
{
	const struct wire_signal_event *g = &s->wire->signal[at->place];
	struct ring *r = &s->handlers[at->slot];
	uint32_t ms = load32(&g->ms), tid = load32(&g->tid);
	struct wire_event e[2];
	enum wire_kind k;
	for (int i = 0; i < 2; i++) {
		e[i].a = __atomic_load_n(&g->event[i].a, __ATOMIC_RELAXED);
		e[i].b = __atomic_load_n(&g->event[i].b, __ATOMIC_RELAXED);
	}
	place_free(s, at->place);
	k = wire_kind(e[0]);
	if (k < WIRE_ALLOC || k >= WIRE_PERIOD) {
		s->bad++;
		return;
	}
	if (!r->seen)
		ring_init(r, WIRE_THREADS + at->slot);
	r->seen = true;
	new_owner(s, r, tid);
	r->from.ms = past_time(s, full_time(s, ms));
	if (wire_is_wide(k))
		ticket_early(s, e[1].b);
	accept_event(s, &r->from, e[0], e[1]);
	if (s->watcher)
		s->watcher(s->watcher_ctx, r->from.thread, e[0]);
}

/* Takes all that is ready. How many. */
static size_t signals_take(struct stream *s)
{
	uint64_t head = load64(&s->wire->signal_head);
	struct ready ready[WIRE_SIGNAL_PLACES];
	size_t n;
	if (s->signal_quiet && head == s->signal_head)
		return 0;
	if (!s->handlers)
		s->handlers = calloc(WIRE_THREADS, sizeof(*s->handlers));
	if (!s->handlers)
		return 0;
	n = places_look(s, head, ready);
	s->signal_head = head;
	for (size_t i = 0; i < n; i++)
		signal_one(s, &ready[i]);
	return n;
}

/* The thread of SLOT is gone and its handlers' events were taken: frees half-written places. */
static void signals_forget(struct stream *s, uint32_t slot)
{
	for (uint32_t i = 0; i < WIRE_SIGNAL_PLACES; i++)
		if (load32(&s->wire->signal[i].state) == (slot << 2 | PLACE_TAKEN))
			place_free(s, i);
	if (s->handlers && s->handlers[slot].seen && s->handlers[slot].from.thread != NO_THREAD) {
		ledger_thread_ended(s->ledger, s->handlers[slot].from.thread);
		s->handlers[slot].from.thread = NO_THREAD;
	}
}

/* ---- passes -------------------------------------------------------------- */

/*
 * The ring that is furthest back in time, of several the one that was served longest ago; NULL: all
 * are empty or stand still.
 */
static struct ring *next_ring(struct stream *s)
{
	while (!s->missing && s->halting.count && s->halting.at[0].first <= s->ticket) {
		struct ring *r = &s->ring[turns_take(&s->halting).ring];
		r->halted = false;
		ring_queue(s, r);
	}
	return s->going.count ? &s->ring[turns_take(&s->going).ring] : NULL;
}

/*
 * All rings stand still. Whether the one with the lowest ticket goes on: it is its turn, or they
 * have stood still for long, or FORCE.
 */
static bool goes_on(const struct stream *s, bool force)
{
	return s->halting.count &&
	       (s->halting.at[0].first <= s->ticket || force ||
		(s->halted && s->ticket == s->halted_ticket && s->halted_ms >= TICKET_MS));
}

/*
 * Takes what the rings hold now, about BUDGET slots at most. FORCE: no ring stands still for a
 * ticket once nothing else can be taken. Returns how many were taken.
 *
 * A ticket that was passed over may have come since, and other events may depend on its event. So
 * as long as one is missing, all rings stand still for their tickets, and the one with the lowest
 * goes on. It goes on only if its ticket is below `sure`; otherwise the rings are looked at again.
 * If the counter has not moved between two looks, no hook has taken that ticket, and it goes on.
 */
static size_t pass(struct stream *s, size_t budget, bool force)
{
	size_t taken = signals_take(s), progress = 0;
	unsigned looks = 0, later_looks = 0;
	uint64_t stands = UINT64_MAX;
	rings_look(s);
	while (taken < budget) {
		struct ring *r = next_ring(s);
		bool forced = !r && goes_on(s, force);
		/* what they wait for may have been written meanwhile */
		if (!r && s->halting.count && progress && looks++ < LOOKS) {
			progress = 0;
			rings_look(s);
			continue;
		}
		if (forced && s->halting.at[0].first >= s->sure && s->sure != stands) {
			uint64_t was = s->sure;
			if (later_looks++ == LOOKS) /* it came after this pass began */
				break;
			rings_look(s);
			if (s->sure == was)
				stands = was;
			continue;
		}
		if (forced)
			r = &s->ring[turns_take(&s->halting).ring];
		if (!r)
			break;
		r->turn = ++s->turn;
		uint64_t before = r->tail;
		taken += ring_run(s, r, forced);
		progress += r->tail - before;
		ring_queue(s, r);
	}
	bool halted = s->halting.count;
	if (halted && (!s->halted || s->ticket != s->halted_ticket)) {
		s->halted_ticket = s->ticket;
		s->halted_ms = 0;
	}
	s->halted = halted;
	uint32_t high = shared_slots(s->shared);
	for (uint32_t i = 0; i < high; i++)
		ring_tell(s, &s->ring[i]);
	return taken;
}

size_t stream_take(struct stream *s, uint64_t now, size_t budget)
{
	uint64_t step = now > s->now ? now - s->now : 0;
	s->now += step;
	step = step < STEP_MS ? step : STEP_MS;
	s->halted_ms += step;
	size_t n = pass(s, budget, false);
	if (n)
		s->ran += step;
	if (s->held_now && s->now - s->gaps_ms >= GAP_MS / 10) {
		s->gaps_ms = s->now;
		queues_give_up(s, false);
	}
	return n;
}

/* A millisecond of *NAPS; false: there is none left. */
static bool nap(unsigned *naps)
{
	if (!*naps)
		return false;
	--*naps;
	nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	return true;
}

void stream_settle_within(struct stream *s, uint64_t now, bool ended, unsigned *naps)
{
	uint64_t looked_at = 0;
	s->now = now > s->now ? now : s->now;
	pass(s, SIZE_MAX, false);
	/* a ticket is on its way */
	for (unsigned i = 0; s->halted && i < SETTLE_TRIES && !ended && nap(naps); i++)
		pass(s, SIZE_MAX, false);
	pass(s, SIZE_MAX, true);
	for (unsigned i = 0;
	     s->held_now > s->held_done && i < SETTLE_TRIES && looked_at < SETTLE_MOST && !ended;
	     i++) {
		pass(s, SIZE_MAX, true); /* what they wait for may be there by now */
		looked_at += s->held_now;
		queues_hurry(s);
		if (s->held_now > s->held_done && !nap(naps))
			break;
	}
	queues_give_up(s, ended);
}

void stream_settle(struct stream *s, uint64_t now, bool ended)
{
	unsigned naps = STREAM_NAPS;

	stream_settle_within(s, now, ended, &naps);
}

void stream_thread_gone(struct stream *s, uint64_t now, uint64_t fs)
{
	uint32_t high = shared_slots(s->shared), i = 0;
	s->now = now > s->now ? now : s->now;
	if (fs <= 1)
		return;
	while (i < high && load64(&s->wire->thread[i].fs) != fs)
		i++;
	if (i == high)
		return;
	pass(s, SIZE_MAX, false);
	if (s->ring[i].tail != s->ring[i].head)
		pass(s, SIZE_MAX, true);
	if (s->ring[i].from.thread != NO_THREAD)
		ledger_thread_ended(s->ledger, s->ring[i].from.thread);
	/* the slot's next owner is another thread, even if it has the same tid */
	s->ring[i].from.thread = NO_THREAD;
	signals_forget(s, i);
	shared_slot_free(s->shared, i);
}

void stream_hold_few(struct stream *s)
{
	s->held_limit = HELD_FEW;
	queues_give_up(s, true);
	if (s->held_now)
		return;
	free(s->held);
	s->held = NULL;
	s->held_room = s->held_idle = 0;
	s->held_used = 1;
}

uint64_t stream_memory(const struct stream *s) { return (uint64_t)s->held_room * sizeof(*s->held); }

/* Threads have other numbers in another ledger: sources and held events get theirs. */
void stream_switch(struct stream *s, struct ledger *ledger)
{
	s->ledger = ledger;
	for (uint32_t i = 0; i < (s->handlers ? 2 : 1) * WIRE_THREADS; i++) {
		struct ring *r = ring_at(s, i);
		if (r->seen && r->from.thread != NO_THREAD)
			r->from.thread = ledger_thread(ledger, (pid_t)(r->tid & INT32_MAX));
	}
	for (uint32_t i = 1; i < s->held_used; i++)
		s->held[i].from.thread = ring_at(s, s->held[i].from.slot)->from.thread;
}

void stream_watch(struct stream *s, stream_watcher *fn, void *ctx)
{
	s->watcher = fn;
	s->watcher_ctx = ctx;
}

/* ---- questions ----------------------------------------------------------- */

void stream_stats(const struct stream *s, struct stream_stats *out)
{
	uint32_t high = shared_slots(s->shared);
	uint64_t waited_us = 0;
	*out = (struct stream_stats){
		.events = s->events,
		.held_now = s->held_now - s->held_done,
		.held_most = s->held_most,
		.gaps = s->gaps,
		.bad = s->bad,
		.dropped = load32(&s->wire->no_slot),
	};
	for (uint32_t i = 0; i < high; i++) {
		const struct wire_thread *t = &s->wire->thread[i];
		out->dropped += load32(&t->lost);
		out->truncated += load32(&t->truncated);
		out->deep += load32(&t->deep);
		waited_us += load64(&t->waited);
	}
	out->waited_ms = waited_us / 1000;
}

uint64_t stream_taken(const struct stream *s, uint32_t slot)
{
	return slot < WIRE_THREADS ? s->ring[slot].tail : s->signal_head;
}

static uint64_t bytes_given(const struct held *h)
{
	switch (wire_kind(h->e)) {
	case WIRE_ALLOC:
	case WIRE_BECAME: return wire_size(h->e);
	case WIRE_ALLOC_WIDE:
	case WIRE_BECAME_WIDE: return h->more.a;
	default: return 0;
	}
}

size_t stream_held(const struct stream *s, uint64_t *bytes)
{
	*bytes = 0;
	for (uint32_t w = 0; w < WIRE_COUNTERS / 64 && s->held_now > s->held_done; w++)
		for (uint64_t left = s->waiting[w]; left; left &= left - 1)
			for (uint32_t i = s->queue[w * 64 + (uint32_t)__builtin_ctzll(left)].head;
			     i; i = s->held[i].next)
				if (!s->held[i].done)
					*bytes += bytes_given(&s->held[i]);
	return s->held_now - s->held_done;
}

int64_t stream_missing(const struct stream *s)
{
	int64_t missing = (int64_t)s->gaps - s->held_done;
	for (uint32_t c = 0; c < WIRE_COUNTERS; c++)
		missing += (int32_t)(load32(&s->wire->counter[c]) - s->expected[c]);
	return missing;
}
