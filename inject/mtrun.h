/* SPDX-License-Identifier: MIT-0 */
/*
 * mtrun.h - a program asks mtrun about its own memory, and labels its timeline.
 *
 *	size_t mtrun_allocated_memory(void);		bytes allocated now, of what `mtrun --count`
 *	                                                names: heap, mappings, the executable's text
 *	size_t mtrun_meta_memory(void);			8 bytes for each live block
 *	size_t mtrun_memory_limit(void);		the limit in bytes, 0: none
 *	void mtrun_mark(const char *label);		a label on the timeline, with the time
 *	void mtrun_snapshot(const char *name);		as the command `snapshot NAME`, at exactly
 *	                                                this point
 *
 * This header is all there is: nothing to link, C and C++, gcc 8 or later and clang, x86-64 Linux
 * (elsewhere the functions do nothing and return 0). Without mtrun a call costs a function call and
 * returns 0; so it does once mtrun has left, and if mtrun does not answer for seconds.
 *
 * Under mtrun the caller waits for the answer, some microseconds. Everything that had been
 * allocated and freed before the call, in whatever thread, is in it. With --sample the sums are
 * estimates; while nothing is recorded (`record off`) they are those of its last moment.
 *
 * LABEL and NAME stay the caller's. Of each up to 64 bytes are copied, to a NUL if there is one
 * before that, without a part of a UTF-8 character at the end. NULL or a bad pointer is an empty
 * text, and a snapshot without a name is not taken. No function fails, allocates or changes errno;
 * all may be called by any thread, and in a signal handler.
 *
 * How it works: each function that is used leaves a note (section .note.mtrun, owner "mtrun": which
 * function it is, and where) in the part of the file that is loaded, which static linking,
 * --gc-sections, LTO and strip keep. mtrun finds the note and redirects the function, whose body is
 * 14 bytes of nops, in which the function's number is repeated, and `return 0`.
 *
 * Copyright (c) 2026 The mtrun authors
 *
 * Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
 * associated documentation files (the "Software"), to deal in the Software without restriction,
 * including without limitation the rights to use, copy, modify, merge, publish, distribute,
 * sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is
 * furnished to do so.
 *
 * THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT
 * NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
 * NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM,
 * DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
 * OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
 */
#ifndef MTRUN_H
#define MTRUN_H

#include <stddef.h>

/* With MTRUN_NONE defined the functions do nothing and return 0. */
#if defined(__x86_64__) && !defined(__ILP32__) && defined(__linux__) && defined(__ELF__) && \
	defined(__has_attribute) && !defined(MTRUN_NONE)
#if __has_attribute(naked)
#define MTRUN_HERE 1
#endif
#endif

#ifdef MTRUN_HERE

/* noipa: gcc must not draw conclusions from a body that is not the one that runs. */
#if __has_attribute(noipa)
#define MTRUN_NOIPA __attribute__((noipa))
#else
#define MTRUN_NOIPA
#endif
#define MTRUN_FUNCTION(type) \
	MTRUN_NOIPA __attribute__((naked, noinline, unused, no_instrument_function)) static type

/*
 * nopl KIND(%rax); nopl 0(%rax); xor %eax, %eax; ret. Written as bytes, which need no assembler
 * dialect. Every mtrun relies on the numbers of the kinds and the form of note and body, so they
 * never change.
 */
#define MTRUN_BODY(kind)                                                        \
	__asm__ volatile(".balign 8\n"                                          \
			 "1:\t.byte 0x0f, 0x1f, 0x80, " #kind ", 0, 0, 0\n\t"   \
			 ".byte 0x0f, 0x1f, 0x80, 0, 0, 0, 0\n\t"               \
			 ".byte 0x31, 0xc0, 0xc3\n\t"                           \
			 ".pushsection .note.mtrun, \"a\", @note\n\t"           \
			 ".balign 4\n\t"                                        \
			 ".long 6, 8, 1\n\t"                                    \
			 ".asciz \"mtrun\"\n\t"                                 \
			 ".balign 4\n\t"                                        \
			 ".long " #kind "\n\t"                                  \
			 ".long 1b - .\n\t"                                     \
			 ".popsection")

MTRUN_FUNCTION(size_t) mtrun_allocated_memory(void)
{
	MTRUN_BODY(1);
}

MTRUN_FUNCTION(size_t) mtrun_meta_memory(void)
{
	MTRUN_BODY(2);
}

MTRUN_FUNCTION(size_t) mtrun_memory_limit(void)
{
	MTRUN_BODY(3);
}

MTRUN_FUNCTION(void) mtrun_mark(const char *label __attribute__((unused)))
{
	MTRUN_BODY(4);
}

MTRUN_FUNCTION(void) mtrun_snapshot(const char *name __attribute__((unused)))
{
	MTRUN_BODY(5);
}

#undef MTRUN_BODY
#undef MTRUN_FUNCTION
#undef MTRUN_NOIPA
#undef MTRUN_HERE

#else

#ifdef __cplusplus
#define MTRUN_FUNCTION(type) static inline type
#elif defined(__GNUC__)
#define MTRUN_FUNCTION(type) static __inline__ __attribute__((unused)) type
#else
#define MTRUN_FUNCTION(type) static type
#endif

MTRUN_FUNCTION(size_t) mtrun_allocated_memory(void)
{
	return 0;
}

MTRUN_FUNCTION(size_t) mtrun_meta_memory(void)
{
	return 0;
}

MTRUN_FUNCTION(size_t) mtrun_memory_limit(void)
{
	return 0;
}

MTRUN_FUNCTION(void) mtrun_mark(const char *label)
{
	(void)label;
}

MTRUN_FUNCTION(void) mtrun_snapshot(const char *name)
{
	(void)name;
}

#undef MTRUN_FUNCTION

#endif
#endif
