/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * callframe.h - reads DWARF call frame information (.eh_frame, or an uncompressed .debug_frame)
 * into the rules of wire_stack.h. Pure: bytes in, rules out. Nothing in the bytes is trusted: all
 * reads are bounded, every loop eats input, what makes no sense becomes "no rule" for the addresses
 * it is about. Addresses here are the file's own (virtual addresses before relocation), offsets are
 * from `lo`.
 */
#ifndef MTRUN_CALLFRAME_H
#define MTRUN_CALLFRAME_H

#include "base/types.h"
#include "inject/wire_stack.h"

struct callframe_source {
	/* the section, borrowed; must stay while the list is used */
	const uint8_t *data;
	size_t size;		       /* bytes, below 4 GiB */
	uint64_t vaddr;		       /* where it is mapped, for pc-relative pointers */
	uint64_t text_base, data_base; /* for DW_EH_PE_textrel, datarel; 0 if there is none */
	bool debug_frame;	       /* .debug_frame's format rather than .eh_frame's */
};

struct callframe_state; /* what a CIE says */

struct callframe { /* one FDE: the code in [lo + start, lo + end) */
	uint32_t start, end;
	uint32_t insns, insns_end; /* its instructions, offsets into the section */
	uint32_t cie;		   /* index into `cie` */
	uint32_t fde;		   /* offset of the FDE in the section: its length field */
};

struct callframe_list {
	struct callframe_source source;
	uint64_t lo;
	/* sorted by start, not overlapping (of two the one that begins later wins) */
	struct callframe *frame;
	size_t count;
	struct callframe_state *cie;
	size_t ncies;
};

/*
 * Finds the FDEs about [lo, hi), which is less than 4 GiB. The caller releases the list. 0 or
 * -ENOMEM, -EINVAL (range or section too large).
 */
int callframe_scan(struct callframe_list *list, const struct callframe_source *source, uint64_t lo,
		   uint64_t hi) MUST_USE;
void callframe_release(struct callframe_list *list);
/*
 * Calls ROW(ctx, offset, rule) for frame I, offsets ascending from its start, below its end. Equal
 * rules may follow each other.
 */
void callframe_rows(const struct callframe_list *list, size_t i,
		    void (*row)(void *ctx, uint32_t offset, const struct wire_rule *rule),
		    void *ctx);
/* The frame that covers OFFSET, or -1. */
ssize_t callframe_find(const struct callframe_list *list, uint32_t offset);
/* Only the rule at OFFSET. */
struct wire_rule callframe_rule(const struct callframe_list *list, size_t i, uint32_t offset);

#endif
