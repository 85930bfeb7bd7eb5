#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""
The limit, to the byte. What was held and what was asked for is the victim's own arithmetic, in a file that outlives it (tests/victims/limit.c). MTRUN_SOAK=1: a thousand runs.
"""
import os
import re
import signal
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
want = re.compile(sys.argv[1] if len(sys.argv) > 1 else '.')
RUNS = 1000 if mt.SOAK else 21
FILE = os.path.join(mt.tmp(), 'books')
HIT = re.compile(r'^\[MEMTRACER\] alloc memory:(\d+), allocated_memory: (\d+), memory_limit: (\d+), Memory limit exceeded!$', re.M)
BOOKS = ('before', 'held', 'most', 'asked', 'refused', 'base', 'calls', 'faults')


def books(n=8):
    with open(FILE, 'rb') as f:
        return struct.unpack(f'{n}Q', f.read(8 * n))


def victim(path, threads, size, limit, *more, opts=(), **kw):
    """A run of limit.c; its books by name, the hits that were told."""
    r = mt.run([path, FILE, str(threads), str(size), *map(str, more)], ['-c', 'heap', '-l', str(limit), *opts], **kw)
    r.books = dict(zip(BOOKS, books()))
    r.hits = [tuple(map(int, m)) for m in HIT.findall(r.messages)]
    return r


def exact(r, threads, limit):
    """Problems of a run that ended at its limit."""
    b = r.books
    bad = [] if r.rc == -signal.SIGKILL else [f'status {r.rc}']
    if len(r.hits) != 1:
        return bad + [f'{len(r.hits)} hits told: {r.messages[-300:]}']
    request, allocated, told = r.hits[0]
    if told != limit or allocated > limit or allocated + request <= limit:
        bad.append(f'told: {r.hits[0]}')
    if b['most'] + b['base'] > limit:
        bad.append(f'{b["most"]} + {b["base"]} were held at once')
    if b['before'] + b['base'] <= limit:
        bad.append(f'refused, and it would have fitted: {b}')
    if threads == 1 and (allocated != b['held'] + b['base'] or (b['base'] == 0 and request > b['asked'])):
        bad.append(f'told: {r.hits[0]}, and it is {b}')
    if b['faults'] or b['refused']:
        bad.append(f'{b}; {r.err[-200:]}')
    return bad


if want.search('exact'):
    path = mt.build('limit.c')
    for threads, size in ((1, 1), (1, 0), (2, 1), (2, 0), (8, 1), (8, 0), (8, 5000)):
        bad, n = [], max(RUNS // 7, 1)
        for i in range(n):
            limit = 400000 + 7919 * i % 100000
            bad += [f'run {i}: {x}' for x in exact(victim(path, threads, size, limit, ask=(), when=''), threads, limit)]
        mt.check(f'exact: {threads} threads, {"random sizes" if not size else f"blocks of {size}"}, {n} runs', bad)

# The program goes on, and its own sum is what is counted, whatever was refused.
if want.search('fail'):
    for how in ('gcc', 'static', 'clang-O0', 'musl', 'musl-static', 'jemalloc', 'jemalloc-static', 'tcmalloc', 'mimalloc'):
        path = mt.build('limit.c', how)
        for threads in (1, 8) if mt.SOAK or how == 'gcc' else (8,):
            name = f'fail: {threads} threads, {how}'
            if not path:
                mt.skip(name, mt.build_reason('limit.c', how))
                continue
            ops = (10000000 if mt.SOAK else 50000) // threads if how == 'gcc' else 40000 if mt.SOAK else 3000
            r = victim(path, threads, 0, 1000000, ops, opts=['--on-limit', 'fail'], ask=('status',), timeout=4 * mt.TIMEOUT)
            b, s = r.books, r.answers.get('status', {})
            bad = [] if r.rc == 0 else [f'status {r.rc}: {r.err[-200:]}']
            if b['most'] + b['base'] > 1000000:
                bad.append(f'{b["most"]} + {b["base"]} were held at once')
            if not b['refused'] or s.get('limit_hits') != b['refused']:
                bad.append(f'{b["refused"]} refused, {s.get("limit_hits")} hits')
            if s.get('allocated') != b['held'] + b['base']:
                bad.append(f'allocated {s.get("allocated")}, held {b["held"]} + {b["base"]}')
            if s.get('dropped') or s.get('unknown_frees'):
                bad.append(f'status {s}')
            mt.check(name, bad)

if want.search('allocators'):
    for how in ('static', 'static-pie', 'clang', 'musl', 'musl-static', 'jemalloc', 'jemalloc-static', 'tcmalloc', 'mimalloc'):
        path = mt.build('limit.c', how)
        for threads in (1, 8) if mt.SOAK else (1,):         # eight: as `fail`
            name = f'allocators: {threads} threads, {how}'
            if path:
                mt.check(name, exact(victim(path, threads, 0, 700000, ask=(), when=''), threads, 700000))
            else:
                mt.skip(name, mt.build_reason('limit.c', how))

if want.search('new'):
    # (clang leaves out what is deleted at once, unless told not to optimize; mimalloc's operator new aborts by itself.)
    for how in ('gcc', 'static', 'clang-O0', 'jemalloc', 'tcmalloc', 'jemalloc-static'):
        path = mt.build('limit_new.cc', how)
        if not path:
            mt.skip(f'new {how}', mt.build_reason('limit_new.cc', how))
            continue
        base = mt.run([mt.build('limit_new.cc', how)], ['-c', 'heap'], ask=('status',), when='')   # without a limit it only finds fault
        r = mt.run([path], ['-c', 'heap', '-l', '1100000', '--on-limit', 'fail'], ask=())
        mt.check(f'new {how}', [] if r.rc == 0 and base.rc == 1 else [f'status {r.rc}, without a limit {base.rc}: {r.err[-300:]}'])

if want.search('mappings'):
    for how in ('gcc', 'static', 'musl', 'musl-static', 'clang-O0'):
        path = mt.build('limit_map.c', how)
        if not path:
            mt.skip(f'mappings {how}', mt.build_reason('limit_map.c', how))
            continue
        r = mt.run([path], ['-c', 'mmap', '-l', '4M', '--on-limit', 'fail'], ask=('status',))
        bad = [] if r.rc == 0 else [f'status {r.rc}: {r.out.decode()[-600:]}']
        if r.answers.get('status', {}).get('mmap') != 4 << 20:
            bad.append(f'mmap {r.answers.get("status", {}).get("mmap")}')
        mt.check(f'mappings {how}', bad)

# Threads' stacks are not the program's own mappings.
if want.search('stacks'):
    path = mt.build('limit.c')
    r = mt.run([path, FILE, '8', '100', '1000'], ['-l', '30M'], ask=('status',))
    mt.check('stacks: eight threads under 30M', [] if r.rc == 0 and not r.answers.get('status', {}).get('limit_hits', 1) else [f'status {r.rc}: {r.messages[-300:]}'])

if want.search('image'):
    path = mt.build('limit.c')
    os.path.exists(FILE) and os.unlink(FILE)
    r = mt.run([path, FILE, '1', '1'], ['-l', '100'], ask=(), when='')
    m = HIT.findall(r.messages)
    bad = [] if r.rc == -signal.SIGKILL else [f'status {r.rc}']
    bad += [] if len(m) == 1 and int(m[0][0]) > 100 and m[0][1:] == ('0', '100') else [f'told: {r.messages[:300]}']
    bad += ['main was reached'] if os.path.exists(FILE) else []
    mt.check('image: above the limit before main', bad)


# Said once per crossing, and granted.
if want.search('report'):
    r = victim(mt.build('limit.c'), 1, 100, 1000000, 20000, opts=['--on-limit', 'report'], ask=('status',))
    bad = [] if r.rc == 0 and r.books['held'] == 2000000 and not r.books['refused'] else [f'status {r.rc}: {r.books}']
    mt.check('report: once, and granted', bad + ([] if r.hits == [(100, 1000000, 1000000)] else [f'told: {r.hits}']))

# Switched on, lowered and removed while eight threads allocate.
if want.search('running'):
    path = mt.build('limit.c')
    for what, script in (('on', 'wait heap > 1M; limit 500000'), ('lowered', 'limit 64M; wait heap > 1M; limit 500000'),
                         ('off and on', 'limit 64M; wait heap > 1M; limit off; wait heap > 2M; limit 500000')):
        r = mt.run([path, FILE, '8', '16'], ['-c', 'heap'], ask=(), when=script)
        hits = [tuple(map(int, m)) for m in HIT.findall(r.messages)]
        mt.check(f'running: {what}', [] if r.rc == -signal.SIGKILL and len(hits) == 1 and hits[0][0] == 16 and hits[0][1] > 1 << 20 and hits[0][2] == 500000
                 else [f'status {r.rc}, told {hits}: {r.messages[-300:]}'])

# Each process has the limit to itself, and begins with what its parent held.
if want.search('fork'):
    r = mt.run([mt.build('limit_fork.c')], ['-c', 'heap', '-l', '1000000', '--on-limit', 'fail'], ask=())
    mt.check('fork: each for itself', [] if r.rc == 0 else [f'status {r.rc}: {r.out}'])


def waiting():
    try:
        return books(6)
    except (OSError, struct.error):
        return (0,) * 6


def stands_still():
    """The counting thread does not count."""
    before = waiting()[0]
    time.sleep(0.2)
    return before and before == waiting()[0]


# Nobody runs on at a stop; the request waits, and is decided again.
if want.search('stop'):
    path = mt.build('limit_wait.c')
    for more, answer, rc in (('limit 2M', 1, 0), ('limit off', 1, 0), ('limit 1M --on fail', 2, 1)):
        os.path.exists(FILE) and os.unlink(FILE)
        p = mt.Prompt('-c', 'heap', '-l', '1000000', '--on-limit', 'stop', path, FILE)
        bad = [] if p.wait('Memory limit exceeded') else [f'no hit: {p.text[-300:]}']
        if not bad and not stands_still():
            bad.append('another thread runs on')
        p.send('bt all\n')
        if not p.wait('limit_wait.c:.*limit_wait.c:'):
            bad.append(f'bt: {p.text[-500:]}')
        p.send(f'{more}; cont\n')
        if not mt.until(lambda: waiting()[1] == answer, 10):
            bad.append(f'after `{more}`: answer {waiting()[1]}: {p.text[-300:]}')
        if not p.wait(f'exited with status {rc}'):
            bad.append(f'its end: {p.text[-300:]}')
        p.send('quit\n')
        mt.until(lambda: os.waitpid(p.pid, os.WNOHANG)[0], 10) or (bad.append('quit does not end it'), mt.kill(p.pid))
        mt.check(f'stop: then {more}', bad)

# Handlers that interrupt their thread's books are not refused what fits.
if want.search('handler'):
    path = mt.build('limit_handler.c', extra='-lpthread')
    for threads in (1, 3):
        bad = []
        for i in range(100 if mt.SOAK else 3):
            r = mt.plain([mt.MTRUN, '-q', '-c', 'heap,mmap', '-l', '4M', '--on-limit', 'fail', path, str(threads), '600'])
            handled, refused = map(int, r.out.split()) if r.rc == 0 and re.fullmatch(rb'\d+ \d+\n', r.out) else (0, 0)
            if not handled or refused or r.err:
                bad.append(f'status {r.rc}, {handled} handled, {refused} refused: {r.out} {r.err[-999:]}')
        mt.check(f'handler: maps while its thread allocates, {threads} threads', bad)

# What is freed and allocated again at once while mtrun makes its sums is not counted twice. (Likeliest at the
# start, when the first thread has all room in advance.)
if want.search('again'):
    path = mt.build('limit_again.c', extra='-lpthread')
    bad = []
    for i in range(3000 if mt.SOAK else 100):
        opts = ['-q', '-c', 'heap', '-l', '4M', '--on-limit', 'fail']
        r = mt.plain([mt.MTRUN, *opts, path, str(i % 2 + 1), '8'])
        if r.rc or r.out != b'0\n' or r.err:
            bad.append(f'status {r.rc}: {r.out} {r.err[-999:]}')
    mt.check('again: a large block that is freed and allocated all the time', bad)

# mtrun's death grants.
if want.search('killed'):
    path = mt.build('limit_wait.c')
    for i in range(20 if mt.SOAK else 2):
        os.path.exists(FILE) and os.unlink(FILE)
        p = mt.Prompt('-c', 'heap', '-l', '1000000', '--on-limit', 'stop', path, FILE)
        bad = [] if p.wait('Memory limit exceeded') and stands_still() else [f'no stop: {p.text[-300:]}']
        mt.kill(p.pid)
        os.waitpid(p.pid, 0)
        os.close(p.fd)
        if not mt.until(lambda: waiting()[1] == 1, 10):
            bad.append(f'the answer is {waiting()[1]}')
        if not mt.until(lambda: not mt.children(), 10):
            bad.append('it did not end')
        if bad or i == (19 if mt.SOAK else 1):
            mt.check('killed: mtrun, with a request waiting', bad)
        if bad:
            break

# The whole tree goes.
if want.search('tree'):
    path = mt.build('limit_wait.c')
    bad = []
    for i in range(100 if mt.SOAK else 3):
        r = mt.run([path, FILE, 'children'], ['-c', 'heap', '-l', '1000000'], ask=(), when='')
        pids = books(6)[2:]
        if r.rc != -signal.SIGKILL or not all(pids):
            bad.append(f'status {r.rc}, children {pids}: {r.messages[-200:]}')
        left = [pid for pid in pids if mt.until(lambda: not os.path.exists(f'/proc/{pid}') or pid not in mt.children() and mt.exe(pid) != path, 5) is None]
        if left:
            bad.append(f'alive: {left}')
    mt.check('tree: nobody is left', bad)

mt.finish()
