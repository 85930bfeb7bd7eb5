#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 240
# waits
"""killed - mtrun is killed at any instant: the target runs on and ends as without it, also through dlopen, fork, exec and new threads."""
import os
import random
import subprocess
import time

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
ROUNDS = 1000 if mt.SOAK else 20
seed = int(os.environ.get('MTRUN_SEED') or time.time())
random.seed(seed)
print(f'# MTRUN_SEED={seed}')
WORK = [('all', 60), ('alloc', 400), ('threads', 120), ('fork', 300), ('dl', 600), ('exec', 100), ('map', 500)]
BUILDS = ['gcc', 'static', 'musl']
bad = {}
done = {}
refs = {}


def reference(build, what, turns):
    key = build, what, turns
    if key not in refs:
        refs[key] = mt.plain([*program(build, what, turns)])
    return refs[key]


def program(build, what, turns):
    exe = mt.build('busy.c', build)
    lib = mt.build('lib/twice.c', 'musl' if 'musl' in build else 'gcc', '-shared -fPIC', name='twice.so')
    return [exe, what, str(turns)] + ([lib] if 'static' not in build else [])


def processor_time():
    """What all that is left has used, and what of it has ended before."""
    used = 0
    for pid in mt.children_of(os.getpid()):
        try:
            with open(f'/proc/{pid}/stat') as f:
                used += sum(map(int, f.read().rsplit(')', 1)[1].split()[11:15]))
        except OSError:     # it has ended
            pass
    return used


for i in range(ROUNDS):
    build = BUILDS[i % len(BUILDS)] if i % 2 else 'gcc'
    what, turns = WORK[i % len(WORK)]
    cmd = program(build, what, turns)
    if None in cmd:
        continue
    ref = reference(build, what, turns)
    name = f'{what} {build}'
    early = i % 5 == 0      # while it is being started
    out = os.path.join(mt.tmp(), 'out')
    with open(out, 'wb') as f:
        p = mt.popen([mt.MTRUN, '-q', '--messages', '/dev/null', '-x', random.choice(['wait exit', 'report', 'wait 20ms; report; wait exit']), '--', *cmd],
                     stdout=f, stderr=subprocess.STDOUT)
        if early:
            time.sleep(random.uniform(0, 0.02))
        else:
            mt.until(lambda: os.path.getsize(out) >= 6 or p.poll() is not None, 20)
            time.sleep(random.expovariate(1 / 0.06) if i % 3 else random.uniform(0, 0.004))
        gone = p.poll() is not None
        mt.kill(p.pid)
        p.wait()
    # what it started is ours now: wait for the end of all of it
    statuses = []
    used, end = -1, 0
    hung = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid:
            statuses.append(status)
        elif (now := processor_time()) != used:     # it goes on, however slowly
            used, end = now, time.monotonic() + 30
        elif time.monotonic() > end:
            hung = mt.children()
            break
        else:
            time.sleep(0.005)
    problems = bad.setdefault(name, [])
    done[name] = done.get(name, 0) + (not gone)
    with open(out, 'rb') as f:
        text = f.read()
    if hung:
        problems.append(f'round {i}: hangs: {[line for pid in hung for line in mt.processes(pid)]}')
        for pid in hung:
            mt.kill(pid)
        while mt.children():
            time.sleep(0.01)
    elif not gone and text != ref.out and not (early and text == b''):
        problems.append(f'round {i}: said {text[-60:]!r} not {ref.out!r}, statuses {statuses}')
    elif not gone and statuses and ref.rc << 8 not in statuses and not (early and text == b''):
        problems.append(f'round {i}: ended with {[hex(s) for s in statuses]}, alone with {ref.rc}')
    elif any(os.WIFSIGNALED(s) for s in statuses) and not (early and text == b''):
        problems.append(f'round {i}: a signal: {[hex(s) for s in statuses]}')

for name in sorted(bad):
    mt.check(f'{name} ({done[name]} kills)', bad[name])
if sum(done.values()) < ROUNDS // 3:
    mt.fail('enough kills', f'only {sum(done.values())} of {ROUNDS} came before the end')
mt.finish()
