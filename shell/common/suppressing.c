// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/suppressing.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/message.h"
#include "base/outside.h"
#include "process/process.h"
#include "process/profile.h"
#include "report/sites.h"
#include "session/asking.h"
#include "shell/common/lookup.h"
#include "shell/common/shell.h"

/*
 * Files are read before the program is started, so that a mistake in one costs nothing. Symbol
 * tables are asked for the other names of a function (strdup is also __strdup) only here: for
 * reports one name is enough, and the tables of large programs take their time to be read.
 */
#define FILE_MOST ((uint64_t)16 << 20)
#define ALIASES	  8u

/* ---- files --------------------------------------------------------------- */

/* All of PATH, which the user has named, in *TEXT. Bytes, or -errno. */
static ssize_t read_file(const char *path, char **text)
{
	int fd = open(path, O_PATH | O_CLOEXEC);
	size_t have = 0;
	struct stat st;
	ssize_t n = 0;

	fd = fd < 0 ? -errno : outside_reopen(0, fd, FILE_MOST);
	if (fd < 0)
		return fd;
	*text = fstat(fd, &st) ? NULL : malloc((size_t)st.st_size + 1);
	while (*text && have < (size_t)st.st_size &&
	       (n = read(fd, *text + have, (size_t)st.st_size - have)) > 0)
		have += (size_t)n;
	n = !*text ? -ENOMEM : n < 0 ? -errno : (ssize_t)have;
	close(fd);
	if (n < 0)
		free(*text);
	return n;
}

static int add_file(struct suppressions *s, const char *path)
{
	char *text, why[256];
	ssize_t len = read_file(path, &text);
	int err;

	if (len < 0) {
		message_error("cannot read '%s' (--suppressions): %s", path,
			      outside_error((int)len));
		return (int)len;
	}
	err = suppressions_parse(s, text, (size_t)len, why, sizeof(why));
	free(text);
	if (err)
		message_error("cannot use '%s' (--suppressions): %s", path,
			      err == -EINVAL ? why : strerror(-err));
	return err;
}

struct suppressions *suppressing_read(const struct options *o)
{
	struct suppressions *s = suppressions_new();
	int err = s ? suppressions_builtin(s) : -ENOMEM;

	if (err)
		message_error("cannot begin: %s", strerror(-err));
	for (size_t i = 0; i < o->nsuppressions && !err; i++)
		err = add_file(s, o->suppressions[i]);
	if (!err)
		return s;
	suppressions_free(s);
	return NULL;
}

/* ---- stacks -------------------------------------------------------------- */

struct question {
	struct symbol_question q;
	size_t frame; /* whose names are asked for */
};

/* A stack as suppressions are held against it; used again for the next one. */
struct stack {
	struct suppression_frame *frame; /* [count] */
	size_t count, room;
	struct question *question;
	size_t questions, question_room;
	const char **alias; /* of all frames */
	size_t aliases, alias_room;
};

static void stack_release(struct stack *s)
{
	free(s->frame);
	free(s->question);
	free(s->alias);
}

/*
 * Adds the lines of NODE; the last of them is the function itself, which may have other names.
 */
static int add_node(struct stack *s, const struct process *p, struct sites *sites, uint32_t node)
{
	struct symbol_frames f = sites_frames(sites, node);
	struct symbol_question q;

	for (size_t i = 0; i < f.count; i++) {
		if (array_room(&s->frame, s->count, &s->room, sizeof(*s->frame)))
			return -ENOMEM;
		s->frame[s->count++] = (struct suppression_frame){ .frame = &f.frame[i] };
	}
	if (!process_question(p, node, sites_pc(sites, node), &q))
		return 0;
	if (array_room(&s->question, s->questions, &s->question_room, sizeof(*s->question)))
		return -ENOMEM;
	s->question[s->questions++] = (struct question){ q, s->count - 1 };
	return 0;
}

/* The names of all functions that are asked about. */
static int add_aliases(struct stack *s, struct symbols *symbols)
{
	const char *name[ALIASES], *const *at;

	for (size_t i = 0; i < s->questions; i++) {
		const struct symbol_question *q = &s->question[i].q;
		size_t n = symbols_aliases(symbols, q->module, q->pc, q->exact, name, ALIASES);

		s->frame[s->question[i].frame].aliases = n;
		for (size_t k = 0; k < n; k++) {
			if (array_room(&s->alias, s->aliases, &s->alias_room, sizeof(*s->alias)))
				return -ENOMEM;
			s->alias[s->aliases++] = name[k];
		}
	}
	/* the array has its place now */
	at = s->alias;
	for (size_t i = 0; i < s->count; i++) {
		s->frame[i].alias = at;
		at += s->frame[i].aliases;
	}
	return 0;
}

/* STACK of P, whose symbols are known. Symbol tables are read with the session unlocked. */
static int stack_fill(struct stack *s, struct shell *shell, struct process *p, struct sites *sites,
		      uint32_t stack)
{
	int err = 0;

	s->count = s->aliases = s->questions = 0;
	for (uint32_t node = stack; node && !err; node = sites_parent(sites, node))
		err = add_node(s, p, sites, node);
	if (err)
		return err;
	asking_unlock(shell->session);
	err = add_aliases(s, p->symbols);
	asking_lock(shell->session);
	return err;
}

/* ---- reports ------------------------------------------------------------- */

static const enum suppression_kind kind_of[LEAK_KINDS] = { [LEAK_DEFINITE] = SUPPRESS_DEFINITE,
							   [LEAK_INDIRECT] = SUPPRESS_INDIRECT,
							   [LEAK_POSSIBLE] = SUPPRESS_POSSIBLE,
							   [LEAK_REACHABLE] = SUPPRESS_REACHABLE };

/* The symbols of those of R's first ROWS records whose kind is one of KINDS. 0, -EINTR, -ENOMEM. */
static int look_up(struct shell *shell, struct process *p, struct sites *sites,
		   const struct leak_report *r, size_t rows, unsigned kinds)
{
	struct profile profile = { .row = calloc(rows + 1, sizeof(*profile.row)) };

	if (!profile.row)
		return -ENOMEM;
	for (size_t i = 0; i < rows; i++)
		if (kind_of[r->record[i].kind] & kinds)
			profile.row[profile.count++].stack = r->record[i].stack;
	lookup_profile(shell, p, sites, &profile, true);
	profile_release(&profile);
	return shell_interrupted(shell) ? -EINTR : 0;
}

static void move(struct leak_sum *from, struct leak_sum *to, struct leak_sum sum)
{
	from->bytes -= sum.bytes;
	from->blocks -= sum.blocks;
	to->bytes += sum.bytes;
	to->blocks += sum.blocks;
}

/* The suppression for each record, or -1, in WHICH. */
static int match_all(ssize_t *which, struct shell *shell, struct process *p, struct sites *sites,
		     const struct leak_report *r)
{
	const struct suppressions *s = shell->suppressions;
	unsigned kinds = suppressions_kinds(s);
	struct stack stack = { 0 };
	int err = look_up(shell, p, sites, r, r->records, kinds);

	for (size_t i = 0; i < r->records && !err; i++) {
		enum suppression_kind kind = kind_of[r->record[i].kind];

		which[i] = -1;
		if (!(kind & kinds))
			continue;
		err = stack_fill(&stack, shell, p, sites, r->record[i].stack);
		if (!err)
			which[i] = suppressions_match(s, kind, stack.frame, stack.count);
	}
	stack_release(&stack);
	return err;
}

/*
 * What is lost with blocks that are suppressed: LeakSanitizer has it suppressed with them, memcheck
 * has it in the sums still; nobody is told that it leaked.
 */
static void follow_ties(struct leak_report *r, const struct suppressions *s, const ssize_t *which)
{
	for (size_t i = 0; i < r->ties; i++) {
		const struct leak_tie *t = &r->tie[i];
		struct leak_record *child = &r->record[t->child];

		if (which[t->head] < 0 || which[t->child] >= 0)
			continue;
		if (suppressions_follows(s, (size_t)which[t->head])) {
			move(&r->sum[LEAK_INDIRECT], &r->suppressed, t->sum);
			child->bytes -= t->sum.bytes;
			child->blocks -= t->sum.blocks;
		} else {
			r->spared.bytes += t->sum.bytes;
			r->spared.blocks += t->sum.blocks;
		}
	}
}

static void take_out(struct leak_report *r, const ssize_t *which)
{
	size_t n = 0;

	for (size_t i = 0; i < r->records; i++) {
		struct leak_record *record = &r->record[i];

		if (which[i] >= 0)
			move(&r->sum[record->kind], &r->suppressed,
			     (struct leak_sum){ record->bytes, record->blocks });
		else if (record->blocks)
			r->record[n++] = *record;
	}
	r->records = n;
	r->ties = 0; /* they are between others now */
}

int suppressing_apply(struct shell *shell, struct process *p, struct sites *sites,
		      struct leak_report *r)
{
	ssize_t *which;
	int err;

	if (!shell->suppressions)
		return 0;
	which = calloc(r->records + 1, sizeof(*which));
	err = which ? match_all(which, shell, p, sites, r) : -ENOMEM;

	if (!err) {
		follow_ties(r, shell->suppressions, which);
		take_out(r, which);
	}
	free(which);
	return err;
}

/* A name for one: where the blocks are from. */
static void print_one(FILE *out, struct sites *sites, const struct leak_record *record,
		      const struct stack *stack)
{
	const struct symbol_frame *at = &sites_site(sites, sites_of(sites, record->stack))->frame;
	char name[300];

	snprintf(name, sizeof(name), "%.200s, %" PRIu64 " byte%s in %" PRIu64 " block%s",
		 at->function, record->bytes, plural(record->bytes), record->blocks,
		 plural(record->blocks));
	suppressions_print(out, name, kind_of[record->kind], stack->frame, stack->count);
}

int suppressing_print(FILE *out, struct shell *shell, struct process *p, struct sites *sites,
		      const struct leak_report *r, size_t rows)
{
	struct stack stack = { 0 };
	int err;

	rows = rows < r->records ? rows : r->records;
	err = look_up(shell, p, sites, r, rows, SUPPRESS_ALL);
	for (size_t i = 0; i < rows && !err; i++) {
		err = stack_fill(&stack, shell, p, sites, r->record[i].stack);
		if (!err && stack.count)
			print_one(out, sites, &r->record[i], &stack);
	}
	stack_release(&stack);
	return err;
}
