// SPDX-License-Identifier: GPL-3.0-or-later
/* recurse.c - a recursion that allocates at every level, on the way down and on the way up. Argument: how deep. */
#define VICTIM_MAIN
#include "victim.h"

static void *down_block[100000], *up_block[100000];

VICTIM_NOINLINE static int down(int level, int deepest)
{
	down_block[level] = TOOK(malloc(21), 21);
	if (level + 1 < deepest && down(level + 1, deepest) < 0)
		return -1;
	up_block[level] = TOOK(malloc(22), 22);
	if (level % 2)
		free(GAVE(down_block[level]));
	return level;
}

int main(int argc, char **argv)
{
	int deepest = argc > 1 ? atoi(argv[1]) : 10000;
	victim_is_exact = 1;
	return down(0, deepest) < 0;
}
