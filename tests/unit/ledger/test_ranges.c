// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_ranges.c - the row of ranges against an array of pages: what is where, what is cut out, that
 * neighbours of one call are one range, and who holds a reference.
 */
#include "ledger/ranges.h"

#include "test.h"

enum { PAGES = 6000, GRANTS = 4000 };
static const raddr_t base = 0x7f0000000000;
static uint64_t seed = 88172645463325252ull;
static uint64_t any(uint64_t n) { return test_random(&seed) % n; }

static struct page {
	struct grant *grant; /* NULL: nothing is there */
	bool open;
} page[PAGES];
static struct grant *grant[GRANTS]; /* each with one reference of ours */

static raddr_t at(size_t i) { return base + i * PAGE; }

/* The ranges are those of the pages; how often each grant is referred to is added to REFS. */
static size_t compare(const struct ranges *r, uint32_t *refs)
{
	size_t wrong = 0, n = 0, i = 0;

	for (const struct range *x = ranges_from(r, 0); x; x = ranges_from(r, x->end), n++) {
		for (; at(i) < x->start; i++)
			wrong += page[i].grant != NULL;
		wrong += at(i) != x->start || x->start >= x->end || !x->grant;
		wrong += i && page[i - 1].grant == x->grant && page[i - 1].open == x->open;
		for (; at(i) < x->end; i++)
			wrong += page[i].grant != x->grant || page[i].open != x->open;
		refs[x->grant->tick]++;
	}
	for (; i < PAGES; i++)
		wrong += page[i].grant != NULL;
	return wrong + (n != r->count);
}

/* What was cut out of [FIRST, END): in order, and as it was. */
static size_t compare_pieces(const struct pieces *p, size_t first, size_t end, uint32_t *refs)
{
	size_t wrong = 0, i = first;

	for (size_t k = 0; k < p->count; k++) {
		const struct range *x = &p->piece[k];

		for (; i < end && at(i) < x->start; i++)
			wrong += page[i].grant != NULL;
		for (; i < end && at(i) < x->end; i++)
			wrong += page[i].grant != x->grant || page[i].open != x->open;
		wrong += at(i) != x->end;
		refs[x->grant->tick]++;
	}
	for (; i < end; i++)
		wrong += page[i].grant != NULL;
	return wrong;
}

static void cut(struct ranges *r, size_t first, size_t n, struct pieces *out)
{
	uint32_t refs[GRANTS] = { 0 };

	CHECK_EQ(ranges_cut(r, at(first), at(first + n), out), 0);
	if (out)
		CHECK_EQ(compare_pieces(out, first, first + n, refs), 0);
	for (size_t i = first; i < first + n; i++)
		page[i].grant = NULL;
}

static void put(struct ranges *r, size_t first, size_t n, struct grant *g, bool open)
{
	g->refs++;
	CHECK_EQ(ranges_put(r, &(struct range){ at(first), at(first + n), g, open }), 0);
	for (size_t i = first; i < first + n; i++)
		page[i] = (struct page){ g, open };
}

/* MOST: pages of one call. */
static void played(size_t most, uint32_t events)
{
	static uint32_t refs[GRANTS];
	struct ranges r = { 0 };
	struct pieces out = { 0 };
	size_t wrong = 0;

	memset(page, 0, sizeof(page));
	for (uint32_t g = 0; g < GRANTS; g++)
		CHECK((grant[g] = grant_new(1, 2, g, true)) && grant[g]->refs == 1);
	CHECK(!ranges_from(&r, 0));
	CHECK_EQ(ranges_memory(&r), 0);
	for (uint32_t i = 0; i < events; i++) {
		size_t n = 1 + any(most), first = any(PAGES - n);
		bool keep = any(3);

		cut(&r, first, n, keep ? &out : NULL);
		if (keep && !any(4)) /* as it was */
			for (size_t k = 0; k < out.count; k++)
				put(&r, (out.piece[k].start - base) / PAGE,
				    (out.piece[k].end - out.piece[k].start) / PAGE,
				    out.piece[k].grant, out.piece[k].open);
		else if (any(3))
			put(&r, first, n, grant[any(3) ? any(GRANTS) : any(4)], any(4));
		if (i % 50 == 0) {
			memset(refs, 0, sizeof(refs));
			wrong += compare(&r, refs);
			for (size_t k = 0; k < out.count; k++)
				refs[out.piece[k].grant->tick]++;
			for (uint32_t g = 0; g < GRANTS; g++)
				wrong += grant[g]->refs != refs[g] + 1;
			for (uint32_t k = 0; k < 200; k++) {
				size_t where = any(PAGES), next = where;
				const struct range *x = ranges_from(&r, at(where) + any(PAGE));

				while (next < PAGES && !page[next].grant)
					next++;
				wrong += next == PAGES
						 ? x != NULL
						 : !x || x->start > at(next) || x->end <= at(next);
			}
			CHECK(ranges_memory(&r) >= r.count * sizeof(struct range));
			CHECK(r.count < 128 ||
			      ranges_memory(&r) < r.count * 8 * sizeof(struct range));
		}
		if (wrong) {
			CHECK_EQ(wrong, 0);
			break;
		}
		pieces_clear(&out);
	}
	CHECK_EQ(ranges_cut(&r, 0, UINT64_MAX, NULL), 0);
	CHECK(!ranges_from(&r, 0) && !r.count && !r.leaves);
	pieces_release(&out);
	ranges_release(&r);
	for (uint32_t g = 0; g < GRANTS; g++) {
		CHECK_EQ(grant[g]->refs, 1);
		grant_put(grant[g]);
	}
}

static void test_small(void) { played(3, 40000); }
static void test_large(void) { played(300, 20000); }

/* Ascending and descending rows, and what is left when they are released as they are. */
static void test_rows(void)
{
	for (int down = 0; down < 2; down++) {
		struct ranges r = { 0 };
		struct grant *g;

		for (size_t i = 0; i < 1000; i++) {
			g = grant_new(1, 1, 1, true);
			CHECK(g != NULL);
			CHECK_EQ(ranges_put(&r, &(struct range){ at(down ? 999 - i : i),
								 at((down ? 999 - i : i) + 1), g,
								 true }),
				 0);
		}
		CHECK_EQ(r.count, 1000);
		CHECK(r.leaves <= (down ? 16 : 8)); /* 128 of them, or half of that */
		for (size_t i = 0; i < 1000; i++)
			CHECK(ranges_from(&r, at(i))->start == at(i));
		CHECK(ranges_from(&r, at(500) - 1)->start == at(499));
		CHECK(!ranges_from(&r, at(1000)));
		/* leaves go from the middle, and those behind it stay */
		CHECK_EQ(ranges_cut(&r, at(400), at(800), NULL), 0);
		CHECK_EQ(r.count, 600);
		CHECK(ranges_from(&r, at(400))->start == at(800));
		CHECK(ranges_from(&r, at(999))->start == at(999));
		ranges_release(&r);
		CHECK(!r.leaf && !r.count);
	}
}

/* An empty cut, and one beside what is there. */
static void test_nothing(void)
{
	struct ranges r = { 0 };
	struct pieces out = { 0 };
	struct grant *g = grant_new(1, 1, 1, true);

	CHECK_EQ(ranges_cut(&r, 0, UINT64_MAX, &out), 0);
	CHECK_EQ(ranges_put(&r, &(struct range){ 0, at(4), g, true }), 0); /* from 0 on */
	CHECK_EQ(ranges_cut(&r, at(4), at(5), &out), 0);
	CHECK_EQ(ranges_cut(&r, at(3), at(3), &out), 0);
	CHECK_EQ(ranges_cut(&r, at(3), at(2), &out), 0);
	CHECK(out.count == 0 && r.count == 1);
	CHECK_EQ(ranges_cut(&r, 0, PAGE, &out), 0);
	CHECK(out.count == 1 && r.count == 1 && ranges_from(&r, 0)->start == PAGE && g->refs == 2);
	pieces_release(&out);
	ranges_release(&r);
}

int main(void)
{
	RUN(test_small);
	RUN(test_large);
	RUN(test_rows);
	RUN(test_nothing);
	return test_status();
}
