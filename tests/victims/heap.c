// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * heap THREADS BLOCKS MOST HOLE - a heap in many states, for who comes when it is there already: in each thread BLOCKS blocks of up to MOST bytes, every
 * HOLE-th of them freed again (0: none). Then lines on standard input say what to do; when it is done `in use BYTES` tells what the allocator itself has
 * handed out, by mallinfo2(), where there is one.
 *	new N SIZE	N more blocks of SIZE bytes
 *	old N		N of the first thread's first blocks are freed
 *	fork		a child that waits for this one's end
 *	alone		the first thread ends, the others go on
 *	run, rest	the threads free and allocate, as much as before; and no more
 *	jail		from now on no system call may be made but those that the above need, and the one by which the kernel goes on
 *			with a sleep
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

static unsigned threads, blocks, most, hole;
static void *volatile *first;
static void *volatile last;
static atomic_int running, filled, busy;

static uint32_t next(uint32_t *x)
{
	return *x = *x * 1664525 + 1013904223, *x >> 8;
}

static void *thread(void *arg)
{
	uint32_t x = (uint32_t)(uintptr_t)arg;
	void *volatile *block = malloc(blocks * sizeof(*block));

	for (unsigned i = 0; i < blocks; i++)
		block[i] = malloc(next(&x) % most);
	for (unsigned i = 0; hole && i < blocks; i += hole) {
		free(block[i]);
		block[i] = NULL;
	}
	if (arg == (void *)1)
		first = block;
	filled++;
	for (;;) {
		busy++;
		for (unsigned i = 1; running && i < blocks; i++)
			if (block[i]) {		/* as many as before */
				free(block[i]);
				block[i] = malloc(next(&x) % most);
			}
		busy--;
		if (!running)
			usleep(1000);
	}
	return NULL;
}

static void tell(void)
{
	size_t in_use = 0;

#ifdef __GLIBC__
	struct mallinfo2 m = mallinfo2();

	in_use = m.uordblks + m.hblkhd;
#endif
	printf("in use %zu\n", in_use);
	fflush(stdout);
}

static void jail(void)
{
	static const unsigned allowed[] = { SYS_read, SYS_write, SYS_clock_nanosleep, SYS_restart_syscall, SYS_futex, SYS_brk, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_madvise, SYS_exit, SYS_exit_group };
	struct sock_filter f[2 * sizeof(allowed) / sizeof(*allowed) + 2] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0) };
	struct sock_fprog p = { 1, f };

	for (size_t i = 0; i < sizeof(allowed) / sizeof(*allowed); i++) {
		f[p.len++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0, 1);
		f[p.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	f[p.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &p))
		_exit(77);
}

int main(int argc, char **argv)
{
	static char in[4096], out[4096];
	unsigned n, size, freed = 0;
	char word[16];
	pthread_t t;

	if (argc < 5)
		return 1;
	setvbuf(stdin, in, _IOLBF, sizeof(in));
	setvbuf(stdout, out, _IOFBF, sizeof(out));
	threads = (unsigned)atoi(argv[1]);
	blocks = (unsigned)atoi(argv[2]);
	most = (unsigned)atoi(argv[3]);
	hole = (unsigned)atoi(argv[4]);
	for (uintptr_t i = 1; i <= threads; i++)
		pthread_create(&t, NULL, thread, (void *)i);
	while (filled < (int)threads)
		usleep(1000);
	tell();
	while (scanf("%15s", word) == 1) {
		if (!strcmp(word, "new") && scanf("%u %u", &n, &size) == 2)
			while (n--)
				last = malloc(size);
		if (!strcmp(word, "old") && scanf("%u", &n) == 1)
			for (; n; freed++)
				if (first[freed]) {
					free(first[freed]);
					first[freed] = NULL;
					n--;
				}
		if (!strcmp(word, "fork") && fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			pause();
		}
		if (!strcmp(word, "run"))
			running = 1;
		if (!strcmp(word, "rest")) {
			running = 0;
			while (busy)
				usleep(1000);
		}
		if (!strcmp(word, "jail"))
			jail();
		tell();
		if (!strcmp(word, "alone"))
			pthread_exit(NULL);
	}
	return 0;
}
