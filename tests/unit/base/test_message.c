/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * test_message.c - what a thread says that is not to wait for a reader comes whole, in order and
 * once, when another one flushes; and where it is too much, how much is lost is said.
 */
#include "base/message.h"
#include "test.h"

#include <pthread.h>
#include <unistd.h>

static char got[8u << 20];
static size_t len;

static bool take(void *ctx, const char *text, size_t n)
{
	(void)ctx;
	if (len + n < sizeof(got)) {
		memcpy(got + len, text, n);
		len += n;
		got[len] = '\0';
	}
	return true;
}

static void *says(void *ctx)
{
	(void)ctx;
	if (message_defer() < 0)
		return NULL;
	message_error("one");
	fputs("a table\n", message_stream());
	message_say("two");
	message_flush();
	message_defer_end();
	return "done";
}

static void *says_much(void *ctx)
{
	static char line[1001];

	(void)ctx;
	memset(line, 'x', sizeof(line) - 1);
	if (message_defer() < 0)
		return NULL;
	for (int i = 0; i < 5000; i++)
		message_say("%s", line);
	message_defer_end();
	return "done";
}

static void in_thread(void *(*fn)(void *ctx))
{
	pthread_t thread;
	void *ret;

	CHECK_EQ(pthread_create(&thread, NULL, fn, NULL), 0);
	pthread_join(thread, &ret);
	CHECK(ret != NULL);
}

static void begin(void)
{
	len = 0;
	got[0] = '\0';
	CHECK_EQ(message_open("/dev/null", STDERR_FILENO, 0, 0), 0);
	message_divert(take, NULL);
}

static void end(void)
{
	message_divert(NULL, NULL);
	message_close();
}

static void test_deferred(void)
{
	begin();
	CHECK(!message_deferred());
	fputs("first\n", message_stream());
	in_thread(says);
	CHECK(message_deferred());
	CHECK_STR(got, "");
	message_flush();
	CHECK(!message_deferred());
	CHECK_STR(got, "first\nmtrun: one\na table\nmtrun: two\n");
	message_error("three");
	message_flush();
	CHECK_STR(got, "first\nmtrun: one\na table\nmtrun: two\nmtrun: three\n");
	end();
}

static void test_too_much(void)
{
	const char *last;

	begin();
	in_thread(says_much);
	message_flush();
	CHECK(len > 4000000 && len <= (4u << 20) + 100);
	last = strrchr(got, 'm');
	while (last > got && last[-1] != '\n')
		last--;
	CHECK(strstr(last, " bytes of messages were not written in time\n") != NULL);
	end();
}

int main(void)
{
	RUN(test_deferred);
	RUN(test_too_much);
	return test_status();
}
