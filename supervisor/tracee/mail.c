// SPDX-License-Identifier: GPL-3.0-or-later
#include "tracee/mail.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tracee/tracer.h"
#include "transport/heartbeat.h"

/*
 * mail.c - mtrun's side of a mailbox (wire_mail.h). The thread at the other side may have gone on by
 * itself, ended, or be stopped; and the program may write what it likes there. So a state is changed
 * only from the one that was seen, and every wait has an end. A thread that has gone on may make
 * another one or a child while we still wait for it: the stop that tells so is handed on.
 */

/* a thread that does not answer for so long is given up */
#define PATIENCE_MS 5000

static void futex_wake(uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0); }

static uint32_t mail_state(const struct wire_mail *mail)
{
	return __atomic_load_n(&mail->state, __ATOMIC_ACQUIRE);
}

/*
 * Why the thread could not make the agent's parts, of what mmap(2) may say: other errors would mean
 * something else to our callers, and the program can write what it likes there. (-EAGAIN: too much
 * memory is locked.)
 */
static int undone(const struct wire_mail *mail)
{
	switch ((int64_t)__atomic_load_n(&mail->answer, __ATOMIC_RELAXED)) {
	case -ENOMEM:
	case -EAGAIN: return -ENOMEM;
	case -EEXIST: return -EEXIST;
	default: return -EIO;
	}
}

/*
 * Sets MAIL's state and wakes the thread. -ETIMEDOUT: it does not wait for us any more. What could
 * not make the agent's parts does no work: that error.
 */
static int post(struct wire_mail *mail, uint32_t state)
{
	uint32_t was = mail_state(mail);

	do {
		if (was >= MAIL_TURN && (was & MAIL_STATE) == MAIL_IDLE)
			return -ETIMEDOUT;
		if ((was & MAIL_STATE) == MAIL_UNDONE && state != MAIL_GO)
			return undone(mail);
	} while (!__atomic_compare_exchange_n(&mail->state, &was, (was & ~MAIL_STATE) | state,
					      false, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE));
	futex_wake(&mail->state);
	return 0;
}

void mail_go(struct wire_mail *mail)
{
	if (post(mail, MAIL_GO) < 0)
		return; /* it has gone already */
}

bool mail_answer(struct wire_mail *mail, uint32_t asked)
{
	uint32_t now = mail_state(mail);

	while ((now & ~MAIL_STATE) == (asked & ~MAIL_STATE) && (now & MAIL_STATE) != MAIL_IDLE)
		if (__atomic_compare_exchange_n(&mail->state, &now, (asked & ~MAIL_STATE) | MAIL_GO,
						false, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE)) {
			futex_wake(&mail->state);
			return true;
		}
	/* it has asked anew: the results of the earlier work do not answer that */
	if ((now & MAIL_STATE) == MAIL_DONE)
		__atomic_compare_exchange_n(&mail->state, &now, (now & ~MAIL_STATE) | MAIL_ASKED,
					    false, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE);
	return false;
}

/*
 * TID serves, with its signals blocked: what can come is its end, or a stop, from which it is
 * resumed. One that makes a thread or a child does not serve any more. -ETIMEDOUT: that one;
 * -ESRCH: its end.
 */
static int keep_alive(pid_t tid)
{
	struct event e;
	int got = tracer_wait(tid, &e, 0);

	if (got <= 0)
		return got == -ECHILD ? -ESRCH : 0;
	if (tracer_hand_on(&e))
		return e.kind == EVENT_EXEC || e.kind == EVENT_EXITING ? -ESRCH : -ETIMEDOUT;
	switch (e.kind) {
	case EVENT_GONE: return -ESRCH;
	case EVENT_SIGNAL: return tracer_cont(tid, e.signal);
	default: return tracer_cont(tid, 0);
	}
}

/*
 * Waits until the work that was posted in MAIL is done. If MAIL is idle, the thread has done the
 * work and then gone on by itself: work is never taken back. -EFAULT: the program has replaced that
 * memory.
 */
static int await_done(const struct process *p, struct wire_mail *mail, pid_t tid)
{
	struct timespec nap = { .tv_nsec = 2000000 };
	uint64_t end = heartbeat_ms() + PATIENCE_MS;

	for (;;) {
		uint32_t state = mail_state(mail);
		int err;

		if ((state & MAIL_STATE) == MAIL_DONE || (state & MAIL_STATE) == MAIL_IDLE)
			return 0;
		if ((state & MAIL_STATE) == MAIL_UNDONE)
			return undone(mail);
		if (heartbeat_ms() > end)
			return -ETIMEDOUT;
		if (syscall(SYS_futex, &mail->state, FUTEX_WAIT, state, &nap, NULL, 0) < 0 &&
		    errno == ETIMEDOUT) {
			err = keep_alive(tid);
			if (!err && shared_is_lost(&p->shared, p->via, p->agent + AGENT_PROCESS))
				err = -EFAULT;
			if (err)
				return err;
		}
	}
}

int mail_work(const struct process *p, struct wire_mail *mail, pid_t tid, struct wire_call *calls,
	      uint32_t n)
{
	int err;

	memcpy(mail->call, calls, n * sizeof(*calls));
	mail->ncalls = n;
	err = post(mail, MAIL_WORK);
	if (!err)
		err = await_done(p, mail, tid);
	if (!err)
		for (uint32_t i = 0; i < n; i++)
			calls[i].ret = mail->call[i].ret;
	return err;
}
