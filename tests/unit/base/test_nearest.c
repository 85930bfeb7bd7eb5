// SPDX-License-Identifier: GPL-3.0-or-later
#include "test.h"

#include "base/nearest.h"

static const char *of(const char *word)
{
	static const char *const words[] = { "report", "record", "run",	 "status",  "stop",
					     "since",  "site",	 "sort", "timeline" };
	struct nearest n = { .word = word };

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		nearest_offer(&n, words[i]);
	return n.found ? n.found : "none";
}

static void test_nearest(void)
{
	char text[64];

	CHECK_STR(of("repotr"), "report");
	CHECK_STR(of("reprt"), "report");
	CHECK_STR(of("reports"), "report");
	CHECK_STR(of("recrd"), "record");
	CHECK_STR(of("timelien"), "timeline");
	CHECK_STR(of("sicne"), "since");
	CHECK_STR(of("runn"), "run");
	CHECK_STR(of("foo"), "none");
	CHECK_STR(of("x"), "none");
	CHECK_STR(of(""), "none");
	CHECK_STR(of("a_word_that_is_longer_than_any_of_ours"), "none");
	CHECK_STR(nearest_text(&(struct nearest){ .found = "since" }, "--", "?", text,
			       sizeof(text)),
		  " (did you mean '--since'?)");
	CHECK_STR(nearest_text(&(struct nearest){ 0 }, "--", "?", text, sizeof(text)), "?");
}

int main(void)
{
	RUN(test_nearest);
	return test_status();
}
