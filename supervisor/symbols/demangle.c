// SPDX-License-Identifier: GPL-3.0-or-later
#include "symbols/demangle.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/*
 * demangle.c - readable names, by libiberty, and roots of mangled names, by ourselves.
 *
 * Which namespace a function is in cannot be told safely from the readable name: template
 * arguments, lambdas and conversion operators put other names first. In the mangled name it is
 * always at the front, so demangle_root() reads it there.
 */

/*
 * Longer names are shown as they are: they come from generated code, and demangling them may take
 * very long.
 */
#define NAME_MAX_RAW 16384
/*
 * A name may refer back to its own parts: forty bytes more can double it ten times over. So a short
 * one, which whoever writes a symbol table is free to make up, could be terabytes long.
 */
#define NAME_MAX_TEXT  (64u << 10)
#define NAME_MAX_PARTS (64u << 10)
/* libiberty's own bound, for its stack: it does not keep it where a tree is asked for */
#define CXX_MAX_RAW    1024
#define NAME_MAX_DEPTH 8192u
#define D_MAX_TEXT     (4u << 20)

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/*
 * Legacy Rust mangling is Itanium's with a hash as the last name: 17h, 16 hex digits, E; the
 * compiler may add .llvm.NNN.
 */
static bool is_legacy_rust(const char *raw)
{
	const char *p = raw;

	while ((p = strstr(p, "17h"))) {
		p += 3;
		if (strspn(p, "0123456789abcdef") == 16 && p[16] == 'E' && (!p[17] || p[17] == '.'))
			return true;
	}
	return false;
}

enum mangling demangle_kind(const char *raw)
{
	if (raw[0] != '_')
		return MANGLING_NONE;
	if (raw[1] == 'Z')
		return raw[2] == 'N' && is_legacy_rust(raw) ? MANGLING_RUST : MANGLING_CXX;
	if (raw[1] == 'R' && raw[2] >= 'A' && raw[2] <= 'Z')
		return MANGLING_RUST;
	if (raw[1] == 'D' && (is_digit(raw[2]) || !strcmp(raw, "_Dmain")))
		return MANGLING_D;
	return MANGLING_NONE;
}

/* ---- no longer than it may be -------------------------------------------- */

struct collected {
	jmp_buf too_long;
	size_t len;
	char text[NAME_MAX_TEXT];
};

/*
 * Whoever calls this has no way to be told to stop, and holds nothing (Rust's: a few bytes, while
 * it writes a name in Punycode).
 */
static void collect(const char *piece, size_t len, void *opaque)
{
	struct collected *c = opaque;

	if (len >= sizeof(c->text) - c->len)
		longjmp(c->too_long, 1);
	if (len) /* else PIECE may be NULL */
		memcpy(c->text + c->len, piece, len);
	c->len += len;
}

/*
 * Whether TREE, in which a part that is referred to stands once, has no more than *LEFT parts where
 * each stands as often as it is written. Some of what libiberty does with it writes nothing.
 */
static bool has_few_parts(const struct demangle_component *tree, unsigned depth, unsigned *left)
{
	for (; tree; tree = tree->u.s_binary.right) {
		const struct demangle_component *part = tree->u.s_binary.left;

		if (!depth || !*left)
			return false;
		--*left;
		switch (tree->type) {
		case DEMANGLE_COMPONENT_NAME:
		case DEMANGLE_COMPONENT_OPERATOR:
		case DEMANGLE_COMPONENT_BUILTIN_TYPE:
		case DEMANGLE_COMPONENT_EXTENDED_BUILTIN_TYPE:
		case DEMANGLE_COMPONENT_SUB_STD:
		case DEMANGLE_COMPONENT_TEMPLATE_PARAM:
		case DEMANGLE_COMPONENT_FUNCTION_PARAM:
		case DEMANGLE_COMPONENT_CHARACTER:
		case DEMANGLE_COMPONENT_NUMBER:
		case DEMANGLE_COMPONENT_UNNAMED_TYPE: return true;
		case DEMANGLE_COMPONENT_EXTENDED_OPERATOR:
			return has_few_parts(tree->u.s_extended_operator.name, depth - 1, left);
		case DEMANGLE_COMPONENT_FIXED_TYPE:
			return has_few_parts(tree->u.s_fixed.length, depth - 1, left);
		case DEMANGLE_COMPONENT_CTOR:
			return has_few_parts(tree->u.s_ctor.name, depth - 1, left);
		case DEMANGLE_COMPONENT_DTOR:
			return has_few_parts(tree->u.s_dtor.name, depth - 1, left);
		case DEMANGLE_COMPONENT_LAMBDA:
		case DEMANGLE_COMPONENT_DEFAULT_ARG:
			return has_few_parts(tree->u.s_unary_num.sub, depth - 1, left);
		default:
			if (!has_few_parts(part, depth - 1, left))
				return false;
		}
	}
	return true;
}

/* Whether C has all of it. */
static int print_tree(struct demangle_component *tree, int options, struct collected *c)
{
	if (setjmp(c->too_long))
		return 0;
	return cplus_demangle_print_callback(options, tree, collect, c);
}

static int print_rust(const char *raw, int options, struct collected *c)
{
	if (setjmp(c->too_long))
		return 0;
	return rust_demangle_callback(raw, options, collect, c);
}

/*
 * Names in expressions can be read in two ways, and a tree is made of the first alone. What is
 * looked through without a word is the pattern of a pack, for each reference in it twice.
 */
#define PACK_REFERENCES 12

static bool has_large_pack(const char *raw)
{
	unsigned n = 0;

	for (const char *p = strchr(raw, 'S'); p; p = strchr(p + 1, 'S'))
		n++;
	return n > PACK_REFERENCES && (strstr(raw, "Dp") || strstr(raw, "sp"));
}

static int print_treeless(const char *raw, int options, struct collected *c)
{
	if (has_large_pack(raw))
		return 0;
	if (setjmp(c->too_long))
		return 0;
	return cplus_demangle_v3_callback(raw, options, collect, c);
}

static int print_cxx(const char *raw, int options, struct collected *c)
{
	unsigned left = NAME_MAX_PARTS;
	struct demangle_component *tree;
	void *memory = NULL;
	int done;

	if (strlen(raw) > CXX_MAX_RAW)
		return 0;
	tree = cplus_demangle_v3_components(raw, options, &memory);
	done = tree && has_few_parts(tree, NAME_MAX_DEPTH, &left) && print_tree(tree, options, c);
	free(memory);
	return tree ? done : print_treeless(raw, options, c);
}

static char *printed(const char *raw, int options, int (*fn)(const char *, int, struct collected *))
{
	struct collected *c = malloc(sizeof(*c));
	char *text = NULL;

	if (!c)
		return NULL;
	c->len = 0;
	if (fn(raw, options, c))
		text = strndup(c->text, c->len);
	free(c);
	return text;
}

/* What the Q at AT refers to: so many bytes before it, in digits to the base of 26. */
static const char *d_reference(const char *raw, const char *at)
{
	const char *p = at + 1;
	size_t back = 0;

	while (*p >= 'A' && *p <= 'Z' && back < NAME_MAX_RAW)
		back = back * 26 + (size_t)(*p++ - 'A');
	if (*p < 'a' || *p > 'z')
		return NULL;
	back = back * 26 + (size_t)(*p - 'a');
	return back && back <= (size_t)(at - raw) ? at - back : NULL;
}

/*
 * D's come whole. A reference to a type doubles the text at most; one to an identifier adds that.
 */
static bool d_is_long(const char *raw)
{
	uint64_t most = strlen(raw);

	for (const char *p = strchr(raw, 'Q'); p && most <= D_MAX_TEXT; p = strchr(p + 1, 'Q')) {
		const char *to = d_reference(raw, p);

		if (to && !is_digit(*to))
			most *= 2;
	}
	return most > D_MAX_TEXT;
}

static char *demangled(const char *raw, int params)
{
	enum mangling kind = demangle_kind(raw);
	char *text;

	if (kind == MANGLING_NONE || strlen(raw) > NAME_MAX_RAW)
		return NULL;
	switch (kind) {
	case MANGLING_RUST: text = printed(raw, params | DMGL_ANSI, print_rust); break;
	case MANGLING_D:
		text = d_is_long(raw) ? NULL : dlang_demangle(raw, params | DMGL_ANSI);
		break;
	default: text = printed(raw, params | DMGL_ANSI | DMGL_RET_DROP, print_cxx);
	}
	if (text && !*text) { /* a Rust crate without a name, "_RC0_": not readable */
		free(text);
		text = NULL;
	}
	return text;
}

char *demangle(const char *raw) { return demangled(raw, DMGL_PARAMS); }

char *demangle_name(const char *raw)
{
	char *text = demangled(raw, 0);

	if (text && demangle_kind(raw) == MANGLING_D) /* libiberty writes them in any case */
		text[strcspn(text, "(")] = '\0';
	return text;
}

/* The identifier at P: decimal length, then that many bytes. */
static const char *source_name(const char *p, size_t *len)
{
	size_t n = 0;

	while (is_digit(*p) && n < NAME_MAX_RAW)
		n = n * 10 + (size_t)(*p++ - '0');
	if (n == 0 || strnlen(p, n) < n)
		return NULL;
	*len = n;
	return p;
}

static const char *skip_offset(const char *p)
{
	if (*p == 'n')
		p++;
	while (is_digit(*p))
		p++;
	return *p == '_' ? p + 1 : p;
}

/* A call offset of a thunk: h NUMBER _ or v NUMBER _ NUMBER _. */
static const char *skip_call_offset(const char *p)
{
	if (*p == 'h')
		return skip_offset(p + 1);
	if (*p == 'v')
		return skip_offset(skip_offset(p + 1));
	return p;
}

/*
 * To where the encoding of the function proper begins: past thunk and clone prefixes, and into the
 * function that a local name is in.
 */
static const char *itanium_encoding(const char *p)
{
	if (*p == 'T' && (p[1] == 'h' || p[1] == 'v'))
		p = skip_call_offset(p + 1);
	else if (*p == 'T' && p[1] == 'c')
		p = skip_call_offset(skip_call_offset(p + 2));
	else if (!strncmp(p, "GTt", 3) || !strncmp(p, "GTn", 3))
		p += 3;
	while (*p == 'Z')
		p++;
	return p;
}

static const char *itanium_root(const char *p, size_t *len)
{
	p = itanium_encoding(p);
	if (*p == 'N') {
		p++;
		while (*p && strchr("rVKROH", *p))
			p++;
	}
	if (*p == 'S' && p[1] && strchr("tabsiod", p[1])) {
		*len = 3;
		return "std";
	}
	if (*p == 'L') /* internal linkage */
		p++;
	return is_digit(*p) ? source_name(p, len) : NULL;
}

/*
 * A legacy Rust name's first part may be a type in brackets, as in
 * _$LT$alloc..vec..Vec$LT$T$GT$$u20$as...: then the readable name must tell.
 */
static const char *legacy_rust_root(const char *p, size_t *len)
{
	const char *name = source_name(p + 1, len);

	if (!name || memchr(name, '$', *len) || memmem(name, *len, "..", 2))
		return NULL;
	return name;
}

static const char *skip_disambiguator(const char *p)
{
	if (*p != 's')
		return p;
	p += 1 + strspn(p + 1, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
	return *p == '_' ? p + 1 : p;
}

/*
 * v0 paths nest to the left: N <namespace> <path> <name>, I <path> <args>, X and M (impls) <the
 * path the impl is in>, C <crate>.
 */
static const char *rust_root(const char *p, size_t *len)
{
	for (;;) {
		switch (*p) {
		case 'N':
			if (!p[1])
				return NULL;
			p += 2;
			break;
		case 'I': p++; break;
		case 'X':
		case 'M': p = skip_disambiguator(p + 1); break;
		case 'C':
			p = skip_disambiguator(p + 1);
			p = source_name(p, len);
			/*
			 * Names that begin with a digit or an underscore have a separator in front,
			 * which the length does not count.
			 */
			if (p && *p == '_')
				return strnlen(p, *len + 1) > *len ? p + 1 : NULL;
			return p;
		default: /* Y (a trait's own method) and back references */ return NULL;
		}
	}
}

const char *demangle_root(const char *raw, size_t *len)
{
	switch (demangle_kind(raw)) {
	case MANGLING_CXX: return itanium_root(raw + 2, len);
	case MANGLING_RUST:
		return raw[1] == 'R' ? rust_root(raw + 2, len) : legacy_rust_root(raw + 2, len);
	default: return NULL;
	}
}
