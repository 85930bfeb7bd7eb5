/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * reader.h - one file of a log: its blocks, checked and unpacked, by its index or by walking over
 * them. Nothing in it is trusted. What blocks say is replay_open.c's business.
 *
 * A file may be written to, cut or deleted meanwhile: it is never mapped, and what cannot be read
 * any more is an error of that read.
 */
#ifndef MTRUN_LOG_READER_H
#define MTRUN_LOG_READER_H

#include "log/records.h"
#include "log/segment.h"

struct log_file {
	char *path;
	int fd;
	uint64_t size;
	uid_t owner;
	struct segment_header header;
	struct log_index index; /* its blocks; points only if `indexed` */
	bool indexed;
	uint64_t whole; /* bytes: up to there it can be read */
};

/*
 * 0, or -EINVAL and what is wrong with it in WHY (one line, without the path); also if it cannot be
 * read. INDEX is still empty.
 */
int log_file_open(struct log_file *f, const char *path, char *why, size_t len) MUST_USE;
void log_file_close(struct log_file *f);

/* What unpacking needs: one for each thread. */
struct log_unpacked {
	struct ZSTD_DCtx_s *context;
	uint8_t *packed;
	uint8_t *raw; /* the block read last: */
	size_t len;
	unsigned type, flags;
	uint32_t process;
};
int log_unpacked_init(struct log_unpacked *u) MUST_USE; /* 0 or -ENOMEM */
void log_unpacked_release(struct log_unpacked *u);

/* The index at the file's end. 0; -EINVAL: there is none, or it is not whole. -ENOMEM. */
int log_file_load(struct log_file *f, struct log_unpacked *u) MUST_USE;
/*
 * Without an index: FN is called for each block, in order, U being its contents and ENTRY what the
 * block's header says; it may add times to it, and it goes into the index. It ends before the first
 * block that is not whole, or that FN refuses (-EINVAL): `whole` is there. 0, or another error of
 * FN's, or -ENOMEM.
 */
int log_file_walk(struct log_file *f, struct log_unpacked *u,
		  int (*fn)(void *ctx, struct log_entry *entry), void *ctx) MUST_USE;

/* Block number I of the index into U. 0, -EINVAL: it is not whole, or not what the index says. */
int log_file_read(const struct log_file *f, size_t i, struct log_unpacked *u) MUST_USE;
/*
 * Appends to OUT what block I and those that go on with it hold, at most MOST bytes. 0, -EINVAL
 * (also if that is too much), -ENOMEM. What comes last of it stays in U.
 */
int log_file_gather(const struct log_file *f, size_t i, size_t most, struct log_unpacked *u,
		    struct log_bytes *out) MUST_USE;

#endif
