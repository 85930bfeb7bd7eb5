// SPDX-License-Identifier: GPL-3.0-or-later
/* test_nodes.c - ways out of stacks, as written by hooks and by a program that writes what it likes. */
#include "transport/nodes.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test.h"

#define FILE_BYTES \
	((off_t)(AGENT_NODES - AGENT_BEACON) + (off_t)WIRE_NODES * (off_t)sizeof(struct wire_node))

static struct wire_process *wire;
static struct wire_node *written; /* as the target has it */

static struct nodes *begin(struct nodes *elder, uint32_t count)
{
	int fd = memfd_create("nodes", MFD_CLOEXEC);
	struct nodes *n;

	wire = mmap(NULL, sizeof(*wire), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	CHECK(wire != MAP_FAILED);
	CHECK(fd >= 0 && ftruncate(fd, FILE_BYTES) == 0);
	written = mmap(NULL, WIRE_NODES * sizeof(*written), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		       AGENT_NODES - AGENT_BEACON);
	CHECK(written != MAP_FAILED);
	n = nodes_new(fd, wire, elder);
	CHECK(n != NULL);
	wire->nodes = count;
	close(fd);
	return n;
}

static void end(struct nodes *n)
{
	nodes_close(n);
	nodes_unref(n);
	munmap(written, WIRE_NODES * sizeof(*written));
	munmap(wire, sizeof(*wire));
}

static uint32_t way_out(struct nodes *n, uint32_t node)
{
	uint32_t steps = 0;
	uint64_t pc;

	for (; node; node = nodes_parent(n, node, &pc))
		steps++;
	return steps;
}

/* A chain of COUNT nodes from FIRST on, the first one's parent is PARENT. */
static void chain(uint32_t first, uint32_t count, uint32_t parent)
{
	for (uint32_t i = first; i < first + count; parent = i++)
		written[i] = (struct wire_node){ .pc = i, .parent = parent };
}

static void test_as_written(void)
{
	struct nodes *n = begin(NULL, 2000), *child;
	struct wire_node *elders;
	struct wire_process *its;
	uint64_t pc;

	chain(1, WIRE_DEPTH + 2, 0);
	for (uint32_t i = WIRE_DEPTH + 2; i; i--) {
		CHECK_EQ(nodes_parent(n, i, &pc), i - 1);
		CHECK_EQ(pc, i);
	}
	CHECK_EQ(way_out(n, WIRE_DEPTH + 2), WIRE_DEPTH + 2);
	CHECK_EQ(nodes_parent(n, 2000, &pc), 0);
	CHECK_EQ(pc, 0);
	nodes_close(n);
	elders = written;
	its = wire;
	child = begin(n, 2010); /* goes on with its parent's numbers */
	chain(2000, 10, 500);
	CHECK_EQ(way_out(child, 2009), 510);
	CHECK_EQ(way_out(child, 400), 400);
	end(child);
	written = elders;
	wire = its;
	end(n);
}

static void test_too_deep(void)
{
	struct nodes *n = begin(NULL, 1000000);
	uint32_t most = 0;

	chain(1, 999999, 0);
	for (uint32_t i = 999999; i > 999000; i--)
		most = way_out(n, i) > most ? way_out(n, i) : most;
	CHECK(most <= 2 * WIRE_DEPTH);
	CHECK_EQ(way_out(n, 100), 100);
	end(n);
}

/* Nodes are written anew while they are asked about: no way out is longer than the first time. */
static void test_rewritten(void)
{
	struct nodes *n = begin(NULL, 100001);

	chain(1, 10, 0);
	chain(99001, 1000, 0);
	written[100000] = (struct wire_node){ .pc = 1, .parent = 10 };
	CHECK_EQ(way_out(n, 100000), 11);
	written[100000].parent = 99999;
	CHECK(way_out(n, 100000) <= 11);
	written[100000].parent = 200000;
	CHECK_EQ(way_out(n, 100000), 1);
	written[100000].parent = 100000;
	CHECK_EQ(way_out(n, 100000), 1);
	end(n);
}

static bool counting;

static void *count_at_random(void *most)
{
	for (uint32_t i = 1; __atomic_load_n(&counting, __ATOMIC_RELAXED);
	     i = i * 1103515245 + 12345)
		__atomic_store_n(&wire->nodes, (i >> 8) % *(const uint32_t *)most,
				 __ATOMIC_RELAXED);
	return NULL;
}

/* The number of nodes changes while they are asked about. */
static void test_counted_anew(void)
{
	uint32_t most = 500000;
	struct nodes *n = begin(NULL, most);
	pthread_t t;

	for (uint32_t i = 1; i + 500 <= most; i += 500)
		chain(i, 500, 0);
	counting = true;
	CHECK_EQ(pthread_create(&t, NULL, count_at_random, &most), 0);
	for (uint32_t i = 500; i < most; i += 500)
		CHECK(way_out(n, i) <= 500);
	__atomic_store_n(&counting, false, __ATOMIC_RELAXED);
	pthread_join(t, NULL);
	end(n);
}

int main(void)
{
	RUN(test_as_written);
	RUN(test_too_deep);
	RUN(test_rewritten);
	RUN(test_counted_anew);
	return test_status();
}
