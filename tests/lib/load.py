# SPDX-License-Identifier: GPL-3.0-or-later
"""
load - the victim loaded.c under mtrun, asked while it runs at full speed. What it does is known from the memory that it shares with us.
"""
import json
import mmap
import os
import struct
import subprocess
import time

import mt


class Gauge:
    """What the program says of itself, in a file that it runs as long as it is there."""
    WORDS = ('replaced', 'gap_ns', 'epoch', 'bytes', 'ready', 'blocks', 'threads')

    def __init__(self, path):
        self.path = path
        with open(path, 'wb') as f:
            f.write(bytes(4096))
        with open(path, 'r+b') as f:
            self.memory = mmap.mmap(f.fileno(), 4096)

    def __getattr__(self, name):
        return struct.unpack_from('<Q', self.memory, self.WORDS.index(name) * 8)[0]

    def begin(self):
        """From now on `gap_ns` counts anew."""
        epoch, before = self.epoch + 1, self.replaced
        struct.pack_into('<Q', self.memory, 16, epoch)
        mt.until(lambda: self.replaced > before + 16)

    def end(self):
        if os.path.exists(self.path):
            os.unlink(self.path)


class Load:
    """mtrun, given commands one by one."""
    def __init__(self, blocks, stacks, size=32, threads=False, mtrun=None, options=('-q',)):
        self.dir = mt.tempfile.mkdtemp(dir=mt.tmp())
        self.gauge = Gauge(os.path.join(self.dir, 'gauge'))
        victim = [mt.build('loaded.c'), str(blocks), str(stacks), self.gauge.path, str(size)] + (['threads'] if threads else [])
        self.p = mt.popen([mtrun or mt.MTRUN, *options, '-X', '-', '--'] + victim, stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.dir)
        if not mt.until(lambda: self.gauge.ready or self.p.poll() is not None, 120) or not self.gauge.ready:
            self.end()
            raise RuntimeError('the program did not come up: ' + self.rest.decode(errors='replace')[-300:])

    def begin(self, command):
        self.p.stdin.write((command + '\necho -THE-END-\n').encode())
        self.p.stdin.flush()

    def answer(self):
        end, text, seen = b'-THE-END-\n', bytearray(), 0
        while text.find(end, seen) < 0:
            seen = max(0, len(text) - len(end))
            more = os.read(self.p.stderr.fileno(), 1 << 20)
            if not more:
                raise RuntimeError('mtrun is gone: ' + text.decode(errors='replace')[-300:])
            text += more
        return text[:text.index(b'-THE-END-')]      # (with -vv something is told of `echo`, too)

    def ask(self, command):
        self.begin(command)
        return self.answer()

    def json(self, command):
        text = self.ask(command + ' --json')
        try:
            return json.loads(text)
        except ValueError as e:
            raise RuntimeError(f'{command}: {text[:300]!r}') from e

    def cpu_ms(self):
        """Of mtrun, all its threads."""
        ns = 0
        for tid in os.listdir(f'/proc/{self.p.pid}/task'):
            try:
                with open(f'/proc/{self.p.pid}/task/{tid}/schedstat') as f:
                    ns += int(f.read().split()[0])
            except OSError:
                pass
        return ns / 1e6

    def memory(self, field='VmRSS'):
        with open(f'/proc/{self.p.pid}/status') as f:
            return int([line for line in f if line.startswith(field + ':')][0].split()[1]) * 1024

    def during(self, fn):
        """Seconds, replacements a second and the program's longest pause in ms while FN() ran."""
        self.gauge.begin()
        began, before = time.perf_counter(), self.gauge.replaced
        fn()
        took, done = time.perf_counter() - began, self.gauge.replaced - before
        mt.until(lambda: self.gauge.replaced > before + done + 64, 2)  # a pause that is under way counts when it is over
        return took, done / took, self.gauge.gap_ns / 1e6

    def end(self):
        self.gauge.end()
        self.rest = b''
        if self.p.poll() is None:
            try:
                self.rest = self.p.communicate(b'quit\n', timeout=20)[1]
            except (subprocess.TimeoutExpired, BrokenPipeError):
                pass
        mt.end_group(self.p)
