/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * queued.h - how long a thread was ready to run and did not, as others had the processors: the kernel's own count (/proc/PID/task/TID/schedstat), and how
 * long the machine was and did not: for victims that measure time on a machine with other work. Nothing here
 * allocates. C and C++.
 */
#ifndef QUEUED_H
#define QUEUED_H

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define QUEUED_UNUSED __attribute__((unused))

struct queued {
	double ms;
	unsigned long long runs;	/* how often it was given a processor; a wait counts when it ends so */
};

/* The beginning of a file of /proc; empty: there is none. */
static QUEUED_UNUSED const char *queued_text(int fd, char text[4096])
{
	ssize_t n = pread(fd, text, 4095, 0);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

/* Of an open schedstat; zeros: there is none. */
static QUEUED_UNUSED struct queued queued(int fd)
{
	char text[4096];
	unsigned long long ns = 0;
	struct queued q = { 0, 0 };

	if (sscanf(queued_text(fd, text), "%*s %llu %llu", &ns, &q.runs) == 2)
		q.ms = (double)ns / 1e6;
	return q;
}

static QUEUED_UNUSED int open_queued(void)
{
	return open("/proc/thread-self/schedstat", O_RDONLY);
}

/* ms that this machine's processors could have run, and its host let others run: the steal time of /proc/stat, in steps of 10 ms. */
static QUEUED_UNUSED double queued_stolen(void)
{
	static int fd = -1;
	unsigned long long steal = 0;
	char text[4096];

	if (fd < 0)
		fd = open("/proc/stat", O_RDONLY);
	sscanf(queued_text(fd, text), "cpu %*s %*s %*s %*s %*s %*s %*s %llu", &steal);
	return (double)steal * 1e3 / (double)sysconf(_SC_CLK_TCK);
}

/* ms until now in which the thread of FD (-1: none) or the machine was ready, and had no processor. */
static QUEUED_UNUSED double queued_waited(int fd)
{
	return queued(fd).ms + queued_stolen();
}

/* The same once that thread has run again, as a wait counts when it ends; 10 s later at most. */
static QUEUED_UNUSED double queued_waited_again(int fd)
{
	unsigned long long runs = queued(fd).runs;

	for (int ms = 0; fd >= 0 && ms < 10000 && queued(fd).runs == runs; ms++)
		usleep(1000);
	return queued_waited(fd);
}

/* The process that traces this one; 0: none does. */
static QUEUED_UNUSED int queued_tracer(void)
{
	char text[4096];
	int fd = open("/proc/self/status", O_RDONLY);
	const char *line = strstr(queued_text(fd, text), "TracerPid:");

	close(fd);
	return line ? atoi(line + 10) : 0;
}

/* The thread that traces this process: mtrun's first one. */
static QUEUED_UNUSED int open_queued_tracer(void)
{
	char path[100];

	snprintf(path, sizeof(path), "/proc/%d/schedstat", queued_tracer());
	return open(path, O_RDONLY);
}

/* The tracer's thread NAME. -1: it has none. */
static QUEUED_UNUSED int open_queued_of(const char *name)
{
	char path[400], text[4096], comm[100], entries[32768];
	int found = -1, tracer = queued_tracer(), dir;
	long n = 0, k = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", tracer);
	snprintf(comm, sizeof(comm), "%s\n", name);
	dir = open(path, O_RDONLY | O_DIRECTORY);
	while (dir >= 0 && found < 0 && (n = syscall(SYS_getdents64, dir, entries, sizeof(entries))) > 0)
		for (k = 0; k < n && found < 0; k += ((struct dirent *)(void *)(entries + k))->d_reclen) {
			const char *tid = ((struct dirent *)(void *)(entries + k))->d_name;
			int fd;

			snprintf(path, sizeof(path), "/proc/%d/task/%.20s/comm", tracer, tid);
			fd = open(path, O_RDONLY);
			if (!strcmp(queued_text(fd, text), comm)) {
				snprintf(path, sizeof(path), "/proc/%d/task/%.20s/schedstat", tracer, tid);
				found = open(path, O_RDONLY);
			}
			close(fd);
		}
	close(dir);
	return found;
}

#endif
