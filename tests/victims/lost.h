/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * lost.h - leaks whose bytes are known, for lost.c and lost_cxx.cc. `PROGRAM CASE...`, or `PROGRAM all`: each case in a child of its own, one after the
 * other. A child says
 *
 *	case NAME PID DEFINITE_BYTES BLOCKS INDIRECT_BYTES BLOCKS
 *
 * and ends at once by exit_group: that is the instant that the numbers are about. `PROGRAM -1 CASE`: in this process. $LOST_END: its exit status, or
 * with a minus the signal that it ends by.
 *
 * Nothing but the leak itself may decide. So each case runs in a frame that is overwritten afterwards, with the registers; what is to be found in
 * a stack or a register stays there until the end, in the cases that end by themselves.
 */
#ifndef LOST_H
#define LOST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __clang__
#define NOINLINE __attribute__((noinline, unused))
#else
#define NOINLINE __attribute__((noinline, noclone, unused))
#endif

static size_t definite[2], indirect[2];         /* bytes, blocks */

static size_t add(size_t *what, size_t bytes, size_t blocks)
{
	what[0] += bytes * blocks;
	what[1] += blocks;
	return bytes * blocks;
}

/* How much is asked for, and how it will be lost. */
#define DEFINITE(bytes) add(definite, bytes, 1)
#define INDIRECT(bytes) add(indirect, bytes, 1)

static const char *name;
static int end;

NOINLINE static void say(void)
{
	char text[200];
	int n = snprintf(text, sizeof(text), "case %s %d %zu %zu %zu %zu\n", name, (int)getpid(), definite[0], definite[1], indirect[0], indirect[1]);

	if (write(1, text, (size_t)n) != n)
		_exit(98);
}

/* What other functions have left behind: below the stack pointer, and in registers. */
NOINLINE static void scrub(void)
{
	volatile char stack[1 << 16];

	memset((char *)stack, 0, sizeof(stack));
	__asm__ volatile("" ::"r"(stack) : "memory");
	__asm__ volatile("xor %%eax, %%eax\nxor %%ecx, %%ecx\nxor %%edx, %%edx\nxor %%esi, %%esi\nxor %%edi, %%edi\n"
			 "xor %%r8d, %%r8d\nxor %%r9d, %%r9d\nxor %%r10d, %%r10d\nxor %%r11d, %%r11d\n"
			 "pxor %%xmm0, %%xmm0\npxor %%xmm1, %%xmm1\npxor %%xmm2, %%xmm2\npxor %%xmm3, %%xmm3\npxor %%xmm4, %%xmm4\n"
			 "pxor %%xmm5, %%xmm5\npxor %%xmm6, %%xmm6\npxor %%xmm7, %%xmm7\npxor %%xmm8, %%xmm8\npxor %%xmm9, %%xmm9\n"
			 "pxor %%xmm10, %%xmm10\npxor %%xmm11, %%xmm11\npxor %%xmm12, %%xmm12\npxor %%xmm13, %%xmm13\n"
			 "pxor %%xmm14, %%xmm14\npxor %%xmm15, %%xmm15" ::
				 : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6",
				   "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}

NOINLINE static void finish(void)
{
	say();
	scrub();
	if (end < 0)
		syscall(SYS_kill, getpid(), -end);
	syscall(SYS_exit_group, end);
}

/* Keeps the compiler from knowing what a pointer is used for. */
static void *volatile sink;
NOINLINE static void drop(void *p)
{
	sink = p;
	sink = NULL;
}

struct lost {
	const char *name;
	void (*run)(void);
};

NOINLINE static void run(const struct lost *c)
{
	name = c->name;
	c->run();
	scrub();
	finish();
}

static void in_child(const struct lost *c)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		run(c);
	waitpid(pid, &status, 0);
	if (status)
		fprintf(stderr, "lost: %s ended with %#x\n", c->name, (unsigned)status);
}

static int lost_main(int argc, char **argv, const struct lost *cases, size_t count)
{
	bool here = argc == 3 && !strcmp(argv[1], "-1");

	end = getenv("LOST_END") ? atoi(getenv("LOST_END")) : 0;

	for (int i = 1 + here; i < argc; i++)
		for (size_t k = 0; k < count; k++)
			if (!strcmp(argv[i], cases[k].name) || !strcmp(argv[i], "all"))
				(here ? run : in_child)(&cases[k]);
	return 0;
}

#endif
