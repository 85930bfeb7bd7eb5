// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * fuzz_shared - everything that a target can write, written at any moment between two looks: slots,
 * mailboxes, rings, stacks, counters, unwind tables. Whatever is there, each reading ends, and
 * stays within what is mapped. Records of 13 bytes: what to do, where, with what.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "process/limit.h"
#include "process/process.h"
#include "session/api_answer.h"
#include "transport/nodes.h"
#include "transport/shared.h"
#include "unwind/cfi.h"

#define SLOTS 4u
#define LEAST (AGENT_THREADS - AGENT_PROCESS)

static bool own(void *ctx, uint32_t stack)
{
	(void)ctx;
	return stack & 1;
}

static void new_file(int *fd)
{
	*fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (*fd < 0 || ftruncate(*fd, FILE_PROCESS) < 0)
		abort();
}

/* Words that matter: the fixed part is mostly tables. */
static uint64_t *word(struct process *p, uint32_t where)
{
	struct wire_process *w = p->wire;
	struct wire_thread *t = &w->thread[where >> 8 & (SLOTS - 1)];

	switch (where & 7) {
	case 0: return (uint64_t *)(void *)((char *)w + (where >> 8) % (LEAST / 8) * 8);
	case 1: return (uint64_t *)(void *)t + (where >> 10) % 64; /* fs to ranges */
	case 2: return (uint64_t *)(void *)&t->mail + (where >> 10) % (sizeof(t->mail) / 8);
	case 3:
		return where >> 31 ? (uint64_t *)(void *)&p->shared.big[0].ring[(where >> 10) % 64]
				   : (uint64_t *)(void *)&t->small[(where >> 10) % 64];
	case 4:
		return (uint64_t *)(void *)&w->signal[(where >> 8) % 8] +
		       (where >> 16) % (sizeof(w->signal[0]) / 8);
	case 5: return &t->head;
	case 6: return (uint64_t *)(void *)&w->nodes - 0;
	default: return &t->charged + (where >> 10) % 4;
	}
}

static void questions(struct process *p, uint64_t ms)
{
	const struct api api = { .count = LEDGER_COUNT_HEAP, .limit = 1000 };
	struct shared_question q;
	uint32_t slot = 0;

	while (shared_question(&p->shared, &slot, &q)) {
		struct room_question room;
		struct room_case c;
		struct room_rules rules = { .limit = 100000,
					    .count = LEDGER_COUNT_HEAP | LEDGER_COUNT_MMAP,
					    .ms = ms,
					    .frozen = true };

		if (q.what == ASK_API && q.arg[0] != API_SNAPSHOT && q.arg[0] != API_MARK)
			(void)!api_answer(p, &q, &api);
		if (q.what != ASK_ROOM)
			continue;
		room_question(&room, &q);
		if (limit_judge(p, &room, &rules, &c) == ROOM_FITS)
			limit_grant(p, &room, &c);
	}
}

static void stacks(struct process *p, uint32_t from)
{
	uint64_t pc;
	unsigned depth = 0;

	for (uint32_t i = 0; i < 64; i++)
		for (uint32_t at = from + i; at; depth++) {
			uint32_t up = nodes_parent(p->nodes, at, &pc);

			if (up >= at)
				abort();
			at = up;
		}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct process *p = process_new(getpid(), 0, LEDGER_COUNT_HEAP | LEDGER_COUNT_MMAP, NULL);
	uint64_t ms = 0;
	int fd;

	new_file(&fd);
	if (!p || shared_map(&p->shared, fd, SLOTS))
		abort();
	p->wire = p->shared.wire;
	p->nodes = nodes_new(fd, p->wire, NULL);
	p->stream = p->nodes ? stream_new(&p->shared, p->ledger, own, NULL) : NULL;
	if (!p->stream || limit_switch(p, LEDGER_COUNT_HEAP))
		abort();
	p->wire->threads_high = SLOTS;
	for (; size >= 13; data += 13, size -= 13) {
		uint32_t where;
		uint64_t what;

		memcpy(&where, data + 1, 4);
		memcpy(&what, data + 5, 8);
		switch (data[0] & 15) {
		case 0: stream_take(p->stream, ms += what & 0xfff, where & 0xffff); break;
		case 1: stream_settle(p->stream, ms += what & 0xfff, where & 1); break;
		case 2: questions(p, ms += what & 0xfff); break;
		case 3: stacks(p, where % (WIRE_NODES + 1)); break;
		case 4: stream_thread_gone(p->stream, ms, what); break;
		case 5: limit_thread_gone(p, what); break;
		case 6: {
			struct stream_stats st;
			stream_stats(p->stream, &st);
			stream_missing(p->stream);
		} break;
		case 7: p->wire->threads_high = where & 1 ? (uint32_t)what : SLOTS; break;
		default: __atomic_store_n(word(p, where), what, __ATOMIC_RELAXED);
		}
	}
	process_unref(p);
	close(fd);
	return 0;
}
