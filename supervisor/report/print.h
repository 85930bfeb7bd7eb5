/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * print.h - views as text for people and as JSON for programs, in the layouts that spec and other
 * tools fix. Everything goes to a stdio stream.
 */
#ifndef MTRUN_PRINT_H
#define MTRUN_PRINT_H

#include <stdio.h>

#include "base/json.h"
#include "base/layout.h"
#include "report/sites.h"
#include "report/view.h"

/* What stands before a number that is an estimate. */
static inline const char *print_about(bool estimated) { return estimated ? "~" : ""; }

/*
 * Texts for people take a layout: NULL, or one without columns, is for a pipe or a file, where the
 * rows are as they are described here; on a terminal they are tables that fit it (grid.h).
 */

/*
 * `FILE line:N size:BYTES count:N FUNCTION` and its relatives for other keys, columns aligned;
 * `total_size: N` first. TOTALS: also what was allocated ever.
 */
void print_report(FILE *out, const struct view *v, struct sites *sites, bool totals,
		  const struct layout *l);
/*
 * Blocks headed `# N: BYTES bytes`, rank 0 (the biggest) last, or first if V is reversed; V is by
 * stack or site (then the stack is its largest).
 */
void print_report_stacks(FILE *out, const struct view *v, struct sites *sites,
			 const struct layout *l);
/*
 * A difference, as UMDH has it: `+ 21280 (61712 - 40432) 58 allocs STACK#53`, for other keys with
 * what the row is about. STACKS: with whole stacks.
 */
void print_difference(FILE *out, const struct view *v, struct sites *sites, bool stacks,
		      const struct layout *l);
/* STACKS: each row with its stack. */
void print_report_json(FILE *out, const struct view *v, struct sites *sites, bool stacks);
/* print_report_json() as member KEY of the document J. */
void print_view_json(struct json *j, const char *key, const struct view *v, struct sites *sites,
		     bool stacks);
/* By site, as the gs driver's get_mem_report() has it: the rows are texts. */
void print_report_gs(FILE *out, const struct view *v);

/* Numbered frames, inlined ones beneath without a number, `at FILE:LINE:COL`. */
void print_stack(FILE *out, struct sites *sites, uint32_t stack, const struct layout *l);
/* As print_stack(), of N addresses, the innermost first, of each its FRAMES; none is left out. */
void print_frames(FILE *out, const struct symbol_frames *frames, size_t n, const struct layout *l);
void print_stack_json(struct json *j, const char *key, struct sites *sites, uint32_t stack);
void print_frames_json(struct json *j, struct symbol_frames frames);

/* jeprof's `top`: in MB (1024 * 1024) with one digit, or in BYTES. */
void print_table(FILE *out, const struct table *t, bool bytes, const struct layout *l);
void print_table_json(FILE *out, const struct table *t);

/* Branches below 1/1000 of the whole (MIN_SHARE per mille) are summed as `(others)`. */
void print_tree(FILE *out, const struct tree *t, unsigned min_share, const struct layout *l);
void print_tree_json(FILE *out, const struct tree *t);

/* ---- what these have in common ---- */

/* What V is of TOTAL, as `12.3%`, in TEXT. */
const char *print_percent(char *text, size_t len, int64_t v, int64_t total);
/* Its file, or the module that it is in. */
const char *print_place(const struct symbol_frame *f);
/* function, file and line, as members of the object that is open in J. */
void print_frame_json(struct json *j, const struct symbol_frame *f);
/* What was there before an attach, on a terminal: beside the others, and in no sum. */
void print_before_line(FILE *out, const struct layout *l, const struct preattach_heap *b);
/* VALUE, one of B's; null where they are not known. */
void print_before_json(struct json *j, const char *key, const struct preattach_heap *b,
		       uint64_t value);

#endif
