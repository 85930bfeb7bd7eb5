// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * memtracer - a program that asks by the names of MiniOB's MemTracer: built against libmemtracer.so, or (WITH_HEADER) with mtrun's header in
 * its place. Prints what is answered and what it holds: `ALLOCATED META LIMIT HELD BLOCKS`.
 *
 * memtracer grow: asks for more and more, in ways that MemTracer knows, and says before each request `ask BYTES HELD`, until it is ended.
 * memtracer wait: holds what it has for 1.2 s.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

#ifdef WITH_HEADER
#include "memtracer/mt_info.h"
#else
namespace memtracer {
size_t allocated_memory();
size_t meta_memory();
size_t memory_limit();
}
#endif

static void *volatile sink;
static size_t held, blocks;

static void say(const char *format, size_t a, size_t b, size_t c = 0, size_t d = 0, size_t e = 0)
{
	char line[200];
	int n = std::snprintf(line, sizeof(line), format, a, b, c, d, e);

	if (write(1, line, static_cast<size_t>(n)) != n)
		_exit(1);
}

static void ask(size_t n)
{
	say("ask %zu %zu\n", n, held);
	held += n;
	blocks++;
}

static void grow()
{
	for (size_t i = 0;; i++) {
		ask(1000 + i);
		sink = malloc(1000 + i);
		ask(24);
		sink = operator new(24);
		ask(i % 100);
		sink = new char[i % 100];
		ask(8 * i);
		sink = calloc(i, 8);
		ask(4);
		sink = strdup("abc");
		ask(500);			// a realloc asks for what it adds
		sink = realloc(malloc(0), 500);
		if (i % 50 == 0) {
			ask(8192);
			sink = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		}
	}
}

int main(int argc, char **argv)
{
	if (argc > 1 && !std::strcmp(argv[1], "grow"))
		grow();
	ask(300);
	sink = malloc(300);
	ask(700);
	sink = malloc(700);
	say("%zu %zu %zu %zu %zu\n", memtracer::allocated_memory(), memtracer::meta_memory(), memtracer::memory_limit(), held, blocks);
	if (argc > 1)
		usleep(1200000);
	return 0;
}
