// SPDX-License-Identifier: GPL-3.0-or-later
/* forks.c - N children, one after the other; each releases one block of its parent's. With `exec` every tenth of them becomes true(1), and a GB of addresses is reserved; with `wait` a line is waited for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static void *volatile kept[1000];
	int n = atoi(argv[1]), exec = argc > 2 && !strcmp(argv[2], "exec");

	if (exec)
		mmap(NULL, (size_t)1 << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	for (int i = 0; i < 1000; i++)
		kept[i] = malloc(100 + (size_t)i);
	for (int i = 0; i < n; i++) {
		pid_t pid = fork();

		if (!pid) {
			if (exec && i % 10 == 0)
				execl("/bin/true", "true", NULL);
			free(kept[i % 1000]);
			_exit(i % 7);
		}
		waitpid(pid, NULL, 0);
	}
	if (argc > 2 && !exec) {
		puts("ready");
		fflush(stdout);
		getchar();
	}
	return 0;
}
