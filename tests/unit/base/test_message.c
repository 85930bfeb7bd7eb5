// SPDX-License-Identifier: GPL-3.0-or-later
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

/* A file that stands for descriptor FD until back() is called. */
static int aside;
static FILE *instead(int fd)
{
	FILE *f = tmpfile();

	fflush(NULL);
	aside = dup(fd);
	dup2(fileno(f), fd);
	return f;
}

static void back(int fd)
{
	dup2(aside, fd);
	close(aside);
}

static const char *content(FILE *f)
{
	size_t n;

	rewind(f);
	n = fread(got, 1, sizeof(got) - 1, f);
	got[n] = '\0';
	return got;
}

static void *says_of_its_own(void *ctx)
{
	(void)ctx;
	if (message_defer() < 0)
		return NULL;
	fputs("a line\n", message_own());
	message_say("one");
	message_defer_end();
	return "done";
}

/* Where answers are on standard output they are alone there. */
static void test_apart(void)
{
	FILE *out = instead(STDOUT_FILENO), *err;
	int out_aside = aside;

	err = instead(STDERR_FILENO);
	CHECK_EQ(message_open(NULL, STDOUT_FILENO, 0, 0), 0);
	fputs("answer\n", message_stream());
	in_thread(says_of_its_own);
	fputs("a summary\n", message_own());
	message_flush();
	CHECK(!message_is_lost());
	message_close();
	back(STDERR_FILENO);
	aside = out_aside;
	back(STDOUT_FILENO);
	CHECK_STR(content(out), "answer\n");
	CHECK_STR(content(err), "a summary\na line\nmtrun: one\n");
	fclose(out);
	fclose(err);
}

static void test_lost(void)
{
	FILE *err = instead(STDERR_FILENO);

	CHECK_EQ(message_open("/dev/full", STDERR_FILENO, 0, 0), 0);
	fputs("answer\n", message_stream());
	CHECK(message_is_lost());
	message_close();
	back(STDERR_FILENO);
	CHECK_STR(content(err),
		  "mtrun: cannot write '/dev/full' (--messages): No space left on device\n");
	fclose(err);
}

int main(void)
{
	RUN(test_deferred);
	RUN(test_too_much);
	RUN(test_apart);
	RUN(test_lost);
	return test_status();
}
