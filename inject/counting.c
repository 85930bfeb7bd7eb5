// SPDX-License-Identifier: GPL-3.0-or-later
#include "counting.h"

/* counting.c - the parts of counting.h that hooks seldom need, so that they are not inlined. */

struct scope scope_inner(struct wire_thread *t, const struct entry *e)
{
	switch (nesting(t, e)) {
	case SIGNALLED: return (struct scope){ t, true };
	case STALE:
		t->mark = 0;
		t->depth = 0;
		signal_forget(t);
		/* it may have been left in the middle of a change of its ranges */
		store(&t->stale, 1);
		return (struct scope){ t, false };
	default: return (struct scope){ NULL, false };
	}
}

bool event_lost(struct wire_thread *t)
{
	__atomic_add_fetch(&t->lost, 1, __ATOMIC_RELAXED);
	return false;
}

void emit_wide(struct scope s, struct wire_signal_event *place, struct wire_event e, uint64_t size,
	       uint64_t ticket)
{
	struct wire_event more = { size, ticket };

	if (unlikely(s.minimal))
		signal_put(s.t, place, e, more);
	else
		ring_put2(s.t, e, more);
}

uint64_t charge_asking(struct scope s, const struct entry *e, enum wire_room kind,
		       const uint64_t arg[4])
{
	uint32_t truncated = s.t->truncated, deep = s.t->deep;
	uint64_t stack = stack_of(s, e), answer;

	s.t->truncated = truncated; /* the event's walk counts it */
	s.t->deep = deep;
	if (!s.minimal)
		s.t->asked = s.t->head;
	charge_begin(s, s.t->charged);
	answer = ask(s.t, &(struct question){ ASK_ROOM,
					      { kind | (s.minimal ? ROOM_HANDLER : 0) | stack << 32,
						arg[0], arg[1], arg[2], arg[3] } });
	if (!s.minimal && answer != ROOM_NONE)
		store(&s.t->charged, s.t->charged + answer);
	return answer;
}
