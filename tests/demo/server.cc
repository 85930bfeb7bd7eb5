// SPDX-License-Identifier: GPL-3.0-or-later
//
// server.cc - looks like a small server: for two seconds it answers requests, and each one leaves something behind.
// It ends by printing what it must still hold, from its own arithmetic, so that the report beside it can be checked by eye.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

class server {
public:
	void request(long id)
	{
		history.push_back(id);			// a vector that only grows
		sessions[std::rand()] = id;		// a map from which nobody erases
		transcript += "xxxx";			// a string that everything is appended to
		last_reply = new char[4];		// and a buffer that is forgotten at once
		forgotten++;
	}

	void print() const
	{
		std::printf("server: %zu requests. Still here: vector %zu bytes, map %zu bytes in %zu nodes, string %zu bytes, %zu forgotten bytes in %zu blocks\n",
			    history.size(), history.capacity() * sizeof(long), sessions.size() * node, sessions.size(), transcript.capacity() + 1,
			    forgotten * 4, forgotten);
	}

private:
	// A node of libstdc++'s tree: colour and three pointers, then the pair.
	static constexpr std::size_t node = 32 + sizeof(std::pair<const int, long>);

	std::vector<long> history;
	std::map<int, long> sessions;
	std::string transcript;
	char *last_reply = nullptr;
	std::size_t forgotten = 0;
};

int main()
{
	server &s = *new server;	// a server is there until the machine goes down
	long id = 0;

	for (int tick = 0; tick < 200; tick++) {
		for (int i = 0; i < 500; i++)
			s.request(id++);
		std::this_thread::sleep_for(std::chrono::milliseconds(10));
	}
	s.print();
	return 0;
}
