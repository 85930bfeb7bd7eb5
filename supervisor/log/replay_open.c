// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/outside.h"
#include "base/pool.h"
#include "base/search.h"
#include "log/replay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "ledger/ledger_replay.h"
#include "ledger/timeline.h"
#include "log/replay_state.h"
#include "process/process.h"

/*
 * Opening. Each file's index is read, or the file is walked over; that goes on in several threads.
 * Then all blocks are gone through once, in order, and each process gets a list of its states and
 * events. Files without an index have no points: those are made by replaying them, stretch by
 * stretch, each from one checkpoint to the next, again in several threads. replay_check() does the
 * same with all of them.
 */
#define PROCESSES_MOST (1u << 16)
/* blocks with stacks and symbols may be between those of a state */
#define WALK_BACK 256u

/* ---- files --------------------------------------------------------------- */

struct loading {
	struct replay *r;
	const struct replay_watch *watch;
	_Atomic uint64_t done; /* bytes */
	uint64_t all;
	atomic_bool *loaded; /* by file */
	bool *told;
	bool failed;	  /* out of memory */
	atomic_bool stop; /* whoever watches does not want to wait */
};

static void *worker_begin(void *ctx)
{
	struct log_unpacked *u = malloc(sizeof(*u));

	(void)ctx;
	if (!u || log_unpacked_init(u)) {
		free(u);
		return NULL;
	}
	return u;
}

static void worker_end(void *ctx, void *own)
{
	(void)ctx;
	log_unpacked_release(own);
	free(own);
}

struct walking {
	struct loading *loading;
	struct log_file *file;
	struct log_unpacked *u;
	uint64_t at;
};

/* The state that a block goes on with, if it does. */
static const struct log_entry *walked_state(const struct log_index *index, uint32_t process)
{
	for (size_t i = index->entries, n = 0; i && n < WALK_BACK; i--, n++) {
		const struct log_entry *e = &index->entry[i - 1];

		if (e->process == process && e->type == SEGMENT_STATE)
			return e->flags & SEGMENT_GOES_ON ? e : NULL;
	}
	return NULL;
}

/* What the index would say of a block. */
static int walk_block(void *ctx, struct log_entry *entry)
{
	struct walking *w = ctx;
	struct log_block b = { .type = entry->type,
			       .flags = entry->flags,
			       .process = entry->process,
			       .raw = w->u->raw,
			       .len = w->u->len };
	const struct log_entry *before;

	w->loading->done += entry->offset - w->at;
	w->at = entry->offset;
	if (w->loading->stop)
		return -ECANCELED;
	if (entry->type != SEGMENT_EVENTS && entry->type != SEGMENT_STATE)
		return 0;
	before = entry->type == SEGMENT_STATE ? walked_state(&w->file->index, entry->process)
					      : NULL;
	if (before)
		b.first_ms = b.last_ms = before->first_ms;
	else if (log_decode_head(&b))
		return -EINVAL;
	entry->first_ms = b.first_ms;
	entry->last_ms = b.last_ms;
	entry->events = b.events;
	return 0;
}

static void load_file(void *ctx, void *own, size_t job)
{
	struct loading *l = ctx;
	struct log_file *f = &l->r->file[job];
	struct walking w = { .loading = l, .file = f, .u = own };
	int err = log_file_load(f, own);

	if (err == -EINVAL)
		err = log_file_walk(f, own, walk_block, &w);
	if (err)
		l->failed = true;
	l->done += f->size - w.at;
	l->loaded[job] = true;
}

/* What is done is said in order. */
static bool look(void *ctx)
{
	struct loading *l = ctx;

	for (size_t i = 0; i < l->r->files; i++)
		if (l->loaded[i] && !l->told[i] && l->r->file[i].indexed) {
			l->told[i] = true;
			l->watch->file(l->watch->ctx, l->r->file[i].path);
		}
	l->stop = !l->watch->progress(l->watch->ctx, l->done, l->all);
	return !l->stop;
}

static unsigned workers_of(const struct replay_watch *watch, size_t jobs)
{
	unsigned most = pool_processors();

	return watch->workers ? watch->workers : jobs < most ? (unsigned)jobs : most;
}

static void tell_cut(const struct replay_watch *watch, const struct log_file *f)
{
	char text[512];

	if (f->whole == f->size)
		snprintf(text, sizeof(text),
			 "'%s' was not brought to its end: it is open up to its last block",
			 f->path);
	else
		snprintf(
			text, sizeof(text),
			"'%s' is cut off or damaged: it is open up to its last whole block, %" PRIu64
			" of %" PRIu64 " bytes",
			f->path, f->whole, f->size);
	watch->trouble(watch->ctx, text);
}

/* ---- stretches ----------------------------------------------------------- */

/* From one checkpoint of a process up to the next. */
struct stretch {
	struct replay_process *process;
	size_t from, end;
	struct log_index points; /* of that process alone */
	uint64_t events;
	bool damaged, no_memory;
};

struct replaying {
	struct replay *r;
	const struct replay_watch *watch;
	struct stretch *stretch;
	size_t stretches, room;
	_Atomic uint64_t done; /* blocks */
	uint64_t all;
	atomic_bool stop; /* whoever watches does not want to wait */
};

static void on_point(void *ctx, uint64_t interval, uint64_t bytes, uint64_t ms)
{
	struct stretch *s = ctx;

	if (log_index_point(&s->points, s->process->number,
			    &(struct log_point){ interval, bytes, ms }))
		s->no_memory = true;
}

static void replay_stretch(void *ctx, void *own, size_t job)
{
	struct replaying *x = ctx;
	struct stretch *s = &x->stretch[job];
	struct replay_cursor c;
	int err = replay_cursor_init(&c, s->from);

	if (err) {
		s->no_memory = true;
		return;
	}
	ledger_on_point(c.ledger, on_point, s);
	for (size_t i = s->from; i < s->end && !err && !x->stop; i++) {
		err = replay_go_on(s->process, &c, own, LOG_NEVER, i + 1);
		if (!err)
			s->events += replay_entry(x->r, s->process->ref[i])->events;
		x->done++;
	}
	s->no_memory |= err == -ENOMEM;
	s->damaged = err == -EBADMSG;
	replay_cursor_release(&c);
}

static int add_stretch(struct replaying *x, struct replay_process *p, size_t from, size_t end)
{
	if (array_room(&x->stretch, x->stretches, &x->room, sizeof(*x->stretch)))
		return -ENOMEM;
	x->stretch[x->stretches++] = (struct stretch){ .process = p, .from = from, .end = end };
	x->all += end - from;
	return 0;
}

/* Those of all processes, or (not ALL) only of files without an index. */
static int find_stretches(struct replaying *x, bool all)
{
	for (size_t i = 0; i < x->r->processes; i++) {
		struct replay_process *p = x->r->process[i];
		size_t from = SIZE_MAX;

		for (size_t j = 0; j <= p->refs; j++) {
			bool begins = j < p->refs && replay_begins_state(p, j);

			if (from != SIZE_MAX && (j == p->refs || begins)) {
				if ((all || !x->r->file[p->ref[from].file].indexed) &&
				    add_stretch(x, p, from, j))
					return -ENOMEM;
				from = SIZE_MAX;
			}
			if (begins)
				from = j;
		}
	}
	return 0;
}

static int by_place(const void *a, const void *b)
{
	const struct stretch *x = a, *y = b;
	struct replay_ref s = x->process->ref[x->from], t = y->process->ref[y->from];

	if (s.file != t.file)
		return s.file < t.file ? -1 : 1;
	return s.entry < t.entry ? -1 : s.entry > t.entry;
}

static bool look_at_stretches(void *ctx)
{
	struct replaying *x = ctx;

	x->stop = !x->watch->progress(x->watch->ctx, x->done, x->all);
	return !x->stop;
}

/* In the order of the files, so that each block is near the one that was read before. */
static int replay_stretches(struct replaying *x)
{
	const struct pool_work work = { .ctx = x,
					.begin = worker_begin,
					.end = worker_end,
					.job = replay_stretch,
					.look = look_at_stretches };
	int err;

	if (!x->stretches)
		return 0;
	qsort(x->stretch, x->stretches, sizeof(*x->stretch), by_place);
	err = pool_run(&work, workers_of(x->watch, x->r->files), x->stretches);
	for (size_t i = 0; i < x->stretches && !err; i++)
		err = x->stretch[i].no_memory ? -ENOMEM : 0;
	return err;
}

static void release_stretches(struct replaying *x)
{
	for (size_t i = 0; i < x->stretches; i++)
		log_index_release(&x->stretch[i].points);
	free(x->stretch);
}

/* ---- processes ----------------------------------------------------------- */

/* That of NUMBER, made if there is none. NULL: out of memory, or there are too many. */
static struct replay_process *process_of(struct replay *r, uint32_t number)
{
	size_t at;
	struct replay_process *p;

	at = SEARCH(i, r->processes, r->process[i]->number < number);
	if (at < r->processes && r->process[at]->number == number)
		return r->process[at];
	if (r->processes == PROCESSES_MOST ||
	    array_room(&r->process, r->processes, &r->process_room, sizeof(*r->process)))
		return NULL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->replay = r;
	p->number = number;
	p->facts.began_ms = UINT64_MAX;
	p->modules.entry = UINT32_MAX;
	memmove(&r->process[at + 1], &r->process[at], (r->processes++ - at) * sizeof(*r->process));
	return r->process[at] = p;
}

static int add_ref(struct replay_ref **row, size_t *count, size_t *room, struct replay_ref ref)
{
	if (array_room(row, *count, room, sizeof(**row)))
		return -ENOMEM;
	(*row)[(*count)++] = ref;
	return 0;
}

/* What a small block holds, for good. */
static struct log_input keep_block(struct log_bytes *bytes, const struct log_unpacked *u)
{
	struct log_bytes copy = { 0 };

	log_put_bytes(&copy, u->raw, u->len);
	if (copy.failed)
		return (struct log_input){ .wrong = true };
	log_bytes_release(bytes);
	*bytes = copy;
	return (struct log_input){ .at = copy.data, .end = copy.data + copy.len };
}

/* The latest that is said of a process holds; what is damaged is passed over. */
static void take_facts(struct replay *r, struct replay_process *p, struct replay_ref ref)
{
	struct log_process facts;
	struct log_input in = { .at = r->unpacked.raw };

	if (log_file_read(&r->file[ref.file], ref.entry, &r->unpacked))
		return;
	in.end = in.at + r->unpacked.len;
	if (log_take_process(&in, &facts))
		return;
	in = keep_block(&p->facts_bytes, &r->unpacked);
	if (log_take_process(&in, &facts) == 0)
		p->facts = facts;
}

static void take_run(struct replay *r, struct replay_ref ref)
{
	struct log_bytes bytes = { 0 };
	struct log_run run;
	struct log_input in;

	if (log_file_read(&r->file[ref.file], ref.entry, &r->unpacked))
		return;
	in = keep_block(&bytes, &r->unpacked);
	if (log_take_run(&in, &run)) {
		log_bytes_release(&bytes);
		return;
	}
	log_bytes_release(&r->run_bytes);
	r->run_bytes = bytes;
	r->run = run;
}

static int take_block(struct replay *r, struct replay_ref ref)
{
	const struct log_entry *e = replay_entry(r, ref);
	struct replay_process *p = e->process ? process_of(r, e->process) : NULL;

	if (e->type == SEGMENT_RUN)
		take_run(r, ref);
	if (!e->process)
		return 0;
	if (!p)
		return -ENOMEM;
	switch (e->type) {
	case SEGMENT_PROCESS: take_facts(r, p, ref); return 0;
	case SEGMENT_MODULES:
		if (!p->modules_go_on)
			p->modules = ref;
		p->modules_go_on = e->flags & SEGMENT_GOES_ON;
		return 0;
	case SEGMENT_STATE:
	case SEGMENT_EVENTS:
		p->last_ms = e->last_ms > p->last_ms ? e->last_ms : p->last_ms;
		return add_ref(&p->ref, &p->refs, &p->ref_room, ref);
	case SEGMENT_NODES:
	case SEGMENT_SYMBOLS:
	case SEGMENT_MARKS: return add_ref(&p->said, &p->saids, &p->said_room, ref);
	default: return 0;
	}
}

static int take_blocks(struct replay *r)
{
	int err = 0;

	for (uint32_t i = 0; i < r->files && !err; i++)
		for (uint32_t j = 0; j < r->file[i].index.entries && !err; j++)
			err = take_block(r, (struct replay_ref){ i, j });
	return err;
}

/*
 * Where its record begins: in the first file that has it, unless it began later itself. And where
 * it ends: at the end of the last file, but that one may have been cut, and then what it did since
 * its last block is not known.
 */
static void bound(struct replay_process *p)
{
	const struct replay *r = p->replay;
	uint64_t end = r->file[r->files - 1].indexed ? r->ended_ms : p->last_ms;
	uint64_t file_ms = p->refs ? p->replay->file[p->ref[0].file].header.began_ms : 0;

	if (p->facts.began_ms == UINT64_MAX)
		p->facts.began_ms = file_ms;
	if (!p->facts.ended_ms) {
		p->facts.ended_ms = end > p->facts.began_ms ? end : p->facts.began_ms;
		p->facts.state = PROCESS_DETACHED;
	}
	p->recorded_ms = p->facts.began_ms > file_ms ? p->facts.began_ms : file_ms;
	/* it had just ended when the file was begun */
	if (p->recorded_ms > p->facts.ended_ms)
		p->recorded_ms = p->facts.ended_ms;
}

static int by_beginning(const void *a, const void *b)
{
	const struct replay_process *x = *(struct replay_process *const *)a,
				    *y = *(struct replay_process *const *)b;

	if (x->facts.began_ms != y->facts.began_ms)
		return x->facts.began_ms < y->facts.began_ms ? -1 : 1;
	return x->number < y->number ? -1 : 1;
}

/*
 * Numbers are given when something is told of a process for the first time: the order in which they
 * appeared is that of their beginnings.
 */
static void bounds(struct replay *r)
{
	for (size_t i = 0; i < r->processes; i++) {
		const struct replay_process *p = r->process[i];
		uint64_t end = p->facts.ended_ms > p->last_ms ? p->facts.ended_ms : p->last_ms;

		r->ended_ms = end > r->ended_ms ? end : r->ended_ms;
	}
	/* of one that was cut off where it begins nothing is later */
	if (r->ended_ms < r->file[0].header.began_ms)
		r->ended_ms = r->file[0].header.began_ms;
	for (size_t i = 0; i < r->processes; i++)
		bound(r->process[i]);
	if (r->processes)
		qsort(r->process, r->processes, sizeof(*r->process), by_beginning);
}

/* ---- points -------------------------------------------------------------- */

static int add_points(struct log_index *all, const struct log_points *points)
{
	int err = 0;

	for (size_t i = 0; points && i < points->count && !err; i++)
		err = log_index_point(all, points->process, &points->point[i]);
	return err;
}

/* File by file, so that they ascend. */
static int gather_points(struct replay *r, const struct replaying *x)
{
	struct log_index all = { 0 };
	size_t next = 0;
	int err = 0;

	for (uint32_t i = 0; i < r->files && !err; i++) {
		for (size_t j = 0; j < r->file[i].index.processes && !err; j++)
			err = add_points(&all, &r->file[i].index.points[j]);
		for (; next < x->stretches &&
		       x->stretch[next].process->ref[x->stretch[next].from].file == i && !err;
		     next++)
			err = add_points(&all, log_index_points(&x->stretch[next].points,
								x->stretch[next].process->number));
	}
	for (size_t i = 0; i < all.processes && !err; i++) {
		struct replay_process *p = process_of(r, all.points[i].process);

		if (!p) {
			err = -ENOMEM;
			break;
		}
		p->points = all.points[i];
		all.points[i] = (struct log_points){ .process = p->number };
	}
	log_index_release(&all);
	return err;
}

/* ---- the whole ----------------------------------------------------------- */

static int open_files(struct replay *r, const struct log_set *set, const struct replay_watch *watch,
		      char *why, size_t len)
{
	size_t first = log_set_newest(set);
	char text[256];

	r->file = calloc(set->files - first, sizeof(*r->file));
	if (!r->file)
		return -ENOMEM;
	for (size_t i = first; i < set->files; i++) {
		if (log_file_open(&r->file[r->files], set->file[i].path, text, sizeof(text))) {
			snprintf(why, len, "cannot open '%s': %s", set->file[i].path, text);
			return -EINVAL;
		}
		r->files++;
	}
	if (first && set->file[first].after_off)
		snprintf(text, sizeof(text),
			 "the log was off before file %" PRIu32 ": earlier files are left out",
			 set->file[first].number);
	else if (first)
		snprintf(text, sizeof(text),
			 "file %" PRIu32 " is not there: what was before file %" PRIu32
			 " is left out",
			 set->file[first].number - 1, set->file[first].number);
	if (first)
		watch->trouble(watch->ctx, text);
	return 0;
}

static int load_files(struct replay *r, const struct replay_watch *watch)
{
	struct loading l = { .r = r, .watch = watch };
	const struct pool_work work = {
		.ctx = &l, .begin = worker_begin, .end = worker_end, .job = load_file, .look = look
	};
	int err;

	for (size_t i = 0; i < r->files; i++)
		l.all += r->file[i].size;
	l.loaded = calloc(r->files, sizeof(*l.loaded));
	l.told = calloc(r->files, sizeof(*l.told));
	err = l.loaded && l.told ? pool_run(&work, workers_of(watch, r->files), r->files) : -ENOMEM;
	free(l.loaded);
	free(l.told);
	return err ? err : l.failed ? -ENOMEM : 0;
}

/* What is not in an index is found out. */
static int make_points(struct replay *r, const struct replay_watch *watch)
{
	struct replaying x = { .r = r, .watch = watch };
	int err = find_stretches(&x, false);

	if (!err)
		err = replay_stretches(&x);
	if (!err)
		err = gather_points(r, &x);
	release_stretches(&x);
	return err;
}

struct replay *replay_open(const struct log_set *set, const struct replay_watch *watch, char *why,
			   size_t len)
{
	struct replay *r = calloc(1, sizeof(*r));
	int err = r ? log_unpacked_init(&r->unpacked) : -ENOMEM;

	if (!err)
		err = open_files(r, set, watch, why, len);
	if (!err)
		err = load_files(r, watch);
	if (!err)
		err = take_blocks(r);
	if (!err)
		err = make_points(r, watch);
	if (err) {
		if (err != -EINVAL)
			snprintf(why, len, "%s", err == -ECANCELED ? "" : "out of memory");
		replay_free(r);
		return NULL;
	}
	bounds(r);
	for (size_t i = 0; i < r->files; i++)
		if (!r->file[i].indexed) {
			watch->file(watch->ctx, r->file[i].path);
			if (r->processes) /* else it is told that there is nothing */
				tell_cut(watch, &r->file[i]);
		}
	return r;
}

static void free_process(struct replay_process *p)
{
	for (size_t i = 0; i < REPLAY_CURSORS; i++)
		replay_cursor_release(&p->cursor[i]);
	replay_stacks_release(p);
	log_bytes_release(&p->facts_bytes);
	free(p->points.point);
	free(p->said);
	free(p->ref);
	free(p);
}

void replay_free(struct replay *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->processes; i++)
		free_process(r->process[i]);
	for (size_t i = 0; i < r->files; i++)
		log_file_close(&r->file[i]);
	log_bytes_release(&r->run_bytes);
	log_unpacked_release(&r->unpacked);
	free(r->process);
	free(r->file);
	free(r);
}

/* Whether the point that a replay comes to is what was told. */
static bool is_told(const struct replay_process *p, const struct log_point *point)
{
	size_t at = SEARCH(i, p->points.count, p->points.point[i].interval < point->interval);

	return at < p->points.count && !memcmp(&p->points.point[at], point, sizeof(*point));
}

static int compare(const struct stretch *s, const struct replay_watch *watch)
{
	const struct log_points *points = log_index_points(&s->points, s->process->number);
	const char *path = s->process->replay->file[s->process->ref[s->from].file].path;
	char text[512];
	int err = 0;

	if (s->damaged) {
		snprintf(text, sizeof(text),
			 "'%s' is damaged: some of what process %d did is not known", path,
			 (int)s->process->facts.pid);
		err = -EINVAL;
	}
	for (size_t i = 0; !err && points && i < points->count; i++)
		if (!is_told(s->process, &points->point[i])) {
			snprintf(
				text, sizeof(text),
				"'%s' is wrong: its index and its events differ, for process %d at %" PRIu64
				" ms",
				path, (int)s->process->facts.pid, points->point[i].ms);
			err = -EINVAL;
		}
	if (err)
		watch->trouble(watch->ctx, text);
	return err;
}

/* Stacks, symbols and marks are only read where they are asked for. */
static int check_said(struct replay *r, const struct replay_process *p,
		      const struct replay_watch *watch)
{
	char text[512];

	for (size_t i = 0; i < p->saids; i++)
		if (log_file_read(&r->file[p->said[i].file], p->said[i].entry, &r->unpacked)) {
			snprintf(text, sizeof(text),
				 "'%s' is damaged at byte %" PRIu64
				 ": some stacks, names or marks of process %d are not known",
				 r->file[p->said[i].file].path, replay_entry(r, p->said[i])->offset,
				 (int)p->facts.pid);
			watch->trouble(watch->ctx, text);
			return -EINVAL;
		}
	return 0;
}

int replay_check(struct replay *r, const struct replay_watch *watch, uint64_t *events)
{
	struct replaying x = { .r = r, .watch = watch };
	int err = find_stretches(&x, true), wrong = 0;

	if (!err)
		err = replay_stretches(&x);
	*events = 0;
	for (size_t i = 0; i < x.stretches && !err; i++) {
		wrong |= compare(&x.stretch[i], watch);
		*events += x.stretch[i].events;
	}
	for (size_t i = 0; i < r->processes && !err; i++)
		wrong |= check_said(r, r->process[i], watch);
	for (size_t i = 0; i < r->files && !err; i++)
		watch->file(watch->ctx, r->file[i].path);
	release_stretches(&x);
	return err ? err : wrong;
}

const struct log_run *replay_run(const struct replay *r) { return &r->run; }
uint64_t replay_set(const struct replay *r) { return r->file[0].header.set; }
uint64_t replay_clock_ms(const struct replay *r) { return r->file[0].header.clock_ms; }
uint64_t replay_began_ms(const struct replay *r) { return r->file[0].header.began_ms; }
uint64_t replay_ended_ms(const struct replay *r) { return r->ended_ms; }
size_t replay_files(const struct replay *r) { return r->files; }
size_t replay_processes(const struct replay *r) { return r->processes; }
struct replay_process *replay_process(const struct replay *r, size_t i) { return r->process[i]; }
const struct replay *replay_whole(const struct replay_process *p) { return p->replay; }
uint64_t replay_recorded_ms(const struct replay_process *p) { return p->recorded_ms; }
const struct log_process *replay_facts(const struct replay_process *p) { return &p->facts; }

uid_t replay_owner(const struct replay_process *p)
{
	const struct replay *r = p->replay;

	for (size_t i = 1; i < r->files; i++)
		if (r->file[i].owner != r->file[0].owner)
			return OUTSIDE_NOBODY;
	return r->file[0].owner;
}

const char *replay_file(const struct replay *r, size_t i, uint64_t *bytes)
{
	*bytes = r->file[i].size;
	return r->file[i].path;
}

uint64_t replay_events(const struct replay *r)
{
	uint64_t n = 0;

	for (size_t i = 0; i < r->files; i++)
		for (size_t j = 0; j < r->file[i].index.entries; j++)
			n += r->file[i].index.entry[j].events;
	return n;
}
