// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * map.c - the program's own mappings. Argument: which scenario. Each prints what is accessible (mmap), what is mapped at all (mmap_reserved),
 * and the calls that gave and took (maps, unmaps), where they are beyond doubt.
 */
#define VICTIM_MAIN
#include "victim.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define PAGE 4096ul
#define RW   (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)

static void expect(long accessible, long reserved)
{
	victim_say("expect status.mmap %ld\nexpect status.mmap_reserved %ld\n", accessible, reserved);
}
static void expect_calls(long maps, long unmaps)
{
	victim_say("expect status.maps %ld\nexpect status.unmaps %ld\n", maps, unmaps);
}
static void site(int line, long bytes)
{
	victim_say("expect site.map.c:%d %ld,*,*,*\n", line, bytes);
}
static char *want(void *p)
{
	if (p == MAP_FAILED)
		victim_die("map: a mapping failed");
	return p;
}
static void must(int r)
{
	if (r)
		victim_die("map: a call failed that should not");
}

static void scenario(int n)
{
	char *p, *q;
	int fd;

	switch (n) {
	case 0:		/* one here, one there, one gone */
		p = want(mmap(NULL, 10 * PAGE, RW, ANON, -1, 0)); site(__LINE__, 10 * PAGE);
		q = want(mmap(NULL, 7 * PAGE, PROT_READ, ANON, -1, 0)); site(__LINE__, 7 * PAGE);
		p[0] = 1;
		p = want(mmap(NULL, 3 * PAGE, RW, ANON, -1, 0)); site(__LINE__, 0);
		must(munmap(p, 3 * PAGE));
		expect(17 * PAGE, 17 * PAGE);
		expect_calls(3, 1);
		break;
	case 1:		/* a hole in the middle, then an end, then across the hole */
		p = want(mmap(NULL, 20 * PAGE, RW, ANON, -1, 0)); site(__LINE__, 7 * PAGE);
		must(munmap(p + 5 * PAGE, 5 * PAGE));
		must(munmap(p + 18 * PAGE, 2 * PAGE));
		must(munmap(p + 4 * PAGE, 10 * PAGE));
		must(munmap(p + 4 * PAGE, 5 * PAGE));
		must(munmap(p + 100 * PAGE, 0) ? 0 : -1);
		must(munmap(p + 1, PAGE) ? 0 : -1);
		must(munmap(p + 17 * PAGE, PAGE));
		expect(7 * PAGE, 7 * PAGE);
		break;
	case 2:		/* MAP_FIXED over a part, and over two mappings at once */
		p = want(mmap(NULL, 20 * PAGE, RW, ANON, -1, 0)); site(__LINE__, 10 * PAGE);
		q = want(mmap(p + 5 * PAGE, 5 * PAGE, PROT_READ, ANON | MAP_FIXED, -1, 0)); site(__LINE__, 3 * PAGE);
		q = want(mmap(p + 8 * PAGE, 7 * PAGE, RW, ANON | MAP_FIXED, -1, 0)); site(__LINE__, 7 * PAGE);
		expect(20 * PAGE, 20 * PAGE);
		break;
	case 3:		/* a reservation that becomes accessible piece by piece, and not again */
		p = want(mmap(NULL, 100 * PAGE, PROT_NONE, ANON | MAP_NORESERVE, -1, 0));
		must(mprotect(p, 10 * PAGE, RW));
		must(mprotect(p + 5 * PAGE, 10 * PAGE, RW));
		must(mprotect(p + 50 * PAGE, 10 * PAGE, PROT_READ));
		must(mprotect(p + 52 * PAGE, 2 * PAGE, PROT_NONE));
		must(mprotect(p + 54 * PAGE, 2 * PAGE, RW));
		expect(23 * PAGE, 100 * PAGE);
		break;
	case 4:		/* mremap: grow, shrink, move to a place */
		p = want(mmap(NULL, 4 * PAGE, RW, ANON, -1, 0));
		p = want(mremap(p, 4 * PAGE, 64 * PAGE, MREMAP_MAYMOVE));
		p = want(mremap(p, 64 * PAGE, 16 * PAGE, 0));
		q = want(mmap(NULL, 32 * PAGE, PROT_NONE, ANON, -1, 0));
		q = want(mremap(p, 16 * PAGE, 16 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, q + 8 * PAGE));
		expect(16 * PAGE, 32 * PAGE);
		break;
	case 5:		/* mremap of a part: it is cut out of the middle */
		p = want(mmap(NULL, 30 * PAGE, RW, ANON, -1, 0));
		q = want(mremap(p + 10 * PAGE, 10 * PAGE, 50 * PAGE, MREMAP_MAYMOVE));
		must(mremap(p, PAGE, 1ul << 60, MREMAP_MAYMOVE) == MAP_FAILED ? 0 : -1);
		expect(70 * PAGE, 70 * PAGE);
		break;
	case 6:		/* the break, by both names; what moves down is gone */
		p = sbrk(0);
		if (sbrk(40 * PAGE) == (void *)-1 || sbrk(-(intptr_t)(10 * PAGE)) == (void *)-1)
			victim_die("map: sbrk");
		must(brk(p + 50 * PAGE));
		expect(50 * PAGE, 50 * PAGE);
		break;
	case 7:		/* through syscall() */
		p = (char *)syscall(SYS_mmap, NULL, 12 * PAGE, RW, ANON, -1, 0);
		must((int)syscall(SYS_munmap, p + PAGE, 3 * PAGE));
		q = (char *)syscall(SYS_mmap, NULL, 6 * PAGE, PROT_NONE, ANON, -1, 0);
		must((int)syscall(SYS_mprotect, q, 2 * PAGE, RW));
		q = (char *)syscall(SYS_mremap, p + 4 * PAGE, 8 * PAGE, 10 * PAGE, MREMAP_MAYMOVE);
		expect(13 * PAGE, 17 * PAGE);
		break;
	case 8:		/* files are not allocations; what is put over them is, and they may displace one */
		fd = open("/proc/self/exe", O_RDONLY);
		p = want(mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE, fd, 0)); site(__LINE__, 0);
		q = want(mmap(NULL, 10 * PAGE, RW, ANON, -1, 0)); site(__LINE__, 8 * PAGE);
		q = want(mmap(q + 3 * PAGE, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0)); site(__LINE__, 0);
		close(fd);
		expect(8 * PAGE, 8 * PAGE);
		break;
	case 9:		/* shared anonymous memory is memory */
		p = want(mmap(NULL, 5 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0)); site(__LINE__, 5 * PAGE);
		expect(5 * PAGE, 5 * PAGE);
		expect_calls(1, 0);
		break;
	case 10:	/* refusals change nothing */
		p = want(mmap(NULL, 5 * PAGE, RW, ANON, -1, 0)); site(__LINE__, 5 * PAGE);
		must(mmap(NULL, 0, RW, ANON, -1, 0) == MAP_FAILED ? 0 : -1);
		must(mmap(NULL, 1ul << 60, RW, ANON, -1, 0) == MAP_FAILED ? 0 : -1);
		must(mmap(p + 1, PAGE, RW, ANON | MAP_FIXED, -1, 0) == MAP_FAILED ? 0 : -1);
		must(mmap(p, PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED ? 0 : -1);
		must(munmap(p + 1, PAGE) ? 0 : -1);
		must(mremap(p, 5 * PAGE, 1ul << 60, MREMAP_MAYMOVE) == MAP_FAILED ? 0 : -1);
		must(mremap(p + 1, PAGE, 2 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED ? 0 : -1);
#ifdef __GLIBC__	/* musl rounds it */
		must(mprotect(p + 1, PAGE, PROT_NONE) ? 0 : -1);
#endif
		expect(5 * PAGE, 5 * PAGE);
		expect_calls(1, 0);
		break;
	case 11:	/* lengths that are not whole pages: what is accessible is */
		p = want(mmap(NULL, 5000, RW, ANON, -1, 0));
		q = want(mmap(NULL, 3 * PAGE, RW, ANON, -1, 0));
		must(munmap(q, 5000));
		p = want(mremap(p, 5000, 9000, MREMAP_MAYMOVE));
		expect(4 * PAGE, 4 * PAGE);
		break;
	case 12:	/* 10 000 in a row, neighbours that the kernel merges; every other one goes */
		p = want(mmap(NULL, 20000 * PAGE, PROT_NONE, ANON, -1, 0));
		must(munmap(p, 20000 * PAGE));
		for (int i = 0; i < 10000; i++)
			want(mmap(p + i * PAGE, PAGE, RW, ANON | MAP_FIXED, -1, 0));
		for (int i = 0; i < 10000; i += 2)
			must(munmap(p + i * PAGE, PAGE));
		expect(5000 * PAGE, 5000 * PAGE);
		expect_calls(10001, 5001);
		break;
	case 13:	/* heap and mappings beside each other: large blocks are heap, not mmap */
		p = TOOK(malloc(1 << 20), 1 << 20);
		q = want(mmap(NULL, PAGE, RW, ANON, -1, 0));
		site(__LINE__ - 1, PAGE);
		free(GAVE(TOOK(malloc(8 << 20), 8 << 20)));
		expect(PAGE, PAGE);
		expect_calls(1, 0);
		break;
	default:
		_exit(77);
	}
	(void)q;
}

int main(int argc, char **argv)
{
	scenario(argc > 1 ? atoi(argv[1]) : 0);
	return 0;
}
