/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * units.h - SIZE and TIME as the command line and the shell take them, and numbers as people read
 * them. Strict: what is not understood is refused.
 */
#ifndef MTRUN_UNITS_H
#define MTRUN_UNITS_H

#include "base/types.h"

#define SIZE_ACCEPTED "bytes, or a number with K, M, G, T (1024s) or KB, MB, GB, TB (1000s)"
#define MOMENT_ACCEPTED \
	"250ms, 5s, 2m, 1h or a bare number of seconds since tracing began, -10s before now, or a clock time 03:12:07 or 2026-11-20T03:12:07"
#define TIME_ACCEPTED "a time such as 250ms, 5s, 2m, 1h; a bare number is seconds"

/* All return 0, or -EINVAL if TEXT is anything else, -ERANGE if it does not fit. */
int size_parse(const char *text, uint64_t *bytes) MUST_USE;
int time_parse(const char *text, uint64_t *ms) MUST_USE;
/*
 * A moment of the record, in ms since it began: a time as above, one with a minus, which counts
 * back from END, or a clock time in local time, `03:12:07` or `2026-11-20T03:12:07`, with a
 * fraction of a second if one likes. BEGAN: when the record began, ms of the clock; NOW: how long
 * ago that is. Without a date it is the latest such time in it.
 */
int moment_parse(const char *text, uint64_t began, uint64_t now, uint64_t end,
		 uint64_t *ms) MUST_USE;
int number_parse(const char *text, uint64_t *n) MUST_USE;	/* decimal digits only */
int address_parse(const char *text, raddr_t *address) MUST_USE; /* 0x... or decimal */

struct text_buffer {
	char text[32];
};
/* "812", "4.0K", "31.2M" (1024s), "1.50G"; to print at once. */
const char *size_text(struct text_buffer *b, uint64_t bytes);
/* " (31.2M)", to follow the exact number; nothing where that would be the same number. */
const char *size_aside(struct text_buffer *b, uint64_t bytes);
/* One word, as time_parse() takes it: "250ms", "12.3s", "3.1m", "2.1h" */
const char *age_text(struct text_buffer *b, uint64_t ms);
/* As age_text(), exact to the ms, by the largest unit of which there is a whole number: "90s", "1234ms" */
const char *setting_text(struct text_buffer *b, uint64_t ms);
/* "250 ms", "12.3 s", "3:07 min", "2:03:09 h" */
const char *time_text(struct text_buffer *b, uint64_t ms);

/* "s", unless N is 1: of what there are N. */
static inline const char *plural(uint64_t n) { return n == 1 ? "" : "s"; }

/* "exited with status 3" or "killed by SIGTERM", of a wait status. */
const char *wait_status_text(int wait_status, char *text, size_t len);
/* 3, or 128 + the signal. */
int wait_status_number(int wait_status);

#endif
