/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * segment.h - one file of a log: its frame, around blocks whose contents are others' business
 * (event_encode.h, records.h). For writer.c and reader.c. Pure data.
 *
 *	header  64 bytes
 *	blocks  each a header of 32 bytes and a zstd frame
 *	INDEX   the last block, or blocks
 *	trailer 24 bytes: where INDEX begins
 *
 * A file that was not brought to its end has neither INDEX nor trailer, and perhaps a piece of a
 * block: its blocks are found by walking over them. Everything is little-endian; checks are XXH64
 * with seed 0.
 */
#ifndef MTRUN_LOG_SEGMENT_H
#define MTRUN_LOG_SEGMENT_H

#include "base/types.h"

#define SEGMENT_MAGIC	"mtrunlog"
#define SEGMENT_END	"mtrunend"
#define SEGMENT_VERSION 1u
#define SEGMENT_BLOCK	0x424c544du /* "MTLB" */
/* most bytes of a block's contents; packed they are at most ZSTD_compressBound() of that */
#define SEGMENT_RAW (1u << 20)
/*
 * times are at most this, 139 years: nothing that is computed from them wraps, and who goes from
 * one to the next comes to an end
 */
#define SEGMENT_MS_MOST (1ull << 42)
#define SEGMENT_NAME	64u /* of a file's name, with the end */

struct segment_header {
	char magic[8];
	uint32_t version, zero;
	uint64_t set; /* the same in all files of a run */
	/* from 1: files whose numbers are neighbours go on in each other. flags: enum segment_file */
	uint32_t number, flags;
	uint64_t clock_ms; /* when tracing began, since 1970 */
	uint64_t began_ms; /* when the file was begun, since then */
	uint64_t reserved;
	uint64_t check; /* of the above */
};

/* The log was off before it: no file had the number before its own. Readers may ignore it. */
enum segment_file { SEGMENT_AFTER_OFF = 1 };

enum segment_type {
	SEGMENT_RUN = 1,
	SEGMENT_PROCESS,
	SEGMENT_MODULES,
	SEGMENT_NODES,
	SEGMENT_SYMBOLS,
	SEGMENT_MARKS,
	SEGMENT_STATE,
	SEGMENT_EVENTS,
	SEGMENT_INDEX,
	SEGMENT_TYPES
};
/* flag: the next block of this process and type continues the contents */
#define SEGMENT_GOES_ON 1u

struct segment_block {
	uint32_t magic;
	uint16_t type, flags;
	uint32_t process;     /* from 1, in order of appearance in the run; 0: the run */
	uint32_t packed, raw; /* bytes: that follow, and that these become */
	uint32_t zero;
	uint64_t check; /* of the above and the packed bytes */
};

struct segment_trailer {
	uint64_t index; /* offset of the first INDEX block */
	uint64_t check; /* of these 8 bytes */
	char magic[8];
};

_Static_assert(sizeof(struct segment_header) == 64 && sizeof(struct segment_block) == 32 &&
		       sizeof(struct segment_trailer) == 24,
	       "as in the file");

/* What is to be in the file, unpacked. */
struct log_block {
	unsigned type, flags;
	uint32_t process;
	uint64_t first_ms, last_ms, events; /* EVENTS; STATE: its moment, twice; else 0 */
	const uint8_t *raw;
	size_t len; /* at most SEGMENT_RAW */
};

/* Puts in the magic and the checks. */
void segment_header_seal(struct segment_header *h);
void segment_block_seal(struct segment_block *b, const void *packed);
void segment_trailer_make(struct segment_trailer *t, uint64_t index);
/* Whether what was read is whole. A header of another version is. */
bool segment_header_whole(const struct segment_header *h);
/* lengths and magic: the packed bytes may be read */
bool segment_block_plausible(const struct segment_block *b);
bool segment_block_whole(const struct segment_block *b, const void *packed);
bool segment_trailer_whole(const struct segment_trailer *t);

/*
 * "memlog<YYYYMMDD>_<id>-<n>.mtlog": the day is the local one of CLOCK_MS, the id is SET's in hex.
 */
void segment_name(char name[SEGMENT_NAME], uint64_t clock_ms, uint64_t set, uint32_t number);
/* Whether a file of that NAME (without directories) may be one. */
bool segment_is_name(const char *name);

#endif
