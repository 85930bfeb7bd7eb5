// SPDX-License-Identifier: GPL-3.0-or-later
/* musl.c - a program for musl, whose libc has no call frame information: allocations called by it, calling back from it, in threads, in handlers. */
#include <pthread.h>
#include <search.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static void *volatile sink;
static const char *done;
static _Thread_local volatile int may_handle;	/* this thread is not in malloc, which must not be called from a handler then */

static __attribute__((noinline)) void grow(int depth)
{
	void *p = malloc((size_t)depth * 8 + 1);

	sink = p;
	if (depth)
		grow(depth - 1);
	free(p);
}

static int by_value(const void *a, const void *b)
{
	grow(2);
	may_handle = 1;
	for (volatile int i = 0; i < 300; i++)
		;
	may_handle = 0;
	return *(const int *)a - *(const int *)b;
}

static void on_alarm(int sig)
{
	(void)sig;
	if (may_handle)
		grow(3);
}

static void *work(void *arg)
{
	while (!done || access(done, F_OK)) {
		int v[8] = { 5, 3, 8, 1, 7, 2, 6, 4 };
		char *text = NULL, *line = NULL;
		size_t size = 0, len = 0;
		FILE *f = open_memstream(&text, &size);

		qsort(v, 8, sizeof(*v), by_value);
		fprintf(f, "%d %s %g\n", v[0], "some text", 1.5);
		fclose(f);
		f = fmemopen(text, size, "r");
		if (getline(&line, &len, f) > 0)
			free(strdup(line));
		fclose(f);
		free(line);
		free(text);
	}
	return arg;
}

int main(void)
{
	struct itimerval often = { .it_interval.tv_usec = 900, .it_value.tv_usec = 900 };
	struct sigaction sa = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	pthread_t other;

	done = getenv("FRAMES_DONE");
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	pthread_create(&other, NULL, work, NULL);
	work(NULL);
	pthread_join(other, NULL);
	return 0;
}
