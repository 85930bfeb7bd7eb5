// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_inline_syscall.c - finding `syscall` instructions: in code of this program's own, with and
 * without room for a jump. An argument: a file whose sites are listed.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "patch/inline_syscall.h"
#include "symbols/elf.h"
#include "test.h"

/* NAME is what is in NUMBER's way; the label NAME_call is on the instruction. */
#define SITE(name, before, behind)                                                        \
	void name(void);                                                                  \
	extern const char name##_call[];                                                  \
	__asm__(".text\n.balign 16\n.globl " #name "\n.type " #name ", @function\n" #name \
		":\n.cfi_startproc\n" before "\n.globl " #name "_call\n" #name "_call:\n" \
		"syscall\n" behind "\nret\n.cfi_endproc\n.size " #name ", . - " #name     \
		"\n.balign 16\n")

#define LONG_TAIL "cmp $-4095, %rax\njae 9f\nnop\n9:"

SITE(known, "mov $9, %eax\nmov %rdi, %r10", LONG_TAIL);
SITE(known_directly, "mov $11, %eax", "");
SITE(known_short, "push $12\npop %rax", LONG_TAIL);
SITE(known_zero, "xor %eax, %eax", LONG_TAIL);
SITE(other, "mov $39, %eax", LONG_TAIL);
SITE(rax_too, "mov $9, %rax", LONG_TAIL);
SITE(lost, "mov $39, %eax\nmov %rdi, %rax", LONG_TAIL);
SITE(added, "mov $39, %eax\nadd %edi, %eax", LONG_TAIL);
SITE(joined, "mov $39, %eax\ntest %rdi, %rdi\njz 1f\nmov $9, %eax\n1: mov %rdi, %rsi", LONG_TAIL);
SITE(retried, "mov $9, %eax\n1: nop", "cmp $-4, %eax\nje 1b");
SITE(at_once_again, "mov $9, %eax\n1:", "cmp $-4, %eax\nje 1b\nnop\nnop");
SITE(joined_behind, "test %rdi, %rdi\njz 1f\n", "1: test %eax, %eax\nnop\nnop\nnop");
SITE(from_afar, "test %rdi, %rdi\nnop\n",
     ".globl from_afar_back\nfrom_afar_back: test %eax, %eax\nnop\nnop\nnop");
SITE(by_table, "test %rdi, %rdi\njmp *%rsi\n", LONG_TAIL);
SITE(in_middle, "mov $0x0000050f, %ecx\nmov $39, %eax", LONG_TAIL);
SITE(at_end, "test %rdi, %rdi\nnop", "");
__asm__(".section .text.elsewhere, \"ax\"\n.cfi_startproc\njmp from_afar_back\n.cfi_endproc\n.text\n");
__asm__(".text\n.balign 16\ncrowded:\n.cfi_startproc\nnop\n.globl crowded_call\ncrowded_call: syscall\n.cfi_endproc\nnext_one:\n.cfi_startproc\nret\n.cfi_endproc\n");
extern const char crowded_call[];

static const struct inline_syscall *all;
static size_t count;
static uint64_t base;

static const struct inline_syscall *find(const char *at)
{
	for (size_t i = 0; i < count; i++)
		if (all[i].vaddr == (uintptr_t)at - base)
			return &all[i];
	return NULL;
}

static void test_numbers(void)
{
	static const struct {
		const char *name, *at;
		int64_t number;
	} known[] = {
		{ "mov eax, n, others behind it", known_call, SYS_mmap },
		{ "mov eax, n", known_directly_call, SYS_munmap },
		{ "push n; pop rax", known_short_call, SYS_brk },
		{ "mov rax, n", rax_too_call, SYS_mmap },
		{ "the number is overwritten", lost_call, INLINE_SYSCALL_UNKNOWN },
		{ "the number is changed", added_call, INLINE_SYSCALL_UNKNOWN },
		{ "two ways with two numbers", joined_call, INLINE_SYSCALL_UNKNOWN },
		{ "no number", by_table_call, INLINE_SYSCALL_UNKNOWN },
		{ "a loop back to behind it", retried_call, INLINE_SYSCALL_UNKNOWN },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		const struct inline_syscall *s = find(known[i].at);

		CHECK_STR(s && s->number == known[i].number ? known[i].name : "another number",
			  known[i].name);
	}
	/* numbers of no interest are left out */
	CHECK(!find(other_call) && !find(known_zero_call));
	CHECK(!find(in_middle_call));
	for (int i = 0; i < 12; i++)
		/* bytes in the middle of an instruction are none */
		CHECK(!find((const char *)in_middle + i));
}

static void test_windows(void)
{
	const struct inline_syscall *s = find(known_directly_call);

	/* mov eax, n: its five bytes */
	CHECK(s && s->nwhole == 1 && s->window[0] == s->vaddr - 5);
	s = find(known_call);
	/* the instruction of five bytes first */
	CHECK(s && s->nwhole == 1 && s->window[0] == s->vaddr - 8);
	s = find(at_once_again_call);
	/* branched to: only from there on */
	CHECK(s && s->nwhole == 0 && s->nwindows == 1 && s->window[0] == s->vaddr);
	s = find(joined_behind_call);
	CHECK(s && s->nwindows == 0 && s->why); /* a branch to behind it */
	s = find(from_afar_call);
	CHECK(s && s->nwindows == 0); /* a branch from elsewhere to behind it */
	s = find(by_table_call);
	CHECK(s && s->nwindows == 0); /* a jump by a table in the function */
	s = find(crowded_call);
	CHECK(s && s->next == s->vaddr + 2); /* where the next function begins */
}

static int list(const char *path)
{
	struct timespec a, b;
	size_t dark;
	int fd = open(path, O_RDONLY), err;
	struct elf *elf = fd < 0 ? NULL : elf_open(fd, &err);

	if (!elf)
		return 1;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
	err = inline_syscall_find(elf, &all, &count, &dark);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
	for (size_t i = 0; i < count; i++)
		printf("0x%lx in 0x%lx-0x%lx: number %ld, %u windows, %u whole\n", all[i].vaddr,
		       all[i].start, all[i].end, (long)all[i].number, all[i].nwindows,
		       all[i].nwhole);
	printf("%d: %zu sites, %zu dark, %.1f ms\n", err, count, dark,
	       (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6);
	return 0;
}

static struct elf *self;

static void test_kept(void)
{
	const struct inline_syscall *twice;
	size_t again, dark;

	CHECK(inline_syscall_find(self, &twice, &again, &dark) == 0 && twice == all &&
	      again == count);
}

int main(int argc, char **argv)
{
	struct elf_symbol symbol;
	size_t cursor = 0, dark;
	int fd, err;

	if (argc > 1)
		return list(argv[1]);
	fd = open("/proc/self/exe", O_RDONLY);
	self = elf_open(fd, &err);
	close(fd);
	if (!self || !elf_find(self, "known", &cursor, &symbol) ||
	    inline_syscall_find(self, &all, &count, &dark))
		return 1;
	base = (uintptr_t)known - symbol.value;
	RUN(test_numbers);
	RUN(test_windows);
	RUN(test_kept);
	inline_syscall_forget();
	elf_unref(self);
	return test_status();
}
