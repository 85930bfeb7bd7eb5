/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cmd-snapshot.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/escape.h"
#include "base/json.h"
#include "base/message.h"
#include "base/units.h"
#include "command.h"
#include "reporting.h"

/* `snapshot`: what is live now is remembered under a name, for `diff` and `report --since`. The program can do the same by mtrun_snapshot(). */
static int take(struct shell *shell, struct process *p, const char *name)
{
	struct profile_ask ask = { .now_ms = shell_moment(shell, p), .counted = session_options(shell->session)->count };

	return snapshot_take(&p->snapshots, p->ledger, &ask, name);
}

static const char *why(int err)
{
	return err == -ENOSPC ? "there are too many (at most 1000, 256 MB of them)" : err == -EINVAL ? "a name has 1 to 64 bytes" : "out of memory";
}

static void on_program(void *ctx, struct process *p, const char *name)
{
	int err = take(ctx, p, name);

	if (err)
		message_verbose(1, "%d: its snapshot '%s' is not kept: %s", (int)p->pid, name, why(err));
}

void snapshots_for_program(struct shell *shell)
{
	session_on_snapshot(shell->session, on_program, shell);
}

const char *shell_snapshot_name(const struct shell *shell, size_t i)
{
	const struct process *p = session_main(shell->session);

	return p && i < p->snapshots.count ? p->snapshots.snapshot[i].name : NULL;
}

static int64_t bytes_of(const struct profile *p, int64_t *blocks)
{
	int64_t bytes = 0;

	*blocks = 0;
	for (size_t i = 0; i < p->count; i++) {
		bytes += p->row[i].size;
		*blocks += p->row[i].count;
	}
	return bytes;
}

static void list_json(struct call *call, const struct snapshots *s)
{
	struct json j;
	int64_t blocks;

	json_init(&j, call->out);
	json_object(&j, NULL);
	json_array(&j, "snapshots");
	for (size_t i = 0; i < s->count; i++) {
		const struct snapshot *one = &s->snapshot[i];

		json_object(&j, NULL);
		json_string(&j, "name", one->name);
		json_uint(&j, "time_ms", one->profile.ms);
		json_int(&j, "total_size", bytes_of(&one->profile, &blocks));
		json_int(&j, "total_count", blocks);
		json_end_object(&j);
	}
	json_end_array(&j);
	json_end_object(&j);
	json_finish(&j);
}

static void list(struct call *call, const struct snapshots *s)
{
	struct text_buffer time;
	int64_t blocks;

	if (call->json) {
		list_json(call, s);
		return;
	}
	for (size_t i = 0; i < s->count; i++) {
		const struct profile *p = &s->snapshot[i].profile;
		int64_t bytes = bytes_of(p, &blocks);

		escape_printf(call->out, "%-20s at %s: %" PRId64 " bytes in %" PRId64 " blocks\n", s->snapshot[i].name, time_text(&time, p->ms), bytes, blocks);
	}
}

static int snapshot(struct shell *shell, struct call *call)
{
	struct process *p = shell_process(shell);
	const char *name;
	int err;

	if (arguments_one(shell, call, &name))
		return -1;
	if (!name) {
		list(call, &p->snapshots);
		return 0;
	}
	err = take(shell, p, name);
	return err ? shell_error(shell, call, "'%s' is not kept: %s", name, why(err)) : 0;
}

const struct command cmd_snapshot = {
	.name = "snapshot",
	.usage = "[NAME] [--json]",
	.summary = "remember what is live now under a name; alone: list them",
	.help = "For `diff` and `report --since`. One of the same name is replaced. It stays when the program has ended. The program itself can take one by\n"
		"mtrun_snapshot(\"NAME\") of mtrun.h.",
	.flags = COMMAND_JSON | COMMAND_TIMES,
	.run = snapshot,
};
