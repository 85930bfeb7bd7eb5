// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * ranked.cc - a map, single new char[4], a vector and a string, each in a function of its own, so many of each that they rank alike by the bytes asked for
 * and by jemalloc's size classes. Prints what each holds, and the sum.
 */
#include <cstdio>
#include <map>
#include <string>
#include <vector>

static char *volatile sink;

__attribute__((noinline)) size_t by_map(std::map<unsigned, int> &m, int n)
{
	unsigned r = 12345;

	for (int i = 0; i < n; i++)
		m[r = r * 1103515245 + 12345] = i;
	return m.size() * (sizeof(std::pair<const unsigned, int>) + 32);
}

__attribute__((noinline)) size_t by_new(int n)
{
	for (int i = 0; i < n; i++)
		sink = new char[4];
	return static_cast<size_t>(n) * 4;
}

__attribute__((noinline)) size_t by_vector(std::vector<int> &v, int n)
{
	for (int i = 0; i < n; i++)
		v.push_back(i);
	return v.capacity() * sizeof(int);
}

__attribute__((noinline)) size_t by_string(std::string &s, int n)
{
	for (int i = 0; i < n; i++)
		s += "xxxx";
	return s.capacity() + 1;
}

int main()
{
	auto &m = *new std::map<unsigned, int>;
	auto &v = *new std::vector<int>;
	auto &s = *new std::string;
	size_t held[4] = { by_map(m, 10000), by_new(20000), by_vector(v, 10000), by_string(s, 5000) };

	return dprintf(1, "by_map %zu\nby_new %zu\nby_vector %zu\nby_string %zu\nmain %zu\n", held[0], held[1], held[2], held[3],
		       sizeof(m) + sizeof(v) + sizeof(s)) < 0;
}
