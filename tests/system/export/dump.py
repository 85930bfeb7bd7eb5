#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 300
"""
dump.py - .heap files: each way to have one written, what is in it against the victim's own books, what jeprof and google-pprof say of it against `text`,
and -r, which says the same as the live process did when the program is gone.
"""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
VICTIM = mt.build('dump.c', 'gcc') or sys.exit(mt.build_reason('dump.c', 'gcc'))


class Run:
    """mtrun over the victim, which is told line by line what to do."""
    def __init__(self, *opts, cmd=(VICTIM,)):
        self.dir = mt.tempfile.mkdtemp(dir=mt.tmp())
        self.p = mt.popen([mt.MTRUN, *opts, '--', *cmd], cwd=self.dir, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def do(self, line):
        """(live bytes, live blocks, bytes ever, blocks ever, peak) after it."""
        self.p.stdin.write((line + '\n').encode())
        self.p.stdin.flush()
        return tuple(int(n) for n in self.p.stdout.readline().split())

    def end(self, status=0):
        out, err = self.p.communicate((f'x {status}\n').encode() if self.p.poll() is None else None, timeout=mt.TIMEOUT)
        self.rc, self.err = self.p.returncode, err.decode()
        return self

    def files(self, why='*'):
        """In the order in which they were written."""
        return sorted(glob.glob(f'{self.dir}/*.{why}.heap'), key=lambda f: int(f.rsplit('.', 3)[1]))


def header(path):
    """(live bytes, live blocks, bytes ever, blocks ever) of the first line, after looking at the rest."""
    with open(path) as f:
        text = f.read()
    m = re.match(r'heap profile: +(\d+): +(\d+) \[ *(\d+): +(\d+)\] @ heapprofile\n', text)
    rows = re.findall(r'^ *(\d+): +(\d+) \[ *(\d+): +(\d+)\] @ 0x', text, re.M)
    sums = [sum(int(r[i]) for r in rows) for i in range(4)]
    if not m or [int(n) for n in m.groups()] != sums or not re.search(r'\n# end [0-9a-f]{8}\n\Z', text):
        return f'{path}: {text[:200]!r}, the rows add up to {sums}'
    return sums[1], sums[0], sums[3], sums[2]


def expect(bad, what, path, books):
    if header(path) != tuple(books[:4]):
        bad.append(f'{what}: {header(path)}, should be {books[:4]}')


# ---- when they are written ------------------------------------------------------------------------------------------------------

def at_the_end():
    bad = []
    r = Run('-q', '-o', 'x.')
    r.do('a 100 1000')
    r.do('f 40')
    books = r.do('b 10 50000')
    r.end(3)
    files = r.files()
    if r.rc != 3 or len(files) != 1 or not re.fullmatch(r'x\.\d+\.0\.f\.heap', os.path.basename(files[0])):
        return [f'status {r.rc}, files {files}']
    expect(bad, 'x 3', files[0], books)
    if os.stat(files[0]).st_mode & 0o777 != 0o600:
        bad.append(f'mode {os.stat(files[0]).st_mode:o}')
    if r.err != f'mtrun: {books[0]} bytes in {books[1]} blocks from 2 stacks still live\n':
        bad.append(r.err)
    r = Run('-q', '--dump-exit').end()
    if len(r.files()) != 1 or not os.path.basename(r.files()[0]).startswith('mtrun.') or r.err != 'mtrun: 0 bytes in 0 blocks from 0 stacks still live\n':
        bad.append(f'--dump-exit: {r.files()} {r.err}')
    r = Run('-q', '--dump-exit')
    r.do('a 1 1')
    if r.end().err != 'mtrun: 1 bytes in 1 blocks from 1 stacks still live\n':     # its words are fixed
        bad.append(f'one block: {r.err}')
    r = Run('-q', '-o', 'k.')
    books = r.do('a 5 100')
    mt.kill(next(iter(mt.children_of(r.p.pid))), signal.SIGSEGV)
    r.end()
    if r.rc != -signal.SIGSEGV or len(r.files('f')) != 1:
        bad.append(f'killed: status {r.rc}, {r.files()}')
    else:
        expect(bad, 'killed', r.files('f')[0], books)
    return bad


def after_a_time():
    bad = []
    r = Run('-d', '0.5', '-o', 'd.')
    books = r.do('a 7 777')
    line = b''
    while line and b'succeeded' not in line or not line:
        line = r.p.stderr.readline()
        if not line:
            return ['no line']
    books_after = r.do('a 1 5')             # untraced, but there
    r.end(5)
    file = re.fullmatch(r'succeeded in collecting memory data! (\S+\.f\.heap)\n', line.decode())
    if not file or r.err or r.rc != 5 or books_after[1] != 8:
        return [f'{line} {r.err!r} {r.rc}']
    expect(bad, '-d', os.path.join(r.dir, file[1]), books)
    r = Run('-q', '-d', '1h', '-o', 'd.').end()
    if not re.search(r'\nsucceeded in collecting memory data! d\.\d+\.0\.f\.heap\n\Z', r.err):
        bad.append(f'ended before: {r.err}')
    return bad


def command():
    bad = []
    d = mt.tempfile.mkdtemp(dir=mt.tmp())
    script = f'wait allocs >= 12; dump {d}/one.; dump; ! touch {d}/go; wait exit; dump {d}/three.; dump {d}/none/x'
    r = Run('-q', '-x', script)
    books = r.do('a 12 4321')
    if not mt.until(lambda: os.path.exists(f'{d}/go'), 20):
        bad.append('the script waits')
    after = r.do('f 2')
    r.end()
    one, two, three = glob.glob(f'{d}/one.*.0.u0.heap'), r.files('u1'), glob.glob(f'{d}/three.*.2.u2.heap')
    if not (one and two and three):
        return bad + [f'{one} {two} {three} {r.err}']
    expect(bad, 'first', one[0], books)
    expect(bad, 'second', two[0], books)
    expect(bad, 'third', three[0], after)
    if f'{one[0]}: {books[0]} bytes in {books[1]} blocks from 1 stack\n' not in r.err:
        bad.append(r.err)
    if r.rc != 125 or f"mtrun: dump: cannot write '{d}/none/x" not in r.err or not r.err.endswith('.heap\': No such file or directory\n'):
        bad.append(f'status {r.rc}: {r.err}')
    return bad


def signals():
    bad = []
    r = Run('-q', '-o', 'u.')
    for i in range(3):
        books = r.do(f'b {i + 1} 1000')
        r.p.send_signal(signal.SIGUSR1)
        if not mt.until(lambda: len(r.files(f'u{i}')) == 1, 20):
            return [f'{r.files()}']
        expect(bad, f'signal {i}', r.files(f'u{i}')[0], books)
    r.end()
    if r.rc or [os.path.basename(f).split('.', 2)[2] for f in r.files()] != ['0.u0.heap', '1.u1.heap', '2.u2.heap', '3.f.heap']:
        bad.append(f'{r.rc} {r.files()}')
    return bad


def early_signal():
    """The program has hardly begun when it comes."""
    bad = []
    for i in range(20):
        r = Run('-q', '-o', 'u.', cmd=['sh', '-c', 'kill -USR1 $PPID; read line'])
        if not mt.until(lambda: len(r.files('u0')) == 1, 20):
            bad.append(f'{i}: {r.files()}')
        r.end()
    return bad


def each_so_many():
    bad, size = [], 1 << 20
    r = Run('-q', '-o', 'i.', '--dump-every', '1M')
    r.do('p 2 1000 1')                      # the symbols are read once
    for i in range(6):
        books = r.do(f'a 1 {size}')
        r.do('f 1')
        if not mt.until(lambda: len(r.files('i*')) == i + 1, 20):
            return [f'after {books[2]}: {r.files()}']
        if not i * size < header(r.files('i*')[-1])[2] <= books[2]:
            bad.append(f'{i}: {header(r.files("i*")[-1])}')
    r.end()
    r = Run('-q', '-o', 'i.', '--dump-every', '100G').end()
    if len(r.files()) != 1:
        bad.append(f'{r.files()}')
    return bad


def peaks():
    bad = []
    r = Run('-q', '--dump-peak')
    first = r.do('a 10 1000')
    if not mt.until(lambda: len(r.files('m*')) >= 1, 20):
        return ['no peak']
    began, written = time.monotonic(), len(r.files('m*'))
    r.do('p 300 100 5000')
    took, more = time.monotonic() - began, len(r.files('m*')) - written
    if not 1 <= more <= took + 1:
        bad.append(f'{more} files in {took:.1f} s')
    highest = r.do('b 5 30000')
    low = r.do('f 200')
    r.end()
    last = r.files('m*')[-1]
    if header(last)[:2] != highest[:2] or highest[4] != highest[0]:
        bad.append(f'the last: {header(last)}, should be {highest}; live at the end: {low}')
    live = [header(f)[0] for f in r.files('m*')]
    if live != sorted(set(live)) or live[0] > first[0]:
        bad.append(f'{live}')
    return bad


def at_the_limit():
    bad = []
    r = Run('-q', '-o', 'l.', '-c', 'heap', '-l', '100000')
    books = r.do('a 9 10000')
    r.do('b 1 20000')
    r.end()
    files = r.files('l')
    if len(files) != 1 or f"mtrun: all of it is in '{os.path.basename(files[0])}'\n" not in r.err:
        return [f'{files}: {r.err}']
    expect(bad, 'l', files[0], books)
    out = mt.plain([mt.MTRUN, '-r', files[0], '-x', 'status'], cwd=r.dir).out.decode()
    if not re.search(r'limit +100000 bytes: with 90000 allocated, 20000 more were asked for by\n +0: b\n', out):
        bad.append(out)
    r = Run('-q', '-l', '50K')
    r.do('a 9 10000')
    r.end()
    if r.files():
        bad.append(f'without -o: {r.files()}')
    return bad


def children():
    """Each process that ends has a file of its own."""
    script = f'echo "a 3 100" | {VICTIM}; echo "a 5 100" | {VICTIM}; exit 0'
    r = Run('-q', '-o', 'c.', cmd=('sh', '-c', script)).end()
    heaps = {os.path.basename(f).split('.')[1]: header(f) for f in r.files('f')}
    found = sorted(h[:2] for h in heaps.values() if h[:2] in ((300, 3), (500, 5)))
    return [] if found == [(300, 3), (500, 5)] else [f'{heaps} {r.err}']


def what_fails():
    bad = []
    for opts, words in ((['-o', '/dev/full/x.'], "'/dev/full/': Not a directory"),
                        (['-o', 'none/x.'], "'none/': No such file or directory"),
                        (['-o', '/proc/self/x.', '-d', '1h'], "'/proc/self/'"),
                        (['-o', 'none/x.', '--dump-every', '1M', '-p', '1'], "'none/'")):
        r = mt.plain([mt.MTRUN, *opts, *([] if '-p' in opts else ['echo', 'it ran'])])
        why = 'mtrun: cannot write .heap files in ' + words
        if r.rc != 125 or r.out or not r.err.decode().startswith(why) or r.err.count(b'\n') != 1:
            bad.append(f'{opts}: {r.rc} {r.out} {r.err}')
    r = Run('-q', '-o', 'x.', '--dump-every', '1000')
    r.do('a 1 100')
    os.rmdir(r.dir)     # it was there when it was looked at
    r.do('a 100 1000')
    r.do('a 100 1000')
    r.end(4)
    if r.rc != 125 or r.err.count('cannot write') != 1 or len(r.err.splitlines()) != 2:
        bad.append(f'no directory: {r.rc} {r.err}')
    # (on a busy machine it may be a second until the directory is removed)
    for asleep, opts in (3, ['-d', '2s']), (0.5, ['-l', '1M', '--limit-exit', '9', '-c', 'heap']):
        gone = f'rmdir "$PWD"; exec python3 -c "import time; time.sleep({asleep}); x = 1 << (8 << 20)"'
        r = Run('-q', '-o', 'x.', *opts, cmd=('sh', '-c', gone)).end()
        if r.rc != 125 or r.err.count('cannot write') != 1 or 'succeeded' in r.err or r.files():
            bad.append(f'{opts}: {r.rc} {r.err}')
    d = mt.tempfile.mkdtemp(dir=mt.tmp())
    full = f'mount -t tmpfs -o size=8k none {d} && dd if=/dev/zero of={d}/fill bs=4096 count=2 2>/dev/null && printf "a 9 100\\nx 6\\n" | ' \
           f'{mt.MTRUN} -q -o {d}/x. {VICTIM} >/dev/null; echo $? >&2; ls {d} >&2'
    r = mt.plain(['unshare', '-m', 'sh', '-c', full])
    if b'mount' in r.err or b'unshare' in r.err:
        mt.skip('a full disk', r.err.decode().strip())
    elif not re.fullmatch(r"mtrun: cannot write '\S+\.heap': No space left on device\nmtrun: 900 bytes .*\n125\nfill\n", r.err.decode()):
        bad.append(f'full disk: {r.err.decode()}')
    return bad


# ---- other readers --------------------------------------------------------------------------------------------------------------

def table(text):
    """(total, [(flat, cum, name), ...]) of jeprof's table."""
    rows = re.findall(r'^ *(-?\d+) +[\d.]+% +[\d.]+% +(-?\d+) +[\d.]+% (.*)$', text, re.M)
    total = re.search(r'^Total: (\d+) B', text, re.M)
    return int(total[1]) if total else None, [(int(a), int(b), c) for a, b, c in rows]


def plain_name(name):
    """jeprof leaves out parameters, template arguments and versions."""
    name = re.sub(r' \(inline\)$|@.*', '', name)
    before = None
    while before != name:
        before, name = name, re.sub(r'\([^()]*\)( const)?|<[^<>]*>', '', name)
    return name.rsplit(' ', 1)[-1]


def read_by(reader, program, file, *opts):
    r = mt.plain([reader, '--text', '--show_bytes', *opts, program, file])
    return table(r.out.decode())


def readers():
    bad = []
    r = Run('-q', '-o', 'r.', '-x', 'wait exit; text --bytes > text; text --bytes --cum > cum')
    books = r.do('a 100 1000')
    r.do('b 30 2000')
    r.do('c 7 3000')
    books = r.do('f 2')
    r.end()
    file = r.files('f')[0]
    mine, by_cum = table(open(f'{r.dir}/text').read()), table(open(f'{r.dir}/cum').read())
    if mine[0] != books[0] or [row[0] for row in mine[1][:3]] != [100000, 60000, 15000]:
        bad.append(f'text: {mine}')
    for reader in ('jeprof', 'google-pprof'):
        if not shutil.which(reader):
            mt.skip(f'.heap in {reader}', f'{reader} is not installed')
            continue
        for theirs, ours in (read_by(reader, VICTIM, file), mine), (read_by(reader, VICTIM, file, '--cum'), by_cum):
            if theirs[0] != ours[0] or theirs[1][:3] != ours[1][:3]:
                bad.append(f'{reader}: {theirs[0]} {theirs[1][:3]}, text has {ours[0]} {ours[1][:3]}')
        theirs = read_by(reader, VICTIM, file, '--alloc_space')
        if theirs[0] != books[2] or [row[0] for row in theirs[1][:3]] != [100000, 60000, 21000]:
            bad.append(f'{reader} --alloc_space: {theirs}, should be {books[2]}')
    if shutil.which('go'):              # which knows no functions but go's
        for index, total in ('inuse_space', books[0]), ('alloc_space', books[2]):
            theirs = mt.plain(['go', 'tool', 'pprof', '-top', '-unit=B', f'-sample_index={index}', VICTIM, file], env={**os.environ, 'HOME': r.dir})
            if f' of {total}B total' not in theirs.out.decode():
                bad.append(f'go tool pprof: {theirs.out.decode()[:300]} {theirs.err.decode()[:200]}, should be {total}')
    else:
        mt.skip('.heap in go tool pprof', 'go is not installed')
    return bad


def as_jemalloc_says():
    """What holds most, by jemalloc's own profile of the same program, and how much that is: it counts what it set aside, not what was asked for."""
    plain, jemalloc = mt.build('ranked.cc', 'gcc'), mt.build('ranked.cc', 'jemalloc')
    if not plain or not jemalloc or not shutil.which('jeprof'):
        return mt.skip('ranked as by jemalloc', 'no jeprof' if plain and jemalloc else mt.build_reason('ranked.cc', 'jemalloc'))
    r = Run('-q', '-o', 'x.', '-x', 'wait exit; text --cum --bytes -n all > text', cmd=(plain,))
    out = r.p.stdout.read().decode()
    r.end()
    held = {name: int(n) for name, n in re.findall(r'^(\w+) (\d+)$', out, re.M)}
    total, rows = table(open(f'{r.dir}/text').read())
    mine = [(plain_name(name), cum) for flat, cum, name in rows if plain_name(name) in held and 'by_' in name]
    bad = [f'{name}: {cum}, should be {held[name]}' for name, cum in mine if cum != held[name]]
    main = [cum for flat, cum, name in rows if name == 'main']
    if main != [sum(held.values())]:
        bad.append(f'main: {main}, should be {sum(held.values())}')
    theirs = mt.plain([jemalloc], cwd=r.dir, env={**os.environ, 'MALLOC_CONF': f'prof:true,lg_prof_sample:0,prof_final:true,prof_prefix:{r.dir}/je'})
    profile = glob.glob(f'{r.dir}/je.*.heap')
    if not profile:
        mt.skip('ranked as by jemalloc', f'this libjemalloc cannot profile: {theirs.err.decode().strip()}')
        return bad
    counted, rows = read_by('jeprof', jemalloc, profile[0], '--cum')
    r = Run('-q', '-x', 'wait exit; status --json > usable', cmd=(jemalloc,))
    r.p.stdout.read()
    r.end()
    usable = mt.json.load(open(f'{r.dir}/usable'))['usable']
    if not 0.98 < usable / counted < 1.02:
        bad.append(f'usable is {usable}, jemalloc counts {counted}')
    ranks = [plain_name(name) for flat, cum, name in rows if 'by_' in name]
    if ranks != [name for name, cum in mine] or len(ranks) != 4:
        bad.append(f'jemalloc: {ranks}, text: {mine}')
    return bad


# ---- read again -----------------------------------------------------------------------------------------------------------------

QUESTIONS = ('report --json', 'report --by stack --all --json', 'report --by function --sort total', 'report --stacks -n 5', 'report --match by_ --json', 'text --bytes',
             'text --json', 'tree', 'tree --invert --json', 'list by_new --bytes')


def elsewhere():
    """Without the program, everything is answered as it was by the live process."""
    victim = mt.build('ranked.cc', 'gcc')
    d = mt.tempfile.mkdtemp(dir=mt.tmp())
    copy = shutil.copy(victim, f'{d}/ranked')
    r = Run('-q', '-o', 'x.', '-x', 'wait exit; ' + '; '.join(f'{q} > live{i}' for i, q in enumerate(QUESTIONS)), cmd=(copy,))
    r.p.stdout.read()
    r.end()
    file = r.files('f')[0]
    os.unlink(copy)
    bad = []
    for i, question in enumerate(QUESTIONS):
        again = mt.plain([mt.MTRUN, '-r', file, '-x', question])
        with open(f'{r.dir}/live{i}', 'rb') as f:
            live = f.read()
        if again.rc or again.err or again.out != live or len(live) < 100:
            bad.append(f'{question}: {again.rc} {again.err} {again.out[:200]}, live: {live[:200]}')
    status = mt.json.loads(mt.plain([mt.MTRUN, '-r', file, '-x', 'status --json']).out)
    bad += mt.status_lacks(status)
    if any(status[k] is not None for k in ('state', 'exit_status', 'heap', 'rss', 'threads', 'limit', 'log_files')) or not status['allocs']:
        bad.append(f'{status}')
    r = Run('-q', '-s', '512', '-o', 's.', '-x', 'wait exit; report > live', cmd=(victim,))
    r.p.stdout.read()
    r.end()
    again = mt.plain([mt.MTRUN, '-r', r.files('f')[0], '-x', 'report'])
    with open(f'{r.dir}/live', 'rb') as f:
        live = f.read()
    if again.out != live or b'~' not in live:
        bad.append(f'sampled: {again.out} {again.err}, live: {live}')
    both = mt.plain([mt.MTRUN, '-r', file])
    if both.rc or b'ranked' not in both.out or b'total_size' not in both.out:
        bad.append(f'without commands: {both.rc} {both.out} {both.err}')
    return bad


def growth():
    """Between two files, and between a file and a live process; also of different runs."""
    bad = []
    r = Run('-q', '-x', 'wait allocs >= 10; dump one.; ! touch go; wait exit; dump two.; ! mv one.* a.heap; diff a.heap --json > live.json')
    r.do('a 10 1000')
    if not mt.until(lambda: os.path.exists(f'{r.dir}/go'), 20):
        return ['the script waits']
    r.do('f 4')
    r.do('b 3 50000')
    r.do('c 1 10')
    r.end()
    two = glob.glob(f'{r.dir}/two.*.heap')[0]
    expected = {'b': (150000, 3), 'c': (10, 1), 'a': (-4000, -4)}

    def changes(answer):
        return {row['function']: (row['size'], row['count']) for row in answer['mem_report']}
    with open(f'{r.dir}/live.json') as f:
        answers = {'live': changes(json.load(f))}
    for name, opened, question in ('-r', two, 'diff a.heap --json'), ('two files', two, f'diff a.heap {two} --json'), ('by function', two, 'diff a.heap --by function --json'), \
            ('by stack', two, 'diff a.heap --by stack --json'):
        out = mt.plain([mt.MTRUN, '-r', opened, '-x', question], cwd=r.dir)
        answers[name] = changes(json.loads(out.out)) if out.rc == 0 else out.err
    for name, answer in answers.items():
        if answer != expected:
            bad.append(f'{name}: {answer}')
    other = Run('-q', '-x', f'wait exit; diff {r.dir}/a.heap --json > other.json')
    other.do('a 15 1000')
    other.end()
    with open(f'{other.dir}/other.json') as f:
        answer = changes(json.load(f))
    if answer != {'a': (5000, 5)}:
        bad.append(f'another run: {answer} {other.err}')
    return bad


def refused():
    bad = []
    r = Run('-q', '-o', 'x.')
    r.do('a 3 100')
    r.end()
    file = r.files()[0]
    with open(file, 'rb') as f:
        whole = f.read()
    files = {'cut': whole[:-30], 'changed': whole.replace(b' 300 ', b' 301 ', 1), 'empty': b'', 'gperftools': whole[:whole.index(b'# mtrun')], 'noise': os.urandom(5000)}
    for name, content in files.items():
        with open(f'{r.dir}/{name}', 'wb') as f:
            f.write(content)
    for name, words in {'cut': 'cut off', 'changed': 'damaged', 'empty': 'not a .heap file', 'gperftools': 'no symbols', 'noise': 'not a .heap file', 'missing': 'No such file',
                        '.': 'directory'}.items():
        for cmd in ['-r', name], ['-r', file, '-x', f'diff ./{name}']:
            out = mt.plain([mt.MTRUN, *cmd], cwd=r.dir)
            if out.rc != 125 or out.out or len(out.err.splitlines()) != 1 or words.encode() not in out.err and name != 'missing':
                bad.append(f'{cmd}: {out.rc} {out.out} {out.err}')
    for command in ('blocks', 'trace 0', 'x 0', 'stop', 'cont', 'run', 'bt', 'threads', 'kill', 'limit 5M', 'timeline', 'wait exit', 'dump', 'snapshot a', 'sample 5K', 'record mem', 'report --at peak',
                    'report --at 5s', 'report --by thread', 'report --usable', 'diff 3s', 'every 1s { report }'):
        out = mt.plain([mt.MTRUN, '-r', file, '-x', command])
        if out.rc != 125 or out.out or len(out.err.splitlines()) != 1:
            bad.append(f'{command}: {out.rc} {out.out} {out.err}')
    for opts in (['-r', file, 'program'], ['-r', file, '-r', file], ['-r', ''], ['-r', file, '-d', '5s'], ['-r', file, '-p', '1'], ['-o', '', 'true'], ['--dump-every', '0', 'true'],
                 ['--dump-every', 'x', 'true'], ['-r', file, '-c', 'heap']):
        out = mt.plain([mt.MTRUN, *opts])
        if out.rc != 125 or len(out.err.splitlines()) != 1:
            bad.append(f'{opts}: {out.rc} {out.err}')
    return bad


for name, fn in {'at the end': at_the_end, 'after -d': after_a_time, 'the command': command, 'SIGUSR1': signals, 'SIGUSR1 at once': early_signal, '--dump-every': each_so_many, '--dump-peak': peaks,
                 'at the limit': at_the_limit, 'each process': children, 'what cannot be written': what_fails, 'jeprof and google-pprof': readers,
                 'ranked as by jemalloc': as_jemalloc_says, 'read elsewhere': elsewhere, 'diff': growth, 'what is refused': refused}.items():
    problems = fn()
    if problems is not None:
        mt.check(name, problems)
mt.finish()
