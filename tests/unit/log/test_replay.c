// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Log files against the ledger that they were written from: two processes with random events, in
 * one file and in several, whole, cut and damaged. What is asked of the log must be what the ledger
 * itself says.
 */
#include "ledger/ledger.h"
#include "ledger/timeline.h"
#include "log/event_encode.h"
#include "log/replay.h"
#include "log/writer.h"
#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t seed = 88172645463325252ull;
static uint64_t rnd(void) { return test_random(&seed); }

#define BOTH (LEDGER_COUNT_HEAP | LEDGER_COUNT_MMAP)

/* ---- a recorder, as small as can be -------------------------------------- */

#define BLOCKS 1000
#define NODES  30000u

struct recorded {
	struct ledger *ledger;
	struct log_encoder *encoder;
	struct log_writer *writer;
	uint32_t number, thread;
	bool told[NODES]; /* in this file */
	raddr_t block[BLOCKS];
};

static char dir[64];
static uint32_t nodes = 300;

static void put(struct recorded *r, unsigned type, const struct log_bytes *b)
{
	log_writer_put(r->writer,
		       &(struct log_block){
			       .type = type, .process = r->number, .raw = b->data, .len = b->len });
}

/* Node N is called by node N / 2. */
static void tell(struct recorded *r, struct log_bytes *b, uint32_t n)
{
	if (!n || r->told[n])
		return;
	tell(r, b, n / 2);
	r->told[n] = true;
	log_put_node(b, &(struct log_node){ n, n / 2, 0x400000 + n });
}

static void node(void *ctx, uint32_t stack)
{
	struct recorded *r = ctx;
	struct log_bytes b = { 0 };

	tell(r, &b, stack);
	if (b.len)
		put(r, SEGMENT_NODES, &b);
	log_bytes_release(&b);
}

static void block(void *ctx, const struct log_block *b)
{
	struct recorded *r = ctx;
	struct log_block out = *b;

	out.process = r->number;
	log_writer_put(r->writer, &out);
}

static void point(void *ctx, uint64_t interval, uint64_t bytes, uint64_t ms)
{
	struct recorded *r = ctx;

	log_writer_point(r->writer, r->number, &(struct log_point){ interval, bytes, ms });
}

static void put_facts(struct recorded *r, uint64_t ended_ms)
{
	struct log_process facts = { .pid = 100 + (pid_t)r->number,
				     .ppid = 1,
				     .state = ended_ms ? 3 : 0,
				     .ended_ms = ended_ms,
				     .command = "victim" };
	struct log_bytes b = { 0 };

	log_put_process(&b, &facts);
	put(r, SEGMENT_PROCESS, &b);
	log_bytes_release(&b);
}

static void begin(struct recorded *r, struct log_writer *w, uint32_t number)
{
	const struct log_sink sink = { r, node, block, point };

	*r = (struct recorded){ .ledger = ledger_new(BOTH), .writer = w, .number = number };
	r->thread = ledger_thread(r->ledger, 1);
	r->encoder = log_encoder_new(r->ledger, &sink);
	put_facts(r, 0);
}

static void act(struct recorded *r, uint64_t ms)
{
	size_t i = rnd() % BLOCKS;

	if (r->block[i]) {
		ledger_release(r->ledger, r->thread, ms, r->block[i], false);
		r->block[i] = 0;
		return;
	}
	r->block[i] = 0x10000 + i * 0x10000;
	ledger_alloc(r->ledger, r->thread, ms, r->block[i], rnd() % 5000,
		     1 + (uint32_t)(rnd() % (nodes - 1)));
}

static void new_file(struct recorded *r)
{
	memset(r->told, 0, sizeof(r->told));
	put_facts(r, 0);
	log_encoder_new_file(r->encoder);
}

/*
 * Writes FILES files of two processes, EVENTS events in all; time goes in steps, now and then in
 * large ones. Returns when it ended.
 */
static uint64_t record(struct recorded r[2], unsigned files, unsigned events)
{
	struct log_writer *w = log_writer_new(1700000000000ull, 100);
	uint64_t ms = 3;

	CHECK(w);
	log_writer_begin(w, dir, 1, 0);
	begin(&r[0], w, 1);
	begin(&r[1], w, 2);
	for (unsigned i = 0; i < events; i++) {
		if (i && i % (events / files) == 0 && i / (events / files) < files) {
			for (int j = 0; j < 2; j++)
				log_encoder_flush(r[j].encoder);
			log_writer_begin(w, dir, i / (events / files) + 1, ms);
			for (int j = 0; j < 2; j++)
				new_file(&r[j]);
		}
		if (i % 5000 == 4999)
			log_encoder_checkpoint(r[0].encoder);
		ms += rnd() % 50 == 0 ? rnd() % 30 : 0;
		ms += rnd() % 2000 == 0 ? rnd() % 3000 : 0;
		act(&r[rnd() % 4 == 0], ms);
	}
	for (int j = 0; j < 2; j++) {
		log_encoder_flush(r[j].encoder);
		put_facts(&r[j], ms);
	}
	log_writer_end(w);
	log_writer_wait(w);
	CHECK(!log_writer_error(w));
	for (int j = 0; j < 2; j++) {
		log_encoder_free(r[j].encoder);
		r[j].encoder = NULL;
	}
	log_writer_free(w);
	return ms;
}

/* ---- comparing ----------------------------------------------------------- */

static unsigned troubles, files_done;
static void trouble(void *ctx, const char *text)
{
	(void)ctx;
	(void)text;
	troubles++;
}
static void file_done(void *ctx, const char *path)
{
	(void)ctx;
	(void)path;
	files_done++;
}
static bool progress(void *ctx, uint64_t done, uint64_t all)
{
	(void)ctx;
	return done <= all;
}
static const struct replay_watch watch = {
	.workers = 2, .trouble = trouble, .file = file_done, .progress = progress
};

static struct replay *open_dir(char *why, size_t len)
{
	struct log_sets sets;
	char *path = dir;
	struct replay *r;

	troubles = files_done = 0;
	if (log_sets_find(&sets, &path, 1, trouble, NULL, why, len))
		return NULL;
	r = replay_open(&sets.set[sets.count - 1], &watch, why, len);
	log_sets_release(&sets);
	return r;
}

static int by_stack(const void *a, const void *b)
{
	const struct ledger_held *x = a, *y = b;

	return x->stack < y->stack ? -1 : x->stack > y->stack;
}

static bool same_held(struct ledger *x, struct ledger *y, uint64_t ms)
{
	struct ledger_held *a = NULL, *b = NULL;
	ssize_t n = ledger_past(x, ms, &a), m = ledger_past(y, ms, &b);
	bool same = n == m && n >= 0;

	for (ssize_t i = 0; same && i == 0; i++) {
		qsort(a, (size_t)n, sizeof(*a), by_stack);
		qsort(b, (size_t)n, sizeof(*b), by_stack);
		for (ssize_t j = 0; j < n && same; j++)
			same = a[j].stack == b[j].stack && a[j].bytes == b[j].bytes &&
			       a[j].count == b[j].count;
	}
	free(a);
	free(b);
	return same;
}

/* Whether all intervals from BEGAN on are as LIVE has them; how many are not. */
static unsigned differences(struct ledger *live, struct ledger *told, uint64_t began,
			    uint64_t ended, uint64_t step)
{
	unsigned n = 0;

	for (uint64_t ms = began - began % TIMELINE_MS; ms <= ended + 2 * TIMELINE_MS; ms += step) {
		struct ledger_interval a, b;

		ledger_interval(live, ms, &a);
		ledger_interval(told, ms, &b);
		n += a.bytes != b.bytes || a.ms != b.ms || a.to_ms != b.to_ms ||
		     !same_held(live, told, ms);
	}
	return n;
}

static bool same_totals(struct ledger *live, struct ledger *told, bool with_peak)
{
	struct ledger_totals a, b;

	ledger_totals(live, &a);
	ledger_totals(told, &b);
	if (!with_peak) {
		a.peak = b.peak;
		a.peak_ms = b.peak_ms;
	}
	if (a.heap != b.heap || a.mmap != b.mmap || a.mmap_reserved != b.mmap_reserved ||
	    a.live_blocks != b.live_blocks || a.allocs != b.allocs || a.frees != b.frees)
		return false;
	if (a.maps != b.maps || a.unmaps != b.unmaps || a.unknown_frees != b.unknown_frees ||
	    a.temporary != b.temporary)
		return false;
	return a.total_allocated == b.total_allocated && a.peak == b.peak &&
	       a.peak_ms == b.peak_ms && a.events == b.events && a.estimated == b.estimated;
}

static bool same_peak(struct ledger *live, struct ledger *told)
{
	for (uint32_t s = 0; s < nodes; s++) {
		int64_t x, y, n, m;

		ledger_stack_at_peak(live, s, &x, &n);
		ledger_stack_at_peak(told, s, &y, &m);
		if (x != y || n != m)
			return false;
		if (memcmp(ledger_stack(live, s), ledger_stack(told, s),
			   sizeof(struct ledger_stack)))
			return false;
	}
	return true;
}

static void compare(struct replay *log, struct recorded r[2], uint64_t ended)
{
	CHECK_EQ(replay_processes(log), 2);
	for (size_t i = 0; i < 2 && i < replay_processes(log); i++) {
		struct replay_process *p = replay_process(log, i);
		struct ledger *told = replay_ledger(p);
		uint64_t began = replay_recorded_ms(p), pc;

		CHECK(told);
		if (!told)
			return;
		CHECK_EQ(replay_facts(p)->ended_ms, ended);
		CHECK_EQ(replay_facts(p)->pid, 101 + (int)i);
		CHECK(same_totals(r[i].ledger, told, began == 0));
		CHECK_EQ(differences(r[i].ledger, told, began, ended, TIMELINE_MS), 0);
		CHECK(began || same_peak(r[i].ledger, told));
		for (uint32_t n = 2; n < nodes; n++)
			if (ledger_stack(told, n)->total_count)
				CHECK(replay_parent(p, n, &pc) == n / 2 && pc == 0x400000 + n);
		ledger_free(told);
	}
}

/* ---- files --------------------------------------------------------------- */

/* Number N of the directory. */
static char *file_of(unsigned n)
{
	static char path[128];
	char end[16];
	struct dirent *d;
	DIR *all = opendir(dir);

	snprintf(end, sizeof(end), "-%u.mtlog", n);
	path[0] = '\0';
	while ((d = readdir(all)))
		if (strstr(d->d_name, end))
			snprintf(path, sizeof(path), "%s/%.60s", dir, d->d_name);
	closedir(all);
	return path;
}

static void clean(struct recorded r[2])
{
	struct dirent *d;
	char path[512];
	DIR *all = opendir(dir);

	while ((d = readdir(all))) {
		snprintf(path, sizeof(path), "%s/%s", dir, d->d_name);
		unlink(path);
	}
	closedir(all);
	ledger_free(r[0].ledger);
	ledger_free(r[1].ledger);
}

/* ---- tests --------------------------------------------------------------- */

static void test_one_file(void)
{
	struct recorded r[2];
	uint64_t ended = record(r, 1, 40000), events;
	struct replay *log;
	char why[256] = "";

	log = open_dir(why, sizeof(why));
	CHECK_STR(why, "");
	CHECK(log);
	if (log) {
		CHECK_EQ(files_done, 1);
		CHECK_EQ(troubles, 0);
		CHECK_EQ(replay_ended_ms(log), ended);
		compare(log, r, ended);
		CHECK(replay_check(log, &watch, &events) == 0);
		CHECK(events == replay_events(log) && events > 0);
		CHECK_EQ(troubles, 0);
	}
	replay_free(log);
	clean(r);
}

static void test_several_files(void)
{
	struct recorded r[2];
	uint64_t ended = record(r, 4, 40000);
	struct replay *log;
	char why[256] = "";

	log = open_dir(why, sizeof(why));
	CHECK(log && files_done == 4 && !troubles);
	if (log)
		compare(log, r, ended);
	replay_free(log);

	unlink(file_of(1)); /* rotated away */
	log = open_dir(why, sizeof(why));
	CHECK(log && files_done == 3);
	if (log) {
		CHECK(replay_began_ms(log) > 0);
		compare(log, r, ended);
	}
	replay_free(log);

	unlink(file_of(3)); /* a gap: what is before it is left out */
	log = open_dir(why, sizeof(why));
	CHECK(log && files_done == 1 && troubles == 1);
	if (log)
		compare(log, r, ended);
	replay_free(log);
	clean(r);
}

/* So many that a checkpoint takes several blocks. */
static void test_many_stacks(void)
{
	struct recorded r[2];
	uint64_t ended;
	char why[256] = "";

	nodes = NODES;
	ended = record(r, 2, 60000);
	for (int i = 0; i < 2; i++) {
		struct replay *log = open_dir(why, sizeof(why));
		struct stat st;

		CHECK(log && files_done == 2);
		if (log)
			compare(log, r, ended);
		replay_free(log);
		CHECK(stat(file_of(1), &st) == 0 && truncate(file_of(1), st.st_size - 1) == 0);
	}
	nodes = 300;
	clean(r);
}

/* Without index and trailer it is read whole, and is the same. */
static void test_without_index(void)
{
	struct recorded r[2];
	uint64_t ended = record(r, 2, 40000);
	struct replay *log;
	char why[256] = "";

	for (unsigned n = 1; n <= 2; n++) {
		struct stat st;

		CHECK(stat(file_of(n), &st) == 0 && truncate(file_of(n), st.st_size - 1) == 0);
	}
	log = open_dir(why, sizeof(why));
	CHECK(log && troubles == 2);
	if (log)
		compare(log, r, ended);
	replay_free(log);
	clean(r);
}

/* Cut anywhere: what is open is the beginning of what was. */
static void test_cut(void)
{
	struct recorded r[2];
	struct stat st;
	char why[256];
	uint64_t ended = record(r, 1, 20000);

	CHECK(stat(file_of(1), &st) == 0);
	for (off_t size = st.st_size - 1; size >= 0; size -= 1 + (off_t)(rnd() % 2000)) {
		struct replay *log;

		CHECK(truncate(file_of(1), size) == 0);
		log = open_dir(why, sizeof(why));
		CHECK(!log == (size < 64) || (log && !replay_processes(log)));
		for (size_t i = 0; log && i < replay_processes(log); i++) {
			struct replay_process *p = replay_process(log, i);
			struct ledger *told = replay_ledger(p);

			CHECK(told && replay_facts(p)->ended_ms <= ended);
			if (told && replay_facts(p)->ended_ms > TIMELINE_MS)
				CHECK_EQ(differences(r[i].ledger, told, 0,
						     replay_facts(p)->ended_ms -
							     replay_facts(p)->ended_ms %
								     TIMELINE_MS -
							     3 * TIMELINE_MS,
						     7 * TIMELINE_MS),
					 0);
			ledger_free(told);
		}
		replay_free(log);
	}
	clean(r);
}

/* A bit is another: either all is as it was, or it is said. */
static void test_damaged(void)
{
	struct recorded r[2];
	uint64_t ended = record(r, 1, 20000), events;
	struct stat st;
	char why[256];
	int fd = open(file_of(1), O_RDWR);

	CHECK(fd >= 0 && fstat(fd, &st) == 0);
	for (int i = 0; i < 300; i++) {
		off_t at = (off_t)(rnd() % (uint64_t)st.st_size);
		struct replay *log;
		unsigned n = 0;
		uint8_t byte, bad;

		CHECK(pread(fd, &byte, 1, at) == 1);
		bad = (uint8_t)(byte ^ 1u << rnd() % 8);
		CHECK(pwrite(fd, &bad, 1, at) == 1);
		log = open_dir(why, sizeof(why));
		CHECK(log || at < 64);
		if (log && replay_check(log, &watch, &events) == 0 && !troubles) {
			for (size_t j = 0; j < replay_processes(log); j++) {
				struct ledger *told = replay_ledger(replay_process(log, j));

				n += differences(r[j].ledger, told, 0, ended, 13 * TIMELINE_MS);
				ledger_free(told);
			}
			CHECK_EQ(n, 0);
		}
		replay_free(log);
		CHECK(pwrite(fd, &byte, 1, at) == 1);
	}
	close(fd);
	clean(r);
}

int main(void)
{
	snprintf(dir, sizeof(dir), "%s/replay.XXXXXX",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	if (!mkdtemp(dir))
		return 1;
	RUN(test_one_file);
	RUN(test_several_files);
	RUN(test_many_stacks);
	RUN(test_without_index);
	RUN(test_cut);
	RUN(test_damaged);
	rmdir(dir);
	return test_status();
}
