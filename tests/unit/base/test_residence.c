// SPDX-License-Identifier: GPL-3.0-or-later
/* Which pages of ours are in memory, by each of the two ways; and that holes cost nothing. */
#include <sys/mman.h>
#include <unistd.h>

#include "../../lib/zero_page.h"
#include "base/proc.h"
#include "base/residence.h"
#include "test.h"

#define PAGES 300u

struct seen {
	raddr_t start;
	unsigned kind[PAGES]; /* RESIDENCE_* + 1; 0: not told */
	unsigned wrong;
};

static void one(void *ctx, raddr_t start, raddr_t end, unsigned kind)
{
	struct seen *s = ctx;

	for (raddr_t at = start; at < end; at += PAGE) {
		size_t i = (at - s->start) / PAGE;

		if (at < s->start || i >= PAGES || s->kind[i])
			s->wrong++;
		else
			s->kind[i] = kind + 1;
	}
}

static void look(struct seen *s, const void *at, bool scan)
{
	struct residence r;

	*s = (struct seen){ .start = (uintptr_t)at };
	residence_begin(&r, getpid(), 1000000);
	CHECK(r.fd >= 0);
	r.no_scan |= !scan;
	residence_each(&r, s->start, s->start + PAGES * PAGE, RESIDENCE_ZERO | RESIDENCE_FILE, one,
		       s);
	CHECK(!r.late);
	CHECK_EQ(s->wrong, 0);
	residence_end(&r);
}

static bool can_scan(void)
{
	struct residence r;

	residence_begin(&r, getpid(), 1000000);
	residence_end(&r);
	return !r.no_scan;
}

/* Every third page is written, every third only read. */
static void test_pages(void)
{
	char *at = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			0);
	const bool zeros = has_zero_page();
	struct seen s;
	unsigned wrong = 0, sum = 0;

	madvise(at, PAGES * PAGE, MADV_NOHUGEPAGE);
	for (unsigned i = 0; i < PAGES; i++) {
		if (i % 3 == 0)
			at[i * PAGE] = 1;
		else if (i % 3 == 1)
			sum += (unsigned)*(volatile char *)&at[i * PAGE];
	}
	CHECK_EQ(sum, 0);
	for (int scan = 0; scan <= can_scan(); scan++) {
		look(&s, at, scan);
		for (unsigned i = 0; i < PAGES; i++)
			wrong += s.kind[i] != (i % 3 == 0      ? 1u
					       : i % 3 == 2    ? 0u
					       : scan && zeros ? RESIDENCE_ZERO + 1
							       : 1u);
	}
	CHECK_EQ(wrong, 0);
	munmap(at, PAGES * PAGE);
}

static void test_shared(void)
{
	char *at =
		mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct seen s;

	at[5 * PAGE] = 1;
	for (int scan = 0; scan <= can_scan(); scan++) {
		look(&s, at, scan);
		CHECK_EQ(s.kind[4], 0);
		CHECK_EQ(s.kind[5], RESIDENCE_FILE + 1);
		CHECK_EQ(s.kind[6], 0);
	}
	munmap(at, PAGES * PAGE);
}

static void test_holes(void)
{
	uint64_t size = 32ull << 40;
	char *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t start = (uintptr_t)at, bytes;

	if (at == MAP_FAILED || !can_scan())
		return;
	madvise(at, size, MADV_NOHUGEPAGE);
	at[size / 2] = at[size - 1] = 1;
	/* two spans that meet between the two pages */
	CHECK(residence_sum(getpid(),
			    (struct residence_span[]){ { start, start + size / 2 },
						       { start + size / 2, start + size } },
			    2, false, 100000, &bytes));
	CHECK_EQ(bytes, 2 * PAGE);
	munmap(at, size);
}

int main(void)
{
	RUN(test_pages);
	RUN(test_shared);
	RUN(test_holes);
	return test_status();
}
