// SPDX-License-Identifier: GPL-3.0-or-later
/* test_turns - rings come in their order, also if they are added in between. */
#include "test.h"
#include "transport/turns.h"

static bool comes_before(struct turn a, struct turn b)
{
	return a.first != b.first ? a.first < b.first : a.second < b.second;
}

static void test_order(void)
{
	struct turn room[300], model[300];
	struct turns q = { .at = room };
	uint32_t n = 0, taken = 0;
	uint64_t x = 1;

	for (uint32_t i = 0; i < 100000; i++) {
		if (n < 300 && test_random(&x) % 2) {
			struct turn t = { test_random(&x) % 20, i, (uint32_t)test_random(&x) };

			turns_add(&q, t);
			model[n++] = t;
		} else if (n) {
			uint32_t least = 0;
			struct turn t = turns_take(&q);

			for (uint32_t k = 1; k < n; k++)
				if (comes_before(model[k], model[least]))
					least = k;
			CHECK_EQ(t.first, model[least].first);
			CHECK_EQ(t.second, model[least].second);
			CHECK_EQ(t.ring, model[least].ring);
			model[least] = model[--n];
			taken++;
		}
		CHECK_EQ(q.count, n);
	}
	CHECK(taken > 40000);
}

int main(void)
{
	RUN(test_order);
	return test_status();
}
