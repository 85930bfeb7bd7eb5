#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 200
"""remembered - a stack that resembles the last one is its own: handlers at other depths and on other stacks, another outer end, memory that is gone."""
import re

import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()


def paths(r, letters):
    """PATH by SIZE, as the stacks say: the letters of the functions that are in LETTERS, outermost first."""
    stack = {row['stack_id']: ''.join(letters.get(f['function'], '') for f in reversed(row['stack'])) for row in r.stacks['mem_report']}
    return {b['size']: stack.get(b['stack_id']) for b in r.blocks['blocks'] if b['kind'] == 'heap'}


def expected(out):
    return {int(size): path for size, path in re.findall(r'^block (\d+) (\w+)', out.decode(), re.M)}


def stacks(name, source, build, args, letters, opts=()):
    path = mt.build(source, build)
    if not path:
        mt.skip(name, mt.build_reason(source, build))
        return
    r = mt.run([path, *args], ask=('stacks', 'blocks'), opts=opts)
    if r.rc:
        mt.fail(name, f'status {r.rc}: {r.messages[-300:]} {r.out[-100:]}')
        return
    if b'no such way' in r.out:
        mt.skip(name, 'no such way here')
        return
    want, have = expected(r.out), paths(r, letters)
    mt.check(name, [f'{size}: {have.get(size)}, not {path}' for size, path in want.items() if have.get(size) != path] + ([] if want or b'alive' in r.out else ['nothing said']))


HANDLERS = {'level': 'l', 'wide': 'w', 'shorter': 's', 'handler': 'h'}
for build in ('gcc', 'gcc-O0', 'gcc-fp', 'clang', 'static', 'musl'):
    for seed in range(1, 101 if mt.SOAK else 2):
        stacks(f'handlers {build} {seed}', 'handlers.c', build, ['4000' if mt.SOAK else '1000', str(seed)], HANDLERS, ['--depth', '400'])

TAKEN = {'called': 'c', 'outer': 'o', 'far': 'f'}
WAYS = ['fixed', 'fixed-syscall', 'fixed-raw', 'munmap', 'munmap-syscall', 'munmap-raw', 'protect', 'protect-syscall', 'protect-raw', 'pkey', 'remap', 'remap-over',
        'remap-over-syscall', 'dontunmap', 'dontneed', 'guard', 'brk', 'sbrk', 'shmdt', 'truncate', 'free']
for way in WAYS:
    stacks(f'taken {way}', 'taken.c', 'gcc', [way], TAKEN)
for way in WAYS if mt.SOAK else ('fixed', 'remap-over', 'free'):
    stacks(f'taken {way} static', 'taken.c', 'static', [way], TAKEN)
stacks('taken by a thread', 'taken.c', 'gcc', ['thread', '60' if mt.SOAK else '1'], TAKEN)

mt.finish()
