/* SPDX-License-Identifier: GPL-3.0-or-later */
/* errors_serve.h - what the session does about errors that a process' ledger has told of. */
#ifndef MTRUN_ERRORS_SERVE_H
#define MTRUN_ERRORS_SERVE_H

#include "session/session.h"

/* New errors stop their process, if the action is to stop. Whether there are any to be told. */
bool errors_serve(struct session *s);

#endif
