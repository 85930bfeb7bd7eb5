/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * server.h - a server from within: what those who make the answers share.
 */
#ifndef MTRUN_SERVER_H
#define MTRUN_SERVER_H

#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/queue.h>

#include "shell/common/shell.h"
#include "shell/serve/address.h"
#include "shell/serve/connections.h"
#include "shell/serve/guard.h"

struct push;	/* push.c */
struct waiting; /* served_profile.c */
struct watcher; /* page_events.c */

struct serve {
	struct session *session;
	struct shell shell; /* its own, with nothing of the user's but the settings */
	char *text;	    /* the address as it was given */
	struct address address;
	struct guard guard;
	char *token;
	struct event_base *base;
	struct evhttp *http;
	struct evconnlistener *listener;
	struct event *wake; /* serve_stop() */
	struct event *tick; /* each second: events, the session's end, the listener's rest */
	int wake_fd;
	int first_fd; /* the lowest that was free when it began */
	struct connections *connections;
	struct push *push;	 /* NULL: nothing is sent */
	struct waiting *waiting; /* answers that are made later */
	struct watcher *watchers;
	unsigned nwatchers;
	bool resting;	      /* too many connections: no new ones for a moment */
	pthread_mutex_t lock; /* of `running` alone */
	pthread_cond_t ended;
	bool running;
};

/* One answer, as it is made. */
struct answer {
	struct serve *s;
	struct evhttp_request *req;
	struct evkeyvalq query;
	FILE *out; /* its body */
	struct evbuffer *body;
	const char *type; /* its content type */
	bool later; /* who makes it sends it, when it is there; it may be gone by then (`req`) */
	int status; /* 200 unless it says otherwise: `why` is the body then */
	char why[1024];
};

/* More than this is no answer: the asker is told to ask for less. */
#define ANSWER_MOST (256u << 20)

/* The value of parameter NAME; NULL: it is not there. */
const char *answer_parameter(const struct answer *a, const char *name);
/* The answer is STATUS and a line that says why. */
void answer_refuse(struct answer *a, int status, const char *format, ...) PRINTF(3, 4);
/*
 * The process that the answer is about, a reference, chosen by `pid`; the session's lock is held.
 * NULL: there is none (refused).
 */
struct process *answer_process(struct answer *a);
/* Sends it, or the refusal, and frees it. Only of one that is made later. */
void answer_send(struct answer *a);

/* ---- those who make them: without the session's lock --------------------- */

/* api_commands.c: /api/v1/NAME */
void answer_command(struct answer *a, const char *name);
/* served_profile.c: pprof; TOTAL: what was allocated. Later, if `seconds` says so */
void answer_profile(struct answer *a, bool total);
/* Each second: who has left is forgotten; what has ended is answered. */
void profile_tick(struct serve *s);
/* Before the server leaves: whoever waits gets the difference so far. */
void profile_leave(struct serve *s);
/* Those that wait are forgotten; with the session's lock. */
void profile_forget_waiting(struct serve *s);
/* metrics.c */
void answer_metrics(struct answer *a);
/* page.c: export html's page, which goes on */
void answer_page(struct answer *a);
/*
 * page_events.c: a stream of server-sent events about P, a reference that is taken over; NULL:
 * about the process that questions are about. The request is its own from then on.
 */
void events_begin(struct serve *s, struct evhttp_request *req, struct process *p);
void events_tick(struct serve *s);
/* Before the server leaves: if the program has ended, the pages are told. */
void events_leave(struct serve *s);
/* With the session's lock. */
void events_release(struct serve *s);
/* router.c: what evhttp calls for each request */
void router_request(struct evhttp_request *req, void *serve);
/*
 * The connection of REQ, which is not answered yet, goes: to be called once in its close callback.
 * evhttp leaves such a request to us.
 */
void router_left(struct evhttp_request *req);
/* Headers of every answer. */
void answer_headers(struct evhttp_request *req, const char *type);

#endif
