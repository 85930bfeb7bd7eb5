// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * journal.c - the record of planted functions and islands in the home, written before the deed, and read by whoever comes after our death.
 *
 * It lies in memory that the program can write. So a record counts only where it fits what is in place: a function's entry holds the jump to a stub in one
 * of the islands, in an executable mapping; an island is an anonymous r-x mapping of just these bounds, empty or beginning with a hook of this home's.
 */
#include "journal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "patch.h"
#include "proc.h"

/* ---- writing ----------------------------------------------------------------------------------------------------------------------- */

int journal_write(struct wire_journal *journal, const struct plant *plant)
{
	if (plant->count > WIRE_PLANTS)
		return -ENOSPC;
	for (size_t i = 0; i < plant->count; i++) {
		const struct planted *p = &plant->planted[i];
		struct wire_plant w = { .entry = p->entry, .stub = p->stub, .orig = p->orig, .nbytes = p->nbytes, .ninsn = p->ninsn };

		_Static_assert(sizeof(w.original) == sizeof(p->original) && sizeof(w.insn) == sizeof(p->insn), "a record holds what a planted function has");
		memcpy(w.original, p->original, sizeof(w.original));
		memcpy(w.patched, p->patched, sizeof(w.patched));
		memcpy(w.insn, p->insn, sizeof(w.insn));
		journal->plant[i] = w;
	}
	__atomic_store_n(&journal->plants, (uint32_t)plant->count, __ATOMIC_RELEASE);
	return 0;
}

int journal_island(struct wire_journal *journal, raddr_t start, raddr_t end)
{
	uint32_t n = journal->islands;

	if (n >= WIRE_ISLANDS)
		return -ENOSPC;
	journal->island[n].start = start;
	journal->island[n].end = end;
	__atomic_store_n(&journal->islands, n + 1, __ATOMIC_RELEASE);
	return 0;
}

void journal_no_island(struct wire_journal *journal)
{
	uint32_t n = journal->islands;

	if (n > 0 && n <= WIRE_ISLANDS)
		__atomic_store_n(&journal->islands, n - 1, __ATOMIC_RELEASE);
}

/* ---- reading ----------------------------------------------------------------------------------------------------------------------- */

static bool is_ours(const struct map *m)
{
	return m->deleted && !strcmp(m->path, "/memfd:mtrun");
}

/* The blob's mapping is the one that is executable; the guard page lies before it. 0: there is none. */
static raddr_t find_home(const struct maps *maps)
{
	for (size_t i = 0; i < maps->count; i++) {
		const struct map *m = &maps->map[i];

		if (is_ours(m) && m->exec && !m->write && m->offset == HOME_BLOB)
			return m->start - HOME_BLOB;
	}
	return 0;
}

/* A landing that was cut short before it had its parts: all of the file, in one mapping. */
static raddr_t find_bare(const struct maps *maps)
{
	for (size_t i = 0; i < maps->count; i++) {
		const struct map *m = &maps->map[i];

		if (is_ours(m) && m->offset == 0 && m->start % 4096 == 0)
			return m->start;
	}
	return 0;
}

static bool read_island(pid_t pid, const struct maps *maps, raddr_t home, raddr_t start, raddr_t end)
{
	const struct map *m = maps_find(maps, start);
	uint64_t first;

	if (!m || m->start != start || m->end != end || m->inode || m->path[0] || !m->exec || m->write || m->shared)
		return false;
	if (remote_read(pid, start, &first, sizeof(first)) != sizeof(first))
		return false;
	return first == 0 || first - home < HOME_BEACON;
}

static int add_island(struct plant *plant, raddr_t start, raddr_t end)
{
	struct island *bigger = reallocarray(plant->island, plant->nislands + 1, sizeof(*bigger));

	if (!bigger)
		return -ENOMEM;
	plant->island = bigger;
	bigger[plant->nislands++] = (struct island){ start, end, end };
	return 0;
}

static bool in_island(const struct plant *plant, raddr_t at)
{
	for (size_t i = 0; i < plant->nislands; i++)
		if (at >= plant->island[i].start && at < plant->island[i].end)
			return true;
	return false;
}

/* Whether the record W is of a jump that could have been ours. (Whether it still stands is looked at when it is taken away.) */
static bool fits(const struct plant *plant, const struct maps *maps, const struct wire_plant *w)
{
	const struct map *m = maps_find(maps, w->entry);
	uint8_t jump[PATCH_JUMP];

	if (!m || !m->exec || w->entry + PATCH_JUMP > m->end || w->nbytes < PATCH_JUMP || w->nbytes > sizeof(w->original) || w->ninsn > 15)
		return false;
	if (!in_island(plant, w->stub) || !in_island(plant, w->orig) || patch_jump(jump, w->entry, w->stub) < 0 || memcmp(jump, w->patched, PATCH_JUMP) != 0)
		return false;
	for (unsigned i = 0; i <= w->ninsn; i++)
		if (w->insn[i].from > w->nbytes || w->insn[i].to > PATCH_CODE)
			return false;
	return true;
}

static int add_planted(struct plant *plant, const struct wire_plant *w)
{
	struct planted *bigger = reallocarray(plant->planted, plant->count + 1, sizeof(*bigger)), *p;

	if (!bigger)
		return -ENOMEM;
	plant->planted = bigger;
	p = &bigger[plant->count++];
	*p = (struct planted){ .entry = w->entry, .nbytes = w->nbytes, .stub = w->stub, .orig = w->orig, .ninsn = w->ninsn };
	memcpy(p->original, w->original, sizeof(p->original));
	memcpy(p->patched, w->patched, sizeof(p->patched));
	memcpy(p->insn, w->insn, sizeof(p->insn));
	return 0;
}

static int take(pid_t pid, const struct maps *maps, raddr_t home, const struct wire_journal *j, struct plant *plant)
{
	int err = 0;

	for (uint32_t i = 0; i < j->islands && i < WIRE_ISLANDS && !err; i++)
		if (read_island(pid, maps, home, j->island[i].start, j->island[i].end))
			err = add_island(plant, j->island[i].start, j->island[i].end);
	for (uint32_t i = 0; i < j->plants && i < WIRE_PLANTS && !err; i++)
		if (fits(plant, maps, &j->plant[i]))
			err = add_planted(plant, &j->plant[i]);
	return err;
}

static int find(pid_t pid, const struct maps *maps, struct leftover *left)
{
	raddr_t home = find_home(maps);
	struct wire_journal *j;
	uint64_t magic = 0;
	int err = 0;

	*left = (struct leftover){ .home = home ? home : find_bare(maps) };
	if (!home)
		return left->home != 0;
	if (remote_read(pid, home + HOME_PROCESS, &magic, sizeof(magic)) == sizeof(magic) && magic && magic != (WIRE_MAGIC | WIRE_VERSION))
		return -EPROTO;
	j = magic ? malloc(sizeof(*j)) : NULL;
	if (magic && !j)
		return -ENOMEM;
	if (j && remote_read(pid, home + HOME_PROCESS + offsetof(struct wire_process, journal), j, sizeof(*j)) == sizeof(*j))
		err = take(pid, maps, home, j, &left->plant);
	free(j);
	if (err)
		plant_release(&left->plant);
	return err ? err : 1;
}

int journal_find(pid_t pid, struct leftover *left)
{
	struct maps maps;
	int err = maps_read(&maps, pid);

	if (err)
		return err;
	err = find(pid, &maps, left);
	maps_release(&maps);
	return err;
}
