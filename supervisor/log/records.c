// SPDX-License-Identifier: GPL-3.0-or-later
#include "log/records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"
#include "ledger/ledger.h"
#include "log/format.h"
#include "log/segment.h"
#include "process/marks.h"
#include "process/process.h"

/*
 * Numbers are small on average: a delta to the entry before, or counts. Every taker goes on with
 * zeros after the first error, so that it is asked about once, at the end; what is made of a
 * payload is in proportion to its bytes, since each entry has some.
 */

/* ---- bytes --------------------------------------------------------------- */

void log_bytes_release(struct log_bytes *b)
{
	free(b->data);
	*b = (struct log_bytes){ 0 };
}

static uint8_t *reserve(struct log_bytes *b, size_t n)
{
	size_t room = b->room ? b->room : 4096;
	uint8_t *data;

	if (b->failed)
		return NULL;
	while (room - b->len < n)
		room *= 2;
	if (room != b->room) {
		data = realloc(b->data, room);
		if (!data) {
			b->failed = true;
			return NULL;
		}
		b->data = data;
		b->room = room;
	}
	return b->data + b->len;
}

void log_put_number(struct log_bytes *b, uint64_t n)
{
	uint8_t *to = reserve(b, LEB_MOST);

	if (to)
		b->len += (size_t)(leb_put(to, n) - to);
}

void log_put_signed(struct log_bytes *b, int64_t n) { log_put_number(b, leb_zigzag(n)); }

void log_put_bytes(struct log_bytes *b, const void *bytes, size_t n)
{
	uint8_t *to = reserve(b, n);

	if (!to || !n)
		return;
	memcpy(to, bytes, n);
	b->len += n;
}

void log_put_string(struct log_bytes *b, const char *text)
{
	size_t n = text ? strlen(text) : 0;

	log_put_number(b, text ? n + 1 : 0);
	if (text)
		log_put_bytes(b, text, n + 1);
}

uint64_t log_take_number(struct log_input *in, uint64_t most)
{
	struct leb leb = { in->at, in->end, in->wrong };
	uint64_t n = in->wrong ? 0 : leb_get(&leb);

	in->at = leb.at;
	in->wrong = leb.bad || n > most;
	return in->wrong ? 0 : n;
}

int64_t log_take_signed(struct log_input *in)
{
	return leb_unzigzag(log_take_number(in, UINT64_MAX));
}

static const uint8_t *take_raw(struct log_input *in, size_t n)
{
	const uint8_t *at = in->at;

	if (in->wrong || (size_t)(in->end - at) < n) {
		in->wrong = true;
		return NULL;
	}
	in->at += n;
	return at;
}

const char *log_take_string(struct log_input *in)
{
	uint64_t n = log_take_number(in, (uint64_t)(in->end - in->at));
	const char *text = n ? (const char *)take_raw(in, n) : NULL;

	if (text && memchr(text, '\0', n) != text + n - 1) {
		in->wrong = true;
		return NULL;
	}
	return text;
}

static int whole(const struct log_input *in)
{
	return in->wrong || in->at != in->end ? -EINVAL : 0;
}

/* ---- RUN, PROCESS -------------------------------------------------------- */

void log_put_run(struct log_bytes *b, const struct log_run *run)
{
	log_put_number(b, run->counted);
	log_put_number(b, run->sample);
	log_put_number(b, run->depth);
	log_put_string(b, run->version);
	log_put_string(b, run->command_line);
}

int log_take_run(struct log_input *in, struct log_run *run)
{
	run->counted =
		(unsigned)log_take_number(in, LEDGER_COUNT_HEAP | LEDGER_COUNT_MMAP | COUNT_IMAGE);
	run->sample = log_take_number(in, INT64_MAX);
	run->depth = (uint32_t)log_take_number(in, UINT32_MAX);
	run->version = log_take_string(in);
	run->command_line = log_take_string(in);
	return whole(in);
}

void log_put_process(struct log_bytes *b, const struct log_process *p)
{
	log_put_number(b, (uint64_t)p->pid);
	log_put_number(b, (uint64_t)p->ppid);
	log_put_number(b, p->state);
	log_put_signed(b, p->wait_status);
	log_put_number(b, p->began_ms);
	log_put_number(b, p->ended_ms);
	log_put_number(b, p->sample);
	log_put_number(b, p->image_bytes);
	log_put_number(b, p->threads);
	log_put_number(b, p->preattach.state);
	log_put_number(b, p->preattach.bytes);
	log_put_number(b, p->preattach.blocks);
	log_put_string(b, p->preattach.why);
	log_put_string(b, p->command);
	log_put_string(b, p->exe);
	log_put_string(b, p->unsupervised);
}

int log_take_process(struct log_input *in, struct log_process *p)
{
	const char *why;
	int64_t status;

	p->pid = (pid_t)log_take_number(in, INT32_MAX);
	p->ppid = (pid_t)log_take_number(in, INT32_MAX);
	p->state = (unsigned)log_take_number(in, PROCESS_DETACHED);
	status = log_take_signed(in);
	in->wrong |= status < INT32_MIN || status > INT32_MAX;
	p->wait_status = (int)status;
	p->began_ms = log_take_number(in, SEGMENT_MS_MOST);
	p->ended_ms = log_take_number(in, SEGMENT_MS_MOST);
	p->sample = log_take_number(in, INT64_MAX);
	p->image_bytes = log_take_number(in, INT64_MAX);
	p->threads = (unsigned)log_take_number(in, UINT32_MAX);
	p->preattach.state = (enum preattach_state)log_take_number(in, PREATTACH_UNKNOWN);
	p->preattach.bytes = log_take_number(in, INT64_MAX);
	p->preattach.blocks = log_take_number(in, INT64_MAX);
	why = log_take_string(in);
	strncpy(p->preattach.why, why ? why : "", sizeof(p->preattach.why) - 1);
	p->preattach.why[sizeof(p->preattach.why) - 1] = '\0';
	p->command = log_take_string(in);
	p->exe = log_take_string(in);
	p->unsupervised = log_take_string(in);
	return whole(in);
}

/* ---- MODULES ------------------------------------------------------------- */

void log_put_modules(struct log_bytes *b, const struct modules *modules)
{
	for (size_t i = 0; i < modules->count; i++) {
		const struct module *m = modules->module[i];

		log_put_string(b, m->path);
		log_put_number(b, m->start);
		log_put_number(b, m->end);
		log_put_number(b, m->text_start);
		log_put_number(b, m->text_end);
		log_put_number(b, m->bias);
		log_put_number(b, m->roles);
		log_put_number(b, m->born);
		log_put_number(b, m->dead);
		log_put_number(b, m->build_id_len);
		log_put_bytes(b, m->build_id, m->build_id_len);
	}
}

static void take_module(struct log_input *in, struct module *m)
{
	const uint8_t *build_id;

	*m = (struct module){ .path = (char *)log_take_string(in) };
	m->start = log_take_number(in, UINT64_MAX);
	m->end = log_take_number(in, UINT64_MAX);
	m->text_start = log_take_number(in, UINT64_MAX);
	m->text_end = log_take_number(in, UINT64_MAX);
	m->bias = log_take_number(in, UINT64_MAX);
	m->roles = (unsigned)log_take_number(in, UINT32_MAX);
	m->born = (uint32_t)log_take_number(in, UINT32_MAX);
	m->dead = (uint32_t)log_take_number(in, UINT32_MAX);
	m->build_id_len = (unsigned)log_take_number(in, sizeof(m->build_id));
	build_id = take_raw(in, m->build_id_len);
	if (build_id)
		memcpy(m->build_id, build_id, m->build_id_len);
	in->wrong |= !m->path;
}

int log_take_modules(struct log_input *in, struct modules *modules)
{
	int err = 0;

	while (!err && in->at < in->end) {
		struct module m;

		take_module(in, &m);
		err = in->wrong ? -EINVAL : modules_add(modules, &m);
	}
	modules_sort(modules);
	if (err)
		modules_release(modules);
	return err;
}

/* ---- NODES --------------------------------------------------------------- */

/* WIRE_PC_EXACT is near the top: it goes to the bottom, so that numbers stay short. */
static uint64_t pc_told(uint64_t pc) { return pc << 2 | pc >> 62; }
static uint64_t pc_taken(uint64_t told) { return told >> 2 | told << 62; }

void log_put_node(struct log_bytes *b, const struct log_node *node)
{
	log_put_number(b, node->id);
	log_put_number(b, node->parent ? node->id - node->parent : 0);
	log_put_number(b, pc_told(node->pc));
}

int log_take_nodes(struct log_input *in, int (*fn)(void *ctx, const struct log_node *node),
		   void *ctx)
{
	int err = 0;

	while (!err && in->at < in->end) {
		struct log_node node = { .id = (uint32_t)log_take_number(in, UINT32_MAX) };
		uint32_t back = (uint32_t)log_take_number(in, UINT32_MAX);

		node.pc = pc_taken(log_take_number(in, UINT64_MAX));
		if (in->wrong || !node.id || back >= node.id)
			return -EINVAL;
		node.parent = back ? node.id - back : 0;
		err = fn(ctx, &node);
	}
	return err;
}

/* ---- SYMBOLS ------------------------------------------------------------- */

#define SKIP_TOLD (SKIP_ALLOCATOR | SKIP_NAMESPACE | SKIP_LIBRARY)

void log_put_symbol(struct log_bytes *b, const struct log_symbol *symbol)
{
	log_put_number(b, symbol->module);
	log_put_number(b, pc_told(symbol->pc));
	log_put_number(b, symbol->frames.count);
	for (size_t i = 0; i < symbol->frames.count; i++) {
		const struct symbol_frame *f = &symbol->frames.frame[i];

		log_put_string(b, f->function);
		log_put_string(b, f->file);
		log_put_number(b, f->line);
		log_put_number(b, f->column);
		log_put_string(b, f->module);
		log_put_number(b, f->address);
		log_put_number(b, (f->skip & SKIP_TOLD) << 1 | f->inlined);
	}
}

static void take_frame(struct log_input *in, struct symbol_frame *f)
{
	uint64_t flags;

	f->function = log_take_string(in);
	f->file = log_take_string(in);
	f->line = (unsigned)log_take_number(in, UINT32_MAX);
	f->column = (unsigned)log_take_number(in, UINT32_MAX);
	f->module = log_take_string(in);
	f->address = log_take_number(in, UINT64_MAX);
	flags = log_take_number(in, SKIP_TOLD << 1 | 1);
	f->skip = (unsigned)flags >> 1;
	f->inlined = flags & 1;
	in->wrong |= !f->function;
}

int log_take_symbols(struct log_input *in, int (*fn)(void *ctx, const struct log_symbol *symbol),
		     void *ctx)
{
	struct symbol_frame frame[LOG_SYMBOL_FRAMES];
	int err = 0;

	while (!err && in->at < in->end) {
		struct log_symbol symbol = { .module = (uint32_t)log_take_number(in, UINT32_MAX) };

		symbol.pc = pc_taken(log_take_number(in, UINT64_MAX));
		symbol.frames =
			(struct symbol_frames){ log_take_number(in, LOG_SYMBOL_FRAMES), frame };
		for (size_t i = 0; i < symbol.frames.count && !in->wrong; i++)
			take_frame(in, &frame[i]);
		err = in->wrong || !symbol.frames.count ? -EINVAL : fn(ctx, &symbol);
	}
	return err;
}

/* ---- MARKS --------------------------------------------------------------- */

void log_put_mark(struct log_bytes *b, const struct log_mark *mark)
{
	log_put_number(b, mark->number);
	log_put_number(b, mark->ms);
	log_put_string(b, mark->label);
}

int log_take_marks(struct log_input *in, int (*fn)(void *ctx, const struct log_mark *mark),
		   void *ctx)
{
	int err = 0;

	while (!err && in->at < in->end) {
		struct log_mark mark = { .number = log_take_number(in, UINT64_MAX) };

		mark.ms = log_take_number(in, SEGMENT_MS_MOST);
		mark.label = log_take_string(in);
		err = in->wrong || !mark.label || strlen(mark.label) >= MARKS_LABEL
			      ? -EINVAL
			      : fn(ctx, &mark);
	}
	return err;
}

/* ---- INDEX --------------------------------------------------------------- */

int log_index_entry(struct log_index *index, const struct log_entry *entry)
{
	if (array_room(&index->entry, index->entries, &index->entry_room, sizeof(*entry)))
		return -ENOMEM;
	index->entry[index->entries++] = *entry;
	return 0;
}

/* Where PROCESS is in the row of points, or belongs. */
static size_t place_of(const struct log_index *index, uint32_t process)
{
	return SEARCH(i, index->processes, index->points[i].process < process);
}

const struct log_points *log_index_points(const struct log_index *index, uint32_t process)
{
	size_t at = place_of(index, process);

	return at < index->processes && index->points[at].process == process ? &index->points[at]
									     : NULL;
}

int log_index_point(struct log_index *index, uint32_t process, const struct log_point *point)
{
	size_t at = place_of(index, process);
	struct log_points *p;

	if (at == index->processes || index->points[at].process != process) {
		p = reallocarray(index->points, index->processes + 1, sizeof(*p));
		if (!p)
			return -ENOMEM;
		index->points = p;
		memmove(p + at + 1, p + at, (index->processes++ - at) * sizeof(*p));
		p[at] = (struct log_points){ .process = process };
	}
	p = &index->points[at];
	if (p->count && p->point[p->count - 1].interval >= point->interval) {
		p->point[p->count - 1] = *point;
		return 0;
	}
	if (array_room(&p->point, p->count, &p->room, sizeof(*point)))
		return -ENOMEM;
	p->point[p->count++] = *point;
	return 0;
}

void log_index_release(struct log_index *index)
{
	for (size_t i = 0; i < index->processes; i++)
		free(index->points[i].point);
	free(index->points);
	free(index->entry);
	*index = (struct log_index){ 0 };
}

void log_put_index(struct log_bytes *b, const struct log_index *index)
{
	struct log_entry before = { 0 };

	log_put_number(b, index->entries);
	for (size_t i = 0; i < index->entries; i++) {
		const struct log_entry *e = &index->entry[i];

		log_put_number(b, e->offset - before.offset);
		log_put_number(b, e->type);
		log_put_number(b, e->flags);
		log_put_number(b, e->process);
		log_put_signed(b, (int64_t)(e->first_ms - before.last_ms));
		log_put_signed(b, (int64_t)(e->last_ms - e->first_ms));
		log_put_number(b, e->events);
		before = *e;
	}
	log_put_number(b, index->processes);
	for (size_t i = 0; i < index->processes; i++) {
		const struct log_points *points = &index->points[i];
		struct log_point last = { 0 };

		log_put_number(b, points->process);
		log_put_number(b, points->count);
		for (size_t j = 0; j < points->count; j++) {
			const struct log_point *p = &points->point[j];

			log_put_number(b, p->interval - last.interval);
			log_put_signed(b, (int64_t)(p->bytes - last.bytes));
			log_put_signed(b, (int64_t)(p->ms - last.ms));
			last = *p;
		}
	}
}

/* bytes: a number for each of what it says takes one at least */
#define ENTRY_LEAST 7u

/* There is as much room as it takes: of many files the entries stay in memory. */
static int take_entries(struct log_input *in, struct log_index *index)
{
	uint64_t count = log_take_number(in, (uint64_t)(in->end - in->at) / ENTRY_LEAST);
	struct log_entry before = { 0 };

	if (in->wrong)
		return -EINVAL;
	index->entry = reallocarray(NULL, count + 1, sizeof(*index->entry));
	if (!index->entry)
		return -ENOMEM;
	index->entry_room = count + 1;
	for (uint64_t i = 0; i < count; i++) {
		struct log_entry e = { .offset = before.offset + log_take_number(in, INT64_MAX) };

		e.type = (uint16_t)log_take_number(in, UINT16_MAX);
		e.flags = (uint16_t)log_take_number(in, UINT16_MAX);
		e.process = (uint32_t)log_take_number(in, UINT32_MAX);
		e.first_ms = before.last_ms + (uint64_t)log_take_signed(in);
		e.last_ms = e.first_ms + (uint64_t)log_take_signed(in);
		e.events = log_take_number(in, UINT64_MAX);
		if (in->wrong || e.offset <= before.offset || e.offset > INT64_MAX ||
		    e.first_ms > SEGMENT_MS_MOST || e.last_ms > SEGMENT_MS_MOST)
			return -EINVAL;
		if (log_index_entry(index, &e))
			return -ENOMEM;
		before = e;
	}
	return 0;
}

static int take_points(struct log_input *in, struct log_index *index)
{
	uint64_t process = log_take_number(in, UINT32_MAX),
		 count = log_take_number(in, (uint64_t)(in->end - in->at));
	struct log_point p = { 0 };

	if (index->processes && process <= index->points[index->processes - 1].process)
		return -EINVAL;
	for (uint64_t i = 0; i < count; i++) {
		uint64_t step = log_take_number(in, SEGMENT_MS_MOST);

		p.interval += step;
		p.bytes += (uint64_t)log_take_signed(in);
		p.ms += (uint64_t)log_take_signed(in);
		if (in->wrong || (i && !step) || p.interval > SEGMENT_MS_MOST ||
		    p.ms > SEGMENT_MS_MOST)
			return -EINVAL;
		if (log_index_point(index, (uint32_t)process, &p))
			return -ENOMEM;
	}
	return 0;
}

int log_take_index(struct log_input *in, struct log_index *index)
{
	int err = take_entries(in, index);
	uint64_t processes = err ? 0 : log_take_number(in, (uint64_t)(in->end - in->at));

	for (uint64_t i = 0; i < processes && !err; i++)
		err = take_points(in, index);
	err = err ? err : whole(in);
	if (err)
		log_index_release(index);
	return err;
}
