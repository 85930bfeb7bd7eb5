// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_symbols.c - addresses to frames, against addr2line of binutils (or llvm-symbolizer, where
 * binutils 2.40 does not read what clang writes). Programs are compiled here, in a directory that
 * goes at the end; what there is no compiler or tool for is skipped.
 */
#include "symbols/symbols.h"

#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/outside.h"
#include "symbols/demangle.h"
#include "symbols/elf.h"
#include "symbols/module.h"
#include "test.h"

static char dir[] = "/tmp/mtrun-symbols-XXXXXX";

/* ---- tools --------------------------------------------------------------- */

static int sh(const char *format, ...)
{
	char command[8192];
	va_list args;
	int n = snprintf(command, sizeof(command), "cd %s && { ", dir);

	va_start(args, format);
	n += vsnprintf(command + n, sizeof(command) - (size_t)n, format, args);
	va_end(args);
	snprintf(command + n, sizeof(command) - (size_t)n, "; } >/dev/null 2>log");
	return system(command);
}

static bool have(const char *tool) { return sh("command -v %s", tool) == 0; }

static void put(const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	if (!f || fputs(text, f) < 0 || fclose(f) != 0)
		abort();
}

/* A module as if NAME were mapped where it was linked. */
static struct module *module_new(const char *name, unsigned roles)
{
	struct module *m = calloc(1, sizeof(*m));
	const uint8_t *id;
	char path[512];
	int fd, error = 0;

	if (name[0] == '/')
		snprintf(path, sizeof(path), "%s", name);
	else
		snprintf(path, sizeof(path), "%s/%s", dir, name);
	m->path = strdup(path);
	m->end = UINT64_MAX;
	m->roles = roles;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	m->elf = fd >= 0 ? elf_open(fd, &error) : elf_empty();
	if (fd >= 0)
		close(fd);
	if (!m->elf)
		m->elf = elf_empty();
	m->build_id_len = elf_build_id(m->elf, &id);
	if (m->build_id_len)
		memcpy(m->build_id, id, m->build_id_len);
	return m;
}

static void module_free(struct module *m)
{
	elf_unref(m->elf);
	free(m->path);
	free(m);
}

/* ---- programs ------------------------------------------------------------ */

static const char c_program[] =
	"#include <stdlib.h>\n"
	"#include <string.h>\n"
	"static inline __attribute__((always_inline)) char *inner(int n) { char *p = malloc(n); memset(p, n, n); return p; }\n"
	"static inline __attribute__((always_inline)) char *outer(int n) {\n"
	"	return inner(n) ? inner(n + 1) : inner(n + 2);\n"
	"}\n"
	"__attribute__((noinline)) static char *leaf(int n) { return outer(n); }\n"
	"__attribute__((noinline)) int cold(int n) { if (n > 1000) { outer(n); abort(); } return (int)strlen(leaf(n)); }\n"
	"int main(int argc, char **argv) { int s = 0; for (int i = 0; i < 10; i++) { s += leaf(i)[0]; outer(argc + i); } return s + cold(argv[0][0]); }\n";

static const char cxx_program[] =
	"#include <map>\n"
	"#include <string>\n"
	"#include <vector>\n"
	"namespace core { template <class T> std::vector<T> repeat(T a, int n) { std::vector<T> v; for (int i = 0; i < n; i++) v.push_back(a); return v; } }\n"
	"struct Base { virtual ~Base() {} virtual int *f(int) = 0; };\n"
	"struct Derived : Base { std::map<int, std::string> m; int *f(int n) override { m[n] = \"a string of more than sixteen bytes\"; return new int[n]; } };\n"
	"Base *make() { return new Derived; }\n"
	"int main(int argc, char **argv)\n"
	"{\n"
	"	Base *b = make();\n"
	"	auto v = core::repeat<double>(3.0, argc);\n"
	"	auto w = core::repeat<std::string>(argv[0], argc);\n"
	"	std::string s;\n"
	"	for (auto &x : w)\n"
	"		s += x;\n"
	"	int r = *b->f(argc) + (int)v[0] + (int)s.size();\n"
	"	delete b;\n"
	"	return r;\n"
	"}\n";

/* Each allocation prints the return addresses above it, as the file has them. */
static const char sites_program[] =
	"#include <cstdio>\n"
	"#include <cstdlib>\n"
	"#include <execinfo.h>\n"
	"#include <link.h>\n"
	"#include <map>\n"
	"#include <new>\n"
	"#include <string>\n"
	"#include <vector>\n"
	"static int on;\n"
	"static int first(struct dl_phdr_info *i, size_t, void *p) { *(size_t *)p = i->dlpi_addr; return 1; }\n"
	"__attribute__((noinline)) void *operator new(size_t n)\n"
	"{\n"
	"	void *pc[50];\n"
	"	if (on) {\n"
	"		on = 0;\n"
	"		size_t base = 0;\n"
	"		dl_iterate_phdr(first, &base);\n"
	"		int k = backtrace(pc, 50);\n"
	"		for (int i = 1; i < k; i++) {\n"
	"			Dl_info info;\n"
	"			if (dladdr(pc[i], &info) && (size_t)info.dli_fbase == base) printf(\"%zx \", (size_t)pc[i] - base);\n"
	"			else printf(\"- \");\n"
	"		}\n"
	"		puts(\"\");\n"
	"		on = 1;\n"
	"	}\n"
	"	return malloc(n);\n"
	"}\n"
	"void *operator new[](size_t n) { return operator new(n); }\n"
	"void operator delete(void *p) noexcept { free(p); }\n"
	"void operator delete(void *p, size_t) noexcept { free(p); }\n"
	"char *keep;\n"
	"int main(int argc, char **)\n"
	"{\n"
	"	std::vector<int> vec;\n"
	"	std::map<int, int> mp;\n"
	"	std::string s;\n"
	"	on = 1;\n"
	"	for (int i = 0; i < 200 * argc; i++) {\n"
	"		int r = i % 50;\n"
	"		vec.push_back(i);\n" /* line 41 */
	"		mp[r] = i;\n"
	"		s += \"xxxx\";\n"
	"		keep = new char[4];\n"
	"	}\n"
	"	on = 0;\n"
	"	return keep == NULL;\n"
	"}\n";
enum { FIRST_SITE = 41, SITES = 4 };

static const char names_program[] =
	"static char *global(int n) { return new char[n]; }\n"
	"namespace { struct Local { __attribute__((noinline)) char *get(int n) { return new char[n]; } }; }\n"
	"namespace n { inline __attribute__((always_inline)) char *in(int n) { auto l = [n]() __attribute__((always_inline)) { return new char[n]; }; return l(); } }\n"
	"static inline char *often(int n) { char *p = new char[n]; for (int i = 0; i < n; i++) p[i] = (char)(i * n); return p; }\n"
	"char *(*pointer)(int) = often;\n"
	"char *use(int n) { Local l; return global(n) ? l.get(n) : n::in(n); }\n"
	"char *more(int n) { return often(n); }\n"
	"int main(int argc, char **) { auto l = [argc] { return new char[argc]; }; return use(argc) == l(); }\n";

static const char still_program[] =
	"#include <unistd.h>\nint main(void) { for (;;) { if (write(1, \"x\", 1) < 0) return 1; pause(); } }\n";

/* ---- comparing ----------------------------------------------------------- */

struct truth {
	size_t count;
	struct {
		char function[2048], file[512];
		unsigned line, column;
	} frame[64];
};

/* Each STEPth byte of the functions of FILE. */
static size_t sample_each(unsigned step, const char *file, uint64_t *addr, size_t max)
{
	char command[1024], line[1024];
	uint64_t start, size;
	size_t n = 0;
	FILE *p;

	snprintf(
		command, sizeof(command),
		"cd %s && nm -S --defined-only %s | grep -i ' [tw] ' | awk 'NF == 4 {print $1, $2}' | sort -u",
		dir, file);
	p = popen(command, "r");
	while (p && fgets(line, sizeof(line), p))
		if (sscanf(line, "%" SCNx64 " %" SCNx64, &start, &size) == 2)
			for (uint64_t a = start; a < start + size && n < max; a += step)
				addr[n++] = a;
	if (p)
		pclose(p);
	return n;
}

static size_t sample(const char *file, uint64_t *addr, size_t max)
{
	return sample_each(11, file, addr, max);
}

static void read_location(char *text, struct truth *t, size_t i, bool llvm)
{
	char *end, *paren = strstr(text, " (discriminator");

	if (paren)
		*paren = 0;
	if (llvm && (end = strrchr(text, ':'))) {
		t->frame[i].column = (unsigned)strtoul(end + 1, NULL, 10);
		*end = 0;
	}
	end = strrchr(text, ':');
	if (end) {
		t->frame[i].line = (unsigned)strtoul(end + 1, NULL, 10); /* "?": 0 */
		*end = 0;
	}
	snprintf(t->frame[i].file, sizeof(t->frame[i].file), "%.511s",
		 strcmp(text, "??") ? text : "");
}

/* FN is called with what the tool says about each address. */
static size_t ask_tool(const char *file, bool llvm, const uint64_t *addr, size_t n,
		       void (*fn)(void *ctx, size_t i, struct truth *t), void *ctx)
{
	static struct truth t;
	char path[512], text[4096];
	size_t i = 0;
	bool function = true;
	FILE *f;

	snprintf(path, sizeof(path), "%s/addresses", dir);
	f = fopen(path, "w");
	for (size_t j = 0; f && j < n; j++)
		fprintf(f, "0x%" PRIx64 "\n", addr[j]);
	if (!f || fclose(f) != 0)
		return 0;
	snprintf(
		text, sizeof(text),
		llvm ? "cd %s && llvm-symbolizer-14 --functions=linkage --inlines --no-demangle -e %s < addresses"
		     : "cd %s && { cat addresses; echo; } | addr2line -a -f -i -e %s",
		dir, file);
	f = popen(text, "r");
	t.count = 0;
	while (f && fgets(text, sizeof(text), f)) {
		text[strcspn(text, "\n")] = 0;
		if (llvm ? !text[0] : !strncmp(text, "0x0", 3)) {
			if (t.count && i < n)
				fn(ctx, i++, &t);
			memset(&t, 0, sizeof(t));
			function = true;
		} else if (t.count < 64) {
			if (function) {
				text[strcspn(text, ".")] = 0; /* .cold, .isra.0 */
				snprintf(t.frame[t.count].function, sizeof(t.frame[0].function),
					 "%.2047s", text);
			} else {
				read_location(text, &t, t.count++, llvm);
			}
			function = !function;
		}
	}
	if (t.count && i < n)
		fn(ctx, i++, &t);
	if (f)
		pclose(f);
	return i;
}

struct comparison {
	struct symbols *symbols;
	struct module *module;
	const uint64_t *addr;
	size_t frames, inlined, lines, bad;
	bool llvm;
};

static bool same_name(const char *mine, const char *raw)
{
	char *text = demangle(raw);
	size_t n = strlen(mine), k = strlen(raw);
	bool same = !strcmp(mine, text ? text : raw) ||
		    (n > k + 2 && !strcmp(mine + n - k, raw) && mine[n - k - 1] == ':');

	free(text);
	return same || !strcmp(raw, "??");
}

static bool same_file(const char *mine, const char *theirs)
{
	char a[4096], b[4096];

	if (!mine || !theirs[0])
		return !mine && !theirs[0];
	if (!strcmp(mine, theirs))
		return true;
	return realpath(mine, a) && realpath(theirs, b) && !strcmp(a, b);
}

static void compare(void *ctx, size_t i, struct truth *t)
{
	struct comparison *c = ctx;
	struct symbol_frames f = symbols_resolve(c->symbols, c->module, c->addr[i], true);
	bool good = f.count == t->count;

	/* The name of an object file from .symtab, without a line, is no source file. */
	if (t->frame[t->count - 1].line == 0 && !strchr(t->frame[t->count - 1].file, '/'))
		return;
	for (size_t j = 0; good && j < f.count; j++) {
		const struct symbol_frame *m = &f.frame[j];

		good = same_name(m->function, t->frame[j].function) &&
		       same_file(m->file, t->frame[j].file) && m->line == t->frame[j].line &&
		       (!c->llvm || m->column == t->frame[j].column) &&
		       m->inlined == (j + 1 < f.count);
		c->frames++;
		c->inlined += m->inlined;
		c->lines += m->line > 0;
	}
	if (good)
		return;
	if (c->bad++ < 3) {
		printf("# 0x%" PRIx64 " in %s\n", c->addr[i], c->module->path);
		for (size_t j = 0; j < f.count; j++)
			printf("#   ours   %s %s:%u:%u\n", f.frame[j].function,
			       f.frame[j].file ? f.frame[j].file : "-", f.frame[j].line,
			       f.frame[j].column);
		for (size_t j = 0; j < t->count; j++)
			printf("#   theirs %s %s:%u:%u\n", t->frame[j].function, t->frame[j].file,
			       t->frame[j].line, t->frame[j].column);
	}
}

/*
 * FILE as the module, REFERENCE (with all its debug information) for the tool. MIN: inlined frames
 * that must have been among them.
 */
static void check_file(const char *file, const char *reference, bool llvm, size_t min)
{
	static uint64_t addr[4000];
	size_t n = sample(reference, addr, (size_t)test_size(1200, sizeof(addr) / sizeof(addr[0])));
	struct comparison c = { .symbols = symbols_new(NULL),
				.module = module_new(file, MODULE_EXE),
				.addr = addr,
				.llvm = llvm };

	CHECK(n > 20);
	CHECK_EQ(ask_tool(reference, llvm, addr, n, compare, &c), n);
	CHECK_EQ(c.bad, 0);
	CHECK(c.inlined >= min);
	CHECK(c.lines > n / 2);
	symbols_free(c.symbols);
	module_free(c.module);
}

/* ---- tests --------------------------------------------------------------- */

static void build_and_check(const char *compiler, const char *flags, const char *source, bool llvm,
			    size_t min)
{
	if (sh("%s %s -o program %s", compiler, flags, source) != 0) {
		printf("# %s %s does not work here\n", compiler, flags);
		return;
	}
	check_file("program", "program", llvm, min);
}

static void test_gcc_c(void)
{
	build_and_check("gcc", "-g -O0", "c.c", false, 1);
	build_and_check("gcc", "-g -O2", "c.c", false, 20);
	build_and_check("gcc", "-g -O2 -fomit-frame-pointer -gdwarf-4", "c.c", false, 20);
	build_and_check("gcc", "-g -O2 -gdwarf-3 -gstrict-dwarf", "c.c", false, 20);
	build_and_check("gcc", "-g -O2 -gz", "c.c", false, 20);
	build_and_check("gcc", "-g -O2 -gz=zlib-gnu -gdwarf-4", "c.c", false, 20);
	if (test_size(0, 1)) {
		build_and_check("gcc", "-g -O2 -no-pie", "c.c", false, 20);
		build_and_check("gcc", "-g -O2 -ffunction-sections -Wl,--gc-sections", "c.c", false,
				20);
	}
}

static void test_gcc_cxx(void)
{
	/*
	 * addr2line of binutils 2.40 takes the wrong file table in some units that gcc writes: only
	 * gdwarf-4 for it.
	 */
	bool llvm = have("llvm-symbolizer-14");

	build_and_check("g++", "-g -O2 -gdwarf-4", "cxx.cc", false, 200);
	build_and_check("g++", "-g -O2 -gdwarf-4 -fdebug-types-section", "cxx.cc", llvm, 200);
	if (llvm) {
		if (test_size(0, 1))
			build_and_check("g++", "-g -O0", "cxx.cc", true, 0);
		build_and_check("g++", "-g -O2", "cxx.cc", true, 200);
	}
}

static void test_clang(void)
{
	bool llvm = have("llvm-symbolizer-14");

	if (!have("clang")) {
		printf("# no clang\n");
		return;
	}
	build_and_check("clang", "-g -O2 -gdwarf-4", "c.c", llvm, 0);
	build_and_check("clang++", "-g -O2 -gdwarf-4", "cxx.cc", llvm, 200);
	if (llvm) {
		build_and_check("clang++", "-g -O2", "cxx.cc", true, 200);
		build_and_check("clang", "-gline-tables-only -O2", "c.c", true, 0);
		build_and_check("clang++", "-g -O2 -flto -fuse-ld=lld", "cxx.cc", true, 100);
		build_and_check("clang", "-g -gsplit-dwarf -O2", "c.c", true, 0);
	}
}

static void test_split_by_debuglink(void)
{
	if (sh("gcc -g -O2 -Wl,--build-id=none -o whole c.c && objcopy --only-keep-debug whole linked.debug && mkdir -p .debug &&"
	       "objcopy --strip-all --add-gnu-debuglink=linked.debug whole linked") != 0) {
		CHECK(!"objcopy");
		return;
	}
	check_file("linked", "whole", false, 20);
	CHECK(sh("mv linked.debug .debug/") == 0);
	check_file("linked", "whole", false, 20);
	/* Another file of that name has another checksum. */
	CHECK(sh("objcopy --only-keep-debug program linked.debug && rm -r .debug") == 0);
	{
		struct symbols *s = symbols_new(NULL);
		struct module *m = module_new("linked", MODULE_EXE);
		static uint64_t addr[4000];

		CHECK(sample("whole", addr, 4000) > 0);
		for (int i = 0; i < 10; i++)
			CHECK(!symbols_resolve(s, m, addr[i], true).frame[0].file);
		symbols_free(s);
		module_free(m);
	}
}

/* One who looks at NAME as another process would. */
struct viewer {
	struct symbols *s;
	struct module *m;
	const char
		*function; /* at ADDR: the same pointer where what is known of the file is shared */
	const char *file;
};

static struct viewer view(const char *name, uint64_t addr, const char *function)
{
	struct viewer v = { .s = symbols_new(NULL), .m = module_new(name, MODULE_EXE) };
	struct symbol_frames f = symbols_resolve(v.s, v.m, addr, true);

	v.function = f.frame[f.count - 1].function;
	v.file = f.frame[f.count - 1].file;
	CHECK_STR(v.function, function);
	return v;
}

static void end_view(struct viewer *v)
{
	symbols_free(v->s);
	module_free(v->m);
}

static uint64_t address_of_main(const char *name)
{
	unsigned long long addr = 0;
	char command[512];
	FILE *p;

	snprintf(command, sizeof(command), "nm %s/%s | sed -n 's/ T main$//p'", dir, name);
	p = popen(command, "r");
	if (!p || fscanf(p, "%llx", &addr) != 1)
		addr = 0;
	if (p)
		pclose(p);
	return addr;
}

/* What one process has looked up of a file is there for the next, as long as it names the same. */
static void test_shared(void)
{
	struct viewer a, b, c;
	uint64_t addr;
	char place[64];

	CHECK(sh("gcc -g -O2 -o whole c.c && objcopy --only-keep-debug whole shared.debug && "
		 "objcopy --strip-all --add-gnu-debuglink=shared.debug whole shared") == 0);
	addr = address_of_main("whole");
	a = view("shared", addr, "main");
	b = view("shared", addr, "main");
	CHECK(a.file && b.file);
	CHECK(a.function == b.function);
	end_view(&a);
	CHECK(symbols_resolve(b.s, b.m, addr + 1, true).frame[0].line > 0);
	/* the same bytes, by the same name: another file nevertheless, which may say something else */
	CHECK(sh("cp shared.debug new && mv new shared.debug") == 0);
	c = view("shared", addr, "main");
	CHECK(c.file && c.function != b.function);
	end_view(&b);
	b = view("shared", addr, "main");
	CHECK(b.function == c.function);
	end_view(&c);
	CHECK(sh("rm shared.debug") == 0);
	snprintf(place, sizeof(place), "shared+0x%llx", (unsigned long long)addr);
	c = view("shared", addr, place);
	CHECK(!c.file && b.file);
	end_view(&c);
	end_view(&b);
	/* one that was written to since; main is in .dynsym, for want of debug files */
	CHECK(sh("gcc -g -O2 -rdynamic -o shared c.c") == 0);
	addr = address_of_main("shared");
	a = view("shared", addr, "main");
	CHECK(sh("printf x >> shared") == 0);
	b = view("shared", addr, "main");
	CHECK(a.function != b.function);
	end_view(&a);
	end_view(&b);
	/* what is in .dwo files each must see by itself */
	CHECK(sh("gcc -g -gsplit-dwarf -O2 -o shared c.c") == 0);
	addr = address_of_main("shared");
	a = view("shared", addr, "main");
	b = view("shared", addr, "main");
	CHECK(a.file && b.file && a.function != b.function);
	end_view(&a);
	end_view(&b);
}

static void test_common_file(void)
{
	struct viewer a, b;
	uint64_t addr;

	if (!have("dwz")) {
		printf("# no dwz\n");
		return;
	}
	CHECK(sh("g++ -g -gdwarf-4 -O2 -o whole cxx.cc && g++ -g -gdwarf-4 -O1 -o other cxx.cc && for x in whole other; do objcopy --only-keep-debug $x $x.debug; done && "
		 "objcopy --strip-all --add-gnu-debuglink=whole.debug whole dwz && mkdir -p .dwz && dwz -m .dwz/common -M .dwz/common whole.debug other.debug") ==
	      0);
	check_file("dwz", "whole", false, 200);
	addr = address_of_main("whole");
	a = view("dwz", addr, "main");
	b = view("dwz", addr, "main");
	CHECK(a.function == b.function);
	end_view(&a);
	CHECK(sh("cp .dwz/common new && mv new .dwz/common") == 0);
	a = view("dwz", addr, "main");
	CHECK(a.file && a.function != b.function);
	end_view(&a);
	end_view(&b);
}

/*
 * A compressed section that says it unpacks to a terabyte, or to much more than its bytes can: then
 * there is no DWARF, and nothing is unpacked.
 */
static void check_forged_size(const char *name, uint64_t size)
{
	struct symbols *s = symbols_new(NULL);
	const struct elf_section *section;
	static uint64_t addr[4000];
	size_t n, found = 0, lines = 0;
	struct module *m;
	char path[256];
	int fd;

	CHECK(sh("cp gz %s", name) == 0);
	m = module_new(name, MODULE_EXE);
	section = elf_section(m->elf, ".debug_info");
	CHECK(section != NULL && section->flags & SHF_COMPRESSED);
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (section && size)
		CHECK(pwrite(fd, &size, sizeof(size), (off_t)section->offset + 8) == sizeof(size));
	close(fd);
	n = sample("gz", addr, 4000);
	for (size_t i = 0; i < n; i++) {
		struct symbol_frames f = symbols_resolve(s, m, addr[i], true);

		found += !strcmp(f.frame[f.count - 1].function, "main");
		lines += f.frame[f.count - 1].line > 0;
	}
	CHECK(found > 0);
	CHECK(size ? lines == 0 : lines > 0);
	symbols_free(s);
	module_free(m);
}

static void test_forged_compression(void)
{
	if (sh("gcc -g -O1 -gz=zlib -o gz c.c") != 0) {
		printf("# no compressed sections\n");
		return;
	}
	check_forged_size("gz.true", 0);
	check_forged_size("gz.tera", (uint64_t)1 << 40);
	check_forged_size("gz.most", UINT64_MAX);
	check_forged_size("gz.ratio", 64u << 20);
}

/* Packed in whatever way, a file says the same, of each address; spoilt, it says no line. */
static void check_packed(const char *how)
{
	struct symbols *s = symbols_new(NULL);
	struct module *plain, *packed, *spoilt;
	const struct elf_section *section;
	static uint64_t addr[4000];
	size_t n, lines = 0;
	char path[256];
	int fd;

	if (sh("objcopy --compress-debug-sections=%s unpacked packed && cp packed spoilt", how) !=
	    0) {
		printf("# objcopy knows no %s\n", how);
		symbols_free(s);
		return;
	}
	packed = module_new("packed", MODULE_EXE);
	section = elf_section(packed->elf, ".debug_line");
	if (section) {
		snprintf(path, sizeof(path), "%s/spoilt", dir);
		fd = open(path, O_WRONLY | O_CLOEXEC);
		CHECK(section->flags & SHF_COMPRESSED && section->size > 64);
		CHECK(pwrite(fd, "spoilt", 6, (off_t)section->offset + 40) == 6);
		close(fd);
	}
	plain = module_new("unpacked", MODULE_EXE);
	spoilt = module_new("spoilt", MODULE_EXE);
	n = sample("unpacked", addr, 4000);
	for (size_t i = 0; i < n; i++) {
		struct symbol_frames f = symbols_resolve(s, plain, addr[i], true);
		struct symbol_frames g = symbols_resolve(s, packed, addr[i], true);

		CHECK_EQ(f.count, g.count);
		for (size_t k = 0; k < f.count && k < g.count; k++) {
			CHECK_STR(g.frame[k].function, f.frame[k].function);
			CHECK_EQ(g.frame[k].line, f.frame[k].line);
			CHECK(!g.frame[k].file == !f.frame[k].file);
			lines += g.frame[k].line > 0;
		}
		if (section)
			CHECK_EQ(symbols_resolve(s, spoilt, addr[i], true).frame[0].line, 0);
	}
	CHECK(lines > 0);
	symbols_free(s);
	module_free(plain);
	module_free(packed);
	module_free(spoilt);
}

static void test_packed(void)
{
	CHECK(sh("gcc -g -O2 -o unpacked c.c") == 0);
	check_packed("zlib");
	check_packed("zlib-gnu");
	check_packed("zstd");
}

static void test_debugdata(void)
{
	struct symbols *s = symbols_new(NULL);
	struct module *m;
	static uint64_t addr[4000];
	size_t n, found = 0;

	if (!have("xz") ||
	    sh("gcc -O2 -o plain c.c && objcopy --only-keep-debug plain mini && xz -k mini && "
	       "objcopy --strip-all --add-section .gnu_debugdata=mini.xz plain packed") != 0) {
		printf("# no xz\n");
		symbols_free(s);
		return;
	}
	n = sample("plain", addr, 4000);
	m = module_new("packed", MODULE_EXE);
	for (size_t i = 0; i < n; i++)
		found += !strcmp(symbols_resolve(s, m, addr[i], true).frame[0].function, "leaf");
	CHECK(found > 0);
	symbols_free(s);
	module_free(m);
}

/* Without any debug information: what covers the address, and nothing else. */
static void test_symbol_tables(void)
{
	struct symbols *s = symbols_new(NULL);
	struct module *m;
	struct symbol_frames f;

	put("gap.s",
	    ".text\n.globl one, three\n.type one,@function\none: nop\nnop\n.size one, .-one\n.skip 64\n"
	    "two: nop\nnop\nnop\n.type three,@function\nthree: ret\n.size three, .-three\n.Llocal: ret\n");
	CHECK(sh("gcc -nostdlib -shared -Wl,--build-id=none -Wl,-Ttext=0x1000 -o gap gap.s") == 0);
	m = module_new("gap", 0);
	CHECK_STR(symbols_resolve(s, m, 0x1000, true).frame[0].function, "one");
	CHECK_STR(symbols_resolve(s, m, 0x1002, false).frame[0].function, "one");
	CHECK_STR(symbols_resolve(s, m, 0x1002, true).frame[0].function, "gap+0x1002");
	CHECK_STR(symbols_resolve(s, m, 0x1020, true).frame[0].function, "gap+0x1020");
	/* no size: up to the next */
	CHECK_STR(symbols_resolve(s, m, 0x1043, true).frame[0].function, "two");
	CHECK_STR(symbols_resolve(s, m, 0x1045, true).frame[0].function, "three");
	CHECK_STR(symbols_resolve(s, m, 0x1046, true).frame[0].function, "gap+0x1046");
	f = symbols_resolve(s, m, 0x123456, true);
	CHECK_EQ(f.count, 1);
	CHECK_STR(f.frame[0].function, "gap+0x123456");
	CHECK(!f.frame[0].file);
	CHECK_STR(f.frame[0].module, m->path);
	CHECK_EQ(f.frame[0].address, 0x123456);
	module_free(m);
	symbols_free(s);
}

/* Copies `bounds` to NAME, with COUNT symbols at 0x1004 whose names overlap in TEXT[LEN]. */
static void put_symbols(const char *name, const char *text, size_t len, size_t count)
{
	char path[256], bytes[65536];
	Elf64_Ehdr *head = (Elf64_Ehdr *)bytes;
	Elf64_Shdr *section, *first;
	Elf64_Sym sym = { .st_info = STB_GLOBAL << 4 | STT_FUNC, .st_value = 0x1004, .st_size = 4 };
	size_t size;
	FILE *f;

	snprintf(path, sizeof(path), "%s/bounds", dir);
	f = fopen(path, "r");
	size = f ? fread(bytes, 1, sizeof(bytes), f) & ~15ul : 0;
	CHECK(size > 0 && size < sizeof(bytes) - 16 && !fclose(f));
	size += 16;
	first = (Elf64_Shdr *)(bytes + head->e_shoff);
	for (section = first; section->sh_addr != 0x1000; section++)
		sym.st_shndx++;
	for (section = first; section->sh_type != SHT_SYMTAB; section++)
		;
	section->sh_offset = size;
	section->sh_size = count * sizeof(sym);
	first[section->sh_link].sh_offset = size + count * sizeof(sym);
	first[section->sh_link].sh_size = len;
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	CHECK(f && fwrite(bytes, 1, size, f) == size);
	for (size_t i = 0; i < count; i++) {
		sym.st_name = (Elf64_Word)(1 + i * 7919 % 12000);
		CHECK(fwrite(&sym, sizeof(sym), 1, f) == 1);
	}
	CHECK(fwrite(text, 1, len, f) == len && !fclose(f));
}

static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* How long it takes until FILE's symbols are read; the one of .dynsym is found in any case. */
static double seconds_to_read(const char *file)
{
	struct symbols *s = symbols_new(NULL);
	struct module *m = module_new(file, 0);
	double began = cpu_seconds(), took;

	CHECK_STR(symbols_resolve(s, m, 0x1000, true).frame[0].function, "one");
	took = cpu_seconds() - began;
	module_free(m);
	symbols_free(s);
	return took;
}

/*
 * Names that overlap in their table, many and long ones, and a table whose last name has no end:
 * the time is in proportion to the file's size.
 */
static void test_names_without_bounds(void)
{
	enum { MANY = 1000000, FEW = 40000, LONG = 16 << 20 };
	char *text = malloc(LONG);
	double took;

	memset(text, 'a', LONG);
	text[0] = '\0';
	put("bounds.s", ".text\n.globl one\n.type one,@function\none: .skip 16\n.size one, 3\n");
	CHECK(sh("gcc -nostdlib -shared -Wl,--build-id=none -Wl,-Ttext=0x1000 -o bounds bounds.s") ==
	      0);
	put_symbols("endless", text, LONG, FEW);
	text[16383] = '\0';
	put_symbols("overlapping", text, 16384, MANY);
	took = seconds_to_read("endless");
	printf("# no end: %.2f s\n", took);
	CHECK(took < 2);
	took = seconds_to_read("overlapping");
	printf("# overlapping: %.2f s\n", took);
	CHECK(took < 2);
	free(text);
}

static void test_no_file(void)
{
	struct symbols *s = symbols_new(NULL);
	struct module *m = module_new("there-is-no-such-file", 0);
	struct symbol_frames f;

	m->start = m->bias = 0x7f0000000000;
	CHECK_STR(symbols_resolve(s, m, 0x7f0000001234, true).frame[0].function,
		  "there-is-no-such-file+0x1234");
	CHECK(symbols_is_unnamed(symbols_resolve(s, m, 0x7f0000001234, true).frame));
	f = symbols_resolve(s, NULL, 0xdeadbeef, false); /* code made at run time */
	CHECK_EQ(f.count, 1);
	CHECK_STR(f.frame[0].function, "0xdeadbeef");
	CHECK(symbols_is_unnamed(f.frame));
	CHECK(!symbols_is_unnamed(&(struct symbol_frame){ .function = "0xg" }));
	CHECK(!symbols_is_unnamed(&(struct symbol_frame){ .function = "a+0x" }));
	CHECK(!symbols_is_unnamed(&(struct symbol_frame){ .function = "a+0x1", .raw = "a+0x1" }));
	CHECK(!f.frame[0].module);
	CHECK_EQ(f.frame[0].skip, SKIP_NO);
	module_free(m);
	symbols_free(s);
}

/* The file is gone, or another one has its name: the bytes that are still mapped count. */
static void test_replaced_file(void)
{
	static uint64_t addr[4000];
	struct symbols *s = symbols_new(NULL);
	struct module *m;
	size_t n;

	CHECK(sh("gcc -g -O2 -o before c.c") == 0);
	n = sample("before", addr, 4000);
	m = module_new("before", MODULE_EXE);
	CHECK(sh("gcc -g -O0 -o after c.c && mv after before") == 0);
	CHECK(n > 0 && symbols_resolve(s, m, addr[n - 1], true).count >= 1);
	symbols_free(s);
	s = symbols_new(NULL);
	CHECK(sh("gcc -g -O2 -o whole c.c && rm before") == 0);
	for (size_t i = 0, found = 0; i < n; i++) {
		found += symbols_resolve(s, m, addr[i], true).frame[0].line > 0;
		if (i == n - 1)
			CHECK(found > n / 2);
	}
	symbols_free(s);
	module_free(m);
}

/* Paths are the process' own: here of one in another root directory, with its debug file. */
static void test_other_root(void)
{
	static uint64_t addr[4000];
	struct outside *from;
	struct symbols *s;
	struct module *m;
	char root[256];
	pid_t child;
	int ready[2];
	char byte;

	CHECK(sh("gcc -g -O2 -static -o still still.c && mkdir -p root/usr/lib/debug/bin root/bin && objcopy --only-keep-debug still root/usr/lib/debug/bin/still.debug && "
		 "objcopy --strip-all --add-gnu-debuglink=root/usr/lib/debug/bin/still.debug still root/bin/still") ==
	      0);
	CHECK(sample("still", addr, 4000) > 0 && pipe(ready) == 0);
	snprintf(root, sizeof(root), "%s/root", dir);
	child = fork();
	if (child == 0) {
		dup2(ready[1], 1);
		if (chroot(root) == 0 && chdir("/") == 0)
			execl("/bin/still", "still", NULL);
		_exit(1);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) == 1) {
		m = module_new("root/bin/still", MODULE_EXE);
		strcpy(m->path, "/bin/still");
		from = outside_of_process(child);
		s = symbols_new(from);
		for (size_t i = 0, found = 0; i < 4000 && addr[i]; i++) {
			struct symbol_frames f = symbols_resolve(s, m, addr[i], true);

			found += !strcmp(f.frame[f.count - 1].function, "main") &&
				 f.frame[f.count - 1].line > 0;
			if (i == 3999 || !addr[i + 1])
				CHECK(found > 0);
		}
		symbols_free(s);
		outside_free(from);
		module_free(m);
	} else {
		printf("# chroot is not allowed here\n");
	}
	close(ready[0]);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void check_sites(const char *compiler, const char *flags)
{
	struct symbols *s = symbols_new(NULL);
	struct module *m;
	char line[4096];
	unsigned seen[SITES] = { 0 }, other = 0;
	FILE *p;

	CHECK(sh("%s -g %s -o sites sites.cc", compiler, flags) == 0);
	m = module_new("sites", MODULE_EXE);
	snprintf(line, sizeof(line), "%s/sites", dir);
	p = popen(line, "r");
	while (p && fgets(line, sizeof(line), p)) {
		struct symbol_frame flat[512];
		size_t n = 0, site = 0;

		for (char *word = strtok(line, " \n"); word; word = strtok(NULL, " \n")) {
			struct symbol_frames f =
				symbols_resolve(s, m, strtoull(word, NULL, 16), false);

			if (word[0] == '-') /* libstdc++ or libc */
				continue;
			for (size_t i = 0; i < f.count && n < 512; i++)
				flat[n++] = f.frame[i];
		}
		while (site + 1 < n && flat[site].skip)
			site++;
		if (n && !strcmp(flat[site].function, "main") &&
		    flat[site].line - FIRST_SITE < SITES)
			seen[flat[site].line - FIRST_SITE]++;
		else if (other++ == 0 && n)
			printf("# a site in %s, %s:%u\n", flat[site].function,
			       flat[site].file ? flat[site].file : "?", flat[site].line);
	}
	if (p)
		pclose(p);
	CHECK_EQ(other, 0);
	CHECK_EQ(seen[0], 9); /* 1, 2, 4, ... 256 */
	CHECK_EQ(seen[1], 50);
	CHECK(seen[2] >= 5 && seen[2] < 20);
	CHECK_EQ(seen[3], 200);
	module_free(m);
	symbols_free(s);
}

static void test_four_lines_are_four_sites(void)
{
	check_sites("g++", "-O0");
	check_sites("g++", "-O2");
	check_sites("g++", "-O2 -fomit-frame-pointer");
	check_sites("g++", "-O3 -gdwarf-4");
	if (have("clang++")) {
		check_sites("clang++", "-O0");
		check_sites("clang++", "-O2");
	}
}

static struct symbol_frame frame_at(struct symbols *s, struct module *m, const char *function,
				    bool innermost)
{
	static uint64_t addr[4000];
	size_t n = sample_each(1, "names", addr, 4000);

	for (size_t i = 0; i < n; i++) {
		struct symbol_frames f = symbols_resolve(s, m, addr[i], true);
		const struct symbol_frame *last = innermost ? &f.frame[0] : &f.frame[f.count - 1];

		if (strstr(last->function, function))
			return *last;
	}
	return (struct symbol_frame){ .function = "(none)" };
}

static bool has_inlined(struct symbols *s, struct module *m, const char *function)
{
	static uint64_t addr[4000];
	size_t n = sample_each(1, "names", addr, 4000);

	for (size_t i = 0; i < n; i++) {
		struct symbol_frames f = symbols_resolve(s, m, addr[i], true);

		if (f.frame[0].inlined && !strcmp(f.frame[0].function, function))
			return true;
	}
	return false;
}

/*
 * gcc gives static functions and those of anonymous namespaces no linkage name; inlined or not,
 * they are called the same.
 */
static void test_names_without_linkage(void)
{
	struct symbols *s = symbols_new(NULL);
	struct module *m;

	CHECK(sh("g++ -g -O1 -fno-inline-functions-called-once -fno-inline-small-functions -o names names.cc") ==
	      0);
	m = module_new("names", MODULE_EXE);
	CHECK_STR(frame_at(s, m, "global", false).function, "global(int)");
	CHECK_STR(frame_at(s, m, "Local", false).function,
		  "(anonymous namespace)::Local::get(int)");
	CHECK_STR(frame_at(s, m, "lambda", true).function,
		  "n::in(int)::{lambda()#1}::operator()() const");
	CHECK_STR(frame_at(s, m, "main", false).function, "main");
	CHECK_STR(frame_at(s, m, "often", false).function, "often(int)");
	CHECK_STR(frame_at(s, m, "often", true).function, "often(int)");
	CHECK(sh("g++ -g -O3 -o names names.cc") == 0);
	module_free(m);
	symbols_free(s);
	s = symbols_new(NULL);
	m = module_new("names", MODULE_EXE);
	CHECK_STR(frame_at(s, m, "more", false).function, "more(int)");
	CHECK_STR(frame_at(s, m, "often", true).function, "often(int)");
	CHECK(has_inlined(s, m, "often(int)"));
	CHECK(has_inlined(s, m, "main::{lambda}::operator()"));
	CHECK_EQ(frame_at(s, m, "Local", false).skip, SKIP_NO);
	module_free(m);
	symbols_free(s);
}

static void test_site_skip(void)
{
	struct symbols *s = symbols_new(NULL);
	struct module *m;
	const char *error = NULL;
	const struct symbol_frame *f;
	static uint64_t addr[4000];

	CHECK(sh("gcc -g -O0 -o names c.c") == 0);
	m = module_new("names", MODULE_EXE);
	CHECK(sample("names", addr, 4000) > 0);
	f = NULL;
	for (int i = 0; i < 4000 && addr[i] && (!f || strcmp(f->function, "leaf")); i++) {
		struct symbol_frames all = symbols_resolve(s, m, addr[i], true);

		f = &all.frame[all.count - 1];
	}
	CHECK_STR(f->function, "leaf");
	CHECK_EQ(f->skip, SKIP_NO);
	CHECK_EQ(symbols_site_skip(s, "^x|^le.f$", &error), 0);
	CHECK_EQ(f->skip, SKIP_USER); /* frames given out before follow */
	CHECK_EQ(symbols_site_skip(s, "(", &error), -22);
	CHECK(error && error[0]);
	CHECK_EQ(f->skip, SKIP_USER);
	CHECK_EQ(symbols_site_skip(s, "", &error), 0);
	CHECK_EQ(f->skip, SKIP_NO);
	module_free(m);
	symbols_free(s);
}

/* A forked child's modules are copies: what was asked of one is known of the other, but not of the same file elsewhere, or of another at its place. */
static void test_copies_share_answers(void)
{
	struct symbols *s = symbols_new(NULL);
	struct symbol_frames asked, known;
	struct module *m, *copy;
	static uint64_t addr[1];

	CHECK(sh("gcc -g -O0 -o names c.c && cp -p names others") == 0);
	m = module_new("names", MODULE_EXE);
	copy = module_new("names", MODULE_EXE);
	CHECK(sample("names", addr, 1) > 0);
	CHECK(!symbols_known(s, copy, addr[0], true, &known));
	asked = symbols_resolve(s, m, addr[0], true);
	CHECK(symbols_known(s, copy, addr[0], true, &known));
	CHECK(known.count == asked.count && known.frame == asked.frame);
	CHECK(!symbols_known(s, copy, addr[0], false, &known));
	copy->bias = copy->start = 4096;
	CHECK(!symbols_known(s, copy, addr[0], true, &known));
	module_free(copy);
	copy = module_new("others", MODULE_EXE);
	CHECK(!symbols_known(s, copy, addr[0], true, &known));
	module_free(copy);
	module_free(m);
	symbols_free(s);
}

static void test_library_roles(void)
{
	struct symbols *s = symbols_new(NULL);
	struct module *libc = module_new("/lib/x86_64-linux-gnu/libc.so.6", MODULE_LIBC);
	const struct symbol_frame *f;
	struct elf_symbol symbol;
	size_t cursor = 0;

	if (!elf_find(libc->elf, "strdup", &cursor, &symbol)) {
		printf("# no glibc\n");
	} else {
		f = symbols_resolve(s, libc, symbol.value + 4, true).frame;
		CHECK(strstr(f->function, "strdup") != NULL);
		CHECK(f->skip & SKIP_LIBRARY);
	}
	module_free(libc);
	symbols_free(s);
}

/* Files that are cut off or altered anywhere: any answer will do. */
static void test_damaged_files(void)
{
	static uint64_t addr[4000];
	uint64_t state = 88172645463325252u;
	char path[512];
	struct stat st;
	size_t n;
	uint8_t *bytes;
	int fd;

	CHECK(sh("g++ -g -O1 -o whole cxx.cc") == 0);
	n = sample("whole", addr, 4000);
	snprintf(path, sizeof(path), "%s/whole", dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0 && fstat(fd, &st) == 0);
	bytes = malloc((size_t)st.st_size);
	CHECK(read(fd, bytes, (size_t)st.st_size) == st.st_size);
	close(fd);
	for (int round = 0; round < 60; round++) {
		size_t size = (size_t)st.st_size;
		struct symbols *s;
		struct module *m;
		uint8_t *copy = malloc(size);

		memcpy(copy, bytes, size);
		for (int i = 0; i < 200; i++) {
			test_random(&state);
			/* the headers are another matter */
			copy[4096 + state % (size - 4096)] = (uint8_t)(state >> 40);
		}
		if (round % 6 == 5)
			size = state % size;
		snprintf(path, sizeof(path), "%s/damaged", dir);
		fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
		CHECK(write(fd, copy, size) == (ssize_t)size);
		close(fd);
		free(copy);
		s = symbols_new(NULL);
		m = module_new("damaged", MODULE_EXE);
		for (size_t i = 0; i < n; i += 3)
			CHECK(symbols_resolve(s, m, addr[i], true).count >= 1);
		module_free(m);
		symbols_free(s);
	}
	free(bytes);
}

/*
 * Cut off while it is being read: that raises SIGBUS. What was in the middle of being read then is
 * lost, so a child does this.
 */
static void truncate_while_mapped(void)
{
	static uint64_t addr[4000];
	struct symbols *s = symbols_new(NULL);
	struct module *m;
	char path[512];
	size_t n;

	CHECK(sh("gcc -g -O2 -o shrinking c.c") == 0);
	n = sample("shrinking", addr, 4000);
	m = module_new("shrinking", MODULE_EXE);
	CHECK(n > 0 && symbols_resolve(s, m, addr[0], true).count >= 1);
	snprintf(path, sizeof(path), "%s/shrinking", dir);
	CHECK(truncate(path, 100) == 0);
	for (size_t i = 0; i < n; i++)
		CHECK(symbols_resolve(s, m, addr[i], true).count >= 1);
	symbols_free(s);
	module_free(m);
}

static void test_truncated_while_mapped(void)
{
	int status = -1;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		test_bad = 0;
		truncate_while_mapped();
		fflush(stdout);
		_exit(test_bad != 0);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	CHECK_EQ(status, 0);
}

int main(void)
{
	char command[256];

	if (!mkdtemp(dir))
		return 1;
	put("c.c", c_program);
	put("cxx.cc", cxx_program);
	put("sites.cc", sites_program);
	put("names.cc", names_program);
	put("still.c", still_program);
	RUN(test_no_file);
	if (have("gcc") && have("g++") && have("nm") && have("objcopy")) {
		RUN(test_gcc_c);
		RUN(test_gcc_cxx);
		RUN(test_clang);
		RUN(test_split_by_debuglink);
		RUN(test_shared);
		RUN(test_common_file);
		RUN(test_forged_compression);
		RUN(test_packed);
		RUN(test_debugdata);
		RUN(test_symbol_tables);
		RUN(test_names_without_bounds);
		RUN(test_replaced_file);
		RUN(test_other_root);
		RUN(test_four_lines_are_four_sites);
		RUN(test_names_without_linkage);
		RUN(test_site_skip);
		RUN(test_copies_share_answers);
		RUN(test_library_roles);
		RUN(test_damaged_files);
		RUN(test_truncated_while_mapped);
	} else {
		SKIP(test_gcc_c, "no compiler or binutils");
	}
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command) == 0 ? test_status() : 1;
}
