// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_api_answer.c - answers to a program's own questions, against a pretended target: what
 * counts, what must be waited for, and texts at any address.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "pretended.h"
#include "process/marks.h"
#include "session/api_answer.h"
#include "session/session.h"
#include "test.h"

static bool own(void *ctx, uint32_t stack)
{
	(void)ctx;
	(void)stack;
	return true;
}

static void api_begin(struct process *p)
{
	process_begin(p, 2, own);
	p->pid = p->via = getpid();
	p->image_bytes = 40960;
}

static void api_end(struct process *p)
{
	marks_release(&p->marks);
	process_end(p);
}

/* -1: not answered yet */
static long long answer(struct process *p, unsigned what, const struct api *api)
{
	struct wire_mail mail = { .answer = 99 };

	struct shared_question q = { .mail = &mail, .what = ASK_API, .arg = { what } };

	return api_answer(p, &q, api) ? (long long)mail.answer : -1;
}

static void test_counts(void)
{
	struct process p;
	struct api api = { .count = LEDGER_COUNT_HEAP };

	api_begin(&p);
	CHECK_EQ(answer(&p, API_ALLOCATED, &api), 0);
	alloc(p.wire, 0, 0x10000, 100, 0);
	alloc(p.wire, 1, 0x20000, 30, 0);
	CHECK_EQ(answer(&p, API_ALLOCATED, &api), 130);
	CHECK_EQ(answer(&p, API_META, &api), 16);
	api.count = LEDGER_COUNT_MMAP;
	CHECK_EQ(answer(&p, API_ALLOCATED, &api), 0);
	api.count = LEDGER_COUNT_HEAP | LEDGER_COUNT_MMAP | COUNT_IMAGE;
	CHECK_EQ(answer(&p, API_ALLOCATED, &api), 130 + 40960);
	CHECK_EQ(answer(&p, API_LIMIT, &api), 0);
	CHECK_EQ(answer(&p, 0, &api), 0);
	CHECK_EQ(answer(&p, API_KINDS, &api), 0);
	CHECK_EQ(answer(&p, UINT32_MAX, &api), 0);
	api_end(&p);
}

/*
 * What is at an address twice: the number between is missing, so the block that was there must have
 * gone, and its event is still to come.
 */
static void test_waits(void)
{
	struct process p;
	struct api api = { .count = LEDGER_COUNT_HEAP };

	api_begin(&p);
	p.wire->counter[wire_counter(0x10000)] = 3;
	store(p.wire, 0, wire_pack(WIRE_ALLOC, 0x10000, 0, 50, 0));
	store(p.wire, 0, wire_pack(WIRE_ALLOC, 0x10000, 2, 100, 0));
	CHECK_EQ(answer(&p, API_ALLOCATED, &api), -1);
	CHECK_EQ(answer(&p, API_META, &api), -1);
	CHECK_EQ(answer(&p, API_SNAPSHOT, &api), -1);
	CHECK_EQ(answer(&p, API_LIMIT, &api), 0);
	store(p.wire, 1, wire_pack(WIRE_FREE, 0x10000, 1, 0, 0));
	CHECK_EQ(answer(&p, API_ALLOCATED, &api), 100);
	api_end(&p);
}

static char taken[200];
static void take(void *ctx, struct process *p, const char *name)
{
	struct ledger_totals t;

	ledger_totals(p->ledger, &t);
	snprintf(taken, sizeof(taken), "%s %llu %s", (const char *)ctx, (unsigned long long)t.heap,
		 name);
}

static void test_snapshot(void)
{
	struct process p;
	struct api nobody = { 0 }, api = { .snapshot = take, .ctx = (void *)"ctx" };
	struct wire_mail mail = { .answer = 99 };
	struct shared_question q = { .mail = &mail,
				     .what = ASK_API,
				     .arg = { API_SNAPSHOT, (uintptr_t) "before" } };

	api_begin(&p);
	alloc(p.wire, 0, 0x10000, 100, 0);
	CHECK(api_answer(&p, &q, &nobody));
	CHECK(api_answer(&p, &q, &api));
	CHECK_STR(taken, "ctx 100 before");
	CHECK_EQ(mail.answer, 0);
	api_end(&p);
}

/* What is kept of TEXT, as our own process passes it. */
static const char *kept(const void *text)
{
	static struct process p;
	struct wire_mail mail = { .answer = 99 };
	struct shared_question q = { .mail = &mail,
				     .what = ASK_API,
				     .arg = { API_MARK, (uintptr_t)text } };
	struct api api = { 0 };

	p.pid = p.via = getpid();
	CHECK(api_answer(&p, &q, &api));
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
	CHECK_STR(kept("a\nb\033[1mc\177"), "a\nb\033[1mc\177");
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
	memset(text, 0x80, sizeof(text)); /* no character at all */
	CHECK_EQ(strlen(kept(text)), 64);
}

int main(void)
{
	RUN(test_counts);
	RUN(test_waits);
	RUN(test_snapshot);
	RUN(test_text);
	RUN(test_utf8);
	return test_status();
}
