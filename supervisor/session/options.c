// SPDX-License-Identifier: GPL-3.0-or-later
#include "session/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/layout.h"
#include "base/nearest.h"
#include "patch/hooks.h"
#include "session/recorder.h"

/*
 * One table holds each option with its help text; getopt's own tables are made from it, so that
 * nothing is accepted that is not documented. Options end at the first word that is none: what
 * follows belongs to the program.
 */
#ifndef MTRUN_VERSION
#define MTRUN_VERSION "0"
#endif

enum {
	OPT_DEPTH = 256,
	OPT_HOOK,
	OPT_NO_FOLLOW,
	OPT_MESSAGES,
	OPT_COLOR,
	OPT_ON_LIMIT,
	OPT_LIMIT_EXIT,
	OPT_TREE,
	OPT_DUMP_EVERY,
	OPT_DUMP_PEAK,
	OPT_DUMP_EXIT,
	OPT_LOG_DIR,
	OPT_LOG_SIZE,
	OPT_LOG_FILES,
	OPT_LISTEN,
	OPT_LISTEN_TOKEN,
	OPT_LISTEN_HOST,
	OPT_PUSH,
	OPT_PUSH_EVERY,
	OPT_PUSH_LABEL,
	OPT_LEAK_CHECK,
	OPT_LEAK_EXITCODE,
	OPT_SUPPRESSIONS,
	OPT_ERRORS
};
#define LOG_SIZE    (100u << 20)
#define LOG_FILES   10u
#define PUSH_MS	    15000
#define INTERVAL_MS 5000 /* -i without a TIME; as MemTracer */

static const struct {
	const char *name;
	int value;	 /* below 256: the short form */
	const char *arg; /* in brackets with its `=`: it may be left out */
	const char *help;
} table[] = {
	{ "pid", 'p', "PID[,PID]...",
	  "supervise these running processes instead of starting one: they live on when mtrun leaves; may be repeated" },
	{ "tree", OPT_TREE, NULL, "with -p: also the children that they have already" },
	{ "replay", 'r', "PATH...",
	  "open what was recorded: a directory of logs (its newest run), log files of one run, or a .heap file;\nnothing is started" },
	{ "limit", 'l', "SIZE",
	  "the most the program may have allocated: the request that would cross it is never granted" },
	{ "on-limit", OPT_ON_LIMIT, "ACTION",
	  "what happens then: kill (default; the program and its children), stop (it is frozen, to be looked at: at the\n"
	  "prompt, or by the commands of `on limit`, and then killed), fail (the request fails as if there were no memory),\n"
	  "report (it is said once per crossing, and granted)" },
	{ "errors", OPT_ERRORS, "ACTION",
	  "what happens at a double free, a free of what is no block, or by another function than the one that goes\n"
	  "with malloc, new or new[]: report (default), stop, off" },
	{ "limit-exit", OPT_LIMIT_EXIT, "N",
	  "exit status after a limit's kill (default: as killed by SIGKILL)" },
	{ "count", 'c', "LIST",
	  "what counts as allocated: any of heap,mmap,image (default: all three)" },
	{ "interval", 'i', "[=TIME]", "print a line of what is allocated every TIME (5s)" },
	{ "execute", 'x', "CMDS", "run shell commands while the program runs; may be repeated" },
	{ "script", 'X', "FILE",
	  "run shell commands from FILE (-: stdin; the program's stdin is then /dev/null)" },
	{ "duration", 'd', "TIME",
	  "stop tracing after TIME, then wait for the program; with -p: leave after TIME" },
	{ "output", 'o', "PREFIX",
	  "how the names of .heap files begin, PREFIX<pid>.<seq>.<why>.heap (default ./mtrun.);\n"
	  "implies --dump-exit" },
	{ "dump-every", OPT_DUMP_EVERY, "SIZE",
	  "write one each time that SIZE more bytes were allocated" },
	{ "dump-peak", OPT_DUMP_PEAK, NULL,
	  "write one at each new peak: at most one a second, and the last in any case" },
	{ "dump-exit", OPT_DUMP_EXIT, NULL, "write one at the end, of the program or of -d" },
	{ "leak-check", OPT_LEAK_CHECK, "[=WHEN]",
	  "at the last instant of each process, say what nothing points to any more: full (if no other is given),\n"
	  "summary (only how much), no" },
	{ "leak-exitcode", OPT_LEAK_EXITCODE, "N",
	  "exit status if anything was definitely lost then; implies --leak-check" },
	{ "suppressions", OPT_SUPPRESSIONS, "FILE",
	  "leaks that are known, and not to be told, in LeakSanitizer's or Valgrind's syntax; may be repeated" },
	{ "mode", 'm', "MODE",
	  "how what happens is recorded: mem-fast (default), or mem: less memory, more time; log-fast, log: the same, and\n"
	  "everything is in log files, too, for --replay; off: not at all until `record` says so (`help record` has numbers)" },
	{ "log-dir", OPT_LOG_DIR, "DIR", "where log files go (default .)" },
	{ "log-size", OPT_LOG_SIZE, "SIZE",
	  "how large one may become before the next one is begun (default 100M)" },
	{ "log-files", OPT_LOG_FILES, "N",
	  "how many there are at most, the one being written included (default 10): the oldest is deleted" },
	{ "sample", 's', "SIZE",
	  "record one allocation per SIZE bytes on average, and estimate from these (default: record every one)" },
	{ "depth", OPT_DEPTH, "N", "most frames kept per stack (default 128, at most 1024)" },
	{ "hook", OPT_HOOK, "NAME[=KIND][@ARG]",
	  "NAME is an allocator function of the program: KIND malloc (default), calloc, realloc, free, memalign or\n"
	  "posix_memalign; ARG the position (from 1) of its size; free: of the pointer; realloc, calloc: of the\n"
	  "pointer, the count, with the size behind it; may be repeated" },
	{ "listen", OPT_LISTEN, "ADDR",
	  "answer over HTTP while it runs: a live page, /metrics, /debug/pprof/heap; ADDR: PORT (of 127.0.0.1), HOST:PORT\n"
	  "or unix:PATH" },
	{ "listen-token", OPT_LISTEN_TOKEN, "FILE",
	  "who asks has to know the token in FILE's first line; needed where ADDR is not this machine's own" },
	{ "listen-host", OPT_LISTEN_HOST, "NAME",
	  "a name by which browsers and others may ask; may be repeated" },
	{ "push", OPT_PUSH, "URL",
	  "send a profile to a server that takes them as Pyroscope's /ingest does: http://HOST:PORT[/PATH] or unix:PATH" },
	{ "push-every", OPT_PUSH_EVERY, "TIME", "how often (default 15s)" },
	{ "push-label", OPT_PUSH_LABEL, "K=V", "a label of what is sent; may be repeated" },
	{ "stopped", 'S', NULL,
	  "start with the program stopped at its first instruction; `cont` runs it" },
	{ "no-follow", OPT_NO_FOLLOW, NULL, "leave forked and exec'd children alone" },
	{ "messages", OPT_MESSAGES, "FILE",
	  "mtrun's own text goes to FILE, apart from the program's stderr" },
	{ "quiet", 'q', NULL, "no summary at the end" },
	{ "verbose", 'v', NULL, "say more; may be repeated" },
	{ "color", OPT_COLOR, "WHEN", "auto (default), always or never" },
	{ "version", 'V', NULL, "print the version" },
	{ "help", 'h', NULL, "print this" },
};
#define OPTIONS (sizeof(table) / sizeof(*table))

/* Options about a program that runs, and how it is recorded: not with --replay. */
static const int running[] = {
	OPT_TREE,
	'l',
	OPT_ON_LIMIT,
	OPT_ERRORS,
	OPT_LIMIT_EXIT,
	'c',
	'i',
	'd',
	'o',
	OPT_DUMP_EVERY,
	OPT_DUMP_PEAK,
	OPT_DUMP_EXIT,
	OPT_LEAK_CHECK,
	OPT_LEAK_EXITCODE,
	OPT_SUPPRESSIONS,
	'm',
	OPT_LOG_DIR,
	OPT_LOG_SIZE,
	OPT_LOG_FILES,
	's',
	OPT_DEPTH,
	OPT_HOOK,
	'S',
	OPT_NO_FOLLOW,
};

static bool optional(size_t i) { return table[i].arg && table[i].arg[0] == '['; }

#define HELP_INDENT 28u /* columns before what an option does */

/*
 * TEXT after AT columns of INDENT: in lines as it has them, or folded between words where they are
 * at most WIDTH columns wide (0: elsewhere than on a terminal).
 */
static void put_folded(FILE *out, const char *text, size_t at, size_t indent, size_t width)
{
	bool begun = false;

	for (size_t len; *text; text += len + strspn(text + len, " \n")) {
		bool over;

		len = width ? strcspn(text, " \n") : strcspn(text, "\n");
		over = !width || at + 1 + len > width;
		if (begun && over) {
			putc('\n', out);
			layout_blanks(out, indent);
			at = indent;
		} else if (begun) {
			at += 1;
			putc(' ', out);
		}
		fwrite(text, 1, len, out);
		at += len;
		begun = true;
	}
	putc('\n', out);
}

static void help(FILE *out)
{
	static const char *const notes[] = {
		"SIZE: bytes, or with K, M, G, T (1024s), KB, MB, GB, TB (1000s). TIME: 250ms, 5s, 2m, 1h; a bare number is seconds.",
		"MT_MEMORY_LIMIT (bytes) and MT_PRINT_INTERVAL_MS in the environment are defaults of -l and -i.",
		"Commands for -x and -X: mtrun -x help true",
		("Exit status: 125 if mtrun or a command of -x, -X failed; --limit-exit; --leak-exitcode; the program's own; 126 if PROGRAM\n"
		 "cannot be run or supervised, 127 if it was not found. With -p and -r: 0."),
	};
	struct winsize size = { 0 };
	size_t width = ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col >= HELP_INDENT + 12
			       ? size.ws_col
			       : 0;

	fputs("Usage: mtrun [OPTION]... [--] PROGRAM [ARG]...\n"
	      "       mtrun [OPTION]... -p PID[,PID]...\n"
	      "       mtrun [OPTION]... -r PATH...\n",
	      out);
	put_folded(
		out,
		"Runs PROGRAM, or watches running processes, and tells what it has allocated: where, how much, since when; to the byte.",
		0, 0, width);
	putc('\n', out);
	for (size_t i = 0; i < OPTIONS; i++) {
		char left[64], brief[8] = "    ";

		if (table[i].value < 256)
			snprintf(brief, sizeof(brief), "-%c, ", table[i].value);
		snprintf(left, sizeof(left), "  %s--%s%s%s", brief, table[i].name,
			 table[i].arg && !optional(i) ? " " : "", table[i].arg ? table[i].arg : "");
		if (strlen(left) >= HELP_INDENT) {
			fprintf(out, "%s\n", left);
			left[0] = '\0';
		}
		fprintf(out, "%-*s", (int)HELP_INDENT, left);
		put_folded(out, table[i].help, HELP_INDENT, HELP_INDENT, width);
	}
	putc('\n', out);
	for (size_t i = 0; i < sizeof(notes) / sizeof(*notes); i++)
		put_folded(out, notes[i], 0, 0, width);
}

/* `heap,mmap,image` -> LEDGER_COUNT_* | COUNT_IMAGE. 0, -EINVAL */
static int parse_count(const char *list, unsigned *count)
{
	static const struct {
		const char *name;
		unsigned bit;
	} kinds[] = {
		{ "heap", LEDGER_COUNT_HEAP },
		{ "mmap", LEDGER_COUNT_MMAP },
		{ "image", COUNT_IMAGE },
	};
	unsigned bits = 0;

	for (;;) {
		size_t len = strcspn(list, ","), i;

		for (i = 0; i < 3; i++)
			if (strlen(kinds[i].name) == len && !strncmp(list, kinds[i].name, len))
				break;
		if (i == 3)
			return -EINVAL;
		bits |= kinds[i].bit;
		if (!list[len])
			break;
		list += len + 1;
	}
	*count = bits;
	return 0;
}

int options_limit(const char *text, uint64_t *limit)
{
	uint64_t n;

	if (size_parse(text, &n) || n == 0 || n > LIMIT_MAX)
		return -EINVAL;
	*limit = n;
	return 0;
}

int options_sample(const char *text, uint64_t *period)
{
	uint64_t n;

	if (size_parse(text, &n) || n == 0 || n > SAMPLE_MAX)
		return -EINVAL;
	*period = n;
	return 0;
}

int options_log_size(const char *text, uint64_t *size)
{
	uint64_t n;

	if (size_parse(text, &n) || n < LOG_SIZE_LEAST || n > LOG_SIZE_MOST)
		return -EINVAL;
	*size = n;
	return 0;
}

int options_log_files(const char *text, uint32_t *files)
{
	uint64_t n;

	if (number_parse(text, &n) || n < 1 || n > LOG_FILES_MOST)
		return -EINVAL;
	*files = (uint32_t)n;
	return 0;
}

int options_on_limit(const char *text, enum limit_action *action)
{
	for (int i = 0; i < LIMIT_ACTIONS; i++)
		if (!strcmp(text, limit_action_names[i])) {
			*action = (enum limit_action)i;
			return 0;
		}
	return -EINVAL;
}

int options_errors(const char *text, enum error_action *action)
{
	for (int i = 0; i < ERROR_ACTIONS; i++)
		if (!strcmp(text, error_action_names[i])) {
			*action = (enum error_action)i;
			return 0;
		}
	return -EINVAL;
}

int options_interval(const char *text, uint64_t *ms)
{
	uint64_t n;

	if (time_parse(text, &n) || n == 0 || n > INTERVAL_MAX)
		return -EINVAL;
	*ms = n;
	return 0;
}

int options_hook(const char *text, struct hook_request *hook)
{
	static const struct {
		const char *name;
		enum wire_hook_kind kind;
	} kinds[] = {
		{ "malloc", HOOK_GENERIC_MALLOC },
		{ "calloc", HOOK_GENERIC_CALLOC },
		{ "realloc", HOOK_GENERIC_REALLOC },
		{ "free", HOOK_GENERIC_FREE },
		{ "memalign", HOOK_GENERIC_MEMALIGN },
		{ "posix_memalign", HOOK_GENERIC_POSIX_MEMALIGN },
	};
	struct hook_request h = { .kind = HOOK_GENERIC_MALLOC };
	size_t len = strcspn(text, "=@"), i;
	uint64_t arg;

	if (len == 0 || len >= sizeof(h.name))
		return -EINVAL;
	memcpy(h.name, text, len);
	text += len;
	if (*text == '=') {
		len = strcspn(++text, "@");
		for (i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
			if (strlen(kinds[i].name) == len && !strncmp(text, kinds[i].name, len))
				break;
		if (i == sizeof(kinds) / sizeof(*kinds))
			return -EINVAL;
		h.kind = kinds[i].kind;
		text += len;
	}
	/*
	 * where the function of that name has it; realloc: the pointer, calloc: the count, with the
	 * size behind
	 */
	h.arg = h.kind == HOOK_GENERIC_MEMALIGN ? 1 : h.kind == HOOK_GENERIC_POSIX_MEMALIGN ? 2 : 0;
	if (*text == '@') {
		if (number_parse(text + 1, &arg) || arg < 1 || arg > 6)
			return -EINVAL;
		h.arg = (uint32_t)arg - 1;
	}
	*hook = h;
	return 0;
}

struct parse {
	struct options *o;
	char *why;
	size_t len;
	bool no_leak_check;   /* it was said */
	const char *of_a_run; /* the first option that needs one, by name; NULL: none */
};

static int PRINTF(2, 3) bad(struct parse *p, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(p->why, p->len, format, args);
	va_end(args);
	return -EINVAL;
}

static const char *name_of(int value)
{
	size_t i = 0;

	while (table[i].value != value)
		i++;
	return table[i].name;
}

/* 0 if ERR is 0, else -EINVAL: option C takes what is EXPECTED, and not VALUE. */
static int expect(struct parse *p, int err, int c, const char *value, const char *expected)
{
	return err ? bad(p, "--%s: invalid value '%s': expected %s", name_of(c), value, expected)
		   : 0;
}

static int set_number(struct parse *p, int c, const char *value, int least, int most, int *n)
{
	uint64_t number;

	if (number_parse(value, &number) || number < (uint64_t)least || number > (uint64_t)most)
		return bad(p, "--%s: invalid value '%s': expected a number from %d to %d",
			   name_of(c), value, least, most);
	*n = (int)number;
	return 0;
}

/* WHAT may not be empty. */
static int set_text(struct parse *p, int c, const char *value, const char *what, const char **text)
{
	if (!*value)
		return bad(p, "--%s: invalid value '': missing %s", name_of(c), what);
	*text = value;
	return 0;
}

static int add_script(struct parse *p, bool file, const char *text)
{
	struct script *s = reallocarray(p->o->script, p->o->nscripts + 1, sizeof(*s));

	if (!s)
		return bad(p, "out of memory");
	p->o->script = s;
	s[p->o->nscripts++] = (struct script){ file, text };
	return 0;
}

static int add_hook(struct parse *p, const char *text)
{
	struct hook_request *h = reallocarray(p->o->agent.hook, p->o->agent.nhooks + 1, sizeof(*h));

	if (!h)
		return bad(p, "out of memory");
	p->o->agent.hook = h;
	if (options_hook(text, &h[p->o->agent.nhooks]))
		return bad(
			p,
			"--hook: invalid value '%s': expected NAME[=KIND][@ARG], KIND one of malloc, calloc, realloc, free, memalign, posix_memalign,"
			" ARG from 1 to 6",
			text);
	p->o->agent.nhooks++;
	return 0;
}

static int add_pid(struct parse *p, const char *list, const char *text)
{
	struct options *o = p->o;
	uint64_t n;
	pid_t *more;

	if (number_parse(text, &n) || n < 1 || n > INT32_MAX)
		return bad(
			p,
			"--pid: invalid process id '%s' in '%s': expected numbers of processes, with commas between",
			text, list);
	for (size_t i = 0; i < o->npids; i++)
		if (o->pid[i] == (pid_t)n)
			return bad(p, "--pid: '%s' is there twice", text);
	more = reallocarray(o->pid, o->npids + 1, sizeof(*more));
	if (!more)
		return bad(p, "out of memory");
	o->pid = more;
	o->pid[o->npids++] = (pid_t)n;
	return 0;
}

static int add_pids(struct parse *p, const char *list)
{
	char *copy = strdup(list), *rest = copy, *text;
	int err = copy ? 0 : bad(p, "out of memory");

	while (!err && (text = strsep(&rest, ",")))
		err = add_pid(p, list, text);
	free(copy);
	return err;
}

static int add_suppressions(struct parse *p, const char *path)
{
	struct options *o = p->o;
	const char **more;

	if (!*path)
		return bad(p, "--suppressions: invalid value '': missing file name");
	more = reallocarray(o->suppressions, o->nsuppressions + 1, sizeof(*more));
	if (!more)
		return bad(p, "out of memory");
	o->suppressions = more;
	more[o->nsuppressions++] = path;
	return 0;
}

static int add_open(struct parse *p, const char *path)
{
	char **more;

	if (!*path)
		return bad(
			p,
			"--replay: invalid value '': missing name of a directory, log files, or a .heap file");
	more = reallocarray(p->o->open, p->o->nopens + 1, sizeof(*more));
	if (!more)
		return bad(p, "out of memory");
	p->o->open = more;
	more[p->o->nopens++] = (char *)path;
	return 0;
}

/* With -r nothing runs, so what would be done to a program has no meaning. */
static int check_open(struct parse *p)
{
	const struct options *o = p->o;

	if (!o->open)
		return 0;
	if (o->npids)
		return bad(p, "--replay cannot be combined with --pid");
	if (p->of_a_run)
		return bad(p, "--replay cannot be combined with --%s: nothing runs", p->of_a_run);
	return 0;
}

/* What goes with -p, and what goes only with it. */
static int check_attach(struct parse *p, const char *program)
{
	const struct options *o = p->o;

	if (!o->npids)
		return o->tree ? bad(p,
				     "--tree is only available with --pid: all children of a program that mtrun starts are supervised (--no-follow: none)")
			       : 0;
	if (program)
		return bad(p, "--pid starts no program: '%s' is not accepted behind it", program);
	if (o->start_stopped)
		return bad(
			p,
			"--stopped is not accepted with --pid: the process runs already (the command `stop` stops it)");
	if (o->tree && !o->follow)
		return bad(p, "--tree cannot be combined with --no-follow");
	return 0;
}

/* --leak-exitcode alone is enough, but not with --leak-check=no. */
static int check_leaks(struct parse *p)
{
	struct options *o = p->o;

	if (o->leak_exitcode && p->no_leak_check)
		return bad(p, "--leak-exitcode cannot be combined with --leak-check=no");
	if (o->leak_exitcode && !o->leak_check)
		o->leak_check = LEAK_CHECK_FULL;
	if (o->leak_check && (o->agent.sample || modes[o->mode].off))
		return bad(p, "--leak-check cannot be combined with %s: it needs every allocation",
			   o->agent.sample ? "--sample" : "--mode off");
	return 0;
}

static int set_leak_check(struct parse *p, const char *text)
{
	static const char *const when[] = { "no", "summary", "full" };

	for (int i = 0; i < 3; i++)
		if (!text || !strcmp(text, when[i])) {
			p->o->leak_check = text ? (enum leak_check)i : LEAK_CHECK_FULL;
			p->no_leak_check = text && i == LEAK_CHECK_NO;
			return 0;
		}
	return expect(p, -EINVAL, OPT_LEAK_CHECK, text, "full, summary or no");
}

static int set_color(struct parse *p, const char *text)
{
	static const char *const when[] = { "never", "auto", "always" };

	for (int i = 0; i < 3; i++)
		if (!strcmp(text, when[i])) {
			p->o->color = i;
			return 0;
		}
	return expect(p, -EINVAL, OPT_COLOR, text, "auto, always or never");
}

static int add_text(struct parse *p, char ***list, size_t *count, const char *text)
{
	char **more = reallocarray(*list, *count + 2, sizeof(*more));

	if (!more)
		return bad(p, "out of memory");
	*list = more;
	more[(*count)++] = (char *)text;
	more[*count] = NULL;
	return 0;
}

static int add_listen_host(struct parse *p, const char *name)
{
	int err = set_text(p, OPT_LISTEN_HOST, name, "host name", &name);

	return err ? err : add_text(p, &p->o->listen_host, &p->o->nlisten_hosts, name);
}

static int add_push_label(struct parse *p, const char *text)
{
	size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");

	if (!n || text[n] != '=' || (*text >= '0' && *text <= '9') || strpbrk(text, "\"\\\n{},"))
		return expect(
			p, -EINVAL, OPT_PUSH_LABEL, text,
			"K=V, K of letters, digits and _, V without quotes, backslashes, braces and commas");
	return add_text(p, &p->o->push_label, &p->o->npush_labels, text);
}

static int set_depth(struct parse *p, const char *text)
{
	int depth = 0, err = set_number(p, OPT_DEPTH, text, 1, WIRE_DEPTH, &depth);

	p->o->agent.depth = (uint32_t)depth;
	return err;
}

static int set_push_every(struct parse *p, const char *text)
{
	uint64_t *ms = &p->o->push_every_ms;

	return expect(p, options_interval(text, ms) || *ms < 1000, OPT_PUSH_EVERY, text,
		      TIME_ACCEPTED ", at least 1s");
}

static int set_output(struct parse *p, const char *prefix)
{
	p->o->dump_exit = true;
	return set_text(p, 'o', prefix, "prefix of the names of .heap files", &p->o->output);
}

static int apply(struct parse *p, int c, const char *arg)
{
	struct options *o = p->o;
	int err = 0;
	const char *expected = NULL;

	switch (c) {
	case 'x': return add_script(p, false, arg);
	case 'X': return add_script(p, true, arg);
	case 'p': return add_pids(p, arg);
	case 'r': return add_open(p, arg);
	case 'o': return set_output(p, arg);
	case OPT_HOOK: return add_hook(p, arg);
	case OPT_LISTEN_HOST: return add_listen_host(p, arg);
	case OPT_PUSH_EVERY: return set_push_every(p, arg);
	case OPT_PUSH_LABEL: return add_push_label(p, arg);
	case OPT_LEAK_CHECK: return set_leak_check(p, arg);
	case OPT_SUPPRESSIONS: return add_suppressions(p, arg);
	case OPT_COLOR: return set_color(p, arg);
	case OPT_LOG_DIR: return set_text(p, c, arg, "directory name", &o->log_dir);
	case OPT_MESSAGES: return set_text(p, c, arg, "file name", &o->messages);
	case OPT_LIMIT_EXIT: return set_number(p, c, arg, 0, 255, &o->limit_exit);
	case OPT_LEAK_EXITCODE: return set_number(p, c, arg, 1, 255, &o->leak_exitcode);
	case OPT_DEPTH: return set_depth(p, arg);
	case OPT_LISTEN: o->listen = arg; return 0;
	case OPT_LISTEN_TOKEN: o->listen_token = arg; return 0;
	case OPT_PUSH: o->push = arg; return 0;
	case OPT_TREE: o->tree = true; return 0;
	case OPT_NO_FOLLOW: o->follow = false; return 0;
	case OPT_DUMP_PEAK: o->dump_peak = true; return 0;
	case OPT_DUMP_EXIT: o->dump_exit = true; return 0;
	case 'S': o->start_stopped = true; return 0;
	case 'q': o->quiet = true; return 0;
	case 'v': o->verbose++; return 0;

	case 'c':
		err = parse_count(arg, &o->count);
		expected = "any of heap,mmap,image, with commas between";
		break;
	case 'l':
		err = options_limit(arg, &o->limit);
		expected = LIMIT_ACCEPTED;
		break;
	case OPT_ON_LIMIT:
		err = options_on_limit(arg, &o->on_limit);
		expected = ON_LIMIT_ACCEPTED;
		break;
	case OPT_ERRORS:
		err = options_errors(arg, &o->errors);
		expected = ERRORS_ACCEPTED;
		break;
	case 'i':
		o->interval_ms = INTERVAL_MS;
		err = arg ? options_interval(arg, &o->interval_ms) : 0;
		expected = INTERVAL_ACCEPTED;
		break;
	case 'd':
		err = time_parse(arg, &o->duration_ms) || !o->duration_ms;
		expected = TIME_ACCEPTED ", more than 0";
		break;
	case 'm':
		err = mode_parse(arg, &o->mode);
		expected = MODE_ACCEPTED;
		break;
	case OPT_LOG_SIZE:
		err = options_log_size(arg, &o->log_size);
		expected = LOG_SIZE_ACCEPTED;
		break;
	case OPT_LOG_FILES:
		err = options_log_files(arg, &o->log_files);
		expected = LOG_FILES_ACCEPTED;
		break;
	case 's':
		err = options_sample(arg, &o->agent.sample);
		expected = SAMPLE_ACCEPTED;
		break;
	case OPT_DUMP_EVERY:
		err = size_parse(arg, &o->dump_every) || !o->dump_every;
		expected = SIZE_ACCEPTED ", more than 0";
		break;
	default: return bad(p, "unknown option");
	}
	return expect(p, err, c, arg, expected);
}

/* C has been given. */
static void note(struct parse *p, int c)
{
	for (size_t i = 0; i < sizeof(running) / sizeof(*running) && !p->of_a_run; i++)
		if (running[i] == c)
			p->of_a_run = name_of(c);
}

static void getopt_tables(char *brief, struct option *names)
{
	*brief++ = '+'; /* the first word that is no option is PROGRAM */
	*brief++ = ':';
	for (size_t i = 0; i < OPTIONS; i++) {
		names[i] = (struct option){ table[i].name,
					    !table[i].arg ? no_argument
					    : optional(i) ? optional_argument
							  : required_argument,
					    NULL, table[i].value };
		if (table[i].value >= 256)
			continue;
		*brief++ = (char)table[i].value;
		if (table[i].arg)
			*brief++ = ':';
		if (optional(i))
			*brief++ = ':';
	}
	*brief = '\0';
	names[OPTIONS] = (struct option){ 0 };
}

static int unknown_long(struct parse *p, const char *word)
{
	char typed[64], text[64];
	struct nearest n = { .word = typed };

	snprintf(typed, sizeof(typed), "%.*s", (int)strcspn(word + 2, "="), word + 2);
	for (size_t i = 0; i < OPTIONS; i++)
		nearest_offer(&n, table[i].name);
	return bad(p, "unknown option '%s'%s", word,
		   nearest_text(&n, "--", " (mtrun --help lists all)", text, sizeof(text)));
}

/* What getopt did not understand, quoted as it was written. */
static int unknown(struct parse *p, char **argv, int before)
{
	const char *word = argv[before];

	if (optopt && (optopt >= 256 || strncmp(word, "--", 2) == 0)) {
		for (size_t i = 0; i < OPTIONS; i++)
			if (table[i].value == optopt && !table[i].arg)
				return bad(p, "option '%s' takes no value (mtrun --help lists all)",
					   word);
	}
	if (!strncmp(word, "--", 2))
		return unknown_long(p, word);
	return bad(p, "unknown option '-%c' (mtrun --help lists all)", optopt);
}

/*
 * As MemTracer has them. What they say is refused or taken as strictly as on the command line,
 * which goes before.
 */
static int environment(struct parse *p)
{
	const char *limit = getenv("MT_MEMORY_LIMIT"), *interval = getenv("MT_PRINT_INTERVAL_MS");
	struct options *o = p->o;
	uint64_t bytes, ms;

	if (o->open) /* nothing runs */
		return 0;
	if (limit && (number_parse(limit, &bytes) || bytes == 0 || bytes > LIMIT_MAX))
		return bad(
			p,
			"MT_MEMORY_LIMIT: invalid value '%s': expected a number of bytes, more than 0 and below 2^63",
			limit);
	if (interval && (number_parse(interval, &ms) || ms == 0 || ms > INTERVAL_MAX))
		return bad(
			p,
			"MT_PRINT_INTERVAL_MS: invalid value '%s': expected a number of milliseconds, more than 0",
			interval);
	if (o->agent.sample && (limit || o->limit))
		return bad(p, "--sample cannot be combined with %s: a limit needs every allocation",
			   o->limit ? "--limit" : "MT_MEMORY_LIMIT in the environment");
	if (modes[o->mode].off && (limit || o->limit))
		return bad(p,
			   "--mode off cannot be combined with %s: a limit needs every allocation",
			   o->limit ? "--limit" : "MT_MEMORY_LIMIT in the environment");
	if (limit && !o->limit)
		o->limit = bytes;
	if (!o->interval_ms)
		o->interval_ms = interval ? ms : limit ? INTERVAL_MS : 0;
	return 0;
}

/* `-i 5s PROGRAM`: a value that may be left out stands in the option's own word. */
static int stray_time(struct parse *p, int argc, char **argv)
{
	uint64_t ms;

	if (optind >= argc || optind < 2 ||
	    (strcmp(argv[optind - 1], "-i") && strcmp(argv[optind - 1], "--interval")) ||
	    time_parse(argv[optind], &ms))
		return 0;
	return bad(p,
		   "--interval: '%s' is not accepted as a word of its own: -i%s or --interval=%s",
		   argv[optind], argv[optind], argv[optind]);
}

enum options_result options_parse(struct options *o, int argc, char **argv, FILE *out, char *why,
				  size_t len)
{
	struct parse p = { .o = o, .why = why, .len = len };
	struct option names[OPTIONS + 1];
	char brief[3 * OPTIONS + 3];
	int c, before, stdin_scripts = 0;

	*o = (struct options){ .count = LEDGER_COUNT_HEAP | LEDGER_COUNT_MMAP | COUNT_IMAGE,
			       .agent.depth = 128,
			       .follow = true,
			       .color = 1,
			       .limit_exit = -1,
			       .log_dir = ".",
			       .log_size = LOG_SIZE,
			       .log_files = LOG_FILES,
			       .push_every_ms = PUSH_MS };
	getopt_tables(brief, names);
	opterr = 0;
	optind = 0;
	for (;;) {
		before = optind ? optind : 1;
		c = getopt_long(argc, argv, brief, names, NULL);
		/*
		 * no program: words are more of what -r opens, and options may follow, until `--`
		 */
		if (c == -1 && o->open && optind < argc && strcmp(argv[before], "--")) {
			if (add_open(&p, argv[optind++]))
				return OPTIONS_BAD;
			continue;
		}
		if (c == -1)
			break;
		if (c == 'h') {
			help(out);
			return OPTIONS_DONE;
		}
		if (c == 'V') {
			fprintf(out, "mtrun %s\n", MTRUN_VERSION);
			return OPTIONS_DONE;
		}
		if (c == '?')
			return unknown(&p, argv, before), OPTIONS_BAD;
		if (c == ':')
			return bad(&p, "option '%s' needs a value (mtrun --help lists all)",
				   argv[before]),
			       OPTIONS_BAD;
		if (apply(&p, c, optarg))
			return OPTIONS_BAD;
		note(&p, c);
	}
	/* getopt itself goes back to the first word behind `--` when it is called once more */
	while (o->open && optind < argc)
		if (add_open(&p, argv[optind++]))
			return OPTIONS_BAD;
	for (size_t i = 0; i < o->nscripts; i++)
		stdin_scripts += o->script[i].file && !strcmp(o->script[i].text, "-");
	o->stdin_null = stdin_scripts > 0;
	if (stdin_scripts > 1)
		return bad(&p, "--script: '-' is accepted once: stdin can be read only once"),
		       OPTIONS_BAD;
	if (check_open(&p) || check_leaks(&p) || environment(&p) || stray_time(&p, argc, argv) ||
	    check_attach(&p, argv[optind]))
		return OPTIONS_BAD;
	if (optind >= argc && !o->npids && !o->open)
		return bad(&p,
			   "PROGRAM is missing: mtrun [OPTION]... [--] PROGRAM [ARG]..., or -p PID (mtrun --help says more)"),
		       OPTIONS_BAD;
	o->argv = o->npids || o->open ? NULL : argv + optind;
	o->sampled = o->agent.sample;
	o->batch = o->nscripts || o->duration_ms || !isatty(0) || !isatty(2);
	return OPTIONS_RUN;
}
