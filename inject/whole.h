/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * whole.h - whole stacks that a thread has walked more than once: for walk.c alone.
 *
 * A stack is known by where it starts (the return address and its slot, and rbp where that matters)
 * and by the words of memory that its walk depended on (walk.c, `check`). From the same start and
 * with the same words the walk would be the same, so a stack of which all of that holds is the one
 * that was kept: exact, at one compare a word, without a rule, a look-up or a node.
 *
 * Which of the kept stacks to compare with is found by a tree. A walk is a function of its start
 * and of what it reads, from the innermost frame outwards. So two stacks of one start have read the
 * same places up to the first word in which they differ. A fork is such a place; behind it the
 * stacks stand by the value there, and all have the same words further in. Who looks for a stack
 * reads one word a fork, comes to one stack, and compares that. The tree need not be right: a wrong
 * turn, or a value of something that the stack at hand does not depend on, costs a walk.
 *
 *	start[hash(slot, pc)] -> fork {word 5} -+-> fork {word 9} -+-> whole
 *						|		   +-> whole
 *						+-> whole
 *
 * Stacks are written one behind the other into `log`, and stay until it is full; then all are
 * forgotten. A thread may be taken away anywhere here by a siglongjmp. So what is new is complete
 * before the one store that makes it part of the tree.
 *
 * A program whose stacks seldom come again must not pay for this. Each start has its luck: it goes
 * up with a stack that is found and down with one that is not, and below 0 its stacks are not
 * looked for, for a while. They are kept meanwhile, and one that proves to be there ends that.
 */
#ifndef MTRUN_WHOLE_H
#define MTRUN_WHOLE_H

#include "ring.h"

/* ---- looking for one ----------------------------------------------------- */

enum {
	WHOLE_HIT = 2,	/* what a stack that is found adds to its start's luck, */
	WHOLE_MISS = 1, /* what one that is not found takes away: where a third is found it pays */
	WHOLE_LUCK = 8, /* what a start begins with */
	WHOLE_LUCK_MOST = 64,
	WHOLE_UNLUCKY = -100, /* so many walks pass by then */
	WHOLE_DEEP = 64,      /* forks on the way to a stack, at most */
	WHOLE_UNITS = 8,      /* of the log that a stack takes, about */
	WHOLE_PAYS = 4,	      /* it pays to keep a stack that is found so often */
	WHOLE_REST = 1 << 16
};

/* wire_fork.word of what is no word of memory. */
enum { FORK_RBP = 0xfffe, FORK_START = 0xffff };

static inline uint64_t whole_hash(uint64_t value) { return value * 0x9e3779b97f4a7c15ull; }

static inline struct wire_start *whole_start(struct wire_big *b, const struct entry *e)
{
	_Static_assert(WIRE_STARTS == 1u << (64 - 55), "the hash fits");
	return &b->start[whole_hash((uint64_t)&e->ra >> 3 ^ e->ra) >> 55];
}

static inline struct wire_whole *whole_at(struct wire_big *b, uint32_t ref)
{
	return (struct wire_whole *)&b->log[ref * WIRE_WHOLE_UNIT & (WIRE_WHOLE_LOG - 1)];
}

static inline struct wire_fork *fork_at(struct wire_big *b, uint32_t ref)
{
	return &b->fork[ref & (WIRE_FORKS - 1)];
}

/* How many words M has; whatever is written there, they are in the log. */
static inline uint32_t whole_words(const struct wire_whole *m)
{
	return m->words & (2 * WIRE_WHOLE_WORDS - 1);
}

/* Where M's words are, four offsets from its start in each word, and their values. */
static inline uint64_t *whole_offsets(struct wire_whole *m) { return (uint64_t *)(m + 1); }
static inline uint64_t *whole_values(struct wire_whole *m)
{
	return whole_offsets(m) + whole_words(m) / 4;
}

/* The word of memory at START plus the Ith of the four OFFSETS. */
static inline uint64_t whole_peek(uint64_t start, uint64_t offsets, int i)
{
	return peek(start + 8 * (offsets >> 16 * i & 0xffff));
}

/* What the stack at E has at F's place. R: the range of E. */
static inline uint64_t fork_value(const struct wire_fork *f, const struct wire_range *r,
				  const struct entry *e)
{
	uint64_t start = (uint64_t)&e->ra, at = start + 8ull * f->word;

	if (unlikely(f->word >= FORK_RBP))
		return f->word == FORK_RBP ? e->reg[WIRE_RBP] : start ^ e->ra << 16;
	return likely(at < r->hi) ? peek(at) : 0;
}

/* Which kid of a fork with this SHIFT has the stacks of VALUE. */
static inline uint32_t fork_kid(uint32_t shift, uint64_t value)
{
	return (uint32_t)(whole_hash(value) >> (shift & 63) & 0xffff) * WIRE_FORK_KIDS >> 16;
}

/* Whether memory from START on holds the words of M. */
static inline bool whole_holds(struct wire_whole *m, uint64_t start)
{
	const uint64_t *slots = whole_offsets(m), *value = whole_values(m);
	uint32_t n = whole_words(m);

	for (uint32_t i = 0; i < n; i += 4) {
		uint64_t o = slots[i / 4];

		if ((whole_peek(start, o, 0) ^ value[i]) |
		    (whole_peek(start, o, 1) ^ value[i + 1]) |
		    (whole_peek(start, o, 2) ^ value[i + 2]) |
		    (whole_peek(start, o, 3) ^ value[i + 3]))
			return false;
	}
	return true;
}

/* Whether the stack at E is M. R: the range of E. */
static inline bool whole_is(struct wire_whole *m, const struct wire_range *r, const struct entry *e)
{
	uint64_t start = (uint64_t)&e->ra;

	return m->slot == start && m->pc == e->ra && start + 8ull * m->reach < r->hi &&
	       (!m->needs_rbp || m->rbp == e->reg[WIRE_RBP]) && whole_holds(m, start);
}

/* The only one of the stacks behind REF that the one at E can be. R: the range of E. */
static inline struct wire_whole *whole_candidate(struct wire_big *b, uint32_t ref,
						 const struct wire_range *r, const struct entry *e)
{
	for (int i = 0; ref & WIRE_IS_FORK && i < WHOLE_DEEP; i++) {
		const struct wire_fork *f = fork_at(b, ref);

		ref = f->kid[fork_kid(f->shift, fork_value(f, r, e))];
	}
	return whole_at(b, ref);
}

/* The node of the whole stack that starts at E; 0: none is known that holds. R: E's range. */
static inline uint32_t whole_find(struct wire_thread *t, struct wire_big *b,
				  const struct wire_range *r, const struct entry *e)
{
	struct wire_start *s = whole_start(b, e);
	struct wire_whole *m;
	int luck = s->luck;

	if (unlikely(luck < 0)) {
		s->luck = (int8_t)(luck + 1);
		return 0;
	}
	m = whole_candidate(b, s->ref, r, e);
	if (likely(whole_is(m, r, e))) {
		if (unlikely(luck < WHOLE_LUCK_MOST))
			s->luck = (int8_t)(luck + WHOLE_HIT);
		b->hits++;
		if (unlikely(m->truncated))
			t->truncated++;
		return m->node;
	}
	luck -= WHOLE_MISS;
	s->luck = (int8_t)(luck < 0 ? WHOLE_UNLUCKY : luck);
	return 0;
}

/* ---- keeping one --------------------------------------------------------- */

static noinline void whole_clear(struct wire_big *b)
{
	for (uint32_t i = 0; i < WIRE_STARTS; i++)
		b->start[i] = (struct wire_start){ 0 };
	__asm__ volatile("" ::: "memory");
	b->hits = 0;
	b->forks = 0;
	b->logged = 0;
}

/* The log is full. Where its stacks were seldom found there are too many: no more for a while. */
static void whole_full(struct wire_big *b)
{
	b->rest = b->hits / WHOLE_PAYS < b->logged / WHOLE_UNITS ? WHOLE_REST : 0;
	whole_clear(b);
}

/* Which of M's words is WORD words above the start; -1: none. */
static int whole_index(struct wire_whole *m, uint32_t word)
{
	const uint64_t *slots = whole_offsets(m);

	for (int i = 0; i < (int)whole_words(m); i++)
		if ((slots[i / 4] >> 16 * (i & 3) & 0xffff) == word)
			return i;
	return -1;
}

/* The order in which a walk of M's comes to a fork's WORD; -1: it does not. */
static int whole_order(struct wire_whole *m, uint32_t word)
{
	int i;

	if (word >= FORK_RBP)
		return word == FORK_START ? 0 : 1;
	i = whole_index(m, word);
	return i < 0 ? -1 : i + 2;
}

/*
 * The first word in the order of a walk that both M and OTHER depend on, and in which they differ;
 * 0: there is none.
 */
static uint32_t whole_parting(struct wire_whole *m, struct wire_whole *other)
{
	const uint64_t *slots = whole_offsets(other), *value = whole_values(other);

	if (m->slot != other->slot || m->pc != other->pc)
		return FORK_START;
	if (m->needs_rbp && other->needs_rbp && m->rbp != other->rbp)
		return FORK_RBP;
	for (int i = 0; i < (int)whole_words(other); i++) {
		uint32_t word = slots[i / 4] >> 16 * (i & 3) & 0xffff;
		int mine;

		/* most stand at the same index of both */
		if (i < (int)whole_words(m) &&
		    (whole_offsets(m)[i / 4] >> 16 * (i & 3) & 0xffff) == word)
			mine = i;
		else
			mine = whole_index(m, word);
		if (mine >= 0 && whole_values(m)[mine] != value[i])
			return word;
	}
	return 0;
}

static uint64_t whole_value(struct wire_whole *m, uint32_t word)
{
	int i;

	if (word >= FORK_RBP)
		return word == FORK_RBP ? m->rbp : m->slot ^ m->pc << 16;
	i = whole_index(m, word);
	return i < 0 ? 0 : whole_values(m)[i];
}

/*
 * A new fork at WORD between BELOW, a ref whose stacks have what OTHER has there, and stack ADDED.
 * 0: there is no room, or no hash tells the two apart.
 */
static uint32_t fork_make(struct wire_big *b, uint32_t word, uint32_t below,
			  struct wire_whole *other, uint32_t added)
{
	uint64_t a = whole_value(other, word), c = whole_value(whole_at(b, added), word);
	uint32_t shift = 64, ref = b->forks + 1;
	struct wire_fork *f;

	if (ref >= WIRE_FORKS)
		return 0;
	do {
		if (!shift)
			return 0;
		shift -= 16;
	} while (fork_kid(shift, a) == fork_kid(shift, c));
	f = &b->fork[ref];
	*f = (struct wire_fork){ .word = (uint16_t)word,
				 .shift = (uint16_t)shift,
				 .any = (uint16_t)added };
	f->kid[fork_kid(shift, a)] = (uint16_t)below;
	f->kid[fork_kid(shift, c)] = (uint16_t)added;
	b->forks = ref;
	return ref | WIRE_IS_FORK;
}

/*
 * Puts ADDED into the tree behind *AT: in the place of nothing or of what no word tells from it, or
 * beside the stacks that it parts from, by a fork of its own where it does that further in than
 * they do among each other. What no hash tells from them is left out. False: there is no room.
 */
static bool whole_link(struct wire_big *b, uint16_t *at, uint32_t added)
{
	struct wire_whole *m = whole_at(b, added);

	for (int i = 0; i < WHOLE_DEEP; i++) {
		struct wire_fork *f = *at & WIRE_IS_FORK ? fork_at(b, *at) : NULL;
		struct wire_whole *other = whole_at(b, f ? f->any : *at);
		uint32_t word = *at ? whole_parting(m, other) : 0, ref = added;

		if (f && (!word || whole_order(other, word) >= whole_order(other, f->word))) {
			at = &f->kid[fork_kid(f->shift, whole_value(m, f->word))];
			continue;
		}
		if (word)
			ref = fork_make(b, word, *at, other, added);
		if (!ref)
			return b->forks + 1 < WIRE_FORKS;
		__asm__ volatile("" ::: "memory");
		*at = (uint16_t)ref;
		return true;
	}
	return true;
}

/*
 * Writes the stack at E, of which NODE is known, behind the last one in the log. Returns its ref;
 * 0: it leads out of R, the range that it starts in, or has too many words.
 */
static uint32_t whole_write(struct wire_thread *t, struct wire_big *b, const struct wire_range *r,
			    const struct entry *e, uint32_t node)
{
	const struct wire_frame *l = &b->last[t->depth - 1];
	uint64_t start = (uint64_t)&e->ra, reach = 0, *slots, *value;
	uint32_t words = l->checks + l->own_checks, fours = (words + 3) & ~3u, ref = b->logged + 1,
		 room = t->big <= WIRE_WHOLE_RINGS ? WIRE_WHOLE_LOG : WIRE_WHOLE_LOG / 4;
	struct wire_whole *m = whole_at(b, ref);

	if (!words || words > WIRE_WHOLE_WORDS)
		return 0;
	if (ref * WIRE_WHOLE_UNIT + WIRE_WHOLE_HEAD + fours / 4 + fours > room) {
		whole_full(b);
		return 0;
	}
	*m = (struct wire_whole){ .slot = start,
				  .pc = e->ra,
				  .rbp = e->reg[WIRE_RBP],
				  .node = node,
				  .words = (uint16_t)fours,
				  .needs_rbp = (l->needs & NEEDS_RBP) != 0,
				  .truncated = t->base_truncated != 0 };
	slots = whole_offsets(m);
	value = whole_values(m);
	for (uint32_t i = 0; i < fours; i++) {
		/* the outermost one again until there are four */
		const struct wire_check *c = &b->check[i < words ? words - 1 - i : 0];
		uint64_t word = (c->slot - start) / 8;

		if (c->slot & 7 || c->slot - start >= r->hi - start || word >= FORK_RBP)
			return 0;
		reach = word > reach ? word : reach;
		slots[i / 4] = (i & 3 ? slots[i / 4] : 0) | word << 16 * (i & 3);
		value[i] = c->value;
	}
	m->reach = (uint16_t)reach;
	b->logged = ref + (WIRE_WHOLE_HEAD + fours / 4 + fours - 1) / WIRE_WHOLE_UNIT;
	__asm__ volatile("" ::: "memory");
	return ref;
}

/* Keeps the stack that was just walked, NODE, as a whole. R: the range of E. */
static noinline void whole_keep(struct wire_thread *t, struct wire_big *b,
				const struct wire_range *r, const struct entry *e, uint32_t node)
{
	struct wire_start *s = whole_start(b, e);
	uint32_t ref = s->ref;

	if (whole_is(whole_candidate(b, ref, r, e), r, e)) { /* it was passed by */
		s->luck = WHOLE_LUCK;
		return;
	}
	if (!ref)
		s->luck = WHOLE_LUCK;
	ref = whole_write(t, b, r, e, node);
	if (ref && !whole_link(b, &s->ref, ref))
		whole_full(b);
}

/* Keeps a stack the second time that it is walked: of many programs most stacks are seen once. */
static inline void whole_seen(struct wire_thread *t, struct wire_big *b, const struct wire_range *r,
			      const struct entry *e, uint32_t node)
{
	uint32_t *seen = &b->whole_seen[node * 0x9e3779b1u >> 23];

	_Static_assert(WIRE_WHOLE_SEEN == 1u << (32 - 23), "the hash fits");
	if (unlikely(b->rest))
		b->rest--;
	else if (*seen != node)
		*seen = node;
	else if (t->depth)
		whole_keep(t, b, r, e, node);
}

#endif
