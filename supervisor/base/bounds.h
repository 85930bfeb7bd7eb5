/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * bounds.h - numbers kept within bounds.
 */
#ifndef MTRUN_BOUNDS_H
#define MTRUN_BOUNDS_H

#include "base/types.h"

/* The smaller of the two. */
static inline uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

#endif
