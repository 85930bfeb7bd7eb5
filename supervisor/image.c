// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * image.c - the tables that all processes of one program image share.
 *
 * A module's unwind rows are built once and stay in the image's pool. Which of them a process sees is its own table (wire_modules): there are
 * two, the one not in use is filled, then a single store publishes it. A walk that still reads the old one sees what was right a moment ago.
 */
#include "image.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "array.h"
#include "cfi.h"
#include "elf.h"

struct built {				/* a module's tables; the key is what makes two modules' rows the same */
	struct elf *elf;
	raddr_t bias;
	struct wire_module table;
};

struct built_island {			/* the tables of an island as it was when `count` functions had been planted there */
	raddr_t start, used;
	size_t count;
	struct wire_module table;
};
#define ISLAND_TABLES 4096u		/* made in one image; a program that opens and closes an allocator without end gets no more */

struct image {
	unsigned refs;
	struct wire_image *wire;
	struct cfi cfi;
	struct built *built;
	size_t nbuilt, room;
	struct built_island *island;
	size_t nislands, island_tables;
	struct module blob;		/* the trampoline itself: walks pass through it */
};

#define IMAGE_SIZE (HOME_SIZE - HOME_IMAGE)

/* ---- the embedded trampoline ------------------------------------------------------------------------------------------------------ */

static struct elf *blob_elf(void)
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

void blob_entries(raddr_t base, raddr_t entry[HOOK_KINDS])
{
	static const char *const name[HOOK_KINDS] = {
		[HOOK_MALLOC] = "malloc", [HOOK_CALLOC] = "calloc", [HOOK_REALLOC] = "realloc", [HOOK_REALLOCARRAY] = "reallocarray",
		[HOOK_FREE] = "free", [HOOK_MEMALIGN] = "memalign", [HOOK_POSIX_MEMALIGN] = "posix_memalign", [HOOK_PVALLOC] = "malloc",
		[HOOK_NEW] = "new", [HOOK_NEW_ZERO] = "new_zero", [HOOK_MMAP] = "mmap", [HOOK_MUNMAP] = "munmap", [HOOK_MREMAP] = "mremap",
		[HOOK_MPROTECT] = "mprotect", [HOOK_BRK] = "brk", [HOOK_SBRK] = "sbrk", [HOOK_SYSCALL] = "syscall", [HOOK_PRCTL] = "prctl",
		[HOOK_DEBUG_STATE] = "debug_state", [HOOK_RETURN_0] = "return_0", [HOOK_API] = "api",
		[HOOK_GENERIC_MALLOC] = "generic",
		[HOOK_GENERIC_CALLOC] = "generic", [HOOK_GENERIC_REALLOC] = "generic", [HOOK_GENERIC_FREE] = "generic",
		[HOOK_GENERIC_MEMALIGN] = "generic", [HOOK_GENERIC_POSIX_MEMALIGN] = "generic",
	};
	char symbol[64];

	for (int i = 0; i < HOOK_KINDS; i++) {
		snprintf(symbol, sizeof(symbol), "entry_%s", name[i]);
		entry[i] = base + blob_symbol(symbol);
	}
}

/* ---- life ------------------------------------------------------------------------------------------------------------------------- */

struct image *image_new(int fd, uint64_t offset, int *error)
{
	struct image *image = calloc(1, sizeof(*image));

	*error = -ENOMEM;
	if (!image)
		return NULL;
	image->wire = mmap(NULL, IMAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
	if (image->wire == MAP_FAILED) {
		*error = -errno;
		free(image);
		return NULL;
	}
	*error = cfi_init(&image->cfi, image->wire);
	if (*error) {
		munmap(image->wire, IMAGE_SIZE);
		free(image);
		return NULL;
	}
	image->refs = 1;
	image->wire->nodes = 1;		/* 0 means no stack */
	return image;
}

void image_prepare(const struct modules *modules)
{
	struct wire_image *scratch = mmap(NULL, IMAGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct cfi cfi;

	if (scratch == MAP_FAILED)
		return;
	if (cfi_init(&cfi, scratch) == 0) {
		for (size_t i = 0; i < modules->count; i++) {
			struct wire_module table = { 0 };

			(void)!cfi_build(&cfi, modules->module[i], &table);
		}
		cfi_release(&cfi);
	}
	munmap(scratch, IMAGE_SIZE);
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
	free(image->island);
	cfi_release(&image->cfi);
	munmap(image->wire, IMAGE_SIZE);
	free(image);
}

/* ---- stacks ----------------------------------------------------------------------------------------------------------------------- */

uint32_t image_nodes(const struct image *image)
{
	uint32_t n = __atomic_load_n(&image->wire->nodes, __ATOMIC_ACQUIRE);

	return n < WIRE_NODES ? n : WIRE_NODES;
}

uint32_t image_root(struct image *image)
{
	uint32_t id = __atomic_fetch_add(&image->wire->nodes, 1, __ATOMIC_ACQ_REL);

	if (id >= WIRE_NODES)
		return 1;
	image->wire->node[id] = (struct wire_node){ .pc = 0 };
	return id;
}

uint32_t image_parent(const struct image *image, uint32_t node, uint64_t *pc)
{
	uint32_t parent;

	*pc = 0;
	if (!node || node >= image_nodes(image))
		return 0;
	*pc = __atomic_load_n(&image->wire->node[node].pc, __ATOMIC_RELAXED);
	parent = __atomic_load_n(&image->wire->node[node].parent, __ATOMIC_RELAXED);
	return parent < node ? parent : 0;
}

/* ---- modules ---------------------------------------------------------------------------------------------------------------------- */

static const struct wire_module *build(struct image *image, const struct module *m, int *error)
{
	struct built *b;
	int err;

	*error = 0;
	for (size_t i = 0; i < image->nbuilt; i++)
		if (image->built[i].elf == m->elf && image->built[i].bias == m->bias && image->built[i].table.start == m->text_start)
			return &image->built[i].table;
	if (array_room(&image->built, image->nbuilt, &image->room, sizeof(*image->built))) {
		*error = -ENOMEM;
		return NULL;
	}
	b = &image->built[image->nbuilt];
	memset(&b->table, 0, sizeof(b->table));
	err = cfi_build(&image->cfi, m, &b->table);
	if (err) {			/* no unwind information: known, but without rows */
		b->table = (struct wire_module){ .start = m->text_start, .end = m->text_end };
	}
	b->elf = elf_ref(m->elf);
	b->bias = m->bias;
	image->nbuilt++;
	return &b->table;
}

/*
 * In an island the state of the stack is that of the place the instruction was moved from; in a stub, of the function's entry. A handler's walk
 * comes there when the signal interrupted a hooked function's first instructions.
 */
static struct wire_rule rule_at(const struct image *image, const struct modules *modules, raddr_t pc)
{
	const struct module *m = modules_find(modules, pc, UINT32_MAX);
	const struct wire_rule *rule = NULL;

	for (size_t i = 0; m && i < image->nbuilt && !rule; i++)
		if (image->built[i].elf == m->elf && image->built[i].bias == m->bias && image->built[i].table.nrows)
			rule = cfi_lookup(&image->cfi, &image->built[i].table, pc);
	return rule ? *rule : (struct wire_rule){ .cfa = CFA_NONE };
}

static int by_stub(const void *a, const void *b)
{
	const struct planted *x = *(const struct planted *const *)a, *y = *(const struct planted *const *)b;

	return x->stub < y->stub ? -1 : x->stub > y->stub;
}

static int island_table(struct image *image, const struct modules *modules, const struct plant *plant, const struct island *island, struct wire_module *out)
{
	const struct planted **by = calloc(plant->count + 1, sizeof(*by));
	struct cfi_row *row = calloc(plant->count * 18 + 1, sizeof(*row));
	size_t n = 0, count = 1;
	int err = -ENOMEM;

	if (!row || !by)
		goto out;
	for (size_t i = 0; i < plant->count; i++)
		if (plant->planted[i].stub >= island->start && plant->planted[i].stub < island->used)
			by[n++] = &plant->planted[i];
	qsort(by, n, sizeof(*by), by_stub);
	for (size_t i = 0; i < n; i++) {
		const struct planted *p = by[i];

		row[count++] = (struct cfi_row){ (uint32_t)(p->stub - island->start), rule_at(image, modules, p->entry) };
		/* one past the last instruction: the jump back */
		for (unsigned k = 0; k <= p->ninsn && k < sizeof(p->insn) / sizeof(p->insn[0]); k++)
			row[count++] = (struct cfi_row){ (uint32_t)(p->orig + p->insn[k].to - island->start), rule_at(image, modules, p->entry + p->insn[k].from) };
	}
	err = cfi_build_rows(&image->cfi, island->start, island->used, row, count, out);
out:
	free(row);
	free(by);
	return err;
}

/* The island's tables, made anew when more has been planted there. NULL: none (then such a walk ends in [truncated]). */
static const struct wire_module *build_island(struct image *image, const struct modules *modules, const struct plant *plant, const struct island *island)
{
	struct built_island *b = NULL;
	struct wire_module table;

	for (size_t i = 0; i < image->nislands; i++)
		if (image->island[i].start == island->start)
			b = &image->island[i];
	if (b && b->used == island->used && b->count == plant->count)
		return &b->table;
	if (image->island_tables == ISLAND_TABLES || island_table(image, modules, plant, island, &table) < 0)
		return NULL;
	image->island_tables++;
	if (!b) {
		struct built_island *more = reallocarray(image->island, image->nislands + 1, sizeof(*more));

		if (!more)
			return NULL;
		image->island = more;
		b = &image->island[image->nislands++];
	}
	*b = (struct built_island){ island->start, island->used, plant->count, table };
	return &b->table;
}

static int by_start(const void *a, const void *b)
{
	const struct wire_module *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static void cache_forget(struct wire_image *image, raddr_t start, raddr_t end)
{
	for (uint32_t i = 0; i < WIRE_RULE_CACHE; i++) {
		uint64_t pc = __atomic_load_n(&image->cache[i], __ATOMIC_RELAXED) >> 16;

		if (pc >= start && pc < end)
			__atomic_store_n(&image->cache[i], 0, __ATOMIC_RELAXED);
	}
}

int image_publish(struct image *image, const struct modules *modules, const struct plant *plant, struct wire_process *wire)
{
	uint32_t now = __atomic_load_n(&wire->modules_now, __ATOMIC_ACQUIRE) & 1, n = 0;
	const struct wire_modules *old = &wire->modules[now];
	struct wire_modules *fresh = &wire->modules[!now];
	const struct wire_module *table;
	bool gone = false;
	int err;

	if (!image->blob.elf) {
		raddr_t home = wire->home;

		image->blob = (struct module){ .elf = blob_elf(), .bias = home + HOME_BLOB, .start = home + HOME_BLOB, .end = home + HOME_BEACON,
			.text_start = home + HOME_BLOB, .text_end = home + HOME_BEACON, .dead = UINT32_MAX };
	}
	table = build(image, &image->blob, &err);
	if (!table)
		return err;
	fresh->module[n++] = *table;
	for (size_t i = 0; i < modules->count && n < WIRE_MODULES; i++) {
		const struct module *m = modules->module[i];

		if (m->dead != UINT32_MAX || m->text_end <= m->text_start)
			continue;
		table = build(image, m, &err);
		if (!table)
			return err;
		fresh->module[n++] = *table;
	}
	for (size_t i = 0; i < plant->nislands && n < WIRE_MODULES; i++) {
		table = plant->island[i].used > plant->island[i].start ? build_island(image, modules, plant, &plant->island[i]) : NULL;
		if (table)
			fresh->module[n++] = *table;
	}
	qsort(fresh->module, n, sizeof(fresh->module[0]), by_start);
	fresh->count = n;
	__atomic_store_n(&wire->modules_now, !now, __ATOMIC_RELEASE);
	for (uint32_t i = 0; i < old->count && i < WIRE_MODULES; i++) {
		bool stays = false;

		for (uint32_t k = 0; k < n && !stays; k++)
			stays = fresh->module[k].start == old->module[i].start && fresh->module[k].rows == old->module[i].rows;
		if (!stays) {
			cache_forget(image->wire, old->module[i].start, old->module[i].end);
			gone = true;
		}
	}
	/* a pc that was looked up before its module was known has a cached "no rule" */
	for (uint32_t k = 0; k < n; k++) {
		bool known = false;

		for (uint32_t i = 0; i < old->count && i < WIRE_MODULES && !known; i++)
			known = fresh->module[k].start == old->module[i].start && fresh->module[k].end == old->module[i].end;
		if (!known && old->count)
			cache_forget(image->wire, fresh->module[k].start, fresh->module[k].end);
	}
	if (gone)
		__atomic_add_fetch(&wire->flush, 1, __ATOMIC_RELEASE);
	return 0;
}
