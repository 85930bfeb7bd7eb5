// SPDX-License-Identifier: GPL-3.0-or-later
#include "memory/leftovers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/proc.h"
#include "base/search.h"
#include "blocks/page_set.h"
#include "memory/capture_state.h"
#include "process/errors.h"
#include "process/process.h"
#include "process/usable_rule.h"

/*
 * leftovers.c - three kinds of memory that was given back.
 *
 * Stacks of threads that have ended. glibc keeps some for the next ones; of what was on such a stack
 * it gives the pages back that lie well below the stack pointer. The thread's descriptor and its
 * thread-local variables are at the stack's end:
 *
 *	| guard | ........ | 16 KB and more |  sp ... frames ... | TLS | descriptor |
 *	                                                              ^ fs
 *
 * That one is still there says the descriptor, which begins with its own address, twice. No thread
 * that lives has it. What the thread has returned is in there until somebody joins it; then its
 * number is -1.
 *
 * Free memory of glibc's heaps: the break from its first chunk on, and the heaps of other arenas,
 * which begin where their greatest size divides the address and say which arena they are of. If all
 * blocks are known, what lies between them is free, or glibc's own. A realloc(3) that is under way
 * has taken its block out of the ledger while it may be copied: then all of this stays as it is, as
 * it does where the program moves the break itself. The main arena's own figures are in libc's
 * data; they point to free chunks, each of which begins within the rounding of the block before it.
 *
 * Free memory of other allocators: what of a page that a block has ever been in (ledger_lain) is
 * in no block now. Not where a thread has its stack, or the program a mapping of its own. musl gives
 * away the rest of the last page of a module's data, too. An executable that brings its allocator
 * along may have other ways to it, and is left out.
 *
 * jemalloc's tables have a pointer to each run of its pages, and so to the block that begins it. It
 * maps huge page by huge page, for tables and blocks alike: of a mapping in which blocks have been,
 * all whole huge pages are its own. Its thread-local variables say of which GB it was last asked, by
 * the address where that begins: it is no pointer to the block that begins there.
 */

/* ---- ranges ---------------------------------------------------------------- */

struct span {
	raddr_t start, end;
};

/* What holds no roots, in any order. */
struct spans {
	struct span *span;
	size_t count, room;
};

static int rootless(struct spans *v, raddr_t start, raddr_t end)
{
	if (start >= end)
		return 0;
	if (array_room(&v->span, v->count, &v->room, sizeof(*v->span)))
		return -ENOMEM;
	v->span[v->count++] = (struct span){ start, end };
	return 0;
}

static int by_start(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* A copy of RANGE but for its ends, if these make one. */
static int add(struct making *to, size_t *room, const struct capture_range *range, raddr_t start,
	       raddr_t end, bool roots)
{
	if (start >= end)
		return 0;
	if (array_room(&to->range, to->c.ranges, room, sizeof(*to->range)))
		return -ENOMEM;
	to->range[to->c.ranges] = *range;
	to->range[to->c.ranges].start = start;
	to->range[to->c.ranges].end = end;
	to->range[to->c.ranges++].roots = roots;
	return 0;
}

/* RANGE, cut where the spans from *AT on, which are sorted, begin and end. */
static int cut(struct making *to, size_t *room, const struct capture_range *range,
	       const struct spans *v, size_t *at)
{
	raddr_t from = range->start;
	int err = 0;

	while (*at < v->count && v->span[*at].start < range->end && !err) {
		raddr_t start = v->span[*at].start, end = v->span[*at].end;

		start = start > from ? start : from;
		end = end < range->end ? end : range->end;
		if (start < end) {
			err = add(to, room, range, from, start, true);
			if (!err)
				err = add(to, room, range, start, end, false);
			from = end;
		}
		if (v->span[*at].end > range->end) /* it goes on in the next one */
			break;
		++*at;
	}
	return err ? err : add(to, room, range, from, range->end, true);
}

static int unroot(struct capture *c, struct spans *v)
{
	struct making *m = capture_making(c), to = { 0 };
	size_t room = 0, at = 0;
	int err = 0;

	if (v->count)
		qsort(v->span, v->count, sizeof(*v->span), by_start);
	for (size_t i = 0; i < c->ranges && !err; i++)
		err = cut(&to, &room, &c->range[i], v, &at);
	if (err) {
		free(to.range);
		return err;
	}
	free(m->range);
	c->range = m->range = to.range;
	c->ranges = to.c.ranges;
	return 0;
}

static bool read_words(const struct capture *c, raddr_t at, uint64_t *word, size_t n)
{
	return capture_read(c, at, word, n * sizeof(*word)) == n * sizeof(*word);
}

/* ---- stacks ---------------------------------------------------------------- */

#define DESCRIPTOR 0x900u /* bytes of glibc's struct pthread */
#define TID	   0x2d0u /* where the thread's number is in it */
#define NOBODY	   0xffffffffu
/* below the stack pointer of a thread that ends, what glibc does not give back, and some more */
#define BELOW ((raddr_t)24 << 10)

static bool is_descriptor(const struct capture *c, raddr_t fs)
{
	uint64_t word[3];

	return read_words(c, fs, word, 3) && word[0] == fs && word[2] == fs;
}

/* glibc's descriptors have TID where we look for it. */
static bool is_known_layout(const struct capture *c)
{
	for (size_t i = 0; i < c->threads; i++) {
		raddr_t fs = c->thread[i].general.fs_base;
		uint32_t tid;

		if (is_descriptor(c, fs) &&
		    capture_read(c, fs + TID, &tid, sizeof(tid)) == sizeof(tid))
			return tid == (uint32_t)c->thread[i].tid ||
			       tid == (uint32_t)proc_own_tid(c->thread[i].tid);
	}
	return false;
}

/* A thread that lives has its stack, or its thread pointer, in [START, END). */
static bool is_in_use(const struct capture *c, raddr_t start, raddr_t end)
{
	for (size_t i = 0; i < c->threads; i++) {
		raddr_t sp = c->thread[i].general.rsp, fs = c->thread[i].general.fs_base;

		if ((sp >= start && sp < end) || (fs >= start && fs < end))
			return true;
	}
	return false;
}

static int find_stack(struct spans *v, const struct capture *c, const struct thread_end *e)
{
	const struct capture_range *r = capture_range_at(c, e->fs);
	raddr_t start, end = e->fs;
	uint32_t tid;

	if (!r || e->sp < r->start || e->sp >= e->fs || !is_descriptor(c, e->fs))
		return 0;
	start = page_down(e->sp);
	start = start - r->start > BELOW ? start - BELOW : r->start;
	if (capture_read(c, e->fs + TID, &tid, sizeof(tid)) == sizeof(tid) && tid == NOBODY)
		end = page_up(e->fs + DESCRIPTOR);
	if (end > r->end || is_in_use(c, start, page_up(e->fs + DESCRIPTOR)))
		return 0;
	return rootless(v, start, end);
}

static int find_stacks(struct spans *v, const struct capture *c, const struct thread_ends *ends)
{
	int err = 0;

	if (!ends->count || !is_known_layout(c))
		return 0;
	for (size_t i = 0; i < ends->count && !err; i++)
		err = find_stack(v, c, &ends->end[i]);
	return err;
}

/* ---- heaps ----------------------------------------------------------------- */

#define HEAP ((raddr_t)64 << 20) /* an arena's heap is aligned to this, and not larger */

/* glibc's heap_info, at the beginning of each: of a thread's arena, up to *END. */
static bool is_arena(const struct capture *c, const struct capture_range *r, raddr_t *end)
{
	uint64_t heap[3], first[1]; /* the arena, the heap before, bytes */

	if (r->kind != CAPTURE_ANONYMOUS || r->start % HEAP || !read_words(c, r->start, heap, 3))
		return false;
	if (!heap[0] || heap[2] % PAGE || heap[2] > HEAP || heap[2] > r->end - r->start ||
	    !read_words(c, heap[0] & ~(HEAP - 1), first, 1) || first[0] != heap[0])
		return false;
	*end = r->start + heap[2];
	return true;
}

static bool is_mapped_by_program(const struct making *m, raddr_t start, raddr_t end)
{
	size_t at = SEARCH(i, m->owns, m->own[i].end <= start); /* they are in order */

	return at < m->owns && m->own[at].start < end;
}

/* Nothing of the program's is in [START, END) beside blocks. */
static int find_heap(struct spans *v, const struct capture *c, raddr_t start, raddr_t end)
{
	return is_mapped_by_program(capture_made(c), start, end) ? 0 : rootless(v, start, end);
}

static int find_heaps(struct spans *v, const struct capture *c, const struct glibc_malloc *g)
{
	int err = rootless(v, g->state, g->state + g->state_bytes);

	for (size_t i = 0; i < c->ranges && !err; i++) {
		const struct capture_range *r = &c->range[i];
		raddr_t end = r->end;

		if (r->kind == CAPTURE_HEAP && g->first >= r->start && g->first < end)
			err = find_heap(v, c, g->first, end);
		else if (is_arena(c, r, &end))
			err = find_heap(v, c, r->start, end);
	}
	return err;
}

/* ---- other allocators ------------------------------------------------------ */

struct others {
	const struct capture *c;
	const struct modules *modules;
	struct page_set lain;
	bool *has_stack; /* of each range: a thread has, or had, its stack there */
};

/* JEMALLOC: it is no other one. */
static bool has_other_allocator(const struct process *p, bool *jemalloc)
{
	unsigned libraries = 0, jemallocs = 0;

	for (size_t i = 0; i < p->modules.count; i++) {
		const struct module *m = p->modules.module[i];

		if (!(m->roles & MODULE_ALLOCATOR))
			continue;
		if (m->roles & MODULE_EXE)
			return false;
		libraries++;
		jemallocs += usable_is_jemalloc(m);
	}
	*jemalloc = libraries && jemallocs == libraries;
	return (libraries || !p->glibc_malloc.state) && errors_hooks_see_all(p);
}

static void note_stack(struct others *o, raddr_t at)
{
	size_t i = SEARCH(k, o->c->ranges, o->c->range[k].end <= at);

	if (i < o->c->ranges && o->c->range[i].start <= at)
		o->has_stack[i] = true;
}

static void note_stacks(struct others *o, const struct thread_ends *ends)
{
	for (size_t i = 0; i < o->c->threads; i++) {
		note_stack(o, o->c->thread[i].general.rsp);
		note_stack(o, o->c->thread[i].general.fs_base);
	}
	for (size_t i = 0; i < ends->count; i++) {
		note_stack(o, ends->end[i].sp);
		note_stack(o, ends->end[i].fs);
	}
}

/* [START, END), in which blocks have been, is of a module's data. */
static int find_rest(struct spans *v, const struct modules *modules, raddr_t start, raddr_t end)
{
	const struct module *m = modules_find_data(modules, start);
	raddr_t behind = m ? module_memory_end(m) : 0;

	return behind > start && behind < end ? rootless(v, behind, page_up(behind)) : 0;
}

/* Of [START, END), in which blocks have been. */
static int find_lain(struct spans *v, const struct others *o, raddr_t start, raddr_t end)
{
	const struct capture *c = o->c;
	int err = 0;

	for (size_t i = SEARCH(k, c->ranges, c->range[k].end <= start);
	     i < c->ranges && c->range[i].start < end && !err; i++) {
		const struct capture_range *r = &c->range[i];
		raddr_t from = r->start > start ? r->start : start,
			to = r->end < end ? r->end : end;

		if (r->kind == CAPTURE_DATA)
			err = find_rest(v, o->modules, from, to);
		else if ((r->kind == CAPTURE_ANONYMOUS || r->kind == CAPTURE_HEAP) &&
			 !o->has_stack[i])
			err = find_heap(v, c, from, to);
	}
	return err;
}

#define HUGE_PAGE ((raddr_t)2 << 20)

/* The whole huge pages of jemalloc's mapping R. */
static int find_huge(struct spans *v, const struct capture *c, const struct capture_range *r)
{
	raddr_t start = (r->start + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1), at = start;
	int err = 0;

	for (; at < r->end && r->end - at >= HUGE_PAGE && !err; at += HUGE_PAGE)
		if (is_mapped_by_program(capture_made(c), at, at + HUGE_PAGE)) {
			err = rootless(v, start, at);
			start = at + HUGE_PAGE;
		}
	return err ? err : rootless(v, start, at);
}

static int find_variables(struct spans *v, const struct capture *c, const struct static_tls *tls)
{
	int err = 0;

	for (size_t i = 0; i < c->threads && !err; i++) {
		raddr_t start = c->thread[i].general.fs_base - tls->below;

		err = rootless(v, start, start + tls->bytes);
	}
	return err;
}

static int find_jemalloc(struct spans *v, const struct others *o, const struct static_tls *tls)
{
	int err = find_variables(v, o->c, tls);

	for (size_t i = 0; i < o->c->ranges && !err; i++) {
		const struct capture_range *r = &o->c->range[i];

		if (r->kind == CAPTURE_ANONYMOUS && !o->has_stack[i] &&
		    page_set_count(&o->lain, r->start, r->end))
			err = find_huge(v, o->c, r);
	}
	return err;
}

static int find_others(struct spans *v, const struct capture *c, const struct process *p)
{
	struct others o = { .c = c, .modules = &p->modules };
	raddr_t start, end;
	uint64_t at = 0;
	bool jemalloc;
	int err;

	if (!has_other_allocator(p, &jemalloc))
		return 0;
	err = ledger_lain(p->ledger, &o.lain);
	o.has_stack = calloc(c->ranges + 1, sizeof(*o.has_stack));
	if (!err && !o.has_stack)
		err = -ENOMEM;
	if (!err && !o.lain.full) {
		note_stacks(&o, &p->ends);
		while (!err && page_set_run(&o.lain, &at, &start, &end))
			err = find_lain(v, &o, start, end);
		if (!err && jemalloc)
			err = find_jemalloc(v, &o, &p->jemalloc_tls);
	}
	page_set_release(&o.lain);
	free(o.has_stack);
	return err;
}

int leftovers_mark(struct capture *c, const struct process *p, bool all_known)
{
	struct spans v = { 0 };
	int err = find_stacks(&v, c, &p->ends);

	if (!err && all_known && p->glibc_malloc.state && !capture_made(c)->leavings)
		err = find_heaps(&v, c, &p->glibc_malloc);
	if (!err && all_known && !capture_made(c)->leavings)
		err = find_others(&v, c, p);
	if (!err)
		err = unroot(c, &v);
	free(v.span);
	return err;
}
