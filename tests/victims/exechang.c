// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * exechang - exechang read|flush FILE [alone]: executes FILE, or (flush) /bin/true with FILE open and to be
 * closed by that, when a line `exec` comes. That is done by a thread of its own, or the only one. Prints
 * `ready`, and for each line of its standard input `turns N`: how many blocks it has made and freed.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned long turns;
static char **words;
static int file = -1;

static void *execute(void *arg)
{
	char *program = file < 0 ? words[2] : "/bin/true";

	execl(program, program, (char *)NULL);
	perror(program);
	return arg;
}

static void *answer(void *arg)
{
	char line[80];
	pthread_t thread;

	while (fgets(line, sizeof(line), stdin)) {
		printf("turns %lu\n", __atomic_load_n(&turns, __ATOMIC_RELAXED));
		fflush(stdout);
		if (strcmp(line, "exec\n"))
			continue;
		if (arg)
			execute(NULL);
		else if (pthread_create(&thread, NULL, execute, NULL))
			exit(1);
	}
	exit(0);
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	char byte;

	if (argc < 3)
		return 2;
	words = argv;
	if (!strcmp(argv[1], "flush")) {
		file = open(argv[2], O_RDONLY | O_CLOEXEC);
		if (read(file, &byte, 1) != 1)
			return 1;
	}
	free(malloc(1));
	printf("ready\n");
	fflush(stdout);
	if (argc > 3)
		answer(argv);
	if (pthread_create(&thread, NULL, answer, NULL))
		return 1;
	for (;;) {
		void *volatile block = malloc(100);

		free(block);
		__atomic_add_fetch(&turns, 1, __ATOMIC_RELAXED);
		usleep(100);
	}
}
