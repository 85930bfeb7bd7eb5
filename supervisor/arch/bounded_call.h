/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * bounded_call.h - a system call that ends after a time.
 *
 * Some system calls wait for what another process may hold for as long as it likes. A signal ends
 * that wait, but the kernel then begins the call anew.
 */
#ifndef MTRUN_BOUNDED_CALL_H
#define MTRUN_BOUNDED_CALL_H

#include "base/types.h"

/*
 * What system call NR of four arguments returned: a result or -errno. -ETIMEDOUT: it would not end
 * within MS milliseconds, and has done nothing. For calls that a signal interrupts. By one thread
 * of the process at a time.
 */
long bounded_call(unsigned ms, long nr, long a, long b, long c, long d) MUST_USE;

#endif
