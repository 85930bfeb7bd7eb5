#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 120
"""
scraped - what being asked all the time takes: mtrun's memory stays the same over 3000 answers (with MTRUN_SOAK=1, 20 000 of a program with 10^6 blocks from 10^5 stacks);
and, with MTRUN_SOAK=1 alone, 100 sampled programs of one machine under one Prometheus: bytes of a scrape, processor time and memory of each mtrun.
"""
import http.client
import json
import os
import shutil
import socket
import statistics
import subprocess
import time
import urllib.parse
import urllib.request

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import load
import mt
from served import Served, free_port

mt.need_mtrun()
SERVERS = int(os.environ.get('MTRUN_SERVERS') or 100)


def resident(pid):
    """Bytes of its own: without what is shared with its program."""
    with open(f'/proc/{pid}/status') as f:
        return sum(int(line.split()[1]) for line in f if line.startswith('RssAnon:')) * 1024


def own(pid, port):
    """Without the record of the time that passes, which is bounded by itself."""
    with urllib.request.urlopen(f'http://127.0.0.1:{port}/api/v1/status', timeout=60) as r:
        return resident(pid) - json.load(r)['timeline']['memory']


def events(port):
    """A page that opens, hears of the present, and goes."""
    with socket.create_connection(('127.0.0.1', port), timeout=60) as c:
        c.sendall(b'GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n')
        while b'event:' not in c.recv(65536):
            pass


def leave(port):
    """Wants to know what comes within an hour, and has no time for it."""
    with socket.create_connection(('127.0.0.1', port), timeout=60) as c:
        c.sendall(b'GET /debug/pprof/heap?seconds=3600 HTTP/1.1\r\nHost: localhost\r\n\r\n')


def ask(port, path, times):
    """As a scraper does: over one connection, as long as that is kept."""
    c = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
    for _ in range(times):
        c.request('GET', path)
        r = c.getresponse()
        r.read()
        if r.status != 200:
            raise RuntimeError(f'{path}: {r.status}')
    c.close()


def flat(name, pid, port, rounds, of_profiles, room):
    """Ten rounds; from the second one on nothing is added but ROOM bytes."""
    sizes = []
    for _ in range(10):
        ask(port, '/metrics', rounds // 10)
        ask(port, '/debug/pprof/heap', of_profiles // 10)
        ask(port, '/api/v1/report?n=20', rounds // 10)
        for _ in range(rounds // 10):
            events(port)
            leave(port)
        sizes.append(own(pid, port))
    more = statistics.median(sizes[-3:]) - max(sizes[1:3])
    def another():
        try:
            ask(port, '/debug/pprof/heap?seconds=1', 1)
            return True
        except RuntimeError:
            return False
    bad = [] if mt.until(another, 5) else ['those who have left are waited for']
    mt.check(name, bad + ([f'{more} bytes more: {sizes}'] if more > room and mt.SLOW == 1 else []))


def small():
    s = Served()
    s.say(2000)
    flat('its memory stays the same', s.p.pid, s.port, 10000 if mt.SOAK else 1000, 100, 1 << 19)
    s.end()


def large():
    l, port = load.Load(1000000, 100000), free_port()
    l.ask(f'listen {port}')
    flat('10^6 blocks: its memory stays the same', l.p.pid, port, 10000, 500, 8 << 20)
    l.end()


# ---- many programs ----

def cpu_ms(pid):
    ns = 0
    for tid in os.listdir(f'/proc/{pid}/task'):
        with open(f'/proc/{pid}/task/{tid}/schedstat') as f:
            ns += int(f.read().split()[0])
    return ns / 1e6


class Prometheus:
    def __init__(self, ports, seconds):
        self.port = free_port()
        config = os.path.join(mt.tmp(), 'prometheus.yml')
        with open(config, 'w') as f:
            targets = ', '.join(f'"127.0.0.1:{p}"' for p in ports)
            f.write(f'global: {{scrape_interval: {seconds}s}}\nscrape_configs:\n- job_name: mtrun\n  static_configs: [{{targets: [{targets}]}}]\n')
        self.p = mt.popen(['prometheus', f'--config.file={config}', f'--storage.tsdb.path={mt.tmp()}/tsdb', f'--web.listen-address=127.0.0.1:{self.port}'],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ask(self, query):
        url = f'http://127.0.0.1:{self.port}/api/v1/query?query={urllib.parse.quote(query)}'
        try:
            with urllib.request.urlopen(url, timeout=20) as r:
                return [float(x['value'][1]) for x in json.load(r)['data']['result']]
        except OSError:
            return []

    def end(self):
        mt.end_group(self.p)


def many():
    """Each program allocates some thousand times a second; what its mtrun takes while nobody asks, then with a scrape every 5 s."""
    if not shutil.which('prometheus'):
        return mt.skip(f'{SERVERS} programs', 'no prometheus here')
    servers = [Served('-s', '512K') for _ in range(SERVERS)]
    for s in servers:
        s.say(200)
    used = []

    def during(seconds):
        """ms of a processor that each mtrun takes in a second."""
        before, began = [cpu_ms(s.p.pid) for s in servers], time.monotonic()
        while time.monotonic() < began + seconds:
            for s in servers:
                s.say(20)
            time.sleep(0.5)
        took = time.monotonic() - began
        return statistics.mean(cpu_ms(s.p.pid) - b for s, b in zip(servers, before)) / took
    used.append(during(10))
    prometheus = Prometheus([s.port for s in servers], 5)
    up = mt.until(lambda: prometheus.ask('sum(up)') == [len(servers)], 90)
    used.append(during(25))
    have = prometheus.ask('sum(up)')
    series = prometheus.ask('max(scrape_samples_scraped)')
    took = prometheus.ask('max_over_time(max(scrape_duration_seconds)[1m:5s])')
    whole = len(servers[0].get('/metrics')[2])
    memory = statistics.mean(resident(s.p.pid) for s in servers)
    print(f'{len(servers)} programs under mtrun -s 512K, scraped every 5 s: {whole} bytes and {series} series a scrape, which takes at most {took} s; mtrun takes '
          f'{used[0]:.2f} ms of a processor each second, with the scrapes {used[1]:.2f} ms (one: {(used[1] - used[0]) * 5:.2f} ms), and {memory / 1e6:.1f} MB', flush=True)
    mt.check(f'{len(servers)} programs under one Prometheus', ([] if up and have == [len(servers)] else [f'up: {have}']) +
             ([f'{used[1] - used[0]:.1f} ms more each second'] if used[1] - used[0] > 5 * mt.SLOW else []) + ([f'{whole} bytes'] if whole > 65536 else []))
    prometheus.end()
    for s in servers:
        s.end()


small()
if mt.SOAK:
    large()
    many()
mt.finish()
