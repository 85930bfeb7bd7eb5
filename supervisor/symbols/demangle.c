/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * demangle.c - readable names, by libiberty, and roots of mangled names, by ourselves.
 *
 * Which namespace a function is in cannot be told safely from the readable name: template
 * arguments, lambdas and conversion operators put other names first. In the mangled name it is
 * always at the front, so demangle_root() reads it there.
 */
#include "symbols/demangle.h"

#include <libiberty/demangle.h>
#include <stdlib.h>
#include <string.h>

/*
 * Longer names are shown as they are: they come from generated code, and demangling them may take
 * very long.
 */
#define NAME_MAX_RAW 16384

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

static char *demangled(const char *raw, int params)
{
	enum mangling kind = demangle_kind(raw);
	char *text;

	if (kind == MANGLING_NONE || strlen(raw) > NAME_MAX_RAW)
		return NULL;
	switch (kind) {
	case MANGLING_RUST: text = rust_demangle(raw, params | DMGL_ANSI); break;
	case MANGLING_D: text = dlang_demangle(raw, params | DMGL_ANSI); break;
	default: text = cplus_demangle_v3(raw, params | DMGL_ANSI | DMGL_RET_DROP);
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
