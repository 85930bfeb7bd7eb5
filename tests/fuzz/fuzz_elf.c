// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * fuzz_elf.c - an ELF file as hostile as can be: every question of elf.h is asked, and every byte
 * that an answer points at is read.
 */
#include <string.h>

#include "symbols/elf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t sink;

static void touch(const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sink += bytes[i];
}

static void ask_symbols(const struct elf *elf)
{
	struct elf_symbol symbol;
	size_t cursor = 0;
	unsigned asked = 0;

	while (asked++ < 4096 && elf_next_symbol(elf, &cursor, &symbol))
		sink += strlen(symbol.name) + symbol.value;
	for (cursor = 0, asked = 0; asked++ < 64 && elf_find(elf, "malloc", &cursor, &symbol);)
		sink += strlen(symbol.name);
	for (cursor = 0, asked = 0;
	     asked++ < 64 && elf_find_exported(elf, "free", &cursor, &symbol);)
		sink += strlen(symbol.name);
	sink += elf_has_functions(elf) + elf_symbols(elf) + elf_exported(elf) + elf_has_hash(elf) +
		elf_next_address(elf, 0x1000);
}

static void ask_parts(const struct elf *elf)
{
	const struct elf_section *section;
	const struct elf_segment *segment;
	struct elf_bytes eh_frame, hdr;
	const char *text;
	const uint8_t *bytes;
	size_t n, left;

	n = elf_sections(elf, &section);
	for (size_t i = 0; i < n; i++)
		sink += strlen(section[i].name);
	n = elf_segments(elf, &segment);
	for (size_t i = 0; i < n; i++)
		if ((bytes = elf_at(elf, segment[i].vaddr, 1, &left)))
			touch(bytes, left < 4096 ? left : 4096);
	if ((text = elf_soname(elf)))
		sink += strlen(text);
	touch(bytes = NULL, 0);
	n = elf_build_id(elf, &bytes);
	touch(bytes, n);
	if (elf_eh_frame(elf, &eh_frame, &hdr)) {
		touch(eh_frame.bytes, eh_frame.size);
		touch(hdr.bytes, hdr.size);
	}
	sink += elf_type(elf) + elf_entry(elf) + elf_is_static(elf) +
		(elf_section(elf, ".text") != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int error = 0;
	struct elf *elf = elf_from_bytes(data, size, &error);

	if (!elf)
		return 0;
	ask_symbols(elf);
	ask_parts(elf);
	elf_unref(elf);
	return 0;
}
