// SPDX-License-Identifier: GPL-3.0-or-later
/* dlthreads.c - libraries come and go in some threads while others allocate, fork and start threads. Arguments: rounds, a library for each thread. */
#define VICTIM_MAIN
#include "victim.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

static volatile int stop;
static int rounds;

static void *opens(void *arg)
{
	void *kept[8] = {0};
	for (int i = 0; i < rounds; i++) {
		void *lib = (ALSO, dlopen(arg, RTLD_NOW));
		if (!lib)
			victim_die(dlerror());
		void *p = ((void *(*)(size_t))dlsym(lib, "plugin_make"))(100 + (size_t)i);
		free(GAVE(kept[i % 8]));
		kept[i % 8] = p;
		dlclose(lib);
	}
	return NULL;
}
static void *allocates(void *arg)
{
	(void)arg;
	for (unsigned i = 0; !stop; i++) {
		void *p = TOOK(malloc(151), 151);
		void *q = TOOK(calloc(1, 152 + i % 5000), 152 + i % 5000);
		free(GAVE(p));
		q = MOVED(realloc(GAVE(q), 153), 153);
		free(GAVE(q));
	}
	return NULL;
}
static void *nothing(void *arg)
{
	free(GAVE(TOOK(malloc(154), 154)));
	return arg;
}
static void *begins(void *arg)
{
	while (!stop) {
		pthread_t t;
		if (ALSO, pthread_create(&t, NULL, nothing, arg))
			victim_die("pthread_create");
		pthread_join(t, NULL);
		usleep(500);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t[16], u[3];
	int n = 0;
	rounds = argc > 1 ? atoi(argv[1]) : 50;
	for (int i = 2; i < argc && n < 16; i++)
		ALSO, pthread_create(&t[n++], NULL, opens, argv[i]);
	for (int i = 0; i < 3; i++)
		ALSO, pthread_create(&u[i], NULL, i < 2 ? allocates : begins, NULL);
	for (int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	stop = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(u[i], NULL);
	return 0;
}
