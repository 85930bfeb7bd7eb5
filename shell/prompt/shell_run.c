// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/message.h"
#include "session/asking.h"
#include "shell/common/answer_stream.h"
#include "shell/common/command.h"
#include "shell/common/fold.h"
#include "shell/common/reporting.h"
#include "shell/common/shell.h"
#include "shell/prompt/alias.h"
#include "shell/prompt/grammar.h"
#include "shell/prompt/pager.h"

/*
 * shell_run.c - from a text or a script to commands that run: each with its output, which may be a
 * file or another program.
 */

static bool takes_rest(const char *name)
{
	char why[160];
	const struct command *c = command_find(name, why, sizeof(why));

	return c && c->flags & COMMAND_REST;
}

bool shell_is_open(const char *text)
{
	struct grammar g = {
		.at = text, .line = 1, .takes_rest = takes_rest, .expand = alias_expand
	};
	struct statement s;
	int r;

	while ((r = grammar_next(&g, &s)) == 1 || r == -EINVAL)
		if (r == 1)
			statement_release(&s);
	return r == -EAGAIN && g.in_braces;
}

/* ---- one command --------------------------------------------------------- */

struct output {
	FILE *file;
	int fd; /* beneath it */
	struct spawned child;
	/* above it; NULL: none */
	struct pager *pager;
	FILE *fold;
};

static int open_output(struct shell *shell, const struct statement *s, struct output *o)
{
	int err;

	*o = (struct output){ .file = message_stream(),
			      .fd = message_fd(),
			      .child = { .input = -1 } };
	if (s->redirect == REDIRECT_WRITE || s->redirect == REDIRECT_APPEND) {
		o->fd = answer_create(shell, s->target, s->redirect == REDIRECT_APPEND);
		o->file = o->fd < 0 ? NULL : answer_open(shell, o->fd);
		if (!o->file)
			return shell_error(shell, NULL, "cannot write '%s': %s", s->target,
					   strerror(errno));
	} else if (s->redirect == REDIRECT_PIPE) {
		err = shell_spawn(shell, &o->child, s->target, message_fd(), SPAWN_PIPE);
		if (err)
			return shell_error(shell, NULL, "cannot run '%s' by /bin/sh: %s", s->target,
					   strerror(-err));
		o->fd = o->child.input;
		o->file = answer_open(shell, o->fd);
		if (!o->file)
			return shell_error(shell, NULL, "cannot run '%s': %s", s->target,
					   strerror(errno));
	}
	return 0;
}

/*
 * Until the shell command at the other end has ended: the target goes on meanwhile. Its status is the
 * command's, as in a shell's pipelines, unless Ctrl-C ended it, or nobody reads what it prints.
 */
static int reap(struct shell *shell, struct spawned *child, const char *command)
{
	int status;

	if (shell_await(shell, child->status_fd, AWAIT_LEAVE)) {
		spawn_leave(child);
		return 0;
	}
	status = spawn_status(child);
	if (!status || status == 128 + SIGPIPE || shell_interrupted(shell))
		return 0;
	return shell_error(shell, NULL,
			   status == 126 || status == 127 ? "'%s' was not run: exit status %d"
							  : "'%s': exit status %d",
			   command, status);
}

static int close_output(struct shell *shell, const struct statement *s, struct output *o)
{
	int err = 0;

	if (o->fold)
		fclose(o->fold);
	if (o->pager)
		pager_close(o->pager);
	answer_flush(shell); /* what was said beside the answer */
	if (s->redirect == REDIRECT_NONE)
		return 0;
	errno = 0;
	if (ferror(o->file) | fclose(o->file)) /* both, always */
		err = errno ? errno : EIO;
	if (s->redirect == REDIRECT_PIPE) /* one that reads no more has had enough */
		return reap(shell, &o->child, s->target);
	return err ? shell_error(shell, NULL, "cannot write '%s': %s", s->target, strerror(err))
		   : 0;
}

/* `CMD --help`; `echo` prints what it is given, and `!` is another program's. */
static bool asks_for_help(const struct call *call)
{
	const char *first = call->rest ? call->rest : call->argc == 2 ? call->argv[1] : "";

	return !strcmp(first, "--help") && strcmp(call->command->name, "echo") &&
	       strcmp(call->command->name, "!");
}

static void run(struct shell *shell, struct statement *s)
{
	struct call call = {
		.argc = s->argc, .argv = s->argv, .rest = s->rest, .call_form = s->call_form
	};
	char *help[] = { s->argv[0], s->argv[0], NULL };
	struct process *before = shell->about;
	bool at_work = shell->at_work;
	struct asking_hold hold;
	struct output output;
	char why[160];
	bool bad;

	call.command = command_find(s->argv[0], why, sizeof(why));
	if (!call.command) {
		if (strchr(s->argv[0], '('))
			alias_unknown(s->argv[0], why, sizeof(why));
		shell_error(shell, NULL, "%s", why);
		shell->failed++;
		return;
	}
	if (asks_for_help(&call)) {
		call.command = command_find("help", why, sizeof(why));
		call.argc = 2;
		call.argv = help;
	}
	if (!command_can_answer(shell, &call)) {
		shell->failed++;
		return;
	}
	if (open_output(shell, s, &output)) {
		shell->failed++;
		return;
	}
	if (s->redirect == REDIRECT_NONE)
		call.layout = answer_layout(message_fd());
	output.pager = pager_open(shell, &call);
	call.out = output.pager ? pager_stream(output.pager) : output.file;
	if (call.layout.columns && !(call.command->flags & COMMAND_AS_IS))
		output.fold = fold_open(call.out, &call);
	call.out = output.fold ? output.fold : call.out;
	call.fd = output.fd;
	shell->about = NULL;
	asking_measure(session_options(shell->session)->verbose >= 2);
	shell->at_work = true;
	bad = call.command->run(shell, &call);
	shell->at_work = at_work;
	hold = asking_longest();
	message_verbose(2, "`%s` held the session for at most %.1f ms, %.1f ms of processor time",
			s->argv[0], (double)hold.us / 1000, (double)hold.cpu_us / 1000);
	if (!bad && call.command->flags & COMMAND_RECORD && !call.json)
		reporting_off(call.out, shell_subject(shell));
	if (close_output(shell, s, &output))
		bad = true;
	shell_leave_subject(shell);
	shell->about = before;
	/* with -p a signal asks for our end, and gets it: what it cuts short has not failed */
	if (!shell->leave || !session_options(shell->session)->npids)
		shell->failed += bad;
}

/* ---- texts and scripts --------------------------------------------------- */

/*
 * Runs what is complete in TEXT (all of it if LAST); returns how much was used. *LINE goes on with
 * it.
 */
static size_t run_some(struct shell *shell, const char *text, unsigned *line, bool last)
{
	struct grammar g = {
		.at = text, .line = *line, .takes_rest = takes_rest, .expand = alias_expand
	};
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
			shell_error(shell, NULL,
				    r == -EAGAIN ? "a quote or a brace is not closed"
						 : "out of memory");
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

static void run_text(struct shell *shell, const char *name, const char *text, bool typed)
{
	const char *where = shell->where;
	unsigned line = 1, at = shell->line;
	bool before = shell->typed;

	shell->where = name;
	shell->typed = typed;
	run_some(shell, text, &line, true);
	shell->where = where;
	shell->line = at;
	shell->typed = before;
}

void shell_run_text(struct shell *shell, const char *name, const char *text)
{
	run_text(shell, name, text, false);
}

void shell_run_copy(struct shell *shell, const char *text)
{
	char *copy = strdup(text);

	if (copy)
		shell_run_text(shell, NULL, copy);
	else {
		shell_error(shell, NULL, "out of memory");
		shell->failed++;
	}
	free(copy);
}

void shell_run_of(struct shell *shell, const struct process *p, bool stays, const char *text)
{
	pid_t before = session_main(shell->session)->pid, pid = p->pid;

	if (session_choose(shell->session, pid) == 0 && text)
		shell_run_copy(shell, text);
	/* what runs on was chosen for its commands only */
	if (!stays && session_main(shell->session)->pid == pid &&
	    session_choose(shell->session, before))
		message_verbose(1, "%d: it was chosen, and is gone", before);
}

void shell_run_typed(struct shell *shell, const char *text) { run_text(shell, NULL, text, true); }

struct script_buffer {
	char *text;
	size_t len, allocated;
};

/*
 * More of the file: bytes read, 0 at its end, -errno. Pipes and terminals are waited for with the
 * session's loop turning.
 */
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
	/* a FIFO's writer may come later */
	int fd = standard ? fcntl(0, F_DUPFD_CLOEXEC, 3)
			  : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bool typed = shell->typed;
	ssize_t n = 1;

	if (fd < 0)
		return -errno;
	shell->typed = false;
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
	shell->typed = typed;
	shell->where = where;
	shell->line = at;
	return n < 0 ? (int)n : 0;
}
