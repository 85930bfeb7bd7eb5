/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * kept.h - the sites whose blocks keep pages of which little is live (memory/residency.h), so that
 * it is known who would give how much back. Caller's storage.
 */
#ifndef MTRUN_KEPT_H
#define MTRUN_KEPT_H

#include "memory/residency.h"
#include "symbols/symbols.h"

struct sites;

struct kept_site {
	struct symbol_frame frame; /* its strings belong to the symbols */
	uint32_t stack;		   /* of its stacks the one that keeps most */
	uint64_t stack_pages;
	/* that nobody else keeps: they would be given back if its blocks were gone */
	uint64_t pages, live_bytes;
};
struct kept {
	struct kept_site *site; /* biggest first */
	size_t count;
};

/* Of R, whose groups were sites. 0 or -ENOMEM. */
int kept_make(struct kept *k, const struct residency *r, struct sites *sites) MUST_USE;
/* The sum of all sites from number FIRST on; its `stack` is 0. */
struct residency_kept kept_rest(const struct kept *k, size_t first);
void kept_release(struct kept *k);

#endif
