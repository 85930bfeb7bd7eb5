// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * lent.c - waits until somebody has loaded a library with these two functions into it (a debugger), then calls them: 777 bytes from the
 * library's own line, 1000 from an allocator that the library defines. Makes the file `came`, then waits for its end. With an argument, anybody may trace it.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

static void *idle(void *unused)
{
	for (;;) {
		free(malloc(64));
		usleep(100);
	}
	return unused;
}

int main(int argc, char **argv)
{
	void *(*make)(size_t), *(*own)(size_t);
	void *volatile kept[2];
	pthread_t thread;

	(void)argv;
	if (argc > 1)
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	for (int i = 0; i < 4; i++)
		pthread_create(&thread, NULL, idle, NULL);
	while (!(make = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "lent_make")) || !(own = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "valloc_of_mine")) || access("go", F_OK))
		usleep(1000);
	kept[0] = make(777);
	kept[1] = own(1000);
	if (!fopen("came", "w"))
		return 1;
	for (;;)
		pause();
	return kept[0] != kept[1];
}
