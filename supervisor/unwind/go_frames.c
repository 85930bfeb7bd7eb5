// SPDX-License-Identifier: GPL-3.0-or-later
#include "unwind/go_frames.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"
#include "symbols/elf.h"

/*
 * go_frames.c - how the stacks of Go programs are walked.
 *
 * A function of Go that has a frame saves rbp below its return address and lets rbp point there:
 * the caller's frame is found by rbp alone, wherever it is. That is what leads from the thread's
 * own stack, on which the runtime allocates (runtime.systemstack), back to the goroutine that has
 * asked for memory: the switch leaves rbp as it is. A function without a frame (leaves, in
 * assembly) has its return address at rsp; it is told by its first instructions, none of which
 * saves rbp.
 *
 * The runtime's switches have no frame, but are not at rsp's mercy: their rule is that of the
 * others, and costs the name of the function that called the switch. What a thread or a goroutine
 * begins in ends the walk: rbp is somebody else's there.
 */

/* bytes in which a frame is made: the check for room on the stack comes first */
#define PROLOGUE 64u

static const struct wire_rule none, outermost = { .cfa = CFA_END };
static const struct wire_rule framed = {
	.cfa = CFA_FRAME,
	.cfa_off = 16,
	.off = { [WIRE_RBP] = -2, RULE_LOST, RULE_LOST, RULE_LOST, RULE_LOST, RULE_LOST }
};
static const struct wire_rule leaf = { .cfa = CFA_RSP,
				       .cfa_off = 8,
				       .off = { RULE_SAME, RULE_SAME, RULE_SAME, RULE_SAME,
						RULE_SAME, RULE_SAME } };

struct function {
	uint64_t start;
	const struct wire_rule *rule;
};

static bool begins_one_of(const char *name, const char *const *with)
{
	for (; *with; with++)
		if (text_begins(name, *with))
			return true;
	return false;
}

/* push rbp; mov rbp, rsp or mov [rsp], rbp or mov [rsp + N], rbp */
static bool saves_rbp(const uint8_t *p, size_t left)
{
	static const uint8_t push[] = { 0x55, 0x48, 0x89, 0xe5 },
			     store[] = { 0x48, 0x89, 0x2c, 0x24 },
			     store8[] = { 0x48, 0x89, 0x6c, 0x24 },
			     store32[] = { 0x48, 0x89, 0xac, 0x24 };

	if (left > PROLOGUE)
		left = PROLOGUE;
	return memmem(p, left, push, sizeof(push)) || memmem(p, left, store, sizeof(store)) ||
	       memmem(p, left, store8, sizeof(store8)) || memmem(p, left, store32, sizeof(store32));
}

static const struct wire_rule *rule_of(const struct elf *elf, const char *name, uint64_t start,
				       uint64_t size)
{
	static const char *const first[] = { "_rt0_",	      "runtime.rt0_go", "runtime.mstart",
					     "runtime.clone", "runtime.goexit", NULL };
	static const char *const change[] = { "runtime.systemstack", "runtime.mcall",
					      "runtime.morestack", "runtime.asmcgocall", NULL };
	const uint8_t *p;
	size_t left;

	if (begins_one_of(name, first))
		return &outermost;
	if (begins_one_of(name, change))
		return &framed;
	p = elf_at(elf, start, 1, &left);
	return p && saves_rbp(p, size && size < left ? size : left) ? &framed : &leaf;
}

static int by_start(const void *a, const void *b)
{
	const struct function *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static int functions_read(const struct elf *elf, struct function **function, size_t *count)
{
	struct elf_symbol symbol;
	size_t cursor = 0, room = 0;

	*function = NULL;
	*count = 0;
	while (elf_next_symbol(elf, &cursor, &symbol)) {
		if (symbol.type != STT_FUNC)
			continue;
		if (array_room(function, *count, &room, sizeof(**function)))
			return -ENOMEM;
		(*function)[(*count)++] =
			(struct function){ symbol.value,
					   rule_of(elf, symbol.name, symbol.value, symbol.size) };
	}
	if (*count)
		qsort(*function, *count, sizeof(**function), by_start);
	return 0;
}

struct out {
	struct cfi_synth_row *row;
	size_t count, room;
	const struct wire_rule *last;
};

static int emit(struct out *o, uint64_t offset, const struct wire_rule *rule)
{
	if (rule == o->last)
		return 0;
	if (array_room(&o->row, o->count, &o->room, sizeof(*o->row)))
		return -ENOMEM;
	o->row[o->count++] = (struct cfi_synth_row){ (uint32_t)offset, *rule };
	o->last = rule;
	return 0;
}

int go_rows(const struct elf *elf, const struct cfi_synth_range *range, size_t nranges, uint64_t lo,
	    struct cfi_synth_row **rows, size_t *count)
{
	struct out o = { .row = NULL };
	struct function *f;
	size_t n, i = 0;
	int err = functions_read(elf, &f, &n);

	for (size_t r = 0; r < nranges && !err; r++) {
		while (i < n && f[i].start < range[r].start)
			i++;
		err = emit(&o, range[r].start - lo,
			   i && f[i - 1].start <= range[r].start ? f[i - 1].rule : &framed);
		for (; i < n && f[i].start < range[r].end && !err; i++)
			err = emit(&o, f[i].start - lo, f[i].rule);
		if (!err)
			err = emit(&o, range[r].end - lo, &none);
	}
	free(f);
	if (err) {
		free(o.row);
		return err;
	}
	*rows = o.row;
	*count = o.count;
	return 0;
}
