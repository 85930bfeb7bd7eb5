// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * fewer - two blocks of 100 bytes; once a byte has come, one of 1000 instead, from the same stack.
 * After each it writes a line; it ends when another byte has come.
 */
#include <stdlib.h>
#include <unistd.h>

static int ready(void)
{
	char byte;

	return write(1, "ready\n", 6) == 6 && read(0, &byte, 1) == 1;
}

int main(void)
{
	static const size_t size[] = { 100, 100, 1000 };
	static volatile int rounds = 3; /* which the compiler does not know: one call of malloc */
	char *volatile has[3];

	for (int i = 0; i < rounds; i++) {
		if (i == 2) {
			if (!ready())
				return 1;
			free(has[0]);
			free(has[1]);
		}
		has[i] = malloc(size[i]);
	}
	return !ready();
}
