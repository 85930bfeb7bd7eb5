/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "usage.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../supervisor/proc.h"

/*
 * The kernel's list of mappings is set beside the pages that live blocks begin in. A mapping of a file, the brk heap, a stack, the
 * anonymous tail of a file's data, one with a live block or with a thread's control block in it is explained: `other`, as far as it is
 * not heap or the program's own mapping. What is left over is `unaccounted`.
 */
struct spans {
	const struct maps *maps;
	uint8_t *explained;		/* one for each map */
	size_t at;			/* the map found last */
	uint64_t resident_pages, page;
	int pagemap;
};

static void mark(struct spans *s, raddr_t addr)
{
	for (size_t i = 0; i < s->maps->count; i++)
		if (addr >= s->maps->map[i].start && addr < s->maps->map[i].end)
			s->explained[i] = 1;
}

/* Pages of [start, start + len) in memory, or (SWAPPED) also those swapped out. */
static uint64_t resident(const struct spans *s, raddr_t start, uint64_t len, bool swapped)
{
	uint64_t entry[512], pages = 0, first = start / s->page, end = (start + len + s->page - 1) / s->page;

	while (s->pagemap >= 0 && first < end) {
		size_t n = end - first < 512 ? (size_t)(end - first) : 512;
		ssize_t got = pread(s->pagemap, entry, n * 8, (off_t)(first * 8));

		if (got < 8)
			break;
		for (size_t i = 0; i < (size_t)got / 8; i++)
			pages += entry[i] >> 63 || (swapped && entry[i] >> 62 & 1);
		first += (size_t)got / 8;
	}
	return pages;
}

static int each_page(void *ctx, raddr_t page)
{
	struct spans *s = ctx;
	const struct map *map = s->maps->map;
	size_t low = 0, high = s->maps->count;

	if (s->at < high && page >= map[s->at].start && page < map[s->at].end)
		return 0;		/* as the one before */
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (map[middle].end <= page)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < s->maps->count && map[low].start <= page) {
		s->explained[low] = 1;
		s->at = low;
	}
	return 0;
}

static int each_mapping(void *ctx, const struct ledger_block *b)
{
	struct spans *s = ctx;

	s->resident_pages += resident(s, b->address, b->size, true);
	return each_page(s, b->address);
}

static bool ours(const struct process *p, const struct map *m)
{
	if (p->home && m->start >= p->home && m->start < p->home + HOME_SIZE)
		return true;
	for (size_t i = 0; i < p->plant.nislands; i++)
		if (m->start >= p->plant.island[i].start && m->start < p->plant.island[i].end)
			return true;
	return false;
}

static void threads(struct spans *s, const struct process *p)
{
	for (size_t i = 0; p->wire && i < WIRE_THREADS; i++) {
		uint64_t fs = p->wire->thread[i].fs;

		if (fs > 1)
			mark(s, fs);
	}
}

static bool no_access(const struct map *m) { return !m->read && !m->write && !m->exec && !m->path[0]; }

/* What a mapping's name or its neighbours say of it. */
static bool named(const struct maps *maps, size_t i)
{
	const struct map *m = &maps->map[i];

	if (m->path[0])
		return true;
	if (i && maps->map[i - 1].end == m->start && (maps->map[i - 1].path[0] == '/' || no_access(&maps->map[i - 1])))
		return true;		/* .bss behind a file's data; a thread's stack (in use or kept for the next thread) behind its guard */
	return i + 1 < maps->count && maps->map[i + 1].start == m->end && no_access(&maps->map[i + 1]);	/* an arena that can grow */
}

static int64_t process_rss(const struct process *p)
{
	int64_t kb = p->state == PROCESS_EXITED || p->state == PROCESS_REPLACED ? -1 : proc_status_field(p->via, "VmRSS");

	return kb < 0 ? -1 : kb * 1024;
}

int64_t usage_rss(const struct process *p)
{
	struct spans s = { .page = (uint64_t)sysconf(_SC_PAGESIZE) };
	int64_t rss = process_rss(p);
	struct maps maps;

	if (rss < 0 || maps_read(&maps, p->via))
		return rss;
	s.pagemap = proc_open(p->via, "pagemap", 0);
	for (size_t i = 0; i < maps.count; i++)
		if (ours(p, &maps.map[i]))
			rss -= (int64_t)(resident(&s, maps.map[i].start, maps.map[i].end - maps.map[i].start, false) * s.page);
	if (s.pagemap >= 0)
		close(s.pagemap);
	maps_release(&maps);
	return rss < 0 ? 0 : rss;
}

void usage_read(struct usage *u, const struct process *p, const struct ledger_totals *totals)
{
	struct spans s = { .page = (uint64_t)sysconf(_SC_PAGESIZE) };
	uint64_t known = totals->heap + totals->mmap + p->image_bytes;
	struct maps maps;

	*u = (struct usage){ .rss = process_rss(p) };
	if (u->rss < 0 || maps_read(&maps, p->via))
		return;
	s.maps = &maps;
	s.explained = calloc(maps.count + 1, 1);
	s.pagemap = proc_open(p->via, "pagemap", 0);
	if (s.explained) {
		s.at = maps.count;
		ledger_each_page(p->ledger, each_page, &s);
		ledger_each_mapping(p->ledger, each_mapping, &s);
		threads(&s, p);
		u->mapped_known = true;
	}
	for (size_t i = 0; i < maps.count && u->mapped_known; i++) {
		const struct map *m = &maps.map[i];

		if (ours(p, m)) {
			u->rss -= (int64_t)(resident(&s, m->start, m->end - m->start, false) * s.page);
			continue;
		}
		if ((!m->read && !m->write && !m->exec) || !strcmp(m->path, "[vsyscall]"))
			continue;
		u->mapped += m->end - m->start;
		if (!s.explained[i] && !named(&maps, i))
			u->unaccounted += m->end - m->start;
	}
	if (u->rss < 0)
		u->rss = 0;
	if (s.pagemap >= 0)
		close(s.pagemap);
	u->mmap_resident = s.resident_pages * s.page;
	if (u->unaccounted > u->mapped - (u->mapped < known ? u->mapped : known))
		u->unaccounted = u->mapped - (u->mapped < known ? u->mapped : known);
	/* What was mapped or freed between the two looks makes no negative number. */
	u->other = u->mapped > known + u->unaccounted ? u->mapped - known - u->unaccounted : 0;
	u->mapped = known + u->other + u->unaccounted;
	free(s.explained);
	maps_release(&maps);
}
