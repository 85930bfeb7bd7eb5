/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * entry.S - where the target's control flow enters and leaves the trampoline.
 *
 * A patched function jumps to its stub (supervisor/patch/plant.c). If `armed` is ARMED_ON, or for a
 * few kinds of hooks ARMED_OFF, the stub sets r11 to its struct wire_hook and jumps here; else it
 * goes on to the moved instructions. The six callee-saved registers are pushed, as a record for the
 * stack walk (C preserves them, so they need not be popped), and a C function is called with the
 * arguments still in their registers.
 */
#include <asm/unistd.h>

#define HOOK_ORIG  8			/* offsetof(struct wire_hook, orig) */
#define HOOK_STANDS 16			/* offsetof(struct wire_hook, nothrow) */
#define HOOK_ARG   28
#define STACK_WAITS 20000		/* naps for a free one: two seconds or more */
#define TO_GUARD   (-0x1000)		/* from the blob's start */
#define TO_HERE    (-0x1000 + 4)
#define TO_SECRET  (-0x1000 + 48)
#define TO_PROCESS 0x100000
#define AGENT_BEACON 0x100000
#define NOT 0				/* enum wire_armed */
#define CLONE_VM_      0x100
#define CLONE_FILES_   0x400
#define CLONE_SIGHAND_ 0x800
#define CLONE_THREAD_  0x10000
#define CLONE_SYSVSEM_ 0x40000
#define OFF 1
#define ANY 3				/* the last of enum wire_family */

	.text
	.intel_syntax noprefix

	.macro push_registers
	push	r15
	.cfi_adjust_cfa_offset 8
	push	r14
	.cfi_adjust_cfa_offset 8
	push	r13
	.cfi_adjust_cfa_offset 8
	push	r12
	.cfi_adjust_cfa_offset 8
	push	rbx
	.cfi_adjust_cfa_offset 8
	push	rbp
	.cfi_adjust_cfa_offset 8
	.endm

	.type	pass, @function
pass:
	.cfi_startproc
	jmp	[r11 + HOOK_ORIG]
	.cfi_endproc
	.size	pass, . - pass

/* Up to three arguments: fn(a, b, c, hook, entry). */
	.macro call_hook3 name
	push_registers
	mov	rcx, r11
	mov	r8, rsp
	sub	rsp, 8
	.cfi_adjust_cfa_offset 8
	call	hook_\name
	add	rsp, 56
	.cfi_adjust_cfa_offset -56
	.endm

	.macro entry3_body name
	call_hook3 \name
	ret
	.endm

	.macro entry3 name
	.globl	entry_\name
	.hidden	entry_\name
	.type	entry_\name, @function
	.balign	16
entry_\name:
	.cfi_startproc
	entry3_body \name
	.cfi_endproc
	.size	entry_\name, . - entry_\name
	.endm

/* All six argument registers, in memory: fn(args, hook, entry). */
	.macro entry6_body name
	push_registers
	mov	rax, rsp
	sub	rsp, 56
	.cfi_adjust_cfa_offset 56
	mov	[rsp], rdi
	mov	[rsp + 8], rsi
	mov	[rsp + 16], rdx
	mov	[rsp + 24], rcx
	mov	[rsp + 32], r8
	mov	[rsp + 40], r9
	mov	rdi, rsp
	mov	rsi, r11
	mov	rdx, rax
	call	hook_\name
	add	rsp, 104
	.cfi_adjust_cfa_offset -104
	ret
	.endm

	.macro entry6 name
	.globl	entry_\name
	.hidden	entry_\name
	.type	entry_\name, @function
	.balign	16
entry_\name:
	.cfi_startproc
	entry6_body \name
	.cfi_endproc
	.size	entry_\name, . - entry_\name
	.endm

/*
 * malloc while sampling: nearly every block is only counted down here, in the slot of its thread
 * (thread_self() in ring.h), whose mark is set meanwhile as in any other hook. hook_malloc() does
 * the rest: a block that uses up the countdown (which is first restored), no slot yet, a hook
 * around this one, another period, a size of 0 or 1 (which operator new(0) may have made of 0).
 * Names in lower case are offsets.c's. r9: see entry_says_new.
 */
	.macro	entry_gives name
	.globl	entry_\name
	.hidden	entry_\name
	.type	entry_\name, @function
	.balign	16
entry_\name:
	.cfi_startproc
	lea	rcx, [rip + blob_start + TO_PROCESS]
	mov	r10, [rcx + process_sample]
	test	r10, r10
	jne	2f
1:	call_hook3 \name
	xor	r9d, r9d
	ret
2:	cmp	dword ptr [rcx + process_tls_ready], 0
	je	1b
	cmp	rdi, 1
	jbe	1b
	mov	r8, fs:[0]
	mov	rax, r8
	shr	rax, 6
	imul	eax, eax, 0x9e3779b1		/* wire_finder_hash() */
	shr	eax, 16
	and	eax, offset finder_mask
	mov	eax, [rcx + rax * 8 + process_finder]
	and	eax, offset slot_mask
	imul	rax, rax, offset thread_size
	lea	rax, [rcx + rax + process_thread]
	cmp	[rax + thread_fs], r8
	jne	1b
	cmp	qword ptr [rax + thread_mark], 0
	jne	1b
	cmp	[rax + thread_sample], r10
	jne	1b
	sub	[rax + thread_countdown], rdi
	jbe	3f
	mov	[rax + thread_mark], rsp
	push	rax
	.cfi_adjust_cfa_offset 8
	call	[r11 + HOOK_ORIG]
	pop	rcx
	.cfi_adjust_cfa_offset -8
	xor	r9d, r9d
	cmp	dword ptr [rip + blob_start + TO_HERE], 0
	je	4f				/* orphaned() */
	mov	qword ptr [rcx + thread_mark], 0
4:	ret
3:	add	[rax + thread_countdown], rdi
	jmp	1b
	.cfi_endproc
	.size	entry_\name, . - entry_\name
	.endm
	entry_gives malloc
	entry_gives malloc_as

/*
 * free while sampling: nearly every block is one that the supervisor cannot know. wire_known() says
 * so, or else wire_process.released.
 */
	.macro	entry_takes name
	.globl	entry_\name
	.hidden	entry_\name
	.type	entry_\name, @function
	.balign	16
entry_\name:
	.cfi_startproc
	lea	rcx, [rip + blob_start + TO_PROCESS]
	cmp	dword ptr [rcx + process_filter], 0
	je	1f
	mov	rax, rdi
	mov	r8, rdi
	shr	r8, 4
	shr	rax, 22
	xor	eax, r8d
	and	eax, offset known_mask
	cmp	byte ptr [rcx + rax + process_known], 0
	je	pass
	mov	eax, 0x9e3779b1			/* wire_counter() */
	imul	rax, r8
	shr	rax, 20
	and	eax, offset counter_mask
	cmp	[rcx + rax * 8 + process_released], rdi
	je	pass
1:	entry3_body \name
	.cfi_endproc
	.size	entry_\name, . - entry_\name
	.endm
	entry_takes free
	entry_takes free_as

	entry3	calloc
	entry3	realloc
	entry3	reallocarray
	entry3	memalign
	entry3	posix_memalign
	entry3	munmap
	entry3	mprotect
	entry3	brk
	entry3	sbrk
	entry3	api
	entry3	leak_check
	entry6	mmap
	entry6	mremap
	entry6	prctl
	entry6	ptrace
	entry6	debug_state
	entry6	generic

/*
 * operator new may throw, and nothing can be thrown through a frame of ours: hook_new calls the
 * nothrow form. If that gives NULL, or the call is not to be counted, the real one is jumped to.
 */
	.globl	entry_new
	.hidden	entry_new
	.type	entry_new, @function
	.balign	16
entry_new:
	.cfi_startproc
	push_registers
	mov	rcx, r11
	mov	r8, rsp
	sub	rsp, 40
	.cfi_adjust_cfa_offset 40
	mov	[rsp], rdi
	mov	[rsp + 8], rsi
	mov	[rsp + 16], r11
	call	hook_new
	mov	rdi, [rsp]
	mov	rsi, [rsp + 8]
	mov	r11, [rsp + 16]
	add	rsp, 88
	.cfi_adjust_cfa_offset -88
	test	rax, rax
	je	pass
	ret
	.cfi_endproc
	.size	entry_new, . - entry_new

/*
 * libstdc++'s operators new and delete go on to malloc and free, whose hooks count them and want to
 * know the family. It is passed in r9: functions of so few arguments get nothing in it, and neither
 * those operators nor ld.so's symbol binding change it on the way (hooks.c looks). r9 is `secret` ^
 * the family, for a release also ^ its pointer. Where one operator calls another, as new[] does,
 * the outer one has set it. The hook of malloc clears r9, so that what was said of one call is not
 * taken for another: also a free() of a pointer that malloc has given anew does not find the old
 * word.
 *
 * A throwing function must not be called from here, so this is all that can be done. operator new
 * of 0 bytes tells the malloc that follows of that, too (hook_new_zero()).
 */
	.globl	entry_says_new
	.hidden	entry_says_new
	.type	entry_says_new, @function
	.balign	16
entry_says_new:
	.cfi_startproc
	mov	r10, [rip + blob_start + TO_SECRET]
	mov	rax, r9
	xor	rax, r10
	cmp	rax, ANY
	jbe	1f
	movzx	r9d, byte ptr [r11 + HOOK_ARG]
	xor	r9, r10
1:	test	rdi, rdi
	jne	pass
	push	r11
	.cfi_adjust_cfa_offset 8
	push	r9
	.cfi_adjust_cfa_offset 8
	push	rdi
	.cfi_adjust_cfa_offset 8
	call	hook_new_zero
	pop	rdi
	.cfi_adjust_cfa_offset -8
	pop	r9
	.cfi_adjust_cfa_offset -8
	pop	r11
	.cfi_adjust_cfa_offset -8
	jmp	pass
	.cfi_endproc
	.size	entry_says_new, . - entry_says_new

	.globl	entry_says_delete
	.hidden	entry_says_delete
	.type	entry_says_delete, @function
	.balign	16
entry_says_delete:
	.cfi_startproc
	mov	r10, [rip + blob_start + TO_SECRET]
	xor	r10, rdi
	mov	rax, r9
	xor	rax, r10
	cmp	rax, ANY
	jbe	pass
	movzx	r9d, byte ptr [r11 + HOOK_ARG]
	xor	r9, r10
	jmp	[r11 + HOOK_ORIG]
	.cfi_endproc
	.size	entry_says_delete, . - entry_says_delete

/*
 * libc's syscall(): the hook is called for the numbers that forbid system calls or trace and,
 * unless recording is off, for those that change mappings.
 */
	.globl	entry_syscall
	.hidden	entry_syscall
	.type	entry_syscall, @function
	.balign	16
entry_syscall:
	.cfi_startproc
	cmp	rdi, __NR_prctl
	je	1f
	cmp	rdi, __NR_seccomp
	je	1f
	cmp	rdi, __NR_ptrace
	je	1f
	cmp	dword ptr [rip + blob_start + TO_GUARD], OFF
	jbe	pass
	cmp	rdi, __NR_mmap
	je	1f
	cmp	rdi, __NR_munmap
	je	1f
	cmp	rdi, __NR_mremap
	je	1f
	cmp	rdi, __NR_mprotect
	je	1f
	cmp	rdi, __NR_brk
	jne	pass
1:	entry6_body syscall
	.cfi_endproc
	.size	entry_syscall, . - entry_syscall

/*
 * A system call that a program makes by its own instruction; its number is known only here. A call
 * that does not concern us is made at once by that instruction (it may return twice, on another
 * stack, or never), with everything as it was but rcx and r11, which the kernel changes anyway. The
 * flags are the program's, so nothing may change them before they are saved.
 *
 * For the others we push below the red zone: a return address that stands for the site, the six
 * registers, the flags, our hook, the arguments and the number. C would need too much of a
 * goroutine's stack, which has room for some hundred bytes at such a place: where the hook's `arg`
 * says so, C runs on a stack of the agent's. A handler that interrupts it takes another one, or
 * runs on its own, as all of Go's do. While all are taken the thread naps, so that those who have
 * them get a processor. If none becomes free the call is made without its event, which counts as
 * lost.
 */
	.macro is_number nr, to
	lea	ecx, [rax - \nr]
	jrcxz	\to
	.endm

	.macro load_arguments from
	mov	rdi, [\from]
	mov	rsi, [\from + 8]
	mov	rdx, [\from + 16]
	mov	r10, [\from + 24]
	mov	r8, [\from + 32]
	mov	r9, [\from + 40]
	.endm

#define RAW_RECORD 72			/* above the arguments and the number, our hook, the flags */

	.globl	entry_raw
	.hidden	entry_raw
	.type	entry_raw, @function
	.balign	16
entry_raw:
	.cfi_startproc
	.cfi_undefined rip
	is_number __NR_mmap, 1f
	is_number __NR_munmap, 1f
	is_number __NR_mprotect, 1f
	is_number __NR_brk, 1f
	is_number __NR_mremap, 1f
	is_number __NR_seccomp, 1f
	is_number __NR_ptrace, 1f
	lea	ecx, [rax - __NR_prctl]
	jrcxz	2f
0:	jmp	[r11 + HOOK_ORIG]
2:	lea	ecx, [rdi - 22]			/* PR_SET_SECCOMP */
	jrcxz	1f
	jmp	0b
1:	lea	rsp, [rsp - 128]
	push	[r11 + HOOK_STANDS]
	.cfi_restore rip
	push_registers
	mov	rcx, rsp
	pushfq
	.cfi_adjust_cfa_offset 8
	cld
	push	r11
	.cfi_adjust_cfa_offset 8
	sub	rsp, 56
	.cfi_adjust_cfa_offset 56
	mov	[rsp], rdi
	mov	[rsp + 8], rsi
	mov	[rsp + 16], rdx
	mov	[rsp + 24], r10
	mov	[rsp + 32], r8
	mov	[rsp + 40], r9
	mov	[rsp + 48], rax
	cmp	dword ptr [rip + blob_start + TO_GUARD], NOT
	je	4f
	/* the record has what these two were */
	mov	rbp, rsp
	.cfi_def_cfa_register rbp
	.cfi_rel_offset rbp, RAW_RECORD
	mov	r12d, -1
	.cfi_rel_offset r12, RAW_RECORD + 16
	.cfi_remember_state
	cmp	dword ptr [r11 + HOOK_ARG], 0
	je	8f
	lea	rsi, [rip + blob_start + TO_PROCESS]
	mov	edx, STACK_WAITS
6:	mov	r12d, offset stacks
7:	sub	r12d, 1
	jc	9f
	lock bts dword ptr [rsi + process_stacks_taken], r12d
	jc	7b
	lea	edx, [r12 + 1]
	imul	edx, edx, offset stack_size
	lea	rsp, [rsi + rdx + process_stack]
	load_arguments rbp
	/* copies are the hook's to change */
8:	push	rax
	push	r9
	push	r8
	push	r10
	push	rdx
	push	rsi
	push	rdi
	mov	rdi, rsp
	mov	rsi, r11
	mov	rdx, rcx
	call	hook_raw
	mov	ecx, eax
	mov	rax, [rsp + 48]
	mov	rsp, rbp
	.cfi_def_cfa_register rsp
	test	r12d, r12d
	js	10f
	lea	rdx, [rip + blob_start + TO_PROCESS]
	lock btr dword ptr [rdx + process_stacks_taken], r12d
10:	mov	rbp, [rsp + RAW_RECORD]
	.cfi_restore rbp
	mov	r12, [rsp + RAW_RECORD + 16]
	.cfi_restore r12
	mov	r11, [rsp + 56]
	test	cl, cl
	jne	3f
4:	mov	rax, [rsp + 48]
	mov	rcx, [r11 + HOOK_ORIG]
	jmp	5f
3:	mov	rcx, [r11 + HOOK_ORIG]
	add	rcx, 2				/* the instruction */
5:	load_arguments rsp
	add	rsp, 64
	.cfi_adjust_cfa_offset -64
	popfq
	.cfi_adjust_cfa_offset -8
	/* six registers, the return address, the red zone */
	lea	rsp, [rsp + 184]
	.cfi_def_cfa rsp, 8
	.cfi_undefined rip
	jmp	rcx
	.cfi_restore_state
9:	push	rdx
	call	stack_nap			/* it changes what C may change */
	pop	rdx
	mov	rax, [rsp + 48]
	mov	r11, [rsp + 56]
	lea	rcx, [rsp + RAW_RECORD]
	lea	rsi, [rip + blob_start + TO_PROCESS]
	sub	edx, 1
	jne	6b
	lock inc dword ptr [rsi + process_no_slot]
	mov	rbp, [rsp + RAW_RECORD]
	mov	r12, [rsp + RAW_RECORD + 16]
	jmp	4b
	.cfi_endproc
	.size	entry_raw, . - entry_raw

/*
 * leave_hook3(a, b, c, hook, entry), leave_hook6(args, hook, entry): a call that is not counted goes
 * on as if the hook had never been entered, with the arguments A, B, C or ARGS. So a thread that is
 * in the real function is not inside, and needs no mark.
 */
	.macro	leave_from entry
	mov	rsp, \entry
	.cfi_def_cfa rsp, 56
	.cfi_offset r15, -16
	.cfi_offset r14, -24
	.cfi_offset r13, -32
	.cfi_offset r12, -40
	.cfi_offset rbx, -48
	.cfi_offset rbp, -56
	.irp	r, rbp, rbx, r12, r13, r14, r15
	pop	\r
	.cfi_adjust_cfa_offset -8
	.cfi_restore \r
	.endr
	.endm

	.globl	leave_hook3
	.hidden	leave_hook3
	.type	leave_hook3, @function
	.balign	16
leave_hook3:
	.cfi_startproc
	mov	r11, rcx
	leave_from r8
	xor	r9d, r9d			/* see entry_says_new */
	jmp	[r11 + HOOK_ORIG]
	.cfi_endproc
	.size	leave_hook3, . - leave_hook3

	.globl	leave_hook6
	.hidden	leave_hook6
	.type	leave_hook6, @function
	.balign	16
leave_hook6:
	.cfi_startproc
	mov	r11, rsi
	mov	r10, rdx
	mov	rax, rdi
	mov	rdi, [rax]
	mov	rsi, [rax + 8]
	mov	rdx, [rax + 16]
	mov	rcx, [rax + 24]
	mov	r8, [rax + 32]
	mov	r9, [rax + 40]
	leave_from r10
	jmp	[r11 + HOOK_ORIG]
	.cfi_endproc
	.size	leave_hook6, . - leave_hook6

/*
 * call_framed(fn, a, b, c, entry): fn(a, b, c) with rbp at a frame that has the caller's rbp and
 * the hook's return address. So whoever follows frame pointers comes from here to the hook's
 * caller.
 */
	.globl	call_framed
	.hidden	call_framed
	.type	call_framed, @function
	.balign	16
call_framed:
	.cfi_startproc
	push	rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset rbp, 0
	push	[r8 + 48]			/* struct entry: ra */
	.cfi_adjust_cfa_offset 8
	push	[r8]				/* rbp */
	.cfi_adjust_cfa_offset 8
	mov	rbp, rsp
	mov	rax, rdi
	mov	rdi, rsi
	mov	rsi, rdx
	mov	rdx, rcx
	call	rax
	add	rsp, 16
	.cfi_adjust_cfa_offset -16
	pop	rbp
	.cfi_adjust_cfa_offset -8
	.cfi_restore rbp
	ret
	.cfi_endproc
	.size	call_framed, . - call_framed

/*
 * The supervisor sends a stopped thread here: its rsp is lowered by 144 (the red zone and two
 * words), its pc is in the lower word, its signal mask in the other one, and all signals are
 * blocked. All general registers and the flags are saved, the service is done (or a forked child's
 * agent made), they are restored, and the mask from its word; `ret 136` leaves rsp as it was.
 * Vector registers are not touched.
 */
	.equ	MASK, 12 * 8 + 8		/* above rbp, once all registers are saved */
	.macro	errand name, function
	.globl	\name
	.hidden	\name
	.type	\name, @function
	.balign	16
\name:
	.cfi_startproc
	.cfi_def_cfa rsp, 144
	.cfi_offset rip, -144
	pushfq
	.cfi_adjust_cfa_offset 8
	cld
	.irp	r, rax, rcx, rdx, rsi, rdi, r8, r9, r10, r11, rbx, rbp
	push	\r
	.cfi_adjust_cfa_offset 8
	.endr
	mov	rbp, rsp
	.cfi_def_cfa_register rbp
	and	rsp, -16
	mov	rdi, [rbp + MASK]
	call	\function
	mov	rsp, rbp
	.cfi_def_cfa_register rsp
	.irp	r, rbp, rbx, r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax
	pop	\r
	.cfi_adjust_cfa_offset -8
	.endr
	popfq
	.cfi_adjust_cfa_offset -8
	ret	136
	.cfi_endproc
	.size	\name, . - \name
	.endm

	errand	entry_service, service
	errand	entry_arrive, arrive_child

/*
 * The bootstrap stub: the first of ours that runs in a process, copied into unused bytes of a page
 * that is executable already. It is entered like entry_service. It maps the private parts of the
 * agent; the supervisor follows by system call stops and writes the blob there; the blob makes the
 * other parts (arrive()). If mtrun dies at any point, what was done is undone and the program goes
 * on.
 *
 *	at = mmap(agent, AGENT_BEACON, r-x,
 *		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
 *	if (at == agent && !(*(agent + AGENT_BLOB) && (agent + AGENT_BLOB + arrive)()))
 *	munmap(agent, AGENT_BEACON);
 */

/* Blocks all signals: mtrun may have died before it had them blocked. The old mask is not used. */
	.macro block_signals
	sub	rsp, 16
	mov	qword ptr [rsp], -1
	mov	rsi, rsp
	lea	rdx, [rsp + 8]
	mov	edi, 2				/* SIG_SETMASK */
	mov	r10d, 8
	mov	eax, __NR_rt_sigprocmask
	syscall
	.endm
	.macro restore_signals
	lea	rsi, [rbp + MASK]
	xor	edx, edx
	mov	edi, 2
	mov	r10d, 8
	mov	eax, __NR_rt_sigprocmask
	syscall
	.endm

	.section .text.bootstrap, "ax"
	.globl	bootstrap
	.hidden	bootstrap
	.globl	bootstrap_end
	.hidden	bootstrap_end
	.type	bootstrap, @function
bootstrap:
	pushfq
	cld
	.irp	r, rax, rcx, rdx, rsi, rdi, r8, r9, r10, r11, rbx, rbp
	push	\r
	.endr
	mov	rbp, rsp
	block_signals
	mov	rbx, [rip + bootstrap_agent]
	mov	rdi, rbx
	mov	esi, AGENT_BEACON
	mov	edx, 5				/* read, execute */
	/* MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE */
	mov	r10d, 0x100022
	mov	r8, -1
	xor	r9d, r9d
	mov	eax, __NR_mmap
	syscall
	cmp	rax, rbx
	jne	3f
	/* the blob's first bytes: the supervisor was here */
	cmp	dword ptr [rbx + 0x1000], 0
	je	1f
	mov	rax, [rip + bootstrap_arrive]
	add	rax, rbx
	and	rsp, -16
	call	rax
	test	al, al
	jne	3f
1:	mov	rdi, rbx
	mov	esi, AGENT_BEACON
	mov	eax, __NR_munmap
	syscall
3:	restore_signals
	mov	rsp, rbp
	.irp	r, rbp, rbx, r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax
	pop	\r
	.endr
	popfq
	ret	136
	.balign	8
bootstrap_agent:
	.quad	0				/* its address: the supervisor writes it */
bootstrap_arrive:
	.quad	arrive + 0x1000			/* from the agent's start */
bootstrap_end:
	.size	bootstrap, . - bootstrap

/*
 * The unmap stub: the last of ours that runs in a process, when nothing else of ours is in use any
 * more. It lies where the bootstrap stub lay, and is entered like entry_service. It unmaps what is
 * listed behind it: address, length, ..., 0.
 */
	.globl	unmap_stub
	.hidden	unmap_stub
	.globl	unmap_stub_end
	.hidden	unmap_stub_end
	.type	unmap_stub, @function
	.balign	8
unmap_stub:
	pushfq
	cld
	.irp	r, rax, rcx, rdx, rsi, rdi, r8, r9, r10, r11, rbx, rbp
	push	\r
	.endr
	mov	rbp, rsp
	block_signals
	lea	rbx, [rip + unmap_stub_end]
1:	mov	rdi, [rbx]
	test	rdi, rdi
	je	2f
	mov	rsi, [rbx + 8]
	mov	eax, __NR_munmap
	syscall
	add	rbx, 16
	jmp	1b
2:	restore_signals
	mov	rsp, rbp
	.irp	r, rbp, rbx, r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax
	pop	\r
	.endr
	popfq
	ret	136
	.balign	8
unmap_stub_end:
	.size	unmap_stub, . - unmap_stub

	.text
/*
 * A thread of our own, for a capture of the memory (supervisor/session/capturing.c). A stopped
 * thread is sent here as to entry_service, clones it, and goes on. Ours has no stack and touches no
 * memory; it has all signals blocked and ends by itself, whatever becomes of mtrun, which traces
 * it:
 *
 *	entry_protector	makes a userfaultfd in a descriptor table of its own, which ends with it:
 *			nobody else in the process ever has it. mtrun takes a copy.
 *	entry_cloner	clones the memory, in a child that signals nobody, and waits for its end, so
 *			that no zombie is left. The child gives up its descriptors, and would end if
 *			mtrun did not hold it.
 */
	.macro	thread_of_ours name
	.globl	\name
	.hidden	\name
	.type	\name, @function
	.balign	16
\name:
	pushfq
	cld
	.irp	r, rax, rcx, rdx, rsi, rdi, r8, r9, r10, r11, rbx, rbp
	push	\r
	.endr
	mov	rbp, rsp
	block_signals
	mov	edi, CLONE_VM_ | CLONE_FILES_ | CLONE_SIGHAND_ | CLONE_THREAD_ | CLONE_SYSVSEM_
	xor	esi, esi
	xor	edx, edx
	xor	r10d, r10d
	xor	r8d, r8d
	mov	eax, __NR_clone
	syscall
	test	rax, rax
	je	\name\()_thread
	restore_signals
	mov	rsp, rbp
	.irp	r, rbp, rbx, r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax
	pop	\r
	.endr
	popfq
	ret	136
	.size	\name, . - \name
	.type	\name\()_thread, @function
\name\()_thread:
	.endm

	/* Gives the thread a descriptor table of its own, an empty one. */
	.macro	leave_descriptors
	xor	edi, edi
	mov	esi, -1
	mov	edx, 2				/* CLOSE_RANGE_UNSHARE */
	mov	eax, __NR_close_range
	syscall
	.endm

	/* Makes the call that ends it, again and again until it has ended. */
	.macro	end_with call
9:	xor	edi, edi
	mov	eax, \call
	syscall
	jmp	9b
	.endm

	thread_of_ours entry_protector
	leave_descriptors
	test	eax, eax
	jne	1f
	mov	edi, 0x80801			/* O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY */
	mov	eax, __NR_userfaultfd
	syscall
1:	end_with __NR_exit
	.size	entry_protector_thread, . - entry_protector_thread

	thread_of_ours entry_cloner
	mov	edi, CLONE_FILES_		/* and no signal at its end */
	xor	esi, esi
	xor	edx, edx
	xor	r10d, r10d
	xor	r8d, r8d
	mov	eax, __NR_clone
	syscall
	mov	rbx, rax
	test	rax, rax
	je	2f
	js	3f
1:	mov	rdi, rbx
	xor	esi, esi
	mov	edx, 0x40000000			/* __WALL */
	xor	r10d, r10d
	mov	eax, __NR_wait4
	syscall
	cmp	eax, -4				/* EINTR */
	je	1b
3:	end_with __NR_exit
2:	leave_descriptors
	end_with __NR_exit_group
	.size	entry_cloner_thread, . - entry_cloner_thread

	.section .note.GNU-stack, "", @progbits
