/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * format.h - log files (mtrun-log(5)): what is where in them, and how numbers and strings are written. Version 1. A file is a header, then blocks, one
 * behind the other; each is packed and checked alone, so a file that was cut off is good up to its last whole block.
 *
 *	header  64 bytes    magic | version | 0 | set | number | 0 | clock_ms | begun_ms | reserved | check
 *	block   32 bytes    magic | type, flags | process | packed | raw | 0 | check, then a zstd frame of `packed` bytes that holds `raw` bytes
 *	end     24 bytes    offset of the first INDEX block | its check | "mtrunend"
 *
 * Little-endian. In payloads numbers are LEB128: seven bits to a byte, the lowest first, bit 7 set in all but the last; those that may be negative (below: ~)
 * are zigzag: 0, -1, 1, -2 ... Strings and other bytes: how many, then they. Several of something: how many, then each.
 *
 *	RUN       strings: name and value, in turn
 *	PROCESS, MODULES, NODES, SYMBOLS, MARKS, INDEX: mtrun-log(5)
 *	STATE     a checkpoint: all that is needed to begin here. Blocks with LOG_MORE but the last:
 *	          first block: LOG_COUNTS_*, the fields of struct ledger_sums in its order, then 0 or 1: there is a last point, its interval, bytes, ms; then the
 *	          number of lines that follow in this block and those after it. Each line, never cut by the end of a block:
 *	          LINE_* flags, ~ stack less the one before, ~ live bytes, ~ live count, total bytes, total count, and by flag: temporary; ~ bytes, ~ count held at
 *	          the highest moment of the interval, less the live ones; ~ bytes, ~ count at the last point, less the live ones
 *	EVENTS    first_ms, last_ms, first interval, last interval, changes since the checkpoint before these, changes, events, bytes of codes; codes; and then
 *	          as they are at the end: LOG_COUNTS_*, events, unknown frees, bytes reserved, maps, unmaps, bytes counted
 *
 * Codes. A checkpoint begins a new dictionary, in which each of the following codes that says so takes the next number, from 0:
 *
 *	0         ~ ms              it is so much later than what was before
 *	1         shape, stack, [size]   defines what takes the next number and happens at once. Shape 0 to 3: that log_kind, of SIZE bytes and one block.
 *	                            4: any of them, which each time is told by size * 4 + log_kind, behind this and behind each use
 *	2         log_kind, stack, ~ bytes, ~ count     happens; takes no number
 *	3 + N     what number N stands for happens
 */
#ifndef MTRUN_LOG_FORMAT_H
#define MTRUN_LOG_FORMAT_H

#include "../types.h"

#define LOG_VERSION      1u
#define LOG_MAGIC        "mtrunlog"
#define LOG_END_MAGIC    "mtrunend"
#define LOG_BLOCK_MAGIC  0x424c544du		/* "MTLB" */
#define LOG_RAW_MOST     (1u << 20)		/* bytes in a block before it is packed */

struct log_header {
	char magic[8];
	uint32_t version, zero;
	uint64_t set;			/* the same in all files of a run */
	uint32_t number, zero2;		/* from 1 */
	uint64_t clock_ms;		/* when tracing began, since 1970 */
	uint64_t begun_ms;		/* when the file was begun, since tracing began */
	uint64_t reserved;
	uint64_t check;			/* xxh64 of all before */
};
_Static_assert(sizeof(struct log_header) == 64, "the header of a log file");

struct log_block_header {
	uint32_t magic;
	uint16_t type, flags;
	uint32_t process;		/* from 1, in order of appearance in the run; 0: the run */
	uint32_t packed, raw, zero;	/* bytes */
	uint64_t check;			/* xxh64 of all before, and the packed bytes */
};
_Static_assert(sizeof(struct log_block_header) == 32, "the header of a block");

struct log_end {
	uint64_t index;			/* offset of the first INDEX block */
	uint64_t check;			/* that block's */
	char magic[8];
};
_Static_assert(sizeof(struct log_end) == 24, "the end of a log file");

enum log_type { LOG_NONE, LOG_RUN, LOG_PROCESS, LOG_MODULES, LOG_NODES, LOG_SYMBOLS, LOG_MARKS, LOG_STATE, LOG_EVENTS, LOG_INDEX, LOG_TYPES };
#define LOG_MORE 1u			/* flags: the next block of this type and process goes on with it */

/* What happens to a stack's line. The first four are of heap blocks. */
enum log_kind {
	LOG_ALLOC,
	LOG_FREE,
	LOG_FREE_TEMPORARY,		/* it was the last that its thread had allocated */
	LOG_PAIR,			/* allocated, and freed at once, below the highest moment of the interval: count is 1 */
	LOG_GRANT,			/* accessible bytes of its mappings become more or (negative) less; count: mappings that have any */
	LOG_GRANTED,			/* so many bytes more in all, by COUNT calls */
	LOG_KINDS
};
#define LOG_COUNTS_HEAP    1u		/* which kinds are in the sums by stack */
#define LOG_COUNTS_MMAP    2u
#define LOG_COUNTS_SAMPLED 4u		/* some blocks stand for others */

/* One block's payload, as encoder, writer, reader and decoder hand it on. */
struct log_block {
	enum log_type type;
	bool more;			/* LOG_MORE */
	const uint8_t *raw;		/* borrowed; at most LOG_RAW_MOST */
	size_t len;
	uint64_t first_ms, last_ms;	/* since tracing began */
	uint64_t events;		/* of the ledger, in it */
};

/* ---- numbers ------------------------------------------------------------------------------------------------------------------------ */

#define LOG_NUMBER_MOST 10u		/* bytes of a LEB128 number */

static inline uint64_t log_zigzag(int64_t v) { return (uint64_t)v << 1 ^ (uint64_t)(v >> 63); }
static inline int64_t log_unzigzag(uint64_t v) { return (int64_t)(v >> 1 ^ -(v & 1)); }

/* Writes V at AT and returns what is behind it. */
static inline uint8_t *log_put(uint8_t *at, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		*at++ = (uint8_t)(v | 0x80);
	*at++ = (uint8_t)v;
	return at;
}

static inline uint8_t *log_put_signed(uint8_t *at, int64_t v)
{
	return log_put(at, log_zigzag(v));
}

/* Reads from AT to END. Where that ends too early, or a number is longer than it may be: `bad`, and zeros from then on. */
struct log_cursor {
	const uint8_t *at, *end;
	bool bad;
};

static inline uint64_t log_get_bad(struct log_cursor *c)
{
	c->bad = true;
	c->at = c->end;
	return 0;
}

static inline uint64_t log_get(struct log_cursor *c)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 64 && c->at < c->end; shift += 7) {
		uint8_t byte = *c->at++;

		if (shift == 63 && byte > 1)
			break;
		v |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return v;
	}
	return log_get_bad(c);
}

static inline int64_t log_get_signed(struct log_cursor *c)
{
	return log_unzigzag(log_get(c));
}

/* N bytes, or NULL. */
static inline const uint8_t *log_get_bytes(struct log_cursor *c, uint64_t n)
{
	const uint8_t *at = c->at;

	if (n > (uint64_t)(c->end - c->at)) {
		log_get_bad(c);
		return NULL;
	}
	c->at += n;
	return at;
}

#endif
