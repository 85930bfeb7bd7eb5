/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/message.h"
#include "breathing.h"
#include "cmd-snapshot.h"
#include "comparing.h"
#include "dumping.h"
#include "alias.h"
#include "events.h"
#include "functions.h"
#include "grammar.h"
#include "interval.h"
#include "limiting.h"
#include "reporting.h"
#include "screen.h"
#include "unseen.h"

/*
 * The shell takes commands from the text of -x or from a script, one at a time, and runs each against the session. While it waits (for input,
 * for a `wait`, for a shell command) the session's loop turns. A script is read as it comes: with `-X -` another program may be at the
 * other end and wait for the answer to each line.
 */

#define AWAIT_MS 100
#define YOUNG_MS 1000
#define HOLD_MS 60000			/* a batch run keeps the program's last instant no longer than this */

/* ---- life ------------------------------------------------------------------------------------------------------------------------ */

struct process_sites {
	struct process_sites *next;
	struct process *process;	/* only compared until it is known to live: records of short-lived processes go away ... */
	pid_t pid;			/* ... and their memory may be another's by now */
	uint64_t began_ms;
	struct sites *sites;
};

static bool takes_rest(const char *name)
{
	char why[160];
	const struct command *c = command_find(name, why, sizeof(why));

	return c && c->flags & COMMAND_REST;
}

void shell_init(struct shell *shell, struct session *session)
{
	uint64_t interval = session_options(session)->interval_ms, now = session_ms(session);
	int err;

	*shell = (struct shell){ .session = session, .settings = { .rows = 20, .site_skip = strdup("") } };
	snapshots_for_program(shell);
	err = interval_set(shell, interval ? interval - now % interval : 0, interval);
	if (err)
		message_error("--interval: no timer: %s", strerror(-err));
	limiting_init(shell);
	dumping_init(shell);
}

void shell_forget(struct shell *shell)
{
	struct process_sites *next;

	for (struct process_sites *s = shell->sites; s; s = next) {
		next = s->next;
		sites_free(s->sites);
		free(s);
	}
	shell->sites = NULL;
	comparing_release(shell);
	functions_free(shell->functions);
	shell->functions = NULL;
}

void shell_release(struct shell *shell)
{
	interval_release(shell);
	dumping_release(shell);
	shell_forget(shell);
	events_free(shell->events);
	free(shell->settings.site_skip);
	*shell = (struct shell){ 0 };
}

int shell_turn(struct shell *shell, int ms)
{
	uint64_t now = session_ms(shell->session), enough = session_options(shell->session)->duration_ms;
	int err;

	if (enough && !shell->traced_enough && now < enough && (ms < 0 || (uint64_t)ms > enough - now))
		ms = (int)(enough - now < 60000 ? enough - now : 60000);
	if (shell->events)
		ms = events_due(shell, ms);
	err = session_turn(shell->session, ms);
	now = session_ms(shell->session);
	if (((enough && now >= enough) || (shell->leave && !shell->screen)) && !shell->traced_enough && !session_ended(shell->session)) {
		shell->traced_enough = true;
		session_settle(shell->session);
		session_detach(shell->session);
	}
	if (!shell->ended && session_ended(shell->session)) {
		shell->ended = true;
		shell->ended_ms = now;
	}
	if (shell->ended && now > shell->ended_ms + HOLD_MS && !shell->screen)
		session_hold(shell->session, false);
	dumping_turn(shell);
	unseen_turn(shell);
	if (shell->events)
		events_turn(shell);
	else
		limiting_turn(shell, NULL);
	return err;
}

static void nothing(void *ctx, short revents)
{
	(void)ctx;
	(void)revents;
}

/*
 * A /bin/sh that is just being started can lose a signal: dash keeps one that comes while it forks for later, and then executes another program. So Ctrl-C in its
 * first moments is repeated as long as it is still there, after longer and longer pauses: a busy machine may give it no turn for some hundred milliseconds.
 */
struct repeat {
	uint64_t when, pause;		/* ms; 0: no Ctrl-C yet; a pause of 0 then: no more */
};

static void repeat_interrupt(const struct shell *shell, struct repeat *r)
{
	uint64_t now = session_ms(shell->session);

	if (!r->when) {
		r->pause = now - shell->spawned_ms < YOUNG_MS ? AWAIT_MS : 0;
		r->when = now + r->pause;
	}
	if (!r->pause || now < r->when)
		return;
	kill(0, SIGINT);
	r->pause = r->pause < YOUNG_MS ? r->pause * 2 : 0;
	r->when = now + r->pause;
}

int shell_await(struct shell *shell, int fd, enum await_end end)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct repeat repeat = { 0 };
	int err = 0;

	if (session_watch(shell->session, fd, POLLIN, nothing, NULL) < 0)
		return -ENOSPC;
	while (!err && poll(&p, 1, 0) == 0) {
		if (end == AWAIT_LEAVE && shell->screen && shell_interrupted(shell))
			repeat_interrupt(shell, &repeat);
		err = (end >= AWAIT_LEAVE && shell->leave) || (end == AWAIT_INTERRUPT && shell_interrupted(shell)) ? -EINTR : shell_turn(shell, AWAIT_MS);
	}
	session_watch(shell->session, fd, 0, NULL, NULL);
	return err;
}

int shell_spawn(struct shell *shell, struct spawned *child, const char *command, int out, enum spawn_input input)
{
	int err;

	shell_flush(shell);
	err = spawn_shell(child, command, out, input);
	shell->spawned_ms = session_ms(shell->session);
	if (!err && shell_interrupted(shell))
		kill(child->pid, SIGINT);
	return err;
}

bool shell_interrupted(const struct shell *shell)
{
	sigset_t set;

	return shell->interrupted || (shell->screen && sigpending(&set) == 0 && sigismember(&set, SIGINT) == 1);
}

bool shell_is_open(const char *text)
{
	struct grammar g = { .at = text, .line = 1, .takes_rest = takes_rest, .expand = alias_expand };
	struct statement s;
	int r;

	while ((r = grammar_next(&g, &s)) == 1 || r == -EINVAL)
		if (r == 1)
			statement_release(&s);
	return r == -EAGAIN && g.in_braces;
}

void shell_flush(struct shell *shell)
{
	message_flush();
	if (shell->screen)
		screen_flush(shell->screen);
}

struct process *shell_process(struct shell *shell)
{
	session_settle(shell->session);
	return session_main(shell->session);
}

const struct before *shell_before(struct shell *shell)
{
	const struct process *p = session_main(shell->session);

	return p->before.state == BEFORE_NONE ? NULL : &p->before;
}

void shell_let_go(struct shell *shell)
{
	session_settle(shell->session);
	session_hold(shell->session, false);
	session_detach(shell->session);
	shell->detached = true;
	dumping_turn(shell);
}

struct process *shell_alive(struct shell *shell, const struct call *call)
{
	struct process *p = shell_process(shell);

	if (p->state == PROCESS_RUNNING || p->state == PROCESS_STOPPED)
		return p;
	shell_over(shell, call, p);
	return NULL;
}

int shell_over(const struct shell *shell, const struct call *call, const struct process *p)
{
	return shell_error(shell, call, "process %d is %s", (int)p->pid, process_state_name(p->state));
}

uint64_t shell_elapsed(const struct shell *shell, const struct process *p)
{
	return p->ended_ms ? p->ended_ms : session_ms(shell->session);
}

uint64_t shell_moment(const struct shell *shell, const struct process *p)
{
	return p->off ? p->off_ms : shell_elapsed(shell, p);
}

/* ---- stacks ------------------------------------------------------------------------------------------------------------------------ */

static uint32_t parent(void *ctx, uint32_t node, uint64_t *pc) { return process_stack_parent(ctx, node, pc); }
static struct symbol_frames frames(void *ctx, uint32_t node, uint64_t pc) { return process_frames(ctx, node, pc); }
static void rest(void *ctx) { session_breathe(ctx); }

static bool lives(const struct shell *shell, const struct process_sites *s)
{
	for (const struct process *p = session_processes(shell->session); p; p = p->next)
		if (p == s->process)
			return p->pid == s->pid && p->began_ms == s->began_ms;
	return false;
}

static void forget_dead(struct shell *shell)
{
	for (struct process_sites **at = &shell->sites, *s; (s = *at);) {
		if (lives(shell, s)) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		sites_free(s->sites);
		free(s);
	}
}

struct sites *shell_own_sites(struct shell *shell, struct process *p)
{
	struct sites_source source = { .parent = parent, .frames = frames, .ctx = p, .rest = rest, .rest_ctx = shell->session };
	struct sites *sites = sites_new(&source);
	const char *why;

	if (!sites)
		shell_error(shell, NULL, "out of memory");
	else if (*shell->settings.site_skip && process_site_skip(p, shell->settings.site_skip, &why))
		shell_error(shell, NULL, "site-skip: %s", why);
	return sites;
}

struct sites *shell_sites(struct shell *shell, struct process *p)
{
	struct process_sites *s;

	forget_dead(shell);
	for (s = shell->sites; s; s = s->next)
		if (s->process == p)
			return s->sites;
	s = calloc(1, sizeof(*s));
	if (!s) {
		shell_error(shell, NULL, "out of memory");
		return NULL;
	}
	s->sites = shell_own_sites(shell, p);
	if (!s->sites) {
		free(s);
		return NULL;
	}
	s->process = p;
	s->pid = p->pid;
	s->began_ms = p->began_ms;
	s->next = shell->sites;
	shell->sites = s;
	return s->sites;
}

int shell_site_skip(struct shell *shell, const char *regex, const char **why)
{
	char *copy = strdup(regex);

	*why = "out of memory";
	if (!copy)
		return -EINVAL;
	forget_dead(shell);
	for (struct process_sites *s = shell->sites; s; s = s->next) {
		if (process_site_skip(s->process, regex, why)) {
			free(copy);
			return -EINVAL;
		}
		sites_clear(s->sites);
	}
	free(shell->settings.site_skip);
	shell->settings.site_skip = copy;
	return 0;
}

/* ---- one command ------------------------------------------------------------------------------------------------------------------- */

struct output {
	FILE *file;
	int fd;				/* beneath it */
	struct spawned child;
};

static int open_output(struct shell *shell, const struct statement *s, struct output *o)
{
	int err;

	*o = (struct output){ .file = message_stream(), .fd = message_fd(), .child = { .input = -1 } };
	if (s->redirect == REDIRECT_WRITE || s->redirect == REDIRECT_APPEND) {
		o->fd = breathing_create(shell, s->target, s->redirect == REDIRECT_APPEND);
		o->file = o->fd < 0 ? NULL : breathing_open(shell, o->fd);
		if (!o->file)
			return shell_error(shell, NULL, "cannot write '%s': %s", s->target, strerror(errno));
	} else if (s->redirect == REDIRECT_PIPE) {
		err = shell_spawn(shell, &o->child, s->target, message_fd(), SPAWN_PIPE);
		if (err)
			return shell_error(shell, NULL, "cannot run '%s' by /bin/sh: %s", s->target, strerror(-err));
		o->fd = o->child.input;
		o->file = breathing_open(shell, o->fd);
		if (!o->file)
			return shell_error(shell, NULL, "cannot run '%s': %s", s->target, strerror(errno));
	}
	return 0;
}

/* Until the shell command at the other end has ended: the target goes on meanwhile. */
static int reap(struct shell *shell, struct spawned *child)
{
	return shell_await(shell, child->status_fd, AWAIT_LEAVE) ? 0 : spawn_status(child);
}

static int close_output(struct shell *shell, const struct statement *s, struct output *o)
{
	int err = 0, status;

	if (s->redirect == REDIRECT_NONE) {
		message_flush();
		return 0;
	}
	session_pin(shell->session, session_main(shell->session));	/* the answer is made: anything may change now */
	errno = 0;
	if (ferror(o->file) | fclose(o->file))		/* both, always */
		err = errno ? errno : EIO;
	if (s->redirect == REDIRECT_PIPE) {
		status = reap(shell, &o->child);
		return status == 126 || status == 127 ? shell_error(shell, NULL, "'%s' was not run: exit status %d", s->target, status) : 0;
	}
	return err ? shell_error(shell, NULL, "cannot write '%s': %s", s->target, strerror(err)) : 0;
}

/* Whether it needs more than what -r opened. */
static bool cannot_answer(struct shell *shell, const struct call *call)
{
	const struct process *p = session_main(shell->session);
	unsigned flags = call->command->flags;

	if (p->heap && flags & (COMMAND_LIVE | COMMAND_TIMES))
		shell_error(shell, call, "needs a process, and what is open is a .heap file");
	else if (p->log && flags & COMMAND_LIVE)
		shell_error(shell, call, "needs a process, and what is open is a log");
	else
		return false;
	return true;
}

static void run(struct shell *shell, struct statement *s)
{
	struct call call = { .argc = s->argc, .argv = s->argv, .rest = s->rest };
	struct process *pinned;
	struct output output;
	char why[160];
	bool bad;

	call.command = command_find(s->argv[0], why, sizeof(why));
	if (!call.command) {
		shell_error(shell, NULL, "%s", why);
		shell->failed++;
		return;
	}
	if (cannot_answer(shell, &call)) {
		shell->failed++;
		return;
	}
	if (open_output(shell, s, &output)) {
		shell->failed++;
		return;
	}
	call.out = output.file;
	call.fd = output.fd;
	pinned = session_pin(shell->session, NULL);
	bad = call.command->run(shell, &call);
	if (!bad && call.command->flags & COMMAND_RECORD && !call.json)
		reporting_off(call.out, session_main(shell->session));
	if (close_output(shell, s, &output))
		bad = true;
	session_pin(shell->session, pinned);
	shell->failed += bad;
}

/* ---- texts and scripts ------------------------------------------------------------------------------------------------------------- */

/* Runs what is complete in TEXT (all of it if LAST); returns how much was used. *LINE goes on with it. */
static size_t run_some(struct shell *shell, const char *text, unsigned *line, bool last)
{
	struct grammar g = { .at = text, .line = *line, .takes_rest = takes_rest, .expand = alias_expand };
	struct statement s;
	const char *before = text;

	while (!shell->quit && !shell_interrupted(shell)) {
		int r = grammar_next(&g, &s);

		shell->line = r == 1 ? s.line : g.line;
		if (r == 0 || (r == -EAGAIN && !last)) {
			before = r == 0 ? g.at : before;
			*line = r == 0 ? g.line : *line;
			break;
		}
		if (r == -EAGAIN || r == -ENOMEM) {
			shell_error(shell, NULL, r == -EAGAIN ? "the text ends within quotes or braces" : "out of memory");
			shell->failed++;
			return strlen(text);
		}
		if (r < 0) {
			shell_error(shell, NULL, "%s", g.why);
			shell->failed++;
		} else {
			run(shell, &s);
			statement_release(&s);
		}
		before = g.at;
		*line = g.line;
	}
	return (size_t)(before - text);
}

void shell_run_text(struct shell *shell, const char *name, const char *text)
{
	const char *where = shell->where;
	unsigned line = 1, at = shell->line;

	shell->where = name;
	run_some(shell, text, &line, true);
	shell->where = where;
	shell->line = at;
}

struct script_buffer {
	char *text;
	size_t len, allocated;
};

/* More of the file: bytes read, 0 at its end, -errno. Pipes and terminals are waited for with the session's loop turning. */
static ssize_t read_more(struct shell *shell, int fd, struct script_buffer *b)
{
	ssize_t n;
	int err;

	if (b->allocated - b->len < 4096) {
		char *text = realloc(b->text, b->allocated + 65536);

		if (!text)
			return -ENOMEM;
		b->text = text;
		b->allocated += 65536;
	}
	do {
		err = shell_await(shell, fd, AWAIT_INTERRUPT);
		if (err)
			return err;
		n = read(fd, b->text + b->len, b->allocated - b->len - 1);
	} while (n < 0 && (errno == EINTR || errno == EAGAIN));
	if (n < 0)
		return -errno;
	if (memchr(b->text + b->len, '\0', (size_t)n))
		return -EILSEQ;
	b->len += (size_t)n;
	b->text[b->len] = '\0';
	return n;
}

int shell_run_file(struct shell *shell, const char *path)
{
	bool standard = !strcmp(path, "-");
	const char *where = shell->where;
	unsigned line = 1, at = shell->line;
	struct script_buffer b = { 0 };
	int fd = standard ? fcntl(0, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);	/* a FIFO's writer may come later */
	ssize_t n = 1;

	if (fd < 0)
		return -errno;
	shell->where = standard ? "stdin" : path;
	while (!shell->quit && !shell_interrupted(shell) && n > 0) {
		char *newline;
		size_t used;
		char kept;

		n = read_more(shell, fd, &b);
		if (n < 0 || !b.text)
			break;
		/* whole lines only, until the last */
		newline = n ? strrchr(b.text, '\n') : b.text + b.len;
		if (n && !newline)
			continue;
		newline += n ? 1 : 0;
		kept = *newline;
		*newline = '\0';
		used = run_some(shell, b.text, &line, n == 0);
		*newline = kept;
		b.len -= used;
		memmove(b.text, b.text + used, b.len + 1);
	}
	free(b.text);
	close(fd);
	shell->where = where;
	shell->line = at;
	return n < 0 ? (int)n : 0;
}
