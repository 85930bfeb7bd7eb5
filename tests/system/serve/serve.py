#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 120
# waits
"""
serve - what --listen answers: the numbers are the victim's own and the prompt's, at every path; who may ask, what cannot be asked, what a stranger does; the readers are
Go's pprof and a parser of OpenMetrics that is written here from its ABNF.
"""
import gzip
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt
from served import Served, Unix, free_port

mt.need_mtrun()
TOKEN = 'abcdefgh-0123456789.~_'


def samples(text):
    """NAME{labels} -> value of a Prometheus text."""
    return {m[1]: float(m[2]) for m in re.finditer(r'^([a-zA-Z_:][\w:]*(?:\{.*\})?) (\S+)$', text, re.M)}


def value(text, name):
    return [v for k, v in samples(text).items() if k.split('{')[0] == name]


def openmetrics(text):
    """What is wrong with TEXT as OpenMetrics 1.0."""
    wrong, types, seen, series, current = [], {}, set(), set(), None
    lines = text.split('\n')
    if lines[-2:] != ['# EOF', ''] or lines.count('# EOF') != 1:
        wrong.append('it does not end in # EOF')
    for line in lines[:-2]:
        m = re.match(r'# (TYPE|HELP|UNIT) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.*)$', line)
        if m:
            if m[2] != current and m[2] in seen:
                wrong.append(f'{m[2]} is in two places')
            current = m[2]
            seen.add(current)
            if m[1] == 'TYPE':
                types[m[2]] = m[3]
                if m[3] not in ('gauge', 'counter', 'info'):
                    wrong.append(line)
            if m[1] == 'UNIT' and not m[2].endswith('_' + m[3]):
                wrong.append(f'{m[2]} does not end in its unit {m[3]}')
            continue
        m = re.match(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\n"])*"(?:,(?=[a-zA-Z_])|(?=\})))+\})? ([-+]?[\d.]+(?:e[-+]?\d+)?)$', line)
        if not m:
            wrong.append(f'no sample: {line}')
            continue
        suffix = {'counter': '_total', 'info': '_info', 'gauge': ''}.get(types.get(current), '?')
        if m[1] != f'{current}{suffix}':
            wrong.append(f'{m[1]} in the family {current}')
        if m[0].rsplit(' ', 1)[0] in series:
            wrong.append(f'twice: {line}')
        series.add(m[0].rsplit(' ', 1)[0])
    return wrong


# ---- the numbers ----

s = Served()
s.say(2000)
status = s.json('/api/v1/status')
report = s.json('/api/v1/report?by=function')
mine = {r['function']: r for r in report['mem_report']}
text = s.json('/api/v1/text')
tree = s.json('/api/v1/tree')
metrics = s.get('/metrics')[2].decode()
om = s.get('/metrics', {'Accept': 'application/openmetrics-text; version=1.0.0'})
mt.check('the numbers are the program\'s own', [
    f'{what}: {have}, not {want}' for what, have, want in (
        ('status', status['heap'], s.live), ('status, total', status['total_allocated'], s.requested), ('report', mine['keep_block']['size'], s.live),
        ('report, count', mine['keep_block']['count'], 2000), ('text', [r['flat'] for r in text['rows'] if r['function'] == 'keep_block'], [s.live]),
        ('tree', tree['size'], s.live), ('metrics', value(metrics, 'mtrun_heap_bytes'), [s.live]),
        ('metrics, total', value(metrics, 'mtrun_requested_bytes_total'), [s.requested]), ('metrics, blocks', value(metrics, 'mtrun_live_blocks'), [2000]),
        ('metrics, frees', value(metrics, 'mtrun_frees_total'), [2000]), ('metrics, sites', sum(value(metrics, 'mtrun_site_live_bytes')), s.live),
    ) if have != want])
mt.check('/metrics: types of the contents', [h for h, want in ((s.get('/metrics')[1]['Content-Type'], 'text/plain; version=0.0.4; charset=utf-8'),
                                                              (om[1]['Content-Type'], 'application/openmetrics-text; version=1.0.0; charset=utf-8')) if h != want])
mt.check('/metrics: OpenMetrics', openmetrics(om[2].decode()))
if shutil.which('promtool'):
    lint = subprocess.run(['promtool', 'check', 'metrics'], input=metrics, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    mt.check('/metrics: promtool finds nothing', [lint.stdout] if lint.returncode or lint.stdout else [])
else:
    mt.skip('/metrics: promtool finds nothing', 'no promtool here')
# its record begins when it is launched, which is later than mtrun, on a busy machine by some 100 ms
began = s.json('/api/v1/timeline')['points'][0][0]
mt.check('other commands', [p for p in ('threads', 'processes', f'diff?since={began}ms', f'diff?base={began}ms&at=peak', 'map?n=1', 'report?n=1', 'report?by=stack&sort=count', 'report?match=keep', 'text?n=2', 'report?at=peak')
                            if s.get('/api/v1/' + p)[0] != 200])

# ---- pprof ----


def top(path, sample):
    """function -> bytes or objects"""
    out = subprocess.run(['go', 'tool', 'pprof', '-top', '-unit=B', f'-sample_index={sample}', path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         env={**os.environ, 'HOME': mt.tmp(), 'PPROF_TMPDIR': mt.tmp()}).stdout
    return {m[2]: int(m[1]) for m in re.finditer(r'^\s*(\d+)B?\s+[\d.]+%\s+[\d.]+%\s+\d+B?\s+[\d.]+%\s+(\S+)', out, re.M)}


def pprof(name, path, want, sample, headers=None):
    code, h, data = s.get(path, headers)
    file = os.path.join(mt.tmp(), 'p.pb.gz')
    with open(file, 'wb') as f:
        f.write(data)
    have = top(file, sample)
    mt.check(name, ([f'status {code}'] if code != 200 else []) + [f'{k}: {have.get(k)}, not {v}' for k, v in want.items() if have.get(k, 0) != v])


if shutil.which('go'):
    pprof('pprof: heap', '/debug/pprof/heap', {'keep_block': s.live, 'pass_block': 0}, 'inuse_space')
    pprof('pprof: heap, objects', '/debug/pprof/heap', {'keep_block': 2000}, 'inuse_objects')
    pprof('pprof: allocs', '/debug/pprof/allocs', {'keep_block': s.live, 'pass_block': 600000}, 'alloc_space')
    pprof('pprof: as text, allocated ever', '/debug/pprof/allocs?debug=1', {'keep_block': s.live, 'pass_block': 600000}, 'alloc_space')
    later = threading.Timer(0.4, s.say, (500,))
    later.start()
    pprof('pprof: seconds', '/debug/pprof/heap?seconds=2', {'keep_block': 500000}, 'inuse_space')
    later.join()
    pprof('pprof: seconds in which nothing happens', '/debug/pprof/heap?seconds=1', {}, 'inuse_space')
    pprof('pprof: as text', '/debug/pprof/heap?debug=1', {'keep_block': s.live, 'pass_block': 0}, 'inuse_space')
    url = f'http://127.0.0.1:{s.port}/debug/pprof/heap'
    run = subprocess.run(['go', 'tool', 'pprof', '-top', '-unit=B', '-base', url, url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         env={**os.environ, 'HOME': mt.tmp(), 'PPROF_TMPDIR': mt.tmp()})
    mt.check('pprof: fetched by Go itself, -base', [run.stderr] if run.returncode or 'of 0 total' not in run.stdout else [])
else:
    mt.skip('pprof', 'no go here')
data = s.get('/debug/pprof/heap')[2]
mt.check('pprof: gzipped, with a build id', [] if data[:2] == b'\x1f\x8b' and re.search(rb'[0-9a-f]{40}', gzip.decompress(data)) else ['it is not'])
status, _, text = s.get('/debug/pprof/heap?debug=1')
rows = [tuple(map(int, m)) for m in re.findall(r'^(\d+): (\d+) \[(\d+): (\d+)\] @(?: 0x[0-9a-f]+)+\n(?:#\t0x[0-9a-f]+\t.*\n)+\n', text.decode(), re.M)]
sums = re.match(rb'heap profile: (\d+): (\d+) \[(\d+): (\d+)\] @ heap/2\n', text)
mt.check('pprof: as text, its form', [] if sums and rows and tuple(map(sum, zip(*rows))) == tuple(map(int, sums.groups())) and
         re.search(rb'^#\t0x[0-9a-f]+\tkeep_block\t/.*served\.c:\d+$', text, re.M) and b'\nMAPPED_LIBRARIES:\n' in text and s.get('/debug/pprof/heap?debug=1&seconds=1')[0] == 400
         else [f'{status} {len(rows)} rows, {sums} {text[:500]}'])
mt.check('pprof: for people', [] if b'keep_block' in text and b'allocs' in s.get('/debug/pprof/')[2] else ['it is not'])

# ---- what is not answered ----

refused = [('/x', 404), ('/api/v1/kill', 404), ('/api/v1/', 404), ('/api/v1/stop', 404), ('/api/v1/x?n=1', 404), ('/api/v1/../../etc/passwd', 404), ('/%2e%2e/', 404),
           ('/api/v1/report?at=1s;kill', 400), ('/api/v1/report?file=/etc/passwd', 400), ('/api/v1/report?n=1&n=2', 400), ('/api/v1/report?by=x', 400),
           ('/api/v1/report?match=(', 400), ('/api/v1/report?match=a{99}', 400), ('/api/v1/report?match=' + 'a' * 300, 400), ('/api/v1/report?pid=1', 404),
           ('/api/v1/report?since=/etc/passwd', 400), ('/api/v1/diff?since=/etc/passwd', 400), ('/api/v1/diff?base=/etc/passwd', 400), ('/api/v1/diff?since=1&base=1', 400), ('/api/v1/status?n=1', 400), ('/api/v1/report?n=%00', 400),
           ('/debug/pprof/heap?seconds=0', 400), ('/debug/pprof/heap?seconds=99999', 400), ('/debug/pprof/profile', 404), ('/metrics?x=1', 400)]
mt.check('what cannot be asked', [f'{p}: {code} {data[:80]}, not {want}' for p, want in refused for code, _, data in [s.get(p)] if code != want])
said = s.get('/api/v1/diff')
mt.check('what diff needs is called as here',
         [] if said[0] == 400 and b'since=' in said[2] and b'.heap' not in said[2] else [said])
mt.check('methods', [m for m in ('POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH', 'TRACE') if s.get('/healthz', method=m)[0] != 405])
head = s.get('/metrics', method='HEAD')
mt.check('HEAD', [] if head[0] == 200 and not head[2] and int(head[1]['Content-Length']) > 100 else [head])
mt.check('a page of another site that has our address', [h for h in ('evil.example', 'localhost.evil.example', '127.0.0.1.nip.io', '') if s.get('/healthz', {'Host': h})[0] != 403])
mt.check('nothing is allowed to other sites', [k for p in ('/', '/metrics') for k in s.get(p, {'Origin': 'http://evil.example'})[1] if k.lower().startswith('access-control')])


def raw(data, wait=3):
    """What comes back for these bytes."""
    with socket.create_connection(('127.0.0.1', s.port), timeout=wait) as c:
        out = b''
        try:
            c.sendall(data)
            while True:
                got = c.recv(65536)
                if not got:
                    return out
                out += got
        except OSError:
            return out


for version in ('0.1', '0.9', '1.0', '1.1', '1.7'):     # an answer on a connection that may be kept says where it ends
    for method in ('GET', 'HEAD'):
        head, _, body = raw(f'{method} /healthz HTTP/{version}\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n'.encode(), 0.3).partition(b'\r\n\r\n')
        length = re.findall(rb'^Content-Length: (\d+)\r?$', head, re.M)
        if head:
            mt.check(f'the length of an answer to {method}, HTTP/{version}', [] if len(length) == 1 and (method == 'HEAD' or int(length[0]) == len(body)) else [f'{head} {body}'])
mt.check('requests that are none', [d[:30] for d in (b'\r\n\r\n', b'GET\r\n\r\n', b'GET / HTTP/9.9\r\n\r\n', b'\x00' * 1000, b'GET ' + b'/' * 100000 + b' HTTP/1.1\r\n\r\n',
                                                     b'GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n', b'\x16\x03\x01\x02\x00\x01') if b' 200 ' in raw(d, 0.3)])
with socket.create_connection(('127.0.0.1', s.port)) as c:      # headers without an end
    c.settimeout(10)
    sent = 0
    try:
        c.sendall(b'GET / HTTP/1.1\r\nHost: localhost\r\n')
        while sent < 64 << 20:
            c.sendall(b'X: ' + b'a' * 65000 + b'\r\n')
            sent += 65005
    except OSError:
        pass
mt.check('headers without an end', [] if sent < 8 << 20 else [f'{sent} bytes were taken'])
mt.check('it still answers', [] if s.get('/healthz')[0] == 200 else ['no'])

# ---- many, and slow ones ----

idle = []
try:
    for _ in range(1000):
        c = socket.socket()
        c.setblocking(False)
        c.connect_ex(('127.0.0.1', s.port))
        idle.append(c)
except OSError:
    pass
time.sleep(0.5)
with open(f'/proc/{s.p.pid}/fd/../status') as f:
    rss = int(re.search(r'VmRSS:\s+(\d+)', f.read())[1])
fds = len(os.listdir(f'/proc/{s.p.pid}/fd'))
for c in idle:
    c.close()
mt.check('1000 connections that say nothing', ([f'{fds} descriptors'] if fds > 400 else []) + ([] if mt.until(lambda: s.get('/healthz')[0] == 200, 15) else ['no answer after them']))


# ---- events ----

def events(c, n):
    """The next N."""
    out, buffer = [], b''
    while len(out) < n:
        got = c.recv(4096)
        if not got:
            raise RuntimeError(f'the stream has ended: {out}')
        buffer += got
        while b'\n\n' in buffer:
            one, buffer = buffer.split(b'\n\n', 1)
            m = re.search(rb'event: (\w+)\n.*?data: (\{.*\})', one, re.S)
            if m:
                out.append((m[1].decode(), json.loads(m[2])))
    return out


streams = []
for _ in range(2):
    c = socket.create_connection(('127.0.0.1', s.port), timeout=10)
    c.sendall(b'GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n')
    streams.append(c)
first = [events(c, 1)[0] for c in streams]
s.say(100)
now = [events(c, 2)[-1] for c in streams]
mt.check('events: two listeners, the live bytes', [f'{kind} {e["live"]}, not {s.live}' for kind, e in now if kind != 'now' or e['live'] != s.live])
streams[0].close()
page = s.get('/')[2].decode()
pid = s.json('/api/v1/status')['pid']
chosen = s.get(f'/?pid={pid}')[2].decode()
mt.check('the page listens to them', [] if '"events":"events"' in page and f'"events":"events?pid={pid}"' in chosen and "connect-src 'self'" in page else ['it does not'])
mt.check('events: of one process', [f'{q}: {code}' for q, want in (('pid=1', 404), ('n=1', 400)) for code in [s.get('/events?' + q)[0]] if code != want])

# ---- the end ----

rc = s.end()
mt.check('the status is the program\'s', [] if rc == 3 else [f'status {rc}'])
kind, last = 'now', None
while kind == 'now':
    kind, last = events(streams[1], 1)[0]
mt.check('events: mtrun leaves with the program, and says so', [] if (kind, last['live'], last['state']) == ('end', s.live, 'exited') else [kind, last])

os.mkfifo(os.path.join(mt.tmp(), 'done'))
for how, opts in (('mtrun leaves', ()), ('mtrun stays', ('-x', f'wait exit; ! cat {mt.tmp()}/done'))):
    if not shutil.which('go'):
        break
    s = Served(*opts)
    s.say(10)

    def more_and_end():
        s.say(500)
        s.p.stdin.close()

    later = threading.Timer(0.4, more_and_end)
    later.start()
    pprof(f'pprof: the end comes first, {how}', '/debug/pprof/heap?seconds=3600', {'keep_block': 500000},
          'inuse_space')
    later.join()
    if opts:
        open(os.path.join(mt.tmp(), 'done'), 'w').close()
    s.p.wait(20)
s = Served('-x', f'wait exit; ! cat {mt.tmp()}/done')
s.say(10)
c = socket.create_connection(('127.0.0.1', s.port), timeout=10)
c.sendall(b'GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n')
events(c, 1)
s.p.stdin.close()
kind = ''
while kind != 'end':
    kind, last = events(c, 1)[0]
mt.check('events: the end', [] if last['live'] == s.live and last['state'] == 'exited' else [last])
mt.check('the end: answers are of its last instant', ([] if s.get('/healthz')[0] == 503 else ['it is healthy']) + ([] if s.json('/api/v1/status')['heap'] == s.live else ['another heap']))
open(os.path.join(mt.tmp(), 'done'), 'w').close()
s.p.wait(20)

# ---- several processes; one that runs already ----


def stream(port, query=''):
    c = socket.create_connection(('127.0.0.1', port), timeout=20)
    c.sendall(f'GET /events{query} HTTP/1.1\r\nHost: localhost\r\n\r\n'.encode())
    return c


def last_event(c):
    kind = 'now'
    while kind == 'now':
        kind, last = events(c, 1)[0]
    return last


pipes = [os.path.join(mt.tmp(), f'pipe{i}') for i in range(2)]
for path in pipes:
    os.mkfifo(path)
s = Served(start=['sh', '-c', f'echo; cat {pipes[0]} & cat {pipes[1]}; wait'])


def running():
    """Without what a process was before it executed another program."""
    return sorted((p['pid'], p['command']) for p in s.json('/api/v1/processes')['processes'] if p['state'] == 'running')


mt.until(lambda: [command for _, command in running()] == ['sh', 'cat', 'cat'], 20)
pids = [pid for pid, _ in running()]


def heaps():
    text = s.get('/metrics')[2].decode()
    return {int(m[1]): int(m[2]) for m in re.finditer(r'^mtrun_heap_bytes\{pid="(\d+)",command="(?:sh|cat)"\} (\d+)$', text, re.M)}


def settled():
    """Each waits for its pipe: what it has is the same for a while, and there is some."""
    before = heaps()
    time.sleep(0.2)
    return all(before.values()) and heaps() == before


mt.until(settled, 20)
heap = heaps()
alone = {p: s.get(f'/metrics?pid={p}')[2].decode() for p in pids}
mt.check('several processes: each has its label, and its answers',
         ([] if sorted(heap) == sorted(pids) else [f'{heap}, not of {pids}']) +
         [f'{p}: {heap.get(p)}, {have}' for p in pids for have in [s.json(f'/api/v1/status?pid={p}')['heap'], *value(alone[p], 'mtrun_heap_bytes')] if have != heap.get(p)] +
         [f'{p}: others are there' for p in pids if len(value(alone[p], 'mtrun_heap_bytes')) != 1 or f'pid="{p}"' not in alone[p]])
both = [stream(s.port), stream(s.port, f'?pid={pids[1]}')]
told = [events(c, 1)[0][1]['pid'] for c in both]
with open(f'/proc/{pids[1]}/cmdline') as f:
    open(pipes[pipes[1] in f.read()], 'w').close()
ended = last_event(both[1])
after = events(both[0], 2)[-1]
mt.check('several processes: the events of one end with it', [] if (told, ended['pid'], ended['state'], after[0]) == (pids[:2], pids[1], 'exited', 'now') else [told, ended, after])
for path in pipes:
    for _ in '.':
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:         # nobody reads it any more
            pass
s.p.wait(20)

target = mt.popen([mt.build('served.c')], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
target.stdout.readline()
port = free_port()
p = mt.popen([mt.MTRUN, '-q', '-p', str(target.pid), '--listen', str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def attached():
    try:
        return stream(port)
    except OSError:
        return None


c = mt.until(attached, 20)
first = events(c, 1)[0][1]
target.stdin.write(b'50\n')
target.stdin.flush()
mt.until(lambda: events(c, 1)[0][1]['live'] == 50000, 10)
p.send_signal(signal.SIGINT)
last = last_event(c)
mt.check('a program that runs already: what comes, and that it is let go', [] if (first['pid'], last['live'], last['state']) == (target.pid, 50000, 'detached') else [first, last])
p.wait(20)
target.stdin.close()
target.wait(20)

# ---- who may ask ----

secret = os.path.join(mt.tmp(), 'token')
with open(os.open(secret, os.O_CREAT | os.O_WRONLY, 0o600), 'w') as f:
    f.write(TOKEN + '\n')
port = free_port()
s = Served(f'0.0.0.0:{port}', '--listen-token', secret, '--listen-host', 'box.example', port=port)
tries = [({}, '', 401), ({'Authorization': 'Bearer ' + TOKEN}, '', 200), ({'Authorization': 'Bearer ' + TOKEN[:-1]}, '', 401), ({'Cookie': f'a=b; mtrun={TOKEN}'}, '', 200),
         ({'Cookie': 'mtrun='}, '', 401), ({}, f'?token={TOKEN}', 303), ({}, '?token=x', 401), ({'Authorization': 'Bearer ' + TOKEN, 'Host': 'box.example:1'}, '', 200),
         ({'Authorization': 'Bearer ' + TOKEN, 'Host': 'evil.example'}, '', 403)]
mt.check('the token', [f'{h} {q}: {code}, not {want}' for h, q, want in tries for code, _, _ in [s.get('/' + q, h)] if code != want])
mt.check('the token is no parameter elsewhere', [] if s.get(f'/metrics?token={TOKEN}')[0] == 401 else ['it is'])
cookie = s.get(f'/?token={TOKEN}')[1]
mt.check('the cookie', [] if cookie['Set-Cookie'] == f'mtrun={TOKEN}; Path=/; HttpOnly; SameSite=Strict' and cookie['Location'] == '/' else [cookie.items()])
s.end()

path = os.path.join(mt.tmp(), 's.sock')
s = Served('unix:' + path)
c = Unix(path)
c.request('GET', '/healthz')
mt.check('a unix socket, for its owner alone', ([] if c.getresponse().read() == b'ok\n' else ['no answer']) + ([] if os.stat(path).st_mode & 0o777 == 0o600 else ['other rights']))
s.p.kill()
s.p.wait()
for pid in mt.children():
    mt.kill(pid)
s = Served('unix:' + path)
c = Unix(path)
c.request('GET', '/healthz')
mt.check('a unix socket that was left is taken over', [] if c.getresponse().read() == b'ok\n' else ['no answer'])
s.end()
mt.check('and nothing of it stays', [path] if os.path.exists(path) else [])

with socket.socket() as taken:
    taken.bind(('127.0.0.1', 0))
    taken.listen()
    for name, opts, words in (('without a token', ['--listen', '0.0.0.0:1'], 'needs a token'), ('an address that is taken', ['--listen', str(taken.getsockname()[1])], 'in use'),
                              ('no address', ['--listen', 'x'], "invalid value 'x'"), ('a name', ['--listen', 'example.org:80'], 'invalid value'),
                              ('a token that all can read', ['--listen', '1', '--listen-token', '/etc/hostname'], 'read by others')):
        r = subprocess.run([mt.MTRUN, *opts, 'touch', os.path.join(mt.tmp(), 'ran')], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        mt.check('refused before the program begins: ' + name, ([f'status {r.returncode}'] if r.returncode != 125 else []) + ([r.stderr] if words not in r.stderr or r.stderr.count('\n') != 1 else []) +
                 (['it ran'] if os.path.exists(os.path.join(mt.tmp(), 'ran')) else []))

# ---- the command, and what was recorded ----

port = free_port()
heap = os.path.join(mt.tmp(), 'x.heap')
r = subprocess.run([mt.MTRUN, '-q', '-x', f'listen; listen {port}; listen; ! curl -s localhost:{port}/healthz; listen off; ! curl -s localhost:{port}/healthz || echo gone; export heap {heap}; kill; wait exit', 'sleep', '60'],
                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
mt.check('the command', [] if [x for x in r.stdout.split('\n') if x] == ['off', str(port), 'ok', 'gone'] else [r.stdout])
p = subprocess.Popen([mt.MTRUN, '--listen', str(port), '-r', heap, '-x', f'! cat {mt.tmp()}/done'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def answers():
    try:
        c = http.client.HTTPConnection('127.0.0.1', port, timeout=5)
        c.request('GET', '/api/v1/status')
        return c.getresponse().status == 200
    except OSError:
        return False


mt.check('what was recorded', [] if mt.until(answers, 10) else ['no answer'])
open(os.path.join(mt.tmp(), 'done'), 'w').close()
p.wait(20)
s = Served('-o', os.path.join(mt.tmp(), 'served.'))
s.say(2000)
s.end()
[dumped] = [os.path.join(mt.tmp(), f) for f in os.listdir(mt.tmp()) if re.fullmatch(r'served\..*\.heap', f)]
p = subprocess.Popen([mt.MTRUN, '--listen', str(port), '-r', dumped], stdin=subprocess.DEVNULL,
                     stderr=subprocess.DEVNULL)
mt.until(answers, 10)
c = http.client.HTTPConnection('127.0.0.1', port, timeout=20)
c.request('GET', '/metrics', headers={'Accept': 'application/openmetrics-text; version=1.0.0'})
metrics = c.getresponse().read().decode()
c.request('GET', '/events')
told = json.loads(re.search(r'^data: (.*)', c.getresponse().read().decode(), re.M)[1])
families = set(re.findall(r'^# TYPE mtrun_(\w+)', metrics, re.M))
[peak] = value(metrics, 'mtrun_peak_bytes')
mt.check('the metrics of a .heap file: its numbers, and no others', openmetrics(metrics) + [
    f'{what}: {have}, not {want}' for what, have, want in (
        ('blocks', value(metrics, 'mtrun_live_blocks'), [2000]),
        ('requested', value(metrics, 'mtrun_requested_bytes_total'), [s.requested]),
        ('sites', sum(value(metrics, 'mtrun_site_live_bytes')), s.live),
        ('peak', s.live <= peak <= s.requested, True),
        ('families', families, {'peak_bytes', 'live_blocks', 'allocations', 'requested_bytes',
                                'site_live_bytes', 'site_live_blocks', 'self_resident_bytes',
                                'self_cpu_seconds', 'build'}),
        ('events', [told[k] for k in ('live', 'live_blocks', 'allocated', 'frees', 'rss')],
         [s.live, 2000, None, None, -1]),
    ) if have != want])
p.terminate()
p.wait(20)
for how in (signal.SIGTERM, signal.SIGINT):     # without commands it stays until it is told to end
    p = subprocess.Popen([mt.MTRUN, '-r', heap, '--listen', str(port)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    bad = [] if mt.until(answers, 10) else ['no answer']
    p.send_signal(how)
    out, err = p.communicate(timeout=20)
    mt.check(f'what was recorded, without commands, up to {how.name}', bad + ([] if p.returncode == 0 and not out and err.decode().count('is served at') == 1 else [f'{p.returncode} {out} {err}']))
mt.finish()
