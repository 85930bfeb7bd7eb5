// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * usable.c - what the allocator set aside, as malloc_usable_size() says, for each line that allocated. Usage: usable MODE [N]
 *
 *	all [1]		every way to allocate (1: pvalloc too), then one line `usable.LINE BYTES,BLOCKS,USABLE,NAME` for each on stdout
 *	many N		N blocks of up to 200 bytes, and waits
 *	threads N	N threads allocate, resize and free until they are killed
 */
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef __GLIBC__
#define pvalloc valloc
#endif

#define MOST 20000
static struct { void *block; size_t size; int line; const char *name; } kept[MOST];
static unsigned count;

static void *keep(void *p, size_t size, int line, const char *name)
{
	if (!p)
		abort();
	kept[count].block = p;
	kept[count].size = size;
	kept[count].line = line;
	kept[count++].name = name;
	return p;
}
#define KEEP(name, size, call) keep(call, size, __LINE__, name)

static uint64_t seed = 88172645463325252ull;
static uint64_t any(uint64_t *state, uint64_t below)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state % below;
}

/* What comes from free chunks, split ones and whole ones, is as large as they happen to be. */
static void stir(void)
{
	static void *p[2000];

	for (int i = 0; i < 20000; i++) {
		unsigned at = any(&seed, 2000);

		free(p[at]);
		p[at] = malloc(any(&seed, any(&seed, 8) ? 600 : 40000));
	}
	for (int i = 0; i < 2000; i++)
		free(p[i]);
}

#define POSIX_MEMALIGN(alignment, size) ({ void *p_; posix_memalign(&p_, alignment, size) ? NULL : p_; })

/* An allocator of its own, for --hook. */
__attribute__((noipa)) void *own(size_t size)
{
	static char memory[1000];

	return size <= sizeof(memory) ? memory : NULL;
}

static void all(bool has_pvalloc)
{
	stir();
	for (size_t i = 0; i < 1100; i++)
		KEEP("malloc", i, malloc(i));
	for (int i = 0; i < 3000; i++) {
		size_t n = any(&seed, any(&seed, 10) ? 2000 : 100000);

		KEEP("malloc", n, malloc(n));
	}
	for (size_t i = 0; i < 200; i++)
		KEEP("calloc", i * 24, calloc(i, 24));
	for (int i = 0; i < 1000; i++) {
		size_t from = any(&seed, 3000), to = from + any(&seed, 3000) + 1;

		KEEP("grown", to, realloc(malloc(from), to));
	}
	for (int i = 0; i < 1000; i++) {
		size_t from = any(&seed, 3000) + 1, to = any(&seed, from) + 1;

		KEEP("shrunk", to, realloc(malloc(from), to));
	}
	for (int i = 0; i < 200; i++) {
		size_t n = any(&seed, 5000);

		KEEP("memalign", n, memalign((size_t)16 << any(&seed, 11), n));
	}
	for (int i = 0; i < 200; i++) {
		size_t n = any(&seed, 5000);

		KEEP("posix_memalign", n, POSIX_MEMALIGN((size_t)8 << any(&seed, 11), n));
	}
	for (int i = 0; i < 20; i++)
		KEEP("page_aligned", 100, valloc(100));
	for (int i = 0; i < 20 && has_pvalloc; i++)
		KEEP("whole_pages", 100, pvalloc(100));
	for (int i = 0; i < 20; i++) {
		size_t n = (1 << 20) + any(&seed, 1 << 20);

		KEEP("large", n, malloc(n));
		KEEP("large_calloc", n, calloc(1, n));
		KEEP("large_grown", 2 * n, realloc(malloc(n), 2 * n));
		KEEP("large_shrunk", n, realloc(malloc(2 * n), n));
		KEEP("large_to_little", 10, realloc(malloc(n), 10));
	}
	for (int i = 0; i < 12; i++)
		KEEP("large_aligned", 1 << 20, memalign((size_t)4096 << i, 1 << 20));
	for (int i = 0; i < 500; i++) {		/* holes */
		unsigned at = any(&seed, count);

		free(kept[at].block);
		kept[at] = kept[--count];
	}
}

static void print(void)
{
	static char text[1 << 16];
	size_t len = 0;

	for (unsigned i = 0; i < count; i++) {
		unsigned long long size = 0, blocks = 0, usable = 0;
		int line = kept[i].line;

		if (!line)
			continue;
		for (unsigned j = i; j < count; j++)
			if (kept[j].line == line) {
				size += kept[j].size;
				blocks++;
				usable += malloc_usable_size(kept[j].block);
				kept[j].line = 0;
			}
		len += (size_t)snprintf(text + len, sizeof(text) - len, "usable.%d %llu,%llu,%llu,%s\n", line, size, blocks, usable, kept[i].name);
	}
	if (write(1, text, len) < 0)
		_exit(1);
}

static void *worker(void *arg)
{
	uint64_t state = 88172645463325252ull + (uintptr_t)arg * 7919;
	void *p[500] = { 0 };

	for (;;) {
		unsigned at = any(&state, 500);
		uint64_t what = any(&state, 4);

		if (what == 0) {
			free(p[at]);
			p[at] = NULL;
		} else if (what == 1) {
			p[at] = realloc(p[at], any(&state, any(&state, 50) ? 3000 : 300000) + 1);
		} else {
			free(p[at]);
			p[at] = what == 2 ? memalign(64, any(&state, 3000)) : malloc(any(&state, any(&state, 50) ? 3000 : 300000));
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	long n = argc > 2 ? atol(argv[2]) : 0;
	pthread_t thread;

	if (argc > 1 && !strcmp(argv[1], "many")) {
		for (long i = 0; i < n; i++)
			if (!malloc(any(&seed, 200)))
				abort();
		pause();
	} else if (argc > 1 && !strcmp(argv[1], "threads")) {
		for (long i = 0; i < n; i++)
			if (pthread_create(&thread, NULL, worker, (void *)i))
				abort();
		pause();
	}
	all(n);
	if (!own(100))
		abort();
	print();
	_exit(0);
}
