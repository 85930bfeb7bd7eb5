// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * withheld - withheld MODE: has pages that never come to whoever reads them, as nobody serves the userfaultfd that they wait for. MODE page: some that it does
 * not use; text: they may be executed; blocks: there are blocks on them; args: an argument is on such a page;
 * stack: a thread stands on a stack whose beginning is on such pages; near: and they are not far above it,
 * where a handler's frame may be.
 * Prints `ready ADDRESS` of the first page, and for each line of its standard input `turns N`: how often its main thread has allocated a block.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE  4096ul
#define PAGES 16
#define STACK (64 * PAGE)

static unsigned long turns;
static char *stack;
static int there; /* the thread is where it stays */

static void wrong(const char *what)
{
	perror(what);
	exit(1);
}

/* From now on what is read there waits. */
static void hold(char *at, size_t pages)
{
	static int fd = -1;
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register r = {.range = {(uintptr_t)at, pages * PAGE}, .mode = UFFDIO_REGISTER_MODE_MISSING};

	if (fd < 0) {
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
		if (fd < 0 || ioctl(fd, UFFDIO_API, &api))
			wrong("userfaultfd");
	}
	if (ioctl(fd, UFFDIO_REGISTER, &r) || madvise(at, pages * PAGE, MADV_DONTNEED))
		wrong("register");
}

static __attribute__((noinline)) void stay(void)
{
	/* what libc knows of the thread is on the last ones */
	hold(stack + STACK - 12 * PAGE, 8);
	__atomic_store_n(&there, 1, __ATOMIC_RELEASE);
	while (there)
		pause();
}

static __attribute__((noinline)) void stand(int depth)
{
	volatile char frame[2 * PAGE];

	frame[0] = (char)depth;
	if (depth)
		stand(depth - 1);
	else
		stay();
	frame[1] = frame[0];
}

static void *on_stack(void *depth)
{
	stand(*(int *)depth);
	return depth;
}

static void handler(int sig) { (void)sig; }

/* Blocks, some of whose pages are held. */
static char *blocks(void)
{
	static char *block[400];

	for (int i = 0; i < 400; i++)
		block[i] = malloc(1000);
	char *at = (char *)(((uintptr_t)block[20] + PAGE) & ~(PAGE - 1));

	hold(at, PAGES);
	return at;
}

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

/* Again, with pages that hold nothing but an argument: before the first one is main's stack. */
static void with_long_argument(char **argv)
{
	static char many[3 * PAGE];

	memset(many, 'x', sizeof(many) - 1);
	execl("/proc/self/exe", argv[0], argv[1], many, (char *)NULL);
	wrong("exec");
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? strdup(argv[1]) : "page";
	char *at = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t thread;
	pthread_attr_t attr;
	static int depth;

	if (at == MAP_FAILED)
		wrong("mmap");
	hold(at, PAGES);
	if (!strcmp(mode, "args")) {
		if (argc == 2)
			with_long_argument(argv);
		at = (char *)(((uintptr_t)argv[2] + PAGE - 1) & ~(PAGE - 1));
		hold(at, 1);
	} else if (!strcmp(mode, "text")) {
		mprotect(at, PAGES * PAGE, PROT_READ | PROT_EXEC);
	} else if (!strcmp(mode, "blocks")) {
		at = blocks();
	} else if (!strcmp(mode, "stack") || !strcmp(mode, "near")) {
		depth = *mode == 'n' ? 8 : 16;
		signal(SIGUSR1, handler);
		stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		pthread_attr_init(&attr);
		if (stack == MAP_FAILED || pthread_attr_setstack(&attr, stack, STACK) ||
		    pthread_create(&thread, &attr, on_stack, &depth))
			wrong("a thread");
		while (!__atomic_load_n(&there, __ATOMIC_ACQUIRE))
			usleep(1000);
	}
	printf("ready %p\n", (void *)at);
	fflush(stdout);
	if (pthread_create(&thread, NULL, answer, NULL))
		wrong("pthread_create");
	for (;;) {
		free(malloc(100));
		__atomic_fetch_add(&turns, 1, __ATOMIC_RELAXED);
		usleep(1000);
	}
}
