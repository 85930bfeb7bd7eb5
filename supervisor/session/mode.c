// SPDX-License-Identifier: GPL-3.0-or-later
#include "session/mode.h"

#include <errno.h>
#include <string.h>

/*
 * The recording modes. Both spellings are here, so that the command line, the shell and the gs
 * driver's calls know the same ones.
 */
const struct mode_facts modes[MODES] = {
	[MODE_MEM_FAST] = { .name = "mem-fast", .gs = "MEM_FAST" },
	[MODE_MEM] = { .name = "mem", .gs = "MEM_RECORD", .compact = true },
	[MODE_LOG_FAST] = { .name = "log-fast", .gs = "LOG_FAST", .logged = true },
	[MODE_LOG] = { .name = "log", .gs = "LOG_RECORD", .compact = true, .logged = true },
	[MODE_OFF] = { .name = "off", .gs = "CLOSED", .off = true },
};

int mode_parse(const char *text, enum mode *mode)
{
	for (int i = 0; i < MODES; i++)
		if (!strcmp(text, modes[i].name)) {
			*mode = (enum mode)i;
			return 0;
		}
	return -EINVAL;
}

enum mode mode_logged(enum mode mode, bool logged)
{
	if (modes[mode].logged == logged)
		return mode;
	for (int i = 0; i < MODES; i++)
		if (modes[i].compact == modes[mode].compact && modes[i].logged == logged)
			return (enum mode)i;
	return mode;
}
