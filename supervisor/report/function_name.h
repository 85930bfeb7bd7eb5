/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * function_name.h - a function's name in the columns that a screen has for it: as people write it
 * (symbols/short_name.h), with as much left out as is needed, at last its middle.
 */
#ifndef MTRUN_FUNCTION_NAME_H
#define MTRUN_FUNCTION_NAME_H

#include "base/layout.h"
#include "base/types.h"

/* How many columns it takes without need. */
size_t function_width(const struct layout *l, const char *function);
/* Returns how many it took, at most WIDTH. */
size_t function_put(const struct layout *l, FILE *out, const char *function, size_t width);
/* function_put(), which leaves some of its template arguments, to tell it from others. */
size_t function_put_arguments(const struct layout *l, FILE *out, const char *function,
			      size_t width);

#endif
