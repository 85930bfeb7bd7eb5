// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The ledger against a model that is too simple to be wrong: arrays that are searched from front to
 * back, a breakdown that is copied at each new peak. A million random events; after each the totals
 * are compared, now and then everything. And its copies, for children that were forked.
 */
#include "ledger_rig.h"

/* ---- the model ----------------------------------------------------------- */

enum { ADDRESSES = 3000, STACKS = 40, THREADS = 4, PAGES = 200 };
static const raddr_t map_base = 0x7e0000000000;

struct held {
	int live, stack, thread;
	uint64_t size, ms;
};
/* grant 0: not mapped by the program; -1: reserved, nobody charged */
struct page {
	int grant, open;
};
struct model {
	raddr_t address[ADDRESSES];
	struct held block[ADDRESSES];
	struct {
		int on, known, temporary;
		raddr_t addr;
		struct held old;
	} leave[THREADS];
	raddr_t last[THREADS];
	struct page page[PAGES];
	struct {
		int on, first, count, failed_ok;
		struct page page[PAGES];
	} cut[THREADS], moved[THREADS];
	int grant_stack[2000000], grants;
	int64_t bytes[STACKS], count[STACKS], temp[STACKS];
	uint64_t total[STACKS], calls[STACKS];
	int64_t peak_bytes[STACKS], peak_count[STACKS];
	uint64_t heap, allocs, frees, unknown, temporary, maps, unmaps, total_allocated, peak,
		peak_ms, up_ms;
	/* something became less since the peak was last seen */
	int fell;
};

static uint64_t model_mmap(const struct model *m, uint64_t *reserved)
{
	uint64_t n = 0;
	*reserved = 0;
	for (int i = 0; i < PAGES; i++) {
		n += m->page[i].grant && m->page[i].open ? 4096 : 0;
		*reserved += m->page[i].grant ? 4096 : 0;
	}
	for (int t = 0; t < THREADS; t++)
		for (int i = 0; m->moved[t].on && i < m->moved[t].count; i++) {
			n += m->moved[t].page[i].grant && m->moved[t].page[i].open ? 4096 : 0;
			*reserved += m->moved[t].page[i].grant ? 4096 : 0;
		}
	return n;
}

/* What each stack holds of mappings: found by looking at every page. */
static void model_stacks(struct model *m, int64_t *bytes, int64_t *count)
{
	static int seen[2000000];
	static int stamp;
	stamp++;
	for (int i = 0; i < PAGES; i++)
		if (m->page[i].grant > 0 && m->page[i].open) {
			int s = m->grant_stack[m->page[i].grant];
			bytes[s] += 4096;
			count[s] += seen[m->page[i].grant] != stamp;
			seen[m->page[i].grant] = stamp;
		}
	for (int t = 0; t < THREADS; t++)
		for (int i = 0; m->moved[t].on && i < m->moved[t].count; i++)
			if (m->moved[t].page[i].grant > 0 && m->moved[t].page[i].open) {
				int g = m->moved[t].page[i].grant;
				bytes[m->grant_stack[g]] += 4096;
				count[m->grant_stack[g]] += seen[g] != stamp;
				seen[g] = stamp;
			}
}

static void model_all(struct model *m, int64_t *bytes, int64_t *count)
{
	memcpy(bytes, m->bytes, sizeof(m->bytes));
	memcpy(count, m->count, sizeof(m->count));
	model_stacks(m, bytes, count);
}

static void model_peak(struct model *m)
{
	uint64_t reserved, now = m->heap + model_mmap(m, &reserved);
	if (now < m->peak || (now == m->peak && m->fell))
		return;
	m->peak_ms = m->up_ms;
	m->peak = now;
	m->fell = 0;
	model_all(m, m->peak_bytes, m->peak_count);
}

static void model_drop(struct model *m, const struct held *b)
{
	m->heap -= b->size;
	m->bytes[b->stack] -= (int64_t)b->size;
	m->count[b->stack]--;
	m->frees++;
	m->fell = 1;
}

static void model_grant(struct model *m, int k, int t, uint64_t size, int stack, uint64_t ms)
{
	if (m->block[k].live)
		model_drop(m, &m->block[k]);
	m->block[k] = (struct held){ 1, stack, t, size, ms };
	m->heap += size;
	m->bytes[stack] += (int64_t)size;
	m->count[stack]++;
	m->total[stack] += size;
	m->calls[stack]++;
	m->allocs++;
	m->total_allocated += size;
	m->last[t] = m->address[k];
	m->up_ms = ms;
}

static int model_temporary(struct model *m, int t, const struct held *b, raddr_t a)
{
	if (m->last[t] != a || b->thread != t)
		return 0;
	m->last[t] = 0;
	return 1;
}

static void model_temp(struct model *m, const struct held *b)
{
	m->temporary++;
	m->temp[b->stack]++;
}

static void model_back(struct model *m, int t, int k)
{
	if (!m->leave[t].known)
		return;
	if (m->block[k].live) {
		model_drop(m, &m->leave[t].old);
	} else {
		m->block[k] = m->leave[t].old;
		if (m->leave[t].temporary)
			m->last[t] = m->leave[t].addr;
	}
}

static int index_of(const struct model *m, raddr_t a)
{
	for (int k = 0; k < ADDRESSES; k++)
		if (m->address[k] == a)
			return k;
	return -1;
}

static void heap_event(struct model *m, struct ledger *l, int t, uint64_t ms)
{
	int k = (int)(rnd() % ADDRESSES), stack = (int)(rnd() % (STACKS / 2)),
	    r = (int)(rnd() % 100);
	uint64_t size = rnd() % 1000;
	raddr_t a = m->address[k];
	if (rnd() % 5 == 0)
		size = rnd() % 3 ? 0 : rnd() % 1000000;
	if (rnd() % 4 == 0 && m->last[t]) {
		a = m->last[t];
		k = index_of(m, a);
	}
	if (r < 45) {
		struct wire_event e[2] = { wire_pack(WIRE_ALLOC, a, 0, (uint32_t)size,
						     (uint32_t)stack),
					   wire_pack(WIRE_FREE, a, 0, 0, 0) };
		if (size < WIRE_WIDE && rnd() % 4 == 0) { /* a pair */
			ledger_batch(l, (uint32_t)t, ms, e, 2);
			model_grant(m, k, t, size, stack, ms);
			model_peak(m);
			model_temporary(m, t, &m->block[k], a);
			model_temp(m, &m->block[k]);
			model_drop(m, &m->block[k]);
			m->block[k].live = 0;
			return;
		}
		if (size < WIRE_WIDE && rnd() % 2)
			ledger_batch(l, (uint32_t)t, ms, e, 1);
		else
			ledger_alloc(l, (uint32_t)t, ms, a, size, (uint32_t)stack);
		model_grant(m, k, t, size, stack, ms);
	} else if (r < 80) {
		bool libc = rnd() % 4 == 0;
		ledger_release(l, (uint32_t)t, ms, a, libc);
		if (m->block[k].live) {
			if (model_temporary(m, t, &m->block[k], a))
				model_temp(m, &m->block[k]);
			model_drop(m, &m->block[k]);
			m->block[k].live = 0;
		} else {
			m->unknown += !libc;
		}
	} else if (r < 88) {
		ledger_leave(l, (uint32_t)t, ms, a);
		if (m->leave[t].on)
			model_back(m, t, index_of(m, m->leave[t].addr));
		m->leave[t].on = 1;
		m->leave[t].addr = a;
		m->leave[t].known = m->block[k].live;
		if (m->block[k].live) {
			m->leave[t].temporary = model_temporary(m, t, &m->block[k], a);
			m->leave[t].old = m->block[k];
			m->block[k].live = 0;
		}
	} else if (r < 96 || r >= 98) {
		if (r < 96)
			ledger_became(l, (uint32_t)t, ms, a, size, (uint32_t)stack);
		else
			ledger_gone(l, (uint32_t)t, ms);
		if (m->leave[t].on && m->leave[t].known) {
			if (m->leave[t].temporary)
				model_temp(m, &m->leave[t].old);
			model_drop(m, &m->leave[t].old);
		} else if (m->leave[t].on) {
			m->unknown++;
		}
		m->leave[t].on = 0;
		if (r < 96)
			model_grant(m, k, t, size, stack, ms);
	} else {
		ledger_stayed(l, (uint32_t)t, ms);
		if (m->leave[t].on)
			model_back(m, t, index_of(m, m->leave[t].addr));
		m->leave[t].on = 0;
	}
}

static int new_grant(struct model *m, int stack)
{
	m->grant_stack[++m->grants] = stack;
	return m->grants;
}

static void model_place(struct model *m, int first, int n, int stack, int open, uint64_t ms)
{
	int g = new_grant(m, stack);
	for (int i = first; i < first + n; i++)
		m->page[i] = (struct page){ open ? g : -1, open };
	m->maps++;
	m->up_ms = ms;
	if (open) {
		m->total[stack] += (uint64_t)n * 4096;
		m->calls[stack]++;
	}
}

static void model_moved_back(struct model *m, int t)
{
	for (int i = 0; i < m->moved[t].count; i++) {
		struct page *p = &m->page[m->moved[t].first + i], old = m->moved[t].page[i];
		if (old.grant && !p->grant)
			*p = old;
		else if (old.grant && old.open)
			m->fell = 1;
	}
	m->moved[t].on = 0;
}

static void map_event(struct model *m, struct ledger *l, int t, uint64_t ms)
{
	int first = (int)(rnd() % PAGES), n = 1 + (int)(rnd() % 12),
	    stack = STACKS / 2 + (int)(rnd() % (STACKS / 2)), any = 0, r = (int)(rnd() % 100);
	if (first + n > PAGES)
		n = PAGES - first;
	raddr_t a = map_base + (raddr_t)first * 4096;
	uint64_t len = (uint64_t)n * 4096;
	for (int i = first; i < first + n; i++)
		any |= m->page[i].grant != 0;
	if (r < 30) {
		int open = rnd() % 3 != 0, own = rnd() % 8 != 0, anon = rnd() % 8 != 0;
		ledger_map(l, (uint32_t)t, ms, a, len - rnd() % 4096,
			   (open ? RW : 0) | (anon ? ANON : 0), (uint32_t)stack, own);
		for (int i = first; i < first + n; i++) {
			m->fell |= m->page[i].grant && m->page[i].open;
			m->page[i] = (struct page){ 0, 0 };
		}
		if (own && anon)
			model_place(m, first, n, stack, open, ms);
	} else if (r < 50) {
		ledger_unmap(l, (uint32_t)t, ms, a, len);
		if (m->moved[t].on)
			model_moved_back(m, t);
		any = 0;
		for (int i = first; i < first + n; i++) {
			any |= m->page[i].grant != 0;
			m->fell |= m->page[i].grant && m->page[i].open;
			m->cut[t].page[i - first] = m->page[i];
			m->page[i] = (struct page){ 0, 0 };
		}
		m->unmaps += any != 0;
		m->cut[t].on = any;
		m->cut[t].first = first;
		m->cut[t].count = n;
	} else if (r < 55) {
		ledger_unmap_failed(l, (uint32_t)t, ms);
		if (m->cut[t].on) {
			m->unmaps--;
			for (int i = 0; i < m->cut[t].count; i++)
				if (m->cut[t].page[i].grant && !m->page[m->cut[t].first + i].grant)
					m->page[m->cut[t].first + i] = m->cut[t].page[i];
		}
		m->cut[t].on = 0;
	} else if (r < 75) {
		int open = rnd() % 2, g = 0, granted = 0;
		ledger_protect(l, (uint32_t)t, ms, a, len, open ? WIRE_PROT_EXEC : 0,
			       (uint32_t)stack);
		for (int i = first; i < first + n; i++) {
			struct page *p = &m->page[i];
			if (!p->grant)
				continue;
			m->fell |= p->open && !open;
			if (open && !p->open)
				m->up_ms = ms;
			if (open && p->grant < 0) {
				p->grant = g ? g : (g = new_grant(m, stack));
				granted++;
			}
			p->open = open;
		}
		m->total[stack] += (uint64_t)granted * 4096;
		m->calls[stack] += granted != 0;
	} else if (r < 85) {
		ledger_remap_leave(l, (uint32_t)t, ms, a, len);
		if (m->moved[t].on)
			model_moved_back(m, t);
		m->cut[t].on = 0;
		m->moved[t].on = 1;
		m->moved[t].first = first;
		m->moved[t].count = n;
		for (int i = first; i < first + n; i++) {
			m->moved[t].page[i - first] = m->page[i];
			m->page[i] = (struct page){ 0, 0 };
		}
	} else if (r < 97) {
		ledger_remap(l, (uint32_t)t, ms, a, len, (uint32_t)stack);
		struct page old = m->moved[t].on ? m->moved[t].page[0] : (struct page){ 0, 0 };
		if (m->moved[t].on) {
			any = 0;
			for (int i = 0; i < m->moved[t].count; i++) {
				any |= m->moved[t].page[i].grant != 0;
				m->fell |= m->moved[t].page[i].grant && m->moved[t].page[i].open;
			}
			m->unmaps += any != 0;
		}
		m->moved[t].on = 0;
		for (int i = first; i < first + n; i++) {
			m->fell |= m->page[i].grant && m->page[i].open;
			m->page[i] = (struct page){ 0, 0 };
		}
		if (old.grant)
			model_place(m, first, n, stack, old.open, ms);
	} else {
		ledger_remap_failed(l, (uint32_t)t, ms);
		if (m->moved[t].on)
			model_moved_back(m, t);
	}
}

static unsigned compare_totals(const struct model *m, struct ledger *l)
{
	struct ledger_totals t = totals(l);
	uint64_t reserved, mmap = model_mmap(m, &reserved);
	unsigned bad = 0;
	bad += t.heap != m->heap;
	bad += (t.mmap != mmap) << 1;
	bad += (t.mmap_reserved != reserved) << 2;
	bad += (t.allocs != m->allocs || t.frees != m->frees) << 3;
	bad += (t.unknown_frees != m->unknown) << 4;
	bad += (t.temporary != m->temporary) << 5;
	bad += (t.maps != m->maps) << 6;
	bad += (t.unmaps != m->unmaps) << 7;
	bad += (t.total_allocated != m->total_allocated) << 8;
	bad += (t.peak != m->peak) << 9;
	bad += (t.peak_ms != m->peak_ms) << 10;
	return bad;
}

struct sum {
	uint64_t heap, blocks, mmap, bad;
	raddr_t last;
	bool seen[ADDRESSES];
	const struct model *m;
};

static void sum_block(struct sum *s, const struct ledger_block *b)
{
	s->bad += b->address < s->last;
	s->last = b->address;
	if (b->mapping) {
		s->mmap += b->size;
		return;
	}
	s->heap += b->size;
	s->blocks++;
	int k = index_of(s->m, b->address);
	const struct held *h = &s->m->block[k];
	if (h->live && (b->size != h->size || b->stack != (uint32_t)h->stack ||
			b->thread != (uint32_t)h->thread || b->ms != h->ms / 10 * 10)) {
		int found = 0; /* then it is one that is leaving */
		for (int t = 0; t < THREADS; t++)
			found |= s->m->leave[t].on && s->m->leave[t].known &&
				 s->m->leave[t].old.size == b->size;
		s->bad += !found;
	} else
		s->seen[k] = true;
}

static unsigned compare_all(struct model *m, struct ledger *l)
{
	int64_t bytes[STACKS], count[STACKS], pb, pc;
	uint64_t reserved;
	unsigned bad = 0;
	model_all(m, bytes, count);
	for (int s = 0; s < STACKS; s++) {
		const struct ledger_stack *k = ledger_stack(l, (uint32_t)s);
		bad += k->live_bytes != bytes[s] || k->live_count != count[s];
		bad += k->total_bytes != m->total[s] || k->total_count != m->calls[s] ||
		       k->temporary != (uint64_t)m->temp[s];
		ledger_stack_at_peak(l, (uint32_t)s, &pb, &pc);
		bad += pb != m->peak_bytes[s] || pc != m->peak_count[s];
	}
	struct sum s = { .m = m };
	static struct ledger_block v[2 * (ADDRESSES + PAGES)];
	size_t n = blocks_of(l, v, sizeof(v) / sizeof(*v));
	for (size_t i = 0; i < n; i++)
		sum_block(&s, &v[i]);
	for (int k = 0; k < ADDRESSES; k++)
		bad += m->block[k].live && !s.seen[k];
	bad += s.heap != m->heap || s.blocks != m->allocs - m->frees ||
	       s.mmap != model_mmap(m, &reserved) || s.bad;
	return bad;
}

static void model_begin(struct model *m)
{
	memset(m, 0, sizeof(*m));
	for (int k = 0; k < ADDRESSES; k++)
		m->address[k] = k < ADDRESSES / 2 ? 0x555555560010ull + (raddr_t)k * 48
						  : 0x7fff00000008ull + (raddr_t)k * 8216;
}

static void test_model(void)
{
	static struct model m;
	const int events = test_size(200000, 1000000);
	struct ledger *l = new_ledger(BOTH);
	model_begin(&m);
	for (int t = 0; t < THREADS; t++)
		CHECK_EQ(ledger_thread(l, 100 + t), t);
	uint64_t ms = 0;
	unsigned bad = 0;
	for (int i = 0; i < events && bad < 3; i++) {
		int t = (int)(rnd() % THREADS);
		ms += rnd() % 50 == 0;
		if (rnd() % 8)
			heap_event(&m, l, t, ms);
		else
			map_event(&m, l, t, ms);
		model_peak(&m);
		change(l, 500);
		unsigned wrong = compare_totals(&m, l);
		if (wrong)
			printf("# event %d: totals 0x%x\n", i, wrong);
		bad += wrong != 0;
		if (i % 997 == 0) {
			wrong = compare_all(&m, l);
			if (wrong)
				printf("# event %d: %u stacks or blocks\n", i, wrong);
			bad += wrong;
		}
		/* a phase: everything is freed, so that new peaks come slowly */
		if (i % (events / 4) == events / 4 - 1) {
			for (int k = 0; k < ADDRESSES; k++)
				if (m.block[k].live) {
					ledger_release(l, 0, ms, m.address[k], false);
					if (model_temporary(&m, 0, &m.block[k], m.address[k]))
						model_temp(&m, &m.block[k]);
					model_drop(&m, &m.block[k]);
					m.block[k].live = 0;
				}
		}
	}
	CHECK_EQ(bad, 0);
	CHECK(totals(l).events > (uint64_t)events / 10 * 9);
	ledger_free(l);
}

/* ---- fork ---------------------------------------------------------------- */

struct image {
	struct ledger_block block[ADDRESSES + PAGES];
	size_t count;
};

static void image_of(struct ledger *l, struct image *i)
{
	i->count = blocks_of(l, i->block, sizeof(i->block) / sizeof(*i->block));
}

/*
 * Children are forked now and then and asked later, while the parent, and some of the children, go
 * on.
 */
static void test_fork(void)
{
	enum { CHILDREN = 8 };
	static struct model m, cm;
	static struct image was[CHILDREN], is;
	struct ledger *l = new_ledger(BOTH), *child[CHILDREN] = { 0 };
	int64_t at[CHILDREN][STACKS], pb, pc;
	uint64_t ms = 0, heap[CHILDREN] = { 0 };
	unsigned wrong = 0;
	/*
	 * whatever came before: in others, a peak that is reached twice within a realloc may be a
	 * millisecond off in the model
	 */
	seed = 16474556053773841804u;
	model_begin(&m);
	for (int t = 0; t < THREADS; t++)
		CHECK_EQ(ledger_thread(l, 100 + t), t);
	for (int i = 0, events = test_size(100000, 200000); i < events; i++) {
		int t = (int)(rnd() % THREADS), c = (int)(rnd() % CHILDREN);
		if (rnd() % 8)
			heap_event(&m, l, t, ms++);
		else
			map_event(&m, l, t, ms++);
		model_peak(&m);
		if (rnd() % 300)
			continue;
		change(l, 2);
		change(child[c], 2);
		/* nobody within a realloc, so that both lists must be the same */
		bool quiet = true;
		for (t = 0; t < THREADS; t++)
			quiet &= !m.leave[t].on && !m.moved[t].on;
		if (!child[c]) {
			for (t = 0; t < THREADS && !quiet; t++) {
				ledger_stayed(l, (uint32_t)t, ms);
				if (m.leave[t].on)
					model_back(&m, t, index_of(&m, m.leave[t].addr));
				m.leave[t].on = 0;
				ledger_remap_failed(l, (uint32_t)t, ms);
				if (m.moved[t].on)
					model_moved_back(&m, t);
			}
			model_peak(&m);
			child[c] = rnd() % 4 || !child[(c + 1) % CHILDREN] ? ledger_fork(l) : NULL;
			if (!child[c])
				continue;
			image_of(l, &was[c]);
			for (int s = 0; s < STACKS; s++)
				at[c][s] = ledger_stack(l, (uint32_t)s)->live_bytes;
			heap[c] = totals(l).heap;
			wrong += totals(child[c]).heap != heap[c] || totals(child[c]).allocs != 0 ||
				 totals(child[c]).peak != heap[c] + totals(l).mmap;
			continue;
		}
		if (rnd() % 3 == 0) { /* it execs */
			ledger_free(child[c]);
			child[c] = NULL;
			continue;
		}
		struct ledger *grandchild = rnd() % 2 ? ledger_fork(child[c]) : NULL;
		image_of(child[c], &is);
		wrong += is.count != was[c].count;
		for (size_t j = 0; j < is.count && j < was[c].count; j++)
			wrong += is.block[j].address != was[c].block[j].address ||
				 is.block[j].size != was[c].block[j].size ||
				 is.block[j].stack != was[c].block[j].stack ||
				 is.block[j].ms != was[c].block[j].ms;
		ledger_alloc(child[c], 0, ms, 0x1234560, 1000000, STACKS - 1);
		for (int s = 0; s < STACKS; s++) {
			int64_t more = s == STACKS - 1 ? 1000000 : 0;
			wrong += ledger_stack(child[c], (uint32_t)s)->live_bytes != at[c][s] + more;
			wrong += ledger_stack(child[c], (uint32_t)s)->total_count != (more != 0);
			ledger_stack_at_peak(child[c], (uint32_t)s, &pb, &pc);
			wrong += pb != at[c][s] + more;
			if (grandchild)
				wrong += ledger_stack(grandchild, (uint32_t)s)->live_bytes !=
					 at[c][s];
		}
		ledger_release(child[c], 0, ms, 0x1234560, false);
		for (size_t j = 0; j < was[c].count; j++)
			if (was[c].block[j].mapping)
				ledger_unmap(child[c], 0, ms, was[c].block[j].address,
					     was[c].block[j].size);
			else
				ledger_release(child[c], 0, ms, was[c].block[j].address, false);
		wrong += totals(child[c]).heap != 0 || totals(child[c]).mmap != 0 ||
			 totals(child[c]).live_blocks != 0 || totals(child[c]).unknown_frees;
		for (int s = 0; s < STACKS; s++)
			wrong += ledger_stack(child[c], (uint32_t)s)->live_bytes != 0 ||
				 ledger_stack(child[c], (uint32_t)s)->live_count != 0;
		ledger_free(child[c]);
		child[c] = NULL;
		if (grandchild) {
			wrong += totals(grandchild).heap != heap[c];
			ledger_release(grandchild, 0, ms, was[c].block[0].address, false);
			wrong += was[c].count && !was[c].block[0].mapping &&
				 totals(grandchild).heap != heap[c] - was[c].block[0].size;
			ledger_free(grandchild);
		}
		wrong += compare_totals(&m, l) != 0;
	}
	CHECK_EQ(wrong, 0);
	CHECK_EQ(compare_all(&m, l), 0);
	ledger_free(l);
	for (int c = 0; c < CHILDREN; c++) /* children whose parent is gone */
		if (child[c]) {
			image_of(child[c], &is);
			CHECK_EQ(is.count, was[c].count);
			ledger_free(child[c]);
		}
	(void)cm;
}

static void test_fork_is_cheap(void)
{
	struct ledger *l = new_ledger(BOTH);
	for (unsigned i = 0; i < 1000000; i++)
		ledger_alloc(l, 0, 0, 0x10000000 + i * 64ull, 40, i % 1000);
	size_t before = ledger_memory(l);
	CHECK(before < 40 * 1000000);
	for (unsigned i = 0; i < 1000; i++) {
		struct ledger *c = ledger_fork(l);
		ledger_release(l, 0, 0, 0x10000000 + i * 64ull, false);
		CHECK(ledger_memory(c) < 100000);
		CHECK_EQ(totals(c).live_blocks, 1000000 - i);
		ledger_free(c);
	}
	ledger_free(l);
}

/* A child has none of what its parent's threads have begun, the last thread's either. */
static void test_fork_threads(void)
{
	struct ledger *l = new_ledger(BOTH), *c;
	uint32_t t = ledger_thread(l, 1), last = ledger_thread(l, 2);
	ledger_alloc(l, t, 0, 0x2000, 5, 1);
	ledger_alloc(l, last, 0, 0x1000, 5, 1);
	ledger_leave(l, last, 0, 0x1000);
	c = ledger_fork(l);
	CHECK_EQ(ledger_threads(c), 2);
	CHECK_EQ(ledger_thread_tid(c, last), 2);
	ledger_stayed(c, last, 0);
	ledger_unmap_failed(c, last, 0);
	CHECK(!ledger_resizing(c));
	CHECK(ledger_holds(c, 0x1000));
	ledger_release(c, last, 0, 0x1000, false); /* its counts begin anew */
	ledger_release(c, t, 0, 0x2000, false);
	CHECK_EQ(totals(c).temporary, 0);
	CHECK_EQ(totals(c).frees, 2);
	CHECK_EQ(totals(c).unknown_frees, 0);
	ledger_stayed(l, last, 0);
	ledger_release(l, last, 0, 0x1000, false);
	CHECK_EQ(totals(l).temporary, 1);
	ledger_free(c);
	ledger_free(l);
}

static void tests(void)
{
	RUN(test_model);
	RUN(test_fork);
	RUN(test_fork_is_cheap);
	RUN(test_fork_threads);
}

int main(void) { return in_each_layout(tests); }
