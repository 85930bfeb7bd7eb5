// SPDX-License-Identifier: GPL-3.0-or-later
#include "test.h"

#include <errno.h>

#include "leaks/suppressions.h"

static const char *const strdup_names[] = { "strdup", "__strdup", "__GI___strdup" };

/* strdup() by get(), inlined into run(), which main() calls. */
static const struct symbol_frame c_symbol[] = {
	{ .function = "__strdup",
	  .raw = "__strdup",
	  .file = "./string/strdup.c",
	  .line = 42,
	  .module = "/usr/lib/x86_64-linux-gnu/libc.so.6" },
	{ .function = "get",
	  .raw = "get",
	  .file = "/src/app/get.c",
	  .line = 7,
	  .inlined = true,
	  .module = "/opt/app" },
	{ .function = "run",
	  .raw = "run",
	  .file = "/src/app/run.c",
	  .line = 30,
	  .module = "/opt/app" },
	{ .function = "libplugin.so.1+0x1234", .module = "/opt/lib/libplugin.so.1" },
	{ .function = "main",
	  .raw = "main",
	  .file = "/src/app/main.c",
	  .line = 3,
	  .module = "/opt/app" },
	{ .function = "_start", .raw = "_start", .module = "/opt/app" },
};
static const struct suppression_frame c_stack[] = {
	{ &c_symbol[0], strdup_names, 3 }, { &c_symbol[1], NULL, 0 }, { &c_symbol[2], NULL, 0 },
	{ &c_symbol[3], NULL, 0 },	   { &c_symbol[4], NULL, 0 }, { &c_symbol[5], NULL, 0 },
};

/* new std::vector<int>(n) by Cache::fill(int). */
static const struct symbol_frame cxx_symbol[] = {
	{ .function = "operator new(unsigned long)",
	  .raw = "_Znwm",
	  .module = "/usr/lib/libstdc++.so.6.0.30" },
	{ .function =
		  "std::__new_allocator<std::pair<int (*)(), char> >::allocate(unsigned long, void const*)",
	  .raw = "_ZNSt15__new_allocatorISt4pairIPFivEcEE8allocateEmPKv",
	  .file = "/usr/include/c++/12/bits/new_allocator.h",
	  .line = 137,
	  .inlined = true,
	  .module = "/opt/app" },
	{ .function = "Cache::fill(int)",
	  .raw = "_ZN5Cache4fillEi",
	  .file = "/src/cache.cc",
	  .line = 9,
	  .module = "/opt/app" },
	{ .function = "main", .raw = "main", .file = "/src/main.cc", .module = "/opt/app" },
};
static const struct suppression_frame cxx_stack[] = {
	{ &cxx_symbol[0], NULL, 0 },
	{ &cxx_symbol[1], NULL, 0 },
	{ &cxx_symbol[2], NULL, 0 },
	{ &cxx_symbol[3], NULL, 0 },
};

#define C_STACK	  c_stack, sizeof(c_stack) / sizeof(*c_stack)
#define CXX_STACK cxx_stack, sizeof(cxx_stack) / sizeof(*cxx_stack)

/* What matches of TEXT: the name of a suppression, "" or the error. */
static const char *matched(const char *text, enum suppression_kind kind,
			   const struct suppression_frame *frame, size_t count)
{
	struct suppressions *s = suppressions_new();
	static char result[256];
	ssize_t i;

	if (suppressions_parse(s, text, strlen(text), result, sizeof(result)) == 0) {
		i = suppressions_match(s, kind, frame, count);
		snprintf(result, sizeof(result), "%s",
			 i < 0 ? "" : suppressions_name(s, (size_t)i));
	}
	suppressions_free(s);
	return result;
}

static const char *c_match(const char *text) { return matched(text, SUPPRESS_DEFINITE, C_STACK); }
static const char *cxx_match(const char *text)
{
	return matched(text, SUPPRESS_DEFINITE, CXX_STACK);
}

static bool frames_match(const char *frames, bool cxx)
{
	char text[1024];

	snprintf(text, sizeof(text), "{\n  one\n  Memcheck:Leak\n%s\n}\n", frames);
	return !strcmp(cxx ? cxx_match(text) : c_match(text), "one");
}
#define FITS(frames)	     CHECK(frames_match(frames, false))
#define FITS_NOT(frames)     CHECK(!frames_match(frames, false))
#define CXX_FITS(frames)     CHECK(frames_match(frames, true))
#define CXX_FITS_NOT(frames) CHECK(!frames_match(frames, true))

static void sanitizer_syntax(void)
{
	CHECK_STR(c_match("leak:get"), "leak:get");
	CHECK_STR(c_match("leak:ge*t\n"), "leak:ge*t");
	CHECK_STR(c_match("# a comment\n\n  leak: run.c \r\n"), "leak: run.c");
	CHECK_STR(c_match("leak:libplugin"), "leak:libplugin");
	CHECK_STR(c_match("leak:other\nleak:main\nleak:get"), "leak:main");
	CHECK_STR(c_match("leak:^get$"), "leak:^get$");
	CHECK_STR(c_match("leak:^et"), "");
	CHECK_STR(c_match("leak:/app/*.c$"), "leak:/app/*.c$");
	CHECK_STR(c_match("leak:g?t"), "");
	CHECK_STR(c_match("leak:^strdup$"), "leak:^strdup$");
	CHECK_STR(c_match("leak:nobody"), "");
	CHECK_STR(cxx_match("leak:Cache::fill(int)"), "leak:Cache::fill(int)");
	CHECK_STR(matched("leak:get", SUPPRESS_POSSIBLE, C_STACK), "leak:get");
	CHECK_STR(matched("leak:get", SUPPRESS_REACHABLE, C_STACK), "");
}

static void frames(void)
{
	FITS("fun:malloc\nfun:strdup\nfun:get\nfun:run\nobj:*libplugin*\nfun:main");
	FITS("   fun:*alloc\n\tfun:__strdup");
	FITS("fun:strdup\nfun:get");
	FITS("fun:mal???\nobj:*/libc.so.6\nfun:get");
	FITS("fun:malloc\nsrc:strdup.c:42\nsrc:get.c\nsrc:/src/app/run.c:30");
	FITS("fun:malloc\n...\nfun:main");
	FITS("fun:memalign\nfun:posix_memalign\nfun:strdup");
	FITS_NOT("fun:malloc\nfun:malloc\nfun:malloc\nfun:strdup");
	FITS("...\nfun:run\n...\nfun:_start");
	FITS("...\nfun:g*\n...");
	FITS("obj:*vgpreload_memcheck*\nfun:strdup");
	FITS("fun:malloc\nfun:*\nfun:*\nfun:*\nfun:*\nfun:main\nfun:_start");
	FITS_NOT("fun:malloc\nfun:*\nfun:*\nfun:*\nfun:*\nfun:main\nfun:_start\nfun:*");
	FITS_NOT("fun:get");
	FITS_NOT("fun:free\nfun:strdup");
	FITS_NOT("src:get.c:8\n...");
	FITS_NOT("fun:malloc\nfun:STRDUP");
	FITS_NOT("...\nfun:main\nfun:run");
	FITS_NOT("...\nsrc:get.c:70");
}

static void cxx(void)
{
	CXX_FITS("fun:_Znwm\nfun:allocate\nfun:_ZN5Cache4fillEi\nfun:main");
	CXX_FITS("fun:_Znam\nfun:_ZNSt*allocator*\nfun:Cache::fill(int)");
	CXX_FITS("fun:_Znwm\n...\nfun:main");
	CXX_FITS_NOT("fun:_Znwm\nfun:allocate<int>\nfun:_ZN5Cache4fillEi");
	CXX_FITS("fun:operator new*\nfun:allocate");
	CXX_FITS_NOT("fun:malloc\nfun:allocate");
	CXX_FITS_NOT("fun:_Znwm\nfun:fill");
	CXX_FITS_NOT("fun:_Znwm\nfun:__new_allocator");
}

static void kinds(void)
{
	static const char text[] =
		"{\n a\n Memcheck:Leak\n match-leak-kinds: possible , definite\n fun:malloc\n}\n"
		"{\n b\n Addrcheck,Memcheck:Leak\n match-leak-kinds:all\n fun:malloc\n}\n";

	CHECK_STR(matched(text, SUPPRESS_DEFINITE, C_STACK), "a");
	CHECK_STR(matched(text, SUPPRESS_POSSIBLE, C_STACK), "a");
	CHECK_STR(matched(text, SUPPRESS_INDIRECT, C_STACK), "b");
	CHECK_STR(c_match("{\n a\n Memcheck:Leak\n match-leak-kinds: none\n fun:malloc\n}\n"), "");
}

/* A file holds what is for other tools, too. */
static void others(void)
{
	CHECK_STR(
		c_match("{\n a\n Memcheck:Cond\n fun:malloc\n}\n{\n b\n Helgrind:Leak\n fun:malloc\n}\n"
			"{\n c\n Memcheck:Param\n write(buf)\n fun:malloc\n}\nleak:main"),
		"leak:main");
}

static void mistakes(void)
{
	CHECK_STR(
		c_match("leak:a\nlaek:b\n"),
		"line 2: 'laek:b' is not accepted: leak:PATTERN, or a suppression of Valgrind's in { and }");
	CHECK_STR(c_match("leak:^$"),
		  "line 1: 'leak:^$' is not accepted: there is no pattern behind 'leak:'");
	CHECK_STR(
		c_match("{\n a\n Memcheck:Leak\n\n  fnu:malloc\n}\n"),
		"line 5: 'fnu:malloc' is not accepted: fun:PATTERN, obj:PATTERN, src:PATTERN, ... or }");
	CHECK_STR(
		c_match("{\n a\n Memcheck:Leak\n match-leak-kinds: definite,sure\n fun:malloc\n}\n"),
		"line 4: 'match-leak-kinds: definite,sure' is not accepted: "
		"match-leak-kinds: any of definite,indirect,possible,reachable, or all, none");
	CHECK_STR(
		c_match("{\n a\n Memcheck:Leak\n ...\n}\n"),
		"line 5: '}' is not accepted: it has no frame but ..., and would match every leak");
	CHECK_STR(c_match("{\n a\n Leak\n fun:malloc\n}\n"),
		  "line 3: 'Leak' is not accepted: TOOL:KIND, as Memcheck:Leak");
	CHECK_STR(c_match("{\n a\n Memcheck:Leak\n fun:malloc\n"),
		  "line 4: 'fun:malloc' is not accepted: the file ends within { and }");
	CHECK_STR(c_match("{\n a\n Memcheck:Cond\n fun:malloc\n"),
		  "line 4: 'fun:malloc' is not accepted: the file ends within { and }");
	CHECK_STR(c_match("{"), "line 1: '{' is not accepted: the file ends within { and }");
	CHECK_STR(
		c_match("an extraordinarily long line that nobody can have meant to be a suppression of anything"),
		"line 1: 'an extraordinarily long line that nobody can have meant to b...' is not accepted: "
		"leak:PATTERN, or a suppression of Valgrind's in { and }");
}

static void binary(void)
{
	struct suppressions *s = suppressions_new();
	char why[200];

	CHECK_EQ(suppressions_parse(s, "leak:a\0b", 8, why, sizeof(why)), -EINVAL);
	CHECK_STR(why, "it is not a text file");
	CHECK_EQ(suppressions_parse(s, "", 0, why, sizeof(why)), 0);
	CHECK_EQ(suppressions_count(s), 0);
	suppressions_free(s);
}

/* What is printed for a stack matches it. */
static const char *printed(enum suppression_kind kind, const struct suppression_frame *frame,
			   size_t count)
{
	static char text[2048];
	FILE *out = fmemopen(text, sizeof(text), "w");

	suppressions_print(out, "mine", kind, frame, count);
	fclose(out);
	return text;
}

static void printing(void)
{
	static const struct symbol_frame odd = { .function = "a\nb\\*\xff"
							     "c",
						 .raw = "a\nb\\*\xff"
							"c" };
	static const struct suppression_frame odd_stack[] = { { &odd, NULL, 0 } };
	const char *text = printed(SUPPRESS_DEFINITE, C_STACK);

	CHECK_STR(
		text,
		"{\n   mine\n   Memcheck:Leak\n   match-leak-kinds: definite\n   fun:*al*\n"
		"   fun:strdup\n   fun:get\n   fun:run\n   obj:/opt/lib/libplugin.so.1\n   fun:main\n}\n");
	CHECK_STR(c_match(text), "mine");
	CHECK_STR(cxx_match(text), "");
	text = printed(SUPPRESS_POSSIBLE, CXX_STACK);
	CHECK_STR(text,
		  "{\n   mine\n   Memcheck:Leak\n   match-leak-kinds: possible\n   fun:_Zn?m*\n"
		  "   fun:allocate\n   fun:_ZN5Cache4fillEi\n   fun:main\n}\n");
	CHECK_STR(matched(text, SUPPRESS_POSSIBLE, CXX_STACK), "mine");
	CHECK_STR(cxx_match(text), "");
	text = printed(SUPPRESS_DEFINITE, odd_stack, 1);
	CHECK(strstr(text, "fun:a?b\\*?c\n"));
	CHECK_STR(matched(text, SUPPRESS_DEFINITE, odd_stack, 1), "mine");
}

static void builtin(void)
{
	static const struct symbol_frame symbol[] = {
		{ .function = "malloc",
		  .raw = "malloc",
		  .inlined = true,
		  .module = "/lib64/ld-linux-x86-64.so.2" },
		{ .function = "_dl_new_object",
		  .raw = "_dl_new_object",
		  .module = "/lib64/ld-linux-x86-64.so.2" },
	};
	const struct suppression_frame stack[] = { { &symbol[0], NULL, 0 },
						   { &symbol[1], NULL, 0 } };
	struct suppressions *s = suppressions_new();

	CHECK_EQ(suppressions_builtin(s), 0);
	CHECK(suppressions_count(s) >= 5);
	CHECK(suppressions_match(s, SUPPRESS_DEFINITE, stack, 2) >= 0);
	CHECK(suppressions_match(s, SUPPRESS_DEFINITE, stack + 1, 1) >= 0);
	CHECK_EQ(suppressions_match(s, SUPPRESS_DEFINITE, C_STACK), -1);
	CHECK_EQ(suppressions_match(s, SUPPRESS_DEFINITE, NULL, 0), -1);
	suppressions_free(s);
}

/* What would take for ever with a matcher that tries everything. */
static void adversarial(void)
{
	static char name[16000], text[4000];
	struct symbol_frame symbol = { .function = name };
	struct suppression_frame stack[400];

	memset(name, 'a', sizeof(name) - 1);
	strcpy(text, "leak:");
	for (size_t i = 5; i + 3 < sizeof(text); i += 2)
		memcpy(text + i, "a*", 3);
	strcat(text, "b");
	for (size_t i = 0; i < 400; i++)
		stack[i] = (struct suppression_frame){ &symbol, NULL, 0 };
	CHECK_STR(matched(text, SUPPRESS_DEFINITE, stack, 4), "");
	symbol.function = "f";
	strcpy(text, "{\na\nMemcheck:Leak\n");
	for (size_t i = 0; i < 200; i++)
		strcat(text, "...\nfun:f\n");
	strcat(text, "fun:g\n}\n");
	CHECK_STR(matched(text, SUPPRESS_DEFINITE, stack, 400), "");
}

int main(void)
{
	RUN(sanitizer_syntax);
	RUN(frames);
	RUN(cxx);
	RUN(kinds);
	RUN(others);
	RUN(mistakes);
	RUN(binary);
	RUN(printing);
	RUN(builtin);
	RUN(adversarial);
	return test_status();
}
