// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/secret.h"

#include <string.h>
#include <sys/auxv.h>

/* secret.c - from the 16 random bytes that the kernel gives each program (AT_RANDOM). */

uint64_t secrets[2] = { 0x9e3779b97f4a7c15ull, 0xd6e8feb86659fd93ull };

/* Before main(), and so before there is another thread. */
__attribute__((constructor)) static void choose(void)
{
	const void *given = (const void *)getauxval(AT_RANDOM);

	if (given)
		memcpy(secrets, given, sizeof(secrets));
	secrets[0] ^= secrets[1] << 1;
	secrets[1] ^= secrets[0] << 3;
	secrets[0] |= 1;
	secrets[1] |= 1;
}
