// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * limit_fork.c - under a limit of 1000000 bytes of heap that fails requests: three children with 400000 bytes of their parent's have room for
 * 600000 more each, to the byte, and take none of the parent's.
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void *volatile keep;

static int granted(size_t n)
{
	return (keep = malloc(n)) != NULL;
}

int main(void)
{
	int bad = 0, status;

	bad |= !granted(400000);
	for (int i = 0; i < 3; i++)
		if (fork() == 0)
			_exit(!granted(500000) || granted(100001) || !granted(100000) || granted(1));
	while (wait(&status) > 0)
		bad |= status != 0;
	bad |= !granted(600000) || granted(1);
	return bad;
}
