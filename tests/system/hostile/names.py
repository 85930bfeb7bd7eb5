#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 200
"""
names - a program whose functions, files, library, executable, process, thread, arguments, mark and snapshot have names made to deceive: with control characters,
newlines, directions, bytes that are no UTF-8, and with what this or that format takes for its own. Every command and every export says of it what it says of
the same program with plain names, on as many lines, in UTF-8 without anything that a terminal obeys: live, from a log, from a .heap file, at the prompt.
"""
import csv
import gzip
import io
import json
import os
import re
import select
import shutil
import subprocess
import unicodedata
import xml.etree.ElementTree

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
d = mt.tmp()

ESC = '\x1b]0;owned\x07\x1b[2J\x1b[31m'
HIDDEN = '\u202e\u2066\u2069\u200b\u200e\u061c\ufeff\u2028\u2029\x85\x9b31m\U000e0041\x7f'
FORGED = {
    'functions': [
        ('f0' + ESC + '\r\nmtrun: all is well').encode() + b'\x9b31m\xff\xc0\x8a',
        ('f1' + HIDDEN).encode() + b'\xed\xa0\x80\xc3',
        b'f2\n\nheap profile: 1: 1\n# end 0\nsnapshot=9\n--- heap\ns 3 x\n;a;b 7\n',
        b'=HYPERLINK("http://e",1)\t"\\n\\x1b]]></title><script>alert(1)</script><!--',
        b'-f4--{};|"label="x",URL="javascript:1"&lt;\\l\\N#%</svg>$(id)`id`',
        'f5_größe_функция_名前_😀_e\u0301'.encode(),
    ],
    'files': [('/e/' + ESC + '\nx.c\u202e').encode() + b'\xff', b'=1+1,"\n\\']}
PLAIN = {'functions': [b'f%d' % i for i in range(6)], 'files': [b'/e/x.c', b'y.c']}
ORDINARY = FORGED['functions'][5].decode()


def unsafe(text, tabs=False, crlf=False):
    """What is wrong with TEXT (bytes), as problems."""
    if crlf:
        text = text.replace(b'\r\n', b'\n')
    # a function in Go's text of a profile: its tabs are these, and no others
    text = re.sub(rb'^#\t(0x[0-9a-f]+)\t([^\t\n]*)(?:\t([^\t\n]*))?$', rb'# \1 \2 \3', text, flags=re.M)
    try:
        text = text.decode()
    except UnicodeDecodeError as e:
        return [f'no UTF-8: {e}: {text[max(0, e.start - 30):e.end + 10]!r}']
    bad = []
    for m in re.finditer(r'[^ -~\n]', text):
        c = m[0]
        if unicodedata.category(c) in ('Cc', 'Cf', 'Zl', 'Zp', 'Cs') and not (tabs and c == '\t'):
            bad.append(f'{c!r} in {text[max(0, m.start() - 40):m.end() + 20]!r}')
    return bad[:3]


class Victim:
    """The program with the names of one table, in a directory of its own."""
    def __init__(self, name, names, odd):
        self.dir = os.path.join(os.fsencode(d), name + (b'_' + ESC.encode() + b'\n\xff\xe2\x80\xae' if odd else b'_x'))
        os.mkdir(self.dir)
        self.exe = self.dir + b'/exe' + (b'\x1b[1m\nmtrun: x' if odd else b'')
        self.lib = self.dir + b'/lib' + (b'\n7f0000000000-7f0000001000 r-xp 0 00:00 0 \xc2\x9b' if odd else b'') + b'.so'
        src = os.path.join(mt.VICTIMS, 'names.c')
        subprocess.run(['gcc', '-g', '-O1', '-w', '-shared', '-fPIC', '-DLIBRARY', '-o', self.lib, src], check=True)
        subprocess.run(['gcc', '-g', '-O1', '-w', '-o', self.exe, src, '-lpthread'], check=True)
        with open(self.exe, 'rb') as f:
            code = f.read()
        for kind, stem, end, size in (('functions', b'name_%d_', b'', 95), ('files', b'file_%d_', b'.c', 90)):
            for i, new in enumerate(names[kind]):
                old = stem % i
                old += b'x' * (size - len(old) - len(end)) + end
                assert old in code and len(new) <= size, (old, new)
                code = code.replace(old, new + b'_' * (size - len(new)))
        with open(self.exe, 'wb') as f:
            f.write(code)
        self.args = [self.exe, self.lib] + ([b'p\x1b[2J\nmtrun:\xff', b't\x1b]0;\x07\xc2\x9b\n', b'm\x1b[31m\nmtrun: \xe2\x80\xae' + b'\xff', b'arg\x1b[2J\n#;\xc2\x85', b'\xe2\x80']
                                         if odd else [b'process', b'thread', b'mark', b'arg', b'x'])
        self.out = self.dir + b'/out'
        os.mkdir(self.out)
        os.symlink(self.out, os.path.join(os.fsencode(d), name))
        self.files = os.path.join(d, name.decode())


# Every command of `help`, live; {}: a directory. What is told at length differs from run to run.
SERVED = ('metrics', 'api/v1/status', 'api/v1/report?by=stack', 'api/v1/threads', 'api/v1/processes', 'debug/pprof/heap?debug=1')
LIVE = ('status', 'status --json', 'report', 'report --all', 'report --by stack', 'report --by function', 'report --by file', 'report --by module', 'report --by thread', 'report --by size',
        'report --stacks', 'report --usable', 'report --json', 'report --by stack --all --json', 'report --match ____', 'text', 'text --cum', 'text --json', 'tree', 'tree --invert', 'tree --json',
        'timeline', 'timeline --table', 'timeline --plot', 'timeline --json', 'timeline --csv', 'snapshot', 'snapshot s1', 'snapshot --json', 'diff s1', 'diff s1 --by stack --json', 'blocks', 'blocks --json', 'map', 'map --json', 'map --frag', 'map --frag --json', 'leaks', 'leaks --json', 'leaks --new --kinds all -n all', 'leaks --kinds all --gen-suppressions',
        'blocks --site ____', 'x main', 'x main 32 --json', 'every', 'on', 'limit', 'limit --stacks', 'sample', 'record', 'log', 'log --json', 'interval', 'list .', 'list . --json', 'trace main', 'trace main --json', 'who main', 'who main --json', 'threads',
        'threads --json', 'bt all', 'bt all --json', 'processes', 'processes --json', 'process', 'set', 'history', 'help', 'help report', 'stop', 'bt', 'cont', 'dump {}/d.', 'wait 1ms', 'echo x', 'source /dev/null',
        '! true', 'every 100h { report --match "\x1b" }', 'every', 'on peak { echo "\x1b" }', 'on', 'interval 10ms', 'wait 50ms', 'interval off', 'listen', f'listen unix:{mt.tmp()}/s', *(f'! curl -s --unix-socket {mt.tmp()}/s "http://x/{path}"' for path in SERVED), 'listen off')
NOT_HERE = {'top': 'the prompt', 'fg': 'the prompt', 'gdb': 'gdb prints', 'run': 'ends the run', 'kill': 'ends the run', 'detach': 'ends the run', 'quit': 'ends the run', 'open': 'replay',
            'parse': 'replay', 'export': 'below'}
# What the user has typed comes back in errors.
EVIL = '\x1b[31m\u202e\x9b'
WRONG = ('frob' + EVIL, f"report --match '({EVIL}'", f"report --by '{EVIL}'", f"report --{EVIL}", f"list 'no{EVIL}\nmtrun: x'", f"source '/no{EVIL}\nx'", f"diff '{EVIL}'", f"process '{EVIL}'",
         f"export csv '/no{EVIL}/x'", f"export '{EVIL}' x", f"set site-skip '({EVIL}'", f"set '{EVIL}' 1", f"wait 'heap{EVIL} > 1'", f"limit '{EVIL}'", f"log dir '/no{EVIL}'", f"trace '{EVIL}'", f"who '{EVIL}'",
         f"x '{EVIL}'", f"help '{EVIL}'", f"sample '{EVIL}'", f"record '{EVIL}'", f"interval '{EVIL}'", f"every '{EVIL}' {{ }}", f"on '{EVIL}' {{ }}", f"kill '{EVIL}'", f"bt '{EVIL}'", f"dump '/no{EVIL}/x'",
         f"blocks --stack '{EVIL}'", f"map '{EVIL}'", f"map --frag -n '{EVIL}'", f"leaks '{EVIL}'", f"leaks --kinds '{EVIL}'", f"timeline --from '{EVIL}'", f"snapshot 's{EVIL}'", 'snapshot', f"echo '{EVIL}'", f"status > '/no{EVIL}/x'", f"report --at '{EVIL}'")
EXPORTS = ('heap', 'jemalloc', 'pprof', 'folded', 'flamegraph', 'graph', 'massif', 'heaptrack', 'dhat', 'speedscope', 'csv', 'json', 'html')
REPLAYED = ('status', 'status --json', 'report', 'report --by stack', 'report --by function', 'report --by module', 'report --by file', 'report --json', 'text', 'tree', 'list .', 'blocks', 'processes', 'timeline --plot',
            'trace main', 'open', 'parse', 'snapshot', 'process')
ENDING = {'graph': '.dot'}


def execute(options, commands, directory, name, program=()):
    """What each of COMMANDS prints, as bytes; and all that mtrun said."""
    script = os.path.join(directory, f'{name}.mt')
    with open(script, 'w') as f:
        for i, c in enumerate(commands):
            f.write(f'echo @@{i}\n{c}\n')
        f.write('echo @@end\n' + ('kill\n' if program else ''))
    there, ours = os.pipe()             # the program reads its input until it is killed
    try:
        r = mt.plain([mt.MTRUN, '-q', '-v', '-v', *options, '-X', script, *(['--', *program] if program else [])], stdin=there)
    finally:
        os.close(there)
        os.close(ours)
    text = r.err + r.out
    # which is said after each command
    text = re.sub(rb'^mtrun: `[^`\n]*` held the session for at most [^\n]*\n', b'', text, flags=re.M)
    parts = re.split(rb'^@@(\d+|end)\n', text, flags=re.M)
    return {int(k): v for k, v in zip(parts[1::2], parts[2::2]) if k != b'end'}, text


def commands_there():
    text = subprocess.run([mt.MTRUN, '-q', '-x', 'help', 'true'], capture_output=True, text=True).stderr
    return [line.split()[0] for line in text.split('\n\n')[0].splitlines()]


def compare(what, commands, forged, plain, loose=()):
    """Both have answers by number. Whether each is safe, valid where it is JSON, and of as many lines as with plain names."""
    bad = []
    for i, c in enumerate(commands):
        a, b = forged.get(i), plain.get(i)
        if a is None or b is None:
            bad.append(f'{c!r}: no answer')
            continue
        bad += [f'{c!r}: {x}' for x in unsafe(a)]
        if c.endswith('--json'):
            try:
                json.loads(a)
            except ValueError as e:
                bad.append(f'{c!r}: {e}')
        if b'\\' in b and '\x1b' not in c and not c.startswith(('every', 'on', 'snapshot', 'x ')):
            bad.append(f'{c!r}: escapes where names are plain: {b[:300]!r}')       # something of ours is taken for a text from outside
        if a.count(b'\n') != b.count(b'\n') and not c.startswith(loose):
            bad.append(f'{c!r}: {a.count(10)} lines, {b.count(10)} with plain names: {a[:600]!r} {b[:300]!r}')
    mt.check(what, bad)


# ---- formats ---------------------------------------------------------------------------------------------------------------------------

def strings_of(message):
    """The string table of a pprof profile: field 6."""
    at, found = 0, []

    def number():
        nonlocal at
        n = shift = 0
        while True:
            c = message[at]
            at += 1
            n |= (c & 127) << shift
            shift += 7
            if c < 128:
                return n

    while at < len(message):
        key = number()
        if key & 7 == 2:
            n = number()
            if key >> 3 == 6:
                found.append(message[at:at + n])
            at += n
        else:
            number()
    return found


def check_format(name, path):
    with open(path, 'rb') as f:
        text = f.read()
    if name == 'pprof':
        return [x for s in strings_of(gzip.decompress(text)) for x in unsafe(s) + ([f'newline in {s!r}'] if b'\n' in s else [])]
    bad = unsafe(text, tabs=name in ('flamegraph', 'html'), crlf=name == 'csv')     # (their scripts are indented)
    if bad:
        return bad
    text = text.decode()
    if name in ('json', 'dhat', 'speedscope'):
        json.loads(text)
    elif name == 'html':
        json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])
        bad += [f'{text.count("<script")} scripts'] if text.count('<script') != 2 or '<!--' in text else []
    elif name == 'flamegraph':
        bad += ['another script'] if len([e for e in xml.etree.ElementTree.fromstring(text).iter() if e.tag.endswith('script')]) != 1 else []
    elif name == 'csv':
        for row in csv.reader(io.StringIO(text, newline='')):
            if len(row) != 6 or any(c[:1] in tuple('=+-@') for c in row[2:]):
                bad.append(row)
    elif name == 'folded':
        bad += [line for line in text.splitlines() if not re.fullmatch(r'[^;\n]+(;[^;\n]+)* \d+', line)]
    elif name == 'massif' and shutil.which('ms_print'):
        r = subprocess.run(['ms_print', path], capture_output=True)
        bad += [r.stderr] if r.returncode or r.stderr else []
    elif name == 'heaptrack' and shutil.which('heaptrack_print'):
        r = subprocess.run(['heaptrack_print', path], capture_output=True)
        bad += [r.stderr] if r.returncode else []
    elif name == 'graph' and shutil.which('dot'):
        r = subprocess.run(['dot', '-Tsvg', path], capture_output=True)
        bad += [r.stderr] if r.returncode or r.stderr else []
        bad += ['URL of its own'] if b'javascript:1' in re.sub(rb'<title>.*?</title>|<text.*?</text>|title="[^"]*"', b'', r.stdout) else []
    elif name == 'jemalloc':
        head, rest = text.split('\n---\n--- heap\n')[:2]
        bad += [line for line in head.splitlines()[2:] if not re.match(r'0x[0-9a-f]{16} .', line)]
    return bad


def export_commands(v, where, names):
    return [f'export {n} {v.files}/{where}.{n}{ENDING.get(n, "")}' for n in names]


def check_exports(where, forged, plain, names):
    for n in names:
        paths = [f'{v.files}/{where}.{n}{ENDING.get(n, "")}' for v in (forged, plain)]
        try:
            bad = check_format(n, paths[0])
            counts = [open(p, 'rb').read().count(b'\n') for p in paths]
            if n in ('folded', 'flamegraph', 'graph', 'speedscope', 'csv') and counts[0] != counts[1]:
                bad.append(f'{counts[0]} lines, {counts[1]} with plain names')
            if n != 'pprof' and ORDINARY not in open(paths[0], encoding='utf-8').read():
                bad.append(f'{ORDINARY} is not there as it is')
        except Exception as e:
            bad = [f'{type(e).__name__}: {e}']
        mt.check(f'{where}: export {n}', bad)


# ---- where names are shown ---------------------------------------------------------------------------------------------------------------

def live(forged, plain):
    missing = [c for c in commands_there() if c not in NOT_HERE and not any(x.split()[0] == c for x in LIVE)]
    mt.check('each command of `help` is tried', missing)
    commands = ['wait heap > 100000', *LIVE, *WRONG]
    answers = {}
    for v in (forged, plain):
        answers[v], said = execute(['-m', 'log-fast', '--log-dir', f'{v.files}'], [c.format(v.files) if c.startswith('dump') else c for c in commands] + export_commands(v, 'live', EXPORTS), v.files, 'live', v.args)
        if v is forged:
            mt.check('live: all that is said', unsafe(said))
            mt.check('live: an ordinary name is shown as it is', [] if ORDINARY.encode() in said else ['it is not'])
            mt.check('live: names are there, escaped', [t for t in (r'f0\x1b]0;owned\x07', r'\u202e\u2066', r'\xff', r'p\x1b[2J\nmtrun', r't\x1b]0;', r'm\x1b[31m\nmtrun: \u202e') if t.encode() not in said])
    compare('live: commands', commands, answers[forged], answers[plain], ('status', 'timeline', 'wait', 'log', 'interval'))
    check_exports('live', forged, plain, EXPORTS)


def recorded(forged, plain):
    names = [n for n in EXPORTS if n not in ('massif', 'heaptrack', 'dhat', 'html')]
    for where, options, commands in (('log', lambda v: ['-r', v.files], REPLAYED),
                                     ('heap', lambda v: ['-r', next(os.path.join(v.files, f) for f in sorted(os.listdir(v.files)) if f.startswith('d.'))],
                                      [c for c in REPLAYED if not c.startswith(('blocks', 'timeline', 'trace', 'parse', 'open', 'process'))])):
        answers = {}
        for v in (forged, plain):
            answers[v], said = execute(options(v), [*commands, *export_commands(v, where, names)], v.files, where)
            if v is forged:
                mt.check(f'{where}: all that is said', unsafe(said))
                mt.check(f'{where}: names are there, escaped', [t for t in (r'f0\x1b]0;owned\x07', r'\u202e\u2066', ORDINARY) if t.encode() not in said])
        compare(f'{where}: commands', commands, answers[forged], answers[plain], ('status', 'timeline', 'open'))
        check_exports(where, forged, plain, names)


def outside(forged):
    """Without a shell: what stands on the command line, and a process that runs by itself."""
    bad = []
    for args in (['no\x1b[31m\nmtrun: x'], ['-p', 'x\x1b'], ['-r', '/no\x1b\nmtrun: x'], ['--no\x1b\n'], ['-x', 'frob\x1b\x9b', 'true'], ['--hook', 'f\x1b\n=x\x9b', 'true'], ['-l', '\x1b', 'true'],
                 ['-m', '\x9b', 'true'], ['--messages', '/no\x1b\n/x', 'true'], ['-o', '/no\x1b\n/x', 'true'], ['-X', '/no\x1b\n', 'true'], ['--log-dir', '/no\x1b\n', '-m', 'log', 'true'], ['-\x1b']):
        r = subprocess.run([mt.MTRUN, *args], capture_output=True, stdin=subprocess.DEVNULL)
        bad += [f'{args}: {x}' for x in unsafe(r.stderr + r.stdout)]
        if re.search(rb'^mtrun: x', r.stderr, re.M):
            bad.append(f'{args}: {r.stderr!r}')
    mt.check('the command line', bad)
    p = subprocess.Popen(forged.args, stdin=subprocess.PIPE)
    mt.until(lambda: len(os.listdir(f'/proc/{p.pid}/task')) == 2)
    tid = [t for t in os.listdir(f'/proc/{p.pid}/task') if int(t) != p.pid][0]
    bad = []
    for args, wanted in ((['-p', tid], rb"is a thread of process %d ('p\x1b[2J\nmtrun:\xff')" % p.pid), (['-p', str(p.pid), '-v', '-v', '-x', 'status; report; threads; processes; quit'], rb'p\x1b[2J\nmtrun:\xff'),
                         (['-p', str(p.pid), '-x', f'! {mt.MTRUN} -p {p.pid} 2>&1 | cat', '-x', 'quit'], rb"('p\x1b[2J\nmtrun:\xff'): it is traced already")):
        r = mt.plain([mt.MTRUN, *args])
        bad += [f'{args}: {x}' for x in unsafe(r.err + r.out)] + ([f'{args}: {r.err + r.out}'] if wanted not in r.err + r.out else [])
    mt.check('attaching', bad)
    p.kill()
    p.wait()


SEQUENCE = re.compile(b'\x1b(\\[[?0-9;]*[A-Za-z]|[=>]|\\([A-Z0-9])|[\r\b\x07]')       # readline's, and ours


class Prompt(mt.Prompt):
    """Which keeps all bytes: a character may come in two pieces."""
    seen = b''

    def read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            more = os.read(self.fd, 65536)
        except OSError:
            return False
        self.seen += more
        self.text += more.decode(errors='replace')
        return True


def prompt(forged):
    """In a terminal: our own sequences may be there, nothing of the names."""
    p = Prompt(*[os.fsdecode(a) for a in forged.args])
    bad = [] if p.wait(r'mt> $') else [p.text]
    for keys, done in (('wait heap > 100000\n', r'mt> $'), ('report --all\n', r'mt> $'), ('report --all | cat\n', r'mt> $'), ('tree\n', r'mt> $'), ('threads\n', r'mt> $'), ('processes\n', r'mt> $'), ('timeline --plot\n', r'mt> $'),
                       ('list f\t\t', r'.'), ('\x03', r'mt> $'), ('trace f\t\t', '.'), ('\x03', r'mt> $'), (f'source {forged.files}/../\t\t', '.'), ('\x03', r'mt> $'), ('diff m\t\t', '.'),
                       ('\x03', r'mt> $'), ('history\n', r'mt> $'), ('top -n 5\n', r'total .* blocks'), ('q', r'mt> $'), ('kill; quit\n', r'.')):
        p.send(keys)
        if not p.wait(done):
            bad.append(f'{keys!r}: {p.text[-200:]!r}')
        while p.read(0.05):
            pass
    seen = p.seen.decode(errors='replace')
    if not bad and (ORDINARY not in seen or r'f0\x1b]0;owned' not in seen):
        bad.append('names are not there')
    for text in ('owned\x07', '\x1b[31m', '\x1b]0', '\ufffd'):
        if text in seen.replace('\x1b[1;31mmtrun', ''):
            bad.append(f'{text!r} in {seen[max(0, seen.index(text) - 60):seen.index(text) + 20]!r}')
    bad += unsafe(SEQUENCE.sub(b'', p.seen))
    mt.check('at the prompt', bad)
    p.end()


# ---- the code -----------------------------------------------------------------------------------------------------------------------------

def call_at(text, at):
    """The call whose parenthesis is at AT, to its end."""
    depth, quote, i = 0, '', at
    while True:
        c = text[i]
        if quote:
            i += c == '\\'
            quote = '' if c == quote else quote
        elif c in '"\'':
            quote = c
        else:
            depth += (c == '(') - (c == ')')
            if not depth:
                return text[at:i + 1]
        i += 1


# What is printed past the function, and why it may be.
OURS = {'image.c': 'the embedded trampoline', 'message.c': r'^\((whole, message_own\(\)|escaped, (out|f))\)$', 'options.c': r'left|MTRUN_VERSION', 'help.c': 'c->help',
        'status.c': r'^\(reporting_end', 'plot.c': r'^\((time|as|labelled.*|c->p->utf8.*), out\)$',
        # what escape_unit() and escape_copy() have made
        'folded.c': r'^\(as, out\)$', 'call_graph.c': 'as \\+ 1', 'heaptrack.c': r'^\(copy \?', 'jemalloc.c': r'^\(as, out\)$', 'xml.c': r'^\(as, out\)$'}


def nobody_passes_by():
    bad = []
    for folder, _, names in (x for top in ('supervisor', 'shell') for x in os.walk(os.path.join(mt.TOP, top))):
        for name in sorted(names):
            if not name.endswith('.c') or name in ('escape.c', 'json.c'):
                continue
            with open(os.path.join(folder, name)) as f:
                text = f.read()
            for m in re.finditer(r'(?<![a-z_])(v?d?f?printf|fputs(?:_unlocked)?|puts)\(', text):
                args = re.sub(r'\s+', ' ', call_at(text, m.end() - 1))
                literal = re.match(r'\((\w[^"?]* \? "[^"]*" : )*(\w[^"?]* \? "[^"]*" : )?"', args)
                wrong = re.search(r'%[-+ #0]*(\*|\d+)?(\.(\*|\d+)?)?s', args) if 'printf' in m[1] else not literal
                if wrong and not (name in OURS and re.search(OURS[name], args)):
                    bad.append(f'{folder}/{name}: {m[1]}{args}')
    mt.check('all that prints a text prints it escaped', bad)


nobody_passes_by()
forged, plain = Victim(b'forged', FORGED, True), Victim(b'plain', PLAIN, False)
live(forged, plain)
recorded(forged, plain)
outside(forged)
prompt(forged)
mt.finish()
