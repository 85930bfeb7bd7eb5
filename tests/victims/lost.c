// SPDX-License-Identifier: GPL-3.0-or-later
/* lost.c - leaks of C programs (lost.h). $LOST_LIBRARY: lost_plugin. The cases that are called keep_... lose nothing. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#ifdef __GLIBC__
#include <ucontext.h>
#endif

#include "lost.h"

struct node {
	struct node *left, *right;
	char more[16];
};

/* A tree of 2^DEPTH - 1 nodes: the root as AT, what hangs on it as indirect. */
NOINLINE static struct node *tree(unsigned depth, size_t *at)
{
	struct node *n = malloc(add(at, sizeof(*n), 1));

	memset(n, 0, sizeof(*n));
	if (depth > 1) {
		n->left = tree(depth - 1, indirect);
		n->right = tree(depth - 1, indirect);
	}
	return n;
}

NOINLINE static struct node *list(size_t length, size_t *at)
{
	struct node *first = NULL;

	for (size_t i = 0; i < length; i++) {
		struct node *n = malloc(add(i == length - 1 ? at : indirect, sizeof(*n), 1));

		*n = (struct node){ .left = first };
		first = n;
	}
	return first;
}

/* ---- graphs ---------------------------------------------------------------------------------------------------------------------- */

static void lose_block(void) { drop(malloc(DEFINITE(100))); }

static void lose_sizes(void)
{
	static const size_t size[] = { 1, 7, 8, 9, 24, 25, 1000, 4096, 100000, 5000000 };

	for (size_t i = 0; i < sizeof(size) / sizeof(*size); i++)
		drop(malloc(DEFINITE(size[i])));
}

static void lose_nothing(void) { drop(malloc(DEFINITE(0))); }

static void lose_chain(void) { drop(list(100, definite)); }

static void lose_long_chain(void) { drop(list(100000, definite)); }

static void lose_tree(void) { drop(tree(8, definite)); }

/* Of a circle the block that is looked at first leads: which one is not said, they are all alike. */
static void lose_cycle(void)
{
	struct node *a = malloc(DEFINITE(sizeof(*a))), *b = malloc(INDIRECT(sizeof(*b)));

	*a = (struct node){ .left = b };
	*b = (struct node){ .left = a };
	drop(a);
}

static void lose_self(void)
{
	struct node *a = malloc(DEFINITE(sizeof(*a)));

	*a = (struct node){ .left = a, .right = a };
	drop(a);
}

/* A circle of ten with a tree on each. */
static void lose_ring(void)
{
	struct node *first = NULL, *last = NULL;

	for (int i = 0; i < 10; i++) {
		struct node *n = malloc(i ? INDIRECT(sizeof(*n)) : DEFINITE(sizeof(*n)));

		*n = (struct node){ .left = last, .right = tree(3, indirect) };
		first = first ? first : n;
		last = n;
	}
	first->left = last;
	drop(first);
}

/* Two that are lost hold the same third. */
static void lose_shared(void)
{
	struct node *a = malloc(DEFINITE(sizeof(*a))), *b = malloc(DEFINITE(sizeof(*b))), *c = list(5, indirect);

	*a = (struct node){ .left = c };
	*b = (struct node){ .right = c };
	drop(a);
	drop(b);
}

/* One that is lost and holds what is not. */
static struct node *volatile kept;
static void lose_holder(void)
{
	struct node *a = malloc(DEFINITE(sizeof(*a)));

	kept = malloc(sizeof(*kept));
	*kept = (struct node){ 0 };
	*a = (struct node){ .left = kept, .right = tree(2, indirect) };
	drop(a);
}

static void lose_table(void)
{
	void **table = malloc(DEFINITE(1000 * sizeof(*table)));

	for (size_t i = 0; i < 1000; i++)
		table[i] = calloc(1, INDIRECT(i));
	drop(table);
}

/* The middle of a list that is kept is cut off. */
static void lose_tail(void)
{
	struct node *third;

	kept = list(3, definite);
	definite[0] = definite[1] = indirect[0] = indirect[1] = 0;
	third = kept->left->left;
	third->left = list(7, definite);
	__asm__ volatile("" ::"r"(third) : "memory");
	third->left = NULL;
}

/* What a freed block held. */
static void lose_freed_parent(void)
{
	struct node *parent = malloc(sizeof(*parent) + 64);
	void **slot = (void **)(parent + 1);

	memset(parent, 0, sizeof(*parent) + 64);
	slot[0] = tree(3, definite);
	slot[1] = list(4, definite);
	slot[2] = malloc(DEFINITE(33));
	__asm__ volatile("" ::"r"(parent) : "memory");
	free(parent);
}

static void lose_freed_big_parent(void)
{
	void **table = calloc(100, sizeof(*table));

	for (size_t i = 0; i < 100; i++)
		table[i] = malloc(DEFINITE(48));
	__asm__ volatile("" ::"r"(table) : "memory");
	drop(malloc(DEFINITE(16)));             /* so that it is not at the end of the heap */
	free(table);
}

/* ---- pointers that are not at the beginning ---------------------------------------------------------------------------------------- */

static char *volatile interior;
static void keep_interior(void) { interior = (char *)malloc(100) + 40; }

static void keep_tagged(void) { interior = (char *)malloc(100) + 1; }

/* Beginning in the middle of the block above, it finds all the same. */
static void lose_interior_chain(void)
{
	char **last = NULL;

	for (int i = 0; i < 10; i++) {
		char **p = malloc(i < 9 ? INDIRECT(80) : DEFINITE(80));

		memset(p, 0, 80);
		p[3] = last ? (char *)last + 24 : NULL;
		last = p;
	}
	drop(last);
}

static void lose_one_past(void) { interior = (char *)malloc(DEFINITE(112)) + 112; }

static volatile uintptr_t hidden;
static void lose_xored(void) { hidden = (uintptr_t)malloc(DEFINITE(100)) ^ 0x5555555555555555; }

static void lose_high_tagged(void) { hidden = (uintptr_t)malloc(DEFINITE(100)) | (uintptr_t)1 << 62; }

static struct __attribute__((packed)) {
	char c[3];
	void *volatile p;
} packed;
static void lose_unaligned(void) { packed.p = malloc(DEFINITE(100)); }

/* ---- where the last pointer is ----------------------------------------------------------------------------------------------------- */

static void *volatile in_data = (void *)&in_data;
static void keep_globals(void)
{
	static void *volatile local;

	in_data = list(3, indirect);
	local = malloc(10);
	indirect[0] = indirect[1] = 0;
}

static __thread void *volatile in_tls;
static void keep_tls(void) { in_tls = malloc(100); }

static void lose_tls(void)
{
	keep_tls();
	add(definite, 100, 1);
	in_tls = NULL;
}

/* By the number of the register. */
#define KEEP_REGISTER(reg)                                                                                                                 \
	static void keep_##reg(void)                                                                                                       \
	{                                                                                                                                  \
		uintptr_t p = ~(uintptr_t)malloc(100);                                                                                     \
                                                                                                                                           \
		say();                                                                                                                     \
		scrub();                                                                                                                   \
		__asm__ volatile("mov %0, %%" #reg "\nxor %0, %0\nnot %%" #reg "\nxor %%edi, %%edi\nmov $231, %%eax\nsyscall" ::"r"(p)     \
				 : #reg, "rdi", "rax", "rcx", "r11", "memory");                                                            \
	}
KEEP_REGISTER(rbx)
KEEP_REGISTER(r15)
KEEP_REGISTER(rdx)

static void keep_xmm(void)
{
	uintptr_t p = ~(uintptr_t)malloc(100);

	say();
	scrub();
	__asm__ volatile("not %0\nmovq %0, %%xmm9\nxor %0, %0\nxor %%edi, %%edi\nmov $231, %%eax\nsyscall" : "+r"(p)::"xmm9", "rdi", "rax", "rcx", "r11",
			 "memory");
}

static void keep_stack(void)
{
	void *volatile p = malloc(100);

	finish();
	drop(p);
}

/* A function that has returned had it on the stack. */
NOINLINE static void deep(size_t n)
{
	void *volatile p = malloc(n);

	(void)p;
}
static void lose_popped(void)
{
	deep(DEFINITE(100));
	scrub();
	/* far enough below what is called from here on that nobody overwrites it */
	uintptr_t p = ~(uintptr_t)malloc(DEFINITE(50));
	say();
	scrub();
	__asm__ volatile("not %0\nmov %0, -16384(%%rsp)\nxor %0, %0\nxor %%edi, %%edi\nmov $231, %%eax\nsyscall" : "+r"(p)::"rdi", "rax", "rcx", "r11", "memory");
}

static void keep_red_zone(void)
{
	uintptr_t p = ~(uintptr_t)malloc(50);

	say();
	scrub();
	__asm__ volatile("not %0\nmov %0, -104(%%rsp)\nxor %0, %0\nxor %%edi, %%edi\nmov $231, %%eax\nsyscall" : "+r"(p)::"rdi", "rax", "rcx", "r11", "memory");
}

static void on_signal(int sig)
{
	void *volatile p = malloc(100);

	(void)sig;
	finish();
	drop(p);
}
static void keep_alternative(void)
{
	stack_t stack = { .ss_size = 1 << 18 };
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };

	stack.ss_sp = mmap(NULL, stack.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
}

#ifdef __GLIBC__ /* musl has none of these */
static ucontext_t main_context, other_context;

NOINLINE static void coroutine(void)
{
	void *volatile p = malloc(100);

	swapcontext(&other_context, &main_context);
	drop(p);
}

/* A coroutine that waits: its stack is a mapping of its own, or a block that somebody holds. */
static void coroutine_on(void *stack)
{
	getcontext(&other_context);
	other_context.uc_stack.ss_sp = stack;
	other_context.uc_stack.ss_size = 1 << 16;
	makecontext(&other_context, coroutine, 0);
	swapcontext(&main_context, &other_context);
}
static void keep_coroutine(void) { coroutine_on(mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)); }

static void keep_coroutine_in_block(void)
{
	void *stack = malloc(1 << 16);

	memset(stack, 0, 1 << 16);
	coroutine_on(stack);
}

/* Nobody knows of it any more. */
static void lose_coroutine(void)
{
	void *stack = malloc(DEFINITE(1 << 16));

	memset(stack, 0, 1 << 16);
	add(indirect, 100, 1);
	coroutine_on(stack);
	memset(&other_context, 0, sizeof(other_context));
	memset(&main_context, 0, sizeof(main_context));
}
#endif

/* ---- threads ------------------------------------------------------------------------------------------------------------------------ */

static pthread_barrier_t there;

static void *ends_with_stack(void *arg)
{
	void *volatile p = malloc(100);

	(void)p;
	return arg;
}
static void lose_ended_thread(void)
{
	pthread_t t;

	add(definite, 100, 1);
	pthread_create(&t, NULL, ends_with_stack, NULL);
	pthread_join(t, NULL);
}

static void *ends_with_tls(void *arg)
{
	in_tls = malloc(100);
	return arg;
}
static void lose_ended_tls(void)
{
	pthread_t t;

	add(definite, 100, 1);
	pthread_create(&t, NULL, ends_with_tls, NULL);
	pthread_join(t, NULL);
}

static pthread_key_t key;
static void *ends_with_key(void *arg)
{
	pthread_setspecific(key, malloc(100));
	return arg;
}
static void lose_ended_key(void)
{
	pthread_t t;

	add(definite, 100, 1);
	pthread_key_create(&key, NULL);
	pthread_create(&t, NULL, ends_with_key, NULL);
	pthread_join(t, NULL);
}
static void keep_key(void)
{
	pthread_key_create(&key, NULL);
	pthread_setspecific(key, malloc(100));
}

static void *ends_with_result(void *arg)
{
	(void)arg;
	return malloc(100);
}
static void lose_result(void)
{
	pthread_t t;

	add(definite, 100, 1);
	pthread_create(&t, NULL, ends_with_result, NULL);
	pthread_join(t, NULL);
}

static void *waits_with_stack(void *arg)
{
	void *volatile p = malloc(100);

	pthread_barrier_wait(&there);
	pause();
	drop(p);
	return arg;
}
static void *waits_with_tls(void *arg)
{
	in_tls = malloc(100);
	pthread_barrier_wait(&there);
	pause();
	return arg;
}
static void with_thread(void *(*fn)(void *arg))
{
	pthread_t t;

	pthread_barrier_init(&there, NULL, 2);
	pthread_create(&t, NULL, fn, NULL);
	pthread_barrier_wait(&there);
}
static void keep_in_threads_stack(void) { with_thread(waits_with_stack); }
static void keep_in_threads_tls(void) { with_thread(waits_with_tls); }

/* In a loop that uses no memory. */
static void *spins_with_register(void *arg)
{
	uintptr_t p = ~(uintptr_t)malloc(100);

	pthread_barrier_wait(&there);
	scrub();
	__asm__ volatile("mov %0, %%r14\nxor %0, %0\nnot %%r14\n1: pause\njmp 1b" : "+r"(p)::"r14", "memory");
	return arg;
}
static void keep_in_threads_register(void)
{
	with_thread(spins_with_register);
	usleep(20000);
}

/* ---- mappings, libraries -------------------------------------------------------------------------------------------------------------- */

static void **map(int flags) { return mmap(NULL, 4096, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0); }

static void keep_mapped(void) { map(MAP_PRIVATE)[7] = malloc(100); }
static void keep_in_shared(void) { map(MAP_SHARED)[7] = malloc(100); }

/* The pointer was written while it could be. */
static void keep_read_only(void)
{
	void **m = map(MAP_PRIVATE);

	m[7] = malloc(100);
	mprotect(m, 4096, PROT_READ);
}

static void lose_unmapped(void)
{
	void **m = map(MAP_PRIVATE);

	m[7] = malloc(DEFINITE(100));
	munmap(m, 4096);
}

static void *library(const char *how)
{
	void *lib = dlopen(getenv("LOST_LIBRARY"), RTLD_NOW);
	void (*fill)(void);

	if (!lib) {
		fprintf(stderr, "lost: %s\n", dlerror());
		_exit(97);
	}
	*(void **)&fill = dlsym(lib, how);
	fill();
	return lib;
}

static void *volatile lib;
static void keep_library(void) { lib = library("lost_fill"); }

static void lose_dlclosed(void)
{
	add(definite, 100, 1);
	add(indirect, 50, 1);
	dlclose(library("lost_fill"));
}

/* ---- functions ------------------------------------------------------------------------------------------------------------------------ */

static void lose_realloced(void)
{
	char *p = NULL;

	for (size_t n = 10; n <= 10 << 12; n *= 2)
		p = realloc(p, n);
	add(definite, 10 << 12, 1);
	drop(p);
}

/* The parent moves with what it holds; who holds it does not hear of that. */
static char *volatile stale;
static void lose_moved(void)
{
	struct node *n = malloc(sizeof(*n)), *at = n, *others[64];

	*n = (struct node){ .left = list(3, indirect) };
	stale = (char *)n;
	for (size_t size = 1000; at == n; size *= 2) {
		for (int i = 0; i < 64; i++)
			others[i] = malloc(100);        /* so that it has no room where it is */
		at = realloc(at, size);
		if (at != n)
			add(definite, size, 1);
		for (int i = 0; i < 64; i++)
			free(others[i]);
	}
	memset(others, 0, sizeof(others));
	memset((char *)at + sizeof(*at), 0, 900);
	drop(at);
}

static void lose_aligned(void)
{
	void *p;

	drop(aligned_alloc(64, DEFINITE(640)));
	drop(calloc(3, DEFINITE(33 * 3) / 3));
	if (posix_memalign(&p, 4096, DEFINITE(5000)) == 0)
		drop(p);
	p = NULL;
	drop(strdup("twelve bytes"));
	add(definite, 13, 1);
}

/* A block so large that it is a mapping of its own, lost with what it holds. */
static void lose_huge(void)
{
	struct node **p = malloc(DEFINITE(4 << 20));

	p[(2 << 20) / sizeof(*p)] = tree(4, indirect);
	drop(p);
}

/*
 * jemalloc notes for each thread of which GB it was last asked: that is no pointer to what begins there.
 * A multiple of 4 GB will not do: the lower half of such an address is zero. An old pointer on the stack
 * whose lower half was overwritten by an int of 0 would point to the block.
 */
static void lose_at_gigabyte(void)
{
	void *p = aligned_alloc((size_t)1 << 30, 100), *first = NULL;

	if (p && !(uint32_t)(uintptr_t)p) {
		first = p;
		p = aligned_alloc((size_t)1 << 30, 100);
	}
	free(first);
	if (p)
		add(definite, 100, 1);
	drop(p);
}

static const struct lost cases[] = {
	{ "block", lose_block },
	{ "sizes", lose_sizes },
	{ "zero-bytes", lose_nothing },
	{ "chain", lose_chain },
	{ "long-chain", lose_long_chain },
	{ "tree", lose_tree },
	{ "cycle", lose_cycle },
	{ "self", lose_self },
	{ "ring", lose_ring },
	{ "shared", lose_shared },
	{ "holder-of-reachable", lose_holder },
	{ "table", lose_table },
	{ "tail", lose_tail },
	{ "freed-parent", lose_freed_parent },
	{ "freed-table", lose_freed_big_parent },
	{ "interior", keep_interior },
	{ "low-tag", keep_tagged },
	{ "interior-chain", lose_interior_chain },
	{ "one-past", lose_one_past },
	{ "xored", lose_xored },
	{ "high-tag", lose_high_tagged },
	{ "unaligned", lose_unaligned },
	{ "globals", keep_globals },
	{ "tls", keep_tls },
	{ "tls-lost", lose_tls },
	{ "rbx", keep_rbx },
	{ "r15", keep_r15 },
	{ "rdx", keep_rdx },
	{ "xmm", keep_xmm },
	{ "stack", keep_stack },
	{ "popped", lose_popped },
	{ "red-zone", keep_red_zone },
	{ "alternative-stack", keep_alternative },
#ifdef __GLIBC__
	{ "coroutine", keep_coroutine },
	{ "coroutine-in-block", keep_coroutine_in_block },
	{ "coroutine-lost", lose_coroutine },
#endif
	{ "thread-ended", lose_ended_thread },
	{ "thread-ended-tls", lose_ended_tls },
	{ "thread-ended-key", lose_ended_key },
	{ "thread-key", keep_key },
	{ "thread-result", lose_result },
	{ "thread-stack", keep_in_threads_stack },
	{ "thread-tls", keep_in_threads_tls },
	{ "thread-register", keep_in_threads_register },
	{ "mapped", keep_mapped },
	{ "shared-memory", keep_in_shared },
	{ "read-only", keep_read_only },
	{ "unmapped", lose_unmapped },
	{ "library", keep_library },
	{ "dlclosed", lose_dlclosed },
	{ "realloc", lose_realloced },
	{ "realloc-moved", lose_moved },
	{ "aligned", lose_aligned },
	{ "huge", lose_huge },
	{ "at-a-gigabyte", lose_at_gigabyte },
};

int main(int argc, char **argv) { return lost_main(argc, argv, cases, sizeof(cases) / sizeof(*cases)); }
