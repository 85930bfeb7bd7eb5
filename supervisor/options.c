/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "units.h"

/*
 * One table holds each option with what --help says of it; getopt's own tables are made from it, so that nothing is accepted that is not
 * documented. Options end at the first word that is none: what follows belongs to the program.
 */
#ifndef MTRUN_VERSION
#define MTRUN_VERSION "0"
#endif

enum { OPT_DEPTH = 256, OPT_HOOK, OPT_NO_FOLLOW, OPT_MESSAGES, OPT_COLOR };

static const struct {
	const char *name;
	int value;			/* below 256: the short form */
	const char *arg;
	const char *help;
} table[] = {
	{ "count", 'c', "LIST", "what counts as allocated: any of heap,mmap,image (default: all three)" },
	{ "execute", 'x', "CMDS", "run shell commands while the program runs; may be repeated" },
	{ "script", 'X', "FILE", "run shell commands from FILE (-: stdin; the program's stdin is then /dev/null)" },
	{ "duration", 'd', "TIME", "stop tracing after TIME, then wait for the program" },
	{ "depth", OPT_DEPTH, "N", "most frames kept per stack (default 128, at most 1024)" },
	{ "hook", OPT_HOOK, "NAME[=KIND][@ARG]",
	  "NAME is an allocator function of the program: KIND malloc (default), calloc, realloc, free, memalign or\n"
	  "posix_memalign; ARG the position (from 1) of its size; free: of the pointer; realloc, calloc: of the\n"
	  "pointer, the count, with the size behind it; may be repeated" },
	{ "stopped", 'S', NULL, "start with the program stopped at its first instruction; `cont` runs it" },
	{ "no-follow", OPT_NO_FOLLOW, NULL, "leave forked and exec'd children alone" },
	{ "messages", OPT_MESSAGES, "FILE", "mtrun's own text goes to FILE, apart from the program's stderr" },
	{ "quiet", 'q', NULL, "no summary at the end" },
	{ "verbose", 'v', NULL, "say more; may be repeated" },
	{ "color", OPT_COLOR, "WHEN", "auto (default), always or never" },
	{ "version", 'V', NULL, "print the version" },
	{ "help", 'h', NULL, "print this" },
};
#define OPTIONS (sizeof(table) / sizeof(*table))

static void help(FILE *out)
{
	fputs("Usage: mtrun [OPTION]... [--] PROGRAM [ARG]...\n"
	      "Runs PROGRAM and tells what it has allocated: where, how much, since when; to the byte.\n\n", out);
	for (size_t i = 0; i < OPTIONS; i++) {
		char left[64], brief[8] = "    ";
		const char *text = table[i].help, *line;
		bool first = true;

		if (table[i].value < 256)
			snprintf(brief, sizeof(brief), "-%c, ", table[i].value);
		snprintf(left, sizeof(left), "  %s--%s%s%s", brief, table[i].name, table[i].arg ? " " : "", table[i].arg ? table[i].arg : "");
		if (strlen(left) > 27) {
			fprintf(out, "%s\n", left);
			left[0] = '\0';
		}
		for (; text; text = line ? line + 1 : NULL) {
			line = strchr(text, '\n');
			fprintf(out, "%-28s%.*s\n", first ? left : "", line ? (int)(line - text) : (int)strlen(text), text);
			first = false;
		}
	}
	fputs("\nTIME: 250ms, 5s, 2m, 1h; a bare number is seconds. Commands for -x and -X: mtrun -x help true\n"
	      "Exit status: the program's own; 125 if mtrun or a command of -x, -X failed, 126 if PROGRAM cannot be run or supervised,\n"
	      "127 if it was not found.\n", out);
}

int options_count(const char *list, unsigned *count)
{
	static const struct { const char *name; unsigned bit; } kinds[] = {
		{ "heap", LEDGER_COUNT_HEAP }, { "mmap", LEDGER_COUNT_MMAP }, { "image", COUNT_IMAGE },
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

int options_hook(const char *text, struct hook_request *hook)
{
	static const struct { const char *name; enum wire_hook_kind kind; } kinds[] = {
		{ "malloc", HOOK_GENERIC_MALLOC }, { "calloc", HOOK_GENERIC_CALLOC }, { "realloc", HOOK_GENERIC_REALLOC },
		{ "free", HOOK_GENERIC_FREE }, { "memalign", HOOK_GENERIC_MEMALIGN }, { "posix_memalign", HOOK_GENERIC_POSIX_MEMALIGN },
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
	/* where the function of that name has it; realloc: the pointer, calloc: the count, with the size behind */
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
};

static int PRINTF(2, 3) bad(struct parse *p, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(p->why, p->len, format, args);
	va_end(args);
	for (char *c = p->why; *c; c++)		/* one line, whatever was quoted */
		if (*c == '\n')
			*c = ' ';
	return -EINVAL;
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
	struct hook_request *h = reallocarray(p->o->hook, p->o->nhooks + 1, sizeof(*h));

	if (!h)
		return bad(p, "out of memory");
	p->o->hook = h;
	if (options_hook(text, &h[p->o->nhooks]))
		return bad(p, "--hook: '%s' is not accepted: NAME[=KIND][@ARG], KIND one of malloc, calloc, realloc, free, memalign, posix_memalign,"
			   " ARG from 1 to 6", text);
	p->o->nhooks++;
	return 0;
}

static int set_color(struct parse *p, const char *text)
{
	static const char *const when[] = { "never", "auto", "always" };

	for (int i = 0; i < 3; i++)
		if (!strcmp(text, when[i])) {
			p->o->color = i;
			return 0;
		}
	return bad(p, "--color: '%s' is not accepted: auto, always or never", text);
}

static int apply(struct parse *p, int c, const char *arg)
{
	struct options *o = p->o;
	uint64_t n;

	switch (c) {
	case 'c':
		return options_count(arg, &o->count) ? bad(p, "--count: '%s' is not accepted: any of heap,mmap,image, with commas between", arg) : 0;
	case 'x':
		return add_script(p, false, arg);
	case 'X':
		return add_script(p, true, arg);
	case 'd':
		if (time_parse(arg, &n) || n == 0)
			return bad(p, "--duration: '%s' is not accepted: " TIME_ACCEPTED ", more than 0", arg);
		o->duration_ms = n;
		return 0;
	case OPT_DEPTH:
		if (number_parse(arg, &n) || n < 1 || n > WIRE_DEPTH)
			return bad(p, "--depth: '%s' is not accepted: a number from 1 to %u", arg, WIRE_DEPTH);
		o->depth = (uint32_t)n;
		return 0;
	case OPT_HOOK:
		return add_hook(p, arg);
	case 'S': o->start_stopped = true; return 0;
	case OPT_NO_FOLLOW: o->follow = false; return 0;
	case OPT_MESSAGES:
		if (!*arg)
			return bad(p, "--messages: '' is not accepted: the name of a file");
		o->messages = arg;
		return 0;
	case 'q': o->quiet = true; return 0;
	case 'v': o->verbose++; return 0;
	case OPT_COLOR:
		return set_color(p, arg);
	}
	return bad(p, "unknown option");
}

static void getopt_tables(char *brief, struct option *names)
{
	*brief++ = '+';			/* the first word that is no option is PROGRAM */
	*brief++ = ':';
	for (size_t i = 0; i < OPTIONS; i++) {
		names[i] = (struct option){ table[i].name, table[i].arg ? required_argument : no_argument, NULL, table[i].value };
		if (table[i].value >= 256)
			continue;
		*brief++ = (char)table[i].value;
		if (table[i].arg)
			*brief++ = ':';
	}
	*brief = '\0';
	names[OPTIONS] = (struct option){ 0 };
}

/* What getopt did not understand, quoted as it was written. */
static int unknown(struct parse *p, char **argv, int before)
{
	const char *word = argv[before];

	if (optopt && (optopt >= 256 || strncmp(word, "--", 2) == 0)) {
		for (size_t i = 0; i < OPTIONS; i++)
			if (table[i].value == optopt && !table[i].arg)
				return bad(p, "option '%s' takes no value (mtrun --help lists all)", word);
	}
	if (!strncmp(word, "--", 2))
		return bad(p, "unknown option '%s' (mtrun --help lists all)", word);
	return bad(p, "unknown option '-%c' (mtrun --help lists all)", optopt);
}

enum options_result options_parse(struct options *o, int argc, char **argv, FILE *out, char *why, size_t len)
{
	struct parse p = { o, why, len };
	struct option names[OPTIONS + 1];
	char brief[2 * OPTIONS + 3];
	int c, before, stdin_scripts = 0;

	*o = (struct options){ .count = LEDGER_COUNT_HEAP | LEDGER_COUNT_MMAP | COUNT_IMAGE, .depth = 128, .follow = true, .color = 1, .limit_exit = -1 };
	getopt_tables(brief, names);
	opterr = 0;
	optind = 0;
	for (;;) {
		before = optind ? optind : 1;
		c = getopt_long(argc, argv, brief, names, NULL);
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
			return bad(&p, "option '%s' needs a value (mtrun --help lists all)", argv[before]), OPTIONS_BAD;
		if (apply(&p, c, optarg))
			return OPTIONS_BAD;
	}
	for (size_t i = 0; i < o->nscripts; i++)
		stdin_scripts += o->script[i].file && !strcmp(o->script[i].text, "-");
	o->stdin_null = stdin_scripts > 0;
	if (stdin_scripts > 1)
		return bad(&p, "--script: '-' is accepted once: stdin can be read only once"), OPTIONS_BAD;
	if (optind >= argc)
		return bad(&p, "PROGRAM is missing: mtrun [OPTION]... [--] PROGRAM [ARG]... (mtrun --help says more)"), OPTIONS_BAD;
	o->argv = argv + optind;
	o->batch = o->nscripts || o->duration_ms || !isatty(0) || !isatty(2);
	return OPTIONS_RUN;
}
