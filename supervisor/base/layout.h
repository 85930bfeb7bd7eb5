/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * layout.h - how an answer is laid out. On a terminal, no line is wider than the window: long names
 * are shortened in the middle, sizes are in units that people read. Everywhere else (`columns` is
 * 0) answers are whole and exact, for programs. One struct, of the answer's caller; small enough to
 * be copied.
 */
#ifndef MTRUN_LAYOUT_H
#define MTRUN_LAYOUT_H

#include <stdio.h>

#include "base/types.h"
#include "base/units.h"

struct layout {
	unsigned columns; /* of the window; 0: it goes to no terminal */
	bool unicode;	  /* else ASCII only */
	bool exact;	  /* --bytes */
	bool said;	  /* by mtrun itself: no command has options for it */
};

/* Whether it is for a terminal. L may be NULL. */
static inline bool layout_on_screen(const struct layout *l) { return l && l->columns; }
/* Whether the environment's locale has UTF-8. */
bool layout_unicode(void);
/* "812", "31.2M"; exact if asked for or not on a terminal. */
const char *layout_size(const struct layout *l, struct text_buffer *b, uint64_t bytes);
/* In a sentence: "812 bytes", "31.2M"; or "32715571 bytes". */
const char *layout_bytes(const struct layout *l, struct text_buffer *b, uint64_t bytes);
/* "812", "-31.2M". */
const char *layout_amount(struct text_buffer *b, int64_t bytes);
/* "812", "31.2M" with its sign. */
const char *layout_change(const struct layout *l, struct text_buffer *b, int64_t bytes);

/* How many columns TEXT takes, escaped (escape.h); wide characters take two. */
size_t layout_width(const struct layout *l, const char *text);
/*
 * TEXT, escaped, in at most WIDTH columns: of a longer one the middle is left out, or of a path its
 * first directories, with an ellipsis in its place. Returns how many columns it took.
 */
size_t layout_put(const struct layout *l, FILE *out, const char *text, size_t width);
size_t layout_put_path(const struct layout *l, FILE *out, const char *path, size_t width);
/* layout_put() that leaves out the end of a longer one. */
size_t layout_put_begin(const struct layout *l, FILE *out, const char *text, size_t width);
/* As escape_put_line() of a line, without its end where it is longer than WIDTH columns. */
size_t layout_put_source(const struct layout *l, FILE *out, const char *text, size_t width);
/* layout_width() and layout_put() of TEXT that has been escaped already. */
size_t layout_shown_width(const struct layout *l, const char *text);
size_t layout_put_shown(const struct layout *l, FILE *out, const char *text, size_t width);

/* N blanks. */
void layout_blanks(FILE *out, size_t n);

#endif
