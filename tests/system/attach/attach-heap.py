#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# serial
# timeout: 200
"""
attach-heap - how much of the heap was in use before the attach, against the victim's own mallinfo2(): in `status` and as a row of the reports, beside
sums that have what came later in them and nothing else.
"""
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
want = re.compile(sys.argv[1] if len(sys.argv) > 1 else '')
ROW = '[before attach]'


def near(bad, what, have, should, share=0.01):
    if have is None or abs(have - should) > should * share:
        bad.append(f'{what} is {have}, should be {should}')


def rows_of(report):
    mine = [r for r in report['mem_report'] if r['function'] == ROW]
    return mine[0] if len(mine) == 1 else {}, [r for r in report['mem_report'] if r['function'] != ROW]


def sums(bad, m, allocated):
    """The row is there once, everywhere, and in no sum."""
    s, report = m.json('status'), m.json('report')
    row, others = rows_of(report)
    if (row.get('size'), row.get('count'), row.get('outside_total')) != (s['before_attach'], s['before_attach_blocks'], True):
        bad.append(f'report has {row}, status {s["before_attach"]}, {s["before_attach_blocks"]}')
    if not report['total_size'] == sum(r['size'] for r in others) == s['heap'] + s['mmap']:
        bad.append(f'total_size {report["total_size"]}, rows {sum(r["size"] for r in others)}, heap + mmap {s["heap"] + s["mmap"]}')
    last = m.json('timeline')['points'][-1][1]
    if last != s['heap'] + s['mmap']:
        bad.append(f'timeline ends with {last}, heap + mmap {s["heap"] + s["mmap"]}')
    if s['heap'] != allocated or s['peak'] < allocated or s['allocated'] != s['heap'] + s['mmap'] + s['image']:
        bad.append(f'heap {s["heap"]}, allocated {s["allocated"]}, peak {s["peak"]}; {allocated} came')
    text = [r for r in m.json('text')['rows'] if r['function'] == ROW]
    tree = [c for c in m.json('tree')['children'] if c['function'] == ROW]
    if [r['flat'] for r in text] != [s['before_attach']] or [c['size'] for c in tree] != [s['before_attach']]:
        bad.append(f'text has {text}, tree {tree}')
    for command in ('report', 'report --stacks', 'report --by size', 'text', 'tree', 'report --at peak'):
        if m.ask(command).count(ROW) != 1:
            bad.append(f'{command}: no row')
    for command in (f'report --since {s["recorded_ms"]}ms', 'report --match main', 'report --min-age 1h'):
        if ROW in m.ask(command):
            bad.append(f'{command}: has the row')
    return s


def case(name, source, how, args, fn):
    if not want.search(name):
        return
    path = mt.build(source, how)
    if not path:
        mt.skip(name, mt.build_reason(source, how))
        return
    bad = []
    v = mt.Heap(path, *args)
    try:
        fn(bad, v)
        if v.end():
            bad.append(f'the victim ends with {v.p.returncode}')
    except Exception as e:
        bad.append(f'{type(e).__name__}: {e}')
    mt.kill(v.pid)
    v.p.wait()
    mt.check(name, bad)


def still(bad, v):
    m = mt.Attached(v.pid)
    s = m.json('status')
    near(bad, 'before_attach', s['before_attach'], v.in_use)
    if not 0 < s['before_attach_blocks'] <= s['before_attach'] / 24 or s['unknown_frees'] or s['heap']:
        bad.append(f'{s["before_attach_blocks"]} blocks, {s["unknown_frees"]} unknown frees, heap {s["heap"]}')
    v.do('new 1000 100')
    sums(bad, m, 100000)
    v.do('old 300')
    after = sums(bad, m, 100000)
    if after['unknown_frees'] != 300 or after['before_attach'] != s['before_attach']:
        bad.append(f'{after["unknown_frees"]} unknown frees of 300; {after["before_attach"]} became of {s["before_attach"]}')
    text = m.ask('status')
    if f'{s["before_attach"]} bytes' not in text or len(re.findall('before the attach', text)) != 1:
        bad.append(f'status: {text}')
    bad += m.leave()
    # What came since the first attach was there before the second.
    m = mt.Attached(v.pid)
    near(bad, 'before the second attach', m.json('status')['before_attach'], v.do('new 0 0'))
    bad += m.leave()


for how in ('gcc', 'static', 'static-pie', 'no-pie', 'clang', 'debuglink'):
    case(f'{how}: one thread', 'heap.c', how, (1, 30000, 900, 3), still)
    case(f'{how}: eight threads', 'heap.c', how, (8, 40000, 600, 2), still)
case('small blocks, mostly free', 'heap.c', 'gcc', (2, 100000, 100, 2), still)
case('blocks that are mappings', 'heap.c', 'gcc', (3, 600, 900000, 3), still)
case('a small heap', 'heap.c', 'gcc', (1, 1000, 100, 2), still)


def running(bad, v):
    """Eight threads free and allocate: as much as before, whenever one looks."""
    v.do('run')
    for _ in range(30 if mt.SOAK else 2):
        m = mt.Attached(v.pid)
        s = m.json('status')
        near(bad, 'before_attach', s['before_attach'], v.in_use, 0.03)
        bad += m.leave()
    near(bad, 'at the end', s['before_attach'], v.do('rest'), 0.03)


case('while eight threads allocate', 'heap.c', 'gcc', (8, 20000, 900, 3), running)


def forked(bad, v):
    """A child has the heap of its parent."""
    m = mt.Attached(v.pid)
    s = m.json('status')
    v.do('fork')
    child = mt.children_of(v.pid)[0]
    mt.until(lambda: len(m.json('status')['processes']) == 2)
    m.ask(f'process {child}')
    c = m.json('status')
    if c['pid'] != child or not c.get('before_attach') or c['before_attach'] != s['before_attach']:
        bad.append(f'{s["before_attach"]}; its child {child}: {c["pid"]} {c.get("before_attach")}')
    bad += m.leave()


case('a child of it', 'heap.c', 'gcc', (1, 1000, 300, 3), forked)


path = mt.build('heap.c')
if want.search('the first thread has ended'):
    v, bad = mt.Heap(path, 3, 1000, 300, 3), []
    in_use = v.do('alone')
    mt.until(lambda: '\nState:\tZ' in open(f'/proc/{v.pid}/status').read())
    try:
        for _ in range(3):
            m = mt.Attached(v.pid)
            s = m.json('status')
            near(bad, 'before_attach', s['before_attach'], in_use)
            if s['state'] != 'running' or s['threads'] != 3 or not s['image']:
                bad.append(f'{s["state"]}, {s["threads"]} threads, image {s["image"]}')
            bad += m.leave()
    except Exception as e:
        bad.append(f'{type(e).__name__}: {e}')
    if len(os.listdir(f'/proc/{v.pid}/task')) != 4:
        bad.append('the others have ended')
    mt.kill(v.pid)
    v.p.wait()
    mt.check('the first thread has ended', bad)


def huge(bad, v):
    m = mt.Attached(v.pid)
    began = time.monotonic()
    s = m.json('status')
    near(bad, 'before_attach', s['before_attach'], v.in_use)
    if time.monotonic() - began > 10:
        bad.append(f'{time.monotonic() - began:.1f} s')
    bad += m.leave()


with open('/proc/meminfo') as f:
    available = int(re.search(r'MemAvailable:\s+(\d+)', f.read())[1])
if available > 3 << 20:
    case('1 GB', 'heap.c', 'gcc', (2, 1500000, 700, 4), huge)
else:
    mt.skip('1 GB', f'{available} kB of memory are available')


def unknown(bad, v):
    m = mt.Attached(v.pid)
    m.ask('status')
    v.do('new 1000 100')
    s, report = m.json('status'), m.json('report')
    row, others = rows_of(report)
    if s['before_attach'] is not None or s['before_attach_blocks'] is not None or not s['before_attach_unknown'] or row.get('size', 0) is not None:
        bad.append(f'{s["before_attach"]} {row}')
    if report['total_size'] != sum(r['size'] for r in others) or s['heap'] != 100000:
        bad.append(f'total_size {report["total_size"]}, heap {s["heap"]}')
    for command in ('status', 'report', 'tree', 'text'):
        if 'unknown' not in m.ask(command):
            bad.append(f'{command} does not say that it is unknown')
    bad += m.leave()


for how in ('musl', 'musl-static', 'jemalloc', 'tcmalloc'):
    case(f'{how}: unknown', 'heap.c', how, (2, 1000, 900, 3), unknown)

# A program that was started has no such row.
r = mt.run([mt.build('heap.c'), '1', '100', '100', '2'], ask=('status', 'report', 'tree', 'text'))
mt.check('not of a program that was started', [] if 'before_attach' not in r.status and ROW not in str(r.answers) else [str(r.answers)[:300]])

mt.finish()
