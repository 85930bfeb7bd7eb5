// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * lifetimes - blocks of functions that live for different times: soon() frees each at once, later() a hundred after 400 ms, in_turn() has one at a
 * time for 10 ms, kept() keeps ten from 100 ms after the start to the end. Prints of each what its blocks lived on average in ms, up to
 * the end, and how many they were: `FUNCTION MS BLOCKS`. With an argument it ends when there is a file
 * of that name, or 20 s later.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct life {
	double ms;
	long blocks;
};
static void *volatile block[100];

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static __attribute__((noinline)) struct life soon(void)
{
	for (int i = 0; i < 20000; i++) {
		block[0] = malloc(100);
		free(block[0]);
	}
	return (struct life){ 0, 20000 };
}

static __attribute__((noinline)) struct life later(void)
{
	struct life l = { 0, 100 };

	for (int i = 0; i < 100; i++) {
		block[i] = malloc(1000);
		l.ms -= now();
	}
	usleep(400000);
	for (int i = 0; i < 100; i++) {
		l.ms += now();
		free(block[i]);
	}
	return l;
}

static __attribute__((noinline)) struct life in_turn(void)
{
	struct life l = { 0, 30 };

	for (int i = 0; i < 30; i++) {
		block[0] = malloc(3000);
		l.ms -= now();
		usleep(10000);
		l.ms += now();
		free(block[0]);
	}
	return l;
}

static __attribute__((noinline)) struct life kept(void)
{
	struct life l = { 0, 10 };

	usleep(100000);
	for (int i = 0; i < 10; i++) {
		block[i] = malloc(50);
		l.ms -= now();
	}
	return l;
}

static void print(const char *name, struct life l) { printf("%s %.3f %ld\n", name, l.ms / (double)l.blocks, l.blocks); }

int main(int argc, char **argv)
{
	struct life keeps = kept();

	for (int i = 0; i < 10; i++)
		block[90 + i] = block[i];
	print("soon", soon());
	print("later", later());
	print("in_turn", in_turn());
	for (int ms = 0; argc > 1 && access(argv[1], F_OK) && ms < 20000; ms++)
		usleep(1000);
	keeps.ms += 10 * now();
	print("kept", keeps);
	return 0;
}
