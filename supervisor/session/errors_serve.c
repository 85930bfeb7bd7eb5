// SPDX-License-Identifier: GPL-3.0-or-later
#include "session/errors_serve.h"
#include "process/errors.h"

#include "base/message.h"
#include "session/session_state.h"

/*
 * What the session does about new errors. By the time that an event is read its call is over, so a
 * process stops some milliseconds after the error. An error that is only repeated stops nothing.
 */
static void freeze(struct session *s, struct process *p)
{
	int err = p->state == PROCESS_RUNNING ? session_stop(s, p) : 0;

	if (err)
		message_error("cannot stop process %d: %s", (int)p->pid, session_stop_error(err));
	p->errors.frozen = p->state == PROCESS_STOPPED;
}

bool errors_serve(struct session *s)
{
	bool any = false;

	for (struct process *p = s->processes; p; p = p->next) {
		struct errors *e = &p->errors;
		bool fresh = e->served < e->errors;

		e->served = e->errors;
		any |= e->told < e->errors;
		if (fresh && s->options.errors == ERRORS_STOP)
			freeze(s, p);
	}
	return any;
}

static void each_listens(struct session *s)
{
	for (struct process *p = s->processes; p; p = p->next)
		if (p->stream && !p->off)
			errors_listen(p, s->options.errors != ERRORS_OFF, session_ms(s));
}

void session_errors(struct session *s, enum error_action action)
{
	s->options.errors = action;
	each_listens(s);
}

enum error_action session_errors_now(const struct session *s) { return s->options.errors; }
