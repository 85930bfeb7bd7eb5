// SPDX-License-Identifier: GPL-3.0-or-later
#include "session/credible.h"

#include <stdlib.h>

#include "base/maps.h"
#include "base/message.h"
#include "base/proc.h"
#include "base/residence.h"
#include "session/recorder.h"
#include "session/session_state.h"
#include "tracee/agent.h"
#include "transport/heartbeat.h"

/*
 * credible.c - finding out that a process lies about its blocks, before its lies have become our
 * memory.
 *
 * Nothing is checked for each event. In each turn of the loop the size of a ledger and its sums are
 * compared with what they may be before anybody has to look; that bound grows with what was found
 * right. Then /proc/PID/status is read:
 *
 *  - The sum of live bytes is at most what the process ever had mapped at once (VmPeak: the ledger may
 *    not have heard yet of what was unmapped). With pools on top of malloc (--hook) a byte counts more
 *    than once: TIMES as much, and TIMES_OVER, is let pass.
 *  - Small blocks have been touched, large ones take addresses: there are at most (VmHWM + VmSwap) /
 *    16 + 2 * VmPeak / 4096 of them, without the agent's own pages, and for each mtrun needs at most
 *    64 bytes. Whatever comes on top of that, stacks first of all, is bounded by MEMORY_OVER, which
 *    all processes share: a liar may have children. The one that has most of it is given up, until the
 *    rest fits.
 *
 * Once execve(2) has put another program's memory in place, /proc tells of that, some milliseconds
 * before we are told of the stop. Then our agent is not there; nor is it where a liar has unmapped
 * it. So a process that is found lying without an agent has DOUBT_MS, or as much of our memory as
 * DOUBT_MOST, for the stop to come.
 *
 * When the number of live blocks has doubled, some are looked up in the list of mappings. Those
 * outside may be about to be freed, so they are looked up again later. A process is given up if
 * most of them are still live and outside then. If the list does not come in time (processors are
 * busy, or it is long), it is read again SUSPECT_MS later.
 */

/* bytes of all ledgers that no blocks account for: with mtrun itself that is some 300 MB */
#define MEMORY_OVER  ((uint64_t)200 << 20)
#define WEIGH_MS     50u /* between two looks at a process in /proc */
#define BLOCK_COST   64u
#define BLOCK_LEAST  16u /* bytes */
#define TIMES	     4u	 /* how often a byte may count */
#define TIMES_OVER   ((uint64_t)256 << 20)
#define SAMPLED_MOST ((uint64_t)1 << 50) /* bytes: the only bound of estimates */
#define BLOCKS_FIRST 65536u
#define SUSPECT_MS   500u
#define LOOK_UP_US   20000u
/* bytes of the ledgers that only discard: of all together, and of each in any case */
#define DISCARD_MOST  ((uint64_t)16 << 20)
#define DISCARD_LEAST ((uint64_t)1 << 20)
#define DOUBT_MS      5000u
#define DOUBT_MOST    ((uint64_t)16 << 20) /* bytes by which the ledger may grow meanwhile */

static uint64_t bytes_in(const char *status, const char *field)
{
	return (uint64_t)status_number(status, field) * 1024;
}

/* ---- more than fits ------------------------------------------------------ */

struct facts {
	/* bytes that it ever had mapped, and in memory, at once */
	uint64_t peak, touched;
};

static bool read_facts(struct facts *f, const struct process *p)
{
	struct residence_span agent = { p->agent, p->agent + AGENT_SPAN };
	uint64_t ours;
	char *status;

	if (proc_read(p->via, "status", &status) < 0)
		return false;
	f->peak = bytes_in(status, "VmPeak");
	f->touched = bytes_in(status, "VmHWM") + bytes_in(status, "VmSwap");
	free(status);
	(void)residence_sum(p->via, &agent, p->agent != 0, false, LOOK_UP_US, &ours);
	f->touched -= ours < f->touched ? ours : f->touched;
	return f->peak != 0; /* 0: its memory is gone */
}

static uint64_t most_bytes(const struct ledger_totals *t, uint64_t peak)
{
	return t->estimated ? SAMPLED_MOST : peak * TIMES + TIMES_OVER;
}

static bool too_many_bytes(const struct ledger_totals *t, uint64_t peak)
{
	uint64_t most = most_bytes(t, peak);

	return t->heap > most || t->mmap_reserved > most || t->heap + t->mmap_reserved > most;
}

/* Reads what P ever had from /proc. False: it is not there any more. */
static bool weigh(struct process *p)
{
	struct credible *c = &p->credible;
	struct facts f;

	c->weighed_ms = heartbeat_ms();
	if (!read_facts(&f, p))
		return false;
	c->peak = f.peak;
	c->own = (f.touched / BLOCK_LEAST + 2 * (f.peak / PAGE)) * BLOCK_COST;
	return true;
}

/* ---- blocks that are nowhere --------------------------------------------- */

static bool is_mapped(const struct maps *v, raddr_t addr)
{
	size_t i = maps_from(v, addr, 0);

	return i < v->count && v->map[i].start <= addr;
}

/* Reads the list of P's mappings. False: it is late, and is read again SUSPECT_MS later. */
static bool read_mappings(struct process *p, struct maps *v)
{
	bool come = !maps_read_within(v, p->via, LOOK_UP_US);

	p->credible.look_ms = come ? 0 : heartbeat_ms() + SUSPECT_MS;
	return come;
}

/* Notes which of some live blocks are outside of all mappings now. False: the list is late. */
static bool suspect(struct process *p)
{
	struct credible *c = &p->credible;
	struct maps v;

	if (!c->suspect)
		c->suspect = malloc(CREDIBLE_SUSPECTS * sizeof(*c->suspect));
	if (!c->suspect || !read_mappings(p, &v))
		return false;
	c->sample = ledger_some(p->ledger, c->suspect, CREDIBLE_SUSPECTS);
	c->suspects = 0;
	for (size_t i = 0; i < c->sample; i++)
		if (!is_mapped(&v, c->suspect[i]))
			c->suspect[c->suspects++] = c->suspect[i];
	maps_release(&v);
	if (c->suspects * 2 <= c->sample)
		c->suspects = 0;
	else
		c->look_ms = heartbeat_ms() + SUSPECT_MS;
	return true;
}

/* Whether most of those blocks are still live and outside. */
static bool convict(struct process *p)
{
	struct credible *c = &p->credible;
	size_t outside = 0;
	struct maps v;

	if (!read_mappings(p, &v))
		return false;
	for (size_t i = 0; i < c->suspects; i++)
		outside += !is_mapped(&v, c->suspect[i]) && ledger_holds(p->ledger, c->suspect[i]);
	maps_release(&v);
	c->suspects = 0;
	return outside * 2 > c->sample;
}

static const char *look_up(struct process *p, const struct ledger_totals *t)
{
	struct credible *c = &p->credible;
	bool more = t->live_blocks >= (c->blocks ? c->blocks : BLOCKS_FIRST);

	if ((!c->suspects && !more) || heartbeat_ms() < c->look_ms)
		return NULL;
	if (c->suspects)
		return convict(p) ? "its blocks lie outside of its memory" : NULL;
	if (suspect(p))
		c->blocks = t->live_blocks < UINT64_MAX / 2 ? t->live_blocks * 2 : UINT64_MAX;
	return NULL;
}

/* ---- who is another program by now --------------------------------------- */

static bool has_agent(const struct process *p)
{
	struct maps v;
	bool has;

	if (!p->agent || maps_read_within(&v, p->via, LOOK_UP_US))
		return true;
	has = is_mapped(&v, p->agent);
	maps_release(&v);
	return has;
}

/* Whether P, which was found lying, may be another program by now. */
static bool in_doubt(struct process *p)
{
	struct credible *c = &p->credible;
	uint64_t memory = ledger_memory(p->ledger);

	if (c->doubt_ms)
		return heartbeat_ms() < c->doubt_ms + DOUBT_MS &&
		       memory < c->doubt_memory + DOUBT_MOST;
	if (has_agent(p))
		return false;
	c->doubt_ms = heartbeat_ms();
	c->doubt_memory = memory;
	return true;
}

/* ---- giving up ----------------------------------------------------------- */

/* What still comes goes to a ledger that nobody asks, as in off.c. */
static void give_up(struct session *s, struct process *p, const char *why)
{
	struct ledger *discarding = off_ledger(s);

	if (!discarding)
		return; /* again in the next turn */
	p->credible.given_up = true;
	p->unsupervised = why;
	p->off = true;
	p->off_ms = heartbeat_ms();
	ledger_free(p->discarding);
	p->discarding = discarding;
	if (p->stream) {
		stream_switch(p->stream, discarding);
		stream_hold_few(p->stream);
	}
	if (agent_arm(p, true))
		message_verbose(1, "%d: its hooks cannot be told", (int)p->pid);
	message_error("%d ('%s') is given up and runs on unsupervised: %s", (int)p->pid,
		      p->command ? p->command : "?", why);
}

/* Empties the ledger; not while somebody holds P. */
static void empty(struct session *s, struct process *p)
{
	struct ledger *none = p->refs > 1 ? NULL : off_ledger(s);

	if (!none)
		return;
	recorder_closed(p);
	ledger_known(p->ledger, NULL);
	ledger_free(p->ledger);
	p->ledger = none;
	p->credible.emptied = true;
}

/* What the process goes on writing into its rings is taken out, so that nobody waits. */
static void keep_discarding(struct session *s, struct process *p, uint64_t most)
{
	struct ledger *next;

	if (!p->discarding || ledger_memory(p->discarding) < most || !(next = off_ledger(s)))
		return;
	if (p->stream)
		stream_switch(p->stream, next);
	ledger_free(p->discarding);
	p->discarding = next;
}

static uint64_t discarding_most(const struct session *s)
{
	uint64_t n = 0;

	for (const struct process *p = s->processes; p; p = p->next)
		n += p->credible.given_up && p->discarding;
	return DISCARD_MOST / (n ? n : 1) > DISCARD_LEAST ? DISCARD_MOST / (n ? n : 1)
							  : DISCARD_LEAST;
}

/* ---- who is looked at ---------------------------------------------------- */

static bool is_judged(const struct process *p)
{
	return !p->credible.given_up && p->stream && p->state <= PROCESS_STOPPED && !p->off;
}

void credible_look(struct session *s, struct process *p)
{
	struct credible *c = &p->credible;
	const char *why = NULL;
	struct ledger_totals t;

	if (!is_judged(p))
		return;
	ledger_totals(p->ledger, &t);
	if (too_many_bytes(&t, c->peak) && weigh(p) && too_many_bytes(&t, c->peak))
		why = "what it says that it has allocated is more than it has ever mapped";
	if (!why && !s->options.agent.nhooks)
		why = look_up(p, &t);
	if (why && !in_doubt(p))
		give_up(s, p, why);
}

/* Bytes of ours that what P has mapped and touched does not account for. */
static uint64_t unproven(const struct process *p)
{
	uint64_t memory = ledger_memory(p->ledger) + stream_memory(p->stream);

	return memory > p->credible.own ? memory - p->credible.own : 0;
}

/* The sum of all; *MOST: the one with most, of those weighed before MS; NULL: there is none. */
static uint64_t unproven_of_all(const struct session *s, uint64_t ms, struct process **most)
{
	uint64_t sum = 0, top = 0;

	*most = NULL;
	for (struct process *p = s->processes; p; p = p->next) {
		uint64_t bytes = is_judged(p) ? unproven(p) : 0;

		sum += bytes;
		if (bytes > top && p->credible.weighed_ms < ms) {
			top = bytes;
			*most = p;
		}
	}
	return sum;
}

static void weigh_all(struct session *s)
{
	uint64_t now = heartbeat_ms(), ms = now > WEIGH_MS ? now - WEIGH_MS : 1;
	struct process *p;

	while (unproven_of_all(s, ms, &p) > MEMORY_OVER && p)
		(void)weigh(p);
	while (unproven_of_all(s, UINT64_MAX, &p) > MEMORY_OVER && !in_doubt(p)) {
		give_up(s, p, "it tells of more blocks and stacks than fit into its memory");
		if (!p->credible.given_up)
			break;
	}
}

void credible_turn(struct session *s)
{
	uint64_t most = discarding_most(s);

	for (struct process *p = s->processes; p; p = p->next) {
		if (p->credible.given_up && !p->credible.emptied)
			empty(s, p);
		if (p->credible.given_up)
			keep_discarding(s, p, most);
		credible_look(s, p);
	}
	weigh_all(s);
}
