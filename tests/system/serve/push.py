#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 90
# waits
"""push - what --push sends to a stand-in for Pyroscope's /ingest: the request as its documentation has it, the numbers the victim's own; what happens when it does not answer."""
import email
import gzip
import os
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, HTTPServer

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
got, status = [], [200]


class Ingest(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length']))
        if status[0] == 200:
            got.append((self.path, dict(self.headers), body))
        self.send_response(status[0])
        self.end_headers()

    def log_message(self, *args):
        pass


class UnixServer(HTTPServer):
    address_family = socket.AF_UNIX

    def server_bind(self):
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = 'localhost', 0

    def get_request(self):
        return self.socket.accept()[0], ('', 0)


def serve(address):
    server = UnixServer(address, Ingest) if isinstance(address, str) else HTTPServer(address, Ingest)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def parts(headers, body):
    """name -> content of multipart/form-data"""
    whole = email.message_from_bytes(b'Content-Type: ' + headers['Content-Type'].encode() + b'\r\n\r\n' + body)
    return {p.get_param('name', header='content-disposition'): p.get_payload(decode=True) for p in whole.get_payload()} if whole.is_multipart() else {}


def top(data, sample):
    file = os.path.join(mt.tmp(), 'p.pb.gz')
    with open(file, 'wb') as f:
        f.write(data)
    out = subprocess.run(['go', 'tool', 'pprof', '-top', '-unit=B', f'-sample_index={sample}', file], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         env={**os.environ, 'HOME': mt.tmp(), 'PPROF_TMPDIR': mt.tmp()}).stdout
    return {m[2]: int(m[1]) for m in re.finditer(r'^\s*(\d+)B?\s+[\d.]+%\s+[\d.]+%\s+\d+B?\s+[\d.]+%\s+(\S+)', out, re.M)}


class Pushed:
    def __init__(self, url, *opts):
        self.messages = os.path.join(mt.tmp(), 'messages')
        self.p = subprocess.Popen([mt.MTRUN, '-q', '--messages', self.messages, '--push', url, '--push-every', '1s', *opts, mt.build('served.c')],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.p.stdout.readline()

    def say(self, n):
        self.p.stdin.write(f'{n}\n')
        self.p.stdin.flush()
        return int(self.p.stdout.readline().split()[1])

    def end(self):
        self.p.stdin.close()
        return self.p.wait(20)

    def said(self):
        with open(self.messages) as f:
            return f.read()


server = serve(('127.0.0.1', 0))
port = server.server_port
s = Pushed(f'http://127.0.0.1:{port}', '--push-label', 'zone=a b', '--push-label', 'tier=db')
live = s.say(1000)
before = len(got)
mt.until(lambda: len(got) >= before + 3, 15)
if len(got) < before + 3:
    mt.fail('profiles come', f'{len(got)} in 15 s: {s.said()}')
    s.end()
    mt.finish()
path, headers, body = got[before + 2]
url = urllib.parse.urlsplit(path)
query = urllib.parse.parse_qs(url.query, strict_parsing=True)
form = parts(headers, body)
wrong = []
if url.path != '/ingest' or query.get('format') != ['pprof']:
    wrong.append(path)
if not re.fullmatch(r'served[\w.-]*\{pid="\d+",zone="a b",tier="db"\}', query.get('name', [''])[0]):
    wrong.append(f'name {query.get("name")}')
times = [int(query.get(k, ['0'])[0]) for k in ('from', 'until')]
if not (0 < times[1] - times[0] <= 3 and abs(times[1] - time.time()) < 20):
    wrong.append(f'times {times}')
if not form.get('profile', b'').startswith(b'\x1f\x8b') or b'inuse_space' not in gzip.decompress(form['profile']):
    wrong.append('no gzipped profile')
if b'"inuse_space"' not in form.get('sample_type_config', b''):
    wrong.append('no sample_type_config')
mt.check('the request', wrong)
until = [int(urllib.parse.parse_qs(urllib.parse.urlsplit(p).query)['until'][0]) for p, _, _ in got]
since = [int(urllib.parse.parse_qs(urllib.parse.urlsplit(p).query)['from'][0]) for p, _, _ in got]
mt.check('one begins where the last one ended', [] if since[1:] == until[:-1] else [since, until])
if shutil.which('go'):
    all_ = [parts(h, b)['profile'] for _, h, b in got]
    wrong = [f'live {have}, not {live}' for have in [top(all_[before + 2], 'inuse_space').get('keep_block')] if have != live]
    allocated = sum(top(a, 'alloc_space').get('keep_block', 0) for a in all_)
    if allocated != live:
        wrong.append(f'allocated in all {allocated}, not {live}')
    mt.check('the numbers', wrong)
else:
    mt.skip('the numbers', 'no go here')

# It refuses for a while: said once, sent again, and said once when that works.
status[0] = 503
mt.until(lambda: 'status 503' in s.said(), 15)
time.sleep(3)
status[0] = 200
n = len(got)
mt.until(lambda: 'again' in s.said().split('trying again')[-1] and len(got) > n, 30)
lines = [l for l in s.said().split('\n') if '--push' in l]
mt.check('a server that fails for a while', ([] if len(lines) == 2 and 'takes profiles again' in lines[1] else [lines]) + ([] if len(got) > n else ['nothing came']))
mt.check('the status is the program\'s', [f'status {rc}' for rc in [s.end()] if rc != 3])
server.shutdown()
server.server_close()

s = Pushed(f'http://127.0.0.1:{port}/other/ingest')         # nobody is there any more
mt.until(lambda: 'cannot send' in s.said(), 15)
time.sleep(2.5)
mt.check('nobody is there: said once, and the program runs', [s.said()] if s.said().count('--push') != 1 or 'Connection refused' not in s.said() else [])
s.end()

path = os.path.join(mt.tmp(), 'push.sock')
server, n = serve(path), len(got)
s = Pushed('unix:' + path)
mt.until(lambda: len(got) > n, 15)
mt.check('a unix socket', [] if len(got) > n and got[-1][0].startswith('/ingest?') else ['nothing came'])
s.end()
server.shutdown()

for name, opts in (('https', ['--push', 'https://127.0.0.1']), ('a name', ['--push', 'http://example.org']), ('a query', ['--push', 'http://127.0.0.1/x?y']),
                   ('a label', ['--push', 'http://127.0.0.1', '--push-label', '1=x']), ('a label\'s value', ['--push', 'http://127.0.0.1', '--push-label', 'a="']),
                   ('too often', ['--push', 'http://127.0.0.1', '--push-every', '10ms'])):
    r = subprocess.run([mt.MTRUN, *opts, 'true'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    right = 'invalid value' in r.stderr and r.stderr.count('\n') == 1 and '\\' not in r.stderr
    mt.check('refused: ' + name, [] if r.returncode == 125 and right else [r.stderr])
mt.finish()
