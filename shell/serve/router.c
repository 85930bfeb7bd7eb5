// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <event2/buffer.h>
#include <event2/http.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/units.h"
#include "session/asking.h"
#include "shell/serve/server.h"

/*
 * From a request to its answer. Whoever asks is looked at first (guard.c), then what for: a table
 * of paths with the parameters that each takes. Nothing else of a request is read, none of it is
 * ever a path of ours or goes to the shell's grammar.
 */
struct route {
	const char *path;
	const char *parameters; /* with blanks around each */
	void (*answer)(struct answer *a);
};

static void heap(struct answer *a) { answer_profile(a, false); }
static void allocs(struct answer *a) { answer_profile(a, true); }

static void healthz(struct answer *a)
{
	bool supervised;

	asking_lock(a->s->session);
	supervised = !session_ended(a->s->session);
	asking_unlock(a->s->session);
	if (supervised)
		fputs("ok\n", a->out);
	else
		answer_refuse(a, 503, "the program has ended, or was let go");
}

static void profiles(struct answer *a)
{
	a->type = "text/html; charset=utf-8";
	fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>mtrun: profiles</title></head>\n<body><ul>\n"
	      "<li><a href=\"heap\">heap</a>: what is live (<a href=\"heap?debug=1\">as text</a>; ?seconds=N: what comes within N seconds)</li>\n"
	      "<li><a href=\"allocs\">allocs</a>: all that was allocated (<a href=\"allocs?debug=1\">as text</a>)</li>\n"
	      "</ul></body></html>\n",
	      a->out);
}

static const struct route routes[] = {
	{ "/", " token pid ", answer_page },
	{ "/metrics", " pid ", answer_metrics },
	{ "/healthz", " ", healthz },
	{ "/debug/pprof/", " ", profiles },
	{ "/debug/pprof/heap", " seconds debug pid gc ", heap },
	{ "/debug/pprof/allocs", " seconds debug pid gc ", allocs },
};
#define API	   "/api/v1/"
#define PARAMETERS " n by sort at since base match pid "
#define EVENTS	   "/events"

/* ---- answers ------------------------------------------------------------- */

const char *answer_parameter(const struct answer *a, const char *name)
{
	return evhttp_find_header(&a->query, name);
}

void answer_refuse(struct answer *a, int status, const char *format, ...)
{
	va_list args;

	a->status = status;
	va_start(args, format);
	vsnprintf(a->why, sizeof(a->why), format, args);
	va_end(args);
}

struct process *answer_process(struct answer *a)
{
	const char *text = answer_parameter(a, "pid");
	struct process *found = NULL;
	uint64_t pid;

	if (!text) {
		found = session_main(a->s->session);
	} else if (number_parse(text, &pid) == 0) {
		/* in order of appearance: the last one is who has the number now */
		for (struct process *p = session_processes(a->s->session); p; p = p->next)
			if ((uint64_t)p->pid == pid)
				found = p;
	}
	if (!found) {
		answer_refuse(a, 404, "there is no process '%s'", text ? text : "");
		return NULL;
	}
	return process_ref(found);
}

void answer_headers(struct evhttp_request *req, const char *type)
{
	struct evkeyvalq *headers = evhttp_request_get_output_headers(req);

	evhttp_add_header(headers, "Content-Type", type);
	evhttp_add_header(headers, "Cache-Control", "no-store");
	evhttp_add_header(headers, "X-Content-Type-Options", "nosniff");
	evhttp_add_header(headers, "X-Frame-Options", "DENY");
	evhttp_add_header(headers, "Referrer-Policy", "no-referrer");
	evhttp_add_header(
		headers, "Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
		"connect-src 'self'; base-uri 'none'; form-action 'none'; "
		"frame-ancestors 'none'");
}

static const char *reason(int status)
{
	switch (status) {
	case 200: return "OK";
	case 303: return "See Other";
	case 400: return "Bad Request";
	case 401: return "Unauthorized";
	case 403: return "Forbidden";
	case 404: return "Not Found";
	case 405: return "Method Not Allowed";
	case 503: return "Service Unavailable";
	case 507: return "Insufficient Storage";
	default: return "Internal Server Error";
	}
}

/*
 * Sends BODY; to HEAD only how long it is. The length is said here: libevent leaves it out where a
 * request is not of HTTP 1, and the connection may be kept all the same.
 */
static void reply(struct serve *s, struct evhttp_request *req, int status, struct evbuffer *body)
{
	char length[32];

	snprintf(length, sizeof(length), "%zu", evbuffer_get_length(body));
	evhttp_add_header(evhttp_request_get_output_headers(req), "Content-Length", length);
	if (evhttp_request_get_command(req) == EVHTTP_REQ_HEAD)
		evbuffer_drain(body, evbuffer_get_length(body));
	connections_answer(s->connections, req, evbuffer_get_length(body));
	evhttp_send_reply(req, status, reason(status), body);
}

static void say(struct serve *s, struct evhttp_request *req, int status, const char *text)
{
	struct evbuffer *body = evbuffer_new();
	char *shown = escape_copy(text);

	if (body && shown)
		evbuffer_add_printf(body, "%s\n", shown);
	answer_headers(req, "text/plain; charset=utf-8");
	if (status == 401)
		evhttp_add_header(evhttp_request_get_output_headers(req), "WWW-Authenticate",
				  "Bearer");
	if (status == 405)
		evhttp_add_header(evhttp_request_get_output_headers(req), "Allow", "GET, HEAD");
	if (body)
		reply(s, req, status, body);
	else
		evhttp_send_error(req, status, NULL);
	if (body)
		evbuffer_free(body);
	free(shown);
}

void router_left(struct evhttp_request *req)
{
	if (!evhttp_request_get_connection(req))
		evhttp_request_free(req);
}

static void answer_release(struct answer *a)
{
	if (a->out)
		fclose(a->out);
	if (a->body)
		evbuffer_free(a->body);
	evhttp_clear_headers(&a->query);
	free(a);
}

void answer_send(struct answer *a)
{
	bool failed = fflush(a->out) || ferror(a->out);

	if (failed && a->status == 200)
		answer_refuse(a, 507, "the answer is too large: ask for fewer rows (n=...)");
	if (a->req && !connections_have_room(a->s->connections, evbuffer_get_length(a->body)))
		answer_refuse(a, 503, "too much is waiting for readers that are slow");
	if (!a->req) { /* nobody wants it any more */
		answer_release(a);
		return;
	}
	if (a->status != 200) {
		say(a->s, a->req, a->status, a->why);
	} else {
		answer_headers(a->req, a->type);
		reply(a->s, a->req, 200, a->body);
	}
	answer_release(a);
}

static ssize_t put(void *body, const char *text, size_t len)
{
	if (evbuffer_get_length(body) + len > ANSWER_MOST || evbuffer_add(body, text, len)) {
		errno = EFBIG;
		return 0;
	}
	return (ssize_t)len;
}

/* NULL: out of memory (said). */
static struct answer *answer_new(struct serve *s, struct evhttp_request *req)
{
	struct answer *a = calloc(1, sizeof(*a));
	cookie_io_functions_t io = { .write = put };

	if (a) {
		*a = (struct answer){ .s = s,
				      .req = req,
				      .status = 200,
				      .type = "text/plain; charset=utf-8",
				      .body = evbuffer_new() };
		TAILQ_INIT(&a->query);
		a->out = a->body ? fopencookie(a->body, "w", io) : NULL;
	}
	if (a && a->out)
		return a;
	if (a)
		answer_release(a);
	evhttp_send_error(req, 500, NULL);
	return NULL;
}

/* ---- requests ------------------------------------------------------------ */

/* The token has come in the query of the page: from now on it comes as a cookie. */
static void send_cookie(struct serve *s, struct evhttp_request *req)
{
	struct evkeyvalq *headers = evhttp_request_get_output_headers(req);
	char *cookie;

	if (asprintf(&cookie, GUARD_COOKIE "=%s; Path=/; HttpOnly; SameSite=Strict", s->token) <
	    0) {
		evhttp_send_error(req, 500, NULL);
		return;
	}
	evhttp_add_header(headers, "Set-Cookie", cookie);
	evhttp_add_header(headers, "Location", "/");
	free(cookie);
	say(s, req, 303, "come in");
}

static bool is_allowed(const char *parameters, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = parameters; (at = strstr(at, name)); at++)
		if (len && at[-1] == ' ' && at[len] == ' ' && !strchr(name, ' '))
			return true;
	return false;
}

/* Whether all parameters are PARAMETERS', each once; otherwise it is refused. */
static bool check_parameters(struct answer *a, const char *parameters)
{
	struct evkeyval *one, *other;

	TAILQ_FOREACH(one, &a->query, next)
	{
		if (!is_allowed(parameters, one->key)) {
			answer_refuse(a, 400, "there is no parameter '%s' here:%s", one->key,
				      parameters[1] ? parameters : " none");
			return false;
		}
		TAILQ_FOREACH(other, &a->query, next)
		if (other != one && !strcmp(other->key, one->key)) {
			answer_refuse(a, 400, "the parameter '%s' is there twice", one->key);
			return false;
		}
	}
	return true;
}

static void route(struct answer *a, const char *path)
{
	for (size_t i = 0; i < sizeof(routes) / sizeof(*routes); i++)
		if (!strcmp(path, routes[i].path)) {
			if (check_parameters(a, routes[i].parameters))
				routes[i].answer(a);
			return;
		}
	if (strncmp(path, API, strlen(API)))
		answer_refuse(a, 404, "there is nothing at '%s'", path);
	else if (check_parameters(a, PARAMETERS))
		answer_command(a, path + strlen(API));
}

/* It is launched, or attached to, after we begin to listen: that can be refused in time. */
static bool has_program(struct serve *s)
{
	bool has;

	asking_lock(s->session);
	has = session_main(s->session) != NULL;
	asking_unlock(s->session);
	return has;
}

/* A, that is to be a stream of events; it is gone then. */
static void stream(struct answer *a)
{
	struct evhttp_request *req = a->req;
	struct serve *s = a->s;
	struct process *p = NULL;

	if (check_parameters(a, " pid ") && answer_parameter(a, "pid")) {
		asking_lock(s->session);
		p = answer_process(a);
		asking_unlock(s->session);
	}
	if (a->status != 200) {
		answer_send(a);
		return;
	}
	answer_release(a);
	events_begin(s, req, p);
}

void router_request(struct evhttp_request *req, void *ctx)
{
	struct serve *s = ctx;
	const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(req);
	struct evkeyvalq *headers = evhttp_request_get_input_headers(req);
	const char *path = uri ? evhttp_uri_get_path(uri) : NULL;
	const char *query = uri ? evhttp_uri_get_query(uri) : NULL;
	int method = evhttp_request_get_command(req);
	struct answer *a;

	connections_asked(s->connections, req, 0);
	if (method != EVHTTP_REQ_GET && method != EVHTTP_REQ_HEAD) {
		say(s, req, 405, "this server only answers questions");
		return;
	}
	if (!path || evbuffer_get_length(evhttp_request_get_input_buffer(req))) {
		say(s, req, 400, "a path, and no body");
		return;
	}
	if (!guard_host(&s->guard, evhttp_request_get_host(req))) {
		say(s, req, 403, "the Host header does not name this server (--listen-host)");
		return;
	}
	a = answer_new(s, req);
	if (!a)
		return;
	if (query && evhttp_parse_query_str(query, &a->query)) {
		answer_refuse(a, 400, "the query cannot be read");
		answer_send(a);
		return;
	}
	switch (guard_token(&s->guard, evhttp_find_header(headers, "Authorization"),
			    evhttp_find_header(headers, "Cookie"),
			    strcmp(path, "/") ? NULL : answer_parameter(a, "token"))) {
	case GUARD_NO:
		answer_refuse(a, 401, "the token is missing, or is another one");
		answer_send(a);
		return;
	case GUARD_QUERY:
		answer_release(a);
		send_cookie(s, req);
		return;
	case GUARD_YES: break;
	}
	if (!has_program(s)) {
		answer_refuse(a, 503, "the program has not begun");
		answer_send(a);
		return;
	}
	if (!strcmp(path, EVENTS) && method == EVHTTP_REQ_GET) {
		stream(a);
		return;
	}
	route(a, path);
	if (!a->later)
		answer_send(a);
}
