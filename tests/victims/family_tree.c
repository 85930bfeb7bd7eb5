// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * family_tree.c - children. A forked one starts with its parent's live blocks and counts of 0; one made by vfork or posix_spawn is nobody until it
 * executes; an exec starts anew. Lines of a child begin with `PID `. Argument: fork, threads (fork from a thread while others allocate), vfork, spawn,
 * exec (of itself, as `second`), deep (a chain of forks), many (100 short children), clone (memory of its own, by clone(2)).
 */
#define VICTIM_MAIN
#include "victim.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;
static volatile int stop;

static void child_report(void)
{
	char prefix[32];
	snprintf(prefix, sizeof(prefix), "%d ", (int)getpid());
	victim_is_quiet = 1;
	victim_report_as(prefix);
}
static void reap(pid_t pid, int want)
{
	int status;
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != want)
		victim_die("family_tree: a child did not end as it should");
}

VICTIM_NOINLINE static void in_child(void *a, void *b)
{
	free(GAVE(a));
	b = MOVED(realloc(GAVE(b), 5000), 5000);
	void *c = TOOK(malloc(83), 83);
	for (int i = 0; i < 100; i++)
		free(GAVE(TOOK(malloc(84), 84)));
	(void)c;
}

static void forked(int levels)
{
	void *a = TOOK(malloc(81), 81), *b = TOOK(malloc(82), 82);
	void *k = TOOK(malloc(8200), 8200);
	victim_is_exact = 1;
	pid_t pid = fork();
	if (pid == 0) {
		victim_forked();
		in_child(a, b);
		if (levels > 1)
			forked(levels - 1);
		child_report();
		_exit(levels);
	}
	reap(pid, levels << 8);
	void *d = TOOK(malloc(85), 85);
	free(GAVE(k));
	(void)d;
}

enum { NOISE_LINE = __LINE__ + 5 };
static void *noise(void *arg)
{
	(void)arg;
	while (!stop)
		free(malloc(86)), free(malloc(8600));
	return NULL;
}

static void *in_thread(void *arg)
{
	char **again = arg;
	execv(again[0], again);
	victim_die("execv");
	return NULL;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "fork";
	char *again[] = {argv[0], "second", strstr(how, "exec") ? "main" : NULL, NULL};
	pid_t pid;

	if (!strcmp(how, "fork")) {
		forked(1);
	} else if (!strcmp(how, "deep")) {
		forked(5);
	} else if (!strcmp(how, "threads")) {
		pthread_t t[2];
		for (int i = 0; i < 2; i++)
			ALSO, pthread_create(&t[i], NULL, noise, NULL);
		victim_also(__FILE__, NOISE_LINE);	/* a child inherits what they hold in that instant */
		for (int i = 0; i < 20; i++) {
			void *a = TOOK(malloc(87), 87);
			pid = fork();
			if (pid == 0) {
				victim_forked();
				void *c = TOOK(malloc(88), 88);
				free(GAVE(a));
				(void)c;
				child_report();
				_exit(0);
			}
			reap(pid, 0);
		}
		stop = 1;
		for (int i = 0; i < 2; i++)
			pthread_join(t[i], NULL);
	} else if (!strcmp(how, "vfork")) {
		void *a = TOOK(malloc(91), 91);
		for (volatile int i = 0; i < 20; i++) {
			pid = vfork();
			if (pid == 0) {
				execv(argv[0], again);
				_exit(9);
			}
			reap(pid, 0);
		}
		free(GAVE(a));
		a = TOOK(malloc(92), 92);
		victim_is_exact = 1;
	} else if (!strcmp(how, "spawn")) {
		void *a = TOOK(malloc(93), 93);
		for (int i = 0; i < 20; i++) {
			if (posix_spawn(&pid, argv[0], NULL, NULL, again, environ))
				victim_die("posix_spawn");
			reap(pid, 0);
		}
		free(GAVE(a));
		a = TOOK(malloc(94), 94);
		victim_is_exact = 1;
	} else if (!strcmp(how, "exec")) {
		for (int i = 0; i < 1000; i++)
			TOOK(malloc(95), 95);
		execv(argv[0], again);
	} else if (!strcmp(how, "thread_exec")) {	/* a thread executes: the others vanish in the middle of what they do */
		pthread_t t[3];
		for (int i = 0; i < 2; i++)
			ALSO, pthread_create(&t[i], NULL, noise, NULL);
		usleep(5000);
		ALSO, pthread_create(&t[2], NULL, in_thread, again);
		for (;;)
			pause();
	} else if (!strcmp(how, "thread_vfork")) {	/* vfork in one thread while others allocate */
		pthread_t t[2];
		victim_also(__FILE__, NOISE_LINE);
		for (int i = 0; i < 2; i++)
			ALSO, pthread_create(&t[i], NULL, noise, NULL);
		for (volatile int i = 0; i < 20; i++) {
			pid = vfork();
			if (pid == 0) {
				execv(argv[0], again);
				_exit(9);
			}
			reap(pid, 0);
			TOOK(malloc(89), 89);
		}
		stop = 1;
		for (int i = 0; i < 2; i++)
			pthread_join(t[i], NULL);
	} else if (!strcmp(how, "many")) {
		victim_is_exact = 1;
		for (int i = 0; i < 100; i++) {
			void *a = TOOK(malloc(96), 96);
			pid = fork();
			if (pid == 0) {
				victim_forked();
				void *c = TOOK(malloc(97), 97);
				(void)c;
				_exit(i);
			}
			reap(pid, i << 8);
			(void)a;
		}
	} else if (!strcmp(how, "clone")) {
		victim_is_exact = 1;
		static const int flags[] = {SIGCHLD, CLONE_PARENT_SETTID | SIGCHLD, CLONE_FILES | CLONE_FS | SIGCHLD};
		for (unsigned i = 0; i < 3; i++) {
			void *a = TOOK(malloc(98), 98);
			int tid;
			pid = (pid_t)syscall(SYS_clone, flags[i], NULL, &tid, NULL, NULL);
			if (pid == 0) {
				victim_forked();
				free(GAVE(a));
				a = TOOK(malloc(99), 99);
				child_report();
				_exit(0);
			}
			reap(pid, 0);
		}
	} else if (!strcmp(how, "second")) {
		victim_is_exact = 1;
		void *a = TOOK(malloc(101), 101);
		void *b = TOOK(malloc(102), 102);
		free(GAVE(a));
		(void)b;
		child_report();
		if (argc > 2)
			victim_report();
	} else {
		return 2;
	}
	return 0;
}
