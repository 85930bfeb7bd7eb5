/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * selection.h - which rows of a profile a command shows: the options that `report` and `diff`
 * share, and the view that comes of them. A struct selection that is all zeros, but for view.key
 * and view.sort, is one before any option.
 */
#ifndef MTRUN_SELECTION_H
#define MTRUN_SELECTION_H

#include <regex.h>

#include "report/view.h"
#include "shell/common/reporting.h"

struct shell;
struct call;
struct sites;

/*
 * The first entries of the command's table of arguments; its own are numbered from SELECT_OPTIONS
 * on.
 */
enum { SELECT_ROWS, SELECT_BY, SELECT_STACKS, SELECT_MATCH, SELECT_OPTIONS };
#define SELECTION_ARGUMENTS                                                     \
	[SELECT_ROWS] = { "rows", 'n', true }, [SELECT_BY] = { "by", 0, true }, \
	[SELECT_STACKS] = { "stacks", 0, false }, [SELECT_MATCH] = { "match", 0, true }

struct selection {
	struct view_options view;
	bool by, stacks; /* --by, --stacks were given */
	bool has_rows, has_regex;
	regex_t regex;
	const struct usable *usable; /* as in struct profile_ask */
};

/*
 * Option ARG, below SELECT_OPTIONS, with VALUE. KEYS: how many of view_key_names --by takes. 0, or
 * -1 (said).
 */
int selection_option(struct shell *shell, struct call *call, struct selection *s, int arg,
		     const char *value, int keys) MUST_USE;
/* VALUE as one of the N names: its index, or -1 (said). */
int selection_choice(const struct shell *shell, struct call *call, const char *option,
		     const char *value, const char *const *names, int n) MUST_USE;
/* After all options: what they mean together. 0, or -1 (said). */
int selection_agree(const struct shell *shell, struct call *call, struct selection *s) MUST_USE;
/*
 * VIEW (for the caller to release) of what the process held at moment M, as in reporting_profile().
 * *SITES: the shell's. 0, or -1 (said).
 */
int selection_view(struct shell *shell, struct call *call, struct selection *s,
		   const struct moment *m, const struct moment *since, unsigned detail,
		   uint64_t min_age, struct view *view, struct sites **sites) MUST_USE;
void selection_release(struct selection *s);

#endif
