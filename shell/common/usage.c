// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/usage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/bounds.h"
#include "base/maps.h"
#include "base/proc.h"
#include "base/residence.h"
#include "blocks/blocks.h"
#include "session/asking.h"
#include "symbols/module.h"

/*
 * The kernel's list of mappings is set beside the pages that live blocks begin in. A mapping of a
 * file, the brk heap, a stack, the anonymous tail of a file's data, one with a live block or with a
 * thread's control block in it is explained: `other`, as far as it is not heap or the program's own
 * mapping. What is left over is `unaccounted`. What cannot be told in time is not known.
 *
 * The kernel makes one mapping of neighbours. So what is explained by a control block alone, or as
 * the tail of a file's data, is only as much as those may be; behind a guard it is a thread's
 * stack, and whole.
 */
/* ld.so's first thread's, with its thread-local variables */
#define CONTROL_BLOCK (64u << 10)
#define FILE_TAIL     (1u << 20) /* of a file that is no module of ours */
#define MAPPED_US     80000u	 /* for the list */
/* for the pages of what the program has mapped: 40 ms for as many mappings as Linux allows */
#define RESIDENT_US 70000u
#define OURS_US	    20000u /* for those of what is ours: a few mappings */

enum why { UNEXPLAINED, BY_CONTROL_BLOCK, BY_BLOCKS };

struct spans {
	struct residence_span *span;
	size_t count, room;
};

static void add_span(struct spans *v, raddr_t start, raddr_t end)
{
	if (!array_room(&v->span, v->count, &v->room, sizeof(*v->span)))
		v->span[v->count++] = (struct residence_span){ start, end };
}

struct look {
	struct maps maps;
	uint8_t *explained; /* one for each mapping: enum why */
	size_t at;	    /* the one found last */
	struct spans own;   /* mappings of the program's own */
};

static void explain_page(void *ctx, raddr_t page)
{
	struct look *s = ctx;

	s->at = maps_from(&s->maps, page, s->at);
	if (s->at < s->maps.count && s->maps.map[s->at].start <= page)
		s->explained[s->at] = BY_BLOCKS;
}

/* What was mapped at once may be several mappings by now. */
static int each_mapping(void *ctx, const struct ledger_block *b)
{
	raddr_t end = b->size <= UINT64_MAX - b->address ? b->address + b->size : UINT64_MAX;
	struct look *s = ctx;

	add_span(&s->own, b->address, end);
	for (s->at = maps_from(&s->maps, b->address, s->at);
	     s->at < s->maps.count && s->maps.map[s->at].start < end; s->at++)
		s->explained[s->at] = BY_BLOCKS;
	return 0;
}

static bool ours(const struct rss_look *l, const struct map *v)
{
	if (l->agent && v->start >= l->agent && v->end <= l->agent + AGENT_SPAN &&
	    (v->inode || v->start < l->agent + AGENT_BEACON))
		return true;
	for (size_t i = 0; i < l->islands; i++)
		if (v->start >= l->island[i].start && v->start < l->island[i].end)
			return true;
	return false;
}

static void threads(struct look *s, const struct process *p)
{
	for (uint32_t i = 0, high = p->wire ? shared_slots_mapped(&p->shared) : 0; i < high; i++) {
		uint64_t fs = __atomic_load_n(&p->wire->thread[i].fs, __ATOMIC_RELAXED);

		if (fs <= 1)
			continue;
		s->at = maps_from(&s->maps, fs, s->at);
		if (s->at < s->maps.count && s->maps.map[s->at].start <= fs && !s->explained[s->at])
			s->explained[s->at] = BY_CONTROL_BLOCK;
	}
}

static bool is_accessible(const struct map *v) { return v->read || v->write || v->exec; }

/* Anonymous memory in all but its name. */
static bool is_zero(const struct map *v) { return !v->shared && !strcmp(v->path, "/dev/zero"); }

static bool is_guard(const struct map *v) { return !is_accessible(v) && !*v->path; }

/* Where the data of the module that V lies behind ends; 0: it is none's. */
static raddr_t tail_end(const struct process *p, const struct map *v)
{
	for (size_t i = 0; i < p->modules.count; i++) {
		const struct module *m = p->modules.module[i];
		raddr_t end = module_memory_end(m);

		if (m->dead == UINT32_MAX && m->start <= v->start && end > v->start)
			return (end + 4095) & ~4095ull;
	}
	return 0;
}

/* How much of a mapping is explained: by what is in it, its name, its neighbours. */
static uint64_t explained_bytes(const struct look *s, const struct process *p, size_t i)
{
	const struct map *v = &s->maps.map[i];
	/* a thread's stack (in use or kept for the next one) behind its guard */
	bool guarded = (i && v[-1].end == v->start && is_guard(&v[-1])) ||
		       (i + 1 < s->maps.count && v[1].start == v->end &&
			is_guard(&v[1])); /* an arena that can grow */
	uint64_t size = v->end - v->start,
		 bytes = s->explained[i] == BY_CONTROL_BLOCK ? least(size, CONTROL_BLOCK) : 0;
	raddr_t end;

	if ((*v->path && !is_zero(v)) || guarded || s->explained[i] == BY_BLOCKS)
		return size;
	if (i && v[-1].end == v->start && v[-1].inode) { /* .bss behind a file's data */
		end = tail_end(p, v);
		bytes += end ? end - v->start : FILE_TAIL;
	}
	return least(bytes, size);
}

static int64_t process_rss(const struct process *p)
{
	bool gone = process_state_gone(p->state) ||
		    p->source->name; /* recorded, perhaps elsewhere */
	int64_t kb = gone ? -1 : proc_status_field(p->via, "VmRSS");

	return kb < 0 ? -1 : kb * 1024;
}

static int64_t less(int64_t rss, uint64_t own)
{
	return (uint64_t)rss > own ? rss - (int64_t)own : 0;
}

void rss_look_begin(struct rss_look *l, const struct process *p)
{
	size_t n = p->plant.nislands;

	*l = (struct rss_look){ .via = p->via, .agent = p->agent, .rss = process_rss(p) };
	l->island = n ? malloc(n * sizeof(*l->island)) : NULL;
	for (; l->island && l->islands < n; l->islands++)
		l->island[l->islands] = (struct rss_span){ p->plant.island[l->islands].start,
							   p->plant.island[l->islands].end };
}

/* L's RSS without what is ours among MAPS; L's memory is released. */
static int64_t rss_without_ours(struct rss_look *l, const struct maps *maps)
{
	struct spans v = { 0 };
	uint64_t own = 0;

	for (size_t i = 0; i < maps->count; i++)
		if (ours(l, &maps->map[i]))
			add_span(&v, maps->map[i].start, maps->map[i].end);
	if (v.count)
		(void)residence_sum(l->via, v.span, v.count, false, OURS_US, &own);
	free(v.span);
	free(l->island);
	return l->rss < 0 ? -1 : less(l->rss, own);
}

int64_t rss_look_end(struct rss_look *l)
{
	struct maps maps;
	int64_t rss;

	if (l->rss < 0 || maps_read_within(&maps, l->via, MAPPED_US))
		maps = (struct maps){ 0 };
	rss = rss_without_ours(l, &maps);
	maps_release(&maps);
	return rss;
}

int64_t usage_rss(const struct process *p)
{
	struct rss_look l;

	rss_look_begin(&l, p);
	return rss_look_end(&l);
}

#define SLICE 65536u /* pages that are looked at before others have the session */
#define TRIES 3u     /* where its table moves meanwhile; then at once */

/* Which mappings the ledger explains by a block. */
static void explain_blocks(struct session *session, struct look *s, const struct process *p)
{
	int more = -EAGAIN;

	for (unsigned tries = 1; more == -EAGAIN; tries++) {
		const struct ledger *l = p->ledger;
		struct blocks_pass w = { 0 };

		while ((more = ledger_pass_pages(l, &w, SLICE, explain_page, s)) > 0) {
			if (tries == TRIES)
				continue;
			asking_unlock(session);
			asking_lock(session);
			if (l != p->ledger) {
				more = -EAGAIN;
				break;
			}
		}
	}
}

static void reckon(struct usage *u, const struct look *s, const struct process *p,
		   const struct rss_look *rss, uint64_t known)
{
	for (size_t i = 0; i < s->maps.count; i++) {
		const struct map *v = &s->maps.map[i];

		if (ours(rss, v) || !is_accessible(v))
			continue;
		u->mapped += v->end - v->start;
		u->unaccounted += v->end - v->start - explained_bytes(s, p, i);
		if (v->write && map_is_memory(v) && !is_zero(v) && !s->explained[i])
			u->shared += v->end - v->start;
	}
	if (u->unaccounted > u->mapped - (u->mapped < known ? u->mapped : known))
		u->unaccounted = u->mapped - (u->mapped < known ? u->mapped : known);
	/* What was mapped or freed between the two looks makes no negative number. */
	u->other = u->mapped > known + u->unaccounted ? u->mapped - known - u->unaccounted : 0;
	u->mapped = known + u->other + u->unaccounted;
}

/* The maps are known. */
static void look(struct session *session, struct usage *u, struct look *s, const struct process *p,
		 uint64_t known)
{
	pid_t via = p->via;
	struct rss_look rss;

	rss_look_begin(&rss, p);
	s->at = s->maps.count;
	s->explained = calloc(s->maps.count + 1, 1);
	if (s->explained) {
		explain_blocks(session, s, p);
		ledger_each_mapping(p->ledger, each_mapping, s);
		threads(s, p);
		reckon(u, s, p, &rss, known);
		u->mapped_known = true;
		u->mappings = s->maps.count;
	}
	asking_unlock(session);
	u->resident_known = s->explained && residence_sum(via, s->own.span, s->own.count, true,
							  RESIDENT_US, &u->mmap_resident);
	u->rss = rss_without_ours(&rss, &s->maps);
	asking_lock(session);
}

void usage_read(struct session *session, struct usage *u, const struct process *p,
		const struct ledger_totals *totals)
{
	uint64_t known = totals->heap + totals->mmap + p->image_bytes;
	struct look s = { 0 };
	pid_t via = p->via;
	int err;

	*u = (struct usage){ .rss = process_rss(p) };
	if (u->rss < 0)
		return;
	asking_unlock(session);
	err = maps_read_within(&s.maps, via, MAPPED_US);
	asking_lock(session);
	if (err)
		return;
	look(session, u, &s, p, known);
	free(s.own.span);
	free(s.explained);
	maps_release(&s.maps);
}
