/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * captured.h - a capture (memory/capture.h) as what is looked at for leaks: which of its memory is
 * a root, and which registers are.
 *
 * Roots are what the capture says, but for what of a stack is not in use: below the thread's rsp
 * there is only what functions have left that returned. Where a stack begins is known of the first
 * thread's, and of those whose control block says it (glibc's and musl's do); of others everything
 * is a root.
 */
#ifndef MTRUN_LEAKS_CAPTURED_H
#define MTRUN_LEAKS_CAPTURED_H

#include "leaks/memory_image.h"
#include "memory/capture.h"

struct leaks_span {
	raddr_t start, end;
};
void leaks_spans_sort(struct leaks_span *span, size_t n); /* ascending */

/* What a capture does not say; functions may be called from two threads. */
struct captured_source {
	bool (*interrupted)(void *ctx);
	uint64_t (*family)(void *ctx, uint32_t stack); /* as in leaks_image */
};

struct captured {
	struct leaks_image image;
	const struct capture *capture;
	struct leaks_range *range;
	uint64_t *word;
	size_t *first_word; /* by thread; one more than there are */
	const struct leaks_span *constant;
	size_t constants;
	const struct captured_source *source;
	void *ctx;
};

/*
 * CONSTANT, ascending: what may hold tables of virtual functions, in case it is in no mapping that
 * can be written. All is borrowed; C may not be moved. 0 or -ENOMEM.
 */
int captured_init(struct captured *c, const struct capture *capture,
		  const struct leaks_span *constant, size_t constants,
		  const struct captured_source *source, void *ctx) MUST_USE;
void captured_release(struct captured *c);

/* What word number WORD of the image is: of which thread, and the register's name. */
const char *captured_register(const struct captured *c, size_t word, size_t *thread);
/* The thread whose stack in use ADDRESS is on, or -1. */
ssize_t captured_stack(const struct captured *c, raddr_t address);

#endif
