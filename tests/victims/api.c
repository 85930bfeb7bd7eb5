// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * api - a program that asks for its own memory by mtrun.h and knows what the answer must be: it adds up itself what it holds.
 *
 *	api WHAT [PLUGIN]	WHAT: none (mtrun is not there: 0), heap, all (heap, mappings, text), or a mode of its own (below)
 *
 * Prints what was wrong, a line each, and `done` at the end; nothing here allocates but what is in the sum. C and C++ (api.cc includes this file).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../inject/memtracer/mt_info.h"

#ifdef __cplusplus
extern "C"
#endif
size_t more_allocated(void);		/* lib/api_more.c: another translation unit */

enum { NONE, HEAP, ALL };
static int what;
static int wrong;

static void say(const char *format, ...)
{
	char line[300];
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	if (n < 0 || write(1, line, (size_t)n) != n)
		_exit(98);
}

/* ---- the books ------------------------------------------------------------------------------------------------------------------ */

static size_t held, mapped, blocks, text, before;

static void *volatile sink;
static void *take(size_t n)
{
	void *p = malloc(n);

	if (!p)
		_exit(97);
	__atomic_add_fetch(&held, n, __ATOMIC_RELAXED);
	__atomic_add_fetch(&blocks, 1, __ATOMIC_RELAXED);
	sink = p;
	return p;
}

static void give(void *p, size_t n)
{
	__atomic_sub_fetch(&held, n, __ATOMIC_RELAXED);
	__atomic_sub_fetch(&blocks, 1, __ATOMIC_RELAXED);
	free(p);
}

static void *more(void *p, size_t old, size_t n)
{
	__atomic_add_fetch(&held, n - old, __ATOMIC_RELAXED);
	return realloc(p, n);
}

static size_t expected(void)
{
	return what == NONE ? 0 : before + held + (what == ALL ? mapped + text : 0);
}

static void check(const char *where, size_t got)
{
	if (got != expected() && wrong++ < 10)
		say("%s: %zu, should be %zu\n", where, got, expected());
}

static void check_all(const char *where)
{
	errno = 77;
	check(where, mtrun_allocated_memory());
	check("from another file", more_allocated());
	if (mtrun_meta_memory() != (what == NONE ? 0 : (before ? mtrun_meta_memory() : 8 * blocks)))
		say("%s: meta %zu, blocks %zu\n", where, mtrun_meta_memory(), blocks);
	if (mtrun_memory_limit() != 0)
		say("%s: a limit\n", where);
#ifdef __cplusplus
	check("memtracer::allocated_memory()", memtracer::allocated_memory());
	if (memtracer::meta_memory() != mtrun_meta_memory() || memtracer::memory_limit())
		say("memtracer:: is different\n");
#endif
	if (errno != 77)
		say("%s: errno is %d\n", where, errno);
}

/* VmExe: the text, whole pages. */
static size_t text_bytes(void)
{
	static char status[8192];
	int fd = open("/proc/self/status", O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, status, sizeof(status) - 1);
	const char *at;

	if (fd >= 0)
		close(fd);
	status[n < 0 ? 0 : n] = '\0';
	at = strstr(status, "VmExe:");
	return at ? (size_t)atol(at + 6) * 1024 : 0;
}

/* ---- what is tried ---------------------------------------------------------------------------------------------------------------- */

static unsigned seed = 12345;
static unsigned draw(void)
{
	return (seed = seed * 1103515245u + 12345u) >> 8;
}

static void alone(void)
{
	static void *p[500];
	static size_t n[500];

	for (int i = 0; i < 3000; i++) {
		unsigned k = draw() % 500;

		if (p[k] && draw() % 4 == 0) {
			size_t now = draw() % 9000 + 1;

			p[k] = more(p[k], n[k], now);
			n[k] = now;
		} else if (p[k]) {
			give(p[k], n[k]);
			p[k] = NULL;
		} else
			p[k] = take(n[k] = draw() % 9000);
		if (i % 10 == 0)
			check_all("alone");
	}
	for (int i = 0; i < 500; i++)
		if (p[i])
			give(p[i], n[i]);
	check_all("alone, all given back");
}

static void maps(void)
{
	char *p = (char *)mmap(NULL, 40 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mapped += 40 * 4096;
	check_all("mmap");
	munmap(p + 4096, 8192);
	mapped -= 8192;
	check_all("munmap");
	mprotect(p + 4 * 4096, 4096, PROT_NONE);
	mapped -= 4096;
	check_all("mprotect");
	munmap(p, 40 * 4096);
	mapped = 0;
	check_all("unmapped");
}

/* Rounds: all allocate at once, then all stand still and ask. */
#define THREADS 4
#define ROUNDS  60
static pthread_barrier_t barrier;

static void *worker(void *arg)
{
	unsigned mine = (unsigned)(uintptr_t)arg;
	static __thread void *p[40];
	static __thread size_t n[40];

	for (int round = 0; round < ROUNDS; round++) {
		pthread_barrier_wait(&barrier);
		for (int i = 0; i < 200; i++) {
			unsigned k = (mine = mine * 1103515245u + 12345u) >> 8;
			size_t size = k % 5000;

			k = k / 5000 % 40;
			if (p[k])
				give(p[k], n[k]), p[k] = NULL;
			else
				p[k] = take(n[k] = size);
		}
		pthread_barrier_wait(&barrier);
		check("in a thread", mtrun_allocated_memory());
		pthread_barrier_wait(&barrier);
	}
	for (int i = 0; i < 40; i++)
		if (p[i])
			give(p[i], n[i]);
	pthread_barrier_wait(&barrier);		/* its own start and end allocate, too */
	pthread_barrier_wait(&barrier);
	return NULL;
}

static void threads(void)
{
	pthread_t t[THREADS];

	pthread_barrier_init(&barrier, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&t[i], NULL, worker, (void *)(uintptr_t)(i + 1)))
			_exit(96);
	before += mtrun_allocated_memory() - expected();	/* what pthread_create() holds */
	for (int round = 0; round < ROUNDS; round++) {
		pthread_barrier_wait(&barrier);
		pthread_barrier_wait(&barrier);
		check("beside threads", mtrun_allocated_memory());
		pthread_barrier_wait(&barrier);
	}
	pthread_barrier_wait(&barrier);
	check("after threads", mtrun_allocated_memory());
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	before += mtrun_allocated_memory() - expected();
}

static volatile sig_atomic_t rings, odd;
static void on_alarm(int signal)
{
	size_t n = mtrun_allocated_memory();

	(void)signal;
	mtrun_mark("alarm");
	rings++;
	odd += what == NONE ? n != 0 : n < before || n > before + held + mapped + text + 20000;
}

/* A handler that asks, in the middle of malloc, of a hook, of a question. */
static void signals(void)
{
	struct itimerval every = { { 0, 700 }, { 0, 700 } }, off = { { 0, 0 }, { 0, 0 } };
	struct sigaction action;

	memset(&action, 0, sizeof(action));
	action.sa_handler = on_alarm;
	action.sa_flags = SA_RESTART;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	for (int i = 0; rings < 20 || (rings < 200 && i < 400000); i++) {
		void *p = take(10000);

		if (i % 16 == 0)
			check("under signals", mtrun_allocated_memory());
		give(p, 10000);
	}
	setitimer(ITIMER_REAL, &off, NULL);
	if (odd)
		say("signals: %d of %d answers are wrong\n", (int)odd, (int)rings);
	check_all("after signals");
}

/* Texts that end where memory does, or are none. */
static void texts(void)
{
	char *p = (char *)mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char longest[300];

	mprotect(p + 4096, 4096, PROT_NONE);
	memset(p, 'x', 4096);
	memset(longest, 'y', sizeof(longest));
	mtrun_mark("phase 2");
	mtrun_mark("");
	mtrun_mark(NULL);
	mtrun_mark((const char *)1);
	mtrun_mark((const char *)-8);
	mtrun_mark((const char *)0x800000000000);
	mtrun_mark(p + 4090);
	mtrun_mark(p + 4096);
	mtrun_mark(longest);
	mtrun_snapshot("snap");
	mtrun_snapshot(NULL);
	munmap(p, 8192);
}

static void child(void)
{
	pid_t pid;
	int status;

	pid = fork();
	if (pid == 0) {
		void *p;

		if (getenv("API_CHILD_ALONE"))
			what = NONE;
		check_all("child");
		p = take(123);
		check_all("child, one more");
		give(p, 123);
		_exit(wrong ? 1 : 0);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		say("child: status %#x\n", status);
	check_all("parent");
}

static void plugin(const char *path)
{
	void *lib = dlopen(path, RTLD_NOW);
	size_t (*ask)(void) = lib ? (size_t(*)(void))dlsym(lib, "plugin_allocated") : NULL;
	size_t *at_start = lib ? (size_t *)dlsym(lib, "plugin_at_start") : NULL;

	if (!ask || !at_start) {
		say("plugin: %s\n", dlerror());
		return;
	}
	before += mtrun_allocated_memory() - expected();	/* what dlopen() holds */
	check("in a plugin", ask());
	if (what != NONE && !*at_start)
		say("a plugin's constructor: no answer\n");
}

static void strict(void)
{
	void *p = take(5000);

	check_all("before seccomp");
	if (prctl(PR_SET_SECCOMP, 1 /* SECCOMP_MODE_STRICT */)) {
		say("no seccomp\n");
		return;
	}
	for (int i = 0; i < 20; i++) {
		take(100);
		check_all("after seccomp");
	}
	give(p, 5000);
	check_all("after seccomp and free");
	mtrun_mark("strict");
	say(wrong ? "wrong\n" : "done\n");
	syscall(SYS_exit, 0);
}

/* Until the answer is 0: mtrun has left. */
static void until_alone(void)
{
	take(100);
	say("asking\n");
	for (int i = 0; i < 40000; i++) {
		size_t n = mtrun_allocated_memory();

		mtrun_mark("still");
		if (!n) {
			for (int k = 0; k < 100; k++)
				if (mtrun_allocated_memory())
					say("an answer from nobody\n");
			say("alone\n");
			return;
		}
		usleep(200);
	}
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_time(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void cost(void)
{
	static double took[20000];

	for (int i = 0; i < 20000; i++) {
		double began = now_us();

		mtrun_allocated_memory();
		took[i] = now_us() - began;
	}
	qsort(took, 20000, sizeof(took[0]), by_time);
	say("cost %.2f us\n", took[10000]);
}

/* The first thread has ended: what it has left in /proc cannot be read any more, the program goes on. */
static void *headless(void *unused)
{
	char state = 0;

	while (state != 'Z') {
		char text[512] = "", *at;
		int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);

		if (read(fd, text, sizeof(text) - 1) > 0 && (at = strrchr(text, ')')))
			state = at[2];
		close(fd);
		usleep(1000);
	}
	mtrun_mark("headless");
	mtrun_snapshot("headless");
	say("done\n");
	exit(0);
	return unused;
}

static void leave_thread(void)
{
	pthread_t t;

	pthread_create(&t, NULL, headless, NULL);
	pthread_exit(NULL);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "none";

	what = !strcmp(mode, "heap") || !strcmp(mode, "strict") ? HEAP : !strcmp(mode, "all") ? ALL : NONE;
	if (what == ALL)
		text = text_bytes();
	if (what != NONE && getenv("API_BEFORE"))	/* an allocator, a runtime library that holds something from the start */
		before = mtrun_allocated_memory() - expected();
	if (!strcmp(mode, "until-alone")) {
		until_alone();
		return 0;
	}
	if (!strcmp(mode, "cost")) {
		cost();
		return 0;
	}
	if (!strcmp(mode, "headless"))
		leave_thread();
	check_all("at the start");
	if (!strcmp(mode, "strict"))
		strict();
	alone();
	maps();
	texts();
	child();
	signals();
	threads();
	if (argc > 2)
		plugin(argv[2]);
	say(wrong ? "wrong\n" : "done\n");
	return wrong != 0;
}
