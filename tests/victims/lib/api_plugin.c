// SPDX-License-Identifier: GPL-3.0-or-later
/* api_plugin - a library that asks, from its constructor on. */
#include "../../../inject/mtrun.h"

size_t plugin_at_start;

size_t plugin_allocated(void)
{
	return mtrun_allocated_memory();
}

__attribute__((constructor)) static void begin(void)
{
	plugin_at_start = mtrun_allocated_memory();
}
