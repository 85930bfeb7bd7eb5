// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * fuse - fuse DIR SOURCE SECONDS: serves the regular files in SOURCE at DIR, by the protocol of
 * /dev/fuse. What the kernel is told of them it may believe for SECONDS. Prints `ready`, and for
 * each line of its standard input `done`: `hold OPERATION` (lookup, getattr, open, read, statfs,
 * flush, all): that is never answered from now on; `direct`: what is opened from now on is not to be cached;
 * `asked`: `asked N`, how many were held. Ends with its standard input.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES 64

static char *name[FILES]; /* node number 2 and on */
static size_t files;
static int dev, source;
static unsigned seconds, held;
static char hold[32];
static uint32_t how = FOPEN_KEEP_CACHE;

static void wrong(const char *what)
{
	perror(what);
	exit(1);
}

static void answer(uint64_t unique, int err, const void *data, size_t len)
{
	static char out[sizeof(struct fuse_out_header) + (1 << 17)];
	struct fuse_out_header h = { .len = (uint32_t)(sizeof(h) + len),
				     .error = -err,
				     .unique = unique };

	memcpy(out, &h, sizeof(h));
	if (len)
		memcpy(out + sizeof(h), data, len);
	if (write(dev, out, sizeof(h) + len) < 0 && errno != ENOENT)
		wrong("write");
}

static struct fuse_attr attributes(uint64_t node)
{
	struct stat st = { .st_mode = S_IFDIR | 0755, .st_nlink = 1 };

	if (node > 1 && fstatat(source, name[node - 2], &st, 0))
		wrong(name[node - 2]);
	return (struct fuse_attr){
		.ino = node,
		.size = (uint64_t)st.st_size,
		.blocks = (uint64_t)st.st_blocks,
		.mtime = (uint64_t)st.st_mtim.tv_sec,
		.mode = st.st_mode,
		.nlink = 1,
		.blksize = 4096,
	};
}

static uint64_t node_of(const char *wanted)
{
	struct stat st;

	for (size_t i = 0; i < files; i++)
		if (!strcmp(name[i], wanted))
			return i + 2;
	if (files == FILES || fstatat(source, wanted, &st, 0) || !S_ISREG(st.st_mode))
		return 0;
	name[files++] = strdup(wanted);
	return files + 1;
}

static void read_file(const struct fuse_in_header *in, const struct fuse_read_in *r)
{
	static char bytes[1 << 17];
	int fd = openat(source, name[in->nodeid - 2], O_RDONLY);
	ssize_t n = pread(fd, bytes, r->size < sizeof(bytes) ? r->size : sizeof(bytes),
			  (off_t)r->offset);

	close(fd);
	answer(in->unique, n < 0 ? EIO : 0, bytes, n < 0 ? 0 : (size_t)n);
}

static int is_held(uint32_t opcode)
{
	static const struct {
		const char *name;
		uint32_t opcode;
	} known[] = { { "lookup", FUSE_LOOKUP },
		      { "getattr", FUSE_GETATTR },
		      { "open", FUSE_OPEN },
		      { "read", FUSE_READ },
		      { "statfs", FUSE_STATFS },
		      { "flush", FUSE_FLUSH } };

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (known[i].opcode == opcode &&
		    (!strcmp(hold, known[i].name) || !strcmp(hold, "all")))
			return 1;
	return 0;
}

static void serve(const struct fuse_in_header *in, const void *data)
{
	struct fuse_init_out init = {
		.major = 7, .minor = 31, .max_write = 1 << 16, .max_readahead = 4096
	};
	struct fuse_open_out open = { .open_flags = how };
	struct fuse_entry_out entry = { .entry_valid = seconds, .attr_valid = seconds };
	struct fuse_attr_out attr = { .attr_valid = seconds };
	struct fuse_statfs_out statfs = { .st = { .bsize = 4096, .namelen = 255 } };

	if (is_held(in->opcode)) {
		held++;
		return;
	}
	switch (in->opcode) {
	case FUSE_INIT: answer(in->unique, 0, &init, sizeof(init)); break;
	case FUSE_LOOKUP:
		entry.nodeid = in->nodeid == 1 ? node_of(data) : 0;
		if (entry.nodeid)
			entry.attr = attributes(entry.nodeid);
		answer(in->unique, entry.nodeid ? 0 : ENOENT, &entry,
		       entry.nodeid ? sizeof(entry) : 0);
		break;
	case FUSE_GETATTR:
		attr.attr = attributes(in->nodeid);
		answer(in->unique, 0, &attr, sizeof(attr));
		break;
	case FUSE_OPEN:
	case FUSE_OPENDIR: answer(in->unique, 0, &open, sizeof(open)); break;
	case FUSE_READ: read_file(in, data); break;
	case FUSE_STATFS: answer(in->unique, 0, &statfs, sizeof(statfs)); break;
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR:
	case FUSE_FLUSH: answer(in->unique, 0, NULL, 0); break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT: break;
	default: answer(in->unique, ENOSYS, NULL, 0);
	}
}

static void command(void)
{
	char line[80];

	if (!fgets(line, sizeof(line), stdin))
		exit(0);
	if (!strcmp(line, "asked\n"))
		printf("asked %u\n", held);
	else
		printf("done\n");
	if (!strcmp(line, "direct\n"))
		how |= FOPEN_DIRECT_IO;
	sscanf(line, "hold %31s", hold);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static char in[1 << 18];
	char options[100];
	struct pollfd p[2] = { { .fd = 0, .events = POLLIN }, { .events = POLLIN } };

	if (argc < 4)
		return 2;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setvbuf(stdin, NULL, _IONBF, 0);
	source = open(argv[2], O_PATH | O_DIRECTORY);
	seconds = (unsigned)atoi(argv[3]);
	dev = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=%d,group_id=%d", dev,
		 getuid(), getgid());
	if (source < 0 || dev < 0 || mount("fuse", argv[1], "fuse", MS_NOSUID | MS_NODEV, options))
		wrong("mount");
	p[1].fd = dev;
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		ssize_t n;

		if (poll(p, 2, -1) < 0)
			wrong("poll");
		if (p[0].revents)
			command();
		if (!p[1].revents)
			continue;
		n = read(dev, in, sizeof(in));
		if (n < 0 && errno != EINTR && errno != ENOENT)
			wrong("read");
		if (n > 0)
			serve((void *)in, in + sizeof(struct fuse_in_header));
	}
}
