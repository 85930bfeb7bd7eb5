/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * heapfile.h - .heap files: one profile with all that is needed to look at it elsewhere, without
 * the program. The first part is the text that gperftools writes, which jeprof, google-pprof and
 * go's pprof read; behind it, in lines that those pass over, are the symbols (mtrun-heap(5)).
 */
#ifndef MTRUN_HEAPFILE_H
#define MTRUN_HEAPFILE_H

#include <stdio.h>

#include "base/types.h"
#include "process/marks.h"
#include "process/preattach.h"
#include "process/profile.h"
#include "report/sites.h"
#include "report/stacks.h"
#include "symbols/module.h"

#define HEAP_VERSION 1u

/*
 * What a file says beside its profile. Of heap_write() everything is borrowed; of heap_read() all
 * belongs to the struct heap.
 */
struct heap_facts {
	pid_t pid;
	const char *command, *exe; /* NULL: unknown */
	const char *why;	   /* "u1", "f", ...; never NULL */
	uint64_t clock_ms;	   /* when, since 1970 */
	/* bytes between two samples on average; 0: every allocation */
	uint64_t sample;
	unsigned counted;	/* LEDGER_COUNT_*: which kinds are in it */
	uint64_t peak, peak_ms; /* bytes, ms since tracing began */
	bool limit_hit;		/* it was written at a hit of the limit: */
	uint64_t request, allocated, limit;
	uint32_t request_stack; /* 0: none */
	struct preattach_heap preattach;
	const struct marks *marks;
	const struct modules *modules;
};

/* P by stack, SITES: its stacks, their symbols known. Errors are OUT's. 0 or -ENOMEM. */
int heap_write(FILE *out, const struct heap_facts *facts, const struct profile *p,
	       struct sites *sites) MUST_USE;

/* One that was read; it may be jemalloc's or gperftools' (heapfile_import.h). */
struct heap {
	struct heap_facts facts; /* its marks and modules are the following */
	struct profile profile;	 /* by stack; ms since tracing began */
	struct stacks *stacks;
	struct modules modules;
	struct marks marks;
	char *text; /* the file; strings are in it */
	/* who wrote it ("jemalloc"), names being looked up in the files here; NULL: mtrun */
	const char *foreign;
	struct symbols *symbols; /* then their strings are in it */
	struct outside *outside;
	uid_t owner;		    /* the file's; OUTSIDE_OURS (outside.h): there was none */
	struct symbol_frame *frame; /* all lines */
	size_t frames;
};

/*
 * 0 or -EINVAL, with what is wrong with it in WHY (one line, without the path); also if it cannot
 * be read.
 */
int heap_read(struct heap *h, const char *path, char *why, size_t len) MUST_USE;
/*
 * heap_read() of TEXT[SIZE], which is taken over, also on errors, and has room for one more byte;
 * OWNER: of the file that it is from.
 */
int heap_parse(struct heap *h, char *text, size_t size, uid_t owner, char *why,
	       size_t len) MUST_USE;
void heap_release(struct heap *h);
/* As symbols_site_skip(). */
int heap_site_skip(struct heap *h, const char *regex, const char **error) MUST_USE;

#endif
