/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * victim.h - a victim's own books. A victim says at each allocation what it asked for (TOOK, MOVED, GAVE on the line of the call); when it ends
 * it prints what must be true as lines `expect KEY VALUE` on its stdout, which tests/system/mt.py compares with what mtrun says:
 *
 *	expect site.FILE:LINE  LIVE_BYTES,LIVE_BLOCKS,TOTAL_BYTES,TOTAL_BLOCKS	(* for what the libc decides)
 *	expect also.FILE:LINE  1	a library allocates there, or maps: nothing is told about that line
 *	expect block.ADDRESS   BYTES		a block that is live
 *	expect status.KEY      VALUE		a key of `status --json`
 *	expect exact 1				every allocation of the process is in these books: heap, allocs, frees are equal too
 *
 * The books are static arrays behind a spin lock and write(2) prints them: nothing here allocates, stdio included. A signal handler may use
 * them only when it did not interrupt a thread that does (the victims see to that). Works with glibc, musl, C and C++.
 */
#ifndef VICTIM_H
#define VICTIM_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define VICTIM_SITES  1024u
#define VICTIM_BLOCKS (1u << 19)	/* open addressing; power of two */
#define VICTIM_ANY    (-1)		/* a total that the libc decides */

struct victim_site {
	char file[60];			/* a copy: the library it is of may be unloaded */
	int line;
	bool any;			/* totals are not told */
	bool also;			/* a library allocates on this line too: not compared */
	long long live, blocks, total, count;
};
struct victim_block {
	uintptr_t address;		/* 0 free, 1 was used */
	size_t size;
	unsigned site;
};

/* One set of books for a program of several files: the file with main() has VICTIM_MAIN defined. */
#ifdef VICTIM_MAIN
struct victim_site victim_site[VICTIM_SITES];
struct victim_block victim_block[VICTIM_BLOCKS];
unsigned victim_slot[VICTIM_BLOCKS];	/* those that are or were used: the others' pages stay untouched */
unsigned victim_sites, victim_slots;
long long victim_allocs, victim_frees;
int victim_lock_word, victim_is_exact, victim_is_quiet;
char victim_text[1 << 20];
size_t victim_text_len;
#else
extern struct victim_site victim_site[VICTIM_SITES];
extern struct victim_block victim_block[VICTIM_BLOCKS];
extern unsigned victim_slot[VICTIM_BLOCKS];
extern unsigned victim_sites, victim_slots;
extern long long victim_allocs, victim_frees;
extern int victim_lock_word, victim_is_exact, victim_is_quiet;
extern char victim_text[1 << 20];
extern size_t victim_text_len;
#endif

#define VICTIM_UNUSED __attribute__((unused))
#ifdef __clang__
#define VICTIM_NOINLINE __attribute__((noinline, unused))
#else
#define VICTIM_NOINLINE __attribute__((noinline, noclone, unused))
#endif

static VICTIM_UNUSED void victim_lock(void)
{
	while (__atomic_exchange_n(&victim_lock_word, 1, __ATOMIC_ACQUIRE))
		__asm__ volatile("pause");
}
static VICTIM_UNUSED void victim_unlock(void)
{
	__atomic_store_n(&victim_lock_word, 0, __ATOMIC_RELEASE);
}

static VICTIM_UNUSED void victim_die(const char *why)
{
	size_t n = strlen(why);
	if (write(2, why, n) != (ssize_t)n || write(2, "\n", 1) != 1)
		_exit(98);
	_exit(99);
}

static VICTIM_UNUSED unsigned victim_site_of(const char *file, int line)
{
	if (strrchr(file, '/'))
		file = strrchr(file, '/') + 1;
	for (unsigned i = 0; i < victim_sites; i++)
		if (victim_site[i].line == line && !strcmp(victim_site[i].file, file))
			return i;
	if (victim_sites == VICTIM_SITES)
		victim_die("victim: too many sites");
	strncpy(victim_site[victim_sites].file, file, sizeof(victim_site[0].file) - 1);
	victim_site[victim_sites].line = line;
	return victim_sites++;
}

static VICTIM_UNUSED struct victim_block *victim_block_of(uintptr_t address, bool make)
{
	struct victim_block *hole = NULL;
	unsigned h = (unsigned)((address >> 3) * 0x9e3779b97f4a7c15ull >> 40);
	for (unsigned i = 0; i < VICTIM_BLOCKS; i++, h++) {
		struct victim_block *b = &victim_block[h & (VICTIM_BLOCKS - 1)];
		if (b->address == address)
			return b;
		if (b->address == 1 && !hole)
			hole = b;
		if (b->address == 0) {
			if (!hole)
				hole = b;
			break;
		}
	}
	if (make && !hole)
		victim_die("victim: too many blocks");
	return make ? hole : NULL;
}

static VICTIM_UNUSED void victim_book(const char *file, int line, void *p, size_t size, bool any)
{
	unsigned s = victim_site_of(file, line);
	struct victim_block *b = victim_block_of((uintptr_t)p, true);
	if (b->address == (uintptr_t)p)
		victim_die("victim: the same address was given twice");
	if (b->address == 0)
		victim_slot[victim_slots++] = (unsigned)(b - victim_block);
	b->address = (uintptr_t)p;
	b->size = size;
	b->site = s;
	victim_site[s].live += (long long)size;
	victim_site[s].blocks++;
	victim_site[s].total += (long long)size;
	victim_site[s].count++;
	victim_site[s].any |= any;
	victim_allocs++;
}
static VICTIM_UNUSED void victim_strike(void *p)
{
	struct victim_block *b = victim_block_of((uintptr_t)p, false);
	if (!b)
		victim_die("victim: a block that is not in the books was given back");
	victim_site[b->site].live -= (long long)b->size;
	victim_site[b->site].blocks--;
	b->address = 1;
	victim_frees++;
}

VICTIM_NOINLINE static void *victim_took(const char *file, int line, void *p, size_t size, bool any)
{
	if (!p)
		victim_die("victim: an allocation failed that should not");
	victim_lock();
	victim_book(file, line, p, size, any);
	victim_unlock();
	return p;
}
VICTIM_NOINLINE static void *victim_gave(void *p)
{
	if (p) {
		victim_lock();
		victim_strike(p);
		victim_unlock();
	}
	return p;
}
VICTIM_NOINLINE static void victim_also(const char *file, int line)
{
	victim_lock();
	victim_site[victim_site_of(file, line)].also = true;
	victim_unlock();
}
/* realloc gave NOW for OLD. With several threads OLD may have been handed out again already: so strike before the call, book after it. */
VICTIM_NOINLINE static void *victim_moved(const char *file, int line, void *now, size_t size)
{
	return victim_took(file, line, now, size, false);
}

/* Keeps the compiler from knowing what an allocation that must fail would give. */
VICTIM_NOINLINE static bool victim_is_null(void *volatile p)
{
	return !p;
}

/* p = TOOK(malloc(10), 10); free(GAVE(p)); p = MOVED(realloc(GAVE(p), 20), 20) */
#define TOOK(expr, size) ((__typeof__(expr))victim_took(__FILE__, __LINE__, (void *)(expr), (size), false))
#define TOOK_ANY(expr, size) ((__typeof__(expr))victim_took(__FILE__, __LINE__, (void *)(expr), (size), true))
#define ALSO victim_also(__FILE__, __LINE__)
#define GAVE(p) ((__typeof__(p))victim_gave((void *)(p)))
#define MOVED(expr, size) ((__typeof__(expr))victim_moved(__FILE__, __LINE__, (expr), (size)))

static VICTIM_UNUSED __attribute__((format(printf, 1, 2))) void victim_say(const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	int n = vsnprintf(victim_text + victim_text_len, sizeof(victim_text) - victim_text_len, format, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(victim_text) - victim_text_len)
		victim_die("victim: too much to say");
	victim_text_len += (size_t)n;
}

static VICTIM_UNUSED void victim_flush(void)
{
	size_t at = 0;
	while (at < victim_text_len) {
		ssize_t n = write(1, victim_text + at, victim_text_len - at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			_exit(97);
		at += (size_t)n;
	}
	victim_text_len = 0;
}

/* Prints the books. PREFIX: "" or "child " for another process than the first. */
static VICTIM_UNUSED void victim_report_as(const char *prefix)
{
	long long heap = 0, live = 0;
	victim_lock();
	for (unsigned i = 0; i < victim_sites; i++) {
		const struct victim_site *s = &victim_site[i];
		heap += s->live;
		live += s->blocks;
		if (s->also) {
			victim_say("%sexpect also.%s:%d 1\n", prefix, s->file, s->line);
			continue;
		}
		victim_say("%sexpect site.%s:%d %lld,%lld", prefix, s->file, s->line, s->live, s->blocks);
		if (s->any)
			victim_say(",*,*\n");
		else
			victim_say(",%lld,%lld\n", s->total, s->count);
	}
	for (unsigned i = 0; live <= 4000 && i < victim_slots; i++) {
		const struct victim_block *b = &victim_block[victim_slot[i]];
		if (b->address > 1)
			victim_say("%sexpect block.%#lx %zu\n", prefix, (unsigned long)b->address, b->size);
	}
	if (victim_is_exact) {
		victim_say("%sexpect exact 1\n%sexpect status.heap %lld\n%sexpect status.live_blocks %lld\n", prefix, prefix, heap, prefix, live);
		victim_say("%sexpect status.allocs %lld\n%sexpect status.frees %lld\n", prefix, victim_allocs, prefix, victim_frees);
	}
	victim_unlock();
	victim_flush();
}
static VICTIM_UNUSED void victim_report(void)
{
	victim_is_quiet = 1;
	victim_report_as("");
}

/* A forked child: the same live blocks, counts anew. */
static VICTIM_UNUSED void victim_forked(void)
{
	for (unsigned i = 0; i < victim_sites; i++)
		victim_site[i].total = victim_site[i].count = 0;
	victim_allocs = victim_frees = 0;
}

static VICTIM_UNUSED double victim_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

#ifdef VICTIM_MAIN
/* The last thing that runs, after atexit and the other destructors. */
__attribute__((destructor(101))) static void victim_end(void)
{
	if (!victim_is_quiet)
		victim_report();
}
#endif

#endif
