// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * service.c - a thread of the target works for the supervisor: it makes the system calls that a mailbox asks for.
 *
 * Two ways lead here. A hook asks a question of its own (ld.so has new objects), or the supervisor has sent a stopped thread to entry_service
 * (after exec, after fork, at attach). Either way the thread sits in this loop, with all signals blocked, until it is told to go; if mtrun
 * dies, it goes by itself. So nothing needs foreign registers in the target for longer than one ptrace call, and there is no instant at
 * which mtrun's death would leave it in a wrong state.
 *
 * A mailbox call may map new memory over the process part of the home, mailbox included (that is how a forked child gets its own): the supervisor has
 * then prepared the new one as if this thread had been using it all along.
 */
#include <linux/futex.h>
#include <linux/time_types.h>

#include "blob.h"

static uint64_t signals_block(void)
{
	uint64_t all = ~0ull, was = 0;

	sys6(__NR_rt_sigprocmask, 2 /* SIG_SETMASK */, (long)&all, (long)&was, 8, 0, 0);
	return was;
}

static void signals_restore(uint64_t was)
{
	sys6(__NR_rt_sigprocmask, 2 /* SIG_SETMASK */, (long)&was, 0, 8, 0, 0);
}

void mail_serve(struct wire_mail *mail)
{
	for (;;) {
		struct __kernel_timespec nap = { .tv_nsec = 20 * 1000 * 1000 };
		uint32_t state = load(&mail->state);

		if (state == MAIL_GO)
			break;
		if (state == MAIL_WORK) {
			for (uint32_t i = 0; i < mail->ncalls && i < MAIL_CALLS; i++) {
				struct wire_call *c = &mail->call[i];

				c->ret = sys6(c->nr, (long)c->arg[0], (long)c->arg[1], (long)c->arg[2], (long)c->arg[3], (long)c->arg[4],
					      (long)c->arg[5]);
			}
			store(&mail->state, MAIL_DONE);
			sys6(__NR_futex, (long)&mail->state, FUTEX_WAKE, 1, 0, 0, 0);
			continue;
		}
		if (!mtrun_alive()) {
			hooks_off();
			break;
		}
		sys6(__NR_futex, (long)&mail->state, FUTEX_WAIT, state, (long)&nap, 0, 0);
	}
	store(&mail->state, MAIL_IDLE);
}

/* Reached from entry_service and from the landing. */
void service(void);
void service(void)
{
	uint64_t was = signals_block();

	mail_serve(&PROC->mail);
	signals_restore(was);
}

void ask(enum wire_what what, struct wire_thread *t)
{
	uint64_t was;

	if (PROC->no_syscalls)
		return;
	was = signals_block();
	t->mail.what = what;
	t->mail.answer = 0;
	store(&t->mail.state, MAIL_ASKED);
	bell_ring();
	mail_serve(&t->mail);
	signals_restore(was);
}
