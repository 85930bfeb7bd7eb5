#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 240
"""
map.py - what resident memory is made of: the rows of `map` add up, and to what smaps_rollup says, on real programs; they are what a victim knows of its own pages, with
each allocator; and `map --frag` says at which line the blocks were allocated that keep pages by little, and how many.
"""
import os
import re
import shutil
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt
from cdp import CHROMIUM, browse

mt.need_mtrun()
want = re.compile(sys.argv[1] if len(sys.argv) > 1 else '')
ROWS = ('live_resident', 'free_resident', 'metadata', 'mmap', 'stacks', 'image', 'files', 'shared', 'mtrun')
PAGE = 4096
ALLOCATORS = ('gcc', 'jemalloc', 'tcmalloc', 'mimalloc', 'musl', 'static')


def rollup(pid):
    with open(f'/proc/{pid}/smaps_rollup') as f:
        return int(re.search(r'^Rss: +(\d+) kB', f.read(), re.M)[1]) * 1024


def sums(m):
    """Problems of an answer by itself."""
    bad = [f'no {k}' for k in ('rss', 'swap', 'frag', *ROWS) if k not in m]
    if not bad and sum(m[k] for k in ROWS) != m['rss']:
        bad.append(f'the rows add up to {sum(m[k] for k in ROWS)}, rss is {m["rss"]}')
    if not bad and (m['live_bytes'] > m['live_resident'] or not m['complete']):
        bad.append(f'{m["live_bytes"]} bytes live in {m["live_resident"]}, complete: {m["complete"]}')
    return bad


def equals_rollup(a, pid, opts=''):
    """Between two looks at the kernel's sum, within 1 % of one of them; (problems, the answer)."""
    before = rollup(pid)
    m = a.json(f'map {opts}')
    after = rollup(pid)
    bad = sums(m)
    if not min(before, after) * 0.99 <= m['rss'] <= max(before, after) * 1.01:
        bad.append(f'rss {m["rss"]}, smaps_rollup has {before} and then {after}')
    return bad, m


# ---- real programs --------------------------------------------------------------------------------------------------------------

def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def redis(a, d):
    return mt.until(lambda: os.path.exists(f'{d}/redis') and not mt.plain(
        ['redis-cli', '-s', f'{d}/redis', 'eval', 'for i=1,50000 do redis.call("set","k"..i,string.rep("x",i%200)) end', '0']).rc, 30)


def feeds(text):
    """The program reads TEXT, and waits for more; what it prints then says that it is done."""
    def feed(a, d):
        a.p.stdin.write(text)
        a.p.stdin.flush()
        return a.p.stdout.readline()
    return feed


def nginx_conf(d):
    with open(f'{d}/nginx.conf', 'w') as f:
        f.write(f'daemon off; master_process off; pid {d}/pid; error_log stderr; events {{ worker_connections 64; }}\n'
                f'http {{ access_log off; server {{ listen unix:{d}/nginx; }} }}\n')
    return f'{d}/nginx.conf'


def is_there(name):
    return lambda a, d: mt.until(lambda: os.path.exists(f'{d}/{name}'), 30)


def git_repository(d):
    run = lambda *words: subprocess.run(['git', '-C', d, '-c', 'user.name=x', '-c', 'user.email=x@y', *words], check=True, capture_output=True)
    run('init', '-q')
    run('commit', '-q', '--allow-empty', '-m', 'first')
    return d


TABLE = 'create table t(a,b); with recursive n(i) as (select 1 union all select i+1 from n where i<50000) insert into t select i,hex(randomblob(40)) from n; create index x on t(b);'
PROGRAMS = {
    'redis-server': (lambda d: ['redis-server', '--port', '0', '--unixsocket', f'{d}/redis', '--save', ''], redis),
    'sqlite3': (lambda d: ['sqlite3'], feeds(f'{TABLE} select count(*) from t;\n'.encode())),
    'python3': (lambda d: ['/usr/bin/python3', '-u', '-c', 'import json,re,sys; x=[{"a":i,"b":str(i)} for i in range(200000)]; print("up"); sys.stdin.read()'], feeds(b'')),
    'nginx': (lambda d: ['nginx', '-c', nginx_conf(d), '-e', 'stderr'], is_there('nginx')),
    'perl': (lambda d: ['perl', '-e', '$|=1; $h{$_}="x"x($_%100) for 1..200000; print "up\n"; <STDIN>'], feeds(b'')),
    'git': (lambda d: ['git', '-C', git_repository(d), 'cat-file', '--batch-check'], feeds(b'HEAD\n')),
    'jq': (lambda d: ['jq', '-n', '--unbuffered', '[range(200000)] as $x | ($x|length), input'], feeds(b'')),
    'gdb': (lambda d: ['gdb', '-q', '-nx', '-ex', 'echo up\\n', '/usr/bin/python3'], feeds(b'')),
    'openssl': (lambda d: ['openssl', 's_server', '-nocert', '-accept', str(free_port()), '-cipher', 'aNULL:@SECLEVEL=0', '-tls1_2'], feeds(b'')),
    'tmux': (lambda d: ['tmux', '-D', '-S', f'{d}/tmux', '-f', '/dev/null'], is_there('tmux')),
    'busybox': (lambda d: ['busybox', 'awk', 'BEGIN { for (i = 0; i < 100000; i++) a[i] = i; print "up"; fflush(); getline }'], feeds(b'')),
    'clang': (lambda d: ['clang', '-x', 'c', '-', '-fsyntax-only', '-v'], feeds(b'')),
}


def real(name):
    make, up = PROGRAMS[name]
    d = mt.tempfile.mkdtemp(dir=mt.tmp())
    cmd = make(d)
    if not shutil.which(cmd[0]):
        mt.skip(f'real {name}', f'no {cmd[0]}')
        return
    a = mt.Launched(cmd)
    try:
        if not up(a, d):
            mt.fail(f'real {name}', 'it does not come up')
            return
        pid = a.json('status')['pid']
        bad, m = equals_rollup(a, pid)
        bad += [f'{k} is 0' for k in ('live_resident', 'image', 'files', 'stacks', 'mtrun') if not m[k] and (k, name) != ('files', 'busybox')]
        bad2, m = equals_rollup(a, pid, '--frag')
        mt.check(f'real {name}', bad + bad2 + frag_sums(m))
    finally:
        a.end()


def frag_sums(m):
    bad = []
    for k in ('pages', 'kept_bytes', 'live_bytes'):
        if sum(r[k] for r in m['frag']) + m['frag_others'][k] + m['frag_several'][k] != m['frag_all'][k]:
            bad.append(f'the {k} do not add up')
    if m['frag'] != sorted(m['frag'], key=lambda r: -r['kept_bytes']):
        bad.append('the sites are not in order')
    return bad + [f'{r}' for r in m['frag'] if r['live_bytes'] * 2 > r['kept_bytes'] or r['kept_bytes'] != r['pages'] * PAGE][:3]


for name in PROGRAMS:
    if want.search(f'real {name}'):
        real(name)


# ---- a victim that knows ----------------------------------------------------------------------------------------------------------

class Victim:
    """resident.c, and what it says."""
    def __init__(self, how, *args, attach=False, opts=(), **kw):
        path = mt.build('resident.c', how)
        self.why = None if path else mt.build_reason('resident.c', how)
        if not path:
            return
        cmd = [path, *map(str, args)]
        self.p = mt.popen(cmd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **kw) if attach else None
        self.a = None if attach else mt.Launched(cmd, *opts, **kw)
        self.out = (self.p or self.a.p).stdout
        self.told = {}
        while (line := self.out.readline()) not in (b'ready\n', b''):
            word, key, value = line.split()
            self.told[key.decode()] = int(value)
        if attach:
            self.a = mt.Attached(self.p.pid, *opts)
        self.pid = self.p.pid if attach else self.a.json('status')['pid']

    def end(self):
        if self.p:
            self.a.leave()
            mt.end_group(self.p)
        else:
            self.a.end()


def victims(name, hows, *args, **kw):
    """A decorator: fn(v, bad) for the victim built in each way."""
    def decorate(fn):
        for how in hows:
            if not want.search(f'{name} {how}'):
                continue
            v = Victim(how, *args, **kw)
            if v.why:
                mt.skip(f'{name} {how}', v.why)
                continue
            bad = []
            try:
                fn(v, bad)
            finally:
                v.end()
            mt.check(f'{name} {how}', bad)
    return decorate


def site(m, function):
    found = [r for r in m['frag'] if r['function'] == function]
    return found[0] if found else {'pages': 0, 'kept_bytes': 0, 'live_bytes': 0, 'file': '', 'line': 0, 'stack_id': 0}


# One block of 64 bytes in each of 50 000 pages: 200 MB kept by 3 MB.
@victims('frag', ALLOCATORS, 'frag', 50000)
def frag(v, bad):
    problems, m = equals_rollup(v.a, v.pid, '--frag')
    row = site(m, 'keep')
    bad += problems + frag_sums(m)
    if v.told['pages'] != 50000:
        bad.append(f'the victim has {v.told["pages"]} pages')
    # a page may have a block of the libc's or the allocator's own, too
    if not v.told['pages'] - 20 <= row['pages'] <= v.told['pages'] or abs(row['live_bytes'] - v.told['live']) > 20 * 64:
        bad.append(f'keep() keeps {row["pages"]} pages by {row["live_bytes"]}, should be {v.told}')
    if m['frag'][0] != row or not row['file'].endswith('resident.c') or not row['line']:
        bad.append(f'the first is {m["frag"][0]}')
    if not 0.99 * 50000 * PAGE <= m['live_resident'] <= 1.01 * 50000 * PAGE + 3e6:
        bad.append(f'live_resident is {m["live_resident"]}')
    problems, plain = equals_rollup(v.a, v.pid)
    if problems or plain['frag'] != m['frag'] or v.a.json('map -n 1')['frag'] != m['frag'][:1]:
        bad.append(f'without --frag: {problems} {plain["frag"][:1]}')
    text = v.a.ask('map -n 1')
    if not re.search(rf'^kept:{row["kept_bytes"]} +live:{row["live_bytes"]} +pages:{row["pages"]} +keep at .*resident.c:{row["line"]}$', text, re.M) or \
            '195.3M' not in text or '3.1M' not in text:
        bad.append(f'text: {text[:300]}')
    report = v.a.json('report --by stack --match "^keep$"')['mem_report']
    if row['stack_id'] not in [r['stack_id'] for r in report]:
        bad.append(f'stack {row["stack_id"]} is not among {report[:2]}')


# The same with the table that needs least memory, and one that is on its way to the other.
@victims('compact', ('gcc',), 'frag', 20000, opts=('-m', 'mem'))
def compact(v, bad):
    for mode in (None, 'mem-fast', 'mem'):
        if mode:
            v.a.ask(f'record {mode}')
        problems, m = equals_rollup(v.a, v.pid, '--frag')
        row = site(m, 'keep')
        bad += problems + frag_sums(m)
        if (row['pages'], row['live_bytes']) != (20000, 20000 * 64):
            bad.append(f'{mode}: {row}')


# Pages that two lines keep together are given back by neither alone.
@victims('pairs', ('gcc', 'jemalloc', 'musl'), 'pairs', 3000)
def pairs(v, bad):
    problems, m = equals_rollup(v.a, v.pid, '--frag')
    bad += problems + frag_sums(m)
    if abs(m['frag_several']['pages'] - v.told['shared']) > 20 or abs(site(m, 'left')['pages'] - v.told['alone']) > 20 or site(m, 'right')['pages'] > 20:
        bad.append(f'{v.told}, but {m["frag_several"]}, {site(m, "left")}, {site(m, "right")}')
    if '(by blocks of several sites)' not in v.a.ask('map --frag'):
        bad.append('the text does not say so')


# Every kind of memory. Beside what is told are the libc's and the allocator's own, the loader's, and the stacks' ends.
def rows_are(v, m, extra, before=False):
    truth = {'live_resident': 'live', 'free_resident': 'free', 'mmap': 'mmap', 'stacks': 'stacks', 'image': 'image', 'files': 'files', 'shared': 'shared'}
    return [f'{row} is {m[row]}, the victim has {v.told[key]}' for row, key in truth.items()
            if not (before and key in ('live', 'free', 'mmap')) and not v.told[key] <= m[row] <= v.told[key] + extra.get(key, 512 << 10)]


@victims('rows', ALLOCATORS, 'rows')
def rows(v, bad):
    problems, m = equals_rollup(v.a, v.pid)
    # libraries, symbols; the victim's static books; what allocators keep for each thread, and begin with
    bad += problems + rows_are(v, m, {'files': 8 << 20, 'image': 2 << 20, 'free': 4 << 20})
    began = time.monotonic()
    for _ in range(5):
        v.a.json('map')
    if time.monotonic() - began > 5 * mt.SLOW:
        bad.append(f'five maps take {time.monotonic() - began:.1f} s')
    text = v.a.ask('map')
    if [line.split()[0] for line in text.splitlines()] != ['rss', 'live', 'free', 'metadata', 'mmap', 'stacks', 'image', 'files', 'shared', 'mtrun', 'swap'] or \
            max(map(len, text.splitlines())) > 80:
        bad.append(f'text: {text}')


# Of what was there before the attach neither blocks nor own mappings are known: it is all in one row.
@victims('attached', ('gcc', 'musl'), 'rows', attach=True)
def attached(v, bad):
    problems, m = equals_rollup(v.a, v.pid, '--frag')
    bad += problems + frag_sums(m) + rows_are(v, m, {'files': 8 << 20, 'image': 2 << 20}, before=True)
    if m['live_resident'] > 1 << 20 or m['metadata'] < v.told['live'] + v.told['free'] + v.told['mmap']:
        bad.append(f'live {m["live_resident"]}, metadata {m["metadata"]}')
    if 'before recording began' not in v.a.ask('map'):
        bad.append('the text does not say so')


# `status` has the large rows in one line; of what is large, those of the last `map`.
@victims('status', ('gcc',), 'frag', 50000)
def status(v, bad):
    line = lambda: re.search(r'^ +of RSS (.*)$', v.a.ask('status'), re.M)
    now = line()
    if not now or not re.fullmatch(r'195\.\dM live, (\S+ \w+, )*\S+ else \(`map` says more\)', now[1]):
        bad.append(f'{now and now[1]}')


@victims('status-large', ('gcc',), 'blocks', 250000, 100)
def status_large(v, bad):
    line = lambda: re.search(r'^ +of RSS (.*)$', v.a.ask('status'), re.M)
    before, m, after = line(), v.a.json('map'), line()
    if before or not after or not re.fullmatch(r'(\S+ \w+, )+\S+ else \(`map` says more; as of \d+m?s ago\)', after[1]):
        bad.append(f'{before and before[1]}, {after and after[1]}')


# The page has the same, and so has what a browser makes of it.
@victims('page', ('gcc', 'jemalloc'), 'pairs', 3000)
def page(v, bad):
    path = f'{mt.tempfile.mkdtemp(dir=mt.tmp())}/page.html'
    v.a.ask(f'export html {path}')
    m = v.a.json('map --frag')
    with open(path) as f:
        d = mt.json.loads(re.search(r'id="data">\n(.*?)</script>', f.read(), re.S)[1])['residency']
    if sum(r[1] for r in d['rows']) != d['rss'] or len(d['rows']) != len(ROWS) or abs(d['rss'] - m['rss']) > 1 << 20 or d['swapped'] != m['swap']:
        bad.append(f'{d["rows"]} of {d["rss"]}, rss {m["rss"]}')
    for key, k in (('all', 'frag_all'), ('several', 'frag_several'), ('others', 'frag_others')):
        if abs(d[key][0] - m[k]['kept_bytes']) > 20 * PAGE or abs(d[key][1] - m[k]['live_bytes']) > 20 * PAGE:
            bad.append(f'{key} {d[key]}, map has {m[k]}')
    if [r[2:] for r in d['kept'][:1]] != [[r['function'], r['file'], r['line']] for r in m['frag'][:1]]:
        bad.append(f'{d["kept"][:1]}, map has {m["frag"][:1]}')
    if not CHROMIUM:
        return mt.skip('page in a browser', 'no chromium')
    dom = browse(f'file://{path}')
    rows = re.findall(r'<tr data-row="(\w+)" data-resident="(\d+)">', dom)
    kept = [tuple(map(int, k)) for k in re.findall(r'<tr data-kept="(\d+)" data-live="(\d+)">', dom)]
    if rows != [(r[0], str(r[1])) for r in d['rows']] or (sum(k[0] for k in kept), sum(k[1] for k in kept)) != tuple(d['all']):
        bad.append(f'the page shows {rows}, {kept[:3]}')


# Each of two processes has its own.
@victims('forked', ('gcc', 'musl'), 'forked', 20000)
def forked(v, bad):
    child = next(p['pid'] for p in v.a.json('processes')['processes'] if p['pid'] != v.pid)
    for pid, key in ((v.pid, 'live'), (child, 'child')):
        v.a.ask(f'process {pid}')
        problems, m = equals_rollup(v.a, pid)
        bad += problems
        if not v.told[key] <= m['live_bytes'] <= v.told[key] + 65536:
            bad.append(f'{key}: {m["live_bytes"]} bytes live in memory, should be {v.told[key]}')


# While four threads allocate, free, map and unmap: it adds up, nobody waits long, and nothing is stopped.
@victims('busy', ('gcc', 'jemalloc'), 'busy', 4)
def busy(v, bad):
    for i in range(12):
        bad += sums(v.a.json('map --frag' if i % 3 == 0 else 'map'))
    v.a.p.stdin.close()
    v.a.commands.write(b'wait exit\n')
    bad += sums(v.a.json('map'))


# ---- what cannot be told is said in one line --------------------------------------------------------------------------------------

def refused(name, cmd, text, script, opts=()):
    r = mt.plain([mt.MTRUN, '-q', *opts, '-x', script, *cmd])
    lines = [line for line in r.err.decode().splitlines() if line.startswith('mtrun: ')]
    mt.check(f'refused {name}', [] if r.rc == 125 and len(lines) == 1 and re.search(text, lines[0]) else [f'status {r.rc}: {r.err.decode()} {r.out.decode()}'])


exe = mt.build('resident.c')
if want.search('refused'):
    heap = os.path.join(mt.tmp(), 'end')
    mt.plain([mt.MTRUN, '-q', '-o', heap, '--log-dir', mt.tmp(), '-m', 'log', '--', exe, 'blocks', '10', '10'])
    files = [os.path.join(mt.tmp(), f) for f in os.listdir(mt.tmp()) if f.startswith('end')]
    refused('heap', [], 'map: needs a process, and what is open is a .heap file', 'map --frag', ('-r', files[0]))
    refused('log', [], 'map: needs a process, and what is open is a log', 'map', ('-r', mt.tmp()))
    refused('sampled', ['--', exe, 'blocks', '10', '10'], 'only samples', 'map', ('-s', '1K'))
    refused('off', ['--', exe, 'blocks', '10', '10'], 'nothing is recorded', 'map', ('-m', 'off'))
    refused('let go', ['--', exe, 'blocks', '10', '10'], 'let go|has ended', 'detach; map')
    refused('let go at its last instant', ['--', exe, 'blocks', '10', '10'], 'has ended', 'wait exit; detach; map')
    refused('argument', ['--', exe, 'blocks', '10', '10'], "map: .*'--frog'", 'map --frog')

# At its last instant its memory is there still; and also of a child.
if want.search('end'):
    r = mt.run([exe, 'blocks', '3000', '1000'], ask=('map --json', 'map --frag --json'))
    m = r.answers.get('map', {})
    mt.check('end', sums(m) + frag_sums(m) + ([] if 3000000 <= m.get('live_bytes', 0) <= m.get('live_resident', 0) <= 3400000 else [f'{m}']))

# Nobody's rights are needed but those to trace it.
if want.search('nobody'):
    if os.getuid():
        mt.skip('nobody', 'only root can become nobody')
    else:
        where = mt.tempfile.mkdtemp(dir='/tmp')
        os.chmod(where, 0o755)
        for f in (mt.MTRUN, exe):
            shutil.copy(f, where)
        r = mt.plain([f'{where}/mtrun', '-q', '-x', 'wait heap >= 3000000; map --json', '--', f'{where}/resident', 'blocks', '3000', '1000'], preexec_fn=mt.as_nobody,
                     stdin=subprocess.DEVNULL, cwd='/')
        shutil.rmtree(where)
        m = re.search(rb'^{.*}$', r.err, re.M | re.S)
        m = mt.json.loads(m[0]) if m else {}
        mt.check('nobody', sums(m) + ([] if m.get('live_resident', 0) > 2500000 else [f'{r.err[-300:]}']))

mt.finish()
