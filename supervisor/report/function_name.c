// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/function_name.h"

#include <stdlib.h>

#include "symbols/short_name.h"

/* A function's name in a table: C++ names as people write them, in the width that there is. */

size_t function_width(const struct layout *l, const char *function)
{
	char *name = short_name(function, SHORT_DEFAULTS, l->unicode);
	size_t width = layout_width(l, name ? name : function);

	free(name);
	return width;
}

/* The first of its forms up to LAST that fits; if none does, LAST without its middle. */
static size_t put(const struct layout *l, FILE *out, const char *function, size_t width,
		  enum short_name last)
{
	char *name = NULL;
	size_t done;

	for (int level = 0; level <= (int)last; level++) {
		free(name);
		name = short_name(function, (enum short_name)level, l->unicode);
		if (!name || layout_width(l, name) <= width)
			break;
	}
	done = layout_put(l, out, name ? name : function, width);
	free(name);
	return done;
}

size_t function_put(const struct layout *l, FILE *out, const char *function, size_t width)
{
	return put(l, out, function, width, SHORT_LEVELS - 1);
}

size_t function_put_arguments(const struct layout *l, FILE *out, const char *function, size_t width)
{
	return put(l, out, function, width, SHORT_PARAMETERS);
}
