// SPDX-License-Identifier: GPL-3.0-or-later
#include <inttypes.h>

#include "base/escape.h"
#include "export/export.h"

/*
 * Folded stacks: `outermost;...;innermost BYTES`, one stack a line, each inlined function a frame
 * of its own. The grammar has no escapes: names are as everywhere (escape.h), and what separates
 * frames is replaced within them. Readers take the text behind the last blank as the amount, so
 * blanks may be in names. Stacks that read the same (they differ in addresses only) are lines of
 * their own; readers add them up.
 */
static void put_name(FILE *out, const char *name)
{
	char as[ESCAPE_UNIT];

	for (size_t len; *name; name += len) {
		len = escape_unit(name, as);
		if (*as)
			fputs_unlocked(as, out);
		else if (*name == ';')
			putc_unlocked(':', out);
		else
			fwrite_unlocked(name, 1, len, out);
	}
}

int export_folded(FILE *out, const struct export *e)
{
	struct export_stack stack = { 0 };
	int err = 0;

	for (size_t i = 0; i < e->view->count && !err && !ferror(out); i++) {
		int64_t size = export_size(e, &e->view->row[i]);

		err = export_rest(e);
		if (err || size <= 0)
			continue;
		err = export_stack(e, &e->view->row[i], &stack);
		for (size_t k = err ? 0 : stack.count; k-- > 0;) {
			struct symbol_frames f = stack.location[k].frames;

			for (size_t j = f.count; j-- > 0;) {
				put_name(out, export_name(&f.frame[j]));
				if (k || j)
					putc_unlocked(';', out);
			}
		}
		if (!err)
			fprintf(out, " %" PRId64 "\n", size);
	}
	export_stack_release(&stack);
	return err;
}
