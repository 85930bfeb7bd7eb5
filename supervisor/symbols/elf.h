/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * elf.h - an ELF64 x86-64 file, mapped read-only: headers, symbols, unwind sections, build-id.
 * Start-up time counts here: nothing is read that is not asked for. Files may be hostile: every
 * offset is checked once, a table that does not fit in the file is taken as absent, and strings
 * always end. A file that is truncated while it is mapped reads as zeros from there on. Counted
 * references; what an elf hands out (names, bytes) lives as long as it does. Include it as "elf.h":
 * <elf.h> is the system's.
 */
#ifndef MTRUN_ELF_H
#define MTRUN_ELF_H

#include <string.h>

#include "base/types.h"

struct elf;

struct elf_segment {
	uint32_t type, flags; /* PT_*, PF_* */
	uint64_t offset, vaddr, filesz, memsz;
};
struct elf_section {
	const char *name;
	uint32_t type, link; /* SHT_* */
	uint64_t flags, addr, offset, size;
};
struct elf_symbol {
	const char *name;
	uint64_t value, size; /* the file's virtual address; bytes, 0 if not said */
	uint8_t type, bind;   /* STT_*, STB_* */
	bool dynamic;	      /* from .dynsym */
};
struct elf_bytes { /* a part of the file that is also in memory at VADDR */
	uint64_t vaddr;
	const uint8_t *bytes;
	size_t size;
};

/*
 * Maps the file FD (which may be closed afterwards), or takes the one that is open already for the
 * same unchanged file. NULL and *error = -errno: -ENOEXEC if it is no ELF file for x86-64.
 */
struct elf *elf_open(int fd, int *error) MUST_USE;
/* An image in memory, which is copied. NULL and *error as of elf_open(). */
struct elf *elf_from_bytes(const void *bytes, size_t size, int *error) MUST_USE;
/* One with no segments, no sections, no symbols. NULL: out of memory. */
struct elf *elf_empty(void) MUST_USE;
struct elf *elf_ref(struct elf *elf);
void elf_unref(struct elf *elf); /* NULL is fine */

const uint8_t *elf_file(const struct elf *elf, size_t *size);
unsigned elf_type(const struct elf *elf); /* ET_EXEC, ET_DYN; 0 for an empty one */
uint64_t elf_entry(const struct elf *elf);
size_t elf_segments(const struct elf *elf, const struct elf_segment **segment);
size_t elf_sections(const struct elf *elf, const struct elf_section **section);
const struct elf_section *elf_section(const struct elf *elf, const char *name); /* NULL: none */
/*
 * The file's bytes at VADDR, at least LEN of them in one segment; NULL if there are none (.bss,
 * outside). *LEFT, if given: how many follow.
 */
const uint8_t *elf_at(const struct elf *elf, uint64_t vaddr, size_t len, size_t *left);

const char *elf_soname(const struct elf *elf); /* DT_SONAME; NULL: none */
/* a DT_NEEDED that begins so: `libm.so` */
bool elf_needs(const struct elf *elf, const char *name);
/* an executable (PIE or not) that no ld.so starts */
bool elf_is_static(const struct elf *elf);
unsigned elf_build_id(const struct elf *elf, const uint8_t **id); /* its length; 0: none */
/*
 * .eh_frame and .eh_frame_hdr; false if there is no .eh_frame. *hdr has size 0 if there is only the
 * former.
 */
bool elf_eh_frame(const struct elf *elf, struct elf_bytes *eh_frame, struct elf_bytes *hdr);

bool elf_is_go(const struct elf *elf); /* built with Go, wholly or in part */

/*
 * Defined symbols, functions and others, .dynsym first and then .symtab, or Go's own table of
 * functions where there is none. *cursor starts at 0. False at the end.
 */
bool elf_next_symbol(const struct elf *elf, size_t *cursor, struct elf_symbol *symbol);
/* Whether it is code: a function, or one that says which function is to be called. */
bool elf_is_function(const struct elf_symbol *symbol);
/* Thread-local variables in that order: their value is how far into the module's part they are. */
bool elf_next_thread_local(const struct elf *elf, size_t *cursor, struct elf_symbol *symbol);
/*
 * The next defined symbol called NAME (there may be several: versions, statics). *cursor starts at
 * 0. Exported names are found by the hash table.
 */
bool elf_find(const struct elf *elf, const char *name, size_t *cursor, struct elf_symbol *symbol);
/* Whether there is one. */
bool elf_defines(const struct elf *elf, const char *name);
/* only in .dynsym */
bool elf_find_exported(const struct elf *elf, const char *name, size_t *cursor,
		       struct elf_symbol *symbol);
/* It takes a function or variable from another object whose name begins so. */
bool elf_imports(const struct elf *elf, const char *prefix);
/* false: stripped, no function can be found by name */
bool elf_has_functions(const struct elf *elf);
/* How many entries the tables have, undefined ones included. */
size_t elf_symbols(const struct elf *elf);
size_t elf_exported(const struct elf *elf); /* only .dynsym */
bool elf_has_hash(const struct elf *elf);   /* exported names are looked up quickly */
/* The lowest address of a defined symbol above VADDR, UINT64_MAX if none: looks at every symbol. */
uint64_t elf_next_address(const struct elf *elf, uint64_t vaddr);

/* The word of four bytes at P, which need not be aligned. */
static inline uint32_t elf_u32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

#endif
