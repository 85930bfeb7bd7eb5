// SPDX-License-Identifier: GPL-3.0-or-later
#include "leaks/suppressions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/escape.h"

/*
 * suppressions.c - a list of suppressions, in the order in which they were read; the first that
 * matches counts.
 *
 * A stack here begins with the caller of the hooked function, Valgrind's with the function itself,
 * which it has replaced: `fun:malloc`. So a suppression of Valgrind's is held against the stack as
 * it is, and with the allocator in front, which has all names that an allocator can have.
 * operator new is a frame of ours where it is libstdc++'s that calls malloc; then it is that frame
 * which has these names, and those of operator new[], which is a jump to it.
 *
 * Matching never recurses. A * goes back to the last * only, and an ellipsis to the last ellipsis:
 * what came before them matches as short as possible, which is enough, because what follows may
 * begin anywhere behind.
 */

enum line_kind { LINE_FUN, LINE_OBJ, LINE_SRC, LINE_ELLIPSIS };

struct line {
	enum line_kind kind;
	char *pattern; /* NULL for an ellipsis */
};

struct suppression {
	char *name;
	/* LeakSanitizer's, or NULL: with a * at each end that ^ or $ does not hold */
	char *anywhere;
	unsigned kinds; /* enum suppression_kind */
	struct line *line;
	size_t lines, room;
};

struct suppressions {
	struct suppression *list;
	size_t count, room;
};

/* ---- life ---------------------------------------------------------------- */

static void release(struct suppression *s)
{
	for (size_t i = 0; i < s->lines; i++)
		free(s->line[i].pattern);
	free(s->line);
	free(s->anywhere);
	free(s->name);
	*s = (struct suppression){ 0 };
}

struct suppressions *suppressions_new(void) { return calloc(1, sizeof(struct suppressions)); }

void suppressions_free(struct suppressions *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->count; i++)
		release(&s->list[i]);
	free(s->list);
	free(s);
}

size_t suppressions_count(const struct suppressions *s) { return s->count; }

const char *suppressions_name(const struct suppressions *s, size_t i) { return s->list[i].name; }

unsigned suppressions_kinds(const struct suppressions *s)
{
	unsigned kinds = 0;

	for (size_t i = 0; i < s->count; i++)
		kinds |= s->list[i].kinds;
	return kinds;
}

bool suppressions_follows(const struct suppressions *s, size_t i)
{
	return s->list[i].anywhere != NULL;
}

/* *ONE is taken over, also if there is no memory for it. */
static int keep(struct suppressions *s, struct suppression *one)
{
	if (array_room(&s->list, s->count, &s->room, sizeof(*s->list))) {
		release(one);
		return -ENOMEM;
	}
	s->list[s->count++] = *one;
	*one = (struct suppression){ 0 };
	return 0;
}

/* ---- reading ------------------------------------------------------------- */

struct text { /* a part of the file */
	const char *at;
	size_t len;
};

struct reader {
	struct text rest;
	unsigned line;	  /* of what was read last */
	struct text last; /* that line */
	char *why;
	size_t room;
};

#define QUOTED	  60 /* characters of a line that is quoted */
#define LINE_MOST 4096

static int wrong(struct reader *r, const char *accepted)
{
	bool cut = r->last.len > QUOTED;

	snprintf(r->why, r->room, "line %u: '%.*s%s' is not accepted: %s", r->line,
		 (int)(cut ? QUOTED : r->last.len), r->last.at, cut ? "..." : "", accepted);
	return -EINVAL;
}

static struct text trim(struct text t)
{
	while (t.len && strchr(" \t\r\v\f", t.at[0]) && t.at[0]) {
		t.at++;
		t.len--;
	}
	while (t.len && t.at[t.len - 1] && strchr(" \t\r\v\f", t.at[t.len - 1]))
		t.len--;
	return t;
}

/* The next line that says something, without what is around it. False: there is none. */
static bool next_line(struct reader *r)
{
	while (r->rest.len) {
		const char *end = memchr(r->rest.at, '\n', r->rest.len);
		size_t len = end ? (size_t)(end - r->rest.at) : r->rest.len;

		r->line++;
		r->last = trim((struct text){ r->rest.at, len });
		r->rest.at += len + (end != NULL);
		r->rest.len -= len + (end != NULL);
		if (r->last.len && r->last.at[0] != '#')
			return true;
	}
	return false;
}

static bool is(struct text t, const char *word)
{
	return t.len == strlen(word) && !memcmp(t.at, word, t.len);
}

/* Whether T begins with WORD, which is taken off it then. */
static bool takes(struct text *t, const char *word)
{
	size_t len = strlen(word);

	if (t->len < len || memcmp(t->at, word, len))
		return false;
	t->at += len;
	t->len -= len;
	*t = trim(*t);
	return true;
}

/* Up to the next comma, which is taken off, too. */
static struct text word_of(struct text *list)
{
	const char *comma = memchr(list->at, ',', list->len);
	struct text word = { list->at, comma ? (size_t)(comma - list->at) : list->len };

	list->at += word.len + (comma != NULL);
	list->len -= word.len + (comma != NULL);
	return trim(word);
}

#define LEAK_ACCEPTED "leak:PATTERN, or a suppression of Valgrind's in { and }"

/* The line is `leak:...`. */
static int parse_leak(struct suppressions *s, struct reader *r)
{
	struct suppression one = { .kinds = SUPPRESS_LOST };
	struct text pattern = r->last;
	bool at_start, at_end;

	if (!takes(&pattern, "leak:"))
		return wrong(r, LEAK_ACCEPTED);
	at_start = takes(&pattern, "^");
	at_end = pattern.len && pattern.at[pattern.len - 1] == '$';
	pattern.len -= at_end;
	if (!pattern.len)
		return wrong(r, "there is no pattern behind 'leak:'");
	one.name = strndup(r->last.at, r->last.len);
	if (asprintf(&one.anywhere, "%s%.*s%s", at_start ? "" : "*", (int)pattern.len, pattern.at,
		     at_end ? "" : "*") < 0)
		one.anywhere = NULL;
	if (!one.name || !one.anywhere) {
		release(&one);
		return -ENOMEM;
	}
	return keep(s, &one);
}

#define KINDS_ACCEPTED "match-leak-kinds: any of definite,indirect,possible,reachable, or all, none"

static int parse_kinds(struct reader *r, struct text list, unsigned *kinds)
{
	static const struct {
		const char *word;
		unsigned kinds;
	} known[] = {
		{ "definite", SUPPRESS_DEFINITE }, { "indirect", SUPPRESS_INDIRECT },
		{ "possible", SUPPRESS_POSSIBLE }, { "reachable", SUPPRESS_REACHABLE },
		{ "all", SUPPRESS_ALL },	   { "none", 0 },
	};
	size_t n = sizeof(known) / sizeof(*known), i;

	*kinds = 0;
	do {
		struct text word = word_of(&list);

		for (i = 0; i < n && !is(word, known[i].word); i++)
			;
		if (i == n)
			return wrong(r, KINDS_ACCEPTED);
		*kinds |= known[i].kinds;
	} while (list.len);
	return 0;
}

static int parse_frame(struct suppression *one, struct reader *r)
{
	static const char *const prefix[] = { "fun:", "obj:", "src:" };
	struct text pattern = r->last;
	struct line line = { LINE_ELLIPSIS, NULL };
	unsigned i = 0;

	if (!is(pattern, "...")) {
		while (i < 3 && !takes(&pattern, prefix[i]))
			i++;
		if (i == 3 || !pattern.len)
			return wrong(r, "fun:PATTERN, obj:PATTERN, src:PATTERN, ... or }");
		line.kind = (enum line_kind)i;
		line.pattern = strndup(pattern.at, pattern.len);
	}
	if ((line.kind != LINE_ELLIPSIS && !line.pattern) ||
	    array_room(&one->line, one->lines, &one->room, sizeof(*one->line))) {
		free(line.pattern);
		return -ENOMEM;
	}
	one->line[one->lines++] = line;
	return 0;
}

/* Behind `Memcheck:Leak`, to the closing brace. */
static int parse_stack(struct suppression *one, struct reader *r)
{
	bool any = false;
	int err = 0;

	for (bool first = true; !err; first = false) {
		struct text kinds;

		if (!next_line(r))
			return wrong(r, "the file ends within { and }");
		kinds = r->last;
		if (is(r->last, "}"))
			break;
		if (first && takes(&kinds, "match-leak-kinds:"))
			err = parse_kinds(r, kinds, &one->kinds);
		else
			err = parse_frame(one, r);
		any |= one->lines && one->line[one->lines - 1].kind != LINE_ELLIPSIS;
	}
	return err || any ? err : wrong(r, "it has no frame but ..., and would match every leak");
}

/* Whether TOOLS:KIND is for leaks; *SENSE: whether it is that at all. */
static bool is_for_leaks(struct text line, bool *sense)
{
	const char *colon = memchr(line.at, ':', line.len);
	struct text tools = { line.at, colon ? (size_t)(colon - line.at) : 0 },
		    kind = { colon + 1, line.len - tools.len - 1 };
	bool memcheck = false;

	*sense = colon && tools.len && kind.len;
	while (*sense && tools.len)
		memcheck |= is(word_of(&tools), "Memcheck");
	return memcheck && is(trim(kind), "Leak");
}

/* The line is the opening brace. */
static int parse_braces(struct suppressions *s, struct reader *r)
{
	struct suppression one = { .kinds = SUPPRESS_ALL };
	bool sense;
	int err = 0;

	if (!next_line(r))
		return wrong(r, "the file ends within { and }");
	if (is(r->last, "}"))
		return wrong(r, "a name, then TOOL:KIND, then frames");
	one.name = strndup(r->last.at, r->last.len);
	if (!one.name)
		return -ENOMEM;
	if (!next_line(r)) {
		err = wrong(r, "the file ends within { and }");
	} else if (is_for_leaks(r->last, &sense)) {
		err = parse_stack(&one, r);
		if (!err)
			return keep(s, &one);
	} else if (!sense) {
		err = wrong(r, "TOOL:KIND, as Memcheck:Leak");
	} else {
		while (!err && !is(r->last, "}"))
			if (!next_line(r))
				err = wrong(r, "the file ends within { and }");
	}
	release(&one);
	return err;
}

int suppressions_parse(struct suppressions *s, const char *text, size_t len, char *why, size_t room)
{
	struct reader r = { .rest = { text, len }, .why = why, .room = room };
	int err = 0;

	if (memchr(text, '\0', len)) {
		snprintf(why, room, "it is not a text file");
		return -EINVAL;
	}
	while (!err && next_line(&r))
		err = r.last.len > LINE_MOST ? wrong(&r, "it is too long")
		      : is(r.last, "{")	     ? parse_braces(s, &r)
					     : parse_leak(s, &r);
	return err;
}

/* ---- matching ------------------------------------------------------------ */

/* Whether PATTERN is all of TEXT. * stands for any characters, ? for one if ANY_ONE. */
static bool fits(const char *pattern, const char *text, bool any_one)
{
	const char *star = NULL, *tried = NULL;

	while (*text) {
		if (*pattern == '*') {
			star = ++pattern;
			tried = text;
		} else if (*pattern == *text || (any_one && *pattern == '?')) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star;
			text = ++tried;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

#define UNKNOWN "???" /* as Valgrind has it */

static const char *file_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/*
 * The name of a function without what it is in, its parameters and template arguments.
 * *IS_TEMPLATE: it has some. False: it does not fit.
 */
static bool bare_name(const char *function, char *to, size_t room, bool *is_template)
{
	size_t depth = 0, from = 0, end = 0;

	for (; function[end] && !(function[end] == '(' && !depth); end++) {
		if (function[end] == '<')
			depth++;
		else if (function[end] == '>' && depth)
			depth--;
		else if (!depth && function[end] == ':')
			from = end + 1;
	}
	end = from + strcspn(function + from, "<(");
	if (end <= from || end - from >= room)
		return false;
	memcpy(to, function + from, end - from);
	to[end - from] = '\0';
	*is_template = function[end] == '<';
	return true;
}

/*
 * Valgrind calls a function that is inlined as DWARF does: without what it is in, but with template
 * arguments as the compiler writes them, of which nothing is asked here.
 */
static bool fits_inlined(const char *pattern, const char *function)
{
	char bare[256], cut[256];
	size_t len = strcspn(pattern, "<");
	bool is_template;

	if (!bare_name(function, bare, sizeof(bare), &is_template) || len >= sizeof(cut))
		return false;
	memcpy(cut, pattern, len);
	cut[len] = '\0';
	return fits(pattern[len] && is_template ? cut : pattern, bare, true);
}

static bool fits_function(const char *pattern, const struct suppression_frame *f)
{
	if (fits(pattern, f->frame->function, true) ||
	    (f->frame->raw && fits(pattern, f->frame->raw, true)))
		return true;
	for (size_t i = 0; i < f->aliases; i++)
		if (fits(pattern, f->alias[i], true))
			return true;
	return f->frame->inlined && fits_inlined(pattern, f->frame->function);
}

/* The file, with its directory or without, with the line or without. */
static bool fits_source(const char *pattern, const char *file, unsigned line)
{
	const char *name = file_name(file);
	char with_line[4096 + 16];

	if (fits(pattern, file, true) || fits(pattern, name, true))
		return true;
	if (strlen(file) >= 4096)
		return false;
	snprintf(with_line, sizeof(with_line), "%s:%u", file, line);
	return fits(pattern, with_line, true) || fits(pattern, with_line + (name - file), true);
}

static bool fits_frame(const struct line *l, const struct suppression_frame *f)
{
	switch (l->kind) {
	case LINE_FUN: return fits_function(l->pattern, f);
	case LINE_OBJ: return fits(l->pattern, f->frame->module ? f->frame->module : UNKNOWN, true);
	case LINE_SRC:
		return fits_source(l->pattern, f->frame->file ? f->frame->file : UNKNOWN,
				   f->frame->line);
	case LINE_ELLIPSIS: break;
	}
	return false;
}

/* The names of what Valgrind has in front of a stack. */
static const char *const c_allocators[] = { "malloc",	     "calloc",	 "realloc",
					    "reallocarray",  "memalign", "posix_memalign",
					    "aligned_alloc", "valloc",	 "pvalloc" };
static const char *const cxx_allocators[] = {
	"_Znwm",
	"_Znam",
	"_ZnwmRKSt9nothrow_t",
	"_ZnamRKSt9nothrow_t",
	"_ZnwmSt11align_val_t",
	"_ZnamSt11align_val_t",
	"_ZnwmSt11align_val_tRKSt9nothrow_t",
	"_ZnamSt11align_val_tRKSt9nothrow_t",
};
#define REPLACEMENT	   "/usr/libexec/valgrind/vgpreload_memcheck-amd64-linux.so"
#define REPLACEMENT_SOURCE "vg_replace_malloc.c"

static bool fits_any(const char *pattern, const char *const *name, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (fits(pattern, name[i], true))
			return true;
	return false;
}

static bool fits_allocator(const struct line *l, bool cxx_only)
{
	switch (l->kind) {
	case LINE_FUN:
		return fits_any(l->pattern, cxx_allocators,
				sizeof(cxx_allocators) / sizeof(*cxx_allocators)) ||
		       (!cxx_only && fits_any(l->pattern, c_allocators,
					      sizeof(c_allocators) / sizeof(*c_allocators)));
	case LINE_OBJ: return fits(l->pattern, REPLACEMENT, true);
	case LINE_SRC: return fits_source(l->pattern, REPLACEMENT_SOURCE, 0);
	case LINE_ELLIPSIS: break;
	}
	return false;
}

/* operator new, or new[], in one of its forms. */
static bool is_new(const struct suppression_frame *f)
{
	const char *raw = f->frame->raw;

	return raw && (!strncmp(raw, "_Znwm", 5) || !strncmp(raw, "_Znam", 5));
}

struct stack {
	const struct suppression_frame *frame;
	size_t count;
	/* so many functions of the allocator's in front, which are no frames of ours */
	size_t allocators;
	bool cxx_only; /* operator new only */
};

static bool fits_place(const struct line *l, const struct stack *stack, size_t i)
{
	return i < stack->allocators ? fits_allocator(l, stack->cxx_only)
				     : fits_frame(l, &stack->frame[i - stack->allocators]);
}

/* Whether the lines are the innermost part of STACK. */
static bool fits_stack(const struct suppression *s, const struct stack *stack)
{
	size_t total = stack->count + stack->allocators, i = 0, line = 0, tried = 0, behind = 0;

	while (line < s->lines) {
		if (s->line[line].kind == LINE_ELLIPSIS) {
			behind = ++line;
			tried = i;
		} else if (i < total && fits_place(&s->line[line], stack, i)) {
			line++;
			i++;
		} else if (behind && i < total) {
			line = behind;
			i = ++tried;
		} else {
			return false;
		}
	}
	return true;
}

static bool fits_valgrind(const struct suppression *s, const struct suppression_frame *frame,
			  size_t count)
{
	struct stack stack = { .frame = frame, .count = count };
	size_t news = 0;

	if (fits_stack(s, &stack))
		return true;
	while (news < count && is_new(&frame[news]))
		news++;
	stack = (struct stack){
		.frame = frame + news, .count = count - news, .allocators = 1, .cxx_only = news > 0
	};
	if (fits_stack(s, &stack))
		return true;
	stack.allocators = 2; /* posix_memalign, and what it calls */
	return fits_stack(s, &stack);
}

static bool fits_anywhere(const char *pattern, const struct suppression_frame *f)
{
	if (fits(pattern, f->frame->function, false) ||
	    (f->frame->file && fits(pattern, f->frame->file, false)) ||
	    (f->frame->module && fits(pattern, f->frame->module, false)))
		return true;
	for (size_t i = 0; i < f->aliases; i++)
		if (fits(pattern, f->alias[i], false))
			return true;
	return false;
}

static bool is_match(const struct suppression *s, enum suppression_kind kind,
		     const struct suppression_frame *frame, size_t count)
{
	if (!(s->kinds & kind))
		return false;
	if (!s->anywhere)
		return fits_valgrind(s, frame, count);
	for (size_t i = 0; i < count; i++)
		if (fits_anywhere(s->anywhere, &frame[i]))
			return true;
	return false;
}

ssize_t suppressions_match(const struct suppressions *s, enum suppression_kind kind,
			   const struct suppression_frame *frame, size_t count)
{
	for (size_t i = 0; i < s->count; i++)
		if (is_match(&s->list[i], kind, frame, count))
			return (ssize_t)i;
	return -1;
}

/* ---- writing ------------------------------------------------------------- */

#define PRINT_MOST 12 /* lines: as many callers as Valgrind keeps */

/* As a pattern that stands for it, in one line, with no space at its ends. */
static void print_pattern(FILE *out, const char *text)
{
	const char *begin = text;
	char as[ESCAPE_UNIT];

	if (!*text)
		putc('*', out);
	while (*text) {
		size_t n = escape_unit(text, as);
		bool space = *text == ' ' && (text == begin || !text[1]),
		     plain = !space && (!as[0] || *text == '\\');

		for (size_t i = 0; i < n; i++)
			putc(plain ? text[i] : '?', out);
		text += n;
	}
	putc('\n', out);
}

/* Of names alike the one with the fewest underscores in front: strdup, not __strdup. */
static const char *plainest(const struct suppression_frame *f)
{
	const char *best = f->alias[0];

	for (size_t i = 1; i < f->aliases; i++)
		if (strspn(f->alias[i], "_") < strspn(best, "_"))
			best = f->alias[i];
	return best;
}

static void print_line(FILE *out, const struct suppression_frame *f)
{
	const struct symbol_frame *s = f->frame;
	char bare[256];
	bool is_template;

	if (symbols_is_unnamed(s)) {
		fputs("   obj:", out);
		print_pattern(out, s->module ? s->module : "*");
		return;
	}
	fputs("   fun:", out);
	if (f->aliases)
		print_pattern(out, plainest(f));
	else if (s->inlined && bare_name(s->function, bare, sizeof(bare) - 1, &is_template))
		print_pattern(out, is_template ? strcat(bare, "*") : bare);
	else
		print_pattern(out, s->raw ? s->raw : s->function);
}

void suppressions_print(FILE *out, const char *name, enum suppression_kind kind,
			const struct suppression_frame *frame, size_t count)
{
	size_t i = 0;

	escape_printf(out, "{\n   %s\n   Memcheck:Leak\n   match-leak-kinds: %s\n", name,
		      kind == SUPPRESS_DEFINITE	  ? "definite"
		      : kind == SUPPRESS_INDIRECT ? "indirect"
		      : kind == SUPPRESS_POSSIBLE ? "possible"
						  : "reachable");
	while (i < count && is_new(&frame[i]))
		i++;
	fputs(i ? "   fun:_Zn?m*\n" : "   fun:*al*\n", out);
	for (size_t n = 1; i < count && n < PRINT_MOST; n++) {
		print_line(out, &frame[i]);
		if (!strcmp(frame[i++].frame->function, "main"))
			break;
	}
	fputs("}\n", out);
}

/* ---- those that come with mtrun ------------------------------------------ */

#define LOST " Memcheck:Leak\n match-leak-kinds: definite,indirect,possible\n"

static const char builtin[] =
	"{\n glibc: the last message of dlerror()\n" LOST " ...\n fun:*dlerror*\n}\n"
	"{\n glibc: thread-local variables, made when they are used first\n" LOST
	" ...\n fun:*tls_get_addr*\n}\n"
	"{\n glibc: a thread's table of thread-local variables\n" LOST
	" ...\n fun:_dl_allocate_tls*\n}\n"
	"{\n libstdc++: the pool for exceptions that are thrown when memory is short\n" LOST
	" fun:*alloc\n obj:*/libstdc++.so*\n fun:call_init*\n}\n"
	"{\n libstdc++, linked into the program: the same\n" LOST
	" ...\n fun:_GLOBAL__sub_I_eh_alloc.cc\n}\n"
	"{\n ld.so: what it knows of the libraries that are loaded\n" LOST
	" fun:*alloc\n obj:*/ld-linux*.so*\n}\n"
	"{\n tcmalloc: an object that it replaces\n" LOST
	" fun:_Zn?m\n fun:*MallocExtension*Register*\n}\n";

int suppressions_builtin(struct suppressions *s)
{
	char why[200];

	return suppressions_parse(s, builtin, sizeof(builtin) - 1, why, sizeof(why));
}
