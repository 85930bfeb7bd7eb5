// SPDX-License-Identifier: GPL-3.0-or-later
#include "patch/plant.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/proc.h"
#include "inject/wire.h"
#include "patch/hooks.h"
#include "patch/inline_syscall.h"
#include "patch/patch.h"
#include "symbols/elf.h"
#include "symbols/module.h"

/*
 * plant.c - redirects the functions that hooks.c names, by means of patch.c.
 *
 * A batch is what one module needs. It is laid out in a buffer of ours and written with one write:
 *
 *      island.used -> | struct wire_hook | ... | stub, moved instructions | ...   <- island.end
 *
 *      stub:           mov r11, wire_guard.armed
 *                      cmp dword ptr [r11], ARMED_OFF  (ARMED_NOT where that is no reason to pass)
 *                      jbe moved
 *                      lea r11, [rip + its wire_hook]
 *                      jmp [r11]                       (entry is the first member)
 *      moved:          the function's first instructions
 *                      jmp back
 *
 * So a hook that has nothing to do costs no indirect jump, and nothing but r11 and the flags, which
 * no function is given anything in, has changed.
 *
 *      a system call:  instructions before it, if they were moved lea r11, [rip + its wire_hook]
 *                      jmp [r11] (which comes back to the next line, or behind it) the call,
 *                      instructions behind it, jmp back
 *
 * Then each function's first five bytes become a jump to its stub. Hooks lie together, so that they
 * share lines with each other and not with code. An island belongs to a stretch of address space,
 * not to a module: the next module within reach goes on where this one ended.
 *
 * The records in struct plant say what was done, for undoing it, and for telling where a program
 * counter in an island stands.
 */

#define ISLAND_BYTES 8192u
#define STUB_BYTES   32u
#define ALIGN16(n)   (((n) + 15) & ~(size_t)15)

_Static_assert(offsetof(struct wire_hook, entry) == 0, "the stub jumps through the first member");

/* One function on its way to be redirected. */
struct job {
	struct hook_site site;
	raddr_t address;
	struct patch patch;
	uint8_t bytes[PATCH_BYTES]; /* at address */
	size_t nbytes;
	raddr_t hook, stub, orig;
	const struct inline_syscall *raw; /* a system call, or NULL: a function */
};
struct batch {
	struct job *job;
	size_t count;
};

/* ---- refusals ------------------------------------------------------------ */

static void refuse(struct plant *plant, const struct module *m, const char *name, const char *why)
{
	char **bigger = realloc(plant->refused, (plant->nrefused + 1) * sizeof(*bigger));
	char *text;

	if (!bigger)
		return;
	plant->refused = bigger;
	if (asprintf(&text, "%s in %s: %s", name, m->path, why) >= 0)
		plant->refused[plant->nrefused++] = text;
}

/* ---- records ------------------------------------------------------------- */

static struct planted *find_planted(const struct plant *plant, raddr_t entry)
{
	for (size_t i = 0; i < plant->count; i++) {
		if (plant->planted[i].entry == entry)
			return &plant->planted[i];
	}
	return NULL;
}

static void remove_planted(struct plant *plant, struct planted *p)
{
	*p = plant->planted[--plant->count];
}

static int make_room(struct plant *plant, size_t more)
{
	struct planted *bigger = realloc(plant->planted, (plant->count + more) * sizeof(*bigger));

	if (!bigger)
		return -ENOMEM;
	plant->planted = bigger;
	return 0;
}

static void record(struct plant *plant, const struct job *j)
{
	struct planted *p = &plant->planted[plant->count++];
	const struct patch *patch = &j->patch;
	size_t skip = patch->entry - j->address;

	memset(p, 0, sizeof(*p));
	p->entry = patch->entry;
	p->nbytes = patch->nbytes;
	memcpy(p->original, j->bytes + skip, patch->nbytes);
	memcpy(p->patched, p->original, patch->nbytes);
	(void)!patch_jump(p->patched, p->entry, j->stub);
	p->stub = j->stub;
	p->orig = j->orig;
	p->hook = j->hook;
	p->ninsn = patch->ninsn;
	for (unsigned i = 0; i <= patch->ninsn; i++) {
		p->insn[i].from = patch->insn[i].from;
		p->insn[i].to = patch->insn[i].to;
	}
	p->kind = j->site.kind;
	p->requested = j->site.requested;
	p->call = patch->call;
	snprintf(p->name, sizeof(p->name), "%s", j->site.name);
}

/* ---- choosing ------------------------------------------------------------ */

/*
 * Still redirected from before? A record whose bytes are gone is of a module that was unmapped; it
 * is dropped.
 */
static bool still_planted(struct plant *plant, const struct plant_ops *ops, raddr_t entry)
{
	struct planted *p = find_planted(plant, entry);
	uint8_t now[PATCH_JUMP];

	if (!p)
		return false;
	if (p->later)
		return true;
	if (ops->read(ops->ctx, entry, now, sizeof(now)) == sizeof(now) &&
	    memcmp(now, p->patched, sizeof(now)) == 0)
		return true;
	remove_planted(plant, p);
	return false;
}

/* Of the function's body as the file has it, as much as is known to belong to it. */
static bool is_branched_into(const struct module *m, const struct job *j)
{
	size_t left = 0;
	const uint8_t *body = elf_at(m->elf, j->site.vaddr, 1, &left);
	size_t size = j->site.size ? j->site.size : 256;

	if (!body)
		return false;
	return patch_is_target(j->address, body, size < left ? size : left, j->patch.entry,
			       j->patch.entry + PATCH_JUMP);
}

/*
 * A function shorter than the jump that replaces it: padding by its bytes, but does anything begin
 * there?
 */
static bool is_crowded(const struct module *m, const struct job *j)
{
	uint64_t end = j->patch.entry + PATCH_JUMP - m->bias;

	return j->site.size && j->site.vaddr + j->site.size < end &&
	       elf_next_address(m->elf, j->site.vaddr) < end;
}

static void read_alone(const struct plant_ops *ops, struct job *j)
{
	ssize_t n = ops->read(ops->ctx, j->address, j->bytes, sizeof(j->bytes));

	j->nbytes = n < 0 ? 0 : (size_t)n;
}

/* Whether what was read of J ends in a page of zeros, as if it could not be read. */
static bool is_cut_off(const struct job *j)
{
	static const uint8_t zeros[PATCH_BYTES];
	size_t first = PAGE - (j->address & (PAGE - 1));

	first = first < j->nbytes ? first : 0;
	return memcmp(j->bytes + first, zeros, j->nbytes - first) == 0;
}

/* Reads the functions of N jobs, all at once: each question to a program that runs takes long. */
static int read_functions(const struct plant_ops *ops, struct job *job, size_t n)
{
	struct remote_span *span = calloc(n + 1, sizeof(*span));
	uint8_t *bytes = malloc(n * PATCH_BYTES + 1);
	int err = span && bytes ? 0 : -ENOMEM;

	for (size_t i = 0; i < n && !err; i++)
		span[i] = (struct remote_span){ job[i].address, PATCH_BYTES };
	if (!err)
		ops->read_spans(ops->ctx, span, n, bytes);
	for (size_t i = 0; i < n && !err; i++) {
		memcpy(job[i].bytes, bytes + i * PATCH_BYTES, PATCH_BYTES);
		job[i].nbytes = PATCH_BYTES;
		if (is_cut_off(&job[i]))
			read_alone(ops, &job[i]);
	}
	free(span);
	free(bytes);
	return err;
}

/* Decodes the function of a job. False: refused. */
static bool prepare(struct plant *plant, const struct module *m, struct job *j)
{
	const char *why = j->site.refuse;

	if (why)
		goto refused;
	if (patch_decode(&j->patch, j->address, j->bytes, j->nbytes, j->site.size, &why) < 0)
		goto refused;
	why = "a branch leads into its first bytes";
	if (is_branched_into(m, j))
		goto refused;
	why = "it is shorter than 5 bytes, and another symbol follows";
	if (is_crowded(m, j))
		goto refused;
	return true;
refused:
	refuse(plant, m, j->site.name, why);
	return false;
}

/* What atexit calls is not exported, but what is exported calls it, and nothing else. */
static void add_inner_check(struct batch *b, const struct module *m, const struct hook_site *site)
{
	size_t left = 0;
	const uint8_t *body = elf_at(m->elf, site->vaddr, 1, &left);
	raddr_t inner = body && site->size && site->size <= left && site->size <= 128
				? patch_only_callee(site->vaddr, body, site->size)
				: 0;
	struct job *j = &b->job[b->count];

	if (!inner || !elf_at(m->elf, inner, PATCH_JUMP, NULL))
		return;
	for (size_t i = 0; i < b->count; i++) {
		if (b->job[i].site.vaddr == inner)
			return;
	}
	memset(j, 0, sizeof(*j));
	snprintf(j->site.name, sizeof(j->site.name), "%.48s's callee", site->name);
	j->site.kind = site->kind;
	j->site.vaddr = inner;
	b->count++;
}

static bool has_entry(const struct plant_agent *agent, enum wire_hook_kind kind)
{
	return kind < HOOK_KINDS && agent->entry[kind];
}

/* The window WHERE for a jump. The job is complete if that works. */
static bool prepare_window(const struct plant_ops *ops, const struct module *m, struct job *j,
			   uint64_t where, const char **why)
{
	const struct inline_syscall *r = j->raw;

	j->address = m->bias + where;
	j->site.vaddr = where;
	read_alone(ops, j);
	return patch_site(&j->patch, j->address, m->bias + r->vaddr, j->bytes, j->nbytes,
			  m->bias + r->end, m->bias + r->next, why) == 0;
}

static bool overlaps(const struct batch *b, size_t count, const struct job *j)
{
	for (size_t i = 0; i < count; i++)
		if (b->job[i].patch.entry < j->patch.entry + j->patch.nbytes &&
		    j->patch.entry < b->job[i].patch.entry + b->job[i].patch.nbytes)
			return true;
	return false;
}

/* A function that is hooked by its name counts what it does. */
static bool is_hooked(const struct hook_site *site, size_t count, const struct inline_syscall *r)
{
	for (size_t i = 0; i < count; i++)
		if (!site[i].refuse && r->start <= site[i].vaddr && site[i].vaddr < r->end)
			return true;
	return false;
}

/* Of COUNT jobs that are ready: J becomes the next one, for a system call. */
static bool prepare_raw(struct plant *plant, const struct batch *b, size_t count,
			const struct module *m, const struct plant_ops *ops, struct job *j)
{
	const struct inline_syscall *r = j->raw;
	const char *why = r->why;

	for (unsigned k = 0; k < r->nwindows; k++) {
		if (still_planted(plant, ops, m->bias + r->window[k]))
			return false;
		if (!prepare_window(ops, m, j, r->window[k], &why))
			continue;
		if (!overlaps(b, count, j))
			return true;
		why = "it is too near to another place that is redirected";
	}
	refuse(plant, m, j->site.name, why);
	plant->unseen++;
	return false;
}

/*
 * Go's functions check that their stack has room, and make it larger; what runs behind the last
 * check may use some hundred bytes. So hooks there use a stack of the agent's.
 */
static struct hook_site raw_hook(const struct module *m, const struct inline_syscall *r)
{
	struct hook_site site = { .kind = HOOK_RAW, .vaddr = r->vaddr, .arg = elf_is_go(m->elf) };

	if (r->number == INLINE_SYSCALL_UNKNOWN)
		snprintf(site.name, sizeof(site.name), "the system call at 0x%llx",
			 (unsigned long long)r->vaddr);
	else
		snprintf(site.name, sizeof(site.name), "the system call (number %lld) at 0x%llx",
			 (long long)r->number, (unsigned long long)r->vaddr);
	return site;
}

static int choose(struct plant *plant, struct batch *b, const struct module *m,
		  const struct plant_ops *ops, const struct plant_agent *agent,
		  const struct hook_site *site, size_t count, const struct inline_syscall *raw,
		  size_t nraw)
{
	size_t kept = 0;
	int err;

	b->count = 0;
	b->job = calloc(count * 2 + nraw + 1, sizeof(*b->job));
	if (!b->job)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		b->job[b->count++].site = site[i];
		if (site[i].kind == HOOK_LEAK_CHECK)
			add_inner_check(b, m, &site[i]);
	}
	for (size_t i = 0; i < b->count; i++) {
		struct job *j = &b->job[i];

		j->address = m->bias + j->site.vaddr;
		if (!has_entry(agent, j->site.kind) || still_planted(plant, ops, j->address) ||
		    still_planted(plant, ops, j->address + 4))
			continue;
		b->job[kept++] = *j;
	}
	b->count = kept;
	kept = 0;
	err = read_functions(ops, b->job, b->count);
	if (err)
		return err;
	for (size_t i = 0; i < b->count; i++)
		if (prepare(plant, m, &b->job[i]))
			b->job[kept++] = b->job[i];
	for (size_t i = 0; i < nraw && has_entry(agent, HOOK_RAW); i++) {
		struct job j = { .site = raw_hook(m, &raw[i]), .raw = &raw[i] };

		if (!is_hooked(site, count, &raw[i]) && prepare_raw(plant, b, kept, m, ops, &j))
			b->job[kept++] = j;
	}
	b->count = kept;
	return 0;
}

/* ---- islands ------------------------------------------------------------- */

/* Everything of the module that moved instructions can refer to, .bss too. */
static void module_span(const struct module *m, raddr_t *lo, raddr_t *hi)
{
	const struct elf_segment *seg;
	size_t n = elf_segments(m->elf, &seg);

	*lo = m->start;
	*hi = m->end;
	for (size_t i = 0; i < n; i++) {
		raddr_t end = m->bias + seg[i].vaddr + seg[i].memsz;

		if (seg[i].memsz && seg[i].vaddr + m->bias >= m->start && end > *hi &&
		    end - m->start < PLANT_REACH)
			*hi = end;
	}
}

static bool reaches(const struct island *island, raddr_t lo, raddr_t hi)
{
	raddr_t a = island->start < lo ? island->start : lo,
		b = island->end > hi ? island->end : hi;

	return b - a < PLANT_REACH;
}

static struct island *find_island(struct plant *plant, raddr_t lo, raddr_t hi, size_t need)
{
	for (size_t i = 0; i < plant->nislands; i++) {
		struct island *island = &plant->island[i];

		if (island->end - island->used >= need && reaches(island, lo, hi))
			return island;
	}
	return NULL;
}

static struct island *new_island(struct plant *plant, const struct plant_ops *ops, raddr_t lo,
				 raddr_t hi, size_t need, int *error)
{
	size_t len = need > ISLAND_BYTES ? (need + 4095) & ~(size_t)4095 : ISLAND_BYTES;
	struct island *bigger = realloc(plant->island, (plant->nislands + 1) * sizeof(*bigger)),
		      *island;
	raddr_t at = 0;

	if (!bigger) {
		*error = -ENOMEM;
		return NULL;
	}
	plant->island = bigger;
	*error = ops->map_near(ops->ctx, lo, hi, len, &at);
	if (*error < 0)
		return NULL;
	island = &plant->island[plant->nislands++];
	*island = (struct island){ at, at, at + len };
	return island;
}

/* ---- writing ------------------------------------------------------------- */

/* Gives every job its places from AT on; returns the end. */
static raddr_t lay_out(struct batch *b, raddr_t at)
{
	for (size_t i = 0; i < b->count; i++) {
		b->job[i].hook = at;
		at += sizeof(struct wire_hook);
	}
	at = ALIGN16(at);
	for (size_t i = 0; i < b->count; i++) {
		size_t stub = b->job[i].raw ? 0 : STUB_BYTES;

		b->job[i].stub = at;
		b->job[i].orig = at + stub;
		at += stub + ALIGN16(b->job[i].patch.len);
	}
	return at;
}

/* Whether its hook has something to do also while nothing is recorded. */
static bool is_always_hooked(enum wire_hook_kind kind)
{
	return kind == HOOK_API || kind == HOOK_LEAK_CHECK || kind == HOOK_PRCTL ||
	       kind == HOOK_PTRACE || kind == HOOK_DEBUG_STATE || kind == HOOK_SYSCALL;
}

/* The way to the hook, or past it. */
static void write_stub(uint8_t *out, const struct job *j, raddr_t armed)
{
	uint8_t least = is_always_hooked(j->site.kind) ? ARMED_NOT : ARMED_OFF;
	int32_t d = (int32_t)(j->hook - (j->stub + 23));

	memset(out, 0xcc, STUB_BYTES);
	memcpy(out, "\x49\xbb", 2);
	memcpy(out + 2, &armed, 8);
	memcpy(out + 10, "\x41\x83\x3b", 3);
	out[13] = least;
	memcpy(out + 14, "\x76\x10", 2); /* to what was moved, behind the stub */
	memcpy(out + 16, "\x4c\x8d\x1d", 3);
	memcpy(out + 19, &d, 4);
	memcpy(out + 23, "\x41\xff\x23", 3);
}

/*
 * The nothrow form may be hooked itself: then its moved instructions are called, or else it would
 * count.
 */
static raddr_t nothrow_of(const struct plant *plant, const struct batch *b, const struct module *m,
			  const struct job *j)
{
	raddr_t address = m->bias + j->site.nothrow;

	if (!j->site.nothrow)
		return 0;
	for (size_t i = 0; i < b->count; i++) {
		if (b->job[i].address == address)
			return b->job[i].orig;
	}
	for (size_t i = 0; i < plant->count; i++) {
		if (plant->planted[i].entry == address || plant->planted[i].entry == address + 4)
			return plant->planted[i].orig;
	}
	return address;
}

/*
 * Fixes the copies for their places. What cannot reach what it refers to is refused; its place in
 * the island stays empty.
 */
static void place(struct plant *plant, struct batch *b, const struct module *m)
{
	size_t kept = 0;
	uint8_t jump[PATCH_JUMP];

	for (size_t i = 0; i < b->count; i++) {
		struct job *j = &b->job[i];

		if (patch_place(&j->patch, j->orig) < 0 ||
		    patch_jump(jump, j->patch.entry, j->stub) < 0 ||
		    (j->raw && patch_hook(&j->patch, j->orig, j->hook) < 0))
			refuse(plant, m, j->site.name,
			       "what its first bytes refer to is out of reach");
		else
			b->job[kept++] = *j;
	}
	b->count = kept;
}

/* Sanitizers print stacks that they walk by frame pointers. */
static bool is_sanitizer(const struct batch *b)
{
	for (size_t i = 0; i < b->count; i++)
		if (b->job[i].site.kind == HOOK_LEAK_CHECK)
			return true;
	return false;
}

/* The hooks of the two most frequent functions do not look for WIRE_FRAMED. */
static uint32_t framed_kind(uint32_t kind)
{
	return kind == HOOK_MALLOC ? HOOK_MALLOC_AS : kind == HOOK_FREE ? HOOK_FREE_AS : kind;
}

static void fill_island(const struct plant *plant, const struct batch *b, const struct module *m,
			const struct plant_agent *agent, uint8_t *out, raddr_t at)
{
	uint32_t framed = is_sanitizer(b) ? WIRE_FRAMED : 0;

	for (size_t i = 0; i < b->count; i++) {
		const struct job *j = &b->job[i];
		struct wire_hook hook = { .orig = j->orig,
					  .kind = (uint32_t)j->site.kind,
					  .arg = j->site.arg };

		if (framed)
			hook.kind = framed_kind(hook.kind);
		hook.entry = agent->entry[hook.kind];
		hook.arg |= hook.kind < HOOK_MMAP ? framed : 0;
		hook.nothrow = nothrow_of(plant, b, m, j);
		if (j->raw) {
			hook.orig = j->orig + j->patch.call;
			hook.nothrow = j->orig + j->patch.check + PATCH_STANDS + 1;
		} else
			write_stub(out + (j->stub - at), j, agent->armed);
		memcpy(out + (j->hook - at), &hook, sizeof(hook));
		memcpy(out + (j->orig - at), j->patch.code, j->patch.len);
	}
}

/* The entries from FIRST on; PATCHED, or as they were. */
static int write_from(const struct plant *plant, const struct plant_ops *ops, size_t first,
		      bool patched)
{
	size_t n = plant->count - first;
	struct remote_span *span = calloc(n + 1, sizeof(*span));
	uint8_t *bytes = malloc(n * PATCH_JUMP + 1);
	int err = span && bytes ? 0 : -ENOMEM;

	for (size_t i = 0; i < n && !err; i++) {
		const struct planted *p = &plant->planted[first + i];

		span[i] = (struct remote_span){ p->entry, PATCH_JUMP };
		memcpy(bytes + i * PATCH_JUMP, patched ? p->patched : p->original, PATCH_JUMP);
	}
	if (!err)
		err = ops->write_spans(ops->ctx, span, n, bytes);
	free(span);
	free(bytes);
	return err;
}

static int write_entries(struct plant *plant, const struct plant_ops *ops, const struct batch *b)
{
	size_t first = plant->count;
	int err = 0;

	for (size_t i = 0; i < b->count; i++) {
		record(plant, &b->job[i]);
		plant->planted[plant->count - 1].later = ops->later;
	}
	if (ops->note)
		err = ops->note(ops->ctx, plant);
	if (!err && !ops->later) {
		err = write_from(plant, ops, first, true);
		if (err < 0)
			(void)!write_from(plant, ops, first, false);
	}
	if (err < 0)
		plant->count = first;
	return err;
}

/* Island first, entries last: nothing jumps to what is not there yet. */
static int plant_batch(struct plant *plant, const struct module *m, const struct plant_ops *ops,
		       const struct plant_agent *agent, struct batch *b)
{
	raddr_t lo, hi, at;
	size_t need = (size_t)lay_out(b, 0);
	struct island *island;
	uint8_t *out;
	int err = 0;

	if (!b->count)
		return 0;
	module_span(m, &lo, &hi);
	island = find_island(plant, lo, hi, need);
	if (!island)
		island = new_island(plant, ops, lo, hi, need, &err);
	if (!island)
		return err;
	at = island->used;
	lay_out(b, at);
	out = malloc(need);
	err = out ? make_room(plant, b->count) : -ENOMEM;
	if (!err) {
		memset(out, 0xcc, need);
		place(plant, b, m);
		fill_island(plant, b, m, agent, out, at);
		err = ops->write(ops->ctx, at, out, need);
	}
	free(out);
	if (!err)
		err = write_entries(plant, ops, b);
	if (err < 0)
		return err;
	island->used = at + need;
	return (int)b->count;
}

/* ---- the interface ------------------------------------------------------- */

static int plant_sites(struct plant *plant, const struct module *m, const struct plant_ops *ops,
		       const struct plant_agent *agent, const struct hook_site *site, size_t count,
		       const struct inline_syscall *raw, size_t nraw)
{
	struct batch b;
	int n = choose(plant, &b, m, ops, agent, site, count, raw, nraw);

	if (n == 0)
		n = plant_batch(plant, m, ops, agent, &b);
	free(b.job);
	return n;
}

/* libc and ld.so offer what they do as functions, and those are hooked. */
static bool may_call(const struct module *m)
{
	return !(m->roles & (MODULE_LIBC | MODULE_LDSO | MODULE_VDSO));
}

static int find_raw(const struct module *m, const struct inline_syscall **raw, size_t *nraw)
{
	size_t dark;

	*nraw = 0;
	return may_call(m) ? inline_syscall_find(m->elf, raw, nraw, &dark) : 0;
}

void plant_prepare(const struct module *module)
{
	if (may_call(module))
		inline_syscall_begin(module->elf);
}

const struct planted *plant_find(const struct plant *plant, raddr_t address)
{
	const struct planted *p = find_planted(plant, address);

	return p ? p : find_planted(plant, address + 4); /* behind an endbr64 */
}

bool plant_has(const struct plant *plant, const char *name)
{
	for (size_t i = 0; i < plant->count; i++)
		if (!strncmp(plant->planted[i].name, name, sizeof(plant->planted[i].name) - 1))
			return true;
	return false;
}

/* What could not be hooked does what it does unseen. */
static void missing_roles(const struct plant *plant, struct module *module,
			  const struct hook_sites *sites)
{
	for (size_t i = 0; i < sites->count; i++) {
		const struct hook_site *s = &sites->site[i];

		if (s->kind >= HOOK_MMAP || plant_find(plant, module->bias + s->vaddr))
			continue;
		module->roles |= s->kind == HOOK_SAYS_NEW || s->kind == HOOK_SAYS_DELETE
					 ? MODULE_OPERATORS
					 : MODULE_UNSEEN | MODULE_OPERATORS;
	}
}

int plant_module(struct plant *plant, struct module *module, const struct plant_ops *ops,
		 const struct plant_agent *agent, const struct hook_request *request,
		 size_t nrequests)
{
	const struct inline_syscall *raw;
	struct hook_sites sites;
	size_t nraw;
	int n;

	if (module->planted)
		return 0;
	n = hooks_find(&sites, module, request, nrequests);
	if (n < 0)
		return n;
	n = find_raw(module, &raw, &nraw);
	if (n == 0)
		n = plant_sites(plant, module, ops, agent, sites.site, sites.count, raw, nraw);
	if (n >= 0) {
		module->planted = true;
		if (sites.allocator)
			module->roles |= MODULE_ALLOCATOR;
		if (sites.operators)
			module->roles |= MODULE_OPERATORS;
		if (sites.unseen)
			module->roles |= MODULE_UNSEEN;
		missing_roles(plant, module, &sites);
	}
	hooks_release(&sites);
	return n;
}

int plant_function(struct plant *plant, struct module *module, const struct plant_ops *ops,
		   const struct plant_agent *agent, const char *name, enum wire_hook_kind kind)
{
	struct hook_site site;
	raddr_t at;
	int n = hooks_find_one(&site, module, name, kind);

	if (n < 0)
		return n;
	at = module->bias + site.vaddr;
	n = plant_sites(plant, module, ops, agent, &site, 1, NULL, 0);
	if (n != 0)
		return n < 0 ? n : 0;
	return plant_find(plant, at) ? 0 : -EOPNOTSUPP;
}

#define ENTRY_BYTES sizeof(((struct planted *)0)->original)

/*
 * What is at the entries now, ENTRY_BYTES of each, for the caller to free; what cannot be read is
 * zeros. NULL: out of memory.
 */
static uint8_t *read_entries(const struct plant *plant, const struct plant_ops *ops)
{
	struct remote_span *span = calloc(plant->count + 1, sizeof(*span));
	uint8_t *bytes = malloc(plant->count * ENTRY_BYTES + 1);

	if (!span || !bytes) {
		free(span);
		free(bytes);
		return NULL;
	}
	for (size_t i = 0; i < plant->count; i++)
		span[i] = (struct remote_span){ plant->planted[i].entry, ENTRY_BYTES };
	ops->read_spans(ops->ctx, span, plant->count, bytes);
	free(span);
	return bytes;
}

int plant_write(struct plant *plant, const struct plant_ops *ops)
{
	uint8_t *bytes = read_entries(plant, ops);
	size_t kept = 0, i;
	int err = 0;

	if (!bytes)
		return -ENOMEM;
	for (i = 0; i < plant->count && !err; i++) {
		struct planted *p = &plant->planted[i];

		if (p->later && memcmp(bytes + i * ENTRY_BYTES, p->original, p->nbytes) != 0)
			continue;
		if (p->later)
			err = ops->write(ops->ctx, p->entry, p->patched, PATCH_JUMP);
		p->later &= err < 0;
		plant->planted[kept++] = *p;
	}
	while (i < plant->count)
		plant->planted[kept++] = plant->planted[i++];
	plant->count = kept;
	free(bytes);
	return err;
}

/*
 * Only where our jump still is: a module that was unmapped left its place to others. Every entry is
 * tried; the first error is told.
 */
int plant_uproot(struct plant *plant, const struct plant_ops *ops)
{
	uint8_t *bytes = read_entries(plant, ops);
	int err = bytes ? 0 : -ENOMEM;

	for (size_t i = 0; i < plant->count && bytes; i++) {
		const struct planted *p = &plant->planted[i];
		int e;

		if (memcmp(bytes + i * ENTRY_BYTES, p->patched, PATCH_JUMP) != 0)
			continue;
		e = ops->write(ops->ctx, p->entry, p->original, PATCH_JUMP);
		err = err ? err : e;
	}
	free(bytes);
	return err;
}

static bool is_used(const struct plant *plant, const struct island *island)
{
	for (size_t i = 0; i < plant->count; i++) {
		if (plant->planted[i].stub >= island->start && plant->planted[i].stub < island->end)
			return true;
	}
	return false;
}

/*
 * An island whose modules are all gone starts over, or else a program that opens and closes an
 * allocator all day would fill the address space.
 */
void plant_forget(struct plant *plant, raddr_t start, raddr_t end)
{
	size_t kept = 0, count = plant->count;

	for (size_t i = 0; i < count; i++) {
		if (plant->planted[i].entry < start || plant->planted[i].entry >= end)
			plant->planted[kept++] = plant->planted[i];
	}
	plant->count = kept;
	if (kept == count)
		return;
	for (size_t i = 0; i < plant->nislands; i++) {
		if (!is_used(plant, &plant->island[i]))
			plant->island[i].used = plant->island[i].start;
	}
}

static const struct planted *stub_at(const struct plant *plant, raddr_t pc)
{
	for (size_t i = 0; i < plant->count; i++) {
		if (pc >= plant->planted[i].stub && pc < plant->planted[i].orig)
			return &plant->planted[i];
	}
	return NULL;
}

/* Offset in the function of the instruction behind a system call; 0: P is none. */
static unsigned behind_call(const struct planted *p)
{
	for (unsigned k = 0; p->kind == HOOK_RAW && k < p->ninsn; k++)
		if (p->insn[k].to == p->call)
			return p->insn[k + 1].from;
	return 0;
}

raddr_t plant_site(const struct planted *p) { return p->entry + behind_call(p) - 2; }

static bool is_within(const struct planted *p, raddr_t pc)
{
	return pc > p->entry && pc - p->entry < PATCH_JUMP;
}

/*
 * A thread that waits in a system call stands behind the instruction, and may be sent back to it to
 * make the call again.
 */
static bool is_covered(const struct planted *p, raddr_t pc)
{
	unsigned behind = behind_call(p);

	return is_within(p, pc) || (behind && behind - 2 < PATCH_JUMP && pc == p->entry + behind);
}

bool plant_covers(const struct plant *plant, raddr_t pc)
{
	for (size_t i = 0; i < plant->count; i++)
		if (is_covered(&plant->planted[i], pc))
			return true;
	return false;
}

bool plant_within(const struct plant *plant, raddr_t pc)
{
	for (size_t i = 0; i < plant->count; i++)
		if (is_within(&plant->planted[i], pc))
			return true;
	return false;
}

raddr_t plant_moved_pc(const struct plant *plant, raddr_t pc)
{
	for (size_t i = 0; i < plant->count; i++) {
		const struct planted *p = &plant->planted[i];

		if (!is_covered(p, pc))
			continue;
		for (unsigned k = 0; k <= p->ninsn; k++)
			if (p->insn[k].from == pc - p->entry)
				return p->orig + p->insn[k].to;
	}
	return 0;
}

raddr_t plant_exact_pc(const struct plant *plant, raddr_t pc)
{
	const struct planted *stub =
		stub_at(plant, pc); /* first: one may begin where a copy ends */

	if (stub)
		return stub->entry;
	for (size_t i = 0; i < plant->count; i++) {
		const struct planted *p = &plant->planted[i];

		for (unsigned k = 0; k <= p->ninsn; k++)
			if (pc == p->orig + p->insn[k].to)
				return p->entry + p->insn[k].from;
	}
	return 0;
}

raddr_t plant_original_pc(const struct plant *plant, raddr_t pc)
{
	const struct planted *p = stub_at(plant, pc);
	unsigned k;

	if (p)
		return p->entry;
	for (p = plant->planted; p < plant->planted + plant->count; p++) {
		if (pc < p->orig || pc - p->orig >= PATCH_CODE)
			continue;
		if (p->kind == HOOK_RAW && pc - p->orig < p->call &&
		    pc - p->orig + PATCH_CHECK >= p->call)
			return plant_site(p);
		for (k = p->ninsn; k > 0 && pc - p->orig < p->insn[k].to; k--)
			;
		/*
		 * the last one is the jump back, 5 bytes, or nothing; where it is nothing, the next
		 * stub may begin, but that was looked for
		 */
		if (k < p->ninsn || pc - p->orig < (raddr_t)p->insn[k].to + PATCH_JUMP)
			return p->entry + p->insn[k].from;
	}
	return 0;
}

bool plant_in_island(const struct plant *plant, raddr_t pc)
{
	for (size_t i = 0; i < plant->nislands; i++)
		if (pc >= plant->island[i].start && pc < plant->island[i].end)
			return true;
	return false;
}

bool plant_stands(const struct plant *plant, raddr_t pc)
{
	for (size_t i = 0; i < plant->count; i++) {
		const struct planted *p = &plant->planted[i];

		if (p->kind == HOOK_RAW && pc - (p->orig + p->call - PATCH_CHECK + PATCH_STANDS) <
						   PATCH_CHECK - PATCH_STANDS)
			return true;
	}
	return false;
}

int plant_copy(struct plant *to, const struct plant *from)
{
	struct plant copy = { 0 };

	copy.planted = malloc((from->count + 1) * sizeof(*copy.planted));
	copy.island = malloc((from->nislands + 1) * sizeof(*copy.island));
	copy.refused = calloc(from->nrefused + 1, sizeof(*copy.refused));
	if (!copy.planted || !copy.island || !copy.refused)
		goto fail;
	copy.unseen = from->unseen;
	for (; copy.count < from->count; copy.count++)
		copy.planted[copy.count] = from->planted[copy.count];
	for (; copy.nislands < from->nislands; copy.nislands++)
		copy.island[copy.nislands] = from->island[copy.nislands];
	for (; copy.nrefused < from->nrefused; copy.nrefused++) {
		copy.refused[copy.nrefused] = strdup(from->refused[copy.nrefused]);
		if (!copy.refused[copy.nrefused])
			goto fail;
	}
	*to = copy;
	return 0;
fail:
	plant_release(&copy);
	return -ENOMEM;
}

void plant_release(struct plant *plant)
{
	for (size_t i = 0; i < plant->nrefused; i++)
		free(plant->refused[i]);
	free(plant->refused);
	free(plant->planted);
	free(plant->island);
	memset(plant, 0, sizeof(*plant));
}
