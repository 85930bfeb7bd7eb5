/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * mode.h - the recording mode: chosen at the start by -m, changed while the program runs by
 * `record`. A mode is a row of the table in mode.c; session_record() acts on what the rows differ
 * in.
 */
#ifndef MTRUN_MODE_H
#define MTRUN_MODE_H

#include "base/types.h"

enum mode { MODE_MEM_FAST, MODE_MEM, MODE_LOG_FAST, MODE_LOG, MODE_OFF, MODES };
#define MODE_ACCEPTED "mem-fast, mem, log-fast, log or off"

struct mode_facts {
	const char *name;
	const char *gs; /* NAME in the gs driver's MemRecordType.NAME */
	bool off;	/* nothing is recorded (off.c) */
	/* live blocks are kept in the compact table (blocks/compact.h) */
	bool compact;
	bool logged; /* what happens is in log files, too (log/) */
};
extern const struct mode_facts modes[MODES];

/* 0, -EINVAL */
int mode_parse(const char *text, enum mode *mode) MUST_USE;
/* The mode that differs from MODE only in `logged`. */
enum mode mode_logged(enum mode mode, bool logged);

#endif
