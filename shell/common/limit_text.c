// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/limit_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/message.h"
#include "base/proc.h"
#include "base/units.h"
#include "process/profile_make.h"
#include "report/print.h"
#include "session/asking.h"
#include "shell/common/answer_stream.h"
#include "shell/common/fold.h"
#include "shell/common/lookup.h"
#include "shell/common/shell.h"

/*
 * A request that met the limit is told in two forms: one line that programs parse, and a text for
 * people, with the request's stack and the sites that hold most.
 */

#define SITES 10

uint64_t limit_room(uint64_t limit, uint64_t allocated)
{
	return limit > allocated ? limit - allocated : 0;
}

static const char *thread_name(const struct limit_hit *hit, char name[PROC_NAME])
{
	proc_name(hit->process->via, hit->tid, name);
	return *name ? name : "?";
}

static void print_image(FILE *out, const struct limit_hit *hit, const struct layout *l)
{
	const struct process *p = hit->process;
	struct text_buffer size;

	escape_printf(out,
		      "process %d (%s): the executable's text alone, %s, is more than the limit%s"
		      " (-c heap,mmap leaves it out)\n",
		      (int)p->pid, p->command ? p->command : "?",
		      layout_bytes(l, &size, hit->request),
		      p->attached ? "" : "; nothing of it has run");
}

static void print_request(FILE *out, const struct limit_hit *hit, struct sites *sites,
			  const struct layout *l)
{
	const struct process *p = hit->process;
	struct text_buffer time, more, room;
	char name[PROC_NAME];

	escape_printf(out,
		      "process %d (%s), thread %d (%s), after %s: %s more, with %s of room left,"
		      " asked for by\n",
		      (int)p->pid, p->command ? p->command : "?", (int)hit->tid,
		      thread_name(hit, name), time_text(&time, hit->ms),
		      layout_bytes(l, &more, hit->request),
		      layout_bytes(l, &room, limit_room(hit->limit, hit->allocated)));
	print_stack(out, sites, hit->stack, l);
}

/* Rows and image are what is allocated; the image has no call stack, and no other row. */
static void print_image_row(FILE *out, const struct process *p, const struct layout *l)
{
	struct text_buffer size;

	if (p->image_bytes && l->columns)
		escape_printf(out, "[image]  %s  the executable's text\n",
			      layout_size(l, &size, p->image_bytes));
	else if (p->image_bytes)
		fprintf(out, "[image]  size:%" PRIu64 "  (the executable's text)\n",
			p->image_bytes);
}

static void print_held(struct shell *shell, FILE *out, const struct limit_hit *hit,
		       struct sites *sites, const struct layout *l)
{
	struct view_options options = { .key = VIEW_SITE, .sort = SORT_SIZE, .limit = SITES };
	struct profile_ask ask = { .now_ms = hit->ms,
				   .counted = session_options(shell->session)->count };
	struct profile profile;
	struct view view;
	int err;

	if (session_profile(shell->session, hit->process, &ask, &profile))
		return;
	lookup_profile(shell, hit->process, sites, &profile, false);
	asking_unlock(shell->session);
	err = view_make(&view, &profile, sites, &options);
	asking_lock(shell->session);
	if (!err) {
		fputs("what it holds:\n", out);
		print_report(out, &view, sites, false, l);
		if (ask.counted & COUNT_IMAGE)
			print_image_row(out, hit->process, l);
		view_release(&view);
	}
	profile_release(&profile);
}

void limit_line(FILE *out, const struct limit_hit *hit)
{
	fprintf(out,
		"[MEMTRACER] alloc memory:%" PRIu64 ", allocated_memory: %" PRIu64
		", memory_limit: %" PRIu64 ", Memory limit exceeded!\n",
		hit->request, hit->allocated, hit->limit);
	fflush(out);
}

static void print_hit(struct shell *shell, FILE *out, const struct limit_hit *hit,
		      const struct layout *l)
{
	struct sites *sites;

	if (hit->image) {
		print_image(out, hit, l);
		return;
	}
	sites = shell_own_sites(shell, hit->process);
	if (!sites)
		return;
	lookup_stack(shell, hit->process, sites, hit->stack);
	print_request(out, hit, sites, l);
	print_held(shell, out, hit, sites, l);
	sites_free(sites);
}

void limit_text(struct shell *shell, FILE *out, const struct limit_hit *hit)
{
	struct layout layout = answer_layout(message_own_fd());
	FILE *fold = fold_sentences(out, &layout);

	layout.said = true;
	print_hit(shell, fold ? fold : out, hit, &layout);
	if (fold)
		fclose(fold);
}

int limit_refusals(const struct process *p, struct profile *profile)
{
	const struct limit *l = &p->limit;

	*profile = (struct profile){ .row = calloc(l->refusals + 1, sizeof(*profile->row)) };
	if (!profile->row)
		return -ENOMEM;
	for (size_t i = 0; i < l->refusals; i++) {
		const struct limit_refusal *r = &l->refusal[i];
		/* requests may be absurd, their sum is to be none the less one */
		uint64_t most = INT64_MAX / l->refusals;

		profile->row[profile->count++] =
			(struct profile_row){ .stack = r->stack,
					      .size = (int64_t)(r->bytes < most ? r->bytes : most),
					      .count = (int64_t)r->count };
	}
	return 0;
}

uint64_t limit_refused_count(const struct process *p)
{
	uint64_t n = 0;

	for (size_t i = 0; i < p->limit.refusals; i++)
		n += p->limit.refusal[i].count;
	return n;
}
