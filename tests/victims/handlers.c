// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * handlers.c - allocates in handlers that interrupt recursions at random depths, and says for each block which functions are on the stack.
 *
 * Signals are raised by the thread for itself, always at one instruction, so that frames differ in little: a handler runs on the stack that it interrupts, or on one of six
 * alternative ones, on the first of them most often; handlers recurse, and are interrupted themselves. At the end: `block SIZE PATH` for each block, outermost function
 * first: l level, w wide, s short, h a handler. Sizes are all different. Arguments: rounds, seed.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#define BLOCKS 4000
#define DEEPEST 60
#define STACKS 6
#define SIZE 5000 /* of the first block: no other block of the program is as large as one of these */

/* Not static: then the compiler knows that the handler changes them. */
char path[DEEPEST + 8], said[BLOCKS][DEEPEST + 8];
void *volatile block[BLOCKS];
unsigned depth, blocks, wanted, seed = 1;
int busy[STACKS];
static char stack[STACKS][1 << 20] __attribute__((aligned(4096)));

static unsigned draw(unsigned n)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 16) % n;
}

static void go_on(void);

/* What F does is done with C at the path's end. */
#define INSIDE(c) do { path[depth++] = (c); go_on(); depth--; __asm__ volatile("" ::: "memory"); } while (0)

NOINLINE static void level(void) { INSIDE('l'); }
NOINLINE static void shorter(void) { INSIDE('s'); }

NOINLINE static void wide(unsigned n)
{
	char *pad = __builtin_alloca(16 + n * 16);

	memset(pad, 1, 16 + n * 16);
	__asm__ volatile("" : : "r"(pad) : "memory");
	INSIDE('w');
	__asm__ volatile("" : : "r"(pad) : "memory");
}

static void handler(int sig)
{
	(void)sig;
	INSIDE('h');
}

/* On a stack that no handler is on, or on this one. While a handler runs there is none set: SS_AUTODISARM. In the recursion itself: its frame is what is interrupted. */
static inline __attribute__((always_inline)) void interrupted(void)
{
	int k = draw(3) ? 0 : (int)draw(STACKS + 2), own = k < STACKS && !busy[k % STACKS];
	stack_t on = { .ss_sp = stack[k % STACKS], .ss_size = sizeof(stack[0]), .ss_flags = own ? (int)(1u << 31) : SS_DISABLE };
	long ret, pid = getpid(), tid = syscall(SYS_gettid), nr = SYS_tgkill, sig = SIGUSR1;

	busy[k % STACKS] += own;
	sigaltstack(&on, NULL);
	__asm__ volatile("syscall" : "=a"(ret) : "0"(nr), "D"(pid), "S"(tid), "d"(sig) : "rcx", "r11", "memory");
	busy[k % STACKS] -= own;
}

static void get(void)
{
	block[blocks] = malloc(SIZE + blocks);
	memcpy(said[blocks++], path, depth);
}

NOINLINE static void go_on(void)
{
	for (unsigned turns = 1 + draw(3); turns-- && blocks < wanted;) {
		if (path[depth - 1] == 'h' || !draw(6))	/* between two handlers there is often nothing that would tell them apart */
			get();
		if (path[depth - 1] == 'h' && draw(2))
			return;
		if (depth >= DEEPEST || blocks >= wanted)
			return;
		switch (draw(7)) {
		case 0: case 1: level(); break;
		case 2: shorter(); break;
		case 3: wide(draw(4)); break;
		case 4: case 5: interrupted(); break;
		}
	}
}

int main(int argc, char **argv)
{
	struct sigaction a = { .sa_handler = handler, .sa_flags = SA_ONSTACK | SA_NODEFER };

	wanted = argc > 1 ? (unsigned)atoi(argv[1]) : 500;
	if (wanted > BLOCKS)
		wanted = BLOCKS;
	if (argc > 2)
		seed = (unsigned)atoi(argv[2]);
	sigaction(SIGUSR1, &a, NULL);
	while (blocks < wanted)
		level();
	for (unsigned i = 0; i < blocks; i++)
		printf("block %u %s\n", SIZE + i, said[i]);
	return 0;
}
