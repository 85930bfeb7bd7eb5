// SPDX-License-Identifier: GPL-3.0-or-later
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "session/asking.h"
#include "session/options.h"
#include "shell/common/usage.h"
#include "shell/serve/server.h"

/*
 * /events: server-sent events (text/event-stream), a line of numbers each second, the same for all
 * who watch the same process. The last one is `end`: the process has ended, or was let go; also
 * when mtrun leaves because of that. A page that does not read misses some, and is put off when it
 * has missed many; it comes again by itself.
 */
#define WATCHERS 64u
#define BEHIND	 (64u << 10) /* bytes that wait for a reader: it gets no more */
#define PATIENCE 30u	     /* seconds of that */

struct watcher {
	struct watcher *next;
	struct serve *s;
	struct evhttp_request *req;
	struct process *process; /* a reference; NULL: the one that questions are about */
	unsigned missed;
};

/* With the session's lock. */
static void forget(struct watcher *w)
{
	struct watcher **at = &w->s->watchers;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	w->s->nwatchers--;
	process_unref(w->process);
	free(w);
}

/* C: its connection goes; NULL: only its stream ends. */
static void left(struct evhttp_connection *c, void *arg)
{
	struct watcher *w = arg;
	struct session *session = w->s->session;

	if (c)
		router_left(w->req);
	asking_lock(session);
	forget(w);
	asking_unlock(session);
}

/* ---- what is told -------------------------------------------------------- */

static void put_known(struct json *j, const char *key, int64_t value)
{
	json_uint_known(j, key, value >= 0, (uint64_t)value);
}

static void put_numbers(struct json *j, struct serve *s, const struct process *p)
{
	struct process_totals t;

	process_totals(p, session_options(s->session)->count, &t);
	json_string(j, "state", process_state_name(process_state_seen(p)));
	json_int(j, "pid", p->pid);
	json_uint(j, "ms", session_ms(s->session));
	put_known(j, "live", t.live);
	put_known(j, "allocated", t.allocated);
	put_known(j, "peak", t.peak);
	put_known(j, "peak_ms", t.peak_ms);
	put_known(j, "live_blocks", t.live_blocks);
	put_known(j, "allocs", t.allocs);
	put_known(j, "frees", t.frees);
	put_known(j, "maps", t.maps);
	put_known(j, "temporary", t.temporary);
}

static bool has_ended(const struct session *s, const struct process *chosen)
{
	return session_ended(s) ||
	       (chosen && chosen->state != PROCESS_RUNNING && chosen->state != PROCESS_STOPPED);
}

/* What is told of CHOSEN (NULL: the one that questions are about). NULL: out of memory. */
static struct evbuffer *make_event(struct serve *s, const struct process *chosen, bool *ended)
{
	struct evbuffer *event = evbuffer_new();
	char *text = NULL;
	size_t len;
	FILE *out = event ? open_memstream(&text, &len) : NULL;
	const struct process *p;
	struct rss_look rss;
	struct json j;

	if (out) {
		json_init(&j, out);
		json_object(&j, NULL);
		asking_lock(s->session);
		session_settle(s->session);
		*ended = has_ended(s->session, chosen);
		p = chosen ? chosen : session_main(s->session);
		put_numbers(&j, s, p);
		rss_look_begin(&rss, p);
		asking_unlock(s->session);
		json_int(&j, "rss", rss_look_end(&rss));
		json_end_object(&j);
	}
	if (!out || fclose(out) ||
	    evbuffer_add_printf(event, "event: %s\ndata: %s\n\n", *ended ? "end" : "now", text) <
		    0) {
		if (event)
			evbuffer_free(event);
		event = NULL;
	}
	free(text);
	return event;
}

static bool is_behind(struct watcher *w)
{
	struct bufferevent *b =
		evhttp_connection_get_bufferevent(evhttp_request_get_connection(w->req));

	return evbuffer_get_length(bufferevent_get_output(b)) > BEHIND;
}

static void send_to(struct watcher *w, struct evbuffer *event)
{
	struct evbuffer *copy = evbuffer_new();

	if (copy && evbuffer_add(copy, evbuffer_pullup(event, -1), evbuffer_get_length(event)) == 0)
		evhttp_send_reply_chunk(w->req, copy);
	if (copy)
		evbuffer_free(copy);
}

/* Ends its stream. W is gone. */
static void finish(struct watcher *w)
{
	struct evhttp_request *req = w->req;

	connections_answer(w->s->connections, req, 0);
	left(NULL, w);
	evhttp_send_reply_end(req);
}

/* W may be gone then. */
static void tell(struct watcher *w, struct evbuffer *event, bool ended)
{
	if (is_behind(w)) {
		if (++w->missed > PATIENCE)
			evhttp_connection_free(evhttp_request_get_connection(w->req));
		return;
	}
	w->missed = 0;
	send_to(w, event);
	if (ended)
		finish(w);
}

void events_tick(struct serve *s)
{
	struct evbuffer *event = NULL;
	struct process *about = NULL; /* whose it is */
	struct watcher *w, *next;
	bool ended = false;

	for (w = s->watchers; w; w = next) {
		next = w->next;
		if (!event || w->process != about) {
			if (event)
				evbuffer_free(event);
			about = w->process;
			event = make_event(s, about, &ended);
		}
		if (!event)
			return;
		tell(w, event, ended);
	}
	if (event)
		evbuffer_free(event);
}

/* ---- their life ---------------------------------------------------------- */

void events_begin(struct serve *s, struct evhttp_request *req, struct process *p)
{
	struct watcher *w = s->nwatchers < WATCHERS ? calloc(1, sizeof(*w)) : NULL;
	struct evbuffer *first = w ? evbuffer_new() : NULL;

	if (!first) {
		free(w);
		asking_lock(s->session);
		process_unref(p);
		asking_unlock(s->session);
		evhttp_send_error(req, 503, "too many pages are open");
		return;
	}
	*w = (struct watcher){ .next = s->watchers, .s = s, .req = req, .process = p };
	s->watchers = w;
	s->nwatchers++;
	connections_asked(s->connections, req, UINT64_MAX);
	answer_headers(req, "text/event-stream");
	evhttp_send_reply_start(req, 200, "OK");
	evhttp_connection_set_closecb(evhttp_request_get_connection(req), left, w);
	evhttp_connection_set_timeout(evhttp_request_get_connection(req), 0);
	evbuffer_add_printf(first, "retry: 2000\n\n");
	evhttp_send_reply_chunk(req, first);
	evbuffer_free(first);
	events_tick(s);
}

void events_leave(struct serve *s)
{
	bool ended;

	asking_lock(s->session);
	ended = session_ended(s->session);
	asking_unlock(s->session);
	if (!s->watchers || !ended)
		return;
	events_tick(s);
	/* what their sockets take at once */
	event_base_loop(s->base, EVLOOP_NONBLOCK);
}

void events_release(struct serve *s)
{
	while (s->watchers) {
		evhttp_connection_set_closecb(evhttp_request_get_connection(s->watchers->req), NULL,
					      NULL);
		forget(s->watchers);
	}
}
