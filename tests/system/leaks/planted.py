#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""
planted - a server that works all the time is told to leak, in one way after the other, and is scanned: each leak is there, to the byte, with the stack that it was
allocated by, and nothing else; in each way in which memory can be captured. A cache that only grows is no leak: a difference shows it.
"""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
want = re.compile(sys.argv[1] if len(sys.argv) > 1 else '')
ROUNDS = 100 if mt.SOAK else 2
PLUGIN = mt.build('lib/lost_plugin.c', extra='-shared -fPIC', name='lost_plugin.so')
# Who has allocated what is lost: the function that definite blocks are from, and in which they are the head of others.
SITES = {'container': 'open_session', 'thread': 'use_scratch', 'plugin': 'lost_fill'}


def tell(a, command):
    a.p.stdin.write((command + '\n').encode())
    a.p.stdin.flush()
    return list(map(int, a.p.stdout.readline().split()[1:]))


def found(r, function):
    """What is lost by FUNCTION: as the program says it, and the functions that called it."""
    sums, callers = [0, 0, 0, 0], set()
    for x in r['records']:
        names = [f['function'].split('(')[0] for f in x['stack']]
        if x['kind'] in ('definite', 'indirect') and function in names:
            at = 0 if x['kind'] == 'definite' else 2
            sums[at] += x['bytes']
            sums[at + 1] += x['blocks']
            callers.add(names[names.index(function) + 1])
    return sums, callers


def leaking(a, how):
    told = {kind: [0, 0, 0, 0] for kind in SITES}
    before = a.json('leaks')
    bad = [f'at first: {before["records"]}'] if before['definite']['blocks'] else []
    for i in range(ROUNDS):
        for kind, n in (('container', 50), ('thread', 5), ('plugin', 3)):
            told[kind] = tell(a, f'{kind} {n}')
            r = a.json('leaks --kinds definite,indirect')
            for k, function in SITES.items():
                sums, callers = found(r, function)
                if sums != told[k]:
                    bad.append(f'{k}, after {kind}: {sums}, should be {told[k]}')
                if told[k][1] and len(callers) != 1:
                    bad.append(f'{k}: called by {callers}')
            everything = [sum(t[j] for t in told.values()) for j in range(4)]
            if [*r['definite'].values(), *r['indirect'].values()] != everything:
                bad.append(f'in all {r["definite"]} {r["indirect"]}, should be {everything}: {[x["stack"][1]["function"] for x in r["records"]]}')
            if r['captured_by'].split()[0] != how.split('-')[0]:
                bad.append(f'captured by {r["captured_by"]}')
    mt.check(f'{how}: what was planted is found', bad)


def growing(a):
    tell(a, 'cache 1000')
    before = a.json('leaks --kinds all')
    a.ask('snapshot then')
    held = tell(a, 'cache 3000')
    after, diff = a.json('leaks --kinds all'), a.json('diff then')
    bad = []
    if after['definite'] != before['definite']:
        bad.append(f"lost: {after['definite']}, before {before['definite']}")
    # words() is the site, since it makes the text; the cache's own nodes are the other one
    rows = {x['function'].split('(')[0]: x for x in diff['mem_report']}
    grown = sum(x['size'] for name, x in rows.items() if name in ('words', 'grow_cache'))
    if grown < held[0] * 3 // 4 or not any(name in rows for name in ('words', 'grow_cache')):
        bad.append(f'grown by {grown}, it holds {held}: {list(rows.items())[:4]}')
    reachable = [x for x in after['records'] if x['kind'] == 'reachable' and any('grow_cache' in f['function'] for f in x['stack'])]
    if sum(x['blocks'] for x in reachable) < 4000:
        bad.append(f'reachable: {len(reachable)} records')
    mt.check('a cache that grows is held, and seen', bad)


victim = mt.build('planted.cc')
if not victim or not PLUGIN:
    print(mt.build_reason('planted.cc', 'gcc'))
    sys.exit(77)
for how in ('stop',):
    if not want.search(how):
        continue
    a = mt.Launched([victim], env={**os.environ, 'MTRUN_CAPTURE': how, 'LOST_LIBRARY': PLUGIN})
    try:
        assert a.p.stdout.readline() == b'up\n'
        leaking(a, how)
        if how == 'stop':
            growing(a)
    finally:
        a.end()
mt.finish()
