// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * memtracer - stands for MiniOB's libmemtracer.so, written after what that does: the same names are exported, what is allocated through them is added
 * up (the executable's text in it), a limit and an interval are taken from the environment, a thread prints every interval, at first at once, and
 * the first allocation above the limit is told and ends the program with exit(-1). What it does not support ends the program, too.
 */
#include <atomic>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define VISIBLE __attribute__((visibility("default")))

namespace {

struct {
	std::atomic<size_t> bytes{0}, blocks{0};
	size_t limit = SIZE_MAX;
	int64_t interval = 5000, printed = 0;
	std::atomic<bool> end{false};
	pthread_t thread = 0;
	bool started = false;
} books;

void *(*next_malloc)(size_t);
void (*next_free)(void *);
void *(*next_mmap)(void *, size_t, int, int, int, off_t);
int (*next_munmap)(void *, size_t);
char early[8192];			// dlsym() itself allocates
size_t early_used;

constexpr size_t before = 16;		// where a block's size is kept

void find_next()
{
	if (next_malloc)
		return;
	next_free = reinterpret_cast<void (*)(void *)>(dlsym(RTLD_NEXT, "free"));
	next_mmap = reinterpret_cast<void *(*)(void *, size_t, int, int, int, off_t)>(dlsym(RTLD_NEXT, "mmap"));
	next_munmap = reinterpret_cast<int (*)(void *, size_t)>(dlsym(RTLD_NEXT, "munmap"));
	next_malloc = reinterpret_cast<void *(*)(size_t)>(dlsym(RTLD_NEXT, "malloc"));
}

void say(const char *format, ...)
{
	char line[300];
	va_list args;

	va_start(args, format);
	int n = std::vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (write(2, line, static_cast<size_t>(n)) != n)
		_exit(1);
}

void count(size_t n)
{
	size_t held = books.bytes.fetch_add(n) + n;

	books.blocks++;
	if (held > books.limit) {
		say("[MEMTRACER] alloc memory:%zu, allocated_memory: %zu, memory_limit: %zu, Memory limit exceeded!\n", n, held, books.limit);
		exit(-1);
	}
}

[[noreturn]] void unsupported(const char *name)
{
	say("[MEMTRACER] %s not supported\n", name);
	exit(-1);
}

int64_t now_ms()
{
	timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return int64_t(t.tv_sec) * 1000 + t.tv_nsec / 1000000;
}

void *print(void *)
{
	while (!books.end) {
		int64_t now = now_ms();

		if (int64_t(uint64_t(books.interval) + uint64_t(books.printed)) < now) {
			books.printed = now;
			say("[MEMTRACER] allocated memory: %zu, metadata memory: %zu\n", books.bytes.load(), books.blocks.load() * 8);
		}
		usleep(100000);
	}
	return nullptr;
}

__attribute__((constructor)) void begin()
{
	const char *limit = getenv("MT_MEMORY_LIMIT"), *interval = getenv("MT_PRINT_INTERVAL_MS");
	char text[4096], *at;
	FILE *f = fopen("/proc/self/status", "r");

	find_next();
	if (limit)
		books.limit = strtoull(limit, nullptr, 10);
	if (interval)
		books.interval = int64_t(strtoull(interval, nullptr, 10));
	while (f && fgets(text, sizeof(text), f))
		if (!strncmp(text, "VmExe:", 6))
			books.bytes += strtoull(text + 6, &at, 10) * 1024;
	if (f)
		fclose(f);
	books.started = pthread_create(&books.thread, nullptr, print, nullptr) == 0;
}

__attribute__((destructor)) void finish()
{
	books.end = true;
	if (books.started && !pthread_equal(books.thread, pthread_self()))
		pthread_join(books.thread, nullptr);
}

size_t &size_of(void *p)
{
	return *reinterpret_cast<size_t *>(static_cast<char *>(p) - before);
}

bool is_early(const void *p)
{
	return p >= early && p < early + sizeof(early);
}

}

extern "C" {

VISIBLE void *malloc(size_t n)
{
	if (!next_malloc)
		find_next();
	char *p = static_cast<char *>(next_malloc(n + before));

	if (!p)
		return nullptr;
	size_of(p + before) = n;
	count(n);
	return p + before;
}

VISIBLE void free(void *p)
{
	if (!p || is_early(p))
		return;
	books.bytes -= size_of(p);
	books.blocks--;
	next_free(static_cast<char *>(p) - before);
}

VISIBLE void *calloc(size_t n, size_t size)
{
	if (!next_malloc) {
		void *p = early + early_used;

		early_used += (n * size + 15) & ~size_t(15);
		return p;
	}
	void *p = malloc(n * size);

	return p ? memset(p, 0, n * size) : nullptr;
}

VISIBLE void *realloc(void *p, size_t n)
{
	if (!p)
		return malloc(n);
	if (size_of(p) >= n)
		return p;
	void *q = malloc(n);

	if (q) {
		memcpy(q, p, size_of(p));
		free(p);
	}
	return q;
}

VISIBLE void cfree(void *p) { free(p); }

VISIBLE void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
	find_next();
	void *p = next_mmap(at, n, prot, flags, fd, offset);

	if (p != MAP_FAILED)
		count(n);
	return p;
}

VISIBLE int munmap(void *at, size_t n)
{
	find_next();
	if (next_munmap(at, n))
		return -1;
	books.bytes -= n;
	books.blocks--;
	return 0;
}

VISIBLE char *strndup(const char *s, size_t n)
{
	size_t len = strnlen(s, n);
	char *p = static_cast<char *>(malloc(len + 1));

	if (p) {
		memcpy(p, s, len);
		p[len] = '\0';
	}
	return p;
}

VISIBLE char *strdup(const char *s) { return strndup(s, strlen(s)); }
VISIBLE void *memalign(size_t, size_t) { unsupported("memalign"); }
VISIBLE void *valloc(size_t) { unsupported("valloc"); }
VISIBLE void *pvalloc(size_t) { unsupported("pvalloc"); }
VISIBLE int posix_memalign(void **, size_t, size_t) { unsupported("posix_memalign"); }
VISIBLE char *realpath(const char *, char *) { unsupported("realpath"); }

VISIBLE void *__libc_malloc(size_t n) __attribute__((alias("malloc")));
VISIBLE void *__libc_calloc(size_t n, size_t size) __attribute__((alias("calloc")));
VISIBLE void *__libc_realloc(void *p, size_t n) __attribute__((alias("realloc")));
VISIBLE void __libc_free(void *p) __attribute__((alias("free")));
VISIBLE void __libc_cfree(void *p) __attribute__((alias("cfree")));
VISIBLE void *__libc_memalign(size_t alignment, size_t n) __attribute__((alias("memalign")));
VISIBLE void *__libc_valloc(size_t n) __attribute__((alias("valloc")));
VISIBLE void *__libc_pvalloc(size_t n) __attribute__((alias("pvalloc")));
VISIBLE int __posix_memalign(void **p, size_t alignment, size_t n) __attribute__((alias("posix_memalign")));

}

VISIBLE void *operator new(size_t n) { return malloc(n); }
VISIBLE void *operator new[](size_t n) { return malloc(n); }
VISIBLE void *operator new(size_t n, const std::nothrow_t &) noexcept { return malloc(n); }
VISIBLE void *operator new[](size_t n, const std::nothrow_t &) noexcept { return malloc(n); }
VISIBLE void operator delete(void *p) noexcept { free(p); }
VISIBLE void operator delete[](void *p) noexcept { free(p); }
VISIBLE void operator delete(void *p, const std::nothrow_t &) noexcept { free(p); }
VISIBLE void operator delete[](void *p, const std::nothrow_t &) noexcept { free(p); }
VISIBLE void operator delete(void *p, size_t) noexcept { free(p); }
VISIBLE void operator delete[](void *p, size_t) noexcept { free(p); }

namespace memtracer {

VISIBLE size_t allocated_memory() { return books.bytes; }
VISIBLE size_t meta_memory() { return books.blocks * 8; }
VISIBLE size_t memory_limit() { return books.limit; }

}
