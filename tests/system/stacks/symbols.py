#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 300
# serial
"""symbols - the first report on a large debug binary: the program is served meanwhile. MTRUN_SOAK=1: 100 MB of it, and no gap above 20 ms."""
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
LIMIT_MS = 20 if mt.SOAK else 400
TRIES = 20 if mt.SOAK else 5

MAIN = r'''
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6; }
int main(void)
{
	double end = now() + 60000, last, gap = 0, t;
	static void *held[4096];
	for (unsigned i = 0; i < 1000000; i++) {
		void **h = &held[i % 4096];
		free(*h);
		*h = call[i % FILES](i / FILES);
	}
	last = now();
	puts("ready");
	fflush(stdout);
	for (unsigned i = 0; access("stop", F_OK) && last < end; i++) {
		void **h = &held[i % 4096];
		for (unsigned k = 0; k < 100; k++) {	/* some 10 us */
			t = now();
			gap = t - last > gap ? t - last : gap;
			last = t;
			free(*h);
			*h = call[i % FILES](i / FILES);
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
    subprocess.run(['gcc', '-g', '-O1', '-w', '-o', out, os.path.join(d, 'main.c'), *objects], check=True)
    return out


def gap(big, command):
    """The longest time that the program was away, in ms, while COMMAND was answered for the first time; None: not answered."""
    p = mt.popen([mt.MTRUN, '-q', '-X', '-', big], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=d)
    p.stdout.readline()
    out, err = p.communicate(f'{command}; ! touch stop\nwait exit\n'.encode(), timeout=100)
    os.unlink(os.path.join(d, 'stop'))
    m = re.search(rb'gap ([\d.]+)', out)
    return float(m[1]) if m and re.search(rb'fn_\d+_\d+', err) else None


big = build()
size = os.path.getsize(big) >> 20
if mt.SOAK and size < 100:
    mt.fail('the binary', f'has only {size} MB')
for command in 'report', 'text', 'trace malloc; blocks':
    gaps = []
    while len(gaps) < TRIES and (not gaps or None not in gaps and min(gaps) > LIMIT_MS):
        gaps.append(gap(big, command))
    # The machine takes the processor away from the program, too: the best of some tries is what mtrun does.
    mt.check(f'{command}: the program is away for at most {LIMIT_MS} ms' + (f' ({size} MB)' if mt.SOAK else ''),
             [] if None not in gaps and min(gaps) <= LIMIT_MS else [f'{gaps} ms'])
mt.finish()
