// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/prompt/interval_lines.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/escape.h"
#include "base/message.h"
#include "base/units.h"
#include "report/print.h"
#include "session/api_answer.h"
#include "shell/common/shell.h"
#include "shell/common/usage.h"
#include "shell/prompt/screen.h"

/*
 * A timer's descriptor in the session's loop says when, so that the lines are on time whoever turns
 * the loop. What was missed is not made up for. While a process is stopped there is nothing new to
 * say of it. The line is MemTracer's, which others parse, with more behind it.
 */
static void line(FILE *out, const struct process *p, unsigned count, bool alone)
{
	uint64_t image = count & COUNT_IMAGE ? p->image_bytes : 0;
	int64_t rss = usage_rss(p);
	struct text_buffer time;
	struct ledger_totals t;
	const char *about;

	ledger_totals(p->ledger, &t);
	about = print_about(t.estimated);
	escape_printf(out,
		      "[MEMTRACER] allocated memory: %s%" PRIu64 ", metadata memory: %s%" PRIu64
		      " peak: %s%" PRIu64 ", rss: %" PRId64,
		      about, process_allocated(p, count), about, t.live_blocks * 8, about,
		      t.peak + image, rss < 0 ? 0 : rss);
	if (!alone)
		escape_printf(out, ", process: %d (%s)", (int)p->pid,
			      p->command ? p->command : "?");
	if (p->off)
		escape_printf(out, ", off since %s", time_text(&time, p->off_ms));
	putc('\n', out);
}

static bool counted(const struct process *p)
{
	return p->state == PROCESS_RUNNING && p->stream && !p->unsupervised;
}

static void tell(void *ctx, short revents)
{
	struct shell *shell = ctx;
	size_t n = 0;
	uint64_t times;

	(void)revents;
	if (read(shell->interval.fd, &times, sizeof(times)) < 0 ||
	    (shell->screen && !screen_takes_lines(shell->screen)))
		return;
	session_settle(shell->session);
	for (const struct process *p = session_processes(shell->session); p; p = p->next)
		n += counted(p);
	for (const struct process *p = session_processes(shell->session); p; p = p->next)
		if (counted(p))
			line(message_own(), p, session_options(shell->session)->count, n == 1);
	message_flush();
}

int interval_set(struct shell *shell, uint64_t first, uint64_t ms)
{
	struct itimerspec when = {
		.it_interval = { (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 },
		.it_value = { (time_t)(first / 1000), (long)(first % 1000) * 1000000 }
	};
	int fd, err;

	interval_release(shell);
	if (!ms)
		return 0;
	fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	err = timerfd_settime(fd, 0, &when, NULL) < 0
		      ? -errno
		      : session_watch(shell->session, fd, POLLIN, tell, shell);
	if (err) {
		close(fd);
		return err;
	}
	shell->interval = (struct interval){ .ms = ms, .fd = fd };
	return 0;
}

void interval_release(struct shell *shell)
{
	if (!shell->interval.ms)
		return;
	session_watch(shell->session, shell->interval.fd, 0, NULL, NULL);
	close(shell->interval.fd);
	shell->interval = (struct interval){ 0 };
}
