#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""
turns - threads that stop again and again, as they make others or get signals, do not keep an older one stopped: each has its turn. wait4(2) tells of the newest
first. The bound is far above what it takes, 1 s, and far below for ever. And when one of them ends them all, wherever the others are, the last instant of the last
one is seen: the leak check is made then.
"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
SECONDS = 20 * mt.SLOW

path = mt.build('eldest.c')
for how in ('threads', 'children', 'chain', 'signals'):
    began = time.monotonic()
    r = mt.plain(['timeout', '-s', 'KILL', str(SECONDS), mt.MTRUN, '-q', path, how], timeout=2 * SECONDS)
    took = time.monotonic() - began
    mt.check(how, [] if r.rc == 3 else [f'status {r.rc} after {took:.1f} s: {r.err[-300:].decode()}'])
bad = []
for how in ('threads', 'signals') * (20 if mt.SOAK else 4):
    r = mt.plain([mt.MTRUN, '-q', '--leak-check', path, how, '100'], timeout=2 * SECONDS)
    if r.rc != 3 or r.err.count(b' at its end:') != 2:
        bad.append(f'{how}: status {r.rc}, {r.err[-300:].decode()}')
mt.check('the last instant of a process and its child', bad)
mt.finish()
