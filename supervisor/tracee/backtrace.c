// SPDX-License-Identifier: GPL-3.0-or-later
#include "tracee/backtrace.h"

#include <errno.h>
#include <libunwind.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/patient.h"
#include "base/proc.h"
#include "patch/plant.h"
#include "process/process.h"
#include "symbols/elf.h"
#include "symbols/module.h"
#include "unwind/callframe.h"
#include "unwind/cfi.h"
#include "unwind/image.h"

/*
 * backtrace.c - stacks of stopped threads: libunwind's DWARF interpreter over accessors of ours.
 *
 * libunwind asks for three things. Registers: those of the stop, from the caller. Memory: from the
 * process, page by page, cached for one stack. And the unwind information of a pc: we know which
 * module it is in and keep, for each file, a sorted table of its FDEs; libunwind searches that
 * table and reads the FDE itself. So it needs neither .eh_frame_hdr (many static programs and
 * musl's have none) nor symbols nor the file system, and what it computes from an FDE is
 * independent of callframe.c: tests compare the two.
 *
 * Some code has no FDE of its own: moved instructions in an island of ours (whose rule is that of
 * the place they were moved from), and code without call frame information, whose rules were
 * derived from its instructions (cfi_synthesize.c). For such a pc we write an FDE that says the
 * same as the rule. It lies, like the tables, in a range of addresses that no process has; the
 * memory accessor serves it.
 *
 * Where nothing is known the stack ends; libunwind's guess that rbp is a frame pointer is not
 * taken.
 */

/* Exported by libunwind for accessors such as ours, but in no header of it. */
#define search_unwind_table UNW_OBJ(dwarf_search_unwind_table)
extern int search_unwind_table(unw_addr_space_t as, unw_word_t ip, unw_dyn_info_t *di,
			       unw_proc_info_t *pi, int need_unwind_info, void *arg);

/* where the table of the file in use seems to be: not an address on any machine */
#define FAKE_TABLE 0xdead000000000000ull
/* an FDE of ours, with a table of its own in front */
#define FAKE_ENTRY 0xdead800000000000ull
#define PAGES	   32u
#define FILES	   64u

struct table_entry {	    /* as in .eh_frame_hdr */
	int32_t start, fde; /* both relative to the module's text */
};

/* What is kept of a file: its FDEs in order, and the table that libunwind searches. */
struct unwind_file {
	struct elf *elf; /* a reference of ours; NULL: the entry is free */
	uint64_t lo, hi; /* its code, virtual addresses */
	struct callframe_list frames;
	struct elf_bytes section;
	struct table_entry *table;
	struct cfi *rules; /* made when code without FDE is met */
	struct wire_module module;
	uint64_t used; /* when last, for eviction */
};

struct unwinding {
	const struct process *process;
	const struct unwind_memory *memory; /* NULL: the process' own */
	const struct user_regs_struct *regs;
	const struct unwind_file *file; /* whose table is at FAKE_TABLE */
	uint64_t bias;			/* of that file's module */
	uint8_t entry[512];		/* at FAKE_ENTRY */
	size_t entry_size;
	struct page {
		uint64_t addr;
		size_t len; /* 0: free or unreadable */
		uint8_t bytes[PAGE];
	} page[PAGES];
};

static struct unwind_file files[FILES];
static uint64_t files_clock;

/* ---- files --------------------------------------------------------------- */

static void rules_free(struct cfi *rules)
{
	if (!rules)
		return;
	munmap(rules->tables, sizeof(*rules->tables));
	cfi_release(rules);
	free(rules);
}

static void file_release(struct unwind_file *f)
{
	if (!f->elf)
		return;
	callframe_release(&f->frames);
	rules_free(f->rules);
	free(f->table);
	elf_unref(f->elf);
	memset(f, 0, sizeof(*f));
}

void backtrace_release(void)
{
	for (size_t i = 0; i < FILES; i++)
		file_release(&files[i]);
}

static int file_read(struct unwind_file *f, struct elf *elf, uint64_t lo, uint64_t hi)
{
	struct elf_bytes hdr;
	struct callframe_source source = { .size = 0 };
	int rc;

	*f = (struct unwind_file){ .lo = lo, .hi = hi };
	if (elf_eh_frame(elf, &f->section, &hdr))
		source = (struct callframe_source){ .data = f->section.bytes,
						    .size = f->section.size,
						    .vaddr = f->section.vaddr };
	else
		f->section.size = 0;
	rc = callframe_scan(&f->frames, &source, lo, hi);
	if (rc)
		return rc;
	f->table = calloc(f->frames.count + 1, sizeof(*f->table));
	if (!f->table) {
		callframe_release(&f->frames);
		return -ENOMEM;
	}
	for (size_t i = 0; i < f->frames.count; i++) {
		f->table[i].start = (int32_t)f->frames.frame[i].start;
		f->table[i].fde = (int32_t)(f->section.vaddr - lo + f->frames.frame[i].fde);
	}
	f->elf = elf_ref(elf);
	return 0;
}

static struct unwind_file *file_of(struct elf *elf, uint64_t lo, uint64_t hi)
{
	struct unwind_file *oldest = &files[0];

	for (size_t i = 0; i < FILES; i++) {
		if (files[i].elf == elf && files[i].lo == lo && files[i].hi == hi) {
			files[i].used = ++files_clock;
			return &files[i];
		}
		if (files[i].used < oldest->used)
			oldest = &files[i];
	}
	file_release(oldest);
	if (file_read(oldest, elf, lo, hi))
		return NULL;
	oldest->used = ++files_clock;
	return oldest;
}

static bool in_blob(const struct process *p, raddr_t pc)
{
	return p->agent && pc >= p->agent + AGENT_BLOB && pc < p->agent + AGENT_JOURNAL;
}

/* The file that PC is in, and its relocation. NULL: none that we know. */
static struct unwind_file *file_at(const struct process *p, raddr_t pc, uint64_t *bias)
{
	const struct module *m;

	if (in_blob(p, pc)) {
		*bias = p->agent + AGENT_BLOB;
		return blob_elf() ? file_of(blob_elf(), 0, AGENT_JOURNAL - AGENT_BLOB) : NULL;
	}
	m = modules_find(&p->modules, pc, UINT32_MAX);
	if (!m || pc < m->text_start || pc >= m->text_end)
		return NULL;
	*bias = m->bias;
	return file_of(m->elf, m->text_start - m->bias, m->text_end - m->bias);
}

/* The rule at OFFSET for code that has no FDE. */
static const struct wire_rule *synthesized_rule(struct unwind_file *f, uint32_t offset)
{
	if (!f->rules) {
		struct cfi *rules = calloc(1, sizeof(*rules));
		struct wire_tables *tables = mmap(NULL, sizeof(*tables), PROT_READ | PROT_WRITE,
						  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
						  0);

		if (!rules || tables == MAP_FAILED || cfi_init(rules, tables, WIRE_POOL)) {
			free(rules);
			if (tables != MAP_FAILED)
				munmap(tables, sizeof(*tables));
			return NULL;
		}
		f->rules = rules;
		if (cfi_build_elf(rules, f->elf, f->lo, f->hi, 0, &f->module))
			f->module = (struct wire_module){ .nrows = 0 };
	}
	return f->module.nrows ? cfi_lookup(f->rules, &f->module, f->lo + offset) : NULL;
}

/* ---- an FDE of ours ------------------------------------------------------ */

struct writer {
	uint8_t *p, *end;
};

static void put(struct writer *w, uint64_t v, size_t bytes)
{
	if ((size_t)(w->end - w->p) < bytes)
		return;
	memcpy(w->p, &v, bytes);
	w->p += bytes;
}

static void put_sleb(struct writer *w, int64_t v)
{
	for (;;) {
		uint8_t byte = v & 0x7f;

		v >>= 7;
		if ((v == 0 && !(byte & 0x40)) || (v == -1 && byte & 0x40)) {
			put(w, byte, 1);
			return;
		}
		put(w, byte | 0x80, 1);
	}
}

/* Returns where the expression's length belongs, one byte, which is written afterwards. */
static uint8_t *put_expression(struct writer *w, unsigned dwarf, int64_t offset)
{
	uint8_t *len = w->p;

	put(w, 0, 1);
	put(w, 0x70 + dwarf, 1);
	put_sleb(w, offset);
	return len;
}

static void end_expression(struct writer *w, uint8_t *len) { *len = (uint8_t)(w->p - len - 1); }

static const uint8_t dwarf_reg[WIRE_REGS] = { 6, 3, 12, 13, 14, 15 };

static void put_cfa(struct writer *w, const struct wire_rule *r)
{
	static const uint8_t plt[] = { 0x80, 0x00, 0x3f, 0x1a },
			     plt_end[] = { 0x2a, 0x33, 0x24, 0x22 };
	/* gregs' index -> DWARF's number */
	static const uint8_t scratch[] = { 8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2 };
	unsigned dwarf = 7;
	uint8_t *len;

	if (r->cfa == CFA_RBP || r->cfa == CFA_FRAME || r->cfa == CFA_RBP_DEREF)
		dwarf = 6;
	else if ((r->cfa == CFA_REG || r->cfa == CFA_REG_DEREF) && r->reg < WIRE_REGS)
		dwarf = dwarf_reg[r->reg];
	else if (r->cfa == CFA_SCRATCH && r->reg < sizeof(scratch))
		dwarf = scratch[r->reg];
	put(w, 0x0f, 1);
	len = put_expression(w, dwarf, r->cfa_off);
	if (r->cfa == CFA_RBP_DEREF || r->cfa == CFA_RSP_DEREF || r->cfa == CFA_REG_DEREF) {
		put(w, 0x06, 1);
		put(w, 0x11, 1); /* consts deref; plus */
		put_sleb(w, r->deref);
		put(w, 0x22, 1);
	} else if (r->cfa == CFA_PLT) {
		for (size_t i = 0; i < sizeof(plt); i++)
			put(w, plt[i], 1);
		put(w, 0x30 + (r->reg & 15u), 1);
		for (size_t i = 0; i < sizeof(plt_end); i++)
			put(w, plt_end[i], 1);
	}
	end_expression(w, len);
}

static void put_saved(struct writer *w, unsigned dwarf, unsigned base, int64_t offset)
{
	uint8_t *len;

	put(w, 0x10, 1);
	put_sleb(w, dwarf);
	len = put_expression(w, base, offset);
	end_expression(w, len);
}

static void put_rule(struct writer *w, const struct wire_rule *r)
{
	/* DWARF's number -> gregs' index */
	static const uint8_t greg[] = { 13, 12, 14, 11, 9, 8, 10, 15, 0, 1, 2, 3, 4, 5, 6, 7, 16 };

	if (r->cfa == CFA_END) {
		put(w, 0x07, 1);
		put(w, 16, 1);
		return;
	}
	if (r->cfa == CFA_SIGNAL) {
		struct wire_rule top = { .cfa = CFA_RSP_DEREF, .cfa_off = 160 };

		put_cfa(w, &top);
		for (unsigned i = 0; i < sizeof(greg); i++)
			put_saved(w, i, 7, 40 + 8 * greg[i]);
		return;
	}
	put_cfa(w, r);
	for (unsigned i = 0; i < WIRE_REGS; i++) {
		if (r->off[i] == RULE_SAME)
			continue;
		if (r->off[i] == RULE_LOST) {
			put(w, 0x07, 1);
			put(w, dwarf_reg[i], 1);
		} else if (r->from_rbp & 1u << i)
			put_saved(w, dwarf_reg[i], 6, r->off[i] * 8);
		else {
			/* offset_extended_sf, in units of -8 */
			put(w, 0x11, 1);
			put(w, dwarf_reg[i], 1);
			put_sleb(w, -r->off[i]);
		}
	}
}

/*
 * At FAKE_ENTRY: a table of one entry (8 bytes), a CIE, an FDE for the one byte at IP that says
 * what RULE says.
 */
enum { CIE_AT = 8 };
static void write_entry(struct unwinding *u, uint64_t ip, const struct wire_rule *rule)
{
	/* factors 1 and -8; RA 16; absolute; cfa rsp+8; RA at -8 */
	static const uint8_t start[] = { 1, 0x78, 16, 1, 0x00, 0x0c, 7, 8, 0x90, 1 };
	struct writer w = { .p = u->entry + CIE_AT, .end = u->entry + sizeof(u->entry) - 8 };
	uint8_t *cie = w.p, *fde;
	struct table_entry one;

	put(&w, 0, 4);
	put(&w, 0, 4);
	put(&w, 1, 1);
	for (const char *aug = rule->cfa == CFA_SIGNAL ? "zRS" : "zR"; *aug; aug++)
		put(&w, (uint8_t)*aug, 1);
	put(&w, 0, 1);
	for (size_t i = 0; i < sizeof(start); i++)
		put(&w, start[i], 1);
	while ((w.p - cie) % 8)
		put(&w, 0, 1);
	memcpy(cie, &(uint32_t){ (uint32_t)(w.p - cie - 4) }, 4);
	fde = w.p;
	put(&w, 0, 4);
	put(&w, (uint64_t)(w.p - cie), 4);
	put(&w, ip, 8);
	put(&w, 1, 8);
	put(&w, 0, 1);
	put_rule(&w, rule);
	while ((w.p - fde) % 8)
		put(&w, 0, 1);
	memcpy(fde, &(uint32_t){ (uint32_t)(w.p - fde - 4) }, 4);
	one = (struct table_entry){ .start = 0, .fde = (int32_t)(fde - u->entry) };
	memcpy(u->entry, &one, sizeof(one));
	memset(w.p, 0, 8);
	u->entry_size = (size_t)(w.p - u->entry) + 8;
}

/* ---- what libunwind asks ------------------------------------------------- */

/*
 * A search in a table of one whose segment base is FAKE_ENTRY: the FDE is found relative to it. The
 * table's start is relative to it as well, and an offset has 32 bits only, hence the two steps: the
 * entry's start is 0 and IP is given as the base.
 */
static int find_synthetic(struct unwinding *u, unw_addr_space_t as, unw_word_t ip,
			  unw_proc_info_t *pi, int need, const struct wire_rule *rule)
{
	unw_dyn_info_t di = {
		.start_ip = 0,
		.end_ip = UINT64_MAX,
		.format = UNW_INFO_FORMAT_IP_OFFSET,
		.u.rti = { .segbase = FAKE_ENTRY, .table_len = 1, .table_data = FAKE_ENTRY },
	};

	if (!rule || rule->cfa == CFA_NONE)
		return -UNW_ESTOPUNWIND;
	write_entry(u, ip, rule);
	di.start_ip = ip;
	return search_unwind_table(as, ip, &di, pi, need, u);
}

static int find_proc_info(unw_addr_space_t as, unw_word_t ip, unw_proc_info_t *pi, int need,
			  void *arg)
{
	struct unwinding *u = arg;
	static const struct wire_rule outermost = { .cfa = CFA_END };
	raddr_t original = in_blob(u->process, ip) ? 0 : plant_original_pc(&u->process->plant, ip);
	uint64_t bias;
	struct unwind_file *f = file_at(u->process, original ? original : ip, &bias);
	uint32_t offset;
	ssize_t frame;
	unw_dyn_info_t di = { .format = UNW_INFO_FORMAT_REMOTE_TABLE };

	if (!f)
		return -UNW_ESTOPUNWIND;
	offset = (uint32_t)((original ? original : ip) - bias - f->lo);
	frame = callframe_find(&f->frames, offset);
	if (original && frame >= 0) {
		struct wire_rule rule = callframe_rule(&f->frames, (size_t)frame, offset);

		if (plant_stands(&u->process->plant, ip))
			rule = image_below_red_zone(rule);
		return find_synthetic(u, as, ip, pi, need, &rule);
	}
	if (frame < 0)
		return find_synthetic(u, as, ip, pi, need, synthesized_rule(f, offset));
	if (f->lo + f->frames.frame[frame].start == elf_entry(f->elf))
		return find_synthetic(u, as, ip, pi, need, &outermost);
	u->file = f;
	u->bias = bias;
	di.start_ip = bias + f->lo;
	di.end_ip = bias + f->hi;
	di.u.rti.segbase = bias + f->lo;
	di.u.rti.table_len = f->frames.count;
	di.u.rti.table_data = FAKE_TABLE;
	return search_unwind_table(as, ip, &di, pi, need, u);
}

static void put_unwind_info(unw_addr_space_t as, unw_proc_info_t *pi, void *arg)
{
	(void)as, (void)pi, (void)arg;
}

static int no_dyn_info(unw_addr_space_t as, unw_word_t *list, void *arg)
{
	(void)as, (void)list, (void)arg;
	return -UNW_ENOINFO;
}

static bool read_from(const uint8_t *bytes, size_t size, uint64_t offset, unw_word_t *value)
{
	*value = 0;
	if (offset >= size)
		return false;
	memcpy(value, bytes + offset, size - offset < 8 ? size - offset : 8);
	return true;
}

static bool read_process(struct unwinding *u, uint64_t addr, unw_word_t *value)
{
	struct page *page = &u->page[addr / PAGE % PAGES];

	if (!page->len || page->addr != addr - addr % PAGE) {
		raddr_t from = addr - addr % PAGE;
		ssize_t n = u->memory ? (ssize_t)u->memory->read(u->memory->ctx, from, page->bytes,
								 PAGE)
				      : patient_read(u->process->via, from, page->bytes, PAGE);

		page->addr = from;
		page->len = n > 0 ? (size_t)n : 0;
	}
	if (addr % PAGE + 8 > page->len)
		return false;
	memcpy(value, page->bytes + addr % PAGE, 8);
	return true;
}

static int access_mem(unw_addr_space_t as, unw_word_t addr, unw_word_t *value, int write, void *arg)
{
	struct unwinding *u = arg;
	bool ok;

	(void)as;
	if (write || addr % 8)
		return -UNW_EINVAL;
	if (addr - FAKE_ENTRY < sizeof(u->entry))
		ok = read_from(u->entry, u->entry_size, addr - FAKE_ENTRY, value);
	else if (addr - FAKE_TABLE < FAKE_ENTRY - FAKE_TABLE)
		ok = u->file && read_from((const uint8_t *)u->file->table,
					  u->file->frames.count * sizeof(struct table_entry),
					  addr - FAKE_TABLE, value);
	else if (u->file && u->file->section.size &&
		 addr - (u->bias + u->file->section.vaddr) < u->file->section.size)
		ok = read_from(u->file->section.bytes, u->file->section.size,
			       addr - (u->bias + u->file->section.vaddr), value);
	else
		ok = read_process(u, addr, value);
	return ok ? 0 : -UNW_EINVAL;
}

static int access_reg(unw_addr_space_t as, unw_regnum_t reg, unw_word_t *value, int write,
		      void *arg)
{
	const struct user_regs_struct *r = ((struct unwinding *)arg)->regs;

	(void)as;
	if (write)
		return -UNW_EREADONLYREG;
	switch (reg) {
	case UNW_X86_64_RAX: *value = r->rax; break;
	case UNW_X86_64_RDX: *value = r->rdx; break;
	case UNW_X86_64_RCX: *value = r->rcx; break;
	case UNW_X86_64_RBX: *value = r->rbx; break;
	case UNW_X86_64_RSI: *value = r->rsi; break;
	case UNW_X86_64_RDI: *value = r->rdi; break;
	case UNW_X86_64_RBP: *value = r->rbp; break;
	case UNW_X86_64_RSP: *value = r->rsp; break;
	case UNW_X86_64_R8: *value = r->r8; break;
	case UNW_X86_64_R9: *value = r->r9; break;
	case UNW_X86_64_R10: *value = r->r10; break;
	case UNW_X86_64_R11: *value = r->r11; break;
	case UNW_X86_64_R12: *value = r->r12; break;
	case UNW_X86_64_R13: *value = r->r13; break;
	case UNW_X86_64_R14: *value = r->r14; break;
	case UNW_X86_64_R15: *value = r->r15; break;
	case UNW_X86_64_RIP: *value = r->rip; break;
	default: return -UNW_EBADREG;
	}
	return 0;
}

static int access_fpreg(unw_addr_space_t as, unw_regnum_t reg, unw_fpreg_t *value, int write,
			void *arg)
{
	(void)as, (void)reg, (void)value, (void)write, (void)arg;
	return -UNW_EBADREG;
}

static int no_resume(unw_addr_space_t as, unw_cursor_t *cursor, void *arg)
{
	(void)as, (void)cursor, (void)arg;
	return -UNW_EINVAL;
}

static int no_name(unw_addr_space_t as, unw_word_t ip, char *name, size_t size, unw_word_t *offset,
		   void *arg)
{
	(void)as, (void)ip, (void)name, (void)size, (void)offset, (void)arg;
	return -UNW_ENOINFO;
}

static unw_addr_space_t address_space(void)
{
	static unw_accessors_t accessors = { find_proc_info, put_unwind_info, no_dyn_info,
					     access_mem,     access_reg,      access_fpreg,
					     no_resume,	     no_name };
	static unw_addr_space_t as;

	if (!as) {
		as = unw_create_addr_space(&accessors, 0);
		if (as)
			unw_set_caching_policy(as, UNW_CACHE_NONE);
	}
	return as;
}

/* ---- stacks -------------------------------------------------------------- */

/* The frame at CURSOR. EXACT: its pc was interrupted. */
static struct unwind_frame frame_at(const struct process *p, unw_cursor_t *cursor, bool exact)
{
	struct unwind_frame f = { .exact = exact };
	unw_word_t ip = 0;
	raddr_t original;

	unw_get_reg(cursor, UNW_REG_IP, &ip);
	f.ours = in_blob(p, ip);
	original = f.ours ? 0 : plant_original_pc(&p->plant, exact ? ip : ip - 1);
	f.pc = original ? original + !exact : ip;
	return f;
}

ssize_t unwind_frames(const struct process *p, const struct unwind_memory *memory,
		      const struct user_regs_struct *regs, struct unwind_frame *frame, size_t max,
		      bool *complete)
{
	unw_addr_space_t as = address_space();
	struct unwinding *u = as ? calloc(1, sizeof(*u)) : NULL;
	unw_cursor_t cursor;
	unw_word_t sp;
	size_t n = 0;
	bool exact = true;
	int step = -1;

	if (!u)
		return -ENOMEM;
	u->process = p;
	u->memory = memory;
	u->regs = regs;
	if (!max || unw_init_remote(&cursor, as, u)) {
		free(u);
		return -EINVAL;
	}
	while (n < max) {
		frame[n++] = frame_at(p, &cursor, exact);
		step = unw_step(&cursor);
		if (step <= 0)
			break;
		/* of the frame just reached: a signal interrupted it */
		exact = unw_is_signal_frame(&cursor) > 0;
		if (!unw_get_reg(&cursor, UNW_REG_SP, &sp))
			frame[n - 1].cfa = sp;
	}
	if (complete)
		*complete = step == 0;
	free(u);
	return (ssize_t)n;
}

int unwind_stack(struct process *p, const struct user_regs_struct *regs, uint64_t *pc, size_t max)
{
	/* with room for the trampoline's, which are left out */
	struct unwind_frame *frame = reallocarray(NULL, max + 16, sizeof(*frame));
	ssize_t n;
	size_t count = 0;

	if (!frame)
		return -ENOMEM;
	n = unwind_frames(p, NULL, regs, frame, max + 16, NULL);
	for (ssize_t i = 0; i < n && count < max; i++) {
		if (frame[i].ours)
			continue;
		if (!count)
			pc[count++] = frame[i].exact ? frame[i].pc : frame[i].pc - 1;
		else
			pc[count++] = frame[i].pc | (frame[i].exact ? WIRE_PC_EXACT : 0);
	}
	free(frame);
	return n < 0 ? (int)n : (int)count;
}
