/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * replay_state.h - what an open set of log files is made of, for replay_open.c (opening, the
 * whole), replay_moment.c (what was live when) and replay_stacks.c (who held it). Nobody else
 * includes it.
 */
#ifndef MTRUN_LOG_REPLAY_STATE_H
#define MTRUN_LOG_REPLAY_STATE_H

#include "base/arena.h"
#include "log/event_decode.h"
#include "log/reader.h"
#include "log/replay.h"

#define REPLAY_CURSORS 2 /* two moments are compared, and then others beside them */

/* A block of a file. */
struct replay_ref {
	uint32_t file, entry;
};

/* A ledger on its way through the blocks. */
struct replay_cursor {
	struct ledger *ledger; /* NULL: unused */
	struct log_decoder *decoder;
	size_t ref, at;	  /* the next block, and where in it */
	uint64_t stop_ms; /* it is just before */
	uint64_t used;
	bool began; /* a state was applied */
};

struct replay_symbol { /* in a hash table */
	struct replay_symbol *next;
	uint64_t pc;
	uint32_t module, count;
	struct symbol_frame frame[];
};

struct replay_process {
	struct replay *replay;
	uint32_t number;	  /* as in the files */
	struct log_process facts; /* its strings are ours */
	struct log_bytes facts_bytes;
	struct replay_ref *ref; /* its states and events, in order */
	size_t refs, ref_room;
	struct replay_ref *said; /* its stacks, symbols and marks */
	size_t saids, said_room;
	struct log_points points;
	uint64_t last_ms; /* of its events */
	uint64_t recorded_ms;
	struct replay_cursor cursor[REPLAY_CURSORS];
	char trouble[512];
	bool troubled; /* not told yet */
	/* some of its stacks, symbols or marks are damaged; that was told */
	bool nameless;

	struct replay_ref modules; /* the latest; entry UINT32_MAX: none */
	bool modules_go_on;
	bool has_stacks;   /* read from the files: */
	struct arena node; /* struct replay_node by id */
	uint32_t nodes;	   /* ids are below */
	struct replay_symbol **bucket;
	size_t buckets, symbols;
	char *site_skip; /* NULL: none */
};

struct replay {
	struct log_file *file;
	size_t files;
	struct replay_process **process; /* ascending by number */
	size_t processes, process_room;
	struct log_run run;
	struct log_bytes run_bytes;
	struct log_unpacked unpacked; /* of the asking thread */
	uint64_t ended_ms, moments;
};

static inline const struct log_entry *replay_entry(const struct replay *r, struct replay_ref ref)
{
	return &r->file[ref.file].index.entry[ref.entry];
}

/* Whether block I of P is the first of a state. */
bool replay_begins_state(const struct replay_process *p, size_t i);

/*
 * Feeds blocks to C from where it is until time comes to STOP_MS, or up to block END. 0, -ENOMEM,
 * or -EBADMSG: the next block is damaged.
 */
int replay_go_on(struct replay_process *p, struct replay_cursor *c, struct log_unpacked *u,
		 uint64_t stop_ms, size_t end) MUST_USE;
/* Its ledger is to be asked about its present interval alone. 0 or -ENOMEM. */
int replay_cursor_init(struct replay_cursor *c, size_t ref) MUST_USE;
void replay_cursor_release(struct replay_cursor *c);

void replay_stacks_release(struct replay_process *p);

#endif
