// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * crowd.c WAITING BLOCKS BUSY PAIRS PASSING - WAITING threads that allocate BLOCKS blocks each, of
 * 100 bytes, and then wait; BUSY threads that make PAIRS pairs of an allocation and its release
 * first; and before them PASSING threads, one after the other, that do as the waiting ones do and
 * free their blocks. Then it says what is allocated by its threads, and that it is ready, and ends
 * when its standard input does.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../lib/small.h"

#define SIZE 100

static long blocks, pairs;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long ready;

static void hold(void **block)
{
	for (long i = 0; i < blocks; i++)
		block[i] = allocated(SIZE);
}

/* For ever. */
static void wait_here(void)
{
	pthread_mutex_lock(&lock);
	ready++;
	pthread_cond_broadcast(&changed);
	for (;;)
		pthread_cond_wait(&changed, &lock);
}

static void *waiting(void *arg)
{
	hold(arg);
	wait_here();
	return NULL;
}

static void *busy(void *arg)
{
	for (long i = 0; i < pairs; i++)
		free(allocated(SIZE));
	return waiting(arg);
}

static void *passing(void *arg)
{
	void **block = arg;

	hold(block);
	for (long i = 0; i < blocks; i++)
		free(block[i]);
	return NULL;
}

static pthread_t start(void *(*fn)(void *), void **block)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	if (pthread_create(&thread, &attr, fn, block))
		abort();
	pthread_attr_destroy(&attr);
	return thread;
}

int main(int argc, char **argv)
{
	long idle = argc > 5 ? atol(argv[1]) : 0, work = argc > 5 ? atol(argv[3]) : 0, pass = argc > 5 ? atol(argv[5]) : 0;
	void **block;

	if (argc < 6)
		return 2;
	blocks = atol(argv[2]);
	pairs = atol(argv[4]);
	block = calloc((size_t)((idle + work + 1) * blocks + 1), sizeof(*block));
	for (long i = 0; i < pass; i++)
		pthread_join(start(passing, block), NULL);
	for (long i = 0; i < idle + work; i++)
		start(i < idle ? waiting : busy, block + i * blocks);
	pthread_mutex_lock(&lock);
	while (ready < idle + work)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	printf("live %ld of %ld bytes, freed %ld\n", (idle + work) * blocks, (idle + work) * blocks * SIZE, pass * blocks + work * pairs);
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
