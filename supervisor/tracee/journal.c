// SPDX-License-Identifier: GPL-3.0-or-later
#include "tracee/journal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/maps.h"
#include "base/patient.h"
#include "base/proc.h"
#include "patch/patch.h"

/*
 * journal.c - the record of planted functions and islands in the agent. It is written before they
 * are, and read by a later mtrun should we be killed.
 *
 * It lies in the process' private memory, so that a forked child has it, too. The program can write
 * there. So a record counts only if it agrees with the memory: a function's entry holds the jump to
 * a stub in one of the islands, in an executable mapping; an island is an anonymous r-x mapping of
 * exactly these bounds, empty or beginning with a hook of this agent's.
 */

/* ---- writing ------------------------------------------------------------- */

static raddr_t at(raddr_t agent, size_t offset) { return agent + AGENT_JOURNAL + offset; }

int journal_write(pid_t pid, raddr_t agent, const struct plant *plant)
{
	struct wire_plant *list = calloc(plant->count + 1, sizeof(*list));
	uint32_t count = (uint32_t)plant->count;
	const struct remote_span spans[] = {
		{ at(agent, offsetof(struct wire_journal, plant)), count * sizeof(*list) },
		{ at(agent, offsetof(struct wire_journal, plants)), sizeof(count) }
	};
	int err = plant->count > WIRE_PLANTS ? -ENOSPC : 0;

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < plant->count && !err; i++) {
		const struct planted *p = &plant->planted[i];
		struct wire_plant w = { .entry = p->entry,
					.stub = p->stub,
					.orig = p->orig,
					.nbytes = p->nbytes,
					.ninsn = p->ninsn };

		_Static_assert(sizeof(w.original) == sizeof(p->original) &&
				       sizeof(w.insn) == sizeof(p->insn),
			       "a record holds what a planted function has");
		memcpy(w.original, p->original, sizeof(w.original));
		memcpy(w.patched, p->patched, sizeof(w.patched));
		memcpy(w.insn, p->insn, sizeof(w.insn));
		list[i] = w;
	}
	memcpy(&list[count], &count, sizeof(count)); /* it is written behind them */
	if (!err)
		err = patient_write_spans(pid, spans, 2, list);
	free(list);
	return err;
}

int journal_island(pid_t pid, raddr_t agent, const struct plant *plant, raddr_t start, raddr_t end)
{
	const struct {
		uint64_t island[2];
		uint32_t count;
	} now = { { start, end }, (uint32_t)plant->nislands + 1 };
	const struct remote_span spans[] = {
		{ at(agent,
		     offsetof(struct wire_journal, island) + plant->nislands * sizeof(now.island)),
		  sizeof(now.island) },
		{ at(agent, offsetof(struct wire_journal, islands)), sizeof(now.count) }
	};

	return plant->nislands < WIRE_ISLANDS ? patient_write_spans(pid, spans, 2, &now) : -ENOSPC;
}

/* ---- reading ------------------------------------------------------------- */

static uint64_t read_magic(pid_t pid, raddr_t agent)
{
	uint64_t magic;

	return patient_read(pid, at(agent, 0), &magic, sizeof(magic)) == sizeof(magic) ? magic : 0;
}

/*
 * The trampoline's mapping: anonymous, executable, of that size, with an ELF header, and a journal
 * behind it. Before it lies the guard page.
 */
static raddr_t find_agent(pid_t pid, const struct maps *maps, uint64_t *magic)
{
	for (size_t i = 0; i < maps->count; i++) {
		const struct map *m = &maps->map[i];
		char elf[4];

		if (m->inode || m->path[0] || !m->exec || m->write || m->shared ||
		    m->end - m->start != AGENT_BEACON - AGENT_BLOB)
			continue;
		if (patient_read(pid, m->start, elf, sizeof(elf)) != sizeof(elf) ||
		    memcmp(elf, "\177ELF", sizeof(elf)) != 0)
			continue;
		*magic = read_magic(pid, m->start - AGENT_BLOB);
		if ((*magic ^ WIRE_MAGIC) < 1 << 16)
			return m->start - AGENT_BLOB;
	}
	return 0;
}

/* Whether version 0.1.0, whose trampoline is in a memory file, was here. */
static bool is_old(const struct maps *maps)
{
	for (size_t i = 0; i < maps->count; i++)
		if (maps->map[i].deleted && maps->map[i].exec &&
		    !strcmp(maps->map[i].path, "/memfd:mtrun"))
			return true;
	return false;
}

static bool read_island(pid_t pid, const struct maps *maps, raddr_t agent, raddr_t start,
			raddr_t end)
{
	const struct map *m = maps_find(maps, start);
	uint64_t first;

	if (!m || m->start != start || m->end != end || m->inode || m->path[0] || !m->exec ||
	    m->write || m->shared)
		return false;
	if (patient_read(pid, start, &first, sizeof(first)) != sizeof(first))
		return false;
	return first == 0 || first - agent < AGENT_BEACON;
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

/*
 * Whether the record W is of a jump that can have been ours. (Whether the jump is still there is
 * checked when it is taken away.)
 */
static bool fits(const struct plant *plant, const struct maps *maps, const struct wire_plant *w)
{
	const struct map *m = maps_find(maps, w->entry);
	uint8_t jump[PATCH_JUMP];

	if (!m || !m->exec || w->entry + PATCH_JUMP > m->end || w->nbytes < PATCH_JUMP ||
	    w->nbytes > sizeof(w->original) || w->ninsn > 15)
		return false;
	if (!plant_in_island(plant, w->stub) || !plant_in_island(plant, w->orig) ||
	    patch_jump(jump, w->entry, w->stub) < 0 || memcmp(jump, w->patched, PATCH_JUMP) != 0)
		return false;
	for (unsigned i = 0; i <= w->ninsn; i++)
		if (w->insn[i].from > w->nbytes || w->insn[i].to > PATCH_CODE)
			return false;
	return true;
}

static int add_planted(struct plant *plant, const struct wire_plant *w)
{
	struct planted *bigger = reallocarray(plant->planted, plant->count + 1, sizeof(*bigger)),
		       *p;

	if (!bigger)
		return -ENOMEM;
	plant->planted = bigger;
	p = &bigger[plant->count++];
	*p = (struct planted){ .entry = w->entry,
			       .nbytes = w->nbytes,
			       .stub = w->stub,
			       .orig = w->orig,
			       .ninsn = w->ninsn };
	memcpy(p->original, w->original, sizeof(p->original));
	memcpy(p->patched, w->patched, sizeof(p->patched));
	memcpy(p->insn, w->insn, sizeof(p->insn));
	return 0;
}

static int take(pid_t pid, const struct maps *maps, raddr_t agent, const struct wire_journal *j,
		struct plant *plant)
{
	int err = 0;

	for (uint32_t i = 0; i < j->islands && i < WIRE_ISLANDS && !err; i++)
		if (read_island(pid, maps, agent, j->island[i].start, j->island[i].end))
			err = add_island(plant, j->island[i].start, j->island[i].end);
	for (uint32_t i = 0; i < j->plants && i < WIRE_PLANTS && !err; i++)
		if (fits(plant, maps, &j->plant[i]))
			err = add_planted(plant, &j->plant[i]);
	return err;
}

static int find(pid_t pid, const struct maps *maps, struct leftover *left)
{
	uint64_t magic = 0;
	raddr_t agent = find_agent(pid, maps, &magic);
	struct wire_journal *j;
	int err = 0;

	*left = (struct leftover){ .agent = agent };
	if (!agent)
		return is_old(maps) ? -EPROTO : 0;
	if (magic != (WIRE_MAGIC | WIRE_VERSION))
		return -EPROTO;
	j = malloc(sizeof(*j));
	if (!j)
		return -ENOMEM;
	if (patient_read(pid, at(agent, 0), j, sizeof(*j)) == sizeof(*j))
		err = take(pid, maps, agent, j, &left->plant);
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
