/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * suppressions.h - leaks that are known and are not to be told, in the two syntaxes that people
 * have files in:
 *
 *	leak:pattern	LeakSanitizer's: found in the name of a function, source file or module of
 *			any frame; * stands for anything, ^ and $ for the beginning and the end
 *
 *	{		Valgrind's: frame by frame, from the allocator on; * and ? as in a shell
 *	   its name
 *	   Memcheck:Leak
 *	   match-leak-kinds: definite,possible	(may be left out: all)
 *	   fun:malloc
 *	   obj:/usr/lib/libfoo.so*
 *	   src:foo.c:12
 *	   ...		any number of frames
 *	}
 *
 * Those of other tools in Valgrind's syntax are read over. No I/O here: text in, answers out.
 */
#ifndef MTRUN_SUPPRESSIONS_H
#define MTRUN_SUPPRESSIONS_H

#include <stdio.h>

#include "base/types.h"
#include "symbols/symbols.h"

/* What match-leak-kinds names, as bits. */
enum suppression_kind {
	SUPPRESS_DEFINITE = 1,
	SUPPRESS_INDIRECT = 2,
	SUPPRESS_POSSIBLE = 4,
	SUPPRESS_REACHABLE = 8,
	SUPPRESS_LOST = 7,
	SUPPRESS_ALL = 15
};

/* One line of a stack. Patterns are held against every name that the function has. */
struct suppression_frame {
	const struct symbol_frame *frame;
	/* of a function that is not inlined: its names in symbol tables, the best first */
	const char *const *alias;
	size_t aliases;
};

struct suppressions;

struct suppressions *suppressions_new(void) MUST_USE; /* NULL: out of memory */
void suppressions_free(struct suppressions *s);	      /* NULL is fine */
/*
 * Adds those in TEXT, LEN bytes. 0 or -ENOMEM; -EINVAL: WHY is one line with the number of the line
 * that is wrong, the line, and what is accepted. What stood before it has been added.
 */
int suppressions_parse(struct suppressions *s, const char *text, size_t len, char *why,
		       size_t room) MUST_USE;
/* Adds those that are known of glibc, libstdc++ and ld.so. 0 or -ENOMEM. */
int suppressions_builtin(struct suppressions *s) MUST_USE;

size_t suppressions_count(const struct suppressions *s);
/* The name of suppression I: Valgrind's name, or LeakSanitizer's line. */
const char *suppressions_name(const struct suppressions *s, size_t i);
/* All kinds that any of them is for. */
unsigned suppressions_kinds(const struct suppressions *s);
/* What only a suppressed block holds is suppressed with it: LeakSanitizer's. */
bool suppressions_follows(const struct suppressions *s, size_t i);
/*
 * The first suppression for a leak of KIND that was allocated by the stack FRAME[COUNT], leaf
 * first. The allocator itself may be in the stack or not. -1: none.
 */
ssize_t suppressions_match(const struct suppressions *s, enum suppression_kind kind,
			   const struct suppression_frame *frame, size_t count);

/*
 * Prints one that matches a leak of KIND from that stack, in Valgrind's syntax, for mtrun and
 * Valgrind to read. NAME is its name.
 */
void suppressions_print(FILE *out, const char *name, enum suppression_kind kind,
			const struct suppression_frame *frame, size_t count);

#endif
