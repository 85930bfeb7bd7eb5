// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/search.h"
#include "log/replay_state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/units.h"
#include "ledger/ledger_replay.h"
#include "ledger/timeline.h"

/*
 * A moment is found by going to the last checkpoint before it and from there on by the events up to
 * the end of its interval: then the ledger's present interval is the one that is asked about, or an
 * earlier one, and nothing has happened since. A few ledgers stay where they were: questions often
 * come in order of time.
 */

bool replay_begins_state(const struct replay_process *p, size_t i)
{
	const struct log_entry *e = replay_entry(p->replay, p->ref[i]),
			       *before = i ? replay_entry(p->replay, p->ref[i - 1]) : NULL;

	if (e->type != SEGMENT_STATE)
		return false;
	return !before || p->ref[i].file != p->ref[i - 1].file || before->type != SEGMENT_STATE ||
	       !(before->flags & SEGMENT_GOES_ON);
}

int replay_cursor_init(struct replay_cursor *c, size_t ref)
{
	*c = (struct replay_cursor){ .ledger = ledger_replay_new(0), .ref = ref };
	c->decoder = c->ledger ? log_decoder_new(c->ledger) : NULL;
	if (c->decoder)
		return 0;
	replay_cursor_release(c);
	return -ENOMEM;
}

void replay_cursor_release(struct replay_cursor *c)
{
	log_decoder_free(c->decoder);
	ledger_free(c->ledger);
	*c = (struct replay_cursor){ 0 };
}

/* Whether block I is of the time that the index says: what is not so must not be asked about. */
static bool is_indexed(const struct replay_process *p, size_t i, struct log_block b)
{
	const struct log_entry *e = replay_entry(p->replay, p->ref[i]);

	if (b.type == SEGMENT_STATE && !replay_begins_state(p, i))
		return true;
	return log_decode_head(&b) == 0 && b.first_ms == e->first_ms && b.last_ms == e->last_ms;
}

int replay_go_on(struct replay_process *p, struct replay_cursor *c, struct log_unpacked *u,
		 uint64_t stop_ms, size_t end)
{
	int err = 0;

	for (; c->ref < end; c->ref++, c->at = 0) {
		const struct replay_ref *ref = &p->ref[c->ref];
		const struct log_entry *e = replay_entry(p->replay, *ref);
		struct log_block b;

		if (e->first_ms >= stop_ms && c->began)
			break;
		if (log_file_read(&p->replay->file[ref->file], ref->entry, u))
			return -EBADMSG;
		b = (struct log_block){ .type = u->type,
					.flags = u->flags,
					.process = u->process,
					.raw = u->raw,
					.len = u->len };
		if (!is_indexed(p, c->ref, b))
			return -EBADMSG;
		err = log_decode(c->decoder, &b, stop_ms, &c->at);
		if (err < 0)
			return err == -EINVAL ? -EBADMSG : err;
		c->began |= log_decoder_ready(c->decoder);
		if (err)
			break;
	}
	c->stop_ms = stop_ms;
	return 0;
}

/* The last checkpoint before STOP_MS, as index + 1; 0: there is none. */
static size_t checkpoint(const struct replay_process *p, size_t below, uint64_t stop_ms)
{
	for (size_t i = below; i; i--)
		if (replay_begins_state(p, i - 1) &&
		    replay_entry(p->replay, p->ref[i - 1])->first_ms < stop_ms)
			return i;
	return 0;
}

/* What cannot be known since C's next block is damaged: up to the checkpoint behind it. */
static void tell_damage(struct replay_process *p, const struct replay_cursor *c)
{
	const struct replay_ref *ref = &p->ref[c->ref];
	uint64_t from = ledger_now(c->ledger), to = p->facts.ended_ms;
	struct text_buffer a, b;
	size_t i = c->ref + 1;

	while (i < p->refs && !replay_begins_state(p, i))
		i++;
	if (i < p->refs)
		to = replay_entry(p->replay, p->ref[i])->first_ms;
	if (!c->began)
		from = replay_entry(p->replay, *ref)->first_ms;
	p->troubled = true;
	snprintf(p->trouble, sizeof(p->trouble),
		 "'%s' is damaged at byte %" PRIu64
		 ": what process %d had from %s to %s is not known",
		 p->replay->file[ref->file].path, replay_entry(p->replay, *ref)->offset,
		 (int)p->facts.pid, time_text(&a, from), time_text(&b, to));
}

/*
 * The cursor that is next to it: after checkpoint START and not behind it; or one that is moved to
 * START. NULL: out of memory.
 */
static struct replay_cursor *choose(struct replay_process *p, size_t start, uint64_t stop_ms)
{
	struct replay_cursor *best = NULL, *oldest = &p->cursor[0];

	for (size_t i = 0; i < REPLAY_CURSORS; i++) {
		struct replay_cursor *c = &p->cursor[i];

		if (c->ledger && c->ref >= start && c->stop_ms <= stop_ms &&
		    (!best || c->stop_ms > best->stop_ms))
			best = c;
		if (c->used < oldest->used)
			oldest = c;
	}
	if (best)
		return best;
	replay_cursor_release(oldest);
	return replay_cursor_init(oldest, start) ? NULL : oldest;
}

/*
 * The ledger as it was at the end of the interval of MS. 0: there was nothing yet if *LEDGER is
 * NULL.
 */
static int at(struct replay_process *p, uint64_t ms, const struct ledger **ledger)
{
	uint64_t stop_ms = (ms / TIMELINE_MS + 1) * TIMELINE_MS;
	size_t start = checkpoint(p, p->refs, stop_ms);
	struct replay_cursor *c;
	int err;

	*ledger = NULL;
	p->troubled = false;
	if (!start)
		return 0;
	c = choose(p, start - 1, stop_ms);
	if (!c)
		return -ENOMEM;
	c->used = ++p->replay->moments;
	err = replay_go_on(p, c, &p->replay->unpacked, stop_ms, p->refs);
	if (err == -EBADMSG)
		tell_damage(p, c);
	if (err)
		replay_cursor_release(c);
	else
		*ledger = c->ledger;
	return err;
}

/* ---- what the ledger of the end asks ------------------------------------- */

/* The points of intervals up to INTERVAL. */
static size_t points_to(const struct log_points *points, uint64_t interval)
{
	return SEARCH(i, points->count, points->point[i].interval <= interval);
}

static void interval(void *ctx, uint64_t ms, uint64_t present, struct ledger_interval *out)
{
	const struct replay_process *p = ctx;
	size_t i = points_to(&p->points, ms / TIMELINE_MS);
	const struct log_point *at_point = i ? &p->points.point[i - 1] : NULL;

	uint64_t end = i < p->points.count ? p->points.point[i].interval : present;

	*out = (struct ledger_interval){ at_point ? at_point->interval * TIMELINE_MS : 0,
					 end * TIMELINE_MS, at_point ? at_point->bytes : 0,
					 at_point ? at_point->ms : 0, 1 };
}

static ssize_t past(void *ctx, uint64_t ms, struct ledger_held **out)
{
	const struct ledger *l;
	int err = at(ctx, ms, &l);

	if (err)
		return err;
	if (l)
		return ledger_past(l, ms, out);
	*out = malloc(sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

/* The last checkpoint and all that follows; if that is damaged, as much as there is. */
static int to_the_end(struct replay_process *p, struct replay_cursor *c)
{
	size_t start = p->refs;
	int err;

	do {
		replay_cursor_release(c);
		start = checkpoint(p, start, LOG_NEVER);
		err = replay_cursor_init(c, start ? --start : p->refs);
		if (!err)
			err = replay_go_on(p, c, &p->replay->unpacked, LOG_NEVER, p->refs);
		if (err == -EBADMSG && !p->troubled)
			tell_damage(p, c);
	} while (err == -EBADMSG && !c->began && start);
	return err == -EBADMSG ? 0 : err;
}

/* What the index says of intervals that are not over has nothing behind it. */
static void cut_points(struct replay_process *p, const struct ledger *l)
{
	uint64_t present, bytes, ms;

	ledger_present(l, &present, &bytes, &ms);
	p->points.count = present ? points_to(&p->points, present - 1) : 0;
}

struct ledger *replay_ledger(struct replay_process *p)
{
	const struct ledger_history history = { .ctx = p, .interval = interval, .past = past };
	struct log_point highest = { 0 };
	struct replay_cursor c = { 0 };
	struct ledger *l;

	if (to_the_end(p, &c)) {
		replay_cursor_release(&c);
		return NULL;
	}
	l = c.ledger;
	c.ledger = NULL;
	replay_cursor_release(&c);
	if (p->troubled)
		p->facts.ended_ms = ledger_now(l);
	cut_points(p, l);
	for (size_t i = 0; i < p->points.count; i++)
		if (p->points.point[i].bytes > highest.bytes)
			highest = p->points.point[i];
	ledger_look_back(l, &history, highest.bytes, highest.ms);
	return l;
}

bool replay_troubled(const struct replay_process *p) { return p->troubled; }

const char *replay_trouble(struct replay_process *p)
{
	bool troubled = p->troubled;

	p->troubled = false;
	return troubled ? p->trouble : "";
}
