// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * server.cc THREADS REQUESTS - the allocations of a database server: each thread answers REQUESTS
 * requests over a table of rows of its own. A request is parsed into words, rows are looked up and
 * changed, a result is sorted and printed; the last thousand results are kept. All of it is std::
 * containers of small blocks, whose functions are inlined. A look-up reads some pages besides, so
 * that two processors make some five million allocations a second. What comes next is decided by
 * what was read last. Prints a sum over all that was answered, which is the same in each run.
 */
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

enum { WORDS = 3000 }; // that one look-up reads besides

struct Row {
	std::string name;
	std::vector<int> values;
};

struct Server {
	std::map<std::string, std::shared_ptr<Row>> table;
	std::deque<std::string> results;
	std::vector<uint32_t> page;
	uint64_t x, sum = 0;

	explicit Server(uint64_t seed)
		: page(WORDS), x(seed * 2654435761u + 88172645463325252ull)
	{
	}

	uint32_t next(uint32_t below)
	{
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		return static_cast<uint32_t>((x >> 32) * below >> 32);
	}

	std::string request()
	{
		std::string text = next(4) ? "select" : "update";

		for (int i = 0; i < 4; i++)
			text += " the-row-with-the-key-" + std::to_string(next(20000));
		return text;
	}

	static std::vector<std::string> words(const std::string &text)
	{
		std::vector<std::string> out;
		size_t from = 0, to;

		for (; (to = text.find(' ', from)) != std::string::npos; from = to + 1)
			out.push_back(text.substr(from, to - from));
		out.push_back(text.substr(from));
		return out;
	}

	uint32_t read_page(uint32_t with)
	{
		for (uint32_t &w : page)
			with = with * 31 + w++;
		return with;
	}

	void answer()
	{
		std::vector<std::string> word = words(request());
		std::vector<std::pair<int, std::shared_ptr<Row>>> found;
		std::string result;

		for (size_t i = 1; i < word.size(); i++) {
			std::shared_ptr<Row> &row = table[word[i]];

			x ^= read_page(static_cast<uint32_t>(x)) & 1;
			if (!row)
				row = std::make_shared<Row>(Row{ word[i], {} });
			if (word[0] == "update")
				row->values.push_back(static_cast<int>(next(1000)));
			if (row->values.size() > 12)
				row->values = std::vector<int>();
			found.emplace_back(static_cast<int>(row->values.size()), row);
		}
		std::sort(found.begin(), found.end(), [](const auto &a, const auto &b) {
			return std::make_pair(a.first, a.second->name) <
			       std::make_pair(b.first, b.second->name);
		});
		for (const auto &f : found)
			result += f.second->name + "=" + std::to_string(f.first) + ";";
		x ^= static_cast<unsigned char>(result[next(static_cast<uint32_t>(result.size()))]);
		sum += result.size();
		results.push_back(std::move(result));
		if (results.size() > 1000)
			results.pop_front();
	}
};

int main(int argc, char **argv)
{
	int threads = argc > 1 ? std::atoi(argv[1]) : 8;
	long requests = argc > 2 ? std::atol(argv[2]) : 50000;
	std::vector<std::unique_ptr<Server>> server;
	std::vector<std::thread> thread;
	uint64_t sum = 0;

	for (int i = 0; i < threads; i++) {
		server.push_back(std::make_unique<Server>(i + 1));
		thread.emplace_back([s = server.back().get(), requests] {
			for (long k = 0; k < requests; k++)
				s->answer();
		});
	}
	for (auto &t : thread)
		t.join();
	for (auto &s : server)
		sum += s->sum;
	std::printf("%llu\n", static_cast<unsigned long long>(sum));
	return 0;
}
