/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * short_name.h - C++ names as people write them: `std::string`, `std::vector<int>` without its
 * allocator. For screens only; reports for programs have the whole name.
 */
#ifndef MTRUN_SHORT_NAME_H
#define MTRUN_SHORT_NAME_H

#include "base/types.h"

/* How much is left out, in this order, until it fits. */
enum short_name {
	SHORT_DEFAULTS,	  /* default template arguments; deep ones are an ellipsis */
	SHORT_PARAMETERS, /* what it takes, too */
	SHORT_ARGUMENTS,  /* all template arguments, too */
	SHORT_LEVELS
};

/*
 * FUNCTION, demangled, so shortened; UNICODE: with such ellipses. What is no C++ name stays. To be
 * freed; NULL: out of memory.
 */
char *short_name(const char *function, enum short_name level, bool unicode) MUST_USE;

#endif
