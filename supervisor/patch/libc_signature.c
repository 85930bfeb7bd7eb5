// SPDX-License-Identifier: GPL-3.0-or-later
#include "patch/libc_signature.h"

#include <capstone/capstone.h>
#include <elf.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/elf.h"
#include "symbols/note.h"

/*
 * libc_signature.c - finds malloc where no symbol names it.
 *
 * A distribution strips its static programs (Debian's busybox-static), but it links them with the
 * libc.a that it also ships, and mtrun is linked with that one, too: so we carry the very code that
 * we look for. All of glibc's malloc.c is one object file, so the distances between its functions
 * are the same wherever it was linked. What the linker fills in (calls, addresses relative to rip,
 * thread-local offsets) differs, and is left out of the comparison:
 *
 *      ours   48 8b 05 .. .. .. ..   64 8b 18   48 85 c0   0f 85 .. .. .. ..
 *      theirs 48 8b 05 .. .. .. ..   64 8b 18   48 85 c0   0f 85 .. .. .. ..
 *
 * It counts as found if malloc's first instructions are in the program exactly once and each of the
 * other functions is where it has to be, all with their first instructions: over 300 bytes that are
 * equal. Another build of glibc does not match, and the program is then what it was: stripped.
 *
 * Only a file with a .gnu_debuglink is looked at, that is one whose symbols a distribution has put
 * elsewhere, and one that has asked for us by mtrun.h. What else somebody has stripped himself was
 * built with who knows what, and gets a clear message instead of a search.
 */

#define WINDOW 64 /* bytes compared of each function */
/* of these that must count, or the function is too vague to look for */
#define ENOUGH 28

struct pattern {
	uint8_t bytes[WINDOW], mask[WINDOW];
	size_t len, counted;
};

static const struct own {
	const char *name;
	uintptr_t at;
} * own_functions(size_t *count)
{
	static struct own own[LIBC_FUNCTIONS_MOST];

	own[0] = (struct own){ "malloc", (uintptr_t)malloc };
	own[1] = (struct own){ "free", (uintptr_t)free };
	own[2] = (struct own){ "calloc", (uintptr_t)calloc };
	own[3] = (struct own){ "realloc", (uintptr_t)realloc };
	own[4] = (struct own){ "memalign", (uintptr_t)memalign };
	own[5] = (struct own){ "posix_memalign", (uintptr_t)posix_memalign };
	own[6] = (struct own){ "valloc", (uintptr_t)valloc };
	own[7] = (struct own){ "pvalloc", (uintptr_t)pvalloc };
	*count = LIBC_FUNCTIONS_MOST;
	return own;
}

/* Leaves out of P what the linker has filled into INSN, which is at byte AT. */
static void mask_operands(struct pattern *p, size_t at, const cs_insn *insn)
{
	const cs_x86 *x = &insn->detail->x86;
	uint8_t op = x->opcode[0];

	if (x->encoding.disp_offset && x->encoding.disp_size == 4)
		memset(p->mask + at + x->encoding.disp_offset, 0, 4);
	/*
	 * branches; and `mov x@GOTTPOFF(%rip), %r`, `cmp x@GOTPCREL(%rip), %r`, which the linker
	 * has made into immediates of 64-bit instructions
	 */
	if (x->encoding.imm_size == 4 && (op == 0xe8 || op == 0xe9 || op == 0x0f || (x->rex & 8)))
		memset(p->mask + at + x->encoding.imm_offset, 0, 4);
}

static bool make_pattern(struct pattern *p, csh capstone, uintptr_t function)
{
	const uint8_t *code = (const uint8_t *)function;
	size_t left = WINDOW + 16;
	uint64_t address = function;
	cs_insn *insn = cs_malloc(capstone);

	memset(p, 0, sizeof(*p));
	while (insn && cs_disasm_iter(capstone, &code, &left, &address, insn)) {
		if (p->len + insn->size > WINDOW)
			break;
		memcpy(p->bytes + p->len, insn->bytes, insn->size);
		memset(p->mask + p->len, 0xff, insn->size);
		mask_operands(p, p->len, insn);
		p->len += insn->size;
		if (p->len >= 40 && (insn->id == X86_INS_RET || insn->id == X86_INS_JMP))
			break;
	}
	if (insn)
		cs_free(insn, 1);
	for (size_t i = 0; i < p->len; i++)
		p->counted += p->mask[i] != 0;
	return p->counted >= ENOUGH;
}

static bool matches(const struct pattern *p, const uint8_t *code)
{
	for (size_t i = 0; i < p->len; i++)
		if ((code[i] ^ p->bytes[i]) & p->mask[i])
			return false;
	return true;
}

/* The one place in an executable segment where P is; 0: nowhere, or in several. */
static uint64_t find_once(const struct elf *elf, const struct pattern *p)
{
	const struct elf_segment *segment;
	size_t count = elf_segments(elf, &segment);
	uint64_t found = 0;

	for (size_t i = 0; i < count; i++) {
		const struct elf_segment *s = &segment[i];
		const uint8_t *code = s->type == PT_LOAD && (s->flags & PF_X)
					      ? elf_at(elf, s->vaddr, s->filesz, NULL)
					      : NULL;

		/* functions are aligned to 16 */
		for (size_t at = 0; code && at + p->len <= s->filesz; at += 16) {
			if (!matches(p, code + at))
				continue;
			if (found)
				return 0;
			found = s->vaddr + at;
		}
	}
	return found;
}

static size_t find_all(const struct elf *elf, csh capstone, struct libc_function *out)
{
	size_t count;
	const struct own *own = own_functions(&count);
	struct pattern p;
	uint64_t first = 0;

	for (size_t i = 0; i < count; i++) {
		const uint8_t *code;

		if (!make_pattern(&p, capstone, own[i].at))
			return 0;
		if (!i)
			first = find_once(elf, &p);
		if (!first)
			return 0;
		out[i] = (struct libc_function){ own[i].name, first + (own[i].at - own[0].at) };
		code = elf_at(elf, out[i].vaddr, p.len, NULL);
		if (!code || !matches(&p, code))
			return 0;
	}
	return count;
}

size_t libc_signature_find(const struct elf *elf, struct libc_function out[LIBC_FUNCTIONS_MOST])
{
	struct note note;
	csh capstone;
	size_t count = 0, cursor = 0;

	if (elf_has_functions(elf) || !elf_is_static(elf) ||
	    (!elf_section(elf, ".gnu_debuglink") && !note_next(elf, &cursor, &note)))
		return 0;
	if (cs_open(CS_ARCH_X86, CS_MODE_64, &capstone) != CS_ERR_OK)
		return 0;
	if (cs_option(capstone, CS_OPT_DETAIL, CS_OPT_ON) == CS_ERR_OK)
		count = find_all(elf, capstone, out);
	cs_close(&capstone);
	return count;
}
