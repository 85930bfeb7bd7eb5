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

/* A page of the target's memory, and of ours, in bytes: x86-64's. */
#define PAGE ((raddr_t)4096)

static inline raddr_t page_down(raddr_t at) { return at & ~(PAGE - 1); }
/* 0 for an address in the last page. */
static inline raddr_t page_up(raddr_t at) { return page_down(at + PAGE - 1); }

#define MUST_USE     __attribute__((warn_unused_result))
#define PRINTF(f, a) __attribute__((format(printf, f, a)))

#endif
