// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * wrong_cxx.cc GIVER TAKER - a block by GIVER (malloc, new, array, nothrow, aligned, strdup, realloc) is freed by TAKER (free, delete, array),
 * which goes with it or not. `fine`: much that looks wrong and is right.
 */
#include <dlfcn.h>
#include <new>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "wrong.h"

struct alignas(128) Wide {
	char bytes[128];
};

static void nothing() {}

enum { GIVE = __LINE__ + 5, TAKE = __LINE__ + 19 };
static NOINLINE void *give(const std::string &how, size_t n)
{
	void *p;
	/* clang-format off */
	p = how == "malloc" ? malloc(n) : how == "calloc" ? calloc(n, 1) : how == "strdup" ? strdup("of forty bytes, its end is counted, too") : how == "new" ? operator new(n) : how == "array" ? operator new[](n) : how == "nothrow" ? operator new(n, std::nothrow) : how == "nothrow-array" ? operator new[](n, std::nothrow) : operator new(n, std::align_val_t(128));
	/* clang-format on */
	KEEP(p);
	return p;
}

/*
 * All on one line, so that the victim knows it whatever is called.
 */
static NOINLINE void take(const std::string &how, void *p)
{
	size_t n = 40;
	KEEP(&n);
	/* clang-format off */
	how == "free" ? free(p) : how == "delete" ? operator delete(p) : how == "sized" ? operator delete(p, n) : how == "array" ? operator delete[](p) : how == "sized-array" ? operator delete[](p, n) : how == "nothrow" ? operator delete(p, std::nothrow) : how == "aligned" ? operator delete(p, std::align_val_t(128)) : nothing();
	/* clang-format on */
	__asm__ volatile("nop");
}

static const char *family_of_giver(const std::string &how)
{
	return how == "malloc" || how == "strdup" || how == "calloc" ? "malloc" : how == "array" || how == "nothrow-array" ? "operator new[]" : "operator new";
}

static const char *name_of_taker(const std::string &how)
{
	return how == "free" ? "free" : how == "array" || how == "sized-array" ? "operator delete[]" : "operator delete";
}

/* ---- what is right ------------------------------------------------------- */

struct Pooled { /* brings its own operators, over malloc */
	int x[10];
	static void *operator new(size_t n) { return malloc(n); }
	static void operator delete(void *p) { free(p); }
};

struct Base {
	virtual ~Base() {}
	std::string s = "longer than what fits into the object itself";
};
struct Other {
	virtual ~Other() {}
	int y[5];
};
struct Derived : Other, Base {
	std::vector<int> v = std::vector<int>(20, 1);
};

struct Throws {
	Throws() { throw 1; }
};

static char *spare;
static int handled;
static void hand_back() /* memory that the next try may get */
{
	handled++;
	free(spare);
	spare = nullptr;
	std::set_new_handler(nullptr);
}

static void containers()
{
	std::map<std::string, std::vector<std::shared_ptr<Derived>>> m;

	for (int i = 0; i < 200; i++)
		m["a key that is rather long " + std::to_string(i % 20)].push_back(std::make_shared<Derived>());
	std::function<int()> f = [m] { return (int)m.size(); };
	std::unique_ptr<Base> b(new Derived);
	std::unique_ptr<std::string[]> a(new std::string[7]);
	a[3] = "again longer than what fits into the object itself";
	if (f() != 20)
		_exit(8);
}

static int fine()
{
	operator delete(give("new", 40));
	operator delete(give("nothrow", 40));
	operator delete(give("nothrow", 40), std::nothrow);
	operator delete(give("new", 40), (size_t)40);
	operator delete[](give("array", 40));
	operator delete[](give("nothrow-array", 40));
	operator delete[](give("array", 40), (size_t)40);
	operator delete(give("aligned", 40), std::align_val_t(128));
	free(give("strdup", 40));
	operator delete(operator new(0));
	operator delete[](operator new[](0));
	operator delete(nullptr);
	free(malloc(1));
	for (int i = 0; i < 50; i++) { /* each after the other, of one size */
		void *p = operator new(48), *q = malloc(48), *r = operator new[](48);
		free(q);
		operator delete[](r);
		operator delete(p);
		KEEP(p);
	}
	delete new Wide;
	delete[] new Wide[3];
	delete new (std::nothrow) Wide;
	delete new Pooled;
	try {
		KEEP(new Throws);
	} catch (int) {
	}
	try {
		throw std::string("an exception, which libstdc++ allocates by malloc");
	} catch (const std::string &) {
	}
	spare = (char *)malloc(100);
	std::set_new_handler(hand_back);
	void *p = operator new((size_t)1 << 50, std::nothrow);
	if (p)
		_exit(7);
	/* what realloc makes of operator new's is the allocator's to say */
	p = operator new(40);
	p = realloc(p, 4000);
	operator delete(p);
	p = realloc(malloc(40), 5000);
	free(p);
	containers();
	std::vector<std::thread> t;
	for (int i = 0; i < 4; i++)
		t.emplace_back([] {
			for (int k = 0; k < 20; k++)
				containers();
		});
	for (auto &one : t)
		one.join();
	line("survived\n");
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "fine"))
		return fine();
	if (argc < 3)
		return 2;
	void *p = give(argv[1], 40);
	SAY("%s of %p, a block of 40 bytes from %s\n", name_of_taker(argv[2]), p, family_of_giver(argv[1]));
	AT("call", "take", TAKE);
	AT("allocated", "give", GIVE);
	take(argv[2], p);
	line("survived\n");
	return 0;
}
