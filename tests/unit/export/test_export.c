// SPDX-License-Identifier: GPL-3.0-or-later
#include "test.h"

#include <errno.h>
#include <zlib.h>

#include "base/intern.h"
#include "base/units.h"
#include "export/call_graph.h"
#include "export/export.h"
#include "export/xml.h"
#include "inject/wire_stack.h"
#include "supervisor/export/profile.pb-c.h"

/*
 * Names that would break out of each format, one frame above another: 1 root, 2 main, 3 evil (two
 * functions, one inlined into the other), 4 operator new, 5 [truncated], 6 below it evil2 at the
 * address of 3.
 */
#define EVIL  "a\"b<c>&d;e'f\\g\nh\x01i\xff\xc3(]]>--\xef\xbf\xbf"
#define EVIL2 "\xc3\xa9t\xc3\xa9 --- 12"

static const struct {
	uint32_t parent;
	uint64_t pc;
} nodes[] = {
	[1] = { 0, 0 },
	[2] = { 1, 0x1000 },
	[3] = { 2, 0x2000 },
	[4] = { 3, 0x3000 },
	[5] = { 1, WIRE_PC_TRUNCATED },
	[6] = { 5, 0x2000 },
};
static const struct symbol_frame f_main = {
	.function = "main", .file = "/src/a.c", .line = 3, .module = "/bin/a"
};
static const struct symbol_frame f_evil[] = {
	{ .function = EVIL, .file = "/src/\"<&.c", .line = 7, .module = "/bin/a", .inlined = true },
	{ .function = "around", .module = "/bin/a" },
};
static const struct symbol_frame f_new = { .function = "operator new(unsigned long)",
					   .module = "/lib/libstdc++.so.6",
					   .skip = SKIP_ALLOCATOR };
static const struct symbol_frame f_evil2 = { .function = EVIL2, .module = "/lib/\xff.so" };

static uint32_t parent(void *ctx, uint32_t node, uint64_t *pc)
{
	(void)ctx;
	*pc = node < sizeof(nodes) / sizeof(*nodes) ? nodes[node].pc : 0;
	return node < sizeof(nodes) / sizeof(*nodes) ? nodes[node].parent : 0;
}

static struct symbol_frames frames(void *ctx, uint32_t node, uint64_t pc)
{
	(void)ctx;
	(void)pc;
	switch (node) {
	case 2: return (struct symbol_frames){ 1, &f_main };
	case 3: return (struct symbol_frames){ 2, f_evil };
	case 4: return (struct symbol_frames){ 1, &f_new };
	default: return (struct symbol_frames){ 1, &f_evil2 };
	}
}

static struct view_row rows[] = {
	{ .stack = 4, .size = 1000, .count = 10, .total_size = 5000, .total_count = 50 },
	{ .stack = 6, .size = 300, .count = 3, .total_size = 300, .total_count = 3 },
	{ .stack = 2, .size = 0, .count = 0, .total_size = 70, .total_count = 7 },
};
static struct view view = { .key = VIEW_STACK,
			    .ms = 2000,
			    .has_totals = true,
			    .total_size = 1300,
			    .total_count = 13,
			    .count = 3,
			    .row = rows };
static struct export e = { .view = &view,
			   .moment = "at 2.0 s",
			   .pid = 12,
			   .command = "a<b>\"",
			   .exe = "/bin/a",
			   .command_line = "a x",
			   .began = 1000000 };

static char *text;
static size_t text_len;

/* What WRITE prints, in text. */
static int written(int (*write)(FILE *out, const struct export *e))
{
	struct sites_source source = { .parent = parent, .frames = frames };
	FILE *out;
	int err;

	free(text);
	out = open_memstream(&text, &text_len);
	e.sites = sites_new(&source);
	err = write(out, &e);
	fclose(out);
	sites_free(e.sites);
	return err;
}

static const char *put(void (*fn)(FILE *out, const char *t), const char *what)
{
	FILE *out;

	free(text);
	out = open_memstream(&text, &text_len);
	fn(out, what);
	fclose(out);
	return text;
}

static size_t lines(void)
{
	size_t n = 0;

	for (const char *c = text; *c; c++)
		n += *c == '\n';
	return n;
}

static void test_xml(void)
{
	FILE *out;

	CHECK_STR(put(xml_put, EVIL),
		  "a&quot;b&lt;c&gt;&amp;d;e&#39;f\\\\g\\nh\\x01i\\xff\\xc3(]]&gt;--\\uffff");
	CHECK_STR(put(xml_put, EVIL2), EVIL2);
	for (size_t n = 0; n < 6; n++) {
		static const char *const want[] = {
			"", "", "..", "&lt;..", "&lt;\xc3\xa9..", "&lt;\xc3\xa9&amp;bc"
		};

		free(text);
		out = open_memstream(&text, &text_len);
		xml_put_cut(out, "<\xc3\xa9&bc", n);
		fclose(out);
		CHECK_STR(text, want[n]);
	}
}

static void test_dot(void)
{
	CHECK_STR(put(graph_put_text, EVIL),
		  "a\\\"b<c>&amp;d;e'f\\\\\\\\g\\\\nh\\\\x01i\\\\xff\\\\xc3(]]>--\\\\uffff");
	CHECK_STR(put(graph_put_text, "\\"), "\\\\\\\\"); /* dot reads it as two */
	CHECK_EQ(written(export_graph), 0);
	CHECK(strstr(text, "digraph \"a<b>\\\"\" {\n"));
	CHECK(strstr(text, "tooltip=\"1300 bytes\"];\n"));
}

static void test_short_names(void)
{
	static const struct {
		const char *name, *want;
	} cases[] = {
		{ "main", "main" },
		{ "f(int, char const*)", "f" },
		{ "std::map<int, std::less<int> >::operator[](int&&)", "std::map::operator[]" },
		{ "(anonymous namespace)::f<a>(b)", "(anonymous namespace)::f" },
		{ "ns::(anonymous namespace)::g()", "ns::(anonymous namespace)::g" },
		{ "operator<(a const&, b)", "operator<" },
		{ "a::operator()(int) const", "a::operator() const" },
		{ "x::operator->()", "x::operator->" },
		{ "operators(int)", "operators" },
		{ "<[u8] as core::X>::go", "<[u8] as core::X>::go" },
		{ "alloc::vec::Vec<T>::push", "alloc::vec::Vec::push" },
		{ "f(", "f" },
		{ "f<<<<", "f" },
		{ ">)]}", ">)]}" },
		{ "", "" },
		{ "operator", "operator" },
	};
	char small[12];

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char to[60];

		graph_short_name(to, sizeof(to), cases[i].name);
		CHECK_STR(to, cases[i].want);
	}
	graph_short_name(small, sizeof(small), "abcdefghijklmnopqrstuvwxyz");
	CHECK(strlen(small) < sizeof(small));
	graph_short_name(small, sizeof(small), "operator<<<<<<<<<<<<<<<<<<<<<<");
	CHECK(strlen(small) < sizeof(small));
	graph_short_name(small, sizeof(small),
			 "\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80");
	CHECK(strlen(small) % 4 == 0);
}

static void test_folded(void)
{
	CHECK_EQ(written(export_folded), 0);
	CHECK_STR(
		text,
		"main;around;a\"b<c>&d:e'f\\\\g\\nh\\x01i\\xff\\xc3(]]>--\\uffff 1000\n[truncated];" EVIL2
		" 300\n");
	e.total = true;
	CHECK_EQ(written(export_folded), 0);
	e.total = false;
	CHECK_EQ(lines(), 3);
	CHECK(strstr(text, "\nmain 70\n"));
}

/* As Go writes it; nothing of a name ends a line or a field. */
static void test_pprof_text(void)
{
	static const char begin[] = "heap profile: 13: 1300 [60: 5370] @ heap/2\n"
				    "10: 1000 [50: 5000] @ 0x2000 0x1000\n#\t0x1fff\t";

	CHECK_EQ(written(export_pprof_text), 0);
	CHECK(!strncmp(text, begin, strlen(begin)));
	CHECK(strstr(text, "\n#\t0xfff\tmain\t"));
	CHECK(strstr(text, "\n\n3: 300 [3: 300] @"));
	CHECK(strstr(text, "\n\n0: 0 [7: 70] @ 0x1000\n#\t0xfff\tmain"));
	CHECK(strstr(text, "\n\nMAPPED_LIBRARIES:\n"));
}

static void test_flamegraph(void)
{
	CHECK_EQ(written(export_flamegraph), 0);
	CHECK(strstr(text, "<text id=\"title\" x=\"10\" y=\"22\">a&lt;b&gt;&quot; (12)</text>"));
	CHECK(strstr(
		text,
		"data-at=\"0 1300 0\"><title>all\n1.3 KiB (1300 bytes), 100.00 %, 13 blocks</title>"));
	CHECK(strstr(text, "data-at=\"1000 300 1\"><title>[truncated]\n"));
	CHECK(!strstr(text, "operator new"));
	CHECK_STR(text + text_len - strlen("]]></script>\n</svg>\n"), "]]></script>\n</svg>\n");
	CHECK(strstr(text, "]]>") == text + text_len - strlen("]]></script>\n</svg>\n"));
}

/* Two functions at one address, and one at none: each has a line of its own in the table. */
static void test_jemalloc(void)
{
	static const char head[] =
		"--- symbol\nbinary=/bin/a\n0x0000000000001fff around--a\"b<c>&d;e'f\\\\g\\nh\\x01i\\xff\\xc3(]]>- -\\uffff\n0x0000000000000fff main\n0x";
	char name[64];
	uint64_t a[4];
	int n;

	CHECK_EQ(written(export_jemalloc), 0);
	CHECK(!strncmp(text, head, strlen(head)));
	CHECK(strstr(
		text,
		"\n--- heap\nheap_v2/0\n  t*: 13: 1300 [60: 5370]\n@ 0x1fff 0x1000\n  t*: 10: 1000 [50: 5000]\n@ 0x8"));
	n = sscanf(strstr(text, " main\n") + 6, "0x%" SCNx64 " %*[^\n]\n0x%" SCNx64 " %63s", &a[0],
		   &a[1], name);
	CHECK_EQ(n, 3);
	CHECK_STR(name, "[truncated]");
	CHECK(n == 3 && a[0] != a[1] && a[0] != 0x1fff && a[1]);
	n = sscanf(strstr(text, "[50: 5000]\n") + 11, "@ 0x%" SCNx64 " 0x%" SCNx64 "\n", &a[2],
		   &a[3]);
	CHECK(n == 2 && a[2] == a[0] && a[3] == a[1] + 1);
}

/* The gzipped message, whole. */
static Perftools__Profiles__Profile *unpacked(void)
{
	static uint8_t bytes[65536];
	z_stream z = { .next_in = (Bytef *)text,
		       .avail_in = (uInt)text_len,
		       .next_out = bytes,
		       .avail_out = sizeof(bytes) };

	CHECK_EQ(inflateInit2(&z, 15 + 16), Z_OK);
	CHECK_EQ(inflate(&z, Z_FINISH), Z_STREAM_END);
	inflateEnd(&z);
	return perftools__profiles__profile__unpack(NULL, sizeof(bytes) - z.avail_out, bytes);
}

static void test_pprof(void)
{
	Perftools__Profiles__Profile *p;

	CHECK_EQ(written(export_pprof), 0);
	p = unpacked();
	CHECK(p);
	if (!p)
		return;
	CHECK_EQ(p->n_sample_type, 4);
	CHECK_EQ(p->n_sample, 3);
	CHECK_EQ(p->n_location, 4);
	CHECK_EQ(p->n_function, 5);
	CHECK_EQ(p->time_nanos, 1002000000000);
	CHECK_STR(p->string_table[0], "");
	CHECK_STR(p->string_table[p->default_sample_type], "inuse_space");
	CHECK_EQ(p->sample[0]->n_location_id, 2);
	CHECK_EQ(p->sample[0]->value[3], 1000);
	CHECK_EQ(p->sample[2]->value[1], 70);
	CHECK_EQ(p->location[0]->n_line, 2);
	CHECK_EQ(p->location[0]->line[0]->line, 7);
	CHECK_STR(p->string_table[p->function[0]->name],
		  "a\"b<c>&d;e'f\\\\g\\nh\\x01i\\xff\\xc3(]]>--\\uffff");
	CHECK_STR(p->string_table[p->function[0]->filename], "/src/\"<&.c");
	perftools__profiles__profile__free_unpacked(p, NULL);
}

/* Of the past only what was live is known: two amounts. */
static void test_pprof_past(void)
{
	Perftools__Profiles__Profile *p;

	view.has_totals = false;
	CHECK_EQ(written(export_pprof), 0);
	view.has_totals = true;
	p = unpacked();
	CHECK(p && p->n_sample_type == 2 && p->sample[0]->n_value == 2 &&
	      p->sample[0]->value[1] == 1000);
	if (p)
		perftools__profiles__profile__free_unpacked(p, NULL);
}

static void test_nothing(void)
{
	struct view empty = { .key = VIEW_STACK };
	const struct export before = e;

	e.view = &empty;
	e.command = e.exe = e.command_line = NULL;
	for (const struct export_format *f = export_formats; f->name; f++)
		CHECK_EQ(written(f->write), 0);
	e = before;
}

static bool enough(void *ctx)
{
	(void)ctx;
	return true;
}

static void test_interrupted(void)
{
	e.interrupted = enough;
	CHECK_EQ(written(export_folded), -EINTR);
	CHECK_EQ(written(export_jemalloc), -EINTR);
	CHECK_EQ(written(export_pprof), -EINTR);
	CHECK_EQ(written(export_pprof_text), -EINTR);
	CHECK_EQ(written(export_flamegraph), -EINTR);
	CHECK_EQ(written(export_graph), -EINTR);
	e.interrupted = NULL;
}

static void test_intern(void)
{
	struct intern t = { .texts = true }, p = { 0 };
	char(*name)[8] = malloc(5000 * sizeof(*name));

	for (unsigned i = 0; i < 5000; i++) {
		snprintf(name[i], sizeof(name[i]), "%u", i % 2500);
		CHECK_EQ(intern(&t, name[i]), i % 2500 + 1);
		CHECK_EQ(intern(&p, name[i]), i + 1);
	}
	CHECK_EQ(intern(&p, name[7]), 8);
	CHECK_EQ(t.count, 2500);
	intern_release(&t);
	intern_release(&p);
	free(name);
}

static void test_amounts(void)
{
	static const struct {
		int64_t bytes;
		const char *want;
	} cases[] = {
		{ 0, "0 bytes" },	    { 1, "1 byte" },	       { 1023, "1023 bytes" },
		{ 1024, "1.0 KiB" },	    { -1024, "-1.0 KiB" },     { -5, "-5 bytes" },
		{ 5 << 20, "5.0 MiB" },	    { 3ll << 29, "1.50 GiB" }, { INT64_MAX, "8.00 EiB" },
		{ INT64_MIN, "-8.00 EiB" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct text_buffer b;

		CHECK_STR(export_amount(&b, cases[i].bytes), cases[i].want);
	}
}

/* What a format wants are bits of their own: pprof asks for no map, html is a text. */
static void test_wants(void)
{
	CHECK(!(export_format("pprof")->flags & EXPORT_RESIDENCY));
	CHECK(!(export_format("html")->flags & EXPORT_BINARY));
}

int main(void)
{
	RUN(test_xml);
	RUN(test_dot);
	RUN(test_short_names);
	RUN(test_folded);
	RUN(test_flamegraph);
	RUN(test_pprof_text);
	RUN(test_jemalloc);
	RUN(test_pprof);
	RUN(test_pprof_past);
	RUN(test_nothing);
	RUN(test_interrupted);
	RUN(test_intern);
	RUN(test_amounts);
	RUN(test_wants);
	free(text);
	return test_status();
}
