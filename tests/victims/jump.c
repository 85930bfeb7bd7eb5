// SPDX-License-Identifier: GPL-3.0-or-later
/* jump.c - longjmp out of deep frames that allocate, siglongjmp out of handlers, also of one that interrupted mmap. Argument: rounds. */
#define VICTIM_MAIN
#include "victim.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

static jmp_buf back;
static volatile int never;
static sigjmp_buf out;
static volatile int armed, jumps;
static volatile double sum;

VICTIM_NOINLINE static int deep(int n)
{
	char pad[80];
	memset(pad, n & 7, sizeof(pad));
	void *p = TOOK(malloc(51), 51);
	if (n == 0)
		longjmp(back, 1);
	free(GAVE(p));
	if (never)
		return 0;
	int r = deep(n - 1);
	return r + pad[n % 64];
}
VICTIM_NOINLINE static int level(int n)
{
	void *p = TOOK(malloc(53), 53);
	if (n)
		return level(n - 1) + 1;
	free(GAVE(p));
	return 0;
}
static void on_alarm(int sig)
{
	(void)sig;
	if (!armed)
		return;
	void *p = TOOK(malloc(52), 52);
	if (jumps % 2)
		free(GAVE(p));
	siglongjmp(out, 1);
}

int main(int argc, char **argv)
{
	volatile int rounds = argc > 1 ? atoi(argv[1]) : 100;
	struct sigaction a = {.sa_handler = on_alarm};
	struct itimerval t = {{0, 700}, {0, 700}}, off = {{0, 0}, {0, 0}};

	for (volatile int i = 0; i < rounds; i++) {
		if (!setjmp(back))
			deep(5 + i % 40);
		level(i % 10);
	}
	victim_also(__FILE__, __LINE__ + 10);
	sigaction(SIGALRM, &a, NULL);
	setitimer(ITIMER_REAL, &t, NULL);
	for (jumps = 0; jumps < 2 * rounds; jumps++) {
		if (!sigsetjmp(out, 1)) {
			armed = 1;
			for (;;) {
				if (jumps % 4 < 2) {
					sum += 1;
				} else {	/* the handler may leave for good from within a hook */
					void *m = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
					munmap(m, 4096);
				}
			}
		}
		armed = 0;
		free(GAVE(TOOK(malloc(54), 54)));
	}
	setitimer(ITIMER_REAL, &off, NULL);
	level(20);
	return 0;
}
