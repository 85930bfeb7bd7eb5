// SPDX-License-Identifier: GPL-3.0-or-later
/* family_cxx.cc - every operator new and delete. Sizes are the sizes the program asked for. */
#define VICTIM_MAIN
#include "victim.h"
#include <memory>
#include <new>

struct alignas(128) wide { char c[300]; };		/* sizeof 384 */
struct counted { long v = 7; ~counted() { v = 0; } };	/* new[] puts a cookie of 8 bytes before them */
static void *kept[64];
static volatile size_t zero;

VICTIM_NOINLINE static void given()
{
	kept[0] = TOOK(new char, 1);
	kept[1] = TOOK(new char[4], 4);
	kept[2] = TOOK(new long(5), 8);
	kept[3] = TOOK(new wide, 384);
	kept[4] = TOOK(new wide[3], 1152);
	kept[5] = TOOK(new (std::nothrow) char[55], 55);
	kept[6] = TOOK(new (std::nothrow) wide, 384);
	kept[7] = TOOK(new (std::align_val_t(64)) char[65], 65);
	kept[8] = TOOK(::operator new(99), 99);
	kept[9] = TOOK(::operator new[](98), 98);
	kept[10] = TOOK(::operator new(97, std::align_val_t(256)), 97);
	kept[11] = TOOK(::operator new[](96, std::align_val_t(32), std::nothrow), 96);
	counted *c = new counted[5]; TOOK(reinterpret_cast<char *>(c) - 8, 48);
	kept[12] = c;
}

VICTIM_NOINLINE static void given_back()
{
	delete GAVE(TOOK(new long, 8));
	delete[] GAVE(TOOK(new long[10], 80));
	delete GAVE(TOOK(new wide, 384));
	delete[] GAVE(TOOK(new wide[2], 768));
	::operator delete(GAVE(TOOK(::operator new(31), 31)));
	::operator delete(GAVE(TOOK(::operator new(32), 32)), static_cast<size_t>(32));
	::operator delete[](GAVE(TOOK(::operator new[](33), 33)), static_cast<size_t>(33));
	::operator delete(GAVE(TOOK(::operator new(34, std::align_val_t(64)), 34)), std::align_val_t(64));
	::operator delete(GAVE(TOOK(::operator new(35, std::align_val_t(64)), 35)), static_cast<size_t>(35), std::align_val_t(64));
	::operator delete[](GAVE(TOOK(::operator new[](36, std::align_val_t(64)), 36)), static_cast<size_t>(36), std::align_val_t(64));
	::operator delete(GAVE(TOOK(::operator new(37, std::nothrow), 37)), std::nothrow);
	counted *c = new counted[6]; TOOK(reinterpret_cast<char *>(c) - 8, 56);
	GAVE(reinterpret_cast<char *>(c) - 8); delete[] c;
	delete static_cast<long *>(nullptr);
	::operator delete(nullptr, static_cast<size_t>(8));
}

VICTIM_NOINLINE static void refused()
{
	volatile size_t huge = static_cast<size_t>(PTRDIFF_MAX) - 4096;
	int thrown = 0;
	for (int i = 0; i < 10; i++) {
		ALSO; try { kept[40] = ::operator new(huge); } catch (const std::bad_alloc &) { thrown++; }
		ALSO; try { kept[40] = ::operator new[](huge); } catch (const std::bad_alloc &) { thrown++; }
		ALSO; try { kept[40] = ::operator new(huge, std::align_val_t(64)); } catch (const std::bad_alloc &) { thrown++; }
		ALSO, thrown += ::operator new(huge, std::nothrow) == nullptr;
		ALSO, thrown += ::operator new[](huge, std::align_val_t(64), std::nothrow) == nullptr;
	}
	if (thrown != 50)
		victim_die("family_cxx: a huge request did not fail");
}

/* A new_handler that frees something, so that the second try succeeds. */
static int handled;
static void handler() { if (++handled == 3) std::set_new_handler(nullptr); }
VICTIM_NOINLINE static void handlers()
{
	volatile size_t huge = static_cast<size_t>(PTRDIFF_MAX) - 4096;
	std::set_new_handler(handler);
	ALSO; try { kept[41] = ::operator new(huge); } catch (const std::bad_alloc &) { handled += 100; }
	if (handled != 103)
		victim_die("family_cxx: the new_handler was not called three times");
}

VICTIM_NOINLINE static void nothing()
{
	kept[20] = TOOK(new char[zero], 0);
	kept[21] = TOOK(::operator new(zero), 0);
	delete[] GAVE(TOOK(new char[zero], 0));
}

/* An argument: leave out what must fail. (Debian's mimalloc is built as C: its operator new calls abort().) */
int main(int argc, char **)
{
	given();
	given_back();
	if (argc == 1) {
		refused();
		handlers();
	}
	nothing();
	return 0;
}
