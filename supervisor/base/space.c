// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/space.h"

#include <sys/mman.h>

/*
 * space.c - one mapping after the other in a part of mtrun's address space where the kernel puts
 * nothing by itself: it fills the top first.
 */

#ifdef __SANITIZE_THREAD__
/* it takes no other addresses for a program's; libraries and stacks are above */
#define FIRST 0x7e9000000000ull
#define LAST  0x7fd000000000ull
#else
/* above what sanitizers use, far below libraries and stacks */
#define FIRST (1ull << 45)
#define LAST  (5ull << 44)
#endif
#define GAP   (1ull << 30)
#define TRIES 64

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* Addresses are used again only when all have been; those that are in use then are passed over. */
static uint64_t next(size_t span)
{
	static uint64_t at = FIRST;
	uint64_t found;

	if (at + span > LAST)
		at = FIRST;
	found = at;
	at += (span + 2 * GAP - 1) / GAP * GAP;
	return found;
}

void *space_map(int fd, uint64_t offset, size_t len, size_t span, size_t before)
{
	for (int i = 0; i < TRIES; i++) {
		uint64_t at = next(before + span);
		char *p = mmap((void *)at, before + len, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
			       -1, 0);

		if (p == MAP_FAILED)
			continue;
		if (mmap(p + before, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
			 (off_t)offset) != MAP_FAILED)
			return p + before;
		munmap(p, before + len);
		return NULL;
	}
	return NULL;
}

bool space_extend(void *at, size_t len, size_t more)
{
	return mremap((char *)at + len - PAGE, PAGE, PAGE + more, 0) != MAP_FAILED;
}

#define TOUCH_LEAST (16u << 10) /* less is not worth a call */

void space_touch(void *at, size_t len)
{
	uint64_t from = (uint64_t)at & ~4095ull, to = ((uint64_t)at + len + 4095) & ~4095ull;

	if (len >= TOUCH_LEAST)
		madvise((void *)from, to - from, MADV_POPULATE_WRITE);
}
