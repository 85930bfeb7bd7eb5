// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "shell/prompt/grammar.h"

/* Any text as a script: reading ends, moves on after each mistake, and frees what it took. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static bool takes_rest(const char *name) { return !strcmp(name, "wait") || !strcmp(name, "!"); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *text = malloc(len + 1);
	struct grammar g = { .at = text, .line = 1, .takes_rest = takes_rest };
	struct statement s;
	uint64_t n;
	int r;

	if (!text)
		return 0;
	memcpy(text, data, len);
	text[len] = '\0';
	while ((r = grammar_next(&g, &s)) != 0 && r != -EAGAIN) {
		const char *at = g.at;

		for (int i = 0; r == 1 && i < s.argc; i++)
			if (!size_parse(s.argv[i], &n) + !time_parse(s.argv[i], &n) +
				    !address_parse(s.argv[i], &n) >
			    3)
				abort();
		if (r == 1)
			statement_release(&s);
		else if (!g.why[0] || at > text + strlen(text))
			abort();
	}
	free(text);
	return 0;
}
