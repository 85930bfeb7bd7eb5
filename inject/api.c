// SPDX-License-Identifier: GPL-3.0-or-later
#include "hook.h"
#include "ring.h"

/*
 * api.c - what the program's own code asks through mtrun.h is passed on to the supervisor.
 *
 * No event is written and no allocator is called, so the call may come from anywhere, also from a
 * signal handler that interrupted a hook. A text is passed as an address: the supervisor copies it,
 * and a bad pointer does no harm.
 */

uint64_t hook_api(uint64_t text, uint64_t b, uint64_t c, const struct wire_hook *h,
		  const struct entry *e)
{
	struct wire_thread *t = thread_self();

	(void)b;
	(void)c;
	(void)e;
	if (!t)
		return 0;
	return ask(t, &(struct question){ ASK_API, { h->arg, text } });
}
