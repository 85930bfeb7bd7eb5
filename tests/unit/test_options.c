/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "test.h"

#include "../../supervisor/options.h"

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
	free(o.hook);
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
	CHECK_EQ(o.depth, 128);
	CHECK(o.follow && !o.start_stopped && !o.quiet && !o.verbose && !o.messages && !o.duration_ms && o.color == 1);
	CHECK_STR(o.argv[0], "true");
	CHECK(!o.argv[1]);
}

static void all_of_them(void)
{
	CHECK_EQ(parse("-c heap,mmap -x status --execute=report -X f --script - -d 250ms --depth 1024 -S --no-follow --messages m -qvv --color always -- prog -q"),
		 OPTIONS_RUN);
	CHECK_EQ(o.count, LEDGER_COUNT_HEAP | LEDGER_COUNT_MMAP);
	CHECK_EQ(o.nscripts, 4);
	CHECK(!o.script[0].file && !o.script[1].file && o.script[2].file && o.script[3].file);
	CHECK_STR(o.script[1].text, "report");
	CHECK_EQ(o.duration_ms, 250);
	CHECK_EQ(o.depth, 1024);
	CHECK(o.start_stopped && !o.follow && o.quiet && o.verbose == 2 && o.color == 2 && o.batch);
	CHECK_STR(o.messages, "m");
	CHECK_STR(o.argv[0], "prog");
	CHECK_STR(o.argv[1], "-q");
}

static void options_end_at_the_program(void)
{
	CHECK_EQ(parse("-q prog -v --depth 3"), OPTIONS_RUN);
	CHECK_EQ(o.depth, 128);
	CHECK_EQ(o.verbose, 0);
	CHECK_STR(o.argv[1], "-v");
	CHECK_EQ(parse("--dep 3 prog"), OPTIONS_RUN);
	CHECK_EQ(o.depth, 3);
}

static void help_and_version(void)
{
	CHECK_EQ(parse("-h"), OPTIONS_DONE);
	CHECK(strstr(help_text, "--depth") && strstr(help_text, "--messages"));
	CHECK(!strstr(help_text, "--limit") && !strstr(help_text, "--log"));
	CHECK_EQ(parse("-V"), OPTIONS_DONE);
	CHECK(!strncmp(help_text, "mtrun ", 6));
}

static void quoted_and_refused(void)
{
	static const char *const lines[][2] = {
		{ "--depth 0 p", "'0'" }, { "--depth 1025 p", "'1025'" }, { "--depth 12x p", "'12x'" }, { "--depth EMPTY p", "''" }, { "--depth -1 p", "'-1'" },
		{ "-c heap,stack p", "'heap,stack'" }, { "-c EMPTY p", "''" }, { "-c heap, p", "'heap,'" }, { "-d 5x p", "'5x'" }, { "-d 0 p", "'0'" },
		{ "-d 99999999999999999999s p", "99999999999999999999s" }, { "--color blue p", "'blue'" }, { "--hook a=b p", "'a=b'" },
		{ "--hook a@0 p", "'a@0'" }, { "--hook a@7 p", "'a@7'" }, { "--hook =free p", "'=free'" }, { "--messages EMPTY p", "''" },
		{ "--frob p", "'--frob'" }, { "-Z p", "'-Z'" }, { "-qZ p", "'-Z'" }, { "--quiet=3 p", "'--quiet=3'" }, { "--co p", "'--co'" },
		{ "-x", "'-x'" }, { "--depth", "'--depth'" }, { "-q", "PROGRAM" }, { "EMPTY2", NULL }, { "-X - -X - p", "'-'" },
		{ "--limit 5M p", "'--limit'" }, { "-l 5M p", "'-l'" }, { "-p 1", "'-p'" }, { "--tree p", "'--tree'" }, { "-m mem p", "'-m'" },
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
	CHECK(options_hook("", &h) && options_hook("a=", &h) && options_hook("a@", &h) && options_hook("a@2x", &h));
}

int main(void)
{
	RUN(defaults);
	RUN(all_of_them);
	RUN(options_end_at_the_program);
	RUN(help_and_version);
	RUN(quoted_and_refused);
	RUN(hooks);
	return test_status();
}
