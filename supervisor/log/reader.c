// SPDX-License-Identifier: GPL-3.0-or-later
#include "log/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

/*
 * Reading a log's file. A block is read with one pread(2) where the index says how long it is, else
 * with two: its header, then the rest.
 */
#define PACKED_MOST (sizeof(struct segment_block) + ZSTD_COMPRESSBOUND(SEGMENT_RAW))
#define INDEX_MOST  (256u << 20)

static int PRINTF(3, 4) wrong(char *why, size_t len, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, len, format, args);
	va_end(args);
	return -EINVAL;
}

int log_file_open(struct log_file *f, const char *path, char *why, size_t len)
{
	struct stat st;
	ssize_t n;

	*f = (struct log_file){ .fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) };
	if (f->fd < 0)
		return wrong(why, len, "%s", strerror(errno));
	f->path = strdup(path);
	if (!f->path || fstat(f->fd, &st) < 0)
		n = wrong(why, len, "%s", strerror(errno));
	else if (!S_ISREG(st.st_mode))
		n = wrong(why, len, "it is not a regular file");
	else if ((n = pread(f->fd, &f->header, sizeof(f->header), 0)) < 0)
		n = wrong(why, len, "%s", strerror(errno));
	else if ((size_t)n < sizeof(f->header) &&
		 (n < 8 || !memcmp(f->header.magic, SEGMENT_MAGIC, 8)))
		n = wrong(why, len, "it is cut off before its first block");
	else if (memcmp(f->header.magic, SEGMENT_MAGIC, sizeof(f->header.magic)))
		n = wrong(why, len, "it is not a log");
	else if (!segment_header_whole(&f->header) || f->header.began_ms > SEGMENT_MS_MOST)
		n = wrong(why, len, "it is damaged: its header is not whole");
	else if (f->header.version != SEGMENT_VERSION)
		n = wrong(why, len, "its format is version %u, this mtrun knows %u",
			  f->header.version, SEGMENT_VERSION);
	else
		n = 0;
	if (n) {
		log_file_close(f);
		return (int)n;
	}
	f->size = (uint64_t)st.st_size;
	f->owner = st.st_uid;
	f->whole = sizeof(f->header);
	return 0;
}

void log_file_close(struct log_file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	free(f->path);
	log_index_release(&f->index);
	*f = (struct log_file){ .fd = -1 };
}

int log_unpacked_init(struct log_unpacked *u)
{
	*u = (struct log_unpacked){ .context = ZSTD_createDCtx(),
				    .packed = malloc(PACKED_MOST),
				    .raw = malloc(SEGMENT_RAW) };
	if (u->context && u->packed && u->raw)
		return 0;
	log_unpacked_release(u);
	return -ENOMEM;
}

void log_unpacked_release(struct log_unpacked *u)
{
	ZSTD_freeDCtx(u->context);
	free(u->packed);
	free(u->raw);
	*u = (struct log_unpacked){ 0 };
}

/* What is at OFFSET becomes the first WANT bytes of U->packed, HAVE of which are there already. */
static bool read_packed(const struct log_file *f, uint64_t offset, struct log_unpacked *u,
			size_t have, size_t want)
{
	while (have < want) {
		ssize_t n = pread(f->fd, u->packed + have, want - have, (off_t)(offset + have));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		have += (size_t)n;
	}
	return true;
}

/*
 * The block that begins at OFFSET and is not longer than MOST; GUESS bytes of it are read at once.
 * *SIZE: its own.
 */
static int read_block(const struct log_file *f, uint64_t offset, uint64_t guess, uint64_t most,
		      struct log_unpacked *u, uint64_t *size)
{
	struct segment_block b;

	if (guess < sizeof(b) || guess > PACKED_MOST || guess > most ||
	    !read_packed(f, offset, u, 0, guess))
		return -EINVAL;
	memcpy(&b, u->packed, sizeof(b));
	if (!segment_block_plausible(&b) || sizeof(b) + b.packed > most ||
	    !read_packed(f, offset, u, guess, sizeof(b) + b.packed) ||
	    !segment_block_whole(&b, u->packed + sizeof(b)))
		return -EINVAL;
	if (ZSTD_decompressDCtx(u->context, u->raw, SEGMENT_RAW, u->packed + sizeof(b), b.packed) !=
	    b.raw)
		return -EINVAL;
	u->len = b.raw;
	u->type = b.type;
	u->flags = b.flags;
	u->process = b.process;
	*size = sizeof(b) + b.packed;
	return 0;
}

/* Appends what was unpacked. */
static int append(struct log_bytes *out, const struct log_unpacked *u, size_t most)
{
	if (out->len + u->len > most)
		return -EINVAL;
	log_put_bytes(out, u->raw, u->len);
	return out->failed ? -ENOMEM : 0;
}

int log_file_load(struct log_file *f, struct log_unpacked *u)
{
	struct segment_trailer t;
	struct log_bytes bytes = { 0 };
	struct log_input in;
	uint64_t at, size, end = f->size - sizeof(t);
	int err = 0;

	if (f->size < sizeof(f->header) + sizeof(t) ||
	    pread(f->fd, &t, sizeof(t), (off_t)end) != sizeof(t) || !segment_trailer_whole(&t) ||
	    t.index < sizeof(f->header) || t.index >= end)
		return -EINVAL;
	u->flags = SEGMENT_GOES_ON;
	for (at = t.index; !err && u->flags & SEGMENT_GOES_ON; at += size) {
		err = read_block(f, at, sizeof(struct segment_block), end - at, u, &size);
		if (!err)
			err = u->type == SEGMENT_INDEX ? append(&bytes, u, INDEX_MOST) : -EINVAL;
	}
	in = (struct log_input){ .at = bytes.data, .end = bytes.data + bytes.len };
	if (!err)
		err = at == end ? log_take_index(&in, &f->index) : -EINVAL;
	log_bytes_release(&bytes);
	if (err)
		return err;
	f->indexed = true;
	f->whole = t.index;
	return 0;
}

int log_file_walk(struct log_file *f, struct log_unpacked *u,
		  int (*fn)(void *ctx, struct log_entry *entry), void *ctx)
{
	uint64_t size;
	int err = 0;

	while (!err && read_block(f, f->whole, sizeof(struct segment_block), f->size - f->whole, u,
				  &size) == 0) {
		struct log_entry entry = { .offset = f->whole,
					   .type = u->type,
					   .flags = u->flags,
					   .process = u->process };

		if (u->type == SEGMENT_INDEX)
			break;
		err = fn(ctx, &entry);
		if (!err)
			err = log_index_entry(&f->index, &entry);
		if (!err)
			f->whole += size;
	}
	return err == -EINVAL ? 0 : err;
}

int log_file_read(const struct log_file *f, size_t i, struct log_unpacked *u)
{
	const struct log_entry *e = &f->index.entry[i];
	uint64_t end = i + 1 < f->index.entries ? e[1].offset : f->whole, size;

	if (e->offset >= end ||
	    read_block(f, e->offset, end - e->offset, end - e->offset, u, &size) ||
	    size != end - e->offset)
		return -EINVAL;
	return u->type == e->type && u->process == e->process && u->flags == e->flags ? 0 : -EINVAL;
}

int log_file_gather(const struct log_file *f, size_t i, size_t most, struct log_unpacked *u,
		    struct log_bytes *out)
{
	const struct log_entry *first = &f->index.entry[i];
	int err = 0;

	for (u->flags = SEGMENT_GOES_ON; !err && u->flags & SEGMENT_GOES_ON; i++) {
		while (i < f->index.entries && (f->index.entry[i].process != first->process ||
						f->index.entry[i].type != first->type))
			i++;
		err = i < f->index.entries ? log_file_read(f, i, u) : -EINVAL;
		if (!err)
			err = append(out, u, most);
	}
	return err;
}
