// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * fuzz_symbols.c - symbol tables, DWARF and .gnu_debugdata as hostile as can be: each address has
 * at least one frame, whose strings end.
 */
#include <stdlib.h>
#include <string.h>

#include "symbols/elf.h"
#include "symbols/module.h"
#include "symbols/symbols.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t sink;

static void ask(struct symbols *s, const struct module *m, uint64_t pc)
{
	struct symbol_frames f = symbols_resolve(s, m, pc, true);

	if (f.count == 0)
		abort();
	for (size_t i = 0; i < f.count; i++)
		sink += strlen(f.frame[i].function) +
			(f.frame[i].file ? strlen(f.frame[i].file) : 0) + f.frame[i].line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[] = "[image]";
	struct module m = { .path = path, .end = UINT64_MAX, .roles = MODULE_EXE };
	const struct elf_segment *segment;
	struct symbols *s;
	size_t n;
	int error;

	m.elf = elf_from_bytes(data, size, &error);
	if (!m.elf)
		return 0;
	s = symbols_new(NULL);
	n = elf_segments(m.elf, &segment);
	for (size_t i = 0; i < n && i < 8; i++)
		for (uint64_t at = 0; at < segment[i].filesz && at < 4096; at += 13)
			ask(s, &m, segment[i].vaddr + at);
	symbols_free(s);
	elf_unref(m.elf);
	return 0;
}
