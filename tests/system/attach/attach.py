#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 300
"""
attach - mtrun -p gets into a running program and leaves it as it was: its code, mappings, descriptors, signal dispositions; again and again, also when it is killed.
The victim (attach.c) looks after its blocks by itself, and sleeps in every kind of system call; what it says at its end is the answer.
"""
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import time

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
SEED = int(os.environ.get('MTRUN_SEED') or time.time())
print(f'# MTRUN_SEED={SEED}')
random.seed(SEED)
CYCLES = 1000 if mt.SOAK else 12
# 64 that map all the time hold up each look at their memory: an attach takes seconds then
THREADS = 64 if mt.SOAK else 16


class Victim:
    def __init__(self, *args, how='gcc'):
        self.exe = mt.build('attach.c', how)
        self.p = None
        self.fields = ('SigBlk', 'SigIgn', 'SigCgt', 'TracerPid', 'Seccomp')
        if 'timer' in args:     # its handler runs now and then in a thread that waits for signals
            self.fields = self.fields[1:]
        if not self.exe:
            return
        self.p = mt.popen([self.exe, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.pid = self.p.pid
        self.p.stdout.readline()
        mt.until(lambda: self.read('syscall').split()[0] == '128', 20)  # rt_sigtimedwait: it waits for signals, and has another mask meanwhile
        time.sleep(0.1)         # its libc has mapped what it maps at first
        mt.until(lambda: re.search(r'^SigBlk:\s0*800$', self.read('status'), re.M))      # it is in sigwait()

    def read(self, name):
        with open(f'/proc/{self.pid}/{name}') as f:
            return f.read()

    def looks(self):
        """Everything of it that must be as before: what is executable and its bytes, descriptors, signals."""
        maps = [m for m in self.read('maps').splitlines() if 'x' in m.split()[1] or '/' in m]
        code = []
        with open(f'/proc/{self.pid}/mem', 'rb') as mem:
            for m in maps:
                lo, hi = (int(x, 16) for x in m.split()[0].split('-'))
                if 'x' in m.split()[1] and 'vsyscall' not in m:
                    mem.seek(lo)
                    code.append(hash(mem.read(hi - lo)))
        fds = sorted(os.readlink(f'/proc/{self.pid}/fd/{n}') for n in os.listdir(f'/proc/{self.pid}/fd'))
        sig = [x for x in self.read('status').splitlines() if x.startswith(self.fields)]
        return {'maps': maps, 'code': code, 'fds': fds, 'signals': sig}

    def differs(self, before):
        """(A thread that waits for signals has another mask while it does.)"""
        mt.until(lambda: self.p.poll() is not None or self.looks()['signals'] == before['signals'], 5)
        if self.p.poll() is not None:
            return []           # end() says so
        now = self.looks()
        return [f'{k}: {[x for x in now[k] if x not in before[k]][:3]} instead of {[x for x in before[k] if x not in now[k]][:3]}'
                for k in now if now[k] != before[k]]

    def end(self, may_see=()):
        """Problems that it has found itself. MAY_SEE: sleepers that may have seen EINTR."""
        if self.p.poll() is None:
            self.p.send_signal(signal.SIGTERM)
        try:
            out, err = self.p.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            self.p.kill()
            self.p.communicate()
            return ['it does not end']
        err = err.decode()
        for n in may_see:
            err = err.replace(f'attach: sleeper {n}: EINTR\n', '')
        m = re.search(rb'turns (\d+) slept (\d+) forks (\d+) wrong (\d+)', out)
        if not m:
            return [f'it died: {self.p.returncode}: {err[-300:]}']
        return ([f'it says: {err[-300:]}'] if err or int(m[4]) else []) + ([] if int(m[1]) else ['it did nothing'])


def attach(*opts, **kw):
    return mt.plain([mt.MTRUN, *opts], timeout=30, **kw)


def once(name, args, how='gcc', opts=()):
    v = Victim(*args, how=how)
    if not v.p:
        mt.skip(name, mt.build_reason('attach.c', how))
        return
    before = v.looks()
    d = mt.tmp()
    r = attach('-p', str(v.pid), '-q', '-x', f'wait allocs > 200; status --json > {d}/status; ! grep -c memfd:mtrun /proc/{v.pid}/maps > {d}/inside; '
               'detach', *opts)
    bad = [f'status {r.rc}: {(r.out + r.err).decode()[-300:]}'] if r.rc or r.err else []
    bad += v.differs(before)
    if not bad:
        s = json.load(open(f'{d}/status'))
        bad += [] if s['allocs'] > 200 and s['dropped'] == 0 and s['mtrun']['bad_events'] == 0 else [f'{s}']
        bad += [] if int(open(f'{d}/inside').read()) else ['it was never inside']
    mt.check(name, bad + v.end())


once('a thread', ['1'])
once(f'{THREADS} threads', [f'{THREADS}'])
once('ten thousand threads', ['4', 'idle'])
once('threads asleep in system calls', ['4', 'sleepers'])
once('threads that come and go, a timer', ['4', 'start', 'timer'])
once('children are forked meanwhile', ['4', 'fork'])
FOLLOWING = (), ('--no-follow',), ('--tree',)
for i, how in enumerate(('vfork', 'nested', 'vforks', 'sharer')):
    for opts in FOLLOWING if mt.SOAK else (FOLLOWING[0], FOLLOWING[1 + i % 2]):
        once(' '.join((how, *opts)), ['4', how], opts=opts)
once('a seccomp filter that kills for the calls that mtrun needs', ['4', 'seccomp'])
once('static', ['4'], 'static')
once('static pie', ['4'], 'static-pie')
once('musl', ['4'], 'musl')
once('musl, static', ['4'], 'musl-static')
once('jemalloc', ['4'], 'jemalloc')
once('tcmalloc', ['4'], 'tcmalloc')


def sharer():
    v = Victim('1', 'vfork')
    child = mt.until(lambda: mt.children_of(v.pid))[0]
    before = v.looks()
    r = attach('-p', str(child), '-d', '100ms')
    said = f'mtrun: cannot attach to {child}: it has the memory of {v.pid}, its parent: try that\n'
    bad = [] if r.rc == 125 and r.err.decode() == said else [f'{r.rc}: {r.err}']
    mt.check('not to what has the memory of its parent', bad + v.differs(before) + v.end())


def duration():
    v = Victim('2')
    before = v.looks()
    began = time.monotonic()
    r = attach('-p', str(v.pid), '-d', '500ms')
    took = time.monotonic() - began
    bad = [] if r.rc == 0 and 0.4 < took < 10 * mt.SLOW else [f'status {r.rc} after {took:.1f} s']
    bad += [] if b'detached after' in r.err and not r.out else [f'no summary: {r.err[-200:]} {r.out[-200:]}']
    mt.check('-d leaves after a time, with status 0 and a summary', bad + v.differs(before) + v.end())


def signals():
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        v = Victim('2')
        before = v.looks()
        prefix = f'{mt.tmp()}/{sig.name}'
        p = mt.popen([mt.MTRUN, '-p', str(v.pid), '-o', prefix],
                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        inside = mt.until(lambda: 'memfd:mtrun' in v.read('maps'))
        time.sleep(0.2)
        p.send_signal(sig)
        time.sleep(0.005)
        p.send_signal(sig)      # as timeout(1) does: to the process, then to its group
        try:
            out = p.communicate(timeout=20)[0]
        except subprocess.TimeoutExpired:
            p.kill()
            out = p.communicate()[0] + b' (it does not end)'
        bad = [] if inside and p.returncode == 0 and b'detached after' in out else [f'status {p.returncode}: {out[-300:]}']
        bad += [] if os.path.exists(f'{prefix}{v.pid}.0.f.heap') else [f'no .heap file: {out[-300:]}']
        mt.check(f'{sig.name}, twice, detaches', bad + v.differs(before) + v.end())
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):      # what it cuts short has not failed, what had failed before has
        v = Victim('2')
        bad = []
        for script, status in (('echo on; wait exit; report', 0), ('nonsense; echo on; wait exit', 125)):
            p = mt.popen([mt.MTRUN, '-q', '-x', script, '-p', str(v.pid)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            said = b''
            while not said.endswith(b'on\n') and (line := p.stdout.readline()):
                said += line
            p.send_signal(sig)
            rest = p.communicate(timeout=20)[0]
            bad += [] if p.returncode == status and not rest else [f'{script}: status {p.returncode}: {said + rest}']
        mt.check(f'{sig.name} detaches from a script that waits', bad + v.end())


def stopped():
    v = Victim('4')
    v.p.send_signal(signal.SIGSTOP)
    state = lambda: {x.split()[1] for t in os.listdir(f'/proc/{v.pid}/task') for x in v.read(f'task/{t}/status').splitlines() if x.startswith('State')}
    mt.until(lambda: state() == {'T'})
    before = v.looks()
    r = attach('-p', str(v.pid), '-q', '-d', '300ms')
    bad = [f'status {r.rc}: {r.out[-300:]}'] if r.rc else []
    if not mt.until(lambda: state() == {'T'}, 5):
        bad.append(f'it is not stopped any more: {state()}')
    bad += v.differs(before)
    v.p.send_signal(signal.SIGCONT)
    mt.check('a program that is stopped stays so', bad + v.end())


def several():
    v, w = Victim('2'), Victim('2')
    r = attach('-p', f'{v.pid},{w.pid}', '-q', '-x', 'wait 300ms; processes --json; detach')
    try:
        found = {p['pid']: p['allocs'] for p in json.loads(r.out)['processes']}
    except ValueError:
        found = {}
    bad = [] if r.rc == 0 and found.get(v.pid) and found.get(w.pid) else [f'status {r.rc}: {r.out[-300:]}']
    mt.check('several at once', bad + v.end() + w.end())


def ends():
    v = Victim('1')
    p = mt.popen([mt.MTRUN, '-p', str(v.pid), '-x', 'echo attached'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    p.stdout.readline()
    bad = v.end()
    out = p.communicate(timeout=20)[0]
    mt.check('its end is noticed', bad + ([] if p.returncode == 0 and b'exited with status 0' in out else [f'{p.returncode}: {out[-200:]}']))


def taken_over():
    """What mtrun had started lives on when mtrun is killed; -p takes away what was left in it."""
    exe = mt.build('attach.c')
    p = mt.popen([mt.MTRUN, '-q', exe, '4', 'fork'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    p.stdout.readline()
    v = mt.children_of(p.pid)[0]
    p.kill()
    p.wait()
    p.stdout.close()
    maps = lambda: open(f'/proc/{v}/maps').read()
    bad = [] if 'memfd:mtrun' in maps() else ['nothing was left']
    r = attach('-q', '-p', str(v), '-x', 'wait allocs > 100; detach')
    bad += [f'status {r.rc}: {(r.out + r.err).decode()[-300:]}'] if r.rc else []
    bad += ['it is still there'] if 'memfd:mtrun' in maps() else []
    mt.kill(v)
    mt.check('what a killed mtrun had started', bad)


def tree():
    s = mt.popen(['sh', '-c', f'{mt.build("attach.c")} 1 & {mt.build("attach.c")} 1 & wait'], stdout=subprocess.DEVNULL)
    children = mt.until(lambda: [c for c in mt.children_of(s.pid) if mt.exe(c).endswith('/attach')][1:] and mt.children_of(s.pid))
    r = attach('-q', '-p', str(s.pid), '--tree', '-x', 'wait 300ms; processes --json; detach')
    try:
        found = {p['pid']: p['allocs'] for p in json.loads(r.out)['processes']}
    except ValueError:
        found = {}
    bad = [] if r.rc == 0 and s.pid in found and all(found.get(c) for c in children) else [f'{r.rc}: {found}: {r.err[-300:]}']
    for c in children:
        mt.kill(c)
    s.wait()
    mt.check('--tree: the children that there are', bad)


def prompt():
    v = Victim('2')
    before = v.looks()
    p = mt.Prompt('-p', str(v.pid))
    bad = [] if p.wait('mt> ') else [f'no prompt: {p.text[-300:]}']
    for command, answer in (('status', r'running, \d+ threads?'), ('run', 'no program was started here'), ('fg', 'the program was not started here')):
        p.send(command + '\n')
        if not p.wait(answer + '.*mt> '):
            bad.append(f'{command}: {p.text[-300:]}')
    p.send('\x04')             # no question: it is not ours to end
    if not mt.until(lambda: os.waitpid(p.pid, os.WNOHANG)[0], 10):
        bad.append('Ctrl-D does not end it')
        mt.kill(p.pid)
    os.close(p.fd)
    mt.check('at the prompt', bad + v.differs(before) + v.end())


# Calls that return EINTR at every stop (signal(7)) are restarted by mtrun; killed in the very instant of a stop it cannot.
ENDS_AT_STOPS = (5, 6, 8, 10, 11)


def cycles(name, args, n, kills):
    """(The victim has all processors for itself, but for what others need: a cycle does not take seconds then.)"""
    v = Victim(*args)
    for t in os.listdir(f'/proc/{v.pid}/task'):
        with contextlib.suppress(ProcessLookupError):     # it has ended meanwhile
            os.setpriority(os.PRIO_PROCESS, int(t), 10)
    before = v.looks()
    bad = []
    for i in range(n):
        killed = kills and i % 4 == 3 and i != n - 1
        p = mt.popen([mt.MTRUN, '-q', '-p', str(v.pid), '-d', '20ms'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if killed:
            time.sleep(random.random() * 0.2)
            p.kill()
        try:
            out = p.communicate(timeout=60)[0]
        except subprocess.TimeoutExpired:
            p.kill()
            out = b'it hangs: ' + p.communicate()[0]
        if p.returncode and not (killed and p.returncode == -9):
            bad.append(f'cycle {i}: status {p.returncode}: {out.decode()[-200:]}')
        if v.p.poll() is not None:
            bad.append(f'cycle {i}: it died: {v.p.returncode}')
            break
        if not killed:
            bad += [f'cycle {i}: {x}' for x in v.differs(before)]
        if len(bad) > 5:
            break
    mt.check(name, bad + v.end(ENDS_AT_STOPS if kills else ()))


sharer()
duration()
signals()
stopped()
several()
ends()
prompt()
taken_over()
tree()
cycles(f'{CYCLES} times, {THREADS} threads, a quarter killed', [f'{THREADS}', 'sleepers'], CYCLES, True)
cycles(f'{CYCLES // 2} times, with what shares its memory, a quarter killed',
       ['4', 'vfork', 'nested', 'vforks', 'sharer'], CYCLES // 2, True)
cycles(f'{CYCLES} times, with forks, threads that come and go, a timer', ['8', 'fork', 'start', 'timer'], CYCLES, False)
mt.finish()
