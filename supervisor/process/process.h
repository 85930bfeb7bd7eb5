/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * process.h - the record of one supervised process: what it is, what of ours is in it, what it has
 * told. It lives from the fork or exec that made the process until the session forgets it
 * (session/forget.c) or ends, and as long as it is referred to. An exec begins a new record (the
 * old one stays, as PROCESS_REPLACED).
 */
#ifndef MTRUN_PROCESS_H
#define MTRUN_PROCESS_H

#include <stdio.h>

#include "base/outside.h"
#include "base/types.h"
#include "ledger/ledger.h"
#include "patch/plant.h"
#include "process/errors_books.h"
#include "process/limit_books.h"
#include "process/marks.h"
#include "process/preattach.h"
#include "process/snapshots.h"
#include "process/static_tls.h"
#include "process/thread_ends.h"
#include "symbols/module.h"
#include "symbols/symbols.h"
#include "transport/shared.h"
#include "transport/stream.h"
#include "unwind/cfi.h"
#include "unwind/image.h"

enum process_state {
	PROCESS_RUNNING,
	PROCESS_STOPPED,
	PROCESS_HELD,
	PROCESS_EXITED,
	PROCESS_REPLACED,
	PROCESS_DETACHED
};
/* "running", "stopped", "exited", ... HELD is "exited" */
const char *process_state_name(enum process_state state);
/* Whether it has ended for the user, and how is known: HELD is kept at its exit. */
static inline bool process_state_ended(enum process_state state)
{
	return state == PROCESS_EXITED || state == PROCESS_HELD;
}
/* Whether its memory is gone: it has exited, or another program runs in its place. */
static inline bool process_state_gone(enum process_state state)
{
	return state == PROCESS_EXITED || state == PROCESS_REPLACED;
}
struct process;
/* The state that the user is told: a process that a signal has stopped is stopped, too. */
enum process_state process_state_seen(const struct process *p);

struct nodes; /* transport/nodes.h */
struct process_source;
struct profile_ask; /* process/profile_make.h */
struct record;	    /* session/recorder.h */

#define COUNT_IMAGE 4u /* beside LEDGER_COUNT_*: the executable's text */

struct sampling {     /* process/sampling.h */
	bool pending; /* it is on, and every release is still told of */
	bool fenced;  /* every thread has passed a memory barrier since it was switched on */
	/* a bit for each slot that was seen not to keep books since then */
	uint64_t idle[WIRE_THREADS / 64];
};

#define CREDIBLE_SUSPECTS 512u
struct credible {		 /* session/credible.h */
	uint64_t weighed_ms;	 /* when /proc was last read; 0: never */
	uint64_t own;		 /* bytes of our memory that blocks in its memory can take, then */
	uint64_t peak;		 /* the most bytes that it ever had mapped, then */
	uint64_t blocks;	 /* at how many live blocks some of them are looked up again */
	raddr_t *suspect;	 /* blocks that lay outside of its mappings */
	size_t suspects, sample; /* how many of these; how many were looked up */
	uint64_t look_ms;	 /* the list of mappings is not read before */
	uint64_t doubt_ms;	 /* when it was found lying without an agent; 0: it was not */
	uint64_t doubt_memory;	 /* bytes of its ledger then */
	bool given_up;
	bool emptied; /* its ledger was replaced by an empty one */
};

/* the shell's: what is mapped without being counted, while a limit is in force */
struct process_unseen {
	uint64_t checked_ms;	      /* when it was last looked at */
	int64_t rest;		      /* bytes of its data beyond what is counted, then */
	int64_t resident;	      /* ... and of shared memory that it has touched */
	uint64_t base, bytes;	      /* those at first; how many there are beyond these */
	uint64_t shared_base, shared; /* the same of shared memory that is not counted */
	unsigned thread;	      /* how many threads' children were looked at in this round */
	bool begun, told, shared_told, child_told;
};

struct process {
	struct process *next; /* in order of appearance */
	/* those by process_ref(), and one of the list that it is in; without any it is freed */
	unsigned refs;
	pid_t pid, ppid;
	/* the thread by which /proc and the memory are read: not `pid` if that thread has ended */
	pid_t via;
	char *command; /* its name, as /proc/PID/comm has it; or NULL */
	/* the beginning of its arguments, one blank between, as last described; or NULL */
	char *command_line;
	char *exe; /* path of the executable */
	enum process_state state;
	bool paused;	 /* by SIGSTOP or the like, not by us */
	bool to_check;	 /* it waits at its last instant for the leak check */
	bool dumped;	 /* the shell's: no .heap file of it is due any more */
	int wait_status; /* as from wait(2), once EXITED */
	uint64_t began_ms, ended_ms;
	bool ends_together;  /* all its threads are being ended, with `wait_status` */
	unsigned threads;    /* alive now */
	pid_t lingers;	     /* the thread kept at its last instant (last_instant.c); 0: none */
	uint64_t lingers_ms; /* since when */
	struct thread_ends ends;
	/* why its allocations are not known (static and stripped, ...), or NULL */
	const char *unsupervised;

	raddr_t agent;	      /* 0: not planted yet */
	struct shared shared; /* our mapping of the process part */
	uint32_t question;    /* the slot whose question is the next to be looked at */
	uint64_t filters_ms;  /* when it was last looked at for a seccomp filter */
	/* it did not answer: its libraries are not looked at before that time */
	uint64_t refresh_after_ms;
	struct wire_process *wire; /* within `shared`; NULL: it has none (any more) */
	struct nodes *nodes;	   /* its stacks, NULL: it never had any */
	struct image *image;
	struct image_view view; /* how much of the image's tables it has mapped */
	struct modules modules;
	struct plant plant;
	struct ledger *ledger; /* never NULL */
	struct stream *stream; /* NULL until planted */
	/* with whose rights files that it names are opened (base/outside.h); never NULL */
	struct outside *outside;
	struct symbols *symbols; /* never NULL */
	uint64_t image_bytes;	 /* the executable's text, as VmExe */
	struct marks marks;	 /* what it said by mtrun_mark() */
	struct snapshots snapshots;
	struct process_unseen unseen;
	struct limit limit;
	struct errors errors;
	struct preattach_heap preattach; /* -p: the heap before the attach */
	struct glibc_malloc glibc_malloc;
	struct static_tls jemalloc_tls; /* as of the last capture */
	struct sampling sampling;
	struct credible credible;
	/* nothing is recorded, and its answers are as of `off_ms` (off.c) */
	bool off;
	uint64_t off_ms;
	/* when its record begins: with the process, or when recording was last switched on */
	uint64_t recorded_ms;
	/* while off: the ledger for what hooks that were under way still tell; else NULL */
	struct ledger *discarding;
	bool fences;	  /* membarrier(2) reaches its threads */
	bool attached;	  /* it ran before we came */
	bool attaching;	  /* it is being attached to */
	bool lent;	  /* another tracer has it, and is going to give it back */
	bool lent_loaded; /* libraries came or went meanwhile */
	int pidfd;	  /* tells of its end while it is lent; 0 or -1: none */
	bool traces;	  /* it traces processes, and that was said */
	bool crowded;	  /* it has more than WIRE_MODULES modules, and that was said */
	bool left;	  /* nothing of ours is mapped in it any more */
	pid_t own_thread; /* of ours in it (tracee/own_thread.h); 0: none */
	uint32_t resumed; /* how often it was resumed after all its threads were stopped */
	bool stays;	  /* stopped by `stop` or -S, until somebody resumes it */
	/* the longest time that all its threads were stopped to plant, or to leave */
	uint64_t paused_us;

	const struct process_source *source; /* where its numbers come from; never NULL */
	/* what the source has read, owned by it; NULL: it is a process of ours */
	void *told;

	struct record *record; /* in the log; NULL: it was never logged */
	/* between the fork and the child's first stop: where its agent comes from */
	struct process *parent;
	/* it has run as itself: the record is kept when an exec replaces it */
	bool ledger_used;
	struct stream_stats last_stats; /* the last stream_stats(), once `stream` is gone */
	int64_t missing;		/* the last stream_missing() */
};

/*
 * LEDGER: taken over, or NULL for a new one that counts COUNT (LEDGER_COUNT_*). NULL: out of
 * memory.
 */
struct process *process_new(pid_t pid, pid_t ppid, unsigned count, struct ledger *ledger) MUST_USE;
/*
 * A process that SOURCE tells of by TOLD, which is taken over; files are opened by FROM, which is
 * taken over. COUNT, LEDGER: as of process_new(). NULL: out of memory, and TOLD is still the
 * caller's.
 */
struct process *process_from(const struct process_source *source, void *told, pid_t pid, pid_t ppid,
			     unsigned count, struct ledger *ledger, struct outside *from) MUST_USE;
/* Its names are COMMAND and EXE, which are copied; NULL: not known. */
void process_name(struct process *p, const char *command, const char *exe);
/*
 * A reference keeps P's record, with its stacks and symbols, though the process may have ended, or
 * be in no list any more. A new record has one. The caller of both holds the session's lock. NULL
 * is fine.
 */
struct process *process_ref(struct process *p);
void process_unref(struct process *p);
void process_describe(struct process *p);		 /* command, exe, image_bytes from /proc */
bool process_own_mapping(void *process, uint32_t stack); /* for stream_new() */

/*
 * Bytes of P that count as allocated, by the events that the ledger has. COUNT: LEDGER_COUNT_* |
 * COUNT_IMAGE.
 */
uint64_t process_allocated(const struct process *p, unsigned count);

/* Counts and bytes at the end of what is recorded of a process; -1: not known. */
struct process_totals {
	int64_t allocated; /* as process_allocated() */
	int64_t live;	   /* heap + mmap */
	int64_t heap, mmap, peak, peak_ms, live_blocks;
	int64_t allocs, frees, maps, unmaps, temporary, total_allocated;
};
/* COUNT: as of process_allocated() */
void process_totals(const struct process *p, unsigned count, struct process_totals *t);

/* What process_frames() asks symbols_resolve() about. */
struct symbol_question {
	const struct module *module;
	raddr_t pc;
	bool exact;
};

struct process_recorded {
	uint64_t clock_ms; /* when tracing began, since 1970 */
	uint64_t peak, peak_ms;
	uint64_t sample;  /* bytes; 0: every allocation */
	unsigned counted; /* LEDGER_COUNT_* */
};

struct json;
struct layout;
struct sites;

/*
 * Where a process' numbers come from: it runs, or ran, under us; or a .heap file or a log tells of
 * it. If that tells of one moment only the ledger is empty. The functions are those below of the
 * same names; they use P's `told`.
 */
struct process_source {
	const char *name; /* "a log"; NULL: it is a process of ours */
	bool one_moment;  /* it knows one moment, and no blocks and threads */
	uint32_t (*parent)(const struct process *p, uint32_t stack, uint64_t *pc);
	bool (*question)(const struct process *p, uint32_t node, uint64_t pc,
			 struct symbol_question *q);
	struct symbol_frames (*frames)(struct process *p, uint32_t node, uint64_t pc);
	int (*site_skip)(struct process *p, const char *regex, const char **error);
	int (*profile)(const struct process *p, const struct profile_ask *ask,
		       struct profile *profile);
	/* after -EBADMSG: what is wrong, in one line */
	const char *(*trouble)(const struct process *p);
	/*
	 * Prints `status`: as text, with its stacks (SITES may be NULL), or as keys of an open JSON
	 * object. COUNT: what counts as allocated. NULL: as for a process of ours.
	 */
	void (*status)(const struct process *p, unsigned count, FILE *out, struct sites *sites,
		       const struct layout *l);
	void (*status_json)(const struct process *p, unsigned count, struct json *j);
	/* NULL: they are the ledger's */
	void (*totals)(const struct process *p, struct process_totals *t);
	/* how it was recorded; NULL: as the session says */
	void (*recorded)(const struct process *p, struct process_recorded *r);
	void (*release)(struct process *p); /* P is being freed */
};

/*
 * What P holds, as ASK says (process/profile_make.h), into the empty PROFILE. 0 or -errno;
 * -EBADMSG: the file is damaged there, process_trouble() says how.
 */
int process_profile(const struct process *p, const struct profile_ask *ask,
		    struct profile *profile) MUST_USE;
const char *process_trouble(const struct process *p);

/* Parent node of STACK, 0 at a root; *PC its pc. */
uint32_t process_stack_parent(const struct process *p, uint32_t stack, uint64_t *pc);
/* Fills in Q. False: process_frames() needs no symbols here, as for a pseudo-frame. */
bool process_question(const struct process *p, uint32_t node, uint64_t pc,
		      struct symbol_question *q);
/* As symbols_passed_over() with the module that was there: no symbols are read for it. */
bool process_passed_over(const struct process *p, uint32_t node, uint64_t pc);
/* For `set site-skip`; as symbols_site_skip(). */
int process_site_skip(struct process *p, const char *regex, const char **error) MUST_USE;
/* Symbol frames at a node: as symbols_resolve with the module that was there. */
struct symbol_frames process_frames(struct process *p, uint32_t node, uint64_t pc);

/* For sources: the module and address of PC at NODE; and the frames by that file's own symbols. */
void process_code(const struct process *p, uint32_t node, uint64_t pc, struct symbol_question *q);
struct symbol_frames process_look_up(struct process *p, uint32_t node, uint64_t pc);
/* Whether PC is in the code of our agent in P. */
bool process_in_agent(const struct process *p, raddr_t pc);
/* Unmaps what P shares with us: P's `wire` becomes NULL. */
void process_unshare(struct process *p);

#endif
