/* SPDX-License-Identifier: GPL-3.0-or-later */
/* utf8.h - other people's names may be any bytes; what goes into JSON or XML must be UTF-8. */
#ifndef MTRUN_UTF8_H
#define MTRUN_UTF8_H

#include "base/types.h"

/*
 * Length of the UTF-8 sequence at TEXT (1-4), or 0 if it is none: overlong forms, surrogates and
 * values past U+10FFFF are none.
 */
int utf8_length(const char *text);
/* utf8_length(), and the code point in *VALUE. */
int utf8_decode(const char *text, uint32_t *value);

#endif
