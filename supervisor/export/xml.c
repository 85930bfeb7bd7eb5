/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "xml.h"

#include <string.h>

#include "../utf8.h"

#define REPLACEMENT "\xef\xbf\xbd"

/* The bytes of the character at TEXT; it is replaced by *AS unless that is NULL. */
static int character(const char *text, const char **as)
{
	int n = utf8_length(text);

	*as = NULL;
	switch (*text) {
	case '<': *as = "&lt;"; return 1;
	case '>': *as = "&gt;"; return 1;
	case '&': *as = "&amp;"; return 1;
	case '"': *as = "&quot;"; return 1;
	case '\'': *as = "&#39;"; return 1;
	default: break;
	}
	if (n == 0 || !strncmp(text, "\xef\xbf\xbe", 3) || !strncmp(text, "\xef\xbf\xbf", 3))
		*as = REPLACEMENT;
	else if ((unsigned char)*text < 0x20 || *text == 0x7f)
		*as = " ";
	return n ? n : 1;
}

static size_t length(const char *text)
{
	const char *as;
	size_t n = 0;

	for (; *text; text += character(text, &as))
		n++;
	return n;
}

void xml_put_cut(FILE *out, const char *text, size_t characters)
{
	bool cut = length(text) > characters;
	size_t left = !cut ? SIZE_MAX : characters > 2 ? characters - 2 : 0;

	for (; *text && left; left--) {
		const char *as;
		int n = character(text, &as);

		if (as)
			fputs_unlocked(as, out);
		else
			fwrite_unlocked(text, 1, (size_t)n, out);
		text += n;
	}
	if (cut)
		fputs_unlocked(characters < 2 ? "" : "..", out);
}

void xml_put(FILE *out, const char *text)
{
	xml_put_cut(out, text, SIZE_MAX);
}
