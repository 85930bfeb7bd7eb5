// SPDX-License-Identifier: GPL-3.0-or-later
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
		"std::function<void(int)>::function<main()::{lambda(int)} >",
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
		"main::{lambda}::operator()",
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

/* Each is forty times twice as long as before, or would be looked through as often. */
static void test_names_that_unfold(void)
{
	is_called(
		"_Z1f1AI1BS0_ES_IS1_S1_ES_IS2_S2_ES_IS3_S3_ES_IS4_S4_ES_IS5_S5_ES_IS6_S6_ES_IS7_S7_ES"
		"_IS8_S8_ES_IS9_S9_ES_ISA_SA_ES_ISB_SB_ES_ISC_SC_ES_ISD_SD_ES_ISE_SE_ES_ISF_SF_ES_ISG"
		"_SG_ES_ISH_SH_ES_ISI_SI_ES_ISJ_SJ_ES_ISK_SK_ES_ISL_SL_ES_ISM_SM_ES_ISN_SN_ES_ISO_SO_"
		"ES_ISP_SP_ES_ISQ_SQ_ES_ISR_SR_ES_ISS_SS_ES_IST_ST_ES_ISU_SU_ES_ISV_SV_ES_ISW_SW_ES_I"
		"SX_SX_ES_ISY_SY_ES_ISZ_SZ_ES_IS10_S10_ES_IS11_S11_ES_IS12_S12_ES_IS13_S13_ES_IS14_S1"
		"4_E",
		NULL);
	is_called(
		"_Z1fIiEPFv1AI1BS1_ES0_IS2_S2_ES0_IS3_S3_ES0_IS4_S4_ES0_IS5_S5_ES0_IS6_S6_ES0_IS7_S7_"
		"ES0_IS8_S8_ES0_IS9_S9_ES0_ISA_SA_ES0_ISB_SB_ES0_ISC_SC_ES0_ISD_SD_ES0_ISE_SE_ES0_ISF"
		"_SF_ES0_ISG_SG_ES0_ISH_SH_ES0_ISI_SI_ES0_ISJ_SJ_ES0_ISK_SK_ES0_ISL_SL_ES0_ISM_SM_ES0"
		"_ISN_SN_ES0_ISO_SO_ES0_ISP_SP_ES0_ISQ_SQ_ES0_ISR_SR_ES0_ISS_SS_ES0_IST_ST_ES0_ISU_SU"
		"_ES0_ISV_SV_ES0_ISW_SW_ES0_ISX_SX_ES0_ISY_SY_ES0_ISZ_SZ_ES0_IS10_S10_ES0_IS11_S11_ES"
		"0_IS12_S12_ES0_IS13_S13_ES0_IS14_S14_ES0_IS15_S15_EEDpS16_",
		NULL);
	is_called(
		"_RINvC1a1fTuuETB7_B7_ETBb_Bb_ETBj_Bj_ETBr_Br_ETBz_Bz_ETBH_BH_ETBP_BP_ETBX_BX_ETB15_B"
		"15_ETB1d_B1d_ETB1n_B1n_ETB1x_B1x_ETB1H_B1H_ETB1R_B1R_ETB21_B21_ETB2b_B2b_ETB2l_B2l_E"
		"TB2v_B2v_ETB2F_B2F_ETB2P_B2P_ETB2Z_B2Z_ETB39_B39_ETB3j_B3j_ETB3t_B3t_ETB3D_B3D_ETB3N"
		"_B3N_ETB3X_B3X_ETB47_B47_ETB4h_B4h_ETB4r_B4r_ETB4B_B4B_ETB4L_B4L_ETB4V_B4V_ETB55_B55"
		"_ETB5f_B5f_ETB5p_B5p_ETB5z_B5z_ETB5J_B5J_ETB5T_B5T_ETB63_B63_EE",
		NULL);
	is_called(
		"_D1a1fFHiHiiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQ"
		"gQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiH"
		"QgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiZv",
		NULL);
	is_called("_Z1f1AI1BS0_ES_IS1_S1_E", "f(A<B, B>, A<A<B, B>, A<B, B> >)");
	is_called("_RINvC1a1fTuuETB7_B7_EE", "a::f::<((), ()), (((), ()), ((), ()))>");
	is_named("_D1a1fFHiHiiHQgQiZv", "a.f");
}

int main(void)
{
	RUN(test_readable_names);
	RUN(test_without_parameters);
	RUN(test_roots);
	RUN(test_allocators);
	RUN(test_namespaces);
	RUN(test_files_and_libc);
	RUN(test_names_that_unfold);
	RUN(test_any_bytes);
	return test_status();
}
