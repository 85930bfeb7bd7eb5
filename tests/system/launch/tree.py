#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 200
"""tree - processes that fork, vfork, spawn and execute: a table for each, the child's counts at 0, its live blocks inherited; --no-follow leaves them inert."""
import os
import re

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
FORKED = ('fork', 'clone', 'threads', 'deep', 'many')      # children that execute nothing


def tree(how, build, rounds=1):
    name = f'{how} {build}'
    path = mt.build('family_tree.c', build)
    if not path:
        mt.skip(name, mt.build_reason('family_tree.c', build))
        return
    for _ in range(rounds):
        r = mt.run([path, how], ask=('status', 'report', 'blocks'), children_too=True)
        bad = mt.compare(r, mt.expectations(r.out), mt.alone(path))
        pids = sorted({int(x) for x in re.findall(rb'^(\d+) expect', r.out, re.M)})
        listed = {p['pid']: p for p in r.answers.get('status', {}).get('processes', [])}
        main = r.answers.get('status', {}).get('pid')
        for pid in pids:
            e = mt.expectations(r.out, f'{pid} ')
            if pid not in listed:
                bad.append(f'process {pid} is not in the list {sorted(listed)}')
                continue
            if pid not in r.child:
                bad.append(f'no answers for process {pid}: {r.messages[-200:]}')
                continue
            c = r.child[pid]
            c.messages, c.err, c.rc = r.messages, r.err, 0
            c.forked = how in FORKED        # one that executed has counts of its own alone
            if c.forked and pid != main and listed[pid].get('ppid') in (None, 0, 1):
                bad.append(f'ppid of {pid} is {listed[pid].get("ppid")}')
            bad += [f'in {pid}: {b}' for b in mt.compare(c, e, mt.alone(path))]
        if how == 'many':
            if len(listed) < 101:
                bad.append(f'{len(listed)} processes of 101 are listed')
            for pid, p in listed.items():
                if pid != main and (p['allocs'] != 1 or p['state'] != 'exited'):
                    bad.append(f'{p}')
        if how == 'exec':
            states = [p['state'] for p in r.answers.get('status', {}).get('processes', [])]
            if 'replaced' not in states:
                bad.append(f'no process is "replaced": {states}')
        if r.rc:
            bad.append(f'status {r.rc}: {r.messages[-200:]} {r.err[-200:]}')
        mt.check(name, bad)


BUILDS = ('gcc', 'static', 'musl', 'jemalloc')
if mt.SOAK:
    BUILDS += ('gcc-O0', 'static-pie', 'no-pie', 'clang', 'musl-static', 'tcmalloc', 'mimalloc')
for how in ('fork', 'deep', 'threads', 'vfork', 'spawn', 'exec', 'many', 'clone', 'thread_exec', 'thread_vfork'):
    for build in BUILDS:
        if mt.SOAK or build != 'jemalloc' or how in ('fork', 'threads', 'exec'):
            tree(how, build, 20 if mt.SOAK else 1)

# --no-follow: the program's own books are as ever, its children are not in the list, and run as if alone
for how in ('fork', 'vfork', 'spawn', 'many', 'exec', 'clone', 'threads'):
    path = mt.build('family_tree.c', 'gcc')
    r = mt.run([path, how], ['--no-follow'])
    bad = mt.compare(r, mt.expectations(r.out))
    listed = {p['pid'] for p in r.answers.get('status', {}).get('processes', [])}
    if len(listed) != 1:
        bad.append(f'processes {sorted(listed)}')
    if r.rc:
        bad.append(f'status {r.rc}')
    mt.check(f'no-follow {how}', bad)

# forks that are under way when all threads of their process are ended: what they make is nobody's, and is neither
# kept nor waited for
for how in ('exit', 'exec'):
    path = mt.build('orphans.c', 'gcc')
    r = mt.plain([mt.MTRUN, '-q', '-v', '--', path, '300' if mt.SOAK else '60', how], timeout=60)
    bad = [] if r.rc == 0 and r.out == b'fine\n' else [f'status {r.rc}: {r.out[-100:]} {r.err[-300:]}']

    def left():
        return [pid for pid in map(int, filter(str.isdigit, os.listdir('/proc'))) if mt.exe(pid) == path]
    if not mt.until(lambda: not left(), 5):
        bad.append(f'{len(left())} processes are left')
    mt.check(f'orphans of {how}', bad)

# a shell and what it runs: the questions are about the program that was named
r = mt.run(['/bin/sh', '-c', f'{mt.build("sites.c", "gcc")} 10; echo $?; exit 5'], ask=('status', 'report', 'processes'))
bad = []
if r.rc != 5:
    bad.append(f'status {r.rc}')
if 'status' not in r.answers:
    bad.append(r.messages[-200:])
else:
    names = [p['command'] for p in r.status['processes']]
    if not any('sites' in n for n in names):
        bad.append(f'sites is not among {names}')
    bad += mt.consistent(r)
mt.check('sh runs a program', bad)

# exec of another program through a script with #!
script = os.path.join(mt.tmp(), 'script')
with open(script, 'w') as f:
    f.write(f'#!/bin/sh\nexec {mt.build("sites.c", "gcc")} 20\n')
os.chmod(script, 0o755)
mt.truth('script, exec', [script])

mt.finish()
