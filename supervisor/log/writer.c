// SPDX-License-Identifier: GPL-3.0-or-later
#include "log/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>

/*
 * The loop's thread makes blocks and must not wait for a disk: it puts them into a queue, a ring of
 * bytes, so that memory stays the same however far the thread is behind. The thread takes them out
 * one by one, packs them, writes them. What both look at is under `lock`, but for what is atomic;
 * the file is the thread's alone.
 *
 * A disk may hang (a server that is gone, a frozen file system), and then everything that waits for
 * the queue does, also the programs. So after HANG_S seconds without an item done that is an error
 * like others, and nothing is put into the queue any more. If the disk comes back, the thread
 * writes what is in the queue; the next file may be begun then.
 *
 * A file that somebody deletes goes on existing for us, and nobody would ever read it: so after
 * each block its number of names is asked for.
 */
/* bytes; the largest item is a quarter of that and a little */
#define RING	(4u << 20)
#define ALIGNED 16u
#define HANG_S	10 /* a busy disk takes some seconds for a write now and then */
/* of zstd, for all but events, which are nearly everything: see log_writer_pack() */
#define LEVEL_FACTS 3
#define ENTRY_BYTES 12u /* of a block in the index, about */
#define POINT_BYTES 8u

struct item {
	uint32_t room; /* bytes in the ring, multiples of ALIGNED, */
	/* PAD: ends here, it goes on at the ring's beginning */
	enum { ITEM_PAD, ITEM_BEGIN, ITEM_BLOCK, ITEM_POINT, ITEM_END, ITEM_KEEP, ITEM_QUIT } what;
	struct log_block block; /* its bytes follow the item */
	struct log_point point;
	uint32_t process, number;
	uint64_t began_ms;
	char text[]; /* BEGIN: the path; BLOCK: the bytes */
};

_Static_assert(sizeof(struct item) + SEGMENT_RAW <= RING / 2 &&
		       offsetof(struct item, block) <= ALIGNED,
	       "there is always room for one, and for a pad");

struct kept { /* a file that is there */
	char *path;
	uint64_t bytes;
};

struct log_writer {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t more, less; /* items in the ring; done with */
	uint8_t *ring;
	uint64_t head, tail; /* bytes that were ever put in, and are done with */
	struct kept *kept;   /* oldest first; the last one is the open one, if one is */
	size_t nkept;

	char latest[512]; /* the path of the file that was begun last, or its beginning */
	uint32_t begun;	  /* files, by the main thread, */
	uint64_t put;	  /* and raw bytes into the last one of them */
	uint32_t reached; /* atomic: files that the thread has begun; */
	/* atomic: of its file with the index; raw bytes that are still in the queue */
	uint64_t size, waiting;
	uint64_t raw, packed; /* atomic: of all blocks of events so far */
	bool hangs;	      /* the thread has been at an item for HANG_S seconds, or was */
	bool failed;	      /* atomic */
	char error[512];      /* written under `lock` before `failed` is set, not while it is */

	int level; /* atomic: of events */
	uint64_t clock_ms, set;
	uint32_t keep, number; /* number: of the file that was begun last; 0: none */
	int fd;		       /* -1: none is open */
	uint64_t offset;
	struct log_index index;
	ZSTD_CCtx *zstd;
	size_t room;
	uint8_t *out; /* a block, packed, with its header before it */
};

/* ---- errors -------------------------------------------------------------- */

static const char *path_of(const struct log_writer *w)
{
	return w->nkept ? w->kept[w->nkept - 1].path : "?";
}

/* The first one counts. The caller holds the lock. */
static void set_error(struct log_writer *w, const char *what, const char *path, const char *why)
{
	if (__atomic_load_n(&w->failed, __ATOMIC_ACQUIRE))
		return;
	snprintf(w->error, sizeof(w->error), "cannot %s '%.400s': %s", what, path, why);
	__atomic_store_n(&w->failed, true, __ATOMIC_RELEASE);
}

/* The file stays, up to its last whole block. */
static void fail(struct log_writer *w, const char *what, const char *path, const char *why)
{
	pthread_mutex_lock(&w->lock);
	set_error(w, what, path, why);
	pthread_mutex_unlock(&w->lock);
	if (w->fd >= 0) {
		if (ftruncate(w->fd, (off_t)w->offset) < 0)
			/* then it ends with a piece of a block, which readers know */
			errno = 0;
		close(w->fd);
	}
	w->fd = -1;
	log_index_release(&w->index);
}

/* ---- the file ------------------------------------------------------------ */

/* 0, or -1 (said). */
static int put_bytes(struct log_writer *w, const void *bytes, size_t len)
{
	struct stat st;
	size_t done = 0;

	while (done < len) {
		ssize_t n = write(w->fd, (const char *)bytes + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			fail(w, "write", path_of(w), strerror(n < 0 ? errno : EIO));
			return -1;
		}
		done += (size_t)n;
	}
	if (fstat(w->fd, &st) == 0 && st.st_nlink == 0) {
		fail(w, "write", path_of(w), "it was deleted");
		return -1;
	}
	w->offset += len;
	return 0;
}

static void set_size(struct log_writer *w)
{
	uint64_t index = w->index.entries * ENTRY_BYTES;

	for (size_t i = 0; i < w->index.processes; i++)
		index += w->index.points[i].count * POINT_BYTES;
	__atomic_store_n(&w->size, w->offset + index, __ATOMIC_RELAXED);
}

static int put_block(struct log_writer *w, const struct log_block *b)
{
	struct segment_block head = { .type = (uint16_t)b->type,
				      .flags = (uint16_t)b->flags,
				      .process = b->process,
				      .raw = (uint32_t)b->len };
	struct log_entry entry = { .offset = w->offset,
				   .type = b->type,
				   .flags = b->flags,
				   .process = b->process,
				   .first_ms = b->first_ms,
				   .last_ms = b->last_ms,
				   .events = b->events };
	int level = b->type == SEGMENT_EVENTS ? __atomic_load_n(&w->level, __ATOMIC_RELAXED)
					      : LEVEL_FACTS;
	size_t n = ZSTD_compressCCtx(w->zstd, w->out + sizeof(head), w->room - sizeof(head), b->raw,
				     b->len, level);

	if (ZSTD_isError(n)) {
		fail(w, "pack a block of", path_of(w), strerror(ENOMEM));
		return -1;
	}
	head.packed = (uint32_t)n;
	segment_block_seal(&head, w->out + sizeof(head));
	memcpy(w->out, &head, sizeof(head));
	if (put_bytes(w, w->out, sizeof(head) + n))
		return -1;
	if (b->type == SEGMENT_EVENTS) {
		__atomic_add_fetch(&w->raw, b->len, __ATOMIC_RELAXED);
		__atomic_add_fetch(&w->packed, n, __ATOMIC_RELAXED);
	}
	if (b->type != SEGMENT_INDEX && log_index_entry(&w->index, &entry)) {
		fail(w, "go on with", path_of(w), strerror(ENOMEM));
		return -1;
	}
	set_size(w);
	return 0;
}

static int put_index(struct log_writer *w)
{
	struct log_bytes bytes = { 0 };
	uint64_t offset = w->offset;
	int err = 0;

	log_put_index(&bytes, &w->index);
	if (bytes.failed) {
		fail(w, "write the index of", path_of(w), strerror(ENOMEM));
		err = -1;
	}
	for (size_t at = 0; !err && at < bytes.len; at += SEGMENT_RAW) {
		bool more = bytes.len - at > SEGMENT_RAW;
		struct log_block b = { .type = SEGMENT_INDEX,
				       .flags = more ? SEGMENT_GOES_ON : 0,
				       .raw = bytes.data + at,
				       .len = more ? SEGMENT_RAW : bytes.len - at };

		err = put_block(w, &b);
	}
	if (!err) {
		struct segment_trailer trailer;

		segment_trailer_make(&trailer, offset);
		err = put_bytes(w, &trailer, sizeof(trailer));
	}
	log_bytes_release(&bytes);
	return err;
}

/* ---- the set ------------------------------------------------------------- */

/* At most KEEP files stay. */
static void prune(struct log_writer *w, size_t keep)
{
	for (;;) {
		struct kept old;

		pthread_mutex_lock(&w->lock);
		if (w->nkept <= keep) {
			pthread_mutex_unlock(&w->lock);
			return;
		}
		old = w->kept[0];
		memmove(w->kept, w->kept + 1, --w->nkept * sizeof(*w->kept));
		pthread_mutex_unlock(&w->lock);
		if (unlink(old.path) < 0 && errno != ENOENT)
			fail(w, "delete", old.path, strerror(errno));
		free(old.path);
	}
}

static void told_size(struct log_writer *w)
{
	pthread_mutex_lock(&w->lock);
	if (w->nkept)
		w->kept[w->nkept - 1].bytes = w->offset;
	pthread_mutex_unlock(&w->lock);
}

static void end_file(struct log_writer *w)
{
	if (w->fd < 0)
		return;
	if (put_index(w))
		return;
	if (close(w->fd) < 0) {
		w->fd = -1;
		fail(w, "write", path_of(w), strerror(errno));
	}
	w->fd = -1;
	log_index_release(&w->index);
	told_size(w);
}

static int keep_path(struct log_writer *w, const char *path)
{
	struct kept *more;
	char *copy = strdup(path);

	pthread_mutex_lock(&w->lock);
	more = copy ? reallocarray(w->kept, w->nkept + 1, sizeof(*more)) : NULL;
	if (more) {
		w->kept = more;
		more[w->nkept++] = (struct kept){ .path = copy };
	}
	pthread_mutex_unlock(&w->lock);
	if (more)
		return 0;
	free(copy);
	return -ENOMEM;
}

static bool after_off(const struct log_writer *w, uint32_t number)
{
	return w->number && number > w->number + 1;
}

static void begin_file(struct log_writer *w, const struct item *i)
{
	struct segment_header header = { .version = SEGMENT_VERSION,
					 .set = w->set,
					 .number = i->number,
					 .flags = after_off(w, i->number) ? SEGMENT_AFTER_OFF : 0,
					 .clock_ms = w->clock_ms,
					 .began_ms = i->began_ms };
	int fd;

	w->number = i->number;
	end_file(w);
	__atomic_store_n(&w->size, 0, __ATOMIC_RELAXED);
	__atomic_add_fetch(&w->reached, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&w->failed, false, __ATOMIC_RELEASE);
	prune(w, w->keep - 1); /* there is never one too many */
	fd = open(i->text, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0) {
		fail(w, "create", i->text, strerror(errno));
		return;
	}
	if (keep_path(w, i->text)) {
		close(fd);
		unlink(i->text);
		fail(w, "create", i->text, strerror(ENOMEM));
		return;
	}
	w->fd = fd;
	w->offset = 0;
	segment_header_seal(&header);
	put_bytes(w, &header, sizeof(header));
	set_size(w);
}

/* ---- the thread ---------------------------------------------------------- */

static void do_block(struct log_writer *w, struct item *i)
{
	if (w->fd >= 0) {
		i->block.raw = (const uint8_t *)i->text;
		put_block(w, &i->block);
		told_size(w);
	}
	__atomic_sub_fetch(&w->waiting, i->block.len, __ATOMIC_RELAXED);
}

static void do_item(struct log_writer *w, struct item *i)
{
	switch (i->what) {
	case ITEM_BEGIN: begin_file(w, i); break;
	case ITEM_BLOCK: do_block(w, i); break;
	case ITEM_POINT:
		if (w->fd >= 0 && log_index_point(&w->index, i->process, &i->point))
			fail(w, "go on with", path_of(w), strerror(ENOMEM));
		break;
	case ITEM_KEEP:
		w->keep = i->number;
		prune(w, w->keep);
		break;
	case ITEM_END:
	case ITEM_QUIT: end_file(w); break;
	case ITEM_PAD: break;
	}
}

static void *run(void *ctx)
{
	struct log_writer *w = ctx;
	bool quit = false;

	while (!quit) {
		struct item *i;

		pthread_mutex_lock(&w->lock);
		while (w->head == w->tail)
			pthread_cond_wait(&w->more, &w->lock);
		i = (struct item *)(w->ring + w->tail % RING);
		pthread_mutex_unlock(&w->lock);
		do_item(w, i);
		quit = i->what == ITEM_QUIT;
		pthread_mutex_lock(&w->lock);
		w->tail += i->room;
		pthread_cond_signal(&w->less);
		pthread_mutex_unlock(&w->lock);
	}
	return NULL;
}

/*
 * Until at most USED bytes of the ring are in use, with the lock held; false: the disk hangs. It is
 * the item that the thread is at that counts, however many are before the one that is waited for.
 */
static bool await_room(struct log_writer *w, uint64_t used)
{
	struct timespec end = { 0 };
	uint64_t tail = 0;

	while (!w->hangs && w->head - w->tail > used) {
		if (!end.tv_sec || w->tail != tail) {
			clock_gettime(CLOCK_MONOTONIC, &end);
			end.tv_sec += HANG_S;
			tail = w->tail;
		}
		if (pthread_cond_timedwait(&w->less, &w->lock, &end) == ETIMEDOUT)
			w->hangs = w->tail == tail;
	}
	if (w->hangs)
		set_error(w, "write", w->latest, "the disk does not answer");
	return !w->hangs;
}

/* ROOM bytes of the ring, once they are free; NULL: the disk hangs. */
static struct item *reserve(struct log_writer *w, size_t room)
{
	bool there;

	pthread_mutex_lock(&w->lock);
	there = await_room(w, RING - room);
	pthread_mutex_unlock(&w->lock);
	return there ? (struct item *)(w->ring + w->head % RING) : NULL;
}

static void enqueue(struct log_writer *w, const struct item *i)
{
	pthread_mutex_lock(&w->lock);
	w->head += i->room;
	pthread_cond_signal(&w->more);
	pthread_mutex_unlock(&w->lock);
}

/*
 * A new item with MORE bytes behind it, in one piece; enqueue() is to follow. NULL: the disk hangs.
 */
static struct item *item_new(struct log_writer *w, int what, size_t more)
{
	size_t room = (sizeof(struct item) + more + ALIGNED - 1) / ALIGNED * ALIGNED,
	       left = RING - w->head % RING;
	struct item *i;

	if (left < room) {
		i = reserve(w, left);
		if (!i)
			return NULL;
		i->room = (uint32_t)left;
		i->what = ITEM_PAD;
		enqueue(w, i);
	}
	i = reserve(w, room);
	if (i)
		*i = (struct item){ .room = (uint32_t)room, .what = (typeof(i->what))what };
	return i;
}

static void enqueue_number(struct log_writer *w, int what, uint32_t number)
{
	struct item *i = item_new(w, what, 0);

	if (!i)
		return;
	i->number = number;
	enqueue(w, i);
}

/* ---- from outside -------------------------------------------------------- */

struct log_writer *log_writer_new(uint64_t clock_ms, uint32_t keep)
{
	struct log_writer *w = calloc(1, sizeof(*w));
	pthread_condattr_t monotonic;
	sigset_t all, was;
	int err = ENOMEM;

	if (!w)
		return NULL;
	w->clock_ms = clock_ms;
	w->level = LOG_PACK_FAST;
	w->keep = keep;
	w->fd = -1;
	w->room = sizeof(struct segment_block) + ZSTD_COMPRESSBOUND(SEGMENT_RAW);
	w->out = malloc(w->room);
	w->zstd = ZSTD_createCCtx();
	w->ring = aligned_alloc(4096, RING);
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->more, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&w->less, &monotonic);
	pthread_condattr_destroy(&monotonic);
	if (getrandom(&w->set, sizeof(w->set), 0) != sizeof(w->set))
		w->set = clock_ms << 20 ^ (uint64_t)getpid();
	if (w->out && w->zstd && w->ring) {
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &was);
		err = pthread_create(&w->thread, NULL, run, w);
		pthread_sigmask(SIG_SETMASK, &was, NULL);
	}
	if (!err)
		return w;
	ZSTD_freeCCtx(w->zstd);
	free(w->ring);
	free(w->out);
	free(w);
	errno = err;
	return NULL;
}

void log_writer_free(struct log_writer *w)
{
	if (!w)
		return;
	enqueue_number(w, ITEM_QUIT, 0);
	log_writer_wait(w);
	if (w->hangs) { /* it is in the middle of a write, with what it needs */
		pthread_detach(w->thread);
		return;
	}
	pthread_join(w->thread, NULL);
	for (size_t i = 0; i < w->nkept; i++)
		free(w->kept[i].path);
	free(w->kept);
	pthread_cond_destroy(&w->less);
	pthread_cond_destroy(&w->more);
	pthread_mutex_destroy(&w->lock);
	ZSTD_freeCCtx(w->zstd);
	free(w->ring);
	free(w->out);
	free(w);
}

void log_writer_begin(struct log_writer *w, const char *dir, uint32_t number, uint64_t began_ms)
{
	size_t room = strlen(dir) + 1 + SEGMENT_NAME;
	bool here = !strcmp(dir, ".");
	const char *slash = here || dir[strlen(dir) - 1] == '/' ? "" : "/";
	char name[SEGMENT_NAME];
	struct item *i;

	segment_name(name, w->clock_ms, w->set, number);
	snprintf(w->latest, sizeof(w->latest), "%s%s%s", here ? "" : dir, slash, name);
	pthread_mutex_lock(&w->lock);
	w->hangs &= w->head != w->tail;
	pthread_mutex_unlock(&w->lock);
	i = item_new(w, ITEM_BEGIN, room);
	if (!i)
		return;
	snprintf(i->text, room, "%s%s%s", here ? "" : dir, slash, name);
	i->number = number;
	i->began_ms = began_ms;
	w->begun++;
	w->put = 0;
	enqueue(w, i);
}

void log_writer_pack(struct log_writer *w, int level)
{
	__atomic_store_n(&w->level, level, __ATOMIC_RELAXED);
}

void log_writer_put(struct log_writer *w, const struct log_block *b)
{
	struct item *i = item_new(w, ITEM_BLOCK, b->len);

	if (!i)
		return;
	i->block = *b;
	if (b->len)
		memcpy(i->text, b->raw, b->len);
	__atomic_add_fetch(&w->waiting, b->len, __ATOMIC_RELAXED);
	w->put += b->len;
	enqueue(w, i);
}

void log_writer_point(struct log_writer *w, uint32_t process, const struct log_point *point)
{
	struct item *i = item_new(w, ITEM_POINT, 0);

	if (!i)
		return;
	i->process = process;
	i->point = *point;
	enqueue(w, i);
}

void log_writer_end(struct log_writer *w) { enqueue_number(w, ITEM_END, 0); }
void log_writer_keep(struct log_writer *w, uint32_t keep) { enqueue_number(w, ITEM_KEEP, keep); }

void log_writer_wait(struct log_writer *w)
{
	pthread_mutex_lock(&w->lock);
	await_room(w, 0);
	pthread_mutex_unlock(&w->lock);
}

uint64_t log_writer_size(const struct log_writer *w)
{
	uint64_t raw = __atomic_load_n(&w->raw, __ATOMIC_RELAXED),
		 packed = __atomic_load_n(&w->packed, __ATOMIC_RELAXED);
	bool reached = __atomic_load_n(&w->reached, __ATOMIC_ACQUIRE) == w->begun;
	uint64_t size = reached ? __atomic_load_n(&w->size, __ATOMIC_RELAXED) : 0;
	uint64_t waiting = reached ? __atomic_load_n(&w->waiting, __ATOMIC_RELAXED) : w->put;

	return size + (raw ? (uint64_t)((double)waiting * (double)packed / (double)raw) : waiting);
}

const char *log_writer_error(const struct log_writer *w)
{
	return __atomic_load_n(&w->failed, __ATOMIC_ACQUIRE) ? w->error : NULL;
}

void log_writer_files(struct log_writer *w, void (*fn)(void *ctx, const char *path, uint64_t bytes),
		      void *ctx)
{
	pthread_mutex_lock(&w->lock);
	for (size_t i = 0; i < w->nkept; i++)
		fn(ctx, w->kept[i].path, w->kept[i].bytes);
	pthread_mutex_unlock(&w->lock);
}
