// SPDX-License-Identifier: GPL-3.0-or-later
#include "leaks/captured.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arch/abi.h"
#include "base/array.h"
#include "base/search.h"

/* ---- registers -------------------------------------------------------------- */

static const struct {
	const char *name;
	size_t offset;
} registers[] = {
#define REGISTER(name)                                         \
	{                                                      \
#name, offsetof(struct user_regs_struct, name) \
	}
	REGISTER(rax), REGISTER(rbx), REGISTER(rcx),	 REGISTER(rdx),	    REGISTER(rsi),
	REGISTER(rdi), REGISTER(rbp), REGISTER(rsp),	 REGISTER(r8),	    REGISTER(r9),
	REGISTER(r10), REGISTER(r11), REGISTER(r12),	 REGISTER(r13),	    REGISTER(r14),
	REGISTER(r15), REGISTER(rip), REGISTER(fs_base), REGISTER(gs_base),
};
#define REGISTERS (sizeof(registers) / sizeof(*registers))

/* The block that ADDRESS is in, or -1. */
static ssize_t block_at(const struct capture *c, raddr_t address)
{
	size_t at = SEARCH(i, c->blocks, c->block[i].address <= address);

	return at && address - c->block[at - 1].address < c->block[at - 1].size ? (ssize_t)at - 1
										: -1;
}

/*
 * A thread that is in malloc or free has a block's chunk in its hands, 16 bytes before the block.
 * Where blocks were found by walking the heap that may be all that points to one.
 */
#define CHUNK_WORDS 128u /* of the stack */
#define CHUNK_HEAD  16u

static size_t chunk_words(const struct capture *c)
{
	return c->before ? REGISTERS + CHUNK_WORDS : 0;
}

static size_t thread_words(const struct capture *c, const struct capture_thread *t)
{
	return REGISTERS + 1 + t->vector_bytes / sizeof(uint64_t) + chunk_words(c);
}

/*
 * Thread T's, into WORD. A block that is the stack which the thread is on is held for sure, so its
 * beginning is one of them, too.
 */
static void take_words(const struct capture *c, const struct capture_thread *t, uint64_t *word)
{
	ssize_t stack = block_at(c, t->general.rsp);
	size_t vectors = t->vector_bytes / sizeof(*word);
	uint64_t *chunk = word + REGISTERS + 1 + vectors;

	for (size_t i = 0; i < REGISTERS; i++)
		memcpy(&word[i], (const char *)&t->general + registers[i].offset, sizeof(*word));
	word[REGISTERS] = stack < 0 ? 0 : c->block[stack].address;
	if (vectors)
		memcpy(&word[REGISTERS + 1], t->vector, vectors * sizeof(*word));
	if (!chunk_words(c))
		return;
	memcpy(chunk, word, REGISTERS * sizeof(*word));
	capture_read(c, t->general.rsp & ~7ull, chunk + REGISTERS, CHUNK_WORDS * sizeof(*word));
	for (size_t i = 0; i < chunk_words(c); i++)
		chunk[i] += CHUNK_HEAD;
}

static int make_words(struct captured *c)
{
	const struct capture *capture = c->capture;
	size_t n = 0;

	for (size_t i = 0; i < capture->threads; i++)
		n += thread_words(capture, &capture->thread[i]);
	c->word = calloc(n + 1, sizeof(*c->word));
	c->first_word = calloc(capture->threads + 1, sizeof(*c->first_word));
	if (!c->word || !c->first_word)
		return -ENOMEM;
	for (size_t i = n = 0; i < capture->threads; i++) {
		c->first_word[i] = n;
		take_words(capture, &capture->thread[i], c->word + n);
		n += thread_words(capture, &capture->thread[i]);
	}
	c->first_word[capture->threads] = n;
	return 0;
}

const char *captured_register(const struct captured *c, size_t word, size_t *thread)
{
	size_t i = 0, n;

	while (i + 1 < c->capture->threads && word >= c->first_word[i + 1])
		i++;
	*thread = i;
	n = word - c->first_word[i];
	if (n < REGISTERS)
		return registers[n].name;
	if (n == REGISTERS)
		return "rsp";
	return n < thread_words(c->capture, &c->capture->thread[i]) - chunk_words(c->capture)
		       ? "a vector register"
		       : "a word of malloc's";
}

/* ---- stacks ----------------------------------------------------------------- */

/*
 * A handler may run on a stack of its own that is an array on the stack it has interrupted. The
 * kernel has then put a frame there that says so: struct ucontext with the other stack's bounds, and
 * where the interrupted function's rsp was.
 *
 *	0   flags, link	   16  the other stack's address    24  its flags    32  its size
 *	40  r8 to rcx	  160  rsp		  168  rip    176  eflags   184  cs (0x33), gs, fs, ss
 */
#define FRAME_SEARCH (256u << 10)
#define FRAME_WORDS  24u

static raddr_t interrupted_rsp(const struct capture *c, raddr_t rsp, raddr_t end)
{
	raddr_t most = end - rsp < FRAME_SEARCH ? end : rsp + FRAME_SEARCH;
	uint64_t word[512];
	size_t step = sizeof(word) / sizeof(*word) - FRAME_WORDS;

	for (raddr_t at = rsp & ~7ull; at < most; at += step * sizeof(*word)) {
		size_t n = capture_read(c, at, word,
					most - at < sizeof(word) ? most - at : sizeof(word)) /
			   sizeof(*word);

		for (size_t i = 0; i + FRAME_WORDS <= n && i < step; i++) {
			const uint64_t *w = word + i;

			if ((w[23] & 0xffff) == CS_64 && w[22] & 2 && !(w[22] >> 32) &&
			    !(w[0] >> 8) && rsp >= w[2] && rsp - w[2] < w[4])
				return w[20];
		}
	}
	return 0;
}

/*
 * The control block of a thread is above its stack, and says where that is: an address and a size,
 * one behind the other. Which fields these are depends on the library and its version; but no
 * others can be right by chance.
 */
#define CONTROL_WORDS 320u

static bool control_block_says(const struct capture *c, raddr_t control, struct leaks_span *stack)
{
	uint64_t word[CONTROL_WORDS];
	size_t n = capture_read(c, control, word, sizeof(word)) / sizeof(*word);

	for (size_t i = 0; i + 1 < n; i++) {
		uint64_t start = word[i], size = word[i + 1];

		if (!start || !size || start % PAGE || size % PAGE || start >= control ||
		    control - start >= size || size - (control - start) > 2 * PAGE)
			continue;
		*stack = (struct leaks_span){ start, control };
		return true;
	}
	return false;
}

/* The stack that T is on. */
static bool stack_of(const struct capture *c, const struct capture_thread *t,
		     struct leaks_span *stack)
{
	const struct capture_range *r = capture_range_at(c, t->general.rsp);

	if (r && r->kind == CAPTURE_STACK) {
		*stack = (struct leaks_span){ r->start, r->end };
		return true;
	}
	return r && control_block_says(c, t->general.fs_base, stack) &&
	       t->general.rsp >= stack->start && t->general.rsp < stack->end;
}

/* From where on T, which is on STACK, uses it. */
static raddr_t used_from(const struct capture *c, const struct capture_thread *t,
			 const struct leaks_span *stack)
{
	raddr_t rsp = t->general.rsp, other = interrupted_rsp(c, rsp, stack->end);

	if (other >= stack->start && other < rsp)
		rsp = other;
	return rsp - stack->start > RED_ZONE ? (rsp - RED_ZONE) & ~7ull : stack->start;
}

ssize_t captured_stack(const struct captured *c, raddr_t address)
{
	for (size_t i = 0; i < c->capture->threads; i++) {
		const struct capture_thread *t = &c->capture->thread[i];
		struct leaks_span stack;

		if (stack_of(c->capture, t, &stack) && address < stack.end &&
		    address >= used_from(c->capture, t, &stack))
			return (ssize_t)i;
	}
	return -1;
}

/* ---- ranges ----------------------------------------------------------------- */

static int by_start(const void *a, const void *b)
{
	const struct leaks_span *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Whether nothing that is used is in SPAN: no thread, no block. */
void leaks_spans_sort(struct leaks_span *span, size_t n)
{
	if (n)
		qsort(span, n, sizeof(*span), by_start);
}

static bool is_unused(const struct capture *c, const struct leaks_span *span)
{
	size_t at;

	for (size_t i = 0; i < c->threads; i++) {
		raddr_t rsp = c->thread[i].general.rsp;

		if (rsp >= span->start && rsp < span->end)
			return false;
	}
	at = SEARCH(i, c->blocks, c->block[i].address < span->start);
	return block_at(c, span->start) < 0 &&
	       (at == c->blocks || c->block[at].address >= span->end);
}

struct spans {
	struct leaks_span *span;
	size_t count, room;
};

static int add(const struct capture *c, struct spans *s, raddr_t start, raddr_t end)
{
	struct leaks_span span = { start, end };

	if (start >= end || !is_unused(c, &span))
		return 0;
	if (array_room(&s->span, s->count, &s->room, sizeof(*s->span)))
		return -ENOMEM;
	s->span[s->count++] = span;
	return 0;
}

/* What of stacks is not in use, ascending. */
static int find_unused(const struct capture *c, struct spans *s)
{
	struct leaks_span stack;
	int err = 0;

	for (size_t i = 0; i < c->threads && !err; i++)
		if (stack_of(c, &c->thread[i], &stack))
			err = add(c, s, stack.start, used_from(c, &c->thread[i], &stack));
	leaks_spans_sort(s->span, s->count);
	return err;
}

static void add_range(struct captured *c, raddr_t start, raddr_t end, bool roots)
{
	if (start < end)
		c->range[c->image.ranges++] =
			(struct leaks_range){ .start = start, .end = end, .roots = roots };
}

static int make_ranges(struct captured *c)
{
	const struct capture *capture = c->capture;
	struct spans s = { 0 };
	int err = find_unused(capture, &s);

	c->range = err ? NULL : calloc(capture->ranges + s.count + 1, sizeof(*c->range));
	for (size_t i = 0, k = 0; c->range && i < capture->ranges; i++) {
		const struct capture_range *r = &capture->range[i];
		raddr_t at = r->start;

		while (k < s.count && s.span[k].end <= at)
			k++;
		for (; k < s.count && s.span[k].start < r->end && s.span[k].end <= r->end; k++) {
			add_range(c, at, s.span[k].start, r->roots);
			at = s.span[k].end > at ? s.span[k].end : at;
		}
		add_range(c, at, r->end, r->roots);
	}
	free(s.span);
	return c->range ? 0 : -ENOMEM;
}

/* ---- the whole -------------------------------------------------------------- */

static size_t read_captured(void *ctx, raddr_t address, void *to, size_t size)
{
	const struct captured *c = ctx;

	return capture_read(c->capture, address, to, size);
}

static const void *next_captured(void *ctx, raddr_t address, raddr_t end, void *buffer, size_t size,
				 raddr_t *at, size_t *len)
{
	const struct captured *c = ctx;

	return capture_next(c->capture, address, end, buffer, size, at, len);
}

static bool is_constant(void *ctx, raddr_t address)
{
	const struct captured *c = ctx;
	const struct capture_range *r = capture_range_at(c->capture, address);
	size_t at = SEARCH(i, c->constants, c->constant[i].end <= address);

	return at < c->constants && address >= c->constant[at].start && !(r && r->write);
}

static bool is_interrupted(void *ctx)
{
	const struct captured *c = ctx;

	return c->source->interrupted(c->ctx);
}

static uint64_t family_of(void *ctx, uint32_t stack)
{
	const struct captured *c = ctx;

	return c->source->family(c->ctx, stack);
}

int captured_init(struct captured *c, const struct capture *capture,
		  const struct leaks_span *constant, size_t constants,
		  const struct captured_source *source, void *ctx)
{
	int err;

	*c = (struct captured){ .capture = capture,
				.constant = constant,
				.constants = constants,
				.source = source,
				.ctx = ctx };
	err = make_words(c);
	if (!err)
		err = make_ranges(c);
	if (err) {
		captured_release(c);
		return err;
	}
	c->image = (struct leaks_image){ .block = capture->block,
					 .blocks = capture->blocks,
					 .range = c->range,
					 .ranges = c->image.ranges,
					 .word = c->word,
					 .words = c->first_word[capture->threads],
					 .read = read_captured,
					 .next = next_captured,
					 .family = family_of,
					 .constant = is_constant,
					 .interrupted = is_interrupted,
					 .ctx = c,
					 .threads = 1 };
	return 0;
}

void captured_release(struct captured *c)
{
	free(c->range);
	free(c->word);
	free(c->first_word);
	*c = (struct captured){ 0 };
}
