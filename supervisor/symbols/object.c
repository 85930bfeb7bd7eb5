// SPDX-License-Identifier: GPL-3.0-or-later
#include "symbols/object.h"

#include <errno.h>
#include <gelf.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/outside.h"
#include "symbols/debugfile.h"
#include "symbols/elf.h"
#include "symbols/module.h"
#include "symbols/names.h"
#include "symbols/scopes.h"
#include "symbols/symtab.h"

/*
 * object.c - one file with its debug files, symbol table and DWARF index.
 *
 * Its parts are read as they are needed: the symbol table when DWARF does not know a function, a
 * unit's tree at the first address in the unit.
 *
 * Files are read through mappings, and somebody may truncate one at any time. That is a SIGBUS in
 * the middle of libelf or libdw: while an object is being asked, a handler jumps out of it, and the
 * object answers nothing from then on; what libdw held is not freed, since nobody knows its state.
 *
 * A hundred processes of a server have the same files, whose tables, unpacked, are 15 MB for libc
 * alone. So processes share an object. What a process names is opened for each anew, with its
 * rights and in its root directory, as two may mean different files by one name; if all of it is
 * what an object has open already, by the kernel's word, and unchanged since, that object is taken.
 * One whose DWARF names .dwo files, which libdw opens later, is not shared: a process could have
 * others shown what it has there.
 */

/* bytes of a file that is gone from the file system and is copied from our mapping */
#define IMAGE_MAX (256u << 20)

#define TRIES 4u /* of those that have the same file open, to find one that may be shared */

struct object {
	struct object *next; /* of those that may be shared */
	unsigned refs;	     /* with the list's lock */
	struct debugfile file, separate, minimal, common;
	Dwarf *dwarf, *common_dwarf;
	struct names *names;
	struct scopes *scopes; /* NULL: no DWARF */
	struct symtab *symtab; /* NULL: not read yet */
	bool is_static;
	bool broken; /* reading it failed in the middle: it says nothing */
};

static struct {
	pthread_mutex_t lock;
	struct object *first;
} shared = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- files that shrink --------------------------------------------------- */

static _Thread_local sigjmp_buf *sigbus_exit; /* of the thread that is in guarded() */
static struct sigaction sigbus_before;

static void on_sigbus(int sig, siginfo_t *info, void *context)
{
	if (sigbus_exit)
		siglongjmp(*sigbus_exit, 1);
	if (sigbus_before.sa_flags & SA_SIGINFO) /* another thread, in a file of elf.c's */
		sigbus_before.sa_sigaction(sig, info, context);
	else
		_exit(128 + SIGBUS);
}

/* Runs FN(object, arg) for FROM. False if the file went away under it. */
static bool guarded(void (*fn)(struct object *o, struct outside *from, void *arg), struct object *o,
		    struct outside *from, void *arg)
{
	struct sigaction handler = { .sa_sigaction = on_sigbus,
				     .sa_flags = SA_NODEFER | SA_SIGINFO };
	sigjmp_buf here;
	bool whole;

	sigemptyset(&handler.sa_mask);
	sigaction(SIGBUS, &handler, &sigbus_before);
	whole = sigsetjmp(here, 0) == 0;
	if (whole) {
		sigbus_exit = &here;
		outside_enter(from);
		fn(o, from, arg);
	}
	outside_enter(NULL);
	sigbus_exit = NULL;
	sigaction(SIGBUS, &sigbus_before, NULL);
	return whole;
}

static void ask(void (*fn)(struct object *o, struct outside *from, void *arg), struct object *o,
		struct outside *from, void *arg)
{
	if (!o->broken && !guarded(fn, o, from, arg))
		o->broken = true;
}

/*
 * Whether what stands under the module's name in the file system is what is mapped: programs are
 * rebuilt and upgraded while they run.
 */
static bool is_same_file(const struct debugfile *f, const struct module *m)
{
	const uint8_t *id, *image;
	size_t len = debugfile_build_id(f->elf, &id), size, mapped;
	const char *bytes;

	if (m->build_id_len && len)
		return len == m->build_id_len && !memcmp(id, m->build_id, len);
	image = m->elf ? elf_file(m->elf, &mapped) : NULL;
	if (!image || !mapped)
		return true;
	bytes = elf_rawfile(f->elf, &size);
	return bytes && size == mapped && !memcmp(bytes, image, size < 4096 ? size : 4096);
}

static bool open_file(struct object *o, struct outside *from, const struct module *m)
{
	const uint8_t *image;
	size_t size;

	if (m->path && m->path[0] == '/' && debugfile_open(&o->file, from, m->path) == 0) {
		if (is_same_file(&o->file, m))
			return true;
		debugfile_close(&o->file);
	}
	/* Deleted, replaced, or the vdso: module.c still has its bytes. */
	image = m->elf ? elf_file(m->elf, &size) : NULL;
	if (!image || size < sizeof(Elf64_Ehdr) || size > IMAGE_MAX ||
	    debugfile_copy(&o->file, image, size) != 0)
		return false;
	free(o->file.path);
	/* debug files are looked for beside it */
	o->file.path = strdup(m->path ? m->path : "");
	return o->file.path != NULL;
}

static size_t code_spans(Elf *elf, struct scope_span *span, size_t max, bool *is_static)
{
	size_t count, n = 0, size = 0;
	GElf_Ehdr ehdr;
	bool interpreter = false;

	if (elf_getphdrnum(elf, &count) < 0 || !gelf_getehdr(elf, &ehdr) ||
	    !elf_rawfile(elf, &size))
		return 0;
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr p;

		if (!gelf_getphdr(elf, (int)i, &p))
			break;
		interpreter |= p.p_type == PT_INTERP;
		if (p.p_type == PT_LOAD && (p.p_flags & PF_X) &&
		    p.p_vaddr + p.p_memsz > p.p_vaddr && n < max)
			span[n++] = (struct scope_span){
				.low = p.p_vaddr,
				.high = p.p_vaddr + p.p_memsz,
				.stored = p.p_filesz < size ? p.p_filesz : size,
			};
	}
	*is_static = !interpreter;
	return n;
}

static bool open_dwarf(struct object *o, struct outside *from, struct debugfile *f,
		       const struct scope_span *span, size_t spans)
{
	Dwarf_Off next;
	size_t header;

	o->dwarf = debugfile_dwarf(f);
	if (!o->dwarf)
		return false;
	if (dwarf_nextcu(o->dwarf, 0, &next, &header, NULL, NULL, NULL) != 0) {
		dwarf_end(o->dwarf);
		o->dwarf = NULL;
		return false;
	}
	if (debugfile_common(&o->common, from, f, o->dwarf) == 0)
		o->common_dwarf = debugfile_dwarf(&o->common);
	/*
	 * Without one, libdw would look for it by itself; -1 is what it writes down after having
	 * found none.
	 */
	dwarf_setalt(o->dwarf, o->common_dwarf ? o->common_dwarf : (Dwarf *)-1);
	if (o->common_dwarf)
		dwarf_setalt(o->common_dwarf, (Dwarf *)-1);
	o->scopes = scopes_new(o->dwarf, span, spans, o->names);
	return o->scopes != NULL;
}

/* ---- sharing ------------------------------------------------------------- */

static void free_object(struct object *o)
{
	if (!o->broken) {
		scopes_free(o->scopes);
		symtab_free(o->symtab);
		if (o->dwarf)
			dwarf_end(o->dwarf);
		if (o->common_dwarf)
			dwarf_end(o->common_dwarf);
		debugfile_close(&o->common);
		debugfile_close(&o->minimal);
		debugfile_close(&o->separate);
		debugfile_close(&o->file);
	}
	names_free(o->names); /* in order, broken or not: its memory is ours, no file's */
	free(o);
}

void object_unref(struct object *o)
{
	bool last;

	if (!o)
		return;
	pthread_mutex_lock(&shared.lock);
	last = --o->refs == 0;
	for (struct object **at = &shared.first; last && *at; at = &(*at)->next)
		if (*at == o) {
			*at = o->next;
			break;
		}
	pthread_mutex_unlock(&shared.lock);
	if (last)
		free_object(o);
}

/* The next one behind AFTER, or the first, that has O's file open. A reference. */
static struct object *alike(const struct object *o, const struct object *after)
{
	struct object *x;

	pthread_mutex_lock(&shared.lock);
	for (x = after ? after->next : shared.first; x; x = x->next)
		if (debugfile_same(&x->file, &o->file))
			break;
	if (x)
		x->refs++;
	pthread_mutex_unlock(&shared.lock);
	return x;
}

/* Whether FROM, for whom O's file is open, means by the names of others what X has open. */
static bool stands_for(struct object *o, struct outside *from, const struct object *x)
{
	/* where the file has DWARF, nobody looks for a separate one */
	bool separate = x->separate.elf || !x->dwarf;
	struct debugfile common;
	bool same;

	if (x->broken || (x->scopes && !scopes_whole(x->scopes)))
		return false;
	if (separate && !o->separate.elf && debugfile_separate(&o->separate, from, &o->file) &&
	    x->separate.elf)
		return false;
	if (separate && !debugfile_same(&x->separate, &o->separate))
		return false;
	if (!x->dwarf)
		return true;
	same = debugfile_common(&common, from, separate ? &o->separate : &o->file, x->dwarf) == 0
		       ? debugfile_same(&x->common, &common)
		       : !x->common.elf;
	debugfile_close(&common);
	return same;
}

struct opening {
	const struct module *module;
	struct object *other; /* to be taken instead, a reference; NULL: none */
};

static void open_parts(struct object *o, struct outside *from, void *arg)
{
	struct opening *opening = arg;
	struct scope_span span[16];
	size_t spans;

	if (!open_file(o, from, opening->module))
		return;
	opening->other = alike(o, NULL);
	for (unsigned tries = 1; opening->other; tries++) {
		struct object *x = opening->other;

		if (stands_for(o, from, x))
			return;
		opening->other = tries < TRIES ? alike(o, x) : NULL;
		object_unref(x);
	}
	spans = code_spans(o->file.elf, span, sizeof(span) / sizeof(span[0]), &o->is_static);
	if (open_dwarf(o, from, &o->file, span, spans))
		return;
	if (o->separate.elf || debugfile_separate(&o->separate, from, &o->file) == 0)
		open_dwarf(o, from, &o->separate, span, spans);
}

struct object *object_open(struct outside *from, const struct module *m)
{
	struct object *o = calloc(1, sizeof(*o));
	struct opening opening = { .module = m };

	if (!o)
		return NULL;
	o->refs = 1;
	o->file.fd = o->separate.fd = o->minimal.fd = o->common.fd = -1;
	o->names = names_new();
	if (!o->names) {
		free(o);
		return NULL;
	}
	ask(open_parts, o, from, &opening);
	if (o->broken) { /* it may have been in the middle of one that others have */
		object_unref(opening.other);
		return o;
	}
	if (opening.other) {
		free_object(o);
		return opening.other;
	}
	pthread_mutex_lock(&shared.lock);
	o->next = shared.first;
	shared.first = o;
	pthread_mutex_unlock(&shared.lock);
	return o;
}

bool object_is_static(const struct object *o) { return o->is_static; }

/* ---- questions ----------------------------------------------------------- */

static void read_symtab(struct object *o)
{
	int err;

	if (o->symtab || !o->file.elf)
		return;
	o->symtab = symtab_new();
	if (!o->symtab)
		return;
	/* An incomplete one, for want of memory, is better than none. */
	err = symtab_add(o->symtab, o->file.elf);
	if (!err)
		err = symtab_add_go(o->symtab, o->file.elf);
	if (!err)
		err = symtab_add_plt(o->symtab, o->file.elf, o->names);
	if (!err && o->separate.elf)
		err = symtab_add(o->symtab, o->separate.elf);
	else if (!err && debugfile_minimal(&o->minimal, &o->file) == 0)
		err = symtab_add(o->symtab, o->minimal.elf);
	(void)err;
	symtab_finish(o->symtab);
}

static const char *symbol_at(struct object *o, uint64_t addr)
{
	read_symtab(o);
	return o->symtab ? symtab_find(o->symtab, addr) : NULL;
}

struct question {
	uint64_t addr;
	struct object_answer *answer;
};

static void find(struct object *o, struct outside *from, void *question)
{
	const struct question *q = question;
	struct object_answer *a = q->answer;
	const char *raw;

	(void)from;
	a->count = o->scopes ? scopes_find(o->scopes, q->addr, a->frame, OBJECT_FRAMES) : 0;
	for (size_t i = 0; i < a->count; i++) {
		raw = a->frame[i].copy ? symbol_at(o, a->frame[i].copy) : NULL;
		if (raw && !strncmp(raw, "_Z", 2))
			a->frame[i].name = names_symbol(o->names, raw);
	}
	if (a->count && a->frame[a->count - 1].name)
		return;
	raw = symbol_at(o, q->addr);
	if (raw)
		a->symbol = names_symbol(o->names, raw);
}

void object_find(struct object *o, struct outside *from, uint64_t addr,
		 struct object_answer *answer)
{
	struct question q = { .addr = addr, .answer = answer };

	answer->count = 0;
	answer->symbol = NULL;
	ask(find, o, from, &q);
	if (o->broken)
		answer->count = 0;
}

struct alias_question {
	uint64_t addr;
	const char **name;
	size_t count, most;
};

static void find_aliases(struct object *o, struct outside *from, void *question)
{
	struct alias_question *q = question;

	(void)from;
	read_symtab(o);
	if (o->symtab)
		q->count = symtab_aliases(o->symtab, q->addr, q->name, q->most);
	for (size_t i = 0; i < q->count; i++)
		q->name[i] = names_intern(o->names, q->name[i]);
}

size_t object_aliases(struct object *o, struct outside *from, uint64_t addr, const char **name,
		      size_t most)
{
	struct alias_question q = { .addr = addr, .name = name, .most = most };

	ask(find_aliases, o, from, &q);
	return o->broken ? 0 : q.count;
}
