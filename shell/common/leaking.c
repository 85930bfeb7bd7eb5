// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/leaking.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "process/process.h"
#include "session/asking.h"
#include "session/capturing.h"
#include "shell/common/mapping.h"
#include "shell/common/shell.h"

/*
 * Capture and scan are long, and most of both is done with the session unlocked. A block is the
 * same as at the scan before if its address and the moment of its allocation are.
 */
struct leaked_block {
	raddr_t address;
	uint32_t tick;
	bool sure; /* definite or indirect, not only possible */
};
struct leaked {
	struct leaked *next;
	pid_t pid;
	uint64_t began_ms; /* another program in the same process is another one */
	struct leaked_block *block;
	size_t blocks;
};

const char *leaking_refused(const struct shell *shell, const struct process *p)
{
	const char *why = mapping_refused(shell, p);

	return why ? why : p->unsupervised;
}

/* ---- one scan --------------------------------------------------------------- */

static bool interrupted(void *ctx)
{
	const struct leaking *l = ctx;

	return shell_interrupted(l->shell) || l->shell->leave;
}

/* Blocks that are asked for by the same three calls are of one kind, most likely. */
#define INNERMOST 3

static uint64_t family(void *ctx, uint32_t stack)
{
	const struct leaking *l = ctx;
	uint64_t number = 0, pc;

	for (int i = 0; i < INNERMOST && stack; i++) {
		stack = process_stack_parent(l->process, stack, &pc);
		number = (number ^ pc) * 0x9e3779b97f4a7c15ull;
	}
	return number;
}

static const struct captured_source source = { interrupted, family };

/* Where tables of virtual functions may be: libraries, without their code. */
static ssize_t constants(const struct process *p, struct leaks_span **out)
{
	struct leaks_span *span = calloc(p->modules.count * 2 + 1, sizeof(*span));
	size_t n = 0;

	if (!span)
		return -ENOMEM;
	for (size_t i = 0; i < p->modules.count; i++) {
		const struct module *m = p->modules.module[i];

		if (m->dead != UINT32_MAX)
			continue;
		span[n++] = (struct leaks_span){ m->start, m->text_start };
		span[n++] = (struct leaks_span){ m->text_end, m->end };
	}
	leaks_spans_sort(span, n);
	*out = span;
	return (ssize_t)n;
}

static int failed(int err, char *why, size_t len)
{
	if (err == -EINTR)
		why[0] = '\0';
	else if (err == -E2BIG)
		snprintf(why, len, "more than %u live blocks", LEAKS_BLOCKS);
	else if (err == -ESRCH)
		snprintf(why, len, "the process has ended meanwhile");
	else
		snprintf(why, len, "%s", err == -ENOMEM ? "out of memory" : strerror(-err));
	return err;
}

static int take_capture(struct shell *shell, struct process *p, struct leaking *l, char *why,
			size_t len)
{
	ssize_t n;
	int err;

	*l = (struct leaking){ .shell = shell, .process = p };
	err = session_capture(shell->session, p, interrupted, l, &l->capture, why, len);
	if (err)
		return err == -EINTR ? failed(err, why, len) : err;
	n = constants(p, &l->constant);
	err = n < 0 ? (int)n
		    : captured_init(&l->captured, l->capture, l->constant, (size_t)n, &source, l);
	if (!err)
		return 0;
	leaking_release(l);
	return failed(err, why, len);
}

/* Of what was captured; L is to be released in any case. */
static int scan(struct leaking *l, char *why, size_t len)
{
	struct session *session = l->shell->session;
	uint64_t began = session_ms(session);
	int err;

	asking_unlock(session);
	l->captured.image.threads = capture_core_free(l->capture) ? 2 : 1;
	l->leaks = leaks_new(&l->captured.image, &err);
	if (l->leaks)
		err = capture_error(l->capture);
	asking_lock(session);
	l->took_ms = session_ms(session) - began;
	return err ? failed(err, why, len) : 0;
}

int leaking_make(struct shell *shell, struct process *p, struct leaking *l, char *why, size_t len)
{
	int err = take_capture(shell, p, l, why, len);

	if (err)
		return err;
	err = scan(l, why, len);
	if (err)
		leaking_release(l);
	return err;
}

void leaking_release(struct leaking *l)
{
	leaks_free(l->leaks);
	captured_release(&l->captured);
	if (l->capture)
		session_capture_end(l->shell->session, l->capture);
	free(l->constant);
	*l = (struct leaking){ 0 };
}

/* ---- what was lost before ---------------------------------------------------- */

static struct leaked *leaked_of(const struct shell *shell, const struct process *p)
{
	struct leaked *k = shell->leaked;

	while (k && (k->pid != p->pid || k->began_ms != p->began_ms))
		k = k->next;
	return k;
}

static bool is_lost(enum leak_kind kind) { return kind != LEAK_REACHABLE; }

/* Both are by address: AT is where the next one is to be looked for. */
static bool was_lost(const struct leaked *k, size_t *at, const struct capture_block *b, bool sure)
{
	while (*at < k->blocks && k->block[*at].address < b->address)
		++*at;
	return *at < k->blocks && k->block[*at].address == b->address &&
	       k->block[*at].tick == b->tick && (k->block[*at].sure || !sure);
}

void leaking_remember(const struct leaking *l)
{
	struct shell *shell = l->shell;
	const struct capture *c = l->capture;
	struct leaked *k = leaked_of(shell, l->process);
	size_t room = 0;

	if (!k) {
		k = calloc(1, sizeof(*k));
		if (!k)
			return;
		k->pid = l->process->pid;
		k->began_ms = l->process->began_ms;
		k->next = shell->leaked;
		shell->leaked = k;
	}
	free(k->block);
	k->block = NULL;
	k->blocks = 0;
	for (size_t i = 0; i < c->blocks; i++) {
		enum leak_kind kind = leaks_kind(l->leaks, i);

		if (!is_lost(kind))
			continue;
		if (array_room(&k->block, k->blocks, &room, sizeof(*k->block)))
			return;
		k->block[k->blocks++] = (struct leaked_block){ c->block[i].address,
							       c->block[i].tick,
							       kind != LEAK_POSSIBLE };
	}
}

void leaking_forget(struct shell *shell)
{
	struct leaked *next;

	for (struct leaked *k = shell->leaked; k; k = next) {
		next = k->next;
		free(k->block);
		free(k);
	}
	shell->leaked = NULL;
}

/* ---- reports ----------------------------------------------------------------- */

struct fresh {
	const struct leaking *l;
	const struct leaked *before; /* NULL: nothing was */
	size_t at;
};

static bool is_fresh(void *ctx, size_t block)
{
	struct fresh *f = ctx;
	enum leak_kind kind = leaks_kind(f->l->leaks, block);

	return !is_lost(kind) || !f->before ||
	       !was_lost(f->before, &f->at, &f->l->capture->block[block], kind != LEAK_POSSIBLE);
}

/* What of it cannot be seen, or not as of other programs. */
static void remark(const struct leaking *l, char *text, size_t len)
{
	const struct process *p = l->process;
	const char *since = p->attached ? "the attach" : "recording began";

	if (!p->attached && p->recorded_ms <= p->began_ms)
		text[0] = '\0';
	else if (l->capture->before)
		snprintf(text, len, "%zu block%s there before %s: %s no stack", l->capture->before,
			 l->capture->before == 1 ? " was" : "s were", since,
			 l->capture->before == 1 ? "it has" : "they have");
	else
		snprintf(text, len, "blocks from before %s are not known: they are taken for roots",
			 since);
}

int leaking_report(const struct leaking *l, bool fresh, struct leak_report *r)
{
	struct fresh f = { .l = l, .before = leaked_of(l->shell, l->process) };
	const struct leak_prefix *prefix;
	ssize_t n;

	*r = (struct leak_report){ .pid = l->process->pid,
				   .prefixes = leaks_prefixes(l->leaks, &prefix),
				   .fresh = fresh,
				   .way = l->capture->way,
				   .pause_ns = l->capture->pause_ns,
				   .scan_ms = l->took_ms,
				   .scanned = leaks_scanned(l->leaks),
				   .threads = l->capture->threads };
	remark(l, r->remark, sizeof(r->remark));
	memcpy(r->prefix, prefix, r->prefixes * sizeof(*prefix));
	n = leaks_records(l->leaks, fresh ? is_fresh : NULL, &f, &r->record);
	if (n < 0)
		return (int)n;
	r->records = (size_t)n;
	f.at = 0;
	n = leak_ties(l->leaks, &l->captured.image, r->record, r->records, fresh ? is_fresh : NULL,
		      &f, &r->tie);
	if (n < 0) {
		leaking_report_release(r);
		return (int)n;
	}
	r->ties = (size_t)n;
	for (size_t i = 0; i < r->records; i++) {
		r->sum[r->record[i].kind].bytes += r->record[i].bytes;
		r->sum[r->record[i].kind].blocks += r->record[i].blocks;
	}
	return 0;
}

void leaking_report_release(struct leak_report *r)
{
	free(r->record);
	free(r->tie);
	*r = (struct leak_report){ 0 };
}

void leaking_choose(struct leak_report *r, unsigned kinds)
{
	size_t n = 0;

	for (size_t i = 0; i < r->records; i++)
		if (kinds & 1u << r->record[i].kind)
			r->record[n++] = r->record[i];
	r->records = n;
}
