#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 200
"""rude - targets that die in the middle, close or replace every descriptor, enter seccomp, are stopped and continued: nothing is lost."""
import json
import os
import random
import resource
import signal
import subprocess
import time

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
BUILDS = ('gcc', 'static', 'musl') if not mt.SOAK else ('gcc', 'gcc-O0', 'static', 'static-pie', 'clang', 'musl', 'musl-static', 'jemalloc', 'tcmalloc',
                                                        'mimalloc')


def truth(name, source, build, *args, rc=0, opts=()):
    path = mt.build(source, build)
    if not path:
        mt.skip(name, mt.build_reason(source, build))
        return
    if rc is None:
        rc = mt.plain([path, *args], preexec_fn=no_core).rc
    mt.truth(name, [path, *args], rc=rc, opts=opts, preexec_fn=no_core)


def no_core():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


for build in BUILDS:
    for how in ('kill', 'abort', 'segv', '_exit', 'exit_group', 'thread_kill', 'tgkill', 'last', 'pthread'):
        for _ in range(10 if mt.SOAK else 1):
            truth(f'die {how} {build}', 'die.c', build, how, rc=None)
    for how in ('close', 'range', 'replace', 'exhaust', 'all'):
        truth(f'closer {how} {build}', 'closer.c', build, how)
    for how in () if 'musl' in build else ('strict', 'filter', 'filter2', 'errno', 'thread'):
        for _ in range(5 if mt.SOAK else 1):
            truth(f'jail {how} {build}', 'jail.c', build, how)

# Killed from outside at any instant: what is told adds up, and mtrun ends as its target.
random.seed(seed := int(os.environ.get('MTRUN_SEED') or time.time()))
bad = []
for i in range(200 if mt.SOAK else 6):
    build = ('gcc', 'static', 'jemalloc')[i % 3]
    cmd = [mt.build('threads.c', build), '4', '1000000']
    d = mt.tmp()
    p = mt.popen([mt.MTRUN, '-q', '--messages', f'{d}/m', '-x', f'wait exit; status --json > {d}/s.json; report --all --json > {d}/r.json; blocks --json > '
                  f'{d}/b.json', *cmd], stdout=subprocess.DEVNULL)
    target = mt.until(lambda: [c for c in mt.children_of(p.pid) if os.path.basename(mt.exe(c)) == 'threads'])
    if not target:
        bad.append('did not start')
        mt.end_group(p)
        continue
    time.sleep(random.uniform(0, 0.1))
    mt.kill(target[0], signal.SIGKILL)
    try:
        rc = p.wait(30)
        r = mt.Result()
        r.forked = False
        r.answers = {k: json.load(open(f'{d}/{f}.json')) for k, f in (('status', 's'), ('report', 'r'), ('blocks', 'b'))}
        bad += [f'round {i} {build}: {b}' for b in mt.consistent(r)]
        if rc != -9:
            bad.append(f'round {i}: status {rc}')
    except (subprocess.TimeoutExpired, OSError, ValueError) as e:
        bad.append(f'round {i} {build}: {e} {open(f"{d}/m").read()[-200:]}')
        mt.end_group(p)
mt.check(f'killed from outside (MTRUN_SEED={seed})', bad)

# Asked all the time while threads hand blocks to each other: each answer adds up, and the last one is exact.
for build in ('gcc', 'jemalloc'):
    name, path = f'asked while it runs, {build}', mt.build('threads.c', build)
    if not path:
        mt.skip(name, mt.build_reason('threads.c', build))
        continue
    d = mt.tmp()
    n = 100 if mt.SOAK else 15
    r = mt.run([path, '4', '200000'], before='\n'.join(f'wait 5ms; report --all --json > {d}/live.{i}; blocks --json > {d}/blocks.{i}; bt > /dev/null'
                                                         for i in range(n)))
    bad = mt.compare(r, mt.expectations(r.out))
    for i in range(n):
        try:
            with open(f'{d}/live.{i}') as f:
                rep = json.load(f)
            with open(f'{d}/blocks.{i}') as f:
                json.load(f)
        except (OSError, ValueError) as e:
            bad.append(f'answer {i}: {e}')
            continue
        if sum(x['size'] for x in rep['mem_report']) != rep['total_size'] or any(x['size'] < 0 or x['count'] < 0 for x in rep['mem_report']):
            bad.append(f'answer {i} does not add up')
    mt.check(name, bad)

# Stopped and continued while it allocates: the same books, the same end.
for i in range(20 if mt.SOAK else 3):
    path = mt.build('threads.c', 'gcc')
    d = mt.tmp()
    p = mt.popen([mt.MTRUN, '-q', '--messages', f'{d}/m', '-x', f'wait exit; status --json > {d}/s.json; report --all --json > {d}/r.json', path, '4', '100000'],
                 stdout=subprocess.PIPE)
    target = mt.until(lambda: [c for c in mt.children_of(p.pid) if os.path.basename(mt.exe(c)) == 'threads'] if p.poll() is None else None)
    n = 0
    while target and p.poll() is None and n < 30:
        mt.kill(target[0], signal.SIGSTOP)
        if n % 3 == 0:
            time.sleep(0.02)
        mt.kill(target[0], signal.SIGCONT)
        time.sleep(0.01)
        n += 1
    try:
        out, _ = p.communicate(timeout=mt.TIMEOUT)
    except subprocess.TimeoutExpired:
        mt.end_group(p)
        mt.fail('stop and continue', 'did not end')
        continue
    r = mt.Result()
    try:
        r.answers = {'status': json.load(open(f'{d}/s.json')), 'report': json.load(open(f'{d}/r.json'))}
        r.out, r.rc, r.err = out, p.returncode, b''
        mt.check('stop and continue', mt.compare(r, mt.expectations(out)) + ([f'status {p.returncode}'] if p.returncode else [])
                 + ([] if n else ['it was never stopped']))
    except (OSError, ValueError) as e:
        mt.fail('stop and continue', f'{e}: {open(f"{d}/m").read()[-200:]}')

# What it has sealed of mtrun's cannot be taken away: that is said, and nothing uses it.
SEALS = mt.build('seals.c', 'gcc', f'-I{mt.TOP}')
p = mt.popen([SEALS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
if 'no such call' in p.stdout.readline():
    mt.skip('memory of mtrun\'s is sealed', 'no mseal(2) here')
else:
    m = mt.popen([mt.MTRUN, '-q', '-X', '-', '-p', str(p.pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    sealed = p.stdout.readline()
    said = m.communicate('detach\n', timeout=30 * mt.SLOW)[0]
    p.stdin.close()
    bad = [f'status {m.returncode}: {said[-300:]}'] if m.returncode else []
    bad += [] if said.count('stays in it, unused') == 1 and len(said.splitlines()) == 1 else [f'it says {said[-300:]!r} of {sealed!r}']
    bad += [f'the program ends with {p.returncode}'] if p.wait(20 * mt.SLOW) != 7 else []
    mt.check('memory of mtrun\'s is sealed', bad)

# What it unmaps, protects or replaces of mtrun's, as whatever it does not know, stays: it ends as without mtrun, and is counted.
UNMAPS = mt.build('unmaps.c', 'gcc')
bad = []
for how in ('unmap', 'none', 'read', 'fixed', 'move', 'raw-unmap', 'raw-none', 'inline'):
    status = os.path.join(mt.tmp(), 'status')
    r = mt.plain([mt.MTRUN, '-q', '-c', 'heap', '-x', f'wait exit; status --json > {status}', '--', UNMAPS, how], preexec_fn=no_core)
    if r.rc != 31 or r.out != b'done\n' or json.load(open(status))['allocs'] != 100:
        bad.append(f'{how}: {r.rc} {r.out} {r.err[-200:]}')
    p = mt.popen([UNMAPS, how, 'wait'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=no_core)
    m = mt.popen([mt.MTRUN, '-q', '-X', '-', '-p', str(p.pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    m.stdin.write(b'echo there\n')
    m.stdin.flush()
    there = m.stdout.readline()
    m.stdin.write(b'wait exit\n')
    m.stdin.close()
    out = p.communicate(b'\n', timeout=mt.TIMEOUT)[0]
    m.wait(mt.TIMEOUT)
    if there != b'there\n' or (p.returncode, out) != (31, b'done\n'):
        bad.append(f'{how}, attached: {p.returncode} {out} {there}')
mt.check('it unmaps what it does not know', bad)
mt.finish()
