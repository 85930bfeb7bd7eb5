// SPDX-License-Identifier: GPL-3.0-or-later
#include "process/preattach_heap.h"

#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/maps.h"
#include "base/patient.h"
#include "base/proc.h"
#include "base/search.h"
#include "process/process.h"
#include "process/usable_rule.h"
#include "symbols/elf.h"
#include "symbols/module.h"

/*
 * preattach_heap.c - how much of glibc's heap is in use, found by walking it.
 *
 * glibc knows what it has from the system, for each arena and for blocks that are mappings of their
 * own. It does not know what it has handed out: mallinfo2() adds up what is free, and so do we, but
 * by walking all chunks in order of address, in large reads, for its lists of free chunks change
 * under our hands while the process runs, and would cost a system call a chunk. (Each read waits
 * for the lock that its threads' mmap() and mprotect() take, and of many threads' arenas most are
 * small: such a one is read once, and all that is asked of it is answered from there.) Chunks
 * follow each other without a gap; whether one is in use says its successor:
 *
 *      | previous | size |A|M|P|  block ...  | previous | size |A|M|P| ...
 *
 * P: the chunk before is in use
 *
 *  - The main arena is one region made by brk, from mp_.sbrk_base to its top chunk. If somebody
 *    else moves the break, two fences (chunks of 16) stand before the gap, and the walk goes on
 *    behind it where a row of chunks makes sense again.
 *  - A thread's arena consists of heaps, aligned to their greatest size, the newest of which has
 *    the top chunk; each names the one before. An older heap ends with a fence and a chunk of 0.
 *  - Small free chunks (fast bins) look as if they were in use: their lists are followed.
 *
 * main_arena and mp_ have no exported names. In libc's data they are recognised by what they hold:
 * 127 pairs of list heads of which the empty ones point to themselves, and a ring of arenas; the
 * beginning of the break beside two sums of whole pages.
 */

#define WINDOW	 (4u << 20) /* most arenas are in one, with their fast bins */
#define ARENAS	 65536u	    /* more than that is no ring */
#define BINS	 127u
#define FASTBINS 10u
#define TRIES	 4		/* of an arena that goes while it is walked */
#define LONGEST	 8000000000ull	/* ns of our thread's own; 1 GB takes half a second */
#define SLOWEST	 15000000000ull /* ns on the clock, where all are waited for */
/* chunks that must make sense for a walk to begin in the unknown */
#define CHAIN 12u
/* a heap's greatest size, unless a tunable says that they consist of huge pages */
#define HEAP (64u << 20)

#define IN_USE 1ull /* the flags in a chunk's size; IN_USE: of the one before */
#define FLAGS  7ull
#define FENCE  16u
#define LEAST  32u

/* struct malloc_state, from its fast bins on; what is before them differs between versions. */
struct state {
	uint64_t fast[FASTBINS];
	raddr_t top;
	uint64_t last_remainder;
	raddr_t bin[BINS][2];
	uint32_t binmap[4];
	raddr_t next, next_free;
	uint64_t attached, system, most_system;
};
_Static_assert(sizeof(struct state) == 2184, "as glibc has it from 2.23 on");

/* struct heap_info */
struct heap {
	raddr_t arena, previous;
	uint64_t size;
};

struct deadline { /* ns */
	uint64_t thread, clock;
};

static struct deadline deadline_begin(void)
{
	return (struct deadline){ clock_thread_ns() + LONGEST, clock_ns() + SLOWEST };
}

static bool is_over(const struct deadline *d)
{
	return clock_thread_ns() > d->thread || clock_ns() > d->clock;
}

struct walk {
	const struct preattach_memory *memory;
	struct deadline until;
	uint8_t *window;
	raddr_t at; /* of the window */
	size_t have;
	uint64_t free, blocks;
	void (*meanwhile)(void *ctx);
	void *ctx;
	struct finding *found; /* where the chunks go; NULL: they are only counted */
};

struct finding { /* all chunks that are in use, or look so; and of these those that are free */
	struct preattach_block *block;
	size_t count, room;
	raddr_t *free;
	size_t frees, free_room;
	bool failed; /* out of memory */
};

static void found_block(struct walk *w, raddr_t chunk, uint64_t size)
{
	struct finding *f = w->found;

	if (!f)
		return;
	if (array_room(&f->block, f->count, &f->room, sizeof(*f->block)))
		f->failed = true;
	else
		f->block[f->count++] = (struct preattach_block){ chunk + 16, size - 8 };
}

static void found_free(struct walk *w, raddr_t chunk)
{
	struct finding *f = w->found;

	if (!f)
		return;
	if (array_room(&f->free, f->frees, &f->free_room, sizeof(*f->free)))
		f->failed = true;
	else
		f->free[f->frees++] = chunk + 16;
}

static ssize_t read_process(void *ctx, raddr_t at, void *buf, size_t len)
{
	return patient_read_wide(*(const pid_t *)ctx, at, buf, len);
}

static bool read_all(const struct preattach_memory *m, raddr_t at, void *buf, size_t len)
{
	return m->read(m->ctx, at, buf, len) == (ssize_t)len;
}

/* The window is moved to AT. -EFAULT: not 16 bytes can be read there. */
static int look_at(struct walk *w, raddr_t at, size_t len)
{
	ssize_t n = w->memory->read(w->memory->ctx, at, w->window, len < WINDOW ? len : WINDOW);

	w->at = at;
	w->have = n < 0 ? 0 : (size_t)n;
	return w->have < 16 ? -EFAULT : 0;
}

static bool in_window(const struct walk *w, raddr_t at, void *out, size_t len)
{
	if (at < w->at || at - w->at > w->have || len > w->have - (at - w->at))
		return false;
	memcpy(out, w->window + (at - w->at), len);
	return true;
}

static bool get(const struct walk *w, raddr_t at, void *out, size_t len)
{
	return in_window(w, at, out, len) || read_all(w->memory, at, out, len);
}

/* ---- chunks -------------------------------------------------------------- */

/*
 * The chunk at AT: its two words, from the window, which is moved there if it is elsewhere. 0,
 * -ETIME, -EFAULT.
 */
static int chunk(struct walk *w, raddr_t at, raddr_t end, uint64_t word[2])
{
	if (in_window(w, at, word, 16))
		return 0;
	if (is_over(&w->until))
		return -ETIME;
	if (w->meanwhile)
		w->meanwhile(w->ctx);
	return look_at(w, at, end + 16 - at) < 0 || !in_window(w, at, word, 16) ? -EFAULT : 0;
}

static bool sensible(uint64_t size, raddr_t at, raddr_t end)
{
	return size >= LEAST && !(size & 8) && size <= end - at;
}

/* Whether a row of chunks begins at AT. 1, 0 or -errno. */
static int begins(struct walk *w, raddr_t at, raddr_t end)
{
	uint64_t word[2], size = 0;
	int err;

	for (unsigned i = 0; i < CHAIN && at < end; i++) {
		err = chunk(w, at, end, word);
		if (err)
			return err;
		if (i && !(word[1] & IN_USE) && word[0] != size)
			return 0;
		size = word[1] & ~FLAGS;
		if (!sensible(size, at, end))
			return 0;
		at += size;
	}
	return 1;
}

/* The next place from AT on where a row of chunks begins, or END. */
static int find(struct walk *w, raddr_t *at, raddr_t end)
{
	int err = 0;

	for (; *at < end && !err; *at += 16) {
		err = begins(w, *at, end);
		if (err > 0)
			return 0;
	}
	return err;
}

/*
 * All chunks of [AT, END); the one at END is known to be a chunk, too, or a fence. Adds to w->free
 * and w->blocks.
 */
static int walk(struct walk *w, raddr_t at, raddr_t end)
{
	uint64_t word[2], size = 0;
	bool fresh = false; /* the word was read just now */
	int err;

	while (at <= end) {
		err = chunk(w, at, end, word);
		if (err)
			return err;
		if (size && word[1] & IN_USE) {
			w->blocks++;
			found_block(w, at - size, size);
		} else
			w->free += size;
		if (at == end)
			return 0;
		size = word[1] & ~FLAGS;
		if (sensible(size, at, end)) {
			at += size;
			fresh = false;
		} else if (size == FENCE && at + FENCE == end) {
			return 0;
		} else if (size > end - at && !(size & 8) && at + size < end + (64u << 20)) {
			w->free += end - at; /* the top has come down to here meanwhile */
			return 0;
		} else if (!fresh) {
			w->have = 0; /* a chunk that changed while we came: once more */
			fresh = true;
			size = 0;
		} else {
			at += FENCE;
			size = 0;
			err = find(w, &at, end);
			if (err)
				return err;
			fresh = false;
		}
	}
	return 0;
}

/* ---- fast bins ----------------------------------------------------------- */

struct pages { /* the last pages that were looked at */
	raddr_t at[64];
	uint8_t byte[64][PAGE];
};

static bool cached(const struct walk *w, struct pages *p, raddr_t at, void *out, size_t len)
{
	raddr_t page = page_down(at);
	size_t i = (page / PAGE) % 64;

	if (in_window(w, at, out, len)) /* walked last */
		return true;
	if (at - page > PAGE - len)
		return read_all(w->memory, at, out, len);
	if (p->at[i] != page) {
		p->at[i] = 0;
		if (!read_all(w->memory, page, p->byte[i], PAGE))
			return false;
		p->at[i] = page;
	}
	memcpy(out, p->byte[i] + (at - page), len);
	return true;
}

/* Whether AT is a chunk of SIZE; its words. */
static bool is_chunk(const struct walk *w, struct pages *p, raddr_t at, uint64_t size,
		     uint64_t word[3])
{
	return at && !(at & 15) && cached(w, p, at, word, 3 * sizeof(*word)) &&
	       (word[1] & ~FLAGS) == size;
}

/*
 * A list of free chunks of SIZE that begins at AT. From 2.32 on a link is hidden by its own
 * address. A chunk that was taken meanwhile ends the list. Pages that were read at different
 * instants can make it a ring: -EAGAIN. (Each power of two of steps it is noted where the walk is,
 * which comes there again then.)
 */
static int follow(struct walk *w, struct pages *p, raddr_t at, uint64_t size)
{
	uint64_t word[3], next[3];
	raddr_t noted = 0;

	if (!is_chunk(w, p, at, size, word))
		return 0;
	for (unsigned i = 1; i < 1u << 24; i++) {
		raddr_t shown = word[2] ^ (at + 16) >> 12;

		if (at == noted)
			return -EAGAIN;
		if (!(i & (i - 1)))
			noted = at;
		if (i % 1024 == 0 && is_over(&w->until))
			return -ETIME;
		w->free += size;
		w->blocks -= w->blocks > 0;
		found_free(w, at);
		if (is_chunk(w, p, shown, size, next))
			at = shown;
		else if (is_chunk(w, p, word[2], size, next))
			at = word[2];
		else
			return 0;
		memcpy(word, next, sizeof(word));
	}
	return 0;
}

static int walk_fast(struct walk *w, const struct state *state)
{
	struct pages *p = calloc(1, sizeof(*p));
	int err = p ? 0 : -ENOMEM;

	for (unsigned i = 0; i < FASTBINS && !err; i++)
		err = follow(w, p, state->fast[i], LEAST + 16 * i);
	free(p);
	return err;
}

/* ---- recognising --------------------------------------------------------- */

struct allocator {
	raddr_t main;	 /* main_arena's struct state */
	unsigned prefix; /* bytes of struct malloc_state before it */
	raddr_t sbrk_base;
	uint64_t mappings, mapped; /* blocks that are mappings of their own, and their bytes */
};

/* A part of the module's data, copied. */
struct data {
	raddr_t base;
	const struct preattach_memory *memory;
	struct deadline until;
	uint8_t *byte;
	size_t len;
};

static uint64_t word_at(const struct data *d, size_t at)
{
	uint64_t word;

	memcpy(&word, d->byte + at, sizeof(word));
	return word;
}

static uint32_t int_at(const struct data *d, size_t at)
{
	uint32_t value;

	memcpy(&value, d->byte + at, sizeof(value));
	return value;
}

/* From the arena whose state is at FROM through the others and back. */
static bool is_ring(const struct data *d, raddr_t from, raddr_t next, unsigned prefix)
{
	for (unsigned i = 0; i < ARENAS && !is_over(&d->until); i++) {
		if (next == from - prefix)
			return true;
		if (!next || next & 7 ||
		    !read_all(d->memory, next + prefix + offsetof(struct state, next), &next,
			      sizeof(next)))
			return false;
	}
	return false;
}

static bool is_state(const struct data *d, size_t at, unsigned *prefix)
{
	struct state s;

	memcpy(&s, d->byte + at, sizeof(s));
	for (unsigned i = 0; i < BINS; i++) {
		raddr_t own = d->base + at + offsetof(struct state, bin) + 16 * i - 16;

		if (s.bin[i][0] == own
			    ? s.bin[i][1] != own
			    : !s.bin[i][0] || !s.bin[i][1] || (s.bin[i][0] | s.bin[i][1]) & 15)
			return false;
	}
	if (!s.top || s.top & 15 || s.most_system < s.system)
		return false;
	*prefix = 16; /* mutex, flags, have_fastchunks */
	if (is_ring(d, d->base + at, s.next, *prefix))
		return true;
	*prefix = 8; /* before 2.27 */
	return is_ring(d, d->base + at, s.next, *prefix);
}

static bool find_main(struct allocator *a, const struct data *d)
{
	size_t first = offsetof(struct state, bin);

	for (size_t at = first; at + 16 <= d->len; at += 8) {
		raddr_t own = d->base + at - 16;

		if (word_at(d, at) != own || word_at(d, at + 8) != own)
			continue;
		for (unsigned i = 0; i < BINS && first + 16 * i <= at; i++) {
			size_t begin = at - 16 * i - first;

			if (begin + sizeof(struct state) <= d->len &&
			    is_state(d, begin, &a->prefix)) {
				a->main = d->base + begin;
				return true;
			}
		}
	}
	return false;
}

#define MMAPS_MAX 65536u /* n_mmaps_max, unless mallopt(3) has changed it */

/*
 * The part of mp_ around sbrk_base; the four numbers are 4 bytes each and in versions from 2.35 on
 * begin 4 bytes earlier:
 *
 *	n_mmaps | n_mmaps_max | max_n_mmaps | no_dyn_threshold | (4 bytes) | mmapped_mem |
 *	max_mmapped_mem | sbrk_base
 */
static bool is_parameters(struct allocator *a, const struct data *d, size_t at, unsigned numbers,
			  const struct state *main)
{
	uint64_t base = word_at(d, at), most = word_at(d, at - 8), mapped = word_at(d, at - 16);
	uint32_t n = int_at(d, at - numbers), n_max = int_at(d, at - numbers + 4),
		 n_most = int_at(d, at - numbers + 8);

	if ((most | mapped) & (PAGE - 1) || mapped > most || n > n_most || n_most > n_max ||
	    !n != !mapped || mapped / PAGE < n)
		return false;
	if (main->system ? base > main->top || main->top - base > main->system : base != 0)
		return false;
	if (n_max != MMAPS_MAX && (!base || base & (PAGE - 1)))
		return false;
	a->sbrk_base = base;
	a->mappings = n;
	a->mapped = mapped;
	return true;
}

static bool find_parameters(struct allocator *a, const struct data *d)
{
	struct state main;

	memcpy(&main, d->byte + (a->main - d->base), sizeof(main));
	for (size_t at = 40; at + 8 <= d->len; at += 8)
		if (is_parameters(a, d, at, 36, &main) || is_parameters(a, d, at, 32, &main))
			return true;
	return false;
}

#define MOST_DATA (256u << 20)

static const char no_arena[] = "malloc's main arena was not found in it";

/* In one of M's writable segments. */
static const char *find_allocator(struct allocator *a, const struct module *m, const struct walk *w)
{
	const struct elf_segment *segment;
	size_t n = elf_segments(m->elf, &segment);
	bool found = false, parameters = false;

	for (size_t i = 0; i < n && !found; i++) {
		struct data d = { .base = m->bias + segment[i].vaddr,
				  .memory = w->memory,
				  .until = w->until,
				  .len = segment[i].filesz };

		if (segment[i].type != PT_LOAD || !(segment[i].flags & PF_W) || d.len > MOST_DATA ||
		    d.base & 7)
			continue;
		d.byte = malloc(d.len + 1);
		if (!d.byte)
			return "out of memory";
		found = read_all(d.memory, d.base, d.byte, d.len) && find_main(a, &d);
		parameters = found && find_parameters(a, &d);
		free(d.byte);
	}
	return parameters ? NULL
	       : found	  ? "malloc's own figures were not found in it"
			  : no_arena;
}

/* ---- arenas -------------------------------------------------------------- */

/* The heap of AT, a place in the arena ARENA; 0: there is none. */
static raddr_t heap_of(const struct walk *w, raddr_t at, raddr_t arena, struct heap *heap)
{
	uint64_t size = HEAP;

	for (unsigned i = 0; i < 16; i++, size = i == 1 ? 1u << 20 : size * 2) {
		raddr_t start = at & ~(size - 1);

		if (start && get(w, start, heap, sizeof(*heap)) && heap->arena == arena &&
		    !(heap->size & (PAGE - 1)) && heap->size <= size)
			return start;
	}
	return 0;
}

/* All heaps of the arena whose state S is at STATE, from the newest. */
static int walk_heaps(struct walk *w, const struct allocator *a, raddr_t state,
		      const struct state *s)
{
	raddr_t arena = state - a->prefix, end = s->top, at, own;
	struct heap heap;
	int err = 0;

	own = heap_of(w, arena, arena, &heap);
	at = heap_of(w, s->top, arena, &heap);
	if (!own || !at)
		return -EFAULT;
	for (unsigned i = 0; !err && i < ARENAS; i++) {
		raddr_t first = at == own ? state + sizeof(*s) : at + (arena - own);

		err = walk(w, (first + 15) & ~15ull, end);
		if (at == own || err)
			break;
		at = heap.previous;
		if (!at || !get(w, at, &heap, sizeof(heap)) || heap.arena != arena)
			return -EFAULT;
		end = at + heap.size - FENCE;
	}
	return err;
}

static const char *failure(int err)
{
	return err == -ETIME	? "its heap is too large to be walked in 8 s"
	       : err == -ENOMEM ? "out of memory"
	       : err == -ERANGE ? "its heap is not in one piece"
				: "its heap changed too fast";
}

/* Of the main arena all from sbrk_base to the break is its own, or it has had to make mappings. */
static int walk_main(struct walk *w, const struct allocator *a, const struct state *s, uint64_t top)
{
	uint64_t whole = s->top + top - a->sbrk_base,
		 off = whole > s->system ? whole - s->system : s->system - whole;

	if (off > s->system / 128 + PAGE)
		return -ERANGE;
	return walk(w, (a->sbrk_base + 15) & ~15ull, s->top);
}

/* What is in use of the arena whose state is at STATE. */
static int measure(struct preattach_heap *b, struct walk *w, const struct allocator *a,
		   raddr_t state, raddr_t *next)
{
	uint64_t top[2] = { 0 }, used;
	struct state s;
	int err;

	w->free = w->blocks = w->have = 0;
	if (state != a->main)
		look_at(w, state & ~(raddr_t)(HEAP - 1), WINDOW);
	if (!get(w, state, &s, sizeof(s)))
		return -EFAULT;
	*next = s.next;
	if (!s.system)
		return 0;
	if (!get(w, s.top, top, sizeof(top)))
		return -EFAULT;
	top[1] &= ~FLAGS;
	err = state == a->main ? walk_main(w, a, &s, top[1]) : walk_heaps(w, a, state, &s);
	if (!err)
		err = walk_fast(w, &s);
	if (err)
		return err;
	used = s.system - top[1] - w->free;
	if (used > s.system)
		return -EFAULT;
	b->bytes += used;
	b->blocks += w->blocks;
	return 0;
}

static const char *measure_all(struct preattach_heap *b, struct walk *w, const struct allocator *a)
{
	raddr_t state = a->main, next = 0;

	for (unsigned i = 0; i < ARENAS; i++) {
		int err = -EFAULT;

		for (unsigned try = 0; try < TRIES && err && err != -ETIME && err != -ENOMEM; try++)
			err = measure(b, w, a, state, &next);
		if (err)
			return failure(err);
		state = next + a->prefix;
		if (state == a->main)
			break;
	}
	b->bytes += a->mapped;
	b->blocks += a->mappings;
	return NULL;
}

/* ---- the blocks themselves ------------------------------------------------- */

/*
 * What a thread has freed last it keeps for itself, and it looks as if it were in use. Where, is in
 * a block of its own, the first that its thread has: how many of each size (16 bits each, 8 up to
 * 2.29), and where the first of them is. A link is hidden as those of fast bins are, but leads from
 * block to block.
 */
#define KEPT_SIZES 64u
#define KEPT_NEW   (KEPT_SIZES * (2 + 8)) /* bytes of it */
#define KEPT_OLD   (KEPT_SIZES * (1 + 8))

static unsigned kept_of(const uint8_t *kept, size_t len, unsigned i)
{
	return len == KEPT_NEW ? (unsigned)(kept[2 * i] | kept[2 * i + 1] << 8) : kept[i];
}

/* Follows the list of COUNT blocks of SIZE, with their words, that begins at AT. */
static bool follow_kept(struct walk *w, struct pages *p, raddr_t at, uint64_t size, unsigned count)
{
	uint64_t word[3], next[3];

	for (; count; count--) {
		raddr_t shown;

		if (!at || !is_chunk(w, p, at - 16, size, word))
			return false;
		if (w->found) /* the first time it is only looked whether it is one at all */
			found_free(w, at - 16);
		shown = word[2] ^ at >> 12;
		at = is_chunk(w, p, shown - 16, size, next) ? shown : word[2];
	}
	return true;
}

static bool is_kept(struct walk *w, struct pages *p, const uint8_t *kept, size_t len)
{
	for (unsigned i = 0; i < KEPT_SIZES; i++) {
		unsigned count = kept_of(kept, len, i);
		raddr_t first;

		memcpy(&first, kept + len - 8 * (KEPT_SIZES - i), sizeof(first));
		if (!first != !count || (count && !follow_kept(w, p, first, LEAST + 16 * i, count)))
			return false;
	}
	return true;
}

/* Whether BLOCK is one of those, whose blocks are free then. */
static bool take_kept(struct walk *w, struct pages *p, const struct preattach_block *block)
{
	struct finding *found = w->found;
	uint8_t kept[KEPT_NEW];
	size_t len = block->size == KEPT_NEW + 8   ? KEPT_NEW
		     : block->size == KEPT_OLD + 8 ? KEPT_OLD
						   : 0;
	bool is;

	if (!len || !get(w, block->address, kept, len))
		return false;
	w->found = NULL;
	is = is_kept(w, p, kept, len);
	w->found = found;
	return is && is_kept(w, p, kept, len);
}

/* The first block of the main arena is one of those, or they are not as we know them. */
static int take_all_kept(struct walk *w, raddr_t first)
{
	struct pages *p = calloc(1, sizeof(*p));
	int err = p ? -ENOTSUP : -ENOMEM;

	for (size_t i = 0; p && i < w->found->count; i++)
		if (take_kept(w, p, &w->found->block[i]) &&
		    w->found->block[i].address - first <= 32)
			err = 0;
	free(p);
	return err;
}

static int by_address(const void *a, const void *b)
{
	raddr_t x, y; /* is the first of a block, too */

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return x < y ? -1 : x > y;
}

/* What is free is taken out. */
static void settle(struct finding *f)
{
	size_t kept = 0;

	if (f->frees)
		qsort(f->free, f->frees, sizeof(*f->free), by_address);
	if (f->count)
		qsort(f->block, f->count, sizeof(*f->block), by_address);
	for (size_t i = 0; i < f->count; i++) {
		size_t at = SEARCH(k, f->frees, f->free[k] < f->block[i].address);

		if (at == f->frees || f->free[at] != f->block[i].address)
			f->block[kept++] = f->block[i];
	}
	f->count = kept;
}

static int walk_arenas(struct walk *w, const struct allocator *a)
{
	raddr_t state = a->main, next = 0;
	struct preattach_heap sum = { 0 };

	for (unsigned i = 0; i < ARENAS; i++) {
		int err = measure(&sum, w, a, state, &next);

		if (err)
			return err;
		state = next + a->prefix;
		if (state == a->main)
			return 0;
	}
	return -ENOTSUP;
}

ssize_t preattach_heap_blocks(const struct glibc_malloc *g, const struct preattach_memory *memory,
			      struct preattach_block **out)
{
	struct finding found = { 0 };
	struct walk w = { .memory = memory, .until = deadline_begin(), .found = &found };
	struct allocator a = { .prefix = (unsigned)(g->state_bytes - sizeof(struct state)),
			       .sbrk_base = g->first };
	int err;

	if (!g->state)
		return -ENOTSUP;
	a.main = g->state + a.prefix;
	w.window = malloc(WINDOW);
	err = w.window ? walk_arenas(&w, &a) : -ENOMEM;
	if (!err)
		err = take_all_kept(&w, g->first);
	if (!err && found.failed)
		err = -ENOMEM;
	settle(&found);
	free(w.window);
	free(found.free);
	if (err) {
		free(found.block);
		return err;
	}
	*out = found.block;
	return (ssize_t)found.count;
}

/* ---- what a process has ---------------------------------------------------- */

const struct module *preattach_heap_libc(const struct process *p)
{
	const struct module *libc = NULL;

	for (size_t i = 0; i < p->modules.count; i++) {
		const struct module *m = p->modules.module[i];

		if (m->dead == UINT32_MAX &&
		    (m->roles & MODULE_LIBC || (m->roles & MODULE_EXE && elf_is_static(m->elf))))
			libc = m;
	}
	return libc;
}

bool preattach_heap_find(const struct module *libc, pid_t via, struct glibc_malloc *to)
{
	struct preattach_memory memory = { read_process, &via };
	struct walk w = { .memory = &memory, .until = deadline_begin() };
	struct allocator a = { 0 };

	if (find_allocator(&a, libc, &w))
		return false;
	*to = (struct glibc_malloc){ .state = a.main - a.prefix,
				     .state_bytes = a.prefix + sizeof(struct state),
				     .first = a.sbrk_base };
	return true;
}

/* The first call of malloc makes the arena, and its heap behind the program. */
static bool has_heap(pid_t pid)
{
	struct maps maps;
	bool has = false;

	if (maps_read(&maps, pid) < 0)
		return true;
	for (size_t i = 0; i < maps.count && !has; i++)
		has = !strcmp(maps.map[i].path, "[heap]");
	maps_release(&maps);
	return has;
}

/* Once its allocator is found P is not asked any more. */
void preattach_heap_measure(struct preattach_heap *b, const struct process *p,
			    void (*meanwhile)(void *ctx), void *ctx)
{
	pid_t via = p->via;
	struct preattach_memory memory = { read_process, &via };
	struct walk w = {
		.memory = &memory, .until = deadline_begin(), .meanwhile = meanwhile, .ctx = ctx
	};
	struct allocator a = { 0 };
	const char *why = NULL;
	struct load_order order;
	struct usable rule;

	*b = (struct preattach_heap){ .state = PREATTACH_UNKNOWN };
	load_order_begin(&order, p);
	load_order_read(&order);
	usable_init(&rule, p, &order);
	load_order_release(&order);
	if (rule.rule == USABLE_UNKNOWN)
		why = rule.why;
	else if (rule.rule != USABLE_GLIBC)
		why = "its allocator is not glibc's";
	else if (!preattach_heap_libc(p))
		why = "it has become another program";
	else
		why = find_allocator(&a, preattach_heap_libc(p), &w);
	w.window = why ? NULL : malloc(WINDOW);
	if (why == no_arena && !has_heap(via)) { /* it has never allocated */
		b->state = PREATTACH_KNOWN;
		return;
	}
	if (!why)
		why = w.window ? measure_all(b, &w, &a) : "out of memory";
	free(w.window);
	if (why)
		*b = (struct preattach_heap){ .state = PREATTACH_UNKNOWN };
	else
		b->state = PREATTACH_KNOWN;
	snprintf(b->why, sizeof(b->why), "%s", why ? why : "");
}
