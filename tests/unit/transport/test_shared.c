// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_shared - memory files are what they are, not what they are called; stacks of a child; what a
 * target says of its slots and rings.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test.h"
#include "transport/nodes.h"
#include "transport/shared.h"

#define SIZE 65536

static int memory(unsigned flags) { return memfd_create("mtrun", MFD_CLOEXEC | flags); }

/* What comes of taking FD, which is closed. */
static int taken(int fd)
{
	int own = shared_take(getpid(), fd, SIZE);

	if (own >= 0)
		close(own);
	close(fd);
	return own >= 0 ? 0 : own;
}

static void test_files(void)
{
	char name[] = "/tmp/test_shared.XXXXXX";
	int fd, own;

	fd = memory(MFD_ALLOW_SEALING);
	own = shared_take(getpid(), fd, SIZE);
	CHECK(own >= 0);
	CHECK_EQ(lseek(own, 0, SEEK_END), SIZE);
	/* through the target's own descriptor */
	CHECK(ftruncate(fd, 0) < 0 && errno == EPERM);
	CHECK(ftruncate(fd, 2 * SIZE) < 0 && errno == EPERM);
	close(own);
	CHECK_EQ(taken(fd), -EPERM); /* it is not new any more */

	CHECK_EQ(taken(memory(0)), -EPERM); /* cannot be sealed */
	fd = memory(MFD_ALLOW_SEALING);
	CHECK_EQ(write(fd, "x", 1), 1);
	CHECK_EQ(taken(fd), -EPERM);
	fd = mkstemp(name);
	CHECK_EQ(taken(fd), -EPERM); /* a file on disk */
	CHECK_EQ(access(name, F_OK), 0);
	fd = open(name, O_RDWR | O_CLOEXEC);
	unlink(name);
	CHECK_EQ(taken(fd), -EPERM); /* and one without a name */
	CHECK_EQ(taken(open("/dev/null", O_RDWR | O_CLOEXEC)), -EPERM);
	CHECK_EQ(taken(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), -EPERM);
	CHECK_EQ(shared_take(getpid(), 9999, SIZE), -EBADF);
	CHECK_EQ(shared_take(getpid(), -1, SIZE), -EBADF);

	fd = memory(MFD_ALLOW_SEALING);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	own = open(name, O_RDONLY | O_CLOEXEC);
	close(fd);
	CHECK_EQ(taken(own), -EPERM); /* which its owner may not write */
}

static int process_file(void)
{
	int fd = memory(0);

	CHECK_EQ(ftruncate(fd, FILE_PROCESS), 0);
	return fd;
}

static void add(struct shared *s, struct wire_node *node, uint32_t parent, uint64_t pc)
{
	uint32_t id = s->wire->nodes++;

	node[id].parent = parent;
	node[id].pc = pc;
}

static struct wire_node *nodes_of(int fd)
{
	return mmap(NULL, 4096 * sizeof(struct wire_node), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    AGENT_NODES - AGENT_BEACON);
}

static void test_nodes(void)
{
	int fd = process_file(), child_fd = process_file();
	struct wire_node *node = nodes_of(fd), *child_node = nodes_of(child_fd);
	struct shared s, c;
	struct nodes *n, *child;
	uint32_t root;
	uint64_t pc;

	CHECK_EQ(shared_map(&s, fd, 2), 0);
	CHECK_EQ(shared_map(&c, child_fd, 2), 0);
	n = nodes_new(fd, s.wire, NULL);
	s.wire->nodes_mapped = 4096;
	root = nodes_root(n);
	CHECK_EQ(root, 1);
	add(&s, node, root, 0x1000); /* 2 */
	add(&s, node, 2, 0x2000);    /* 3 */
	CHECK_EQ(nodes_parent(n, 3, &pc), 2);
	CHECK_EQ(pc, 0x2000);
	CHECK_EQ(nodes_parent(n, 4, &pc), 0); /* not given out */

	child = nodes_new(child_fd, c.wire, n);
	c.wire->nodes_mapped = 4096;
	CHECK_EQ(nodes_count(child), 4);
	CHECK_EQ(nodes_root(child), 4);
	add(&c, child_node, 4, 0x3000);					/* 5 */
	child_node[3] = (struct wire_node){ .pc = 0xbad, .parent = 1 }; /* not the child's to say */
	add(&s, node, 3, 0x4000);					/* the parent's 4 */
	CHECK_EQ(nodes_parent(child, 5, &pc), 4);
	CHECK_EQ(pc, 0x3000);
	CHECK_EQ(nodes_parent(child, 3, &pc), 2);
	CHECK_EQ(pc, 0x2000);
	CHECK_EQ(nodes_parent(n, 4, &pc), 3);
	CHECK_EQ(pc, 0x4000);

	/* lies */
	node[3].parent = 3;
	CHECK_EQ(nodes_parent(n, 3, &pc), 0);
	node[3].parent = 77;
	CHECK_EQ(nodes_parent(n, 3, &pc), 0);
	s.wire->nodes = UINT32_MAX;
	CHECK_EQ(nodes_count(n), WIRE_NODES);
	CHECK_EQ(nodes_parent(n, WIRE_NODES - 1, &pc), 0); /* our mapping grows */
	CHECK_EQ(nodes_parent(n, WIRE_NODES, &pc), 0);
	CHECK_EQ(nodes_root(n), 0);
	s.wire->nodes = 0;
	CHECK_EQ(nodes_count(n), 1);
	c.wire->nodes = 0;
	CHECK_EQ(nodes_count(child), 4);

	nodes_close(n);
	nodes_close(child);
	shared_unmap(&s);
	shared_unmap(&c);
	nodes_unref(n);
	/* its parent said at its end that there are none */
	CHECK_EQ(nodes_parent(child, 2, &pc), 0);
	nodes_unref(child);
	munmap(node, 4096 * sizeof(*node));
	munmap(child_node, 4096 * sizeof(*child_node));
	close(fd);
	close(child_fd);
}

static void test_slots(void)
{
	struct shared_question q;
	uint32_t slot = 0;
	int fd = process_file();
	struct shared s;

	CHECK_EQ(shared_map(&s, fd, 2), 0);
	s.wire->threads_high = 2;
	CHECK_EQ(shared_slots(&s), 2);
	s.wire->threads_high = 40;
	CHECK_EQ(shared_slots(&s), 40); /* as many are mapped now */
	s.wire->thread[39].mail =
		(struct wire_mail){ .state = MAIL_ASKED, .what = 1000, .arg = { 1, 2, 3, 4, 5 } };
	s.wire->thread[39].tid = UINT32_MAX;
	CHECK(shared_question(&s, &slot, &q));
	CHECK_EQ(q.slot, 39);
	CHECK_EQ(q.what, 1000);
	CHECK_EQ(q.tid, INT32_MAX);
	CHECK_EQ(q.arg[4], 5);
	CHECK(!shared_question(&s, &slot, &q));
	s.wire->threads_high = UINT32_MAX;
	CHECK_EQ(shared_slots(&s), WIRE_THREADS);
	CHECK_EQ(s.wire->thread[WIRE_THREADS - 1].fs, 0);
	shared_unmap(&s);
	close(fd);
}

/* One event of slot 1. */
static uint64_t event(struct shared *s, uint64_t at)
{
	struct wire_event e;

	shared_events(s, 1, at, &e, 1);
	return e.a;
}

static void test_rings(void)
{
	struct wire_event e[WIRE_SMALL + 10];
	struct wire_thread *t;
	int fd = process_file();
	uint64_t head = 0;
	struct shared s;

	CHECK_EQ(shared_map(&s, fd, 2), 0);
	t = &s.wire->thread[1];
	for (uint64_t i = 0; i < WIRE_SMALL; i++)
		t->small[i].a = 1000 + i;
	t->head = 300;
	CHECK(shared_ring_head(&s, 1, 200, &head));
	CHECK_EQ(head, 300);
	CHECK_EQ(shared_ring_size(&s, 1), WIRE_SMALL);
	CHECK_EQ(event(&s, 255), 1255);
	CHECK_EQ(event(&s, 256), 1000);

	/* it has moved: as many are mapped now as there must be */
	t->moved = 250;
	t->big = 40;
	CHECK(shared_ring_head(&s, 1, 300, &head));
	CHECK_EQ(s.bigs, BIGS_FIRST); /* there is nothing to be looked at */
	CHECK(shared_ring_head(&s, 1, 200, &head));
	CHECK(s.bigs >= 40 && s.bigs <= WIRE_BIGS);
	CHECK_EQ(shared_ring_size(&s, 1), WIRE_PART_RING);
	for (uint64_t i = 0; i < 60; i++)
		s.big[39].ring[250 + i].a = 2000 + i;
	shared_events(&s, 1, 200, e, 100);
	CHECK_EQ(e[0].a, 1200);
	CHECK_EQ(e[49].a, 1249);
	CHECK_EQ(e[50].a, 2000);
	CHECK_EQ(e[99].a, 2049);
	CHECK_EQ(event(&s, 251), 2001);
	s.big[39].ring[0].a = 3000;
	s.big[WIRE_WHOLE_RINGS - 1].ring[WIRE_PART_RING].a = 3001;
	CHECK_EQ(event(&s, WIRE_PART_RING), 3000);
	t->big = WIRE_WHOLE_RINGS;
	CHECK_EQ(shared_ring_size(&s, 1), WIRE_RING);
	CHECK_EQ(event(&s, WIRE_PART_RING), 3001);
	t->big = 40;

	/* lies: what is read is somewhere in the rings, or nothing */
	t->moved = 1ull << 63;
	CHECK_EQ(event(&s, 251), 2001);
	t->moved = UINT64_MAX;
	CHECK_EQ(event(&s, 251), 2001);
	t->moved = 251 + WIRE_SMALL;
	shared_events(&s, 1, 251, e, WIRE_SMALL + 10);
	CHECK_EQ(e[0].a, 1251);
	CHECK_EQ(e[WIRE_SMALL - 1].a, 1250);
	t->moved = 0;
	t->big = WIRE_BIGS; /* not looked at before */
	CHECK_EQ(event(&s, 251), 0);
	t->big = WIRE_BIGS + 1;
	CHECK_EQ(event(&s, 251), 1251);
	t->big = UINT32_MAX;
	CHECK(shared_ring_head(&s, 1, 0, &head));
	CHECK_EQ(event(&s, 251), 1251);
	CHECK_EQ(shared_ring_size(&s, 1), WIRE_SMALL);

	/* its end: what is its own is free, and nothing else */
	s.wire->bigs = UINT32_MAX;
	t->big = 7;
	t->fs = 0x1000;
	s.wire->big_owner[6] = s.wire->big_owner[9] = 2;
	s.wire->big_owner[7] = 1;
	shared_slot_free(&s, 1);
	CHECK_EQ(t->fs, 1);
	CHECK_EQ(t->big, 0);
	CHECK_EQ(s.wire->big_owner[6] | s.wire->big_owner[9], 0);
	CHECK_EQ(s.wire->big_owner[7], 1);
	shared_unmap(&s);
	close(fd);
}

int main(void)
{
	RUN(test_files);
	RUN(test_nodes);
	RUN(test_slots);
	RUN(test_rings);
	return test_status();
}
