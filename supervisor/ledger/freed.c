// SPDX-License-Identifier: GPL-3.0-or-later
#include "ledger/freed.h"

#include <string.h>
#include <sys/mman.h>

/*
 * Programs free few addresses very often, and what is asked for is mostly one that was freed once
 * and then used again by mistake. So it is not the last N releases that are kept but the last one
 * of each address, in a table of small sets; a busy address takes one place. Most processes release
 * few blocks with a stack, so the table is made of small pages, which come when they are used.
 */
#define FREED_BYTES (sizeof(struct freed_block) * FREED_SETS * FREED_WAYS)

void freed_release(struct freed *f)
{
	if (f->block)
		munmap(f->block, FREED_BYTES);
	*f = (struct freed){ 0 };
}

static struct freed_block *make(void)
{
	void *block =
		mmap(NULL, FREED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (block == MAP_FAILED)
		return NULL;
	madvise(block, FREED_BYTES, MADV_NOHUGEPAGE);
	return block;
}

static struct freed_block *set_of(const struct freed *f, raddr_t addr)
{
	return f->block + ((addr >> 4) * 0x9e3779b97f4a7c15ull >> 48) % FREED_SETS * FREED_WAYS;
}

void freed_add(struct freed *f, const struct freed_block *b)
{
	struct freed_block *set;
	unsigned i;

	if (!f->block)
		f->block = make();
	if (!f->block)
		return;
	set = set_of(f, b->address);
	f->used += !set->address;
	for (i = 0; i < FREED_WAYS - 1 && set[i].address != b->address; i++)
		;
	memmove(set + 1, set, i * sizeof(*set));
	set[0] = *b;
}

static bool held(const struct freed_block *b, raddr_t addr)
{
	return b->address &&
	       (addr == b->address || (addr > b->address && addr - b->address < b->size));
}

const struct freed_block *freed_find(const struct freed *f, raddr_t addr)
{
	const struct freed_block *best = NULL;

	for (size_t i = 0; f->block && i < FREED_SETS * FREED_WAYS; i++) {
		const struct freed_block *b = &f->block[i];

		if (held(b, addr) &&
		    (!best || b->freed_tick > best->freed_tick ||
		     (b->freed_tick == best->freed_tick && b->address > best->address)))
			best = b;
	}
	return best;
}

const struct freed_block *freed_at(const struct freed *f, raddr_t addr)
{
	const struct freed_block *set = f->block ? set_of(f, addr) : NULL;

	for (unsigned i = 0; set && i < FREED_WAYS; i++)
		if (set[i].address == addr)
			return &set[i];
	return NULL;
}

/* A page that no set in use lies in is not there. */
size_t freed_memory(const struct freed *f)
{
	size_t pages = f->used * PAGE;

	return pages < FREED_BYTES ? pages : FREED_BYTES;
}
