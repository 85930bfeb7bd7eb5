// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_cfi.c - our unwind rules against libdw's reading of the same files, as independent truth;
 * and against bytes that make no sense.
 *
 * For every file that is there: the rule at each FDE's start and at random addresses must say what
 * dwarf_cfi_addrframe() says about the CFA, the return address and the callee-saved registers.
 * Where ours says "no rule" or "lost" it must be because a rule of wire_stack.h cannot say it;
 * these are counted.
 */
#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <gelf.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/ucontext.h>
#include <time.h>
#include <unistd.h>

#include "symbols/elf.h"
#include "test.h"
#include "unwind/callframe.h"
#include "unwind/cfi.h"

#define BASE 0x7f0000000000ull

static const unsigned dwarf_of[WIRE_REGS] = { 6, 3, 12, 13, 14, 15 };
static struct wire_tables *tables;
static uint64_t seed = 88172645463325252ull;
static uint64_t random64(void) { return test_random(&seed); }

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void fresh_image(void)
{
	if (tables)
		munmap(tables, sizeof(*tables));
	tables = mmap(NULL, sizeof(*tables), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (tables == MAP_FAILED)
		abort();
}

/* A file with its code's extent. */
struct object {
	struct elf *elf;
	uint64_t lo, hi;
};

static bool object_open(struct object *o, const char *path)
{
	const struct elf_segment *segment;
	size_t n;
	int error, fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	o->elf = elf_open(fd, &error);
	close(fd);
	if (!o->elf)
		return false;
	n = elf_segments(o->elf, &segment);
	o->lo = UINT64_MAX;
	o->hi = 0;
	for (size_t i = 0; i < n; i++)
		if (segment[i].type == PT_LOAD && segment[i].flags & PF_X) {
			o->lo = segment[i].vaddr < o->lo ? segment[i].vaddr : o->lo;
			o->hi = segment[i].vaddr + segment[i].memsz > o->hi
					? segment[i].vaddr + segment[i].memsz
					: o->hi;
		}
	o->lo &= ~4095ull;
	o->hi = (o->hi + 4095) & ~4095ull;
	return true;
}

/* ---- libdw's answer, in our words ---------------------------------------- */

static int reg_of(unsigned dwarf)
{
	for (int i = 0; i < WIRE_REGS; i++)
		if (dwarf_of[i] == dwarf)
			return i;
	return -1;
}

static unsigned breg(const Dwarf_Op *op)
{
	return op->atom == DW_OP_bregx ? (unsigned)op->number
	       : op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31
		       ? (unsigned)op->atom - DW_OP_breg0
		       : 99;
}

static int64_t breg_offset(const Dwarf_Op *op)
{
	return (int64_t)(op->atom == DW_OP_bregx ? op->number2 : op->number);
}

static bool is_plt(const Dwarf_Op *ops, size_t n)
{
	return n == 8 && breg(&ops[0]) == 7 && breg(&ops[1]) == 16 && ops[2].atom == DW_OP_lit15 &&
	       ops[3].atom == DW_OP_and && ops[5].atom == DW_OP_ge && ops[6].atom == DW_OP_lit3 &&
	       ops[7].atom == DW_OP_shl;
}

static void truth_cfa(struct wire_rule *r, const Dwarf_Op *ops, size_t n)
{
	unsigned reg = n ? breg(&ops[0]) : 99;
	int ours = reg_of(reg);
	bool deref = n >= 2 && ops[1].atom == DW_OP_deref &&
		     (n == 2 || (n == 3 && ops[2].atom == DW_OP_plus_uconst));

	r->cfa = CFA_NONE;
	if (n == 9 && is_plt(ops, 8) && ops[8].atom == DW_OP_plus) {
		r->cfa = CFA_PLT;
		r->reg = (uint8_t)(ops[4].atom - DW_OP_lit0);
		r->cfa_off = (int32_t)breg_offset(&ops[0]);
		return;
	}
	if (n != 1 && !deref)
		return;
	r->cfa_off = (int32_t)breg_offset(&ops[0]);
	if (deref && n == 3)
		r->deref = (int16_t)ops[2].number;
	if (reg == 7)
		r->cfa = deref ? CFA_RSP_DEREF : CFA_RSP;
	else if (reg == 6)
		r->cfa = deref ? CFA_RBP_DEREF : CFA_RBP;
	else if (ours >= 0) {
		r->cfa = deref ? CFA_REG_DEREF : CFA_REG;
		r->reg = (uint8_t)ours;
	} else if (!deref && reg < 12) {
		static const uint8_t greg[] = {
			REG_RAX, REG_RDX, REG_RCX, 0,	   REG_RSI, REG_RDI,
			0,	 0,	  REG_R8,  REG_R9, REG_R10, REG_R11
		};

		r->cfa = CFA_SCRATCH;
		r->reg = greg[reg];
	}
}

enum where { SAME, UNDEFINED, AT_CFA, AT_RBP, ELSEWHERE };

static enum where truth_register(Dwarf_Frame *frame, unsigned dwarf, int64_t *offset)
{
	Dwarf_Op mem[3], *ops;
	size_t n;

	if (dwarf_frame_register(frame, (int)dwarf, mem, &ops, &n))
		return ELSEWHERE;
	if (!n)
		return ops == mem ? UNDEFINED : SAME;
	if (n == 1 && ops[0].atom == DW_OP_call_frame_cfa) {
		*offset = 0;
		return AT_CFA;
	}
	if (n == 2 && ops[0].atom == DW_OP_call_frame_cfa && ops[1].atom == DW_OP_plus_uconst) {
		*offset = (int64_t)ops[1].number;
		return AT_CFA;
	}
	if (n == 2 && ops[0].atom == DW_OP_call_frame_cfa && breg(&ops[1]) == 6) {
		*offset = breg_offset(&ops[1]);
		return AT_RBP;
	}
	return ELSEWHERE;
}

static struct wire_rule truth(Dwarf_Frame *frame)
{
	static const struct wire_rule none, end = { .cfa = CFA_END }, sig = { .cfa = CFA_SIGNAL };
	struct wire_rule r = { .cfa = CFA_NONE };
	Dwarf_Op *ops;
	size_t n;
	bool signal = false;
	int64_t offset = 0;
	enum where ra = truth_register(frame, 16, &offset);

	dwarf_frame_info(frame, NULL, NULL, &signal);
	if (ra == UNDEFINED)
		return end;
	if (dwarf_frame_cfa(frame, &ops, &n))
		return none;
	truth_cfa(&r, ops, n);
	if (signal && r.cfa == CFA_RSP_DEREF && r.cfa_off == 160)
		return sig;
	if (ra != AT_CFA || offset != -8 || r.cfa == CFA_NONE)
		return none;
	for (int i = 0; i < WIRE_REGS; i++) {
		enum where w = truth_register(frame, dwarf_of[i], &offset);

		if (w == UNDEFINED && dwarf_of[i] == 3)
			/* elfutils' table of the ABI names register 0 where it means rbx */
			w = SAME;
		r.off[i] = w == SAME					    ? RULE_SAME
			   : w == UNDEFINED || w == ELSEWHERE || offset % 8 ? RULE_LOST
									    : (int16_t)(offset / 8);
		if (w == AT_RBP)
			r.from_rbp |= (uint8_t)(1u << i);
	}
	return r;
}

/*
 * libdw takes a register without a rule for undefined only if the ABI says so, like us; END rows of
 * the entry point are our own.
 */
static bool same_rule(const struct wire_rule *a, const struct wire_rule *b)
{
	return !memcmp(a, b, sizeof(*a));
}

static void print_rule(const char *who, const struct wire_rule *r)
{
	printf("#   %s: cfa %u reg %u off %d deref %d from_rbp %x [%d %d %d %d %d %d]\n", who,
	       r->cfa, r->reg, r->cfa_off, r->deref, r->from_rbp, r->off[0], r->off[1], r->off[2],
	       r->off[3], r->off[4], r->off[5]);
}

/* ---- the comparison ------------------------------------------------------ */

struct tally {
	size_t pcs, none, lost, wrong, uncovered, end;
};

static void compare_at(const struct cfi *cfi, const struct wire_module *m, Dwarf_CFI *dw,
		       uint64_t vaddr, uint64_t entry, struct tally *t)
{
	const struct wire_rule *ours = cfi_lookup(cfi, m, BASE + vaddr);
	struct wire_rule theirs;
	Dwarf_Frame *frame = NULL;

	if (!ours) {
		t->wrong++;
		return;
	}
	t->pcs++;
	if (dwarf_cfi_addrframe(dw, vaddr, &frame)) {
		/* no FDE: our rule, if any, was read off the code */
		t->uncovered++;
		return;
	}
	theirs = truth(frame);
	t->none += ours->cfa == CFA_NONE;
	t->end += ours->cfa == CFA_END;
	for (int i = 0; i < WIRE_REGS; i++)
		if (ours->cfa > CFA_END && ours->off[i] == RULE_LOST) {
			t->lost++;
			break;
		}
	if (!same_rule(ours, &theirs) && !(ours->cfa == CFA_END && vaddr - entry < 64)) {
		if (t->wrong++ < 5) {
			printf("# at %#llx\n", (unsigned long long)vaddr);
			print_rule("ours ", ours);
			print_rule("libdw", &theirs);
		}
	}
	free(frame);
}

static void compare_file(const char *path)
{
	struct object o;
	struct cfi cfi;
	struct wire_module m;
	struct tally t = { .pcs = 0 };
	double first = 0, again = 0, kept = 0;
	Dwarf_CFI *dw;
	Elf *elf;
	int fd;

	if (!object_open(&o, path)) {
		printf("# %s: not here\n", path);
		return;
	}
	for (int i = 0; i < 3; i++) {
		double ms = now_ms();

		fresh_image();
		CHECK_EQ(cfi_init(&cfi, tables, WIRE_POOL), 0);
		if (i < 2)
			cfi_forget();
		ms = now_ms();
		CHECK_EQ(cfi_build_elf(&cfi, o.elf, BASE + o.lo, BASE + o.hi, BASE, &m), 0);
		ms = now_ms() - ms;
		if (!i)
			first = ms;
		if (i == 1)
			again = ms;
		kept = ms;
		if (i < 2)
			cfi_release(&cfi);
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	dw = dwarf_getcfi_elf(elf);
	CHECK(dw != NULL);
	if (dw) {
		Dwarf_Off off = 0, next;
		Dwarf_CFI_Entry entry;
		const unsigned char *ident = (const unsigned char *)elf_getident(elf, NULL);
		struct elf_bytes eh, hdr;

		if (elf_eh_frame(o.elf, &eh, &hdr)) {
			Elf_Data data = { .d_buf = (void *)(uintptr_t)eh.bytes,
					  .d_size = eh.size,
					  .d_type = ELF_T_BYTE,
					  .d_version = EV_CURRENT };

			while (!dwarf_next_cfi(ident, &data, true, off, &next, &entry)) {
				int32_t rel;

				if (!dwarf_cfi_cie_p(&entry)) {
					uint64_t at = eh.vaddr +
						      (uint64_t)(entry.fde.start - eh.bytes);

					memcpy(&rel, entry.fde.start, 4);
					compare_at(&cfi, &m, dw, at + (uint64_t)(int64_t)rel,
						   elf_entry(o.elf), &t);
				}
				off = next;
				if (next == (Dwarf_Off)-1)
					break;
			}
		}
		for (int i = 0; i < 40000; i++)
			compare_at(&cfi, &m, dw, o.lo + random64() % (o.hi - o.lo),
				   elf_entry(o.elf), &t);
		dwarf_cfi_end(dw);
	}
	elf_end(elf);
	close(fd);
	CHECK_EQ(t.wrong, 0);
	printf("# %s: %u rows, %u rules, %llu KB, first %.2f ms, again %.2f ms, kept %.2f ms; %zu pcs: %zu outside of FDEs, %zu no rule, %zu lost a register, %zu outermost\n",
	       path, m.nrows, cfi.nrules, (unsigned long long)cfi.pool_used >> 10, first, again,
	       kept, t.pcs, t.uncovered, t.none, t.lost, t.end);
	cfi_release(&cfi);
	elf_unref(o.elf);
}

/* ---- bytes that make no sense -------------------------------------------- */

/* What a walker relies on: rows ascend, every index is in bounds. */
static bool tables_sound(const struct cfi *cfi, const struct wire_module *m)
{
	const uint8_t *pool = cfi->tables->pool;
	const uint32_t *offs = (const uint32_t *)(const void *)(pool + m->rows),
		       *index = (const uint32_t *)(const void *)(pool + m->index);
	const uint16_t *rule = (const uint16_t *)(const void *)(pool + m->rules);
	uint32_t kibs = (uint32_t)((m->end - m->start + 1023) / 1024);

	if (!m->nrows || offs[0] != 0 || cfi->pool_used > WIRE_POOL)
		return false;
	for (uint32_t i = 0; i < m->nrows; i++)
		if ((i && offs[i] <= offs[i - 1]) || offs[i] >= m->end - m->start ||
		    rule[i] >= cfi->nrules)
			return false;
	for (uint32_t k = 0; k <= kibs; k++)
		if (index[k] >= m->nrows || (k < kibs && offs[index[k]] > k * 1024) ||
		    (k && index[k] < index[k - 1]))
			return false;
	for (uint32_t i = 0; i < cfi->nrules; i++)
		if (cfi->tables->rule[i].cfa >= CFA_KINDS ||
		    (cfi->tables->rule[i].cfa == CFA_REG && cfi->tables->rule[i].reg >= WIRE_REGS))
			return false;
	return true;
}

static uint8_t *read_whole(const char *path, size_t *size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint8_t *bytes;

	if (fd < 0)
		return NULL;
	*size = (size_t)lseek(fd, 0, SEEK_END);
	bytes = malloc(*size);
	if (pread(fd, bytes, *size, 0) != (ssize_t)*size)
		abort();
	close(fd);
	return bytes;
}

/*
 * COUNT bytes of [at, at + len) become others: random ones, or such as mean something to a parser.
 */
static void mutate(uint8_t *at, size_t len, unsigned count)
{
	static const uint8_t special[] = { 0,	 0xff, 0x7f, 0x80, 0x0f, 0x10, 0x16,
					   0x0a, 0x0b, 0x04, 'z',  'R',	 'P',  'S' };

	while (count--) {
		uint64_t r = random64();

		at[(r >> 16) % len] = r & 1 ? (uint8_t)(r >> 8)
					    : special[(r >> 8) % sizeof(special)];
	}
}

static void mutate_file(const char *path, const char *section, unsigned rounds)
{
	size_t size;
	uint8_t *original = read_whole(path, &size), *bytes;
	struct object o;
	struct elf_section s;
	size_t sound = 0, built = 0;

	if (!original || !object_open(&o, path)) {
		printf("# %s: not here\n", path);
		return;
	}
	s = *elf_section(o.elf, section);
	bytes = malloc(size);
	fresh_image();
	for (unsigned i = 0; i < rounds; i++) {
		struct wire_module m;
		struct cfi cfi;
		struct elf *elf;
		int error;

		memcpy(bytes, original, size);
		mutate(bytes + s.offset, s.size, 1 + (unsigned)(random64() % 200));
		elf = elf_from_bytes(bytes, size, &error);
		CHECK_EQ(cfi_init(&cfi, tables, WIRE_POOL), 0);
		if (elf && !cfi_build_elf(&cfi, elf, BASE + o.lo, BASE + o.hi, BASE, &m)) {
			built++;
			sound += tables_sound(&cfi, &m);
			for (int k = 0; k < 1000; k++)
				CHECK(cfi_lookup(&cfi, &m,
						 m.start + random64() % (m.end - m.start)) != NULL);
		}
		cfi_release(&cfi);
		elf_unref(elf);
	}
	cfi_forget();
	CHECK_EQ(sound, built);
	CHECK(built > 0);
	printf("# %s, %s: %u mutations, %zu gave tables\n", path, section, rounds, built);
	free(bytes);
	free(original);
	elf_unref(o.elf);
}

#define LIB "/usr/lib/x86_64-linux-gnu/"
static void test_mutations(void)
{
	mutate_file(LIB "ld-linux-x86-64.so.2", ".eh_frame", 400);
	mutate_file("/usr/lib/x86_64-linux-musl/libc.so", ".text", 20);
}

/* The largest and the smallest lengths, in both widths, at the end of the section. */
static void test_lengths(void)
{
	static const uint64_t length[] = { 0, 1,	  3,	      4,	  7,
					   8, 0x7fffffff, 0xfffffff0, 0xfffffffe, 0xffffffff };
	struct callframe_list list;

	for (size_t i = 0; i < sizeof(length) / sizeof(*length); i++)
		for (size_t wide = 0; wide < sizeof(length) / sizeof(*length); wide++)
			for (size_t size = 0; size <= 40; size++) {
				uint8_t *bytes = calloc(1, size + 1);
				uint8_t all[40] = { 0 };
				struct callframe_source source = { .data = bytes, .size = size };

				memcpy(all, &length[i], 4);
				memcpy(all + 4, &length[wide], 8);
				memcpy(bytes, all, size);
				CHECK_EQ(callframe_scan(&list, &source, 0, 4096), 0);
				callframe_release(&list);
				source.debug_frame = true;
				CHECK_EQ(callframe_scan(&list, &source, 0, 4096), 0);
				callframe_release(&list);
				free(bytes);
			}
}

static void test_libc(void) { compare_file(LIB "libc.so.6"); }
static void test_ld_so(void) { compare_file(LIB "ld-linux-x86-64.so.2"); }
static void test_libstdcxx(void) { compare_file(LIB "libstdc++.so.6"); }
static void test_libcrypto(void) { compare_file(LIB "libcrypto.so.3"); }
static void test_python(void) { compare_file("/usr/bin/python3"); }
static void test_perl(void) { compare_file("/usr/bin/perl"); }
static void test_gdb(void) { compare_file("/usr/bin/gdb"); }
static void test_redis(void) { compare_file("/usr/bin/redis-server"); }
static void test_llvm(void) { compare_file(LIB "libLLVM-14.so.1"); }

/* On one processor a file is read in one piece, on several in pieces: the rules are the same. */
static void test_pieces(void)
{
	static const char *const large[] = { LIB "libLLVM-14.so.1", "/usr/bin/gdb" };
	struct wire_tables *whole;
	struct cfi one, several;
	struct wire_module a, b;
	struct object o;
	cpu_set_t all, first;
	size_t other = 0;

	if (!object_open(&o, large[0]) && !object_open(&o, large[1])) {
		printf("# %s, %s: not here\n", large[0], large[1]);
		return;
	}
	CHECK_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
	CPU_ZERO(&first);
	for (int i = 0; !CPU_COUNT(&first); i++)
		if (CPU_ISSET(i, &all))
			CPU_SET(i, &first);
	CHECK_EQ(sched_setaffinity(0, sizeof(first), &first), 0);
	cfi_forget();
	fresh_image();
	CHECK_EQ(cfi_init(&one, tables, WIRE_POOL), 0);
	CHECK_EQ(cfi_build_elf(&one, o.elf, BASE + o.lo, BASE + o.hi, BASE, &a), 0);
	whole = tables;
	tables = NULL;
	CHECK_EQ(sched_setaffinity(0, sizeof(all), &all), 0);
	cfi_forget();
	fresh_image();
	CHECK_EQ(cfi_init(&several, tables, WIRE_POOL), 0);
	CHECK_EQ(cfi_build_elf(&several, o.elf, BASE + o.lo, BASE + o.hi, BASE, &b), 0);
	CHECK(b.nrows - a.nrows < 16); /* a boundary may part two rows that are alike */
	for (uint64_t pc = BASE + o.lo; pc < BASE + o.hi; pc += 5)
		if (memcmp(cfi_lookup(&one, &a, pc), cfi_lookup(&several, &b, pc),
			   sizeof(struct wire_rule)) != 0)
			other++;
	CHECK_EQ(other, 0);
	printf("# %d processors: %u rows, in pieces %u\n", CPU_COUNT(&all), a.nrows, b.nrows);
	cfi_release(&one);
	cfi_release(&several);
	munmap(whole, sizeof(*whole));
	elf_unref(o.elf);
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		for (int i = 1; i < argc; i++)
			compare_file(argv[i]);
		return test_bad != 0;
	}
	RUN(test_libc);
	RUN(test_ld_so);
	RUN(test_libstdcxx);
	RUN(test_libcrypto);
	RUN(test_python);
	RUN(test_perl);
	RUN(test_gdb);
	RUN(test_redis);
	RUN(test_llvm);
	RUN(test_pieces);
	RUN(test_lengths);
	RUN(test_mutations);
	cfi_forget();
	return test_status();
}
