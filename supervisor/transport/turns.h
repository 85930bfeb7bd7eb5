/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * turns.h - which ring is next: a priority queue. With 256 rings a look at each of them for every
 * few events costs more than the events do.
 */
#ifndef MTRUN_TURNS_H
#define MTRUN_TURNS_H

#include "base/types.h"

/* The lowest `first` goes first, of equal ones the lowest `second`. */
struct turn {
	uint64_t first, second;
	uint32_t ring;
};

struct turns {
	struct turn *at; /* the caller's, with room for all that will be there at once */
	uint32_t count;
};

void turns_add(struct turns *q, struct turn t);
/* Takes out the one that goes first. The queue is not empty. */
struct turn turns_take(struct turns *q);

#endif
