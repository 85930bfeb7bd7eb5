// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_plant.c - planting: into files, to see that every allocator function can be moved; and into
 * this very process.
 *
 * For the latter the test runs itself again with an allocator preloaded, redirects all of its
 * functions to an entry that only counts and goes on to the moved instructions, uses each of them,
 * and takes everything out again.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/maps.h"
#include "base/proc.h"
#include "inject/wire.h"
#include "patch/hooks.h"
#include "patch/plant.h"
#include "symbols/elf.h"
#include "symbols/module.h"
#include "test.h"

/* ---- planting into a file: reads come from it, writes go nowhere --------- */

struct fake {
	struct module *module;
	size_t writes, bytes;
};

static ssize_t fake_read(void *ctx, raddr_t addr, void *buf, size_t len)
{
	struct fake *f = ctx;
	size_t left;
	const uint8_t *p = elf_at(f->module->elf, addr - f->module->bias, 1, &left);

	if (!p)
		return -EFAULT;
	if (len > left)
		len = left;
	memcpy(buf, p, len);
	return (ssize_t)len;
}

static int fake_write(void *ctx, raddr_t addr, const void *buf, size_t len)
{
	struct fake *f = ctx;

	(void)addr, (void)buf;
	f->writes++;
	f->bytes += len;
	return 0;
}

static int fake_write_spans(void *ctx, const struct remote_span *span, size_t n, const void *buf)
{
	const char *from = buf;

	for (size_t i = 0; i < n; from += span[i++].len)
		(void)!fake_write(ctx, span[i].address, from, span[i].len);
	return 0;
}

static void fake_read_spans(void *ctx, const struct remote_span *span, size_t n, void *buf)
{
	char *to = buf;

	for (size_t i = 0; i < n; to += span[i++].len) {
		ssize_t got = fake_read(ctx, span[i].address, to, span[i].len);

		got = got < 0 ? 0 : got;
		memset(to + got, 0, span[i].len - (size_t)got);
	}
}

static int fake_map(void *ctx, raddr_t lo, raddr_t hi, size_t len, raddr_t *at)
{
	(void)ctx, (void)lo;
	*at = ((hi + 4095) & ~4095ull) + 0x10000 + len;
	return 0;
}

static struct plant_ops fake_ops(struct fake *fake, bool later)
{
	return (struct plant_ops){ .map_near = fake_map,
				   .write = fake_write,
				   .read = fake_read,
				   .write_spans = fake_write_spans,
				   .read_spans = fake_read_spans,
				   .ctx = fake,
				   .later = later };
}

static bool fake_module(struct module *m, const char *path, unsigned roles)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err;
	const struct elf_segment *seg;
	size_t n;

	memset(m, 0, sizeof(*m));
	if (fd < 0)
		return false;
	m->elf = elf_open(fd, &err);
	close(fd);
	if (!m->elf)
		return false;
	m->path = (char *)(uintptr_t)path;
	m->roles = roles;
	m->bias = elf_type(m->elf) == 2 ? 0 : 0x7f1234560000;
	m->start = UINT64_MAX;
	m->dead = UINT32_MAX;
	n = elf_segments(m->elf, &seg);
	for (size_t i = 0; i < n; i++) {
		if (seg[i].type != 1)
			continue;
		if (m->bias + seg[i].vaddr < m->start)
			m->start = m->bias + seg[i].vaddr;
		if (m->bias + seg[i].vaddr + seg[i].memsz > m->end)
			m->end = m->bias + seg[i].vaddr + seg[i].memsz;
	}
	return true;
}

static uint32_t armed = ARMED_ON;
static struct plant_agent agent;

static double ms_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/*
 * Counted there: an operator of libstdc++'s that says whose call it is may have another one before.
 */
static bool is_planted(const struct plant *plant, const char *name)
{
	for (size_t i = 0; i < plant->count; i++) {
		const struct planted *p = &plant->planted[i];

		if (strcmp(p->name, name) == 0 && p->kind != HOOK_SAYS_NEW &&
		    p->kind != HOOK_SAYS_DELETE)
			return true;
	}
	return false;
}

/* Plants into the file; everything wanted (by its first name) must be in, nothing refused. */
static void check_file(const char *path, unsigned roles, const char *const *wanted, size_t nwanted)
{
	struct module m;
	struct fake fake = { &m, 0, 0 };
	struct plant_ops ops = fake_ops(&fake, false);
	struct plant plant = { 0 };
	double t;
	int n;

	if (!fake_module(&m, path, roles)) {
		printf("# %s is not here\n", path);
		return;
	}
	t = ms_now();
	n = plant_module(&plant, &m, &ops, &agent, NULL, 0);
	t = ms_now() - t;
	printf("# %s: %d functions, %zu refused, %zu bytes of islands, %.2f ms\n", path, n,
	       plant.nrefused,
	       plant.nislands ? (size_t)(plant.island[0].used - plant.island[0].start) : 0, t);
	if (getenv("TEST_VERBOSE")) {
		for (size_t i = 0; i < plant.count; i++)
			printf("#   %s kind %d, %u bytes\n", plant.planted[i].name,
			       plant.planted[i].kind, plant.planted[i].nbytes);
	}
	for (size_t i = 0; i < plant.nrefused; i++)
		printf("#   refused: %s\n", plant.refused[i]);
	CHECK(n > 0);
	CHECK_EQ(plant.nrefused - plant.unseen, 0);
	for (size_t i = 0; i < nwanted; i++) {
		if (!is_planted(&plant, wanted[i])) {
			printf("# %s: %s is not planted\n", path, wanted[i]);
			CHECK(false);
		}
	}
	CHECK(m.planted);
	CHECK_EQ(plant_module(&plant, &m, &ops, &agent, NULL, 0), 0);
	plant_release(&plant);
	elf_unref(m.elf);
}

#define COUNT(a) (sizeof(a) / sizeof(*(a)))
static const char *const libc_names[] = {
	"malloc", "calloc",	    "realloc", "reallocarray", "free",	 "memalign",
	"valloc", "posix_memalign", "mmap",    "munmap",       "mremap", "mprotect",
	"brk",	  "sbrk",	    "syscall", "prctl",
};
static const char *const heap_names[] = { "malloc", "calloc", "realloc", "free", "posix_memalign" };
static const char *const cxx_names[] = { "malloc",
					 "calloc",
					 "realloc",
					 "free",
					 "_Znwm",
					 "_ZnwmRKSt9nothrow_t",
					 "_ZnwmSt11align_val_t" };

static void test_glibc(void)
{
	check_file("/lib/x86_64-linux-gnu/libc.so.6", MODULE_LIBC, libc_names, COUNT(libc_names));
}

static void test_musl(void)
{
	static const char *const names[] = {
		"malloc",	 "calloc", "realloc",	     "reallocarray", "free",   "memalign",
		"aligned_alloc", "valloc", "posix_memalign", "mmap",	     "munmap", "mremap",
		"mprotect",	 "brk",	   "sbrk",	     "syscall",	     "prctl"
	};

	check_file("/usr/lib/x86_64-linux-musl/libc.so", MODULE_LIBC | MODULE_LDSO, names,
		   COUNT(names));
}

static void test_allocators(void)
{
	check_file("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", 0, cxx_names, COUNT(cxx_names));
	check_file("/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4", 0, cxx_names, COUNT(cxx_names));
	check_file("/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4", 0, cxx_names,
		   COUNT(cxx_names));
	check_file("/usr/lib/x86_64-linux-gnu/libtcmalloc_debug.so.4", 0, heap_names,
		   COUNT(heap_names));
	check_file("/usr/lib/x86_64-linux-gnu/libmimalloc.so.2", 0, cxx_names, COUNT(cxx_names));
	check_file("/usr/lib/x86_64-linux-gnu/libasan.so.8", 0, cxx_names, COUNT(cxx_names));
	check_file("/usr/lib/x86_64-linux-gnu/liblsan.so.0", 0, cxx_names, COUNT(cxx_names));
	check_file("/usr/lib/x86_64-linux-gnu/libtsan.so.2", 0, heap_names, COUNT(heap_names));
	check_file("/usr/lib/x86_64-linux-gnu/libc_malloc_debug.so.0", 0, heap_names,
		   COUNT(heap_names));
}

/* ---- files that are made here -------------------------------------------- */

static const char program[] =
	"#include <malloc.h>\n#include <stdlib.h>\n#include <sys/mman.h>\n#include <sys/prctl.h>\n#include <unistd.h>\n#include <sys/syscall.h>\n"
	"void *volatile p; int main(void) { p = malloc(1); p = realloc(p, 2); free(p); p = calloc(1, 2); p = memalign(16, 5); p = reallocarray(p, 2, 2);\n"
	"p = aligned_alloc(16, 32); p = valloc(5); return posix_memalign((void **)&p, 16, 7) + munmap(mmap(0, 4096, 0, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096)\n"
	"+ (mremap(0, 1, 1, 0) != 0) + mprotect(0, 0, 0) + prctl(0) + (syscall(-1) && brk(0)) + (sbrk(0) != 0); }\n";

static char scratch[64];

static bool build(const char *name, const char *command, const char *source)
{
	char path[128], whole[512];
	FILE *f;

	if (!scratch[0]) {
		snprintf(scratch, sizeof(scratch), "/tmp/test_plant.XXXXXX");
		if (!mkdtemp(scratch))
			return false;
	}
	snprintf(path, sizeof(path), "%s/x.%s", scratch, strstr(command, "++") ? "cc" : "c");
	f = fopen(path, "w");
	if (!f)
		return false;
	fputs(source, f);
	fclose(f);
	snprintf(whole, sizeof(whole), "%s -o %s/%s %s 2>/dev/null", command, scratch, name, path);
	if (system(whole) == 0)
		return true;
	printf("# cannot build here: %s\n", command);
	return false;
}

static const char *in_scratch(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", scratch, name);
	return path;
}

static void clean_up(void)
{
	char command[128];

	if (!scratch[0])
		return;
	snprintf(command, sizeof(command), "rm -rf %s", scratch);
	if (system(command) != 0)
		printf("# %s is left\n", scratch);
}

static void test_static_glibc(void)
{
	static const char *const names[] = {
		"malloc", "calloc", "realloc",	"reallocarray", "free", "valloc",  "posix_memalign",
		"munmap", "mremap", "mprotect", "brk",		"sbrk", "syscall", "prctl"
	};

	if (build("static", "gcc -O1 -static", program))
		check_file(in_scratch("static"), MODULE_EXE, names, COUNT(names));
	if (build("static-pie", "gcc -O1 -static-pie", program))
		check_file(in_scratch("static-pie"), MODULE_EXE, names, COUNT(names));
}

static void test_static_musl(void)
{
	static const char *const names[] = { "malloc", "calloc",	"realloc",
					     "free",   "aligned_alloc", "posix_memalign",
					     "munmap", "mremap",	"mprotect",
					     "brk",    "sbrk",		"syscall",
					     "prctl" };

	if (build("musl", "musl-gcc -O1 -static", program))
		check_file(in_scratch("musl"), MODULE_EXE, names, COUNT(names));
}

/*
 * How a module's own operator new is treated: counted, and DELETE with it; or neither, and then it
 * and DELETE say whose call it is if it is libstdc++'s; ZERO: linked statically, only new does. The
 * aligned ones always are counted. OPERATORS: what they give and take is not to be judged.
 */
enum new_how { NEW_NOT, NEW_HOOKED, NEW_SAYS, NEW_ZERO };
static void check_new(const char *path, unsigned roles, enum new_how how)
{
	struct module m;
	struct hook_sites sites;
	bool new_ = false, delete_ = false, says = false, said = false, any = false,
	     hooked = how == NEW_HOOKED;

	CHECK(fake_module(&m, path, roles));
	CHECK_EQ(hooks_find(&sites, &m, NULL, 0), 0);
	for (size_t i = 0; i < sites.count; i++) {
		const struct hook_site *s = &sites.site[i];

		if (strstr(s->name, "St11align_val_t"))
			continue;
		says |= s->kind == HOOK_SAYS_NEW;
		said |= s->kind == HOOK_SAYS_DELETE;
		new_ |= s->kind == HOOK_NEW && !s->refuse && s->nothrow;
		delete_ |= s->kind == HOOK_FREE_AS && strncmp(s->name, "_Zd", 3) == 0;
		any |= (s->kind == HOOK_SAYS_NEW || s->kind == HOOK_NEW) && s->arg == FAMILY_ANY;
		if (how == NEW_SAYS && !strcmp(s->name, "_Znam"))
			CHECK_EQ(s->arg, FAMILY_ARRAY);
		if (how == NEW_SAYS && !strcmp(s->name, "_ZdaPv"))
			CHECK_EQ(s->arg, FAMILY_ARRAY);
		if (how == NEW_SAYS && !strcmp(s->name, "_ZdlPv"))
			CHECK_EQ(s->arg, FAMILY_NEW);
	}
	if (new_ != hooked || delete_ != hooked || says != (how >= NEW_SAYS))
		printf("# %s: new %d, delete %d, says %d, expected %d\n", path, new_, delete_, says,
		       how);
	CHECK(new_ == hooked && delete_ == hooked && says == (how >= NEW_SAYS));
	CHECK_EQ(said, how == NEW_SAYS);
	CHECK_EQ(any, hooked || how == NEW_ZERO);
	CHECK_EQ(sites.operators, how != NEW_SAYS);
	hooks_release(&sites);
	elf_unref(m.elf);
}

static const char cxx_program[] =
	"#include <new>\n#include <string>\nint main(int c, char **v) { std::string s(v[0]); delete new std::string(s + s); "
	"char *p = new (std::nothrow) char[c]; delete[] p; return 0; }\n";
static const char own_new[] =
	"#include <cstdlib>\n#include <new>\nvoid *operator new(std::size_t n) { return (char *)std::malloc(n + 16) + 16; }\n"
	"void operator delete(void *p) noexcept { std::free((char *)p - 16); }\n"
	"void operator delete(void *p, std::size_t) noexcept { std::free((char *)p - 16); }\n"
	"int main(int c, char **) { delete new int(c); return 0; }\n";

static void test_operator_new(void)
{
	check_new("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", 0, NEW_HOOKED);
	check_new("/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4", 0, NEW_HOOKED);
	check_new("/usr/lib/x86_64-linux-gnu/libstdc++.so.6", MODULE_CXX, NEW_SAYS);
	if (access("/usr/lib/x86_64-linux-gnu/libc++abi.so.1", R_OK) == 0)
		check_new("/usr/lib/x86_64-linux-gnu/libc++abi.so.1", MODULE_CXX, NEW_SAYS);
	if (build("cxx", "g++ -O1 -static", cxx_program))
		check_new(in_scratch("cxx"), MODULE_EXE, NEW_ZERO);
	if (build("cxx-dynamic", "g++ -O1 -static-libstdc++", cxx_program))
		check_new(in_scratch("cxx-dynamic"), MODULE_EXE, NEW_ZERO);
	if (build("own", "g++ -O1", own_new))
		check_new(in_scratch("own"), MODULE_EXE, NEW_NOT);
	if (build("own-static", "g++ -O1 -static", own_new))
		check_new(in_scratch("own-static"), MODULE_EXE, NEW_NOT);
	if (build("tcmalloc",
		  "g++ -O1 -static -Wl,--whole-archive -ltcmalloc_minimal -Wl,--no-whole-archive",
		  cxx_program))
		check_new(in_scratch("tcmalloc"), MODULE_EXE, NEW_HOOKED);
}

/* Names that belong to a program, or to ld.so, are left alone; requests are not. */
static void test_names_that_are_not_hooked(void)
{
	static const char source[] =
		"int brk_(void); __attribute__((noinline)) int syscall(int a) { return a + 1; } static __attribute__((noinline, used))"
		" void *palloc(void *pool, unsigned long n) { return (char *)pool + n; } int main(void) { return syscall(3) + !palloc(0, 5); }\n";
	static const struct hook_request request[] = { { "palloc", HOOK_GENERIC_MALLOC, 1 },
						       { "nowhere", HOOK_GENERIC_FREE, 0 } };
	struct module m;
	struct hook_sites sites;

	CHECK(fake_module(&m, "/lib64/ld-linux-x86-64.so.2", MODULE_LDSO));
	CHECK_EQ(hooks_find(&sites, &m, NULL, 0), 0);
	CHECK_EQ(sites.count, 0);
	hooks_release(&sites);
	elf_unref(m.elf);
	if (!build("own-syscall", "gcc -O1 -rdynamic", source))
		return;
	CHECK(fake_module(&m, in_scratch("own-syscall"), MODULE_EXE));
	CHECK_EQ(hooks_find(&sites, &m, request, 2), 0);
	CHECK_EQ(sites.count, 1);
	if (sites.count == 1) {
		CHECK_STR(sites.site[0].name, "palloc");
		CHECK_EQ(sites.site[0].kind, HOOK_GENERIC_MALLOC);
		CHECK_EQ(sites.site[0].arg, 1);
	}
	hooks_release(&sites);
	elf_unref(m.elf);
}

static void test_prefixed(void)
{
	static const char source[] =
		"#include <stdlib.h>\n__attribute__((noinline)) void *je_malloc(size_t n) { return calloc(n, 1); }\n"
		"__attribute__((noinline)) void je_free(void *p) { free(p); }\nint main(void) { je_free(je_malloc(5)); return 0; }\n";
	static const char *const names[] = { "je_malloc", "je_free" };

	if (build("prefixed", "gcc -O1", source))
		check_file(in_scratch("prefixed"), MODULE_EXE, names, COUNT(names));
}

static void test_stripped(void)
{
	struct module m;
	struct fake fake = { &m, 0, 0 };
	struct plant_ops ops = fake_ops(&fake, false);
	struct plant plant = { 0 };

	if (!build("stripped", "musl-gcc -O1 -static -s", program))
		return;
	CHECK(fake_module(&m, in_scratch("stripped"), MODULE_EXE));
	CHECK_EQ(plant_module(&plant, &m, &ops, &agent, NULL, 0), 0);
	CHECK(m.planted);
	CHECK(!elf_has_functions(m.elf));
	CHECK(elf_is_static(m.elf));
	CHECK_EQ(fake.writes, 0);
	plant_release(&plant);
	elf_unref(m.elf);
}

static void test_debug_state(void)
{
	static const char *const paths[] = { "/lib64/ld-linux-x86-64.so.2",
					     "/usr/lib/x86_64-linux-musl/libc.so" };

	for (size_t i = 0; i < COUNT(paths); i++) {
		struct module m;
		struct fake fake = { &m, 0, 0 };
		struct plant_ops ops = fake_ops(&fake, false);
		struct plant plant = { 0 };

		if (!fake_module(&m, paths[i], MODULE_LDSO))
			continue;
		CHECK_EQ(plant_function(&plant, &m, &ops, &agent, "_dl_debug_state",
					HOOK_DEBUG_STATE),
			 0);
		CHECK_EQ(plant.count, 1);
		CHECK_EQ(plant_function(&plant, &m, &ops, &agent, "no_such_function",
					HOOK_DEBUG_STATE),
			 -ENOENT);
		for (size_t k = 0; k < plant.nrefused; k++)
			printf("# refused: %s\n", plant.refused[k]);
		plant_release(&plant);
		elf_unref(m.elf);
	}
}

/* ---- entries that are written later -------------------------------------- */

static int refuse_note(void *ctx, const struct plant *plant)
{
	(void)ctx;
	(void)plant;
	return -ENOSPC;
}

static bool starts_insn(const struct planted *p, unsigned offset)
{
	for (unsigned k = 0; k < p->ninsn; k++)
		if (p->insn[k].from == offset)
			return true;
	return false;
}

/*
 * A thread that stands within the bytes goes on in the copy, and from there back to the same place.
 */
static void check_moves(const struct plant *plant, const struct planted *p)
{
	CHECK(!plant_covers(plant, p->entry));
	CHECK_EQ(plant_moved_pc(plant, p->entry), 0);
	for (unsigned i = 1; i < 5; i++) {
		raddr_t moved = plant_moved_pc(plant, p->entry + i);

		CHECK(plant_covers(plant, p->entry + i));
		CHECK_EQ(moved != 0, starts_insn(p, i));
		if (moved)
			CHECK_EQ(plant_exact_pc(plant, moved), p->entry + i);
	}
	CHECK_EQ(plant_exact_pc(plant, p->orig), p->entry);
	for (raddr_t pc = p->stub; pc < p->orig; pc++)
		CHECK_EQ(plant_exact_pc(plant, pc), p->entry);
	CHECK_EQ(plant_exact_pc(plant, p->orig + 1) == 0, p->ninsn < 2 || p->insn[1].to != 1);
}

static void test_later(void)
{
	struct module m;
	struct fake fake = { &m, 0, 0 };
	struct plant_ops ops = fake_ops(&fake, true);
	struct plant plant = { 0 };
	size_t writes;

	if (!fake_module(&m, "/lib/x86_64-linux-gnu/libc.so.6", MODULE_LIBC))
		return;
	ops.note = refuse_note;
	CHECK_EQ(plant_module(&plant, &m, &ops, &agent, NULL, 0), -ENOSPC);
	CHECK_EQ(plant.count, 0);
	ops.note = NULL;
	CHECK(plant_module(&plant, &m, &ops, &agent, NULL, 0) > 0);
	writes = (size_t)fake.writes;
	for (size_t i = 0; i < plant.count; i++) {
		CHECK(plant.planted[i].later);
		check_moves(&plant, &plant.planted[i]);
	}
	CHECK_EQ(plant_write(&plant, &ops), 0);
	CHECK_EQ((size_t)fake.writes - writes, plant.count);
	CHECK(plant.count && !plant.planted[0].later);
	CHECK_EQ(plant_write(&plant, &ops), 0);
	CHECK_EQ((size_t)fake.writes - writes, plant.count);
	plant_release(&plant);
	elf_unref(m.elf);
}

/* ---- planting into ourselves --------------------------------------------- */

/*
 * The entry of every kind: counts by hook, and goes on to the moved instructions. Leaves all
 * registers but r11 alone.
 */
#define MAX_HOOKS 512
static struct {
	uint64_t hook, count;
} hits[MAX_HOOKS];
static uint64_t nhits __attribute__((used));

void test_entry(void);
void count_hit(uint64_t hook);
__asm__(".text\n"
	".globl test_entry\n"
	"test_entry:\n"
	"	push %rax; push %rcx; push %rdx; push %rsi; push %rdi; push %r8; push %r9; push %r10; push %r11; pushf\n"
	"	push %rbp; mov %rsp, %rbp; and $-16, %rsp\n"
	"	mov %r11, %rdi\n"
	"	call count_hit\n"
	"	mov %rbp, %rsp; pop %rbp\n"
	"	popf; pop %r11; pop %r10; pop %r9; pop %r8; pop %rdi; pop %rsi; pop %rdx; pop %rcx; pop %rax\n"
	"	jmp *8(%r11)\n");

__attribute__((target("general-regs-only"))) void count_hit(uint64_t hook)
{
	for (size_t i = 0; i < MAX_HOOKS; i++) {
		if (!hits[i].hook)
			hits[i].hook = hook;
		if (hits[i].hook == hook) {
			hits[i].count++;
			return;
		}
	}
}

static uint64_t count_of(const struct plant *plant, const char *name)
{
	uint64_t n = 0;

	for (size_t i = 0; i < plant->count; i++) {
		for (size_t k = 0; strcmp(plant->planted[i].name, name) == 0 && k < MAX_HOOKS; k++)
			n += hits[k].hook == plant->planted[i].hook ? hits[k].count : 0;
	}
	return n;
}

static int self_map(void *ctx, raddr_t lo, raddr_t hi, size_t len, raddr_t *at)
{
	(void)ctx;
	for (raddr_t a = (hi + 0xfffff) & ~0xffffull; a + len - lo < 0x7fff0000; a += 0x100000) {
		void *p = mmap((void *)a, len, PROT_READ | PROT_EXEC,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

		if (p == (void *)a) {
			*at = a;
			return 0;
		}
	}
	for (raddr_t a = (lo & ~0xfffffull) - 0x100000; a > 0x100000 && hi - a < 0x7fff0000;
	     a -= 0x100000) {
		void *p = mmap((void *)a, len, PROT_READ | PROT_EXEC,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

		if (p == (void *)a) {
			*at = a;
			return 0;
		}
	}
	return -ENOSPC;
}

static int self_write(void *ctx, raddr_t addr, const void *buf, size_t len)
{
	(void)ctx;
	return remote_write(getpid(), addr, buf, len);
}

static ssize_t self_read(void *ctx, raddr_t addr, void *buf, size_t len)
{
	(void)ctx;
	return remote_read(getpid(), addr, buf, len);
}

static int self_write_spans(void *ctx, const struct remote_span *span, size_t n, const void *buf)
{
	const char *from = buf;
	int err = 0;

	for (size_t i = 0; i < n && !err; from += span[i++].len)
		err = self_write(ctx, span[i].address, from, span[i].len);
	return err;
}

static void self_read_spans(void *ctx, const struct remote_span *span, size_t n, void *buf)
{
	(void)ctx;
	remote_read_spans(getpid(), span, n, buf);
}

static const struct plant_ops self_ops = { .map_near = self_map,
					   .write = self_write,
					   .read = self_read,
					   .write_spans = self_write_spans,
					   .read_spans = self_read_spans };

static bool texts_are_as_in_files(const struct modules *list)
{
	bool same = true;

	for (size_t i = 0; i < list->count; i++) {
		const struct module *m = list->module[i];
		const struct elf_segment *seg;
		size_t n = elf_segments(m->elf, &seg), size;
		const uint8_t *file = elf_file(m->elf, &size);

		for (size_t k = 0; k < n; k++) {
			if (seg[k].type == 1 && (seg[k].flags & 1) && !(m->roles & MODULE_VDSO) &&
			    memcmp((void *)(m->bias + seg[k].vaddr), file + seg[k].offset,
				   seg[k].filesz)) {
				printf("# %s: its text is not as it was\n", m->path);
				same = false;
			}
		}
	}
	return same;
}

static void fill(void *p, size_t n) { memset(p, 0x5a, n); }

#define LARGE 300000

/* jemalloc has no pvalloc: then it is libc's, and what it gives is not for jemalloc's free(). */
static bool from_same_library(void *(*a)(size_t), void *(*b)(size_t))
{
	Dl_info x, y;

	return dladdr((void *)(uintptr_t)a, &x) && dladdr((void *)(uintptr_t)b, &y) &&
	       x.dli_fbase == y.dli_fbase;
}

/* Every function, several ways: through every path that its first instructions may take. */
static void use_c(void)
{
	void *volatile p, *q = NULL;
	void *(*volatile malloc_)(size_t) = malloc;
	volatile size_t huge = (size_t)-1 / 2;

	for (size_t n = 0; n < LARGE; n = n * 3 + 1) {
		p = malloc_(n);
		fill(p, n);
		p = realloc(p, n + 50);
		fill(p, n + 50);
		free(p);
		p = calloc(n, 3);
		for (size_t i = 0; i < n * 3; i += 7)
			CHECK(((char *)p)[i] == 0);
		p = reallocarray(p, n + 1, 4);
		fill(p, 4 * n + 4);
		free(p);
		p = memalign(64, n + 1);
		CHECK_EQ((uintptr_t)p % 64, 0);
		fill(p, n + 1);
		free(p);
		p = aligned_alloc(64, (n + 64) & ~(size_t)63);
		CHECK_EQ((uintptr_t)p % 64, 0);
		free(p);
		CHECK_EQ(posix_memalign(&q, 128, n + 1), 0);
		CHECK_EQ((uintptr_t)q % 128, 0);
		fill(q, n + 1);
		free(q);
		p = valloc(n + 1);
		CHECK_EQ((uintptr_t)p % 4096, 0);
		free(p);
		if (from_same_library(pvalloc, malloc)) {
			p = pvalloc(n + 1);
			CHECK_EQ((uintptr_t)p % 4096, 0);
			free(p);
		}
	}
	free(NULL);
	CHECK_EQ(posix_memalign(&q, 3, 5), EINVAL);
	p = calloc(huge, 4);
	CHECK(!p);
	p = reallocarray(NULL, huge, 4);
	CHECK(!p);
}

static void use_mappings(void)
{
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	fill(p, 8192);
	p = mremap(p, 8192, 40960, MREMAP_MAYMOVE);
	CHECK(p != MAP_FAILED && p[5] == 0x5a);
	CHECK_EQ(mprotect(p, 4096, PROT_READ), 0);
	CHECK_EQ(munmap(p, 40960), 0);
	CHECK(mmap(NULL, 0, 0, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED &&
	      errno == EINVAL);
	CHECK_EQ(syscall(SYS_getpid), getpid());
	p = sbrk(0);
	CHECK(sbrk(4096) == p);
	CHECK(brk(p) == 0);
	CHECK(sbrk(0) == p);
}

static void use_cxx(void)
{
	static const struct {
		const char *make, *drop;
		int args;
	} forms[] = {
		{ "_Znwm", "_ZdlPv", 1 },
		{ "_Znam", "_ZdaPv", 1 },
		{ "_Znwm", "_ZdlPvm", 1 },
		{ "_Znam", "_ZdaPvm", 1 },
		{ "_ZnwmRKSt9nothrow_t", "_ZdlPvRKSt9nothrow_t", 1 },
		{ "_ZnamRKSt9nothrow_t", "_ZdaPvRKSt9nothrow_t", 1 },
		{ "_ZnwmSt11align_val_t", "_ZdlPvSt11align_val_t", 2 },
		{ "_ZnamSt11align_val_t", "_ZdaPvSt11align_val_t", 2 },
		{ "_ZnwmSt11align_val_t", "_ZdlPvmSt11align_val_t", 3 },
		{ "_ZnamSt11align_val_tRKSt9nothrow_t", "_ZdaPvmSt11align_val_t", 3 },
		{ "_ZnwmSt11align_val_tRKSt9nothrow_t", "_ZdlPvSt11align_val_tRKSt9nothrow_t", 2 },
	};

	for (size_t i = 0; i < COUNT(forms); i++) {
		void *(*make)(size_t, size_t, size_t) = (void *(*)(size_t, size_t, size_t))(
			uintptr_t)dlsym(RTLD_DEFAULT, forms[i].make);
		void (*drop)(void *, size_t, size_t) = (void (*)(void *, size_t, size_t))(
			uintptr_t)dlsym(RTLD_DEFAULT, forms[i].drop);

		for (size_t n = 1; make && drop && n < LARGE; n = n * 3 + 1) {
			void *p = make(n, 64, 0);

			fill(p, n);
			if (forms[i].args == 1)
				drop(p, n, 0);
			else
				drop(p, forms[i].args == 2 ? 64 : n, 64);
		}
	}
}

static void check_hits(const struct plant *plant, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (is_planted(plant, names[i]) && !count_of(plant, names[i])) {
			printf("# %s was not seen\n", names[i]);
			CHECK(false);
		}
	}
	CHECK(count_of(plant, "malloc") > 10);
}

/*
 * What the trampoline reads: each hook names its kind, and its moved instructions can be called,
 * the nothrow form's too.
 */
static void check_wire_hooks(const struct plant *plant)
{
	for (size_t i = 0; i < plant->count; i++) {
		const struct planted *p = &plant->planted[i];
		struct wire_hook hook;

		memcpy(&hook, (void *)p->hook, sizeof(hook));
		CHECK_EQ(hook.kind, p->kind);
		CHECK_EQ(hook.entry, agent.entry[p->kind]);
		/* the call itself; and what stands for it lies in the way there */
		if (p->kind == HOOK_RAW) {
			CHECK_EQ(hook.orig, p->orig + p->call);
			CHECK(memcmp((void *)hook.orig, "\x0f\x05", 2) == 0);
			CHECK(plant_stands(plant, hook.nothrow) &&
			      plant_stands(plant, hook.nothrow - 1) &&
			      !plant_stands(plant, hook.nothrow + 1));
			CHECK_EQ(plant_original_pc(plant, hook.nothrow - 1), plant_site(p));
			continue;
		}
		CHECK_EQ(hook.orig, p->orig);
		if (p->kind < HOOK_NEW || p->kind > HOOK_FREE_AS)
			CHECK_EQ(hook.arg, p->kind >= HOOK_GENERIC_MALLOC);
		else
			CHECK(hook.arg <= FAMILY_ANY);
		CHECK((p->kind == HOOK_NEW) == (hook.nothrow != 0));
		if (hook.nothrow) {
			void *block = ((void *(*)(size_t, size_t, size_t))hook.nothrow)(100, 64, 0);
			void (*drop)(void *) = (void (*)(void *))(
				uintptr_t)dlsym(RTLD_DEFAULT,
						strstr(p->name, "_Zna") ? "_ZdaPv" : "_ZdlPv");

			CHECK(block && drop);
			fill(block, 100);
			if (!strstr(p->name, "align_val_t"))
				drop(block);
		}
	}
}

static int plant_self(struct plant *plant, struct modules *list)
{
	struct plant_ops ops = self_ops;
	struct maps maps;
	double t = ms_now(), read_;
	int total = 0;

	CHECK_EQ(maps_read(&maps, getpid()), 0);
	CHECK(modules_update(list, getpid(), NULL, &maps, 0, NULL) > 0);
	maps_release(&maps);
	read_ = ms_now() - t;
	for (size_t i = 0; i < list->count; i++) {
		int n = plant_module(plant, list->module[i], &ops, &agent, NULL, 0);

		CHECK(n >= 0);
		total += n;
		if (n > 0)
			printf("# %s: %d functions\n", list->module[i]->path, n);
	}
	t = ms_now() - t;
	printf("# %zu modules, %d functions: %.2f ms, of which reading %.2f\n", list->count, total,
	       t, read_);
	for (size_t i = 0; i < plant->nrefused; i++)
		printf("#   refused: %s\n", plant->refused[i]);
	return total;
}

/* Nobody comes by where hooks are not armed, but libc's syscall() where they are off. */
static void check_disarmed(const struct plant *plant)
{
	static const uint32_t states[] = { ARMED_OFF, ARMED_NOT };

	for (size_t i = 0; i < COUNT(states); i++) {
		memset(hits, 0, sizeof(hits));
		armed = states[i];
		use_c();
		use_cxx();
		use_mappings();
		armed = ARMED_ON;
		CHECK_EQ(count_of(plant, "malloc"), 0);
		CHECK_EQ(count_of(plant, "free"), 0);
		CHECK_EQ(count_of(plant, "_Znwm"), 0);
		CHECK_EQ(count_of(plant, "mmap"), 0);
		CHECK((count_of(plant, "syscall") > 0) == (states[i] == ARMED_OFF));
	}
}

static void test_real(void)
{
	static const char *const names[] = { "malloc",	      "calloc", "realloc",
					     "reallocarray",  "free",	"memalign",
					     "aligned_alloc", "valloc", "posix_memalign",
					     "_Znwm",	      "_Znam",	"_ZnwmSt11align_val_t",
					     "_ZdlPv",	      "_ZdaPv" };
	static const char *const more[] = { "mmap",    "munmap", "mremap", "mprotect",
					    "syscall", "brk",	 "sbrk" };
	struct plant_ops ops = self_ops;
	struct plant plant = { 0 }, copy;
	struct modules list = { 0 };
	raddr_t stub, orig, entry;

	CHECK(plant_self(&plant, &list) > 0);
	CHECK(!texts_are_as_in_files(&list) || !plant.count);
	use_c();
	use_cxx();
	use_mappings();
	check_wire_hooks(&plant);
	check_hits(&plant, names, COUNT(names));
	check_hits(&plant, more, COUNT(more));
	check_disarmed(&plant);
	CHECK_EQ(plant_copy(&copy, &plant), 0);
	CHECK_EQ(copy.count, plant.count);
	stub = plant.planted[0].stub;
	orig = plant.planted[0].orig;
	entry = plant.planted[0].entry;
	CHECK_EQ(plant_original_pc(&copy, stub), entry);
	CHECK_EQ(plant_original_pc(&copy, stub + 7), entry);
	CHECK_EQ(plant_original_pc(&copy, orig), entry);
	CHECK_EQ(plant_original_pc(&copy, orig + copy.planted[0].insn[1].to),
		 entry + copy.planted[0].insn[1].from);
	CHECK_EQ(plant_original_pc(&copy, entry), 0);
	CHECK_EQ(plant_original_pc(&copy, 0), 0);
	plant_release(&copy);
	CHECK_EQ(plant_uproot(&plant, &ops), 0);
	CHECK(texts_are_as_in_files(&list));
	memset(hits, 0, sizeof(hits));
	use_c();
	CHECK_EQ(count_of(&plant, "malloc"), 0);
	plant_forget(&plant, 0, UINT64_MAX);
	CHECK_EQ(plant.count, 0);
	plant_release(&plant);
	modules_release(&list);
}

/*
 * In a process of its own, with LIBRARY preloaded: it redirects all of malloc, and must not disturb
 * the other tests.
 */
static void run_with(const char *library)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		setenv("LD_PRELOAD", library, 1);
		execl("/proc/self/exe", "test_plant", "real", NULL);
		_exit(127);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	if (status) {
		printf("# with '%s': status %#x\n", library, status);
		CHECK(false);
	}
}

#if TEST_SANITIZED
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

static void test_self(void) { run_with(""); }
#define WITH(name, library) \
	static void test_self_##name(void) { run_with("/usr/lib/x86_64-linux-gnu/" library); }
WITH(jemalloc, "libjemalloc.so.2")
WITH(tcmalloc, "libtcmalloc.so.4")
WITH(tcmalloc_minimal, "libtcmalloc_minimal.so.4")
WITH(tcmalloc_debug, "libtcmalloc_debug.so.4")
WITH(mimalloc, "libmimalloc.so.2")
WITH(malloc_debug, "libc_malloc_debug.so.0")

int main(int argc, char **argv)
{
	agent.armed = (raddr_t)(uintptr_t)&armed;
	for (int i = 0; i < HOOK_KINDS; i++)
		agent.entry[i] = (raddr_t)(uintptr_t)test_entry;
	if (argc > 1 && strcmp(argv[1], "real") == 0) {
		setvbuf(stdout, NULL, _IOLBF, 4096);
		test_real();
		return test_bad != 0;
	}
	RUN(test_glibc);
	RUN(test_musl);
	RUN(test_allocators);
	RUN(test_static_glibc);
	RUN(test_static_musl);
	RUN(test_operator_new);
	RUN(test_names_that_are_not_hooked);
	RUN(test_prefixed);
	RUN(test_stripped);
	RUN(test_debug_state);
	RUN(test_later);
	if (SANITIZED) {
		SKIP(test_self, "the sanitizer has the allocator");
		goto out;
	}
	RUN(test_self);
	RUN(test_self_jemalloc);
	RUN(test_self_tcmalloc);
	RUN(test_self_tcmalloc_minimal);
	RUN(test_self_tcmalloc_debug);
	RUN(test_self_mimalloc);
	RUN(test_self_malloc_debug);
out:
	clean_up();
	return test_status();
}
