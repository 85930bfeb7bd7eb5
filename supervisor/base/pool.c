// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/pool.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

/*
 * Workers take jobs by number, under a lock. The thread that asked waits for them, and looks every
 * LOOK_MS whether it is to go on. Workers block all signals but SIGBUS (sigbus.h): those are the
 * asking thread's.
 */
#define LOOK_MS 100

struct pool {
	const struct pool_work *work;
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t idle;  /* a worker has ended */
	size_t next, jobs;
	unsigned running;
	int err;
};

static bool take(struct pool *p, size_t *job)
{
	bool some;

	pthread_mutex_lock(&p->lock);
	some = p->next < p->jobs && !p->err;
	*job = p->next;
	p->next += some;
	pthread_mutex_unlock(&p->lock);
	return some;
}

static void *worker(void *arg)
{
	struct pool *p = arg;
	const struct pool_work *w = p->work;
	void *own = w->begin(w->ctx);
	size_t job;

	while (own && take(p, &job))
		w->job(w->ctx, own, job);
	if (own)
		w->end(w->ctx, own);
	pthread_mutex_lock(&p->lock);
	if (!own && !p->err)
		p->err = -ENOMEM;
	p->running--;
	pthread_cond_signal(&p->idle);
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

static void look_on(struct pool *p)
{
	bool go_on = true, over;

	do {
		struct timespec until;

		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += LOOK_MS * 1000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		if (p->running)
			pthread_cond_timedwait(&p->idle, &p->lock, &until);
		over = !p->running;
		if (p->work->look) {
			pthread_mutex_unlock(&p->lock);
			go_on = p->work->look(p->work->ctx);
			pthread_mutex_lock(&p->lock);
		}
		if (!go_on && !p->err)
			p->err = -ECANCELED;
	} while (!over);
}

int pool_run(const struct pool_work *work, unsigned workers, size_t jobs)
{
	struct pool p = { .work = work,
			  .lock = PTHREAD_MUTEX_INITIALIZER,
			  .idle = PTHREAD_COND_INITIALIZER,
			  .jobs = jobs };
	pthread_t *thread;
	sigset_t all, was;
	unsigned made = 0;

	if (workers > jobs)
		workers = (unsigned)jobs;
	thread = calloc(workers + 1, sizeof(*thread));
	if (!thread)
		return -ENOMEM;
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_BLOCK, &all, &was);
	pthread_mutex_lock(&p.lock);
	while (made < workers && !pthread_create(&thread[made], NULL, worker, &p))
		made++;
	p.running = made;
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	if (jobs && !made)
		p.err = -EAGAIN;
	look_on(&p);
	pthread_mutex_unlock(&p.lock);
	while (made)
		pthread_join(thread[--made], NULL);
	free(thread);
	return p.err;
}

unsigned pool_processors(void)
{
	cpu_set_t set;
	int n = sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);

	return n > 0 ? (unsigned)n : 1;
}
