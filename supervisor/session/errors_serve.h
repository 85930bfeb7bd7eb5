/* SPDX-License-Identifier: GPL-3.0-or-later */
/* errors_serve.h - what the session does about errors that a process' ledger has told of. */
#ifndef MTRUN_ERRORS_SERVE_H
#define MTRUN_ERRORS_SERVE_H

#include "session/session.h"

/* Those that are new stop their process, if they are to. Whether there are any to be told. */
bool errors_serve(struct session *s);

#endif
