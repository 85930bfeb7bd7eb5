// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The timeline against models that are too simple to be wrong: one that keeps what every stack
 * total held at every moment, and for merged intervals one that takes the maximum over what the
 * intervals held before.
 */
#include "test.h"

#include <unistd.h>

#include "ledger/ledger.h"
#include "ledger/timeline.h"

static uint64_t seed = 88172645463325252ull;
static uint64_t rnd(void) { return test_random(&seed); }

/* ---- the ledger's intervals ---------------------------------------------- */

enum { STACKS = 23, ADDRESSES = 200, INTERVALS = 3000 };

struct state {
	uint64_t sum;
	int64_t bytes[STACKS], count[STACKS];
	bool set;
};
static struct {
	bool live;
	uint64_t size;
	uint32_t stack;
} block[ADDRESSES];
static struct state now, *best; /* best: by interval */
static uint64_t at;		/* present interval */
/* nothing got less since the best: blocks of 0 bytes that have come since are in it */
static bool rising;

static void see(void)
{
	if (!best[at].set || now.sum > best[at].sum || (now.sum == best[at].sum && rising)) {
		rising = best[at].set;
		best[at] = now;
		best[at].set = true;
	}
}

/*
 * Time goes on to MS: what is live then is so from the beginning of each interval that is entered.
 */
static void go(uint64_t ms)
{
	while (at < ms / 100) {
		at++;
		see();
	}
}

static void give(unsigned a, uint64_t size, uint32_t stack)
{
	block[a].live = true;
	block[a].size = size;
	block[a].stack = stack;
	now.sum += size;
	now.bytes[stack] += (int64_t)size;
	now.count[stack]++;
}

static void take(unsigned a)
{
	rising = false;
	block[a].live = false;
	now.sum -= block[a].size;
	now.bytes[block[a].stack] -= (int64_t)block[a].size;
	now.count[block[a].stack]--;
}

static void compare(const struct ledger *l, uint64_t interval)
{
	struct ledger_interval i;
	struct ledger_held *held = NULL;
	struct state s = { 0 };
	ssize_t n = ledger_past(l, interval * 100 + rnd() % 100, &held);

	ledger_interval(l, interval * 100 + rnd() % 100, &i);
	CHECK_EQ(i.bytes, best[interval].sum);
	CHECK(i.from_ms <= interval * 100 && i.to_ms > interval * 100);
	for (ssize_t j = 0; j < n; j++) {
		CHECK(held[j].stack < STACKS);
		s.bytes[held[j].stack % STACKS] += held[j].bytes;
		s.count[held[j].stack % STACKS] += held[j].count;
	}
	free(held);
	CHECK(!memcmp(s.bytes, best[interval].bytes, sizeof(s.bytes)));
	CHECK(!memcmp(s.count, best[interval].count, sizeof(s.count)));
}

static void step(struct ledger *l, uint32_t t, uint64_t ms)
{
	unsigned a = (unsigned)(rnd() % ADDRESSES);
	raddr_t addr = 0x10000 + a * 0x1000;
	uint32_t stack = (uint32_t)(rnd() % STACKS);
	uint64_t size = rnd() % 4 ? rnd() % 200 : rnd() % 1000000;

	go(ms);
	if (!block[a].live) {
		ledger_alloc(l, t, ms, addr, size, stack);
		give(a, size, stack);
	} else if (rnd() % 4) {
		ledger_release(l, t, ms, addr, false);
		take(a);
	} else { /* realloc in place: never both */
		ledger_leave(l, t, ms, addr);
		ledger_became(l, t, ms, addr, size, stack);
		take(a);
		give(a, size, stack);
	}
	see();
}

static void intervals(void)
{
	struct ledger *l = ledger_new(LEDGER_COUNT_HEAP | LEDGER_COUNT_MMAP);
	uint32_t t = ledger_thread(l, 1);
	struct ledger_totals totals;
	uint64_t ms = 0, peak = 0;

	best = calloc(INTERVALS + 1, sizeof(*best));
	see();
	while (ms < INTERVALS * 100 - 2000) {
		step(l, t, ms);
		ms += rnd() % 50 ? rnd() % 3 : rnd() % 20 ? rnd() % 150 : rnd() % 2000;
		if (rnd() % 1000 == 0) {
			go(ms);
			for (uint64_t i = 0; i <= at; i += 1 + rnd() % 20)
				compare(l, i);
		}
	}
	go(ms);
	for (uint64_t i = 0; i <= at; i++) {
		compare(l, i);
		if (best[i].sum > best[peak].sum)
			peak = i;
	}
	ledger_totals(l, &totals);
	CHECK_EQ(totals.peak, best[peak].sum);
	for (uint32_t s = 0; s < STACKS; s++) {
		int64_t bytes, count;

		ledger_stack_at_peak(l, s, &bytes, &count);
		CHECK_EQ(bytes, best[peak].bytes[s]);
		CHECK_EQ(count, best[peak].count[s]);
	}
	ledger_free(l);
	free(best);
}

/* A child begins with what its parent held, and its own past begins there. */
static void forked(void)
{
	struct ledger *l = ledger_new(LEDGER_COUNT_HEAP), *c;
	uint32_t t = ledger_thread(l, 1);
	struct ledger_interval i;
	struct ledger_held *held;
	struct ledger_totals totals;

	ledger_alloc(l, t, 10, 0x1000, 100, 1);
	ledger_alloc(l, t, 20, 0x2000, 50, 2);
	ledger_release(l, t, 310, 0x2000, false);
	c = ledger_fork(l);
	ledger_release(l, t, 320, 0x1000, false);
	ledger_totals(c, &totals);
	CHECK_EQ(totals.peak, 100);
	ledger_release(c, t, 500, 0x1000, false);
	ledger_alloc(c, t, 700, 0x1000, 7, 3);
	ledger_interval(c, 350, &i);
	CHECK_EQ(i.bytes, 100);
	ledger_interval(c, 450, &i);
	CHECK_EQ(i.bytes, 100);
	ledger_interval(c, 650, &i);
	CHECK_EQ(i.bytes, 0);
	CHECK_EQ(ledger_past(c, 450, &held), 1);
	CHECK(held[0].stack == 1 && held[0].bytes == 100 && held[0].count == 1);
	free(held);
	CHECK_EQ(ledger_past(c, 650, &held), 0);
	free(held);
	CHECK_EQ(ledger_past(l, 150, &held), 2);
	free(held);
	ledger_interval(l, 1000000, &i);
	CHECK_EQ(i.bytes, 0);
	ledger_free(l);
	ledger_free(c);
}

/* ---- merging ------------------------------------------------------------- */

enum { LINES = 40, LENGTH = 4000 };

struct moment {
	uint64_t bytes;
	uint64_t held[LINES];
};

/*
 * Each interval of the timeline is the highest of a range of original ones that holds it: so its
 * sum is one that was there nearby, at least the interval's own, its breakdown belongs to it, and
 * the highest of all is there.
 */
static void merged_by(size_t budget, unsigned totals, unsigned changes)
{
	struct moment *m = calloc(LENGTH, sizeof(*m));
	struct timeline t;
	uint64_t highest = 0, found = 0, before = 0;

	timeline_init(&t, budget);
	for (uint64_t i = 1; i < LENGTH; i++) {
		m[i] = m[i - 1];
		if (rnd() % 8 == 0)
			continue;
		for (unsigned n = 0; n < changes; n++) {
			unsigned total = (unsigned)(rnd() % totals);

			m[i].held[total] = rnd() % 3 ? rnd() % 1000 : 0;
		}
		m[i].bytes = 0;
		for (unsigned total = 0; total < totals; total++)
			m[i].bytes += m[i].held[total];
		for (unsigned total = 0; total < totals; total++)
			CHECK_EQ(timeline_hold(&t, total, m[i].held[total],
					       (uint32_t)(m[i].held[total] / 7)),
				 0);
		CHECK_EQ(timeline_add(&t, i, m[i].bytes, i * 100 + 5), 0);
		size_t used = t.count * sizeof(struct timeline_point) +
			      t.changed * sizeof(struct timeline_held);
		/* some there must be: cells double in size */
		CHECK(used <= budget || t.count <= 26);
	}
	for (size_t i = 0; i < t.count; i++) {
		const struct timeline_point *p = timeline_point(&t, i);
		uint64_t end = i + 1 < t.count ? timeline_point(&t, i + 1)->interval : LENGTH,
			 of = p->ms / 100;
		struct timeline_held *held = timeline_breakdown(&t, i, LINES);

		CHECK(!i || p->interval > before);
		before = p->interval;
		CHECK(of < LENGTH && m[of].bytes == p->bytes);
		CHECK(of < end);
		for (uint64_t j = p->interval; j < end; j++) {
			CHECK(m[j].bytes <= p->bytes);
			CHECK(p->span > 1 || m[j].bytes == p->bytes);
		}
		for (unsigned total = 0; total < LINES; total++) {
			CHECK_EQ(held[total].bytes, m[of].held[total]);
			CHECK_EQ(held[total].count, m[of].held[total] / 7);
		}
		free(held);
		found = p->bytes > found ? p->bytes : found;
	}
	for (uint64_t i = 0; i < LENGTH; i++) {
		size_t p = timeline_find(&t, i);

		highest = m[i].bytes > highest ? m[i].bytes : highest;
		CHECK(p ? timeline_point(&t, p - 1)->interval <= i : m[i].bytes == 0);
		/* the young ones are as they were */
		CHECK(!p || i < t.coarse_until || timeline_point(&t, p - 1)->bytes == m[i].bytes);
	}
	/* no interval is longer than all that there was */
	CHECK(t.step < LENGTH && t.coarse_until < LENGTH);
	CHECK_EQ(found, highest);
	CHECK_EQ(timeline_point(&t, timeline_highest(&t) - 1)->bytes, highest);
	timeline_release(&t);
	free(m);
}

static void not_merged(void) { merged_by(TIMELINE_BUDGET, LINES, 5); }
static void merged(void) { merged_by(20000, LINES, 5); }
static void merged_few_lines(void) { merged_by(4000, 2, 1); }
static void merged_to_nothing(void) { merged_by(900, LINES, 20); }
static void merged_often(void)
{
	for (unsigned i = 0; i < 20; i++)
		merged_by(1000 + rnd() % 30000, 1 + (unsigned)(rnd() % LINES),
			  1 + (unsigned)(rnd() % 10));
}

/*
 * So many stack totals that one point is larger than the budget: it is exceeded, and the merging
 * does not begin again with each point.
 */
static void lines_without_end(void)
{
	struct timeline t;
	const uint64_t points = (uint64_t)test_size(2000, 5000);
	uint32_t total = 0;

	/* of two points there is nothing to merge, whatever they take */
	timeline_init(&t, 100);
	for (uint64_t i = 1; i < 2000; i += 1000) {
		for (unsigned n = 0; n < 10; n++)
			CHECK_EQ(timeline_hold(&t, n, i, 1), 0);
		CHECK_EQ(timeline_add(&t, i, i * 10, i * 100), 0);
	}
	CHECK(t.count == 2 && t.changed == 20 && t.step == 1 && !t.coarse_until);
	timeline_release(&t);
	timeline_init(&t, (size_t)points * 2);
	for (uint64_t i = 1; i < points; i++) {
		for (unsigned n = 0; n < 10; n++)
			CHECK_EQ(timeline_hold(&t, total++, i, 1), 0);
		CHECK_EQ(timeline_add(&t, i, i * 10, i * 100), 0);
	}
	CHECK_EQ(t.changed, (points - 1) * 10);
	CHECK(t.count < points / 5);
	CHECK(t.step < points); /* no interval is longer than all that there was */
	timeline_release(&t);
}

int main(void)
{
	RUN(intervals);
	RUN(forked);
	RUN(not_merged);
	RUN(merged);
	RUN(merged_few_lines);
	RUN(merged_to_nothing);
	RUN(merged_often);
	RUN(lines_without_end);
	return test_status();
}
