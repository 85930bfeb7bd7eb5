/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * symbols.h - from an address in a module to function, file, line, inlined frames; and which frame
 * of a stack is its site. libelf and libdw read the module's file, its separate debug file
 * (build-id, debuglink, .gnu_debugdata) as the target sees them. Answers are cached for the life of
 * the cache; strings belong to it. Asking is safe from several threads.
 */
#ifndef MTRUN_SYMBOLS_H
#define MTRUN_SYMBOLS_H

#include "base/types.h"
#include "symbols/site_rule.h"

struct module;
struct outside;
struct symbols;

/*
 * One line of a stack: innermost inlined function first; the last one of an address is the function
 * that contains it.
 */
struct symbol_frame {
	/* demangled; when unknown `MODULE+0x...`, the address in its file, or in none `0x...` */
	const char *function;
	const char *raw;       /* its linkage name; NULL: unknown */
	const char *file;      /* NULL: unknown */
	unsigned line, column; /* 0: unknown */
	const char *module;    /* path; NULL: none */
	raddr_t address;
	bool inlined;
	unsigned skip; /* enum symbol_skip: why the site search passes over it */
};

struct symbol_frames {
	size_t count;
	const struct symbol_frame *frame;
};

/* FROM, borrowed: who names the files (outside.h); NULL: we do. NULL: out of memory. */
struct symbols *symbols_new(struct outside *from) MUST_USE;
void symbols_free(struct symbols *s);
/*
 * The frames at PC in MODULE (NULL: in none). EXACT: the pc itself, otherwise pc - 1 is looked up
 * (a return address). Never fails: count >= 1.
 */
struct symbol_frames symbols_resolve(struct symbols *s, const struct module *module, raddr_t pc,
				     bool exact);
/*
 * Whether the search for a site passes over whatever is in MODULE (NULL: in none), so that its
 * symbols need not be read for that. False: the frames tell.
 */
bool symbols_passed_over(const struct module *module);
/* Whether FUNCTION of F is such a place instead of a name. */
bool symbols_is_unnamed(const struct symbol_frame *f);
/* Whether both are of the same line: function, file, line, and module. */
bool symbols_same_line(const struct symbol_frame *a, const struct symbol_frame *b);
/* A hash of what that compares (base/hash_index.h). */
uint32_t symbols_hash_line(uint32_t seed, const struct symbol_frame *f);
/*
 * Whether the answer is known, so that symbols_resolve() is quick; then it is in *FRAMES. False
 * also while another thread asks.
 */
bool symbols_known(struct symbols *s, const struct module *module, raddr_t pc, bool exact,
		   struct symbol_frames *frames) MUST_USE;
/*
 * All names that symbol tables have for the function at PC (as above), the best first: NAME has
 * room for MOST. How many there are.
 */
size_t symbols_aliases(struct symbols *s, const struct module *module, raddr_t pc, bool exact,
		       const char **name, size_t most);
/*
 * `set site-skip REGEX` (POSIX extended, found anywhere in the function's name; "" clears), for
 * frames given out before, too. -EINVAL and *error (static) if it does not compile.
 */
int symbols_site_skip(struct symbols *s, const char *regex, const char **error) MUST_USE;

#endif
