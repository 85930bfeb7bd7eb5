/* SPDX-License-Identifier: GPL-3.0-or-later */
/* memtracer - a program that was built against MiniOB's libmemtracer.so: prints what that, or mtrun in its place, answers, and what it holds. */
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

namespace memtracer {
size_t allocated_memory();
size_t meta_memory();
size_t memory_limit();
}

static void *volatile sink;

int main()
{
	char line[200];
	size_t held = 1000, blocks = 2;
	int n;

	sink = malloc(300);
	sink = malloc(700);
	n = snprintf(line, sizeof(line), "%zu %zu %zu %zu %zu\n", memtracer::allocated_memory(), memtracer::meta_memory(), memtracer::memory_limit(), held,
		     blocks);
	return write(1, line, (size_t)n) != n;
}
