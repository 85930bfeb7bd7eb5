// SPDX-License-Identifier: GPL-3.0-or-later
#include "symbols/short_name.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

#define STRING "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"

static void is(enum short_name level, const char *name, const char *wanted)
{
	char *got = short_name(name, level, false);

	CHECK_STR(got, wanted);
	free(got);
}

static void test_defaults(void)
{
	is(SHORT_DEFAULTS, "std::vector<int, std::allocator<int> >::push_back(int const&)",
	   "std::vector<int>::push_back(int const&)");
	is(SHORT_DEFAULTS, "f(" STRING " const&)", "f(std::string const&)");
	is(SHORT_DEFAULTS,
	   "std::map<" STRING ", int, std::less<" STRING " >, std::allocator<std::pair<" STRING
	   " const, int> > >::operator[](" STRING " const&)",
	   "std::map<std::string, int>::operator[](std::string const&)");
	is(SHORT_DEFAULTS, "std::unique_ptr<Foo, std::default_delete<Foo> >::~unique_ptr()",
	   "std::unique_ptr<Foo>::~unique_ptr()");
	is(SHORT_DEFAULTS, "std::__1::vector<int, std::__1::allocator<int> >::size()",
	   "std::vector<int>::size()");
	/* it is what it is about */
	is(SHORT_DEFAULTS, "std::allocator<int>::allocate(unsigned long)",
	   "std::allocator<int>::allocate(unsigned long)");
	is(SHORT_DEFAULTS, "f<std::allocator<int>, int>(int)", "f<std::allocator<int>, int>(int)");
	is(SHORT_DEFAULTS, "a<b<c<d<e> > > >::f()", "a<b<c<...>>>::f()");
	is(SHORT_DEFAULTS, "main::{lambda(auto:1)#2}::operator()() const",
	   "main::{lambda#2}::operator()() const");
	is(SHORT_DEFAULTS, "f(int)::{lambda(g()::{lambda(int)#1})#3}::operator()() const",
	   "f(int)::{lambda#3}::operator()() const");
	is(SHORT_DEFAULTS, "std::__invoke<main()::{lambda(int)} >",
	   "std::__invoke<main()::{lambda}>");
	is(SHORT_DEFAULTS, "name[abi:cxx11](int)", "name(int)");
}

static void test_levels(void)
{
	char *got;

	is(SHORT_PARAMETERS, "a::b<int>::hold(unsigned long)", "a::b<int>::hold(...)");
	is(SHORT_PARAMETERS, "a::hold()", "a::hold()");
	is(SHORT_PARAMETERS, "(anonymous namespace)::f(int)", "(anonymous namespace)::f(...)");
	is(SHORT_ARGUMENTS, "a::b<int>::hold(unsigned long)", "a::b<...>::hold(...)");
	got = short_name("b<int>::f(int)", SHORT_ARGUMENTS, true);
	CHECK_STR(got, "b\342\200\271\342\200\246\342\200\272::f(\342\200\246)");
	free(got);
}

/* What is no C++ name, or forged. */
static void test_others(void)
{
	static const char *const same[] = { "",	       "main",	 "operator<<",	"a::operator->",
					    "f(",      "f<int",	 "f>)",		"f(int>",
					    "lib+0x1", "[heap]", "main.(*T).f", "a::operator<=>",
					    "<",       "a<>",	 "operator()(", "(others: 3)" };
	char deep[4001];

	for (size_t i = 0; i < sizeof(same) / sizeof(*same); i++)
		is(SHORT_DEFAULTS, same[i], same[i]);
	is(SHORT_DEFAULTS, "operator<< <int>(std::vector<int, std::allocator<int> >)",
	   "operator<< <int>(std::vector<int>)");
	is(SHORT_DEFAULTS, "f(int (*)(int))", "f(int (*)(int))");
	memset(deep, '<', 2000);
	memset(deep + 2000, '>', 2000);
	deep[4000] = '\0';
	is(SHORT_DEFAULTS, deep, "<<<...>>>");
	memset(deep, '(', 2000);
	memset(deep + 2000, ')', 2000);
	is(SHORT_DEFAULTS, deep, deep);
	deep[3999] = '\0';
	is(SHORT_DEFAULTS, deep, deep);
}

int main(void)
{
	RUN(test_defaults);
	RUN(test_levels);
	RUN(test_others);
	return test_status();
}
