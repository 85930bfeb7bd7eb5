/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * secret.h - odd numbers that nobody else knows, for hashes of what a target says: who could foresee
 * where entries go would make each search as long as the table.
 */
#ifndef MTRUN_SECRET_H
#define MTRUN_SECRET_H

#include "base/types.h"

/* The WHICH-th, 0 or 1: the same one as long as this process lives. */
extern uint64_t secrets[2];
static inline uint64_t secret(unsigned which) { return secrets[which]; }

#endif
