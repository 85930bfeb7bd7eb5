/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * image.h - our side of a program image's shared tables (struct wire_image): unwind rules by module, the tree of stacks.
 * Made at exec, shared by the processes that fork from it, counted. Also: the embedded trampoline's own symbols.
 */
#ifndef MTRUN_IMAGE_H
#define MTRUN_IMAGE_H

#include "../inject/wire.h"
#include "module.h"
#include "plant.h"
#include "types.h"

struct image;

/* The trampoline's ELF file, embedded by the build. Its file offsets are its addresses. */
extern const uint8_t blob_elf_start[], blob_elf_end[];
/* Offset of a symbol of it; the build guarantees those that we name, so a missing one aborts. */
raddr_t blob_symbol(const char *name);
/* ENTRY[kind] = the address of the entry for each enum wire_hook_kind, with the blob at BASE. */
void blob_entries(raddr_t base, raddr_t entry[HOOK_KINDS]);

/* Maps the image part of a home's memory file. NULL and *error = -errno. */
struct image *image_new(int fd, uint64_t offset, int *error) MUST_USE;
/* Before there is an image: what takes long in building its tables for MODULES is done, and kept. */
void image_prepare(const struct modules *modules);
struct image *image_ref(struct image *image);
void image_unref(struct image *image);		/* NULL is fine */

uint32_t image_root(struct image *image);	/* a new root node */
uint32_t image_nodes(const struct image *image);	/* ids given out, at most WIRE_NODES */
/* The node's parent (always less than NODE; 0: root or no such node) and pc. */
uint32_t image_parent(const struct image *image, uint32_t node, uint64_t *pc);

/* Builds what is missing and publishes the table of all live modules of the process, the trampoline and PLANT's islands among them; forgets
 * cached rules of dead ones. */
int image_publish(struct image *image, const struct modules *modules, const struct plant *plant, struct wire_process *wire) MUST_USE;

#endif
