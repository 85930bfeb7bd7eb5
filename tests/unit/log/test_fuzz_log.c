// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/fuzz/fuzz_log.c"

#include "corpus.h"

static void test_corpus_log(void) { CHECK(corpus_run("fuzz_log") > 0); }

int main(void)
{
	RUN(test_corpus_log);
	return test_status();
}
