// SPDX-License-Identifier: GPL-3.0-or-later
#include "process/call_site.h"

#include <string.h>

#include "base/patient.h"
#include "base/proc.h"
#include "process/process.h"
#include "symbols/elf.h"

/*
 *	e8 rel32	call f, or call f@plt
 *	ff 15 rel32	call [f@got]
 * and a PLT entry is
 *	[endbr64] [bnd] jmp [f@got]
 * The GOT's word was bound by that call at the latest.
 */
#define CALL_BYTES 6
#define PLT_BYTES  16
#define HOPS	   4 /* a PLT entry may lead to another one */

static raddr_t behind(const uint8_t *rel32, raddr_t next)
{
	int32_t d;

	memcpy(&d, rel32, sizeof(d));
	return next + (raddr_t)(int64_t)d;
}

static raddr_t word_at(const struct process *p, raddr_t address)
{
	raddr_t word;

	return patient_read(p->via, address, &word, sizeof(word)) == sizeof(word) ? word : 0;
}

/* An operator that only goes on to malloc looks like a PLT entry. */
static bool in_plt(const struct process *p, raddr_t address)
{
	const struct module *m = modules_find(&p->modules, address, UINT32_MAX);
	const struct elf_section *s;
	size_t n = m ? elf_sections(m->elf, &s) : 0;

	for (size_t i = 0; i < n; i++)
		if (strncmp(s[i].name, ".plt", 4) == 0 && address - m->bias - s[i].addr < s[i].size)
			return true;
	return false;
}

/* Where the PLT entry at ADDRESS goes; ADDRESS itself if it is none. */
static raddr_t through_plt(const struct process *p, raddr_t address)
{
	uint8_t code[PLT_BYTES];
	const uint8_t *at = code;

	if (!in_plt(p, address))
		return address;
	if (patient_read(p->via, address, code, sizeof(code)) != sizeof(code))
		return 0;
	if (memcmp(at, "\xf3\x0f\x1e\xfa", 4) == 0)
		at += 4;
	if (*at == 0xf2)
		at++;
	if (memcmp(at, "\xff\x25", 2) != 0)
		return address;
	return word_at(p, behind(at + 2, address + (raddr_t)(at - code) + 6));
}

raddr_t call_site_target(const struct process *p, raddr_t pc)
{
	raddr_t target = 0, next;
	uint8_t code[CALL_BYTES];

	if (patient_read(p->via, pc - CALL_BYTES, code, sizeof(code)) != sizeof(code))
		return 0;
	if (code[1] == 0xe8)
		target = behind(code + 2, pc);
	else if (memcmp(code, "\xff\x15", 2) == 0)
		target = word_at(p, behind(code + 2, pc));
	for (int i = 0; i < HOPS && target; i++, target = next) {
		next = through_plt(p, target);
		if (next == target)
			return target;
	}
	return 0;
}

#define SYMBOLS_MOST 1000000u /* more would take too long: some 10 ms */

bool call_site_named(const struct module *m, raddr_t pc, bool (*fits)(const char *name))
{
	bool named = false;
	struct elf_symbol s;
	size_t cursor = 0;

	if (elf_symbols(m->elf) > SYMBOLS_MOST)
		return false;
	while (elf_next_symbol(m->elf, &cursor, &s)) {
		if (s.value > pc - m->bias || pc - m->bias - s.value >= s.size || !*s.name)
			continue;
		if (!fits(s.name))
			return false;
		named = true;
	}
	return named;
}
