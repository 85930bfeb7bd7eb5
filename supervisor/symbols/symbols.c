// SPDX-License-Identifier: GPL-3.0-or-later
#include "symbols/symbols.h"

#include <errno.h>
#include <gelf.h>
#include <limits.h>
#include <pthread.h>
#include <regex.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash_index.h"
#include "base/outside.h"
#include "base/pattern.h"
#include "base/secret.h"
#include "base/text.h"
#include "symbols/debugfile.h"
#include "symbols/elf.h"
#include "symbols/module.h"
#include "symbols/names.h"
#include "symbols/scopes.h"
#include "symbols/site_rule.h"
#include "symbols/symtab.h"

/*
 * symbols.c - from addresses to frames.
 *
 *	module (one mapping) -> object (one file: ELF, debug files, symbol table, DWARF index) ->
 *	frames
 *
 * An object is made when the first address in one of its modules is asked about, and kept. Its
 * parts are read as they are needed: the symbol table when DWARF does not know a function, a unit's
 * tree at the first address in the unit. Frames are made once per address and module and never
 * change but for SKIP_USER, which follows `set site-skip`.
 *
 * Files are read through mappings, and somebody may truncate one at any time. That is a SIGBUS in
 * the middle of libelf or libdw: while an object is being asked, a handler jumps out of it, and the
 * object answers in hex from then on; what libdw held is not freed, since nobody knows its state.
 *
 * A worker thread (resolver.h) may ask while the main thread serves the target, which in a static
 * program asks, too: one lock for everything here, held for one answer at a time. Frames that were
 * given out stay where they are.
 */

/* of one address: inlined ones and the function; gcc stops inlining long before */
#define FRAMES_MAX 64
/* bytes of a file that is gone from the file system and is copied from our mapping */
#define IMAGE_MAX (256u << 20)

/* What is known about one file. */
struct object {
	struct object *next;
	const char *path; /* with the next three: which file */
	uint64_t dev, inode;
	uint8_t build_id[32];
	unsigned build_id_len;
	struct debugfile file, separate, minimal, common;
	Dwarf *dwarf, *common_dwarf;
	struct scopes *scopes; /* NULL: no DWARF */
	struct symtab *symtab; /* NULL: not read yet */
	bool is_static;
	bool opened;
	bool broken; /* reading it failed in the middle: hex only */
};

/*
 * One module that was asked about: a file at a place. A forked child's modules are other structures
 * for the same, and share its answers.
 */
struct mapping {
	struct mapping *next;
	raddr_t start, bias;
	const char *path;
	struct object *object; /* NULL: out of memory */
};

struct answer {
	const struct mapping *mapping;
	raddr_t pc;
	bool exact, used;
	uint32_t count;
	struct symbol_frame *frame;
};

#define MAPPING_BUCKETS 256

struct symbols {
	struct outside *from; /* who names the files */
	struct names *names;
	struct object *objects;
	struct mapping *mapping[MAPPING_BUCKETS];
	struct mapping nowhere; /* for addresses in no module */
	struct answer *answer;	/* hash table */
	size_t answers, answer_room;
	regex_t skip;
	bool has_skip;
};

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

/* Runs FN(object, arg). False if the file went away under it. */
static bool guarded(void (*fn)(struct symbols *s, struct object *o, void *arg), struct symbols *s,
		    struct object *o, void *arg)
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
		outside_enter(s->from);
		fn(s, o, arg);
	}
	outside_enter(NULL);
	sigbus_exit = NULL;
	sigaction(SIGBUS, &sigbus_before, NULL);
	return whole;
}

/* ---- objects ------------------------------------------------------------- */

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

static bool open_file(struct symbols *s, struct object *o, const struct module *m)
{
	const uint8_t *image;
	size_t size;

	if (m->path && m->path[0] == '/' && debugfile_open(&o->file, s->from, m->path) == 0) {
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

static bool open_dwarf(struct symbols *s, struct object *o, const struct debugfile *f,
		       const struct scope_span *span, size_t spans)
{
	Dwarf_Off next;
	size_t header;

	o->dwarf = f->elf && debugfile_unpacks(f) ? dwarf_begin_elf(f->elf, DWARF_C_READ, NULL)
						  : NULL;
	if (!o->dwarf)
		return false;
	if (dwarf_nextcu(o->dwarf, 0, &next, &header, NULL, NULL, NULL) != 0) {
		dwarf_end(o->dwarf);
		o->dwarf = NULL;
		return false;
	}
	if (debugfile_common(&o->common, s->from, f, o->dwarf) == 0 &&
	    debugfile_unpacks(&o->common))
		o->common_dwarf = dwarf_begin_elf(o->common.elf, DWARF_C_READ, NULL);
	/*
	 * Without one, libdw would look for it by itself; -1 is what it writes down after having
	 * found none.
	 */
	dwarf_setalt(o->dwarf, o->common_dwarf ? o->common_dwarf : (Dwarf *)-1);
	if (o->common_dwarf)
		dwarf_setalt(o->common_dwarf, (Dwarf *)-1);
	o->scopes = scopes_new(o->dwarf, span, spans, s->names);
	return o->scopes != NULL;
}

static void open_object(struct symbols *s, struct object *o, void *module)
{
	struct scope_span span[16];
	size_t spans;

	if (!open_file(s, o, module))
		return;
	spans = code_spans(o->file.elf, span, sizeof(span) / sizeof(span[0]), &o->is_static);
	if (open_dwarf(s, o, &o->file, span, spans))
		return;
	if (debugfile_separate(&o->separate, s->from, &o->file) == 0)
		open_dwarf(s, o, &o->separate, span, spans);
}

static void read_symtab(struct symbols *s, struct object *o, void *unused)
{
	int err;

	(void)unused;
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
		err = symtab_add_plt(o->symtab, o->file.elf, s->names);
	if (!err && o->separate.elf)
		err = symtab_add(o->symtab, o->separate.elf);
	else if (!err && debugfile_minimal(&o->minimal, &o->file) == 0)
		err = symtab_add(o->symtab, o->minimal.elf);
	(void)err;
	symtab_finish(o->symtab);
}

static void ask_object(void (*fn)(struct symbols *s, struct object *o, void *arg),
		       struct symbols *s, struct object *o, void *arg)
{
	if (!o->broken && !guarded(fn, s, o, arg))
		o->broken = true;
}

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
	free(o);
}

static unsigned build_id_len(const struct module *m)
{
	return m->build_id_len <= sizeof(m->build_id) ? m->build_id_len : 0;
}

static bool is_of(const struct object *o, const struct module *m)
{
	unsigned len = build_id_len(m);

	return o->dev == m->dev && o->inode == m->inode && o->build_id_len == len &&
	       !memcmp(o->build_id, m->build_id, len);
}

static struct object *object_of(struct symbols *s, const struct module *m, const char *path)
{
	unsigned len = build_id_len(m);
	struct object *o;

	for (o = s->objects; o; o = o->next)
		if (o->path == path && is_of(o, m))
			return o;
	o = calloc(1, sizeof(*o));
	if (!o)
		return NULL;
	o->path = path;
	o->dev = m->dev;
	o->inode = m->inode;
	o->build_id_len = len;
	memcpy(o->build_id, m->build_id, len);
	o->file.fd = o->separate.fd = o->minimal.fd = o->common.fd = -1;
	o->next = s->objects;
	s->objects = o;
	return o;
}

static struct mapping **bucket_of(struct symbols *s, const struct module *m)
{
	return &s->mapping[(m->start >> 12) % MAPPING_BUCKETS];
}

/* NULL: nobody has asked about M. */
static struct mapping *known_mapping(struct symbols *s, const struct module *m)
{
	const char *path = m ? m->path ? m->path : "" : NULL;
	struct mapping *p = m ? *bucket_of(s, m) : &s->nowhere;

	while (p && m &&
	       !(p->start == m->start && p->bias == m->bias && p->object && is_of(p->object, m) &&
		 !strcmp(p->path ? p->path : "", path)))
		p = p->next;
	return p;
}

static struct mapping *mapping_of(struct symbols *s, const struct module *m)
{
	struct mapping *p = known_mapping(s, m), **bucket;

	if (p)
		return p;
	bucket = bucket_of(s, m);
	p = calloc(1, sizeof(*p));
	if (!p)
		return &s->nowhere;
	*p = (struct mapping){ .next = *bucket, .start = m->start, .bias = m->bias };
	p->path = m->path ? names_intern(s->names, m->path) : NULL;
	p->object = object_of(s, m, p->path ? p->path : "");
	*bucket = p;
	if (p->object && !p->object->opened) {
		p->object->opened = true;
		ask_object(open_object, s, p->object, (void *)(uintptr_t)m);
	}
	return p;
}

/* ---- frames -------------------------------------------------------------- */

struct question {
	uint64_t addr; /* in the file */
	struct scope_frame frame[FRAMES_MAX];
	size_t count;
	const struct name *symbol; /* of the frame that DWARF could not name, or NULL */
};

static const char *symbol_at(struct symbols *s, struct object *o, uint64_t addr)
{
	read_symtab(s, o, NULL);
	return o->symtab ? symtab_find(o->symtab, addr) : NULL;
}

static void find_frames(struct symbols *s, struct object *o, void *arg)
{
	struct question *q = arg;
	const char *raw;

	q->count = o->scopes ? scopes_find(o->scopes, q->addr, q->frame, FRAMES_MAX) : 0;
	for (size_t i = 0; i < q->count; i++) {
		raw = q->frame[i].copy ? symbol_at(s, o, q->frame[i].copy) : NULL;
		if (raw && !strncmp(raw, "_Z", 2))
			q->frame[i].name = names_symbol(s->names, raw);
	}
	if (q->count && q->frame[q->count - 1].name)
		return;
	raw = symbol_at(s, o, q->addr);
	if (raw)
		q->symbol = names_symbol(s->names, raw);
}

static unsigned user_skip(const struct symbols *s, const char *function)
{
	return s->has_skip && regexec(&s->skip, function, 0, NULL, 0) == 0 ? SKIP_USER : 0;
}

bool symbols_passed_over(const struct module *m)
{
	return m && m->roles & (MODULE_LIBC | MODULE_LDSO | MODULE_CXX) && !(m->roles & MODULE_EXE);
}

static unsigned skip_flags(const struct symbols *s, const struct symbol_frame *f,
			   const struct name *name, const struct module *m, const struct object *o)
{
	unsigned skip = name ? name->skip : 0;

	if (symbols_passed_over(m))
		skip |= SKIP_LIBRARY;
	if (f->file && site_is_library_file(f->file))
		skip |= SKIP_LIBRARY;
	if (!f->file && o && o->is_static && site_is_libc(f->function))
		skip |= SKIP_LIBRARY;
	return skip | user_skip(s, f->function);
}

/* Of a function without a name: `libfoo.so.1+0x1234`, or in no module its address. */
static const char *place_in(struct symbols *s, const struct mapping *p, uint64_t addr)
{
	const char *module = p->path ? text_last_part(p->path) : "";
	char text[PATH_MAX + 32];

	snprintf(text, sizeof(text), "%.*s%s0x%llx", PATH_MAX, module, *module ? "+" : "",
		 (unsigned long long)addr);
	return names_intern(s->names, text);
}

bool symbols_is_unnamed(const struct symbol_frame *f)
{
	const char *plus = strrchr(f->function, '+'), *hex = plus ? plus + 1 : f->function;

	return !f->raw && !strncmp(hex, "0x", 2) && hex[2] &&
	       !hex[2 + strspn(hex + 2, "0123456789abcdef")];
}

bool symbols_same_line(const struct symbol_frame *a, const struct symbol_frame *b)
{
	return a->line == b->line && text_same(a->function, b->function) &&
	       text_same(a->file, b->file) && text_same(a->module, b->module);
}

uint32_t symbols_hash_line(uint32_t seed, const struct symbol_frame *f)
{
	uint32_t h = hash_text(hash_number(seed, f->line), f->function);

	return hash_text(hash_text(h, f->file), f->module);
}

/* Fills FRAME from answer Q; NULL in case of no memory. */
static struct symbol_frame *make_frames(struct symbols *s, const struct question *q,
					const struct mapping *p, const struct module *m, raddr_t pc)
{
	size_t count = q->count ? q->count : 1;
	struct symbol_frame *frame = names_alloc(s->names, count * sizeof(*frame));

	if (!frame)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		const struct scope_frame *from = q->count ? &q->frame[i] : NULL;
		const struct name *name = from && from->name ? from->name
					  : i == count - 1   ? q->symbol
							     : NULL;

		frame[i] = (struct symbol_frame){ .module = p->path, .address = pc };
		frame[i].function = name ? name->text : place_in(s, p, pc - p->bias);
		frame[i].raw = name ? name->raw : NULL;
		if (from) {
			frame[i].file = from->file;
			frame[i].line = from->line;
			frame[i].column = from->column;
			frame[i].inlined = from->inlined;
		}
		frame[i].skip = skip_flags(s, &frame[i], name, m, p->object);
	}
	return frame;
}

static size_t answer_hash(const struct mapping *p, raddr_t pc, bool exact)
{
	uint64_t h = (pc ^ ((uint64_t)(uintptr_t)p << 20)) * secret(0);

	return (size_t)((h ^ h >> 32) + exact);
}

/* The place of an answer, taken or free. NULL: out of memory. */
static struct answer *answer_slot(struct symbols *s, const struct mapping *p, raddr_t pc,
				  bool exact)
{
	size_t i;

	if (s->answers * 4 >= s->answer_room * 3) {
		size_t room = s->answer_room ? s->answer_room * 2 : 1024, old = s->answer_room;
		struct answer *bigger = calloc(room, sizeof(*bigger)), *from = s->answer;

		if (!bigger)
			return NULL;
		for (size_t j = 0; j < old; j++) {
			if (!from[j].used)
				continue;
			i = answer_hash(from[j].mapping, from[j].pc, from[j].exact) & (room - 1);
			while (bigger[i].used)
				i = (i + 1) & (room - 1);
			bigger[i] = from[j];
		}
		free(from);
		s->answer = bigger;
		s->answer_room = room;
	}
	for (i = answer_hash(p, pc, exact) & (s->answer_room - 1); s->answer[i].used;
	     i = (i + 1) & (s->answer_room - 1))
		if (s->answer[i].mapping == p && s->answer[i].pc == pc &&
		    s->answer[i].exact == exact)
			break;
	return &s->answer[i];
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct symbol_frames resolve(struct symbols *s, const struct module *module, raddr_t pc,
				    bool exact)
{
	static const struct symbol_frame unknown = { .function = "?" }; /* out of memory */
	const struct mapping *p = mapping_of(s, module);
	struct answer *a = answer_slot(s, p, pc, exact);
	struct symbol_frame *frame;
	struct question q;

	if (!a)
		return (struct symbol_frames){ .count = 1, .frame = &unknown };
	if (a->used)
		return (struct symbol_frames){ .count = a->count, .frame = a->frame };
	q.addr = pc - p->bias - (exact ? 0 : 1);
	q.count = 0;
	q.symbol = NULL;
	if (p->object) {
		ask_object(find_frames, s, p->object, &q);
		if (p->object->broken)
			q.count = 0;
	}
	frame = make_frames(s, &q, p, module, pc);
	if (!frame)
		return (struct symbol_frames){ .count = 1, .frame = &unknown };
	*a = (struct answer){ .mapping = p,
			      .pc = pc,
			      .exact = exact,
			      .used = true,
			      .count = (uint32_t)(q.count ? q.count : 1),
			      .frame = frame };
	s->answers++;
	return (struct symbol_frames){ .count = a->count, .frame = a->frame };
}

struct symbol_frames symbols_resolve(struct symbols *s, const struct module *module, raddr_t pc,
				     bool exact)
{
	struct symbol_frames f;

	pthread_mutex_lock(&lock);
	f = resolve(s, module, pc, exact);
	pthread_mutex_unlock(&lock);
	return f;
}

struct alias_question {
	uint64_t addr; /* in the file */
	const char **name;
	size_t count, most;
};

static void find_aliases(struct symbols *s, struct object *o, void *arg)
{
	struct alias_question *q = arg;

	read_symtab(s, o, NULL);
	if (o->symtab)
		q->count = symtab_aliases(o->symtab, q->addr, q->name, q->most);
	for (size_t i = 0; i < q->count; i++)
		q->name[i] = names_intern(s->names, q->name[i]);
}

size_t symbols_aliases(struct symbols *s, const struct module *module, raddr_t pc, bool exact,
		       const char **name, size_t most)
{
	struct alias_question q = { .name = name, .most = most };
	const struct mapping *p;

	pthread_mutex_lock(&lock);
	p = mapping_of(s, module);
	q.addr = pc - p->bias - (exact ? 0 : 1);
	if (p->object)
		ask_object(find_aliases, s, p->object, &q);
	pthread_mutex_unlock(&lock);
	return p->object && p->object->broken ? 0 : q.count;
}

bool symbols_known(struct symbols *s, const struct module *m, raddr_t pc, bool exact,
		   struct symbol_frames *frames)
{
	const struct mapping *p;
	const struct answer *a;

	if (pthread_mutex_trylock(&lock))
		return false;
	p = known_mapping(s, m);
	a = p ? answer_slot(s, p, pc, exact) : NULL;
	if (a && a->used)
		*frames = (struct symbol_frames){ .count = a->count, .frame = a->frame };
	pthread_mutex_unlock(&lock);
	return a && a->used;
}

/* ---- the site ------------------------------------------------------------ */

int symbols_site_skip(struct symbols *s, const char *regex, const char **error)
{
	regex_t compiled;

	if (regex[0] && pattern_compile(&compiled, regex, error))
		return -EINVAL;
	pthread_mutex_lock(&lock);
	if (s->has_skip)
		regfree(&s->skip);
	s->has_skip = regex[0] != 0;
	if (s->has_skip)
		s->skip = compiled;
	for (size_t i = 0; i < s->answer_room; i++) {
		struct answer *a = &s->answer[i];

		for (size_t j = 0; a->used && j < a->count; j++)
			a->frame[j].skip = (a->frame[j].skip & ~(unsigned)SKIP_USER) |
					   user_skip(s, a->frame[j].function);
	}
	pthread_mutex_unlock(&lock);
	return 0;
}

/* ---- the whole ----------------------------------------------------------- */

struct symbols *symbols_new(struct outside *from)
{
	struct symbols *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->from = from;
	s->names = names_new();
	if (!s->names) {
		free(s);
		return NULL;
	}
	return s;
}

void symbols_free(struct symbols *s)
{
	struct mapping *next;
	struct object *o;

	if (!s)
		return;
	for (size_t i = 0; i < MAPPING_BUCKETS; i++) {
		for (struct mapping *p = s->mapping[i]; p; p = next) {
			next = p->next;
			free(p);
		}
	}
	while ((o = s->objects)) {
		s->objects = o->next;
		free_object(o);
	}
	if (s->has_skip)
		regfree(&s->skip);
	free(s->answer);
	names_free(s->names);
	free(s);
}
