// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * jail.c - goes to seccomp jail, then allocates: any system call but write and exit would kill it. Arguments: strict, or filter (by prctl), filter2 (by
 * seccomp()), thread (every thread, TSYNC), errno (a filter that refuses quietly); how many blocks.
 */
#define VICTIM_MAIN
#include "victim.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static volatile int ready, go, done;
static int count;

VICTIM_NOINLINE static void work(void)
{
	for (int i = 0; i < count; i++) {
		void *p = TOOK(malloc(131), 131);
		void *q = TOOK(malloc(1310), 1310);
		free(GAVE(q));
		if (i >= 50)
			free(GAVE(p));
	}
}
static void *in_thread(void *arg)
{
	(void)arg;
	void *warm = TOOK(malloc(200), 200);	/* its arena is there */
	free(GAVE(warm));
	ready = 1;
	while (go == 0) {		/* allocates while the other one takes it to jail */
		void *p = TOOK(malloc(131), 131);
		free(GAVE(p));
	}
	if (go == 1)
		work();
	done = 1;
	for (;;)
		;
	return NULL;
}

static int filter(unsigned refuse, unsigned flags, int by_call)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, refuse),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog p = {sizeof(f) / sizeof(*f), f};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return by_call ? (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &p) : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "strict";
	int r = -1;

	count = argc > 2 ? atoi(argv[2]) : 50000;
	/* what malloc will need is there before: no brk, no mmap later */
#ifdef __GLIBC__
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	mallopt(M_TOP_PAD, 1 << 20);
#endif
	free(GAVE(TOOK(malloc(100000), 100000)));
	work();
	if (!strcmp(how, "strict")) {
		r = prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
	} else if (!strcmp(how, "filter")) {
		r = filter(SECCOMP_RET_KILL_PROCESS, 0, 0);
	} else if (!strcmp(how, "filter2")) {
		r = filter(SECCOMP_RET_KILL_PROCESS, 0, 1);
	} else if (!strcmp(how, "errno")) {
		r = filter(SECCOMP_RET_ERRNO | 1, 0, 1);
	} else if (!strcmp(how, "thread")) {
		pthread_t t;
		ALSO, pthread_create(&t, NULL, in_thread, NULL);
		while (!ready)
			;
		usleep(10000);
		r = filter(SECCOMP_RET_KILL_PROCESS, SECCOMP_FILTER_FLAG_TSYNC, 1);
		go = r == 0 ? 1 : 2;
		while (!done)
			;
	}
	if (r)
		victim_die("jail: not in");
	work();
	victim_report();
	syscall(strcmp(how, "strict") ? SYS_exit_group : SYS_exit, 0);
	return 1;
}
