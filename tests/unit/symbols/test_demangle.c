/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_demangle.c - readable names, and the namespace or crate that a function belongs to. */
#include "symbols/demangle.h"
#include "symbols/site_rule.h"
#include "symbols/symbols.h"
#include "test.h"

static void is_called(const char *raw, const char *want)
{
	char *text = demangle(raw);

	CHECK_STR(text, want);
	free(text);
}

static void is_named(const char *raw, const char *want)
{
	char *text = demangle_name(raw);

	CHECK_STR(text, want);
	free(text);
}

static void has_root(const char *raw, const char *want)
{
	size_t len = 0;
	const char *root = demangle_root(raw, &len);
	char *copy = root ? strndup(root, len) : NULL;

	CHECK_STR(copy, want);
	free(copy);
}

static void test_without_parameters(void)
{
	is_named("main", NULL);
	is_named("_Zzz", NULL);
	is_named("_Z3fooi", "foo");
	is_named("_ZSt4sortIPiEvT_S1_", "std::sort<int*>");
	is_named("_ZZ4mainENKUliE_clEi", "main::{lambda(int)#1}::operator()");
	is_named("_ZN12_GLOBAL__N_11fEv", "(anonymous namespace)::f");
	is_named("_ZN3fooC2Ev.part.0", "foo::foo");
	is_named("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad");
	is_named("_D3std5stdio4openFAyaZv", "std.stdio.open");
}

static void test_readable_names(void)
{
	is_called("main", NULL);
	is_called("", NULL);
	is_called("_", NULL);
	is_called("_Z", NULL);
	is_called("_R", NULL);
	is_called("_Zzz", NULL);
	is_called("_Z3fooi", "foo(int)");
	is_called("_ZSt4sortIPiEvT_S1_", "std::sort<int*>(int*, int*)"); /* no return type */
	is_called("_ZNSt6vectorIiSaIiEE9push_backEOi",
		  "std::vector<int, std::allocator<int> >::push_back(int&&)");
	is_called("_ZZ4mainENKUliE_clEi", "main::{lambda(int)#1}::operator()(int) const");
	is_called("_ZN12_GLOBAL__N_11fEv", "(anonymous namespace)::f()");
	is_called("_Znwm", "operator new(unsigned long)");
	is_called("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad");
	is_called("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE.llvm.123",
		  "core::fmt::Formatter::pad");
	is_called(
		"_ZN60_$LT$alloc..string..String$u20$as$u20$core..fmt..Display$GT$3fmt17h0123456789abcdefE",
		"<alloc::string::String as core::fmt::Display>::fmt");
	is_called("_RNvCs1234_7mycrate4main", "mycrate::main");
	is_called("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar");
	is_called("_Dmain", "D main");
	is_called("_D3std5stdio7writelnFZv", "std.stdio.writeln()");
	is_called("_RC0_", NULL); /* a crate without a name */
}

static void test_roots(void)
{
	has_root("main", NULL);
	has_root("_Z3fooi", "foo");
	has_root("_ZL3fooi", "foo");
	has_root("_Znwm", NULL);
	has_root("_ZNSt6vectorIiSaIiEE9push_backEOi", "std");
	has_root("_ZSt4sortIPiEvT_S1_", "std");
	has_root("_ZNKSs4sizeEv", "std");
	has_root("_ZNKRSt8optionalIiE5valueEv", "std");
	has_root("_ZN9__gnu_cxx13new_allocatorIiE8allocateEmPKv", "__gnu_cxx");
	has_root("_Z3fooISsEvT_", "foo"); /* foo<std::string> */
	/* returns std::vector<int> */
	has_root("_Z3fooISt6vectorIiSaIiEEET_v", "foo");
	has_root("_ZN2ns3fooESt6vectorIiSaIiEE", "ns");
	has_root("_ZZ4mainENKUliE_clEi", "main");
	has_root("_ZZNSt6threadC4IZ4mainEUlvE_JEvEEOT_DpOT0_ENKUlvE_clEv", "std");
	has_root("_ZN12_GLOBAL__N_11fEv", "_GLOBAL__N_1");
	has_root("_ZThn16_NSt3foo3barEv", "std");
	has_root("_ZTv0_n24_NSo3barEv", "std");
	has_root("_ZTch0_h16_N2ns1CcvPSsEv", "ns");
	has_root("_ZN999999999999x", NULL);
	has_root("_ZN", NULL);
	has_root("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core");
	has_root(
		"_ZN60_$LT$alloc..string..String$u20$as$u20$core..fmt..Display$GT$3fmt17h0123456789abcdefE",
		NULL);
	has_root("_RNvCs1234_7mycrate4main", "mycrate");
	has_root("_RNvNtCs1234_4core3foo3bar", "core");
	has_root("_RNvCs1234_7___rustc12___rust_alloc", "__rustc");
	has_root("_RINvNtCs1234_4core3mem4dropNtCs5_7mycrate1TE", "core");
	has_root("_RNvXs2_Cs5_7mycrateNtB2_1TNtNtCs1234_4core3fmt5Debug3fmt", "mycrate");
	has_root("_RNvMNtCs1234_5alloc3vecINtB2_3VechE4push", "alloc");
	has_root("_RNvYNtCs5_7mycrate1TNtNtCs1234_4core3fmt5Debug3fmt", NULL);
}

static unsigned classify(const char *raw)
{
	char *text = demangle(raw);
	unsigned skip = site_classify(raw, text ? text : raw);

	free(text);
	return skip;
}

static void test_allocators(void)
{
	static const char *const yes[] = {
		"malloc",
		"calloc",
		"posix_memalign",
		"mmap64",
		"__libc_malloc",
		"__GI___libc_malloc",
		"je_malloc",
		"tc_new",
		"mi_malloc",
		"malloc@plt",
		"_Znwm",
		"_Znam",
		"_ZnwmSt11align_val_t",
		"_ZnamRKSt9nothrow_t",
		"_ZdlPv",
		"_ZN4PoolnwEm",
		"_ZN2ns1AIiEnwEm",
		"__rust_alloc",
		"__rdl_alloc",
		"_RNvCs1234_7___rustc12___rust_alloc",
	};
	static const char *const no[] = {
		"main",
		"mallocate",
		"xmalloc",
		"my_malloc",
		"strdup",
		"_Z6mallocv_",
		"_ZN1A6mallocEv",
		"_Z3newv",
		"newmain",
		"_ZlsRSoi",
		"_Z3fooIXadL_Z_ZnwmEEEvv",
		"operator newt(int)",
		"dl",
		"__",
		"",
	};

	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		CHECK_STR(classify(yes[i]) & SKIP_ALLOCATOR ? yes[i] : "no", yes[i]);
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		CHECK_STR(classify(no[i]) & SKIP_ALLOCATOR ? "allocator" : no[i], no[i]);
}

static void test_namespaces(void)
{
	static const char *const yes[] = {
		"_ZNSt6vectorIiSaIiEE9push_backEOi",
		"_ZSt4sortIPiEvT_S1_",
		"_ZNSt3__16vectorIiE3addEi",
		"_ZN10__cxxabiv11fEv",
		"_ZN9__gnu_cxx1fEv",
		"std::function<void(int)>::function<main()::<lambda(int)> >",
		"_ZZNSt3foo3barEvENKUlvE_clEv",
		"_ZN4core3fmt9Formatter3pad17h0123456789abcdefE",
		"_ZN3std2rt10lang_start17h0123456789abcdefE",
		"_RNvNtCs1234_5alloc3vec4push",
		"_ZN60_$LT$alloc..string..String$u20$as$u20$core..fmt..Display$GT$3fmt17h0123456789abcdefE",
		"_ZN50_$LT$T$u20$as$u20$core..convert..Into$LT$U$GT$$GT$4into17h0123456789abcdefE",
		"_ZN42_$LT$$RF$T$u20$as$u20$core..fmt..Debug$GT$3fmt17h0123456789abcdefE",
		"_RNvYNtCs5_7mycrate1TNtNtCs1234_4core4iter8Iterator7collect",
	};
	static const char *const no[] = {
		"main",
		"_Z3fooISsEvT_",
		"_ZN2ns3fooESt6vectorIiSaIiEE",
		"_ZZ4mainENKUliE_clEi",
		"_ZN4core3fooEv",
		"_ZN5alloc3fooEv",
		"main::<lambda(int)>::operator()",
		"(anonymous namespace)::f",
		"stdx::f",
		"std",
		"_ZN4stdx1fEv",
		"_ZN7mycrate4main17h0123456789abcdefE",
		"_RNvCs1234_7mycrate4main",
		"_ZN54_$LT$mycrate..T$u20$as$u20$core..fmt..Debug$GT$3fmt17h0123456789abcdefE",
		"_RNvXs2_Cs5_7mycrateNtB2_1TNtNtCs1234_4core3fmt5Debug3fmt",
		"_RNvYNtCs1234_5alloc3VecNtCs5_7mycrate5Trait3run",
	};

	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		CHECK_STR(classify(yes[i]) & SKIP_NAMESPACE ? yes[i] : "no", yes[i]);
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		CHECK_STR(classify(no[i]) & SKIP_NAMESPACE ? "library" : no[i], no[i]);
}

static void test_files_and_libc(void)
{
	CHECK(site_is_libc("__libc_start_main"));
	CHECK(site_is_libc("strdup"));
	CHECK(site_is_libc("_IO_file_doallocate"));
	CHECK(!site_is_libc("main"));
	CHECK(!site_is_libc("strdupx"));
	CHECK(site_is_library_file("/usr/include/x86_64-linux-gnu/bits/stdio2.h"));
	CHECK(site_is_library_file("/rustc/59807616e/library/alloc/src/vec/mod.rs"));
	/* told by its namespace */
	CHECK(!site_is_library_file("/usr/include/c++/12/bits/stl_vector.h"));
	CHECK(!site_is_library_file("/usr/include/glib-2.0/glib.h"));
	CHECK(!site_is_library_file("/home/u/bits/a.c"));
}

/* Whatever bytes a name has: no crash, no reading past the end (with SAN=address). */
static void test_any_bytes(void)
{
	static const char alphabet[] = "_ZNSRDTICEMXYsthvcnd0123456789$.LGuabAB<>(){}:*& ";
	uint64_t state = 88172645463325252u;
	size_t len;

	for (int i = 0; i < 200000; i++) {
		char raw[64];
		size_t n = 2 + state % (sizeof(raw) - 3);

		raw[0] = '_';
		raw[1] = "ZRD"[state / 64 % 3];
		for (size_t j = 2; j < n; j++) {
			test_random(&state);
			raw[j] = alphabet[state % (sizeof(alphabet) - 1)];
		}
		raw[n] = 0;
		classify(raw);
		demangle_root(raw, &len);
		site_classify(NULL, raw + 1);
	}
	CHECK(true);
}

int main(void)
{
	RUN(test_readable_names);
	RUN(test_without_parameters);
	RUN(test_roots);
	RUN(test_allocators);
	RUN(test_namespaces);
	RUN(test_files_and_libc);
	RUN(test_any_bytes);
	return test_status();
}
