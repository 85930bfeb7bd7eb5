// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/array.h"
#include "base/escape.h"
#include "base/intern.h"
#include "export/export.h"
#include "supervisor/export/profile.pb-c.h" /* made from profile.proto */
#include "symbols/module.h"

/*
 * profile.proto, gzipped, as pprof, speedscope, Perfetto, Parca, Pyroscope and Grafana read it.
 *
 * A message's fields may come in any order and in pieces: bytes of two Profiles one after the other
 * are one Profile with the fields of both. So the whole is never in memory: each sample goes out as
 * a Profile of its own, and what they refer to (locations, functions, mappings, strings) follows.
 *
 * Addresses are within the call, and mappings say that they are symbolized: readers need no file of
 * the program's.
 */
#define PIECE 65536u

typedef Perftools__Profiles__Profile Profile;
typedef Perftools__Profiles__Sample Sample;
typedef Perftools__Profiles__Mapping Mapping;
typedef Perftools__Profiles__Location Location;
typedef Perftools__Profiles__Line Line;
typedef Perftools__Profiles__Function Function;
typedef Perftools__Profiles__ValueType ValueType;

struct writer {
	ProtobufCBuffer base; /* first: what pack_to_buffer() is given */
	FILE *out;
	const struct export *e;
	z_stream z;
	bool failed;
	size_t waiting;		  /* bytes of `raw` that are to be compressed */
	unsigned char raw[PIECE]; /* fields come in some bytes each, which are too few for a call */
	unsigned char piece[PIECE];
	struct intern strings; /* number 1 is "", 0 in the file */
	struct intern functions;
	struct intern locations; /* by frames */
	struct intern mappings;	 /* by module */
	/* of each number, the last being room */
	struct {
		raddr_t address;
		uint32_t mapping, lines;
	} * location;
	size_t room;
};

/* ---- bytes --------------------------------------------------------------- */

static void compress_some(struct writer *w, int flush)
{
	int err;

	w->z.next_in = w->raw;
	w->z.avail_in = (uInt)w->waiting;
	w->waiting = 0;
	do {
		w->z.next_out = w->piece;
		w->z.avail_out = PIECE;
		err = deflate(&w->z, flush);
		w->failed |= err == Z_STREAM_ERROR;
		fwrite_unlocked(w->piece, 1, PIECE - w->z.avail_out, w->out);
	} while (w->z.avail_out == 0);
}

static void append(ProtobufCBuffer *buffer, size_t len, const uint8_t *data)
{
	struct writer *w = (struct writer *)buffer;

	while (len) {
		size_t n = len < PIECE - w->waiting ? len : PIECE - w->waiting;

		memcpy(w->raw + w->waiting, data, n);
		w->waiting += n;
		data += n;
		len -= n;
		if (w->waiting == PIECE)
			compress_some(w, Z_NO_FLUSH);
	}
}

static void put(struct writer *w, const Profile *p)
{
	protobuf_c_message_pack_to_buffer(&p->base, &w->base);
}

/* ---- what samples refer to ----------------------------------------------- */

/* A text's place in the string table. */
static int64_t string(struct writer *w, const char *text)
{
	uint32_t n = intern(&w->strings, text ? text : "");

	w->failed |= n == 0;
	return n ? n - 1 : 0;
}

static uint32_t mapping(struct writer *w, const struct export_location *l, raddr_t address)
{
	const struct module *m =
		w->e->modules && address ? modules_find(w->e->modules, address, l->node) : NULL;
	uint32_t n = m ? intern(&w->mappings, m) : 0;

	w->failed |= m && !n;
	return n;
}

/* The number of location L, 0: out of memory. */
static uint32_t location(struct writer *w, const struct export_location *l)
{
	size_t before = w->locations.count;
	uint32_t n = intern(&w->locations, l->frames.frame);

	if (n == 0 || n <= before)
		return n;
	if (array_room(&w->location, n - 1, &w->room, sizeof(*w->location)))
		return 0;
	w->location[n - 1].address = export_address(w->e, l);
	w->location[n - 1].mapping = mapping(w, l, w->location[n - 1].address);
	w->location[n - 1].lines = (uint32_t)l->frames.count;
	return n;
}

/* ---- the parts ----------------------------------------------------------- */

static const char *const type_names[] = { "alloc_objects", "alloc_space", "inuse_objects",
					  "inuse_space" };
static const char *const type_units[] = { "count", "bytes", "count", "bytes" };

static void put_head(struct writer *w)
{
	const struct export *e = w->e;
	size_t first = e->view->has_totals ? 0 : 2;
	ValueType type[4], *types[4], period = PERFTOOLS__PROFILES__VALUE_TYPE__INIT;
	int64_t comment[2] = { string(w, e->moment), string(w, e->command_line) };
	Profile p = PERFTOOLS__PROFILES__PROFILE__INIT;

	for (size_t i = first; i < 4; i++) {
		perftools__profiles__value_type__init(&type[i]);
		type[i].type = string(w, type_names[i]);
		type[i].unit = string(w, type_units[i]);
		types[i] = &type[i];
	}
	period.type = string(w, "space");
	period.unit = string(w, "bytes");
	p.n_sample_type = 4 - first;
	p.sample_type = types + first;
	p.default_sample_type = string(w, type_names[e->total ? 1 : 3]);
	p.period_type = &period;
	p.period = e->sample ? (int64_t)e->sample : 1;
	p.time_nanos = (int64_t)((e->began + e->view->ms) * 1000000);
	p.duration_nanos = (int64_t)((e->view->ms -
				      (e->view->is_difference ? e->view->since_ms : e->began_ms)) *
				     1000000);
	p.n_comment = 2;
	p.comment = comment;
	put(w, &p);
}

static int put_sample(struct writer *w, const struct view_row *r, const struct export_stack *stack,
		      uint64_t *ids)
{
	int64_t value[4] = { (int64_t)r->total_count, (int64_t)r->total_size, r->count, r->size };
	size_t first = w->e->view->has_totals ? 0 : 2;
	Profile p = PERFTOOLS__PROFILES__PROFILE__INIT;
	Sample s = PERFTOOLS__PROFILES__SAMPLE__INIT, *samples = &s;

	for (size_t i = 0; i < stack->count; i++) {
		ids[i] = location(w, &stack->location[i]);
		if (!ids[i])
			return -ENOMEM;
	}
	s.n_location_id = stack->count;
	s.location_id = ids;
	s.n_value = 4 - first;
	s.value = value + first;
	p.n_sample = 1;
	p.sample = &samples;
	put(w, &p);
	return 0;
}

static int put_samples(struct writer *w)
{
	struct export_stack stack = { 0 };
	uint64_t *ids = NULL;
	size_t room = 0;
	int err = 0;

	for (size_t i = 0; i < w->e->view->count && !err && !ferror(w->out); i++) {
		err = export_rest(w->e);
		if (!err)
			err = export_stack(w->e, &w->e->view->row[i], &stack);
		if (!err && stack.room > room) {
			uint64_t *more = reallocarray(ids, stack.room, sizeof(*ids));

			err = more ? 0 : -ENOMEM;
			ids = more ? more : ids;
			room = more ? stack.room : room;
		}
		if (!err)
			err = put_sample(w, &w->e->view->row[i], &stack, ids);
	}
	free(ids);
	export_stack_release(&stack);
	return err;
}

/* A function is a name in a file: its key is both their places in the string table. */
static uint32_t function(struct writer *w, const struct symbol_frame *f)
{
	uint64_t key = (uint64_t)string(w, export_name(f)) << 32 | (uint64_t)string(w, f->file);
	uint32_t n = intern(&w->functions, (const void *)(uintptr_t)key);

	w->failed |= n == 0;
	return n;
}

static int put_locations(struct writer *w)
{
	int err = 0;

	for (size_t i = 0; i < w->locations.count && !err && !ferror(w->out); i++) {
		const struct symbol_frame *f = w->locations.key[i];
		size_t lines = w->location[i].lines;
		Profile p = PERFTOOLS__PROFILES__PROFILE__INIT;
		Location l = PERFTOOLS__PROFILES__LOCATION__INIT, *locations = &l;
		Line *line = calloc(lines, sizeof(*line)), **list = calloc(lines, sizeof(*list));

		for (size_t k = 0; line && list && k < lines; k++) {
			perftools__profiles__line__init(&line[k]);
			line[k].function_id = function(w, &f[k]);
			line[k].line = f[k].line;
			line[k].column = f[k].column;
			list[k] = &line[k];
		}
		l.id = i + 1;
		l.mapping_id = w->location[i].mapping;
		l.address = w->location[i].address;
		l.n_line = lines;
		l.line = list;
		p.n_location = 1;
		p.location = &locations;
		err = line && list ? export_rest(w->e) : -ENOMEM;
		if (!err)
			put(w, &p);
		free(line);
		free(list);
	}
	return err;
}

static void put_functions(struct writer *w)
{
	for (size_t i = 0; i < w->functions.count && !ferror(w->out); i++) {
		uint64_t key = (uintptr_t)w->functions.key[i];
		Profile p = PERFTOOLS__PROFILES__PROFILE__INIT;
		Function function = PERFTOOLS__PROFILES__FUNCTION__INIT, *functions = &function;

		function.id = i + 1;
		function.name = function.system_name = (int64_t)(key >> 32);
		function.filename = (int64_t)(key & UINT32_MAX);
		p.n_function = 1;
		p.function = &functions;
		put(w, &p);
	}
}

static void put_mapping(struct writer *w, uint32_t id, const struct module *m, char build_id[80])
{
	Profile p = PERFTOOLS__PROFILES__PROFILE__INIT;
	Mapping mapping = PERFTOOLS__PROFILES__MAPPING__INIT, *mappings = &mapping;

	build_id[0] = '\0';
	for (unsigned i = 0; i < m->build_id_len && i < sizeof(m->build_id); i++)
		snprintf(build_id + 2 * i, 3, "%02x", m->build_id[i]);
	mapping.id = id;
	mapping.memory_start = m->start;
	mapping.memory_limit = m->end;
	mapping.filename = string(w, m->path);
	mapping.build_id = string(w, build_id);
	mapping.has_functions = mapping.has_filenames = mapping.has_line_numbers =
		mapping.has_inline_frames = true;
	p.n_mapping = 1;
	p.mapping = &mappings;
	put(w, &p);
}

/* *BUILD_IDS: their texts, for as long as the strings are needed. */
static int put_mappings(struct writer *w, char (**build_ids)[80])
{
	*build_ids = calloc(w->mappings.count + 1, sizeof(**build_ids));
	if (!*build_ids)
		return -ENOMEM;
	for (size_t i = 0; i < w->mappings.count; i++)
		put_mapping(w, (uint32_t)i + 1, w->mappings.key[i], (*build_ids)[i]);
	return 0;
}

static int put_strings(struct writer *w)
{
	for (size_t i = 0; i < w->strings.count && !ferror(w->out); i++) {
		/* which is UTF-8, as protobuf wants it */
		char *copy = escape_copy(w->strings.key[i]);
		Profile p = PERFTOOLS__PROFILES__PROFILE__INIT;

		if (!copy)
			return -ENOMEM;
		p.n_string_table = 1;
		p.string_table = &copy;
		put(w, &p);
		free(copy);
	}
	return 0;
}

/* Readers take the first mapping for the program's own. */
static void program_first(struct writer *w)
{
	const struct modules *all = w->e->modules;

	for (size_t i = 0; all && i < all->count && !w->mappings.count; i++)
		if (all->module[i]->roles & MODULE_EXE)
			w->failed |= !intern(&w->mappings, all->module[i]);
}

static int put_all(struct writer *w, char (**build_ids)[80])
{
	int err;

	string(w, "");
	program_first(w);
	put_head(w);
	err = put_samples(w);
	if (!err)
		err = put_locations(w);
	if (!err)
		err = put_mappings(w, build_ids);
	if (!err) {
		put_functions(w);
		err = put_strings(w);
	}
	return err;
}

int export_pprof(FILE *out, const struct export *e)
{
	struct writer *w = calloc(1, sizeof(*w));
	char(*build_ids)[80] = NULL;
	int err;

	if (!w)
		return -ENOMEM;
	*w = (struct writer){ .base = { append }, .out = out, .e = e, .strings.texts = true };
	/* + 16: gzip */
	if (deflateInit2(&w->z, e->quick ? Z_BEST_SPEED : Z_DEFAULT_COMPRESSION, Z_DEFLATED,
			 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
		free(w);
		return -ENOMEM;
	}
	err = put_all(w, &build_ids);
	if (!err)
		compress_some(w, Z_FINISH);
	if (!err && w->failed)
		err = -ENOMEM;
	deflateEnd(&w->z);
	intern_release(&w->strings);
	intern_release(&w->functions);
	intern_release(&w->locations);
	intern_release(&w->mappings);
	free(w->location);
	free(build_ids);
	free(w);
	return err;
}
