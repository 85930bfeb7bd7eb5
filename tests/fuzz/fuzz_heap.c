// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * fuzz_heap.c - a .heap file with whatever in it, behind a checksum that is right: what opens is
 * looked at in every way that commands do.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/outside.h"
#include "report/compare.h"
#include "report/heapfile.h"
#include "report/print.h"
#include "report/view.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static FILE *out;

static void look(struct heap *h, struct sites *sites)
{
	struct view_options options = { .limit = 10 };
	struct table table;
	struct tree tree;
	struct view view;

	for (options.key = 0; options.key <= VIEW_MODULE; options.key++) {
		if (view_make(&view, &h->profile, sites, &options))
			continue;
		print_report(out, &view, sites, true, NULL);
		print_report_json(out, &view, sites, true);
		view_release(&view);
	}
	if (table_make(&table, &h->profile, sites, TABLE_FLAT, 5) == 0) {
		print_table(out, &table, false, NULL);
		table_release(&table);
	}
	if (tree_make(&tree, &h->profile, sites, false, 1000000) == 0) {
		print_tree(out, &tree, 5, NULL);
		print_tree_json(out, &tree);
		tree_release(&tree);
	}
}

static void compare(struct heap *h, struct sites *sites)
{
	struct compare *c = compare_new();
	struct profile copy = { 0 }, twice = { 0 };

	if (!c || profile_copy(&copy, &h->profile)) {
		compare_free(c);
		return;
	}
	if (profile_copy(&twice, &h->profile) == 0) {
		if (compare_add(c, &copy, sites) == 0 && compare_add(c, &twice, sites) == 0 &&
		    profile_subtract(&copy, &twice) == 0)
			profile_drop_unchanged(&copy);
		profile_release(&twice);
	}
	profile_release(&copy);
	compare_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sites_source source = { .parent = stacks_parent, .frames = stacks_frames };
	char *text = malloc(size + 32), why[256];
	struct sites *sites;
	struct heap h;

	if (!out)
		out = fopen("/dev/null", "w");
	memcpy(text, data, size);
	size += (size_t)sprintf(text + size, "# end %08lx\n",
				crc32(0, (const Bytef *)text, (uInt)size));
	if (heap_parse(&h, text, size, OUTSIDE_OURS, why, sizeof(why)))
		return 0;
	source.ctx = h.stacks;
	sites = sites_new(&source);
	look(&h, sites);
	compare(&h, sites);
	sites_free(sites);
	heap_release(&h);
	return 0;
}
