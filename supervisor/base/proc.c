// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/array.h"
#include "base/search.h"

/*
 * proc.c - /proc and the memory of another process.
 *
 * One descriptor of procfs' root is opened at the first use and kept. It is /proc, if that is a
 * procfs of our own pid namespace; else a detached mount of our own, which exists nowhere in the
 * file system and goes when we do. Memory is read by process_vm_readv, which needs no descriptor,
 * and written through /proc/PID/mem, which alone writes to pages that the process itself may not
 * write.
 */

/* ---- procfs -------------------------------------------------------------- */

static int proc_root = -1;

/* A procfs of another pid namespace would show us other processes under our numbers. */
static bool is_our_procfs(int fd)
{
	struct statfs fs;
	char self[32], want[32];
	ssize_t n;

	if (fstatfs(fd, &fs) < 0 || fs.f_type != PROC_SUPER_MAGIC)
		return false;
	n = readlinkat(fd, "self", self, sizeof(self) - 1);
	if (n < 0)
		return false;
	self[n] = 0;
	snprintf(want, sizeof(want), "%d", getpid());
	return strcmp(self, want) == 0;
}

static int mount_procfs(void)
{
	int fs, mnt = -1, err;

	fs = fsopen("proc", FSOPEN_CLOEXEC);
	if (fs < 0)
		return -errno;
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
		mnt = fsmount(fs, FSMOUNT_CLOEXEC,
			      MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	err = errno;
	close(fs);
	return mnt >= 0 ? mnt : -err;
}

static int proc_dir(void)
{
	int fd;

	if (proc_root >= 0)
		return proc_root;
	fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 && is_our_procfs(fd))
		return proc_root = fd;
	if (fd >= 0)
		close(fd);
	fd = mount_procfs();
	if (fd >= 0)
		proc_root = fd;
	return fd;
}

int proc_descriptor(void) { return proc_dir(); }

int proc_open(pid_t pid, const char *name, int flags)
{
	char path[128];
	int dir, fd;

	dir = proc_dir();
	if (dir < 0)
		return dir;
	if (snprintf(path, sizeof(path), "%d/%s", pid, name) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = openat(dir, path, flags | O_CLOEXEC);
	return fd >= 0 ? fd : -errno;
}

char proc_state(pid_t tid)
{
	char *status, letter;

	if (proc_read(tid, "status", &status) < 0)
		return 0;
	letter = *status_find(status, "State");
	free(status);
	return letter;
}

ssize_t proc_readlink(pid_t pid, const char *name, char *buf, size_t size)
{
	char path[128];
	int dir = proc_dir();
	ssize_t n;

	if (dir < 0)
		return dir;
	snprintf(path, sizeof(path), "%d/%s", pid, name);
	n = readlinkat(dir, path, buf, size - 1);
	if (n < 0)
		return -errno;
	buf[n] = '\0';
	return n;
}

static ssize_t read_all(int fd, char **text)
{
	size_t size = 16384, len = 0;
	char *buf = malloc(size), *bigger;
	ssize_t n;
	int err;

	if (!buf)
		return -ENOMEM;
	for (;;) {
		n = read(fd, buf + len, size - len - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		len += (size_t)n;
		/* procfs gives at most a page at a time: a smaller rest would cost calls */
		if (size - len > 4096)
			continue;
		bigger = realloc(buf, size * 2);
		if (!bigger) {
			errno = ENOMEM;
			n = -1;
			break;
		}
		buf = bigger;
		size *= 2;
	}
	if (n < 0) {
		err = errno;
		free(buf);
		return -err;
	}
	buf[len] = 0;
	*text = buf;
	return (ssize_t)len;
}

ssize_t proc_read(pid_t pid, const char *name, char **text)
{
	ssize_t n;
	int fd = proc_open(pid, name, O_RDONLY);

	if (fd < 0)
		return fd;
	n = read_all(fd, text);
	close(fd);
	return n;
}

void proc_name(pid_t pid, pid_t tid, char name[PROC_NAME])
{
	char file[48], *text;
	ssize_t n;

	*name = '\0';
	snprintf(file, sizeof(file), "task/%d/comm", (int)tid);
	n = proc_read(pid, file, &text);
	if (n < 0)
		return;
	if (n > 0 && text[n - 1] == '\n')
		text[n - 1] = '\0';
	snprintf(name, PROC_NAME, "%s", text);
	free(text);
}

const char *status_find(const char *status, const char *field)
{
	size_t len = strlen(field);

	for (const char *line = status; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, field, len) && line[len] == ':')
			return line + len + 1 + strspn(line + len + 1, " \t");
	}
	return "";
}

int64_t status_number(const char *status, const char *field)
{
	return strtoll(status_find(status, field), NULL, 10);
}

uint64_t status_mask(const char *status, const char *field)
{
	return strtoull(status_find(status, field), NULL, 16);
}

bool status_ids(const char *status, const char *field, unsigned id[4])
{
	return sscanf(status_find(status, field), "%u %u %u %u", &id[0], &id[1], &id[2], &id[3]) ==
	       4;
}

int64_t proc_status_field(pid_t pid, const char *field)
{
	char *status;
	ssize_t n = proc_read(pid, "status", &status);
	int64_t value;

	if (n < 0)
		return n;
	value = *status_find(status, field) ? status_number(status, field) : -ENOENT;
	free(status);
	return value;
}

pid_t proc_own_tid(pid_t tid)
{
	char *status, *end;
	pid_t own = 0;

	if (proc_read(tid, "status", &status) < 0)
		return 0;
	/* in all the namespaces that it is in, the innermost last */
	for (const char *at = status_find(status, "NSpid"); *at && *at != '\n';
	     at = end + strspn(end, " \t")) {
		own = (pid_t)strtol(at, &end, 10);
		if (end == at)
			break;
	}
	free(status);
	return own;
}

/* ---- memory -------------------------------------------------------------- */

/*
 * At once: the lock on the process' mappings, for which its threads may queue, is taken once for
 * each element.
 */
static size_t read_whole(pid_t pid, raddr_t addr, void *buf, size_t len)
{
	struct iovec remote = { (void *)addr, len }, local = { buf, len };
	ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);

	return n < 0 ? 0 : (size_t)n;
}

/*
 * process_vm_readv ends short where an *element* of the remote vector is unreadable: give it page
 * by page, in batches.
 */
static ssize_t read_pages(pid_t pid, raddr_t addr, char *buf, size_t len)
{
	struct iovec remote[64], local = { .iov_base = buf };
	size_t n = 0;

	while (len && n < 64) {
		size_t part = PAGE - (addr & (PAGE - 1));

		if (part > len)
			part = len;
		remote[n].iov_base = (void *)addr;
		remote[n++].iov_len = part;
		local.iov_len += part;
		addr += part;
		len -= part;
	}
	return process_vm_readv(pid, &local, 1, remote, n, 0);
}

ssize_t remote_read(pid_t pid, raddr_t addr, void *buf, size_t len)
{
	size_t done = read_whole(pid, addr, buf, len);
	ssize_t n;

	while (done < len) {
		n = read_pages(pid, addr + done, (char *)buf + done, len - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && done == 0)
			return -errno;
		if (n <= 0)
			break;
		done += (size_t)n;
		if (done < len && ((addr + done) & (PAGE - 1)))
			break;
	}
	return (ssize_t)done;
}

/* Page by page: there is one that cannot be read. */
static void read_holey(pid_t pid, raddr_t addr, char *buf, size_t len)
{
	while (len) {
		size_t part = PAGE - (addr & (PAGE - 1));

		if (part > len)
			part = len;
		if (remote_read(pid, addr, buf, part) != (ssize_t)part)
			memset(buf, 0, part);
		addr += part;
		buf += part;
		len -= part;
	}
}

void remote_read_spans(pid_t pid, const struct remote_span *span, size_t n, void *buf)
{
	struct iovec remote[256], local = { .iov_base = buf };
	size_t i, done;
	ssize_t got;

	while (n) {
		local.iov_len = 0;
		for (i = 0; i < n && i < 256; i++) {
			remote[i] = (struct iovec){ (void *)span[i].address, span[i].len };
			local.iov_len += span[i].len;
		}
		got = process_vm_readv(pid, &local, 1, remote, i, 0);
		done = got > 0 ? (size_t)got : 0;
		for (; i && done >= span->len; i--, n--, span++) {
			done -= span->len;
			local.iov_base = (char *)local.iov_base + span->len;
		}
		if (!i)
			continue;
		read_holey(pid, span->address, local.iov_base, span->len);
		local.iov_base = (char *)local.iov_base + span->len;
		span++;
		n--;
	}
}

/*
 * The descriptor is not kept: it belongs to the address space it was opened on, and after a vfork
 * child's exec that is its parent's.
 */
int remote_write(pid_t pid, raddr_t addr, const void *buf, size_t len)
{
	size_t done = 0;
	int err = 0, fd = proc_open(pid, "mem", O_WRONLY);
	ssize_t n;

	if (fd < 0)
		return fd;
	while (!err && done < len) {
		n = pwrite(fd, (const char *)buf + done, len - done, (off_t)(addr + done));
		if (n > 0)
			done += (size_t)n;
		else if (n == 0)
			err = -ESRCH; /* the address space is gone */
		else if (errno != EINTR)
			err = -errno;
	}
	close(fd);
	return err;
}

int proc_threads(pid_t pid, pid_t **tid)
{
	int fd = proc_open(pid, "task", O_RDONLY | O_DIRECTORY), n = 0;
	const struct dirent *entry;
	size_t room = 0;
	DIR *dir;

	if (fd < 0)
		return fd;
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return -ENOMEM;
	}
	*tid = NULL;
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
			continue;
		if (array_room(tid, (size_t)n, &room, sizeof(**tid))) {
			free(*tid);
			closedir(dir);
			return -ENOMEM;
		}
		(*tid)[n++] = (pid_t)atoi(entry->d_name);
	}
	closedir(dir);
	return n;
}

int proc_children(pid_t pid, pid_t tid, pid_t **child)
{
	char name[48], *text, *end;
	size_t room = 0;
	ssize_t len;
	int n = 0;
	long next;

	snprintf(name, sizeof(name), "task/%d/children", (int)tid);
	len = proc_read(pid, name, &text);
	if (len < 0)
		return (int)len;
	*child = NULL;
	for (const char *at = text; n >= 0 && (next = strtol(at, &end, 10)) > 0; at = end)
		if (array_room(child, (size_t)n, &room, sizeof(**child)))
			n = -ENOMEM;
		else
			(*child)[n++] = (pid_t)next;
	if (n < 0)
		free(*child);
	free(text);
	return n;
}
