// SPDX-License-Identifier: GPL-3.0-or-later
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "leaks/suppressions.h"

/*
 * Any text as a file of suppressions, held against a stack whose names are the text's last lines;
 * what is printed for that stack is read again, and matches it.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define FRAMES 4

static size_t take_names(char *text, struct symbol_frame *symbol)
{
	size_t n = 0;
	char *line;

	while (n < FRAMES && (line = strrchr(text, '\n'))) {
		*line++ = '\0';
		symbol[n] = (struct symbol_frame){ .function = line,
						   .raw = n % 2 ? line : NULL,
						   .file = n % 3 ? line : NULL,
						   .module = line,
						   .inlined = n == 1 };
		n++;
	}
	return n;
}

static void print_and_read(const struct suppression_frame *frame, size_t count)
{
	struct suppressions *s = suppressions_new();
	char *text, why[200];
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!s || !out)
		abort();
	suppressions_print(out, "it", SUPPRESS_POSSIBLE, frame, count);
	fclose(out);
	if (suppressions_parse(s, text, len, why, sizeof(why)) ||
	    suppressions_match(s, SUPPRESS_POSSIBLE, frame, count) ||
	    suppressions_match(s, SUPPRESS_DEFINITE, frame, count) >= 0)
		abort();
	free(text);
	suppressions_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct suppressions *s = suppressions_new();
	struct suppression_frame frame[FRAMES];
	struct symbol_frame symbol[FRAMES];
	char *text = malloc(len + 1), why[200] = "";
	size_t count;

	if (!s || !text)
		abort();
	memcpy(text, data, len);
	text[len] = '\0';
	if (suppressions_parse(s, text, len, why, sizeof(why)) && !why[0])
		abort();
	if (!memchr(data, '\0', len)) {
		count = take_names(text, symbol);
		for (size_t i = 0; i < count; i++)
			frame[i] = (struct suppression_frame){ .frame = &symbol[i] };
		for (unsigned kind = SUPPRESS_DEFINITE; kind <= SUPPRESS_REACHABLE; kind *= 2)
			if (suppressions_match(s, kind, frame, count) >=
			    (ssize_t)suppressions_count(s))
				abort();
		print_and_read(frame, count);
	}
	suppressions_free(s);
	free(text);
	return 0;
}
