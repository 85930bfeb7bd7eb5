// SPDX-License-Identifier: GPL-3.0-or-later
#include "symbols/note.h"

#include <elf.h>
#include <string.h>

#include "symbols/elf.h"

/*
 * note.c - reads what the macro MTRUN_BODY in inject/mtrun.h wrote:
 *
 *      6, 8, 1                 length of the owner's name, of the description; type
 *      "mtrun\0\0\0"
 *      what                    enum wire_api
 *      distance                from this word to the function
 *
 * Linkers lay notes of all owners end to end, with paddings on which they do not agree, so they are
 * not parsed: ours is looked for.
 */

#define NOTE_BYTES 28u
static const uint8_t head[20] = { 6, 0, 0,   0,	  8,   0,   0,	 0, 1, 0,
				  0, 0, 'm', 't', 'r', 'u', 'n', 0, 0, 0 };

/* nopl WHAT(%rax); nopl 0(%rax); xor %eax, %eax; ret */
static bool is_ours(const struct elf *elf, const struct note *n)
{
	const uint8_t body[NOTE_BODY] = {
		0x0f, 0x1f, 0x80, (uint8_t)n->what, 0, 0, 0, 0x0f, 0x1f, 0x80, 0, 0, 0, 0,
		0x31, 0xc0, 0xc3
	};
	const uint8_t *code = elf_at(elf, n->vaddr, NOTE_BODY, NULL);

	return code && memcmp(code, body, NOTE_BODY) == 0;
}

/* A cursor is the number of four-byte steps through all segments of notes. */
bool note_next(const struct elf *elf, size_t *cursor, struct note *note)
{
	const struct elf_segment *segment;
	size_t n = elf_segments(elf, &segment), before = 0;

	for (size_t i = 0; i < n; i++) {
		const struct elf_segment *s = &segment[i];
		const uint8_t *bytes = s->type == PT_NOTE ? elf_at(elf, s->vaddr, s->filesz, NULL)
							  : NULL;
		size_t steps = bytes ? s->filesz / 4 : 0;

		for (; *cursor < before + steps; ++*cursor) {
			size_t at = (*cursor - before) * 4;
			struct note found;

			if (s->filesz - at < NOTE_BYTES ||
			    memcmp(bytes + at, head, sizeof(head)) != 0)
				continue;
			found.what = (enum wire_api)elf_u32(bytes + at + 20);
			found.vaddr = s->vaddr + at + 24 +
				      (uint64_t)(int64_t)(int32_t)elf_u32(bytes + at + 24);
			if (!note_name(found.what) || !is_ours(elf, &found))
				continue;
			++*cursor;
			*note = found;
			return true;
		}
		before += steps;
	}
	return false;
}

const char *note_name(enum wire_api what)
{
	static const char *const name[API_KINDS] = {
		[API_ALLOCATED] = "mtrun_allocated_memory", [API_META] = "mtrun_meta_memory",
		[API_LIMIT] = "mtrun_memory_limit",	    [API_MARK] = "mtrun_mark",
		[API_SNAPSHOT] = "mtrun_snapshot",
	};

	return (unsigned)what < API_KINDS ? name[what] : NULL;
}
