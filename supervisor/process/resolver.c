// SPDX-License-Identifier: GPL-3.0-or-later
#include "process/resolver.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

/*
 * One thread for each batch: it lives from resolver_start() to resolver_finish(), and blocks all
 * signals.
 */
struct resolver {
	struct symbols *symbols;
	const struct symbol_question *question;
	size_t n, done;
	pthread_t thread;
};

static void *run(void *arg)
{
	struct resolver *r = arg;

	for (size_t i = 0; i < r->n; i++) {
		const struct symbol_question *q = &r->question[i];

		symbols_resolve(r->symbols, q->module, q->pc, q->exact);
		__atomic_store_n(&r->done, i + 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

struct resolver *resolver_start(struct symbols *symbols, const struct symbol_question *question,
				size_t n)
{
	struct resolver *r = calloc(1, sizeof(*r));
	sigset_t all, was;
	int err;

	if (!r)
		return NULL;
	*r = (struct resolver){ .symbols = symbols, .question = question, .n = n };
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	err = pthread_create(&r->thread, NULL, run, r);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	if (err) {
		free(r);
		return NULL;
	}
	return r;
}

size_t resolver_done(const struct resolver *r)
{
	return __atomic_load_n(&r->done, __ATOMIC_ACQUIRE);
}

void resolver_finish(struct resolver *r)
{
	pthread_join(r->thread, NULL);
	free(r);
}
