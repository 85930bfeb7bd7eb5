/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * sites.h - the stacks of one process with their symbols, remembered per node: what a node's frames
 * are, and which site a stack has. A stack is named by its leaf's node id; node 0 is "no stack".
 * Answers stay until sites_clear(). Where nodes and symbols come from is the source's business: a
 * live process now, a file later. Strings belong to the source's symbols.
 */
#ifndef MTRUN_SITES_H
#define MTRUN_SITES_H

#include "base/types.h"
#include "symbols/symbols.h"

struct sites_source {
	/*
	 * Parent of NODE, 0 at a root or for what is no node; *PC is the node's pc, 0 for a root.
	 */
	uint32_t (*parent)(void *ctx, uint32_t node, uint64_t *pc);
	struct symbol_frames (*frames)(void *ctx, uint32_t node, uint64_t pc);
	/*
	 * Whether the search for a site passes over every frame at NODE, as far as is known without
	 * its symbols: those of libc can take longer to read than all others. NULL: never known.
	 */
	bool (*passed_over)(void *ctx, uint32_t node, uint64_t pc);
	void *ctx;
	int (*rest)(void *ctx); /* sites_rest(); NULL: nothing is to be done meanwhile */
	void *rest_ctx;
};

/*
 * Where an allocation belongs: walking out from the allocator, the first frame, inlined ones
 * included, that the search does not pass over (symbol_frame.skip, wrappers); if it passes over
 * all, the outermost of them. Two stacks have one site if function, file, line and module are
 * equal.
 */
struct site {
	struct symbol_frame frame; /* of the first stack seen there */
	uint32_t hash;
};

struct sites;

struct sites *sites_new(const struct sites_source *source) MUST_USE; /* NULL: out of memory */
void sites_free(struct sites *s);
/*
 * Whether well-known wrappers are passed over, too (site_rule.h); at first they are. Where that is
 * another rule than before, everything is forgotten.
 */
void sites_pass_wrappers(struct sites *s, bool pass);
/* Forget everything: the rule for sites has changed. Site numbers are void. */
void sites_clear(struct sites *s);

/*
 * The caller of NODE, 0 when there is none (roots are left out: the outermost frame has parent 0).
 */
uint32_t sites_parent(struct sites *s, uint32_t node);
/*
 * Its pc as the source has it (with WIRE_PC_EXACT, or a pseudo-frame's: inject/wire_stack.h); 0:
 * none.
 */
uint64_t sites_pc(struct sites *s, uint32_t node);
/* The frames at NODE, innermost first; [truncated] and "no stack" are frames too. count >= 1. */
struct symbol_frames sites_frames(struct sites *s, uint32_t node);
/*
 * The address that NODE's frames are of: within the call, or what was interrupted; 0 if there is
 * none.
 */
raddr_t sites_address(struct sites *s, uint32_t node);
/*
 * Whether a question about the stack that ends in NODE needs no symbols any more: about its site,
 * or (WHOLE) about every frame.
 */
bool sites_settled(const struct sites *s, uint32_t node, bool whole);
/* Finds out what is missing for that. */
void sites_settle(struct sites *s, uint32_t node, bool whole);
/* The site of the stack that ends in NODE: a number in [1, sites_count()]. */
uint32_t sites_of(struct sites *s, uint32_t node);
/*
 * Work over many stacks calls this for each of them: now and then the source does something else
 * meanwhile (a live process is served). -EINTR: whoever has asked has had enough.
 */
int sites_rest(struct sites *s);
const struct site *sites_site(const struct sites *s, uint32_t site);
uint32_t sites_count(const struct sites *s);

#endif
