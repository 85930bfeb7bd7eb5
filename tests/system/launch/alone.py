#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""alone - mtrun copied into a chroot that holds nothing but it and a musl program (no /proc, no /dev, no shell) supervises it, symbols and lines included."""
import json
import os
import shutil
import subprocess

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
if os.getuid():
    mt.skip('chroot', 'needs root')
    mt.finish()
if ' INTERP ' in subprocess.run(['readelf', '-lW', mt.MTRUN], capture_output=True, text=True).stdout:
    mt.skip('chroot', 'this mtrun is linked shared, for its sanitizers')
    mt.finish()
for build in ('musl-static', 'musl', 'static'):
    for victim in ('sites.c', 'threads.c', 'family_tree.c'):
        name = f'{victim} {build}'
        path = mt.build(victim, build)
        if not path:
            mt.skip(name, mt.build_reason(victim, build))
            continue
        root = os.path.join(mt.tmp(), f'root.{build}.{victim}')
        os.makedirs(root)
        shutil.copy(mt.MTRUN, f'{root}/mtrun')
        shutil.copy(path, f'{root}/victim')
        if build == 'musl':
            os.makedirs(f'{root}/lib')
            shutil.copy('/lib/ld-musl-x86_64.so.1', f'{root}/lib/')
        before = set(os.listdir(root))

        def inside(where=root):
            os.chroot(where)
            os.chdir('/')
        args = ['/victim'] + (['fork'] if victim == 'family_tree.c' else ['20'] if victim == 'sites.c' else ['2', '2000'])
        r = mt.plain(['/mtrun', '-q', '--messages', '/m', '-x', 'wait exit; status --json > /s.json; report --all --json > /r.json', *args], preexec_fn=inside)
        bad = []
        try:
            with open(f'{root}/m') as f:
                r.messages = f.read()
            r.answers = {'status': json.load(open(f'{root}/s.json')), 'report': json.load(open(f'{root}/r.json'))}
            bad += mt.compare(r, mt.expectations(r.out), build == 'musl')
        except (OSError, ValueError) as e:
            bad.append(f'{e}: {r.messages[-300:]} {r.err[-200:]}')
        if r.rc:
            bad.append(f'status {r.rc}')
        left = set(os.listdir(root)) - before - {'m', 's.json', 'r.json'}
        if left:
            bad.append(f'left behind: {left}')
        mt.check(name, bad)
mt.finish()
