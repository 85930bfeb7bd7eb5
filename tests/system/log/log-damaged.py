#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 400
"""
log-damaged - a log that was cut at any byte, or has bits that are not as they were, opens up to the last block that is whole; that is said in one line, and
nothing worse comes of it. What is in the blocks that are left is read by mtlog.py.
"""
import bisect
import glob
import json
import os
import random
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt
import mtlog

mt.need_mtrun()
VICTIM = mt.build('logs.c', extra='-fno-optimize-sibling-calls') or sys.exit(mt.build_reason('logs.c', 'gcc'))
AT_ONCE = 250                       # files that one mtrun opens, one after the other
REPORTS = 20                        # of so many one is reported in full: names that the log has no more are looked for, which takes its time
RANDOM = 20000 if mt.SOAK else 250
EACH = 1 if mt.SOAK else 3          # one of so many bytes of the small log
dice = random.Random(6)


def record(*lines, pause=0.0):
    """The only log file of a run of the victim, and what it said of its books at the end."""
    d = mt.tempfile.mkdtemp(dir=mt.tmp())
    text = ''.join(f'echo {line}; sleep {pause}; ' for line in lines)
    r = mt.plain(['sh', '-c', f'({text} echo x 0) | {mt.MTRUN} -q -m log --log-dir {d} -- {VICTIM}'], timeout=120)
    found = glob.glob(f'{d}/*.mtlog')
    if r.rc or len(found) != 1:
        mt.fail('recording', f'status {r.rc}, {found}, {r.err!r}')
        mt.finish()
    with open(found[0], 'rb') as f:
        return f.read(), [int(n) for n in r.out.splitlines()[-1].split()]


class File:
    """One that is whole; `truth[i]`: what process 1 holds once the first I blocks are read, as (bytes, blocks), None: nothing is known of it."""
    def __init__(self, data):
        self.data, self.blocks = data, mtlog.blocks(data, check=False)
        self.ends = [64] + [b.end for b in self.blocks]
        self.has_process = [False]
        self.truth, process = [None], {}
        for b in self.blocks:
            self.has_process.append(self.has_process[-1] or b.process != 0)
            if b.kind in (mtlog.STATE, mtlog.EVENTS):
                p = process.setdefault(b.process, mtlog.Process())
                (p.state if b.kind == mtlog.STATE else p.events_block)(b)
            p = process.get(1)
            self.truth.append((p.counted, sum(line[1] for line in p.line.values())) if p and p.ready else self.truth[-1])

    def whole_blocks(self, size):
        return bisect.bisect_right(self.ends, size) - 1


def ask(variants):
    """Opens each of the files and asks: (what was said when it was opened and asked, what it holds, what `parse` said, whether the answers agree, whether there was one)."""
    d = mt.tempfile.mkdtemp(dir=mt.tmp())
    whole, script = os.path.join(d, 'whole'), []
    with open(whole, 'wb') as f:
        f.write(small.data)
    for i, data in enumerate(variants):
        with open(f'{d}/{i}', 'wb') as f:
            f.write(data)
        script.append(f'echo @open; open {d}/{i}; status --json > {d}/{i}.json; status > {d}/{i}.status; timeline --json > {d}/{i}.timeline; ' +
                      (f'report --by stack --json > {d}/{i}.report; ' if i % REPORTS == 0 else '') + 'echo @parse; parse 1')
    r = subprocess.run([mt.MTRUN, '-r', whole, '-X', '-'], input='\n'.join(script) + '\n', stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    if r.returncode not in (0, 125):
        mt.fail('mtrun lives', f'status {r.returncode}: {r.stdout[-400:]}')
    said = [part.split('@parse\n') for part in r.stdout.split('@open\n')[1:]]
    found = []
    for i in range(len(variants)):
        with open(f'{d}/{i}.json') as f:
            status = json.load(f)
        with open(f'{d}/{i}.timeline') as f:
            json.load(f)
        with open(f'{d}/{i}.status') as f:
            text = f.read()
        agree, reported = True, i % REPORTS == 0
        if reported:
            with open(f'{d}/{i}.report') as f:
                report = json.load(f)
            agree = sum(row['size'] for row in report['mem_report']) == report['total_size'] == status['heap'] + status['mmap']
        agree = agree and ' h from ' not in text        # none of these is that long
        opened, parsed = said[i] if i < len(said) and len(said[i]) == 2 else ('?', '?')
        found.append((opened.splitlines(), (status['heap'] + status['mmap'], status['live_blocks']), parsed.splitlines(), agree, reported))
    for name in os.listdir(d):
        os.unlink(os.path.join(d, name))
    return found


def ours(lines):
    return [line for line in lines if line.startswith('mtrun: ')]


def in_chunks(name, cases):
    """CASES: (what, the file's bytes, a function that looks at the answer and says what is wrong, or None)."""
    bad = []
    for i in range(0, len(cases), AT_ONCE):
        chunk = cases[i:i + AT_ONCE]
        for (what, _, look), answer in zip(chunk, ask([data for _, data, _ in chunk])):
            why = 'the answers do not agree' if not answer[3] else look(answer)
            if why:
                bad.append(f'{what}: {why}: {answer[:3]}')
    mt.check(f'{name} ({len(cases)})', bad)


def refused(words):
    def look(answer):
        said = ours(answer[0])
        if len(said) != 1 or not re.search(words, said[0]) or 'Process complete' in '\n'.join(answer[0]):
            return f'one line with {words!r} should be said'
    return look


def holds(truth, words=None, lines=1):
    """It opens, holds TRUTH, and says WORDS in one line, or nothing."""
    def look(answer):
        said = ours(answer[0])
        if answer[1] != (truth or (0, 0)):
            return f'it should hold {truth}'
        if not words and said or words and (len(said) != lines or not all(re.search(words, line) for line in said)):
            return f'{words!r} should be said'
        if not any(line.startswith('Process complete') for line in answer[0]):
            return 'it is not said to be complete'
    return look


def cut(f, size):
    n = f.whole_blocks(size)
    if size < 64:
        look = refused("cannot open '.*': it is (cut off before its first block|not a log)")
    elif not f.has_process[n]:
        look = refused("there is nothing in '")
    else:
        look = holds(f.truth[n], 'open up to its last whole block|was not brought to its end')
    return f'cut at byte {size} of {len(f.data)}', f.data[:size], look


def flip(f, at, bit):
    """One bit of F is another. What is before it, and what begins anew behind it, is known."""
    data = bytearray(f.data)
    data[at] ^= 1 << bit
    n = f.whole_blocks(at)
    kinds = [b.kind for b in f.blocks]
    end = kinds.index(mtlog.INDEX)
    full = f.truth[-1]
    if at < 64:
        look = refused("cannot open '.*': it is (damaged|not a log)|version")
    elif n >= end:
        look = holds(full, 'open up to its last')
    elif f.blocks[n].kind in (mtlog.MODULES, mtlog.MARKS):
        look = holds(full, 'is damaged at byte')
    elif f.blocks[n].kind in (mtlog.NODES, mtlog.SYMBOLS):
        def look(answer):
            if answer[4] and f.blocks[n].process == 1:      # whose report was asked for
                return holds(full, 'is damaged at byte')(answer)
            return holds(full)(answer) or (None if any('damaged' in line for line in answer[2]) else 'parse should say so')
    elif f.blocks[n].kind not in (mtlog.STATE, mtlog.EVENTS):
        look = holds(full)
    elif f.blocks[n].process != 1:
        def look(answer):
            return holds(full)(answer) and holds(full, 'is damaged at byte')(answer)
    elif any(b.process == 1 and b.kind == mtlog.STATE for b in f.blocks[n + 1:]):
        def look(answer):
            return holds(full)(answer) or (None if any('damaged' in line for line in answer[2]) else 'parse should say so')
    else:
        look = holds(f.truth[n], 'is damaged at byte')
    return f'bit {bit} of byte {at} of {len(data)} (block {n})', bytes(data), look


def without(f, n):
    """A block is not there, all others are: the index is wrong then, and so is what follows in that process."""
    b = f.blocks[n]
    data = f.data[:b.offset] + f.data[b.end:]

    def look(answer):
        if b.process == 1 and b.kind in (mtlog.STATE, mtlog.EVENTS) and not any('mtrun: ' in line for line in answer[0] + answer[2]):
            return 'nothing is said'
    return f'block {n} (type {b.kind}) left out', data, look


def noise(f, n):
    """Some bytes anywhere are others, or not there, or too many: whatever is said, the sums agree, and there is an end."""
    data = bytearray(f.data)
    for _ in range(dice.randint(1, 8)):
        at, many = dice.randrange(len(data)), dice.randint(1, 40)
        how = dice.randrange(3)
        data[at:at + many if how != 1 else at] = dice.randbytes(many) if how != 2 else b''
    return f'noise {n}', bytes(data), lambda answer: None


small = None
data, books = record('r 25', 'r 25', pause=0.15)
small = File(data)
mt.check('the small log holds what the program says, read by its manual', [] if small.truth[-1] == tuple(books[:2]) else [f'{small.truth[-1]}, the program: {books[:2]}'])
in_chunks(f'a small log cut at every {["", "", "", "third "][EACH]}byte', [cut(small, size) for size in sorted({*range(0, len(small.data), EACH), *small.ends[:-1]})])
in_chunks('a bit of each of them is another', [flip(small, at, at * 5 % 8) for at in range(0, len(small.data), EACH)])
in_chunks('each of its blocks left out', [without(small, n) for n in range(len(small.blocks))])

data, books = record('r 10000', 'c 4', 'r 10000', 'c 2', 'r 10000', pause=0.2)
large = File(data)
mt.check('the large log holds what the program says, read by its manual', [] if large.truth[-1] == tuple(books[:2]) else [f'{large.truth[-1]}, the program: {books[:2]}'])
sizes = sorted({dice.randrange(len(data)) for _ in range(RANDOM - len(large.ends))} | set(large.ends[:-1]))
AT_ONCE = 50
in_chunks('a large log cut anywhere', [cut(large, size) for size in sizes])
in_chunks('bits of it are others', [flip(large, dice.randrange(len(data)), dice.randrange(8)) for _ in range(RANDOM // 4)])
in_chunks('noise in it', [noise(large, n) for n in range(RANDOM // 4)])
mt.finish()
