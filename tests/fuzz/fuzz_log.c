// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * fuzz_log.c - log files with whatever in their blocks, behind checks that are right: what opens is
 * asked all that commands ask.
 *
 * The input is a recipe: a byte (HAVE_*), a byte that says how many bytes are cut off at the end,
 * then the blocks: a byte with type and flags, one with the process, the length in two bytes, and
 * what is in it, unpacked. Type 15 begins the next file.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "log/event_decode.h"
#include "log/reader.h"
#include "log/replay.h"
#include "process/profile_make.h"
#include "report/print.h"
#include "report/sites.h"
#include "report/view.h"
#include "symbols/module.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* one that tells what is there; else those of the recipe, with a trailer */
#define HAVE_INDEX 1u
#define HAVE_END   2u /* not even those */
#define HAVE_CHECK 4u /* all is read and compared, too */
#define NEXT_FILE  15u
#define FILES	   3u
#define ROOM	   (1u << 20) /* of a file */
/* what a zstd frame needs around bytes that are not packed */
#define FRAME	   12u
#define FRAME_MOST 65535u

struct file {
	int fd;
	size_t len;
	struct log_index index;
	uint64_t first_index; /* offset; 0: none */
	uint8_t data[ROOM];
};
static struct file file[FILES];
static FILE *out;

/* ---- files --------------------------------------------------------------- */

static void put(struct file *f, const void *bytes, size_t n)
{
	memcpy(f->data + f->len, bytes, n);
	f->len += n;
}

static void begin(struct file *f, uint32_t number)
{
	struct segment_header h = { .version = SEGMENT_VERSION,
				    .set = 0x1234,
				    .number = number,
				    .clock_ms = 1795273445123,
				    .began_ms = number * 1000 };

	f->len = 0;
	f->first_index = 0;
	segment_header_seal(&h);
	put(f, &h, sizeof(h));
}

/*
 * A frame of one block that is not packed (RFC 8878): it is as whole as any other and takes no
 * time.
 */
static size_t frame(uint8_t *to, const uint8_t *raw, size_t len)
{
	const uint8_t head[FRAME] = { 0x28,
				      0xb5,
				      0x2f,
				      0xfd,
				      0xa0,
				      (uint8_t)len,
				      (uint8_t)(len >> 8),
				      0,
				      0,
				      (uint8_t)(len << 3 | 1),
				      (uint8_t)(len >> 5),
				      (uint8_t)(len >> 13) };

	memcpy(to, head, FRAME);
	memcpy(to + FRAME, raw, len);
	return FRAME + len;
}

static void tell_index(struct file *f, const struct log_block *b)
{
	struct log_block copy = *b;
	struct log_entry e = {
		.offset = f->len, .type = b->type, .flags = b->flags, .process = b->process
	};

	if ((b->type == SEGMENT_EVENTS || b->type == SEGMENT_STATE) &&
	    log_decode_head(&copy) == 0) {
		e.first_ms = copy.first_ms;
		e.last_ms = copy.last_ms;
		e.events = copy.events;
		if (log_index_point(&f->index, b->process,
				    &(struct log_point){ e.first_ms / 100, e.events, e.first_ms }))
			abort();
	}
	if (log_index_entry(&f->index, &e))
		abort();
}

static void put_block(struct file *f, const struct log_block *b)
{
	static uint8_t packed[FRAME + FRAME_MOST];
	size_t n = frame(packed, b->raw, b->len);
	struct segment_block head = { .type = (uint16_t)b->type,
				      .flags = (uint16_t)b->flags,
				      .process = b->process,
				      .packed = (uint32_t)n,
				      .raw = (uint32_t)b->len };

	if (b->type == SEGMENT_INDEX && !f->first_index)
		f->first_index = f->len;
	if (b->type != SEGMENT_INDEX)
		tell_index(f, b);
	segment_block_seal(&head, packed);
	put(f, &head, sizeof(head));
	put(f, packed, n);
}

static void end(struct file *f, unsigned have, size_t cut)
{
	struct segment_trailer t;
	struct log_bytes bytes = { 0 };

	if (have & HAVE_INDEX) {
		log_put_index(&bytes, &f->index);
		f->first_index = f->len;
		put_block(f, &(struct log_block){ .type = SEGMENT_INDEX,
						  .raw = bytes.data,
						  .len = bytes.len < FRAME_MOST ? bytes.len
										: FRAME_MOST });
		log_bytes_release(&bytes);
	}
	if (!(have & HAVE_END)) {
		segment_trailer_make(&t, f->first_index);
		put(f, &t, sizeof(t));
	}
	log_index_release(&f->index);
	f->len -= cut < f->len ? cut : f->len;
	if (ftruncate(f->fd, 0) || pwrite(f->fd, f->data, f->len, 0) != (ssize_t)f->len)
		abort();
}

/* How many files DATA makes. */
static size_t make(const uint8_t *data, size_t size)
{
	unsigned have = data[0];
	size_t cut = data[1], n = 0;

	begin(&file[n], 1);
	for (data += 2, size -= 2; size >= 4;) {
		size_t len = data[2] | (size_t)data[3] << 8;
		struct log_block b = { .type = data[0] & 15,
				       .flags = data[0] >> 4,
				       .process = data[1],
				       .raw = data + 4 };

		b.len = len < size - 4 ? len : size - 4;
		data += 4 + b.len;
		size -= 4 + b.len;
		if (b.type == NEXT_FILE && n + 1 < FILES) {
			end(&file[n], have, 0);
			n++;
			begin(&file[n], (uint32_t)n + 1);
		} else if (file[n].len + b.len + 65536 + 1024 < ROOM) {
			put_block(&file[n], &b);
		}
	}
	end(&file[n], have, cut);
	return n + 1;
}

/* ---- questions ----------------------------------------------------------- */

struct source {
	struct replay_process *process;
	struct modules modules;
	struct sites *sites;
};

static uint32_t parent(void *ctx, uint32_t node, uint64_t *pc)
{
	return replay_parent(((struct source *)ctx)->process, node, pc);
}

static struct symbol_frames frames(void *ctx, uint32_t node, uint64_t pc)
{
	static const struct symbol_frame none = { .function = "?" };
	struct source *s = ctx;
	struct symbol_frames f;

	return replay_frames(s->process, &s->modules, node, pc, &f)
		       ? f
		       : (struct symbol_frames){ 1, &none };
}

static void show(struct source *s, struct profile *p)
{
	struct view_options options = { .limit = 10 };
	struct view view;
	struct tree tree;

	for (options.key = 0; options.key <= VIEW_MODULE; options.key++)
		if (view_make(&view, p, s->sites, &options) == 0) {
			print_report(out, &view, s->sites, true, NULL);
			print_report_json(out, &view, s->sites, true);
			view_release(&view);
		}
	if (tree_make(&tree, p, s->sites, false, 1000000) == 0) {
		print_tree_json(out, &tree);
		tree_release(&tree);
	}
}

static void ask_moment(struct source *s, const struct ledger *l, uint64_t ms)
{
	const struct profile_ask ask_past = { .detail = PROFILE_PAST,
					      .counted = LEDGER_COUNT_HEAP | LEDGER_COUNT_MMAP,
					      .at_ms = ms,
					      .now_ms = ms };
	struct profile p = { 0 };

	if (profile_from_ledger(&p, l, &ask_past) == 0) {
		show(s, &p);
		profile_release(&p);
	}
}

static void ask_timeline(const struct ledger *l, uint64_t from, uint64_t to)
{
	struct ledger_interval i;

	for (unsigned n = 0; n < 100 && from < to; n++) {
		ledger_interval(l, from, &i);
		if (i.from_ms > from || i.to_ms <= from)
			abort();
		from = i.to_ms;
	}
}

static void ask(struct replay_process *p)
{
	struct source s = { .process = p };
	const struct sites_source source = { .parent = parent, .frames = frames, .ctx = &s };
	const struct log_process *facts = replay_facts(p);
	struct ledger *l = replay_ledger(p);
	struct ledger_totals totals;
	struct marks marks;
	const char *error;

	if (!l)
		return;
	if (replay_modules(p, &s.modules) || replay_marks(p, &marks))
		abort();
	s.sites = sites_new(&source);
	ledger_totals(l, &totals);
	ask_timeline(l, facts->began_ms, facts->ended_ms);
	ask_moment(&s, l, facts->ended_ms);
	ask_moment(&s, l, facts->began_ms);
	ask_moment(&s, l, totals.peak_ms);
	if (replay_site_skip(p, "a|b", &error))
		abort();
	ask_moment(&s, l, facts->began_ms + (facts->ended_ms - facts->began_ms) / 2);
	if (strlen(replay_trouble(p)) > 511)
		abort();
	sites_free(s.sites);
	modules_release(&s.modules);
	marks_release(&marks);
	ledger_free(l);
}

static void heard(void *ctx, const char *text)
{
	(void)ctx;
	if (!*text || strchr(text, '\n'))
		abort();
}

static bool go_on(void *ctx, uint64_t done, uint64_t all)
{
	(void)ctx;
	return done <= all + ROOM;
}

static void look(const struct log_set *set, unsigned have)
{
	const struct replay_watch watch = {
		.workers = 1, .trouble = heard, .file = heard, .progress = go_on
	};
	struct replay *r;
	uint64_t events;
	char why[512] = "";

	r = replay_open(set, &watch, why, sizeof(why));
	if (!r)
		return heard(NULL, why);
	for (size_t i = 0; i < replay_processes(r) && i < 4; i++)
		ask(replay_process(r, i));
	if (have & HAVE_CHECK && replay_check(r, &watch, &events) == -ENOMEM)
		abort();
	replay_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char name[FILES][32], *path[FILES], why[512];
	struct log_sets sets;
	size_t n;

	if (size < 2)
		return 0;
	if (!out) {
		out = fopen("/dev/null", "w");
		for (size_t i = 0; i < FILES; i++)
			file[i].fd = memfd_create("log", MFD_CLOEXEC);
	}
	n = make(data, size);
	for (size_t i = 0; i < n; i++) {
		snprintf(name[i], sizeof(name[i]), "/proc/self/fd/%d", file[i].fd);
		path[i] = name[i];
	}
	if (log_sets_find(&sets, path, n, heard, NULL, why, sizeof(why)))
		return 0;
	look(&sets.set[sets.count - 1], data[0]);
	log_sets_release(&sets);
	return 0;
}
