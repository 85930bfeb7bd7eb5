// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/prompt/interactive.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <readline/history.h>
#include <readline/readline.h>

#include "base/escape.h"
#include "base/message.h"
#include "base/proc.h"
#include "base/units.h"
#include "session/asking.h"
#include "session/ended.h"
#include "shell/common/reporting.h"
#include "shell/common/shell.h"
#include "shell/prompt/complete.h"
#include "shell/prompt/keyboard.h"
#include "shell/prompt/screen.h"
#include "tracee/terminal.h"

/*
 * readline is used by its callbacks: it is given a key when one is there, and hands a line over
 * when there is one. Between keys the session's loop turns. While a command runs readline is off
 * and the terminal is as the user has it, so that Ctrl-C makes a signal, which the loop finds in
 * its descriptor and long work by looking whether one is pending; it is never delivered.
 *
 * readline knows no contexts, so what its callbacks need is in `prompt`.
 */
#define PROMPT	      "mt> "
#define CONTINUATION  "  > "
#define HISTORY_MAX   1000
#define LET_STOP_NAPS 250 /* of 2 ms */
#define SOON_MS	      50  /* a slow terminal is waited for; Ctrl-C is looked for this often */

static struct {
	struct shell *shell;
	bool editing;	/* readline has the terminal */
	bool key;	/* there is something to read */
	bool line_done; /* the user has ended a line: this one, NULL for Ctrl-D */
	char *line;
	char *unfinished; /* lines before, within braces */
	unsigned resizes; /* of those, how many readline knows of */
	char *history;	  /* its file, NULL: none */
	bool told_end;
	bool more_words; /* Tab: there are more than are listed */
} prompt;

/* ---- files --------------------------------------------------------------- */

/* $XDG/mtrun/NAME, or ~/DEFAULT/mtrun/NAME; to be freed. NULL: there is no home. */
static char *user_file(const char *variable, const char *otherwise, const char *name)
{
	const char *dir = getenv(variable), *home = getenv("HOME");
	char *path;
	int n;

	if (dir && *dir == '/')
		n = asprintf(&path, "%s/mtrun/%s", dir, name);
	else if (home && *home == '/')
		n = asprintf(&path, "%s/%s/mtrun/%s", home, otherwise, name);
	else
		return NULL;
	return n < 0 ? NULL : path;
}

static void make_directories(char *path)
{
	for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = '\0';
		mkdir(path, 0700);
		*at = '/';
	}
}

static void history_open(void)
{
	int fd;

	using_history();
	stifle_history(HISTORY_MAX);
	prompt.history = user_file("XDG_STATE_HOME", ".local/state", "history");
	if (!prompt.history)
		return;
	make_directories(prompt.history);
	fd = open(prompt.history, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
	if (fd < 0) {
		free(prompt.history);
		prompt.history = NULL;
		return;
	}
	close(fd);
	read_history(prompt.history);
}

/* At once, so that it is there however we end. */
static void history_add(const char *line)
{
	const HIST_ENTRY *last = history_length ? history_get(history_base + history_length - 1)
						: NULL;

	if (!line[strspn(line, " \t")] || (last && !strcmp(last->line, line)))
		return;
	add_history(line);
	if (prompt.history)
		append_history(1, prompt.history);
}

static void history_close(void)
{
	if (prompt.history)
		history_truncate_file(prompt.history, HISTORY_MAX);
	free(prompt.history);
	prompt.history = NULL;
}

void interactive_history(FILE *out, size_t n)
{
	HIST_ENTRY **list = history_list();
	size_t count = 0;

	while (list && list[count])
		count++;
	for (size_t i = n < count ? count - n : 0; i < count; i++) {
		fprintf(out, "%5zu  ", i + 1);
		escape_put_line(out, list[i]->line, strlen(list[i]->line));
		putc('\n', out);
	}
}

static void run_rc(struct shell *shell)
{
	char *path = user_file("XDG_CONFIG_HOME", ".config", "rc");
	int err = path ? shell_run_file(shell, path) : -ENOENT;

	if (err && err != -ENOENT && err != -ENOTDIR)
		message_error("cannot read '%s': %s", path, strerror(-err));
	free(path);
}

/* ---- completion ---------------------------------------------------------- */

/*
 * WORD as it must be typed: one with blanks and the like (`operator new`, templates) in quotes,
 * which stay open until it is COMPLETE. To be freed.
 */
static char *quoted(const char *word, bool is_complete)
{
	char *text;

	if (rl_completion_quote_character || !word[strcspn(word, rl_filename_quote_characters)])
		return strdup(word);
	return asprintf(&text, "'%s%s", word, is_complete ? "'" : "") < 0 ? NULL : text;
}

/* readline frees list and words one by one. */
static char **attempted(const char *text, int start, int end)
{
	struct completions c;
	char **list;

	(void)end;
	rl_attempted_completion_over = 1;
	complete(prompt.shell, rl_line_buffer, (size_t)start, text, &c);
	if (c.files) {
		rl_attempted_completion_over = 0;
		return NULL;
	}
	rl_completion_append_character = c.no_blank ? '\0' : ' ';
	prompt.more_words = c.more;
	/* what readline expects: the common beginning first */
	list = c.count && c.common ? calloc(c.count + 2, sizeof(*list)) : NULL;
	if (list) {
		list[0] = quoted(c.common, c.count == 1);
		if (c.count == 1)
			free(c.word[0]);
		else
			memcpy(list + 1, c.word, c.count * sizeof(*list));
	}
	free(c.common);
	free(c.word);
	return list;
}

/*
 * Names of files that cannot be shown as they are are not offered; readline itself would print
 * them. The first of LIST is what all have in common, or the only one.
 */
static int leave_out(char **list)
{
	size_t n = 1;

	if (!list[1] && escape_is_plain(list[0]))
		return 0;
	for (size_t i = 1; list[i]; i++) {
		if (escape_is_plain(list[i]))
			list[n++] = list[i];
		else
			free(list[i]);
	}
	if (n == 1) {
		free(list[0]);
		list[0] = NULL;
	} else {
		list[n] = NULL;
	}
	return 0;
}

static int get_key(FILE *unused);

/* So many words are asked about first. (readline itself does not when it is used by callbacks.) */
static void display(char **words, int count, int longest)
{
	int key = 'y';

	if (count >= rl_completion_query_items) {
		rl_crlf();
		escape_printf(rl_outstream, "Display %s %d possibilities? (y or n)",
			      prompt.more_words ? "the first" : "all", count);
		fflush(rl_outstream);
		do
			key = get_key(NULL);
		while (key != EOF && !strchr("yYnN \177\007\003", key));
	}
	if (strchr("yY ", key))
		rl_display_match_list(words, count, longest);
	else
		rl_crlf();
	rl_forced_update_display();
}

/* ---- the terminal -------------------------------------------------------- */

static void hide(void)
{
	rl_clear_visible_line();
	fflush(rl_outstream);
}

static void show(void)
{
	rl_on_new_line();
	rl_redisplay();
	fflush(rl_outstream);
}

static void on_key(void *ctx, short revents)
{
	(void)ctx;
	(void)revents;
	prompt.key = true;
}

/*
 * Where readline asks something itself (`Display all 200 possibilities?`) it waits here: the loop
 * goes on turning.
 */
static int get_key(FILE *unused)
{
	struct shell *shell = prompt.shell;
	char c;
	int n;

	(void)unused;
	session_watch(shell->session, 0, POLLIN, NULL, NULL);
	while ((n = keyboard_take(shell, &c, 1)) == 0)
		if (shell->interrupted || shell->leave || session_turn(shell->session, -1))
			break;
	session_watch(shell->session, 0, 0, NULL, NULL);
	if (n > 0)
		return (unsigned char)c;
	/* what was typed before Ctrl-C is gone, and no end of file */
	return shell->interrupted && !shell->leave && n == 0 ? ABORT_CHAR : EOF;
}

static void on_line(char *line)
{
	prompt.line = line;
	prompt.line_done = true;
	rl_callback_handler_remove();
	prompt.editing = false;
}

static void edit(void)
{
	struct shell *shell = prompt.shell;

	screen_enter(shell->screen, SCREEN_PROMPT);
	screen_flush(shell->screen);
	prompt.editing = true;
	prompt.line_done = false;
	rl_callback_handler_install(prompt.unfinished ? CONTINUATION : PROMPT, on_line);
	session_watch(shell->session, 0, POLLIN, on_key, NULL);
}

static void stop_editing(void)
{
	if (prompt.editing)
		rl_callback_handler_remove();
	prompt.editing = false;
	session_watch(prompt.shell->session, 0, 0, NULL, NULL);
	screen_enter(prompt.shell->screen, SCREEN_COMMAND);
}

static bool divert(void *ctx, const char *text, size_t len)
{
	struct shell *shell = ctx;
	bool entered;
	int err = 0;

	if (shell_interrupted(shell))
		return false;
	entered = asking_relock(); /* the screen is the loop's, too */
	screen_write(shell->screen, text, len);
	while (entered && !screen_has_room(shell->screen) && !shell_interrupted(shell) && !err)
		err = session_turn(shell->session, SOON_MS);
	asking_reunlock(entered);
	return true;
}

static void on_signal(void *ctx, int sig)
{
	struct shell *shell = ctx;

	switch (sig) {
	case SIGINT: shell->interrupted = true; break;
	case SIGTSTP: shell->suspended = true; break;
	case SIGWINCH:
		terminal_resized(shell->terminal);
		shell->resizes++;
		break;
	case SIGTERM:
	case SIGHUP: shell_told_to_leave(shell, false); break;
	}
}

static bool is_running(pid_t pid)
{
	char state = proc_state(pid);

	return state && !strchr("TtZX", state);
}

/* Whether the /bin/sh that was started last, or what it waits for, has not stopped yet. */
static bool child_runs(pid_t sh)
{
	bool runs = is_running(sh);
	pid_t *child;
	int n = runs ? -1 : proc_children(sh, sh, &child);

	for (int i = 0; i < n && !runs; i++)
		runs = is_running(child[i]);
	if (n >= 0)
		free(child);
	return runs;
}

/*
 * What has the terminal tidies it up before it stops: that is to be done before the shell that
 * started us has its prompt there.
 */
static void let_stop(pid_t sh)
{
	const struct timespec nap = { .tv_nsec = 2000000 };

	if (!sh || proc_status_field(sh, "PPid") != getpid()) /* it has ended */
		return;
	for (int i = 0; i < LET_STOP_NAPS && child_runs(sh); i++)
		nanosleep(&nap, NULL);
}

/*
 * Ctrl-Z: stopped as any program, if the shell that started us has job control (else the kernel
 * ignores it). A program that has the terminal meanwhile is stopped and goes on with us, and sets
 * the terminal itself.
 */
void interactive_suspend(struct shell *shell)
{
	enum terminal_mode mode = shell->terminal->mode;
	sigset_t set;

	shell->suspended = false;
	if (prompt.editing) {
		hide();
		rl_deprep_terminal();
	}
	screen_suspend(shell->screen, true);
	let_stop(shell->spawned);
	terminal_mode(shell->terminal, TERMINAL_SANE);
	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	raise(SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	sigprocmask(SIG_BLOCK, &set, NULL);
	terminal_resized(shell->terminal);
	shell->resizes++;
	if (mode != TERMINAL_SANE)
		terminal_mode(shell->terminal, mode);
	screen_suspend(shell->screen, false);
	if (prompt.editing) {
		rl_prep_terminal(1);
		rl_resize_terminal();
		show();
	}
}

static void clear_line(void)
{
	struct shell *shell = prompt.shell;

	shell->interrupted = false;
	rl_callback_sigcleanup();
	rl_free_line_state();
	rl_replace_line("", 0);
	free(prompt.unfinished);
	prompt.unfinished = NULL;
	stop_editing();
	screen_write(shell->screen, "^C\r\n", 4);
	edit();
}

/* ---- lines --------------------------------------------------------------- */

/* Lines up to the brace that closes the first one's. NULL: more must come. */
static char *whole(char *line)
{
	char *text = line;

	if (prompt.unfinished) {
		if (asprintf(&text, "%s\n%s", prompt.unfinished, line) < 0)
			return line;
		free(line);
		free(prompt.unfinished);
		prompt.unfinished = NULL;
	}
	if (!shell_is_open(text))
		return text;
	prompt.unfinished = text;
	return NULL;
}

static void tell_end(struct shell *shell)
{
	const struct process *p = session_main(shell->session);
	char end[64];

	if (!shell->ended)
		prompt.told_end = false;
	if (!shell->ended || prompt.told_end || shell->detached || shell->quit || p->told)
		return;
	prompt.told_end = true;
	screen_catch_up(shell->screen);
	message_say("%s (%d) %s; you can still query it%s", p->command ? p->command : "?",
		    (int)p->pid, wait_status_text(p->wait_status, end, sizeof(end)),
		    session_options(shell->session)->argv ? " or `run` it again" : "");
}

static void run_line(struct shell *shell, char *line)
{
	char *text;

	history_add(line);
	text = whole(line);
	if (!text)
		return;
	shell_run_typed(shell, text);
	free(text);
	message_flush();
	if (shell_interrupted(shell) && !shell->leave) {
		screen_drop(shell->screen);
		screen_write(shell->screen, "\r\n", 2);
	}
}

/*
 * Until all that the command has printed is on the terminal, or the user does not want it any more.
 */
static void drain(struct shell *shell)
{
	while (!screen_done(shell->screen) && !shell->quit && !shell->leave) {
		if (shell_turn(shell, -1))
			return;
		if (shell_interrupted(shell)) {
			screen_drop(shell->screen);
			screen_write(shell->screen, "\r\n", 2);
		}
	}
}

static void take_line(struct shell *shell)
{
	char *line = prompt.line;

	prompt.line_done = false;
	prompt.line = NULL;
	shell->interrupted = false;
	stop_editing();
	if (line) {
		run_line(shell, line);
	} else {
		struct termios tio;

		screen_write(shell->screen, "\r\n", 2);
		if (tcgetattr(0, &tio) < 0)
			shell->leave = true; /* not Ctrl-D: the terminal is gone */
		else if (interactive_leave(shell) == 0)
			shell->quit = true;
	}
	drain(shell);
	/* Ctrl-C may have come at the very end of it */
	session_take_signals(shell->session);
	shell->interrupted = shell->leave;
}

/* ---- leaving ------------------------------------------------------------- */

/* The program, whichever of its processes commands are about. */
static bool runs(const struct shell *shell)
{
	const struct process *p = session_processes(shell->session);

	while (p && p->pid != session_named(shell->session))
		p = p->next;
	return !session_ended(shell->session) && p && p->state <= PROCESS_STOPPED;
}

static void kill_all(struct shell *shell)
{
	uint64_t until = session_ms(shell->session) + SHELL_KILL_MS;

	session_kill_all(shell->session);
	shell->killed = true;
	while (!session_all_gone(shell->session) && session_ms(shell->session) < until)
		if (shell_turn(shell, 50))
			break;
}

int interactive_leave(struct shell *shell)
{
	int key = 0;

	if (runs(shell) && session_options(shell->session)->npids)
		key = 'd';
	else if (runs(shell)) {
		shell->interrupted = false;
		key = keyboard_ask(shell,
				   "The program still runs: (k)ill it, (d)etach from it, (c)ancel?",
				   "kdc");
		if (shell->leave)
			return 0;
		if (key != 'k' && key != 'd')
			return -1;
	}
	if (key == 'k')
		kill_all(shell);
	else if (key == 'd')
		shell_let_go(shell);
	return 0;
}

#define CLOSED_MS 100

/*
 * The user's terminal was closed, or a signal asks for our end. Who closes a terminal may signal
 * its programs before: so it is looked again when the program runs by itself.
 */
static void leave(struct shell *shell)
{
	bool gone = session_hung_up(shell->session) || terminal_is_gone(shell->terminal, 0);

	if (gone)
		screen_hang_up(shell->screen);
	shell_let_go(shell);
	if (!gone && terminal_is_gone(shell->terminal, CLOSED_MS))
		screen_hang_up(shell->screen);
}

/* ---- life ---------------------------------------------------------------- */

int interactive_open(struct shell *shell, struct terminal *terminal)
{
	static char name[] = "mtrun";
	int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);

	prompt.shell = shell;
	rl_readline_name = name;
	rl_catch_signals = 0;
	rl_catch_sigwinch = 0;
	rl_change_environment = 0; /* the program's is as we found it */
	rl_instream = stdin;
	rl_outstream = fd < 0 ? NULL : fdopen(fd, "w");
	rl_getc_function = get_key;
	rl_attempted_completion_function = attempted;
	rl_ignore_some_completions_function = leave_out;
	rl_basic_word_break_characters = " \t\n;|>{}";
	rl_completer_word_break_characters = " \t\n;|>{}";
	rl_completer_quote_characters = "'\"";
	rl_filename_quote_characters = " \t\n;|>{}'\"#\\";
	rl_completion_query_items = 200;
	rl_completion_display_matches_hook = display;
	if (!rl_outstream)
		return -ENOMEM;
	shell->screen = screen_new(shell->session, terminal, hide, show);
	if (!shell->screen)
		return -ENOMEM;
	shell->terminal = terminal;
	session_interactive(shell->session, terminal, on_signal, shell);
	message_divert(divert, shell);
	return 0;
}

static void greet(const struct shell *shell)
{
	const struct process *p = session_main(shell->session);

	message_say("`help` lists the commands%s",
		    !runs(shell)			     ? ""
		    : session_options(shell->session)->npids ? "; `detach` leaves the program"
		    : p->state == PROCESS_STOPPED	     ? "; `cont` lets the program run on"
						  : "; `fg` hands the keyboard to the program");
}

void interactive_run(struct shell *shell)
{
	/* unless ~/.inputrc, which comes next, has it otherwise */
	rl_variable_bind("show-all-if-ambiguous", "on");
	rl_initialize();
	/* the terminal would be left in it if we were killed */
	rl_variable_bind("enable-bracketed-paste", "off");
	rl_variable_bind("page-completions", "off");
	history_open();
	greet(shell);
	run_rc(shell);
	drain(shell);
	while (!shell->quit && !shell->leave) {
		bool more = complete_prepare(shell);

		if (!prompt.editing)
			edit();
		if (shell_turn(shell, more ? 1 : -1)) {
			message_error("the program can no longer be followed");
			break;
		}
		if (shell->leave)
			break;
		if (shell->interrupted)
			clear_line();
		if (prompt.resizes != shell->resizes) {
			prompt.resizes = shell->resizes;
			rl_resize_terminal();
		}
		/*
		 * The loop may have seen the key that ended the last line, and say so only now:
		 * readline would wait for the next one, and nothing be told meanwhile.
		 */
		if (prompt.key && keyboard_is_ready()) {
			session_watch(shell->session, 0, 0, NULL, NULL);
			/* the line is on the screen when readline changes it */
			screen_flush(shell->screen);
			rl_callback_read_char();
			session_watch(shell->session, 0, POLLIN, on_key, NULL);
			if (shell->interrupted && !prompt.line_done)
				clear_line();
		}
		prompt.key = false;
		if (prompt.line_done)
			take_line(shell);
		tell_end(shell);
	}
	if (prompt.editing) {
		stop_editing();
		screen_write(shell->screen, "\r\n", 2);
	}
	if (shell->leave && !shell->detached)
		leave(shell);
	history_close();
}

void interactive_close(struct shell *shell)
{
	if (!shell->screen)
		return;
	message_flush();
	screen_catch_up(shell->screen);
	screen_flush(shell->screen);
	message_divert(NULL, NULL);
	screen_free(shell->screen);
	shell->screen = NULL;
	fclose(rl_outstream);
}
