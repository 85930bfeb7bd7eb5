#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 400
"""
wrong - frees that are errors are told, with both stacks, as the victim says beforehand; in C and C++, with each libc and allocator, in each mode, by a
thread or a child, also where the allocator ends the program at once. What looks like one and is none is not told.
"""
import json
import os
import re
import struct
import subprocess
import sys
import time
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
want = re.compile(sys.argv[1] if len(sys.argv) > 1 else '')
d = mt.tmp()
TOLD = re.compile(r'^mtrun: ((?:double )?free of .*|realloc of .*|operator delete(?:\[\])? of .*)$', re.M)
PLACE = {'call': r'^process \d+ \(.*\), thread \d+.*, by$', 'freed': r'^first freed .*, by$', 'allocated': r'^(?:allocated|mapped).*, by$'}
case = mt.cases(want)


def run(path, words, opts=(), **kw):
    r = mt.plain([mt.MTRUN, *opts, '--', path, *words], cwd=d, **kw)
    r.text, r.said = r.err.decode(errors='replace'), r.out.decode(errors='replace')
    r.told = TOLD.findall(r.text)
    return r


def frame(text, heading):
    """Function and line of the innermost frame of the victim's own in the stack under HEADING."""
    m = re.search(heading + r'\n(?: +\d+: .*\n +(?:in|at) (?!.*/wrong).*\n)* +\d+: (\w+).*\n +at .*/wrong\w*\.cc?:(\d+)(?::\d+)?\n', text, re.M)
    return (m[1], int(m[2])) if m else None


def compare(bad, name, r, native=None, freed=False, times=1):
    """What was told with what the victim said."""
    says = re.findall(r'^say (.*)$', r.said, re.M)
    at = {what: (function, int(line)) for what, function, line in re.findall(r'^at (\w+) (\w+) (\d+)$', r.said, re.M)}
    if len(says) != 1 or len(r.told) != 1 or not r.told[0].startswith(says[0].rstrip()):
        bad.append(f'{name}: told {r.told}, said {says}')
        return
    for what, where in at.items():
        if (what != 'freed' or freed) and frame(r.text, PLACE[what]) != where:
            bad.append(f'{name}: {what}: {frame(r.text, PLACE[what])}, not {where}: {r.text[:900]}')
    m = re.search(r'^  errors +(\d+) ', r.text, re.M)
    if not m or int(m[1]) != times:
        bad.append(f'{name}: summary: {m and m[0]}, not {times}')
    if native is not None and r.rc != native:
        bad.append(f'{name}: status {r.rc}, by itself {native}')


def silent(bad, name, r):
    if r.told or 'survived' not in r.said or re.search('^  errors', r.text, re.M):
        bad.append(f'{name}: {r.rc} {r.told} {r.text[:600]} {r.said[-100:]}')


def each(bad, hows, whats, fn, source):
    for how in hows:
        path = mt.build(source, how, '-fno-builtin')
        if not path:
            mt.skip(how, mt.build_reason(source, how))
            continue
        for what in whats:
            fn(how, path, what)


C = ['double', 'double-later 500', 'double-large', 'double-threads', 'double-child', 'double-realloc', 'after-realloc', 'within-1', 'within-8', 'within-16',
     'within-large', 'stack', 'thread-stack', 'variable', 'constant', 'mapping', 'nowhere', 'beyond']
SOME = ['double', 'double-threads', 'within-8'] + (['double-realloc', 'stack', 'variable'] if mt.SOAK else [])
ALLOCATORS = ['jemalloc', 'tcmalloc', 'tcmalloc-full', 'mimalloc']


@case('C: each error, on glibc, musl, jemalloc, tcmalloc, mimalloc')
def _(bad):
    def one(how, path, what):
        native = mt.plain([path, *what.split()]).rc
        compare(bad, f'{how} {what}', run(path, what.split()), native)
    def without_status(how, path, what):            # what it does then depends on where it happens to be
        compare(bad, f'{how} {what}', run(path, what.split()))
    each(bad, ['gcc'], C, one, 'wrong.c')
    each(bad, ['musl'], C if mt.SOAK else C[::2], one, 'wrong.c')
    each(bad, ['jemalloc'], C if mt.SOAK else C[1::2], one, 'wrong.c')
    each(bad, ['gcc-O0', 'clang', 'static', 'no-pie', 'musl-static'], SOME, one, 'wrong.c')
    each(bad, ['tcmalloc', 'tcmalloc-full', 'mimalloc'], SOME, without_status, 'wrong.c')


@case('C: in each mode; the stack of the first free')
def _(bad):
    path = mt.build('wrong.c', 'gcc', '-fno-builtin')
    for mode in ('mem', 'log-fast', 'log'):
        for what in ('double', 'within-8', 'double-realloc'):
            compare(bad, f'{mode} {what}', run(path, [what], ['-m', mode, '--log-dir', d]))
    for what in ('double', 'double-large', 'double-later'):
        compare(bad, f'free-stacks {what}', run(path, [what], ['-S', '-x', 'set free-stacks on; cont']), freed=True)
    r = run(path, ['double'], ['-s', '1K'])
    if r.told:
        bad.append(f'sampled: {r.told}')


@case('an error that is repeated is counted; status, JSON, --messages, -q, off')
def _(bad):
    path = mt.build('wrong.c', 'jemalloc', '-fno-builtin')
    if not path:
        mt.skip('jemalloc', mt.build_reason('wrong.c', 'jemalloc'))
        return
    r = run(path, ['double', '1000'], ['-x', f'wait exit; status; status --json > {d}/s'])
    compare(bad, 'double 1000', r, 0, times=1000)
    with open(f'{d}/s') as f:
        s = json.load(f)
    if s['errors'] != 1000 or not re.search(r'^errors +1000 double frees, at 1 place$', r.text, re.M):
        bad.append(f'status: {s["errors"]} {r.text[-600:]}')
    many = mt.build('wrong.c', 'tcmalloc', '-fno-builtin')       # there it goes on
    if many:
        compare(bad, 'double 1000000', run(many, ['double', '1000000'], ['-m', 'mem']), times=1000000)
    r = run(path, ['double'], ['-q', '--messages', f'{d}/m'])
    with open(f'{d}/m') as f:
        if len(TOLD.findall(f.read())) != 1 or r.err:
            bad.append(f'--messages: {r.err}')
    path = mt.build('wrong.c', 'gcc', '-fno-builtin')
    r = run(path, ['double'], ['-q', '--messages', f'{d}/m'])           # ends at once
    with open(f'{d}/m') as f:
        if len(TOLD.findall(f.read())) != 1 or r.rc != -6:
            bad.append(f'--messages, glibc: {r.rc}')
    for opts in (['--errors', 'off'], ['-S', '-x', 'set errors off; cont']):
        r = run(path, ['double-realloc'], opts)
        if r.told or '  errors' in r.text:
            bad.append(f'{opts}: {r.text[:300]}')
    r = run(path, ['double'], ['--errors', 'perhaps'])
    if r.rc != 125 or r.text.count('\n') != 1 or "'perhaps'" not in r.text or 'report, stop or off' not in r.text:
        bad.append(f'{r.rc} {r.text}')


@case('what looks like an error and is none, in C')
def _(bad):
    def one(how, path, what):
        silent(bad, f'{how} {what}', run(path, [what]))
    each(bad, ['gcc', 'clang', 'static', 'musl', 'musl-static', *ALLOCATORS, 'jemalloc-static'], ['fine'], one, 'wrong.c')
    for _ in range(20 if mt.SOAK else 1):
        each(bad, ['gcc', 'gcc-O0', 'musl', 'jemalloc'], ['forks'], one, 'wrong.c')
        each(bad, ['gcc'], ['libcs'], one, 'wrong.c')
    path = mt.build('wrong.c', 'gcc', '-fno-builtin')
    for opts in (['-m', 'mem'], ['-s', '100'], ['-S', '-x', 'set free-stacks on; cont'], ['-S', '-x', 'every 20ms { record off; record mem-fast }; cont'],
                 ['--no-follow'], ['-l', '1G', '--on-limit', 'fail']):
        silent(bad, f'{opts}', run(path, ['fine'], opts))
    path = mt.build('wrong.c', 'musl-static', '-fno-builtin')
    for _ in range(20 if mt.SOAK else 2 if path else 0):
        silent(bad, 'musl-static, off and on', run(path, ['fine'], ['-S', '-x', 'every 20ms { record off; record mem-fast }; cont']))


WRONG = [(g, t) for g in ('malloc', 'calloc', 'strdup') for t in ('delete', 'sized', 'array', 'nothrow')] + \
        [(g, t) for g in ('new', 'nothrow') for t in ('free', 'array', 'sized-array')] + \
        [(g, t) for g in ('array', 'nothrow-array') for t in ('free', 'delete', 'sized', 'nothrow')] + [('aligned', 'free'), ('malloc', 'aligned')]
RIGHT = [('malloc', 'free'), ('calloc', 'free'), ('strdup', 'free'), ('new', 'delete'), ('new', 'sized'), ('nothrow', 'delete'), ('nothrow', 'nothrow'),
         ('array', 'array'), ('array', 'sized-array'), ('nothrow-array', 'array'), ('aligned', 'aligned')]


@case('C++: each pair that does not go together, on libstdc++ and libc++')
def _(bad):
    def one(how, path, pair):
        compare(bad, f'{how} {pair}', run(path, pair), 0)
    each(bad, ['gcc'], WRONG, one, 'wrong_cxx.cc')
    each(bad, ['gcc-O0', 'clang'], WRONG[::3], one, 'wrong_cxx.cc')
    libcxx = mt.build('wrong_cxx.cc', 'clang', '-fno-builtin -stdlib=libc++', name='wrong_libcxx')
    if not libcxx:
        mt.skip('libc++', mt.build_reason('wrong_cxx.cc', 'clang'))
    for pair in WRONG[1::2] if libcxx else ():
        one('libc++', libcxx, pair)
    for pair in RIGHT if libcxx else ():
        silent(bad, f'libc++ {pair}', run(libcxx, pair))
    if libcxx:
        silent(bad, 'libc++ fine', run(libcxx, ['fine']))


@case('C++: pairs that go together, and whatever operators are one with malloc')
def _(bad):
    def one(how, path, pair):
        silent(bad, f'{how} {pair}', run(path, pair))
    each(bad, ['gcc'], RIGHT, one, 'wrong_cxx.cc')
    each(bad, ['clang', 'static'], RIGHT[::3], one, 'wrong_cxx.cc')
    each(bad, ['static', *ALLOCATORS], [('array', 'delete'), ('malloc', 'delete')], one, 'wrong_cxx.cc')
    each(bad, ['gcc', 'gcc-O0', 'clang', 'static', *ALLOCATORS], [('fine',)], one, 'wrong_cxx.cc')
    each(bad, ['gcc', 'gcc-O0', 'gcc-lto', 'clang', 'static'], [()], one, 'wrong_own.cc')
    own = mt.build('wrong_own.cc', 'gcc', '-fno-builtin -DOWN_FREE', name='wrong_own_free')
    if own:
        silent(bad, 'a malloc of its own', run(own, []))


@case('C++: operators that nobody sees')
def _(bad):
    source, library, path = os.path.join(mt.VICTIMS, 'lib', 'hidden_operators.cc'), os.path.join(d, 'libhidden.so'), os.path.join(d, 'user')
    with open(f'{d}/map', 'w') as f:
        f.write('{ global: make*; drop*; local: *; };')
    ways = ('-O2', '-O0', '-O2 -s', '-O2 -fno-plt',
            '-DRUNTIME -O2', '-DRUNTIME -O2 -s', '-DRUNTIME -O2 -fno-plt')
    for flags in ways[::1 if mt.SOAK else 2]:
        static = ['-static-libstdc++', '-static-libgcc'] if 'RUNTIME' in flags else []
        for command in (['-shared', '-fPIC', *flags.split(), *static, source, f'-Wl,--version-script={d}/map', '-o', library],
                        ['-DUSER', '-O2', source, '-L', d, '-lhidden', f'-Wl,-rpath,{d}', '-o', path]):
            r = subprocess.run(['g++', '-w', *command], capture_output=True)
            if r.returncode:
                bad.append(f'{flags}: {r.stderr[-200:]}')
        silent(bad, f'hidden, {flags}', run(path, []))


@case('what was there before an attach is not judged; what came later is')
def _(bad):
    for how in ('gcc', 'jemalloc'):
        path = mt.build('wrong.c', how, '-fno-builtin')
        if not path:
            continue
        whats = ('within-8', True), ('variable', False), ('stack', True), ('fine', False)
        for what, told in whats[:4 if how == 'gcc' or mt.SOAK else 2]:
            p = mt.popen([path, 'wait', what], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            p.stdout.readline()
            m = mt.popen([mt.MTRUN, '-p', str(p.pid), '-x', f'wait 1.2; ! echo there > {d}/there; wait exit'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            mt.until(lambda: os.path.exists(f'{d}/there'))
            os.unlink(f'{d}/there')
            said = p.communicate(b'x', timeout=60)[0].decode()
            text = m.communicate(timeout=60)[0].decode(errors='replace')
            if len(TOLD.findall(text)) != told:
                bad.append(f'{how} {what}: {TOLD.findall(text)} {said[:200]} {text[:300]}')


@case('stop: in batch it is killed after the commands, unless they let it go on')
def _(bad):
    path = mt.build('wrong.c', 'jemalloc', '-fno-builtin') or mt.build('wrong.c', 'gcc', '-fno-builtin')
    busy = ['later', 'double-realloc']
    for commands, rc, said in (('on error { echo ON; status --json > %s/s; bt }; wait exit; echo END', -9, ['ON', 'END']),
                               ('wait error; echo ON; status --json > %s/s; wait 10s; echo END', -9, ['ON', 'END']),
                               ('wait error; echo ON; status --json > %s/s; cont; wait exit; echo END', 0, ['ON', 'END']),
                               ('on error { echo ON; status --json > %s/s; cont }', 0, ['ON'])):
        r = run(path, busy, ['-q', '--errors', 'stop', '-x', commands % d])
        with open(f'{d}/s') as f:
            s = json.load(f)
        if r.rc != rc or [x for x in r.text.splitlines() if x in ('ON', 'END')] != said or s['state'] != 'stopped' or len(r.told) != 1:
            bad.append(f'{commands}: {r.rc} {s["state"]} {r.told} {r.text[-300:]}')
    r = run(path, busy, ['--errors', 'stop'])
    if r.rc != -9 or not re.search(r'^mtrun: .* is killed: nothing has let it go on$', r.text, re.M):
        bad.append(f'no commands: {r.rc} {r.text[-400:]}')
    os.mkfifo(f'{d}/now')
    with open(f'{d}/now', 'r+b', buffering=0) as now:
        r = run(path, ['wait', 'double-realloc'], ['--errors', 'stop', '-x', f'set errors report; ! echo > {d}/now; wait exit'], stdin=now)
    if r.rc != 0 or len(r.told) != 1:
        bad.append(f'set errors report: {r.rc} {r.text[-400:]}')


def unpacking_ms():
    """
    What zlib takes here for libc's debug information, of which a stack needs some: how fast the machine is.
    0: there is none, or it is not packed.
    """
    notes = subprocess.run(['readelf', '-n', '/lib/x86_64-linux-gnu/libc.so.6'], stdout=subprocess.PIPE, text=True).stdout
    m = re.search(r'Build ID: (\w\w)(\w+)', notes)
    path = f'/usr/lib/debug/.build-id/{m[1]}/{m[2]}.debug' if m else ''
    if not os.path.exists(path):
        return 0
    with open(path, 'rb') as f:
        d = f.read()
    at, n = struct.unpack_from('<Q', d, 40)[0], struct.unpack_from('<H', d, 60)[0]
    sections = [struct.unpack_from('<IIQQQQ', d, at + 64 * i) for i in range(n)]
    began = time.process_time()
    for _, _, flags, _, offset, size in sections:
        if flags & 0x800:       # SHF_COMPRESSED: behind a header of 24 bytes
            zlib.decompress(d[offset + 24:offset + size])
    return (time.process_time() - began) * 1000


@case('it is told within 100 ms')
def _(bad):
    path = mt.build('wrong.c', 'gcc', '-fno-builtin')
    # where nothing but the unpacking takes longer than the half of it, the machine is too slow for that
    most = max(100, 50 + unpacking_ms()) * mt.SLOW
    waits = []
    for _ in range(5):
        p = mt.popen([mt.MTRUN, '-q', '--', path, 'later', 'double-realloc'], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        line = p.stdout.readline()
        while line and not line.startswith(b'survived'):
            line = p.stdout.readline()
        clock = mt.Stopwatch(p.pid)
        if not TOLD.match(p.stderr.readline().decode()):
            bad.append('not told')
        waits.append(clock.ms())
        mt.end_group(p)
    if sorted(waits)[2] > most:
        bad.append(f'ms: {waits}, at most {most:.0f}')


mt.finish()
