/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * program.h - whether a program's file is of a kind that mtrun can supervise: launched (launch.c)
 * or running already (attach_check.c).
 */
#ifndef MTRUN_PROGRAM_H
#define MTRUN_PROGRAM_H

#include "base/types.h"

struct elf;

/*
 * FD: an ELF file, as its first bytes say. HOOKS_GIVEN: --hook names its allocator. To be released
 * with elf_unref(). NULL: *error is -ENOTSUP, and WHY says what kind it is of, or what elf_open()
 * found, as strerror(3) says in WHY.
 */
struct elf *program_open(int fd, bool hooks_given, int *error, char *why, size_t len) MUST_USE;

/*
 * What would give the program in FD more rights than its user has, if we, its tracer, had those of
 * root: the kernel does not honour it otherwise (capabilities(7), execve(2)). NULL: nothing, or we
 * are root.
 */
const char *program_lost_rights(int fd);

#endif
