// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A ledger that is logged, and what is made of its log again: a replay of all, one from each
 * checkpoint, and what was live at each interval. The truth is the live ledger (test_ledger.c has a
 * model for that).
 */
#include "inject/wire_event.h"
#include "inject/wire_stack.h"
#include "ledger/ledger.h"
#include "ledger/ledger_replay.h"
#include "ledger/timeline.h"
#include "log/event_decode.h"
#include "log/event_encode.h"
#include "test.h"

#include <errno.h>

static uint64_t seed = 88172645463325252ull;
static uint64_t rnd(void) { return test_random(&seed); }

#define BOTH   (LEDGER_COUNT_HEAP | LEDGER_COUNT_MMAP)
#define RW     (WIRE_PROT_READ | WIRE_PROT_WRITE)
#define STACKS 400u

/* ---- the log ------------------------------------------------------------- */

struct point {
	uint64_t interval, bytes, ms;
};
struct log {
	struct log_block *block;
	size_t count, room;
	struct point *point;
	size_t points, point_room;
	uint8_t told[STACKS]; /* nodes, in this file */
	uint64_t twice;	      /* that were told twice */
};

static void take_node(void *ctx, uint32_t stack)
{
	struct log *g = ctx;
	if (stack >= STACKS)
		return;
	g->twice += g->told[stack];
	g->told[stack] = 1;
}

static void take_block(void *ctx, const struct log_block *b)
{
	struct log *g = ctx;
	if (g->count == g->room)
		g->block = realloc(g->block, (g->room = g->room * 2 + 16) * sizeof(*g->block));
	uint8_t *raw = malloc(b->len + 1);
	memcpy(raw, b->raw, b->len);
	g->block[g->count] = *b;
	g->block[g->count++].raw = raw;
}

static void take_point(void *ctx, uint64_t interval, uint64_t bytes, uint64_t ms)
{
	struct log *g = ctx;
	/* a new file begins with the last one */
	if (g->points && g->point[g->points - 1].interval >= interval) {
		CHECK(g->point[g->points - 1].interval == interval &&
		      g->point[g->points - 1].bytes == bytes && g->point[g->points - 1].ms == ms);
		return;
	}
	if (g->points == g->point_room)
		g->point = realloc(g->point,
				   (g->point_room = g->point_room * 2 + 16) * sizeof(*g->point));
	g->point[g->points++] = (struct point){ interval, bytes, ms };
}

static struct log_sink sink_of(struct log *g)
{
	return (struct log_sink){ g, take_node, take_block, take_point };
}

static void log_release(struct log *g)
{
	for (size_t i = 0; i < g->count; i++)
		free((void *)g->block[i].raw);
	free(g->block);
	free(g->point);
	*g = (struct log){ 0 };
}

/* ---- comparing ----------------------------------------------------------- */

static int by_stack(const void *a, const void *b)
{
	const struct ledger_held *x = a, *y = b;
	return x->stack < y->stack ? -1 : x->stack > y->stack;
}

static bool same_past(const struct ledger *a, const struct ledger *b, uint64_t ms)
{
	struct ledger_held *x = NULL, *y = NULL;
	ssize_t n = ledger_past(a, ms, &x), m = ledger_past(b, ms, &y);
	bool same = n == m && n >= 0;
	if (same) {
		qsort(x, (size_t)n, sizeof(*x), by_stack);
		qsort(y, (size_t)n, sizeof(*y), by_stack);
	}
	for (ssize_t i = 0; i < n && same; i++)
		same = x[i].stack == y[i].stack && x[i].bytes == y[i].bytes &&
		       x[i].count == y[i].count;
	free(x);
	free(y);
	return same;
}

static bool same_interval(const struct ledger *a, const struct ledger *b, uint64_t ms)
{
	struct ledger_interval x, y;
	ledger_interval(a, ms, &x);
	ledger_interval(b, ms, &y);
	return x.from_ms == y.from_ms && x.to_ms == y.to_ms && x.bytes == y.bytes && x.ms == y.ms &&
	       x.span == y.span;
}

static unsigned compare_present(const struct ledger *a, const struct ledger *b)
{
	struct ledger_totals s, t;
	unsigned bad = 0;
	ledger_totals(a, &s);
	ledger_totals(b, &t);
	bad += s.heap != t.heap || s.mmap != t.mmap || s.mmap_reserved != t.mmap_reserved ||
	       s.live_blocks != t.live_blocks;
	bad += s.allocs != t.allocs || s.frees != t.frees || s.maps != t.maps ||
	       s.unmaps != t.unmaps || s.unknown_frees != t.unknown_frees;
	bad += s.temporary != t.temporary || s.total_allocated != t.total_allocated ||
	       s.peak != t.peak || s.peak_ms != t.peak_ms;
	bad += s.events != t.events || s.estimated != t.estimated;
	for (uint32_t i = 0; i < STACKS; i++) {
		const struct ledger_stack *x = ledger_stack(a, i), *y = ledger_stack(b, i);
		bad += x->live_bytes != y->live_bytes || x->live_count != y->live_count ||
		       x->total_bytes != y->total_bytes || x->total_count != y->total_count ||
		       x->temporary != y->temporary;
	}
	return bad;
}

/* Intervals from FROM_MS on, and what comes after the last. */
static unsigned compare_past(const struct ledger *a, const struct ledger *b, uint64_t from_ms)
{
	unsigned bad = 0;
	for (uint64_t ms = from_ms; ms <= ledger_now(a) + 2 * TIMELINE_MS; ms += TIMELINE_MS)
		bad += !same_interval(a, b, ms) + !same_past(a, b, ms);
	return bad;
}

static unsigned compare_peak(const struct ledger *a, const struct ledger *b)
{
	unsigned bad = 0;
	for (uint32_t i = 0; i < STACKS; i++) {
		int64_t bytes[2], count[2];
		ledger_stack_at_peak(a, i, &bytes[0], &count[0]);
		ledger_stack_at_peak(b, i, &bytes[1], &count[1]);
		bad += bytes[0] != bytes[1] || count[0] != count[1];
	}
	return bad;
}

/* ---- a load -------------------------------------------------------------- */

struct load {
	uint64_t ms;
	unsigned jumps; /* 1 in so many events is after some time */
	uint32_t stacks;
	raddr_t base;
};

static uint64_t size_of(uint32_t stack)
{
	return rnd() % 4 ? 16 + stack % 7 * 8 : rnd() % 50 ? rnd() % 3000 : rnd() >> (rnd() % 40);
}

static void mapping_event(struct load *g, struct ledger *l, uint32_t t, uint64_t ms, uint32_t stack)
{
	raddr_t a = 0x7f0000000000 + rnd() % 64 * 4096;
	uint64_t len = (1 + rnd() % 8) * 4096;
	(void)g;
	switch (rnd() % 9) {
	case 0:
	case 1:
		ledger_map(l, t, ms, a, len, (rnd() % 4 ? RW : 0) | (rnd() % 8 ? WIRE_MAP_ANON : 0),
			   stack, rnd() % 8);
		break;
	case 2: ledger_unmap(l, t, ms, a, len); break;
	case 3: ledger_unmap_failed(l, t, ms); break;
	case 4: ledger_remap_leave(l, t, ms, a, len); break;
	case 5: ledger_remap(l, t, ms, a + 4096 * (rnd() % 8), len, stack); break;
	case 6: ledger_remap_failed(l, t, ms); break;
	case 7: ledger_protect(l, t, ms, a, len, rnd() % 2 ? RW : 0, stack); break;
	case 8:
		ledger_break(l, t, ms, g->base + rnd() % 9 * 4096, g->base + rnd() % 9 * 4096,
			     stack, true);
		break;
	}
}

static void batch_event(struct load *g, struct ledger *l, uint32_t t, uint64_t ms)
{
	struct wire_event e[80];
	size_t n = 1 + rnd() % 80;
	for (size_t i = 0; i < n; i++) {
		raddr_t a = g->base + rnd() % 300 * 16;
		uint32_t stack = (uint32_t)(rnd() % g->stacks);
		e[i] = wire_pack(WIRE_ALLOC, a, 0,
				 (uint32_t)(rnd() % 4 ? 16 + stack % 5 * 24 : rnd() % 4000), stack);
		if (rnd() % 3 && i + 1 < n)
			e[++i] = wire_pack(WIRE_FREE, rnd() % 8 ? a : g->base + rnd() % 300 * 16, 0,
					   0, 0);
	}
	ledger_batch(l, t, ms, e, n);
}

static void one_event(struct load *g, struct ledger *l)
{
	uint32_t t = (uint32_t)(rnd() % 3), stack = (uint32_t)(rnd() % g->stacks);
	raddr_t a = g->base + rnd() % 300 * 16;
	if (rnd() % g->jumps == 0)
		g->ms += rnd() % 8 ? rnd() % 30 : rnd() % 16 ? rnd() % 400 : rnd() % 5000;
	/* another thread's may be a little behind */
	uint64_t ms = g->ms - (rnd() % 10 ? 0 : rnd() % 3);
	switch (rnd() % 16) {
	case 0:
	case 1:
	case 2:
	case 3: ledger_alloc(l, t, ms, a, size_of(stack), stack); break;
	case 4:
	case 5:
	case 6:
	case 7: ledger_release(l, t, ms, a, rnd() % 2); break;
	case 8: ledger_leave(l, t, ms, a); break;
	case 9: ledger_became(l, t, ms, a, size_of(stack), stack); break;
	case 10: rnd() % 2 ? ledger_stayed(l, t, ms) : ledger_gone(l, t, ms); break;
	case 11:
		ledger_alloc_counted(l, t, ms, a, size_of(stack), stack, rnd() % 2 ? 0 : 4096);
		break;
	case 12: batch_event(g, l, t, ms); break;
	case 13: ledger_release_by(l, t, ms, a, false, stack); break;
	default: mapping_event(g, l, t, ms, stack); break;
	}
}

static struct load load_begin(struct ledger *l, unsigned jumps, uint32_t stacks)
{
	for (pid_t t = 0; t < 3; t++)
		ledger_thread(l, 100 + t);
	return (struct load){ .ms = 3, .jumps = jumps, .stacks = stacks, .base = 0x555500000000 };
}

/* N events, with flushes, checkpoints and new files in between; all is flushed. */
static void run(struct load *g, struct ledger *l, struct log_encoder *e, struct log *log, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		one_event(g, l);
		uint64_t r = rnd() % 4000;
		if (r < 5)
			log_encoder_flush(e);
		else if (r == 5)
			log_encoder_checkpoint(e);
		else if (r == 6) {
			log_encoder_flush(e);
			memset(log->told, 0, sizeof(log->told));
			log_encoder_new_file(e);
		}
	}
	log_encoder_flush(e);
}

/* ---- replays ------------------------------------------------------------- */

/* Blocks from FROM on, until STOP_MS. */
static struct ledger *replay(const struct log *g, size_t from, uint64_t stop_ms, struct log *points)
{
	struct ledger *l = ledger_replay_new(TIMELINE_BUDGET);
	struct log_decoder *d = log_decoder_new(l);
	int err = 0;
	if (points)
		ledger_on_point(l, take_point, points);
	for (size_t i = from; i < g->count && !err; i++) {
		struct log_block head = g->block[i];
		size_t at = 0;
		if (i == from || !(g->block[i - 1].flags & SEGMENT_GOES_ON)) {
			head.first_ms = head.last_ms = head.events = 1;
			CHECK_EQ(log_decode_head(&head), 0);
			CHECK(head.first_ms == g->block[i].first_ms &&
			      head.last_ms == g->block[i].last_ms &&
			      head.events == g->block[i].events);
		}
		err = log_decode(d, &g->block[i], stop_ms, &at);
		CHECK(err >= 0);
	}
	CHECK(err || log_decoder_ready(d));
	log_decoder_free(d);
	return l;
}

static bool is_checkpoint(const struct log *g, size_t i)
{
	return g->block[i].type == SEGMENT_STATE &&
	       (!i || !(g->block[i - 1].flags & SEGMENT_GOES_ON));
}

/* The interval of MS, by a replay from the last checkpoint that is not later. */
static void check_moment(const struct ledger *l, const struct log *g, uint64_t ms)
{
	uint64_t begin = ms / TIMELINE_MS * TIMELINE_MS;
	size_t from = SIZE_MAX;
	for (size_t i = 0; i < g->count; i++)
		if (is_checkpoint(g, i) && g->block[i].first_ms < begin + TIMELINE_MS)
			from = i;
	if (from == SIZE_MAX)
		return;
	struct ledger *r = replay(g, from, begin + TIMELINE_MS, NULL);
	struct ledger_interval was;
	uint64_t interval, bytes, at;
	ledger_present(r, &interval, &bytes, &at);
	ledger_interval(l, ms, &was);
	if (interval == ms / TIMELINE_MS)
		CHECK(bytes == was.bytes);
	CHECK(same_past(l, r, ms));
	ledger_free(r);
}

static void check_all(const struct ledger *l, const struct log *g, int moments)
{
	struct log points = { 0 };
	struct ledger *r = replay(g, 0, LOG_NEVER, &points);
	CHECK_EQ(compare_present(l, r), 0);
	CHECK_EQ(compare_past(l, r, g->block[0].first_ms), 0);
	struct ledger_totals t;
	ledger_totals(l, &t);
	if (t.peak_ms >= g->block[0].first_ms) /* else that is before the log */
		CHECK_EQ(compare_peak(l, r), 0);
	CHECK_EQ(points.points, g->points);
	CHECK(points.points == g->points &&
	      (!g->points || !memcmp(points.point, g->point, g->points * sizeof(*g->point))));
	log_release(&points);
	ledger_free(r);
	for (size_t i = 0; i < g->count; i++) {
		if (!is_checkpoint(g, i))
			continue;
		r = replay(g, i, LOG_NEVER, NULL);
		CHECK_EQ(compare_present(l, r), 0);
		CHECK_EQ(compare_past(l, r, g->block[i].first_ms), 0);
		ledger_free(r);
	}
	for (int i = 0; i < moments; i++)
		check_moment(l, g, rnd() % (ledger_now(l) + 300));
}

static void random_run(unsigned count, unsigned jumps, uint32_t stacks, size_t n)
{
	struct ledger *l = ledger_new(count);
	struct log log = { 0 };
	struct log_sink sink = sink_of(&log);
	struct load g = load_begin(l, jumps, stacks);
	for (int i = rnd() % 3 ? 2000 : 0; i > 0; i--) /* what was before the log */
		one_event(&g, l);
	struct log_encoder *e = log_encoder_new(l, &sink);
	run(&g, l, e, &log, n);
	CHECK_EQ(log.twice, 0);
	check_all(l, &log, 100);
	log_encoder_free(e);
	ledger_free(l);
	log_release(&log);
}

static void test_random_loads(void)
{
	const int n = test_size(6000, 30000);

	random_run(BOTH, 3, STACKS, n);
	random_run(BOTH, 50, 20, n);
	random_run(BOTH, 200, STACKS, 3 * n);
	random_run(LEDGER_COUNT_HEAP, 20, 100, n);
	random_run(LEDGER_COUNT_MMAP, 20, 100, n);
	random_run(0, 20, 100, n / 3);
}

/*
 * A checkpoint after each event: also in the middle of a realloc, before and after a high, where an
 * interval ends.
 */
static void test_everywhere(void)
{
	struct ledger *l = ledger_new(BOTH);
	struct log log = { 0 };
	struct log_sink sink = sink_of(&log);
	struct load g = load_begin(l, 4, 30);
	struct log_encoder *e = log_encoder_new(l, &sink);
	for (int i = 0; i < 400; i++) {
		one_event(&g, l);
		log_encoder_checkpoint(e);
	}
	check_all(l, &log, 100);
	log_encoder_free(e);
	ledger_free(l);
	log_release(&log);
}

/* States and events of many blocks, and checkpoints that come by themselves. */
static void test_large(void)
{
	enum { LIVE = 20000 };
	const unsigned checkpoints_wanted = (unsigned)test_size(1, 3),
		       n = checkpoints_wanted * 3000000;
	struct ledger *l = ledger_new(BOTH);
	struct log log = { 0 };
	struct log_sink sink = sink_of(&log);
	struct log_encoder *e = log_encoder_new(l, &sink);
	uint32_t t = ledger_thread(l, 1);
	size_t checkpoints = 0, more = 0;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t r = rnd();
		raddr_t a = 0x555500000000 + r % LIVE * 64;
		if (ledger_holds(l, a))
			ledger_release(l, t, i / 20000, a, false);
		else
			ledger_alloc(l, t, i / 20000, a, 16 + (r >> 20) % 20,
				     1 + (uint32_t)(r >> 30) % 50000);
	}
	log_encoder_flush(e);
	for (size_t i = 0; i < log.count; i++) {
		checkpoints += is_checkpoint(&log, i);
		more += (log.block[i].flags & SEGMENT_GOES_ON) != 0;
		CHECK(log.block[i].len <= SEGMENT_RAW);
	}
	CHECK_EQ(checkpoints, checkpoints_wanted);
	CHECK(more >= checkpoints_wanted / 2);
	check_all(l, &log, 3);
	log_encoder_free(e);
	ledger_free(l);
	log_release(&log);
}

/* ---- forks --------------------------------------------------------------- */

static void test_fork(void)
{
	struct ledger *l = ledger_new(BOTH);
	struct log log = { 0 }, of_child = { 0 }, of_other = { 0 };
	struct log_sink sink = sink_of(&log), child_sink = sink_of(&of_child),
			other_sink = sink_of(&of_other);
	struct load g = load_begin(l, 50, 100);
	struct log_encoder *e = log_encoder_new(l, &sink);
	run(&g, l, e, &log, 5000);
	struct ledger *child = ledger_fork(l), *other = ledger_fork(l);
	struct log_encoder *ce = log_encoder_new(child, &child_sink),
			   *oe = log_encoder_new(other, &other_sink);
	log_encoder_flush(ce);
	log_encoder_new_file(ce);
	CHECK_EQ(of_child.count, 0); /* it shares its parent's still */
	run(&g, l, e, &log, 5000);
	log_encoder_checkpoint(oe);
	CHECK_EQ(of_other.count, 1);
	struct load h = g;
	run(&h, child, ce, &of_child, 20000);
	check_all(l, &log, 100);
	check_all(child, &of_child, 100);
	check_all(other, &of_other, 100);
	log_encoder_free(e);
	ledger_free(l);
	log_encoder_free(ce);
	log_encoder_free(oe);
	ledger_free(child);
	ledger_free(other);
	log_release(&log);
	log_release(&of_child);
	log_release(&of_other);
}

/* ---- the bytes ----------------------------------------------------------- */

static void check_bytes(const struct log_block *b, unsigned type, const char *want, size_t len)
{
	CHECK_EQ(b->type, type);
	CHECK_EQ(b->len, len);
	for (size_t i = 0; i < len && i < b->len; i++)
		if (b->raw[i] != (uint8_t)want[i]) {
			test_bad++;
			printf("# byte %zu is %u, not %u\n", i, b->raw[i], (uint8_t)want[i]);
		}
}

#define B(n) (char)(n)

static void test_bytes(void)
{
	/* sums */
	static const char state[] = { 3, 5, 0, 100, 5, 0, 0, 0, 0, 100, 0, 0, 0, 1, 0, 0, 0, 100, 1,
				      0, 0,
				      /* no point; one line */
				      0, 1,
				      /* stack 7: 100 bytes, 0 at the last point */
				      4, 14, B(200), 1, 2, 100, 1, B(199), 1, 1 };
	/* 5 ms to 11 ms; from change 0 on 7 changes in 6 events; 30 bytes of codes */
	static const char events[] = { 5, 0, 11, 0, 0, 7, 6, 30,
				       /*
				        * 100 bytes allocated by stack 7, which is number 0 from now
				        * on; the same
				        */
				       1, 0, 7, 100, 3, 1, 0, 8, 100, /* by stack 8: 1 */
				       /* 6 ms later stack 7's are freed: 2; the same */
				       0, 12, 1, 1, 7, 100, 5,
				       /*
				        * 8192 bytes of stack 9's mappings more, one more of these
				        */
				       2, 4, 9, B(128), B(128), 1, 2, 2, 5, 9, B(128), B(128), 1,
				       2, /* 8192 in all, one call */
				       /* events, unknown frees, reserved, maps, unmaps, counted */
				       3, 7, 0, B(128), 64, 1, 0, B(200), 65 };
	struct ledger *l = ledger_new(BOTH);
	struct log log = { 0 };
	struct log_sink sink = sink_of(&log);
	uint32_t t = ledger_thread(l, 1);
	ledger_alloc(l, t, 5, 0x1000, 100, 7);
	struct log_encoder *e = log_encoder_new(l, &sink);
	log_encoder_flush(e);
	ledger_alloc(l, t, 5, 0x2000, 100, 7);
	ledger_alloc(l, t, 5, 0x3000, 100, 7);
	ledger_alloc(l, t, 5, 0x4000, 100, 8);
	ledger_release(l, t, 11, 0x1000, false);
	ledger_release(l, t, 11, 0x2000, false);
	ledger_map(l, t, 11, 0x7f0000000000, 8192, RW | WIRE_MAP_ANON, 9, true);
	log_encoder_flush(e);
	CHECK_EQ(log.count, 2);
	check_bytes(&log.block[0], SEGMENT_STATE, state, sizeof(state));
	check_bytes(&log.block[1], SEGMENT_EVENTS, events, sizeof(events));
	log_encoder_free(e);
	ledger_free(l);
	log_release(&log);
}

/* ---- what is wrong ------------------------------------------------------- */

static int feed(const struct log *g, size_t skip, size_t twice)
{
	struct ledger *l = ledger_replay_new(TIMELINE_BUDGET);
	struct log_decoder *d = log_decoder_new(l);
	int err = 0;
	for (size_t i = 0; i < g->count && !err; i++)
		for (int n = i == skip ? 0 : i == twice ? 2 : 1; n > 0 && !err; n--) {
			size_t at = 0;
			err = log_decode(d, &g->block[i], LOG_NEVER, &at);
		}
	CHECK_EQ(log_decoder_ready(d), !err);
	log_decoder_free(d);
	ledger_free(l);
	return err;
}

static void test_order(void)
{
	struct ledger *l = ledger_new(BOTH);
	struct log log = { 0 };
	struct log_sink sink = sink_of(&log);
	struct load g = load_begin(l, 50, 100);
	struct log_encoder *e = log_encoder_new(l, &sink);
	for (int i = 0; i < 10; i++) {
		for (int j = 0; j < 200; j++)
			one_event(&g, l);
		log_encoder_flush(e);
	}
	CHECK_EQ(feed(&log, SIZE_MAX, SIZE_MAX), 0);
	for (size_t i = 0; i + 1 < log.count; i++)
		CHECK_EQ(feed(&log, i, SIZE_MAX), -EINVAL);
	for (size_t i = 1; i < log.count; i++)
		CHECK_EQ(feed(&log, SIZE_MAX, i), -EINVAL);
	log_encoder_free(e);
	ledger_free(l);
	log_release(&log);
}

/* What is cut is found to be; bytes that are others may be anything, but nothing else happens. */
static void test_damage(void)
{
	struct ledger *l = ledger_new(BOTH);
	struct log log = { 0 };
	struct log_sink sink = sink_of(&log);
	struct load g = load_begin(l, 20, 60);
	struct log_encoder *e = log_encoder_new(l, &sink);
	for (int i = 0; i < 1000; i++)
		one_event(&g, l);
	log_encoder_checkpoint(e);
	for (int i = 0; i < 1000; i++)
		one_event(&g, l);
	log_encoder_checkpoint(e);
	for (size_t i = 0; i < log.count; i++) {
		struct log_block whole = log.block[i];
		for (size_t n = 0; n < whole.len; n += (size_t)test_size(5, 1)) {
			log.block[i].raw = memcpy(malloc(n + 1), whole.raw, n);
			log.block[i].len = n;
			CHECK_EQ(feed(&log, SIZE_MAX, SIZE_MAX), -EINVAL);
			free((void *)log.block[i].raw);
		}
		for (int n = test_size(200, 1000); n > 0; n--) {
			uint8_t *raw = memcpy(malloc(whole.len), whole.raw, whole.len);
			for (uint64_t k = 1 + rnd() % 3; k > 0; k--)
				raw[rnd() % whole.len] = (uint8_t)(rnd() % 2 ? rnd() : 0xff);
			log.block[i].raw = raw;
			log.block[i].len = whole.len;
			int err = feed(&log, SIZE_MAX, SIZE_MAX);
			CHECK(err == 0 || err == -EINVAL || err == -ENOMEM);
			free(raw);
		}
		log.block[i] = whole;
	}
	log_encoder_free(e);
	ledger_free(l);
	log_release(&log);
}

/* ---- one number that is another one -------------------------------------- */

/* What is told of: a point before, two stacks' totals, and a few changes of each kind. */
static struct log log_small(void)
{
	struct ledger *l = ledger_new(BOTH);
	struct log log = { 0 };
	struct log_sink sink = sink_of(&log);
	uint32_t t = ledger_thread(l, 1);
	struct log_encoder *e;

	ledger_alloc(l, t, 5, 0x1000, 100, 7);
	ledger_alloc(l, t, 120, 0x2000, 200, 8);
	ledger_release(l, t, 130, 0x2000, false);
	e = log_encoder_new(l, &sink);
	log_encoder_flush(e);
	ledger_alloc(l, t, 250, 0x3000, 300, 7);
	ledger_map(l, t, 260, 0x7f0000000000, 8192, RW | WIRE_MAP_ANON, 9, true);
	log_encoder_flush(e);
	log_encoder_free(e);
	ledger_free(l);
	CHECK_EQ(log.count, 2);
	return log;
}

/* Numbers from IN to TO, of which the K-th becomes V, and all that follows as it is. */
static uint8_t *numbers_put(uint8_t *to, struct leb in, size_t k, uint64_t v)
{
	for (; k; k--)
		to = leb_put(to, leb_get(&in));
	leb_get(&in);
	to = leb_put(to, v);
	memcpy(to, in.at, (size_t)(in.end - in.at));
	return to + (in.end - in.at);
}

/* What becomes of the log G with RAW, up to END, as its block I. */
static int with_block(const struct log *g, size_t i, const uint8_t *raw, const uint8_t *end)
{
	struct log_block block[2] = { g->block[0], g->block[1] };
	struct log copy = *g;
	size_t len = (size_t)(end - raw);
	uint8_t *exact =
		memcpy(malloc(len), raw, len); /* a sanitizer sees what is read behind it */

	block[i].raw = exact;
	block[i].len = len;
	copy.block = block;
	int err = feed(&copy, SIZE_MAX, SIZE_MAX);
	free(exact);
	return err;
}

/* The same log with its K-th number of block I, which begins at byte FROM, being V. */
static int with_number(const struct log *g, size_t i, size_t from, size_t k, uint64_t v)
{
	const struct log_block *b = &g->block[i];
	uint8_t raw[600];

	memcpy(raw, b->raw, from);
	return with_block(g, i, raw,
			  numbers_put(raw + from,
				      (struct leb){ b->raw + from, b->raw + b->len, false }, k, v));
}

/* With the K-th number of its codes being V; how many bytes they take stands at byte AT. */
static int with_code(const struct log *g, size_t at, size_t k, uint64_t v)
{
	const struct log_block *b = &g->block[1];
	struct leb in = { b->raw + at, b->raw + b->len, false };
	uint64_t codes = leb_get(&in);
	uint8_t raw[600], changed[600], *end = numbers_put(changed, in, k, v), *to;

	memcpy(raw, b->raw, at);
	to = leb_put(raw + at, codes + (uint64_t)(end - changed) - (uint64_t)(in.end - in.at));
	memcpy(to, changed, (size_t)(end - changed));
	return with_block(g, 1, raw, to + (end - changed));
}

static uint64_t number_of(const struct log *g, size_t i, size_t from, size_t k)
{
	struct leb in = { g->block[i].raw + from, g->block[i].raw + g->block[i].len, false };
	for (; k; k--)
		leb_get(&in);
	return leb_get(&in);
}

/*
 * Each number of a block has bounds, or must be what the ledger holds. Numbers that are told alone
 * (how much was freed, when the peak was) may be anything.
 */
static void test_numbers(void)
{
	enum { SUMS = 21, POINT = SUMS + 1, LINES = POINT + 3 };
	struct log log = log_small();
	/* a state: counts, sums, the point, lines; then flags, ~stack of the first line */
	CHECK_EQ(number_of(&log, 0, 0, 0), 3);
	CHECK_EQ(number_of(&log, 0, 0, 1), 130); /* now */
	CHECK_EQ(number_of(&log, 0, 0, 2), 1);	 /* its interval */
	CHECK_EQ(number_of(&log, 0, 0, SUMS), 1);
	CHECK_EQ(number_of(&log, 0, 0, POINT), 0);
	CHECK_EQ(number_of(&log, 0, 0, POINT + 1), 100);
	CHECK_EQ(number_of(&log, 0, 0, LINES), 2);
	for (size_t k = 0; k <= LINES + 1; k++)
		CHECK_EQ(with_number(&log, 0, 0, k, number_of(&log, 0, 0, k)), 0);
	CHECK_EQ(with_number(&log, 0, 0, 0, 8), -EINVAL);
	CHECK_EQ(with_number(&log, 0, 0, 0, 3 + (1ull << 32)), -EINVAL);
	CHECK_EQ(with_number(&log, 0, 0, 1, SEGMENT_MS_MOST + 1), -EINVAL);
	CHECK_EQ(with_number(&log, 0, 0, 2, SEGMENT_MS_MOST / TIMELINE_MS + 1), -EINVAL);
	CHECK_EQ(with_number(&log, 0, 0, SUMS, 2), -EINVAL);
	CHECK_EQ(with_number(&log, 0, 0, POINT, 1), -EINVAL); /* a point of the present */
	CHECK_EQ(with_number(&log, 0, 0, LINES, 1), -EINVAL);
	CHECK_EQ(with_number(&log, 0, 0, LINES, 3), -EINVAL);
	CHECK_EQ(with_number(&log, 0, 0, LINES + 1, 8), -EINVAL);
	CHECK_EQ(with_number(&log, 0, 0, LINES + 2, leb_zigzag(WIRE_NODES)), -EINVAL);
	CHECK_EQ(with_number(&log, 0, 0, LINES + 2, leb_zigzag(-1)), -EINVAL);
	CHECK_EQ(with_number(&log, 0, 0, LINES + 2, leb_zigzag(8)), 0);

	/* events: all of the head */
	static const uint64_t head[] = { 130, 1, 260, 2, 0, 3, 2 };
	for (size_t k = 0; k < 7; k++) {
		CHECK_EQ(number_of(&log, 1, 0, k), head[k]);
		CHECK_EQ(with_number(&log, 1, 0, k, head[k]), 0);
		/* the number of events is told alone */
		CHECK_EQ(with_number(&log, 1, 0, k, head[k] + 1), k == 6 ? 0 : -EINVAL);
	}
	/* codes: a point in time; 300 bytes allocated; later; a mapping of 8192 bytes, two of it */
	struct leb in = { log.block[1].raw, log.block[1].raw + log.block[1].len, false };
	for (int k = 0; k < 7; k++)
		leb_get(&in);
	size_t at_codes = (size_t)(in.at - log.block[1].raw);
	uint64_t codes = leb_get(&in);
	size_t from = (size_t)(in.at - log.block[1].raw);
	for (uint64_t n = 0; n < codes + 20; n++)
		CHECK_EQ(with_number(&log, 1, at_codes, 0, n), n == codes ? 0 : -EINVAL);
	static const uint64_t code[] = { LOG_CODE_TIME,
					 2 * 120,
					 LOG_CODE_DEFINE,
					 LOG_ALLOC,
					 7,
					 300,
					 LOG_CODE_TIME,
					 2 * 10,
					 LOG_CODE_WHOLE,
					 LOG_GRANT,
					 9,
					 2 * 8192,
					 2,
					 LOG_CODE_WHOLE,
					 LOG_GRANTED };
	for (size_t k = 0; k < sizeof(code) / sizeof(*code); k++)
		CHECK_EQ(number_of(&log, 1, from, k), code[k]);
	for (size_t k = 0; k < sizeof(code) / sizeof(*code); k++)
		CHECK_EQ(with_code(&log, at_codes, k, code[k]), 0);
	CHECK_EQ(with_code(&log, at_codes, 1, leb_zigzag(SEGMENT_MS_MOST)), -EINVAL);
	CHECK_EQ(with_code(&log, at_codes, 1, leb_zigzag(-131)), -EINVAL);
	CHECK_EQ(with_code(&log, at_codes, 2, LOG_CODES), -EINVAL); /* nothing is defined */
	CHECK_EQ(with_code(&log, at_codes, 3, LOG_SHAPE_OTHER + 1), -EINVAL);
	CHECK_EQ(with_code(&log, at_codes, 4, WIRE_NODES), -EINVAL);
	CHECK_EQ(with_code(&log, at_codes, 4, WIRE_NODES - 1), 0);
	CHECK_EQ(with_code(&log, at_codes, 5, 299), -EINVAL); /* not as many as the end says */
	CHECK_EQ(with_code(&log, at_codes, 8, LOG_CODES + 1), -EINVAL);
	CHECK_EQ(with_code(&log, at_codes, 9, LOG_KINDS), -EINVAL);
	CHECK_EQ(with_code(&log, at_codes, 10, WIRE_NODES), -EINVAL);
	CHECK_EQ(with_code(&log, at_codes, 10, WIRE_NODES - 1), 0);
	CHECK_EQ(with_code(&log, at_codes, 11, 2 * 8190), -EINVAL);
	/* the end: counts, events, unknown frees, reserved, maps, unmaps, counted */
	from += codes;
	static const uint64_t end[] = { 3, 5, 0, 8192, 1, 0, 8592 };
	for (size_t k = 0; k < 7; k++) {
		CHECK_EQ(number_of(&log, 1, from, k), end[k]);
		CHECK_EQ(with_number(&log, 1, from, k, end[k] + 9), k && k < 6 ? 0 : -EINVAL);
	}
	CHECK_EQ(with_number(&log, 1, from, 0, 7), 0); /* sampling was switched on meanwhile */
	log_release(&log);
}

/* What a block's head says alone has bounds as well. */
static void test_head(void)
{
	static const uint64_t most[] = { SEGMENT_MS_MOST, SEGMENT_MS_MOST / TIMELINE_MS,
					 SEGMENT_MS_MOST, SEGMENT_MS_MOST / TIMELINE_MS,
					 UINT64_MAX,	  UINT64_MAX,
					 UINT64_MAX,	  10 };
	uint8_t raw[8 * LEB_MOST + 10];

	for (int k = 0; k < 8; k++)
		for (uint64_t more = 0; more < 2; more++) {
			uint8_t *p = raw;
			for (int i = 0; i < 8; i++)
				p = leb_put(p, i == k ? most[k] + more : 0);
			memset(p, 0, 10);
			struct log_block b = { .type = SEGMENT_EVENTS,
					       .raw = raw,
					       .len = (size_t)(p - raw) + 10 };
			CHECK_EQ(log_decode_head(&b), more && most[k] < UINT64_MAX ? -EINVAL : 0);
		}
	/* a checkpoint, of which only the sums are looked at; no other block has such a head */
	for (int k = 0; k < 6; k++) {
		static const int field[] = { 0, 0, 1, 1, 2, 2 };
		const uint64_t v[] = { 7,	8,	    SEGMENT_MS_MOST, SEGMENT_MS_MOST + 1,
				       most[1], most[1] + 1 };
		uint8_t *p = raw;
		for (int i = 0; i < 22; i++)
			p = leb_put(p, i == field[k] ? v[k] : 0);
		struct log_block b = { .type = SEGMENT_STATE,
				       .raw = raw,
				       .len = (size_t)(p - raw) };
		CHECK_EQ(log_decode_head(&b), k % 2 ? -EINVAL : 0);
		b.len--;
		CHECK_EQ(log_decode_head(&b), -EINVAL);
		b.len++;
		b.type = SEGMENT_STATE + SEGMENT_EVENTS + 100;
		CHECK_EQ(log_decode_head(&b), -EINVAL);
	}
}

/* A replay that stops at each interval, and goes on, comes to the same; not from anywhere. */
static void test_stops(void)
{
	struct ledger *l = ledger_new(BOTH), *r = ledger_replay_new(TIMELINE_BUDGET);
	struct log log = { 0 };
	struct log_sink sink = sink_of(&log);
	struct load g = load_begin(l, 20, 100);
	struct log_encoder *e = log_encoder_new(l, &sink);
	struct log_decoder *d = log_decoder_new(r);
	uint64_t stop = 0;
	size_t stops = 0;

	CHECK(d && !log_decoder_ready(d));
	for (int i = 0; i < 5; i++) {
		for (int k = 0; k < 2000; k++)
			one_event(&g, l);
		log_encoder_flush(e);
	}
	for (size_t i = 0; i < log.count; i++) {
		size_t at = 0, last = 0;
		int err;
		while ((err = log_decode(d, &log.block[i], stop, &at)) == 1) {
			uint64_t interval, bytes, ms;
			ledger_present(r, &interval, &bytes, &ms);
			CHECK(at >= last && at < log.block[i].len);
			/* it stands before that, or was further already */
			CHECK(interval * TIMELINE_MS < stop || at == last || !last);
			last = at;
			stop += TIMELINE_MS;
			stops++;
		}
		CHECK_EQ(err, 0);
	}
	CHECK(stops > 50);
	CHECK_EQ(compare_present(l, r), 0);
	CHECK_EQ(compare_past(l, r, log.block[0].first_ms), 0);
	log_decoder_free(d);
	ledger_free(r);
	/* from within the head, or behind the codes, nothing goes on; then a state comes first */
	for (int wrong = 0; wrong < 2; wrong++) {
		size_t at = 0;
		r = ledger_replay_new(TIMELINE_BUDGET);
		d = log_decoder_new(r);
		CHECK_EQ(log_decode(d, &log.block[1], LOG_NEVER, &at), -EINVAL);
		CHECK_EQ(log_decode(d, &log.block[0], LOG_NEVER, &at), 0);
		CHECK(log_decoder_ready(d));
		at = wrong ? log.block[1].len + 1 : 1;
		CHECK_EQ(log_decode(d, &log.block[1], LOG_NEVER, &at), -EINVAL);
		CHECK(!log_decoder_ready(d));
		at = 0;
		CHECK_EQ(log_decode(d, &log.block[1], LOG_NEVER, &at), -EINVAL);
		log_decoder_free(d);
		ledger_free(r);
	}
	log_encoder_free(e);
	ledger_free(l);
	log_release(&log);
	log_decoder_free(NULL);
	log_encoder_free(NULL);
}

/*
 * Blocks end in time, whatever fills them: only time that passes, only what is told in full; the
 * last round with as small ones as there are.
 */
static void test_filled(void)
{
	for (int what = 0; what < 4; what++) {
		uint32_t most = what < 3 ? LOG_ENCODER_BLOCK : LOG_ENCODER_LEAST;
		struct ledger *l = ledger_new(BOTH);
		struct log log = { 0 };
		struct log_sink sink = sink_of(&log);
		struct log_encoder *e = log_encoder_new(l, &sink);
		uint32_t t = ledger_thread(l, 1);
		log_encoder_block(e, most);
		for (uint64_t i = 0; i < 200000; i++)
			switch (what) {
			case 0: ledger_stayed(l, t, i); break;
			case 1: /* sizes of many bytes, now and then the largest with a number */
				ledger_alloc(l, t, 1, 0x1000 + i % 50 * 16,
					     i % 3000 ? (600u << 10) + i % 1000
						      : (1ull << 30) - 2 + i / 3000 % 3,
					     (uint32_t)i % 30);
				break;
			default:
				ledger_map(l, t, 1, 0x7f0000000000 + i % 50 * 8192, 4096,
					   RW | WIRE_MAP_ANON, (uint32_t)i % 30, true);
			}
		log_encoder_flush(e);
		CHECK(log.count > 2);
		for (size_t i = 0; i < log.count; i++)
			CHECK(log.block[i].len <= most + 1000);
		CHECK(log.block[1].len > most - 1000);
		check_all(l, &log, 3);
		log_encoder_free(e);
		ledger_free(l);
		log_release(&log);
	}
}

/* Memory is what is defined and who has a row; flushing nothing is no block. */
static void test_memory(void)
{
	struct ledger *l = ledger_new(BOTH), *r = ledger_replay_new(TIMELINE_BUDGET);
	struct log log = { 0 };
	struct log_sink sink = sink_of(&log);
	struct log_encoder *e = log_encoder_new(l, &sink);
	struct log_decoder *d = log_decoder_new(r);
	uint32_t t = ledger_thread(l, 1);
	size_t before[] = { log_encoder_memory(e), log_decoder_memory(d) }, at = 0;

	CHECK(before[0] > LOG_ENCODER_BLOCK && before[0] < LOG_ENCODER_BLOCK + 10000);
	log_encoder_flush(e);
	log_encoder_flush(e);
	CHECK_EQ(log.count, 1);
	for (uint32_t i = 0; i < 1000; i++)
		ledger_alloc(l, t, 1, 0x1000 + i * 64, 10, 1 + i);
	log_encoder_flush(e);
	log_encoder_flush(e);
	CHECK_EQ(log.count, 2);
	for (size_t i = 0; i < log.count; i++, at = 0)
		CHECK_EQ(log_decode(d, &log.block[i], LOG_NEVER, &at), 0);
	CHECK_EQ(log_encoder_memory(e) - before[0], 1000 * 64);
	CHECK_EQ(log_decoder_memory(d) - before[1], 1000 * 16);
	/* what no change tells of is told all the same */
	ledger_release(l, t, 1, 0x7770, false);
	log_encoder_flush(e);
	ledger_sampled(l, 1024);
	log_encoder_flush(e);
	CHECK_EQ(log.count, 4);
	for (size_t i = 2; i < log.count; i++, at = 0)
		CHECK_EQ(log_decode(d, &log.block[i], LOG_NEVER, &at), 0);
	CHECK_EQ(compare_present(l, r), 0);
	log_decoder_free(d);
	log_encoder_free(e);
	ledger_free(l);
	ledger_free(r);
	log_release(&log);
}

/* How long blocks lived: each block's own time, added up. States in between are no new beginning. */
static void test_lifetimes(void)
{
	enum { BLOCKS = 300, OVER = 20 };
	struct ledger *l = ledger_new(BOTH), *r = ledger_replay_new(TIMELINE_BUDGET);
	struct log log = { 0 };
	struct log_sink sink = sink_of(&log);
	struct log_encoder *e;
	struct log_decoder *d = log_decoder_new(r);
	uint64_t lived[OVER] = { 0 }, born[BLOCKS] = { 0 }, blocks[OVER] = { 0 }, ms = 1000;
	uint32_t t = ledger_thread(l, 1), seen = 0;
	struct log_lifetime life;

	/* what is there before the record lives from its beginning, and what is gone is none of it */
	ledger_alloc(l, t, 10, 0x1000, 10, 1);
	ledger_alloc(l, t, 10, 0x9990, 10, 1);
	ledger_release(l, t, 20, 0x9990, false);
	born[0] = ms;
	blocks[1] = 1;
	e = log_encoder_new(l, &sink);
	log_encoder_flush(e);
	log_decoder_lifetimes(d, ms);
	for (int i = 0; i < 5000; i++) {
		unsigned b = (unsigned)(rnd() % BLOCKS), stack = 1 + b % (OVER - 1);

		ms += rnd() % 20;
		if (born[b]) {
			ledger_release(l, t, ms, 0x1000 + b * 64, false);
			lived[stack] += ms - born[b];
			born[b] = 0;
		} else {
			ledger_alloc(l, t, ms, 0x1000 + b * 64, 10, stack);
			born[b] = ms;
			blocks[stack]++;
		}
		if (i % 500 == 499)
			log_encoder_checkpoint(e);
	}
	log_encoder_flush(e);
	for (unsigned b = 0; b < BLOCKS; b++)
		if (born[b])
			lived[1 + b % (OVER - 1)] += ms + 50 - born[b];
	for (size_t i = 0, at = 0; i < log.count; i++, at = 0)
		CHECK_EQ(log_decode(d, &log.block[i], LOG_NEVER, &at), 0);
	for (uint32_t i = 0; i < ledger_total_count(r); i++)
		if (log_decoder_lifetime(d, i, ms + 50, &life)) {
			CHECK(life.stack < OVER);
			CHECK_EQ(life.blocks, blocks[life.stack % OVER]);
			CHECK_EQ(life.block_ms, lived[life.stack % OVER]);
			seen++;
		}
	CHECK_EQ(seen, OVER - 1);
	log_decoder_free(d);
	log_encoder_free(e);
	ledger_free(l);
	ledger_free(r);
	log_release(&log);
}

int main(void)
{
	RUN(test_bytes);
	RUN(test_random_loads);
	RUN(test_everywhere);
	RUN(test_large);
	RUN(test_fork);
	RUN(test_order);
	RUN(test_damage);
	RUN(test_numbers);
	RUN(test_head);
	RUN(test_stops);
	RUN(test_filled);
	RUN(test_memory);
	RUN(test_lifetimes);
	return test_status();
}
