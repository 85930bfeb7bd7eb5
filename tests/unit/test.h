/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * test.h - what the unit tests share: one line per test, `ok NAME` or `FAIL NAME: why`; the exit
 * status is 1 if any failed, 77 if all were skipped.
 *
 *	static void test_empty(void) { CHECK(thing_count(t) == 0); CHECK_EQ(thing_sum(t), 12); }
 *	int main(void) { RUN(test_empty); return test_status(); }
 */
#ifndef MTRUN_TEST_H
#define MTRUN_TEST_H

/* malloc is a sanitizer's: what asks about glibc's own, or about all of a process, is left out. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_SANITIZED 1
#else
#define TEST_SANITIZED 0
#endif

#ifdef __SANITIZE_THREAD__
/* A child that a test forks may make threads, though its parent has one (base/patient.h). */
const char *__tsan_default_options(void);
__attribute__((weak)) const char *__tsan_default_options(void) { return "die_after_fork=0"; }
#endif

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A function that keeps its own frame. */
#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif

static int test_failed, test_passed, test_bad; /* tests; failed checks of the running test */

#define CHECK(cond)                                                         \
	do {                                                                \
		if (!(cond)) {                                              \
			test_bad++;                                         \
			printf("# %s:%d: %s\n", __FILE__, __LINE__, #cond); \
		}                                                           \
	} while (0)
#define CHECK_EQ(a, b)                                                                         \
	do {                                                                                   \
		long long test_a = (long long)(a), test_b = (long long)(b);                    \
		if (test_a != test_b) {                                                        \
			test_bad++;                                                            \
			printf("# %s:%d: %s is %lld, not %lld (%s)\n", __FILE__, __LINE__, #a, \
			       test_a, test_b, #b);                                            \
		}                                                                              \
	} while (0)
#define CHECK_BELOW(a, most)                                                                    \
	do {                                                                                    \
		long long test_a = (long long)(a), test_most = (long long)(most);               \
		if (test_a >= test_most) {                                                      \
			test_bad++;                                                             \
			printf("# %s:%d: %s is %lld, not below %lld\n", __FILE__, __LINE__, #a, \
			       test_a, test_most);                                              \
		}                                                                               \
	} while (0)
#define CHECK_STR(a, b)                                                                   \
	do {                                                                              \
		const char *test_a = (a), *test_b = (b);                                  \
		if (strcmp(test_a ? test_a : "(null)", test_b ? test_b : "(null)")) {     \
			test_bad++;                                                       \
			printf("# %s:%d: %s is '%s', not '%s'\n", __FILE__, __LINE__, #a, \
			       test_a ? test_a : "(null)", test_b ? test_b : "(null)");   \
		}                                                                         \
	} while (0)

#define RUN(fn)                                                        \
	do {                                                           \
		test_bad = 0;                                          \
		fn();                                                  \
		if (test_bad) {                                        \
			test_failed++;                                 \
			printf("FAIL %s: %d checks\n", #fn, test_bad); \
		} else {                                               \
			test_passed++;                                 \
			printf("ok %s\n", #fn);                        \
		}                                                      \
		fflush(stdout);                                        \
	} while (0)
#define SKIP(fn, why) printf("skip %s: %s\n", #fn, why)

/*
 * The next of a sequence that looks random and is the same each time (xorshift); *X: anything but 0
 * to begin with.
 */
static inline uint64_t test_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	return *x ^= *x << 17;
}

/* How much of something long is done: LONG in the long form (make soak), else SHORT. */
static inline int test_size(int short_form, int long_form)
{
	const char *soak = getenv("MTRUN_SOAK");

	return soak && !strcmp(soak, "1") ? long_form : short_form;
}

static inline int test_status(void) { return test_failed ? 1 : test_passed ? 0 : 77; }

#endif
