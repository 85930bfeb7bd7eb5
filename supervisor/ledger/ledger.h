/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * ledger.h - who holds what: live blocks by address, totals by stack, peak. Pure data: no I/O, no
 * clock; time comes with the events.
 *
 * One ledger per process. Fed by stream.c in an order that is total per address. Answers are exact
 * for what has been fed.
 */
#ifndef MTRUN_LEDGER_H
#define MTRUN_LEDGER_H

#include "base/types.h"

struct activity;
struct ledger;

/*
 * What a stack has done, of the kinds that the ledger counts (ledger_new). Valid until the next
 * event.
 */
struct ledger_stack {
	/* heap and mappings; a mapping counts 1 while any byte of it is accessible */
	int64_t live_bytes, live_count;
	uint64_t total_bytes, total_count, temporary;
};

struct ledger_totals {
	/* bytes live: blocks; accessible / all bytes of own mappings */
	uint64_t heap, mmap, mmap_reserved;
	uint64_t live_blocks;
	uint64_t allocs, frees, maps, unmaps, unknown_frees, temporary;
	uint64_t total_allocated; /* bytes of all `allocs` */
	/* of heap + mmap, as far as counted (ledger_count) */
	uint64_t peak, peak_ms;
	uint64_t events;
	/*
	 * some blocks are not told of, others stand for them: all but mappings, events and
	 * unknown_frees are estimates
	 */
	bool estimated;
	uint64_t sampled_ms; /* `estimated`: what was before is exact */
	uint64_t period;     /* `estimated`: the last that was sampled with; 0: not known */
};

struct ledger_block {
	raddr_t address;
	uint64_t size; /* its own */
	/*
	 * what it stands for: `size` and 1, unless it was sampled. The totals and the stacks are
	 * sums of these
	 */
	uint64_t bytes, count;
	uint32_t stack;
	uint32_t thread; /* index from ledger_thread() */
	uint64_t ms;	 /* when, to 10 ms */
	bool mapping;
};

#define LEDGER_COUNT_HEAP 1u
#define LEDGER_COUNT_MMAP 2u

/* LEDGER_COUNT_*: what `peak` and the stacks are about. NULL: out of memory */
struct ledger *ledger_new(unsigned count) MUST_USE;
void ledger_free(struct ledger *l);
/*
 * The table of a forked child: the parent's live blocks, counts 0, peak = what is live. Costs next
 * to nothing until the child's first event or question but ledger_totals(), so not for a child that
 * execs; the parent may be freed before. NULL: out of memory.
 */
struct ledger *ledger_fork(struct ledger *parent) MUST_USE;

/*
 * From now on the table of live blocks is the one that needs least memory, or (not COMPACT, as at
 * first) the fastest one. 0 or -ENOMEM. What is there follows, some thousand blocks and less than a
 * millisecond at a time, by ledger_move(), until that is false.
 */
int ledger_compact(struct ledger *l, bool compact) MUST_USE;
bool ledger_move(struct ledger *l);

/*
 * The next event of a block is of FAMILY (enum wire_family, inject/wire_event.h), and not of
 * FAMILY_HEAP as all others are.
 */
void ledger_family(struct ledger *l, unsigned family);
/* Whether events come LATE from now on: after what their threads did afterwards. */
void ledger_late(struct ledger *l, bool late);

/* A new thread of the process; its index is used in the calls below. */
uint32_t ledger_thread(struct ledger *l, pid_t tid);
pid_t ledger_thread_tid(const struct ledger *l, uint32_t thread);
size_t ledger_threads(const struct ledger *l);
/* Whether these are several: one that is not yet set up by its libc has an index of its own. */
bool ledger_is_threaded(const struct ledger *l);
/* It will send no more events (what it left unfinished stays counted). Its index stays valid. */
void ledger_thread_ended(struct ledger *l, uint32_t thread);

/* Events. MS: milliseconds since tracing began. */
void ledger_alloc(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t addr, uint64_t size,
		  uint32_t stack);
void ledger_release(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t addr, bool from_libc);
/*
 * Sampling (inject/wire_event.h). ledger_sampled(): from now on there are blocks that are not told
 * of, so a release of what is not known is nothing special; PERIOD is what they are sampled with
 * now. A block that its hook has counted in the table `known` comes with ledger_alloc_counted():
 * PERIOD is that of its sample, 0: it stands for itself alone.
 */
void ledger_sampled(struct ledger *l, uint64_t period);
void ledger_alloc_counted(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t addr,
			  uint64_t size, uint32_t stack, uint64_t period);
void ledger_became_counted(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t addr,
			   uint64_t size, uint32_t stack, uint64_t period);
/*
 * THREAD has allocated, and that is not told of or not yet, since it allocated the block that it
 * releases next: which is not `temporary`.
 */
void ledger_went_on(struct ledger *l, uint32_t thread);
/*
 * The table of the process, into which those blocks go that are counted already (a new process has
 * its parent's); borrowed until it is another one. NULL: none.
 */
void ledger_known(struct ledger *l, uint8_t *known);
/*
 * ON: all other blocks go into it, too, those that are there and those to come; until ON is false.
 */
void ledger_know_all(struct ledger *l, bool on);
/* ledger_release() with the stack of the release, 0: not known. */
void ledger_release_by(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t addr, bool from_libc,
		       uint32_t stack);
/*
 * realloc: OLD is leaving; it stays counted until the outcome. At most one outstanding per thread.
 */
void ledger_leave(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t old);
void ledger_leave_by(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t old, uint32_t stack);
void ledger_became(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t addr, uint64_t size,
		   uint32_t stack);
void ledger_stayed(struct ledger *l, uint32_t thread, uint64_t ms);
void ledger_gone(struct ledger *l, uint32_t thread, uint64_t ms);
void ledger_gone_by(struct ledger *l, uint32_t thread, uint64_t ms, uint32_t stack);
/*
 * Mappings. PROT: WIRE_PROT_*; FLAGS: WIRE_MAP_*. OWN: made by the program (not libc, ld.so, an
 * allocator) and anonymous: counted; otherwise only what it displaces matters. Lengths are rounded
 * up to whole pages, as the kernel does, the break's excepted. An accessible byte is charged to the
 * call that first made it so. `maps`/`unmaps` count calls that gave or took some; mremap is one of
 * each.
 */
void ledger_map(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t addr, uint64_t len,
		unsigned prot_flags, uint32_t stack, bool own);
void ledger_unmap(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t addr, uint64_t len);
void ledger_unmap_failed(struct ledger *l, uint32_t thread, uint64_t ms);
void ledger_remap_leave(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t old,
			uint64_t old_len);
void ledger_remap(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t addr, uint64_t len,
		  uint32_t stack);
void ledger_remap_failed(struct ledger *l, uint32_t thread, uint64_t ms);
void ledger_protect(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t addr, uint64_t len,
		    unsigned prot, uint32_t stack);
void ledger_break(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t now, raddr_t old,
		  uint32_t stack, bool own);
/*
 * N events of WIRE_ALLOC and WIRE_FREE in a row (wire_event.h): several times faster than one by
 * one.
 */
struct wire_event;
void ledger_batch(struct ledger *l, uint32_t thread, uint64_t ms, const struct wire_event *e,
		  size_t n);

/* Questions. */
void ledger_totals(const struct ledger *l, struct ledger_totals *out);
size_t ledger_stacks(const struct ledger *l); /* ids are below this */
/* never NULL: zeros if never seen */
const struct ledger_stack *ledger_stack(const struct ledger *l, uint32_t stack);
/*
 * Each stack that was ever seen, I from 1 to below ledger_stacks_seen(), in no order: *STACK is its
 * id.
 */
size_t ledger_stacks_seen(const struct ledger *l);
const struct ledger_stack *ledger_stack_seen(const struct ledger *l, size_t i, uint32_t *stack);
/*
 * How far off what STACK holds may be, as it is an estimate: the variance in bytes squared, 0 if it
 * is exact. Of the past, where only sums are known, if it held BYTES in COUNT blocks at MS: as if
 * all of them had been sampled, with the period of now, 0 if none of its blocks ever was.
 */
double ledger_variance(const struct ledger *l, uint32_t stack);
double ledger_past_variance(const struct ledger *l, uint32_t stack, uint64_t ms, int64_t bytes,
			    int64_t count);
/* What STACK held at the peak. */
void ledger_stack_at_peak(const struct ledger *l, uint32_t stack, int64_t *bytes, int64_t *count);

/*
 * The past, in intervals of 100 ms, each at its local maximum; older ones may be merged into longer
 * ones. With several threads the maxima are as exact as the order of their events is.
 */
struct ledger_interval {
	/* the value holds for all intervals within; to_ms: exclusive, UINT64_MAX: up to now */
	uint64_t from_ms, to_ms;
	uint64_t bytes; /* live at the maximum, as far as counted */
	uint64_t ms;	/* when that was */
	/* more than 1: it is the maximum of that many intervals */
	uint64_t span;
};
struct ledger_held {
	uint32_t stack;
	int64_t bytes, count;
};
struct ledger_timeline {
	size_t points, memory; /* bytes of our memory */
	/* before this some intervals are longer than 100 ms: up to how much */
	uint64_t coarse_until_ms, coarse_ms;
};
void ledger_interval(const struct ledger *l, uint64_t ms, struct ledger_interval *out);
/*
 * What each stack held at the maximum of the interval that MS is in, in no order; the caller frees.
 * Number of entries, or -ENOMEM.
 */
ssize_t ledger_past(const struct ledger *l, uint64_t ms, struct ledger_held **out) MUST_USE;
void ledger_timeline(const struct ledger *l, struct ledger_timeline *out);
/* How it has gone along up to now. 0 or -ENOMEM; OUT is to be released in both cases. */
int ledger_activity(const struct ledger *l, struct activity *out) MUST_USE;

/*
 * Where the past of a ledger is told, if it is not in its own timeline: for intervals before the
 * present one, whose number is PRESENT. As ledger_interval() and ledger_past(), which may give
 * other errors then. PEAK, PEAK_MS: the highest moment of those intervals.
 */
struct ledger_history {
	void *ctx;
	void (*interval)(void *ctx, uint64_t ms, uint64_t present, struct ledger_interval *out);
	ssize_t (*past)(void *ctx, uint64_t ms, struct ledger_held **out);
};
void ledger_look_back(struct ledger *l, const struct ledger_history *history, uint64_t peak,
		      uint64_t peak_ms);

/*
 * Live blocks are listed by block_list.h. Calls FN for each live mapping, in the order of their
 * addresses, until it returns nonzero; that is returned. -ENOMEM.
 */
int ledger_each_mapping(const struct ledger *l, int (*fn)(void *ctx, const struct ledger_block *b),
			void *ctx);
/* ledger_each_mapping() for the blocks that reallocs under way have taken out of the table. */
int ledger_each_leaving(const struct ledger *l, int (*fn)(void *ctx, const struct ledger_block *b),
			void *ctx);
/* All of the program's own mappings, ascending, also what of them is not accessible. */
int ledger_each_range(const struct ledger *l, int (*fn)(void *ctx, const struct ledger_block *b),
		      void *ctx);
struct blocks_pass;
/*
 * The pages of the heap that live blocks begin in, without those of a realloc under way: some
 * address in each, a page maybe more than once.
 */
int ledger_pass_pages(const struct ledger *l, struct blocks_pass *w, size_t n,
		      void (*fn)(void *ctx, raddr_t addr), void *ctx) MUST_USE;
/*
 * The pages that any block has ever been in, live or not, for the caller to release. (Of a block of
 * less than a page that ends in another one than it begins in, the latter may be missing.) 0 or
 * -ENOMEM.
 */
struct page_set;
int ledger_lain(const struct ledger *l, struct page_set *out) MUST_USE;
/* Whether a live block begins at ADDR. */
bool ledger_holds(const struct ledger *l, raddr_t addr);
/* The addresses of some live blocks, at most MOST; others each time. How many. */
size_t ledger_some(const struct ledger *l, raddr_t *addr, size_t most);
/* The block that ADDR is in (interior too). */
bool ledger_find(const struct ledger *l, raddr_t addr, struct ledger_block *out);
/* The live block (not mapping) with the highest address that is <= ADDR. */
bool ledger_below(const struct ledger *l, raddr_t addr, struct ledger_block *out);
/*
 * Whether a block that a realloc ends is remembered with the realloc's stack, as releases with a
 * stack always are. At first not.
 */
void ledger_keep_freed(struct ledger *l, bool keep);
/*
 * What is known of the block that ADDR was in and that was freed last: nothing is kept for it, so
 * it may be forgotten when something new comes near. Unless its releases came with stacks
 * (ledger_release_by), when it was allocated and by whom is not known: known is false.
 */
struct ledger_freed {
	struct ledger_block block; /* thread and ms: of its allocation, if known */
	bool known;
	uint32_t thread, stack; /* who freed it; stack 0: not known */
	uint64_t ms;		/* when, to 10 ms */
};
bool ledger_find_freed(const struct ledger *l, raddr_t addr, struct ledger_freed *out);
/*
 * Releases that cannot be right as far as the ledger knows; whether it knows enough to say so is
 * for others to judge. FN is told of each, within the event; it may ask, and change nothing. NULL:
 * nobody is.
 */
enum ledger_wrong_kind {
	WRONG_FREED,   /* a block that was released before */
	WRONG_WITHIN,  /* an address within a live block, or a mapping of the program's own */
	WRONG_NOTHING, /* nothing is known of the address */
	WRONG_FAMILY,  /* a block that another family gave; only told of where STACK is known */
};
struct ledger_wrong {
	enum ledger_wrong_kind kind;
	raddr_t address;
	/* the call: a realloc; of which family; where, 0: not known */
	bool resize;
	unsigned family;
	uint32_t thread, stack;
	uint64_t ms;
	bool late;     /* the call; what its thread did afterwards may have come before */
	unsigned gave; /* WRONG_FAMILY: the block's */
	/* the block, and (WRONG_FREED) its release; nothing of it if WRONG_NOTHING */
	struct ledger_freed block;
};
/* Some address was given twice without a release in between: one was not seen. */
bool ledger_overlaid(const struct ledger *l);
void ledger_on_wrong(struct ledger *l, void (*fn)(void *ctx, const struct ledger_wrong *w),
		     void *ctx);

/*
 * What of [ADDR, ADDR + LEN) is in the program's own mappings: bytes that are accessible, and not;
 * and whether ADDR is in an accessible one.
 */
struct ledger_cover {
	uint64_t open, closed;
	bool begins_open;
};
void ledger_cover(const struct ledger *l, raddr_t addr, uint64_t len, struct ledger_cover *out);
/* Whether a realloc or mremap is under way: what it resizes stays counted until its outcome. */
bool ledger_resizing(const struct ledger *l);
/* Bytes of our own memory that the ledger uses. */
size_t ledger_memory(const struct ledger *l);

#endif
