/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * image.h - our side of a program image's unwind tables (struct wire_tables), by module. An image
 * is made at exec and shared, reference-counted, by the processes that fork from it. Also the
 * embedded trampoline's own symbols.
 */
#ifndef MTRUN_IMAGE_H
#define MTRUN_IMAGE_H

#include "base/types.h"
#include "inject/wire.h"
#include "patch/plant.h"
#include "symbols/module.h"

struct image;

/* The trampoline's ELF file, embedded by the build. Its file offsets are its addresses. */
extern const uint8_t blob_elf_start[], blob_elf_end[];
struct elf *blob_elf(void); /* NULL: out of memory */
/* Offset of a symbol of it; the build guarantees those that we name, so a missing one aborts. */
raddr_t blob_symbol(const char *name);
/* LEN bytes of the trampoline at OFFSET. NULL: there are none. */
const uint8_t *blob_bytes(raddr_t offset, size_t len);
/* ENTRY[kind] = the address of the entry for each enum wire_hook_kind, with the blob at BASE. */
void blob_entries(raddr_t base, raddr_t entry[HOOK_KINDS]);

/*
 * Maps the file of a new image's tables, of FILE_TABLES bytes, and seals it: from then on nobody
 * but us can write there. FD stays the caller's. NULL and *error = -errno.
 */
struct image *image_new(int fd, int *error) MUST_USE;
/*
 * Before there is an image: what takes long in building its tables for MODULES is done, and kept.
 */
void image_prepare(const struct modules *modules);
struct image *image_ref(struct image *image);
void image_unref(struct image *image); /* NULL is fine */

/*
 * The rule in the hook of a system call (HOOK_RAW) at a place where RULE holds: it has skipped the
 * red zone and pushed a return address.
 */
struct wire_rule image_below_red_zone(struct wire_rule rule);
/* Builds what is missing, as image_publish() would. */
void image_build(struct image *image, const struct modules *modules);

/* How much of the tables a process has mapped, in bytes. */
struct image_view {
	uint64_t rules, pool;
};
/* Maps MORE in the process. 0 or -errno; *VIEW is then what it has. */
typedef int image_extend(void *ctx, struct image_view *view, const struct image_view *more);
/*
 * Builds what is missing and publishes the table of all live modules, the trampoline and PLANT's
 * islands among them, of the process whose process part is WIRE and whose agent is at AGENT;
 * forgets cached rules of dead modules. *VIEW is what the process has mapped of the tables;
 * EXTEND(CTX) is asked for more. Modules whose rows do not fit have none there: -ENOSPC, after all
 * else is done; of more than WIRE_MODULES the last ones: -E2BIG.
 */
int image_publish(struct image *image, const struct modules *modules, const struct plant *plant,
		  struct wire_process *wire, raddr_t agent, struct image_view *view,
		  image_extend *extend, void *ctx) MUST_USE;

#endif
