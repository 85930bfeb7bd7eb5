// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Log files as the writer leaves them, taken apart here by the offsets of mtrun-log(5) and by
 * libzstd and libxxhash themselves; which of them stay; what happens to one that cannot be written.
 */
#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include "log/writer.h"

static char dir[] = "/tmp/test_writer.XXXXXX";
static char path[8][512];
static size_t paths;

static void note(void *ctx, const char *p, uint64_t bytes)
{
	(void)ctx;
	(void)bytes;
	if (paths < 8)
		snprintf(path[paths++], sizeof(*path), "%s", p);
}

static void list(struct log_writer *w)
{
	paths = 0;
	log_writer_files(w, note, NULL);
}

static size_t in_directory(void)
{
	DIR *d = opendir(dir);
	size_t n = 0;

	for (struct dirent *e; d && (e = readdir(d));)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

static void remove_all(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	CHECK(system(command) == 0);
}

static uint8_t *slurp(const char *name, size_t *size)
{
	FILE *f = fopen(name, "r");
	uint8_t *bytes = malloc(8 << 20);

	*size = f ? fread(bytes, 1, 8 << 20, f) : 0;
	if (f)
		fclose(f);
	return bytes;
}

static uint64_t u64(const uint8_t *at)
{
	uint64_t v;
	memcpy(&v, at, 8);
	return v;
}
static uint32_t u32(const uint8_t *at)
{
	uint32_t v;
	memcpy(&v, at, 4);
	return v;
}
static uint16_t u16(const uint8_t *at)
{
	uint16_t v;
	memcpy(&v, at, 2);
	return v;
}

/* Unpacks the block at AT of FILE into RAW; its length with the header, 0: it is none. */
static size_t take_block(const uint8_t *at, uint8_t *raw)
{
	size_t packed = u32(at + 12), len = u32(at + 16);
	uint8_t *both;
	uint64_t check;

	if (memcmp(at, "MTLB", 4))
		return 0;
	both = malloc(24 + packed);
	memcpy(both, at, 24);
	memcpy(both + 24, at + 32, packed);
	check = XXH64(both, 24 + packed, 0);
	free(both);
	CHECK(check == u64(at + 24) && len <= 1 << 20);
	CHECK(ZSTD_getFrameContentSize(at + 32, packed) == len &&
	      ZSTD_decompress(raw, 1 << 20, at + 32, packed) == len);
	return 32 + packed;
}

static void test_file(void)
{
	struct log_writer *w = log_writer_new(1000, 2);
	struct log_block b = {
		.type = SEGMENT_EVENTS, .process = 7, .first_ms = 3, .last_ms = 9, .events = 5
	};
	static uint8_t raw[1 << 20], back[1 << 20];
	struct log_input in;
	struct log_index index = { 0 };
	size_t size, at = 64, n, len[3] = { 1 << 20, 0, 5 };
	uint8_t *file;
	struct stat st;

	for (size_t i = 0; i < sizeof(raw); i++)
		raw[i] = (uint8_t)(i * i >> 7);
	CHECK(w != NULL);
	log_writer_begin(w, dir, 1, 42);
	for (int i = 0; i < 3; i++) {
		b.raw = raw;
		b.len = len[i];
		log_writer_put(w, &b);
	}
	log_writer_point(w, 7, &(struct log_point){ 1, 100, 110 });
	log_writer_point(w, 7, &(struct log_point){ 4, 50, 420 });
	log_writer_end(w);
	log_writer_wait(w);
	CHECK(!log_writer_error(w));
	list(w);
	CHECK(paths == 1 && stat(path[0], &st) == 0 && (st.st_mode & 07777) == 0600);
	file = slurp(path[0], &size);
	CHECK(!memcmp(file, "mtrunlog", 8) && u32(file + 8) == 1 && u32(file + 24) == 1 &&
	      u64(file + 32) == 1000 && u64(file + 40) == 42);
	CHECK(u64(file + 56) == XXH64(file, 56, 0));
	for (int i = 0; i < 3; i++) {
		n = take_block(file + at, back);
		CHECK(n && u16(file + at + 4) == SEGMENT_EVENTS && u16(file + at + 6) == 0 &&
		      u32(file + at + 8) == 7 && u32(file + at + 16) == len[i]);
		CHECK(!memcmp(raw, back, len[i]));
		at += n;
	}
	CHECK(u64(file + size - 24) == at &&
	      u64(file + size - 16) == XXH64(file + size - 24, 8, 0) &&
	      !memcmp(file + size - 8, "mtrunend", 8));
	n = take_block(file + at, back);
	CHECK(n && u16(file + at + 4) == SEGMENT_INDEX && at + n + 24 == size);
	in = (struct log_input){ .at = back, .end = back + u32(file + at + 16) };
	CHECK(log_take_index(&in, &index) == 0 && index.entries == 3 && index.processes == 1);
	CHECK(index.entry[0].offset == 64 && index.entry[2].process == 7 &&
	      index.entry[2].first_ms == 3 && index.entry[2].last_ms == 9 &&
	      index.entry[2].events == 5);
	CHECK(index.points[0].count == 2 && index.points[0].point[1].bytes == 50);
	log_index_release(&index);
	free(file);
	log_writer_free(w);
}

/*
 * KEEP of them with the one being written, the oldest goes first; other people's files are not
 * touched.
 */
static void test_keep(void)
{
	struct log_writer *w = log_writer_new(1000, 3), *other = log_writer_new(1000, 1);
	char last[512];
	size_t before = in_directory();

	log_writer_begin(other, dir, 1, 0);
	log_writer_wait(other);
	for (uint32_t i = 1; i <= 6; i++) {
		log_writer_begin(w, dir, i, i);
		log_writer_wait(w);
		list(w);
		CHECK(paths == (i < 3 ? i : 3) && in_directory() == before + 1 + paths);
	}
	CHECK(strstr(path[0], "-4.mtlog") && strstr(path[2], "-6.mtlog"));
	snprintf(last, sizeof(last), "%s", path[2]);
	log_writer_keep(w, 2);
	log_writer_wait(w);
	list(w);
	CHECK(paths == 2 && strstr(path[0], "-5.mtlog"));
	log_writer_keep(w, 1);
	log_writer_wait(w);
	list(w);
	CHECK(paths == 1 && !strcmp(path[0], last));
	log_writer_end(w);
	log_writer_wait(w);
	list(w);
	CHECK(paths == 1 && !strcmp(path[0], last) && in_directory() == before + 2);
	log_writer_free(w);
	log_writer_free(other);
	CHECK(in_directory() == before + 2);
}

/* Nothing is written over, nothing waits for ever, and the next file is as good as any. */
static void test_errors(void)
{
	struct log_writer *w = log_writer_new(1000, 10);
	struct rlimit was, small;
	struct log_block b = { .type = SEGMENT_EVENTS };
	static uint8_t raw[1 << 20];
	struct stat st;

	for (size_t i = 0; i < sizeof(raw); i++)
		raw[i] = (uint8_t)(rand() >> 8);
	b.raw = raw;
	b.len = sizeof(raw);
	log_writer_begin(w, "/nonexistent", 1, 0);
	for (int i = 0; i < 40; i++)
		log_writer_put(w, &b);
	log_writer_wait(w);
	CHECK(log_writer_error(w) &&
	      strstr(log_writer_error(w), "cannot create '/nonexistent/memlog") &&
	      strstr(log_writer_error(w), "No such file"));
	log_writer_begin(w, dir, 2, 0);
	log_writer_wait(w);
	CHECK(!log_writer_error(w));
	log_writer_begin(w, dir, 2, 0); /* there already */
	log_writer_wait(w);
	CHECK(log_writer_error(w) && strstr(log_writer_error(w), "File exists"));

	log_writer_begin(w, dir, 3, 0);
	log_writer_wait(w);
	list(w);
	CHECK(unlink(path[paths - 1]) == 0);
	log_writer_put(w, &b);
	log_writer_wait(w);
	CHECK(log_writer_error(w) && strstr(log_writer_error(w), "it was deleted"));

	getrlimit(RLIMIT_FSIZE, &was); /* as where the disk is full */
	small = (struct rlimit){ 5 << 19, was.rlim_max };
	signal(SIGXFSZ, SIG_IGN);
	log_writer_begin(w, dir, 4, 0);
	CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
	for (int i = 0; i < 40; i++)
		log_writer_put(w, &b);
	log_writer_wait(w);
	CHECK(log_writer_error(w) && strstr(log_writer_error(w), "cannot write '") &&
	      strstr(log_writer_error(w), "File too large"));
	list(w);
	/* two whole blocks */
	CHECK(stat(path[paths - 1], &st) == 0 && st.st_size > 2 << 20 && st.st_size < 5 << 19);
	setrlimit(RLIMIT_FSIZE, &was);
	log_writer_begin(w, dir, 6, 0);
	log_writer_put(w, &b);
	log_writer_end(w);
	log_writer_wait(w);
	CHECK(!log_writer_error(w) && log_writer_size(w) > 1 << 20);
	log_writer_free(w);
}

static void test_names(void)
{
	char name[SEGMENT_NAME];

	setenv("TZ", "UTC", 1);
	segment_name(name, UINT64_C(1795190400000), 0xabc, 12);
	CHECK_STR(name, "memlog20261120_00000abc-12.mtlog");
	CHECK(segment_is_name(name) && segment_is_name("memlog1_a-1.mtlog"));
	CHECK(!segment_is_name("memlog20261120_1-2.mtlog~") &&
	      !segment_is_name("memlog_1-2.mtlog") && !segment_is_name("memlog1_-2.mtlog") &&
	      !segment_is_name(""));
}

int main(void)
{
	CHECK(mkdtemp(dir) != NULL);
	RUN(test_file);
	RUN(test_keep);
	RUN(test_errors);
	RUN(test_names);
	remove_all();
	return test_status();
}
