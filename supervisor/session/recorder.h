/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * recorder.h - the log of a run: which processes are in it, and what its files say of them beside
 * their events, so that each file stands alone. The session owns it; there is none until a log is
 * asked for.
 *
 * An error (disk full, the file deleted) is said once; then recording goes on in memory until
 * recorder_on().
 */
#ifndef MTRUN_RECORDER_H
#define MTRUN_RECORDER_H

#include "base/types.h"

struct process;
struct record; /* of one process */
struct recorder;
struct session;

#define LOG_SIZE_LEAST (64u << 10) /* bytes of a file before the next one is begun */
#define LOG_SIZE_MOST  (UINT64_C(1) << 40)
#define LOG_FILES_MOST 100000u

/*
 * From now on the events of all processes are logged, into a new file as the session's options say
 * (log_dir, log_size, log_files). 0, or -errno with one line in WHY: then everything is as before.
 * No effect if it is on.
 */
int recorder_on(struct session *s, char *why, size_t len) MUST_USE;
/* Ends logging: what has happened so far is in the file, which is completed. No effect if it is off. */
void recorder_off(struct session *s);
bool recorder_is_on(const struct session *s);
/* Begins a new file; logging is on. Returns as recorder_on(). */
int recorder_rotate(struct session *s, char *why, size_t len) MUST_USE;
/* The session's log_files has changed. */
void recorder_keep(struct session *s);
/* Calls FN for each file of the run that is there, in order. */
void recorder_files(struct session *s, void (*fn)(void *ctx, const char *path, uint64_t bytes),
		    void *ctx);
/* if logging is on, the file is completed without what is not in it yet */
void recorder_free(struct recorder *r);

/* For the session: to be called often. */
void recorder_turn(struct session *s);
/*
 * How many events of each process, at most CHUNK, may be read between two calls of recorder_turn(),
 * so that they make no file larger than its size.
 */
size_t recorder_portion(const struct session *s);
/* P was added to the list's end: the log has processes in the same order */
void recorder_appeared(struct session *s, struct process *p);
void recorder_listen(struct session *s, struct process *p);   /* P's events begin */
void recorder_finished(struct session *s, struct process *p); /* P will send no more events */
/* nothing that is known of P changes any more */
void recorder_closed(struct process *p);
/* Whether something of P is still to be written into the file. */
bool recorder_needs(const struct process *p);
/* The symbols that the file needs so far are looked up at once: recorder_told() of what it returns. */
uint64_t recorder_hurry(const struct session *s);
bool recorder_told(const struct session *s, uint64_t n);
void recorder_release(struct process *p); /* it is going to be freed */

#endif
