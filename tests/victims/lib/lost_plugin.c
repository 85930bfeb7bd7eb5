// SPDX-License-Identifier: GPL-3.0-or-later
/* lost_plugin.c - a library for lost.c, whose data hold the only pointer to a block, with another one on it. */
#include <stdlib.h>

static void **volatile held;

void lost_fill(void);
void lost_fill(void)
{
	held = calloc(1, 100);
	held[5] = malloc(50);
}
