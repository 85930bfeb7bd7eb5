// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Loses blocks when it is told to, and prints what it has lost so far: `lost BYTES BLOCKS INDIRECT_BYTES INDIRECT_BLOCKS`, and `kept BYTES BLOCKS` that are held by
 * a variable. Commands, a line each on stdin:
 *	lose N SIZE	N blocks of SIZE bytes, each with a chain of two blocks of 24 bytes
 *	keep N SIZE	N blocks in a list
 *	again		what was lost last is given back (its addresses are known, hidden) and lost once more: the same addresses, other blocks
 *	drop		the list is lost: its first block, and indirectly all others
 *	inside SIZE	a block of which only a pointer to its middle is kept
 *	fork FD		a child that waits for the same commands, from that file descriptor; its pid is printed
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#define HIDDEN	 0x5a5a5a5a5a5a5a5aul

struct node {
	struct node *next;
	char rest[16];
};

static struct node *list;
static char *volatile middle;
static uintptr_t hidden[3];
static size_t hidden_size;
static unsigned long lost[2], indirect[2], kept[2];

/* Words that are left on the stack and in registers would hold what was lost. */
static NOINLINE void forget(void)
{
	char rest[32768];

	memset(rest, 0, sizeof(rest));
	__asm__ volatile("" ::"r"(rest) : "memory");
	__asm__ volatile("pxor %%xmm0, %%xmm0; pxor %%xmm1, %%xmm1; pxor %%xmm2, %%xmm2; pxor %%xmm3, %%xmm3; pxor %%xmm4, %%xmm4; pxor %%xmm5, %%xmm5;"
			 "pxor %%xmm6, %%xmm6; pxor %%xmm7, %%xmm7; pxor %%xmm8, %%xmm8; pxor %%xmm9, %%xmm9; pxor %%xmm10, %%xmm10; pxor %%xmm11, %%xmm11"
			 ::: "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11");
}

static void count(unsigned long *sum, size_t bytes)
{
	sum[0] += bytes;
	sum[1]++;
}

static NOINLINE void lose(unsigned long n, size_t size)
{
	while (n--) {
		struct node *a = calloc(1, size); /* line:lose */

		a->next = calloc(1, sizeof(*a)); /* line:child */
		a->next->next = calloc(1, sizeof(*a));
		count(lost, size);
		count(indirect, sizeof(*a));
		count(indirect, sizeof(*a));
		hidden[0] = (uintptr_t)a ^ HIDDEN;
		hidden[1] = (uintptr_t)a->next ^ HIDDEN;
		hidden[2] = (uintptr_t)a->next->next ^ HIDDEN;
		hidden_size = size;
	}
}

static NOINLINE void again(void)
{
	uintptr_t was = hidden[0];

	for (int i = 2; i >= 0; i--)
		free((void *)(hidden[i] ^ HIDDEN));
	lost[0] -= hidden_size;
	lost[1]--;
	indirect[0] -= 48;
	indirect[1] -= 2;
	usleep(30000); /* a moment that can be told from the one before */
	lose(1, hidden_size);
	printf("again %s\n", was == hidden[0] ? "there" : "elsewhere");
}

static NOINLINE void keep(unsigned long n, size_t size)
{
	while (n--) {
		struct node *a = calloc(1, size);

		a->next = list;
		list = a;
		count(kept, size);
	}
}

static NOINLINE void drop(void)
{
	size_t size = kept[0] / kept[1];

	list = NULL;
	lost[0] += size;
	lost[1]++;
	indirect[0] += kept[0] - size;
	indirect[1] += kept[1] - 1;
	kept[0] = kept[1] = 0;
}

static NOINLINE void inside(size_t size)
{
	char *a = calloc(1, size);

	middle = a + size / 2 + 3;
}

static void fork_child(int fd)
{
	pid_t pid = fork();
	char path[32];

	snprintf(path, sizeof(path), "/dev/fd/%d", fd);
	if (pid) {
		printf("child %d\n", (int)pid);
	} else if (!freopen(path, "r", stdin)) {
		printf("no %s\n", path);
		_exit(1);
	}
}

int main(void)
{
	static char line[256], out[256];
	unsigned long n, size;
	int fd;

	setvbuf(stdout, out, _IOLBF, sizeof(out));
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "lose %lu %lu", &n, &size) == 2)
			lose(n, size);
		else if (sscanf(line, "keep %lu %lu", &n, &size) == 2)
			keep(n, size);
		else if (sscanf(line, "inside %lu", &size) == 1)
			inside(size);
		else if (!strcmp(line, "again\n"))
			again();
		else if (!strcmp(line, "drop\n"))
			drop();
		else if (sscanf(line, "fork %d", &fd) == 1)
			fork_child(fd);
		forget();
		printf("lost %lu %lu %lu %lu kept %lu %lu\n", lost[0], lost[1], indirect[0], indirect[1],
		       kept[0], kept[1]);
	}
	return 0;
}
