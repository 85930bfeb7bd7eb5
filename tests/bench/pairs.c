// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * pairs.c DEPTH THREADS PAIRS [STEP] - malloc+free pairs at a call depth. Prints the ns that one
 * pair took, from inside: wall time of the slowest thread over its PAIRS.
 *
 * DEPTH counts every frame from the one that calls malloc out to the thread's first one. With STEP,
 * each pair is made after returning STEP frames and calling down again, as real programs do;
 * without, all come from one frame. The frames differ in size, and are of four functions. A thread
 * has block sizes of its own and writes no line that another one touches.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS = 256 };

struct job {
	_Alignas(256) long pairs;
	size_t size;
	int step;
	int depth;
	double ns;
	pthread_barrier_t *start;
	char pad[256];
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline __attribute__((always_inline)) void pair(size_t size)
{
	void *p = malloc(size);

	__asm__ volatile("" : : "r"(p) : "memory"); /* the compiler may not pair them off */
	free(p);
}

#define FRAME(name, next, bytes)                                                      \
	static __attribute__((noinline)) long name(struct job *j, int left, int leaf) \
	{                                                                             \
		volatile char room[bytes];                                            \
		long r;                                                               \
		room[0] = (char)left;                                                 \
		if (left <= 1) {                                                      \
			if (leaf) {                                                   \
				pair(j->size);                                        \
				return 1;                                             \
			}                                                             \
			for (long i = 0; i < j->pairs; i++)                           \
				if (j->step)                                          \
					next(j, j->step, 1);                          \
				else                                                  \
					pair(j->size);                                \
			return 0;                                                     \
		}                                                                     \
		r = next(j, left - 1, leaf);                                          \
		return r + room[0];                                                   \
	}
static long frame_a(struct job *, int, int);
FRAME(frame_d, frame_a, 24)
FRAME(frame_c, frame_d, 200)
FRAME(frame_b, frame_c, 56)
FRAME(frame_a, frame_b, 104)

static void *thread_main(void *arg)
{
	struct job *j = arg;
	double began;

	pair(j->size); /* the allocator's own set-up is not the question */
	pthread_barrier_wait(j->start);
	began = now();
	frame_a(j, j->depth - j->step, 0);
	j->ns = (now() - began) / (double)j->pairs;
	return NULL;
}

int main(int argc, char **argv)
{
	static struct job job[THREADS];
	int depth = argc > 1 ? atoi(argv[1]) : 20, threads = argc > 2 ? atoi(argv[2]) : 1,
	    step = argc > 4 ? atoi(argv[4]) : 0;
	long pairs = argc > 3 ? atol(argv[3]) : 1000000;
	pthread_barrier_t start;
	pthread_t thread[THREADS];
	double worst = 0;

	if (depth < 8 || threads < 1 || threads > THREADS || step > depth - 6) {
		fprintf(stderr, "usage: pairs DEPTH(8..) THREADS PAIRS [STEP]\n");
		return 2;
	}
	pthread_barrier_init(&start, NULL, (unsigned)threads);
	for (int i = 0; i < threads; i++) {
		/*
		 * outside of frame_*: thread_main, start_thread, clone3; in the first one
		 * thread_main, main, two of the libc's, _start
		 */
		job[i] = (struct job){ .pairs = pairs,
				       .size = 24 + 48 * (size_t)i,
				       .depth = depth - (i ? 3 : 5),
				       .step = step,
				       .start = &start };
		if (i)
			pthread_create(&thread[i], NULL, thread_main, &job[i]);
	}
	thread_main(&job[0]);
	for (int i = 1; i < threads; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < threads; i++)
		worst = job[i].ns > worst ? job[i].ns : worst;
	printf("%.2f\n", worst);
	return 0;
}
