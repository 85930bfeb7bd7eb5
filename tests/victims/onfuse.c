// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * onfuse - onfuse LIBRARY [FILE]: makes blocks by plugin_make() of that library (lib/plain_plugin.c),
 * frees most of them and keeps one of 50. Prints `ready`, and for each line of its standard input
 * `turns N`: how many it has made. A byte of FILE, which is mapped, is read by a thread of its own into
 * a block, which is freed.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef void *make_fn(size_t);

static unsigned long turns;
static void *volatile kept;

static void *answer(void *arg)
{
	char line[80];

	while (fgets(line, sizeof(line), stdin)) {
		printf("turns %lu\n", __atomic_load_n(&turns, __ATOMIC_RELAXED));
		fflush(stdout);
	}
	exit(0);
	return arg;
}

static void *read_file(void *path)
{
	int fd = open(path, O_RDONLY);
	const char *at = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	char *volatile block = malloc(4096);

	if (at != MAP_FAILED && block)
		*(volatile char *)block = *(const volatile char *)at;
	free(block);
	return NULL;
}

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	make_fn *make = library ? (make_fn *)dlsym(library, "plugin_make") : NULL;
	pthread_t thread;

	if (!make) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	kept = make(1000);
	if (pthread_create(&thread, NULL, answer, NULL))
		return 1;
	if (argc > 2 && pthread_create(&thread, NULL, read_file, argv[2]))
		return 1;
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		void *p = make(100);

		if (__atomic_add_fetch(&turns, 1, __ATOMIC_RELAXED) % 50 == 0)
			kept = make(1000);
		free(p);
		usleep(1000);
	}
}
