/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * escape.h - text from outside as it may be printed. Names of functions, files, modules, threads
 * and processes, arguments, marks, what logs and .heap files hold, what users type: it may be any
 * bytes. Inside of mtrun it is kept as it is, for comparing and opening; whoever prints it does so
 * by these functions, once.
 *
 * What is printed is UTF-8 without anything that moves a cursor, ends a line, hides or turns text.
 * A letter, digit or sign is itself, of whatever script. Else:
 *	\n \t \r		these three
 *	\x1b			a byte: the other controls of ASCII, and each byte that is no UTF-8
 *	\u202e \U000e0041	a code point: controls (U+0080 to U+009F), line separators,
 *	                        directions, invisible ones, tags, noncharacters
 *	\\			a backslash, so that no text looks like another one's escape, and
 *	                        what it was can be told
 */
#ifndef MTRUN_ESCAPE_H
#define MTRUN_ESCAPE_H

#include <stdarg.h>
#include <stdio.h>

#include "base/types.h"

#define ESCAPE_UNIT    12   /* room for one escape */
#define ESCAPE_LONGEST 4096 /* bytes of a text that escape_printf() prints in full */

/*
 * printf, but each %s is escaped. Of one longer than ESCAPE_LONGEST its beginning and end are
 * printed with an ellipsis between. A width counts characters.
 */
void escape_printf(FILE *out, const char *format, ...) PRINTF(2, 3);
void escape_vprintf(FILE *out, const char *format, va_list args) PRINTF(2, 0);
/* TEXT, all of it. */
void escape_put(FILE *out, const char *text);
/* How many characters a %s of TEXT prints. */
size_t escape_columns(const char *text);
/*
 * As escape_put(), of LEN bytes of a line of source code, or of what the user wants to have
 * printed: tabs and backslashes stay.
 */
void escape_put_line(FILE *out, const char *text, size_t len);
/* All of TEXT as a string to be freed. NULL: out of memory. */
char *escape_copy(const char *text) MUST_USE;

/*
 * For writers whose format needs more than that: the first character of TEXT, which is not empty.
 * Returns how many bytes it has (1 to 4), AS its escape; that is empty if the character stands for
 * itself.
 */
size_t escape_unit(const char *text, char as[ESCAPE_UNIT]);
/* Whether TEXT would be printed as it is, backslashes aside. */
bool escape_is_plain(const char *text);
/* Whether code point C is never printed as it is. */
bool escape_is_unsafe(uint32_t c);

#endif
