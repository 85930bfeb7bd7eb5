/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * wire_mail.h - questions of hooks and work for mtrun in the target (see wire.h): the mailbox, and
 * what a limit asks through it.
 */
#ifndef MTRUN_WIRE_MAIL_H
#define MTRUN_WIRE_MAIL_H

#include <stdint.h>

/*
 * A mailbox makes a thread of the target work for us without ptrace: it sits in the blob's loop,
 * waits for `state` to become MAIL_WORK, makes the system calls listed, sets MAIL_DONE, and so on
 * until MAIL_GO lets it return to what it did. When mtrun dies the loop ends as by MAIL_GO. A hook
 * that has a question fills `what`/`arg`, sets MAIL_ASKED and enters the same loop; `answer` is the
 * reply. A hook does not wait for ever (inject/patience.c): it takes its question back by
 * MAIL_IDLE. Each question has a turn, in the bits above MAIL_STATE, so that an answer that comes
 * too late is not taken for that of the next one. The turn is 0 where the supervisor has sent the
 * thread. MAIL_UNDONE: a thread that was to make the agent's parts could not, and has undone what
 * it did; `answer` is -errno; it waits for MAIL_GO.
 */
enum wire_mail_state { MAIL_IDLE, MAIL_ASKED, MAIL_WORK, MAIL_DONE, MAIL_GO, MAIL_UNDONE };
#define MAIL_STATE 0xffu  /* of `state`: enum wire_mail_state */
#define MAIL_TURN  0x100u /* added for each question */
enum wire_what {
	/* the service was entered because the supervisor sent the thread there */
	ASK_NOTHING,
	ASK_MODULES, /* ld.so's _dl_debug_state was called: modules came or went */
	/* a test wants to look at this thread's stack before the hook does (WIRE_STALE_SHOW) */
	ASK_FRAMES,
	/* a call of mtrun.h: arg[0] is enum wire_api, arg[1] the address of a text */
	ASK_API,
	ASK_ROOM, /* a request under a limit: see below */
	ASK_LEND, /* LeakSanitizer is about to trace this process; enum wire_lent */
	ASK_BACK, /* and is done */
	/*
	 * ptrace(arg[0], arg[1], ..) that makes its caller (thread arg[2]) a tracer or a tracee;
	 * enum wire_trace
	 */
	ASK_TRACE,
	/*
	 * no system call may be made: where does the readable memory end that arg[0] is in? 0: it is
	 * not readable
	 */
	ASK_READABLE,
	/*
	 * arg[1] bytes at arg[0] are about to be moved or enlarged, which needs one mapping: a
	 * capture's protection must not divide them until ASK_MOVED of the same range
	 */
	ASK_WHOLE,
	ASK_MOVED, /* arg[1] bytes at arg[0] have been moved, or the call has failed */
	/*
	 * arg[1] bytes at arg[0] were just mapped or made writable, and are not touched before the
	 * answer: a capture's protection must not divide them from their neighbours
	 */
	ASK_MAPPED,
	/*
	 * arg[1] bytes at arg[0] are about to be unmapped, moved, protected or mapped over: is any
	 * of it mtrun's? 1: it is
	 */
	ASK_OURS,
};
/*
 * Answers to ASK_LEND and ASK_TRACE. Both are 0 if mtrun is gone: then it traces nobody. LENT_NOT:
 * mtrun cannot let go, so the check is not to be made.
 */
enum wire_lent { LENT_NOT_NEEDED, LENT, LENT_NOT };
/* TRACE_GO: make the call. TRACE_DONE: return 0, as if it had been made. */
enum wire_trace { TRACE_GO, TRACE_DONE };
/* What mtrun.h offers. These numbers are in the notes of programs out there. */
enum wire_api { API_ALLOCATED = 1, API_META, API_LIMIT, API_MARK, API_SNAPSHOT, API_KINDS };

/*
 * A limit. While wire_process.limited says so, what a call is about to be given is charged before
 * the real function is called: blocks by their size, from what the supervisor has given the thread
 * in advance; if that is not enough the hook asks, with the call's stack. Mappings always ask, and
 * are told what to charge. In struct wire_thread, `charged` and `settled` only grow: what lies
 * between `settled` and `charged` is in flight, as the event that makes it known, or the call's
 * failure, is still to come; what lies between `charged` and `given` + `credited` is left. Most
 * blocks are freed by their own thread before it allocates another. Then the thread's last event is
 * the block's, it says the size, and if nobody has had a number of that address' counter in
 * between, as much may be charged again: `credited`, stored before the release's event; but not
 * while `given` is 0, and not for what may have been allocated before there was a limit: an event
 * before `asked`. settled is stored after the event, and only the thread itself stores it and
 * `charged`, with plain stores and the mark's WIRE_BUSY bit set around. To take back what is left
 * the supervisor stores 0 in `given`, has every thread pass a memory barrier, and reads `charged`
 * where no WIRE_BUSY bit is. The answer: bytes to be charged, at once and without another look at
 * `given`; or ROOM_NONE. It is 0 at first, so that mtrun's death grants.
 *
 * A handler may interrupt its thread in the middle of its books, and ask. They are known to the
 * byte then, too: the thread has charged `charged`, or `charging` if it has seen enough given for
 * that; and what is in flight is in the ring already if `head` is above `settles`.
 */
#define LIMIT_BLOCKS 1u /* bits of wire_process.limited */
#define LIMIT_MAPS   2u
#define ROOM_NONE    (~0ull)
enum wire_room {	      /* arg[0]: the kind | ROOM_HANDLER | stack << 32; arg[1] and on: */
		 ROOM_BLOCK,  /* size */
		 ROOM_RESIZE, /* size, the block's address */
		 /* length, address (0: where the kernel likes) of accessible anonymous memory */
		 ROOM_MAP,
		 /* new length, old address, old length, new address (0: where the kernel likes) */
		 ROOM_REMAP,
		 ROOM_PROTECT, /* length, address that is to be accessible */
		 ROOM_BREAK,   /* bytes by which it grows */
		 ROOM_KINDS
};
/* from a handler inside another hook: nothing of the thread's is used, see signal_settled */
#define ROOM_HANDLER 0x100u

#define MAIL_CALLS 16
struct wire_call {
	int64_t nr;
	uint64_t arg[6];
	int64_t ret; /* result or -errno */
};
struct wire_mail {
	uint32_t state; /* futex: enum wire_mail_state, and the turn */
	uint32_t what;	/* enum wire_what */
	uint64_t arg[5];
	uint64_t answer;
	uint32_t ncalls;
	/* wait by calls that leave the thread's interrupted one restartable: see mail_serve() */
	uint32_t lean;
	struct wire_call call[MAIL_CALLS];
};

#endif
