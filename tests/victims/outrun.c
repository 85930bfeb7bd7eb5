// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * outrun.c HOW - which thread is the last? Loses 3 blocks of 100 bytes, makes threads, prints "ready",
 * and ends with status 3:
 * `threads`: 8 threads end by themselves after 300 ms, the first one ends all after 700 ms; `first`:
 * the first one ends by itself, another one ends all; `signal`: as `threads`, by SIGTERM; `exec`: a
 * thread beside 8 that sleep and 2 that count becomes /bin/sh; `filter`: a thread is killed alone by a
 * filter while the first one counts, until it is gone, or 5 s are over: then with status 4.
 */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const char *how;

static void *ends(void *arg)
{
	usleep(300000);
	return arg;
}

static void *sleeps(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static void *counts(void *arg)
{
	for (volatile unsigned long n = 0;; n++)
		;
	return arg;
}

static void *ends_all(void *arg)
{
	usleep(700000);
	_exit(3);
	return arg;
}

static void *execs(void *arg)
{
	execl("/bin/sh", "sh", "-c", "exit 3", (char *)NULL);
	return arg;
}

static void *is_killed(void *arg)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_THREAD),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { sizeof(code) / sizeof(*code), code };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
	syscall(SYS_getppid);
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t t[8];

	how = argc > 1 ? argv[1] : "threads";
	for (int i = 0; i < 3; i++) {
		char *volatile lost = malloc(100);

		lost[0] = 1;
		lost = NULL;
	}
	if (!strcmp(how, "filter")) {
		time_t end = time(NULL) + 5;

		pthread_create(t, NULL, is_killed, NULL);
		while (pthread_tryjoin_np(t[0], NULL))
			if (time(NULL) > end)
				_exit(4);
		_exit(3);
	}
	for (int i = 0; i < 8; i++)
		pthread_create(&t[i], NULL, !strcmp(how, "exec") ? sleeps : ends, NULL);
	if (!strcmp(how, "exec")) {
		for (int i = 0; i < 2; i++)
			pthread_create(t, NULL, counts, NULL);
		pthread_create(t, NULL, execs, NULL);
		pause();
	}
	if (!strcmp(how, "first"))
		pthread_create(t, NULL, ends_all, NULL);
	puts("ready");
	fflush(stdout);
	if (!strcmp(how, "first")) {
		usleep(300000);
		syscall(SYS_exit, 5);
	}
	usleep(700000);
	if (!strcmp(how, "signal"))
		raise(SIGTERM);
	_exit(3);
}
