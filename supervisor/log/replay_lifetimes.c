// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <stdlib.h>

#include "ledger/ledger_replay.h"
#include "log/replay_state.h"

/*
 * replay_lifetimes.c - how long blocks lived, and how the process went along: its events from the
 * first checkpoint to the end, once more, with a ledger of its own.
 */

static size_t first_state(const struct replay_process *p)
{
	size_t i = 0;

	while (i < p->refs && !replay_begins_state(p, i))
		i++;
	return i;
}

static int read_all(struct replay_process *p, struct replay_cursor *c, bool (*give_up)(void *ctx),
		    void *ctx)
{
	struct log_unpacked u;
	int err = log_unpacked_init(&u);

	if (err)
		return err;
	while (!err && c->ref < p->refs)
		err = give_up && give_up(ctx) ? -EINTR
					      : replay_go_on(p, c, &u, LOG_NEVER, c->ref + 1);
	log_unpacked_release(&u);
	return err;
}

static ssize_t collect(const struct replay_process *p, const struct replay_cursor *c,
		       struct log_lifetime **out)
{
	uint32_t count = ledger_total_count(c->ledger);
	uint64_t now = ledger_now(c->ledger);
	ssize_t n = 0;

	*out = calloc(count + 1u, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	if (now < p->facts.ended_ms)
		now = p->facts.ended_ms;
	for (uint32_t i = 0; i < count; i++)
		n += log_decoder_lifetime(c->decoder, i, now, &(*out)[n]);
	return n;
}

ssize_t replay_lifetimes(struct replay_process *p, bool (*give_up)(void *ctx), void *ctx,
			 struct log_lifetime **out, struct activity *activity)
{
	struct replay_cursor c;
	ssize_t n = replay_cursor_init(&c, first_state(p));

	if (n)
		return n;
	log_decoder_lifetimes(c.decoder, p->recorded_ms);
	n = read_all(p, &c, give_up, ctx);
	if (!n)
		n = ledger_activity(c.ledger, activity);
	if (!n)
		n = collect(p, &c, out);
	replay_cursor_release(&c);
	return n;
}
