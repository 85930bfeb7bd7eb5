#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""
golang - Go programs are counted by their mappings, with stacks that lead from the runtime's own stack back to the goroutine: built as usual, stripped, and position-independent.
The truth is the victim's: its own list of mappings, and that its blocks come from main.inner by way of main.middle, whichever goroutine it runs in.
"""
import os
import re

import sys
from concurrent.futures import ThreadPoolExecutor
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
MB = 100
BUILDS = {'plain': (), 'stripped': ('-ldflags=-s -w',), 'pie': ('-buildmode=pie',), 'pie, stripped': ('-buildmode=pie', '-ldflags=-s -w')}


def of_inner(report, caller):
    """Bytes whose stack is main.inner, main.middle, CALLER."""
    total = 0
    for row in report['mem_report']:
        names = [f['function'] for f in row['stack']]
        i = names.index('main.inner') if 'main.inner' in names else -1
        if i >= 0 and names[i:i + 3] == ['main.inner', 'main.middle', caller] and names[-1] == 'runtime.goexit':
            total += row['size']
    return total


def problems(out, status, report, caller):
    bad = []
    m = re.search(r'anonymous (\d+)', out)
    if not m:
        return [f'the program says: {out[-300:]}']
    # its .bss has no file either; the runtime's other threads may map 64K a time, as they do for their tables, between the victim's look and its end
    if not -(256 << 10) <= int(m[1]) - status['mmap'] <= status['image']:
        bad.append(f'it has {m[1]} bytes without a file; mmap {status["mmap"]}, image {status["image"]}')
    if status['unaccounted'] or status['dropped']:
        bad.append(f'{status["unaccounted"]} unaccounted, {status["dropped"]} dropped')
    if of_inner(report, caller) < MB << 20:
        rows = sorted(report['mem_report'], key=lambda row: -row['size'])[:4]
        bad.append(f'{of_inner(report, caller)} bytes are of main.inner by {caller}; the largest: ' +
                   '; '.join(f'{row["size"]} by ' + ' < '.join(f['function'] for f in row['stack']) for row in rows))
    return bad


for name, flags in BUILDS.items():
    path = os.path.join(mt.tmp(), 'go-' + re.sub(r'\W+', '-', name))
    why = mt.build_go(os.path.join(mt.VICTIMS, 'gomaps.go'), path, *flags)
    if why:
        mt.skip(name, why)
        continue
    for goroutines, caller in ((0, 'main.main'), (4, 'main.worker')):
        r = mt.run([path, str(MB), str(goroutines)], ask=('status', 'report --by stack --json'))
        a = r.answers
        bad = [f'status {r.rc}: {r.err[-200:]}'] if r.rc else problems(r.out.decode(errors='replace'), a['status'], a['report'], 'main.main' if not goroutines else caller)
        mt.check(f'{name}, {goroutines or "no"} goroutines', bad)

path = os.path.join(mt.tmp(), 'godeep')
why = mt.build_go(os.path.join(mt.VICTIMS, 'godeep.go'), path)
if why:
    mt.skip('small stacks', why)
else:
    # Hooks there share 32 stacks of mtrun's. Of 200 threads at once, with others busy, more are in a hook.
    ROUNDS = 20 if mt.SOAK else 2
    def go(_): return mt.run([path, str(ROUNDS)], ask=('status',), env={'GOMAXPROCS': '200'})
    with ThreadPoolExecutor(3) as pool:
        runs = list(pool.map(go, range(99 if mt.SOAK else 3)))
    bad = [f'status {r.rc}: {r.out[-100:]} {r.err[-300:]}' for r in runs if r.rc or r.out != b'fine\n']
    statuses = [r.answers['status'] for r in runs if not r.rc]
    # 200 goroutines a round unmap 50 times each what they have mapped
    bad += [f'{s["unmaps"]} unmaps, {s["unaccounted"]} unaccounted, {s["dropped"]} dropped' for s in statuses
            if s['unmaps'] != ROUNDS * 10000 or s['unaccounted'] or s['dropped']]
    mt.check('small stacks', bad)
mt.finish()
