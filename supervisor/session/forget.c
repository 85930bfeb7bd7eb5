// SPDX-License-Identifier: GPL-3.0-or-later
#include <stdlib.h>
#include <string.h>

#include "patch/hooks.h"
#include "session/recorder.h"
#include "session/session_state.h"
#include "transport/nodes.h"

/*
 * forget.c - forgets processes that ended long ago: of each a line is left (ended.h).
 *
 * The oldest go first, but the biggest, and those that something is to be told of, stay as long as
 * there are others. When their tables together are large it is those with large ones that go. Never
 * forgotten: the program named and the process chosen, of whom something is still to be written into
 * a log, who is held by a reference, and who has something that nobody was told of yet.
 *
 * A program that forks faster than the shell takes its turns would fill our memory: a child begins
 * with a copy of its parent's table. So it is the loop that forgets, after its turn; and where too
 * much is kept for the log's sake, what is missing there is written at once.
 */

#define WHOLE_MOST  1000u
#define AT_ONCE	    100u /* how many go at a time, so that the biggest are seldom looked for */
#define BIGGEST	    100u /* by their peaks */
#define WHOLE_BYTES (96ull << 20) /* of all together */
#define SHARE	    (WHOLE_BYTES / (WHOLE_MOST + AT_ONCE))
/*
 * Bytes of a record without its table and stacks: 25 KB of a process that executed another program,
 * 135 KB of one that was only forked.
 */
#define RECORD_BYTES (80u << 10)

struct whole { /* those that have ended and are still in the session's list */
	size_t count;
	uint64_t bytes;
	uint64_t big; /* whose peak is above it is one of the biggest */
};

/* Whether the shell has not yet told what there is to tell of P. */
static bool is_untold(const struct session *s, const struct process *p)
{
	const struct options *o = &s->options;
	bool dumps = o->dump_every || o->dump_peak || o->dump_exit;

	return (dumps && !p->dumped) || p->limit.due || p->errors.due ||
	       p->errors.told < p->errors.errors;
}

/* Whether somebody may ask for P again, or points to it. */
static bool is_needed(const struct session *s, const struct process *p)
{
	if (!process_state_gone(p->state) || p == s->main || p == s->chosen ||
	    p == s->early.process || p->refs > 1 || p->stream || recorder_needs(p) ||
	    p->pid == s->held || is_untold(s, p))
		return true;
	for (size_t i = 0; i < s->nthreads; i++)
		if (s->thread[i].process == p)
			return true;
	for (const struct process *other = s->processes; other; other = other->next)
		if (other->parent == p)
			return true;
	return false;
}

static void forget(struct session *s, struct process **at)
{
	struct process *p = *at;

	for (size_t i = 0; i < s->options.agent.nhooks; i++)
		s->ended.hooked[i] |= plant_has(&p->plant, s->options.agent.hook[i].name);
	ended_add(&s->ended, p);
	*at = p->next;
	if (s->last == &p->next)
		s->last = at;
	process_drop(p);
}

static uint64_t bytes_of(const struct process *p)
{
	return RECORD_BYTES + (p->command_line ? strlen(p->command_line) : 0) +
	       ledger_memory(p->ledger) + (p->nodes ? nodes_memory(p->nodes) : 0);
}

static uint64_t peak_of(const struct process *p)
{
	struct ledger_totals t;

	ledger_totals(p->ledger, &t);
	return t.peak;
}

/* ---- which of them ------------------------------------------------------- */

static bool is_large(const struct whole *w, const struct process *p)
{
	(void)w;
	return bytes_of(p) > SHARE;
}

static bool is_plain(const struct whole *w, const struct process *p)
{
	return !p->limit.hits && !marks_count(&p->marks) && !p->snapshots.count &&
	       peak_of(p) <= w->big;
}

static bool is_any(const struct whole *w, const struct process *p)
{
	(void)w;
	(void)p;
	return true;
}

static int descending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x < y) - (x > y);
}

static uint64_t peak_of_the_biggest(const struct session *s, size_t count)
{
	uint64_t *peak = calloc(count, sizeof(*peak)), big = UINT64_MAX;
	size_t n = 0;

	for (const struct process *p = peak ? s->processes : NULL; p; p = p->next)
		if (process_state_gone(p->state))
			peak[n++] = peak_of(p);
	if (n > BIGGEST) {
		qsort(peak, n, sizeof(*peak), descending);
		big = peak[BIGGEST];
	}
	free(peak);
	return big;
}

/* ---- until they are few enough ------------------------------------------- */

static bool are_many(const struct whole *w) { return w->count > WHOLE_MOST; }
static bool are_large(const struct whole *w) { return w->bytes > WHOLE_BYTES; }

/* The oldest first of those that GO, while there are TOO_MUCH. */
static void forget_some(struct session *s, struct whole *w, bool (*too_much)(const struct whole *w),
			bool (*go)(const struct whole *w, const struct process *p))
{
	for (struct process **at = &s->processes; *at && too_much(w);) {
		/* is_needed() looks at all processes: so it comes last */
		if (!go(w, *at) || is_needed(s, *at)) {
			at = &(*at)->next;
			continue;
		}
		w->bytes -= bytes_of(*at);
		w->count--;
		forget(s, at);
	}
}

void session_forget_ended(struct session *s)
{
	struct whole w = { 0 };

	if (!s->some_ended)
		return;
	s->some_ended = false;
	for (const struct process *p = s->processes; p; p = p->next) {
		w.count += process_state_gone(p->state);
		w.bytes += process_state_gone(p->state) ? bytes_of(p) : 0;
	}
	forget_some(s, &w, are_large, is_large);
	if (w.count > WHOLE_MOST + AT_ONCE) {
		w.big = peak_of_the_biggest(s, w.count);
		forget_some(s, &w, are_many, is_plain);
		forget_some(s, &w, are_many, is_any);
	}
	if (are_large(&w) || are_many(&w))
		recorder_hurry(s);
}

const struct ended_list *session_ended_list(const struct session *s) { return &s->ended; }
