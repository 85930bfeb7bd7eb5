// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/lookup.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/escape.h"
#include "base/layout.h"
#include "base/message.h"
#include "report/classify_address.h"
#include "session/asking.h"
#include "shell/common/answer_stream.h"
#include "shell/common/shell.h"
#include "symbols/module.h"

/*
 * Frames that nobody has asked about yet are gathered, some thousand at a time, and looked up with
 * the session unlocked: one library's tables can take seconds. Then the answers are taken over,
 * which is quick. Where all is known already this is one look at each stack.
 */
#define BATCH	    8192 /* questions */
#define PROGRESS_MS 1000

/*
 * Those of one stack follow each other; once a frame may be its site, the rest is left out, unless
 * all are wanted.
 */
struct lookup_question {
	struct symbol_question q;
	bool first; /* of its stack */
};

struct lookup {
	struct shell *shell;
	struct process *process; /* a reference */
	struct sites *sites;
	bool whole, shown;
	uint64_t began, told;
	size_t done, all; /* stacks */
	struct lookup_question *question;
	uint32_t *stack; /* that have questions in the batch */
	size_t questions, stacks;
};

static bool progress_is_due(const struct lookup *w)
{
	uint64_t now = session_ms(w->shell->session);

	return !w->shell->said && now >= w->began + PROGRESS_MS &&
	       now >= w->told + PROGRESS_MS / 5 && isatty(message_fd());
}

/* A line that the next one, or the answer, takes the place of: it must not be wider than the window. */
static void progress(struct lookup *w, const struct module *module)
{
	struct layout layout = answer_layout(message_fd());
	FILE *out = message_stream();
	char text[80];
	size_t used = (size_t)snprintf(text, sizeof(text), "reading symbols: %zu of %zu stacks",
				       w->done, w->all);

	w->told = session_ms(w->shell->session);
	w->shown = true;
	escape_printf(out, "\r");
	layout_put_begin(&layout, out, text, layout.columns - 1);
	if (module && used + 12 < layout.columns) {
		escape_printf(out, ", ");
		layout_put_path(&layout, out, module->path, layout.columns - used - 3);
	}
	escape_printf(out, "\033[K");
	answer_flush(w->shell);
}

static bool has_site(struct symbol_frames f)
{
	for (size_t i = 0; i < f.count; i++)
		if (!f.frame[i].skip)
			return true;
	return false;
}

/*
 * Adds the frames of STACK that are not known; false if there are none. Those that cannot be its
 * site are left out, but for the outermost of all. Nodes are in memory that the process may write:
 * a stack of its making can be deeper than any of ours, and what the batch has no room for is not
 * looked up beforehand.
 */
static bool gather(struct lookup *w, uint32_t stack)
{
	struct process *p = w->process;
	struct symbol_frames known;
	size_t before = w->questions;
	uint64_t pc;

	for (uint32_t n = stack, up;
	     n && w->questions < BATCH && !sites_settled(w->sites, n, w->whole); n = up) {
		struct lookup_question q = { .first = w->questions == before };

		up = process_stack_parent(p, n, &pc);
		if (!pc)
			continue;
		if (!process_question(p, n, pc, &q.q))
			known = sites_frames(w->sites, n);
		else if (!w->whole && sites_parent(w->sites, n) && symbols_passed_over(q.q.module))
			continue;
		else if (!symbols_known(p->symbols, q.q.module, q.q.pc, q.q.exact, &known)) {
			w->question[w->questions++] = q;
			continue;
		}
		if (!w->whole && has_site(known))
			break;
	}
	return w->questions > before;
}

static void run_batch(struct lookup *w)
{
	bool found = false;

	asking_unlock(w->shell->session);
	for (size_t i = 0; i < w->questions && !shell_interrupted(w->shell); i++) {
		const struct lookup_question *q = &w->question[i];

		found &= !q->first;
		if (found)
			continue;
		if (progress_is_due(w)) {
			asking_lock(w->shell->session);
			progress(w, q->q.module);
			asking_unlock(w->shell->session);
		}
		found = has_site(symbols_resolve(w->process->symbols, q->q.module, q->q.pc,
						 q->q.exact)) &&
			!w->whole;
	}
	asking_lock(w->shell->session);
	for (size_t i = 0; i < w->stacks && !shell_interrupted(w->shell); i++)
		sites_settle(w->sites, w->stack[i], w->whole);
	w->questions = w->stacks = 0;
}

static void one(struct lookup *w, uint32_t stack)
{
	w->done++;
	if (sites_settled(w->sites, stack, w->whole))
		return;
	if (gather(w, stack))
		w->stack[w->stacks++] = stack;
	else
		sites_settle(w->sites, stack, w->whole);
	if (w->questions > BATCH - WIRE_DEPTH - 1)
		run_batch(w);
	session_yield(w->shell->session);
	if (progress_is_due(w))
		progress(w, NULL);
}

static bool begin(struct lookup *w, struct shell *shell, struct process *p, struct sites *sites,
		  bool whole, size_t all)
{
	*w = (struct lookup){ .shell = shell,
			      .process = process_ref(p),
			      .sites = sites,
			      .whole = whole,
			      .all = all,
			      .began = session_ms(shell->session) };
	w->question = malloc(BATCH * sizeof(*w->question));
	w->stack = malloc(BATCH * sizeof(*w->stack));
	return w->question && w->stack;
}

static void end(struct lookup *w)
{
	process_unref(w->process);
	free(w->question);
	free(w->stack);
	if (!w->shown)
		return;
	fputs("\r\033[K", message_stream());
	answer_flush(w->shell);
}

void lookup_profile(struct shell *shell, struct process *p, struct sites *sites,
		    const struct profile *profile, bool whole)
{
	struct lookup w;
	size_t i = 0;

	while (i < profile->count && sites_settled(sites, profile->row[i].stack, whole))
		i++;
	if (i == profile->count)
		return;
	if (begin(&w, shell, p, sites, whole, profile->count)) {
		w.done = i;
		for (; i < profile->count && !shell_interrupted(shell); i++)
			one(&w, profile->row[i].stack);
		run_batch(&w);
	}
	end(&w);
}

void lookup_addresses(struct shell *shell, struct process *p, const struct symbol_question *q,
		      size_t count)
{
	struct symbol_frames known;
	struct lookup w;

	if (begin(&w, shell, p, NULL, true, count))
		for (; w.done < count && !shell_interrupted(shell); w.done++) {
			if (!symbols_known(p->symbols, q[w.done].module, q[w.done].pc,
					   q[w.done].exact, &known))
				w.question[w.questions++] =
					(struct lookup_question){ .q = q[w.done], .first = true };
			if (w.questions == BATCH)
				run_batch(&w);
		}
	if (w.questions)
		run_batch(&w);
	end(&w);
}

void lookup_stack(struct shell *shell, struct process *p, struct sites *sites, uint32_t stack)
{
	struct lookup w;

	if (sites_settled(sites, stack, true))
		return;
	if (begin(&w, shell, p, sites, true, 1)) {
		one(&w, stack);
		run_batch(&w);
	}
	end(&w);
}

void lookup_place(struct shell *shell, struct process *p, raddr_t addr, char *text, size_t len)
{
	struct address_view view = { .err = -ESRCH };
	pid_t via = p->via;

	if (p->state != PROCESS_DETACHED && !process_state_gone(p->state)) {
		asking_unlock(shell->session);
		address_view_make(&view, via, addr);
		asking_lock(shell->session);
	}
	classify_address(p, &view, addr, text, len);
	address_view_release(&view);
}
