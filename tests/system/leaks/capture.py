#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 300
"""
capture.py - how the memory of a running program is taken: in each of the three ways the same blocks are found, the program goes on and is right, and nothing
is left in it, also when mtrun is killed; and which way is taken where one is not to be had.
"""
import json
import os
import random
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import load
import mt

mt.need_mtrun()
want = re.compile(sys.argv[1] if len(sys.argv) > 1 else '')
seed = int(os.environ.get('MTRUN_SEED') or time.time())
random.seed(seed)
print(f'# MTRUN_SEED={seed}')
WAYS = {'write-protect': 'write protection', 'clone': 'clone', 'stop': 'stop'}
GOES_ON = 60        # seconds in which a program that is not stuck has done something, however busy the machine is
SCANS = 1000 if mt.SOAK else 8     # of a program that works, in each way
THREADS = 32 if mt.SOAK else 12     # those that map all the time hold up each look at their memory
LOST = {'definite': {'bytes': 200 * 1000, 'blocks': 200}, 'indirect': {'bytes': 200 * 296, 'blocks': 200}}
VICTIM = mt.build('captured.c', 'gcc', '-g')
os.environ.pop('MTRUN_CAPTURE', None)


def by(way):
    return dict(os.environ, MTRUN_CAPTURE=way) if way else dict(os.environ)


class Program:
    """The victim alone; mtrun comes to it and goes."""
    def __init__(self, *args, **kw):
        self.p = mt.popen([VICTIM, *map(str, args)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **kw)
        self.pid = self.p.pid
        self.read('ready')

    def read(self, what):
        line = self.p.stdout.readline().decode()
        if not line.startswith(what):
            raise RuntimeError(f'the victim says {line!r}, {self.p.poll()}')
        return line

    def tell(self, command):
        self.p.stdin.write(command.encode() + b'\n')
        self.p.stdin.flush()
        return int(self.read('ops').split()[1])

    def works(self):
        """It goes on, and has found nothing wrong."""
        before = self.tell('ops')
        return mt.until(lambda: self.tell('ops') > before, GOES_ON)

    def state(self):
        """What a capture may not leave: threads, children, descriptors, protected pages."""
        with open(f'/proc/{self.pid}/smaps') as f:
            protected = sum(' uw' in line for line in f if line.startswith('VmFlags'))
        return {'threads': len(os.listdir(f'/proc/{self.pid}/task')), 'children': len(mt.children_of(self.pid)),
                'descriptors': sorted(os.listdir(f'/proc/{self.pid}/fd')), 'protected mappings': protected}

    def left(self, before):
        """Problems: what is there that was not. Threads and children that go are waited for."""
        mt.until(lambda: self.state() == before, 10)
        after = self.state()
        return [f'{key}: {before[key]} became {after[key]}' for key in before if before[key] != after[key]]

    def end(self):
        self.p.kill()
        self.p.communicate()


def attach(program, way, *opts):
    """mtrun at a program; again if threads are in the hooks of one that was killed, and not let run."""
    said = ''
    for _ in range(5):
        a = mt.Attached.__new__(mt.Attached)
        a.d, a.n = mt.tempfile.mkdtemp(dir=mt.tmp()), 0
        a.p = mt.popen([mt.MTRUN, '-q', *opts, '-p', str(program.pid), '-X', '-'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       env=by(way))
        a.commands = a.p.stdin
        try:
            a.ask('status')
            return a
        except (RuntimeError, BrokenPipeError) as e:
            if a.p.poll() is None:
                raise
            said = e
    raise RuntimeError(f'mtrun cannot attach: {said}')


def launch(way, *args, opts=()):
    a = mt.Launched([VICTIM, *map(str, args)], *opts, env=by(way))
    if a.p.stdout.readline() != b'ready\n':
        raise RuntimeError('the victim does not begin')
    return a


def tell(a, command):
    a.p.stdin.write(command.encode() + b'\n')
    a.p.stdin.flush()
    line = a.p.stdout.readline()
    if not line.startswith(b'ops'):
        raise RuntimeError(f'the victim says {line!r}')
    return int(line.split()[1])


def scan(a, way):
    """Problems with what `leaks` says."""
    text = ''
    try:
        text = a.ask('leaks --json')
        return wrong(json.loads(text), way)
    except (BrokenPipeError, RuntimeError, ValueError) as e:
        ended = mt.until(a.p.poll, 1)
        out = a.p.stdout.read() if ended is not None else b''
        raise RuntimeError(f'{e}: {text[:100]!r}, {out!r}, {open(a.d + "/messages").read()!r}, {ended}') from e


def wrong(r, way, lost=LOST):
    bad = [f'{kind}: {r[kind]}, should be {lost[kind]}' for kind in lost if r[kind] != lost[kind]]
    return bad + ([f'captured by {r["captured_by"]}, not {way}'] if r['captured_by'] != way else [])


case = mt.cases(want)

for WAY in WAYS:
    @case(f'launched, {WAY}')
    def _(bad):
        a = launch(WAY, 4, 40)
        for _ in range(5 if mt.SOAK else 3):
            bad += scan(a, WAYS[WAY])
            tell(a, 'ops')
        a.end()

    @case(f'attached, {WAY}')
    def _(bad):
        p = Program(4, 40)
        before, state = mt.fingerprint(p.pid), p.state()
        a = attach(p, WAY)
        for _ in range(3):
            bad += wrong(a.json('leaks'), WAYS[WAY])
        bad += a.leave() + p.left(state)
        # its threads map and unmap
        bad += mt.changed(before, mt.fingerprint(p.pid), but=('maps',))
        bad += [] if p.works() else ['it does not go on']
        p.end()

    @case(f'{SCANS} scans of a program that works, {WAY}')
    def _(bad):
        a = launch(WAY, 3, 24)
        before = 0
        for i in range(SCANS):
            problems = scan(a, WAYS[WAY])
            bad += [f'scan {i}: {x}' for x in problems][:3]
            # its threads may not have had a turn since
            if not mt.until(lambda: tell(a, 'ops') > before, GOES_ON):
                bad.append(f'scan {i}: it does not go on')
                break
            before = tell(a, 'ops')
        bad[:] = bad[:5]
        a.end()

    @case(f'what else it may be at, {WAY}')
    def _(bad):
        a = launch(WAY, 2, 12, opts=('--no-follow',))
        for command in 'share', 'fork', 'threads', 'huge':
            tell(a, command)
        for i in range(SCANS // 4):
            bad += [f'scan {i}: {x}' for x in scan(a, WAYS[WAY])]
            tell(a, 'ops')
        bad[:] = bad[:5]
        a.end()

    @case(f'mtrun is killed, {WAY}')
    def _(bad):
        p = Program(3, 24)
        state = p.state()
        for i in range(SCANS // 4):
            a = attach(p, WAY)
            a.commands.write(b'every 1ms { leaks --json > /dev/null }\n')
            a.commands.flush()
            time.sleep(random.uniform(0, 0.3))
            mt.kill(a.p.pid)
            a.p.communicate()
            bad += [f'kill {i}: {x}' for x in p.left(state)]
            bad += [] if p.works() else [f'kill {i}: it does not go on']
        p.end()


@case(f'{THREADS} threads')
def _(bad):
    for way in WAYS:
        a = launch(way, THREADS, 32)
        r = a.json('leaks')
        bad += [f'{way}: {x}' for x in wrong(r, WAYS[way])]
        a.end()


def chosen(bad, name, way, *commands, threads=2, mb=40, **kw):
    """Which way is taken when nobody asks for one."""
    a = launch(None, threads, mb)
    for command in commands:
        tell(a, command)
    r = a.json('leaks')
    bad += [f'{name}: {x}' for x in wrong(r, way)]
    a.end()


@case('a stop is for its pages alone')
def _(bad):
    # The same bytes in 200 000 blocks and in 2000. To list the many takes twice as long as to
    # copy the bytes, on a slow machine as on a fast one
    os.environ['MTRUN_CAPTURE'] = 'stop'
    many, few = load.Load(200000, 100), load.Load(2000, 100, size=6000)
    del os.environ['MTRUN_CAPTURE']
    pauses = {many: [], few: []}
    ways = set()
    # The best of three and more: others run, too
    while len(pauses[many]) < 3 or len(pauses[many]) < 40 and min(pauses[many]) >= 1.5 * min(pauses[few]):
        for l in (few, many):
            r = l.json('leaks -n 0')
            pauses[l].append(r['pause_ms'])
            ways.add(r['captured_by'])
    if min(pauses[many]) >= 1.5 * min(pauses[few]) or ways != {'stop'}:
        bad += [f'{ways}: 200 000 blocks {pauses[many]} ms, 2000 {pauses[few]} ms']
    many.end()
    few.end()


@case('the way that is taken')
def _(bad):
    chosen(bad, 'little', 'stop', threads=1, mb=1)
    chosen(bad, 'quiet', 'write protection', 'quiet')
    chosen(bad, 'its own userfaultfd', 'clone', 'quiet', 'protect')
    chosen(bad, 'an io_uring', 'clone', 'quiet', 'ring')
    chosen(bad, 'a filter', 'stop', 'quiet', 'filter')


@case('what cannot be had is said')
def _(bad):
    for way, command in ('write-protect', 'filter'), ('clone', 'filter'), ('write-protect', 'protect'):
        a = launch(way, 1, 12)
        tell(a, command)
        a.ask('leaks')
        said = mt.until(lambda: open(f'{a.d}/messages').read())
        if 'cannot capture the memory of' not in said or said.count('\n') != 1:
            bad.append(f'{way}, {command}: {said!r}')
        tell(a, 'ops')
        a.end()


@case('a vfork child')
def _(bad):
    a = launch(None, 2, 4)
    tell(a, 'vfork')
    began = time.monotonic()
    a.ask('leaks')
    with open(f'{a.d}/messages') as f:
        said = f.read()
    if time.monotonic() - began < 1.5 and 'vfork' not in said:
        bad.append(f'it was captured: {said!r}')
    tell(a, 'ops')
    mt.until(lambda: not said or not any(mt.children_of(victim) for victim in mt.children_of(a.p.pid)))      # the vfork child is gone
    r = a.json('leaks')
    bad += wrong(r, r['captured_by'])
    a.end()


@case('it becomes another program meanwhile')
def _(bad):
    p = Program(2, 40)
    for i in range(SCANS // 4):
        a = attach(p, ('clone', 'write-protect')[i % 2])
        a.commands.write(b'every 1ms { leaks --json > /dev/null }\n')
        a.commands.flush()
        time.sleep(random.uniform(0, 0.2))
        p.p.stdin.write(b'exec\n')
        p.p.stdin.flush()
        p.read('ready')
        time.sleep(0.1)
        a.p.stdin.write(b'detach\n')
        a.p.stdin.flush()
        a.p.communicate(timeout=60)
        mt.until(lambda: not mt.children_of(p.pid), 10)
        if mt.children_of(p.pid):
            bad.append(f'exec {i}: it has children: {mt.children_of(p.pid)}')
        bad += [] if p.works() else [f'exec {i}: it does not go on']
    p.end()


@case('without rights')
def _(bad):
    if os.geteuid():
        return
    for way in WAYS:
        p = Program(2, 12, preexec_fn=mt.as_nobody)
        state = p.state()
        out = mt.plain([mt.MTRUN, '-q', '-p', str(p.pid), '-x', 'leaks --json; quit'], env=by(way), preexec_fn=mt.as_nobody, cwd='/')
        if out.rc or f'"{WAYS[way]}"' not in str(out.out):
            bad.append(f'{way}: {out.rc}: {out.out[:200]!r} {out.err!r}')
        bad += [f'{way}: {x}' for x in p.left(state)] + ([] if p.works() else [f'{way}: it does not go on'])
        p.end()


class Cgroup:
    """A memory cgroup with a limit, for mtrun alone; None: there are none to be had."""
    def __init__(self, limit):
        for top, file in ('/sys/fs/cgroup/memory', 'memory.limit_in_bytes'), ('/sys/fs/cgroup', 'memory.max'):
            self.path = f'{top}/mtrun-test-{os.getpid()}'
            try:
                os.mkdir(self.path)
                with open(f'{self.path}/{file}', 'w') as f:
                    f.write(str(limit))
                return
            except OSError:
                self.remove()
        self.path = None

    def enter(self):
        with open(f'{self.path}/cgroup.procs', 'w') as f:
            f.write(str(os.getpid()))

    def remove(self):
        try:
            os.rmdir(self.path)
        except OSError:
            pass


@case('without the memory for a copy')
def _(bad):
    group = Cgroup(100 << 20)
    if not group.path:
        mt.skip('without the memory for a copy', 'no memory cgroup can be made here')
        return
    for way in None, 'clone', 'stop':
        p = Program(2, 80)
        state = p.state()
        out = mt.plain([mt.MTRUN, '-q', '-p', str(p.pid), '-x', 'leaks --json; quit'], env=by(way), preexec_fn=group.enter)
        if out.rc or f'"{WAYS[way or "clone"]}"' not in str(out.out):
            bad.append(f'{way}: {out.rc}: {out.out[:200]!r} {out.err!r}')
        bad += [f'{way}: {x}' for x in p.left(state)] + ([] if p.works() else [f'{way}: it does not go on'])
        p.end()
    group.remove()


mt.finish()
