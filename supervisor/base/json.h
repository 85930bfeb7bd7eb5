/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * json.h - writes one JSON value as a stream. The caller opens and closes; commas, quotes and
 * escapes are done here. KEY is NULL within arrays. Bytes that are no UTF-8 (file names, other
 * people's symbols) become U+FFFD, so that the output is always valid. What escape.h holds for
 * unsafe is written as \u...: programs get the text as it is, terminals do not.
 */
#ifndef MTRUN_JSON_H
#define MTRUN_JSON_H

#include <stdio.h>

#include "base/types.h"

struct json {
	FILE *out;
	bool comma; /* the next value needs one before it */
	/*
	 * viewers show its texts to people as they are: they are escaped (escape.h). To be set
	 * after json_init()
	 */
	bool shown;
	/*
	 * it stands within an HTML page: no `<` of a text may end that part of it. To be set after
	 * json_init()
	 */
	bool in_page;
};

void json_init(struct json *j, FILE *out);
void json_object(struct json *j, const char *key);
void json_end_object(struct json *j);
void json_array(struct json *j, const char *key);
void json_end_array(struct json *j);
void json_string(struct json *j, const char *key, const char *value); /* NULL: null */
void json_int(struct json *j, const char *key, int64_t value);
void json_uint(struct json *j, const char *key, uint64_t value);
/* VALUE / 10^DIGITS */
void json_fixed(struct json *j, const char *key, uint64_t value, unsigned digits);
void json_bool(struct json *j, const char *key, bool value);
void json_null(struct json *j, const char *key);
/* VALUE, or null if it is not known. */
void json_uint_known(struct json *j, const char *key, bool known, uint64_t value);
/* Each of COUNT keys is null. */
void json_nulls(struct json *j, const char *const *key, size_t count);
void json_address(struct json *j, const char *key, raddr_t value); /* "0x..." */
/* The next value starts on a line of its own: one row per line, for people with grep. */
void json_newline(struct json *j);
/* Ends the output with a newline. */
void json_finish(struct json *j);

#endif
