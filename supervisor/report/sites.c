// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/sites.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/hash_index.h"
#include "inject/wire_stack.h"

/*
 * Reports ask for the site of every stack, again and again; stacks share most of their nodes. So
 * each node is resolved once, at most, and its answer kept in a table indexed by node id: 16 bytes
 * that are only touched for nodes that were asked for (the table is reserved, not committed). A
 * report over warm stacks is then one array access a stack.
 */
#define REST 256u /* stacks between two: some ten microseconds */

struct memo {
	/* where its frames are, and from bit COUNT_AT on how many; 0: not resolved yet */
	uint64_t frames;
	uint32_t site; /* 0: not known yet */
	uint32_t link; /* its parent's id, and LINK_* */
};
#define COUNT_AT     48 /* a pointer has 47 bits */
#define COUNT_MOST   0xffffu
#define LINK_PARENT  (WIRE_NODES - 1)
#define LINK_KNOWN   (1u << 29) /* the parent is, and whether it has a pc */
#define LINK_PC	     (1u << 30) /* it has a pc: it is no root */
#define LINK_SETTLED (1u << 31) /* frames are known, also of all callers */
_Static_assert(WIRE_NODES <= 1u << 29, "an id fits");

struct sites {
	struct sites_source source;
	struct memo *memo; /* [WIRE_NODES] */
	struct site *site; /* [1..count] */
	uint32_t count, allocated;
	struct hash_index numbers;
	uint32_t worked; /* since the last rest */
	bool stay_in_wrappers;
};

static const struct symbol_frame truncated_frame = { .function = "[truncated]" };
static const struct symbol_frame no_frame = { .function = "[no stack]" };

struct sites *sites_new(const struct sites_source *source)
{
	struct sites *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->source = *source;
	s->memo = mmap(NULL, WIRE_NODES * sizeof(*s->memo), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (s->memo == MAP_FAILED) {
		free(s);
		return NULL;
	}
	return s;
}

void sites_free(struct sites *s)
{
	if (!s)
		return;
	munmap(s->memo, WIRE_NODES * sizeof(*s->memo));
	hash_index_release(&s->numbers);
	free(s->site);
	free(s);
}

void sites_clear(struct sites *s)
{
	madvise(s->memo, WIRE_NODES * sizeof(*s->memo), MADV_DONTNEED);
	hash_index_clear(&s->numbers);
	s->count = 0;
}

static uint64_t pc_of(const struct sites *s, uint32_t node, uint32_t *parent)
{
	uint64_t pc = 0;

	*parent = s->source.parent(s->source.ctx, node, &pc);
	return pc;
}

/* NODE in (0, WIRE_NODES). A chain goes to ever smaller ids: whatever else is in there, it ends. */
static struct memo *known(struct sites *s, uint32_t node)
{
	struct memo *m = &s->memo[node];
	uint32_t parent;

	if (!(m->link & LINK_KNOWN)) {
		m->link = pc_of(s, node, &parent) ? LINK_KNOWN | LINK_PC : LINK_KNOWN;
		if (parent < node)
			m->link |= parent;
	}
	return m;
}

static struct symbol_frames frames_of(const struct memo *m)
{
	return (struct symbol_frames){
		.count = m->frames >> COUNT_AT,
		.frame = (const struct symbol_frame *)(uintptr_t)(m->frames &
								  ((1ull << COUNT_AT) - 1))
	};
}

static struct symbol_frames resolved(struct sites *s, uint32_t node)
{
	struct symbol_frames f = { .count = 1, .frame = &no_frame };
	struct memo *m;
	uint32_t parent;
	uint64_t pc;

	if (node == 0 || node >= WIRE_NODES)
		return f;
	m = known(s, node);
	if (m->frames)
		return frames_of(m);
	/* a target may have changed it since: then another pc is looked up */
	pc = m->link & LINK_PC ? pc_of(s, node, &parent) : 0;
	if (pc == WIRE_PC_TRUNCATED || pc == WIRE_PC_DEEP)
		f.frame = &truncated_frame;
	else if (pc)
		f = s->source.frames(s->source.ctx, node, pc);
	if (!f.count)
		f = (struct symbol_frames){ .count = 1, .frame = &no_frame };
	if (f.count > COUNT_MOST)
		f.count = COUNT_MOST;
	m->frames = (uint64_t)(uintptr_t)f.frame | (uint64_t)f.count << COUNT_AT;
	return f;
}

uint32_t sites_parent(struct sites *s, uint32_t node)
{
	uint32_t parent;

	if (node == 0 || node >= WIRE_NODES)
		return 0;
	parent = known(s, node)->link & LINK_PARENT;
	return parent && known(s, parent)->link & LINK_PC ? parent : 0;
}

uint64_t sites_pc(struct sites *s, uint32_t node)
{
	uint32_t parent;

	return node == 0 || node >= WIRE_NODES ? 0 : pc_of(s, node, &parent);
}

struct symbol_frames sites_frames(struct sites *s, uint32_t node) { return resolved(s, node); }

raddr_t sites_address(struct sites *s, uint32_t node)
{
	uint64_t pc = sites_pc(s, node);

	if (!pc || pc == WIRE_PC_TRUNCATED || pc == WIRE_PC_DEEP)
		return 0;
	return (pc & WIRE_PC_MASK) - !(pc & WIRE_PC_EXACT);
}

/* The number of the site at FRAME; out of memory, everything new is the last site known. */
static uint32_t intern(struct sites *s, const struct symbol_frame *frame)
{
	uint32_t h = symbols_hash_line(HASH_SEED, frame);
	uint32_t known = HASH_FIND(&s->numbers, h, n, symbols_same_line(&s->site[n].frame, frame));

	if (known)
		return known;
	if (s->count + 2 > s->allocated) {
		uint32_t n = s->allocated ? s->allocated * 2 : 256;
		struct site *site = realloc(s->site, n * sizeof(*site));

		if (!site)
			return s->count;
		s->site = site;
		s->allocated = n;
	}
	if (hash_index_add(&s->numbers, h, s->count + 1))
		return s->count;
	s->site[++s->count] = (struct site){ .frame = *frame };
	return s->count;
}

static bool is_passed_over(const struct sites *s, const struct symbol_frame *f)
{
	return f->skip || (!s->stay_in_wrappers && site_is_wrapper(f->function));
}

void sites_pass_wrappers(struct sites *s, bool pass)
{
	if (s->stay_in_wrappers == !pass)
		return;
	s->stay_in_wrappers = !pass;
	sites_clear(s);
}

/* Whether all of NODE is passed over; its frames are not looked up for that. */
static bool is_node_passed_over(struct sites *s, uint32_t node)
{
	uint32_t parent;
	uint64_t pc;

	if (!s->source.passed_over || s->memo[node].frames)
		return false;
	pc = pc_of(s, node, &parent);
	return pc && s->source.passed_over(s->source.ctx, node, pc);
}

/* The number of the first of F that is not passed over; 0: there is none. */
static uint32_t site_among(struct sites *s, struct symbol_frames f)
{
	for (size_t i = 0; i < f.count; i++)
		if (!is_passed_over(s, &f.frame[i]))
			return intern(s, &f.frame[i]);
	return 0;
}

uint32_t sites_of(struct sites *s, uint32_t node)
{
	uint32_t n = node, site = 0, outermost = 0, stop;
	struct symbol_frames f;

	if (node == 0 || node >= WIRE_NODES)
		return intern(s, &no_frame);
	if (s->memo[node].site)
		return s->memo[node].site;
	for (; n && !site; n = sites_parent(s, n)) {
		site = s->memo[n].site;
		if (!site && !is_node_passed_over(s, n)) {
			f = resolved(s, n);
			if (f.frame == &truncated_frame)
				break;
			site = site_among(s, f);
		}
		outermost = n;
	}
	if (!site) {
		f = resolved(s, outermost ? outermost : n);
		site = intern(s, &f.frame[f.count - 1]);
	}
	/* Every node that was passed on the way has the same site. */
	stop = n;
	for (n = node; n != stop; n = sites_parent(s, n))
		s->memo[n].site = site;
	return site;
}

bool sites_settled(const struct sites *s, uint32_t node, bool whole)
{
	return node == 0 || node >= WIRE_NODES ||
	       (whole ? (s->memo[node].link & LINK_SETTLED) != 0 : s->memo[node].site != 0);
}

void sites_settle(struct sites *s, uint32_t node, bool whole)
{
	if (!whole) {
		sites_of(s, node);
		return;
	}
	for (uint32_t n = node; !sites_settled(s, n, true); n = s->memo[n].link & LINK_PARENT)
		resolved(s, n);
	for (uint32_t n = node; !sites_settled(s, n, true); n = s->memo[n].link & LINK_PARENT)
		s->memo[n].link |= LINK_SETTLED;
}

int sites_rest(struct sites *s)
{
	if (++s->worked < REST || !s->source.rest)
		return 0;
	s->worked = 0;
	return s->source.rest(s->source.rest_ctx);
}

const struct site *sites_site(const struct sites *s, uint32_t site) { return &s->site[site]; }
uint32_t sites_count(const struct sites *s) { return s->count; }
