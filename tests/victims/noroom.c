// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * noroom.c STEP TIMES - children that may map less than their parent has mapped: less by nothing, by
 * STEP bytes, and so on. Prints how many ended as they should, and the longest that one took, in ms.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long mapped(void)
{
	char line[256];
	long kb = 0;
	FILE *f = fopen("/proc/self/status", "r");

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "VmSize: %ld", &kb);
	if (f)
		fclose(f);
	return kb * 1024;
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

int main(int argc, char **argv)
{
	long step = atol(argv[1]), times = argc > 2 ? atol(argv[2]) : 0, right = 0, size = mapped();
	struct rlimit before, limit;
	double longest = 0;

	getrlimit(RLIMIT_AS, &before);
	for (long i = 0; i < times; i++) {
		double began = now_ms();
		int status = 0;
		pid_t pid;

		limit = before;
		limit.rlim_cur = (rlim_t)(size - i * step);
		setrlimit(RLIMIT_AS, &limit);
		pid = fork();
		if (!pid) {
			void *volatile p = malloc(100);

			free(p);
			_exit(3);
		}
		setrlimit(RLIMIT_AS, &before);
		waitpid(pid, &status, 0);
		right += WIFEXITED(status) && WEXITSTATUS(status) == 3;
		longest = now_ms() - began > longest ? now_ms() - began : longest;
	}
	printf("%ld %.0f\n", right, longest);
	return 0;
}
