// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * modules.c N - maps its own first page as code N times, then loads a library and lets it go three
 * times. It says how many it has mapped, and how many milliseconds the fastest of the three took.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define PAGE 4096

/* With a hole behind each, so that none is merged with the next. */
static int map_one(int fd)
{
	char *at = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return at != MAP_FAILED &&
	       mmap(at, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0) != MAP_FAILED;
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1000 + (double)t.tv_nsec / 1000000;
}

int main(int argc, char **argv)
{
	int fd = open("/proc/self/exe", O_RDONLY), n = argc > 1 ? atoi(argv[1]) : 0, mapped = 0;
	double least = 1e9;

	for (int i = 0; i < n; i++)
		mapped += map_one(fd);
	for (int i = 0; i < 3; i++) {
		double began = now_ms(), took;
		void *library = dlopen("libm.so.6", RTLD_NOW);

		if (!library || dlclose(library))
			return 1;
		took = now_ms() - began;
		least = took < least ? took : least;
	}
	printf("mapped %d fastest %.0f\n", mapped, least);
	return 0;
}
