// SPDX-License-Identifier: GPL-3.0-or-later
#include "tracee/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/maps.h"
#include "base/message.h"
#include "base/patient.h"
#include "base/proc.h"
#include "patch/hooks.h"
#include "patch/plant.h"
#include "symbols/elf.h"
#include "tracee/journal.h"
#include "tracee/mail.h"
#include "transport/nodes.h"
#include "unwind/image.h"

/*
 * agent_modules.c - keeps up with the modules of a target: what is new is hooked, and its unwind
 * tables are published; what has gone is forgotten. Memory for either is mapped in the target by a
 * thread of its own.
 */

struct reach { /* how the planter reaches the target */
	struct process *p;
	pid_t tid;
	struct wire_mail *mail; /* of the thread that serves; NULL: none does */
	/* has a thread make calls, if none serves; NULL: all threads are stopped */
	agent_caller *caller;
	void *ctx;
	const raddr_t *pc; /* where they are stopped */
	size_t n;
};

static int reach_write(void *ctx, raddr_t addr, const void *buf, size_t len)
{
	return patient_write(((struct reach *)ctx)->p->via, addr, buf, len);
}

static int reach_write_spans(void *ctx, const struct remote_span *span, size_t n, const void *buf)
{
	return patient_write_spans(((struct reach *)ctx)->p->via, span, n, buf);
}

static int reach_note(void *ctx, const struct plant *plant)
{
	const struct process *p = ((struct reach *)ctx)->p;

	return p->wire ? journal_write(p->via, p->agent, plant) : -ESRCH;
}

static ssize_t reach_read(void *ctx, raddr_t addr, void *buf, size_t len)
{
	return patient_read(((struct reach *)ctx)->p->via, addr, buf, len);
}

static void reach_read_spans(void *ctx, const struct remote_span *span, size_t n, void *buf)
{
	patient_read_spans(((struct reach *)ctx)->p->via, span, n, buf);
}

/* The nearest hole of LEN bytes from which a 32-bit jump reaches every byte of [LO, HI); 0: none. */
static raddr_t find_hole(const struct maps *maps, raddr_t lo, raddr_t hi, size_t len)
{
	raddr_t best = 0, distance = UINT64_MAX, end = 65536;

	for (size_t i = 0; i <= maps->count; i++) {
		raddr_t next = i < maps->count ? maps->map[i].start : 1ull << 47;

		if (i < maps->count && (maps->map[i].start >> 47))
			break;
		if (next > end && next - end >= len + 2 * PAGE) {
			raddr_t below = next - len - PAGE, above = end + PAGE,
				at = below < lo ? below : above;
			raddr_t far = at < lo ? hi - at : at + len - lo;

			if (far < PLANT_REACH && far < distance) {
				distance = far;
				best = at;
			}
		}
		if (i < maps->count)
			end = maps->map[i].end;
	}
	return best;
}

/* -EEXIST: the program has mapped something there meanwhile. */
static int map_near_once(struct reach *r, raddr_t lo, raddr_t hi, size_t len, raddr_t *at)
{
	struct wire_call call = MAIL_CALL(SYS_mmap, 0, len, PROT_READ | PROT_EXEC,
					  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1ull,
					  0);
	struct maps maps;
	int err = r->mail || r->caller ? maps_read(&maps, r->p->via) : -ENOSPC;

	if (err)
		return err;
	call.arg[0] = find_hole(&maps, lo, hi, len);
	maps_release(&maps);
	if (!call.arg[0] || !r->p->wire)
		return -ENOSPC;
	err = journal_island(r->p->via, r->p->agent, &r->p->plant, call.arg[0], call.arg[0] + len);
	if (!err)
		err = r->mail ? mail_work(r->p, r->mail, r->tid, &call, 1)
			      : r->caller(r->ctx, r->p, &call, 1);
	if (err)
		return err;
	if (call.ret == (int64_t)call.arg[0]) {
		*at = call.arg[0];
		return 0;
	}
	return call.ret < 0 ? (int)call.ret : -ENOSPC;
}

#define MAP_TRIES 20

static int reach_map_near(void *ctx, raddr_t lo, raddr_t hi, size_t len, raddr_t *at)
{
	int err = -EEXIST;

	for (unsigned i = 0; i < MAP_TRIES && err == -EEXIST; i++)
		err = map_near_once(ctx, lo, hi, len, at);
	return err == -EEXIST ? -ENOSPC : err;
}

/*
 * A thread that ends gives back the chunks in its cache by calling free() on what the program has
 * freed already. Those calls come from libc's text; in a static executable, from this function.
 */
static void find_libc(struct wire_process *w, const struct module *m)
{
	struct elf_symbol symbol;
	size_t cursor = 0;

	if (m->roles & MODULE_LIBC) {
		if (w->libc_start) /* the program's own is the first */
			return;
		w->libc_start = m->text_start;
		w->libc_size = m->text_end - m->text_start;
	} else if ((m->roles & MODULE_EXE) && elf_is_static(m->elf) &&
		   elf_find(m->elf, "__malloc_arena_thread_freeres", &cursor, &symbol)) {
		w->libc_start = m->bias + symbol.value;
		w->libc_size = symbol.size;
	}
}

static bool in_use(const struct reach *r, const struct module *m)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->pc[i] >= m->text_start && r->pc[i] < m->text_end)
			return true;
	return false;
}

static void find_errno(struct wire_process *w, const struct module *m)
{
	struct elf_symbol symbol;
	size_t cursor = 0;

	if ((m->roles & MODULE_LIBC || (m->roles & MODULE_EXE && elf_is_static(m->elf))) &&
	    elf_find(m->elf, "__errno_location", &cursor, &symbol))
		__atomic_store_n(&w->errno_location, m->bias + symbol.value, __ATOMIC_RELEASE);
}

/* The state that ld.so shows to debuggers: `r_state` of <link.h>'s struct r_debug. */
static void find_loading(struct wire_process *w, const struct module *m)
{
	struct elf_symbol symbol;
	size_t cursor = 0;

	if (elf_find(m->elf, "_r_debug", &cursor, &symbol) && symbol.size >= sizeof(struct r_debug))
		__atomic_store_n(&w->loading,
				 m->bias + symbol.value + offsetof(struct r_debug, r_state),
				 __ATOMIC_RELEASE);
}

static int plant_all(struct process *p, const struct plant_ops *ops,
		     const struct agent_settings *settings)
{
	const struct reach *reach = ops->ctx;
	struct plant_agent agent = { .armed = p->agent + AGENT_GUARD +
					      offsetof(struct wire_guard, armed) };
	int err, missed = 0;

	blob_entries(p->agent + AGENT_BLOB, agent.entry);
	for (size_t i = 0; i < p->modules.count; i++) {
		struct module *m = p->modules.module[i];

		if (m->dead != UINT32_MAX || m->planted)
			continue;
		if (reach->caller)
			reach->caller(reach->ctx, p, NULL, 0);
		if (!p->wire) /* it has ended, or become another program */
			return -ESRCH;
		err = in_use(reach, m) ? -EBUSY
				       : plant_module(&p->plant, m, ops, &agent, settings->hook,
						      settings->nhooks);
		if (err == -EBUSY || err == -ENOSPC) {
			missed = missed == -EBUSY ? missed : err;
			continue;
		}
		if (err < 0)
			return err;
		if (m->roles & MODULE_LDSO) {
			err = plant_function(&p->plant, m, ops, &agent, "_dl_debug_state",
					     HOOK_DEBUG_STATE);
			if (err < 0 && err != -ENOENT)
				message_verbose(
					1, "libraries that %d loads later are not supervised: %s",
					p->pid, strerror(-err));
			find_loading(p->wire, m);
		}
		find_libc(p->wire, m);
		find_errno(p->wire, m);
	}
	return missed;
}

/* Takes our own mappings out of the list: they are no modules of the target's. */
static void leave_out_agent(struct maps *maps, const struct process *p)
{
	size_t n = 0;

	for (size_t i = 0; i < maps->count; i++)
		if (!agent_owns(p->agent, &maps->map[i]))
			maps->map[n++] = maps->map[i];
	maps->count = n;
}

/* Maps more of the tables in the target, at the ends of what is mapped (image_extend). */
static int extend_view(void *ctx, struct image_view *view, const struct image_view *more)
{
	struct reach *r = ctx;
	struct wire_call call[] = {
		MAIL_CALL(SYS_mremap, r->p->agent + AGENT_TABLES + view->rules - PAGE, PAGE,
			  PAGE + more->rules - view->rules, 0),
		MAIL_CALL(SYS_mremap, r->p->agent + AGENT_POOL + view->pool - PAGE, PAGE,
			  PAGE + more->pool - view->pool, 0),
	};
	int err = r->mail     ? mail_work(r->p, r->mail, r->tid, call, 2)
		  : r->caller ? r->caller(r->ctx, r->p, call, 2)
			      : -ENOSPC;

	if (err)
		return err;
	if (call[0].ret == (int64_t)call[0].arg[0])
		view->rules = more->rules;
	if (call[1].ret == (int64_t)call[1].arg[0])
		view->pool = more->pool;
	return view->rules == more->rules && view->pool == more->pool ? 0 : -ENOSPC;
}

static void say_no_tables(const struct process *p)
{
	message_say(
		"%d: there is no room in its address space for all unwind tables: some stacks end early",
		(int)p->pid);
}

static void say_too_many(struct process *p)
{
	if (!p->crowded)
		message_say(
			"%d: it has more than %u files mapped as code: stacks that pass through the others end early",
			(int)p->pid, WIRE_MODULES);
	p->crowded = true;
}

static int refresh(struct process *p, struct reach *reach, const struct agent_settings *settings)
{
	struct plant_ops ops = { .map_near = reach_map_near,
				 .write = reach_write,
				 .read = reach_read,
				 .write_spans = reach_write_spans,
				 .read_spans = reach_read_spans,
				 .ctx = reach,
				 .note = reach_note,
				 .later = reach->caller };
	struct maps maps;
	bool overlap = false;
	int err = maps_read(&maps, p->via), missed;

	if (err)
		return err;
	leave_out_agent(&maps, p);
	err = modules_update(&p->modules, p->via, p->outside, &maps, nodes_count(p->nodes),
			     &overlap);
	maps_release(&maps);
	if (err < 0)
		return err;
	for (size_t i = 0; i < p->modules.count; i++) {
		struct module *m = p->modules.module[i];

		if (m->dead != UINT32_MAX && m->planted) {
			plant_forget(&p->plant, m->start, m->end);
			m->planted = false;
		}
	}
	if (overlap) {
		uint32_t root = nodes_root(p->nodes);

		p->wire->root = root ? root : p->wire->root;
	}
	/* both take long where there is much code */
	for (size_t i = 0; i < p->modules.count; i++)
		if (p->modules.module[i]->dead == UINT32_MAX && !p->modules.module[i]->planted)
			plant_prepare(p->modules.module[i]);
	image_build(p->image, &p->modules);
	missed = plant_all(p, &ops, settings);
	if (!p->wire)
		return -ESRCH;
	if (missed && missed != -EBUSY && missed != -ENOSPC)
		return missed;
	err = image_publish(p->image, &p->modules, &p->plant, p->wire, p->agent, &p->view,
			    extend_view, reach);
	if (err == -ENOSPC && (reach->mail || reach->caller)) {
		say_no_tables(p);
		err = 0;
	} else if (err == -E2BIG) {
		say_too_many(p);
		err = 0;
	}
	return err ? err : missed;
}

int agent_refresh(struct process *p, pid_t tid, struct wire_mail *mail,
		  const struct agent_settings *settings)
{
	return refresh(p, &(struct reach){ .p = p, .tid = tid, .mail = mail }, settings);
}

int agent_refresh_stopped(struct process *p, const raddr_t *pc, size_t n,
			  const struct agent_settings *settings)
{
	return refresh(p, &(struct reach){ .p = p, .pc = pc, .n = n }, settings);
}

int agent_prepare(struct process *p, const struct agent_settings *settings)
{
	struct maps maps;
	bool overlap;
	int err = maps_read(&maps, p->via);

	if (err)
		return err;
	err = modules_update(&p->modules, p->via, p->outside, &maps, 0, &overlap);
	maps_release(&maps);
	for (size_t i = 0; i < p->modules.count; i++) {
		struct module *m = p->modules.module[i];
		struct hook_sites sites;

		if (hooks_find(&sites, m, settings->hook, settings->nhooks) < 0)
			continue;
		if (sites.allocator)
			m->roles |= MODULE_ALLOCATOR;
		hooks_release(&sites);
		plant_prepare(m);
	}
	image_prepare(&p->modules);
	return err < 0 ? err : 0;
}

int agent_plan(struct process *p, agent_caller *caller, void *ctx,
	       const struct agent_settings *settings)
{
	return refresh(p, &(struct reach){ .p = p, .caller = caller, .ctx = ctx }, settings);
}

struct writer { /* many small writes into one process */
	pid_t pid;
	int mem;
};

static int write_mem(void *ctx, raddr_t addr, const void *buf, size_t len)
{
	const struct writer *w = ctx;
	ssize_t n;

	do
		n = pwrite(w->mem, buf, len, (off_t)addr);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)len ? 0 : n < 0 ? -errno : -ESRCH;
}

static void read_mem_spans(void *ctx, const struct remote_span *span, size_t n, void *buf)
{
	patient_read_spans(((struct writer *)ctx)->pid, span, n, buf);
}

static int with_writer(struct process *p,
		       int (*fn)(struct plant *plant, const struct plant_ops *ops))
{
	struct writer w = { p->via, proc_open(p->via, "mem", O_WRONLY) };
	const struct plant_ops ops = { .write = write_mem,
				       .read_spans = read_mem_spans,
				       .ctx = &w };
	int err = w.mem < 0 ? w.mem : fn(&p->plant, &ops);

	if (w.mem >= 0)
		close(w.mem);
	return err;
}

int agent_plant(struct process *p) { return with_writer(p, plant_write); }

int agent_uproot(struct process *p) { return with_writer(p, plant_uproot); }
