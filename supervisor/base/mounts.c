// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/mounts.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/patient.h"
#include "base/proc.h"

/*
 * mounts.c - which files may keep their reader waiting for somebody.
 *
 * The number of a file's mount and that of its device are had without its file system. A file that
 * lies on a block device, or on the mount of our own root directory, is taken as local: neither can
 * be set up without privileges. For others the kernel's list of mounts is read, which costs some
 * ten microseconds. FD keeps the mount, and with it the number, from being given to another one.
 *
 * An overlay hands each read on to the file systems that it is made of. One that was mounted in
 * another user namespace may be made of its user's FUSE.
 */

static const char *const remote[] = { "nfs",  "nfs4", "cifs",	"smb3",	   "9p",
				      "ceph", "afs",  "lustre", "virtiofs" };

/* TYPE: as in the list, with what follows it. */
static enum mount_kind kind_of_type(pid_t pid, const char *type)
{
	size_t len = strcspn(type, " \n");

	if (!strncmp(type, "fuse", 4))
		return MOUNT_SERVED;
	if (!strncmp(type, "overlay ", 8))
		return !pid || patient_same_namespace(pid, "ns/user") ? MOUNT_LOCAL : MOUNT_SERVED;
	for (size_t i = 0; i < sizeof(remote) / sizeof(*remote); i++)
		if (strlen(remote[i]) == len && !memcmp(type, remote[i], len))
			return MOUNT_REMOTE;
	return MOUNT_LOCAL;
}

/* The worst kind among PID's mounts, or that of the mount with the number ID. */
static enum mount_kind look(pid_t pid, uint64_t id, bool all)
{
	enum mount_kind kind = all ? MOUNT_LOCAL : MOUNT_UNKNOWN, one;
	char *text;

	if (proc_read(pid ? pid : getpid(), "mountinfo", &text) < 0)
		return MOUNT_UNKNOWN;
	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		const char *type;

		line += *line == '\n';
		type = all || strtoull(line, NULL, 10) == id ? strstr(line, " - ") : NULL;
		if (!type)
			continue;
		one = kind_of_type(pid, type + 3);
		kind = !all || one > kind ? one : kind;
		if (!all)
			break;
	}
	free(text);
	return kind;
}

static bool get(int dir, const char *path, struct statx *st)
{
	return !statx(dir, path, AT_EMPTY_PATH | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC, STATX_MNT_ID,
		      st) &&
	       st->stx_mask & STATX_MNT_ID;
}

enum mount_kind mount_kind(pid_t pid, int fd)
{
	enum mount_kind kind;
	struct statx st, root;

	if (!get(fd, "", &st)) /* before Linux 5.8 */
		return mounts_are_local(pid) ? MOUNT_LOCAL : MOUNT_UNKNOWN;
	if (st.stx_dev_major || (get(AT_FDCWD, "/", &root) && root.stx_mnt_id == st.stx_mnt_id))
		return MOUNT_LOCAL;
	kind = look(pid, st.stx_mnt_id, false);
	/* what is mounted above its root directory is not in its list */
	return kind == MOUNT_UNKNOWN && pid ? look(0, st.stx_mnt_id, false) : kind;
}

bool mounts_are_local(pid_t pid) { return look(pid, 0, true) == MOUNT_LOCAL; }
