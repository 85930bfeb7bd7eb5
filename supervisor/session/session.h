/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * session.h - one run of mtrun: options, the processes, the loop. What shell commands call to ask
 * and to act.
 */
#ifndef MTRUN_SESSION_H
#define MTRUN_SESSION_H

#include "base/proc.h"
#include "base/types.h"
#include "process/limit.h"
#include "process/process.h"
#include "session/mode.h"
#include "tracee/agent.h"

struct options { /* what the command line says; filled by options.c */
	/* PROGRAM and its arguments, NULL-terminated; NULL with -p */
	char **argv;
	pid_t *pid; /* -p: each once */
	size_t npids;
	bool tree;		     /* --tree */
	unsigned count;		     /* LEDGER_COUNT_* | COUNT_IMAGE */
	struct agent_settings agent; /* --depth, --sample, --hook; `set free-stacks` */
	bool follow;		     /* false: --no-follow */
	bool start_stopped;	     /* -S */
	bool quiet;
	int verbose;
	int color;	      /* 0 never, 1 auto, 2 always */
	const char *messages; /* --messages FILE or NULL */
	char **open;	      /* -r PATH...; NULL: none */
	size_t nopens;
	uint64_t duration_ms; /* -d, 0: none */
	/* -o, how the names of .heap files begin; NULL: the default */
	const char *output;
	uint64_t dump_every; /* bytes; 0: no */
	bool dump_peak, dump_exit;
	/* --leak-check: at the last instant of each process */
	enum leak_check { LEAK_CHECK_NO, LEAK_CHECK_SUMMARY, LEAK_CHECK_FULL } leak_check;
	int leak_exitcode;	   /* 0: none */
	const char **suppressions; /* files of --suppressions */
	size_t nsuppressions;
	struct script {
		bool file;
		const char *text;
	} * script; /* -x / -X in order */
	size_t nscripts;
	bool batch;
	uint64_t limit;	  /* bytes; 0: none */
	uint64_t sampled; /* agent.sample when sampling was last on */
	enum mode mode;
	const char *log_dir; /* where log files go */
	uint64_t log_size;   /* bytes of one, at most */
	uint32_t log_files;  /* how many there are at most, including the one being written */
	enum limit_action on_limit;
	enum error_action errors;
	/* exit status after a limit kill; -1: as killed by SIGKILL */
	int limit_exit;
	uint64_t interval_ms;		   /* usage lines; 0: none */
	const char *listen, *listen_token; /* --listen, --listen-token; NULL: none */
	char **listen_host;		   /* --listen-host, NULL ends them; NULL: none */
	size_t nlisten_hosts;
	const char *push; /* --push; NULL: nothing is sent */
	uint64_t push_every_ms;
	char **push_label; /* K=V; NULL ends them; NULL: none */
	size_t npush_labels;
	/* -X -: commands come from our standard input, the target's is /dev/null */
	bool stdin_null;
};

struct session;

struct session *session_new(const struct options *options) MUST_USE;
void session_free(struct session *s);
const struct options *session_options(const struct session *s);

/*
 * Starts PROGRAM. 0, or -errno with the message already said; *status is then mtrun's exit status
 * (126, 127, 125).
 */
int session_launch(struct session *s, int *status) MUST_USE;

/*
 * -r: opens HEAP, which is taken over; its process becomes the chosen one, and nothing runs. 0 or
 * -ENOMEM.
 */
struct heap;
int session_open(struct session *s, struct heap *heap) MUST_USE;
/*
 * Opens LOG, which is taken over, with its processes; those of a log that was open before are
 * dropped. The chosen one is the newest image of the first. The options now have what its run
 * counted and sampled. 0 or -ENOMEM.
 */
struct replay;
int session_open_log(struct session *s, struct replay *log) MUST_USE;
struct replay *session_log(const struct session *s); /* NULL: none is open */

/* Attaches to the options' processes. 0, or -errno: everything was said, and all are let go. */
int session_attach(struct session *s) MUST_USE;

/*
 * One turn of the loop: waits at most TIMEOUT ms (-1: until something happens) for stops, bells,
 * signals, and serves them. Also serves descriptors given by session_watch(). Returns 0, or -errno
 * if the loop itself failed.
 */
int session_turn(struct session *s, int timeout_ms) MUST_USE;

/* The signals that have come so far are served, as in a turn. */
void session_take_signals(struct session *s);

/* All that had happened when called is in the ledgers when it returns. */
void session_settle(struct session *s);
/*
 * To be called often while something takes long, so that the programs need not wait. If an asker
 * calls it, the loop gets its turn if it waits for one. If the loop calls it, it has a turn, or
 * within a turn a look at the rings. Cheap when nothing is to be done.
 */
void session_yield(struct session *s);
/* ms since tracing began; of a log: at its end */
uint64_t session_ms(const struct session *s);
uint64_t session_clock(const struct session *s); /* when tracing began, in ms since 1970 */

/*
 * From now on session_turn() also looks at FD and calls FN once a turn when EVENTS (as for poll(2))
 * are there, or were a moment ago: FN may find nothing. With FN NULL it only does not wait any
 * longer. EVENTS 0: no more. FN may not turn the loop. 0 or -ENOSPC.
 */
int session_watch(struct session *s, int fd, short events, void (*fn)(void *ctx, short revents),
		  void *ctx);
/*
 * Interactive: the program gets TERMINAL (kept by the caller), and FN gets mtrun's own signals
 * (INT, TSTP, WINCH, TERM, HUP), which are not forwarded then. To be called before
 * session_launch().
 */
struct terminal;
void session_interactive(struct session *s, const struct terminal *terminal,
			 void (*fn)(void *ctx, int sig), void *ctx);

/* Whether a SIGHUP came from the kernel: the end of a terminal or session, not kill(2). */
bool session_hung_up(const struct session *s);
/*
 * Whether a SIGHUP that came with CODE (si_code) tells of the end of our terminal. Then all in our
 * process group have got one from the kernel.
 */
bool session_is_hangup(const struct session *s, int code);
/* Sends SIG, which came to us with CODE, to PID; at a terminal's end PID gets what a leader gets. */
void session_pass_on(pid_t pid, int sig, int code);

/* There is no program to get them: FN gets INT, TERM and HUP. */
void session_on_signals(struct session *s, void (*fn)(void *ctx, int sig), void *ctx);

struct process *session_processes(const struct session *s); /* list head */
/* the process that was chosen by `process PID`, else the program named */
struct process *session_main(const struct session *s);
/* the id of the program that was started, also by `run`, or named first after -p */
pid_t session_named(const struct session *s);
int session_choose(struct session *s, pid_t pid) MUST_USE;

/* whether the main program's end was seen (it is held, or gone), or tracing has stopped */
bool session_ended(const struct session *s);
bool session_all_gone(const struct session *s); /* whether nothing is left to wait for */
/*
 * HOLD: the main program is held at its last instant. Else it is let go: now if it is there, or
 * when it comes there.
 */
void session_hold(struct session *s, bool hold);
/*
 * P, which waits at its last instant for --leak-check (P->to_check), was checked: lets it go,
 * unless it is held.
 */
void session_checked(struct session *s, struct process *p);
/* Whether P is the main program, and is held at its last instant. */
bool session_holds(const struct session *s, const struct process *p);
/* Whether the end of our child PID, which is not traced any more, was seen. *STATUS: as of wait(2). */
bool session_gone(struct session *s, pid_t pid, int *status);
/* mtrun's exit status for the target's end; or, if *SIGNAL is not 0, the signal to die of. */
int session_exit_status(const struct session *s, int *signal);

/* stops all of P's threads. 0 or -errno; -ETIMEDOUT: some do not stop, and all run on */
int session_stop(struct session *s, struct process *p) MUST_USE;
const char *session_stop_error(int err); /* why threads did not stop */
int session_cont(struct session *s, struct process *p) MUST_USE;
int session_kill(struct session *s, int sig) MUST_USE; /* sends SIG to the main program */
/* takes the hooks out of all processes, and lets them run on untraced */
void session_detach(struct session *s);
/*
 * Kills what session_launch() started, and is ready for another session_launch(). The records stay.
 * 0 or -errno.
 */
int session_restart(struct session *s) MUST_USE;
/*
 * Lets another tracer have P, whose hooks go on recording, until it is taken back. 0 or -errno;
 * -ESRCH from session_take_back(): P is gone.
 */
int session_lend(struct session *s, struct process *p) MUST_USE;
int session_take_back(struct session *s, struct process *p) MUST_USE;

/*
 * A thread's stack for `bt`, leaf first: pc[0] is exact, the others are return addresses, with
 * WIRE_PC_EXACT where a signal interrupted. Frames of ours are left out.
 */
struct bt_thread {
	pid_t tid;
	char name[PROC_NAME];
	size_t count;
	const uint64_t *pc;
};
/*
 * Calls FN with the stack of thread TID of P, 0: of each thread. P is stopped meanwhile, if it
 * runs. 0 or -errno.
 */
int session_bt(struct session *s, struct process *p, pid_t tid,
	       void (*fn)(void *ctx, const struct bt_thread *t), void *ctx) MUST_USE;

/* When SIGUSR1 has come FN is called, within a turn of the loop. */
void session_on_dump(struct session *s, void (*fn)(void *ctx), void *ctx);
/*
 * When the program calls mtrun_snapshot(NAME) (inject/mtrun.h) FN takes it. All that had happened
 * is in P's ledger by then; the program's thread waits.
 */
void session_on_snapshot(struct session *s,
			 void (*fn)(void *ctx, struct process *p, const char *name), void *ctx);

/*
 * The limit: how many bytes, of those that --count names, a process may have allocated; 0: none. It
 * holds for each process on its own, running ones too: if it is below the present use it acts at
 * the next request. Requests that wait at the old limit are looked at again. 0, or -errno: it could
 * not be set in one of them (the others have it).
 */
int session_limit(struct session *s, uint64_t limit) MUST_USE;
uint64_t session_limit_now(const struct session *s);
void session_limit_action(struct session *s, enum limit_action action);
enum limit_action session_limit_action_now(const struct session *s);
/*
 * The listener for hits. HIT is called for each within a turn of the loop, and may not take long.
 * With LIMIT_KILL and LIMIT_STOP all threads of hit->process are stopped and its ledger is settled
 * then, and there is one call however many threads ask at the same time; with LIMIT_FAIL there is
 * one for every refusal, with LIMIT_REPORT one for each crossing. If HIT returns true there is more
 * to tell: an asker of its own calls TELL, one at a time. Until that returns the process stands
 * still, or, where it goes on, its requests wait. Then the tree is killed, or the process stays
 * stopped, or goes on. If the program named has met the limit with its text alone before, that is
 * told before session_on_limit() returns.
 */
struct limit_listener {
	bool (*hit)(void *ctx, const struct limit_hit *hit);
	void (*tell)(void *ctx, const struct limit_hit *hit);
	void *ctx;
};
void session_on_limit(struct session *s, const struct limit_listener *listener);
/* Whether a hit of P, or (NULL) of any process, is being told. */
bool session_is_telling(const struct session *s, const struct process *p);
/* Ends a LIMIT_STOP: the tree is killed, as by LIMIT_KILL. */
void session_limit_kill(struct session *s);
/* Every process is killed. */
void session_kill_all(struct session *s);
/*
 * What becomes of errors (process/errors.h) in all processes, present and future: they are told, in
 * process->errors; they also stop the process; or they are not looked for.
 */
void session_errors(struct session *s, enum error_action action);
enum error_action session_errors_now(const struct session *s);
/* Whether a hit has killed the tree: then --limit-exit says how mtrun ends. */
bool session_limit_killed(const struct session *s);

/*
 * From now on one allocation per PERIOD bytes (at most SAMPLE_MAX) is recorded, in all processes,
 * present and future; 0: each. Not with a limit.
 */
void session_sample(struct session *s, uint64_t period);

/*
 * Sets the recording mode of all processes, present and future. Off: hooks pass straight through,
 * and answers stay those of this moment; not with a limit. From off to another mode the record
 * begins anew, as at an attach, and the loop turns meanwhile. 0; or -errno with WHY in one line:
 * -ENOMEM (some processes may be as they were), or the log cannot be written (everything is as it
 * was).
 */
int session_record(struct session *s, enum mode mode, char *why, size_t len) MUST_USE;
/*
 * Logs. A file has at most SIZE bytes, and there are at most FILES of them. From now on they go
 * into DIR; if there is a log, a new file is begun there, as by session_rotate_log(). 0, or -errno
 * with one line in WHY. session_each_log() calls FN for each file of this run that is there, in
 * order.
 */
int session_log_dir(struct session *s, const char *dir, char *why, size_t len) MUST_USE;
int session_rotate_log(struct session *s, char *why, size_t len) MUST_USE;
void session_each_log(struct session *s, void (*fn)(void *ctx, const char *path, uint64_t bytes),
		      void *ctx);
void session_log_size(struct session *s, uint64_t size);
void session_log_files(struct session *s, uint32_t files);
/* An error, which was said, has ended the log: the mode becomes the one without it. */
void session_log_ended(struct session *s);
/* Whether a log that was begun is not whole. */
bool session_log_failed(const struct session *s);
/* Nothing more will be recorded: completes the log, if there is one. */
void session_close_log(struct session *s);

/*
 * ON: from now on each release says its stack, too (ledger_find_freed()), in all processes, present
 * and future.
 */
void session_free_stacks(struct session *s, bool on);

/*
 * What P holds as of now, for an asker, which must hold P (process_ref()): the session is unlocked
 * while much is copied and sorted. *OUT: the live blocks, SORTED by address or in no order
 * (ledger/block_list.h), or a profile (process/profile_make.h), for the caller to release. 0,
 * -ENOMEM, or as process_profile().
 */
struct block_list;
int session_blocks(struct session *s, const struct process *p, bool sorted,
		   struct block_list *out) MUST_USE;
struct profile;
struct profile_ask;
int session_profile(struct session *s, const struct process *p, const struct profile_ask *ask,
		    struct profile *profile) MUST_USE;

struct ended_list; /* session/ended.h */
const struct ended_list *session_ended_list(const struct session *s);

/* mtrun's own use, for status. */
void session_self(const struct session *s, uint64_t *rss_bytes, uint64_t *cpu_ms);

#endif
