#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""
turns - threads that stop again and again, as they make others or get signals, do not keep an older one stopped: each has its turn. wait4(2) tells of the newest
first. The bound is far above what it takes, 1 s, and far below for ever.
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
mt.finish()
