/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * go_functions.h - the functions of a program that was built with Go, by the table that its own
 * runtime reads (.gopclntab), which `-ldflags=-s` leaves in it. Pure: bytes in, names and addresses
 * out. Nothing is allocated: names are in the bytes, which the caller keeps.
 *
 * The format is that of Go 1.16 (magic 0xfffffffa), 1.18 (0xfffffff0) and 1.20 (0xfffffff1):
 * runtime/symtab.go, `pcHeader`, `functab` and `_func`.
 */
#ifndef MTRUN_GO_FUNCTIONS_H
#define MTRUN_GO_FUNCTIONS_H

#include "base/types.h"

struct gotab {
	const uint8_t *bytes;
	size_t size;
	size_t count;		 /* functions */
	size_t names, functions; /* offsets in `bytes` */
	size_t names_size;	 /* up to the last that ends in the bytes */
	unsigned width;		 /* bytes of a number in the table of functions: 4 or 8 */
	uint64_t text;		 /* what 4 byte numbers are relative to */
};

struct gotab_function {
	const char *name;    /* ends in the bytes */
	uint64_t start, end; /* the file's addresses */
};

/*
 * TEXT: the address of the program's .text, where the table does not say it. False: it is none of
 * these formats.
 */
bool gotab_open(struct gotab *t, const uint8_t *bytes, size_t size, uint64_t text) MUST_USE;
/* Function I of t->count. False: what the table says of it is nonsense. */
bool gotab_function(const struct gotab *t, size_t i, struct gotab_function *f) MUST_USE;

#endif
