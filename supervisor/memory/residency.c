// SPDX-License-Identifier: GPL-3.0-or-later
#include "memory/residency.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/maps.h"
#include "base/patient.h"
#include "ledger/block_list.h"
#include "ledger/ledger.h"
#include "process/process.h"

/*
 * The kernel tells which pages are there: PAGEMAP_SCAN passes over what is not mapped, or never
 * touched, so that 64 TB of reserved addresses cost nothing and 1 GB in memory some 5 ms; it needs
 * no rights beyond those to trace the process. Its `maps` says what lies where, areas.c whose that
 * is. Then a copy of the live blocks is laid over the pages (page_tally.c), which takes some 20 ns
 * for each.
 *
 * Once the descriptors are open, the process is found to be there still. They stay that process',
 * or rather that image's: after an exec, or when another process has got its number, they read as
 * empty.
 */
#define READ_US	     2000000u /* CPU time for all pages: without PAGEMAP_SCAN they are read */
#define THREADS_MOST 4096

const struct residency_words residency_words[RESIDENCY_ROWS] = {
	[RESIDENCY_LIVE] = { "live_resident", "live", "pages with bytes of live blocks" },
	[RESIDENCY_FREE] = { "free_resident", "free", "held free: blocks have been there" },
	[RESIDENCY_METADATA] = { "metadata", "metadata", "allocators' own and rounding; libc's" },
	[RESIDENCY_MMAP] = { "mmap", "mmap", "the program's own mappings" },
	[RESIDENCY_STACKS] = { "stacks", "stacks", "stacks of threads" },
	[RESIDENCY_IMAGE] = { "image", "image", "the executable" },
	[RESIDENCY_FILES] = { "files", "files", "libraries, other files" },
	[RESIDENCY_SHARED] = { "shared", "shared", "shared memory" },
	[RESIDENCY_MTRUN] = { "mtrun", "mtrun", "mtrun's part in the process" },
};

/* Of pages without a live byte; those of AREA_BLOCKS are FREE if blocks have been there. */
static const enum residency_row row_of[AREA_KINDS] = {
	[AREA_BLOCKS] = RESIDENCY_METADATA, [AREA_OWN] = RESIDENCY_MMAP,
	[AREA_STACK] = RESIDENCY_STACKS,    [AREA_IMAGE] = RESIDENCY_IMAGE,
	[AREA_FILE] = RESIDENCY_FILES,	    [AREA_SHARED] = RESIDENCY_SHARED,
	[AREA_MTRUN] = RESIDENCY_MTRUN,
};

int residency_open(struct residency_look *l, pid_t pid)
{
	int64_t swapped = proc_status_field(pid, "VmSwap");

	*l = (struct residency_look){ .pid = pid,
				      .maps_fd = patient_open(pid, "maps", O_RDONLY),
				      .swapped = swapped > 0 ? (uint64_t)swapped * 1024 : 0 };
	residence_begin(&l->residence, pid, READ_US);
	return l->maps_fd < 0 ? l->maps_fd : l->residence.fd < 0 ? l->residence.fd : 0;
}

int residency_begin(struct residency_look *l, const struct process *p)
{
	return ledger_lain(p->ledger, &l->lain);
}

void residency_end(struct residency_look *l)
{
	if (l->maps_fd >= 0)
		close(l->maps_fd);
	residence_end(&l->residence);
	maps_release(&l->maps);
	free(l->rsp);
	free(l->run);
	page_set_release(&l->lain);
	areas_release(&l->areas);
	tally_release(&l->tally);
}

/* ---- pages --------------------------------------------------------------- */

static void add_run(void *ctx, raddr_t start, raddr_t end, unsigned kind)
{
	struct residency_look *l = ctx;
	struct residency_run *last = l->nrun ? &l->run[l->nrun - 1] : NULL;

	if (kind & RESIDENCE_ZERO || l->err)
		return;
	if (last && last->end == start && last->kind == kind) {
		last->end = end;
		return;
	}
	l->err = array_room(&l->run, l->nrun, &l->room, sizeof(*l->run));
	if (!l->err)
		l->run[l->nrun++] = (struct residency_run){ start, end, kind };
}

/* Stack pointers of threads that sleep. Those that allocate are known by their slots, too. */
static void read_stacks(struct residency_look *l)
{
	pid_t *tid = NULL;
	int n = proc_threads(l->pid, &tid);

	if (n > THREADS_MOST)
		n = THREADS_MOST;
	l->rsp = n > 1 ? malloc((size_t)n * sizeof(*l->rsp)) : NULL;
	for (int i = 0; i < n && l->rsp; i++) {
		raddr_t pc;
		long nr;

		if (tid[i] != l->pid && patient_sleeping(tid[i], &nr, &l->rsp[l->nrsp], &pc))
			l->nrsp++;
	}
	if (n >= 0)
		free(tid);
}

/*
 * Only of shared mappings it must be known which pages are memory, so neighbours are asked for
 * together. Without PAGEMAP_SCAN each page costs, in memory or not: then none is asked for that is
 * not mapped.
 */
static size_t ask_together(const struct residency_look *l, size_t i)
{
	const struct map *map = l->maps.map;
	size_t end = i + 1;

	while (end < l->maps.count && map[end].shared == map[i].shared &&
	       (!l->residence.no_scan || map[end].start == map[end - 1].end))
		end++;
	return end;
}

int residency_read(struct residency_look *l)
{
	int err = maps_read_from(&l->maps, l->pid, l->maps_fd);

	if (err)
		return err;
	if (!l->maps.count)
		return -ESRCH;
	read_stacks(l);
	for (size_t i = 0, end; i < l->maps.count; i = end) {
		unsigned tell = RESIDENCE_ZERO | (l->maps.map[i].shared ? RESIDENCE_FILE : 0);

		end = ask_together(l, i);
		residence_each(&l->residence, l->maps.map[i].start, l->maps.map[end - 1].end, tell,
			       add_run, l);
	}
	return l->err;
}

int residency_divide(struct residency_look *l, const struct process *p)
{
	int err = areas_make(&l->areas, p, &l->maps, l->maps_fd, &l->lain, l->rsp, l->nrsp);

	for (size_t i = 0, j = 0; i < l->nrun && j < l->areas.count && !err;) {
		const struct residency_run *run = &l->run[i];
		const struct area *area = &l->areas.area[j];
		raddr_t start = run->start > area->start ? run->start : area->start,
			end = run->end < area->end ? run->end : area->end;

		if (start < end && (run->kind & RESIDENCE_FILE || !area->shared))
			err = tally_add(&l->tally, start, end, row_of[area->kind]);
		if (run->end <= area->end)
			i++;
		else
			j++;
	}
	return err;
}

/* ---- blocks -------------------------------------------------------------- */

int residency_lay(struct residency_look *l, const struct block_list *blocks, const uint32_t *group,
		  size_t groups)
{
	int err = tally_begin(&l->tally);

	l->tally.group = group;
	l->tally.groups = groups;
	for (size_t i = 0; i < blocks->count && !err; i++) {
		const struct listed_block *b = &blocks->block[i];

		if (!b->mapping)
			tally_block(&l->tally, b->address,
				    b->weighed ? block_list_get(blocks, i).size : b->size,
				    b->stack);
	}
	return err;
}

/* ---- sums ---------------------------------------------------------------- */

struct summing {
	const struct residency_look *look;
	struct residency *out;
	struct residency_kept *kept; /* by stack */
	size_t room;
	int err;
};

static void keep(struct summing *s, const struct tally_run *run, uint64_t pages)
{
	uint32_t stack = run->owner - 1;
	struct residency_kept *kept = &s->out->several, *more;
	size_t n;

	if (run->owner != TALLY_SEVERAL && stack >= s->room) {
		n = stack + 1 > s->room * 2 ? (size_t)stack + 1 : s->room * 2;
		more = realloc(s->kept, n * sizeof(*more));
		if (!more) {
			s->err = -ENOMEM;
			return;
		}
		memset(more + s->room, 0, (n - s->room) * sizeof(*more));
		s->kept = more;
		s->room = n;
	}
	if (run->owner != TALLY_SEVERAL)
		kept = &s->kept[stack];
	kept->stack = run->owner != TALLY_SEVERAL ? stack : 0;
	kept->pages += pages;
	kept->live_bytes += pages * run->live;
	s->out->all.pages += pages;
	s->out->all.live_bytes += pages * run->live;
}

static void add_pages(void *ctx, const struct tally_run *run)
{
	struct summing *s = ctx;
	uint64_t bytes = run->end - run->start, lain;

	s->out->rss += bytes;
	if (run->live) {
		s->out->bytes[RESIDENCY_LIVE] += bytes;
		s->out->live_bytes += bytes / PAGE * run->live;
		if (run->live <= RESIDENCY_FEW)
			keep(s, run, bytes / PAGE);
		return;
	}
	lain = run->row == RESIDENCY_METADATA
		       ? page_set_count(&s->look->lain, run->start, run->end) * PAGE
		       : 0;
	s->out->bytes[RESIDENCY_FREE] += lain;
	s->out->bytes[run->row] += bytes - lain;
}

int residency_sum(const struct residency_look *l, struct residency *out)
{
	struct summing s = { .look = l, .out = out };

	*out = (struct residency){ .swapped = l->swapped, .late = l->residence.late };
	tally_each(&l->tally, add_pages, &s);
	for (size_t i = 0; i < s.room; i++)
		if (s.kept[i].pages)
			s.kept[out->nkept++] = s.kept[i];
	out->kept = s.kept;
	if (s.err)
		residency_release(out);
	return s.err;
}

void residency_release(struct residency *r)
{
	free(r->kept);
	*r = (struct residency){ 0 };
}
