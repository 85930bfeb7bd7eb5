// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Whatever a target may store in its rings: the stream and the ledger take it, and end up with
 * totals that agree with their blocks.
 */
#include "ledger/block_list.h"
#include "transport/shared.h"
#include "transport/stream.h"

#include <stdlib.h>
#include <string.h>

#include "../unit/pretended.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool own(void *ctx, uint32_t stack)
{
	(void)ctx;
	return stack & 1;
}

struct sum {
	uint64_t heap, mmap, blocks;
};

static struct sum sum_of(struct ledger *l)
{
	struct block_list list;
	struct sum s = { 0 };
	if (block_list_now(l, &list))
		abort();
	for (size_t i = 0; i < list.count; i++) {
		struct ledger_block b = block_list_get(&list, i);
		*(b.mapping ? &s.mmap : &s.heap) += b.bytes;
		s.blocks += b.mapping ? 0 : b.count;
	}
	block_list_release(&list);
	return s;
}

static void agree(struct ledger *l)
{
	struct ledger_totals t;
	struct sum s = sum_of(l);
	ledger_totals(l, &t);
	if (s.heap != t.heap || s.mmap != t.mmap || s.blocks != t.live_blocks)
		abort();
	int64_t bytes = 0, count = 0, b, c;
	uint64_t peak = 0;
	for (size_t i = 0; i < ledger_stacks(l); i++) {
		const struct ledger_stack *k = ledger_stack(l, (uint32_t)i);
		bytes = (int64_t)((uint64_t)bytes + (uint64_t)k->live_bytes);
		count += k->live_count;
		ledger_stack_at_peak(l, (uint32_t)i, &b, &c);
		peak += (uint64_t)b;
	}
	if ((uint64_t)bytes != t.heap + t.mmap ||
	    (t.mmap == 0 && count != (int64_t)t.live_blocks) || peak != t.peak)
		abort();
}

/*
 * Records of 17 bytes: what to do, and an event. Numbers are often the right ones: an event without
 * one gets the next of its counter.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wire_process *w = target_new();
	struct ledger *l = ledger_new(LEDGER_COUNT_HEAP | LEDGER_COUNT_MMAP), *child = NULL;
	struct shared shared = target_shared(w);
	struct stream *s = stream_new(&shared, l, own, NULL);
	uint64_t now = 0;
	w->threads_high = 4;
	ledger_known(l, w->known);
	for (; size >= 17; data += 17, size -= 17) {
		struct wire_thread *t = &w->thread[data[0] & 3];
		struct wire_event e;
		memcpy(&e, data + 1, sizeof(e));
		/* the high byte of the stack: small ones are quicker to check */
		if (data[16] != 255)
			e.b &= ~0ull >> 14;
		switch (data[0] >> 2) {
		case 0: stream_take(s, now += e.a & 0xfff, e.b & 0xffff); break;
		case 1: stream_settle(s, now += e.a & 0xfff, e.b & 1); break;
		case 2: t->head = e.a; break;
		case 3: w->signal_head += e.a & 15; break;
		case 4:
			w->signal[w->signal_head % WIRE_SIGNAL_PLACES] =
				(struct wire_signal_event){ .state = (e.b & 7) << 2 | PLACE_READY,
							    .order = w->signal_head,
							    .event = { e, e } };
			w->signal_head++;
			break;
		case 5:
			t->fs = e.a;
			stream_thread_gone(s, now, e.a);
			break;
		case 6:
			ledger_free(child);
			child = ledger_fork(l);
			break;
		case 7: w->threads_high = (uint32_t)e.a; break;
		case 10: target_big(w, data[0] & 3); break;
		case 8: ledger_know_all(l, e.a & 1); break;
		case 9:
			if (!ledger_compact(l, e.a & 1) && e.a & 2)
				ledger_move(l);
			break;
		default:
			if (data[0] & 0x80 && wire_has_counter(wire_kind(e)))
				e = wire_pack(wire_kind(e), wire_address(e) & 0xffff,
					      w->counter[wire_counter(wire_address(e) & 0xffff)]++,
					      wire_size(e) | wire_flags(e), wire_stack(e));
			*target_event(w, data[0] & 3, t->head) = e;
			t->head++;
		}
	}
	stream_settle(s, now + 2000, true);
	agree(l);
	if (child)
		agree(child);
	ledger_free(child);
	stream_free(s);
	ledger_free(l);
	target_free(w);
	return 0;
}
