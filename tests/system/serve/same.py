#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 120
"""
same - a program that allocates at full speed is stopped: what is answered over HTTP then is what the shell says, number by number, from every path; Go's pprof, which fetches the
profiles itself and shows them on its own page, and the series of /metrics say the same.
"""
import json
import os
import re
import shutil
import socket
import subprocess
import urllib.request

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import load
import mt
from served import free_port

mt.need_mtrun()
# what the shell is asked, and the path that is to say the same
PAIRS = [('report --by site', 'report?by=site'), ('report --by stack -n 50', 'report?by=stack&n=50'), ('report --by function -n 7', 'report?by=function&n=7'),
         ('report --by size --sort count', 'report?by=size&sort=count'), ('report --at peak', 'report?at=peak'), ('report --match site_40', 'report?match=site_40'),
         ('diff 100ms', 'diff?since=100ms'), ('diff 100ms', 'diff?base=100ms'), ('diff 100ms 200ms', 'diff?since=100ms&at=200ms'), ('text', 'text'), ('tree', 'tree'), ('timeline', 'timeline'), ('threads', 'threads'),
         ('processes', 'processes'), ('status', 'status'), ('map', 'map')]
# what goes on though the program does not
MOVES = {'time_ms', 'since_ms', 'elapsed_ms', 'rss', 'mtrun', 'log_files', 'interval_ms', 'peak_rss', 'timeline'}


def still(x):
    """X without what is about the moment of the question, or about mtrun."""
    if isinstance(x, dict):
        return {k: still(v) for k, v in x.items() if k not in MOVES}
    return [still(v) for v in x] if isinstance(x, list) else x


def difference(a, b, at=''):
    """Where A and B are not the same, the first of it."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return next((d for k in a for d in [difference(a[k], b[k], f'{at}.{k}')] if d), '')
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return next((d for k, (x, y) in enumerate(zip(a, b)) for d in [difference(x, y, f'{at}[{k}]')] if d), '')
    return '' if a == b else f'{at}: {str(a)[:100]} and {str(b)[:100]}'


l, port = load.Load(5000, 51000), free_port()
BASE = f'http://127.0.0.1:{port}'
# its record begins when it is launched: on a busy machine some 100 ms later than mtrun
BEGAN = l.json('timeline')['points'][0][0]
mt.until(lambda: l.json('status')['elapsed_ms'] > BEGAN + 400)
l.ask(f'listen {port}')
l.ask('stop')


def get(path):
    with urllib.request.urlopen(BASE + path, timeout=60) as r:
        return r.read()


bad = []
for command, path in PAIRS:
    command, path = (re.sub(r'\b([12]00)ms', lambda m: f'{BEGAN + int(m[1])}ms', text) for text in (command, path))
    ours, theirs = l.json(command), json.loads(get('/api/v1/' + path))
    if command == 'timeline':       # the present goes on
        n = min(len(ours['points']), len(theirs['points'])) - 1
        ours['points'], theirs['points'] = ours['points'][:n], theirs['points'][:n]
    found = difference(still(ours), still(theirs))
    if found:
        bad.append(f'{command}{found}')
mt.check('/api/v1: what the shell says', bad)

rows = l.json('report --by site')
status = l.json('status')
text = get('/metrics').decode()
series = {m[1]: int(m[2]) for m in re.finditer(r'^(mtrun_\w+(?:\{.*\})?) (\d+)$', text, re.M)}
want = {}
for r in rows['mem_report'][:50]:
    labels = f'{{pid="{status["pid"]}",function="{r["function"]}",file="{r["file"]}",line="{r["line"]}",module="{r["module"]}"}}'
    want['mtrun_site_live_bytes' + labels], want['mtrun_site_live_blocks' + labels] = r['size'], r['count']
have = {k: v for k, v in series.items() if k.startswith('mtrun_site_')}
process = f'{{pid="{status["pid"]}",command="{status["processes"][0]["command"]}"}}'
want_process = {'mtrun_heap_bytes': 'heap', 'mtrun_mmap_bytes': 'mmap', 'mtrun_peak_bytes': 'peak', 'mtrun_live_blocks': 'live_blocks', 'mtrun_allocations_total': 'allocs',
                'mtrun_frees_total': 'frees', 'mtrun_maps_total': 'maps', 'mtrun_unmaps_total': 'unmaps', 'mtrun_requested_bytes_total': 'total_allocated',
                'mtrun_allocated_bytes': 'allocated', 'mtrun_dropped_events_total': 'dropped'}
mt.check('/metrics: what the shell says', [f'{k}: {have.get(k)}, not {want.get(k)}' for k in {*want, *have} if have.get(k) != want.get(k)] +
         [f'{k}: {series.get(k + process)}, not {status[v]}' for k, v in want_process.items() if series.get(k + process) != status[v]] +
         ([] if len(want) == 100 else [f'{len(want)} series']))


def pprof(*words):
    r = subprocess.run(['go', 'tool', 'pprof', *words], capture_output=True, text=True, env={**os.environ, 'HOME': mt.tmp(), 'PPROF_TMPDIR': mt.tmp()})
    return r.stdout, r.stderr


def top(*words):
    """function -> flat bytes"""
    out, err = pprof('-top', '-unit=B', '-symbolize=none', '-nodefraction=0', '-nodecount=100000', *words)
    found = {m[2]: int(m[1]) for m in re.finditer(r'^\s*(-?\d+)B?\s+-?[\d.]+%\s+-?[\d.]+%\s+-?\d+B?\s+-?[\d.]+%\s+(\S+)', out, re.M)}
    return {k: v for k, v in found.items() if v}, err


def web():
    """Its own page, which it draws of what it has fetched: the total, and the graph."""
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        address = f'127.0.0.1:{s.getsockname()[1]}'
    p = mt.popen(['go', 'tool', 'pprof', '-symbolize=none', '-nodefraction=0', '-edgefraction=0', '-no_browser', f'-http={address}', BASE + '/debug/pprof/heap'], env={**os.environ, 'HOME': mt.tmp()},
                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def page(path):
        try:
            return urllib.request.urlopen(f'http://{address}/ui/{path}', timeout=20).read().decode()
        except OSError:
            return ''
    shown = mt.until(lambda: page('top'))
    total = re.search(r'makeTopTable\( *(\d+)', shown or '')
    flame = page('flamegraph')
    mt.kill(-p.pid)
    p.wait()
    return [f'{total and total[1]}, not {rows["total_size"]}' for _ in '.' if not total or int(total[1]) != rows['total_size']] + ([] if 'site_42' in flame else ['no flame graph'])


if shutil.which('go'):
    by = {r['function']: r for r in l.json('report --by function --all')['mem_report']}
    bad = []
    for path, sample, key in (('heap', 'inuse_space', 'size'), ('allocs', 'alloc_space', 'total_size'), ('heap', 'inuse_objects', 'count'))[:3 if mt.SOAK else 1]:
        found, err = top(f'-sample_index={sample}', f'{BASE}/debug/pprof/{path}')
        want = {name: r[key] for name, r in by.items() if r[key]}
        bad += [f'{path} {sample}: {k}: {found.get(k)}, not {want.get(k)}: {err[-100:]}' for k in {*want, *found} if found.get(k) != want.get(k)][:2]
    mt.check("Go's pprof: what the shell says", bad)
    mt.check("Go's pprof: its page", web())
    # the program goes on: what has come since is a difference, whose parts are of both signs
    before = os.path.join(mt.tmp(), 'before.pb.gz')
    with open(before, 'wb') as f:
        f.write(get('/debug/pprof/heap'))
    first = l.json('report --by function')
    l.ask('cont')
    growth, err = top('-seconds=5' if mt.SOAK else '-seconds=1', '-sample_index=alloc_space', f'{BASE}/debug/pprof/allocs')
    mt.check("Go's pprof: what comes within a second", [f'{growth}: {err[-300:]}'] if len(growth) < 50 or min(growth.values()) <= 0 else [])
    l.ask('stop')
    now = {r['function']: r['size'] for r in l.json('report --by function')['mem_report']}
    was = {r['function']: r['size'] for r in first['mem_report']}
    want = {k: now.get(k, 0) - was.get(k, 0) for k in {*now, *was} if now.get(k, 0) != was.get(k, 0)}
    found, err = top('-sample_index=inuse_space', '-base', before, f'{BASE}/debug/pprof/heap')
    mt.check("Go's pprof: -base", [f'{k}: {found.get(k)}, not {want.get(k)}: {err[-100:]}' for k in {*want, *found} if found.get(k) != want.get(k)])
else:
    mt.skip("Go's pprof", 'no go here')
l.ask('cont')
l.end()
mt.finish()
