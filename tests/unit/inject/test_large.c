// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_large.c - which releases take a ticket: those of large blocks, whatever else has the same
 * hash.
 */
#include <sys/mman.h>

#include "inject/large.h"
#include "test.h"

static struct wire_process *wire;

static struct wire_process *process(void)
{
	void *p = mmap(NULL, sizeof(struct wire_process), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		exit(77);
	return p;
}

/* The N-th address from FROM on whose hash is HASH. */
static uint64_t address_of(uint32_t hash, unsigned n)
{
	uint64_t a = 0x7f0000000000ull;

	for (;; a += 16)
		if (wire_large_hash(a) == hash && !n--)
			return a;
}

/*
 * A release with the same hash, of a large block or a small one, leaves the other one its ticket.
 */
static void test_collision(void)
{
	uint64_t a = address_of(7, 0), b = address_of(7, 1), small = address_of(7, 2),
		 beside = address_of(6, 0);

	large_add(wire, a);
	large_add(wire, b);
	CHECK(!large_take(wire, small));
	CHECK(!large_take(wire, beside));
	CHECK(large_take(wire, a));
	CHECK(!large_take(wire, a));
	CHECK(large_take(wire, b));
	CHECK_EQ(wire->large[7], 0);
	large_add(wire, a);
	large_add(wire, a); /* its release was not told of */
	CHECK(large_take(wire, a));
	CHECK_EQ(wire->large[7], 0);
}

/*
 * Where there are more than a line has room for each release takes a ticket; beside it nothing
 * changes.
 */
static void test_full(void)
{
	uint64_t a[WIRE_LARGE_WAYS + 2];

	for (unsigned i = 0; i < WIRE_LARGE_WAYS + 2; i++)
		large_add(wire, a[i] = address_of(100, i));
	for (unsigned i = 0; i < WIRE_LARGE_WAYS + 2; i++)
		CHECK(large_take(wire, a[i]));
	CHECK(large_take(wire, a[0]));
	CHECK(!large_take(wire, address_of(99, 0)));
	large_clear(wire);
	CHECK(!large_take(wire, a[0]));
}

/*
 * Random blocks come and go for long: no ticket is missing, and none is taken in vain while no line
 * was full.
 */
static void test_long_run(void)
{
	enum { BLOCKS = 4000, ROUNDS = 2000000 };
	static struct {
		uint64_t at;
		bool large;
	} live[BLOCKS];
	uint64_t seed = 5, missing = 0, in_vain = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		unsigned k = (unsigned)(test_random(&seed) % BLOCKS);

		if (live[k].at) {
			bool ticket = large_take(wire, live[k].at);

			missing += live[k].large && !ticket;
			in_vain += !live[k].large && ticket;
			live[k].at = 0;
			continue;
		}
		live[k].at = 0x560000000000ull + (test_random(&seed) % (1u << 20)) * BLOCKS * 16 +
			     k * 16;
		live[k].large = test_random(&seed) % 2;
		if (live[k].large)
			large_add(wire, live[k].at);
	}
	CHECK_EQ(missing, 0);
	CHECK_EQ(in_vain, 0);
}

static void test_child(void)
{
	struct wire_process *child = process();
	uint64_t a = address_of(300, 0), b = address_of(301, 0);

	large_add(wire, a);
	large_add(wire, b);
	large_copy(child, wire);
	CHECK(large_take(child, a));
	CHECK(large_take(wire, a));
	CHECK(large_take(child, b));
	CHECK(large_take(wire, b));
	munmap(child, sizeof(*child));
}

int main(void)
{
	wire = process();
	RUN(test_collision);
	RUN(test_full);
	large_clear(wire);
	RUN(test_long_run);
	RUN(test_child);
	return test_status();
}
