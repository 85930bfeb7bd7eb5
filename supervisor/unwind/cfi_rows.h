/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * cfi_rows.h - the unwind rules of one file's code: rows, each with the place from which on its
 * rule holds. They are the same wherever the file is mapped. Pure: a file in, rows out, in any
 * thread; large files are read by several.
 */
#ifndef MTRUN_CFI_ROWS_H
#define MTRUN_CFI_ROWS_H

#include "base/types.h"
#include "inject/wire_stack.h"

struct elf;
struct cfi_rules;

/* Rows that follow each other, at least one, with rules numbered on their own. */
struct rows_piece {
	uint32_t *offs;		 /* from `lo`, ascending; each row holds to the next */
	uint16_t *rule;		 /* the number of each row's rule */
	size_t n, room;		 /* rows, and how many there is memory for */
	struct wire_rule *rules; /* by number; of the piece alone, so that threads share nothing */
	uint32_t nrules;
};

#define PIECES 16u

struct rows {
	uint64_t lo, hi; /* the code that they are about, in the file's addresses */
	struct rows_piece piece[PIECES];
	unsigned pieces;
};

/*
 * Reads ELF's code in [LO, HI), less than 4 GiB. SCRATCH is used meanwhile. 0, -ENOMEM, -EINVAL;
 * *ROWS is to be released after success.
 */
int rows_read(struct rows *rows, const struct elf *elf, uint64_t lo, uint64_t hi,
	      struct cfi_rules *scratch) MUST_USE;

/* Code of SIZE bytes of which we know the rules ourselves. */
struct cfi_row {
	uint32_t offset; /* of the first one 0; ascending */
	struct wire_rule rule;
};
/* 0 or -ENOMEM. COUNT is not 0. */
int rows_given(struct rows *rows, uint32_t size, const struct cfi_row *row, size_t count,
	       struct cfi_rules *scratch) MUST_USE;

void rows_release(struct rows *rows);
size_t rows_count(const struct rows *rows);
size_t rows_bytes(const struct rows *rows); /* of memory */

#endif
