/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * wrong.h - what a victim that frees wrongly says of it before it does: the text that mtrun is to say, and where the calls are.
 *
 *	say TEXT		the line `mtrun: TEXT`
 *	at WHAT FUNCTION LINE	a stack of WHAT (call, freed, allocated, mapped) begins there
 *
 * Then it frees, and if it lives on it says `survived`. Nothing here allocates.
 */
#ifndef WRONG_H
#define WRONG_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
#define KEEP(p)	 __asm__ volatile("" : : "r"(p) : "memory") /* and no tail call */

static void line(const char *format, ...)
{
	char text[300];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (write(1, text, (size_t)n) != n)
		_exit(9);
}
#define SAY(...)		   line("say " __VA_ARGS__)
#define AT(what, function, number) line("at %s %s %d\n", what, function, number)

#endif
