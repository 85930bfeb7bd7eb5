/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * records.h - what the blocks of a log say, but those of events and states (event_encode.h,
 * event_decode.h): both ways, so that writer and reader agree. Pure data.
 *
 * log_put_X() appends one payload's bytes to a buffer. Where a payload is a row of entries, each
 * call appends one of them, and what was put may be cut into blocks between any two calls.
 * log_take_X() reads what one block holds and trusts nothing of it: -EINVAL is anything that is not
 * as it must be. Strings that are taken point into the payload, which has a zero byte behind each
 * of them; no string has one inside.
 */
#ifndef MTRUN_LOG_RECORDS_H
#define MTRUN_LOG_RECORDS_H

#include "base/types.h"
#include "process/preattach.h"
#include "symbols/module.h"
#include "symbols/symbols.h"

/* ---- bytes --------------------------------------------------------------- */

struct log_bytes {
	uint8_t *data;
	size_t len, room;
	bool failed; /* out of memory: nothing is added any more */
};
void log_bytes_release(struct log_bytes *b);
void log_put_number(struct log_bytes *b, uint64_t n); /* LEB128 */
void log_put_signed(struct log_bytes *b, int64_t n);  /* zigzag, LEB128 */
void log_put_bytes(struct log_bytes *b, const void *bytes, size_t n);
/* length, bytes, a zero byte; NULL is a string of its own */
void log_put_string(struct log_bytes *b, const char *text);

/* What is to be read. After an error everything read is 0 or "", and `wrong` is set. */
struct log_input {
	const uint8_t *at, *end;
	bool wrong;
};
uint64_t log_take_number(struct log_input *in, uint64_t most);
int64_t log_take_signed(struct log_input *in);
/* NULL: what log_put_string() made of NULL, or wrong */
const char *log_take_string(struct log_input *in);

/* ---- RUN, PROCESS -------------------------------------------------------- */

/* One run of mtrun. */
struct log_run {
	unsigned counted; /* LEDGER_COUNT_* | COUNT_IMAGE */
	uint64_t sample;  /* --sample when it began; 0: every allocation */
	uint32_t depth;
	const char *version;	  /* of mtrun */
	const char *command_line; /* of the program, or NULL (-p) */
};
void log_put_run(struct log_bytes *b, const struct log_run *run);
int log_take_run(struct log_input *in, struct log_run *run) MUST_USE;

/* A process as it is when the block is written: the last one in the newest file holds. */
struct log_process {
	pid_t pid, ppid;
	unsigned state; /* enum process_state */
	int wait_status;
	uint64_t began_ms, ended_ms; /* ended_ms 0: it had not ended */
	uint64_t sample;	     /* 0: every allocation */
	uint64_t image_bytes;
	unsigned threads; /* that it has had */
	struct preattach_heap preattach;
	const char *command, *exe, *unsupervised; /* or NULL */
};
void log_put_process(struct log_bytes *b, const struct log_process *p);
int log_take_process(struct log_input *in, struct log_process *p) MUST_USE;

/* ---- MODULES ------------------------------------------------------------- */

/*
 * All modules that the process has had so far; a later block says it anew. Read into an empty list.
 */
void log_put_modules(struct log_bytes *b, const struct modules *modules);
/* -ENOMEM; on errors MODULES is empty */
int log_take_modules(struct log_input *in, struct modules *modules) MUST_USE;

/* ---- NODES: entries ------------------------------------------------------ */

/* Of the stacks: as in sites.h. A caller's node was told before, in the same file. */
struct log_node {
	uint32_t id, parent;
	uint64_t pc; /* with WIRE_PC_EXACT, or a pseudo-frame's */
};
void log_put_node(struct log_bytes *b, const struct log_node *node);
/* Calls FN for each until it returns nonzero, which is returned. */
int log_take_nodes(struct log_input *in, int (*fn)(void *ctx, const struct log_node *node),
		   void *ctx) MUST_USE;

/* ---- SYMBOLS: entries ---------------------------------------------------- */

/*
 * The frames of a pc: of all nodes that have it, in the same module. MODULE: number from 1 in
 * MODULES' order, 0: in none. Only function, file, line, column, module, address, inlined and skip
 * (but SKIP_USER) are told.
 */
struct log_symbol {
	uint32_t module;
	uint64_t pc;		     /* as the node has it */
	struct symbol_frames frames; /* at most LOG_SYMBOL_FRAMES */
};
#define LOG_SYMBOL_FRAMES 64u
void log_put_symbol(struct log_bytes *b, const struct log_symbol *symbol);
/* Calls FN for each until it returns nonzero, which is returned. Frames are of the call. */
int log_take_symbols(struct log_input *in, int (*fn)(void *ctx, const struct log_symbol *symbol),
		     void *ctx) MUST_USE;

/* ---- MARKS: entries ------------------------------------------------------ */

struct log_mark {
	/* of all that the process has made, from 0: one told again is known by it */
	uint64_t number;
	uint64_t ms;
	const char *label;
};
void log_put_mark(struct log_bytes *b, const struct log_mark *mark);
int log_take_marks(struct log_input *in, int (*fn)(void *ctx, const struct log_mark *mark),
		   void *ctx) MUST_USE;

/* ---- INDEX --------------------------------------------------------------- */

/* A block of the file. EVENTS and STATE tell their times: STATE's is one moment. */
struct log_entry {
	uint64_t offset;
	uint16_t type, flags; /* as in its header */
	uint32_t process;
	uint64_t first_ms, last_ms, events;
};
/* A point of a process' timeline, as struct timeline_point. */
struct log_point {
	uint64_t interval, bytes, ms;
};
struct log_points {
	uint32_t process;
	size_t count, room;
	struct log_point *point; /* ascending */
};
struct log_index {
	size_t entries, entry_room, processes;
	struct log_entry *entry;   /* in the file's order */
	struct log_points *points; /* ascending by process */
};
/* 0 or -ENOMEM */
int log_index_entry(struct log_index *index, const struct log_entry *entry) MUST_USE;
/*
 * A point of PROCESS that is not above its last one is the last one's successor in that interval,
 * and replaces it. 0 or -ENOMEM.
 */
int log_index_point(struct log_index *index, uint32_t process,
		    const struct log_point *point) MUST_USE;
/* NULL: none */
const struct log_points *log_index_points(const struct log_index *index, uint32_t process);
void log_index_release(struct log_index *index);

void log_put_index(struct log_bytes *b, const struct log_index *index);
/* Into an empty one. 0, -EINVAL or -ENOMEM; on errors INDEX is empty. */
int log_take_index(struct log_input *in, struct log_index *index) MUST_USE;

#endif
