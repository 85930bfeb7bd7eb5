// SPDX-License-Identifier: GPL-3.0-or-later
/* plain_plugin.c - a library that allocates when asked, and keeps no books (../switched.c). */
#include <stdlib.h>

void *plugin_make(size_t n);
void *plugin_make(size_t n)
{
	void *volatile p = malloc(n);
	return p;
}
