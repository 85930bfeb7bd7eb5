/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * scopes.h - what DWARF says about an address: the function, the functions inlined there, and the
 * source line of each. Units are found by an index of their address ranges; a unit's own tree is
 * read once, when first asked about.
 */
#ifndef MTRUN_SCOPES_H
#define MTRUN_SCOPES_H

#include <elfutils/libdw.h>

#include "base/types.h"

struct name;
struct names;
struct scopes;

struct scope_frame {
	const struct name *name; /* NULL: only the line is known */
	const char *file;	 /* NULL: unknown */
	unsigned line, column;	 /* 0: unknown */
	bool inlined;
	/*
	 * If the name was put together from DWARF's nesting, for want of a linkage name, and so has
	 * no parameters: an address in a copy of the function that was not inlined, where a symbol
	 * table may know more. 0: the name is complete, or there is no such copy.
	 */
	uint64_t copy;
};

struct scope_span { /* addresses that code can be at */
	uint64_t low, high;
	uint64_t stored; /* bytes of it that the file has */
};

/* DWARF and NAMES must outlive it. SPAN is copied. NULL: out of memory. */
struct scopes *scopes_new(Dwarf *dwarf, const struct scope_span *span, size_t nspans,
			  struct names *names) MUST_USE;
void scopes_free(struct scopes *s);
/*
 * Whether all that it will ever say is in DWARF, and nothing in the .dwo files that units may name.
 * False also while nothing has been asked.
 */
bool scopes_whole(const struct scopes *s);
/*
 * The frames at the file's address ADDR, innermost first, at most MAX (of deeper inlining the
 * innermost and the containing function are kept). 0: DWARF knows nothing about it.
 */
size_t scopes_find(struct scopes *s, uint64_t addr, struct scope_frame *frame, size_t max);

#endif
