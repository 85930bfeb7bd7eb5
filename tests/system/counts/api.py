#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 300
"""api - programs that ask by mtrun.h what they hold: the answer is their own sum, with every compiler, linker and way of stripping; 0 without mtrun."""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

want = re.compile(sys.argv[1] if len(sys.argv) > 1 else '')
mt.need_mtrun()
MORE = os.path.join(mt.VICTIMS, 'lib', 'api_more.c')
PLUGIN = mt.build('lib/api_plugin.c', 'gcc', '-shared -fPIC', name='api_plugin.so')

# source, build, more flags, name of the variant
CASES = [
    ('api.c', 'gcc', '', ''),
    ('api.c', 'gcc-O0', '', ''),
    ('api.c', 'gcc', '-flto', 'lto'),
    ('api.c', 'gcc', '-s', 'stripped'),
    ('api.c', 'gcc', '-ffunction-sections -Wl,--gc-sections', 'gc'),
    ('api.c', 'gcc', '-fuse-ld=lld -Wl,--icf=all,--gc-sections -ffunction-sections -s', 'lld'),
    ('api.c', 'gcc', '-fuse-ld=gold -Wl,--gc-sections -ffunction-sections', 'gold'),
    ('api.c', 'gcc', '-fcf-protection=full -masm=intel', 'endbr'),
    ('api.c', 'no-pie', '', ''),
    ('api.c', 'static', '', ''),
    ('api.c', 'static', '-s', 'stripped'),
    ('api.c', 'static-pie', '', ''),
    ('api.c', 'static-pie', '-s', 'stripped'),
    ('api.c', 'clang', '', ''),
    ('api.c', 'clang-O0', '', ''),
    ('api.c', 'clang', '-flto', 'lto'),
    ('api.c', 'clang', '-flto -fuse-ld=lld -s', 'lto-lld'),
    ('api.c', 'clang-static', '', ''),
    ('api.c', 'musl', '', ''),
    ('api.c', 'musl', '-s', 'stripped'),
    ('api.c', 'musl-static', '', ''),
    ('api.c', 'jemalloc', '', ''),
    ('api.c', 'mimalloc', '', ''),
    ('api.cc', 'gcc', '', ''),
    ('api.cc', 'gcc-O0', '', ''),
    ('api.cc', 'gcc', '-flto -s', 'lto'),
    ('api.cc', 'static', '', ''),
    ('api.cc', 'clang', '', ''),
    ('api.cc', 'clang-O0', '', ''),
]


def said(r, last='done'):
    lines = r.out.decode(errors='replace').splitlines()
    bad = [x for x in lines if x not in (last, 'asking')]
    if not lines or lines[-1] != last:
        bad.append(f'the last line is not {last}')
    if r.rc:
        bad.append(f'status {r.rc}: {r.messages[-200:]} {r.err[-200:]}')
    return bad


def supervised(cmd, opts=(), **kw):
    m = os.path.join(mt.tmp(), 'messages')
    r = mt.plain([mt.MTRUN, '-q', '--messages', m, *opts, '--', *cmd], **kw)
    with open(m, errors='replace') as f:
        r.messages = f.read()
    return r


for source, how, extra, variant in CASES:
    name = ' '.join(x for x in (source, how, variant) if x)
    if not want.search(name):
        continue
    built = mt.build(source, how, f'{extra} -I{mt.TOP}/inject {MORE}', name=f'{source}.{variant}' if variant else source)
    if not built:
        mt.skip(name, mt.build_reason(source, how))
        continue
    os.environ.pop('API_BEFORE', None)
    # what holds something before main: these allocators, libstdc++, and glibc's dlopen() in a static program
    if how in ('jemalloc', 'mimalloc', 'static', 'static-pie', 'clang-static') or source == 'api.cc':
        os.environ['API_BEFORE'] = '1'
    more = [PLUGIN] if 'static' not in how and 'musl' not in how else []
    mt.check(f'{name}, without mtrun', said(mt.plain([built, 'none', *more])))
    mt.check(f'{name}, heap', said(supervised([built, 'heap', *more], ['-c', 'heap'])))
    if not variant:
        mt.check(f'{name}, all', said(supervised([built, 'all', *more])))
os.environ.pop('API_BEFORE', None)

plain = mt.build('api.c', 'gcc', f'-I{mt.TOP}/inject {MORE}', name='api.c')
if plain and want.search('strict'):
    mt.check('after seccomp', said(supervised([plain, 'strict'], ['-c', 'heap'])))
if plain and want.search('no-follow'):
    mt.check('a child that is not followed', said(supervised([plain, 'heap'], ['-c', 'heap', '--no-follow'], env={**os.environ, 'API_CHILD_ALONE': '1'})))
if plain and want.search('detach'):
    r = supervised([plain, 'until-alone'], ['-x', 'wait allocs > 0; detach'], stdout=subprocess.PIPE)
    mt.until(lambda: not mt.children(), 10)
    mt.check('detach: 0 from then on', said(r, 'alone'))

if plain and want.search('killed'):
    bad = []
    for i in range(40 if mt.SOAK else 8):
        p = mt.popen([mt.MTRUN, '-q', plain, 'until-alone'], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        first = p.stdout.readline()
        mt.until(lambda: False, 0.003 * i)
        p.kill()
        rest = p.stdout.read()
        p.wait()
        if first != b'asking\n' or rest != b'alone\n':
            bad.append(f'{first!r} {rest!r}')
    mt.check('mtrun is killed: 0 from then on, nobody waits', bad)

if plain and want.search('headless'):
    r = supervised([plain, 'headless'], ['-x', 'wait exit; timeline --json > marks; report --base headless > snapshot'], cwd=mt.tmp())
    with open(os.path.join(mt.tmp(), 'marks')) as f:
        marks = [label for _, label in json.load(f)['marks']]
    mt.check('marks and snapshots of a program whose first thread has ended', said(r) + ([] if marks == ['headless'] else [marks]))

if plain and want.search('cost'):
    r = supervised([plain, 'cost'])
    us = float(re.search(rb'cost (\S+) us', r.out)[1])
    mt.check(f'a call takes {us:.0f} us', [] if us <= (300 if os.getloadavg()[0] > 2 else 30) else ['more than 30'])
mt.finish()
