// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Blocks that are held in each way there is, one each, and each of them by nothing else. Prints `NAME ADDRESS`, then waits for the end of its stdin.
 *	variable	by the third of an array of pointers
 *	beyond		by big[15000], which is behind the first page of the variables that are zero
 *	chain		by a chain of blocks from that one: 24 bytes each, the link at +8
 *	local		by a thread-local variable of the first thread
 *	other_local	by one of another thread
 *	frame		by a variable in the frame of hold_here(), which calls others
 *	thread_frame	by one in the frame of hold_there(), of another thread
 *	register	by r12 alone, of a third thread
 *	middle		by a pointer to its middle
 *	lost, under	by nothing; by that one
 * cell, behind: no blocks, but where big[15000] is, and a page that is mapped right behind the variables.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#define HIDDEN	 0x5a5a5a5a5a5a5a5aul

struct node {
	uint64_t number;
	struct node *next;
	uint64_t rest;
};

static void *volatile table[8];
static void *volatile big[20000];
static char *volatile inside;
extern char _end[];
static __thread void *volatile local[2];
static pthread_barrier_t barrier;
static uintptr_t hidden[3];

static NOINLINE struct node *make(void)
{
	static uint64_t made;
	struct node *a = calloc(1, sizeof(struct node));

	a->number = ++made;
	return a;
}

static NOINLINE void say(const char *name, uintptr_t hidden_address)
{
	printf("%s %#lx\n", name, (unsigned long)(hidden_address ^ HIDDEN));
}

/* What calls have left on the stack and in registers would hold blocks, too. */
static NOINLINE void forget(void)
{
	char rest[32768];

	memset(rest, 0, sizeof(rest));
	__asm__ volatile("" ::"r"(rest) : "memory");
	__asm__ volatile("pxor %%xmm0, %%xmm0; pxor %%xmm1, %%xmm1; pxor %%xmm2, %%xmm2; pxor %%xmm3, %%xmm3; pxor %%xmm4, %%xmm4; pxor %%xmm5, %%xmm5;"
			 "pxor %%xmm6, %%xmm6; pxor %%xmm7, %%xmm7; pxor %%xmm8, %%xmm8; pxor %%xmm9, %%xmm9; pxor %%xmm10, %%xmm10; pxor %%xmm11, %%xmm11"
			 ::: "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11");
}

static NOINLINE void rest(int up)
{
	char byte;

	if (up) {
		while (read(0, &byte, 1) > 0)
			;
		_exit(0);
	}
	pthread_barrier_wait(&barrier);
	for (;;)
		pause();
}

static NOINLINE void fill_variables(void)
{
	struct node *a = make();

	table[3] = a;
	a->next = make();
	a->next->next = make();
	a->next->next->next = make();
	say("variable", (uintptr_t)a ^ HIDDEN);
	say("chain", (uintptr_t)a->next->next->next ^ HIDDEN);
	big[15000] = make();
	say("beyond", (uintptr_t)big[15000] ^ HIDDEN);
	say("cell", (uintptr_t)&big[15000] ^ HIDDEN);
	say("behind", (uintptr_t)mmap((void *)(((uintptr_t)_end + 4095) & ~4095ul), 4096,
				      PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) ^
			      HIDDEN);
	local[1] = make();
	say("local", (uintptr_t)local[1] ^ HIDDEN);
	inside = calloc(1, 1000);
	say("middle", (uintptr_t)inside ^ HIDDEN);
	inside += 500;
	a = make();
	a->next = make();
	say("lost", (uintptr_t)a ^ HIDDEN);
	say("under", (uintptr_t)a->next ^ HIDDEN);
}

static void *hold_there(void *arg)
{
	struct node *volatile mine = make();

	hidden[0] = (uintptr_t)mine ^ HIDDEN;
	local[0] = make();
	hidden[1] = (uintptr_t)local[0] ^ HIDDEN;
	forget();
	rest(0);
	return mine == arg ? arg : NULL;
}

static void *hold_in_register(void *arg)
{
	hidden[2] = (uintptr_t)make() ^ HIDDEN;
	forget();
	pthread_barrier_wait(&barrier);
	__asm__ volatile("movq %0, %%r12; movabsq $0x5a5a5a5a5a5a5a5a, %%rax; xorq %%rax, %%r12; 1: movl $34, %%eax; syscall; jmp 1b" ::"m"(hidden[2]) : "rax", "rcx", "r11", "r12", "memory");
	return arg;
}

static NOINLINE void hold_here(void)
{
	struct node *volatile mine = make();

	say("frame", (uintptr_t)mine ^ HIDDEN);
	puts("up");
	fflush(stdout);
	forget(); /* also where the next frame will be */
	rest(1);
	free(mine);
}

int main(void)
{
	pthread_t thread;

	pthread_barrier_init(&barrier, NULL, 3);
	if (pthread_create(&thread, NULL, hold_there, NULL) || pthread_create(&thread, NULL, hold_in_register, NULL))
		return 1;
	pthread_barrier_wait(&barrier);
	fill_variables();
	say("thread_frame", hidden[0]);
	say("other_local", hidden[1]);
	say("register", hidden[2]);
	memset(hidden, 0, 2 * sizeof(*hidden));
	hold_here();
	return 0;
}
