// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/dumping.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/message.h"
#include "process/profile_make.h"
#include "report/heapfile.h"
#include "session/asking.h"
#include "shell/common/answer_stream.h"
#include "shell/common/lookup.h"
#include "shell/common/shell.h"

/*
 * A dump is a copy of the sums by stack, taken at one instant; then the symbols are read and the
 * file is written, with the loop turning: the program does not wait for it. What is due is found by
 * looking at every process after each turn. A process that ends is dumped when its end is seen; the
 * one that was named is held there until then.
 */
#define PEAK_MS 1000 /* between two dumps of new peaks */

static const char why_letter[DUMP_WHYS] = { 'i', 'm', 'u', 'f', 'l' };

/*
 * One for each pid of which a file was asked for or may be due, so that the files of a program that
 * replaces itself go on being counted.
 */
struct dump_record {
	pid_t pid;
	/* when the record of the image began that the following are about */
	uint64_t began_ms;
	unsigned seq, number[DUMP_WHYS];
	uint64_t every;		/* allocated in total when it is due */
	uint64_t peak, peak_at; /* the last that was written, when */
	bool asked, ended;
	char *file; /* that was written at its end, NULL: none */
};

static struct dump_record *find_record(const struct dumping *d, pid_t pid)
{
	for (size_t i = d->records; i-- > 0;)
		if (d->record[i].pid == pid)
			return &d->record[i];
	return NULL;
}

static struct dump_record *record_of(struct shell *shell, const struct process *p)
{
	struct dumping *d = &shell->dumping;
	struct dump_record *r = find_record(d, p->pid);

	if (!r) {
		r = reallocarray(d->record, d->records + 1, sizeof(*r));
		if (!r)
			return NULL;
		d->record = r;
		r += d->records++;
		*r = (struct dump_record){ .pid = p->pid,
					   .began_ms = p->recorded_ms,
					   .every = session_options(shell->session)->dump_every };
	}
	if (r->began_ms != p->recorded_ms) {
		r->began_ms = p->recorded_ms;
		r->every = session_options(shell->session)->dump_every;
		r->peak = 0;
		r->asked = r->ended = false;
	}
	return r;
}

int dumping_check(const struct options *o)
{
	const char *slash = o->output ? strrchr(o->output, '/') : NULL;
	char *dir;
	int bad;

	if (!o->dump_exit && !o->dump_peak && !o->dump_every)
		return 0;
	dir = slash ? strndup(o->output, (size_t)(slash - o->output) + 1) : strdup("./");
	bad = dir ? faccessat(AT_FDCWD, dir, W_OK | X_OK, AT_EACCESS) : -1;
	if (bad)
		message_error("cannot write .heap files in '%s': %s", dir ? dir : "?",
			      strerror(errno));
	free(dir);
	return bad;
}

/* ---- one file ------------------------------------------------------------ */

struct dump {
	struct process *process;
	char why[16];
	struct dumped *dumped;
	struct profile profile;
	struct heap_facts facts;
	char *command, *exe;
	struct modules modules;
	struct marks marks;
};

static int name_it(struct dump *d, struct shell *shell, const char *prefix, enum dump_why why)
{
	struct dump_record *r = record_of(shell, d->process);
	const char *otherwise = session_options(shell->session)->output;

	*d->dumped = (struct dumped){ 0 };
	if (!r)
		return -ENOMEM;
	if (why < DUMP_END)
		snprintf(d->why, sizeof(d->why), "%c%u", why_letter[why], r->number[why]++);
	else
		snprintf(d->why, sizeof(d->why), "%c", why_letter[why]);
	if (!prefix)
		prefix = otherwise ? otherwise : "./mtrun.";
	if (asprintf(&d->dumped->file, "%s%d.%u.%s.heap", prefix, (int)r->pid, r->seq++, d->why) >=
	    0)
		return 0;
	d->dumped->file = NULL;
	return -ENOMEM;
}

static uint64_t clock_at(const struct shell *shell, uint64_t ms)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000 -
	       (session_ms(shell->session) - ms);
}

/* Of facts that are the process', who goes on. */
static int copy_facts(struct dump *d)
{
	const struct process *p = d->process;

	d->command = p->command ? strdup(p->command) : NULL;
	d->exe = p->exe ? strdup(p->exe) : NULL;
	return modules_copy(&d->modules, &p->modules) || marks_copy(&d->marks, &p->marks) ? -ENOMEM
											  : 0;
}

static void release(struct dump *d)
{
	profile_release(&d->profile);
	modules_release(&d->modules);
	marks_release(&d->marks);
	free(d->command);
	free(d->exe);
}

/* A file about P's PEAK is written, which may be a higher one than that for which it was due. */
static void peak_taken(const struct shell *shell, const struct process *p, uint64_t peak)
{
	struct dump_record *r = find_record(&shell->dumping, p->pid);

	if (r && r->began_ms == p->recorded_ms && r->peak < peak)
		r->peak = peak;
}

static int take(struct dump *d, const struct shell *shell, enum dump_why why)
{
	const struct process *p = d->process;
	unsigned count = session_options(shell->session)->count;
	struct profile_ask ask = { .now_ms = shell_moment(shell, p),
				   .counted = count,
				   .detail = PROFILE_DEAD | (why == DUMP_PEAK ? PROFILE_PEAK : 0) };
	int err = session_profile(shell->session, p, &ask, &d->profile);

	if (!err)
		err = copy_facts(d);
	if (err)
		return err;
	if (why == DUMP_PEAK)
		peak_taken(shell, p, d->profile.peak);
	for (size_t i = 0; i < d->profile.count; i++) {
		d->dumped->bytes += d->profile.row[i].size;
		d->dumped->blocks += d->profile.row[i].count;
		d->dumped->stacks += d->profile.row[i].count != 0;
	}
	d->facts = (struct heap_facts){
		.pid = p->pid,
		.command = d->command,
		.exe = d->exe,
		.why = d->why,
		.clock_ms = clock_at(shell, d->profile.ms),
		.counted = count,
		.sample = d->profile.estimated ? session_options(shell->session)->sampled : 0,
		.peak = d->profile.peak,
		.peak_ms = d->profile.peak_ms,
		.preattach = p->preattach,
		.marks = &d->marks,
		.modules = &d->modules,
	};
	return 0;
}

/* Under another name until it is whole. */
static int put(const struct dump *d, struct shell *shell, struct sites *sites)
{
	char *part;
	FILE *f;
	int fd, err = 0;

	if (asprintf(&part, "%s.XXXXXX", d->dumped->file) < 0)
		return -ENOMEM;
	fd = mkostemp(part, O_CLOEXEC); /* mode 0600 */
	f = fd < 0 ? NULL : answer_open(shell, fd);
	if (f) {
		err = heap_write(f, &d->facts, &d->profile, sites);
		errno = 0;
		if (ferror(f) | fclose(f) && !err) /* both, always */
			err = errno ? -errno : -EIO;
	}
	if (!f || (!err && rename(part, d->dumped->file) < 0))
		err = -errno;
	if (err && fd >= 0)
		unlink(part);
	free(part);
	return err;
}

int dumping_write(struct shell *shell, struct process *p, const char *prefix, enum dump_why why,
		  struct dumped *dumped)
{
	struct dump d = { .process = p, .dumped = dumped };
	struct sites *sites = shell_sites(shell, p);
	int err = sites ? name_it(&d, shell, prefix, why) : -ENOMEM;

	process_ref(p);
	if (!err)
		err = take(&d, shell, why);
	if (!err) {
		lookup_profile(shell, p, sites, &d.profile, true);
		asking_unlock(shell->session);
		err = shell_interrupted(shell) ? -EINTR : put(&d, shell, sites);
		asking_lock(shell->session);
	}
	release(&d);
	process_unref(p);
	return err;
}

int dumping_limit(struct shell *shell, struct shell *teller, const struct limit_hit *hit,
		  struct dumped *dumped)
{
	struct dump d = { .process = hit->process, .dumped = dumped };
	struct sites *sites = shell_own_sites(teller, hit->process);
	int err = sites ? name_it(&d, shell, NULL, DUMP_LIMIT) : -ENOMEM;

	if (!err)
		err = take(&d, shell, DUMP_LIMIT);
	if (!err) {
		d.facts.limit_hit = true;
		d.facts.request = hit->request;
		d.facts.allocated = hit->allocated;
		d.facts.limit = hit->limit;
		d.facts.request_stack = hit->stack;
		lookup_profile(teller, hit->process, sites, &d.profile, true);
		asking_unlock(shell->session);
		err = put(&d, teller, sites);
		asking_lock(shell->session);
	}
	release(&d);
	sites_free(sites);
	return err;
}

/* ---- what is due --------------------------------------------------------- */

/* Nothing more comes from it. (After an exec its successor goes on.) */
static bool is_final(const struct process *p)
{
	return p->state > PROCESS_STOPPED && p->state != PROCESS_REPLACED;
}

static bool peak_is_due(const struct options *o, const struct dump_record *r,
			const struct process *p, const struct ledger_totals *t, uint64_t now)
{
	return o->dump_peak && t->peak > r->peak &&
	       (is_final(p) || !r->peak_at || now >= r->peak_at + PEAK_MS);
}

/* Whether one of P is due, and why; then the next one is due after it. */
static bool is_due(struct shell *shell, const struct process *p, enum dump_why *why)
{
	const struct options *o = session_options(shell->session);
	bool asked = find_record(&shell->dumping, p->pid) != NULL;
	uint64_t now = session_ms(shell->session);
	struct dump_record *r = NULL;
	struct ledger_totals t;

	if ((asked || o->dump_every || o->dump_peak || o->dump_exit) && !p->unsupervised &&
	    p->state != PROCESS_REPLACED)
		r = record_of(shell, p);
	if (!r)
		return false;
	ledger_totals(p->ledger, &t);
	if (r->asked && !is_final(p)) {
		r->asked = false;
		*why = DUMP_ASKED;
	} else if (o->dump_every && t.total_allocated >= r->every && !r->ended) {
		r->every = (t.total_allocated / o->dump_every + 1) * o->dump_every;
		*why = DUMP_EVERY;
	} else if (peak_is_due(o, r, p, &t, now)) {
		r->peak = t.peak;
		r->peak_at = now;
		*why = DUMP_PEAK;
	} else if (o->dump_exit && is_final(p) && !r->ended && (t.events || p->ledger_used)) {
		r->ended = true;
		*why = DUMP_END;
	} else {
		return false;
	}
	return true;
}

void dumping_failed(struct shell *shell, const struct dumped *d, int err)
{
	if (!shell->dumping.failing)
		message_error("cannot write '%s': %s", d->file ? d->file : "a .heap file",
			      strerror(-err));
	shell->dumping.failing = true;
	shell->failed++;
}

/* D's file, if it was WRITTEN, is the record's now. */
static void tell_end(struct shell *shell, const struct process *p, struct dumped *d, bool written)
{
	struct dump_record *r = record_of(shell, p);
	char which[80] = "";

	if (p != session_main(shell->session))
		snprintf(which, sizeof(which), " in %s (%d)", p->command ? p->command : "?",
			 (int)p->pid);
	/* others parse it: the words are the same for one */
	message_say("%lld bytes in %lld blocks from %zu stacks still live%s", (long long)d->bytes,
		    (long long)d->blocks, d->stacks, which);
	if (!r || !written)
		return;
	free(r->file);
	r->file = d->file;
	d->file = NULL;
}

static void write_due(struct shell *shell, struct process *p, enum dump_why why)
{
	bool interrupted = shell->interrupted;
	struct dumped d;
	int err;

	/* what ends us does not end this; Ctrl-C while it is written does */
	shell->interrupted &= why != DUMP_END;
	err = dumping_write(shell, p, NULL, why, &d);
	shell->interrupted |= interrupted;
	if (err == -EINTR)
		message_say("interrupted: '%s' is not written", d.file);
	else if (err)
		dumping_failed(shell, &d, err);
	else
		shell->dumping.failing = false;
	if (!err && why == DUMP_ASKED)
		message_say("wrote '%s'", d.file);
	else if (!err)
		message_verbose(1, "wrote '%s'", d.file);
	if (why == DUMP_END)
		tell_end(shell, p, &d, !err);
	free(d.file);
}

void dumping_turn(struct shell *shell)
{
	struct dumping *d = &shell->dumping;
	struct process *p;
	enum dump_why why;

	if (d->running)
		return;
	d->running = true;
	for (p = d->asked ? session_processes(shell->session) : NULL; p; p = p->next) {
		struct dump_record *r = is_final(p) || p->unsupervised ? NULL : record_of(shell, p);

		if (r)
			r->asked = true;
	}
	d->asked = false;
	for (p = session_processes(shell->session); p;)
		if (is_due(shell, p, &why)) {
			process_ref(p);
			write_due(shell, p, why);
			process_unref(p);
			/* the list may be another one now */
			p = session_processes(shell->session);
		} else {
			p->dumped = p->state > PROCESS_STOPPED;
			p = p->next;
		}
	d->running = false;
}

const char *dumping_at_end(const struct shell *shell, pid_t pid)
{
	const struct dump_record *r = find_record(&shell->dumping, pid);

	return r ? r->file : NULL;
}

/* ---- life ---------------------------------------------------------------- */

static void on_ask(void *ctx)
{
	struct shell *shell = ctx;

	shell->dumping.asked = true;
}

void dumping_init(struct shell *shell) { session_on_dump(shell->session, on_ask, shell); }

void dumping_release(struct shell *shell)
{
	for (size_t i = 0; i < shell->dumping.records; i++)
		free(shell->dumping.record[i].file);
	free(shell->dumping.record);
}
