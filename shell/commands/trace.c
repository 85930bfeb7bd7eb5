// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/escape.h"
#include "base/json.h"
#include "base/units.h"
#include "report/print.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/leaking.h"
#include "shell/common/lookup.h"
#include "shell/common/reporting.h"
#include "shell/common/shell.h"
#include "symbols/elf.h"

/*
 * `trace`: the story of one address. What it is of that is not in a block (lookup_place()) is
 * also told of one that was freed: it may be another's by now.
 */
enum state { LIVE, FREED, NONE };
static const char *const state_names[] = { "live", "freed", "none" };

struct story {
	raddr_t address;
	enum state state;
	struct ledger_freed b; /* LIVE: only `block`, and `known` */
	pid_t thread, freed_thread;
	uint64_t now;
	bool scanned; /* LIVE: what holds it is known */
	enum leak_kind kind;
	char place[4300];
};

static uint64_t since(const struct story *t, uint64_t ms) { return t->now > ms ? t->now - ms : 0; }

static void find(struct shell *shell, struct story *t, struct process *p)
{
	/* before the ledger is asked, as the loop turns meanwhile */
	if (!ledger_find(p->ledger, t->address, &t->b.block))
		lookup_place(shell, p, t->address, t->place, sizeof(t->place));
	t->state = ledger_find(p->ledger, t->address, &t->b.block)   ? LIVE
		   : ledger_find_freed(p->ledger, t->address, &t->b) ? FREED
								     : NONE;
	t->b.known |= t->state == LIVE;
	if (t->state != NONE && t->b.known)
		t->thread = ledger_thread_tid(p->ledger, t->b.block.thread);
	if (t->state == FREED)
		t->freed_thread = ledger_thread_tid(p->ledger, t->b.thread);
}

/*
 * Whether anything holds it. Not known where the process cannot be scanned, or if it is another
 * block by the time that it is. -1: the user has had enough.
 */
static int scan(struct story *t, struct shell *shell, struct process *p)
{
	struct leaking l;
	char why[256];
	ssize_t block;
	int err;

	if (t->state != LIVE || t->b.block.mapping || leaking_refused(shell, p))
		return 0;
	err = leaking_make(shell, p, &l, why, sizeof(why));
	if (err)
		return err == -EINTR ? -1 : 0;
	block = leaks_find(l.leaks, t->b.block.address);
	t->scanned = block >= 0 && l.capture->block[block].address == t->b.block.address &&
		     l.capture->block[block].tick == t->b.block.ms / 10;
	if (t->scanned)
		t->kind = leaks_kind(l.leaks, (size_t)block);
	leaking_release(&l);
	return 0;
}

static unsigned frames_of(struct sites *sites, uint32_t stack)
{
	unsigned n = 0;

	for (uint32_t node = stack; node; node = sites_parent(sites, node))
		n++;
	return n;
}

static void print_text(FILE *out, const struct story *t, const struct process *p,
		       struct sites *sites)
{
	const struct ledger_block *b = &t->b.block;
	uint64_t into = t->address - b->address;
	struct text_buffer age;
	unsigned frames;

	if (t->state == NONE) {
		escape_printf(out, "0x%" PRIx64 " is in no block: %s\n", t->address, t->place);
		return;
	}
	fprintf(out, "0x%" PRIx64 " is ", t->address);
	if (into)
		escape_printf(out, "%" PRIu64 " byte%s into ", into, plural(into));
	escape_printf(out, "a %s%s of %" PRIu64 " byte%s at 0x%" PRIx64,
		      t->state == FREED ? "freed " : "", b->mapping ? "mapping" : "block", b->size,
		      plural(b->size), b->address);
	if (t->b.known)
		escape_printf(out, ", allocated %s ago by thread %d",
			      age_text(&age, since(t, b->ms)), (int)t->thread);
	if (t->state == FREED)
		escape_printf(out, ", freed %s ago by thread %d; now: %s",
			      age_text(&age, since(t, t->b.ms)), (int)t->freed_thread, t->place);
	if (t->scanned)
		escape_printf(out, ", %s", leak_kind_words[t->kind]);
	fprintf(out, "\nPID: %d\nLen: %" PRIu64 "\n", (int)p->pid, b->size);
	print_stack(out, sites, b->stack, NULL);
	if (t->state == LIVE)
		return;
	if (t->b.stack) {
		frames = frames_of(sites, t->b.stack);
		escape_printf(out, "freed by (%u frame%s):\n", frames, plural(frames));
		print_stack(out, sites, t->b.stack, NULL);
	} else
		fputs("where it was freed was not recorded (`set free-stacks on` does, from then on)\n",
		      out);
}

static void stack_json(struct json *j, const char *key, struct sites *sites, bool any,
		       uint32_t stack)
{
	if (any) {
		print_stack_json(j, key, sites, stack);
		return;
	}
	json_array(j, key);
	json_end_array(j);
}

static void print_json(FILE *out, const struct story *t, const struct process *p,
		       struct sites *sites)
{
	const struct ledger_block *b = &t->b.block;
	bool any = t->state != NONE, freed = t->state == FREED;
	struct json j;

	json_init(&j, out);
	json_object(&j, NULL);
	json_int(&j, "pid", p->pid);
	json_address(&j, "address", t->address);
	if (any)
		json_address(&j, "block", b->address);
	else
		json_null(&j, "block");
	json_uint_known(&j, "size", any, b->size);
	json_uint_known(&j, "age_ms", any && t->b.known, since(t, b->ms));
	json_uint_known(&j, "thread", any && t->b.known, (uint64_t)t->thread);
	json_string(&j, "state", state_names[t->state]);
	json_string(&j, "kind", any ? b->mapping ? "mmap" : "heap" : NULL);
	json_string(&j, "reachability", t->scanned ? leak_kind_names[t->kind] : NULL);
	json_uint_known(&j, "freed_ms_ago", freed, since(t, t->b.ms));
	json_uint_known(&j, "freed_thread", freed, (uint64_t)t->freed_thread);
	json_string(&j, "what", t->state == LIVE ? NULL : t->place);
	stack_json(&j, "stack", sites, any, b->stack);
	stack_json(&j, "free_stack", sites, freed && t->b.stack, t->b.stack);
	json_end_object(&j);
	json_finish(&j);
}

/*
 * What lookup_place() will ask about code; the loop turns meanwhile, so this comes before the
 * ledger is asked.
 */
static void warm_place(struct shell *shell, struct process *p, raddr_t address)
{
	struct symbol_question q = { .module = modules_find(&p->modules, address, UINT32_MAX),
				     .pc = address,
				     .exact = true };
	struct ledger_block b;

	if (q.module && address >= q.module->text_start && address < q.module->text_end &&
	    !ledger_find(p->ledger, address, &b))
		lookup_addresses(shell, p, &q, 1);
}

static int trace(struct shell *shell, struct call *call)
{
	struct story t = { 0 };
	struct process *p;
	struct sites *sites;
	const char *word;

	if (arguments_one(shell, call, &word))
		return -1;
	if (!word)
		return shell_error(shell, call, "missing address");
	if (reporting_address(shell, call, word, &t.address))
		return -1;
	p = shell_process(shell);
	sites = shell_sites(shell, p);
	if (!sites)
		return -1;
	warm_place(shell, p, t.address);
	t.now = shell_moment(shell, p);
	find(shell, &t, p);
	if (scan(&t, shell, p))
		return -1;
	lookup_stack(shell, p, sites, t.state == NONE ? 0 : t.b.block.stack);
	lookup_stack(shell, p, sites, t.state == FREED ? t.b.stack : 0);
	if (call->json)
		print_json(call->out, &t, p, sites);
	else
		print_text(call->out, &t, p, sites);
	return 0;
}

const struct command cmd_trace = {
	.name = "trace",
	.usage = "ADDR [--json]",
	.summary = "which block ADDR is in, and who allocated it",
	.example = "trace 0x55d5c0a1b2c0",
	.help = "The block's size, age, thread and whole stack, inlined frames beneath the one they are in; ADDR may be anywhere in the block.\n"
		"Of a block that was freed lately: when and by which thread; by which call after `set free-stacks on`.\n"
		"Whether anything still holds it: definitely, indirectly, possibly lost, or still reachable (`help leaks`).\n"
		"ADDR is 0x..., decimal, or the name of a symbol, C++ names in quotes, with or without parameters.\n"
		"Of an address in no block: what it is (a thread's stack, a library's symbol, the allocator's heap, unmapped).",
	.flags = COMMAND_LIST | COMMAND_AS_IS | COMMAND_JSON | COMMAND_LIVE | COMMAND_RECORD,
	.run = trace,
};
