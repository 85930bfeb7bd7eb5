// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/opener.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash_index.h"
#include "base/maps.h"
#include "base/message.h"
#include "base/patient.h"
#include "base/proc.h"

/*
 * opener.c - a child that opens a file, and can be given up.
 *
 * We share a socket with it, and a memfd for the bytes of a copy. It answers once, by a struct
 * reply. It is a child of a child, so that it is nobody's whom the session waits for. When we are
 * gone, or have given it up, its answer goes nowhere; an alarm ends it where the kernel allows it
 * to. Its end of the socket is closed when it has really ended: until then it is in the list of
 * those that are held up. By that the same file is not asked for again, and neither is it for a
 * minute afterwards; a process that has held up one is waited for less; and when the list is full,
 * nobody is asked.
 *
 * The child has our memory as of the fork. It reads the list of copies there, and changes nothing.
 */

#define HELD_MOST   32u
#define SHORT_MS    100
#define AGAIN_MS    60000
#define COPIES_MOST 512u /* each has a descriptor */
#define ALARM_S	    (OPENER_COPY_MS / 1000 + 2)

/* Which file it is, and as of when. */
struct identity {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec changed, status_changed;
};

struct copy {
	struct identity of;
	uint64_t bytes;
	ino_t inode; /* the memfd's */
	int fd;
};

struct held {
	pid_t pid;
	uint32_t name; /* its hash */
	int socket;    /* -1: the child has ended */
	uint64_t until;
};

static struct {
	pthread_mutex_t lock;
	struct held held[HELD_MOST];
	size_t held_count, copies;
	struct copy copy[COPIES_MOST];
	uint64_t bytes; /* of all copies */
} opener = { .lock = PTHREAD_MUTEX_INITIALIZER };

struct reply {
	int result; /* 0: there is a descriptor with it, or a copy */
	bool copied, had;
	struct identity of;
};

/* ---- copies -------------------------------------------------------------- */

static bool same(const struct identity *a, const struct identity *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
	       a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec &&
	       a->status_changed.tv_sec == b->status_changed.tv_sec &&
	       a->status_changed.tv_nsec == b->status_changed.tv_nsec;
}

static struct copy *find(const struct identity *of)
{
	for (size_t i = 0; i < opener.copies; i++)
		if (same(&opener.copy[i].of, of))
			return &opener.copy[i];
	return NULL;
}

static bool is_mapped(const struct maps *maps, const struct copy *c)
{
	for (size_t i = 0; i < maps->count; i++)
		if (maps->map[i].inode == c->inode && map_is_memory(&maps->map[i]))
			return true;
	return false;
}

/* Lets go those that are mapped nowhere. With the lock. */
static void trim(void)
{
	struct maps maps;
	size_t kept = 0;

	if (maps_read(&maps, getpid()))
		return;
	for (size_t i = 0; i < opener.copies; i++) {
		struct copy *c = &opener.copy[i];

		if (is_mapped(&maps, c)) {
			opener.copy[kept++] = *c;
		} else {
			close(c->fd);
			opener.bytes -= c->bytes;
		}
	}
	opener.copies = kept;
	maps_release(&maps);
}

/* A descriptor of its own, which cannot write. */
static int reopen(int memfd)
{
	char name[32];

	snprintf(name, sizeof(name), "fd/%d", memfd);
	return proc_open(getpid(), name, O_RDONLY);
}

/* Takes over MEMFD, which is filled. A descriptor, or -errno. */
static int keep_copy(const struct identity *of, int memfd)
{
	struct copy *c;
	struct stat st;
	int fd = -ENFILE;

	if (fcntl(memfd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) ||
	    fstat(memfd, &st)) {
		fd = -errno;
		close(memfd);
		return fd;
	}
	pthread_mutex_lock(&opener.lock);
	c = find(of);
	if (c) { /* another thread was faster */
		close(memfd);
		fd = reopen(c->fd);
	} else if (opener.copies < COPIES_MOST) {
		opener.copy[opener.copies++] = (struct copy){
			.of = *of, .bytes = (uint64_t)st.st_size, .inode = st.st_ino, .fd = memfd
		};
		opener.bytes += (uint64_t)st.st_size;
		fd = reopen(memfd);
	} else {
		close(memfd);
	}
	pthread_mutex_unlock(&opener.lock);
	return fd;
}

static int take_copy(const struct identity *of)
{
	const struct copy *c;
	int fd;

	pthread_mutex_lock(&opener.lock);
	c = find(of);
	fd = c ? reopen(c->fd) : -EAGAIN;
	pthread_mutex_unlock(&opener.lock);
	return fd;
}

/* ---- the child ----------------------------------------------------------- */

/* Whoever waits for the end of one of our pipes must not wait for the child, too. */
static void close_all_but(int a, int b, int c, int d)
{
	int kept[] = { a, b, c, d };
	unsigned from = 0;

	for (;;) {
		int next = -1;

		for (size_t i = 0; i < 4; i++)
			if (kept[i] >= (int)from && (next < 0 || kept[i] < next))
				next = kept[i];
		if (next < 0)
			break;
		if ((unsigned)next > from)
			close_range(from, (unsigned)next - 1, 0);
		from = (unsigned)next + 1;
	}
	close_range(from, ~0u, 0);
}

static void fill(struct reply *r, int fd, int memfd)
{
	struct timespec times[2] = { 0 };
	off_t left;
	struct stat st;

	if (fstat(fd, &st)) {
		r->result = -errno;
		return;
	}
	r->copied = true;
	r->of = (struct identity){ st.st_dev, st.st_ino, st.st_size, st.st_mtim, st.st_ctim };
	r->had = find(&r->of) != NULL;
	if (r->had)
		return;
	if (st.st_size < 0 || (uint64_t)st.st_size > OPENER_BYTES - opener.bytes) {
		r->result = -EFBIG;
		return;
	}
	for (left = st.st_size; left > 0;) {
		ssize_t n = sendfile(memfd, fd, NULL, (size_t)left);

		if (n < 0 && errno != EINTR)
			r->result = -errno;
		if (n == 0 || r->result)
			break;
		left -= n > 0 ? n : 0;
	}
	times[0] = times[1] = st.st_mtim;
	if (!r->result && futimens(memfd, times))
		r->result = -errno;
}

static void answer(int socket, const struct reply *reply, int fd)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)) } };
	struct iovec iov = { (void *)(uintptr_t)reply, sizeof(*reply) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fd >= 0) {
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
		m.msg_control = &control;
		m.msg_controllen = sizeof(control);
	}
	sendmsg(socket, &m, MSG_NOSIGNAL);
}

static _Noreturn void child(opener_fn *fn, void *arg, int keep, int socket, int memfd)
{
	struct reply r = { 0 };
	bool copy = false;
	sigset_t set;
	int fd;

	prctl(PR_SET_NAME, "mtrun-opener");
	signal(SIGALRM, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	alarm(ALARM_S);
	close_all_but(keep, socket, memfd, proc_descriptor());
	fd = fn(arg, &copy);
	r.result = fd < 0 ? fd : 0;
	if (fd >= 0 && copy)
		fill(&r, fd, memfd);
	answer(socket, &r, copy || r.result ? -1 : fd);
	_exit(0);
}

/* ---- asking -------------------------------------------------------------- */

/* Forgets what is over, of those that were held up. With the lock. */
static void forget_held(void)
{
	uint64_t now = clock_ms();
	size_t kept = 0;

	for (size_t i = 0; i < opener.held_count; i++) {
		struct held *h = &opener.held[i];
		struct pollfd p = { .fd = h->socket, .events = 0 };

		if (h->socket >= 0 && poll(&p, 1, 0) > 0) {
			close(h->socket);
			h->socket = -1;
		}
		if (h->socket >= 0 || now < h->until)
			opener.held[kept++] = *h;
	}
	opener.held_count = kept;
}

/* How long it is waited for; 0: it is not asked for. With the lock. */
static unsigned patience(pid_t pid, uint32_t name)
{
	unsigned ms = PATIENT_MS;

	forget_held();
	for (size_t i = 0; i < opener.held_count; i++) {
		if (opener.held[i].name == name)
			return 0;
		if (opener.held[i].pid == pid)
			ms = SHORT_MS;
	}
	return opener.held_count == HELD_MOST ? 0 : ms;
}

/* What has been copied so far goes, and nothing comes to it: the child may go on for long. */
static void drop_copy(int memfd)
{
	if (ftruncate(memfd, 0) || fcntl(memfd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW))
		message_verbose(1, "a copy that is not wanted any more cannot be dropped");
}

static int give_up(pid_t pid, const char *name, uint32_t hash, int socket, int memfd)
{
	drop_copy(memfd);
	pthread_mutex_lock(&opener.lock);
	if (opener.held_count < HELD_MOST)
		opener.held[opener.held_count++] =
			(struct held){ pid, hash, socket, clock_ms() + AGAIN_MS };
	else
		close(socket);
	pthread_mutex_unlock(&opener.lock);
	message_error(
		"'%s' does not come: the file system that it is on holds it up; it is left out",
		name);
	return -ETIMEDOUT;
}

static bool has_grown(int memfd, off_t *size)
{
	off_t before = *size;
	struct stat st;

	if (!fstat(memfd, &st))
		*size = st.st_size;
	return *size > before;
}

static bool comes(int socket, int memfd, unsigned ms)
{
	uint64_t now = clock_ms(), end = now + ms, last = now + OPENER_COPY_MS;
	struct pollfd p = { .fd = socket, .events = POLLIN };
	off_t size = 0;

	for (; now < last; now = clock_ms()) {
		if (now >= end && !has_grown(memfd, &size))
			return false;
		if (now >= end)
			end = now + PATIENT_MS < last ? now + PATIENT_MS : last;
		if (poll(&p, 1, (int)(end - now)) > 0)
			return true;
	}
	return false;
}

/* What the child has sent. Its descriptor, -1 if none was sent, or -errno. */
static int receive(int socket, struct reply *r)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = { r, sizeof(*r) };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	const struct cmsghdr *c;
	int fd = -1;

	if (recvmsg(socket, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) != (ssize_t)sizeof(*r))
		return -EIO; /* it was killed, or did not begin */
	c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	if (r->result || r->copied)
		return r->result;
	return fd >= 0 ? fd : -EMFILE;
}

/* The child that opens; its parent ends at once, and with the lock the list of copies is whole. */
static int start(opener_fn *fn, void *arg, int keep, int socket, int memfd)
{
	sigset_t all, was;
	int status;
	pid_t pid;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	pid = fork();
	if (pid == 0) {
		pid = fork();
		if (pid == 0)
			child(fn, arg, keep, socket, memfd);
		_exit(pid < 0);
	}
	if (pid > 0)
		while (waitpid(pid, &status, __WALL) < 0 && errno == EINTR)
			;
	else
		pid = -errno;
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	return pid < 0 ? pid : 0;
}

/* Takes over what it is given, and closes it. */
static int result(int socket, int memfd)
{
	struct reply r = { 0 };
	int fd = receive(socket, &r);

	close(socket);
	if (fd < 0 || !r.copied || r.had) {
		close(memfd);
		return fd >= 0 && r.copied ? take_copy(&r.of) : fd;
	}
	return keep_copy(&r.of, memfd);
}

int opener_open(pid_t pid, const char *name, opener_fn *fn, void *arg, int keep)
{
	uint32_t hash = hash_text(HASH_SEED, name);
	int end[2], memfd = -1, err;
	unsigned ms;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, end))
		return -errno;
	pthread_mutex_lock(&opener.lock);
	ms = patience(pid, hash);
	err = ms ? 0 : -ETIMEDOUT;
	if (!err)
		memfd = memfd_create("mtrun-copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (!err && memfd < 0)
		err = -errno;
	if (!err && (opener.bytes > OPENER_BYTES / 2 || opener.copies == COPIES_MOST))
		trim();
	if (!err)
		err = start(fn, arg, keep, end[1], memfd);
	pthread_mutex_unlock(&opener.lock);
	close(end[1]);
	if (!err && comes(end[0], memfd, ms))
		return result(end[0], memfd);
	if (!err)
		err = give_up(pid, name, hash, end[0], memfd);
	else
		close(end[0]);
	if (memfd >= 0)
		close(memfd);
	return err;
}
