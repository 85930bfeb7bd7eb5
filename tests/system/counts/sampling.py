#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 300
"""
Sampling: what is estimated is right on average and spreads as samples do. What there was is the victim's own arithmetic (tests/victims/sample.c), how much estimates
may differ from it follows from the sizes of its blocks. MTRUN_SOAK=1: a hundred runs with each period, and means within 2 %, where chance allows it.
"""
import json
import math
import os
import re
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
want = re.compile(sys.argv[1] if len(sys.argv) > 1 else '.')
Z = 5.5                     # standard deviations: one of a million checks fails by chance
PERIODS = {'1K': 1 << 10, '64K': 1 << 16, '512K': 1 << 19}
HOOKS = ['--hook', 'arena_take=malloc@2', '--hook', 'arena_give=free@2']
ASK = ('status', 'functions', 'sites', 'peak', 'timeline')
mt.ASK.update({'functions': 'report --by function --all --json', 'sites': 'report --json', 'peak': 'report --at peak --json',
               'timeline': 'timeline --json'})
LIVE_SIZE = {'small': 100, 'medium': 1000, 'grow': 4096, 'large': 300000, 'family': 200, 'passed': 64, 'pooled': 40}
path = mt.build('sample.c', extra='-rdynamic')


def truth(out):
    """By function: bytes and blocks that are live, were allocated, were temporary (None: the schedule decides); sizes of all blocks and how many of each."""
    found = {}
    for line in out.decode().splitlines():
        word = line.split()
        if word and word[0] == 'site':
            kinds = [tuple(map(int, k.split(':'))) for k in word[7].split(',')]
            found[word[1]] = {'size': int(word[2]), 'count': int(word[3]), 'total_size': int(word[4]), 'total_count': int(word[5]),
                              'temporary': None if word[6] == '*' else int(word[6]), 'kinds': kinds}
    return found


def deviation(kinds, period, power):
    """Of the sum over sampled blocks (power 0: of blocks, 1: of bytes)."""
    v = 0.0
    for size, n in kinds:
        p = -math.expm1(-size / period)
        v += n * (1 - p) / p * size ** (2 * power) + n * p * 0.25       # and what rounding does
    return math.sqrt(v) + 1


def deviations(name, t, period):
    live = [(LIVE_SIZE[name], t['count'])]
    return {'size': deviation(live, period, 1), 'count': deviation(live, period, 0), 'total_size': deviation(t['kinds'], period, 1),
            'total_count': deviation(t['kinds'], period, 0), 'temporary': deviation(t['kinds'], period, 0)}


def rows(answer):
    return {r['function']: r for r in answer['mem_report']}


def sampled(period, threads, megabytes, *more, opts=(), **kw):
    return mt.run([path, str(threads), str(megabytes), *more], ['-s', period, *HOOKS, *opts], ask=kw.pop('ask', ASK), **kw)


def sound(r):
    """Nothing was lost, and nothing released that should have been known."""
    s = r.status
    bad = [] if r.rc == 0 else [f'status {r.rc}: {r.messages[-300:]}']
    return bad + [f'{k} {v}' for k, v in (('unknown_frees', s['unknown_frees']), ('dropped', s['dropped']), ('missing', s['mtrun']['missing']),
                                          ('bad events', s['mtrun']['bad_events'])) if v]


def agree(r):
    """All that says how much it is says the same, to the byte."""
    sums = {'sites': sum(x['size'] for x in r.sites['mem_report']), 'total_size': r.sites['total_size'], 'timeline': r.timeline['points'][-1][1]}
    held = r.status['heap'] + r.status['mmap']
    bad = [f'{k} {v}, status {held}' for k, v in sums.items() if k != 'timeline' and v != held]
    if r.timeline['peak'][1] != r.status['peak'] or r.peak['total_size'] != r.status['peak']:
        bad.append(f'peak: timeline {r.timeline["peak"]}, report {r.peak["total_size"]}, status {r.status["peak"]}')
    counts = sum(x['count'] for x in r.functions['mem_report'])
    if counts != r.status['live_blocks']:
        bad.append(f'{counts} blocks in rows, {r.status["live_blocks"]} in status')
    if sum(x['total_size'] for x in r.functions['mem_report']) != r.status['total_allocated']:
        bad.append('total_allocated is not the sum of the rows')
    if r.status['sample'] == 0:
        bad.append('status: sample 0')
    return bad


def by_theory(count, size, period):
    """
    The least and the most that one standard deviation can be of blocks that were told as COUNT. Each that is
    sampled stands for 1/p, which is no whole number, so for one more or one less at random: how many were
    sampled is not known from COUNT alone.
    """
    p = -math.expm1(-size / period)
    each, part = 1 / p, math.fmod(1 / p, 1)
    chance = Z * math.sqrt(count / each * part * (1 - part))
    fewest = max(count / math.ceil(each), (count - chance) / each)
    most = min(count / math.floor(each), (count + chance) / each)
    return [math.sqrt(n * (1 - p)) / p * size * (1 + one / count) for n, one in ((fewest, -1), (most, 1))]


def errors(told, period):
    """
    Problems of the errors that rows have. The size of the blocks is known to them as bytes by blocks, which
    are whole, so they may differ by a tenth.
    """
    bad = []
    for name, size in LIVE_SIZE.items():
        row = told.get(name)
        if row and row['count'] > 1:
            least, most = by_theory(row['count'], size, period)
            if not least * 0.9 - 1 <= row['error'] <= most * 1.1 + 1:
                bad.append(f'{name}: error {row["error"]}, should be {least:.0f} to {most:.0f}')
    return bad


def estimates(runs, period, soak):
    """Problems of the RUNS, (what was told, what is true) each: the mean, and how far they lie apart."""
    bad = []
    for name, t in runs[0][1].items():
        sd = deviations(name, t, period)
        for key in ('size', 'count', 'total_size', 'total_count', 'temporary'):
            if t[key] is None:
                continue
            got = [told.get(name, {}).get(key, 0) for told, _ in runs]
            mean = statistics.fmean(got)
            by_chance = Z * sd[key] / math.sqrt(len(got)) + 1
            if abs(mean - t[key]) > by_chance:
                bad.append(f'{name} {key}: mean {mean:.0f} of {len(got)}, true {t[key]}, deviation of one {sd[key]:.0f}')
            # the numbers of `grow` at 512K, whose blocks are small, exceed 2 % by chance
            if soak and key.startswith('total') and by_chance < t[key] * 0.02 < abs(mean - t[key]):
                bad.append(f'{name} {key}: mean {mean:.0f} is not within 2 % of {t[key]}')
            if soak and key in ('total_size', 'total_count') and sd[key] > 1000:
                spread = statistics.pvariance(got, t[key]) / sd[key] ** 2
                if abs(spread - 1) > Z * math.sqrt(2 / len(got)):
                    bad.append(f'{name} {key}: spread {math.sqrt(spread):.2f} times what it should be')
    return bad


if want.search('estimates'):
    for text, period in PERIODS.items():
        runs, bad = [], []
        for i in range(100 if mt.SOAK else 3):
            r = sampled(text, 1, (400 if text == '512K' else 128) if mt.SOAK else 24)
            bad += sound(r) + agree(r) + errors(rows(r.functions), period)
            runs.append((rows(r.functions), truth(r.out)))
        mt.check(f'estimates {text}: {len(runs)} runs', bad + estimates(runs, period, mt.SOAK))

if want.search('threads'):
    for threads, text in ((8, '1K'), (8, '64K'), (40, '16K')):
        r = sampled(text, threads, 4)
        # what is temporary depends on the schedule: an event that waits for the number of a thread that was preempted comes after what its own thread did next
        t, told = {k: dict(v, temporary=None) for k, v in truth(r.out).items()}, rows(r.functions)
        bad = sound(r) + agree(r) + estimates([(told, t)], int(text[:-1]) << 10, False)
        for name in ('family', 'passed', 'pooled'):
            if told.get(name, {}).get('size', 0) or told.get(name, {}).get('count', 0):
                bad.append(f'{name}: all was freed, and {told[name]["size"]} bytes are live')
        mt.check(f'{threads} threads, {text}', bad)

# What was known before it is switched on stays exact; what comes then is estimated.
if want.search('switch'):
    fifo = os.path.join(mt.tmp(), 'go')
    os.mkfifo(fifo)
    with open(fifo, 'r+b', 0) as f:
        r = mt.run([path, '1', '24', 'step'], HOOKS, ask=ASK, before=f'wait allocs >= {24 * 1048576 // 100}; sample 4K; ! printf x > {fifo}', stdin=f)
    t, told = truth(r.out), rows(r.functions)
    bad = sound(r) + agree(r) + estimates([({k: v for k, v in told.items() if k != 'small'}, {k: v for k, v in t.items() if k != 'small'})], 4096, False)
    bad += [f'small {k}: {told["small"][k]}, was exactly {t["small"][k]}' for k in ('size', 'count', 'total_size', 'total_count', 'temporary')
            if told['small'][k] != t['small'][k]]
    bad += [f'small, which is exact: error {x["error"]} {when}' for when, answer in (('now', r.functions), ('at the peak', r.peak))
            for x in answer['mem_report'] if x['function'] == 'small' and x['error']]
    # of the eight blocks of `medium` that are left none may have been sampled: then 0 are known, and no error of them
    bad += [f'{name}: error {told[name]["error"]} of {told[name]["count"]} blocks' for name in ('medium', 'grow') if bool(told[name]['error']) != bool(told[name]['count'])]
    bad += ['grow: nothing is live'] if not told['grow']['count'] else []
    mt.check('switched on: what was known stays exact', bad)

    r = mt.plain([mt.MTRUN, '-q', '-x', 'wait exit; sample 64K; report --by function; report --stacks -n 2', path, '1', '8'])
    text = r.err.decode()
    mt.check('switched on: a ~ before the whole only', [] if re.search(r'^total_size: ~\d+$', text, re.M) and len(re.findall(r' size:\d+ +count:\d+ ', text)) >= 4 and
             re.search(r'^# 0: \d+ bytes\n +\d+ block', text, re.M) and not re.search(r':~| ~\d+ block', text) else [text])

    # At any moment, again and again; in the end nothing is live that was freed.
    script = '; '.join(['sample 1K', 'wait 30ms', 'sample 16K', 'wait 20ms', 'sample off', 'wait 10ms'] * 8)
    for threads in (1, 8):
        r = mt.run([path, str(threads), str(96 // threads)], HOOKS, ask=ASK, before=script + '; sample 4K')
        t, told = truth(r.out), rows(r.functions)
        bad = sound(r) + agree(r) + estimates([(told, {k: dict(v, temporary=None) for k, v in t.items()})], 16384, False)
        for name in ('family', 'passed', 'pooled'):
            if told.get(name, {}).get('size', 0) or told.get(name, {}).get('count', 0):
                bad.append(f'{name}: all was freed, and {told[name]["size"]} bytes are live')
        mt.check(f'switched on, over and off while {threads} threads run', bad)

if want.search('fork'):
    r = sampled('4K', 2, 16, 'fork', ask=ASK + ('processes',), children_too=True)
    t = truth(r.out)
    total = sum(x['total_count'] for x in t.values())
    sd = math.sqrt(sum(deviations(name, x, 4096)['total_count'] ** 2 for name, x in t.items()))
    counts = sorted(p['allocs'] for p in r.status['processes'])
    bad = sound(r) + ([] if len(counts) == 2 else [f'{len(counts)} processes'])
    bad += [f'{n} allocations told of one process, {total} are true, deviation {sd:.0f}' for n in counts if abs(n - total) > Z * sd + 1000]
    mt.check('a child inherits it', bad)

# Other allocators, other ways through them: each of C's functions counts once.
if want.search('allocators'):
    for how in ('static', 'musl', 'musl-static', 'jemalloc', 'tcmalloc', 'mimalloc', 'clang'):
        other = mt.build('sample.c', how, extra='-rdynamic' if how == 'clang' else '')
        if not other:
            mt.skip(f'with {how}', mt.build_reason('sample.c', how))
            continue
        r = mt.run([other, '2', '8'], ['-s', '4K'], ask=('status', 'functions'))
        t = truth(r.out)
        del t['pooled']
        mt.check(f'with {how}', sound(r) + estimates([(rows(r.functions), {k: dict(v, temporary=None) for k, v in t.items()})], 4096, False))

if want.search('rude'):
    for source in ('signals.c', 'threads.c', 'family.c', 'jump.c', 'recurse.c', 'throw.cc', 'family_cxx.cc', 'coro.c'):
        victim = mt.build(source)
        if not victim:
            mt.skip(source, mt.build_reason(source, 'gcc'))
            continue
        r, alone = mt.run([victim], ['-s', '256'], ask=('status',)), mt.plain([victim])
        bad = [f'status {r.rc}, alone {alone.rc}'] if r.rc != alone.rc else []
        mt.check(f'{source} as without', bad + [x for x in sound(r) if not x.startswith('status ')])

if want.search('texts'):
    r = mt.plain([mt.MTRUN, '-s', '64K', '-x', 'wait exit; status; report; text; tree; report --stacks; timeline --table; timeline --plot; processes', path, '1', '8'])
    text = r.err.decode()
    bad = [f'not there: {x}' for x in (r'heap ~\d', r'allocated  ~\d', r'peak       ~\d', r'blocks     ~\d', r'one allocation per 64\.0K', r'total_size: ~\d',
                                       r'size:~\d+ +count:~\d', r'Total: ~\d', r'# 0: ~\d+ bytes\n +~\d+ block', r'~\d+ 100\.0%', r'peak        ~\d',
                                       r'still live  ~\d[\d,]* bytes in ~\d', r'\d\.\d +~\d+', r'peak ~\S+ at ', r'exited +~\d+ +\d+ +~\d+ +sample') if not re.search(x, text)]
    for opts, why in ((['-s', '0'], "invalid value '0'"), (['-s', '2G'], "invalid value '2G'"), (['-s', 'x'], "invalid value 'x'"),
                      (['-s', '1K', '-l', '1M'], 'a limit needs every allocation')):
        r = mt.plain([mt.MTRUN, *opts, 'true'])
        if r.rc != 125 or why not in r.err.decode() or r.err.count(b'\n') != 1:
            bad.append(f'{opts}: {r.rc} {r.err}')
    r = mt.plain([mt.MTRUN, '-s', '1K', 'true'], env=dict(os.environ, MT_MEMORY_LIMIT='100000'))
    if r.rc != 125 or b'MT_MEMORY_LIMIT' not in r.err:
        bad.append(f'MT_MEMORY_LIMIT: {r.rc} {r.err}')
    r = mt.plain([mt.MTRUN, '-q', '-l', '1G', '-x', 'sample 1K; limit off; sample 1K; limit 1G; sample; sample off; sample', 'true'])
    lines = r.err.decode().splitlines()
    if r.rc != 125 or len(lines) != 4 or 'first `limit off`' not in lines[0] or 'first `sample off`' not in lines[1] or lines[2:] != [
            'one allocation per 1024 bytes (1.0K)', 'off: every allocation']:
        bad.append(f'commands: {r.rc} {lines}')
    mt.check('texts and refusals', bad)

mt.finish()
