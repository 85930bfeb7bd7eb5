/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * protect.h - which pages of a running process are written (Linux 6.7): a page that is protected
 * counts as unwritten until the process writes to it, which the kernel lets it, after a fault of a
 * microsecond. It hears nothing of that, and when the descriptor is closed, or we die, all is as
 * before.
 *
 * But for one thing: the kernel joins mappings side by side only if both can have protected pages,
 * or neither, and when both have been touched it never joins them any more. mremap(2), which takes
 * one mapping, would fail with what it takes otherwise. So the hooks tell what was mapped, before
 * it is touched (ASK_MAPPED): protect_join(). And they tell what is about to be moved (ASK_WHOLE),
 * which may reach across a border that is ours: protect_spare(). What is mapped with MAP_POPULATE
 * is touched already, and stays a mapping of its own.
 *
 * The calls here may come from two threads.
 */
#ifndef MTRUN_PROTECT_H
#define MTRUN_PROTECT_H

#include <pthread.h>

#include "base/types.h"

struct pages;

struct protect {
	int fd; /* a userfaultfd of the process; -1: none */
	pthread_mutex_t lock;
	bool leaving, left;
	struct protect_range {
		raddr_t start, end;
	} * can, *spared; /* `can`: ascending */
	size_t cans, can_room, spares, spare_room;
};

/*
 * Whether this kernel can do it, and our own seccomp filters allow what it takes: tried in a child.
 * On some kernels a page that was moved while it was protected counts as unwritten for ever.
 */
bool protect_is_possible(void);

/* FD, which was not used yet, is taken over: it is closed by protect_release(). 0 or -errno */
int protect_init(struct protect *p, int fd) MUST_USE;
void protect_release(struct protect *p);

/*
 * The mapping [START, END) can have protected pages now (PAGES_PROTECT). -EBUSY: it is spared, or
 * the program has a userfaultfd of its own for it.
 */
int protect_range(struct protect *p, raddr_t start, raddr_t end) MUST_USE;
/*
 * [START, END) was mapped just now: it is joined to what is beside it, if that is to be. False:
 * later, when nothing is protected any more, and it is not to be touched until then.
 */
bool protect_join(struct protect *p, raddr_t start, raddr_t end) MUST_USE;
/*
 * From now on nothing in [START, END) can; until the same range is not spared any more. Out of
 * memory: for the moment.
 */
void protect_spare(struct protect *p, raddr_t start, raddr_t end);
void protect_spared(struct protect *p, raddr_t start, raddr_t end);
/*
 * Nothing can any more, which is the case bit by bit, as the process cannot map anything in
 * between. PAGES: the process'.
 */
void protect_leave(struct protect *p, const struct pages *pages);

#endif
