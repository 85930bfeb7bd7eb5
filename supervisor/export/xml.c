// SPDX-License-Identifier: GPL-3.0-or-later
#include "export/xml.h"

#include <string.h>

#include "base/escape.h"

/*
 * The bytes of the character at TEXT; it is replaced by AS unless that is empty. (What XML cannot
 * have is among what is escaped.)
 */
static size_t character(const char *text, char as[ESCAPE_UNIT])
{
	const char *entity = NULL;

	switch (*text) {
	case '<': entity = "&lt;"; break;
	case '>': entity = "&gt;"; break;
	case '&': entity = "&amp;"; break;
	case '"': entity = "&quot;"; break;
	case '\'': entity = "&#39;"; break;
	default: return escape_unit(text, as);
	}
	strcpy(as, entity);
	return 1;
}

/* How many characters are seen: entities are one each, escapes are what they are. */
static size_t width(const char *as) { return *as == '\\' ? strlen(as) : 1; }

static size_t length(const char *text)
{
	char as[ESCAPE_UNIT];
	size_t n = 0;

	while (*text) {
		text += character(text, as);
		n += width(as);
	}
	return n;
}

void xml_put_cut(FILE *out, const char *text, size_t characters)
{
	bool cut = length(text) > characters;
	size_t left = !cut ? SIZE_MAX : characters > 2 ? characters - 2 : 0;

	while (*text) {
		char as[ESCAPE_UNIT];
		size_t n = character(text, as);

		if (width(as) > left)
			break;
		left -= width(as);
		if (*as)
			fputs_unlocked(as, out);
		else
			fwrite_unlocked(text, 1, n, out);
		text += n;
	}
	if (cut)
		fputs_unlocked(characters < 2 ? "" : "..", out);
}

void xml_put(FILE *out, const char *text) { xml_put_cut(out, text, SIZE_MAX); }
