// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * closer.c - is rude to descriptors while it allocates. Argument: close (all above 2), range (close_range), replace (a file of its own is put over
 * every number; nothing may be written into it), exhaust (none is left), all (0 to 2 as well, after the report).
 */
#define VICTIM_MAIN
#include "victim.h"
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

VICTIM_NOINLINE static void work(int n)
{
	for (int i = 0; i < n; i++) {
		void *p = TOOK(malloc(121), 121);
		void *q = TOOK(malloc(5000), 5000);
		if (i % 8)
			free(GAVE(p));
		free(GAVE(q));
	}
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "close";
	struct rlimit l = {2000, 2000};
	struct stat st;

	victim_is_exact = 1;
	work(1000);
	if (!strcmp(how, "close") || !strcmp(how, "all")) {
		for (int fd = 3; fd < 65536; fd++)
			close(fd);
		work(20000);
	} else if (!strcmp(how, "range")) {
		syscall(SYS_close_range, 3, ~0u, 0);
		work(20000);
	} else if (!strcmp(how, "replace")) {
		setrlimit(RLIMIT_NOFILE, &l);
		int fd = open(argc > 2 ? argv[2] : "/tmp", O_RDWR | O_TMPFILE, 0600);
		if (fd < 0 || ftruncate(fd, 65536))
			victim_die("closer: no temporary file");
		for (int i = 3; i < 2000; i++)
			if (i != fd)
				dup2(fd, i);
		work(20000);
		char zero[65536], now[65536];
		memset(zero, 0, sizeof(zero));
		if (fstat(fd, &st) || st.st_size != 65536 || pread(fd, now, sizeof(now), 0) != sizeof(now) || memcmp(now, zero, sizeof(now)))
			victim_die("closer: something was written into the file");
	} else if (!strcmp(how, "exhaust")) {
		setrlimit(RLIMIT_NOFILE, &l);
		while (dup(0) >= 0)
			;
		work(20000);
		l.rlim_cur = l.rlim_max = 3;
		setrlimit(RLIMIT_NOFILE, &l);
		work(20000);
	}
	victim_report();
	if (!strcmp(how, "all"))
		for (int fd = 0; fd < 3; fd++)
			close(fd);
	return 0;
}
