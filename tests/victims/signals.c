// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * signals.c - allocation in signal handlers: of a timer that interrupts code that does not allocate, of raise(), of a timer during mmap and
 * munmap (which hold no lock of the allocator), on an alternate stack, of another thread's pthread_kill. Argument: rounds.
 */
#define VICTIM_MAIN
#include "victim.h"
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

static volatile sig_atomic_t ticks, wanted;
static volatile int phase;
static volatile double sum;

VICTIM_NOINLINE static void in_handler(void)
{
	void *p = TOOK(malloc(31), 31);
	void *q = TOOK(malloc(32), 32);
	free(GAVE(p));
	(void)q;
}
static void on_alarm(int sig)
{
	(void)sig;
	int e = errno;
	if (ticks < wanted)
		in_handler();
	ticks++;
	errno = e;
}
static void on_usr1(int sig)
{
	(void)sig;
	void *p = TOOK(malloc(41), 41);
	if (phase % 2)
		free(GAVE(p));
}

static void timer(int us)
{
	struct itimerval t = {{0, us}, {0, us}};
	setitimer(ITIMER_REAL, &t, NULL);
}

static pthread_t main_thread;
static volatile int other_done;
static void *other(void *arg)
{
	for (int i = 0; i < (int)(uintptr_t)arg; i++) {
		pthread_kill(main_thread, SIGUSR2);
		usleep(200);
	}
	other_done = 1;
	return NULL;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 200;
	struct sigaction a = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	stack_t alt = {.ss_size = 64 * 1024};

	sigaction(SIGALRM, &a, NULL);
	sigaction(SIGUSR2, &a, NULL);
	a.sa_handler = on_usr1;
	sigaction(SIGUSR1, &a, NULL);

	/* a busy loop of arithmetic */
	wanted = rounds;
	timer(500);
	for (double x = 1; ticks < wanted; x += 0.5)
		sum += 1 / x;
	/* system calls */
	ticks = 0;
	while (ticks < wanted)
		getppid();
	/* mappings come and go */
	victim_also(__FILE__, __LINE__ + 3);	/* a handler may interrupt that line: not there */
	ticks = 0;
	while (ticks < wanted) {
		void *m = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		munmap(m, 8192);
	}
	timer(0);
	/* on an alternate stack */
	alt.ss_sp = TOOK(malloc(alt.ss_size), alt.ss_size);
	sigaltstack(&alt, NULL);
	a.sa_handler = on_alarm;
	a.sa_flags = SA_RESTART | SA_ONSTACK;
	sigaction(SIGALRM, &a, NULL);
	ticks = 0;
	timer(500);
	for (double x = 1; ticks < wanted; x += 0.5)
		sum += 1 / x;
	timer(0);
	/* at once, in the thread's own code */
	for (phase = 0; phase < rounds; phase++)
		raise(SIGUSR1);
	/* from another thread */
	ticks = 0;
	main_thread = pthread_self();
	pthread_t t;
	ALSO; pthread_create(&t, NULL, other, (void *)(uintptr_t)rounds);
	while (!other_done)
		sum += 1;
	pthread_join(t, NULL);
	return 0;
}
