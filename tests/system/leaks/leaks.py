#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 240
"""
leaks.py - the command `leaks`, against what a victim knows that it has lost: while it runs, at its last instant, since the scan before; which records and in which
words; and where it cannot be said.
"""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt
from cdp import CHROMIUM, browse

mt.need_mtrun()
want = re.compile(sys.argv[1] if len(sys.argv) > 1 else '')
SOURCE = os.path.join(mt.VICTIMS, 'losing.c')
LINE = {m[1]: n for n, text in enumerate(open(SOURCE), 1) if (m := re.search(r'line:(\w+)', text))}
VICTIM = mt.build('losing.c', 'gcc', '-g')


def tell(a, command):
    """What the victim has lost once it has done that: {definite, indirect}, as bytes and blocks."""
    a.p.stdin.write((command + '\n').encode())
    a.p.stdin.flush()
    while m := a.p.stdout.readline():
        if n := re.match(rb'lost (\d+) (\d+) (\d+) (\d+) kept', m):
            d = list(map(int, n.groups()))
            return {'definite': {'bytes': d[0], 'blocks': d[1]}, 'indirect': {'bytes': d[2], 'blocks': d[3]}}
    raise Exception('the victim has ended')


def differs(r, told, before=None):
    """Problems; BEFORE: what was lost at the scan before."""
    bad = []
    for kind in ('definite', 'indirect'):
        for what in ('bytes', 'blocks'):
            is_, should = r[kind][what], told[kind][what] - (before[kind][what] if before else 0)
            if is_ != should:
                bad.append(f'{kind} {what} {is_}, should be {should}')
    for kind in ('definite', 'indirect', 'possible'):
        records = [x for x in r['records'] if x['kind'] == kind]
        for what in ('bytes', 'blocks'):
            if sum(x[what] for x in records) != r[kind][what]:
                bad.append(f'records of {kind} have {sum(x[what] for x in records)} {what}, in all {r[kind][what]}')
    order = ['definite', 'indirect', 'possible', 'reachable']
    if [x['kind'] for x in r['records']] != sorted((x['kind'] for x in r['records']), key=order.index):
        bad.append('the records are not in order')
    if r['pause_ms'] < 0 or r['pause_ms'] > 2000:
        bad.append(f"pause_ms {r['pause_ms']}")
    return bad


def frame(record):
    f = next((f for f in record['stack'] if f['file'] and f['file'].endswith('losing.c')), None)
    return f and (f['function'], f['line'])


def live():
    a = mt.Launched([VICTIM])
    try:
        told = tell(a, 'keep 100 40')
        mt.check('live: nothing is lost', differs(a.json('leaks'), told))
        told = tell(a, 'lose 1000 48')
        r = a.json('leaks')
        bad = differs(r, told)
        heads = [x for x in r['records'] if x['kind'] == 'definite']
        if [frame(x) for x in heads] != [('lose', LINE['lose'])]:
            bad.append(f'definite: {[frame(x) for x in heads]}')
        elif (heads[0]['indirect_bytes'], heads[0]['indirect_blocks']) != (48000, 2000):
            bad.append(f'it heads {heads[0]["indirect_bytes"]} bytes in {heads[0]["indirect_blocks"]}')
        if r['captured_by'] not in ('stop', 'clone', 'write protection') or r['suppressed'] != {'bytes': 0, 'blocks': 0}:
            bad.append(f"captured_by {r['captured_by']}, suppressed {r['suppressed']}")
        mt.check('live: heads and what hangs on them', bad)
        mt.check('live: nothing new', differs(a.json('leaks --new'), told, told))
        before, told = told, tell(a, 'lose 3 100')
        mt.check('live: new', differs(a.json('leaks --new'), told, before))
        mt.check('live: not new any more', differs(a.json('leaks --new'), told, told))
        mt.check('live: all, still', differs(a.json('leaks'), told))
        tell(a, 'again')
        r = a.json('leaks --new')
        mt.check('live: the same addresses once more are new', [] if r['definite'] == {'bytes': 100, 'blocks': 1} and r['indirect'] == {'bytes': 48, 'blocks': 2}
                 else [f"{r['definite']} {r['indirect']}"])
        before, told = told, tell(a, 'drop')
        mt.check('live: a list without its head', differs(a.json('leaks --new'), told, before))
        tell(a, 'inside 1000')
        r = a.json('leaks --kinds possible')
        mt.check('live: possible', [] if r['possible'] == {'bytes': 1000, 'blocks': 1} and [x['kind'] for x in r['records']] == ['possible'] else [str(r)])
    finally:
        a.end()


def text():
    a = mt.Launched([VICTIM])
    try:
        tell(a, 'keep 2 40')
        tell(a, 'lose 700 100')
        out = a.ask('leaks')
        lines = out.splitlines()
        bad = []
        if lines[0] != f'103,600 (70,000 direct, 33,600 indirect) bytes in 700 blocks are definitely lost in loss record 1 of 3 (stack {lines[0].rsplit(" ", 1)[-1][:-1]})':
            bad.append(f'first line {lines[0]}')
        if lines[-1] != 'SUMMARY: mtrun: 103600 byte(s) leaked in 2100 allocation(s).':
            bad.append(f'last line {lines[-1]}')
        at = lines.index('LEAK SUMMARY:')
        rows = [' '.join(x.split()) for x in lines[at + 1:at + 6]]
        if rows[:3] != ['definitely lost: 70,000 bytes in 700 blocks', 'indirectly lost: 33,600 bytes in 1,400 blocks', 'possibly lost: 0 bytes in 0 blocks'] or \
                not rows[3].startswith('still reachable: ') or rows[4] != 'suppressed: 0 bytes in 0 blocks':
            bad.append(f'rows {rows}')
        if len({x.index(':') for x in lines[at + 1:at + 6]}) != 1:
            bad.append('the rows are not aligned')
        mt.check('text: memcheck\'s rows, and the last line', bad)
        out = a.ask('leaks -n 1')
        mt.check('text: -n', [] if '(others): 33,600 bytes in 1,400 blocks in 2 more records' in out and out.count('loss record') == 1 else [out])
        out = a.ask('leaks --kinds reachable,definite -n all')
        mt.check('text: --kinds', [] if 'still reachable in loss record' in out and 'indirectly lost in' not in out else [out])
        r = a.json('leaks -n 1')
        mt.check('json: -n', [] if len(r['records']) == 1 and r['others'] == {'bytes': 33600, 'blocks': 1400} else [str(r)])
    finally:
        a.end()


def refused():
    """Where nothing can be said that is one line, and the command fails."""
    d = mt.tmp()
    log, heap = f'{d}/log', f'{d}/h'
    os.mkdir(log)
    mt.plain([mt.MTRUN, '-q', '-m', 'log', '--log-dir', log, '-o', heap, VICTIM])
    heap = next(x for x in os.listdir(d) if x.endswith('.f.heap'))
    for name, args, why in (('sampled', ['-s', '1K', '-x', 'leaks', VICTIM], 'leaks: needs every block, and only samples of them are recorded'),
                            ('off', ['-m', 'off', '-x', 'leaks', VICTIM], 'leaks: nothing is recorded (`record mem-fast` does): what is live is not known'),
                            ('log', ['-r', log, '-x', 'leaks'], 'leaks: needs a process, and what is open is a log'),
                            ('heap', ['-r', f'{d}/{heap}', '-x', 'leaks'], 'leaks: needs a process, and what is open is a .heap file'),
                            ('kinds', ['-x', 'leaks --kinds lost', VICTIM], "leaks: --kinds: invalid value 'lost': expected definite, indirect, possible, reachable, some with commas between, or all"),
                            ('word', ['-x', 'leaks all', VICTIM], "leaks: unexpected argument 'all'")):
        r = mt.plain([mt.MTRUN, '-q', *args], stdin=subprocess.DEVNULL)
        said = (r.out + r.err).decode()
        mt.check(f'refused: {name}', [] if r.rc == 125 and why in said and said.count('\n') == 1 else [f'{r.rc}: {said}'])


def at_the_end():
    """The last instant; without a program that waits for commands."""
    script = b'keep 10 40\nlose 5 64\n'
    r = subprocess.run([mt.MTRUN, '-q', '-x', 'wait exit; leaks --json', VICTIM], input=script, capture_output=True, timeout=60)
    told = re.findall(rb'lost (\d+) (\d+) (\d+) (\d+) kept', r.stdout)[-1]
    d = json.loads(r.stderr)
    n = [d['definite']['bytes'], d['definite']['blocks'], d['indirect']['bytes'], d['indirect']['blocks']]
    mt.check('at the end', [] if n == list(map(int, told)) else [f'{n}, should be {told}'])


def again_and_again():
    a = mt.Launched([VICTIM])
    try:
        tell(a, 'lose 2 64')
        path = f'{a.d}/every'
        a.commands.write(f'every 50ms {{ leaks --new --json >> {path} }}\n'.encode())
        a.commands.flush()
        read = lambda: [json.loads(x) for x in re.split(r'\n(?=\{"pid)', open(path).read()) if x.strip()]
        mt.until(lambda: os.path.exists(path) and open(path).read().count('"pid"') > 3, 30)
        tell(a, 'lose 4 72')
        n = open(path).read().count('"pid"')
        mt.until(lambda: open(path).read().count('"pid"') > n + 3, 30)
        a.ask('every off')
        found = [x['definite']['blocks'] for x in read()]
        mt.check('every: each leak once', [] if sum(found) == 6 and found[0] == 2 and set(found[1:]) <= {0, 1, 2, 3, 4} else [str(found)])
    finally:
        a.end()


def attached():
    p = mt.popen([VICTIM], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    a = None

    class Both:
        pass
    v = Both()
    v.p = p
    try:
        before = tell(v, 'lose 3 64')
        a = mt.Attached(p.pid)
        a.ask('status')
        told = tell(v, 'lose 5 64')
        r = a.json('leaks')
        bad = []
        # what was there before has no stack, and the size that its chunk has room for
        for kind in ('definite', 'indirect'):
            rows = [x for x in r['records'] if x['kind'] == kind]
            old, new = [[x for x in rows if bool(x['stack_id']) == known] for known in (False, True)]
            blocks = before[kind]['blocks'], told[kind]['blocks'] - before[kind]['blocks']
            if (sum(x['blocks'] for x in old), sum(x['blocks'] for x in new)) != blocks:
                bad.append(f'{kind}: {old}, {new}; should be {blocks}')
            if sum(x['bytes'] for x in new) != told[kind]['bytes'] - before[kind]['bytes']:
                bad.append(f'{kind}: {new}, should be {told}')
            if not 0 <= sum(x['bytes'] for x in old) - before[kind]['bytes'] <= 24 * blocks[0]:
                bad.append(f'{kind}: {old}, should be {before}')
        if not re.fullmatch(r'\d+ blocks were there before the attach: they have no stack', r['remark'] or ''):
            bad.append(f"remark {r['remark']}")
        mt.check('attached: what came before and since', bad)
        mt.check('attached: left', a.leave())
    finally:
        mt.kill(p.pid)
        p.wait()


def tree():
    r, w = os.pipe()
    a = mt.Launched([VICTIM], pass_fds=[r])
    try:
        tell(a, 'lose 2 64')
        a.p.stdin.write(b'fork %d\n' % r)
        a.p.stdin.flush()
        # the parent's two lines and the child's, which may be the first
        said = b''.join(a.p.stdout.readline() for _ in range(3))
        if said.count(b'lost') != 2:
            return mt.fail('a tree: each by itself', f'{said}')
        child = int(re.search(rb'child (\d+)', said)[1])
        os.write(w, b'lose 7 80\n')
        mt.until(lambda: b'lost' in a.p.stdout.readline(), 30)
        one = a.json('leaks')
        a.ask(f'process {child}')
        two = a.json('leaks')
        mt.check('a tree: each by itself', [] if [(x['definite']['bytes'], x['definite']['blocks']) for x in (one, two)] == [(128, 2), (128 + 560, 9)] and
                 (one['pid'] != child and two['pid'] == child) else [f"{one['pid']} {one['definite']}, {two['pid']} {two['definite']}"])
    finally:
        os.close(w)
        os.close(r)
        a.end()


def page():
    """The page of `export html` has it, too, and so has what a browser makes of it."""
    a = mt.Launched([VICTIM])
    try:
        told = tell(a, 'lose 30 64')
        path = f'{a.d}/page.html'
        a.ask(f'export html {path}')
        with open(path) as f:
            d = json.loads(re.search(r'id="data">\n(.*?)</script>', f.read(), re.S)[1])['leaks']
        sums = {kind: {'bytes': b, 'blocks': n} for kind, b, n in d['sums']}
        bad = [f'{sums}'] if sums['definitely lost'] != told['definite'] or sums['indirectly lost'] != told['indirect'] or len(sums) != 5 else []
        if [(r[0], r[1:5], r[5], os.path.basename(r[6]), r[7]) for r in d['records'][:1]] != [(0, [30 * 64, 30, 60 * 24, 60], 'lose', 'losing.c', LINE['lose'])]:
            bad.append(f"{d['records'][:1]}")
        mt.check('page', bad)
        if not CHROMIUM:
            return mt.skip('page in a browser', 'no chromium')
        dom = browse(f'file://{path}')
        rows = [tuple(map(int, r)) for r in re.findall(r'<tr class="leak" data-kind="(\d)" data-bytes="(\d+)" data-count="(\d+)">', dom)]
        mt.check('page in a browser', [] if rows == [tuple(r[:3]) for r in d['records']] and 'data-lost="definitely lost" data-bytes="1920"' in dom else [f'{rows}'])
    finally:
        a.end()


for case in (live, text, page, refused, at_the_end, again_and_again, attached, tree):
    if want.search(case.__name__):
        case()
mt.finish()
