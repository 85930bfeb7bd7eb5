// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * resident.c - a program that knows which of its pages are in memory, and what for. It says so, one `is KEY BYTES` a line, then `ready`, and waits until its stdin ends.
 *
 *	frag N		one block of 64 bytes stays in each of N pages, of very many: `is pages`, `is live`, both of keep()
 *	pairs N		two such in a page, of left() and right() or of one of them: `is shared` pages that only both together keep, `is alone` the others
 *	rows		memory of every kind: `is live`, `is free` (of malloc), `is mmap`, `is stacks`, `is image`, `is files`, `is shared`; addresses without end that cost nothing
 *	blocks N SIZE	N blocks of SIZE bytes
 *	forked N	the same with 1000 bytes each, and a child that has freed every second one, and allocated a tenth as many
 *	busy N		N threads allocate, free, map and unmap as fast as they can, until its stdin ends
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../lib/zero_page.h"

#define PAGE 4096ull
#define NOIPA __attribute__((noipa))

/* Its books are in memory that nothing allocates. */
static void *books(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		abort();
	madvise(p, size, MADV_NOHUGEPAGE);
	return p;
}

static char text[4096];
static size_t text_len;

static void say(const char *key, unsigned long long value)
{
	text_len += (size_t)snprintf(text + text_len, sizeof(text) - text_len, "is %s %llu\n", key, value);
}

static void ready(void)
{
	char c;

	text_len += (size_t)snprintf(text + text_len, sizeof(text) - text_len, "ready\n");
	if (write(1, text, text_len) < 0)
		abort();
	while (read(0, &c, 1) > 0)
		;
}

static bool in_memory(uintptr_t page)
{
	unsigned char v = 0;

	return mincore((void *)page, PAGE, &v) == 0 && v & 1;
}

/* ---- frag ---- */

#define BLOCK 64u

/* What each returns has been asked for by itself: no call is its last. */
#define ALLOCATES(name) \
	NOIPA static void *name(void) \
	{ \
		void *p = malloc(BLOCK); \
\
		__asm__ volatile("" : "+r"(p)); \
		return p; \
	}
ALLOCATES(keep)
ALLOCATES(left)
ALLOCATES(right)

static int by_address(const void *pa, const void *pb)
{
	uintptr_t a = *(const uintptr_t *)pa, b = *(const uintptr_t *)pb;

	return a < b ? -1 : a > b;
}

static bool is_whole(uintptr_t a) { return a / PAGE == (a + BLOCK - 1) / PAGE; }

/* N blocks in pages of their own are left of all that were asked for: their addresses, ascending, in AT. How many there are. */
static size_t thin_out(uintptr_t *at, size_t count, size_t n)
{
	size_t kept = 0;
	uintptr_t last = 0;

	qsort(at, count, sizeof(*at), by_address);
	for (size_t i = 0; i < count; i++) {
		bool stays = kept < n && at[i] / PAGE > last && is_whole(at[i]);

		if (!stays) {
			free((void *)at[i]);
			continue;
		}
		last = at[i] / PAGE;
		at[kept++] = at[i];
	}
	return kept;
}

static void frag(size_t n)
{
	size_t most = n * 80, count = 0, pages = 1, kept;
	uintptr_t *at = books(most * sizeof(*at)), last = 0;

	/* until there are enough pages: allocators hand out neighbours, most of the time */
	while (count < most && pages <= n + n / 50) {
		at[count] = (uintptr_t)keep();
		memset((void *)at[count], 1, BLOCK);
		pages += at[count] / PAGE != last;
		last = at[count++] / PAGE;
	}
	kept = thin_out(at, count, n);
	say("pages", kept);
	say("live", kept * BLOCK);
	ready();
}

/* Each page keeps two blocks, one of either line; but each third page two of the same line. */
static void pairs(size_t n)
{
	size_t most = n * 80, count = 0, both = 0, alone = 0, here = 0;
	uintptr_t *at = books(most * sizeof(*at)), last = 0;
	unsigned who = 0;

	for (size_t pages = 0; count < most && pages <= n; count++) {
		at[count] = (uintptr_t)(count & 1 ? right() : left()) | (count & 1); /* blocks are aligned */
		memset((void *)(at[count] & ~1ull), 1, BLOCK);
		pages += at[count] / PAGE != last;
		last = at[count] / PAGE;
	}
	qsort(at, count, sizeof(*at), by_address);
	last = 0;
	for (size_t i = 0; i < count; i++) {
		uintptr_t page = at[i] / PAGE;
		unsigned is = 1u << (at[i] & 1);

		if (page != last) {
			both += who == 3;
			alone += who == 1 || who == 2;
			here = who = 0;
			last = page;
		}
		if (is_whole(at[i] & ~1ull) && here < 2 && (page % 3 ? !(who & is) : is == 1)) {
			here++;
			who |= is;
		} else
			free((void *)(at[i] & ~1ull));
	}
	both += who == 3;
	alone += who == 1 || who == 2;
	say("shared", both);
	say("alone", alone);
	ready();
}

/* ---- rows ---- */

static char bss[5u << 20];
static pthread_barrier_t stand;

/* Its own stack, touched this far down. */
static void *stack_user(void *arg)
{
	volatile char *deep = __builtin_alloca(1u << 20);

	for (size_t i = 0; i < 1u << 20; i += PAGE)
		deep[i] = 1;
	pthread_barrier_wait(&stand);
	for (;;)
		pause();
	return arg;
}

static void touch(char *at, size_t size)
{
	for (size_t i = 0; i < size; i += PAGE)
		at[i] = 1;
}

static char *map(size_t size, int flags, int fd)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (p == MAP_FAILED)
		abort();
	madvise(p, size, MADV_NOHUGEPAGE);
	return p;
}

/* 20000 blocks of a KiB, of which two of three are freed in runs of 20: pages with live ones, and without. */
static void heap(void)
{
	enum { N = 20000, SIZE = 1024 };
	static uintptr_t at[N], page[2 * N];
	unsigned long long live = 0, idle = 0;
	size_t pages = 0;
	static bool is_live[2 * N];

	for (size_t i = 0; i < N; i++) {
		at[i] = (uintptr_t)malloc(SIZE);
		memset((void *)at[i], 1, SIZE);
		page[pages++] = at[i] / PAGE;
		page[pages++] = (at[i] + SIZE - 1) / PAGE;
	}
	qsort(page, pages, sizeof(*page), by_address);
	for (size_t i = 0; i < N; i++)
		if (i / 20 % 3 == 0) {
			for (int end = 0; end < 2; end++) {
				uintptr_t key = (at[i] + (end ? SIZE - 1 : 0)) / PAGE;

				is_live[(uintptr_t *)bsearch(&key, page, pages, sizeof(*page), by_address) - page] = true;
			}
		} else
			free((void *)at[i]);
	for (size_t i = 0; i < pages;) {
		size_t j = i;
		bool any = false;

		for (; j < pages && page[j] == page[i]; j++)
			any |= is_live[j];
		if (any)
			live += PAGE;
		else if (in_memory(page[i] * PAGE))
			idle += PAGE;
		i = j;
	}
	say("live", live);
	say("free", idle);
}

static void rows(void)
{
	char name[] = "/tmp/mtrun-resident.XXXXXX", *p;
	int file = mkstemp(name), memory = memfd_create("resident", 0);
	unsigned long long sum = 0;
	pthread_attr_t attr;
	pthread_t t[4];

	if (file < 0 || memory < 0 || ftruncate(file, 6 << 20) || ftruncate(memory, 8 << 20))
		abort();
	unlink(name);
	p = map(10 << 20, MAP_PRIVATE | MAP_ANONYMOUS, -1); /* its own: 7 of 10 MiB are written and there, 2 of them not accessible any more */
	touch(p, 8 << 20);
	mprotect(p, 2 << 20, PROT_NONE);
	madvise(p + (4 << 20), 1 << 20, MADV_DONTNEED);
	for (size_t i = 8 << 20; i < 10u << 20; i += PAGE) /* only read: nobody's, or its own */
		sum += (unsigned char)p[i];
	/* addresses without end */
	p = mmap(NULL, 64ull << 40, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p != MAP_FAILED) {
		madvise(p, 64ull << 40, MADV_NOHUGEPAGE);
		for (unsigned long long i = 0; i < 256; i++)
			p[i << 38] = 1;
	}
	say("mmap", (7ull << 20) + (has_zero_page() ? 0 : 2 << 20) + (p != MAP_FAILED ? 256 * PAGE : 0));
	p = mmap(NULL, 32ull << 40, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	touch(map(6 << 20, MAP_SHARED, file), 6 << 20);
	say("files", 6 << 20);
	touch(map(8 << 20, MAP_SHARED, memory), 8 << 20);
	touch(map(3 << 20, MAP_SHARED | MAP_ANONYMOUS, -1), 3 << 20);
	say("shared", 11 << 20);
	touch(bss, sizeof(bss));
	say("image", sizeof(bss));
	pthread_barrier_init(&stand, NULL, 5);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 2 << 20);
	for (int i = 0; i < 4; i++)
		if (pthread_create(&t[i], &attr, stack_user, NULL))
			abort();
	pthread_barrier_wait(&stand);
	say("stacks", 4 << 20);
	heap();
	if (sum)
		abort();
	ready();
}

/* ---- many, and changing ---- */

static void blocks(size_t n, size_t size)
{
	for (size_t i = 0; i < n; i++)
		memset(malloc(size), 1, size);
	say("blocks", n);
	ready();
}

static void forked(size_t n)
{
	void **at = books(n * sizeof(*at));
	int pipes[2];
	char c;

	for (size_t i = 0; i < n; i++)
		memset(at[i] = malloc(1000), 1, 1000);
	if (pipe(pipes))
		abort();
	if (fork() == 0) {
		for (size_t i = 0; i < n; i += 2)
			free(at[i]);
		for (size_t i = 0; i < n / 10; i++)
			memset(malloc(3000), 1, 3000);
		if (write(pipes[1], "x", 1) < 0)
			abort();
		close(pipes[0]);
		while (read(0, &c, 1) > 0)
			;
		_exit(0);
	}
	close(pipes[1]);
	if (read(pipes[0], &c, 1) != 1)
		abort();
	say("live", n * 1000);
	say("child", n / 2 * 1000 + n / 10 * 3000);
	ready();
}

static volatile bool done;

static void *busy(void *arg)
{
	uint64_t seed = (uintptr_t)arg;
	void *kept[500] = { 0 };

	while (!done)
		for (int i = 0; i < 200; i++) {
			unsigned k;

			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			k = seed >> 33;
			free(kept[k % 500]);
			kept[k % 500] = malloc(k >> 9 & (k & 512 ? 0xffff : 0xff));
			if (i == 0) {
				size_t size = (k >> 12 & 0xfffff) + 1;
				char *p = map(size, MAP_PRIVATE | MAP_ANONYMOUS, -1);

				touch(p, size);
				munmap(p, size);
			}
		}
	return NULL;
}

static void many(size_t n)
{
	pthread_t t[16];

	for (uintptr_t i = 0; i < n; i++)
		if (pthread_create(&t[i], NULL, busy, (void *)(i + 1)))
			abort();
	ready();
	done = true;
	for (size_t i = 0; i < n; i++)
		pthread_join(t[i], NULL);
}

int main(int argc, char **argv)
{
	size_t n = argc > 2 ? strtoul(argv[2], NULL, 0) : 0;

	if (argc > 2 && !strcmp(argv[1], "frag"))
		frag(n);
	else if (argc > 2 && !strcmp(argv[1], "pairs"))
		pairs(n);
	else if (argc > 3 && !strcmp(argv[1], "blocks"))
		blocks(n, strtoul(argv[3], NULL, 0));
	else if (argc > 2 && !strcmp(argv[1], "forked"))
		forked(n);
	else if (argc > 2 && !strcmp(argv[1], "busy"))
		many(n < 16 ? n : 16);
	else
		rows();
	return 0;
}
