/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * cfi_synthesize.h - unwind rules for machine code that has no call frame information, read off its
 * instructions. Pure: bytes in, rules out.
 *
 * Debian's musl is built without unwind tables; so are most hand-written crt files. A rule is given
 * only where it is certain: see cfi_synthesize.c. The exception is `data`, for stripped static
 * programs (busybox): where a function begins is then a guess, though a good one; without it all
 * their stacks would end at once.
 *
 * Some 20 ns per byte of code: 8 ms for musl's libc, 25 ms for busybox.
 */
#ifndef MTRUN_CFI_SYNTHESIZE_H
#define MTRUN_CFI_SYNTHESIZE_H

#include "base/types.h"
#include "inject/wire_stack.h"

/* code without CFI: [start, end), the file's virtual addresses, sorted */
struct cfi_synth_range {
	uint64_t start, end;
};

/* as a wire_module's: holds until the next one; offsets from the caller's `lo` */
struct cfi_synth_row {
	uint32_t offset;
	struct wire_rule rule;
};

struct cfi_synth_input {
	/* bytes at VADDR, how many follow; NULL: none */
	const uint8_t *(*code)(void *ctx, uint64_t vaddr, size_t *left);
	/* the end of the function that has an FDE and begins at VADDR; 0: none does */
	uint64_t (*described)(void *ctx, uint64_t vaddr);
	void *ctx;
	const struct cfi_synth_range *range;
	size_t nranges;
	/*
	 * addresses where functions begin: symbols and the like; any order, those outside of the
	 * ranges are ignored
	 */
	const uint64_t *entry;
	size_t nentries;
	/*
	 * for a stripped file: where pointers to functions may be; NULL: the entries are all that
	 * there is
	 */
	const struct cfi_synth_range *data;
	size_t ndata;
	/* the one of them where the kernel starts a program: nothing called it; 0: none */
	uint64_t start;
	uint64_t lo;
};

/*
 * Rows for all of the ranges, ascending; code about which nothing is known has rule CFA_NONE. The
 * caller frees *ROWS. 0, -ENOMEM.
 */
int cfi_synth_rows(const struct cfi_synth_input *in, struct cfi_synth_row **rows,
		   size_t *count) MUST_USE;

#endif
