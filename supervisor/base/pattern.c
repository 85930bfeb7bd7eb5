// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/pattern.h"

#include <errno.h>
#include <string.h>

/*
 * regcomp(3), with one set of flags for all. Nobody asks where something matches, so REG_NOSUB
 * saves finding that out.
 */

/*
 * glibc's texts are of both syntaxes: "Unmatched ( or \\(". In this one there is no backslash, and
 * who prints the text would double it.
 */
static void without_backslashes(char *why)
{
	char *other = strstr(why, " or \\"), *to = why;

	if (other)
		*other = '\0';
	for (const char *at = why; *at; at++)
		if (*at != '\\')
			*to++ = *at;
	*to = '\0';
}

int pattern_compile(regex_t *p, const char *text, const char **error)
{
	static _Thread_local char why[256];
	int err = regcomp(p, text, REG_EXTENDED | REG_NOSUB);

	if (!err)
		return 0;
	regerror(err, p, why, sizeof(why));
	without_backslashes(why);
	*error = why;
	return -EINVAL;
}
