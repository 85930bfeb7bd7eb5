/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * space.h - where mtrun maps the files that it shares with targets: each has room behind it to grow
 * in place, so that pointers into it stay valid, and reserves nothing. (Reserved addresses count
 * against RLIMIT_AS, which mtrun often shares with its target.)
 */
#ifndef MTRUN_SPACE_H
#define MTRUN_SPACE_H

#include <sys/mman.h>

#include "base/types.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/*
 * Maps LEN bytes of FD from OFFSET (all page multiples), shared, writable, with room for SPAN
 * bytes, and BEFORE bytes of private memory before it. NULL: errno says why.
 */
void *space_map(int fd, uint64_t offset, size_t len, size_t span, size_t before) MUST_USE;
/*
 * The mapping AT of LEN bytes becomes MORE bytes longer. False: there is no memory, or no room for
 * that.
 */
bool space_extend(void *at, size_t len, size_t more) MUST_USE;
/*
 * LEN bytes from AT on are about to be written: their pages are made in one call, where each would
 * cost a fault else. Where the kernel cannot do that (before Linux 5.14) nothing happens.
 */
void space_touch(void *at, size_t len);

#endif
