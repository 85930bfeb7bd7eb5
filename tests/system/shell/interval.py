#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 200
# waits
"""interval - usage lines: what they say is the program's own sum, they come when they should, at the prompt too; the environment's defaults."""
import os
import re
import shutil
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
want = re.compile(sys.argv[1] if len(sys.argv) > 1 else '')
STEPS = mt.build('steps.c')
LINE = re.compile(r'\[MEMTRACER\] allocated memory: (\d+), metadata memory: (\d+) peak: (\d+), rss: (\d+)(, process: (\d+) \((.*)\))?')


class Run:
    """mtrun over `steps`: its lines on stderr with the time of each."""
    def __init__(self, opts, program=(STEPS, 'wait'), **kw):
        self.p = mt.popen([mt.MTRUN, '-q', *opts, '--', *program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)
        self.lines = []
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.p.stderr:
            self.lines.append((time.monotonic(), line.decode().rstrip('\n')))

    def step(self):
        """What the program holds from now on: bytes, blocks, peak."""
        self.p.stdin.write(b'\n')
        self.p.stdin.flush()
        return [int(x) for x in self.p.stdout.readline().split()[2:]]

    def more(self, n):
        """
        The next N lines, from now on. `waited`: ms for each in which mtrun or we waited for a
        processor.
        """
        have = len(self.lines)
        before = mt.queued(self.p.pid, os.getpid())
        mt.until(lambda: len(self.lines) >= have + n, 20)
        now = mt.queued(self.p.pid, os.getpid())
        self.waited = sum(now[t] - before[t] for t in now if t in before) / 1e6 / n
        return self.lines[have:have + n]

    def settled(self, now):
        """The next three lines, from the first one that says NOW: allocated, metadata, peak. One may be of before the step, or from its middle, and have been read late."""
        said = '[MEMTRACER] allocated memory: %d, metadata memory: %d peak: %d, rss: ' % now
        have = before = len(self.lines)
        mt.until(lambda: any(line.startswith(said) for _, line in self.lines[have:]), 20)
        while before < len(self.lines) and not self.lines[before][1].startswith(said):
            before += 1
        mt.until(lambda: len(self.lines) >= before + 3, 20)
        return before - have, [line for _, line in self.lines[before:before + 3]]

    def end(self):
        mt.end_group(self.p)
        self.reader.join()
        for f in (self.p.stdin, self.p.stdout, self.p.stderr):
            f.close()


def case(name):
    def decorate(fn):
        if want.search(name):
            mt.check(name, fn())
    return decorate


def spacing(times, ms, waited):
    """
    Problems with the moments of lines: they are a whole number of intervals apart. On a busy machine some are late, and some of these come with the next one;
    how late is what the middle one of them is, which may be twice as long as mtrun and we waited for a
    processor (WAITED, on average). There are no more lines than intervals, counted from when the
    first one was due, which the punctual one among the first five tells.
    """
    if len(times) < 4:
        return [f'only {len(times)} lines']
    late = min(sorted(1000 * (t - first) % ms for t in times)[len(times) // 2] for first in times)
    busy = max(1, 2 * os.getloadavg()[0] / os.cpu_count()) * int(os.environ.get('MTRUN_SLOW', 1))
    due = min(t - i * ms / 1000 for i, t in enumerate(times[:5]))
    if late > min(max(5 * busy, 2 * waited), 0.4 * ms) or 1000 * (times[-1] - due) < ms * (len(times) - 2):
        return [f'lines come after {[round(1000 * (b - a)) for a, b in zip(times, times[1:])]} ms, should be {ms}: off by {late:.0f}']
    return []


@case('the numbers are the program\'s own')
def _():
    bad = []
    r = Run(['-c', 'heap,mmap', '-i50ms'])
    for _ in range(8):
        held, blocks, peak = r.step()
        now = (held, blocks * 8, peak)
        late, lines = r.settled(now)
        if late > 2 * int(os.environ.get('MTRUN_SLOW', 1)) + os.getloadavg()[0]:
            bad.append(f'{late} lines before one says {now}')
        for line in lines or ['']:
            m = LINE.fullmatch(line)
            if not m or tuple(int(m[i]) for i in (1, 2, 3)) != now or not 100000 < int(m[4]) < 1 << 26:
                bad.append(f'{line!r}, should be {now}')
    r.end()
    return bad


@case('the image counts')
def _():
    bad = []
    r = Run(['-i50ms'])
    with open(f'/proc/{mt.children_of(r.p.pid)[0]}/status') if mt.until(lambda: r.lines) else open(os.devnull) as f:
        exe = re.search(r'VmExe:\s+(\d+) kB', f.read())
    held, _, peak = r.step()
    m = LINE.fullmatch(r.more(3)[-1][1])
    if not exe or not m or (int(m[1]), int(m[3])) != (held + 1024 * int(exe[1]), peak + 1024 * int(exe[1])):
        bad.append(f'{r.lines[-1]}, should be {held} and {exe and exe[1]} kB')
    r.end()
    return bad


@case('they come when they should')
def _():
    bad = []
    for opts, ms in ((['-i100ms'], 100), (['--interval=0.25'], 250), (['-c', 'heap', '-i30ms', '-x', 'wait 100s'], 30)):
        r = Run(opts)
        r.step()
        lines = r.more(2500 // ms)
        bad += [f'{opts}: {x}' for x in spacing([at for at, _ in lines], ms, r.waited)]
        r.end()
    return bad


@case('5 s when nothing is said')
def _():
    r = Run(['-i'])
    began = time.monotonic()
    r.step()
    lines = r.more(1)
    r.end()
    return [] if lines and 4.5 < lines[0][0] - began < 6 else [f'{lines} since {began}']


@case('the environment has the defaults')
def _():
    bad = []
    env = {k: v for k, v in os.environ.items() if not k.startswith('MT_')}
    for more, opts, ms in (({'MT_PRINT_INTERVAL_MS': '100'}, [], 100), ({'MT_PRINT_INTERVAL_MS': '1', 'MT_MEMORY_LIMIT': '100000000'}, ['-i0.2s'], 200)):
        r = Run(opts, env={**env, **more})
        r.step()
        bad += [f'{more}: {x}' for x in spacing([at for at, _ in r.more(12)], ms, r.waited)]
        r.end()
    r = Run([], env={**env, 'MT_MEMORY_LIMIT': '100000000'})
    began = time.monotonic()
    lines = r.more(1)
    if not lines or not 4.5 < lines[0][0] - began < 6:
        bad.append(f'MT_MEMORY_LIMIT alone: {lines} since {began}')
    r.end()
    return bad


@case('what the program finds of them')
def _():
    bad = []
    env = {'PATH': os.environ['PATH'], 'A': 'b'}
    silent = 'MT_PRINT_INTERVAL_MS=9223372036854775807'
    for more, wanted in (({}, []), ({'MT_MEMORY_LIMIT': '100000000'}, [silent]), ({'MT_PRINT_INTERVAL_MS': '5000'}, [silent]),
                         ({'LD_PRELOAD': '/no/such/libmemtracer.so'}, ['LD_PRELOAD=/no/such/libmemtracer.so', silent])):
        r = mt.plain([mt.MTRUN, '-q', '-l', '1G', 'env'], env={**env, **more})
        have = sorted(x for x in r.out.decode().splitlines() if x.split('=')[0] in ('MT_MEMORY_LIMIT', 'MT_PRINT_INTERVAL_MS', 'LD_PRELOAD'))
        if have != sorted(wanted) or b'A=b\n' not in r.out:
            bad.append(f'{more}: {have}')
    return bad


@case('the command changes it')
def _():
    bad = []
    commands = ('wait 0.32; interval; interval off; interval; wait 0.3; interval 70ms; interval; '
                'wait 0.5; kill')
    r = mt.plain([mt.MTRUN, '-q', '-i50ms', '-x', commands, STEPS, 'wait'], stdin=subprocess.PIPE, input=None)
    text = r.err.decode()
    parts = re.split(r'^(50ms|off|70ms)\n', text, flags=re.M)
    counts = [len(LINE.findall(x)) for x in parts[::2]]
    late = 20 * max(0, r.seconds - 1.2)        # lines of a machine that was held up
    # one may be due between `interval` and `interval off`
    if (parts[1::2] != ['50ms', 'off', '70ms'] or not 2 <= counts[0] <= 9 + late or counts[1] > 1 or
            counts[2] or not 2 <= counts[3] <= 12 + late):
        bad.append(text)
    return bad


@case('each process has its line')
def _():
    r = mt.plain([mt.MTRUN, '-q', '-i50ms', 'sh', '-c', 'sleep 0.4 & sleep 0.4; wait; sleep 0.3'])
    lines = [LINE.fullmatch(x) for x in r.err.decode().splitlines()]
    if not lines or not all(lines):
        return [r.err]
    # beside others each says which it is
    names = [m[7] for m in lines]
    if names.count('sleep') < 3 or names.count('sh') < 3 or len({m[6] for m in lines if m[6]}) < 3:
        return [r.err]
    return []


@case('a stopped program is quiet, and so is one that has ended')
def _():
    commands = ('wait 0.2; stop; echo stopped; wait 0.3; echo goes on; cont; wait 0.2; kill; wait exit; '
                'echo ended; ! sleep 0.3')
    r = mt.plain([mt.MTRUN, '-q', '-i50ms', '-x', commands, STEPS, 'wait'], stdin=subprocess.PIPE, input=None)
    parts = re.split(r'^(?:stopped|goes on|ended)\n', r.err.decode(), flags=re.M)
    counts = [len(LINE.findall(x)) for x in parts]
    return [] if len(counts) == 4 and counts[0] and counts[2] and counts[1] == counts[3] == 0 else [r.err]


@case('in the file of --messages')
def _():
    path = os.path.join(mt.tmp(), 'messages')
    r = Run(['-i50ms', '--messages', path])
    r.step()
    with open(path) as f:
        lines = []
        mt.until(lambda: lines.extend(f.read().splitlines()) or len(lines) >= 4, 20)
    r.end()
    fine = len(lines) >= 4 and not r.lines and all(LINE.fullmatch(x) for x in lines)
    return [] if fine else [r.lines, lines]


if shutil.which('tmux') and want.search('prompt'):
    import window

    @window.case('prompt')
    def _(t, bad):
        t.start(f'{window.PROMPT} 1', '-i200ms')
        t.send('echo what is typed stays')
        time.sleep(3)
        text = t.screen()
        lines = text.splitlines()
        if lines[-1] != 'mt> echo what is typed stays':
            bad.append(f'the line being typed: {lines[-3:]}')
        n = sum(bool(LINE.fullmatch(x)) for x in lines)
        if not 8 <= n <= 40:
            bad.append(f'{n} lines in about 4 s')
        t.key('Enter')
        t.expect(r'\nwhat is typed stays\n')
        if not re.search(r'(\[MEMTRACER\].*\n){2}done', t.run('wait 1s; echo done')):
            bad.append('none while a command waits')
        t.run('interval off')
        before = len(LINE.findall(t.screen()))
        time.sleep(0.7)
        if len(LINE.findall(t.screen())) != before:
            bad.append('interval off')
elif want.search('prompt'):
    mt.skip('prompt', 'tmux is not installed')
mt.finish()
