// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * prompt - lives until it is told to end, for tests that drive mtrun by hand. prompt THREADS: so many threads allocate and free without
 * pause. prompt flood: prints lines `line N xxx...` as fast as it can. prompt size: prints `size ROWS COLUMNS` at the start and whenever that
 * changes. prompt words: prints what it reads, line by line, as `word LINE`, after the question `word? `.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static void *allocate(void *unused)
{
	void *block[64] = { NULL };

	(void)unused;
	for (unsigned i = 0;; i++) {
		free(block[i % 64]);
		block[i % 64] = malloc(16 + i % 1000);
		if (i % 256 == 0)
			usleep(100);
	}
	return NULL;
}

static void print_size(int sig)
{
	struct winsize size;
	char text[64];

	(void)sig;
	if (ioctl(0, TIOCGWINSZ, &size) == 0 && write(1, text, (size_t)snprintf(text, sizeof(text), "size %d %d\n", size.ws_row, size.ws_col)) < 0)
		_exit(1);
}

static void flood(void)
{
	for (unsigned long i = 0;; i++)
		printf("line %lu xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n", i);
}

static void words(void)
{
	char line[256];

	for (;;) {
		printf("word? ");
		fflush(stdout);
		if (!fgets(line, sizeof(line), stdin))
			exit(0);
		printf("word %s", line);
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "1";
	pthread_t thread;

	if (!strcmp(what, "flood"))
		flood();
	if (!strcmp(what, "words"))
		words();
	if (!strcmp(what, "size")) {
		signal(SIGWINCH, print_size);
		print_size(0);
	}
	for (int i = 0; i < atoi(what); i++)
		pthread_create(&thread, NULL, allocate, NULL);
	for (;;)
		pause();
}
