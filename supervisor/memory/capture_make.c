// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * capture_make.c - filling a capture: its ranges, out of the process' mappings; the pages in them,
 * copied or to be read where they are; the ledger's blocks.
 */
#include "memory/capture_make.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/proc.h"
#include "ledger/block_list.h"
#include "memory/capture_state.h"
#include "process/process.h"
#include "tracee/agent.h"

/* ---- ranges -------------------------------------------------------------- */

/* Of a driver: what reading it would do nobody knows. */
static bool is_device(const struct map *m)
{
	return !strncmp(m->path, "/dev/", 5) && strncmp(m->path, "/dev/shm/", 9) &&
	       strcmp(m->path, "/dev/zero");
}

static bool is_named(const struct map *m) { return *m->path && strncmp(m->path, "[anon", 5); }

static bool is_wanted(const struct process *p, const struct map *m)
{
	if (!m->read || is_device(m) || agent_owns(p, m))
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
	m->from.mem = m->pages.fd = -1;
	m->interrupted = interrupted;
	m->ctx = ctx;
	return &m->c;
}

static void leave(struct making *m)
{
	if (m->from.mem >= 0)
		close(m->from.mem);
	m->from.mem = -1;
	pages_close(&m->pages);
}

void capture_clear(struct capture *c)
{
	struct making *m = capture_making(c);

	for (size_t i = 0; i < c->threads; i++)
		free((void *)(uintptr_t)m->thread[i].vector);
	maps_release(&m->maps);
	free(m->range);
	free(m->thread);
	free(m->own);
	free(m->block);
	free(m->weight);
	copy_free(m->copy);
	leave(m);
	*m = (struct making){ .c = { .way = c->way, .pause_ns = c->pause_ns },
			      .from = { .mem = -1 },
			      .pages = { .fd = -1 },
			      .interrupted = m->interrupted,
			      .ctx = m->ctx };
}

void capture_free(struct capture *c)
{
	if (!c)
		return;
	capture_clear(c);
	free(capture_making(c));
}

int capture_ranges(struct capture *c, const struct process *p)
{
	struct making *m = capture_making(c);
	struct capture_range *range;
	struct maps maps;
	size_t n = 0;
	int err = maps_read(&maps, p->via);

	if (err)
		return err;
	range = calloc(maps.count + 1, sizeof(*range));
	if (!range) {
		maps_release(&maps);
		return -ENOMEM;
	}
	for (size_t i = 0; i < maps.count; i++) {
		const struct map *map = &maps.map[i], *before = i ? map - 1 : NULL;

		if (is_wanted(p, map))
			range[n++] = (struct capture_range){ .start = map->start,
							     .end = map->end,
							     .kind = kind_of(map, before),
							     .write = map->write,
							     .roots = true,
							     .name = is_bss(map, before)
									     ? before->path
									     : map->path };
	}
	free(m->range);
	maps_release(&m->maps);
	m->maps = maps;
	c->range = m->range = range;
	c->ranges = n;
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

static int add_own(struct making *m, const struct ledger_block *b)
{
	if (array_room(&m->own, m->owns, &m->own_room, sizeof(*m->own)))
		return -ENOMEM;
	m->own[m->owns++] = (struct own_mapping){ b->address, b->address + b->size };
	return 0;
}

int capture_blocks(struct capture *c, struct ledger *l, uint64_t ms)
{
	struct making *m = capture_making(c);
	struct ledger_totals totals;
	struct block_list list;
	int err = 0;

	if (block_list_now(l, &list))
		return -ENOMEM;
	ledger_totals(l, &totals);
	m->moving = ledger_is_moving(l);
	m->block = calloc(list.count + 1, sizeof(*m->block));
	m->weight = totals.estimated ? calloc(list.count + 1, sizeof(*m->weight)) : NULL;
	if (!m->block || (totals.estimated && !m->weight)) {
		block_list_release(&list);
		return -ENOMEM;
	}
	c->blocks = 0;
	for (size_t i = 0; i < list.count && !err; i++) {
		struct ledger_block b = block_list_get(&list, i);

		if (b.mapping) {
			err = add_own(m, &b);
			continue;
		}
		if (m->weight)
			m->weight[c->blocks] = (struct capture_weight){ b.bytes, b.count };
		m->block[c->blocks++] = (struct capture_block){ .address = b.address,
								.size = b.size,
								.stack = b.stack,
								.tick = (uint32_t)(b.ms / 10) };
	}
	block_list_release(&list);
	c->block = m->block;
	c->weight = m->weight;
	c->ms = ms;
	c->tick = (uint32_t)(ms / 10);
	return err;
}

/* ---- contents ------------------------------------------------------------ */

int capture_read_there(struct capture *c, pid_t pid)
{
	struct making *m = capture_making(c);
	int err;

	copy_free(m->copy);
	m->copy = NULL;
	leave(m);
	err = pages_open(&m->pages, pid);
	if (err)
		return err;
	m->from = (struct memory){ .pid = pid, .mem = proc_open(pid, "mem", O_RDONLY) };
	return m->from.mem < 0 ? m->from.mem : 0;
}

#define RUNS 512

/* FN has the runs of R, some at a time, until it fails. */
static int each_runs(struct making *m, const struct capture_range *r,
		     int (*fn)(struct making *m, const struct page_run *run, size_t n, void *ctx),
		     void *ctx)
{
	struct page_run run[RUNS];
	raddr_t at = r->start;
	int err = 0;

	while (at < r->end && !err) {
		ssize_t n = pages_next(&m->pages, &at, r->end, capture_pages_wanted(r), run, RUNS);

		err = n < 0 ? (int)n : fn(m, run, (size_t)n, ctx);
		if (!err && m->interrupted && m->interrupted(m->ctx))
			err = -EINTR;
	}
	return err;
}

static int copy(struct making *m, const struct page_run *run, size_t n, void *ctx)
{
	(void)ctx;
	return copy_take(m->copy, &m->from, run, n, false);
}

int capture_copy(struct capture *c, pid_t pid, uint64_t most)
{
	struct making *m = capture_making(c);
	int err = capture_read_there(c, pid);

	m->copy = err ? NULL : copy_new(most);
	if (!err && !m->copy)
		err = -ENOMEM;
	m->from.pages = &m->pages;
	for (size_t i = 0; i < c->ranges && !err; i++)
		err = each_runs(m, &c->range[i], copy, NULL);
	leave(m);
	if (!err) {
		c->copied = true;
		c->bytes = copy_bytes(m->copy);
	}
	return err;
}
