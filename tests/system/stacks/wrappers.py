#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""
wrappers - well-known wrappers are no sites: their callers are, live, in a log and in a .heap file alike, unless `set site-wrappers off`.
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
d = mt.tmp()
VICTIM = mt.build('wrapped.c')
CALLERS = {'table_new': (3000, 30), 'key_new': (1000, 20)}
ALONE = {'xmalloc': (4000, 50)}                         # the innermost of both


def ask(commands, *args):
    r = subprocess.run([mt.MTRUN, '-q', '--messages', f'{d}/said', '-x', commands, *args], cwd=d, capture_output=True, timeout=60)
    with open(f'{d}/said') as f:
        text = f.read() + r.stdout.decode()
    return [{x['function']: (x['size'], x['count']) for x in json.loads(line)['mem_report']} for line in text.replace('\n{"size"', '{"size"').splitlines() if line.startswith('{"time_ms"')], text


BOTH = 'report --json; set site-wrappers off; report --json; set site-wrappers on; report --json'
for name, args, before in (('live', ('-m', 'log', '--log-dir', d, VICTIM), 'wait exit; export heap w.heap; '), ('in a .heap file', ('-r', f'{d}/w.heap'), ''), ('in a log', ('-r', d), '')):
    got, text = ask(before + BOTH, *args)
    mt.check(name, [] if got == [CALLERS, ALONE, CALLERS] else [got, text])
got, text = ask('wait exit; diff w.heap --json; help sites; set site-wrappers maybe', VICTIM)
mt.check('compared with a file', [] if got == [{}] and not text.count('xmalloc"') else [got, text])
mt.check('help sites lists them', [] if all(f'  {w}' in text for w in ('xmalloc*', 'zmalloc*', 'g_malloc*', 'PyMem_*', 'je_*')) and "invalid value 'maybe': expected on or off" in text else [text])
mt.finish()
