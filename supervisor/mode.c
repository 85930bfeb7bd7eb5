/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "mode.h"

#include <errno.h>
#include <string.h>

/* The recording modes. Both spellings are said here, so that the command line, the shell and the gs driver's calls know the same ones. */
const struct mode_facts modes[MODES] = {
	[MODE_MEM_FAST] = { .name = "mem-fast", .gs = "MEM_FAST" },
	[MODE_MEM]      = { .name = "mem", .gs = "MEM_RECORD", .compact = true },
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
