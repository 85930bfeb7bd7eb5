// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "export/export.h"
#include "report/view.h"
#include "session/asking.h"
#include "shell/common/exporting.h"
#include "shell/common/reporting.h"
#include "shell/serve/server.h"

/*
 * Profiles as Go's net/http/pprof serves them, so that whoever scrapes those can scrape these:
 * gzipped profile.proto, with what is live and what was allocated in one; `seconds` for the
 * difference of two moments, the first of which is kept here until the second has come; `debug` for
 * the text of those.
 */
#define LONGEST 3600u /* seconds */
#define WAITING 16u   /* so many differences at once: each holds a profile */
/* so long readers have to take answers that are made as the server leaves */
#define LEAVE_MS 1000u

/* What answer_process() chose holds now, with what is live no more. 0, or -1 (refused). */
static int take(struct answer *a, struct profile *profile, struct sites **sites)
{
	struct shell *shell = &a->s->shell;
	const struct moment now = { 0 };

	shell->said[0] = '\0';
	if (reporting_profile(shell, NULL, &now, NULL, PROFILE_DEAD, 0, NULL, profile, sites) == 0)
		return 0;
	answer_refuse(a, 400, "%s", *shell->said ? shell->said : "no answer");
	return -1;
}

static void write_pprof(struct answer *a, struct exporting *x, const struct view *view,
			struct sites *sites, bool total, bool text)
{
	x->export.view = view;
	x->export.sites = sites;
	x->export.total = total;
	x->export.quick = true;
	x->export.moment = view->is_difference ? "what came meanwhile" : "now";
	if (text ? export_pprof_text(a->out, &x->export) : export_pprof(a->out, &x->export))
		answer_refuse(a, 500, "out of memory");
}

static bool is_text(const struct answer *a)
{
	const char *debug = answer_parameter(a, "debug");

	return debug && strcmp(debug, "0");
}

/* PROFILE is released. */
static void write_profile(struct answer *a, struct profile *profile, struct sites *sites,
			  bool total)
{
	struct view_options options = { .key = VIEW_STACK, .sort = SORT_NONE, .limit = VIEW_ALL };
	struct shell *shell = &a->s->shell;
	bool text = is_text(a);
	struct exporting x;
	struct view view;
	bool begun;
	int err;

	if (text)
		options.sort = total ? SORT_TOTAL : SORT_SIZE;
	/* released if it fails */
	if (reporting_lookup(shell, profile, sites, true)) {
		answer_refuse(a, 503, "interrupted");
		return;
	}
	err = exporting_init(&x, shell, shell_subject(shell));
	begun = !err;
	asking_unlock(shell->session);
	if (!err) {
		err = view_make(&view, profile, sites, &options);
		if (!err)
			write_pprof(a, &x, &view, sites, total, text);
		if (!err)
			view_release(&view);
	}
	asking_lock(shell->session);
	if (err)
		answer_refuse(a, 500, "out of memory");
	if (begun)
		exporting_release(&x);
	profile_release(profile);
	if (!text)
		a->type = "application/octet-stream";
}

/* ---- a difference -------------------------------------------------------- */

struct waiting {
	struct waiting *next;
	struct answer *a;
	bool total;
	pid_t pid; /* of the process at first */
	struct process *process;
	struct profile before;
	struct event *timer;
};

/* With the session's lock. */
static void forget(struct waiting *w)
{
	struct waiting **at = &w->a->s->waiting;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	process_unref(w->process);
	profile_release(&w->before);
	event_free(w->timer);
	free(w);
}

static void left(struct evhttp_connection *c, void *arg)
{
	struct waiting *w = arg;
	struct answer *a = w->a;

	(void)c;
	router_left(a->req);
	a->req = NULL;
	asking_lock(a->s->session);
	forget(w);
	asking_unlock(a->s->session);
	answer_send(a);
}

static bool has_left(struct waiting *w)
{
	struct evhttp_connection *c = evhttp_request_get_connection(w->a->req);
	struct pollfd p = { bufferevent_getfd(evhttp_connection_get_bufferevent(c)), POLLRDHUP, 0 };

	return poll(&p, 1, 0) > 0;
}

/* Nothing can come any more. */
static bool has_ended(const struct waiting *w)
{
	bool ended;

	asking_lock(w->a->s->session);
	ended = w->process->state != PROCESS_RUNNING && w->process->state != PROCESS_STOPPED;
	asking_unlock(w->a->s->session);
	return ended;
}

/* W is gone then. */
static void answer_waiting(struct waiting *w)
{
	struct answer *a = w->a;
	struct shell *shell = &a->s->shell;
	struct profile profile;
	struct sites *sites;

	asking_lock(shell->session);
	shell->about = process_ref(w->process);
	if (take(a, &profile, &sites) == 0) {
		if (profile_subtract(&profile, &w->before)) {
			profile_release(&profile);
			answer_refuse(a, 500, "out of memory");
		} else {
			write_profile(a, &profile, sites, w->total);
		}
	}
	shell_leave_subject(shell);
	evhttp_connection_set_closecb(evhttp_request_get_connection(a->req), NULL, NULL);
	forget(w);
	asking_unlock(shell->session);
	answer_send(a);
}

static void finish(evutil_socket_t fd, short what, void *arg)
{
	(void)fd, (void)what;
	answer_waiting(arg);
}

/* evhttp does not read from a connection that it is to answer on: it sees no end of it. */
void profile_tick(struct serve *s)
{
	for (struct waiting *w = s->waiting, *next; w; w = next) {
		next = w->next;
		if (has_left(w)) /* W goes with it */
			evhttp_connection_free(evhttp_request_get_connection(w->a->req));
		else if (has_ended(w))
			answer_waiting(w);
	}
}

void profile_leave(struct serve *s)
{
	if (!s->waiting)
		return;
	while (s->waiting)
		answer_waiting(s->waiting);
	connections_drain(s->connections, s->base, LEAVE_MS);
}

void profile_forget_waiting(struct serve *s)
{
	while (s->waiting) {
		struct answer *a = s->waiting->a;

		evhttp_connection_set_closecb(evhttp_request_get_connection(a->req), NULL, NULL);
		a->req = NULL;
		forget(s->waiting);
		answer_send(a);
	}
}

/* The lock is held, and the process chosen. */
static void begin(struct answer *a, bool total, uint64_t seconds)
{
	struct timeval later = { (time_t)seconds, 0 };
	struct sites *sites;
	struct waiting *w;
	unsigned n = 0;

	for (w = a->s->waiting; w; w = w->next)
		n++;
	if (n >= WAITING) {
		answer_refuse(a, 503, "%u differences are being waited for already", n);
		return;
	}
	w = calloc(1, sizeof(*w));
	if (!w) {
		answer_refuse(a, 500, "out of memory");
		return;
	}
	w->a = a;
	w->total = total;
	w->timer = evtimer_new(a->s->base, finish, w);
	if (!w->timer || take(a, &w->before, &sites)) {
		if (!w->timer)
			answer_refuse(a, 500, "out of memory");
		else
			event_free(w->timer);
		free(w);
		return;
	}
	connections_asked(a->s->connections, a->req, seconds * 1000);
	w->process = process_ref(shell_subject(&a->s->shell));
	w->next = a->s->waiting;
	a->s->waiting = w;
	evhttp_connection_set_closecb(evhttp_request_get_connection(a->req), left, w);
	evtimer_add(w->timer, &later);
	a->later = true;
}

void answer_profile(struct answer *a, bool total)
{
	const char *text = answer_parameter(a, "seconds");
	struct shell *shell = &a->s->shell;
	struct profile profile;
	struct sites *sites;
	uint64_t seconds = 0;

	if (text && (number_parse(text, &seconds) || seconds < 1 || seconds > LONGEST)) {
		answer_refuse(a, 400, "seconds: a number from 1 to %u", LONGEST);
		return;
	}
	if (seconds && is_text(a)) { /* its readers know no amounts below 0 */
		answer_refuse(a, 400, "seconds and debug cannot be combined, as in Go's own");
		return;
	}
	asking_lock(shell->session);
	shell->about = answer_process(a);
	if (shell->about && seconds)
		begin(a, total, seconds);
	else if (shell->about && take(a, &profile, &sites) == 0)
		write_profile(a, &profile, sites, total);
	shell_leave_subject(shell);
	asking_unlock(shell->session);
}
