#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 300
"""
base.py - what has come between two .heap files, or since a snapshot or a time: text as jeprof prints it
with --base, report and tree, and each export, of a difference and of one moment, in a reader of its own.
"""
import glob
import json
import os
import re
import shutil
import subprocess

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt
from cdp import CHROMIUM, browse

mt.need_mtrun()
D = mt.tmp()
FOUR = mt.build('fourlines.cc', 'gcc') or sys.exit(mt.build_reason('fourlines.cc', 'gcc'))
EXPORTS = {'heap': 'heap', 'jemalloc': 'jem', 'pprof': 'pb.gz', 'folded': 'folded', 'flamegraph': 'svg', 'graph': 'graph.dot', 'massif': 'massif',
           'heaptrack': 'heaptrack', 'dhat': 'dhat', 'speedscope': 'speedscope', 'csv': 'csv', 'json': 'json', 'html': 'html'}


def out(*cmd, **kw):
    return subprocess.run(cmd, capture_output=True, text=True, cwd=D, **kw).stdout


def ask(heap, *commands):
    r = mt.plain([mt.MTRUN, '-q', '-x', '; '.join(commands), '-r', heap], cwd=D)
    return r.out.decode() if r.rc == 0 else f'status {r.rc}: {r.err.decode()}'


def short(name):
    """As jeprof shortens names: without arguments of functions and templates."""
    name = name.replace(' (inline)', '').replace('(anonymous namespace)', '')
    while (less := re.sub(r'\([^()]*\)( const)?|<[^<>]*>', '', name)) != name:
        name = less
    return name


def table(text):
    """(total, [(flat, cum, function)]), functions that are called the same being one."""
    total = re.search(r'Total: (-?\d+) B', text)
    rows = {}
    for flat, cum, name in re.findall(r'^ *(-?\d+) +\S+% +\S+% +(-?\d+) +\S+% (.*)$', text, re.M):
        row = rows.setdefault(short(name), [0, 0])
        row[0] += int(flat)
        row[1] += int(cum)                          # (here none of them calls another)
    return total and int(total[1]), rows


def against_jeprof(name, base, heap, *program):
    if not shutil.which('jeprof'):
        return mt.skip(name, 'no jeprof')
    for cum in ('', '--cum'):
        text = ask(heap, f'text --bytes -n all {cum} --base {base}')
        ours_total, ours = table(text)
        theirs_total, theirs = table(out('jeprof', '--text', '--show_bytes', *cum.split(), f'--base={base}', *program, heap))
        bad = [] if ours_total == theirs_total and ours_total is not None else [f'total {ours_total}, jeprof {theirs_total}']
        bad += [f'{n}: {ours.get(n)}, jeprof {theirs.get(n)}' for n in {*ours, *theirs} if ours.get(n) != theirs.get(n)]
        key = 1 if cum else 0
        amounts = [int(m[key]) for m in re.findall(r'^ *(-?\d+) +\S+% +\S+% +(-?\d+) ', text, re.M)]
        if amounts != sorted(amounts, reverse=True):
            bad.append(f'in this order: {amounts}')
        mt.check(f'{name}: text {cum}'.strip(), bad)


# Two of the files of one run: a vector, a map, a string and a new that grow. The bytes between them are what the two say they hold, line by line.
mt.plain([mt.MTRUN, '-q', '-x', 'wait heap > 300K; stop; dump a.; cont; wait heap > 5M; stop; dump a.; kill', '--', FOUR, '2000000'], cwd=D)
first, last = sorted(glob.glob(f'{D}/a.*.heap'), key=lambda f: int(f.rsplit('.', 3)[1]))
rows = [{r['line']: (r['size'], r['count']) for r in json.loads(ask(f, 'report --json'))['mem_report']} for f in (first, last)]
want = {n: (s - rows[0].get(n, (0, 0))[0], c - rows[0].get(n, (0, 0))[1]) for n, (s, c) in rows[1].items()}
want = {n: v for n, v in want.items() if any(v)}
grown = sum(s for s, _ in want.values())
bad = [] if len(want) == 4 and grown > 500000 else [f'{want}']
for option in (f'--base {first}', f'--since {first}', f'--bas {os.path.basename(first)}'):
    report = json.loads(ask(last, f'report {option} --json'))
    have = {r['line']: (r['size'], r['count']) for r in report['mem_report'] if r['size'] or r['count']}
    if have != want or report['total_size'] != grown:
        bad.append(f'{option}: {have}, the files {want}')
mt.check('report --base FILE', bad)
against_jeprof('two files', first, last, FOUR)
against_jeprof('less than before', last, first, FOUR)
tree = json.loads(ask(last, f'tree --base {first} --json'))
flat = json.loads(ask(last, f'text --base {first} --json'))


def inclusive(node, name, inside=False):
    here = short(node['function']) == name
    return (node['size'] if here and not inside else 0) + sum(inclusive(c, name, inside or here) for c in node['children'])


mt.check('tree --base', [f'{n}: {inclusive(tree, n)}' for n, size in (('main', grown), ('std::map::operator[]', want[max(want, key=lambda n: want[n][1])][0]))
                         if inclusive(tree, n) != size and n == 'main'] + ([] if flat['total'] == tree['size'] == grown else [flat['total'], tree['size']]))

# ---- each export -------------------------------------------------------------------------------------------------------------------

text = ask(last, *(f'export {format} {D}/x.{ending} --base {first}' for format, ending in EXPORTS.items()))
mt.check('export --base FILE', [text] if text else [])


def read(name):
    with open(f'{D}/{name}') as f:
        return f.read()


def total_of(name):
    if name in ('heap', 'jemalloc'):
        return table(out('jeprof', '--text', '--show_bytes', *([FOUR] if name == 'heap' else []), f'x.{EXPORTS[name]}'))[0]
    if name == 'pprof':
        m = re.search(r'of (\d+)B total', out('go', 'tool', 'pprof', '-symbolize=none', '-top', '-unit=B', 'x.pb.gz', env={**os.environ, 'HOME': D}))
        return m and int(m[1])
    if name == 'folded':
        return sum(int(line.rsplit(' ', 1)[1]) for line in read('x.folded').splitlines())
    if name == 'flamegraph':
        return int(re.search(r'data-at="0 (\d+) 0"', read('x.svg'))[1])
    if name == 'graph':
        return int(re.search(r'legend.*tooltip="(\d+) bytes"', read('x.graph.dot'))[1])
    if name == 'massif':
        m = re.search(r'->100.00% \(([\d,]+)B\)|^100.00% \(([\d,]+)B\)', out('ms_print', 'x.massif'), re.M)
        return m and int((m[1] or m[2]).replace(',', ''))
    if name == 'heaptrack':
        out('heaptrack_print', 'x.heaptrack', '--flamegraph-cost-type', 'peak', '-F', 'flame', '--disable-builtin-suppressions')
        return sum(int(line.rsplit(' ', 1)[1]) for line in read('flame').splitlines())
    if name == 'dhat':
        return sum(p['gb'] for p in json.loads(read('x.dhat'))['pps'])
    if name == 'speedscope':
        return json.loads(read('x.speedscope'))['profiles'][0]['endValue']
    if name == 'csv':
        return sum(int(line.split(',')[0]) for line in read('x.csv').splitlines()[1:])
    if name == 'json':
        return json.loads(read('x.json'))['report']['total_size']
    m = re.search(r'id="what" data-bytes="(-?\d+)"', browse(f'file://{D}/x.html'))
    return m and int(m[1])


NEEDS = {'heap': 'jeprof', 'jemalloc': 'jeprof', 'pprof': 'go', 'massif': 'ms_print', 'heaptrack': 'heaptrack_print'}


def totals_are(option, want):
    """Each file's total, as its reader finds it, is WANT."""
    for name in EXPORTS:
        if name in NEEDS and not shutil.which(NEEDS[name]) or name == 'html' and not CHROMIUM:
            mt.skip(f'export {name} {option}', f'no {NEEDS.get(name, "chromium")}')
            continue
        have = total_of(name)
        mt.check(f'export {name} {option}', [] if have == want else [f'{have}, should be {want}'])


totals_are('--base', grown)

# More bytes in fewer blocks: nothing is left out.
a = mt.Launched([mt.build('fewer.c')])
for before in 'snapshot one', None:
    a.p.stdout.readline()
    if before:
        a.ask(before)
        a.p.stdin.write(b'x')
        a.p.stdin.flush()
for format, ending in EXPORTS.items():
    a.ask(f'export {format} {D}/x.{ending} --since one')
with open(f'{a.d}/messages') as f:
    said = f.read()
mt.check('export --since, fewer blocks', [said] if said else [])
a.end()
totals_are('--since, fewer blocks', 800)

# ---- of a moment -------------------------------------------------------------------------------------------------------------------

commands = ['wait exit', f'report --at peak --json > {D}/peak.json', f'report --json > {D}/end.json']
commands += [f'export {format} {D}/x.{ending} --at peak' for format, ending in EXPORTS.items()]
r = mt.plain([mt.MTRUN, '-q', '-x', '; '.join(commands), mt.build('phases.cc')], cwd=D)
peak, end = (json.loads(read(f'{name}.json'))['total_size'] for name in ('peak', 'end'))
mt.check('export --at peak', [] if not r.err and peak > end else [r.err, peak, end])
totals_are('--at peak', peak)

# ---- of a program that runs --------------------------------------------------------------------------------------------------------

commands = ('snapshot one', 'wait heap > 40M', 'stop', f'report --since one --json > {D}/since.json', f'report --base one --json > {D}/base.json',
            f'text --base one --json > {D}/text.json', f'tree --since one --json > {D}/tree.json', f'report --base {first} --json > {D}/file.json',
            f'report --json > {D}/now.json', f'report --base peak --json > {D}/peak.json', 'kill')
r = mt.plain([mt.MTRUN, '-q', '-x', 'wait heap > 1M', '-x', '; '.join(commands), '--', FOUR, '2000000'])
said = {n: json.load(open(f'{D}/{n}.json')) for n in ('since', 'base', 'text', 'tree', 'file', 'now', 'peak') if os.path.getsize(f'{D}/{n}.json')}
bad = [] if len(said) == 7 else [f'{r.err}']
if not bad:
    sizes = {said['since']['total_size'], said['base']['total_size'], said['text']['total'], said['tree']['size']}
    if len(sizes) != 1 or sizes.pop() < 100000:
        bad.append(f'{[said[n].get("total_size") for n in ("since", "base")]}, text {said["text"]["total"]}, tree {said["tree"]["size"]}')
    before = json.loads(ask(first, 'report --json'))['total_size']
    if said['file']['total_size'] != said['now']['total_size'] - before:
        bad.append(f'since a file: {said["file"]["total_size"]}, now {said["now"]["total_size"]}, in the file {before}')
    if said['peak']['total_size'] > 0:
        bad.append(f'since the peak {said["peak"]["total_size"]}')
mt.check('of a program that runs', bad)
mt.finish()
