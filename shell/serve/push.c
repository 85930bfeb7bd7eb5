// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/serve/push.h"

#include <ctype.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/util.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/message.h"
#include "export/export.h"
#include "report/view.h"
#include "session/asking.h"
#include "session/options.h"
#include "shell/common/exporting.h"
#include "shell/common/reporting.h"
#include "shell/serve/server.h"

/*
 * Every so often a profile is made: what is live now, and what was allocated since the last one. It
 * is put into a queue, and the queue is sent one by one, each over a connection of its own (POST
 * PATH?name=...&from=...&until=...&format=pprof, the profile as a part of multipart/form-data, as
 * Pyroscope's documentation of its ingest API has it). What cannot be sent is tried again, later
 * and later, never at the same time as others that failed with us (jitter). The queue is bounded:
 * the oldest goes. The user hears once that it does not work, and once that it does again.
 *
 * There is no TLS here: the address is this machine's own agent, or a network that is trusted.
 */
#define QUEUE	    8u
#define FIRST_MS    1000u  /* until it is tried again, */
#define LONGEST_MS  60000u /* doubled up to this */
#define TIMEOUT	    10	   /* seconds without an answer */
#define BOUNDARY    "mtrun-7d1c0f5ae2b94c38"
#define ANSWER_HEAD 256u /* bytes of an answer that are looked at */

struct item {
	struct evbuffer *body;
	time_t from, until;
};

struct push {
	struct serve *s;
	char *url; /* for messages */
	struct address address;
	char *path, *host;
	char *labels; /* ,K="V"... or "" */
	uint64_t every_ms;
	struct event *due, *again;
	struct item queue[QUEUE];
	size_t queued;
	time_t last; /* when the last profile was made */
	struct profile before;
	struct process *process;	/* whose `before` is: a reference; NULL: nobody's */
	struct bufferevent *connection; /* NULL: nothing is being sent */
	uint64_t pause_ms;
	bool failing; /* and it was said */
	uint64_t lost;
};

/* ---- the queue ----------------------------------------------------------- */

static void drop_first(struct push *p)
{
	evbuffer_free(p->queue[0].body);
	p->queued--;
	memmove(p->queue, p->queue + 1, p->queued * sizeof(*p->queue));
}

static void enqueue(struct push *p, struct item item)
{
	/* the one that is being sent stays */
	if (p->queued == QUEUE) {
		evbuffer_free(p->queue[1].body);
		memmove(p->queue + 1, p->queue + 2, (QUEUE - 2) * sizeof(*p->queue));
		p->queued--;
		p->lost++;
	}
	p->queue[p->queued++] = item;
}

/* ---- sending ------------------------------------------------------------- */

static void send_first(struct push *p);

static void disconnect(struct push *p)
{
	if (p->connection)
		bufferevent_free(p->connection);
	p->connection = NULL;
}

static void failed(struct push *p, const char *why)
{
	struct timeval later;
	uint32_t random;
	uint64_t ms;

	disconnect(p);
	if (!p->failing)
		message_error("--push: cannot send to '%s': %s: trying again", p->url, why);
	p->failing = true;
	p->pause_ms = p->pause_ms ? p->pause_ms * 2 : FIRST_MS;
	p->pause_ms = p->pause_ms > LONGEST_MS ? LONGEST_MS : p->pause_ms;
	evutil_secure_rng_get_bytes(&random, sizeof(random));
	ms = p->pause_ms / 2 + random % (p->pause_ms / 2 + 1);
	later = (struct timeval){ (time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000) };
	evtimer_add(p->again, &later);
}

static void sent(struct push *p)
{
	disconnect(p);
	drop_first(p);
	p->pause_ms = 0;
	if (p->failing && p->lost)
		message_say("--push: '%s' takes profiles again; %" PRIu64 " were lost", p->url,
			    p->lost);
	else if (p->failing)
		message_say("--push: '%s' takes profiles again", p->url);
	p->failing = false;
	p->lost = 0;
	send_first(p);
}

/* The status of an answer; 0: not there yet; -1: it is none. */
static int status_of(struct evbuffer *in)
{
	char head[ANSWER_HEAD];
	ev_ssize_t n = evbuffer_copyout(in, head, sizeof(head) - 1);
	int status;

	if (n < 0)
		return -1;
	head[n] = '\0';
	if (!memchr(head, '\n', (size_t)n))
		return n == sizeof(head) - 1 ? -1 : 0;
	return sscanf(head, "HTTP/1.%*1d %3d", &status) == 1 ? status : -1;
}

static void readable(struct bufferevent *b, void *arg)
{
	struct push *p = arg;
	int status = status_of(bufferevent_get_input(b));
	char why[64];

	if (!status)
		return;
	if (status >= 200 && status < 300) {
		sent(p);
		return;
	}
	snprintf(why, sizeof(why), status < 0 ? "no HTTP answer" : "it answers with status %d",
		 status);
	/* one that is refused is refused again */
	if (status >= 400 && status < 500 && status != 408 && status != 429 && p->queued) {
		drop_first(p);
		p->lost++;
	}
	failed(p, why);
}

static void event(struct bufferevent *b, short what, void *arg)
{
	struct push *p = arg;

	(void)b;
	if (what & BEV_EVENT_CONNECTED)
		return;
	failed(p, what & BEV_EVENT_TIMEOUT ? "no answer"
		  : what & BEV_EVENT_ERROR ? strerror(errno)
					   : "it closed the connection");
}

static void put_encoded(struct evbuffer *out, const char *text)
{
	for (; *text; text++)
		if (isalnum((unsigned char)*text) || strchr("-._~", *text))
			evbuffer_add(out, text, 1);
		else
			evbuffer_add_printf(out, "%%%02X", (unsigned char)*text);
}

/* The name of the series: NAME{LABELS}. */
static void put_name(struct push *p, struct evbuffer *out)
{
	char *name = NULL;

	if (asprintf(&name, "%s{pid=\"%d\"%s}", p->process->command ? p->process->command : "mtrun",
		     (int)p->process->pid, p->labels) < 0)
		return;
	put_encoded(out, name);
	free(name);
}

/* What the servers are to make of the values; "cumulative" is their word for not to be summed. */
#define SAMPLE_TYPES                                                             \
	"{\"alloc_objects\":{\"units\":\"objects\",\"aggregation\":\"sum\"},"    \
	"\"alloc_space\":{\"units\":\"bytes\",\"aggregation\":\"sum\"},"         \
	"\"inuse_objects\":{\"units\":\"objects\",\"aggregation\":\"average\"}," \
	"\"inuse_space\":{\"units\":\"bytes\",\"aggregation\":\"average\"}}"
#define PART(name, more) \
	"--" BOUNDARY "\r\nContent-Disposition: form-data; name=\"" name "\"" more "\r\n"

static bool put_request(struct push *p, struct evbuffer *out)
{
	static const char head[] = PART(
		"profile",
		"; filename=\"profile.pb.gz\"") "Content-Type: application/octet-stream\r\n\r\n";
	static const char tail[] = "\r\n" PART(
		"sample_type_config",
		"; filename=\"sample_types.json\"") "Content-Type: application/json\r\n\r\n" SAMPLE_TYPES
						    "\r\n--" BOUNDARY "--\r\n";
	struct item *item = &p->queue[0];
	size_t len = evbuffer_get_length(item->body);

	evbuffer_add_printf(out, "POST %s?name=", p->path);
	put_name(p, out);
	evbuffer_add_printf(
		out,
		"&from=%lld&until=%lld&format=pprof&spyName=mtrun&units=bytes HTTP/1.1\r\n"
		"Host: %s\r\nUser-Agent: mtrun/" MTRUN_VERSION "\r\n"
		"Content-Type: multipart/form-data; boundary=" BOUNDARY "\r\n"
		"Content-Length: %zu\r\nConnection: close\r\n\r\n",
		(long long)item->from, (long long)item->until, p->host,
		len + strlen(head) + strlen(tail));
	return evbuffer_add(out, head, strlen(head)) == 0 &&
	       evbuffer_add(out, evbuffer_pullup(item->body, -1), len) == 0 &&
	       evbuffer_add(out, tail, strlen(tail)) == 0;
}

static void send_first(struct push *p)
{
	struct timeval timeout = { TIMEOUT, 0 };

	if (!p->queued || p->connection || evtimer_pending(p->again, NULL))
		return;
	p->connection = bufferevent_socket_new(p->s->base, -1, BEV_OPT_CLOSE_ON_FREE);
	if (!p->connection || !put_request(p, bufferevent_get_output(p->connection))) {
		failed(p, "out of memory");
		return;
	}
	bufferevent_setcb(p->connection, readable, NULL, event, p);
	bufferevent_set_timeouts(p->connection, &timeout, &timeout);
	if (bufferevent_enable(p->connection, EV_READ | EV_WRITE) ||
	    bufferevent_socket_connect(p->connection, &p->address.any, (int)p->address.len))
		failed(p, strerror(errno));
}

static void again(evutil_socket_t fd, short what, void *arg)
{
	(void)fd, (void)what;
	send_first(arg);
}

/* ---- making -------------------------------------------------------------- */

/* NOW's totals become what was allocated since `before`, which becomes NOW's. 0 or -ENOMEM. */
static int since_last(struct push *p, struct profile *now)
{
	struct profile copy = { 0 }, *before = &p->before;
	size_t k = 0;

	if (profile_copy(&copy, now))
		return -ENOMEM;
	profile_sort(now);
	profile_sort(before);
	for (size_t i = 0; i < now->count; i++) {
		struct profile_row *r = &now->row[i];

		while (k < before->count && before->row[k].stack < r->stack)
			k++;
		if (k == before->count || before->row[k].stack != r->stack)
			continue;
		r->total_size -= before->row[k].total_size;
		r->total_count -= before->row[k].total_count;
	}
	profile_release(before);
	*before = copy;
	return 0;
}

static ssize_t put(void *body, const char *text, size_t len)
{
	return evbuffer_add(body, text, len) ? 0 : (ssize_t)len;
}

static int write_item(struct exporting *x, const struct profile *profile, struct sites *sites,
		      struct evbuffer *body)
{
	struct view_options options = { .key = VIEW_STACK, .sort = SORT_NONE, .limit = VIEW_ALL };
	cookie_io_functions_t io = { .write = put };
	FILE *out = fopencookie(body, "w", io);
	struct view view;
	int err = out ? view_make(&view, profile, sites, &options) : -ENOMEM;

	if (!err) {
		x->export.view = &view;
		x->export.sites = sites;
		x->export.moment = "now";
		x->export.quick = true;
		err = export_pprof(out, &x->export);
		view_release(&view);
	}
	if (out && fclose(out))
		err = -ENOMEM;
	return err;
}

/* The session's lock is held. NULL: it cannot be made. */
static struct evbuffer *make_body(struct push *p)
{
	struct shell *shell = &p->s->shell;
	struct evbuffer *body = evbuffer_new();
	const struct moment now = { 0 };
	struct profile profile;
	struct exporting x;
	struct sites *sites;
	int err;

	if (!body ||
	    reporting_profile(shell, NULL, &now, NULL, PROFILE_DEAD, 0, NULL, &profile, &sites))
		goto out;
	err = since_last(p, &profile);
	if (reporting_lookup(shell, &profile, sites, true))
		goto out;
	err = err ? err : exporting_init(&x, shell, p->process);
	if (!err) {
		asking_unlock(shell->session);
		err = write_item(&x, &profile, sites, body);
		asking_lock(shell->session);
		exporting_release(&x);
	}
	profile_release(&profile);
	if (!err)
		return body;
out:
	if (body)
		evbuffer_free(body);
	return NULL;
}

static void due(evutil_socket_t fd, short what, void *arg)
{
	struct push *p = arg;
	struct shell *shell = &p->s->shell;
	struct process *main_process;
	struct item item = { .from = p->last, .until = time(NULL) };

	(void)fd, (void)what;
	if (item.from == item.until) /* the last one came late: the next one has what this would */
		return;
	asking_lock(shell->session);
	main_process = session_main(shell->session);
	if (main_process &&
	    main_process != p->process) { /* it began, or executed another program */
		process_unref(p->process);
		p->process = process_ref(main_process);
		profile_release(&p->before);
		p->before = (struct profile){ 0 };
	}
	if (p->process && !session_ended(shell->session)) {
		shell->about = process_ref(p->process);
		item.body = make_body(p);
		shell_leave_subject(shell);
	}
	asking_unlock(shell->session);
	p->last = item.until;
	if (item.body)
		enqueue(p, item);
	send_first(p);
}

/* ---- life ---------------------------------------------------------------- */

/* 0, or -EINVAL. */
static int parse_url(struct push *p, const char *url)
{
	char host[80];
	size_t len;

	if (!strncmp(url, "unix:", 5)) {
		p->host = strdup("localhost");
		p->path = strdup("/ingest");
		return address_parse_listen(url, &p->address);
	}
	if (strncmp(url, "http://", 7))
		return -EINVAL;
	url += 7;
	len = strcspn(url, "/");
	if (!len || len > sizeof(host) - 4)
		return -EINVAL;
	for (const char *c = url; *c; c++)
		if (*c <= ' ' || *c == '?' || *c == '#' || *c == 0x7f)
			return -EINVAL;
	memcpy(host, url, len);
	strcpy(host + len, memchr(url, ':', len) && url[len - 1] != ']' ? "" : ":80");
	p->host = strndup(url, len);
	p->path = strdup(url[len] && url[len + 1] ? url + len : "/ingest");
	return address_parse_listen(host, &p->address);
}

static char *make_labels(char *const *label)
{
	char *text = strdup("");

	for (; label && *label && text; label++) {
		size_t name = strcspn(*label, "=");
		char *more = NULL;

		if (asprintf(&more, "%s,%.*s=\"%s\"", text, (int)name, *label, *label + name + 1) <
		    0)
			more = NULL;
		free(text);
		text = more;
	}
	return text;
}

struct push *push_new(struct serve *s, const struct push_options *o, char *why, size_t len)
{
	struct push *p = calloc(1, sizeof(*p));
	struct timeval every = { (time_t)(o->every_ms / 1000),
				 (suseconds_t)(o->every_ms % 1000 * 1000) };

	if (!p || !(p->url = strdup(o->url)) || !(p->labels = make_labels(o->label))) {
		snprintf(why, len, "out of memory");
		push_free(p);
		return NULL;
	}
	p->s = s;
	p->every_ms = o->every_ms;
	p->last = time(NULL);
	if (parse_url(p, o->url)) {
		snprintf(why, len, "invalid value '%s': expected " PUSH_ACCEPTED, o->url);
		push_free(p);
		return NULL;
	}
	p->due = event_new(s->base, -1, EV_PERSIST, due, p);
	p->again = evtimer_new(s->base, again, p);
	if (!p->host || !p->path || !p->due || !p->again || event_add(p->due, &every)) {
		snprintf(why, len, "out of memory");
		push_free(p);
		return NULL;
	}
	return p;
}

void push_free(struct push *p)
{
	if (!p)
		return;
	disconnect(p);
	while (p->queued)
		drop_first(p);
	if (p->due)
		event_free(p->due);
	if (p->again)
		event_free(p->again);
	profile_release(&p->before);
	process_unref(p->process);
	free(p->labels);
	free(p->host);
	free(p->path);
	free(p->url);
	free(p);
}
