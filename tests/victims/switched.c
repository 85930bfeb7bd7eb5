// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * switched.c - works while recording is switched off and on, and knows what it has. Each thread keeps blocks and mappings with what is written in them, looks at each
 * before it gives it back, and remembers in which epoch it was got: the number is read before the allocating function is called. Commands are bytes, read
 * from descriptor FD; each is answered by a line on stdout:
 *
 *	e	the next epoch begins		`epoch N`
 *	h	all threads stand still		`block ADDRESS SIZE EPOCH`, `map ADDRESS SIZE EPOCH` for each, then `lost N` blocks released since the epoch began that were got before it
 *	g	they go on			`gone on`
 *	f	a child is forked, reads from the descriptor FD2 instead and works by itself while it is not held	`child PID`
 *	x	execs itself with the same arguments; `ready`
 *	j	a seccomp filter kills it for any system call that it does not need itself	`jailed`
 *	d	a library is loaded (PLUGIN, if that is defined)	`loaded`
 *	p	the library allocates 1000 blocks of 33 bytes, and they are forgotten	`made`
 *
 * The end of FD is the end: status 0 if all was found as it was left. Arguments: threads FD FD2 [fork]; fork: children are forked all the time, too, half of which exec.
 * Threads 0: the first thread does the work of one between commands, 20 000 turns when it is told to go on.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCKS 150
#define MAPS   8
#define THREADS 64
#define PAGE   4096u

struct got {
	unsigned char *at;
	size_t size;
	unsigned epoch;
};

struct worker {
	struct got block[BLOCKS], map[MAPS];
	unsigned random, held_epoch;
	unsigned long lost, turns;
};

static struct worker worker[THREADS];
static unsigned epoch = 1;
static int holding, standing, ending, wrong, threads;
static char text[1 << 20];

static void fill(const struct got *g)
{
	for (size_t i = 0; i < g->size; i += 1 + i / 64)
		g->at[i] = (unsigned char)(((uintptr_t)g->at >> 4) + g->size + i);
}

static void look(const struct got *g)
{
	for (size_t i = 0; i < g->size; i += 1 + i / 64)
		if (g->at[i] != (unsigned char)(((uintptr_t)g->at >> 4) + g->size + i)) {
			wrong = 1;
			return;
		}
}

/* G is given back, or is about to be by a realloc. */
static void losing(struct worker *w, const struct got *g)
{
	unsigned now = __atomic_load_n(&epoch, __ATOMIC_SEQ_CST);

	if (w->held_epoch != now) {
		w->held_epoch = now;
		w->lost = 0;
	}
	w->lost += g->epoch < now;
	look(g);
}

static void turn_map(struct worker *w, unsigned r)
{
	struct got *g = &w->map[r % MAPS];

	if (g->at) {
		look(g);
		munmap(g->at, g->size);
		g->at = NULL;
		return;
	}
	g->epoch = __atomic_load_n(&epoch, __ATOMIC_SEQ_CST);
	g->size = PAGE * (1 + r / MAPS % 5);
	g->at = mmap(NULL, g->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (g->at == MAP_FAILED)
		_exit(98);
	fill(g);
}

static void turn(struct worker *w)
{
	unsigned r = (w->random = w->random * 1103515245 + 12345) >> 8;
	struct got *g = &w->block[r % BLOCKS], old = *g;

	w->turns++;
	if (r % 101 == 0) {
		turn_map(w, r / 101);
		return;
	}
	r /= BLOCKS;
	if (old.at)
		losing(w, &old);
	g->size = r % 61 == 0 ? 1 + r % 200000 : 1 + r % 900;
	g->epoch = __atomic_load_n(&epoch, __ATOMIC_SEQ_CST);
	if (old.at && r % 4 == 0)
		g->at = realloc(old.at, g->size);
	else {
		free(old.at);
		if (r % 5 == 1)
			g->at = calloc(1, g->size);
		else if (r % 7 == 1 && posix_memalign((void **)&g->at, 64, g->size))
			_exit(98);
		else if (r % 7 != 1)
			g->at = malloc(g->size);
	}
	if (!g->at)
		_exit(98);
	fill(g);
}

static void *work(void *arg)
{
	struct worker *w = arg;

	while (!__atomic_load_n(&ending, __ATOMIC_ACQUIRE)) {
		if (__atomic_load_n(&holding, __ATOMIC_ACQUIRE)) {
			__atomic_add_fetch(&standing, 1, __ATOMIC_ACQ_REL);
			while (__atomic_load_n(&holding, __ATOMIC_ACQUIRE))
				usleep(200);
			__atomic_sub_fetch(&standing, 1, __ATOMIC_ACQ_REL);
		}
		for (int i = 0; i < 20; i++)
			turn(w);
	}
	return NULL;
}

static char *self, **arguments;

static void *forker(void *unused)
{
	for (unsigned n = 0; !__atomic_load_n(&ending, __ATOMIC_ACQUIRE); n++) {
		int status;
		pid_t pid = fork();

		if (pid == 0) {
			void *p = malloc(1000);

			free(p);
			if (n % 2)
				execl(self, self, "0", "-1", "-1", NULL);
			_exit(p ? 0 : 1);
		}
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		if (status)
			wrong = 1;
		usleep(2000);
	}
	return unused;
}

/* ---- commands --------------------------------------------------------------------------------------------------------------------------- */

static size_t length;

static void say(const char *what, const struct got *g)
{
	if (g->at && length < sizeof(text) - 100)
		length += (size_t)snprintf(text + length, 100, "%s %#lx %zu %u\n", what, (unsigned long)g->at, g->size, g->epoch);
}

static void put(void)
{
	for (size_t at = 0; at < length;) {
		ssize_t n = write(1, text + at, length - at);

		if (n <= 0)
			_exit(97);
		at += (size_t)n;
	}
	length = 0;
}

#define SAY(...) (length += (size_t)snprintf(text + length, 100, __VA_ARGS__), put())

static void hold(void)
{
	unsigned long lost = 0;

	__atomic_store_n(&holding, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(&standing, __ATOMIC_ACQUIRE) < threads)
		usleep(200);
	for (int i = 0; i < THREADS; i++) {
		for (int k = 0; k < BLOCKS; k++)
			say("block", &worker[i].block[k]);
		for (int k = 0; k < MAPS; k++)
			say("map", &worker[i].map[k]);
		lost += worker[i].held_epoch == epoch ? worker[i].lost : 0;
	}
	SAY("lost %lu\n", lost);
}

static void go(void)
{
	__atomic_store_n(&holding, 0, __ATOMIC_RELEASE);
	while (__atomic_load_n(&standing, __ATOMIC_ACQUIRE))
		usleep(200);
	for (int i = 0; !threads && i < 20000; i++)
		turn(&worker[0]);
	SAY("gone on\n");
}

static void jail(void)
{
	static const unsigned allowed[] = { SYS_read, SYS_write, SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_brk, SYS_madvise, SYS_exit_group };
	struct sock_filter f[16] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)) };
	struct sock_fprog p = { 1, f };

	for (unsigned n = sizeof(allowed) / sizeof(*allowed), i = 0; i < n; i++)
		f[p.len++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], (unsigned char)(n - i), 0);
	f[p.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	f[p.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p))
		_exit(94);
	SAY("jailed\n");
}

#ifdef PLUGIN
static void *(*make)(size_t);

static void load(void)
{
	void *library = dlopen(PLUGIN, RTLD_NOW);

	make = library ? (void *(*)(size_t))dlsym(library, "plugin_make") : NULL;
	if (!make)
		_exit(93);
	SAY("loaded\n");
}

static void use(void)
{
	for (int i = 0; i < 1000; i++)
		make(33);
	SAY("made\n");
}
#endif

int main(int argc, char **argv)
{
	static char executable[4096];
	int fd = atoi(argv[2]), fd2 = atoi(argv[3]);
	pthread_t thread[THREADS], other;
	char c;

	if (fd < 0)
		return 0;
	self = readlink("/proc/self/exe", executable, sizeof(executable) - 1) > 0 ? executable : argv[0];
	arguments = argv;
	threads = atoi(argv[1]);
	for (int i = 0; i < THREADS; i++)
		worker[i].random = (unsigned)i * 7919 + 1;
	for (int i = 0; i < threads; i++)
		pthread_create(&thread[i], NULL, work, &worker[i]);
	if (argc > 4)
		pthread_create(&other, NULL, forker, NULL);
	SAY("ready\n");
	while (read(fd, &c, 1) == 1) {
		pid_t pid;

		switch (c) {
		case 'e': SAY("epoch %u\n", __atomic_add_fetch(&epoch, 1, __ATOMIC_SEQ_CST)); break;
		case 'h': hold(); break;
		case 'g': go(); break;
		case 'f':
			pid = fork();
			if (pid == 0) {
				fd = fd2;
				threads = standing = 0;
			} else
				SAY("child %d\n", (int)pid);
			break;
		case 'j': jail(); break;
#ifdef PLUGIN
		case 'd': load(); break;
		case 'p': use(); break;
#endif
		case 'x':
			execv(self, arguments);
			_exit(96);
		default: return 95;
		}
	}
	__atomic_store_n(&ending, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&holding, 0, __ATOMIC_RELEASE);
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	if (argc > 4 && threads)
		pthread_join(other, NULL);
	for (int i = 0; i < THREADS; i++)
		for (int k = 0; k < BLOCKS; k++)
			if (worker[i].block[k].at)
				look(&worker[i].block[k]);
	return wrong;
}
