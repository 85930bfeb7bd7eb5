// SPDX-License-Identifier: GPL-3.0-or-later
#include "patch/hooks.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "inject/wire_event.h"
#include "patch/libc_signature.h"
#include "symbols/elf.h"
#include "symbols/module.h"
#include "symbols/note.h"

/*
 * hooks.c - the allocator functions by name, and where they count.
 *
 * Every definition of an allocator function is hooked, in every module; the trampoline counts the
 * outermost call. The exceptions:  - glibc's ld.so: what it has of malloc is its own, for the time
 * before libc is there.  - functions that make mappings, prctl and ptrace have names that a program
 * may use for something
 *    else: only in a libc, in a static executable, or beside a malloc of the same module
 *    (tcmalloc's mmap makes its own system calls).
 *  - operator new and delete, in libstdc++ and in programs, go through malloc, and are counted
 *    there. They are counted themselves only in a module that brings its own malloc, because there
 *    they may go straight to its inside (jemalloc, tcmalloc, mimalloc). operator new may throw, and
 *    must not throw through a frame of ours: it is counted only if there is a nothrow form beside
 *    it to call instead. operator delete is counted exactly where its operator new is, for a
 *    pointer must be seen coming and going in the same place. The aligned forms are counted
 *    everywhere: libstdc++ rounds the size up to the alignment before it asks for memory.
 *  - Where libstdc++'s (or libc++'s) are not counted they tell malloc and free whose call it is
 *    (HOOK_SAYS_*). Those of programs and allocators may be anything: what they give and take is
 *    FAMILY_ANY. libstdc++'s operator new makes 1 of a size of 0, also where it is linked statically;
 *    of the 0 the trampoline is told.
 *
 * What inject/mtrun.h puts into a program is found by its notes, not by name.
 *
 * Exported names are looked up one by one in the module's hash table. Where that cannot be (no hash
 * table; .symtab of an executable), the symbols are walked, and the first four letters tell nearly
 * all of them from the ~120 names of the table.
 */

enum hook_class {
	HEAP, /* any module but glibc's ld.so */
	NEW,
	NEW_ALIGNED, /* see above: need `pair`, the nothrow form */
	NOTHROW,
	NOTHROW_ALIGNED,
	DELETE,
	DELETE_ALIGNED,
	MAPPING,   /* see above */
	SANITIZER, /* LeakSanitizer's checks: what atexit calls has a local name */
	ASKING,	   /* the program asks about its memory */
};

struct hook_rule {
	const char *name;
	uint8_t kind, arg, class;
	bool prefixed; /* also as je_malloc, _rjem_malloc, mi_malloc, tc_malloc */
	const char *pair;
};

#define NT "RKSt9nothrow_t"
#define AL "St11align_val_t"

/* Where two names are one function, the earlier row wins. */
static const struct hook_rule rules[] = {
	{ "malloc", HOOK_MALLOC, 0, HEAP, true, NULL },
	{ "calloc", HOOK_CALLOC, 0, HEAP, true, NULL },
	{ "realloc", HOOK_REALLOC, 0, HEAP, true, NULL },
	{ "reallocarray", HOOK_REALLOCARRAY, 0, HEAP, true, NULL },
	{ "free", HOOK_FREE, 0, HEAP, true, NULL },
	{ "cfree", HOOK_FREE, 0, HEAP, true, NULL },
	{ "memalign", HOOK_MEMALIGN, 0, HEAP, true, NULL },
	{ "aligned_alloc", HOOK_MEMALIGN, 0, HEAP, true, NULL },
	{ "valloc", HOOK_MALLOC, 0, HEAP, true, NULL },
	{ "pvalloc", HOOK_MALLOC, 0, HEAP, true, NULL },
	{ "posix_memalign", HOOK_POSIX_MEMALIGN, 0, HEAP, true, NULL },
	{ "free_sized", HOOK_FREE_AS, FAMILY_HEAP, HEAP, true, NULL },
	{ "free_aligned_sized", HOOK_FREE_AS, FAMILY_HEAP, HEAP, true, NULL },
	/* jemalloc */
	{ "mallocx", HOOK_MALLOC_AS, FAMILY_HEAP, HEAP, true, NULL },
	{ "rallocx", HOOK_REALLOC, 0, HEAP, true, NULL },
	{ "dallocx", HOOK_FREE_AS, FAMILY_HEAP, HEAP, true, NULL },
	{ "sdallocx", HOOK_FREE_AS, FAMILY_HEAP, HEAP, true, NULL },
	/* mimalloc, as Rust programs call it */
	{ "mi_zalloc", HOOK_MALLOC, 0, HEAP, false, NULL },
	{ "mi_malloc_aligned", HOOK_MALLOC_AS, FAMILY_HEAP, HEAP, false, NULL },
	{ "mi_zalloc_aligned", HOOK_MALLOC_AS, FAMILY_HEAP, HEAP, false, NULL },
	{ "mi_realloc_aligned", HOOK_REALLOC, 0, HEAP, false, NULL },
	{ "mi_free_size", HOOK_FREE_AS, FAMILY_HEAP, HEAP, false, NULL },
	{ "mi_free_size_aligned", HOOK_FREE_AS, FAMILY_HEAP, HEAP, false, NULL },
	{ "mi_free_aligned", HOOK_FREE_AS, FAMILY_HEAP, HEAP, false, NULL },
	{ "mi_heap_malloc", HOOK_GENERIC_MALLOC, 1, HEAP, false, NULL },
	{ "mi_heap_zalloc", HOOK_GENERIC_MALLOC, 1, HEAP, false, NULL },
	{ "mi_heap_malloc_aligned", HOOK_GENERIC_MALLOC, 1, HEAP, false, NULL },
	{ "tc_malloc_skip_new_handler", HOOK_MALLOC, 0, HEAP, false, NULL },
	/* operator new: throwing, nothrow */
	{ "_Znwm", HOOK_NEW, FAMILY_NEW, NEW, false, "_Znwm" NT },
	{ "_Znam", HOOK_NEW, FAMILY_ARRAY, NEW, false, "_Znam" NT },
	{ "_Znwm" AL, HOOK_NEW, FAMILY_NEW, NEW_ALIGNED, false, "_Znwm" AL NT },
	{ "_Znam" AL, HOOK_NEW, FAMILY_ARRAY, NEW_ALIGNED, false, "_Znam" AL NT },
	{ "_Znwm" NT, HOOK_MALLOC_AS, FAMILY_NEW, NOTHROW, false, NULL },
	{ "_Znam" NT, HOOK_MALLOC_AS, FAMILY_ARRAY, NOTHROW, false, NULL },
	{ "_Znwm" AL NT, HOOK_MALLOC_AS, FAMILY_NEW, NOTHROW_ALIGNED, false, NULL },
	{ "_Znam" AL NT, HOOK_MALLOC_AS, FAMILY_ARRAY, NOTHROW_ALIGNED, false, NULL },
	/* operator delete: plain, sized, nothrow, and each of them aligned */
	{ "_ZdlPv", HOOK_FREE_AS, FAMILY_NEW, DELETE, false, NULL },
	{ "_ZdaPv", HOOK_FREE_AS, FAMILY_ARRAY, DELETE, false, NULL },
	{ "_ZdlPvm", HOOK_FREE_AS, FAMILY_NEW, DELETE, false, NULL },
	{ "_ZdaPvm", HOOK_FREE_AS, FAMILY_ARRAY, DELETE, false, NULL },
	{ "_ZdlPv" NT, HOOK_FREE_AS, FAMILY_NEW, DELETE, false, NULL },
	{ "_ZdaPv" NT, HOOK_FREE_AS, FAMILY_ARRAY, DELETE, false, NULL },
	{ "_ZdlPvm" NT, HOOK_FREE_AS, FAMILY_NEW, DELETE, false, NULL },
	{ "_ZdaPvm" NT, HOOK_FREE_AS, FAMILY_ARRAY, DELETE, false, NULL },
	{ "_ZdlPv" AL, HOOK_FREE_AS, FAMILY_NEW, DELETE_ALIGNED, false, NULL },
	{ "_ZdaPv" AL, HOOK_FREE_AS, FAMILY_ARRAY, DELETE_ALIGNED, false, NULL },
	{ "_ZdlPvm" AL, HOOK_FREE_AS, FAMILY_NEW, DELETE_ALIGNED, false, NULL },
	{ "_ZdaPvm" AL, HOOK_FREE_AS, FAMILY_ARRAY, DELETE_ALIGNED, false, NULL },
	{ "_ZdlPv" AL NT, HOOK_FREE_AS, FAMILY_NEW, DELETE_ALIGNED, false, NULL },
	{ "_ZdaPv" AL NT, HOOK_FREE_AS, FAMILY_ARRAY, DELETE_ALIGNED, false, NULL },
	{ "_ZdlPvm" AL NT, HOOK_FREE_AS, FAMILY_NEW, DELETE_ALIGNED, false, NULL },
	{ "_ZdaPvm" AL NT, HOOK_FREE_AS, FAMILY_ARRAY, DELETE_ALIGNED, false, NULL },
	/* mappings, and what forbids us system calls */
	{ "mmap", HOOK_MMAP, 0, MAPPING, false, NULL },
	{ "mmap64", HOOK_MMAP, 0, MAPPING, false, NULL },
	{ "munmap", HOOK_MUNMAP, 0, MAPPING, false, NULL },
	{ "mremap", HOOK_MREMAP, 0, MAPPING, false, NULL },
	{ "mprotect", HOOK_MPROTECT, 0, MAPPING, false, NULL },
	{ "brk", HOOK_BRK, 0, MAPPING, false, NULL },
	{ "sbrk", HOOK_SBRK, 0, MAPPING, false, NULL },
	{ "syscall", HOOK_SYSCALL, 0, MAPPING, false, NULL },
	{ "prctl", HOOK_PRCTL, 0, MAPPING, false, NULL },
	{ "seccomp", HOOK_PRCTL, 1, MAPPING, false, NULL },
	{ "ptrace", HOOK_PTRACE, 0, MAPPING, false, NULL },
	/* exported, and what atexit calls */
	{ "__lsan_do_leak_check", HOOK_LEAK_CHECK, 0, SANITIZER, false, NULL },
	{ "__lsan_do_recoverable_leak_check", HOOK_LEAK_CHECK, 0, SANITIZER, false, NULL },
	{ "_ZN6__lsan11DoLeakCheckEv", HOOK_LEAK_CHECK, 0, SANITIZER, false, NULL },
	{ "_ZN6__lsan26DoRecoverableLeakCheckVoidEv", HOOK_LEAK_CHECK, 0, SANITIZER, false, NULL },
	/* MiniOB's libmemtracer: memtracer::allocated_memory(), meta_memory(), memory_limit() */
	{ "_ZN9memtracer16allocated_memoryEv", HOOK_API, API_ALLOCATED, ASKING, false, NULL },
	{ "_ZN9memtracer11meta_memoryEv", HOOK_API, API_META, ASKING, false, NULL },
	{ "_ZN9memtracer12memory_limitEv", HOOK_API, API_LIMIT, ASKING, false, NULL },
};
#define RULES (sizeof(rules) / sizeof(*rules))

static const char *const prefixes[] = { "je_", "_rjem_", "_rjem_je_", "mi_", "tc_" };
#define PREFIXES (sizeof(prefixes) / sizeof(*prefixes))

/* ---- names --------------------------------------------------------------- */

/*
 * A small open hash of the rules by name, and one bit for each hash of four first letters that any
 * of them begins with, prefixes too.
 */
static uint8_t slot[512];
static uint64_t first4[64];
static bool ready;

static uint32_t hash_letters(const char *s, size_t n)
{
	uint32_t h = 2166136261u;

	while (n--)
		h = (h ^ (uint8_t)*s++) * 16777619u;
	return h ^ h >> 15;
}

static uint32_t hash4(const char *s)
{
	uint32_t v;

	memcpy(&v, s, 4);
	return v * 0x9e3779b1u >> 20;
}

/* At most four letters of a name, zero-filled: a name may be shorter. */
static void mark_first4(const char *name)
{
	char four[4] = { 0 };
	uint32_t h;

	memcpy(four, name, strnlen(name, 4));
	h = hash4(four);
	first4[h / 64] |= 1ull << h % 64;
}

static void mark_prefixed(const char *prefix, const char *name)
{
	char whole[64];

	snprintf(whole, sizeof(whole), "%s%s", prefix, name);
	mark_first4(whole);
}

static void make_ready(void)
{
	if (ready)
		return;
	for (size_t i = 0; i < RULES; i++) {
		uint32_t h = hash_letters(rules[i].name, strlen(rules[i].name));

		while (slot[h % 512])
			h++;
		slot[h % 512] = (uint8_t)(i + 1);
		mark_first4(rules[i].name);
		for (size_t k = 0; rules[i].prefixed && k < PREFIXES; k++)
			mark_prefixed(prefixes[k], rules[i].name);
	}
	ready = true;
}
_Static_assert(RULES < 255, "a rule's number fits in a byte");

/* Symbol names have at least four readable bytes: behind the file's end there are zeros. */
static bool may_be_known(const char *name)
{
	char four[4] = { 0 };
	uint32_t h;

	for (int i = 0; i < 4 && name[i]; i++)
		four[i] = name[i];
	h = hash4(four);
	return first4[h / 64] >> h % 64 & 1;
}

static const struct hook_rule *rule_plain(const char *name)
{
	size_t n = strnlen(name, 64);
	uint32_t h = hash_letters(name, n);

	for (; slot[h % 512]; h++) {
		const struct hook_rule *r = &rules[slot[h % 512] - 1];

		if (strcmp(r->name, name) == 0)
			return r;
	}
	return NULL;
}

/* *prefix: the name is an allocator's own, not the standard one. */
static const struct hook_rule *rule_for(const char *name, bool *prefix)
{
	const struct hook_rule *r = rule_plain(name);

	*prefix = false;
	for (size_t i = PREFIXES; !r && i-- > 0;) {
		size_t n = strlen(prefixes[i]);

		if (strncmp(name, prefixes[i], n) == 0) {
			r = rule_plain(name + n);
			if (r && !r->prefixed)
				r = NULL;
			*prefix = r;
		}
	}
	return r;
}

/* ---- candidates ---------------------------------------------------------- */

struct candidate {
	struct elf_symbol symbol;
	const struct hook_rule *rule; /* NULL: a request */
	const struct hook_request *request;
	bool prefix;
};
struct candidates {
	struct candidate *item;
	size_t count, room;
};

static int add(struct candidates *c, const struct elf_symbol *symbol, const struct hook_rule *rule,
	       bool prefix, const struct hook_request *request)
{
	if (array_room(&c->item, c->count, &c->room, sizeof(*c->item)))
		return -ENOMEM;
	c->item[c->count++] = (struct candidate){ *symbol, rule, request, prefix };
	return 0;
}

static int add_exported(struct candidates *c, const struct elf *elf, const char *name,
			const struct hook_rule *rule, bool prefix)
{
	struct elf_symbol symbol;
	size_t cursor = 0;
	int err = 0;

	while (!err && elf_find_exported(elf, name, &cursor, &symbol)) {
		if (elf_is_function(&symbol))
			err = add(c, &symbol, rule, prefix, NULL);
	}
	return err;
}

static int find_by_hash(struct candidates *c, const struct elf *elf)
{
	char name[64];
	int err = 0;

	for (size_t i = 0; !err && i < RULES; i++) {
		err = add_exported(c, elf, rules[i].name, &rules[i], false);
		for (size_t k = 0; !err && rules[i].prefixed && k < PREFIXES; k++) {
			snprintf(name, sizeof(name), "%s%s", prefixes[k], rules[i].name);
			err = add_exported(c, elf, name, &rules[i], true);
		}
	}
	return err;
}

/*
 * In .symtab a local `free` may be anything; a local je_free is what it says (hidden by the way it
 * was built). In a static PIE all of libc's functions that were hidden in its archive are local.
 */
static bool may_take(const struct elf *elf, const struct elf_symbol *s, const struct hook_rule *r,
		     bool prefix)
{
	return s->bind != STB_LOCAL || prefix || r->class == SANITIZER ||
	       (elf_is_static(elf) && elf_type(elf) == ET_DYN);
}

static int find_by_walk(struct candidates *c, const struct elf *elf, size_t from)
{
	struct elf_symbol symbol;
	size_t cursor = from;
	int err = 0;

	while (!err && elf_next_symbol(elf, &cursor, &symbol)) {
		const struct hook_rule *r;
		bool prefix;

		if (!elf_is_function(&symbol) || !may_be_known(symbol.name))
			continue;
		r = rule_for(symbol.name, &prefix);
		if (r && may_take(elf, &symbol, r, prefix))
			err = add(c, &symbol, r, prefix, NULL);
	}
	return err;
}

/* No symbols at all: what is known by its code. */
static int find_by_signature(struct candidates *c, const struct elf *elf)
{
	struct libc_function found[LIBC_FUNCTIONS_MOST];
	size_t n = libc_signature_find(elf, found);
	int err = 0;

	for (size_t i = 0; !err && i < n; i++) {
		struct elf_symbol symbol = { found[i].name, found[i].vaddr, 0,
					     STT_FUNC,	    STB_GLOBAL,	    false };

		err = add(c, &symbol, rule_plain(symbol.name), false, NULL);
	}
	return err;
}

static int find_requested(struct candidates *c, const struct elf *elf,
			  const struct hook_request *request, size_t n)
{
	struct elf_symbol symbol;
	int err = 0;

	for (size_t i = 0; i < n; i++) {
		size_t cursor = 0;

		while (!err && elf_find(elf, request[i].name, &cursor, &symbol)) {
			if (elf_is_function(&symbol))
				err = add(c, &symbol, NULL, false, &request[i]);
		}
	}
	return err;
}

/*
 * The functions of mtrun.h are static, and their names are in no table: nothing else comes upon
 * them.
 */
static int find_noted(struct candidates *c, const struct elf *elf)
{
	static const struct hook_rule noted[API_KINDS] = {
		[API_ALLOCATED] = { NULL, HOOK_API, API_ALLOCATED, ASKING, false, NULL },
		[API_META] = { NULL, HOOK_API, API_META, ASKING, false, NULL },
		[API_LIMIT] = { NULL, HOOK_API, API_LIMIT, ASKING, false, NULL },
		[API_MARK] = { NULL, HOOK_API, API_MARK, ASKING, false, NULL },
		[API_SNAPSHOT] = { NULL, HOOK_API, API_SNAPSHOT, ASKING, false, NULL },
	};
	struct note n;
	size_t cursor = 0;
	int err = 0;

	while (!err && note_next(elf, &cursor, &n)) {
		struct elf_symbol symbol = { note_name(n.what), n.vaddr,   NOTE_BODY,
					     STT_FUNC,		STB_LOCAL, false };

		err = add(c, &symbol, &noted[n.what], false, NULL);
	}
	return err;
}

/*
 * .symtab is walked in executables only: what a library offers is exported. Above this many symbols
 * (a browser with debug information) it would take long and show what .dynsym has anyway, unless
 * the executable is static.
 */
#define WALK_MOST 400000u

static int find_candidates(struct candidates *c, const struct module *m)
{
	bool walk = (m->roles & MODULE_EXE) &&
		    (elf_is_static(m->elf) || elf_symbols(m->elf) < WALK_MOST);
	int err;

	if ((m->roles & MODULE_EXE) && elf_is_static(m->elf) && !elf_has_functions(m->elf))
		return find_by_signature(c, m->elf);
	if (!elf_has_hash(m->elf)) {
		if (walk || elf_symbols(m->elf) < WALK_MOST)
			return find_by_walk(c, m->elf, 0);
		return 0;
	}
	err = find_by_hash(c, m->elf);
	if (!err && walk)
		err = find_by_walk(c, m->elf, elf_exported(m->elf));
	return err;
}

/* ---- rules by module ----------------------------------------------------- */

static const struct candidate *named(const struct candidates *c, const char *name)
{
	for (size_t i = 0; i < c->count; i++) {
		if (c->item[i].rule && strcmp(c->item[i].symbol.name, name) == 0)
			return &c->item[i];
	}
	return NULL;
}

/*
 * A static executable's malloc is libc's own if libc's malloc.o came with it: these are not what an
 * allocator that stands in for it defines.
 */
static bool malloc_is_libcs(const struct module *m, const struct candidate *malloc_)
{
	if (m->roles & MODULE_LIBC)
		return true;
	if (!elf_is_static(m->elf))
		return false;
	if (!elf_has_functions(m->elf)) /* recognized by libc's own code */
		return true;
	return elf_defines(m->elf, "_int_malloc") || elf_defines(m->elf, "__libc_mallopt") ||
	       (malloc_->symbol.bind == STB_WEAK && elf_defines(m->elf, "__libc_malloc_impl"));
}

struct rules_here {
	bool heap, mapping, allocator;
	bool cxx, cxx_aligned; /* operators are counted */
	bool cxx_says;	       /* they say whose call it is */
	bool cxx_zero;	       /* of operator new 0 bytes are told of */
};

static bool has_pair(const struct candidates *c, const char *array, const char *plain)
{
	return named(c, array) || named(c, plain);
}

/* ---- operators that go on to malloc and free ----------------------------- */

/*
 * Where the function at VADDR goes on to if it does nothing but that: an address that stands for
 * it; 0: it is another kind of function. libstdc++'s operators delete are
 *	[endbr64] [bnd] jmp free@plt	or	jmp [free@got]
 * and each of the others goes on to another operator delete.
 */
static uint64_t goes_on_to(const struct elf *elf, uint64_t vaddr)
{
	size_t left;
	const uint8_t *p = elf_at(elf, vaddr, 1, &left), *end = p + (p ? left : 0);
	int32_t d;

	if (p && left >= 4 && memcmp(p, "\xf3\x0f\x1e\xfa", 4) == 0)
		p += 4;
	if (p && p < end && *p == 0xf2)
		p++;
	if (!p || end - p < 6 || (*p != 0xe9 && memcmp(p, "\xff\x25", 2) != 0))
		return 0;
	p += *p == 0xe9 ? 1 : 2;
	memcpy(&d, p, sizeof(d));
	return vaddr + left - (size_t)(end - p) + sizeof(d) + (uint64_t)(int64_t)d;
}

/*
 * Whether C, an operator delete, has to say what it is: the plain ones do, and those that go
 * straight on to free as the plain one does. The others go on to one of these.
 */
static bool says_delete(const struct candidates *all, const struct candidate *c,
			const struct elf *elf)
{
	const struct candidate *plain = named(all, "_ZdlPv");

	return plain && (c == plain || strcmp(c->rule->name, "_ZdaPv") == 0 ||
			 goes_on_to(elf, c->symbol.value) == goes_on_to(elf, plain->symbol.value));
}

/* Whether all operators delete of a module are of that kind, or counted themselves. */
static bool deletes_go_on(const struct candidates *c, const struct elf *elf, bool aligned_counted)
{
	for (size_t i = 0; i < c->count; i++) {
		const struct candidate *item = &c->item[i];
		unsigned class = item->rule ? item->rule->class : HEAP;

		if ((class == DELETE || (class == DELETE_ALIGNED && !aligned_counted)) &&
		    !goes_on_to(elf, item->symbol.value))
			return false;
	}
	return named(c, "_ZdlPv") && named(c, "_ZdaPv");
}

static struct rules_here rules_here(const struct candidates *c, const struct module *m)
{
	struct rules_here h = { 0 };
	const struct candidate *own = named(c, "malloc");
	bool prefixed = false;

	h.heap = !(m->roles & (MODULE_LDSO | MODULE_VDSO)) || (m->roles & MODULE_LIBC);
	for (size_t i = 0; i < c->count; i++)
		prefixed |= c->item[i].prefix;
	h.allocator = h.heap && ((own && !malloc_is_libcs(m, own)) || (!own && prefixed));
	h.mapping = h.heap && ((m->roles & MODULE_LIBC) || own ||
			       ((m->roles & MODULE_EXE) && elf_is_static(m->elf)));
	if (own && h.allocator && !(m->roles & MODULE_CXX))
		h.cxx = named(c, "_Znwm") && has_pair(c, "_Znam" NT, "_Znwm" NT);
	h.cxx_aligned = h.heap && named(c, "_Znwm" AL) && has_pair(c, "_Znam" AL NT, "_Znwm" AL NT);
	/*
	 * a program's own operator new is not libstdc++'s, which brings get_new_handler with it
	 * when it is linked statically
	 */
	h.cxx_zero = h.heap && !h.cxx &&
		     ((m->roles & MODULE_CXX) || elf_defines(m->elf, "_ZSt15get_new_handlerv"));
	h.cxx_says = h.heap && !h.cxx && (m->roles & MODULE_CXX) &&
		     deletes_go_on(c, m->elf, h.cxx_aligned);
	return h;
}

static bool applies(const struct rules_here *h, const struct candidates *all,
		    const struct candidate *c, const struct elf *elf)
{
	if (c->request)
		return true;
	switch ((enum hook_class)c->rule->class) {
	case HEAP: return h->heap;
	case MAPPING: return h->mapping;
	case SANITIZER:
	case ASKING: return true;
	case NEW:
		return h->cxx || h->cxx_says ||
		       (h->cxx_zero && strcmp(c->rule->name, "_Znwm") == 0);
	case NOTHROW: return h->cxx;
	case DELETE: return h->cxx || (h->cxx_says && says_delete(all, c, elf));
	case NEW_ALIGNED:
	case NOTHROW_ALIGNED: return h->cxx_aligned;
	case DELETE_ALIGNED: return h->cxx_aligned || (h->cxx_says && says_delete(all, c, elf));
	}
	return false;
}

/* ---- sites --------------------------------------------------------------- */

static bool is_operator(const struct hook_rule *r)
{
	return r->class >= NEW && r->class <= DELETE_ALIGNED;
}

/* Counted, or saying whose call it is; whose that is, only the runtime's are known to keep to. */
static void as_operator(struct hook_site *s, enum hook_class class, const struct rules_here *h)
{
	bool counted = class == NEW || class == NOTHROW || class == DELETE ? h->cxx
									   : h->cxx_aligned;

	if (!counted)
		s->kind = class == DELETE || class == DELETE_ALIGNED ? HOOK_SAYS_DELETE
								     : HOOK_SAYS_NEW;
	if (!h->cxx_says)
		s->arg = FAMILY_ANY;
}

static void site_from(struct hook_site *s, const struct candidate *c, const struct candidates *all,
		      const struct rules_here *h)
{
	const struct candidate *pair = NULL;

	memset(s, 0, sizeof(*s));
	snprintf(s->name, sizeof(s->name), "%s", c->symbol.name);
	s->vaddr = c->symbol.value;
	s->size = c->symbol.size;
	s->requested = c->request;
	s->kind = c->request ? c->request->kind : (enum wire_hook_kind)c->rule->kind;
	s->arg = c->request ? c->request->arg : c->rule->arg;
	if (c->symbol.type == STT_GNU_IFUNC)
		s->refuse = "it is chosen at run time (ifunc)";
	if (!c->request && is_operator(c->rule))
		as_operator(s, (enum hook_class)c->rule->class, h);
	if (s->kind != HOOK_NEW)
		return;
	pair = named(all, c->rule->pair);
	if (!pair) /* operator new[] does as operator new */
		pair = named(all, c->rule->class == NEW ? "_Znwm" NT : "_Znwm" AL NT);
	/* built without exceptions: one function for both */
	if (pair && pair->symbol.value == s->vaddr)
		s->kind = HOOK_MALLOC_AS;
	else if (pair)
		s->nothrow = pair->symbol.value;
	else
		s->refuse = "it may throw, and there is no nothrow form";
}

/* By address; of several at one address requests come first, then the order of the table. */
static int by_address(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->symbol.value != y->symbol.value)
		return x->symbol.value < y->symbol.value ? -1 : 1;
	if (!x->request != !y->request)
		return x->request ? -1 : 1;
	if (x->request)
		return x->request < y->request ? -1 : x->request > y->request;
	if (x->prefix != y->prefix)
		return x->prefix ? 1 : -1;
	return x->rule < y->rule ? -1 : x->rule > y->rule;
}

static int make_sites(struct hook_sites *sites, struct candidates *c, const struct rules_here *h,
		      const struct elf *elf)
{
	sites->site = calloc(c->count + 1, sizeof(*sites->site));
	if (!sites->site)
		return -ENOMEM;
	if (c->count)
		qsort(c->item, c->count, sizeof(*c->item), by_address);
	for (size_t i = 0; i < c->count; i++) {
		const struct candidate *item = &c->item[i];

		if (!applies(h, c, item, elf) ||
		    (sites->count && sites->site[sites->count - 1].vaddr == item->symbol.value))
			continue;
		site_from(&sites->site[sites->count++], item, c, h);
	}
	return 0;
}

/* All functions are hooked by which one of these libraries gives and takes blocks. */
static bool is_known_allocator(const struct module *m)
{
	static const char *const known[] = { "libjemalloc.so.", "libtcmalloc.so.",
					     "libtcmalloc_minimal.so.", "libmimalloc.so." };
	const char *name = elf_soname(m->elf);

	for (size_t i = 0; name && i < sizeof(known) / sizeof(*known); i++)
		if (strncmp(name, known[i], strlen(known[i])) == 0)
			return true;
	return false;
}

static bool has_operators(const struct candidates *c)
{
	for (size_t i = 0; i < c->count; i++)
		if (c->item[i].rule && is_operator(c->item[i].rule))
			return true;
	return false;
}

int hooks_find(struct hook_sites *sites, const struct module *module,
	       const struct hook_request *request, size_t nrequests)
{
	struct candidates c = { 0 };
	struct rules_here here;
	int err;

	make_ready();
	memset(sites, 0, sizeof(*sites));
	err = find_candidates(&c, module);
	if (!err)
		err = find_requested(&c, module->elf, request, nrequests);
	if (!err)
		err = find_noted(&c, module->elf);
	if (!err) {
		here = rules_here(&c, module);
		sites->allocator = here.allocator;
		sites->unseen = here.allocator && !is_known_allocator(module);
		sites->operators = !here.cxx_says && has_operators(&c);
		err = make_sites(sites, &c, &here, module->elf);
	}
	free(c.item);
	return err;
}

int hooks_find_one(struct hook_site *site, const struct module *module, const char *name,
		   enum wire_hook_kind kind)
{
	struct elf_symbol symbol;
	size_t cursor = 0;

	while (elf_find(module->elf, name, &cursor, &symbol)) {
		if (symbol.type != STT_FUNC)
			continue;
		memset(site, 0, sizeof(*site));
		snprintf(site->name, sizeof(site->name), "%s", name);
		site->kind = kind;
		site->vaddr = symbol.value;
		site->size = symbol.size;
		return 0;
	}
	return -ENOENT;
}

void hooks_release(struct hook_sites *sites)
{
	free(sites->site);
	memset(sites, 0, sizeof(*sites));
}
