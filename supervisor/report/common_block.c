// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/common_block.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

/*
 * The functions are known by their names. glibc's are told by its dynamic symbols or by its debug
 * information; a library without either has no name to go by. libstdc++'s pool for exceptions that
 * are thrown when memory is short is made by a constructor that has no dynamic symbol: it is all
 * that the library allocates when it is loaded (libsupc++/eh_alloc.cc).
 */
static const struct {
	const char *function; /* with `*` at the end: all that begin with it */
	const char *what;
} known[] = {
	{ "_IO_file_doallocate", "stdio buffer" },
	{ "_IO_wfile_doallocate", "stdio buffer" },
	{ "_IO_default_doallocate", "stdio buffer" },
	{ "_dl_allocate_tls*", "thread TLS" },
	{ "allocate_dtv*", "thread TLS" },
	{ "_dl_resize_dtv", "thread TLS" },
	{ "__tls_get_addr*", "thread TLS" },
	{ "tls_get_addr_tail", "thread TLS" },
	{ "update_get_addr", "thread TLS" },
	{ "__new_exitfn", "atexit table" },
	{ "__cxa_atexit", "atexit table" },
	{ "__cxa_at_quick_exit", "atexit table" },
	{ "__cxa_thread_atexit_impl", "atexit table" },
	{ "__internal_atexit", "atexit table" },
	{ "on_exit", "atexit table" },
	{ "__cxa_allocate_exception", "C++ exception" },
	{ "_GLOBAL__sub_I_eh_alloc.cc", "C++ exception pool" },
};

static const char *known_function(const char *function)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		size_t len = strcspn(known[i].function, "*");

		if (!strncmp(function, known[i].function, len) &&
		    (known[i].function[len] == '*' || !function[len]))
			return known[i].what;
	}
	return NULL;
}

static bool is_in(const struct symbol_frame *f, const char *library)
{
	const char *name = text_last_part(f->module);

	return name && text_begins(name, library);
}

const char *common_block(struct sites *sites, uint32_t stack)
{
	const struct symbol_frame *asks = NULL, *outermost = NULL;

	for (uint32_t n = stack; n; n = sites_parent(sites, n)) {
		struct symbol_frames frames = sites_frames(sites, n);

		for (size_t i = 0; i < frames.count; i++) {
			const struct symbol_frame *f = &frames.frame[i];
			const char *what;

			if (f->function && (what = known_function(f->function)))
				return what;
			if (!f->skip)
				return asks && is_in(asks, "ld-linux") ? "ld.so" : NULL;
			if (!asks && !(f->skip & SKIP_ALLOCATOR))
				asks = f;
			outermost = f;
		}
	}
	if (asks && is_in(asks, "libstdc++.so") && is_in(outermost, "ld-linux"))
		return "C++ exception pool";
	return asks && is_in(asks, "ld-linux") ? "ld.so" : NULL;
}

const char *common_name(struct sites *sites, uint32_t stack, const struct symbol_frame *site,
			char buf[COMMON_NAME])
{
	const char *what = common_block(sites, stack), *function = site->function;
	int n;

	if (!what)
		return function ? function : "??";
	n = site->skip || !function || known_function(function)
		    ? snprintf(buf, COMMON_NAME, "[%s]", what)
		    : snprintf(buf, COMMON_NAME, "%s [%s]", function, what);
	return n > 0 && n < (int)COMMON_NAME ? buf : function;
}
