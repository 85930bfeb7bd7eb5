# SPDX-License-Identifier: GPL-3.0-or-later
"""
served - the victim served.c under an mtrun that listens: what it is told to do, and what mtrun answers over HTTP.
"""
import http.client
import json
import os
import re
import socket
import subprocess

import mt


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__('localhost', timeout=20)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(self.path)


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


class Served:
    """A victim under mtrun that listens."""

    def __init__(self, *opts, port=None, start=None):
        self.port = port or free_port()
        self.messages = os.path.join(mt.tmp(), f'messages{self.port}')
        self.p = subprocess.Popen([mt.MTRUN, '-q', '--messages', self.messages, '--listen', opts[0] if opts and ':' in opts[0] else str(self.port),
                                   *(opts[1:] if opts and ':' in opts[0] else opts), *(start or [mt.build('served.c')])],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.p.stdout.readline()
        self.live = self.requested = 0

    def say(self, n):
        self.p.stdin.write(f'{n}\n')
        self.p.stdin.flush()
        self.live, self.requested = map(int, re.match(r'live (\d+) requested (\d+)', self.p.stdout.readline()).groups())

    def get(self, path, headers=None, method='GET', body=None):
        """(status, headers, bytes)"""
        c = http.client.HTTPConnection('127.0.0.1', self.port, timeout=30)
        c.request(method, path, body=body, headers=headers or {})
        r = c.getresponse()
        data = r.read()
        c.close()
        return r.status, r.headers, data

    def json(self, path):
        status, _, data = self.get(path)
        if status != 200:
            raise RuntimeError(f'{path}: {status}: {data[:200]}')
        return json.loads(data)

    def end(self):
        self.p.stdin.close()
        return self.p.wait(20)
