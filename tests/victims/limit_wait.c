// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * limit_wait.c FILE [children]: under a limit of 1000000 bytes of heap. One thread counts in FILE as long as it runs; the other asks for what there
 * is no room for, and goes on when it has an answer: 1 granted, 2 refused. `children`: three of them wait, of whom one has a child, and so on.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct { _Atomic unsigned long count, answer, pid[4]; } *file;

static void *count(void *arg)
{
	for (;;)
		atomic_fetch_add(&file->count, 1);
	return arg;
}

static void more(int n)
{
	if (n < 4 && fork() == 0) {
		file->pid[n] = (unsigned long)getpid();
		more(n + 1);
		for (;;)
			pause();
	}
	while (!file->pid[3])
		usleep(1000);
}

int main(int argc, char **argv)
{
	int fd = argc > 1 ? open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600) : -1;
	pthread_t id;
	void *p;

	if (fd < 0 || ftruncate(fd, sizeof(*file)) < 0)
		return 2;
	file = mmap(NULL, sizeof(*file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (argc > 2)
		more(0);
	if (pthread_create(&id, NULL, count, NULL) != 0)
		return 2;
	while (!file->count)
		usleep(1000);
	if (!(p = malloc(900000)))
		return 2;
	memset(p, 1, 900000);
	p = malloc(200000);
	atomic_store(&file->answer, p ? 1 : 2);
	usleep(100000);
	return p ? 0 : 1;
}
