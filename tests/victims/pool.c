// SPDX-License-Identifier: GPL-3.0-or-later
/* pool.c - an allocator of the program's own, for --hook: pool_get(pool, size), pool_zero(n, size, pool), pool_resize(pool, p, size), pool_put(pool, p),
 * pool_aligned(alignment, size), pool_out(&p, alignment, size). */
#define VICTIM_MAIN
#include "victim.h"

struct pool { size_t used, spare; char room[1 << 22]; };
static struct pool pool;
static volatile int keep;

VICTIM_NOINLINE void *pool_get(struct pool *p, size_t size)
{
	char *at = p->room + p->used;
	if (p->used + size + 64 > sizeof(p->room))
		return NULL;
	p->used += (size + 63) & ~63ul;
	keep++;
	return at;
}
VICTIM_NOINLINE void *pool_zero(size_t n, size_t size, struct pool *p)
{
	void *at = pool_get(p, n * size);
	if (at)
		memset(at, 0, n * size);
	return at;
}
VICTIM_NOINLINE void pool_put(struct pool *p, void *at)
{
	p->spare += at != NULL;
	keep++;
}
VICTIM_NOINLINE void *pool_resize(struct pool *p, void *at, size_t size)
{
	void *now = pool_get(p, size);
	if (now && at) {
		memcpy(now, at, 16);
		pool_put(p, at);
	}
	return now;
}
VICTIM_NOINLINE void *pool_aligned(size_t alignment, size_t size)
{
	pool.used = (pool.used + alignment - 1) & ~(alignment - 1);
	return pool_get(&pool, size);
}
VICTIM_NOINLINE int pool_out(void **out, size_t alignment, size_t size)
{
	void *at = pool_aligned(alignment, size);
	if (!at)
		return ENOMEM;
	*out = at;
	return 0;
}

int main(void)
{
	victim_is_exact = 1;
	void *a = TOOK(malloc(141), 141);
	for (int i = 0; i < 100; i++) {
		void *p = TOOK(pool_get(&pool, 142), 142);
		if (i % 4)
			pool_put(&pool, GAVE(p));
	}
	void *z = TOOK(pool_zero(3, 143, &pool), 429);
	z = MOVED(pool_resize(&pool, GAVE(z), 1440), 1440);
	void *n = TOOK(pool_resize(&pool, NULL, 145), 145);
	pool_put(&pool, NULL);
	void *q = TOOK(pool_aligned(256, 146), 146);
	void *o = NULL;
	o = TOOK(pool_out(&o, 512, 147) ? NULL : o, 147);
	if (!victim_is_null(pool_get(&pool, 1 << 23)))
		victim_die("pool: too large");
	pool_put(&pool, GAVE(q));
	(void)a, (void)n;
	return 0;
}
