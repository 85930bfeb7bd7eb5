#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 400
"""
attach-servers - servers under load are attached to and left again and again, mtrun being killed at any instant in a quarter of the cycles: they do not
crash, no client sees an error, what the clients counted is what the server counted, and at the end their code and files mapped are what they were.
"""
import ctypes
import glob
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
d = mt.tmp()
os.chmod(d, 0o755)
want = re.compile(sys.argv[1] if len(sys.argv) > 1 else '')
CYCLES = int(os.environ.get('MTRUN_CYCLES', 1000 if mt.SOAK else 8))
random.seed(7)


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def listening(port):
    with socket.socket() as s:
        return s.connect_ex(('127.0.0.1', port)) == 0


def lasting(pid):
    """Of a fingerprint what a running server does not change by itself."""
    f = mt.fingerprint(pid)
    f['signals'] = [s for s in f['signals'] if 'SigBlk' not in s]       # it changes that all the time
    return {'maps': '\n'.join(line for line in f['maps'].splitlines() if '/' in line or 'x' in line.split()[1]), 'code': f['code'], 'signals': f['signals'],
            'fds': sorted(v for v in f['fds'].values() if 'socket:' not in v and '/' not in v)}


class Load(threading.Thread):
    """Calls ONCE again and again until stop(); what it returns is added up in done, what it raises is a problem."""
    def __init__(self, once):
        super().__init__()
        self.once, self.over, self.done, self.problems = once, False, 0, []
        self.start()

    def run(self):
        while not self.over and not self.problems:
            try:
                self.done += self.once()
            except Exception as e:      # whatever a client may see
                self.problems.append(f'load: {type(e).__name__}: {e}')

    def stop(self):
        self.over = True
        self.join()
        return self.problems


def tool(cmd, pattern, errors='(?!)', **kw):
    """Runs a load generator; the sum of what PATTERN finds. ERRORS must not be in what it says."""
    r = mt.plain(cmd, timeout=120, **kw)
    text = (r.out + r.err).decode(errors='replace')
    if r.rc != 0 or re.search(errors, text):
        raise RuntimeError(f'{cmd[0]}: status {r.rc}: {text[-300:]}')
    return sum(map(int, re.findall(pattern, text))) if pattern else 0


def attach(bad, pids, opts, ms, kill_after=None):
    """One cycle of mtrun; KILL_AFTER: seconds until it is killed."""
    p = mt.popen([mt.MTRUN, '-q', *opts, '-p', ','.join(map(str, pids)), '-d', f'{ms}ms'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if kill_after is not None:
        time.sleep(kill_after)
        mt.kill(p.pid)
    try:
        text = p.communicate(timeout=60)[0].decode(errors='replace')
    except subprocess.TimeoutExpired:
        mt.kill(p.pid)
        bad.append('it does not leave')
        return
    if kill_after is None and (p.returncode or text):
        bad.append(f'status {p.returncode}: {text[:300]}')


def cycles(bad, pids, opts=(), load=None):
    """CYCLES times, and a last one that is not disturbed. PIDS: a function."""
    watched = pids()
    before = {pid: lasting(pid) for pid in watched}
    for i in range(CYCLES):
        ms = random.randint(50, 300)
        kill_after = random.uniform(0, ms / 1000 + 0.1) if i % 4 == 3 else None
        attach(bad, pids(), opts, ms, kill_after)
        gone = [pid for pid in watched if not os.path.exists(f'/proc/{pid}/maps')]
        if gone or (load and load.problems):
            bad.append(f'cycle {i}{f", killed after {kill_after:.3f} s" if kill_after is not None else ""}: {gone} are gone' if gone else f'cycle {i}')
            return
        if len(bad) > 5:
            return
    attach(bad, pids(), opts, 100)
    for pid in watched:
        bad += [f'{pid}: {x}' for x in mt.changed(before[pid], lasting(pid))]


def case(name, *programs):
    def decorate(fn):
        if not want.search(name):
            return
        missing = [p for p in programs if not shutil.which(p)]
        if missing:
            mt.skip(name, f'{missing[0]} is not installed')
            return
        bad = []
        fn(bad)
        mt.check(name, bad)
    return decorate


def start(cmd, ready, bad, **kw):
    log = open(f'{d}/{os.path.basename(cmd[0])}.log', 'wb')
    p = mt.popen(cmd, stdout=log, stderr=log, **kw)
    if not mt.until(ready, 30):
        bad.append(f'{cmd[0]} does not start: {open(log.name).read()[-300:]}')
    return p


def end(p, bad, status=(0,)):
    p.send_signal(signal.SIGTERM)
    try:
        if p.wait(30) not in status:
            bad.append(f'it ends with {p.returncode}')
    except subprocess.TimeoutExpired:
        mt.kill(p.pid)
        p.wait()
        bad.append('it does not end at SIGTERM')


@case('redis-server under redis-benchmark', 'redis-server', 'redis-benchmark', 'redis-cli')
def _(bad):
    port = str(free_port())
    p = start(['redis-server', '--port', port, '--save', '', '--dir', d, '--io-threads', '2'], lambda: listening(int(port)), bad)

    def cli(*words):
        return mt.plain(['redis-cli', '-p', port, *words]).out.decode()

    n = 20000
    cli('config', 'resetstat')

    def once():
        tool(['redis-benchmark', '-p', port, '-n', str(n), '-r', '50000', '-d', '100', '-c', '20', '-q', '-t', 'set,lpush'], '', 'rror')
        tool(['redis-benchmark', '-p', port, '-n', str(n), '-c', '20', '-q', '-t', 'incr'], '', 'rror')
        return n
    load = Load(once)
    cycles(bad, lambda: [p.pid], load=load)
    bad += load.stop()
    stats = dict(re.findall(r'cmdstat_(\w+):calls=(\d+)', cli('info', 'commandstats')))
    for command in ('set', 'lpush', 'incr'):
        if stats.get(command) != str(load.done):
            bad.append(f'{command}: {stats.get(command)} calls by the server, {load.done} by the clients')
    if cli('get', 'counter:__rand_int__').strip() != str(load.done):
        bad.append(f'the counter is {cli("get", "counter:__rand_int__")}, {load.done} were counted')
    end(p, bad)


@case('nginx under wrk', 'nginx', 'wrk')
def _(bad):
    port = free_port()
    with open(f'{d}/nginx.conf', 'w') as f:
        f.write(f'daemon off; worker_processes 2; pid {d}/nginx.pid; error_log {d}/error.log; user root;\nevents {{ }}\n'
                f'http {{ access_log off; client_body_temp_path {d}/b; proxy_temp_path {d}/p; fastcgi_temp_path {d}/f; uwsgi_temp_path {d}/u; scgi_temp_path {d}/s;\n'
                f'server {{ listen 127.0.0.1:{port}; location / {{ return 200 "hello"; }} location /one {{ access_log {d}/access.log; return 200 "one"; }}\n'
                f'location /status {{ stub_status; }} }} }}\n')
    p = start(['nginx', '-p', d, '-c', f'{d}/nginx.conf'], lambda: listening(port), bad)

    def begun():
        """Both workers have come to wait for requests: one may answer before the other has run at all."""
        workers = mt.children_of(p.pid)
        return len(workers) == 2 and all('anon_inode:[eventfd]' in lasting(w)['fds'] for w in workers)
    if not mt.until(begun):
        bad.append('its workers do not begin')

    def get(path):
        with urllib.request.urlopen(f'http://127.0.0.1:{port}{path}', timeout=20) as answer:
            return answer.read().decode()

    def served():
        return int(re.search(r'requests\s+\d+ \d+ (\d+)', get('/status'))[1])

    def once():
        for _ in range(20):
            if get('/one') != 'one':
                raise RuntimeError('wrong answer')
        return 20
    first, connections = served(), 8
    wrk = Load(lambda: tool(['wrk', '-t1', f'-c{connections}', '-d2s', f'http://127.0.0.1:{port}/'], r'(\d+) requests in', 'Socket errors|Non-2xx'))
    one = Load(once)
    cycles(bad, lambda: sorted(mt.children_of(p.pid)), load=wrk)
    bad += wrk.stop() + one.stop()
    asked = wrk.done + one.done + 1
    runs = wrk.done and (served() - first - asked)
    # wrk leaves when its time is over, and does not count what is under way on its connections then.
    if not 0 <= runs <= connections * CYCLES * 2:
        bad.append(f'nginx has served {served() - first} requests, {asked} were counted')
    def logged():
        with open(f'{d}/access.log') as f:
            return len(f.readlines())
    if not mt.until(lambda: logged() == one.done):      # it answers first, and logs then
        bad.append(f'{logged()} of {one.done} requests are logged')
    with open(f'{d}/error.log') as f:
        text = f.read()
    if text:
        bad.append(f'error.log: {text[:300]}')
    end(p, bad)


def postgres_bin(name):
    found = sorted(glob.glob(f'/usr/lib/postgresql/*/bin/{name}'))
    return found[-1] if found else shutil.which(name) or name


@case('postgres under pgbench', postgres_bin('postgres'), postgres_bin('pgbench'), postgres_bin('initdb'))
def _(bad):
    def nobody():
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    by = nobody if os.getuid() == 0 else None
    data, port = f'{d}/pg', str(free_port())
    os.mkdir(data, 0o700)
    if by:
        os.chown(data, 65534, 65534)
    kw = {'preexec_fn': by, 'cwd': '/', 'env': {**os.environ, 'PGHOST': '127.0.0.1', 'PGPORT': port, 'PGUSER': 'bench', 'PGDATABASE': 'postgres'}}
    tool([postgres_bin('initdb'), '-D', data, '-U', 'bench', '-A', 'trust', '--no-sync', '--locale=C'], '', **kw)
    p = start([postgres_bin('postgres'), '-D', data, '-c', f'port={port}', '-c', 'listen_addresses=127.0.0.1', '-c', 'unix_socket_directories=', '-c', 'fsync=off',
               '-c', 'autovacuum_naptime=1s'], lambda: listening(int(port)), bad, **kw)
    mt.until(lambda: mt.plain(['psql', '-c', 'select 1'], **kw).rc == 0, 20)
    tool([postgres_bin('pgbench'), '-i', '-q', '-s', '2'], '', **kw)
    load = Load(lambda: tool([postgres_bin('pgbench'), '-c', '4', '-j', '2', '-t', '400', '-n'], r'actually processed: (\d+)/1600', r'aborted|ERROR|FATAL|server closed', **kw))
    cycles(bad, lambda: [p.pid], ['--tree'], load=load)
    bad += load.stop()
    r = mt.plain(['psql', '-Atc', 'select (select count(*) from pgbench_history), (select sum(delta) from pgbench_history), (select sum(abalance) from pgbench_accounts),'
                  ' (select sum(bbalance) from pgbench_branches), (select sum(tbalance) from pgbench_tellers)'], **kw)
    row = r.out.decode().strip().split('|')
    if len(row) != 5 or row[0] != str(load.done) or len(set(row[1:])) != 1:
        bad.append(f'{load.done} transactions by the clients; the server has {row} {r.err[-200:]}')
    with open(f'{d}/postgres.log') as f:
        crashed = re.findall('.*(?:terminated by signal|crash|PANIC).*', f.read())
    bad += crashed[:3]
    end(p, bad)


PYTHON = r'''
import ctypes, hashlib, random, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
over, lock, problems, rounds = False, threading.Lock(), [], [0] * 8
def work(n):
    r = random.Random(n)
    kept = {}
    while not over:
        key = r.randrange(300)
        data = bytes(r.getrandbits(8) for _ in range(r.randrange(1, 60))) * r.randrange(1, 100)
        kept[key] = (data, hashlib.md5(data).digest())
        old = kept.get(r.randrange(300))
        if old and hashlib.md5(old[0]).digest() != old[1]:
            problems.append(f'thread {n}: bytes changed')
        if key % 16 == 0 and libc.usleep(500):
            problems.append(f'thread {n}: usleep: errno {ctypes.get_errno()}')
        with lock:
            rounds[n] += 1
def sleeper():
    class T(ctypes.Structure):
        _fields_ = [('s', ctypes.c_long), ('ns', ctypes.c_long)]
    while not over:
        began = time.monotonic()
        if libc.nanosleep(ctypes.byref(T(0, 30000000)), None):
            problems.append(f'nanosleep: errno {ctypes.get_errno()}')
        if time.monotonic() - began < 0.03:
            problems.append('nanosleep returned early')
def comes_and_goes():
    while not over:
        t = threading.Thread(target=lambda: bytearray(10000))
        t.start()
        t.join()
threads = [threading.Thread(target=work, args=(n,)) for n in range(8)] + [threading.Thread(target=f) for f in (sleeper, comes_and_goes)]
for t in threads: t.start()
print('ready', flush=True)
sys.stdin.readline()
over = True
for t in threads: t.join()
print(min(rounds), problems[:3], flush=True)
'''


@case('python3 with threads', '/usr/bin/python3')
def _(bad):
    p = mt.popen(['/usr/bin/python3', '-c', PYTHON], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    p.stdout.readline()
    time.sleep(0.3)
    cycles(bad, lambda: [p.pid])
    text = p.communicate(b'\n', timeout=60)[0].decode()
    m = re.fullmatch(r'(\d+) \[\]\n', text)
    if p.returncode or not m or not int(m[1]):
        bad.append(f'status {p.returncode}: {text[-500:]}')


mt.finish()
