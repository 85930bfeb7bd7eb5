// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The stream against a pretended target that plays all its threads by turns, so that the true order
 * is known and any delay between taking a number and storing the event can be played; and against
 * real threads that share a small heap.
 */
#include "stream_rig.h"

/* ---- a played target: the true order is known ---------------------------- */

enum { PLAYERS = 6, CELLS = 400, STACKS = 50 };

struct player {
	struct wire_event queue[4]; /* what has its number and is not stored yet */
	int queued;
	bool wide;
	int leaving; /* cell + 1 */
	/* its block is free already: others may have it, while it is still counted here */
	bool moved;
	uint64_t old; /* bytes of the block that is leaving */
};

struct play {
	struct rig r;
	struct player player[PLAYERS];
	/* 0 free, 1 live, 2 somebody is at it */
	struct {
		int state;
		uint64_t size;
	} cell[CELLS];
	uint64_t address[CELLS];
	/* as the program sees it: what has returned, what was stored */
	uint64_t heap, stored;
	uint64_t allocs, frees;
	uint32_t ms;
};

static void say(struct play *p, int t, enum wire_kind k, uint64_t addr, uint64_t size,
		uint32_t stack)
{
	struct player *q = &p->player[t];
	q->wide = wire_is_wide(k);
	q->queue[0] = wire_pack(k, addr, number(p->r.w, addr), q->wide ? 0 : (uint32_t)size, stack);
	if (q->wide)
		q->queue[1] = (struct wire_event){ size, ticket(p->r.w) };
	q->queued = 1;
}

/*
 * A thread makes one step: either stores what it has numbered (and does the rest), or begins
 * something.
 */
static void step(struct play *p, int t)
{
	struct player *q = &p->player[t];
	struct wire_process *w = p->r.w;
	if (q->queued) {
		if (q->wide)
			store2(w, (unsigned)t, q->queue[0], q->queue[1].a, q->queue[1].b);
		else
			store(w, (unsigned)t, q->queue[0]);
		uint64_t addr = wire_address(q->queue[0]),
			 size = q->wide ? q->queue[1].a : wire_size(q->queue[0]);
		int c = 0;
		while (p->address[c] != addr)
			c++;
		q->queued = 0;
		switch (wire_kind(q->queue[0])) {
		case WIRE_ALLOC:
		case WIRE_ALLOC_WIDE:
			p->cell[c].state = 1;
			p->cell[c].size = size;
			p->heap += size;
			p->allocs++;
			break;
		case WIRE_FREE:
		case WIRE_FREE_WIDE:
			/* the real free is called only now */
			p->cell[c].state = 0;
			p->heap -= p->cell[c].size;
			p->frees++;
			break;
		case WIRE_LEAVE:
			q->leaving = c + 1;
			q->old = p->cell[c].size;
			q->moved = rnd() % 2;
			if (q->moved)
				p->cell[c].state = 0;
			break;
		default:
			q->leaving = 0;
			p->heap += size - q->old;
			p->cell[c].state = 1;
			p->cell[c].size = size;
			p->allocs++;
			p->frees++;
		}
		return;
	}
	if (rnd() % 20 == 0)
		at_ms(w, (unsigned)t, p->ms += rnd() % 2);
	int c = (int)(rnd() % CELLS);
	uint32_t stack = (uint32_t)(rnd() % STACKS);
	uint64_t size = rnd() % 6 ? rnd() % 4096 : rnd() % 100000;
	if (q->leaving) {
		int where = q->moved ? c : q->leaving - 1;
		if (q->moved && p->cell[where].state != 0)
			return;
		p->cell[where].state = 2;
		say(p, t, size < WIRE_WIDE ? WIRE_BECAME : WIRE_BECAME_WIDE, p->address[where],
		    size, stack);
		return;
	}
	if (p->cell[c].state == 0) {
		p->cell[c].state = 2;
		say(p, t, size < WIRE_WIDE ? WIRE_ALLOC : WIRE_ALLOC_WIDE, p->address[c], size,
		    stack);
	} else if (p->cell[c].state == 1) {
		p->cell[c].state = 2;
		bool wide = p->cell[c].size >= WIRE_WIDE;
		say(p, t,
		    rnd() % 3 == 0 ? WIRE_LEAVE
		    : wide	   ? WIRE_FREE_WIDE
				   : WIRE_FREE,
		    p->address[c], 0, 0);
		if (!wide)
			p->player[t].wide = false;
	}
}

static void test_played(void)
{
	for (int round = 0; round < 20; round++) {
		static struct play p;
		unsigned wrong = 0, answers = 0;
		memset(&p, 0, sizeof(p));
		p.r = rig_new(PLAYERS);
		p.ms = 1;
		for (int c = 0; c < CELLS; c++)
			p.address[c] = 0x600010 + (uint64_t)c * (round % 2 ? 48 : 16 * 4096);
		for (unsigned t = 0; t < PLAYERS; t++)
			begin(p.r.w, t, 100 + t);
		for (int i = 0; i < 100000; i++) {
			int t = (int)(rnd() % PLAYERS);
			/* one that is stopped again and again, with a number in its hand */
			if (t == round % PLAYERS && i % 1000 < 900)
				continue;
			if (p.r.w->thread[t].head - p.r.w->thread[t].tail < WIRE_RING - 8)
				step(&p, t);
			if (rnd() % 700 == 0)
				stream_take(p.r.s, p.ms, 1 + rnd() % 3000);
			if (rnd() % 3000 == 0) {
				stream_settle(p.r.s, p.ms, false);
				answers++;
				if (totals(p.r.l).heap != p.heap && wrong++ < 3)
					printf("# round %d, %d: heap is %llu, not %llu; %llu %llu\n",
					       round, i, (long long)totals(p.r.l).heap,
					       (long long)p.heap, (long long)stats(p.r.s).held_now,
					       (long long)stats(p.r.s).gaps);
			}
		}
		for (int t = 0; t < PLAYERS; t++)
			if (p.player[t].queued)
				step(&p, t);
		stream_settle(p.r.s, p.ms, true);
		struct ledger_totals l = totals(p.r.l);
		CHECK_EQ(wrong, 0);
		CHECK(answers > 5);
		CHECK_EQ(l.heap, p.heap);
		CHECK_EQ(l.allocs, p.allocs);
		CHECK_EQ(l.frees, p.frees);
		check_whole(&p.r);
		rig_free(&p.r);
	}
}

/* ---- real threads -------------------------------------------------------- */

enum { WRITERS = 3, SHARED = 64 };

struct writers {
	struct wire_process *w;
	unsigned events;
	pthread_mutex_t lock[SHARED];
	/* address of a live block, or 0: given by one thread to another */
	uint64_t cell[SHARED];
	uint64_t live; /* bytes at the end */
};

struct writer {
	struct writers *all;
	unsigned t;
};

static void room(struct wire_process *w, unsigned t)
{
	struct wire_thread *th = &w->thread[t];
	while (th->head + 4 - __atomic_load_n(&th->tail, __ATOMIC_ACQUIRE) > WIRE_RING)
		sched_yield();
}

static void *writer(void *arg)
{
	struct writer *me = arg;
	struct writers *a = me->all;
	uint64_t x = 0x9e3779b97f4a7c15ull * (me->t + 1), live = 0;
	room(a->w, me->t);
	begin(a->w, me->t, 200 + me->t);
	for (unsigned i = 0; i < a->events; i++) {
		test_random(&x);
		unsigned c = (unsigned)(x % SHARED);
		uint64_t addr = 0x1000000 + (uint64_t)c * 64, size = c * 10;
		room(a->w, me->t);
		/* the allocator's order: number and grant belong together */
		pthread_mutex_lock(&a->lock[c]);
		if (a->cell[c]) {
			release(a->w, me->t, addr);
			a->cell[c] = 0;
			live -= size;
		} else {
			a->cell[c] = addr;
			alloc(a->w, me->t, addr, size, (uint32_t)(x >> 50));
			live += size;
		}
		pthread_mutex_unlock(&a->lock[c]);
	}
	__atomic_fetch_add(&a->live, live, __ATOMIC_RELAXED);
	return NULL;
}

static void test_threads(void)
{
	struct rig r = rig_new(WRITERS);
	static struct writers a;
	struct writer me[WRITERS];
	pthread_t id[WRITERS];
	memset(&a, 0, sizeof(a));
	a.w = r.w;
	a.events = 300000;
	for (int i = 0; i < SHARED; i++)
		pthread_mutex_init(&a.lock[i], NULL);
	for (unsigned t = 0; t < WRITERS; t++) {
		me[t] = (struct writer){ &a, t };
		pthread_create(&id[t], NULL, writer, &me[t]);
	}
	uint64_t now = 0;
	while (stats(r.s).events < WRITERS * a.events && now < 10000000)
		if (!stream_take(r.s, now++ / 1000, 5000))
			sched_yield();
	for (unsigned t = 0; t < WRITERS; t++)
		pthread_join(id[t], NULL);
	stream_settle(r.s, now / 1000, true);
	CHECK_EQ(stats(r.s).events, WRITERS * a.events);
	CHECK_EQ(totals(r.l).heap, a.live);
	CHECK_EQ(totals(r.l).unknown_frees, 0);
	CHECK_EQ(totals(r.l).allocs + totals(r.l).frees, WRITERS * a.events);
	check_whole(&r);
	rig_free(&r);
}

/* ---- real threads that are asked all the time ---------------------------- */

/*
 * An allocator of CELLS_ASKED addresses that share a few counters: a number is taken after the
 * grant and before the release, as the hooks do, with nothing else to order the threads, and a
 * thread may be kept from running between its number and the store.
 */
enum { ASKED = 4, CELLS_ASKED = 96, COUNTERS_ASKED = 6 };

struct asked {
	struct wire_process *w;
	unsigned events;
	uint64_t address[CELLS_ASKED];
	int taken[CELLS_ASKED];	     /* by the pretended allocator */
	uint64_t given[CELLS_ASKED]; /* cell + 1 of a live block that anybody may have */
	uint64_t heap, blocks;	     /* at the end */
	unsigned running;
};

struct asked_thread {
	struct asked *all;
	unsigned t;
	uint64_t x;
};

static void dawdle(uint64_t *x)
{
	uint64_t n = test_random(x) % 3000;
	if (n == 0)
		usleep(2000);
	else if (n < 20)
		sched_yield();
}

static unsigned cell_take(struct asked *a, uint64_t *x)
{
	for (;;) {
		unsigned c = (unsigned)(test_random(x) % CELLS_ASKED);
		if (!__atomic_exchange_n(&a->taken[c], 1, __ATOMIC_ACQ_REL))
			return c;
	}
}

static void numbered(struct asked_thread *me, enum wire_kind k, unsigned cell, uint32_t size)
{
	struct asked *a = me->all;
	room(a->w, me->t);
	uint32_t n = __atomic_fetch_add(&a->w->counter[wire_counter(a->address[cell])], 1,
					__ATOMIC_ACQ_REL);
	dawdle(&me->x);
	store(a->w, me->t, wire_pack(k, a->address[cell], n, size, 1 + cell));
}

static void *asked_thread(void *arg)
{
	struct asked_thread *me = arg;
	struct asked *a = me->all;
	room(a->w, me->t);
	begin(a->w, me->t, 300 + me->t);
	for (unsigned i = 0; i < a->events; i++) {
		unsigned c = cell_take(a, &me->x);
		numbered(me, WIRE_ALLOC, c, 16 + c);
		uint64_t old =
			__atomic_exchange_n(&a->given[test_random(&me->x) % (CELLS_ASKED / 3)],
					    c + 1, __ATOMIC_ACQ_REL);
		if (!old)
			continue;
		c = (unsigned)old - 1;
		if (test_random(&me->x) % 4 == 0) {
			numbered(me, WIRE_LEAVE, c, 0);
			bool moves = test_random(&me->x) % 2;
			if (moves) {
				__atomic_store_n(&a->taken[c], 0, __ATOMIC_RELEASE);
				c = cell_take(a, &me->x);
			}
			numbered(me, WIRE_BECAME, c, 16 + c);
		}
		numbered(me, WIRE_FREE, c, 0);
		__atomic_store_n(&a->taken[c], 0, __ATOMIC_RELEASE);
	}
	__atomic_fetch_sub(&a->running, 1, __ATOMIC_RELEASE);
	return NULL;
}

static uint64_t real_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void test_asked(void)
{
	struct rig r = rig_new(ASKED);
	static struct asked a;
	struct asked_thread me[ASKED];
	pthread_t id[ASKED];
	uint64_t began = real_ms(), seed_here = 88172645463325252ull, address = 0x2000000;
	memset(&a, 0, sizeof(a));
	a.w = r.w;
	a.events = 60000;
	a.running = ASKED;
	for (unsigned c = 0; c < CELLS_ASKED; address += 16)
		if (wire_counter(address) < COUNTERS_ASKED)
			a.address[c++] = address;
	for (unsigned t = 0; t < ASKED; t++) {
		me[t] = (struct asked_thread){ &a, t, test_random(&seed_here) };
		pthread_create(&id[t], NULL, asked_thread, &me[t]);
	}
	while (__atomic_load_n(&a.running, __ATOMIC_ACQUIRE)) {
		stream_settle(r.s, real_ms() - began, false);
		for (int i = 0; i < 3; i++)
			stream_take(r.s, real_ms() - began, 5000);
	}
	for (unsigned t = 0; t < ASKED; t++)
		pthread_join(id[t], NULL);
	stream_settle(r.s, real_ms() - began, true);
	uint64_t heap = 0, blocks = 0;
	for (unsigned c = 0; c < CELLS_ASKED; c++)
		if (a.given[c]) {
			heap += 16 + a.given[c] - 1;
			blocks++;
		}
	CHECK_EQ(totals(r.l).unknown_frees, 0);
	CHECK_EQ(totals(r.l).heap, heap);
	CHECK_EQ(totals(r.l).live_blocks, blocks);
	CHECK_EQ(totals(r.l).allocs - totals(r.l).frees, blocks);
	check_whole(&r);
	rig_free(&r);
}

/* ---- mappings whose owner goes from thread to thread --------------------- */

/*
 * As goroutines do: what one thread maps another unmaps. Each owner has two rings, and is kept from
 * running now and then between its ticket and the store, when an answer passes it over.
 */
enum { OWNERS = 4, RINGS_EACH = 2, MAPPED = 30000 };

struct owner {
	struct wire_process *w;
	unsigned *running;
	unsigned n;
};

static void ticketed(const struct owner *me, uint64_t *x, enum wire_kind kind)
{
	unsigned t = me->n * RINGS_EACH + (unsigned)(test_random(x) % RINGS_EACH);
	room(me->w, t);
	uint64_t tick = ticket(me->w);
	if (test_random(x) % 8 == 0)
		sched_yield();
	store2(me->w, t,
	       wire_pack(kind, 0x7f0000000000 + me->n * 0x10000ull, 0,
			 kind == WIRE_MAP ? 3 | WIRE_MAP_ANON : 0, 1),
	       4096, tick);
}

static void *owner(void *arg)
{
	struct owner *me = arg;
	uint64_t x = 0x9e3779b97f4a7c15ull * (me->n + 1);
	for (unsigned i = 0; i < MAPPED; i++) {
		ticketed(me, &x, WIRE_MAP);
		ticketed(me, &x, WIRE_UNMAP);
	}
	__atomic_fetch_sub(me->running, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void test_passed_over(void)
{
	struct rig r = rig_new(OWNERS * RINGS_EACH);
	struct owner me[OWNERS];
	pthread_t id[OWNERS];
	unsigned running = OWNERS;
	for (unsigned n = 0; n < OWNERS; n++) {
		me[n] = (struct owner){ r.w, &running, n };
		pthread_create(&id[n], NULL, owner, &me[n]);
	}
	while (__atomic_load_n(&running, __ATOMIC_ACQUIRE))
		stream_settle(r.s, 1, true); /* without a wait */
	for (unsigned n = 0; n < OWNERS; n++)
		pthread_join(id[n], NULL);
	stream_settle(r.s, 1, true);
	CHECK_EQ(totals(r.l).maps, OWNERS * MAPPED);
	CHECK_EQ(totals(r.l).unmaps, OWNERS * MAPPED);
	CHECK_EQ(totals(r.l).mmap, 0);
	rig_free(&r);
}

int main(void)
{
	RUN(test_played);
	RUN(test_threads);
	RUN(test_asked);
	RUN(test_passed_over);
	return test_status();
}
