/* SPDX-License-Identifier: GPL-3.0-or-later */
/* moments.h - a process's time in as many moments as a viewer can show. */
#ifndef MTRUN_MOMENTS_H
#define MTRUN_MOMENTS_H

#include "export/export.h"

/*
 * At most MOST of POINTS, ascending: the time is cut into stretches of equal length, of each the
 * highest point stays. So the highest of all is among them. *INDEX: into POINT, for the caller to
 * free; *STRETCH: ms, may be NULL. Their number, or -ENOMEM.
 */
ssize_t moments_choose(const struct export_point *point, size_t points, size_t most, size_t **index,
		       uint64_t *stretch) MUST_USE;
/*
 * The points of E, each in as many as `activity` tells apart, the highest of them as high as it
 * was. *OUT is for the caller to free. Their number, or -ENOMEM.
 */
ssize_t moments_refine(const struct export *e, struct export_point **out) MUST_USE;
/* Which of the N points is the highest, the first of several. N > 0. */
size_t moments_highest(const struct export *e, const size_t *index, size_t n);

#endif
