/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * xml.h - other people's names within XML and HTML, as text or within a quoted attribute: always
 * well formed, whatever is in them.
 */
#ifndef MTRUN_XML_H
#define MTRUN_XML_H

#include <stdio.h>

#include "base/types.h"

/*
 * TEXT with what XML means by < > & " ' escaped; what is no UTF-8 or no character of XML becomes
 * U+FFFD, control characters blanks.
 */
void xml_put(FILE *out, const char *text);
/* At most CHARACTERS of it, the last two of them dots if it is longer. */
void xml_put_cut(FILE *out, const char *text, size_t characters);

#endif
