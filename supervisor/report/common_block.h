/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * common_block.h - blocks that almost every program has, as its libraries ask for them on its
 * behalf: what they are for says more than where the program was.
 */
#ifndef MTRUN_COMMON_BLOCK_H
#define MTRUN_COMMON_BLOCK_H

#include "report/sites.h"

/*
 * What the blocks of STACK are for, `stdio buffer`, by the frames between the allocator and its
 * site; NULL: they do not tell.
 */
const char *common_block(struct sites *sites, uint32_t stack);

#define COMMON_NAME 1024u /* bytes that are enough for common_name() */
/*
 * The name of STACK's SITE on a screen, with what its blocks are for where that is known: in BUF,
 * or the site's own.
 */
const char *common_name(struct sites *sites, uint32_t stack, const struct symbol_frame *site,
			char buf[COMMON_NAME]);

#endif
