// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * fuzz_decode.c - STATE and EVENTS blocks with whatever in them, one after the other, into two
 * replayed ledgers: into one block by block, into the other with stops in between. Both come to the
 * same, and answer everything that is asked of a ledger.
 *
 * The input is a row of blocks, each a byte (see KIND_*), its length in two bytes, and what is in
 * it.
 */
#include <stdlib.h>
#include <string.h>

#include "ledger/ledger_replay.h"
#include "ledger/timeline.h"
#include "log/event_decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define KIND_STATE   1u /* else EVENTS */
#define KIND_GOES_ON 2u
/* and from there on: how many intervals are between two stops, less 1 */
#define KIND_STOPS 4u
#define STOPS_MOST 16u	      /* in a block */
#define BUDGET	   (1u << 16) /* of a timeline: so small that points are merged */

struct side {
	struct ledger *ledger;
	struct log_decoder *decoder;
};

static void fail(const char *what)
{
	(void)what; /* for who looks at it with a debugger */
	abort();
}

static struct side side_new(void)
{
	struct side s = { .ledger = ledger_replay_new(BUDGET) };

	s.decoder = log_decoder_new(s.ledger);
	if (s.decoder)
		log_decoder_lifetimes(s.decoder, 0);
	return s;
}

static void side_free(struct side *s)
{
	log_decoder_free(s->decoder);
	ledger_free(s->ledger);
}

/* The block, with stops in between, each STEP intervals behind the present one. */
static int decode_in_steps(struct side *s, const struct log_block *b, uint64_t step, size_t *at)
{
	uint64_t interval, bytes, ms;
	int err = 1;

	for (unsigned i = 0; i < STOPS_MOST && err == 1; i++) {
		uint64_t stop;

		ledger_present(s->ledger, &interval, &bytes, &ms);
		if (interval > UINT64_MAX / TIMELINE_MS - step)
			break;
		stop = (interval + step) * TIMELINE_MS;
		err = log_decode(s->decoder, b, stop, at);
		ledger_present(s->ledger, &interval, &bytes, &ms);
		if (err >= 0 && b->type == SEGMENT_EVENTS && interval >= stop / TIMELINE_MS)
			fail("it did not stop");
	}
	return err == 1 ? log_decode(s->decoder, b, LOG_NEVER, at) : err;
}

static void same_points(const struct ledger *a, const struct ledger *b, uint64_t until)
{
	struct ledger_interval x, y;
	uint64_t ms = 0;

	for (unsigned i = 0; i < 200 && ms <= until; i++) {
		ledger_interval(a, ms, &x);
		ledger_interval(b, ms, &y);
		if (memcmp(&x, &y, sizeof(x)))
			fail("the intervals differ");
		if (x.to_ms <= ms)
			break;
		ms = x.to_ms;
	}
}

static void same_lines(const struct ledger *a, const struct ledger *b)
{
	struct ledger_total_state x, y;

	if (ledger_total_count(a) != ledger_total_count(b))
		fail("the lines differ");
	for (uint32_t i = 0; i < ledger_total_count(a); i++)
		if (ledger_total_state(a, i, &x) != ledger_total_state(b, i, &y) ||
		    memcmp(&x, &y, sizeof(x)))
			fail("a line differs");
}

static void same(const struct ledger *a, const struct ledger *b)
{
	struct ledger_sums x, y;

	memset(&x, 0, sizeof(x));
	memset(&y, 0, sizeof(y));
	ledger_sums(a, &x);
	ledger_sums(b, &y);
	if (x.now_ms != y.now_ms || x.interval != y.interval || x.counted != y.counted ||
	    x.high != y.high || x.peak != y.peak || x.peak_ms != y.peak_ms || x.heap != y.heap ||
	    x.mmap != y.mmap || x.allocs != y.allocs || x.frees != y.frees ||
	    x.events != y.events || x.point_bytes != y.point_bytes)
		fail("the sums differ");
	same_lines(a, b);
	same_points(a, b, x.now_ms);
}

static void same_lifetimes(const struct side *a, const struct side *b)
{
	uint64_t end = ledger_now(a->ledger);

	for (uint32_t i = 0; i < ledger_total_count(a->ledger) + 1u; i++) {
		struct log_lifetime x = { 0 }, y = { 0 };

		if (log_decoder_lifetime(a->decoder, i, end, &x) !=
			    log_decoder_lifetime(b->decoder, i, end, &y) ||
		    x.stack != y.stack || x.blocks != y.blocks || x.block_ms != y.block_ms)
			fail("a lifetime differs");
	}
}

static void ask_past(const struct ledger *l, uint64_t ms)
{
	struct ledger_held *held;

	if (ledger_past(l, ms, &held) >= 0)
		free(held);
}

static void ask(const struct ledger *l)
{
	struct ledger_totals totals;
	struct ledger_timeline timeline;
	struct ledger_block block;
	uint64_t now = ledger_now(l);
	int64_t bytes, count;

	ledger_totals(l, &totals);
	ledger_timeline(l, &timeline);
	ledger_find(l, 0x1000, &block);
	for (uint32_t i = 0; i < ledger_stacks(l) && i < 64; i++) {
		ledger_stack(l, i);
		ledger_stack_at_peak(l, i, &bytes, &count);
	}
	ask_past(l, 0);
	ask_past(l, totals.peak_ms);
	ask_past(l, now / 2);
	ask_past(l, now);
	ask_past(l, UINT64_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct side a = side_new(), b = side_new();

	while (size > 3) {
		size_t len = data[1] | (size_t)data[2] << 8, at_a = 0, at_b = 0;
		uint64_t step = data[0] / KIND_STOPS + 1;
		struct log_block block = { .type = data[0] & KIND_STATE ? SEGMENT_STATE
									: SEGMENT_EVENTS,
					   .flags = data[0] & KIND_GOES_ON ? SEGMENT_GOES_ON : 0 };
		int err_a, err_b;

		data += 3;
		size -= 3;
		block.len = len < size ? len : size;
		/* of its own: what is read behind it is seen */
		block.raw = memcpy(malloc(block.len + 1), data, block.len);
		err_a = log_decode(a.decoder, &block, LOG_NEVER, &at_a);
		err_b = decode_in_steps(&b, &block, step, &at_b);
		if (err_a != err_b || log_decoder_ready(a.decoder) != log_decoder_ready(b.decoder))
			fail("what is said of the block differs");
		same(a.ledger, b.ledger);
		same_lifetimes(&a, &b);
		if (log_decode_head(&block) && !err_a && block.type == SEGMENT_EVENTS)
			fail("a block without a head was taken");
		free((void *)block.raw);
		data += block.len;
		size -= block.len;
	}
	ask(a.ledger);
	side_free(&a);
	side_free(&b);
	return 0;
}
