// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/kept.h"

#include <errno.h>
#include <stdlib.h>

#include "report/sites.h"

/*
 * The residency tells for each stack what its blocks keep (memory/residency.h). Here that is added
 * up by site; of each site's stacks the one that keeps most is remembered, as an example.
 */

static int biggest_first(const void *pa, const void *pb)
{
	const struct kept_site *a = pa, *b = pb;

	if (a->pages != b->pages)
		return a->pages < b->pages ? 1 : -1;
	return a->stack < b->stack ? -1 : a->stack > b->stack;
}

/* Sites that were not known before (a stack that came at the last moment) are above N. */
static void add(struct kept *k, const struct residency_kept *stack, uint32_t *at, size_t n,
		struct sites *sites)
{
	uint32_t site = sites_of(sites, stack->stack);
	struct kept_site *s;

	if (site < n && !at[site])
		at[site] = (uint32_t)++k->count;
	s = &k->site[site < n ? at[site] - 1 : k->count++];
	if (stack->pages > s->stack_pages) {
		s->stack = stack->stack;
		s->stack_pages = stack->pages;
	}
	s->frame = sites_site(sites, site)->frame;
	s->pages += stack->pages;
	s->live_bytes += stack->live_bytes;
}

int kept_make(struct kept *k, const struct residency *r, struct sites *sites)
{
	size_t n = sites_count(sites) + 1;
	uint32_t *at = calloc(n, sizeof(*at)); /* by site: index + 1 */

	*k = (struct kept){ .site = calloc(r->nkept + 1, sizeof(*k->site)) };
	if (!at || !k->site) {
		free(at);
		kept_release(k);
		return -ENOMEM;
	}
	for (size_t i = 0; i < r->nkept; i++)
		add(k, &r->kept[i], at, n, sites);
	free(at);
	qsort(k->site, k->count, sizeof(*k->site), biggest_first);
	return 0;
}

struct residency_kept kept_rest(const struct kept *k, size_t first)
{
	struct residency_kept sum = { 0 };

	for (size_t i = first; i < k->count; i++) {
		sum.pages += k->site[i].pages;
		sum.live_bytes += k->site[i].live_bytes;
	}
	return sum;
}

void kept_release(struct kept *k)
{
	free(k->site);
	*k = (struct kept){ 0 };
}
