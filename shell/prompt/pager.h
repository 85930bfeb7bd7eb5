/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * pager.h - what a command typed at the prompt prints, through the user's pager if it is longer
 * than the screen. The pager is /bin/sh's, as that of `| COMMAND` is, and inherits nothing of ours.
 */
#ifndef MTRUN_PAGER_H
#define MTRUN_PAGER_H

#include <stdio.h>

#include "base/types.h"

struct call;
struct pager;
struct shell;

/*
 * For what CALL prints on the terminal; both are borrowed until it is closed. NULL: no pager is
 * wanted here, or there is no memory for one.
 */
struct pager *pager_open(struct shell *shell, const struct call *call) MUST_USE;
/* What is to be printed on; closed by pager_close(). */
FILE *pager_stream(const struct pager *p);
/* All has been printed: until the user has seen enough of it. */
void pager_close(struct pager *p);

#endif
