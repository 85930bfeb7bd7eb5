/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * note.h - the notes that inject/mtrun.h leaves in a program or library: which of its functions are
 * where. They lie in a loaded part of the file, so that a stripped static program has them too. A
 * note counts only if the function it points to looks as mtrun.h makes it.
 */
#ifndef MTRUN_NOTE_H
#define MTRUN_NOTE_H

#include "base/types.h"
#include "inject/wire_mail.h"

struct elf;

struct note {
	enum wire_api what;
	uint64_t vaddr; /* the file's address of the function */
};
#define NOTE_BODY 17u /* bytes of the function */

/* The next one; *cursor starts at 0. False at the end. */
bool note_next(const struct elf *elf, size_t *cursor, struct note *note);
const char *note_name(enum wire_api what); /* the function's name in mtrun.h */

#endif
