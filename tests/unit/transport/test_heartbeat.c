// SPDX-License-Identifier: GPL-3.0-or-later
/* The clock of events against the system's: whole ms that have passed, wherever in a second. */
#include "test.h"

#include <time.h>

#include "base/clock.h"
#include "transport/heartbeat.h"

static void test_clock(void)
{
	uint64_t before = clock_ns(), after, from;
	int behind = 0, ahead = 0, looks = 0;
	int fd = heartbeat_start();

	after = clock_ns();
	CHECK(fd >= 0);
	do {
		uint64_t ms, to;

		from = clock_ns();
		ms = heartbeat_ms();
		to = clock_ns();
		behind += ms < (from - after) / 1000000;
		ahead += ms > (to - before) / 1000000;
		looks++;
		nanosleep(&(struct timespec){ .tv_nsec = 300000 }, NULL);
	} while (from < after + 1100000000);
	printf("# %d looks, behind in %d, ahead in %d\n", looks, behind, ahead);
	CHECK_EQ(behind, 0);
	CHECK_EQ(ahead, 0);
	heartbeat_stop();
}

int main(void)
{
	RUN(test_clock);
	return test_status();
}
