// SPDX-License-Identifier: GPL-3.0-or-later
#include "symbols/short_name.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"

/*
 * short_name.c - one pass over a demangled name, in which only brackets are understood.
 *
 * Template arguments that the standard's templates have by default (allocators, comparisons,
 * hashes, deleters, traits) are left out where nothing else follows them: that is what has been
 * written in the source. Arguments within arguments within arguments are an ellipsis. A name comes
 * from the target and may be anything: one whose brackets do not match is left as it is, and
 * nothing here recurs deeper than DEEPEST.
 */

#define DEEPEST 2  /* levels of template arguments that are shown */
#define MOST	32 /* arguments of one template that are looked at singly */

struct shortening {
	enum short_name level;
	bool unicode;
	char *text;
	size_t len, room;
	bool failed;
};

static void add(struct shortening *s, const char *text, size_t len)
{
	for (size_t i = 0; i < len && !s->failed; i++) {
		s->failed = array_room(&s->text, s->len + 1, &s->room, 1);
		if (!s->failed)
			s->text[s->len++] = text[i];
	}
}

static void add_text(struct shortening *s, const char *text) { add(s, text, strlen(text)); }

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* How long `operator<<` & co. at P are, BEGIN being the name's; 0: it is none of them. */
static size_t operator_at(const char *begin, const char *p)
{
	static const char *const signs[] = { "<<=", "<=>", ">>=", "->*", "<<", ">>", "<=",
					     ">=",  "->",  "()",  "[]",	 "<",  ">" };

	if (strncmp(p, "operator", 8) || (p > begin && is_word(p[-1])))
		return 0;
	for (size_t i = 0; i < sizeof(signs) / sizeof(*signs); i++)
		if (text_begins(p + 8, signs[i]))
			return 8 + strlen(signs[i]);
	return 0;
}

/* Behind the bracket that closes the one at P, before END. NULL: there is none. */
static const char *matching(const char *begin, const char *p, const char *end)
{
	char closing = *p == '<' ? '>' : *p == '(' ? ')' : *p == '{' ? '}' : ']';
	size_t depth = 0, n;

	for (; p < end; p++) {
		if ((n = operator_at(begin, p)))
			p += n - 1;
		else if (strchr("<({[", *p))
			depth++;
		else if (strchr(")}]", *p) || (*p == '>' && p[-1] != '-')) {
			if (--depth == 0)
				return *p == closing ? p + 1 : NULL;
		}
	}
	return NULL;
}

struct part {
	const char *begin, *end;
};

/* The arguments between BEGIN and END. How many, at most MOST; 0: more. */
static size_t split(const char *begin, const char *end, struct part part[MOST])
{
	size_t n = 0;

	for (const char *p = begin, *from = begin;; p++) {
		size_t op = p < end ? operator_at(begin, p) : 0;

		if (op) {
			p += op - 1;
		} else if (p < end && strchr("<({[", *p)) {
			p = matching(begin, p, end);
			if (!p)
				return 0;
			p--;
		} else if (p >= end || *p == ',') {
			if (n == MOST)
				return 0;
			part[n] = (struct part){ from, p };
			while (part[n].end > from && part[n].end[-1] == ' ')
				part[n].end--;
			n++;
			from = p + 1;
			while (from < end && *from == ' ')
				from++;
			if (p >= end)
				return n;
		}
	}
}

static bool begins(const struct part *p, const char *text)
{
	size_t n = strlen(text);

	return (size_t)(p->end - p->begin) >= n && !strncmp(p->begin, text, n);
}

static bool is_default(const struct part *p)
{
	static const char *const defaults[] = { "std::allocator<",
						"std::less<",
						"std::hash<",
						"std::equal_to<",
						"std::default_delete<",
						"std::char_traits<",
						"std::__1::allocator<",
						"std::__1::less<",
						"std::__1::hash<",
						"std::__1::equal_to<",
						"std::__1::default_delete<",
						"std::__1::char_traits<" };

	for (size_t i = 0; i < sizeof(defaults) / sizeof(*defaults); i++)
		if (begins(p, defaults[i]))
			return true;
	return false;
}

/* `std::basic_string<char>` is `std::string`: the name before was just added. */
static bool is_char_of_basic(struct shortening *s, const struct part *first, size_t n)
{
	static const char basic[] = "std::basic_";
	size_t at = s->len;

	if (n != 1 || first->end - first->begin != 4 || strncmp(first->begin, "char", 4))
		return false;
	while (at && is_word(s->text[at - 1]))
		at--;
	if (at < 5 || s->len - at < 7 || strncmp(s->text + at - 5, basic, sizeof(basic) - 1))
		return false;
	memmove(s->text + at, s->text + at + 6, s->len - at - 6);
	s->len -= 6;
	return true;
}

static bool shorten(struct shortening *s, const char *begin, const char *end, unsigned depth);

/* What is in the brackets `<` ... `>` of BEGIN and END. */
static bool arguments(struct shortening *s, const char *begin, const char *end, unsigned depth)
{
	struct part part[MOST];
	size_t n = split(begin + 1, end - 1, part), all = n;

	while (n > 1 && is_default(&part[n - 1]))
		n--;
	if (all && is_char_of_basic(s, part, n))
		return true;
	if (!n || depth >= DEEPEST || (s->level >= SHORT_ARGUMENTS && end - begin > 2)) {
		add_text(s, s->unicode ? "\342\200\271\342\200\246\342\200\272" : "<...>");
		return true;
	}
	add_text(s, "<");
	for (size_t i = 0; i < n; i++) {
		add_text(s, i ? ", " : "");
		if (!shorten(s, part[i].begin, part[i].end, depth + 1))
			return false;
	}
	add_text(s, ">");
	return true;
}

/* `{lambda(auto:1)#2}` is `{lambda#2}`, `{lambda(int)}` is `{lambda}`. */
static void braces(struct shortening *s, const char *begin, const char *end)
{
	const char *behind = strncmp(begin, "{lambda(", 8) ? NULL : matching(begin, begin + 7, end);

	if (behind && (*behind == '#' || *behind == '}')) {
		add_text(s, "{lambda");
		begin = behind;
	}
	add(s, begin, (size_t)(end - begin));
}

static bool is_inline_namespace(const struct shortening *s, const char *p, size_t *len)
{
	*len = !strncmp(p, "__cxx11::", 9) ? 9 : !strncmp(p, "__1::", 5) ? 5 : 0;
	return *len && s->len >= 5 && !strncmp(s->text + s->len - 5, "std::", 5);
}

/* Parameters and the like, up to END; `(anonymous namespace)` is a name. */
static bool parentheses(struct shortening *s, const char *begin, const char *end, unsigned depth)
{
	bool name = !strncmp(begin, "(anonymous namespace)", 21);

	if (s->level >= SHORT_PARAMETERS && !depth && !name && end - begin > 2) {
		add_text(s, s->unicode ? "(\342\200\246)" : "(...)");
		return true;
	}
	if (name || depth > DEEPEST) {
		add(s, begin, (size_t)(end - begin));
		return true;
	}
	add_text(s, "(");
	if (!shorten(s, begin + 1, end - 1, depth + 1))
		return false;
	add_text(s, ")");
	return true;
}

static bool shorten(struct shortening *s, const char *begin, const char *end, unsigned depth)
{
	size_t n;

	for (const char *p = begin, *close; p < end && !s->failed;) {
		if ((n = operator_at(begin, p))) {
			add(s, p, n);
			p += n;
		} else if (is_inline_namespace(s, p, &n)) {
			p += n;
		} else if (strchr("<({[", *p)) {
			close = matching(p, p, end);
			if (!close)
				return false;
			if (*p == '<' && !arguments(s, p, close, depth))
				return false;
			if (*p == '(' && !parentheses(s, p, close, depth))
				return false;
			if (*p == '{')
				braces(s, p, close);
			if (*p == '[' && strncmp(p, "[abi:", 5))
				add(s, p, (size_t)(close - p));
			p = close;
		} else {
			add(s, p++, 1);
		}
	}
	return true;
}

char *short_name(const char *function, enum short_name level, bool unicode)
{
	struct shortening s = { .level = level, .unicode = unicode };
	size_t len = strlen(function);

	if (!strpbrk(function, "<({") || !shorten(&s, function, function + len, 0) || s.failed) {
		free(s.text);
		return s.failed ? NULL : strdup(function);
	}
	add(&s, "", 1);
	return s.text;
}
