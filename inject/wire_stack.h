/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * wire_stack.h - how stacks are walked and kept (see wire.h): the unwind rules of modules, the nodes
 * that stacks are made of, and the tables by which both are found.
 */
#ifndef MTRUN_WIRE_STACK_H
#define MTRUN_WIRE_STACK_H

#include <stdbool.h>
#include <stdint.h>

/* ---- unwinding: rules, modules ------------------------------------------- */

/*
 * How to get from a frame to its caller, for a range of PCs. Row offsets are from the module's
 * `start`. The return address is at CFA-8.
 */
enum wire_cfa {
	CFA_NONE,      /* no rule: the stack is truncated here */
	CFA_END,       /* outermost frame (return address undefined) */
	CFA_RSP,       /* rsp + cfa_off */
	CFA_RBP,       /* rbp + cfa_off */
	CFA_RBP_DEREF, /* *(rbp + cfa_off) + deref: gcc's re-aligned stacks */
	/*
	 * rsp + cfa_off + ((pc & 15) >= reg ? 8 : 0): lazy PLT entries, exact pcs only; `reg` is
	 * 11, 10 or 9
	 */
	CFA_PLT,
	/*
	 * signal frame: registers in the ucontext at rsp (struct rt_sigframe behind its return
	 * address)
	 */
	CFA_SIGNAL,
	/* callee-saved `reg` + cfa_off: needs the registers that the fast walk does not track */
	CFA_REG,
	CFA_REG_DEREF, /* *(reg + cfa_off) + deref */
	/*
	 * *(rsp + cfa_off) + deref: hand-written assembly (libcrypto) that keeps the old rsp on its
	 * stack
	 */
	CFA_RSP_DEREF,
	CFA_FRAME, /* rbp + cfa_off, which may be on another stack; rbp 0: outermost */
	/*
	 * scratch register + cfa_off: only where a signal interrupted; its value is *(ucontext + 40
	 * + 8 * reg)
	 */
	CFA_SCRATCH,
	CFA_KINDS
};
/* indexes of callee-saved registers in wire_rule.off and struct wire_entry */
enum wire_reg { WIRE_RBP, WIRE_RBX, WIRE_R12, WIRE_R13, WIRE_R14, WIRE_R15, WIRE_REGS };
#define RULE_SAME INT16_MIN	  /* the register is as it was */
#define RULE_LOST (INT16_MIN + 1) /* cannot be told (an expression, another register) */

struct wire_rule {
	uint8_t cfa; /* enum wire_cfa */
	uint8_t reg; /* CFA_REG*: enum wire_reg; CFA_PLT: see there */
	/*
	 * bit i: register i was saved at rbp + 8 * off[i] (this frame's rbp) instead of CFA + 8 *
	 * off[i]
	 */
	uint8_t from_rbp;
	uint8_t pad;
	int32_t cfa_off; /* bytes */
	/* where each register was saved: CFA + 8 * off; or RULE_SAME, RULE_LOST */
	int16_t off[WIRE_REGS];
	int16_t deref; /* *_DEREF: bytes added to the word that was read */
	uint8_t pad2[10];
};
_Static_assert(sizeof(struct wire_rule) == 32, "a rule is 32 bytes");

/*
 * A mapped object with code. Offsets are into the tables' `pool` (bytes). Rows are sorted; row i
 * covers [offs[i], offs[i+1]), the last one to the end of the module. `index` has one u32 per 1 KiB
 * of the module plus one: the first row whose offset is > its start, minus one.
 */
struct wire_module {
	/* absolute addresses: lowest and highest+1 of its executable segments */
	uint64_t start, end;
	uint64_t rows; /* pool offset of u32 offs[nrows] */
	/* pool offset of u16 rule[nrows]: index into wire_tables.rule */
	uint64_t rules;
	/* pool offset of u32 index[(end - start + 1023) / 1024 + 1] */
	uint64_t index;
	uint32_t nrows;
	uint32_t pad;
};
#define WIRE_MODULES 2048
/* sorted by start; which of two holds: wire_process.modules_now */
struct wire_modules {
	uint32_t count;
	uint32_t pad[15];
	struct wire_module module[WIRE_MODULES];
};

/* ---- stacks -------------------------------------------------------------- */

/*
 * A stack is a node; its parent is its caller; the chain ends at a root. Ids are dense, handed out
 * by a counter, parent < child always; a node is never changed after it was published but for
 * `next`-chains' heads. Root nodes have parent 0 and pc 0; the pseudo-frame
 * [truncated] is a node with pc WIRE_PC_TRUNCATED or WIRE_PC_DEEP below the root. Node 0 means "no
 * stack".
 */
#define WIRE_NODES	  (1u << 22)
#define WIRE_BUCKETS	  (1u << 18) /* for children of nodes that have very many */
#define WIRE_KIDS	  4u
#define WIRE_PC_TRUNCATED 1ull	/* no way to go on from there */
#define WIRE_PC_DEEP	  2ull	/* deeper than --depth */
#define WIRE_DEPTH	  1024u /* the most frames kept */
/*
 * What a load of the trampoline's brings that faulted, and that we ended
 * (supervisor/tracee/fault_fixup.c): no pc, no thread pointer, and no rsp or rbp that leads
 * anywhere.
 */
#define WIRE_LOAD_FAILED (~0ull)
/* the pc was interrupted (signal), not a return address: do not subtract 1 */
#define WIRE_PC_EXACT (1ull << 62)
#define WIRE_PC_MASK  ((1ull << 47) - 1) /* no program has code above */
struct wire_node {
	uint64_t pc;
	uint32_t parent;
	/* these are links, 0: none */
	uint32_t next;		 /* in its parent's chain, or its bucket's */
	uint32_t kid[WIRE_KIDS]; /* its first children, in four chains: see walk.c */
};
_Static_assert(sizeof(struct wire_node) == 32, "a node is 32 bytes");

/* A link to a node: its id, and above that the upper bits of the hash of its pc. */
static inline uint32_t wire_link(uint32_t id, uint32_t hash)
{
	return id | (hash & ~(WIRE_NODES - 1));
}
static inline uint32_t wire_link_id(uint32_t link) { return link & (WIRE_NODES - 1); }
/* The id, if LINK has the bits of HASH; else WIRE_NODES or more. Of no link: 0, or that, too. */
static inline uint32_t wire_link_to(uint32_t link, uint32_t hash)
{
	return link ^ (hash & ~(WIRE_NODES - 1));
}

static inline uint32_t wire_node_hash(uint32_t parent, uint64_t pc)
{
	uint64_t h = (pc ^ (uint64_t)parent << 40 ^ (uint64_t)parent * 0x9e3779b97f4a7c15ull) *
		     0xff51afd7ed558ccdull;
	return (uint32_t)(h >> 43); /* 21 bits */
}

/*
 * Stacks by the hash of their path, the pcs from the root on. An entry has the lower bits of the
 * hash above the id of the node; 0: none. The upper bits say its line. The lines in use double with
 * the nodes below the root; then all are found anew.
 *
 * Two stacks of which all these bits are equal would be taken for one. With 10^6 stacks they are 57,
 * and the odds below 10^-5; with 10^5, below 10^-7.
 */
#define WIRE_PATH_BITS 15
#define WIRE_PATH_WAYS 8u

/* The hash of the path that goes on from PATH to PC. Of a root: its id. */
static inline uint64_t wire_path_on(uint64_t path, uint64_t pc)
{
	unsigned __int128 m = (unsigned __int128)(path ^ pc ^ 0x243f6a8885a308d3ull) *
			      0x9e3779b97f4a7c15ull;

	return (uint64_t)m ^ (uint64_t)(m >> 64);
}

/* What an entry of PATH has above the id. */
static inline uint64_t wire_path_tag(uint64_t path) { return path * WIRE_NODES; }

/* A hash shifted by this is its line's number, when there are so many NODES. */
static inline uint32_t wire_path_shift(uint32_t nodes)
{
	uint32_t bits = 28 - (uint32_t)__builtin_clz(nodes | 512); /* up to 8 bytes a node */

	return 64 - (bits < WIRE_PATH_BITS ? bits : WIRE_PATH_BITS);
}

#define WIRE_RULES 65536u
/* direct mapped; each process has its own, as it has its own modules */
#define WIRE_CACHE_BITS 15
#define WIRE_RULE_CACHE (1u << WIRE_CACHE_BITS)
#define WIRE_POOL	(128u << 20)

/* Written by mtrun alone, and only appended to. */
struct wire_tables {
	struct wire_rule rule[WIRE_RULES]; /* rule 0 is CFA_NONE */
	uint8_t pool[WIRE_POOL];	   /* modules' rows */
};
/* Calls that stand beside each other have entries in one line of memory. */
static inline uint32_t wire_cache_slot(uint64_t pc)
{
	return (uint32_t)((pc >> 3 ^ pc >> (3 + WIRE_CACHE_BITS)) & (WIRE_RULE_CACHE - 1));
}

/* What the slot does not tell of PC: 32 bits. */
static inline uint64_t wire_cache_tag(uint64_t pc)
{
	return pc >> (3 + WIRE_CACHE_BITS) << 3 | (pc & 7);
}

static inline uint64_t wire_cache_pc(uint32_t slot, uint64_t entry)
{
	uint64_t high = entry >> 35;

	return high << (3 + WIRE_CACHE_BITS) | ((slot ^ high) & (WIRE_RULE_CACHE - 1)) << 3 |
	       (entry >> 32 & 7);
}

/*
 * An entry says its pc, together with its slot; which rule that has; and the rule itself, if it is
 * one of those that nearly every function has:
 *
 *	63       32 31        21   20    19      16 15     0
 *	+----------+------------+-------+----------+--------+
 *	| tag      | CFA offset | rbp ? | saved at | number |
 *	+----------+------------+-------+----------+--------+
 *
 * The CFA is that many words, 1 to 2047, above rsp, or above rbp if the bit says so; 0: the rule is
 * another one. rbp was saved N + 1 words below the CFA; N 0: it is as it was.
 */
#define WIRE_CACHE_FROM_RBP (1u << 20)
static inline bool wire_cache_is(uint64_t entry, uint64_t pc)
{
	return entry >> 32 == wire_cache_tag(pc);
}

static inline uint32_t wire_cache_rule(uint64_t entry) { return entry & 0xffff; }

static inline uint32_t wire_cache_cfa(uint64_t entry) { return (uint32_t)entry >> 21; }

static inline uint32_t wire_cache_saved(uint64_t entry) { return entry >> 16 & 15; }

static inline uint64_t wire_cache_entry(uint64_t pc, uint32_t number, const struct wire_rule *u)
{
	uint64_t entry = wire_cache_tag(pc) << 32 | number;
	int saved = u->off[WIRE_RBP] == RULE_SAME ? 0 : -u->off[WIRE_RBP] - 1;

	if ((u->cfa != CFA_RSP && u->cfa != CFA_RBP) || u->cfa_off < 8 || u->cfa_off & 7 ||
	    u->cfa_off >= 2048 * 8 || u->from_rbp & 1 << WIRE_RBP || saved > 15 ||
	    (u->off[WIRE_RBP] != RULE_SAME && saved < 1))
		return entry;
	return entry | (uint64_t)u->cfa_off / 8 << 21 | (uint64_t)saved << 16 |
	       (u->cfa == CFA_RBP ? WIRE_CACHE_FROM_RBP : 0);
}

#endif
