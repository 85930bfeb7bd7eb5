// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/text.h"
#include "report/view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * jeprof's `list`: the bytes of one function's lines. Each stack is walked once, frame by frame;
 * what it holds goes to every line of a wanted function that is in it (once, however often the line
 * recurs), and to the innermost frame's as its own. Lines are few: they are looked up one by one.
 */
struct wanted {
	struct listing *l;
	const char *name;
	const regex_t *regex;
	/* of the profile, plus 1: what has counted for it already */
	uint32_t row;
};

/* Whether a name may begin at AT: in front, behind its namespaces, or behind a returned type. */
static bool begins(const char *function, const char *at)
{
	return at == function || at[-1] == ' ' ||
	       (at - function >= 2 && at[-1] == ':' && at[-2] == ':');
}

/*
 * NAME is the whole name, or what is before its parameters, with or without its namespaces. What
 * stands in brackets is of other functions and types.
 */
static bool is_called(const char *function, const char *name)
{
	static const char sign[] = "operator";
	size_t len = strlen(name);
	int depth = 0;

	for (const char *at = function; *at; at++) {
		if (!depth && begins(function, at) && !strncmp(at, name, len) &&
		    (!at[len] || at[len] == '(' || at[len] == '<'))
			return true;
		if (!strncmp(at, sign, sizeof(sign) - 1)) /* its <, > and ( are none */
			at += sizeof(sign) - 1 + strspn(at + sizeof(sign) - 1, "<>()=-!") - 1;
		else if (*at == '<' || *at == '(')
			depth++;
		else if ((*at == '>' || *at == ')') && depth)
			depth--;
	}
	return false;
}

static bool matches(const struct wanted *w, const struct symbol_frame *f)
{
	return f->function && (w->regex ? regexec(w->regex, f->function, 0, NULL, 0) == 0
					: is_called(f->function, w->name));
}

static struct listing_function *function_of(struct listing *l, const struct symbol_frame *f)
{
	struct listing_function *v;

	for (size_t i = 0; i < l->count; i++)
		if (text_same(l->function[i].function, f->function) &&
		    text_same(l->function[i].file, f->file))
			return &l->function[i];
	v = reallocarray(l->function, l->count + 1, sizeof(*v));
	if (!v)
		return NULL;
	l->function = v;
	v[l->count] = (struct listing_function){ .function = f->function,
						 .file = f->file,
						 .module = f->module };
	return &v[l->count++];
}

static struct listing_line *line_of(struct listing_function *f, unsigned line)
{
	struct listing_line *v;

	for (size_t i = 0; i < f->count; i++)
		if (f->line[i].line == line)
			return &f->line[i];
	v = reallocarray(f->line, f->count + 1, sizeof(*v));
	if (!v)
		return NULL;
	f->line = v;
	v[f->count] = (struct listing_line){ .line = line };
	return &v[f->count++];
}

static int count_frame(struct wanted *w, const struct symbol_frame *frame, int64_t size, bool own)
{
	struct listing_function *f = function_of(w->l, frame);
	struct listing_line *l = f ? line_of(f, frame->line) : NULL;

	if (!l)
		return -ENOMEM;
	if (l->row != w->row) {
		l->row = w->row;
		l->cum += size;
	}
	if (f->row != w->row) {
		f->row = w->row;
		f->cum += size;
	}
	l->flat += own ? size : 0;
	f->flat += own ? size : 0;
	return 0;
}

static int count_stack(struct wanted *w, struct sites *sites, const struct profile_row *row)
{
	bool own = true; /* no frame but allocators' so far */

	for (uint32_t node = row->stack; node; node = sites_parent(sites, node)) {
		struct symbol_frames f = sites_frames(sites, node);

		for (size_t i = 0; i < f.count; i++) {
			bool here = own && !(f.frame[i].skip & SKIP_ALLOCATOR);

			if (matches(w, &f.frame[i]) && count_frame(w, &f.frame[i], row->size, here))
				return -ENOMEM;
			own = own && !here;
		}
	}
	return 0;
}

static int by_line(const void *a, const void *b)
{
	const struct listing_line *x = a, *y = b;

	return x->line < y->line ? -1 : x->line > y->line;
}

static int by_cum(const void *a, const void *b)
{
	const struct listing_function *x = a, *y = b;

	return x->cum > y->cum ? -1 : x->cum < y->cum;
}

int listing_make(struct listing *l, const struct profile *p, struct sites *sites, const char *name,
		 const regex_t *regex)
{
	struct wanted w = { .l = l, .name = name, .regex = regex };
	int err = 0;

	*l = (struct listing){ .estimated = p->estimated };
	for (size_t i = 0; i < p->count && !err; i++) {
		w.row = (uint32_t)i + 1;
		l->total += p->row[i].size;
		err = count_stack(&w, sites, &p->row[i]);
		if (!err)
			err = sites_rest(sites);
	}
	for (size_t i = 0; i < l->count; i++)
		qsort(l->function[i].line, l->function[i].count, sizeof(*l->function[i].line),
		      by_line);
	if (l->count)
		qsort(l->function, l->count, sizeof(*l->function), by_cum);
	if (err)
		listing_release(l);
	return err;
}

void listing_release(struct listing *l)
{
	for (size_t i = 0; i < l->count; i++)
		free(l->function[i].line);
	free(l->function);
	*l = (struct listing){ 0 };
}
