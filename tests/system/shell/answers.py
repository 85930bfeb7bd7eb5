#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 120
"""answers - each key of each command's JSON is in the manual's section about it."""
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
SITES = mt.build('sites.c', 'gcc')
D = mt.tmp()
COMMANDS = ['status', 'processes', 'report --by stack --usable -n 1', 'report --by thread', 'report --by size', 'report --since zero -n 1', 'diff zero', 'text', 'tree', 'list main',
            'timeline', 'snapshot', 'blocks -n 1', 'trace main', 'x main', 'who main', 'leaks --kinds all -n 1', 'map', 'limit --stacks', 'log', 'threads', 'bt']

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', '..', 'man', 'mtrun.1')) as f:
    section = re.search(r'^\.Sh JSON\n(.*?)^\.Sh ', f.read(), re.M | re.S)[1]
items = re.split(r'^\.It Ic (.*)\n', section, flags=re.M)
told = {}
for names, text in zip(items[1::2], items[2::2]):
    for name in names.split(' , '):
        told[name] = set(re.findall(r'[a-z_]+', ' '.join(re.findall(r'^\.Va (.*)$', items[0] + text, re.M))))


def keys(value):
    if isinstance(value, dict):
        return set(value) | {k for v in value.values() for k in keys(v)}
    return {k for v in value for k in keys(v)} if isinstance(value, list) else set()


def missing(command, answer):
    name = command.split()[0]
    also = told['processes'] if name == 'status' else set()
    return [f'{command}: {k}' for k in sorted(keys(answer) - told.get(name, set()) - also)]


def answers(opts, commands, status=0):
    """What each of COMMANDS answers."""
    text = '; '.join(f'{c} --json > {D}/{i}.json' for i, c in enumerate(commands))
    r = mt.plain([mt.MTRUN, '-q', *opts, '-x', f'snapshot zero; wait exit; {text}', SITES])
    return [(c, json.load(open(f'{D}/{i}.json'))) for i, c in enumerate(commands)] if r.rc == status else [(f'{c}: status {r.rc}: {r.err}', {'none': 0}) for c in commands[:1]]


found = answers([], COMMANDS) + answers(['-s', '1K'], ['report', 'status']) + answers(['-l', '20000', '--on-limit', 'fail'], ['limit --stacks'], status=99)  # what it says of itself then
mt.check(f'{len(found)} answers: the manual has all keys', [x for c, a in found for x in missing(c, a)])
names = re.findall(r'^([a-z]+)  ', mt.plain([mt.MTRUN, '-q', '-x', 'help', '/bin/true']).err.decode(), re.M)
usage = mt.plain([mt.MTRUN, '-q', '-x', '; '.join(f'help {name}' for name in names), '/bin/true']).err.decode()
mt.check('and every command that has --json', [name for name in re.findall(r'^([a-z]+) .*\[--json\]', usage, re.M) if name not in told] + ([] if len(names) > 40 else names))
r = mt.plain([mt.MTRUN, '-q', '-o', f'{D}/x.', SITES])
heap = [f for f in os.listdir(D) if f.endswith('.heap')]
r = mt.plain([mt.MTRUN, '-r', f'{D}/{heap[0]}', '-q', '-x', 'status --json'])
mt.check('status of a .heap file', missing('status', json.loads(r.out)))
mt.finish()
