// SPDX-License-Identifier: GPL-3.0-or-later
#include "tracee/fault_fixup.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>

#include "tracee/tracer.h"
#include "unwind/image.h"

/*
 * fault_fixup.c - a hook in the target has read memory that is not there.
 *
 * A stack walk proves a page readable once and reads it often (inject/walk.c). Between the two the
 * page may go away unseen by any hook, or while another thread reads it. And %fs may point to
 * nothing when a program makes a system call by itself (inject/blob.h). Without mtrun nothing would
 * have read there, so the program must not get the signal. The loads concerned are listed in the
 * trampoline's section .loads, and each is `mov r64, [..]`: its register gets LOAD_FAILED, and the
 * thread goes on behind it. The list and the instruction are read from the trampoline that we
 * carry, not from the target's copy.
 *
 * Before we are told of the fault the kernel has looked at the signal's disposition: a thread that
 * blocks or ignores SIGSEGV has lost that setting. So this is for what cannot be known before;
 * whoever can know makes the threads forget (stacks_forget).
 */

void fault_fixup_forget(struct process *p)
{
	uint32_t high = shared_slots(&p->shared);

	for (uint32_t i = 0; i < high; i++)
		__atomic_store_n(&p->wire->thread[i].stale, 1, __ATOMIC_SEQ_CST);
}

/* Offset of the instruction behind the load at offset AT of the trampoline; 0: AT is no such load. */
static raddr_t load_end(raddr_t at)
{
	raddr_t entry = blob_symbol("loads_start"), end = blob_symbol("loads_end");
	int32_t to[2];

	for (; entry + sizeof(to) <= end; entry += sizeof(to)) {
		const uint8_t *bytes = blob_bytes(entry, sizeof(to));

		if (!bytes)
			break;
		memcpy(to, bytes, sizeof(to));
		if (entry + (raddr_t)(int64_t)to[0] == at)
			return entry + sizeof(to[0]) + (raddr_t)(int64_t)to[1];
	}
	return 0;
}

/* The member of REGS that the load at offset AT writes. NULL: AT is another instruction. */
static unsigned long long *load_target(struct user_regs_struct *regs, raddr_t at)
{
	unsigned long long *const reg[] = { &regs->rax, &regs->rcx, &regs->rdx, &regs->rbx,
					    &regs->rsp, &regs->rbp, &regs->rsi, &regs->rdi,
					    &regs->r8,	&regs->r9,  &regs->r10, &regs->r11,
					    &regs->r12, &regs->r13, &regs->r14, &regs->r15 };
	const uint8_t *insn = blob_bytes(at, 4);

	insn += insn && *insn == 0x64;				  /* %fs: */
	if (!insn || (insn[0] & 0xf8) != 0x48 || insn[1] != 0x8b) /* REX.W, mov r64, r/m64 */
		return NULL;
	return reg[(insn[0] & 4) << 1 | (insn[2] >> 3 & 7)];
}

bool fault_fixup_end_fault(struct process *p, pid_t tid, int signal)
{
	struct user_regs_struct regs;
	unsigned long long *target;
	raddr_t at, next;
	int code;

	if ((signal != SIGSEGV && signal != SIGBUS) || !p->agent || !p->wire ||
	    tracer_get_regs(tid, &regs) < 0)
		return false;
	at = regs.rip - (p->agent + AGENT_BLOB);
	next = at < AGENT_BEACON - AGENT_BLOB ? load_end(at) : 0;
	target = next ? load_target(&regs, at) : NULL;
	if (!target || tracer_signal_code(tid, &code) < 0 || code <= 0)
		return false;
	*target = WIRE_LOAD_FAILED;
	regs.rip = p->agent + AGENT_BLOB + next;
	if (tracer_set_regs(tid, &regs) < 0)
		return false;
	fault_fixup_forget(p);
	return true;
}
