/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "report/classify_address.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/proc.h"
#include "inject/wire.h"
#include "process/process.h"
#include "symbols/demangle.h"
#include "symbols/elf.h"
#include "tracee/agent.h"

/*
 * The kernel's list of mappings says most. It does not say whose an anonymous mapping is: glibc and
 * musl put a thread's control block at the top of its stack, and the thread pointer, by which our
 * slots know their threads, points there; the stack pointer of a thread that sleeps is in /proc.
 * Everything else that is anonymous, and has blocks below the address in the same mapping, belongs
 * to an allocator.
 */
#define CONTROL_BLOCK 4096 /* at most, above the thread pointer */

struct lines {
	char *text;
	size_t len, used;
};

static void PRINTF(2, 3) say(struct lines *l, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(l->text + l->used, l->len - l->used, format, args);
	va_end(args);
	l->used = n < 0 ? l->used : l->used + (size_t)n < l->len ? l->used + (size_t)n : l->len - 1;
}

/* ---- stacks -------------------------------------------------------------- */

/* The thread whose stack, up to its control block, ADDR is on; 0: none. */
static pid_t stack_owner(const struct process *p, const struct map *m, raddr_t addr)
{
	uint32_t high = p->wire ? shared_slots_mapped(&p->shared) : 0;
	raddr_t nearest = UINT64_MAX, rsp;
	pid_t found = 0, *tid;
	int n;

	for (uint32_t i = 0; i < high; i++) {
		uint64_t fs = __atomic_load_n(&p->wire->thread[i].fs, __ATOMIC_ACQUIRE);

		if (fs < m->start || fs >= m->end || addr >= fs + CONTROL_BLOCK || fs >= nearest)
			continue;
		nearest = fs;
		found = (pid_t)(p->wire->thread[i].tid & INT32_MAX);
	}
	n = found ? 0 : proc_threads(p->via, &tid);
	for (int i = 0; i < n && !found; i++) {
		rsp = proc_sleeping_rsp(p->via, tid[i]);
		if (rsp >= m->start && rsp < m->end)
			found = tid[i];
	}
	if (n > 0)
		free(tid);
	return found;
}

static raddr_t main_thread_rsp(const struct process *p)
{
	return proc_sleeping_rsp(p->via, p->pid);
}

/* ---- modules ------------------------------------------------------------- */

static const struct module *module_at(const struct process *p, raddr_t addr)
{
	for (size_t i = p->modules.count; i-- > 0;) {
		const struct module *m = p->modules.module[i];

		if (m->dead == UINT32_MAX && addr >= m->start && addr < m->end)
			return m;
	}
	return NULL;
}

static const char *section_at(const struct module *m, uint64_t vaddr)
{
	const struct elf_section *s;
	size_t n = elf_sections(m->elf, &s);

	for (size_t i = 0; i < n; i++)
		if (s[i].flags & 2 /* SHF_ALLOC */ && !(s[i].flags & 0x400 /* SHF_TLS */) &&
		    vaddr >= s[i].addr && vaddr - s[i].addr < s[i].size)
			return s[i].name;
	return NULL;
}

/* The symbol that VADDR is in; of several the shortest, and of those an exported name. */
static bool symbol_at(const struct module *m, uint64_t vaddr, struct elf_symbol *best)
{
	struct elf_symbol s;
	size_t cursor = 0;
	bool found = false;

	while (elf_next_symbol(m->elf, &cursor, &s)) {
		if (vaddr < s.value || vaddr - s.value >= (s.size ? s.size : 1) ||
		    (found && s.size >= best->size) || !*s.name || s.type > 2)
			continue;
		*best = s;
		found = true;
	}
	return found;
}

static void say_module(struct lines *l, struct process *p, const struct module *m, raddr_t addr)
{
	uint64_t vaddr = addr - m->bias;
	const char *section = section_at(m, vaddr);
	struct elf_symbol s;
	bool named = symbol_at(m, vaddr, &s);

	if (named) {
		char *readable = demangle(s.name);

		say(l, "%s", readable ? readable : s.name);
		free(readable);
		if (vaddr != s.value)
			say(l, "+%" PRIu64, vaddr - s.value);
		say(l, " in ");
	}
	if (section)
		say(l, "section %s of ", section);
	say(l, "%s", m->path);
	if (!named)
		say(l, "+0x%" PRIx64, vaddr);
	if (addr >= m->text_start && addr < m->text_end) {
		struct symbol_frames f = symbols_resolve(p->symbols, m, addr, true);
		const struct symbol_frame *in = &f.frame[0];

		if (in->file)
			say(l, " at %s:%u:%u", in->file, in->line, in->column);
	}
}

/* ---- the whole ----------------------------------------------------------- */

static void say_anonymous(struct lines *l, const struct process *p, const struct map *m,
			  raddr_t addr)
{
	pid_t tid = stack_owner(p, m, addr);
	struct ledger_block below;

	if (tid) {
		say(l, "the stack of thread %d", (int)tid);
		return;
	}
	if (!m->read && !m->write && !m->exec) {
		say(l, "reserved address space that is not accessible");
		return;
	}
	if (!strcmp(m->path, "[heap]")) {
		say(l, "the allocator's heap");
		return;
	}
	if (ledger_below(p->ledger, addr, &below) && below.address >= m->start)
		say(l, "the allocator's memory");
	else
		say(l, "anonymous memory");
	say(l, " (mapping 0x%" PRIx64 "-0x%" PRIx64 ")", m->start, m->end);
}

static void say_mapped(struct lines *l, struct process *p, const struct map *m, raddr_t addr)
{
	const struct module *module = module_at(p, addr);

	if (agent_owns(p, m))
		say(l, "mtrun's own memory");
	else if (!strcmp(m->path, "[stack]")) {
		raddr_t rsp = main_thread_rsp(p);

		say(l, "the stack of thread %d%s", (int)p->pid,
		    rsp && addr < rsp - 128 && rsp < m->end ? ", below what is in use" : "");
	} else if (module)
		say_module(l, p, module, addr);
	else if (m->path[0] && strcmp(m->path, "[heap]"))
		say(l, "%s+0x%" PRIx64 "%s", m->path, addr - m->start + m->offset,
		    m->deleted ? " (deleted)" : "");
	else
		say_anonymous(l, p, m, addr);
}

void classify_address(struct process *p, raddr_t addr, char *text, size_t len)
{
	struct lines l = { .text = text, .len = len };
	struct maps maps;
	const struct map *m;

	text[0] = '\0';
	if (p->state == PROCESS_EXITED || p->state == PROCESS_REPLACED ||
	    p->state == PROCESS_DETACHED || maps_read(&maps, p->via)) {
		say(&l, "unknown: the process is gone");
		return;
	}
	m = maps_find(&maps, addr);
	if (m)
		say_mapped(&l, p, m, addr);
	else
		say(&l, "unmapped");
	maps_release(&maps);
}
