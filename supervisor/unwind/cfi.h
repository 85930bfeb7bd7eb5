/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * cfi.h - turns a module's .eh_frame into the tables that the trampoline walks stacks with
 * (wire_stack.h: wire_rule, wire_module). Written into the image's pool once per module and never
 * changed. Knows the file only; no process, no clock.
 *
 * What it takes (one core of a 2 GHz server): libc 0.8 ms, libstdc++ 1 ms, gdb (154 K rows) 4 ms,
 * libLLVM-14 (950 K rows) 31 ms; musl's libc, which has no call frame information, 8 ms. Two cores
 * read a file as large as libLLVM in 0.6 of the time of one. A file that was met before (the libc
 * of every program that a shell script starts): a copy, some 5 MB/ms.
 */
#ifndef MTRUN_CFI_H
#define MTRUN_CFI_H

#include "base/types.h"
#include "inject/wire_stack.h"
#include "unwind/cfi_rows.h"

struct module;
struct elf;
struct cfi_rules;

/* Allocation state of one wire_tables, kept outside of it. */
struct cfi {
	struct wire_tables *tables; /* our mapping of it, */
	uint64_t pool_size;	    /* with so many bytes of the pool, */
	uint64_t pool_used;	    /* of which so many are in use */
	/* pool_size is to be SIZE at least; NULL: all of it is mapped */
	bool (*grow)(struct cfi *cfi, uint64_t size);
	uint32_t nrules;
	struct cfi_rules *rules; /* our copy of the rules, with a hash table over it */
};
int cfi_init(struct cfi *cfi, struct wire_tables *tables, uint64_t pool_size) MUST_USE;
void cfi_release(struct cfi *cfi);

/*
 * Builds the tables of MODULE. On failure *OUT is left alone: -ENOENT (no code, or nothing known
 * about any of it), -ENOSPC (pool full), -ENOMEM. Code without call frame information gets the
 * rules that its instructions tell, where they are certain; the rest is CFA_NONE.
 */
int cfi_build(struct cfi *cfi, const struct module *module, struct wire_module *out) MUST_USE;
/*
 * cfi_build() from the parts: the ELF file, its executable segments' run-time range, its
 * relocation.
 */
int cfi_build_elf(struct cfi *cfi, struct elf *elf, raddr_t text_start, raddr_t text_end,
		  raddr_t bias, struct wire_module *out) MUST_USE;
/* Tables for code that we know the rules of ourselves; the last row holds to END. 0, -ENOSPC. */
int cfi_build_rows(struct cfi *cfi, raddr_t start, raddr_t end, const struct cfi_row *row,
		   size_t count, struct wire_module *out) MUST_USE;
/* Gives back what is kept about files for the next process that maps them. */
void cfi_forget(void);
/*
 * The rule at PC in a built module, as the trampoline would find it. NULL: PC is not in M, or the
 * tables were tampered with.
 */
const struct wire_rule *cfi_lookup(const struct cfi *cfi, const struct wire_module *m, uint64_t pc);

#endif
