// SPDX-License-Identifier: GPL-3.0-or-later
/* plugin.c - a library that allocates: in its constructor, when asked, in its destructor. Books are the program's (../dl.c). */
#include "../victim.h"

static void *mine;

__attribute__((constructor)) static void came(void)
{
	mine = TOOK(malloc(501), 501);
}
__attribute__((destructor)) static void goes(void)
{
	free(GAVE(mine));
	mine = TOOK(malloc(7), 7);	/* leaked: its stack must be readable when the library is gone */
}
void *plugin_make(size_t n);
VICTIM_NOINLINE static void *deeper(int depth, size_t n)
{
	if (depth) {
		void *volatile p = deeper(depth - 1, n);
		return p;
	}
	return TOOK(malloc(n), n);
}
void *plugin_make(size_t n)
{
	void *volatile p = deeper(5, n);
	return p;
}
