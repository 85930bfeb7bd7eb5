// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/arena.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/*
 * A private anonymous mapping that is doubled with mremap(2). Once it is large it is kept aligned
 * to 2 MiB: huge pages need that, and so does moving it by whole page tables. Nothing is ever given
 * back but all of it.
 */

#define HUGE_PAGE   (2u << 20)
#define ARENA_LEAST (64u << 10)

#ifdef __SANITIZE_THREAD__ /* it does not see what mremap(2) does */
static void *move_to(void *base, size_t size, size_t wanted, void *room)
{
	if (mprotect(room, wanted, PROT_READ | PROT_WRITE))
		return MAP_FAILED;
	memcpy(room, base, size);
	munmap(base, size);
	return room;
}

static void *move(void *base, size_t size, size_t wanted)
{
	void *room =
		mmap(NULL, wanted, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return room == MAP_FAILED ? room : move_to(base, size, wanted, room);
}
#else
static void *move_to(void *base, size_t size, size_t wanted, void *room)
{
	return mremap(base, size, wanted, MREMAP_MAYMOVE | MREMAP_FIXED, room);
}

static void *move(void *base, size_t size, size_t wanted)
{
	return mremap(base, size, wanted, MREMAP_MAYMOVE);
}
#endif

/* A free range of SIZE bytes on a 2 MiB boundary: a larger reservation, cut on both sides. */
static void *reserve_aligned(size_t size)
{
	uint8_t *p = mmap(NULL, size + HUGE_PAGE, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	size_t head = -(uintptr_t)p & (HUGE_PAGE - 1);
	if (head)
		munmap(p, head);
	munmap(p + head + size, HUGE_PAGE - head);
	return p + head;
}

static void *grow_aligned(void *base, size_t size, size_t wanted)
{
	void *p;
	if (!((uintptr_t)base & (HUGE_PAGE - 1))) {
		p = mremap(base, size, wanted, 0);
		if (p != MAP_FAILED)
			return p;
	}
	void *room = reserve_aligned(wanted);
	if (!room)
		return NULL;
	p = move_to(base, size, wanted, room);
	if (p == MAP_FAILED) {
		munmap(room, wanted);
		return NULL;
	}
	return p;
}

int arena_reach(struct arena *a, size_t bytes)
{
	if (bytes <= a->size)
		return 0;
	if (bytes > SIZE_MAX / 4)
		return -ENOMEM;
	size_t wanted = a->size ? a->size : ARENA_LEAST;
	while (wanted < bytes)
		wanted *= 2;

	void *p;
	if (!a->base) {
		p = wanted >= ARENA_HUGE ? reserve_aligned(wanted) : NULL;
		if (p && mprotect(p, wanted, PROT_READ | PROT_WRITE)) {
			munmap(p, wanted);
			return -ENOMEM;
		}
		if (!p)
			p = mmap(NULL, wanted, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (p == MAP_FAILED)
			return -ENOMEM;
	} else if (wanted >= ARENA_HUGE) {
		p = grow_aligned(a->base, a->size, wanted);
		if (!p)
			return -ENOMEM;
	} else {
		p = move(a->base, a->size, wanted);
		if (p == MAP_FAILED)
			return -ENOMEM;
	}
	a->base = p;
	a->size = wanted;
	if (wanted >= ARENA_HUGE)
		/* a wish: without it everything still holds */
		madvise(p, wanted, MADV_HUGEPAGE);
	return 0;
}

int arena_copy(struct arena *to, const struct arena *from, size_t used)
{
	if (!used)
		return 0;
	int err = arena_reach(to, used);
	if (err)
		return err;
	memcpy(to->base, from->base, used);
	return 0;
}

void arena_release(struct arena *a)
{
	if (a->base)
		munmap(a->base, a->size);
	a->base = NULL;
	a->size = 0;
}
