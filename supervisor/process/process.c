// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * process.c - the record of one process, and the way from a stack's number to its frames.
 */
#include "process/process.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbols/elf.h"
#include "report/heapfile.h"
#include "tracee/agent.h"
#include "unwind/image.h"
#include "log/recorder.h"
#include "log/replay.h"
#include "transport/nodes.h"
#include "base/proc.h"

const char *process_state_name(enum process_state state)
{
	static const char *const name[] = { "running", "stopped", "exited", "exited", "replaced", "detached" };

	return name[state];
}

/* FROM is taken over, NULL: out of memory. */
static struct process *new_process(pid_t pid, pid_t ppid, unsigned count, struct ledger *ledger, struct outside *from)
{
	struct process *p = from ? calloc(1, sizeof(*p)) : NULL;

	if (!p) {
		outside_free(from);
		ledger_free(ledger);
		return NULL;
	}
	p->pid = p->via = pid;
	p->ppid = ppid;
	p->ledger = ledger ? ledger : ledger_new(count);
	p->outside = from;
	p->symbols = symbols_new(from);
	if (!p->ledger || !p->symbols) {
		process_free(p);
		return NULL;
	}
	return p;
}

struct process *process_new(pid_t pid, pid_t ppid, unsigned count, struct ledger *ledger)
{
	return new_process(pid, ppid, count, ledger, outside_of_process(pid));
}

void process_free(struct process *p)
{
	if (!p)
		return;
	recorder_release(p);
	stream_free(p->stream);
	home_release(p);
	image_unref(p->image);
	nodes_unref(p->nodes);
	modules_release(&p->modules);
	plant_release(&p->plant);
	ledger_free(p->ledger);
	ledger_free(p->deaf);
	marks_release(&p->marks);
	snapshots_release(&p->snapshots);
	limit_release(&p->limit);
	symbols_free(p->symbols);
	outside_free(p->outside);
	credible_release(&p->credible);
	if (p->heap)
		heap_release(p->heap);
	free(p->heap);
	free(p->command);
	free(p->exe);
	free(p);
}

struct process *process_of_heap(struct heap *heap)
{
	struct process *p = new_process(heap->facts.pid, 0, heap->facts.counted, NULL, outside_of_owner(heap->owner));
	struct heap *own = malloc(sizeof(*own));

	if (!p || !own) {
		process_free(p);
		free(own);
		heap_release(heap);
		return NULL;
	}
	*own = *heap;
	p->heap = own;
	p->via = getpid();			/* whose number that is by now nobody knows: files are looked for as we see them */
	p->state = PROCESS_DETACHED;
	p->ended_ms = own->profile.ms;
	p->command = own->facts.command ? strdup(own->facts.command) : NULL;
	p->exe = own->facts.exe ? strdup(own->facts.exe) : NULL;
	p->modules = own->modules;
	p->marks = own->marks;
	own->modules = (struct modules){ 0 };
	own->marks = (struct marks){ 0 };
	p->before = own->facts.before;
	own->facts.modules = &p->modules;
	own->facts.marks = &p->marks;
	return p;
}

static char *copy(const char *text)
{
	return text ? strdup(text) : NULL;
}

struct process *process_of_log(struct replay_process *log, unsigned count)
{
	const struct log_process *facts = replay_facts(log);
	struct process *p = new_process(facts->pid, facts->ppid, count, replay_ledger(log), outside_of_owner(replay_owner(log)));

	if (!p)
		return NULL;
	facts = replay_facts(log);		/* the ledger may have come to an earlier end */
	if (replay_modules(log, &p->modules) || replay_marks(log, &p->marks)) {
		process_free(p);
		return NULL;
	}
	p->via = getpid();
	p->log = log;
	p->state = (enum process_state)facts->state;
	p->wait_status = facts->wait_status;
	p->began_ms = facts->began_ms;
	p->recorded_ms = replay_recorded_ms(log);
	p->ended_ms = facts->ended_ms;
	p->image_bytes = facts->image_bytes;
	p->before = facts->before;
	p->command = copy(facts->command);
	p->exe = copy(facts->exe);
	p->unsupervised = facts->unsupervised;
	p->ledger_used = true;
	return p;
}

/* What /proc says of it now: name, executable, size of its text. */
void process_describe(struct process *p)
{
	char name[PROC_NAME], link[4096], *command;
	int64_t text = proc_status_field(p->via, "VmExe");
	ssize_t n;

	proc_name(p->pid, p->pid, name);
	command = *name ? strdup(name) : NULL;
	if (command) {
		free(p->command);
		p->command = command;
	}
	n = proc_readlink(p->via, "exe", link, sizeof(link));
	if (n > 0) {
		free(p->exe);
		p->exe = strdup(link);
	}
	if (text > 0)
		p->image_bytes = (uint64_t)text * 1024;
}

/* ---- stacks ----------------------------------------------------------------------------------------------------------------------- */

uint32_t process_stack_parent(const struct process *p, uint32_t stack, uint64_t *pc)
{
	if (p->heap)
		return stacks_parent(p->heap->stacks, stack, pc);
	if (p->log)
		return replay_parent(p->log, stack, pc);
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
	while (stack) {			/* frames of ours, where a signal interrupted a hook, are passed over */
		uint64_t above;
		uint32_t parent = nodes_parent(p->nodes, stack, &above);

		if (!home_contains(p, above & WIRE_PC_MASK))
			break;
		stack = parent;
	}
	return stack;
}

bool process_question(const struct process *p, uint32_t node, uint64_t pc, struct symbol_question *q)
{
	struct symbol_frames told;

	if (pc == WIRE_PC_TRUNCATED || pc == WIRE_PC_DEEP || p->heap)
		return false;
	q->exact = pc & WIRE_PC_EXACT;
	q->pc = pc & WIRE_PC_MASK;
	q->module = modules_find(&p->modules, q->pc - !q->exact, node);
	if (!p->log)
		return true;
	if (q->module && !q->module->build_id_len)	/* what has that name here may be anything */
		q->module = NULL;
	return !replay_frames(p->log, &p->modules, node, pc, &told);
}

struct symbol_frames process_frames(struct process *p, uint32_t node, uint64_t pc)
{
	static const struct symbol_frame truncated = { .function = "[truncated]" };
	struct symbol_frames told;
	struct symbol_question q;

	if (p->heap)
		return stacks_frames(p->heap->stacks, node, pc);
	if (p->log && replay_frames(p->log, &p->modules, node, pc, &told))
		return told;
	if (!process_question(p, node, pc, &q))
		return (struct symbol_frames){ 1, &truncated };
	return symbols_resolve(p->symbols, q.module, q.pc, q.exact);
}

int process_site_skip(struct process *p, const char *regex, const char **error)
{
	int err = p->heap ? heap_site_skip(p->heap, regex, error) : symbols_site_skip(p->symbols, regex, error);

	return err || !p->log ? err : replay_site_skip(p->log, regex, error);
}

/*
 * A mapping is the program's own when its caller is neither libc, ld.so nor an allocator. An executable is the program, whatever it defines, but in a
 * static one the function tells: there thread stacks are mapped by code that came from libc.
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
	if (!m->elf || !elf_is_static(m->elf))
		return true;
	f = process_frames(p, stack, pc);
	return !(f.frame[f.count - 1].skip & (SKIP_LIBRARY | SKIP_ALLOCATOR));
}
