// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * captured.c - a program whose memory is looked at while it works: captured THREADS MB
 *
 * Each thread replaces blocks, writes numbers into memory of its own and looks whether they are still there, maps, unmaps, moves, gives back and
 * protects memory. What is wrong with any of it ends the program with status 1 and a line. LOST blocks of LOST_SIZE bytes are lost at the beginning,
 * each with one of INDIRECT_SIZE that only it points to. Each line of its standard input is a command:
 *
 *	ops		prints `ops N`: how much was done
 *	vfork		a thread has a child by vfork(2) for two seconds; `done` when it begins
 *	share, fork, threads, huge	a thread moves a pointer in shared memory; has children, or threads, one after the other; writes huge pages
 *	protect		it has a userfaultfd of its own, for some of its memory
 *	ring		an io_uring, which it does not use
 *	filter		a seccomp filter, which allows everything
 *	exec		it becomes itself, once more
 *	quiet, work	its threads rest, or not
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOST	      200
#define LOST_SIZE     1000
#define INDIRECT_SIZE 296 /* as LOST_SIZE: all that glibc sets aside for it */
#define SLOTS	      2000
#define PAGE	      4096ul
#define SPARE	      64 /* pages that are mapped and unmapped */

static unsigned long ops;
static bool quiet;
static size_t pages; /* of each thread */

static _Noreturn void wrong(const char *what)
{
	printf("WRONG %s: %s\n", what, strerror(errno));
	fflush(stdout);
	_exit(1);
}

static uint64_t next(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	return *x ^= *x << 17;
}

static char *map(size_t n, int prot)
{
	char *at = mmap(NULL, n * PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		wrong("mmap");
	return at;
}

/* What is mapped beside others may be joined to those, and then not to itself when half of it is mapped anew: nothing is beside this. */
static char *map_alone(size_t n)
{
	char *at = map(n + 2, PROT_NONE) + PAGE;

	if (mprotect(at, n * PAGE, PROT_READ | PROT_WRITE))
		wrong("mprotect");
	return at;
}

static void unmap_beside(char *at, size_t n)
{
	if (munmap(at - PAGE, PAGE) || munmap(at + n * PAGE, PAGE))
		wrong("munmap");
}

struct work {
	uint64_t random;
	char *pages;
	uint32_t *written; /* what was written last into each */
	uint32_t number;
	char *spare;
	bool moved, split; /* it is not where it was mapped; and so what is mapped there anew is not joined to the rest */
	void **slot;
};

static void write_page(struct work *w)
{
	size_t i = next(&w->random) % pages;
	volatile uint32_t *at = (uint32_t *)(void *)(w->pages + i * PAGE + 8 * (i % 500));

	if (*at != w->written[i])
		wrong("a page");
	*at = w->written[i] = ++w->number;
}

static void replace_block(struct work *w)
{
	size_t i = next(&w->random) % SLOTS, size = next(&w->random) % 3000 + 16;
	char *p = w->slot[i];

	if (p && (p[0] != (char)i || p[8] != (char)(i >> 8)))
		wrong("a block");
	w->slot[i] = NULL;
	free(p);
	p = malloc(size);
	p[0] = (char)i;
	p[8] = (char)(i >> 8);
	w->slot[i] = p;
}

static void change_mapping(struct work *w)
{
	size_t half = SPARE / 2 * PAGE;
	char *at;

	memset(w->spare, 1, SPARE * PAGE);
	switch (w->split ? 4 : next(&w->random) % 5) {
	case 0:
		w->split = w->moved;
		at = mmap(w->spare, half, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		if (at != w->spare || at[half - 1] || at[half] != 1)
			wrong("what was mapped anew");
		break;
	case 1:
		at = mremap(w->spare, SPARE * PAGE, 2 * SPARE * PAGE, MREMAP_MAYMOVE);
		if (at == MAP_FAILED || at[SPARE * PAGE - 1] != 1 || at[SPARE * PAGE])
			wrong("what was moved");
		if (munmap(at + SPARE * PAGE, SPARE * PAGE))
			wrong("munmap");
		if (!w->moved)
			unmap_beside(w->spare, SPARE);
		w->spare = at;
		w->moved = true;
		break;
	case 2:
		if (madvise(w->spare, half, MADV_DONTNEED) || w->spare[0] || w->spare[half] != 1)
			wrong("what was given back");
		break;
	case 3:
		if (mprotect(w->spare, half, PROT_READ) || mprotect(w->spare, half, PROT_READ | PROT_WRITE))
			wrong("mprotect");
		w->spare[5] = 7;
		break;
	default:
		if (munmap(w->spare, SPARE * PAGE))
			wrong("munmap");
		if (!w->moved)
			unmap_beside(w->spare, SPARE);
		w->spare = map_alone(SPARE);
		w->moved = w->split = false;
	}
}

static void *work(void *arg)
{
	struct work w = { .random = (uintptr_t)arg * 77 + 1, .pages = map(pages, PROT_READ | PROT_WRITE), .spare = map_alone(SPARE) };

	w.written = calloc(pages, sizeof(*w.written));
	w.slot = calloc(SLOTS, sizeof(*w.slot));
	for (size_t i = 0; i < pages; i++)
		w.pages[i * PAGE + PAGE - 1] = 1;
	for (unsigned i = 0;; i++) {
		while (__atomic_load_n(&quiet, __ATOMIC_RELAXED))
			usleep(1000);
		write_page(&w);
		if (i % 4 == 0)
			replace_block(&w);
		if (i % 256 == 0)
			change_mapping(&w);
		__atomic_fetch_add(&ops, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* ---- what it loses ------------------------------------------------------- */

static __attribute__((noinline)) void lose(void)
{
	for (int i = 0; i < LOST; i++) {
		void **p = calloc(1, LOST_SIZE); /* line:lost */

		*p = calloc(1, INDIRECT_SIZE); /* line:indirect */
		__asm__ volatile("" : : "r"(p) : "memory");
	}
}

static __attribute__((noinline)) void scrub(void)
{
	char stack[65536];

	memset(stack, 0, sizeof(stack));
	__asm__ volatile("" : : "r"(stack) : "memory");
	free(malloc(LOST_SIZE));
}

/* ---- what else it may be at --------------------------------------------- */

/*
 * A block's only pointer goes from place to place in shared memory, which is written where nobody reads it: it is mapped twice.
 */
static void *share(void *arg)
{
	int fd = memfd_create("shared", MFD_CLOEXEC);
	char *at, *other;
	uint64_t random = 99;

	if (fd < 0 || ftruncate(fd, SPARE * PAGE))
		wrong("memfd_create");
	at = mmap(NULL, SPARE * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	other = mmap(NULL, SPARE * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	memset(at, 0, SPARE * PAGE);
	*(void *volatile *)(void *)other = malloc(5000);
	for (size_t i = 0;;) {
		size_t next_one = next(&random) % SPARE;

		*(void *volatile *)(void *)(other + next_one * PAGE) = *(void *volatile *)(void *)(other + i * PAGE);
		if (next_one != i)
			*(void *volatile *)(void *)(other + i * PAGE) = NULL;
		i = next_one;
	}
	return arg;
}

/* Children see what was there. */
static void *have_children(void *arg)
{
	size_t n = 2000;
	char *at = map(n, PROT_READ | PROT_WRITE);

	for (unsigned round = 1;; round++) {
		int status;
		pid_t pid;

		for (size_t i = 0; i < n; i++)
			*(volatile unsigned *)(void *)(at + i * PAGE) = round;
		pid = fork();
		if (pid < 0)
			wrong("fork");
		if (pid == 0) {
			for (size_t i = 0; i < n; i++)
				if (*(volatile unsigned *)(void *)(at + i * PAGE) != round)
					_exit(1);
			_exit(0);
		}
		if (waitpid(pid, &status, 0) != pid || status)
			wrong("a child");
		__atomic_fetch_add(&ops, 1, __ATOMIC_RELAXED);
	}
	return arg;
}

static void *nothing(void *arg) { return arg; }

static void *have_threads(void *arg)
{
	for (;;) {
		pthread_t t;

		if (pthread_create(&t, NULL, nothing, NULL) || pthread_join(t, NULL))
			wrong("a thread");
		__atomic_fetch_add(&ops, 1, __ATOMIC_RELAXED);
	}
	return arg;
}

/* Huge pages, as far as there are any: what was written last into each part is there. */
static void *have_huge_pages(void *arg)
{
	size_t huge = 512 * PAGE, n = 16;
	char *at = (char *)(((uintptr_t)map((n + 1) * 512, PROT_READ | PROT_WRITE) + huge - 1) & ~(huge - 1));
	static uint32_t written[16 * 512];
	uint64_t random = 7;

	madvise(at, n * huge, MADV_HUGEPAGE);
	for (uint32_t number = 0;; number++) {
		size_t i = next(&random) % (n * 512);
		volatile uint32_t *word = (uint32_t *)(void *)(at + i * PAGE);

		if (*word != written[i])
			wrong("a huge page");
		*word = written[i] = number;
		if (number % 100000 == 0 && (madvise(at, huge, MADV_DONTNEED) || madvise(at, huge, MADV_HUGEPAGE)))
			wrong("madvise");
		if (number % 100000 == 0)
			memset(written, 0, 512 * sizeof(*written));
	}
	return arg;
}

/* ---- commands ------------------------------------------------------------ */

static void *have_child(void *arg)
{
	pid_t pid = vfork();

	if (pid == 0) {
		sleep(2);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	return arg;
}

static void protect(void)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | 1);
	struct uffdio_api api = { .api = UFFD_API };
	char *at = map(SPARE, PROT_READ | PROT_WRITE);
	struct uffdio_register r = { .range = { (uintptr_t)at, SPARE * PAGE }, .mode = UFFDIO_REGISTER_MODE_MISSING };

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &r))
		wrong("userfaultfd");
}

/* Not every kernel lets it have one; then it is a userfaultfd. */
static void ring(void)
{
	static char params[120];

	if (syscall(SYS_io_uring_setup, 4, params) < 0)
		protect();
}

static void filter(void)
{
	struct sock_filter allow = { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW };
	struct sock_fprog program = { 1, &allow };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		wrong("seccomp");
}

static void answer(char **argv, const char *command)
{
	pthread_t t;

	static const struct {
		const char *command;
		void *(*fn)(void *);
	} more[] = { { "vfork\n", have_child }, { "share\n", share }, { "fork\n", have_children }, { "threads\n", have_threads }, { "huge\n", have_huge_pages } };

	for (size_t i = 0; i < sizeof(more) / sizeof(*more); i++)
		if (!strcmp(command, more[i].command) && pthread_create(&t, NULL, more[i].fn, NULL))
			wrong("pthread_create");
	if (!strcmp(command, "protect\n"))
		protect();
	else if (!strcmp(command, "ring\n"))
		ring();
	else if (!strcmp(command, "filter\n"))
		filter();
	else if (!strcmp(command, "exec\n"))
		execv("/proc/self/exe", argv);
	else if (!strcmp(command, "quiet\n") || !strcmp(command, "work\n"))
		__atomic_store_n(&quiet, *command == 'q', __ATOMIC_RELAXED);
	if (!strcmp(command, "vfork\n"))
		usleep(100000);
	printf("ops %lu\n", __atomic_load_n(&ops, __ATOMIC_RELAXED));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	uintptr_t threads = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
	char command[80];
	pthread_t t;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	pages = (argc > 2 ? strtoul(argv[2], NULL, 10) << 20 : 1 << 20) / PAGE / threads;
	lose();
	scrub();
	for (uintptr_t i = 0; i < threads; i++)
		pthread_create(&t, NULL, work, (void *)i);
	while (__atomic_load_n(&ops, __ATOMIC_RELAXED) < 10 * threads)
		usleep(1000);
	printf("ready\n");
	fflush(stdout);
	while (fgets(command, sizeof(command), stdin))
		answer(argv, command);
	return 0;
}
