// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/functions.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "process/process.h"
#include "symbols/demangle.h"
#include "symbols/elf.h"

/*
 * Names lie one after another in one arena, each ended by a zero, so that a search runs straight
 * through memory. C++ names lose their parameters: what is completed is what one would type.
 * Demangling is what takes the time, so it is done in slices. Who asks before all are there has a
 * search of its own, which demangles only what may match: identifiers are in a mangled name as they
 * are (10^5 functions, half of them C++: 8 ms in place of 35).
 */
struct functions {
	const struct process *process; /* compared only, with the next two */
	pid_t pid;
	uint64_t began_ms;
	size_t module, cursor; /* the next symbol to look at */
	struct arena names;
	size_t used;
};

struct functions *functions_new(void) { return calloc(1, sizeof(struct functions)); }

void functions_free(struct functions *f)
{
	if (!f)
		return;
	arena_release(&f->names);
	free(f);
}

static void add(struct functions *f, const char *name, size_t len)
{
	if (!len || arena_reach(&f->names, f->used + len + 1))
		return;
	memcpy((char *)f->names.base + f->used, name, len);
	((char *)f->names.base)[f->used + len] = '\0';
	f->used += len + 1;
}

/* What S is completed to, of *LEN bytes: S's own name, or *READABLE, to be freed. NULL: nothing. */
static const char *completed(const struct elf_symbol *s, char **readable, size_t *len)
{
	*readable = NULL;
	if (!elf_is_function(s))
		return NULL;
	*readable = demangle_name(s->name);
	if (*readable && strstr(*readable, "thunk to "))
		return NULL; /* what the compiler made up; nobody looks for it */
	*len = *readable ? strlen(*readable) : strcspn(s->name, "@");
	return *readable ? *readable : s->name;
}

static void add_symbol(struct functions *f, const struct elf_symbol *s)
{
	char *readable;
	size_t len;
	const char *name = completed(s, &readable, &len);

	if (name)
		add(f, name, len);
	free(readable);
}

bool functions_gather(struct functions *f, const struct process *p, unsigned ms)
{
	uint64_t end = clock_ms() + ms;

	if (f->process != p || f->pid != p->pid || f->began_ms != p->began_ms) {
		f->process = p;
		f->pid = p->pid;
		f->began_ms = p->began_ms;
		f->module = f->cursor = f->used = 0;
	}
	while (f->module < p->modules.count) {
		struct elf_symbol symbol;

		for (unsigned i = 0; i < 256; i++) {
			if (!elf_next_symbol(p->modules.module[f->module]->elf, &f->cursor,
					     &symbol)) {
				f->module++;
				f->cursor = 0;
				break;
			}
			add_symbol(f, &symbol);
		}
		if (f->module < p->modules.count && clock_ms() >= end)
			return false;
	}
	return true;
}

void functions_match(const struct functions *f, const char *prefix,
		     void (*fn)(void *ctx, const char *name), void *ctx)
{
	const char *name = f->names.base, *end = name + f->used;
	size_t len = strlen(prefix);

	for (; name < end; name += strlen(name) + 1)
		if (!strncmp(name, prefix, len))
			fn(ctx, name);
}

#define TELLING 64 /* bytes of an identifier that are looked for, with the zero */

/*
 * Whether a readable name may have the identifier ID, or one that begins so, and its mangled form
 * not: what libiberty writes for a code of its own.
 */
static bool may_be_coded(const char *id, size_t len)
{
	static const char *const word[] = { "std",	"operator",    "construction", "covariant",
					    "guard",	"hidden",      "initializer",  "java",
					    "non",	"reference",   "template",     "TLS",
					    "typeinfo", "transaction", "virtual",      "vtable",
					    "VTT" };

	for (size_t i = 0; i < sizeof(word) / sizeof(*word); i++)
		if (!strncmp(word[i], id, len))
			return true;
	return false;
}

/* The longest identifier that each mangled name has whose readable form begins with PREFIX. */
static void find_telling(const char *prefix, char telling[TELLING])
{
	static const char part[] = "0123456789_abcdefghijklmnopqrstuvwxyz"
				   "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	size_t best = 0, len;

	/* up to the arguments of a template or a function: the same type may be a mere code there */
	for (const char *id = prefix; (len = strspn(id, part));
	     id += len + strspn(id + len, ":~")) {
		bool coded = may_be_coded(id, len);

		if (coded && id == prefix) /* in std the next one may be coded, too */
			break;
		len = len < TELLING ? len : TELLING - 1;
		if (coded || len <= best)
			continue;
		memcpy(telling, id, len);
		best = len;
	}
	telling[best] = '\0';
}

bool functions_searchable(const char *prefix)
{
	char telling[TELLING];

	find_telling(prefix, telling);
	return strlen(telling) > 1; /* hardly any name lacks a given letter */
}

static void match_symbol(const struct elf_symbol *s, const char *prefix,
			 void (*fn)(void *ctx, const char *name), void *ctx)
{
	char *readable, *whole;
	size_t len;
	const char *name = completed(s, &readable, &len);

	if (name && !strncmp(name, prefix, strlen(prefix))) {
		whole = strndup(name, len);
		if (whole)
			fn(ctx, whole);
		free(whole);
	}
	free(readable);
}

bool functions_search(const struct process *p, const char *prefix, struct functions_cursor *at,
		      unsigned ms, void (*fn)(void *ctx, const char *name), void *ctx)
{
	uint64_t end = clock_ms() + ms;
	char telling[TELLING];

	find_telling(prefix, telling);
	for (; at->module < p->modules.count; at->module++, at->symbol = 0) {
		const struct elf *elf = p->modules.module[at->module]->elf;
		struct elf_symbol s;

		for (unsigned i = 1; elf_next_symbol(elf, &at->symbol, &s); i++) {
			if (strstr(s.name, telling))
				match_symbol(&s, prefix, fn, ctx);
			if (i % 256 == 0 && clock_ms() >= end)
				return false;
		}
	}
	return true;
}

/* How much of NAME comes before its parameters; all of it: it has none. */
static size_t without_parameters(const char *name)
{
	const char *p = name;
	int depth = 0;

	while (*p) {
		if (!strncmp(p, "operator", 8)) {
			p += 8;
			p += !strncmp(p, "()", 2) ? 2 : strspn(p, "<>-=");
		} else if (!strncmp(p, "(anonymous namespace)", 21)) {
			p += 21;
		} else if (*p == '(' && depth == 0) {
			break;
		} else {
			depth += *p == '<' ? 1 : *p == '>' ? -1 : 0;
			p++;
		}
	}
	return (size_t)(p - name);
}

/* The whole name with its parameters, or without. LEN: of NAME without them. */
static bool is_called(const struct elf_symbol *s, const char *name, size_t len)
{
	char *readable;
	bool is;

	if (!elf_is_function(s) && s->type != STT_OBJECT)
		return false;
	readable = demangle_name(s->name);
	is = readable && !strncmp(readable, name, len) && !readable[len];
	free(readable);
	if (!is || !name[len])
		return is;
	readable = demangle(s->name);
	is = readable && !strcmp(readable, name);
	free(readable);
	return is;
}

static bool find_symbol(const struct process *p, const char *name, raddr_t *address)
{
	for (size_t i = 0; i < p->modules.count; i++) {
		const struct module *m = p->modules.module[i];
		struct elf_symbol s;
		size_t cursor = 0;

		if (m->dead == UINT32_MAX && elf_find(m->elf, name, &cursor, &s)) {
			*address = m->bias + s.value;
			return true;
		}
	}
	return false;
}

int functions_find(const struct process *p, const char *name, struct functions_cursor *at,
		   unsigned ms, raddr_t *address)
{
	uint64_t end = clock_ms() + ms;
	size_t len = without_parameters(name);

	if (!at->module && !at->symbol && find_symbol(p, name, address))
		return 1;
	for (; at->module < p->modules.count; at->module++, at->symbol = 0) {
		const struct module *m = p->modules.module[at->module];
		struct elf_symbol s;

		for (unsigned i = 1;
		     m->dead == UINT32_MAX && elf_next_symbol(m->elf, &at->symbol, &s); i++) {
			if (is_called(&s, name, len)) {
				*address = m->bias + s.value;
				return 1;
			}
			if (i % 256 == 0 && clock_ms() >= end)
				return 0;
		}
	}
	return -ENOENT;
}
