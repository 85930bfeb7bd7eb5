// SPDX-License-Identifier: GPL-3.0-or-later
#include "unwind/image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arch/abi.h"
#include "base/array.h"
#include "base/hash_index.h"
#include "base/search.h"
#include "base/space.h"
#include "patch/patch.h"
#include "symbols/elf.h"
#include "unwind/cfi.h"

/*
 * image.c - the tables that all processes of one program image share.
 *
 * A module's unwind rows are built once and stay in the tables' pool. Which of them a process sees
 * is its own table (wire_modules): there are two, the one not in use is filled, then a single store
 * publishes it, of a number that only grows. A walk that still reads the old one sees what was
 * right a moment ago; and that it was not being filled anew meanwhile, for the next publication, it
 * sees from the number.
 */

/* a module's tables; the key is what makes two modules' rows the same */
struct built {
	struct elf *elf;
	raddr_t bias;
	struct wire_module table;
	uint32_t rules; /* all of its are below */
};

/* the tables of an island as it was when `count` functions had been planted there */
struct built_island {
	raddr_t start, used;
	size_t count;
	struct wire_module table;
	uint32_t rules;
};
/* made in one image; a program that opens and closes an allocator without end gets no more */
#define ISLAND_TABLES 4096u

struct image {
	unsigned refs;
	struct cfi cfi;
	struct built *built;
	size_t nbuilt, room;
	struct hash_index by_module; /* numbers of the built ones */
	struct built_island *island;
	size_t nislands, island_tables;
	struct module blob; /* the trampoline itself: walks pass through it */
};

/* ---- the embedded trampoline --------------------------------------------- */

struct elf *blob_elf(void)
{
	static struct elf *elf;
	int err;

	if (!elf)
		elf = elf_from_bytes(blob_elf_start, (size_t)(blob_elf_end - blob_elf_start), &err);
	return elf;
}

raddr_t blob_symbol(const char *name)
{
	struct elf_symbol symbol;
	size_t cursor = 0;

	if (!blob_elf() || !elf_find(blob_elf(), name, &cursor, &symbol)) {
		fprintf(stderr, "mtrun: the embedded trampoline has no '%s'\n", name);
		abort();
	}
	return symbol.value;
}

const uint8_t *blob_bytes(raddr_t offset, size_t len)
{
	size_t left;

	return blob_elf() ? elf_at(blob_elf(), offset, len, &left) : NULL;
}

void blob_entries(raddr_t base, raddr_t entry[HOOK_KINDS])
{
	static const char *const name[HOOK_KINDS] = {
		[HOOK_MALLOC] = "malloc",
		[HOOK_CALLOC] = "calloc",
		[HOOK_REALLOC] = "realloc",
		[HOOK_REALLOCARRAY] = "reallocarray",
		[HOOK_FREE] = "free",
		[HOOK_MEMALIGN] = "memalign",
		[HOOK_POSIX_MEMALIGN] = "posix_memalign",
		[HOOK_NEW] = "new",
		[HOOK_SAYS_NEW] = "says_new",
		[HOOK_SAYS_DELETE] = "says_delete",
		[HOOK_MALLOC_AS] = "malloc_as",
		[HOOK_FREE_AS] = "free_as",
		[HOOK_MMAP] = "mmap",
		[HOOK_MUNMAP] = "munmap",
		[HOOK_MREMAP] = "mremap",
		[HOOK_MPROTECT] = "mprotect",
		[HOOK_BRK] = "brk",
		[HOOK_SBRK] = "sbrk",
		[HOOK_SYSCALL] = "syscall",
		[HOOK_PRCTL] = "prctl",
		[HOOK_DEBUG_STATE] = "debug_state",
		[HOOK_LEAK_CHECK] = "leak_check",
		[HOOK_PTRACE] = "ptrace",
		[HOOK_API] = "api",
		[HOOK_RAW] = "raw",
		[HOOK_GENERIC_MALLOC] = "generic",
		[HOOK_GENERIC_CALLOC] = "generic",
		[HOOK_GENERIC_REALLOC] = "generic",
		[HOOK_GENERIC_FREE] = "generic",
		[HOOK_GENERIC_MEMALIGN] = "generic",
		[HOOK_GENERIC_POSIX_MEMALIGN] = "generic",
	};
	static raddr_t offset[HOOK_KINDS]; /* looked up once: it takes 0.1 ms */
	char symbol[64];

	for (int i = 0; i < HOOK_KINDS; i++) {
		if (!offset[i]) {
			snprintf(symbol, sizeof(symbol), "entry_%s", name[i]);
			offset[i] = blob_symbol(symbol);
		}
		entry[i] = base + offset[i];
	}
}

struct wire_rule image_below_red_zone(struct wire_rule rule)
{
	switch (rule.cfa) {
	case CFA_RSP:
	case CFA_RSP_DEREF: rule.cfa_off += RED_ZONE; return rule;
	case CFA_END:
	case CFA_RBP:
	case CFA_FRAME:
	case CFA_RBP_DEREF:
	case CFA_REG:
	case CFA_REG_DEREF: return rule;
	default: return (struct wire_rule){ .cfa = CFA_NONE };
	}
}

/* ---- life ---------------------------------------------------------------- */

static uint64_t mapped(uint64_t pool) { return offsetof(struct wire_tables, pool) + pool; }

static bool grow(struct cfi *cfi, uint64_t size)
{
	uint64_t more = size - cfi->pool_size > cfi->pool_size / 2 ? size - cfi->pool_size
								   : cfi->pool_size / 2;

	more = WIRE_PAGES(more);
	if (more > WIRE_POOL - cfi->pool_size)
		more = WIRE_POOL - cfi->pool_size;
	if (!space_extend(cfi->tables, mapped(cfi->pool_size), more))
		return false;
	cfi->pool_size += more;
	return true;
}

/* Our mapping is from before: it may write. */
static int seal(int fd)
{
	return fcntl(fd, F_ADD_SEALS,
		     F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) < 0
		       ? -errno
		       : 0;
}

struct image *image_new(int fd, int *error)
{
	struct image *image = calloc(1, sizeof(*image));
	struct wire_tables *tables;

	*error = -ENOMEM;
	if (!image)
		return NULL;
	tables = space_map(fd, 0, mapped(POOL_FIRST), FILE_TABLES, 0);
	if (!tables) {
		*error = -errno;
		free(image);
		return NULL;
	}
	*error = seal(fd);
	if (!*error)
		*error = cfi_init(&image->cfi, tables, POOL_FIRST);
	if (*error) {
		munmap(tables, mapped(POOL_FIRST));
		free(image);
		return NULL;
	}
	image->cfi.grow = grow;
	image->refs = 1;
	return image;
}

void image_prepare(const struct modules *modules)
{
	struct wire_tables *scratch = mmap(NULL, sizeof(*scratch), PROT_READ | PROT_WRITE,
					   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct cfi cfi;

	if (scratch == MAP_FAILED)
		return;
	if (cfi_init(&cfi, scratch, WIRE_POOL) == 0) {
		for (size_t i = 0; i < modules->count; i++) {
			struct wire_module table = { 0 };

			(void)!cfi_build(&cfi, modules->module[i], &table);
		}
		cfi_release(&cfi);
	}
	munmap(scratch, sizeof(*scratch));
}

struct image *image_ref(struct image *image)
{
	image->refs++;
	return image;
}

void image_unref(struct image *image)
{
	if (!image || --image->refs)
		return;
	for (size_t i = 0; i < image->nbuilt; i++)
		elf_unref(image->built[i].elf);
	free(image->built);
	hash_index_release(&image->by_module);
	free(image->island);
	munmap(image->cfi.tables, mapped(image->cfi.pool_size));
	cfi_release(&image->cfi);
	free(image);
}

/* ---- modules ------------------------------------------------------------- */

static uint32_t module_hash(const struct module *m)
{
	return hash_number(hash_number(HASH_SEED, (uintptr_t)m->elf), m->bias);
}

static bool is_of(const struct built *b, const struct module *m)
{
	return b->elf == m->elf && b->bias == m->bias;
}

static const struct built *build(struct image *image, const struct module *m, int *error)
{
	struct built *b;
	int err;
	uint32_t number = HASH_FIND(&image->by_module, module_hash(m), n,
				    is_of(&image->built[n - 1], m) &&
					    image->built[n - 1].table.start == m->text_start);

	*error = 0;
	if (number)
		return &image->built[number - 1];
	if (array_room(&image->built, image->nbuilt, &image->room, sizeof(*image->built)) ||
	    hash_index_add(&image->by_module, module_hash(m), (uint32_t)image->nbuilt + 1)) {
		*error = -ENOMEM;
		return NULL;
	}
	b = &image->built[image->nbuilt];
	memset(&b->table, 0, sizeof(b->table));
	err = cfi_build(&image->cfi, m, &b->table);
	if (err) { /* no unwind information: known, but without rows */
		b->table = (struct wire_module){ .start = m->text_start, .end = m->text_end };
	}
	b->elf = elf_ref(m->elf);
	b->bias = m->bias;
	b->rules = image->cfi.nrules;
	image->nbuilt++;
	return b;
}

/*
 * In an island the state of the stack is that of the place the instruction was moved from; in a
 * stub, of the function's entry. A handler's walk comes there when the signal interrupted a hooked
 * function's first instructions.
 */
static struct wire_rule rule_at(const struct image *image, const struct modules *modules,
				raddr_t pc)
{
	const struct module *m = modules_find(modules, pc, UINT32_MAX);
	const struct wire_rule *rule = NULL;

	if (m)
		(void)HASH_FIND(&image->by_module, module_hash(m), n,
				is_of(&image->built[n - 1], m) && image->built[n - 1].table.nrows &&
					(rule = cfi_lookup(&image->cfi, &image->built[n - 1].table,
							   pc)));
	return rule ? *rule : (struct wire_rule){ .cfa = CFA_NONE };
}

static int by_stub(const void *a, const void *b)
{
	const struct planted *x = *(const struct planted *const *)a,
			     *y = *(const struct planted *const *)b;

	return x->stub < y->stub ? -1 : x->stub > y->stub;
}

static int island_table(struct image *image, const struct modules *modules,
			const struct plant *plant, const struct island *island,
			struct wire_module *out)
{
	const struct planted **by = calloc(plant->count + 1, sizeof(*by));
	struct cfi_row *row = calloc(plant->count * 20 + 1, sizeof(*row));
	size_t n = 0, count = 1;
	int err = -ENOMEM;

	if (!row || !by)
		goto out;
	for (size_t i = 0; i < plant->count; i++)
		if (plant->planted[i].stub >= island->start &&
		    plant->planted[i].stub < island->used)
			by[n++] = &plant->planted[i];
	qsort(by, n, sizeof(*by), by_stub);
	for (size_t i = 0; i < n; i++) {
		const struct planted *p = by[i];

		row[count++] = (struct cfi_row){ (uint32_t)(p->stub - island->start),
						 rule_at(image, modules, p->entry) };
		for (unsigned k = 0; p->kind == HOOK_RAW && k < p->ninsn && p->insn[k].to < p->call;
		     k++)
			if (p->insn[k].to)
				row[count++] = (struct cfi_row){
					(uint32_t)(p->orig + p->insn[k].to - island->start),
					rule_at(image, modules, p->entry + p->insn[k].from)
				};
		if (p->kind == HOOK_RAW) {
			struct wire_rule rule = rule_at(image, modules, plant_site(p));

			row[count++] = (struct cfi_row){
				(uint32_t)(p->orig + p->call - PATCH_CHECK - island->start), rule
			};
			row[count++] =
				(struct cfi_row){ (uint32_t)(p->orig + p->call - PATCH_CHECK +
							     PATCH_STANDS - island->start),
						  image_below_red_zone(rule) };
		}
		/* one past the last instruction: the jump back */
		for (unsigned k = 0; k <= p->ninsn && k < sizeof(p->insn) / sizeof(p->insn[0]); k++)
			if (p->insn[k].to >= p->call)
				row[count++] = (struct cfi_row){
					(uint32_t)(p->orig + p->insn[k].to - island->start),
					rule_at(image, modules, p->entry + p->insn[k].from)
				};
	}
	err = cfi_build_rows(&image->cfi, island->start, island->used, row, count, out);
out:
	free(row);
	free(by);
	return err;
}

/*
 * The island's tables, made anew when more has been planted there. NULL: none (then such a walk
 * ends in [truncated]).
 */
static const struct built_island *build_island(struct image *image, const struct modules *modules,
					       const struct plant *plant,
					       const struct island *island)
{
	struct built_island *b = NULL;
	struct wire_module table;

	for (size_t i = 0; i < image->nislands; i++)
		if (image->island[i].start == island->start)
			b = &image->island[i];
	if (b && b->used == island->used && b->count == plant->count)
		return b;
	if (image->island_tables == ISLAND_TABLES ||
	    island_table(image, modules, plant, island, &table) < 0)
		return NULL;
	image->island_tables++;
	if (!b) {
		struct built_island *more =
			reallocarray(image->island, image->nislands + 1, sizeof(*more));

		if (!more)
			return NULL;
		image->island = more;
		b = &image->island[image->nislands++];
	}
	*b = (struct built_island){ island->start, island->used, plant->count, table,
				    image->cfi.nrules };
	return b;
}

static int by_start(const void *a, const void *b)
{
	const struct wire_module *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

#define A_PAGE (PAGE / sizeof(uint64_t)) /* entries of the cache */

/*
 * Pages of the cache that no hook has used yet do not exist, and a look at them would make them. A
 * hook that uses one from now on sees what was published before.
 */
static void cache_forget(struct wire_process *wire, raddr_t start, raddr_t end)
{
	uint8_t there[WIRE_RULE_CACHE / A_PAGE];

	if (mincore(wire->cache, sizeof(wire->cache), there) < 0)
		memset(there, 1, sizeof(there));
	for (uint32_t i = 0; i < WIRE_RULE_CACHE; i++) {
		uint64_t entry;
		raddr_t pc;

		if (!(there[i / A_PAGE] & 1)) {
			i |= A_PAGE - 1;
			continue;
		}
		entry = __atomic_load_n(&wire->cache[i], __ATOMIC_RELAXED);
		pc = wire_cache_pc(i, entry);
		if (pc >= start && pc < end)
			__atomic_store_n(&wire->cache[i], 0, __ATOMIC_SEQ_CST);
	}
}

void image_build(struct image *image, const struct modules *modules)
{
	int err;

	for (size_t i = 0; i < modules->count; i++)
		if (modules->module[i]->dead == UINT32_MAX &&
		    modules->module[i]->text_end > modules->module[i]->text_start)
			(void)!build(image, modules->module[i], &err);
}

struct publication { /* what is to be published, in memory of ours */
	struct wire_module *module;
	uint32_t *rules; /* of each, how far its rules reach */
	uint32_t count, room;
	uint32_t left_out; /* for which there was no room */
};

static void add(struct publication *out, const struct wire_module *table, uint32_t rules)
{
	if (out->count == out->room) {
		out->left_out++;
		return;
	}
	out->rules[out->count] = rules;
	out->module[out->count++] = *table;
}

static int collect(struct image *image, const struct modules *modules, const struct plant *plant,
		   raddr_t agent, struct publication *out)
{
	const struct built *b;
	int err;

	if (!image->blob.elf)
		image->blob = (struct module){ .elf = blob_elf(),
					       .bias = agent + AGENT_BLOB,
					       .start = agent + AGENT_BLOB,
					       .end = agent + AGENT_JOURNAL,
					       .text_start = agent + AGENT_BLOB,
					       .text_end = agent + AGENT_JOURNAL,
					       .dead = UINT32_MAX };
	b = build(image, &image->blob, &err);
	if (!b)
		return err;
	add(out, &b->table, b->rules);
	for (size_t i = 0; i < modules->count; i++) {
		const struct module *m = modules->module[i];

		if (m->dead != UINT32_MAX || m->text_end <= m->text_start)
			continue;
		b = build(image, m, &err);
		if (!b)
			return err;
		add(out, &b->table, b->rules);
	}
	for (size_t i = 0; i < plant->nislands; i++) {
		const struct built_island *t =
			plant->island[i].used > plant->island[i].start
				? build_island(image, modules, plant, &plant->island[i])
				: NULL;

		if (t)
			add(out, &t->table, t->rules);
	}
	return 0;
}

/* Rows that the process cannot read are none. Returns how many modules lose theirs. */
static uint32_t cut_off(struct publication *out, const struct image_view *view)
{
	uint32_t lost = 0;

	for (uint32_t i = 0; i < out->count; i++) {
		struct wire_module *m = &out->module[i];
		uint64_t end = m->index + ((m->end - m->start + 1023) / 1024 + 1) * 4;

		if (!m->nrows ||
		    (end <= view->pool && out->rules[i] * sizeof(struct wire_rule) <= view->rules))
			continue;
		m->nrows = 0;
		lost++;
	}
	return lost;
}

/* LIST is sorted by start. */
static bool has(const struct wire_module *list, uint32_t count, const struct wire_module *m)
{
	size_t at = SEARCH(i, count, list[i].start < m->start);

	return at < count && list[at].start == m->start && list[at].end == m->end &&
	       list[at].rows == m->rows && list[at].nrows == m->nrows;
}

/*
 * The table that is not in use is filled, then it is made the one in use by storing its number.
 * Only then is forgotten what was looked up in the old one: a hook that keeps what it has just
 * found there looks at the number afterwards, and takes it back.
 */
static void publish(const struct publication *out, struct wire_process *wire)
{
	uint32_t now = __atomic_load_n(&wire->modules_now, __ATOMIC_ACQUIRE);
	uint32_t before = __atomic_load_n(&wire->modules[now & 1].count, __ATOMIC_RELAXED);
	struct wire_modules *fresh = &wire->modules[(now + 1) & 1];
	struct wire_module *old;
	bool changed;

	before = before < WIRE_MODULES ? before : WIRE_MODULES;
	old = calloc(before + 1, sizeof(*old));
	changed = !old;
	if (old)
		memcpy(old, wire->modules[now & 1].module, before * sizeof(*old));
	fresh->count = 0;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	memcpy(fresh->module, out->module, out->count * sizeof(*out->module));
	fresh->count = out->count;
	__atomic_store_n(&wire->modules_now, now + 1, __ATOMIC_SEQ_CST);
	for (uint32_t i = 0; old && i < before; i++)
		if (!has(out->module, out->count, &old[i])) {
			cache_forget(wire, old[i].start, old[i].end);
			changed = true;
		}
	/*
	 * a pc that was looked up before its module was known has a cached "no rule", and a stack
	 * may be remembered to end there
	 */
	for (uint32_t i = 0; i < out->count; i++)
		if (before && (!old || !has(old, before, &out->module[i]))) {
			cache_forget(wire, out->module[i].start, out->module[i].end);
			changed = true;
		}
	if (changed)
		__atomic_add_fetch(&wire->flush, 1, __ATOMIC_RELEASE);
	free(old);
}

int image_publish(struct image *image, const struct modules *modules, const struct plant *plant,
		  struct wire_process *wire, raddr_t agent, struct image_view *view,
		  image_extend *extend, void *ctx)
{
	size_t most = 1 + modules->count + plant->nislands,
	       room = most < WIRE_MODULES ? most : WIRE_MODULES;
	struct publication out = { calloc(room, sizeof(*out.module)),
				   calloc(room, sizeof(*out.rules)), 0, (uint32_t)room, 0 };
	struct image_view wanted;
	uint32_t lost;
	int err = out.module && out.rules ? collect(image, modules, plant, agent, &out) : -ENOMEM;

	if (err)
		goto out;
	wanted = (struct image_view){ WIRE_PAGES(image->cfi.nrules * sizeof(struct wire_rule)),
				      WIRE_PAGES(image->cfi.pool_used) };
	if (extend && (wanted.rules > view->rules || wanted.pool > view->pool))
		err = extend(ctx, view, &wanted);
	lost = cut_off(&out, view);
	if (err != -ESRCH) {
		qsort(out.module, out.count, sizeof(*out.module), by_start);
		publish(&out, wire);
		err = lost ? -ENOSPC : out.left_out ? -E2BIG : 0;
	}
out:
	free(out.module);
	free(out.rules);
	return err;
}
