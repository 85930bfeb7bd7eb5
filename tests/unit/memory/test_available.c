// SPDX-License-Identifier: GPL-3.0-or-later
/* test_available.c - what is left in cgroups of both versions, told by files of our own. */
#include <sys/stat.h>
#include <unistd.h>

#include "memory/available.h"
#include "test.h"

static char root[64];

static void put(const char *dir, const char *name, const char *text)
{
	char path[256], command[300];
	FILE *f;

	snprintf(command, sizeof(command), "mkdir -p %s%s", root, dir);
	CHECK_EQ(system(command), 0);
	snprintf(path, sizeof(path), "%s%s/%s", root, dir, name);
	f = fopen(path, "w");
	CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void test_second_version(void)
{
	put("/a", "memory.max", "max\n");
	put("/a", "memory.current", "1000\n");
	CHECK_EQ(memory_cgroup_room(root, "0::/a/b\n"), UINT64_MAX);
	put("/a/b", "memory.max", "5000000\n");
	put("/a/b", "memory.current", "3000000\n");
	CHECK_EQ(memory_cgroup_room(root, "0::/a/b\n"), 2000000);
	CHECK_EQ(memory_cgroup_room(root, "0::/a\n"), UINT64_MAX);
	CHECK_EQ(memory_cgroup_room(root, "0::/\n"), UINT64_MAX);
	/* the cgroup above has less */
	put("/a", "memory.max", "3500000\n");
	put("/a", "memory.current", "3200000\n");
	CHECK_EQ(memory_cgroup_room(root, "0::/a/b\n"), 300000);
	/* pages of files are given up */
	put("/a", "memory.stat", "anon 12\ninactive_file 1000000\nactive_file 7\n");
	CHECK_EQ(memory_cgroup_room(root, "0::/a/b\n"), 1300000);
	put("/a", "memory.current", "9900000\n");
	CHECK_EQ(memory_cgroup_room(root, "0::/a/b\n"), 0);
	/* of a namespace that we are not in */
	CHECK_EQ(memory_cgroup_room(root, "0::/../a\n"), UINT64_MAX);
}

static void test_first_version(void)
{
	static const char text[] = "5:devices:/c\n4:cpu,memory:/c\n1:name=memory:/d\n0::/d\n";

	put("/memory/c", "memory.limit_in_bytes", "9000\n");
	put("/memory/c", "memory.usage_in_bytes", "8000\n");
	put("/memory/d", "memory.limit_in_bytes", "10\n");
	put("/memory/d", "memory.usage_in_bytes", "10\n");
	CHECK_EQ(memory_cgroup_room(root, text), 1000);
	CHECK_EQ(memory_cgroup_room(root, ""), UINT64_MAX);
	CHECK_EQ(memory_cgroup_room(root, "nonsense\n:\n4\n"), UINT64_MAX);
	put("/unified/d", "memory.max", "100\n");
	put("/unified/d", "memory.current", "90\n");
	CHECK_EQ(memory_cgroup_room(root, text), 10);
}

static void test_here(void)
{
	uint64_t bytes = memory_available(getpid());

	CHECK(bytes > 1 << 20);
	CHECK(bytes <= (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
}

int main(void)
{
	char command[128];

	snprintf(root, sizeof(root), "/tmp/mtrun-test.%d", getpid());
	RUN(test_second_version);
	RUN(test_first_version);
	RUN(test_here);
	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command) ? 1 : test_status();
}
