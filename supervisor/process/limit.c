// SPDX-License-Identifier: GPL-3.0-or-later
#include "process/limit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/bounds.h"
#include "base/search.h"
#include "process/process.h"

/*
 * limit.c - whether a request fits.
 *
 * Allocated is what the ledger knows, and what is in flight: charged by a hook, its event not
 * applied yet. Each slot has a lease: bytes that we have given it, ever; of these its thread has
 * charged some, and of those some are settled, their events stored. What we count is
 *
 *	live in the ledger + blocks in held events + given + credited - settled, over all slots
 *
 * with `settled` as it was before the ring was read, and only if the ring was read as far as it had
 * been written then, and `credited` as it was after. So the sum is never too small, and no thread
 * needs to be stopped; it is too large by what the leases have left, and by events whose `settled`
 * is not stored yet. A request that fits by this sum is granted at once. Otherwise the sum is made
 * exact: the leases are closed and collected, and we wait for the rings, for held events, and for
 * threads that are keeping books (a moment). A request that does not fit then crosses the limit.
 *
 * The program goes on meanwhile, so what was read before the ring and after it may not belong
 * together. Two things can be counted twice. An event that was settled while we read: then
 * `settled` is another one afterwards. A block whose release has been credited, and charged again,
 * while we read, so that we know of the new one and not of the release yet: only the thread of an
 * open lease does that, so every lease is closed for a verdict, also one that has nothing left. If
 * a thread keeps no books, its lease was closed before the rings were read, and its `settled` is
 * what it was, then all events that the rings had from it are settled, and counted once.
 *
 * A collected lease is no more than what its thread has charged. The hook marks itself busy, then
 * reads `given`, then stores `charged`; so after `given` was closed and a barrier passed, a thread
 * that is not busy has seen it closed, or has stored what it charged.
 *
 * If a handler has interrupted its thread while that kept books, the handler waits for our answer,
 * so the thread stands still, and its books are exact (ASK_ROOM in wire_mail.h): its lease is
 * collected without a barrier, but for what it may just be charging, and what is in flight and has
 * its event in the ring is not counted twice.
 *
 * The target can write all of this. Its words are clamped between their last values and what we
 * gave: a target can evade its limit so, as it can by not calling malloc, but it cannot corrupt our
 * state.
 */

/* the lease of signal handlers inside hooks: they get the exact bytes, charged at once */
#define HANDLERS WIRE_THREADS
#define LEASES	 (WIRE_THREADS + 1)
#define MOST	 (1ull << 62) /* sums of two fit */
#define LEAST	 512u	      /* less in advance is not worth taking back */
/* how long to wait for a thread that keeps books, or an event that others wait for */
#define PATIENCE_MS 1000
/* at most so much of it counts between two looks: the threads may have stood still as we did */
#define STEP_MS 20
#define CALL_MS 100 /* for a thread inside the real function */
/* for threads that are about to free something, before a verdict that ends the program */
#define GRACE_MS 3

struct lease {
	uint64_t given, charged, settled, credited; /* bytes ever; charged: at least */
	uint64_t settled_seen, head_seen;
	uint64_t looked_ms;	/* when the present question was last looked at, + 1; 0: never */
	uint64_t waited_ms;	/* how long it has been waiting, by steps of STEP_MS at most */
	uint64_t answer, ahead; /* what was last granted; 0 if that was refused */
	bool handler;		/* ... to a handler */
	/*
	 * OPEN: its thread may charge what `given` says over there, and again what it frees.
	 * CLOSED: `given` is 0 there, but the thread may not have seen that yet. COLLECTED: it
	 * charges nothing without asking, and what it has charged is known.
	 */
	enum { COLLECTED, OPEN, CLOSED } state;
	bool unsettled; /* of HANDLERS: an event may be in the ring that is not settled yet */
};

static inline uint64_t load64(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static inline void store64(uint64_t *p, uint64_t v) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); }

static inline uint64_t between(uint64_t v, uint64_t lo, uint64_t hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

const char *const limit_action_names[LIMIT_ACTIONS] = { "kill", "stop", "fail", "report" };

/* ---- refusals ------------------------------------------------------------ */

/* Where STACK is, or belongs. */
static size_t place_of(const struct limit *l, uint32_t stack)
{
	return SEARCH(i, l->refusals, l->refusal[i].stack < stack);
}

int limit_refused(struct limit *l, uint32_t stack, uint64_t bytes)
{
	size_t at = place_of(l, stack);

	if (at == l->refusals || l->refusal[at].stack != stack) {
		if (array_room(&l->refusal, l->refusals, &l->room, sizeof(*l->refusal)))
			return -ENOMEM;
		memmove(&l->refusal[at + 1], &l->refusal[at],
			(l->refusals - at) * sizeof(*l->refusal));
		l->refusal[at] = (struct limit_refusal){ .stack = stack };
		l->refusals++;
	}
	l->refusal[at].count++;
	l->refusal[at].bytes += bytes;
	return 0;
}

/* ---- leases -------------------------------------------------------------- */

static uint32_t slots(struct process *p) { return shared_slots(&p->shared); }

/* What the slot's thread may have charged at most. */
static uint64_t most(const struct lease *l)
{
	return least(l->given, MOST) + least(l->credited, MOST);
}

/* Reads `credited`, which is at most what the thread has charged. */
static void look_credited(struct lease *l, const struct wire_thread *t)
{
	uint64_t credited = load64(&t->credited), now = least(credited, load64(&t->charged));

	l->credited = now > l->credited ? now : l->credited;
}

/* What the slot's thread has charged: it stands still, or it is a lower bound. */
static uint64_t charged(const struct lease *l, const struct wire_thread *t)
{
	return between(load64(&t->charged), l->charged, most(l));
}

/*
 * Takes back what is left of a lease. Its thread stands still, or the lease is closed and the
 * thread is not keeping books.
 */
static void take_back(struct lease *l, struct wire_thread *t)
{
	store64(&t->given, 0);
	look_credited(l, t);
	l->charged = charged(l, t);
	l->given = l->charged > l->credited ? l->charged - l->credited : 0;
	l->state = COLLECTED;
}

/* Gives the slot's thread what its lease says, by which it may go on without asking. */
static void open_lease(struct process *p, uint32_t slot)
{
	struct lease *l = &p->limit.lease[slot];

	store64(&p->wire->thread[slot].given, l->given);
	l->state = OPEN;
}

int limit_switch(struct process *p, unsigned count)
{
	uint32_t what = (count & LEDGER_COUNT_HEAP ? LIMIT_BLOCKS : 0) |
			(count & LEDGER_COUNT_MMAP ? LIMIT_MAPS : 0);

	if (!p->wire)
		return 0;
	if (what && !p->limit.lease)
		p->limit.lease = calloc(LEASES, sizeof(*p->limit.lease));
	if (what && !p->limit.lease)
		return -ENOMEM;
	limit_unwatch(p);
	p->limit.lifted = false;
	__atomic_store_n(&p->wire->limited, what, __ATOMIC_SEQ_CST);
	return 0;
}

void limit_lift(struct process *p)
{
	p->limit.lifted = true;
	if (p->wire)
		__atomic_store_n(&p->wire->limited, 0, __ATOMIC_SEQ_CST);
}

void limit_close(struct process *p)
{
	for (uint32_t i = 0, n = slots(p); i < n; i++) {
		if (p->limit.lease[i].state != OPEN)
			continue;
		store64(&p->wire->thread[i].given, 0);
		p->limit.lease[i].state = CLOSED;
	}
	p->limit.fenced = false;
}

void limit_fenced(struct process *p) { p->limit.fenced = true; }

void limit_thread_gone(struct process *p, uint64_t fs)
{
	if (!p->limit.lease || fs <= 1)
		return;
	for (uint32_t i = 0, n = slots(p); i < n; i++) {
		struct wire_thread *t = &p->wire->thread[i];
		struct lease *l = &p->limit.lease[i];

		if (load64(&t->fs) != fs)
			continue;
		take_back(l, t);
		l->settled = l->charged;
		store64(&t->charged, l->charged);
		store64(&t->settled, l->charged);
		l->looked_ms = 0;
		return;
	}
}

/* Whether the thread, or a handler in it, has asked for room and waits. */
static bool is_asking(const struct wire_thread *t)
{
	return (__atomic_load_n(&t->mail.state, __ATOMIC_ACQUIRE) & MAIL_STATE) == MAIL_ASKED &&
	       t->mail.what == ASK_ROOM;
}

/* Whether the thread's outermost hook asks, and not a handler that interrupted it. */
static bool asks(const struct wire_thread *t)
{
	return is_asking(t) && !(load64(&t->mail.arg[0]) & ROOM_HANDLER);
}

/* Whether the thread is keeping books, which may be inconsistent just now. */
static bool busy(const struct wire_thread *t)
{
	return load64(&t->fs) > 1 && load64(&t->mark) & WIRE_BUSY && !asks(t);
}

/* Whether all events of SLOT that were there at the last look() were taken. */
static bool taken(const struct process *p, uint32_t slot)
{
	return (int64_t)(stream_taken(p->stream, slot) - p->limit.lease[slot].head_seen) >= 0;
}

/*
 * Whether a handler has interrupted the slot's thread while that kept books, and waits for our
 * answer: the one that asks Q, or another, for which Q cannot wait.
 */
static bool interrupted(struct process *p, const struct room_question *q, uint32_t slot)
{
	const struct wire_thread *t = &p->wire->thread[slot];

	if (!q->handler || slot == q->slot)
		return q->handler && slot == q->slot;
	return load64(&t->fs) > 1 && is_asking(t) && load64(&t->mail.arg[0]) & ROOM_HANDLER;
}

/* Collects the lease of an interrupted() thread, which will find nothing more given. */
static void collect_interrupted(struct process *p, uint32_t slot)
{
	struct wire_thread *t = &p->wire->thread[slot];
	struct lease *l = &p->limit.lease[slot];
	uint64_t charging = load64(&t->charging), settles = load64(&t->settles), had = most(l);

	take_back(l, t);
	if (charging > l->charged && charging <= had)
		l->given = charging > l->credited ? charging - l->credited : 0;
	else if (load64(&t->head) > settles && stream_taken(p->stream, slot) > settles)
		l->settled = l->charged;
}

/* Returns whether a lease was collected that was open as the rings were read. */
static bool collect(struct process *p, const struct room_question *q)
{
	bool was_open = false;

	for (uint32_t i = 0, n = slots(p); i < n; i++) {
		struct lease *l = &p->limit.lease[i];

		if (interrupted(p, q, i)) {
			was_open |= l->state == OPEN || (l->state == CLOSED && !p->limit.fenced);
			collect_interrupted(p, i);
		} else if (p->limit.fenced && l->state == CLOSED && !busy(&p->wire->thread[i])) {
			take_back(l, &p->wire->thread[i]);
		}
	}
	return was_open;
}

/* ---- what is allocated --------------------------------------------------- */

static void look(struct process *p)
{
	struct lease *l = p->limit.lease;
	uint64_t head;

	for (uint32_t i = 0, n = slots(p); i < n; i++) {
		l[i].settled_seen = load64(&p->wire->thread[i].settled);
		l[i].head_seen = load64(&p->wire->thread[i].head);
	}
	head = l[HANDLERS].head_seen;
	l[HANDLERS].settled_seen = load64(&p->wire->signal_settled);
	l[HANDLERS].head_seen = load64(&p->wire->signal_head);
	l[HANDLERS].unsettled |= l[HANDLERS].head_seen != head;
}

/* Counts what look() saw settled, if the stream has its events. Returns whether it has all. */
static bool accept_slot(struct process *p, uint32_t slot)
{
	struct lease *l = &p->limit.lease[slot];

	if (!taken(p, slot))
		return false;
	if (slot != HANDLERS)
		look_credited(l, &p->wire->thread[slot]);
	l->settled = between(l->settled_seen, l->settled, most(l));
	return true;
}

static bool accept_all(struct process *p)
{
	bool all = accept_slot(p, HANDLERS);

	for (uint32_t i = 0, n = slots(p); i < n; i++)
		all &= accept_slot(p, i);
	return all;
}

/* Bytes that are allocated, never too few. *HELD: whether events are held. */
static uint64_t allocated(struct process *p, unsigned count, bool *held)
{
	struct lease *l = p->limit.lease;
	uint64_t sum, waiting;

	*held = stream_held(p->stream, &waiting);
	sum = least(process_allocated(p, count), MOST) + least(waiting, MOST);
	for (uint32_t i = 0, n = slots(p); i < n; i++) {
		look_credited(&l[i], &p->wire->thread[i]);
		sum = least(sum, MOST) +
		      (most(&l[i]) > l[i].settled ? least(most(&l[i]) - l[i].settled, MOST) : 0);
	}
	return least(least(sum, MOST) + least(l[HANDLERS].given - l[HANDLERS].settled, MOST), MOST);
}

/* ---- a request ----------------------------------------------------------- */

void room_question(struct room_question *q, const struct shared_question *asked)
{
	uint64_t first = asked->arg[0];

	*q = (struct room_question){ .slot = asked->slot,
				     .stack = (uint32_t)(first >> 32),
				     .kind = (enum wire_room)(first & 0xff),
				     .handler = first & ROOM_HANDLER };
	for (int i = 0; i < 4; i++)
		q->arg[i] = asked->arg[1 + i];
}

static uint64_t size_at(const struct process *p, raddr_t address)
{
	struct ledger_block b;

	return ledger_below(p->ledger, address, &b) && b.address == address ? b.size : 0;
}

/*
 * By how many bytes `allocated` would grow, if the ledger is up to date; 0 if it shrinks. *CHARGE:
 * what is in flight meanwhile.
 */
static uint64_t growth(struct process *p, const struct room_question *q, uint64_t *charge)
{
	uint64_t n = least(q->arg[0], MOST), was = 0;
	struct ledger_cover old, there;

	*charge = n;
	switch (q->kind) {
	case ROOM_RESIZE: was = size_at(p, q->arg[1]); return n > was ? n - was : 0;
	case ROOM_MAP:
		if (q->arg[1]) { /* what it displaces */
			ledger_cover(p->ledger, q->arg[1], n, &there);
			was = there.open;
		}
		break;
	case ROOM_REMAP:
		ledger_cover(p->ledger, q->arg[1], q->arg[2], &old);
		was = old.begins_open ? old.open : n;
		if (q->arg[3]) {
			ledger_cover(p->ledger, q->arg[3], n, &there);
			was += there.open;
		}
		break;
	case ROOM_PROTECT:
		ledger_cover(p->ledger, q->arg[1], n, &there);
		n = there.closed;
		break;
	default: return n;
	}
	*charge = n > was ? n - was : 0;
	return *charge;
}

/*
 * Whether a new mapping is not the program's own, and so is not counted. (mremap and mprotect of
 * such memory grow nothing that is counted.)
 */
static bool foreign(struct process *p, const struct room_question *q)
{
	return (q->kind == ROOM_MAP || q->kind == ROOM_BREAK) && !process_own_mapping(p, q->stack);
}

/*
 * How many ms the question has been waiting. A machine that was paused, or mtrun that was stopped,
 * has used up no patience: the threads that are waited for may have had no time to run.
 */
static uint64_t waited(struct lease *l, uint64_t ms)
{
	uint64_t step = ms + 1 - l->looked_ms;

	if (!l->looked_ms)
		l->waited_ms = 0;
	else if (ms + 1 > l->looked_ms)
		l->waited_ms += least(step, STEP_MS);
	l->looked_ms = ms + 1;
	return l->waited_ms;
}

/*
 * Whether the thread of SLOT may change the result at any moment, or has changed it since look():
 * it keeps books, it has settled something, or it is in a realloc, of which both blocks are counted
 * (RESIZING: there is one).
 */
static bool acts(struct process *p, const struct room_question *q, uint32_t slot, bool resizing)
{
	const struct wire_thread *t = &p->wire->thread[slot];
	const struct lease *l = &p->limit.lease[slot];
	bool stands = slot == q->slot || load64(&t->fs) <= 1 || interrupted(p, q, slot);

	if (!stands && busy(t))
		return true;
	if (load64(&t->settled) != l->settled_seen) /* after the look at its mark */
		return true;
	return !stands && resizing && load64(&t->mark) && !asks(t) && most(l) != l->settled;
}

/*
 * Whether anybody acts. What a handler was granted is counted twice between its event and its
 * settlement; nothing tells where it is, but that it has written an event.
 */
static bool others_act(struct process *p, const struct room_question *q, uint64_t waited_ms)
{
	struct lease *handlers = &p->limit.lease[HANDLERS];
	bool call = waited_ms < CALL_MS;

	handlers->unsettled &= call && handlers->given != handlers->settled;
	if (handlers->unsettled)
		return true;
	for (uint32_t i = 0, n = slots(p); waited_ms < PATIENCE_MS && i < n; i++)
		if (acts(p, q, i, call && ledger_resizing(p->ledger)))
			return true;
	return false;
}

/*
 * Whether there are closed leases that are not collected. *OPENED: whether others than the thread
 * that asks have open ones; *LEFT: whether any of those has something left.
 */
static bool closed_ones(struct process *p, const struct room_question *q, bool *opened, bool *left)
{
	bool closed = false;

	*opened = *left = false;
	for (uint32_t i = 0, n = slots(p); i < n; i++) {
		const struct lease *l = &p->limit.lease[i];

		closed |= l->state == CLOSED;
		if (l->state != OPEN || i == q->slot)
			continue;
		*opened = true;
		*left |= most(l) > charged(l, &p->wire->thread[i]);
	}
	return closed;
}

/* How many bytes one thread may have in advance, when ROOM are left. */
static uint64_t ahead(const struct process *p, const struct room_question *q, uint64_t room)
{
	uint64_t share = p->threads > 1 ? room / (2 * p->threads) : room;

	return q->handler || (share < LEAST && p->threads > 1) ? 0 : share;
}

static enum room_verdict fits(const struct process *p, const struct room_question *q,
			      const struct room_rules *r, struct room_case *c)
{
	uint64_t then = c->allocated + (c->charge > c->growth ? c->charge : c->growth);

	c->ahead = then < r->limit ? ahead(p, q, r->limit - then) : 0;
	return ROOM_FITS;
}

/* Whether it fits by what is known so far. */
static bool is_room(const struct room_case *c, const struct room_rules *r)
{
	return !c->growth || (c->allocated <= r->limit && c->growth <= r->limit - c->allocated);
}

enum room_verdict limit_judge(struct process *p, const struct room_question *q,
			      const struct room_rules *r, struct room_case *c)
{
	struct lease *own = &p->limit.lease[q->slot];
	bool all, held, opened, left, closed, was_open;
	uint64_t ms;

	look(p);
	stream_take(p->stream, r->ms, SIZE_MAX);
	all = accept_all(p);
	if (!q->handler) /* the thread that asks stands still */
		take_back(own, &p->wire->thread[q->slot]);
	c->allocated = allocated(p, r->count, &held);
	c->growth = c->charge = q->arg[0];
	if (foreign(p, q))
		c->growth = c->charge = 0;
	if (is_room(c, r))
		return fits(p, q, r, c);
	ms = waited(own, r->ms);
	was_open = collect(p, q);
	c->allocated = allocated(p, r->count, &held);
	if (is_room(c, r))
		return fits(p, q, r, c);
	closed = closed_ones(p, q, &opened, &left);
	if (left || (closed && !p->limit.fenced)) {
		limit_close(p);
		return ROOM_FENCE;
	}
	if ((closed || was_open || !all || held) && ms < PATIENCE_MS)
		return ROOM_LATER;
	if (!all || held)
		stream_settle(p->stream, r->ms, false);
	c->growth = growth(p, q, &c->charge);
	c->allocated = allocated(p, r->count, &held);
	if (is_room(c, r))
		return fits(p, q, r, c);
	if (others_act(p, q, ms))
		return ROOM_LATER;
	if (opened) {
		limit_close(p);
		return ROOM_FENCE;
	}
	if (r->final && !r->frozen && p->threads > 1 && ms < GRACE_MS)
		return ROOM_LATER;
	return ROOM_CROSSES;
}

/* ---- above a limit that is only reported --------------------------------- */

#define AHEAD_ABOVE (1u << 20) /* bytes that a thread may have in advance there */

/* Whether E begins a move of a block or mapping: the sum is then too small for a moment. */
static bool is_moving(const struct process *p, struct wire_event e)
{
	enum wire_kind kind = wire_kind(e);

	return kind == WIRE_BECAME || kind == WIRE_BECAME_WIDE || kind == WIRE_REMAP ||
	       ledger_resizing(p->ledger);
}

/*
 * Once P is below its limit what was given in advance is taken back, so that the request that next
 * crosses it is asked about. But a thread may use some of it before it sees that, and so cross the
 * limit: events tell of such a crossing.
 */
static void watch(void *ctx, uint32_t thread, struct wire_event e)
{
	struct process *p = ctx;
	struct limit_watch *w = &p->limit.watch;
	uint64_t was = w->allocated, now = process_allocated(p, w->count);
	bool risen = w->risen, crosses = was <= w->limit && now > w->limit;

	w->allocated = now;
	w->risen |= now > w->limit;
	if (now <= was || !w->risen)
		return;
	if ((now > w->limit) == p->limit.above && !(risen && crosses && !is_moving(p, e)))
		return;
	p->limit.above = now > w->limit;
	if (!p->limit.above) {
		limit_close(p);
		return;
	}
	w->crossings++;
	w->last = (struct limit_hit){
		.process = p,
		.tid = ledger_thread_tid(p->ledger, thread),
		.request = now - was,
		.allocated = was,
		.limit = w->limit,
		.stack = wire_stack(e),
	};
}

void limit_watch(struct process *p, uint32_t slot, const struct room_rules *r)
{
	if (!p->stream || !p->limit.lease)
		return;
	p->limit.above = true;
	p->limit.watch = (struct limit_watch){ .limit = r->limit,
					       .count = r->count,
					       .allocated = process_allocated(p, r->count),
					       .slot = slot };
	stream_watch(p->stream, watch, p);
}

void limit_unwatch(struct process *p)
{
	p->limit.above = false;
	if (p->stream)
		stream_watch(p->stream, NULL, NULL);
}

bool limit_above(struct process *p, const struct room_question *q, const struct room_rules *r,
		 struct room_case *c)
{
	const struct limit_watch *w = &p->limit.watch;
	uint64_t held;

	look(p);
	stream_take(p->stream, r->ms, SIZE_MAX);
	accept_all(p);
	if (!q->handler)
		take_back(&p->limit.lease[q->slot], &p->wire->thread[q->slot]);
	/* the memory that it was granted before was not given */
	if (!w->risen && q->slot == w->slot && !stream_held(p->stream, &held))
		p->limit.above = w->allocated > w->limit;
	if (!p->limit.above)
		return false;
	c->growth = growth(p, q, &c->charge);
	if (foreign(p, q))
		c->growth = c->charge = 0;
	c->ahead = q->handler ? 0 : AHEAD_ABOVE + 16 * least(c->charge, AHEAD_ABOVE);
	return true;
}

/* ---- answers ------------------------------------------------------------- */

uint64_t limit_grant(struct process *p, const struct room_question *q, const struct room_case *c)
{
	struct lease *own = &p->limit.lease[q->slot], *handlers = &p->limit.lease[HANDLERS];

	own->looked_ms = 0;
	own->answer = c->charge;
	own->ahead = c->ahead;
	own->handler = q->handler;
	if (q->handler) {
		handlers->given += c->charge;
		return c->charge;
	}
	own->charged += c->charge;
	own->given += c->charge + c->ahead;
	open_lease(p, q->slot);
	return c->charge;
}

uint64_t limit_refuse(struct process *p, const struct room_question *q)
{
	struct lease *own = &p->limit.lease[q->slot];

	own->looked_ms = own->answer = own->ahead = 0;
	if (!q->handler)
		open_lease(p, q->slot);
	return ROOM_NONE;
}

void limit_unanswered(struct process *p, uint32_t slot)
{
	struct lease *own, *handlers;

	if (!p->limit.lease)
		return;
	own = &p->limit.lease[slot];
	handlers = &p->limit.lease[HANDLERS];
	if (own->handler)
		handlers->given -= own->answer;
	else {
		own->charged -= own->answer;
		own->given -= own->answer + own->ahead;
		open_lease(p, slot);
	}
	own->answer = own->ahead = own->looked_ms = 0;
}
