// SPDX-License-Identifier: GPL-3.0-or-later
#include "process/usable_rule.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/patient.h"
#include "base/proc.h"
#include "base/text.h"
#include "process/process.h"
#include "symbols/elf.h"

/*
 * usable_rule.c - finds the allocator whose rule gives usable sizes: there is one only if a single
 * allocator serves the program, and it is glibc's or a jemalloc that is recognized.
 */

static bool gone(const struct process *p)
{
	return process_state_gone(p->state) || p->state == PROCESS_DETACHED;
}

/* ---- the order ----------------------------------------------------------- */

/* The modules that matter; NULL: there is none. */
struct roles {
	const struct module *exe, *libc, *allocator;
	size_t allocators;
};

static struct roles roles_of(const struct process *p)
{
	struct roles r = { 0 };

	for (size_t i = 0; i < p->modules.count; i++) {
		const struct module *m = p->modules.module[i];

		if (m->roles & MODULE_EXE)
			r.exe = m;
		if (m->roles & MODULE_LIBC || (m->roles & MODULE_EXE && elf_is_static(m->elf)))
			r.libc = m;
		if (m->roles & MODULE_ALLOCATOR) {
			r.allocator = m;
			r.allocators++;
		}
	}
	return r;
}

static raddr_t dynamic_section(const struct module *exe)
{
	const struct elf_segment *segment;
	size_t n = elf_segments(exe->elf, &segment);

	for (size_t i = 0; i < n; i++)
		if (segment[i].type == PT_DYNAMIC)
			return exe->bias + segment[i].vaddr;
	return 0;
}

void load_order_begin(struct load_order *o, const struct process *p)
{
	struct roles r = roles_of(p);

	*o = (struct load_order){ .via = p->via };
	if (r.exe && r.allocators == 1 && r.allocator != r.exe && !gone(p))
		o->exe = dynamic_section(r.exe);
}

/* The first of ld.so's list of what it has loaded; 0: none. */
static raddr_t first_loaded(const struct load_order *o)
{
	raddr_t at = o->exe, first;
	Elf64_Dyn entry;

	for (unsigned i = 0; at && i < 256; i++, at += sizeof(entry)) {
		if (patient_read(o->via, at, &entry, sizeof(entry)) != sizeof(entry) ||
		    entry.d_tag == DT_NULL)
			return 0;
		if (entry.d_tag == DT_DEBUG)
			return patient_read(o->via, entry.d_un.d_ptr + 8, &first, 8) == 8 ? first
											  : 0;
	}
	return 0;
}

void load_order_read(struct load_order *o)
{
	struct {
		raddr_t bias, name, dynamic, next;
	} link;
	size_t room = 0;
	raddr_t at = first_loaded(o);

	while (at && o->count < 65536 &&
	       patient_read(o->via, at, &link, sizeof(link)) == sizeof(link) &&
	       !array_room(&o->dynamic, o->count, &room, sizeof(*o->dynamic))) {
		o->dynamic[o->count++] = link.dynamic;
		at = link.next;
	}
}

void load_order_release(struct load_order *o) { free(o->dynamic); }

/* Whether names are looked up in M before libc, so that the whole program's malloc is M's. */
static bool before_libc(const struct process *p, const struct load_order *o,
			const struct module *exe, const struct module *m)
{
	if (m == exe)
		return true;
	for (size_t i = 0; i < o->count; i++) {
		const struct module *here = modules_find(&p->modules, o->dynamic[i], UINT32_MAX);

		if (here == m)
			return true;
		if (here && here->roles & MODULE_LIBC)
			return false;
	}
	return false;
}

/* ---- the rule ------------------------------------------------------------ */

bool usable_is_jemalloc(const struct module *m)
{
	/* sdallocx came with these size classes */
	return elf_defines(m->elf, "malloc") && elf_defines(m->elf, "mallctl") &&
	       elf_defines(m->elf, "sdallocx");
}

const struct module *usable_jemalloc_library(const struct process *p)
{
	for (size_t i = 0; i < p->modules.count; i++) {
		const struct module *m = p->modules.module[i];

		if (m->dead == UINT32_MAX && m->roles & MODULE_ALLOCATOR && usable_is_jemalloc(m))
			return m;
	}
	return NULL;
}

static bool is_glibc(const struct module *m)
{
	if (m->roles & MODULE_LIBC)
		return !(m->roles & MODULE_LDSO);
	/* without names it was recognized by glibc's own code */
	return elf_is_static(m->elf) &&
	       (!elf_has_functions(m->elf) || elf_defines(m->elf, "_int_malloc") ||
		elf_defines(m->elf, "__libc_mallopt"));
}

/* Functions that --hook named, or in a static program those of an allocator beside libc's. */
static bool has_own(const struct process *p, bool is_libcs)
{
	static const char *const prefix[] = { "je_", "_rjem_", "mi_", "tc_" };

	for (size_t i = 0; i < p->plant.count; i++) {
		const struct planted *f = &p->plant.planted[i];

		if (f->kind >= HOOK_GENERIC_MALLOC && f->kind < HOOK_KINDS)
			return true;
		for (size_t k = 0; is_libcs && k < sizeof(prefix) / sizeof(*prefix); k++)
			if (text_begins(f->name, prefix[k]))
				return true;
	}
	return false;
}

/* NULL: the rule is known. */
static const char *reason(const struct process *p, const struct load_order *o,
			  const struct roles *r)
{
	if (gone(p))
		return "its memory cannot be read any more";
	if (!r->exe || !r->libc || p->unsupervised)
		return "its allocator is not known";
	if (r->allocators > 1 || (r->allocator && !before_libc(p, o, r->exe, r->allocator)))
		return "it has several allocators";
	if ((r->allocator ? usable_is_jemalloc(r->allocator) : is_glibc(r->libc)) &&
	    has_own(p, !r->allocator))
		return "it has an allocator of its own";
	return NULL;
}

void usable_init(struct usable *u, const struct process *p, const struct load_order *o)
{
	struct roles r = roles_of(p);
	const char *why = reason(p, o, &r);

	*u = (struct usable){ .via = p->via };
	if (why)
		snprintf(u->why, sizeof(u->why), "%s", why);
	else if (r.allocator ? usable_is_jemalloc(r.allocator) : is_glibc(r.libc))
		u->rule = r.allocator ? USABLE_JEMALLOC : USABLE_GLIBC;
	else
		snprintf(u->why, sizeof(u->why),
			 "the allocator in %.64s does not let it be told from outside",
			 text_last_part((r.allocator ? r.allocator : r.libc)->path));
}
