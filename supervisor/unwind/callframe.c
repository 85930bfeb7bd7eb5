// SPDX-License-Identifier: GPL-3.0-or-later
#include "unwind/callframe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"
#include "base/space.h"

/*
 * callframe.c - DWARF call frame information: FDEs, CIEs, and the little machine that their
 * instructions run on.
 *
 * A CIE is read once, its initial instructions are run, and the state that results is kept. A scan
 * goes over the whole section, notes the FDEs and sorts them if the linker has not.
 * callframe_rows() copies the CIE's state and runs the FDE's instructions over it. The state is a
 * struct wire_rule already, with what a rule cannot say beside it, so that most rows cost a few
 * stores.
 *
 * What compilers and hand-written assembly really use of the expressions is recognised by shape:
 *
 *	CFA = *(reg + N) [+ M]			re-aligned stacks (reg is rbp), assembly that keeps
 *	                                        the old rsp on its stack (reg is rsp)
 *	CFA = rsp + 8 + ((rip & 15) >= K) * 8	lazy PLT entries
 *	CFA = *(rsp + 160), augmentation S	signal frames: the ucontext is at rsp
 *	register saved at rbp + N		re-aligned stacks
 *
 * Any other is "no rule" (CFA) or "lost" (a saved register).
 */

enum { DW_RBX = 3, DW_RBP = 6, DW_RSP = 7, DW_RIP = 16, DW_REGS = 17 };
enum ra { RA_NONE, RA_OK, RA_UNDEFINED };
enum { UCONTEXT_RSP = 160 }; /* offsetof(ucontext_t, uc_mcontext.gregs[REG_RSP]) */
#define REMEMBER_MAX 8

/* The machine's registers. A row is `rule` unless what is beside it says otherwise. */
struct state {
	struct wire_rule rule;
	uint8_t ra; /* enum ra */
	/* rsp has a rule of its own: no frame that C code returns to */
	bool odd;
	bool cfa_is_register; /* DW_CFA_def_cfa_offset and the like make sense */
};

struct callframe_state {
	struct state initial;
	uint32_t offset; /* of the CIE in the section */
	uint32_t code_align;
	int32_t data_align;
	uint8_t encoding; /* of addresses in FDEs */
	bool augmented;	  /* 'z': FDEs have augmentation data */
	bool signal;
	bool valid;
};

struct cursor {
	const uint8_t *p, *end;
	bool bad; /* ran over the end; everything read since is 0 */
};

/* ---- reading ------------------------------------------------------------- */

static uint64_t take(struct cursor *c, unsigned bytes)
{
	uint64_t v = 0;

	if ((size_t)(c->end - c->p) < bytes) {
		c->p = c->end;
		c->bad = true;
		return 0;
	}
	memcpy(&v, c->p, bytes);
	c->p += bytes;
	return v;
}

static uint64_t take_uleb(struct cursor *c)
{
	uint64_t v = 0;

	for (unsigned shift = 0; c->p < c->end; shift += 7) {
		uint8_t byte = *c->p++;

		if (shift < 64)
			v |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return v;
	}
	c->bad = true;
	return 0;
}

static int64_t take_sleb(struct cursor *c)
{
	uint64_t v = 0;

	for (unsigned shift = 0; c->p < c->end;) {
		uint8_t byte = *c->p++;

		if (shift < 64)
			v |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
		if (!(byte & 0x80))
			return (int64_t)(shift < 64 && byte & 0x40 ? v | ~0ull << shift : v);
	}
	c->bad = true;
	return 0;
}

static struct cursor take_block(struct cursor *c)
{
	uint64_t len = take_uleb(c);
	struct cursor block = { .p = c->p, .end = c->p };

	if (len > (size_t)(c->end - c->p)) {
		c->bad = true;
		c->p = c->end;
		return block;
	}
	c->p += len;
	block.end = c->p;
	return block;
}

/* The value of a DW_EH_PE_* encoded pointer, without its base. */
static uint64_t take_encoded(struct cursor *c, unsigned encoding)
{
	switch (encoding & 0x0f) {
	case 0x00: return take(c, 8);
	case 0x01: return take_uleb(c);
	case 0x02: return take(c, 2);
	case 0x03: return take(c, 4);
	case 0x04: return take(c, 8);
	case 0x09: return (uint64_t)take_sleb(c);
	case 0x0a: return (uint64_t)(int16_t)take(c, 2);
	case 0x0b: return (uint64_t)(int32_t)take(c, 4);
	case 0x0c: return take(c, 8);
	}
	c->bad = true;
	return 0;
}

static uint64_t take_pointer(struct cursor *c, const struct callframe_source *s, unsigned encoding)
{
	uint64_t here = s->vaddr + (uint64_t)(c->p - s->data);
	uint64_t v = take_encoded(c, encoding);

	switch (encoding & 0xf0) {
	case 0x00: return v;
	case 0x10: return here + v;
	case 0x20: return s->text_base + v;
	case 0x30: return s->data_base + v;
	}
	/* aligned, relative to a function, indirect: not for code addresses on this machine */
	c->bad = true;
	return 0;
}

/* ---- the state ----------------------------------------------------------- */

static int callframe_reg(uint64_t dwarf)
{
	static const int8_t reg[DW_REGS] = { -1,       -1,	 -1,	   WIRE_RBX, -1, -1,
					     WIRE_RBP, -1,	 -1,	   -1,	     -1, -1,
					     WIRE_R12, WIRE_R13, WIRE_R14, WIRE_R15, -1 };

	return dwarf < DW_REGS ? reg[dwarf] : -1;
}

static struct state state_empty(void)
{
	struct state s = { .rule = { .cfa = CFA_NONE }, .ra = RA_NONE };

	for (unsigned i = 0; i < WIRE_REGS; i++)
		s.rule.off[i] = RULE_SAME;
	return s;
}

/* DEREF: the CFA is read from memory at the register + offset. */
static void set_cfa(struct state *s, uint64_t dwarf, int64_t offset, bool deref)
{
	/* DWARF's number -> index in the ucontext's gregs */
	static const int8_t scratch[] = { 13, 12, 14, -1, 9, 8, -1, -1, 0, 1, 2, 3 };
	int reg = callframe_reg(dwarf);

	s->rule.reg = 0;
	s->rule.deref = 0;
	s->cfa_is_register = !deref;
	if (dwarf == DW_RSP)
		s->rule.cfa = deref ? CFA_RSP_DEREF : CFA_RSP;
	else if (dwarf == DW_RBP)
		s->rule.cfa = deref ? CFA_RBP_DEREF : CFA_RBP;
	else if (reg >= 0) {
		s->rule.cfa = deref ? CFA_REG_DEREF : CFA_REG;
		s->rule.reg = (uint8_t)reg;
	} else if (!deref && dwarf < sizeof(scratch) && scratch[dwarf] >= 0) {
		s->rule.cfa = CFA_SCRATCH;
		s->rule.reg = (uint8_t)scratch[dwarf];
	} else
		s->rule.cfa = CFA_NONE;
	s->rule.cfa_off = (int32_t)offset;
	if (offset != (int32_t)offset)
		s->rule.cfa = CFA_NONE;
}

static void set_cfa_offset(struct state *s, int64_t offset)
{
	s->rule.cfa_off = (int32_t)offset;
	if (!s->cfa_is_register || offset != (int32_t)offset)
		s->rule.cfa = CFA_NONE;
}

static void set_cfa_register(struct state *s, uint64_t dwarf)
{
	int32_t offset = s->rule.cfa_off;
	bool known = s->cfa_is_register;

	set_cfa(s, dwarf, offset, false);
	if (!known)
		s->rule.cfa = CFA_NONE;
}

/* OFF: one of RULE_*, or bytes; from rbp or from the CFA. */
static void set_saved(struct state *s, uint64_t dwarf, int64_t bytes, bool from_rbp)
{
	int reg = callframe_reg(dwarf);

	if (reg >= 0) {
		bool fits = bytes % 8 == 0 && bytes / 8 > RULE_LOST && bytes / 8 <= INT16_MAX;

		s->rule.off[reg] = fits ? (int16_t)(bytes / 8) : RULE_LOST;
		s->rule.from_rbp = (uint8_t)((s->rule.from_rbp & ~(1u << reg)) |
					     (fits && from_rbp ? 1u << reg : 0));
	} else if (dwarf == DW_RIP)
		s->ra = bytes == -8 && !from_rbp ? RA_OK : RA_NONE;
	else if (dwarf == DW_RSP)
		s->odd = true;
}

static void set_simple(struct state *s, uint64_t dwarf, int16_t rule)
{
	int reg = callframe_reg(dwarf);

	if (reg >= 0) {
		s->rule.off[reg] = rule;
		s->rule.from_rbp &= (uint8_t) ~(1u << reg);
	} else if (dwarf == DW_RIP)
		s->ra = RA_NONE;
	else if (dwarf == DW_RSP)
		s->odd = rule != RULE_SAME;
}

static void set_initial(struct state *s, uint64_t dwarf, const struct state *initial)
{
	int reg = callframe_reg(dwarf);

	if (reg >= 0) {
		s->rule.off[reg] = initial->rule.off[reg];
		s->rule.from_rbp = (uint8_t)((s->rule.from_rbp & ~(1u << reg)) |
					     (initial->rule.from_rbp & 1u << reg));
	} else if (dwarf == DW_RIP)
		s->ra = initial->ra;
	else if (dwarf == DW_RSP)
		s->odd = initial->odd;
}

/* `breg R, N; deref` and `breg R, N; deref; plus_uconst M`; the PLT's. */
static void set_cfa_expression(struct state *s, struct cursor e)
{
	/* breg16 0; lit15; and; litK; ge; lit3; shl; plus */
	static const uint8_t plt[] = { 0x80, 0x00, 0x3f, 0x1a };
	static const uint8_t plt_end[] = { 0x2a, 0x33, 0x24, 0x22 };
	uint8_t op = (uint8_t)take(&e, 1);
	int64_t offset = take_sleb(&e);
	size_t left = (size_t)(e.end - e.p);

	s->rule.cfa = CFA_NONE;
	s->cfa_is_register = false;
	if (e.bad || op < 0x70 || op > 0x8f)
		return;
	if (left == 9 && op == 0x70 + DW_RSP && !memcmp(e.p, plt, 4) &&
	    !memcmp(e.p + 5, plt_end, 4) && e.p[4] >= 0x30 && e.p[4] <= 0x3f) {
		set_cfa(s, DW_RSP, offset, true);
		s->rule.cfa = CFA_PLT;
		s->rule.reg = e.p[4] - 0x30;
		return;
	}
	if (left >= 1 && *e.p == 0x06) {
		uint64_t add = 0;

		e.p++;
		if (left > 1 && take(&e, 1) == 0x23)
			add = take_uleb(&e);
		if (e.bad || e.p != e.end || add > INT16_MAX)
			return;
		set_cfa(s, op - 0x70, offset, true);
		s->rule.deref = (int16_t)add;
	}
}

static void set_saved_expression(struct state *s, uint64_t dwarf, struct cursor e)
{
	uint8_t op = (uint8_t)take(&e, 1);
	int64_t offset = take_sleb(&e);

	if (!e.bad && e.p == e.end && op == 0x70 + DW_RBP)
		set_saved(s, dwarf, offset, true);
	else
		set_simple(s, dwarf, RULE_LOST);
}

static void state_rule(const struct state *s, bool signal, struct wire_rule *out)
{
	if (s->ra == RA_UNDEFINED) {
		*out = (struct wire_rule){ .cfa = CFA_END };
		return;
	}
	if (signal && s->rule.cfa == CFA_RSP_DEREF && s->rule.cfa_off == UCONTEXT_RSP &&
	    !s->rule.deref) {
		*out = (struct wire_rule){ .cfa = CFA_SIGNAL };
		return;
	}
	if (s->ra != RA_OK || s->odd || s->rule.cfa == CFA_NONE) {
		*out = (struct wire_rule){ .cfa = CFA_NONE };
		return;
	}
	*out = s->rule;
}

/* ---- instructions -------------------------------------------------------- */

struct machine {
	const struct callframe_source *source;
	const struct callframe_state *cie;
	struct state now;
	bool dirty; /* `now` has changed since the last row */
	unsigned remembered;
	struct state memory[REMEMBER_MAX];
};

/*
 * The instructions above 0x3f, but for those that move the location, and DW_CFA_set_loc. False: not
 * one that exists.
 */
static bool execute(struct machine *m, uint8_t op, struct cursor *c)
{
	struct state *s = &m->now;
	int64_t factor = m->cie->data_align;
	uint64_t reg;

	switch (op) {
	case 0x00: /* nop */ return true;
	case 0x05: /* offset_extended */
		reg = take_uleb(c);
		set_saved(s, reg, (int64_t)take_uleb(c) * factor, false);
		break;
	case 0x06: /* restore_extended */ set_initial(s, take_uleb(c), &m->cie->initial); break;
	case 0x07: /* undefined */
		reg = take_uleb(c);
		set_simple(s, reg, RULE_LOST);
		if (reg == DW_RIP)
			s->ra = RA_UNDEFINED;
		break;
	case 0x08: /* same_value */ set_simple(s, take_uleb(c), RULE_SAME); break;
	case 0x09: /* register */
		set_simple(s, take_uleb(c), RULE_LOST);
		take_uleb(c);
		break;
	case 0x0a: /* remember_state */
		if (m->remembered == REMEMBER_MAX)
			return false;
		m->memory[m->remembered++] = *s;
		return true;
	case 0x0b: /* restore_state */
		if (!m->remembered)
			return false;
		*s = m->memory[--m->remembered];
		break;
	case 0x0c: /* def_cfa */
		reg = take_uleb(c);
		set_cfa(s, reg, (int64_t)take_uleb(c), false);
		break;
	case 0x0d: /* def_cfa_register */ set_cfa_register(s, take_uleb(c)); break;
	case 0x0e: /* def_cfa_offset */ set_cfa_offset(s, (int64_t)take_uleb(c)); break;
	case 0x0f: /* def_cfa_expression */ set_cfa_expression(s, take_block(c)); break;
	case 0x10: /* expression */
		reg = take_uleb(c);
		set_saved_expression(s, reg, take_block(c));
		break;
	case 0x11: /* offset_extended_sf */
		reg = take_uleb(c);
		set_saved(s, reg, take_sleb(c) * factor, false);
		break;
	case 0x12: /* def_cfa_sf */
		reg = take_uleb(c);
		set_cfa(s, reg, take_sleb(c) * factor, false);
		break;
	case 0x13: /* def_cfa_offset_sf */ set_cfa_offset(s, take_sleb(c) * factor); break;
	/* val_offset: the register is CFA + N; for rsp the default, said aloud */
	case 0x14:
		reg = take_uleb(c);
		if (take_uleb(c) || reg != DW_RSP)
			set_simple(s, reg, RULE_LOST);
		break;
	case 0x15: /* val_offset_sf */
		reg = take_uleb(c);
		if (take_sleb(c) || reg != DW_RSP)
			set_simple(s, reg, RULE_LOST);
		break;
	case 0x16: /* val_expression */
		set_simple(s, take_uleb(c), RULE_LOST);
		take_block(c);
		break;
	/* GNU_args_size: bytes of arguments being pushed, already in the CFA */
	case 0x2e: take_uleb(c); return true;
	case 0x2f: /* GNU_negative_offset_extended */
		reg = take_uleb(c);
		set_saved(s, reg, -(int64_t)take_uleb(c) * factor, false);
		break;
	default: return false;
	}
	m->dirty = true;
	return !c->bad;
}

/* How far one of the advance_loc instructions goes; false: not one of them. */
static bool advance(uint8_t op, struct cursor *c, uint64_t align, uint64_t *delta)
{
	if (op >> 6 == 1)
		*delta = (op & 0x3f) * align;
	else if (op == 0x02)
		*delta = take(c, 1) * align;
	else if (op == 0x03)
		*delta = take(c, 2) * align;
	else if (op == 0x04)
		*delta = take(c, 4) * align;
	else
		return false;
	return true;
}

static inline bool step(struct machine *m, uint8_t op, struct cursor *c)
{
	if (op >> 6 == 2) { /* offset */
		uint64_t n = take_uleb(c);

		if (callframe_reg(op & 0x3f) < 0 && (op & 0x3f) != DW_RIP && (op & 0x3f) != DW_RSP)
			/* a register that nobody asks about: no new row */
			return !c->bad;
		set_saved(&m->now, op & 0x3f, (int64_t)n * m->cie->data_align, false);
		m->dirty = true;
		return !c->bad;
	}
	if (op >> 6 == 3) { /* restore */
		set_initial(&m->now, op & 0x3f, &m->cie->initial);
		m->dirty = true;
		return true;
	}
	return execute(m, op, c);
}

void callframe_rows(const struct callframe_list *list, size_t i,
		    void (*row)(void *ctx, uint32_t offset, const struct wire_rule *rule),
		    void *ctx)
{
	const struct callframe *f = &list->frame[i];
	const struct callframe_state *cie = &list->cie[f->cie];
	struct machine m;
	struct cursor c = { .p = list->source.data + f->insns,
			    .end = list->source.data + f->insns_end };
	struct wire_rule rule;
	uint64_t at = f->start, to;

	m.source = &list->source;
	m.cie = cie;
	m.now = cie->initial;
	m.dirty = true;
	m.remembered = 0;
	while (c.p < c.end) {
		uint8_t op = *c.p++;
		uint64_t delta;

		if (op == 0x01) /* set_loc */
			to = take_pointer(&c, &list->source, cie->encoding) - list->lo;
		else if (advance(op, &c, cie->code_align, &delta))
			to = at + delta;
		else if (step(&m, op, &c))
			continue;
		else
			goto broken;
		if (c.bad || to < at)
			goto broken;
		if (to > at && m.dirty) {
			state_rule(&m.now, cie->signal, &rule);
			row(ctx, (uint32_t)at, &rule);
			m.dirty = false;
		}
		at = to;
		if (at >= f->end)
			return;
	}
	if (m.dirty) {
		state_rule(&m.now, cie->signal, &rule);
		row(ctx, (uint32_t)at, &rule);
	}
	return;
broken:
	rule = (struct wire_rule){ .cfa = CFA_NONE };
	row(ctx, (uint32_t)at, &rule);
}

ssize_t callframe_find(const struct callframe_list *list, uint32_t offset)
{
	size_t at = SEARCH(i, list->count, list->frame[i].end <= offset);

	return at < list->count && list->frame[at].start <= offset ? (ssize_t)at : -1;
}

struct find {
	uint32_t offset;
	struct wire_rule rule;
};

static void find_row(void *ctx, uint32_t offset, const struct wire_rule *rule)
{
	struct find *f = ctx;

	if (offset <= f->offset)
		f->rule = *rule;
}

struct wire_rule callframe_rule(const struct callframe_list *list, size_t i, uint32_t offset)
{
	struct find f = { .offset = offset };

	callframe_rows(list, i, find_row, &f);
	return f.rule;
}

/* ---- CIEs and FDEs ------------------------------------------------------- */

/*
 * An entry's extent: C is left behind its length field, *NEXT at the entry's end. False: nothing
 * more that can be read.
 */
static bool entry_begin(struct cursor *c, const uint8_t **next, bool *wide)
{
	uint64_t len = take(c, 4);

	*wide = len == 0xffffffff;
	if (*wide)
		len = take(c, 8);
	if (c->bad || len > (size_t)(c->end - c->p))
		return false;
	*next = c->p + len;
	return true;
}

/*
 * Augmentation string at *AUG, its data in C. False: the addresses in this CIE's FDEs cannot be
 * understood.
 */
static bool cie_augmentation(struct callframe_state *cie, const struct callframe_source *s,
			     const char *aug, struct cursor *c)
{
	struct cursor data;

	if (!*aug)
		return true;
	if (*aug != 'z')
		return false;
	cie->augmented = true;
	data = take_block(c);
	while (*++aug)
		switch (*aug) {
		case 'R': cie->encoding = (uint8_t)take(&data, 1); break;
		case 'P': {
			unsigned encoding = (unsigned)take(&data, 1);

			if (encoding == 0x50) { /* aligned to 8 bytes in memory */
				uint64_t here = s->vaddr + (uint64_t)(data.p - s->data);

				take(&data, (unsigned)(-here & 7));
				encoding = 0;
			}
			take_encoded(&data, encoding);
			break;
		}
		case 'L': take(&data, 1); break;
		case 'S': cie->signal = true; break;
		case 'B': break;
		default: return false;
		}
	return !data.bad;
}

static void cie_run(struct callframe_state *cie, const struct callframe_source *s, struct cursor c)
{
	struct machine m = { .source = s, .cie = cie, .now = state_empty() };

	while (c.p < c.end) {
		uint8_t op = *c.p++;

		if (op >> 6 == 1 || (op >= 0x01 && op <= 0x04) || !step(&m, op, &c)) {
			m.now = state_empty();
			break;
		}
	}
	cie->initial = m.now;
}

static void cie_read(struct callframe_state *cie, const struct callframe_source *s, uint32_t offset)
{
	struct cursor c = { .p = s->data + offset, .end = s->data + s->size };
	const uint8_t *next;
	const char *aug;
	bool wide;
	uint64_t id, version, ra;

	*cie = (struct callframe_state){ .offset = offset, .initial = state_empty() };
	if (!entry_begin(&c, &next, &wide))
		return;
	c.end = next;
	id = take(&c, wide && s->debug_frame ? 8 : 4);
	if (id != (!s->debug_frame ? 0 : wide ? UINT64_MAX : UINT32_MAX))
		return;
	version = take(&c, 1);
	aug = (const char *)c.p;
	c.p = memchr(c.p, 0, (size_t)(c.end - c.p));
	if (c.bad || !c.p)
		return;
	c.p++;
	if (version == 4 && take(&c, 2) != 8) /* address size 8, no segments */
		return;
	cie->code_align = (uint32_t)take_uleb(&c);
	cie->data_align = (int32_t)take_sleb(&c);
	ra = version == 1 ? take(&c, 1) : take_uleb(&c);
	if (c.bad || (version != 1 && version != 3 && version != 4) || ra != DW_RIP)
		return;
	if (!cie_augmentation(cie, s, aug, &c) || c.bad)
		return;
	cie_run(cie, s, c);
	cie->valid = true;
}

#define TOUCHED 4096u

struct scan {
	struct callframe_list *list;
	uint64_t hi;
	size_t room, cie_room;
	size_t touched;	    /* frames whose memory is there: it is made for TOUCHED at a time */
	uint32_t slot[256]; /* CIE index + 1 by a hash of its offset */
};

/* Index of the CIE at OFFSET, or -ENOMEM. */
static int64_t scan_cie(struct scan *s, uint32_t offset)
{
	struct callframe_list *l = s->list;
	uint32_t *slot = &s->slot[(offset >> 2 ^ offset >> 10) & 255];

	if (*slot && l->cie[*slot - 1].offset == offset)
		return *slot - 1;
	if (array_room(&l->cie, l->ncies, &s->cie_room, sizeof(*l->cie)))
		return -ENOMEM;
	cie_read(&l->cie[l->ncies], &l->source, offset);
	*slot = (uint32_t)++l->ncies;
	return *slot - 1;
}

static int scan_add(struct scan *s, struct callframe f)
{
	struct callframe_list *l = s->list;

	if (l->count == s->room) {
		/* an FDE is rarely smaller than 24 bytes; what is not used is never touched */
		size_t room = s->room ? s->room * 2 : l->source.size / 24 + 16;
		struct callframe *frame = reallocarray(l->frame, room, sizeof(*frame));

		if (!frame)
			return -ENOMEM;
		l->frame = frame;
		s->room = room;
	}
	if (l->count == s->touched) {
		size_t left = s->room - s->touched;

		left = left < TOUCHED ? left : TOUCHED;
		space_touch(&l->frame[s->touched], left * sizeof(*l->frame));
		s->touched += left;
	}
	l->frame[l->count++] = f;
	return 0;
}

/*
 * The FDE at offset FDE whose CIE is at offset CIE; C is behind the CIE pointer and ends with the
 * entry.
 */
static int scan_fde(struct scan *s, uint32_t fde, uint32_t cie_offset, struct cursor c)
{
	struct callframe_list *l = s->list;
	int64_t n = scan_cie(s, cie_offset);
	const struct callframe_state *cie;
	uint64_t start, len, end;

	if (n < 0)
		return (int)n;
	cie = &l->cie[n];
	if (!cie->valid)
		return 0;
	start = take_pointer(&c, &l->source, cie->encoding);
	len = take_encoded(&c, cie->encoding);
	if (cie->augmented)
		take_block(&c);
	if (c.bad || !len || start < l->lo || start >= s->hi)
		return 0;
	end = len < s->hi - start ? start + len : s->hi;
	return scan_add(s, (struct callframe){
				   .start = (uint32_t)(start - l->lo),
				   .end = (uint32_t)(end - l->lo),
				   .cie = (uint32_t)n,
				   .fde = fde,
				   .insns = (uint32_t)(c.p - l->source.data),
				   .insns_end = (uint32_t)(c.end - l->source.data),
			   });
}

static int scan_entries(struct scan *s)
{
	const struct callframe_source *src = &s->list->source;
	struct cursor c = { .p = src->data, .end = src->data + src->size };
	const uint8_t *next;

	for (; c.p < c.end; c.p = next) {
		uint32_t begin = (uint32_t)(c.p - src->data);
		struct cursor body;
		uint64_t id, at;
		bool wide;
		int rc;

		if (!entry_begin(&c, &next, &wide))
			break;
		/* crtend.o's terminator, or padding; more may follow where objects were merged */
		if (next == c.p)
			continue;
		body = (struct cursor){ .p = c.p, .end = next };
		at = (uint64_t)(c.p - src->data);
		id = take(&body, wide && src->debug_frame ? 8 : 4);
		if (body.bad || id == (!src->debug_frame ? 0 : wide ? UINT64_MAX : UINT32_MAX))
			continue;
		if (!src->debug_frame)
			id = at - id; /* distance back from this field */
		if (id >= src->size)
			continue;
		rc = scan_fde(s, begin, (uint32_t)id, body);
		if (rc)
			return rc;
	}
	return 0;
}

/*
 * Stable radix sort by start: linkers give the order of their input files, which is nearly but not
 * always that of the addresses.
 */
static int sort_frames(struct callframe_list *l)
{
	struct callframe *from = l->frame, *to, *tmp;
	size_t i;

	for (i = 1; i < l->count && l->frame[i - 1].start <= l->frame[i].start; i++)
		;
	if (i >= l->count)
		return 0;
	tmp = to = reallocarray(NULL, l->count, sizeof(*to));
	if (!to)
		return -ENOMEM;
	for (unsigned shift = 0; shift < 32; shift += 11) {
		uint32_t place[2048] = { 0 };
		uint32_t sum = 0;

		for (i = 0; i < l->count; i++)
			place[from[i].start >> shift & 2047]++;
		for (i = 0; i < 2048; i++) {
			uint32_t n = place[i];

			place[i] = sum;
			sum += n;
		}
		for (i = 0; i < l->count; i++)
			to[place[from[i].start >> shift & 2047]++] = from[i];
		struct callframe *swap = from;

		from = to;
		to = swap;
	}
	if (from != l->frame) /* three passes: the result is in the other buffer */
		memcpy(l->frame, from, l->count * sizeof(*from));
	free(tmp);
	return 0;
}

static void clip_overlaps(struct callframe_list *l)
{
	size_t n = 0;

	for (size_t i = 0; i < l->count; i++) {
		struct callframe f = l->frame[i];

		if (i + 1 < l->count && f.end > l->frame[i + 1].start)
			f.end = l->frame[i + 1].start;
		if (f.start < f.end)
			l->frame[n++] = f;
	}
	l->count = n;
}

int callframe_scan(struct callframe_list *list, const struct callframe_source *source, uint64_t lo,
		   uint64_t hi)
{
	struct scan s = { .list = list, .hi = hi };
	int rc;

	if (hi <= lo || hi - lo > UINT32_MAX || source->size > UINT32_MAX)
		return -EINVAL;
	*list = (struct callframe_list){ .source = *source, .lo = lo };
	rc = scan_entries(&s);
	if (!rc)
		rc = sort_frames(list);
	if (rc)
		callframe_release(list);
	else
		clip_overlaps(list);
	return rc;
}

void callframe_release(struct callframe_list *list)
{
	free(list->frame);
	free(list->cie);
	list->frame = NULL;
	list->cie = NULL;
	list->count = list->ncies = 0;
}
