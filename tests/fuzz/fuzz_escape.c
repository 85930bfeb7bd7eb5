// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * fuzz_escape.c - any string as a name: what is printed of it is UTF-8 on one line, and nothing
 * unsafe.
 */
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *text, bool tabs)
{
	uint32_t c;

	for (int n; *text; text += n) {
		n = utf8_decode(text, &c);
		if (!n || (escape_is_unsafe(c) && !(tabs && c == '\t')))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *raw = strndup((const char *)data, size), *copy = raw ? escape_copy(raw) : NULL,
	     *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!copy || !out)
		abort();
	check(copy, false);
	if (escape_is_plain(raw) && !strchr(raw, '\\') && strcmp(raw, copy))
		abort();
	escape_printf(out, "%s%.*s%*s", raw, size ? data[0] : 0, raw, size ? data[0] : 0, raw);
	fflush(out);
	check(text, false);
	rewind(out);
	escape_put_line(out, raw, size ? data[size - 1] : 0);
	fclose(out);
	check(text, true);
	free(text);
	free(copy);
	free(raw);
	return 0;
}
