// SPDX-License-Identifier: GPL-3.0-or-later
#include "test.h"

#include <errno.h>
#include <math.h>
#include <time.h>

#include "inject/wire_stack.h"
#include "process/profile.h"
#include "report/print.h"
#include "report/sites.h"
#include "report/view.h"

/*
 * A small program's stacks, made by hand. Node: parent, pc; pc: frames.
 *
 *	1 root
 *	2 _start (libc-like, skipped)
 *	3 main
 *	4   parse 6 std::vector::push_back inlined into `load` 8 [truncated] -> 9 operator new
 *	    (skipped)
 *	5     parse (again)  7     std::allocate (skipped)
 */
struct fake_node {
	uint32_t parent;
	uint64_t pc;
};
static const struct fake_node nodes[] = {
	[1] = { 0, 0 },	    [2] = { 1, 0x100 },	 [3] = { 2, 0x200 }, [4] = { 3, 0x300 },
	[5] = { 4, 0x310 }, [6] = { 3, 0x400 },	 [7] = { 6, 0x500 }, [8] = { 1, WIRE_PC_TRUNCATED },
	[9] = { 8, 0x600 }, [10] = { 4, 0x500 },
};
#define NODES (sizeof(nodes) / sizeof(*nodes))

static const struct symbol_frame f_start = { .function = "_start",
					     .module = "/bin/app",
					     .skip = SKIP_LIBRARY };
static const struct symbol_frame f_main = { .function = "main",
					    .file = "/src/app.cc",
					    .line = 40,
					    .column = 5,
					    .module = "/bin/app",
					    .address = 0x200 };
static const struct symbol_frame f_parse = { .function = "parse(char const*)",
					     .file = "/src/parse.cc",
					     .line = 7,
					     .column = 3,
					     .module = "/bin/app" };
static const struct symbol_frame f_parse2 = {
	.function = "parse(char const*)", .file = "/src/parse.cc", .line = 9, .module = "/bin/app"
};
static const struct symbol_frame f_load[] = {
	{ .function = "std::vector<int>::push_back",
	  .file = "/usr/include/stl_vector.h",
	  .line = 1200,
	  .module = "/bin/app",
	  .inlined = true,
	  .skip = SKIP_NAMESPACE },
	{ .function = "load",
	  .file = "/src/app.cc",
	  .line = 12,
	  .column = 9,
	  .module = "/bin/app" },
};
static const struct symbol_frame f_allocate = { .function = "std::allocate",
						.module = "/lib/libstdc++.so.6",
						.skip = SKIP_NAMESPACE };
static const struct symbol_frame f_new = { .function = "operator new",
					   .module = "/lib/libstdc++.so.6",
					   .skip = SKIP_ALLOCATOR };

static uint32_t parent(void *ctx, uint32_t node, uint64_t *pc)
{
	(void)ctx;
	*pc = node < NODES ? nodes[node].pc : 0;
	return node < NODES ? nodes[node].parent : 0;
}

static struct symbol_frames frames(void *ctx, uint32_t node, uint64_t pc)
{
	(void)ctx;
	(void)node;
	switch (pc) {
	case 0x100: return (struct symbol_frames){ 1, &f_start };
	case 0x200: return (struct symbol_frames){ 1, &f_main };
	case 0x300: return (struct symbol_frames){ 1, &f_parse };
	case 0x310: return (struct symbol_frames){ 1, &f_parse2 };
	case 0x400: return (struct symbol_frames){ 2, f_load };
	case 0x500: return (struct symbol_frames){ 1, &f_allocate };
	default: return (struct symbol_frames){ 1, &f_new };
	}
}

static struct profile_row rows[] = {
	{ .stack = 5,
	  .size = 1000,
	  .count = 10,
	  .total_size = 5000,
	  .total_count = 50,
	  .temporary = 40 },
	{ .stack = 7,
	  .size = 400,
	  .count = 1,
	  .total_size = 900,
	  .total_count = 9,
	  .temporary = 1 },
	{ .stack = 6, .size = 300, .count = 3, .total_size = 300, .total_count = 3 },
	{ .stack = 9, .size = 20, .count = 2, .total_size = 20, .total_count = 2 },
	{ .stack = 10, .size = 50, .count = 5, .total_size = 50, .total_count = 5 },
	{ .stack = 3, .size = 0, .count = 0, .total_size = 70, .total_count = 7 },
};
static const struct profile profile = {
	.ms = 123, .has_totals = true, .count = sizeof(rows) / sizeof(*rows), .row = rows
};

static struct sites *new_sites(void)
{
	struct sites_source source = { .parent = parent, .frames = frames };

	return sites_new(&source);
}

static char *text;
static size_t text_len;
static FILE *capture(void)
{
	free(text);
	text = NULL;
	return open_memstream(&text, &text_len);
}

static void site_rule(void)
{
	struct sites *s = new_sites();

	CHECK_STR(sites_site(s, sites_of(s, 7))->frame.function, "load");
	CHECK_EQ(sites_site(s, sites_of(s, 7))->frame.line, 12);
	CHECK_EQ(sites_of(s, 7), sites_of(s, 6)); /* one place, two stacks */
	CHECK_EQ(sites_site(s, sites_of(s, 5))->frame.line, 9);
	CHECK_STR(sites_site(s, sites_of(s, 10))->frame.function, "parse(char const*)");
	/* all are skipped: the outermost */
	CHECK_STR(sites_site(s, sites_of(s, 9))->frame.function, "operator new");
	CHECK_STR(sites_site(s, sites_of(s, 2))->frame.function, "_start");
	CHECK_STR(sites_site(s, sites_of(s, 8))->frame.function, "[truncated]");
	CHECK_STR(sites_site(s, sites_of(s, 0))->frame.function, "[no stack]");
	CHECK_STR(sites_site(s, sites_of(s, 1))->frame.function, "[no stack]");
	CHECK_STR(sites_site(s, sites_of(s, 4000000))->frame.function, "[no stack]");
	CHECK_STR(sites_site(s, sites_of(s, UINT32_MAX))->frame.function, "[no stack]");
	CHECK_EQ(sites_parent(s, 2), 0);
	CHECK_EQ(sites_parent(s, 9), 8);
	CHECK_EQ(sites_parent(s, 8), 0);
	sites_clear(s);
	CHECK_EQ(sites_count(s), 0);
	CHECK_STR(sites_site(s, sites_of(s, 6))->frame.function, "load");
	sites_free(s);
}

static unsigned asked;

static struct symbol_frames counted_frames(void *ctx, uint32_t node, uint64_t pc)
{
	asked++;
	return frames(ctx, node, pc);
}

/* A library of which all frames are passed over. */
static bool in_library(void *ctx, uint32_t node, uint64_t pc)
{
	(void)ctx;
	(void)node;
	return pc == 0x500 || pc == 0x600;
}

/* A library's frames are not looked up, except the outermost of a stack that is all in it. */
static void passed_over(void)
{
	struct sites_source source = { .parent = parent,
				       .frames = counted_frames,
				       .passed_over = in_library };
	struct sites *s = sites_new(&source), *all = new_sites();

	for (uint32_t n = 0; n < NODES; n++)
		CHECK_STR(sites_site(s, sites_of(s, n))->frame.function,
			  sites_site(all, sites_of(all, n))->frame.function);
	sites_clear(s);
	asked = 0;
	CHECK_STR(sites_site(s, sites_of(s, 10))->frame.function, "parse(char const*)");
	CHECK_EQ(asked, 1);
	CHECK_STR(sites_frames(s, 10).frame->function, "std::allocate");
	CHECK_EQ(asked, 2);
	sites_clear(s);
	asked = 0;
	CHECK_STR(sites_site(s, sites_of(s, 9))->frame.function, "operator new");
	CHECK_EQ(asked, 1);
	sites_free(all);
	sites_free(s);
}

static void by_site(void)
{
	struct view_options o = { .key = VIEW_SITE, .limit = VIEW_ALL };
	struct sites *s = new_sites();
	struct view v;

	CHECK_EQ(view_make(&v, &profile, s, &o), 0);
	CHECK_EQ(v.count, 5);
	CHECK_EQ(v.total_size, 1770);
	CHECK_EQ(v.total_count, 21);
	CHECK_EQ(v.row[0].size, 1000);
	CHECK_EQ(v.row[0].temporary, 40);
	CHECK_STR(v.row[1].frame.function, "load");
	CHECK_EQ(v.row[1].size, 700);
	CHECK_EQ(v.row[1].count, 4);
	CHECK_EQ(v.row[1].stack, 7); /* the larger of its two */
	CHECK_EQ(v.row[4].size, 0);
	view_release(&v);

	o.limit = 2;
	CHECK_EQ(view_make(&v, &profile, s, &o), 0);
	CHECK_EQ(v.count, 2);
	CHECK_EQ(v.others.merged, 3);
	CHECK_EQ(v.row[0].size + v.row[1].size + v.others.size, v.total_size);
	CHECK_EQ(v.row[0].count + v.row[1].count + v.others.count, v.total_count);
	FILE *out = capture();
	print_report(out, &v, s, false, NULL);
	fclose(out);
	CHECK_STR(text, "total_size: 1770\n"
			"/src/parse.cc  line:9   size:1000  count:10  parse(char const*)\n"
			"/src/app.cc    line:12  size:700   count:4   load\n"
			"(others)       line:0   size:70    count:7   (3 more)\n");
	view_release(&v);

	o.reverse = true;
	CHECK_EQ(view_make(&v, &profile, s, &o), 0);
	CHECK_EQ(v.row[0].size, 700);
	CHECK_EQ(v.row[1].size, 1000);
	view_release(&v);

	o = (struct view_options){ .key = VIEW_SITE, .sort = SORT_COUNT, .limit = 0 };
	CHECK_EQ(view_make(&v, &profile, s, &o), 0);
	CHECK_EQ(v.count, 0);
	CHECK_EQ(v.others.size, 1770);
	view_release(&v);
	sites_free(s);
}

/* Its totals are those of all its stacks, but a row is there for what it holds only. */
static void held(void)
{
	struct view_options o = { .key = VIEW_SITE, .limit = VIEW_ALL, .only_held = true };
	struct profile p = { .has_totals = true };
	struct sites *s = new_sites();
	struct view v;

	CHECK_EQ(profile_copy(&p, &profile), 0);
	for (size_t i = 0; i < p.count; i++)
		if (p.row[i].stack == 6)
			p.row[i].size = p.row[i].count = 0;
	CHECK_EQ(view_make(&v, &p, s, &o), 0);
	CHECK_EQ(v.count, 4); /* not that of stack 3 */
	CHECK_STR(v.row[1].frame.function, "load");
	CHECK_EQ(v.row[1].size, 400);
	CHECK_EQ(v.row[1].total_size, 1200);
	CHECK_EQ(v.row[1].total_count, 12);
	view_release(&v);

	o.key = VIEW_STACK;
	CHECK_EQ(view_make(&v, &p, s, &o), 0);
	CHECK_EQ(v.count, 4);
	view_release(&v);
	profile_release(&p);
	sites_free(s);
}

static void other_keys(void)
{
	static const struct {
		enum view_key key;
		size_t rows;
		int64_t first;
	} want[] = {
		{ VIEW_STACK, 6, 1000 },
		{ VIEW_FUNCTION, 4, 1050 },
		{ VIEW_FILE, 3, 1050 },
		{ VIEW_MODULE, 2, 1750 },
	};
	struct sites *s = new_sites();
	struct view v;

	for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
		struct view_options o = { .key = want[i].key, .limit = VIEW_ALL };
		int64_t sum = 0;

		CHECK_EQ(view_make(&v, &profile, s, &o), 0);
		CHECK_EQ(v.count, want[i].rows);
		CHECK_EQ(v.row[0].size, want[i].first);
		for (size_t k = 0; k < v.count; k++)
			sum += v.row[k].size;
		CHECK_EQ(sum, 1770);
		view_release(&v);
	}
	sites_free(s);
}

static void matching(void)
{
	static const struct {
		const char *regex;
		int64_t size;
	} want[] = {
		{ "^main$", 1750 },	      { "parse", 1050 },
		{ "parse\\.cc:9$", 1000 },    { "app\\.cc:12", 700 },
		{ "libstdc", 470 },	      { "truncated", 20 },
		{ "nothing of the kind", 0 }, { "push_back|allocate", 750 },
	};
	struct sites *s = new_sites();
	struct view v;

	for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
		struct view_options o = { .key = VIEW_SITE, .limit = VIEW_ALL };
		regex_t regex;

		CHECK_EQ(regcomp(&regex, want[i].regex, REG_EXTENDED | REG_NOSUB), 0);
		o.match = &regex;
		CHECK_EQ(view_make(&v, &profile, s, &o), 0);
		CHECK_EQ(v.total_size, want[i].size);
		view_release(&v);
		regfree(&regex);
	}
	sites_free(s);
}

/* Calls of rest(); from the CTXth one on the user has enough. */
static uint32_t rests;

static int rest(void *ctx) { return ++rests >= *(uint32_t *)ctx ? -EINTR : 0; }

/* Whenever the user has enough, there is no view, and nobody is asked again. */
static void interrupted(void)
{
	enum { ROWS = 3000 };
	static struct profile_row row[ROWS];
	const struct profile p = { .has_totals = true, .count = ROWS, .row = row };
	uint32_t enough = UINT32_MAX, all;
	struct sites_source source = {
		.parent = parent, .frames = frames, .rest = rest, .rest_ctx = &enough
	};
	struct view_options o = { .key = VIEW_STACK, .limit = VIEW_ALL };
	struct sites *s = sites_new(&source);
	struct view v;

	for (uint32_t i = 0; i < ROWS; i++)
		row[i] = (struct profile_row){ .stack = 5, .size = i * 7919 % ROWS, .count = 1 };
	CHECK_EQ(view_make(&v, &p, s, &o), 0);
	view_release(&v);
	all = rests;
	CHECK(all > 2 * ROWS / 256); /* also while it sorts */
	for (enough = 1; enough < all; enough++) {
		rests = 0;
		CHECK_EQ(view_make(&v, &p, s, &o), -EINTR);
		CHECK_EQ(rests, enough);
	}
	sites_free(s);
}

static void function_table(void)
{
	struct sites *s = new_sites();
	struct table t;
	FILE *out;

	CHECK_EQ(table_make(&t, &profile, s, TABLE_FLAT, VIEW_ALL), 0);
	CHECK_EQ(t.total, 1770);
	out = capture();
	print_table(out, &t, true, NULL);
	fclose(out);
	/*
	 * parse recurs and counts once; operator new is an allocator, so what is outside of it has
	 * its bytes
	 */
	CHECK_STR(text, "Total: 1770 B\n"
			"    1000  56.5%  56.5%     1050  59.3% parse(char const*)\n"
			"     450  25.4%  81.9%      450  25.4% std::allocate\n"
			"     300  16.9%  98.9%      700  39.5% std::vector<int>::push_back\n"
			"      20   1.1% 100.0%       20   1.1% [truncated]\n"
			"       0   0.0% 100.0%     1750  98.9% _start\n"
			"       0   0.0% 100.0%      700  39.5% load\n"
			"       0   0.0% 100.0%     1750  98.9% main\n");
	table_release(&t);

	CHECK_EQ(table_make(&t, &profile, s, TABLE_CUM, 3), 0);
	out = capture();
	print_table(out, &t, true, NULL);
	fclose(out);
	CHECK_STR(text, "Total: 1770 B\n"
			"       0   0.0%   0.0%     1750  98.9% _start\n"
			"       0   0.0%   0.0%     1750  98.9% main\n"
			"    1000  56.5%  56.5%     1050  59.3% parse(char const*)\n"
			"     770  43.5% 100.0%      770  43.5% (others)\n");
	table_release(&t);

	out = capture();
	CHECK_EQ(table_make(&t, &profile, s, TABLE_FLAT, 1), 0);
	print_table(out, &t, false, NULL);
	fclose(out);
	CHECK(!strncmp(text, "Total: 0.0 MB\n     0.0  56.5%", 29));
	table_release(&t);
	sites_free(s);
}

/*
 * What is less goes last, and hides nothing: `parse` has lost about what the others have got, so
 * that main has nearly nothing.
 */
static void difference(void)
{
	struct sites *s = new_sites();
	struct profile before = { 0 }, p = { 0 };
	struct table t;
	struct tree tree;
	FILE *out;

	CHECK_EQ(profile_copy(&before, &profile), 0);
	CHECK_EQ(profile_copy(&p, &profile), 0);
	for (size_t i = 0; i < p.count; i++)
		p.row[i].size *= p.row[i].stack == profile.row[0].stack ? 3 : 1;
	for (size_t i = 0; i < before.count; i++)
		before.row[i].size *= before.row[i].stack == profile.row[1].stack ? 5 : 1;
	CHECK_EQ(profile_subtract(&p, &before), 0);
	profile_drop_unchanged(&p);
	CHECK_EQ(table_make(&t, &p, s, TABLE_FLAT, VIEW_ALL), 0);
	out = capture();
	print_table(out, &t, true, NULL);
	fclose(out);
	CHECK_STR(text, "Total: 400 B\n"
			"    2000 500.0% 500.0%     2000 500.0% parse(char const*)\n"
			"       0   0.0% 500.0%      400 100.0% _start\n"
			"       0   0.0% 500.0%    -1600 -400.0% load\n"
			"       0   0.0% 500.0%      400 100.0% main\n"
			"       0   0.0% 500.0%    -1600 -400.0% std::vector<int>::push_back\n"
			"   -1600 -400.0% 100.0%    -1600 -400.0% std::allocate\n");
	table_release(&t);
	CHECK_EQ(tree_make(&tree, &p, s, 0, UINT32_MAX), 0);
	out = capture();
	print_tree(out, &tree, 5, NULL);
	fclose(out);
	CHECK_STR(text, "         400 100.0%  (total)\n"
			"         400 100.0%  _start\n"
			"         400 100.0%  main\n"
			"        2000 500.0%  |- parse(char const*)\n"
			"        2000 500.0%  |  parse(char const*)\n"
			"       -1600 -400.0%  `- load\n"
			"       -1600 -400.0%     std::vector<int>::push_back\n"
			"       -1600 -400.0%     std::allocate\n");
	CHECK_EQ(tree_cut(&tree, 3), 0);
	out = capture();
	print_tree(out, &tree, 0, NULL);
	fclose(out);
	CHECK_STR(text, "         400 100.0%  (total)\n"
			"         400 100.0%  _start\n"
			"         400 100.0%  main\n"
			"        2000 500.0%  |- parse(char const*)\n"
			"        2000 500.0%  |  (others)\n"
			"       -1600 -400.0%  `- (others)\n");
	tree_release(&tree);
	profile_release(&p);
	profile_release(&before);
	sites_free(s);
}

static void call_tree(void)
{
	struct sites *s = new_sites();
	struct tree t;
	FILE *out;

	CHECK_EQ(tree_make(&t, &profile, s, 0, UINT32_MAX), 0);
	CHECK_EQ(t.node[0].size, 1770);
	for (size_t i = 0; i < t.count; i++) {
		int64_t sum = t.node[i].self;

		for (uint32_t c = t.node[i].child; c; c = t.node[c].next)
			sum += t.node[c].size;
		CHECK_EQ(sum, t.node[i].size);
	}
	out = capture();
	print_tree(out, &t, 0, NULL);
	fclose(out);
	CHECK_STR(text, "        1770 100.0%  (total)\n"
			"        1750  98.9%  |- _start\n"
			"        1750  98.9%  |  main\n"
			"        1050  59.3%  |  |- parse(char const*)\n"
			"        1000  56.5%  |  |  |- parse(char const*)\n"
			"          50   2.8%  |  |  `- std::allocate\n"
			"         700  39.5%  |  `- load\n"
			"         700  39.5%  |     std::vector<int>::push_back\n"
			"         400  22.6%  |     |- std::allocate\n"
			"         300  16.9%  |     `- (self)\n"
			"          20   1.1%  `- [truncated]\n"
			"          20   1.1%     operator new\n");
	out = capture();
	print_tree_json(out, &t);
	fclose(out);
	CHECK(strstr(
		text,
		"{\"function\":\"(total)\",\"size\":1770,\"self\":0,\"children\":[{\"function\":\"_start\",\"size\":1750"));
	tree_release(&t);

	CHECK_EQ(tree_make(&t, &profile, s, TREE_INVERT, 2), 0);
	out = capture();
	print_tree(out, &t, 20, NULL);
	fclose(out);
	CHECK_STR(text, "        1770 100.0%  (total)\n"
			"        1000  56.5%  |- parse(char const*)\n"
			"        1000  56.5%  |  parse(char const*)\n"
			"         450  25.4%  |- std::allocate\n"
			"         400  22.6%  |  |- std::vector<int>::push_back\n"
			"          50   2.8%  |  `- parse(char const*)\n"
			"         300  16.9%  |- std::vector<int>::push_back\n"
			"         300  16.9%  |  load\n"
			"          20   1.1%  `- (others)\n");
	tree_release(&t);
	sites_free(s);
}

static void stacks_text(void)
{
	struct view_options o = { .key = VIEW_STACK, .limit = 2 };
	struct sites *s = new_sites();
	struct view v;
	FILE *out = capture();

	CHECK_EQ(view_make(&v, &profile, s, &o), 0);
	print_report_stacks(out, &v, s, NULL);
	fclose(out);
	CHECK_STR(
		text,
		"total_size: 1770\n\n"
		"# (others): 370 bytes\n      10 blocks from 4 more\n\n"
		"# 1: 400 bytes\n      1 block, stack 7\n"
		"   0: std::allocate\n             in /lib/libstdc++.so.6\n"
		"   1: std::vector<int>::push_back\n             at /usr/include/stl_vector.h:1200\n"
		"      load\n             at /src/app.cc:12:9\n"
		"   2: main\n             at /src/app.cc:40:5\n"
		"   3: _start\n             in /bin/app\n\n"
		"# 0: 1000 bytes\n      10 blocks, stack 5\n"
		"   0: parse(char const*)\n             at /src/parse.cc:9\n"
		"   1: parse(char const*)\n             at /src/parse.cc:7:3\n"
		"   2: main\n             at /src/app.cc:40:5\n"
		"   3: _start\n             in /bin/app\n");
	view_release(&v);
	sites_free(s);
}

static void report_json(void)
{
	struct view_options o = { .key = VIEW_STACK, .limit = 1 };
	struct sites *s = new_sites();
	struct view v;
	FILE *out = capture();

	CHECK_EQ(view_make(&v, &profile, s, &o), 0);
	print_report_json(out, &v, s, true);
	fclose(out);
	CHECK_STR(
		text,
		"{\"time_ms\":123,\"total_size\":1770,\"total_count\":21,\"mem_report\":[\n"
		"{\"size\":1000,\"count\":10,\"total_size\":5000,\"total_count\":50,\"temporary\":40,\"function\":\"parse(char const*)\","
		"\"file\":\"/src/parse.cc\",\"line\":9,\"module\":\"/bin/app\",\"stack_id\":5,\"stack\":["
		"{\"function\":\"parse(char const*)\",\"file\":\"/src/parse.cc\",\"line\":9,\"column\":null,\"module\":\"/bin/app\",\"address\":null,\"inlined\":false},"
		"{\"function\":\"parse(char const*)\",\"file\":\"/src/parse.cc\",\"line\":7,\"column\":3,\"module\":\"/bin/app\",\"address\":null,\"inlined\":false},"
		"{\"function\":\"main\",\"file\":\"/src/app.cc\",\"line\":40,\"column\":5,\"module\":\"/bin/app\",\"address\":\"0x200\",\"inlined\":false},"
		"{\"function\":\"_start\",\"file\":null,\"line\":null,\"column\":null,\"module\":\"/bin/app\",\"address\":null,\"inlined\":false}]},\n"
		"{\"size\":770,\"count\":11,\"total_size\":1340,\"total_count\":26,\"temporary\":1,\"function\":\"(others)\",\"file\":null,\"line\":null,"
		"\"module\":null,\"stack_id\":null,\"rows\":5,\"stack\":[]}]}\n");
	view_release(&v);
	sites_free(s);
}

/* ---- many ---------------------------------------------------------------- */

#define MANY 100000
static char names[1000][16];
static struct symbol_frame many_frame[1000];

static uint32_t many_parent(void *ctx, uint32_t node, uint64_t *pc)
{
	(void)ctx;
	*pc = node > 1 && node < MANY + 2 ? 0x1000 + node * 7919u % 1000 : 0;
	return node > 1 ? node / 2 + 1 < node ? node / 2 + 1 : 1 : 0;
}

static struct symbol_frames many_frames(void *ctx, uint32_t node, uint64_t pc)
{
	(void)ctx;
	(void)node;
	return (struct symbol_frames){ 1, &many_frame[pc - 0x1000] };
}

static void many_names(void)
{
	for (int i = 0; i < 1000; i++) {
		snprintf(names[i], sizeof(names[i]), "function_%d", i);
		many_frame[i] = (struct symbol_frame){ .function = names[i],
						       .file = "/src/a.c",
						       .line = (unsigned)i,
						       .skip = i % 3 ? 0 : SKIP_LIBRARY };
	}
}

static double ms_since(const struct timespec *t)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - t->tv_sec) * 1e3 + (double)(now.tv_nsec - t->tv_nsec) / 1e6;
}

/* Where nothing has grown, what shrank most is first: of all rows, and of those that are kept. */
static void shrunk(void)
{
	enum { STACKS = 40000, LIMIT = 10 }; /* more than are held for a short list */
	struct sites_source source = { .parent = many_parent, .frames = many_frames };
	struct profile_row *row = calloc(STACKS, sizeof(*row));
	struct profile p = { .count = STACKS, .row = row, .is_difference = true };
	struct sites *s = sites_new(&source);
	struct view_options o = { .key = VIEW_STACK, .only_held = true };
	struct view v;

	many_names();
	for (uint32_t i = 0; i < STACKS; i++)
		row[i] = (struct profile_row){ .stack = i + 2,
					       .size = -1 - (int64_t)(i * 7919u % STACKS),
					       .count = -1 };
	for (int grown = 0; grown < 2; grown++) {
		row[STACKS / 2].size = grown ? 5 : 0;
		for (unsigned all = 0; all < 2; all++) {
			o.limit = all ? VIEW_ALL : LIMIT;
			CHECK_EQ(view_make(&v, &p, s, &o), 0);
			CHECK_EQ(v.shrunk, !grown);
			CHECK_EQ(v.row[0].size, grown ? 5 : -STACKS);
			CHECK_EQ(v.row[1].size, grown ? -1 : 1 - STACKS);
			CHECK_EQ(v.row[LIMIT - 1].size, grown ? 1 - LIMIT : LIMIT - 1 - STACKS);
			view_release(&v);
		}
	}
	p.is_difference = false; /* no matter what it is */
	CHECK_EQ(view_make(&v, &p, s, &o), 0);
	CHECK(!v.shrunk);
	view_release(&v);
	sites_free(s);
	free(row);
}

/* Whatever sizes are made up, their error is a number. */
static void errors(void)
{
	CHECK_EQ(view_error(0), 0);
	CHECK_EQ(view_error(16), 4);
	CHECK_EQ(view_error(1e300), INT64_MAX);
	CHECK_EQ(view_error((double)INFINITY), INT64_MAX);
	CHECK_EQ(view_error((double)NAN), INT64_MAX);
}

static void many_stacks(void)
{
	struct sites_source source = { .parent = many_parent, .frames = many_frames };
	struct profile p = { .has_totals = true,
			     .count = MANY,
			     .row = calloc(MANY, sizeof(struct profile_row)) };
	struct view_options o = { .key = VIEW_SITE, .limit = 20 };
	struct sites *s = sites_new(&source);
	struct timespec begin;
	struct table table;
	struct tree tree;
	struct view v;
	int64_t sum = 0;

	many_names();
	for (uint32_t i = 0; i < MANY; i++) {
		p.row[i] = (struct profile_row){ .stack = i + 2, .size = i % 1000, .count = 1 };
		sum += i % 1000;
	}
	CHECK_EQ(view_make(&v, &p, s, &o), 0);
	view_release(&v);
	for (int key = VIEW_SITE; key <= VIEW_MODULE; key++) {
		o.key = (enum view_key)key;
		clock_gettime(CLOCK_MONOTONIC, &begin);
		CHECK_EQ(view_make(&v, &p, s, &o), 0);
		printf("# %d stacks by %s: %.1f ms\n", MANY, view_key_names[key], ms_since(&begin));
		CHECK_EQ(v.total_size, sum);
		view_release(&v);
	}
	clock_gettime(CLOCK_MONOTONIC, &begin);
	CHECK_EQ(table_make(&table, &p, s, TABLE_FLAT, 20), 0);
	printf("# %d stacks as a table: %.1f ms\n", MANY, ms_since(&begin));
	CHECK_EQ(table.total, sum);
	table_release(&table);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	CHECK_EQ(tree_make(&tree, &p, s, 0, UINT32_MAX), 0);
	printf("# %d stacks as a tree: %.1f ms\n", MANY, ms_since(&begin));
	CHECK_EQ(tree.node[0].size, sum);
	tree_release(&tree);
	sites_free(s);
	free(p.row);
}

int main(void)
{
	RUN(site_rule);
	RUN(passed_over);
	RUN(by_site);
	RUN(held);
	RUN(other_keys);
	RUN(matching);
	RUN(interrupted);
	RUN(function_table);
	RUN(difference);
	RUN(call_tree);
	RUN(stacks_text);
	RUN(report_json);
	RUN(shrunk);
	RUN(errors);
	RUN(many_stacks);
	free(text);
	return test_status();
}
