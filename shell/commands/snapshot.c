// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/asked_snapshots.h"

#include <inttypes.h>
#include <string.h>

#include "base/escape.h"
#include "base/json.h"
#include "base/units.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/reporting.h"
#include "shell/common/shell.h"

/*
 * `snapshot`: what is live now is remembered under a name, for `diff` and `report --since`. The
 * program can do the same by mtrun_snapshot().
 */
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
	struct text_buffer time, size;
	int64_t blocks;

	if (call->json) {
		list_json(call, s);
		return;
	}
	if (!s->count)
		fputs("none\n", call->out);
	for (size_t i = 0; i < s->count; i++) {
		const struct profile *p = &s->snapshot[i].profile;
		int64_t bytes = bytes_of(p, &blocks);

		escape_printf(call->out, "%-20s at %s: %s in %" PRId64 " block%s\n",
			      s->snapshot[i].name, time_text(&time, p->ms),
			      layout_bytes(&call->layout, &size, (uint64_t)bytes), blocks,
			      plural((uint64_t)blocks));
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
	err = snapshot_take(shell, p, name);
	return err ? shell_error(shell, call, "'%s' is not kept: %s", name, snapshot_why(err)) : 0;
}

const struct command cmd_snapshot = {
	.name = "snapshot",
	.group = GROUP_TIME,
	.usage = "[NAME] [--bytes] [--json]",
	.summary = "remember what is live now under a name; alone: list them",
	.example = "snapshot before; wait 10s; diff before",
	.help = "For `diff` and `report --since`. One of the same name is replaced. It stays when the program has ended. The program itself can take one by\n"
		"mtrun_snapshot(\"NAME\") of mtrun.h.",
	.flags = COMMAND_LIST | COMMAND_JSON | COMMAND_BYTES | COMMAND_TIMES,
	.run = snapshot,
};
