#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""who.py - what holds a block: the way to it from each kind of root, as the victim has made it; and `trace`, which says whether anything does."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
LINE = {m[1]: n for n, text in enumerate(open(os.path.join(mt.VICTIMS, 'held.c')), 1) if (m := re.search(r'(calloc)\(1, sizeof', text))}
# name: its class, the first of the path with its name and offset (None: any), and how many blocks there are
WANT = {'beyond': ('reachable', 'variable', 'big', 120000, 1),
        'variable': ('reachable', 'variable', 'table', 24, 1), 'chain': ('reachable', 'variable', 'table', 24, 4), 'local': ('reachable', 'thread-local', 'local', 8, 1),
        'other_local': ('reachable', 'thread-local', 'local', 0, 1), 'frame': ('reachable', 'stack', 'hold_here', None, 1),
        'thread_frame': ('reachable', 'stack', 'hold_there', None, 1), 'register': ('reachable', 'register', 'r12', 0, 1), 'middle': ('possible', 'variable', 'inside', 0, 1),
        'lost': ('definite', 'block', 'make', 3, 1), 'under': ('indirect', 'block', 'make', 8, 2)}


def told(p):
    at = {}
    while line := p.stdout.readline().decode().split():
        if line == ['up']:
            return at
        at[line[0]] = int(line[1], 16)
    raise Exception('the victim has ended')


def check(how, a, at):
    for name, (kind, first, what, offset, blocks) in WANT.items():
        r = a.json(f'who {at[name] + 3:#x}')
        path, bad = r['path'], []
        if r['block'] != hex(at[name]) or r['address'] != hex(at[name] + 3) or r['reachability'] != kind:
            bad.append(f"block {r['block']}, address {r['address']}, {r['reachability']}")
        if (path[0]['kind'], path[0]['name']) != (first, what) or offset not in (None, path[0]['offset']):
            bad.append(f'begins with {path[0]}')
        inner = [x for x in path if x['kind'] == 'block']
        if len(inner) != blocks or [x['offset'] for x in inner] != [8] * (blocks - 1) + [3] or inner[-1]['block'] != hex(at[name]):
            bad.append(f'blocks {inner}')
        if name != 'middle' and {(x['name'], x['line'], x['size']) for x in inner} != {('make', LINE['calloc'], 24)}:
            bad.append(f'sites {inner}')
        if t := a.json(f'trace {at[name]:#x}')['reachability'] != kind:
            bad.append(f'trace says {t}')
        mt.check(f'{how}: {name}', bad)


VICTIM = mt.build('held.c', 'gcc', '-g -pthread')
a = mt.Launched([VICTIM])
try:
    at = told(a.p)
    check('launched', a, at)
    text = a.ask(f"who {at['chain']:#x}")
    mt.check('text', [] if re.fullmatch(
        rf"{at['chain']:#x} is a block of 24 bytes at {at['chain']:#x}, still reachable\n   0: variable table\+24\n      in .bss of {re.escape(VICTIM)}\n"
        rf"(   [123]: block 0x\w+ of 24 bytes, at \+8\n      make at \S+held.c:\d+\n){{3}}   4: block {at['chain']:#x} of 24 bytes\n      make at \S+held.c:\d+\n", text)
        else [text])
    text = a.ask(f"trace {at['under']:#x}")
    mt.check('text of trace', [] if ', indirectly lost\nPID: ' in text else [text])
    text = a.ask('who table')
    r = a.json('who table')
    mt.check('in no block', [] if ' is in no block: table in section .bss of ' in text and r['block'] is None and r['path'] == [] and r['reachability'] is None else [text, r])
finally:
    a.end()

p = mt.popen([VICTIM], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
try:
    at = told(p)
    a = mt.Attached(p.pid)
    for name, held_by in ('variable', 'table'), ('beyond', 'big'):
        r = a.json(f"who {at[name]:#x}")
        path = [(x['kind'], x['name'], x['offset']) for x in r['path']]
        right = r['block'] == f"{at[name]:#x}" and r['reachability'] == 'reachable' and len(path) == 2
        mt.check(f'attached: it was there before: {name}', [] if right and
                 path[0][:2] == ('variable', held_by) and path[1] == ('block', '[no stack]', 0) else [r])
    what = {name: a.json(f'trace {at[name]:#x}')['what'] for name in ('cell', 'behind')}
    mt.check('attached: behind the first page of .bss, and right behind its last',
             [] if what['cell'] == f'big+120000 in section .bss of {VICTIM}' and
             what['behind'].startswith('anonymous memory (mapping ') else [what])
    mt.check('attached: left', a.leave())
finally:
    mt.kill(p.pid)
    p.wait()
mt.finish()
