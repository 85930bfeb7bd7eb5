/*
 * limit FILE THREADS SIZE [OPERATIONS]: allocates until it is stopped, and keeps its own books in FILE, which outlives it. SIZE 0: random sizes, from
 * all functions, and releases between. With OPERATIONS it ends after so many, whatever was refused, having seen to each refusal itself; nothing is allocated or
 * released after its last look at the sums.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../inject/mtrun.h"

#define BLOCKS 4096			/* of a thread, at most */

static struct books {
	_Atomic uint64_t before;	/* bytes, added before the call and subtracted after the release */
	_Atomic uint64_t held;		/* added after the call, subtracted before the release */
	_Atomic uint64_t most;		/* of `held` */
	_Atomic uint64_t asked;		/* of the last call that did not return; one thread */
	_Atomic uint64_t refused, base, calls, faults;
} *books;

static size_t size;
static unsigned long operations;
static pthread_barrier_t phase;

struct block {
	unsigned char *at;
	size_t size;
};

static uint32_t draw(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*seed >> 33);
}

static void fault(const char *what)
{
	static atomic_int said;

	atomic_fetch_add(&books->faults, 1);
	if (!atomic_exchange(&said, 1))
		dprintf(2, "%s\n", what);
}

static void added(uint64_t n)
{
	uint64_t now = atomic_fetch_add(&books->held, n) + n, most = atomic_load(&books->most);

	while (now > most && !atomic_compare_exchange_weak(&books->most, &most, now))
		;
}

static void asking(uint64_t n)
{
	atomic_store(&books->asked, n);
	atomic_fetch_add(&books->before, n);
	atomic_fetch_add(&books->calls, 1);
	errno = 0;
}

static void answered(const void *p, uint64_t n, int err)
{
	if (p) {
		added(n);
		return;
	}
	if (err != ENOMEM)
		fault("refused without ENOMEM");
	atomic_fetch_sub(&books->before, n);
	atomic_fetch_add(&books->refused, 1);
}

static void give_back(struct block *b)
{
	size_t n = b->size;

	atomic_fetch_sub(&books->held, n);
	free(b->at);
	atomic_fetch_sub(&books->before, n);
	*b = (struct block){ 0 };
}

static void take(struct block *b, size_t n, unsigned how)
{
	void *p = NULL;
	int err = 0;

	asking(n);
	switch (how % 6) {
	case 0: p = calloc(n, 1); break;
	case 1: p = aligned_alloc(64, n); break;
	case 2: err = posix_memalign(&p, 32, n); p = err ? NULL : p; break;
	case 3: p = reallocarray(NULL, 1, n); break;
	case 4: p = realloc(NULL, n); break;
	default: p = malloc(n);
	}
	answered(p, n, err ? err : errno);
	if (!p)
		return;
	*b = (struct block){ p, n };
	memset(p, (int)(n & 255), n < 64 ? n : 64);
}

/* Shrinking and growing; the old block must be as it was when that is refused. */
static void resize(struct block *b, size_t n)
{
	size_t old = b->size;
	unsigned char *p;

	asking(n);
	if (n < old)
		atomic_fetch_sub(&books->held, old - n);
	p = realloc(b->at, n);
	if (!p) {
		answered(NULL, n, errno);
		for (size_t i = 0; i < old && i < 64; i++)
			if (b->at[i] != (old & 255)) {
				fault("realloc was refused and has changed the block");
				break;
			}
		if (n < old)
			fault("realloc to less was refused");
		return;
	}
	atomic_fetch_sub(&books->before, old);
	if (n > old)
		added(n - old);
	*b = (struct block){ p, n };
	memset(p, (int)(n & 255), n < 64 ? n : 64);
}

/* What is freed by the thread that allocated it last; and what only looks as if it were, as somebody else had it in between. */
static void to_and_fro(struct block *b, size_t n, uint64_t *seed)
{
	give_back(b);
	for (unsigned i = draw(seed) % 8; i-- > 0;) {
		take(b, n + i, draw(seed));
		if (b->at && i % 3 == 0)
			resize(b, n);
		if (b->at)
			give_back(b);
	}
}

static void at_random(struct block *block, uint64_t *seed)
{
	for (unsigned long i = 0; !operations || i < operations; i++) {
		struct block *b = &block[draw(seed) % BLOCKS];
		size_t n = draw(seed) % 64 ? 1 + draw(seed) % 500 : 1 + draw(seed) % 20000;

		if (!b->at)
			take(b, n, draw(seed));
		else if (draw(seed) % 8 == 0)
			to_and_fro(b, n, seed);
		else if (draw(seed) % 4 == 0)
			resize(b, n);
		else if (draw(seed) % 3)
			give_back(b);
	}
}

static void work(uint64_t seed)
{
	static _Thread_local struct block block[BLOCKS];

	if (!size)
		at_random(block, &seed);
	for (unsigned long i = 0; size && (!operations || i < operations); i++) {
		asking(size);
		answered(malloc(size), size, errno);
	}
}

/* All threads are there before the first byte is allocated, and after the last. */
static void *thread(void *seed)
{
	pthread_barrier_wait(&phase);
	pthread_barrier_wait(&phase);
	work((uintptr_t)seed);
	pthread_barrier_wait(&phase);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	int fd = argc > 3 ? open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600) : -1, threads;
	pthread_t id;

	if (fd < 0 || ftruncate(fd, sizeof(*books)) < 0)
		return 2;
	books = mmap(NULL, sizeof(*books), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	threads = atoi(argv[2]);
	size = strtoul(argv[3], NULL, 10);
	operations = argc > 4 ? strtoul(argv[4], NULL, 10) : 0;
	pthread_barrier_init(&phase, NULL, (unsigned)threads);
	for (uintptr_t i = 1; i < (uintptr_t)threads; i++)
		if (pthread_create(&id, NULL, thread, (void *)(i * 7919 + (uintptr_t)getpid())) != 0)
			return 2;
	pthread_barrier_wait(&phase);
	atomic_store(&books->base, mtrun_allocated_memory());
	pthread_barrier_wait(&phase);
	work((uint64_t)getpid());
	pthread_barrier_wait(&phase);
	if (operations && mtrun_allocated_memory() != books->held + books->base)
		fault("mtrun counts something else");
	_exit(books->faults ? 1 : 0);
}
