// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/serve/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/units.h"

/*
 * Only numeric hosts and `localhost`: a name would be looked up by the machine's resolver, which a
 * static program cannot load, and which address it stands for could change.
 */
#define BACKLOG 128

static int parse_port(const char *text, uint16_t *port)
{
	uint64_t n;

	if (number_parse(text, &n) || n < 1 || n > UINT16_MAX)
		return -EINVAL;
	*port = (uint16_t)n;
	return 0;
}

static int parse_host(struct address *a, const char *host, uint16_t port)
{
	struct sockaddr_in *four = (struct sockaddr_in *)&a->inet;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)&a->inet;
	const char *text = strcmp(host, "localhost") ? host : "127.0.0.1";

	if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
		four->sin_family = AF_INET;
		four->sin_port = htons(port);
		a->len = sizeof(*four);
		a->loopback = ntohl(four->sin_addr.s_addr) >> 24 == 127;
		return 0;
	}
	if (inet_pton(AF_INET6, text, &six->sin6_addr) == 1) {
		six->sin6_family = AF_INET6;
		six->sin6_port = htons(port);
		a->len = sizeof(*six);
		a->loopback = IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
		return 0;
	}
	return -EINVAL;
}

static int parse_path(struct address *a, const char *path)
{
	if (!*path || strlen(path) >= sizeof(a->local.sun_path))
		return -EINVAL;
	a->local.sun_family = AF_UNIX;
	strcpy(a->local.sun_path, path);
	a->len = sizeof(a->local);
	a->loopback = true;
	a->path = a->local.sun_path;
	return 0;
}

int address_parse_listen(const char *text, struct address *a)
{
	const char *colon = strrchr(text, ':');
	bool brackets = *text == '[';
	size_t len;
	uint16_t port;

	memset(a, 0, sizeof(*a));
	if (!strncmp(text, "unix:", 5))
		return parse_path(a, text + 5);
	if (!colon) {
		strcpy(a->host, "127.0.0.1");
		return parse_port(text, &port) ? -EINVAL : parse_host(a, a->host, port);
	}
	len = (size_t)(colon - text);
	if (parse_port(colon + 1, &port) || (brackets && (len < 3 || colon[-1] != ']')))
		return -EINVAL;
	if (brackets) {
		text++;
		len -= 2;
	}
	if (!len || len >= sizeof(a->host) || (!brackets && memchr(text, ':', len)))
		return -EINVAL;
	memcpy(a->host, text, len);
	return parse_host(a, a->host, port);
}

/* Whether PATH is a socket that nobody listens on. */
static bool is_abandoned(const struct address *a)
{
	struct stat st;
	bool refused;
	int fd;

	if (lstat(a->path, &st) || !S_ISSOCK(st.st_mode))
		return false;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return false;
	refused = connect(fd, &a->any, a->len) && errno == ECONNREFUSED;
	close(fd);
	return refused;
}

static int bind_it(const struct address *a, int fd)
{
	if (a->path && is_abandoned(a))
		unlink(a->path);
	/* the file that bind(2) makes has the socket's mode */
	if (a->path && fchmod(fd, 0600))
		return -errno;
	return bind(fd, &a->any, a->len) ? -errno : 0;
}

int address_listen(const struct address *a)
{
	int fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1,
	    err;

	if (fd < 0)
		return -errno;
	if (!a->path)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	err = bind_it(a, fd);
	if (!err && listen(fd, BACKLOG))
		err = -errno;
	if (err)
		close(fd);
	return err ? err : fd;
}
