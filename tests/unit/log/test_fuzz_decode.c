// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/fuzz/fuzz_decode.c"

#include "corpus.h"

static void test_corpus_decode(void) { CHECK(corpus_run("fuzz_decode") > 0); }

int main(void)
{
	RUN(test_corpus_decode);
	return test_status();
}
