// SPDX-License-Identifier: GPL-3.0-or-later
#include "log/segment.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
/* for XXH64_state_t, whose size has never changed */
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>
#include <zstd.h>

/*
 * The frame of a log's file, both ways, so that what is written is what is looked for. The structs
 * are the bytes of the file.
 */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the structs are the bytes of the file");

/* of the set's number; two runs of one day in one directory */
#define ID_DIGITS 8

void segment_header_seal(struct segment_header *h)
{
	memcpy(h->magic, SEGMENT_MAGIC, sizeof(h->magic));
	h->check = XXH64(h, offsetof(struct segment_header, check), 0);
}

bool segment_header_whole(const struct segment_header *h)
{
	return !memcmp(h->magic, SEGMENT_MAGIC, sizeof(h->magic)) &&
	       h->check == XXH64(h, offsetof(struct segment_header, check), 0);
}

static uint64_t block_check(const struct segment_block *b, const void *packed)
{
	XXH64_state_t state;

	XXH64_reset(&state, 0);
	XXH64_update(&state, b, offsetof(struct segment_block, check));
	XXH64_update(&state, packed, b->packed);
	return XXH64_digest(&state);
}

void segment_block_seal(struct segment_block *b, const void *packed)
{
	b->magic = SEGMENT_BLOCK;
	b->check = block_check(b, packed);
}

bool segment_block_plausible(const struct segment_block *b)
{
	return b->magic == SEGMENT_BLOCK && b->raw <= SEGMENT_RAW &&
	       b->packed <= ZSTD_COMPRESSBOUND(SEGMENT_RAW) && !b->zero;
}

bool segment_block_whole(const struct segment_block *b, const void *packed)
{
	return segment_block_plausible(b) && b->check == block_check(b, packed);
}

void segment_trailer_make(struct segment_trailer *t, uint64_t index)
{
	t->index = index;
	t->check = XXH64(&t->index, sizeof(t->index), 0);
	memcpy(t->magic, SEGMENT_END, sizeof(t->magic));
}

bool segment_trailer_whole(const struct segment_trailer *t)
{
	return !memcmp(t->magic, SEGMENT_END, sizeof(t->magic)) &&
	       t->check == XXH64(&t->index, sizeof(t->index), 0);
}

/* ---- names --------------------------------------------------------------- */

void segment_name(char name[SEGMENT_NAME], uint64_t clock_ms, uint64_t set, uint32_t number)
{
	time_t seconds = (time_t)(clock_ms / 1000);
	struct tm tm = { 0 };

	localtime_r(&seconds, &tm);
	snprintf(name, SEGMENT_NAME, "memlog%04u%02u%02u_%0*" PRIx32 "-%" PRIu32 ".mtlog",
		 (unsigned)(tm.tm_year + 1900) % 10000, (unsigned)(tm.tm_mon + 1) % 100,
		 (unsigned)tm.tm_mday % 100, ID_DIGITS, (uint32_t)set, number);
}

/* At least one character of those that IS accepts. */
static bool pass(const char **at, int (*is)(int))
{
	const char *from = *at;

	while (is((unsigned char)**at))
		++*at;
	return *at > from;
}

bool segment_is_name(const char *name)
{
	return !strncmp(name, "memlog", 6) && (name += 6, pass(&name, isdigit)) && *name++ == '_' &&
	       pass(&name, isalnum) && *name++ == '-' && pass(&name, isdigit) &&
	       !strcmp(name, ".mtlog");
}
