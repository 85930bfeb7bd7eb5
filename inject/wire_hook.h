/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * wire_hook.h - which functions are hooked, and what a stub hands to the trampoline (see wire.h).
 */
#ifndef MTRUN_WIRE_HOOK_H
#define MTRUN_WIRE_HOOK_H

#include <stdint.h>

enum wire_hook_kind {
	HOOK_MALLOC,	     /* (size) -> pointer or NULL */
	HOOK_CALLOC,	     /* (n, size) */
	HOOK_REALLOC,	     /* (pointer, size) */
	HOOK_REALLOCARRAY,   /* (pointer, n, size) */
	HOOK_FREE,	     /* (pointer) */
	HOOK_MEMALIGN,	     /* (alignment, size) -> pointer or NULL; also aligned_alloc */
	HOOK_POSIX_MEMALIGN, /* (out, alignment, size) -> 0 or errno */
	/*
	 * operator new: `nothrow` is called instead; if it gives NULL the real one is jumped to.
	 * `arg` is enum wire_family
	 */
	HOOK_NEW,
	/*
	 * an operator new or delete that goes on to malloc or free, whose hook counts the call:
	 * that hook is told the family, `arg` (enum wire_family; entry.S), and by operator new also
	 * that 0 bytes were asked for, of which libstdc++ makes 1
	 */
	HOOK_SAYS_NEW,
	HOOK_SAYS_DELETE,
	/*
	 * functions of up to three arguments, the first one as in HOOK_MALLOC and HOOK_FREE. `arg`
	 * is enum wire_family
	 */
	HOOK_MALLOC_AS,
	HOOK_FREE_AS,
	HOOK_MMAP, /* also mmap64 */
	HOOK_MUNMAP,
	HOOK_MREMAP,
	HOOK_MPROTECT,
	HOOK_BRK,
	HOOK_SBRK,
	/* libc's syscall(): passes on what it knows to the above, the rest straight through */
	HOOK_SYSCALL,
	/* prctl(PR_SET_SECCOMP), seccomp(): no system call from hooks after it */
	HOOK_PRCTL,
	HOOK_DEBUG_STATE, /* ld.so's _dl_debug_state */
	HOOK_LEAK_CHECK,  /* LeakSanitizer's checks, which trace their own process */
	HOOK_PTRACE,	  /* ptrace(): a process has one tracer, and that may be mtrun */
	HOOK_API,	  /* a function of mtrun.h; `arg` is enum wire_api */
	/*
	 * a system call that a module makes by itself, any of them: see entry_raw. `arg` is 1 where
	 * the stack may have no room for a hook (Go)
	 */
	HOOK_RAW,
	/*
	 * --hook: functions of up to six register arguments. `arg`: which of them, from 0, is the
	 * size or the pointer
	 */
	HOOK_GENERIC_MALLOC,
	HOOK_GENERIC_CALLOC,
	HOOK_GENERIC_REALLOC,
	HOOK_GENERIC_FREE,
	HOOK_GENERIC_MEMALIGN,
	HOOK_GENERIC_POSIX_MEMALIGN,
	HOOK_KINDS
};

/*
 * One per hooked function, in the island beside its stub. The stub loads its address into r11 and
 * jumps to `entry`.
 */
struct wire_hook {
	uint64_t entry; /* in the blob: the entry of `kind` */
	uint64_t orig;	/* the moved instructions, then back into the function */
	/*
	 * HOOK_NEW: the moved instructions of the same module's nothrow form. HOOK_RAW: the return
	 * address that stands for the site, in the island. Else 0
	 */
	uint64_t nothrow;
	uint32_t kind; /* enum wire_hook_kind */
	uint32_t arg;  /* see enum wire_hook_kind; | WIRE_FRAMED */
};
/*
 * The real function walks its stack by frame pointers (a sanitizer's malloc), so it is called with
 * rbp at its caller's frame. HOOK_MALLOC and HOOK_FREE do not look at this flag.
 */
#define WIRE_FRAMED (1u << 31)

#endif
