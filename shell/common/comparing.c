// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/comparing.h"

#include <errno.h>
#include <stdlib.h>

#include "process/profile_make.h"
#include "report/compare.h"
#include "report/heapfile_process.h"
#include "shell/common/command.h"
#include "shell/common/shell.h"

/*
 * What is printed points into the files that were read, so they are kept until the next comparison.
 */
struct comparing {
	struct compare *compare;
	struct heap heap[2]; /* read for it; at most both sides */
	size_t heaps;
};

void comparing_release(struct shell *shell)
{
	struct comparing *c = shell->comparing;

	if (!c)
		return;
	compare_free(c->compare);
	while (c->heaps)
		heap_release(&c->heap[--c->heaps]);
	free(c);
	shell->comparing = NULL;
}

int comparing_begin(struct shell *shell)
{
	comparing_release(shell);
	shell->comparing = calloc(1, sizeof(*shell->comparing));
	if (!shell->comparing)
		return -ENOMEM;
	shell->comparing->compare = compare_new();
	return shell->comparing->compare ? 0 : -ENOMEM;
}

int comparing_add(struct shell *shell, struct call *call, struct profile *profile,
		  struct sites *sites)
{
	int err = compare_add(shell->comparing->compare, profile, sites);

	if (!err)
		return 0;
	profile_release(profile);
	return shell_error(shell, call,
			   err == -ENOMEM ? "out of memory"
					  : "there are too many stacks to compare");
}

int comparing_file(struct shell *shell, struct call *call, const char *file, unsigned detail,
		   struct profile *profile)
{
	struct comparing *c = shell->comparing;
	struct heap *heap = &c->heap[c->heaps];
	struct sites_source source = { .parent = stacks_parent, .frames = stacks_frames };
	struct sites *sites;
	const char *error;
	char why[256];
	int err;

	if (heap_read(heap, file, why, sizeof(why)))
		return shell_error(shell, call, "cannot open '%s': %s", file, why);
	c->heaps++;
	if (heap_site_skip(heap, shell->settings.site_skip, &error))
		return shell_error(shell, call, "site-skip: %s", error);
	*profile = (struct profile){ 0 };
	source.ctx = heap->stacks;
	sites = sites_new(&source);
	if (!sites || heapfile_profile(heap, detail, profile)) {
		sites_free(sites);
		return shell_error(shell, call, "out of memory");
	}
	err = comparing_add(shell, call, profile, sites);
	sites_free(sites);
	return err;
}

struct sites *comparing_sites(struct shell *shell)
{
	struct sites *sites = compare_sites(shell->comparing->compare);

	sites_pass_wrappers(sites, !shell->settings.stay_in_wrappers);
	return sites;
}
