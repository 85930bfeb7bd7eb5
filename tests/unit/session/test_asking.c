// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The session's lock with several askers at once: it is one's at a time, askers have it in the
 * order in which they came, the loop has its turns though they never rest, what they have done is
 * done by the loop's thread, each once, and nothing is lost at the end. Plain counters are shared
 * under the lock: the thread sanitizer's build sees whoever comes too early.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "session/session_state.h"
#include "test.h"

enum { ASKERS = 6, ROUNDS = 300 };

static struct options options;
static struct session *session;
static pthread_t loop_thread;

/* under the session's lock */
static unsigned inside, overlaps, holds, asked, strangers, turns, ended, order[ASKERS], places;

static void nap(unsigned us) { usleep(us); }

static void enter(void)
{
	overlaps += inside++ != 0;
	holds++;
}

static void leave(void) { inside--; }

/* The loop serves it each turn, as it is always ready. */
static void on_turn(void *ctx, short revents)
{
	(void)ctx;
	(void)revents;
	overlaps += inside != 0;
	turns++;
}

static void do_it(struct asked *a)
{
	strangers += !pthread_equal(pthread_self(), loop_thread);
	asked++;
	a->ret = (int)a->number + 1;
}

static void with_session(void (*fn)(void *ctx))
{
	overlaps = holds = asked = strangers = turns = ended = places = inside = 0;
	session = session_new(&options);
	CHECK(session != NULL);
	loop_thread = pthread_self();
	if (session)
		CHECK_EQ(asking_loop(session, fn, NULL), 0);
	session_free(session);
	CHECK_EQ(overlaps, 0);
	CHECK_EQ(strangers, 0);
}

/* ---- all at once --------------------------------------------------------- */

static void ask(void *ctx)
{
	unsigned me = (unsigned)(uintptr_t)ctx;
	uint64_t seed = me + 1;

	for (unsigned i = 0; i < ROUNDS; i++) {
		struct asked a = { .number = me * ROUNDS + i };

		enter();
		if (test_random(&seed) % 4 == 0)
			nap(100);
		leave();
		switch (test_random(&seed) % 6) {
		case 0:
			if (asking_do(session, do_it, &a) != (int)a.number + 1)
				strangers++;
			break;
		case 1:
			if (asking_turn(session, 0))
				strangers++;
			break;
		case 2:
			if (asking_turn(session, 1))
				strangers++;
			break;
		case 3:
			asking_unlock(session);
			asking_unlock(session); /* nested */
			asking_lock(session);
			if (!asking_is_unlocked())
				CHECK(!"unlocked");
			if (asking_relock()) {
				enter();
				leave();
				asking_reunlock(true);
			}
			asking_lock(session);
			break;
		case 4: asking_yield(session); break;
		default: asking_unlock(session); asking_lock(session);
		}
	}
	ended++;
}

static void start_all(void *unused)
{
	int always = eventfd(1, EFD_CLOEXEC);

	(void)unused;
	CHECK_EQ(session_watch(session, always, POLLIN, on_turn, NULL), 0);
	for (unsigned i = 1; i < ASKERS; i++)
		CHECK_EQ(asking_beside(session, ask, (void *)(uintptr_t)i), 0);
	ask(NULL);
	asking_end(session); /* waits for the others */
	CHECK_EQ(ended, ASKERS);
	CHECK(asking_beside(session, ask, NULL) == -ESHUTDOWN);
	CHECK(turns > 10);
	CHECK(asked > ROUNDS / 10);
	printf("# %u holds, %u asked, %u turns\n", holds, asked, turns);
	close(always);
}

static void test_many(void) { with_session(start_all); }

/* ---- in order ------------------------------------------------------------ */

static void note(void *ctx)
{
	if (places < ASKERS)
		order[places++] = (unsigned)(uintptr_t)ctx;
}

static unsigned waiting(void)
{
	unsigned n = 0;

	pthread_mutex_lock(&session->asking.lock);
	n = session->asking.waiting;
	pthread_mutex_unlock(&session->asking.lock);
	return n;
}

static void start_in_order(void *unused)
{
	(void)unused;
	for (unsigned i = 0; i < ASKERS; i++) { /* each waits before the next one comes */
		CHECK_EQ(asking_beside(session, note, (void *)(uintptr_t)i), 0);
		for (unsigned tries = 0; waiting() != i + 1 && tries < 10000; tries++)
			nap(1000);
	}
	while (places < ASKERS && !asking_turn(session, 1))
		;
	for (unsigned i = 0; i < ASKERS; i++)
		CHECK_EQ(order[i], i);
}

static void test_order(void) { with_session(start_in_order); }

/* ---- the loop is not starved --------------------------------------------- */

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void never_rest(void *ctx)
{
	uint64_t end = now_ms() + 300;

	(void)ctx;
	while (now_ms() < end) {
		enter();
		leave();
		asking_unlock(session);
		asking_lock(session);
	}
	ended++;
}

static void start_restless(void *unused)
{
	int always = eventfd(1, EFD_CLOEXEC);

	(void)unused;
	CHECK_EQ(session_watch(session, always, POLLIN, on_turn, NULL), 0);
	CHECK_EQ(asking_beside(session, never_rest, NULL), 0);
	never_rest(NULL);
	while (ended < 2 && !asking_turn(session, 1))
		;
	printf("# %u holds, %u turns in 300 ms\n", holds, turns);
	CHECK(turns >= 5);
	CHECK(holds > turns);
	close(always);
}

static void test_not_starved(void) { with_session(start_restless); }

int main(void)
{
	RUN(test_many);
	RUN(test_order);
	RUN(test_not_starved);
	return test_status();
}
