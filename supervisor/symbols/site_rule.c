// SPDX-License-Identifier: GPL-3.0-or-later
#include "symbols/site_rule.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "symbols/demangle.h"

/*
 * site_rule.c - the tables behind the site rule.
 *
 * A site is where the program, not a library on its behalf, asked for memory. Namespaces are read
 * off mangled names where there are any (demangle_root), since there the function's own namespace
 * comes first whatever its template arguments are; functions without one have a qualified name that
 * scopes.c made, which begins with the outermost namespace as well. `core` and `alloc` are Rust's
 * only: a C++ program may well have a namespace core of its own.
 */

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static bool in_table(const char *const *table, size_t count, const char *name, size_t len)
{
	for (size_t i = 0; i < count; i++)
		if (strncmp(table[i], name, len) == 0 && table[i][len] == 0)
			return true;
	return false;
}

/* ---- allocators ---------------------------------------------------------- */

static const char *const allocator_names[] = {
	"malloc",
	"calloc",
	"realloc",
	"reallocarray",
	"free",
	"cfree",
	"memalign",
	"aligned_alloc",
	"posix_memalign",
	"valloc",
	"pvalloc",
	"mmap",
	"mmap64",
	"mremap",
	"munmap",
	"mprotect",
	"brk",
	"sbrk",
	"recalloc",
	"reallocf",
	"free_sized",
	"free_aligned_sized",
};
/* As libraries spell the same functions beside the standard names. */
static const char *const allocator_prefixes[] = {
	"__libc_", "__GI___libc_", "__GI_", "__interceptor_", "je_", "_rjem_", "tc_", "mi_",
	"rp",	   "scalable_",	   "dl",    "__real_",	      "__",
};
static const char *const allocator_others[] = {
	"mallocx",
	"rallocx",
	"xallocx",
	"dallocx",
	"sdallocx",
	"je_mallocx",
	"je_rallocx",
	"je_xallocx",
	"je_dallocx",
	"je_sdallocx",
	"tc_new",
	"tc_new_nothrow",
	"tc_newarray",
	"tc_newarray_nothrow",
	"tc_new_aligned",
	"tc_newarray_aligned",
	"tc_delete",
	"tc_deletearray",
	"mi_new",
	"mi_new_n",
	"mi_new_nothrow",
	"mi_new_aligned",
	"mi_new_realloc",
	"mi_new_reallocn",
	"mi_zalloc",
	"mi_mallocn",
	"mi_malloc_aligned",
	"mi_malloc_small",
	"mi_zalloc_small",
	"mi_zalloc_aligned",
	"mi_calloc_aligned",
	"mi_realloc_aligned",
	"mi_reallocn",
	"mi_heap_malloc",
	"mi_heap_zalloc",
	"mi_heap_calloc",
	"mi_heap_realloc",
	"mi_free_size",
};

static bool is_c_allocator(const char *text, size_t len)
{
	if (in_table(allocator_names, COUNT(allocator_names), text, len) ||
	    in_table(allocator_others, COUNT(allocator_others), text, len))
		return true;
	for (size_t i = 0; i < COUNT(allocator_prefixes); i++) {
		size_t n = strlen(allocator_prefixes[i]);

		if (len > n && !strncmp(text, allocator_prefixes[i], n) &&
		    in_table(allocator_names, COUNT(allocator_names), text + n, len - n))
			return true;
	}
	return !strncmp(text, "__rust_", 7) || !strncmp(text, "__rdl_", 6) ||
	       !strncmp(text, "__rg_", 5);
}

static const char *skip_bracketed(const char *p)
{
	char open = *p, close = open == '<' ? '>' : open == '(' ? ')' : open == '{' ? '}' : ']';
	int depth = 0;

	for (; *p; p++) {
		if (*p == open)
			depth++;
		else if (*p == close && p[-1] != '-' && --depth == 0) /* not operator-> */
			return p + 1;
	}
	return p;
}

/*
 * The last part of a qualified C++ name, parameters left behind: "operator new(unsigned long)" of
 * "Pool::operator new(unsigned long)".
 */
static const char *last_part(const char *text)
{
	const char *part = text;

	for (const char *p = text; *p;) {
		if (!strncmp(p, "operator", 8) && p == part)
			return part;
		if (!strncmp(p, "::", 2))
			part = p += 2;
		else if (*p == '<' || *p == '{' || *p == '[' ||
			 (*p == '(' && p == part)) /* (anonymous namespace) */
			p = skip_bracketed(p);
		else if (*p == '(')
			break;
		else
			p++;
	}
	return part;
}

static bool is_operator_new(const char *text)
{
	const char *part = strstr(text, "operator ") ? last_part(text) : text;

	if (!strncmp(part, "operator new", 12))
		part += 12;
	else if (!strncmp(part, "operator delete", 15))
		part += 15;
	else
		return false;
	return *part == 0 || *part == '[' || *part == '(' || *part == '@';
}

static bool is_allocator(const char *raw, const char *text)
{
	size_t len = strcspn(text, "@."); /* malloc@plt, malloc.constprop.0 */

	if (raw && demangle_kind(raw) == MANGLING_RUST)
		return strstr(text, "::__rust_") || strstr(text, "::__rdl_") ||
		       strstr(text, "::__rg_");
	return is_operator_new(text) || (!strchr(text, ':') && is_c_allocator(text, len));
}

/* ---- wrappers ------------------------------------------------------------ */

/* What programs and libraries have between their own code and malloc, the same for all callers. */
static const char *const wrappers[] = {
	/* GNU, git and many others */
	"xmalloc*", "xcalloc*", "xzalloc*", "xrealloc*", "xnmalloc", "xnrealloc", "xcharalloc",
	"x2realloc", "x2nrealloc", "xpalloc", "xmemdup*", "xstrdup", "xstrndup", "do_xmalloc",
	"ximalloc", "xicalloc", "xirealloc", "safe_malloc", "safe_calloc", "safe_realloc",
	/* redis, valkey */
	"zmalloc*", "zcalloc*", "zrealloc*", "ztrymalloc*", "ztrycalloc*", "ztryrealloc*",
	"zstrdup",
	/* GLib */
	"g_malloc*", "g_try_malloc*", "g_realloc*", "g_try_realloc*", "g_strdup", "g_strndup",
	"g_memdup*", "g_slice_alloc*", "g_slice_copy",
	/* Python */
	"PyMem_*", "_PyMem_*", "PyObject_Malloc", "PyObject_Calloc", "PyObject_Realloc",
	"_PyObject_Malloc", "_PyObject_Calloc", "_PyObject_Realloc", "_PyObject_ArenaMmap",
	"pymalloc_alloc", "pymalloc_realloc", "allocate_from_new_pool", "new_arena",
	"arena_map_get", "arena_map_mark_used",
	/* jemalloc, with a prefix */
	"je_*", "_rjem_je_*", "os_pages_map",
	/* SQLite */
	"sqlite3MemMalloc", "sqlite3MemRealloc", "sqlite3Malloc*", "sqlite3_malloc*",
	"sqlite3Realloc", "sqlite3_realloc*", "sqlite3DbMalloc*", "sqlite3DbRealloc*",
	"sqlite3DbStrDup", "sqlite3DbStrNDup", "mallocWithAlarm", "dbMallocRawFinish",
	"dbReallocFinish",
	/* OpenSSL */
	"CRYPTO_malloc", "CRYPTO_zalloc", "CRYPTO_calloc", "CRYPTO_realloc", "CRYPTO_clear_realloc",
	"CRYPTO_memdup", "CRYPTO_strdup", "CRYPTO_strndup",
	/* nginx, PostgreSQL, Perl, Ruby, Tcl, FFmpeg, LLVM */
	"ngx_alloc", "ngx_calloc", "ngx_memalign", "pg_malloc*", "pg_strdup", "Perl_safesys*",
	"ruby_xmalloc*", "ruby_xcalloc*", "ruby_xrealloc*", "objspace_x*", "Tcl_Alloc", "TclpAlloc",
	"av_malloc*", "av_mallocz*", "av_realloc*", "llvm::safe_malloc", "llvm::allocate_buffer",
	/* GNAT, statically linked; the Java machine */
	"__gnat_malloc", "__gnat_realloc", "os::malloc", "os::realloc", "os::strdup*",
	"os::commit_memory*", "os::pd_commit_memory*", "AllocateHeap", "ReallocateHeap"
};

bool site_is_wrapper(const char *text)
{
	size_t len = strcspn(text, "@.(");

	for (size_t i = 0; i < COUNT(wrappers); i++) {
		size_t n = strlen(wrappers[i]);

		if (wrappers[i][n - 1] == '*' ? n - 1 <= len && !strncmp(text, wrappers[i], n - 1)
					      : n == len && !strncmp(text, wrappers[i], n))
			return true;
	}
	return false;
}

const char *site_wrapper(size_t i) { return i < COUNT(wrappers) ? wrappers[i] : NULL; }

/* ---- namespaces ---------------------------------------------------------- */

static const char *const cxx_namespaces[] = { "std",	     "__gnu_cxx",      "__cxxabiv1",
					      "__gnu_debug", "__gnu_parallel", "__gnu_pbds" };
static const char *const rust_crates[] = { "std",     "core",	    "alloc",
					   "__rustc", "std_detect", "panic_unwind" };

static bool is_ident(char c)
{
	return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	       (c >= 'A' && c <= 'Z') || (unsigned char)c >= 0x80;
}

/* The name before the first "::" of TEXT. */
static bool text_root(const char *text, const char **root, size_t *len)
{
	const char *p = text;

	while (is_ident(*p))
		p++;
	*root = text;
	*len = (size_t)(p - text);
	return *len && !strncmp(p, "::", 2);
}

/* The end of the type in "<TYPE as TRAIT>..." and "<TYPE>...": P is behind the first bracket. */
static const char *end_of_type(const char *p)
{
	int depth = 0;

	for (; *p; p++) {
		if (strchr("<([", *p))
			depth++;
		else if (strchr(")]", *p) || (*p == '>' && p[-1] != '-'))
			depth--;
		if (depth < 0 || (depth == 0 && !strncmp(p, " as ", 4)))
			return p;
	}
	return p;
}

/*
 * The crate of a Rust function whose readable name begins with a type: <alloc::vec::Vec<T> as
 * core::ops::Drop>::drop belongs where the type is from; where that is no path (<T as ...>, <&str
 * as ...>, <[u8] as ...>), or if OF_TRAIT (a trait's own method), where the trait is.
 */
static bool rust_text_root(const char *text, bool of_trait, const char **root, size_t *len)
{
	while (*text == '<') {
		const char *type = text + 1, *end = end_of_type(type);

		type += strspn(type, "&*([ ");
		if (!strncmp(type, "mut ", 4) || !strncmp(type, "dyn ", 4))
			type += 4;
		else if (!strncmp(type, "const ", 6))
			type += 6;
		if (*end != ' ')
			of_trait = false;
		if (!of_trait && type < end && text_root(type, root, len))
			return true;
		text = *end == ' ' ? end + 4 : *type == '<' ? type : "";
	}
	return text_root(text, root, len);
}

/*
 * runtime.mallocgc, runtime.(*mheap).alloc, runtime/internal/syscall.Syscall6; not a compiler's
 * part of a C function of that name: runtime.constprop.0
 */
static bool is_go_runtime(const char *text)
{
	static const char *const parts[] = {
		"constprop", "isra", "part", "cold", "lto_priv", "llvm"
	};
	const char *name = text + 8;

	if (strncmp(text, "runtime", 7) || (text[7] != '.' && text[7] != '/'))
		return false;
	return !in_table(parts, COUNT(parts), name, strcspn(name, "."));
}

static bool in_library_namespace(const char *raw, const char *text)
{
	enum mangling kind = raw ? demangle_kind(raw) : MANGLING_NONE;
	const char *root = NULL;
	size_t len = 0;

	if (kind == MANGLING_RUST) {
		root = demangle_root(raw, &len);
		if (!root && !rust_text_root(text, raw[1] == 'R', &root, &len))
			return false;
		return in_table(rust_crates, COUNT(rust_crates), root, len);
	}
	if (kind == MANGLING_CXX)
		root = demangle_root(raw, &len);
	else if (is_go_runtime(text))
		return true;
	else if (!text_root(text, &root, &len))
		return false;
	return root && in_table(cxx_namespaces, COUNT(cxx_namespaces), root, len);
}

unsigned site_classify(const char *raw, const char *text)
{
	return (is_allocator(raw, text) ? SKIP_ALLOCATOR : 0) |
	       (in_library_namespace(raw, text) ? SKIP_NAMESPACE : 0);
}

/* ---- libc in a static executable ----------------------------------------- */

static const char *const libc_prefixes[] = {
	/* two underscores: such names are the implementation's (C11 7.1.3), three at times too */
	"__", "_IO_", "_dl_", "_Unwind_", "_nl_",
};
static const char *const libc_names[] = {
	"strdup",
	"strndup",
	"__strdup",
	"__strndup",
	"wcsdup",
	"__wcsdup",
	"strdup_l",
	"getline",
	"__getline",
	"getdelim",
	"__getdelim",
	"asprintf",
	"vasprintf",
	"__asprintf",
	"__vasprintf",
	"__asprintf_chk",
	"__vasprintf_chk",
	"__vasprintf_internal",
	"fopen",
	"fopen64",
	"fdopen",
	"freopen",
	"__fdopen",
	"setvbuf",
	"open_memstream",
	"fmemopen",
	"popen",
	"tmpfile",
	"printf",
	"fprintf",
	"vfprintf",
	"vprintf",
	"puts",
	"putchar",
	"fputs",
	"fwrite",
	"fread",
	"fgets",
	"getc",
	"fgetc",
	"fgetwc",
	"fputc",
	"__overflow",
	"__underflow",
	"__uflow",
	"scanf",
	"fscanf",
	"__isoc99_scanf",
	"opendir",
	"fdopendir",
	"__opendir",
	"__alloc_dir",
	"scandir",
	"getcwd",
	"__getcwd",
	"get_current_dir_name",
	"realpath",
	"__realpath",
	"canonicalize_file_name",
	"setenv",
	"putenv",
	"__add_to_environ",
	"setlocale",
	"newlocale",
	"qsort",
	"qsort_r",
	"__qsort_r",
	"regcomp",
	"glob",
	"glob64",
	"wordexp",
	"getaddrinfo",
	"getifaddrs",
	"gethostbyname",
	"getpwnam",
	"getpwuid",
	"getgrnam",
	"getgrgid",
	"fts_open",
	"ftw",
	"nftw",
	"tsearch",
	"hcreate",
	"hcreate_r",
	"atexit",
	"__new_exitfn",
	"on_exit",
	"pthread_create",
	"start_thread",
	"__start_thread",
	"start",
	"clone",
	"__clone",
	"clone3",
	"__clone3",
	"pthread_exit",
	"pthread_setspecific",
	"pthread_key_create",
	"tzset",
	"__tzset",
	"tzset_internal",
	"__tzfile_read",
	"localtime",
	"mktime",
	"strftime",
	"dlopen",
	"__dlopen",
	"dlsym",
	"dlclose",
	"dlerror",
	"iconv_open",
	"bindtextdomain",
	"gettext",
	"dcgettext",
	"textdomain",
	"syslog",
	"openlog",
	"initgroups",
	"getgrouplist",
	"aligned_alloc_internal",
	"libc_start_main_stage2",
};

bool site_is_libc(const char *text)
{
	size_t len = strcspn(text, "@.");

	for (size_t i = 0; i < COUNT(libc_prefixes); i++)
		if (text_begins(text, libc_prefixes[i]))
			return true;
	return in_table(libc_names, COUNT(libc_names), text, len);
}

/* ---- source files -------------------------------------------------------- */

bool site_is_library_file(const char *file)
{
	if (!strncmp(file, "/usr/include/", 13) &&
	    (strstr(file, "/bits/") && !strstr(file, "/c++/")))
		/* asprintf, getline & co. of _FORTIFY_SOURCE and bits/stdio.h */
		return true;
	if (!strncmp(file, "/rust/deps/", 11))
		return true; /* crates built into Rust's std */
	return !strncmp(file, "/rustc/", 7) && strstr(file, "/library/");
}
