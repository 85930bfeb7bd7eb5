// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * sanitized - to be built with -fsanitize=address or leak. sanitized LEAKS [WHEN]: LEAKS blocks of 100 to 199 bytes are lost, by three ways to allocate.
 * WHEN: `now`, a recoverable check is made, and 500 blocks are allocated and freed after it; `threads`, four threads allocate meanwhile and at the end;
 * `wait`, a line is read first; `fork`, a child does it all, and its status is the parent's. The exit status is 5 if no check ends the program.
 */
#include <pthread.h>
#include <sanitizer/lsan_interface.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *volatile last;

static __attribute__((noinline)) void lose(int n)
{
	for (int i = 0; i < n; i++) {
		last = i % 3 == 0 ? malloc(100 + i % 100) : i % 3 == 1 ? new char[100 + i % 100] : calloc(1, 100 + i % 100);
		last = nullptr;
	}
}

static void work(void)
{
	void *volatile p = malloc(64);

	free(p);
}

static void *allocate(void *)
{
	for (;;)
		work();
}

/* What lost blocks leave on the stack is written over. */
static __attribute__((noinline)) void scrub()
{
	char volatile text[4096];

	for (auto &c : text)
		c = 0;
}

int main(int argc, char **argv)
{
	int leaks = argc > 1 ? atoi(argv[1]) : 0, status;
	const char *when = argc > 2 ? argv[2] : "";
	pthread_t t;
	char line[16];

	if (!strcmp(when, "fork") && fork()) {
		wait(&status);
		return WEXITSTATUS(status);
	}
	if (!strcmp(when, "wait") && !fgets(line, sizeof(line), stdin))
		return 9;
	for (int i = 0; i < 4 && !strcmp(when, "threads"); i++)
		pthread_create(&t, nullptr, allocate, nullptr);
	lose(leaks);
	scrub();
	if (!strcmp(when, "now")) {
		printf("found %d\n", __lsan_do_recoverable_leak_check());
		for (int i = 0; i < 500; i++)
			work();
	}
	puts("done");
	fflush(stdout);
	return 5;
}
