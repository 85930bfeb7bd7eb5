// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/escape.h"
#include "base/json.h"
#include "base/outside.h"
#include "base/pattern.h"
#include "report/function_name.h"
#include "report/print.h"
#include "report/view.h"
#include "session/asking.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/reporting.h"
#include "shell/common/shell.h"

/*
 * `list`: a function's source with bytes beside its lines, as jeprof's. The source is looked for
 * where the debug information says, as the target sees it and with its rights (outside.h).
 */
enum { ARG_BYTES };

static const struct argument arguments[] = { [ARG_BYTES] = { "bytes", 0, false }, ARGUMENTS_END };

/* lines shown before the first and after the last that hold something */
#define AROUND 5

/* A file's text, read at once and up to a bound: it may grow while it is shown. */
struct source {
	char *text, *at;
	size_t size;
};

static int source_read(struct source *source, int fd)
{
	struct stat st;
	ssize_t n = 1;

	if (fstat(fd, &st))
		return -errno;
	source->text = source->at = malloc((size_t)st.st_size + 1);
	if (!source->text)
		return -ENOMEM;
	while (n > 0 && source->size < (size_t)st.st_size) {
		n = read(fd, source->text + source->size, (size_t)st.st_size - source->size);
		source->size += n > 0 ? (size_t)n : 0;
	}
	return n < 0 ? -errno : 0;
}

static int source_open(struct source *source, const struct process *p, const char *path)
{
	int fd = path ? outside_open(p->outside, path, OUTSIDE_SOURCE) : -ENOENT, err;

	*source = (struct source){ 0 };
	if (fd < 0)
		return fd;
	err = source_read(source, fd);
	close(fd);
	if (err) {
		free(source->text);
		*source = (struct source){ 0 };
	}
	return err;
}

/* The next line without its end. False: there is none. */
static bool source_line(struct source *source, const char **line, size_t *len)
{
	size_t left = source->text ? source->size - (size_t)(source->at - source->text) : 0;
	const char *end = left ? memchr(source->at, '\n', left) : NULL;

	if (!left)
		return false;
	*line = source->at;
	*len = end ? (size_t)(end - source->at) : left;
	source->at += end ? *len + 1 : left;
	return true;
}

struct style {
	const struct layout *layout;
	bool exact;	   /* bytes, not MB, or on a terminal what fits */
	const char *about; /* before a number */
};

static const char *amount(char text[24], int64_t bytes, const struct style *style)
{
	struct text_buffer size;

	if (!bytes)
		return ".";
	if (style->exact)
		snprintf(text, 24, "%s%" PRId64, style->about, bytes);
	else if (style->layout->columns)
		snprintf(text, 24, "%s%.20s", style->about, layout_amount(&size, bytes));
	else
		snprintf(text, 24, "%s%.1f", style->about, (double)bytes / 1048576);
	return text;
}

#define BEFORE_SOURCE 29 /* columns */
#define TAB	      8

/* What fits of a source line, its tabs as blanks; nobody reads the 4000th column of one. */
static void screen_source(FILE *out, const char *source, size_t len, const struct layout *l)
{
	char text[4096];
	size_t n = 0;

	for (size_t i = 0; i < len && n + TAB < sizeof(text); i++) {
		if (source[i] != '\t') {
			text[n++] = source[i];
			continue;
		}
		do
			text[n++] = ' ';
		while (n % TAB);
	}
	text[n] = '\0';
	layout_put_source(l, out, text,
			  l->columns > BEFORE_SOURCE + 10 ? l->columns - BEFORE_SOURCE - 1 : 10);
}

static void row(FILE *out, const struct listing_line *l, unsigned number, const char *source,
		size_t len, const struct style *style)
{
	char flat[24], cum[24];

	escape_printf(out, "%10s %10s %5u: ", amount(flat, l ? l->flat : 0, style),
		      amount(cum, l ? l->cum : 0, style), number);
	len -= len && source[len - 1] == '\r';
	if (style->layout->columns)
		screen_source(out, source, len, style->layout);
	else
		escape_put_line(out, source, len);
	putc('\n', out);
}

/*
 * Lines that are no longer in the file are shown without their source; line 0 is code that belongs
 * to no line.
 */
static void print_lines(FILE *out, const struct listing_function *f, struct source *source,
			const struct style *style)
{
	static const char none[] = "(no line is known)";
	size_t len, i = f->line[0].line == 0;
	unsigned first = f->line[i].line, last = f->line[f->count - 1].line, number = 0;
	const char *gone = source->text ? "(not in the file any more)" : "", *text;

	if (i)
		row(out, &f->line[0], 0, none, strlen(none), style);
	first = first > AROUND ? first - AROUND : 1;
	last = last < UINT_MAX - AROUND ? last + AROUND : UINT_MAX;
	while (number < last && source_line(source, &text, &len)) {
		const struct listing_line *l = NULL;

		number++;
		while (i < f->count && f->line[i].line < number)
			i++;
		if (i < f->count && f->line[i].line == number)
			l = &f->line[i++];
		if (number >= first)
			row(out, l, number, text, len, style);
	}
	for (; i < f->count; i++)
		row(out, &f->line[i], f->line[i].line, gone, strlen(gone), style);
}

#define ROUTINE "ROUTINE ====================== "

static void print_head(FILE *out, const struct listing_function *f, const struct layout *l)
{
	const char *file = f->file ? f->file : f->module ? f->module : "??";

	if (!l->columns) {
		escape_printf(out, ROUTINE "%s in %s\n", f->function, file);
		return;
	}
	function_put(l, out, f->function, l->columns - 1);
	fputs("\n  in ", out);
	layout_put_path(l, out, file, l->columns > 16 ? l->columns - 6 : 10);
	putc('\n', out);
}

static void print_text(struct shell *shell, FILE *out, const struct listing *l,
		       const struct process *p, const struct style *style)
{
	const char *unit = style->exact ? " B" : style->layout->columns ? "" : " MB";
	char total[24], flat[24], cum[24];

	escape_printf(out, "Total: %s%s\n", amount(total, l->total, style), unit);
	for (size_t i = 0; i < l->count; i++) {
		const struct listing_function *f = &l->function[i];
		struct source source;
		int err;

		asking_unlock(shell->session);
		err = source_open(&source, p, f->file);
		asking_lock(shell->session);

		print_head(out, f, style->layout);
		escape_printf(out, "%10s %10s Total (flat / cumulative)\n",
			      amount(flat, f->flat, style), amount(cum, f->cum, style));
		if (!f->line[f->count - 1].line)
			fputs("no line is known of it: there is no debug information\n", out);
		else if (err == -ENOENT)
			escape_printf(out, "its source was not found: '%s'\n", f->file);
		else if (err)
			escape_printf(out, "source not readable: '%s': %s\n", f->file,
				      outside_error(err));
		if (f->line[f->count - 1].line)
			print_lines(out, f, &source, style);
		free(source.text);
	}
}

static void print_json(FILE *out, const struct listing *l)
{
	struct json j;

	json_init(&j, out);
	json_object(&j, NULL);
	json_int(&j, "total", l->total);
	json_array(&j, "functions");
	for (size_t i = 0; i < l->count; i++) {
		const struct listing_function *f = &l->function[i];

		json_newline(&j);
		json_object(&j, NULL);
		json_string(&j, "function", f->function);
		json_string(&j, "file", f->file);
		json_string(&j, "module", f->module);
		json_int(&j, "flat", f->flat);
		json_int(&j, "cum", f->cum);
		json_array(&j, "lines");
		for (size_t k = 0; k < f->count; k++) {
			json_object(&j, NULL);
			json_uint(&j, "line", f->line[k].line);
			json_int(&j, "flat", f->line[k].flat);
			json_int(&j, "cum", f->line[k].cum);
			json_end_object(&j);
		}
		json_end_array(&j);
		json_end_object(&j);
	}
	json_end_array(&j);
	json_end_object(&j);
	json_finish(&j);
}

/* First as a name; if there is no such function, as a regular expression. */
static int make(struct shell *shell, struct call *call, const char *name, struct listing *l)
{
	struct profile profile;
	struct sites *sites;
	const char *why;
	regex_t regex;
	int err;

	if (reporting_live(shell, call, NULL, true, &profile, &sites))
		return -1;
	asking_unlock(shell->session);
	err = listing_make(l, &profile, sites, name, NULL);
	if (!err && !l->count && !pattern_compile(&regex, name, &why)) {
		err = listing_make(l, &profile, sites, name, &regex);
		regfree(&regex);
	}
	asking_lock(shell->session);
	profile_release(&profile);
	if (err)
		return shell_failed(shell, call, err);
	return l->count ? 0
			: shell_error(shell, call,
				      "no function '%s' is in the stack of anything that is live",
				      name);
}

static int list(struct shell *shell, struct call *call)
{
	const char *name = NULL;
	struct listing l;
	struct arguments a;
	bool bytes = false;
	int arg;

	arguments_init(&a, shell, call, arguments);
	while ((arg = arguments_next(&a)) != ARG_END) {
		if (arg == ARG_BAD)
			return -1;
		if (arg == ARG_WORD && name)
			return shell_error(
				shell, call,
				"unexpected argument '%s' (quote a name that has blanks in it)",
				a.value);
		bytes |= arg == ARG_BYTES;
		if (arg == ARG_WORD)
			name = a.value;
	}
	if (!name || !*name)
		return shell_error(shell, call, "missing function name");
	if (make(shell, call, name, &l))
		return -1;
	if (call->json)
		print_json(call->out, &l);
	else
		print_text(shell, call->out, &l, shell_subject(shell),
			   &(struct style){ &call->layout, bytes, print_about(l.estimated) });
	listing_release(&l);
	return 0;
}

const struct command cmd_list = {
	.name = "list",
	.usage = "FUNC [--bytes] [--full] [--json]",
	.summary = "a function's source lines with the bytes beside them",
	.example = "list parse_row",
	.help = "Columns: flat (what the line itself asked an allocator for), cumulative (with everything that was called from it), line, source; in MB\n"
		"(1048576 bytes), on a terminal in units that fit, with --bytes in bytes. FUNC is a name, without its parameters, with or without its namespaces; if there is no\n"
		"such function it is a POSIX extended regular expression. Inlined functions have their lines, too. --full: names whole.",
	.flags = COMMAND_LIST | COMMAND_JSON | COMMAND_RECORD | COMMAND_FULL,
	.run = list,
};
