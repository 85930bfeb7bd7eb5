#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 300
"""truth - victims print their own arithmetic; the JSON equals it exactly, site and line included. Argument: a pattern of names to run."""
import re
import shutil
import sys

import os
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

ALL = ['gcc', 'gcc-O0', 'gcc-fp', 'gcc-nofp', 'no-pie', 'static', 'static-pie', 'clang', 'musl', 'musl-static', 'jemalloc', 'tcmalloc', 'mimalloc']
MORE = ['gcc-O3', 'gcc-lto', 'static-now', 'clang-O0', 'clang-static', 'musl-O0', 'tcmalloc-full', 'jemalloc-static', 'debuglink',
        'dwarf4', 'gz']
GLIBC = ['gcc', 'gcc-O0', 'static', 'static-pie', 'no-pie', 'clang']
FEW = ['gcc', 'static', 'musl-static']
ALLOCATORS = ['jemalloc', 'tcmalloc', 'mimalloc']

# victim, arguments, builds in check, builds added in soak
CASES = [
    ('sites.c', [], ALL, MORE),
    ('family.c', [], ALL, MORE),
    ('family_cxx.cc', [], ['gcc', 'gcc-O0', 'static', 'static-pie', 'clang'] + ALLOCATORS, MORE),
    ('fourlines.cc', [], ['gcc', 'gcc-O0', 'gcc-fp', 'gcc-nofp', 'static', 'debuglink'], ['clang-O0', 'dwarf4', 'gz'] + ALLOCATORS),
    ('threads.c', [], ['gcc', 'static', 'musl', 'musl-static'] + ALLOCATORS, ALL + MORE),
    ('churn.c', [], ['gcc', 'static', 'musl'] + ALLOCATORS, ALL + MORE),
    ('early.c', [], ['gcc', 'static', 'static-pie', 'musl', 'musl-static', 'no-pie'], ALL + MORE),
    ('signals.c', [], ['gcc', 'gcc-O0', 'static', 'musl', 'clang'], ALL + MORE),
    ('recurse.c', [], ['gcc', 'gcc-O0', 'gcc-fp', 'static', 'musl', 'clang'], ALL + MORE),
    ('jump.c', [], ['gcc', 'gcc-O0', 'static', 'musl', 'clang'], ALL + MORE),
    ('throw.cc', [], ['gcc', 'gcc-O0', 'static', 'clang'] + ALLOCATORS, MORE),
    ('coro.c', [], ['gcc', 'gcc-O0', 'gcc-fp', 'static', 'clang'], [b for b in ALL + MORE if 'musl' not in b]),
]
MAPS = 14

want = re.compile(sys.argv[1] if len(sys.argv) > 1 else '')
mt.need_mtrun()


def victim(source, how, args, name):
    if not want.search(name):
        return
    path = mt.build(source, how)
    if not path:
        mt.skip(name, mt.build_reason(source, how))
        return
    if how == 'mimalloc' and source.endswith('.cc') and stem != 'fourlines':
        args = ['200', 'gentle'] if stem == 'throw' else ['gentle']
    opts = ['--depth', '1024'] if source == 'recurse.c' and how == 'clang' else []
    return mt.truth(name, [path, *args], opts=opts)


for source, args, builds, more in CASES:
    stem = source.split('.')[0]
    for how in dict.fromkeys(builds + (more if mt.SOAK else [])):
        for i in range(10 if mt.SOAK and stem in ('threads', 'churn', 'signals', 'jump') else 1):
            victim(source, how, args, f'{stem} {how}')

for n in range(MAPS):
    for how in GLIBC[:1] + ['static', 'musl'] + (ALL if mt.SOAK else []):
        if n == 6 and 'musl' in how:
            continue        # musl's brk and sbrk always refuse
        victim('map.c', how, [str(n)], f'map {n} {how}')

# A library that comes and goes.
for how in ('gcc', 'gcc-O0', 'clang', 'jemalloc', 'musl'):
    name = f'dl {how}'
    if not want.search(name):
        continue
    path, lib = mt.build('dl.c', how, '-rdynamic'), mt.build('lib/plugin.c', how, '-shared -fPIC', name='plugin.so')
    if not path or not lib:
        mt.skip(name, mt.build_reason('dl.c', how) + ' ' + mt.build_reason('lib/plugin.c', how))
        continue
    second = shutil.copy(lib, lib.replace('plugin.so', 'plugin2.so'))
    mt.truth(name, [path, lib, '2000' if mt.SOAK else '60', second])

# Libraries that come and go in several threads while others allocate and come and go themselves.
for how in ('gcc', 'musl', 'tcmalloc'):
    name = f'dlthreads {how}'
    if not want.search(name):
        continue
    path, lib = mt.build('dlthreads.c', how, '-rdynamic'), mt.build('lib/plugin.c', how, '-shared -fPIC', name='plugin.so')
    if not path or not lib:
        mt.skip(name, mt.build_reason('dlthreads.c', how) + ' ' + mt.build_reason('lib/plugin.c', how))
        continue
    libs = [shutil.copy(lib, f'{mt.tmp()}/{how}.{i}.so') for i in range(3)]
    for _ in range(5 if mt.SOAK else 1):
        mt.truth(name, [path, '300' if mt.SOAK else '40', *libs])

# An allocator of the program's own.
for how in ('gcc', 'static', 'musl-static'):
    if not want.search(f'hook {how}'):
        continue
    path = mt.build('pool.c', how)
    hooks = ['pool_get=malloc@2', 'pool_put=free@2', 'pool_resize=realloc@2', 'pool_zero=calloc', 'pool_aligned=memalign', 'pool_out=posix_memalign']
    mt.truth(f'hook {how}', [path], opts=[x for h in hooks for x in ('--hook', h)])

# Keys that answers have in any case.
if want.search('keys'):
    r = mt.run([mt.build('ends.c'), 'exit', '3'], ask=('status',))
    mt.check('keys of status', mt.status_lacks(r.status))

# What --count names is what is reported.
if want.search('count'):
    path = mt.build('map.c')
    for count, has in (('heap', 'heap'), ('mmap', 'mmap'), ('heap,mmap', 'both'), ('image', 'none')):
        r = mt.run([path, '13'], ['-c', count], ask=('status', 'report'))
        e = mt.expectations(r.out)
        total = {'heap': 1 << 20, 'mmap': 4096, 'both': (1 << 20) + 4096, 'none': 0}[has]
        s, rep = r.answers.get('status', {}), r.answers.get('report', {})
        bad = [] if rep.get('total_size') == total == sum(x['size'] for x in rep['mem_report']) else [f'total_size {rep.get("total_size")}, should be {total}']
        image = s.get('image', 0)
        if s.get('allocated') != total + (image if count == 'image' else 0):
            bad.append(f'allocated {s.get("allocated")}, should be {total}')
        if (s.get('heap'), s.get('mmap')) != (1 << 20, 4096):
            bad.append(f'heap {s.get("heap")}, mmap {s.get("mmap")}: what is counted should not change them')
        mt.check(f'count {count}', bad)

# The totals of a row are those of all its stacks, also of those that hold nothing any more; rows that hold nothing are left out without --all.
if want.search('totals'):
    path = mt.build('sites.c')
    mt.ASK.update({'live': 'report --json', 'peak': 'report --at peak --json', 'change': 'diff start --json'})
    r = mt.run([path, '50'], ['-S'], ask=('status', 'live', 'peak', 'change'), before='snapshot start; cont')
    e = mt.expectations(r.out)
    bad = [f'{e["site"]}: not the kinds that are needed'] if not any(v[0] and v[2] > v[0] for v in e['site'].values()) else []
    for name in ('live', 'peak', 'change'):
        rows = {(os.path.basename(x['file'] or ''), x['line']): x for x in r.answers[name]['mem_report']}
        bad += [f'{name}: {site} is {rows.get(site)}, should be {v}' for site, v in e['site'].items()
                if (v[0] or site in rows) and [rows.get(site, {}).get(k) for k in ('total_size', 'total_count')] != v[2:]]
        if name != 'peak':
            bad += [f'{name}: {site} is there, and holds nothing' for site, v in e['site'].items() if not v[0] and site in rows]
    mt.check('totals of rows', bad)

# A stack deeper than --depth keeps its innermost frames and ends in [truncated]; one below it is whole and ends where the program begins.
if want.search('depth'):
    path = mt.build('recurse.c')
    for depth, levels in ((128, 10000), (20, 100), (1024, 3000), (128, 100)):
        r = mt.run([path, str(levels)], ['--depth', str(depth)], ask=('status', 'report', 'stacks'))
        bad = mt.compare(r, mt.expectations(r.out))
        longest = 0
        for row in r.answers.get('stacks', {}).get('mem_report', []):
            st = row['stack']
            frames = [f for f in st if not f.get('inlined')]
            cut = [i for i, f in enumerate(st) if f['function'] == '[truncated]']
            longest = max(longest, len(frames) - len(cut))
            if cut and cut != [len(st) - 1]:
                bad.append(f'[truncated] is not the root: {cut} of {len(st)}')
            if cut and len(frames) - 1 != depth:
                bad.append(f'a truncated stack of {len(frames) - 1} frames')
            if not cut and st and st[-1]['function'] not in ('_start', '_dl_start_user', '_dl_relocate_static_pie', '__libc_start_main'):
                bad.append(f'outermost frame is {st[-1]["function"]}')
        if levels > depth and longest != depth:
            bad.append(f'longest stack {longest}, depth {depth}')
        status = r.answers.get('status', {})
        cut = sum(row['total_count'] for row in r.answers.get('stacks', {}).get('mem_report', []) if row['stack'] and row['stack'][-1]['function'] == '[truncated]')
        if not (levels > depth) == (cut > 0) or not cut == status.get('truncated') == status.get('deep'):
            bad.append(f'{cut} truncated, status {status.get("truncated")}, of them deep {status.get("deep")}')
        mt.check(f'depth {depth} of {levels}', bad)

# The four lines by name, in text too.
if want.search('text'):
    path = mt.build('fourlines.cc', 'gcc-O0')
    r = mt.run([path], ask=('status', 'report', 'text', 'tree'))
    e = mt.expectations(r.out)
    p = mt.plain([mt.MTRUN, '-q', '--messages', f'{mt.tmp()}/m', '-x', 'wait exit; report', path])
    with open(f'{mt.tmp()}/m') as f:
        text = f.read()
    bad = []
    m = re.match(r'total_size: (\d+)$', text, re.M)
    if not m or int(m[1]) != r.report['total_size']:
        bad.append(f'total_size line: {text[:80]!r}')
    for (name, line), v in e['site'].items():
        if not re.search(rf'{re.escape(name)}\s+line:{line}\s+size:{v[0]}\s+count:{v[1]}\s+main\b', text):
            bad.append(f'no row for {name}:{line}')
    if sum(int(x) for x in re.findall(r'\bsize:(\d+)', text)) != r.report['total_size']:
        bad.append('rows do not add up')
    if r.answers.get('tree', {}).get('size') != r.report['total_size']:
        bad.append(f'tree: {str(r.answers.get("tree"))[:100]}')
    if r.answers.get('text', {}).get('total') != r.report['total_size']:
        bad.append(f'text: {str(r.answers.get("text"))[:100]}')
    mt.check('text: rows of report, tree and text', bad)

mt.finish()
