// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/events.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/units.h"
#include "shell/common/erring.h"
#include "shell/common/limiting.h"
#include "shell/common/shell.h"

/*
 * A block is text, read again each time it runs. What is due is found by the clock and by looking
 * at the program after each turn; a block that takes longer than its interval is not made up for. A
 * peak is told at most once a second, and the last one in any case: at the program's end.
 */
#define PEAK_MS 1000

struct every {
	struct every *next;
	uint64_t ms, due;
	char *commands;
};

struct events {
	struct every *every;
	char *on[ON_KINDS];
	bool exit_told, running;
	uint64_t peak, peak_told;
};

const char *const event_names[ON_KINDS] = { "exit", "limit", "peak", "error" };

static struct events *events(struct shell *shell)
{
	if (!shell->events)
		shell->events = calloc(1, sizeof(*shell->events));
	return shell->events;
}

static uint64_t peak(const struct shell *shell)
{
	struct ledger_totals t;

	ledger_totals(session_main(shell->session)->ledger, &t);
	return t.peak;
}

int events_on(struct shell *shell, enum event_when when, const char *text)
{
	bool any = text[strspn(text, " \t\n")];
	struct events *e = events(shell);
	char *copy = any ? strdup(text) : NULL;

	if (!e || (any && !copy))
		return -ENOMEM;
	free(e->on[when]);
	e->on[when] = copy;
	if (when == ON_LIMIT)
		shell->limiting.commands = copy;
	if (when == ON_PEAK)
		e->peak = peak(shell);
	return 0;
}

int events_every(struct shell *shell, uint64_t ms, const char *text)
{
	struct events *e = events(shell);
	struct every *every = calloc(1, sizeof(*every)), **at;

	if (every)
		every->commands = strdup(text);
	if (!e || !every || !every->commands) {
		if (every)
			free(every->commands);
		free(every);
		return -ENOMEM;
	}
	every->ms = ms;
	every->due = session_ms(shell->session) + ms;
	for (at = &e->every; *at; at = &(*at)->next)
		;
	*at = every;
	return 0;
}

static void free_every(struct every *every)
{
	struct every *next;

	for (; every; every = next) {
		next = every->next;
		free(every->commands);
		free(every);
	}
}

void events_every_off(struct shell *shell)
{
	struct events *e = shell->events;

	for (struct every *every = e ? e->every : NULL; every; every = every->next)
		every->ms = 0; /* one of them may be running; they go at the next turn */
}

static void print_event(FILE *out, const char *when, const char *commands)
{
	escape_printf(out, "%s {", when);
	escape_put_line(out, commands, strlen(commands));
	fputs("}\n", out);
}

void events_print(const struct shell *shell, FILE *out)
{
	const struct events *e = shell->events;
	struct text_buffer time;
	bool none = true;
	char when[64];

	for (const struct every *every = e ? e->every : NULL; every; every = every->next) {
		if (!every->ms)
			continue;
		snprintf(when, sizeof(when), "every %s", setting_text(&time, every->ms));
		print_event(out, when, every->commands);
		none = false;
	}
	for (int i = 0; e && i < ON_KINDS; i++) {
		if (!e->on[i])
			continue;
		snprintf(when, sizeof(when), "on %s", event_names[i]);
		print_event(out, when, e->on[i]);
		none = false;
	}
	if (none)
		fputs("none\n", out);
}

static bool events_has(const struct shell *shell, enum event_when when)
{
	return shell->events && shell->events->on[when];
}

bool events_any(const struct shell *shell)
{
	bool any = shell->events && shell->events->every;

	for (int i = 0; i < ON_KINDS; i++)
		any |= events_has(shell, (enum event_when)i);
	return any;
}

bool events_running(const struct shell *shell) { return shell->events && shell->events->running; }

void events_free(struct events *e)
{
	if (!e)
		return;
	free_every(e->every);
	for (int i = 0; i < ON_KINDS; i++)
		free(e->on[i]);
	free(e);
}

void events_again(struct shell *shell)
{
	if (shell->events) {
		shell->events->exit_told = false;
		shell->events->peak = 0;
	}
}

int events_due(const struct shell *shell, int ms)
{
	const struct events *e = shell->events;
	uint64_t now = session_ms(shell->session);

	for (const struct every *every = e->every; every && !e->running && !shell->ended;
	     every = every->next) {
		uint64_t left = every->due > now ? every->due - now : 0;

		if (every->ms && (ms < 0 || left < (uint64_t)ms))
			ms = left < 60000 ? (int)left : 60000;
	}
	return ms;
}

static void run_every(struct shell *shell, struct events *e)
{
	for (struct every **at = &e->every, *every; (every = *at);) {
		uint64_t now = session_ms(shell->session);

		if (!every->ms) {
			*at = every->next;
			every->next = NULL;
			free_every(every);
			continue;
		}
		if (now >= every->due && !shell->ended) {
			every->due += every->ms;
			if (every->due <= now)
				every->due = now + every->ms;
			shell_run_copy(shell, every->commands);
		}
		at = &every->next;
	}
}

static void run_on(struct shell *shell, struct events *e)
{
	uint64_t now = session_ms(shell->session), high;

	limiting_turn(shell, e->on[ON_LIMIT]);
	erring_turn(shell, e->on[ON_ERROR]);
	if (e->on[ON_PEAK]) {
		high = peak(shell);
		if (high > e->peak && (now >= e->peak_told + PEAK_MS || shell->ended)) {
			e->peak = high;
			e->peak_told = now;
			shell_run_copy(shell, e->on[ON_PEAK]);
		}
	}
	if (shell->ended && !e->exit_told) {
		e->exit_told = true;
		if (e->on[ON_EXIT])
			shell_run_copy(shell, e->on[ON_EXIT]);
	}
}

void events_turn(struct shell *shell)
{
	struct events *e = shell->events;

	if (e->running || shell->quit)
		return;
	e->running = true;
	run_every(shell, e);
	run_on(shell, e);
	e->running = false;
}
