#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# waits
"""
withheld - pages that never come to whoever reads them: mtrun says so after a second, answers everything else, and can leave; the program goes on.
"""
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
case = mt.cases(re.compile(''))
VICTIM = mt.build('withheld.c', 'gcc')
FAILED = 125    # as `x` cannot read what does not come
MOST = 20       # seconds an answer takes, however busy the machine is: two pages are waited for, a second each

tried = mt.plain([VICTIM, 'page'], stdin=subprocess.DEVNULL)
if not tried.out.startswith(b'ready'):
    mt.skip('withheld', f'no userfaultfd for faults of the kernel here: {tried.err.decode().strip()}')
    mt.finish()


def turns(p):
    p.stdin.write(b'\n')
    p.stdin.flush()
    return int(p.stdout.readline().split()[1])


def timed(bad, a, command, most=MOST):
    began = time.monotonic()
    text = a.ask(command)
    took = time.monotonic() - began
    bad += [f'{command}: {took:.1f} s'] if took > most else []
    return text


def asked(bad, a, address, mode):
    timed(bad, a, f'x {address} 64')
    stacks = timed(bad, a, 'bt')
    other = 'stand' if mode in ('stack', 'near') else 'answer'
    bad += [f'{name} is in no stack: {stacks[:500]}' for name in ('main', other) if name not in stacks]
    bad += ['no status'] if '"state":"running"' not in timed(bad, a, 'status --json').replace(' ', '') else []
    timed(bad, a, 'report --usable')
    timed(bad, a, 'leaks', 20)


for MODE in 'page', 'args', 'stack', 'near', 'text', 'blocks':
    @case(f'attached, {MODE}')
    def _(bad):
        p = mt.popen([VICTIM, MODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        ready = p.stdout.readline().decode()
        a = mt.Attached(p.pid)
        asked(bad, a, ready.split()[1], MODE)
        before = turns(p)
        time.sleep(0.1)
        bad += [] if turns(p) > before else ['it does not go on']
        out = a.p.communicate(b'detach\n', timeout=30)[0].decode()
        bad += [] if 'does not come' in out and out.count('\n') <= 4 else [f'said: {out[:500]!r}']
        bad += [f'status {a.p.returncode}'] if a.p.returncode != FAILED else []
        before = turns(p)
        time.sleep(0.1)
        bad += [] if turns(p) > before else ['it does not go on without mtrun']
        mt.end_group(p)

    @case(f'launched, {MODE}')
    def _(bad):
        a = mt.Launched([VICTIM, MODE])
        ready = a.p.stdout.readline().decode()
        asked(bad, a, ready.split()[1], MODE)
        before = turns(a.p)
        time.sleep(0.1)
        bad += [] if turns(a.p) > before else ['it does not go on']
        a.p.stdin.close()
        a.commands.close()
        rc = a.p.wait(20)
        bad += [f'status {rc}'] if rc != FAILED else []

mt.finish()
