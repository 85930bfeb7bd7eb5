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
 * Opens FD, whose first bytes are those of an ELF file. HOOKS_GIVEN: --hook names its allocator. To
 * be released with elf_unref(). NULL: WHY says why; *ERROR is -ENOTSUP for a kind of program that
 * mtrun cannot supervise, else elf_open()'s.
 */
struct elf *program_open(int fd, bool hooks_given, int *error, char *why, size_t len) MUST_USE;

/*
 * What would give the program in FD more rights than its user has, such as its set-user-ID bit. The
 * kernel does not honour that if the tracer is not root (execve(2), capabilities(7)). NULL:
 * nothing, or we are root.
 */
const char *program_lost_rights(int fd);

#endif
