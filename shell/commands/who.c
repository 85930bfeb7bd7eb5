// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/json.h"
#include "process/process.h"
#include "process/profile.h"
#include "report/sites.h"
#include "session/asking.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/holding.h"
#include "shell/common/leaking.h"
#include "shell/common/lookup.h"
#include "shell/common/reporting.h"
#include "shell/common/shell.h"

/*
 * `who`: what holds a block. What is found is copied, so that the process need not wait while
 * symbols are looked up.
 */
struct held {
	struct capture_block block;
	uint64_t into; /* the pointer to the next one; of the last the address that was asked for */
};
struct answer {
	raddr_t address;
	bool any; /* it is in a block */
	enum leak_kind kind;
	bool root; /* `holding` is the first */
	struct holding holding;
	struct held *held; /* from there on to the block */
	size_t count;
	char place[4300]; /* in none: what it is */
};

/* ---- finding ---------------------------------------------------------------- */

static int take(struct answer *a, const struct leaking *l, const struct leak_path *path)
{
	size_t first = a->root;

	a->count = path->steps - first;
	a->held = calloc(a->count + 1, sizeof(*a->held));
	if (!a->held)
		return -ENOMEM;
	for (size_t i = 0; i < a->count; i++) {
		const struct leak_step *s = &path->step[first + i];

		a->held[i] = (struct held){ l->capture->block[s->block], s->into };
	}
	a->held[a->count - 1].into = a->address - a->held[a->count - 1].block.address;
	return 0;
}

static int find(struct shell *shell, struct leaking *l, struct answer *a)
{
	ssize_t block = leaks_find(l->leaks, a->address);
	struct leak_path path;
	int err;

	if (block < 0)
		return 0;
	asking_unlock(shell->session);
	err = path_find(l->leaks, (uint32_t)block, &path);
	asking_lock(shell->session);
	if (!err)
		err = capture_error(l->capture);
	if (!err && !path.steps)
		err = -ESRCH;
	a->any = true;
	a->kind = leaks_kind(l->leaks, (size_t)block);
	if (!err && path.step[0].kind != STEP_BLOCK) {
		err = holding_describe(l, &path.step[0], &a->holding);
		a->root = !err;
	}
	if (!err)
		err = take(a, l, &path);
	path_release(&path);
	return err;
}

static int look_up(struct shell *shell, struct process *p, struct sites *sites,
		   const struct answer *a)
{
	struct profile profile = { .count = a->count };

	profile.row = calloc(profile.count + 1, sizeof(*profile.row));
	if (!profile.row)
		return -ENOMEM;
	for (size_t i = 0; i < profile.count; i++)
		profile.row[i].stack = a->held[i].block.stack;
	lookup_profile(shell, p, sites, &profile, false);
	profile_release(&profile);
	return shell_interrupted(shell) ? -EINTR : 0;
}

/* ---- text ------------------------------------------------------------------- */

static const struct symbol_frame *site_of(struct sites *sites, uint32_t stack)
{
	return &sites_site(sites, sites_of(sites, stack))->frame;
}

static void print_root(FILE *out, const struct holding *h)
{
	escape_printf(out, "   0: %s", h->kind);
	if (h->name)
		escape_printf(out, " %s", h->name);
	if (h->address && !h->name && !strcmp(h->kind, "thread-local"))
		escape_printf(out, ", %" PRIu64 " byte%s below the thread pointer,", h->offset,
			      plural(h->offset));
	else if (h->address && (h->offset || !h->name))
		fprintf(out, "+%" PRIu64, h->offset);
	if (h->thread)
		escape_printf(out, " of thread %d (%s)", (int)h->thread, h->thread_name);
	if (h->module)
		escape_printf(out, "\n      in %s%s%s", h->section ? h->section : "",
			      h->section ? " of " : "", h->module);
	putc('\n', out);
}

static void print_held(FILE *out, size_t number, const struct held *held, bool last,
		       struct sites *sites)
{
	const struct symbol_frame *f = site_of(sites, held->block.stack);

	escape_printf(out, "%4zu: block 0x%" PRIx64 " of %" PRIu64 " byte%s", number,
		      held->block.address, held->block.size, plural(held->block.size));
	if (!last)
		fprintf(out, ", at +%" PRIu64, held->into);
	escape_printf(out, "\n      %s", f->function);
	if (f->file)
		escape_printf(out, " at %s:%u", f->file, f->line);
	else if (f->module)
		escape_printf(out, " in %s", f->module);
	putc('\n', out);
}

/* Of a long path the beginning and the end, ROWS in all. */
static void print_text(FILE *out, const struct answer *a, size_t rows, struct sites *sites)
{
	size_t begin = a->count > rows ? rows / 2 : a->count,
	       end = a->count > rows ? a->count - (rows - begin) : a->count;
	const struct held *last;

	if (!a->any) {
		escape_printf(out, "0x%" PRIx64 " is in no block: %s\n", a->address, a->place);
		return;
	}
	last = &a->held[a->count - 1];
	fprintf(out, "0x%" PRIx64 " is ", a->address);
	if (last->into)
		escape_printf(out, "%" PRIu64 " byte%s into ", last->into, plural(last->into));
	escape_printf(out, "a block of %" PRIu64 " byte%s at 0x%" PRIx64 ", %s%s\n",
		      last->block.size, plural(last->block.size), last->block.address,
		      leak_kind_words[a->kind],
		      a->kind == LEAK_DEFINITE ? ": nothing points to it" : "");
	if (a->root)
		print_root(out, &a->holding);
	for (size_t i = 0; i < a->count && !ferror(out); i++) {
		if (i >= begin && i < end) {
			if (i == begin)
				fprintf(out, "      (%zu more)\n", end - begin);
			continue;
		}
		print_held(out, i + a->root, &a->held[i], i + 1 == a->count, sites);
	}
}

/* ---- JSON ------------------------------------------------------------------- */

static void root_json(struct json *j, const struct holding *h)
{
	json_newline(j);
	json_object(j, NULL);
	json_string(j, "kind", h->kind);
	json_string(j, "name", h->name);
	json_uint(j, "offset", h->offset);
	json_null(j, "block");
	json_string(j, "module", h->module);
	json_string(j, "section", h->section);
	if (h->address)
		json_address(j, "address", h->address);
	else
		json_null(j, "address");
	if (h->thread)
		json_int(j, "thread", h->thread);
	else
		json_null(j, "thread");
	json_end_object(j);
}

static void held_json(struct json *j, const struct held *held, struct sites *sites)
{
	const struct symbol_frame *f = site_of(sites, held->block.stack);

	json_newline(j);
	json_object(j, NULL);
	json_string(j, "kind", "block");
	json_string(j, "name", f->function);
	json_uint(j, "offset", held->into);
	json_address(j, "block", held->block.address);
	json_uint(j, "size", held->block.size);
	json_string(j, "file", f->file);
	if (f->line)
		json_uint(j, "line", f->line);
	else
		json_null(j, "line");
	json_string(j, "module", f->module);
	json_uint(j, "stack_id", held->block.stack);
	json_end_object(j);
}

static void print_json(FILE *out, const struct answer *a, struct sites *sites)
{
	struct json j;

	json_init(&j, out);
	json_object(&j, NULL);
	json_address(&j, "address", a->address);
	if (a->any)
		json_address(&j, "block", a->held[a->count - 1].block.address);
	else
		json_null(&j, "block");
	json_string(&j, "reachability", a->any ? leak_kind_names[a->kind] : NULL);
	json_string(&j, "what", a->any ? NULL : a->place);
	json_array(&j, "path");
	if (a->root)
		root_json(&j, &a->holding);
	for (size_t i = 0; i < a->count && !ferror(out); i++)
		held_json(&j, &a->held[i], sites);
	json_end_array(&j);
	json_end_object(&j);
	json_finish(&j);
}

/* ---- the command ------------------------------------------------------------ */

static int answer(struct shell *shell, struct call *call, struct process *p, struct sites *sites,
		  struct answer *a)
{
	struct leaking l;
	char why[256];
	int err = leaking_make(shell, p, &l, why, sizeof(why));

	if (err)
		return *why ? shell_error(shell, call, "%s", why) : -1;
	err = find(shell, &l, a);
	leaking_release(&l);
	if (!err && a->root)
		err = holding_look_up(shell, p, &a->holding);
	if (!err)
		err = look_up(shell, p, sites, a);
	if (err)
		return err == -ESRCH ? shell_error(shell, call, "the process has ended meanwhile")
				     : shell_failed(shell, call, err);
	if (!a->any)
		lookup_place(shell, p, a->address, a->place, sizeof(a->place));
	asking_unlock(shell->session);
	if (call->json)
		print_json(call->out, a, sites);
	else
		print_text(call->out, a, shell->settings.rows, sites);
	asking_lock(shell->session);
	return 0;
}

static int who(struct shell *shell, struct call *call)
{
	struct answer a = { 0 };
	struct process *p;
	struct sites *sites;
	const char *word, *refused;
	int bad;

	if (arguments_one(shell, call, &word))
		return -1;
	if (!word)
		return shell_error(shell, call, "missing address");
	if (reporting_address(shell, call, word, &a.address))
		return -1;
	p = shell_process(shell);
	refused = leaking_refused(shell, p);
	if (refused)
		return shell_error(shell, call, "%s", refused);
	sites = shell_sites(shell, p);
	bad = sites ? answer(shell, call, p, sites, &a) : -1;
	holding_release(&a.holding);
	free(a.held);
	return bad;
}

const struct command cmd_who = {
	.name = "who",
	.usage = "ADDR [--json]",
	.summary = "what points at the block that ADDR is in, back to a root",
	.example = "who 0x55d5c0a1b2c0",
	.help = "The shortest way from a root: a thread's register, a frame on a thread's stack, a variable, memory that is in no block; then each block that\n"
		"is passed, with where in it the pointer to the next one is. Of a block that is lost: from the one that heads it.\n"
		"ADDR is 0x..., decimal, or the name of a symbol. The memory is captured for it, as `leaks` does.",
	.flags = COMMAND_LIST | COMMAND_JSON | COMMAND_LIVE,
	.run = who,
};
