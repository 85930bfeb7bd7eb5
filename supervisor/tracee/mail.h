/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * mail.h - a thread of the target makes system calls for us, or waits for an answer (wire_mail.h).
 */
#ifndef MTRUN_MAIL_H
#define MTRUN_MAIL_H

#include "inject/wire_mail.h"
#include "process/process.h"

/* A member of struct wire_call[]: the system call NR with its arguments. */
#define MAIL_CALL(nr_, ...)                         \
	{                                           \
		.nr = (nr_), .arg = { __VA_ARGS__ } \
	}

/*
 * TID, a thread of P, serves MAIL: it makes the N calls (at most MAIL_CALLS), whose results are in
 * their `ret` then, and serves on. -ESRCH: it has ended; -ETIMEDOUT: it does not answer; -EFAULT:
 * the program has replaced that memory.
 */
int mail_work(const struct process *p, struct wire_mail *mail, pid_t tid, struct wire_call *calls,
	      uint32_t n) MUST_USE;
/* The thread that serves MAIL goes on. */
void mail_go(struct wire_mail *mail);
/*
 * The thread whose question is ASKED (shared_question.asked) goes on, with the answer in MAIL.
 * False: it has already gone on by itself.
 */
bool mail_answer(struct wire_mail *mail, uint32_t asked);

#endif
