// SPDX-License-Identifier: GPL-3.0-or-later
#include "log/event_decode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "inject/wire_stack.h"
#include "ledger/ledger_replay.h"
#include "ledger/ledger_state.h"

/*
 * The dictionary is a row, by number: what was defined since the last STATE. EVENTS that do not go
 * on exactly where the ledger is are refused: a block that was left out, or comes twice, would make
 * a ledger that never was; and so would codes after which it does not hold as many bytes as the
 * block says.
 *
 * Blocks have no names in a log: an allocation and a release tell of a stack. So nobody knows how
 * long one block lived; but how many of a stack's there are, added up over time, is how long they
 * live all together.
 */
struct meaning {
	uint32_t total;
	uint32_t shape; /* log_kind, or LOG_SHAPE_OTHER */
	uint64_t bytes;
};

struct lifetime {
	uint64_t block_ms; /* up to: */
	uint64_t ms;
	uint64_t gone; /* that were not there any more at the first STATE */
};

struct log_decoder {
	struct ledger *ledger;
	struct arena meanings; /* struct meaning, by code less LOG_CODES */
	uint32_t defined;
	bool ready;
	uint64_t changes; /* since the STATE */

	struct ledger_sums sums; /* of a STATE that goes on */
	uint64_t totals;	 /* that are to come still */
	uint32_t stack;		 /* the last stack total's */
	bool state;		 /* one goes on */

	bool adds_lifetimes, began; /* a STATE was whole */
	uint64_t from_ms;
	struct arena lifetimes; /* struct lifetime, by total */
	uint32_t lived;		/* totals that have one are below */
};

struct log_decoder *log_decoder_new(struct ledger *l)
{
	struct log_decoder *d = calloc(1, sizeof(*d));
	if (d)
		d->ledger = l;
	return d;
}

void log_decoder_free(struct log_decoder *d)
{
	if (!d)
		return;
	arena_release(&d->meanings);
	arena_release(&d->lifetimes);
	free(d);
}

bool log_decoder_ready(const struct log_decoder *d) { return d->ready; }

size_t log_decoder_memory(const struct log_decoder *d)
{
	return sizeof(*d) + d->defined * sizeof(struct meaning);
}

/* ---- lifetimes ----------------------------------------------------------- */

void log_decoder_lifetimes(struct log_decoder *d, uint64_t from_ms)
{
	d->adds_lifetimes = true;
	d->from_ms = from_ms;
}

static struct lifetime *lifetime_at(const struct log_decoder *d, uint32_t total)
{
	return (struct lifetime *)d->lifetimes.base + total;
}

/* There is one for TOTAL, if they are wanted. */
static int lifetime_reach(struct log_decoder *d, uint32_t total)
{
	if (!d->adds_lifetimes || total < d->lived)
		return 0;
	if (arena_reach(&d->lifetimes, (total + 1) * sizeof(struct lifetime)))
		return -ENOMEM;
	d->lived = total + 1;
	return 0;
}

/* What the blocks of TOTAL lived until NOW; whatever a forged log says, it is a number. */
static uint64_t lived(const struct log_decoder *d, uint32_t total, uint64_t now)
{
	const struct lifetime *t = lifetime_at(d, total);
	return t->block_ms + (uint64_t)total_at(d->ledger, total)->s.live_count * (now - t->ms);
}

/* Its number of blocks is about to change. */
static void lifetime_add(struct log_decoder *d, uint32_t total)
{
	uint64_t now = d->ledger->now_ms;
	lifetime_at(d, total)->block_ms = lived(d, total, now);
	lifetime_at(d, total)->ms = now;
}

static int lifetimes_begin(struct log_decoder *d)
{
	uint32_t count = ledger_total_count(d->ledger);
	uint64_t now = d->ledger->now_ms;
	if (d->began || !d->adds_lifetimes)
		return 0;
	d->began = true;
	if (count && lifetime_reach(d, count - 1))
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		const struct ledger_stack *s = &total_at(d->ledger, i)->s;
		*lifetime_at(d, i) =
			(struct lifetime){ .ms = now > d->from_ms ? now : d->from_ms,
					   .gone = s->total_count - (uint64_t)s->live_count };
	}
	return 0;
}

bool log_decoder_lifetime(const struct log_decoder *d, uint32_t number, uint64_t end_ms,
			  struct log_lifetime *out)
{
	struct ledger_total_state s;
	uint64_t sum;
	if (number >= d->lived || !ledger_total_state(d->ledger, number, &s))
		return false;
	sum = lived(d, number, end_ms);
	*out = (struct log_lifetime){ .stack = s.stack,
				      .blocks = s.s.total_count - lifetime_at(d, number)->gone,
				      .block_ms = (int64_t)sum < 0 ? 0 : sum };
	return (int64_t)out->blocks > 0;
}

/* ---- STATE --------------------------------------------------------------- */

static void get_sums(struct leb *in, struct ledger_sums *s)
{
	uint64_t counts = leb_get(in), pointed;
	uint64_t *const v[] = { &s->now_ms,
				&s->interval,
				&s->counted,
				&s->up_ms,
				&s->high,
				&s->high_ms,
				&s->peak,
				&s->peak_ms,
				&s->heap,
				&s->mmap,
				&s->reserved,
				&s->inherited,
				&s->allocs,
				&s->frees,
				&s->unknown_frees,
				&s->temporary,
				&s->total_allocated,
				&s->events,
				&s->maps,
				&s->unmaps };
	for (size_t i = 0; i < sizeof(v) / sizeof(*v); i++)
		*v[i] = leb_get(in);
	pointed = leb_get(in);
	s->counts = (unsigned)counts;
	s->pointed = pointed;
	s->point_interval = pointed ? leb_get(in) : 0;
	s->point_bytes = pointed ? leb_get(in) : 0;
	s->point_ms = pointed ? leb_get(in) : 0;
	if (counts > (LEDGER_COUNT_HEAP | LEDGER_COUNT_MMAP | LEDGER_SAMPLED) || pointed > 1 ||
	    s->now_ms > SEGMENT_MS_MOST || s->interval > SEGMENT_MS_MOST / TIMELINE_MS)
		leb_bad(in);
}

static void get_line(struct leb *in, struct ledger_total_state *s, uint32_t stack_before)
{
	uint64_t flags = leb_get(in), stack = (uint64_t)leb_get_signed(in) + stack_before;
	s->flags = (unsigned)flags;
	s->stack = (uint32_t)stack;
	s->s.live_bytes = leb_get_signed(in);
	s->s.live_count = leb_get_signed(in);
	s->s.total_bytes = leb_get(in);
	s->s.total_count = leb_get(in);
	s->s.temporary = flags & TOTAL_TEMPORARY ? leb_get(in) : 0;
	s->high_bytes = (uint64_t)s->s.live_bytes +
			(flags & TOTAL_HIGH ? (uint64_t)leb_get_signed(in) : 0);
	s->high_count = (uint32_t)s->s.live_count +
			(uint32_t)(flags & TOTAL_HIGH ? (uint64_t)leb_get_signed(in) : 0);
	s->point_bytes = (uint64_t)s->s.live_bytes +
			 (flags & TOTAL_POINT ? (uint64_t)leb_get_signed(in) : 0);
	s->point_count = (uint32_t)s->s.live_count +
			 (uint32_t)(flags & TOTAL_POINT ? (uint64_t)leb_get_signed(in) : 0);
	if (flags > TOTAL_FLAGS || stack >= WIRE_NODES)
		leb_bad(in);
}

static void state_begin(struct log_decoder *d, struct leb *in)
{
	get_sums(in, &d->sums);
	d->totals = leb_get(in);
	d->stack = 0;
	d->changes = 0;
	d->defined = 0;
	if (!in->bad)
		ledger_restore_begin(d->ledger, &d->sums);
}

static int state(struct log_decoder *d, const struct log_block *b)
{
	struct leb in = { b->raw, b->raw + b->len, false };
	struct ledger_total_state s;
	bool more = b->flags & SEGMENT_GOES_ON;
	int err = 0;
	d->ready = false;
	if (!d->state)
		state_begin(d, &in);
	d->state = false;
	while (!err && !in.bad && in.at < in.end) {
		get_line(&in, &s, d->stack);
		d->stack = s.stack;
		err = in.bad || !d->totals-- ? -EINVAL : ledger_restore_total(d->ledger, &s);
	}
	if (err || in.bad || (more && !d->totals) || (!more && d->totals))
		return err ? err : -EINVAL;
	d->state = more;
	if (!more)
		err = ledger_restore_end(d->ledger, &d->sums);
	if (!more && !err)
		err = lifetimes_begin(d);
	d->ready = !more && !err;
	return err;
}

/* ---- EVENTS -------------------------------------------------------------- */

struct head {
	uint64_t first_ms, first_interval, last_ms, last_interval, before, changes, events, codes;
};

static void get_head(struct leb *in, struct head *h)
{
	uint64_t *const v[] = { &h->first_ms, &h->first_interval, &h->last_ms, &h->last_interval,
				&h->before,   &h->changes,	  &h->events,  &h->codes };
	for (size_t i = 0; i < sizeof(v) / sizeof(*v); i++)
		*v[i] = leb_get(in);
	if (h->codes > (uint64_t)(in->end - in->at) || h->first_ms > SEGMENT_MS_MOST ||
	    h->last_ms > SEGMENT_MS_MOST || h->first_interval > SEGMENT_MS_MOST / TIMELINE_MS ||
	    h->last_interval > SEGMENT_MS_MOST / TIMELINE_MS)
		leb_bad(in);
}

static inline void happen(struct log_decoder *d, uint64_t kind, uint32_t total, uint64_t bytes,
			  uint64_t count)
{
	struct ledger *l = d->ledger;
	struct weight w = { bytes, count };
	if (__builtin_expect(d->adds_lifetimes, 0))
		lifetime_add(d, total);
	switch (kind) {
	case LOG_ALLOC: heap_more(l, total, w); break;
	case LOG_FREE: heap_less(l, total, w, false); break;
	case LOG_FREE_TEMPORARY: heap_less(l, total, w, true); break;
	case LOG_PAIR: heap_pair(l, total, bytes); break;
	case LOG_GRANT: mmap_change(l, total, bytes, (int64_t)count); break;
	case LOG_GRANTED: mmap_granted(l, total, bytes, count); break;
	}
}

static inline void mean(struct log_decoder *d, const struct meaning *m, uint64_t what)
{
	if (m->shape == LOG_SHAPE_OTHER)
		happen(d, what & 3, m->total, what >> 2, 1);
	else
		happen(d, m->shape, m->total, m->bytes, 1);
}

static int define(struct log_decoder *d, struct leb *in)
{
	uint64_t shape = leb_get(in), stack = leb_get(in), what = leb_get(in);
	if (in->bad || shape > LOG_SHAPE_OTHER || stack >= WIRE_NODES ||
	    d->defined >= LOG_CODES_MOST - LOG_CODES)
		return -EINVAL;
	uint32_t total = total_of(d->ledger, (uint32_t)stack);
	if (!total || lifetime_reach(d, total) ||
	    arena_reach(&d->meanings, (d->defined + 1) * sizeof(struct meaning)))
		return -ENOMEM;
	struct meaning *m = (struct meaning *)d->meanings.base + d->defined++;
	*m = (struct meaning){ total, (uint32_t)shape, what };
	mean(d, m, what);
	d->changes++;
	return 0;
}

static int whole(struct log_decoder *d, struct leb *in)
{
	uint64_t kind = leb_get(in), stack = leb_get(in), bytes = (uint64_t)leb_get_signed(in),
		 count = (uint64_t)leb_get_signed(in);
	if (in->bad || kind >= LOG_KINDS || stack >= WIRE_NODES)
		return -EINVAL;
	uint32_t total = total_of(d->ledger, (uint32_t)stack);
	if (!total || lifetime_reach(d, total))
		return -ENOMEM;
	happen(d, kind, total, bytes, count);
	d->changes++;
	return 0;
}

/* 1: the code is one that is to wait: time would come to STOP_MS. */
static int time_code(struct log_decoder *d, struct leb *in, uint64_t stop_ms)
{
	uint64_t ms = d->ledger->now_ms + (uint64_t)leb_get_signed(in);
	if (in->bad || ms > SEGMENT_MS_MOST)
		return -EINVAL;
	if (ms >= stop_ms && stop_ms != LOG_NEVER)
		return 1;
	if (ms != d->ledger->now_ms)
		time_change(d->ledger, ms);
	return 0;
}

/* The code at IN, whose end is 4 bytes or more ahead; three bytes are the most that codes take. */
static inline uint64_t get_code(struct leb *in)
{
	uint32_t v;
	memcpy(&v, in->at, sizeof(v));
	if (!(v & 0x80)) {
		in->at++;
		return v & 0x7f;
	}
	if (!(v & 0x8000)) {
		in->at += 2;
		return (v & 0x7f) | (v >> 1 & 0x3f80);
	}
	return leb_get(in);
}

/* Codes up to IN's end. 0, 1: stopped, -EINVAL, -ENOMEM; IN is where to go on. */
static int codes(struct log_decoder *d, struct leb *in, uint64_t stop_ms)
{
	int err = 0;
	while (!err && in->at < in->end) {
		const uint8_t *at = in->at;
		uint64_t code = in->end - at >= 4 ? get_code(in) : leb_get(in);
		if (__builtin_expect(code >= LOG_CODES, 1)) {
			if (__builtin_expect(code - LOG_CODES >= d->defined, 0))
				return -EINVAL;
			const struct meaning *m = (const struct meaning *)d->meanings.base +
						  (code - LOG_CODES);
			mean(d, m, m->shape == LOG_SHAPE_OTHER ? leb_get(in) : 0);
			d->changes++;
		} else if (code == LOG_CODE_DEFINE) {
			err = define(d, in);
		} else if (code == LOG_CODE_WHOLE) {
			err = whole(d, in);
		} else {
			err = in->bad ? -EINVAL : time_code(d, in, stop_ms);
			if (err == 1)
				in->at = at;
		}
	}
	return err ? err : in->bad ? -EINVAL : 0;
}

static int tail(struct log_decoder *d, struct leb *in, const struct head *h)
{
	struct ledger_sums now, s;
	uint64_t counts = leb_get(in);
	s.events = leb_get(in);
	s.unknown_frees = leb_get(in);
	s.reserved = leb_get(in);
	s.maps = leb_get(in);
	s.unmaps = leb_get(in);
	s.counted = leb_get(in);
	s.counts = (unsigned)counts;
	ledger_sums(d->ledger, &now);
	if (in->bad || in->at != in->end || d->changes != h->before + h->changes ||
	    now.now_ms != h->last_ms || now.interval != h->last_interval ||
	    now.counted != s.counted || (counts | LEDGER_SAMPLED) != (now.counts | LEDGER_SAMPLED))
		return -EINVAL;
	ledger_restore_counts(d->ledger, &s);
	return 0;
}

static int events(struct log_decoder *d, const struct log_block *b, uint64_t stop_ms, size_t *at)
{
	struct leb in = { b->raw, b->raw + b->len, false };
	struct ledger_sums now;
	struct head h;
	get_head(&in, &h);
	ledger_sums(d->ledger, &now);
	if (in.bad || (!*at && (h.first_ms != now.now_ms || h.first_interval != now.interval ||
				h.before != d->changes)))
		return -EINVAL;
	const uint8_t *begin = in.at, *end = begin + h.codes;
	if (*at && (*at < (size_t)(begin - b->raw) || *at > (size_t)(end - b->raw)))
		return -EINVAL;
	if (stop_ms != LOG_NEVER && ledger_moment(now.now_ms, now.interval) >= stop_ms) {
		*at = *at ? *at : (size_t)(begin - b->raw);
		return 1;
	}
	struct leb c = { *at ? b->raw + *at : begin, end, false };
	int err = codes(d, &c, stop_ms);
	*at = (size_t)(c.at - b->raw);
	if (err)
		return err;
	in.at = end;
	err = tail(d, &in, &h);
	*at = b->len;
	return err;
}

/* ---- both ---------------------------------------------------------------- */

int log_decode(struct log_decoder *d, const struct log_block *b, uint64_t stop_ms, size_t *at)
{
	int err = -EINVAL;
	if (b->type == SEGMENT_STATE)
		err = state(d, b);
	else if (b->type == SEGMENT_EVENTS && !b->flags && d->ready)
		err = events(d, b, stop_ms, at);
	if (err < 0)
		d->ready = d->state = false;
	return err;
}

int log_decode_head(struct log_block *b)
{
	struct leb in = { b->raw, b->raw + b->len, false };
	struct ledger_sums s;
	struct head h;
	if (b->type == SEGMENT_EVENTS) {
		get_head(&in, &h);
		if (in.bad)
			return -EINVAL;
		b->first_ms = ledger_moment(h.first_ms, h.first_interval);
		b->last_ms = ledger_moment(h.last_ms, h.last_interval);
		b->events = h.events;
		return 0;
	}
	get_sums(&in, &s);
	if (b->type != SEGMENT_STATE || in.bad)
		return -EINVAL;
	b->first_ms = b->last_ms = ledger_moment(s.now_ms, s.interval);
	b->events = 0;
	return 0;
}
