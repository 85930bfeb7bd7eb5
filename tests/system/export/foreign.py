#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 300
"""
foreign.py - heap profiles that jemalloc and gperftools wrote themselves, opened with -r and compared with what jeprof says of them: exact and sampled,
alone, with --base, and with jeprof's table of symbols in front.
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

mt.need_mtrun()
D = mt.tmp()
ROUNDS = '400000' if mt.SOAK else '80000'
INTERVAL = 22 if mt.SOAK else 19      # a file is written each 2^INTERVAL bytes


def ask(heap, *commands):
    r = mt.plain([mt.MTRUN, '-q', '-x', '; '.join(commands), '-r', heap], cwd=D)
    return r.out.decode() if r.rc == 0 else f'status {r.rc}: {r.err.decode()}'


def short(name):
    """As jeprof shortens names: without arguments of functions and templates."""
    name = re.sub(r'@.*', '', name).replace(' (inline)', '').replace('(anonymous namespace)', '')
    while (less := re.sub(r'\([^()]*\)( const)?|<[^<>]*>', '', name)) != name:
        name = less
    return name


def table(text):
    """(total, {function: cum}), functions that are called the same being one."""
    total = re.search(r'Total: ~?(-?\d+) B', text)
    rows = {}
    for cum, name in re.findall(r'^ *~?-?\d+ +\S+% +\S+% +~?(-?\d+) +\S+% (.*)$', text, re.M):
        rows.setdefault(short(name), int(cum))
    return total and int(total[1]), rows


def jeprof(*args):
    return table(subprocess.run(['jeprof', '--text', '--show_bytes', *args], capture_output=True, text=True, cwd=D, timeout=100).stdout)


def compare(name, heap, program, base=None, slack=0):
    """
    The sums: jeprof takes what is called in a library without symbols for the next function before that has one, and looks up the innermost address behind
    its call. SLACK: bytes, since jeprof does not round.
    """
    ours = table(ask(heap, f'text --bytes -n all {"--base " + base if base else ""}'))
    theirs = jeprof(*([f'--base={base}'] if base else []), *program, heap)
    bad = [f'{n}: {ours[1].get(n)}, jeprof {theirs[1].get(n)}' for n in ('main', '_start') if abs(ours[1].get(n, 0) - theirs[1].get(n, 0)) > slack]
    if theirs[0] is None or ours[0] is None or abs(ours[0] - theirs[0]) > slack or not theirs[0]:
        bad.append(f'total {ours[0]}, jeprof {theirs[0]}')
    mt.check(name, bad)


def run(how, prefix, **env):
    """The files that are written meanwhile, the last one (at the end) left out."""
    victim = mt.build('fourlines.cc', how)
    if not victim:
        return None, mt.build_reason('fourlines.cc', how)
    mt.plain([victim, ROUNDS], cwd=D, env={**os.environ, **env})
    files = sorted(glob.glob(f'{D}/{prefix}.*.heap'), key=lambda f: [int(n) for n in re.findall(r'\d+', os.path.basename(f))])
    return victim, files[:-1] if len(files) > 2 else f'it writes {len(files)} files: no profiling in this build?'


def conf(what, prefix):
    """The environment by which jemalloc writes profiles."""
    return {'MALLOC_CONF': f'prof:true,{what},lg_prof_interval:{INTERVAL},prof_prefix:{D}/{prefix}'}


if not shutil.which('jeprof'):
    mt.skip('all', 'no jeprof')
    mt.finish()
for name, how, prefix, env in (
        ('jemalloc', 'jemalloc', 'exact', conf('lg_prof_sample:0', 'exact')),
        ('jemalloc, all there was', 'jemalloc', 'accum', conf('prof_accum:true,lg_prof_sample:0', 'accum')),
        ('jemalloc, sampled', 'jemalloc', 'sampled', conf('lg_prof_sample:10', 'sampled')),
        ('gperftools', 'tcmalloc-full', 'gperf',
         {'HEAPPROFILE': f'{D}/gperf', 'HEAP_PROFILE_ALLOCATION_INTERVAL': str(1 << INTERVAL)})):
    victim, files = run(how, prefix, **env)
    if not victim or isinstance(files, str):
        mt.skip(name, files)
        continue
    slack = 8 if 'sampled' in name else 2
    about = 1.2 if 'sampled' in name else 1.001
    compare(f'{name}: text', files[-1], [victim], slack=slack)
    compare(f'{name}: text --base', files[-1], [victim], files[0], slack=slack)
    compare(f'{name}: less than before', files[0], [victim], files[-1], slack=slack)
    # By line: each round adds a node of the map (40 bytes asked for, 48 set aside) and a block of 4 (8).
    report = json.loads(ask(files[-1], 'report --json'))
    rows = {r['line']: r for r in report['mem_report'] if (r['file'] or '').endswith('fourlines.cc')}
    bad = [] if len(rows) >= 4 and sum(r['size'] for r in report['mem_report']) == report['total_size'] else [f'{sorted(rows)}']
    nodes, blocks = (rows.get(n, {'size': 0, 'count': 1}) for n in (24, 28))
    sizes = (40, 4) if how != 'jemalloc' else (48, 8)
    if not 1 / about < nodes['count'] / blocks['count'] < about or blocks['count'] < 50000 or \
            any(not n * r['count'] / about <= r['size'] <= n * r['count'] * about for n, r in zip(sizes, (nodes, blocks))):
        bad.append(f'{nodes}, {blocks}')
    status = json.loads(ask(files[-1], 'status --json'))
    if status['written_by'] != name.split(',')[0] or (status['sample'] != 0) != ('sampled' in name) or status['total_size'] != report['total_size'] or \
            (status['total_allocated'] is not None) != (name in ('gperftools', 'jemalloc, all there was')):
        bad.append(f'status {status}')
    text = ask(files[-1], 'status; report -n 3')
    if os.path.basename(victim) not in text or ('~' in text) != ('sampled' in name):
        bad.append(text)
    mt.check(f'{name}: report, status', bad)
    text = ask(files[-1], f'export graph {D}/x.dot --base {files[0]}; export pprof {D}/x.pb.gz; export jemalloc {D}/again.heap; export heap {D}/own.heap')
    totals = {table(ask(f'{D}/{f}', 'text --bytes -n all'))[0] for f in ('again.heap', 'own.heap')}
    mt.check(f'{name}: exports', [] if not text and totals == {report['total_size']} else [f'{text} {totals}, report {report["total_size"]}'])

# A program that holds nothing has no symbols either.
r = mt.plain([mt.MTRUN, '-q', '-x', f'wait exit; export jemalloc {D}/none.heap', '/bin/true'])
mt.check('a file of a program that holds nothing', [] if r.rc == 0 and ask(f'{D}/none.heap', 'report') == 'total_size: 0\n' else [f'{r.rc} {r.err}'])

# What is no such file, or not a whole one.
with open(files[-1], 'rb') as f:
    whole = f.read()
maps = whole.index(b'MAPPED_LIBRARIES')
for what, text, words in (('empty', b'', 'not a .heap file'), ('cut in its rows', whole[:maps - 5], 'cut off'), ('cut in its maps', whole[:maps + 100], 'cut off'),
                          ('with zero bytes', whole[:50] + b'\0' + whole[51:], 'zero bytes'), ('something else', b'heap profile: hello\n', 'not a .heap file')):
    with open(f'{D}/bad.heap', 'wb') as f:
        f.write(text)
    r = mt.plain([mt.MTRUN, '-q', '-x', 'report', '-r', 'bad.heap'], cwd=D)
    mt.check(f'a file that is {what}', [] if r.rc == 125 and words in r.err.decode() and r.err.count(b'\n') == 1 else [f'{r.rc} {r.err}'])
mt.finish()
