/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "shell/common/usage.h"

#include <stdlib.h>
#include <string.h>

#include "base/proc.h"
#include "base/vmas.h"
#include "symbols/elf.h"

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
#define MAPPED_US     60000u	 /* for the list */
#define RESIDENT_US   45000u	 /* for each of the two sums of pages */

enum why { UNEXPLAINED, BY_CONTROL_BLOCK, BY_BLOCKS };

struct spans {
	struct vmas vmas;
	uint8_t *explained; /* one for each mapping: enum why */
	size_t at;	    /* the one found last */
	struct residence residence;
	uint64_t resident;
};

static int each_page(void *ctx, raddr_t page)
{
	struct spans *s = ctx;

	s->at = vmas_from(&s->vmas, page, s->at);
	if (s->at < s->vmas.count && s->vmas.vma[s->at].start <= page)
		s->explained[s->at] = BY_BLOCKS;
	return 0;
}

/* What was mapped at once may be several mappings by now. */
static int each_mapping(void *ctx, const struct ledger_block *b)
{
	raddr_t end = b->size <= UINT64_MAX - b->address ? b->address + b->size : UINT64_MAX;
	struct spans *s = ctx;

	s->resident += residence_of(&s->residence, b->address, end, true);
	for (s->at = vmas_from(&s->vmas, b->address, s->at);
	     s->at < s->vmas.count && s->vmas.vma[s->at].start < end; s->at++)
		s->explained[s->at] = BY_BLOCKS;
	return 0;
}

static bool ours(const struct process *p, const struct vma *v)
{
	if (p->agent && v->start >= p->agent && v->end <= p->agent + AGENT_SPAN &&
	    (v->file || v->start < p->agent + AGENT_BEACON))
		return true;
	for (size_t i = 0; i < p->plant.nislands; i++)
		if (v->start >= p->plant.island[i].start && v->start < p->plant.island[i].end)
			return true;
	return false;
}

static void threads(struct spans *s, const struct process *p)
{
	for (uint32_t i = 0, high = p->wire ? shared_slots_mapped(&p->shared) : 0; i < high; i++) {
		uint64_t fs = __atomic_load_n(&p->wire->thread[i].fs, __ATOMIC_RELAXED);

		if (fs <= 1)
			continue;
		s->at = vmas_from(&s->vmas, fs, s->at);
		if (s->at < s->vmas.count && s->vmas.vma[s->at].start <= fs && !s->explained[s->at])
			s->explained[s->at] = BY_CONTROL_BLOCK;
	}
}

static bool is_guard(const struct vma *v) { return !v->access && !v->named; }

/* Where the data of the module that V lies behind ends; 0: it is none's. */
static raddr_t tail_end(const struct process *p, const struct vma *v)
{
	for (size_t i = 0; i < p->modules.count; i++) {
		const struct module *m = p->modules.module[i];
		const struct elf_segment *segment;
		raddr_t end = 0;
		size_t n;

		if (m->dead != UINT32_MAX || m->start > v->start || !m->elf)
			continue;
		n = elf_segments(m->elf, &segment);
		for (size_t k = 0; k < n; k++)
			if (segment[k].type == 1 /* PT_LOAD */ &&
			    m->bias + segment[k].vaddr + segment[k].memsz > end)
				end = m->bias + segment[k].vaddr + segment[k].memsz;
		if (end > v->start)
			return (end + 4095) & ~4095ull;
	}
	return 0;
}

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* How much of a mapping is explained: by what is in it, its name, its neighbours. */
static uint64_t explained_bytes(const struct spans *s, const struct process *p, size_t i)
{
	const struct vma *v = &s->vmas.vma[i];
	/* a thread's stack (in use or kept for the next one) behind its guard */
	bool guarded = (i && v[-1].end == v->start && is_guard(&v[-1])) ||
		       (i + 1 < s->vmas.count && v[1].start == v->end &&
			is_guard(&v[1])); /* an arena that can grow */
	uint64_t size = v->end - v->start,
		 bytes = s->explained[i] == BY_CONTROL_BLOCK ? least(size, CONTROL_BLOCK) : 0;
	raddr_t end;

	if (v->named || guarded || s->explained[i] == BY_BLOCKS)
		return size;
	if (i && v[-1].end == v->start && v[-1].file) { /* .bss behind a file's data */
		end = tail_end(p, v);
		bytes += end ? end - v->start : FILE_TAIL;
	}
	return least(bytes, size);
}

static int64_t process_rss(const struct process *p)
{
	int64_t kb = p->state == PROCESS_EXITED || p->state == PROCESS_REPLACED
			     ? -1
			     : proc_status_field(p->via, "VmRSS");

	return kb < 0 ? -1 : kb * 1024;
}

/* Bytes of what is ours in its memory. */
static uint64_t own_resident(const struct process *p, const struct vmas *vmas)
{
	struct residence r;
	uint64_t bytes = 0;

	residence_begin(&r, p->via, RESIDENT_US);
	for (size_t i = 0; i < vmas->count; i++)
		if (ours(p, &vmas->vma[i]))
			bytes += residence_of(&r, vmas->vma[i].start, vmas->vma[i].end, false);
	residence_end(&r);
	return bytes;
}

static int64_t less(int64_t rss, uint64_t own)
{
	return (uint64_t)rss > own ? rss - (int64_t)own : 0;
}

int64_t usage_rss(const struct process *p)
{
	int64_t rss = process_rss(p);
	struct vmas vmas;

	if (rss < 0 || vmas_read(&vmas, p->via, MAPPED_US))
		return rss;
	rss = less(rss, own_resident(p, &vmas));
	vmas_release(&vmas);
	return rss;
}

/* Which mappings the ledger explains, and how much of the program's own is in memory. */
static void explain(struct usage *u, struct spans *s, const struct process *p)
{
	s->at = s->vmas.count;
	residence_begin(&s->residence, p->via, RESIDENT_US);
	ledger_each_page(p->ledger, each_page, s);
	ledger_each_mapping(p->ledger, each_mapping, s);
	threads(s, p);
	u->resident_known = !s->residence.late && s->residence.fd >= 0;
	u->mmap_resident = s->resident;
	residence_end(&s->residence);
}

void usage_read(struct usage *u, const struct process *p, const struct ledger_totals *totals)
{
	uint64_t known = totals->heap + totals->mmap + p->image_bytes;
	struct spans s = { 0 };

	*u = (struct usage){ .rss = process_rss(p) };
	if (u->rss < 0 || vmas_read(&s.vmas, p->via, MAPPED_US))
		return;
	s.explained = calloc(s.vmas.count + 1, 1);
	if (s.explained) {
		explain(u, &s, p);
		u->mapped_known = true;
		u->mappings = s.vmas.count;
	}
	u->rss = less(u->rss, own_resident(p, &s.vmas));
	for (size_t i = 0; i < s.vmas.count && u->mapped_known; i++) {
		const struct vma *v = &s.vmas.vma[i];

		if (ours(p, v) || !v->access)
			continue;
		u->mapped += v->end - v->start;
		u->unaccounted += v->end - v->start - explained_bytes(&s, p, i);
	}
	if (u->unaccounted > u->mapped - (u->mapped < known ? u->mapped : known))
		u->unaccounted = u->mapped - (u->mapped < known ? u->mapped : known);
	/* What was mapped or freed between the two looks makes no negative number. */
	u->other = u->mapped > known + u->unaccounted ? u->mapped - known - u->unaccounted : 0;
	u->mapped = known + u->other + u->unaccounted;
	free(s.explained);
	vmas_release(&s.vmas);
}
