// SPDX-License-Identifier: GPL-3.0-or-later
#include "unwind/cfi_kept.h"

#include "symbols/elf.h"
#include "unwind/cfi_rows.h"

/*
 * cfi_kept.c - the rows that were used last.
 *
 * Tried: a thread that reads the program, its ld.so and libc before they are mapped. What waits for
 * them took 4.2 ms instead of 8.7, but all that ran beside it took as much longer, on a machine
 * where page faults are dear (/bin/true 26.0 and 25.9 ms).
 */

struct kept {
	struct elf *elf; /* counted; NULL: free */
	struct rows rows;
	uint64_t used; /* when, for eviction */
};

#define KEPT	   64u
#define KEPT_BYTES (48u << 20)
static struct kept kept[KEPT];
static uint64_t kept_clock;

static void drop(struct kept *k)
{
	elf_unref(k->elf);
	k->elf = NULL;
	rows_release(&k->rows);
}

static const struct rows *find(const struct elf *elf, uint64_t lo, uint64_t hi)
{
	for (size_t i = 0; i < KEPT; i++)
		if (kept[i].elf == elf && kept[i].rows.lo == lo && kept[i].rows.hi == hi) {
			kept[i].used = ++kept_clock;
			return &kept[i].rows;
		}
	return NULL;
}

/* A place for ROWS among the kept ones; the least lately used make room. */
static const struct rows *keep(struct elf *elf, const struct rows *rows)
{
	for (;;) {
		struct kept *oldest = NULL, *free_one = NULL;
		size_t bytes = rows_bytes(rows);

		for (size_t i = 0; i < KEPT; i++) {
			if (!kept[i].elf) {
				free_one = &kept[i];
				continue;
			}
			bytes += rows_bytes(&kept[i].rows);
			if (!oldest || kept[i].used < oldest->used)
				oldest = &kept[i];
		}
		if (free_one && (bytes <= KEPT_BYTES || !oldest)) {
			*free_one = (struct kept){ elf_ref(elf), *rows, ++kept_clock };
			return &free_one->rows;
		}
		drop(oldest);
	}
}

const struct rows *kept_rows(struct elf *elf, uint64_t lo, uint64_t hi, struct cfi_rules *scratch,
			     int *error)
{
	const struct rows *rows = find(elf, lo, hi);
	struct rows fresh;

	*error = 0;
	if (rows)
		return rows;
	*error = rows_read(&fresh, elf, lo, hi, scratch);
	return *error ? NULL : keep(elf, &fresh);
}

void kept_forget(void)
{
	for (size_t i = 0; i < KEPT; i++)
		drop(&kept[i]);
}
