#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 200
# waits
"""
memtracer - programs made for MiniOB's MemTracer: built against its libmemtracer.so (tests/victims/lib/memtracer.cc stands for it), with it preloaded, or
with our header in its place. mtrun answers, limits and prints; the library does neither.
"""
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
want = re.compile(sys.argv[1] if len(sys.argv) > 1 else '')
ENV = {k: v for k, v in os.environ.items() if not k.startswith('MT_') and k != 'LD_PRELOAD'}
HIT = re.compile(r'\[MEMTRACER\] alloc memory:(\d+), allocated_memory: (\d+), memory_limit: (\d+), Memory limit exceeded!')
USAGE = re.compile(r'\[MEMTRACER\] allocated memory: (\d+), metadata memory: (\d+)( peak: \d+, rss: \d+)?')

lib = mt.build('lib/memtracer.cc', 'gcc', '-shared -fPIC', name='libmemtracer.so')
where = lib and os.path.dirname(lib)
linked = lib and mt.build('memtracer.cc', 'gcc', f'-L{where} -Wl,-rpath,{where} -Wl,--no-as-needed -lmemtracer', name='memtracer-linked')
header = mt.build('memtracer.cc', 'gcc', f'-DWITH_HEADER -I{mt.TOP}/inject', name='memtracer-header')
if not linked or not header:
    print(mt.build_reason('memtracer.cc', 'gcc'), mt.build_reason('lib/memtracer.cc', 'gcc'))
    sys.exit(77)

VARIANTS = [('the library linked', linked, {}), ('the header', header, {}), ('the header, the library preloaded', header, {'LD_PRELOAD': lib}),
            ('the library linked and preloaded', linked, {'LD_PRELOAD': lib})]


def supervised(opts, words, env):
    return mt.plain([mt.MTRUN, '-q', *opts, '--', *words], env={**ENV, **env})


def memtracers(r):
    return [x for x in r.err.decode(errors='replace').splitlines() if '[MEMTRACER]' in x]


def base(opts, words, env):
    """What the program holds beside what it knows of: libstdc++'s own block and the like; with LIMIT it must be so to the byte."""
    r = supervised(opts, [words[0]], env)
    n = [int(x) for x in r.out.decode().splitlines()[-1].split()]
    return r, n


for name, program, env in VARIANTS:
    if want.search(f'{name}: answers'):
        bad = []
        for opts, more, limit in (([], {}, 0), (['-l', '123456789'], {}, 123456789), ([], {'MT_MEMORY_LIMIT': '50000000'}, 50000000),
                                  (['-l', '1G'], {'MT_MEMORY_LIMIT': '50000000'}, 1 << 30)):
            r, n = base([*opts, '-c', 'heap'], [program], {**env, **more})
            # libstdc++ has a block of its own from its start on, the library's thread has more
            if len(n) != 5 or not 0 <= n[0] - n[3] < 200000 or n[1] % 8 or not 0 <= n[1] // 8 - n[4] < 50 or n[2] != limit or memtracers(r):
                bad.append(f'{opts} {more}: {r.out} {memtracers(r)}')
        mt.check(f'{name}: answers', bad)
    if want.search(f'{name}: the limit'):
        bad = []
        for opts, limit_of in (([], lambda b: {'MT_MEMORY_LIMIT': str(b)}), (['-l', '0'], lambda b: {})):
            count = ['-c', 'heap,mmap']
            r, n = base(count, [program], env)
            over = n[0] - n[3]
            limit = over + 3000000
            opts = ['-l', str(limit)] if opts else []
            r = supervised([*count, '-i1h', *opts], [program, 'grow'], {**env, **limit_of(limit)})
            said = memtracers(r)
            m = HIT.fullmatch(said[0]) if len(said) == 1 else None
            asks = [x.split() for x in r.out.decode().splitlines()]
            request, held = (int(x) for x in asks[-1][1:])
            if not m:
                bad.append(f'{limit}: {r.err[:300]}')
            elif [int(x) for x in m.groups()] != [request, over + held, limit] or over + held + request <= limit or over + held > limit:
                bad.append(f'{m[0]}: the program asked for {request}, held {held} beside {over}')
            if any(int(x[1]) + int(x[2]) > limit - over for x in asks[:-1]):
                bad.append('it was given more than the limit')
            if r.rc != -9:
                bad.append(f'status {r.rc}')
        mt.check(f'{name}: the limit', bad)
    if want.search(f'{name}: usage lines'):
        bad = []
        asked = ({'MT_PRINT_INTERVAL_MS': '200'}, 3), ({}, 0), ({'MT_MEMORY_LIMIT': '900000000'}, 0)
        for more, least in asked:
            began = time.monotonic()
            r = supervised(['-c', 'heap'], [program, 'wait'], {**env, **more})
            most = int((time.monotonic() - began) / 0.2) if least else 0
            said = [USAGE.fullmatch(x) for x in memtracers(r)]
            n = [int(x) for x in r.out.decode().splitlines()[-1].split()]
            told = [(int(m[1]), int(m[2])) if m else None for m in said]
            whole = n[0], n[1]
            held = told[told.index(whole):] if whole in told else []     # before, it had not all of it yet
            right = all(m and m[3] for m in said) and all(x == whole for x in held)
            if not right or len(held) < least or len(said) > most:
                bad.append(f'{more}: {memtracers(r)}, held {n}')
        mt.check(f'{name}: usage lines', bad)

# the same without mtrun: what the library itself does, so that the above is not true of anything
if want.search('without'):
    bad = []
    r = mt.plain([linked], env=ENV)
    n = [int(x) for x in r.out.decode().splitlines()[-1].split()]
    if n[2] != (1 << 64) - 1 or len(memtracers(r)) > 1 or any(USAGE.fullmatch(x)[3] for x in memtracers(r)):
        bad.append(f'{r.out} {r.err}')
    r = mt.plain([header, 'grow'], env={**ENV, 'LD_PRELOAD': lib, 'MT_MEMORY_LIMIT': '3000000'})
    if r.rc != 255 or sum(bool(HIT.fullmatch(x)) for x in memtracers(r)) != 1:
        bad.append(f'{r.rc} {r.err}')
    r = mt.plain([header], env=ENV)
    if r.out.splitlines()[-1] != b'0 0 0 1000 2':
        bad.append(r.out)
    mt.check('without mtrun', bad)
# What MemTracer's own unit test does, step by step, and what is allocated more than before after each. Two of these are others there: 10 after the realloc to
# a smaller size, 1024 after the mmap (mtrun-migrating(7)).
UNIT = [1024, 0, 1 << 30, 0, 1, 0, 4, 0, 1024, 0, 1000, 0, 10, 1, 100, 0, 4096, 0, 1024, 0]
if want.search('its unit test'):
    with open(mt.tmp() + '/unit.cc', 'w') as f:
        f.write('#include <cstdio>\n#include <cstdlib>\n#include <sys/mman.h>\n#include "memtracer/mt_info.h"\nextern "C" void *__libc_malloc(size_t);\n'
                'static void *volatile p;\nstatic long base, told[32];\nstatic int n;\n'
                'static void tell() { told[n++] = static_cast<long>(memtracer::allocated_memory()) - base; }\n'
                'int main()\n{\n\tbase = static_cast<long>(memtracer::allocated_memory());\n' +
                ''.join(f'\tp = {take}; tell(); {give}; tell();\n' for take, give in (
                    ('malloc(1024)', 'free(p)'), ('malloc(1 << 30)', 'free(p)'), ('new char', 'delete static_cast<char *>(p)'), ('new int', 'delete static_cast<int *>(p)'),
                    ('new char[1024]', 'delete[] static_cast<char *>(p)'), ('calloc(10, 100)', 'free(p)'),
                    ('realloc(nullptr, 10)', 'p = realloc(p, 1); tell(); p = realloc(p, 100); tell(); free(p)'),
                    ('mmap(nullptr, 1024, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)', 'munmap(p, 1024)'), ('__libc_malloc(1024)', 'free(p)'))) +
                '\tfor (int i = 0; i < n; i++)\n\t\tprintf("%ld ", told[i]);\n}\n')
    cmd = ['g++', '-O1', '-w', f'-I{mt.TOP}/inject', '-o', mt.tmp() + '/unit', mt.tmp() + '/unit.cc']
    subprocess.run(cmd, check=True)
    r = supervised([], [mt.tmp() + '/unit'], {})
    mt.check('what its unit test does', [] if [int(n) for n in r.out.split()] == UNIT else [f'{r.out} {r.err}'])

mt.finish()
