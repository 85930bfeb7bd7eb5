/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * hooks.h - which functions of a module are to be redirected, and as what: the table of names, and
 * the rules by module. Knows names and files only; plant.c does the rest.
 */
#ifndef MTRUN_HOOKS_H
#define MTRUN_HOOKS_H

#include "base/types.h"
#include "inject/wire_hook.h"

struct elf_symbol;
struct module;

/* A --hook option, parsed. */
struct hook_request {
	char name[128];
	enum wire_hook_kind kind; /* HOOK_GENERIC_* */
	uint32_t arg;		  /* from 0 */
};

struct hook_site {
	char name[64]; /* the first of its names in the table's order */
	enum wire_hook_kind kind;
	uint32_t arg;	      /* as wire_hook.arg */
	uint64_t vaddr, size; /* the file's address of the function; 0: size not known */
	/* HOOK_NEW: the file's address of the form that does not throw, else 0 */
	uint64_t nothrow;
	const char *refuse; /* why it cannot be hooked whatever its code is, or NULL */
	bool requested;	    /* by --hook */
};
struct hook_sites {
	size_t count;
	struct hook_site *site; /* one per address, in order of address */
	bool allocator;		/* the module is an allocator, and not libc */
	bool unseen;		/* and what it does with its blocks is not known */
	bool operators;		/* it has operators new or delete, and not as the runtime's are */
};

/*
 * What to hook in MODULE: the functions of the table that its roles allow, and those REQUESTed by
 * name. Each address comes once. The caller releases it. Returns 0 or -errno.
 */
int hooks_find(struct hook_sites *sites, const struct module *module,
	       const struct hook_request *request, size_t nrequests) MUST_USE;
/* One function by name. -ENOENT if the module does not define it. */
int hooks_find_one(struct hook_site *site, const struct module *module, const char *name,
		   enum wire_hook_kind kind) MUST_USE;
void hooks_release(struct hook_sites *sites);

#endif
