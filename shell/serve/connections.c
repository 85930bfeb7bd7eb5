// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/serve/connections.h"

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "base/clock.h"

/*
 * evhttp gives each read and each write a time. Somebody who sends a byte of a request now and
 * then, or takes one of an answer, has a connection for as long as he likes, and 256 of those are
 * all that there are. So each second all connections are looked at, and one that has had its time
 * is shut down, upon which evhttp closes it. When there is no place for others, who has not asked
 * yet has PRESSED ms.
 *
 * evhttp tells of a connection only when it has asked. They are found by their descriptors instead:
 * these are given out from the lowest, so a short table has them. Its row is of another connection
 * when the kernel's number of the socket (SO_COOKIE), which is given once, is another one.
 */
#define ASKING_MS  20000u
#define PRESSED_MS 3000u
#define TAKING_MS  600000u
#define ROWS	   (2 * CONNECTIONS)
#define ON_ITS_WAY (512u << 20) /* bytes of answers, at most */

struct connection {
	uint64_t cookie; /* 0: none */
	uint64_t since_ms, until_ms;
	bool asked;
};

struct connections {
	int first_fd;
	struct sockaddr_storage address;
	size_t sending; /* bytes */
	struct connection row[ROWS];
};

/* An answer on its way. */
struct sending {
	struct connections *c;
	size_t bytes;
};

struct connections *connections_new(int listening, int first_fd)
{
	struct connections *c = calloc(1, sizeof(*c));
	socklen_t len = sizeof(c->address);

	if (!c)
		return NULL;
	c->first_fd = first_fd;
	if (getsockname(listening, (struct sockaddr *)&c->address, &len) == 0)
		return c;
	free(c);
	return NULL;
}

void connections_free(struct connections *c) { free(c); }

/* ---- which there are ----------------------------------------------------- */

static in_port_t port_of(const struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET ? ((const struct sockaddr_in *)a)->sin_port
				       : ((const struct sockaddr_in6 *)a)->sin6_port;
}

/* Whether FD is a connection that came in at the address that is listened on. */
static bool is_ours(const struct connections *c, int fd)
{
	struct sockaddr_storage a = { 0 };
	socklen_t len = sizeof(a), int_len = sizeof(int);
	int listens;

	if (getsockname(fd, (struct sockaddr *)&a, &len) || a.ss_family != c->address.ss_family ||
	    getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &int_len) || listens)
		return false;
	if (a.ss_family == AF_UNIX)
		return !strcmp(((struct sockaddr_un *)&a)->sun_path,
			       ((const struct sockaddr_un *)&c->address)->sun_path);
	return port_of(&a) == port_of(&c->address);
}

/* The row of FD, which is ours; NULL: it is beyond the table. */
static struct connection *row_of(struct connections *c, int fd)
{
	uint64_t cookie = 0, now = clock_ms();
	socklen_t len = sizeof(cookie);
	struct connection *r;

	if (fd < c->first_fd || (size_t)(fd - c->first_fd) >= ROWS)
		return NULL;
	r = &c->row[fd - c->first_fd];
	getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len);
	if (r->cookie != cookie)
		*r = (struct connection){ .cookie = cookie,
					  .since_ms = now,
					  .until_ms = now + ASKING_MS };
	return r;
}

void connections_tick(struct connections *c, bool full)
{
	uint64_t now = clock_ms();

	for (int fd = c->first_fd; (size_t)(fd - c->first_fd) < ROWS; fd++) {
		struct connection *r = is_ours(c, fd) ? row_of(c, fd) : NULL;

		if (r &&
		    (now >= r->until_ms || (full && !r->asked && now >= r->since_ms + PRESSED_MS)))
			shutdown(fd, SHUT_RDWR);
	}
}

/* ---- what they do -------------------------------------------------------- */

static struct connection *row_of_request(struct connections *c, struct evhttp_request *req)
{
	struct evhttp_connection *e = evhttp_request_get_connection(req);

	return row_of(c, bufferevent_getfd(evhttp_connection_get_bufferevent(e)));
}

void connections_asked(struct connections *c, struct evhttp_request *req, uint64_t ms)
{
	struct connection *r = row_of_request(c, req);

	if (!r)
		return;
	r->asked = true;
	r->until_ms = ms == UINT64_MAX ? ms : clock_ms() + ms + TAKING_MS;
}

bool connections_have_room(const struct connections *c, size_t bytes)
{
	return c->sending + bytes <= ON_ITS_WAY;
}

void connections_drain(const struct connections *c, struct event_base *base, uint64_t ms)
{
	uint64_t end = clock_ms() + ms;
	struct timespec moment = { 0, 1000000 };

	while (c->sending && clock_ms() < end) {
		event_base_loop(base, EVLOOP_NONBLOCK);
		nanosleep(&moment, NULL);
	}
}

static void release(struct sending *s)
{
	s->c->sending -= s->bytes;
	free(s);
}

static void closed(struct evhttp_connection *e, void *arg)
{
	(void)e;
	release(arg);
}

static void complete(struct evhttp_request *req, void *arg)
{
	struct sending *s = arg;
	struct connection *r = row_of_request(s->c, req);

	evhttp_connection_set_closecb(evhttp_request_get_connection(req), NULL, NULL);
	if (r) {
		r->asked = false;
		r->since_ms = clock_ms();
		r->until_ms = r->since_ms + ASKING_MS;
	}
	release(s);
}

void connections_answer(struct connections *c, struct evhttp_request *req, size_t bytes)
{
	struct sending *s = malloc(sizeof(*s));

	if (!s)
		return;
	*s = (struct sending){ c, bytes };
	c->sending += bytes;
	evhttp_request_set_on_complete_cb(req, complete, s);
	evhttp_connection_set_closecb(evhttp_request_get_connection(req), closed, s);
}
