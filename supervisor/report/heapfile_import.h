/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * heapfile_import.h - heap profiles that jemalloc and gperftools wrote, read as .heap files.
 */
#ifndef MTRUN_HEAPFILE_IMPORT_H
#define MTRUN_HEAPFILE_IMPORT_H

#include "base/types.h"
#include "report/heapfile.h"

/* Whether TEXT may be one. (The first part of a .heap file of ours looks like gperftools'.) */
bool heap_is_importable(const char *text);
/*
 * Fills H from its `text` of SIZE bytes, which are changed. 0 or -EINVAL, with what is wrong with
 * it in WHY (one line).
 */
int heap_import(struct heap *h, size_t size, char *why, size_t len) MUST_USE;

#endif
