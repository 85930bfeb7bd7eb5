// SPDX-License-Identifier: GPL-3.0-or-later
#include "test.h"

#include <errno.h>

#include "export/export.h"
#include "export/moments.h"
#include "export/trie.h"
#include "ledger/activity.h"

/*
 * The formats that are about the whole time: a program that takes and gives back blocks at random
 * is played, and what is written about it is read again. Each of its stacks is one function below
 * main.
 */
#define STACKS 12
#define STEPS  400
#define EVIL   "a\"b<c></script>&d;e,f\\g\nh#i\xff</style><!--"

struct played {
	int64_t size, count, total_size, total_count, temporary;
};
static struct played now[STACKS], at_peak[STACKS];
static struct view_row rows[STACKS];
static struct view view = { .key = VIEW_STACK, .has_totals = true, .row = rows };
static struct export_point points[STEPS];
static struct activity_point stretches[STEPS * 4];
static struct activity activity = { .point = stretches };
static struct export e = { .view = &view,
			   .moment = "at 1.0 s",
			   .pid = 7,
			   .command = EVIL,
			   .command_line = EVIL,
			   .point = points,
			   .activity = &activity };
static char names[STACKS][sizeof(EVIL) + 16];
static struct symbol_frame leaf[STACKS],
	f_main = { .function = "main", .file = "/a.c", .line = 1, .module = "/bin/a" };

static uint32_t parent(void *ctx, uint32_t node, uint64_t *pc)
{
	(void)ctx;
	*pc = node * 0x100;
	return node > 1 ? 1 : 0;
}

static struct symbol_frames frames(void *ctx, uint32_t node, uint64_t pc)
{
	(void)ctx;
	(void)pc;
	return (struct symbol_frames){ 1, node > 1 ? &leaf[node - 2] : &f_main };
}

static int past(void *ctx, uint64_t ms, struct profile *out)
{
	(void)ctx;
	*out = (struct profile){ .ms = ms, .row = calloc(STACKS, sizeof(*out->row)) };
	for (uint32_t i = 0; ms == e.peak_ms && i < STACKS; i++)
		if (at_peak[i].count)
			out->row[out->count++] = (struct profile_row){ .stack = i + 2,
								       .size = at_peak[i].size,
								       .count = at_peak[i].count };
	return 0;
}

/* One step is one interval. */
static void play(uint64_t seed)
{
	struct {
		int stack;
		int64_t size;
		size_t step;
	} live[STEPS];
	size_t n = 0;
	int64_t held = 0, peak = -1;
	uint64_t x = seed;

	memset(now, 0, sizeof(now));
	for (size_t step = 0; step < STEPS; step++) {
		int stack = (int)(test_random(&x) % (seed % STACKS + 1));
		bool take = !n || test_random(&x) % 100 < (step < STEPS / 2 ? 60 : 45);
		int64_t size = (int64_t)(test_random(&x) % (seed % 3 ? 1000 : 3));
		size_t i = !n ? 0 : test_random(&x) % 3 ? n - 1 : test_random(&x) % n;

		if (take) {
			live[n].stack = stack;
			live[n].step = step;
			live[n++].size = size;
			now[stack].total_size += size;
			now[stack].total_count++;
		} else {
			stack = live[i].stack;
			size = -live[i].size;
			now[stack].temporary += live[i].step + 1 == step;
			live[i] = live[--n];
		}
		now[stack].size += size;
		now[stack].count += take ? 1 : -1;
		held += size;
		if (held > peak) {
			peak = held;
			memcpy(at_peak, now, sizeof(now));
			e.peak = (uint64_t)peak;
			e.peak_ms = step * 100 + 50;
		}
		points[step] = (struct export_point){ step * 100, step * 100 + 100, (uint64_t)held,
						      step * 100 + 50 };
	}
	e.points = STEPS;
	e.now_ms = STEPS * 100;
	e.past = past;
	view.count = STACKS;
	for (uint32_t i = 0; i < STACKS; i++)
		rows[i] = (struct view_row){ .stack = i + 2,
					     .size = now[i].size,
					     .count = now[i].count,
					     .total_size = (uint64_t)now[i].total_size,
					     .total_count = (uint64_t)now[i].total_count,
					     .temporary = (uint64_t)now[i].temporary };
}

static char *text;
static size_t text_len;

static int written(int (*write)(FILE *out, const struct export *e))
{
	struct sites_source source = { .parent = parent, .frames = frames };
	FILE *out;
	int err;

	free(text);
	for (int i = 0; i < STACKS; i++) {
		snprintf(names[i], sizeof(names[i]), "%d" EVIL, i);
		leaf[i] = (struct symbol_frame){ .function = names[i], .module = "/lib/" EVIL };
	}
	out = open_memstream(&text, &text_len);
	e.sites = sites_new(&source);
	err = write(out, &e);
	fclose(out);
	sites_free(e.sites);
	return err;
}

/* ---- heaptrack ----------------------------------------------------------- */

static void at_the_peak(const struct played *sum)
{
	for (int i = 0; i < STACKS; i++) {
		CHECK_EQ(sum[i + 2].size, at_peak[i].size);
		CHECK_EQ(sum[i + 2].count, at_peak[i].count);
	}
}

/*
 * Plays the log as its readers do. Node 1 is main; then each stack is one, in the order of the
 * rows. heaptrack_gui has no place for an info whose first `+` is not the next one's.
 */
static void replay(bool few_sizes)
{
	static struct {
		int64_t size, live;
		unsigned trace;
	} info[STEPS * 8];
	struct played sum[STACKS + 2] = { 0 };
	int64_t gone[STACKS + 2] = { 0 };
	int64_t held = 0, most = 0, temporary;
	size_t infos = 0, used = 0, last = 0;
	bool before_peak = true, met = false;
	unsigned long a, b, ms = 0;

	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		if (sscanf(line, "a %lx %lx", &a, &b) == 2) {
			for (size_t i = 0; i < infos; i++)
				CHECK(info[i].size != (int64_t)a || info[i].trace != b);
			info[infos].size = (int64_t)a;
			info[infos++].trace = (unsigned)b;
		} else if (sscanf(line, "+ %lx", &a) == 1 || sscanf(line, "- %lx", &a) == 1) {
			struct played *s = &sum[info[a].trace];
			int sign = *line == '+' ? 1 : -1;

			if (sign < 0 && !met && held == (int64_t)e.peak) {
				at_the_peak(sum);
				met = true;
			}
			CHECK(sign < 0 || a <= used);
			used += sign > 0 && a == used;
			s->temporary += sign < 0 && last == a;
			gone[info[a].trace] += sign < 0 && before_peak;
			last = sign > 0 ? a : 0;
			s->size += sign * info[a].size;
			s->count += sign;
			s->total_size += sign > 0 ? info[a].size : 0;
			s->total_count += sign > 0;
			held += sign * info[a].size;
			most = held > most ? held : most;
			CHECK(held >= 0);
		} else {
			CHECK(strchr("#vXIsitac", *line));
			CHECK(*line != 'c' || strtoul(line + 2, NULL, 16) >= ms);
			ms = *line == 'c' ? strtoul(line + 2, NULL, 16) : ms;
			before_peak &= *line != 'c' || line[2] == '0';
		}
	}
	CHECK_EQ(most, e.peak);
	if (!met)
		at_the_peak(sum);
	CHECK(ms <= e.now_ms);
	CHECK_EQ(used, infos);
	for (int i = 0; i < STACKS; i++) {
		CHECK_EQ(sum[i + 2].size, now[i].size);
		CHECK_EQ(sum[i + 2].count, now[i].count);
		CHECK_EQ(sum[i + 2].total_size, now[i].total_size);
		CHECK_EQ(sum[i + 2].total_count, now[i].total_count);
		/* where nearly all have one of two sizes, some cannot be kept from looking so */
		temporary = now[i].temporary < gone[i + 2] ? now[i].temporary : gone[i + 2];
		CHECK(sum[i + 2].temporary >= temporary);
		CHECK(few_sizes || sum[i + 2].temporary == temporary);
	}
}

static void test_heaptrack(void)
{
	for (uint64_t seed = 1; seed < 300 && !test_bad; seed++) {
		play(seed);
		CHECK_EQ(written(export_heaptrack), 0);
		replay(seed % 3 == 0);
	}
}

/* ---- the others ---------------------------------------------------------- */

static size_t times(const char *what)
{
	size_t n = 0;

	for (const char *at = text; (at = strstr(at, what)); at++)
		n++;
	return n;
}

static void test_massif(void)
{
	int64_t of = 0, parts = 0;

	play(12);
	CHECK_EQ(written(export_massif), 0);
	CHECK_EQ(times("heap_tree=peak"), 1);
	CHECK_EQ(times("snapshot="), STEPS + 1);
	CHECK_EQ(times("desc: "), 1);
	for (char *line = strtok(strstr(text, "heap_tree=peak"), "\n"); line && *line != '#';
	     line = strtok(NULL, "\n")) {
		of += *line == 'n' ? strtoll(strchr(line, ' '), NULL, 10) : 0;
		parts += !strncmp(line, " n", 2) ? strtoll(strchr(line + 1, ' '), NULL, 10) : 0;
		CHECK(strstr(line, "heap_tree=") == line || line[strspn(line, " ")] == 'n');
	}
	CHECK_EQ(of, e.peak);
	CHECK_EQ(parts, e.peak);
}

static void test_moments(void)
{
	uint64_t stretch;
	size_t *index;
	ssize_t n;

	play(3);
	n = moments_choose(e.point, e.points, 37, &index, &stretch);
	CHECK(n > 30 && n <= 37);
	CHECK_EQ(e.point[index[moments_highest(&e, index, (size_t)n)]].bytes, e.peak);
	for (ssize_t i = 1; i < n; i++)
		CHECK(index[i] > index[i - 1]);
	free(index);
	CHECK_EQ(moments_choose(e.point, e.points, STEPS, &index, NULL), STEPS);
	free(index);
}

/* Of each step four stretches are known, of some nothing. */
static void test_refine(void)
{
	struct export_point *fine;
	uint64_t x = 5, at = 0;
	size_t whole = 0, n;

	play(3);
	activity.step = 25;
	for (size_t i = 0; i < STEPS * 4; i++) {
		uint64_t most = points[i / 4].bytes + 1, live = test_random(&x) % most;

		if (test_random(&x) % 3)
			stretches[activity.count++] =
				(struct activity_point){ i * 25 + test_random(&x) % 25, live,
							 live + test_random(&x) % (most - live), i,
							 0 };
	}
	n = (size_t)moments_refine(&e, &fine);
	CHECK(n > STEPS * 2 && n < STEPS * 8);
	for (size_t i = 0, j = 0; i < n; i++) {
		uint64_t most = 0;

		CHECK_EQ(fine[i].from_ms, at);
		CHECK(fine[i].to_ms > at && fine[i].ms >= at && fine[i].ms < fine[i].to_ms);
		at = fine[i].to_ms;
		for (; j < activity.count && stretches[j].ms < at; j++)
			most = stretches[j].high;
		CHECK(fine[i].bytes >= most);
		CHECK(fine[i].bytes <= points[fine[i].from_ms / 100].bytes);
		whole += fine[i].ms == points[fine[i].from_ms / 100].ms &&
			 fine[i].bytes == points[fine[i].from_ms / 100].bytes;
	}
	CHECK_EQ(at, STEPS * 100);
	CHECK_EQ(whole, STEPS);
	free(fine);
	activity.step = 200; /* coarser than what is to be refined */
	CHECK_EQ(moments_refine(&e, &fine), STEPS);
	CHECK(!memcmp(fine, points, sizeof(points)));
	free(fine);
	activity.step = 25;
	CHECK_EQ(written(export_html), 0);
	CHECK_EQ(times("\"activity\""), 1);
	activity.count = 0;
}

static void test_names(void)
{
	play(12);
	CHECK_EQ(written(export_html), 0);
	CHECK_EQ(times("</script>"), 2);
	CHECK_EQ(times("</style>"), 1);
	CHECK_EQ(times("<!--"), 0);
	CHECK_EQ(written(export_csv), 0);
	CHECK_EQ(times("\"\"b<c>"), 2 * (times("\r\n") - 1));
	CHECK_EQ(written(export_dhat), 0);
	CHECK_EQ(times("\"tb\""), STACKS);
	CHECK_EQ(written(export_speedscope), 0);
	CHECK_EQ(times("\"sampled\""), 2);
	CHECK_EQ(written(export_json), 0);
	CHECK_EQ(times("\xff"), 0);
}

/* Of a file, or before the first allocation. */
static void test_nothing(void)
{
	static int (*const all[])(FILE * out, const struct export *e) = {
		export_massif, export_heaptrack, export_dhat, export_speedscope,
		export_csv,    export_json,	 export_html
	};

	view.count = e.points = e.peak = e.peak_ms = e.now_ms = 0;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		CHECK_EQ(written(all[i]), 0);
		CHECK(text_len > 10);
	}
}

int main(void)
{
	RUN(test_heaptrack);
	RUN(test_massif);
	RUN(test_moments);
	RUN(test_refine);
	RUN(test_names);
	RUN(test_nothing);
	free(text);
	return test_status();
}
