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
	bool follow;		     /* not --no-follow */
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
	uint64_t sampled; /* agent.sample as it was when it was on last */
	enum mode mode;
	const char *log_dir; /* where log files go, */
	uint64_t log_size;   /* bytes that one has at most, */
	uint32_t log_files;  /* how many there are at most, that being written included */
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
 * Opened with -r: the process that HEAP, which is taken over, tells of is the chosen one; nothing
 * runs. 0 or -ENOMEM.
 */
struct heap;
int session_open(struct session *s, struct heap *heap) MUST_USE;
/*
 * Opens LOG, which is taken over, with its processes; those of the log before are no more. The
 * chosen one is the newest image of the first. What its run counted and sampled is in the options
 * from now on. 0 or -ENOMEM.
 */
struct replay;
int session_open_log(struct session *s, struct replay *log) MUST_USE;
struct replay *session_log(const struct session *s); /* NULL: none is open */

/*
 * Gets into the running processes of the options. 0, or -errno with everything said and all let go.
 */
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
 * To be called often while something takes long, so that the programs need not wait. By an asker:
 * the loop has its turn if it waits for one; by the loop: it has one, or within one, a look at the
 * rings. Cheap when nothing is to be done.
 */
void session_yield(struct session *s);
/* since tracing began; of a log: at its end */
uint64_t session_ms(const struct session *s);
uint64_t session_clock(const struct session *s); /* when that was, ms since 1970 */

/*
 * From now on session_turn() also looks at FD and calls FN once a turn when EVENTS (as for poll(2))
 * are there; with FN NULL it only does not wait any longer. EVENTS 0: no more. FN may not turn the
 * loop. 0 or -ENOSPC.
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

/* SIGHUP came from the kernel: the end of a terminal or session, not kill(2). */
bool session_hung_up(const struct session *s);
/*
 * Whether a SIGHUP that came by CODE (si_code) is of the end of our terminal. Who was in our
 * process group has got one by itself.
 */
bool session_is_hangup(const struct session *s, int code);
/* SIG, which came to us by CODE, to PID; of a terminal's end it gets what a leader gets. */
void session_pass_on(pid_t pid, int sig, int code);

/* No program of ours is there to get them: FN gets INT, TERM and HUP. */
void session_on_signals(struct session *s, void (*fn)(void *ctx, int sig), void *ctx);

struct process *session_processes(const struct session *s); /* list head */
/* the program that was named (or chosen by `process PID`) */
struct process *session_main(const struct session *s);
/* that was started, by `run` too, or named first after -p */
pid_t session_named(const struct session *s);
int session_choose(struct session *s, pid_t pid) MUST_USE;

/* the main program's end was seen (held, or gone), or tracing stopped */
bool session_ended(const struct session *s);
bool session_all_gone(const struct session *s); /* nothing left to wait for */
/*
 * Keep the main program at its last instant (true) or let it go when it gets there / now (false).
 */
void session_hold(struct session *s, bool hold);
/*
 * With --leak-check each process that is recorded waits at its last instant (P->to_check) until it
 * was checked: this lets it go, unless it is held anyhow.
 */
void session_checked(struct session *s, struct process *p);
/* P is the main program, and held at its last instant. */
bool session_holds(const struct session *s, const struct process *p);
/* Whether the end of our child PID, which is not traced any more, was seen: its wait status. */
bool session_gone(struct session *s, pid_t pid, int *status);
/*
 * The status mtrun should exit with for the target's end: exit code, or a signal to die of (*signal
 * != 0).
 */
int session_exit_status(const struct session *s, int *signal);

/* all threads; returns when they are. -ETIMEDOUT: some do not, and all run on */
int session_stop(struct session *s, struct process *p) MUST_USE;
const char *session_stop_error(int err); /* why they do not */
int session_cont(struct session *s, struct process *p) MUST_USE;
int session_kill(struct session *s, int sig) MUST_USE; /* the main program */
void session_detach(struct session *s);		       /* let everything run on, hooks out */
/*
 * What session_launch() started is ended, and everything is ready for another session_launch(). The
 * records stay.
 */
int session_restart(struct session *s) MUST_USE;
/*
 * Another tracer may have P (its hooks go on recording) until it is taken back. -ESRCH from the
 * latter: it is gone.
 */
int session_lend(struct session *s, struct process *p) MUST_USE;
int session_take_back(struct session *s, struct process *p) MUST_USE;

/*
 * Stacks of stopped threads (`bt`): calls FN for each thread of P, tid 0 = all. The target is
 * stopped for the moment if it runs.
 */
/*
 * leaf first; pc[0] exact, the others return addresses (WIRE_PC_EXACT set after signal frames); our
 * own frames left out
 */
struct bt_thread {
	pid_t tid;
	char name[PROC_NAME];
	size_t count;
	const uint64_t *pc;
};
int session_bt(struct session *s, struct process *p, pid_t tid,
	       void (*fn)(void *ctx, const struct bt_thread *t), void *ctx) MUST_USE;

/* FN hears, within a turn of the loop, that SIGUSR1 has come. */
void session_on_dump(struct session *s, void (*fn)(void *ctx), void *ctx);
/*
 * The program itself calls mtrun_snapshot(NAME) (inject/mtrun.h): FN is to take it. All that had
 * happened is in P's ledger, its thread waits meanwhile.
 */
void session_on_snapshot(struct session *s,
			 void (*fn)(void *ctx, struct process *p, const char *name), void *ctx);

/*
 * The limit: what a process may have allocated, bytes as far as --count names them; 0: none. It
 * holds for every process, each on its own, running ones too: below the present use it acts at the
 * next request. What waits at the old limit is looked at again. -errno: it could not be set in one
 * of them (the others have it).
 */
int session_limit(struct session *s, uint64_t limit) MUST_USE;
uint64_t session_limit_now(const struct session *s);
void session_limit_action(struct session *s, enum limit_action action);
enum limit_action session_limit_action_now(const struct session *s);
/*
 * Who hears of hits. HIT hears of each within a turn of the loop, and may not take long:
 * LIMIT_KILL, LIMIT_STOP with all threads of hit->process stopped and its ledger settled, once
 * however many ask at the same time; LIMIT_FAIL at every refusal, LIMIT_REPORT once per crossing.
 * If it returns true, there is more to tell: TELL is called by an asker of its own, one at a time,
 * and until it returns the process stands still, or where it goes on, its requests wait. Then the
 * tree is killed, or the process stays stopped, or goes on. The program named may have met the
 * limit with its text alone before: that is told before session_on_limit() returns.
 */
struct limit_listener {
	bool (*hit)(void *ctx, const struct limit_hit *hit);
	void (*tell)(void *ctx, const struct limit_hit *hit);
	void *ctx;
};
void session_on_limit(struct session *s, const struct limit_listener *listener);
/* Whether it is being told of a hit of P, or (NULL) of anybody's. */
bool session_is_telling(const struct session *s, const struct process *p);
/* LIMIT_STOP comes to its end: the tree is killed, as LIMIT_KILL does. */
void session_limit_kill(struct session *s);
/* Every process is killed. */
void session_kill_all(struct session *s);
/*
 * What becomes of errors (process/errors.h) in processes that are there or come: told, in
 * process->errors; they stop the process, too; or they are not looked for.
 */
void session_errors(struct session *s, enum error_action action);
enum error_action session_errors_now(const struct session *s);
/* A hit has killed the tree: --limit-exit says how mtrun ends. */
bool session_limit_killed(const struct session *s);

/*
 * From now on one allocation per PERIOD bytes (at most SAMPLE_MAX) is recorded, in every process
 * that is there or comes; 0: each. Not with a limit.
 */
void session_sample(struct session *s, uint64_t period);

/*
 * From now on recorded so, in every process that is there or comes. Off: hooks pass straight
 * through, answers stay those of now; not with a limit. From off to another: what is recorded
 * begins anew, as at an attach, and the loop turns meanwhile. 0; or -errno and WHY in one line:
 * -ENOMEM (some processes may be as they were), or a log that is asked for cannot be written (all
 * is as it was).
 */
int session_record(struct session *s, enum mode mode, char *why, size_t len) MUST_USE;
/*
 * Logs. A file has at most SIZE bytes, and there are at most FILES of them. They go into DIR
 * from now on: with a log a new file is begun there, as by session_rotate_log(). 0, or -errno with
 * one line in WHY. session_each_log() calls FN for each file of this run that is there, in order.
 */
int session_log_dir(struct session *s, const char *dir, char *why, size_t len) MUST_USE;
int session_rotate_log(struct session *s, char *why, size_t len) MUST_USE;
void session_each_log(struct session *s, void (*fn)(void *ctx, const char *path, uint64_t bytes),
		      void *ctx);
void session_log_size(struct session *s, uint64_t size);
void session_log_files(struct session *s, uint32_t files);
/* The log has come to an end by an error (said): the mode is the one without it. */
void session_log_ended(struct session *s);
/* Whether a log, of those that had begun well, is not whole. */
bool session_log_failed(const struct session *s);
/* Nothing more will be recorded: a log is brought to its end. */
void session_close_log(struct session *s);

/*
 * From now on each release says its stack, too (ledger_find_freed), in every process that is there
 * or comes; or no more.
 */
void session_free_stacks(struct session *s, bool on);

/*
 * What P holds as of now, for an asker: the session is unlocked while much is copied and sorted, so
 * P is held (process_ref). Its live blocks, SORTED by address or in no order (ledger/block_list.h),
 * for the caller to release; or a profile (process/profile_make.h). 0, -ENOMEM, or as
 * process_profile().
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
