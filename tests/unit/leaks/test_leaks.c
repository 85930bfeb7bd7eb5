// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What is lost in memory that is made up here: small cases with answers that can be seen at once,
 * and random ones against a plain implementation of memcheck's rules.
 */
#include <errno.h>

#include "leaks/index.h"
#include "leaks/leaks.h"
#include "leaks/path.h"
#include "leaks/reference_graph.h"
#include "test.h"

#define HEAP	 0x555500000000ull
#define ROOTS	 0x7f0000000000ull
#define CONSTANT 0x400000ull
#define ROOM	 (64u << 20)
#define MOST	 300000u

static struct made {
	uint8_t *heap;
	uint64_t roots[4096];
	struct capture_block block[MOST];
	size_t blocks;
	raddr_t end; /* of what is used of the heap */
	uint64_t reg[16];
	unsigned threads;
	size_t most_edges;
	unsigned calls, patience; /* interrupted() is true after so many calls; 0: never */
	bool closed;		  /* the heap is no root */
} m;

static void clear(void)
{
	if (!m.heap)
		m.heap = malloc(ROOM);
	memset(m.heap, 0, m.end > HEAP ? m.end - HEAP : 0);
	memset(m.roots, 0, sizeof(m.roots));
	memset(m.reg, 0, sizeof(m.reg));
	m.blocks = 0;
	m.end = HEAP;
	m.threads = 1;
	m.most_edges = 0;
	m.calls = m.patience = 0;
	m.closed = false;
}

/* A block of SIZE bytes, as malloc would place it. */
static raddr_t add(uint64_t size, uint32_t stack)
{
	raddr_t at = m.end + 16;

	CHECK(m.blocks < MOST && at + size + 64 < HEAP + ROOM);
	m.block[m.blocks++] = (struct capture_block){ .address = at, .size = size, .stack = stack };
	m.end = at + ((size + 15) & ~15ull);
	return at;
}

static void put(raddr_t at, uint64_t word) { memcpy(m.heap + (at - HEAP), &word, sizeof(word)); }
static void put_byte(raddr_t at, uint8_t byte) { m.heap[at - HEAP] = byte; }

static const void *next(void *ctx, raddr_t address, raddr_t end, void *buffer, size_t size,
			raddr_t *at, size_t *len)
{
	(void)ctx, (void)buffer, (void)size;
	if (address >= end)
		return NULL;
	*at = address;
	*len = end - address;
	if (address >= ROOTS)
		return (uint8_t *)m.roots + (address - ROOTS);
	return m.heap + (address - HEAP);
}

static size_t read_at(void *ctx, raddr_t address, void *to, size_t size)
{
	(void)ctx;
	if (address < HEAP || address >= m.end)
		return 0;
	size = size < m.end - address ? size : m.end - address;
	memcpy(to, m.heap + (address - HEAP), size);
	return size;
}

static bool constant(void *ctx, raddr_t address)
{
	(void)ctx;
	return address >= CONSTANT && address < CONSTANT + 4096;
}

static bool interrupted(void *ctx)
{
	(void)ctx;
	return m.patience && __atomic_add_fetch(&m.calls, 1, __ATOMIC_RELAXED) > m.patience;
}

/* Stacks 100 to 199 are of one family. */
static uint64_t family(void *ctx, uint32_t stack)
{
	(void)ctx;
	return stack / 100 == 1 ? 100 : stack;
}

static struct leaks_range range[2];
static struct leaks_image image;

static struct leaks *scan(int *err)
{
	range[0] = (struct leaks_range){ HEAP, (m.end + 4095) & ~4095ull, !m.closed };
	range[1] = (struct leaks_range){ ROOTS, ROOTS + sizeof(m.roots), true };
	image = (struct leaks_image){ .block = m.block,
				      .blocks = m.blocks,
				      .range = range,
				      .ranges = 2,
				      .word = m.reg,
				      .words = 16,
				      .read = read_at,
				      .next = next,
				      .family = family,
				      .constant = constant,
				      .interrupted = interrupted,
				      .threads = m.threads,
				      .most_edges = m.most_edges };
	return leaks_new(&image, err);
}

/* A letter for each block. */
static const char *classes(void)
{
	static char text[256];
	int err;
	struct leaks *l = scan(&err);

	CHECK_EQ(err, 0);
	memset(text, 0, sizeof(text));
	for (size_t i = 0; l && i < m.blocks && i < sizeof(text) - 1; i++)
		text[i] = "dipr"[leaks_kind(l, i)];
	leaks_free(l);
	return text;
}

/* ---- classes --------------------------------------------------------------- */

static void test_nothing(void)
{
	clear();
	CHECK_STR(classes(), "");
	m.roots[3] = HEAP + 16;
	CHECK_STR(classes(), "");
	add(8, 1);
	m.roots[3] = 0;
	CHECK_STR(classes(), "d");
}

static void test_chain(void)
{
	clear();
	raddr_t a = add(16, 1), b = add(16, 1), c = add(100, 1), d = add(8, 1);

	m.roots[4095] = a;
	put(a + 8, c);
	put(c + 88, b);
	put(d, b);
	CHECK_STR(classes(), "rrrd");
	m.roots[4095] = 0;
	CHECK_STR(classes(), "diid");
	m.reg[15] = b;
	CHECK_STR(classes(), "drid");
}

/* A head that a later one's blocks point to is none. */
static void test_heads(void)
{
	clear();
	raddr_t a = add(16, 1), b = add(16, 1), c = add(16, 1), d = add(16, 2), e = add(16, 2);
	struct leak_record *r;
	struct leaks *l;
	int err;

	put(a, b); /* a heads b */
	put(c, a); /* until c comes */
	put(d, e); /* a cycle: d comes first */
	put(e + 8, d);
	CHECK_STR(classes(), "iiddi");
	l = scan(&err);
	CHECK_EQ(leaks_indirect(l, 2).blocks, 2);
	CHECK_EQ(leaks_indirect(l, 2).bytes, 32);
	CHECK_EQ(leaks_indirect(l, 0).blocks, 0);
	CHECK_EQ(leaks_records(l, NULL, NULL, &r), 4);
	CHECK(r[0].kind == LEAK_DEFINITE && r[0].stack == 1 && r[0].bytes == 16 &&
	      r[0].blocks == 1 && r[0].indirect_bytes == 32 && r[0].indirect_blocks == 2);
	CHECK(r[1].kind == LEAK_DEFINITE && r[1].stack == 2 && r[1].indirect_bytes == 16);
	CHECK(r[2].kind == LEAK_INDIRECT && r[2].stack == 1 && r[2].bytes == 32 &&
	      r[2].indirect_bytes == 0);
	CHECK(r[3].kind == LEAK_INDIRECT && r[3].stack == 2 && r[3].bytes == 16);
	free(r);
	CHECK_EQ(leaks_find(l, b + 15), 1);
	CHECK_EQ(leaks_find(l, b + 16), -1);
	leaks_free(l);
}

static void test_self(void)
{
	clear();
	raddr_t a = add(16, 1);

	put(a + 8, a);
	CHECK_STR(classes(), "d");
}

/* Pointers to where a block ends, and words that are not aligned, are nobody's. */
static void test_edges_of_blocks(void)
{
	clear();
	raddr_t a = add(16, 1), b = add(20, 1), c = add(0, 1), d = add(32, 1);
	uint64_t word = d;

	m.roots[0] = a + 16;
	CHECK_STR(classes(), "dddd");
	m.roots[0] = c; /* no bytes, but an address */
	CHECK_STR(classes(), "ddrd");
	m.roots[0] = b;
	put(b + 16, d); /* not wholly in b: in what is between them, which is the allocator's */
	CHECK_STR(classes(), "drdd");
	put(b + 16, 0);
	put(b + 8, d);
	CHECK_STR(classes(), "drdr");
	put(b + 8, 0);
	memcpy(m.heap + (b + 4 - HEAP), &word, 8);
	CHECK_STR(classes(), "drdd");
}

/* What is not in any block is a root, unless it is as small as what an allocator rounds by. */
static void test_between(void)
{
	clear();
	raddr_t a = add(16, 1);

	m.end += 48; /* as a block that is not known yet, or has been freed */
	put(a + 32, a);
	raddr_t b = add(16 + 8, 1);

	CHECK_STR(classes(), "rd");
	m.closed = true;
	CHECK_STR(classes(), "dd");
	m.closed = false;
	put(a + 32, 0);
	put(m.end, a); /* behind the last block */
	CHECK_STR(classes(), "rd");
	put(m.end, 0);
	put(b + 24, a); /* behind what a block has asked for */
	add(16, 1);
	CHECK_STR(classes(), "ddd");
}

static void test_possible(void)
{
	clear();
	raddr_t a = add(400, 1), b = add(16, 2), c = add(16, 3);

	m.roots[0] = a + 200;
	put(a, b);
	put(b, c + 2);
	CHECK_STR(classes(), "ppp");
	m.roots[1] = a;
	CHECK_STR(classes(), "rrp");
	m.roots[0] = m.roots[1] = 0;
	CHECK_STR(classes(), "dii");
}

/* ---- prefixes -------------------------------------------------------------- */

static struct leak_prefix first_prefix(size_t *count)
{
	const struct leak_prefix *p;
	int err;
	struct leaks *l = scan(&err);
	struct leak_prefix first = { 0 };

	*count = leaks_prefixes(l, &p);
	if (*count)
		first = p[0];
	leaks_free(l);
	return first;
}

/* Where all blocks of a stack are pointed to, one that is pointed to there is held. */
static void test_learnt(void)
{
	struct leak_prefix p;
	raddr_t list = 0;
	size_t n;

	clear();
	for (unsigned i = 0; i < 50; i++) { /* a list by the links within, each from the next */
		raddr_t a = add(72, 7);

		put(a + 40, list);
		list = a + 40;
	}
	raddr_t odd = add(72, 7);

	m.roots[9] = list;
	m.roots[10] = odd + 11;
	CHECK_STR(classes(), "rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrp");
	p = first_prefix(&n);
	CHECK_EQ(n, 1);
	CHECK(p.kind == PREFIX_UNKNOWN && p.offset == 40 && p.blocks == 50);
	m.roots[9] = 0;
	CHECK_STR(classes(), "iiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiidp");
}

/*
 * All offsets that can be told apart are taken by an array that points anywhere into blocks, as one
 * to the cells of sqlite3's pages does, before the link is seen by which each is held.
 */
static void test_learnt_from_a_crowd(void)
{
	for (unsigned threads = 1; threads < 3; threads++) {
		struct leak_prefix p;
		raddr_t cells, head, list = 0;
		size_t n;

		clear();
		m.threads = threads;
		cells = add(100 * 8, 8);
		head = add(8, 9);
		for (unsigned i = 0; i < 40; i++) {
			raddr_t a = add(600, 7);

			put(a + 40, list);
			list = a + 40;
			for (unsigned k = 0; i < 20 && k < 5; k++)
				put(cells + (i * 5 + k) * 8, a + 100 + i * 5 + k);
		}
		m.roots[8] = cells;
		m.roots[9] = head;
		CHECK_STR(classes(), "rrppppppppppppppppppppiiiiiiiiiiiiiiiiiiid");
		put(head, list);
		CHECK_STR(classes(), "rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr");
		p = first_prefix(&n);
		CHECK_EQ(n, 1);
		CHECK(p.kind == PREFIX_UNKNOWN && p.offset == 40 && p.blocks == 40);
	}
}

/* From other stacks of its family, too. */
static void test_learnt_by_family(void)
{
	clear();
	for (unsigned i = 0; i < 10; i++)
		m.roots[i] = add(40, 100 + i) + 12;
	m.roots[10] = add(40, 300) + 12;
	CHECK_STR(classes(), "rrrrrrrrrrp");
}

static enum prefix kind_at(raddr_t a, uint64_t offset)
{
	int err;
	struct leaks *l = scan(&err);
	ssize_t b = leaks_find(l, a);
	enum prefix kind = prefix_recognise(&image, &m.block[b], offset);

	leaks_free(l);
	return kind;
}

/* One block each: nothing is to be learnt, but it says itself what stands before. */
static void test_known(void)
{
	struct leak_prefix p;
	size_t n;

	clear();
	raddr_t sds = add(14, 1), len = add(40, 2), array = add(8 + 3 * 24, 3), string = add(30, 4),
		gc = add(48, 5), base = add(64, 6), aligned = add(200, 7), none = add(48, 8),
		dtv = add(320, 9);

	put_byte(sds, 10), put_byte(sds + 1, 10), put_byte(sds + 2, 1);
	put(len, 32);
	put(array, 3);
	put(string, 4), put(string + 8, 5);
	put(gc + 16, 1), put(gc + 24, CONSTANT);
	put(base, CONSTANT + 16), put(base + 32, CONSTANT + 160);
	put(aligned + 56, aligned);
	put(none, 77);
	put(dtv, 18);
	CHECK_EQ(kind_at(sds, 3), PREFIX_SDS);
	CHECK_EQ(kind_at(sds, 1), PREFIX_UNKNOWN);
	CHECK_EQ(kind_at(len, 8), PREFIX_LENGTH);
	CHECK_EQ(kind_at(array, 8), PREFIX_ARRAY);
	CHECK_EQ(kind_at(string, 24), PREFIX_STRING);
	CHECK_EQ(kind_at(gc, 16), PREFIX_GC);
	CHECK_EQ(kind_at(base, 32), PREFIX_BASE);
	CHECK_EQ(kind_at(base, 40), PREFIX_UNKNOWN);
	CHECK_EQ(kind_at(aligned, 64), PREFIX_ALIGNED);
	CHECK_EQ(kind_at(aligned, 48), PREFIX_ALIGNED);
	CHECK_EQ(kind_at(aligned, 120), PREFIX_UNKNOWN);
	CHECK_EQ(kind_at(dtv, 16), PREFIX_DTV);
	CHECK_EQ(kind_at(none, 8), PREFIX_UNKNOWN);
	CHECK_EQ(kind_at(none, 5000), PREFIX_UNKNOWN);
	m.roots[0] = sds + 3, m.roots[1] = len + 8, m.roots[2] = array + 8;
	m.roots[3] = string + 24, m.roots[4] = gc + 16, m.roots[5] = base + 32;
	m.roots[6] = aligned + 64, m.roots[7] = none + 8, m.roots[8] = dtv + 16;
	CHECK_STR(classes(), "rrrrrrrpr");
	p = first_prefix(&n);
	CHECK_EQ(n, 8);
	CHECK_EQ(p.blocks, 1);
	put_byte(sds, 11); /* longer than there is room */
	CHECK_EQ(kind_at(sds, 3), PREFIX_UNKNOWN);
	put_byte(sds, 10), put_byte(sds + 1, 200); /* room for more than there is */
	CHECK_EQ(kind_at(sds, 3), PREFIX_UNKNOWN);
}

/* Redis uses what the allocator has rounded a request up to. */
static void test_rounded(void)
{
	clear();
	raddr_t sds = add(18, 1);

	put_byte(sds, 19), put_byte(sds + 1, 28), put_byte(sds + 2, 1);
	CHECK_EQ(kind_at(sds, 3), PREFIX_SDS);
	put_byte(sds, 40), put_byte(sds + 1, 40); /* more than it can have been rounded up to */
	CHECK_EQ(kind_at(sds, 3), PREFIX_UNKNOWN);
	put_byte(sds, 10), put_byte(sds + 13, 'x'); /* no zero behind the text */
	CHECK_EQ(kind_at(sds, 3), PREFIX_UNKNOWN);
}

/* Nodes of tsearch(): key, left | whether it is red, right. */
static void test_tree(void)
{
	clear();
	raddr_t red = add(24, 1), left = add(24, 2), key = add(16, 3);

	put(red, key), put(red + 8, left | 1);
	put(left, key);
	m.roots[0] = red;
	CHECK_EQ(kind_at(left, 1), PREFIX_TREE);
	CHECK_STR(classes(), "rrr");
	put(left + 16, 77); /* no address */
	CHECK(kind_at(left, 1) != PREFIX_TREE);
}

/* Rust's Arc of a String, as into_raw() leaves it: its numbers look like much else. */
static void test_counts(void)
{
	clear();
	raddr_t arc = add(40, 1), text = add(40, 2);

	put(arc, 1), put(arc + 8, 1);
	put(arc + 16, 40), put(arc + 24, text), put(arc + 32, 40);
	CHECK_EQ(kind_at(arc, 16), PREFIX_COUNTS);
	m.roots[0] = arc + 16;
	CHECK_STR(classes(), "rr");
	put(arc, 0); /* nobody holds it any more */
	CHECK(kind_at(arc, 16) != PREFIX_COUNTS);
}

/* Containers of Python's: whatever state they are in, their type is one. */
static void test_python(void)
{
	clear();
	raddr_t meta = add(400, 1), type = add(400, 1), no_type = add(400, 1);
	raddr_t gc = add(64, 2), wide = add(96, 3), next = add(64, 4);

	put(meta + 8, meta), put(type + 8, meta);
	put(gc, next), put(gc + 8, 3 << 2 | 2); /* three references were counted by a collection */
	put(gc + 16, 3), put(gc + 24, type);
	CHECK_EQ(kind_at(gc, 16), PREFIX_GC);
	put(gc + 16, 0); /* kept for the next use */
	CHECK_EQ(kind_at(gc, 16), PREFIX_GC);
	put(gc + 24, no_type);
	CHECK_EQ(kind_at(gc, 16), PREFIX_UNKNOWN);
	put(gc + 24, type);
	CHECK_EQ(kind_at(gc, 8), PREFIX_UNKNOWN);
	put(wide + 16, next), put(wide + 24, next), put(wide + 32, 1), put(wide + 40, type);
	CHECK_EQ(kind_at(wide, 32), PREFIX_GC); /* two words for attributes before it */
	put(wide + 40, no_type);
	CHECK_EQ(kind_at(wide, 32), PREFIX_UNKNOWN);
	put(next + 8, wide + 16); /* it is the one before the next one */
	CHECK_EQ(kind_at(wide, 32), PREFIX_GC);
}

/*
 * hashbrown's layout: BUCKETS entries of BYTES, then BUCKETS control bytes and the first 16 again.
 */
static raddr_t add_table(unsigned buckets, unsigned bytes, unsigned used)
{
	unsigned entries = (buckets * bytes + 15) & ~15u;
	raddr_t a = add(entries + buckets + 16, 1), control = a + entries;

	for (unsigned i = 0; i < buckets + 16; i++)
		put_byte(control + i, 0xff);
	for (unsigned i = 0; i < used; i++) {
		put_byte(control + i, (uint8_t)(i * 7 & 0x7f));
		if (i < 16)
			put_byte(control + (buckets < 16 ? 16 : buckets) + i,
				 (uint8_t)(i * 7 & 0x7f));
	}
	return a;
}

static void test_table(void)
{
	clear();
	raddr_t small = add_table(4, 24, 3), middle = add_table(16, 24, 14),
		large = add_table(64, 24, 50), entry = add(40, 2), lost = add_table(32, 24, 20),
		no = add_table(8, 24, 5), bytes = add_table(64, 1, 40);
	put(large, entry);
	put_byte(no + 192 + 16, 1); /* what should stand twice does not */
	CHECK_EQ(kind_at(small, 96), PREFIX_TABLE);
	CHECK_EQ(kind_at(middle, 384), PREFIX_TABLE);
	CHECK_EQ(kind_at(large, 64 * 24), PREFIX_TABLE);
	CHECK_EQ(kind_at(large, 64 * 24 - 16), PREFIX_UNKNOWN);
	CHECK_EQ(kind_at(lost, 32 * 24), PREFIX_TABLE);
	CHECK_EQ(kind_at(no, 192), PREFIX_UNKNOWN);
	CHECK_EQ(kind_at(bytes, 64), PREFIX_TABLE);
	m.roots[0] = small + 96, m.roots[1] = middle + 384, m.roots[2] = large + 64 * 24;
	m.roots[3] = no + 192, m.roots[4] = bytes + 64;
	CHECK_STR(classes(), "rrrrdpr");
}

/* new T[0]: what it gives is behind the block. */
static void test_empty_array(void)
{
	clear();
	raddr_t empty = add(8, 1), one = add(8, 1), other = add(9, 1);

	put(one, 1);
	m.roots[0] = empty + 8, m.roots[1] = one + 8, m.roots[2] = other + 9;
	CHECK_STR(classes(), "rdd");
	add(8, 2);
	put(one, m.end - 8);
	m.roots[1] = one;
	CHECK_STR(classes(), "rrdr");
	m.roots[1] = 0;
	CHECK_STR(classes(), "rddi");
}

/* ---- paths ------------------------------------------------------------------ */

/* "m8 0+16 3": from memory at ROOTS + 8 over block 0, 16 bytes into it, to block 3. */
static const char *path_to(raddr_t a)
{
	static char text[400];
	struct leak_path path;
	size_t n = 0;
	int err;
	struct leaks *l = scan(&err);

	CHECK_EQ(path_find(l, (uint32_t)leaks_find(l, a), &path), 0);
	text[0] = '\0';
	for (size_t i = 0; i < path.steps; i++) {
		const struct leak_step *s = &path.step[i];
		const char *space = i ? " " : "";

		if (s->kind == STEP_REGISTER)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%sr%" PRIu64, space,
					      s->at);
		else if (s->kind == STEP_MEMORY)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%sm%" PRId64, space,
					      (int64_t)(s->at - (s->at < ROOTS ? HEAP : ROOTS)));
		else if (i + 1 < path.steps)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%u+%" PRIu64, space,
					      s->block, s->into);
		else
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%u", space, s->block);
	}
	path_release(&path);
	leaks_free(l);
	return text;
}

static void test_paths(void)
{
	clear();
	raddr_t a = add(32, 1), b = add(32, 1), c = add(32, 1), d = add(32, 1);

	CHECK_STR(path_to(a), "0"); /* nothing holds it */
	put(a, b), put(b + 16, c), put(c + 24, d);
	CHECK_STR(path_to(d), "0+0 1+16 2+24 3");
	m.roots[2] = a;
	CHECK_STR(path_to(d), "m16 0+0 1+16 2+24 3");
	m.reg[5] = c;
	CHECK_STR(path_to(d), "r5 2+24 3");
	m.roots[3] = d + 7; /* it is shorter, but not a sure one */
	CHECK_STR(path_to(d), "r5 2+24 3");
	m.reg[5] = m.roots[2] = 0;
	CHECK_STR(path_to(d), "m24 3");
	CHECK_STR(path_to(b), "0+0 1");
	m.roots[3] = 0;
	m.end += 64;
	put(m.end - 24, c); /* between blocks */
	add(16, 1);
	CHECK_STR(path_to(d), "m232 2+24 3");
}

/* ---- at random, against memcheck's rules ----------------------------------- */

static uint64_t seed = 42;
static uint64_t rnd(void) { return test_random(&seed); }

static struct plain {
	uint8_t kind[MOST];
	uint32_t pending[MOST], npending;
	uint64_t indirect[MOST];
} plain;

static ssize_t plain_find(uint64_t word)
{
	size_t low = 0, high = m.blocks;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (m.block[middle].address <= word)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return -1;
	return word - m.block[low - 1].address < (m.block[low - 1].size ? m.block[low - 1].size : 1)
		       ? (ssize_t)low - 1
		       : -1;
}

enum { NONE, HELD, POSSIBLE, INDIRECT };

static void plain_see(uint64_t word, bool sure, ssize_t head)
{
	ssize_t t = plain_find(word);

	if (t < 0)
		return;
	if (head >= 0) {
		if (plain.kind[t] == NONE && t != head) {
			plain.kind[t] = INDIRECT;
			plain.indirect[head] += m.block[t].size + plain.indirect[t];
			plain.pending[plain.npending++] = (uint32_t)t;
		}
		return;
	}
	sure = sure && word == m.block[t].address;
	if (plain.kind[t] == HELD || (!sure && plain.kind[t]))
		return;
	plain.kind[t] = sure ? HELD : POSSIBLE;
	plain.pending[plain.npending++] = (uint32_t)t;
}

static void plain_follow(ssize_t head)
{
	while (plain.npending) {
		uint32_t b = plain.pending[--plain.npending];

		for (uint64_t k = 0; k + 8 <= m.block[b].size; k += 8) {
			uint64_t word;

			memcpy(&word, m.heap + (m.block[b].address + k - HEAP), 8);
			plain_see(word, plain.kind[b] == HELD, head);
		}
	}
}

static void plain_scan(void)
{
	memset(&plain, 0, sizeof(plain));
	for (size_t i = 0; i < 4096; i++)
		plain_see(m.roots[i], true, -1);
	plain_follow(-1);
	for (size_t i = 0; i < m.blocks; i++) {
		if (plain.kind[i] != NONE)
			continue;
		plain.pending[plain.npending++] = (uint32_t)i;
		plain_follow((ssize_t)i);
	}
}

/* PERCENT of the pointers are to somewhere within a block; each has a stack of its own. */
static void make_random(unsigned n, unsigned pointers, unsigned percent, unsigned roots)
{
	clear();
	for (unsigned i = 0; i < n; i++)
		add(rnd() % 10 ? 24 + rnd() % 200 : rnd() % 5000, i + 1000);
	for (unsigned i = 0; i < n * pointers; i++) {
		const struct capture_block *from = &m.block[rnd() % n], *to = &m.block[rnd() % n];
		uint64_t into = rnd() % 100 < percent ? rnd() % (to->size + 1) : 0;

		if (from->size >= 8)
			put(from->address + rnd() % (from->size / 8) * 8, to->address + into);
	}
	for (unsigned i = 0; i < roots; i++)
		m.roots[rnd() % 4096] = m.block[rnd() % n].address;
}

static void compare(const char *what)
{
	static const uint8_t kinds[] = { [NONE] = LEAK_DEFINITE,
					 [HELD] = LEAK_REACHABLE,
					 [POSSIBLE] = LEAK_POSSIBLE,
					 [INDIRECT] = LEAK_INDIRECT };
	int err;
	struct leaks *l;
	unsigned wrong = 0, count[4] = { 0 };
	static uint64_t headed[MOST];

	plain_scan();
	l = scan(&err);
	memset(headed, 0, sizeof(headed));
	for (size_t i = 0; l && i < m.blocks; i++) {
		size_t head = leaks_head(l, i);

		wrong += leaks_kind(l, i) == LEAK_INDIRECT ? leaks_kind(l, head) != LEAK_DEFINITE
							   : head != i;
		if (head != i)
			headed[head] += m.block[i].size;
	}
	for (size_t i = 0; l && i < m.blocks; i++) {
		/* some pointers into a block are known for what they are */
		bool known = plain.kind[i] == POSSIBLE && leaks_kind(l, i) == LEAK_REACHABLE;

		count[plain.kind[i]]++;
		wrong += leaks_kind(l, i) != kinds[plain.kind[i]] && !known;
		if (leaks_kind(l, i) == LEAK_DEFINITE)
			wrong += leaks_indirect(l, i).bytes != plain.indirect[i] ||
				 headed[i] != plain.indirect[i];
	}
	CHECK(l);
	if (wrong)
		printf("# %s: %u of %zu\n", what, wrong, m.blocks);
	CHECK_EQ(wrong, 0);
	CHECK(count[NONE] && count[HELD] && count[INDIRECT]);
	leaks_free(l);
}

static void test_random_graphs(void)
{
	static const struct {
		unsigned blocks, pointers, percent, roots;
	} cases[] = { { 50, 1, 0, 3 },	   { 300, 1, 20, 10 },	   { 2000, 1, 5, 100 },
		      { 20000, 1, 0, 20 }, { 20000, 1, 30, 1000 }, { 100000, 2, 1, 3000 } };

	/* the last one takes as long as all others */
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases) - (size_t)test_size(1, 0); i++) {
		make_random(cases[i].blocks, cases[i].pointers, cases[i].percent, cases[i].roots);
		for (unsigned t = 1; t <= 2; t++) {
			m.threads = t;
			m.most_edges = 0;
			compare("all remembered");
			m.most_edges = 2;
			compare("hardly any");
			m.most_edges = cases[i].blocks / 3;
			compare("some");
		}
	}
}

/* More blocks than there is room for on the stack of those to come. */
static void test_wide(void)
{
	struct leaks *l;
	unsigned wrong = 0;
	int err;

	clear();
	raddr_t top = add(8 * 100000, 1);

	for (unsigned i = 0; i < 100000; i++) {
		raddr_t a = add(16, 2);

		put(top + 8 * i, a);
		put(a, add(16, 3));
	}
	l = scan(&err);
	CHECK_EQ(leaks_kind(l, 0), LEAK_DEFINITE);
	CHECK_EQ(leaks_indirect(l, 0).blocks, 200000);
	leaks_free(l);
	m.roots[0] = top;
	l = scan(&err);
	for (size_t i = 0; i < m.blocks; i++)
		wrong += leaks_kind(l, i) != LEAK_REACHABLE;
	CHECK_EQ(wrong, 0);
	leaks_free(l);
	m.roots[0] = top + 4096 + 3;
	l = scan(&err);
	for (size_t i = wrong = 0; i < m.blocks; i++)
		wrong += leaks_kind(l, i) != LEAK_POSSIBLE;
	CHECK_EQ(wrong, 0);
	leaks_free(l);
}

static void test_interrupted(void)
{
	int err;

	make_random(100000, 2, 1, 3000);
	for (m.threads = 1; m.threads <= 2; m.threads++) {
		m.calls = 0;
		m.patience = 3;
		CHECK(!scan(&err));
		CHECK_EQ(err, -EINTR);
	}
}

/*
 * All is held through a table that lies behind it, and by that through a small block: it is known
 * when the sweep comes, so that no edge is remembered. What the table does not hold is lost.
 */
static void test_near(void)
{
	static raddr_t node[20000];
	const struct leaks_graph *g;
	struct leaks *l;
	unsigned wrong = 0;
	int err;

	clear();
	for (unsigned i = 0; i < 20000; i++)
		node[i] = add(32, 1 + i % 3);
	for (unsigned i = 0; i < 20000; i++) {
		put(node[i], node[rnd() % 20000]);
		put(node[i] + 8, node[rnd() % 20000]);
	}
	raddr_t lost = add(64, 7), table = add(20000 * 8, 8), owner = add(16, 9);

	for (unsigned i = 0; i < 20000; i++)
		put(table + 8ul * i, node[i]);
	put(lost, node[0]);
	put(owner + 8, table);
	m.roots[77] = owner;
	for (m.threads = 1; m.threads <= 2; m.threads++) {
		l = scan(&err);
		CHECK_EQ(err, 0);
		g = leaks_graph(l);
		for (unsigned i = 0; i < g->parts; i++)
			CHECK_EQ(g->part[i].count, 0);
		for (size_t i = 0; i < m.blocks; i++)
			wrong += leaks_kind(l, i) != (i == 20000 ? LEAK_DEFINITE : LEAK_REACHABLE);
		CHECK_EQ(leaks_scanned(l), range[0].end - range[0].start + sizeof(m.roots));
		leaks_free(l);
	}
	CHECK_EQ(wrong, 0);
}

/* ---- the index ------------------------------------------------------------- */

/* Blocks of all sizes, some far from each other: addresses within, at the ends, and between. */
static void test_index(void)
{
	static const uint64_t gaps[] = { 0,	   1,	       16,	   4096,      1u << 20,
					 3u << 20, 1ull << 31, 5ull << 32, 1ull << 40 };
	struct leaks_index x;
	unsigned wrong = 0;

	for (unsigned round = 0; round < 20; round++) {
		raddr_t at = 4096 + rnd() % 100;

		clear();
		for (unsigned i = 0; i < 3000; i++) {
			uint64_t size = rnd() % 1000 ? rnd() % 300 : gaps[rnd() % 9];

			at += rnd() % 50 ? rnd() % 20 : gaps[rnd() % (round < 10 ? 6 : 9)];
			m.block[m.blocks++] = (struct capture_block){ .address = at, .size = size };
			at += size ? size : 1;
		}
		image = (struct leaks_image){ .block = m.block, .blocks = m.blocks };
		CHECK_EQ(index_init(&x, &image), 0);
		for (unsigned i = 0; i < 30000; i++) {
			const struct capture_block *b = &m.block[rnd() % m.blocks];
			uint64_t word = b->address + (rnd() % 2 ? rnd() % (b->size + 2) : 0) -
					rnd() % 2,
				 into = 0;
			uint32_t found = index_find(&x, word, &into);
			ssize_t right = plain_find(word);

			if (found != INDEX_NONE && into == INDEX_BEHIND) {
				wrong += m.block[found].address + m.block[found].size != word ||
					 m.block[found].size != 8;
				found = INDEX_NONE;
			}
			wrong += found != (right < 0 ? INDEX_NONE : (uint32_t)right) ||
				 (right >= 0 && word - into != m.block[right].address);
		}
		wrong += index_find(&x, 0, &(uint64_t){ 0 }) != INDEX_NONE;
		wrong += index_find(&x, UINT64_MAX, &(uint64_t){ 0 }) != INDEX_NONE;
		index_release(&x);
	}
	CHECK_EQ(wrong, 0);
}

int main(void)
{
	RUN(test_nothing);
	RUN(test_chain);
	RUN(test_heads);
	RUN(test_self);
	RUN(test_edges_of_blocks);
	RUN(test_between);
	RUN(test_possible);
	RUN(test_learnt);
	RUN(test_learnt_from_a_crowd);
	RUN(test_learnt_by_family);
	RUN(test_known);
	RUN(test_rounded);
	RUN(test_tree);
	RUN(test_counts);
	RUN(test_python);
	RUN(test_table);
	RUN(test_empty_array);
	RUN(test_paths);
	RUN(test_random_graphs);
	RUN(test_wide);
	RUN(test_interrupted);
	RUN(test_near);
	RUN(test_index);
	return test_status();
}
