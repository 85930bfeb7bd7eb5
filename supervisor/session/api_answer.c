// SPDX-License-Identifier: GPL-3.0-or-later
#include "session/api_answer.h"

#include "base/message.h"
#include "base/patient.h"
#include "process/marks.h"
#include "transport/heartbeat.h"

/*
 * api_answer.c - mtrun.h, our side.
 *
 * An answer is exact: each allocation that had returned, in whatever thread, is in it. Its event is
 * in a ring by then, and the rings are emptied first. But an event may have to wait for an earlier
 * one of the same address, whose thread has drawn its number and not written it yet. Then the
 * question stays where it is and is looked at again: that thread may need us to go on. (The stream
 * gives up a gap after a second.)
 */

static uint64_t meta_memory(const struct process *p)
{
	struct ledger_totals t;

	ledger_totals(p->ledger, &t);
	return t.live_blocks * 8;
}

static bool settled(const struct process *p)
{
	struct stream_stats stats;

	stream_settle(p->stream, heartbeat_ms(), false);
	stream_stats(p->stream, &stats);
	return !stats.held_now;
}

/* Cuts off what is left of a character that the last byte belongs to, if its end is missing. */
static size_t whole_characters(const char *text, size_t n)
{
	size_t first = n, need;
	unsigned char c;

	while (first > 0 && n - first < 3 && ((unsigned char)text[first - 1] & 0xc0) == 0x80)
		first--;
	if (!first || (unsigned char)text[first - 1] < 0xc0)
		return n;
	c = (unsigned char)text[--first];
	need = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
	return n - first < need ? first : n;
}

/* The program's text as far as it can be read: its pointer may be anything. */
static void copy_text(const struct process *p, raddr_t at, char text[MARKS_LABEL])
{
	ssize_t got = at ? patient_read(p->via, at, text, MARKS_LABEL - 1) : 0;
	size_t n = got > 0 ? (size_t)got : 0, end = 0;

	while (end < n && text[end])
		end++;
	if (end == MARKS_LABEL - 1)
		end = whole_characters(text, end);
	text[end] = '\0';
}

static void take_mark(struct process *p, raddr_t at)
{
	char label[MARKS_LABEL];

	copy_text(p, at, label);
	if (marks_add(&p->marks, heartbeat_ms(), label) < 0)
		message_verbose(1, "out of memory: the mark '%s' is not kept", label);
}

static void take_snapshot(struct process *p, raddr_t at, const struct api *api)
{
	char name[MARKS_LABEL];

	copy_text(p, at, name);
	if (api->snapshot)
		api->snapshot(api->ctx, p, name);
}

bool api_answer(struct process *p, const struct shared_question *q, const struct api *api)
{
	uint64_t what = q->arg[0], text = q->arg[1], answer = 0;

	if ((what == API_ALLOCATED || what == API_META || what == API_SNAPSHOT) && !settled(p))
		return false;
	switch (what) {
	case API_ALLOCATED: answer = process_allocated(p, api->count); break;
	case API_META: answer = meta_memory(p); break;
	case API_LIMIT: answer = api->limit; break;
	case API_MARK: take_mark(p, text); break;
	case API_SNAPSHOT: take_snapshot(p, text, api); break;
	}
	q->mail->answer = answer;
	return true;
}
