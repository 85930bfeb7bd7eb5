// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/message.h"
#include "base/units.h"
#include "export/export.h"
#include "process/profile_make.h"
#include "session/asking.h"
#include "shell/common/answer_stream.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/exporting.h"
#include "shell/common/leaking.h"
#include "shell/common/mapping.h"
#include "shell/common/reporting.h"
#include "shell/common/selection.h"
#include "shell/common/shell.h"
#include "shell/common/suppressing.h"

/*
 * `export`: what `report --by stack` would say, as a file for somebody's viewer. It is written
 * beside its place and moved there when it is whole, so that a full disk or a Ctrl-C leaves what
 * was there before.
 */
enum { ARG_MATCH, ARG_TOTAL, ARG_WHEN };

static const struct argument table[] = { [ARG_MATCH] = { "match", 0, true },
					 [ARG_TOTAL] = { "total", 0, false },
					 WHEN_ARGUMENTS(ARG_WHEN),
					 ARGUMENTS_END };

struct request {
	struct selection s;
	struct reporting_when when;
	bool total;
	const struct export_format *format;
	const char *file;
	const struct export_ending *ending; /* of FILE; NULL: it says nothing */
	/* what is written, since the program that it takes is not there; NULL: FILE */
	char *instead;
};

/* ---- arguments ----------------------------------------------------------- */

static int choose_format(const struct shell *shell, struct call *call, struct request *r,
			 const char *name)
{
	char all[256] = "";

	r->format = export_format(name);
	if (r->format)
		return 0;
	for (const struct export_format *f = export_formats; f->name; f++) {
		strcat(all, f == export_formats ? "" : f[1].name ? ", " : " or ");
		strcat(all, f->name);
	}
	return shell_error(shell, call, "invalid value '%s': expected %s", name, all);
}

static int one(struct shell *shell, struct call *call, void *ctx, int arg, const char *value)
{
	struct request *r = ctx;

	switch (arg) {
	case ARG_MATCH: return selection_option(shell, call, &r->s, SELECT_MATCH, value, 0);
	case ARG_TOTAL: r->total = true; return 0;
	case ARG_WORD:
		if (!r->format)
			return choose_format(shell, call, r, value);
		if (r->file)
			return arguments_unexpected(shell, call, value);
		r->file = value;
		return 0;
	default: return reporting_when(shell, call, arg - ARG_WHEN, value, &r->when);
	}
}

/* FILE is `-`. */
static bool is_stdout(const struct request *r) { return !strcmp(r->file, "-"); }

static int choose_ending(const struct shell *shell, struct call *call, struct request *r)
{
	const char *last = strrchr(r->file, '.');
	char all[80] = "";

	if (is_stdout(r))
		return 0; /* what the pictures are made of */

	for (const struct export_ending *e = r->format->ending; e->ending; e++) {
		if (last && !strcmp(last, e->ending)) {
			r->ending = e;
			return 0;
		}
		strcat(all, e == r->format->ending ? "" : e[1].ending ? ", " : " or ");
		strcat(all, e->ending);
	}
	return shell_error(
		shell, call,
		"invalid value '%s': expected a file's name that ends in %s, or - for stdout",
		r->file, all);
}

static int agree(const struct shell *shell, struct call *call, struct request *r)
{
	if (!r->format)
		return shell_error(shell, call, "missing format (`help export` lists them)");
	if (!r->file || !*r->file)
		return shell_error(shell, call, "missing file name");
	if (r->total &&
	    (r->when.at.kind || (r->when.has_since && r->when.since.kind == MOMENT_PAST)))
		return shell_error(
			shell, call,
			"--total cannot be combined with --at or --since TIME: of the past, only what was live is kept");
	if (r->format->flags & EXPORT_TIMELINE && (r->total || r->s.has_regex))
		return shell_error(shell, call,
				   "%s is about all stacks: without --match and --total",
				   r->format->name);
	if (r->format->ending && choose_ending(shell, call, r))
		return -1;
	return selection_agree(shell, call, &r->s);
}

/* ---- what is exported ---------------------------------------------------- */

static void describe_moment(const struct request *r, const struct view *view, char *text,
			    size_t len)
{
	struct text_buffer at, since;
	size_t n = 0;

	if (r->when.at.kind == MOMENT_PEAK)
		n = (size_t)snprintf(text, len, "at the peak, %s", time_text(&at, view->ms));
	else if (r->when.at.kind == MOMENT_PAST || !r->when.has_since)
		n = (size_t)snprintf(text, len, "at %s", time_text(&at, view->ms));
	if (r->when.has_since && r->when.since.kind == MOMENT_FILE)
		snprintf(text + n, len - n, "%smore than in '%s'", n ? ", " : "",
			 r->when.since.file);
	else if (r->when.has_since && r->when.since.kind == MOMENT_SNAPSHOT)
		snprintf(text + n, len - n, "%ssince '%s', %s", n ? ", " : "", r->when.since.name,
			 time_text(&since, view->since_ms));
	else if (r->when.has_since)
		snprintf(text + n, len - n, "%ssince %s", n ? ", " : "",
			 time_text(&since, view->since_ms));
}

/*
 * What holds fewer bytes than before holds nothing where the format has no negative amounts, and it
 * is said. What holds more bytes in fewer blocks has no block more. What was allocated stays.
 */
static void leave_out_negative(const struct request *r, struct view *view)
{
	int64_t bytes = 0;
	size_t left = 0;

	for (size_t i = 0; i < view->count; i++) {
		struct view_row *row = &view->row[i];

		if (row->size < 0 || (!row->size && row->count < 0)) {
			bytes += row->size;
			left++;
			row->size = 0;
			row->count = 0;
		} else if (row->count < 0) {
			row->count = 0;
		}
	}
	if (left && !r->total)
		message_say("export: %zu stack%s that hold%s less than before (%" PRId64
			    " bytes) %s left out: %s has no negative amounts",
			    left, plural(left), left == 1 ? "s" : "", bytes,
			    left == 1 ? "is" : "are", r->format->name);
}

/* ---- the file ------------------------------------------------------------ */

/* Where it is written until it is whole. */
struct target {
	char *path; /* FILE, with symbolic links resolved */
	/* beside it; NULL: FILE is no regular file, or a descriptor of ours, and is added to */
	char *part;
	int fd;
};

static int cannot(const struct shell *shell, struct call *call, const char *file, int err)
{
	return shell_error(shell, call, "cannot write '%s': %s", file, strerror(err));
}

/*
 * /dev/stdout, /dev/fd/3: whatever that is, it is open elsewhere, and nothing may take its place.
 */
static bool is_stream(const char *file)
{
	struct stat st;

	return !strncmp(file, "/dev/std", 8) || !strncmp(file, "/dev/fd/", 8) ||
	       !strncmp(file, "/proc/", 6) || (stat(file, &st) == 0 && !S_ISREG(st.st_mode));
}

#define PARTS 100 /* of one file, at a time */

/* Nobody's yet, and of the mode that the umask leaves it. */
static int open_part(struct target *t)
{
	int err = EEXIST;

	for (unsigned i = 0; i < PARTS && err == EEXIST; i++) {
		if (asprintf(&t->part, "%s.%d-%u", t->path, (int)getpid(), i) < 0) {
			t->part = NULL;
			return -ENOMEM;
		}
		t->fd = open(t->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (t->fd >= 0)
			return 0;
		err = errno;
		free(t->part);
		t->part = NULL;
	}
	return -err;
}

/*
 * What FILE leads to, for the caller to free, if it is a symbolic link. The kernel follows it, not
 * we: so that one which somebody has planted in a directory for all is refused as everywhere
 * (fs.protected_symlinks). One that leads nowhere is replaced. NULL: errno says why.
 */
static char *follow(const char *file)
{
	char name[sizeof("/proc/self/fd/") + 12], *path = NULL;
	struct stat st;
	int fd;

	if (lstat(file, &st) || !S_ISLNK(st.st_mode))
		return strdup(file);
	fd = open(file, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? strdup(file) : NULL;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	path = realpath(name, NULL);
	close(fd);
	return path;
}

static int target_open(struct target *t, const char *file)
{
	bool stream = is_stream(file);

	*t = (struct target){ .path = stream ? strdup(file) : follow(file), .fd = -1 };
	if (!t->path)
		return -errno;
	if (stream) {
		t->fd = open(file, O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK);
		return t->fd < 0 ? -errno : 0;
	}
	if (access(t->path, W_OK) && errno != ENOENT)
		return -errno;
	return open_part(t);
}

/* ERR: whether it came to nothing. 0 or -errno. */
static int target_close(struct target *t, int err)
{
	if (t->fd >= 0 && close(t->fd) && !err)
		err = -errno;
	if (t->part && !err && rename(t->part, t->path))
		err = -errno;
	if (t->part && err)
		unlink(t->part);
	free(t->part);
	free(t->path);
	return err;
}

/* Writes all of it to FD, which is closed. 0 or -errno. */
static int write_to(struct shell *shell, const struct export_format *format, const struct export *e,
		    int fd)
{
	FILE *out = answer_open(shell, fd);
	int err;

	if (!out)
		return -errno;
	asking_unlock(shell->session);
	errno = 0;
	err = format->write(out, e);
	if (fflush(out) && !err)
		err = errno ? -errno : -EIO;
	if (fclose(out) && !err)
		err = errno ? -errno : -EIO;
	asking_lock(shell->session);
	return err;
}

/*
 * write_to() through the ending's shell command, which prints to FD. *STATUS: its exit status.
 *
 * dot answers Ctrl-C by rendering what it has, from the handler, and now and then it waits there
 * for a lock of its own for ever. Nobody wants what it makes then, so it is killed.
 */
static int write_through(struct shell *shell, const struct request *r, const struct export *e,
			 int fd, int *status)
{
	struct spawned child;
	char *command;
	int err, ended;

	if (asprintf(&command, "exec %s", r->ending->command) < 0)
		return -ENOMEM;
	err = shell_spawn(shell, &child, command, fd, SPAWN_PIPE);
	free(command);
	if (err)
		return err;
	err = write_to(shell, r->format, e, child.input);
	ended = shell_await(shell, child.status_fd, AWAIT_INTERRUPT);
	if (ended)
		kill(child.pid, SIGKILL);
	*status = spawn_status(&child);
	return shell_interrupted(shell) || shell->leave ? -EINTR : ended ? ended : err;
}

/* Whether the program that COMMAND begins with is there. */
static bool is_there(const char *command)
{
	const char *path = getenv("PATH");
	size_t len = strcspn(command, " ");

	for (const char *at = path ? path : "/usr/bin:/bin", *end; *at; at = end + (*end == ':')) {
		char file[PATH_MAX];

		end = at + strcspn(at, ":");
		snprintf(file, sizeof(file), "%.*s/%.*s", (int)(end - at), at, (int)len, command);
		if (!access(file, X_OK))
			return true;
	}
	return false;
}

/* Without that program FILE's other ending is written: what it would be made from. */
static int do_without(struct shell *shell, struct call *call, struct request *r)
{
	const struct export_ending *plain = r->format->ending;

	if (!r->ending || !r->ending->command || is_there(r->ending->command))
		return 0;
	while (plain->command)
		plain++;
	if (asprintf(&r->instead, "%.*s%s", (int)(strrchr(r->file, '.') - r->file), r->file,
		     plain->ending) < 0) {
		r->instead = NULL;
		return shell_error(shell, call, "out of memory");
	}
	return 0;
}

/*
 * FILE is `-`: where the command's output was sent by > or |, or at the prompt the terminal; else
 * our standard output, which is not always where commands print.
 */
static int print(struct shell *shell, struct call *call, const struct request *r,
		 const struct export *e)
{
	bool redirected = call->fd != message_fd();
	int err, fd;

	if (r->format->flags & EXPORT_BINARY && isatty(redirected ? call->fd : STDOUT_FILENO))
		return shell_error(shell, call,
				   "%s is not written to a terminal: name a file, or `| COMMAND`",
				   r->format->name);
	if (redirected || shell->screen) {
		err = r->format->write(call->out, e);
		return err && err != -EINTR ? shell_error(shell, call, "out of memory")
		       : err		    ? -1
					    : 0;
	}
	shell_flush(shell);
	fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	err = fd < 0 ? -errno : write_to(shell, r->format, e, fd);
	return !err || err == -EINTR ? err ? -1 : 0 : cannot(shell, call, "-", -err);
}

static int save(struct shell *shell, struct call *call, const struct request *r,
		const struct export *e)
{
	bool through = r->ending && r->ending->command && !r->instead;
	const char *file = r->instead ? r->instead : r->file;
	struct target t;
	int status = 0, err = target_open(&t, file);

	if (!err && through)
		err = write_through(shell, r, e, t.fd, &status);
	else if (!err)
		err = write_to(shell, r->format, e, fcntl(t.fd, F_DUPFD_CLOEXEC, 3));
	/* it does not say what the matter was: perhaps it is the same for us */
	if (status && (!err || err == -EPIPE))
		err = write(t.fd, "\n", 1) < 0 ? -errno : -ECHILD;
	err = target_close(&t, err);
	if (err == -EINTR)
		return -1;
	if (err == -ECHILD)
		return shell_error(shell, call, "cannot write '%s': '%s' ended with status %d",
				   file, r->ending->command, status);
	if (err)
		return cannot(shell, call, file, -err);
	if (r->instead)
		return shell_error(
			shell, call,
			"'%.*s' is not installed (Debian: apt-get install graphviz); written instead: '%s', of which `%s %s > %s` makes it",
			(int)strcspn(r->ending->command, " "), r->ending->command, file,
			r->ending->command, file, r->file);
	return 0;
}

/* ---- the command --------------------------------------------------------- */

/* What its resident memory is made of, if that can be told now. */
static bool look_at_memory(struct shell *shell, const struct export_format *format,
			   struct mapping *m)
{
	struct process *p = shell_process(shell);
	struct sites *sites;

	if (!(format->flags & EXPORT_RESIDENCY) || mapping_refused(shell, p))
		return false;
	sites = shell_sites(shell, p);
	return sites && !mapping_make(shell, p, sites, m);
}

/* What is lost, if that can be told now. */
static bool look_for_leaks(struct shell *shell, const struct export_format *format,
			   struct leak_report *report)
{
	struct process *p = shell_process(shell);
	struct sites *sites;
	struct leaking l;
	char why[256];
	int err;

	if (!(format->flags & EXPORT_LEAKS) || leaking_refused(shell, p) ||
	    !(sites = shell_sites(shell, p)) || leaking_make(shell, p, &l, why, sizeof(why)))
		return false;
	err = leaking_report(&l, false, report);
	leaking_release(&l);
	if (err)
		return false;
	if (suppressing_apply(shell, p, sites, report)) {
		leaking_report_release(report);
		return false;
	}
	leaking_choose(report, LEAKING_LOST);
	return true;
}

/* What of its memory is known now; NULL: nothing. */
struct looks {
	const struct mapping *mapping;
	const struct leak_report *leaks;
};

/* What is told of one moment, or of what has come since one, has no course of time. */
static void leave_out_time(struct export *e)
{
	e->points = 0;
	e->activity = NULL;
	e->lifetimes = NULL;
}

/* Whether a format that is about the whole time is to be about one moment of the past. */
static bool is_past(const struct request *r)
{
	return r->format->flags & EXPORT_TIMELINE && r->when.at.kind;
}

static int write_file(struct shell *shell, struct call *call, struct request *r,
		      const struct looks *looks)
{
	unsigned detail = r->total || (r->format->flags & EXPORT_TOTALS && !r->when.at.kind)
				  ? PROFILE_DEAD
				  : 0;
	struct exporting x;
	struct sites *sites;
	struct view view;
	char moment[160];
	int err;

	r->s.view.sort = r->total ? SORT_TOTAL : SORT_SIZE;
	if (selection_view(shell, call, &r->s, &r->when.at,
			   r->when.has_since ? &r->when.since : NULL, detail, 0, &view, &sites))
		return -1;
	view.has_totals &= !r->when.at.kind;
	if (!r->when.has_since && !r->s.has_regex)
		view.before = shell_preattach(shell);
	if (view.is_difference && !(r->format->flags & EXPORT_SIGNED))
		leave_out_negative(r, &view);
	describe_moment(r, &view, moment, sizeof(moment));
	err = exporting_init(&x, shell, shell_subject(shell));
	if (!err) {
		x.export.view = &view;
		x.export.sites = sites;
		x.export.total = r->total;
		x.export.moment = moment;
		x.export.residency = looks->mapping ? &looks->mapping->residency : NULL;
		x.export.kept = looks->mapping ? &looks->mapping->kept : NULL;
		x.export.leaks = looks->leaks;
		if (r->when.has_since || is_past(r))
			leave_out_time(&x.export);
		if (is_past(r)) {
			x.export.now_ms = view.ms;
			x.export.parts = NULL; /* they are of now */
		}
		err = is_stdout(r) ? print(shell, call, r, &x.export)
				   : save(shell, call, r, &x.export);
		exporting_release(&x);
	} else {
		shell_error(shell, call, "out of memory");
	}
	view_release(&view);
	return err ? -1 : 0;
}

static int write_all(struct shell *shell, struct call *call, struct request *r)
{
	struct mapping mapping;
	struct leak_report leaks;
	bool mapped = !is_past(r) && look_at_memory(shell, r->format, &mapping);
	bool searched = !is_past(r) && look_for_leaks(shell, r->format, &leaks);
	struct looks looks = { mapped ? &mapping : NULL, searched ? &leaks : NULL };
	int bad = write_file(shell, call, r, &looks);

	if (mapped)
		mapping_release(&mapping);
	if (searched)
		leaking_report_release(&leaks);
	return bad;
}

static int export(struct shell *shell, struct call *call)
{
	struct request r = { .s.view = { .key = VIEW_STACK, .limit = VIEW_ALL },
			     .s.has_rows = true };
	int bad = arguments_each(shell, call, table, one, &r) || agree(shell, call, &r) ||
		  do_without(shell, call, &r) || write_all(shell, call, &r);

	free(r.instead);
	selection_release(&r.s);
	return bad ? -1 : 0;
}

const struct command cmd_export = {
	.name = "export",
	.group = GROUP_FILES,
	.usage =
		"heap|jemalloc|pprof|folded|flamegraph|graph|massif|heaptrack|dhat|speedscope|csv|json|html FILE [--at TIME|peak] [--since|--base FILE|SNAP|TIME] [--match REGEX]"
		" [--total]",
	.summary = "write FILE for another viewer",
	.example = "export html memory.html",
	.help = "What `report --by stack` shows, all of it, but that frames of an allocator (operator new) at the inner end of a stack are left out (but in heap).\n"
		"\n"
		"  heap        a .heap file, as `dump` writes it: mtrun -r, jeprof, google-pprof\n"
		"  jemalloc    jemalloc's heap profile (heap_v2, text) with its symbols: jeprof, without the program\n"
		"  pprof       pprof's profile.proto, gzipped: pprof, Perfetto, speedscope, Parca, Pyroscope, Grafana; with live and total amounts\n"
		"  folded      folded stacks, one a line with its bytes: flamegraph.pl, inferno, speedscope, Perfetto\n"
		"  flamegraph  a flame graph, one SVG file: a browser, with zoom, search and tooltips, offline\n"
		"  graph       the call graph, drawn by dot (graphviz): FILE ends in .svg, .pdf or .png; .dot for dot itself\n"
		"  massif      the timeline as snapshots, each tenth and the peak with a tree: ms_print, massif-visualizer *\n"
		"  heaptrack   calls, temporary blocks, peak and leaks by stack: heaptrack_gui, heaptrack_print *\n"
		"  dhat        what was allocated in total, live at the peak, live at the end by stack: dh_view.html, the Firefox profiler *\n"
		"  speedscope  speedscope's own file; if it is what is live now, also with what was allocated in total\n"
		"  csv         the rows of `report`: spreadsheets\n"
		"  json        `report --by stack --json`, timeline and marks in one document: programs\n"
		"  html        one page: memory over time, flame graph and sites of any moment or range, leaks, what RSS is made of: a browser, offline *\n"
		"\n"
		"FILE - is standard output, or what > or | say: `export folded - | flamegraph.pl > x.svg`; graph writes dot's language to it.\n"
		"Those with a * are about the whole time and all stacks; with --at or --base "
		"they are of that moment, or of what has come since.\n"
		"\n"
		"  --at TIME|peak  what was live then, as in `report`\n"
		"  --base FILE     what has come since a snapshot or a TIME, or what is more than in a .heap file, as in `report --since`\n"
		"  --match REGEX   only stacks with a frame that matches, as in `report`\n"
		"  --total         what was allocated in total, live or not",
	.flags = COMMAND_AS_IS,
	.run = export,
};
