// SPDX-License-Identifier: GPL-3.0-or-later
/* fourlines.cc - a vector, a map, a string and a plain new that grow: four sites, each at its own line of this file. Argument: rounds. */
#define VICTIM_MAIN
#include "victim.h"
#include <map>
#include <string>
#include <vector>

static char *volatile sink;	/* without it the compilers leave the fourth one out */
static size_t expected_live[4], expected_count[4];

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 10000, lines[4], out = 0;
	auto &vec = *new std::vector<int>; int base = __LINE__;
	auto &mp = *new std::map<int, int>;
	auto &s = *new std::string;
	unsigned r = 12345;
	for (int i = 0; i < n; i++) {
		r = r * 1103515245 + 12345;
		lines[0] = __LINE__ + 1;
		vec.push_back(i);
		lines[1] = __LINE__ + 1;
		mp[r] = i;
		lines[2] = __LINE__ + 1;
		s += "xxxx";
		lines[3] = __LINE__ + 1;
		sink = new char[4];
	}
	expected_live[0] = vec.capacity() * sizeof(int), expected_count[0] = 1;
	expected_live[1] = mp.size() * (sizeof(std::pair<const int, int>) + 32), expected_count[1] = mp.size();
	expected_live[2] = s.capacity() + 1, expected_count[2] = 1;
	expected_live[3] = static_cast<size_t>(n) * 4, expected_count[3] = static_cast<size_t>(n);
	for (int i = 0; i < 4; i++)
		out += dprintf(1, "expect also.%s:%d 1\nexpect site.%s:%d %zu,%zu,*,*\n", __FILE__, __LINE__, __FILE__, lines[i], expected_live[i], expected_count[i]);
	out += dprintf(1, "expect also.%s:%d 1\nexpect site.%s:%d %zu,1,*,*\nexpect site.%s:%d %zu,1,*,*\nexpect site.%s:%d %zu,1,*,*\n",
		       __FILE__, __LINE__ - 1, __FILE__, base, sizeof(vec), __FILE__, base + 1, sizeof(mp), __FILE__, base + 2, sizeof(s));
	return out < 0;
}
