#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""lent - a library that is loaded while gdb has the program is known, and its functions are hooked, when gdb has left."""
import json
import os
import re
import shutil
import sys

import mt

mt.need_mtrun()
if not shutil.which('gdb'):
    print('gdb is not installed')
    sys.exit(77)
d = mt.tmp()
VICTIM = mt.build('lent.c')
LIB = mt.build('lib/lent_lib.c', 'gcc', '-shared -fPIC', name='lent_lib.so')
LINE = next(n for n, text in enumerate(open(os.path.join(mt.VICTIMS, 'lib', 'lent_lib.c')), 1) if 'line:make' in text)
with open(f'{d}/s.mt', 'w') as f:
    f.write(f"""wait allocs > 100
gdb -nx -q -batch -ex 'call ((void *(*)(const char *, int))dlopen)("{LIB}", 0x102)' > gdb.txt
! touch go
! timeout 10 sh -c 'until [ -e came ]; do sleep 0.02; done'
report --json > report
report --by stack --json > stacks
kill
""")
r = mt.plain([mt.MTRUN, '-q', '-v', '--hook', 'valloc_of_mine=malloc', '-X', 's.mt', VICTIM], cwd=d, timeout=60)


def read(name):
    try:
        with open(f'{d}/{name}') as f:
            return f.read()
    except OSError:
        return ''


bad = [] if r.rc == -9 else [f'status {r.rc}']
if not re.search(r'= \(void \*\) 0x', read('gdb.txt')):
    bad.append(f'gdb: {read("gdb.txt")!r}')
rows = {(os.path.basename(x['file'] or ''), x['line']): x for x in json.loads(read('report') or '{"mem_report": []}')['mem_report']}
made = rows.get(('lent_lib.c', LINE))
if not made or (made['size'], made['function']) != (777, 'lent_make'):
    bad.append(f'the block of the library: {made}, rows {list(rows)}')
stack = next((x['stack'] for x in json.loads(read('stacks') or '{"mem_report": []}')['mem_report'] if x['size'] == 777), [])
if [x['function'] for x in stack][1:3] != ['lent_make', 'main'] and [x['function'] for x in stack][:2] != ['lent_make', 'main']:
    bad.append(f'its stack: {[x["function"] for x in stack]}')
if not any(x['size'] == 1000 for x in rows.values()):
    bad.append('the allocator of the library is not hooked')
mt.check('a library that was loaded in gdb', bad + ([r.err.decode()[-600:]] if bad else []))
mt.finish()
