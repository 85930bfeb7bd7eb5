/* SPDX-License-Identifier: GPL-3.0-or-later */
/* call_graph.h - parts of the call graph's writer that have tests of their own. */
#ifndef MTRUN_CALL_GRAPH_H
#define MTRUN_CALL_GRAPH_H

#include <stdio.h>

#include "base/types.h"

/* TEXT within quotes of dot's language. */
void graph_put_text(FILE *out, const char *text);
/* NAME without its parameters and template arguments, cut off where SIZE bytes end. */
void graph_short_name(char *to, size_t size, const char *name);

#endif
