// SPDX-License-Identifier: GPL-3.0-or-later
#include "test.h"

#include "report/common_block.h"

/*
 * Node N's caller is N - 1, down to 1, and its function that of its chain below, outermost first.
 */
#define MOST 8
static struct symbol_frame chain[MOST];
static uint32_t length;

static uint32_t parent(void *ctx, uint32_t node, uint64_t *pc)
{
	(void)ctx;
	*pc = node > 1 && node <= length + 1 ? 0x100 * (uint64_t)node : 0;
	return *pc ? node - 1 : 0;
}

static struct symbol_frames frames(void *ctx, uint32_t node, uint64_t pc)
{
	(void)ctx;
	(void)pc;
	return (struct symbol_frames){ 1, &chain[node - 2] };
}

static void calls(const char *function, const char *module, unsigned skip)
{
	chain[length++] =
		(struct symbol_frame){ .function = function, .module = module, .skip = skip };
}

/* What the screen calls the chain's site, when its innermost function is malloc. */
static const char *name(void)
{
	static char buf[COMMON_NAME];
	struct sites_source source = { .parent = parent, .frames = frames };
	struct sites *s = sites_new(&source);
	uint32_t stack;

	calls("malloc", "/lib/libc.so.6", SKIP_ALLOCATOR | SKIP_LIBRARY);
	stack = length + 1;
	snprintf(buf, sizeof(buf), "%s",
		 common_name(s, stack, &sites_site(s, sites_of(s, stack))->frame,
			     (char[COMMON_NAME]){ 0 }));
	sites_free(s);
	length = 0;
	return buf;
}

static void of_the_program(void)
{
	calls("main", "/bin/app", 0);
	CHECK_STR(name(), "main");
	calls("main", "/bin/app", 0);
	calls("puts", "/lib/libc.so.6", SKIP_LIBRARY);
	calls("_IO_file_doallocate", "/lib/libc.so.6", SKIP_LIBRARY);
	CHECK_STR(name(), "main [stdio buffer]");
	calls("main", "/bin/app", 0);
	calls("pthread_create", "/lib/libc.so.6", SKIP_LIBRARY);
	calls("_dl_allocate_tls", "/lib/ld-linux-x86-64.so.2", SKIP_LIBRARY);
	CHECK_STR(name(), "main [thread TLS]");
	calls("main", "/bin/app", 0);
	calls("dlopen", "/lib/libc.so.6", SKIP_LIBRARY);
	calls("_dl_open", "/lib/ld-linux-x86-64.so.2", SKIP_LIBRARY);
	CHECK_STR(name(), "main [ld.so]");
	/* beyond the site nothing counts */
	calls("__cxa_atexit", "/lib/libc.so.6", SKIP_LIBRARY);
	calls("at_exit", "/bin/app", 0);
	calls("strdup", "/lib/libc.so.6", SKIP_LIBRARY);
	CHECK_STR(name(), "at_exit");
}

static void of_libraries_alone(void)
{
	calls("_dl_start_user", "/lib/ld-linux-x86-64.so.2", SKIP_LIBRARY);
	calls("libstdc++.so.6+0xa57ba", "/lib/libstdc++.so.6", SKIP_LIBRARY);
	CHECK_STR(name(), "[C++ exception pool]");
	calls("_start", "/bin/app", SKIP_LIBRARY);
	calls("_GLOBAL__sub_I_eh_alloc.cc", "/bin/app", 0);
	CHECK_STR(name(), "[C++ exception pool]");
	calls("_dl_start_user", "/lib/ld-linux-x86-64.so.2", SKIP_LIBRARY);
	CHECK_STR(name(), "[ld.so]");
	calls("_start", "/bin/app", SKIP_LIBRARY);
	calls("setlocale", "/lib/libc.so.6", SKIP_LIBRARY);
	CHECK_STR(name(), "_start");
}

static void of_no_stack(void)
{
	struct sites_source source = { .parent = parent, .frames = frames };
	struct sites *s = sites_new(&source);

	CHECK(!common_block(s, 0));
	CHECK(!common_block(s, UINT32_MAX));
	sites_free(s);
}

int main(void)
{
	RUN(of_the_program);
	RUN(of_libraries_alone);
	RUN(of_no_stack);
	return test_status();
}
