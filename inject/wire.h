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
 *
 * Here: the beacon, what a process has once, and the agent's layout. The other parts: wire_event.h,
 * wire_stack.h, wire_mail.h, wire_thread.h, and wire_hook.h for the islands.
 */
#ifndef MTRUN_WIRE_H
#define MTRUN_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "wire_thread.h"

#define WIRE_MAGIC   0x316e7572746d0000ull /* "\0\0mtrun1" */
#define WIRE_VERSION 11

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

/* ---- the process ---------------------------------------------------------- */

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
	/* where ld.so says that it is in the middle of loading or unloading; 0: not known */
	uint64_t loading;
	/* system calls of ours that are under way: seccomp waits for them */
	uint32_t calls;
	uint32_t no_slot;      /* events lost: all thread slots, or all of `stack`, were taken */
	uint32_t threads_high; /* slots that were ever used lie below this */
	uint32_t full;	       /* no slot is free; cleared by whoever sets one free */
	/*
	 * bytes granted to handlers (ROOM_SIGNAL) whose event was stored, or whose call failed;
	 * after the event
	 */
	uint64_t signal_settled;
	uint64_t pad2[4];
	/* thread pointer << 16 | slot, right if the slot has that `fs`; 0: empty. See inject/ring.c */
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
	_Alignas(64) uint64_t path[1u << WIRE_PATH_BITS][WIRE_PATH_WAYS];
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
