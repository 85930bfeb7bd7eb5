/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * recognize.h - glibc's allocator in a static program that has no symbols, found by its code.
 * Knows ELF files only; keeps nothing. What it finds is certain enough to be patched: see recognize.c.
 */
#ifndef MTRUN_RECOGNIZE_H
#define MTRUN_RECOGNIZE_H

#include "base/types.h"

struct elf;

struct recognized {
	const char *name;		/* "malloc", ...: static */
	uint64_t vaddr;			/* the file's address of the function */
};
#define RECOGNIZED_MAX 8

/* Fills OUT with the functions found: all of them, or none. Returns how many. */
size_t recognize_allocator(const struct elf *elf, struct recognized out[RECOGNIZED_MAX]);

#endif
