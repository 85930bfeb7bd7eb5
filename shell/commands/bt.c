// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/units.h"
#include "report/print.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/lookup.h"
#include "shell/common/shell.h"

/*
 * `bt`: what the program's threads are doing. While they are stopped only addresses are taken;
 * symbols come when they run on.
 */
struct copy {
	pid_t tid;
	char name[PROC_NAME];
	size_t count;
	uint64_t *pc;
};
struct copies {
	struct copy *thread;
	size_t count;
	bool failed;
};

static void keep(void *ctx, const struct bt_thread *t)
{
	struct copies *c = ctx;
	struct copy *thread = reallocarray(c->thread, c->count + 1, sizeof(*thread));
	uint64_t *pc = malloc((t->count + 1) * sizeof(*pc));

	if (thread)
		c->thread = thread;
	if (!thread || !pc) {
		free(pc);
		c->failed = true;
		return;
	}
	memcpy(pc, t->pc, t->count * sizeof(*pc));
	thread[c->count] = (struct copy){ .tid = t->tid, .count = t->count, .pc = pc };
	memcpy(thread[c->count++].name, t->name, sizeof(t->name));
}

static struct symbol_question question(const struct process *p, uint64_t pc, bool leaf)
{
	struct symbol_question q = { .exact = leaf || pc & WIRE_PC_EXACT, .pc = pc & WIRE_PC_MASK };

	q.module = modules_find(&p->modules, q.exact ? q.pc : q.pc - 1, UINT32_MAX);
	return q;
}

static struct symbol_frames frames_at(struct process *p, uint64_t pc, bool leaf)
{
	struct symbol_question q = question(p, pc, leaf);

	return symbols_resolve(p->symbols, q.module, q.pc, q.exact);
}

static void look_up(struct shell *shell, struct process *p, const struct copies *c)
{
	struct symbol_question *q;
	size_t n = 0;

	for (size_t i = 0; i < c->count; i++)
		n += c->thread[i].count;
	q = malloc((n + 1) * sizeof(*q));
	n = 0;
	for (size_t i = 0; q && i < c->count; i++)
		for (size_t k = 0; k < c->thread[i].count; k++)
			q[n++] = question(p, c->thread[i].pc[k], k == 0);
	if (q)
		lookup_addresses(shell, p, q, n);
	free(q);
}

static void print_json(FILE *out, struct process *p, const struct copies *c)
{
	struct json j;

	json_init(&j, out);
	json_object(&j, NULL);
	json_array(&j, "threads");
	for (size_t i = 0; i < c->count; i++) {
		json_newline(&j);
		json_object(&j, NULL);
		json_int(&j, "tid", c->thread[i].tid);
		json_string(&j, "name", c->thread[i].name);
		json_array(&j, "stack");
		for (size_t k = 0; k < c->thread[i].count; k++)
			print_frames_json(&j, frames_at(p, c->thread[i].pc[k], k == 0));
		json_end_array(&j);
		json_end_object(&j);
	}
	json_end_array(&j);
	json_end_object(&j);
	json_finish(&j);
}

static void print_text(FILE *out, struct process *p, const struct copies *c, const struct layout *l)
{
	for (size_t i = 0; i < c->count; i++) {
		const struct copy *t = &c->thread[i];
		struct symbol_frames *frames = calloc(t->count + 1, sizeof(*frames));

		if (i)
			putc('\n', out);
		escape_printf(out, "thread %d (%s)\n", (int)t->tid, t->name);
		for (size_t k = 0; frames && k < t->count; k++)
			frames[k] = frames_at(p, t->pc[k], k == 0);
		if (frames)
			print_frames(out, frames, t->count, l);
		free(frames);
	}
}

static int bt(struct shell *shell, struct call *call)
{
	struct copies copies = { 0 };
	struct process *p;
	const char *word;
	uint64_t tid = 0;
	int err;

	if (arguments_one(shell, call, &word))
		return -1;
	if (word && strcmp(word, "all") &&
	    (number_parse(word, &tid) || tid == 0 || tid > INT32_MAX))
		return shell_error(
			shell, call,
			"invalid value '%s': expected a thread id, as `threads` lists them, or all",
			word);
	p = shell_process(shell);
	err = session_bt(shell->session, p, (pid_t)tid, keep, &copies);
	if (!err && !copies.failed && !copies.count && tid)
		err = -ESRCH;
	if (!err && !copies.failed)
		look_up(shell, p, &copies);
	if (err == -ESRCH && tid)
		shell_error(shell, call,
			    "there is no thread %" PRIu64 " here (`threads` lists them)", tid);
	else if (err == -ESRCH)
		shell_over(shell, call, p);
	else if (err || copies.failed)
		shell_error(shell, call, "cannot stop and read the process: %s",
			    copies.failed ? strerror(ENOMEM) : session_stop_error(err));
	else if (call->json)
		print_json(call->out, p, &copies);
	else
		print_text(call->out, p, &copies, &call->layout);
	for (size_t i = 0; i < copies.count; i++)
		free(copies.thread[i].pc);
	free(copies.thread);
	return err || copies.failed ? -1 : 0;
}

const struct command cmd_bt = {
	.name = "bt",
	.usage = "[TID|all] [--json]",
	.summary = "stacks of the threads, all or one",
	.example = "bt all",
	.help = "A running program is stopped for the moment and runs on.",
	.flags = COMMAND_LIST | COMMAND_AS_IS | COMMAND_JSON | COMMAND_LIVE,
	.run = bt,
};
