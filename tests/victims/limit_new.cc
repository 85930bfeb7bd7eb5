// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * limit_new.cc - every operator new under a limit of 1000000 bytes of heap that fails requests: what throws throws bad_alloc, what does not gives NULL, a
 * new handler is called; and afterwards as much fits as before.
 */
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

static int faults, handled;
static char *reserve;

static void fault(const char *what)
{
	fprintf(stderr, "%s\n", what);
	faults++;
}

struct alignas(256) wide {
	char bytes[800000];
};
struct plain {
	char bytes[800000];
};

template <class F> static void throws(const char *what, F f)
{
	try {
		void *volatile p = f();
		(void)p;
	} catch (const std::bad_alloc &) {
		return;
	}
	fault(what);
}

static void handler()
{
	handled++;
	delete[] reserve;
	reserve = nullptr;
	std::set_new_handler(nullptr);
}

int main()
{
	for (int round = 0; round < 100; round++) {
		char *most = static_cast<char *>(malloc(500000));

		if (!most)
			fault("500000 were refused");
		throws("new", [] { return static_cast<void *>(new plain); });
		throws("new of an aligned one", [] { return static_cast<void *>(new wide); });
		throws("new[]", [] { return static_cast<void *>(new char[600000]); });
		throws("new[] of the impossible", [] { size_t volatile n = ~0ul / 4; return static_cast<void *>(new char[n]); });
		throws("vector", [] { std::vector<char> v(600000); return static_cast<void *>(nullptr); });
		void *volatile quiet = new (std::nothrow) plain;	/* (volatile: a compiler may know that new succeeds) */
		if (quiet)
			fault("nothrow was granted");
		quiet = new (std::nothrow) wide;
		if (quiet)
			fault("nothrow was granted for an aligned one");
		free(most);
		delete new plain;
		delete new wide;
	}
	reserve = new char[600000];
	std::set_new_handler(handler);
	try {
		delete new plain;
	} catch (const std::bad_alloc &) {
		handled += 100;		/* an allocator's own: its second try was for the impossible, too */
	}
	if (handled != 1 && handled != 101)
		fault("the new handler");
	return faults != 0;
}
