// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * traced.cc - allocates, frees and hands out addresses of everything that `trace` can tell apart; prints them as NAME=ADDRESS lines, then waits
 * to be killed. Lines that matter are marked by a comment that the test looks for.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int counted = 7;
int table[1000];
static volatile int go;

static inline __attribute__((always_inline)) void *inner(size_t n)
{
	return malloc(n);			/* line:inner */
}

static __attribute__((noinline)) void *outer(size_t n)
{
	void *p = inner(n);			/* line:outer */

	__asm__ volatile("" ::: "memory");
	return p;
}

static __attribute__((noinline)) void giver_back(void *p)
{
	free(p);				/* line:free */
	__asm__ volatile("" ::: "memory");
}

static void say(const char *name, const volatile void *p)
{
	printf("%s=%p\n", name, (const void *)p);
}

static void *other(void *arg)
{
	char local[100];

	(void)arg;
	while (!go)
		usleep(1000);
	local[0] = 1;
	void *here = outer(5000), *next = outer(777);

	say("threadstack", local);
	say("bythread", next);
	say("freedby", here);
	giver_back(here);
	printf("tid=%d\n", gettid());
	fflush(stdout);
	for (;;)
		pause();
	return NULL;
}

int main()
{
	pthread_t t;
	int local = 1;
	void *live = outer(1000), *freed = outer(3000), *grown = malloc(2000), *last = outer(16);	/* line:grown */

	printf("pid=%d\n", getpid());
	say("live", live);
	say("freed", freed);
	void *map = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	say("mapping", map);
	void *gone = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(gone, 65536);
	say("stack", &local);
	say("data", &counted);
	say("bss", &table[10]);
	say("code", (void *)&giver_back);
	say("libc", (void *)&strtol);
	say("nothing", (void *)16);
	pthread_create(&t, NULL, other, NULL);
	say("old", grown);
	grown = realloc(grown, 200000);		/* line:realloc */
	say("grown", grown);
	giver_back(freed);			/* nobody wants its place any more */
	go = 1;
	pthread_join(t, NULL);
	free(last);
	return counted - 7;
}
