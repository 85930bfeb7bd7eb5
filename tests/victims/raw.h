/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * raw.h - for -include: a victim's mappings, and what takes it to jail, by `syscall` instructions of its own. RAW=1: in place, the number set beside the
 * instruction. RAW=2: all through one function that gets the number as an argument.
 */
#ifndef RAW_H
#define RAW_H
#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RAW_ASM(r, n, a, b, c, d, e, f) \
	register long raw_10 __asm__("r10") = (long)(d), raw_8 __asm__("r8") = (long)(e), raw_9 __asm__("r9") = (long)(f); \
	__asm__ volatile("syscall" : "=a"(r) : "0"((long)(n)), "D"((long)(a)), "S"((long)(b)), "d"((long)(c)), "r"(raw_10), "r"(raw_8), "r"(raw_9) \
			 : "rcx", "r11", "memory")

static __attribute__((noinline, unused)) long raw_any(long n, long a, long b, long c, long d, long e, long f)
{
	long r;
	RAW_ASM(r, n, a, b, c, d, e, f);
	return r;
}

#if RAW == 1
#define RAW_DO(r, n, a, b, c, d, e, f) RAW_ASM(r, n, a, b, c, d, e, f)
#else
#define RAW_DO(r, n, a, b, c, d, e, f) r = raw_any(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#endif
#define RAW_CALL(n, a, b, c, d, e, f) ({ \
	long raw_a = (long)(a), raw_b = (long)(b), raw_c = (long)(c), raw_d = (long)(d), raw_e = (long)(e), raw_f = (long)(f), raw_r; \
	RAW_DO(raw_r, n, raw_a, raw_b, raw_c, raw_d, raw_e, raw_f); \
	if (raw_r < 0 && raw_r >= -4095) { errno = (int)-raw_r; raw_r = -1; } \
	raw_r; })

#define mmap(a, l, p, f, d, o) ((void *)RAW_CALL(9, a, l, p, f, d, o))
#define munmap(a, l) ((int)RAW_CALL(11, a, l, 0, 0, 0, 0))
#define mprotect(a, l, p) ((int)RAW_CALL(10, a, l, p, 0, 0, 0))
#define RAW_MREMAP(a, o, n, f, to, ...) ((void *)RAW_CALL(25, a, o, n, f, to, 0))
#define mremap(...) RAW_MREMAP(__VA_ARGS__, 0, 0)
#define RAW_PRCTL(n, a, b, ...) ((int)RAW_CALL(157, n, a, b, 0, 0, 0))
#define prctl(...) RAW_PRCTL(__VA_ARGS__, 0, 0)
#define brk(a) ({ long raw_to = (long)(a); RAW_CALL(12, raw_to, 0, 0, 0, 0, 0) == raw_to ? 0 : (errno = ENOMEM, -1); })
#define sbrk(n) ({ long raw_old = RAW_CALL(12, 0, 0, 0, 0, 0, 0), raw_n = (long)(n); raw_n == 0 || brk(raw_old + raw_n) == 0 ? (void *)raw_old : (void *)-1; })
#define RAW_SYSCALL(n, a, b, c, d, e, f, ...) RAW_CALL(n, a, b, c, d, e, f)
#define syscall(...) RAW_SYSCALL(__VA_ARGS__, 0, 0, 0, 0, 0, 0)
#endif
