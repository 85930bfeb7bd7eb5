/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * symtab.h - the functions of a file by address, from its symbol tables: .dynsym, .symtab (of the
 * file, its debug file, its .gnu_debugdata) and the PLT. Filled once, then asked. Names stay where
 * the ELF files have them: those must outlive the table.
 */
#ifndef MTRUN_SYMTAB_H
#define MTRUN_SYMTAB_H

#include <libelf.h>

#include "base/types.h"

struct names;
struct symtab;

struct symtab *symtab_new(void) MUST_USE; /* NULL: out of memory */
void symtab_free(struct symtab *t);
/* Adds all functions of ELF. 0 or -errno; tables that make no sense are left out. */
int symtab_add(struct symtab *t, Elf *elf) MUST_USE;
/* Adds the PLT's entries as NAME@plt. ELF must be the loaded file itself. */
int symtab_add_plt(struct symtab *t, Elf *elf, struct names *names) MUST_USE;
/* Adds what Go's own table of functions has (go_functions.h), for a file that has no .symtab. */
int symtab_add_go(struct symtab *t, Elf *elf) MUST_USE;
/* To be called when all is added. */
void symtab_finish(struct symtab *t);

/* The raw name of the function that the file's address ADDR is in; NULL if in none. */
const char *symtab_find(const struct symtab *t, uint64_t addr);

/*
 * The raw names of all functions that begin where that one does, the best first: NAME has room for
 * MOST. How many there are.
 */
size_t symtab_aliases(const struct symtab *t, uint64_t addr, const char **name, size_t most);

#endif
