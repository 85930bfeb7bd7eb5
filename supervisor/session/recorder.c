// SPDX-License-Identifier: GPL-3.0-or-later
#include "session/recorder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/array.h"
#include "base/intern.h"
#include "base/message.h"
#include "base/patient.h"
#include "base/proc.h"
#include "log/event_encode.h"
#include "log/records.h"
#include "log/writer.h"
#include "process/resolver.h"
#include "session/session_state.h"
#include "transport/heartbeat.h"

/*
 * A record lives as long as its process. The ledger's encoder hands over blocks in the middle of
 * events. Before such a block the stacks that it is the first to name are written, before these the
 * modules, and first of all the process: so a process that never has an event (a child between fork
 * and exec) is not in the log at all.
 *
 * Symbols are written after the stacks: those that are known a slice in each turn; the others are
 * first read by the worker thread (resolver.h). A file is completed when all are written:
 * full_size() and most_size() say when it ends. Children use their parents' symbols: a shell's
 * hundred processes need not read the same library a hundred times.
 */
#define TURN_MS 20 /* between two looks at what is to be written beside events */
/* how much, besides the writer's queue, is lost at most if we are killed */
#define FLUSH_MS 1000
/* debug information is not read in a program's first moments, so that it need not share processors */
#define SYMBOLS_MS 2000
/* nodes of stacks whose symbols are written in a turn: half a millisecond */
#define SLICE	  2048u
#define QUESTIONS 4096u
#define PIECE	  (256u << 10) /* bytes of entries in a block */
/*
 * A file is full at three quarters of its size, and ends at seven eighths. Of the last eighth, a
 * quarter is for events that are no block yet, and a quarter for what comes in one turn, at
 * EVENT_BYTES each, which is more than most take: so neither makes a small file larger than it is
 * to be.
 */
#define SHARE	    32u
#define EVENT_BYTES 4u
#define PORTION	    64u /* events, at least */

struct looked_up { /* a node that was told without its symbols */
	uint64_t pc;
	uint32_t node;
};

struct record {
	struct record *next; /* in order of appearance */
	struct recorder *recorder;
	struct process *process;
	struct record *elder; /* whose symbols are asked; NULL: its own */
	uint32_t number;
	struct log_encoder *encoder; /* NULL: it is not logged (any more) */

	/* of the file: */
	bool begun;			 /* it is in there */
	uint64_t *told;			 /* bit for each node: it is in there; NULL: none */
	struct log_bytes facts, modules; /* the last PROCESS and MODULES */
	size_t module_count;		 /* with the next one: what MODULES was made of */
	uint64_t module_lives;
	struct log_bytes nodes, symbols; /* entries that are no block yet */
	struct looked_up *asked;
	size_t nasked, asked_room;
	struct intern frames; /* whose symbols were told */
	uint64_t marks;	      /* so many were told */
};

struct recorder {
	struct session *session;
	struct log_writer *writer;
	const struct process *run_of; /* the program when RUN was told */
	struct record *records, **last;
	bool on, busy, rotating;
	bool out_of_memory;	  /* something could not be noted that must be in the file */
	uint32_t file, processes; /* numbers that were given last */
	uint64_t turned_ms, flushed_ms;
	uint64_t symbols_ms; /* not before this */
	uint64_t told;	     /* nodes whose symbols were written, or have none */
	/*
	 * a file is not ended before it has this size: what it needs to stand alone, and half of
	 * that
	 */
	uint64_t least;
	struct resolver *resolver; /* at work on the following */
	struct symbol_question *question;
	size_t questions;
};

#define TOLD_BYTES (WIRE_NODES / 8)

/* ---- blocks -------------------------------------------------------------- */

/* Writes B in blocks: something that is too long for one goes on in the next. */
static void put(struct recorder *r, enum segment_type type, uint32_t process, struct log_bytes *b)
{
	r->out_of_memory |= b->failed;
	for (size_t at = 0; at < b->len; at += SEGMENT_RAW) {
		bool more = b->len - at > SEGMENT_RAW;
		struct log_block block = { .type = type,
					   .flags = more ? SEGMENT_GOES_ON : 0,
					   .process = process,
					   .raw = b->data + at,
					   .len = more ? SEGMENT_RAW : b->len - at };

		log_writer_put(r->writer, &block);
	}
}

/* put() of a buffer that is filled again. */
static void put_entries(struct record *c, enum segment_type type, struct log_bytes *b)
{
	put(c->recorder, type, c->number, b);
	b->len = 0;
	b->failed = false;
}

static bool same(const struct log_bytes *a, const struct log_bytes *b)
{
	return a->len == b->len && (!a->len || !memcmp(a->data, b->data, a->len));
}

/* Writes B, which is taken over, unless it is equal to WAS. */
static void put_changed(struct record *c, enum segment_type type, struct log_bytes *was,
			struct log_bytes *b)
{
	if (same(was, b) && !b->failed) {
		log_bytes_release(b);
		return;
	}
	put(c->recorder, type, c->number, b);
	log_bytes_release(was);
	*was = *b;
}

static void put_facts(struct record *c)
{
	const struct process *p = c->process;
	struct log_bytes b = { 0 };

	log_put_process(&b, &(struct log_process){ .pid = p->pid,
						   .ppid = p->ppid,
						   .state = p->state,
						   .wait_status = p->wait_status,
						   .began_ms = p->recorded_ms,
						   .ended_ms = p->ended_ms,
						   .sample = c->recorder->session->options.sampled,
						   .image_bytes = p->image_bytes,
						   .threads = (unsigned)ledger_threads(p->ledger),
						   .preattach = p->preattach,
						   .command = p->command,
						   .exe = p->exe,
						   .unsupervised = p->unsupervised });
	put_changed(c, SEGMENT_PROCESS, &c->facts, &b);
}

static void put_modules(struct record *c)
{
	const struct modules *list = &c->process->modules;
	struct log_bytes b = { 0 };
	uint64_t lives = 0;

	for (size_t i = 0; i < list->count; i++)
		lives += ((uint64_t)list->module[i]->born << 32 | list->module[i]->dead) *
			 (2 * i + 1);
	if (list->count == c->module_count && lives == c->module_lives)
		return;
	c->module_count = list->count;
	c->module_lives = lives;
	log_put_modules(&b, list);
	put_changed(c, SEGMENT_MODULES, &c->modules, &b);
}

static void put_marks(struct record *c)
{
	const struct marks *marks = &c->process->marks;
	uint64_t forgotten = marks_forgotten(marks);
	struct log_bytes b = { 0 };

	if (c->marks < forgotten)
		c->marks = forgotten;
	for (; c->marks < marks->made; c->marks++) {
		const struct mark *m = marks_at(marks, (size_t)(c->marks - forgotten));

		log_put_mark(&b, &(struct log_mark){
					 .number = c->marks, .ms = m->ms, .label = m->label });
	}
	put(c->recorder, SEGMENT_MARKS, c->number, &b);
	log_bytes_release(&b);
}

/* Writes what comes before C's events. */
static void put_begin(struct record *c)
{
	if (!c->begun)
		put_facts(c);
	c->begun = true;
	put_modules(c);
	put_entries(c, SEGMENT_NODES, &c->nodes);
}

static void put_rest(struct record *c)
{
	if (!c->begun)
		return;
	put_facts(c);
	put_begin(c);
	put_marks(c);
	put_entries(c, SEGMENT_SYMBOLS, &c->symbols);
}

static char *command_line(char *const *argv)
{
	size_t len = 1;
	char *text;

	for (size_t i = 0; argv && argv[i]; i++)
		len += strlen(argv[i]) + 1;
	text = argv ? calloc(1, len) : NULL;
	for (size_t i = 0; text && argv[i]; i++) {
		strcat(text, i ? " " : "");
		strcat(text, argv[i]);
	}
	return text;
}

/* The arguments are those of what the program has become since, if they can be had. */
static void put_run(struct recorder *r)
{
	const struct options *o = &r->session->options;
	const struct process *p = r->session->main;
	char *line = p && p->exe && p->state <= PROCESS_HELD ? patient_command_line(p->via) : NULL;
	struct log_bytes b = { 0 };

	if (!line)
		line = command_line(o->argv);
	r->run_of = p;

	log_put_run(&b, &(struct log_run){ .counted = o->count,
					   .sample = o->agent.sample,
					   .depth = o->agent.depth,
					   .version = MTRUN_VERSION,
					   .command_line = line });
	put(r, SEGMENT_RUN, 0, &b);
	log_bytes_release(&b);
	free(line);
}

/* ---- the encoders' sink -------------------------------------------------- */

static void ask(struct record *c, uint32_t node, uint64_t pc)
{
	if (array_room(&c->asked, c->nasked, &c->asked_room, sizeof(*c->asked)))
		return; /* then it has none */
	c->asked[c->nasked++] = (struct looked_up){ pc, node };
}

static bool told(struct record *c)
{
	if (c->told)
		return true;
	c->told = mmap(NULL, TOLD_BYTES, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (c->told != MAP_FAILED)
		return true;
	c->told = NULL;
	c->recorder->out_of_memory = true;
	return false;
}

static void on_node(void *ctx, uint32_t stack)
{
	uint32_t node[WIRE_DEPTH + 2], parent[WIRE_DEPTH + 2], at = stack;
	uint64_t pc[WIRE_DEPTH + 2];
	struct record *c = ctx;
	size_t n = 0;

	if (!told(c))
		return;
	while (at && at < WIRE_NODES && n < WIRE_DEPTH + 2 && !(c->told[at / 64] >> at % 64 & 1)) {
		node[n] = at;
		at = parent[n] = process_stack_parent(c->process, at, &pc[n]);
		if (pc[n]) /* else it is a root */
			n++;
	}
	while (n-- > 0) {
		bool rooted = parent[n] && parent[n] < WIRE_NODES &&
			      c->told[parent[n] / 64] >> parent[n] % 64 & 1;

		c->told[node[n] / 64] |= UINT64_C(1) << node[n] % 64;
		log_put_node(&c->nodes,
			     &(struct log_node){ node[n], rooted ? parent[n] : 0, pc[n] });
		ask(c, node[n], pc[n]);
		if (c->nodes.len >= PIECE)
			put_begin(c);
	}
}

static void on_block(void *ctx, const struct log_block *b)
{
	struct record *c = ctx;
	struct log_block own = *b;

	put_begin(c);
	own.process = c->number;
	log_writer_pack(c->recorder->writer, modes[c->recorder->session->options.mode].compact
						     ? LOG_PACK_SMALL
						     : LOG_PACK_FAST);
	log_writer_put(c->recorder->writer, &own);
}

static void on_point(void *ctx, uint64_t interval, uint64_t bytes, uint64_t ms)
{
	struct record *c = ctx;

	log_writer_point(c->recorder->writer, c->number,
			 &(struct log_point){ interval, bytes, ms });
}

/* ---- symbols ------------------------------------------------------------- */

/*
 * The symbols for C: its elder's, unless the elder has ended and C lives. Then C's own lead to the
 * files, which may be in another root directory than ours.
 */
static struct symbols *symbols_of(const struct record *c)
{
	bool own = !c->elder || (c->elder->process->state > PROCESS_STOPPED &&
				 c->process->state <= PROCESS_STOPPED);

	return own ? c->process->symbols : c->elder->process->symbols;
}

static uint32_t module_number(const struct process *p, const struct module *m)
{
	size_t i = 0;

	while (m && i < p->modules.count && p->modules.module[i] != m)
		i++;
	return m && i < p->modules.count ? (uint32_t)i + 1 : 0;
}

static void tell_symbol(struct record *c, const struct looked_up *a, const struct module *module,
			struct symbol_frames frames)
{
	size_t before = c->frames.count;

	if (!frames.count || !intern(&c->frames, frames.frame) || c->frames.count == before)
		return;
	if (frames.count > LOG_SYMBOL_FRAMES)
		frames.count = LOG_SYMBOL_FRAMES;
	log_put_symbol(&c->symbols,
		       &(struct log_symbol){ module_number(c->process, module), a->pc, frames });
	if (c->symbols.len >= PIECE)
		put_rest(c);
}

/*
 * Writes the known symbols of at most MOST nodes, and starts the worker on the others. Returns how
 * many nodes were looked at.
 */
static size_t tell_symbols(struct recorder *r, struct record *c, size_t most)
{
	struct symbols *symbols = symbols_of(c);
	size_t n = c->nasked < most ? c->nasked : most, left = 0;

	r->questions = 0;
	for (size_t i = 0; i < n; i++) {
		struct looked_up a = c->asked[i];
		struct symbol_frames frames;
		struct symbol_question q;

		if (!process_question(c->process, a.node, a.pc, &q))
			continue;
		if (symbols_known(symbols, q.module, q.pc, q.exact, &frames)) {
			tell_symbol(c, &a, q.module, frames);
			continue;
		}
		if (r->questions < QUESTIONS)
			r->question[r->questions++] = q;
		c->asked[left++] = a;
	}
	if (c->nasked > n)
		memmove(c->asked + left, c->asked + n, (c->nasked - n) * sizeof(*c->asked));
	c->nasked -= n - left;
	r->told += n - left;
	if (r->questions)
		r->resolver = resolver_start(symbols, r->question, r->questions);
	return n;
}

static bool resolver_is_busy(struct recorder *r)
{
	if (r->resolver && resolver_done(r->resolver) < r->questions)
		return true;
	if (r->resolver)
		resolver_finish(r->resolver);
	r->resolver = NULL;
	return false;
}

static bool symbols_turn(struct recorder *r)
{
	size_t looked_at = 0;
	bool some = false;

	if (resolver_is_busy(r))
		return true;
	for (struct record *c = r->records; c && !r->resolver; c = c->next) {
		if (looked_at < SLICE)
			looked_at += tell_symbols(r, c, SLICE - looked_at);
		some |= c->nasked > 0;
	}
	return some || r->resolver;
}

/*
 * No file is to be larger than log_size, and it grows by what is still written when it ends. So
 * from full_size() on a file ends as soon as its symbols are there, unless it has hardly begun, and
 * from most_size() on without them.
 */
static uint64_t full_size(const struct recorder *r)
{
	uint64_t size = r->session->options.log_size / 4 * 3;

	return size > r->least ? size : r->least;
}

static uint64_t most_size(const struct recorder *r) { return full_size(r) / 6 * 7; }

/*
 * Writes all symbols that the file needs so far; the programs go on meanwhile, as long as the file
 * has room for their events.
 */
static void symbols_all(struct recorder *r)
{
	while (symbols_turn(r)) {
		if (!resolver_is_busy(r))
			continue;
		if (log_writer_size(r->writer) < most_size(r))
			session_serve_rings(r->session);
		usleep(200);
	}
}

static uint32_t block_size(const struct recorder *r)
{
	uint64_t size = r->session->options.log_size / SHARE;

	return size < LOG_ENCODER_BLOCK ? (uint32_t)size : LOG_ENCODER_BLOCK;
}
_Static_assert(LOG_SIZE_LEAST / SHARE >= LOG_ENCODER_LEAST, "a block of a file of the least size");

size_t recorder_portion(const struct session *s)
{
	uint64_t events = s->options.log_size / SHARE / EVENT_BYTES, encoders = 0;

	if (!recorder_is_on(s) || events >= CHUNK)
		return CHUNK;
	for (const struct record *c = s->recorder->records; c; c = c->next)
		encoders += c->encoder != NULL;
	events /= encoders ? encoders : 1;
	return events > PORTION ? events : PORTION;
}

/* ---- records ------------------------------------------------------------- */

/* Nothing of C is in the next file yet. */
static void record_clear(struct record *c)
{
	c->begun = false;
	if (c->told)
		munmap(c->told, TOLD_BYTES);
	c->told = NULL;
	log_bytes_release(&c->facts);
	log_bytes_release(&c->modules);
	log_bytes_release(&c->nodes);
	log_bytes_release(&c->symbols);
	c->module_count = 0;
	c->module_lives = 0;
	free(c->asked);
	c->asked = NULL;
	c->nasked = c->asked_room = 0;
	intern_release(&c->frames);
	c->marks = 0;
}

static struct record *record_new(struct recorder *r, struct process *p)
{
	struct record *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->recorder = r;
	c->process = p;
	c->number = ++r->processes;
	for (struct record *o = r->records; o; o = o->next)
		if (o->process->pid == p->ppid)
			c->elder = o->elder ? o->elder : o;
	*r->last = p->record = c;
	r->last = &c->next;
	return c;
}

void recorder_release(struct process *p)
{
	struct record *c = p->record, **at;

	if (!c)
		return;
	at = &c->recorder->records;
	if (c->recorder->resolver)
		resolver_finish(c->recorder->resolver);
	c->recorder->resolver = NULL;
	for (struct record *o = c->recorder->records; o; o = o->next)
		if (o->elder == c)
			o->elder = NULL;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	if (c->recorder->last == &c->next)
		c->recorder->last = at;
	log_encoder_free(c->encoder);
	record_clear(c);
	free(c);
	p->record = NULL;
}

/* True also while the worker is at work: it may use P's symbols, for P or for a child. */
bool recorder_needs(const struct process *p)
{
	const struct record *c = p->record;

	return c && (c->encoder || c->begun || c->nasked || c->recorder->resolver);
}

uint64_t recorder_hurry(const struct session *s)
{
	uint64_t n = 0;

	if (!s->recorder)
		return 0;
	s->recorder->symbols_ms = 0;
	n = s->recorder->told;
	for (const struct record *c = s->recorder->records; c; c = c->next)
		n += c->nasked;
	return n;
}

/* All were told, or another file has begun, if SYMBOLS_MS have begun anew. */
bool recorder_told(const struct session *s, uint64_t n)
{
	return !recorder_is_on(s) || s->recorder->symbols_ms || s->recorder->told >= n;
}

/* From now on P's events go into the log. Without memory for that the log ends. */
static void begin(struct recorder *r, struct process *p)
{
	struct record *c;

	if (p->off)
		return;
	c = p->record ? p->record : record_new(r, p);
	if (c && !c->encoder)
		c->encoder = log_encoder_new(p->ledger, &(struct log_sink){ .ctx = c,
									    .node = on_node,
									    .block = on_block,
									    .point = on_point });
	if (!c || !c->encoder)
		r->out_of_memory = true;
	else
		log_encoder_block(c->encoder, block_size(r));
}

/* ---- files --------------------------------------------------------------- */

/* Begins file number r->file, for all that are logged. The writer keeps an error. */
static void begin_file(struct recorder *r)
{
	const struct options *o = &r->session->options;

	r->rotating = false;
	r->symbols_ms = heartbeat_ms() + SYMBOLS_MS;
	log_writer_begin(r->writer, o->log_dir, r->file, heartbeat_ms());
	put_run(r);
	for (struct record *c = r->records; c; c = c->next) {
		record_clear(c);
		if (!c->encoder)
			continue;
		log_encoder_block(c->encoder, block_size(r));
		log_encoder_new_file(c->encoder);
	}
	r->least = log_writer_size(r->writer) / 2 * 3;
}

static void flush(struct recorder *r)
{
	for (struct record *c = r->records; c; c = c->next) {
		if (c->encoder)
			log_encoder_flush(c->encoder);
		put_rest(c);
		if (!c->encoder && c->begun && !c->nasked)
			record_clear(c); /* it has ended: there is nothing more to be told */
	}
	if (r->run_of != r->session->main)
		put_run(r);
	r->flushed_ms = heartbeat_ms();
}

/* Writes everything that the file still needs. */
static void complete(struct recorder *r)
{
	flush(r);
	symbols_all(r);
	/* what has come meanwhile: its symbols are missing, but for those that were known */
	flush(r);
	symbols_turn(r);
	resolver_is_busy(r);
	flush(r);
}

/* No more blocks are made; what was made is in the queue. */
static void stop(struct recorder *r)
{
	for (struct record *c = r->records; c; c = c->next) {
		log_encoder_free(c->encoder);
		c->encoder = NULL;
		record_clear(c);
	}
	r->on = false;
}

static int new_writer(struct session *s)
{
	struct recorder *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->question = malloc(QUESTIONS * sizeof(*r->question));
	r->writer = r->question ? log_writer_new(session_clock(s), s->options.log_files) : NULL;
	if (!r->writer) {
		free(r->question);
		free(r);
		return -ENOMEM;
	}
	r->session = s;
	r->last = &r->records;
	s->recorder = r;
	return 0;
}

/* What went wrong with the latest file; NULL: nothing. */
static const char *error_of(const struct recorder *r)
{
	const char *error = log_writer_error(r->writer);

	return !error && r->out_of_memory ? strerror(ENOMEM) : error;
}

static int await_begin(struct recorder *r, char *why, size_t len)
{
	const char *error;

	log_writer_wait(r->writer);
	error = error_of(r);
	if (!error)
		return 0;
	snprintf(why, len, "%s", error);
	stop(r);
	log_writer_end(r->writer);
	return -EIO;
}

int recorder_on(struct session *s, char *why, size_t len)
{
	struct recorder *r;

	if (recorder_is_on(s))
		return 0;
	if (!s->recorder && new_writer(s)) {
		snprintf(why, len, "%s", strerror(ENOMEM));
		return -ENOMEM;
	}
	r = s->recorder;
	/* a number is left out: so a reader sees that something is missing there */
	r->file += r->file ? 2 : 1;
	r->out_of_memory = false;
	r->on = true;
	r->flushed_ms = heartbeat_ms();
	begin_file(r);
	for (struct process *p = s->processes; p; p = p->next) {
		if (!p->record && p->state <= PROCESS_STOPPED)
			recorder_appeared(s, p);
		/* those come when they are on again, with another ledger */
		if (p->stream && !p->off)
			begin(r, p);
	}
	return await_begin(r, why, len);
}

void recorder_off(struct session *s)
{
	struct recorder *r = s->recorder;
	const char *error;

	if (!recorder_is_on(s) || r->busy)
		return;
	r->busy = true;
	complete(r);
	stop(r);
	log_writer_end(r->writer);
	log_writer_wait(r->writer);
	r->busy = false;
	error = error_of(r);
	if (error) {
		s->log_failed = true;
		message_error("%s: the end of the log is missing", error);
	}
}

bool recorder_is_on(const struct session *s) { return s->recorder && s->recorder->on; }

int recorder_rotate(struct session *s, char *why, size_t len)
{
	struct recorder *r = s->recorder;

	r->busy = true;
	complete(r);
	r->file++;
	begin_file(r);
	r->busy = false;
	return await_begin(r, why, len);
}

void recorder_keep(struct session *s)
{
	if (s->recorder)
		log_writer_keep(s->recorder->writer, s->options.log_files);
}

void recorder_files(struct session *s, void (*fn)(void *ctx, const char *path, uint64_t bytes),
		    void *ctx)
{
	if (s->recorder)
		log_writer_files(s->recorder->writer, fn, ctx);
}

void recorder_free(struct recorder *r)
{
	if (!r)
		return;
	if (r->resolver)
		resolver_finish(r->resolver);
	log_writer_free(r->writer);
	free(r->question);
	free(r);
}

/* ---- in the loop --------------------------------------------------------- */

static bool failed(struct recorder *r)
{
	const char *error = error_of(r);

	if (!error)
		return false;
	stop(r);
	log_writer_end(r->writer);
	session_log_ended(r->session);
	r->session->log_failed = true;
	/* the loop turns meanwhile */
	message_error("%s: the log ends here, recording goes on in memory (`log on` resumes)",
		      error);
	return true;
}

/*
 * Whether the file is to end now: it is full, and its symbols are there, or it has waited for them
 * long enough.
 */
static bool file_ends(struct recorder *r, uint64_t now)
{
	uint64_t size = log_writer_size(r->writer);
	bool missing = true;

	r->rotating = size >= full_size(r);
	if (r->rotating || now >= r->symbols_ms)
		missing = symbols_turn(r);
	if (!missing)
		r->symbols_ms = now + SYMBOLS_MS;
	return r->rotating && (!missing || size >= most_size(r));
}

void recorder_turn(struct session *s)
{
	struct recorder *r = s->recorder;
	uint64_t now;

	if (!r || !r->on || r->busy)
		return;
	now = heartbeat_ms();
	if (now < r->turned_ms + TURN_MS && r->symbols_ms &&
	    log_writer_size(r->writer) < full_size(r))
		return;
	r->turned_ms = now;
	if (failed(r))
		return;
	r->busy = true;
	if (file_ends(r, now)) {
		complete(r);
		r->file++;
		begin_file(r);
	} else if (now >= r->flushed_ms + FLUSH_MS) {
		flush(r);
	}
	r->busy = false;
}

void recorder_appeared(struct session *s, struct process *p)
{
	if (recorder_is_on(s) && !record_new(s->recorder, p))
		s->recorder->out_of_memory = true;
}

void recorder_listen(struct session *s, struct process *p)
{
	if (recorder_is_on(s))
		begin(s->recorder, p);
}

/*
 * Writes C's last events. A child that has shared its parent's table to the end has its own now,
 * unless it has become another program.
 */
static void last_blocks(struct record *c)
{
	if (!c->begun && c->process->state != PROCESS_REPLACED)
		log_encoder_checkpoint(c->encoder);
	log_encoder_flush(c->encoder);
}

void recorder_finished(struct session *s, struct process *p)
{
	struct recorder *r = s->recorder;

	if (!recorder_is_on(s))
		return;
	if ((!p->record || !p->record->encoder) && !p->off && p->state != PROCESS_REPLACED)
		begin(r, p);
	if (!p->record || !p->record->encoder)
		return;
	last_blocks(p->record);
	put_rest(p->record);
	if (p == s->main && r->run_of != p)
		put_run(r);
}

void recorder_closed(struct process *p)
{
	struct record *c = p->record;

	if (!c || !c->encoder)
		return;
	last_blocks(c);
	put_rest(c);
	log_encoder_free(c->encoder);
	c->encoder = NULL;
}
