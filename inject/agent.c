// SPDX-License-Identifier: GPL-3.0-or-later
#include <linux/time_types.h>

#include "patience.h"

/*
 * agent.c - makes the agent's parts, and enlarges them.
 *
 * A thread comes to arrive() in two ways. At exec and attach it comes from the bootstrap stub
 * (entry.S), when the blob is all there is. And the only thread of a forked child is sent here, as
 * the child lacks the parts that its parent shares with mtrun. The thread makes the memory files.
 * The supervisor, which follows by system call stops, opens each as soon as it is made, gives it
 * its size and seals that; then the thread maps the part that its mailbox is in. From there on it
 * runs without stops: each costs two context switches. A file without its size means that mtrun is
 * gone: then what was done is undone. The thread maps the rest, and serves (service.c). If that
 * cannot be mapped the mailbox says why (MAIL_UNDONE), and the thread waits until it is told to go,
 * or killed.
 *
 * Each part that grows is the end of a mapping with nothing behind it: the supervisor has chosen
 * such a place. A larger mapping shows more of the same file and keeps its advice (not inherited by
 * a fork, not dumped). Where no system call may be made, or the program's RLIMIT_AS is met, nothing
 * grows: a thread then has no slot, or goes on with the small ring in its slot; a stack loses its
 * innermost frames.
 */

enum {
	K_PROT_READ = 1,
	K_PROT_WRITE = 2,
	K_MAP_SHARED = 1,
	K_MAP_FIXED_NOREPLACE = 0x100000,
	K_SEEK_END = 2,
	K_EEXIST = 17
};
enum {
	K_MFD_CLOEXEC = 1,
	K_MFD_ALLOW_SEALING = 2,
	K_MADV_DONTFORK = 10,
	K_MADV_DONTDUMP = 16,
	K_MADV_WIPEONFORK = 18,
	K_MADV_POPULATE_WRITE = 23 /* Linux 5.14; before, each page costs a fault */
};

/* ---- making -------------------------------------------------------------- */

static long memory_file(void)
{
	return sys3(__NR_memfd_create, (long)"mtrun", K_MFD_CLOEXEC | K_MFD_ALLOW_SEALING, 0);
}

/* Whether somebody has given FD its size. */
static bool has_size(long fd, long size) { return sys3(__NR_lseek, fd, 0, K_SEEK_END) == size; }

static void unmap(uint64_t at, uint64_t len)
{
	sys3(__NR_munmap, (long)(AGENT + at), (long)len, 0);
}

/* LEN bytes at the agent's offset AT, of the file FD, which begins at the offset FROM. 0 or -errno. */
static long map(uint64_t at, uint64_t len, int prot, long fd, uint64_t from)
{
	long got = sys6(__NR_mmap, (long)(AGENT + at), (long)len, prot,
			K_MAP_SHARED | K_MAP_FIXED_NOREPLACE, fd, (long)(at - from));

	return got == (long)(AGENT + at) ? 0 : got < 0 ? got : -K_EEXIST;
}

static void advise(uint64_t at, uint64_t len, int advice)
{
	sys3(__NR_madvise, (long)(AGENT + at), (long)len, advice);
}

enum { PROT_SHARED = K_PROT_READ | K_PROT_WRITE };

/* All but the part that the mailbox is in. 0, or -errno and nothing is mapped. */
static long map_rest(const struct wire_guard *g, long process, long tables)
{
	const struct {
		uint64_t at, len, from;
		long fd;
		int prot;
	} part[] = {
		{ AGENT_BIGS, g->bigs, AGENT_BEACON, process, PROT_SHARED },
		{ AGENT_NODES, g->nodes, AGENT_BEACON, process, PROT_SHARED },
		{ AGENT_TABLES, g->rules, AGENT_TABLES, tables, K_PROT_READ },
		{ AGENT_POOL, g->pool, AGENT_TABLES, tables, K_PROT_READ },
	};
	int n = g->rules ? 4 : 2, i = 0;
	long err = 0;

	for (; i < n && !err; i++)
		err = map(part[i].at, part[i].len, part[i].prot, part[i].fd, part[i].from);
	if (err)
		for (i--; i-- > 0;)
			unmap(part[i].at, part[i].len);
	return err;
}

/* Returns whether the mailbox is there; then *ERR says whether the rest is. */
static bool make(const struct wire_guard *g, long *err)
{
	long process = memory_file(), tables = process >= 0 && g->rules ? memory_file() : -1;
	bool made = process >= 0 && (tables >= 0 || !g->rules) &&
		    !map(AGENT_BEACON, g->process, PROT_SHARED, process, AGENT_BEACON);

	if (made && !(has_size(process, FILE_PROCESS) &&
		      (!g->rules || has_size(tables, FILE_TABLES)) && BEACON->magic)) {
		unmap(AGENT_BEACON, g->process); /* the supervisor is gone */
		made = false;
	}
	if (made)
		*err = map_rest(g, process, tables);
	if (tables >= 0)
		sys3(__NR_close, tables, 0, 0);
	if (process >= 0)
		sys3(__NR_close, process, 0, 0);
	return made;
}

/* Returns whether the agent is there to stay. */
bool arrive(void);
bool arrive(void)
{
	const struct wire_guard g = *(const struct wire_guard *)GUARD;
	long err;

	if (!make(&g, &err))
		return false;
	if (g.rules) /* before it serves: whoever finds mtrun gone disarms the hooks */
		sys3(__NR_mprotect, (long)AGENT, 4096, K_PROT_READ | K_PROT_WRITE);
	if (err) {
		mail_undone(&PROC->mail, err);
		unmap(AGENT_BEACON, g.process);
		return false;
	}
	advise(AGENT_BEACON, g.process, K_MADV_DONTFORK);
	advise(AGENT_BIGS, g.bigs, K_MADV_DONTFORK);
	advise(AGENT_NODES, g.nodes, K_MADV_DONTFORK);
	advise(AGENT_BEACON, g.process, K_MADV_DONTDUMP);
	advise(AGENT_BIGS, g.bigs, K_MADV_DONTDUMP);
	advise(AGENT_NODES, g.nodes, K_MADV_DONTDUMP);
	if (g.rules) {
		advise(AGENT_TABLES, g.rules, K_MADV_DONTDUMP);
		advise(AGENT_POOL, g.pool, K_MADV_DONTDUMP);
		advise(AGENT_GUARD, 4096, K_MADV_WIPEONFORK);
	}
	mail_serve(&PROC->mail);
	return true;
}

/* Reached from entry_arrive. */
void arrive_child(uint64_t mask);
void arrive_child(uint64_t mask)
{
	signals_block();
	arrive();
	signals_restore(mask);
}

/* ---- growing ------------------------------------------------------------- */

#define LOCK_SPINS 1000	 /* longer than the call takes: then the lock's holder was preempted */
#define LOCK_NAP   50000 /* ns */

static bool lock(void)
{
	const struct __kernel_timespec nap = { .tv_nsec = LOCK_NAP };
	struct patience patience = { .calls = true };

	for (int i = 0;; i++) {
		if (!load(&PROC->growing) &&
		    !__atomic_exchange_n(&PROC->growing, 1, __ATOMIC_ACQUIRE))
			return true;
		if (i < LOCK_SPINS) {
			__builtin_ia32_pause();
			continue;
		}
		if (!patience_left(&patience))
			return false;
		sys3(__NR_nanosleep, (long)&nap, 0, 0);
	}
}

static void unlock(void) { store(&PROC->growing, 0); }

/* The mapping that ends at END gets MORE bytes: mremap is given its last page. */
static bool extend(uint64_t end, uint64_t more)
{
	return sys6(__NR_mremap, (long)(end - 4096), 4096, (long)(4096 + more), 0, 0, 0) ==
	       (long)(end - 4096);
}

static bool grow(uint32_t *count, uint32_t wanted, uint32_t most, uint64_t at, uint64_t size)
{
	uint32_t n = load(count), more;

	if (wanted < n)
		return true;
	more = wanted + 1 - n > n / 2 ? wanted + 1 - n : n / 2;
	if (size < 4096)
		more = (uint32_t)(WIRE_PAGES(more * size) / size);
	if (more > most - n)
		more = most - n;
	if (!extend(AGENT + at + n * size, more * size))
		return false;
	store(count, n + more);
	return true;
}

/*
 * *COUNT items of SIZE bytes each are mapped from the agent's offset AT on. Maps more, until there
 * are more than WANTED, at most MOST. Signals are blocked: a handler would wait for the lock that
 * its own thread holds.
 */
static bool reach(uint32_t *count, uint32_t wanted, uint32_t most, uint64_t at, uint64_t size)
{
	struct calls calls;
	uint64_t was;
	bool there;

	if (wanted >= most || !calls_begin(&calls))
		return false;
	was = signals_block();
	there = lock();
	if (there) {
		there = grow(count, wanted, most, at, size);
		unlock();
	}
	signals_restore(was);
	calls_end(&calls);
	return there;
}

noinline bool slots_reach(uint32_t slot)
{
	return reach(&PROC->slots, slot, WIRE_THREADS, AGENT_THREADS, sizeof(struct wire_thread));
}

noinline bool bigs_reach(uint32_t big)
{
	return reach(&PROC->bigs, big, WIRE_BIGS, AGENT_BIGS, sizeof(struct wire_big));
}

noinline bool nodes_reach(uint32_t node)
{
	return reach(&PROC->nodes_mapped, node, WIRE_NODES, AGENT_NODES, sizeof(struct wire_node));
}

/* The first touch of each page costs a fault: one call for many pages saves them. */
noinline void nodes_touch(uint32_t node)
{
	uint32_t mapped = load(&PROC->nodes_mapped), n = mapped > node ? mapped - node : 0;

	if (n > NODES_TOUCHED)
		n = NODES_TOUCHED;
	own_call(__NR_madvise, (long)(AGENT + AGENT_NODES + node * sizeof(struct wire_node)),
		 (long)(n * sizeof(struct wire_node)), K_MADV_POPULATE_WRITE, 0);
}

#define SLOTS_AHEAD 64u
#define BIGS_AHEAD  64u
#define NODES_AHEAD (1u << 19)

/* All big ones that are taken lie below this. */
static uint32_t bigs_taken(void)
{
	uint32_t n = load(&PROC->bigs);

	n = n < WIRE_BIGS ? n : WIRE_BIGS;
	while (n && !load(&PROC->big_owner[n - 1]))
		n--;
	return n;
}

void agent_foresee(void)
{
	uint32_t slots = load(&PROC->threads_high) + SLOTS_AHEAD, bigs = bigs_taken() + BIGS_AHEAD,
		 nodes = load(&PROC->nodes) + NODES_AHEAD;

	slots_reach(slots < WIRE_THREADS ? slots : WIRE_THREADS - 1);
	bigs_reach(bigs < WIRE_BIGS ? bigs : WIRE_BIGS - 1);
	nodes_reach(nodes < WIRE_NODES ? nodes : WIRE_NODES - 1);
}
