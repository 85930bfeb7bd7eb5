// SPDX-License-Identifier: GPL-3.0-or-later
/* test_marks.c - the labels of a program: in order, and bounded. */
#include "process/marks.h"
#include "test.h"

static void test_order(void)
{
	struct marks m = { 0 };

	CHECK_EQ(marks_count(&m), 0);
	CHECK_EQ(marks_add(&m, 5, "one"), 0);
	CHECK_EQ(marks_add(&m, 6, ""), 0);
	CHECK_EQ(marks_count(&m), 2);
	CHECK_EQ(marks_forgotten(&m), 0);
	CHECK_EQ(marks_at(&m, 0)->ms, 5);
	CHECK_STR(marks_at(&m, 0)->label, "one");
	CHECK_STR(marks_at(&m, 1)->label, "");
	marks_release(&m);
	CHECK_EQ(marks_count(&m), 0);
}

static void test_bounded(void)
{
	struct marks m = { 0 };
	char label[20];

	for (unsigned i = 0; i < MARKS_MOST + 234; i++) {
		snprintf(label, sizeof(label), "%u", i);
		CHECK_EQ(marks_add(&m, i, label), 0);
	}
	CHECK_EQ(marks_count(&m), MARKS_MOST);
	CHECK_EQ(marks_forgotten(&m), 234);
	CHECK_EQ(marks_at(&m, 0)->ms, 234);
	CHECK_STR(marks_at(&m, 0)->label, "234");
	CHECK_EQ(marks_at(&m, MARKS_MOST - 1)->ms, MARKS_MOST + 233);
	marks_release(&m);
}

int main(void)
{
	RUN(test_order);
	RUN(test_bounded);
	return test_status();
}
