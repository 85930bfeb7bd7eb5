#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# waits
"""
turns - threads that stop again and again, as they make others or get signals, do not keep an older one stopped: each has its turn. wait4(2) tells of the newest
first. The bound is far above what it takes, 1 s, and far below for ever. And when one of them ends them all, wherever the others are, the last instant of the last
one is seen: the leak check is made then. So it is where others were ending by themselves, and mtrun
had no time to see it: it is stopped meanwhile.
"""
import os
import signal
import subprocess
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
path = mt.build('outrun.c')
for how, status in (('threads', 3), ('first', 3), ('signal', -signal.SIGTERM)):
    bad = []
    for again in range(100 if mt.SOAK else 2):
        p = mt.popen([mt.MTRUN, '-q', '--leak-check', path, how],
                     stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        p.stdout.readline()
        os.kill(p.pid, signal.SIGSTOP)
        time.sleep(1)
        os.kill(p.pid, signal.SIGCONT)
        out, err = p.communicate(timeout=SECONDS)
        if p.returncode != status or err.count(b' at its end:') != 1 or b' 300 bytes' not in err:
            bad.append(f'status {p.returncode}, {err[-300:].decode()}')
    mt.check(f'others were ending: {how}', bad)
for how, most in (('exec', 2), ('filter', 3)):
    began = time.monotonic()
    r = mt.plain([mt.MTRUN, '-q', path, how], timeout=2 * SECONDS)
    took = time.monotonic() - began
    right = r.rc == 3 and took < most * mt.SLOW
    bad = [] if right else [f'{r.rc} after {took:.1f} s: {r.err[-300:].decode()}']
    mt.check(f'others are ended, and the program goes on: {how}', bad)
mt.finish()
