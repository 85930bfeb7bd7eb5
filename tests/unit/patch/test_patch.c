// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_patch.c - instructions moved elsewhere do what they did: each case is bytes, put into
 * memory, redirected to its copy, and called.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "patch/patch.h"
#include "test.h"

#define SPACE 0x100000u
#define PLACE 0x40000u /* of the copy, from the function */
#define DATA  0x800u   /* of a variable, from the function */

static uint8_t *memory; /* SPACE bytes, rwx; the function at 0 */

typedef long (*function)(long, long);

static bool setup(void)
{
	memory = mmap(NULL, SPACE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
		      -1, 0);
	return memory != MAP_FAILED;
}

static raddr_t at(size_t offset) { return (raddr_t)(uintptr_t)memory + offset; }

static int decode(struct patch *p, const void *bytes, size_t len, const char **why)
{
	memset(memory, 0xcc, SPACE);
	memcpy(memory, bytes, len);
	return patch_decode(p, at(0), memory, PATCH_BYTES, len, why);
}

/* Puts the function there, moves its start to PLACE, and redirects it. */
static bool redirect(struct patch *p, const void *bytes, size_t len)
{
	const char *why = "";

	if (decode(p, bytes, len, &why) < 0) {
		printf("# refused: %s\n", why);
		return false;
	}
	if (patch_is_target(at(0), memory, len, p->entry, p->entry + PATCH_JUMP) ||
	    patch_place(p, at(PLACE)) < 0 ||
	    patch_jump(memory + (p->entry - at(0)), p->entry, at(PLACE)) < 0)
		return false;
	memcpy(memory + PLACE, p->code, p->len);
	/* what lay behind the jump must not be run any more */
	for (size_t i = PATCH_JUMP; i < p->nbytes; i++)
		memory[p->entry - at(0) + i] = 0xcc;
	return true;
}

static long call(long a, long b) { return ((function)(uintptr_t)memory)(a, b); }

static void set_int(size_t offset, int value) { memcpy(memory + offset, &value, sizeof(value)); }

static void set_pointer(size_t offset, raddr_t value)
{
	memcpy(memory + offset, &value, sizeof(value));
}

#define BYTES(...) (const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ })
#define REL32(n)                                                                   \
	(uint8_t)((n)&255), (uint8_t)((n) >> 8 & 255), (uint8_t)((n) >> 16 & 255), \
		(uint8_t)((n) >> 24 & 255)

static void test_plain(void)
{
	struct patch p;

	/* push rbp; mov rbp, rsp; lea rax, [rdi + rsi]; pop rbp; ret */
	CHECK(redirect(&p, BYTES(0x55, 0x48, 0x89, 0xe5, 0x48, 0x8d, 0x04, 0x37, 0x5d, 0xc3)));
	CHECK_EQ(p.nbytes, 8);
	CHECK_EQ(p.ninsn, 3);
	CHECK_EQ(p.insn[1].from, 1);
	CHECK_EQ(p.insn[2].from, 4);
	CHECK_EQ(p.insn[3].from, 8);
	CHECK_EQ(p.len, 8 + 5);
	CHECK_EQ(call(30, 12), 42);
}

static void test_endbr64_stays(void)
{
	struct patch p;

	CHECK(redirect(&p, BYTES(0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0x48, 0x8d, 0x04,
				 0x37, 0x5d, 0xc3)));
	CHECK_EQ(p.entry - at(0), 4);
	CHECK(memcmp(memory, "\xf3\x0f\x1e\xfa\xe9", 5) == 0);
	CHECK_EQ(call(30, 12), 42);
}

static void test_rip_operand(void)
{
	struct patch p;

	/* mov eax, [rip + x]; add eax, edi; ret */
	CHECK(redirect(&p, BYTES(0x8b, 0x05, REL32(DATA - 6), 0x01, 0xf8, 0xc3)));
	set_int(DATA, 40);
	CHECK_EQ(call(2, 0), 42);
}

/* The displacement counts from the end of the instruction, behind the immediate. */
static void test_rip_operand_with_immediate(void)
{
	struct patch p;

	/* cmp byte [rip + x], 7; sete al; movzx eax, al; ret */
	CHECK(redirect(&p, BYTES(0x80, 0x3d, REL32(DATA - 7), 7, 0x0f, 0x94, 0xc0, 0x0f, 0xb6, 0xc0,
				 0xc3)));
	set_int(DATA, 7);
	CHECK_EQ(call(0, 0), 1);
	set_int(DATA, 8);
	CHECK_EQ(call(0, 0), 0);
	/* mov dword [rip + x], 0x12345678; mov eax, [rip + x]; ret */
	CHECK(redirect(&p, BYTES(0xc7, 0x05, REL32(DATA - 10), REL32(0x12345678), 0x8b, 0x05,
				 REL32(DATA - 16), 0xc3)));
	CHECK_EQ(call(0, 0), 0x12345678);
	/*
	 * the same with an operand-size prefix and a 16-bit immediate: cmp word [rip + x], 0x1234;
	 * sete al; movzx eax, al; ret
	 */
	CHECK(redirect(&p, BYTES(0x66, 0x81, 0x3d, REL32(DATA - 9), 0x34, 0x12, 0x0f, 0x94, 0xc0,
				 0x0f, 0xb6, 0xc0, 0xc3)));
	set_int(DATA, 0x1234);
	CHECK_EQ(call(0, 0), 1);
}

static void test_rip_operand_by_bytes(void)
{
	struct patch p;
	const char *why;
	/* mov rax, [rip + 0x2010] */
	static const uint8_t whole[] = { 0x48, 0x8b, 0x05, 0x10, 0x20, 0x00, 0x00, 0xc3 };
	static const uint8_t moved[] = { 0x48, 0x8b, 0x05, 0x10, 0x10, 0x00,
					 0x00, 0xe9, 0xfb, 0xef, 0xff, 0xff };

	CHECK_EQ(patch_decode(&p, 0x7f0000000000, whole, sizeof(whole), sizeof(whole), &why), 0);
	CHECK_EQ(patch_place(&p, 0x7f0000001000), 0);
	CHECK_EQ(p.len, sizeof(moved));
	CHECK(memcmp(p.code, moved, sizeof(moved)) == 0);
	CHECK_EQ(patch_place(&p, 0x7f0000000000 + (1ull << 31) - 0x1000), 0);
	CHECK_EQ(patch_place(&p, 0x7f0000000000 + (1ull << 31) + 0x3000), -34);
	CHECK_EQ(patch_place(&p, 0x7f0000000000 - (1ull << 31) - 0x3000), -34);
}

/* test edi, edi; je +6; mov eax, 1; ret; [here] mov eax, 2; ret */
static void test_jcc_short(void)
{
	struct patch p;

	CHECK(redirect(&p,
		       BYTES(0x85, 0xff, 0x74, 0x06, 0xb8, REL32(1), 0xc3, 0xb8, REL32(2), 0xc3)));
	CHECK_EQ(call(5, 0), 1);
	CHECK_EQ(call(0, 0), 2);
}

static void test_jcc_near(void)
{
	struct patch p;

	/* test rdi, rdi; jne far; mov eax, 1; ret ... far: mov eax, 2; ret */
	CHECK(redirect(&p, BYTES(0x48, 0x85, 0xff, 0x0f, 0x85, REL32(0x100 - 9), 0xb8, REL32(1),
				 0xc3)));
	memcpy(memory + 0x100, (const uint8_t[]){ 0xb8, 2, 0, 0, 0, 0xc3 }, 6);
	CHECK_EQ(call(0, 0), 1);
	CHECK_EQ(call(1, 0), 2);
}

/*
 * A branch over an instruction that moves too: xor eax, eax; test edi, edi; je +2; inc eax; add
 * eax, 5; ret.
 */
static void test_jcc_within_the_copy(void)
{
	struct patch p;

	/* je +0 (to the next one), inside the first five bytes: 74 00; 90; 31 c0; ... */
	CHECK(redirect(&p, BYTES(0x74, 0x01, 0x90, 0x31, 0xc0, 0x83, 0xc0, 0x05, 0xc3)));
	CHECK_EQ(call(0, 0), 5);
	CHECK_EQ(p.fixup[0].target >> 63, 1);
	/* to where the copy goes back */
	CHECK(redirect(&p, BYTES(0x85, 0xff, 0x74, 0x01, 0x90, 0x89, 0xf8, 0xc3)));
	CHECK_EQ(call(9, 0), 9);
	CHECK_EQ(call(0, 0), 0);
}

static void test_lone_jmp(void)
{
	struct patch p;

	CHECK(redirect(&p, BYTES(0xe9, REL32(0x200 - 5))));
	/* lea rax, [rdi + 1]; ret */
	memcpy(memory + 0x200, (const uint8_t[]){ 0x48, 0x8d, 0x47, 0x01, 0xc3 }, 5);
	CHECK_EQ(p.len, 5);
	CHECK_EQ(p.ninsn, 1);
	CHECK_EQ(call(41, 0), 42);
}

static void test_jmp_short(void)
{
	struct patch p;
	const char *why;

	/* jmp +14, padding, lea rax, [rdi + 1]; ret */
	CHECK(redirect(&p, BYTES(0xeb, 0x0e, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, 0x0f,
				 0x1f, 0x40, 0x00, 0x48, 0x8d, 0x47, 0x01, 0xc3)));
	CHECK_EQ(call(41, 0), 42);
	/* what follows is code */
	CHECK(decode(&p, BYTES(0xeb, 0x0e, 0x48, 0x89, 0xf8, 0x90, 0xc3), &why) < 0);
}

static void test_call(void)
{
	struct patch p;

	/* call x; add rax, 2; ret: x must return into the function, not into the copy */
	CHECK(redirect(&p, BYTES(0xe8, REL32(0x200 - 5), 0x48, 0x83, 0xc0, 0x02, 0xc3)));
	/* mov rax, [rsp]; ret */
	memcpy(memory + 0x200, (const uint8_t[]){ 0x48, 0x8b, 0x04, 0x24, 0xc3 }, 5);
	CHECK_EQ((raddr_t)call(0, 0) - at(0), 5 + 2);
	/* sub rsp, 8; call [rip + x]; add rsp, 8; ret */
	CHECK(redirect(&p, BYTES(0x48, 0x83, 0xec, 0x08, 0xff, 0x15, REL32(DATA - 10), 0x48, 0x83,
				 0xc4, 0x08, 0xc3)));
	memcpy(memory + 0x200, (const uint8_t[]){ 0x48, 0x8b, 0x04, 0x24, 0xc3 }, 5);
	set_pointer(DATA, at(0x200));
	CHECK_EQ((raddr_t)call(0, 0) - at(0), 10);
}

static void test_jmp_through_memory(void)
{
	struct patch p;

	CHECK(redirect(&p, BYTES(0xff, 0x25, REL32(DATA - 6))));
	memcpy(memory + 0x200, (const uint8_t[]){ 0x48, 0x8d, 0x47, 0x01, 0xc3 }, 5);
	set_pointer(DATA, at(0x200));
	CHECK_EQ(call(41, 0), 42);
	/* the PLT's form: bnd jmp [rip + x] */
	CHECK(redirect(&p, BYTES(0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, REL32(DATA - 11), 0x0f,
				 0x1f, 0x44, 0, 0)));
	memcpy(memory + 0x200, (const uint8_t[]){ 0x48, 0x8d, 0x47, 0x01, 0xc3 }, 5);
	set_pointer(DATA, at(0x200));
	CHECK_EQ(call(41, 0), 42);
}

/* _dl_debug_state */
static void test_ret_and_padding(void)
{
	struct patch p;
	const char *why;

	CHECK(redirect(&p, BYTES(0xc3, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0)));
	CHECK_EQ(p.len, 1);
	CHECK_EQ(p.nbytes, 5);
	call(0, 0);
	CHECK(redirect(&p, BYTES(0xc3, 0x0f, 0x1f, 0x44, 0, 0)));
	CHECK(redirect(&p, BYTES(0xc3, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc)));
	CHECK(redirect(&p, BYTES(0xf3, 0x0f, 0x1e, 0xfa, 0xc3, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84,
				 0, 0, 0, 0, 0)));
	/* xor eax, eax; ret; then another function */
	CHECK(decode(&p, BYTES(0x31, 0xc0, 0xc3, 0x55, 0x53), &why) < 0);
	CHECK_STR(why, "it is shorter than 5 bytes");
}

static void test_system_call(void)
{
	struct patch p;

	/* mov eax, 39; syscall; ret: getpid */
	CHECK(redirect(&p, BYTES(0xb8, REL32(39), 0x0f, 0x05, 0xc3)));
	CHECK(call(0, 0) > 0);
	/* push 39; pop rax; syscall */
	CHECK(redirect(&p, BYTES(0x6a, 0x27, 0x58, 0x0f, 0x05, 0xc3)));
	CHECK(call(0, 0) > 0);
}

static void refused(const char *for_what, const void *bytes, size_t len)
{
	struct patch p;
	const char *why = NULL;

	CHECK(decode(&p, bytes, len, &why) < 0);
	CHECK_STR(why, for_what);
}

static void test_refused(void)
{
	static const char odd[] = "loop, jrcxz, xbegin or a far branch in its first bytes",
			  trap[] = "a breakpoint in its first bytes",
			  calls[] = "a call in its first bytes returns into them",
			  shorter[] = "it is shorter than 5 bytes";

	refused(odd, BYTES(0xe2, 0x02, 0x90, 0x90, 0x90, 0x90, 0xc3)); /* loop */
	refused(odd, BYTES(0xe3, 0x02, 0x90, 0x90, 0x90, 0x90, 0xc3)); /* jrcxz */
	refused(odd, BYTES(0x67, 0xe3, 0x02, 0x90, 0x90, 0x90, 0xc3)); /* jecxz */
	refused(odd, BYTES(0xe1, 0x02, 0x90, 0x90, 0x90, 0x90, 0xc3)); /* loope */
	refused(odd, BYTES(0xe0, 0x02, 0x90, 0x90, 0x90, 0x90, 0xc3)); /* loopne */
	refused(odd, BYTES(0xc7, 0xf8, 0x10, 0, 0, 0, 0xc3));	       /* xbegin */
	refused(odd, BYTES(0xff, 0x2f, 0x90, 0x90, 0x90, 0x90, 0xc3)); /* ljmp [rdi] */
	refused(trap, BYTES(0xcc, 0x48, 0x89, 0xe5, 0x90, 0x90, 0xc3));
	refused(trap, BYTES(0xcd, 0x80, 0x90, 0x90, 0x90, 0x90, 0xc3)); /* int 0x80 */
	refused(trap, BYTES(0xf1, 0x90, 0x90, 0x90, 0x90, 0x90, 0xc3)); /* int1 */
	refused("an address relative to eip", BYTES(0x67, 0x8b, 0x05, 0x10, 0, 0, 0, 0xc3));
	refused("a 16-bit branch", BYTES(0x66, 0xe9, 0x10, 0x00, 0x90, 0x90, 0xc3));
	refused(calls, BYTES(0x90, 0xff, 0xd0, 0x90, 0x90, 0x90, 0xc3)); /* call rax */
	refused(calls, BYTES(0xff, 0x50, 0x08, 0x90, 0x90, 0x90, 0xc3)); /* call [rax + 8] */
	refused("a branch into the middle of an instruction",
		BYTES(0x74, 0x01, 0xb8, 0x90, 0x90, 0x90, 0x90, 0xc3));
	refused("its first bytes are no instructions that are known",
		BYTES(0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e, 0x1f));
	refused(shorter, BYTES(0x90, 0xc3, 0x48, 0x89, 0xf8));
	/* mov eax, edi; mov ecx, 5: its last bytes are another function's */
	refused("it ends inside its first 5 bytes", BYTES(0x89, 0xf8, 0xb9, 0x05));
}

static void test_truncated(void)
{
	static const uint8_t bytes[] = { 0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8b,
					 0x05, 0x10, 0x20, 0x00, 0x00, 0xc3 };
	struct patch p;
	const char *why;

	for (size_t len = 0; len < 11; len++)
		CHECK(patch_decode(&p, 0x1000, bytes, len, 0, &why) < 0);
	CHECK_EQ(patch_decode(&p, 0x1000, bytes, 11, 0, &why), 0);
}

static void test_branch_into(void)
{
	/* mov eax, edi; [2] dec eax; jne 2; ret: a loop whose head is in the five bytes */
	static const uint8_t loop[] = { 0x89, 0xf8, 0xff, 0xc8, 0x75, 0xfc, 0xc3 };
	/* mov eax, 0x01f975; (75 f9 lies inside an immediate) ...: only looks like one */
	static const uint8_t looks[] = { 0x89, 0xf8, 0x90, 0x90, 0x90, 0xb9,
					 0x75, 0xf9, 0x01, 0x00, 0xc3 };
	/* the same loop, further down, by a near branch, to byte 3 */
	static const uint8_t near[] = { 0x89, 0xf8, 0x90, 0xff,		 0xc8,
					0x90, 0x0f, 0x85, REL32(3 - 12), 0xc3 };

	CHECK(patch_is_target(0x1000, loop + 0, sizeof(loop), 0x1000, 0x1004));
	CHECK(!patch_is_target(0x1000, loop, sizeof(loop), 0x1000, 0x1002));
	CHECK(!patch_is_target(0x1000, looks, sizeof(looks), 0x1000, 0x1005));
	CHECK(patch_is_target(0x1000, near, sizeof(near), 0x1000, 0x1005));
	/* to the entry itself: goes through the jump again, as a call would */
	CHECK(!patch_is_target(0x1000,
			       (const uint8_t[]){ 0x89, 0xf8, 0x90, 0x90, 0x90, 0x75, 0xf9, 0xc3 },
			       8, 0x1000, 0x1005));
}

static void test_only_callee(void)
{
	static const uint8_t one[] = { 0x75, 0x01, 0xc3, 0xe9, REL32(0x100) };
	static const uint8_t two[] = { 0xe8, REL32(0x200), 0xe9, REL32(0x100) };

	CHECK_EQ(patch_only_callee(0x1000, one, sizeof(one)), 0x1108);
	CHECK_EQ(patch_only_callee(0x1000, two, sizeof(two)), 0);
}

/*
 * A branch of KIND at AT to TARGET, as the last instruction of a body of nops. Returns its length.
 */
enum kind { JCC_SHORT, JMP_SHORT, LOOP, JRCXZ, CALL, JMP, JCC, KINDS };

static size_t branch_put(uint8_t *body, size_t at, enum kind kind, long target)
{
	static const uint8_t first[] = { 0x7f, 0xeb, 0xe0, 0xe3, 0xe8, 0xe9, 0x0f };
	size_t n = kind < CALL ? 2 : kind < JCC ? 5 : 6;
	int32_t d = (int32_t)(target - (long)(at + n));

	body[at] = first[kind];
	if (kind == JCC)
		body[at + 1] = 0x8f;
	if (kind < CALL)
		body[at + 1] = (uint8_t)d;
	else
		memcpy(body + at + n - 4, &d, 4);
	return at + n;
}

/* Into the bytes behind the first one, and nowhere else; also where the body ends with it. */
static void test_branch_borders(void)
{
	enum { LO = 10, HI = 15 };
	uint8_t body[64];

	for (enum kind k = 0; k < KINDS; k++)
		for (long target = LO - 3; target < HI + 3; target++)
			for (size_t at = HI; at < HI + 3; at++) {
				size_t size;

				memset(body, 0x90, sizeof(body));
				size = branch_put(body, at, k, target);
				for (size_t more = 0; more < 2; more++)
					CHECK_EQ(patch_is_target(0x1000, body, size + more,
								 0x1000 + LO, 0x1000 + HI),
						 target > LO && target < HI);
			}
	/* the same where the body has to be decoded, for what only looks like a branch into them */
	for (long target = LO - 3; target < HI + 3; target++) {
		memset(body, 0x90, sizeof(body));
		branch_put(body, 20, JMP_SHORT, target);
		memcpy(body + 30, (const uint8_t[]){ 0xb9, 0x75, LO + 2 - 33 },
		       3); /* mov ecx, .. */
		CHECK_EQ(patch_is_target(0x1000, body, 40, 0x1000 + LO, 0x1000 + HI),
			 target > LO && target < HI);
	}
	/* from within the bytes: whoever moves them has looked */
	memset(body, 0x90, sizeof(body));
	branch_put(body, LO + 1, JMP_SHORT, LO + 2);
	CHECK(!patch_is_target(0x1000, body, 30, 0x1000 + LO, 0x1000 + HI));
	/* from before them */
	branch_put(body, 2, JMP_SHORT, LO + 2);
	branch_put(body, 20, JMP_SHORT, 0);
	CHECK(!patch_is_target(0x1000, body, 30, 0x1000 + LO, 0x1000 + HI));
	/* behind what is no instruction, nobody can tell */
	memset(body, 0x90, sizeof(body));
	body[20] = 0x06;
	CHECK(!patch_is_target(0x1000, body, 40, 0x1000 + LO, 0x1000 + HI));
	branch_put(body, 30, JMP_SHORT, LO + 2);
	CHECK(patch_is_target(0x1000, body, 40, 0x1000 + LO, 0x1000 + HI));
}

/* The one outside; those within do not count, nor does what cannot be decoded. */
static void test_callee_borders(void)
{
	uint8_t body[40];

	for (long target = -2; target < 42; target++) {
		memset(body, 0x90, sizeof(body));
		branch_put(body, 20, CALL, target);
		CHECK_EQ(patch_only_callee(0x1000, body, sizeof(body)),
			 target < 0 || target >= 40 ? 0x1000 + target : 0);
	}
	branch_put(body, 20, CALL, 100);
	branch_put(body, 30, JMP, 100); /* the same again */
	CHECK_EQ(patch_only_callee(0x1000, body, sizeof(body)), 0x1000 + 100);
	body[0] = 0x06;
	CHECK_EQ(patch_only_callee(0x1000, body, sizeof(body)), 0);
}

/* As far as four bytes go, and not one further. */
static void test_distances(void)
{
	static const uint8_t jmp[] = { 0xe9, REL32(0x100) };
	const raddr_t at = 0x700000000000, most = INT32_MAX, least = 1ull << 31;
	uint8_t out[PATCH_JUMP];
	struct patch p;
	const char *why;
	int32_t d;

	CHECK_EQ(patch_jump(out, at, at + 5 + most), 0);
	memcpy(&d, out + 1, 4);
	CHECK(out[0] == 0xe9 && d == INT32_MAX);
	CHECK_EQ(patch_jump(out, at, at + 5 + most + 1), -34);
	CHECK_EQ(patch_jump(out, at, at + 5 - least), 0);
	memcpy(&d, out + 1, 4);
	CHECK_EQ(d, INT32_MIN);
	CHECK_EQ(patch_jump(out, at, at + 5 - least - 1), -34);

	CHECK_EQ(patch_decode(&p, at, jmp, sizeof(jmp), sizeof(jmp), &why), 0);
	CHECK_EQ(patch_place(&p, at + 0x100 - most), 0); /* the target is at + 0x105 */
	memcpy(&d, p.code + 1, 4);
	CHECK_EQ(d, INT32_MAX);
	CHECK_EQ(patch_place(&p, at + 0x100 - most - 1), -34);
	CHECK_EQ(patch_place(&p, at + 0x100 + least), 0);
	CHECK_EQ(patch_place(&p, at + 0x100 + least + 1), -34);

	p.check = 3;
	CHECK_EQ(patch_hook(&p, at, at + 3 + 7 + most), 0);
	memcpy(&d, p.code + 3 + 3, 4);
	CHECK_EQ(d, INT32_MAX);
	CHECK_EQ(patch_hook(&p, at, at + 3 + 7 + most + 1), -34);
	CHECK_EQ(patch_hook(&p, at, at + 3 + 7 - least), 0);
	CHECK_EQ(patch_hook(&p, at, at + 3 + 7 - least - 1), -34);
}

/* Nothing is read behind the bytes that are given: there may be no page. */
static void test_end_of_memory(void)
{
	static const uint8_t bytes[] = { 0xf3, 0x0f, 0x1e, 0xfa, 0x31, 0xc0, 0xc3,
					 0x00, 0x90, 0x48, 0x8b, 0x05, 0x10 };
	uint8_t *page =
		mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const char *why;
	struct patch p;

	CHECK(page != MAP_FAILED && !mprotect(page + 4096, 4096, PROT_NONE));
	for (size_t from = 0; from < sizeof(bytes); from++)
		for (size_t len = 0; from + len <= sizeof(bytes); len++) {
			uint8_t *b = page + 4096 - len;

			memcpy(b, bytes + from, len);
			/* xor eax, eax; ret; and two bytes of padding */
			int err = patch_decode(&p, 0x1000, b, len, 0, &why);
			if (from == 0 || from == 4)
				CHECK_EQ(err == 0, from + len >= 9);
			CHECK(patch_site(&p, 0x1000, 0x1000, b, len, 0x1000 + len, 0x1000 + len,
					 &why) < 0 ||
			      p.nbytes <= len);
			patch_is_target(0x1000, b, len, 0x1000, 0x1005);
			patch_only_callee(0x1000, b, len);
		}
	munmap(page, 8192);
}

/* ---- system calls that a module makes by itself -------------------------- */

#define HOOK 0x60000u /* a struct wire_hook, of which the first word says where to go */

/*
 * The call at SITE of the function BYTES goes by the hook, the instructions from FROM on being
 * moved. LENGTH: of the function.
 */
static bool redirect_site(struct patch *p, const void *bytes, size_t len, size_t from, size_t site,
			  const char **why)
{
	memset(memory, 0xcc, SPACE);
	memcpy(memory, bytes, len);
	if (patch_site(p, at(from), at(site), memory + from, PATCH_BYTES, at(len), at(len), why) <
	    0)
		return false;
	CHECK_EQ(p->entry, at(from));
	CHECK_EQ(p->call, p->check + PATCH_CHECK);
	CHECK(p->code[p->check + PATCH_STANDS] == 0xcc);
	CHECK(memcmp(p->code + p->call, "\x0f\x05", 2) == 0);
	if (patch_place(p, at(PLACE)) < 0 || patch_hook(p, at(PLACE), at(HOOK)) < 0 ||
	    patch_jump(memory + from, at(from), at(PLACE)) < 0)
		return false;
	memcpy(memory + PLACE, p->code, p->len);
	memset(memory + from + PATCH_JUMP, 0xcc, p->nbytes - PATCH_JUMP);
	/* the hook: mov eax, 110 (getppid), then to the call */
	memcpy(memory + HOOK + 64, (const uint8_t[]){ 0xb8, REL32(110), 0xe9 }, 6);
	set_pointer(HOOK, at(HOOK + 64));
	return patch_jump(memory + HOOK + 64 + 5, at(HOOK + 64 + 5), at(PLACE) + p->call) == 0;
}

static void test_site(void)
{
	/* mov eax, 39; [5] syscall; neg eax; nop; [10] lea eax, [rax + rdi]; ret */
	static const uint8_t f[] = { 0xb8, REL32(39), 0x0f, 0x05, 0xf7, 0xd8,
				     0x90, 0x8d,      0x04, 0x38, 0xc3 };
	struct patch p;
	const char *why = NULL;

	/* from the call on, and from the instruction before it */
	CHECK(redirect_site(&p, f, sizeof(f), 5, 5, &why));
	CHECK(p.nbytes == 5 && p.check == 0 && p.ninsn == 3);
	CHECK_EQ(call(7, 0), (long)(uint32_t)(7 - getppid()));
	CHECK(redirect_site(&p, f, sizeof(f), 0, 5, &why));
	CHECK(p.nbytes == 7 && p.check == 5 && p.ninsn == 2);
	CHECK_EQ(call(7, 0), (long)(uint32_t)(7 - getppid()));
	/* a site that is no instruction's beginning, or is not come to */
	CHECK(!redirect_site(&p, f, sizeof(f), 0, 6, &why));
	CHECK_STR(why, "the bytes around it are no instructions that are known");
	static const uint8_t early[] = { 0xc3, 0x90, 0x90, 0x90, 0x90, 0x0f, 0x05, 0xc3 };
	CHECK(!redirect_site(&p, early, sizeof(early), 0, 5, &why));
	/* the function ends with the bytes, and one before that */
	static const uint8_t shorter[] = { 0x0f, 0x05, 0xf7, 0xd8, 0xc3 };
	CHECK(redirect_site(&p, shorter, sizeof(shorter), 0, 0, &why));
	CHECK_EQ(call(7, 0), (long)(uint32_t)-getppid());
	CHECK(!redirect_site(&p, shorter, sizeof(shorter) - 1, 0, 0, &why));
	CHECK_STR(why, "a breakpoint in its first bytes");
	memory[4] = 0x90; /* not its own any more */
	CHECK(patch_site(&p, at(0), at(0), memory, PATCH_BYTES, at(4), at(4), &why) < 0);
	CHECK_STR(why, "the function ends behind it");
	/* it ends with a ret before five bytes: padding, up to the next function */
	memset(memory, 0xcc, SPACE);
	memcpy(memory, "\x0f\x05\xc3\xcc\xcc\x90", 6);
	CHECK_EQ(patch_site(&p, at(0), at(0), memory, PATCH_BYTES, at(3), at(5), &why), 0);
	CHECK_EQ(p.nbytes, 5);
	CHECK(patch_site(&p, at(0), at(0), memory, PATCH_BYTES, at(3), at(4), &why) < 0);
	CHECK(patch_site(&p, at(0), at(0), memory, PATCH_BYTES, at(2), at(5), &why) < 0);
	memory[4] = 0x53; /* which is no padding */
	CHECK(patch_site(&p, at(0), at(0), memory, PATCH_BYTES, at(3), at(5), &why) < 0);
	/* more instructions before it than are kept */
	memset(memory, 0x90, 32);
	memcpy(memory + 6, "\x0f\x05", 2);
	CHECK_EQ(patch_site(&p, at(0), at(6), memory, PATCH_BYTES, at(32), at(32), &why), 0);
	CHECK_EQ(p.ninsn, 7);
	memcpy(memory + 6, "\x90\x0f\x05", 3);
	CHECK(patch_site(&p, at(0), at(7), memory, PATCH_BYTES, at(32), at(32), &why) < 0);
	/* a branch to the call, from behind it: to the way to the hook */
	static const uint8_t again[] = { 0x0f, 0x05, 0x75, 0xfc, 0x90, 0xc3 };
	memcpy(memory, again, sizeof(again));
	CHECK_EQ(patch_site(&p, at(0), at(0), memory, PATCH_BYTES, at(6), at(6), &why), 0);
	CHECK(p.fixup[0].target >> 63 && (p.fixup[0].target & 0xff) == p.call);
	static const uint8_t into[] = { 0x0f, 0x05, 0x75, 0xfd, 0x90, 0xc3 };
	memcpy(memory, into, sizeof(into));
	CHECK(patch_site(&p, at(0), at(0), memory, PATCH_BYTES, at(6), at(6), &why) < 0);
	CHECK_STR(why, "a branch into the middle of an instruction");
}

/* Random bytes as functions: whatever is accepted stays within its bounds. */
static void test_random_bytes(void)
{
	uint64_t x = 88172645463325252ull;
	uint8_t bytes[PATCH_BYTES];
	unsigned taken = 0;

	for (int i = 0; i < 200000; i++) {
		struct patch p;
		const char *why = NULL;

		for (size_t k = 0; k < sizeof(bytes); k++) {
			test_random(&x);
			bytes[k] = (uint8_t)(x >> 24);
		}
		if (patch_decode(&p, 0x7f0000000000, bytes, sizeof(bytes), 0, &why) < 0) {
			CHECK(why != NULL);
			continue;
		}
		taken++;
		if (p.len > PATCH_CODE || p.nfixups > 8 || p.ninsn > 5 || p.nbytes < 5 ||
		    p.nbytes > 20 || patch_place(&p, 0x7f0000100000) > 0)
			CHECK(false);
	}
	CHECK(taken > 10000);
}

int main(void)
{
	if (!setup()) {
		SKIP(test_patch, "no memory may be writable and executable here");
		return 77;
	}
	RUN(test_plain);
	RUN(test_endbr64_stays);
	RUN(test_rip_operand);
	RUN(test_rip_operand_with_immediate);
	RUN(test_rip_operand_by_bytes);
	RUN(test_jcc_short);
	RUN(test_jcc_near);
	RUN(test_jcc_within_the_copy);
	RUN(test_lone_jmp);
	RUN(test_jmp_short);
	RUN(test_call);
	RUN(test_jmp_through_memory);
	RUN(test_ret_and_padding);
	RUN(test_system_call);
	RUN(test_refused);
	RUN(test_truncated);
	RUN(test_branch_into);
	RUN(test_only_callee);
	RUN(test_branch_borders);
	RUN(test_callee_borders);
	RUN(test_distances);
	RUN(test_end_of_memory);
	RUN(test_site);
	RUN(test_random_bytes);
	return test_status();
}
