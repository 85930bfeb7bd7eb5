/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * hostile.h - what a hostile program finds of mtrun in its own address space: the shared mappings by their name in /proc/self/maps, and in those the
 * structures of inject/wire.h by their magic. Nothing here allocates or goes through libc's system calls, which mtrun hooks.
 */
#ifndef HOSTILE_H
#define HOSTILE_H

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include "inject/wire.h"

static long raw6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall" : "=a"(ret) : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
	return ret;
}
#define raw(nr, a, b, c) raw6(nr, (long)(a), (long)(b), (long)(c), 0, 0, 0)

struct shared { uintptr_t start, end; int writable; };
#define SHARED_MAX 64

/* The mappings of mtrun's memory files; how many. */
static int shared_find(struct shared *found)
{
	static _Thread_local char text[1 << 17];
	int fd = (int)raw(SYS_open, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0), n = 0;
	size_t len = 0;
	long got;

	if (fd < 0)
		return 0;
	while (len + 1 < sizeof text && (got = raw(SYS_read, fd, text + len, sizeof text - 1 - len)) > 0)
		len += (size_t)got;
	raw(SYS_close, fd, 0, 0);
	text[len] = '\0';
	for (char *line = text, *next; line && n < SHARED_MAX; line = next) {
		uintptr_t at[2] = { 0, 0 };
		char *p = line;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (!strstr(line, "memfd:mtrun"))
			continue;
		for (int i = 0; i < 2; i++, p++)
			for (; *p != '-' && *p != ' ' && *p; p++)
				at[i] = at[i] << 4 | (uintptr_t)(*p <= '9' ? *p - '0' : *p - 'a' + 10);
		found[n++] = (struct shared){ at[0], at[1], p[0] == 'r' && p[1] == 'w' && p[3] == 's' };
	}
	return n;
}

/* A copy of the word at AT, 0 where there is nothing. */
static uint64_t word_at(uintptr_t at)
{
	uint64_t word = 0;
	struct { const void *base; size_t len; } local = { &word, 8 }, remote = { (void *)at, 8 };

	if (raw6(SYS_process_vm_readv, raw(SYS_getpid, 0, 0, 0), (long)&local, 1, (long)&remote, 1, 0) != 8)
		return 0;
	return word;
}

struct seen {
	struct shared map[SHARED_MAX];
	int maps;
	volatile struct wire_beacon *beacon;
	volatile struct wire_process *process;
	volatile struct wire_big *big;
	volatile struct wire_node *node;
};

static int writable(const struct seen *s, volatile void *p, size_t len)
{
	uintptr_t at = (uintptr_t)p, end = at + len;

	for (int i = 0; i < s->maps && at < end; i++)	/* they are in the order of their addresses */
		if (s->map[i].writable && s->map[i].start <= at && at < s->map[i].end)
			at = s->map[i].end;
	return at >= end;
}

/* Looks for mtrun; whether it is there. */
static int seen_find(struct seen *s)
{
	*s = (struct seen){ .maps = 0 };
	s->maps = shared_find(s->map);
	for (int i = 0; i < s->maps && !s->process; i++) {
		uintptr_t at = s->map[i].start, process = at + (AGENT_PROCESS - AGENT_BEACON);

		if (!s->map[i].writable || word_at(at) != (WIRE_MAGIC | WIRE_VERSION) || word_at(process) != (WIRE_MAGIC | WIRE_VERSION))
			continue;
		s->beacon = (void *)at;
		s->process = (void *)process;
		s->big = (void *)(at + (AGENT_BIGS - AGENT_BEACON));
		s->node = (void *)(at + (AGENT_NODES - AGENT_BEACON));
	}
	return s->process && writable(s, s->process, 64);
}

#endif
