// SPDX-License-Identifier: GPL-3.0-or-later
/* family.c - every allocation function of C, each on lines of its own: given, given back, refused, of size zero. */
#define VICTIM_MAIN
#include "victim.h"
#include <malloc.h>

#define HUGE ((size_t)PTRDIFF_MAX - 4096)

static volatile size_t zero, one = 1, huge = HUGE;
static void *kept[64];

VICTIM_NOINLINE static void plain(void)
{
	kept[0] = TOOK(malloc(11), 11);
	kept[1] = TOOK(calloc(12, 3), 36);
	kept[2] = TOOK(realloc(NULL, 13), 13);
	kept[3] = TOOK(reallocarray(NULL, 7, 9), 63);
	kept[4] = TOOK(memalign(256, 100), 100);
	kept[5] = TOOK(aligned_alloc(64, 192), 192);
#ifdef __GLIBC__
	kept[6] = TOOK(valloc(77), 77);
	kept[7] = TOOK(pvalloc(5000), 5000);
#endif
	kept[8] = TOOK(posix_memalign(&kept[8], 1024, 333) ? NULL : kept[8], 333);
	free(GAVE(TOOK(malloc(1011), 1011)));
	free(GAVE(TOOK(calloc(10, 103), 1030)));
	free(GAVE(TOOK(memalign(4096, 10000), 10000)));
	free(GAVE(TOOK(aligned_alloc(16, 32), 32)));
	free(NULL);
	free((void *)zero);
}

VICTIM_NOINLINE static void strings(void)
{
	char text[] = "nineteen characters";
	volatile size_t hundred = 100;
	char *s;

	kept[9] = TOOK_ANY(strdup(text), strlen(text) + 1);
	kept[10] = TOOK_ANY(strndup(text, 8), 9);
	kept[11] = TOOK_ANY(strndup(text, hundred), strlen(text) + 1);
	int n = asprintf(&s, "%s and %d", text, 12345); TOOK_ANY(s, (size_t)n + 1);
	n = asprintf(&s, "%0300d", 1); TOOK_ANY(s, (size_t)n + 1);
	s = getcwd(NULL, 0); TOOK_ANY(s, strlen(s) + 1);
}

VICTIM_NOINLINE static void nothing(void)
{
	/* a block of size 0 is a block */
	kept[20] = TOOK(malloc(zero), 0);
	kept[21] = TOOK(calloc(zero, 8), 0);
	kept[22] = TOOK(calloc(8, zero), 0);
	kept[23] = TOOK(realloc(NULL, zero), 0);
	free(GAVE(TOOK(malloc(zero), 0)));
	kept[24] = TOOK(memalign(32, zero), 0);
	if (posix_memalign(&kept[25], 32, zero) == 0 && kept[25]) TOOK(kept[25], 0);
	/* realloc(p, 0): glibc frees and says NULL, musl gives a block of size 0 */
	void *p = TOOK(malloc(50), 50);
	void *q = realloc(GAVE(p), zero); if (q) TOOK(q, 0);
	p = TOOK(malloc(60), 60);
	q = reallocarray(GAVE(p), 4, zero); if (q) TOOK(q, 0);
}

VICTIM_NOINLINE static void refused(void)
{
	void *volatile p = TOOK(malloc(70), 70);
	void *out = &out;
	int bad = 0;

	memset(p, 7, 70);
	bad |= !victim_is_null(malloc(huge));
	bad |= !victim_is_null(calloc(huge, 3));
	bad |= !victim_is_null(calloc(SIZE_MAX / 2 + one, 2));
	bad |= !victim_is_null(realloc(NULL, huge));
	bad |= !victim_is_null(realloc(p, huge));
	bad |= !victim_is_null(reallocarray(p, SIZE_MAX / 4, 8 * one));
	bad |= !victim_is_null(reallocarray(NULL, SIZE_MAX / 4, 8 * one));
	bad |= !victim_is_null(memalign(64, huge));
	bad |= !victim_is_null(aligned_alloc(64, huge & ~(size_t)63));
#ifdef __GLIBC__
	bad |= !victim_is_null(valloc(huge));
	bad |= !victim_is_null(pvalloc(huge));
#endif
	bad |= posix_memalign(&out, 3 * one, 10) != EINVAL;
	bad |= posix_memalign(&out, 64, huge) != ENOMEM;
	bad |= out != &out;
	for (int i = 0; i < 70; i++)
		bad |= ((char *)p)[i] != 7;
	if (bad)
		victim_die("family: something that must fail did not");
}

VICTIM_NOINLINE static void chains(void)
{
	/* a chain that grows, one that shrinks, one that moves between arena and mapping, one that ends */
	void *p = TOOK(malloc(1), 1);
	for (size_t n = 2; n <= 1 << 20; n *= 2)
		p = MOVED(realloc(GAVE(p), n), n);
	void *q = TOOK(calloc(1, 1 << 20), 1 << 20);
	for (size_t n = 1 << 19; n >= 1; n /= 2)
		q = MOVED(realloc(GAVE(q), n), n);
	void *r = TOOK(malloc(100), 100);
	for (int i = 0; i < 50; i++) {
		r = MOVED(realloc(GAVE(r), 300000), 300000);
		r = MOVED(realloc(GAVE(r), 100), 100);
		r = MOVED(reallocarray(GAVE(r), 5, 20), 100);
	}
	void *s = TOOK(memalign(4096, 5000), 5000);
	s = MOVED(realloc(GAVE(s), 6000), 6000);
	free(GAVE(s));
	/* the same size again, in place: one free and one alloc, the stack is realloc's */
	kept[40] = TOOK(malloc(40), 40);
	kept[40] = MOVED(realloc(GAVE(kept[40]), 40), 40);
	kept[41] = p;
	kept[42] = q;
	kept[43] = r;
}

int main(void)
{
	plain();
	strings();
	nothing();
	refused();
	chains();
	return 0;
}
