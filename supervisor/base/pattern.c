// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/pattern.h"

#include <errno.h>

/*
 * regcomp(3), with one set of flags for all. Nobody asks where something matches, so REG_NOSUB
 * saves finding that out.
 */

int pattern_compile(regex_t *p, const char *text, const char **error)
{
	static _Thread_local char why[256];
	int err = regcomp(p, text, REG_EXTENDED | REG_NOSUB);

	if (!err)
		return 0;
	regerror(err, p, why, sizeof(why));
	*error = why;
	return -EINVAL;
}
