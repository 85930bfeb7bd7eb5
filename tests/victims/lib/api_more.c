// SPDX-License-Identifier: GPL-3.0-or-later
/* api_more - another translation unit that asks. */
#include "../../../inject/mtrun.h"

#ifdef __cplusplus
extern "C"
#endif
size_t more_allocated(void);

size_t more_allocated(void)
{
	return mtrun_allocated_memory();
}
