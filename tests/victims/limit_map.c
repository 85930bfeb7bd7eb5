// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * limit_map.c - mappings under a limit of 4 MiB that fails requests (-c mmap). Each line: what was tried, 1 or 0 for whether it was granted, as it has to
 * be by our own count; a refusal must say ENOMEM. At the end exactly 4 MiB are accessible.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define M    (1ul << 20)
#define RW   (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)

static int faults;

static void expect(const char *what, int wanted, intptr_t got)
{
	int err = errno;

	if ((got != -1) != wanted || (!wanted && err != ENOMEM)) {
		printf("%s: %s, errno %d\n", what, got != -1 ? "granted" : "refused", err);
		faults++;
	}
	errno = 0;
}

static char *map(void *at, size_t len, int prot, int flags)
{
	return mmap(at, len, prot, ANON | flags, -1, 0);
}

int main(void)
{
	static char out[4096];
	char *p, *q, *end;
	int breaks;

	setvbuf(stdout, out, _IOFBF, sizeof(out));
	p = map(NULL, 1024 * M, PROT_NONE, MAP_NORESERVE);
	expect("a reservation", 1, (intptr_t)p);
	expect("2M of it", 1, mprotect(p, 2 * M, RW));
	expect("the same again", 1, mprotect(p, 2 * M, PROT_READ));
	expect("2M + 4K more", 0, mprotect(p + 2 * M, 2 * M + 4096, RW));
	expect("2M more", 1, mprotect(p + 2 * M, 2 * M, RW));
	expect("a page, with all in use", 0, (intptr_t)map(NULL, 4096, RW, 0));
	expect("a page by syscall()", 0, syscall(SYS_mmap, NULL, 4096, RW, ANON, -1, 0));
	expect("memory that nobody can access", 1, (intptr_t)map(NULL, 4096, PROT_NONE, 0));
	expect("over what is there", 1, (intptr_t)map(p, 4 * M, RW, MAP_FIXED));
	expect("over that and a page", 0, (intptr_t)map(p, 4 * M + 4096, RW, MAP_FIXED));
	expect("half of it away", 1, munmap(p + M, 2 * M));
	expect("what is not there away", 1, munmap(p + M, 2 * M));
	q = map(NULL, M, RW, 0);
	expect("1M", 1, (intptr_t)q);
	expect("1M to 2M", 1, (intptr_t)(q = mremap(q, M, 2 * M, MREMAP_MAYMOVE)));
	expect("2M to 2M + 4K", 0, (intptr_t)mremap(q, 2 * M, 2 * M + 4096, MREMAP_MAYMOVE));
	q[2 * M - 1] = 1;		/* it is as it was */
	expect("2M to 1M", 1, (intptr_t)(q = mremap(q, 2 * M, M, MREMAP_MAYMOVE)));
	expect("2^62", 0, (intptr_t)map(NULL, 1ul << 62, RW, 0));
	expect("2^64 - 1", 0, (intptr_t)map(NULL, -1ul, RW, 0));
	expect("to be accessible: 2^62", 0, mprotect(p + 4 * M, 1ul << 62, RW));
	expect("a file's pages", 1, (intptr_t)mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, open("/proc/self/exe", O_RDONLY), 0));
	end = sbrk(0);
	breaks = brk(end + 4096) == 0 && brk(end) == 0;	/* musl has none */
	errno = 0;
	if (breaks) {
		expect("break + 1M + 16", 0, (intptr_t)sbrk(M + 16));
		expect("break + 512K", 1, (intptr_t)sbrk(M / 2));
		expect("break + 1M", 0, brk(end + M + 4096));
		expect("break + 1M in all", 1, brk(end + M));
		expect("break back", 1, brk(end));
	}
	expect("1M, the last", 1, (intptr_t)map(NULL, M, RW, 0));
	expect("a page", 0, (intptr_t)map(NULL, 4096, RW, 0));
	return faults != 0;
}
