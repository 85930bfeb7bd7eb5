#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 150
# waits
"""
prometheus - Debian's Prometheus scrapes a program that allocates all the time, for 60 s (600 s with MTRUN_SOAK=1), and answers questions right; and every recipe in
man/examples is taken by the program that it is for, as far as there is one here.
"""
import json
import os
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
EXAMPLES = os.path.join(mt.TOP, 'man', 'examples')


def free_port():
    import socket
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def scraped():
    if not shutil.which('prometheus'):
        mt.skip('prometheus', 'no prometheus here')
        return
    port, own = free_port(), free_port()
    p = subprocess.Popen([mt.MTRUN, '-q', '--listen', str(port), mt.build('served.c')], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    p.stdout.readline()
    config = os.path.join(mt.tmp(), 'prometheus.yml')
    with open(config, 'w') as f:
        f.write(f'global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: mtrun\n  static_configs: [{{targets: ["127.0.0.1:{port}"]}}]\n')
    log = open(os.path.join(mt.tmp(), 'prometheus.log'), 'w')
    server = subprocess.Popen(['prometheus', f'--config.file={config}', f'--storage.tsdb.path={mt.tmp()}/tsdb', f'--web.listen-address=127.0.0.1:{own}'],
                              stdout=log, stderr=subprocess.STDOUT)

    def ask(query):
        url = f'http://127.0.0.1:{own}/api/v1/query?query={urllib.parse.quote(query)}'
        try:
            with urllib.request.urlopen(url, timeout=10) as r:
                return [float(x['value'][1]) for x in json.load(r)['data']['result']]
        except OSError:
            return []

    end, live, requested = time.monotonic() + (600 if mt.SOAK else 25), 0, 0
    while time.monotonic() < end:
        p.stdin.write('100\n')
        p.stdin.flush()
        live, requested = map(int, re.findall(r'\d+', p.stdout.readline()))
        time.sleep(0.02 if live < 900000000 else 1)
    want = {'mtrun_heap_bytes': live, 'mtrun_requested_bytes_total': requested, 'mtrun_live_blocks': live // 1000,
            'sum(mtrun_site_live_bytes{function="keep_block"})': live, 'up{job="mtrun"}': 1}
    mt.until(lambda: all(ask(q) == [v] for q, v in want.items()), 20)
    wrong = [f'{q}: {ask(q)}, not {v}' for q, v in want.items() if ask(q) != [v]]
    failures = ask('count_over_time(up{job="mtrun"}[10m]) - sum_over_time(up{job="mtrun"}[10m])')
    if failures != [0]:
        wrong.append(f'scrapes that failed: {failures}')
    if not mt.until(lambda: ask('rate(mtrun_allocations_total[5s])')):
        wrong.append('no rate')
    mt.check('prometheus scrapes, and answers right', wrong)
    server.terminate()
    server.wait(20)
    p.stdin.close()
    p.wait(20)


def recipes():
    for name in sorted(os.listdir(EXAMPLES)):
        path = os.path.join(EXAMPLES, name)
        if name.endswith('.service'):
            tool = ['systemd-analyze', 'verify', path]
        elif name.startswith('prometheus'):
            tool = ['promtool', 'check', 'config', '--syntax-only', path]
        else:
            continue
        if not shutil.which(tool[0]):
            mt.skip(f'recipe {name}', f'no {tool[0]} here')
            continue
        r = subprocess.run(tool, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        # what is not installed here is no fault of the unit's
        said = [l for l in r.stdout.split('\n') if name in l and 'is not executable' not in l]
        mt.check(f'recipe {name}', ([r.stdout] if r.returncode else []) if tool[0] == 'promtool' else said)


scraped()
recipes()
mt.finish()
