#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 240
"""
crowd.py - many threads: what they have allocated is counted exactly, and what mtrun takes in the program for them
is as much as they need. A thousand that allocate a little take some of its addresses and memory, those that come
and go one after the other nearly none, and the busy ones no more than the large rings that they fill. And
however much they have to tell, a signal to mtrun is taken at once. More threads than there is room for lose
events, which is said; that neither slows the program down nor keeps mtrun in it. To start very many takes
mtrun not much more than the program itself.
"""
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
MB = 1 << 20
SIZE = 100              # of a block


def taken(pid):
    """(addresses, resident bytes) of what mtrun has mapped in PID."""
    addresses = resident = 0
    with open(f'/proc/{pid}/smaps') as f:
        for name, rows in re.findall(r'^[0-9a-f]+-[0-9a-f]+ \S{4} \S+ \S+ \d+ *(.*)\n((?:\w+:.*\n)*)', f.read(), re.M):
            if name.startswith('/memfd:mtrun'):
                addresses += int(re.search(r'^Size: +(\d+) kB', rows, re.M)[1]) * 1024
                resident += int(re.search(r'^Rss: +(\d+) kB', rows, re.M)[1]) * 1024
    return addresses, resident


def crowd(name, waiting=0, blocks=20, busy=0, pairs=0, passing=0, addresses=64 * MB, resident=16 * MB):
    """The most that it may take, and the counts of a program that does as its arguments say."""
    path = mt.build('crowd.c')
    if not path:
        mt.skip(name, mt.build_reason('crowd.c', 'gcc'))
        return
    a = mt.Launched([path, *map(str, (waiting, blocks, busy, pairs, passing))])
    try:
        told = re.match(rb'live (\d+) of (\d+) bytes, freed (\d+)\n', a.p.stdout.readline())
        live, size, freed = map(int, told.groups()) if told else (0, 0, 0)
        rows = a.json('report --by function --all -n 1000')['mem_report']
        status = a.json('status')
        mine = [r for r in rows if r['function'] in ('allocated', 'hold', 'busy', 'waiting', 'passing')]
        found = sum(r['count'] for r in mine), sum(r['size'] for r in mine), sum(r['total_count'] for r in mine) - sum(r['count'] for r in mine)
        of_ours = taken(status['pid'])
    finally:
        a.end()
    bad = [] if told else ['the program did not come to its end']
    if found != (live, size, freed):
        bad.append(f'{found[0]} blocks of {found[1]} bytes live and {found[2]} freed, should be {live}, {size}, {freed}')
    if status['dropped'] or status['unknown_frees']:
        bad.append(f'{status["dropped"]} events lost, {status["unknown_frees"]} frees of what is not known')
    for what, of, most in zip(('addresses', 'memory'), of_ours, (addresses, resident)):
        if not 0 < of <= most:
            bad.append(f'{of / MB:.1f} MB of {what} are taken, {most / MB:.1f} at most')
    mt.check(name, bad)
    print(f'# {name}: {of_ours[0] / MB:.1f} MB of addresses, {of_ours[1] / MB:.1f} MB of memory')


crowd('a thousand threads that allocate a little', waiting=1000)
crowd('a thousand threads, ten of them busy', waiting=990, busy=10, pairs=5000)
PASSING = 10000 if mt.SOAK else 4000
crowd(f'{PASSING} threads, one after the other', passing=PASSING, addresses=8 * MB, resident=2 * MB)
crowd('the same with more than a small ring each', blocks=300, passing=2000, addresses=8 * MB, resident=3 * MB)
crowd('five thousand threads', waiting=5000, addresses=110 * MB, resident=50 * MB)
crowd('64 busy threads', busy=64, pairs=20000 if mt.SOAK else 8000, resident=6 * MB)


def signalled(name, threads):
    """SIGTERM is handed on while rings are never empty: they would fill for a minute."""
    p = mt.popen([mt.MTRUN, '-q', '-x', 'wait exit', '--', mt.build('crowd.c'), '0', '20', str(threads), '50000000', '0'],
                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1)
    p.send_signal(signal.SIGTERM)
    bad = []
    try:
        if p.wait(5 * mt.SLOW) != -signal.SIGTERM:
            bad.append(f'status {p.returncode}')
    except subprocess.TimeoutExpired:
        bad.append(f'it is not ended {5 * mt.SLOW} s later')
    mt.end_group(p)
    mt.check(name, bad)


if mt.build('crowd.c'):
    signalled('64 busy threads, and a signal', 64)

SLOTS = 8192            # as the man page has it
THRONG = SLOTS + 300


def rate(v):
    """Pairs a second that V, a throng.c, makes."""
    def told():
        v.stdin.write(b'\n')
        v.stdin.flush()
        return int(v.stdout.readline())

    before, began = told(), time.monotonic()
    time.sleep(2 if mt.SOAK else 1)
    return (told() - before) / (time.monotonic() - began)


def keeps_up(v, alone):
    """Its pairs a second once they are half of what they were, some time after the attach."""
    for _ in range(8):
        traced = rate(v)
        if traced >= alone / 2:
            break
        print(f'# {traced:.0f} pairs a second for a while, alone {alone:.0f}')
    return traced


def throng(v):
    """Problems of attaching to V twice."""
    bad = []
    mt.until(lambda: len(os.listdir(f'/proc/{v.pid}/task')) == THRONG + 1, 30)
    alone = rate(v)
    for again in (False, True):
        began = time.monotonic()
        a = mt.Attached(v.pid)
        traced = alone if again else keeps_up(v, alone)
        status = a.json('status')
        while not again and not (status['dropped'] and status['allocs']) and time.monotonic() < began + 30:
            status = a.json('status')  # on a busy machine not all of them have run yet
        bad += a.leave()
        if traced < alone / 2:
            bad.append(f'{traced:.0f} pairs a second, alone {alone:.0f}')
        if not again and not (status['dropped'] and status['allocs']):
            bad.append(f'{status["allocs"]} blocks, {status["dropped"]} events lost')
        if sum(taken(v.pid)):
            bad.append(f'mtrun is still in it {time.monotonic() - began:.0f} s later')
    return bad


def started(path):
    """Problems of the start of ten thousand threads: what mtrun takes does not grow with their square."""
    def cpu_ms(pid):
        with open(f'/proc/{pid}/stat') as f:
            return sum(map(int, f.read().rsplit(')', 1)[1].split()[11:13])) * 1000 / os.sysconf('SC_CLK_TCK')

    p = mt.popen([path, '1', 'idle'], stdout=subprocess.PIPE)
    p.stdout.readline()
    alone = cpu_ms(p.pid)
    mt.end_group(p)
    a = mt.Launched([path, '1', 'idle'])
    a.p.stdout.readline()
    ours = a.json('status')['mtrun']['cpu_ms']
    began = time.monotonic()
    a.p.send_signal(signal.SIGTERM)
    rest = a.p.stdout.readline().decode()
    took = time.monotonic() - began
    a.end()
    print(f'# {ours:.0f} ms of processor time; the program alone {alone:.0f} ms')
    bad = [] if ours <= 5 * alone * mt.SLOW else [f'{ours} ms of processor time, alone {alone:.0f}']
    bad += [] if re.match(r'turns [1-9].* wrong 0 ', rest) else [f'it says {rest!r}']
    return bad + ([] if took <= 20 * mt.SLOW else [f'it ends after {took:.1f} s'])


if path := mt.build('attach.c'):
    mt.check('ten thousand threads are started', started(path))
if path := mt.build('throng.c'):
    v = mt.popen([path, str(THRONG)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    mt.check('more threads than there is room for', throng(v))
    mt.end_group(v)

mt.finish()
