/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * sigbus.h - files that we have mapped and that others cut off, or whose memory is not to be had:
 * what is missing reads as zeros.
 */
#ifndef MTRUN_SIGBUS_H
#define MTRUN_SIGBUS_H

/*
 * From now on, in every thread and for every mapping, whoever made it. Called again it does
 * nothing.
 */
void sigbus_survive(void);

#endif
