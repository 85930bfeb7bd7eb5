// SPDX-License-Identifier: GPL-3.0-or-later
#include "memory/capture_make.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/maps.h"
#include "base/proc.h"
#include "ledger/block_list.h"
#include "memory/capture_state.h"
#include "memory/protect.h"
#include "tracee/agent.h"

/*
 * capture_make.c - filling a capture: its ranges, out of the process' mappings; the pages in them,
 * copied or to be read where they are; the ledger's blocks.
 */

/* ---- ranges -------------------------------------------------------------- */

/* Of a driver: what reading it would do nobody knows. */
static bool is_device(const struct map *m)
{
	return !strncmp(m->path, "/dev/", 5) && strncmp(m->path, "/dev/shm/", 9) &&
	       strcmp(m->path, "/dev/zero");
}

static bool is_named(const struct map *m) { return *m->path && strncmp(m->path, "[anon", 5); }

static bool is_wanted(raddr_t agent, const struct map *m)
{
	if (!m->read || is_device(m) || agent_owns(agent, m))
		return false;
	return m->write || (!m->shared && (m->inode || !is_named(m)) && !m->exec);
}

/* BEFORE: the mapping that is listed before it, or NULL. */
static bool is_bss(const struct map *m, const struct map *before)
{
	return before && before->inode && !before->shared && before->write &&
	       before->end == m->start && !m->shared && !is_named(m);
}

static enum capture_kind kind_of(const struct map *m, const struct map *before)
{
	if (m->shared)
		return CAPTURE_SHARED;
	if (m->inode || is_bss(m, before))
		return CAPTURE_DATA;
	if (!strcmp(m->path, "[heap]"))
		return CAPTURE_HEAP;
	return !strcmp(m->path, "[stack]") ? CAPTURE_STACK : CAPTURE_ANONYMOUS;
}

struct capture *capture_new(bool (*interrupted)(void *ctx), void *ctx)
{
	struct making *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->from.mem = -1;
	m->interrupted = interrupted;
	m->ctx = ctx;
	return &m->c;
}

void capture_clear(struct capture *c)
{
	struct making *m = capture_making(c);

	for (size_t i = 0; i < c->threads; i++)
		free((void *)(uintptr_t)m->thread[i].vector);
	maps_release(&m->maps);
	free(m->range);
	free(m->part);
	free(m->thread);
	free(m->own);
	arena_release(&m->blocks);
	free(m->weight);
	free(m->leaving);
	m->maps = (struct maps){ 0 };
	m->range = NULL;
	m->part = NULL;
	m->own = NULL;
	m->parts = m->owns = m->own_room = 0;
	m->thread = NULL;
	m->weight = NULL;
	m->leaving = NULL;
	m->leavings = m->leaving_room = 0;
	m->thread_room = 0;
	*c = (struct capture){ .way = c->way, .pause_ns = c->pause_ns };
}

void capture_free(struct capture *c)
{
	struct making *m = capture_making(c);

	if (!c)
		return;
	capture_clear(c);
	free(m->untracked);
	free(m->run);
	copy_free(m->copy);
	memory_close(&m->from);
	free(m);
}

int capture_ranges(struct capture *c, pid_t pid, raddr_t agent)
{
	struct making *m = capture_making(c);
	struct capture_range *range;
	struct part *part;
	struct maps maps;
	size_t n = 0;
	int err = maps_read(&maps, pid);

	if (err)
		return err;
	range = calloc(maps.count + 1, sizeof(*range));
	part = calloc(maps.count + 1, sizeof(*part));
	if (!range || !part) {
		maps_release(&maps);
		free(range);
		free(part);
		return -ENOMEM;
	}
	for (size_t i = 0; i < maps.count; i++) {
		const struct map *map = &maps.map[i], *before = i ? map - 1 : NULL;

		if (!is_wanted(agent, map))
			continue;
		range[n] = (struct capture_range){ .start = map->start,
						   .end = map->end,
						   .kind = kind_of(map, before),
						   .write = map->write,
						   .roots = true,
						   .name = is_bss(map, before) ? before->path
									       : map->path };
		part[n++] =
			(struct part){ .start = map->start,
				       .end = map->end,
				       .shared = map->shared,
				       .wanted = map->inode && !map->shared ? PAGES_NOT_FILES : 0 };
	}
	free(m->range);
	free(m->part);
	maps_release(&m->maps);
	m->maps = maps;
	m->part = part;
	c->range = m->range = range;
	c->ranges = m->parts = n;
	return 0;
}

/* ---- threads and blocks -------------------------------------------------- */

int capture_thread(struct capture *c, pid_t tid, const struct user_regs_struct *general,
		   const void *vector, size_t bytes)
{
	struct making *m = capture_making(c);
	void *copy = malloc(bytes);
	int err = copy ? array_room(&m->thread, c->threads, &m->thread_room, sizeof(*m->thread))
		       : -ENOMEM;

	if (err) {
		free(copy);
		return err;
	}
	c->thread = m->thread;
	m->thread[c->threads++] = (struct capture_thread){ .tid = tid,
							   .general = *general,
							   .vector = memcpy(copy, vector, bytes),
							   .vector_bytes = bytes };
	return 0;
}

void capture_names(struct capture *c, pid_t pid)
{
	for (size_t i = 0; i < c->threads; i++)
		proc_name(pid, c->thread[i].tid, capture_making(c)->thread[i].name);
}

static int add_leaving(void *ctx, const struct ledger_block *b)
{
	struct making *m = ctx;
	int err = array_room(&m->leaving, m->leavings, &m->leaving_room, sizeof(*m->leaving));

	if (!err)
		m->leaving[m->leavings++] = b->address;
	return err;
}

int capture_instant(struct capture *c, const struct ledger *l, uint64_t ms)
{
	struct making *m = capture_making(c);

	c->ms = ms;
	c->tick = (uint32_t)(ms / 10);
	return ledger_each_leaving(l, add_leaving, m);
}

static bool is_leaving(const struct making *m, raddr_t address)
{
	for (size_t i = 0; i < m->leavings; i++)
		if (m->leaving[i] == address)
			return true;
	return false;
}

static int add_own(struct making *m, const struct ledger_block *b)
{
	if (array_room(&m->own, m->owns, &m->own_room, sizeof(*m->own)))
		return -ENOMEM;
	m->own[m->owns++] = (struct own_mapping){ b->address, b->address + b->size };
	return 0;
}

_Static_assert(sizeof(struct capture_block) == sizeof(struct listed_block),
	       "a list becomes blocks where it is");

int capture_blocks(struct capture *c, struct block_list *list, bool sampled)
{
	struct making *m = capture_making(c);
	struct capture_block *to = (struct capture_block *)(void *)list->block;
	int err = 0;

	m->weight = sampled ? calloc(list->count + 1, sizeof(*m->weight)) : NULL;
	if (sampled && !m->weight)
		err = -ENOMEM;
	for (size_t i = 0; i < list->count && !err; i++) {
		struct ledger_block b = block_list_get(list, i);

		if (b.mapping) {
			err = add_own(m, &b);
			continue;
		}
		if (m->leavings && is_leaving(m, b.address))
			continue;
		if (m->weight)
			m->weight[c->blocks] = (struct capture_weight){ b.bytes, b.count };
		to[c->blocks++] = (struct capture_block){ .address = b.address,
							  .size = b.size,
							  .stack = b.stack,
							  .tick = (uint32_t)(b.ms / 10) };
	}
	m->blocks = (struct arena){ list->block, list->reserved };
	c->block = to;
	list->block = NULL;
	list->reserved = list->count = 0;
	block_list_release(list);
	return err;
}

/* ---- contents ------------------------------------------------------------ */

int capture_open(struct capture *c, pid_t pid, bool quick)
{
	struct making *m = capture_making(c);

	memory_close(&m->from);
	return memory_open(&m->from, pid, quick);
}

int capture_begin_copy(struct capture *c, uint64_t most)
{
	struct making *m = capture_making(c);

	copy_free(m->copy);
	m->copy = copy_new(most);
	m->rounds = 0;
	for (size_t i = 0; i < m->parts; i++)
		m->part[i].held = false;
	return m->copy ? 0 : -ENOMEM;
}

void capture_allow(struct capture *c, uint64_t most) { copy_allow(capture_making(c)->copy, most); }

void capture_expect(struct capture *c, uint64_t bytes)
{
	copy_expect(capture_making(c)->copy, bytes);
}

bool capture_core_free(struct capture *c)
{
	struct making *m = capture_making(c);

	return m->copy && copy_core_free(m->copy);
}

#define RUNS 512

static uint64_t bytes_of(const struct page_run *run, ssize_t n)
{
	uint64_t bytes = 0;

	for (ssize_t i = 0; i < n; i++)
		bytes += run[i].end - run[i].start;
	return bytes;
}

/* Bytes that are there in [START, END), added to *BYTES. */
static int measure(const struct memory *from, raddr_t start, raddr_t end, unsigned what,
		   uint64_t *bytes)
{
	struct page_run run[RUNS];
	ssize_t n = 0;

	for (raddr_t at = start; at < end && n >= 0; *bytes += bytes_of(run, n))
		n = pages_next(&from->pages, &at, end, what, run, RUNS);
	return n < 0 ? (int)n : 0;
}

int capture_measure(struct capture *c, uint64_t *bytes)
{
	const struct making *m = capture_made(c);
	int err = 0;

	*bytes = 0;
	for (size_t i = 0; i < m->parts && !err; i++)
		err = measure(&m->from, m->part[i].start, m->part[i].end, m->part[i].wanted, bytes);
	return err;
}

static bool is_interrupted(const struct making *m)
{
	return m->interrupted && m->interrupted(m->ctx);
}

/* P's pages in FROM, as they are now. */
static int copy_part(struct making *m, struct part *p, const struct memory *from)
{
	struct page_run run[RUNS];
	raddr_t at = p->start;
	int err = 0;

	while (at < p->end && !err) {
		ssize_t n = pages_next(&from->pages, &at, p->end, p->wanted, run, RUNS);

		err = n < 0 ? (int)n : copy_take(m->copy, from, run, (size_t)n, false);
		if (!err && is_interrupted(m))
			err = -EINTR;
	}
	p->held = !err;
	return err;
}

int capture_copy(struct capture *c)
{
	struct making *m = capture_making(c);
	int err = 0;

	for (size_t i = 0; i < m->parts && !err; i++)
		if (!m->part[i].held)
			err = copy_part(m, &m->part[i], &m->from);
	copy_expected(m->copy);
	if (err)
		return err;
	memory_close(&m->from);
	c->copied = true;
	c->bytes = copy_bytes(m->copy);
	return 0;
}

/* 1: some page of P is there; 0: none; -errno */
static int has_pages(const struct memory *from, const struct part *p)
{
	struct page_run run;
	ssize_t n = 0;

	for (raddr_t at = p->start; at < p->end && n == 0;)
		n = pages_next(&from->pages, &at, p->end, p->wanted | PAGES_ANY, &run, 1);
	return (int)n;
}

/*
 * A clone has not what is shared (it is common to both, and the program goes on writing it), and
 * neither what was advised not to be cloned: MADV_DONTFORK leaves no mapping, MADV_WIPEONFORK no
 * page.
 */
static bool clone_has(const struct making *m, const struct maps *maps, const struct memory *origin,
		      const struct part *p)
{
	const struct map *map = maps_find(maps, p->start);

	if (!map || map->shared || map->end < p->end)
		return false;
	if (p->wanted & PAGES_NOT_FILES)
		return true;
	return has_pages(&m->from, p) || !has_pages(origin, p);
}

int capture_copy_uncloned(struct capture *c, pid_t pid)
{
	struct making *m = capture_making(c);
	struct memory origin = { .mem = -1 };
	struct maps maps;
	int err = maps_read(&maps, m->from.pid);

	if (err)
		return err;
	err = memory_open(&origin, pid, true);
	for (size_t i = 0; i < m->parts && !err; i++)
		if (!clone_has(m, &maps, &origin, &m->part[i]))
			err = copy_part(m, &m->part[i], &origin);
	memory_close(&origin);
	maps_release(&maps);
	return err;
}

/* ---- rounds -------------------------------------------------------------- */

static int add_untracked(struct making *m, const struct part *p)
{
	int err =
		array_room(&m->untracked, m->nuntracked, &m->untracked_room, sizeof(*m->untracked));

	if (!err)
		m->untracked[m->nuntracked++] =
			(struct page_run){ .start = p->start, .end = p->end };
	return err;
}

/* 0: P can be protected; 1: it cannot. What others write in shared memory is not seen here. */
static int track(const struct part *p, struct protect *protect)
{
	int err = p->shared ? -EBUSY : protect_range(protect, p->start, p->end);

	return err == -ENOMEM || err == -ESRCH ? err : err != 0;
}

/*
 * Those of the N runs that are not a file's own are copied: of few pages this is asked, as it takes
 * long.
 */
static int copy_runs(struct making *m, const struct part *p, const struct page_run *run, size_t n,
		     bool fresh)
{
	struct page_run own[RUNS];
	int err = 0;

	if (!(p->wanted & PAGES_NOT_FILES))
		return copy_take(m->copy, &m->from, run, n, fresh);
	for (size_t i = 0; i < n && !err; i++)
		for (raddr_t at = run[i].start; at < run[i].end && !err;) {
			ssize_t owns =
				pages_next(&m->from.pages, &at, run[i].end, p->wanted, own, RUNS);

			err = owns < 0 ? (int)owns
				       : copy_take(m->copy, &m->from, own, (size_t)owns, fresh);
		}
	return err;
}

/*
 * What was written of P since the last round, or (WHAT 0) all that is there. 1: its mapping was
 * changed meanwhile, or has gone, and what was found before is not known.
 */
static int round_of(struct making *m, const struct part *p, unsigned what, uint64_t *bytes)
{
	struct page_run run[RUNS];
	raddr_t at = p->start;
	int err = 0;

	while (at < p->end && !err) {
		ssize_t n = pages_next(&m->from.pages, &at, p->end, what, run, RUNS);

		if (n == -EPERM)
			return 1;
		err = n < 0 ? (int)n : copy_runs(m, p, run, (size_t)n, what && m->rounds);
		*bytes += bytes_of(run, n);
		if (!err && is_interrupted(m))
			err = -EINTR;
	}
	return err;
}

/*
 * Of a part that has changed all is copied, now; and at the end, unless it can be protected then.
 */
static int round_of_changed(struct making *m, const struct part *p, uint64_t *bytes)
{
	int err = add_untracked(m, p);

	return err ? err : round_of(m, p, 0, bytes);
}

/*
 * All are made ready at first: as long as one can have protected pages and its neighbour cannot,
 * the kernel does not join them.
 */
static int track_all(struct making *m, struct protect *protect)
{
	int err = 0;

	m->nuntracked = 0;
	for (size_t i = 0; i < m->parts && err >= 0; i++) {
		err = track(&m->part[i], protect);
		m->part[i].held = err == 0;
		if (err == 1)
			err = add_untracked(m, &m->part[i]);
	}
	return err;
}

int capture_round(struct capture *c, raddr_t agent, struct protect *protect, uint64_t *bytes,
		  uint64_t *untracked)
{
	struct making *m = capture_making(c);
	int err = capture_ranges(c, m->from.pid, agent);

	*bytes = *untracked = 0;
	if (!err)
		err = track_all(m, protect);
	for (size_t i = 0; i < m->parts && !err; i++) {
		if (!m->part[i].held)
			continue;
		err = round_of(m, &m->part[i], PAGES_PROTECT, bytes);
		if (err == 1)
			err = round_of_changed(m, &m->part[i], bytes);
	}
	copy_expected(m->copy);
	m->rounds++;
	for (size_t i = 0; i < m->nuntracked && !err; i++)
		err = measure(&m->from, m->untracked[i].start, m->untracked[i].end, 0, untracked);
	return err;
}

/* ---- how fast it is written ------------------------------------------------ */

#define PIECES	    16u
#define PIECE_BYTES (2u << 20)

struct piece { /* of a part */
	struct part of;
	uint64_t protected_us; /* when */
	uint64_t bytes;	       /* that are there; 0: not known */
};

struct pieces {
	struct piece piece[PIECES];
	size_t count;
	uint64_t step, there,
		next; /* one in each STEP bytes that are there, of which the next one */
};

/* Where RUN, of P, has the pieces that come next. */
static void choose(struct pieces *c, const struct part *p, const struct page_run *run)
{
	for (uint64_t size = run->end - run->start; c->count < PIECES && c->there + size > c->next;
	     c->next += c->step) {
		raddr_t start = (run->start + (c->next - c->there)) & ~(raddr_t)(PIECE_BYTES - 1),
			end = start + PIECE_BYTES;
		struct part of = { .start = start > p->start ? start : p->start,
				   .end = end < p->end ? end : p->end };

		if (!c->count || c->piece[c->count - 1].of.end <= of.start)
			c->piece[c->count++] = (struct piece){ .of = of };
	}
	c->there += run->end - run->start;
}

static int choose_all(const struct making *m, struct pieces *c)
{
	struct page_run run[RUNS];

	for (size_t i = 0; i < m->parts; i++) {
		const struct part *p = &m->part[i];

		if (!p->held || p->wanted)
			continue;
		for (raddr_t at = p->start; at < p->end && c->count < PIECES;) {
			ssize_t n = pages_next(&m->from.pages, &at, p->end, 0, run, RUNS);

			if (n < 0)
				return (int)n;
			for (ssize_t k = 0; k < n; k++)
				choose(c, p, &run[k]);
		}
	}
	return 0;
}

/* As in a round; of a mapping that has changed meanwhile the next one knows all. */
static int take_piece(struct making *m, struct piece *piece)
{
	uint64_t bytes = 0;
	int err;

	piece->protected_us = clock_us();
	err = round_of(m, &piece->of, PAGES_PROTECT, &piece->bytes);
	if (err != 1)
		return err;
	piece->bytes = 0;
	return round_of(m, &piece->of, 0, &bytes);
}

/* Which share of it is written in a second, in millionths; 0, too, where that cannot be told. */
static uint64_t share_written(const struct making *m, const struct piece *piece)
{
	uint64_t written = 0, us = clock_us() - piece->protected_us;
	struct page_run run[RUNS];

	for (raddr_t at = piece->of.start; at < piece->of.end;) {
		ssize_t n =
			pages_next(&m->from.pages, &at, piece->of.end, PAGES_TRACKED, run, RUNS);

		if (n < 0)
			return 0;
		for (ssize_t i = 0; i < n; i++)
			written += run[i].is & PAGEMAP_WRITTEN ? run[i].end - run[i].start : 0;
	}
	return piece->bytes && us ? written * 1000000 / piece->bytes * 1000000 / us : 0;
}

static int by_number(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

int capture_probe(struct capture *c, raddr_t agent, struct protect *protect, uint64_t bytes,
		  uint64_t *written)
{
	struct making *m = capture_making(c);
	struct pieces p = { .step = bytes / PIECES + 1, .next = bytes / PIECES / 2 };
	uint64_t share[PIECES];
	int err = capture_ranges(c, m->from.pid, agent);

	if (!err)
		err = track_all(m, protect);
	if (!err)
		err = choose_all(m, &p);
	for (size_t i = 0; i < p.count && !err; i++)
		err = take_piece(m, &p.piece[i]);
	for (size_t i = 0; i < p.count; i++)
		share[i] = share_written(m, &p.piece[i]);
	qsort(share, p.count, sizeof(*share), by_number);
	*written = p.count ? bytes / 1000000 * share[p.count / 2] : 0;
	return err;
}

/* ---- the last round -------------------------------------------------------- */

static bool is_untracked(const struct making *m, const struct part *p)
{
	for (size_t i = 0; i < m->nuntracked; i++)
		if (m->untracked[i].start < p->end && p->start < m->untracked[i].end)
			return true;
	return false;
}

/* ALL: whether they were written since is not known; else 1: that is the case. */
static int last_of(struct making *m, const struct part *p, bool all)
{
	struct page_run run[RUNS];
	raddr_t at = p->start;
	int err = 0;

	while (at < p->end && !err) {
		ssize_t n =
			pages_next(&m->from.pages, &at, p->end, all ? 0 : PAGES_TRACKED, run, RUNS);
		size_t written = 0;

		if (n < 0)
			return n == -EPERM ? 1 : (int)n;
		for (ssize_t i = 0; i < n && !err; i++) {
			err = array_room(&m->run, m->runs, &m->run_room, sizeof(*m->run));
			if (err)
				break;
			m->run[m->runs++] = run[i];
			if (all || run[i].is & PAGEMAP_WRITTEN)
				run[written++] = run[i];
		}
		if (!err)
			err = copy_runs(m, p, run, written, !all);
	}
	return err;
}

int capture_last_round(struct capture *c)
{
	struct making *m = capture_making(c);
	int err = 0;

	m->runs = 0;
	for (size_t i = 0; i < m->parts && !err; i++) {
		size_t runs = m->runs;

		err = is_untracked(m, &m->part[i]) ? 1 : last_of(m, &m->part[i], false);
		if (err != 1)
			continue;
		m->runs = runs;
		err = last_of(m, &m->part[i], true);
	}
	return err;
}

void capture_end_rounds(struct capture *c)
{
	struct making *m = capture_making(c);

	copy_keep(m->copy, 0, UINT64_MAX, m->run, m->runs);
	free(m->run);
	m->run = NULL;
	m->runs = m->run_room = 0;
	memory_close(&m->from);
	c->copied = true;
	c->bytes = copy_bytes(m->copy);
}

void capture_leave(struct capture *c, struct protect *protect)
{
	protect_leave(protect, &capture_making(c)->from.pages);
}
