#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""trace - the story of one address: live and freed blocks, from inside too, and what an address is that is in none."""
import json
import os
import re
import subprocess

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
d = mt.tmp()
VICTIM = mt.build('traced.cc', 'gcc', '-pthread -g')
SOURCE = os.path.join(mt.VICTIMS, 'traced.cc')
LINE = {m[1]: n for n, text in enumerate(open(SOURCE), 1) if (m := re.search(r'line:(\w+)', text))}


def told(free_stacks, asks):
    """Runs the victim up to its last line, then ASKS(addresses) -> [(file, command)]; what the files hold, and the addresses."""
    first = ['-S', '-x', 'set free-stacks on; cont'] if free_stacks else []
    p = mt.popen([mt.MTRUN, '-q', *first, '-X', '-', VICTIM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=d)
    at = {}
    while 'tid' not in at:
        line = p.stdout.readline().decode()
        if not line:
            break
        name, value = line.strip().split('=')
        at[name] = int(value, 0)
    names = asks(at) if 'tid' in at else []
    script = ''.join(f'{command} > {name}\n' for name, command in names) + 'echo on\nkill\n'
    err = p.communicate(script.encode(), timeout=30)[1].decode()
    if err != 'on\n':
        mt.fail('one answer each', err)
    return at, {name: open(os.path.join(d, name)).read() for name, command in names}


def lines(stack):
    return [(f['function'].split('(')[0], f['line'], f['inlined']) for f in stack if f['file'] and f['file'].endswith('traced.cc')]


def asks(at):
    every = [(name, f'trace {value:#x} --json') for name, value in at.items() if name not in ('pid', 'tid')]
    return every + [('inside', f"trace {at['live'] + 999} --json"), ('beyond', f"trace {at['live'] + 1003} --json"),
                    ('in_freed', f"trace {at['freed'] + 2999:#x} --json"), ('in_mapping', f"trace {at['mapping'] + 65535:#x} --json"),
                    ('live.txt', f"trace {at['live'] + 8:#x}"), ('freed.txt', f"trace {at['freed']:#x}"), ('data.txt', f"trace {at['data']:#x}"),
                    ('off', 'set free-stacks')]


for on in (False, True):
    at, text = told(on, asks)
    if not text:
        mt.fail('the victim', 'has not said its addresses')
        continue
    how = 'free-stacks on' if on else 'free-stacks off'
    a = {n: json.loads(t) for n, t in text.items() if t.startswith('{')}

    def block(name, where, size, state, stack, thread='pid', kind='heap', free_thread=None, free_stack=()):
        r, bad = a[name], []
        known = state == 'live' or on
        want = {'block': hex(at[where]), 'size': size, 'state': state, 'kind': kind, 'thread': at[thread] if known else None,
                'freed_thread': at[free_thread] if free_thread else None}
        if (r['reachability'] in ('definite', 'indirect', 'possible', 'reachable')) != (state == 'live' and kind == 'heap'):
            bad.append(f"reachability {r['reachability']}")
        bad += [f'{k} is {r.get(k)}, should be {v}' for k, v in want.items() if r.get(k) != v]
        if not lines(r['stack'])[:len(stack)] == stack:
            bad.append(f"stack {lines(r['stack'])}, should begin with {stack}")
        if lines(r['free_stack'])[:2] != list(free_stack):
            bad.append(f"free_stack {lines(r['free_stack'])}, should begin with {list(free_stack)}")
        if known and not 0 <= r['age_ms'] < 30000 or (free_thread and not 0 <= (r['freed_ms_ago'] or 0) < 30000):
            bad.append(f"age_ms {r['age_ms']}, freed_ms_ago {r['freed_ms_ago']}")
        if stack and not all(f['column'] for f in r['stack'] if f['file'] and f['file'].endswith('traced.cc')):
            bad.append('columns are missing')
        mt.check(f'{how}: {name}', bad)

    taken = [('inner', LINE['inner'], True), ('outer', LINE['outer'], False)]
    given = [('giver_back', LINE['free'], False)] if on else []
    block('live', 'live', 1000, 'live', taken)
    block('inside', 'live', 1000, 'live', taken)
    block('grown', 'grown', 200000, 'live', [('main', LINE['realloc'], False)])
    block('mapping', 'mapping', 65536, 'live', [], kind='mmap')
    block('in_mapping', 'mapping', 65536, 'live', [], kind='mmap')
    block('bythread', 'bythread', 777, 'live', taken, thread='tid')
    main = next((f['line'] for f in a['freed']['free_stack'] if f['function'].startswith('main')), 0) if on else 0
    back = given + [('main', main, False)] if on else []
    block('freed', 'freed', 3000, 'freed', taken, free_thread='pid', free_stack=back)
    block('in_freed', 'freed', 3000, 'freed', taken, free_thread='pid', free_stack=back)
    block('old', 'old', 2000, 'freed', [('main', LINE['grown'], False)], free_thread='pid', free_stack=[('main', LINE['realloc'], False)] if on else [])
    by = next((f['line'] for f in a['freedby']['free_stack'] if f['function'].startswith('other')), 0) if on else 0
    block('freedby', 'freedby', 5000, 'freed', taken, thread='tid', free_thread='tid', free_stack=given + [('other', by, False)] if on else [])
    for name, want in {'stack': f"the stack of thread {at['pid']}", 'threadstack': f"the stack of thread {at['tid']}", 'data': r'counted in section \.data of .*traced.*',
                       'bss': r'table\+40 in section \.bss of .*traced.*', 'libc': r'.*strtol.* in section \.text of .*libc.*', 'nothing': 'unmapped',
                       'code': rf'giver_back\(void\*\) in section \.text of .*traced.* at {re.escape(SOURCE)}:\d+:\d+', 'beyond': "the allocator's heap"}.items():
        r = a[name]
        mt.check(f'{how}: {name} is no block', [] if r['state'] == 'none' and r['block'] is None and r['stack'] == [] and re.fullmatch(want, r['what']) else [r])
    if not on:
        mt.check('text of a live block', [] if re.fullmatch(
            rf"{at['live'] + 8:#x} is 8 bytes into a block of 1000 bytes at {at['live']:#x}, allocated \S+ ago by thread {at['pid']}, (still reachable|\w+ lost)\nPID: {at['pid']}\nLen: 1000\n"
            rf" +0: inner\n +at {re.escape(SOURCE)}:{LINE['inner']}:\d+\n      outer\(.*\)\n +at {re.escape(SOURCE)}:{LINE['outer']}:\d+\n +1: main\n.*",
            text['live.txt'], re.S) else [text['live.txt']])
        mt.check('text of no block', [] if re.fullmatch(rf"{at['data']:#x} is in no block: counted in section .*\n", text['data.txt']) else [text['data.txt']])
    mt.check(f'{how}: text of a freed block', [] if re.match(
        rf"{at['freed']:#x} is a freed block of 3000 bytes at .*freed \S+ ago by thread {at['pid']}; now: the allocator's heap\nPID: .*"
        + (r'\nfreed by \(\d+ frames\):\n +0: giver_back\(' if on else '\nwhere it was freed was not recorded'), text['freed.txt'], re.S) else [text['freed.txt']])
    mt.check(f'{how}: set says so', [] if text['off'].split()[1] == ('on' if on else 'off') else [text['off']])

for command, words in {'trace': 'missing address', 'trace zz': "invalid value 'zz'", 'trace 0x10 0x20': "'0x20'", 'trace --frob': "'--frob'",
                       'trace 0x1ffffffffffffffff': 'invalid value', 'set free-stacks maybe': 'on or off'}.items():
    r = mt.plain([mt.MTRUN, '-q', '-x', f'{command}; echo on', 'true'], cwd=d)
    text = r.err.decode()
    mt.check(f'mistake: {command}', [] if r.rc == 125 and words in text and text.count('\n') == 2 and text.endswith('on\n') else [text])
# ---- list: lines with their bytes, found as they are in the victim's own source
def listed(commands):
    p = mt.popen([mt.MTRUN, '-q', '-X', '-', VICTIM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=d)
    while (line := p.stdout.readline().decode()) and not line.startswith('tid='):
        pass
    return p.communicate((commands + '\nkill\n').encode(), timeout=30)[1].decode()


text = listed('list outer --bytes; list inner --bytes --json > j; list ^outer; list giver_back; echo on; list no_such_function; list (; trace main; list main')
held = 1000 + 16 + 777
rows = re.findall(r'^ +(\S+) +(\S+) +(\d+): ', text.split('ROUTINE')[1], re.M)
mt.check('list: cumulative bytes of the calling line', [] if ('.', str(held), str(LINE['outer'])) in rows and str(LINE['outer'] + 3) in [r[2] for r in rows]
         and 'void *p = inner(n);' in text else [text])
lines = json.load(open(os.path.join(d, 'j')))['functions']
mt.check('list: an inlined function', [] if len(lines) == 1 and lines[0]['lines'] == [{'line': LINE['inner'], 'flat': held, 'cum': held}] else [lines])
mt.check('list: mistakes are one line each', [] if re.search(r"\nmtrun: stdin:1: list: no function 'giver_back' .*\non\nmtrun: stdin:1: list: no function 'no_such_function' .*"
         r"\nmtrun: stdin:1: list: no function '\(' .*\n0x\w+ is in no block: main in section \.text of ", text) else [text])
with open(os.path.join(d, 'gone.c'), 'w') as f:
    f.write('#include <stdlib.h>\nint main(void)\n{\n\treturn !malloc(123);\n}\n')
subprocess.run(['gcc', '-g', '-O0', '-o', 'gone', os.path.join(d, 'gone.c')], cwd=d, check=True)
os.unlink(os.path.join(d, 'gone.c'))
with open(os.path.join(d, 'half.c'), 'w') as f:
    f.write('#include <stdlib.h>\nvoid *a, *b;\n' + '\n' * 20
            + 'static inline __attribute__((always_inline)) void *give(void) { return malloc(23); }\n'
            + 'int main(void)\n{\n\ta = malloc(100);\n\tb = give();\n\treturn 0;\n}\n')
subprocess.run(['gcc', '-g', '-O1', '-S', '-dA', os.path.join(d, 'half.c')], cwd=d, check=True)
with open(os.path.join(d, 'half.s')) as f:
    code = f.read()
with open(os.path.join(d, 'half.s'), 'w') as f:  # give() was called from no line
    f.write(re.sub(r'\.byte\t0x1b(\t# DW_AT_call_line)', r'.byte\t0\1', code))
subprocess.run(['gcc', '-o', 'half', 'half.s'], cwd=d, check=True)
r = mt.plain([mt.MTRUN, '-q', '-x', 'wait exit; list main --bytes', './half'], cwd=d)
text = r.err.decode().split('cumulative)\n')[-1]
mt.check('list: code of no line', [] if re.match(r' +\. +23 +0: \(no line is known\)\n +\. +\. +\d\d: ', text)
         and re.search(r'^ +100 +100 +26: \ta = malloc', text, re.M) else [r.err])
subprocess.run(['gcc', '-o', 'none', os.path.join(d, 'half.c')], cwd=d, check=True)
r = mt.plain([mt.MTRUN, '-q', '-x', 'wait exit; list main --bytes', './none'], cwd=d)
mt.check('list: no debug information', [] if r.err.decode().endswith(
    ' 123        123 Total (flat / cumulative)\n'
    'no line is known of it: there is no debug information\n') else [r.err])
r = mt.plain([mt.MTRUN, '-q', '-x', 'wait exit; list main --bytes', './gone'], cwd=d)
mt.check('list: a source that is gone', [] if re.search(r"its source was not found: '.*/gone\.c'\n +123 +123 +4: \n", r.err.decode()) else [r.err])

# ---- list: the program has written its own line table
open_dir = os.path.join(d, 'named')
os.mkdir(open_dir)
os.chmod(d, 0o755)
here = {name: os.path.join(open_dir, name) for name in ('plain', 'secret', 'link', 'fifo', 'large', 'held')}
for name, mode in (('plain', 0o644), ('secret', 0o600), ('large', 0o644)):
    with open(here[name], 'w') as f:
        f.write(f'the text of {name}\n' * 3)
    os.chmod(here[name], mode)
os.truncate(here['large'], 10 << 30)
os.symlink('secret', here['link'])
os.mkfifo(here['fifo'], 0o666)
here |= {'device': '/dev/zero', 'procfs': '/proc/self/environ'}
code = '#include <stdlib.h>\n'
for name, path in here.items():
    code += f'#line 2 "{path}"\n__attribute__((noinline)) void *from_{name}(void)\n{{\nreturn malloc(77);\n}}\n'
code += 'int main(void)\n{\n' + ''.join(f'if (!from_{name}()) return 1;\n' for name in here) + 'return 0;\n}\n'
with open(os.path.join(d, 'named.c'), 'w') as f:
    f.write(code)
program = os.path.join(open_dir, 'program')
subprocess.run(['gcc', '-g', '-O0', '-o', program, os.path.join(d, 'named.c')], check=True)
WHY = {'secret': 'Permission denied', 'link': 'Permission denied', 'fifo': 'it is not a regular file', 'device': 'it is not a regular file', 'large': 'it is too large',
       'procfs': 'it is not on a file system for files'}


def check_named(name, text, why):
    parts = {m[1]: m[2] for m in re.finditer(r'ROUTINE =+ from_(\w+) in [^\n]*\n(.*?)(?=ROUTINE|\Z)', text, re.S)}
    bad = [w for w in ('secret', 'large') if w in why and f'the text of {w}' in text]
    bad += [(k, parts.get(k)) for k, w in why.items() if f"source not readable: '{here[k]}': {w}\n" not in parts.get(k, '')]
    mt.check(name, bad + ([] if re.search(r'77 +77 +4: (?!\n)|77 +77 +4: $', parts.get('plain', ''), re.M) and 'the text of plain' in parts.get('plain', '') else [text]))


as_nobody = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'] if os.geteuid() == 0 else []
why = WHY if as_nobody else {k: w for k, w in WHY.items() if w != 'Permission denied'}
r = mt.plain([mt.MTRUN, '-q', '-o', os.path.join(d, 'named.'), '-m', 'log', '--log-dir', d, '-x', 'wait exit; list ^from_ --bytes', *as_nobody, program], cwd='/', timeout=30)
check_named('list: files that the program names are opened with its rights', r.err.decode(), why)
log = [f for f in os.listdir(d) if f.endswith('.mtlog')]
if as_nobody:
    heaps = [f for f in os.listdir(d) if f.startswith('named.') and f.endswith('.heap')]
    for kind, files in (('a log', log), ('a .heap file', heaps)):
        for f in files:
            os.chown(os.path.join(d, f), 65534, 65534)
        r = mt.plain([mt.MTRUN, '-q', '-x', 'list ^from_ --bytes', '-r', *(os.path.join(d, f) for f in files[-1:])], cwd=d, timeout=30)
        check_named(f'list: files that {kind} names are opened with the rights of its owner', r.out.decode(), why)
else:
    mt.skip('list: rights', 'not root')

# ---- debug files that are none
strange = os.path.join(open_dir, 'strange')
subprocess.run(f'cp {program} {strange} && objcopy --only-keep-debug {strange} {strange}.debug && objcopy --strip-all --remove-section=.note.gnu.build-id '
               f'--add-gnu-debuglink={strange}.debug {strange} && rm {strange}.debug && mkfifo {strange}.debug', shell=True, check=True)
r = mt.plain([mt.MTRUN, '-q', '-x', 'wait exit; report', strange], cwd=d, timeout=30)
mt.check('a debuglink to a FIFO is no wait', [] if r.rc == 0 and '0x' in r.err.decode() else [r])

r = mt.plain([mt.MTRUN, '-q', '-x', 'wait exit; trace 0x10; trace 0xffffffffffffffff', 'true'], cwd=d)
mt.check('at the last instant', [] if r.rc == 0 and r.err.decode().count('is in no block: unmapped\n') == 2 else [r.err])
mt.finish()
