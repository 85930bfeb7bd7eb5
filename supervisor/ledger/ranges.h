/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * ranges.h - the program's own mappings, by range: sorted, never overlapping, cut wherever a call
 * says so.
 *
 * A grant is one call that made bytes accessible (mmap, mremap, mprotect, brk); its bytes may lie
 * in several ranges later on. Ranges hold references to their grants; so do the pieces that were
 * cut out, until they are put back or dropped.
 */
#ifndef MTRUN_RANGES_H
#define MTRUN_RANGES_H

#include "base/types.h"

struct grant {
	uint32_t refs;
	uint32_t total, thread, tick; /* of the call that is charged, as the ledger keeps them */
	/* false: reserved only (PROT_NONE), nobody is charged yet; `total` is mmap's */
	bool charged;
	uint64_t bytes;	    /* accessible now; the ledger's */
	struct grant *twin; /* while a table is copied: the copy */
};

struct range {
	raddr_t start, end;
	struct grant *grant;
	bool open; /* accessible */
};

struct pieces { /* what was cut out, ascending; each holds a reference */
	struct range *piece;
	size_t count, room;
};

struct range_leaf;
struct ranges {
	struct range_leaf **leaf; /* each sorted and not empty, and so is the row of them */
	size_t leaves, room;
	size_t count;
};

void ranges_release(struct ranges *r);
/*
 * Cuts [START, END) out of everything and appends it to OUT (NULL: dropped). 0, or -ENOMEM with
 * nothing changed.
 */
int ranges_cut(struct ranges *r, raddr_t start, raddr_t end, struct pieces *out) MUST_USE;
/*
 * Puts PIECE in, with its reference. Nothing may be there. It joins neighbours of the same grant. 0
 * or -ENOMEM.
 */
int ranges_put(struct ranges *r, const struct range *piece) MUST_USE;
/* The first range that ends above ADDR, or NULL. */
const struct range *ranges_from(const struct ranges *r, raddr_t addr);
size_t ranges_memory(const struct ranges *r);

struct grant *grant_new(uint32_t total, uint32_t thread, uint32_t tick, bool charged) MUST_USE;
void grant_put(struct grant *g);
void pieces_clear(struct pieces *p); /* drops the references; the memory stays */
void pieces_release(struct pieces *p);

#endif
