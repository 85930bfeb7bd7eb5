#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# waits
# timeout: 240
"""waits - nobody waits for ever: hooks for an mtrun that is stopped, mtrun for handlers that are half done and for threads that cannot be stopped."""
import json
import os
import random
import re
import select
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
want = re.compile(sys.argv[1] if len(sys.argv) > 1 else '')
I = os.path.join(os.path.dirname(mt.VICTIMS), '..', 'inject')
GIVES_UP = 5                    # seconds after which a hook does not wait for mtrun any more


case = mt.cases(want)


class Launched:
    """mtrun over a program that runs to its end; then its status."""
    def __init__(self, cmd, *opts):
        self.json = tempfile.mktemp(dir=mt.tmp())
        # no buffer: where two lines are there already, readline() would keep the second from communicate()
        self.p = mt.popen([mt.MTRUN, '-q', *opts, '--messages', '/dev/null', '-x', f'wait exit; status --json > {self.json}', '--', *cmd],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0)
        self.said = self.p.stdout.readline()

    def says(self, line, seconds):
        """Whether LINE is what the program says next, within so many seconds."""
        return bool(select.select([self.p.stdout], [], [], seconds)[0]) and self.p.stdout.readline() == line

    def end(self, bad, seconds):
        try:
            out = self.p.communicate(timeout=seconds)[0].decode()
        except subprocess.TimeoutExpired:
            bad.append(f'has not ended after {seconds} s')
            mt.end_group(self.p)
            return '', {}
        if self.p.returncode:
            bad.append(f'status {self.p.returncode}: {out[-200:]}')
        with open(self.json) as f:
            return out, json.load(f)


def find(tree, name):
    """The number NAME, wherever it is."""
    if isinstance(tree, dict):
        if name in tree:
            return tree[name]
        tree = list(tree.values())
    for t in tree if isinstance(tree, list) else []:
        n = find(t, name)
        if n is not None:
            return n
    return None


@case('handlers that map, while questions are asked')
def _(bad):
    path = mt.build('handled.c', 'gcc', f'-I{I}')
    for _ in range(20 if mt.SOAK else 2):
        r = Launched([path, '4' if mt.SOAK else '1'])
        out, status = r.end(bad, 60)
        m = re.search(r'more (-?\d+) handled (\d+)', out)
        if not m or int(m[1]) or int(m[2]) < 10:
            bad.append(f'said {out!r}')
        for what in ('dropped', 'malformed'):
            if find(status, what):
                bad.append(f'{find(status, what)} {what}')


@case('mtrun is stopped')
def _(bad):
    path = mt.build('unheard.c', 'gcc', '-fno-builtin')
    lib = mt.build('lib/twice.c', 'gcc', '-shared -fPIC', name='twice.so')
    seconds = str(GIVES_UP + 3)
    runs = {'rings': Launched([path, seconds]), 'dlopen': Launched([path, seconds, 'dl', lib]), 'seccomp': Launched([path, seconds, 'jail']),
            'limit': Launched([path, seconds], '-l', '100000', '-c', 'heap', '--on-limit', 'fail')}
    time.sleep(1)
    for r in runs.values():
        os.kill(r.p.pid, signal.SIGSTOP)
    for name in 'rings', 'limit':       # while it is stopped; seccomp's clock is pause instructions
        if not runs[name].says(b'waited\n', 12 * GIVES_UP):
            bad.append(f'{name}: no end of a wait for mtrun')
    time.sleep(1)               # from now on they drop what has no room
    for r in runs.values():
        os.kill(r.p.pid, signal.SIGCONT)
    for name, r in runs.items():
        out, status = r.end(bad, 60)
        m = re.search(r'longest (\d+) refused (\d+)', out)
        dropped, blocks = find(status, 'dropped'), find(status, 'live_blocks')
        if not m:
            bad.append(f'{name}: said {out!r}')
        if name in ('rings', 'limit') and not dropped:
            bad.append(f'{name}: nothing was dropped')
        if blocks is not None and dropped is not None and blocks > 40 + dropped:
            bad.append(f'{name}: {blocks} blocks are left, {dropped} events were dropped')


def vfork(ms, n, *opts):
    v = mt.popen([mt.build('invfork.c'), str(ms), str(n)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    v.stdout.readline()
    a = mt.Attached(v.pid, *opts)
    a.ask('status')             # it is there
    return v, a


def begin(v):
    v.stdin.write(b'\n')
    v.stdin.flush()
    v.stdout.readline()


def told(v, bad, refused=0, most=1000):
    out = v.stdout.readline().decode()      # not its end: mtrun holds it there for more questions
    m = re.search(r'most (\d+) refused (\d+) status (-?\d+)', out)
    if not m or int(m[1]) > most or (int(m[2]) > 0) != refused or m[3] != '0':
        bad.append(f'it said {out!r}')


@case('a thread in a vfork: bt, stop, status')
def _(bad):
    v, a = vfork(6000, 200)
    begin(v)
    text = a.ask('bt')
    if 'vfork' not in text or text.count('thread ') < 2:
        bad.append(f'bt: {text[:300]}')
    began = time.monotonic()
    a.ask('stop')
    if find(a.json('status'), 'state') != 'stopped':
        bad.append('it is not stopped')
    a.ask('cont')
    stood = (time.monotonic() - began) * 1000
    if select.select([v.stdout], [], [], 0)[0]:
        bad.append('the answers came after the vfork')
    told(v, bad, most=stood + 1000)
    bad += a.leave()


@case('a thread in a vfork: the limit')
def _(bad):
    # what is told of a hit, with the symbols of libc, may take a second of a busy machine: less than the vfork in any case
    for action in ('report', 'fail'):
        v, a = vfork(5000, 300, '-l', '100000', '-c', 'heap', '--on-limit', action, '--messages', '/dev/null')
        begin(v)
        told(v, bad, action == 'fail', most=4000)
        bad += a.leave()
    v, a = vfork(2000, 300, '-l', '100000', '-c', 'heap', '--on-limit', 'stop', '--messages', '/dev/null')
    begin(v)
    if not mt.until(lambda: find(a.json('status'), 'state') == 'stopped', 20):
        bad.append('stop: it runs on')
    a.ask('limit 10M; cont')
    told(v, bad, most=20000)
    bad += a.leave()


@case('a thread in a vfork: attach and detach')
def _(bad):
    v, a = vfork(1500, 100)
    begin(v)
    bad += a.leave()
    told(v, bad, most=1500)
    v = mt.popen([mt.build('invfork.c'), '1500', '3000'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    v.stdout.readline()
    begin(v)
    a = mt.Attached(v.pid)
    if find(a.json('status'), 'state') != 'running':
        bad.append('it does not run')
    bad += a.leave()
    told(v, bad)


@case('a timer that is shorter than a visit')
def _(bad):
    v = mt.popen([mt.build('storm.c'), '20' if mt.SOAK else '6'], stdout=subprocess.PIPE)
    v.stdout.readline()
    for i in range(40 if mt.SOAK else 8):
        m = mt.popen([mt.MTRUN, '-q', '-p', str(v.pid), '-x', 'detach'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if i % 2:               # wherever it is
            time.sleep(random.uniform(0, 0.2))
            m.kill()
        try:
            said = m.communicate(timeout=20)[0].decode()
        except subprocess.TimeoutExpired:
            m.kill()
            bad.append('no end of an attach')
            break
        if m.returncode not in (0, -signal.SIGKILL):
            bad.append(f'status {m.returncode}: {said[-200:]}')
    out = v.communicate(timeout=60)[0].decode()
    if v.returncode or not re.fullmatch(r'storm handled \d+ mask 800\n', out):
        bad.append(f'status {v.returncode}, said {out!r}')


@case('above a limit that is only reported')
def _(bad):
    path = mt.build('crossings.c', 'gcc', '-fno-builtin')
    r = mt.plain([mt.MTRUN, '-q', '-l', '1000000', '-c', 'heap', '--on-limit', 'report', '-x', 'wait exit; limit --json', '--', path, '4', '20000'])
    hits = [(int(x), int(y)) for x, y in re.findall(rb'alloc memory:(\d+), allocated_memory: (\d+)', r.err)]
    told_of = [tuple(map(int, line.split()[1:])) for line in r.out.splitlines() if line.startswith(b'cross ')]
    if r.rc or not told_of or [h[0] for h in hits] != [t[0] for t in told_of]:
        bad.append(f'status {r.rc}, told {hits}, the program crossed it with {told_of}')


mt.finish()
