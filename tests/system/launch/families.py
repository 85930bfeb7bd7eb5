#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""families - very many children: mtrun's memory does not grow with their number, and what they were is still listed. The truth is the loop of the victim."""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
N = 30000 if mt.SOAK else 1300
MEMORY = (300 << 20) * (3 if mt.SLOW > 1 else 1)

path = mt.build('forks.c')
r = mt.run([path, str(N), 'exec'], ask=('status', 'processes'))
bad = [f'status {r.rc}: {r.messages[-300:]}'] if r.rc or 'given up' in r.messages else []     # what is reserved is gone with execve(2), and no lie
rows = r.answers['processes']['processes']
known = min(N, 10000)
main = r.answers['status']['pid']
children = [p for p in rows if p['ppid'] == main and p['state'] == 'exited']
forked = [p for p in children if p['command'] == 'forks']
if N <= 10000 and (len(children) != N or len(forked) != N - (N + 9) // 10):
    bad.append(f'{len(children)} children, {len(forked)} of them forked only, of {N}')
live = sum(100 + i for i in range(1000))
if wrong := [p for p in forked if not live - 1100 <= p['heap'] <= live - 100 or p['allocs']]:
    bad.append(f'{len(wrong)} with other books: {wrong[0]}')
if r.answers['status']['mtrun']['rss'] > MEMORY:
    bad.append(f'{r.answers["status"]["mtrun"]["rss"] >> 20} MB of memory')
mt.check(f'{N} children', bad)


def most(pid):
    """The most memory that it ever had, in bytes."""
    with open(f'/proc/{pid}/status') as f:
        return int(re.search(r'^VmHWM:\s*(\d+) kB', f.read(), re.M)[1]) << 10


BOUND = (200 << 20) * (3 if mt.SLOW > 1 else 1)


def watched(name, opts, cmd, last=b'end\n', bound=BOUND):
    """mtrun over CMD, which has N children and then waits for a line, that LAST gives it: by then mtrun has had all that it ever needs of them."""
    p = mt.popen([mt.MTRUN, *opts, *cmd], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    bad = []
    if (line := p.stdout.readline()) != b'ready\n':
        bad.append(f'it said {line}')
    took = most(p.pid)
    out, err = p.communicate(last, timeout=mt.TIMEOUT)
    if took > bound:
        bad.append(f'{took >> 20} MB of memory, bound {bound >> 20}')
    counted, gone = re.search(rb'; (\d+) other processes followed', err), re.search(rb'^  forgotten +what ([\d,]+) other process', err, re.M)
    if p.returncode or not counted or int(counted[1]) != N:
        bad.append(f'status {p.returncode}, {N} children: {err[-300:].decode()}')
    elif not gone or not N - 1100 <= int(gone[1].replace(b',', b'')) < N:
        bad.append(f'of {N} children it says: {gone and gone[0].decode()}')
    mt.check(name, bad)


watched(f'{N} short commands, without a command of ours', [], ['sh', '-c', f'i=0; while [ $i -lt {N} ]; do /bin/true; i=$((i+1)); done; echo ready; read line'])
watched(f'{N} copies of the program, without a command of ours', [], [path, str(N), 'wait'])
with tempfile.TemporaryDirectory() as d:
    os.mkfifo(f'{d}/go')
    watched('and with commands that come through a pipe, and a log', ['-X', '-', '-m', 'log', f'--log-dir={d}'], ['sh', '-c', f'exec {path} {N} wait <>{d}/go'], f'! echo end >{d}/go\n'.encode(),
            # a child is kept until its symbols are in the log: some seconds' worth of children, where others run, too
            bound=BOUND * 3 // 2)
mt.finish()
