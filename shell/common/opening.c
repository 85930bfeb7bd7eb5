// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/opening.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/escape.h"
#include "base/message.h"
#include "base/units.h"
#include "log/replay.h"
#include "log/segment.h"
#include "session/asking.h"
#include "shell/common/shell.h"

/*
 * The work goes on in other threads; this one shows how far they are, on a terminal and only if it
 * takes long enough to be seen, and looks for Ctrl-C. The lines are MemTracer's, which others
 * parse.
 */
#define BAR_MS	  300
#define BAR_WIDTH 40u

struct opening {
	struct shell *shell;
	FILE *out; /* or NULL */
	uint64_t began_ms;
	bool shown;
};

static void erase(struct opening *o)
{
	if (o->shown)
		fputs("\r\033[K", stderr);
	o->shown = false;
}

static void trouble(void *ctx, const char *text)
{
	erase(ctx);
	message_say("%s", text);
}

static void file(void *ctx, const char *path)
{
	struct opening *o = ctx;

	if (!o->out)
		return;
	erase(o);
	escape_printf(o->out, "Parse %s complete\n", path);
	fflush(o->out);
}

static bool progress(void *ctx, uint64_t done, uint64_t all)
{
	struct opening *o = ctx;
	unsigned part =
		all ? (unsigned)((double)(done < all ? done : all) / (double)all * BAR_WIDTH)
		    : BAR_WIDTH;

	if (clock_ms() > o->began_ms + BAR_MS && isatty(STDERR_FILENO)) {
		escape_printf(stderr, "\r[%.*s%.*s] %3u %%", (int)part,
			      "########################################", (int)(BAR_WIDTH - part),
			      "........................................", part * 100 / BAR_WIDTH);
		fflush(stderr);
		o->shown = true;
	}
	asking_yield(o->shell->session); /* signals are the loop's to read */
	return !shell_interrupted(o->shell) && !o->shell->leave;
}

void opening_complete(FILE *out, uint64_t clock_ms, uint64_t ms)
{
	time_t seconds = (time_t)(clock_ms / 1000);
	char clock[32] = "?";
	struct tm tm;

	if (localtime_r(&seconds, &tm))
		strftime(clock, sizeof(clock), "%Y-%m-%d %H:%M:%S", &tm);
	escape_printf(out,
		      "Process complete, profiler contains record for %" PRIu64
		      " ms, start from %s\n",
		      ms, clock);
	fflush(out);
}

static void complete(struct opening *o, const struct replay *log)
{
	uint64_t began = replay_began_ms(log);

	erase(o);
	if (o->out)
		opening_complete(o->out, replay_clock_ms(log) + began,
				 replay_ended_ms(log) - began);
}

/* By what is in it, or by its name, as there may be nothing in it. */
bool opening_is_log(const char *path)
{
	static const char ending[] = ".mtlog";
	size_t len = strlen(path);
	char magic[sizeof(SEGMENT_MAGIC) - 1] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	bool is = len >= sizeof(ending) && !strcmp(path + len - sizeof(ending) + 1, ending);

	if (fd < 0)
		return is;
	if (fstat(fd, &st) == 0)
		is |= S_ISDIR(st.st_mode) ||
		      (S_ISREG(st.st_mode) && pread(fd, magic, sizeof(magic), 0) == sizeof(magic) &&
		       !memcmp(magic, SEGMENT_MAGIC, sizeof(magic)));
	close(fd);
	return is;
}

/* Files that were named are all meant: they are of one run, one after the other. */
static int agree(const struct log_sets *sets, char *const *path, size_t paths, char *why,
		 size_t len)
{
	const struct log_set *set = &sets->set[sets->count - 1];
	const struct log_set_file *first = &set->file[log_set_newest(set)];
	struct stat st;

	for (size_t i = 0; i < paths; i++)
		if (stat(path[i], &st) == 0 && S_ISDIR(st.st_mode))
			return 0;
	if (sets->count > 1)
		snprintf(why, len,
			 "these files are of %zu runs: one of them can be open (`open` lists them)",
			 sets->count);
	else if (first != set->file && first->after_off)
		snprintf(why, len,
			 "before file %" PRIu32
			 " the log was off: what is on both sides cannot be open at once",
			 first->number);
	else if (first != set->file)
		snprintf(why, len, "between these files number %" PRIu32 " is missing",
			 first->number - 1);
	else
		return 0;
	return -1;
}

/* R, which is taken over, becomes the session's. */
static int take(struct opening *o, struct replay *r, char *why, size_t len)
{
	if (!replay_processes(r)) {
		snprintf(why, len, "there is nothing in '%s'", replay_file(r, 0, &(uint64_t){ 0 }));
		replay_free(r);
		return -1;
	}
	shell_forget(o->shell);
	if (session_open_log(o->shell->session, r)) {
		snprintf(why, len, "out of memory");
		return -1;
	}
	complete(o, r);
	for (size_t i = 0; i < replay_processes(r); i++) {
		const char *text = replay_trouble(replay_process(r, i));

		if (*text)
			trouble(o, text);
	}
	return 0;
}

int opening_log(struct shell *shell, char *const *path, size_t paths, FILE *out, char *why,
		size_t len)
{
	struct opening o = { .shell = shell, .out = out, .began_ms = clock_ms() };
	const struct replay_watch watch = {
		.ctx = &o, .trouble = trouble, .file = file, .progress = progress
	};
	struct log_sets sets;
	struct replay *r;

	if (log_sets_find(&sets, path, paths, trouble, &o, why, len))
		return -1;
	if (agree(&sets, path, paths, why, len)) {
		log_sets_release(&sets);
		return -1;
	}
	r = replay_open(&sets.set[sets.count - 1], &watch, why, len);
	log_sets_release(&sets);
	erase(&o);
	return r ? take(&o, r, why, len) : -1;
}

int opening_parse(struct shell *shell, unsigned workers, FILE *out, char *why, size_t len)
{
	struct opening o = { .shell = shell, .out = out, .began_ms = clock_ms() };
	const struct replay_watch watch = { .ctx = &o,
					    .workers = workers,
					    .trouble = trouble,
					    .file = file,
					    .progress = progress };
	struct replay *log = session_log(shell->session);
	uint64_t events;
	int err = replay_check(log, &watch, &events);

	erase(&o);
	if (err && err != -EINVAL) {
		snprintf(why, len, "%s", err == -ECANCELED ? "" : "out of memory");
		return -1;
	}
	complete(&o, log);
	message_verbose(1, "%" PRIu64 " event%s in %" PRIu64 " ms", events, plural(events),
			clock_ms() - o.began_ms);
	snprintf(why, len, "%s", err ? "the log is damaged" : "");
	return err ? -1 : 0;
}
