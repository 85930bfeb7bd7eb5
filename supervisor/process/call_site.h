/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * call_site.h - which function a call in a process' code calls, told from the instruction before a
 * return address. Reads the process' memory.
 */
#ifndef MTRUN_CALL_SITE_H
#define MTRUN_CALL_SITE_H

#include "base/types.h"

struct module;
struct process;

/*
 * The entry of the function that is called by the instruction before PC, through PLT and GOT. 0: it
 * cannot be told (a call by register, or memory that is not there).
 */
raddr_t call_site_target(const struct process *p, raddr_t pc);
/* Whether PC is in a function of M that has names in its file, and FITS is true for all of them. */
bool call_site_named(const struct module *m, raddr_t pc, bool (*fits)(const char *name));

#endif
