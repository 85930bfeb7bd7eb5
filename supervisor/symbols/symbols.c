// SPDX-License-Identifier: GPL-3.0-or-later
#include "symbols/symbols.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash_index.h"
#include "base/pattern.h"
#include "base/secret.h"
#include "base/text.h"
#include "symbols/module.h"
#include "symbols/names.h"
#include "symbols/object.h"
#include "symbols/site_rule.h"

/*
 * symbols.c - from addresses to frames.
 *
 *	module (one mapping) -> object (one file: ELF, debug files, symbol table, DWARF index) ->
 *	frames
 *
 * An object (object.h) is opened when the first address in one of its modules is asked about, and
 * kept. Frames are made once per address and module and never change but for SKIP_USER, which
 * follows `set site-skip`.
 *
 * A worker thread (resolver.h) may ask while the main thread serves the target, which in a static
 * program asks, too: one lock for everything here and for the objects, which processes share, held
 * for one answer at a time. Frames that were given out stay where they are.
 */

/*
 * One module that was asked about: a file at a place. A forked child's modules are other structures
 * for the same, and share its answers.
 */
struct mapping {
	struct mapping *next;
	raddr_t start, bias;
	const char *path;
	uint64_t dev, inode;
	uint8_t build_id[32];
	unsigned build_id_len;
	struct object *object; /* a reference; NULL: out of memory */
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
	struct mapping *mapping[MAPPING_BUCKETS];
	struct mapping nowhere; /* for addresses in no module */
	struct answer *answer;	/* hash table */
	size_t answers, answer_room;
	regex_t skip;
	bool has_skip;
};

/* ---- modules ------------------------------------------------------------- */

static unsigned build_id_len(const struct module *m)
{
	return m->build_id_len <= sizeof(m->build_id) ? m->build_id_len : 0;
}

static bool is_of(const struct mapping *p, const struct module *m)
{
	unsigned len = build_id_len(m);

	return p->start == m->start && p->bias == m->bias && p->dev == m->dev &&
	       p->inode == m->inode && p->build_id_len == len &&
	       !memcmp(p->build_id, m->build_id, len);
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

	while (p && m && !(is_of(p, m) && !strcmp(p->path ? p->path : "", path)))
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
	*p = (struct mapping){ .next = *bucket,
			       .start = m->start,
			       .bias = m->bias,
			       .dev = m->dev,
			       .inode = m->inode,
			       .build_id_len = build_id_len(m) };
	memcpy(p->build_id, m->build_id, p->build_id_len);
	p->path = m->path ? names_intern(s->names, m->path) : NULL;
	p->object = object_open(s->from, m);
	*bucket = p;
	return p;
}

/* ---- frames -------------------------------------------------------------- */

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
	if (!f->file && o && object_is_static(o) && site_is_libc(f->function))
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
static struct symbol_frame *make_frames(struct symbols *s, const struct object_answer *q,
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

/* PC's in the file of P; if not EXACT, that of the byte before. */
static uint64_t address_in(const struct mapping *p, raddr_t pc, bool exact)
{
	return pc - p->bias - (exact ? 0 : 1);
}

static struct symbol_frames resolve(struct symbols *s, const struct module *module, raddr_t pc,
				    bool exact)
{
	static const struct symbol_frame unknown = { .function = "?" }; /* out of memory */
	const struct mapping *p = mapping_of(s, module);
	struct answer *a = answer_slot(s, p, pc, exact);
	struct symbol_frame *frame;
	struct object_answer q;

	if (!a)
		return (struct symbol_frames){ .count = 1, .frame = &unknown };
	if (a->used)
		return (struct symbol_frames){ .count = a->count, .frame = a->frame };
	q.count = 0;
	q.symbol = NULL;
	if (p->object)
		object_find(p->object, s->from, address_in(p, pc, exact), &q);
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

size_t symbols_aliases(struct symbols *s, const struct module *module, raddr_t pc, bool exact,
		       const char **name, size_t most)
{
	const struct mapping *p;
	size_t n = 0;

	pthread_mutex_lock(&lock);
	p = mapping_of(s, module);
	if (p->object)
		n = object_aliases(p->object, s->from, address_in(p, pc, exact), name, most);
	pthread_mutex_unlock(&lock);
	return n;
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

	if (!s)
		return;
	for (size_t i = 0; i < MAPPING_BUCKETS; i++) {
		for (struct mapping *p = s->mapping[i]; p; p = next) {
			next = p->next;
			object_unref(p->object);
			free(p);
		}
	}
	if (s->has_skip)
		regfree(&s->skip);
	free(s->answer);
	names_free(s->names);
	free(s);
}
