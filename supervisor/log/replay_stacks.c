// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/pattern.h"
#include "log/replay_state.h"

#include <errno.h>
#include <inttypes.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/message.h"
#include "base/secret.h"
#include "inject/wire_stack.h"

/*
 * replay_stacks.c - the stacks of a log. A stack's nodes have the numbers that they had in the
 * process, the same in every file of the log. A node may stand in one file only, so the nodes of
 * all files are read when the first stack is asked for. Symbols are told by pc and module: many
 * nodes share them.
 */
struct replay_node {
	uint64_t pc; /* 0: no such node */
	uint32_t parent, depth;
};

#define GATHER_MOST (64u << 20) /* bytes of one value in several blocks */

static struct replay_node *node_at(const struct replay_process *p, uint32_t id)
{
	return id && id < p->nodes ? (struct replay_node *)p->node.base + id : NULL;
}

/*
 * A node whose caller is not there, or that would make a stack deeper than any program's, is left
 * out. A stack that goes through it has only the frames inside of it.
 */
static int add_node(void *ctx, const struct log_node *n)
{
	struct replay_process *p = ctx;
	const struct replay_node *caller = node_at(p, n->parent);
	uint32_t depth = caller ? caller->depth + 1 : 1;

	if (n->id >= WIRE_NODES || !n->pc || (n->parent && !(caller && caller->pc)) ||
	    depth > WIRE_DEPTH + 1)
		return -EINVAL;
	if (arena_reach(&p->node, (n->id + 1) * sizeof(struct replay_node)))
		return -ENOMEM;
	if (n->id >= p->nodes)
		p->nodes = n->id + 1;
	*node_at(p, n->id) = (struct replay_node){ n->pc, n->parent, depth };
	return 0;
}

/* ---- symbols ------------------------------------------------------------- */

static size_t symbol_hash(uint32_t module, uint64_t pc)
{
	uint64_t h = (pc ^ (uint64_t)module << 48) * secret(0);

	return (size_t)(h ^ h >> 32);
}

static struct replay_symbol *symbol_find(const struct replay_process *p, uint32_t module,
					 uint64_t pc)
{
	struct replay_symbol *s = p->buckets ? p->bucket[symbol_hash(module, pc) & (p->buckets - 1)]
					     : NULL;

	while (s && (s->module != module || s->pc != pc))
		s = s->next;
	return s;
}

static int more_buckets(struct replay_process *p)
{
	size_t n = p->buckets ? p->buckets * 4 : 1024;
	struct replay_symbol **bucket = calloc(n, sizeof(*bucket)), *s;

	if (!bucket)
		return -ENOMEM;
	for (size_t i = 0; i < p->buckets; i++)
		while ((s = p->bucket[i])) {
			struct replay_symbol **to =
				&bucket[symbol_hash(s->module, s->pc) & (n - 1)];

			p->bucket[i] = s->next;
			s->next = *to;
			*to = s;
		}
	free(p->bucket);
	p->bucket = bucket;
	p->buckets = n;
	return 0;
}

static size_t string_size(const char *text) { return text ? strlen(text) + 1 : 0; }

/* A copy behind *AT, which moves on. */
static const char *keep(char **at, const char *text)
{
	size_t n = string_size(text);
	char *to = *at;

	if (!n)
		return NULL;
	*at += n;
	return memcpy(to, text, n);
}

/* Frames and their strings in one piece. */
static struct replay_symbol *symbol_copy(const struct log_symbol *told)
{
	size_t n = told->frames.count,
	       size = sizeof(struct replay_symbol) + n * sizeof(struct symbol_frame);
	struct replay_symbol *s;
	char *at;

	for (size_t i = 0; i < n; i++) {
		const struct symbol_frame *f = &told->frames.frame[i];

		size += string_size(f->function) + string_size(f->file) + string_size(f->module);
	}
	s = malloc(size);
	if (!s)
		return NULL;
	*s = (struct replay_symbol){ .pc = told->pc, .module = told->module, .count = (uint32_t)n };
	at = (char *)&s->frame[n];
	for (size_t i = 0; i < n; i++) {
		s->frame[i] = told->frames.frame[i];
		s->frame[i].function = keep(&at, s->frame[i].function);
		s->frame[i].file = keep(&at, s->frame[i].file);
		s->frame[i].module = keep(&at, s->frame[i].module);
	}
	return s;
}

static int add_symbol(void *ctx, const struct log_symbol *told)
{
	struct replay_process *p = ctx;
	struct replay_symbol *s, **to;

	if (symbol_find(p, told->module, told->pc))
		return 0;
	if (p->symbols >= p->buckets && more_buckets(p))
		return -ENOMEM;
	s = symbol_copy(told);
	if (!s)
		return -ENOMEM;
	to = &p->bucket[symbol_hash(s->module, s->pc) & (p->buckets - 1)];
	s->next = *to;
	*to = s;
	p->symbols++;
	return 0;
}

/* ---- reading ------------------------------------------------------------- */

/*
 * Damaged blocks are passed over: what only they tell of is shown without names. It is told once
 * for each process, by the first of them.
 */
static void tell_damage(struct replay_process *p, struct replay_ref ref)
{
	if (!p->nameless)
		message_say("'%s' is damaged at byte %" PRIu64
			    ": some stacks, names or marks of process %d are not known",
			    p->replay->file[ref.file].path, replay_entry(p->replay, ref)->offset,
			    (int)p->facts.pid);
	p->nameless = true;
}

/* One block of those. */
static bool read_said(struct replay_process *p, size_t i, struct log_input *in)
{
	struct log_unpacked *u = &p->replay->unpacked;

	if (log_file_read(&p->replay->file[p->said[i].file], p->said[i].entry, u)) {
		tell_damage(p, p->said[i]);
		return false;
	}
	*in = (struct log_input){ .at = u->raw, .end = u->raw + u->len };
	return true;
}

static void read_stacks(struct replay_process *p)
{
	struct log_input in;
	int err = 0;

	for (size_t i = 0; i < p->saids && err != -ENOMEM; i++) {
		unsigned type = replay_entry(p->replay, p->said[i])->type;

		if (type == SEGMENT_MARKS || !read_said(p, i, &in))
			continue;
		err = type == SEGMENT_NODES ? log_take_nodes(&in, add_node, p)
					    : log_take_symbols(&in, add_symbol, p);
		if (err == -EINVAL)
			tell_damage(p, p->said[i]);
	}
}

static int apply_skip(struct replay_process *p, const char *regex, const char **error);

static void want_stacks(struct replay_process *p)
{
	const char *error;

	if (p->has_stacks)
		return;
	p->has_stacks = true;
	read_stacks(p);
	if (p->site_skip && apply_skip(p, p->site_skip, &error))
		p->site_skip[0] = '\0'; /* it was right when it was given */
}

uint32_t replay_parent(struct replay_process *p, uint32_t node, uint64_t *pc)
{
	const struct replay_node *n;

	want_stacks(p);
	n = node_at(p, node);
	*pc = n ? n->pc : 0;
	return n ? n->parent : 0;
}

bool replay_frames(struct replay_process *p, const struct modules *modules, uint32_t node,
		   uint64_t pc, struct symbol_frames *frames)
{
	const struct module *m =
		modules_find(modules, (pc & WIRE_PC_MASK) - !(pc & WIRE_PC_EXACT), node);
	const struct replay_symbol *s;
	uint32_t number = 0;

	want_stacks(p);
	while (m && number < modules->count && modules->module[number++] != m)
		;
	s = symbol_find(p, number, pc);
	if (s)
		*frames = (struct symbol_frames){ s->count, s->frame };
	return s;
}

/* ---- site-skip ----------------------------------------------------------- */

static int apply_skip(struct replay_process *p, const char *regex, const char **error)
{
	regex_t compiled;

	if (*regex && pattern_compile(&compiled, regex, error))
		return -EINVAL;
	for (size_t i = 0; i < p->buckets; i++)
		for (struct replay_symbol *s = p->bucket[i]; s; s = s->next)
			for (uint32_t j = 0; j < s->count; j++) {
				bool skip = *regex &&
					    !regexec(&compiled, s->frame[j].function, 0, NULL, 0);

				s->frame[j].skip = (s->frame[j].skip & ~(unsigned)SKIP_USER) |
						   (skip ? SKIP_USER : 0);
			}
	if (*regex)
		regfree(&compiled);
	return 0;
}

int replay_site_skip(struct replay_process *p, const char *regex, const char **error)
{
	char *copy = strdup(regex);
	int err = apply_skip(p, regex, error);

	if (err || !copy) {
		free(copy);
		return err;
	}
	free(p->site_skip);
	p->site_skip = copy;
	return 0;
}

/* ---- modules, marks ------------------------------------------------------ */

int replay_modules(struct replay_process *p, struct modules *modules)
{
	struct replay *r = p->replay;
	struct log_bytes bytes = { 0 };
	struct log_input in;
	int err;

	*modules = (struct modules){ 0 };
	if (p->modules.entry == UINT32_MAX)
		return 0;
	err = log_file_gather(&r->file[p->modules.file], p->modules.entry, GATHER_MOST,
			      &r->unpacked, &bytes);
	in = (struct log_input){ .at = bytes.data, .end = bytes.data + bytes.len };
	if (!err)
		err = log_take_modules(&in, modules);
	log_bytes_release(&bytes);
	if (err != -EINVAL)
		return err;
	tell_damage(p, p->modules); /* addresses are in none */
	return 0;
}

struct take_marks {
	struct marks *marks;
	uint64_t next;
};

static int add_mark(void *ctx, const struct log_mark *m)
{
	struct take_marks *t = ctx;

	if (m->number < t->next)
		return 0;
	t->next = m->number + 1;
	return marks_add(t->marks, m->ms, m->label);
}

int replay_marks(struct replay_process *p, struct marks *marks)
{
	struct take_marks take = { .marks = marks };
	struct log_input in;
	int err = 0;

	*marks = (struct marks){ 0 };
	for (size_t i = 0; i < p->saids && err != -ENOMEM; i++)
		if (replay_entry(p->replay, p->said[i])->type == SEGMENT_MARKS &&
		    read_said(p, i, &in))
			err = log_take_marks(&in, add_mark, &take);
	if (err != -ENOMEM)
		return 0;
	marks_release(marks);
	return err;
}

void replay_stacks_release(struct replay_process *p)
{
	struct replay_symbol *s;

	for (size_t i = 0; i < p->buckets; i++)
		while ((s = p->bucket[i])) {
			p->bucket[i] = s->next;
			free(s);
		}
	free(p->bucket);
	free(p->site_skip);
	arena_release(&p->node);
}
