// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * hostile.c - attacks mtrun through everything that it shares with a program that it supervises.
 *
 *	hostile own ATTACK MS ROUNDS FILE PID		as nobody: the program that is supervised attacks
 *	hostile child ATTACK MS ROUNDS FILE PID		as who started it: an honest program; its forked child becomes nobody and attacks
 *	hostile bystander				waits for its end with all signals blocked
 *
 * Attacks go on for MS milliseconds from when mtrun is seen, or for ROUNDS rounds if that is not 0. FILE is one that nobody may not write, PID a process that nobody may
 * not signal: what mtrun is to be made do is to change the one or signal the other. The end is always status 7, unless the program that attacks has broken itself.
 * Where there is no mtrun 10 s long, or nothing of it can be seen by a child, that is status 7, too, and said on stdout.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hostile.h"

#define HELD 50		/* the descriptor of FILE, opened with O_PATH */

static struct seen w;
static const char *file;
static int bystander, parent, main_tid;
static long ms, rounds;
static volatile int stop;
static volatile long done;

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void leave(int status) { raw(SYS_exit_group, status, 0, 0); }
static void rest(long us) { raw(SYS_nanosleep, (&(struct timespec){ 0, us * 1000 }), 0, 0); }

/* ---- values ---------------------------------------------------------------------------------------------------------------------- */

static _Thread_local uint64_t state = 88172645463325252ull;

static uint64_t any(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state * 0x2545f4914f6cdd1dull;
}
static uint64_t below(uint64_t n) { return (any() >> 11) % n; }

/* What is at an edge of something, often; or anything. */
static uint64_t odd(void)
{
	static const uint64_t edge[] = { 0, 1, 2, 3, 7, 8, 4095, 4096, 0x7fffffff, 0x80000000, 0xffffffff, 1ull << 32, WIRE_ADDRESS_MASK, 1ull << 47, 1ull << 63, ~0ull, ~0ull - 4095,
		WIRE_NODES - 1, WIRE_NODES, WIRE_NODES + 1, WIRE_RING, WIRE_RING + 1, WIRE_SMALL, WIRE_SMALL + 1, WIRE_THREADS, WIRE_THREADS + 1, WIRE_MODULES, WIRE_MODULES + 1, WIRE_RULES, WIRE_PLANTS, WIRE_ISLANDS + 1, WIRE_POOL };

	switch (below(8)) {
	case 0: return any();
	case 1: return any() & WIRE_ADDRESS_MASK;
	case 2: return (uint64_t)w.process;
	case 3: return (uint64_t)bystander;
	case 4: return HELD;
	default: return edge[below(sizeof edge / sizeof *edge)];
	}
}

/* A thread's slot that is mapped; one in use, mostly, or far behind. */
static volatile struct wire_thread *slot(void)
{
	volatile struct wire_thread *t = &w.process->thread[below(4) ? below(6) : 100 + below(4)];

	return writable(&w, t, sizeof *t) ? t : &w.process->thread[below(SLOTS_FIRST)];
}
static volatile struct wire_mail *mail(void) { return below(10) ? &slot()->mail : &w.process->mail; }

/* Any value in any word of what P is. */
static void spoil(volatile void *p, size_t len, int times)
{
	while (times--) {
		volatile uint64_t *at = (volatile uint64_t *)((uintptr_t)p + below(len / 8) * 8);

		if (writable(&w, at, 8))
			*at = odd();
	}
}

/* ---- attacks: each is one round -------------------------------------------------------------------------------------------------- */

/* The results of injected system calls: descriptors, addresses and processes that are somebody else's. */
static void answers(void)
{
	int64_t forged = below(4) ? HELD : (int64_t)odd();

	for (int again = 0; again < 1000 && !stop; again++)
		for (int i = -1; i < 4; i++) {
			volatile struct wire_mail *m = i < 0 ? &w.process->mail : &w.process->thread[i].mail;

			for (int k = 0; k < 4; k++)
				m->call[k].ret = forged;
			if (m->state == MAIL_WORK && forged != HELD)
				m->state = MAIL_DONE;
		}
}

/* System calls for whoever waits in a mailbox to make. */
static void orders(void)
{
	volatile struct wire_mail *m = mail();
	const uint64_t name = (uint64_t)file, pid = (uint64_t)bystander;
	const struct { int64_t nr; uint64_t arg[3]; } call[] = { { SYS_chmod, { name, 0666 } }, { SYS_truncate, { name, 0 } }, { SYS_kill, { pid, SIGUSR1 } }, { SYS_unlink, { name } },
		{ SYS_tgkill, { pid, pid, SIGTERM } }, { SYS_chown, { name, 65534, 65534 } } };

	if (m->state == MAIL_ASKED || m->state == MAIL_WORK) {
		for (unsigned k = 0; k < sizeof call / sizeof *call; k++)
			memcpy((void *)&m->call[k], &call[k], sizeof call[k]);	/* a call begins with these */
		m->ncalls = sizeof call / sizeof *call;
		m->state = MAIL_WORK;
	} else if (m->state == MAIL_DONE && !below(4)) {
		m->state = MAIL_GO;
	}
}

static void ring_bell(void)
{
	if (!w.beacon || !writable(&w, w.beacon, 256))
		return;
	w.beacon->bell++;
	raw(SYS_futex, &w.beacon->bell, 1, 1);
}

/* Questions that no hook has asked. */
static void questions(void)
{
	volatile struct wire_mail *m = mail();

	m->what = below(5) ? (uint32_t)below(6) : (uint32_t)odd();
	m->arg[0] = below(3) ? below(12) | below(2) * 0x100 | below(100) << 32 : odd();
	for (int i = 1; i < 5; i++)
		m->arg[i] = below(2) ? odd() : (uint64_t)file;
	m->ncalls = (uint32_t)odd();
	m->state = below(6) ? MAIL_ASKED : (uint32_t)odd();
	ring_bell();
}

/* Where an honest hook would put T's next event; or in its slot, where nothing else is mapped. */
static volatile struct wire_event *next(volatile struct wire_thread *t)
{
	volatile struct wire_event *e = wire_event_at((struct wire_thread *)t, (struct wire_big *)w.big, t->head);

	return writable(&w, e, sizeof *e) ? e : &t->small[t->head % WIRE_SMALL];
}

static void put(volatile struct wire_thread *t, uint64_t a, uint64_t b)
{
	volatile struct wire_event *e = next(t);

	e->a = a;
	e->b = b;
	t->head++;
}

/* From its next event on T has a big ring, somebody's or nobody's; or none. */
static void move(volatile struct wire_thread *t)
{
	t->moved = below(3) ? t->head : t->head + below(600) - 300;
	t->big = below(3) ? (uint32_t)below(5) : (uint32_t)odd();
	w.process->bigs = (uint32_t)odd();
	w.process->big_owner[below(8)] = (uint32_t)odd();
}

static void put_event(volatile struct wire_thread *t, unsigned kind, uint64_t address, uint64_t size, uint64_t stack)
{
	uint32_t counter = wire_counter(address & WIRE_ADDRESS_MASK);
	uint32_t seq = below(6) ? w.process->counter[counter]++ : (uint32_t)odd();
	struct wire_event e = wire_pack(kind, address & WIRE_ADDRESS_MASK, seq, (uint32_t)size, (uint32_t)stack);

	put(t, below(30) ? e.a : odd(), below(30) ? e.b : odd());
	if (wire_is_wide(kind) && below(12))
		put(t, odd(), below(3) ? w.process->ticket++ : odd());
}

/* Events of every kind on few addresses, so that they meet. */
static void events(void)
{
	volatile struct wire_thread *t = slot();

	for (int i = 0; i < 64; i++)
		put_event(t, (unsigned)below(WIRE_KINDS), below(4) ? 0x500000000000ull + below(4096) * 16 : odd(), below(2) ? below(10000) : odd(), below(3) ? below(200) : odd());
	if (!below(50))
		t->head = odd();
	if (!below(20))
		move(t);
	ring_bell();
}

/* As many blocks and stacks as there can be, none twice. */
static void unique(void)
{
	volatile struct wire_thread *t = slot();
	int waits = 0;

	for (int i = 0; i < 64; i++) {
		uint32_t node = 1 + (uint32_t)below(WIRE_NODES - 2);
		uint64_t address = any() & WIRE_ADDRESS_MASK & ~15ull;
		struct wire_event e = wire_pack(WIRE_ALLOC, address, w.process->counter[wire_counter(address)]++, 1 + (uint32_t)below(4000), node);

		if (writable(&w, &w.node[node], sizeof(struct wire_node))) {
			w.node[node].parent = node - 1;
			w.node[node].pc = any() & WIRE_PC_MASK;
			w.process->nodes = WIRE_NODES;
		}
		put(t, e.a, e.b);
	}
	ring_bell();
	while (t->head - t->tail > WIRE_RING / 2 && waits++ < 20)
		rest(100);
}

/* Threads that are other processes'. */
static void slots(void)
{
	volatile struct wire_thread *t = slot();
	const int tids[] = { bystander, parent, 1, 2, main_tid, bystander + 1 };
	uint32_t tid = below(4) ? (uint32_t)tids[below(6)] : (uint32_t)odd();
	struct wire_event e = wire_pack(WIRE_THREAD, tid, 0, 0, 0);

	t->tid = tid;
	t->fs = below(3) ? 0x1000 * (5 + below(9)) : odd();
	if (below(2))
		t->head = t->tail;
	put(t, e.a, e.b);
	if (!below(4))
		spoil(t, offsetof(struct wire_thread, small), 8);
	w.process->threads_high = below(2) ? 400 : (uint32_t)odd();
	w.process->finder[below(WIRE_FINDER)] = odd();
	w.process->full = below(2) ? 1 : (uint32_t)odd();
	ring_bell();
}

/* A tree of stacks that is none. */
static void stacks(void)
{
	volatile struct wire_thread *t = slot();

	if (writable(&w, w.node, 3000 * sizeof(struct wire_node)))
		for (uint32_t i = 1; i < 3000; i++) {
			volatile struct wire_node *n = &w.node[i];

			n->parent = below(8) ? (uint32_t)below(3000) : i;
			n->pc = below(2) ? 0x400000 + below(10000) : odd();
			n->next = (uint32_t)below(3000);
			n->kid[(i + 1) % WIRE_KIDS] = (uint32_t)odd();
			n->kid[i % WIRE_KIDS] = below(2) ? i : (uint32_t)below(3000);
		}
	w.process->nodes = below(3) ? 3000 + (uint32_t)below(100000) : (uint32_t)odd();
	w.process->root = (uint32_t)odd();
	for (int i = 0; i < 64; i++)
		put_event(t, WIRE_ALLOC, 0x500000000000ull + below(4096) * 16, below(10000), below(3000));
	ring_bell();
}

/* What mtrun has written for the hooks, and for a later mtrun. */
static void tables(void)
{
	spoil(w.process->modules, sizeof w.process->modules, 20);
	spoil(w.process->signal, sizeof w.process->signal, 20);
	spoil(w.process, offsetof(struct wire_process, counter), 4);
	w.process->modules[below(2)].count = (uint32_t)odd();
	spoil(w.process->cache, sizeof w.process->cache, 20);
	spoil(w.process->bucket, sizeof w.process->bucket, 20);
}

static void beacon(void)
{
	if (w.beacon && writable(&w, w.beacon, 256))
		spoil(w.beacon, sizeof *w.beacon, 2);
	ring_bell();
}

static unsigned born, lived;	/* threads of made_thread() */

static void *brief(void *unused)
{
	(void)unused;
	__atomic_fetch_add(&lived, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static int all_lived(void)
{
	return __atomic_load_n(&born, __ATOMIC_SEQ_CST) == __atomic_load_n(&lived, __ATOMIC_SEQ_CST);
}

/* If mtrun leaves the new thread stopped, this waits without an end; timer() counts who has lived. */
static int made_thread(void)
{
	pthread_t thread;
	int made;

	__atomic_fetch_add(&born, 1, __ATOMIC_SEQ_CST);
	made = pthread_create(&thread, NULL, brief, NULL) == 0;
	if (!made)
		__atomic_fetch_add(&lived, 1, __ATOMIC_SEQ_CST);
	return made && pthread_join(thread, NULL) == 0;
}

/* mtrun seems to be dead: whoever works for it leaves at once, goes its own way, and makes threads. */
static void dead(void)
{
	for (int again = 0; w.beacon && again < 100; again++)
		raw(SYS_clock_getres, 0, &w.beacon->alive, 0);	/* seconds: 0; EFAULT once it is gone */
	if (!below(4))
		made_thread();
}

/* Any word of any shared page; mostly of those in use. */
static void words(void)
{
	for (int i = 0; i < 100; i++)
		switch (below(8)) {
		case 0: spoil((void *)w.map[w.maps - 1].start, w.map[w.maps - 1].end - w.map[w.maps - 1].start, rounds ? 1 : !below(50)); break;
		case 1: spoil(w.process, sizeof *w.process - sizeof w.process->thread, 1); break;
		case 2: spoil(&w.process->thread[below(8)], sizeof(struct wire_thread), 1); break;
		case 3: spoil(mail(), sizeof(struct wire_mail), 1); break;
		case 4: spoil(w.node, 4000 * sizeof(struct wire_node), 1); break;
		case 5: spoil(w.process, 256, !below(10)); break;
		case 6: events(); break;
		case 7: if (w.beacon) spoil(w.beacon, sizeof *w.beacon, !below(20)); break;
		}
	ring_bell();
}

/* mtrun's memory file, through any descriptor that is to be had of it. */
static int is_ours(int fd)
{
	char name[32] = "/proc/self/fd/", to[64];
	int n = 14;
	long len;

	if (fd >= 10)
		name[n++] = (char)('0' + fd / 10);
	name[n++] = (char)('0' + fd % 10);
	len = raw(SYS_readlink, name, to, sizeof to - 1);
	if (len <= 0)
		return 0;
	to[len] = '\0';
	return strstr(to, "memfd:mtrun") != NULL;
}

static void take_away(int fd)
{
	raw(SYS_ftruncate, fd, 0, 0);
	raw6(SYS_fallocate, fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1ll << 32, 0, 0);
	raw(SYS_fcntl, fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW);
}

static void truncated(void)
{
	static const char hex[] = "0123456789abcdef";

	for (int fd = 3; fd < 64; fd++)
		if (is_ours(fd))
			take_away(fd);
	for (int i = 0; i < w.maps; i++) {
		char name[64] = "/proc/self/map_files/";
		uintptr_t at[2] = { w.map[i].start, w.map[i].end };
		int n = 21, fd;

		for (int k = 0; k < 2; k++) {
			for (int shift = 44; shift >= 0; shift -= 4)
				if (at[k] >> shift)
					name[n++] = hex[at[k] >> shift & 15];
			if (!k)
				name[n++] = '-';
		}
		fd = (int)raw(SYS_open, name, O_RDWR | O_CLOEXEC, 0);
		if (fd >= 0) {
			take_away(fd);
			raw(SYS_close, fd, 0, 0);
		}
		if (!below(20))
			raw(SYS_madvise, at[0], at[1] - at[0], MADV_REMOVE);
	}
}

/* Other files in the place of descriptors that mtrun has made here. */
static void swap(void)
{
	for (int fd = 3; fd < 48; fd++)
		if (is_ours(fd))
			raw(SYS_dup3, HELD, fd, 0);
}

/* Shared pages are replaced, and then it goes on as if nothing was. */
static void over(void)
{
	int i = (int)below((uint64_t)w.maps);
	long len = (long)(w.map[i].end - w.map[i].start);

	switch (below(4)) {
	case 0: raw(SYS_munmap, w.map[i].start, len, 0); break;
	case 1: raw(SYS_mprotect, w.map[i].start, len, PROT_NONE); break;
	case 2: raw(SYS_madvise, w.map[i].start, len, MADV_DONTNEED); break;
	default: raw6(SYS_mmap, (long)w.map[i].start, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
	}
	rest(20000);
}

/* Children that leave or become another program at any point of their lives. */
static void *leaver(void *how)
{
	static char *argv[] = { "hostile", "nothing", NULL }, *env[] = { NULL };

	switch ((long)how) {
	case 0: execve("/proc/self/exe", argv, env); break;
	case 1: leave(3); break;
	case 2: raw(SYS_kill, getpid(), SIGKILL, 0); break;
	}
	return NULL;
}

static void ends(void)
{
	pid_t pid = (pid_t)raw(SYS_fork, 0, 0, 0);

	if (pid == 0) {
		pthread_t thread;

		raw(SYS_alarm, 1, 0, 0);	/* a lock may have been held at the fork */
		if (below(2))
			pthread_create(&thread, NULL, leaver, (void *)(long)below(3));
		else
			leaver((void *)(long)below(3));
		free(malloc(100));
		leave(4);
	}
	if (pid > 0) {
		if (!below(3)) {
			rest((long)below(2000));
			raw(SYS_kill, pid, SIGKILL, 0);
		}
		raw6(SYS_wait4, pid, 0, 0, 0, 0, 0);
	}
}

static const struct attack {
	const char *name;
	void (*round)(void);
	long pause;		/* microseconds between rounds */
} attacks[] = {
	{ "answers", answers, 0 }, { "orders", orders, 0 }, { "questions", questions, 50 }, { "events", events, 50 }, { "unique", unique, 50 }, { "slots", slots, 50 },
	{ "stacks", stacks, 50 }, { "tables", tables, 50 }, { "beacon", beacon, 50 }, { "dead", dead, 50 },
	{ "words", words, 50 }, { "truncated", truncated, 0 }, { "swap", swap, 0 }, { "over", over, 0 },
	{ "ends", ends, 0 },
};
static const struct attack *attack;

/* ---- the program ------------------------------------------------------------------------------------------------------------------- */

static void *go(void *n)
{
	state ^= (uint64_t)(long)n * 0x9e3779b97f4a7c15ull ^ (uint64_t)raw(SYS_getpid, 0, 0, 0) << 32;
	for (int i = 0; i < 8; i++)
		any();
	while (!stop) {
		attack->round();
		__atomic_fetch_add(&done, 1, __ATOMIC_RELAXED);
		if (attack->pause)
			rest(attack->pause);
	}
	return NULL;
}

/* Shares the table of descriptors with who attacks; its birth makes mtrun work in it. */
static int sibling(void *unused)
{
	(void)unused;
	for (int i = 0; i < 20; i++)
		free(malloc(50));
	_exit(0);
}

/* What gives mtrun reasons to stop, to ask, to inject: for MS, or until stop. Whether all went well. */
static int honest(uint64_t end, int family)
{
	static char stack[1 << 16];
	int good = 1;

	for (unsigned i = 0; !stop && now() < end; i++) {
		char *p = malloc(100 + i % 1000);

		good &= p != NULL;
		free(p);
		if (i % 64 == 0) {
			void *h = dlopen("libutil.so.1", RTLD_NOW);

			good &= made_thread();
			if (h)
				dlclose(h);
			rest(200);
		}
		if (family && i % 256 == 0) {
			pid_t pid = i % 512 ? fork() : clone(sibling, stack + sizeof stack, CLONE_FILES | SIGCHLD, NULL);
			int status = -1;

			if (pid == 0)
				_exit(0);
			good &= pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
		}
	}
	return good;
}

static void *timer(void *unused)
{
	uint64_t end = now() + (uint64_t)ms;

	(void)unused;
	while (rounds ? done < rounds : now() < end)
		rest(5000);
	stop = 1;
	rest(100000);		/* what may come of it */
	for (int i = 0; !all_lived() && i < 300; i++)
		rest(10000);
	leave(all_lived() ? 7 : 9);
	return NULL;
}

static void become_nobody(void)
{
	if (getuid() == 0 && (setgroups(0, NULL) || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)))
		_exit(100);
}

static void attack_as_nobody(void)
{
	int held;
	uint64_t end;

	become_nobody();
	signal(SIGPIPE, SIG_IGN);
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	held = open(file, O_PATH);
	if (held < 0 || dup2(held, HELD) != HELD || open(file, O_WRONLY) >= 0)
		_exit(101);
	for (int fd = HELD + 1; fd < 60; fd++)
		dup2(HELD, fd);
	main_tid = getpid();
	for (end = now() + 10000; !seen_find(&w);)
		if (now() > end || getppid() != parent) {
			static const char none[] = "nothing of mtrun's is seen\n";

			raw(SYS_write, 1, none, sizeof none - 1);
			leave(7);
		}
}

static void start(int attackers)
{
	pthread_t thread;

	for (long i = 0; i < attackers; i++)
		pthread_create(&thread, NULL, go, (void *)i);
	pthread_create(&thread, NULL, timer, NULL);
}

int main(int argc, char **argv)
{
	int child;

	if (argc == 2 && !strcmp(argv[1], "bystander")) {
		sigset_t all;

		sigfillset(&all);
		sigprocmask(SIG_SETMASK, &all, NULL);
		for (;;)
			pause();
	}
	if (argc != 7)
		return 2;
	child = !strcmp(argv[1], "child");
	for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++)
		if (!strcmp(attacks[i].name, argv[2]))
			attack = &attacks[i];
	if (!attack)
		return 2;
	ms = atol(argv[3]);
	rounds = atol(argv[4]);
	file = argv[5];
	bystander = atoi(argv[6]);
	parent = getppid();
	if (!child) {
		attack_as_nobody();
		start(2);
		honest(~0ull, 1);
		for (;;)
			pause();
	} else {
		pid_t pid, self = getpid();
		int good;

		free(malloc(1));
		pid = fork();
		if (pid == 0) {
			parent = self;
			attack_as_nobody();
			start(2);
			for (;;)
				rest(100000);
		}
		good = honest(now() + 100 + (uint64_t)ms, 1);
		kill(pid, SIGKILL);
		good &= waitpid(pid, NULL, 0) == pid;
		return good ? 7 : 8;
	}
}
