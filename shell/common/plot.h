/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * plot.h - amounts over time, drawn in characters: y in bytes, x in time, the peak and marks named.
 * Pure: what it is given, to a stream.
 */
#ifndef MTRUN_PLOT_H
#define MTRUN_PLOT_H

#include <stdio.h>

#include "base/types.h"

struct plot_step {
	uint64_t from_ms, to_ms; /* [from, to) */
	uint64_t bytes;
	uint64_t ms; /* when, within */
};
struct plot_mark {
	uint64_t ms;
	const char *label;
};
struct plot {
	/* of the whole picture; as good as it gets below 40 by 10 */
	unsigned columns, rows;
	bool utf8;		      /* else ASCII only */
	const struct plot_step *step; /* one behind the other, at least one */
	size_t steps;
	const struct plot_mark *mark; /* in order of time, within */
	size_t marks;
	const char *note;  /* a last line, or NULL */
	const char *about; /* before the peak's number */
};

void plot_print(FILE *out, const struct plot *p);
/* The highest step, the first of several. */
const struct plot_step *plot_peak(const struct plot_step *step, size_t steps);

#endif
