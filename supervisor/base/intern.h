/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * intern.h - numbers for things that a format writes once and then names by number: texts, frames,
 * modules. Numbers go from 1 in the order of appearance. Keys are kept as pointers and must outlive
 * the table. A struct intern that is all zeros is an empty one; intern_release() frees.
 */
#ifndef MTRUN_INTERN_H
#define MTRUN_INTERN_H

#include "base/hash_index.h"

struct intern {
	/*
	 * keys are equal if their texts are; else if they are the same pointer. To be set while it
	 * is empty
	 */
	bool texts;
	size_t count, room;
	const void **key; /* number I's is key[I - 1] */
	struct hash_index index;
};

/* KEY's number, a new one if it has none yet; 0: out of memory. */
uint32_t intern(struct intern *t, const void *key);
void intern_release(struct intern *t);

#endif
