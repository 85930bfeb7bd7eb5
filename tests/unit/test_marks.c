/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_marks.c - the labels of a program: in order, bounded, and copied from whatever its pointer points to. */
#include <sys/mman.h>
#include <unistd.h>

#include "../../supervisor/api.h"
#include "../../supervisor/marks.h"
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

/* What is kept of TEXT, as our own process passes it. */
static const char *kept(const void *text)
{
	static struct process p;
	struct wire_mail mail = { .what = ASK_API, .arg = { API_MARK, (uintptr_t)text }, .answer = 99 };
	struct api api = { 0 };

	p.pid = getpid();
	CHECK(api_answer(&p, &mail, &api));
	CHECK_EQ(mail.answer, 0);
	return marks_at(&p.marks, marks_count(&p.marks) - 1)->label;
}

static void test_text(void)
{
	static char longest[200];
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED && mprotect(p + 4096, 4096, PROT_NONE) == 0);
	memcpy(p + 4090, "abcdef", 6);
	memset(longest, 'x', sizeof(longest));
	CHECK_STR(kept("phase 2"), "phase 2");
	CHECK_STR(kept(NULL), "");
	CHECK_STR(kept((void *)1), "");
	CHECK_STR(kept((void *)~7ull), "");
	CHECK_STR(kept(p + 4096), "");
	CHECK_STR(kept(p + 4090), "abcdef");
	CHECK_EQ(strlen(kept(longest)), 64);
	CHECK_STR(kept("a\nb\033[1mc\177"), "a?b?[1mc?");
	CHECK_STR(kept("gr\303\266\303\237e"), "gr\303\266\303\237e");
	munmap(p, 8192);
}

/* A character that the 64 bytes cut through is left out whole. */
static void test_utf8(void)
{
	static const char *const character[] = { "\303\244", "\342\202\254", "\360\237\230\200" };
	char text[100];

	for (int k = 0; k < 3; k++) {
		size_t n = strlen(character[k]);

		for (size_t inside = 0; inside <= n; inside++) {
			memset(text, 'x', sizeof(text));
			memcpy(text + 64 - inside, character[k], n);
			text[90] = '\0';
			CHECK_EQ(strlen(kept(text)), inside == n ? 64 : 64 - inside);
		}
	}
	memset(text, 0x80, sizeof(text));		/* no character at all */
	CHECK_EQ(strlen(kept(text)), 64);
}

int main(void)
{
	RUN(test_order);
	RUN(test_bounded);
	RUN(test_text);
	RUN(test_utf8);
	return test_status();
}
