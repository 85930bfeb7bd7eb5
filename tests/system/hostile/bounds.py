#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""bounds - what a program maps, or says that it has, costs mtrun no more than a bounded time and a bounded memory."""
import json
import os
import re
import subprocess
import time

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
d = mt.tmp()

# ---- status, whatever is mapped: its cost is mtrun's own CPU time, which a busy machine does not change
MAPPED = mt.build('mapped.c', 'gcc', '-pthread')
MOST_MS = 150 * mt.SLOW


def ask_mapped(what):
    p = mt.popen([MAPPED, what], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    m = re.match(rb'ready mapped=(\d+) resident=(\d+)\n', p.stdout.readline())
    if not m:
        return ['the victim has not said what it has mapped']
    a = mt.Attached(p.pid)
    began = time.monotonic()
    answers = [a.json('status') for _ in range(4)]
    took = time.monotonic() - began
    bad = a.leave()
    p.stdin.close()
    if p.wait(20):
        bad.append(f'status {p.returncode}')
    cost = min(y['mtrun']['cpu_ms'] - x['mtrun']['cpu_ms'] for x, y in zip(answers, answers[1:]))
    bad += [f'{cost} ms of CPU for one status'] if cost > MOST_MS else []
    bad += [f'{took:.1f} s for four'] if took > 10 * mt.SLOW else []
    s = answers[-1]
    if s['unaccounted'] is None or s['heap'] + s['mmap'] + s['image'] + s['other'] + s['unaccounted'] < int(m[1]):
        bad.append(f'{s} says less than the {int(m[1])} bytes mapped')
    return bad


for what in ('huge', 'many', 'moving', 'all'):
    mt.check(f'status: {what}', ask_mapped(what))



# Launched, its mappings are known; at its end they are still there.
for what in ('huge', 'many'):
    r = mt.plain([mt.MTRUN, '-q', '-x', 'wait exit; status --json > status', MAPPED, what], cwd=d, timeout=60)
    m = re.match(rb'ready mapped=(\d+) resident=(\d+)\n', r.out)
    with open(os.path.join(d, 'status')) as f:
        s = json.load(f)
    mt.check(f'status: {what}: its own mappings', [] if (s['mmap'], s['mmap_resident']) == (int(m[1]), int(m[2])) else [s, m[0]])


# ---- very many files mapped as code: the program waits for mtrun at each dlopen
def modules(n, most_ms):
    exe = mt.build('modules.c', 'gcc', '-ldl')
    r = mt.plain([mt.MTRUN, '-q', '-x', 'wait exit', exe, str(n)], timeout=100)
    m = re.match(rb'mapped (\d+) fastest (\d+)\n', r.out)
    if r.rc or not m:
        return [f'status {r.rc}: {r.out + r.err}']
    bad = [f'only {int(m[1])} are mapped'] if int(m[1]) != n else []
    bad += [f'{int(m[2])} ms for a dlopen and its dlclose'] if int(m[2]) > most_ms else []
    said = r.err.count(b' has more than 2048 files mapped as code')
    return bad + ([f'{r.err}'] if said != (n > 2048) or len(r.err.splitlines()) != said else [])


mt.check('a dlopen with few modules', modules(10, 2000 * mt.SLOW))
mt.check('a dlopen with 25 000 modules', modules(25000, 2000 * mt.SLOW))


# ---- many processes with very many stacks: what mtrun keeps beside their blocks is bounded for all together
WOOD = mt.build('wood.c')
MEMORY = (450 << 20) * (3 if mt.SLOW > 1 else 1)     # 300 MB, and 64 bytes for each block that could be in their 2 MB each


def woods(n, seconds):
    """Each makes some of a million stacks, with 2000 blocks; together they made mtrun take 529 MB, and there was no end to it."""
    p = mt.popen([mt.MTRUN, '-q', '-x', 'wait exit', '--', 'sh', '-c',
                  f'for i in $(seq {n}); do timeout {seconds} {WOOD} 20 2000 >/dev/null & done; wait'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    most = 0
    while p.poll() is None:
        try:
            with open(f'/proc/{p.pid}/status') as f:
                m = re.search(r'RssAnon:\s*(\d+) kB', f.read())
            most = max(most, int(m[1]) << 10 if m else 0)
        except OSError:
            pass
        time.sleep(0.05)
    out = p.stdout.read().decode()
    lines = [x for x in out.splitlines() if 'is given up and runs on unsupervised: it tells of more blocks and stacks than fit into its memory' not in x]
    return ([f'{most >> 20} MB of memory'] if most > MEMORY else []) + ([f'status {p.returncode}: {lines[:3]}'] if p.returncode or lines else [])


if WOOD:
    mt.check('the stacks of many processes', woods(14, 6))


# ---- many processes whose leaks are told, each with frames of libc: they share what its debug file
# (libc6-dbg) says, which is 15 MB unpacked
SHARED = (150 << 20) * (3 if mt.SLOW > 1 else 1)


def leaks_of_many():
    p = subprocess.Popen([mt.MTRUN, '--leak-check', mt.build('lost.c'), 'all'], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT)
    told = len(re.findall(rb'^mtrun: leaks of lost \(\d+\) at its end:$', p.stdout.read(), re.M))
    _, status, used = os.wait4(p.pid, 0)
    p.returncode = status       # it is waited for
    bad = [f'status {status}, {told} have leaks'] if status or told < 30 else []
    return bad + ([f'{used.ru_maxrss >> 10} MB of memory'] if used.ru_maxrss << 10 > SHARED else [])


mt.check('the symbols of many processes', leaks_of_many())


# ---- names that refer back to their own parts: they are shown as they are
UNFOLDS = mt.build('unfolds.c')
if UNFOLDS:
    r = mt.plain([mt.MTRUN, '-q', '-x', 'wait exit; report --json > names; tree --json > tree; status --json > cost', UNFOLDS], cwd=d, timeout=30 * mt.SLOW)
    bad = [f'status {r.rc}'] if r.rc != 7 else []
    if not bad:
        with open(f'{d}/names') as f, open(f'{d}/cost') as g:
            rows, cost = json.load(f)['mem_report'], json.load(g)['mtrun']['cpu_ms']
        bad += [] if sorted(row['size'] for row in rows) == [1000, 1001, 1002, 1003] else [rows]
        bad += [f'{row["function"][:100]} is no name of the file' for row in rows if row['function'][:2] not in ('_Z', '_R', '_D')]
        bad += [f'{cost} ms of CPU'] if cost > 1000 * mt.SLOW else []
    mt.check('names that unfold', bad)

# ---- tables that have nothing to do with the code that there is: plain, and packed a thousand times
for name, opts in (('plain', ''), ('packed', '-Wl,--compress-debug-sections=zlib')):
    lines = mt.build('lines.S', 'gcc', opts, name=f'lines-{name}')
    if not lines:
        mt.skip(f'a line table: {name}', mt.build_reason('lines.S', 'gcc'))
        continue
    r = mt.plain([mt.MTRUN, '-q', '-x', 'wait exit; report --json > names; status --json > cost', lines], cwd=d, timeout=60 * mt.SLOW)
    bad = [f'status {r.rc}'] if r.rc != 7 else []
    if not bad:
        with open(f'{d}/names') as f, open(f'{d}/cost') as g:
            rows, own = json.load(f)['mem_report'], json.load(g)['mtrun']
        bad += [] if [(row['size'], row['function']) for row in rows] == [(1000, 'main')] else [rows]
        bad += [f'{own["rss"] >> 20} MB of memory'] if own['rss'] > (300 << 20) * (3 if mt.SLOW > 1 else 1) else []
        bad += [f'{own["cpu_ms"]} ms of CPU'] if own['cpu_ms'] > 1000 * mt.SLOW else []
    mt.check(f'a line table: {name}', bad)
mt.finish()
