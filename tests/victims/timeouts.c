// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * timeouts.c - a thread for each call that times out and that a stop ends with EINTR (signal(7)).
 * Each prints what its call returned, and whether it came at its time: not before 0.7 s, and not
 * after 4 s. One call is made by hand, and its registers are looked at; one is ended by a handler.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT_MS 700
#define MOST_MS	   4000

static const struct timespec timeout = { 0, TIMEOUT_MS * 1000000 };
static int epoll_fd, sem, sockets[2], full[2];

static long c_epoll(void)
{
	struct epoll_event e;

	return epoll_wait(epoll_fd, &e, 1, TIMEOUT_MS);
}

static long c_epoll_pwait2(void)
{
	struct epoll_event e;

	return syscall(SYS_epoll_pwait2, epoll_fd, &e, 1, &timeout, NULL, 8);
}

static long c_by_hand(void)
{
	static struct epoll_event e;
	register long r10 __asm__("r10") = TIMEOUT_MS;
	long ret, nr = SYS_epoll_wait, fd = epoll_fd, n = 1;
	void *to = &e;

	__asm__ volatile("syscall"
			 : "=a"(ret), "+D"(fd), "+S"(to), "+d"(n), "+r"(r10)
			 : "0"(nr)
			 : "rcx", "r11", "memory");
	return ret || fd != epoll_fd || to != &e || n != 1 || r10 != TIMEOUT_MS;
}

/* Waits for a completion that never comes. (io_uring may be forbidden: as it is natively.) */
static long c_io_uring(void)
{
	struct io_uring_params params = { 0 };
	long long ts[2] = { timeout.tv_sec, timeout.tv_nsec };
	struct io_uring_getevents_arg arg = { .ts = (uintptr_t)ts };
	long fd = syscall(SYS_io_uring_setup, 4, &params), got;

	if (fd < 0) {
		usleep(TIMEOUT_MS * 1000);
		return fd;
	}
	got = syscall(SYS_io_uring_enter, fd, 0, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG,
		      &arg, sizeof(arg));
	close((int)fd);
	return got;
}

static long c_sem(void)
{
	struct sembuf take = { 0, -1, 0 };

	return semtimedop(sem, &take, 1, &timeout);
}

static long c_sigwait(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	return sigtimedwait(&set, NULL, &timeout);
}

static long c_recv(void)
{
	char c;

	return recv(sockets[0], &c, 1, 0);
}

static long c_read(void)
{
	char c;

	return read(sockets[0], &c, 1);
}

static long c_send(void) { return send(full[0], "", 1, 0); }

static long c_poll(void) { return poll(NULL, 0, TIMEOUT_MS); }

/* What is left of it cannot be written there. */
static long c_ppoll(void) { return syscall(SYS_ppoll, NULL, 0, &timeout, NULL, 8); }

static long c_pselect(void) { return syscall(SYS_pselect6, 0, NULL, NULL, NULL, &timeout, NULL); }

static long c_select(void)
{
	static const struct timeval tv = { 0, TIMEOUT_MS * 1000 };

	return syscall(SYS_select, 0, NULL, NULL, NULL, &tv);
}

static long c_nanosleep(void) { return nanosleep(&timeout, NULL); }

/* Its time is long; a signal comes when the others' is over. */
static long c_handler(void)
{
	struct epoll_event e;

	return epoll_wait(epoll_fd, &e, 1, 60000);
}

static const struct {
	const char *name;
	long (*call)(void);
} call[] = {
	{ "epoll_wait", c_epoll },
	{ "epoll_pwait2", c_epoll_pwait2 },
	{ "epoll_wait by hand", c_by_hand },
	{ "io_uring_enter", c_io_uring },
	{ "semtimedop", c_sem },
	{ "sigtimedwait", c_sigwait },
	{ "recv", c_recv },
	{ "read", c_read },
	{ "send", c_send },
	{ "poll", c_poll },
	{ "ppoll", c_ppoll },
	{ "pselect", c_pselect },
	{ "select", c_select },
	{ "nanosleep", c_nanosleep },
	{ "until a handler runs", c_handler },
};
#define CALLS (sizeof(call) / sizeof(*call))

static char said[CALLS][100];

static void *thread(void *arg)
{
	size_t i = (uintptr_t)arg;
	struct timespec began, ended;
	long ms, got;

	clock_gettime(CLOCK_MONOTONIC, &began);
	errno = 0;
	got = call[i].call();
	snprintf(said[i], sizeof(said[i]), "%ld %s", got, got < 0 ? strerror(errno) : "");
	clock_gettime(CLOCK_MONOTONIC, &ended);
	ms = (ended.tv_sec - began.tv_sec) * 1000 + (ended.tv_nsec - began.tv_nsec) / 1000000;
	if (ms < TIMEOUT_MS - 1 || ms > MOST_MS)
		snprintf(said[i] + strlen(said[i]), 40, " after %ld ms", ms);
	return NULL;
}

static void handler(int sig) { (void)sig; }

int main(void)
{
	struct timeval tv = { 0, TIMEOUT_MS * 1000 };
	pthread_t id[CALLS];
	sigset_t set;
	char fill[4096] = { 0 };

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = handler, .sa_flags = SA_RESTART },
		  NULL);
	epoll_fd = epoll_create1(0);
	sem = semget(IPC_PRIVATE, 1, 0600);
	if (epoll_fd < 0 || sem < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, full) ||
	    setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) ||
	    setsockopt(full[0], SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)))
		return 99;
	while (send(full[0], fill, sizeof(fill), MSG_DONTWAIT) > 0)
		;
	for (size_t i = 0; i < CALLS; i++)
		pthread_create(&id[i], NULL, thread, (void *)(uintptr_t)i);
	usleep((TIMEOUT_MS + 100) * 1000);
	pthread_kill(id[CALLS - 1], SIGUSR1);
	for (size_t i = 0; i < CALLS; i++) {
		pthread_join(id[i], NULL);
		printf("%s: %s\n", call[i].name, said[i]);
	}
	semctl(sem, 0, IPC_RMID);
	return 0;
}
