// SPDX-License-Identifier: GPL-3.0-or-later
#include "hook_map.h"

/*
 * hook_map.c - what happens around each function that maps, unmaps, moves or protects memory, or
 * moves the break.
 */

static void emit_map(struct scope s, enum wire_kind kind, uint64_t address, uint64_t length,
		     uint32_t flags, uint32_t stack)
{
	struct wire_signal_event *place = NULL;

	if (!begin_event(s, &place))
		return;
	if (kind != WIRE_REMAP_LEAVE) /* the call is still to come */
		settles_next(s);
	emit_wide(s, place, wire_pack(kind, address, 0, flags, stack), length, take_ticket());
}

uint64_t current_break(void)
{
	long now = own_call(__NR_brk, 0, 0, 0, 0);

	return now > 0 ? (uint64_t)now : 0;
}

static void forget(uint64_t addr, uint64_t length)
{
	uint64_t end;

	if (length && addr < 1ull << WIRE_ADDRESS_BITS)
		stacks_forget(addr,
			      __builtin_add_overflow(addr, pages(length), &end) ? UINT64_MAX : end);
}

/* The break is about to be ADDR; it is OLD, or that is 0: not known. */
static void forget_break(uint64_t addr, uint64_t old)
{
	if (addr && (!old || addr < old))
		forget(addr, old ? old - addr : 1ull << WIRE_ADDRESS_BITS);
}

void memory_leaves(uint64_t nr, const uint64_t *a)
{
	switch (nr) {
	case __NR_mmap:
		if (a[3] & K_MAP_FIXED)
			forget(a[0], a[1]);
		break;
	case __NR_mremap:
		/*
		 * also if it stays mapped (MREMAP_DONTUNMAP): its pages are gone, and a read may
		 * wait for a userfaultfd
		 */
		forget(a[0], a[1]);
		if (a[3] & K_MREMAP_FIXED)
			forget(a[4], a[2]);
		break;
	case __NR_munmap: forget(a[0], a[1]); break;
	case __NR_mprotect:
		if (!(a[2] & WIRE_PROT_READ))
			forget(a[0], a[1]);
		break;
	case __NR_brk:
		if (a[0])
			forget_break(a[0], current_break());
		break;
	}
}

/*
 * Charges a call that may make LENGTH bytes accessible. Returns what was charged, or ROOM_NONE.
 * Only the supervisor knows what is there already, and whose it is.
 */
static uint64_t charge_map(struct scope s, const struct entry *e, enum wire_room kind,
			   uint64_t length, uint64_t address, uint64_t old_length, uint64_t to)
{
	if (!limited(LIMIT_MAPS))
		return 0;
	mark_busy(s, e);
	return charge_asking(s, e, kind, (uint64_t[4]){ length, address, old_length, to });
}

/* The end of a call that began with charge_map(). */
static void map_end(struct scope s, const struct entry *e, uint64_t charged)
{
	if (unlikely(charged && charged != ROOM_NONE)) {
		mark_busy(s, e);
		settle(s, charged);
	}
	mark_none(s);
}

/* Pages are protected for a capture. */
static inline bool are_protected(void) { return unlikely(load(&PROC->protecting)); }

static void tell(struct scope s, const struct entry *e, uint32_t what, uint64_t start, uint64_t end)
{
	mark_busy(s, e);
	ask(s.t, &(struct question){ what, { start, end - start } });
}

static bool overlaps_agent(uint64_t addr, uint64_t length)
{
	return addr - AGENT < AGENT_SPAN || AGENT - addr < length;
}

static bool within_agent(uint64_t addr, uint64_t length)
{
	return addr - AGENT < AGENT_SPAN && length <= AGENT + AGENT_SPAN - addr;
}

/* Asks mtrun: the program may have mapped memory of its own within the agent's range. */
static noinline bool is_ours(struct scope s, const struct entry *e, uint64_t addr, uint64_t length)
{
	uint64_t mark = s.t->mark, answer;

	mark_busy(s, e);
	answer = ask(s.t, &(struct question){ ASK_OURS, { addr, length } });
	store(&s.t->mark, mark);
	return answer;
}

bool spares_ours(struct scope s, const struct entry *e, uint64_t nr, uint64_t *a)
{
	uint64_t length = pages(a[1]);

	if (!s.t)
		return false;
	switch (nr) {
	case __NR_mmap:
		if (a[3] & K_MAP_FIXED && overlaps_agent(a[0], length) &&
		    is_ours(s, e, a[0], length))
			a[1] = IMPOSSIBLE_MAP;
		return false;
	case __NR_mremap:
		if ((overlaps_agent(a[0], length) && is_ours(s, e, a[0], length)) ||
		    (a[3] & K_MREMAP_FIXED && overlaps_agent(a[4], pages(a[2])) &&
		     is_ours(s, e, a[4], pages(a[2])))) {
			a[2] = IMPOSSIBLE_MAP;
			a[3] = 0;
		}
		return false;
	case __NR_munmap:
	case __NR_mprotect: /* more than what is ours cannot be one mapping */
		return within_agent(a[0], length) && is_ours(s, e, a[0], length);
	}
	return false;
}

uint64_t map_begin(struct scope s, const struct entry *e, uint64_t *a)
{
	uint64_t charged = 0;

	if (a[2] & 7 && a[3] & K_MAP_ANONYMOUS)
		charged = charge_map(s, e, ROOM_MAP, pages(a[1]), a[3] & K_MAP_FIXED ? a[0] : 0, 0,
				     0);
	if (charged == ROOM_NONE)
		a[1] = IMPOSSIBLE_MAP;
	mark_call(s, e);
	return charged;
}

uint64_t map_done(struct scope s, const struct entry *e, uint64_t charged, uint64_t ret,
		  const uint64_t *a)
{
	uint32_t what = (uint32_t)a[2] & 7;

	if (orphaned())
		return ret;
	if (!failed(ret)) {
		if (a[3] & K_MAP_ANONYMOUS)
			what |= WIRE_MAP_ANON;
		if (a[3] & K_MAP_SHARED)
			what |= WIRE_MAP_SHARED;
		if (are_protected() && a[2] & WIRE_PROT_WRITE)
			tell(s, e, ASK_MAPPED, ret, ret + pages(a[1]));
		mark_busy(s, e);
		emit_map(s, WIRE_MAP, ret, pages(a[1]), what, stack_of(s, e));
	}
	map_end(s, e, charged);
	return ret;
}

void unmap_begin(struct scope s, const struct entry *e, uint64_t addr, uint64_t length)
{
	mark_busy(s, e);
	emit_map(s, WIRE_UNMAP, addr, pages(length), 0, 0);
	mark_call(s, e);
}

uint64_t unmap_done(struct scope s, const struct entry *e, uint64_t ret, uint64_t addr,
		    uint64_t length)
{
	if (orphaned())
		return ret;
	if ((int)ret) {
		mark_busy(s, e);
		emit_map(s, WIRE_UNMAP_FAILED, addr, pages(length), 0, 0);
	}
	mark_none(s);
	return ret;
}

bool valid_range(uint64_t addr, uint64_t length)
{
	return length && !(addr & 4095) && addr < 1ull << WIRE_ADDRESS_BITS &&
	       length <= 1ull << WIRE_ADDRESS_BITS;
}

uint64_t remap_begin(struct scope s, const struct entry *e, uint64_t *a)
{
	uint64_t leaves = a[3] & K_MREMAP_DONTUNMAP ? 0 : a[1], charged;

	if (are_protected())
		tell(s, e, ASK_WHOLE, a[0], a[0] + pages(a[1]));
	charged = charge_map(s, e, ROOM_REMAP, pages(a[2]), a[0], pages(leaves),
			     a[3] & K_MREMAP_FIXED ? a[4] : 0);
	if (charged == ROOM_NONE) {
		a[2] = IMPOSSIBLE_MAP;
		a[3] = 0;
	} else {
		mark_busy(s, e);
		emit_map(s, WIRE_REMAP_LEAVE, a[0], pages(leaves), 0, 0);
	}
	mark_call(s, e);
	return charged;
}

uint64_t remap_done(struct scope s, const struct entry *e, uint64_t charged, uint64_t ret,
		    const uint64_t *a)
{
	if (orphaned())
		return ret;
	mark_busy(s, e);
	if (charged == ROOM_NONE)
		; /* it is as it was */
	else if (failed(ret))
		emit_map(s, WIRE_REMAP_FAILED, a[0], pages(a[2]), 0, 0);
	else
		emit_map(s, WIRE_REMAP, ret, pages(a[2]), 0, stack_of(s, e));
	if (are_protected()) {
		tell(s, e, ASK_MOVED, a[0], a[0] + pages(a[1]));
		if (!failed(ret))
			tell(s, e, ASK_MAPPED, ret, ret + pages(a[2]));
	}
	map_end(s, e, charged);
	return ret;
}

uint64_t protect_begin(struct scope s, const struct entry *e, uint64_t *a)
{
	uint64_t charged = a[2] & 7 ? charge_map(s, e, ROOM_PROTECT, pages(a[1]), a[0], 0, 0) : 0;

	if (charged == ROOM_NONE)
		a[1] = -4096ull; /* past the end of all addresses: ENOMEM */
	mark_call(s, e);
	return charged;
}

uint64_t protect_done(struct scope s, const struct entry *e, uint64_t charged, uint64_t ret,
		      const uint64_t *a)
{
	if (orphaned())
		return ret;
	if (!(int)ret) {
		if (are_protected() && a[2] & WIRE_PROT_WRITE)
			tell(s, e, ASK_MAPPED, a[0], a[0] + pages(a[1]));
		mark_busy(s, e);
		emit_map(s, WIRE_PROTECT, a[0], pages(a[1]), (uint32_t)a[2] & 7, stack_of(s, e));
	}
	map_end(s, e, charged);
	return ret;
}

uint64_t break_begin(struct scope s, const struct entry *e, int64_t growth)
{
	uint64_t charged = growth > 0 ? charge_map(s, e, ROOM_BREAK, (uint64_t)growth, 0, 0, 0) : 0;

	mark_call(s, e);
	return charged;
}

void break_done(struct scope s, const struct entry *e, uint64_t charged, uint64_t now, uint64_t old)
{
	if (orphaned())
		return;
	if (now != old) {
		if (are_protected() && now > old)
			tell(s, e, ASK_MAPPED, pages(old), pages(now));
		mark_busy(s, e);
		emit_map(s, WIRE_BREAK, now, old, 0, stack_of(s, e));
	}
	map_end(s, e, charged);
}

uint64_t hook_mmap(uint64_t *a, const struct wire_hook *h, const struct entry *e)
{
	struct scope s = scope_calling(e);
	uint64_t charged;

	spares_ours(s, e, __NR_mmap, a);
	memory_leaves(__NR_mmap, a);
	if (!s.t)
		leave_hook6(a, h, e);
	charged = map_begin(s, e, a);
	return map_done(s, e, charged, call6(h, a), a);
}

uint64_t hook_munmap(uint64_t addr, uint64_t length, uint64_t c, const struct wire_hook *h,
		     const struct entry *e)
{
	struct scope s = scope_calling(e);

	if (spares_ours(s, e, __NR_munmap, (uint64_t[2]){ addr, length }))
		return 0;
	forget(addr, length);
	if (!s.t || !valid_range(addr, length))
		leave_hook3(addr, length, c, h, e);
	unmap_begin(s, e, addr, length);
	return unmap_done(s, e, call3(h, addr, length, c), addr, length);
}

uint64_t hook_mremap(uint64_t *a, const struct wire_hook *h, const struct entry *e)
{
	struct scope s = scope_calling(e);
	uint64_t charged;

	spares_ours(s, e, __NR_mremap, a);
	memory_leaves(__NR_mremap, a);
	if (!s.t || !valid_range(a[0], a[1] ? a[1] : 1))
		leave_hook6(a, h, e);
	charged = remap_begin(s, e, a);
	return remap_done(s, e, charged, call6(h, a), a);
}

uint64_t hook_mprotect(uint64_t addr, uint64_t length, uint64_t prot, const struct wire_hook *h,
		       const struct entry *e)
{
	struct scope s = scope_calling(e);
	uint64_t a[3] = { addr, length, prot }, charged;

	if (spares_ours(s, e, __NR_mprotect, a))
		return 0;
	memory_leaves(__NR_mprotect, a);
	if (!s.t)
		leave_hook3(addr, length, prot, h, e);
	charged = protect_begin(s, e, a);
	return protect_done(s, e, charged, call3(h, a[0], a[1], a[2]), a);
}

uint64_t hook_brk(uint64_t addr, uint64_t b, uint64_t c, const struct wire_hook *h,
		  const struct entry *e)
{
	struct scope s = scope_calling(e);
	uint64_t ret, old = current_break(), charged;

	forget_break(addr, old);
	if (!s.t)
		leave_hook3(addr, b, c, h, e);
	charged = break_begin(s, e, old ? (int64_t)(addr - old) : 0);
	ret = call3(h, charged == ROOM_NONE ? IMPOSSIBLE_MAP : addr, b, c);
	break_done(s, e, charged, (int)ret == 0 && old ? addr : old, old);
	return ret;
}

uint64_t hook_sbrk(uint64_t increment, uint64_t b, uint64_t c, const struct wire_hook *h,
		   const struct entry *e)
{
	struct scope s = scope_calling(e);
	uint64_t ret, charged, old;

	if ((int64_t)increment < 0) {
		old = current_break();
		forget_break(old ? old + increment : 4096, old);
	}
	if (!s.t)
		leave_hook3(increment, b, c, h, e);
	charged = break_begin(s, e, (int64_t)increment);
	/* it calls brk */
	ret = call3(h, charged == ROOM_NONE ? IMPOSSIBLE_MAP : increment, b, c);
	break_done(s, e, charged, failed(ret) ? ret : ret + increment, ret);
	return ret;
}
