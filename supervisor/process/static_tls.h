/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * static_tls.h - where the thread-local variables of a library are, one that was loaded with the
 * program: at the same distance below the thread pointer of each thread.
 */
#ifndef MTRUN_STATIC_TLS_H
#define MTRUN_STATIC_TLS_H

#include "base/types.h"

struct module;

struct static_tls {	       /* zeros: not known */
	uint64_t below, bytes; /* from so many bytes below the thread pointer on; how many */
};

/*
 * Reads where M's are out of the memory of the process VIA, which may take a while (base/patient.h):
 * hold no lock. False, and zeros: M has none, or its code does not find them so (initial-exec).
 */
bool static_tls_find(const struct module *m, pid_t via, struct static_tls *to) MUST_USE;

#endif
