#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 300
# waits
"""
logs.py - log files while they are written: names, modes, rotation, what becomes of them when they cannot be written any more, or mtrun is killed. They are
taken apart here by what mtrun-log(5) says, with zstd(1) and the checksum of mtlog.py; what is in them is replay.py's. The victim keeps its own books.
"""
import glob
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt
import mtlog

mt.need_mtrun()
VICTIM = mt.build('logs.c', extra='-fno-optimize-sibling-calls') or sys.exit(mt.build_reason('logs.c', 'gcc'))
TYPES = ('RUN', 'PROCESS', 'MODULES', 'NODES', 'SYMBOLS', 'MARKS', 'STATE', 'EVENTS', 'INDEX')


# ---- a file, by its manual ------------------------------------------------------------------------------------------------------------

class Log:
    """One file: its header, its blocks as (type, process, packed bytes), what is wrong with it; `whole`: it was brought to its end."""
    def __init__(self, path, every=False):
        self.path, self.bad, self.blocks = path, [], []
        with open(path, 'rb') as f:
            data = f.read()
        self.size = len(data)
        magic, version, _, self.set, self.number, _, self.clock, self.began, _, check = struct.unpack_from('<8sIIQIIQQQQ', data)
        if (magic, version, check) != (b'mtrunlog', 1, mtlog.xxh64(data[:56])):
            self.bad.append(f'{path}: header {data[:64]}')
        at = 64
        while data[at:at + 4] == b'MTLB' and at + 32 <= len(data):
            kind, _, process, packed, raw, _, check = struct.unpack_from('<HHIIIIQ', data, at + 4)
            if at + 32 + packed > len(data):
                break
            body = data[at + 32:at + 32 + packed]
            if (every or packed < 2000) and check != mtlog.xxh64(data[at:at + 24] + body):
                self.bad.append(f'{path}: check of the block at {at}')
            self.blocks.append((TYPES[kind - 1], process, body, raw, at))
            at += 32 + packed
        self.rest = data[at:]
        self.whole = self.rest[-8:] == b'mtrunend' and len(self.rest) == 24
        if self.whole:
            index, check = struct.unpack('<QQ', self.rest[:16])
            first = [b[4] for b in self.blocks if b[0] == 'INDEX']
            if check != mtlog.xxh64(self.rest[:8]) or not first or first[0] != index:
                self.bad.append(f'{path}: trailer {self.rest}')

    def count(self, kind):
        return sum(b[0] == kind for b in self.blocks)

    def unpack(self, block):
        r = subprocess.run(['zstd', '-dc'], input=block[2], capture_output=True)
        if r.returncode or len(r.stdout) != block[3]:
            self.bad.append(f'{self.path}: zstd says {r.stderr} of a block of {block[3]} bytes, and made {len(r.stdout)}')
        return r.stdout


def files(d):
    return sorted(glob.glob(f'{d}/memlog*.mtlog'), key=lambda f: int(f.rsplit('-', 1)[1][:-6]))


# ---- runs -----------------------------------------------------------------------------------------------------------------------------

class Run:
    """mtrun over the victim, which is told line by line what to do, in a directory of its own."""
    def __init__(self, *opts, d=None, mtrun=mt.MTRUN, cmd=(VICTIM,), **kw):
        self.dir = d or mt.tempfile.mkdtemp(dir=mt.tmp())
        self.err = open(os.path.join(mt.tempfile.mkdtemp(dir=mt.tmp()), 'err'), 'w+')
        self.p = mt.popen([mtrun, *opts, '--', *cmd], cwd=self.dir, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.err, **kw)

    def do(self, line):
        """(live bytes, live blocks, bytes ever, blocks ever) after it."""
        self.p.stdin.write((line + '\n').encode())
        self.p.stdin.flush()
        return tuple(int(n) for n in self.p.stdout.readline().split())

    def end(self, line='x 0'):
        self.p.communicate((line + '\n').encode() if self.p.poll() is None else None, timeout=mt.TIMEOUT)
        return self.p.returncode

    def text(self):
        self.err.flush()
        with open(self.err.name) as f:
            return f.read()


class Asked(Run):
    """The same, attached to, with commands in between (mt.Attached's way: they come by a pipe)."""
    def __init__(self, *opts, d=None, **kw):
        self.dir = d or mt.tempfile.mkdtemp(dir=mt.tmp())
        self.victim = mt.popen([VICTIM], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.err = open(os.path.join(mt.tempfile.mkdtemp(dir=mt.tmp()), 'err'), 'w+')
        self.m = mt.popen([mt.MTRUN, '-q', *opts, '-X', '-', '-p', str(self.victim.pid)], cwd=self.dir, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=self.err, **kw)
        self.p = self.victim
        self.ask('echo')

    def ask(self, command):
        """What it prints, up to a line that we have it say."""
        self.m.stdin.write((command + '\necho =====\n').encode())
        self.m.stdin.flush()
        lines = []
        while True:
            line = self.m.stdout.readline().decode()
            if not line or line == '=====\n':
                return ''.join(lines)
            lines.append(line)

    def json(self, command):
        return json.loads(self.ask(command))

    def leave(self):
        self.m.stdin.write(b'detach\n')
        self.m.communicate(timeout=mt.TIMEOUT)
        return self.m.returncode


def books(bad, what, status, said):
    told = (status['heap'], status['live_blocks'], status['total_allocated'], status['allocs'])
    if told != tuple(said):
        bad.append(f'{what}: status says {told}, the program {said}')


def whole(bad, d, n=None):
    """All files in D, which are to be brought to their end, and N."""
    found = [Log(f) for f in files(d)]
    for f in found:
        bad += f.bad
        if not f.whole:
            bad.append(f'{f.path} ends with {f.rest[:40]}')
    if n is not None and len(found) != n:
        bad.append(f'{len(found)} files, not {n}: {os.listdir(d)}')
    return found


# ---- tests ----------------------------------------------------------------------------------------------------------------------------

def a_file():
    bad = []
    umask = os.umask(0)
    before = time.time()
    r = Run('-q', '-m', 'log-fast', '-x', 'wait exit; status --json > status; log --json > log')
    said = r.do('r 20000')
    day = time.strftime('%Y%m%d')
    if r.end('x 3') != 3 or r.text():
        bad.append(f'status {r.p.returncode}, {r.text()}')
    os.umask(umask)
    with open(f'{r.dir}/status') as f:
        status = json.load(f)
    with open(f'{r.dir}/log') as f:
        log = json.load(f)
    books(bad, 'at the end', status, said)
    found = whole(bad, r.dir, 1)
    if not found:
        return bad
    name = os.path.basename(found[0].path)
    if not re.fullmatch(rf'memlog{day}_[0-9a-f]+-1\.mtlog', name) or os.stat(found[0].path).st_mode & 0o777 != 0o600:
        bad.append(f'{name}, mode {os.stat(found[0].path).st_mode:o}')
    if status['mode'] != 'log-fast' or status['log_files'] != [name] or not log['on'] or [f['file'] for f in log['log_files']] != [name]:
        bad.append(f"mode {status['mode']}, files {status['log_files']}, {log}")
    if not before - 0.1 < found[0].clock / 1000 < time.time() or found[0].number != 1:
        bad.append(f'header: clock {found[0].clock}, number {found[0].number}')
    missing = [t for t in TYPES if t != 'MARKS' and not found[0].count(t)]
    if missing or found[0].blocks[0][0] != 'RUN' or {b[1] for b in found[0].blocks} != {0, 1}:
        bad.append(f'blocks {[b[:2] for b in found[0].blocks]}')
    if shutil.which('zstd'):
        said = b''.join(found[0].unpack(b) for b in found[0].blocks if b[0] in ('PROCESS', 'SYMBOLS', 'MODULES'))
        bad += [f'{text} is not in it' for text in (b'deep', b'churn', b'logs.c', VICTIM.encode()) if text not in said] + found[0].bad
    return bad


def refused():
    bad = []
    for opts, words in ((['--log-size', '1K'], "'1K' 64K"), (['--log-size', '0'], "'0'"), (['--log-size', '-1'], "'-1'"), (['--log-size', '2T'], "'2T' 1T"),
                        (['--log-size', 'x'], "'x'"), (['--log-files', '0'], "'0'"), (['--log-files', '1000000'], "'1000000'"), (['--log-dir', ''], "''"),
                        (['-m', 'logs'], "'logs' log-fast"), (['-m', 'log', '--log-dir', '/nonexistent'], "'/nonexistent/memlog"),
                        (['-m', 'log', '--log-dir', '/etc/passwd'], "'/etc/passwd/memlog")):
        r = mt.plain([mt.MTRUN, *opts, 'echo', 'it', 'ran'])
        err = r.err.decode()
        if r.rc != 125 or r.out or err.count('\n') != 1 or any(w not in err for w in words.split()):
            bad.append(f'{opts}: status {r.rc}, {r.out}, {err}')
    empty = os.path.join(mt.tempfile.mkdtemp(dir=mt.tmp()), 'empty.mtlog')
    open(empty, 'w').close()
    r = mt.plain([mt.MTRUN, '-r', empty])
    if r.rc != 125 or r.err.decode() != f"mtrun: cannot open '{empty}': it is cut off before its first block\n":
        bad.append(f'an empty log: status {r.rc}, {r.err}')
    for name in 'a.heap', 'x':
        open(os.path.join(os.path.dirname(empty), name), 'w').close()
    os.unlink(empty)
    r = mt.plain([mt.MTRUN, '-r', os.path.dirname(empty)])
    why = b'there is no log in this directory; of its .heap files each is opened by its own name\n'
    if r.rc != 125 or not r.err.endswith(why) or r.err.count(b'\n') != 1:
        bad.append(f'a directory of .heap files: status {r.rc}, {r.err}')
    return bad


def commands():
    bad = []
    d = mt.tempfile.mkdtemp(dir=mt.tmp())
    other = mt.tempfile.mkdtemp(dir=mt.tmp())
    r = Asked(d=d)

    def numbers(where):
        return [int(f.rsplit('-', 1)[1][:-6]) for f in files(where)]

    if r.ask('log') != "off: directory '.', files of 100.0M, 10 at most\n" or files(d):
        bad.append(f"off: {r.ask('log')}")
    for command, mode, there in (('log on', 'log-fast', [1]), ('log on', 'log-fast', [1]), ('log off', 'mem-fast', [1]), ('log off', 'mem-fast', [1]),
                                 ('record log', 'log', [1, 3]), ('log rotate', 'log', [1, 3, 4]), ('record log-fast', 'log-fast', [1, 3, 4]),
                                 ('log off', 'mem-fast', [1, 3, 4]), ('record mem', 'mem', [1, 3, 4]), ('log on', 'log', [1, 3, 4, 6])):
        r.do('r 100')
        said = r.ask(command)
        if said or r.ask('record') != mode + '\n' or numbers(d) != there:
            bad.append(f"{command}: {said}, mode {r.ask('record')}, files {numbers(d)}")
    for command, mode in (('record off', 'off'), ('log off', 'off'), ('log on', 'log-fast'), ('record log', 'log')):
        r.do('r 100')
        if r.ask(command) or not r.ask('record').startswith(mode):
            bad.append(f"{command}: mode {r.ask('record')}")
    if numbers(d) != [1, 3, 4, 6, 8]:
        bad.append(f'after off: {numbers(d)}')
    opened = mt.plain([mt.MTRUN, '-r', d, '-x', 'status'])
    if opened.rc or b'mtrun: the log was off before file 8: earlier files are left out\n' not in opened.err:
        bad.append(f'opened after off: {opened}')
    opened = mt.plain([mt.MTRUN, '-r', *files(d)])
    why = b'mtrun: before file 8 the log was off: what is on both sides cannot be open at once\n'
    if opened.rc != 125 or opened.err != why:
        bad.append(f'opened from both sides: {opened}')
    r.ask(f'log dir {other}')
    r.do('r 1000')
    r.ask('log files 1')
    if mt.until(lambda: not numbers(d), 30) is None or numbers(other) != [9]:
        bad.append(f'log dir, log files 1: {numbers(d)}, {numbers(other)}')
    if r.json('log --json')['dir'] != other or len(r.json('status --json')['log_files']) != 1:
        bad.append(r.ask('log --json'))
    r.ask('log files 5; log size 1M')
    for _ in range(8):
        r.do('r 200000')
    if mt.until(lambda: len(numbers(other)) == 5, 30) is None or numbers(d):
        bad.append(f'log files 5, log size 1M: {numbers(d)}, {numbers(other)}')
    if r.text():
        bad.append(r.text())
    for command, words in (('log x', "'x' rotate"), ('log on 1', "'1'"), ('log size', 'size'), ('log size 1', "'1' 64K"), ('log files 0', "'0'"), ('log dir /x/y', "'/x/y'"),
                           ('log dir /etc/passwd', "'/etc/passwd' directory"), ('log files 1 2', "'2'")):
        before = r.text()
        r.ask(command)
        said = r.text()[len(before):]
        if said.count('\n') != 1 or any(w not in said for w in words.split()):
            bad.append(f'{command}: {said}')
    r.ask('log off')
    r.ask('log rotate')
    if 'log on' not in r.text().splitlines()[-1]:
        bad.append(f'rotate while off: {r.text()}')
    books(bad, 'at the end', dict(r.json('status --json'), allocs=0, total_allocated=0), (*r.do('r 0')[:2], 0, 0)) if r.ask('log on') else None
    r.leave()
    whole(bad, other)
    r.end()
    return bad


class Watcher(threading.Thread):
    """The most files of a set that are ever there at a time."""
    def __init__(self, d):
        super().__init__()
        self.d, self.most, self.stop = d, {}, False
        self.start()

    def run(self):
        while not self.stop:
            count = {}
            for f in os.listdir(self.d):
                count[f.rsplit('-', 1)[0]] = count.get(f.rsplit('-', 1)[0], 0) + 1
            for name, n in count.items():
                self.most[name] = max(self.most.get(name, 0), n)
            time.sleep(0.001)

    def end(self):
        self.stop = True
        self.join()
        return self.most


def rotation():
    """Two of them in one directory."""
    bad = []
    d = mt.tempfile.mkdtemp(dir=mt.tmp())
    opts = ('-q', '-m', 'log-fast', '--log-size', '1M', '--log-files', '3', '-x', 'wait exit; status --json')
    watcher = Watcher(d)
    runs = [Run(*opts, d=d), Run(*opts, d=d)]
    said = []
    for r in runs:
        r.p.stdin.write(b'r 2000000\n')
        r.p.stdin.flush()
    for r in runs:
        said.append(tuple(int(n) for n in r.p.stdout.readline().split()))
        r.end()
        books(bad, 'rotation', json.loads(r.text()), said[-1])
    most = watcher.end()
    found = whole(bad, d, 6)
    if sorted(most.values()) != [3, 3]:
        bad.append(f'most at a time: {most}')
    for name in most:
        mine = [f for f in found if os.path.basename(f.path).startswith(name + '-')]
        numbers = [f.number for f in mine]
        if len(mine) != 3 or numbers != list(range(numbers[0], numbers[0] + 3)) or numbers[0] < 4 or len({f.set for f in mine}) != 1:
            bad.append(f'{name}: {numbers}, sets {[f.set for f in mine]}')
        bad += [f'{f.path}: {f.size} bytes' for f in mine[:-1] if not 600000 < f.size <= 1 << 20]
        bad += [f'{f.path}: no {t}' for f in mine for t in ('RUN', 'PROCESS', 'MODULES', 'NODES', 'SYMBOLS', 'STATE', 'EVENTS') if not f.count(t)]
    return bad


def small():
    """Files of the least size, of a program that allocates as fast as it can."""
    bad = []
    for mode in ('log-fast', 'log'):
        r = Run('-q', '-m', mode, '--log-size', '64K', '--log-files', '1000', '-x', 'wait exit; status --json > status')
        said = r.do('r 300000')
        r.end()
        with open(f'{r.dir}/status') as f:
            books(bad, f'small, {mode}', json.load(f), said)
        sizes = [f.size for f in whole(bad, r.dir)]
        if len(sizes) < 10 or max(sizes) > 64 << 10:
            bad.append(f'small, {mode}: {len(sizes)} files, the largest of {sorted(sizes)[-3:]} bytes')
    return bad


def trouble(name, hurt, heal, words):
    """What HURT does to the directory is said once, the program goes on, and so does recording in memory; after HEAL `log on` resumes."""
    bad = []
    r = Asked('-m', 'log-fast', '--log-size', '256K', '--log-dir', name)
    r.do('r 10000')
    hurt()
    mt.until(lambda: r.do('r 10000') and r.text(), 30)
    said = r.do('r 50000')
    status = r.json('status --json')
    text = r.text()
    if text.count('\n') != 1 or '`log on` resumes' not in text or any(w not in text for w in words):
        bad.append(f'said: {text}')
    books(bad, 'afterwards', status, said)
    if status['mode'] != 'mem-fast' or r.victim.poll() is not None or status['dropped']:
        bad.append(f'{status}')
    r.ask('log on')
    if r.text().count('\n') != 2 and words[0] != 'deleted':
        bad.append(f'log on meanwhile: {r.text()[len(text):]}')
    heal()
    text = r.text()
    r.ask('log off')
    r.ask('log on')
    r.do('r 1000')
    if r.json('status --json')['mode'] != 'log-fast' or r.text() != text:
        bad.append(f"log on: {r.json('status --json')['mode']}, {r.text()[len(text):]}")
    if r.leave() != 125 or r.end():
        bad.append(f'status {r.m.returncode}, {r.victim.returncode}')
    last = Log(files(name)[-1])
    bad += last.bad
    if not last.whole or not last.count('STATE') or not last.count('EVENTS') or last.number < 3:
        bad.append(f'{last.path}: {last.rest[:30]}, {[b[0] for b in last.blocks]}')
    return bad


def deleted():
    d = mt.tempfile.mkdtemp(dir=mt.tmp())
    return trouble(d, lambda: [os.unlink(f) for f in files(d)], lambda: None, ['deleted'])


def removed():
    d = mt.tempfile.mkdtemp(dir=mt.tmp())
    return trouble(d, lambda: os.rename(d, d + '.away'), lambda: os.mkdir(d), ['cannot', 'No such file'])


def on_small_disk(test):
    """TEST of a directory of 1 MB and what fills it; None: nobody may mount one."""
    d = mt.tempfile.mkdtemp(dir=mt.tmp())
    if os.geteuid() or subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=1M', 'tmpfs', d], capture_output=True).returncode:
        return None
    filler = os.path.join(d, 'filler')

    def fill():
        with open(filler, 'wb', 0) as f:
            try:
                while f.write(b'x' * 4096):
                    pass
            except OSError:
                pass
    try:
        return test(d, fill, filler)
    finally:
        subprocess.run(['umount', '-l', d])


def disk_full():
    return on_small_disk(lambda d, fill, filler: trouble(d, fill, lambda: os.unlink(filler), ['No space left']))


def disk_full_at_the_end():
    """Only what comes last has no room: that is said, and it is mtrun's status, whatever the program's is."""
    def test(d, fill, filler):
        bad = []
        for leaves, native in ('x 7', 7), ('k 9', -9):
            r = Run('-q', '-m', 'log', '-x', 'wait exit', d=d)
            r.do('r 10000')
            mt.until(lambda: files(d) and os.path.getsize(files(d)[-1]))
            fill()
            status = r.end(leaves)
            if status != 125 or r.text().count('\n') != 1 or 'No space left' not in r.text() or 'log' not in r.text():
                bad.append(f'{leaves} ({native}): {status}, {r.text()!r}')
            for f in [filler, *files(d)]:
                os.unlink(f)
        return bad
    return on_small_disk(test)


def disk_hangs():
    """A file system that is frozen: all writes wait. The program waits with them for ten seconds, once."""
    d, image = mt.tempfile.mkdtemp(dir=mt.tmp()), os.path.join(mt.tempfile.mkdtemp(dir=mt.tmp()), 'image')
    with open(image, 'wb') as f:
        f.truncate(64 << 20)
    made = (['mkfs.ext4', '-q', image], ['mount', '-o', 'loop', image, d])
    if os.geteuid() or any(subprocess.run(c, capture_output=True).returncode for c in made):
        return None

    def freeze():
        subprocess.run(['fsfreeze', '-f', d], check=True)

    def thaw():
        subprocess.run(['fsfreeze', '-u', d], check=True)
        sizes = [None, '']
        while sizes[-1] != sizes[-2]:       # until the queue is written
            time.sleep(0.5)
            sizes.append(subprocess.run(['ls', '-s', d], capture_output=True).stdout)
    try:
        return trouble(d, freeze, thaw, ['cannot write', 'the disk does not answer'])
    finally:
        subprocess.run(['fsfreeze', '-u', d], capture_output=True)
        subprocess.run(['umount', '-l', d])


def unpermitted():
    if os.geteuid():
        return None
    d = mt.tempfile.mkdtemp(dir=mt.tmp())
    os.chmod(d, 0o777)
    for up in (mt.tmp(), os.path.dirname(d)):
        os.chmod(up, 0o755)
    mtrun, victim = (shutil.copy(f, mt.tmp()) for f in (mt.MTRUN, VICTIM))     # where they are may be nobody's business

    def nobody():
        os.setgid(65534)
        os.setuid(65534)
    r = Run('-q', '-m', 'log-fast', '--log-size', '256K', '-x', 'wait exit; status --json', d=d, mtrun=mtrun, cmd=(victim,), preexec_fn=nobody)
    bad = []
    r.do('r 10000')
    os.chmod(d, 0o555)
    mt.until(lambda: r.do('r 10000') and r.text(), 30)
    said = r.do('r 50000')
    r.end()
    message, _, status = r.text().partition('\n')
    if 'Permission denied' not in message or '`log on` resumes' not in message or not status.startswith('{'):
        return bad + [f'said: {r.text()}']
    books(bad, 'without permission', json.loads(status), said)
    os.chmod(d, 0o700)
    whole(bad, d, 1)
    return bad


def killed():
    bad = []
    d = mt.tempfile.mkdtemp(dir=mt.tmp())
    r = Run('-q', '-m', 'log-fast', '--log-size', '1M', '--log-files', '2', d=d)
    r.do('r 500000')
    r.p.stdin.write(b'r 3000000\n')
    r.p.stdin.flush()
    # in the middle of a file that follows another
    if not mt.until(lambda: len(files(d)) == 2 and os.path.getsize(files(d)[-1]) > 300000, 20):
        bad.append(f'it has written {files(d)}')
    child = mt.children_of(r.p.pid)
    mt.kill(r.p.pid)
    if not r.p.stdout.readline() or not child:
        bad.append('the program did not go on')
    r.p.stdin.write(b'x 0\n')
    r.p.stdin.close()
    r.p.wait()
    mt.until(lambda: not mt.children(), 10)
    last = Log(files(d)[-1])
    bad += last.bad
    # (that it had just begun the next one is possible, too)
    if last.whole or last.blocks and not last.count('STATE') or len(last.rest) > 400000:
        bad.append(f'{last.path}: {len(last.blocks)} blocks, {len(last.rest)} bytes behind them')
    for f in files(d)[:-1]:
        bad += Log(f).bad + ([] if Log(f).whole else [f'{f} is not whole'])
    return bad


def family():
    """Children with memory of their own are processes of the log, one that becomes another program without having allocated is not."""
    bad = []
    r = Run('-q', '-m', 'log', '-x', 'wait exit; processes --json')
    r.do('r 10')
    r.do('c 3')
    r.end()
    processes = {b[1] for b in whole(bad, r.dir, 1)[0].blocks if b[0] == 'EVENTS'}
    if len(processes) != 4:
        bad.append(f'{processes} have events, {r.text()}')
    r = Run('-q', '-m', 'log-fast', cmd=('sh', '-c', f'echo "r 5000" | {VICTIM}; exec {VICTIM}'))
    r.p.stdout.readline()
    r.do('r 5000')
    r.end()
    whole(bad, r.dir, 1)
    return bad


def ends():
    """Whatever ends it, the file is brought to its end."""
    bad = []
    r = Run('-q', '-m', 'log-fast')
    r.do('r 100')
    if r.end('k 11') != -signal.SIGSEGV:
        bad.append(f'status {r.p.returncode}')
    whole(bad, r.dir, 1)
    r = Run('-q', '-m', 'log-fast', '-d', '300ms')
    r.do('r 100')
    mt.until(lambda: files(r.dir) and Log(files(r.dir)[0]).whole, 10)
    whole(bad, r.dir, 1)            # while the program goes on
    r.do('r 100')
    if r.end():
        bad.append(f'-d: status {r.p.returncode}')
    r = Run('-q', '-m', 'log-fast', '-l', '1M')
    r.p.stdin.write(b'r 100000\n')
    r.end()
    whole(bad, r.dir, 1)
    return bad


def memory():
    """10^9 events: what mtrun needs at their end, to record and to replay them, is what it needed at a tenth of them, but for 1 MB and 1 %."""
    def peak(pid):
        with open(f'/proc/{pid}/status') as f:
            return int(re.search(r'^VmHWM:\s+(\d+)', f.read(), re.M)[1]) * 1024

    def replayed(some):
        p = mt.popen([mt.MTRUN, '-q', '-r', *some, '-X', '-'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=r.err)
        p.stdin.write(b'parse 2; status --json > /dev/null; report --json > /dev/null; echo =====\n')
        p.stdin.flush()
        while p.stdout.readline() not in (b'=====\n', b''):
            pass
        most = peak(p.pid)
        p.communicate(timeout=mt.TIMEOUT)
        if p.returncode:
            bad.append(f'replay of {len(some)} files: status {p.returncode}: {r.text()[-300:]}')
        return most

    bad = []
    r = Run('-q', '-m', 'log-fast', '--log-size', '50M', '--log-files', '1000', '-x', 'wait exit; status --json > status')
    r.do('r 50000000')
    before, tenth = peak(r.p.pid), files(r.dir)
    said = [r.do('r 45000000') for _ in range(10)][-1]
    after = peak(r.p.pid)
    r.end()
    with open(f'{r.dir}/status') as f:
        books(bad, '10^9 events', json.load(f), said)
    bad += [f'{f} has no end' for f in files(r.dir) if not Log(f).whole]
    if after > before * 1.01 + 1e6:
        bad.append(f'recording: {before} bytes at a tenth, {after} at the end')
    print(f'# recording: {before / 1e6:.2f} MB for a tenth of it, {after / 1e6:.2f} MB for all')
    before, after = replayed(tenth), replayed(files(r.dir))
    if after > before * 1.01 + 1e6:
        bad.append(f'replay: {before} bytes for a tenth, {after} for all')
    print(f'# {len(files(r.dir))} files, replay: {before / 1e6:.2f} MB for {len(tenth)} of them, {after / 1e6:.2f} MB for all')
    return bad


mt.check('names, modes, header, blocks, status', a_file())
mt.check('what is refused', refused())
mt.check('log: on, off, rotate, dir, files, size', commands())
mt.check('rotation under load, twice in one directory', rotation())
mt.check('files of 64K are not larger', small())
mt.check('the file is deleted', deleted())
mt.check('the directory is removed', removed())
TROUBLES = [('the disk is full', disk_full), ('the disk is full at the end', disk_full_at_the_end),
            ('permission is lost', unpermitted)]
if mt.SOAK:
    TROUBLES.append(('the disk hangs', disk_hangs))
for what, test in TROUBLES:
    problems = test()
    if problems is None:
        mt.skip(what, 'needs root, and mount(8)')
    else:
        mt.check(what, problems)
mt.check('mtrun is killed', killed())
mt.check('a family', family())
mt.check('the end: signal, -d, limit', ends())
if mt.SOAK:
    mt.check('10^9 events', memory())
mt.finish()
