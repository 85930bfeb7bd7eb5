/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * session_state.h - what the files of this folder share: the session itself, its threads, and what
 * each of them does for the others. Nobody outside includes it.
 */
#ifndef MTRUN_SESSION_STATE_H
#define MTRUN_SESSION_STATE_H

#include <poll.h>

#include "session/api_answer.h"
#include "session/asking.h"
#include "session/ended.h"
#include "session/session.h"
#include "tracee/launch.h"
#include "tracee/stub.h"

enum thread_state {
	THREAD_NEW,
	THREAD_UNANNOUNCED,
	THREAD_RUNNING,
	THREAD_STOPPED,
	THREAD_EXITING,
	THREAD_LENT
};

struct thread {
	pid_t tid;
	struct process *process; /* NULL: unannounced */
	enum thread_state state;
	/* a vfork child: lives in the process' memory without being of it */
	bool vfork_child;
	/*
	 * it has stopped on its way back to the program: not by a signal, nor within a system call
	 * (its own fork, ...)
	 */
	bool between;
	/* what it stopped for is a stop signal's: it is not to run on before SIGCONT */
	bool group;
	int signal;	   /* to be delivered when resumed */
	uint64_t since_ms; /* unannounced */
};

#define WATCHES 8
#define CHUNK	65536 /* events of one process before others have their turn */

/* A tracee that was here and is no more, before anybody told who it is. */
struct early {
	pid_t tid;
	bool let_go; /* it lives on; else it has ended, with `status` */
	int status;
	uint64_t ms; /* since then */
};

struct watch {
	int fd;
	short events;
	void (*fn)(void *ctx, short revents);
	void *ctx;
};

struct session {
	struct asking asking;
	struct options options;
	struct inherited inherited;
	struct process *processes, **last;
	uint64_t filters_ms;	 /* when somebody is looked at for a seccomp filter next */
	struct ended_list ended; /* of those that are not in the list any more */
	bool some_ended;	 /* since it was looked at whether they are too many */
	struct process *main;	 /* the program named; the newest image of it */
	struct process *chosen;
	struct thread *thread;
	size_t nthreads, room;
	int bell, signals;
	struct api api;
	struct recorder *recorder; /* NULL: no log was ever asked for */
	bool log_failed;	   /* a log has ended by an error */
	char *log_dir;		   /* options.log_dir, once it was another one; NULL: argv's */
	uint64_t asked_ns;	   /* when the program itself asked last */
	pid_t launched;
	bool hold, main_ended, detached, began;
	bool restarting; /* the main program's end is ours */
	bool was_off;	 /* for some time nothing was recorded */
	bool lost_rights_told;
	/* stops, or a turn: what is said meanwhile must not begin another */
	bool serving;
	uint64_t yielded_ns;
	/* whose threads stay where they stop: session_stop() is at it */
	const struct process *stopping;
	pid_t halting; /* the one thread that does, 0: none */
	pid_t held;    /* thread held at its last instant, 0: none */
	/*
	 * Stopped before its first instruction, this thread is still in our bootstrap: where it
	 * goes on from there. Until its process is resumed; tid 0: none
	 */
	struct stub_run landed;
	const struct terminal *terminal; /* interactive: the program's own */
	bool controlled;		 /* we had a controlling terminal at the beginning */
	bool hung_up;			 /* the kernel has sent SIGHUP */
	void (*on_signal)(void *ctx, int sig);
	void *on_signal_ctx;
	void (*on_dump)(void *ctx);
	void *on_dump_ctx;
	struct limit_listener on_limit;
	struct limit_telling {
		bool busy; /* an asker tells of it */
		bool told; /* and has; the question from SLOT waits for that */
		struct limit_hit hit;
		uint32_t slot, asked;
	} telling;
	/* of the image, when nobody was there to be told; no process: none */
	struct limit_hit early;
	bool limit_killed;
	struct early *early_end;
	size_t early_ends, early_room;
	bool unannounced;  /* some thread is, or was lately */
	uint64_t whole_us; /* when a turn of the loop had all its parts last */
	uint32_t nap_us;   /* the next nap, while there are hooks that cannot ring */
	struct watch watch[WATCHES];
	nfds_t watches;
	struct capturing *capturing; /* the capture that there is, or NULL */
	struct replay *log;	     /* open, or NULL */
	uint64_t clock_ms;	     /* when tracing began, since 1970 */
	/* the program named runs; or was found to be of a kind that we cannot supervise */
	bool started, refused;
};

/* stops.c */
struct thread *thread_find(struct session *s, pid_t tid);
/* NULL: out of memory */
struct thread *thread_add(struct session *s, pid_t tid, struct process *p, enum thread_state state);
/* pointers to other threads are void after it */
void thread_remove(struct session *s, struct thread *t);
/* as process_new(), at the list's end */
struct process *process_start(struct session *s, pid_t pid, pid_t ppid, struct ledger *ledger);
/*
 * A record to be listed by, of a process that we let go without ever having been in it. WHY is
 * kept.
 */
void process_let_go(struct session *s, pid_t pid, pid_t ppid, const char *why);
/* it will say no more */
void process_finish(struct session *s, struct process *p, enum process_state state, int status);
/* it is in the list no more, nor in a log's */
void process_drop(struct process *p);
/* its rings will not be looked at again */
void process_close(struct session *s, struct process *p);
int session_serve_stops(struct session *s); /* all that are there, or 10 ms of them; how many */
/* it is under seccomp filters that we are not under ourselves */
bool session_is_filtered(pid_t tid);
/* its rings are there: a stream for them. 0 or -errno */
int process_listen(struct session *s, struct process *p);
void thread_resume(struct thread *t); /* from where it was made to stop */
/* its other tracer is done: the records of its threads go */
void process_unlend(struct session *s, struct process *p);

/* control.c */
/* all its threads, and those that start meanwhile. 0 or -errno */
int session_seize(struct session *s, struct process *p);
/* as session_stop(), in that time */
int session_stop_within(struct session *s, struct process *p, unsigned ms);
/* the same; but with -ETIMEDOUT those that have stopped stay so, and P with them */
int session_stop_most(struct session *s, struct process *p, unsigned ms);
/* it waits in the kernel and cannot be stopped (a vfork child's exec, a device) */
bool thread_blocked(const struct thread *t);
/* it waits for a vfork child, or is one */
bool thread_in_vfork(const struct thread *t);
#define HALT_MOST 30000 /* ms that an attach waits for a thread to stop, in the end */
/* longer than threads take to stop where they are many; not for all to wait for one of them */
#define MOMENT_MS 100
/* stops this one thread, and not by a signal; -EAGAIN: not within that time */
int session_halt(struct session *s, struct thread *t, int ms);
/*
 * it is stopped, and is to make system calls for us: not for its seccomp filters to judge. -EPERM
 */
int session_unfilter(const struct session *s, pid_t tid, bool on);
/* it is stopped, and has its filters back */
void session_filter(const struct session *s, pid_t tid);
/*
 * What it was to do is done, and its next stop is at hand: only a stopped thread can have its
 * filters back.
 */
void session_refilter(struct session *s, struct thread *t);
/*
 * P has new libraries, as TID says, which waits for an answer, and may make no system call: its
 * filters are set aside for those that we need of it. 0; -EPERM: we may not.
 */
int session_refresh_quietly(struct session *s, struct process *p, pid_t tid) MUST_USE;
/* programs stand still until we are done */
void session_hurry(bool on);

/* handover.c */
/* what programs ask that trace processes themselves */
void session_serve_handovers(struct session *s);

/* copies.c */
/*
 * Copies for the list that was begun as G, with the lock released in between: the ledger is not
 * needed any more, and listing_end() is the rest.
 */
struct listing;
void session_list_copy(struct session *s, struct listing *g);

/* attach.c */
/* one of P's threads that run is stopped, for work of ours: its id or -errno */
pid_t session_borrow(struct session *s, struct process *p);
/* it was put back where it was: it runs on, and its next stop is told to session_serve_stops() */
void session_give_back(struct session *s, pid_t tid);

/* capturing.c */
/* P is not what it was, or is let go: what a capture of it has made there goes */
void session_capture_cancel(struct session *s, const struct process *p);
/* answers ASK_WHOLE, ASK_MOVED, ASK_MAPPED. False: later */
struct shared_question;
bool session_capture_serve(struct session *s, const struct process *p,
			   const struct shared_question *q) MUST_USE;
/*
 * P is new by exec, and its thread TID serves us: with the threads that it had ours has gone, which
 * would have reaped a clone
 */
void session_capture_reap(struct session *s, const struct process *p, pid_t tid);

/* detach.c */
/* they are stopped, and go on untraced. We hear of the end of our own child all the same */
void session_release_threads(struct session *s, struct process *p);
/* all threads of P stood still since then */
void session_paused(struct process *p, uint64_t began);
/* P is stopped: one of its threads that can be sent somewhere, or NULL */
struct thread *session_one_stopped(struct session *s, const struct process *p);
/* nothing of ours is left in it; it runs on. -EBUSY: it is in use and stays, inert */
int session_withdraw(struct session *s, struct process *p);

/* off.c */
/* nothing is recorded in any process that is there. 0 or -errno: of some not */
int off_begin(struct session *s);
int off_end(struct session *s); /* the opposite */
/* an empty one. NULL: out of memory */
struct ledger *off_ledger(const struct session *s);

/* loop.c */
/* One turn: waits at most MS. *SOMETHING: the shell may care for what happened. 0 or -errno. */
int loop_turn(struct session *s, int ms, bool *something);
/* what the options ask for is ready before a program does anything. 0 or -errno (said) */
int session_begin_log(struct session *s);
void session_serve_questions(struct session *s);
size_t session_serve_rings(struct session *s); /* how many events */

/* forget.c */
/*
 * Of processes that ended long ago a line is left (ended.h). To be called after a turn of the loop,
 * not within one: who needs a record for longer holds it (process_ref).
 */
void session_forget_ended(struct session *s);

/* loop_thread.c */
/* poll(2) for the loop, which releases the session's lock meanwhile. FDS has room for one more. */
int asking_poll(struct session *s, struct pollfd *fds, nfds_t n, int64_t us);

#endif
