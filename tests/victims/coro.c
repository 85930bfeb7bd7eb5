// SPDX-License-Identifier: GPL-3.0-or-later
/* coro.c - coroutines: stacks from malloc and mmap, allocated on, freed, used again, at the same addresses with other frames. Argument: rounds. */
#define VICTIM_MAIN
#include "victim.h"
#include <sys/mman.h>
#include <ucontext.h>

#define STACK 65536
#define N     8
static ucontext_t home, ctx[N];
static volatile int now, alive;

VICTIM_NOINLINE static void turn(int i) { now = i; swapcontext(&ctx[i], &home); }

VICTIM_NOINLINE static void dig(int i, int n)
{
	void *p = TOOK(malloc(71), 71);
	turn(i);
	if (n)
		dig(i, n - 1);
	void *q = TOOK(malloc(72), 72);
	free(GAVE(p));
	turn(i);
	if (n % 2)
		free(GAVE(q));
}
VICTIM_NOINLINE static void other_way(int i, int n)
{
	void *p = TOOK(calloc(1, 73), 73);
	turn(i);
	if (n > 1)
		other_way(i, n - 2);
	free(GAVE(p));
}
static void entry(int i, int n)
{
	if (n % 2)
		dig(i, n);
	else
		other_way(i, n);
	alive--;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 60;
	for (volatile int r = 0; r < rounds; r++) {
		void *stack[N];
		bool done[N] = {0};
		for (int i = 0; i < N; i++) {
			if (i % 2)
				stack[i] = TOOK(malloc(STACK), STACK);
			else
				ALSO, stack[i] = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			getcontext(&ctx[i]);
			ctx[i].uc_stack.ss_sp = stack[i];
			ctx[i].uc_stack.ss_size = STACK;
			ctx[i].uc_link = &home;
			makecontext(&ctx[i], (void (*)(void))entry, 2, i, (r + i) % 13);
		}
		alive = N;
		while (alive)
			for (int i = 0; i < N; i++) {
				int before = alive;
				if (done[i])
					continue;
				swapcontext(&home, &ctx[i]);
				done[i] = alive < before;
			}
		for (int i = 0; i < N; i++) {
			if (i % 2)
				free(GAVE(stack[i]));
			else
				munmap(stack[i], STACK);
		}
	}
	return 0;
}
