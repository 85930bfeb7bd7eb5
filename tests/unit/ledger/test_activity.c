// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What the ledger remembers of every few milliseconds against a model that remembers each of them.
 */
#include "test.h"

#include "ledger/activity.h"
#include "ledger/ledger.h"

static uint64_t seed = 88172645463325252ull;

enum { MS = 100000, STACKS = 5, MOST = 1000 };

/* At the end of each ms: what was live, allocated, freed by the thread that has just got it. */
static struct {
	uint64_t live, allocs, temporary;
} model[MS];

/* From the ms TOLD on it is so, up to END. */
static size_t note(size_t told, size_t end, uint64_t live, uint64_t allocs, uint64_t temporary)
{
	for (; told < end; told++) {
		model[told].live = live;
		model[told].allocs = allocs;
		model[told].temporary = temporary;
	}
	return told;
}

/*
 * Random calls of one thread, with random pauses, up to the moment END. A block is only freed if
 * none above it lives.
 */
static struct ledger *play(size_t end)
{
	struct ledger *l = ledger_new(LEDGER_COUNT_HEAP);
	uint32_t t = ledger_thread(l, 1);
	uint64_t live = 0, allocs = 0, temporary = 0, size[MOST];
	size_t n = 0, told = 0, last = MOST; /* `last`: the one that has just come; MOST: none */

	for (size_t ms = 1 + test_random(&seed) % 50; ms < end;
	     ms += test_random(&seed) % (test_random(&seed) % 20 ? 3 : 60)) {
		told = note(told, ms, live, allocs, temporary);
		if (n < MOST && (!n || test_random(&seed) % 100 < 55)) {
			size[n] = 1 + test_random(&seed) % 5000;
			live += size[n];
			allocs++;
			ledger_alloc(l, t, ms, 0x10000 + n * 0x10000, size[n],
				     1 + (uint32_t)(test_random(&seed) % STACKS));
			last = n++;
		} else {
			live -= size[--n];
			temporary += n == last;
			last = MOST;
			ledger_release(l, t, ms, 0x10000 + n * 0x10000, false);
		}
	}
	note(told, end, live, allocs, temporary);
	return l;
}

/* Each point says what the model says of its stretch, and nothing has happened in between. */
static void compare(const struct activity *a)
{
	uint64_t done = 0;

	for (size_t i = 0; i < a->count; i++) {
		const struct activity_point *p = &a->point[i];
		uint64_t begins = p->ms - p->ms % a->step, high = 0;

		CHECK(!i || begins > a->point[i - 1].ms);
		for (uint64_t ms = begins; ms <= p->ms; ms++)
			high = model[ms].live > high ? model[ms].live : high;
		for (; done < begins; done++)
			CHECK_EQ(model[done].allocs, i ? a->point[i - 1].allocs : 0);
		CHECK_EQ(p->live, model[p->ms].live);
		CHECK(p->high <= high);
		CHECK(p->high == high || model[begins].allocs == (i ? a->point[i - 1].allocs : 0));
		CHECK_EQ(p->allocs, model[p->ms].allocs);
		CHECK_EQ(p->temporary, model[p->ms].temporary);
		done = p->ms + 1;
	}
}

static void one(size_t end, uint64_t step)
{
	struct ledger *l = play(end);
	struct activity a;
	struct ledger_totals totals;

	CHECK_EQ(ledger_activity(l, &a), 0);
	ledger_totals(l, &totals);
	CHECK(a.count > 10 && a.count <= ACTIVITY_MOST);
	CHECK(a.step >= step && a.step < 2 * step + 4 * (step - ACTIVITY_MS));
	CHECK_EQ(a.point[a.count - 1].allocs, totals.allocs);
	CHECK_EQ(a.point[a.count - 1].temporary, totals.temporary);
	compare(&a);
	activity_release(&a);
	ledger_free(l);
}

static void test_fine(void) { one(3000, ACTIVITY_MS); }
static void test_coarse(void) { one(MS, 8 * ACTIVITY_MS); }

/* Of a thread whose clock is behind. */
static void test_back(void)
{
	struct activity a;

	activity_init(&a);
	activity_add(&a, &(struct activity_point){ 105, 7, 7, 1, 0 });
	activity_add(&a, &(struct activity_point){ 92, 3, 3, 2, 0 });
	CHECK_EQ(a.count, 1);
	CHECK_EQ(a.point[0].ms, 105);
	CHECK_EQ(a.point[0].live, 3);
	CHECK_EQ(a.point[0].high, 7);
	CHECK_EQ(a.point[0].allocs, 2);
	activity_release(&a);
}

static void test_nothing(void)
{
	struct ledger *l = ledger_new(LEDGER_COUNT_HEAP);
	struct activity a;

	CHECK_EQ(ledger_activity(l, &a), 0);
	CHECK_EQ(a.count, 0);
	activity_release(&a);
	ledger_free(l);
}

static void test_copy(void)
{
	struct activity a, copy;

	activity_init(&a);
	for (uint64_t n = 0; n < 50; n++) {
		CHECK_EQ(activity_copy(&copy, &a), 0);
		CHECK_EQ(copy.count, a.count);
		CHECK_EQ(copy.step, a.step);
		for (size_t i = 0; i < copy.count; i++)
			CHECK(copy.point[i].ms == a.point[i].ms &&
			      copy.point[i].live == a.point[i].live);
		activity_release(&copy);
		activity_add(&a, &(struct activity_point){ .ms = 1 + 100 * n, .live = n });
	}
	CHECK(a.count > 40);
	activity_release(&a);
}

int main(void)
{
	RUN(test_fine);
	RUN(test_coarse);
	RUN(test_back);
	RUN(test_nothing);
	RUN(test_copy);
	return test_status();
}
