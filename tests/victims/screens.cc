// SPDX-License-Identifier: GPL-3.0-or-later
/* screens.cc - names as C++ programs have them: deep, long, of templates. It holds 100 blocks of 1000 bytes in hold(), and waits. */
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <unistd.h>
#include <unordered_map>
#include <vector>

namespace a_company_with_a_long_name::storage_engine_of_the_third_generation::internal_details
{
template <class Key, class Value> struct cache_of_recently_used_entries {
	std::map<Key, std::vector<Value>> entries;
	std::unordered_map<std::string, std::unique_ptr<Value>> index;

	template <class Make> __attribute__((noinline)) void insert(const Key &key, Make make)
	{
		entries[key].push_back(make());
		index[std::to_string(entries.size()) + " and enough to be on the heap"] = std::make_unique<Value>(make());
	}
	__attribute__((noinline)) void *hold(std::size_t size)
	{
		char *p = static_cast<char *>(std::malloc(size));

		p[0] = 1;
		return p;
	}
};
}

using namespace a_company_with_a_long_name::storage_engine_of_the_third_generation::internal_details;

static void *held[100];

int main()
{
	using value = std::map<std::string, std::vector<std::pair<long, std::string>>>;
	cache_of_recently_used_entries<std::string, value> cache;

	for (void *&p : held)
		p = cache.hold(1000);
	for (int i = 0; i < 50; i++)
		cache.insert("the key number " + std::to_string(i), [i] {
			return value{ { "a value that is long enough", { { i, "some text that is too long to be short" } } } };
		});
	std::puts("ready");
	std::fflush(stdout);
	return pause();
}
