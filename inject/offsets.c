// SPDX-License-Identifier: GPL-3.0-or-later
#include "blob.h"
#include "wire_hook.h"

/* offsets.c - offsets and sizes as symbols for entry.S; and checks of the numbers written there. */

#define NUMBER(name, value)                                                             \
	__asm__ volatile(".globl " #name "\n\t.hidden " #name "\n\t.set " #name ", %c0" \
			 :                                                              \
			 : "i"(value))
static __attribute__((used)) void numbers(void)
{
	NUMBER(process_tls_ready, offsetof(struct wire_process, tls_ready));
	NUMBER(process_sample, offsetof(struct wire_process, sample));
	NUMBER(process_filter, offsetof(struct wire_process, filter));
	NUMBER(process_finder, offsetof(struct wire_process, finder));
	NUMBER(process_known, offsetof(struct wire_process, known));
	NUMBER(process_thread, offsetof(struct wire_process, thread));
	NUMBER(thread_fs, offsetof(struct wire_thread, fs));
	NUMBER(thread_mark, offsetof(struct wire_thread, mark));
	NUMBER(thread_sample, offsetof(struct wire_thread, sample));
	NUMBER(thread_countdown, offsetof(struct wire_thread, countdown));
	NUMBER(thread_size, sizeof(struct wire_thread));
	NUMBER(finder_mask, WIRE_FINDER - 1);
	NUMBER(slot_mask, WIRE_THREADS - 1);
	NUMBER(process_released, offsetof(struct wire_process, released));
	NUMBER(counter_mask, WIRE_COUNTERS - 1);
	NUMBER(known_mask, WIRE_KNOWN - 1);
	NUMBER(process_stacks_taken, offsetof(struct wire_process, stacks_taken));
	NUMBER(process_no_slot, offsetof(struct wire_process, no_slot));
	NUMBER(process_stack, offsetof(struct wire_process, stack));
	NUMBER(stacks, WIRE_STACKS);
	NUMBER(stack_size, WIRE_STACK_SIZE);
}

_Static_assert(AGENT_PROCESS - AGENT_BLOB == 0x100000, "entry.S knows this");
_Static_assert(ARMED_NOT == 0 && ARMED_OFF == 1, "entry.S knows these");
_Static_assert(AGENT_BEACON == 0x100000 && AGENT_BLOB == 0x1000 &&
		       offsetof(struct wire_guard, here) == 4 &&
		       offsetof(struct wire_guard, secret) == 48 && FAMILY_ANY == 3,
	       "entry.S knows these");
_Static_assert(offsetof(struct wire_hook, orig) == 8 && offsetof(struct wire_hook, nothrow) == 16 &&
		       offsetof(struct wire_hook, arg) == 28,
	       "entry.S knows this");
