/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * capture.h - the memory of a process, the registers of its threads and its live blocks, all of one
 * instant, at which every thread stood still and every event had been read.
 *
 * session_capture() (session/capturing.h) takes one, session_capture_end() gives it back. It does
 * not change in between, and any thread may read it without the session's lock. Mostly it is a
 * whole copy of its own. Where there is not the memory for that it is read from the process itself,
 * which stands still, or from a clone of it, until the capture is given back.
 *
 * What is in it: each mapping that can be written, and private ones that can only be read, now,
 * without mtrun's own. Pages that were never written are not there: they read as zeros. Those of a
 * private file mapping count as such until they are written, as no pointer is in them that the
 * program has put there. What was written before the mapping became read-only is there: RELRO.
 *
 * A range is split where a part of it was given back and holds no roots (memory/leftovers.h).
 */
#ifndef MTRUN_CAPTURE_H
#define MTRUN_CAPTURE_H

#include <sys/user.h>

#include "base/types.h"

enum capture_way {
	CAPTURE_AUTO, /* the one with the shortest pause that can be had */
	CAPTURE_WRITE_PROTECT,
	CAPTURE_CLONE,
	CAPTURE_STOP
};
/* "write protection", "clone", "stop" */
const char *capture_way_name(enum capture_way way);

enum capture_kind {
	CAPTURE_HEAP,	   /* the break */
	CAPTURE_ANONYMOUS, /* private: arenas, the program's own mappings, stacks of threads */
	CAPTURE_STACK,	   /* the first thread's */
	CAPTURE_DATA,	   /* private, of a file: .data; and .bss behind it */
	CAPTURE_SHARED
};

struct capture_range {
	raddr_t start, end;
	enum capture_kind kind;
	bool write;	  /* false: it can only be read, now */
	bool roots;	  /* false: there is nothing of the program's between its blocks */
	const char *name; /* as in /proc/PID/maps: a path, "[heap]"; .bss: its file's; else "" */
};

struct capture_thread {
	pid_t tid;
	char name[64]; /* any bytes but NUL */
	struct user_regs_struct general;
	/* the processor's other registers as XSAVE writes them: words that may be pointers */
	const void *vector;
	size_t vector_bytes;
};

struct capture_block {
	raddr_t address;
	uint64_t size;
	uint32_t stack;
	/*
	 * When it was allocated, in 10 ms since tracing began. With the address this says whether
	 * it is the same block as in an earlier capture: one whose tick is above that capture's is
	 * not.
	 */
	uint32_t tick;
};
/* What a sampled block stands for. */
struct capture_weight {
	uint64_t bytes, count;
};

struct capture {
	enum capture_way way;
	uint64_t pause_ns; /* the longest that the program's threads stood still for it */
	uint64_t ms;	   /* when: since tracing began */
	uint32_t tick;	   /* the same, in 10 ms */
	bool copied;	/* it is a copy of its own; false: the process or its clone waits for us */
	uint64_t bytes; /* of pages that are there */

	const struct capture_range *range; /* ascending */
	size_t ranges;
	const struct capture_thread *thread;
	size_t threads;
	/* The heap's live blocks, ascending by address. */
	const struct capture_block *block;
	const struct capture_weight *weight; /* as many; NULL: each stands for itself */
	size_t blocks;
	/* of these, that were there before recording began: they have no stack, and tick 0 */
	size_t before;
};

/* The range that ADDRESS is in, or NULL. */
const struct capture_range *capture_range_at(const struct capture *c, raddr_t address);

/*
 * Copies SIZE bytes from ADDRESS to TO. Returns how many could be read: less where a range ends, or
 * where the process was gone meanwhile (capture_error()).
 */
size_t capture_read(const struct capture *c, raddr_t address, void *to, size_t size);

/*
 * The next bytes in [ADDRESS, END) that are there: the first is at *AT, there are *LEN of them, as
 * many as lie together. Pages that are not there are passed over. Returns where they are: in the
 * capture itself, or in BUFFER of SIZE bytes (a page or more), which is the caller's. NULL: there
 * are no more.
 */
const void *capture_next(const struct capture *c, raddr_t address, raddr_t end, void *buffer,
			 size_t size, raddr_t *at, size_t *len);

/*
 * 0, or -errno: what a capture that is no copy is read from has gone meanwhile, and what was read
 * last is not whole.
 */
int capture_error(const struct capture *c);

/*
 * Whether a core was free, mostly, while it was copied; false, too, where it is little. May wait
 * for one, so the process and its session are not to wait for the caller.
 */
bool capture_core_free(struct capture *c);

#endif
