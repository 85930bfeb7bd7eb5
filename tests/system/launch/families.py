#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""families - very many children: mtrun's memory does not grow with their number, and what they were is still listed. The truth is the loop of the victim."""
import re

import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
N = 30000 if mt.SOAK else 2500
MEMORY = (300 << 20) * (3 if mt.SLOW > 1 else 1)

path = mt.build('forks.c')
r = mt.run([path, str(N), 'exec'], ask=('status', 'processes'))
bad = [f'status {r.rc}: {r.messages[-300:]}'] if r.rc else []
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

r = mt.plain([mt.MTRUN, '-x', 'wait exit', path, '1200'])
m = re.search(rb'; (\d+) other processes followed', r.err)
mt.check('the summary counts them all', [] if m and int(m[1]) == 1200 else [r.err[-300:].decode()])
mt.finish()
