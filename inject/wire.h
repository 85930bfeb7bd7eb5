/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * wire.h - what the target's side (inject/) and our side (supervisor/) share: the one contract
 * between the two address spaces.
 *
 * Everything that the trampoline needs lies in one range of addresses in the target, the "agent",
 * most of which is not mapped: its parts are as small as they can be, and grow at their ends
 * (mremap(2) needs no descriptor). Nothing else in the target is ours but the jumps at the entries
 * of hooked functions, and the islands near them with the stubs. No descriptor stays open in the
 * target: memory files are mapped here and there, then closed.
 *
 *      agent + 0               guard    private page, wiped on fork: "armed". A forked child that
 *                                       nobody caught reads 0 and is inert.
 *            + 0x1000          blob     private: the trampoline's code and constants, r-x
 *            + AGENT_JOURNAL            private: struct wire_journal, what was done to the
 *                                       process' code
 *            + AGENT_BEACON             one page: clock, bell, heartbeat         | one file for
 *            + AGENT_PROCESS            struct wire_process: counters, modules,..| each process,
 *            + AGENT_BIGS               struct wire_big[]: of threads that write | not inherited
 *                                       much                                     |
 *            + AGENT_NODES              struct wire_node[]: stacks               |
 *            + AGENT_TABLES             struct wire_tables: unwind rules; read-only, sealed against
 *                                       writing. A forked child shares its parent's
 *
 * A forked child has the private parts (its hooks are its own to undo) and the tables, which nobody
 * but mtrun can change. What its parent writes it cannot reach: it gets a file of its own, or
 * nothing.
 *
 * Events go from a hook to the supervisor through a ring of its thread: one writer, one reader, no
 * system call, no lock. (A thread begins with a small one in its slot; inject/big.c tells how it
 * comes to the large one.) The ring is shared memory, so the reader sees an event as soon
 * as the hook has stored `head`; also from a target that was killed, and from one that has closed
 * its descriptors or entered seccomp. (Measured beside a pipe of 4 KiB frames: 38 against 42-49 ns
 * a pair, and there is no descriptor that a target could close, replace or write to.) When a ring
 * is half full the hook rings the bell if the supervisor sleeps; when it is full the hook waits for
 * the reader. mtrun's death is seen in `beacon.alive`: a robust futex, which the kernel marks when
 * its owner dies.
 *
 * Events on one address are ordered by a counter that they hash to (see WIRE_COUNTERS): an
 * allocation takes its number after the real function has returned, a free before the real one is
 * called. Large blocks and mappings also take a ticket from one global counter.
 *
 * The supervisor trusts none of this: it reads a word once, checks it, then uses it. Little endian,
 * x86-64, natural alignment.
 */
#ifndef MTRUN_WIRE_H
#define MTRUN_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_MAGIC   0x316e7572746d0000ull /* "\0\0mtrun1" */
#define WIRE_VERSION 9

/* ---- the beacon: written by mtrun; only `bell` is written by the target ---- */

/*
 * `alive` is on the robust list of mtrun's heartbeat thread (set_robust_list(2)): the kernel sets
 * FUTEX_OWNER_DIED in it when that thread dies, however it dies.
 */
#define WIRE_OWNER_DIED 0x40000000u

struct wire_beacon {
	uint64_t magic; /* WIRE_MAGIC | WIRE_VERSION */
	/* see above; low 30 bits: mtrun's thread id. 0: not up yet, or gone */
	uint32_t alive;
	uint32_t pad0[13];
	/* offset 64: milliseconds since tracing began, from the supervisor's clock */
	uint32_t ms;
	uint32_t pad1[15];
	/* offset 128: futex; a hook adds 1 and wakes it when `sleeping` is set */
	uint32_t bell;
	uint32_t sleeping; /* the supervisor sleeps, or is about to */
};

/* ---- events -------------------------------------------------------------- */

/*
 *  63         52 51   47 46                            0
 * +-------------+-------+-------------------------------+
 * | seq 0..11   | kind  | address                       |   a
 * +-------------+-------+---------------+---------------+
 * | stack (24)          | size (24)     | seq 12..27    |   b
 * +---------------------+---------------+---------------+
 *  63                 40 39           16 15            0
 * A wide event is followed by one more 16-byte slot:  { size or length (64) , ticket (64) }.
 *
 * The size field of a block's event, ALLOC to GONE:
 *
 *   23   22      14 13  12 11       0
 * +----+----+------+------+----------+
 * | S  | C  |  0   |family| size     |    ALLOC, BECAME. Of the wide forms `size` is 0
 * +----+----+------+------+----------+
 * | 0  | L  |  0   |family|        F |    FREE, LEAVE, GONE
 * +----+----+------+------+----------+
 * family: enum wire_family. S, C: WIRE_SAMPLED, _COUNTED. L, F: WIRE_LATER, _FROM_LIBC.
 */
struct wire_event {
	uint64_t a, b;
};
_Static_assert(sizeof(struct wire_event) == 16, "an event is 16 bytes");

enum wire_kind {
	WIRE_NONE,
	/*
	 * b: the beacon's ms. Before the first event of a thread in a new millisecond. No counter
	 */
	WIRE_TIME,
	/* address: tid; the slot has a new owner. No counter. Always the owner's first event */
	WIRE_THREAD,
	WIRE_ALLOC,	 /* address, size, stack */
	WIRE_ALLOC_WIDE, /* address, stack; size >= WIRE_WIDE; second slot {size, ticket} */
	/*
	 * address; size field: WIRE_FROM_LIBC; stack: the freeing stack or 0. It is there where
	 * free_stacks asks for it, and where the release looked wrong to the hook (hint.h)
	 */
	WIRE_FREE,
	WIRE_FREE_WIDE, /* as FREE; second slot {0, ticket} */
	/* realloc is about to be called for this address; stack: where it looked wrong, or 0 */
	WIRE_LEAVE,
	/*
	 * realloc gave this address (takes this address' counter); size, stack. Ends the thread's
	 * LEAVE
	 */
	WIRE_BECAME,
	WIRE_BECAME_WIDE, /* address, stack; second slot {size, ticket} */
	/* realloc failed: the block of LEAVE (same address, its counter again) is as it was */
	WIRE_STAYED,
	/*
	 * realloc(p, 0) freed it: as STAYED, but the block is gone; stack: where free_stacks asks
	 * for it
	 */
	WIRE_GONE,
	/*
	 * mappings: no address counter, ordered by their tickets alone; always two slots, {length,
	 * ticket}; `size` field: protection, flags
	 */
	WIRE_MAP,	   /* mmap gave address; size field: WIRE_PROT_* | WIRE_MAP_*; stack */
	WIRE_UNMAP,	   /* munmap of address is about to be called */
	WIRE_UNMAP_FAILED, /* munmap failed: what UNMAP took out is put back */
	WIRE_REMAP_LEAVE,  /* mremap of address (old length) is about to be called */
	/* mremap gave address, new length; stack. Ends the thread's REMAP_LEAVE */
	WIRE_REMAP,
	WIRE_REMAP_FAILED, /* mremap failed: what REMAP_LEAVE took out is put back */
	/* mprotect(address, length, size field: WIRE_PROT_*) succeeded; stack */
	WIRE_PROTECT,
	/* the program's own brk/sbrk: address = the new break, length = the old one; stack */
	WIRE_BREAK,
	/* b: the period of this thread's samples from here on. No counter */
	WIRE_PERIOD,
	WIRE_KINDS
};

/*
 * The family of the function that gives or takes a block. What one family gave, the same family is
 * to take.
 */
enum wire_family {
	FAMILY_HEAP,  /* malloc, calloc, memalign, .., realloc; free */
	FAMILY_NEW,   /* operator new; operator delete */
	FAMILY_ARRAY, /* operator new[]; operator delete[] */
	/* not to be judged: --hook's, and operators of allocators and programs */
	FAMILY_ANY
};
#define WIRE_FAMILY_SHIFT 12 /* in the size field */

#define WIRE_WIDE 4096u /* sizes from here on take a ticket, and a second slot */
/* FREE: called from inside libc (thread exit frees its cached chunks again) */
#define WIRE_FROM_LIBC 1u
/* ALLOC*, BECAME*: the block stands for others, too (see below) */
#define WIRE_SAMPLED (1u << 23)
/* ALLOC*, BECAME*: the hook has counted its address in wire_process.known */
#define WIRE_COUNTED (1u << 22)
/* FREE*, LEAVE, while sampling: the block is not what its thread has allocated last */
#define WIRE_LATER	(1u << 22)
#define WIRE_FLAGS	(WIRE_SAMPLED | WIRE_COUNTED) /* what sampling adds */
#define WIRE_PROT_READ	1u			      /* as PROT_* */
#define WIRE_PROT_WRITE 2u
#define WIRE_PROT_EXEC	4u
#define WIRE_MAP_ANON	8u
#define WIRE_MAP_SHARED 16u

#define WIRE_ADDRESS_BITS 47
#define WIRE_ADDRESS_MASK ((1ull << WIRE_ADDRESS_BITS) - 1)
/*
 * FREE, LEAVE: stands for whatever address has more bits than that. Nothing is ever mapped there:
 * the kernel leaves out the last page below 2^47 (TASK_SIZE_MAX).
 */
#define WIRE_BEYOND	(WIRE_ADDRESS_MASK + 1 - 4096)
#define WIRE_SEQ_BITS	28
#define WIRE_SEQ_MASK	((1u << WIRE_SEQ_BITS) - 1)
#define WIRE_STACK_BITS 24

static inline uint64_t wire_told(uint64_t address)
{
	return address > WIRE_ADDRESS_MASK ? WIRE_BEYOND : address;
}

static inline struct wire_event wire_pack(enum wire_kind kind, uint64_t address, uint32_t seq,
					  uint32_t size, uint32_t stack)
{
	struct wire_event e = {
		.a = (address & WIRE_ADDRESS_MASK) | (uint64_t)kind << 47 | (uint64_t)seq << 52,
		.b = (uint64_t)stack << 40 | (uint64_t)(size & 0xffffff) << 16 |
		     ((seq >> 12) & 0xffff),
	};
	return e;
}
static inline enum wire_kind wire_kind(struct wire_event e)
{
	return (enum wire_kind)(e.a >> 47 & 31);
}
static inline uint64_t wire_address(struct wire_event e) { return e.a & WIRE_ADDRESS_MASK; }
static inline uint32_t wire_seq(struct wire_event e)
{
	return (uint32_t)(e.a >> 52) | (uint32_t)(e.b & 0xffff) << 12;
}
static inline uint32_t wire_size(struct wire_event e)
{
	return (uint32_t)(e.b >> 16) & (WIRE_WIDE - 1);
}
static inline enum wire_family wire_family(struct wire_event e)
{
	return (enum wire_family)(e.b >> (16 + WIRE_FAMILY_SHIFT) & 3);
}
static inline uint32_t wire_flags(struct wire_event e)
{
	return (uint32_t)(e.b >> 16) & WIRE_FLAGS;
}
static inline uint32_t wire_stack(struct wire_event e) { return (uint32_t)(e.b >> 40); }
static inline int wire_is_wide(enum wire_kind k)
{
	return k == WIRE_ALLOC_WIDE || k == WIRE_FREE_WIDE || k == WIRE_BECAME_WIDE ||
	       (k >= WIRE_MAP && k <= WIRE_BREAK);
}
static inline int wire_has_counter(enum wire_kind k) { return k >= WIRE_ALLOC && k <= WIRE_GONE; }

/*
 * Which counter an address takes its numbers from. Counters start at 0; the first event of a
 * counter has seq 0. The counters of neighbouring addresses are spread: side by side in one line
 * they make a server of eight threads 10 % cheaper, but frees by other threads cost up to half as
 * much again.
 */
#define WIRE_COUNTERS 4096u
static inline uint32_t wire_counter(uint64_t address)
{
	return (uint32_t)((address >> 4) * 0x9e3779b1u >> 20 & (WIRE_COUNTERS - 1));
}

/*
 * Sampling. With wire_process.sample (a period, in bytes; 0: every block is told of) a thread
 * counts down the bytes that are asked for, from an exponentially distributed random number with
 * that mean. The block that uses it up is told of, as WIRE_SAMPLED; of the others there is no event
 * and no number, and their release is told of only where it cannot be excluded that the supervisor
 * knows the block:
 *
 * `known` counts, by a hash of their addresses, blocks that the supervisor knows. The hook adds the
 * block before its ALLOC or BECAME (WIRE_COUNTED), the supervisor takes it out when it has applied
 * the release. So an entry is never too small, and a release is left out where it is 0. Blocks that
 * were told of before sampling began are added by the supervisor, which sets `filter` when all are
 * in: until then every release is told of. A hook counts what it tells of whenever `sample` is set
 * at that moment, whatever it was when the call began; with the thread's mark WIRE_BUSY, so that
 * the supervisor can know when those that had seen 0 are done.
 *
 * Until the supervisor has applied it a release leaves its block in `known`, and such an address
 * comes again at once: `released` has, for each counter, the address of the FREE told of last, or 0
 * once an allocation was told of. A FREE stores it before the real function is called, so an
 * address found there is one that the supervisor does not know.
 */
/*
 * the longest period: a block of one byte then stands for as many as a count in the timeline can
 * hold
 */
#define SAMPLE_MAX	(1ull << 30)
#define WIRE_KNOWN	(1u << 18)
#define WIRE_KNOWN_FULL 255u /* cannot be told any more: stays */
static inline uint32_t wire_known(uint64_t address)
{
	/* neighbours stay neighbours; entry.S has the same */
	return (uint32_t)(address >> 4 ^ address >> 22) & (WIRE_KNOWN - 1);
}
static inline void wire_known_add(uint8_t *known, uint64_t address)
{
	uint8_t *at = &known[wire_known(address)], n = __atomic_load_n(at, __ATOMIC_RELAXED);
	while (n != WIRE_KNOWN_FULL &&
	       !__atomic_compare_exchange_n(at, &n, (uint8_t)(n + 1), 0, __ATOMIC_SEQ_CST,
					    __ATOMIC_RELAXED))
		;
}
static inline void wire_known_take(uint8_t *known, uint64_t address)
{
	uint8_t *at = &known[wire_known(address)], n = __atomic_load_n(at, __ATOMIC_RELAXED);
	while (n && n != WIRE_KNOWN_FULL &&
	       !__atomic_compare_exchange_n(at, &n, (uint8_t)(n - 1), 0, __ATOMIC_SEQ_CST,
					    __ATOMIC_RELAXED))
		;
}

/* ---- a question, and the service that runs in the target on our behalf ---- */

/*
 * A mailbox makes a thread of the target work for us without ptrace: it sits in the blob's loop,
 * waits for `state` to become MAIL_WORK, makes the system calls listed, sets MAIL_DONE, and so on
 * until MAIL_GO lets it return to what it did. When mtrun dies the loop ends as by MAIL_GO. A hook
 * that has a question fills `what`/`arg`, sets MAIL_ASKED and enters the same loop; `answer` is the
 * reply. A hook does not wait for ever (inject/patience.c): it takes its question back by
 * MAIL_IDLE. Each question has a turn, in the bits above MAIL_STATE, so that an answer that comes
 * too late is not taken for that of the next one. The turn is 0 where the supervisor has sent the
 * thread.
 */
enum wire_mail_state { MAIL_IDLE, MAIL_ASKED, MAIL_WORK, MAIL_DONE, MAIL_GO };
#define MAIL_STATE 0xffu  /* of `state`: enum wire_mail_state */
#define MAIL_TURN  0x100u /* added for each question */
enum wire_what {
	/* the service was entered because the supervisor sent the thread there */
	ASK_NOTHING,
	ASK_MODULES, /* ld.so's _dl_debug_state was called: modules came or went */
	/* a test wants to look at this thread's stack before the hook does (WIRE_STALE_SHOW) */
	ASK_FRAMES,
	/* a call of mtrun.h: arg[0] is enum wire_api, arg[1] the address of a text */
	ASK_API,
	ASK_ROOM, /* a request under a limit: see below */
	ASK_LEND, /* LeakSanitizer is about to trace this process; enum wire_lent */
	ASK_BACK, /* and is done */
	/*
	 * ptrace(arg[0], arg[1], ..) that makes its caller (thread arg[2]) a tracer or a tracee;
	 * enum wire_trace
	 */
	ASK_TRACE,
	/*
	 * no system call may be made: where does the readable memory end that arg[0] is in? 0: it is
	 * not readable
	 */
	ASK_READABLE,
	/*
	 * arg[1] bytes at arg[0] are about to be moved or enlarged, which needs one mapping: a
	 * capture's protection must not divide them until ASK_MOVED of the same range
	 */
	ASK_WHOLE,
	ASK_MOVED, /* arg[1] bytes at arg[0] have been moved, or the call has failed */
	/*
	 * arg[1] bytes at arg[0] were just mapped or made writable, and are not touched before the
	 * answer: a capture's protection must not divide them from their neighbours
	 */
	ASK_MAPPED,
	/*
	 * arg[1] bytes at arg[0] are about to be unmapped, moved, protected or mapped over: is any
	 * of it mtrun's? 1: it is
	 */
	ASK_OURS,
};
/*
 * Answers to ASK_LEND and ASK_TRACE. Both are 0 if mtrun is gone: then it traces nobody. LENT_NOT:
 * mtrun cannot let go, so the check is not to be made.
 */
enum wire_lent { LENT_NOT_NEEDED, LENT, LENT_NOT };
/* TRACE_GO: make the call. TRACE_DONE: return 0, as if it had been made. */
enum wire_trace { TRACE_GO, TRACE_DONE };
/* What mtrun.h offers. These numbers are in the notes of programs out there. */
enum wire_api { API_ALLOCATED = 1, API_META, API_LIMIT, API_MARK, API_SNAPSHOT, API_KINDS };

/*
 * A limit. While wire_process.limited says so, what a call is about to be given is charged before
 * the real function is called: blocks by their size, from what the supervisor has given the thread
 * in advance; if that is not enough the hook asks, with the call's stack. Mappings always ask, and
 * are told what to charge. In struct wire_thread, `charged` and `settled` only grow: what lies
 * between `settled` and `charged` is in flight, as the event that makes it known, or the call's
 * failure, is still to come; what lies between `charged` and `given` + `credited` is left. Most
 * blocks are freed by their own thread before it allocates another. Then the thread's last event is
 * the block's, it says the size, and if nobody has had a number of that address' counter in
 * between, as much may be charged again: `credited`, stored before the release's event; but not
 * while `given` is 0, and not for what may have been allocated before there was a limit: an event
 * before `asked`. settled is stored after the event, and only the thread itself stores it and
 * `charged`, with plain stores and the mark's WIRE_BUSY bit set around. To take back what is left
 * the supervisor stores 0 in `given`, has every thread pass a memory barrier, and reads `charged`
 * where no WIRE_BUSY bit is. The answer: bytes to be charged, at once and without another look at
 * `given`; or ROOM_NONE. It is 0 at first, so that mtrun's death grants.
 *
 * A handler may interrupt its thread in the middle of its books, and ask. They are known to the
 * byte then, too: the thread has charged `charged`, or `charging` if it has seen enough given for
 * that; and what is in flight is in the ring already if `head` is above `settles`.
 */
#define LIMIT_BLOCKS 1u /* bits of wire_process.limited */
#define LIMIT_MAPS   2u
#define ROOM_NONE    (~0ull)
enum wire_room {	      /* arg[0]: the kind | ROOM_HANDLER | stack << 32; arg[1] and on: */
		 ROOM_BLOCK,  /* size */
		 ROOM_RESIZE, /* size, the block's address */
		 /* length, address (0: where the kernel likes) of accessible anonymous memory */
		 ROOM_MAP,
		 /* new length, old address, old length, new address (0: where the kernel likes) */
		 ROOM_REMAP,
		 ROOM_PROTECT, /* length, address that is to be accessible */
		 ROOM_BREAK,   /* bytes by which it grows */
		 ROOM_KINDS
};
/* from a handler inside another hook: nothing of the thread's is used, see signal_settled */
#define ROOM_HANDLER 0x100u

#define MAIL_CALLS 16
struct wire_call {
	int64_t nr;
	uint64_t arg[6];
	int64_t ret; /* result or -errno */
};
struct wire_mail {
	uint32_t state; /* futex: enum wire_mail_state, and the turn */
	uint32_t what;	/* enum wire_what */
	uint64_t arg[5];
	uint64_t answer;
	uint32_t ncalls;
	/* wait by calls that leave the thread's interrupted one restartable: see mail_serve() */
	uint32_t lean;
	struct wire_call call[MAIL_CALLS];
};

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
#define WIRE_PC_TRUNCATED 1ull /* no way to go on from there */
#define WIRE_PC_DEEP	  2ull /* deeper than --depth */
/*
 * What a load of the trampoline's brings that faulted, and that we ended
 * (supervisor/tracee/fault_fixup.c): no pc, no thread pointer, and no rsp or rbp that leads
 * anywhere.
 */
#define WIRE_LOAD_FAILED (~0ull)
/* the pc was interrupted (signal), not a return address: do not subtract 1 */
#define WIRE_PC_EXACT (1ull << 62)
#define WIRE_PC_MASK  WIRE_ADDRESS_MASK
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
 * Stacks by the hash of their path, the pcs from the root on. An entry's `node` has other bits of
 * the hash above the id: where two threads have written one at once, and it has a half of each, it
 * is nobody's. The lines in use double with the nodes below the root; then all are found anew.
 *
 * Two stacks with one hash would be taken for one. It has 64 bits: with 10^6 stacks the odds are
 * below 10^-7.
 */
#define WIRE_PATH_BITS 15
#define WIRE_PATH_WAYS 4u
struct wire_path {
	uint64_t hash, node;
};

/* The hash of the path that goes on from PATH to PC. Of a root: its id. */
static inline uint64_t wire_path_on(uint64_t path, uint64_t pc)
{
	unsigned __int128 m = (unsigned __int128)(path ^ pc ^ 0x243f6a8885a308d3ull) *
			      0x9e3779b97f4a7c15ull;

	return (uint64_t)m ^ (uint64_t)(m >> 64);
}

/* What an entry of PATH has above the id. */
static inline uint64_t wire_path_tag(uint64_t path)
{
	return path * 0xff51afd7ed558ccdull & ~(uint64_t)(WIRE_NODES - 1);
}

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

/* ---- hooks --------------------------------------------------------------- */

enum wire_hook_kind {
	HOOK_MALLOC,	     /* (size) -> pointer or NULL */
	HOOK_CALLOC,	     /* (n, size) */
	HOOK_REALLOC,	     /* (pointer, size) */
	HOOK_REALLOCARRAY,   /* (pointer, n, size) */
	HOOK_FREE,	     /* (pointer) */
	HOOK_MEMALIGN,	     /* (alignment, size) -> pointer or NULL; also aligned_alloc */
	HOOK_POSIX_MEMALIGN, /* (out, alignment, size) -> 0 or errno */
	/*
	 * operator new: `nothrow` is called instead; if it gives NULL the real one is jumped to.
	 * `arg` is enum wire_family
	 */
	HOOK_NEW,
	/*
	 * an operator new or delete that goes on to malloc or free, whose hook counts the call:
	 * that hook is told the family, `arg` (enum wire_family; entry.S), and by operator new also
	 * that 0 bytes were asked for, of which libstdc++ makes 1
	 */
	HOOK_SAYS_NEW,
	HOOK_SAYS_DELETE,
	/*
	 * functions of up to three arguments, the first one as in HOOK_MALLOC and HOOK_FREE. `arg`
	 * is enum wire_family
	 */
	HOOK_MALLOC_AS,
	HOOK_FREE_AS,
	HOOK_MMAP, /* also mmap64 */
	HOOK_MUNMAP,
	HOOK_MREMAP,
	HOOK_MPROTECT,
	HOOK_BRK,
	HOOK_SBRK,
	/* libc's syscall(): passes on what it knows to the above, the rest straight through */
	HOOK_SYSCALL,
	/* prctl(PR_SET_SECCOMP), seccomp(): no system call from hooks after it */
	HOOK_PRCTL,
	HOOK_DEBUG_STATE, /* ld.so's _dl_debug_state */
	HOOK_LEAK_CHECK,  /* LeakSanitizer's checks, which trace their own process */
	HOOK_PTRACE,	  /* ptrace(): a process has one tracer, and that may be mtrun */
	HOOK_API,	  /* a function of mtrun.h; `arg` is enum wire_api */
	/*
	 * a system call that a module makes by itself, any of them: see entry_raw. `arg` is 1 where
	 * the stack may have no room for a hook (Go)
	 */
	HOOK_RAW,
	/*
	 * --hook: functions of up to six register arguments. `arg`: which of them, from 0, is the
	 * size or the pointer
	 */
	HOOK_GENERIC_MALLOC,
	HOOK_GENERIC_CALLOC,
	HOOK_GENERIC_REALLOC,
	HOOK_GENERIC_FREE,
	HOOK_GENERIC_MEMALIGN,
	HOOK_GENERIC_POSIX_MEMALIGN,
	HOOK_KINDS
};

/*
 * One per hooked function, in the island beside its stub. The stub loads its address into r11 and
 * jumps to `entry`.
 */
struct wire_hook {
	uint64_t entry; /* in the blob: the entry of `kind` */
	uint64_t orig;	/* the moved instructions, then back into the function */
	/*
	 * HOOK_NEW: the moved instructions of the same module's nothrow form. HOOK_RAW: the return
	 * address that stands for the site, in the island. Else 0
	 */
	uint64_t nothrow;
	uint32_t kind; /* enum wire_hook_kind */
	uint32_t arg;  /* see enum wire_hook_kind; | WIRE_FRAMED */
};
/*
 * The real function walks its stack by frame pointers (a sanitizer's malloc), so it is called with
 * rbp at its caller's frame. HOOK_MALLOC and HOOK_FREE do not look at this flag.
 */
#define WIRE_FRAMED (1u << 31)

/* ---- threads ------------------------------------------------------------- */

#define WIRE_BUSY 1ull /* of wire_thread.mark */

/* Stacks for hooks whose thread's own stack may have no room: at most 32, a bit for each. */
#define WIRE_STACKS	32u
#define WIRE_STACK_SIZE 8192u /* bytes */

#define WIRE_RING    8192u /* events; a power of two */
#define WIRE_SMALL   256u  /* of the ring that a thread begins with */
#define WIRE_DEPTH   1024u /* the most frames kept */
#define WIRE_THREADS 8192u /* slots, taken from the lowest free one */
#define WIRE_BIGS    2048u /* those without go on in their small rings */
/*
 * The first WIRE_WHOLE_RINGS big ones use their whole ring, the others WIRE_PART_RING events of it.
 * So 64 busy threads have 5.7 MB of our memory instead of 10.6, at the same cost; 256 have 19 MB
 * instead of 42, and a pair costs 138 ns instead of 113, as they take turns on two processors more
 * often.
 */
#define WIRE_WHOLE_RINGS 12u
#define WIRE_PART_RING	 (WIRE_RING / 4)
#define WIRE_FINDER	 16384u /* entries of wire_process.finder */

enum { NEEDS_RBP = 1, NEEDS_RSP = 2 }; /* wire_frame.needs */
/* One frame of the thread's last stack (inject/walk.c tells how they are used). */
struct wire_frame {
	uint64_t slot;		/* where its pc was found */
	uint64_t pc;		/* the pc; WIRE_PC_EXACT if it was interrupted */
	uint64_t rbp;		/* rbp in that frame */
	uint32_t node;		/* 0: not known */
	uint16_t checks;	/* entries of `check` before this frame's own */
	uint8_t own_checks : 4; /* this frame's own: 1 to 3 */
	/* what decides what lies further out, besides slot and pc: NEEDS_* */
	uint8_t needs : 4;
	uint8_t rbp_use; /* while walking: what the frame's rule does with rbp */
	union {
		/* while walking: where the caller's rbp was loaded from; 0: it is the same */
		uint64_t rbp_slot;
		uint64_t path; /* remembered: the hash of its path */
	};
	/*
	 * while walking: where rsp was loaded from (signal frames, re-aligned stacks), 0: nowhere
	 */
	uint64_t rsp_slot;
	uint64_t rsp_word; /* what was there; kept where rsp decides */
};
/* the remembered stack holds as long as *slot == value */
struct wire_check {
	uint64_t slot, value;
};
struct wire_range {
	uint64_t lo, hi;
}; /* stack pages known to be readable */
#define WIRE_RANGES	4
#define WIRE_CHECKS	(2 + 3 * WIRE_DEPTH)
#define WIRE_STALE_SHOW 2u

/*
 * Whole stacks that were seen more than once, of one thread, and the tree by which one is found
 * (inject/whole.h tells how they are used). The stacks stand one behind the other in a log; a ref
 * names one by its place there, or with WIRE_IS_FORK a fork of the tree; 0: nothing.
 */
#define WIRE_WHOLE_WORDS 128u	/* of one stack, at most; a multiple of four */
#define WIRE_WHOLE_LOG	 32768u /* words; of those behind WIRE_WHOLE_RINGS a quarter */
#define WIRE_WHOLE_UNIT	 4u	/* a stack begins at a multiple of so many words */
#define WIRE_WHOLE_SEEN	 512u
#define WIRE_STARTS	 512u
#define WIRE_FORKS	 1024u
#define WIRE_FORK_KIDS	 13u
#define WIRE_IS_FORK	 0x8000u
/* Followed by `words` / 4 words of offsets, four of 16 bits each, and by `words` values. */
struct wire_whole {
	uint64_t slot, pc, rbp; /* where it starts; slot 0: nothing */
	uint32_t node;
	uint16_t words; /* innermost first; a multiple of four */
	uint16_t reach; /* so many words above `slot` its highest one is */
	uint8_t needs_rbp, truncated, pad[6];
};
#define WIRE_WHOLE_HEAD (sizeof(struct wire_whole) / 8) /* in words */
_Static_assert(sizeof(struct wire_whole) == 40, "a whole stack's head is 40 bytes");
/* Stacks that have the same words up to a place, where they differ. */
struct wire_fork {
	uint16_t word;	/* in words above the start; or FORK_RBP, FORK_START: rbp, the start */
	uint16_t shift; /* by which a value's hash says the kid */
	uint16_t any;	/* the ref of a stack behind it */
	uint16_t kid[WIRE_FORK_KIDS];
};
_Static_assert(sizeof(struct wire_fork) == 32, "two forks are a line");
/* The stacks whose slot and pc have one hash. */
struct wire_start {
	uint16_t ref;
	int8_t luck; /* goes up with hits; below 0: these stacks are passed by that many times */
	uint8_t pad;
};

struct wire_thread {
	/* written by the owner; what every hook reads is in this line */
	/*
	 * thread pointer; 0 never used, 1 was used. Set to 1 by the supervisor at the thread's end
	 */
	uint64_t fs;
	/* entry rsp of the outermost hook | WIRE_BUSY while it keeps books; 0: outside */
	uint64_t mark;
	uint64_t head;	/* events written so far; see wire_event_at() */
	uint64_t until; /* `head` may come to this without another look at `tail` */
	/*
	 * the ring in use: how far behind `small` it is, in bytes, and its events - 1. 0: not yet
	 */
	uint64_t ring;
	uint32_t mask;
	uint32_t ms;	 /* of its last time event */
	uint64_t memory; /* the address, in the target, of `big`; 0: it has none */
	uint32_t flush;	 /* wire_process.flush at its last walk that was remembered; 0: none was */
	uint32_t depth;	 /* valid entries of `last` */
	/* written by the supervisor */
	uint64_t tail; /* offset 64: events taken so far */
	uint64_t pad1[7];
	/* futex: the owner sleeps until `tail` moves; the supervisor sets 0 and wakes */
	uint32_t waiting;
	/*
	 * 1: `range` may name what cannot be read any more, and is to be forgotten; or
	 * WIRE_STALE_SHOW
	 */
	uint32_t stale;
	/* stacks of this thread that end in [truncated]; of these, deeper than was asked for */
	uint32_t truncated, deep;
	uint32_t lost; /* events that could not be written */
	struct wire_range range[WIRE_RANGES];
	uint64_t countdown; /* bytes until the next sample, at least 1 */
	uint64_t sample;    /* the period that it was drawn for */
	uint32_t tid;
	/* which of the big ones is its own, counted from 1; 0: none. `moved` is stored before */
	uint32_t big;
	uint64_t moved;			     /* `head` then: events from there on are in it */
	_Alignas(64) uint64_t given;	     /* by the supervisor; these three: see ASK_ROOM */
	uint64_t charged, settled, credited; /* by the owner */
	/* `head` when it last asked: blocks since have been charged */
	uint64_t asked;
	/* what `charged` becomes if what was given is enough; stored before `given` is looked at */
	uint64_t charging;
	/* where the event of what is charged goes: stored once `head` is above it */
	uint64_t settles;
	_Alignas(64) uint64_t waited; /* microseconds that it waited for the reader */
	uint64_t random;	      /* state of its random numbers; 0: not yet */
	uint64_t drawn;		      /* `countdown` when the last sample was taken */
	uint64_t told;		      /* the block told of last while sampling */
	uint32_t base_truncated;      /* the remembered stack ends in [truncated] */
	/* operator new(0) was called: the malloc(1) that follows is of 0 bytes */
	uint32_t new_zero;
	/* of `signal` that its handlers have taken and not filled yet */
	uint32_t places;
	uint32_t ranges_turn;  /* counts changes of `range`; odd: one is under way */
	uint32_t gave_up;      /* it has waited for mtrun for too long (patience.c), */
	uint64_t gave_up_tail; /* when `tail` was this */
	/* its share of wire_process.calls: its own handler does not wait for them */
	uint32_t calls;
	_Alignas(64) struct wire_mail mail;
	_Alignas(64) struct wire_event small[WIRE_SMALL];
	uint64_t pc[WIRE_DEPTH]; /* of a walk that is not remembered, innermost first */
	uint8_t pad2[2560];
};
_Static_assert(sizeof(struct wire_thread) == 16384, "slots are whole pages");
_Static_assert(offsetof(struct wire_thread, tail) == 64, "the first line is full");

/* What a thread has besides its slot once it has written WIRE_SMALL events. */
struct wire_big {
	_Alignas(4096) struct wire_event ring[WIRE_RING];
	/* where the walk ended, then outermost frame's first */
	struct wire_check check[WIRE_CHECKS];
	struct wire_frame last[WIRE_DEPTH];  /* outermost first */
	struct wire_frame fresh[WIRE_DEPTH]; /* the walk under way, innermost first */
	/* in the order in which they are touched: a thread of few stacks has little of it */
	uint32_t whole_seen[WIRE_WHOLE_SEEN]; /* nodes of stacks that were walked lately */
	struct wire_start start[WIRE_STARTS];
	uint32_t hits;	 /* stacks found since the log was empty */
	uint32_t rest;	 /* so many walks more no stack is kept */
	uint32_t forks;	 /* so many are in use, without the first one, which is none */
	uint32_t logged; /* units of the log in use, without the first one, which is none */
	/* wherever in it a stack begins, its words are in here */
	uint64_t log[WIRE_WHOLE_LOG + WIRE_WHOLE_HEAD + 3 * WIRE_WHOLE_WORDS];
	_Alignas(64) struct wire_fork fork[WIRE_FORKS];
};

/* Events that the ring of the BIGth big one holds, counted from 1; a power of two. */
static inline uint32_t wire_ring_size(uint32_t big)
{
	return big <= WIRE_WHOLE_RINGS ? WIRE_RING : WIRE_PART_RING;
}

/* Where T's event of number N is; BIG: the first of the big ones. N is below T's head. */
static inline struct wire_event *wire_event_at(struct wire_thread *t, struct wire_big *big,
					       uint64_t n)
{
	return t->big && n - t->moved < 1ull << 63
		       ? &big[t->big - 1].ring[n & (wire_ring_size(t->big) - 1)]
		       : &t->small[n & (WIRE_SMALL - 1)];
}
static inline uint32_t wire_finder_hash(uint64_t fs)
{
	return (uint32_t)((fs >> 6) * 0x9e3779b1u >> 16 & (WIRE_FINDER - 1));
}

#define WIRE_LARGE	  65536u
#define WIRE_LARGE_HASHES 4u /* share a line of addresses */
#define WIRE_LARGE_WAYS	  8
#define WIRE_LARGE_FULL	  255u /* cannot be told any more: stays */
static inline uint32_t wire_large_hash(uint64_t address)
{
	return (uint32_t)((address >> 4) * 0x9e3779b1u >> 16 & (WIRE_LARGE - 1));
}

#define WIRE_HINTS (1u << 18)
static inline uint32_t wire_hint(uint64_t address)
{
	/* neighbours stay neighbours, and arenas, which are far apart, do not meet */
	return (uint32_t)(address >> 4 ^ address >> 14) & (WIRE_HINTS - 1);
}

/*
 * Events of a signal handler that interrupted a hook: any thread, any time, few. A handler can be
 * interrupted by another one, or stopped, while it writes one. So they are places rather than a
 * queue: a free one is taken (before the event takes a number), filled, and said to be ready; the
 * reader takes what is ready, in the order drawn from `signal_head`, and sets it free. Nobody waits
 * for one that is half written but its own event.
 */
#define WIRE_SIGNAL_PLACES 256u
/* the last two: | slot of the thread << 2 */
enum wire_place { PLACE_FREE, PLACE_TAKEN, PLACE_READY };
struct wire_signal_event {
	uint32_t state; /* enum wire_place */
	uint32_t tid, ms, pad;
	uint64_t order;
	struct wire_event event[2];
	uint64_t pad2;
};
_Static_assert(sizeof(struct wire_signal_event) == 64, "one cache line");

struct wire_process {
	uint64_t magic; /* WIRE_MAGIC | WIRE_VERSION */
	uint32_t root;	/* node that new stacks start from */
	/* changes when remembered stacks are void (module gone); not 0 */
	uint32_t flush;
	uint32_t depth; /* --depth */
	/* counts publications: modules[modules_now & 1] holds, the other one may be changing */
	uint32_t modules_now;
	uint32_t tls_ready;		/* %fs:0 may be read */
	uint32_t no_syscalls;		/* seccomp: hooks make no system call any more */
	uint64_t libc_start, libc_size; /* frees from here are WIRE_FROM_LIBC */
	uint32_t slots;			/* of `thread`, that are mapped */
	uint32_t nodes_mapped;		/* of the nodes */
	/* in the line that every hook reads anyway; both together are looked at by most */
	union {
		struct {
			uint32_t free_stacks; /* releases say their stack, too */
			uint32_t limited;     /* LIMIT_* */
		};
		uint64_t either;
	};
	/* libc's function, 0: not known. Some allocators leave errno alone when realloc fails */
	uint64_t errno_location;
	uint64_t sample; /* the period, see above; 0: off */
	uint64_t seed;	 /* for random numbers: another one in each process */
	uint32_t filter; /* 1: a release is told of only where `known` says so */
	uint32_t pauses; /* how many pause instructions take a millisecond */
	/* the beacon's ms + 1 at which a hook has given mtrun up (patience.c); 0: none has */
	uint64_t stood;
	uint32_t growing; /* some thread is mapping more of the agent */
	/* pages are protected for a capture: ASK_WHOLE and what follows it */
	uint32_t protecting;
	uint32_t stacks_taken; /* a bit for each of `stack` */
	uint32_t fsgsbase;     /* rdfsbase may be used */
	uint32_t bigs;	       /* of the big ones, that are mapped */
	uint32_t path_shift;   /* wire_path_shift() of now; 0: `path` is empty */
	/* of a thread that the supervisor has sent to the service loop, or that made the agent */
	struct wire_mail mail;
	_Alignas(64) uint64_t ticket; /* tickets given out */
	uint64_t pad1[7];
	uint64_t signal_head; /* how many of handlers' events were made ready */
	uint64_t pad3;
	/* system calls of ours that are under way: seccomp waits for them */
	uint32_t calls;
	uint32_t no_slot;      /* events lost because all thread slots were taken */
	uint32_t threads_high; /* slots that were ever used lie below this */
	/*
	 * bytes granted to handlers (ROOM_SIGNAL) whose event was stored, or whose call failed;
	 * after the event
	 */
	uint64_t signal_settled;
	uint64_t pad2[4];
	/* thread pointer << 16 | slot: a hint, right if the slot has that `fs` */
	uint64_t finder[WIRE_FINDER];
	/* by which slot each of the big ones was taken, counted from 1; 0: it is free */
	uint32_t big_owner[WIRE_BIGS];
	uint32_t counter[WIRE_COUNTERS];
	/*
	 * how many blocks of WIRE_WIDE bytes or more live at addresses with this hash: see large.h
	 */
	uint8_t large[WIRE_LARGE];
	/* their addresses; 0: none */
	_Alignas(64) uint64_t large_at[WIRE_LARGE / WIRE_LARGE_HASHES][WIRE_LARGE_WAYS];
	uint8_t hint[WIRE_HINTS]; /* see hint.h */
	uint8_t known[WIRE_KNOWN];
	uint64_t released[WIRE_COUNTERS];
	struct wire_signal_event signal[WIRE_SIGNAL_PLACES];
	struct wire_modules modules[2];
	_Alignas(4096) uint64_t cache[WIRE_RULE_CACHE]; /* see wire_cache_entry() */
	uint32_t bucket[WIRE_BUCKETS];
	_Alignas(64) struct wire_path path[1u << WIRE_PATH_BITS][WIRE_PATH_WAYS];
	_Alignas(64) uint32_t nodes; /* ids given out so far; may exceed WIRE_NODES when full */
	_Alignas(4096) uint8_t stack[WIRE_STACKS][WIRE_STACK_SIZE];
	_Alignas(4096) struct wire_thread thread[WIRE_THREADS];
};

/* ---- the agent ----------------------------------------------------------- */

enum wire_armed {
	ARMED_NOT, /* nobody is there: every hook passes straight through */
	/*
	 * nothing is recorded: hooks pass straight through, but for those of ld.so, seccomp,
	 * ptrace, leak checks and mtrun.h
	 */
	ARMED_OFF,
	ARMED_ON
};
struct wire_guard {	/* private, wiped on fork */
	uint32_t armed; /* enum wire_armed */
	/* the process part is mapped. 0 in a forked child, which must not touch it */
	uint32_t here;
	/* bytes that arrive() is to map; `rules` and `pool` are 0 where the tables are there */
	uint64_t process, bigs, nodes, rules, pool;
	uint64_t secret; /* random: by it hooks know what they tell each other (entry.S) */
};

/*
 * What was done to the process' code, written before it is done: should this mtrun be killed, a
 * later one undoes it. It believes only what the memory confirms.
 */
#define WIRE_PLANTS  4096u
#define WIRE_ISLANDS 64u
#define WIRE_MOVED   32u /* bytes of a function's entry that may be moved */
struct wire_plant {	 /* as struct planted (supervisor/patch/plant.h) */
	uint64_t entry, stub, orig;
	uint8_t nbytes, ninsn, pad[6];
	uint8_t original[WIRE_MOVED], patched[WIRE_MOVED];
	struct {
		uint8_t from, to;
	} insn[16];
};
struct wire_journal {	/* mtrun alone writes it */
	uint64_t magic; /* WIRE_MAGIC | WIRE_VERSION */
	uint32_t plants, islands;
	struct {
		uint64_t start, end;
	} island[WIRE_ISLANDS];
	struct wire_plant plant[WIRE_PLANTS];
};

#define WIRE_PAGES(n) (((uint64_t)(n) + 4095) & ~4095ull)
#define AGENT_GUARD   0x0ull
#define AGENT_BLOB    0x1000ull
#define AGENT_JOURNAL 0x40000ull
#define AGENT_BEACON  0x100000ull
#define AGENT_PROCESS (AGENT_BEACON + 0x1000)
#define AGENT_THREADS (AGENT_PROCESS + offsetof(struct wire_process, thread))
#define AGENT_BIGS    (AGENT_PROCESS + WIRE_PAGES(sizeof(struct wire_process)))
#define AGENT_NODES   (AGENT_BIGS + WIRE_BIGS * sizeof(struct wire_big))
#define AGENT_TABLES  (AGENT_NODES + WIRE_PAGES(WIRE_NODES * sizeof(struct wire_node)))
#define AGENT_POOL    (AGENT_TABLES + offsetof(struct wire_tables, pool))
#define AGENT_SPAN    (AGENT_TABLES + WIRE_PAGES(sizeof(struct wire_tables)))
_Static_assert(AGENT_JOURNAL + sizeof(struct wire_journal) <= AGENT_BEACON, "the journal fits");
/*
 * The memory files, of fixed (sparse) size: a process' is [AGENT_BEACON, AGENT_TABLES), an image's
 * tables [AGENT_TABLES, AGENT_SPAN).
 */
#define FILE_PROCESS (AGENT_TABLES - AGENT_BEACON)
#define FILE_TABLES  (AGENT_SPAN - AGENT_TABLES)
/* What is mapped at first. */
#define SLOTS_FIRST 2u
#define BIGS_FIRST  1u
#define NODES_FIRST 8192u
#define RULES_FIRST 2048u
#define POOL_FIRST  (1u << 18)

#endif
