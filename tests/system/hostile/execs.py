#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# serial
"""
execs - a program that executes another one, which does not come: it is on a file system whose server
does not answer, or a file is to be closed there. While that lasts the kernel lets nobody trace the
program; or nobody even look at it, by what /proc tells only a tracer. mtrun refuses it in good time;
one that it has traced before it stops waiting for, and leaves.
(While a file is to be closed ps(1) and pgrep(1) wait, too: so nothing else is tested meanwhile.)
"""
import os
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt
from mounted import DIR, SOURCE, Server, begin, goes_on

mt.need_mtrun()
case = mt.cases(re.compile(sys.argv[1] if len(sys.argv) > 1 else ''))
MOST = 10       # seconds an answer takes, however busy the machine is; natively it never comes
VICTIM = mt.build('exechang.c')
why = begin()
if why:
    mt.skip('execs', why)
    mt.finish()
shutil.copy(VICTIM, SOURCE)


def hang(s, p, operation):
    s.tell(f'hold {operation}')
    p.stdin.write(b'exec\n')
    p.stdin.flush()
    p.stdout.readline()
    return [] if mt.until(lambda: int(s.tell('asked').split()[1]), 10) else ['nothing is asked for']


def victim(operation, alone):
    s = Server(0)
    p = mt.popen([VICTIM, operation, f'{DIR}/exechang', *['alone'] * alone], stdin=subprocess.PIPE,
                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    p.stdout.readline()
    return s, p


def end(s, p):
    s.p.kill()          # it waits for the server, and cannot be killed before
    mt.end_group(p)
    s.end()


for OPERATION, ALONE in ('read', False), ('read', True), ('flush', True):
    @case(f'attach: {OPERATION}, {"the only thread" if ALONE else "one of its threads"}')
    def _(bad):
        s, p = victim(OPERATION, ALONE)
        bad += hang(s, p, OPERATION)
        began = time.monotonic()
        q = mt.popen([mt.MTRUN, '-p', str(p.pid), '-d', '1'], stdout=subprocess.PIPE,
                     stderr=subprocess.STDOUT)
        try:
            out = q.communicate(timeout=MOST)[0].decode()
            refused = f'cannot attach to {p.pid} ' in out and 'file system' in out
            bad += [] if q.returncode == 125 and refused else [f'{q.returncode}: {out[:500]!r}']
        except subprocess.TimeoutExpired:
            bad.append(f'not done after {time.monotonic() - began:.0f} s')
            mt.end_group(q)
        bad += [] if ALONE else goes_on(p, 'afterwards')
        end(s, p)

    @case(f'under mtrun: {OPERATION}, {"the only thread" if ALONE else "one of its threads"}')
    def _(bad):
        s, p = victim(OPERATION, ALONE)
        a = mt.Attached(p.pid)
        mt.until(lambda: a.json('status'), 10)
        bad += hang(s, p, OPERATION)
        for command in 'threads', 'bt', 'report':
            began = time.monotonic()
            a.ask(command)
            took = time.monotonic() - began
            bad += [f'{command}: {took:.1f} s'] if took > MOST else []
        bad += [] if ALONE else goes_on(p, 'under mtrun')
        began = time.monotonic()
        try:
            a.p.communicate(b'detach\n', timeout=MOST)
        except subprocess.TimeoutExpired:
            bad.append(f'detach: not done after {time.monotonic() - began:.0f} s')
            mt.end_group(a.p)
        bad += [] if ALONE else goes_on(p, 'without mtrun')
        end(s, p)

mt.finish()
