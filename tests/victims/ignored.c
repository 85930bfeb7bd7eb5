// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * ignored.c - sleeps in calls that a handler would end with EINTR, while a child sends signals that the program ignores, and ends. Prints how each call ended:
 * natively none of them hears of it. Then one signal has a handler, and each ends with EINTR.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define SENT 4

static int epoll_fd, sem, sockets[2];

static long s_epoll(void)
{
	struct epoll_event e;

	return epoll_wait(epoll_fd, &e, 1, 300);
}

static long s_sem(void)
{
	struct sembuf take = { 0, -1, 0 };

	return semtimedop(sem, &take, 1, &(struct timespec){ 0, 300000000 });
}

static long s_recv(void)
{
	char c;

	return recv(sockets[0], &c, 1, 0);
}

static long s_sigwait(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	return sigtimedwait(&set, NULL, &(struct timespec){ 0, 300000000 });
}

static void handler(int sig) { (void)sig; }

int main(void)
{
	static const struct {
		const char *name;
		long (*sleep)(void);
	} call[] = { { "epoll_wait", s_epoll }, { "semtimedop", s_sem }, { "recv", s_recv }, { "sigtimedwait", s_sigwait } };
	static const int sent[SENT] = { SIGWINCH, SIGURG, SIGCONT, SIGUSR1 };
	pid_t parent = getpid();
	struct timeval timeout = { 0, 300000 };

	setvbuf(stdout, NULL, _IONBF, 0);
	signal(SIGUSR1, SIG_IGN);
	epoll_fd = epoll_create1(0);
	sem = semget(IPC_PRIVATE, 1, 0600);
	if (epoll_fd < 0 || sem < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) || setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)))
		return 99;
	for (int caught = 0; caught < 2; caught++) {
		if (caught)
			sigaction(SIGURG, &(struct sigaction){ .sa_handler = handler }, NULL);
		for (size_t i = 0; i < sizeof(call) / sizeof(call[0]); i++) {
			pid_t pid = fork();
			long got;

			if (!pid) {
				for (int k = 0; caught || k < SENT; k++) {
					usleep(20000);
					kill(parent, sent[k % SENT]);
				}
				_exit(0);
			}
			got = call[i].sleep();
			printf("%s: %ld %s\n", call[i].name, got, got < 0 ? strerror(errno) : "");
			if (caught)
				kill(pid, SIGKILL);
			while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
				;
		}
	}
	semctl(sem, 0, IPC_RMID);
	return 0;
}
