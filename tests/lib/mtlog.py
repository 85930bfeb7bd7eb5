# SPDX-License-Identifier: GPL-3.0-or-later
"""
mtlog - log files read by what mtrun-log(5) says, and by nothing of mtrun's: what they come to is compared with mtrun's own answers.
"""
import struct
import subprocess

RUN, PROCESS, MODULES, NODES, SYMBOLS, MARKS, STATE, EVENTS, INDEX = range(1, 10)
GOES_ON = 1
M64 = (1 << 64) - 1


def xxh64(data):
    p1, p2, p3, p4, p5 = 11400714785074694791, 14029467366897019727, 1609587929392839161, 9650029242287828579, 2870177450012600261

    def rotl(x, r):
        return (x << r | x >> (64 - r)) & M64

    def rnd(acc, lane):
        return rotl((acc + lane * p2) & M64, 31) * p1 & M64

    at, n = 0, len(data)
    if n >= 32:
        acc = [(p1 + p2) & M64, p2, 0, -p1 & M64]
        while at + 32 <= n:
            acc = [rnd(a, lane) for a, lane in zip(acc, struct.unpack_from('<4Q', data, at))]
            at += 32
        h = (rotl(acc[0], 1) + rotl(acc[1], 7) + rotl(acc[2], 12) + rotl(acc[3], 18)) & M64
        for a in acc:
            h = ((h ^ rnd(0, a)) * p1 + p4) & M64
    else:
        h = p5
    h = (h + n) & M64
    while at + 8 <= n:
        h = (rotl(h ^ rnd(0, struct.unpack_from('<Q', data, at)[0]), 27) * p1 + p4) & M64
        at += 8
    if at + 4 <= n:
        h = (rotl(h ^ struct.unpack_from('<I', data, at)[0] * p1 & M64, 23) * p2 + p3) & M64
        at += 4
    for byte in data[at:]:
        h = rotl(h ^ byte * p5 & M64, 11) * p1 & M64
    h = (h ^ h >> 33) * p2 & M64
    h = (h ^ h >> 29) * p3 & M64
    return h ^ h >> 32


# ---- files ------------------------------------------------------------------------------------------------------------------------

class Block:
    def __init__(self, offset, end, kind, flags, process, raw):
        self.offset, self.end, self.kind, self.flags, self.process, self.raw = offset, end, kind, flags, process, raw


def header(data):
    """(set, number, clock_ms, began_ms); ValueError."""
    magic, version, _, ident, number, _, clock, began, _, check = struct.unpack_from('<8sIIQIIQQQQ', data)
    if magic != b'mtrunlog' or version != 1 or check != xxh64(data[:56]):
        raise ValueError('no header')
    return ident, number, clock, began


def bounds(data, check=True):
    """[(offset, end)] of the blocks that are whole."""
    found, at = [], 64
    while at + 32 <= len(data):
        magic, _, _, _, packed, raw, zero, sum64 = struct.unpack_from('<IHHIIIIQ', data, at)
        end = at + 32 + packed
        if magic != 0x424c544d or zero or raw > 1 << 20 or end > len(data) or check and sum64 != xxh64(data[at:at + 24] + data[at + 32:end]):
            break
        found.append((at, end))
        at = end
    return found


def blocks(data, check=True):
    """The blocks that are whole, unpacked."""
    found = bounds(data, check)
    raw = subprocess.run(['zstd', '-dqc'], input=b''.join(data[a + 32:b] for a, b in found), stdout=subprocess.PIPE, check=True).stdout if found else b''
    out, at = [], 0
    for a, b in found:
        _, kind, flags, process, _, n = struct.unpack_from('<IHHIII', data, a)
        out.append(Block(a, b, kind, flags, process, raw[at:at + n]))
        at += n
    assert at == len(raw)
    return out


class Reader:
    def __init__(self, raw):
        self.raw, self.at = raw, 0

    def number(self):
        v = shift = 0
        while True:
            byte = self.raw[self.at]
            self.at += 1
            v |= (byte & 0x7f) << shift
            if byte < 0x80:
                return v
            shift += 7

    def signed(self):
        v = self.number()
        return v >> 1 ^ -(v & 1)

    def text(self):
        n = self.number()
        if not n:
            return None
        self.at += n
        assert self.raw[self.at - 1] == 0
        return self.raw[self.at - n:self.at - 1].decode(errors='replace')

    def more(self):
        return self.at < len(self.raw)


# ---- what happened ------------------------------------------------------------------------------------------------------------------

SUMS = ('now_ms interval counted up_ms high high_ms peak peak_ms heap mmap mmap_reserved inherited allocs frees unknown_frees temporary total_allocated '
        'events maps unmaps').split()


class Process:
    """What one process held, and the highest of each interval."""
    def __init__(self):
        self.points = {}            # interval -> bytes
        self.ready = False
        self.lines_to_come = 0

    def __getattr__(self, name):
        if name in SUMS:
            return 0
        raise AttributeError(name)

    def state(self, b):
        r = Reader(b.raw)
        if not self.lines_to_come:
            self.counts = r.number()
            for name in SUMS:
                setattr(self, name, r.number())
            self.point = [r.number() for _ in range(3)] if r.number() else None
            self.lines_to_come = r.number()
            self.line, self.stack = {}, 0
            self.meaning = []
            self.changes = 0
        while r.more():
            flags = r.number()
            self.stack += r.signed()
            self.line[self.stack] = [r.signed(), r.signed(), r.number(), r.number(), r.number() if flags & 1 else 0]
            for bit in 2, 4:
                if flags & bit:
                    r.signed(), r.signed()
            self.lines_to_come -= 1
        self.ready = not self.lines_to_come
        assert self.ready == (not b.flags & GOES_ON)

    def events_block(self, b):
        r = Reader(b.raw)
        head = [r.number() for _ in range(8)]
        assert head[:2] == [self.now_ms, self.interval] and head[4] == self.changes, (head, self.now_ms, self.interval, self.changes)
        end = r.at + head[7]
        while r.at < end:
            self.code(r)
        assert r.at == end and head[2:4] == [self.now_ms, self.interval] and self.changes == head[4] + head[5]
        self.counts = r.number()
        before = self.events
        self.events, self.unknown_frees, self.mmap_reserved, self.maps, self.unmaps, counted = (r.number() for _ in range(6))
        assert not r.more() and counted == self.counted and self.events - before == head[6]

    def code(self, r):
        code = r.number()
        if code == 0:
            self.pass_time(self.now_ms + r.signed())
        elif code == 1:
            shape, stack, what = r.number(), r.number(), r.number()
            self.meaning.append((shape, stack, what))
            self.change(*((what & 3, stack, what >> 2, 1) if shape == 4 else (shape, stack, what, 1)))
        elif code == 2:
            self.change(r.number(), r.number(), r.signed(), r.signed())
        else:
            shape, stack, what = self.meaning[code - 3]
            if shape == 4:
                what = r.number()
            self.change(*((what & 3, stack, what >> 2, 1) if shape == 4 else (shape, stack, what, 1)))

    def change(self, kind, stack, size, count):
        self.changes += 1
        line = self.line.setdefault(stack, [0] * 5)
        if kind == 0:
            self.allocs, self.heap, self.total_allocated = self.allocs + count, self.heap + size, self.total_allocated + size
            if self.counts & 1:
                self.more(line, size, count)
                line[2] += size
                line[3] += count
        elif kind in (1, 2):
            self.raise_high()
            self.frees, self.heap = self.frees + count, self.heap - size
            if kind == 2:
                self.temporary += count
                line[4] += count
            if self.counts & 1:
                self.more(line, -size, -count, False)
        elif kind == 3:
            for name, by in ('allocs', 1), ('frees', 1), ('temporary', 1), ('total_allocated', size):
                setattr(self, name, getattr(self, name) + by)
            line[2] += size
            line[3] += 1
            line[4] += 1
        elif kind == 4:
            if size < 0:
                self.raise_high()
            self.mmap += size
            if self.counts & 2:
                self.more(line, size, count, size >= 0)
        else:
            assert kind == 5
            line[2] += size
            line[3] += count

    def more(self, line, size, count, up=True):
        if up:
            self.up_ms = self.now_ms
        self.counted += size
        line[0] += size
        line[1] += count

    def raise_high(self):
        if self.counted > self.high:
            self.high, self.high_ms = self.counted, self.up_ms

    def pass_time(self, ms):
        self.now_ms = ms
        if ms // 100 <= self.interval:
            return
        self.raise_high()
        self.points[self.interval] = self.high
        if self.high > self.peak:
            self.peak, self.peak_ms = self.high, self.high_ms
        if ms // 100 > self.interval + 1:
            self.points[self.interval + 1] = self.counted
        self.interval, self.high, self.high_ms = ms // 100, self.counted, ms // 100 * 100

    def highest(self):
        """bytes, ms of the peak."""
        if self.counted > max(self.high, self.peak):
            return self.counted, self.up_ms
        return (self.high, self.high_ms) if self.high > self.peak else (self.peak, self.peak_ms)


def replay(found):
    """Process by number."""
    process = {}
    for b in found:
        if b.kind in (STATE, EVENTS):
            p = process.setdefault(b.process, Process())
            (p.state if b.kind == STATE else p.events_block)(b)
    return process
