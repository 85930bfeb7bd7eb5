// SPDX-License-Identifier: GPL-3.0-or-later
#include <linux/futex.h>
#include <linux/time_types.h>

#include "patience.h"

/*
 * service.c - a thread of the target works for the supervisor: it makes the system calls that a
 * mailbox asks for.
 *
 * A thread comes here in three ways: its hook has a question (ld.so has new objects), the
 * supervisor has sent it, stopped, to entry_service, or it has just made the agent (agent.c). It
 * stays in this loop, with all signals blocked, until it is told to go; if mtrun dies, or does
 * nothing for long (patience.c), it goes by itself. So its registers are changed for no longer than
 * ptrace needs to send it here, and mtrun's death never leaves it in a wrong state. (After seccomp
 * signals cannot be blocked, and a hook waits by ask_silently().)
 */

/*
 * A program may single-step itself (TF in its flags): a trap while SIGTRAP is blocked would end it.
 * In a mask that has the place of SIGKILL, which the kernel keeps out of masks and ignores in them.
 */
#define FLAG_TRAP 0x100ull

uint64_t signals_block(void)
{
	uint64_t all = ~0ull, was = 0, flags = __builtin_ia32_readeflags_u64();

	if (unlikely(flags & FLAG_TRAP))
		__builtin_ia32_writeeflags_u64(flags & ~FLAG_TRAP);
	sys6(__NR_rt_sigprocmask, 2 /* SIG_SETMASK */, (long)&all, (long)&was, 8, 0, 0);
	return was | (flags & FLAG_TRAP);
}

void signals_restore(uint64_t was)
{
	sys6(__NR_rt_sigprocmask, 2 /* SIG_SETMASK */, (long)&was, 0, 8, 0, 0);
	if (unlikely(was & FLAG_TRAP))
		__builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | FLAG_TRAP);
}

#define LEAN_SPINS 500	 /* some microseconds */
#define LEAN_NAP   50000 /* ns */

/*
 * Waits until STATE changes, or for a while. `lean`: the thread may have been taken out of a system
 * call that is to be resumed by restart_syscall(2). The kernel keeps one restart block a thread: an
 * interrupted futex wait would overwrite it, pselect never does.
 */
static void mail_nap(struct wire_mail *mail, uint32_t state)
{
	struct __kernel_timespec nap = { .tv_nsec = mail->lean ? LEAN_NAP : 20 * 1000 * 1000 };

	if (!mail->lean) {
		sys6(__NR_futex, (long)&mail->state, FUTEX_WAIT, state, (long)&nap, 0, 0);
		return;
	}
	for (int i = 0; i < LEAN_SPINS; i++) {
		if (load(&mail->state) != state)
			return;
		__builtin_ia32_pause();
	}
	sys6(__NR_pselect6, 0, 0, 0, 0, (long)&nap, 0);
}

static void mail_work(struct wire_mail *mail, uint32_t state)
{
	for (uint32_t i = 0; i < mail->ncalls && i < MAIL_CALLS; i++) {
		struct wire_call *c = &mail->call[i];

		c->ret = sys6(c->nr, (long)c->arg[0], (long)c->arg[1], (long)c->arg[2],
			      (long)c->arg[3], (long)c->arg[4], (long)c->arg[5]);
	}
	store(&mail->state, (state & ~MAIL_STATE) | MAIL_DONE);
	sys6(__NR_futex, (long)&mail->state, FUTEX_WAKE, 1, 0, 0, 0);
}

/* Takes the question back. False: STATE has changed, so an answer or some work is there. */
static bool mail_take_back(struct wire_mail *mail, uint32_t state)
{
	return __atomic_compare_exchange_n(&mail->state, &state, (state & ~MAIL_STATE) | MAIL_IDLE,
					   false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

bool mail_serve(struct wire_mail *mail)
{
	struct patience patience = { .calls = true };

	for (;;) {
		uint32_t state = load(&mail->state);

		switch (state & MAIL_STATE) {
		case MAIL_GO: store(&mail->state, (state & ~MAIL_STATE) | MAIL_IDLE); return true;
		case MAIL_WORK:
			mail_work(mail, state);
			patience = (struct patience){ .calls = true };
			continue;
		}
		if (!mtrun_alive())
			hooks_off();
		if ((!mtrun_alive() || !patience_left(&patience)) && mail_take_back(mail, state))
			return false;
		mail_nap(mail, state);
	}
}

void mail_undone(struct wire_mail *mail, long err)
{
	mail->answer = (uint64_t)err;
	store(&mail->state, MAIL_UNDONE);
	sys6(__NR_futex, (long)&mail->state, FUTEX_WAKE, 1, 0, 0, 0);
	mail_serve(mail);
}

/* Reached from entry_service. */
void service(uint64_t mask);
void service(uint64_t mask)
{
	signals_block();
	mail_serve(&PROC->mail);
	signals_restore(mask);
}

static void copy_args(uint64_t *to, const uint64_t *from)
{
	for (int i = 0; i < QUESTION_ARGS; i++)
		to[i] = from[i];
}

static void pose(struct wire_mail *mail, const struct question *q)
{
	uint32_t turn = (load(&mail->state) & ~MAIL_STATE) + MAIL_TURN;

	mail->what = q->what;
	copy_args(mail->arg, q->arg);
	mail->answer = 0;
	store(&mail->state, (turn ? turn : MAIL_TURN) | MAIL_ASKED);
}

static bool is_asked(const struct wire_mail *mail)
{
	return (load(&mail->state) & MAIL_STATE) == MAIL_ASKED;
}

/* some microseconds: less than it takes to fall asleep and be woken */
#define SPINS 200

uint64_t ask_loudly(struct wire_thread *t, const struct question *q)
{
	struct calls calls;
	uint64_t was, answer = 0;

	if (!calls_begin(&calls))
		return 0;
	was = signals_block();
	pose(&t->mail, q);
	bell_ring();
	for (int i = 0; i < SPINS && is_asked(&t->mail); i++)
		__builtin_ia32_pause();
	if (mail_serve(&t->mail))
		answer = t->mail.answer;
	signals_restore(was);
	calls_end(&calls);
	return answer;
}

/* Spins until the question in M is answered, or takes it back, with the answer 0. */
static void await_silently(struct wire_mail *m)
{
	struct patience patience = { 0 };

	while (is_asked(m)) {
		uint32_t state = load(&m->state);

		if (!mtrun_alive())
			hooks_off();
		if ((mtrun_alive() && patience_left(&patience)) ||
		    (state & MAIL_STATE) != MAIL_ASKED)
			continue;
		if (!mail_take_back(m, state))
			continue;
		m->answer = 0;
	}
}

/*
 * ask() after seccomp: the supervisor often looks into the mailboxes of such a process. No signal
 * can be blocked, so a handler may come here in the middle of its own thread's question: it waits
 * until that one is answered, and leaves the mailbox as it was, but for the turn.
 */
static uint64_t ask_silently(struct wire_thread *t, const struct question *q)
{
	struct wire_mail *m = &t->mail;
	struct question of_outer;
	uint64_t outer_answer, answer;
	uint32_t outer;

	await_silently(m);
	outer = load(&m->state) & MAIL_STATE;
	of_outer.what = m->what;
	copy_args(of_outer.arg, m->arg);
	outer_answer = m->answer;

	pose(m, q);
	await_silently(m);
	answer = load(&m->answer);

	m->what = of_outer.what;
	copy_args(m->arg, of_outer.arg);
	m->answer = outer_answer;
	store(&m->state, (load(&m->state) & ~MAIL_STATE) | outer);
	return answer;
}

uint64_t ask(struct wire_thread *t, const struct question *q)
{
	return PROC->no_syscalls ? ask_silently(t, q) : ask_loudly(t, q);
}
