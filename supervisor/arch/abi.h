/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * abi.h - what x86-64's System V ABI and the kernel promise of a thread's stack and registers.
 */
#ifndef MTRUN_ABI_H
#define MTRUN_ABI_H

/*
 * Bytes below rsp where a function that calls none may have its variables: signal handlers and
 * whoever else uses the stack leave them alone. (In the trampoline: inject/walk.c.)
 */
#define RED_ZONE 128u
/* The code segment of 64-bit code; of 32-bit code it is another. */
#define CS_64 0x33u
/* The flag by which a thread single-steps itself. (In the trampoline: inject/service.c.) */
#define FLAG_TRAP 0x100ull

#endif
