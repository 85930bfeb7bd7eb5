/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * cfi_kept.h - the rows of files (cfi_rows.h), kept for the next process that maps the same file:
 * g++ starts four programs, and each maps the same libc. All of this is called by one thread.
 */
#ifndef MTRUN_CFI_KEPT_H
#define MTRUN_CFI_KEPT_H

#include "base/types.h"

struct elf;
struct rows;
struct cfi_rules;

/*
 * The rows of ELF's code in [LO, HI). They stay until the next call. NULL and *error, as of
 * rows_read(); SCRATCH is as there.
 */
const struct rows *kept_rows(struct elf *elf, uint64_t lo, uint64_t hi, struct cfi_rules *scratch,
			     int *error) MUST_USE;

void kept_forget(void);

#endif
