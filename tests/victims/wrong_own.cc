// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * wrong_own.cc - a program with operators of its own over malloc, so that it may mix them with free; built with -DOWN_FREE also with a malloc
 * and a free of its own, to which freeing twice is nothing. Nothing of it is an error.
 */
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <unistd.h>
#include <vector>

#ifdef OWN_FREE
static char memory[1 << 20];
static std::size_t used;
extern "C" void *malloc(std::size_t n)
{
	used = (used + 15) & ~(std::size_t)15;
	if (used + n > sizeof(memory))
		return nullptr;
	used += n;
	return memory + used - n;
}
extern "C" void *calloc(std::size_t n, std::size_t size) { return malloc(n * size); }
extern "C" void *realloc(void *p, std::size_t n)
{
	void *q = malloc(n);
	if (p && q)
		std::memcpy(q, p, (char *)q - (char *)p < (long)n ? (std::size_t)((char *)q - (char *)p) : n);
	return q;
}
extern "C" void free(void *) {}
#endif

void *operator new(std::size_t n) { return std::malloc(n ? n : 1); }
void operator delete(void *p) noexcept { std::free(p); }
void operator delete(void *p, std::size_t) noexcept { std::free(p); }

int main()
{
	std::vector<std::string> v;

	for (int i = 0; i < 100; i++) {
		int *volatile p = new int[10];
		std::free(p);
		p = new int;
		std::free(p);
		p = (int *)std::malloc(40);
		delete p;
#ifdef OWN_FREE
		std::free(p);
		std::free((char *)p + 8);
		std::free(memory + 1);
#endif
		v.push_back("longer than what fits into the object itself");
	}
	return write(1, "survived\n", 9) != 9;
}
