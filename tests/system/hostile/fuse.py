#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# waits
"""
fuse - a library on a file system that a process serves: its symbols are found; when the server does
not answer any more, mtrun says so after a second, answers everything else, can leave and be ended;
the program goes on. So it is, after ten seconds, where the server has a thread wait with the lock of
the program's mappings held; whoever asks waits alone, and the program stands still for one second
at most.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt
from mounted import DIR, SOURCE, Server, begin, goes_on

mt.need_mtrun()
case = mt.cases(re.compile(sys.argv[1] if len(sys.argv) > 1 else ''))
ENDS = 10       # seconds until mtrun has ended; it waits for one
MOST = 20       # seconds an answer takes, however busy the machine is
VICTIM = mt.build('onfuse.c', extra='-ldl')
LOCKS = mt.build('maplock.c')
LIBRARY = mt.build('lib/plain_plugin.c', extra='-shared -fPIC', name='plain_plugin.so')


def timed(bad, a, command):
    began = time.monotonic()
    text = a.ask(command)
    took = time.monotonic() - began
    bad += [f'{command}: {took:.1f} s'] if took > MOST else []
    return text


def victim(where=VICTIM):
    p = mt.popen([where, f'{DIR}/plain_plugin.so'], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                 stderr=subprocess.STDOUT)
    return p, p.stdout.readline()


why = begin()
if why:
    mt.skip('fuse', why)
    mt.finish()
shutil.copy(LIBRARY, SOURCE)
shutil.copy(VICTIM, SOURCE)

for SECONDS in 0, 1000:
    for ON in 'library', 'program':
        @case(f'an honest server, believed for {SECONDS} s: a {ON}')
        def _(bad):
            s = Server(SECONDS)
            p, _ = victim(VICTIM if ON == 'library' else f'{DIR}/onfuse')
            a = mt.Attached(p.pid)
            mt.until(lambda: 'plugin_make' in a.ask('report --all'), 10)
            for command, names in (('report --all', ('plugin_make', 'plain_plugin.c')),
                                   ('bt', ('main', 'onfuse.c'))):
                text = timed(bad, a, command)
                bad += [f'{name} is not in {text[:1000]}' for name in names if name not in text]
            bad += a.leave()
            bad += goes_on(p, 'without mtrun')
            mt.end_group(p)
            s.end()

HOLDS = ((0, 'lookup'), (0, 'getattr'), (0, 'open'), (1000, 'open'), (1000, 'read'), (0, 'statfs'),
         (0, 'all'))
for SECONDS, HELD in HOLDS:
    @case(f'{HELD} is not answered, the rest believed for {SECONDS} s')
    def _(bad):
        s = Server(SECONDS)
        p, _ = victim()
        s.tell(f'hold {HELD}')
        a = mt.Attached(p.pid)
        mt.until(lambda: 'plain_plugin.so' in a.ask('report --all'), 10 if HELD != 'lookup' else 2)
        for command in ('status', 'bt', 'threads', 'report --by stack --all'):
            text = timed(bad, a, command)
        named = re.search(r'plain_plugin.so\+0x', text) or HELD == 'lookup'
        bad += [] if named else [f'no frame in {text[:1000]}']
        bad += goes_on(p, 'under mtrun')
        out = a.p.communicate(b'detach\n', timeout=30)[0].decode()
        said = out.count('does not come') == out.count('\n') == 1
        bad += [] if said else [f'said: {out[:500]!r}']
        bad += [f'status {a.p.returncode}'] if a.p.returncode else []
        held = int(s.tell('asked').split()[1])
        bad += [f'{held} requests are held'] if not 0 < held < 3 else []
        bad += goes_on(p, 'without mtrun')
        mt.end_group(p)
        s.end()

for SIGNAL in signal.SIGTERM, signal.SIGINT:
    for WHEN in 'it begins', 'it reports':
        @case(f'{SIGNAL.name} while {WHEN}')
        def _(bad):
            s = Server(0)
            p, _ = victim()
            if WHEN == 'it begins':
                s.tell('hold all')
            a = mt.Attached(p.pid)
            if WHEN == 'it reports':
                mt.until(lambda: int(a.json('status')['allocs']), 10)
                s.tell('hold all')
                a.commands.write(b'report --all\n')
                a.commands.flush()
            asked = mt.until(lambda: int(s.tell('asked').split()[1]), 20)
            bad += [] if asked else ['nothing is asked for']
            a.p.send_signal(SIGNAL)
            try:
                a.p.communicate(timeout=ENDS)
            except subprocess.TimeoutExpired:
                bad.append(f'not done after {ENDS} s')
            bad += goes_on(p, 'without mtrun')
            mt.end_group(p)
            mt.end_group(a.p)
            s.end()
LOCK, LOCK_S = 'holds the lock of its mappings', 10    # seconds that it is waited for, once


AWAY_MS = 2000          # 10 ms where processors are free


def away(p):
    """The longest time between two turns of P, which is LOCKS, since that was last asked, in ms."""
    p.stdin.write(b'\n')
    p.stdin.flush()
    return int(p.stdout.readline().split()[3])


def asleep(p):
    """P's threads that are in an uninterruptible sleep."""
    found = set()
    for tid in os.listdir(f'/proc/{p.pid}/task'):
        with open(f'/proc/{p.pid}/task/{tid}/stat') as f:
            if f.read().rpartition(')')[2].split()[0] == 'D':
                found.add(tid)
    return found


def some_waits(p):
    """Whether one of P's threads stays in such a sleep: each is in it for a moment at times."""
    before = asleep(p)
    time.sleep(0.05 if before else 0)
    return before & asleep(p)


def lock(s, p):
    """Has P hold that lock. False: on this kernel it does not."""
    s.tell('hold read')
    s.tell('direct')
    p.stdin.write(b'hold\n')
    p.stdin.flush()
    p.stdout.readline()
    return mt.until(lambda: some_waits(p), 5)


def locking(*how, **kw):
    s = Server(1000)
    p = mt.popen([LOCKS, f'{DIR}/plain_plugin.so', *how], stdin=subprocess.PIPE,
                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **kw)
    p.stdout.readline()
    return s, p


for HOW in ('detach', 'SIGTERM') + (('SIGINT',) if mt.SOAK else ()):
    @case(f'the lock of the mappings is held, {HOW}')
    def _(bad):
        s, p = locking()
        a = mt.Attached(p.pid)
        mt.until(lambda: int(a.json('status')['allocs']), 10)
        if not lock(s, p):
            mt.skip('the lock of the mappings', 'on this kernel it is not held')
            s.end()
            mt.end_group(p)
            return
        questions = ('status', 'map', 'leaks', 'who 0x1', 'bt', 'threads') if HOW == 'detach' else ()
        for command in *questions, 'report --by stack':
            text = timed(bad, a, command)
        bad += [] if 'maplock.c' in text else [f'report: {text[:500]!r}']
        bad += goes_on(p, 'under mtrun')
        if HOW == 'detach':
            a.commands.write(b'detach\n')
        else:
            a.p.send_signal(getattr(signal, HOW))
        try:
            out = a.p.communicate(timeout=ENDS + LOCK_S)[0].decode()
            bad += [] if out.count(LOCK) == 1 else [f'said: {out[:500]!r}']
        except subprocess.TimeoutExpired:
            bad.append(f'not done after {ENDS + LOCK_S} s')
        bad += goes_on(p, 'without mtrun')
        s.end()
        bad += goes_on(p, 'with its lock back')
        mt.end_group(p)
        mt.end_group(a.p)


JEMALLOC = {'LD_PRELOAD': f'{mt.DEBIAN_LIBS}/libjemalloc.so.2'}  # whose malloc it calls, memory tells

for COMMAND, ENV in ('status', JEMALLOC), ('leaks', {}), ('bt', {}):
    @case(f'the lock of the mappings is held: the program does not wait for `{COMMAND}`')
    def _(bad):
        s, p = locking('fast', env={**os.environ, **ENV})
        a = mt.Attached(p.pid)
        mt.until(lambda: int(a.json('status')['allocs']), 10)
        if lock(s, p):
            away(p)
            began = time.monotonic()
            a.ask(COMMAND)
            ms, took = away(p), time.monotonic() - began
            print(f'# {took:.1f} s, the program was away for {ms} ms')
            bad += [] if ms < AWAY_MS else [f'the program was away for {ms} ms']
        else:
            mt.skip(f'`{COMMAND}`, the lock of the mappings', 'on this kernel it is not held')
        s.end()
        mt.end_group(p)
        mt.end_group(a.p)


@case('a thread waits for a page that does not come: attach and detach')
def _(bad):
    s = Server(1000)
    s.tell('hold read')
    p = mt.popen([VICTIM, LIBRARY, f'{DIR}/plain_plugin.so'], stdin=subprocess.PIPE,
                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    p.stdout.readline()
    asked = mt.until(lambda: int(s.tell('asked').split()[1]), 5)
    bad += [] if asked else ['no page is asked for']
    with open(f'/proc/{p.pid}/maps') as f:
        before = f.read()
    for _ in range(2):
        began = time.monotonic()
        a = mt.Attached(p.pid)
        allocs = a.json('status')['allocs']
        bad += goes_on(p, 'under mtrun')
        bad += [] if mt.until(lambda: a.json('status')['allocs'] > allocs, 10) else ['nothing counted']
        bad += a.leave()
        took = time.monotonic() - began
        bad += [f'{took:.1f} s'] if took > MOST else []
        bad += goes_on(p, 'without mtrun')
        with open(f'/proc/{p.pid}/maps') as f:
            left = {line for line in f if 'x' in line.split()[1]} - set(before.splitlines(True))
        bad += [f'left: {left}'] if left else []
    bad += [] if some_waits(p) else ['no thread could not be stopped']
    mt.end_group(p)             # (without that page it gets SIGBUS)
    s.end()


@case('the lock of the mappings is held, an attach')
def _(bad):
    s, p = locking()
    if lock(s, p):
        q = mt.popen([mt.MTRUN, '-p', str(p.pid), '-d', '1'], stdout=subprocess.PIPE,
                     stderr=subprocess.STDOUT)
        out = q.communicate(timeout=60)[0].decode()
        said = LOCK in out and 'cannot be read just now' in out and out.count('\n') == 2
        bad += [] if said and q.returncode == 125 else [f'{q.returncode}: {out[:500]}']
        bad += goes_on(p, 'after it')
    else:
        mt.skip('an attach, the lock of the mappings', 'on this kernel it is not held')
    s.end()
    mt.end_group(p)

mt.finish()
