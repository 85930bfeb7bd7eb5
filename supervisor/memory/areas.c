// SPDX-License-Identifier: GPL-3.0-or-later
#include "memory/areas.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/maps.h"
#include "base/search.h"
#include "base/text.h"
#include "blocks/page_set.h"
#include "process/process.h"
#include "tracee/agent.h"

/*
 * Most mappings say by their name, or by whether they are shared, what they are. Of the anonymous
 * ones the ledger knows the program's own, which are cut out page by page: the kernel makes one
 * mapping of neighbours. What is left is  - the end of a module's data (.bss), directly behind it;
 * - a thread's stack, if a thread's control block or stack pointer is in it (glibc and musl put the
 *    former at a stack's upper end), or if it lies above a guard and no block has ever been in it:
 *    one that is kept for the next thread;
 *  - else an allocator's. The slots' `fs` is the target's word: all that a wrong one does is to
 * call memory a stack.
 */
#define GUARD_MOST (1u << 20) /* bytes of a stack's guard */
/* glibc's arenas begin at such addresses, behind what is reserved for the one below */
#define ARENA_ALIGNED ((64u << 20) - 1)
#define HUGE_ALIGNED  ((2u << 20) - 1)

struct making {
	struct areas *areas;
	const struct process *p;
	const struct maps *maps;
	int maps_fd;
	const struct page_set *lain;
	raddr_t *stack; /* addresses in threads' stacks, ascending */
	size_t stacks;
	struct own { /* the program's mappings, ascending */
		raddr_t start, end;
	} * own;
	size_t owns, room, at; /* at: the first that may matter still */
	int err;
};

static void add(struct making *m, raddr_t start, raddr_t end, enum area_kind kind, bool shared)
{
	struct areas *a = m->areas;

	if (start >= end || m->err)
		return;
	m->err = array_room(&a->area, a->count, &a->room, sizeof(*a->area));
	if (!m->err)
		a->area[a->count++] = (struct area){ start, end, kind, shared };
}

/* ---- names --------------------------------------------------------------- */

/* The kernel's own: pages without memory of the process. */
static bool is_special(const struct map *m) { return text_begins(m->path, "[vvar"); }

/* Its pages are not in RSS, and of another size. */
static bool is_hugetlb(const struct making *making, const struct map *m)
{
	if (!m->inode || m->start & HUGE_ALIGNED || m->end & HUGE_ALIGNED)
		return false;
	return map_page_size(making->maps_fd, m->start) > PAGE ||
	       text_begins(m->path, "/anon_hugepage");
}

static bool is_mtruns(const struct process *p, const struct map *m)
{
	if (agent_owns(p->agent, m))
		return true;
	for (size_t i = 0; i < p->plant.nislands; i++)
		if (m->start >= p->plant.island[i].start && m->start < p->plant.island[i].end)
			return true;
	return false;
}

/* ---- modules ------------------------------------------------------------- */

static enum area_kind kind_of(const struct module *m)
{
	return m->roles & MODULE_EXE ? AREA_IMAGE : AREA_FILE;
}

static enum area_kind kind_of_file(const struct making *m, const struct map *map)
{
	const struct module *module = modules_find(&m->p->modules, map->start, UINT32_MAX);

	if (module)
		return kind_of(module);
	return m->p->exe && !strcmp(map->path, m->p->exe) ? AREA_IMAGE : AREA_FILE;
}

/* ---- anonymous ----------------------------------------------------------- */

static int add_own(void *ctx, const struct ledger_block *b)
{
	struct making *m = ctx;
	raddr_t end = b->address + b->size;

	if (end < b->address)
		return 0;
	m->err = array_room(&m->own, m->owns, &m->room, sizeof(*m->own));
	if (!m->err)
		m->own[m->owns++] = (struct own){ b->address, end };
	return m->err;
}

/* [START, END) is of KIND, but for what the program has mapped by itself. */
static void cut(struct making *m, raddr_t start, raddr_t end, enum area_kind kind)
{
	while (m->at < m->owns && m->own[m->at].end <= start)
		m->at++;
	for (size_t i = m->at; i < m->owns && m->own[i].start < end && start < end; i++) {
		raddr_t from = m->own[i].start > start ? m->own[i].start : start,
			to = m->own[i].end < end ? m->own[i].end : end;

		if (from >= to)
			continue;
		add(m, start, from, kind, false);
		add(m, from, to, AREA_OWN, false);
		start = to;
	}
	add(m, start, end, kind, false);
}

static int by_address(const void *pa, const void *pb)
{
	const raddr_t *a = pa, *b = pb;

	return *a < *b ? -1 : *a > *b;
}

/* The first thread's control block is where ld.so or libc have put it. */
static void gather_stacks(struct making *m, const raddr_t *rsp, size_t n)
{
	const struct process *p = m->p;
	uint32_t high = p->wire ? shared_slots_mapped(&p->shared) : 0;

	m->stack = malloc((n + high + 1) * sizeof(*m->stack));
	if (!m->stack) {
		m->err = -ENOMEM;
		return;
	}
	for (size_t i = 0; i < n; i++)
		m->stack[m->stacks++] = rsp[i];
	for (uint32_t i = 0; i < high; i++) {
		const struct wire_thread *t = &p->wire->thread[i];
		uint64_t fs = __atomic_load_n(&t->fs, __ATOMIC_RELAXED);
		uint32_t tid = __atomic_load_n(&t->tid, __ATOMIC_RELAXED);

		if (fs > 1 && tid != (uint32_t)p->pid)
			m->stack[m->stacks++] = fs;
	}
	qsort(m->stack, m->stacks, sizeof(*m->stack), by_address);
}

static bool has_thread(const struct making *m, const struct map *map)
{
	size_t at = SEARCH(i, m->stacks, m->stack[i] < map->start);

	return at < m->stacks && m->stack[at] < map->end;
}

static bool is_guard(const struct map *m)
{
	return !m->read && !m->write && !m->exec && !m->shared && !m->path[0] &&
	       m->end - m->start <= GUARD_MOST;
}

static bool is_stack(const struct making *m, size_t i)
{
	const struct map *map = &m->maps->map[i];

	if (map->path[0] && !text_begins(map->path, "[anon:"))
		return false;
	if (has_thread(m, map))
		return true;
	return i && map[-1].end == map->start && is_guard(&map[-1]) && map->write &&
	       map->start & ARENA_ALIGNED && !page_set_count(m->lain, map->start, map->end);
}

static void anonymous(struct making *m, size_t i)
{
	const struct map *map = &m->maps->map[i];
	const struct module *before =
		i && map[-1].end == map->start && map[-1].path[0] == '/'
			? modules_find(&m->p->modules, map[-1].start, UINT32_MAX)
			: NULL;
	raddr_t start = map->start,
		tail = before ? (module_memory_end(before) + 4095) & ~(raddr_t)4095 : 0;

	if (tail > start) {
		tail = tail < map->end ? tail : map->end;
		add(m, start, tail, kind_of(before), false);
		start = tail;
	}
	cut(m, start, map->end, is_stack(m, i) ? AREA_STACK : AREA_BLOCKS);
}

/* ---- all ----------------------------------------------------------------- */

static void one(struct making *m, size_t i)
{
	const struct map *map = &m->maps->map[i];

	if (is_mtruns(m->p, map))
		add(m, map->start, map->end, AREA_MTRUN, false);
	else if (is_special(map) || is_hugetlb(m, map))
		return;
	else if (map->shared)
		add(m, map->start, map->end,
		    map_is_memory(map) ? AREA_SHARED : kind_of_file(m, map), true);
	else if (text_begins(map->path, "[stack"))
		add(m, map->start, map->end, AREA_STACK, false);
	else if (map->path[0] == '/' || text_begins(map->path, "[vdso"))
		add(m, map->start, map->end, kind_of_file(m, map), false);
	else
		anonymous(m, i);
}

int areas_make(struct areas *a, const struct process *p, const struct maps *maps, int maps_fd,
	       const struct page_set *lain, const raddr_t *rsp, size_t n)
{
	struct making m = { .areas = a, .p = p, .maps = maps, .maps_fd = maps_fd, .lain = lain };
	int err;

	gather_stacks(&m, rsp, n);
	err = m.err ? m.err : ledger_each_range(p->ledger, add_own, &m);
	for (size_t i = 0; i < maps->count && !err; i++) {
		one(&m, i);
		err = m.err;
	}
	free(m.stack);
	free(m.own);
	return err;
}

void areas_release(struct areas *a)
{
	free(a->area);
	*a = (struct areas){ 0 };
}
