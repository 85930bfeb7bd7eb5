// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_serve.c - who may ask the server, and where it listens.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shell/serve/address.h"
#include "shell/serve/guard.h"
#include "test.h"

static int port_of(const struct address *a)
{
	return ntohs(a->any.sa_family == AF_INET ? ((const struct sockaddr_in *)a)->sin_port
						 : ((const struct sockaddr_in6 *)a)->sin6_port);
}

static void test_addresses(void)
{
	static const char *const bad[] = { "",		 "x",	     "0",     "65536",
					   "-1",	 "1 ",	     ":80",   "host:80",
					   "[::1]",	 "::1:80",   "[::1:", "[]:80",
					   "1.2.3:80",	 "1.2.3.4:", "unix:", "[::1]x:80",
					   "1.2.3.4:80x" };
	char path[200] = "unix:";
	struct address a;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK_EQ(address_parse_listen(bad[i], &a), -EINVAL);
	CHECK_EQ(address_parse_listen("8080", &a), 0);
	CHECK(a.loopback && port_of(&a) == 8080 && !strcmp(a.host, "127.0.0.1") && !a.path);
	CHECK_EQ(address_parse_listen("localhost:1", &a), 0);
	CHECK(a.loopback && port_of(&a) == 1);
	CHECK_EQ(address_parse_listen("127.8.9.1:65535", &a), 0);
	CHECK(a.loopback);
	CHECK_EQ(address_parse_listen("[::1]:80", &a), 0);
	CHECK(a.loopback && a.any.sa_family == AF_INET6 && !strcmp(a.host, "::1"));
	CHECK_EQ(address_parse_listen("0.0.0.0:80", &a), 0);
	CHECK(!a.loopback);
	CHECK_EQ(address_parse_listen("[::]:80", &a), 0);
	CHECK(!a.loopback);
	CHECK_EQ(address_parse_listen("[::ffff:127.0.0.1]:80", &a), 0);
	CHECK(!a.loopback); /* it may be reached otherwise */
	CHECK_EQ(address_parse_listen("unix:/a:1", &a), 0);
	CHECK(a.loopback && !strcmp(a.path, "/a:1"));
	memset(path + 5, 'a', 150);
	CHECK_EQ(address_parse_listen(path, &a), -EINVAL);
}

static void test_hosts(void)
{
	char *names[] = { (char *)"box.example", NULL };
	struct guard g = { .host = "10.0.0.7", .name = names };

	CHECK(guard_host(&g, "localhost") && guard_host(&g, "LOCALHOST"));
	CHECK(guard_host(&g, "127.0.0.1") && guard_host(&g, "10.0.0.7"));
	CHECK(guard_host(&g, "Box.Example"));
	CHECK(!guard_host(&g, "evil.example") && !guard_host(&g, "localhost.evil.example"));
	CHECK(!guard_host(&g, "box.example.") && !guard_host(&g, "") && !guard_host(&g, NULL));
	CHECK(!guard_host(&g, "127.0.0.2") && !guard_host(&g, "10.0.0.70"));
	g.any_host = true;
	CHECK(guard_host(&g, NULL));
}

static void test_tokens(void)
{
	struct guard g = { .token = "0123456789abcdef" };
	const char *t = g.token;

	CHECK_EQ(guard_token(&g, NULL, NULL, NULL), GUARD_NO);
	CHECK_EQ(guard_token(&g, "Bearer 0123456789abcdef", NULL, NULL), GUARD_YES);
	CHECK_EQ(guard_token(&g, "bearer 0123456789abcdef", NULL, NULL), GUARD_YES);
	CHECK_EQ(guard_token(&g, "Bearer 0123456789abcdeg", NULL, NULL), GUARD_NO);
	CHECK_EQ(guard_token(&g, "Bearer 0123456789abcde", NULL, NULL), GUARD_NO);
	CHECK_EQ(guard_token(&g, "Bearer 0123456789abcdef ", NULL, NULL), GUARD_NO);
	CHECK_EQ(guard_token(&g, "Bearer ", NULL, NULL), GUARD_NO);
	CHECK_EQ(guard_token(&g, "Basic 0123456789abcdef", NULL, NULL), GUARD_NO);
	CHECK_EQ(guard_token(&g, NULL, "mtrun=0123456789abcdef", NULL), GUARD_YES);
	CHECK_EQ(guard_token(&g, NULL, "a=b; mtrun=0123456789abcdef; c", NULL), GUARD_YES);
	CHECK_EQ(guard_token(&g, NULL, "xmtrun=0123456789abcdef", NULL), GUARD_NO);
	CHECK_EQ(guard_token(&g, NULL, "mtrun=; mtrun; mtrun=0123456789abcde", NULL), GUARD_NO);
	CHECK_EQ(guard_token(&g, NULL, "", NULL), GUARD_NO);
	CHECK_EQ(guard_token(&g, NULL, NULL, t), GUARD_QUERY);
	CHECK_EQ(guard_token(&g, NULL, NULL, ""), GUARD_NO);
	g.token = NULL;
	CHECK_EQ(guard_token(&g, NULL, NULL, NULL), GUARD_YES);
}

static int read_token(const char *text, mode_t mode, char **token)
{
	char path[] = "/tmp/mtrun-token.XXXXXX", why[200] = "";
	int fd = mkstemp(path), err = -1;

	if (fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) &&
	    fchmod(fd, mode) == 0)
		err = guard_read_token(path, token, why, sizeof(why));
	close(fd);
	unlink(path);
	CHECK(!err || *why);
	return err;
}

static void test_token_files(void)
{
	char *token = NULL, why[200];

	CHECK_EQ(read_token("0123456789abcdef\nmore", 0600, &token), 0);
	CHECK(!strcmp(token, "0123456789abcdef"));
	free(token);
	CHECK_EQ(read_token("0123456789abcdef", 0400, &token), 0);
	free(token);
	CHECK_EQ(read_token("0123456789abcdef", 0640, &token), -1);
	CHECK_EQ(read_token("0123456789abcde\n", 0600, &token), -1);
	CHECK_EQ(read_token("0123456789abcde;f\n", 0600, &token), -1);
	CHECK_EQ(read_token("", 0600, &token), -1);
	CHECK_EQ(guard_read_token("/nonexistent", &token, why, sizeof(why)), -1);
	CHECK_EQ(guard_read_token("/tmp", &token, why, sizeof(why)), -1);
}

int main(void)
{
	RUN(test_addresses);
	RUN(test_hosts);
	RUN(test_tokens);
	RUN(test_token_files);
	return test_status();
}
