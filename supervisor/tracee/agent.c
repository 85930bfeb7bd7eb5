// SPDX-License-Identifier: GPL-3.0-or-later
#include "tracee/agent.h"

#include <asm/hwcap2.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/maps.h"
#include "base/patient.h"
#include "base/proc.h"
#include "inject/large.h"
#include "process/sampling.h"
#include "tracee/mail.h"
#include "tracee/stub.h"
#include "tracee/tracer.h"
#include "transport/nodes.h"
#include "unwind/image.h"

/*
 * agent.c - how our part comes to be in a target, and what is done there on our behalf.
 *
 * A new image: at the exit stop of its execve the bootstrap stub (inject/entry.S) is copied into
 * unused zero bytes of a page that is executable already: behind the vdso, ld.so or the program.
 * One PTRACE_SETREGS sends the thread there. It maps the agent's private part; system call stops
 * tell us so; we write the trampoline there, and the thread goes on in it (inject/agent.c): it
 * makes the memory files, each of which we open as it is made, maps them, the last parts without
 * our watching, and is in the service loop. There is no breakpoint: if mtrun dies, the thread finds
 * a file without its size, unmaps what is there, restores its registers and returns.
 *
 * A program that runs (attach.c): any of its threads is sent that way, and is put back where it was
 * at once (stub.c); hooks and tables are made ready while the program runs. When we leave
 * (detach.c) a thread is sent through the unmap stub, which unmaps everything.
 *
 * A forked child has its parent's private part and tables, but the guard page was wiped, and
 * nothing else that its parent shares with us is mapped there. Its thread is sent through
 * entry_arrive for a file of its own.
 *
 * Where our actions depend on the result of such a call, it is taken from the registers of the
 * stopped thread.
 */

bool agent_owns(raddr_t agent, const struct map *m)
{
	if (!agent || m->start < agent || m->end > agent + AGENT_SPAN)
		return false;
	return m->start < agent + AGENT_BEACON
		       ? !m->inode
		       : m->shared && m->deleted && !strcmp(m->path, "/memfd:mtrun");
}

/* ---- the bootstrap stub -------------------------------------------------- */

/*
 * The address for the agent: where the kernel itself would put a large mapping, as sanitizers want
 * it, but FAR below what is there, so that its parts can grow in place before the program's own
 * mappings come down to it. 0: there is no room.
 */
#define FAR (64ull << 30)

static raddr_t find_place(pid_t pid)
{
	struct maps maps;
	raddr_t found = 0, lo, hi;

	if (maps_read(&maps, pid) < 0)
		return 0;
	for (size_t i = maps.count; i-- > 0 && !found;) {
		hi = maps.map[i].start;
		lo = i ? maps.map[i - 1].end : 1ull << 32;
		if (hi >> 47 || hi <= lo)
			continue;
		if (hi - lo > 4 * FAR)
			found = hi - FAR - AGENT_SPAN;
	}
	/* no such gap: the middle of one that is large enough */
	for (size_t i = maps.count; i-- > 0 && !found;) {
		hi = maps.map[i].start;
		lo = i ? maps.map[i - 1].end : 1ull << 32;
		if (!(hi >> 47) && hi > lo && hi - lo > 2 * AGENT_SPAN)
			found = lo + (hi - lo - AGENT_SPAN) / 2;
	}
	maps_release(&maps);
	return found & ~0x1fffffull;
}

/*
 * What we map counts for the program's RLIMIT_AS. If that leaves little beside, the program might
 * fail because of us: it is left alone.
 */
#define ADDRESSES (6ull << 20)	/* bytes that the agent takes at first */
#define HEADROOM  (16ull << 20) /* bytes that libraries and the like need for a start */

static bool has_addresses(pid_t pid)
{
	int64_t used = proc_status_field(pid, "VmSize");
	struct rlimit limit;

	return prlimit(pid, RLIMIT_AS, NULL, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY ||
	       used < 0 || limit.rlim_cur >= (uint64_t)used * 1024 + ADDRESSES + HEADROOM;
}

/*
 * The bootstrap stub's code with the agent's address filled in, in *CODE (to be freed). Returns its
 * length.
 */
static size_t stub_code(uint8_t **code, raddr_t agent)
{
	raddr_t start = blob_symbol("bootstrap"), end = blob_symbol("bootstrap_end");

	*code = malloc(end - start);
	if (!*code)
		return 0;
	memcpy(*code, blob_elf_start + start, end - start);
	memcpy(*code + (end - start) - 16, &agent, sizeof(agent));
	return end - start;
}

#define PAUSES 2000u

/* How many pause instructions take a millisecond: see inject/patience.c. */
static uint32_t pauses_a_ms(void)
{
	static uint32_t known;
	uint64_t ns;

	if (known)
		return known;
	ns = clock_ns();
	for (uint32_t i = 0; i < PAUSES; i++)
		__builtin_ia32_pause();
	ns = clock_ns() - ns;
	known = (uint32_t)(PAUSES * 1000000ull / (ns ? ns : 1));
	known = known < 1000 ? 1000 : known; /* this thread was preempted, or the like */
	return known;
}

/* First words of a process part. The mapping is fresh: all zeros. */
static void wire_begin(struct wire_process *w, const struct agent_settings *settings)
{
	w->magic = WIRE_MAGIC | WIRE_VERSION;
	w->flush = 1;
	w->depth = settings->depth;
	w->free_stacks = settings->free_stacks;
	w->sample = settings->sample;
	w->seed = sampling_seed();
	w->pauses = pauses_a_ms();
	w->fsgsbase = (getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE) != 0;
}

/* What is mapped at first. SLOTS: how many threads there are, or may be soon. */
static struct wire_guard plan(uint32_t slots, uint32_t bigs, uint32_t nodes, bool tables)
{
	slots = slots < SLOTS_FIRST ? SLOTS_FIRST : slots > WIRE_THREADS ? WIRE_THREADS : slots;
	bigs = bigs < BIGS_FIRST ? BIGS_FIRST : bigs > WIRE_BIGS ? WIRE_BIGS : bigs;
	nodes = nodes > WIRE_NODES - NODES_FIRST ? WIRE_NODES : (nodes + NODES_FIRST + 127) & ~127u;
	return (struct wire_guard){
		.process = AGENT_THREADS - AGENT_BEACON +
			   slots * (uint64_t)sizeof(struct wire_thread),
		.bigs = bigs * (uint64_t)sizeof(struct wire_big),
		.nodes = nodes * (uint64_t)sizeof(struct wire_node),
		.rules = tables ? RULES_FIRST * sizeof(struct wire_rule) : 0,
		.pool = tables ? POOL_FIRST : 0,
		.secret = sampling_seed(),
	};
}

static uint32_t slots_in(const struct wire_guard *g)
{
	return (uint32_t)((g->process - (AGENT_THREADS - AGENT_BEACON)) /
			  sizeof(struct wire_thread));
}

/*
 * The memory file of P, which the target has just made as its descriptor NUMBER. ELDER: its
 * parent's stacks, or NULL.
 */
static int take_process(struct process *p, int64_t number, const struct wire_guard *g,
			struct nodes *elder)
{
	int fd = number < 0 ? (int)number : shared_take(p->via, number, FILE_PROCESS), err;

	if (fd < 0)
		return fd;
	err = fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL) < 0 ? -errno
						      : shared_map(&p->shared, fd, slots_in(g));
	if (!err) {
		p->wire = p->shared.wire;
		p->wire->slots = slots_in(g);
		p->wire->bigs = (uint32_t)(g->bigs / sizeof(struct wire_big));
		p->wire->nodes_mapped = (uint32_t)(g->nodes / sizeof(struct wire_node));
		p->nodes = nodes_new(fd, p->wire, elder);
		err = p->nodes ? 0 : -ENOMEM;
	}
	close(fd);
	return err;
}

static int take_tables(struct process *p, int64_t number, const struct wire_guard *g)
{
	int fd = number < 0 ? (int)number : shared_take(p->via, number, FILE_TABLES), err = fd;

	if (fd < 0)
		return fd;
	p->image = image_new(fd, &err);
	close(fd);
	if (!p->image)
		return err;
	p->view = (struct image_view){ g->rules, g->pool };
	return 0;
}

/* Runs through the routine's next call, which is to map the agent's offset OFFSET. */
static int await_mapping(const struct process *p, struct stub_run *l, uint64_t offset)
{
	int64_t ret;
	int err = stub_call(l, &ret);

	if (err)
		return err;
	if (ret < 0 && ret >= -4095)
		return (int)ret;
	return (raddr_t)ret == p->agent + offset ? 0 : -EIO;
}

/*
 * The thread is in arrive() (inject/agent.c), before its first call. Follows it until the part that
 * its mailbox is in is mapped. It says there how the rest went.
 */
static int follow(struct process *p, struct stub_run *l, const struct wire_guard *g,
		  struct nodes *elder)
{
	int64_t ret;
	int err = stub_call(l, &ret); /* memfd_create */

	if (!err)
		err = take_process(p, ret, g, elder);
	if (!err && g->rules) {
		err = stub_call(l, &ret); /* memfd_create */
		if (!err)
			err = take_tables(p, ret, g);
	}
	return err ? err : await_mapping(p, l, AGENT_BEACON);
}

/* Writes the trampoline, and an empty journal, whose magic says that it is ours and which version. */
static int write_blob(const struct process *p)
{
	size_t len = (size_t)(blob_elf_end - blob_elf_start);
	/* only the beginning of the journal's half megabyte */
	const struct {
		uint64_t magic;
		uint32_t plants, islands;
	} empty = { .magic = WIRE_MAGIC | WIRE_VERSION };
	int err = patient_write(p->via, p->agent + AGENT_BLOB, blob_elf_start, len);

	_Static_assert(sizeof(empty) == offsetof(struct wire_journal, island),
		       "a journal begins so");
	return err ? err : patient_write(p->via, p->agent + AGENT_JOURNAL, &empty, sizeof(empty));
}

int agent_arm(const struct process *p, bool on)
{
	const struct wire_guard armed = { .armed = !on	    ? ARMED_NOT
						   : p->off ? ARMED_OFF
							    : ARMED_ON,
					  .here = 1 };

	return patient_write(p->via, p->agent + AGENT_GUARD, &armed,
			     on ? offsetof(struct wire_guard, process) : sizeof(armed.armed));
}

#define SLOTS_FILTERED 64u /* where the program's own hooks can map nothing later */
#define BIGS_FILTERED  64u
#define NODES_FILTERED (1u << 19)

/* The thread is about to serve. FENCES: see struct process; with many threads it takes long. */
static int serve(struct process *p, pid_t tid, bool fences)
{
	struct wire_call call =
		MAIL_CALL(SYS_membarrier,
			  fences ? MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED : MEMBARRIER_CMD_QUERY,
			  0, 0);
	int err = mail_work(p, &p->wire->mail, tid, &call, 1);

	p->fences = fences && !err && call.ret == 0;
	return err;
}

/* Whether %fs:0 of L's thread is its thread pointer, as with every libc: hooks need not ask then. */
static bool has_tls(const struct stub_run *l)
{
	uint64_t fs = l->was.fs_base, self;

	return fs && patient_read(l->pid, fs, &self, sizeof(self)) == sizeof(self) && self == fs;
}

/*
 * The thread is in the bootstrap stub. If this fails the thread has left the stub, or does so by
 * itself.
 */
static int land(struct process *p, struct stub_run *l, const struct agent_settings *settings,
		bool attach)
{
	bool filtered = proc_status_field(p->via, "Seccomp") > 0;
	struct wire_guard g = plan(p->threads + p->threads / 4 + (filtered ? SLOTS_FILTERED : 1),
				   filtered ? BIGS_FILTERED : 0, filtered ? NODES_FILTERED : 0,
				   true);
	int64_t ret;
	int err = stub_call(l, &ret); /* rt_sigprocmask */

	if (!err)
		err = await_mapping(p, l, AGENT_GUARD);
	if (!err)
		err = patient_write(p->via, p->agent + AGENT_GUARD, &g, sizeof(g));
	if (!err)
		err = write_blob(p);
	if (!err) {
		l->more_lo = p->agent + AGENT_BLOB;
		l->more_hi = p->agent + AGENT_JOURNAL;
		err = follow(p, l, &g, NULL);
	}
	if (!err) {
		wire_begin(p->wire, settings);
		p->wire->root = nodes_root(p->nodes);
		p->wire->mail.lean = attach;
		p->wire->tls_ready = attach && has_tls(l);
		tracer_cont(l->tid, 0);
		err = serve(p, l->tid, !attach);
	}
	if (err && p->wire)
		mail_go(&p->wire->mail);
	return err;
}

/* Chooses the agent's address, and puts the bootstrap stub into a cave. */
static int cave_make(struct process *p, struct code_cave *cave)
{
	uint8_t *code;
	size_t len;
	int err;

	p->agent = find_place(p->via);
	len = stub_code(&code, p->agent);
	err = !has_addresses(p->via) ? -E2BIG
	      : !p->agent	     ? -ENOSPC
	      : len		     ? cave_use(p->via, code, len, cave)
				     : -ENOMEM;
	if (len)
		free(code);
	return err;
}

int agent_land(struct process *p, pid_t tid, const struct agent_settings *settings,
	       struct stub_run *l)
{
	struct code_cave cave;
	struct user_regs_struct regs;
	int err;

	*l = (struct stub_run){ .pid = p->via, .tid = tid, .hi = UINT64_MAX };
	err = cave_make(p, &cave);
	if (!err)
		err = stub_stop(l, &regs); /* the way out of execve */
	if (!err)
		err = stub_send(l, p->via, tid, cave.code, cave.code, cave.end);
	if (!err)
		err = land(p, l, settings, false);
	if (!err)
		err = agent_arm(p, true);
	if (err && !p->wire)
		p->agent = 0;
	return err;
}

void agent_give_up(const struct process *p, pid_t tid)
{
	if (p->wire)
		mail_go(&p->wire->mail);
	tracer_cont(tid, 0);
}

int agent_attach(struct process *p, pid_t tid, const struct agent_settings *settings)
{
	struct stub_run l;
	struct code_cave cave;
	int err = cave_make(p, &cave), back = 0;

	if (err) {
		p->agent = 0;
		return stub_none(tid, err);
	}
	err = stub_send(&l, p->via, tid, cave.code, cave.code, cave.end);
	if (err)
		stub_none(tid, err);
	else {
		err = land(p, &l, settings, true);
		back = p->wire ? stub_force(&l) : stub_recall(&l); /* as agent_call() */
	}
	if (!back)
		back = cave_clear(p->via, &cave);
	if (!p->wire)
		p->agent = 0;
	return err ? err : back;
}

int agent_work(const struct process *p, pid_t tid, struct wire_call *calls, uint32_t n)
{
	return mail_work(p, &p->wire->mail, tid, calls, n);
}

int agent_send(struct process *p, pid_t tid, struct stub_run *l)
{
	raddr_t blob = p->agent + AGENT_BLOB;
	int err;

	p->wire->mail.state = MAIL_IDLE;
	err = stub_send(l, p->via, tid, blob + blob_symbol("entry_service"), blob,
			p->agent + AGENT_BEACON);
	return err ? err : tracer_cont(tid, 0);
}

int agent_call(struct process *p, pid_t tid, struct wire_call *calls, uint32_t n)
{
	struct stub_run l;
	int back, err = agent_send(p, tid, &l);

	if (err)
		return stub_none(tid, err);
	err = mail_work(p, &p->wire->mail, tid, calls, n);
	/*
	 * not by MAIL_GO: with a program that overwrites the mail that would take PATIENCE_MS for
	 * each thread
	 */
	back = stub_force(&l);
	return err ? err : back;
}

/* ---- fork ---------------------------------------------------------------- */

static void wire_inherit(struct wire_process *to, const struct wire_process *from)
{
	to->magic = WIRE_MAGIC | WIRE_VERSION;
	to->flush = 1;
	to->depth = from->depth;
	to->free_stacks = from->free_stacks;
	to->limited = from->limited;
	to->sample = from->sample;
	to->seed = sampling_seed();
	to->pauses = from->pauses;
	to->fsgsbase = from->fsgsbase;
	to->tls_ready = from->tls_ready;
	to->libc_start = from->libc_start;
	to->libc_size = from->libc_size;
	to->errno_location = from->errno_location;
	to->loading = from->loading;
	large_copy(to, from);
}

/*
 * The child gets as many slots and big ones as its parent has: a handler that interrupted a hook
 * may have forked, and then the thread returns to that hook here. Nodes that the hook was using are
 * zeros here, and get children like any others.
 */
int agent_inherit(struct process *child, struct process *parent, pid_t tid,
		  struct stub_run *filtered)
{
	uint32_t slots = shared_slots(&parent->shared), nodes = nodes_count(parent->nodes),
		 bigs = __atomic_load_n(&parent->wire->bigs, __ATOMIC_RELAXED);
	struct wire_guard g = plan(filtered && slots < SLOTS_FILTERED ? SLOTS_FILTERED : slots,
				   filtered && bigs < BIGS_FILTERED ? BIGS_FILTERED : bigs,
				   filtered && nodes < NODES_FILTERED ? NODES_FILTERED : nodes,
				   false);
	raddr_t blob = parent->agent + AGENT_BLOB;
	struct stub_run l;
	int64_t ret;
	int err;

	child->agent = parent->agent;
	err = patient_write(child->via, child->agent + AGENT_GUARD, &g, sizeof(g));
	if (!err)
		err = stub_send(&l, child->via, tid, blob + blob_symbol("entry_arrive"), blob,
				parent->agent + AGENT_JOURNAL);
	if (!err)
		err = stub_call(&l, &ret); /* rt_sigprocmask */
	if (!err)
		err = follow(child, &l, &g, parent->nodes);
	if (!err) {
		wire_inherit(child->wire, parent->wire);
		child->image = image_ref(parent->image);
		child->view = parent->view;
		child->wire->root = nodes_root(child->nodes);
		child->wire->no_syscalls = filtered != NULL;
		err = image_publish(child->image, &child->modules, &child->plant, child->wire,
				    child->agent, &child->view, NULL, NULL);
		if (err == -ENOSPC || err == -E2BIG)
			err = 0;
	}
	tracer_cont(tid, 0);
	if (!err)
		err = serve(child, tid, true);
	if (!err)
		err = agent_arm(child, true);
	if (!err && filtered)
		*filtered = l;
	else if (child->wire)
		mail_go(&child->wire->mail);
	return err;
}

/* ---- the way out --------------------------------------------------------- */

bool agent_remains(const struct process *p)
{
	struct maps maps;
	bool remains = false;

	if (!p->agent || maps_read(&maps, p->via) < 0)
		return false;
	for (size_t i = 0; i < maps.count && !remains; i++)
		remains = agent_owns(p->agent, &maps.map[i]);
	maps_release(&maps);
	return remains;
}

#define LEAVE_MOST 8 /* mappings at a time: the place is small */

/*
 * The agent's mappings, its private part last: as long as that is there the rest can be found.
 * Returns how many, at most LEAVE_MOST.
 */
static size_t agent_mappings(const struct process *p, uint64_t *list)
{
	struct maps maps;
	size_t n = 0;

	if (maps_read(&maps, p->via) < 0)
		return 0;
	for (size_t i = 0; i < maps.count && n < LEAVE_MOST - 1; i++)
		if (agent_owns(p->agent, &maps.map[i]) &&
		    maps.map[i].start >= p->agent + AGENT_BEACON) {
			list[2 * n] = maps.map[i].start;
			list[2 * n++ + 1] = maps.map[i].end - maps.map[i].start;
		}
	maps_release(&maps);
	if (n < LEAVE_MOST - 1) {
		list[2 * n] = p->agent;
		list[2 * n++ + 1] = AGENT_BEACON;
	}
	return n;
}

/* What the thread is to unmap next. Returns how many mappings. */
static size_t leave_list(struct process *p, uint64_t *list)
{
	size_t n = 0;

	while (n < LEAVE_MOST && p->plant.nislands) {
		const struct island *island = &p->plant.island[--p->plant.nislands];

		list[2 * n] = island->start;
		list[2 * n++ + 1] = island->end - island->start;
	}
	if (!n) {
		n = agent_mappings(p, list);
		p->left = n && list[2 * n - 2] == p->agent;
	}
	list[2 * n] = 0;
	return n;
}

int agent_leave(struct process *p, pid_t tid)
{
	raddr_t start = blob_symbol("unmap_stub"), len = blob_symbol("unmap_stub_end") - start;
	uint64_t list[2 * LEAVE_MOST + 1];
	uint8_t code[512 + sizeof(list)];
	size_t islands = p->plant.nislands, n = leave_list(p, list),
	       bytes = (2 * n + 1) * sizeof(*list);
	struct stub_run l;
	struct code_cave cave;
	int err;

	if (len > sizeof(code) - sizeof(list))
		return stub_none(tid, -ENOSPC);
	memcpy(code, blob_elf_start + start, len);
	memcpy(code + len, list, bytes);
	err = cave_use(p->via, code, len + bytes, &cave);
	if (!err)
		err = stub_send(&l, p->via, tid, cave.code, cave.code, cave.end);
	if (err) { /* nothing is unmapped yet */
		p->plant.nislands = islands;
		p->left = false;
		return stub_none(tid, err);
	}
	err = stub_recall(&l);
	if (err == -ETIMEDOUT)
		err = stub_force(&l);
	return err ? err : cave_clear(p->via, &cave);
}
