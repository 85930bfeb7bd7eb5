#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""
lent - a library that is loaded while gdb has the program is known, and its functions are hooked, when gdb has left.

There are processors whose extended state gdb cannot write back: it then calls no function in any program. So gdb first does alone, without mtrun, what it is
asked for below; where it cannot, nothing is learned here about mtrun, and the test says so.
"""
import json
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
if not shutil.which('gdb'):
    print('gdb is not installed')
    sys.exit(77)
d = mt.tmp()
VICTIM = mt.build('lent.c')
LIB = mt.build('lib/lent_lib.c', 'gcc', '-shared -fPIC', name='lent_lib.so')
LINE = next(n for n, text in enumerate(open(os.path.join(mt.VICTIMS, 'lib', 'lent_lib.c')), 1) if 'line:make' in text)
CALL = f'call ((void *(*)(const char *, int))dlopen)("{LIB}", 0x102)'
LOADED = r'= \(void \*\) 0x'
plain = mt.popen([VICTIM, 'any'], cwd=d)
mt.until(lambda: len(os.listdir(f'/proc/{plain.pid}/task')) == 5)
alone = mt.plain(['gdb', '-nx', '-q', '-batch', '-ex', CALL, '-p', str(plain.pid)], cwd=d, timeout=60)
mt.end_group(plain)
if not re.search(LOADED, alone.out.decode(errors='replace')):
    said = (alone.err or alone.out).decode(errors='replace').split('\n')
    mt.skip('a library that was loaded in gdb', f'gdb cannot call a function without mtrun either: {" / ".join(x for x in said if x)[-300:]}')
    mt.finish()
with open(f'{d}/s.mt', 'w') as f:
    f.write(f"""wait allocs > 100
gdb -nx -q -batch -ex '{CALL}' > gdb.txt
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
if not re.search(LOADED, read('gdb.txt')):
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
