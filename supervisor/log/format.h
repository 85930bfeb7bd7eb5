/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * format.h - what STATE and EVENTS blocks of a log say (mtrun-log(5)), for event_encode.c and
 * event_decode.c; and numbers. Other blocks: records.h, files: segment.h.
 *
 * Numbers are LEB128: seven bits to a byte, the lowest first, bit 7 set in all but the last; those
 * that may be negative (below: ~) are zigzag: 0, -1, 1, -2 ...
 *
 *	STATE     a checkpoint: all that is needed to begin here. Where it takes several blocks, all
 *	          but the last have SEGMENT_GOES_ON. The first: LEDGER_COUNT_* | LEDGER_SAMPLED, the
 *	          numbers of struct ledger_sums in their order, 1 and interval, bytes, ms of the
 *	          last point or 0: there is none; how many lines follow, in this block and those
 *	          after it. Then lines, each whole in its block: LINE_* flags, ~ stack less the one
 *	          before, ~ live bytes, ~ live count, total bytes, total count, and by flag:
 *	          temporary; ~ bytes, ~ count held at the highest moment of the interval, less the
 *	          live ones; ~ bytes, ~ count at the last point, less the live ones
 *	EVENTS    ms and present interval before these, ms and interval after them, changes since
 *	          the checkpoint that were told before, changes in this block, events in it, bytes
 *	          of codes; codes; and then as they are at the end: LEDGER_COUNT_* | LEDGER_SAMPLED,
 *	          events, unknown frees, bytes reserved, maps, unmaps, bytes counted
 *
 * Codes. A checkpoint begins a new dictionary, in which each of the following codes that says so
 * takes the next number, from 0:
 *
 *	0         ~ ms              it is so much later than what was before
 *	1         shape, stack, what
 *	                            defines what takes the next number and happens at once. Shape 0
 *	                            to 3: that log_kind, of one block of WHAT bytes. 4: any of them,
 *	                            which WHAT tells as bytes * 4 + log_kind, here and behind
 *	                            each use
 *	2         log_kind, stack, ~ bytes, ~ count     happens; takes no number
 *	3 + N     what number N stands for happens
 */
#ifndef MTRUN_LOG_FORMAT_H
#define MTRUN_LOG_FORMAT_H

#include "base/types.h"
#include "ledger/ledger_changes.h"

/* LOG_CODES and up: what was defined */
enum { LOG_CODE_TIME, LOG_CODE_DEFINE, LOG_CODE_WHOLE, LOG_CODES };
#define LOG_CODES_MOST	(1u << 20) /* codes are below this */
#define LOG_SHAPE_OTHER 4u

/* ---- numbers ------------------------------------------------------------- */

#define LEB_MOST 10u /* bytes of a number */

static inline uint64_t leb_zigzag(int64_t v) { return (uint64_t)v << 1 ^ (uint64_t)(v >> 63); }
static inline int64_t leb_unzigzag(uint64_t v) { return (int64_t)(v >> 1 ^ -(v & 1)); }

/* Writes V at AT, where LEB_MOST bytes have room, and returns what is behind it. */
static inline uint8_t *leb_put(uint8_t *at, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		*at++ = (uint8_t)(v | 0x80);
	*at++ = (uint8_t)v;
	return at;
}

static inline uint8_t *leb_put_signed(uint8_t *at, int64_t v) { return leb_put(at, leb_zigzag(v)); }

/*
 * Reads from AT to END. Where that ends too early, or a number has more than 64 bits: `bad`, and
 * zeros from then on.
 */
struct leb {
	const uint8_t *at, *end;
	bool bad;
};

static inline uint64_t leb_bad(struct leb *in)
{
	in->bad = true;
	in->at = in->end;
	return 0;
}

static inline uint64_t leb_get(struct leb *in)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 64 && in->at < in->end; shift += 7) {
		uint8_t byte = *in->at++;

		if (shift == 63 && byte > 1)
			break;
		v |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return v;
	}
	return leb_bad(in);
}

static inline int64_t leb_get_signed(struct leb *in) { return leb_unzigzag(leb_get(in)); }

#endif
