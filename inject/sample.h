/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * sample.h - random distances between samples, in whole numbers: the hooks may use general
 * registers only. Also compiled for the tests.
 */
#ifndef MTRUN_SAMPLE_H
#define MTRUN_SAMPLE_H

#include <stdint.h>

/* splitmix64: 64 random bits. */
static inline uint64_t sample_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/*
 * -ln(X / 2^64) in units of 2^-32; X is not 0. With X / 2^64 = Y / 2^N, Y from 1/2 to 1, it is
 * N ln 2 - ln Y, and -ln Y = 2 artanh z with z = (1 - Y) / (1 + Y), at most 1/3. Of the series z + z^3/3 +
 * z^5/5 ..., nine terms are enough: the rest is below 10^-10.
 */
static inline uint64_t sample_minus_log(uint64_t x)
{
	static const uint32_t term[] = { 252645135, 286331153, 330382100, 390451572,
					 477218588, 613566757, 858993459, 1431655765 };
	unsigned n = (unsigned)__builtin_clzll(x);
	uint64_t y = x << n, z = (-y >> 32 << 32) / ((1ull << 32) + (y >> 32)),
		 square = z * z >> 32, sum = 0;

	for (unsigned i = 0; i < sizeof(term) / sizeof(*term); i++)
		sum = (sum + term[i]) * square >> 32;
	return n * 2977044472ull + (z * (sum + (1ull << 32)) >> 31);
}

/*
 * How many bytes from here on end with the one that is sampled: PERIOD on average, more than S with
 * the probability exp(-S / PERIOD).
 */
static inline uint64_t sample_distance(uint64_t *state, uint64_t period)
{
	return (uint64_t)((unsigned __int128)sample_minus_log(sample_random(state) | 1) * period >>
			  32) +
	       1;
}

#endif
