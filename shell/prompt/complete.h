/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * complete.h - what a word on the command line may become. Everything is taken from the table of
 * commands: a command's usage line says which options it has and what stands where (`--by
 * site|stack`, FILE, SNAP, FUNC).
 */
#ifndef MTRUN_COMPLETE_H
#define MTRUN_COMPLETE_H

#include "base/types.h"

struct shell;

struct completions {
	size_t count;
	char **word;  /* to be freed, each and all; sorted, no two equal */
	char *common; /* what all begin with; NULL: there are none. To be freed */
	/* there are so many that not all are in `word`; `common` is of all */
	bool more;
	bool files;    /* a file's name stands here (then there are no words) */
	bool no_blank; /* the word is not complete yet: `--by=` */
};

/* The word that begins at START of LINE, of which TEXT is there. */
void complete(struct shell *shell, const char *line, size_t start, const char *text,
	      struct completions *c);
/* For idle moments: prepares what may be asked for. True: there is more to do. */
bool complete_prepare(struct shell *shell);

#endif
