// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/fold.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/layout.h"
#include "base/utf8.h"
#include "shell/common/command.h"

/*
 * fold.c - lines are gathered up to their end, then printed in as many rows as they need.
 *
 * What is continued stands below what it continues: behind the label of a line such as `memory
 * heap 4096 ...` or `  --by KEY   site, stack`, otherwise as far in as its beginning. A word wider
 * than a row goes on in the next one behind a `|`; without one it is shortened in the middle. The
 * text has been escaped by whoever printed it.
 */

#define LABELS 40 /* per cent of the row: labels end there at the latest */

struct fold {
	FILE *out;
	const struct layout *layout;
	const struct call *call; /* NULL: no command's */
	char *line;
	size_t len, room;
};

/* How wide the first LEN bytes of TEXT are. */
static size_t width_of(const struct fold *f, const char *text, size_t len)
{
	char *copy = strndup(text, len);
	size_t columns = copy ? layout_shown_width(f->layout, copy) : len;

	free(copy);
	return columns;
}

static void put_word(const struct fold *f, const char *text, size_t len, size_t width)
{
	char *copy = strndup(text, len);

	if (copy)
		layout_put_shown(f->layout, f->out, copy, width);
	free(copy);
}

/* Where the rows below the first begin. */
static size_t hanging(const char *line, size_t row)
{
	size_t begin = strspn(line, " "), hang = begin;

	for (size_t i = begin; line[i] && i < row * LABELS / 100; i++)
		if (line[i] == ' ' && line[i + 1] == ' ' && line[i - 1] != ' ') {
			size_t text = i + strspn(line + i, " ");

			if (line[text] && text <= row / 2)
				hang = text;
		}
	return hang;
}

/*
 * The first of the LEN bytes of choices at TEXT, `a|b|c`, that fit in ROOM columns, or of a row of
 * ALL; all of them if none does.
 */
static size_t first_choices(const struct fold *f, const char *text, size_t len, size_t room,
			    size_t all)
{
	size_t best = 0;

	for (size_t i = 0; i + 1 < len; i++)
		if (text[i] == '|' && width_of(f, text, i + 1) <= (best ? room : all))
			best = i + 1;
	return best ? best : len;
}

static void put_line(struct fold *f, const char *line)
{
	size_t row = f->layout->columns - 1, len = strlen(line), hang, used;
	const char *at = line;

	if (width_of(f, line, len) <= row) {
		put_word(f, line, len, row);
		putc('\n', f->out);
		return;
	}
	hang = hanging(line, row);
	used = strspn(line, " ");
	layout_blanks(f->out, used);
	at += used;
	while (*at) {
		size_t gap = strspn(at, " "), word = strcspn(at + gap, " "),
		       columns = width_of(f, at + gap, word);

		if (!word)
			break;
		if (columns > row - hang) {
			word = first_choices(f, at + gap, word,
					     row > used + gap ? row - used - gap : 0, row - hang);
			columns = width_of(f, at + gap, word);
		}
		if (used > hang && used + gap + columns > row) {
			putc('\n', f->out);
			layout_blanks(f->out, hang);
			used = hang;
		} else {
			layout_blanks(f->out, gap);
			used += gap;
		}
		put_word(f, at + gap, word, row - used);
		used += columns < row - used ? columns : row - used;
		at += gap + word;
	}
	putc('\n', f->out);
}

static void put_rest(struct fold *f)
{
	if (f->len) {
		fwrite(f->line, 1, f->len, f->out);
		f->len = 0;
	}
}

static bool take(struct fold *f, char c)
{
	if (array_room(&f->line, f->len + 1, &f->room, 1))
		return false;
	f->line[f->len++] = c;
	f->line[f->len] = '\0';
	return true;
}

static ssize_t fold_write(void *cookie, const char *text, size_t len)
{
	struct fold *f = cookie;

	if (f->call && (f->call->json || f->call->call_form || f->call->as_is)) {
		put_rest(f);
		fwrite(text, 1, len, f->out);
	} else {
		for (size_t i = 0; i < len; i++) {
			if (text[i] != '\n') {
				if (!take(f, text[i])) {
					errno = ENOMEM;
					return 0;
				}
				continue;
			}
			put_line(f, f->len ? f->line : "");
			f->len = 0;
		}
	}
	return ferror(f->out) ? 0 : (ssize_t)len;
}

static int fold_close(void *cookie)
{
	struct fold *f = cookie;

	put_rest(f);
	free(f->line);
	free(f);
	return 0;
}

static FILE *open_for(FILE *out, const struct layout *layout, const struct call *call)
{
	struct fold *f = calloc(1, sizeof(*f));
	FILE *stream;

	if (!f)
		return NULL;
	*f = (struct fold){ .out = out, .layout = layout, .call = call };
	stream = fopencookie(f, "w",
			     (cookie_io_functions_t){ .write = fold_write, .close = fold_close });
	if (!stream)
		free(f);
	return stream;
}

FILE *fold_open(FILE *out, const struct call *call) { return open_for(out, &call->layout, call); }

FILE *fold_sentences(FILE *out, const struct layout *l)
{
	return l->columns ? open_for(out, l, NULL) : NULL;
}
