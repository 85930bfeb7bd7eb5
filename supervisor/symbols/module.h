/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * module.h - the objects (executable, libraries, vdso) that are mapped in a process, over time. A
 * module is found in /proc/PID/maps, read from its file once, and stays known after it was
 * unmapped: stacks recorded while it was there still name it. `born`/`dead` say when, in stack node
 * ids: a node with id in [born, dead) whose pc lies in [start, end) is in this module. Owner:
 * struct modules; a module lives as long as its process' record.
 */
#ifndef MTRUN_MODULE_H
#define MTRUN_MODULE_H

#include "base/types.h"

/* elf.h: the file's bytes and tables, mapped read-only; shared by equal modules */
struct elf;

enum module_role {
	MODULE_EXE = 1,
	MODULE_LDSO = 2,
	/* glibc's libc.so, musl's ld-musl (which is libc and ld.so in one) */
	MODULE_LIBC = 4,
	MODULE_CXX = 8,	       /* libstdc++, libc++, libc++abi, libsupc++ */
	MODULE_ALLOCATOR = 16, /* defines malloc & co. itself (libc not among them) */
	MODULE_VDSO = 32,
	/* its operators new and delete may do anything with what they get and give */
	MODULE_OPERATORS = 64,
	/* blocks of its allocator may come and go in ways that are not seen */
	MODULE_UNSEEN = 128,
};

struct module {
	char *path;		      /* as in maps; "[vdso]" */
	raddr_t start, end;	      /* whole mapped span of this object */
	raddr_t text_start, text_end; /* its executable segments */
	raddr_t bias;		      /* run-time address minus the file's virtual address */
	unsigned roles;		      /* enum module_role */
	uint8_t build_id[32];
	unsigned build_id_len; /* 0: none */
	uint64_t dev, inode;   /* tells a replaced file from the same one */
	uint32_t born, dead;   /* see above; dead = UINT32_MAX while mapped */
	bool planted;	       /* hooks are in (or there was nothing to hook) */
	/* never NULL: modules whose file cannot be read get one with no symbols */
	struct elf *elf;
};

/* What the kernel told the new program: where its entry and its ld.so are. */
struct modules_auxv {
	raddr_t entry, base;
	bool known; /* else it is read when it is needed */
};

struct modules {
	size_t count;
	struct module **module;		 /* in order of appearance, unmapped ones included */
	struct module_order *by_address; /* as modules_find() looks them up */
	struct modules_auxv aux;
};

struct maps;
struct outside;

/*
 * Brings the list up to date with MAPS; files are opened for FROM (outside.h; NULL: for us). NODE
 * is the number of stack ids given out so far. New modules are appended, vanished ones get `dead` =
 * NODE; a module that comes back at the same place is revived (dead = UINT32_MAX). *overlap is set
 * when a new module lies where a different dead one was (stacks must then start from a new root).
 * Returns the number of new (or revived) ones, or -errno.
 */
int modules_update(struct modules *list, pid_t pid, struct outside *from, const struct maps *maps,
		   uint32_t node, bool *overlap) MUST_USE;
/*
 * The modules of MAPS that were written down, perhaps elsewhere: each file is what is at its path
 * now. 0 or -ENOMEM.
 */
int modules_recorded(struct modules *list, struct outside *from, const struct maps *maps) MUST_USE;
/* The module that PC was in when stack node NODE was made; NODE = UINT32_MAX: now. NULL if none. */
const struct module *modules_find(const struct modules *list, raddr_t pc, uint32_t node);
/*
 * Where the memory of M ends, to the byte: behind `end`, if it has a .bss of more than the rest of
 * its last page, and that directly follows what is mapped of its file; else in that page.
 */
raddr_t module_memory_end(const struct module *m);
/* The module that ADDRESS is in now, .bss included. NULL if none. */
const struct module *modules_find_data(const struct modules *list, raddr_t address);
/*
 * Appends a copy of M, whose elf does not count: it gets one with no symbols. When all are there,
 * modules_sort(). 0 or -ENOMEM.
 */
int modules_add(struct modules *list, const struct module *m) MUST_USE;
/* What was added is found from here on. */
void modules_sort(struct modules *list);
/* A copy for a forked child. ELF files are shared by reference count. */
int modules_copy(struct modules *to, const struct modules *from) MUST_USE;
void modules_release(struct modules *list);

#endif
