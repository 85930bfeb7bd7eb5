/* SPDX-License-Identifier: GPL-3.0-or-later */
/* print_leaks.h - a leak report as text, in memcheck's words, and as JSON. */
#ifndef MTRUN_PRINT_LEAKS_H
#define MTRUN_PRINT_LEAKS_H

#include <stdio.h>

#include "base/layout.h"
#include "leaks/leaks.h"
#include "leaks/ties.h"
#include "memory/capture.h"
#include "report/sites.h"

struct leak_report {
	pid_t pid;
	struct leak_sum sum[LEAK_KINDS]; /* of all kinds, whichever are in `record` */
	struct leak_sum suppressed;	 /* that are in none of these, nor in `record` */
	struct leak_sum spared;		 /* indirect: what they were lost with is suppressed */
	struct leak_record *record;	 /* in the order of leaks_records() */
	size_t records;
	struct leak_tie *tie; /* of all records, before any were left out */
	size_t ties;
	struct leak_prefix prefix[LEAK_PREFIXES];
	size_t prefixes;
	bool fresh;  /* only what was not lost at the scan before */
	bool at_end; /* at the process' last instant: nothing was to wait */
	/* how it was seen */
	enum capture_way way;
	uint64_t pause_ns, scan_ms, scanned; /* bytes */
	size_t threads;
	char remark[160]; /* a line about what cannot be seen; empty: none */
};

/* ROWS: how many records; the others are summed in one line. */
void print_leaks(FILE *out, const struct leak_report *r, size_t rows, struct sites *sites,
		 const struct layout *l);
void print_leaks_json(FILE *out, const struct leak_report *r, size_t rows, struct sites *sites);

#endif
