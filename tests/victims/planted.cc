// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * planted.cc - a server that works in two threads, and leaks when it is told to, a line each on stdin; $LOST_LIBRARY: lost_plugin. It answers with what has
 * leaked that way so far, `KIND DEFINITE_BYTES BLOCKS INDIRECT_BYTES BLOCKS`:
 *	container N	sessions that are taken out of a map and not deleted
 *	thread N	what thread-local variables of threads point to, that end
 *	plugin N	what a library's own variable points to, that is closed
 *	cache N		nothing leaks: a cache that only grows; its line says what it holds
 */
#include <dlfcn.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "lost.h"

/* A text that is in a block of its own. */
static std::string words(size_t n) { return std::string(100 + n % 50, 'w'); }
static size_t bytes_of(const std::string &s) { return s.capacity() + 1; }

/* ---- the work ----------------------------------------------------------------------------------------------------------------------------- */

static std::atomic<bool> over;

static void work(unsigned seed)
{
	std::map<unsigned, std::string> orders;
	std::vector<std::vector<int>> queue;

	for (unsigned i = seed; !over; i = i * 1103515245 + 12345) {
		orders[i / 65536 % 2000] = words(i / 65536);
		if (i / 65536 % 3 == 0)
			orders.erase(i / 65536 % 1999);
		queue.emplace_back(i / 65536 % 300);
		if (queue.size() > 500)
			queue.clear();
	}
}

/* ---- leaks ---------------------------------------------------------------------------------------------------------------------------------- */

struct session {
	std::string user;
	std::vector<int> baskets;
};
static std::map<unsigned, session *> sessions;
static unsigned last_session;

NOINLINE static session *open_session(unsigned id)
{
	session *s = new session;

	s->user = words(id);
	s->baskets.resize(10);
	return s;
}

NOINLINE static void close_sessions(size_t n)
{
	while (n--) {
		session *s = sessions[last_session] = open_session(last_session);

		add(definite, sizeof(*s), 1);
		add(indirect, bytes_of(s->user), 1);
		add(indirect, s->baskets.capacity() * sizeof(int), 1);
		sessions.erase(last_session++);
	}
}

static thread_local std::string *volatile scratch;

NOINLINE static void use_scratch()
{
	scratch = new std::string(words(7));
}

NOINLINE static void run_threads(size_t n)
{
	while (n--) {
		std::thread(use_scratch).join();
		add(definite, sizeof(std::string), 1);
		add(indirect, bytes_of(words(7)), 1);
	}
}

NOINLINE static void load_plugins(size_t n)
{
	while (n--) {
		void *lib = dlopen(getenv("LOST_LIBRARY"), RTLD_NOW);
		void (*fill)() = lib ? (void (*)())dlsym(lib, "lost_fill") : nullptr;

		if (!fill) {
			fprintf(stderr, "planted: %s\n", dlerror());
			_exit(97);
		}
		fill();
		dlclose(lib);
		add(definite, 100, 1);
		add(indirect, 50, 1);
	}
}

static std::unordered_map<size_t, std::string> cache;

NOINLINE static void grow_cache(size_t n)
{
	while (n--) {
		std::string &s = cache[cache.size()];

		s = words(cache.size());
		add(definite, bytes_of(s), 1);
	}
}

int main()
{
	static const struct {
		const char *name;
		void (*leak)(size_t n);
	} kinds[] = { { "container", close_sessions }, { "thread", run_threads }, { "plugin", load_plugins }, { "cache", grow_cache } };
	static size_t sums[4][4];
	std::thread a(work, 1), b(work, 2);
	char name[32];
	size_t n;

	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("up");
	while (scanf("%31s %zu", name, &n) == 2)
		for (size_t i = 0; i < 4; i++) {
			if (strcmp(name, kinds[i].name))
				continue;
			memcpy(definite, sums[i], sizeof(definite));
			memcpy(indirect, sums[i] + 2, sizeof(indirect));
			kinds[i].leak(n);
			memcpy(sums[i], definite, sizeof(definite));
			memcpy(sums[i] + 2, indirect, sizeof(indirect));
			scrub();
			printf("%s %zu %zu %zu %zu\n", name, definite[0], definite[1], indirect[0], indirect[1]);
		}
	over = true;
	a.join();
	b.join();
	return 0;
}
