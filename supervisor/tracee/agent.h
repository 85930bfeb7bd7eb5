/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * agent.h - our part inside a target: it is brought in, given work, kept up with the target's
 * modules, taken out.
 *
 * Everything but the way in and out happens through a mailbox (wire_mail.h): the thread that serves
 * it runs by itself, so that mtrun may die at any instant. Functions return 0 or -errno; after a
 * failure the target's thread is alive and can go on.
 */
#ifndef MTRUN_AGENT_H
#define MTRUN_AGENT_H

#include "process/process.h"

struct stub_run;
struct hook_request;

struct agent_settings {		   /* how a program is recorded, as the agent is told */
	uint32_t depth;		   /* frames of a stack, at most */
	bool free_stacks;	   /* releases say their stack, too */
	uint64_t sample;	   /* period in bytes; 0: every allocation */
	struct hook_request *hook; /* functions to be hooked by name */
	size_t nhooks;
};

/* What -EFBIG and -E2BIG mean, of functions below that put something into a process. */
#define AGENT_NO_FILES \
	"its limit on the size of files (RLIMIT_FSIZE, `ulimit -f`) leaves no room for mtrun's part"
#define AGENT_NO_ADDRESSES \
	"its limit on addresses (RLIMIT_AS, `ulimit -v`) leaves no room for mtrun's part"

/*
 * A fresh image gets an agent: TID, its only thread, is stopped at PTRACE_EVENT_EXEC and is sent
 * through the bootstrap stub. When this returns 0 the thread runs in the service loop of
 * p->wire->mail and p's hooks are armed but not planted: agent_refresh(), then mail_go(), or,
 * where it may make no system call, stub_take_out(L). Where it fails the thread waits, stopped or
 * in the loop: until agent_give_up() lets it go on without an agent, or it is killed.
 */
int agent_land(struct process *p, pid_t tid, const struct agent_settings *settings,
	       struct stub_run *l) MUST_USE;
void agent_give_up(const struct process *p, pid_t tid);
/*
 * P, which runs, is to get an agent soon: reads in advance, before P is touched, what takes long. 0 or
 * -errno.
 */
int agent_prepare(struct process *p, const struct agent_settings *settings) MUST_USE;
/*
 * agent_land() for a process that runs: TID, stopped by tracer_interrupt(), is sent through the
 * bootstrap stub and put back where it was. Whatever is returned, it runs on, and reports a stop
 * before it executes anything. The hooks are not armed.
 */
int agent_attach(struct process *p, pid_t tid, const struct agent_settings *settings) MUST_USE;
/*
 * TID, stopped anywhere, is sent into the service loop of p->wire->mail. stub_take_out(L) brings it
 * back.
 */
int agent_send(struct process *p, pid_t tid, struct stub_run *l) MUST_USE;
/*
 * TID, stopped by tracer_interrupt() and not in the trampoline, makes the N calls for us, and is
 * put back as by agent_attach().
 */
int agent_call(struct process *p, pid_t tid, struct wire_call *calls, uint32_t n) MUST_USE;
/*
 * TID serves p->wire->mail, as after agent_land(): it makes the N calls for us, and serves on.
 */
int agent_work(const struct process *p, pid_t tid, struct wire_call *calls, uint32_t n) MUST_USE;
/* ON: the hooks record from now on, unless P is off (off.c). Else they do nothing. */
int agent_arm(const struct process *p, bool on) MUST_USE;
/*
 * CHILD was forked from PARENT, and its only thread TID is stopped at its beginning: CHILD gets
 * rings and stacks of its own, and has its parent's tables and hooks. FILTERED, if not NULL: its
 * hooks are to make no system call, and when this returns 0 TID is in the service loop, to be taken
 * out by stub_take_out(FILTERED).
 */
int agent_inherit(struct process *child, struct process *parent, pid_t tid,
		  struct stub_run *filtered) MUST_USE;

/*
 * Modules came or went: brings the list, unwind tables and hooks up to date, with TID serving MAIL.
 */
int agent_refresh(struct process *p, pid_t tid, struct wire_mail *mail,
		  const struct agent_settings *settings) MUST_USE;
/*
 * agent_refresh() with all threads stopped, at the N addresses PC, and none serving: no memory can
 * be mapped, so hooks go into the islands that there are (-ENOSPC: not all have room; the next
 * agent_refresh() plants the others), and not into a module that a thread is in (-EBUSY).
 */
int agent_refresh_stopped(struct process *p, const raddr_t *pc, size_t n,
			  const struct agent_settings *settings) MUST_USE;
/*
 * agent_refresh() with all threads running: everything is made ready, and CALLER has one of them
 * make calls for us. No function is redirected before agent_plant(), which wants all threads
 * stopped and none within the bytes to be overwritten (plant_moved_pc()). Now and then CALLER is
 * called with N 0, so that it can serve other events.
 */
typedef int agent_caller(void *ctx, struct process *p, struct wire_call *calls, uint32_t n);
int agent_plan(struct process *p, agent_caller *caller, void *ctx,
	       const struct agent_settings *settings) MUST_USE;
int agent_plant(struct process *p) MUST_USE;
/* Restores the redirected functions. All threads are stopped, none where plant_exact_pc() is 0. */
int agent_uproot(struct process *p) MUST_USE;
/*
 * Nothing of ours is in use any more: TID, stopped by tracer_interrupt(), unmaps it and is put back
 * as by agent_attach(). With very many islands it is to be called again, until p->left.
 */
int agent_leave(struct process *p, pid_t tid) MUST_USE;
/* Whether some of it is still mapped: what a program has sealed (mseal(2)) stays. */
bool agent_remains(const struct process *p);
struct map;
/*
 * Whether M is a mapping of ours, with the agent at AGENT (0: there is none). Most of the agent's
 * range is not mapped, so mappings of others may be in it.
 */
bool agent_owns(raddr_t agent, const struct map *m);

#endif
