/* SPDX-License-Identifier: GPL-3.0-or-later */
/* told.h - for victims that are told what to do, a line each on standard input: it is read without stdio, which would allocate. */
#ifndef TOLD_H
#define TOLD_H

#include <stddef.h>
#include <unistd.h>

/* The next line without its newline, LEN bytes with its NUL at most. 0: an empty one, or the end. */
static int next_line(char *line, size_t len)
{
	size_t n = 0;

	while (n + 1 < len && read(0, line + n, 1) == 1 && line[n] != '\n')
		n++;
	line[n] = '\0';
	return n > 0;
}

#endif
