/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../shell/command.h"
#include "../shell/summary.h"
#include "message.h"
#include "options.h"
#include "session.h"

/*
 * One run: read the command line, launch, run the commands of -x and -X in order while the program runs, wait for its end, say the summary, end
 * as it did. The program is held at its last instant until the commands are done, so that each of them still finds everything.
 */

/* A reader that went away must not take mtrun with it. A handler, not SIG_IGN: the program that is started would inherit that. */
static void ignore_signal(int sig) { (void)sig; }

static void broken_pipes(void)
{
	struct sigaction old, sa = { .sa_handler = ignore_signal, .sa_flags = SA_RESTART };

	if (!sigaction(SIGPIPE, NULL, &old) && old.sa_handler != SIG_IGN)
		sigaction(SIGPIPE, &sa, NULL);
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
			message_error("cannot read the script '%s': %s", o->script[i].text, strerror(-err));
			shell->failed++;
		}
	}
}

/* A program that the commands left stopped would never end. */
static void let_run(struct shell *shell)
{
	struct process *p = session_main(shell->session);
	int err;

	if (p->state != PROCESS_STOPPED)
		return;
	message_say("no more commands: process %d runs on", (int)p->pid);
	err = session_cont(shell->session, p);
	if (err)
		message_error("cannot continue process %d: %s", (int)p->pid, strerror(-err));
}

static int wait_for(struct shell *shell, bool (*done)(const struct session *))
{
	while (!done(shell->session)) {
		int err = shell_turn(shell, -1);

		if (err) {
			message_error("the program can no longer be followed: %s", strerror(-err));
			return err;
		}
	}
	return 0;
}

static int follow(struct shell *shell, const struct options *o)
{
	session_hold(shell->session, true);
	run_scripts(shell, o);
	if (shell->detached)
		return 0;
	let_run(shell);
	if (wait_for(shell, session_ended))
		return -1;
	if (!o->quiet) {
		summary_print(shell, message_stream());
		message_flush();
	}
	session_hold(shell->session, false);
	return wait_for(shell, session_all_gone);
}

/* As the program did: by the same signal, but without a core of ours. */
static int end_as(const struct session *session)
{
	int sig = 0, status = session_exit_status(session, &sig);
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

static int run(const struct options *o)
{
	struct session *session = session_new(o);
	struct shell shell;
	int status = EXIT_FAILED, failed;

	if (!session) {
		message_error("out of memory");
		return EXIT_FAILED;
	}
	if (session_launch(session, &status)) {
		session_free(session);
		return status;
	}
	shell_init(&shell, session);
	failed = follow(&shell, o) || shell.failed;
	if (failed)
		status = EXIT_FAILED;
	else if (shell.detached)
		status = 0;
	else
		status = -1;
	shell_release(&shell);
	if (status < 0) {
		message_flush();
		status = end_as(session);
	}
	session_free(session);
	return status;
}

int main(int argc, char **argv)
{
	struct options options;
	char why[1024];
	int err;

	switch (options_parse(&options, argc, argv, stdout, why, sizeof(why))) {
	case OPTIONS_BAD:
		message_error("%s", why);
		return EXIT_FAILED;
	case OPTIONS_DONE:
		return fflush(stdout) || ferror(stdout) ? EXIT_FAILED : 0;
	case OPTIONS_RUN:
		break;
	}
	broken_pipes();
	err = message_open(options.messages, STDERR_FILENO, options.color, options.verbose);
	if (err) {
		message_error("cannot write '%s' (--messages): %s", options.messages ? options.messages : "stderr", strerror(-err));
		return EXIT_FAILED;
	}
	err = run(&options);
	message_close();
	return err;
}
