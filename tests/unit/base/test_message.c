/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * test_message.c - what is said while the stream is being written (the session's loop turns then)
 * comes behind it, and nothing comes twice.
 */
#include "base/message.h"
#include "test.h"

#include <unistd.h>

static char got[65536];
static size_t len;
static unsigned said;

static bool take(void *ctx, const char *text, size_t n)
{
	(void)ctx;
	if (len + n < sizeof(got)) {
		memcpy(got + len, text, n);
		len += n;
	}
	if (said < 2)
		message_error("%s", said++ ? "two" : "one");
	return true;
}

static void test_said_meanwhile(void)
{
	CHECK_EQ(message_open("/dev/null", STDERR_FILENO, 0, 0), 0);
	message_divert(take, NULL);
	fputs("a table\n", message_stream());
	message_flush();
	CHECK_STR(got, "a table\nmtrun: one\nmtrun: two\n");
	message_error("three");
	CHECK_STR(got, "a table\nmtrun: one\nmtrun: two\nmtrun: three\n");
	message_divert(NULL, NULL);
	message_close();
}

int main(void)
{
	RUN(test_said_meanwhile);
	return test_status();
}
