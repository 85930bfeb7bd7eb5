#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# waits
"""
limit-past - what a limit does not count is said once: /dev/zero, shared memory, children that nobody
traces. How much it is, and the child's number, are the victim's (tests/victims/past.c). What is
counted, or is a file, or was there before, is not told so.
"""
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
d = mt.tmp()
path = mt.build('past.c')
SIZE = 50 << 20
SHARED = r'the limit does not count (\d+) bytes of shared memory'
SAID = {'devzero': r'the limit cannot see (\d+) bytes', 'memfd': SHARED, 'shm': SHARED,
        'untraced': r'its child (\d+) \(past\) runs untraced'}
ALL = r'the limit cannot see|the limit does not count|runs untraced'
NOT_COUNTED = r'\n  not counted (\d+) bytes'
AT_END = {'devzero': r'\n  not seen    (\d+) bytes', 'memfd': NOT_COUNTED, 'shm': NOT_COUNTED}


def lines(file):
    with open(file, errors='replace') as f:
        return f.read()


class Run:
    """A run of past.c with its messages in a file; end() closes its standard input."""
    def __init__(self, what, opts, pid=None):
        self.file = os.path.join(d, f'{what}.{len(os.listdir(d))}')
        open(self.file, 'w').close()
        program = ['-p', str(pid)] if pid else [path, what, os.path.join(d, 'big')]
        self.p = mt.popen([mt.MTRUN, '--messages', self.file, *opts, *program],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def end(self):
        self.p.stdin.close()
        self.p.wait(timeout=60)
        return lines(self.file)


def right(found, size, child=0):
    return found == [str(child)] if child else len(found) == 1 and abs(int(found[0]) - size) < 1 << 20


if not os.path.exists('/proc/self/task/%d/children' % os.getpid()):
    mt.skip('untraced', 'the kernel does not list children')
    del SAID['untraced']
for what, told in SAID.items():
    r = Run(what, ['-l', '10M', '--on-limit', 'report'])
    child = int(r.p.stdout.readline().split()[1])
    bad = [] if mt.until(lambda: re.search(told, lines(r.file)), 20) else ['it is not said']
    time.sleep(1.2 if what == 'devzero' or mt.SOAK else 0)      # not again
    text = r.end()
    if not right(re.findall(told, text), SIZE, child) or len(re.findall(ALL, text)) != 1:
        bad.append(f'of {child or SIZE}: {text}')
    if what in AT_END and not right(re.findall(AT_END[what], text), SIZE):
        bad.append(f'the summary: {text}')
    mt.check(what, bad)

for what in 'file', 'anonymous', 'traced':
    r = Run(what, ['-q', '-l', '100M'])
    r.p.stdout.readline()
    time.sleep(1.5)
    text = r.end()
    mt.check(f'{what}: nothing is said', [text] if re.search(ALL, text) else [])

if 'untraced' in SAID:
    v = mt.popen([path, 'before'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    v.stdout.readline()
    time.sleep(0.2)
    r = Run('before', ['-q', '-l', '10M', '--on-limit', 'report', '-x', 'echo attached; wait exit'], v.pid)
    mt.until(lambda: 'attached' in lines(r.file), 60)
    time.sleep(1.5)
    bad = [f'said of the first: {lines(r.file)}'] if re.search(ALL, lines(r.file)) else []
    v.stdin.write('x')
    v.stdin.flush()
    child = int(v.stdout.readline().split()[1])
    mt.until(lambda: re.search(SAID['untraced'], lines(r.file)), 20)
    if not right(re.findall(SAID['untraced'], lines(r.file)), 0, child):
        bad.append(f'of {child}: {lines(r.file)}')
    v.stdin.close()
    v.wait(timeout=60)
    r.end()
    mt.check('attached: only children that came later', bad)
mt.finish()
