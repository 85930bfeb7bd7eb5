// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/print_leaks.h"

#include <inttypes.h>
#include <string.h>

#include "base/escape.h"
#include "base/json.h"
#include "base/units.h"
#include "report/print.h"

/* ---- text ------------------------------------------------------------------- */

struct grouped {
	char text[32];
};

/* "70,000" */
static const char *grouped(struct grouped *g, uint64_t n)
{
	char *p = g->text + sizeof(g->text);
	unsigned digits = 0;

	*--p = '\0';
	do {
		if (digits && digits % 3 == 0)
			*--p = ',';
		*--p = (char)('0' + n % 10);
		digits++;
	} while (n /= 10);
	return p;
}

static void print_record(FILE *out, const struct leak_record *l, size_t number, size_t of)
{
	struct grouped all, direct, indirect, blocks;

	escape_printf(out, "%s", grouped(&all, l->bytes + l->indirect_bytes));
	if (l->indirect_blocks)
		escape_printf(out, " (%s direct, %s indirect)", grouped(&direct, l->bytes),
			      grouped(&indirect, l->indirect_bytes));
	escape_printf(out,
		      " bytes in %s blocks are %s in loss record %zu of %zu (stack %" PRIu32 ")\n",
		      grouped(&blocks, l->blocks), leak_kind_words[l->kind], number, of, l->stack);
}

static struct leak_sum others(const struct leak_report *r, size_t rows)
{
	struct leak_sum sum = { 0 };

	for (size_t i = rows; i < r->records; i++) {
		sum.bytes += r->record[i].bytes;
		sum.blocks += r->record[i].blocks;
	}
	return sum;
}

static void print_sum(FILE *out, const char *what, struct leak_sum sum)
{
	struct grouped bytes, blocks;

	escape_printf(out, "%18s: %s bytes in %s blocks\n", what, grouped(&bytes, sum.bytes),
		      grouped(&blocks, sum.blocks));
}

#define SHOWN 4u /* prefixes */

static void print_prefixes(FILE *out, const struct leak_report *r)
{
	uint64_t rest = 0;

	if (!r->prefixes)
		return;
	fputs("held by pointers behind a prefix:", out);
	for (size_t i = 0; i < r->prefixes; i++) {
		const struct leak_prefix *p = &r->prefix[i];
		struct grouped blocks;

		if (i >= SHOWN || !p->offset)
			rest += p->blocks;
		else
			escape_printf(out, "%s %s at +%" PRIu64 " (%s)", i ? "," : "",
				      grouped(&blocks, p->blocks), p->offset, prefix_name(p->kind));
	}
	if (rest)
		fprintf(out, ", %" PRIu64 " at others", rest);
	putc('\n', out);
}

static void print_way(FILE *out, const struct leak_report *r)
{
	struct text_buffer size, time;

	escape_printf(out, "process %d captured by %s: stopped for %" PRIu64 ".%" PRIu64 " ms; ",
		      (int)r->pid, capture_way_name(r->way), r->pause_ns / 1000000,
		      r->pause_ns / 100000 % 10);
	escape_printf(out, "%s read in %s\n", size_text(&size, r->scanned),
		      time_text(&time, r->scan_ms));
}

void print_leaks(FILE *out, const struct leak_report *r, size_t rows, struct sites *sites,
		 const struct layout *l)
{
	const struct leak_sum *sum = r->sum;
	struct leak_sum lost = {
		sum[LEAK_DEFINITE].bytes + sum[LEAK_INDIRECT].bytes - r->spared.bytes,
		sum[LEAK_DEFINITE].blocks + sum[LEAK_INDIRECT].blocks - r->spared.blocks
	};

	rows = rows < r->records ? rows : r->records;
	for (size_t i = 0; i < rows && !ferror(out); i++) {
		print_record(out, &r->record[i], i + 1, r->records);
		print_stack(out, sites, r->record[i].stack, l);
		putc('\n', out);
	}
	if (rows < r->records) {
		struct leak_sum more = others(r, rows);
		struct grouped bytes, blocks;

		escape_printf(out, "(others): %s bytes in %s blocks in %zu more records\n\n",
			      grouped(&bytes, more.bytes), grouped(&blocks, more.blocks),
			      r->records - rows);
	}
	escape_printf(out, "LEAK SUMMARY%s:\n", r->fresh ? ", since the scan before" : "");
	for (int kind = 0; kind < LEAK_KINDS; kind++)
		print_sum(out, leak_kind_words[kind], r->sum[kind]);
	print_sum(out, "suppressed", r->suppressed);
	if (!r->at_end) {
		print_prefixes(out, r);
		print_way(out, r);
	}
	if (r->remark[0])
		escape_printf(out, "%s\n", r->remark);
	fprintf(out, "SUMMARY: mtrun: %" PRIu64 " byte(s) leaked in %" PRIu64 " allocation(s).\n",
		lost.bytes, lost.blocks);
}

/* ---- JSON ------------------------------------------------------------------- */

static void sum_json(struct json *j, const char *key, struct leak_sum sum)
{
	json_object(j, key);
	json_uint(j, "bytes", sum.bytes);
	json_uint(j, "blocks", sum.blocks);
	json_end_object(j);
}

static void record_json(struct json *j, const struct leak_record *l, struct sites *sites)
{
	json_newline(j);
	json_object(j, NULL);
	json_string(j, "kind", leak_kind_names[l->kind]);
	json_uint(j, "bytes", l->bytes);
	json_uint(j, "blocks", l->blocks);
	json_uint(j, "indirect_bytes", l->indirect_bytes);
	json_uint(j, "indirect_blocks", l->indirect_blocks);
	json_uint(j, "stack_id", l->stack);
	print_stack_json(j, "stack", sites, l->stack);
	json_end_object(j);
}

void print_leaks_json(FILE *out, const struct leak_report *r, size_t rows, struct sites *sites)
{
	struct json j;

	rows = rows < r->records ? rows : r->records;
	json_init(&j, out);
	json_object(&j, NULL);
	json_int(&j, "pid", r->pid);
	for (int kind = 0; kind < LEAK_KINDS; kind++)
		sum_json(&j, leak_kind_names[kind], r->sum[kind]);
	sum_json(&j, "suppressed", r->suppressed);
	json_bool(&j, "new", r->fresh);
	json_string(&j, "captured_by", capture_way_name(r->way));
	json_fixed(&j, "pause_ms", r->pause_ns / 1000, 3);
	json_uint(&j, "scan_ms", r->scan_ms);
	json_uint(&j, "scanned", r->scanned);
	json_string(&j, "remark", r->remark[0] ? r->remark : NULL);
	json_array(&j, "prefixes");
	for (size_t i = 0; i < r->prefixes; i++) {
		json_object(&j, NULL);
		json_string(&j, "name", prefix_name(r->prefix[i].kind));
		json_uint(&j, "offset", r->prefix[i].offset);
		json_uint(&j, "blocks", r->prefix[i].blocks);
		json_end_object(&j);
	}
	json_end_array(&j);
	json_array(&j, "records");
	for (size_t i = 0; i < rows && !ferror(out); i++)
		record_json(&j, &r->record[i], sites);
	json_end_array(&j);
	sum_json(&j, "others", others(r, rows));
	json_end_object(&j);
	json_finish(&j);
}
