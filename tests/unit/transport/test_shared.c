// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_shared - memory files are what they are, not what they are called; stacks of a child; what a
 * target says of its slots.
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

int main(void)
{
	RUN(test_files);
	RUN(test_nodes);
	RUN(test_slots);
	return test_status();
}
