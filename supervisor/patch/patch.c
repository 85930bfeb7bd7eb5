// SPDX-License-Identifier: GPL-3.0-or-later
#include "patch/patch.h"

#include <capstone/capstone.h>
#include <errno.h>
#include <string.h>

/*
 * patch.c - moving instructions on x86-64.
 *
 * Instructions are taken from the entry on until five bytes are covered; endbr64 stays where it is,
 * and the jump goes behind it. Most instructions are copied as they are. What refers to its own
 * address is rewritten so that it means the same from elsewhere; every such reference becomes a
 * fixup, a signed 32-bit distance that is filled in when the place is known:
 *
 *      op [rip + x], imm      the same bytes; x counts from the end of the instruction, behind the
 *                             immediate
 *      jmp x                  jmp rel32, whatever size it had. As the first instruction (musl:
 *                             `malloc: jmp default_malloc`) it is the whole copy
 *      jcc x                  jcc rel32
 *      call x, call [rip+x]   push of the original return address, then jmp: so that whoever
 *                             unwinds, or throws, through the callee finds a return address in the
 *                             function and not one in our copy. It must therefore end behind the
 *                             five bytes
 *
 * Refused: loop and jrcxz, xbegin, int3, 16-bit branches, addresses relative to eip; anything that
 * the decoder does not know; a function that ends before five bytes and has no padding behind it; a
 * branch from the function's body into the five bytes.
 */

static csh decoder(void)
{
	static csh handle;

	if (!handle) {
		if (cs_open(CS_ARCH_X86, CS_MODE_64, &handle) != CS_ERR_OK)
			return handle = 0;
		cs_option(handle, CS_OPT_DETAIL, CS_OPT_ON);
	}
	return handle;
}

/* One instruction buffer for all: capstone allocates it with its details. */
static cs_insn *scratch(csh handle)
{
	static cs_insn *insn;

	if (!insn && handle)
		insn = cs_malloc(handle);
	return insn;
}

static bool decode(csh handle, const uint8_t *bytes, size_t len, raddr_t addr, cs_insn *insn)
{
	return insn && cs_disasm_iter(handle, &bytes, &len, &addr, insn);
}

static bool is_endbr64(const uint8_t *p, size_t len)
{
	return len >= 4 && memcmp(p, "\xf3\x0f\x1e\xfa", 4) == 0;
}

/* ---- what kind of instruction -------------------------------------------- */

enum flow {
	FLOW_ON,  /* to the next instruction, wherever it is */
	FLOW_RIP, /* the same; has an operand relative to rip */
	FLOW_JUMP,
	FLOW_COND,
	FLOW_CALL,	 /* to an address that is in the instruction */
	FLOW_CALL_RIP,	 /* call [rip + x] */
	FLOW_CALL_OTHER, /* call through a register or other memory */
	FLOW_END,	 /* never to the next one: ret, jmp through a register */
	FLOW_END_RIP,	 /* jmp [rip + x] */
	FLOW_REFUSE,
};

static bool has_group(const cs_insn *insn, unsigned group)
{
	for (unsigned i = 0; i < insn->detail->groups_count; i++) {
		if (insn->detail->groups[i] == group)
			return true;
	}
	return false;
}

static bool has_base(const cs_insn *insn, x86_reg base)
{
	const cs_x86 *x = &insn->detail->x86;

	for (unsigned i = 0; i < x->op_count; i++) {
		if (x->operands[i].type == X86_OP_MEM && x->operands[i].mem.base == base)
			return true;
	}
	return false;
}

static bool has_immediate_target(const cs_insn *insn)
{
	const cs_x86 *x = &insn->detail->x86;

	return x->op_count == 1 && x->operands[0].type == X86_OP_IMM;
}

static enum flow flow_of_branch(const cs_insn *insn, const char **why)
{
	bool rip = has_base(insn, X86_REG_RIP), direct = has_immediate_target(insn);

	if (direct && insn->detail->x86.prefix[2] == 0x66) {
		*why = "a 16-bit branch";
		return FLOW_REFUSE;
	}
	switch (insn->id) {
	case X86_INS_JMP: return direct ? FLOW_JUMP : rip ? FLOW_END_RIP : FLOW_END;
	case X86_INS_CALL: return direct ? FLOW_CALL : rip ? FLOW_CALL_RIP : FLOW_CALL_OTHER;
	default: return FLOW_COND;
	}
}

static bool is_odd_branch(const cs_insn *insn)
{
	switch (insn->id) {
	case X86_INS_LJMP:
	case X86_INS_LCALL:
	case X86_INS_LOOP:
	case X86_INS_LOOPE:
	case X86_INS_LOOPNE:
	case X86_INS_JCXZ:
	case X86_INS_JECXZ:
	case X86_INS_JRCXZ:
	case X86_INS_XBEGIN: return true;
	default: return false;
	}
}

static bool is_breakpoint(const cs_insn *insn)
{
	return insn->bytes[0] == 0xcc || insn->id == X86_INS_INT || insn->id == X86_INS_INTO ||
	       insn->id == X86_INS_INT1;
}

static enum flow flow_of(const cs_insn *insn, const char **why)
{
	if (is_breakpoint(insn)) {
		*why = "a breakpoint in its first bytes";
		return FLOW_REFUSE;
	}
	if (has_base(insn, X86_REG_EIP)) {
		*why = "an address relative to eip";
		return FLOW_REFUSE;
	}
	if (is_odd_branch(insn)) {
		*why = "loop, jrcxz, xbegin or a far branch in its first bytes";
		return FLOW_REFUSE;
	}
	if (has_group(insn, X86_GRP_JUMP) || has_group(insn, X86_GRP_CALL))
		return flow_of_branch(insn, why);
	if (has_group(insn, X86_GRP_RET) || has_group(insn, X86_GRP_IRET) ||
	    insn->id == X86_INS_UD2 || insn->id == X86_INS_HLT)
		return FLOW_END;
	return has_base(insn, X86_REG_RIP) ? FLOW_RIP : FLOW_ON;
}

/* ---- the copy ------------------------------------------------------------ */

static void put(struct patch *p, const void *bytes, size_t n)
{
	memcpy(p->code + p->len, bytes, n);
	p->len = (uint8_t)(p->len + n);
}

static void put_u32(struct patch *p, uint32_t v) { put(p, &v, sizeof(v)); }

static void put_fixup(struct patch *p, uint8_t at, uint8_t end, raddr_t target)
{
	p->fixup[p->nfixups++] = (struct patch_fixup){ at, end, target };
}

/* OPCODE (N bytes) and the distance to TARGET. */
static void put_branch(struct patch *p, const char *opcode, size_t n, raddr_t target)
{
	put(p, opcode, n);
	put_u32(p, 0);
	put_fixup(p, (uint8_t)(p->len - 4), p->len, target);
}

static bool has_displacement(const cs_insn *insn, int32_t disp)
{
	const cs_x86 *x = &insn->detail->x86;

	for (unsigned i = 0; i < x->op_count; i++) {
		if (x->operands[i].type == X86_OP_MEM && x->operands[i].mem.base == X86_REG_RIP &&
		    x->operands[i].mem.disp == disp)
			return true;
	}
	return false;
}

/*
 * As it is, its displacement to be filled in: the four bytes behind the modrm byte. (What capstone
 * 4 says of the displacement's size is wrong behind an operand-size prefix.) False if the decoder
 * and the bytes do not agree on what is there.
 */
static bool put_rip(struct patch *p, const cs_insn *insn)
{
	uint8_t modrm = insn->detail->x86.encoding.modrm_offset, at = (uint8_t)(modrm + 1);
	int32_t disp;

	if (!modrm || at + 4 > insn->size || (insn->bytes[modrm] & 0xc7) != 0x05)
		return false;
	memcpy(&disp, insn->bytes + at, 4);
	if (!has_displacement(insn, disp))
		return false;
	put_fixup(p, (uint8_t)(p->len + at), (uint8_t)(p->len + insn->size),
		  insn->address + insn->size + (uint64_t)(int64_t)disp);
	put(p, insn->bytes, insn->size);
	return true;
}

/*
 * push the address behind the call: the low half extended by the processor, then the high half over
 * it. Leaves the flags alone.
 */
static void put_push(struct patch *p, raddr_t value)
{
	put(p, "\x68", 1);
	put_u32(p, (uint32_t)value);
	put(p, "\xc7\x44\x24\x04", 4);
	put_u32(p, (uint32_t)(value >> 32));
}

static bool put_call_rip(struct patch *p, const cs_insn *insn)
{
	uint8_t modrm = (uint8_t)(p->len + 13 + insn->detail->x86.encoding.modrm_offset);

	put_push(p, insn->address + insn->size);
	if (!put_rip(p, insn) || p->code[modrm] != 0x15)
		return false;
	p->code[modrm] = 0x25; /* ff /2 -> ff /4: jmp [rip + x] */
	return true;
}

static void put_cond(struct patch *p, const cs_insn *insn)
{
	const uint8_t *opcode = insn->detail->x86.opcode;
	char jcc[2] = { 0x0f, (char)(0x80 | ((opcode[0] == 0x0f ? opcode[1] : opcode[0]) & 15)) };

	put_branch(p, jcc, 2, (raddr_t)insn->detail->x86.operands[0].imm);
}

static const char unexplained[] = "an operand that the decoder does not explain";

/*
 * Returns false, with *why, if this instruction cannot be moved; of FLOW_REFUSE it says why
 * already. AFTER: does anything have to run behind it in the bytes to be overwritten?
 */
static bool put_insn(struct patch *p, const cs_insn *insn, enum flow flow, bool after,
		     const char **why)
{
	raddr_t target = (raddr_t)insn->detail->x86.operands[0].imm;

	switch (flow) {
	case FLOW_ON:
	case FLOW_END: put(p, insn->bytes, insn->size); return true;
	case FLOW_RIP:
	case FLOW_END_RIP: *why = unexplained; return put_rip(p, insn);
	case FLOW_JUMP: put_branch(p, "\xe9", 1, target); return true;
	case FLOW_COND: put_cond(p, insn); return true;
	case FLOW_CALL:
		put_push(p, insn->address + insn->size);
		put_branch(p, "\xe9", 1, target);
		return true;
	case FLOW_CALL_RIP:
		if (after)
			break;
		*why = unexplained;
		return put_call_rip(p, insn);
	case FLOW_CALL_OTHER: break;
	case FLOW_REFUSE: return false;
	}
	*why = "a call in its first bytes returns into them";
	return false;
}

/* ---- decoding ------------------------------------------------------------ */

static bool is_padding(const cs_insn *insn)
{
	return insn->id == X86_INS_NOP || insn->bytes[0] == 0xcc;
}

/*
 * Behind the last instruction of a short function: is what lies there up to five bytes never
 * executed? Zeros are taken as such too.
 */
static bool padded(csh handle, const uint8_t *bytes, size_t len, size_t from)
{
	cs_insn *insn = scratch(handle);

	while (from < PATCH_JUMP) {
		if (from < len && bytes[from] == 0) {
			from++;
			continue;
		}
		if (from >= len || !decode(handle, bytes + from, len - from, from, insn) ||
		    !is_padding(insn))
			return false;
		from += insn->size;
	}
	return true;
}

static bool ends(enum flow flow)
{
	return flow == FLOW_END || flow == FLOW_END_RIP || flow == FLOW_JUMP;
}

static void mark_insn(struct patch *p, size_t from)
{
	p->insn[p->ninsn].from = (uint8_t)from;
	p->insn[p->ninsn].to = p->len;
}

/*
 * A branch to an instruction that was moved goes to its copy: such targets are offsets in the copy,
 * marked by bit 63.
 */
#define IN_COPY (1ull << 63)

static bool resolve_inner_targets(struct patch *p, raddr_t back)
{
	for (unsigned i = 0; i < p->nfixups; i++) {
		raddr_t t = p->fixup[i].target;
		unsigned k = 0;

		if (t == back || t < p->entry || t >= p->entry + p->nbytes)
			continue;
		while (k < p->ninsn && p->entry + p->insn[k].from != t)
			k++;
		if (k == p->ninsn)
			return false;
		p->fixup[i].target = IN_COPY | p->insn[k].to;
	}
	return true;
}

static int refuse(const char **why, const char *text)
{
	*why = text;
	return -EOPNOTSUPP;
}

static int decode_insns(struct patch *p, const uint8_t *bytes, size_t len, uint64_t size,
			const char **why)
{
	csh handle = decoder();
	cs_insn *insn = scratch(handle);
	enum flow flow = FLOW_ON;
	size_t at = 0;

	while (at < PATCH_JUMP && !ends(flow)) {
		if (at >= len || !decode(handle, bytes + at, len - at, p->entry + at, insn))
			return refuse(why, "its first bytes are no instructions that are known");
		flow = flow_of(insn, why);
		mark_insn(p, at);
		at += insn->size;
		if (!put_insn(p, insn, flow, at < PATCH_JUMP, why))
			return -EOPNOTSUPP;
		p->ninsn++;
	}
	p->nbytes = (uint8_t)(at < PATCH_JUMP ? PATCH_JUMP : at);
	mark_insn(p, p->nbytes);
	if (at < PATCH_JUMP && !padded(handle, bytes, len, at))
		return refuse(why, "it is shorter than 5 bytes");
	if (at >= PATCH_JUMP && size && at > size)
		return refuse(why, "it ends inside its first 5 bytes");
	if (!ends(flow) && flow != FLOW_CALL && flow != FLOW_CALL_RIP)
		put_branch(p, "\xe9", 1, p->entry + at);
	if (!resolve_inner_targets(p, p->entry + at))
		return refuse(why, "a branch into the middle of an instruction");
	return 0;
}

int patch_decode(struct patch *patch, raddr_t addr, const uint8_t *bytes, size_t len, uint64_t size,
		 const char **why)
{
	size_t keep = is_endbr64(bytes, len) ? 4 : 0;

	memset(patch, 0, sizeof(*patch));
	patch->entry = addr + keep;
	return decode_insns(patch, bytes + keep, len - keep, size > keep ? size - keep : 0, why);
}

static void put_check(struct patch *p)
{
	p->check = p->len;
	put(p, "\x4c\x8d\x1d\0\0\0\0\x41\xff\x23\xcc\xcc", PATCH_CHECK);
	p->call = p->len;
}

int patch_site(struct patch *p, raddr_t addr, raddr_t site, const uint8_t *bytes, size_t len,
	       raddr_t end, raddr_t limit, const char **why)
{
	csh handle = decoder();
	cs_insn *insn = scratch(handle);
	size_t at = 0, call = site - addr, size = end - addr;
	enum flow flow = FLOW_ON;

	memset(p, 0, sizeof(*p));
	p->entry = addr;
	while ((at < PATCH_JUMP || at <= call) && !ends(flow)) {
		if (at >= len || p->ninsn + 1u >= sizeof(p->insn) / sizeof(p->insn[0]) ||
		    !decode(handle, bytes + at, len - at, addr + at, insn))
			return refuse(why,
				      "the bytes around it are no instructions that are known");
		if (at == call)
			put_check(p);
		flow = flow_of(insn, why);
		mark_insn(p, at);
		at += insn->size;
		if (p->len + 32u > sizeof(p->code) ||
		    !put_insn(p, insn, flow, at < PATCH_JUMP, why))
			return -EOPNOTSUPP;
		p->ninsn++;
	}
	p->nbytes = (uint8_t)(at < PATCH_JUMP ? PATCH_JUMP : at);
	mark_insn(p, p->nbytes);
	if (!p->call)
		return refuse(why, "the bytes around it are no instructions that are known");
	if (at > size || addr + PATCH_JUMP > limit ||
	    (at < PATCH_JUMP && !padded(handle, bytes, len, at)))
		return refuse(why, "the function ends behind it");
	if (!ends(flow) && flow != FLOW_CALL && flow != FLOW_CALL_RIP)
		put_branch(p, "\xe9", 1, p->entry + at);
	if (!resolve_inner_targets(p, p->entry + at))
		return refuse(why, "a branch into the middle of an instruction");
	return 0;
}

static int distance(raddr_t to, raddr_t from, int32_t *out)
{
	int64_t d = (int64_t)(to - from);

	if (d < INT32_MIN || d > INT32_MAX)
		return -ERANGE;
	*out = (int32_t)d;
	return 0;
}

int patch_place(struct patch *patch, raddr_t place)
{
	for (unsigned i = 0; i < patch->nfixups; i++) {
		const struct patch_fixup *f = &patch->fixup[i];
		raddr_t target = f->target & IN_COPY ? place + (f->target & ~IN_COPY) : f->target;
		int32_t d;

		if (distance(target, place + f->end, &d) < 0)
			return -ERANGE;
		memcpy(patch->code + f->at, &d, sizeof(d));
	}
	return 0;
}

int patch_hook(struct patch *patch, raddr_t place, raddr_t hook)
{
	int32_t d;

	if (distance(hook, place + patch->check + 7, &d) < 0)
		return -ERANGE;
	memcpy(patch->code + patch->check + 3, &d, sizeof(d));
	return 0;
}

int patch_jump(uint8_t *out, raddr_t at, raddr_t to)
{
	int32_t d;

	if (distance(to, at + PATCH_JUMP, &d) < 0)
		return -ERANGE;
	out[0] = 0xe9;
	memcpy(out + 1, &d, sizeof(d));
	return 0;
}

/* ---- branches in a body -------------------------------------------------- */

/*
 * First without decoding: every byte that could begin a short or near branch, at its right place or
 * in the middle of something. That finds all of them and is quick; only if some seem to hit is the
 * function decoded, as far as the last of them, to see whether they are instructions. Returns where
 * that one ends, 0 if there is none.
 */
static size_t seems_target(raddr_t addr, const uint8_t *b, size_t size, raddr_t lo, raddr_t hi)
{
	size_t last = 0;

	for (size_t i = 0; i + 2 <= size; i++) {
		raddr_t t = 0;
		int32_t d;

		if ((b[i] & 0xf0) == 0x70 || b[i] == 0xeb || (b[i] & 0xfc) == 0xe0) {
			t = addr + i + 2 + (uint64_t)(int64_t)(int8_t)b[i + 1];
		} else if (i + 5 <= size &&
			   (b[i] == 0xe8 || b[i] == 0xe9 ||
			    (b[i] & 0xf0) == 0x80)) { /* 0f 8x: seen at its second byte */
			memcpy(&d, b + i + 1, 4);
			t = addr + i + 5 + (uint64_t)(int64_t)d;
		}
		if (t > lo && t < hi)
			last = i + 1;
	}
	return last;
}

static bool direct_target(const cs_insn *insn, raddr_t *target)
{
	if (!has_group(insn, X86_GRP_JUMP) && !has_group(insn, X86_GRP_CALL) &&
	    !is_odd_branch(insn))
		return false;
	if (!has_immediate_target(insn))
		return false;
	*target = (raddr_t)insn->detail->x86.operands[0].imm;
	return true;
}

bool patch_is_target(raddr_t addr, const uint8_t *body, size_t size, raddr_t lo, raddr_t hi)
{
	csh handle = decoder();
	cs_insn *insn = scratch(handle);
	size_t at = 0, last = seems_target(addr, body, size, lo, hi);
	raddr_t t;

	while (at < last) {
		if (!decode(handle, body + at, size - at, addr + at, insn))
			/* data among the code: cannot be told, so rather not */
			return true;
		/* what lies in the bytes to be moved was looked at by patch_decode() */
		if (addr + at >= hi && direct_target(insn, &t) && t > lo && t < hi)
			return true;
		at += insn->size;
	}
	return false;
}

raddr_t patch_only_callee(raddr_t addr, const uint8_t *body, size_t size)
{
	csh handle = decoder();
	cs_insn *insn = scratch(handle);
	raddr_t t, only = 0;

	for (size_t at = 0; at < size; at += insn->size) {
		if (!decode(handle, body + at, size - at, addr + at, insn))
			return 0;
		if (!direct_target(insn, &t) || (t >= addr && t < addr + size))
			continue;
		if (only && only != t)
			return 0;
		only = t;
	}
	return only;
}
