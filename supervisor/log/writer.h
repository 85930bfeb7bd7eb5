/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * writer.h - the files of one set, written by a thread of its own: packing, checks, index, the
 * oldest deleted. It knows nothing of what is in the blocks.
 *
 * All calls only put something into the thread's queue, in order, and wait where that is full: then
 * the disk is slower than the program. One that hangs is an error after 10 s. After an error the
 * file is left as it is, whole up to its last block, and everything is dropped until the next
 * log_writer_begin(). Not for several threads at once.
 */
#ifndef MTRUN_LOG_WRITER_H
#define MTRUN_LOG_WRITER_H

#include "log/records.h"
#include "log/segment.h"

struct log_writer;

/* CLOCK_MS: when tracing began, since 1970. KEEP: as of log_writer_keep(). NULL: errno says why. */
struct log_writer *log_writer_new(uint64_t clock_ms, uint32_t keep) MUST_USE;
/* A file that is open is brought to its end. */
void log_writer_free(struct log_writer *w);

/*
 * File NUMBER in DIR, a new one with mode 0600, is begun; BEGAN_MS: since tracing began. One that
 * is open is brought to its end before. Where a number was left out the log was off, and the file
 * says so.
 */
void log_writer_begin(struct log_writer *w, const char *dir, uint32_t number, uint64_t began_ms);
/* How hard blocks of events are packed from now on: compression levels of zstd. */
#define LOG_PACK_FAST  (-1)
#define LOG_PACK_SMALL 1
void log_writer_pack(struct log_writer *w, int level);
/* Into the file; what B points to is copied. */
void log_writer_put(struct log_writer *w, const struct log_block *b);
/* A point of PROCESS' timeline, for the index. */
void log_writer_point(struct log_writer *w, uint32_t process, const struct log_point *point);
/* The file, if one is open, is brought to its end: index, trailer. */
void log_writer_end(struct log_writer *w);
/*
 * There are at most so many files of the set, KEEP > 0, the one that is being written included; the
 * oldest are deleted.
 */
void log_writer_keep(struct log_writer *w, uint32_t keep);
/* Until all the above is done. */
void log_writer_wait(struct log_writer *w);

/* About how large the file is with all that was put, and its index. Cheap. */
uint64_t log_writer_size(const struct log_writer *w);
/*
 * What went wrong since the last log_writer_begin(), in a line that quotes the file; NULL: nothing.
 * Cheap.
 */
const char *log_writer_error(const struct log_writer *w);
/*
 * The names of the files that are there, in order; the last is being written, if one is. Calls FN
 * for each.
 */
void log_writer_files(struct log_writer *w, void (*fn)(void *ctx, const char *path, uint64_t bytes),
		      void *ctx);

#endif
