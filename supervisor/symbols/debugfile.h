/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * debugfile.h - the ELF files that hold a module's symbols: its own file, the separate debug file,
 * the small one in .gnu_debugdata, dwz's common file. Files are opened as who named them may
 * (outside.h), those below /usr/lib/debug that a process' root directory lacks in ours; only what
 * carries the right build-id or checksum is taken. The caller owns a struct debugfile and closes
 * it; elf == NULL: not open.
 */
#ifndef MTRUN_DEBUGFILE_H
#define MTRUN_DEBUGFILE_H

#include <elfutils/libdw.h>
#include <libelf.h>
#include <sys/stat.h>

#include "base/types.h"

struct outside;

struct debugfile {
	Elf *elf;
	int fd;		/* -1: none */
	struct stat st; /* of FD, when it was opened */
	/* ours, if the file is not one of the file system; or NULL */
	void *image;
	/* what its compressed sections hold, once its DWARF was asked for; or NULL */
	void *unpacked;
	char *path; /* as the process names it; "" for an image */
};

/* FROM: who named it (outside.h); NULL: we did. 0 or -errno (-ENOEXEC: no ELF file). */
int debugfile_open(struct debugfile *f, struct outside *from, const char *path) MUST_USE;
/* A copy of SIZE bytes in memory. */
int debugfile_copy(struct debugfile *f, const void *bytes, size_t size) MUST_USE;
void debugfile_close(struct debugfile *f);
/* Whether both are one file that nobody changed in between, or neither is open. Images are not. */
bool debugfile_same(const struct debugfile *a, const struct debugfile *b);

/* The first section of ELF that is called NAME; NULL: there is none. */
Elf_Scn *debugfile_section(Elf *elf, const char *name);
/* The build-id of ELF; 0 if it has none. */
size_t debugfile_build_id(Elf *elf, const uint8_t **id);

/*
 * The DWARF of F, without the compressed sections that nobody here asks for, for dwarf_end(). It
 * uses F's memory. NULL: there is none, or what is compressed unpacks to more than a file's sections
 * may.
 */
Dwarf *debugfile_dwarf(struct debugfile *f);

/* The separate debug file of MAIN by build-id, then by debuglink. -ENOENT: there is none. */
int debugfile_separate(struct debugfile *f, struct outside *from,
		       const struct debugfile *main) MUST_USE;
/* What MAIN's .gnu_debugdata holds. */
int debugfile_minimal(struct debugfile *f, const struct debugfile *main) MUST_USE;
/* The common file that dwz moved parts of DWARF to; it was read from file OF. */
int debugfile_common(struct debugfile *f, struct outside *from, const struct debugfile *of,
		     Dwarf *dwarf) MUST_USE;

#endif
