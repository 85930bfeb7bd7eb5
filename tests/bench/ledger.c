// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * ledger.c [EVENTS] [TRACE-FILE...] - what an event costs in the supervisor: from the ring through
 * the stream into the ledger, in ns, and what a live block costs in bytes of our memory, with both
 * layouts of the table; then what it costs beside that to log it (log/event_encode.h), in ns and
 * bytes, and to replay it. Traces are made up beforehand by a small allocator that reuses addresses
 * as glibc does; a trace file is 16-byte wire events as they were taken from the rings (time and
 * thread events left out, wide ones with their second slot).
 *
 * Processor time of the reader alone, medians of 5 runs; figures are in supervisor/blocks.h and
 * compact.h. Linked with the objects that mtrun is made of.
 */
#include "ledger/ledger.h"
#include "ledger/ledger_replay.h"
#include "log/event_decode.h"
#include "log/event_encode.h"
#include "transport/shared.h"
#include "transport/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zstd.h>

#include "../lib/small.h"
#include "../unit/pretended.h"

/* ---- an allocator: size classes of 16 bytes, last freed first used, else from the top ---- */

#define CLASSES 300
static uint64_t *free_list[CLASSES];
static size_t free_count[CLASSES], free_room[CLASSES];
static uint64_t top;

static size_t class_of(uint64_t size) { return size < 16 ? 1 : (size + 8 + 15) / 16 - 1; }

static uint64_t take(uint64_t size)
{
	size_t c = class_of(size);
	if (c < CLASSES && free_count[c])
		return free_list[c][--free_count[c]];
	uint64_t p = top;
	top += (c + 1) * 16;
	return p;
}

static void give(uint64_t p, uint64_t size)
{
	size_t c = class_of(size);
	if (c >= CLASSES)
		return;
	if (free_count[c] == free_room[c]) {
		free_room[c] = free_room[c] ? free_room[c] * 2 : 64;
		free_list[c] = realloc(free_list[c], free_room[c] * sizeof(uint64_t));
	}
	free_list[c][free_count[c]++] = p;
}

/* ---- traces -------------------------------------------------------------- */

static struct wire_event *trace;
static size_t events, room;
static uint32_t next_seq[WIRE_COUNTERS];
static uint64_t tickets;

static void put(struct wire_event e)
{
	if (events == room) {
		room = room ? room * 2 : 1 << 20;
		trace = realloc(trace, room * sizeof(*trace));
	}
	trace[events++] = e;
}

static void put_alloc(uint64_t p, uint64_t size, uint32_t stack)
{
	uint32_t c = wire_counter(p);
	put(wire_pack(size < WIRE_WIDE ? WIRE_ALLOC : WIRE_ALLOC_WIDE, p,
		      next_seq[c]++ & WIRE_SEQ_MASK, size < WIRE_WIDE ? (uint32_t)size : 0, stack));
	if (size >= WIRE_WIDE)
		put((struct wire_event){ size, tickets++ });
}

static void put_free(uint64_t p)
{
	uint32_t c = wire_counter(p);
	put(wire_pack(WIRE_FREE, p, next_seq[c]++ & WIRE_SEQ_MASK, 0, 0));
}

static void trace_begin(void)
{
	events = 0;
	tickets = 0;
	memset(next_seq, 0, sizeof(next_seq));
	memset(free_count, 0, sizeof(free_count));
	top = 0x555555560010;
}

static uint64_t some_size(unsigned most)
{
	uint64_t size = 16;
	while (size < most / 2 && rnd() % 2)
		size *= 2;
	return size + rnd() % size;
}

static void pairs(size_t n)
{
	for (size_t i = 0; i < n / 2; i++) {
		uint64_t size = 16 + i % 64, p = take(size);
		put_alloc(p, size, 1000);
		put_free(p);
		give(p, size);
	}
}

/* LIVE blocks, then N events: one of them, chosen at random, is freed and another one allocated. */
static size_t steady_from;
static void steady(size_t live, size_t n, unsigned most, uint32_t stacks)
{
	struct {
		uint64_t p, size;
	} *b = malloc(live * sizeof(*b));
	for (size_t i = 0; i < live; i++) {
		b[i].size = some_size(most);
		b[i].p = take(b[i].size);
		put_alloc(b[i].p, b[i].size, 1 + (uint32_t)(rnd() % stacks) * 5);
	}
	steady_from = events;
	for (size_t i = 0; i < n / 2; i++) {
		size_t k = rnd() % live;
		put_free(b[k].p);
		give(b[k].p, b[k].size);
		b[k].size = some_size(most);
		b[k].p = take(b[k].size);
		put_alloc(b[k].p, b[k].size, 1 + (uint32_t)(rnd() % stacks) * 5);
	}
	free(b);
}

/* Phases of a program: groups of 1..1000 blocks, the groups freed as a stack. */
static void phases(size_t n, uint32_t stacks)
{
	enum { DEPTH = 200 };
	static struct {
		uint64_t p, size;
	} * group[DEPTH];
	size_t count[DEPTH];
	int depth = 0;
	while (events < n || depth) {
		if (depth < DEPTH && events < n && rnd() % 100 < 52) {
			count[depth] = 1 + rnd() % 1000;
			group[depth] = malloc(count[depth] * sizeof(*group[0]));
			for (size_t i = 0; i < count[depth]; i++) {
				group[depth][i].size = some_size(1024);
				group[depth][i].p = take(group[depth][i].size);
				put_alloc(group[depth][i].p, group[depth][i].size,
					  1 + (uint32_t)(rnd() % 16 + depth * 16) % stacks * 5);
			}
			depth++;
		} else if (depth) {
			depth--;
			for (size_t i = 0; i < count[depth]; i++) {
				put_free(group[depth][i].p);
				give(group[depth][i].p, group[depth][i].size);
			}
			free(group[depth]);
		}
	}
}

static bool load(const char *file)
{
	FILE *f = fopen(file, "r");
	struct wire_event e;
	if (!f)
		return false;
	while (fread(&e, sizeof(e), 1, f) == 1)
		put(e);
	fclose(f);
	return true;
}

/* ---- the run ------------------------------------------------------------- */

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static bool not_own(void *ctx, uint32_t stack)
{
	(void)ctx;
	return stack != 0;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

/* What was logged. */
static struct log_block *block;
static size_t blocks, block_room;

static void take_block(void *ctx, const struct log_block *b)
{
	(void)ctx;
	if (blocks == block_room)
		block = realloc(block, (block_room = block_room * 2 + 64) * sizeof(*block));
	block[blocks] = *b;
	block[blocks++].raw = memcpy(malloc(b->len), b->raw, b->len);
}

static void take_node(void *ctx, uint32_t stack)
{
	(void)ctx;
	(void)stack;
}

static void blocks_drop(void)
{
	while (blocks)
		free((void *)block[--blocks].raw);
}

/*
 * The whole trace through one ring, in pieces of half a ring; only the reader's time is taken.
 * LOGGED: what follows FROM.
 */
static double once(size_t from, double *bytes, bool compact, bool logged)
{
	static const struct log_sink sink = { NULL, take_node, take_block, NULL };
	struct log_encoder *e = NULL;
	struct wire_process *w = target_new();
	struct ledger *l = ledger_new(LEDGER_COUNT_HEAP | LEDGER_COUNT_MMAP);
	struct shared shared = target_shared(w);
	struct stream *s = ledger_compact(l, compact) ? NULL
						      : stream_new(&shared, l, not_own, NULL);
	struct wire_thread *t = &w->thread[0];
	double ns = 0, fill = 0;
	w->threads_high = 1;
	target_big(w, 0);
	for (size_t i = 0; i < events;) {
		size_t n = events - i < WIRE_RING / 2 ? events - i : WIRE_RING / 2;
		if (i < from && i + n > from)
			n = from - i;
		if (i >= from && logged && !e)
			log_encoder_flush(e = log_encoder_new(l, &sink));
		size_t j = 0;
		for (; j < n; j++) {
			*target_event(w, 0, t->head + j) = trace[i + j];
			if (!wire_is_wide(wire_kind(trace[i + j])))
				continue;
			j++;
			*target_event(w, 0, t->head + j) = trace[i + j];
		}
		n = j;
		t->head += n;
		/* 4 M events a second */
		*target_event(w, 0, t->head++) =
			(struct wire_event){ wire_pack(WIRE_TIME, 0, 0, 0, 0).a, i / 4096 };
		double at = now();
		stream_take(s, i / 4096, SIZE_MAX);
		at = now() - at;
		*(i < from ? &fill : &ns) += at;
		i += n;
	}
	stream_settle(s, events, true);
	if (e)
		log_encoder_flush(e);
	struct ledger_totals tot;
	ledger_totals(l, &tot);
	*bytes = tot.live_blocks ? (double)ledger_memory(l) / (double)tot.live_blocks : 0;
	struct stream_stats stats;
	stream_stats(s, &stats);
	if (stats.gaps || stats.bad)
		printf("# %llu gaps, %llu bad\n", (unsigned long long)stats.gaps,
		       (unsigned long long)stats.bad);
	stream_free(s);
	log_encoder_free(e);
	ledger_free(l);
	target_free(w);
	return ns / (double)(events - from);
}

enum { RUNS = 5 };

static double replay(void)
{
	struct ledger *l = ledger_replay_new(TIMELINE_BUDGET);
	struct log_decoder *d = log_decoder_new(l);
	double at = now();
	for (size_t i = 0; i < blocks; i++) {
		size_t offset = 0;
		if (log_decode(d, &block[i], LOG_NEVER, &offset))
			printf("# block %zu is wrong\n", i);
	}
	at = now() - at;
	log_decoder_free(d);
	ledger_free(l);
	return at;
}

/* Beside NS without a log. */
static void measure_log(size_t from, double ns)
{
	double with[RUNS], again[RUNS], bytes;
	size_t raw = 0, packed = 0, states = 0;
	for (int i = 0; i < RUNS; i++) {
		blocks_drop();
		with[i] = once(from, &bytes, false, true);
		again[i] = replay() / (double)(events - from);
	}
	for (size_t i = 0; i < blocks; i++) {
		size_t most = ZSTD_compressBound(block[i].len);
		void *p = malloc(most);
		raw += block[i].len;
		states += block[i].type == SEGMENT_STATE ? block[i].len : 0;
		packed += ZSTD_compress(p, most, block[i].raw, block[i].len, 1);
		free(p);
	}
	qsort(with, RUNS, sizeof(*with), ascending);
	qsort(again, RUNS, sizeof(*again), ascending);
	printf("%-34s %+.1f ns an event (%+.1f .. %+.1f), %.2f bytes (%.2f of states), packed %.2f; replay %.1f ns\n",
	       "  logged", with[RUNS / 2] - ns, with[0] - ns, with[RUNS - 1] - ns,
	       (double)raw / (double)(events - from), (double)states / (double)(events - from),
	       (double)packed / (double)(events - from), again[RUNS / 2]);
}

/* Returns the median. */
static double measure_table(const char *name, size_t from, bool compact)
{
	double ns[RUNS], bytes = 0;
	for (int i = 0; i < RUNS; i++)
		ns[i] = once(from, &bytes, compact, false);
	qsort(ns, RUNS, sizeof(*ns), ascending);
	printf("%-34s %9zu events  %5.1f ns an event (%.1f .. %.1f)", name, events - from,
	       ns[RUNS / 2], ns[0], ns[RUNS - 1]);
	if (bytes > 0 && bytes < 1000)
		printf("  %4.1f bytes a live block", bytes);
	printf("\n");
	return ns[RUNS / 2];
}

static void measure(const char *name, size_t from)
{
	double ns = measure_table(name, from, false);
	measure_table("  compact", from, true);
	measure_log(from, ns);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	size_t n = argc > 1 ? strtoul(argv[1], NULL, 0) : 4000000;
	if (argc > 2) {
		for (int i = 2; i < argc; i++) {
			trace_begin();
			if (load(argv[i]))
				measure(argv[i], 0);
		}
		return 0;
	}
	trace_begin();
	pairs(n);
	measure("pairs", 0);
	trace_begin();
	phases(n, 3000);
	measure("phases, 3000 stacks", 0);
	static const struct {
		const char *name;
		size_t live;
		unsigned most;
		uint32_t stacks;
	} c[] = {
		{ "10^4 live at random", 10000, 512, 1000 },
		{ "10^5 live at random", 100000, 512, 5000 },
		{ "10^6 live at random", 1000000, 512, 50000 },
		{ "10^6 live, up to 64 KiB", 1000000, 65536, 50000 },
	};
	for (size_t i = 0; i < sizeof(c) / sizeof(*c); i++) {
		char name[100];
		trace_begin();
		steady(c[i].live, n, c[i].most, c[i].stacks);
		size_t all = events;
		events = steady_from;
		snprintf(name, sizeof(name), "%s: filling", c[i].name);
		measure(name, 0);
		events = all;
		measure(c[i].name, steady_from);
	}
	return 0;
}
