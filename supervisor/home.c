// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * home.c - how our part comes to be in a target, and what is done there on our behalf.
 *
 * A new image: at the exit stop of its execve the landing (inject/entry.S) is copied into unused zero bytes of a page that is executable
 * already: behind the vdso, ld.so or the program. One PTRACE_SETREGS sends the thread there. It makes the memory file and maps it; system call
 * stops tell us the descriptor and the address; we put the trampoline in, and the thread is in the service loop. There is no breakpoint
 * and no moment with foreign registers: if mtrun dies, the landing finds an empty home, removes it, restores the registers and returns.
 *
 * A program that runs (attach.c): the same with any of its threads, which is put back where it was at once (landing.c); what its part is to have is planned and
 * made ready while it runs. On our way out (detach.c) a thread is sent through the leaving in the same way, which unmaps everything.
 *
 * A forked child has its parent's home, except that `armed` was wiped. It is sent into the service loop, which maps a fresh process part
 * over the inherited one: the mailbox it is reading from changes under it, so the new one is prepared to continue the same list of calls.
 */
#include "home.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "elf.h"
#include "hooks.h"
#include "image.h"
#include "journal.h"
#include "landing.h"
#include "message.h"
#include "proc.h"
#include "pulse.h"
#include "session.h"
#include "tracer.h"

#define PROCESS_SIZE (HOME_IMAGE - HOME_BEACON)
#define IMAGE_SIZE   (HOME_SIZE - HOME_IMAGE)
#define PATIENCE_MS  5000		/* a thread that does not answer for so long is not ours any more */

bool home_contains(const struct process *p, raddr_t pc)
{
	return p->home && pc - p->home < HOME_SIZE;
}

/* ---- work by mail --------------------------------------------------------------------------------------------------------------- */

static void futex_wake(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void post(struct wire_mail *mail, uint32_t state)
{
	__atomic_store_n(&mail->state, state, __ATOMIC_RELEASE);
	futex_wake(&mail->state);
}

void home_go(struct wire_mail *mail)
{
	post(mail, MAIL_GO);
}

/* Its signals are blocked while it serves; what can come is its death, or a stop that has to be passed over. */
static int keep_alive(pid_t tid)
{
	struct event e;
	int got = tracer_wait(tid, &e, 0);

	if (got <= 0)
		return got == -ECHILD ? -ESRCH : 0;
	switch (e.kind) {
	case EVENT_GONE:
		return -ESRCH;
	case EVENT_EXITING:
		tracer_cont(tid, 0);
		return -ESRCH;
	case EVENT_SIGNAL:
		return tracer_cont(tid, e.signal);
	default:
		return tracer_cont(tid, 0);
	}
}

static int await(struct wire_mail *mail, uint32_t wanted, pid_t tid)
{
	struct timespec nap = { .tv_nsec = 2000000 };
	uint64_t end = pulse_ms() + PATIENCE_MS;

	for (;;) {
		uint32_t state = __atomic_load_n(&mail->state, __ATOMIC_ACQUIRE);
		int err;

		if (state == wanted)
			return 0;
		if (pulse_ms() > end)
			return -ETIMEDOUT;
		if (syscall(SYS_futex, &mail->state, FUTEX_WAIT, state, &nap, NULL, 0) < 0 && errno == ETIMEDOUT) {
			err = keep_alive(tid);
			if (err)
				return err;
		}
	}
}

/* The thread's first call is to map TO where FROM is: it ends the list in TO, or, if that did not work (RLIMIT_AS), in FROM. */
static int await_move(struct wire_mail *to, struct wire_mail *from, pid_t tid)
{
	struct timespec nap = { .tv_nsec = 1000000 };
	uint64_t end = pulse_ms() + PATIENCE_MS;

	for (;;) {
		uint32_t state = __atomic_load_n(&to->state, __ATOMIC_ACQUIRE);
		int err;

		if (state == MAIL_DONE)
			return 0;
		if (__atomic_load_n(&from->state, __ATOMIC_ACQUIRE) == MAIL_DONE)
			return from->call[0].ret < 0 && from->call[0].ret >= -4095 ? (int)from->call[0].ret : -EIO;
		if (pulse_ms() > end)
			return -ETIMEDOUT;
		if (syscall(SYS_futex, &to->state, FUTEX_WAIT, state, &nap, NULL, 0) < 0 && errno == ETIMEDOUT) {
			err = keep_alive(tid);
			if (err)
				return err;
		}
	}
}

/* Has the thread that serves MAIL make the calls; results are in calls[].ret. */
static int work(struct wire_mail *mail, pid_t tid, struct wire_call *calls, uint32_t n)
{
	int err;

	memcpy(mail->call, calls, n * sizeof(*calls));
	mail->ncalls = n;
	post(mail, MAIL_WORK);
	err = await(mail, MAIL_DONE, tid);
	if (!err)
		for (uint32_t i = 0; i < n; i++)
			calls[i].ret = mail->call[i].ret;
	return err;
}

#define CALL(nr_, ...) { .nr = (nr_), .arg = { __VA_ARGS__ } }

/* ---- the landing ----------------------------------------------------------------------------------------------------------------- */

static int open_target_fd(pid_t pid, int64_t number)
{
	char name[32];

	snprintf(name, sizeof(name), "fd/%d", (int)number);
	return proc_open(pid, name, O_RDWR);
}

/* The landing's code with the home's size filled in, in *CODE (to be freed). Returns its length. */
static size_t landing_code(uint8_t **code)
{
	raddr_t start = blob_symbol("landing"), end = blob_symbol("landing_end");
	uint64_t size = HOME_SIZE;

	*code = malloc(end - start);
	if (!*code)
		return 0;
	memcpy(*code, blob_elf_start + start, end - start);
	memcpy(*code + (end - start) - 16, &size, sizeof(size));
	return end - start;
}

/* What a forked child has inherited is its own to undo. */
static int journal_inherit(struct process *child)
{
	struct wire_journal *j = &child->wire->journal;
	int err = 0;

	for (size_t i = 0; i < child->plant.nislands && !err; i++)
		err = journal_island(j, child->plant.island[i].start, child->plant.island[i].end);
	return err ? err : journal_write(j, &child->plant);
}

/* First words of a process part. The mapping is fresh: all zeros. */
static void wire_begin(struct wire_process *w, const struct options *options)
{
	w->magic = WIRE_MAGIC | WIRE_VERSION;
	w->depth = options->depth;
	w->free_stacks = options->free_stacks;
	w->sample = options->sample;
	w->seed = sampling_seed();
}

static int map_process_part(struct process *p, int fd, uint64_t offset)
{
	struct wire_beacon *b = pulse_map(fd, offset, PROCESS_SIZE);

	if (!b)
		return -errno;
	p->beacon = b;
	p->wire = (struct wire_process *)((char *)b + (HOME_PROCESS - HOME_BEACON));
	return 0;
}

static int fill_home(struct process *p, int fd, const struct options *options)
{
	size_t len = (size_t)(blob_elf_end - blob_elf_start);
	int err;

	if (pwrite(fd, blob_elf_start, len, HOME_BLOB) != (ssize_t)len)
		return -errno;
	p->image = image_new(fd, HOME_IMAGE, &err);
	if (!p->image)
		return err;
	err = map_process_part(p, fd, HOME_BEACON);
	if (err) {
		image_unref(p->image);
		p->image = NULL;
		return err;
	}
	wire_begin(p->wire, options);
	p->wire->home = p->home;
	p->wire->root = image_root(p->image);
	return 0;
}

/* The thread makes the home's memory file and maps it. *OWN: our descriptor of the file, also when that fails; -1: none. */
static int make_home(struct process *p, struct landing *l, int *own)
{
	int64_t ret, fd;
	int err = landing_call(l, &ret);	/* rt_sigprocmask */

	if (!err)
		err = landing_call(l, &fd);	/* memfd_create */
	if (err || fd < 0)
		return err ? err : (int)fd;
	*own = open_target_fd(p->via, fd);
	err = *own < 0 ? *own : ftruncate(*own, HOME_SIZE) < 0 ? -errno : 0;
	if (!err)
		err = landing_call(l, &ret);	/* lseek */
	if (!err && ret != (int64_t)HOME_SIZE)
		err = ret < 0 ? (int)ret : -EIO;
	if (!err)
		err = landing_call(l, &ret);	/* mmap */
	if (!err && (uint64_t)ret >= -4095ull)
		err = (int)ret;
	if (!err)
		p->home = (raddr_t)ret;
	return err;
}

/* The thread serves by now: the parts of the home become what they are to be. FENCES: see struct process; where there are threads already it takes long. */
static int protect_home(struct process *p, pid_t tid, bool fences)
{
	struct wire_call calls[] = {
		CALL(SYS_mmap, p->home + HOME_GUARD, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1ull, 0),
		CALL(SYS_madvise, p->home + HOME_GUARD, 4096, MADV_WIPEONFORK),
		CALL(SYS_mprotect, p->home + HOME_BLOB, HOME_BEACON - HOME_BLOB, PROT_READ | PROT_EXEC),
		CALL(SYS_mprotect, p->home + HOME_BEACON, HOME_SIZE - HOME_BEACON, PROT_READ | PROT_WRITE),
		CALL(SYS_madvise, p->home, HOME_SIZE, MADV_DONTDUMP),
		CALL(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0),
	};
	int err = work(&p->wire->mail, tid, calls, sizeof(calls) / sizeof(calls[0]) - !fences);

	if (!err && calls[0].ret < 0)
		err = (int)calls[0].ret;
	p->fences = fences && !err && calls[5].ret == 0;
	return err;
}

int home_arm(const struct process *p, bool on)
{
	const struct wire_guard armed = { .armed = !on ? ARMED_NOT : p->off ? ARMED_OFF : ARMED_ON };

	return remote_write(p->via, p->home + HOME_GUARD, &armed, sizeof(armed));
}

/* The thread is on its way through the landing. When this fails it is out of it, or going to be by itself. */
static int land(struct process *p, struct landing *l, const struct options *options, bool attach)
{
	int own = -1, err = make_home(p, l, &own);

	if (!err)
		err = fill_home(p, own, options);
	if (!err) {
		p->wire->mail.lean = attach;
		tracer_cont(l->tid, 0);
		err = protect_home(p, l->tid, !attach);
	}
	if (own >= 0)
		close(own);
	if (err && p->wire)
		home_go(&p->wire->mail);
	return err;
}

int home_land(struct process *p, pid_t tid, const struct options *options)
{
	struct landing l = { .pid = p->via, .tid = tid, .hi = UINT64_MAX };
	struct slack slack;
	uint8_t *code;
	size_t len = landing_code(&code);
	struct user_regs_struct regs;
	int err = len ? slack_use(p->via, code, len, &slack) : -ENOMEM;

	if (len)
		free(code);
	if (!err)
		err = landing_stop(&l, &regs);		/* the way out of execve */
	if (!err)
		err = landing_send(&l, p->via, tid, slack.code, slack.code, slack.end);
	if (!err)
		err = land(p, &l, options, false);
	if (!err)
		err = home_arm(p, true);
	if (err) {
		if (p->wire)
			home_go(&p->wire->mail);
		tracer_cont(tid, 0);
	}
	return err;
}

/* The thread serves: it is stopped where it is, told that there is no more to do, and taken out. */
static int recall(struct process *p, struct landing *l)
{
	struct event e;
	int err = tracer_interrupt(l->tid);

	if (!err)
		err = tracer_wait(l->tid, &e, PATIENCE_MS);
	if (err <= 0)
		return err ? err : -ETIMEDOUT;
	if (e.kind == EVENT_EXITING)
		tracer_cont(l->tid, 0);
	if (e.kind == EVENT_EXITING || e.kind == EVENT_GONE)
		return -ESRCH;
	home_go(&p->wire->mail);
	return landing_recall(l);
}

int home_attach(struct process *p, pid_t tid, const struct options *options)
{
	struct landing l;
	struct slack slack;
	uint8_t *code;
	size_t len = landing_code(&code);
	int err = len ? slack_use(p->via, code, len, &slack) : -ENOMEM, back = 0;

	if (len)
		free(code);
	if (err)
		return landing_none(tid, err);
	err = landing_send(&l, p->via, tid, slack.code, slack.code, slack.end);
	if (err)
		landing_none(tid, err);
	else {
		err = land(p, &l, options, true);
		back = p->wire ? recall(p, &l) : landing_recall(&l);
	}
	if (!back)
		back = slack_clear(p->via, &slack);
	return err ? err : back;
}

int home_call(struct process *p, pid_t tid, struct wire_call *calls, uint32_t n)
{
	raddr_t blob = p->home + HOME_BLOB;
	struct landing l;
	int err, back;

	p->wire->mail.state = MAIL_IDLE;
	err = landing_send(&l, p->via, tid, blob + blob_symbol("entry_service"), blob, p->home + HOME_BEACON);
	if (err)
		return landing_none(tid, err);
	tracer_cont(tid, 0);
	err = work(&p->wire->mail, tid, calls, n);
	back = recall(p, &l);
	return err ? err : back;
}

/* ---- fork ------------------------------------------------------------------------------------------------------------------------ */

static void wire_inherit(struct wire_process *to, const struct wire_process *from)
{
	to->magic = WIRE_MAGIC | WIRE_VERSION;
	to->depth = from->depth;
	to->free_stacks = from->free_stacks;
	to->limited = from->limited;
	to->sample = from->sample;
	to->seed = sampling_seed();
	to->home = from->home;
	to->tls_ready = from->tls_ready;
	to->libc_start = from->libc_start;
	to->libc_end = from->libc_end;
	to->errno_location = from->errno_location;
	memcpy(to->large, from->large, sizeof(to->large));
}

/* Tables that the supervisor wrote itself: copied from the process record, not from what the parent may have scribbled over. */
int home_inherit(struct process *child, const struct process *parent, pid_t tid)
{
	struct wire_call make[] = {
		CALL(SYS_memfd_create, parent->home + HOME_BEACON + offsetof(struct wire_beacon, name), 1 /* MFD_CLOEXEC */),
	};
	struct wire_call take[] = {
		CALL(SYS_mmap, parent->home + HOME_BEACON, PROCESS_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, 0, 0),
		CALL(SYS_close, 0),
		CALL(SYS_madvise, parent->home + HOME_BEACON, PROCESS_SIZE, MADV_DONTDUMP),
		CALL(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0),
	};
	struct wire_mail *mail = &parent->wire->mail;
	struct user_regs_struct regs;
	int own = -1, err;

	if (parent->wire->no_syscalls) {
		tracer_cont(tid, 0);
		return -EPERM;
	}
	mail->state = MAIL_IDLE;
	err = tracer_get_regs(tid, &regs);
	if (!err)
		err = landing_divert(tid, regs, parent->home + HOME_BLOB + blob_symbol("entry_service"));
	tracer_cont(tid, 0);
	if (err)
		return err;
	err = work(mail, tid, make, 1);
	if (!err && make[0].ret < 0)
		err = (int)make[0].ret;
	if (err)
		goto out;
	take[0].arg[4] = take[1].arg[0] = (uint64_t)make[0].ret;
	own = open_target_fd(child->pid, make[0].ret);
	if (own < 0 || ftruncate(own, PROCESS_SIZE) < 0) {
		err = own < 0 ? own : -errno;
		goto out;
	}
	err = map_process_part(child, own, 0);
	if (err)
		goto out;
	child->home = parent->home;
	child->image = image_ref(parent->image);
	wire_inherit(child->wire, parent->wire);
	child->wire->root = image_root(child->image);
	err = journal_inherit(child);
	if (err)
		goto out;
	err = image_publish(child->image, &child->modules, &child->plant, child->wire);
	if (err)
		goto out;
	/* the child goes on reading the list in the new mailbox */
	memcpy(child->wire->mail.call, take, sizeof(take));
	child->wire->mail.ncalls = sizeof(take) / sizeof(take[0]);
	memcpy(mail->call, take, sizeof(take));
	mail->ncalls = sizeof(take) / sizeof(take[0]);
	post(mail, MAIL_WORK);
	err = await_move(&child->wire->mail, mail, tid);
	if (err) {
		home_go(&child->wire->mail);
		goto out;
	}
	mail->state = MAIL_IDLE;
	mail = &child->wire->mail;
	child->fences = mail->call[3].ret == 0;
	err = home_arm(child, true);
out:
	if (own >= 0)
		close(own);
	home_go(mail);
	/* the next child of the same parent must not find this one still in the parent's mailbox */
	if (err && err != -ESRCH && mail == &parent->wire->mail && await(mail, MAIL_IDLE, tid) == -ESRCH)
		err = -ESRCH;
	return err;
}

/* ---- modules --------------------------------------------------------------------------------------------------------------------- */

struct reach {				/* how the planter gets at the target */
	struct process *p;
	pid_t tid;
	struct wire_mail *mail;		/* NULL: nobody serves ... */
	home_caller *caller;		/* ... but somebody can be made to; or NULL: all threads are stopped ... */
	void *ctx;
	const raddr_t *pc;		/* ... here */
	size_t n;
};

static int reach_write(void *ctx, raddr_t addr, const void *buf, size_t len)
{
	return remote_write(((struct reach *)ctx)->p->via, addr, buf, len);
}

static int reach_note(void *ctx, const struct plant *plant)
{
	struct wire_process *wire = ((struct reach *)ctx)->p->wire;

	return wire ? journal_write(&wire->journal, plant) : -ESRCH;
}

static ssize_t reach_read(void *ctx, raddr_t addr, void *buf, size_t len)
{
	return remote_read(((struct reach *)ctx)->p->via, addr, buf, len);
}

#define JUMP_REACH 0x7ff00000ull	/* of a rel32, with a margin */

/* A hole of LEN bytes from which every byte of [LO, HI) is within a 32-bit jump, the nearest one. */
static raddr_t find_hole(const struct maps *maps, raddr_t lo, raddr_t hi, size_t len)
{
	raddr_t best = 0, distance = UINT64_MAX, end = 65536;

	for (size_t i = 0; i <= maps->count; i++) {
		raddr_t next = i < maps->count ? maps->map[i].start : 1ull << 47;

		if (i < maps->count && (maps->map[i].start >> 47))
			break;
		if (next > end && next - end >= len + 2 * 4096) {
			raddr_t below = next - len - 4096, above = end + 4096, at = below < lo ? below : above;
			raddr_t far = at < lo ? hi - at : at + len - lo;

			if (far < JUMP_REACH && far < distance) {
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
	struct wire_call call = CALL(SYS_mmap, 0, len, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1ull, 0);
	struct maps maps;
	int err = r->mail || r->caller ? maps_read(&maps, r->p->via) : -ENOSPC;

	if (err)
		return err;
	call.arg[0] = find_hole(&maps, lo, hi, len);
	maps_release(&maps);
	if (!call.arg[0] || !r->p->wire)
		return -ENOSPC;
	err = journal_island(&r->p->wire->journal, call.arg[0], call.arg[0] + len);
	if (!err)
		err = r->mail ? work(r->mail, r->tid, &call, 1) : r->caller(r->ctx, r->p, &call, 1);
	if (err)
		return err;
	if (call.ret == (int64_t)call.arg[0]) {
		*at = call.arg[0];
		return 0;
	}
	if (r->p->wire)
		journal_no_island(&r->p->wire->journal);
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
 * A thread that ends gives back the chunks in its cache by calling free() on what the program has freed already. Those calls come from libc's text;
 * in a static executable, from this function.
 */
static void find_libc(struct wire_process *w, const struct module *m)
{
	struct elf_symbol symbol;
	size_t cursor = 0;

	if (m->roles & MODULE_LIBC) {
		w->libc_start = m->text_start;
		w->libc_end = m->text_end;
	} else if ((m->roles & MODULE_EXE) && elf_is_static(m->elf) && elf_find(m->elf, "__malloc_arena_thread_freeres", &cursor, &symbol)) {
		w->libc_start = m->bias + symbol.value;
		w->libc_end = w->libc_start + symbol.size;
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

	if ((m->roles & MODULE_LIBC || (m->roles & MODULE_EXE && elf_is_static(m->elf))) && elf_find(m->elf, "__errno_location", &cursor, &symbol))
		__atomic_store_n(&w->errno_location, m->bias + symbol.value, __ATOMIC_RELEASE);
}

static int plant_all(struct process *p, const struct plant_ops *ops, const struct options *options)
{
	const struct reach *reach = ops->ctx;
	raddr_t entry[HOOK_KINDS];
	int err, missed = 0;

	blob_entries(p->home + HOME_BLOB, entry);
	for (size_t i = 0; i < p->modules.count; i++) {
		struct module *m = p->modules.module[i];

		if (m->dead != UINT32_MAX || m->planted)
			continue;
		if (reach->caller)
			reach->caller(reach->ctx, p, NULL, 0);
		if (!p->wire)			/* it has ended, or become another program */
			return -ESRCH;
		err = in_use(reach, m) ? -EBUSY : plant_module(&p->plant, m, ops, entry, options->hook, options->nhooks);
		if (err == -EBUSY || err == -ENOSPC) {
			missed = missed == -EBUSY ? missed : err;
			continue;
		}
		if (err < 0)
			return err;
		if (m->roles & MODULE_LDSO) {
			err = plant_function(&p->plant, m, ops, entry, "_dl_debug_state", HOOK_DEBUG_STATE);
			if (err < 0 && err != -ENOENT)
				message_verbose(1, "libraries that %d loads later are not supervised: %s", p->pid, strerror(-err));
		}
		find_libc(p->wire, m);
		find_errno(p->wire, m);
	}
	return missed;
}

/* Our own mappings are no module of the target's. */
static void leave_out_home(struct maps *maps, const struct process *p)
{
	size_t n = 0;

	for (size_t i = 0; i < maps->count; i++)
		if (!home_contains(p, maps->map[i].start))
			maps->map[n++] = maps->map[i];
	maps->count = n;
}

static int refresh(struct process *p, struct reach *reach, const struct options *options)
{
	struct plant_ops ops = { reach_map_near, reach_write, reach_read, reach, reach_note, reach->caller };
	struct maps maps;
	bool overlap = false;
	int err = maps_read(&maps, p->via), missed;

	if (err)
		return err;
	leave_out_home(&maps, p);
	err = modules_update(&p->modules, p->via, &maps, image_nodes(p->image), &overlap);
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
	if (overlap)
		p->wire->root = image_root(p->image);
	missed = plant_all(p, &ops, options);
	if (!p->wire)
		return -ESRCH;
	if (missed && missed != -EBUSY && missed != -ENOSPC)
		return missed;
	err = image_publish(p->image, &p->modules, &p->plant, p->wire);
	return err ? err : missed;
}

int home_refresh(struct process *p, pid_t tid, struct wire_mail *mail, const struct options *options)
{
	return refresh(p, &(struct reach){ .p = p, .tid = tid, .mail = mail }, options);
}

int home_refresh_stopped(struct process *p, const raddr_t *pc, size_t n, const struct options *options)
{
	return refresh(p, &(struct reach){ .p = p, .pc = pc, .n = n }, options);
}

int home_prepare(struct process *p, const struct options *options)
{
	struct maps maps;
	bool overlap;
	int err = maps_read(&maps, p->via);

	if (err)
		return err;
	err = modules_update(&p->modules, p->via, &maps, 0, &overlap);
	maps_release(&maps);
	for (size_t i = 0; i < p->modules.count; i++) {
		struct module *m = p->modules.module[i];
		struct hook_sites sites;

		if (hooks_find(&sites, m, options->hook, options->nhooks) < 0)
			continue;
		if (sites.allocator)
			m->roles |= MODULE_ALLOCATOR;
		hooks_release(&sites);
	}
	image_prepare(&p->modules);
	return err < 0 ? err : 0;
}

int home_plan(struct process *p, home_caller *caller, void *ctx, const struct options *options)
{
	return refresh(p, &(struct reach){ .p = p, .caller = caller, .ctx = ctx }, options);
}

struct writer {				/* many small writes into one process */
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

static ssize_t read_mem(void *ctx, raddr_t addr, void *buf, size_t len)
{
	return remote_read(((struct writer *)ctx)->pid, addr, buf, len);
}

static int with_writer(struct process *p, int (*fn)(struct plant *plant, const struct plant_ops *ops))
{
	struct writer w = { p->via, proc_open(p->via, "mem", O_WRONLY) };
	const struct plant_ops ops = { .write = write_mem, .read = read_mem, .ctx = &w };
	int err = w.mem < 0 ? w.mem : fn(&p->plant, &ops);

	if (w.mem >= 0)
		close(w.mem);
	return err;
}

int home_plant(struct process *p)
{
	return with_writer(p, plant_write);
}

int home_uproot(struct process *p)
{
	return with_writer(p, plant_uproot);
}

#define LEAVE_MOST 8			/* mappings at a time: the place is small */

/* What is to be unmapped now, the home last: as long as it is there the rest can be found. Returns how many. */
static size_t leave_list(struct process *p, uint64_t *list)
{
	size_t n = 0;

	while (n < LEAVE_MOST && p->plant.nislands) {
		const struct island *island = &p->plant.island[--p->plant.nislands];

		list[2 * n] = island->start;
		list[2 * n++ + 1] = island->end - island->start;
	}
	if (n < LEAVE_MOST) {
		list[2 * n] = p->home;
		list[2 * n++ + 1] = HOME_SIZE;
		p->left = true;
	}
	list[2 * n] = 0;
	return n;
}

int home_leave(struct process *p, pid_t tid)
{
	raddr_t start = blob_symbol("leaving"), len = blob_symbol("leaving_end") - start;
	uint64_t list[2 * LEAVE_MOST + 1];
	uint8_t code[512 + sizeof(list)];
	size_t n = leave_list(p, list), bytes = (2 * n + 1) * sizeof(*list);
	struct landing l;
	struct slack slack;
	int err;

	if (len > sizeof(code) - sizeof(list))
		return landing_none(tid, -ENOSPC);
	memcpy(code, blob_elf_start + start, len);
	memcpy(code + len, list, bytes);
	err = slack_use(p->via, code, len + bytes, &slack);
	if (err)
		return landing_none(tid, err);
	err = landing_send(&l, p->via, tid, slack.code, slack.code, slack.end);
	err = err ? landing_none(tid, err) : landing_recall(&l);
	return err ? err : slack_clear(p->via, &slack);
}

struct wire_mail *home_question(const struct process *p, uint32_t *slot, pid_t *tid)
{
	uint32_t high = __atomic_load_n(&p->wire->threads_high, __ATOMIC_RELAXED);

	while (*slot < high && *slot < WIRE_THREADS) {
		struct wire_thread *t = &p->wire->thread[(*slot)++];

		if (__atomic_load_n(&t->mail.state, __ATOMIC_ACQUIRE) == MAIL_ASKED) {
			*tid = (pid_t)t->tid;
			return &t->mail;
		}
	}
	return NULL;
}

void home_release(struct process *p)
{
	ledger_known(p->ledger, NULL);
	if (p->beacon)
		pulse_unmap(p->beacon, PROCESS_SIZE);
	p->beacon = NULL;
	p->wire = NULL;
}
