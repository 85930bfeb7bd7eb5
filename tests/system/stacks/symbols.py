#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 300
# serial
"""
symbols - the first report on a large debug binary: the program is served meanwhile, no gap above 20 ms.
MTRUN_SOAK=1: 100 MB of it.

The program measures the gaps itself. What the machine's other work takes from it is not mtrun's: the
kernel counts for each thread how long it was ready and others had the processors (schedstat). From
the time between two turns goes what the program waited so, and what those waited that it may wait
for: mtrun's loop, the thread that wakes it, and the one that answers, while it copies; and what the
machine waited for its host.
"""
import os
import re
import subprocess

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
d = mt.tmp()
FILES = 16 if mt.SOAK else 3
FUNCTIONS = 800 if mt.SOAK else 200
MEMBERS = 400 if mt.SOAK else 20
LIMIT_MS = 20

MAIN = r'''
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "queued.h"
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6; }

static int self, loop, heartbeat, asker;
static double waited(void) { return queued(self).ms + queued(loop).ms + queued(heartbeat).ms + queued(asker).ms + queued_stolen(); }

int main(void)
{
	double end = now() + 60000, last, gap = 0, t, before;
	static void *held[4096];
	for (unsigned i = 0; i < 1000000; i++) {
		void **h = &held[i % 4096];
		free(*h);
		*h = call[i % FILES](i / FILES);
	}
	self = open_queued();
	loop = open_queued_tracer();
	heartbeat = open_queued_of("mtrun-heartbeat");
	asker = open_queued_of("mtrun-asker");
	puts("ready");
	fflush(stdout);
	last = now();
	for (unsigned i = 0; access("stop", F_OK) && last < end; i++) {
		void **h = &held[i % 4096];
		before = waited();
		last = now();
		for (unsigned k = 0; k < 100; k++) {	/* some 10 us */
			free(*h);
			*h = call[i % FILES](i / FILES);
			t = now();
			if (t - last > gap && t - last - (waited() - before) > gap)
				gap = t - last - (waited() - before);
			last = t;
		}
	}
	printf("gap %.1f\n", gap);
	return 0;
}
'''


def build():
    objects = []
    for k in range(FILES):
        path = os.path.join(d, f'f{k}.c')
        with open(path, 'w') as f:
            f.write('#include <stdlib.h>\n')
            for i in range(FUNCTIONS):
                f.write(f'struct s{k}_{i} {{ ' + ' '.join(f'int *member_{k}_{i}_{m};' for m in range(MEMBERS)) + ' };\n'
                        f'void *fn_{k}_{i}(struct s{k}_{i} *p, int n) {{ return p ? (void *)p->member_{k}_{i}_0 : malloc((size_t)(n % 64) + 1); }}\n')
            f.write(f'typedef void *(*fn)(void *, int);\nvoid *call_{k}(int i) {{ static const fn t[] = {{'
                    + ','.join(f'(fn)fn_{k}_{i}' for i in range(FUNCTIONS)) + '}; return t[i % (int)(sizeof t / sizeof *t)](0, i); }\n')
        objects.append(path[:-1] + 'o')
        subprocess.run(['gcc', '-g', '-O0', '-w', '-c', path, '-o', objects[-1]], check=True)
    with open(os.path.join(d, 'main.c'), 'w') as f:
        f.write(''.join(f'void *call_{k}(int);\n' for k in range(FILES)) + f'#define FILES {FILES}\nstatic void *(*const call[])(int) = {{'
                + ','.join(f'call_{k}' for k in range(FILES)) + '};\n' + MAIN)
    out = os.path.join(d, 'big')
    subprocess.run(['gcc', '-g', '-O1', '-w', f'-I{mt.VICTIMS}', '-o', out, os.path.join(d, 'main.c'), *objects], check=True)
    return out


def gap(big, command):
    """
    The longest time that the program was away, in ms, while COMMAND was answered for the first time,
    and what was said; None: not answered.
    """
    p = mt.popen([mt.MTRUN, '-q', '-X', '-', big], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=d)
    p.stdout.readline()
    out, err = p.communicate(f'{command}; ! touch stop\nwait exit\n'.encode(), timeout=100)
    os.unlink(os.path.join(d, 'stop'))
    m = re.search(rb'gap ([\d.]+)', out)
    answered = m and re.search(rb'fn_\d+_\d+', err)
    return float(m[1]) if answered else None, f'status {p.returncode} {out[-200:]} {err[-1000:]}'


big = build()
size = os.path.getsize(big) >> 20
if mt.SOAK and size < 100:
    mt.fail('the binary', f'has only {size} MB')
for command in 'report', 'text', 'trace malloc; blocks':
    ms, said = gap(big, command)
    print(f'# {command}: {ms} ms')
    mt.check(f'{command}: the program is away for at most {LIMIT_MS} ms' + (f' ({size} MB)' if mt.SOAK else ''),
             [] if ms is not None and ms <= LIMIT_MS else [f'{ms} ms: {said}'])
mt.finish()
