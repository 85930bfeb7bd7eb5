// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_heapfile.c - a .heap file says what was put into it; one that was cut, changed or made up
 * says what is wrong with it, and nothing worse.
 */
#include "test.h"

#include <zlib.h>

#include "base/outside.h"
#include "inject/wire_stack.h"
#include "report/compare.h"
#include "report/heapfile.h"
#include "report/view.h"

static const struct symbol_frame f_main = { .function = "main",
					    .file = "/src/a b.c",
					    .line = 40,
					    .column = 5,
					    .module = "/bin/app",
					    .address = 0x2000 };
static const struct symbol_frame f_get[] = {
	{ .function = "Pool::operator=(int)",
	  .file = "/src/back\\slash\n.c",
	  .line = 7,
	  .module = "/bin/app",
	  .address = 0x3000,
	  .inlined = true,
	  .skip = SKIP_NAMESPACE },
	{ .function = "get",
	  .file = "/src/a b.c",
	  .line = 12,
	  .column = 9,
	  .module = "/bin/app",
	  .address = 0x3000 },
};
static const struct symbol_frame f_new = { .function = "operator new",
					   .module = "/lib/libstdc++.so.6",
					   .address = 0x9000,
					   .skip = SKIP_ALLOCATOR };

/* 2 main -> 5 get -> 9 operator new; 7 [truncated] -> 8 operator new, interrupted */
static uint32_t parent(void *ctx, uint32_t node, uint64_t *pc)
{
	static const struct {
		uint32_t parent;
		uint64_t pc;
	} nodes[] = {
		[1] = { 0, 0 },
		[2] = { 1, 0x2000 },
		[5] = { 2, 0x3000 },
		[9] = { 5, 0x9000 },
		[7] = { 1, WIRE_PC_TRUNCATED },
		[8] = { 7, 0x9000 | WIRE_PC_EXACT },
	};

	(void)ctx;
	*pc = node < 10 ? nodes[node].pc : 0;
	return node < 10 ? nodes[node].parent : 0;
}

static struct symbol_frames frames(void *ctx, uint32_t node, uint64_t pc)
{
	(void)ctx;
	(void)pc;
	return node == 2   ? (struct symbol_frames){ 1, &f_main }
	       : node == 5 ? (struct symbol_frames){ 2, f_get }
			   : (struct symbol_frames){ 1, &f_new };
}

static struct sites *sites_of_source(void)
{
	struct sites_source source = { .parent = parent, .frames = frames };

	return sites_new(&source);
}

static struct profile_row rows[] = {
	{ .stack = 0, .size = 1, .count = 1, .total_size = 1, .total_count = 1 },
	{ .stack = 5, .size = 0, .count = 0, .total_size = 100, .total_count = 10, .temporary = 9 },
	{ .stack = 8, .size = 7, .count = 1, .total_size = 7, .total_count = 1 },
	{ .stack = 9, .size = 4096, .count = 2, .total_size = 8192, .total_count = 4 },
};

/* A file as heap_write() makes it, with room for one byte more; to be freed. */
static char *written(size_t *len)
{
	struct profile p = { .ms = 1234, .has_totals = true, .count = 4, .row = rows };
	struct module module = { .path = (char *)"/bin/app",
				 .start = 0x1000,
				 .end = 0x8000,
				 .text_start = 0x2000,
				 .text_end = 0x4000,
				 .bias = 0x1000,
				 .roles = 1,
				 .build_id = { 0xab, 0xcd },
				 .build_id_len = 2,
				 .dead = UINT32_MAX };
	struct modules modules = { 0 };
	struct marks marks = { 0 };
	struct heap_facts facts = { .pid = 812,
				    .command = "app",
				    .exe = "/bin/app",
				    .why = "u0",
				    .clock_ms = 1795273445123,
				    .counted = 3,
				    .peak = 5000,
				    .peak_ms = 99,
				    .limit_hit = true,
				    .request = 10,
				    .allocated = 4104,
				    .limit = 4110,
				    .request_stack = 9,
				    .preattach = { PREATTACH_KNOWN, 70, 3, "" },
				    .marks = &marks,
				    .modules = &modules };
	struct sites *sites = sites_of_source();
	char *text = NULL;
	FILE *f = open_memstream(&text, len);

	CHECK_EQ(modules_add(&modules, &module), 0);
	CHECK_EQ(marks_add(&marks, 50, "phase 2"), 0);
	CHECK_EQ(heap_write(f, &facts, &p, sites), 0);
	fclose(f);
	sites_free(sites);
	modules_release(&modules);
	marks_release(&marks);
	return realloc(text, *len + 1);
}

static char *copied(const char *text, size_t len)
{
	char *copy = malloc(len + 1);

	memcpy(copy, text, len);
	return copy;
}

/* Everything that a command would do with it. */
static void look(struct heap *h)
{
	struct sites_source source = { .parent = stacks_parent,
				       .frames = stacks_frames,
				       .ctx = h->stacks };
	struct view_options options = { .limit = VIEW_ALL };
	struct sites *sites = sites_new(&source);
	struct compare *c = compare_new();
	struct table table;
	struct tree tree;
	struct view view;

	for (options.key = 0; options.key <= VIEW_MODULE; options.key++)
		if (view_make(&view, &h->profile, sites, &options) == 0)
			view_release(&view);
	if (table_make(&table, &h->profile, sites, TABLE_FLAT, 5) == 0)
		table_release(&table);
	if (tree_make(&tree, &h->profile, sites, false, 1000000) == 0)
		tree_release(&tree);
	if (c && compare_add(c, &h->profile, sites) == 0)
		CHECK(compare_sites(c));
	compare_free(c);
	sites_free(sites);
}

/* Takes TEXT over. What is wrong is one line. */
static bool opens(char *text, size_t len, char *why)
{
	struct heap h;

	why[0] = '\0';
	if (heap_parse(&h, text, len, OUTSIDE_OURS, why, 256) == 0) {
		look(&h);
		heap_release(&h);
		return true;
	}
	CHECK(*why && !strchr(why, '\n'));
	return false;
}

/* The checksum is made right, so that what was changed is read. TEXT has room for 20 more bytes. */
static size_t sealed(char *text, size_t len)
{
	return len + (size_t)sprintf(text + len, "# end %08lx\n",
				     crc32(0, (const Bytef *)text, (uInt)len));
}

static size_t body(const char *text, size_t len)
{
	const char *end = memmem(text, len, "\n# end ", 7);

	return (size_t)(end - text) + 1;
}

static void test_what_was_written(void)
{
	size_t len;
	char *text = written(&len), why[256];
	struct symbol_frames f;
	struct heap h;
	uint64_t pc;

	CHECK(strstr(text, "heap profile:      4:     4104 [    16:     8300] @ heapprofile\n"));
	/* without operator new */
	CHECK(strstr(text, "     2:     4096 [     4:     8192] @ 0x2fff 0x2000\n"));
	CHECK(strstr(text, "     0:        0 [    10:      100] @ 0x2fff 0x2000\n"));
	/* the interrupted pc itself, no pseudo-frame */
	CHECK(strstr(text, "     1:        7 [     1:        7] @ 0x9000\n"));
	CHECK(strstr(text, "     1:        1 [     1:        1] @ 0x1\n"));
	CHECK(!strchr(strstr(text, "# mtrun heap"), '='));
	if (heap_parse(&h, text, len, OUTSIDE_OURS, why, sizeof(why))) {
		printf("# %s\n", why);
		CHECK(false);
		return;
	}
	CHECK_EQ(h.facts.pid, 812);
	CHECK_STR(h.facts.command, "app");
	CHECK_STR(h.facts.exe, "/bin/app");
	CHECK_STR(h.facts.why, "u0");
	CHECK_EQ(h.facts.clock_ms, 1795273445123);
	CHECK_EQ(h.facts.counted, 3);
	CHECK_EQ(h.facts.peak, 5000);
	CHECK_EQ(h.facts.peak_ms, 99);
	CHECK(h.facts.limit_hit && h.facts.request == 10 && h.facts.allocated == 4104 &&
	      h.facts.limit == 4110 && h.facts.request_stack == 9);
	CHECK(h.facts.preattach.state == PREATTACH_KNOWN && h.facts.preattach.bytes == 70 &&
	      h.facts.preattach.blocks == 3);
	CHECK_EQ(h.marks.made, 1);
	CHECK_STR(marks_at(&h.marks, 0)->label, "phase 2");
	CHECK_EQ(h.modules.count, 1);
	CHECK(h.modules.module[0]->build_id_len == 2 && h.modules.module[0]->build_id[1] == 0xcd &&
	      h.modules.module[0]->text_start == 0x2000);
	CHECK_EQ(h.profile.ms, 1234);
	CHECK(h.profile.has_totals && h.profile.count == 4 &&
	      !memcmp(h.profile.row, rows, sizeof(rows)));
	CHECK_EQ(stacks_parent(h.stacks, 9, &pc), 5);
	CHECK_EQ(pc, 0x9000);
	CHECK_EQ(stacks_parent(h.stacks, 8, &pc), 7);
	CHECK(pc == (0x9000 | WIRE_PC_EXACT));
	CHECK_EQ(stacks_parent(h.stacks, 2, &pc), 0);
	f = stacks_frames(h.stacks, 5, 0);
	CHECK_EQ(f.count, 2);
	for (size_t i = 0; i < f.count && f.count == 2; i++) {
		CHECK_STR(f.frame[i].function, f_get[i].function);
		CHECK_STR(f.frame[i].file, f_get[i].file);
		CHECK_STR(f.frame[i].module, f_get[i].module);
		CHECK(f.frame[i].line == f_get[i].line && f.frame[i].column == f_get[i].column &&
		      f.frame[i].address == f_get[i].address &&
		      f.frame[i].inlined == f_get[i].inlined && f.frame[i].skip == f_get[i].skip);
	}
	heap_release(&h);
}

static void test_cut_anywhere(void)
{
	size_t len;
	char *text = written(&len), why[256];

	for (size_t n = 0; n < len; n++)
		CHECK(!opens(copied(text, n), n, why));
	CHECK(opens(copied(text, len), len, why));
	free(text);
}

static void test_a_bit_changed(void)
{
	size_t len;
	char *text = written(&len), why[256];

	for (size_t bit = 0; bit < len * 8; bit++) {
		text[bit / 8] ^= (char)(1 << bit % 8);
		CHECK(!opens(copied(text, len), len, why));
		text[bit / 8] ^= (char)(1 << bit % 8);
	}
	free(text);
}

/* The same behind a checksum that is right: whoever made it may have meant harm. */
static void test_made_up(void)
{
	size_t len, end, opened = 0;
	char *text = written(&len), why[256];

	end = body(text, len);
	/* each of a byte's in turn */
	for (size_t bit = 0; bit < end * 8; bit += (size_t)test_size(5, 1)) {
		char *copy = malloc(end + 40);

		memcpy(copy, text, end);
		copy[bit / 8] ^= (char)(1 << bit % 8);
		opened += opens(copy, sealed(copy, end), why);
	}
	for (size_t n = 1; n < end; n += (size_t)test_size(3, 1)) {
		char *copy = malloc(end + 40);

		memcpy(copy, text, n);
		copy[n - 1] = '\n';
		opened += opens(copy, sealed(copy, n), why);
	}
	CHECK(opened > 0);
	free(text);
}

static void refuses(const char *second, const char *words)
{
	char why[256], *text = malloc(4096);
	size_t n = (size_t)sprintf(
		text,
		"heap profile:      0:        0 [     0:        0] @ heapprofile\n\nMAPPED_LIBRARIES:\n%s",
		second);

	CHECK(!opens(text, sealed(text, n), why));
	if (!strstr(why, words)) {
		printf("# '%s', not '%s'\n", why, words);
		CHECK(false);
	}
}

static void test_what_is_wrong(void)
{
	char why[256];

	CHECK(!opens(copied("", 0), 0, why));
	CHECK(strstr(why, "not a .heap file"));
	refuses("", "no symbols");
	refuses("# mtrun heap 2\n", "version 2");
	refuses("# mtrun heap x\n", "no version");
	refuses("# mtrun heap 1\n", "do not add up");
	refuses("# mtrun heap 1\n# live 0 0\n# r 5 0 0\n", "line 6 ");
	refuses("# mtrun heap 1\n# live 5 1\n# r 0 4 1\n", "do not add up");
	refuses("# mtrun heap 1\n# s main\n# f 2 0 0 0 0 0 0 0\n", "line 6 ");
	refuses("# mtrun heap 1\n# s main\n# f 1 0 0 0 0 0 0 0\n# n 3 3 1000 1 1\n", "line 7 ");
	refuses("# mtrun heap 1\n# s main\n# f 1 0 0 0 0 0 0 0\n# n 3 0 1000 1 2\n", "line 7 ");
	refuses("# mtrun heap 1\n# s main\n# f 1 0 0 0 0 0 0 0\n# n 4294967295 0 1000 1 1\n",
		"line 7 ");
	refuses("# mtrun heap 1\n# live 0 0\n# r 0 9223372036854775807 1\n# r 0 9223372036854775807 1\n",
		"line 6 ");
	refuses("# mtrun heap 1\n# live 0 0\nnonsense\n", "line 6 ");
}

/* A chain of 16000 nodes with LEAVES stacks that end in it. */
static char *comb(size_t leaves, size_t *len)
{
	enum { CHAIN = 16000 };
	char *text = malloc((CHAIN + 2 * leaves) * 40 + 1000);
	int n = sprintf(text,
			"heap profile:      0:        0 [     0:        0] @ heapprofile\n\n"
			"MAPPED_LIBRARIES:\n# mtrun heap 1\n# live %zu %zu\n# s main\n"
			"# f 1 0 0 0 0 0 0 0\n",
			leaves, leaves);

	for (size_t i = 1; i <= CHAIN; i++)
		n += sprintf(text + n, "# n %zu %zu 1000 1 1\n", i, i - 1);
	for (size_t i = 1; i <= leaves; i++)
		n += sprintf(text + n, "# n %zu %u 1000 1 1\n", CHAIN + i, CHAIN);
	for (size_t i = 1; i <= leaves; i++)
		n += sprintf(text + n, "# r %zu 1 1\n", CHAIN + i);
	*len = sealed(text, (size_t)n);
	return text;
}

/* A file of 1 MB whose stacks have 136 million frames. */
static void test_many_deep_stacks(void)
{
	char why[256], *text;
	size_t len;

	text = comb(1000, &len);
	CHECK(opens(text, len, why));
	text = comb(8500, &len);
	CHECK(!opens(text, len, why));
	CHECK(strstr(why, "136008500 frames together"));
}

/* ---- what others wrote --------------------------------------------------- */

/* A table of symbols, so that no file is looked at. The two last stacks are one. */
#define SYMBOLS                                                                            \
	"--- symbol\nbinary=/bin/server\n0x0000000000001000 operator new(unsigned long)\n" \
	"0x0000000000002004 main--grow\n0x0000000000003004 work\n---\n--- heap\n"
#define STACKS_1                                                            \
	"@ 0x1000 0x2005 0x3005\n  t*: 3: 30 [4: 70]\n  t1: 2: 20 [0: 0]\n" \
	"@ 0x2004\n  t*: 2: 50 [2: 50]\n"
#define STACKS_2                                                       \
	"     3:       30 [     4:       70] @ 0x1000 0x2005 0x3005\n" \
	"     2:       50 [     2:       50] @ 0x2004\n"

static void imports(const char *text, const char *by, int64_t live, uint64_t ever)
{
	char why[256] = "";
	size_t len = strlen(text);
	struct symbol_frames f;
	struct heap h;
	int64_t size = 0;
	uint64_t total = 0;

	if (heap_parse(&h, copied(text, len), len, OUTSIDE_OURS, why, sizeof(why))) {
		printf("# %s\n", why);
		CHECK(false);
		return;
	}
	CHECK_STR(h.foreign, by);
	CHECK_STR(h.facts.exe, "/bin/server");
	CHECK_STR(h.facts.command, "server");
	CHECK_EQ(h.profile.count, 2);
	for (size_t i = 0; i < h.profile.count; i++) {
		size += h.profile.row[i].size;
		total += h.profile.row[i].total_size;
	}
	CHECK_EQ(size, live);
	CHECK_EQ(total, ever);
	/* the allocator is left out; inlined functions are innermost first */
	f = stacks_frames(h.stacks, h.profile.row[0].stack, 0);
	CHECK_EQ(f.count, 2);
	CHECK_STR(f.frame[0].function, "grow");
	CHECK_STR(f.frame[1].function, "main");
	CHECK(f.frame[0].inlined && !f.frame[1].inlined);
	f = stacks_frames(h.stacks, stacks_parent(h.stacks, h.profile.row[0].stack, &total), 0);
	CHECK_STR(f.frame[0].function, "work");
	heap_release(&h);
}

static void test_imported(void)
{
	static const char *const texts[] = {
		SYMBOLS "heap_v2/0\n  t*: 5: 80 [6: 120]\n" STACKS_1 "\nMAPPED_LIBRARIES:\n",
		SYMBOLS "heap profile:      5:       80 [     6:      120] @ heapprofile\n" STACKS_2
			"\nMAPPED_LIBRARIES:\n",
		SYMBOLS "heap profile:      5:       80 [     6:      120] @ heap_v2/10\n" STACKS_2
			"\nMAPPED_LIBRARIES:\n",
		SYMBOLS "heap_v2/10\n  t*: 5: 80 [6: 120]\n" STACKS_1 "\nMAPPED_LIBRARIES:\n",
		SYMBOLS "heap profile:      5:       80 [     6:      120] @ heap/100\n" STACKS_2
			"\nMAPPED_LIBRARIES:\n",
	};
	char why[256];

	imports(texts[0], "jemalloc", 80, 120);
	imports(texts[1], "gperftools", 80, 120);
	/* 30 / (1 - e^-(10/10)) + 50 / (1 - e^-(25/10)); 70 of 4, and the 50 again */
	imports(texts[2], "gperftools", 47 + 54, 85 + 54);
	imports(texts[3], "jemalloc", 47 + 54, 85 + 54);
	/* the period is half of it: 3 of 10 bytes are of 15, 2 of 25 of 4, 4 of 17.5 of 11 */
	imports(texts[4], "gperftools", 150 + 100, 200 + 100);
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		for (size_t n = 0, len = strlen(texts[i]); n < len; n++)
			if (opens(copied(texts[i], n), n, why) && n < len - 1)
				CHECK(false);
}

int main(void)
{
	RUN(test_imported);
	RUN(test_what_was_written);
	RUN(test_cut_anywhere);
	RUN(test_a_bit_changed);
	RUN(test_made_up);
	RUN(test_what_is_wrong);
	RUN(test_many_deep_stacks);
	return test_status();
}
