#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 200
"""
interrupt - Ctrl-C while a long answer is made, printed, written or read, each time: the prompt is
there in 200 ms (of mtrun's own time, see mt.Stopwatch), and the next command is answered.
"""
import os
import re
import time

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
LIMIT_MS = 200 * mt.SLOW
LEVELS, BLOCKS = (17, 1000000) if mt.SOAK else (15, 200000)
DELAYS = (0.01, 0.02, 0.03, 0.1, 0.3) if mt.SOAK else (0.01, 0.03, 0.2)  # the quickest answer takes 40 ms
WOOD = mt.build('wood.c')
ENDLESS = 'report --by stack --json --all'
COMMANDS = (
    ENDLESS, f'{ENDLESS} > out', f'{ENDLESS} | cat > /dev/null', f'{ENDLESS} | sleep 100',
    'report --stacks -n all', 'blocks -n all', 'diff 0 --by stack --stacks -n all', 'tree --json',
    'export jemalloc out', 'export pprof out', 'export flamegraph out.svg', 'export graph out.svg',
    'wait 100s', 'wait heap > 1T', 'wait exit', 'top', '! sleep 100', 'source fifo',
    'timeline; wait 100s')


def ctrl_c(p):
    """Ctrl-C; how long the prompt took, in ms."""
    watch = mt.Stopwatch(p.pid)
    p.send('\x03')
    while not re.search(r'mt> $', p.text) and time.monotonic() < watch.began + 20:
        p.read(0.1)
        p.text = p.text[-200:]
    return watch.ms()


def interrupt(p, command, delay):
    """The same DELAY s after COMMAND; None: it had ended before, and the end of its text is P's."""
    p.send(command + '\n')
    end = time.monotonic() + delay
    while (left := end - time.monotonic()) > 0:
        p.read(left)
        p.text = p.text[-200:]
        if re.search(r'mt> $', p.text):
            return None
    return ctrl_c(p)


def goes_on(p):
    """Problems: whether the next command is answered."""
    p.send('echo on\n')
    return [] if p.wait(r'\non\r\n.*mt> $', 20) else [f'then: {p.text[-300:]!r}']


def late(took):
    took = [ms for ms in took if ms is not None]
    return [] if took and max(took) < LIMIT_MS else [f'{[round(ms) for ms in took]} ms']


def deaf_dot():
    """graphviz's own takes a Ctrl-C in one of some dozens of cases to wait for itself; this one always."""
    d = f'{mt.tmp()}/bin'
    os.mkdir(d)
    with open(f'{d}/dot', 'w') as f:
        f.write("#!/bin/sh\ntrap '' INT\nsleep 100\n")
    os.chmod(f'{d}/dot', 0o755)
    os.environ['PATH'] = f'{d}:{os.environ["PATH"]}'


deaf_dot()
os.mkfifo(f'{mt.tmp()}/fifo')
p = mt.Prompt(WOOD, str(LEVELS), str(BLOCKS))
p.wait('mt> $')
p.send(f'wait live_blocks >= {BLOCKS}; report -n 1; echo grown\n')
mt.check('the program has grown', [] if p.wait(r'\ngrown\r\n.*mt> $', 60) else [p.text[-300:]])
for command in COMMANDS:
    took, bad = [], []
    for delay in DELAYS:
        took.append(interrupt(p, command, delay))
        if took == [None] * len(DELAYS):
            bad.append(f'it ends by itself: {p.text!r}')
        bad += goes_on(p)
    mt.check(f'Ctrl-C: {command}', bad + late(took))
took, bad = [], []
for _ in DELAYS:            # in what `every` runs: once, and never at the prompt
    p.send('every 100ms { every off; echo in it; wait 100s }; wait 100s\n')
    if not p.wait(r'\nin it\r\n'):
        bad.append(f'it does not begin: {p.text[-300:]!r}')
    took.append(ctrl_c(p))
    bad += goes_on(p)
mt.check('Ctrl-C: every', bad + late(took))
bad = []
for i in range(1000 if mt.SOAK else 30):      # while the line is read, the shell command is started, it starts another
    p.text = ''
    p.send(('status | sleep 100\n', '! sleep 100\n')[i % 2])
    time.sleep(i % 40 * 0.0005)
    p.send('\x03')
    if not p.wait('mt> $', 10 * mt.SLOW):
        bad.append(f'{i % 40 * 0.5} ms after it: {p.text[-100:]!r}')
        p.send('\x03')
        p.wait('mt> $')
mt.check('Ctrl-C just after the line', bad)
p.send('status | head -1\n')
mt.check('the program runs on', [] if p.wait(r'program .*, running,.*mt> $') else [p.text[-300:]])
mt.check('it ends', p.end())
mt.finish()
