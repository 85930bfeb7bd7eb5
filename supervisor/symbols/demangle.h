/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * demangle.h - readable names of C++, Rust and D functions, and the namespace that a mangled name
 * is in. Pure functions over strings; whatever a file may hold as a name is accepted.
 */
#ifndef MTRUN_DEMANGLE_H
#define MTRUN_DEMANGLE_H

#include "base/types.h"

/*
 * RAW as people write it: with parameters and template arguments, without the return type; Rust
 * without its hash. The caller frees it. NULL: RAW is no mangled name (C), or there is no memory.
 */
char *demangle(const char *raw) MUST_USE;
/*
 * Without its own parameters, which are not even parsed: less than half the time. Otherwise the
 * same.
 */
char *demangle_name(const char *raw) MUST_USE;

enum mangling { MANGLING_NONE, MANGLING_CXX, MANGLING_RUST, MANGLING_D };
enum mangling demangle_kind(const char *raw);

/*
 * The outermost namespace (C++) or crate (Rust) that the function RAW is defined in; functions and
 * closures inside a function belong where that function does. "std" also for the abbreviations St,
 * Sa, Ss.... Points into RAW (or to a constant), *LEN bytes long; NULL if there is none or it
 * cannot be told from the mangled name alone.
 */
const char *demangle_root(const char *raw, size_t *len);

#endif
