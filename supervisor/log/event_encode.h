/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * event_encode.h - a ledger's changes as blocks of a log (format.h): STATE and EVENTS. No I/O, no
 * clock, no thread: finished blocks go to a sink. One encoder for one ledger, which it belongs to
 * as long as it lives: free it first. Memory: LOG_ENCODER_BLOCK bytes, and 64 bytes for each
 * stack's total.
 */
#ifndef MTRUN_EVENT_ENCODE_H
#define MTRUN_EVENT_ENCODE_H

#include "log/format.h"
#include "log/segment.h"

struct ledger;
struct log_encoder;

/* bytes: a block is handed over when it has grown to this, or to what log_encoder_block() says */
#define LOG_ENCODER_BLOCK (256u << 10)
#define LOG_ENCODER_LEAST (2u << 10)
/*
 * changes between two checkpoints, at least; or LOG_ENCODER_LINES for each stack total, if that is
 * more
 */
#define LOG_ENCODER_EVENTS (4u << 20)
#define LOG_ENCODER_LINES  64u

/*
 * What is called may come within any event of the ledger, so it may not ask the ledger, nor call
 * the encoder. NODE: STACK is in the next block, for the first time since the file began (after
 * that only when memory is short): it is to be written before that block. BLOCK: borrowed for the
 * call; its process is 0, for the sink to fill in. A STATE may be many in a row. POINT (may be
 * NULL): the timeline has got another point, complete and final. Ascending; a file's first is the
 * one that was the last before it.
 */
struct log_sink {
	void *ctx;
	void (*node)(void *ctx, uint32_t stack);
	void (*block)(void *ctx, const struct log_block *b);
	void (*point)(void *ctx, uint64_t interval, uint64_t bytes, uint64_t ms);
};

/*
 * From now on L is logged to SINK, which is copied. The first block is a STATE; it comes with the
 * first event, or when one of the calls below is made. A forked child that shares its parent's
 * table still (ledger_fork) goes on to do so, with nothing written, until its first event or
 * log_encoder_checkpoint(). NULL: out of memory.
 */
struct log_encoder *log_encoder_new(struct ledger *l, const struct log_sink *sink) MUST_USE;
/* From the next block on; BYTES from LOG_ENCODER_LEAST to LOG_ENCODER_BLOCK. */
void log_encoder_block(struct log_encoder *e, uint32_t bytes);
/* L is logged no more. What was not flushed is dropped. */
void log_encoder_free(struct log_encoder *e);

/* These only between events. Hands over what there is; then all that L knows is in the blocks. */
void log_encoder_flush(struct log_encoder *e);
/*
 * log_encoder_flush(), and a STATE behind it. Otherwise states come by themselves, when
 * LOG_ENCODER_EVENTS says so.
 */
void log_encoder_checkpoint(struct log_encoder *e);
/*
 * After log_encoder_flush(), which was the last for the old file: all nodes and points are new, and
 * a STATE comes (not from a child that shares).
 */
void log_encoder_new_file(struct log_encoder *e);

size_t log_encoder_memory(const struct log_encoder *e);

#endif
