/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * pretended.h - a target that is played: memory as its agent has it, what a hook does there, and a
 * process record that takes this memory for the target's.
 */
#ifndef MTRUN_PRETENDED_H
#define MTRUN_PRETENDED_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "inject/wire.h"
#include "ledger/ledger.h"
#include "process/process.h"
#include "transport/shared.h"
#include "transport/stream.h"

/* The process part and the big ones behind it, as in an agent. */
#define TARGET_SIZE (AGENT_NODES - AGENT_PROCESS)

static inline struct wire_process *target_new(void)
{
	void *p = mmap(NULL, TARGET_SIZE, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return p;
}

static inline void target_free(struct wire_process *w) { munmap(w, TARGET_SIZE); }

static inline struct wire_big *target_bigs(struct wire_process *w)
{
	return (struct wire_big *)(void *)((char *)w + (AGENT_BIGS - AGENT_PROCESS));
}

/* As mtrun sees it when all of it is mapped. */
static inline struct shared target_shared(struct wire_process *w)
{
	return (struct shared){
		.wire = w, .slots = WIRE_THREADS, .big = target_bigs(w), .bigs = WIRE_BIGS
	};
}

/* Thread T writes into a big ring from its next event on. */
static inline void target_big(struct wire_process *w, unsigned t)
{
	w->big_owner[t] = t + 1;
	w->bigs = WIRE_BIGS;
	w->thread[t].moved = w->thread[t].head;
	__atomic_store_n(&w->thread[t].big, t + 1, __ATOMIC_RELEASE);
}

/* Where thread T's event of number N goes. */
static inline struct wire_event *target_event(struct wire_process *w, unsigned t, uint64_t n)
{
	return wire_event_at(&w->thread[t], target_bigs(w), n);
}

static inline uint32_t number(struct wire_process *w, uint64_t addr)
{
	return __atomic_fetch_add(&w->counter[wire_counter(addr)], 1, __ATOMIC_ACQ_REL);
}

static inline uint64_t ticket(struct wire_process *w)
{
	return __atomic_fetch_add(&w->ticket, 1, __ATOMIC_ACQ_REL);
}

static inline void store(struct wire_process *w, unsigned t, struct wire_event e)
{
	struct wire_thread *th = &w->thread[t];
	struct wire_event *at = target_event(w, t, th->head);
	__atomic_store_n(&at->a, e.a, __ATOMIC_RELAXED);
	__atomic_store_n(&at->b, e.b, __ATOMIC_RELAXED);
	__atomic_store_n(&th->head, th->head + 1, __ATOMIC_RELEASE);
}

static inline void store2(struct wire_process *w, unsigned t, struct wire_event e, uint64_t size,
			  uint64_t tick)
{
	struct wire_thread *th = &w->thread[t];
	struct wire_event v[2] = { e, { size, tick } };
	for (int i = 0; i < 2; i++) {
		struct wire_event *at = target_event(w, t, th->head + (uint64_t)i);
		__atomic_store_n(&at->a, v[i].a, __ATOMIC_RELAXED);
		__atomic_store_n(&at->b, v[i].b, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&th->head, th->head + 2, __ATOMIC_RELEASE);
}

static inline void begin(struct wire_process *w, unsigned t, uint32_t tid)
{
	store(w, t, wire_pack(WIRE_THREAD, tid, 0, 0, 0));
}

static inline void at_ms(struct wire_process *w, unsigned t, uint32_t ms)
{
	store(w, t, (struct wire_event){ (uint64_t)WIRE_TIME << WIRE_ADDRESS_BITS, ms });
}

static inline void alloc(struct wire_process *w, unsigned t, uint64_t a, uint64_t size,
			 uint32_t stack)
{
	if (size < WIRE_WIDE)
		store(w, t, wire_pack(WIRE_ALLOC, a, number(w, a), (uint32_t)size, stack));
	else
		store2(w, t, wire_pack(WIRE_ALLOC_WIDE, a, number(w, a), 0, stack), size,
		       ticket(w));
}

static inline void release(struct wire_process *w, unsigned t, uint64_t a)
{
	store(w, t, wire_pack(WIRE_FREE, a, number(w, a), 0, 0));
}

/*
 * P is a process whose first THREADS slots have threads, with the thread pointers 0x1000, 0x2000,
 * .. OWN: as for stream_new(), with P.
 */
static inline void process_begin(struct process *p, unsigned threads,
				 bool (*own)(void *ctx, uint32_t stack))
{
	*p = (struct process){ .wire = target_new(),
			       .ledger = ledger_new(LEDGER_COUNT_HEAP | LEDGER_COUNT_MMAP),
			       .threads = threads };
	p->shared = target_shared(p->wire);
	p->stream = p->ledger ? stream_new(&p->shared, p->ledger, own, p) : NULL;
	if (!p->stream) {
		puts("out of memory");
		exit(1);
	}
	p->wire->threads_high = threads;
	for (unsigned i = 0; i < threads; i++) {
		p->wire->thread[i].fs = 0x1000 * (i + 1);
		target_big(p->wire, i);
	}
}

static inline void process_end(struct process *p)
{
	stream_free(p->stream);
	ledger_free(p->ledger);
	target_free(p->wire);
}

#endif
