// SPDX-License-Identifier: GPL-3.0-or-later
#include "test.h"

#include <errno.h>

#include "shell/prompt/grammar.h"

static bool takes_rest(const char *name) { return !strcmp(name, "wait") || !strcmp(name, "!"); }

/* Commands as "[a][b] > target" lines, errors as "error: why", what is open as "more". */
static const char *parsed(const char *text)
{
	static char out[4096];
	struct grammar g = { .at = text, .line = 1, .takes_rest = takes_rest };
	struct statement s;
	size_t n = 0;
	int r;

	out[0] = '\0';
	while ((r = grammar_next(&g, &s)) != 0) {
		if (r == -EAGAIN) {
			n += (size_t)snprintf(out + n, sizeof(out) - n, "more\n");
			break;
		}
		if (r < 0) {
			n += (size_t)snprintf(out + n, sizeof(out) - n, "error: %s\n", g.why);
			continue;
		}
		for (int i = 0; i < s.argc; i++)
			n += (size_t)snprintf(out + n, sizeof(out) - n, "[%s]", s.argv[i]);
		if (s.rest)
			n += (size_t)snprintf(out + n, sizeof(out) - n, " (%s)", s.rest);
		if (s.redirect)
			n += (size_t)snprintf(out + n, sizeof(out) - n, " %s <%s>",
					      s.redirect == REDIRECT_WRITE    ? ">"
					      : s.redirect == REDIRECT_APPEND ? ">>"
									      : "|",
					      s.target);
		n += (size_t)snprintf(out + n, sizeof(out) - n, "\n");
		statement_release(&s);
	}
	return out;
}

static void words(void)
{
	CHECK_STR(parsed(""), "");
	CHECK_STR(parsed("  \n ;; # only a comment\n"), "");
	CHECK_STR(parsed("report -n 20; status"), "[report][-n][20]\n[status]\n");
	CHECK_STR(parsed("a b\nc d # e\nf"), "[a][b]\n[c][d]\n[f]\n");
	CHECK_STR(parsed("echo a#b"), "[echo][a#b]\n");
	CHECK_STR(parsed("a;b;c"), "[a]\n[b]\n[c]\n");
	CHECK_STR(parsed("one \\\n two"), "[one][two]\n");
}

static void quoting(void)
{
	CHECK_STR(parsed("echo 'a b' \"c d\" e\\ f"), "[echo][a b][c d][e f]\n");
	CHECK_STR(parsed("echo 'a;b' \"#c\" \\;"), "[echo][a;b][#c][;]\n");
	CHECK_STR(parsed("echo \"a\\\"b\\\\c\\.d\" 'e\\f'"), "[echo][a\"b\\c\\.d][e\\f]\n");
	CHECK_STR(parsed("echo '' \"\""), "[echo][][]\n");
	CHECK_STR(parsed("echo x'y z'w"), "[echo][xy zw]\n");
	CHECK_STR(parsed("echo 'open"), "more\n");
	CHECK_STR(parsed("echo \"open"), "more\n");
	CHECK_STR(parsed("echo 'two\nlines'; b"), "[echo][two\nlines]\n[b]\n");
}

static void redirections(void)
{
	CHECK_STR(parsed("report --json > r.json; status"),
		  "[report][--json] > <r.json>\n[status]\n");
	CHECK_STR(parsed("report >> 'a b'"), "[report] >> <a b>\n");
	CHECK_STR(parsed("report | grep 'x;y' | sort > f; status"),
		  "[report] | <grep 'x;y' | sort > f>\n[status]\n");
	CHECK_STR(parsed("report --match a|b c>d"), "[report][--match][a|b][c>d]\n");
	CHECK_STR(parsed("report --json >r.json; status"),
		  "[report][--json] > <r.json>\n[status]\n");
	CHECK_STR(parsed("report >>'a b'"), "[report] >> <a b>\n");
	CHECK_STR(parsed("report |grep 'x;y' |sort >f; status"),
		  "[report] | <grep 'x;y' |sort >f>\n[status]\n");
	CHECK_STR(parsed("echo '>f' \\>f \">>f\" '|f' \\|f"), "[echo][>f][>f][>>f][|f][|f]\n");
	CHECK_STR(parsed("report >f -n 3"),
		  "error: nothing may follow the file name after '>': arguments come before it\n");
	CHECK_STR(parsed(">f; |f"), "error: missing command before the redirection\n"
				    "error: missing command before the redirection\n");
	CHECK_STR(parsed("on exit { report >f }"), "[on][exit][ report >f ]\n");
	CHECK_STR(parsed("echo '>' f"), "[echo][>][f]\n");
	CHECK_STR(parsed("report > ; status"), "error: missing file name after '>'\n[status]\n");
	CHECK_STR(
		parsed("report > f -n 3\nstatus"),
		"error: nothing may follow the file name after '>': arguments come before it\n[status]\n");
	CHECK_STR(parsed("report | \nstatus"),
		  "error: missing shell command after '|'\n[status]\n");
	CHECK_STR(parsed("> f"), "error: missing command before the redirection\n");
}

static void rest_of_line(void)
{
	CHECK_STR(parsed("wait heap > 50M; report"), "[wait] (heap > 50M)\n[report]\n");
	CHECK_STR(parsed("wait allocs>=10 timeout 5s # soon\nreport"),
		  "[wait] (allocs>=10 timeout 5s)\n[report]\n");
	CHECK_STR(parsed("wait"), "[wait] ()\n");
	CHECK_STR(parsed("!ls -l | wc 'a;b'; x"), "[!] (ls -l | wc 'a;b')\n[x]\n");
	CHECK_STR(parsed("! echo \"a b\" > f"), "[!] (echo \"a b\" > f)\n");
}

static void blocks(void)
{
	CHECK_STR(parsed("on exit { report; status }; x"), "[on][exit][ report; status ]\n[x]\n");
	CHECK_STR(parsed("every 5s {\n on peak { a; '}' }\n}\nx"),
		  "[every][5s][\n on peak { a; '}' }\n]\n[x]\n");
	CHECK_STR(parsed("on exit { report"), "more\n");
	CHECK_STR(parsed("report }"), "error: '}' without '{'\n");
	CHECK_STR(parsed("on exit {}"), "[on][exit][ ]\n");
}

static void lines(void)
{
	struct grammar g = { .at = "a\n\n# c\nb \\\n c; 'd\ne'\nf",
			     .line = 1,
			     .takes_rest = takes_rest };
	static const unsigned want[] = { 1, 4, 5, 7 };
	struct statement s;

	for (size_t i = 0; i < 4; i++) {
		CHECK_EQ(grammar_next(&g, &s), 1);
		CHECK_EQ(s.line, want[i]);
		statement_release(&s);
	}
	CHECK_EQ(grammar_next(&g, &s), 0);
}

int main(void)
{
	RUN(words);
	RUN(quoting);
	RUN(redirections);
	RUN(rest_of_line);
	RUN(blocks);
	RUN(lines);
	return test_status();
}
