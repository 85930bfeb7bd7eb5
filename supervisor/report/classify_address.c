// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/classify_address.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/patient.h"
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

/* All threads are looked at only where ADDR may be on the stack of any. */
static void add_sleepers(struct address_view *v, pid_t pid)
{
	pid_t *tid = NULL;
	int n = proc_threads(pid, &tid);

	v->sleeper = n > 0 ? malloc((size_t)n * sizeof(*v->sleeper)) : NULL;
	for (int i = 0; i < n && v->sleeper; i++) {
		struct sleeper *s = &v->sleeper[v->sleepers];
		raddr_t pc;
		long nr;

		s->tid = tid[i];
		if (patient_sleeping(s->tid, &nr, &s->rsp, &pc) && s->rsp >= v->map->start &&
		    s->rsp < v->map->end)
			v->sleepers++;
	}
	if (n >= 0)
		free(tid);
}

void address_view_make(struct address_view *v, pid_t pid, raddr_t addr)
{
	*v = (struct address_view){ 0 };
	v->err = maps_read(&v->maps, pid);
	v->map = v->err ? NULL : maps_find(&v->maps, addr);
	if (v->map && (!v->map->path[0] || v->map->path[0] == '['))
		add_sleepers(v, pid);
}

void address_view_release(struct address_view *v)
{
	if (!v->err)
		maps_release(&v->maps);
	free(v->sleeper);
}

/* The thread whose stack, up to its control block, ADDR is on; 0: none. */
static pid_t stack_owner(const struct process *p, const struct address_view *v, raddr_t addr)
{
	uint32_t high = p->wire ? shared_slots_mapped(&p->shared) : 0;
	const struct map *m = v->map;
	raddr_t nearest = UINT64_MAX;
	pid_t found = 0;

	for (uint32_t i = 0; i < high; i++) {
		uint64_t fs = __atomic_load_n(&p->wire->thread[i].fs, __ATOMIC_ACQUIRE);

		if (fs < m->start || fs >= m->end || addr >= fs + CONTROL_BLOCK || fs >= nearest)
			continue;
		nearest = fs;
		found = (pid_t)(p->wire->thread[i].tid & INT32_MAX);
	}
	return found ? found : v->sleepers ? v->sleeper[0].tid : 0;
}

/* 0: it does not sleep, or not on that stack. */
static raddr_t main_thread_rsp(const struct process *p, const struct address_view *v)
{
	for (size_t i = 0; i < v->sleepers; i++)
		if (v->sleeper[i].tid == p->pid)
			return v->sleeper[i].rsp;
	return 0;
}

/* ---- modules ------------------------------------------------------------- */

static const char *section_at(const struct module *m, uint64_t vaddr)
{
	const struct elf_section *s;
	size_t n = elf_sections(m->elf, &s);

	for (size_t i = 0; i < n; i++)
		if (s[i].flags & SHF_ALLOC && !(s[i].flags & SHF_TLS) && vaddr >= s[i].addr &&
		    vaddr - s[i].addr < s[i].size)
			return s[i].name;
	return NULL;
}

/*
 * The symbol that VADDR (LOCAL: that far into the module's thread-local data) is in; of several the
 * one of the fewest bytes, and of those the first in the table.
 */
static bool symbol_at(const struct module *m, uint64_t vaddr, bool local, struct elf_symbol *best)
{
	struct elf_symbol s;
	size_t cursor = 0;
	bool found = false;

	while (local ? elf_next_thread_local(m->elf, &cursor, &s)
		     : elf_next_symbol(m->elf, &cursor, &s)) {
		if (vaddr < s.value || vaddr - s.value >= (s.size ? s.size : 1) ||
		    (found && s.size >= best->size) || !*s.name || (!local && s.type > STT_FUNC))
			continue;
		*best = s;
		found = true;
	}
	return found;
}

static char *readable(const char *name)
{
	char *text = demangle(name);

	return text ? text : strdup(name);
}

bool classify_variable(const struct process *p, raddr_t addr, struct classified_variable *v)
{
	const struct module *m = modules_find_data(&p->modules, addr);
	struct elf_symbol s;

	if (!m)
		return false;
	*v = (struct classified_variable){ .offset = addr - m->bias,
					   .section = section_at(m, addr - m->bias),
					   .module = m->path };
	if (symbol_at(m, addr - m->bias, false, &s)) {
		v->name = readable(s.name);
		v->offset -= v->name ? s.value : 0;
	}
	return true;
}

/* How much of what lies below a thread's pointer is M's, which is the executable; 0: nothing. */
static uint64_t own_thread_local(const struct module *m)
{
	size_t size;
	const uint8_t *file = elf_file(m->elf, &size);
	Elf64_Ehdr header;
	Elf64_Phdr segment;

	if (!(m->roles & MODULE_EXE) || size < sizeof(header))
		return 0;
	memcpy(&header, file, sizeof(header));
	for (unsigned i = 0; i < header.e_phnum; i++) {
		uint64_t at = header.e_phoff + i * sizeof(segment);

		if (at > size || size - at < sizeof(segment))
			return 0;
		memcpy(&segment, file + at, sizeof(segment));
		if (segment.p_type == PT_TLS && segment.p_align && segment.p_align <= 65536)
			return (segment.p_memsz + segment.p_align - 1) / segment.p_align *
			       segment.p_align;
	}
	return 0;
}

/*
 * Below the thread's pointer first comes the executable's part, and then what was loaded with it.
 * Which of the others is where is known to the loader alone.
 */
bool classify_thread_local(const struct process *p, raddr_t fs, raddr_t addr,
			   struct classified_variable *v)
{
	uint64_t below = fs - addr, sum = 0;
	struct elf_symbol s;

	*v = (struct classified_variable){ .offset = below };
	for (size_t i = 0; i < p->modules.count; i++) {
		const struct module *m = p->modules.module[i];
		const struct elf_segment *segment;
		size_t n = elf_segments(m->elf, &segment);
		uint64_t own = m->dead == UINT32_MAX ? own_thread_local(m) : 0;

		for (size_t k = 0; k < n && m->dead == UINT32_MAX; k++)
			if (segment[k].type == PT_TLS)
				sum += (segment[k].memsz + 63) & ~63ull;
		if (addr >= fs || below > own)
			continue;
		v->module = m->path;
		if (symbol_at(m, own - below, true, &s)) {
			v->name = readable(s.name);
			v->offset = v->name ? own - below - s.value : below;
		}
	}
	return addr < fs && below <= sum + 2048; /* glibc leaves room for more */
}

static void say_module(struct lines *l, struct process *p, const struct module *m, raddr_t addr)
{
	struct classified_variable v;

	if (!classify_variable(p, addr, &v))
		return;
	if (v.name) {
		say(l, "%s", v.name);
		if (v.offset)
			say(l, "+%" PRIu64, v.offset);
		say(l, " in ");
	}
	if (v.section)
		say(l, "section %s of ", v.section);
	say(l, "%s", m->path);
	if (!v.name)
		say(l, "+0x%" PRIx64, v.offset);
	free(v.name);
	if (addr >= m->text_start && addr < m->text_end) {
		struct symbol_frames f = symbols_resolve(p->symbols, m, addr, true);
		const struct symbol_frame *in = &f.frame[0];

		if (in->file)
			say(l, " at %s:%u:%u", in->file, in->line, in->column);
	}
}

/* ---- the whole ----------------------------------------------------------- */

static void say_anonymous(struct lines *l, const struct process *p, const struct address_view *v,
			  raddr_t addr)
{
	pid_t tid = stack_owner(p, v, addr);
	const struct map *m = v->map;
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

static void say_mapped(struct lines *l, struct process *p, const struct address_view *v,
		       raddr_t addr)
{
	const struct map *m = v->map;
	const struct module *module = modules_find_data(&p->modules, addr);

	if (agent_owns(p->agent, m))
		say(l, "mtrun's own memory");
	else if (!strcmp(m->path, "[stack]")) {
		raddr_t rsp = main_thread_rsp(p, v);

		say(l, "the stack of thread %d%s", (int)p->pid,
		    rsp && addr < rsp - 128 ? ", below what is in use" : "");
	} else if (module)
		say_module(l, p, module, addr);
	else if (m->path[0] && strcmp(m->path, "[heap]"))
		say(l, "%s+0x%" PRIx64 "%s", m->path, addr - m->start + m->offset,
		    m->deleted ? " (deleted)" : "");
	else
		say_anonymous(l, p, v, addr);
}

bool classify_in_module(struct process *p, raddr_t addr, char *text, size_t len)
{
	struct lines l = { .text = text, .len = len };
	const struct module *m = modules_find_data(&p->modules, addr);

	text[0] = '\0';
	if (m)
		say_module(&l, p, m, addr);
	return m;
}

void classify_address(struct process *p, const struct address_view *v, raddr_t addr, char *text,
		      size_t len)
{
	struct lines l = { .text = text, .len = len };

	text[0] = '\0';
	if (v->err == -ETIMEDOUT)
		say(&l, "unknown: " PATIENT_LATE);
	else if (p->state == PROCESS_DETACHED || process_state_gone(p->state) || v->err)
		say(&l, "unknown: the process is %s",
		    p->state == PROCESS_DETACHED ? "detached" : "gone");
	else if (v->map)
		say_mapped(&l, p, v, addr);
	else
		say(&l, "unmapped");
}
