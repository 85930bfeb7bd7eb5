#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 200
# serial
"""loaded - questions about a program that allocates at full speed: they add up, and it goes on. MTRUN_SOAK=1: 10^6 blocks from 10^5 stacks."""
import json
import os
import time

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import load
import mt

mt.need_mtrun()
BLOCKS, STACKS = (1000000, 100000) if mt.SOAK else (20000, 2000)
SIZE = 32
ROUNDS = 20 if mt.SOAK else 2

QUESTIONS = ['report', 'report --by site', 'report --by stack', 'report --by function', 'report --by file', 'report --by module', 'report --by thread', 'report --by size',
             'report -n 100', 'report --min-age 0', 'report --sort count', 'report --reverse', 'report --match main', 'report --all', 'report --by thread --min-age 0']


def sums(answer):
    rows = answer['mem_report']
    return [sum(r['size'] for r in rows), sum(r['count'] for r in rows)]


def adds_up(l):
    """Each answer is of one moment, though it is made while the program goes on: its rows are its total."""
    bad = []
    for q in QUESTIONS:
        before = l.gauge.replaced
        a = l.json(q)
        if sums(a) != [a['total_size'], a['total_count']]:
            bad.append(f'{q}: the rows are {sums(a)}, the total {a["total_size"]} {a["total_count"]}')
        # one block is in the making at any time
        if not 0 <= l.gauge.blocks - a['total_count'] <= 1:
            bad.append(f'{q}: {a["total_count"]} blocks, not {l.gauge.blocks}')
        if not l.gauge.blocks * SIZE <= a['total_size'] <= (l.gauge.blocks + 8) * 2 * SIZE + 16 * BLOCKS:
            bad.append(f'{q}: {a["total_size"]} bytes in blocks of {SIZE}..{2 * SIZE - 1}')
        if not mt.until(lambda: l.gauge.replaced > before, 10):
            bad.append(f'{q}: the program stands still')
    return bad


def stands(l):
    """While it is stopped all say the same, and what the program knows."""
    l.ask('stop')
    mine = l.gauge.bytes
    status = l.json('status')
    live = status['heap'] + status['mmap']
    bad = [] if abs(live - mine) < 4 * SIZE else [f'status: {live} bytes, the program has {mine}']
    for q in QUESTIONS:
        a = l.json(q)
        if a['total_size'] != live:
            bad.append(f'{q}: {a["total_size"]}, status {live}')
    point = l.json('timeline')['points'][-1][1]
    if point != live:
        bad.append(f'timeline: its last point is {point}, status {live}')
    blocks = l.json('blocks')['blocks']
    if sum(b['size'] for b in blocks) != live or len(blocks) != status['live_blocks']:
        bad.append(f'blocks: {len(blocks)} of {sum(b["size"] for b in blocks)} bytes; status {status["live_blocks"]} of {live}')
    if [b['address'] for b in blocks] != [b['address'] for b in sorted(blocks, key=lambda b: (-b['size'], int(b['address'], 16)))]:
        bad.append('blocks: not the biggest first')
    l.ask('cont')
    return bad


l = load.Load(BLOCKS, STACKS, SIZE)
for i in range(ROUNDS):
    if not mt.check(f'all answers add up while it runs, {i + 1}', adds_up(l)):
        break
mt.check('all answers agree while it is stopped', stands(l))
l.end()


# An answer that is long, with a reader that takes its time: the program is served all the while, what it does between allocations too.
def goes_on(name, redirect):
    l = load.Load(20000, 2000, SIZE, threads=True)
    l.ask('report --by stack -n 1')
    threads, replaced = l.gauge.threads, l.gauge.replaced
    l.begin('report --stacks --json -n all ' + redirect)
    steps = []
    for _ in range(5):      # while nobody reads
        steps.append(bool(mt.until(lambda: l.gauge.threads > threads + 10 and l.gauge.replaced > replaced + 10000, 10)))
        threads, replaced = l.gauge.threads, l.gauge.replaced
    if redirect:
        open(os.path.join(l.dir, 'read'), 'w').close()
    text = l.answer()
    if redirect:
        with open(os.path.join(l.dir, 'out'), 'rb') as f:
            text = f.read()
    bad = [] if all(steps) else [f'it stood still: {steps}']
    try:
        a = json.loads(text)
        if sums(a) != [a['total_size'], a['total_count']] or len(a['mem_report']) < 2000:
            bad.append(f'{len(a["mem_report"])} rows of {sums(a)}, the total is {a["total_size"]} {a["total_count"]}')
    except ValueError as e:
        bad.append(f'{len(text)} bytes, no JSON: {e}')
    l.end()
    mt.check(name, bad)


goes_on('a long answer into a pipe', '| sh -c "until test -f read; do sleep 0.05; done; cat > out"')
goes_on('a long answer to the reader of messages', '')

# The user of a shell command goes first, too: while it runs, and nothing is printed.
l = load.Load(20000, 2000, SIZE, threads=True)
l.ask('status')
for _ in range(3):          # others may have come to the processors in between
    took, alone, _ = l.during(lambda: time.sleep(1))
    took, rate, _ = l.during(lambda: l.ask('! sleep 1'))
    if rate > 0.5 * alone:
        break
mt.check('a shell command does not slow the program', [] if rate > 0.5 * alone else [f'{rate:.0f} replacements a second, {alone:.0f} without'])
l.end()
mt.finish()
