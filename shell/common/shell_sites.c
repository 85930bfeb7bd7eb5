// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "session/asking.h"
#include "shell/common/command.h"
#include "shell/common/shell.h"

/*
 * shell_sites.c - the stacks of each process that was asked about, with their symbols, are kept
 * from one answer to the next.
 */

struct process_sites {
	struct process_sites *next;
	/* only compared until it is known to live: records of short-lived processes go away ... */
	struct process *process;
	pid_t pid; /* ... and their memory may be another's by now */
	uint64_t began_ms;
	struct sites *sites;
};

static uint32_t parent(void *ctx, uint32_t node, uint64_t *pc)
{
	bool entered = asking_relock();
	uint32_t stack = process_stack_parent(ctx, node, pc);

	asking_reunlock(entered);
	return stack;
}

static struct symbol_frames frames(void *ctx, uint32_t node, uint64_t pc)
{
	bool entered = asking_relock();
	struct symbol_frames f = process_frames(ctx, node, pc);

	asking_reunlock(entered);
	return f;
}

static bool passed_over(void *ctx, uint32_t node, uint64_t pc)
{
	bool entered = asking_relock(), passed = process_passed_over(ctx, node, pc);

	asking_reunlock(entered);
	return passed;
}

static int rest(void *ctx)
{
	struct shell *shell = ctx;

	session_yield(shell->session);
	return asking_is_asker(shell->session) && shell_interrupted(shell) ? -EINTR : 0;
}

static bool lives(const struct shell *shell, const struct process_sites *s)
{
	const struct process *p = shell->about;

	if (!p || p != s->process)
		for (p = session_processes(shell->session); p && p != s->process;)
			p = p->next;
	return p && p->pid == s->pid && p->began_ms == s->began_ms;
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
	struct sites_source source = { .parent = parent,
				       .frames = frames,
				       .passed_over = passed_over,
				       .ctx = p,
				       .rest = rest,
				       .rest_ctx = shell };
	struct sites *sites = sites_new(&source);
	const char *why;

	if (!sites)
		shell_error(shell, NULL, "out of memory");
	else if (*shell->settings.site_skip &&
		 process_site_skip(p, shell->settings.site_skip, &why))
		shell_error(shell, NULL, "site-skip: %s", why);
	if (sites)
		sites_pass_wrappers(sites, !shell->settings.stay_in_wrappers);
	return sites;
}

struct sites *shell_sites(struct shell *shell, struct process *p)
{
	struct process_sites *s;

	forget_dead(shell);
	for (s = shell->sites; s; s = s->next)
		if (s->process == p) {
			sites_pass_wrappers(s->sites, !shell->settings.stay_in_wrappers);
			return s->sites;
		}
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

void shell_forget_sites(struct shell *shell)
{
	struct process_sites *next;

	for (struct process_sites *s = shell->sites; s; s = next) {
		next = s->next;
		sites_free(s->sites);
		free(s);
	}
	shell->sites = NULL;
}
