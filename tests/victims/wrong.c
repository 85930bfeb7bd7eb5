// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * wrong.c [wait|later] WHAT [TIMES] - frees what it should not, in C; or does what looks like that and is right: `fine`, `forks`, `libcs`.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "wrong.h"

enum { TAKE = __LINE__ + 4, DROP = __LINE__ + 11, RESIZE = __LINE__ + 17, AGAIN = __LINE__ + 24 };

static NOINLINE void *take(size_t size)
{
	char *p = malloc(size);
	KEEP(p);
	return memset(p, 1, size);
}

static NOINLINE void drop(void *p)
{
	free(p);
	KEEP(p);
}

static NOINLINE void *resize(void *p, size_t size)
{
	p = realloc(p, size);
	KEEP(p);
	return p;
}

static NOINLINE void again(void *p)
{
	free(p);
	__asm__ volatile("nop"); /* the compiler is not to make one of both */
}

static char buffer[100];
static const char constant[] = "a constant";

/* others come and go meanwhile, and some of them stay */
static void others(unsigned count)
{
	static void *kept[64];

	for (unsigned i = 0; i < count; i++) {
		void **p = &kept[i % 64];

		free(*p);
		*p = malloc(200 + i % 50 * 16);
		KEEP(*p);
	}
}

static void *drop_in_thread(void *p)
{
	drop(p);
	return NULL;
}

static void *again_in_thread(void *p)
{
	again(p);
	return NULL;
}

static void in_thread(void *(*fn)(void *), void *arg)
{
	pthread_t t;

	pthread_create(&t, NULL, fn, arg);
	pthread_join(t, NULL);
}

static void say_double(void *p, size_t size)
{
	SAY("double free of %p, a block of %zu bytes that was freed before\n", p, size);
	AT("call", "again", AGAIN);
	AT("allocated", "take", TAKE);
}

static void *caught;

/* What could not be freed is freed: that is right. */
static void drop_caught(int sig)
{
	(void)sig;
	drop(caught);
	_exit(4);
}

static void *free_local(void *arg)
{
	char local[64];

	(void)arg;
	KEEP(local);
	SAY("free of %p, which is no block: it is a local variable, on the stack\n", (void *)local);
	AT("call", "again", AGAIN);
	again(local);
	return NULL;
}

static void within(size_t size, size_t offset)
{
	char *p = take(size);

	SAY("free of %p, which is %zu byte%s into a block of %zu\n", (void *)(p + offset), offset, offset == 1 ? "" : "s", size);
	AT("call", "again", AGAIN);
	AT("allocated", "take", TAKE);
	again(p + offset);
}

static int wrong(const char *what, unsigned times)
{
	void *p, *q;

	if (!strcmp(what, "double")) {
		p = take(40);
		say_double(p, 40);
		AT("freed", "drop", DROP);
		drop(p);
		for (unsigned i = 0; i < times; i++)
			again(p);
	} else if (!strcmp(what, "double-later")) {
		q = take(56); /* musl keeps the memory around it for blocks of this size */
		p = take(56);
		say_double(p, 56);
		AT("freed", "drop", DROP);
		drop(p);
		others(times);
		again(p);
		drop(q);
	} else if (!strcmp(what, "double-large")) {
		p = take(20000);
		q = take(100); /* it does not go back to the top */
		say_double(p, 20000);
		AT("freed", "drop", DROP);
		drop(p);
		again(p);
		drop(q);
	} else if (!strcmp(what, "double-threads")) {
		p = take(72);
		say_double(p, 72);
		in_thread(drop_in_thread, p);
		in_thread(again_in_thread, p);
	} else if (!strcmp(what, "double-child")) {
		p = take(40);
		drop(p);
		if (fork() == 0) {
			say_double(p, 40);
			again(p);
			_exit(0);
		}
		wait(NULL);
	} else if (!strcmp(what, "double-realloc")) {
		p = take(48);
		SAY("realloc of %p, a block of 48 bytes that was freed before\n", p);
		AT("call", "resize", RESIZE);
		AT("allocated", "take", TAKE);
		drop(p);
		KEEP(resize(p, 30));
	} else if (!strcmp(what, "after-realloc")) {
		p = take(64);
		q = take(64);
		say_double(p, 64);
		KEEP(resize(p, 5000));
		again(p);
		drop(q);
	} else if (!strcmp(what, "within-1")) {
		within(100, 1);
	} else if (!strcmp(what, "within-8")) {
		within(100, 8);
	} else if (!strcmp(what, "within-16")) {
		within(100, 16);
	} else if (!strcmp(what, "within-large")) {
		within(300000, 100000);
	} else if (!strcmp(what, "stack")) {
		free_local(NULL);
	} else if (!strcmp(what, "thread-stack")) {
		in_thread(free_local, NULL);
	} else if (!strcmp(what, "variable")) {
		SAY("free of %p, which is no block: it is buffer+16 in section \n", (void *)(buffer + 16));
		AT("call", "again", AGAIN);
		again(buffer + 16);
	} else if (!strcmp(what, "constant")) {
		SAY("free of %p, which is no block: it is constant in section \n", (void *)constant);
		AT("call", "again", AGAIN);
		again((void *)constant);
	} else if (!strcmp(what, "mapping")) {
		p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		SAY("free of %p, which is a mapping of 8192 bytes, not a block\n", p);
		AT("call", "again", AGAIN);
		again(p);
	} else if (!strcmp(what, "nowhere")) {
		p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		munmap(p, 8192);
		SAY("free of %p, which is no block: it is where nothing is mapped\n", p);
		AT("call", "again", AGAIN);
		again(p);
	} else if (!strcmp(what, "beyond")) {
		p = take(40);
		SAY("free of an address of more than 47 bits, which is no block\n");
		AT("call", "again", AGAIN);
		signal(SIGSEGV, drop_caught);
		caught = p;
		again((void *)((uintptr_t)p | 1ull << 60));
	} else {
		return 2;
	}
	line("survived\n");
	return 0;
}

/* ---- what is right ------------------------------------------------------- */

#ifdef __GLIBC__
#define ROUNDS 20000
#else
#define ROUNDS 3000 /* musl's threads wait for one lock: 20 000 take five seconds */
#endif
#define EXCHANGE 64
static void *exchange[EXCHANGE];

/* Blocks change hands: who frees is mostly not who allocated, and addresses come again at once. */
static void *pass_on(void *arg)
{
	uint64_t x = (uintptr_t)arg * 0x9e3779b97f4a7c15ull + 1;

	for (int i = 0; i < ROUNDS; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		void *p = malloc(x % 5 ? 16 + x % 64 : 5000 + x % 9000);

		if (x % 7 == 0)
			p = realloc(p, 20 + x % 300);
		free(__atomic_exchange_n(&exchange[x >> 20 & (EXCHANGE - 1)], p, __ATOMIC_ACQ_REL));
	}
	return NULL;
}

static void threads(void)
{
	pthread_t t[8];

	for (int round = 0; round < 4; round++) {
		for (uintptr_t i = 0; i < 8; i++)
			pthread_create(&t[i], NULL, pass_on, (void *)(i + 1));
		for (int i = 0; i < 8; i++)
			pthread_join(t[i], NULL); /* glibc gives back what is cached for it */
	}
	for (int i = 0; i < EXCHANGE; i++) {
		free(exchange[i]);
		exchange[i] = NULL;
	}
}

static void libc_gives(void)
{
	char *text = NULL, *lines = NULL;
	size_t len = 0;
	FILE *f;

	free(strdup("a text"));
	if (asprintf(&text, "%d", 5) > 0)
		free(text);
	f = fopen("/proc/self/maps", "r");
	while (f && getline(&lines, &len, f) > 0)
		;
	free(lines);
	if (f)
		fclose(f);
	free(realpath("/proc/self/exe", NULL));
	free(getcwd(NULL, 0));
	f = open_memstream(&text, &len);
	fputs("a text", f);
	fclose(f);
	free(text);
}

static void aligned(void)
{
	void *p = NULL;

	for (size_t n = 1; n < 100000; n = n * 3 + 1) {
		if (posix_memalign(&p, 64, n) == 0)
			free(p);
		free(aligned_alloc(64, (n + 63) & ~63ul));
		free(memalign(256, n));
		p = aligned_alloc(32, 32 * n);
		p = realloc(p, n + 5);
		free(p);
		free(calloc(n, 3));
		p = realloc(NULL, n);
		p = reallocarray(p, n, 2);
		free(p);
		free(malloc(0));
		p = malloc(n);
		KEEP(p);
		if (realloc(p, SIZE_MAX / 2)) /* fails: p is as it was */
			_exit(8);
		free(p);
	}
	free(NULL);
	free(realloc(malloc(10), 0));
}

/* Children free what they find while their parent's threads change it. */
static int forks(void)
{
	pthread_t t[4];

	for (int round = 0; round < 3; round++) {
		for (uintptr_t i = 0; i < 4; i++)
			pthread_create(&t[i], NULL, pass_on, (void *)(i + 1));
		for (uintptr_t k = 0; k < 3; k++)
			if (fork() == 0) {
				pass_on((void *)(k + 10));
				_exit(0);
			}
		for (int i = 0; i < 4; i++)
			pthread_join(t[i], NULL);
		while (wait(NULL) > 0)
			;
	}
	line("survived\n");
	return 0;
}

/* A libc beside that of the program; then threads, which give back what is cached for them. */
static int libcs(void)
{
#ifdef LM_ID_NEWLM
	void *other = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
	void *(*give)(size_t) = (void *(*)(size_t))dlsym(other, "malloc");
	void (*take_back)(void *) = (void (*)(void *))dlsym(other, "free");

	for (size_t n = 1; n < 100000; n *= 3)
		take_back(give(n));
#endif
	threads();
	line("survived\n");
	return 0;
}

/* The child frees what its parent gave, and the parent frees the same. */
static void forked(void)
{
	void *p[100];

	for (int i = 0; i < 100; i++)
		p[i] = malloc(16 + (size_t)i * 8);
	for (int k = 0; k < 3; k++) {
		if (fork() == 0) {
			for (int i = 0; i < 100; i++)
				free(p[i]);
			for (int i = 0; i < 100; i++)
				p[i] = malloc(24);
			for (int i = 0; i < 100; i++)
				free(p[i]);
			aligned();
			exit(0);
		}
	}
	if (vfork() == 0) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(7);
	}
	for (int i = 0; i < 100; i++)
		free(p[i]);
	while (wait(NULL) > 0)
		;
}

static int fine(void)
{
	aligned();
	libc_gives();
	threads();
	forked();
	aligned();
	line("survived\n");
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "wait")) { /* for one who attaches */
		char c;

		line("ready\n");
		if (read(0, &c, 1) != 1)
			return 1;
		argv++, argc--;
	}
	if (argc > 1 && !strcmp(argv[1], "fine"))
		return fine();
	if (argc > 1 && !strcmp(argv[1], "forks"))
		return forks();
	if (argc > 1 && !strcmp(argv[1], "libcs"))
		return libcs();
	if (argc > 2 && !strcmp(argv[1], "later")) { /* and goes on for a while */
		int rc = wrong(argv[2], 1);

		for (int i = 0; i < 3000; i++)
			usleep(1000);
		return rc;
	}
	return argc > 1 ? wrong(argv[1], argc > 2 ? (unsigned)atoi(argv[2]) : 1) : 2;
}
