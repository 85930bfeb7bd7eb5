// SPDX-License-Identifier: GPL-3.0-or-later
#include "log/records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inject/wire_stack.h"
#include "test.h"

static struct log_input input(const struct log_bytes *b)
{
	return (struct log_input){ .at = b->data, .end = b->data + b->len };
}

static void test_numbers(void)
{
	static const uint64_t n[] = { 0,     1,		 127,	    128,       16383,
				      16384, UINT32_MAX, INT64_MAX, UINT64_MAX };
	struct log_bytes b = { 0 };
	struct log_input in;

	for (size_t i = 0; i < sizeof(n) / sizeof(*n); i++) {
		log_put_number(&b, n[i]);
		log_put_signed(&b, (int64_t)n[i]);
	}
	in = input(&b);
	for (size_t i = 0; i < sizeof(n) / sizeof(*n); i++) {
		CHECK(log_take_number(&in, UINT64_MAX) == n[i]);
		CHECK(log_take_signed(&in) == (int64_t)n[i]);
	}
	CHECK(!in.wrong && in.at == in.end);
	CHECK(log_take_number(&in, UINT64_MAX) == 0 && in.wrong);
	in.wrong = false;
	in.at = (const uint8_t *)"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"; /* 65 bits */
	in.end = in.at + 10;
	CHECK(log_take_number(&in, UINT64_MAX) == 0 && in.wrong);
	log_bytes_release(&b);
}

static void test_strings(void)
{
	struct log_bytes b = { 0 };
	struct log_input in;

	log_put_string(&b, "malloc");
	log_put_string(&b, NULL);
	log_put_string(&b, "");
	in = input(&b);
	CHECK(!strcmp(log_take_string(&in), "malloc"));
	CHECK(!log_take_string(&in) && !in.wrong);
	CHECK(!strcmp(log_take_string(&in), "") && in.at == in.end && !in.wrong);
	b.data[3] = '\0'; /* inside */
	in = input(&b);
	CHECK(!log_take_string(&in) && in.wrong);
	log_bytes_release(&b);
}

static void test_facts(void)
{
	struct log_run run = { 7, 4096, 128, "0.1", "a b" }, run2;
	struct log_process p = { .pid = 12,
				 .ppid = 3,
				 .state = 2,
				 .wait_status = -9,
				 .began_ms = 5,
				 .ended_ms = 77,
				 .sample = 1,
				 .image_bytes = 9,
				 .threads = 4,
				 .preattach = { .state = PREATTACH_UNKNOWN, .why = "because" },
				 .command = "sh",
				 .exe = NULL,
				 .unsupervised = "static" },
			   q;
	struct log_bytes b = { 0 };
	struct log_input in;

	log_put_run(&b, &run);
	in = input(&b);
	CHECK(!log_take_run(&in, &run2) && run2.counted == 7 && run2.sample == 4096 &&
	      run2.depth == 128 && !strcmp(run2.command_line, "a b"));
	for (size_t n = 0; n < b.len; n++) {
		in = (struct log_input){ b.data, b.data + n, false };
		CHECK(log_take_run(&in, &run2) == -EINVAL);
	}
	b.len = 0;
	log_put_process(&b, &p);
	in = input(&b);
	CHECK(!log_take_process(&in, &q) && q.pid == 12 && q.ppid == 3 && q.state == 2 &&
	      q.wait_status == -9 && q.began_ms == 5 && q.ended_ms == 77);
	CHECK(q.sample == 1 && q.image_bytes == 9 && q.threads == 4 &&
	      q.preattach.state == PREATTACH_UNKNOWN && !strcmp(q.preattach.why, "because"));
	CHECK(!strcmp(q.command, "sh") && !q.exe && !strcmp(q.unsupervised, "static"));
	for (size_t n = 0; n < b.len; n++) {
		in = (struct log_input){ b.data, b.data + n, false };
		CHECK(log_take_process(&in, &q) == -EINVAL);
	}
	log_bytes_release(&b);
}

static void test_modules(void)
{
	struct modules from = { 0 }, to = { 0 };
	struct module m = { .path = (char *)"/lib/libc.so.6",
			    .start = 0x7f0000000000,
			    .end = 0x7f0000200000,
			    .text_start = 0x7f0000001000,
			    .text_end = 0x7f0000100000,
			    .bias = 0x7f0000000000,
			    .roles = MODULE_LIBC,
			    .build_id = { 1, 2, 3 },
			    .build_id_len = 3,
			    .born = 0,
			    .dead = UINT32_MAX };
	struct log_bytes b = { 0 };
	struct log_input in;

	CHECK(!modules_add(&from, &m));
	m.path = (char *)"/bin/x y";
	m.dead = 17;
	CHECK(!modules_add(&from, &m));
	log_put_modules(&b, &from);
	in = input(&b);
	CHECK(!log_take_modules(&in, &to) && to.count == 2);
	CHECK(!strcmp(to.module[1]->path, "/bin/x y") && to.module[1]->dead == 17 &&
	      to.module[0]->build_id[2] == 3 && to.module[0]->roles == MODULE_LIBC);
	modules_release(&to);
	in = (struct log_input){ b.data, b.data + b.len - 1, false };
	CHECK(log_take_modules(&in, &to) == -EINVAL && !to.count);
	modules_release(&from);
	log_bytes_release(&b);
}

static int one_node(void *ctx, const struct log_node *n)
{
	struct log_node **at = ctx;

	*(*at)++ = *n;
	return 0;
}

static int one_symbol(void *ctx, const struct log_symbol *s)
{
	*(bool *)ctx = s->module == 2 && s->pc == (0x401000 | WIRE_PC_EXACT) &&
		       s->frames.count == 2 && !strcmp(s->frames.frame[0].function, "f") &&
		       s->frames.frame[0].inlined && s->frames.frame[0].skip == SKIP_NAMESPACE &&
		       !s->frames.frame[1].file && s->frames.frame[1].line == 7;
	return 0;
}

static int one_mark(void *ctx, const struct log_mark *m)
{
	*(bool *)ctx = m->number == 3 && m->ms == 99 && !strcmp(m->label, "here");
	return 0;
}

static void test_entries(void)
{
	static const struct log_node nodes[] = { { 5, 0, WIRE_PC_TRUNCATED },
						 { 9, 5, 0x401000 | WIRE_PC_EXACT },
						 { 7, 5, 0x7fffffffffff } };
	static const struct symbol_frame frames[] = { { .function = "f",
							.file = "f.c",
							.line = 3,
							.column = 1,
							.module = "x",
							.address = 0x401000,
							.inlined = true,
							.skip = SKIP_NAMESPACE | SKIP_USER },
						      { .function = "g", .line = 7 } };
	struct log_node taken[3], *at = taken;
	struct log_bytes b = { 0 };
	struct log_input in;
	bool ok = false;

	for (int i = 0; i < 3; i++)
		log_put_node(&b, &nodes[i]);
	in = input(&b);
	CHECK(!log_take_nodes(&in, one_node, &at) && at == taken + 3);
	for (int i = 0; i < 3; i++)
		CHECK(taken[i].id == nodes[i].id && taken[i].parent == nodes[i].parent &&
		      taken[i].pc == nodes[i].pc);
	b.len = 0;
	log_put_symbol(&b, &(struct log_symbol){ 2, 0x401000 | WIRE_PC_EXACT, { 2, frames } });
	in = input(&b);
	CHECK(!log_take_symbols(&in, one_symbol, &ok) && ok);
	for (size_t n = 1; n < b.len; n++) {
		in = (struct log_input){ b.data, b.data + n, false };
		CHECK(log_take_symbols(&in, one_symbol, &ok) == -EINVAL);
	}
	b.len = 0;
	ok = false;
	log_put_mark(&b, &(struct log_mark){ 3, 99, "here" });
	in = input(&b);
	CHECK(!log_take_marks(&in, one_mark, &ok) && ok);
	log_bytes_release(&b);
}

static void test_index_of_a_file(void)
{
	struct log_index from = { 0 }, to = { 0 };
	const struct log_points *points;
	struct log_bytes b = { 0 };
	struct log_input in;

	for (uint64_t i = 0; i < 1000; i++) {
		CHECK(!log_index_entry(&from,
				       &(struct log_entry){ 64 + i * 100, 1 + i % 3, i & 1, i % 5,
							    i * 10, i * 10 + 9, i * 7 }));
		CHECK(!log_index_point(&from, 5 - i % 3,
				       &(struct log_point){ i / 3 * 2, i * i % 1000, i * 70 }));
	}
	CHECK(from.processes == 3 && from.points[0].process == 3);
	/* the last interval's, again */
	CHECK(!log_index_point(&from, 5, &(struct log_point){ 666, 123456, 70000 }));
	log_put_index(&b, &from);
	in = input(&b);
	CHECK(!log_take_index(&in, &to) && to.entries == 1000 && to.processes == 3);
	CHECK(to.entry[999].offset == 64 + 99900 && to.entry[999].events == 6993 &&
	      to.entry[999].first_ms == 9990 && to.entry[999].process == 4);
	points = log_index_points(&to, 5);
	CHECK(points && points->count == 334 && points->point[333].bytes == 123456 &&
	      points->point[333].interval == 666 && points->point[1].ms == 210);
	CHECK(!log_index_points(&to, 6) && !log_index_points(&to, 2));
	log_index_release(&to);
	for (size_t n = 0; n < b.len; n++) {
		in = (struct log_input){ b.data, b.data + n, false };
		CHECK(log_take_index(&in, &to) == -EINVAL && !to.entries);
	}
	log_index_release(&from);
	log_bytes_release(&b);
}

int main(void)
{
	RUN(test_numbers);
	RUN(test_strings);
	RUN(test_facts);
	RUN(test_modules);
	RUN(test_entries);
	RUN(test_index_of_a_file);
	return test_status();
}
