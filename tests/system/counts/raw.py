#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# waits
"""
raw - system calls by a program's own `syscall` instruction: mappings are counted and limited like libc's, nothing else is changed by the jump in its place.
The books are those of map.c and limit_map.c, whose calls tests/victims/raw.h makes into instructions. MTRUN_SOAK=1: all builds, and each again and again.
"""
import os
import re
import signal

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
RAW = {'known': 1, 'any': 2}
HEADER = os.path.join(mt.VICTIMS, 'raw.h')
ROUNDS = 50 if mt.SOAK else 3


def raw(source, how, kind, more=''):
    return mt.build(source, how, f'-DRAW={RAW[kind]} -include {HEADER} {more}', name=f'{source[:-2]}-{kind}')


BUILDS = ('gcc', 'no-pie', 'static', 'musl-static') if not mt.SOAK else ('gcc', 'gcc-O0', 'gcc-fp', 'no-pie', 'static', 'static-pie', 'clang', 'clang-O0',
                                                                         'clang-static', 'musl', 'musl-O0', 'musl-static')

# the books of map.c; with one function for all calls, the line is that function's
for how in BUILDS:
    for kind in RAW:
        path = raw('map.c', how, kind)
        if not path:
            mt.skip(f'map {how} {kind}', mt.build_reason('map.c', how))
            continue
        bad = []
        for n in range(14) if mt.SOAK or how == 'gcc' else (1, 4, 5, 6, 7, 8):
            r = mt.run([path, str(n)], ask=('status', 'report', 'blocks'))
            e = mt.expectations(r.out)
            if kind == 'any':
                e['site'] = {}
                e['also'] = {(s['file'] and os.path.basename(s['file']), s['line']) for s in r.answers.get('report', {}).get('mem_report', [])}
            bad += [f'{n}: {b}' for b in mt.compare(r, e, 'static' not in how and 'musl' not in how)]
            if r.rc:
                bad.append(f'{n}: status {r.rc}: {r.err[-200:]}')
        mt.check(f'map {how} {kind}', bad)

# a limit refuses them, and only the call that would cross it
for how in ('gcc', 'static') if not mt.SOAK else BUILDS:
    for kind in RAW:
        path = raw('limit_map.c', how, kind)
        if path:
            r = mt.run([path], ['-c', 'mmap', '-l', '4M', '--on-limit', 'fail'], ask=('status',))
            bad = [f'status {r.rc}: {r.out[-300:]} {r.messages[-300:]}'] if r.rc or r.out else []
            mt.check(f'limit {how} {kind}', bad)

# what must not change
for how in BUILDS:
    path = mt.build('rawcalls.c', how)
    if not path:
        mt.skip(f'rawcalls {how}', mt.build_reason('rawcalls.c', how))
        continue
    for what in ('calls', 'threads', 'children', 'pointers'):
        bad = []
        for i in range(ROUNDS):
            r = mt.run([path, what, '100'], ask=('status',), timeout=40)
            if r.rc or b'fine' not in r.out:
                bad.append(f'status {r.rc}, {r.out[-100:]} {r.err[-200:]} {r.messages[-200:]}')
            s = r.answers.get('status', {})
            if s.get('mmap', 1) or s.get('dropped', 1):
                bad.append(f'mmap {s.get("mmap")}, {s.get("dropped")} dropped')
        mt.check(f'{what} {how}', bad)

# what nobody can see is said: in status, once where there is a limit, and at the end
path = mt.build('rawcalls.c')
r = mt.run([path, 'generated', '50000000'], ['-l', '10M'], ask=('status',), when='wait 1.5')
bad = [f'status {r.rc}'] if r.rc else []
if r.answers.get('status', {}).get('unaccounted', 0) < 49000000:
    bad.append(f'unaccounted is {r.answers.get("status", {}).get("unaccounted")}')
if r.messages.count('the limit cannot see') != 1:
    bad.append(f'messages: {r.messages}')
r = mt.plain([mt.MTRUN, '-l', '10M', '--', path, 'generated', '50000000'])
if not re.search(rb'\n  not seen    (49|50)\d{6} bytes', r.err):
    bad.append(f'summary: {r.err}')
mt.check('unaccounted, and the limit says so', bad)

# into a jail by an instruction of its own, with other threads in their hooks
for how in ('gcc', 'static') if not mt.SOAK else [h for h in BUILDS if 'musl' not in h]:
    for kind in RAW:
        path = raw('jail.c', how, kind)
        bad = []
        if not path:
            mt.skip(f'jail {how} {kind}', mt.build_reason('jail.c', how))
            continue
        for what in ('strict', 'filter', 'filter2', 'errno', 'thread'):
            for _ in range(ROUNDS if mt.SOAK else 1):
                r = mt.run([path, what, '200'])
                alone = mt.plain([path, what, '200']).rc
                if r.rc != alone:
                    bad.append(f'{what}: status {r.rc}, alone {alone}')
                bad += [f'{what}: {b}' for b in mt.compare(r, mt.expectations(r.out), 'static' not in how)]
                if r.answers.get('status', {}).get('truncated', 1):
                    bad.append(f'{what}: {r.status.get("truncated")} truncated stacks')
        mt.check(f'jail {how} {kind}', bad)

# filters that a child or another program inherits: root sets them aside for mtrun's calls and no others, which the victim tries; for who is not root they run as without mtrun,
# and a line says that they are not supervised
path = mt.build('rawcalls.c')

if os.getuid():
    mt.skip('inherited filters, root', 'not root')
else:
    for _ in range(ROUNDS):
        r = mt.run([path, 'inherited'], ask=('status',))
        bad = [] if r.rc == 0 and r.out == b'fine\n' else [f'status {r.rc}: {r.out}']
        if 'seccomp' in r.messages:
            bad.append(r.messages)
        have = sorted(p['allocs'] for p in r.answers.get('status', {}).get('processes', []))
        if have != [1, 1, 1, 20000, 20000, 20001]:      # the last image's output buffer
            bad.append(f'allocations {have}')
        if bad:
            break
    mt.check('inherited filters, root', bad)
os.chmod(mt.tmp(), 0o777)
r = mt.plain([mt.MTRUN, '-q', '-x', 'wait exit', path, 'inherited'], preexec_fn=None if os.getuid() else mt.as_nobody)
bad = [] if r.rc == 0 and r.out == b'fine\n' else [f'status {r.rc}: {r.out} {r.err[-300:]}']
if r.err.count(b'it inherits a seccomp filter') != 3:      # nobody looks at the children of those that are not supervised
    bad.append(r.err.decode(errors='replace'))
mt.check('inherited filters, nobody', bad)

# in and out while they are under way, or wait
for what in ('spin', 'block'):
    for how in ('gcc', 'static'):
        path = mt.build('rawcalls.c', how)
        bad = []
        p = mt.popen([path, what], stdin=mt.subprocess.PIPE, stdout=mt.subprocess.PIPE)
        p.stdout.readline()
        before = None
        for i in range(ROUNDS):
            if what == 'block':
                mt.until(lambda: open(f'/proc/{p.pid}/stat').read().split()[2] == 'S')
                before = before or mt.fingerprint(p.pid)
            a = mt.Attached(p.pid)
            try:
                if what == 'spin':
                    if not mt.until(lambda: a.json('status')['maps'] > 100, 20):
                        bad.append('no mapping is counted')
                else:
                    a.json('status')
                    p.send_signal(signal.SIGUSR1)
            except RuntimeError as e:
                bad.append(str(e))
            bad += a.leave()
            if p.poll() is not None:
                bad.append(f'it has ended: {p.returncode} {p.stdout.read()}')
                break
            if what == 'block':
                mt.until(lambda: open(f'/proc/{p.pid}/stat').read().split()[2] == 'S')
                bad += mt.changed(before, mt.fingerprint(p.pid))
        if what == 'block' and p.poll() is None:
            p.stdin.write(b'x')
            p.stdin.close()
            if p.wait(20) or b'fine' not in p.stdout.read():
                bad.append(f'status {p.returncode}')
        else:
            p.kill()
            p.wait()
        mt.check(f'attach while they {what} {how}', bad)

mt.finish()
