// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/sigbus.h"
#include "base/types.h"

#include <signal.h>
#include <sys/mman.h>

/*
 * sigbus.c - SIGBUS is not our end.
 *
 * An executable can be truncated by its owner while we read its symbols; a page of memory that we
 * share with a target may not be had because its control group is full. The kernel says so by
 * SIGBUS at the access. We put a page of zeros there, for ourselves alone, and the access is made
 * again: whoever reads has to live with any content anyway, and the question that was asked is
 * answered as for a damaged file. mmap(2) is a mere system call: it may be made in a handler.
 */

static void on_sigbus(int sig, siginfo_t *info, void *context)
{
	uintptr_t at = page_down((uintptr_t)info->si_addr);

	(void)context;
	if (info->si_code == BUS_ADRERR &&
	    mmap((void *)at, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		 -1, 0) != MAP_FAILED)
		return;
	signal(sig, SIG_DFL); /* it happens again */
}

void sigbus_survive(void)
{
	static bool done;
	const struct sigaction sa = { .sa_sigaction = on_sigbus,
				      .sa_flags = SA_SIGINFO | SA_RESTART };

	if (!done)
		sigaction(SIGBUS, &sa, NULL);
	done = true;
}
