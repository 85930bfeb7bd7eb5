// SPDX-License-Identifier: GPL-3.0-or-later
/* heavy.cc - work for compilers: includes that cost some millions of allocations, and a little code that instantiates them. */
#include <iostream>
#include <map>
#include <regex>
#include <string>
#include <vector>

struct entry {
	std::string name;
	std::vector<int> lines;
};

int main(int argc, char **argv)
{
	std::map<std::string, entry> index;
	std::regex word("([a-z]+)([0-9]*)");
	for (int i = 0; i < argc; i++) {
		std::string text = argv[i];
		for (std::sregex_iterator it(text.begin(), text.end(), word), end; it != end; ++it) {
			entry &e = index[it->str(1)];
			e.name = it->str();
			e.lines.push_back(i);
		}
	}
	for (const auto &it : index)
		std::cout << it.first << ' ' << it.second.name << ' ' << it.second.lines.size() << '\n';
	return 0;
}
