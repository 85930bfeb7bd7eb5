/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "process/usable.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/elf.h"
#include "process/process.h"
#include "base/proc.h"

/*
 * glibc keeps the size of a block's chunk in the word before it:
 *
 *	       | previous | head            | the block ...        | previous | head
 *	       +----------+-----------------+----------------------+----------+------
 *	chunk -^          | size | A | M | P|^- address            ^- the block may use this word too, unless it is M
 *
 * M: a mapping of its own, which began `previous` bytes before the chunk. These words are read in large pieces, because a system call for each
 * block would take seconds. The program may run meanwhile, and free the block or resize it: then the words can be anything, and one that such
 * a block cannot have counts for nothing; the block is taken as malloc would have made it.
 *
 * jemalloc's size classes are documented: multiples of 16 up to 128, then four for each doubling. Blocks asked for with an alignment may be in a
 * larger class than their size tells; their alignment is not in the ledger, and they are taken as if it had not been asked for.
 *
 * The others: tcmalloc and mimalloc leave a block in its class when realloc makes it smaller, so that its size does not tell the class, and
 * where they keep it is nobody's business but theirs. musl has it in a form that only its own version can read.
 */

/* ---- the rules ------------------------------------------------------------------------------------------------------------------- */

#define GLIBC_MAPPED   2u
#define GLIBC_FLAGS    7u
#define GLIBC_LEAST    32u		/* bytes of the smallest chunk: what is left over is part of a block up to this much */
#define GLIBC_PAGE     4096u
#define GLIBC_HUGE     (2u << 20)	/* mappings are rounded up to that by a tunable */

uint64_t usable_glibc(raddr_t address, uint64_t size, uint64_t previous, uint64_t head)
{
	uint64_t usual = (size + 8 + 15) & ~15ull, chunk = head & ~(uint64_t)GLIBC_FLAGS, aligned = address & -address;

	if (usual < GLIBC_LEAST)
		usual = GLIBC_LEAST;
	if (aligned == 16)
		aligned = 0;		/* every block is */
	if (head & GLIBC_MAPPED) {
		bool whole = !((address - 16 - previous) % GLIBC_PAGE) && !((previous + chunk) % GLIBC_PAGE);

		if (whole && chunk >= size + 16 && chunk - size - 16 <= aligned + GLIBC_PAGE + GLIBC_HUGE)
			return chunk - 16;
	} else if (!(chunk & 15) && chunk >= usual && chunk - usual <= aligned + GLIBC_LEAST) {
		return chunk - 8;
	}
	return usual - 8;
}

uint64_t usable_jemalloc(uint64_t size)
{
	unsigned log;
	uint64_t step = 16;

	if (size <= 8)
		return 8;
	log = 63 - (unsigned)__builtin_clzll(size * 2 - 1);	/* size is in (2^(log-1), 2^log] */
	if (log > 7)
		step = 1ull << (log - 3);
	return (size + step - 1) & ~(step - 1);
}

/* ---- whose rule it is --------------------------------------------------------------------------------------------------------------- */

static bool defines(const struct module *m, const char *name)
{
	struct elf_symbol symbol;
	size_t cursor = 0;

	return elf_find(m->elf, name, &cursor, &symbol);
}

static const char *base_name(const struct module *m)
{
	const char *slash = strrchr(m->path, '/');

	return slash ? slash + 1 : m->path;
}

static raddr_t dynamic_section(const struct module *exe)
{
	const struct elf_segment *segment;
	size_t n = elf_segments(exe->elf, &segment);

	for (size_t i = 0; i < n; i++)
		if (segment[i].type == PT_DYNAMIC)
			return exe->bias + segment[i].vaddr;
	return 0;
}

/* The first of ld.so's list of what it has loaded; 0: none. */
static raddr_t first_loaded(const struct process *p, const struct module *exe)
{
	raddr_t at = dynamic_section(exe), first;
	Elf64_Dyn entry;

	for (unsigned i = 0; at && i < 256; i++, at += sizeof(entry)) {
		if (remote_read(p->via, at, &entry, sizeof(entry)) != sizeof(entry) || entry.d_tag == DT_NULL)
			return 0;
		if (entry.d_tag == DT_DEBUG)
			return remote_read(p->via, entry.d_un.d_ptr + 8, &first, 8) == 8 ? first : 0;
	}
	return 0;
}

/* Whether names are looked up in M before libc, so that the whole program's malloc is M's. */
static bool before_libc(const struct process *p, const struct module *exe, const struct module *m)
{
	struct { raddr_t bias, name, dynamic, next; } link;
	raddr_t at;

	if (m == exe)
		return true;
	at = first_loaded(p, exe);
	for (unsigned i = 0; at && i < 65536 && remote_read(p->via, at, &link, sizeof(link)) == sizeof(link); i++, at = link.next) {
		const struct module *here = modules_find(&p->modules, link.dynamic, UINT32_MAX);

		if (here == m)
			return true;
		if (here && here->roles & MODULE_LIBC)
			return false;
	}
	return false;
}

static bool is_jemalloc(const struct module *m)
{
	/* sdallocx came with these size classes */
	return defines(m, "malloc") && defines(m, "mallctl") && defines(m, "sdallocx");
}

static bool is_glibc(const struct module *m)
{
	if (m->roles & MODULE_LIBC)
		return !(m->roles & MODULE_LDSO);
	/* without names it was recognized by glibc's own code */
	return elf_is_static(m->elf) && (!elf_has_functions(m->elf) || defines(m, "_int_malloc") || defines(m, "__libc_mallopt"));
}

/* Functions that --hook named, or in a static program those of an allocator beside libc's. */
static bool has_own(const struct process *p, bool is_libcs)
{
	static const char *const prefix[] = { "je_", "_rjem_", "mi_", "tc_" };

	for (size_t i = 0; i < p->plant.count; i++) {
		const struct planted *f = &p->plant.planted[i];

		if (f->kind >= HOOK_GENERIC_MALLOC && f->kind < HOOK_KINDS)
			return true;
		for (size_t k = 0; is_libcs && k < sizeof(prefix) / sizeof(*prefix); k++)
			if (!strncmp(f->name, prefix[k], strlen(prefix[k])))
				return true;
	}
	return false;
}

static bool gone(const struct process *p)
{
	return p->state == PROCESS_EXITED || p->state == PROCESS_REPLACED || p->state == PROCESS_DETACHED;
}

/* NULL: the rule is known. */
static const char *reason(const struct process *p, const struct module *exe, const struct module *libc, const struct module *allocator, size_t allocators)
{
	if (gone(p))
		return "its memory cannot be read any more";
	if (!exe || !libc || p->unsupervised)
		return "its allocator is not known";
	if (allocators > 1 || (allocator && !before_libc(p, exe, allocator)))
		return "it has several allocators";
	if ((allocator ? is_jemalloc(allocator) : is_glibc(libc)) && has_own(p, !allocator))
		return "it has an allocator of its own";
	return NULL;
}

void usable_init(struct usable *u, const struct process *p)
{
	const struct module *exe = NULL, *libc = NULL, *allocator = NULL;
	const char *why;
	size_t allocators = 0;

	*u = (struct usable){ .process = p };
	for (size_t i = 0; i < p->modules.count; i++) {
		const struct module *m = p->modules.module[i];

		if (m->roles & MODULE_EXE)
			exe = m;
		if (m->roles & MODULE_LIBC || (m->roles & MODULE_EXE && elf_is_static(m->elf)))
			libc = m;
		if (m->roles & MODULE_ALLOCATOR) {
			allocator = m;
			allocators++;
		}
	}
	why = reason(p, exe, libc, allocator, allocators);
	if (why)
		snprintf(u->why, sizeof(u->why), "%s", why);
	else if (allocator ? is_jemalloc(allocator) : is_glibc(libc))
		u->rule = allocator ? USABLE_JEMALLOC : USABLE_GLIBC;
	else
		snprintf(u->why, sizeof(u->why), "the allocator in %.64s does not let it be told from outside", base_name(allocator ? allocator : libc));
}

/* ---- reading -------------------------------------------------------------------------------------------------------------------------- */

#define WINDOW (1u << 20)		/* bytes read at once: they stay in the cache until they are looked at */
#define SPANS  512u			/* in a window */
#define BLOCKS 16384u
#define PAGE   4096u			/* the ledger's; so many blocks at most begin in it */
#define GAP    1024u			/* to read this much more costs no more than another span */
#define WORDS  16u			/* before a block */

struct reader {
	const struct usable *u;
	int (*fn)(void *ctx, const struct ledger_block *b, uint64_t usable);
	void *ctx;
	struct remote_span span[SPANS];
	size_t spans, used;
	size_t blocks, first;		/* first: of the page whose blocks are being told */
	uint8_t *window;
	struct ledger_block *block;	/* those whose words will be in the window, */
	uint32_t *at;			/* and where */
};

/* What is usable of all that B stands for. */
static uint64_t in_all(const struct ledger_block *b, uint64_t usable)
{
	if (b->count == 1 && b->bytes == b->size)
		return usable;
	return b->size ? (uint64_t)((double)usable * (double)b->bytes / (double)b->size) : usable * b->count;
}

static int look(struct reader *r)
{
	int stop = 0;

	remote_read_spans(r->u->process->via, r->span, r->spans, r->window);
	for (size_t i = 0; i < r->blocks && !stop; i++) {
		uint64_t word[2];

		memcpy(word, r->window + r->at[i], sizeof(word));
		stop = r->fn(r->ctx, &r->block[i], in_all(&r->block[i], usable_glibc(r->block[i].address, r->block[i].size, word[0], word[1])));
	}
	r->spans = r->used = r->blocks = r->first = 0;
	return stop;
}

/* [FROM, TO), the words of the blocks of one page, become part of the window. */
static void reach(struct reader *r, raddr_t from, raddr_t to)
{
	struct remote_span *last = r->spans ? &r->span[r->spans - 1] : NULL;

	if (last && from >= last->address && from <= last->address + last->len + GAP) {
		if (to > last->address + last->len) {
			r->used += to - last->address - last->len;
			last->len = to - last->address;
		}
		return;
	}
	r->span[r->spans++] = (struct remote_span){ from, to - from };
	r->used += to - from;
}

/* The blocks of a page are all known. */
static void page_end(struct reader *r)
{
	raddr_t from = UINT64_MAX, to = 0;
	const struct remote_span *last;

	for (size_t i = r->first; i < r->blocks; i++) {
		from = r->block[i].address < from ? r->block[i].address : from;
		to = r->block[i].address > to ? r->block[i].address : to;
	}
	if (r->first == r->blocks)
		return;
	reach(r, from - WORDS, to);
	last = &r->span[r->spans - 1];
	for (; r->first < r->blocks; r->first++)
		r->at[r->first] = (uint32_t)(r->used - last->len + (r->block[r->first].address - WORDS - last->address));
}

/* Blocks come page by page. */
static int take(void *ctx, const struct ledger_block *b)
{
	struct reader *r = ctx;
	int stop = 0;

	if (b->mapping)
		return r->fn(r->ctx, b, b->size);
	if (r->first == r->blocks || r->blocks == BLOCKS || b->address >> 12 != r->block[r->first].address >> 12) {
		page_end(r);
		if (r->spans == SPANS || r->blocks > BLOCKS - PAGE || r->used > WINDOW - GAP - PAGE - WORDS)
			stop = look(r);
	}
	r->block[r->blocks++] = *b;
	return stop;
}

static int each_glibc(struct reader *r)
{
	int err = -ENOMEM;

	r->window = malloc(WINDOW);
	r->block = malloc(BLOCKS * sizeof(*r->block));
	r->at = malloc(BLOCKS * sizeof(*r->at));
	if (r->window && r->block && r->at)
		err = ledger_each_block(r->u->process->ledger, take, r);
	if (!err) {
		page_end(r);
		err = look(r);
	}
	free(r->window);
	free(r->block);
	free(r->at);
	return err;
}

static int compute(void *ctx, const struct ledger_block *b)
{
	struct reader *r = ctx;

	return r->fn(r->ctx, b, b->mapping ? b->size : in_all(b, usable_jemalloc(b->size)));
}

int usable_each(const struct usable *u, int (*fn)(void *ctx, const struct ledger_block *b, uint64_t usable), void *ctx)
{
	struct reader r = { .u = u, .fn = fn, .ctx = ctx };

	return u->rule == USABLE_GLIBC ? each_glibc(&r) : ledger_each_block(u->process->ledger, compute, &r);
}

static int add(void *ctx, const struct ledger_block *b, uint64_t usable)
{
	if (!b->mapping)
		*(uint64_t *)ctx += usable;
	return 0;
}

static int count_page(void *ctx, raddr_t page)
{
	(void)page;
	return --*(size_t *)ctx ? 0 : -EFBIG;
}

int usable_sum(const struct usable *u, size_t pages, uint64_t *sum)
{
	uint64_t total = 0;
	int err;

	pages++;
	if (u->rule == USABLE_UNKNOWN)
		return -ENOTSUP;
	err = ledger_each_page(u->process->ledger, count_page, &pages);
	if (!err)
		err = usable_each(u, add, &total);

	if (!err)
		*sum = total;
	return err;
}
