// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/prompt/screen.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "session/session.h"

/*
 * One queue of bytes for the terminal, filled by everybody, emptied whenever the terminal takes
 * some. As long as anything is in it, nothing more is read from the program. An unfinished line of
 * the program's ("Name? ") gets a line of its own above the prompt; when more comes, that line is
 * written again with the rest, so that it looks as it would without a prompt beneath.
 */
#define CHUNK 65536	   /* of the program's output at a time */
#define ROOM  (256u << 10) /* a command that prints more waits for the terminal */
#define QUEUE (16u << 20)  /* and all do from here on */
#define KEPT  65536

struct screen {
	struct session *session;
	struct terminal *terminal;
	void (*hide)(void), (*show)(void);
	enum screen_mode mode;
	/* SCREEN_PROMPT: the line is off the screen until the queue is empty */
	bool hidden;
	bool fresh;	  /* the last byte written was a newline */
	bool fresh_below; /* on the normal screen, while the alternate one is shown */
	char *queue;
	size_t start, end, room;
	/* the program's unfinished line, if its last one is; whether it is the last thing written */
	char tail[256];
	size_t tail_len;
	bool tail_last;
	/* there is one (with a line of its own, above the prompt); all of it is in `tail` */
	bool tail_open, tail_whole;
	/* there is one that the cursor has left: it is written again where it is to be answered */
	bool tail_left;
	bool plain; /* a terminal without a cursor to move */
	char *kept;
	size_t kept_len, kept_lost;
};

static void on_writable(void *ctx, short revents);
static void on_program(void *ctx, short revents);

/* ---- the queue ----------------------------------------------------------- */

static void listen_to_program(struct screen *s, bool on)
{
	if (s->terminal->master >= 0)
		session_watch(s->session, s->terminal->master, on ? POLLIN : 0, on_program, s);
}

static void push(struct screen *s)
{
	while (s->start < s->end) {
		ssize_t n = write(s->terminal->user, s->queue + s->start, s->end - s->start);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN)
			n = (ssize_t)(s->end - s->start); /* it is gone */
		if (n < 0)
			break;
		s->start += (size_t)n;
	}
	if (s->start == s->end) {
		s->start = s->end = 0;
		session_watch(s->session, s->terminal->user, 0, NULL, NULL);
		listen_to_program(s, true);
		if (s->hidden) {
			s->hidden = false;
			s->show();
		}
	} else {
		session_watch(s->session, s->terminal->user, POLLOUT, on_writable, s);
		listen_to_program(s, false);
	}
}

static void on_writable(void *ctx, short revents)
{
	(void)revents;
	push(ctx);
}

static void add(struct screen *s, const char *text, size_t len)
{
	if (!len)
		return;
	if (s->room - s->end < len && s->start) {
		memmove(s->queue, s->queue + s->start, s->end - s->start);
		s->end -= s->start;
		s->start = 0;
	}
	if (s->room - s->end < len) {
		size_t room = (s->end + len) * 2;
		char *queue = s->end + len < QUEUE ? realloc(s->queue, room) : NULL;

		if (!queue) {
			terminal_write(s->terminal, s->queue + s->start, s->end - s->start);
			terminal_write(s->terminal, text, len);
			s->start = s->end = 0;
			s->fresh = text[len - 1] == '\n';
			return;
		}
		s->queue = queue;
		s->room = room;
	}
	memcpy(s->queue + s->end, text, len);
	s->end += len;
	s->fresh = text[len - 1] == '\n';
}

static void take_prompt_off(struct screen *s)
{
	if (s->mode == SCREEN_PROMPT && !s->hidden) {
		s->hidden = true;
		s->hide();
	}
}

/* ---- the program --------------------------------------------------------- */

/*
 * Keeps the end of what the program has printed, from the last newline on (or the last carriage
 * return that something follows).
 */
static void remember_tail(struct screen *s, const char *text, size_t len)
{
	const char *newline = memrchr(text, '\n', len), *back;
	unsigned rows, columns;

	if (newline) {
		len -= (size_t)(newline + 1 - text);
		text = newline + 1;
		s->tail_len = 0;
		s->tail_whole = true;
	}
	back = len > 1 ? memrchr(text, '\r', len - 1) : NULL;
	if (back) {
		len -= (size_t)(back + 1 - text);
		text = back + 1;
		s->tail_len = 0;
		s->tail_whole = true;
	}
	terminal_size(s->terminal, &rows, &columns);
	if (s->tail_len + len > sizeof(s->tail) || s->tail_len + len >= columns ||
	    memchr(text, '\033', len) || memchr(text, '\b', len))
		s->tail_whole = false;
	if (s->tail_whole) {
		memcpy(s->tail + s->tail_len, text, len);
		s->tail_len += len;
	} else
		s->tail_len += len ? 1 : 0;
}

static void close_line(struct screen *s)
{
	if (!s->fresh) {
		s->tail_open = s->tail_left = s->tail_last;
		s->tail_last = false;
		add(s, "\r\n", 2);
	}
}

static void program_prints(struct screen *s, const char *text, size_t len)
{
	take_prompt_off(s);
	if (s->tail_open && s->tail_whole && !s->plain) {
		add(s, "\033[A\r\033[K", 7);
		add(s, s->tail, s->tail_len);
	}
	s->tail_open = s->tail_left = false;
	/* our own text came between */
	if (s->mode == SCREEN_COMMAND && s->fresh && s->tail_len) {
		s->tail_len = 0;
		s->tail_whole = true;
	}
	add(s, text, len);
	remember_tail(s, text, len);
	s->tail_last = s->tail_len > 0;
	if (s->mode == SCREEN_PROMPT)
		close_line(s);
}

static void keep(struct screen *s, const char *text, size_t len)
{
	if (!s->kept)
		s->kept = malloc(KEPT);
	if (!s->kept)
		return;
	if (len > KEPT) {
		s->kept_lost += len - KEPT;
		text += len - KEPT;
		len = KEPT;
	}
	if (s->kept_len + len > KEPT) {
		size_t gone = s->kept_len + len - KEPT;

		s->kept_lost += gone;
		s->kept_len -= gone;
		memmove(s->kept, s->kept + gone, s->kept_len);
	}
	memcpy(s->kept + s->kept_len, text, len);
	s->kept_len += len;
}

static bool is_kept(const struct screen *s)
{
	return s->mode == SCREEN_DRAWN || s->mode == SCREEN_LENT;
}

/* Returns whether there may be more. */
static bool read_program(struct screen *s)
{
	static char text[CHUNK];
	size_t len = 0;
	ssize_t n = 0;

	if (s->terminal->master < 0)
		return false;
	while (len < sizeof(text) &&
	       (n = read(s->terminal->master, text + len, sizeof(text) - len)) > 0)
		len += (size_t)n;
	if (n < 0 && errno == EIO) /* nobody has it open any more */
		session_watch(s->session, s->terminal->master, 0, NULL, NULL);
	if (!len)
		return false;
	if (is_kept(s))
		keep(s, text, len);
	else
		program_prints(s, text, len);
	return n > 0;
}

static void on_program(void *ctx, short revents)
{
	struct screen *s = ctx;

	(void)revents;
	read_program(s);
	if (s->start < s->end || s->hidden)
		push(s);
}

void screen_catch_up(struct screen *s)
{
	while (read_program(s))
		if (s->end - s->start > QUEUE / 4)
			screen_flush(s);
	if (s->start < s->end || s->hidden)
		push(s);
}

/* ---- ours ---------------------------------------------------------------- */

void screen_write(struct screen *s, const char *text, size_t len)
{
	if (is_kept(s)) {
		keep(s, text, len);
		return;
	}
	take_prompt_off(s);
	if (s->tail_last)
		close_line(s);
	s->tail_open = false;
	add(s, text, len);
	if (s->mode == SCREEN_PROMPT && !s->fresh)
		add(s, "\r\n", 2);
	push(s);
}

void screen_draw(struct screen *s, const char *text, size_t len)
{
	if (!screen_done(s))
		return;
	add(s, text, len);
	push(s);
}

bool screen_done(const struct screen *s) { return s->start == s->end; }

bool screen_has_room(const struct screen *s) { return s->end - s->start < ROOM; }

void screen_drop(struct screen *s)
{
	s->start = s->end = 0;
	s->fresh = s->tail_last = s->tail_left = false;
	s->tail_len = 0;
	s->tail_whole = true;
	push(s);
}

void screen_flush(struct screen *s)
{
	terminal_write(s->terminal, s->queue + s->start, s->end - s->start);
	s->start = s->end;
	s->fresh = true; /* somebody else may write now */
	s->tail_last = false;
	push(s);
}

bool screen_takes_lines(const struct screen *s)
{
	return s->mode == SCREEN_COMMAND || s->mode == SCREEN_PROMPT;
}

static void alternate(struct screen *s, bool on)
{
	const char *text = s->plain ? "" : terminal_switch(s->terminal, on);

	if (on)
		s->fresh_below = s->fresh;
	add(s, text, strlen(text));
	if (!on && !s->plain)
		s->fresh = s->fresh_below;
}

void screen_suspend(struct screen *s, bool stopping)
{
	if (s->mode == SCREEN_DRAWN)
		alternate(s, !stopping);
	screen_flush(s);
}

static void write_kept(struct screen *s)
{
	char lost[96];

	if (s->kept_lost)
		add(s, lost,
		    (size_t)snprintf(lost, sizeof(lost), "[%zu byte%s of output %s not shown]\r\n",
				     s->kept_lost, plural(s->kept_lost),
				     s->kept_lost == 1 ? "is" : "are"));
	if (s->kept_len)
		program_prints(s, s->kept, s->kept_len);
	s->kept_len = s->kept_lost = 0;
}

void screen_enter(struct screen *s, enum screen_mode mode)
{
	enum screen_mode before = s->mode;

	s->mode = mode;
	if (before == SCREEN_PROMPT && mode != SCREEN_PROMPT) {
		s->hidden = false;
		s->tail_open = false; /* the line above is the one just typed */
	}
	if (mode == SCREEN_HANDED && s->tail_left && s->tail_whole) {
		add(s, s->tail, s->tail_len); /* the question that is answered now */
		s->tail_last = true;
		s->tail_left = false;
	}
	if (before == SCREEN_DRAWN)
		alternate(s, false);
	if (mode == SCREEN_DRAWN)
		alternate(s, true);
	write_kept(s);
	if (mode == SCREEN_PROMPT)
		close_line(s);
	if (s->start < s->end)
		push(s);
}

/* ---- life ---------------------------------------------------------------- */

struct screen *screen_new(struct session *session, struct terminal *terminal, void (*hide)(void),
			  void (*show)(void))
{
	struct screen *s = calloc(1, sizeof(*s));
	const char *term = getenv("TERM");

	if (!s)
		return NULL;
	s->session = session;
	s->terminal = terminal;
	s->hide = hide;
	s->show = show;
	s->fresh = s->tail_whole = true;
	s->plain = !term || !*term || !strcmp(term, "dumb");
	s->queue = malloc(s->room = CHUNK);
	if (!s->queue) {
		free(s);
		return NULL;
	}
	listen_to_program(s, true);
	return s;
}

int screen_renew(struct screen *s)
{
	int err;

	screen_catch_up(s);
	listen_to_program(s, false);
	err = terminal_renew(s->terminal);
	listen_to_program(s, !err && screen_done(s));
	s->tail_left = false;
	s->tail_len = 0;
	s->tail_whole = true;
	return err;
}

void screen_hang_up(struct screen *s)
{
	listen_to_program(s, false);
	terminal_hang_up(s->terminal);
}

void screen_free(struct screen *s)
{
	if (!s)
		return;
	listen_to_program(s, false);
	session_watch(s->session, s->terminal->user, 0, NULL, NULL);
	free(s->queue);
	free(s->kept);
	free(s);
}
