// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/escape.h"
#include "base/message.h"
#include "base/sigbus.h"
#include "patch/hooks.h"
#include "report/heapfile.h"
#include "session/asking.h"
#include "session/ended.h"
#include "session/options.h"
#include "session/session.h"
#include "shell/common/answer_stream.h"
#include "shell/common/command.h"
#include "shell/common/dumping.h"
#include "shell/common/erring.h"
#include "shell/common/leak_checking.h"
#include "shell/common/limiting.h"
#include "shell/common/opening.h"
#include "shell/common/shell.h"
#include "shell/common/summary.h"
#include "shell/common/suppressing.h"
#include "shell/prompt/interactive.h"
#include "shell/serve/serve.h"
#include "tracee/launch.h"
#include "tracee/terminal.h"

/*
 * One run: read the command line, launch, run the commands of -x and -X in order while the program
 * runs, wait for its end, say the summary, end as it did. The program is held at its last instant
 * until the commands are done, so that each of them still finds everything.
 */

/* A script that cannot be read is known before the program has done anything. */
static int check_scripts(const struct options *o)
{
	for (size_t i = 0; i < o->nscripts; i++) {
		const char *path = o->script[i].text;
		struct stat st;
		int err = 0;

		if (!o->script[i].file)
			continue;
		if (strcmp(path, "-") ? access(path, R_OK) || stat(path, &st)
				      : fstat(STDIN_FILENO, &st))
			err = errno;
		else if (S_ISDIR(st.st_mode))
			err = EISDIR;
		if (!err)
			continue;
		message_error("cannot read the script '%s' (-X): %s", path, strerror(err));
		return -err;
	}
	return 0;
}

static void run_scripts(struct shell *shell, const struct options *o)
{
	for (size_t i = 0; i < o->nscripts && !shell->quit; i++) {
		int err = 0;

		if (o->script[i].file)
			err = shell_run_file(shell, o->script[i].text);
		else
			shell_run_text(shell, NULL, o->script[i].text);
		if (err) {
			message_error("cannot read the script '%s': %s", o->script[i].text,
				      strerror(-err));
			shell->failed++;
		}
	}
}

/* As a command: what is printed is kept, so that the list of processes stays as it is meanwhile. */
static void at_work(struct shell *shell, bool on)
{
	shell->at_work = on;
	if (!on)
		answer_flush(shell);
}

/* A program that the commands left stopped would never end. */
static void let_run(struct shell *shell)
{
	at_work(shell, true);
	for (struct process *p = session_processes(shell->session); p; p = p->next) {
		int err;

		if (p->state != PROCESS_STOPPED || p->limit.frozen || p->errors.frozen)
			continue;
		message_say("no more commands: process %d runs on", (int)p->pid);
		err = session_cont(shell->session, p);
		if (err)
			message_error("cannot continue process %d: %s", (int)p->pid,
				      strerror(-err));
	}
	at_work(shell, false);
}

/* 0 or -errno (said). */
static int wait_turn(struct shell *shell, int ms)
{
	int err = shell_turn(shell, ms);

	if (err)
		message_error("the program can no longer be followed: %s", strerror(-err));
	return err;
}

/*
 * With one more turn: it may be done before the first, and then there is still something to tell.
 */
static int wait_for(struct shell *shell, bool (*done)(const struct session *))
{
	bool is_done = false;
	int err;

	while (!is_done) {
		is_done = done(shell->session);
		limiting_give_up(shell);
		erring_give_up(shell);
		err = wait_turn(shell, is_done ? 0 : -1);
		if (err)
			return err;
	}
	return 0;
}

/* Whatever the commands were about. */
static void summary(struct shell *shell, pid_t of)
{
	shell_leave_subject(shell);
	if (!session_choose(shell->session, of)) {
		at_work(shell, true);
		summary_print(shell, message_own());
		at_work(shell, false);
	}
}

/* Of the program that was started, or of each that was named. */
static void summaries(struct shell *shell, const struct options *o, pid_t named)
{
	summary(shell, named);
	for (size_t i = 0; i < o->npids; i++)
		if (o->pid[i] != named)
			summary(shell, o->pid[i]);
}

/* The line that scripts wait for. */
static void collected(struct shell *shell, const struct options *o, pid_t named)
{
	const char *file = o->output && o->duration_ms ? dumping_at_end(shell, named) : NULL;

	if (!file)
		return;
	escape_printf(message_own(), "succeeded in collecting memory data! %s\n", file);
	message_flush();
}

static const char *refusal(const struct plant *plant, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < plant->nrefused; i++)
		if (!strncmp(plant->refused[i], name, len) &&
		    !strncmp(plant->refused[i] + len, " in ", 4))
			return plant->refused[i] + len;
	return NULL;
}

/* A --hook that came to nothing makes numbers that look right and are not. */
static void missed_hooks(const struct session *session, const struct options *o)
{
	for (size_t i = 0; i < o->agent.nhooks; i++) {
		const char *name = o->agent.hook[i].name, *why = NULL;
		bool found = session_ended_list(session)->hooked[i];

		for (const struct process *p = session_processes(session); p && !found;
		     p = p->next) {
			found = plant_has(&p->plant, name);
			why = why ? why : refusal(&p->plant, name);
		}
		if (!found && why)
			message_error("--hook: '%s' was not hooked%s", name, why);
		else if (!found)
			message_error(
				"--hook: '%s' was not hooked: the program and its libraries define no such function",
				name);
	}
}

/*
 * After -d the program is no tracee any more but still our child: its end is waited for, signals
 * are passed on, a stop by the terminal is followed, as while it was traced. The signals are
 * blocked; they are taken one by one.
 */
static int wait_untraced(struct session *session, pid_t pid)
{
	static const int forwarded[] = { SIGTERM, SIGHUP, SIGUSR2, SIGCHLD };
	siginfo_t info;
	int status, sig;
	sigset_t set;

	asking_end(session); /* it would take the signals */
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(forwarded) / sizeof(*forwarded); i++)
		sigaddset(&set, forwarded[i]);
	for (;;) {
		pid_t got = waitpid(pid, &status, WNOHANG | WUNTRACED);

		/* it may have ended before the loop did */
		if (got < 0 && errno == ECHILD && session_gone(session, pid, &status))
			return status;
		if (got < 0 && errno != EINTR)
			return -errno;
		if (got == pid && !WIFSTOPPED(status))
			return status;
		if (got == pid) {
			if (WSTOPSIG(status) != SIGSTOP)
				kill(getpid(), SIGSTOP);
			continue;
		}
		sig = sigwaitinfo(&set, &info);
		if (sig > 0 && sig != SIGCHLD &&
		    !(sig == SIGHUP && session_is_hangup(session, info.si_code)))
			session_pass_on(pid, sig, info.si_code);
	}
}

/*
 * To the program's end, or the end of our part in it. *STATUS: its wait status, if it was not
 * traced to its end. 0 or -errno (said).
 */
static int follow(struct shell *shell, const struct options *o, int *status)
{
	pid_t named;
	int err;

	run_scripts(shell, o);
	if (shell->detached)
		return 0;
	let_run(shell);
	err = wait_for(shell, session_ended);
	if (err)
		return err;
	named = session_named(shell->session); /* `run` may have started another one */
	/* what was asked for is told, also when a signal ended it */
	shell->interrupted = false;
	dumping_turn(shell);
	missed_hooks(shell->session, o);
	if (!o->quiet)
		summaries(shell, o, named);
	collected(shell, o, named);
	leak_checking_turn(shell, true);
	session_hold(shell->session, false);
	if (shell->traced_enough && !o->npids)
		*status = wait_untraced(shell->session, named);
	else
		err = wait_for(shell, session_all_gone);
	return err;
}

static int unless_leaked(const struct shell *shell, const struct options *o, int status)
{
	return o->leak_exitcode && shell->leaked_definitely ? o->leak_exitcode : status;
}

/*
 * The program's end as mtrun's, SIG: the signal to die of; unless a limit ended it, or it ended by
 * itself and something has leaked. What was attached to has an end of its own. UNTRACED: its wait
 * status, if it was not traced to its end; otherwise -1.
 */
static int status_of(const struct shell *shell, const struct options *o, int untraced, int *sig)
{
	int status = 0;

	*sig = 0;
	if (session_limit_killed(shell->session)) {
		*sig = o->limit_exit < 0 && !o->npids ? SIGKILL : 0;
		return o->limit_exit < 0 ? 0 : o->limit_exit;
	}
	if (!o->npids && untraced < 0) {
		status = session_exit_status(shell->session, sig);
	} else if (!o->npids) {
		*sig = WIFSIGNALED(untraced) ? WTERMSIG(untraced) : 0;
		status = *sig ? 0 : WEXITSTATUS(untraced);
	}
	return *sig ? status : unless_leaked(shell, o, status);
}

/* As the program did: by the same signal, but without a core of ours. */
static int end_as(int status, int sig)
{
	struct rlimit none = { 0, 0 };
	sigset_t set;

	if (!sig)
		return status;
	setrlimit(RLIMIT_CORE, &none);
	prctl(PR_SET_DUMPABLE, 0);
	signal(sig, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, sig);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	kill(getpid(), sig);
	return 128 + sig;
}

/* -p, -r: the terminal's signals, and those that ask for an end, mean ours. */
static void on_signal(void *ctx, int sig)
{
	struct shell *shell = ctx;

	if (sig == SIGINT || sig == SIGTERM || sig == SIGHUP)
		shell_told_to_leave(shell, sig == SIGINT);
}

/* One run, beside the session's loop. */
struct one_run {
	const struct options *options;
	struct session *session;
	struct shell shell;
	struct suppressions *suppressions;
	struct terminal terminal; /* interactive */
	struct serve *serve;	  /* until the shell has it */
	int status, sig;	  /* mtrun's; the signal to die of */
};

/*
 * The server of --listen comes before the program: that its address is taken is known before the
 * program has done anything. 0, or -1 (said).
 */
static int begin_serving(struct one_run *r)
{
	const struct options *o = r->options;
	struct serve_options options = { o->listen,
					 o->listen_token,
					 o->listen_host,
					 { o->push, o->push_every_ms, o->push_label } };
	char why[512];

	if ((!o->listen && !o->push) ||
	    serve_start(&r->serve, r->session, &options, why, sizeof(why)) == 0)
		return 0;
	message_error("%s: %s", o->listen ? "--listen" : "--push", why);
	return -1;
}

/* FN runs beside the loop of a new session. mtrun's exit status. */
static int run_beside(struct one_run *r, void (*fn)(void *ctx))
{
	int err;

	r->session = session_new(r->options);
	err = r->session ? asking_loop(r->session, fn, r) : -errno;
	if (err) {
		message_error("cannot begin: %s", limits_error(err));
		r->status = EXIT_FAILED;
	}
	session_free(r->session);
	return r->status;
}

/* Answers and logs that are not where they were to be are a failure of ours. */
static void tell_lost(struct one_run *r)
{
	message_flush();
	answer_messages(NULL);
	if (!message_is_lost() && !session_log_failed(r->session))
		return;
	r->status = EXIT_FAILED;
	r->sig = 0;
}

static void supervise(void *ctx)
{
	struct one_run *r = ctx;
	const struct options *o = r->options;
	struct session *session = r->session;
	struct shell *shell = &r->shell;
	int untraced = -1;

	r->status = EXIT_FAILED;
	if (begin_serving(r))
		return;
	/* before the program: what it does or is sent at once is heard as well */
	shell_init(shell, session, r->suppressions);
	shell->serve = r->serve;
	session_hold(session, o->nscripts || !o->quiet || o->dump_exit || o->dump_peak);
	if (o->npids)
		session_on_signals(session, on_signal, shell);
	if (o->npids ? session_attach(session) : session_launch(session, &r->status)) {
		shell_release(shell);
		return;
	}
	answer_messages(shell);
	if (follow(shell, o, &untraced)) {
		session_detach(session); /* our end must not become its end */
		r->status = EXIT_FAILED;
	} else if (shell->failed) {
		r->status = EXIT_FAILED;
	} else if (shell->detached) {
		r->status = unless_leaked(shell, o, 0);
	} else {
		r->status = status_of(shell, o, untraced, &r->sig);
	}
	session_close_log(session);
	tell_lost(r);
	shell_release(shell);
	if (r->sig) {
		message_flush();
		r->status = end_as(r->status, r->sig);
	}
}

static int run(const struct options *o, struct suppressions *suppressions)
{
	struct one_run r = { .options = o, .suppressions = suppressions };

	return run_beside(&r, supervise);
}

/* 0, or -1 (said). */
static int open_heap(struct session *session, const char *path)
{
	struct heap heap;
	char why[256];

	if (heap_read(&heap, path, why, sizeof(why))) {
		message_error("cannot open '%s': %s", path, why);
		return -1;
	}
	if (session_open(session, &heap)) {
		message_error("cannot open '%s': out of memory", path);
		return -1;
	}
	return 0;
}

/*
 * What is said of logs is not among the answers: those go to stdout, and somebody may parse them.
 * 0, or -1 (said).
 */
static int open_logs(struct shell *shell, const struct options *o)
{
	char why[512];

	if (opening_log(shell, o->open, o->nopens, o->quiet ? NULL : message_own(), why,
			sizeof(why)) == 0)
		return 0;
	shell->interrupted = false; /* else nothing is printed */
	message_error("%s", *why ? why : "interrupted while the log was being opened");
	return -1;
}

static int open_recorded(struct shell *shell, const struct options *o)
{
	int err;

	for (size_t i = 0; o->nopens > 1 && i < o->nopens; i++)
		if (!access(o->open[i], R_OK) && !opening_is_log(o->open[i])) {
			message_error(
				"'%s' is no log: several files can be open if they are one run's logs",
				o->open[i]);
			return -1;
		}
	if (o->nopens == 1 && !opening_is_log(o->open[0]))
		err = open_heap(shell->session, o->open[0]);
	else
		err = open_logs(shell, o);
	if (!err && !o->batch)
		message_say("'%s' is open: `status` says what it is of", o->open[0]);
	return err;
}

/* There is nothing that ends by itself. */
static void serve_recorded(struct shell *shell, const struct options *o)
{
	if (!o->quiet)
		message_say("'%s' is served at %s, until SIGINT or SIGTERM comes", o->open[0],
			    serve_address(shell->serve));
	while (!shell->leave && !wait_turn(shell, -1))
		;
}

/* -r: the commands; without any, it is served, or else what a batch run says at the end. */
static void replay_beside(void *ctx)
{
	struct one_run *r = ctx;
	const struct options *o = r->options;
	struct shell *shell = &r->shell;

	r->status = EXIT_FAILED;
	shell_init(shell, r->session, r->suppressions);
	session_on_signals(r->session, on_signal, shell);
	if (open_recorded(shell, o) == 0 && begin_serving(r) == 0) {
		shell->serve = r->serve;
		answer_messages(shell);
		run_scripts(shell, o);
		if (!o->nscripts && o->listen)
			serve_recorded(shell, o);
		else if (!o->nscripts)
			shell_run_text(shell, NULL, "status; report");
		/* a command that a signal has cut short has failed */
		r->status = shell->failed || (shell->leave && o->nscripts) ? EXIT_FAILED : 0;
		tell_lost(r);
	}
	shell_release(shell);
}

static int replay(const struct options *o, struct suppressions *suppressions)
{
	struct one_run r = { .options = o, .suppressions = suppressions };

	return run_beside(&r, replay_beside);
}

/*
 * The status of an interactive run: the program's, if it ended by itself. What commands said was
 * for the one who typed them.
 */
static int leave(struct shell *shell, const struct options *o, int *sig)
{
	struct session *session = shell->session;

	if (shell->detached || o->open)
		return 0;
	session_hold(session, false);
	if (!session_all_gone(session))
		session_detach(session);
	return shell->killed ? 0 : status_of(shell, o, -1, sig);
}

static void interact_beside(void *ctx)
{
	struct one_run *r = ctx;
	const struct options *o = r->options;
	struct shell *shell = &r->shell;
	int err;

	r->status = EXIT_FAILED;
	shell_init(shell, r->session, r->suppressions);
	err = interactive_open(shell, &r->terminal);
	if (err) {
		message_error("cannot use the terminal: %s", strerror(-err));
		goto out;
	}
	session_hold(r->session, true);
	if (begin_serving(r))
		goto out;
	shell->serve = r->serve;
	if (!(o->open	 ? open_recorded(shell, o)
	      : o->npids ? session_attach(r->session)
			 : session_launch(r->session, &r->status))) {
		interactive_run(shell);
		r->status = leave(shell, o, &r->sig);
	}
out:
	interactive_close(shell);
	terminal_close(&r->terminal);
	shell_release(shell);
	session_close_log(r->session);
	if (r->sig) {
		message_flush();
		r->status = end_as(r->status, r->sig);
	}
}

/* The terminal comes first: its keeper is forked while we have one thread and little memory. */
static int interact(const struct options *o, struct suppressions *suppressions)
{
	struct one_run r = { .options = o, .suppressions = suppressions };
	int err = terminal_open(&r.terminal, o->argv);

	if (err) {
		message_error("cannot make a terminal for the program: %s", strerror(-err));
		return EXIT_FAILED;
	}
	run_beside(&r, interact_beside);
	terminal_close(&r.terminal); /* if it never came to that */
	return r.status;
}

int main(int argc, char **argv)
{
	static struct options options; /* what it points at lives as long as mtrun */
	struct suppressions *suppressions;
	char why[1024];
	int err;

	sigbus_survive();
	switch (options_parse(&options, argc, argv, stdout, why, sizeof(why))) {
	case OPTIONS_BAD: message_error("%s", why); return EXIT_FAILED;
	case OPTIONS_DONE:
		if (!fflush(stdout) && !ferror(stdout))
			return 0;
		message_error("cannot write to standard output: %s", strerror(errno));
		return EXIT_FAILED;
	case OPTIONS_RUN: break;
	}
	err = message_open(options.messages,
			   options.batch && !options.argv ? STDOUT_FILENO : STDERR_FILENO,
			   options.color, options.verbose);
	if (err) {
		message_error("cannot write '%s'%s: %s",
			      options.messages ? options.messages : "stderr",
			      options.messages ? " (--messages)" : "", strerror(-err));
		return EXIT_FAILED;
	}
	suppressions = check_scripts(&options) || dumping_check(&options)
			       ? NULL
			       : suppressing_read(&options);
	err = !suppressions    ? EXIT_FAILED
	      : !options.batch ? interact(&options, suppressions)
	      : options.open   ? replay(&options, suppressions)
			       : run(&options, suppressions);
	suppressions_free(suppressions);
	message_close();
	return err;
}
