/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * session_state.h - what the files of this folder share: the session itself, its threads, and the
 * functions of one file that others call. Nobody outside includes it.
 */
#ifndef MTRUN_SESSION_STATE_H
#define MTRUN_SESSION_STATE_H

#include <poll.h>

#include "session/api_answer.h"
#include "session/asking.h"
#include "session/ended.h"
#include "session/session.h"
#include "tracee/launch.h"
#include "tracee/restart.h"
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
	/* a vfork child: it has the process' memory, and is no thread of it */
	bool vfork_child;
	/* it has stopped on its way back to the program: neither by a signal nor in a system call */
	bool between;
	/* it is in a group stop: it is not to run on before SIGCONT */
	bool group;
	int signal;	   /* to be delivered when resumed */
	uint64_t since_ms; /* unannounced */
	struct interrupted_call call;
};

#define WATCHES 8
#define CHUNK	65536 /* events of one process before others have their turn */

/* A tracee that has gone before it was announced. */
struct early {
	pid_t tid;
	bool let_go; /* it lives on; else it has ended, with `status` */
	int status;
	uint64_t ms; /* when it went */
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
	uint64_t filters_ms;	 /* when a process is next looked at for a seccomp filter */
	struct ended_list ended; /* of processes that are not in the list any more */
	bool some_ended;	 /* since forget.c last looked whether they are too many */
	struct process *main;	 /* the program named; the newest image of it */
	struct process *chosen;
	struct thread *thread;
	size_t nthreads, room;
	int bell, signals;
	struct api api;
	struct recorder *recorder; /* NULL: no log was ever asked for */
	bool log_failed;	   /* a log has ended by an error */
	char *log_dir;		   /* options.log_dir, once it was changed; NULL: it is argv's */
	uint64_t asked_ns;	   /* when the program last asked by mtrun.h */
	pid_t launched;
	bool hold, main_ended, detached, began;
	bool restarting; /* we are killing the main program, to run it again */
	bool was_off;	 /* there was a time when nothing was recorded */
	bool lost_rights_told;
	/* stops are being served, or a turn is under way: no other may begin within it */
	bool serving;
	uint64_t yielded_ns;
	/* the process that session_stop() is stopping: its threads stay where they stop */
	const struct process *stopping;
	pid_t halting; /* the one thread that is to stay where it stops; 0: none */
	pid_t held;    /* thread held at its last instant, 0: none */
	/* -S: the thread that is stopped in our bootstrap, before its first instruction; tid 0: none */
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
		bool busy; /* an asker is telling of it */
		bool told; /* it was told; the question from SLOT waits for that */
		struct limit_hit hit;
		uint32_t slot, asked;
	} telling;
	/* a hit by the image alone, before there was a listener; no process: none */
	struct limit_hit early;
	bool limit_killed;
	struct early *early_end;
	size_t early_ends, early_room;
	bool unannounced;  /* some thread is, or was lately */
	bool lingering;	   /* some thread is, or was lately (last_instant.c) */
	uint64_t whole_us; /* when the loop last had a turn with all its parts */
	uint32_t nap_us;   /* the next nap, while there are hooks that cannot ring */
	struct watch watch[WATCHES];
	nfds_t watches;
	struct capturing *capturing; /* the capture that there is, or NULL */
	struct replay *log;	     /* open, or NULL */
	uint64_t clock_ms;	     /* when tracing began, since 1970 */
	/* the program named runs; it was found to be of a kind that we cannot supervise */
	bool started, refused;
};

/* processes.c */
struct thread *thread_find(struct session *s, pid_t tid);
/* NULL: out of memory */
struct thread *thread_add(struct session *s, pid_t tid, struct process *p, enum thread_state state);
/* pointers to other threads are void after it */
void thread_remove(struct session *s, struct thread *t);
/* process_new(), added at the list's end */
struct process *process_start(struct session *s, pid_t pid, pid_t ppid, struct ledger *ledger);
/* Lists a process that we let go without ever having been in it. WHY is borrowed for good. */
void process_let_go(struct session *s, pid_t pid, pid_t ppid, const char *why);
/* P has told everything */
void process_finish(struct session *s, struct process *p, enum process_state state, int status);
/* P was taken out of the list, or a log's: gives the list's reference back */
void process_drop(struct process *p);
/* P's rings will not be looked at again */
void process_close(struct session *s, struct process *p);
/* P's rings are there: makes a stream for them. 0 or -errno */
int process_listen(struct session *s, struct process *p);
/* drops the record of the child that was between fork and exec */
void process_forget(struct session *s, struct process *p);
/* P's other tracer is done: drops the records of P's threads */
void process_unlend(struct session *s, struct process *p);

/* stops.c */
int session_serve_stops(struct session *s); /* at most 10 ms; returns how many */
void thread_resume(struct thread *t);	    /* from where it was made to stop */
void thread_let_go(struct thread *t);	    /* detaches from it: it stays in the list */

/* stops.c */

/* last_instant.c */
struct event;
/* T is at its last instant, as E tells; pointers to threads are void after it */
void session_exiting(struct session *s, struct thread *t, const struct event *e);
/* for those that linger at theirs: to be called again and again while there are some */
void session_watch_lingerers(struct session *s);

/* exec.c */
/* a thread has called execve: its process has a new image, and a new record */
void session_exec(struct session *s, const struct event *e);
/*
 * P cannot be supervised, and it is said WHY, which is borrowed for good. If it is the program that
 * was named, nothing of which has run yet, it is killed; others run, unsupervised
 */
void session_cannot_supervise(struct session *s, struct process *p, const char *why);
/* a WHY */
#define SESSION_FILTERED \
	"it inherits a seccomp filter, which only root may set aside for the calls that mtrun needs made in it"
/* a WHY, too: our part could not be brought in, with ERR (-errno) */
const char *session_stub_error(int err);
/* whether TID is under seccomp filters that we are not under ourselves */
bool session_is_filtered(pid_t tid);
/*
 * gives TID its filters back before its program runs on. It serves, sent by L, or, if something
 * went wrong and L is NULL, it runs. HELD: the signal that it was about to get when it was sent, or
 * 0. 0 or -errno
 */
int session_give_back_filters(struct session *s, pid_t tid, struct stub_run *l, int held);
/*
 * P has new libraries, as TID says, which waits for an answer and may make no system call: its
 * filters are suspended for the calls that we need. 0 or -errno; -EPERM: we may not suspend them
 */
int session_refresh_quietly(struct session *s, struct process *p, pid_t tid) MUST_USE;

/* sharers.c */
/* seizes all processes with P's memory that are children of P's threads and not traced yet */
void session_adopt_sharers(struct session *s, struct process *p);
/*
 * P is stopped: stops those that have its memory, too, until session_cont(). 0; -EAGAIN: one of
 * them does not stop, or is not ours
 */
int session_halt_sharers(struct session *s, struct process *p);

/* control.c */
/* seizes all of P's threads, and those that start meanwhile. 0 or -errno */
int session_seize(struct session *s, struct process *p);
/* the same for PID's threads: P's; or SHARER: those of a process that has P's memory */
int session_seize_threads(struct session *s, struct process *p, pid_t pid, bool sharer);
/* session_stop() within MS milliseconds */
int session_stop_within(struct session *s, struct process *p, unsigned ms);
/* session_stop_within(); but after -ETIMEDOUT threads that have stopped stay so, and P with them */
int session_stop_most(struct session *s, struct process *p, unsigned ms);
/* whether T waits in the kernel and cannot be stopped (a vfork child's exec, a device) */
bool thread_blocked(const struct thread *t);
/* whether T is blocked as it waits for its vfork child */
bool thread_awaits_child(const struct thread *t);
/* T's registers; of one that is blocked only rsp and rip, the others are 0. 0 or -errno */
int thread_regs(const struct thread *t, struct user_regs_struct *regs);
#define HALT_MOST 30000 /* ms that an attach waits for a thread to stop, at most */
/* longer than many threads take to stop, and short enough for those to wait for a blocked one */
#define MOMENT_MS 100
/* MOMENT_MS, and what P's threads take to stop where there are thousands */
unsigned session_moment(const struct process *p);
/* stops T alone, and not by a signal. 0 or -errno; -EAGAIN: not within MS milliseconds */
int session_halt(struct session *s, struct thread *t, int ms);
/*
 * ON: suspends the seccomp filters of TID, which is stopped and is to make system calls for us.
 * Else TID has them back. 0; -EPERM: we may not
 */
int session_unfilter(struct session *s, pid_t tid, bool on);
/* gives TID, which is stopped, its filters back */
void session_filter(struct session *s, pid_t tid);
/* session_filter() for T, which has done its work for us and is about to stop: waits for that */
void session_refilter(struct session *s, struct thread *t);
/* ON: a program stands still until we are done, so we get a real-time priority, if we may */
void session_hurry(bool on);

/* handover.c */
/* answers programs that want to trace processes themselves */
void session_serve_handovers(struct session *s);

/* copies.c */
/*
 * Copies for the list that was begun as G, with the lock released in between: after it the ledger is
 * not needed; listing_end() is the rest.
 */
struct listing;
void session_list_copy(struct session *s, struct listing *g);

/* attach.c */
/* stops one of P's running threads, for work of ours: its id or -errno */
pid_t session_borrow(struct session *s, struct process *p);
/* TID was put back where it was: it runs on, and its next stop goes to session_serve_stops() */
void session_give_back(struct session *s, pid_t tid);

/* capturing.c */
/* P has become another program, or is let go: ends a capture of it, and what that made in P */
void session_capture_cancel(struct session *s, const struct process *p);
/* answers ASK_WHOLE, ASK_MOVED, ASK_MAPPED. False: later */
struct shared_question;
bool session_capture_serve(struct session *s, const struct process *p,
			   const struct shared_question *q) MUST_USE;
/* P is new by exec, and TID serves us: reaps a clone, as the thread of ours that would have is gone */
void session_capture_reap(struct session *s, const struct process *p, pid_t tid);

/* detach.c */
/* detaches from P's threads, which are stopped. The end of our own child is still told of */
void session_release_threads(struct session *s, struct process *p);
/* all threads of P have stood still since BEGAN: notes how long */
void session_paused(struct process *p, uint64_t began);
/* P is stopped: one of its threads that can be sent somewhere, or NULL */
struct thread *session_one_stopped(struct session *s, const struct process *p);
/* takes all that is ours out of P, which runs on. 0 or -errno; -EBUSY: it is in use and stays, inert */
int session_withdraw(struct session *s, struct process *p);

/* off.c */
/* records nothing in any process from now on. 0 or -errno: some may be as before */
int off_begin(struct session *s);
int off_end(struct session *s); /* records again. 0 or -errno */
/* an empty ledger, the caller's. NULL: out of memory */
struct ledger *off_ledger(const struct session *s);

/* loop.c */
/* One turn: waits at most MS. *SOMETHING: something happened that askers are told of. 0 or -errno. */
int loop_turn(struct session *s, int ms, bool *something);
/* begins the log that the options ask for, before a program runs. 0 or -errno (said) */
int session_begin_log(struct session *s);
void session_serve_questions(struct session *s);
size_t session_serve_rings(struct session *s); /* how many events */

/* forget.c */
/*
 * Forgets processes that ended long ago, but for a line (ended.h). To be called after a turn of the
 * loop, not within one: a record that is needed for longer must be held (process_ref()).
 */
void session_forget_ended(struct session *s);

/* loop_thread.c */
/* poll(2) for the loop, which releases the session's lock meanwhile. FDS has room for one more. */
int asking_poll(struct session *s, struct pollfd *fds, nfds_t n, int64_t us);

#endif
