// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_protect.c - what a process may do with its mappings while their pages are protected, and
 * stop being so: a mapping that is touched then for the first time stays one.
 */
#include "memory/protect.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory/pages.h"
#include "test.h"

#define SLICE (32ull << 20) /* as in protect.c: bytes */
#define FRESH (64 * PAGE)
#define TRIES 60

static char *base,
	*fresh; /* all; and what is not touched yet, which is where the first slice ended */
static unsigned pause_us;

static void *touch(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < pause_us; i++)
		for (volatile unsigned spin = 0; spin < 100; spin++)
			;
	fresh[0] = 1;
	fresh[FRESH - 1] = 1;
	return NULL;
}

/* Of another kind than its neighbours, or it would be one with them. */
static void map_fresh(void)
{
	CHECK(mmap(fresh, FRESH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		   -1, 0) == fresh);
	CHECK_EQ(madvise(fresh, FRESH, MADV_DONTDUMP), 0);
	CHECK_EQ(madvise(fresh, FRESH, MADV_NOHUGEPAGE), 0);
}

static void protect_all(struct protect *p, const struct pages *pages)
{
	raddr_t start = (raddr_t)(uintptr_t)base, end = start + 2 * SLICE;
	struct page_run run[16];

	CHECK_EQ(protect_range(p, start, end), 0);
	for (raddr_t at = start; at < end;)
		if (pages_next(pages, &at, end, PAGES_PROTECT, run, sizeof(run) / sizeof(*run)) < 0)
			return;
}

/* It is one mapping still: only such can be moved. */
static bool is_one(void)
{
	char *to = mremap(fresh, FRESH, 2 * FRESH, MREMAP_MAYMOVE);

	if (to == MAP_FAILED)
		return false;
	munmap(to, 2 * FRESH);
	return true;
}

static void test_leave(void)
{
	struct pages pages = { .fd = -1 };
	unsigned split = 0;

	base = mmap(NULL, 2 * SLICE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(base != MAP_FAILED);
	CHECK_EQ(madvise(base, 2 * SLICE, MADV_NOHUGEPAGE), 0);
	for (size_t i = 0; i < 2 * SLICE; i += PAGE)
		base[i] = 1;
	fresh = base + SLICE - FRESH / 2;
	CHECK_EQ(pages_open(&pages, getpid()), 0);
	for (unsigned i = 0; i < TRIES; i++) {
		struct protect p;
		pthread_t toucher;

		map_fresh();
		CHECK_EQ(protect_init(&p, (int)syscall(SYS_userfaultfd,
						       O_CLOEXEC | O_NONBLOCK |
							       1 /* user mode only */)),
			 0);
		protect_all(&p, &pages);
		pause_us = i * 20;
		CHECK_EQ(pthread_create(&toucher, NULL, touch, NULL), 0);
		protect_leave(&p, &pages);
		pthread_join(toucher, NULL);
		protect_release(&p);
		split += !is_one();
	}
	CHECK_EQ(split, 0);
	pages_close(&pages);
	munmap(base, 2 * SLICE);
}

int main(void)
{
	if (protect_is_possible())
		RUN(test_leave);
	else
		printf("# this kernel cannot protect pages\n");
	return test_status();
}
