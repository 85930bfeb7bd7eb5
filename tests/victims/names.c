// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * names.c - everything that has a name: functions and source files, whose names the test puts in place of those below in the executable; a library, its path
 * given; the process, a thread, a mark and a snapshot, their names given. It has 9 blocks live then; it ends when its input does.
 *
 *	names LIBRARY PROCESS THREAD MARK [ARGUMENT]...
 *
 * With LIBRARY defined it is the library.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone, noipa, visibility("default")))

#ifdef LIBRARY

NOINLINE void *in_library(size_t size) { return malloc(size); }

#else
#include "../../inject/mtrun.h"

static void *volatile kept[16];
static int count;

static NOINLINE void keep(void *p) { kept[count++] = p; }

/* Names of 96 and 90 bytes. */
#define NAME(n) name_##n##_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
#line 10 "file_0_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx.c"
NOINLINE void NAME(0)(void) { keep(malloc(1000)); }
NOINLINE void NAME(1)(void) { keep(malloc(2000)); }
#line 10 "file_1_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx.c"
NOINLINE void NAME(2)(void) { keep(malloc(3000)); NAME(0)(); }
NOINLINE void NAME(3)(void) { keep(malloc(4000)); NAME(1)(); }
#line 10 "names.c"
NOINLINE void NAME(4)(void) { keep(malloc(5000)); NAME(2)(); }
NOINLINE void NAME(5)(void) { keep(malloc(6000)); NAME(3)(); }

static void *thread(void *name)
{
	prctl(PR_SET_NAME, name);
	keep(malloc(70000));
	for (;;)
		pause();
	return NULL;
}

int main(int argc, char **argv)
{
	void *(*in_library)(size_t), *handle = argc > 4 ? dlopen(argv[1], RTLD_NOW) : NULL;
	pthread_t t;
	char c;

	if (!handle)
		return 2;
	prctl(PR_SET_NAME, argv[2]);
	in_library = (void *(*)(size_t))dlsym(handle, "in_library");
	keep(in_library(8000));
	NAME(4)();
	NAME(5)();
	mtrun_mark(argv[4]);
	mtrun_snapshot(argv[4]);
	pthread_create(&t, NULL, thread, argv[3]);
	while (read(0, &c, 1) > 0)
		;
	return 0;
}
#endif
