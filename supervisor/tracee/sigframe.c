// SPDX-License-Identifier: GPL-3.0-or-later
#include "tracee/sigframe.h"

#include <stdlib.h>

#include "arch/abi.h"
#include "base/patient.h"
#include "base/proc.h"

/*
 * sigframe.c - finds signal frames on a stack by their pattern: among the registers that the kernel
 * saves, rip is followed by the flags and the segments; a 64-bit program's code segment is 0x33.
 */

#define DEPTH	 65536u
#define LIBC_OWN (3ull << 31) /* signals 32 and 33 */

bool sigframe_possible(pid_t pid)
{
	char *status;
	bool some;

	if (proc_read(pid, "status", &status) < 0)
		return true;
	some = !*status_find(status, "SigCgt") || status_mask(status, "SigCgt") & ~LIBC_OWN;
	free(status);
	return some;
}

static uint64_t word[DEPTH / 8];

static ssize_t read_stack(pid_t pid, raddr_t rsp)
{
	return patient_read(pid, (rsp - RED_ZONE) & ~7ull, word, sizeof(word)) / 8;
}

bool stack_any(pid_t pid, raddr_t rsp, bool (*is)(const void *ctx, raddr_t pc), const void *ctx)
{
	ssize_t n = read_stack(pid, rsp);

	for (ssize_t i = 0; i < n; i++)
		if (is(ctx, word[i]))
			return true;
	return false;
}

bool sigframe_any(pid_t pid, raddr_t rsp, bool (*is)(const void *ctx, raddr_t pc), const void *ctx)
{
	ssize_t n = read_stack(pid, rsp);

	for (ssize_t i = 0; i + 2 < n; i++)
		if ((word[i + 2] & 0xffff) == CS_64 && word[i + 1] >> 22 == 0 && word[i + 1] & 2 &&
		    is(ctx, word[i]))
			return true;
	return false;
}
