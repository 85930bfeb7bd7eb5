// SPDX-License-Identifier: GPL-3.0-or-later
#include "memory/available.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/proc.h"

/*
 * available.c - how much memory may be used.
 *
 * A limit holds for a cgroup and all below it, so those above count, too. Pages of files that
 * nobody has used lately are counted as used there, but the kernel gives them up first: they are
 * room. Version 2 of cgroups is mounted at ROOT, or beside those of version 1 at ROOT/unified.
 */

struct files { /* of a version */
	const char *mount, *limit, *used;
};

static const struct files versions[] = {
	{ "", "memory.max", "memory.current" },
	{ "/unified", "memory.max", "memory.current" },
	{ "/memory", "memory.limit_in_bytes", "memory.usage_in_bytes" },
};

/* The number after FIELD at the beginning of a line of TEXT. UINT64_MAX: there is none. */
static uint64_t number(const char *text, const char *field)
{
	size_t len = strlen(field);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		const char *at = line += *line == '\n';

		if (strncmp(line, field, len))
			continue;
		at += len + strspn(line + len, " ");
		if (*at >= '0' && *at <= '9')
			return strtoull(at, NULL, 10);
	}
	return UINT64_MAX;
}

static uint64_t number_in(const char *dir, const char *name, const char *field)
{
	char path[PATH_MAX], text[8192];
	int n = snprintf(path, sizeof(path), "%s/%s", dir, name);
	FILE *f = n < (int)sizeof(path) ? fopen(path, "re") : NULL;

	if (!f)
		return UINT64_MAX;
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	fclose(f);
	return number(text, field);
}

static uint64_t room_in(const char *dir, const struct files *files)
{
	uint64_t limit = number_in(dir, files->limit, ""), used = number_in(dir, files->used, ""),
		 cache = number_in(dir, "memory.stat", "inactive_file ");

	if (limit == UINT64_MAX || used == UINT64_MAX)
		return UINT64_MAX;
	if (cache != UINT64_MAX)
		used -= cache < used ? cache : used;
	return limit > used ? limit - used : 0;
}

static uint64_t room_up(const char *root, const char *path, const struct files *files)
{
	char dir[PATH_MAX], *end;
	size_t top = strlen(root) + strlen(files->mount);
	uint64_t least = UINT64_MAX;

	/* "/..": of another namespace, we cannot see it */
	if (!strncmp(path, "/..", 3) ||
	    snprintf(dir, sizeof(dir), "%s%s%s", root, files->mount, path) >= (int)sizeof(dir))
		return least;
	for (;;) {
		uint64_t room = room_in(dir, files);

		least = room < least ? room : least;
		end = strrchr(dir + top, '/');
		if (!end)
			return least;
		*end = '\0';
	}
}

/* CONTROLLERS[LEN], with commas between, has memory's. */
static bool is_memory(const char *controllers, size_t len)
{
	static const char name[] = "memory";

	for (const char *at = controllers, *end = controllers + len; at < end; at++) {
		size_t n = strcspn(at, ",:");

		if (n == sizeof(name) - 1 && !memcmp(at, name, n))
			return true;
		at += n;
	}
	return false;
}

/* "0::/system.slice/x.service", "4:cpu,memory:/x" */
uint64_t memory_cgroup_room(const char *root, const char *cgroup)
{
	uint64_t least = UINT64_MAX;

	for (const char *line = cgroup, *end; *line; line = *end ? end + 1 : end) {
		const char *controllers = strchr(line, ':'), *path;
		char *copy;

		end = line + strcspn(line, "\n");
		path = controllers && controllers < end ? strchr(controllers + 1, ':') : NULL;
		if (!path || path > end)
			continue;
		controllers++;
		copy = strndup(path + 1, (size_t)(end - path - 1));
		for (size_t i = 0; copy && i < sizeof(versions) / sizeof(*versions); i++) {
			bool second = path == controllers; /* no controllers are named */
			uint64_t room;

			if (second != (i < 2) ||
			    (!second && !is_memory(controllers, (size_t)(path - controllers))))
				continue;
			room = room_up(root, copy, &versions[i]);
			least = room < least ? room : least;
		}
		free(copy);
	}
	return least;
}

uint64_t memory_available(pid_t pid)
{
	uint64_t machine = UINT64_MAX, room = UINT64_MAX;
	char *text;

	if (proc_read(pid, "../meminfo", &text) >= 0) {
		machine = number(text, "MemAvailable:");
		machine = machine < UINT64_MAX / 1024 ? machine * 1024 : UINT64_MAX;
		free(text);
	}
	if (proc_read(pid, "cgroup", &text) >= 0) {
		room = memory_cgroup_room("/sys/fs/cgroup", text);
		free(text);
	}
	return room < machine ? room : machine;
}
