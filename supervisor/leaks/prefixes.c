// SPDX-License-Identifier: GPL-3.0-or-later
#include "leaks/prefixes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- prefixes that are known by what is in them --------------------------- */

static const char *const names[PREFIXES] = {
	[PREFIX_UNKNOWN] = "learnt",	      [PREFIX_SDS] = "sds",
	[PREFIX_LENGTH] = "length",	      [PREFIX_ARRAY] = "array cookie",
	[PREFIX_STRING] = "std::string",      [PREFIX_GC] = "GC head",
	[PREFIX_COUNTS] = "reference counts", [PREFIX_BASE] = "multiple inheritance",
	[PREFIX_DTV] = "TLS vector",	      [PREFIX_ALIGNED] = "aligned by hand",
	[PREFIX_TREE] = "tree node",	      [PREFIX_TABLE] = "hash table",
};

const char *prefix_name(enum prefix prefix) { return names[prefix]; }

struct look {
	const struct leaks_image *image;
	const struct capture_block *block;
	uint64_t offset;
	uint8_t head[64]; /* of the block, zeros behind its end */
};

static uint64_t word_at(const struct look *l, size_t at)
{
	uint64_t word;

	memcpy(&word, l->head + at, sizeof(word));
	return word;
}

static bool fetch(const struct leaks_image *image, raddr_t at, uint64_t *word)
{
	return image->read(image->ctx, at, word, sizeof(*word)) == sizeof(*word);
}

/*
 * struct sdshdr5 to sdshdr64: the text's length and how much there is room for, each 1, 2, 4 or 8
 * bytes, then one byte whose lowest three bits say which of them it is. The text ends with a zero.
 * The room is what the allocator has rounded the request up to, and the text may fill it.
 */
#define ROUNDED(size) ((size) + ((size) / 4 > 16 ? (size) / 4 : 16)) /* at most */

static bool is_sds(const struct look *l)
{
	static const uint8_t offsets[] = { 1, 3, 5, 9, 17 };
	uint64_t len = 0, room = 0;
	unsigned type, width;

	if (l->offset > 17)
		return false;
	type = l->head[l->offset - 1] & 7;
	if (type >= sizeof(offsets) || offsets[type] != l->offset)
		return false;
	width = (unsigned)(l->offset - 1) / 2;
	if (!type)
		len = room = l->head[0] >> 3;
	memcpy(&len, l->head, width);
	memcpy(&room, l->head + width, width);
	if (len < sizeof(l->head) - l->offset && l->head[l->offset + len])
		return false;
	return len <= room && len < ROUNDED(l->block->size) &&
	       len + l->offset + 1 <= ROUNDED(l->block->size) && room / 2 <= l->block->size;
}

static bool is_pointer(uint64_t word) { return word >= 4096 && !(word & 7) && !(word >> 47); }

/*
 * Where an object's type is said to be, at AT, is a type: it is an object itself, and its type's
 * type, or that one's, is its own.
 */
#define TYPES_OF_TYPES 3

static bool is_python_type(const struct look *l, uint64_t at)
{
	for (int i = 0; i < TYPES_OF_TYPES; i++) {
		uint64_t type;

		if (!is_pointer(at) || !fetch(l->image, at + 8, &type))
			return false;
		if (type == at)
			return true;
		at = type;
	}
	return false;
}

/*
 * PyGC_Head: the next container and the one before, both 0 for one that is not in the list; the
 * lowest bits of both are flags. Behind it the object: a count of references, 0 of one that is kept
 * for the next use, and its type. While Python collects, there is a number in place of the one
 * before: then the type is looked at. Since 3.11 two words for attributes may be in front of that.
 */
#define ATTRIBUTES 16u

static bool is_gc_head(const struct look *l)
{
	size_t at = l->offset == ATTRIBUTES + 16 ? ATTRIBUTES : 0;
	uint64_t next = word_at(l, at) & ~7ull, before = word_at(l, at + 8) & ~7ull,
		 count = word_at(l, at + 16), type = word_at(l, at + 24), back;

	if (l->offset != at + 16 || l->block->size < at + 32 || !is_pointer(type) || count >> 33)
		return false;
	if (count && !at && !word_at(l, 0) && !before)
		return true;
	if (count && is_pointer(next) && is_pointer(before) && fetch(l->image, next + 8, &back) &&
	    (back & ~7ull) == l->block->address + at)
		return true;
	return is_python_type(l, type);
}

static bool is_tree(const struct look *l)
{
	uint64_t key = word_at(l, 0), left = word_at(l, 8) & ~1ull, right = word_at(l, 16);

	return l->offset == 1 && l->block->size == 24 && key >= 4096 && !(key >> 47) &&
	       (!left || is_pointer(left)) && (!right || is_pointer(right));
}

/* calloc(length + 2, 16), of which dtv[-1] is the length; pointers are to dtv[0]. */
static bool is_dtv(const struct look *l)
{
	return l->offset == 16 && word_at(l, 0) < l->block->size / 16 &&
	       (word_at(l, 0) + 2) * 16 == l->block->size && !word_at(l, 8);
}

static bool is_string(const struct look *l)
{
	return l->offset == 24 && word_at(l, 0) <= word_at(l, 8) &&
	       word_at(l, 8) < l->block->size && word_at(l, 8) + 25 == l->block->size;
}

/* Rust's Arc and Rc, as into_raw() leaves them: how many hold it, and how many weakly and one. */
static bool is_counted(const struct look *l)
{
	uint64_t strong = word_at(l, 0), weak = word_at(l, 8);

	return l->offset == 16 && strong && weak && !(strong >> 32) && !(weak >> 32);
}

static bool is_array(const struct look *l)
{
	return (l->offset == 8 || l->offset == 16) && word_at(l, l->offset - 8) &&
	       l->block->size > l->offset &&
	       (l->block->size - l->offset) % word_at(l, l->offset - 8) == 0;
}

/* Both classes' tables are constants of a library. */
static bool is_base(const struct look *l)
{
	uint64_t second;

	return !(l->offset & 7) && is_pointer(word_at(l, 0)) &&
	       l->image->constant(l->image->ctx, word_at(l, 0)) &&
	       fetch(l->image, l->block->address + l->offset, &second) && is_pointer(second) &&
	       l->image->constant(l->image->ctx, second);
}

/*
 * Who aligns by hand must know the beginning again to free it: it stands before the object, or in
 * its first words.
 */
static bool is_aligned(const struct look *l)
{
	uint64_t word[8], from = l->offset < 16 ? 0 : l->offset - 16;
	size_t n;

	if (l->offset & 7)
		return false;
	n = l->block->size - from < sizeof(word) ? l->block->size - from : sizeof(word);
	n = l->image->read(l->image->ctx, l->block->address + from, word, n) / sizeof(*word);
	for (size_t i = 0; i < n; i++)
		if (word[i] == l->block->address)
			return true;
	return false;
}

/*
 * A control byte says of an entry that it is empty (0xff), was deleted (0x80), or seven bits of its
 * hash. The first group stands again behind the last byte; a table that is smaller than a group
 * fills its own up with empty ones. Of a group that is all one hash nothing can be told.
 */
bool prefix_is_table(const struct leaks_image *image, const struct capture_block *b,
		     uint64_t offset)
{
	uint8_t group[TABLE_GROUP], again[TABLE_GROUP];
	uint64_t buckets = b->size - offset - TABLE_GROUP;
	size_t known = buckets < TABLE_GROUP ? buckets : TABLE_GROUP;
	raddr_t second = b->address + b->size - known;
	bool differ = false;

	if (!prefix_may_be_table(b, offset) ||
	    image->read(image->ctx, b->address + offset, group, sizeof(group)) != sizeof(group) ||
	    image->read(image->ctx, second, again, known) != known || memcmp(group, again, known))
		return false;
	for (size_t i = 0; i < sizeof(group); i++) {
		if (group[i] > 0x80 && group[i] != 0xff)
			return false;
		if (i >= known && group[i] != 0xff)
			return false;
		differ |= group[i] != group[0] || group[i] == 0xff;
	}
	return differ;
}

enum prefix prefix_recognise(const struct leaks_image *image, const struct capture_block *b,
			     uint64_t offset)
{
	struct look l = { .image = image, .block = b, .offset = offset };
	size_t n = b->size < sizeof(l.head) ? b->size : sizeof(l.head);

	if (!offset || offset >= b->size || image->read(image->ctx, b->address, l.head, n) != n)
		return PREFIX_UNKNOWN;
	if (offset == 8 && word_at(&l, 0) == b->size - 8)
		return PREFIX_LENGTH;
	if (prefix_is_table(image, b, offset))
		return PREFIX_TABLE;
	return is_tree(&l)	? PREFIX_TREE
	       : is_sds(&l)	? PREFIX_SDS
	       : is_dtv(&l)	? PREFIX_DTV
	       : is_gc_head(&l) ? PREFIX_GC
	       : is_string(&l)	? PREFIX_STRING
	       : is_counted(&l) ? PREFIX_COUNTS
	       : is_base(&l)	? PREFIX_BASE
	       : is_array(&l)	? PREFIX_ARRAY
	       : is_aligned(&l) ? PREFIX_ALIGNED
				: PREFIX_UNKNOWN;
}

bool prefix_is_empty_array(const struct leaks_image *image, const struct capture_block *b)
{
	uint64_t objects;

	return image->read(image->ctx, b->address, &objects, sizeof(objects)) == sizeof(objects) &&
	       !objects;
}

/* ---- stacks and families ---------------------------------------------------- */

static struct prefix_stack *stack_at(const struct prefixes *p, uint32_t number)
{
	return (struct prefix_stack *)p->stack.base + number;
}

static struct prefix_family *family_at(const struct prefixes *p, uint32_t index)
{
	return (struct prefix_family *)p->family.base + index;
}

/* Where STACK is in the table, or the free place where it belongs. */
static uint32_t *find_stack(const struct prefixes *p, uint32_t stack)
{
	uint32_t *table = p->table.base, mask = (1u << p->bits) - 1,
		 at = stack * 0x9e3779b1u >> (32 - p->bits);

	while (table[at] && stack_at(p, table[at] - 1)->stack != stack)
		at = (at + 1) & mask;
	return &table[at];
}

static uint32_t *find_family(const struct prefixes *p, uint64_t number)
{
	uint32_t *table = p->family_table.base, mask = (1u << p->family_bits) - 1,
		 at = (uint32_t)(number * 0x9e3779b97f4a7c15ull >> (64 - p->family_bits));

	while (table[at] && family_at(p, table[at] - 1)->number != number)
		at = (at + 1) & mask;
	return &table[at];
}

/* TABLE, of 1 << *BITS, becomes an empty one of twice that. */
static int enlarge(struct arena *table, unsigned *bits)
{
	struct arena more = { 0 };

	if (*bits >= 30 || arena_reach(&more, sizeof(uint32_t) << (*bits + 1)))
		return -ENOMEM;
	arena_release(table);
	*table = more;
	++*bits;
	return 0;
}

static int add_family(struct prefixes *p, uint64_t number, uint32_t *index)
{
	uint32_t *place = find_family(p, number);

	if (!*place && p->families >= 1u << (p->family_bits - 1)) {
		if (enlarge(&p->family_table, &p->family_bits))
			return -ENOMEM;
		for (uint32_t i = 0; i < p->families; i++)
			*find_family(p, family_at(p, i)->number) = i + 1;
		place = find_family(p, number);
	}
	if (!*place) {
		if (arena_reach(&p->family, (p->families + 1) * sizeof(struct prefix_family)))
			return -ENOMEM;
		family_at(p, p->families)->number = number;
		*place = ++p->families;
	}
	*index = *place - 1;
	return 0;
}

static int add_stack(struct prefixes *p, uint32_t stack, uint32_t *number)
{
	const struct leaks_image *image = p->image;
	uint32_t *place = find_stack(p, stack);

	if (!*place && p->stacks >= 1u << (p->bits - 1)) {
		if (enlarge(&p->table, &p->bits))
			return -ENOMEM;
		for (uint32_t i = 0; i < p->stacks; i++)
			*find_stack(p, stack_at(p, i)->stack) = i + 1;
		place = find_stack(p, stack);
	}
	if (!*place) {
		if (arena_reach(&p->stack, (p->stacks + 1) * sizeof(struct prefix_stack)) ||
		    add_family(p, image->family ? image->family(image->ctx, stack) : stack,
			       &stack_at(p, p->stacks)->family))
			return -ENOMEM;
		stack_at(p, p->stacks)->stack = stack;
		*place = ++p->stacks;
	}
	*number = *place - 1;
	return 0;
}

static int add_stacks(struct prefixes *p)
{
	const struct leaks_image *image = p->image;
	uint32_t number = 0;
	int err;

	for (size_t i = 0; i < image->blocks; i++) {
		uint32_t stack = image->block[i].stack;

		if (!p->stacks || stack_at(p, number)->stack != stack) {
			err = add_stack(p, stack, &number);
			if (err)
				return err;
		}
		family_at(p, stack_at(p, number)->family)->blocks++;
	}
	return 0;
}

#define LEARN_BLOCKS 8u /* a family with fewer has `known_offsets` */

/* The families that are learnt from. */
static size_t count_learning(const struct prefixes *p)
{
	size_t families = 0;

	for (uint32_t i = 0; i < p->families; i++)
		families += family_at(p, i)->blocks >= LEARN_BLOCKS;
	return families;
}

/* 4 bytes a block, but room for some where there are few blocks. */
static uint32_t count_crowds(const struct prefixes *p, size_t learning)
{
	size_t most = 64 + p->image->blocks * 4 / sizeof(struct prefix_crowd);

	return (uint32_t)(learning < most ? learning : most);
}

int prefixes_init(struct prefixes *p, const struct leaks_image *image)
{
	size_t learning;
	int err;

	*p = (struct prefixes){ .image = image, .bits = 10, .family_bits = 10 };
	pthread_mutex_init(&p->lock, NULL);
	err = arena_reach(&p->table, sizeof(uint32_t) << p->bits);
	if (!err)
		err = arena_reach(&p->family_table, sizeof(uint32_t) << p->family_bits);
	if (!err)
		err = add_stacks(p);
	learning = count_learning(p);
	p->most_crowds = count_crowds(p, learning);
	/* all at once, so that it need not move while two threads look at it */
	if (!err)
		err = arena_reach(&p->offset,
				  learning * PREFIX_PLACES * sizeof(struct prefix_offset));
	if (!err)
		err = arena_reach(&p->crowd, p->most_crowds * sizeof(struct prefix_crowd));
	if (!err)
		err = arena_reach(&p->seen, image->blocks * sizeof(uint16_t));
	if (err)
		prefixes_release(p);
	return err;
}

void prefixes_release(struct prefixes *p)
{
	arena_release(&p->table);
	arena_release(&p->stack);
	arena_release(&p->family_table);
	arena_release(&p->family);
	arena_release(&p->offset);
	arena_release(&p->crowd);
	arena_release(&p->seen);
	pthread_mutex_destroy(&p->lock);
}

uint32_t prefixes_stack(const struct prefixes *p, uint32_t stack)
{
	return *find_stack(p, stack) - 1;
}

/* ---- offsets -------------------------------------------------------------- */

static const uint32_t known_offsets[PREFIX_PLACES] = { 8,  16, 24, 1,  3,  5,  9,
						       17, 32, 48, 64, 80, 96, 112 };

/* Usual is what holds for so many blocks, and for one in USUAL_SHARE of their family. */
#define USUAL_LEAST 2u
#define USUAL_SHARE 8u
#define TRIES	    4u

static struct prefix_family *family_of(const struct prefixes *p, uint32_t block)
{
	uint32_t number = prefixes_stack(p, p->image->block[block].stack);

	return family_at(p, stack_at(p, number)->family);
}

static struct prefix_offset *offsets_of(const struct prefixes *p, uint32_t first)
{
	return (struct prefix_offset *)p->offset.base + (first - 1);
}

static unsigned known_place(uint64_t into)
{
	for (unsigned i = 0; i < PREFIX_PLACES; i++)
		if (known_offsets[i] == into)
			return i + 1;
	return PLACE_OTHER;
}

/*
 * The place of a pointer to INTO of a block whose family has too few to learn from. A base class, a
 * virtual one above all, may be at any offset: a pointer to it counts as one to the beginning.
 */
static unsigned place_of_few(const struct prefixes *p, uint32_t block, uint64_t into)
{
	struct look l = { .image = p->image, .block = &p->image->block[block], .offset = into };
	unsigned place = known_place(into);
	uint64_t first;

	if (place != PLACE_OTHER || (into & 7) || !fetch(p->image, l.block->address, &first))
		return place;
	memcpy(l.head, &first, sizeof(first));
	return is_base(&l) ? PLACE_START : place;
}

/* The place of offset BYTES among those that begin at FIRST; PLACE_OTHER: it has none. */
static unsigned place_of(const struct prefixes *p, uint32_t first, uint32_t bytes, unsigned *used)
{
	const struct prefix_offset *o = offsets_of(p, first);

	for (*used = 0; *used < PREFIX_PLACES; ++*used) {
		uint32_t there = __atomic_load_n(&o[*used].bytes, __ATOMIC_ACQUIRE);

		if (there == bytes)
			return *used + 1;
		if (!there)
			break;
	}
	return PLACE_OTHER;
}

/* How many words point to BYTES, or to what has the same hash, in a crowd. */
static uint32_t *crowd_words(const struct prefixes *p, uint32_t crowd, uint32_t bytes)
{
	struct prefix_crowd *c = (struct prefix_crowd *)p->crowd.base + (crowd - 1);

	return &c->words[bytes * 0x9e3779b1u >> (32 - CROWD_BITS)];
}

/* Whether an offset is usual that N blocks of F, or words in its crowd, say. */
static bool is_usual(const struct prefix_family *f, uint32_t n)
{
	return n >= USUAL_LEAST && (uint64_t)n * USUAL_SHARE >= f->blocks;
}

/* A word points to BYTES, which has no place. */
static void join_crowd(struct prefixes *p, struct prefix_family *f, uint32_t bytes)
{
	uint32_t crowd = __atomic_load_n(&f->crowd, __ATOMIC_RELAXED);

	if (!crowd && __atomic_load_n(&p->crowds, __ATOMIC_RELAXED) < p->most_crowds) {
		pthread_mutex_lock(&p->lock);
		if (!f->crowd && p->crowds < p->most_crowds)
			__atomic_store_n(&f->crowd,
					 __atomic_add_fetch(&p->crowds, 1, __ATOMIC_RELAXED),
					 __ATOMIC_RELAXED);
		crowd = f->crowd;
		pthread_mutex_unlock(&p->lock);
	}
	if (crowd)
		__atomic_fetch_add(crowd_words(p, crowd, bytes), 1, __ATOMIC_RELAXED);
}

/* Whether BYTES, which has no place, may get one: all may until a crowd has told otherwise. */
static bool may_have_place(const struct prefixes *p, const struct prefix_family *f, uint32_t bytes)
{
	uint32_t crowd = __atomic_load_n(&f->crowd, __ATOMIC_RELAXED);

	return !crowd ||
	       is_usual(f, __atomic_load_n(crowd_words(p, crowd, bytes), __ATOMIC_RELAXED));
}

static unsigned add_place(struct prefixes *p, struct prefix_family *f, uint32_t bytes)
{
	unsigned place, used;

	pthread_mutex_lock(&p->lock);
	if (!f->first) {
		__atomic_store_n(&f->first, p->offsets + 1, __ATOMIC_RELEASE);
		p->offsets += PREFIX_PLACES;
	}
	place = place_of(p, f->first, bytes, &used);
	if (place == PLACE_OTHER && used < PREFIX_PLACES) {
		__atomic_store_n(&offsets_of(p, f->first)[used].bytes, bytes, __ATOMIC_RELEASE);
		place = used + 1;
	}
	pthread_mutex_unlock(&p->lock);
	return place;
}

unsigned prefixes_place(const struct prefixes *p, uint32_t block, uint64_t into)
{
	const struct prefix_family *f = family_of(p, block);
	unsigned used;

	if (f->blocks < LEARN_BLOCKS)
		return place_of_few(p, block, into);
	return f->first && into < UINT32_MAX ? place_of(p, f->first, (uint32_t)into, &used)
					     : PLACE_OTHER;
}

unsigned prefixes_learn(struct prefixes *p, uint32_t block, uint64_t into)
{
	struct prefix_family *f = family_of(p, block);
	uint16_t *seen = (uint16_t *)p->seen.base + block;
	uint32_t first = __atomic_load_n(&f->first, __ATOMIC_ACQUIRE);
	unsigned used = 0, place = PLACE_OTHER;

	if (f->blocks < LEARN_BLOCKS)
		return place_of_few(p, block, into);
	if (into >= UINT32_MAX)
		return PLACE_OTHER;
	if (first)
		place = place_of(p, first, (uint32_t)into, &used);
	if (place == PLACE_OTHER && used == PREFIX_PLACES)
		join_crowd(p, f, (uint32_t)into);
	else if (place == PLACE_OTHER && may_have_place(p, f, (uint32_t)into))
		place = add_place(p, f, (uint32_t)into);
	if (place != PLACE_OTHER && !(__atomic_load_n(seen, __ATOMIC_RELAXED) & 1u << place) &&
	    !(__atomic_fetch_or(seen, (uint16_t)(1u << place), __ATOMIC_RELAXED) & 1u << place))
		__atomic_fetch_add(&offsets_of(p, f->first)[place - 1].blocks, 1, __ATOMIC_RELAXED);
	return place;
}

/*
 * Blocks that are held at their family's usual offsets are looked at, until what these are is
 * known.
 */
static void look_at(const struct prefixes *p, const struct capture_block *b,
		    struct prefix_offset *o)
{
	enum prefix kind;

	if (o->kind || o->tries >= TRIES)
		return;
	o->tries++;
	kind = prefix_recognise(p->image, b, o->bytes);
	o->kind = (uint8_t)kind;
}

/* Whether any of its offsets without a place may be usual. */
static bool has_missed(const struct prefixes *p, const struct prefix_family *f)
{
	const struct prefix_crowd *c = p->crowd.base;

	for (unsigned i = 0; f->crowd && i < 1u << CROWD_BITS; i++)
		if (is_usual(f, c[f->crowd - 1].words[i]))
			return true;
	return false;
}

void prefixes_settle(struct prefixes *p)
{
	uint16_t *seen = p->seen.base;

	for (uint32_t i = 0; i < p->families; i++)
		family_at(p, i)->missed = has_missed(p, family_at(p, i));
	for (size_t i = 0; i < p->image->blocks; i++) {
		const struct prefix_family *f = family_of(p, (uint32_t)i);
		struct prefix_offset *o = f->first ? offsets_of(p, f->first) : NULL;
		unsigned usual = 1u << PLACE_START;

		for (unsigned k = 0; o && k < PREFIX_PLACES && o[k].bytes; k++) {
			if (!is_usual(f, o[k].blocks))
				continue;
			usual |= 2u << k;
			if (seen[i] & 2u << k)
				look_at(p, &p->image->block[i], &o[k]);
		}
		seen[i] = (uint16_t)usual;
	}
}

bool prefixes_missed(const struct prefixes *p, uint32_t block)
{
	return family_of(p, block)->missed;
}

void prefixes_again(struct prefixes *p)
{
	struct prefix_offset *all = p->offset.base;

	for (uint32_t i = 0; i < p->families; i++) {
		const struct prefix_family *f = family_at(p, i);
		struct prefix_offset *o = f->missed ? offsets_of(p, f->first) : NULL;
		unsigned kept = 0;

		for (unsigned k = 0; o && k < PREFIX_PLACES; k++)
			if (is_usual(f, o[k].blocks))
				o[kept++] = o[k];
		if (o)
			memset(&o[kept], 0, (PREFIX_PLACES - kept) * sizeof(*o));
	}
	for (uint32_t i = 0; i < p->offsets; i++)
		all[i].blocks = 0;
	memset(p->seen.base, 0, p->image->blocks * sizeof(uint16_t));
}

uint64_t prefixes_offset(const struct prefixes *p, uint32_t block, unsigned place)
{
	const struct prefix_family *f = family_of(p, block);

	if (place == PLACE_START || place == PLACE_OTHER)
		return 0;
	if (f->blocks < LEARN_BLOCKS)
		return known_offsets[place - 1];
	return f->first ? offsets_of(p, f->first)[place - 1].bytes : 0;
}

enum prefix prefixes_kind(const struct prefixes *p, uint32_t block, unsigned place)
{
	const struct prefix_family *f = family_of(p, block);

	return f->first ? (enum prefix)offsets_of(p, f->first)[place - 1].kind : PREFIX_UNKNOWN;
}
