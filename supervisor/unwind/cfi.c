// SPDX-License-Identifier: GPL-3.0-or-later
#include "unwind/cfi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/space.h"
#include "symbols/elf.h"
#include "symbols/module.h"
#include "unwind/cfi_kept.h"
#include "unwind/cfi_rules.h"

/*
 * cfi.c - the tables by which the trampoline walks stacks: built from a module's call frame
 * information, written into the image's pool.
 *
 * For each module the pool gets three arrays, one behind the other:
 *
 *	offs[nrows]	ascending offsets from the module's start; row i holds until offs[i + 1],
 *	                the last one to the module's end
 *	rule[nrows]	index into wire_tables.rule: the same few hundred rules serve all modules
 *	index[]		for each KiB of code the row that holds at its beginning, so that a search
 *	                looks at some ten rows
 *
 * They are made in memory of our own first (cfi_rows.h) and kept there for the next process that
 * maps the same file (cfi_kept.h). Of the rules, too, there is a copy of ours, with the hash table
 * that finds equal ones.
 *
 * The tables are appended to, never changed: a hook may read the old ones at any time. A target
 * that made their file anew while it was attached to could have kept a way to write there: what is
 * read back (cfi_lookup()) is checked.
 */

#define KIB 1024u

static struct cfi_rules *numbering; /* of what is being read */

int cfi_init(struct cfi *cfi, struct wire_tables *tables, uint64_t pool_size)
{
	struct cfi_rules *rules = malloc(sizeof(*rules));

	if (!rules)
		return -ENOMEM;
	rules_begin(rules);
	*cfi = (struct cfi){
		.tables = tables, .pool_size = pool_size, .nrules = 1, .rules = rules
	};
	tables->rule[0] = rules->rule[0];
	return 0;
}

void cfi_release(struct cfi *cfi)
{
	free(cfi->rules);
	cfi->rules = NULL;
}

void cfi_forget(void)
{
	kept_forget();
	free(numbering);
	numbering = NULL;
}

static struct cfi_rules *scratch(void)
{
	if (!numbering)
		numbering = malloc(sizeof(*numbering));
	return numbering;
}

/* ---- into an image ------------------------------------------------------- */

static uint64_t align_up(uint64_t v, uint64_t to) { return (v + to - 1) / to * to; }

static void write_rules(struct cfi *cfi, const struct rows_piece *p, uint16_t *to)
{
	static uint16_t number[WIRE_RULES]; /* the piece's -> the image's */

	for (uint32_t i = 0; i < p->nrules; i++)
		number[i] = rule_index(cfi->rules, &p->rules[i]);
	for (; cfi->nrules < cfi->rules->count; cfi->nrules++)
		cfi->tables->rule[cfi->nrules] = cfi->rules->rule[cfi->nrules];
	for (size_t i = 0; i < p->n; i++)
		to[i] = number[p->rule[i]];
}

/* The entries of the KiBs whose beginnings are in P, whose first row is number FIRST of all. */
static void write_index(uint32_t *index, const struct rows_piece *p, size_t first, uint32_t *kib,
			uint64_t end)
{
	size_t row = 0;

	for (; (uint64_t)*kib * KIB < end; (*kib)++) {
		while (row + 1 < p->n && p->offs[row + 1] <= (uint64_t)*kib * KIB)
			row++;
		index[*kib] = (uint32_t)(first + row);
	}
}

static int rows_write(struct cfi *cfi, const struct rows *r, struct wire_module *out)
{
	uint8_t *pool = cfi->tables->pool;
	size_t n = rows_count(r), done = 0;
	uint64_t offs = align_up(cfi->pool_used, 64), rules = offs + n * sizeof(*r->piece->offs);
	uint64_t index = align_up(rules + n * sizeof(*r->piece->rule), 4);
	uint32_t kibs = (uint32_t)((r->hi - r->lo + KIB - 1) / KIB), kib = 0;
	uint64_t end = index + (kibs + 1ull) * 4;

	if (end > WIRE_POOL || (end > cfi->pool_size && !(cfi->grow && cfi->grow(cfi, end))))
		return -ENOSPC;
	space_touch(pool + offs, end - offs);
	for (unsigned i = 0; i < r->pieces; i++) {
		const struct rows_piece *p = &r->piece[i];
		uint64_t next = i + 1 < r->pieces ? r->piece[i + 1].offs[0] : r->hi - r->lo;

		memcpy((uint32_t *)(void *)(pool + offs) + done, p->offs, p->n * sizeof(*p->offs));
		write_rules(cfi, p, (uint16_t *)(void *)(pool + rules) + done);
		write_index((uint32_t *)(void *)(pool + index), p, done, &kib, next);
		done += p->n;
	}
	((uint32_t *)(void *)(pool + index))[kibs] = (uint32_t)(n - 1);
	cfi->pool_used = end;
	out->rows = offs;
	out->rules = rules;
	out->index = index;
	out->nrows = (uint32_t)n;
	out->pad = 0;
	return 0;
}

int cfi_build_elf(struct cfi *cfi, struct elf *elf, raddr_t text_start, raddr_t text_end,
		  raddr_t bias, struct wire_module *out)
{
	struct wire_module m = { .start = text_start, .end = text_end };
	const struct rows *rows;
	int rc = -ENOMEM;

	if (text_end <= text_start || text_end - text_start > UINT32_MAX)
		return -ENOENT;
	rows = scratch() ? kept_rows(elf, text_start - bias, text_end - bias, scratch(), &rc)
			 : NULL;
	if (!rows)
		return rc;
	if (rows_count(rows) == 1 && !rows->piece[0].rule[0])
		return -ENOENT; /* nothing is known about any of it */
	rc = rows_write(cfi, rows, &m);
	if (!rc)
		*out = m;
	return rc;
}

int cfi_build_rows(struct cfi *cfi, raddr_t start, raddr_t end, const struct cfi_row *row,
		   size_t count, struct wire_module *out)
{
	struct wire_module m = { .start = start, .end = end };
	struct rows rows = { .pieces = 0 };
	int rc = scratch() && count
			 ? rows_given(&rows, (uint32_t)(end - start), row, count, scratch())
			 : -ENOENT;

	if (!rc)
		rc = rows_write(cfi, &rows, &m);
	rows_release(&rows);
	if (!rc)
		*out = m;
	return rc;
}

int cfi_build(struct cfi *cfi, const struct module *module, struct wire_module *out)
{
	return cfi_build_elf(cfi, module->elf, module->text_start, module->text_end, module->bias,
			     out);
}

const struct wire_rule *cfi_lookup(const struct cfi *cfi, const struct wire_module *m, uint64_t pc)
{
	const uint8_t *pool = cfi->tables->pool;
	const uint32_t *offs = (const uint32_t *)(const void *)(pool + m->rows);
	const uint16_t *rule = (const uint16_t *)(const void *)(pool + m->rules);
	const uint32_t *index = (const uint32_t *)(const void *)(pool + m->index);
	uint32_t off, lo, hi;

	if (pc < m->start || pc >= m->end)
		return NULL;
	off = (uint32_t)(pc - m->start);
	lo = __atomic_load_n(&index[off / KIB], __ATOMIC_RELAXED);
	hi = __atomic_load_n(&index[off / KIB + 1], __ATOMIC_RELAXED);
	if (lo > hi || hi >= m->nrows)
		return NULL;
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo + 1) / 2;

		if (__atomic_load_n(&offs[mid], __ATOMIC_RELAXED) <= off)
			lo = mid;
		else
			hi = mid - 1;
	}
	return &cfi->rules->rule[rule[lo]];
}
