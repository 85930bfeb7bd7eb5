// SPDX-License-Identifier: GPL-3.0-or-later
#include "ledger/ledger_state.h"

#include "inject/wire_event.h"

/*
 * Mappings: which ranges of addresses are the program's own, which of them are accessible, and who
 * is charged for them. A call first cuts out of the table (ranges.h) whatever its range displaces,
 * then puts in what it made. What munmap and mremap cut out is kept in the thread's `pending` until
 * it is known that the call has not failed.
 */

#define PROT_ANY (WIRE_PROT_READ | WIRE_PROT_WRITE | WIRE_PROT_EXEC)

void ledger_grant_account(struct ledger *l, struct grant *g, uint64_t change)
{
	bool had = g->bytes != 0;
	g->bytes += change;
	mmap_change(l, g->total, change, (g->bytes != 0) - had);
}

static void pieces_gone(struct ledger *l, const struct pieces *p)
{
	for (size_t i = 0; i < p->count; i++) {
		const struct range *r = &p->piece[i];
		l->reserved -= r->end - r->start;
		if (r->open)
			ledger_grant_account(l, r->grant, -(r->end - r->start));
	}
}

static raddr_t end_of(raddr_t addr, uint64_t len)
{
	const uint64_t most = 1ull << 62;
	return addr > most || len > most ? most : (addr + len + 4095) & ~4095ull;
}

/* What was in [START, END) is not there any more. Whether anything was, or -ENOMEM. */
static int displace(struct ledger *l, raddr_t start, raddr_t end)
{
	int err = ranges_cut(&l->ranges, start, end, &l->scratch);
	if (err)
		return err;
	int any = l->scratch.count != 0;
	if (any)
		pieces_gone(l, &l->scratch);
	pieces_clear(&l->scratch);
	return any;
}

/* A call of the program's own was given [START, END), where nothing is. */
static void place(struct ledger *l, uint32_t thread, raddr_t start, raddr_t end, bool open,
		  uint32_t stack)
{
	struct grant *g = start < end ? grant_new(total_of(l, stack), thread, l->tick, open) : NULL;
	if (!g)
		return;
	if (ranges_put(&l->ranges, &(struct range){ start, end, g, open })) {
		grant_put(g);
		return;
	}
	l->reserved += end - start;
	if (open) {
		ledger_grant_account(l, g, end - start);
		mmap_granted(l, g->total, end - start, 1);
	}
}

void ledger_map(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t addr, uint64_t len,
		unsigned prot_flags, uint32_t stack, bool own)
{
	event(l, ms);
	raddr_t end = end_of(addr, len);
	if (displace(l, addr, end) < 0 || !own || !(prot_flags & WIRE_MAP_ANON))
		return;
	l->maps++;
	place(l, thread, addr, end, prot_flags & PROT_ANY, stack);
}

/* Puts back what was cut out, where nobody else has come. COUNTED: it was counted all the time. */
static void range_back(struct ledger *l, struct pending *p, bool counted)
{
	for (size_t i = 0; i < p->pieces.count; i++) {
		const struct range *piece = &p->pieces.piece[i];
		uint64_t put = 0;
		for (raddr_t at = piece->start; at < piece->end;) {
			const struct range *next = ranges_from(&l->ranges, at);
			struct range gap = { at,
					     next && next->start < piece->end ? next->start
									      : piece->end,
					     piece->grant, piece->open };
			at = next && next->start < piece->end ? next->end : piece->end;
			if (gap.start >= gap.end)
				continue;
			gap.grant->refs++;
			if (ranges_put(&l->ranges, &gap))
				grant_put(gap.grant);
			else
				put += gap.end - gap.start;
		}
		uint64_t change = counted ? put - (piece->end - piece->start) : put;
		l->reserved += change;
		if (piece->open && change)
			ledger_grant_account(l, piece->grant, change);
	}
	pieces_clear(&p->pieces);
	p->range = NOTHING;
}

/* The thread's record for a mapping call that begins now. */
static struct pending *range_begin(struct ledger *l, uint32_t thread)
{
	struct pending *p = ledger_pending_make(l, thread);
	if (p && p->range == REMAPPING) /* its outcome never came */
		range_back(l, p, true);
	if (p)
		pieces_clear(&p->pieces);
	return p;
}

void ledger_unmap(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t addr, uint64_t len)
{
	event(l, ms);
	struct pending *p = range_begin(l, thread);
	if (!p)
		return;
	p->range = NOTHING;
	if (!ranges_cut(&l->ranges, addr, end_of(addr, len), &p->pieces) && p->pieces.count) {
		pieces_gone(l, &p->pieces);
		l->unmaps++;
		p->range = UNMAPPED;
	}
	ledger_pending_rest(l, p);
}

void ledger_unmap_failed(struct ledger *l, uint32_t thread, uint64_t ms)
{
	event(l, ms);
	struct pending *p = pending_of(l, thread);
	if (!p || p->range != UNMAPPED)
		return;
	l->unmaps--;
	range_back(l, p, false);
	ledger_pending_rest(l, p);
}

void ledger_remap_leave(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t old,
			uint64_t old_len)
{
	event(l, ms);
	struct pending *p = range_begin(l, thread);
	if (!p)
		return;
	const struct range *r = ranges_from(&l->ranges, old);
	p->range = REMAPPING;
	p->own = r && r->start <= old;
	p->open = p->own && r->open;
	/* 0: a second view of a shared mapping */
	if (old_len && ranges_cut(&l->ranges, old, end_of(old, old_len), &p->pieces))
		p->own = false;
}

void ledger_remap(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t addr, uint64_t len,
		  uint32_t stack)
{
	event(l, ms);
	struct pending *p = pending_of(l, thread);
	bool ours = p && p->range == REMAPPING && p->own, open = ours && p->open;
	if (p && p->range == REMAPPING) {
		pieces_gone(l, &p->pieces);
		l->unmaps += p->pieces.count != 0;
		pieces_clear(&p->pieces);
		p->range = NOTHING;
		ledger_pending_rest(l, p);
	}
	if (displace(l, addr, end_of(addr, len)) < 0 || !ours)
		return;
	l->maps++;
	place(l, thread, addr, end_of(addr, len), open, stack);
}

void ledger_remap_failed(struct ledger *l, uint32_t thread, uint64_t ms)
{
	event(l, ms);
	struct pending *p = pending_of(l, thread);
	if (!p || p->range != REMAPPING)
		return;
	range_back(l, p, true);
	ledger_pending_rest(l, p);
}

/*
 * The bytes of a mapping that was never accessible are charged to the mprotect that makes them so,
 * others to whom they were before.
 */
void ledger_protect(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t addr, uint64_t len,
		    unsigned prot, uint32_t stack)
{
	event(l, ms);
	bool open = prot & PROT_ANY;
	struct grant *grant = NULL;
	uint64_t granted = 0;
	if (ranges_cut(&l->ranges, addr, end_of(addr, len), &l->scratch))
		return;
	for (size_t i = 0; i < l->scratch.count; i++) {
		struct range r = l->scratch.piece[i];
		uint64_t bytes = r.end - r.start;
		if (r.open && !open) {
			ledger_grant_account(l, r.grant, -bytes);
		} else if (!r.open && open) {
			if (!r.grant->charged) {
				if (!grant)
					grant = grant_new(total_of(l, stack), thread, l->tick,
							  true);
				if (grant)
					r.grant = grant;
				granted += bytes;
			}
			ledger_grant_account(l, r.grant, bytes);
		}
		r.open = open;
		r.grant->refs++;
		if (ranges_put(&l->ranges, &r)) {
			l->reserved -= bytes;
			if (open)
				ledger_grant_account(l, r.grant, -bytes);
			grant_put(r.grant);
		}
	}
	if (grant) {
		mmap_granted(l, grant->total, granted, 1);
		grant_put(grant);
	}
	pieces_clear(&l->scratch);
}

void ledger_break(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t now, raddr_t old,
		  uint32_t stack, bool own)
{
	event(l, ms);
	if (now < old) {
		l->unmaps += displace(l, now, old) > 0;
		return;
	}
	if (displace(l, old, now) >= 0 && own && now > old) {
		l->maps++;
		place(l, thread, old, now, true, stack);
	}
}

void ledger_cover(const struct ledger *l, raddr_t addr, uint64_t len, struct ledger_cover *out)
{
	raddr_t end = end_of(addr, len);
	*out = (struct ledger_cover){ 0 };
	for (const struct range *r = ranges_from(&l->ranges, addr);
	     r && (r->start < end || r->start <= addr); r = ranges_from(&l->ranges, r->end)) {
		raddr_t from = r->start > addr ? r->start : addr, to = r->end < end ? r->end : end;
		if (r->start <= addr)
			out->begins_open = r->open;
		*(r->open ? &out->open : &out->closed) += from < to ? to - from : 0;
	}
}
