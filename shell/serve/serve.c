// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/serve/serve.h"

#include <errno.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/message.h"
#include "session/asking.h"
#include "shell/serve/server.h"

/*
 * A thread beside the loop, and in it libevent's HTTP server: it reads requests, and answers one
 * after the other. An answer is made whole, in memory, and sent as fast as its reader takes it, so
 * that a slow reader costs memory and keeps nobody waiting. The session's lock is held only while
 * something is copied (session/asking.h), and the thread does nothing but read.
 *
 * What a stranger can do: open connections (beyond CONNECTIONS no new ones are taken for a second),
 * say nothing or little on them (connections.c), send long headers (HEADERS bytes) or a body (none
 * is taken), take answers slowly: one is ANSWER_MOST bytes at most, and what is on its way to all
 * is bounded, too.
 */
#define TIMEOUT 20
#define HEADERS (16 << 10)
#define BODY	1024

/* ---- its thread ---------------------------------------------------------- */

static void woken(evutil_socket_t fd, short what, void *arg)
{
	struct serve *s = arg;

	(void)fd, (void)what;
	event_base_loopbreak(s->base);
}

/* Descriptors are given out from the lowest: the next one says how many there are. */
static bool is_full(const struct serve *s)
{
	int fd = fcntl(s->wake_fd, F_DUPFD_CLOEXEC, 0);

	if (fd >= 0)
		close(fd);
	return fd < 0 || fd > s->first_fd + (int)CONNECTIONS;
}

static void tick(evutil_socket_t fd, short what, void *arg)
{
	struct serve *s = arg;

	(void)fd, (void)what;
	if (asking_is_closing(s->session)) {
		event_base_loopbreak(s->base);
		return;
	}
	if (s->connections)
		connections_tick(s->connections, s->resting);
	if (s->resting && !is_full(s)) {
		s->resting = false;
		evconnlistener_enable(s->listener);
	}
	profile_tick(s);
	if (s->watchers)
		events_tick(s);
}

/* Each connection's, as it comes. */
static struct bufferevent *connection(struct event_base *base, void *arg)
{
	struct serve *s = arg;

	if (is_full(s)) {
		s->resting = true;
		evconnlistener_disable(s->listener);
	}
	return bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
}

/* With the session's lock. */
static void release(struct serve *s)
{
	push_free(s->push);
	s->push = NULL;
	profile_forget_waiting(s);
	events_release(s);
	if (s->http)
		evhttp_free(s->http);
	connections_free(s->connections);
	if (s->wake)
		event_free(s->wake);
	if (s->tick)
		event_free(s->tick);
	if (s->base)
		event_base_free(s->base);
	if (s->address.path && s->listener)
		unlink(s->address.path);
	s->http = NULL;
	s->connections = NULL;
	s->wake = s->tick = NULL;
	s->base = NULL;
}

static void run(void *ctx)
{
	struct serve *s = ctx;

	asking_unlock(s->session);
	event_base_dispatch(s->base);
	event_del(s->wake); /* what is still to be done is not broken off */
	event_del(s->tick);
	events_leave(s);
	profile_leave(s);
	asking_lock(s->session);
	release(s);
	shell_asker_release(&s->shell);
	pthread_mutex_lock(&s->lock);
	s->running = false;
	pthread_cond_broadcast(&s->ended);
	pthread_mutex_unlock(&s->lock);
}

/* ---- life ---------------------------------------------------------------- */

static int prepare(struct serve *s)
{
	struct timeval second = { 1, 0 };

	s->base = event_base_new();
	s->wake = s->base ? event_new(s->base, s->wake_fd, EV_READ | EV_PERSIST, woken, s) : NULL;
	s->tick = s->base ? event_new(s->base, -1, EV_PERSIST, tick, s) : NULL;
	return !s->wake || !s->tick || event_add(s->wake, NULL) || event_add(s->tick, &second)
		       ? -ENOMEM
		       : 0;
}

/* FD is taken over, also when it fails. */
static int answer_on(struct serve *s, int fd)
{
	struct evhttp_bound_socket *bound = NULL;

	s->first_fd = fd + 1;
	s->connections = connections_new(fd, s->first_fd);
	s->http = s->connections ? evhttp_new(s->base) : NULL;
	if (s->http)
		bound = evhttp_accept_socket_with_handle(s->http, fd);
	if (!bound) {
		close(fd);
		return -ENOMEM;
	}
	s->listener = evhttp_bound_socket_get_listener(bound);
	evhttp_set_max_headers_size(s->http, HEADERS);
	evhttp_set_max_body_size(s->http, BODY);
	evhttp_set_timeout(s->http, TIMEOUT);
	/* all of them, so that the refusal is ours */
	evhttp_set_allowed_methods(s->http, UINT16_MAX);
	evhttp_set_bevcb(s->http, connection, s);
	evhttp_set_gencb(s->http, router_request, s);
	return 0;
}

static void destroy(struct serve *s)
{
	if (!s)
		return;
	release(s);
	if (s->wake_fd >= 0)
		close(s->wake_fd);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->ended);
	free(s->token);
	free(s->text);
	free(s);
}

/* 0, or -1 (WHY says it). */
static int check(struct serve *s, const struct serve_options *o, char *why, size_t len)
{
	if (!o->listen)
		return 0;
	if (address_parse_listen(o->listen, &s->address)) {
		snprintf(why, len, "invalid value '%s': expected " ADDRESS_ACCEPTED, o->listen);
		return -1;
	}
	if (o->token_file && guard_read_token(o->token_file, &s->token, why, len))
		return -1;
	if (!s->address.loopback && !s->token) {
		snprintf(
			why, len,
			"'%s' can be reached from other machines: that needs a token (--listen-token FILE)",
			o->listen);
		return -1;
	}
	return 0;
}

static int begin(struct serve *s, const struct serve_options *o)
{
	int err = prepare(s), fd;

	if (err || !o->listen)
		return err;
	fd = address_listen(&s->address);
	return fd < 0 ? fd : answer_on(s, fd);
}

int serve_start(struct serve **out, struct session *session, const struct serve_options *o,
		char *why, size_t len)
{
	struct serve *s = calloc(1, sizeof(*s));
	int err;

	if (!s || !(s->text = strdup(o->listen ? o->listen : ""))) {
		snprintf(why, len, "out of memory");
		free(s);
		return -1;
	}
	s->session = session;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->ended, NULL);
	s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (check(s, o, why, len))
		goto out;
	s->guard = (struct guard){ .any_host = s->address.path != NULL,
				   .host = s->address.host,
				   .name = o->host,
				   .token = s->token };
	err = begin(s, o);
	if (!err && o->push.url) {
		s->push = push_new(s, &o->push, why, len);
		if (!s->push)
			goto out;
	}
	if (!err)
		err = shell_asker_init(&s->shell, session);
	if (!err) {
		s->running = true;
		err = asking_beside(session, run, s);
	}
	if (!err) {
		*out = s;
		return 0;
	}
	snprintf(why, len, "cannot listen on '%s': %s", s->text, strerror(-err));
out:
	destroy(s);
	return -1;
}

void serve_stop(struct serve *s)
{
	if (!s)
		return;
	eventfd_write(s->wake_fd, 1);
	asking_unlock(s->session);
	pthread_mutex_lock(&s->lock);
	while (s->running)
		pthread_cond_wait(&s->ended, &s->lock);
	pthread_mutex_unlock(&s->lock);
	asking_lock(s->session);
	destroy(s);
}

const char *serve_address(const struct serve *s) { return s->text; }
