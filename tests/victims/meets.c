// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * meets - holds HELD bytes in four blocks by two lines, then takes blocks of STEP bytes until it is refused, and says before each `ask STEP HELD`. What is
 * refused it says, `refused N`, and goes on, N times; then `done` and status 3.
 *
 * meets HELD STEP N [threads | child | tree]: with three threads that count on in `meets.ticks`, a shared page, as long as they run; or in a child of its own,
 * whose end the parent waits for; or with a child and a grandchild that sleep.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile unsigned long *ticks;
static volatile int started;
static void *volatile sink;

static void say(const char *format, size_t a, size_t b)
{
	char line[100];
	int n = snprintf(line, sizeof(line), format, a, b);

	if (write(1, line, (size_t)n) != n)
		_exit(1);
}

/* A child and a grandchild, both there when this returns. */
static void family(void)
{
	int both[2], status;
	char c;

	if (pipe(both))
		_exit(1);
	if (fork() == 0) {
		if (fork())
			wait(&status);
		else if (write(both[1], "x", 1) != 1)
			_exit(1);
		sleep(100);
		_exit(0);
	}
	if (read(both[0], &c, 1) != 1)
		_exit(1);
}

static void *tick(void *unused)
{
	(void)unused;
	__atomic_add_fetch(&started, 1, __ATOMIC_RELAXED);
	for (;;)
		__atomic_add_fetch(ticks, 1, __ATOMIC_RELAXED);
	return NULL;
}

static __attribute__((noinline)) void hold(size_t n)
{
	sink = malloc(n / 2);			/* line:half */
	for (int i = 0; i < 3; i++)
		sink = malloc(n / 6);		/* line:sixth */
}

static __attribute__((noinline)) void *take(size_t n)
{
	void *p = malloc(n);			/* line:take */

	__asm__ volatile("" ::: "memory");
	return p;
}

static int run(size_t held, size_t step, size_t n)
{
	size_t refused = 0;

	hold(held);
	while (refused < n) {
		say("ask %zu %zu\n", step, held);
		if (take(step)) {
			held += step;
			continue;
		}
		if (errno != ENOMEM)
			return 1;
		say("refused %zu %zu\n", ++refused, held);
	}
	say("done\n", 0, 0);
	return 3;
}

int main(int argc, char **argv)
{
	size_t held = strtoul(argv[1], NULL, 10), step = strtoul(argv[2], NULL, 10), n = strtoul(argv[3], NULL, 10);
	const char *what = argc > 4 ? argv[4] : "";
	int fd, status;
	pthread_t thread;

	if (!strcmp(what, "threads")) {
		fd = open("meets.ticks", O_RDWR | O_CREAT, 0600);
		if (fd < 0 || ftruncate(fd, 4096))
			return 1;
		ticks = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		for (int i = 0; i < 3; i++)
			pthread_create(&thread, NULL, tick, NULL);
		while (started < 3 || *ticks < 1000)
			;
	}
	if (!strcmp(what, "tree"))
		family();
	if (!strcmp(what, "child") && fork()) {
		wait(&status);
		return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
	}
	return run(held, step, n);
}
