// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * unmaps - unmaps, protects or replaces every shared mapping that /proc/self/maps tells of, as
 * programs do that clear their address space; natively there is none. Then it allocates, says
 * `done`, and ends with 31.
 *
 * unmaps HOW [wait]: unmap, none, read, fixed, move; raw-unmap, raw-none: by syscall(); inline: by
 * an instruction of its own. wait: a line of input comes first.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static char text[1 << 16];
static void *volatile block;

static void inline_munmap(void *at, size_t len)
{
	long nr = SYS_munmap;

	__asm__ volatile("syscall" : "+a"(nr) : "D"(at), "S"(len) : "rcx", "r11", "memory");
}

static void take(const char *how, void *at, size_t len)
{
	if (!strcmp(how, "unmap"))
		munmap(at, len);
	else if (!strcmp(how, "none"))
		mprotect(at, len, PROT_NONE);
	else if (!strcmp(how, "read"))
		mprotect(at, len, PROT_READ);
	else if (!strcmp(how, "fixed"))
		mmap(at, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	else if (!strcmp(how, "move"))
		mremap(at, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)0x500000000000);
	else if (!strcmp(how, "raw-unmap"))
		syscall(SYS_munmap, at, len);
	else if (!strcmp(how, "raw-none"))
		syscall(SYS_mprotect, at, len, PROT_NONE);
	else if (!strcmp(how, "inline"))
		inline_munmap(at, len);
	else
		_exit(1);
}

int main(int argc, char **argv)
{
	int fd = open("/proc/self/maps", O_RDONLY);
	char line[8];
	size_t n = 0;
	ssize_t got;

	if (fd < 0 || argc < 2 || (argc > 2 && read(0, line, sizeof(line)) <= 0))
		return 1;
	while ((got = read(fd, text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)got;
	for (char *l = strtok(text, "\n"); l; l = strtok(NULL, "\n")) {
		unsigned long start, end;
		char prot[5];

		if (sscanf(l, "%lx-%lx %4s", &start, &end, prot) == 3 && prot[3] == 's')
			take(argv[1], (void *)start, end - start);
	}
	for (int i = 0; i < 100; i++) {
		block = malloc(100);
		free(block);
	}
	return write(1, "done\n", 5) == 5 ? 31 : 1;
}
