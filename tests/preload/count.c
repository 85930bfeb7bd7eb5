// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * count.c - an independent witness: counts what a program asks of its allocator, by LD_PRELOAD.
 *
 * It shares no code and no idea with mtrun. tests/system/real-counts.py loads it into a program that runs under mtrun,
 * so that both count the same run at the same boundary, and compares:
 *
 *      program -> malloc here (counted) -> the real malloc
 *
 * The rules are those of the specification: a call that gave a block is one alloc, one that took a block is one free, a
 * realloc that succeeded is both, the size is what was asked for, only the outermost of nested calls counts.
 *
 * One file per process image, $MTRUN_COUNT_DIR/PID.N, holds a struct record. It is mapped shared and updated as the program goes, so
 * it is right after exec, _exit, abort and SIGKILL too, and no descriptor stays open. A forked child makes its own (a page that is wiped
 * on fork says that it has none); its counts start at 0 and its live blocks are its parent's. All system calls are made directly: the
 * libc's wrappers may be hooked, or count.
 *
 * Nothing here allocates, takes a lock, or uses stdio. Sizes of live blocks are kept in a table that is directly indexed by address.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define EXPORT __attribute__((visibility("default")))
#define TLS    static _Thread_local __attribute__((tls_model("initial-exec")))

struct record {				/* read by real-counts.py: keep in step */
	char magic[8];			/* "mtcount1" */
	uint64_t pid, ppid;
	_Atomic uint64_t allocs, frees, total, live_bytes, live_blocks, unknown_frees;
	char comm[16];
};

/* ---- system calls without the libc ------------------------------------------------------------------------------------ */

static long call6(long nr, long a, long b, long c, long d, long e, long f)
{
	long ret;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;

	__asm__ volatile("syscall" : "=a"(ret) : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
	return ret;
}

static void *map(size_t len, int prot, int flags, int fd)
{
	long p = call6(SYS_mmap, 0, (long)len, prot, flags, fd, 0);

	return p < 0 && p > -4096 ? NULL : (void *)p;
}

/* ---- the record ------------------------------------------------------------------------------------------------------- */

struct guard { _Atomic int state; };	/* 0: this process has no record yet, 1: being made, 2: made */

static struct guard *_Atomic guard;	/* in a page that is wiped on fork */
static struct record nowhere;		/* where the directory is not to be had */
static struct record *record = &nowhere;
static _Atomic uint64_t live_bytes, live_blocks;	/* this process' own: what a forked child starts with */
static char dir[512];

/* Finds $MTRUN_COUNT_DIR. `environ` may not be set up yet, and the program may write over it later, so: the kernel's copy, once. */
static void find_dir(void)
{
	static const char name[] = "MTRUN_COUNT_DIR=";
	char buf[4096];
	size_t at = 0, len = 0;
	long fd = call6(SYS_openat, AT_FDCWD, (long)"/proc/self/environ", O_RDONLY | O_CLOEXEC, 0, 0, 0), n;

	if (fd < 0)
		return;
	while ((n = call6(SYS_read, fd, (long)buf, sizeof buf, 0, 0, 0)) > 0)
		for (long i = 0; i < n; i++) {
			if (!buf[i]) {
				if (at == sizeof name - 1)
					goto out;
				at = 0;
			} else if (at == sizeof name - 1) {
				if (len < sizeof dir - 64)
					dir[len++] = buf[i];
			} else if (at < sizeof name) {
				at = buf[i] == name[at] ? at + 1 : sizeof name;	/* past the end: not this variable */
			}
		}
out:
	call6(SYS_close, fd, 0, 0, 0, 0, 0);
}

static char *put_number(char *to, unsigned n)
{
	char digits[12];
	int count = 0;

	do
		digits[count++] = (char)('0' + n % 10);
	while (n /= 10);
	while (count)
		*to++ = digits[--count];
	return to;
}

static struct record *new_record(unsigned pid)
{
	char path[sizeof dir + 32], *p;
	struct record *r;
	long fd = -EEXIST;

	if (!dir[0])
		return NULL;
	for (unsigned n = 0; fd == -EEXIST; n++) {	/* exec keeps the pid: the next number */
		size_t len = strlen(dir);

		memcpy(path, dir, len);
		path[len] = '/';
		p = put_number(path + len + 1, pid);
		*p++ = '.';
		*put_number(p, n) = 0;
		fd = call6(SYS_openat, AT_FDCWD, (long)path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666, 0, 0);
	}
	if (fd < 0)
		return NULL;
	call6(SYS_ftruncate, fd, sizeof *r, 0, 0, 0, 0);
	r = map(sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd);
	call6(SYS_close, fd, 0, 0, 0, 0, 0);
	return r;
}

static void make_record(struct guard *g)
{
	unsigned pid = (unsigned)call6(SYS_getpid, 0, 0, 0, 0, 0, 0);
	struct record *r;

	if (!dir[0])
		find_dir();
	r = new_record(pid);
	if (r) {
		memcpy(r->magic, "mtcount1", 8);
		r->pid = pid;
		r->ppid = (uint64_t)call6(SYS_getppid, 0, 0, 0, 0, 0, 0);
		call6(SYS_prctl, PR_GET_NAME, (long)r->comm, 0, 0, 0, 0);
		r->live_bytes = live_bytes;
		r->live_blocks = live_blocks;
	}
	record = r ? r : &nowhere;
	atomic_store(&g->state, 2);
}

static struct guard *make_guard(void)
{
	struct guard *g = map(4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1), *none = NULL;

	if (!g)
		__builtin_trap();
	call6(SYS_madvise, (long)g, 4096, MADV_WIPEONFORK, 0, 0, 0);
	return atomic_compare_exchange_strong(&guard, &none, g) ? g : none;
}

static void ready(void)
{
	struct guard *g = atomic_load_explicit(&guard, memory_order_acquire);
	uint64_t all = ~0ull, old;
	int zero = 0;

	if (g && atomic_load_explicit(&g->state, memory_order_acquire) == 2)
		return;
	if (!g)
		g = make_guard();
	call6(SYS_rt_sigprocmask, 0, (long)&all, (long)&old, 8, 0, 0);
	if (atomic_compare_exchange_strong(&g->state, &zero, 1))
		make_record(g);
	call6(SYS_rt_sigprocmask, 2, (long)&old, 0, 8, 0, 0);
	while (atomic_load(&g->state) != 2)
		call6(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
}

/* ---- sizes of live blocks ----------------------------------------------------------------------------------------------- */

/* One cell per 8 bytes of address space, size + 1 or 0, in chunks that cover 64 MiB each. */
#define CHUNK_BITS 26
static _Atomic uint64_t *_Atomic chunk[1u << (47 - CHUNK_BITS)];

static _Atomic uint64_t *cell(const void *p)
{
	uintptr_t at = (uintptr_t)p;
	_Atomic uint64_t *_Atomic *slot = &chunk[at >> CHUNK_BITS & ((1u << (47 - CHUNK_BITS)) - 1)], *c = atomic_load(slot), *none = NULL;

	if (!c) {
		size_t len = 1u << CHUNK_BITS;

		c = map(len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
		if (!c)
			__builtin_trap();
		if (!atomic_compare_exchange_strong(slot, &none, c)) {
			call6(SYS_munmap, (long)c, (long)len, 0, 0, 0, 0);
			c = none;
		}
	}
	return &c[at >> 3 & ((1u << (CHUNK_BITS - 3)) - 1)];
}

#define ADD(what, n) atomic_fetch_add_explicit(&(what), (n), memory_order_relaxed)

static void live_add(uint64_t bytes, uint64_t blocks)
{
	ADD(live_bytes, bytes);
	ADD(live_blocks, blocks);
	ADD(record->live_bytes, bytes);
	ADD(record->live_blocks, blocks);
}

static void gave(void *p, size_t size)
{
	ready();
	ADD(record->allocs, 1);
	ADD(record->total, size);
	atomic_store_explicit(cell(p), size + 1, memory_order_relaxed);
	live_add(size, 1);
}

/* Takes the block out of the table before the real free: afterwards its address may be another thread's. Returns size + 1 or 0. */
static uint64_t leaves(void *p)
{
	ready();
	return atomic_exchange_explicit(cell(p), 0, memory_order_relaxed);
}

static void took(uint64_t was)
{
	if (was) {
		ADD(record->frees, 1);
		live_add(1 - was, -1ull);
	} else {
		ADD(record->unknown_frees, 1);
	}
}

/* ---- the real functions --------------------------------------------------------------------------------------------------- */

TLS unsigned depth;

static char early[65536];		/* what dlsym asks for while the real malloc is being looked up */
static _Atomic size_t early_used;

static bool is_early(const void *p)
{
	return (const char *)p >= early && (const char *)p < early + sizeof early;
}

static void *early_alloc(size_t size)
{
	size_t at = atomic_fetch_add(&early_used, (size + 31) & ~(size_t)15);

	if (at + size + 16 > sizeof early)
		return NULL;
	return early + at + 16;
}

TLS bool looking;			/* this thread is in dlsym on our behalf */

/* REAL(name): the next definition after ours; NULL within the search for it, or if there is none. */
static void *lookup(void *_Atomic *slot, const char *name)
{
	void *f;

	if (looking)
		return NULL;
	looking = true;
	depth++;
	f = dlsym(RTLD_NEXT, name);
	depth--;
	looking = false;
	atomic_store(slot, f);
	return f;
}

#define REAL(ret, name, ...) \
	static void *_Atomic real_##name; \
	static ret (*get_##name(void))(__VA_ARGS__) \
	{ \
		void *f = atomic_load_explicit(&real_##name, memory_order_acquire); \
		return (ret (*)(__VA_ARGS__))(f ? f : lookup(&real_##name, #name)); \
	}

REAL(void *, malloc, size_t)
REAL(void *, calloc, size_t, size_t)
REAL(void *, realloc, void *, size_t)
REAL(void *, reallocarray, void *, size_t, size_t)
REAL(void, free, void *)
REAL(void *, memalign, size_t, size_t)
REAL(void *, aligned_alloc, size_t, size_t)
REAL(int, posix_memalign, void **, size_t, size_t)
REAL(void *, valloc, size_t)
REAL(void *, pvalloc, size_t)

/* ---- the C functions -------------------------------------------------------------------------------------------------------- */

/* CALL is the real call; on success by the outermost caller the block counts as SIZE bytes. */
#define GIVE(call, size) do { \
	void *p_; \
	depth++; \
	p_ = (call); \
	depth--; \
	if (p_ && !depth) { \
		int errno_ = errno; \
		gave(p_, (size)); \
		errno = errno_; \
	} \
	return p_; \
} while (0)

EXPORT void *malloc(size_t size)
{
	void *(*real)(size_t) = get_malloc();

	if (!real)
		return early_alloc(size);
	GIVE(real(size), size);
}

EXPORT void *calloc(size_t n, size_t size)
{
	void *(*real)(size_t, size_t) = get_calloc();

	if (!real)
		return early_alloc(n * size);
	GIVE(real(n, size), n * size);
}

EXPORT void *memalign(size_t align, size_t size)
{
	void *(*real)(size_t, size_t) = get_memalign();

	if (!real)
		return NULL;
	GIVE(real(align, size), size);
}

EXPORT void *aligned_alloc(size_t align, size_t size)
{
	void *(*real)(size_t, size_t) = get_aligned_alloc();

	if (!real)
		return NULL;
	GIVE(real(align, size), size);
}

EXPORT void *valloc(size_t size)
{
	void *(*real)(size_t) = get_valloc();

	if (!real)
		return NULL;
	GIVE(real(size), size);
}

EXPORT void *pvalloc(size_t size);	/* musl has none */
EXPORT void *pvalloc(size_t size)
{
	void *(*real)(size_t) = get_pvalloc();

	if (!real)
		return NULL;
	GIVE(real(size), size);
}

EXPORT int posix_memalign(void **out, size_t align, size_t size)
{
	int (*real)(void **, size_t, size_t) = get_posix_memalign();
	int err;

	if (!real)
		return ENOMEM;
	depth++;
	err = real(out, align, size);
	depth--;
	if (!err && *out && !depth) {
		int saved = errno;

		gave(*out, size);
		errno = saved;
	}
	return err;
}

EXPORT void free(void *p)
{
	void (*real)(void *);
	int saved = errno;

	if (!p || is_early(p))
		return;
	real = get_free();
	if (!real)
		return;
	if (!depth)
		took(leaves(p));
	errno = saved;
	depth++;
	real(p);
	depth--;
}

/* What a realloc means once its outcome is known. WAS: what leaves() gave. */
static void reallocated(void *old, void *p, size_t size, uint64_t was)
{
	if (p) {
		if (old)
			took(was);
		gave(p, size);
	} else if (old && size) {	/* failed: as it was */
		if (was)
			atomic_store(cell(old), was);
	} else if (old) {
		took(was);
	}
}

static void *early_move(void *old, size_t size)
{
	void *p = malloc(size);
	size_t have = (size_t)(early + sizeof early - (char *)old);

	if (p)
		memcpy(p, old, size < have ? size : have);
	return p;
}

EXPORT void *realloc(void *old, size_t size)
{
	void *(*real)(void *, size_t) = get_realloc(), *p;
	int outer = !depth, saved = errno;
	uint64_t was = 0;

	if (is_early(old) || !real)
		return real || old ? early_move(old, size) : early_alloc(size);
	if (outer && old)
		was = leaves(old);
	errno = saved;
	depth++;
	p = real(old, size);
	depth--;
	saved = errno;
	if (outer)
		reallocated(old, p, size, was);
	errno = saved;
	return p;
}

EXPORT void *reallocarray(void *old, size_t n, size_t size)
{
	void *(*real)(void *, size_t, size_t) = get_reallocarray(), *p;
	int outer = !depth, saved = errno, overflow;
	uint64_t was = 0;
	size_t bytes;

	if (!real)
		return NULL;
	overflow = __builtin_mul_overflow(n, size, &bytes);
	if (outer && old)
		was = leaves(old);
	errno = saved;
	depth++;
	p = real(old, n, size);
	depth--;
	saved = errno;
	if (outer)
		reallocated(old, p, overflow ? SIZE_MAX : bytes, was);
	errno = saved;
	return p;
}

/* ---- the C++ operators -------------------------------------------------------------------------------------------------------- */

/*
 * libstdc++'s come to malloc, but other allocators' do not. The throwing forms ask the nothrow form first, so that no exception passes while `depth` is
 * raised; when there is no memory the throwing form is called from outside, to throw.
 */
REAL(void *, _ZnwmRKSt9nothrow_t, size_t, const void *)
REAL(void *, _ZnamRKSt9nothrow_t, size_t, const void *)
REAL(void *, _ZnwmSt11align_val_tRKSt9nothrow_t, size_t, size_t, const void *)
REAL(void *, _ZnamSt11align_val_tRKSt9nothrow_t, size_t, size_t, const void *)
REAL(void *, _Znwm, size_t)
REAL(void *, _Znam, size_t)
REAL(void *, _ZnwmSt11align_val_t, size_t, size_t)
REAL(void *, _ZnamSt11align_val_t, size_t, size_t)

#define NEW(name, nothrow) \
	EXPORT void *nothrow(size_t size, const void *tag); \
	EXPORT void *nothrow(size_t size, const void *tag) { GIVE(get_##nothrow()(size, tag), size); } \
	static void *try_##name(size_t size) { GIVE(get_##nothrow()(size, ""), size); } \
	EXPORT void *name(size_t size); \
	EXPORT void *name(size_t size) \
	{ \
		void *p = depth ? NULL : try_##name(size); \
		return p ? p : get_##name()(size); \
	}
#define NEW_ALIGNED(name, nothrow) \
	EXPORT void *nothrow(size_t size, size_t align, const void *tag); \
	EXPORT void *nothrow(size_t size, size_t align, const void *tag) { GIVE(get_##nothrow()(size, align, tag), size); } \
	static void *try_##name(size_t size, size_t align) { GIVE(get_##nothrow()(size, align, ""), size); } \
	EXPORT void *name(size_t size, size_t align); \
	EXPORT void *name(size_t size, size_t align) \
	{ \
		void *p = depth ? NULL : try_##name(size, align); \
		return p ? p : get_##name()(size, align); \
	}

NEW(_Znwm, _ZnwmRKSt9nothrow_t)
NEW(_Znam, _ZnamRKSt9nothrow_t)
NEW_ALIGNED(_ZnwmSt11align_val_t, _ZnwmSt11align_val_tRKSt9nothrow_t)
NEW_ALIGNED(_ZnamSt11align_val_t, _ZnamSt11align_val_tRKSt9nothrow_t)

/* All arguments are passed on as they came: there are at most two more, and they are in registers. */
#define DELETE(name) \
	REAL(void, name, void *, size_t, size_t) \
	EXPORT void name(void *p, size_t a, size_t b); \
	EXPORT void name(void *p, size_t a, size_t b) \
	{ \
		if (p && !depth) \
			took(leaves(p)); \
		depth++; \
		get_##name()(p, a, b); \
		depth--; \
	}

DELETE(_ZdlPv)
DELETE(_ZdaPv)
DELETE(_ZdlPvm)
DELETE(_ZdaPvm)
DELETE(_ZdlPvRKSt9nothrow_t)
DELETE(_ZdaPvRKSt9nothrow_t)
DELETE(_ZdlPvSt11align_val_t)
DELETE(_ZdaPvSt11align_val_t)
DELETE(_ZdlPvmSt11align_val_t)
DELETE(_ZdaPvmSt11align_val_t)
DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t)
DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t)
