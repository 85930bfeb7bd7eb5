#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 400
"""
leaks-real - programs that leak nothing are scanned again and again, at rest and while they work: no block is definitely or indirectly lost, but for those that are
explained here. Few are possibly lost.
"""
import glob
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
os.chmod(mt.tmp(), 0o755)      # postgres runs as another user
want = re.compile(sys.argv[1] if len(sys.argv) > 1 else '')
SCANS = 100 if mt.SOAK else 3


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return str(s.getsockname()[1])


class Work(threading.Thread):
    """Calls ONCE again and again."""
    def __init__(self, once):
        super().__init__(daemon=True)
        self.once, self.over, self.done = once, False, 0
        self.start()

    def run(self):
        while not self.over:
            try:
                self.once()
                self.done += 1
            except (OSError, ValueError):
                break

    def stop(self):
        self.over = True
        self.join(60)


# The innermost functions of a definite record's stack, and why it is one.
EXPLAINED = {
    r'save_ps_display_args < main\b': "the environment of postgres, once setenv(3) has made another one",
    r'__strdup < PostmasterMain\b': 'what -D of postgres was given, which is not needed any more',
}


def lost(r):
    """The records that are not explained, and whether many are possible."""
    bad = []
    for x in r['records']:
        functions = ' < '.join(f['function'] for f in x['stack'])
        if x['kind'] == 'definite' and not any(re.match(f, functions) for f in EXPLAINED):
            bad.append(f"{x['bytes']} bytes in {x['blocks']} definitely lost at {functions[:400]}")
    if not bad and r['indirect']['blocks'] and not r['definite']['blocks']:
        bad.append(f"indirect without a head: {r['indirect']}")
    # without learnt prefixes it is 39 to 99 %; what a program has just made has no prefix learnt yet
    many = r['reachable']['blocks'] / 20 + 10
    if r['possible']['blocks'] > many:
        bad.append(f"{r['possible']['blocks']} of {r['reachable']['blocks']} blocks possibly lost")
    return bad


def scans(name, a, before=''):
    bad, pause, took = [], [], []
    for i in range(SCANS):
        if before:
            a.ask(before)
        r = a.json('leaks')
        bad += [f'scan {i + 1}: {x}' for x in lost(r)]
        pause.append(r['pause_ms'])
        took.append(r['scan_ms'])
        if len(bad) > 3:
            break
        time.sleep(0.05)
    r['reachable']['blocks'] or bad.append('no blocks')
    if '-v' in sys.argv:
        print(f"# {name}: {r['reachable']} {r['possible']} pause {max(pause)} ms scan {max(took)} ms {r['prefixes']}")
    mt.check(name, bad)


def case(name, *programs):
    def decorate(fn):
        if not want.search(name):
            return
        missing = [p for p in programs if not shutil.which(p)]
        if missing:
            mt.skip(name, f'{missing[0]} is not installed')
            return
        d = mt.tempfile.mkdtemp(dir=mt.tmp())
        os.chmod(d, 0o777)
        fn(name, d)
    return decorate


def launched(cmd, up, **kw):
    """Runs under mtrun until UP(line) of what it prints, if not None."""
    a = mt.Launched(cmd, **kw)
    while up is not None:
        line = a.p.stdout.readline()
        if up in line:
            break
        if not line:
            a.end()
            raise RuntimeError(f'{cmd[0]} has ended')
    return a


@case('redis', 'redis-server', 'redis-benchmark')
def _(name, d):
    port = free_port()
    a = launched(['redis-server', '--port', port, '--save', '', '--dir', d, '--io-threads', '2'], b'Ready to accept')
    try:
        scans(f'{name} at rest', a)
        bench = ['redis-benchmark', '-p', port, '-n', '5000' if mt.SOAK else '1500', '-r', '5000',
                 '-d', '100', '-c', '20', '-q', '-t', 'set,lpush,sadd,hset,zadd,lrange']
        load = Work(lambda: mt.plain(bench, timeout=300))
        mt.until(lambda: load.done, 60)
        scans(f'{name} under load', a)
        load.stop()
    finally:
        a.end()


def fed(a, text):
    def once():
        a.p.stdin.write(text)
        a.p.stdin.flush()
    return once


def drain(a):
    """What it prints is read and forgotten."""
    return Work(lambda: a.p.stdout.read1(1 << 16) or (_ for _ in ()).throw(OSError()))


@case('sqlite3', 'sqlite3')
def _(name, d):
    a = launched(['sqlite3', f'{d}/db'], None)
    try:
        fed(a, b'create table t(a,b); create index x on t(b); select 1;\n')()
        a.p.stdout.readline()
        scans(f'{name} at rest', a)
        out = drain(a)
        load = Work(fed(a, b'with recursive n(i) as (select 1 union all select i+1 from n where i<2000) insert into t select i,hex(randomblob(30)) from n;'
                           b'select count(*),avg(length(b)),group_concat(substr(b,1,3)) from t where a%7=3; delete from t where a%3=1 and rowid<100000;\n'))
        mt.until(lambda: load.done > 3, 30)
        scans(f'{name} under load', a)
        load.over = True
    finally:
        a.end()


PYTHON = '''
import json, re, sys, threading, time, collections
print("up", flush=True)
class Node:
    def __init__(self, left, right): self.left, self.right = left, right
def work(n):
    kept = collections.OrderedDict()
    i = 0
    while True:
        i += 1
        kept[i % 3000] = (json.loads(json.dumps({"a": [i, str(i)] * 5, "b": {"c": "x" * (i % 100)}})), Node({i}, [bytearray(i % 500)]), re.sub("(a)(b)", r"\\\\2\\\\1", "ab" * (i % 20)))
        if i % 1000 == 0:
            kept.clear()
for n in range(2): threading.Thread(target=work, args=(n,), daemon=True).start()
sys.stdin.read()
'''


for how, env in (('python3', {}), ('python3 with malloc', {'PYTHONMALLOC': 'malloc'})):
    @case(how, '/usr/bin/python3')
    def _(name, d):
        a = launched(['/usr/bin/python3', '-c', PYTHON], b'up', env={**os.environ, **env})
        try:
            scans(f'{name} under load', a)
        finally:
            a.end()


COLLECTING = '''
import collections, gc
kept = collections.OrderedDict((i, {i: [i, (i, [i])]}) for i in range(500))
print("up", flush=True)
while True:
    gc.collect()
'''


@case('python3 while it collects', '/usr/bin/python3')
def _(name, d):
    a = launched(['/usr/bin/python3', '-c', COLLECTING], b'up', env={**os.environ, 'PYTHONMALLOC': 'malloc'})
    try:
        bad = []
        for i in range(4 * SCANS):
            r = a.json('leaks')
            bad += [f'scan {i + 1}: {x}' for x in lost(r)]
            if r['possible']['blocks'] > 20:
                bad.append(f"scan {i + 1}: {r['possible']['blocks']} of {r['reachable']['blocks']} blocks possibly lost")
        mt.check(name, bad)
    finally:
        a.end()


@case('nginx', 'nginx', 'wrk')
def _(name, d):
    port = free_port()
    with open(f'{d}/nginx.conf', 'w') as f:
        f.write(f'daemon off; master_process off; pid {d}/nginx.pid; error_log {d}/error.log;\nevents {{ }}\n'
                f'http {{ access_log off; gzip on; gzip_types *; client_body_temp_path {d}/b; proxy_temp_path {d}/p; fastcgi_temp_path {d}/f; uwsgi_temp_path {d}/u; scgi_temp_path {d}/s;\n'
                f'server {{ listen 127.0.0.1:{port}; location / {{ return 200 "hello {"x" * 500}"; }} }} }}\n')
    a = launched(['nginx', '-p', d, '-c', f'{d}/nginx.conf'], None)
    try:
        mt.until(lambda: os.path.exists(f'{d}/nginx.pid'), 30)
        scans(f'{name} at rest', a)
        load = Work(lambda: mt.plain(['wrk', '-t1', '-c8', '-d1s', '-H', 'Accept-Encoding: gzip', f'http://127.0.0.1:{port}/'], timeout=60))
        mt.until(lambda: load.done, 60)
        scans(f'{name} under load', a)
        load.stop()
    finally:
        a.end()


def postgres_bin(name):
    found = sorted(glob.glob(f'/usr/lib/postgresql/*/bin/{name}'))
    return found[-1] if found else shutil.which(name) or name


@case('postgres', postgres_bin('postgres'), postgres_bin('pgbench'), postgres_bin('initdb'), 'setpriv')
def _(name, d):
    who = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'] if os.getuid() == 0 else []
    port, data = free_port(), f'{d}/pg'
    kw = {'cwd': '/', 'env': {**os.environ, 'PGHOST': '127.0.0.1', 'PGPORT': port, 'PGUSER': 'bench', 'PGDATABASE': 'postgres'}}
    r = mt.plain([*who, postgres_bin('initdb'), '-D', data, '-U', 'bench', '-A', 'trust', '--no-sync', '--locale=C'], timeout=120, **kw)
    if r.rc:
        mt.fail(name, r.err)
        return
    a = launched([*who, postgres_bin('postgres'), '-D', data, '-c', f'port={port}', '-c', 'listen_addresses=127.0.0.1', '-c', 'unix_socket_directories=', '-c', 'fsync=off'],
                 b'ready to accept', **kw)
    try:
        out = drain(a)
        scans(f'{name} at rest', a)
        mt.plain([postgres_bin('pgbench'), '-i', '-q'], timeout=120, **kw)
        load = mt.popen([postgres_bin('pgbench'), '-c', '2', '-T', '600', '-n'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **kw)
        backends = lambda: [x['pid'] for x in a.json('processes')['processes'] if x['state'] == 'running' and x['allocs'] > 3000]
        mt.until(lambda: len(backends()) > 2, 60)
        for pid in backends()[-2:]:
            scans(f'{name}: a process under load', a, f'process {pid}')
        mt.end_group(load)
    finally:
        a.end()


@case('perl', 'perl')
def _(name, d):
    a = launched(['perl', '-e', '$|=1; print "up\\n"; while (1) { my %h; $h{$_ % 5000} = [map { "x" x ($_ % 50) } 1 .. 10] for 1 .. 20000; my $s = join ",", sort keys %h; $s =~ s/(\\d)(\\d)/$2$1/g; }'], b'up')
    try:
        scans(f'{name} under load', a)
    finally:
        a.end()


@case('git', 'git')
def _(name, d):
    run = lambda *words: subprocess.run(['git', '-C', d, '-c', 'user.name=x', '-c', 'user.email=x@y', *words], check=True, capture_output=True)
    run('init', '-q')
    for i in range(20):
        with open(f'{d}/file{i}', 'w') as f:
            f.write(''.join(f'{k * i}\n' for k in range(3000)))
        run('add', '.')
        run('commit', '-q', '-m', f'{i}')
    a = launched(['git', '-C', d, 'cat-file', '--batch'], None)
    try:
        fed(a, b'HEAD\n')()
        a.p.stdout.readline()
        scans(f'{name} at rest', a)
        out = drain(a)
        load = Work(fed(a, b''.join(b'HEAD~%d:file%d\nHEAD~%d^{tree}\n' % (i % 5, i % 15, i % 19) for i in range(50))))
        mt.until(lambda: load.done > 3, 30)
        scans(f'{name} under load', a)
        load.over = True
    finally:
        a.end()


SOURCE = '#include <algorithm>\n#include <iostream>\n#include <map>\n#include <regex>\n#include <string>\n#include <vector>\nint main() { std::map<std::string, std::vector<int>> m; ' \
         'std::regex r("a(b|c)*d"); std::string s; while (std::cin >> s) if (std::regex_match(s, r)) m[s].push_back(1); std::cout << m.size(); }\n'


def compiler(name, d, cmd):
    for i in range(SCANS):
        a = mt.Launched(cmd)
        try:
            time.sleep(0.4 + 0.5 * i % 3)
            r = a.json('leaks')
            mt.check(f'{name}, after {0.4 + 0.5 * i % 3:.1f} s', lost(r))
            if '-v' in sys.argv:
                print(f"# {name}: {r['reachable']} {r['possible']} {r['pause_ms']} {r['scan_ms']}")
        except (RuntimeError, ValueError) as e:
            ended = a.p.poll() is None and a.json('status')['state'] == 'exited'
            why = 'it has ended before' if ended else 'no answer'
            (mt.skip if ended else mt.fail)(name, f'{why}: {str(e)[:80]}')
        finally:
            a.end()


@case('cc1plus', 'g++')
def _(name, d):
    with open(f'{d}/a.cc', 'w') as f:
        f.write(SOURCE)
    cc1plus = subprocess.run(['g++', '-print-prog-name=cc1plus'], capture_output=True, text=True).stdout.strip()
    subprocess.run(['g++', '-E', f'{d}/a.cc', '-o', f'{d}/a.ii'], check=True)
    compiler(name, d, [cc1plus, '-fpreprocessed', '-quiet', '-O2', '-g', f'{d}/a.ii', '-o', '/dev/null'])


@case('clang', 'clang++')
def _(name, d):
    with open(f'{d}/a.cc', 'w') as f:
        f.write(SOURCE)
    compiler(name, d, ['clang++', '-fintegrated-cc1', '-O2', '-g', '-c', f'{d}/a.cc', '-o', '/dev/null'])


mt.finish()
