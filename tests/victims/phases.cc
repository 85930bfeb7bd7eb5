// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * phases.cc - a program with a shape over time, each phase some 300 ms: pictures are loaded, an index is built of many small blocks, pictures are dropped
 * (the peak is before that), some are loaded again. In between much that is freed at once. It marks what it does (mtrun_mark), and ends with half of it live.
 * phases wait: then it reads a line first.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

#include "../../inject/mtrun.h"

struct picture {
	std::string name;
	std::unique_ptr<char[]> pixels;
};

static std::vector<picture> pictures;
static std::map<std::string, std::vector<int>> words;
static volatile unsigned kept;

static void rest(int ms)
{
	struct timespec t = { 0, ms * 1000000 };

	nanosleep(&t, nullptr);
}

static __attribute__((noinline)) std::unique_ptr<char[]> decode(size_t size)
{
	std::unique_ptr<char[]> p(new char[size]);

	memset(p.get(), 1, size);
	return p;
}

static __attribute__((noinline)) void load_pictures(int n, size_t size)
{
	for (int i = 0; i < n; i++) {
		pictures.push_back({ "a picture with a name that is long, number " + std::to_string(i), decode(size + static_cast<size_t>(i) * 100) });
		rest(10);
	}
}

static __attribute__((noinline)) void index_words(int n)
{
	for (int i = 0; i < n; i++) {
		std::string word = "<word> & \"some\" ';' number " + std::to_string(i % 3000);

		words[word].push_back(i);
		kept = kept + static_cast<unsigned>(word.size());
		if (i % 200 == 0)
			rest(4);
	}
}

static __attribute__((noinline)) void *parse(int depth)
{
	void *p = depth ? parse(depth - 1) : malloc(20000);

	kept = kept + 1;
	return p;
}

int main(int argc, char **argv)
{
	char line[10], *keep[6];

	if (argc > 1 && !strcmp(argv[1], "wait") && read(0, line, sizeof(line)) < 0)
		return 1;
	rest(150);
	mtrun_mark("loading <b>pictures</b>");
	load_pictures(30, 60000);
	mtrun_mark("indexing");
	index_words(12000);
	for (int i = 0; i < 6; i++)
		keep[i] = static_cast<char *>(parse(i));
	rest(200);
	mtrun_mark("dropping");
	pictures.resize(10);
	rest(200);
	load_pictures(8, 90000);
	for (char *p : keep)
		free(p);
	rest(150);
	printf("%zu pictures, %zu words\n", pictures.size(), words.size());
	_exit(0);
}
