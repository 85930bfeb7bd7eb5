#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""
usable.py - what the allocator set aside, in `status` and `report --usable`, against the victim's own malloc_usable_size(): equal to the byte
while nothing runs, sensible while eight threads allocate, and where it cannot be told, said so.
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()


def told(out):
    """line -> (size, blocks, usable, name) of the victim's own books."""
    return {int(a): (int(b), int(c), int(d), e)
            for a, b, c, d, e in re.findall(r'^usable\.(\d+) (\d+),(\d+),(\d+),(\w+)$', out.decode(), re.M)}


def ask(cmd, *commands, opts=()):
    """Each of COMMANDS at the end of CMD; their answers as text."""
    d = mt.tempfile.mkdtemp(dir=mt.tmp())
    script = 'wait exit; ' + '; '.join(f'{c} > {d}/{i}' for i, c in enumerate(commands))
    r = mt.plain([mt.MTRUN, '-q', *opts, '-x', script, '--', *cmd])
    texts = [open(f'{d}/{i}').read() if os.path.exists(f'{d}/{i}') else '' for i in range(len(commands))]
    return r, texts


def problems_exact(aligned_known, *cmd):
    # jemalloc has no pvalloc: libc's stays, and its own blocks beside jemalloc's
    keys = ('site', 'stack', 'size', 'thread', 'function', 'file', 'module')
    r, texts = ask([*cmd, 'all', str(int(aligned_known))], 'status --json', *(f'report --usable --by {k} --json' for k in keys), 'report --usable --all --json -n 3',
                   'report --usable')
    mine, bad = told(r.out), []
    if r.rc or not mine:
        return [f'status {r.rc}: {r.err[-300:]}']
    status, *reports = (mt.json.loads(t) for t in texts[:-1])
    rows = {row['line']: row for row in reports[0]['mem_report'] if row['file'] and row['file'].endswith('usable.c')}
    for line, (size, blocks, usable, name) in mine.items():
        row = rows.pop(line, {'size': 0, 'count': 0, 'usable': 0})
        if (row['size'], row['count']) != (size, blocks):
            bad.append(f'{name}: {row["count"]} blocks of {row["size"]}, should be {blocks} of {size}')
        if row['usable'] != usable if aligned_known or 'aligned' not in name and 'memalign' not in name and 'pages' not in name else \
                not size <= row['usable'] <= usable:
            bad.append(f'{name}: usable {row["usable"]}, should be {usable}')
    others = sum(row['usable'] for row in reports[0]['mem_report'] if row['line'] not in mine or not row['file'].endswith('usable.c'))
    total = sum(m[2] for m in mine.values()) + others
    for report in reports:
        if sum(row['usable'] for row in report['mem_report']) != report['total_usable']:
            bad.append(f'the rows add up to {sum(row["usable"] for row in report["mem_report"])}, total_usable is {report["total_usable"]}')
        if report['total_usable'] != (total if aligned_known else reports[0]['total_usable']):
            bad.append(f'total_usable {report["total_usable"]}, should be {total}')
    if status['usable'] != reports[0]['total_usable']:
        bad.append(f'status says {status["usable"]}, report {reports[0]["total_usable"]}')
    if not all('total_size' in row for row in reports[0]['mem_report']):
        bad.append('total_size is gone')
    head = texts[-1].splitlines()[:3]
    if len(head) < 3 or head[1] != f'total_usable: {status["usable"]}' or not re.search(r' usable:\d+ +count:', head[2]):
        bad.append(f'text: {head}')
    return bad


for how in ('gcc', 'gcc-O0', 'static', 'static-pie', 'jemalloc', 'jemalloc-static'):
    path = mt.build('usable.c', how)
    if not path:
        mt.skip(f'exact {how}', mt.build_reason('usable.c', how))
        continue
    mt.check(f'exact {how}', problems_exact('jemalloc' not in how, path))

# A static program whose names a distribution has taken away is known by its code.
path = mt.build('usable.c', 'static')
if path:
    bare = os.path.join(mt.tmp(), 'bare')
    subprocess.run(['objcopy', '--strip-all', f'--add-gnu-debuglink={path}', path, bare], check=True)
    r, (text,) = ask([bare, 'all'], 'status --json')
    usable, want = mt.json.loads(text)['usable'] if text else None, sum(m[2] for m in told(r.out).values())
    mt.check('exact, no names', [] if want and usable and want <= usable < want + 65536 else [f'usable {usable}, the victim has {want}: {r.err[-300:]}'])

# An allocator that comes first by LD_PRELOAD.
lib = f'{mt.DEBIAN_LIBS}/libjemalloc.so.2'
path = mt.build('usable.c')
if os.path.exists(lib):
    mt.check('exact, preloaded jemalloc', problems_exact(False, 'env', f'LD_PRELOAD={lib}', path))
else:
    mt.skip('exact, preloaded jemalloc', f'no {lib}')

# What cannot be told is null, and the reason is there once.
for how, opts, reason in (('musl', (), 'ld-musl|libc'), ('musl-static', (), 'usable'), ('tcmalloc', (), 'tcmalloc'), ('mimalloc', (), 'mimalloc'),
                          ('gcc', ('--hook', 'own=malloc'), 'of its own'), ('jemalloc', ('tcmalloc',), 'several'), ('gcc', ('jemalloc behind libc',), 'several'),
                          ('static', ('je_malloc',), 'of its own')):
    name = f'unknown {how}{" and" * bool(opts)} {" ".join(opts)}'.strip()
    path = mt.build('usable.c', how)
    if opts == ('tcmalloc',):
        path, opts = mt.build('usable.c', how, '-Wl,--no-as-needed -ltcmalloc_minimal', 'usable-two'), ()
    elif opts == ('jemalloc behind libc',):
        path, opts = mt.build('usable.c', how, '-Wl,--no-as-needed -lc -ljemalloc', 'usable-behind'), ()
    elif opts == ('je_malloc',):
        path, opts = mt.build('usable.c', how, '-Down=je_malloc', 'usable-je'), ()
    if not path:
        mt.skip(name, mt.build_reason('usable.c', how))
        continue
    r, texts = ask([path, 'all'], 'status --json', 'report --usable --json', 'status', 'report --usable', opts=opts)
    s, rep = mt.json.loads(texts[0]), mt.json.loads(texts[1])
    bad = [] if s['usable'] is None and s['heap'] > 0 else [f'status: {s["usable"]}']
    if rep['total_usable'] is not None or any(row['usable'] is not None for row in rep['mem_report']) or not rep['mem_report']:
        bad.append('report has numbers')
    for text in (texts[2], texts[3], rep['usable_unknown']):
        if len(re.findall(reason if text == rep['usable_unknown'] else f'unknown: .*({reason})', text)) != 1:
            bad.append(f'the reason is not told: {text[:300]}')
    mt.check(name, bad)

# What it does not go with.
r, _ = ask([mt.build('usable.c'), 'all'], 'snapshot a', 'report --usable --at 0.01', 'report --usable --at peak', 'report --usable --since a', 'diff a --usable')
errors = [line for line in r.err.decode().splitlines() if line.startswith('mtrun: ') and 'usable' in line]
mt.check('errors', [] if r.rc == 125 and len(errors) == 4 else [f'status {r.rc}: {r.err.decode()}'])

# While eight threads allocate: never less than the heap, never absurd, and at the last instant after SIGKILL all the same.
for how in ('gcc', 'static', 'jemalloc'):
    path = mt.build('usable.c', how)
    if not path:
        mt.skip(f'threads {how}', mt.build_reason('usable.c', how))
        continue
    rounds = 200 if mt.SOAK else 6
    d = mt.tempfile.mkdtemp(dir=mt.tmp())
    script = 'wait allocs > 100000; ' + '; '.join(f'status --json > {d}/s{i}; report --usable --json > {d}/r{i}' for i in range(rounds)) + \
        f'; kill; wait exit; status --json > {d}/s{rounds}; report --usable --json > {d}/r{rounds}'
    r = mt.plain([mt.MTRUN, '-q', '-x', script, '--', path, 'threads', '8'])
    bad = []
    for i in range(rounds + 1):
        s, rep = mt.json.load(open(f'{d}/s{i}')), mt.json.load(open(f'{d}/r{i}'))
        for what, size, usable in [('status', s['heap'], s['usable']), ('report', rep['total_size'], rep['total_usable'])] + \
                [(f'row {row["line"]}', row['size'], row['usable']) for row in rep['mem_report']]:
            if usable is None or not size <= usable <= size * 1.3 + 100000:
                bad.append(f'{what}: heap {size}, usable {usable}')
    if b'mtrun:' in r.err:
        bad.append(r.err[-300:])
    mt.check(f'threads {how}', bad)

mt.finish()
