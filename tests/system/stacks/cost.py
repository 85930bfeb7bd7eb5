#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 100
"""
cost - how many instructions a walk of the stack takes, as callgrind counts them in the trampoline's own code: the same each time, whatever else the machine does. More than
before fails; when a change is worth it, the figures here change with it.
"""
import os
import re
import shutil
import subprocess

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

# instructions a walk, the loop around it included, and in `near` and `cold` that all whole stacks are forgotten; gcc 12, -O2
MOST = {'hit': 387.0, 'near': 2918.5, 'cold': 6585.6, 'small': 2689.2}
SLACK = 1.02
WALK = os.path.join(mt.BUILD, 'unit', 'inject', 'test_walk')

def counted(kind, n):
    r = subprocess.run(['valgrind', '--tool=callgrind', '--callgrind-out-file=/dev/null', WALK, 'cost', kind, str(n)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    m = re.search(r'Collected : (\d+)', r.stderr)
    if r.returncode or not m:
        raise RuntimeError(f'status {r.returncode}: {r.stderr[-300:]}')
    return int(m[1])

if not shutil.which('valgrind'):
    mt.skip('the cost of a walk', 'no valgrind here')
elif mt.SLOW > 1:
    mt.skip('the cost of a walk', 'a build with sanitizers')
elif '12.' not in subprocess.run(['cc', '-dumpfullversion'], stdout=subprocess.PIPE, text=True).stdout:
    mt.skip('the cost of a walk', 'counted with gcc 12')
else:
    for kind, most in MOST.items():
        few, many = counted(kind, 1000), counted(kind, 11000)
        each = (many - few) / 10000
        mt.check(f'the cost of a walk: {kind}', [f'{each:.1f} instructions, {most} before'] if each > most * SLACK else [])

mt.finish()
