// SPDX-License-Identifier: GPL-3.0-or-later
#include "process/errors.h"
#include "process/preattach_heap.h"
#include "process/sampling.h"
#include "session/session_state.h"

#include <errno.h>
#include <unistd.h>

#include "session/recorder.h"
#include "tracee/agent.h"
#include "tracee/fault_fixup.h"
#include "transport/heartbeat.h"

/*
 * off.c - recording nothing for a while, and recording again.
 *
 * Off. One word is written in each process, and its hooks pass straight through, except those that
 * we need at any time (new libraries, seccomp, mtrun.h: enum wire_armed). No thread is stopped.
 * What had returned by then is in the rings, and is put into the ledger, which is not changed from
 * then on: so answers are those of that moment. Some threads are inside hooks: in the real
 * function, for however long, or before their event is written, or with the first half of a realloc
 * told. Their events still come, with sequence numbers and a place in the rings, and must be taken
 * in order, or later events would wait for them in vain. So the stream goes on, into a ledger that
 * nobody asks (`discarding`).
 *
 * On again. What was allocated and freed meanwhile is not known, so the record begins anew, as at
 * an attach: how much of the heap is in use is measured, the process gets an empty ledger, its
 * hooks are armed, and then the ledger gets the events. Events from before that may be of blocks
 * whose release nobody told, and are discarded. A later event from a hook that has been under way
 * since before is as good as a new one: its block is there; an outcome of a realloc or mremap
 * without its beginning is that of a block never seen, as are the releases of all that was there.
 * While munmap was not told a remembered stack may have lost its memory, so every thread must prove
 * its stacks again.
 *
 * Children. A child that is forked while its parent is off inherits nothing: it begins with an
 * empty ledger, off, and is switched on as any other. One that was forked before keeps what it has
 * inherited. A new image gets its hooks planted, not armed. A process that ends while it is off
 * keeps the answers that it had.
 */

struct ledger *off_ledger(const struct session *s)
{
	return ledger_new(s->options.count & (LEDGER_COUNT_HEAP | LEDGER_COUNT_MMAP));
}

static bool is_alive(const struct process *p) { return p->state <= PROCESS_STOPPED; }

/* A live process that is off (OFF), or one that is not; NULL: there is none. */
static struct process *next(const struct session *s, bool off)
{
	for (struct process *p = s->processes; p; p = p->next)
		if (is_alive(p) && p->off == off && !p->credible.given_up)
			return p;
	return NULL;
}

#define GONE_MS 1000

/*
 * Arms P. When a process ends, or becomes another by exec, its memory is gone before we are told:
 * then waits until we are. 0 or -errno.
 */
static int arm(struct session *s, struct process *p)
{
	uint64_t end = heartbeat_ms() + GONE_MS;
	int err = 0;

	while (is_alive(p) && p->wire && !p->attaching && (err = agent_arm(p, true)) &&
	       heartbeat_ms() < end)
		if (session_turn(s, 1) < 0)
			break;
	return is_alive(p) ? err : 0;
}

/* ---- off ----------------------------------------------------------------- */

static int switch_off(struct session *s, struct process *p)
{
	int err;

	if (p->stream) {
		p->discarding = off_ledger(s);
		if (!p->discarding)
			return -ENOMEM;
	}
	p->off = true;
	err = arm(s, p);
	p->off = is_alive(p); /* what has ended meanwhile is complete */
	p->off_ms = heartbeat_ms();
	if (p->stream && p->off) {
		stream_settle(p->stream, p->off_ms, false);
		stream_switch(p->stream, p->discarding);
	}
	return err;
}

int off_begin(struct session *s)
{
	struct process *p;
	int err = 0;

	while (!err && (p = next(s, false))) {
		process_ref(p);
		err = switch_off(s, p);
		process_unref(p);
	}
	return err;
}

/* ---- on ------------------------------------------------------------------ */

/*
 * Events from before P was armed may be of blocks whose release nobody told: discards them, then
 * gives the new ledger the events.
 */
static void listen_again(struct session *s, struct process *p)
{
	stream_settle(p->stream, heartbeat_ms(), false);
	stream_switch(p->stream, p->ledger);
	ledger_free(p->discarding);
	p->discarding = NULL;
	p->recorded_ms = heartbeat_ms();
	recorder_listen(s, p);
}

static int switch_on(struct session *s, struct process *p, const struct preattach_heap *before)
{
	struct ledger *ledger = off_ledger(s);
	int err;

	if (!ledger)
		return -ENOMEM;
	while (heartbeat_ms() <= p->off_ms) /* a millisecond is of one record */
		usleep(100);
	ledger_known(p->ledger, NULL);
	ledger_free(p->ledger);
	p->ledger = ledger;
	p->preattach = *before;
	p->recorded_ms = heartbeat_ms();
	p->off = false;
	if (p->stream)
		sampling_anew(p, s->options.agent.sample);
	if (p->wire) {
		ledger_keep_freed(p->ledger, p->wire->free_stacks);
		errors_listen(p, s->options.errors != ERRORS_OFF, heartbeat_ms());
		fault_fixup_forget(p);
	}
	err = arm(s, p);
	if (p->wire)
		fault_fixup_forget(p); /* a munmap may have been on its way */
	if (p->stream && p->discarding)
		listen_again(s, p);
	return err;
}

static void yield(void *ctx) { session_yield(ctx); }

/* Measuring takes long, and the loop turns meanwhile: processes come and go. */
int off_end(struct session *s)
{
	struct process *p;
	int err = 0;

	while (!err && (p = next(s, true))) {
		struct preattach_heap before;

		process_ref(p);
		preattach_heap_measure(&before, p, yield, s);
		if (is_alive(p))
			err = switch_on(s, p, &before);
		process_unref(p);
	}
	return err;
}
