// SPDX-License-Identifier: GPL-3.0-or-later
/* throw.cc - exceptions that fly through frames that allocate, from constructors, out of operator new itself. Arguments: rounds; anything: not the last. */
#define VICTIM_MAIN
#include "victim.h"
#include <new>
#include <stdexcept>

static volatile size_t huge = static_cast<size_t>(PTRDIFF_MAX) - 4096;

VICTIM_NOINLINE static void odd() { ALSO; throw std::runtime_error("odd"); }

struct holder {
	char *p;
	holder() : p(TOOK(new char[61], 61)) {}
	~holder() { delete[] GAVE(p); }
};
struct stubborn {
	char *p;
	explicit stubborn(int i) : p(TOOK(new char[62], 62)) { if (i % 2) { delete[] GAVE(p); odd(); } }
	~stubborn() { delete[] GAVE(p); }
};

VICTIM_NOINLINE static int deep(int n, int what)
{
	holder h;
	if (n)
		return deep(n - 1, what) + 1;
	switch (what % 4) {
	case 0: ALSO; throw 1;
	case 1: ALSO; throw std::logic_error("a text that is long enough not to fit into the string itself");
	case 2: ALSO; return static_cast<int>(reinterpret_cast<uintptr_t>(::operator new(huge)));
	default: { stubborn s(what); return s.p[0] & 1; }
	}
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 200, caught = 0;
	for (int i = 0; i < rounds; i++) {
		try {
			deep(i % 30, argc > 2 && i % 4 == 2 ? i + 1 : i);
		} catch (int) {
			caught++;
			free(GAVE(TOOK(malloc(63), 63)));
		} catch (const std::exception &e) {
			caught += e.what()[0] != 0;
			auto k = TOOK(new char[64], 64); (void)k;
		}
	}
	if (caught != rounds)
		victim_die("throw: an exception was lost");
	return 0;
}
