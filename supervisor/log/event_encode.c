// SPDX-License-Identifier: GPL-3.0-or-later
#include "log/event_encode.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "ledger/ledger_replay.h"
#include "ledger/ledger_state.h"

/*
 * The ledger tells each change before it makes it, so whenever one is told, all that was told
 * before is what the ledger holds: a block may end there, and a state be written.
 *
 * A change mostly is one that its stack has made before, with the same size. Each stack total of
 * the ledger has a row here, one cache line too: its first few changes, which have numbers, and one
 * number for all others of it, which are told with their size. So there is no table of changes that
 * grows or is searched, and a change costs one look into that row and mostly one to three bytes.
 *
 * Measured (tests/bench/ledger.c), ns an event beside the ledger's: pairs 5, phases of a program
 * 12, 10^4 and 10^5 blocks replaced at random 14 and 18; where 50 000 stacks allocate all sizes at
 * random 45, mostly for what is told the first time.
 */
#define SLOTS	  6u
#define SIZE_MOST ((1ull << 30) - 2) /* changes of larger blocks are told in full */
#define CODE_MOST 64u		     /* bytes: more than any code takes */
#define LINE_MOST (12 * LEB_MOST)
/* what stands before the codes, or before a state's stack totals */
#define HEAD_MOST (40 * LEB_MOST)
#define TAIL_MOST (8 * LEB_MOST)

struct log_line {
	uint32_t key[SLOTS]; /* size * 4 + log_kind + 1; 0: free */
	/* what stands for that; the last: for all others, 0 as long as there is a free slot */
	uint32_t code[SLOTS + 1];
	uint32_t dictionary; /* for which all this holds */
	uint32_t used;	     /* slots */
	uint32_t file;	     /* in which its stack was told */
};
_Static_assert(sizeof(struct log_line) == 64, "one cache line");

struct log_encoder {
	struct ledger *ledger;
	struct ledger_listener listener;
	struct log_sink sink;
	/* of the codes; at the limit the block is handed over */
	uint8_t *at, *limit;
	uint64_t changes; /* since the checkpoint */
	struct log_line *total;
	uint32_t totals;	    /* that there is room for */
	uint32_t dictionary, codes; /* its number, and of what is in it the next code */
	uint32_t file;
	bool due; /* a checkpoint comes before anything else */

	struct arena rows; /* of `total` */
	/* codes are in [begin, end), with room before and behind */
	uint8_t *buffer, *begin, *end;
	uint64_t before; /* changes that were in earlier blocks */
	/* as it was when the block began */
	uint64_t first_ms, first_interval, first_events, first_sampled;
	/* this interval's was the last that was told, plus 1; 0: none in this file */
	uint64_t points;
};

/* ---- blocks -------------------------------------------------------------- */

/* The present block is empty, and begins with what the ledger holds. */
static void begin(struct log_encoder *e)
{
	const struct ledger *l = e->ledger;
	e->at = e->begin;
	e->limit = e->due ? e->begin : e->end - CODE_MOST;
	e->before = e->changes;
	e->first_ms = l->now_ms;
	e->first_interval = l->interval;
	e->first_events = l->events;
	e->first_sampled = l->sampled;
}

static void hand_over(struct log_encoder *e, unsigned type, unsigned flags, const uint8_t *raw,
		      const uint8_t *end)
{
	const struct ledger *l = e->ledger;
	uint64_t last = ledger_moment(l->now_ms, l->interval);
	bool events = type == SEGMENT_EVENTS;
	e->sink.block(e->sink.ctx,
		      &(struct log_block){
			      .type = type,
			      .flags = flags,
			      .raw = raw,
			      .len = (size_t)(end - raw),
			      .last_ms = last,
			      .first_ms = events ? ledger_moment(e->first_ms, e->first_interval)
						 : last,
			      .events = events ? l->events - e->first_events : 0,
		      });
}

static void end_block(struct log_encoder *e)
{
	const struct ledger *l = e->ledger;
	if (e->at == e->begin && l->events == e->first_events && l->sampled == e->first_sampled)
		return;
	uint8_t head[HEAD_MOST], *p = head;
	const uint64_t in_head[] = { e->first_ms,
				     e->first_interval,
				     l->now_ms,
				     l->interval,
				     e->before,
				     e->changes - e->before,
				     l->events - e->first_events,
				     (uint64_t)(e->at - e->begin) };
	for (size_t i = 0; i < sizeof(in_head) / sizeof(*in_head); i++)
		p = leb_put(p, in_head[i]);
	size_t n = (size_t)(p - head);
	memcpy(e->begin - n, head, n);
	struct ledger_sums s;
	ledger_sums(l, &s);
	const uint64_t in_tail[] = { s.counts, s.events, s.unknown_frees, s.reserved,
				     s.maps,   s.unmaps, s.counted };
	p = e->at;
	for (size_t i = 0; i < sizeof(in_tail) / sizeof(*in_tail); i++)
		p = leb_put(p, in_tail[i]);
	hand_over(e, SEGMENT_EVENTS, 0, e->begin - n, p);
	begin(e);
}

/* ---- states -------------------------------------------------------------- */

static void tell_node(struct log_encoder *e, uint32_t total)
{
	uint32_t stack = total_at(e->ledger, total)->id;
	if (total < e->totals && e->total[total].file == e->file)
		return;
	if (total < e->totals)
		e->total[total].file = e->file;
	if (stack)
		e->sink.node(e->sink.ctx, stack);
}

/* Out of memory: changes of stack totals without room are told in full. */
static void make_room(struct log_encoder *e, uint32_t totals)
{
	if (totals <= e->totals || arena_reach(&e->rows, totals * sizeof(struct log_line)))
		return;
	e->total = e->rows.base;
	e->totals = (uint32_t)(e->rows.size / sizeof(struct log_line));
}

static void point(void *ctx, uint64_t interval, uint64_t bytes, uint64_t ms)
{
	struct log_encoder *e = ctx;
	if (!e->sink.point || interval < e->points)
		return;
	e->points = interval + 1;
	e->sink.point(e->sink.ctx, interval, bytes, ms);
}

static uint8_t *put_sums(uint8_t *p, const struct ledger_sums *s)
{
	const uint64_t v[] = { s->counts,	 s->now_ms,    s->interval,
			       s->counted,	 s->up_ms,     s->high,
			       s->high_ms,	 s->peak,      s->peak_ms,
			       s->heap,		 s->mmap,      s->reserved,
			       s->inherited,	 s->allocs,    s->frees,
			       s->unknown_frees, s->temporary, s->total_allocated,
			       s->events,	 s->maps,      s->unmaps };
	for (size_t i = 0; i < sizeof(v) / sizeof(*v); i++)
		p = leb_put(p, v[i]);
	p = leb_put(p, s->pointed);
	if (!s->pointed)
		return p;
	p = leb_put(p, s->point_interval);
	p = leb_put(p, s->point_bytes);
	return leb_put(p, s->point_ms);
}

static uint8_t *put_line(uint8_t *p, const struct ledger_total_state *s, uint32_t stack_before)
{
	p = leb_put(p, s->flags);
	p = leb_put_signed(p, (int64_t)s->stack - stack_before);
	p = leb_put_signed(p, s->s.live_bytes);
	p = leb_put_signed(p, s->s.live_count);
	p = leb_put(p, s->s.total_bytes);
	p = leb_put(p, s->s.total_count);
	if (s->flags & TOTAL_TEMPORARY)
		p = leb_put(p, s->s.temporary);
	if (s->flags & TOTAL_HIGH) {
		p = leb_put_signed(p, (int64_t)(s->high_bytes - (uint64_t)s->s.live_bytes));
		p = leb_put_signed(p, (int32_t)(s->high_count - (uint32_t)s->s.live_count));
	}
	if (s->flags & TOTAL_POINT) {
		p = leb_put_signed(p, (int64_t)(s->point_bytes - (uint64_t)s->s.live_bytes));
		p = leb_put_signed(p, (int32_t)(s->point_count - (uint32_t)s->s.live_count));
	}
	return p;
}

/* The block before has ended. All of the buffer is this one's. */
static void write_state(struct log_encoder *e)
{
	const struct ledger *l = e->ledger;
	struct ledger_sums sums;
	struct ledger_total_state s;
	uint32_t totals = ledger_total_count(l), told = 0, before = 0;
	for (uint32_t i = 1; i < totals; i++)
		told += ledger_total_state(l, i, &s);
	ledger_sums(l, &sums);
	/* the one whose changes are to be told now is of the next block */
	sums.events = e->first_events;
	if (sums.pointed)
		point(e, sums.point_interval, sums.point_bytes, sums.point_ms);
	make_room(e, totals);
	uint8_t *p = leb_put(put_sums(e->buffer, &sums), told);
	for (uint32_t i = 1; i < totals; i++) {
		if (!ledger_total_state(l, i, &s))
			continue;
		if (p > e->end - LINE_MOST) {
			hand_over(e, SEGMENT_STATE, SEGMENT_GOES_ON, e->buffer, p);
			p = e->buffer;
		}
		tell_node(e, i);
		p = put_line(p, &s, before);
		before = s.stack;
	}
	hand_over(e, SEGMENT_STATE, 0, e->buffer, p);
	e->due = false;
	e->dictionary++;
	e->codes = LOG_CODES;
	e->changes = 0;
	begin(e);
	e->first_events = sums.events;
}

/* ---- changes ------------------------------------------------------------- */

static __attribute__((noinline)) void turn(struct log_encoder *e)
{
	uint64_t totals = LOG_ENCODER_LINES * (uint64_t)ledger_total_count(e->ledger);
	if (!e->due)
		end_block(e);
	if (e->due || e->changes >= (totals > LOG_ENCODER_EVENTS ? totals : LOG_ENCODER_EVENTS))
		write_state(e);
}

/* V below 2^21, without branches on how long it is. */
static inline uint8_t *put_short(uint8_t *at, uint32_t v)
{
	uint32_t two = v >= 1u << 7, three = v >= 1u << 14;
	uint32_t bytes = (v & 0x7f) | (v & 0x3f80) << 1 | (v & 0x1fc000) << 2 | two << 7 |
			 three << 15;
	memcpy(at, &bytes, sizeof(bytes));
	return at + 1 + two + three;
}

static void tell_whole(struct log_encoder *e, enum log_kind kind, uint32_t total, uint64_t bytes,
		       uint64_t count)
{
	uint8_t *p = put_short(e->at, LOG_CODE_WHOLE);
	p = leb_put(p, kind);
	p = leb_put(p, total_at(e->ledger, total)->id);
	p = leb_put_signed(p, (int64_t)bytes);
	e->at = leb_put_signed(p, (int64_t)count);
}

static inline bool is_numbered(enum log_kind kind, uint64_t bytes, uint64_t count)
{
	return kind <= LOG_PAIR && count == 1 && bytes <= SIZE_MOST;
}

/* TOTAL has no number for the change yet; or the change is not of the kind that has one. */
static __attribute__((noinline)) void tell_new(struct log_encoder *e, enum log_kind kind,
					       uint32_t total, uint64_t bytes, uint64_t count)
{
	make_room(e, total + 1);
	tell_node(e, total);
	if (!is_numbered(kind, bytes, count) || total >= e->totals || e->codes >= LOG_CODES_MOST) {
		tell_whole(e, kind, total, bytes, count);
		return;
	}
	struct log_line *st = &e->total[total];
	if (st->dictionary != e->dictionary)
		*st = (struct log_line){ .dictionary = e->dictionary, .file = st->file };
	uint32_t what = (uint32_t)bytes << 2 | kind;
	uint8_t *p = put_short(e->at, LOG_CODE_DEFINE);
	p = put_short(p, st->used < SLOTS ? (unsigned)kind : LOG_SHAPE_OTHER);
	p = leb_put(p, total_at(e->ledger, total)->id);
	e->at = leb_put(p, st->used < SLOTS ? bytes : what);
	if (st->used < SLOTS)
		st->key[st->used] = what + 1;
	st->code[st->used] = e->codes++;
	st->used += st->used < SLOTS;
}

/* Nearly all changes of most programs take the way without a call. */
static void change(void *ctx, enum log_kind kind, uint32_t total, uint64_t bytes, uint64_t count)
{
	struct log_encoder *e = ctx;

	if (__builtin_expect(e->at >= e->limit, 0))
		turn(e);
	e->changes++;
	if (!is_numbered(kind, bytes, count) || total >= e->totals ||
	    e->total[total].dictionary != e->dictionary) {
		tell_new(e, kind, total, bytes, count);
		return;
	}
	const struct log_line *st = &e->total[total];
	uint32_t what = (uint32_t)bytes << 2 | kind, found = 1u << SLOTS;
#pragma GCC unroll 6
	for (uint32_t i = 0; i < SLOTS; i++)
		found |= (uint32_t)(st->key[i] == what + 1) << i;
	bool other = found == 1u << SLOTS;
	uint32_t code = st->code[__builtin_ctz(found)];
	if (__builtin_expect(!code, 0)) {
		tell_new(e, kind, total, bytes, count);
		return;
	}
	uint8_t *p = put_short(e->at, code), *end = put_short(p, what);
	if (__builtin_expect(what >= 1u << 21, 0))
		end = leb_put(p, what);
	e->at = other ? end : p;
}

static void time_passes(void *ctx, uint64_t ms)
{
	struct log_encoder *e = ctx;

	if (e->at >= e->limit)
		turn(e);
	e->at = leb_put_signed(put_short(e->at, LOG_CODE_TIME), (int64_t)(ms - e->ledger->now_ms));
}

/* ---- life ---------------------------------------------------------------- */

struct log_encoder *log_encoder_new(struct ledger *l, const struct log_sink *sink)
{
	struct log_encoder *e = calloc(1, sizeof(*e));
	uint8_t *buffer = malloc(HEAD_MOST + LOG_ENCODER_BLOCK + TAIL_MOST);
	if (!e || !buffer) {
		free(buffer);
		free(e);
		return NULL;
	}
	*e = (struct log_encoder){ .ledger = l,
				   .sink = *sink,
				   .dictionary = 1,
				   .codes = LOG_CODES,
				   .file = 1,
				   .due = true,
				   .buffer = buffer,
				   .begin = buffer + HEAD_MOST,
				   .end = buffer + HEAD_MOST + LOG_ENCODER_BLOCK };
	begin(e);
	ledger_on_point(l, point, e);
	e->listener = (struct ledger_listener){ .ctx = e, .change = change, .time = time_passes };
	l->log = &e->listener;
	return e;
}

void log_encoder_block(struct log_encoder *e, uint32_t bytes) { e->end = e->begin + bytes; }

void log_encoder_free(struct log_encoder *e)
{
	if (!e)
		return;
	e->ledger->log = NULL;
	ledger_on_point(e->ledger, NULL, NULL);
	arena_release(&e->rows);
	free(e->buffer);
	free(e);
}

void log_encoder_flush(struct log_encoder *e)
{
	if (!e->due)
		end_block(e);
	else if (!e->ledger->parent)
		write_state(e);
}

void log_encoder_checkpoint(struct log_encoder *e)
{
	wake(e->ledger);
	if (!e->due)
		end_block(e);
	write_state(e);
}

void log_encoder_new_file(struct log_encoder *e)
{
	e->file++;
	e->points = 0;
	e->due = true;
	begin(e);
	log_encoder_flush(e);
}

size_t log_encoder_memory(const struct log_encoder *e)
{
	return sizeof(*e) + HEAD_MOST + LOG_ENCODER_BLOCK + TAIL_MOST +
	       ledger_total_count(e->ledger) * sizeof(struct log_line);
}
