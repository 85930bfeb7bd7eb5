// SPDX-License-Identifier: GPL-3.0-or-later
#include "process/static_tls.h"

#include <elf.h>
#include <string.h>

#include "base/patient.h"
#include "symbols/elf.h"
#include "symbols/module.h"

/*
 * static_tls.c - the loader alone knows where it has put a library's thread-local variables. But it
 * writes the distance from the thread pointer into the library's data, as its code wants it: for
 * each relocation R_X86_64_TPOFF64 (System V ABI, AMD64 supplement, "ELF Handling For Thread-Local
 * Storage"). One without a symbol is about the byte `addend` of the library's part.
 */

#define FAR ((uint64_t)1 << 30) /* bytes: no thread has more of them */

static bool find_part(const struct elf *elf, struct static_tls *to)
{
	const struct elf_segment *segment;
	size_t n = elf_segments(elf, &segment);

	for (size_t i = 0; i < n; i++)
		if (segment[i].type == PT_TLS)
			to->bytes = segment[i].memsz;
	return to->bytes && to->bytes <= FAR;
}

/* In the section S of ELF. */
static bool find_in(const struct elf *elf, const struct elf_section *s, Elf64_Rela *found)
{
	size_t size;
	const uint8_t *file = elf_file(elf, &size);

	for (uint64_t i = 0; i < s->size / sizeof(*found); i++) {
		memcpy(found, file + s->offset + i * sizeof(*found), sizeof(*found));
		if (ELF64_R_TYPE(found->r_info) == R_X86_64_TPOFF64 && !ELF64_R_SYM(found->r_info))
			return true;
	}
	return false;
}

static bool find_relocation(const struct elf *elf, Elf64_Rela *found)
{
	const struct elf_section *s;
	size_t n = elf_sections(elf, &s);

	for (size_t i = 0; i < n; i++)
		if (s[i].type == SHT_RELA && find_in(elf, &s[i], found))
			return true;
	return false;
}

bool static_tls_find(const struct module *m, pid_t via, struct static_tls *to)
{
	struct static_tls part = { 0 };
	uint64_t offset;
	Elf64_Rela r;

	*to = part;
	if (!find_part(m->elf, &part) || !find_relocation(m->elf, &r) ||
	    patient_read(via, m->bias + r.r_offset, &offset, sizeof(offset)) != sizeof(offset))
		return false;
	part.below = (uint64_t)r.r_addend - offset;
	if (part.below < part.bytes || part.below > FAR)
		return false;
	*to = part;
	return true;
}
