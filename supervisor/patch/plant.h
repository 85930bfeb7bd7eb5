/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * plant.h - redirects allocator functions of a module into the trampoline.
 *
 * For each function found (hooks.c has the table of names) the first instructions are moved to an
 * island within 2 GiB of it, followed by a jump back; the entry becomes `jmp rel32` to the
 * function's stub in the same island; the stub looks whether hooks are armed, and then loads the
 * address of its struct wire_hook into r11 and jumps to the blob's entry for its kind. A system
 * call that a module makes by itself (inline_syscall.h) is redirected in the same way: there the
 * stub lies in the copy, before the call. Whoever calls this guarantees that no thread runs in the
 * bytes to be patched.
 */
#ifndef MTRUN_PLANT_H
#define MTRUN_PLANT_H

#include "base/types.h"
#include "inject/wire_hook.h"

#define PLANT_REACH 0x7ff00000ull /* bytes that a `jmp rel32` spans, with a margin of 1 MiB */

struct hook_request;
struct module;
struct plant;
struct remote_span;

/*
 * How the planter acts on a target: given by whoever knows how to reach it. All return 0 or -errno.
 */
struct plant_ops {
	/*
	 * Maps LEN bytes (page multiple) of anonymous r-x memory within PLANT_REACH of all of
	 * [LO, HI); the address goes to *AT.
	 */
	int (*map_near)(void *ctx, raddr_t lo, raddr_t hi, size_t len, raddr_t *at);
	int (*write)(void *ctx, raddr_t addr, const void *buf, size_t len);
	ssize_t (*read)(void *ctx, raddr_t addr, void *buf, size_t len);
	/* The same for N spans, which lie together in BUF. What cannot be read is zeros. */
	int (*write_spans)(void *ctx, const struct remote_span *span, size_t n, const void *buf);
	void (*read_spans)(void *ctx, const struct remote_span *span, size_t n, void *buf);
	void *ctx;
	/* What PLANT says is about to be written; may be NULL. */
	int (*note)(void *ctx, const struct plant *plant);
	bool later; /* entries are written by plant_write(), not at once */
};

/*
 * One function, or system call, that was redirected: enough to undo it, to move a program counter
 * in or out, and to name it.
 */
struct planted {
	raddr_t entry;	/* first patched byte */
	uint8_t nbytes; /* overwritten and moved bytes */
	uint8_t original[32];
	uint8_t patched[32];
	raddr_t stub, orig; /* in the island; orig = moved instructions */
	raddr_t hook;	    /* its struct wire_hook in the island */
	uint8_t ninsn;
	/* instruction offsets: in the function, in the moved copy */
	struct {
		uint8_t from, to;
	} insn[16];
	enum wire_hook_kind kind;
	uint8_t call;	/* HOOK_RAW: where in the copy the system call is */
	bool later;	/* its entry has not been written yet */
	bool requested; /* by --hook */
	char name[64];
};

struct island {
	raddr_t start, used, end;
};

struct plant {
	struct planted *planted;
	size_t count;
	struct island *island;
	size_t nislands;
	char **refused; /* "NAME in MODULE: why", for status -v */
	size_t nrefused;
	/* system calls that modules make by themselves and that were not redirected */
	size_t unseen;
};

/* The agent, in the target. */
struct plant_agent {
	raddr_t armed;		   /* of its struct wire_guard */
	raddr_t entry[HOOK_KINDS]; /* of the blob's entry for each kind; 0: none */
};

/*
 * Marks the module's `planted` and MODULE_ALLOCATOR role. Returns how many functions were
 * redirected, or -errno and then none was. 0 with elf_has_functions() false: stripped, nothing to be
 * found by name.
 */
int plant_module(struct plant *plant, struct module *module, const struct plant_ops *ops,
		 const struct plant_agent *agent, const struct hook_request *request,
		 size_t nrequests) MUST_USE;
/* Begins to look through a large MODULE, beside the caller. */
void plant_prepare(const struct module *module);
/*
 * Only the one function NAME (e.g. "_dl_debug_state"), as KIND. 0; -ENOENT if the module does not
 * define it; -EOPNOTSUPP: refused, see `refused`.
 */
int plant_function(struct plant *plant, struct module *module, const struct plant_ops *ops,
		   const struct plant_agent *agent, const char *name,
		   enum wire_hook_kind kind) MUST_USE;
/*
 * Writes the entries that were left for later. One whose bytes are not what they were when it was
 * looked at is dropped. 0 or -errno: then some are written, some not, and plant_uproot() takes back
 * what was.
 */
int plant_write(struct plant *plant, const struct plant_ops *ops) MUST_USE;
/*
 * Where a thread that stands at PC, within bytes that are going to be overwritten (or have been),
 * goes on: in the moved copy. 0: it may stay.
 */
raddr_t plant_moved_pc(const struct plant *plant, raddr_t pc);
/* Whether PC is such a place. */
bool plant_covers(const struct plant *plant, raddr_t pc);
/*
 * plant_covers() for a pc to which a handler will return: where a call was to be made again that is
 * the call's own.
 */
bool plant_within(const struct plant *plant, raddr_t pc);
/* Restores the original bytes of everything planted (islands stay mapped). */
int plant_uproot(struct plant *plant, const struct plant_ops *ops) MUST_USE;
/* Forgets what was planted in [start, end): the module was unmapped. */
void plant_forget(struct plant *plant, raddr_t start, raddr_t end);
/*
 * plant_moved_pc(), but 0 also where the thread must go on for some instructions before it can be
 * taken out.
 */
raddr_t plant_exact_pc(const struct plant *plant, raddr_t pc);
/*
 * A pc in an island's moved code -> where it would be in the original function (0: not in an
 * island); for unwinding. In a stub: the entry.
 */
raddr_t plant_original_pc(const struct plant *plant, raddr_t pc);
/* Whether PC lies in an island. */
bool plant_in_island(const struct plant *plant, raddr_t pc);
/* Whether PC is the return address that stands for a system call, or the address before it. */
bool plant_stands(const struct plant *plant, raddr_t pc);
/* The hook of the function at ADDRESS; NULL: it has none. */
const struct planted *plant_find(const struct plant *plant, raddr_t address);
/* Some function of this name is redirected. */
bool plant_has(const struct plant *plant, const char *name);
/* Where P, of HOOK_RAW, has its system call. */
raddr_t plant_site(const struct planted *p);
int plant_copy(struct plant *to, const struct plant *from) MUST_USE;
void plant_release(struct plant *plant);

#endif
