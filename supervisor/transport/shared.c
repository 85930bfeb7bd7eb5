// SPDX-License-Identifier: GPL-3.0-or-later
#include "transport/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/patient.h"
#include "base/proc.h"
#include "base/space.h"
#include "transport/heartbeat.h"

/*
 * shared.c - what a target shares with us, and what it can do with that.
 *
 * We may be root and the target anybody. It can write every byte of its agent at any time, between
 * two looks of ours, from any of its threads and from any process that has its memory (vfork,
 * CLONE_VM). So every word is copied once, checked, and the copy is used. No descriptor, path,
 * process or address from there is acted upon with our rights. A lie does harm only to the liar.
 *
 *	the files	are the target's, taken by the number of its descriptor (pidfd_getfd(2)
 *	                gives us no right that the target has not got). A false number leads to
 *	                another file of its own: it must be an empty, unlinked memory file that was
 *	                never sealed. Once we have sealed it it cannot be truncated under us. A hole
 *	                punched into it reads as zeros.
 *	beacon		only `bell` is read: it wakes us. The nodes of the robust list that `alive`
 *	                is on are not shared (heartbeat.c).
 *	threads_high	how many slots are looked at: WIRE_THREADS at most.
 *	slot.fs, tid	which thread it is. A tid is shown, and compared with threads that we trace;
 *	                no thread is signalled or traced for being named there.
 *	slot.head, small, big.ring
 *			what is taken out is between our own tail and that; at most WIRE_RING
 *	                events, each of them checked (stream.c).
 *	slot.big, moved	in which ring an event is looked for: one that is mapped here, or can be.
 *	                Wrong values lead to other events of the target's own.
 *	slot.ring, mask, memory
 *			the hooks' own. Not read.
 *	big_owner	the hooks' own. What names a slot is set free with it.
 *	slot.mark	whether a thread keeps books: some questions wait for it, for a time that is
 *	                ours (limit.c, sampling.c).
 *	slot.charged..	clamped between its last value and what was given (limit.c). A target can
 *	                evade its limit so, as it can by not asking at all.
 *	slot.mail	a question: copied by shared_question(). Its texts are addresses in the
 *	                target, read as far as they can be. An answer is written, not relied upon.
 *	                Results of calls that a mailbox made: the address of a mapping, which is
 *	                compared with what was asked for. A lie puts our stubs elsewhere in the
 *	                target's own memory.
 *	counter, ticket	how many numbers were given out, for `status`. The order is that of the
 *	                events' own numbers; missing ones are given up by our clock (stream.c).
 *	signal		as a thread's ring.
 *	known, large ..	the hooks' own. Written by us, not read.
 *	nodes		parents are less than children, pcs are numbers that are looked up; `nodes`
 *	                is WIRE_NODES at most (nodes.c).
 *	modules, cache	written by us; read by the hooks.
 *	tables		sealed against everybody else before anything is written. Shared with
 *	                children that fork.
 *	guard, journal	private to the process, written by /proc/PID/mem. A journal is believed only
 *	                where the memory confirms it (journal.c).
 */

#define SEALS_OF_NEW (F_SEAL_EXEC) /* vm.memfd_noexec sets it */
#ifndef F_SEAL_EXEC
#undef SEALS_OF_NEW
#define SEALS_OF_NEW 0x20
#endif

/* ---- files --------------------------------------------------------------- */

static int open_pidfd(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	/* PID is a thread whose process' first thread has ended */
	if (fd < 0 && (errno == EINVAL || errno == ENOENT))
		fd = (int)syscall(SYS_pidfd_open, pid, PIDFD_THREAD);
	return fd < 0 ? -errno : fd;
}

static int get_fd(pid_t pid, int64_t number)
{
	int pidfd = open_pidfd(pid), fd;

	if (pidfd < 0)
		return pidfd;
	fd = (int)syscall(SYS_pidfd_getfd, pidfd, (int)number, 0);
	if (fd < 0)
		fd = -errno;
	close(pidfd);
	return fd;
}

static bool is_new_memory_file(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS), flags = fcntl(fd, F_GETFL);
	struct stat st;

	return seals >= 0 && !(seals & ~SEALS_OF_NEW) && flags >= 0 &&
	       (flags & O_ACCMODE) == O_RDWR && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	       st.st_nlink == 0 && st.st_size == 0;
}

int shared_take(pid_t pid, int64_t number, uint64_t size)
{
	int fd = get_fd(pid, number), err = 0;

	if (fd < 0)
		return fd;
	if (!is_new_memory_file(fd))
		err = -EPERM;
	else if (ftruncate(fd, (off_t)size) < 0 ||
		 fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
		err = -errno;
	if (!err)
		return fd;
	close(fd);
	return err;
}

/* ---- the process part ---------------------------------------------------- */

#define SLOT ((uint64_t)sizeof(struct wire_thread))
#define HEAD (AGENT_THREADS - AGENT_BEACON)
#define BIG  ((uint64_t)sizeof(struct wire_big))

int shared_map(struct shared *s, int fd, uint32_t slots)
{
	struct wire_beacon *b = heartbeat_map(fd, HEAD + slots * SLOT, AGENT_BIGS - AGENT_BEACON);
	struct wire_big *big;
	int err;

	if (!b)
		return -errno;
	big = space_map(fd, AGENT_BIGS - AGENT_BEACON, BIGS_FIRST * BIG, WIRE_BIGS * BIG, 0);
	if (!big) {
		err = -errno;
		heartbeat_unmap(b, HEAD + slots * SLOT);
		return err;
	}
	*s = (struct shared){
		b, (struct wire_process *)(void *)((char *)b + (AGENT_PROCESS - AGENT_BEACON)),
		slots, big, BIGS_FIRST
	};
	return 0;
}

void shared_unmap(struct shared *s)
{
	if (s->beacon) {
		heartbeat_unmap(s->beacon, HEAD + s->slots * SLOT);
		munmap(s->big, s->bigs * BIG);
	}
	*s = (struct shared){ .beacon = NULL };
}

/*
 * A difference counts if our word was the same before and after the other was read, and if it is
 * found three times.
 */
bool shared_is_lost(const struct shared *s, pid_t pid, raddr_t where)
{
	for (int i = 0; i < 3; i++) {
		uint32_t before = __atomic_load_n(&s->wire->mail.state, __ATOMIC_ACQUIRE), theirs;

		if (patient_read(pid, where + offsetof(struct wire_process, mail.state), &theirs,
				 sizeof(theirs)) != (ssize_t)sizeof(theirs))
			return true;
		if (theirs == before ||
		    __atomic_load_n(&s->wire->mail.state, __ATOMIC_ACQUIRE) != before)
			return false;
	}
	return true;
}

/* How many more to map at once: HAVE are mapped, WANTED are needed, MOST can be there. */
static uint32_t more_of(uint32_t have, uint32_t wanted, uint32_t most)
{
	uint32_t more = wanted - have > have / 2 ? wanted - have : have / 2;

	return more < most - have ? more : most - have;
}

uint32_t shared_slots(struct shared *s)
{
	uint32_t high = __atomic_load_n(&s->wire->threads_high, __ATOMIC_ACQUIRE), more;

	if (high > WIRE_THREADS)
		high = WIRE_THREADS;
	if (high <= s->slots)
		return high;
	more = more_of(s->slots, high, WIRE_THREADS);
	if (!space_extend(s->beacon, HEAD + s->slots * SLOT, more * SLOT))
		return s->slots;
	s->slots += more;
	return high;
}

uint32_t shared_slots_mapped(const struct shared *s)
{
	uint32_t high = __atomic_load_n(&s->wire->threads_high, __ATOMIC_ACQUIRE);

	return high < s->slots ? high : s->slots;
}

/* ---- rings --------------------------------------------------------------- */

/* Number of SLOT's big one, from 1; 0: none. */
static uint32_t big_of(const struct shared *s, uint32_t slot)
{
	uint32_t big = __atomic_load_n(&s->wire->thread[slot].big, __ATOMIC_ACQUIRE);

	return big <= WIRE_BIGS ? big : 0;
}

uint32_t shared_ring_size(const struct shared *s, uint32_t slot)
{
	uint32_t big = big_of(s, slot);

	return big ? wire_ring_size(big) : WIRE_SMALL;
}

/* `head` is read first: what it counts is where `big`, read after it, says (inject/big.c). */
bool shared_ring_head(struct shared *s, uint32_t slot, uint64_t taken, uint64_t *head)
{
	uint64_t written = __atomic_load_n(&s->wire->thread[slot].head, __ATOMIC_ACQUIRE);
	uint32_t big = written == taken ? 0 : big_of(s, slot), more;

	if (big > s->bigs) {
		more = more_of(s->bigs, big, WIRE_BIGS);
		if (!space_extend(s->big, s->bigs * BIG, more * BIG))
			return false;
		s->bigs += more;
	}
	*head = written;
	return true;
}

static void copy(struct wire_event *to, const struct wire_event *ring, uint32_t size, uint64_t at,
		 uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct wire_event *e = &ring[(at + i) & (size - 1)];

		to[i].a = __atomic_load_n(&e->a, __ATOMIC_RELAXED);
		to[i].b = __atomic_load_n(&e->b, __ATOMIC_RELAXED);
	}
}

void shared_events(const struct shared *s, uint32_t slot, uint64_t at, struct wire_event *to,
		   uint32_t n)
{
	const struct wire_thread *t = &s->wire->thread[slot];
	uint32_t big = big_of(s, slot), small = n;
	uint64_t before;

	if (big) {
		before = __atomic_load_n(&t->moved, __ATOMIC_RELAXED) - at;
		small = before > WIRE_SMALL ? 0 : before < n ? (uint32_t)before : n;
	}
	copy(to, t->small, WIRE_SMALL, at, small);
	if (small == n)
		return;
	if (big <= s->bigs)
		copy(to + small, s->big[big - 1].ring, wire_ring_size(big), at + small, n - small);
	else /* `big` has changed since `head` was read: no hook does that */
		memset(to + small, 0, (n - small) * sizeof(*to));
}

void shared_slot_free(struct shared *s, uint32_t slot)
{
	struct wire_thread *t = &s->wire->thread[slot];
	uint32_t n = __atomic_load_n(&s->wire->bigs, __ATOMIC_ACQUIRE);

	__atomic_store_n(&t->big, 0, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < n && i < WIRE_BIGS; i++)
		if (__atomic_load_n(&s->wire->big_owner[i], __ATOMIC_RELAXED) == slot + 1)
			__atomic_store_n(&s->wire->big_owner[i], 0, __ATOMIC_RELEASE);
	__atomic_store_n(&t->fs, 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&s->wire->full, 0, __ATOMIC_SEQ_CST);
}

/* ---- questions ----------------------------------------------------------- */

bool shared_question(struct shared *s, uint32_t *slot, struct shared_question *q)
{
	for (uint32_t high = shared_slots(s); *slot < high;) {
		struct wire_thread *t = &s->wire->thread[*slot];
		uint32_t asked = __atomic_load_n(&t->mail.state, __ATOMIC_ACQUIRE);

		(*slot)++;
		if ((asked & MAIL_STATE) != MAIL_ASKED)
			continue;
		*q = (struct shared_question){
			.mail = &t->mail,
			.slot = *slot - 1,
			.asked = asked,
			.what = __atomic_load_n(&t->mail.what, __ATOMIC_RELAXED),
			.tid = (pid_t)(__atomic_load_n(&t->tid, __ATOMIC_RELAXED) & INT32_MAX)
		};
		for (int i = 0; i < 5; i++)
			q->arg[i] = __atomic_load_n(&t->mail.arg[i], __ATOMIC_RELAXED);
		return true;
	}
	return false;
}
