#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 200
"""
strangers - who does not ask as one should: requests that were made up until there are 10 000 answers (with MTRUN_SOAK=1 10^7), all of which are known and well formed; heads and
answers that are taken byte by byte by more connections than there are places; with MTRUN_SOAK=1 answers that nobody takes. Somebody who asks properly is answered meanwhile.
"""
import os
import random
import re
import select
import socket
import time

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import load
import mt
from served import Served, free_port

mt.need_mtrun()
SEED = int(os.environ.get('MTRUN_SEED') or time.time())
ANSWERS = int(os.environ.get('MTRUN_ANSWERS') or (10**7 if mt.SOAK else 10000))
AT_ONCE = 12
KNOWN = {200, 303, 400, 401, 403, 404, 405, 411, 413, 414, 417, 431, 500, 501, 503, 507}

PATHS = ['/', '/metrics', '/healthz', '/debug/pprof/', '/debug/pprof/heap', '/debug/pprof/allocs', '/events', '/api/v1/', '/x', '*', 'http://localhost/healthz', '//', '/..', '/.%2e/',
         '/%00', '/api/v1/%73tatus', '/etc/passwd', '/api/v1/../../../etc/passwd', 'localhost:80', ''] + [
    '/api/v1/' + c for c in ('status', 'report', 'timeline', 'diff', 'text', 'tree', 'threads', 'processes', 'map', 'kill', 'stop', 'blocks', 'x', 'export', 'source', '!', 'report; kill')]
NAMES = ['n', 'by', 'sort', 'at', 'since', 'base', 'match', 'pid', 'seconds', 'debug', 'gc', 'token', 'file', '', 'n[]', '-n', '%6e']
VALUES = ['1', '0', '-1', '20', '18446744073709551616', 'site', 'stack', 'size', 'total', 'peak', '1s', '-1s', '10ms', 'now', '/etc/passwd', '../x.heap', '%', '%0', '%00', '%0a', '%ff%fe',
          '(', '(a|b)*', '[', 'a{1,99}', 'keep.*', '\\', '`id`', '$(id)', ';kill', '| sh', '> /tmp/x', '"', "'", '{', '', 'x' * 300, '<script>', '--json', '--help', '%25s', '%n%n']
HEADERS = ['Accept: application/openmetrics-text', 'Accept: */*', 'Accept-Encoding: gzip', 'Authorization: Bearer x', 'Authorization:', 'Cookie: mtrun=x; mtrun=y', 'Cookie: ;;;=',
           'X: ' + 'y' * 3000, ': x', 'X', 'Range: bytes=0-1', 'Expect: 100-continue', 'Origin: null', 'If-None-Match: *', 'Upgrade: websocket', 'Content-Length: 0', 'Content-Length: -1',
           'Content-Length: 99999999999', 'Transfer-Encoding: chunked', 'Connection: close', 'Connection: keep-alive', 'Host: evil.example', 'X\x00: y', 'X: \r y']


def request(r):
    rude = r.random() < 0.15        # upon most of what is wrong the connection is closed, and what follows is not read
    words = [f'{r.choice(NAMES)}{r.choice(("=", "=", "=", ""))}{r.choice(VALUES)}' for _ in range(r.choice((0, 0, 1, 1, 2, 3)))]
    path = r.choice(PATHS) + ('?' + '&'.join(words) if words else '')
    if 'seconds=' in path or path.startswith('/events'):     # there is no end of these soon
        path = path.replace('seconds=', 'seconds=x')
        path = '/api/v1/' + path if path.startswith('/events') else path
    head = [f'{r.choice(("HEAD", "POST", "PUT", "BREW", "get")) if rude else "GET"} {path} HTTP/{"1.0" if rude and r.random() < 0.2 else "1.1"}']
    head += [h for h in ('Host: localhost',) if not rude or r.random() < 0.8]
    head += [r.choice(HEADERS) for _ in range(r.choice((0, 1, 2)) if rude else 0)]
    data = bytearray('\r\n'.join(head).encode('latin-1') + b'\r\n\r\n')
    for _ in range(r.choice((0, 1, 2)) if rude else 0):
        data[r.randrange(len(data))] = r.randrange(256)
    return bytes(data)


class Talk:
    """A connection with many requests on their way; answers are read as they come."""
    def __init__(self, port):
        self.c = socket.create_connection(('127.0.0.1', port), timeout=10)
        self.c.setblocking(False)
        self.buffer, self.over = b'', False

    def answers(self):
        """The statuses of those that are whole; raises if one is not an answer."""
        try:
            got = self.c.recv(1 << 20)
            self.over = not got
            self.buffer += got
        except BlockingIOError:
            pass
        except OSError:
            self.over = True
        out = []
        while b'\r\n\r\n' in self.buffer:
            head, rest = self.buffer.split(b'\r\n\r\n', 1)
            if head == b'HTTP/1.1 100 Continue':   # of one that says that it has more; the answer is still to come
                self.buffer = rest
                continue
            m = re.match(rb'HTTP/\d+\.\d+ (\d{3}) [^\r\n]*((?:\r\n[A-Za-z-]+: ?[^\r\n\0]*)*)$', head)
            if not m or int(m[1]) not in KNOWN:
                raise RuntimeError(f'no answer: {head[:200]}')
            length = re.search(rb'\r\nContent-Length: (\d+)', m[2])
            n = int(length[1]) if length else 0
            if b'\r\nX-Length-Only:' in m[2] or len(rest) < n:
                if len(rest) < n and not self.over:
                    break
            out.append(int(m[1]))
            self.buffer = rest[n:]
        return out


def flood(s):
    """Requests on eight connections at once, each in one write; HEAD is left out of batches, as an answer to it says a length that does not follow."""
    r = random.Random(SEED)
    made, counts, wrong, memory, began = 0, {}, [], None, time.monotonic()
    while made < ANSWERS and not wrong:
        talks = []
        for _ in range(8):
            t = Talk(s.port)
            batch = [q for q in (request(r) for _ in range(AT_ONCE)) if not q.startswith(b'HEAD')]
            try:
                t.c.send(b''.join(batch))
                t.c.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            talks.append(t)
        end = time.monotonic() + 10 * mt.SLOW
        while [t for t in talks if not t.over] and time.monotonic() < end:
            for t in select.select([t.c for t in talks if not t.over], [], [], 1)[0]:
                talk = next(x for x in talks if x.c is t)
                try:
                    for status in talk.answers():
                        made += 1
                        counts[status] = counts.get(status, 0) + 1
                except RuntimeError as e:
                    wrong.append(f'seed {SEED}: {e}')
                    talk.over = True
        wrong += [f'seed {SEED}: a connection stays, after {made} answers: {t.buffer[:100]}' for t in talks if not t.over]
        for t in talks:
            t.c.close()
        if memory is None and made > ANSWERS / 3:
            memory = s.memory()
    more = s.memory() - memory if memory else 0
    print(f'{made} answers in {time.monotonic() - began:.1f} s, answers {dict(sorted(counts.items()))}, {more} bytes more')
    mt.check(f'{ANSWERS} answers to requests that were made up', wrong + ([f'{more} bytes more'] if more > 2 << 20 and mt.SLOW == 1 else []) + [f'no answer with {n}' for n in (200, 400, 404, 405) if n not in counts] +
             ([] if s.get('/healthz')[0] == 200 else ['it does not answer any more']))


def by_bytes(s):
    """300 connections, of which each says a byte now and then; somebody else is answered."""
    slow = []
    for _ in range(300):
        c = socket.socket()
        c.setblocking(False)
        c.connect_ex(('127.0.0.1', s.port))
        slow.append(c)
    text, began, took = b'GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ' + b'x' * 1000, time.monotonic(), None
    asked = socket.create_connection(('127.0.0.1', s.port), timeout=20)
    asked.sendall(b'GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n')
    asked.setblocking(False)
    for k in range(80):
        for c in slow:
            try:
                c.send(text[k:k + 1])
            except OSError:
                pass
        if select.select([asked], [], [], 0.25)[0]:
            took = time.monotonic() - began
            break
    mt.check('300 connections that ask byte by byte', [f'no answer in {time.monotonic() - began:.0f} s'] if took is None or b' 200 ' not in asked.recv(4096) else [])
    for c in slow:
        c.close()
    asked.close()


def nobody_takes():
    """Answers of some 25 MB each that nobody takes: there is no room for more than 512 MB of them, and then for none."""
    l, port = load.Load(200000, 20000), free_port()
    l.ask(f'listen {port}')
    before, open_ = l.memory(), []
    for _ in range(40):
        c = socket.create_connection(('127.0.0.1', port), timeout=300)
        c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        c.sendall(b'GET /api/v1/report?by=stack&n=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n')
        open_.append(c)
        c.recv(1)           # it is made, and begins to come
    more = l.memory() - before
    said = open_[-1].recv(200)
    print(f'{more} bytes for answers that nobody takes; the last one: {said[:20]}')
    for c in open_:
        c.close()
    mt.check('answers that nobody takes', ([f'{more} bytes'] if more > 1200 << 20 else []) + ([] if b' 503 ' in said else [f'the last one is {said[:60]}']))
    l.end()


class Here(Served):
    def memory(self):
        with open(f'/proc/{self.p.pid}/status') as f:
            return sum(int(line.split()[1]) for line in f if line.startswith('RssAnon:')) * 1024


s = Here()
s.say(2000)
flood(s)
by_bytes(s)
mt.check('the program goes on', [f'status {rc}' for rc in [s.end()] if rc != 3])
if mt.SOAK:
    nobody_takes()
mt.finish()
