/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * zero_page.h - whether memory that was only read is nobody's. Linux shows all programs one page of
 * zeros there, which counts as no memory of theirs; but some kernels of virtual machines have none,
 * and give each program pages of its own.
 */
#ifndef ZERO_PAGE_H
#define ZERO_PAGE_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* By what the kernel says of a page that was read. It allocates nothing. */
static inline bool has_zero_page(void)
{
	static char text[1 << 20];
	/* a mapping of its own: its neighbours are not accessible */
	char *at = mmap(NULL, 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), begin[32], *line;
	int fd = open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t n;

	if (at == MAP_FAILED || fd < 0 || mprotect(at + 4096, 4096, PROT_READ))
		abort();
	if (*(volatile char *)(at + 4096))
		abort();
	while (len < sizeof(text) - 1 && (n = read(fd, text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	close(fd);
	text[len] = '\0';
	snprintf(begin, sizeof(begin), "%lx-", (unsigned long)(at + 4096));
	line = strstr(text, begin);
	line = line ? strstr(line, "\nRss:") : NULL;
	munmap(at, 3 * 4096);
	return line && strtoul(line + 5, NULL, 10) == 0;
}

#endif
