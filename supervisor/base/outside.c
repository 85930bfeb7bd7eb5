// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/outside.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/mounts.h"
#include "base/opener.h"
#include "base/patient.h"
#include "base/proc.h"

/*
 * outside.c - opening files that somebody else has named.
 *
 * mtrun may be root while the process is not, and the process has written what is read here: a line
 * table may name /etc/shadow, a debuglink a FIFO, a dwo name a device whose opening alone does
 * something. Therefore, in this order:
 *
 *  - The root directory is the process' (/proc/PID/root), and no link leads out of it. The maps
 *    name files as they are in there, too.
 *  - The look-up and the opening are done by a thread that lives for this one call and has the
 *    process' fsuid, fsgid and groups, and of the capabilities that override permissions only what
 *    the process itself has. Credentials are the thread's: nothing has to be restored, and nothing
 *    else runs with them. Where our rights are the same, which is the usual case, there is no such
 *    thread.
 *  - The file is first opened with O_PATH, which touches nothing. When it is found to be a regular
 *    file of an ordinary file system, and not too large, it is opened by that descriptor, so that
 *    what was checked is what is opened. O_NONBLOCK: a lease does not hold us up.
 *  - A file system may be served by a process (FUSE) or by a machine that does not answer. So at
 *    first only what the kernel has at hand is looked up (RESOLVE_CACHED), and the file's own file
 *    system is not asked what it is (mounts.c). That goes well nearly always. Where somebody else
 *    would have to be asked, a child does all of this, which can be given up: see opener.h.
 *
 * A process that is gone leaves its last rights. If its root directory was not ours, its names mean
 * nothing any more.
 */

#define FILE_FLAGS (O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
/* those that make permissions of files no matter */
#define OVERRIDE    (1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH)
#define HOLLOW_FROM ((off_t)256 << 20)
#define GROUPS_MOST 65536u
/* Somebody else would have to be asked. */
#define WOULD_WAIT (-EINPROGRESS)

struct rights {
	uid_t uid;
	gid_t gid;
	gid_t *group;
	size_t groups;
	uint32_t override; /* of OVERRIDE */
};

struct outside {
	pthread_mutex_t lock;
	pid_t pid; /* 0: none, or gone */
	/* when it was started, in the kernel's ticks: another one of its number began later */
	uint64_t began;
	struct rights rights;
	bool known;	/* its rights are */
	bool ours;	/* named by ourselves */
	bool elsewhere; /* its root directory is not ours */
};

/* ---- rights -------------------------------------------------------------- */

static void rights_release(struct rights *r)
{
	free(r->group);
	*r = (struct rights){ 0 };
}

static int own_capabilities(struct __user_cap_data_struct data[2])
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };

	return syscall(SYS_capget, &header, data) ? -errno : 0;
}

static uint32_t own_override(void)
{
	struct __user_cap_data_struct data[2] = { 0 };

	return own_capabilities(data) ? OVERRIDE : data[0].effective & OVERRIDE;
}

static int read_groups(struct rights *r, const char *at)
{
	size_t room = 0;

	while (*at && *at != '\n') {
		char *end;
		unsigned long group = strtoul(at, &end, 10);

		if (end == at || r->groups == GROUPS_MOST)
			break;
		if (r->groups == room) {
			gid_t *bigger =
				realloc(r->group, (room = room ? room * 2 : 16) * sizeof(*bigger));

			if (!bigger)
				return -ENOMEM;
			r->group = bigger;
		}
		r->group[r->groups++] = (gid_t)group;
		at = end + strspn(end, " ");
	}
	return 0;
}

static int rights_parse(struct rights *r, pid_t pid, const char *status)
{
	unsigned uid[4], gid[4];

	if (!status_ids(status, "Uid", uid) || !status_ids(status, "Gid", gid))
		return -EINVAL;
	r->uid = uid[3];
	r->gid = gid[3];
	/* capabilities of another user namespace say nothing about files of ours */
	if (patient_same_namespace(pid, "ns/user"))
		r->override = (uint32_t)status_mask(status, "CapEff") & OVERRIDE;
	return read_groups(r, status_find(status, "Groups"));
}

static int rights_read(struct rights *r, pid_t pid)
{
	char *status;
	ssize_t n = proc_read(pid, "status", &status);
	int err;

	*r = (struct rights){ 0 };
	if (n < 0)
		return (int)n;
	err = rights_parse(r, pid, status);
	free(status);
	if (err)
		rights_release(r);
	return err;
}

static bool has_group(const gid_t *group, size_t n, gid_t wanted)
{
	for (size_t i = 0; i < n; i++)
		if (group[i] == wanted)
			return true;
	return false;
}

/*
 * Whether we may no more than R allows: then nothing need be changed. A user's own groups are not
 * taken from him.
 */
static bool rights_are_ours(const struct rights *r)
{
	uint32_t override = own_override();
	bool ours = geteuid() == r->uid && !(override & ~r->override);
	gid_t *group;
	int n;

	if (!ours || r->uid || override)
		return ours;
	/* root without power over files: its groups decide */
	n = getgroups(0, NULL);
	group = calloc((size_t)(n > 0 ? n : 0) + 1, sizeof(*group));
	n = group ? getgroups(n, group) : -1;
	ours = n >= 0 && getegid() == r->gid;
	for (int i = 0; ours && i < n; i++)
		ours = group[i] == r->gid || has_group(r->group, r->groups, group[i]);
	free(group);
	return ours;
}

/* By system calls: the libc's functions would change all threads. */
static int rights_take(const struct rights *r)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];
	int err;

	if (syscall(SYS_setgroups, r->groups, r->group))
		return -errno;
	syscall(SYS_setfsgid, r->gid);
	syscall(SYS_setfsuid, r->uid);
	if (syscall(SYS_setfsgid, -1) != (long)r->gid || syscall(SYS_setfsuid, -1) != (long)r->uid)
		return -EPERM;
	err = own_capabilities(data);
	if (err)
		return err;
	data[0].effective = (data[0].effective & ~OVERRIDE) | (data[0].permitted & r->override);
	return syscall(SYS_capset, &header, data) ? -errno : 0;
}

/* ---- one file ------------------------------------------------------------ */

/* Files there are regular, and reading them is not: it may wait, it may do something. */
static bool is_special(int fd)
{
	static const uint32_t special[] = { PROC_SUPER_MAGIC,	 SYSFS_MAGIC,
					    DEBUGFS_MAGIC,	 TRACEFS_MAGIC,
					    SECURITYFS_MAGIC,	 CGROUP_SUPER_MAGIC,
					    CGROUP2_SUPER_MAGIC, SELINUX_MAGIC,
					    SMACK_MAGIC,	 PSTOREFS_MAGIC,
					    EFIVARFS_MAGIC,	 BPF_FS_MAGIC,
					    BINFMTFS_MAGIC,	 0x62656570 /* configfs */,
					    NSFS_MAGIC,		 BINDERFS_SUPER_MAGIC };
	struct statfs fs;

	if (fstatfs(fd, &fs))
		return true;
	for (size_t i = 0; i < sizeof(special) / sizeof(special[0]); i++)
		if ((uint32_t)fs.f_type == special[i])
			return true;
	return false;
}

/*
 * A large file that hardly has anything in it costs whoever made it nothing. (File systems that
 * pack may store a little less than there is.)
 */
static bool is_hollow(const struct stat *st)
{
	return st->st_size > HOLLOW_FROM && st->st_blocks > 0 &&
	       st->st_blocks * 512 < st->st_size / 64;
}

static int check(int fd, uint64_t most)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if ((uint64_t)st.st_size > most || is_hollow(&st))
		return -EFBIG;
	return is_special(fd) ? -EMEDIUMTYPE : 0;
}

/* Without openat2(2) no link is followed: it could lead out of ROOT. */
static int find_plainly(int root, const char *path)
{
	int dir = fcntl(root, F_DUPFD_CLOEXEC, 3), next, err;
	char name[NAME_MAX + 1];

	while (dir >= 0) {
		size_t len = strcspn(path += strspn(path, "/"), "/");

		if (!len)
			return dir;
		if (len > NAME_MAX || (len == 2 && !memcmp(path, "..", 2))) {
			close(dir);
			return -ELOOP;
		}
		memcpy(name, path, len);
		name[len] = '\0';
		path += len;
		next = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		err = errno;
		close(dir);
		dir = next;
		errno = err;
	}
	return -errno;
}

static int find(int root, const char *path, uint64_t more)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC,
				.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | more };
	int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));

	/* an old kernel, or a container's filter */
	if (fd < 0 && (errno == ENOSYS || errno == EPERM) && !more)
		return find_plainly(root, path);
	return fd >= 0 ? fd : -errno;
}

/* Takes over FD. */
static int open_found(int fd, uint64_t most)
{
	int opened = check(fd, most);
	char name[32];

	snprintf(name, sizeof(name), "fd/%d", fd);
	if (!opened)
		opened = proc_open(getpid(), name, FILE_FLAGS);
	close(fd);
	return opened;
}

/* What is asked of the thread or the child that opens. */
struct job {
	const struct rights *rights; /* NULL: ours */
	pid_t pid;		     /* who names the file; 0: we */
	int root;
	const char *path; /* NULL: ROOT is the file, opened with O_PATH */
	uint64_t most;
	int result;
};

/* Without anybody's being asked, or WOULD_WAIT. */
static int find_at_once(const struct job *job)
{
	int fd = find(job->root, job->path, RESOLVE_CACHED);

	if (fd == -EAGAIN)
		return WOULD_WAIT;
	/* before Linux 5.12, or a filter: the look-up cannot be told to ask nobody */
	if (fd == -EINVAL || fd == -ENOSYS || fd == -EPERM)
		return mounts_are_local(job->pid) ? find(job->root, job->path, 0) : WOULD_WAIT;
	return fd;
}

static int open_at_once(const struct job *job)
{
	int fd = job->path ? find_at_once(job) : fcntl(job->root, F_DUPFD_CLOEXEC, 3);

	if (fd < 0)
		return job->path ? fd : -errno;
	if (mount_kind(job->pid, fd) == MOUNT_LOCAL)
		return open_found(fd, job->most);
	close(fd);
	return WOULD_WAIT;
}

static bool has_magic(int fd, uint32_t magic)
{
	struct statfs fs;

	return !fstatfs(fd, &fs) && (uint32_t)fs.f_type == magic;
}

/* In a child of its own. */
static int open_patiently(void *arg, bool *copy)
{
	const struct job *job = arg;
	int err = job->rights ? rights_take(job->rights) : 0, fd;
	enum mount_kind kind;

	if (err)
		return err == -EPERM ? -EACCES : err;
	fd = job->path ? find(job->root, job->path, 0) : job->root;
	if (fd < 0)
		return fd;
	kind = mount_kind(job->pid, fd);
	fd = open_found(fd, job->most);
	*copy = fd >= 0 && (kind == MOUNT_SERVED ||
			    (kind == MOUNT_UNKNOWN && (has_magic(fd, FUSE_SUPER_MAGIC) ||
						       has_magic(fd, OVERLAYFS_SUPER_MAGIC))));
	return fd;
}

static void *with_rights(void *arg)
{
	struct job *job = arg;

	job->result = rights_take(job->rights);
	if (!job->result)
		job->result = open_at_once(job);
	else if (job->result == -EPERM)
		job->result = -EACCES;
	return NULL;
}

/*
 * Another fsuid makes the whole process one that only root may look into, as if it had been
 * set-user-ID: that is taken back.
 */
static int open_by_thread(struct job *job)
{
	int dumpable = prctl(PR_GET_DUMPABLE), err;
	sigset_t all, was;
	pthread_t thread;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	err = pthread_create(&thread, NULL, with_rights, job);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	if (err)
		return -err;
	pthread_join(thread, NULL);
	if (dumpable == 1)
		prctl(PR_SET_DUMPABLE, 1);
	return job->result;
}

/* R == NULL: with our rights. PID: who has named the file; 0: we. */
static int open_as(const struct rights *r, pid_t pid, int root, const char *path, uint64_t most)
{
	struct job job = { .rights = r && !rights_are_ours(r) ? r : NULL,
			   .pid = pid,
			   .root = root,
			   .path = path,
			   .most = most };
	int fd = job.rights ? open_by_thread(&job) : open_at_once(&job);

	return fd == WOULD_WAIT ? opener_open(pid, path, open_patiently, &job, root) : fd;
}

int outside_reopen(pid_t pid, int fd, uint64_t most)
{
	struct job job = { .pid = pid, .root = fd, .most = most };
	char name[PATH_MAX], link[32];
	int opened;

	if (fd < 0)
		return fd;
	opened = open_at_once(&job);
	if (opened == WOULD_WAIT) {
		snprintf(link, sizeof(link), "fd/%d", fd);
		opened = proc_readlink(getpid(), link, name, sizeof(name)) < 0
				 ? -EACCES
				 : opener_open(pid, name, open_patiently, &job, fd);
	}
	close(fd);
	return opened;
}

/* ---- whose names they are ------------------------------------------------ */

static uint64_t start_time(pid_t pid)
{
	unsigned long long ticks = 0;
	char text[1024], *end;

	if (patient_file(pid, "stat", text, sizeof(text)) < 0)
		return 0;
	end = strrchr(text, ')'); /* a name may hold anything */
	if (!end ||
	    sscanf(end + 1,
		   " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
		   &ticks) != 1)
		ticks = 0;
	return ticks;
}

static bool is_our_root(int fd)
{
	struct statx theirs, own;

	/* without asking whom the file system is served by */
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO | STATX_MNT_ID, &theirs) ||
	    statx(AT_FDCWD, "/", AT_STATX_DONT_SYNC, STATX_INO | STATX_MNT_ID, &own))
		return false;
	return theirs.stx_ino == own.stx_ino && theirs.stx_dev_major == own.stx_dev_major &&
	       theirs.stx_dev_minor == own.stx_dev_minor && theirs.stx_mnt_id == own.stx_mnt_id;
}

/* Its first thread may have ended before the others: then another one's. */
static int open_root(pid_t pid)
{
	int fd = proc_open(pid, "root", O_PATH | O_DIRECTORY), n;
	pid_t *tid;
	char name[48];

	if (fd != -ENOENT || (n = proc_threads(pid, &tid)) < 0)
		return fd;
	for (int i = 0; i < n && fd < 0; i++) {
		snprintf(name, sizeof(name), "task/%d/root", (int)tid[i]);
		fd = proc_open(pid, name, O_PATH | O_DIRECTORY);
	}
	free(tid);
	return fd;
}

/* What /proc says of a process: one question, for a thread that can be given up (patient.h). */
struct standing {
	int root; /* its root directory, or -errno: it is gone */
	uint64_t began;
	struct rights rights;
};

static void stand(pid_t pid, void *arg)
{
	struct standing *s = arg;

	s->root = open_root(pid);
	s->began = start_time(pid);
	if (s->root >= 0 && rights_read(&s->rights, pid)) {
		close(s->root);
		s->root = -ESRCH;
	}
}

static void drop_standing(void *arg)
{
	struct standing *s = arg;

	if (s->root >= 0)
		close(s->root);
	rights_release(&s->rights);
	free(s);
}

/* As things are now. FIRST: O is new. Its root directory, or -errno: it is gone. */
static int refresh(struct outside *o, bool first)
{
	static const struct patient_work work = { stand, drop_standing };
	struct standing *s = o->pid ? calloc(1, sizeof(*s)) : NULL;
	int root;

	if (!s)
		return o->pid ? -ENOMEM : -ESRCH;
	s->root = -ESRCH;
	root = patient_do(o->pid, &work, s);
	if (root) /* S is dropped */
		return root;
	root = s->root;
	if (first)
		o->began = s->began;
	if (root >= 0 && s->began == o->began) {
		rights_release(&o->rights);
		o->rights = s->rights;
		o->known = true;
		o->elsewhere = !is_our_root(root);
		free(s);
		return root;
	}
	drop_standing(s);
	return root < 0 ? root : -ESRCH;
}

struct outside *outside_of_process(pid_t pid)
{
	struct outside *o = calloc(1, sizeof(*o));
	int root;

	if (!o)
		return NULL;
	pthread_mutex_init(&o->lock, NULL);
	o->pid = pid;
	root = refresh(o, true);
	if (root >= 0)
		close(root);
	return o;
}

struct outside *outside_of_owner(uid_t uid)
{
	struct outside *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	pthread_mutex_init(&o->lock, NULL);
	o->ours = uid == OUTSIDE_OURS || uid == geteuid();
	o->known = true;
	o->rights.uid = uid;
	o->rights.gid = OUTSIDE_NOBODY; /* which groups he is in is not known */
	return o;
}

void outside_free(struct outside *o)
{
	if (!o)
		return;
	rights_release(&o->rights);
	pthread_mutex_destroy(&o->lock);
	free(o);
}

void outside_ended(struct outside *o)
{
	pthread_mutex_lock(&o->lock);
	o->pid = 0;
	pthread_mutex_unlock(&o->lock);
}

static int open_ours(const struct rights *r, const char *path, uint64_t most)
{
	int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), fd;

	if (root < 0)
		return -errno;
	fd = open_as(r, 0, root, path, most);
	close(root);
	return fd;
}

static int open_locked(struct outside *o, const char *path, uint64_t most)
{
	int root, fd;

	if (o->ours)
		return open_ours(NULL, path, most);
	root = refresh(o, false);
	if (root >= 0) {
		fd = open_as(&o->rights, o->pid, root, path, most);
		close(root);
		return fd;
	}
	if (!o->known)
		return -EACCES;
	return o->elsewhere ? -EXDEV : open_ours(&o->rights, path, most);
}

int outside_open(struct outside *o, const char *path, uint64_t most)
{
	struct outside *before = outside_enter(NULL);
	int fd;

	if (path[0] != '/') {
		fd = -ENOENT;
	} else if (!o) {
		fd = open_ours(NULL, path, most);
	} else {
		pthread_mutex_lock(&o->lock);
		fd = open_locked(o, path, most);
		pthread_mutex_unlock(&o->lock);
	}
	outside_enter(before);
	return fd;
}

/* Who is elsewhere may be called root there: here it is nobody. */
static int open_shared(struct outside *o, const char *path)
{
	static const struct rights nobody = { .uid = OUTSIDE_NOBODY, .gid = OUTSIDE_NOBODY };
	struct outside *before = outside_enter(NULL);
	int fd = -ENOENT;

	pthread_mutex_lock(&o->lock);
	if (o->elsewhere)
		fd = open_ours(geteuid() || own_override() ? &nobody : NULL, path, OUTSIDE_DEBUG);
	pthread_mutex_unlock(&o->lock);
	outside_enter(before);
	return fd;
}

int outside_open_debug(struct outside *o, const char *path)
{
	int fd = outside_open(o, path, OUTSIDE_DEBUG);

	if (fd >= 0 || !o || strncmp(path, OUTSIDE_DEBUG_DIR "/", sizeof(OUTSIDE_DEBUG_DIR)) ||
	    strstr(path, "/../"))
		return fd;
	return open_shared(o, path);
}

const char *outside_error(int err)
{
	switch (err) {
	case -EINVAL: return "it is not a regular file";
	case -EMEDIUMTYPE: return "it is not on a file system for files";
	case -EFBIG: return "it is too large";
	case -ETIMEDOUT: return "its file system does not answer";
	case -EXDEV: return "its program, which had another root directory, is gone";
	default: return strerror(-err);
	}
}

/* ---- what libdw opens ---------------------------------------------------- */

static _Thread_local struct outside *entered;

struct outside *outside_enter(struct outside *o)
{
	struct outside *before = entered;

	entered = o;
	return before;
}

/*
 * libdw has no way to be given these files. Its open(2) is this one: in a program, what the program
 * defines is what its libraries call.
 */
int open(const char *path, int flags, ...)
{
	mode_t mode = 0;
	int fd;

	if (entered && !(flags & (O_ACCMODE | O_CREAT))) {
		fd = outside_open(entered, path, OUTSIDE_DEBUG);
		if (fd >= 0)
			return fd;
		errno = -fd;
		return -1;
	}
	if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) {
		va_list args;

		va_start(args, flags);
		mode = va_arg(args, mode_t);
		va_end(args);
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
