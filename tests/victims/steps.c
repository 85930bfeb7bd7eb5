// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * steps - holds what it says: for each line of its input it takes or gives back some blocks (one mapping among them) and prints its own sums as
 * `step N HELD BLOCKS PEAK`: bytes, live blocks, the highest HELD so far. steps wait: then it waits for ever.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *block[4000];
static size_t size[4000], held, blocks, peak;

static void take(int i, size_t n)
{
	held += n;
	blocks++;
	if (held > peak)
		peak = held;
	size[i] = n;
	block[i] = malloc(n);
}

static void give(int i)
{
	free(block[i]);
	held -= size[i];
	blocks--;
}

static void step(int n)
{
	for (int i = n * 500; i < (n + 1) * 500; i++)
		take(i, 100 + (size_t)(i * 7919 % 1000));
	if (n % 2)
		for (int i = n * 500; i < n * 500 + 300; i++)
			give(i);
	if (n == 3) {
		held += 1 << 20;
		peak = held > peak ? held : peak;
		if (mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
			_exit(1);
	}
}

int main(int argc, char **argv)
{
	char line[200];

	for (int n = 0; n < 8 && read(0, line, sizeof(line)) > 0; n++) {
		int len;

		step(n);
		len = snprintf(line, sizeof(line), "step %d %zu %zu %zu\n", n, held, blocks, peak);
		if (write(1, line, (size_t)len) != len)
			return 1;
	}
	while (argc > 1 && !strcmp(argv[1], "wait"))
		pause();
	return 0;
}
