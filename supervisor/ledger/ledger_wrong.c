// SPDX-License-Identifier: GPL-3.0-or-later
#include "ledger/ledger_state.h"

#include "inject/wire_event.h"

/*
 * Errors of the program, as the order of events per address shows them.
 *
 * A release of an address where nothing lives: what is left of a block in its place says that it
 * was freed before. Programs that were attached to free many blocks from before, each of which ends
 * up here, so only so many are looked at in a tick, and fewer where it takes long: the block that
 * an address is within may begin far below.
 *
 * A release by another family. Which family gave a block is kept by stack: one call instruction
 * calls one function. Where that is not so (a function pointer, no stack) a stack has several, and
 * its blocks are not told of.
 */
#define LOOKS	  100u /* in a tick (10 ms): some 100 ns each */
#define FAR_LOOKS 4u   /* some 100 us to a ms each with a million blocks */
#define FAR_FIRST 64u  /* those saved up at most */

void ledger_on_wrong(struct ledger *l, void (*fn)(void *ctx, const struct ledger_wrong *w),
		     void *ctx)
{
	l->on_wrong = fn;
	l->on_wrong_ctx = ctx;
	l->looks = LOOKS;
	l->far_looks = FAR_FIRST;
	l->looks_tick = l->tick;
}

bool ledger_overlaid(const struct ledger *l) { return l->overlaid; }

/* Whether one more may be looked at; FAR: at all pages. */
static bool may_look(struct ledger *l, bool far)
{
	uint32_t *left = far ? &l->far_looks : &l->looks;

	if (l->tick != l->looks_tick) {
		uint64_t more = l->far_looks + (uint64_t)(l->tick - l->looks_tick) * FAR_LOOKS;

		l->far_looks = more < FAR_FIRST ? (uint32_t)more : FAR_FIRST;
		l->looks = LOOKS;
		l->looks_tick = l->tick;
	}
	if (!*left)
		return false;
	--*left;
	return true;
}

static struct ledger_block block_was(const struct ledger *l, raddr_t addr, uint64_t size,
				     uint32_t total)
{
	return (struct ledger_block){ .address = addr,
				      .size = size,
				      .bytes = size,
				      .count = 1,
				      .stack = total_at(l, total)->id };
}

static bool freed_before(const struct ledger *l, raddr_t addr, struct ledger_freed *out)
{
	const struct freed_block *f = freed_at(&l->freed, addr);
	struct block b;
	bool left = blocks_left(&l->blocks, addr, &b);

	if (f && (!left || freed_is_last(f, &b))) {
		*out = (struct ledger_freed){
			.block = block_was(l, addr, f->size, f->total),
			.known = true,
			.thread = f->freed_owner,
			.stack = f->freed_stack,
			.ms = f->freed_tick * 10ull,
		};
		out->block.thread = f->owner;
		out->block.ms = f->tick * 10ull;
		return true;
	}
	if (left)
		*out = (struct ledger_freed){ .block = block_was(l, addr, block_size(&b),
								 block_total(&b)),
					      .thread = block_owner(&b),
					      .ms = block_tick(&b) * 10ull };
	return left;
}

void ledger_wrong_unknown(struct ledger *l, uint32_t thread, raddr_t addr, uint32_t stack,
			  unsigned family, bool resize)
{
	struct ledger_wrong w = { .kind = WRONG_NOTHING,
				  .address = addr,
				  .resize = resize,
				  .family = family,
				  .thread = thread,
				  .stack = stack,
				  .ms = l->now_ms,
				  .late = l->late };

	if (!l->on_wrong || l->sampled)
		return;
	if (may_look(l, false)) {
		if (freed_before(l, addr, &w.block)) {
			w.kind = WRONG_FREED;
			l->looks++; /* each of these counts, however many */
		} else if (stack && may_look(l, true) && ledger_find(l, addr, &w.block.block)) {
			w.kind = WRONG_WITHIN;
			w.block.known = true;
		}
	}
	l->on_wrong(l->on_wrong_ctx, &w);
}

/* The only one of SET; -1: there are several, or none. */
static int only_one(unsigned set) { return set && !(set & (set - 1)) ? __builtin_ctz(set) : -1; }

void ledger_wrong_family(struct ledger *l, uint32_t thread, raddr_t addr, const struct block *b,
			 uint32_t stack, unsigned family)
{
	int gave = only_one(total_at(l, block_total(b))->families);
	struct ledger_wrong w = { .kind = WRONG_FAMILY,
				  .address = addr,
				  .family = family,
				  .thread = thread,
				  .stack = stack,
				  .ms = l->now_ms };

	if (!l->on_wrong || gave < 0 || (unsigned)gave == family || gave == FAMILY_ANY ||
	    family == FAMILY_ANY)
		return;
	w.gave = (unsigned)gave;
	w.block.known = true;
	w.block.block = block_was(l, addr, block_size(b), block_total(b));
	w.block.block.thread = block_owner(b);
	w.block.block.ms = block_tick(b) * 10ull;
	l->on_wrong(l->on_wrong_ctx, &w);
}
