// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * attach.c - is attached to and left again while it works. Each of N threads keeps blocks, each filled with what its address and size say, and looks at each
 * again before it gives it back; others sleep in one kind of system call each, which must not end with EINTR. Handlers run at 1 kHz, too, if told.
 * On SIGUSR1 it prints one line of the work done, on SIGTERM it ends: 0 if all was right. Longest gap between two turns of a worker: `gap US`.
 *
 * Arguments: threads [sleepers] [timer] [fork] [start] [seccomp] [idle] [vfork] [nested] [vforks] [sharer]
 * idle: ten thousand threads wait for ever, or as many as there may be.
 * vfork: a thread waits for a vfork child, which allocates until the end; nested: for one that waits
 * for its own, which does; vforks: eight threads have one after the other, which execute true(1).
 * sharer: a process has the same memory, maps and unmaps.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BLOCKS 200

static volatile int ending;
static uint64_t turns, wrong, eintr, slept, forks;
static uint64_t longest;

static uint64_t us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void fill(unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)(((uintptr_t)p >> 4) + n + i);
}

static int holds(const unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != (unsigned char)(((uintptr_t)p >> 4) + n + i))
			return 0;
	return 1;
}

static void bad(const char *what)
{
	__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
	fprintf(stderr, "attach: %s\n", what);
}

static void *work(void *arg)
{
	unsigned char *block[BLOCKS] = { 0 };
	size_t size[BLOCKS] = { 0 };
	unsigned r = (unsigned)(uintptr_t)arg * 7919 + 1;
	uint64_t last = us();

	while (!ending) {
		unsigned i = (r = r * 1103515245 + 12345) >> 16, at = i % BLOCKS;
		size_t n = (i >> 3) % 700 + 1;
		uint64_t now;

		if (block[at] && !holds(block[at], size[at]))
			bad("a block is not as it was filled");
		if (block[at] && r >> 30 == 0) {
			unsigned char *p = realloc(block[at], n);
			size_t keep = n < size[at] ? n : size[at];

			for (size_t k = 0; k < keep; k++)
				if (p[k] != (unsigned char)(((uintptr_t)block[at] >> 4) + size[at] + k)) {
					bad("realloc lost what was in the block");
					break;
				}
			block[at] = p;
		} else {
			free(block[at]);
			block[at] = r >> 29 & 1 ? calloc(1, n) : malloc(n);
		}
		size[at] = n;
		if (!block[at]) {
			bad("no memory");
			size[at] = 0;
		}
		fill(block[at], size[at]);
		if (r % 257 == 0) {
			char *m = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			m[100] = 1;
			munmap(m, 65536);
		}
		if (r % 64 == 0)
			usleep(200);
		now = us();
		if (now - last > __atomic_load_n(&longest, __ATOMIC_RELAXED))
			__atomic_store_n(&longest, now - last, __ATOMIC_RELAXED);
		last = now;
		__atomic_add_fetch(&turns, 1, __ATOMIC_RELAXED);
	}
	for (unsigned i = 0; i < BLOCKS; i++) {
		if (block[i] && !holds(block[i], size[i]))
			bad("a block is not as it was filled");
		free(block[i]);
	}
	return NULL;
}

/* ---- sleepers: 50 ms each time, or until the end; -1 with EINTR is wrong ------------------------------------------------------------- */

static int pipes[2], epoll_fd, sem, sockets[2];
static uint32_t word;
static const struct timespec nap = { 0, 50000000 };

static long s_nanosleep(void) { return nanosleep(&nap, NULL); }
static long s_clock(void) { return clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL) ? (errno = EINTR, -1) : 0; }
static long s_poll(void) { struct pollfd p = { pipes[0], POLLIN, 0 }; return poll(&p, 1, 50); }
static long s_ppoll(void) { struct pollfd p = { pipes[0], POLLIN, 0 }; return ppoll(&p, 1, &nap, NULL); }
static long s_select(void) { struct timeval t = { 0, 50000 }; return select(0, NULL, NULL, NULL, &t); }
static long s_epoll(void) { struct epoll_event e; return epoll_wait(epoll_fd, &e, 1, 50); }
static long s_epoll_long(void) { struct epoll_event e; return epoll_wait(epoll_fd, &e, 1, -1); }
static long s_read(void) { char c; return read(pipes[0], &c, 1); }
static long s_recv(void) { char c; long n = recv(sockets[0], &c, 1, 0); return n < 0 && errno == EAGAIN ? 0 : n; }
static long s_futex(void) { long n = syscall(SYS_futex, &word, FUTEX_WAIT, 0, &nap, NULL, 0); return n < 0 && errno == ETIMEDOUT ? 0 : n; }
static long s_semop(void) { struct sembuf b = { 0, -1, 0 }; long n = semtimedop(sem, &b, 1, &nap); return n < 0 && errno == EAGAIN ? 0 : n; }
static long s_sigwait(void) { sigset_t s; sigemptyset(&s); sigaddset(&s, SIGUSR2); long n = sigtimedwait(&s, NULL, &nap); return n < 0 && errno == EAGAIN ? 0 : n; }

static long (*const sleeper[])(void) = { s_nanosleep, s_clock, s_poll, s_ppoll, s_select, s_epoll, s_epoll_long, s_read, s_recv, s_futex, s_semop, s_sigwait };
#define SLEEPERS (sizeof(sleeper) / sizeof(*sleeper))

static void *rest(void *arg)
{
	size_t i = (size_t)(uintptr_t)arg;

	while (!ending) {
		if (sleeper[i]() < 0 && errno == EINTR && !ending) {
			fprintf(stderr, "attach: sleeper %zu: EINTR\n", i);
			__atomic_add_fetch(&eintr, 1, __ATOMIC_RELAXED);
		}
		__atomic_add_fetch(&slept, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void start_sleepers(void)
{
	struct timeval t = { 0, 50000 };
	pthread_t thread;

	if (pipe(pipes) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) || setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)))
		_exit(98);
	epoll_fd = epoll_create1(0);
	epoll_ctl(epoll_fd, EPOLL_CTL_ADD, pipes[0], &(struct epoll_event){ .events = EPOLLIN });
	sem = semget(IPC_PRIVATE, 1, 0600);
	for (size_t i = 0; i < SLEEPERS; i++)
		pthread_create(&thread, NULL, rest, (void *)(uintptr_t)i);
}

/* ---- others ---------------------------------------------------------------------------------------------------------------------------- */

static void *forker(void *unused)
{
	while (!ending) {
		int status;
		pid_t pid = fork();

		if (pid == 0) {
			void *p = malloc(1000);
			fill(p, 1000);
			_exit(holds(p, 1000) ? 7 : 8);
		}
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 7)
			bad("a child did not end as it should");
		__atomic_add_fetch(&forks, 1, __ATOMIC_RELAXED);
		usleep(3000);
	}
	return unused;
}

/* A child that has this memory looks at `ending`, too. DEPTH: how many wait for one before it. */
static int have_vfork_child(int depth)
{
	int status = 0;
	pid_t pid = vfork();

	if (pid == 0) {
		if (depth)
			_exit(have_vfork_child(depth - 1));
		while (!ending) {
			unsigned char *p = malloc(100);

			fill(p, 100);
			nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
			if (!holds(p, 100))
				bad("a block of a vfork child is not as it was filled");
			free(p);
		}
		_exit(7);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void *vforker(void *depth)
{
	if (have_vfork_child((int)(uintptr_t)depth) != 7)
		bad("a vfork child did not end as it should");
	return NULL;
}

static void *executer(void *unused)
{
	while (!ending) {
		int status = 0;
		pid_t pid = vfork();

		if (pid == 0) {
			execl("/bin/true", "true", (char *)NULL);
			_exit(8);
		}
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		if (status)
			bad("true(1) did not end as it should");
		__atomic_add_fetch(&forks, 1, __ATOMIC_RELAXED);
	}
	return unused;
}

static int share(void *unused)
{
	(void)unused;
	while (!ending) {
		char *p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED)
			return 9;
		p[100] = 1;
		munmap(p, 65536);
	}
	return 7;
}

static void *sharer(void *unused)
{
	static char stack[65536];
	int status = 0;
	pid_t pid = clone(share, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 7)
		bad("a process with this memory did not end as it should");
	return unused;
}

static void *drop(void *block)
{
	free(block);
	return NULL;
}

static void *starter(void *unused)
{
	while (!ending) {
		pthread_t t;

		if (pthread_create(&t, NULL, drop, malloc(100)) == 0)
			pthread_join(t, NULL);
		usleep(1000);
	}
	return unused;
}

/* Kills the process for calls that it does not make itself. */
static void filter(void)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pselect6, 1, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_gettid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog p = { sizeof(f) / sizeof(*f), f };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p))
		_exit(96);
}

static void on_timer(int sig)
{
	static unsigned n;
	volatile char room[2000];

	(void)sig;
	room[n++ % sizeof(room)] = 1;
}

static void say(void)
{
	char text[200];
	int n = snprintf(text, sizeof(text), "turns %lu slept %lu forks %lu wrong %lu eintr %lu gap %lu\n", turns, slept, forks, wrong, eintr, longest);

	longest = 0;
	if (write(1, text, (size_t)n) != n)
		_exit(97);
}

#define IDLE 10000

static void *idle(void *arg)
{
	pause();
	return arg;
}

static void start_idle(void)
{
	pthread_attr_t small;
	pthread_t thread;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 16384);
	for (int i = 0; i < IDLE && !pthread_create(&thread, &small, idle, NULL); i++)
		;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 4, timer = 0;
	pthread_t thread[256], waiting[16], other;
	int waits = 0;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	sigdelset(&set, SIGUSR2);
	for (int i = 2; i < argc; i++) {
		if (!strcmp(argv[i], "seccomp"))
			filter();
		else if (!strcmp(argv[i], "sleepers"))
			start_sleepers();
		else if (!strcmp(argv[i], "fork"))
			pthread_create(&other, NULL, forker, NULL);
		else if (!strcmp(argv[i], "start"))
			pthread_create(&other, NULL, starter, NULL);
		else if (!strcmp(argv[i], "vfork") || !strcmp(argv[i], "nested"))
			pthread_create(&waiting[waits++], NULL, vforker, (void *)(uintptr_t)(*argv[i] == 'n'));
		else if (!strcmp(argv[i], "vforks"))
			for (int k = 0; k < 8; k++)
				pthread_create(&waiting[waits++], NULL, executer, NULL);
		else if (!strcmp(argv[i], "sharer"))
			pthread_create(&waiting[waits++], NULL, sharer, NULL);
		else if (!strcmp(argv[i], "timer"))
			timer = 1;
		else if (!strcmp(argv[i], "idle"))
			start_idle();
	}
	for (int i = 0; i < n; i++)
		pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)i);
	if (timer) {
		struct sigaction a = { .sa_handler = on_timer, .sa_flags = SA_RESTART };
		struct itimerval t = { { 0, 1000 }, { 0, 1000 } };

		sigaction(SIGPROF, &a, NULL);
		setitimer(ITIMER_PROF, &t, NULL);
	}
	if (write(1, "ready\n", 6) != 6)
		return 97;
	for (;;) {
		int sig = 0;

		sigwait(&set, &sig);
		if (sig == SIGTERM)
			break;
		say();
	}
	ending = 1;
	for (int i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < waits; i++)
		pthread_join(waiting[i], NULL);
	if (sem)
		semctl(sem, 0, IPC_RMID);
	say();
	_exit(wrong || eintr);
}
