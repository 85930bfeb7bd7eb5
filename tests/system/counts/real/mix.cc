// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * mix.cc - C++ operators, containers, exceptions and threads on whatever allocator it is linked with. What it prints does not depend on the order of its threads.
 */
#include <cstdio>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

struct alignas(64) wide { char bytes[200]; };

static unsigned long work(unsigned seed)
{
	std::map<int, std::string> m;
	std::vector<std::unique_ptr<wide>> w;
	unsigned long sum = 0;

	for (int i = 0; i < 20000; i++) {
		seed = seed * 1103515245 + 12345;
		int key = seed >> 20 & 511;
		m[key] += "some text";
		if (m[key].size() > 200)
			m.erase(key);
		if (seed >> 16 & 1)
			w.push_back(std::make_unique<wide>());
		else if (!w.empty())
			w.pop_back();
		if (i % 100 == 0) {
			try {
				throw std::runtime_error("number " + std::to_string(i));
			} catch (const std::exception &e) {
				sum += std::string(e.what()).size();
			}
		}
		delete[] new char[key];
		::operator delete(::operator new(24, std::nothrow));
	}
	for (const auto &[k, s] : m)
		sum += k * s.size();
	return sum + w.size();
}

int main()
{
	unsigned long sum[3];
	std::vector<std::thread> threads;

	for (unsigned i = 0; i < 3; i++)
		threads.emplace_back([i, &sum] { sum[i] = work(i + 1); });
	for (auto &t : threads)
		t.join();
	std::printf("%lu %lu %lu\n", sum[0], sum[1], sum[2]);
	new wide;
	return 7;
}
