#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""
screens - on a terminal no line of any command is wider than the window, whatever the names are; sizes are in units or with --bytes exact; without a UTF-8 locale there is only ASCII. Elsewhere rows are exact and whole.
"""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
import unicodedata

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
d = mt.tmp()
os.chdir(d)
VICTIM = mt.build('screens.cc')
ENV = {**os.environ, 'HOME': d, 'PAGER': 'cat', 'LC_ALL': 'C.UTF-8'}
COMMANDS = ['status', 'report', 'report --by function', 'report --by file', 'report --by module', 'report --by thread', 'report --by size', 'report --by stack -n 5', 'report --all',
            'report --usable', 'report --stacks -n 3 --match insert', 'report --stacks -n 1 --match hold', 'report --stacks --usable -n 2', 'diff zero', 'diff zero --by stack -n 3', 'diff zero --stacks -n 2', 'report --since zero', 'blocks', 'text', 'text --cum',
            'text --bytes', 'tree', 'tree --invert', 'tree --bytes', 'map', 'map --frag', 'map --bytes', 'threads', 'processes', 'leaks --kinds all -n 3', 'list hold', 'snapshot one', 'snapshot', 'snapshot --bytes', 'dump x.', 'dump --bytes x.', 'limit',
            'limit 100M', 'limit', 'status', 'status --bytes', 'report --bytes', 'diff zero --bytes', 'blocks --bytes', 'set', 'interval', 'log', 'sample', 'record', 'every', 'on', 'listen', 'help',
            'timeline --plot', 'help sites', 'help all', 'bt', 'bt all', 'x main', 'who main']


def width(line):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in 'WF' else 1 for c in line)


def printed(columns, opts, program, answers=False, **env):
    """What mtrun prints on standard error, and of ANSWERS also on standard output, in a window that is so wide."""
    m, s = pty.openpty()
    fcntl.ioctl(s, termios.TIOCSWINSZ, struct.pack('HHHH', 24, columns, 0, 0))
    p = subprocess.Popen([mt.MTRUN, '--color', 'never', *opts, *program], stdin=subprocess.PIPE, stdout=s if answers else subprocess.DEVNULL, stderr=s, env={**ENV, **env}, start_new_session=True)
    os.close(s)
    text, end = b'', time.monotonic() + 60
    while time.monotonic() < end and select.select([m], [], [], 60)[0]:
        try:
            text += os.read(m, 65536)
        except OSError:
            break
    p.kill()
    p.wait()
    os.close(m)
    text = text.decode().replace('\r\n', '\n')
    # on a slow machine: how far it is, which is gone when the answer comes
    for line in re.findall(r'\r([^\r\n]*?)\x1b\[K', text):
        assert width(line) < columns, line
    return re.sub(r'\r[^\r\n]*?\x1b\[K', '', text)


def on_terminal(commands, columns, **env):
    """What each of COMMANDS prints there."""
    script = '; '.join(f'echo "=={i}"; {c}' for i, c in enumerate(commands))
    text = printed(columns, ['-q', '-S', '-x', f'snapshot zero; cont; wait heap > 150000 timeout 20s; wait allocs > 1400 timeout 20s; {script}; kill'], [VICTIM], **env)
    parts = re.split(r'^==\d+\n', text, flags=re.M)[1:]
    return dict(zip(commands, parts)), len(parts)


def batch(commands, program):
    return subprocess.run([mt.MTRUN, '-q', '-x', commands, program], stdin=subprocess.PIPE, capture_output=True, env=ENV, timeout=60).stderr.decode()


names = re.findall(r'^([a-z]+)  ', batch('help', '/bin/true'), re.M)
COMMANDS += [f'help {name}' for name in names]
for columns in 80, 120, 200:
    got, n = on_terminal(COMMANDS, columns)
    bad = [] if n == len(COMMANDS) and len(names) > 40 else [f'{n} of {len(COMMANDS)} commands']
    bad += [f'{c}: {line!r}' for c, text in got.items() for line in text.splitlines() if width(line) > columns]
    bad += [f'{c}: {text!r}' for c, text in got.items() if re.search('^mtrun: ', text, re.M) and c != 'help map']
    bad += [f'{c} says nothing' for c, text in got.items() if not text.strip() and c not in ('snapshot one', 'limit 100M')]
    mt.check(f'{columns} columns: no line is wider', bad)
    stack = got['report --stacks -n 1 --match hold']
    mt.check(f'{columns} columns: where a frame is stands behind its name, below a long one', [stack] if not re.search(r'^ +\d: a_company\S*.*::hold\(.*\)\n( +)\S*/screens\.cc:25\n +\d: main +\S*/screens\.cc:\d+$', stack, re.M) else [])
    if columns != 80:
        continue
    mt.check('the others stand in their column', [got['blocks']] if not re.search(r'^FUNCTION.*SIZE(?= ).*\n(.*\n)+\(others: \d+\) {8,}\d\S* *$', got['blocks'], re.M) else [])
    heads = re.findall(r'^([A-Z]+)  +\S.*\n((?:  .*\n)+)', got['help'], re.M)
    mt.check('help: five groups on one screen, with every command', [got['help']] if len(heads) != 5 or got['help'].count('\n') > 23 or
             set(' '.join(x for _, x in heads).split()) != {*names, '!', 'x'} else [])
    mt.check('help: tables and paragraphs keep their lines', [x for x in re.findall(r'^\w+$', got['help sites'], re.M)] + ([] if re.search(r'^    .* mem-fast +mem$', got['help record'], re.M) else [got['help record']]))
    mt.check('threads have names', [got['report --by thread']] if not re.search(r'^\d+ +screens +206\.\d?', got['report --by thread'], re.M) else [])
    rows = re.findall(r'^(\S.*?)  +(\S+):25 +(\S+) +([\d.]+)% +(\d+)$', got['report'], re.M)
    mt.check('a table: function, where, size, share, count', [got['report']] if len(rows) != 1 or rows[0][2] != '97.7K' or rows[0][4] != '100' or not got['report'].splitlines()[1].startswith('FUNCTION ') or
             not 0 < float(rows[0][3]) < 100 else [])
    mt.check('what every C++ program has is named', [got['report']] if not re.search(r'^\[C\+\+ exception pool\] +\S+ +71\.0K +', got['report'], re.M) else [])
    mt.check('--bytes: exact', [got['report --bytes']] if not re.search(r':25 +100000 ', got['report --bytes']) else [])
    amount = [re.search(r'^(?:one .*|x\..*): (\S+( bytes)?) in \d+ blocks', got[c], re.M)[1] for c in ('snapshot', 'snapshot --bytes', 'dump x.', 'dump --bytes x.')]
    mt.check('snapshot and dump: in units, --bytes: exact', [amount] if [x for x in amount[::2] if not re.fullmatch(r'20\d\.\dK', x)] or [x for x in amount[1::2] if not re.fullmatch(r'2\d{5} bytes', x)] else [])
    mt.check('list: units that fit', [got['list hold']] if not re.match(r'Total: 20\d\.\dK\n', got['list hold']) or not re.search(r'^ +97\.7K +97\.7K +25: ', got['list hold'], re.M) else [])
    mt.check('text: units that fit', [got['text']] if not re.match(r'Total: 20\d\.\dK\n +FLAT .*\n +97\.7K ', got['text']) or '0.0' in re.sub(r'\S+%', '', got['text']) else [])
    mt.check('a long name has its beginning and its end', [got['report']] if not re.search(r'^a_company\S*…', got['report'], re.M) else [])
    mt.check('C++ names as people write them', [f'{c}: {x}' for c, text in got.items() for x in ('char_traits', 'std::allocator<', '__cxx11') if x in text] +
             [text for c, text in got.items() if c == 'report --stacks -n 3 --match insert' and not re.search(r'^      \(\d+ within the next are not shown: --full\)\n +\d*:? *std::', text, re.M)])

got, n = on_terminal(COMMANDS, 80, LC_ALL='C')
mt.check('LANG=C: ASCII only, no wider', [f'{c}: {line!r}' for c, text in got.items() for line in text.splitlines() if not line.isascii() or len(line) > 80] or ([] if n == len(COMMANDS) else [n]))

# Instances of one template are told apart: those whose names would look alike stand below their numbers.
with open('alike.cc', 'w') as f:
    f.write('#include <cstdlib>\nnamespace some { template <class K, class V> struct longer_than_most { __attribute__((noinline)) void *operator()(K, V) { return malloc(100 * sizeof(V)); } }; }\n'
            'int main() { return !some::longer_than_most<int, char>()(1, 2) + !some::longer_than_most<long, int>()(1, 2) + !some::longer_than_most<char, long>()(1, 2); }\n')
if subprocess.run(['g++', '-g', '-O1', '-o', 'alike', 'alike.cc']).returncode == 0:
    text = printed(80, ['-q', '-x', 'wait exit; text'], ['./alike'])
    below = re.findall(r'^    (some::.*)\n', text, re.M)
    mt.check('text: names that look alike stand below', [text] if len(below) != 3 or len(set(below)) != 3 or max(map(width, text.splitlines())) > 80 else [])

# The same where there is no terminal, or not at the end.
row = r'^\S*/screens\.cc +line:25 +size:100000 +count:100 +a_company_.*::hold\(unsigned long\)$'
got, n = on_terminal(['report | cat', f'report > {d}/report', 'report --json', 'report --full'], 80)
text = open(f'{d}/report').read()
mt.check('into a pipe, a file, as JSON and with --full: whole and exact', [got, text] if '[C++' in got['report | cat'] + text or not all(re.search(row, t, re.M) and t.startswith('total_size: ') for t in (got['report | cat'].replace('\r', ''), text, got['report --full'])) or
         not re.search(r'\{"size":100000,"count":100,', got['report --json']) else [])
text = batch('wait heap > 150000 timeout 20s; wait allocs > 1400 timeout 20s; report; status; blocks -n 1; help report; kill', VICTIM)
mt.check('without a terminal, too', [text] if not re.search(row, text, re.M) or not re.search(r'^memory     heap \d+ \(usable \d+\) \+ mmap \d+ \+ image \d+', text, re.M) or
         not re.search(r'^0x[0-9a-f]{12}  size:\d+  age:', text, re.M) or max(map(len, text.splitlines())) < 120 else [])
# What is said on mtrun's own account: at the limit (but for the first line, which is fixed) and at the end.
limited = ['-l', '190000', '-c', 'heap']
text = printed(80, limited, [VICTIM])
mt.check('the limit and the summary on a terminal', [text] if [x for x in text.splitlines() if width(x) > 80 and not x.startswith('[MEMTRACER] alloc memory:')] or '--full' in text or
         not re.match(r'\[MEMTRACER\] .*\nprocess \d+ \(screens\), thread \d+ \(screens\), after .*: \S+\s(bytes )?more,\swith\s\d+\sbytes\sof\sroom\sleft,\sasked\sfor\sby\n +0: ', text) or
         not re.search(r'^what it holds:\ntotal 18\d\.\dK in \d+ blocks\nFUNCTION +WHERE +SIZE +SHARE +COUNT\n.* 97\.7K +\d\d\.\d% +100\n', text, re.M) or
         not re.search(r'^mtrun: .*\n  peak        18\d\.\dK at .*\n  allocated   [123]\d\d\.\dK in .*\n  still live  18\d\.\dK in .*\n  limit       185\.5K, hit 1 time$', text, re.M) else [])
text = subprocess.run([mt.MTRUN, *limited, VICTIM], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENV, timeout=60).stderr.decode()
mt.check('and in a pipe', [text] if not re.search(r': \d+ bytes? more, with \d+ bytes of room left, asked for by\n', text) or not re.search(r'^what it holds:\ntotal_size: 1[89]\d{4}\n', text, re.M) or
         not re.search(r'^  peak        1[89]\d,\d{3} bytes at .*\n  allocated   [123]\d\d,\d{3} bytes in .*\n  still live  1[89]\d,\d{3} bytes in .*\n  limit       190,000 bytes, hit 1 time$', text, re.M) else [])
# An error of the program: its first line is as everywhere, its stacks are laid out.
wrong = mt.build('wrong.c')
text = printed(80, ['-q'], [wrong, 'double'])
mt.check('an error on a terminal', [text] if max(map(width, text.splitlines())) > 80 or not re.search(r'^   0: \w+ +\S*wrong\.c:\d+$', text, re.M) or not re.search(r'^mtrun: double free of 0x', text, re.M) or
         not re.search(r'^allocated.*, by$', text, re.M) else [])
# One line of its own is folded between words where the window would cut it, and nowhere else.
wrong = ['-q', '--color', 'never', '-x', 'wait exit; diff a b; leaks --kinds no']
text = subprocess.run([mt.MTRUN, *wrong, '/bin/true'], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENV, timeout=60).stderr.decode()
for columns in 40, 80:
    folded = printed(columns, wrong, ['/bin/true'])
    mt.check(f'messages are folded at {columns} columns', [folded, text] if max(map(width, folded.splitlines())) > columns or folded.replace('\n       ', ' ') != text or
             text.count('\n') != 2 or folded.count('\n') < 4 else [])
text = subprocess.run([mt.MTRUN, '-h'], stdout=subprocess.PIPE, env=ENV, timeout=60).stdout.decode()
for columns in 80, 120:
    folded = printed(columns, ['-h'], [], answers=True)
    mt.check(f'--help is folded at {columns} columns', [folded] if max(map(width, folded.splitlines())) > columns or folded.split() != text.split() else [])
mt.finish()
