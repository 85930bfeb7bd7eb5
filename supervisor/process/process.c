// SPDX-License-Identifier: GPL-3.0-or-later
#include "process/process.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/patient.h"
#include "base/proc.h"
#include "process/profile_make.h"
#include "symbols/elf.h"
#include "symbols/site_rule.h"
#include "transport/nodes.h"
#include "unwind/image.h"

/*
 * process.c - the record of one process, and the way from a stack's number to its frames.
 */

const char *process_state_name(enum process_state state)
{
	static const char *const name[] = { "running", "stopped",  "exited",
					    "exited",  "replaced", "detached" };

	return name[state];
}

enum process_state process_state_seen(const struct process *p)
{
	enum process_state state = p->state;

	return state == PROCESS_RUNNING && __atomic_load_n(&p->paused, __ATOMIC_RELAXED)
		       ? PROCESS_STOPPED
		       : state;
}

static const struct process_source ours;

struct process *process_from(const struct process_source *source, void *told, pid_t pid, pid_t ppid,
			     unsigned count, struct ledger *ledger, struct outside *from)
{
	struct process *p = from ? calloc(1, sizeof(*p)) : NULL;

	if (!p) {
		outside_free(from);
		ledger_free(ledger);
		return NULL;
	}
	p->refs = 1;
	p->pid = p->via = pid;
	p->ppid = ppid;
	p->ledger = ledger ? ledger : ledger_new(count);
	p->outside = from;
	p->symbols = symbols_new(from);
	p->source = &ours;
	if (!p->ledger || !p->symbols) {
		process_unref(p);
		return NULL;
	}
	p->source = source;
	p->told = told;
	return p;
}

struct process *process_new(pid_t pid, pid_t ppid, unsigned count, struct ledger *ledger)
{
	return process_from(&ours, NULL, pid, ppid, count, ledger, outside_of_process(pid));
}

void process_name(struct process *p, const char *command, const char *exe)
{
	free(p->command);
	free(p->exe);
	p->command = command ? strdup(command) : NULL;
	p->exe = exe ? strdup(exe) : NULL;
}

struct process *process_ref(struct process *p)
{
	if (p)
		p->refs++;
	return p;
}

void process_unref(struct process *p)
{
	if (!p || --p->refs)
		return;
	stream_free(p->stream);
	process_unshare(p);
	image_unref(p->image);
	nodes_unref(p->nodes);
	modules_release(&p->modules);
	plant_release(&p->plant);
	ledger_free(p->ledger);
	ledger_free(p->discarding);
	marks_release(&p->marks);
	snapshots_release(&p->snapshots);
	free(p->errors.error);
	free(p->errors.dismissed);
	free(p->limit.refusal);
	free(p->limit.lease);
	symbols_free(p->symbols);
	outside_free(p->outside);
	free(p->credible.suspect);
	thread_ends_release(&p->ends);
	if (p->source->release)
		p->source->release(p);
	free(p->command);
	free(p->command_line);
	free(p->exe);
	free(p);
}

void process_unshare(struct process *p)
{
	ledger_known(p->ledger, NULL);
	if (p->nodes && p->wire)
		nodes_close(p->nodes);
	shared_unmap(&p->shared);
	p->wire = NULL;
}

#define LINE_MOST 4096u /* of its arguments: there may be thousands of processes */

/* What /proc says of it now: name, arguments, executable, size of its text. */
void process_describe(struct process *p)
{
	char name[PROC_NAME], link[4096], *command, *line = patient_command_line(p->via), *whole;
	int64_t text = proc_status_field(p->via, "VmExe");
	ssize_t n;

	proc_name(p->pid, p->pid, name);
	command = *name ? strdup(name) : NULL;
	if (command) {
		free(p->command);
		p->command = command;
	}
	whole = line ? strndup(line, LINE_MOST) : NULL;
	free(line);
	if (whole) {
		free(p->command_line);
		p->command_line = whole;
	}
	n = patient_link(p->via, "exe", link, sizeof(link));
	if (n > 0) {
		free(p->exe);
		p->exe = strdup(link);
	}
	if (text > 0)
		p->image_bytes = (uint64_t)text * 1024;
}

uint64_t process_allocated(const struct process *p, unsigned count)
{
	struct ledger_totals t;

	ledger_totals(p->ledger, &t);
	return (count & LEDGER_COUNT_HEAP ? t.heap : 0) + (count & LEDGER_COUNT_MMAP ? t.mmap : 0) +
	       (count & COUNT_IMAGE ? p->image_bytes : 0);
}

void process_totals(const struct process *p, unsigned count, struct process_totals *to)
{
	struct ledger_totals t;

	if (p->source->totals) {
		p->source->totals(p, to);
		return;
	}
	ledger_totals(p->ledger, &t);
	*to = (struct process_totals){
		.allocated = (int64_t)process_allocated(p, count),
		.live = (int64_t)(t.heap + t.mmap),
		.heap = (int64_t)t.heap,
		.mmap = (int64_t)t.mmap,
		.peak = (int64_t)t.peak,
		.peak_ms = (int64_t)t.peak_ms,
		.live_blocks = (int64_t)t.live_blocks,
		.allocs = (int64_t)t.allocs,
		.frees = (int64_t)t.frees,
		.maps = (int64_t)t.maps,
		.unmaps = (int64_t)t.unmaps,
		.temporary = (int64_t)t.temporary,
		.total_allocated = (int64_t)t.total_allocated,
	};
}

/* ---- where its numbers come from ----------------------------------------- */

uint32_t process_stack_parent(const struct process *p, uint32_t stack, uint64_t *pc)
{
	return p->source->parent(p, stack, pc);
}

bool process_question(const struct process *p, uint32_t node, uint64_t pc,
		      struct symbol_question *q)
{
	return pc != WIRE_PC_TRUNCATED && pc != WIRE_PC_DEEP && p->source->question(p, node, pc, q);
}

bool process_passed_over(const struct process *p, uint32_t node, uint64_t pc)
{
	struct symbol_question q;

	return process_question(p, node, pc, &q) && symbols_passed_over(q.module);
}

struct symbol_frames process_frames(struct process *p, uint32_t node, uint64_t pc)
{
	return p->source->frames(p, node, pc);
}

int process_site_skip(struct process *p, const char *regex, const char **error)
{
	int err = symbols_site_skip(p->symbols, regex, error);

	return err || !p->source->site_skip ? err : p->source->site_skip(p, regex, error);
}

int process_profile(const struct process *p, const struct profile_ask *ask, struct profile *profile)
{
	int err;

	*profile = (struct profile){ 0 };
	err = p->source->profile(p, ask, profile);
	if (!err)
		profile_settle(profile);
	return err;
}

const char *process_trouble(const struct process *p)
{
	return p->source->trouble ? p->source->trouble(p) : "";
}

/* ---- a process of ours --------------------------------------------------- */

bool process_in_agent(const struct process *p, raddr_t pc)
{
	return p->agent && pc - p->agent < AGENT_BEACON;
}

static uint32_t our_parent(const struct process *p, uint32_t stack, uint64_t *pc)
{
	if (!p->nodes) {
		*pc = 0;
		return 0;
	}
	stack = nodes_parent(p->nodes, stack, pc);
	if (*pc & WIRE_PC_EXACT || plant_in_island(&p->plant, *pc & WIRE_PC_MASK)) {
		raddr_t original = plant_original_pc(&p->plant, *pc & WIRE_PC_MASK);

		if (original)
			*pc = original | WIRE_PC_EXACT;
	}
	/* frames of ours, where a signal interrupted a hook, are passed over */
	while (stack) {
		uint64_t above;
		uint32_t parent = nodes_parent(p->nodes, stack, &above);

		if (!process_in_agent(p, above & WIRE_PC_MASK))
			break;
		stack = parent;
	}
	return stack;
}

static bool our_question(const struct process *p, uint32_t node, uint64_t pc,
			 struct symbol_question *q)
{
	process_code(p, node, pc, q);
	return true;
}

void process_code(const struct process *p, uint32_t node, uint64_t pc, struct symbol_question *q)
{
	q->exact = pc & WIRE_PC_EXACT;
	q->pc = pc & WIRE_PC_MASK;
	q->module = modules_find(&p->modules, q->pc - !q->exact, node);
}

struct symbol_frames process_look_up(struct process *p, uint32_t node, uint64_t pc)
{
	static const struct symbol_frame truncated = { .function = "[truncated]" };
	struct symbol_question q;

	if (!process_question(p, node, pc, &q))
		return (struct symbol_frames){ 1, &truncated };
	return symbols_resolve(p->symbols, q.module, q.pc, q.exact);
}

static int our_profile(const struct process *p, const struct profile_ask *ask,
		       struct profile *profile)
{
	return profile_from_ledger(profile, p->ledger, ask);
}

static const struct process_source ours = {
	.parent = our_parent,
	.question = our_question,
	.frames = process_look_up,
	.profile = our_profile,
};

/*
 * A mapping is the program's own when its caller is neither libc, ld.so nor an allocator. An
 * executable is the program, but in a static one, or where an allocator is linked in, the function
 * tells: there thread stacks are mapped by code that came from libc, and arenas.
 */
bool process_own_mapping(void *ctx, uint32_t stack)
{
	struct process *p = ctx;
	const struct module *m;
	struct symbol_frames f;
	uint64_t pc;

	process_stack_parent(p, stack, &pc);
	m = pc ? modules_find(&p->modules, pc & WIRE_PC_MASK, stack) : NULL;
	if (!m)
		return true;
	if (!(m->roles & MODULE_EXE))
		return !(m->roles & (MODULE_LIBC | MODULE_LDSO | MODULE_ALLOCATOR));
	if (!m->elf || !(elf_is_static(m->elf) || m->roles & MODULE_ALLOCATOR))
		return true;
	f = process_frames(p, stack, pc);
	return !(f.frame[f.count - 1].skip & (SKIP_LIBRARY | SKIP_ALLOCATOR)) &&
	       !site_is_wrapper(f.frame[f.count - 1].function);
}
