/* SPDX-License-Identifier: GPL-3.0-or-later */
/* types.h - the few types that every module of the supervisor speaks. */
#ifndef MTRUN_TYPES_H
#define MTRUN_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* An address in the target. An integer on purpose: nobody can dereference it by mistake. */
typedef uint64_t raddr_t;

#define MUST_USE     __attribute__((warn_unused_result))
#define PRINTF(f, a) __attribute__((format(printf, f, a)))

#endif
