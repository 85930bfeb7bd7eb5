// SPDX-License-Identifier: GPL-3.0-or-later
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/escape.h"
#include "base/json.h"
#include "base/proc.h"
#include "base/units.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/shell.h"

/* `threads`: as the kernel lists them now. */
struct thread {
	pid_t tid;
	char name[PROC_NAME];
	char state;
};

static int thread_order(const void *a, const void *b)
{
	return ((const struct thread *)a)->tid - ((const struct thread *)b)->tid;
}

static bool read_thread(struct thread *t, pid_t pid, pid_t tid)
{
	*t = (struct thread){ .tid = tid, .state = proc_state(tid) };
	if (!t->state)
		return false;
	proc_name(pid, tid, t->name);
	return true;
}

static const char *state_name(char c)
{
	switch (c) {
	case 'R': return "running";
	case 'S': return "sleeping";
	case 'D': return "waiting";
	case 't':
	case 'T': return "stopped";
	case 'Z':
	case 'X': return "exited";
	default: return "?";
	}
}

static struct thread *read_threads(pid_t pid, size_t *count)
{
	int fd = proc_open(pid, "task", O_RDONLY | O_DIRECTORY);
	struct thread *list = NULL;
	struct dirent *e;
	DIR *dir;

	*count = 0;
	if (fd < 0)
		return NULL;
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return NULL;
	}
	while ((e = readdir(dir)) != NULL) {
		struct thread *more;
		uint64_t tid;

		if (number_parse(e->d_name, &tid))
			continue;
		more = reallocarray(list, *count + 1, sizeof(*list));
		if (!more)
			break;
		list = more;
		*count += read_thread(&list[*count], pid, (pid_t)tid);
	}
	closedir(dir);
	if (*count)
		qsort(list, *count, sizeof(*list), thread_order);
	return list;
}

static int threads(struct shell *shell, struct call *call)
{
	struct process *p;
	struct thread *t;
	size_t n;

	if (arguments_none(shell, call))
		return -1;
	p = shell_process(shell);
	t = process_state_gone(p->state) ? NULL : read_threads(p->pid, &n);
	if (!t)
		n = 0;
	if (call->json) {
		struct json j;

		json_init(&j, call->out);
		json_object(&j, NULL);
		json_array(&j, "threads");
		for (size_t i = 0; i < n; i++) {
			json_object(&j, NULL);
			json_int(&j, "tid", t[i].tid);
			json_string(&j, "name", t[i].name);
			json_string(&j, "state", state_name(t[i].state));
			json_end_object(&j);
		}
		json_end_array(&j);
		json_end_object(&j);
		json_finish(&j);
	} else {
		escape_printf(call->out, "%8s  %-8s  %s\n", "TID", "STATE", "NAME");
		for (size_t i = 0; i < n; i++)
			escape_printf(call->out, "%8d  %-8s  %s\n", (int)t[i].tid,
				      state_name(t[i].state), t[i].name);
	}
	free(t);
	return 0;
}

const struct command cmd_threads = {
	.name = "threads",
	.usage = "[--json]",
	.summary = "the threads of the process",
	.example = "threads",
	.flags = COMMAND_LIST | COMMAND_JSON | COMMAND_LIVE,
	.run = threads,
};
