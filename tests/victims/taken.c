// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * taken.c - memory that a stack once led into is taken away, in the way that is named; the program never touches it again, and goes on.
 *
 * A function runs on a stack of its own, at whose outer end a word says where it was called from: natively nobody looks at it. The word is the first one of a
 * piece of memory that comes and goes, or leads there by a frame of a page. While it is there a debugger finds `outer` as the caller; the word can also be 0. For each
 * block that the function allocates: `block SIZE PATH`: c for the function, f for the frame between, o where `outer` called it. Then `alive`, and status 0, also if no such way is known here (`no such way`).
 * A SIGSEGV or SIGBUS is none of the program's: status 3.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SIZE 65536ul

/* on_stack(TOP, FN): calls FN with the stack below TOP. What is said of its frame leads to the word at TOP. */
void on_stack(void *top, void (*fn)(void));
extern const char outer_inside[], far_inside[];
__asm__(".text\n"
	".globl on_stack\n.type on_stack, @function\non_stack:\n"
	".cfi_startproc\n"
	"push %rbx\n.cfi_adjust_cfa_offset 8\n"
	"mov %rsp, %rbx\n"
	"mov %rdi, %rsp\n"
	".cfi_endproc\n"
	".cfi_startproc\n.cfi_def_cfa_offset 8\n"
	"call *%rsi\n"
	"mov %rbx, %rsp\n"
	"pop %rbx\n"
	"ret\n"
	".cfi_endproc\n.size on_stack, . - on_stack\n"
	".type outer, @function\nouter:\n"
	".cfi_startproc\n.cfi_def_cfa_offset 16\n"
	"nop\nouter_inside:\nud2\n"
	".cfi_endproc\n.size outer, . - outer\n"
	".type far, @function\nfar:\n"
	".cfi_startproc\n.cfi_def_cfa_offset 4096\n"
	"nop\nfar_inside:\nud2\n"
	".cfi_endproc\n.size far, . - far\n");

static char *lower, *upper;		/* the stack, and what goes */
static uint64_t *top, *word;		/* where the stack begins, and the word; the same unless there is a frame between */
static unsigned blocks;
static void *volatile keep[64];
static volatile int flipping;

__attribute__((noinline)) static void called(void)
{
	keep[blocks] = malloc(2000 + blocks);
	__asm__ volatile("" ::: "memory");
}

static void block(int linked)
{
	on_stack(top, called);
	printf("block %u %s%sc\n", 2000 + blocks++, linked ? "o" : "", top != word ? "f" : "");
}

/* What a debugger finds at the outer end: `outer`, called from nowhere; or nothing. */
static void link_outer(int on)
{
	word[0] = on ? (uint64_t)outer_inside : 0;
	word[1] = word[2] = 0;
}

static void fault(int sig)
{
	(void)sig;
	_exit(3);
}

static long raw(long nr, long a, long b, long c, long d, long e, long f)
{
	long ret;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;

	__asm__ volatile("syscall" : "=a"(ret) : "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
	return ret;
}

static int none(void)
{
	puts("no such way");
	return 0;
}

/* ---- where the upper part lies --------------------------------------------------------------------------------------------------- */

static char *map(char *at, size_t size)
{
	return mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);
}

static void in_one_mapping(void)
{
	lower = map(NULL, 2 * SIZE);
	upper = lower + SIZE;
}

static int way_is(const char *way, const char *is)
{
	return !strcmp(way, is);
}

/* Makes both parts for WAY; 0: there is no such way here. */
static int prepare(const char *way)
{
	char *reserved = mmap(NULL, 4 * SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (way_is(way, "brk") || way_is(way, "sbrk")) {
		char *now = sbrk(0);

		if (now == (void *)-1 || sbrk((intptr_t)(3 * SIZE)) == (void *)-1)
			return 0;
		lower = (char *)(((uintptr_t)now + 4095) & ~4095ul);
		upper = lower + SIZE;
	} else if (way_is(way, "free")) {	/* an allocator gives a large block back to the kernel by itself */
		char *p = malloc(64 * SIZE);

		keep[40] = p;
		upper = p - ((uintptr_t)p & 4095);
		lower = mmap(upper - SIZE, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (lower != upper - SIZE)
			return 0;
		top = (uint64_t *)(upper - 64);
		top[0] = (uint64_t)far_inside;
		word = top + 512;
	} else if (way_is(way, "shmdt")) {
		int id = shmget(IPC_PRIVATE, SIZE, IPC_CREAT | 0600);

		lower = map(reserved, SIZE);
		upper = reserved + SIZE;
		munmap(upper, SIZE);
		if (id < 0 || shmat(id, upper, 0) != upper)
			return 0;
		shmctl(id, IPC_RMID, NULL);
	} else if (way_is(way, "truncate")) {
		int fd = memfd_create("taken", MFD_CLOEXEC);

		lower = map(reserved, SIZE);
		upper = reserved + SIZE;
		if (fd < 0 || ftruncate(fd, SIZE) || mmap(upper, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != upper)
			return 0;
		keep[41] = (void *)(intptr_t)fd;
	} else
		in_one_mapping();
	if (!top)
		top = word = (uint64_t *)upper;
	return 1;
}

/* ---- and how it goes -------------------------------------------------------------------------------------------------------------- */

#define UPPER (long)upper, (long)SIZE

static int take(const char *way)
{
	int fixed = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	char *other = map(NULL, SIZE);

	if (way_is(way, "fixed"))
		return mmap(upper, SIZE, PROT_NONE, fixed, -1, 0) == upper;
	if (way_is(way, "fixed-syscall"))
		return syscall(SYS_mmap, UPPER, PROT_NONE, fixed, -1, 0) == (long)upper;
	if (way_is(way, "fixed-raw"))
		return raw(SYS_mmap, UPPER, PROT_NONE, fixed, -1, 0) == (long)upper;
	if (way_is(way, "munmap"))
		return !munmap(upper, SIZE);
	if (way_is(way, "munmap-syscall"))
		return !syscall(SYS_munmap, UPPER);
	if (way_is(way, "munmap-raw"))
		return !raw(SYS_munmap, UPPER, 0, 0, 0, 0);
	if (way_is(way, "protect"))
		return !mprotect(upper, SIZE, PROT_NONE);
	if (way_is(way, "protect-syscall"))
		return !syscall(SYS_mprotect, UPPER, PROT_NONE);
	if (way_is(way, "protect-raw"))
		return !raw(SYS_mprotect, UPPER, PROT_NONE, 0, 0, 0);
	if (way_is(way, "pkey"))
		return !syscall(SYS_pkey_mprotect, UPPER, PROT_NONE, -1);
	if (way_is(way, "remap"))
		return mremap(upper, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, other) == other;
	if (way_is(way, "remap-over"))
		return !mprotect(other, SIZE, PROT_NONE) && mremap(other, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, upper) == upper;
	if (way_is(way, "remap-over-syscall"))
		return !mprotect(other, SIZE, PROT_NONE) &&
		       syscall(SYS_mremap, (long)other, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, UPPER) == (long)upper;
	if (way_is(way, "dontunmap"))
		return mremap(upper, SIZE, SIZE, MREMAP_MAYMOVE | 4 /* MREMAP_DONTUNMAP */) != MAP_FAILED;
	if (way_is(way, "dontneed"))
		return !madvise(upper, SIZE, MADV_DONTNEED);
	if (way_is(way, "guard"))
		return !madvise(upper, SIZE, 102 /* MADV_GUARD_INSTALL */);
	if (way_is(way, "brk"))
		return !brk(upper);
	if (way_is(way, "sbrk"))
		return sbrk(upper - (char *)sbrk(0)) != (void *)-1;
	if (way_is(way, "shmdt"))
		return !shmdt(upper);
	if (way_is(way, "truncate"))
		return !ftruncate((int)(intptr_t)keep[41], 0);
	if (way_is(way, "free")) {
		free(keep[40]);
		return 1;
	}
	return 0;
}

/* Another thread takes it away and brings it back all the time, by calls that no library sees. */
static void *flip(void *arg)
{
	(void)arg;
	while (flipping) {
		raw(SYS_munmap, UPPER, 0, 0, 0, 0);
		raw(SYS_mmap, UPPER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		*(volatile uint64_t *)upper = (uint64_t)outer_inside;
	}
	return NULL;
}

static void while_flipping(double seconds)
{
	struct timespec began, now;
	pthread_t t;

	flipping = 1;
	pthread_create(&t, NULL, flip, NULL);
	clock_gettime(CLOCK_MONOTONIC, &began);
	do {
		for (int i = 0; i < 1000; i++) {
			blocks = 50 + (unsigned)i % 8;
			on_stack(upper, called);
			free(keep[blocks]);
		}
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((double)(now.tv_sec - began.tv_sec) + (double)(now.tv_nsec - began.tv_nsec) / 1e9 < seconds);
	flipping = 0;
	pthread_join(t, NULL);
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "fixed";

	keep[0] = malloc(100000);	/* the allocator's part of the break is below ours */
	free(keep[0]);
	signal(SIGSEGV, fault);
	signal(SIGBUS, fault);
	if (way_is(way, "thread")) {
		in_one_mapping();
		while_flipping(argc > 2 ? atof(argv[2]) : 1);
		puts("alive");
		return 0;
	}
	if (!prepare(way))
		return none();
	for (int i = 0; i < 5; i++) {
		int on = i != 0 && i != 3;

		link_outer(on);
		block(on);
	}
	if (!take(way))
		return none();
	block(0);
	block(0);
	puts("alive");
	return 0;
}
