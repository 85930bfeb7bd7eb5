// SPDX-License-Identifier: GPL-3.0-or-later
#include "memory/protect.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "memory/pages.h"

/*
 * Linux 6.7, as in its linux/userfaultfd.h: a write to a protected page is resolved by the kernel
 * at once; any kind of mapping can have such pages.
 */
#define FEATURE_WP_ASYNC (1ull << 15)

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

/*
 * The lock on the process' mappings is held for a slice: up to 50 ns a page, in which it can
 * neither map nor unmap anything.
 */
#define SLICE (32ull << 20)

static int begin(int fd)
{
	struct uffdio_api api = { .api = UFFD_API, .features = FEATURE_WP_ASYNC };

	return ioctl(fd, UFFDIO_API, &api) < 0 ? -errno : 0;
}

static int enable(int fd, raddr_t start, raddr_t end)
{
	struct uffdio_register r = { .range = { start, end - start },
				     .mode = UFFDIO_REGISTER_MODE_WP };

	return ioctl(fd, UFFDIO_REGISTER, &r) < 0 ? -errno : 0;
}

/* What is not mapped there any more needs nothing. -ESRCH: the process is no more. */
static int disable(int fd, raddr_t start, raddr_t end)
{
	struct uffdio_range r = { start, end - start };

	return ioctl(fd, UFFDIO_UNREGISTER, &r) < 0 && errno == ESRCH ? -ESRCH : 0;
}

/* ---- whether it is possible ---------------------------------------------- */

/* The written pages of two at AT; they are protected now. */
static ssize_t count_written(const struct pages *p, char *at)
{
	raddr_t from = (raddr_t)(uintptr_t)at, end = from + 2 * PAGE;
	struct page_run run = { .start = 0 };
	ssize_t n = pages_next(p, &from, end, PAGES_PROTECT, &run, 1);

	return n > 0 ? (ssize_t)((run.end - run.start) / PAGE) : n;
}

/* Two pages are protected, one is written, both are moved from AT to TO. */
static bool try_on(int fd, const struct pages *pages, volatile char *at, char *to)
{
	size_t size = 2 * PAGE;
	char *from = (char *)(uintptr_t)at;
	raddr_t start = (raddr_t)(uintptr_t)at, moved = (raddr_t)(uintptr_t)to;

	at[0] = at[PAGE] = 1;
	if (begin(fd) || enable(fd, start, start + size) || count_written(pages, from) != 2 ||
	    count_written(pages, from) != 0)
		return false;
	at[0] = 2;
	/* FROM stays mapped: it is ours to unmap, and nobody else's meanwhile */
	if (count_written(pages, from) != 1 ||
	    mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) != to)
		return false;
	return !enable(fd, moved, moved + size) && count_written(pages, to) == 2;
}

static bool try_it(char *at)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	struct pages pages = { .fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC) };

	return fd >= 0 && pages.fd >= 0 && try_on(fd, &pages, at, at + 2 * PAGE);
}

bool protect_is_possible(void)
{
	size_t size = 4 * PAGE;
	char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int status = 1;
	pid_t pid;

	if (at == MAP_FAILED)
		return false;
	pid = vfork(); /* it has our memory, and descriptors of its own */
	if (pid == 0)
		_exit(!try_it(at));
	if (pid < 0 || waitpid(pid, &status, __WALL) != pid)
		status = 1;
	munmap(at, size);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- one process --------------------------------------------------------- */

int protect_init(struct protect *p, int fd)
{
	*p = (struct protect){ .fd = fd };
	pthread_mutex_init(&p->lock, NULL);
	return begin(fd);
}

void protect_release(struct protect *p)
{
	if (p->fd < 0)
		return;
	close(p->fd);
	free(p->can);
	free(p->spared);
	pthread_mutex_destroy(&p->lock);
	*p = (struct protect){ .fd = -1 };
}

static bool is_spared(const struct protect *p, raddr_t start, raddr_t end)
{
	for (size_t i = 0; i < p->spares; i++)
		if (p->spared[i].start < end && start < p->spared[i].end)
			return true;
	return false;
}

/* [START, END) is among those that can: what touches it there becomes one with it. */
static int note(struct protect *p, raddr_t start, raddr_t end)
{
	size_t first = 0, last = p->cans, n;

	for (size_t half; first < last;) {
		half = first + (last - first) / 2;
		if (p->can[half].end < start)
			first = half + 1;
		else
			last = half;
	}
	for (n = first; n < p->cans && p->can[n].start <= end; n++) {
		start = p->can[n].start < start ? p->can[n].start : start;
		end = p->can[n].end > end ? p->can[n].end : end;
	}
	if (n == first && array_room(&p->can, p->cans, &p->can_room, sizeof(*p->can)))
		return -ENOMEM;
	memmove(p->can + first + 1, p->can + n, (p->cans - n) * sizeof(*p->can));
	p->cans = p->cans - (n - first) + 1;
	p->can[first] = (struct protect_range){ start, end };
	return 0;
}

static int enable_unspared(struct protect *p, raddr_t start, raddr_t end)
{
	int err = is_spared(p, start, end) ? -EBUSY : note(p, start, end);

	return err ? err : enable(p->fd, start, end);
}

int protect_range(struct protect *p, raddr_t start, raddr_t end)
{
	int err;

	pthread_mutex_lock(&p->lock);
	err = enable_unspared(p, start, end);
	pthread_mutex_unlock(&p->lock);
	return err;
}

bool protect_join(struct protect *p, raddr_t start, raddr_t end)
{
	bool later;

	pthread_mutex_lock(&p->lock);
	later = p->leaving && !p->left;
	if (!p->leaving)
		(void)enable_unspared(p, start, end);
	pthread_mutex_unlock(&p->lock);
	return !later;
}

void protect_spare(struct protect *p, raddr_t start, raddr_t end)
{
	pthread_mutex_lock(&p->lock);
	if (!array_room(&p->spared, p->spares, &p->spare_room, sizeof(*p->spared)))
		p->spared[p->spares++] = (struct protect_range){ start, end };
	disable(p->fd, start, end);
	pthread_mutex_unlock(&p->lock);
}

void protect_spared(struct protect *p, raddr_t start, raddr_t end)
{
	pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < p->spares; i++)
		if (p->spared[i].start == start && p->spared[i].end == end) {
			p->spared[i] = p->spared[--p->spares];
			break;
		}
	pthread_mutex_unlock(&p->lock);
}

/*
 * The first page from AT on that is there, and as WHAT; END: none is, or nobody can say.
 */
static raddr_t first_page(const struct pages *pages, raddr_t at, raddr_t end, unsigned what)
{
	struct page_run run;
	ssize_t n = 0;

	while (at < end && n == 0)
		n = pages_next(pages, &at, end, PAGES_ANY | what, &run, 1);
	return n > 0 ? run.start : end;
}

/*
 * What is not there takes no time, and may be terabytes. A mapping that was never touched is not
 * cut in two: if both halves were touched before the second is as the first, the kernel would not
 * join them any more. So a slice ends behind a page that is not a file's: its mapping was touched,
 * or ends there, too.
 */
static raddr_t slice_end(const struct pages *pages, raddr_t start, raddr_t end)
{
	raddr_t first, last;

	if (end - start <= SLICE)
		return end;
	first = first_page(pages, start, end, 0);
	if (end - first <= SLICE)
		return end;
	last = first_page(pages, first + SLICE - PAGE, end, PAGES_NOT_FILES);
	return last < end ? last + PAGE : end;
}

/* From the first line on nobody else changes what can. */
void protect_leave(struct protect *p, const struct pages *pages)
{
	int err = 0;

	pthread_mutex_lock(&p->lock);
	p->leaving = true;
	pthread_mutex_unlock(&p->lock);
	for (size_t i = 0; i < p->cans; i++)
		for (raddr_t at = p->can[i].start, next; at < p->can[i].end && !err; at = next) {
			next = slice_end(pages, at, p->can[i].end);
			err = disable(p->fd, at, next);
		}
	pthread_mutex_lock(&p->lock);
	p->left = true;
	pthread_mutex_unlock(&p->lock);
}
