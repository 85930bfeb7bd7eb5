// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/serve/guard.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Two doors. The Host header keeps out pages of other sites whose name was made to lead to our
 * address (DNS rebinding): a browser sends the name it was told. The token keeps out everybody else
 * who reaches the address.
 */
#define TOKEN_LEAST 16u
#define TOKEN_MOST  200u

bool guard_host(const struct guard *g, const char *host)
{
	static const char *const loopback[] = { "localhost", "127.0.0.1", "::1", "[::1]" };

	if (g->any_host)
		return true;
	if (!host)
		return false;
	for (size_t i = 0; i < sizeof(loopback) / sizeof(*loopback); i++)
		if (!strcasecmp(host, loopback[i]))
			return true;
	if (g->host && !strcasecmp(host, g->host))
		return true;
	for (char *const *name = g->name; name && *name; name++)
		if (!strcasecmp(host, *name))
			return true;
	return false;
}

/* Whether the LEN bytes of TEXT are the token; it takes as long wherever they differ. */
static bool is_token(const struct guard *g, const char *text, size_t len)
{
	size_t own = strlen(g->token);
	unsigned differs = len != own;

	for (size_t i = 0; i < own; i++)
		differs |= (unsigned char)g->token[i] ^ (i < len ? (unsigned char)text[i] : 0u);
	return !differs;
}

static bool in_cookie(const struct guard *g, const char *cookie)
{
	size_t name = strlen(GUARD_COOKIE);

	while (*cookie) {
		size_t len = strcspn(cookie, ";");

		if (len > name && !strncmp(cookie, GUARD_COOKIE, name) && cookie[name] == '=' &&
		    is_token(g, cookie + name + 1, len - name - 1))
			return true;
		cookie += len;
		cookie += strspn(cookie, "; ");
	}
	return false;
}

enum guard_way guard_token(const struct guard *g, const char *authorization, const char *cookie,
			   const char *query)
{
	if (!g->token)
		return GUARD_YES;
	if (authorization && !strncasecmp(authorization, "Bearer ", 7) &&
	    is_token(g, authorization + 7, strlen(authorization + 7)))
		return GUARD_YES;
	if (cookie && in_cookie(g, cookie))
		return GUARD_YES;
	return query && is_token(g, query, strlen(query)) ? GUARD_QUERY : GUARD_NO;
}

static bool is_plain(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)text[i]) && !strchr("-._~", text[i]))
			return false;
	return true;
}

int guard_read_token(const char *path, char **token, char *why, size_t len)
{
	char text[TOKEN_MOST + 2];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t got = -1;
	struct stat st;
	size_t n;

	if (fd >= 0 && fstat(fd, &st) == 0)
		got = read(fd, text, sizeof(text) - 1);
	if (got < 0)
		snprintf(why, len, "cannot read '%s': %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	if (got < 0)
		return -1;
	text[got] = '\0';
	n = strcspn(text, "\r\n");
	if (st.st_mode & 077) {
		snprintf(why, len, "'%s' can be read by others than its owner (chmod 600)", path);
		return -1;
	}
	if (n < TOKEN_LEAST || n > TOKEN_MOST || !is_plain(text, n)) {
		snprintf(why, len,
			 "'%s' holds no token: a first line of %u to %u letters, digits and -._~",
			 path, TOKEN_LEAST, TOKEN_MOST);
		return -1;
	}
	*token = strndup(text, n);
	if (!*token)
		snprintf(why, len, "out of memory");
	return *token ? 0 : -1;
}
