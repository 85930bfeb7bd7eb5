// SPDX-License-Identifier: GPL-3.0-or-later
#include "symbols/module.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/hash_index.h"
#include "base/maps.h"
#include "base/outside.h"
#include "base/patient.h"
#include "base/proc.h"
#include "base/search.h"
#include "base/text.h"
#include "symbols/elf.h"

/*
 * module.c - which objects are mapped in a process, told from its maps.
 *
 * Rows of one file follow each other with growing offsets, perhaps with anonymous rows (.bss, gaps)
 * between: that is one span. A span with executable pages is a module; where it lies compared to
 * what its program headers say is its bias. The list only grows: what vanished from the maps is
 * marked dead, what comes back at the same place lives again, so that a stack recorded at any time
 * finds the module that was there then.
 *
 * The maps are read at each dlopen, so the usual case, nothing new, opens nothing. A program may
 * have tens of thousands of modules: what is mapped is looked for by its place, not in the list.
 */

#define PAGE_MASK 4095ull

/* One object in the maps, not yet compared with the list. */
struct span {
	const struct map *first; /* its lowest row */
	const struct map *text;	 /* its lowest executable row */
	raddr_t end;
	raddr_t text_start, text_end;
	uint64_t last_offset;
	bool vdso;
};

static uint64_t map_dev(const struct map *m) { return (uint64_t)m->dev_major << 32 | m->dev_minor; }

static bool same_object(const struct map *a, const struct map *b)
{
	return a->inode == b->inode && a->dev_major == b->dev_major &&
	       a->dev_minor == b->dev_minor && strcmp(a->path, b->path) == 0;
}

static void span_start(struct span *s, const struct map *m)
{
	memset(s, 0, sizeof(*s));
	s->first = m;
	s->end = m->end;
	s->last_offset = m->offset;
	s->vdso = strcmp(m->path, "[vdso]") == 0;
}

static void span_add(struct span *s, const struct map *m)
{
	s->end = m->end;
	s->last_offset = m->offset;
	if (!m->exec)
		return;
	if (!s->text) {
		s->text = m;
		s->text_start = m->start;
	}
	s->text_end = m->end;
}

/*
 * The next span of MAPS from row *I on. It ends where another file begins, or where the same file
 * begins again (offsets do not grow: mapped twice). Anonymous rows between two rows of one file
 * belong to it; behind the last one they do only as .bss, which nobody asks for.
 */
static bool next_span(const struct maps *maps, size_t *i, struct span *s)
{
	size_t j;

	while (*i < maps->count && !maps->map[*i].inode &&
	       strcmp(maps->map[*i].path, "[vdso]") != 0)
		(*i)++;
	if (*i == maps->count)
		return false;
	span_start(s, &maps->map[*i]);
	span_add(s, s->first);
	for (j = *i + 1; j < maps->count; j++) {
		const struct map *m = &maps->map[j];

		if (!m->inode && !m->path[0] && !s->vdso)
			continue;
		if (s->vdso || !same_object(m, s->first) || m->offset < s->last_offset ||
		    (m->offset == 0 && s->last_offset == 0))
			break;
		span_add(s, m);
	}
	/*
	 * step over the rows used, but not over anonymous ones that turned out to lie behind the
	 * end: they are skipped above anyway
	 */
	*i = j;
	return true;
}

/* ---- one module ---------------------------------------------------------- */

/*
 * Is the file behind FD the one that is mapped? Device numbers are no help (btrfs, overlayfs): the
 * inode, or else the first page.
 */
static bool is_mapped_file(int fd, pid_t pid, const struct span *s)
{
	uint8_t file[1024], memory[1024];
	struct stat st;

	if (fstat(fd, &st) == 0 && st.st_ino == s->first->inode)
		return true;
	return s->first->offset == 0 && pread(fd, file, sizeof(file), 0) == sizeof(file) &&
	       patient_read(pid, s->first->start, memory, sizeof(memory)) == sizeof(memory) &&
	       memcmp(file, memory, sizeof(file)) == 0;
}

/*
 * By the mapping itself, which the kernel names and the process holds open for reading or running;
 * that needs privileges, which mtrun uses for it also where the process may run its own executable
 * but not read it. Else by its path, as the process sees it.
 */
static int open_mapped_file(pid_t pid, struct outside *from, const struct span *s)
{
	char name[64];
	int fd;

	if (!pid)
		return s->first->deleted ? -ENOENT
					 : outside_open(from, s->first->path, OUTSIDE_DEBUG);
	snprintf(name, sizeof(name), "map_files/%llx-%llx", (unsigned long long)s->first->start,
		 (unsigned long long)s->first->end);
	fd = outside_reopen(pid, patient_open(pid, name, O_PATH), OUTSIDE_DEBUG);
	if (fd >= 0)
		return fd;
	fd = s->first->deleted ? -ENOENT : outside_open(from, s->first->path, OUTSIDE_DEBUG);
	if (fd < 0 || is_mapped_file(fd, pid, s))
		return fd;
	close(fd);
	return -ENOENT;
}

static struct elf *read_vdso(pid_t pid, const struct span *s)
{
	size_t size = s->end - s->first->start;
	struct elf *elf = NULL;
	uint8_t *bytes;
	ssize_t n;
	int err;

	if (size > 1 << 20)
		return NULL;
	bytes = malloc(size);
	n = bytes ? patient_read(pid, s->first->start, bytes, size) : -1;
	if (n > 0)
		elf = elf_from_bytes(bytes, (size_t)n, &err);
	free(bytes);
	return elf;
}

/* PID 0: of what was recorded, of a process that nothing else is known of. */
static struct elf *read_elf(pid_t pid, struct outside *from, const struct span *s)
{
	struct elf *elf = NULL;
	int fd, err;

	if (s->vdso) {
		elf = pid ? read_vdso(pid, s) : NULL;
	} else {
		fd = open_mapped_file(pid, from, s);
		if (fd >= 0) {
			elf = elf_open(fd, &err);
			close(fd);
		}
	}
	return elf ? elf : elf_empty();
}

/*
 * The row MAP of the file lies at start; the segment that contains its offset says which address
 * the file means.
 */
static raddr_t bias_of(const struct elf *elf, const struct map *map)
{
	const struct elf_segment *seg;
	size_t n = elf_segments(elf, &seg);

	for (size_t i = 0; i < n; i++) {
		uint64_t from = seg[i].offset & ~PAGE_MASK;

		if (seg[i].type == PT_LOAD && map->exec == !!(seg[i].flags & PF_X) &&
		    map->offset >= from && map->offset < seg[i].offset + seg[i].filesz)
			return map->start - (seg[i].vaddr - seg[i].offset + map->offset);
	}
	return map->start - map->offset;
}

/*
 * musl's one object is called libc.so, ld-musl-x86_64.so.1 or libc.musl-x86_64.so.1, and is both;
 * glibc's are two.
 */
static unsigned roles_by_name(const struct elf *elf, const char *path)
{
	const char *name = elf_soname(elf);
	unsigned roles = 0;

	if (!name)
		name = text_last_part(path);
	if (text_begins(name, "libc.so.6"))
		roles |= MODULE_LIBC;
	else if (text_begins(name, "ld-linux") || text_begins(name, "ld-2."))
		roles |= MODULE_LDSO;
	else if (text_begins(name, "ld-musl-") || text_begins(name, "libc.musl-"))
		roles |= MODULE_LIBC | MODULE_LDSO;
	else if (strcmp(name, "libc.so") == 0 && elf_defines(elf, "__libc_start_main"))
		roles |= MODULE_LIBC |
			 (elf_defines(elf, "_dl_debug_state") || elf_defines(elf, "__dls2b")
				  ? MODULE_LDSO
				  : 0);
	else if (text_begins(name, "libstdc++.so") || text_begins(name, "libc++.so") ||
		 text_begins(name, "libc++abi.so") || text_begins(name, "libsupc++.so"))
		roles |= MODULE_CXX;
	return roles;
}

static void auxv_read(struct modules_auxv *aux, pid_t pid)
{
	Elf64_auxv_t entry;
	char text[4096];
	ssize_t n = patient_file(pid, "auxv", text, sizeof(text));

	*aux = (struct modules_auxv){ .known = n >= 0 };
	for (ssize_t at = 0; at + (ssize_t)sizeof(entry) <= n; at += (ssize_t)sizeof(entry)) {
		memcpy(&entry, text + at, sizeof(entry));
		if (entry.a_type == AT_ENTRY)
			aux->entry = entry.a_un.a_val;
		else if (entry.a_type == AT_BASE)
			aux->base = entry.a_un.a_val;
	}
}

static unsigned roles_of(const struct module *m, const struct modules_auxv *aux)
{
	unsigned roles = roles_by_name(m->elf, m->path);

	if (strcmp(m->path, "[vdso]") == 0)
		return MODULE_VDSO;
	if (aux->entry >= m->start && aux->entry < m->end)
		roles |= MODULE_EXE;
	if (aux->base && aux->base == m->start) {
		roles |= MODULE_LDSO;
		if (elf_defines(m->elf, "__libc_start_main"))
			roles |= MODULE_LIBC;
	}
	return roles;
}

static void module_free(struct module *m)
{
	if (!m)
		return;
	elf_unref(m->elf);
	free(m->path);
	free(m);
}

static struct module *module_new(pid_t pid, struct outside *from, const struct span *s,
				 const struct modules_auxv *aux)
{
	struct module *m = calloc(1, sizeof(*m));
	const uint8_t *id;

	if (!m)
		return NULL;
	m->path = strdup(s->first->path);
	m->elf = read_elf(pid, from, s);
	if (!m->path || !m->elf) {
		module_free(m);
		return NULL;
	}
	m->start = s->first->start;
	m->end = s->end;
	m->text_start = s->text_start;
	m->text_end = s->text_end;
	m->bias = bias_of(m->elf, s->text);
	m->dev = map_dev(s->first);
	m->inode = s->first->inode;
	m->dead = UINT32_MAX;
	m->build_id_len = elf_build_id(m->elf, &id);
	if (m->build_id_len)
		memcpy(m->build_id, id, m->build_id_len);
	m->roles = roles_of(m, aux);
	return m;
}

/* ---- the list ------------------------------------------------------------ */

static bool is_at(const struct module *m, const struct span *s)
{
	return m->text_start == s->text_start && m->start == s->first->start &&
	       m->inode == s->first->inode && m->dev == map_dev(s->first) &&
	       strcmp(m->path, s->first->path) == 0;
}

/* The numbers of LIST's modules, by where they are. No two have the same place and file. */
struct places {
	const struct modules *list;
	struct hash_index index;
};

static uint32_t place_hash(raddr_t start, raddr_t text_start, uint64_t inode)
{
	return hash_number(hash_number(hash_number(HASH_SEED, start), text_start), inode);
}

/* The next module of LIST, which was appended. 0 or -ENOMEM. */
static int places_add(struct places *places)
{
	size_t n = places->index.count;
	const struct module *m = places->list->module[n];

	return hash_index_add(&places->index, place_hash(m->start, m->text_start, m->inode),
			      (uint32_t)n + 1);
}

static int places_init(struct places *places, const struct modules *list)
{
	int err = 0;

	*places = (struct places){ .list = list };
	for (size_t i = 0; i < list->count && !err; i++)
		err = places_add(places);
	return err;
}

/* The number of the module that S is, from 1 on; 0: it is new. */
static uint32_t find_span(const struct places *places, const struct span *s)
{
	return HASH_FIND(&places->index,
			 place_hash(s->first->start, s->text_start, s->first->inode), n,
			 is_at(places->list->module[n - 1], s));
}

/*
 * By start. REACH: the highest end of this one and of those before: what lies above it none of them
 * holds.
 */
struct module_order {
	raddr_t start, reach;
	uint32_t number;
};

static int by_start(const void *a, const void *b)
{
	const struct module_order *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

void modules_sort(struct modules *list)
{
	struct module_order *p = list->by_address;
	bool sorted = true;
	raddr_t reach = 0;

	for (size_t i = 1; i < list->count && sorted; i++)
		sorted = p[i - 1].start <= p[i].start;
	if (!sorted)
		qsort(p, list->count, sizeof(*p), by_start);
	for (size_t i = 0; i < list->count; i++) {
		raddr_t end = list->module[p[i].number]->end;

		reach = end > reach ? end : reach;
		p[i].reach = reach;
	}
}

static int append(struct modules *list, struct module *m)
{
	if ((list->count & (list->count - 1)) == 0) { /* grows at powers of two */
		size_t room = list->count ? list->count * 2 : 1;
		struct module **module = realloc(list->module, room * sizeof(struct module *));
		struct module_order *order;

		if (!module)
			return -ENOMEM;
		list->module = module;
		order = realloc(list->by_address, room * sizeof(*order));
		if (!order)
			return -ENOMEM;
		list->by_address = order;
	}
	list->by_address[list->count] =
		(struct module_order){ .start = m->start, .number = (uint32_t)list->count };
	list->module[list->count++] = m;
	return 0;
}

/*
 * Marks what MAPS no longer shows as dead, so that it neither stands in the way of, nor is taken
 * for, what is there now. 0 or -ENOMEM.
 */
static int bury(const struct places *places, const struct maps *maps, uint32_t node)
{
	const struct modules *list = places->list;
	bool *seen = calloc(list->count + 1, sizeof(*seen));
	uint32_t number;
	size_t i = 0;
	struct span s;

	if (!seen)
		return -ENOMEM;
	while (next_span(maps, &i, &s)) {
		number = s.text ? find_span(places, &s) : 0;
		seen[number] = true;
	}
	for (size_t k = 0; k < list->count; k++) {
		struct module *m = list->module[k];

		if (m->dead == UINT32_MAX && !seen[k + 1])
			m->dead = node;
	}
	free(seen);
	return 0;
}

/* A module that came back. Its text is as in the file again: not planted. */
static void revive(struct module *m, const struct span *s)
{
	m->dead = UINT32_MAX;
	m->end = s->end;
	m->text_end = s->text_end;
	m->planted = false;
}

struct update {
	struct modules *list;
	pid_t pid;
	struct outside *from;
	uint32_t node;
	struct places places;
	bool asked;	       /* for its auxiliary vector */
	struct module **fresh; /* new and revived ones, from the lowest on */
	size_t nfresh, room;
};

static struct module *append_span(struct update *u, const struct span *s)
{
	struct module *m;

	if (!u->list->aux.known && !u->asked)
		auxv_read(&u->list->aux, u->pid);
	u->asked = true;
	m = module_new(u->pid, u->from, s, &u->list->aux);
	if (!m || append(u->list, m) < 0) {
		module_free(m);
		return NULL;
	}
	m->born = u->node;
	return places_add(&u->places) ? NULL : m;
}

/* S is mapped. 0 or -ENOMEM. */
static int update_span(struct update *u, const struct span *s)
{
	uint32_t number = find_span(&u->places, s);
	struct module *m = number ? u->list->module[number - 1] : NULL;

	if (m && m->dead == UINT32_MAX) {
		m->end = s->end > m->end ? s->end : m->end;
		m->text_end = s->text_end > m->text_end ? s->text_end : m->text_end;
		return 0;
	}
	if (array_room(&u->fresh, u->nfresh, &u->room, sizeof(struct module *)))
		return -ENOMEM;
	if (m)
		revive(m, s);
	else
		m = append_span(u, s);
	if (!m)
		return -ENOMEM;
	u->fresh[u->nfresh++] = m;
	return 0;
}

/* Whether a new module lies where a dead one was. */
static bool overlaps_dead(const struct update *u)
{
	for (size_t i = 0; u->nfresh && i < u->list->count; i++) {
		const struct module *o = u->list->module[i];
		size_t at = o->dead == UINT32_MAX
				    ? u->nfresh
				    : SEARCH(k, u->nfresh, u->fresh[k]->end <= o->start);

		if (at < u->nfresh && u->fresh[at]->start < o->end)
			return true;
	}
	return false;
}

int modules_update(struct modules *list, pid_t pid, struct outside *from, const struct maps *maps,
		   uint32_t node, bool *overlap)
{
	struct update u = { .list = list, .pid = pid, .from = from, .node = node };
	int err = places_init(&u.places, list);
	struct span s;
	size_t i = 0;

	if (!err)
		err = bury(&u.places, maps, node);
	while (!err && next_span(maps, &i, &s))
		err = s.text ? update_span(&u, &s) : 0;
	modules_sort(list);
	if (!err && overlap)
		*overlap = overlaps_dead(&u);
	hash_index_release(&u.places.index);
	free(u.fresh);
	return err ? err : (int)u.nfresh;
}

int modules_recorded(struct modules *list, struct outside *from, const struct maps *maps)
{
	const struct modules_auxv nothing = { .known = true };
	struct module *m;
	struct span s;
	size_t i = 0;

	while (next_span(maps, &i, &s)) {
		if (!s.text)
			continue;
		m = module_new(0, from, &s, &nothing);
		if (!m || append(list, m) < 0) {
			module_free(m);
			return -ENOMEM;
		}
	}
	modules_sort(list);
	return 0;
}

/* How many begin at or below ADDRESS. */
static size_t begin_up_to(const struct modules *list, raddr_t address)
{
	return SEARCH(i, list->count, list->by_address[i].start <= address);
}

const struct module *modules_find(const struct modules *list, raddr_t pc, uint32_t node)
{
	const struct module *found = NULL;
	uint32_t number = 0;

	for (size_t i = begin_up_to(list, pc); i-- > 0 && list->by_address[i].reach > pc;) {
		const struct module *m = list->module[list->by_address[i].number];

		if (pc >= m->end || (found && list->by_address[i].number < number))
			continue;
		if (node == UINT32_MAX ? m->dead == UINT32_MAX
				       : node >= m->born && node < m->dead) {
			found = m;
			number = list->by_address[i].number;
		}
	}
	return found;
}

/* What was not loaded as the file says, but mapped by somebody, has no .bss behind it. */
raddr_t module_memory_end(const struct module *m)
{
	const struct elf_segment *segment;
	size_t n = elf_segments(m->elf, &segment);

	for (size_t i = 0; i < n; i++) {
		raddr_t at = m->bias + segment[i].vaddr, file_end = at + segment[i].filesz;

		if (segment[i].type == PT_LOAD && at <= m->end &&
		    ((file_end + PAGE_MASK) & ~PAGE_MASK) >= m->end)
			return at + segment[i].memsz;
	}
	return m->end;
}

const struct module *modules_find_data(const struct modules *list, raddr_t address)
{
	const struct module *found = modules_find(list, address, UINT32_MAX), *below = NULL;

	/* what is behind its end, of the nearest one below */
	for (size_t i = found ? 0 : begin_up_to(list, address); i-- > 0 && !below;) {
		const struct module *m = list->module[list->by_address[i].number];

		if (m->dead == UINT32_MAX && address >= m->end)
			below = m;
	}
	return below && address < module_memory_end(below) ? below : found;
}

int modules_add(struct modules *list, const struct module *m)
{
	struct module *copy = malloc(sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	*copy = *m;
	copy->path = strdup(m->path);
	copy->elf = elf_empty();
	if (copy->path && copy->elf && append(list, copy) == 0)
		return 0;
	module_free(copy);
	return -ENOMEM;
}

int modules_copy(struct modules *to, const struct modules *from)
{
	struct modules list = { .aux = from->aux };
	struct module *m;

	for (size_t i = 0; i < from->count; i++) {
		m = malloc(sizeof(*m));
		if (!m)
			goto fail;
		*m = *from->module[i];
		elf_ref(m->elf);
		m->path = strdup(m->path);
		if (!m->path || append(&list, m) < 0) {
			module_free(m);
			goto fail;
		}
	}
	modules_sort(&list);
	*to = list;
	return 0;
fail:
	modules_release(&list);
	return -ENOMEM;
}

void modules_release(struct modules *list)
{
	for (size_t i = 0; i < list->count; i++)
		module_free(list->module[i]);
	free(list->module);
	free(list->by_address);
	*list = (struct modules){ 0 };
}
