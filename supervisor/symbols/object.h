/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * object.h - what is known about one file that code is in: functions and lines, by its DWARF, that
 * of its debug files, its symbol tables. Processes that have the same files share it; so it has
 * references. The caller lets one thread at a time in here, but for object_unref().
 */
#ifndef MTRUN_OBJECT_H
#define MTRUN_OBJECT_H

#include "base/types.h"
#include "symbols/scopes.h"

struct module;
struct name;
struct object;
struct outside;

/* of one address: inlined ones and the function; gcc stops inlining long before */
#define OBJECT_FRAMES 64

struct object_answer {
	struct scope_frame frame[OBJECT_FRAMES];
	size_t count;
	/* the function, by a symbol table, where DWARF has no name for it; NULL: there is none */
	const struct name *symbol;
};

/*
 * M's file, for FROM (outside.h; NULL: us), who names it and all further ones: its own, or one that
 * has the same files open. A reference. If nothing can be read it answers nothing. NULL: out of
 * memory.
 */
struct object *object_open(struct outside *from, const struct module *m) MUST_USE;
void object_unref(struct object *o); /* NULL is fine */
bool object_is_static(const struct object *o);
/* What is at ADDR of the file. The strings live as long as O. */
void object_find(struct object *o, struct outside *from, uint64_t addr,
		 struct object_answer *answer);
/* Its names by all symbol tables, the best first, at most MOST. How many there are. */
size_t object_aliases(struct object *o, struct outside *from, uint64_t addr, const char **name,
		      size_t most);

#endif
