/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * go_frames.h - unwind rules for the code of a Go program. Its linker writes call frame information
 * where only a debugger looks (compressed, or not at all), but its compiler keeps frame pointers,
 * and so its stacks can be walked across a change to another stack, too.
 */
#ifndef MTRUN_GO_FRAMES_H
#define MTRUN_GO_FRAMES_H

#include "unwind/cfi_synthesize.h"

struct elf;

/*
 * As cfi_synth_rows(), for the NRANGES of ELF's code that have no FDE, sorted; offsets from LO. The
 * caller frees *ROWS. 0, -ENOMEM.
 */
int go_rows(const struct elf *elf, const struct cfi_synth_range *range, size_t nranges, uint64_t lo,
	    struct cfi_synth_row **rows, size_t *count) MUST_USE;

#endif
