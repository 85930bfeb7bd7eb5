// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * mapped.c - mappings that are expensive to look at: `huge` 64 TB that are reserved and not touched, `many` as many mappings as the kernel allows, half of
 * them with a page in memory, `moving` two threads that map and unmap for as long as it runs, `all` these at once. It says `ready`, and what of its
 * own mappings is in memory, and ends when its input does.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096ul
#define FLAGS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

static unsigned long resident, mapped;

static void huge(void)
{
	unsigned long size = 64ul << 40;
	char *p = MAP_FAILED;

	while (p == MAP_FAILED && size >= 1ul << 40) {
		p = mmap(NULL, size, PROT_READ | PROT_WRITE, FLAGS, -1, 0);
		if (p == MAP_FAILED)
			size -= 1ul << 40;
	}
	if (p == MAP_FAILED)
		return;
	mapped += size;
	for (unsigned long i = 0; i < 16; i++) {
		p[i * (size / 16)] = 1;
		resident += PAGE;
	}
}

/* Neighbours differ, or they would be one. A few are left for the program itself. */
static void many(void)
{
	const unsigned long count = 65000;
	char *p = mmap(NULL, count * PAGE, PROT_READ | PROT_WRITE, FLAGS, -1, 0);

	if (p == MAP_FAILED)
		return;
	for (unsigned long i = 0; i < count; i += 2) {
		p[i * PAGE] = 1;
		resident += PAGE;
		if (mprotect(p + (i + 1) * PAGE, PAGE, PROT_READ))
			break;
	}
	mapped += count * PAGE;
}

static void *moving(void *unused)
{
	(void)unused;
	for (;;) {
		char *p = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, FLAGS, -1, 0);

		if (p != MAP_FAILED) {
			p[0] = 1;
			munmap(p, 64 * PAGE);
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "all";
	int all = !strcmp(what, "all");
	pthread_t thread;
	char c;

	if (all || !strcmp(what, "huge"))
		huge();
	if (all || !strcmp(what, "many"))
		many();
	for (int i = 0; i < 2 && (all || !strcmp(what, "moving")); i++)
		pthread_create(&thread, NULL, moving, NULL);
	printf("ready mapped=%lu resident=%lu\n", mapped, resident);
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
	_exit(0);
}
