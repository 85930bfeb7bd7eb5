// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * hidden_operators.cc - a library whose operators new and delete are its own and are not exported (the linker is told so): those that are here, or
 * with -DRUNTIME those of the C++ runtime that is linked into it. What it gives others delete, and what others give it deletes. With -DUSER:
 * who does so, and is right.
 */
#ifdef USER
#include <unistd.h>

extern "C" int *make();
extern "C" int *make_array();
extern "C" void drop(int *p);
extern "C" void drop_array(int *p);

int main()
{
	for (int i = 0; i < 10; i++) {
		delete make();
		delete[] make_array();
		drop(new int);
		drop_array(new int[10]);
		drop(make());
		drop_array(make_array());
	}
	return write(1, "survived\n", 9) != 9;
}
#else
#include <cstdlib>
#include <new>

#ifndef RUNTIME
#define NOINLINE __attribute__((noinline))
NOINLINE void *operator new(std::size_t n) { return std::malloc(n); }
NOINLINE void *operator new[](std::size_t n) { return std::malloc(n); }
NOINLINE void operator delete(void *p) noexcept { std::free(p); }
NOINLINE void operator delete[](void *p) noexcept { std::free(p); }
NOINLINE void operator delete(void *p, std::size_t) noexcept { std::free(p); }
NOINLINE void operator delete[](void *p, std::size_t) noexcept { std::free(p); }
#endif

extern "C" int *make() { return new int(5); }
extern "C" int *make_array() { return new int[10]; }
extern "C" void drop(int *p) { delete p; }
extern "C" void drop_array(int *p) { delete[] p; }
#endif
