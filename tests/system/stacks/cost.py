#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 100
"""
cost - how many instructions a walk of the stack takes, as callgrind counts them in the trampoline's own code, and how many pages a start touches: the same each time, whatever
else the machine does. More than before fails; when a change is worth it, the figures here change with it.
"""
import os
import re
import shutil
import subprocess

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

# instructions a walk, the loop around it included, and in `near` and `cold` that all whole stacks are forgotten; gcc 12, -O2
MOST = {'hit': 298.0, 'many': 470.0, 'near': 2540.0, 'cold': 6111.0, 'small': 2905.5}
SLACK = 1.02
# pages that /bin/true touches under mtrun, mtrun's own included, beside what it does without; each is dear in a virtual machine. (A former head: 587)
MOST_PAGES = 495
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
        few, many = counted(kind, 11000), counted(kind, 21000)  # 256 stacks are known by then
        each = (many - few) / 10000
        mt.check(f'the cost of a walk: {kind}', [f'{each:.1f} instructions, {most} before'] if each > most * SLACK else [])

def pages(argv):
    pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, '/dev/null', os.O_WRONLY, 0)])
    return os.wait4(pid, 0)[2].ru_minflt

if mt.SLOW > 1:
    mt.skip('the pages of a start', 'a build with sanitizers')
else:
    n = min(pages([mt.MTRUN, '-q', '/bin/true']) for _ in range(3)) - pages(['/bin/true'])
    mt.check('the pages of a start', [f'{n}, at most {MOST_PAGES}'] if n > MOST_PAGES else [])

mt.finish()
