// SPDX-License-Identifier: GPL-3.0-or-later
/* nolibc.c - a program without a libc, for -nostdlib -static: it says hello and leaves. */
#include <sys/syscall.h>

void _start(void);

static long call(long nr, long a, long b, long c)
{
	long r;
	__asm__ volatile("syscall" : "=a"(r) : "a"(nr), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
	return r;
}

void _start(void)
{
	call(SYS_write, 1, (long)"hello\n", 6);
	call(SYS_exit_group, 6, 0, 0);
}
