// SPDX-License-Identifier: GPL-3.0-or-later
#include "test.h"

#include "patch/hooks.h"
#include "session/options.h"

static struct options o;
static char why[1024];
static char *help_text;
static size_t help_len;

static enum options_result parse(const char *line)
{
	static char copy[512], *argv[64];
	enum options_result r;
	FILE *out;
	int argc = 0;

	snprintf(copy, sizeof(copy), "mtrun %s", line);
	for (char *w = strtok(copy, " "); w; w = strtok(NULL, " "))
		argv[argc++] = strcmp(w, "EMPTY") ? w : w + 5;
	argv[argc] = NULL;
	free(help_text);
	out = open_memstream(&help_text, &help_len);
	why[0] = '\0';
	free(o.script);
	free(o.agent.hook);
	free(o.pid);
	free(o.suppressions);
	free(o.open);
	free(o.listen_host);
	free(o.push_label);
	r = options_parse(&o, argc, argv, out, why, sizeof(why));
	fclose(out);
	if (r == OPTIONS_BAD && (!why[0] || strchr(why, '\n')))
		CHECK(!"one line says what is wrong");
	return r;
}

static void defaults(void)
{
	CHECK_EQ(parse("true"), OPTIONS_RUN);
	CHECK_EQ(o.count, LEDGER_COUNT_HEAP | LEDGER_COUNT_MMAP | COUNT_IMAGE);
	CHECK_EQ(o.agent.depth, 128);
	CHECK_EQ(o.mode, MODE_MEM_FAST);
	CHECK(o.follow && !o.start_stopped && !o.quiet && !o.verbose && !o.messages &&
	      !o.duration_ms && o.color == 1);
	CHECK_STR(o.argv[0], "true");
	CHECK(!o.argv[1]);
}

static void all_of_them(void)
{
	CHECK_EQ(
		parse("-c heap,mmap -x status --execute=report -X f --script - -d 250ms --depth 1024 -S --no-follow --messages m -qvv --color always -- prog -q"),
		OPTIONS_RUN);
	CHECK_EQ(o.count, LEDGER_COUNT_HEAP | LEDGER_COUNT_MMAP);
	CHECK_EQ(o.nscripts, 4);
	CHECK(!o.script[0].file && !o.script[1].file && o.script[2].file && o.script[3].file);
	CHECK_STR(o.script[1].text, "report");
	CHECK_EQ(o.duration_ms, 250);
	CHECK_EQ(o.agent.depth, 1024);
	CHECK(o.start_stopped && !o.follow && o.quiet && o.verbose == 2 && o.color == 2 && o.batch);
	CHECK_STR(o.messages, "m");
	CHECK_STR(o.argv[0], "prog");
	CHECK_STR(o.argv[1], "-q");
}

static void modes_by_name(void)
{
	CHECK_EQ(parse("-m mem p"), OPTIONS_RUN);
	CHECK_EQ(o.mode, MODE_MEM);
	CHECK_EQ(parse("--mode=mem-fast p"), OPTIONS_RUN);
	CHECK_EQ(o.mode, MODE_MEM_FAST);
	CHECK_EQ(o.log_size, 100 << 20);
	CHECK_EQ(o.log_files, 10);
	CHECK_STR(o.log_dir, ".");
	CHECK_EQ(parse("-m log --log-dir d --log-size 64K --log-files 3 p"), OPTIONS_RUN);
	CHECK(o.mode == MODE_LOG && o.log_size == 64 << 10 && o.log_files == 3 &&
	      !strcmp(o.log_dir, "d"));
	CHECK_EQ(parse("-m off -s 1K p"), OPTIONS_RUN);
	CHECK_EQ(o.mode, MODE_OFF);
}

static void options_end_at_the_program(void)
{
	CHECK_EQ(parse("-q prog -v --depth 3"), OPTIONS_RUN);
	CHECK_EQ(o.agent.depth, 128);
	CHECK_EQ(o.verbose, 0);
	CHECK_STR(o.argv[1], "-v");
	CHECK_EQ(parse("--dep 3 prog"), OPTIONS_RUN);
	CHECK_EQ(o.agent.depth, 3);
}

static void help_and_version(void)
{
	CHECK_EQ(parse("-h"), OPTIONS_DONE);
	CHECK(strstr(help_text, "--depth") && strstr(help_text, "--messages"));
	CHECK(strstr(help_text, "--limit SIZE") && strstr(help_text, "--interval[=TIME]") &&
	      strstr(help_text, "--leak-check[=WHEN]"));
	CHECK_EQ(parse("-V"), OPTIONS_DONE);
	CHECK(!strncmp(help_text, "mtrun ", 6));
}

static void quoted_and_refused(void)
{
	static const char *const lines[][2] = {
		{ "-m fast p", "'fast'" },
		{ "--mode EMPTY p", "''" },
		{ "-m mem-f p", "'mem-f'" },
		{ "-m off -l 1M p", "--limit" },
		{ "-l 1M --mode=off p", "--limit" },
		{ "--depth 0 p", "'0'" },
		{ "--depth 1025 p", "'1025'" },
		{ "--depth 12x p", "'12x'" },
		{ "--depth EMPTY p", "''" },
		{ "--depth -1 p", "'-1'" },
		{ "-c heap,stack p", "'heap,stack'" },
		{ "-c EMPTY p", "''" },
		{ "-c heap, p", "'heap,'" },
		{ "-d 5x p", "'5x'" },
		{ "-d 0 p", "'0'" },
		{ "-d 99999999999999999999s p", "99999999999999999999s" },
		{ "--color blue p", "'blue'" },
		{ "--hook a=b p", "'a=b'" },
		{ "--hook a@0 p", "'a@0'" },
		{ "--hook a@7 p", "'a@7'" },
		{ "--hook =free p", "'=free'" },
		{ "--messages EMPTY p", "''" },
		{ "--frob p", "'--frob'" },
		{ "-Z p", "'-Z'" },
		{ "-qZ p", "'-Z'" },
		{ "--quiet=3 p", "'--quiet=3'" },
		{ "--co p", "'--co'" },
		{ "-x", "'-x'" },
		{ "--depth", "'--depth'" },
		{ "-q", "PROGRAM" },
		{ "EMPTY2", NULL },
		{ "-X - -X - p", "'-'" },
		{ "-l 0 p", "'0'" },
		{ "-l 0K p", "'0K'" },
		{ "-l -5 p", "'-5'" },
		{ "-l +5 p", "'+5'" },
		{ "-l EMPTY p", "''" },
		{ "-l 5X p", "'5X'" },
		{ "-l 5Kb p", "'5Kb'" },
		{ "-l 5k p", "'5k'" },
		{ "-l 5KiB p", "'5KiB'" },
		{ "-l 1.5G p", "'1.5G'" },
		{ "-l 1e9 p", "'1e9'" },
		{ "-l 0x100 p", "'0x100'" },
		{ "-l off p", "'off'" },
		{ "--limit=5MBx p", "'5MBx'" },
		{ "-l 9223372036854775808 p", "9223372036854775808" },
		{ "-l 18446744073709551616 p", "18446744073709551616" },
		{ "-l 8388608T p", "8388608T" },
		{ "-l 99999999999999T p", "99999999999999T" },
		{ "-l", "'-l'" },
		{ "--on-limit die p", "'die'" },
		{ "--on-limit kil p", "'kil'" },
		{ "--on-limit EMPTY p", "''" },
		{ "--limit-exit 256 p", "'256'" },
		{ "--limit-exit -1 p", "'-1'" },
		{ "--limit-exit 1x p", "'1x'" },
		{ "--limit-exit EMPTY p", "''" },
		{ "-i0 p", "'0'" },
		{ "-i5x p", "'5x'" },
		{ "-i-5 p", "'-5'" },
		{ "--interval= p", "''" },
		{ "--interval=0.0001s p", "'0.0001s'" },
		{ "-i 5s p", "'5s'" },
		{ "--interval 5s p", "'5s'" },
		{ "-i9999999999h p", "'9999999999h'" },
		{ "--log-size 63K p", "'63K'" },
		{ "--log-size 1025G p", "'1025G'" },
		{ "--log-size EMPTY p", "''" },
		{ "--log-files 0 p", "'0'" },
		{ "--log-files 3x p", "'3x'" },
		{ "--log-dir EMPTY p", "''" },
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		if (!lines[i][1])
			continue;
		CHECK_EQ(parse(lines[i][0]), OPTIONS_BAD);
		if (!strstr(why, lines[i][1])) {
			printf("# %s: %s\n", lines[i][0], why);
			CHECK(!"the bad value is quoted");
		}
	}
}

static void limits(void)
{
	CHECK_EQ(parse("p"), OPTIONS_RUN);
	CHECK(!o.limit && o.on_limit == LIMIT_KILL && o.limit_exit == -1 && !o.interval_ms);
	CHECK_EQ(parse("-l 100MB --on-limit stop --limit-exit 9 -i -- p"), OPTIONS_RUN);
	CHECK(o.limit == 100000000 && o.on_limit == LIMIT_STOP && o.limit_exit == 9 &&
	      o.interval_ms == 5000);
	CHECK_EQ(parse("--limit=3K --on-limit=fail --limit-exit=0 -i250ms p"), OPTIONS_RUN);
	CHECK(o.limit == 3072 && o.on_limit == LIMIT_FAIL && o.limit_exit == 0 &&
	      o.interval_ms == 250);
	CHECK_EQ(parse("-l9223372036854775807 --on-limit report --interval=2m p 5s"), OPTIONS_RUN);
	CHECK(o.limit == INT64_MAX && o.on_limit == LIMIT_REPORT && o.interval_ms == 120000);
	CHECK_STR(o.argv[1], "5s");
	CHECK_EQ(parse("-i -- 5s"), OPTIONS_RUN);
	CHECK_STR(o.argv[0], "5s");
}

static void running_processes(void)
{
	static const char *const bad[][2] = {
		{ "-p EMPTY", "''" },
		{ "-p 0", "'0'" },
		{ "-p -1", "'-1'" },
		{ "-p 12x", "'12x'" },
		{ "-p 1,,2", "''" },
		{ "-p 1,", "''" },
		{ "-p 2147483648", "'2147483648'" },
		{ "-p 18446744073709551617", "'18446744073709551617'" },
		{ "-p self", "'self'" },
		{ "-p 0x10", "'0x10'" },
		{ "-p 4,5,4", "'4'" },
		{ "-p 4 -p 4", "'4'" },
		{ "-p 4 true", "'true'" },
		{ "-p 4 5", "'5'" },
		{ "-p4 -- true", "'true'" },
		{ "-p 4 -S", "--stopped" },
		{ "-p 4 --tree --no-follow", "--no-follow" },
		{ "--tree true", "--tree is only available with --pid" },
		{ "--tree", "--pid" },
		{ "-p", "'-p'" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		CHECK_EQ(parse(bad[i][0]), OPTIONS_BAD);
		CHECK(strstr(why, bad[i][1]));
	}
	CHECK_EQ(parse("-p 812"), OPTIONS_RUN);
	CHECK(o.npids == 1 && o.pid[0] == 812 && !o.argv && !o.tree);
	CHECK_EQ(parse("-p 812,1 --pid=2147483647 --tree -l 1M"), OPTIONS_RUN);
	CHECK(o.npids == 3 && o.pid[1] == 1 && o.pid[2] == INT32_MAX && o.tree);
	CHECK_EQ(parse("-p 5 --no-follow"), OPTIONS_RUN);
	CHECK(o.npids == 1 && !o.follow);
	CHECK_EQ(parse("true -p 5"), OPTIONS_RUN);
	CHECK(!o.npids && o.argv);
}

static void environment(void)
{
	static const char *const bad[][2] = {
		{ "MT_MEMORY_LIMIT", "" },
		{ "MT_MEMORY_LIMIT", "0" },
		{ "MT_MEMORY_LIMIT", "1M" },
		{ "MT_MEMORY_LIMIT", "-1" },
		{ "MT_MEMORY_LIMIT", "10 " },
		{ "MT_MEMORY_LIMIT", "9223372036854775808" },
		{ "MT_PRINT_INTERVAL_MS", "" },
		{ "MT_PRINT_INTERVAL_MS", "0" },
		{ "MT_PRINT_INTERVAL_MS", "1s" },
		{ "MT_PRINT_INTERVAL_MS", "-5" },
		{ "MT_PRINT_INTERVAL_MS", "18446744073709551616" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		char quoted[64];

		setenv(bad[i][0], bad[i][1], 1);
		CHECK_EQ(parse("p"), OPTIONS_BAD);
		snprintf(quoted, sizeof(quoted), "%s: invalid value '%s'", bad[i][0], bad[i][1]);
		CHECK(strstr(why, quoted));
		CHECK_EQ(parse("-h"), OPTIONS_DONE);
		unsetenv(bad[i][0]);
	}
	setenv("MT_MEMORY_LIMIT", "31653600", 1);
	CHECK_EQ(parse("p"), OPTIONS_RUN);
	CHECK(o.limit == 31653600 && o.interval_ms == 5000);
	CHECK_EQ(parse("-l 5K -i1 p"), OPTIONS_RUN);
	CHECK(o.limit == 5120 && o.interval_ms == 1000);
	setenv("MT_PRINT_INTERVAL_MS", "70", 1);
	CHECK_EQ(parse("p"), OPTIONS_RUN);
	CHECK(o.limit == 31653600 && o.interval_ms == 70);
	unsetenv("MT_MEMORY_LIMIT");
	CHECK_EQ(parse("p"), OPTIONS_RUN);
	CHECK(!o.limit && o.interval_ms == 70);
	unsetenv("MT_PRINT_INTERVAL_MS");
}

static void hooks(void)
{
	struct hook_request h;

	CHECK_EQ(options_hook("palloc", &h), 0);
	CHECK_STR(h.name, "palloc");
	CHECK(h.kind == HOOK_GENERIC_MALLOC && h.arg == 0);
	CHECK_EQ(options_hook("palloc=malloc@2", &h), 0);
	CHECK(h.kind == HOOK_GENERIC_MALLOC && h.arg == 1);
	CHECK_EQ(options_hook("pfree=free@2", &h), 0);
	CHECK(h.kind == HOOK_GENERIC_FREE && h.arg == 1);
	CHECK_EQ(options_hook("x@3", &h), 0);
	CHECK(h.kind == HOOK_GENERIC_MALLOC && h.arg == 2);
	CHECK_EQ(options_hook("x=realloc", &h), 0);
	CHECK(h.kind == HOOK_GENERIC_REALLOC && h.arg == 0);
	CHECK_EQ(options_hook("x=memalign", &h), 0);
	CHECK(h.kind == HOOK_GENERIC_MEMALIGN && h.arg == 1);
	CHECK(options_hook("", &h) && options_hook("a=", &h) && options_hook("a@", &h) &&
	      options_hook("a@2x", &h));
}

static void leak_check(void)
{
	CHECK_EQ(parse("true"), OPTIONS_RUN);
	CHECK(o.leak_check == LEAK_CHECK_NO && !o.leak_exitcode && !o.nsuppressions);
	CHECK_EQ(parse("--leak-check true"), OPTIONS_RUN);
	CHECK(o.leak_check == LEAK_CHECK_FULL);
	CHECK_EQ(parse("--leak-check=summary --suppressions a --suppressions=b true"), OPTIONS_RUN);
	CHECK(o.leak_check == LEAK_CHECK_SUMMARY && o.nsuppressions == 2);
	CHECK_STR(o.suppressions[1], "b");
	CHECK_EQ(parse("--leak-check --leak-check=no true"), OPTIONS_RUN);
	CHECK(o.leak_check == LEAK_CHECK_NO);
	CHECK_EQ(parse("--leak-exitcode 255 true"), OPTIONS_RUN);
	CHECK(o.leak_check == LEAK_CHECK_FULL && o.leak_exitcode == 255);
	CHECK_EQ(parse("--leak-exitcode 1 --leak-check=summary true"), OPTIONS_RUN);
	CHECK(o.leak_check == LEAK_CHECK_SUMMARY && o.leak_exitcode == 1);
	for (size_t i = 0; i < 8; i++) {
		static const char *const bad[] = {
			"--leak-check=yes true",     "--leak-exitcode 0 true",
			"--leak-exitcode 256 true",  "--leak-exitcode=1 --leak-check=no true",
			"--leak-check -s 4K true",   "--leak-check -m off true",
			"--suppressions EMPTY true", "--leak-check -r x"
		};

		CHECK_EQ(parse(bad[i]), OPTIONS_BAD);
	}
}

static void replayed(const char *line, size_t n, const char *last)
{
	CHECK_EQ(parse(line), OPTIONS_RUN);
	CHECK_EQ(o.nopens, n);
	CHECK_STR(o.open[o.nopens - 1], last);
	CHECK(!o.argv);
}

/* No program is started, so that each word is one more path. */
static void what_is_replayed(void)
{
	static const char *const refused[] = {
		"tree",	     "limit 1M",    "on-limit stop",   "errors off",	 "limit-exit 3",
		"interval",  "duration 1",  "output x.",       "dump-every 1",	 "dump-peak",
		"dump-exit", "leak-check",  "leak-exitcode 1", "suppressions f", "mode log",
		"log-dir d", "log-size 1M", "log-files 2",     "sample 1K",	 "depth 3",
		"hook f",    "stopped",	    "no-follow",       "pid 1",		 "count heap",
	};

	replayed("-r a", 1, "a");
	replayed("-r a b -q c", 3, "c");
	CHECK(o.quiet);
	replayed("-r a --", 1, "a");
	replayed("-r a -- a", 2, "a");
	replayed("-r a b -- c -q", 4, "-q");
	CHECK(!o.quiet);
	replayed("--messages -- -r a b", 2, "b");
	replayed("-x status -q -v --color never --listen 1 --push unix:p -r a", 1, "a");
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		char line[80];

		snprintf(line, sizeof(line), "-r a --%s", refused[i]);
		CHECK_EQ(parse(line), OPTIONS_BAD);
		snprintf(line, sizeof(line), "--replay cannot be combined with --%.*s",
			 (int)strcspn(refused[i], " "), refused[i]);
		CHECK(strstr(why, line));
	}
	setenv("MT_MEMORY_LIMIT", "x", 1);
	replayed("-r a", 1, "a");
	CHECK(!o.limit && !o.interval_ms);
	unsetenv("MT_MEMORY_LIMIT");
}

int main(void)
{
	RUN(defaults);
	RUN(all_of_them);
	RUN(modes_by_name);
	RUN(options_end_at_the_program);
	RUN(help_and_version);
	RUN(quoted_and_refused);
	RUN(limits);
	RUN(running_processes);
	RUN(environment);
	RUN(hooks);
	RUN(leak_check);
	RUN(what_is_replayed);
	return test_status();
}
