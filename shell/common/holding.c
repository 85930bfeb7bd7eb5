// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/holding.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process/process.h"
#include "report/classify_address.h"
#include "shell/common/lookup.h"
#include "shell/common/shell.h"
#include "tracee/backtrace.h"

/*
 * Whose frame a word on a stack is in is told by the stack of then: registers and memory are the
 * capture's.
 */
#define FRAMES 1024u

static size_t read_then(void *ctx, raddr_t address, void *to, size_t len)
{
	return capture_read(ctx, address, to, len);
}

static void of_thread(struct holding *h, const struct capture_thread *t)
{
	h->thread = t->tid;
	memcpy(h->thread_name, t->name, sizeof(h->thread_name));
	h->thread_name[sizeof(h->thread_name) - 1] = '\0';
}

static int take_name(struct holding *h, const char *name)
{
	h->name = strdup(name);
	return h->name ? 0 : -ENOMEM;
}

/* What FRAME's function is called is found out later. */
static void ask_for(const struct process *p, const struct unwind_frame *frame, struct holding *h)
{
	h->function = (struct symbol_question){ .pc = frame->pc, .exact = frame->exact };
	h->function.module =
		modules_find(&p->modules, frame->exact ? frame->pc : frame->pc - 1, UINT32_MAX);
}

int holding_look_up(struct shell *shell, struct process *p, struct holding *h)
{
	const struct symbol_question *q = &h->function;
	struct symbol_frames f;

	if (!q->pc)
		return 0;
	lookup_addresses(shell, p, q, 1);
	f = symbols_resolve(p->symbols, q->module, q->pc, q->exact);
	h->module = f.frame[f.count - 1].module;
	return take_name(h, f.frame[f.count - 1].function);
}

/*
 * The frame that ADDRESS is in is the first that ends above it: the caller's begins there. *LOW:
 * where it begins. -1: none, it is above all of them.
 */
static ssize_t frame_of(const struct unwind_frame *frame, ssize_t n, raddr_t rsp, raddr_t address,
			raddr_t *low)
{
	*low = rsp;
	for (ssize_t i = 0; i < n; i++) {
		if (frame[i].cfa > address)
			return i;
		*low = frame[i].cfa > *low ? frame[i].cfa : *low;
	}
	return -1;
}

static int on_stack(const struct leaking *l, const struct capture_thread *t, struct holding *h)
{
	struct unwind_memory memory = { read_then, l->capture };
	struct unwind_frame *frame = calloc(FRAMES, sizeof(*frame));
	struct classified_variable v;
	ssize_t n, at;
	raddr_t low;

	if (!frame)
		return -ENOMEM;
	of_thread(h, t);
	h->kind = "stack";
	h->offset = h->address - t->general.rsp;
	n = unwind_frames(l->process, &memory, &t->general, frame, FRAMES, NULL);
	at = frame_of(frame, n, t->general.rsp, h->address, &low);
	while (at >= 0 && at + 1 < n && frame[at].ours)
		at++;
	if (at >= 0) {
		h->offset = h->address > low ? h->address - low : 0;
		ask_for(l->process, &frame[at], h);
	} else if (classify_thread_local(l->process, t->general.fs_base, h->address, &v)) {
		h->kind = "thread-local";
		h->name = v.name;
		h->offset = v.offset;
		h->module = v.module;
	}
	free(frame);
	return 0;
}

/* In a thread's own data, which the loader has put elsewhere than on its stack. */
static bool in_thread_local(const struct leaking *l, struct holding *h)
{
	for (size_t i = 0; i < l->capture->threads; i++) {
		const struct capture_thread *t = &l->capture->thread[i];
		struct classified_variable v;

		if (h->address >= t->general.fs_base ||
		    t->general.fs_base - h->address > 1u << 20 ||
		    !classify_thread_local(l->process, t->general.fs_base, h->address, &v))
			continue;
		of_thread(h, t);
		h->kind = "thread-local";
		h->name = v.name;
		h->offset = v.offset;
		h->module = v.module;
		return true;
	}
	return false;
}

static int in_memory(const struct leaking *l, struct holding *h)
{
	ssize_t thread = captured_stack(&l->captured, h->address);
	const struct capture_range *r = capture_range_at(l->capture, h->address);
	struct classified_variable v;

	if (thread >= 0)
		return on_stack(l, &l->capture->thread[thread], h);
	if (classify_variable(l->process, h->address, &v)) {
		h->kind = "variable";
		h->name = v.name;
		h->offset = v.offset;
		h->module = v.module;
		h->section = v.section;
		return 0;
	}
	if (in_thread_local(l, h))
		return 0;
	h->kind = "memory";
	h->offset = r ? h->address - r->start : 0;
	return take_name(h, r && r->name[0] ? r->name : "anonymous memory");
}

int holding_describe(const struct leaking *l, const struct leak_step *step, struct holding *h)
{
	size_t thread;

	*h = (struct holding){ .kind = "register" };
	if (step->kind == STEP_REGISTER) {
		const char *name = captured_register(&l->captured, step->at, &thread);

		of_thread(h, &l->capture->thread[thread]);
		return take_name(h, name);
	}
	h->address = step->at;
	return in_memory(l, h);
}

void holding_release(struct holding *h)
{
	free(h->name);
	*h = (struct holding){ 0 };
}
