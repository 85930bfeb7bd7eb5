// SPDX-License-Identifier: GPL-3.0-or-later
#include "process/usable.h"

#include <malloc.h>
#include <stdint.h>

#include "test.h"

#define AT 0x555555559010ull /* 16 bytes into a page, as mappings are */

static void test_glibc(void)
{
	CHECK_EQ(usable_glibc(AT, 0, 0, 0x21), 24);
	CHECK_EQ(usable_glibc(AT, 24, 0, 0x21), 24);
	CHECK_EQ(usable_glibc(AT, 25, 0, 0x31), 40);
	/* what was left over was too little for a chunk */
	CHECK_EQ(usable_glibc(AT, 25, 0, 0x41), 56);
	CHECK_EQ(usable_glibc(AT, 25, 0, 0x45), 56); /* of another arena */
	CHECK_EQ(usable_glibc(AT, 100000, 0, 0x19002), 0x19000 - 16);
	CHECK_EQ(usable_glibc(AT, 10, 0, 0x1002), 0x1000 - 16); /* shrunk */
	/* aligned */
	CHECK_EQ(usable_glibc(AT + 0x30, 100000, 0x30, 0x19fd2), 0x19fd0 - 16);
}

/* Words that such a block cannot have. */
static void test_glibc_nonsense(void)
{
	static const uint64_t head[] = { 0,
					 1,
					 0x20,
					 0x29,
					 0x39,
					 0x1000001,
					 0x1000002,
					 0x19ff2,
					 0x7ffff7dd1ce0,
					 UINT64_MAX,
					 UINT64_MAX - 15,
					 0xfffffffffffff002 };

	for (size_t i = 0; i < sizeof(head) / sizeof(*head); i++)
		CHECK_EQ(usable_glibc(AT, 25, 0, head[i]), 40);
	CHECK_EQ(usable_glibc(AT, 100000, 16, 0x19002), 100008);
	CHECK_EQ(usable_glibc(AT, 0, 0, 0x11), 24);
	CHECK_EQ(usable_glibc(0, 40, 0, 0), 40);
}

/* The real thing. */
#if !TEST_SANITIZED
static void own(const void *block, size_t n)
{
	raddr_t at = (uintptr_t)block;
	const uint64_t *words = (const uint64_t *)(at - 16);

	CHECK_EQ(usable_glibc(at, n, words[0], words[1]), malloc_usable_size((void *)block));
}

static void test_glibc_own(void)
{
	for (size_t n = 0; n < 300000; n = n + 1 + n / 7) {
		void *p = malloc(n), *q = memalign(256, n);

		own(p, n);
		own(q, n);
		free(p);
		free(q);
	}
}
#endif

/* As in jemalloc(3), "Size classes". */
static void test_jemalloc(void)
{
	static const uint64_t class[] = { 8,	 16,	32,    48,    64,    80,    96,	   112,
					  128,	 160,	192,   224,   256,   320,   384,   448,
					  512,	 640,	768,   896,   1024,  1280,  1536,  1792,
					  2048,	 2560,	3072,  3584,  4096,  5120,  6144,  7168,
					  8192,	 10240, 12288, 14336, 16384, 20480, 24576, 28672,
					  32768, 40960, 49152, 57344, 65536 };
	uint64_t n = 0;

	for (size_t i = 0; i < sizeof(class) / sizeof(*class); i++)
		for (; n <= class[i]; n++)
			CHECK_EQ(usable_jemalloc(n), class[i]);
	CHECK_EQ(usable_jemalloc((7ull << 30) + 1), 8ull << 30);
	CHECK_EQ(usable_jemalloc((5ull << 30) + 1), 6ull << 30);
	CHECK_EQ(usable_jemalloc(4ull << 30), 4ull << 30);
}

int main(void)
{
	RUN(test_glibc);
	RUN(test_glibc_nonsense);
#if TEST_SANITIZED
	SKIP(test_glibc_own, "its malloc is not glibc's");
#else
	RUN(test_glibc_own);
#endif
	RUN(test_jemalloc);
	return test_status();
}
