// SPDX-License-Identifier: GPL-3.0-or-later
#include "log/replay_process.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "log/replay_status.h"
#include "process/profile_make.h"

/*
 * The struct replay_process is the process' `told`, borrowed. Names come from the log; those that
 * are not in it are looked up in the files, if they are the same still.
 */
static uint32_t parent(const struct process *p, uint32_t stack, uint64_t *pc)
{
	return replay_parent(p->told, stack, pc);
}

static bool question(const struct process *p, uint32_t node, uint64_t pc, struct symbol_question *q)
{
	struct symbol_frames told;

	process_code(p, node, pc, q);
	/* what has that name here may be anything */
	if (q->module && !q->module->build_id_len)
		q->module = NULL;
	return !replay_frames(p->told, &p->modules, node, pc, &told);
}

static struct symbol_frames frames(struct process *p, uint32_t node, uint64_t pc)
{
	struct symbol_frames told;

	if (replay_frames(p->told, &p->modules, node, pc, &told))
		return told;
	return process_look_up(p, node, pc);
}

static int site_skip(struct process *p, const char *regex, const char **error)
{
	return replay_site_skip(p->told, regex, error);
}

/* Damage is found when that part of the log is read. */
static int profile(const struct process *p, const struct profile_ask *ask, struct profile *profile)
{
	int err = profile_from_ledger(profile, p->ledger, ask);

	if (!err && replay_troubled(p->told)) {
		profile_release(profile);
		err = -EBADMSG;
	}
	return err;
}

static const char *trouble(const struct process *p) { return replay_trouble(p->told); }

static const struct process_source source = {
	.name = "a log",
	.parent = parent,
	.question = question,
	.frames = frames,
	.site_skip = site_skip,
	.profile = profile,
	.trouble = trouble,
	.status = replay_status,
	.status_json = replay_status_json,
};

struct process *replay_process_new(struct replay_process *log, unsigned count)
{
	const struct log_process *facts = replay_facts(log);
	struct process *p = process_from(&source, log, facts->pid, facts->ppid, count,
					 replay_ledger(log), outside_of_owner(replay_owner(log)));

	if (!p)
		return NULL;
	facts = replay_facts(log); /* the ledger may have come to an earlier end */
	if (replay_modules(log, &p->modules) || replay_marks(log, &p->marks)) {
		process_unref(p);
		return NULL;
	}
	p->via = getpid();
	p->state = (enum process_state)facts->state;
	p->wait_status = facts->wait_status;
	p->began_ms = facts->began_ms;
	p->recorded_ms = replay_recorded_ms(log);
	p->ended_ms = facts->ended_ms;
	p->image_bytes = facts->image_bytes;
	p->preattach = facts->preattach;
	process_name(p, facts->command, facts->exe);
	p->unsupervised = facts->unsupervised;
	p->ledger_used = true;
	return p;
}
