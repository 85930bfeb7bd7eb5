/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * libc_signature.h - glibc's allocator in a static program that has no symbols, found by its code.
 * Knows ELF files only; keeps nothing. What it finds is certain enough to be patched: see
 * libc_signature.c.
 */
#ifndef MTRUN_LIBC_SIGNATURE_H
#define MTRUN_LIBC_SIGNATURE_H

#include "base/types.h"

struct elf;

struct libc_function {
	const char *name; /* "malloc", ...: static */
	uint64_t vaddr;	  /* the file's address of the function */
};
#define LIBC_FUNCTIONS_MOST 8

/* Fills OUT with the functions found: all of them, or none. Returns how many. */
size_t libc_signature_find(const struct elf *elf, struct libc_function out[LIBC_FUNCTIONS_MOST]);

#endif
