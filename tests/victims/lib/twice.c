// SPDX-License-Identifier: GPL-3.0-or-later
/* twice.c - a small library for busy.c. */
#include <stdlib.h>

int *twice(int n);
static void *early;

__attribute__((constructor)) static void came(void) { early = malloc(100); }
__attribute__((destructor)) static void goes(void) { free(early); }

int *twice(int n)
{
	int *p = malloc(sizeof(*p));
	*p = 2 * n;
	return p;
}
