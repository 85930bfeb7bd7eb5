/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * walk_alone.h - the trampoline's walk.c, with a process, an image and nodes that lie elsewhere:
 * for the tests that include it.
 */
#ifndef MTRUN_WALK_ALONE_H
#define MTRUN_WALK_ALONE_H

#include <sys/mman.h>
#include <unistd.h>

#define own_call own_call_in_agent
#include "inject/blob.h"
#undef own_call
#undef PROC
#undef TABLES
#undef NODES
#define PROC   process
#define TABLES tables
#define NODES  nodes
static struct wire_process *process;
static struct wire_tables *tables;
static struct wire_node *nodes;
const char blob_start[1];

static bool no_calls; /* the program has gone into seccomp */

static long own_call(long nr, long a, long b, long c, long d)
{
	return no_calls ? -38 /* ENOSYS */ : sys6(nr, a, b, c, d, 0, 0);
}

/* What happens right after the LATER-th look at the counter of publications. */
static void (*meanwhile)(void);
static int later;

static void looked(const void *at)
{
	if (at == &process->modules_now && meanwhile && !--later)
		meanwhile();
}

#undef load
#define load(p)                                                             \
	({                                                                  \
		__auto_type loaded_ = __atomic_load_n(p, __ATOMIC_ACQUIRE); \
		looked(p);                                                  \
		loaded_;                                                    \
	})
#include "inject/walk.c"
#include "test.h"

bool nodes_reach(uint32_t id)
{
	(void)id;
	return false;
}

void nodes_touch(uint32_t id) { (void)id; }

/* What was asked last, and what the answer is. */
static struct question asked;
static uint64_t answer;

uint64_t ask_loudly(struct wire_thread *t, const struct question *q)
{
	(void)t;
	asked = *q;
	return answer;
}

uint64_t ask(struct wire_thread *t, const struct question *q) { return ask_loudly(t, q); }

uint64_t thread_pointer_early(void) { return 0; }

static struct wire_thread *self; /* the slot of this thread; NULL: it has none */

struct wire_thread *slot_find(uint64_t fs, uint32_t at)
{
	(void)fs, (void)at;
	return self;
}

/* Behind it is nothing that can be read. */
static void *map(size_t size)
{
	size_t whole = (size + 4095) & ~4095ul;
	char *p = mmap(NULL, whole + 4096, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED || mprotect(p + whole, 4096, PROT_NONE))
		exit(77);
	return p;
}

/* T has room for what its walks remember, which is nothing so far. */
static inline struct wire_big *remembers(struct wire_thread *t)
{
	struct wire_big *b = map(sizeof(*b));

	t->memory = (uintptr_t)b;
	return b;
}

static inline void agent_map(void)
{
	process = map(sizeof(*process));
	process->flush = 1;
	tables = map(sizeof(*tables));
	nodes = map(sizeof(*nodes) * WIRE_NODES);
}

#endif
