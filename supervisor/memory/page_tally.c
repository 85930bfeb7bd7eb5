// SPDX-License-Identifier: GPL-3.0-or-later
#include "memory/page_tally.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/search.h"

/*
 * The pages are numbered over all spans, so that what a block covers of them is one interval of
 * numbers, however large it says it is and however little of that is in memory. Its first and its
 * last page, which it shares with others, are looked at; those between are counted as one interval,
 * by where it begins and where it ends (`whole`, summed up in the end). Ten bytes a page.
 */

#define NO_PAGE 1u /* is none's address */

int tally_add(struct page_tally *p, raddr_t start, raddr_t end, unsigned row)
{
	struct tally_span *last = p->spans ? &p->span[p->spans - 1] : NULL;

	if (last && last->end == start && last->row == row) {
		last->end = end;
	} else {
		if (array_room(&p->span, p->spans, &p->room, sizeof(*p->span)))
			return -ENOMEM;
		p->span[p->spans++] = (struct tally_span){
			.start = start, .end = end, .first = p->count, .row = row
		};
	}
	p->count += (end - start) / PAGE;
	return 0;
}

static void forget(struct page_tally *p)
{
	free(p->live);
	free(p->owner);
	free(p->whole);
	p->live = NULL;
	p->owner = NULL;
	p->whole = NULL;
}

int tally_begin(struct page_tally *p)
{
	forget(p);
	p->last = NO_PAGE;
	p->live = calloc(p->count + 1, sizeof(*p->live));
	p->owner = calloc(p->count + 1, sizeof(*p->owner));
	p->whole = calloc(p->count + 1, sizeof(*p->whole));
	return p->live && p->owner && p->whole ? 0 : -ENOMEM;
}

void tally_release(struct page_tally *p)
{
	forget(p);
	free(p->span);
	*p = (struct page_tally){ 0 };
}

/* The first span that ends above ADDR, or the number of spans. */
static size_t span_from(struct page_tally *p, raddr_t addr)
{
	if (p->hint < p->spans && addr < p->span[p->hint].end &&
	    (!p->hint || addr >= p->span[p->hint - 1].end))
		return p->hint;
	return p->hint = SEARCH(i, p->spans, p->span[i].end <= addr);
}

/* How many pages in memory lie below ADDR, a page's; *THERE: it is in memory itself. */
static size_t number_of(struct page_tally *p, raddr_t addr, bool *there)
{
	size_t i = span_from(p, addr);

	*there = i < p->spans && p->span[i].start <= addr;
	if (i == p->spans)
		return p->count;
	return p->span[i].first + (*there ? (addr - p->span[i].start) / PAGE : 0);
}

static bool is_one(const struct page_tally *p, uint32_t a, uint32_t b)
{
	return a == b ||
	       (a < p->groups && b < p->groups && p->group[a] && p->group[a] == p->group[b]);
}

/* BYTES of a block of OWNER lie in PAGE, and do not fill it. */
static void share(struct page_tally *p, raddr_t page, uint64_t bytes, uint32_t owner)
{
	bool there = true;
	size_t n = p->last_number;

	if (page != p->last) {
		n = number_of(p, page, &there);
		p->last = there ? page : NO_PAGE;
		p->last_number = n;
	}
	if (!there)
		return;
	/* more than a page has are lies, or blocks that came and went while they were told */
	p->live[n] = (uint16_t)(p->live[n] + bytes < PAGE ? p->live[n] + bytes : PAGE);
	if (p->owner[n] == TALLY_NOBODY)
		p->owner[n] = owner + 1;
	else if (p->owner[n] != TALLY_SEVERAL && !is_one(p, p->owner[n] - 1, owner))
		p->owner[n] = TALLY_SEVERAL;
}

/* A block fills the pages from FIRST to END. */
static void fill(struct page_tally *p, raddr_t first, raddr_t end)
{
	bool there;
	size_t from = number_of(p, first, &there), to = number_of(p, end, &there);

	if (p->whole[from] < INT32_MAX && p->whole[to] > INT32_MIN) {
		p->whole[from]++;
		p->whole[to]--;
	}
}

void tally_block(struct page_tally *p, raddr_t addr, uint64_t size, uint32_t owner)
{
	raddr_t page = page_down(addr), end, last;

	size += !size;
	end = size <= UINT64_MAX - PAGE - addr ? addr + size : UINT64_MAX - PAGE;
	if (addr > page) {
		page += PAGE;
		share(p, page - PAGE, (end < page ? end : page) - addr, owner);
	}
	last = page_down(end);
	if (page < last)
		fill(p, page, last);
	if (page <= last && end > last)
		share(p, last, end - last, owner);
}

static bool is_alike(const struct tally_run *a, const struct tally_run *b)
{
	return a->live == b->live && a->owner == b->owner;
}

void tally_each(const struct page_tally *p, void (*fn)(void *ctx, const struct tally_run *run),
		void *ctx)
{
	int64_t whole = 0;
	size_t n = 0;

	for (size_t i = 0; i < p->spans; i++) {
		const struct tally_span *s = &p->span[i];
		struct tally_run run = { .start = s->start, .end = s->start, .row = s->row };

		for (raddr_t at = s->start; at < s->end; at += PAGE, n++) {
			struct tally_run page = { .live = p->live[n], .owner = p->owner[n] };

			whole += p->whole[n];
			if (whole > 0)
				page = (struct tally_run){ .live = PAGE };
			if (run.start == run.end) {
				run.live = page.live;
				run.owner = page.owner;
			} else if (!is_alike(&run, &page)) {
				fn(ctx, &run);
				run.start = at;
				run.live = page.live;
				run.owner = page.owner;
			}
			run.end = at + PAGE;
		}
		if (run.start < run.end)
			fn(ctx, &run);
	}
}
