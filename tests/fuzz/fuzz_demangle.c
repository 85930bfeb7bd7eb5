// SPDX-License-Identifier: GPL-3.0-or-later
/* fuzz_demangle.c - any string as a mangled name. */
#include <stdlib.h>
#include <string.h>

#include "symbols/demangle.h"
#include "symbols/names.h"
#include "symbols/site_rule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct names *names = names_new();
	char *raw = strndup((const char *)data, size < 256 ? size : 256);
	const char *root;
	size_t len;

	if (!names || !raw)
		abort();
	root = demangle_root(raw, &len);
	if (root && strnlen(root, len) < len)
		abort();
	if (!names_symbol(names, raw)->text[0] && raw[0])
		abort();
	site_classify(NULL, raw);
	free(raw);
	names_free(names);
	return 0;
}
