// SPDX-License-Identifier: GPL-3.0-or-later
#include "patch/inline_syscall.h"

#include <elf.h>
#include <emmintrin.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "arch/insn.h"
#include "base/array.h"
#include "base/search.h"
#include "symbols/elf.h"

/*
 * inline_syscall.c - finds `syscall` instructions.
 *
 * All of a file's code is searched for the two bytes 0f 05, sixteen at a time: a compiler's 80 MB
 * take some ten milliseconds, and have a thousand such places that are the middle of something
 * else. So the function around each (by .eh_frame_hdr, or by symbol) is decoded from its start.
 * Each instruction is looked at for what it leaves in eax: most system calls have their number set
 * just before, and most numbers are none of ours.
 *
 * A jump takes five bytes, the instruction has two. It is replaced together with whole instructions
 * before or behind it; nothing may branch into the five bytes but to the first. The function's own
 * branches are known from decoding it. A branch from elsewhere (gcc puts rare code in another
 * section, and it comes back to any place), or by a table, is not: so a window is best whose first
 * instruction alone has five bytes, for nobody branches into an instruction. The other windows are
 * taken only where the tables of all the function's indirect jumps were found, and no relative
 * branch in the file's code leads there.
 *
 * What is found is kept for the next process that maps the same file. A large file is read by a
 * thread of its own, while the caller builds the file's unwind tables: it takes about as long.
 */

#define JUMP	      5u	 /* bytes of a jump */
#define CALL	      2u	 /* of a syscall instruction */
#define FUNCTION_MOST (1u << 20) /* bytes: a longer function is not decoded */
#define SEARCH_MOST   (8u << 20) /* bytes of code that are searched for branches */

struct sites {
	struct elf *elf; /* counted; NULL: free */
	struct inline_syscall *site;
	size_t count, room, dark;
	uint64_t used;
	pthread_t thread; /* if it is running */
	bool running;
	int error; /* of the thread */
};
#define KEPT 128u
static struct sites kept[KEPT];
static uint64_t kept_clock;

/* ---- candidates ---------------------------------------------------------- */

struct text {
	const uint8_t *bytes;
	size_t size;
	uint64_t vaddr;
};

/* The next 0f 05 at or behind AT; T's size: none. */
static size_t next_candidate(const struct text *t, size_t at)
{
	const __m128i first = _mm_set1_epi8(0x0f), second = _mm_set1_epi8(0x05);

	for (; at + 17 <= t->size; at += 16) {
		__m128i a = _mm_loadu_si128((const __m128i *)(const void *)(t->bytes + at));
		__m128i b = _mm_loadu_si128((const __m128i *)(const void *)(t->bytes + at + 1));
		unsigned hit = (unsigned)_mm_movemask_epi8(
			_mm_and_si128(_mm_cmpeq_epi8(a, first), _mm_cmpeq_epi8(b, second)));

		if (hit)
			return at + (unsigned)__builtin_ctz(hit);
	}
	for (; at + 1 < t->size; at++)
		if (t->bytes[at] == 0x0f && t->bytes[at + 1] == 0x05)
			return at;
	return t->size;
}

/* ---- functions ----------------------------------------------------------- */

/*
 * The sorted table of .eh_frame_hdr, in the encoding that linkers write: pairs of 32-bit distances
 * from the header.
 */
struct table {
	const uint8_t *entry;
	size_t count;
	uint64_t base;
	struct elf_bytes eh;
};

struct function {
	uint64_t start, end, next;
};

static int32_t read_i32(const uint8_t *p)
{
	int32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static void table_open(struct table *t, const struct elf *elf)
{
	struct elf_bytes hdr;

	memset(t, 0, sizeof(*t));
	if (!elf_eh_frame(elf, &t->eh, &hdr) || hdr.size < 12 || hdr.bytes[0] != 1 ||
	    hdr.bytes[2] != 0x03 || hdr.bytes[3] != 0x3b)
		return;
	/* the pointer to .eh_frame has four bytes in each encoding that is used with this table */
	t->count = (uint32_t)read_i32(hdr.bytes + 8);
	if (t->count > (hdr.size - 12) / 8)
		t->count = (hdr.size - 12) / 8;
	t->entry = hdr.bytes + 12;
	t->base = hdr.vaddr;
}

static uint64_t table_start(const struct table *t, size_t i)
{
	return t->base + (uint64_t)(int64_t)read_i32(t->entry + 8 * i);
}

/* What the FDE says of its length, if it is in the usual encoding; else up to the next one. */
static uint64_t fde_end(const struct table *t, size_t i, uint64_t start, uint64_t next)
{
	uint64_t at = t->base + (uint64_t)(int64_t)read_i32(t->entry + 8 * i + 4) - t->eh.vaddr;
	uint32_t length;

	if (at >= t->eh.size || t->eh.size - at < 16)
		return next;
	if (t->eh.vaddr + at + 8 + (uint64_t)(int64_t)read_i32(t->eh.bytes + at + 8) != start)
		return next;
	length = (uint32_t)read_i32(t->eh.bytes + at + 12);
	return length <= next - start ? start + length : next;
}

static bool function_by_table(const struct table *t, uint64_t vaddr, struct function *f)
{
	size_t next = SEARCH(i, t->count, table_start(t, i) <= vaddr);

	if (!next)
		return false;
	f->start = table_start(t, next - 1);
	f->next = next < t->count ? table_start(t, next) : f->start + FUNCTION_MOST;
	f->end = fde_end(t, next - 1, f->start, f->next);
	return vaddr < f->end;
}

/* For code without an entry there: the functions by symbol, sorted. Read when first asked for. */
#define SYMBOLS_MOST 300000u

struct symbols {
	struct function *f;
	size_t count, room;
	bool read;
};

static int by_start(const void *a, const void *b)
{
	const struct function *x = a, *y = b;

	return x->start != y->start ? (x->start < y->start ? -1 : 1)
	       : x->end < y->end    ? -1
				    : x->end > y->end;
}

static int symbols_read(struct symbols *symbols, const struct elf *elf)
{
	struct elf_symbol s;
	size_t cursor = 0;

	symbols->read = true;
	if (elf_symbols(elf) > SYMBOLS_MOST)
		return 0;
	while (elf_next_symbol(elf, &cursor, &s)) {
		if (!elf_is_function(&s))
			continue;
		if (array_room(&symbols->f, symbols->count, &symbols->room, sizeof(*symbols->f)))
			return -ENOMEM;
		symbols->f[symbols->count++] = (struct function){ s.value, s.value + s.size, 0 };
	}
	if (symbols->count)
		qsort(symbols->f, symbols->count, sizeof(*symbols->f), by_start);
	return 0;
}

static bool function_by_symbol(const struct symbols *symbols, uint64_t vaddr, struct function *f)
{
	size_t at = SEARCH(i, symbols->count, symbols->f[i].start <= vaddr);

	if (!at)
		return false;
	*f = symbols->f[at - 1];
	f->next = at < symbols->count ? symbols->f[at].start : f->start + FUNCTION_MOST;
	if (f->end == f->start || f->end > f->next)
		f->end = f->next;
	return vaddr < f->end;
}

/* ---- a function, decoded ------------------------------------------------- */

enum { STARTS = 1, TARGET = 2 }; /* what is known of a byte */

struct body {
	const uint8_t *bytes;
	size_t size;
	uint8_t *flag; /* one for each byte */
	/* jumps through a register or memory; tables of places in this function that were found */
	unsigned indirect, tables;
	size_t known; /* bytes that could be decoded */
};

static bool is_short_jump(const struct insn *i)
{
	return i->map == MAP_ONE &&
	       ((i->opcode & 0xf0) == 0x70 || i->opcode == 0xeb || (i->opcode & 0xfc) == 0xe0);
}

static bool is_near_jump(const struct insn *i)
{
	return (i->map == MAP_ONE && (i->opcode == 0xe9 || i->opcode == 0xe8)) ||
	       (i->map == MAP_0F && !i->vex && (i->opcode & 0xf0) == 0x80);
}

/* jmp through anything but a fixed place, which is where another object's function is. */
static bool is_table_jump(const struct insn *i)
{
	return i->map == MAP_ONE && i->opcode == 0xff && (i->reg & 7) == 4 &&
	       (i->mod == 3 || i->base != DECODE_RIP);
}

#define TABLE_MOST 4096u

/*
 * Marks what a table at VADDR, outside of the function at START, leads to: distances from the table
 * (`lea` gave its address), or addresses (a jump's own operand). A table is told by its first two
 * entries, and ends where an entry leads out of the function.
 */
static void read_table(struct body *b, const struct elf *elf, uint64_t start, uint64_t vaddr,
		       bool distances)
{
	size_t left = 0, width = distances ? 4 : 8, n = 0;
	const uint8_t *entry = vaddr - start < b->size ? NULL
						       : elf_at(elf, vaddr, 2 * width, &left);

	for (; entry && n < TABLE_MOST && (n + 1) * width <= left; n++) {
		uint64_t to = 0;

		memcpy(&to, entry + n * width, width);
		if (distances)
			to = vaddr + (uint64_t)(int64_t)(int32_t)to;
		if (to - start >= b->size)
			break;
		b->flag[to - start] |= TARGET;
	}
	b->tables += n >= 2;
}

/*
 * An instruction that refers to a table: lea r, [rip + x], or one with an operand of [index * 8 +
 * x].
 */
static void look_for_table(struct body *b, const struct elf *elf, uint64_t start,
			   const struct insn *i)
{
	if (i->map != MAP_ONE || i->vex)
		return;
	if (i->opcode == 0x8d && i->base == DECODE_RIP)
		read_table(b, elf, start, start + b->known + (uint64_t)(int64_t)i->disp, true);
	else if ((i->opcode == 0xff || i->opcode == 0x8b) && i->mod != 3 &&
		 i->base == DECODE_NO_REG && i->index != DECODE_NO_REG)
		read_table(b, elf, start, (uint64_t)(int64_t)i->disp, false);
}

/* Jumps that may lead anywhere in the function. */
static bool has_blind_jumps(const struct body *b) { return b->indirect > b->tables; }

static int body_decode(struct body *b, const struct elf *elf, uint64_t start, const uint8_t *bytes,
		       size_t size)
{
	struct insn i;

	*b = (struct body){ .bytes = bytes, .size = size, .flag = calloc(size + 1, 1) };
	if (!b->flag)
		return -ENOMEM;
	while (b->known < size && decode(bytes + b->known, size - b->known, &i)) {
		b->flag[b->known] |= STARTS;
		b->known += i.len;
		b->indirect += is_table_jump(&i);
		look_for_table(b, elf, start, &i);
		if (is_short_jump(&i) || is_near_jump(&i)) {
			uint64_t to = (uint64_t)b->known + (uint64_t)i.imm;

			if (to < size)
				b->flag[to] |= TARGET;
		}
	}
	return 0;
}

/* ---- the number ---------------------------------------------------------- */

static bool is_register(const struct insn *i, unsigned reg) { return i->mod == 3 && i->rm == reg; }

/*
 * Instructions of which it is certain that they leave eax alone. RM, REG: the operand that is
 * written.
 */
static bool keeps_eax_one(const struct insn *i)
{
	bool writes_rm = !is_register(i, 0), writes_reg = i->reg != 0;

	switch (i->opcode) {
	case 0x88:
	case 0x89:
	case 0xc6:
	case 0xc7:
	case 0x00:
	case 0x01:
	case 0x08:
	case 0x09:
	case 0x20:
	case 0x21:
	case 0x28:
	case 0x29:
	case 0x30:
	case 0x31:
	case 0xc0:
	case 0xc1:
	case 0xd0:
	case 0xd1:
	case 0xd2:
	case 0xd3: return writes_rm;
	case 0x80:
	case 0x81:
	case 0x83: return writes_rm || (i->reg & 7) == 7;
	case 0xf6:
	case 0xf7: return (i->reg & 7) <= 1 || ((i->reg & 7) <= 3 && writes_rm);
	case 0x02:
	case 0x03:
	case 0x0a:
	case 0x0b:
	case 0x22:
	case 0x23:
	case 0x2a:
	case 0x2b:
	case 0x32:
	case 0x33:
	case 0x63:
	case 0x8a:
	case 0x8b:
	case 0x8d: return writes_reg;
	case 0x38:
	case 0x39:
	case 0x3a:
	case 0x3b:
	case 0x3c:
	case 0x3d:
	case 0x84:
	case 0x85:
	case 0xa8:
	case 0xa9:
	case 0x68:
	case 0x6a:
	case 0x90: return true;
	default:
		/* push, jcc */
		return (i->opcode & 0xf8) == 0x50 || (i->opcode & 0xf0) == 0x70;
	}
}

static bool keeps_eax(const struct insn *i)
{
	if (i->vex)
		return false;
	if (i->map == MAP_0F)
		return i->opcode == 0x1f || i->opcode == 0x1e || (i->opcode & 0xf0) == 0x80 ||
		       ((i->opcode & 0xf0) == 0x10) || i->opcode == 0x28 || i->opcode == 0x29 ||
		       i->opcode == 0x6f || i->opcode == 0x7f || i->opcode == 0xef ||
		       i->opcode == 0x57 ||
		       (((i->opcode & 0xf0) == 0x40 || i->opcode == 0xb6 || i->opcode == 0xb7 ||
			 i->opcode == 0xbe || i->opcode == 0xbf) &&
			i->reg != 0);
	if (i->map != MAP_ONE)
		return false;
	return keeps_eax_one(i);
}

/*
 * What eax holds behind instruction I, if it held NUMBER before. *PUSHED: what a push of a constant
 * left on top of the stack.
 */
static int64_t number_behind(const struct insn *i, int64_t number, int64_t *pushed)
{
	int64_t top = *pushed;

	*pushed = INLINE_SYSCALL_UNKNOWN;
	if (i->vex || i->map != MAP_ONE)
		return keeps_eax(i) ? number : INLINE_SYSCALL_UNKNOWN;
	if ((i->opcode & 0xf8) == 0xb8)
		return i->rm ? number : (int64_t)(uint32_t)i->imm;
	if (i->opcode == 0xc7 && (i->reg & 7) == 0 && is_register(i, 0))
		return (int64_t)(uint32_t)i->imm;
	if ((i->opcode == 0x31 || i->opcode == 0x33) && is_register(i, 0) && i->reg == 0)
		return 0;
	if (i->opcode == 0x6a || i->opcode == 0x68) {
		*pushed = (int64_t)(uint32_t)i->imm;
		return number;
	}
	if ((i->opcode & 0xf8) == 0x58)
		return i->rm ? number : top;
	return keeps_eax(i) ? number : INLINE_SYSCALL_UNKNOWN;
}

static bool of_interest(int64_t number)
{
	switch (number) {
	case INLINE_SYSCALL_UNKNOWN:
	case SYS_mmap:
	case SYS_munmap:
	case SYS_mremap:
	case SYS_mprotect:
	case SYS_brk:
	case SYS_prctl:
	case SYS_ptrace:
	case SYS_seccomp: return true;
	default: return false;
	}
}

static int64_t number_at(const struct body *b, size_t at)
{
	int64_t number = INLINE_SYSCALL_UNKNOWN, pushed = INLINE_SYSCALL_UNKNOWN;
	struct insn i;

	for (size_t o = 0; o < at; o += i.len) {
		if (b->flag[o] & TARGET)
			number = pushed = INLINE_SYSCALL_UNKNOWN;
		if (!decode(b->bytes + o, b->size - o, &i))
			return INLINE_SYSCALL_UNKNOWN;
		number = number_behind(&i, number, &pushed);
	}
	return b->flag[at] & TARGET ? INLINE_SYSCALL_UNKNOWN : number;
}

/* ---- windows ------------------------------------------------------------- */

/*
 * What may run before the call in our copy: it moves data between registers, and leaves the stack
 * pointer alone.
 */
static bool may_precede(const struct insn *i)
{
	if (i->map != MAP_ONE || i->vex || i->prefix || i->base == DECODE_RIP)
		return false;
	switch (i->opcode) {
	case 0x89:
	case 0x31:
	case 0x01:
	case 0x29:
	case 0x21:
	case 0x09: return i->mod == 3 && i->rm != 4;
	case 0x8b:
	case 0x33:
	case 0x8d:
	case 0x63:
	case 0x03:
	case 0x2b: return i->reg != 4;
	case 0xc7: return i->mod == 3 && (i->reg & 7) == 0 && i->rm != 4;
	default: return (i->opcode & 0xf8) == 0xb8 && i->rm != 4;
	}
}

static bool is_inner_target(const struct body *b, size_t from)
{
	for (size_t o = from + 1; o < from + JUMP && o < b->size; o++)
		if (b->flag[o] & TARGET)
			return true;
	return false;
}

struct window {
	size_t at;
	bool whole; /* its first instruction has five bytes or more */
};

#define BEFORE_MOST  5 /* instructions before the call */
#define BEFORE_BYTES 26

/* The places before the call at AT, the nearest first, and the call itself. */
static unsigned windows(const struct body *b, size_t at, struct window w[BEFORE_MOST + 1])
{
	unsigned n = 0;
	struct insn i;

	for (size_t o = at; o-- > 0 && at - o <= BEFORE_BYTES && n < BEFORE_MOST;) {
		if (!(b->flag[o] & STARTS))
			continue;
		if (!decode(b->bytes + o, b->size - o, &i) || !may_precede(&i))
			break;
		w[n++] = (struct window){ o, i.len >= JUMP };
		if (b->flag[o] & TARGET)
			break;
	}
	w[n++] = (struct window){ at, false };
	return n;
}

/*
 * Windows that are safe as far as the function tells; those that begin with a whole instruction of
 * five bytes first, and not marked FAR.
 */
static void choose_windows(struct inline_syscall *s, const struct body *b)
{
	struct window w[BEFORE_MOST + 1];
	size_t at = (size_t)(s->vaddr - s->start);
	unsigned n = windows(b, at, w);

	s->why = "something branches into the bytes around it, or may do so";
	for (unsigned pass = 0; pass < 2; pass++)
		for (unsigned k = 0; k < n && s->nwindows < INLINE_SYSCALL_WINDOWS; k++) {
			/* some calls would pass by */
			bool aside = w[k].at < at && (b->flag[at] & TARGET);

			if (w[k].whole != !pass || aside || is_inner_target(b, w[k].at) ||
			    (!w[k].whole && has_blind_jumps(b)))
				continue;
			s->nwhole += w[k].whole;
			s->window[s->nwindows++] = s->start + w[k].at;
		}
}

/* ---- branches from elsewhere --------------------------------------------- */

#define BLOCK 16u /* bytes that share a bit */

struct afar {
	uint64_t lo, hi; /* all windows */
	uint8_t *bit;
	struct inline_syscall *site;
	size_t count;
};

static void afar_mark(struct afar *a, uint64_t vaddr)
{
	size_t k = (size_t)(vaddr - a->lo) / BLOCK;

	a->bit[k / 8] |= (uint8_t)(1u << k % 8);
}

/* Something leads to VADDR: windows into which that is are none. */
static void afar_hit(struct afar *a, uint64_t vaddr)
{
	for (size_t i = 0; i < a->count; i++) {
		struct inline_syscall *s = &a->site[i];
		unsigned n = s->nwhole;

		for (unsigned k = s->nwhole; k < s->nwindows; k++)
			if (vaddr - (s->window[k] + 1) >= JUMP - 1)
				s->window[n++] = s->window[k];
		s->nwindows = n;
	}
}

static void afar_search(struct afar *a, const struct text *t)
{
	for (size_t o = 1; o + 4 <= t->size; o++) {
		uint64_t to = t->vaddr + o + 4 + (uint64_t)(int64_t)read_i32(t->bytes + o);
		size_t k = (size_t)(to - a->lo) / BLOCK;
		uint8_t before = t->bytes[o - 1];

		if (to - a->lo >= a->hi - a->lo || !(a->bit[k / 8] >> k % 8 & 1))
			continue;
		if (before == 0xe9 || before == 0xe8 || (before & 0xf0) == 0x80)
			afar_hit(a, to);
	}
}

/*
 * Takes out windows into which a 32-bit distance in the file's code leads from where it is. Where
 * there is too much code, all that could be such.
 */
static int check_afar(struct sites *s, const struct text *text, size_t ntexts)
{
	struct afar a = { .lo = UINT64_MAX, .site = s->site, .count = s->count };
	size_t bytes = 0;

	for (size_t i = 0; i < s->count; i++)
		for (unsigned k = s->site[i].nwhole; k < s->site[i].nwindows; k++) {
			uint64_t at = s->site[i].window[k];

			a.lo = at < a.lo ? at : a.lo;
			a.hi = at + JUMP > a.hi ? at + JUMP : a.hi;
		}
	if (a.lo >= a.hi)
		return 0;
	for (size_t k = 0; k < ntexts; k++)
		bytes += text[k].size;
	if (bytes <= SEARCH_MOST && a.hi - a.lo <= SEARCH_MOST) {
		a.bit = calloc((size_t)(a.hi - a.lo) / BLOCK / 8 + 1, 1);
		if (!a.bit)
			return -ENOMEM;
	}
	for (size_t i = 0; i < s->count; i++) {
		for (unsigned k = s->site[i].nwhole; a.bit && k < s->site[i].nwindows; k++)
			for (unsigned o = 0; o < JUMP; o++)
				afar_mark(&a, s->site[i].window[k] + o);
		if (!a.bit)
			s->site[i].nwindows = s->site[i].nwhole;
	}
	for (size_t k = 0; a.bit && k < ntexts; k++)
		afar_search(&a, &text[k]);
	free(a.bit);
	return 0;
}

/* ---- a file -------------------------------------------------------------- */

static int add_site(struct sites *s, const struct inline_syscall *site)
{
	if (array_room(&s->site, s->count, &s->room, sizeof(*s->site)))
		return -ENOMEM;
	s->site[s->count++] = *site;
	return 0;
}

/* All candidates from AT on that are in function F, whose body is B. *AT goes on behind it. */
static int look_at_function(struct sites *s, const struct function *f, const struct body *b,
			    const struct text *t, size_t *at)
{
	int err = 0;

	for (; !err && *at < t->size && t->vaddr + *at < f->end; *at = next_candidate(t, *at + 1)) {
		size_t o = (size_t)(t->vaddr + *at - f->start);
		struct inline_syscall site = {
			.vaddr = t->vaddr + *at, .start = f->start, .end = f->end, .next = f->next
		};
		struct insn i;

		if (o >= b->known)
			s->dark++;
		if (o >= b->known || !(b->flag[o] & STARTS) ||
		    !decode(b->bytes + o, b->size - o, &i) || i.len != CALL)
			continue;
		site.number = number_at(b, o);
		if (!of_interest(site.number))
			continue;
		choose_windows(&site, b);
		err = add_site(s, &site);
	}
	return err;
}

/*
 * Whether some way of decoding the bytes before O has an instruction begin there. Of 15
 * neighbouring places one is where an instruction begins (or it is the function's first), and ways
 * soon become one. So most of what is the middle of something is seen quickly.
 */
#define LEAD 40u

static bool may_begin(const struct text *t, uint64_t function, size_t o)
{
	size_t from = o > LEAD ? o - LEAD : 0, starts = 15;
	bool seen[LEAD + 1] = { false };
	struct insn i;

	if (t->vaddr + from <= function) {
		from = (size_t)(function - t->vaddr);
		starts = 1;
	}
	for (size_t k = 0; k < starts; k++)
		for (size_t at = from + k; at <= o && !seen[at - from]; at += i.len) {
			seen[at - from] = true;
			if (at == o || !decode(t->bytes + at, t->size - at, &i))
				break;
		}
	return o - from <= LEAD && seen[o - from];
}

struct source { /* of what functions there are */
	const struct elf *elf;
	struct table table;
	struct symbols symbols;
};

/* The function that VADDR, in T, is in, if it can be decoded as a whole. */
static bool function_at(struct source *from, const struct text *t, uint64_t vaddr,
			struct function *f)
{
	if (!function_by_table(&from->table, vaddr, f)) {
		if (!from->symbols.read && symbols_read(&from->symbols, from->elf) < 0)
			return false;
		if (!function_by_symbol(&from->symbols, vaddr, f))
			return false;
	}
	return f->start >= t->vaddr && f->end - t->vaddr <= t->size &&
	       f->end - f->start <= FUNCTION_MOST;
}

static int search(struct sites *s, struct source *from, const struct text *t)
{
	size_t at = next_candidate(t, 0);
	int err = 0;

	while (!err && at < t->size) {
		struct function f;
		struct body b;

		if (!function_at(from, t, t->vaddr + at, &f)) {
			s->dark++;
			at = next_candidate(t, at + 1);
			continue;
		}
		if (!may_begin(t, f.start, at)) {
			at = next_candidate(t, at + 1);
			continue;
		}
		err = body_decode(&b, from->elf, f.start, t->bytes + (f.start - t->vaddr),
				  (size_t)(f.end - f.start));
		if (!err)
			err = look_at_function(s, &f, &b, t, &at);
		free(b.flag);
	}
	return err;
}

#define TEXTS 16

static size_t add_text(struct text *text, size_t n, const struct elf *elf, uint64_t vaddr,
		       uint64_t size)
{
	const uint8_t *bytes = n < TEXTS && size ? elf_at(elf, vaddr, size, NULL) : NULL;

	if (!bytes)
		return n;
	text[n] = (struct text){ bytes, size, vaddr };
	return n + 1;
}

/*
 * The sections with code. A file without sections is taken by segments, which may have constants
 * and tables in them.
 */
static size_t find_texts(struct text *text, const struct elf *elf)
{
	const struct elf_segment *segment;
	const struct elf_section *section;
	size_t count = elf_sections(elf, &section), n = 0;

	for (size_t i = 0; i < count; i++)
		if (section[i].flags & SHF_ALLOC && section[i].flags & SHF_EXECINSTR &&
		    section[i].type == SHT_PROGBITS)
			n = add_text(text, n, elf, section[i].addr, section[i].size);
	if (n)
		return n;
	count = elf_segments(elf, &segment);
	for (size_t i = 0; i < count; i++)
		if (segment[i].type == PT_LOAD && segment[i].flags & PF_X)
			n = add_text(text, n, elf, segment[i].vaddr, segment[i].filesz);
	return n;
}

static int find(struct sites *s, const struct elf *elf)
{
	struct source from = { .elf = elf };
	struct text text[TEXTS];
	size_t ntexts = find_texts(text, elf);
	int err = 0;

	table_open(&from.table, elf);
	for (size_t i = 0; i < ntexts && !err; i++)
		err = search(s, &from, &text[i]);
	if (!err)
		err = check_afar(s, text, ntexts);
	free(from.symbols.f);
	return err;
}

/* ---- kept ---------------------------------------------------------------- */

static void await(struct sites *s)
{
	if (s->running)
		pthread_join(s->thread, NULL);
	s->running = false;
}

static void sites_release(struct sites *s)
{
	await(s);
	if (s->elf)
		elf_unref(s->elf);
	free(s->site);
	*s = (struct sites){ .elf = NULL };
}

void inline_syscall_forget(void)
{
	for (size_t i = 0; i < KEPT; i++)
		sites_release(&kept[i]);
}

static struct sites *known(const struct elf *elf)
{
	for (size_t i = 0; i < KEPT; i++)
		if (kept[i].elf == elf) {
			kept[i].used = ++kept_clock;
			return &kept[i];
		}
	return NULL;
}

static struct sites *place(struct elf *elf)
{
	struct sites *oldest = &kept[0];

	for (size_t i = 0; i < KEPT; i++) {
		if (!kept[i].elf) {
			oldest = &kept[i];
			break;
		}
		if (kept[i].used < oldest->used)
			oldest = &kept[i];
	}
	sites_release(oldest);
	oldest->elf = elf_ref(elf);
	oldest->used = ++kept_clock;
	return oldest;
}

#define LARGE (2u << 20) /* bytes of a file: half a millisecond */

static void *run(void *arg)
{
	struct sites *s = arg;

	s->error = find(s, s->elf);
	return NULL;
}

void inline_syscall_begin(struct elf *elf)
{
	struct sites *s;
	sigset_t all, was;
	size_t size;

	elf_file(elf, &size);
	if (size < LARGE || known(elf))
		return;
	s = place(elf);
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	s->running = pthread_create(&s->thread, NULL, run, s) == 0;
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	if (!s->running)
		run(s);
}

int inline_syscall_find(struct elf *elf, const struct inline_syscall **site, size_t *count,
			size_t *dark)
{
	struct sites *s = known(elf);

	if (!s) {
		s = place(elf);
		run(s);
	}
	await(s);
	if (s->error) {
		int err = s->error;

		sites_release(s);
		return err;
	}
	*site = s->site;
	*count = s->count;
	*dark = s->dark;
	return 0;
}
