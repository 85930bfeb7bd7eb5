// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * crossings.c ROUNDS N: a second thread gets and keeps N blocks of 100 bytes, so that it holds far more than 1000000 bytes; it frees them
 * and begins again, with blocks a byte larger. It prints the size of the request that crosses 1000000 in each round ("cross SIZE").
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define LIMIT 1000000

static int rounds, n;
static void **kept;

static void *run(void *arg)
{
	for (int r = 0; r < rounds; r++) {
		long held = 0;

		for (int i = 0; i < n; i++) {
			kept[i] = malloc((size_t)(100 + r));
			held += 100 + r;
		}
		if (held > LIMIT)
			printf("cross %d\n", 100 + r);
		for (int i = 0; i < n; i++)
			free(kept[i]);
	}
	return arg;
}

int main(int argc, char **argv)
{
	static char buffer[4096];
	static void *room[100000];
	pthread_t id;

	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	rounds = argc > 1 ? atoi(argv[1]) : 1;
	n = argc > 2 ? atoi(argv[2]) : 1000;
	n = n > 100000 ? 100000 : n;
	kept = room;
	pthread_create(&id, NULL, run, NULL);
	pthread_join(id, NULL);
	return 0;
}
