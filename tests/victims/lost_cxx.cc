// SPDX-License-Identifier: GPL-3.0-or-later
/* lost_cxx.cc - leaks of C++ programs (lost.h). The cases that are called keep_... lose nothing. */
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "lost.h"

/* What containers ask for, as they ask for it; it will be lost as WHAT. */
static size_t *what = indirect;
template <class T> struct counting {
	using value_type = T;
	counting() = default;
	template <class U> counting(const counting<U> &) {}
	T *allocate(size_t n)
	{
		add(what, n * sizeof(T), 1);
		return static_cast<T *>(::operator new(n * sizeof(T)));
	}
	void deallocate(T *p, size_t n)
	{
		what[0] -= n * sizeof(T);
		what[1]--;
		::operator delete(p);
	}
	bool operator==(const counting &) const { return true; }
	bool operator!=(const counting &) const { return false; }
};
using text = std::basic_string<char, std::char_traits<char>, counting<char>>;

template <class T> static T *lost()
{
	add(definite, sizeof(T), 1);
	return new T;
}

/* A word as long as needed to be in a block of its own. */
static text word(int i) { return text(100 + i, 'x'); }

/* ---- containers ------------------------------------------------------------------------------------------------------------------------ */

static void lose_vector()
{
	auto *v = lost<std::vector<int, counting<int>>>();

	for (int i = 0; i < 1000; i++)
		v->push_back(i);
	drop(v);
}

static void lose_words()
{
	auto *v = lost<std::vector<text, counting<text>>>();

	v->reserve(50);
	for (int i = 0; i < 50; i++)
		v->push_back(word(i));
	drop(v);
}

static void lose_map()
{
	auto *m = lost<std::map<int, text, std::less<int>, counting<std::pair<const int, text>>>>();

	for (int i = 0; i < 50; i++)
		m->emplace(i * 7 % 50, word(i));
	drop(m);
}

static void lose_hash()
{
	auto *m = lost<std::unordered_map<int, text, std::hash<int>, std::equal_to<int>, counting<std::pair<const int, text>>>>();

	for (int i = 0; i < 200; i++)
		m->emplace(i, word(i));
	drop(m);
}

/* The last node of a std::list points into the list itself. */
static void lose_list()
{
	auto *l = lost<std::list<text, counting<text>>>();

	for (int i = 0; i < 20; i++)
		l->push_back(word(i));
	drop(l);
}

static void lose_deque()
{
	auto *d = lost<std::deque<int, counting<int>>>();

	for (int i = 0; i < 5000; i++)
		d->push_back(i);
	drop(d);
}

static void lose_set()
{
	auto *s = lost<std::set<int, std::less<int>, counting<int>>>();

	for (int i = 0; i < 100; i++)
		s->insert(i);
	drop(s);
}

/* The pointers go with their container; what they point at does not. */
static void lose_elements()
{
	std::vector<text *> v;

	v.reserve(30);
	for (int i = 0; i < 30; i++) {
		v.push_back(lost<text>());
		*v.back() = word(i);
	}
}

static void lose_elements_of_map()
{
	std::map<int, int *> m;

	for (int i = 0; i < 30; i++)
		m[i] = lost<int>();
	m.clear();
}

/* It grows without end; nothing in it is lost. */
static std::vector<text, counting<text>> cache;
static void keep_cache()
{
	for (int i = 0; i < 1000; i++)
		cache.push_back(word(i));
	indirect[0] = indirect[1] = 0;
}

/* ---- pointers that own --------------------------------------------------------------------------------------------------------------------- */

struct peer {
	std::shared_ptr<peer> other;
	char more[40];
};
static void lose_shared_cycle()
{
	what = definite;
	auto a = std::allocate_shared<peer>(counting<peer>());
	what = indirect;
	auto b = std::allocate_shared<peer>(counting<peer>());

	a->other = b;
	b->other = a;
}

static void lose_released()
{
	std::unique_ptr<int> p(lost<int>());

	drop(p.release());
}

struct plain_base {
	int number;
};
struct with_words : plain_base {
	std::vector<text, counting<text>> words;
};
/* Freed through a base without a virtual destructor. */
static void lose_members()
{
	auto *p = new with_words;

	what = definite;
	p->words.reserve(1);
	what = indirect;
	p->words.push_back(word(1));
	::operator delete(p);
}

static void lose_function()
{
	struct big {
		text a, b;
		char more[100];
	} captured = { word(1), word(2), "" };
	auto fn = [captured]() { return captured.a.size(); };
	auto *f = lost<std::function<size_t()>>();

	add(indirect, sizeof(fn), 1);
	*f = std::move(fn);
	drop(f);
}

/* ---- pointers into the middle ----------------------------------------------------------------------------------------------------------------- */

struct with_destructor {
	char text[24];
	~with_destructor() { text[0]++; }
};
/* Behind the number of its elements. */
static with_destructor *volatile array;
static void keep_array() { array = new with_destructor[10]; }

/* Of no elements: the pointer is behind the block, which is their number alone. */
static void keep_empty_array()
{
	volatile size_t none = 0;

	array = new with_destructor[none];
}

static void lose_array()
{
	add(definite, sizeof(size_t) + 10 * sizeof(with_destructor), 1);
	drop(new with_destructor[10]);
}

struct left {
	virtual ~left() {}
	long a[4];
};
struct right {
	virtual ~right() {}
	long b[4];
};
struct both : left, right {
	text name;
};
static right *volatile second;
static void keep_second_base() { second = new both; }

static void lose_second_base()
{
	auto *p = lost<both>();

	p->name = word(3);
	second = p;
	second = nullptr;
}

struct below : virtual left {
	text name;
};
static left *volatile virtual_base;
static void keep_virtual_base() { virtual_base = new below; }

/* Behind what the exception machinery keeps for itself. */
static std::exception_ptr caught;
static void keep_exception()
{
	try {
		throw std::string("a text that needs a block of its own, since it is so long");
	} catch (...) {
		caught = std::current_exception();
	}
}

/* ---- threads --------------------------------------------------------------------------------------------------------------------------------- */

static thread_local text *volatile own;
static thread_local std::vector<text, counting<text>> cleaned;
static void lose_thread_local()
{
	std::thread([] {
		own = lost<text>();
		*own = word(5);
	}).join();
}

static void keep_thread_local()
{
	std::thread([] { cleaned.assign(10, word(6)); }).join();
}

static void lose_in_thread()
{
	std::thread([] { lose_map(); }).join();
}

static const struct lost cases[] = {
	{ "vector", lose_vector },
	{ "words", lose_words },
	{ "map", lose_map },
	{ "hash", lose_hash },
	{ "list", lose_list },
	{ "deque", lose_deque },
	{ "set", lose_set },
	{ "elements", lose_elements },
	{ "elements-of-map", lose_elements_of_map },
	{ "cache", keep_cache },
	{ "shared-cycle", lose_shared_cycle },
	{ "released", lose_released },
	{ "members", lose_members },
	{ "function", lose_function },
	{ "array-kept", keep_array },
	{ "empty-array-kept", keep_empty_array },
	{ "array", lose_array },
	{ "second-base-kept", keep_second_base },
	{ "second-base", lose_second_base },
	{ "virtual-base-kept", keep_virtual_base },
	{ "exception-kept", keep_exception },
	{ "thread-local", lose_thread_local },
	{ "thread-local-cleaned", keep_thread_local },
	{ "in-thread", lose_in_thread },
};

int main(int argc, char **argv) { return lost_main(argc, argv, cases, sizeof(cases) / sizeof(*cases)); }
