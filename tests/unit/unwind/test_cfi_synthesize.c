// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_cfi_synthesize.c - rules read off the instructions, compared with what the compiler said:
 * the code of libraries that do have call frame information is taken as if they had none. A rule
 * that differs from the FDE's is an error, one that is missing is not (but is counted).
 */
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "symbols/elf.h"
#include "test.h"
#include "unwind/callframe.h"
#include "unwind/cfi.h"
#include "unwind/cfi_synthesize.h"

#define LIB "/usr/lib/x86_64-linux-gnu/"

static const uint8_t *code(void *ctx, uint64_t vaddr, size_t *left)
{
	return elf_at(ctx, vaddr, 1, left);
}

static struct elf *open_file(const char *path)
{
	int error, fd = open(path, O_RDONLY | O_CLOEXEC);
	struct elf *elf;

	if (fd < 0) {
		printf("# %s: not here\n", path);
		return NULL;
	}
	elf = elf_open(fd, &error);
	close(fd);
	CHECK(elf != NULL);
	return elf;
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

struct tally {
	size_t bytes, none, other, same, wrong_cfa, wrong_saved, wrong_lost;
};

static void print_rule(const char *who, const struct wire_rule *r)
{
	printf("#   %s: cfa %u off %d [%d %d %d %d %d %d]\n", who, r->cfa, r->cfa_off, r->off[0],
	       r->off[1], r->off[2], r->off[3], r->off[4], r->off[5]);
}

static void compare(const struct wire_rule *ours, const struct wire_rule *fde, uint64_t vaddr,
		    struct tally *t)
{
	size_t wrong = t->wrong_cfa + t->wrong_saved;

	t->bytes++;
	if (ours->cfa == CFA_NONE) {
		t->none++;
		return;
	}
	if (ours->cfa != fde->cfa) { /* rsp here, rbp there: both may be right */
		t->other++;
		return;
	}
	t->same++;
	t->wrong_cfa += ours->cfa_off != fde->cfa_off;
	for (int i = 0; i < WIRE_REGS; i++) {
		if (ours->off[i] == RULE_LOST && fde->off[i] != RULE_LOST)
			t->wrong_lost++;
		else if (ours->off[i] != RULE_SAME && ours->off[i] != fde->off[i] &&
			 fde->off[i] != RULE_SAME)
			t->wrong_saved++;
	}
	if (wrong != t->wrong_cfa + t->wrong_saved && wrong < 5) {
		printf("# at %#llx\n", (unsigned long long)vaddr);
		print_rule("ours", ours);
		print_rule("fde ", fde);
	}
}

/* STRIPPED: as if there were no symbols either; only the entry point is known. */
static void compare_file(const char *path, bool stripped)
{
	struct elf *elf = open_file(path);
	const struct elf_section *text = elf ? elf_section(elf, ".text") : NULL;
	struct callframe_list list;
	struct elf_bytes eh, hdr;
	struct cfi_synth_input in = { .code = code, .ctx = elf };
	struct cfi_synth_range range, data[16];
	const struct elf_segment *segment;
	struct cfi_synth_row *row;
	struct tally t = { .bytes = 0 };
	uint64_t *entry;
	size_t rows, r = 0;
	double ms;

	if (!text || !elf_eh_frame(elf, &eh, &hdr))
		return;
	CHECK_EQ(callframe_scan(&list,
				&(struct callframe_source){
					.data = eh.bytes, .size = eh.size, .vaddr = eh.vaddr },
				text->addr, text->addr + text->size),
		 0);
	entry = calloc(list.count, sizeof(*entry));
	for (size_t i = 0; i < list.count; i++)
		if (callframe_rule(&list, i, list.frame[i].start).cfa == CFA_RSP &&
		    callframe_rule(&list, i, list.frame[i].start).cfa_off == 8)
			entry[in.nentries++] = text->addr + list.frame[i].start;
	if (stripped) {
		size_t n = elf_segments(elf, &segment);

		in.nentries = 1;
		entry[0] = elf_entry(elf);
		for (size_t i = 0; i < n && in.ndata < 16; i++)
			if (segment[i].type == PT_LOAD && !(segment[i].flags & PF_X))
				data[in.ndata++] = (struct cfi_synth_range){
					(segment[i].vaddr + 7) & ~7ull,
					segment[i].vaddr + segment[i].filesz
				};
		in.data = data;
	}
	range = (struct cfi_synth_range){ text->addr, text->addr + text->size };
	in.entry = entry;
	in.range = &range;
	in.nranges = 1;
	in.lo = text->addr;
	in.start = elf_entry(elf);
	ms = now_ms();
	CHECK_EQ(cfi_synth_rows(&in, &row, &rows), 0);
	ms = now_ms() - ms;
	for (size_t i = 0; i < list.count; i++) {
		uint32_t step = list.frame[i].end - list.frame[i].start > 20000 ? 37 : 3;

		for (uint32_t at = list.frame[i].start; at < list.frame[i].end; at += step) {
			struct wire_rule fde = callframe_rule(&list, i, at);

			while (r + 1 < rows && row[r + 1].offset <= at)
				r++;
			compare(&row[r].rule, &fde, text->addr + at, &t);
		}
	}
	printf("# %s%s: %zu KB of code in %.1f ms, %zu rows; %zu points: %.1f %% no rule, %.1f %% by another register, %zu wrong CFA, %zu wrong save, %zu lost\n",
	       path, stripped ? ", stripped" : "", text->size >> 10, ms, rows, t.bytes,
	       100.0 * (double)t.none / (double)t.bytes, 100.0 * (double)t.other / (double)t.bytes,
	       t.wrong_cfa, t.wrong_saved, t.wrong_lost);
	/*
	 * glibc's __mpn_* push without saying so, _dl_runtime_resolve is not called but jumped to.
	 * Without symbols the cold parts of functions, which gcc's -O2 puts elsewhere, are taken
	 * for the continuation of what stands before them.
	 */
	CHECK(t.wrong_cfa + t.wrong_saved <= t.bytes / (stripped ? 40 : 1000));
	free(row);
	free(entry);
	callframe_release(&list);
	elf_unref(elf);
}

static void test_libc(void) { compare_file(LIB "libc.so.6", false); }
static void test_ld_so(void) { compare_file(LIB "ld-linux-x86-64.so.2", false); }
static void test_redis(void) { compare_file("/usr/bin/redis-server", false); }
static void test_perl(void) { compare_file("/usr/bin/perl", false); }

static void test_stripped(void)
{
	compare_file("/usr/bin/busybox", true); /* half of it, its glibc, has FDEs */
}

/* How much of musl's libc, which says nothing about itself, gets rules. */
static void test_musl(void)
{
	struct elf *elf = open_file("/usr/lib/x86_64-linux-musl/libc.so");
	struct wire_tables *tables = mmap(NULL, sizeof(*tables), PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	const struct elf_section *text;
	struct wire_module m;
	struct cfi cfi;
	size_t none = 0, signal = 0, end = 0;
	uint64_t lo, hi;
	double ms;

	if (!elf)
		return;
	text = elf_section(elf, ".text");
	lo = text->addr & ~4095ull;
	hi = (text->addr + text->size + 4095) & ~4095ull;
	CHECK_EQ(cfi_init(&cfi, tables, WIRE_POOL), 0);
	ms = now_ms();
	CHECK_EQ(cfi_build_elf(&cfi, elf, lo, hi, 0, &m), 0);
	ms = now_ms() - ms;
	for (uint64_t pc = text->addr; pc < text->addr + text->size; pc++) {
		const struct wire_rule *r = cfi_lookup(&cfi, &m, pc);

		none += r->cfa == CFA_NONE;
		signal += r->cfa == CFA_SIGNAL;
		end += r->cfa == CFA_END;
	}
	printf("# musl: %.1f ms, %u rows, %u rules, %.1f %% of the code without rule; %zu bytes outermost, %zu of a signal frame\n",
	       ms, m.nrows, cfi.nrules, 100.0 * (double)none / (double)text->size, end, signal);
	CHECK_EQ(signal, 10);
	CHECK(none < text->size / 5);
	CHECK(end > 0);
	cfi_release(&cfi);
	munmap(tables, sizeof(*tables));
	elf_unref(elf);
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		for (int i = 1; i < argc; i++)
			compare_file(argv[i], false);
		return test_bad != 0;
	}
	RUN(test_libc);
	RUN(test_ld_so);
	RUN(test_redis);
	RUN(test_perl);
	RUN(test_stripped);
	RUN(test_musl);
	return test_status();
}
