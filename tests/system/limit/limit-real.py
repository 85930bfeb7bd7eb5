#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 400
"""limit-real - programs of the system under a limit: they start, meet it where they should, live on, or are not touched by it."""
import json
import os
import re
import shutil
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
want = re.compile(sys.argv[1] if len(sys.argv) > 1 else '')
d = mt.tmp()
HIT = re.compile(r'^\[MEMTRACER\] alloc memory:(\d+), allocated_memory: (\d+), memory_limit: (\d+), Memory limit exceeded!$', re.M)


def run(opts, words, **kw):
    r = mt.plain([mt.MTRUN, '-q', '--messages', f'{d}/m', *opts, '--', *words], timeout=120, **kw)
    with open(f'{d}/m', errors='replace') as f:
        r.text = f.read()
    r.hits = [tuple(map(int, m)) for m in HIT.findall(r.text)]
    return r


def case(name, program):
    def decorate(fn):
        if not want.search(name):
            return
        if not shutil.which(program):
            mt.skip(name, f'{program} is not installed')
            return
        bad = []
        fn(bad)
        mt.check(name, bad)
    return decorate


@case('python3: MemoryError, and it lives on', '/usr/bin/python3')
def _(bad):
    text = ('l = []\ntry:\n  while True: l.append(bytearray(1000000))\nexcept MemoryError:\n  n = len(l); del l\n  print(n)\n'
            'l = [bytearray(1000000) for _ in range(n // 2)]\nprint("lives", len(l))')
    r = run(['-l', '100MB', '--on-limit', 'fail', '-x', f'wait exit; limit --json > {d}/l'], ['/usr/bin/python3', '-c', text])
    with open(f'{d}/l') as f:
        limit = json.load(f)
    out = r.out.split()
    if r.rc or len(r.hits) != 1 or not 80 <= int(out[0]) < 100 or int(out[2]) != int(out[0]) // 2 or limit['refused'] < 1 or limit['refused'] != limit['hits']:
        bad.append(f'{r.rc} {r.out} {r.hits} {limit["refused"]} {r.text[:300]}')


for name, words in (('node', ['-e', 'console.log("runs")']), ('java', ['-Xms32m', '-version'])):
    @case(f'{name} starts under 300M', name)
    def _(bad):
        r = run(['-l', '300M', '-x', f'wait exit; status --json > {d}/s'], [name, *words])
        with open(f'{d}/s') as f:
            s = json.load(f)
        if r.rc or r.hits or s['limit_hits'] or not s['allocated'] or not (r.out + r.err):
            bad.append(f'{r.rc} {r.out} {r.err} {r.text[:600]}')


@case('g++: each process has the limit for itself', 'g++')
def _(bad):
    with open(f'{d}/a.cc', 'w') as f:
        f.write('#include <map>\n#include <string>\n#include <regex>\n#include <iostream>\nint main() { std::map<int, std::regex> m; std::cout << m.size(); }\n')
    words = ['g++', '-O2', '-c', f'{d}/a.cc', '-o', f'{d}/a.o']
    r = run(['-l', '40M'], words)
    m = re.search(r'^process \d+ \((\S+)\)', r.text, re.M)
    if r.rc != -9 or len(r.hits) != 1 or not m or m[1] != 'cc1plus' or r.hits[0][0] + r.hits[0][1] <= 40 << 20 or os.path.exists(f'{d}/a.o'):
        bad.append(f'40M: {r.rc} {r.hits} {r.text[:300]} {r.text[-200:]}')
    r = run(['-l', '900M'], words)
    if r.rc or r.hits or not os.path.exists(f'{d}/a.o'):
        bad.append(f'900M: {r.rc} {r.hits} {r.err[-300:]}')
    r = run(['-l', '40M', '--on-limit', 'fail'], words)
    if r.rc in (0, 125) or not r.hits or b'emory' not in r.err:
        bad.append(f'fail: {r.rc} {r.hits} {r.err[-300:]}')


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def listening(port):
    with socket.socket() as s:
        return s.connect_ex(('127.0.0.1', port)) == 0


@case('redis-server under redis-benchmark', 'redis-benchmark')
def _(bad):
    for limit, killed in (('12MB', True), ('2GB', False)):
        port = free_port()
        p = mt.popen([mt.MTRUN, '-q', '-l', limit, '--messages', f'{d}/m', '--', 'redis-server', '--port', str(port), '--save', '', '--dir', d],
                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if not mt.until(lambda: listening(port), 20):
            bad.append(f'{limit}: it does not listen: {open(f"{d}/m").read()[:300]}')
        b = mt.plain(['redis-benchmark', '-p', str(port), '-n', '60000', '-r', '60000', '-d', '200', '-q', '-t', 'set,lpush'], timeout=100)
        if not killed:
            mt.plain(['redis-cli', '-p', str(port), 'shutdown', 'nosave'])
        rc = p.wait(30)
        with open(f'{d}/m') as f:
            text = f.read()
        hits = HIT.findall(text)
        if killed and (rc != -9 or len(hits) != 1 or sum(map(int, hits[0][:2])) <= 12000000 or int(hits[0][1]) > 12000000 or 'main\n' not in text):
            bad.append(f'{limit}: {rc} {hits} {text[:300]}')
        if not killed and (rc or hits or b.rc):
            bad.append(f'{limit}: {rc} {b.rc} {text[:300]}')


@case('nginx: nothing is refused at a generous limit', 'nginx')
def _(bad):
    port = free_port()
    with open(f'{d}/nginx.conf', 'w') as f:
        f.write(f'daemon off; worker_processes 2; pid {d}/nginx.pid; error_log {d}/error.log; user root;\nevents {{ }}\n'
                f'http {{ access_log off; client_body_temp_path {d}/b; proxy_temp_path {d}/p; fastcgi_temp_path {d}/f; uwsgi_temp_path {d}/u; scgi_temp_path {d}/s;\n'
                f'server {{ listen 127.0.0.1:{port}; location / {{ return 200 "hello"; }} }} }}\n')
    p = mt.popen([mt.MTRUN, '-q', '-l', '500M', '--on-limit', 'fail', '--messages', f'{d}/m', '--', 'nginx', '-p', d, '-c', f'{d}/nginx.conf'],
                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if not mt.until(lambda: listening(port), 20):
        bad.append('it does not listen')
    for _ in range(50):
        with socket.create_connection(('127.0.0.1', port)) as s:
            s.sendall(b'GET / HTTP/1.0\r\n\r\n')
            if b'hello' not in s.recv(4096):
                bad.append('no answer')
    p.terminate()
    rc = p.wait(30)
    with open(f'{d}/m') as f:
        text = f.read()
    if rc or HIT.search(text):
        bad.append(f'{rc} {text[:500]}')


mt.finish()
