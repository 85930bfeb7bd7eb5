// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/heapfile_process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "process/profile_make.h"
#include "report/heapfile_status.h"

/*
 * The struct heap is the process' `told`; modules and marks move into the process, everything else
 * stays there until the process is freed.
 */
static uint32_t parent(const struct process *p, uint32_t stack, uint64_t *pc)
{
	const struct heap *heap = p->told;

	return stacks_parent(heap->stacks, stack, pc);
}

static bool question(const struct process *p, uint32_t node, uint64_t pc, struct symbol_question *q)
{
	(void)p, (void)node, (void)pc, (void)q;
	return false; /* all names are in the file */
}

static struct symbol_frames frames(struct process *p, uint32_t node, uint64_t pc)
{
	const struct heap *heap = p->told;

	return stacks_frames(heap->stacks, node, pc);
}

static int site_skip(struct process *p, const char *regex, const char **error)
{
	return heap_site_skip(p->told, regex, error);
}

int heapfile_profile(const struct heap *heap, unsigned detail, struct profile *profile)
{
	size_t n = 0;

	if (profile_copy(profile, &heap->profile))
		return -ENOMEM;
	for (size_t i = 0; i < profile->count; i++)
		if (profile->row[i].size || profile->row[i].count ||
		    (detail & PROFILE_DEAD && profile->row[i].total_count))
			profile->row[n++] = profile->row[i];
	profile->count = n;
	return 0;
}

static int profile(const struct process *p, const struct profile_ask *ask, struct profile *profile)
{
	return heapfile_profile(p->told, ask->detail, profile);
}

static void recorded(const struct process *p, struct process_recorded *r)
{
	const struct heap *heap = p->told;

	*r = (struct process_recorded){
		.clock_ms = heap->facts.clock_ms - heap->profile.ms,
		.peak = heap->facts.peak,
		.peak_ms = heap->facts.peak_ms,
		.sample = heap->facts.sample,
		.counted = heap->facts.counted,
	};
}

static void release(struct process *p)
{
	heap_release(p->told);
	free(p->told);
}

static const struct process_source source = {
	.name = "a .heap file",
	.one_moment = true,
	.parent = parent,
	.question = question,
	.frames = frames,
	.site_skip = site_skip,
	.profile = profile,
	.status = heapfile_status,
	.status_json = heapfile_status_json,
	.totals = heapfile_totals,
	.recorded = recorded,
	.release = release,
};

struct process *heapfile_process(struct heap *heap)
{
	struct heap *own = malloc(sizeof(*own));
	struct process *p = own ? process_from(&source, own, heap->facts.pid, 0,
					       heap->facts.counted, NULL,
					       outside_of_owner(heap->owner))
				: NULL;

	if (!p) {
		free(own);
		heap_release(heap);
		return NULL;
	}
	*own = *heap;
	/* whose number that is by now nobody knows: files are looked for as we see them */
	p->via = getpid();
	p->state = PROCESS_DETACHED;
	p->ended_ms = own->profile.ms;
	process_name(p, own->facts.command, own->facts.exe);
	p->modules = own->modules;
	p->marks = own->marks;
	own->modules = (struct modules){ 0 };
	own->marks = (struct marks){ 0 };
	p->preattach = own->facts.preattach;
	own->facts.modules = &p->modules;
	own->facts.marks = &p->marks;
	return p;
}
