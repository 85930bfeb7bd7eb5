// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/erring.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/message.h"
#include "base/proc.h"
#include "base/units.h"
#include "inject/wire_event.h"
#include "report/classify_address.h"
#include "report/print.h"
#include "session/asking.h"
#include "shell/common/answer_stream.h"
#include "shell/common/fold.h"
#include "shell/common/lookup.h"
#include "shell/common/shell.h"

/*
 * The loop collects errors in the records of processes; here they are told, by the shell's thread,
 * as their stacks need symbols. Each is copied: the loop turns meanwhile, and more come.
 */

/* ---- the text ------------------------------------------------------------ */

static const char *call_name(const struct error *e)
{
	static const char *const names[] = { [FAMILY_HEAP] = "free",
					     [FAMILY_NEW] = "operator delete",
					     [FAMILY_ARRAY] = "operator delete[]",
					     [FAMILY_ANY] = "free" };

	return e->resize ? "realloc" : names[e->family & 3];
}

static const char *giver_name(const struct error *e)
{
	static const char *const names[] = { [FAMILY_HEAP] = "malloc",
					     [FAMILY_NEW] = "operator new",
					     [FAMILY_ARRAY] = "operator new[]" };

	return names[e->gave < FAMILY_ANY ? e->gave : FAMILY_HEAP];
}

static void say_within(const struct error *e)
{
	const char *what = e->mapping ? "mapping" : "block", *call = call_name(e);
	uint64_t offset = e->address - e->block;

	if (!offset)
		message_say("%s of 0x%" PRIx64 ", which is a %s of %" PRIu64 " byte%s, not a block",
			    call, e->address, what, e->size, plural(e->size));
	else
		message_say("%s of 0x%" PRIx64 ", which is %" PRIu64
			    " byte%s into a %s of %" PRIu64,
			    call, e->address, offset, plural(offset), what, e->size);
}

/* PLACE: what is there, if it is no block */
static void say_what(const struct error *e, const char *place)
{
	switch (e->kind) {
	case ERROR_DOUBLE:
		message_say("%s of 0x%" PRIx64 ", a block of %" PRIu64
			    " byte%s that was freed before",
			    e->resize ? "realloc" : "double free", e->address, e->size,
			    plural(e->size));
		return;
	case ERROR_INTERIOR: say_within(e); return;
	case ERROR_FOREIGN:
		if (e->address == WIRE_BEYOND) {
			message_say("%s of an address of more than %d bits, which is no block",
				    call_name(e), WIRE_ADDRESS_BITS);
			return;
		}
		message_say("%s of 0x%" PRIx64 ", which is no block: it is %s", call_name(e),
			    e->address, place);
		return;
	case ERROR_MISMATCH:
		message_say("%s of 0x%" PRIx64 ", a block of %" PRIu64 " byte%s from %s",
			    call_name(e), e->address, e->size, plural(e->size), giver_name(e));
		return;
	case ERROR_KINDS: return;
	}
}

struct telling { /* an error of P; OUT is for the rest of the text, behind its first line */
	struct shell *shell;
	struct process *p;
	struct sites *sites;
	FILE *out;
	struct layout layout;
};

/* Ends a line with the stack beneath it, if there is one. */
static void put_stack(const struct telling *t, uint32_t stack, const char *without)
{
	if (!stack) {
		escape_printf(t->out, "%s\n", without);
		return;
	}
	fputs(", by\n", t->out);
	lookup_stack(t->shell, t->p, t->sites, stack);
	print_stack(t->out, t->sites, stack, &t->layout);
}

static void put_call(const struct telling *t, const struct error *e)
{
	const struct process *p = t->p;
	struct text_buffer time;
	char name[PROC_NAME];

	proc_name(p->via, e->tid, name); /* it may have ended */
	escape_printf(t->out, "process %d (%s), thread %d%s%s%s, after %s", (int)p->pid,
		      p->command ? p->command : "?", (int)e->tid, *name ? " (" : "", name,
		      *name ? ")" : "", time_text(&time, e->ms));
	put_stack(t, e->stack, "; by which call was not recorded");
}

static void put_block(const struct telling *t, const struct error *e)
{
	FILE *out = t->out;
	struct text_buffer time;

	if (e->kind == ERROR_DOUBLE) {
		escape_printf(out, "first freed after %s by thread %d",
			      time_text(&time, e->freed_ms), (int)e->freed_tid);
		put_stack(t, e->freed_stack, " (`set free-stacks on` records by which call)");
	}
	fputs(e->mapping ? "mapped" : "allocated", out);
	if (e->known)
		escape_printf(out, " after %s by thread %d", time_text(&time, e->block_ms),
			      (int)e->block_tid);
	put_stack(t, e->block_stack, "; by which call is not known");
}

/* Whoever reads it is not waited for with the session locked. */
static void tell(struct shell *shell, struct process *p, const struct error *e)
{
	struct telling t = { shell, p, shell_sites(shell, p), NULL, { 0 } };
	char place[4300], *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len), *fold = NULL;

	if (out && t.sites) {
		t.layout = answer_layout(message_own_fd());
		t.layout.said = true;
		fold = fold_sentences(out, &t.layout);
		t.out = fold ? fold : out;
		put_call(&t, e);
		if (e->kind != ERROR_FOREIGN)
			put_block(&t, e);
		else if (!classify_in_module(p, e->address, place, sizeof(place)))
			snprintf(place, sizeof(place), "%s", e->place);
	}
	if (fold)
		fclose(fold);
	if (out && fclose(out) == 0 && t.sites) {
		asking_unlock(shell->session);
		say_what(e, place);
		fwrite(text, 1, len, message_own());
		message_flush();
		asking_lock(shell->session);
	}
	free(text);
}

static const char *const kind_names[ERROR_KINDS][2] = {
	[ERROR_DOUBLE] = { "double free", "double frees" },
	[ERROR_INTERIOR] = { "free within a block", "frees within a block" },
	[ERROR_FOREIGN] = { "free of what is no block", "frees of what is no block" },
	[ERROR_MISMATCH] = { "mismatched free", "mismatched frees" },
};

void erring_counts(FILE *out, const struct errors *e)
{
	for (int i = 0, first = 1; i < ERROR_KINDS; i++) {
		if (!e->counts[i])
			continue;
		escape_printf(out, "%s%" PRIu64 " %s", first ? "" : ", ", e->counts[i],
			      kind_names[i][e->counts[i] != 1]);
		first = 0;
	}
	if (e->count > e->errors)
		escape_printf(out, ", at %s%zu place%s", e->unlisted ? "more than " : "", e->errors,
			      plural(e->errors));
}

/* ---- what happens then --------------------------------------------------- */

#define TOLD_MOST 200u /* of all processes together */

static void say_frozen(const struct shell *shell, const struct process *p)
{
	const char *name = p->command ? p->command : "?";

	if (shell->screen)
		message_say("%s (%d) is stopped: `cont` lets it go on", name, (int)p->pid);
	else if (session_options(shell->session)->npids)
		message_say("%s (%d) is stopped; it goes on when the commands have run", name,
			    (int)p->pid);
	else
		message_say("%s (%d) is stopped; it is killed unless the commands let it go on "
			    "(`cont`)",
			    name, (int)p->pid);
	message_flush();
}

static void tell_new(struct shell *shell, struct process *p)
{
	while (p->errors.told < p->errors.errors) {
		struct error e = p->errors.error[p->errors.told++];

		if (shell->erring.errors++ < TOLD_MOST)
			tell(shell, p, &e);
		if (shell->erring.errors == TOLD_MOST)
			message_say("%u errors were told; others are only counted", TOLD_MOST);
	}
	p->errors.due = true;
	if (p->errors.frozen)
		say_frozen(shell, p);
}

static struct process *with_new(const struct shell *shell)
{
	struct process *p = session_processes(shell->session);

	while (p && p->errors.told == p->errors.errors)
		p = p->next;
	return p;
}

static struct process *frozen(const struct shell *shell)
{
	for (struct process *p = session_processes(shell->session); p; p = p->next) {
		p->errors.frozen &= p->state == PROCESS_STOPPED;
		if (p->errors.frozen)
			return p;
	}
	return NULL;
}

void erring_turn(struct shell *shell, const char *text)
{
	struct process *p;

	if (shell->erring.telling)
		return;
	shell->erring.telling = true;
	while ((p = process_ref(with_new(shell)))) {
		tell_new(shell, p);
		process_unref(p);
	}
	shell->erring.telling = false;
	for (p = session_processes(shell->session); p && !p->errors.due;)
		p = p->next;
	if (!p)
		return;
	p->errors.due = false;
	if (text || p->errors.frozen)
		shell_run_of(shell, p, p->errors.frozen, text);
}

void erring_give_up(struct shell *shell)
{
	struct process *p = shell->screen ? NULL : frozen(shell);
	int err;

	if (!p || p->errors.due || p->errors.told < p->errors.errors)
		return;
	if (!session_options(shell->session)->npids) {
		message_say("%s (%d) is killed: nothing has let it go on",
			    p->command ? p->command : "?", (int)p->pid);
		session_kill_all(shell->session);
		return;
	}
	p->errors.frozen = false;
	err = session_cont(shell->session, p);
	if (err)
		message_error("cannot continue process %d: %s", (int)p->pid, strerror(-err));
}
