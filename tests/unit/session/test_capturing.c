// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_capturing.c - captures of a program that runs: this one, started once more. Its threads write
 * numbers into pages, one after the other, and replace blocks, and what they have written says
 * whether a capture is of one instant:
 *
 *	a number is taken from a counter, then written, by WRITERS threads: of all numbers below the
 *	counter at most one for each thread is missing;
 *	a block's address is in its slot after it was allocated until before it is freed: each
 *	address in a slot is a live block, and there is at most one more for each thread.
 *
 * timeout: 300
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/proc.h"
#include "ledger/ledger.h"
#include "session/asking.h"
#include "session/capturing.h"
#include "session/session.h"
#include "test.h"

#define WRITERS	 3u
#define PAGES	 4096u /* that each of them writes */
#define SLOTS	 5000u
#define SMALLEST 1001u /* bytes of a block: this and its slot's number */

#ifdef __SANITIZE_THREAD__ /* the program has a thread of the sanitizer's, and its memory */
#define THREADS (WRITERS + 2)
#define PAUSE	60000000000u
#else
#define THREADS (WRITERS + 1)
#define PAUSE	2000000000u
#endif

struct books {
	uint64_t counter;
	uint64_t written[WRITERS]; /* the address of each writer's pages */
	void *slot[WRITERS][SLOTS];
};

/* ---- the program --------------------------------------------------------- */

static struct books books = { .counter = 1 };

static void *write_on(void *arg)
{
	unsigned w = (unsigned)(uintptr_t)arg;
	char *pages = mmap(NULL, PAGES * (size_t)PAGE_SIZE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t random = w + 1;

	memset(pages, 0xff, PAGES * (size_t)PAGE_SIZE);
	for (size_t i = 0; i < PAGES; i++)
		*(uint64_t *)(void *)(pages + i * PAGE_SIZE) = 0;
	__atomic_store_n(&books.written[w], (uintptr_t)pages, __ATOMIC_RELEASE);
	for (size_t i = 0;; i = (i + 1) % PAGES) {
		unsigned n = (unsigned)(test_random(&random) % SLOTS);
		void *old = books.slot[w][n];

		*(volatile uint64_t *)(void *)(pages + i * PAGE_SIZE) =
			__atomic_fetch_add(&books.counter, 1, __ATOMIC_SEQ_CST);
		__atomic_store_n(&books.slot[w][n], NULL, __ATOMIC_SEQ_CST);
		free(old);
		__atomic_store_n(&books.slot[w][n], malloc(SMALLEST + n), __ATOMIC_SEQ_CST);
	}
	return NULL;
}

/* Says where its books are in file PATH. */
static int program(const char *path)
{
	const struct books *at = &books;
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (uintptr_t w = 0; w < WRITERS; w++)
		pthread_create(&thread, NULL, write_on, (void *)w);
	for (unsigned w = 0; w < WRITERS; w++)
		while (!__atomic_load_n(&books.written[w], __ATOMIC_ACQUIRE))
			usleep(1000);
	if (write(fd, &at, sizeof(at)) != sizeof(at))
		return 1;
	for (;;)
		pause();
}

/* ---- one run of it ------------------------------------------------------- */

struct run {
	void (*test)(struct run *r);
	struct session *session;
	struct process *process;
	raddr_t books;
	int fd; /* of the file with that */
	bool began;
};

static void supervise(void *ctx)
{
	struct run *r = ctx;
	int status;

	if (session_launch(r->session, &status))
		return;
	r->process = session_main(r->session);
	while (r->process->state == PROCESS_RUNNING &&
	       pread(r->fd, &r->books, sizeof(r->books), 0) != sizeof(r->books))
		if (session_turn(r->session, 10) < 0)
			return;
	r->began = r->books != 0;
	if (r->began)
		r->test(r);
	kill(r->process->pid, SIGKILL);
	while (!session_all_gone(r->session))
		if (session_turn(r->session, -1) < 0)
			return;
}

static void run(void (*test)(struct run *r))
{
	char exe[4096] = { 0 }, file[64];
	char *argv[] = { exe, (char[]){ "program" }, file, NULL };
	struct options options = { .argv = argv,
				   .count = LEDGER_COUNT_HEAP,
				   .agent = { .depth = 16 },
				   .follow = true,
				   .quiet = true };
	struct run r = { .test = test, .fd = memfd_create("books", 0) };

	CHECK(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
	snprintf(file, sizeof(file), "/proc/%d/fd/%d", getpid(), r.fd);
	r.session = session_new(&options);
	CHECK(r.session && asking_loop(r.session, supervise, &r) == 0 && r.began);
	session_free(r.session);
	close(r.fd);
}

/* ---- what is left of a capture ------------------------------------------- */

static size_t count_in(pid_t pid, const char *dir)
{
	char path[64];
	DIR *d;
	size_t n = 0;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, dir);
	d = opendir(path);
	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n - 2;
}

/* Zombies are among them. */
static size_t count_children(pid_t pid)
{
	const struct dirent *entry;
	DIR *d = opendir("/proc");
	size_t n = 0;

	while (d && (entry = readdir(d)))
		if (atoi(entry->d_name) > 0)
			n += proc_status_field(atoi(entry->d_name), "PPid") == pid;
	if (d)
		closedir(d);
	return n;
}

/* Mappings whose pages can be protected by a userfaultfd. */
static size_t count_protected(pid_t pid)
{
	char *text;
	size_t n = 0;

	if (proc_read(pid, "smaps", &text) < 0)
		return 0;
	for (const char *at = text; (at = strstr(at, "\nVmFlags:")); n++) {
		const char *end = strchr(++at, '\n'), *flag = strstr(at, " uw");

		if (!flag || flag > end)
			n--;
	}
	free(text);
	return n;
}

#define SETTLED 50 /* looks of a millisecond each */

/*
 * Its threads, children and descriptors are its own. Some may be on their way out, and a thread
 * that was in the middle of a call for us may still make one.
 */
static void check_nothing_left(pid_t pid, size_t descriptors)
{
	size_t threads = 0, children = 0;

	for (int i = 0, settled = 0; i < 5000 && settled < SETTLED; i++) {
		threads = count_in(pid, "task");
		children = count_children(pid);
		settled = threads == THREADS && !children ? settled + 1 : 0;
		usleep(1000);
	}
	CHECK_EQ(threads, THREADS);
	CHECK_EQ(children, 0);
	CHECK_EQ(count_in(pid, "fd"), descriptors);
	CHECK_EQ(count_protected(pid), 0);
}

/* ---- what is true at each instant ---------------------------------------- */

static void read_books(const struct capture *c, const struct run *r, struct books *to)
{
	CHECK_EQ(capture_read(c, r->books, to, sizeof(*to)), sizeof(*to));
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* All numbers from the latest of the writers' first ones on, up to the counter, but WRITERS. */
static void check_numbers(const struct capture *c, const struct books *b)
{
	uint64_t *number = calloc(WRITERS * PAGES, sizeof(*number)), from = 0, missing = 0;
	size_t n = 0;

	for (unsigned w = 0; w < WRITERS; w++) {
		uint64_t first = UINT64_MAX;

		for (unsigned i = 0; i < PAGES; i++) {
			uint64_t value;

			CHECK_EQ(capture_read(c, b->written[w] + i * PAGE_SIZE, &value,
					      sizeof(value)),
				 sizeof(value));
			if (value)
				number[n++] = value;
			first = value < first ? value : first;
		}
		from = first > from ? first : from;
	}
	qsort(number, n, sizeof(*number), by_number);
	for (size_t i = 0; i < n; i++) {
		CHECK(number[i] < b->counter);
		CHECK(!i || number[i] != number[i - 1]);
		if (i && number[i - 1] >= from)
			missing += number[i] - number[i - 1] - 1;
	}
	missing += b->counter - 1 - number[n - 1];
	CHECK(missing <= WRITERS);
	if (missing > WRITERS)
		printf("# %llu of %zu numbers are missing\n", (unsigned long long)missing, n);
	free(number);
}

static const struct capture_block *find_block(const struct capture *c, raddr_t address)
{
	size_t lo = 0, hi = c->blocks;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (c->block[mid].address < address)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < c->blocks && c->block[lo].address == address ? &c->block[lo] : NULL;
}

static void check_blocks(const struct capture *c, const struct books *b)
{
	size_t ours = 0, in_slots = 0;
	unsigned wrong = 0;

	for (size_t i = 0; i < c->blocks; i++) {
		ours += c->block[i].size >= SMALLEST && c->block[i].size < SMALLEST + SLOTS;
		CHECK(!i || c->block[i].address > c->block[i - 1].address);
	}
	for (unsigned w = 0; w < WRITERS; w++)
		for (unsigned n = 0; n < SLOTS; n++) {
			const struct capture_block *block;

			if (!b->slot[w][n])
				continue;
			in_slots++;
			block = find_block(c, (raddr_t)(uintptr_t)b->slot[w][n]);
			wrong += !block || block->size != SMALLEST + n;
		}
	CHECK_EQ(wrong, 0);
	CHECK(ours >= in_slots && ours - in_slots <= WRITERS);
}

static void check_threads(const struct capture *c)
{
	unsigned on_stacks = 0;

	CHECK_EQ(c->threads, THREADS);
	for (size_t i = 0; i < c->threads; i++) {
		const struct capture_range *range = capture_range_at(c, c->thread[i].general.rsp);

		on_stacks += range && range->roots;
		CHECK(c->thread[i].vector_bytes >= 576); /* 512 and the header */
		CHECK(*c->thread[i].name);
	}
	CHECK_EQ(on_stacks, THREADS);
}

/* Its whole pages, found one after the other, are what capture_read() says. */
static void check_next(const struct capture *c, const struct books *b)
{
	static char buffer[16384], page[PAGE_SIZE];
	raddr_t start = b->written[0], end = start + PAGES * (raddr_t)PAGE_SIZE, at = start;
	uint64_t seen = 0;
	size_t len;

	for (raddr_t from = start; from < end; from = at + len) {
		const char *bytes = capture_next(c, from, end, buffer, sizeof(buffer), &at, &len);

		if (!bytes)
			break;
		CHECK(at >= from && len && at + len <= end);
		CHECK_EQ(capture_read(c, at, page, len < PAGE_SIZE ? len : PAGE_SIZE),
			 len < PAGE_SIZE ? len : PAGE_SIZE);
		CHECK(!memcmp(page, bytes, len < PAGE_SIZE ? len : PAGE_SIZE));
		seen += len;
	}
	CHECK_EQ(seen, PAGES * (uint64_t)PAGE_SIZE);
}

static void check_ranges(const struct capture *c, const struct run *r)
{
	const struct capture_range *books_in = capture_range_at(c, r->books);
	bool stack = false;

	CHECK(books_in && books_in->write && books_in->kind == CAPTURE_DATA &&
	      strstr(books_in->name, "test_capturing"));
	for (size_t i = 0; i < c->ranges; i++) {
		const struct capture_range *range = &c->range[i];

		CHECK(range->start < range->end && (!i || range->start >= range[-1].end));
		CHECK(!strstr(range->name, "mtrun"));
		CHECK(range->start >= r->process->agent + AGENT_SPAN ||
		      range->end <= r->process->agent);
		stack |= range->kind == CAPTURE_STACK;
	}
	CHECK(stack);
}

/* Until it has gone on from what its counter was in B. */
static void await_progress(struct run *r, const struct books *b)
{
	uint64_t now = b->counter;
	ssize_t got = 0;

	for (int i = 0; i < 5000 && now == b->counter && !session_turn(r->session, 1); i++)
		got = remote_read(r->process->via, r->books, &now, sizeof(now));
	CHECK_EQ(got, sizeof(now));
	CHECK(now > b->counter);
}

/* Each of them of one instant, and the program goes on in between. */
static void check_captures(struct run *r, enum capture_way way, unsigned times)
{
	static struct books b;

	size_t descriptors = count_in(r->process->pid, "fd");

	for (unsigned i = 0; i < times; i++) {
		char why[200] = "";
		struct capture *c;
		int err = session_capture(r->session, r->process, NULL, NULL, &c, why, sizeof(why));

		CHECK_STR(why, "");
		if (err)
			return;
		asking_unlock(r->session);
		CHECK_EQ(c->way, way);
		CHECK(c->pause_ns > 0);
		CHECK_BELOW(c->pause_ns, PAUSE);
		read_books(c, r, &b);
		check_numbers(c, &b);
		check_blocks(c, &b);
		check_threads(c);
		check_ranges(c, r);
		check_next(c, &b);
		asking_lock(r->session);
		session_capture_end(r->session, c);
		CHECK_EQ(r->process->state, PROCESS_RUNNING);
		await_progress(r, &b);
	}
	CHECK(session_turn(r->session, 1) == 0);
	check_nothing_left(r->process->pid, descriptors);
}

/* (A sanitizer's memory is captured, too.) */
static unsigned times(void) { return TEST_SANITIZED ? 3 : getenv("MTRUN_SOAK") ? 20 : 4; }

static void by_stop(struct run *r) { check_captures(r, CAPTURE_STOP, times()); }

static void test_stop(void)
{
	setenv("MTRUN_CAPTURE", "stop", 1);
	run(by_stop);
}

static void by_protection(struct run *r) { check_captures(r, CAPTURE_WRITE_PROTECT, times()); }

static void test_protection(void)
{
	setenv("MTRUN_CAPTURE", "write-protect", 1);
	run(by_protection);
}

static void by_clone(struct run *r) { check_captures(r, CAPTURE_CLONE, times()); }

static void test_clone(void)
{
	setenv("MTRUN_CAPTURE", "clone", 1);
	run(by_clone);
}

/* A process that the user has stopped stays so. */
static void while_stopped(struct run *r)
{
	static struct books b;
	char why[200];
	struct capture *c;

	CHECK_EQ(session_stop(r->session, r->process), 0);
	CHECK_EQ(session_capture(r->session, r->process, NULL, NULL, &c, why, sizeof(why)), 0);
	CHECK_EQ(r->process->state, PROCESS_STOPPED);
	read_books(c, r, &b);
	check_numbers(c, &b);
	check_blocks(c, &b);
	CHECK_EQ(c->pause_ns, 0);
	session_capture_end(r->session, c);
	CHECK_EQ(session_cont(r->session, r->process), 0);
}

static void test_stopped(void)
{
	unsetenv("MTRUN_CAPTURE");
	run(while_stopped);
}

static bool at_once(void *ctx)
{
	(void)ctx;
	return true;
}

static void interrupted(struct run *r)
{
	char why[200];
	struct capture *c;

	CHECK_EQ(session_capture(r->session, r->process, at_once, NULL, &c, why, sizeof(why)),
		 -EINTR);
	CHECK(strstr(why, "interrupted"));
	CHECK_EQ(r->process->state, PROCESS_RUNNING);
}

static void test_interrupted(void) { run(interrupted); }

/* ---- killed -------------------------------------------------------------- */

/* Its number is signalled: it must be one. */
static pid_t fork_or_end(void)
{
	pid_t pid = fork();

	if (pid < 0) {
		perror("fork");
		exit(1);
	}
	return pid;
}

static pid_t begin_program(int fd)
{
	char file[64];
	pid_t pid = fork_or_end();

	if (pid == 0) {
		snprintf(file, sizeof(file), "/proc/self/fd/%d", fd);
		execl("/proc/self/exe", "test_capturing", "program", file, NULL);
		_exit(127);
	}
	return pid;
}

/* Until it is killed. */
static void capture_on(void *ctx)
{
	struct session *s = ctx;
	char why[200];

	if (session_attach(s))
		return;
	CHECK(write(STDOUT_FILENO, "", 1) == 1);
	for (;;) {
		struct capture *c;

		if (session_capture(s, session_main(s), NULL, NULL, &c, why, sizeof(why)))
			continue;
		session_capture_end(s, c);
	}
}

/* Its process, or 0: it could not attach. */
static pid_t try_captures(pid_t program)
{
	struct options options = { .pid = &program,
				   .npids = 1,
				   .count = LEDGER_COUNT_HEAP,
				   .agent = { .depth = 16 },
				   .quiet = true };
	int ready[2];
	char byte;
	pid_t pid;

	CHECK(pipe(ready) == 0);
	fflush(stdout);
	pid = fork_or_end();
	if (pid == 0) {
		struct session *s;

		dup2(ready[1], STDOUT_FILENO);
		close(ready[0]);
		close(ready[1]);
		s = session_new(&options);
		_exit(s && asking_loop(s, capture_on, s));
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1) {
		waitpid(pid, NULL, 0);
		pid = 0;
	}
	close(ready[0]);
	return pid;
}

/* On a busy machine threads may be in hooks that a killed one has left for longer than it waits. */
static pid_t begin_captures(pid_t program)
{
	pid_t pid = 0;

	for (int i = 0; i < 5 && !pid; i++)
		pid = try_captures(program);
	CHECK(pid);
	return pid;
}

/* Whoever captures is killed at any moment: the program goes on, and nothing is left in it. */
static void kill_captures(const char *way, unsigned times)
{
	int fd = memfd_create("books", 0), status;
	uint64_t random = (uint64_t)getpid() << 20 | 1;
	pid_t program = begin_program(fd);
	raddr_t at = 0;
	size_t descriptors;

	for (int i = 0; i < 5000 && pread(fd, &at, sizeof(at), 0) != sizeof(at); i++)
		usleep(1000);
	descriptors = count_in(program, "fd");
	setenv("MTRUN_CAPTURE", way, 1);
	for (unsigned i = 0; i < times && waitpid(program, &status, WNOHANG) == 0; i++) {
		pid_t capturer = begin_captures(program);
		uint64_t before = 0, now = 0;
		ssize_t got = 0;

		if (!capturer)
			break;
		usleep((useconds_t)(test_random(&random) % 60000));
		kill(capturer, SIGKILL);
		waitpid(capturer, NULL, 0);
		check_nothing_left(program, descriptors);
		CHECK(remote_read(program, at, &before, sizeof(before)) == sizeof(before));
		for (int j = 0; j < 5000 && now <= before; j++) {
			usleep(1000);
			got = remote_read(program, at, &now, sizeof(now));
		}
		CHECK_EQ(got, sizeof(now));
		CHECK(now > before);
	}
	CHECK_EQ(waitpid(program, &status, WNOHANG), 0);
	kill(program, SIGKILL);
	waitpid(program, NULL, 0);
	close(fd);
}

static unsigned kills(void) { return TEST_SANITIZED ? 2 : getenv("MTRUN_SOAK") ? 300 : 4; }

static void test_killed_stop(void) { kill_captures("stop", kills()); }
static void test_killed_clone(void) { kill_captures("clone", kills()); }
static void test_killed_protection(void) { kill_captures("write-protect", kills()); }

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "program"))
		return program(argv[2]);
	RUN(test_stop);
	RUN(test_protection);
	RUN(test_clone);
	RUN(test_stopped);
	RUN(test_interrupted);
	RUN(test_killed_stop);
	RUN(test_killed_clone);
	RUN(test_killed_protection);
	return test_status();
}
