#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 300
"""limit-hit - what the user sees of a limit: the texts with the program's own numbers, the actions, the commands, the exit statuses, wrong sizes."""
import json
import os
import re
import shutil
import signal
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
want = re.compile(sys.argv[1] if len(sys.argv) > 1 else '')
d = mt.tmp()
PATH = mt.build('meets.c', 'gcc', '-fno-builtin-malloc')
with open(os.path.join(mt.VICTIMS, 'meets.c')) as f:
    LINE = {m[1]: n for n, text in enumerate(f, 1) for m in [re.search(r'/\* line:(\w+) \*/', text)] if m}
HIT = re.compile(r'^\[MEMTRACER\] alloc memory:(\d+), allocated_memory: (\d+), memory_limit: (\d+), Memory limit exceeded!$', re.M)
HEAP = ['-c', 'heap']
LIMIT = 100000


def run(opts, words=('60000', '1000', '5'), **kw):
    r = mt.plain([mt.MTRUN, *opts, '--', PATH, *words], cwd=d, **kw)
    r.text = r.err.decode(errors='replace')
    r.said = r.out.decode(errors='replace').splitlines()
    r.asks = [tuple(map(int, x.split()[1:])) for x in r.said if x.startswith('ask')]
    r.hits = [tuple(map(int, m)) for m in HIT.findall(r.text)]
    return r


case = mt.cases(want)


def first_refusal(r, bad, base=0):
    """The one that is told is the first that would have crossed; the libc holds BASE bytes beside."""
    step, held = next((a for a in r.asks if base + a[0] + a[1] > LIMIT), (0, 0))
    if r.hits[:1] != [(step, base + held, LIMIT)]:
        bad.append(f'told {r.hits[:2]}, the program asked for {step} beside {held}')


def threes(text, bad):
    """What follows the line: process, thread, stack, sites that add up."""
    if not re.search(r'^process (\d+) \(meets\), thread \1 \(meets\), after .*: 1000 bytes more, with \d+ bytes? of room left, asked for by\n'
                     rf'   0: take\n +at .*meets\.c:{LINE["take"]}(:\d+)?\n(?: +.*\n)*? +(?:\d+: )?main\n', text, re.M):
        bad.append(f'no stack: {text[:600]}')
    m = re.search(r'^what it holds:\ntotal_size: (\d+)\n((?:.* line:\d+ .*\n)+)', text, re.M)
    rows = re.findall(r'line:(\d+) +size:(\d+) +count:(\d+)', m[2]) if m else []
    have = {int(a): (int(b), int(c)) for a, b, c in rows}
    if not m or sum(v[0] for v in have.values()) != int(m[1]) or have.get(LINE['half']) != (30000, 1) or have.get(LINE['sixth']) != (30000, 3):
        bad.append(f'sites: {m and m[0]}')


@case('kill: the line, its stack, the sites, status')
def _(bad):
    for opts, status in (([], -9), (['--limit-exit', '77'], 77), (['--limit-exit', '0'], 0)):
        r = run([*HEAP, '-l', str(LIMIT), *opts])
        if r.rc != status or len(r.hits) != 1 or 'refused' in r.out.decode():
            bad.append(f'{opts}: status {r.rc}, hits {r.hits}, {r.said[-2:]}')
        first_refusal(r, bad)
        threes(r.text, bad)
        if not re.search(r'^mtrun: meets \(\d+\) is killed at its limit$', r.text, re.M) or not re.search(r'^  limit +100,000 bytes, hit 1 time$', r.text, re.M):
            bad.append(r.text[-500:])
    r = run([*HEAP, '-q', '-l', str(LIMIT), '--messages', f'{d}/m'])
    with open(f'{d}/m') as f:
        text = f.read()
    if r.err or len(HIT.findall(text)) != 1 or not text.startswith('[MEMTRACER]'):
        bad.append(f'--messages: {r.err} {text[:300]}')


@case('kill: the whole tree')
def _(bad):
    r = run([*HEAP, '-q', '-l', str(LIMIT)], ('60000', '1000', '5', 'tree'))
    if r.rc != -9 or mt.children() or not re.search(r'is killed at its limit, and 2 other processes$', r.text, re.M):
        bad.append(f'{r.rc} {mt.children()} {r.text[-300:]}')
    r = run([*HEAP, '-q', '-l', str(LIMIT), '--limit-exit', '5'], ('60000', '1000', '5', 'child'))
    m = re.search(r'^process (\d+) \(meets\)', r.text, re.M)
    if r.rc != 5 or not m or len(r.hits) != 1 or mt.children():
        bad.append(f'in a child: {r.rc} {r.text[:300]}')
    first_refusal(r, bad)


@case('fail: told once, counted, listed by site')
def _(bad):
    r = run([*HEAP, '-l', str(LIMIT), '--on-limit', 'fail', '-x', f'wait exit; limit; limit --json > {d}/limit; status --json > {d}/status; limit --stacks'])
    first_refusal(r, bad)
    with open(f'{d}/limit') as f, open(f'{d}/status') as g:
        limit, status = json.load(f), json.load(g)
    held = r.asks[-1][1]
    if r.rc != 3 or len(r.hits) != 1 or [x for x in r.said if not x.startswith('ask')] != [f'refused {i} {held}' for i in range(1, 6)] + ['done']:
        bad.append(f'{r.rc} {len(r.hits)} {r.said[-8:]}')
    want_json = {'limit': LIMIT, 'allocated': held, 'room': LIMIT - held, 'action': 'fail', 'hits': 5, 'refused': 5}
    bad += [f'limit --json: {k} is {limit.get(k)}, should be {v}' for k, v in want_json.items() if limit.get(k) != v]
    rows = limit['refusals']
    if len(rows) != 1 or (rows[0]['count'], rows[0]['bytes'], rows[0]['line'], rows[0]['stack'][0]['function']) != (5, 5000, LINE['take'], 'take'):
        bad.append(rows)
    if (status['limit'], status['limit_hits'], status['room'], status['allocated']) != (LIMIT, 5, LIMIT - held, held):
        bad.append({k: status.get(k) for k in ('limit', 'limit_hits', 'room', 'allocated')})
    for text in (rf'^limit +{LIMIT} bytes \(97.7K\); at a hit: fail\n'
                 rf'allocated +{held} bytes \(.*\), room for {LIMIT - held}( \(.*\))?\n'
                 rf'hits +5; 5 requests refused\n'
                 rf'total_size: 5000\n.*meets\.c +line:{LINE["take"]} +size:5000 +count:5 +take$',
                 r'^# 0: 5000 bytes\n +5 blocks',
                 r'^  limit +100,000 bytes, hit 5 times, 5 requests refused$', rf'^refused at the limit:\ntotal_size: 5000\n.*line:{LINE["take"]} ',
                 r'^mtrun: the request fails; meets \(\d+\) goes on'):
        if not re.search(text, r.text, re.M):
            bad.append(f'{text!r} is not in {r.text[-1500:]}')


@case('report: said once per crossing, and granted')
def _(bad):
    r = run([*HEAP, '-l', str(LIMIT), '--on-limit', 'report', '-q', '-x', 'wait heap > 200000; kill'], ('60000', '1000', '5'))
    first_refusal(r, bad)
    if len(r.hits) != 1 or r.rc != -9 or not re.search(r'^mtrun: the request is granted: meets', r.text, re.M):
        bad.append(f'{r.rc} {r.hits} {r.text[-300:]}')


@case('stop in batch: `on limit`, then killed')
def _(bad):
    for opts, commands, rc, said in (
            (['--on-limit', 'stop'], 'on limit { echo ON; status --json > %s/s; bt all }; wait exit; echo END', -9, ['ON', 'END']),
            (['--on-limit', 'stop', '--limit-exit', '9'], 'on limit { echo ON; status --json > %s/s; bt all }', 9, ['ON']),
            ([], 'on limit { echo ON; status --json > %s/s; bt all }; wait exit; echo END', -9, ['ON', 'END']),
            (['--on-limit', 'stop'], 'wait limit; echo ON; status --json > %s/s; bt all; wait 10s; echo END', -9, ['ON', 'END']),
            (['--on-limit', 'stop'], 'wait limit; echo ON; status --json > %s/s; bt all', -9, ['ON'])):
        began = time.monotonic()
        r = run([*HEAP, '-q', '-l', str(LIMIT), *opts, '-x', commands % d], ('60000', '1000', '5', 'threads'))
        with open(f'{d}/s') as f:
            s = json.load(f)
        first_refusal(r, bad, r.hits[0][1] % 1000)      # of three threads, less than a step
        if r.rc != rc or len(r.hits) != 1 or [x for x in r.text.splitlines() if x in ('ON', 'END')] != said or s['state'] != 'stopped' or s['threads'] != 4:
            bad.append(f'{opts} {commands}: {r.rc} {r.hits} {s["state"]} {r.text[-400:]}')
        bt = re.findall(r'^thread (\d+) \(meets\)\n((?: +.*\n)+)', r.text, re.M)
        if len(bt) != 4 or sum('take\n' in x[1] for x in bt) != 1 or sum('tick\n' in x[1] for x in bt) != 3:
            bad.append(f'bt all: {bt}')
        if time.monotonic() - began > 60:
            bad.append('it waited for something')


@case('stop in batch: with more room it goes on')
def _(bad):
    r = run([*HEAP, '-q', '-l', str(LIMIT), '--on-limit', 'stop', '-x',
             'wait limit; limit 150000; cont; wait limit; limit 200K --on fail; cont; wait limit timeout 20s; wait exit; limit'])
    if r.rc != 3 or [h[2] for h in r.hits] != [LIMIT, 150000, 204800] or not re.search(r'^limit +204800 .*; at a hit: fail\n', r.text, re.M):
        bad.append(f'{r.rc} {r.hits} {r.text[-500:]}')
    r = run([*HEAP, '-q', '-l', str(LIMIT), '--on-limit', 'stop', '-x', 'on limit { limit off; cont }; wait heap > 300000; on limit { }; limit 1K --on kill; wait exit'])
    if r.rc != -9 or [h[2] for h in r.hits] != [LIMIT, 1024] or r.hits[1][1] < 300000:
        bad.append(f'off, then below what is in use: {r.rc} {r.hits} {r.text[-500:]}')
    r = run([*HEAP, '-q', '-l', str(LIMIT), '--on-limit', 'stop', '-x', 'on limit { cont }'])
    if r.rc != -9 or not re.search(r'is killed: it met its limit again with the same request$', r.text, re.M):
        bad.append(f'cont with nothing changed: {r.rc} {r.text[-500:]}')
    r = run([*HEAP, '-q', '-l', '1G', '-x', 'wait limit'], ('1000', '9000000000000', '0'))
    if r.rc != 125 or 'wait: the program ended without meeting its limit' not in r.text:
        bad.append(f'never: {r.rc} {r.text}')


@case('stop: nobody runs on')
def _(bad):
    r = run([*HEAP, '-q', '-l', str(LIMIT), '--on-limit', 'stop', '-x', 'wait limit\n! cp meets.ticks a\n! sleep 0.3\n! cp meets.ticks b'], ('60000', '1000', '5', 'threads'))
    a, b = (struct.unpack('Q', open(f'{d}/{x}', 'rb').read(8))[0] for x in 'ab')
    if a != b or not a:
        bad.append(f'{a} {b} {r.text[-200:]}')


@case('stop: who is left there goes on')
def _(bad):
    for script in ('on limit { detach }', 'on limit { quit }', 'wait limit; detach'):
        out = os.path.join(d, 'alone')
        with open(out, 'wb') as f:
            p = mt.popen([mt.MTRUN, *HEAP, '-q', '-l', str(LIMIT), '--on-limit', 'stop', '--messages', os.path.join(d, 'said'), '-x', script, '--', PATH, '60000', '1000',
                          '5'], stdout=f)
        p.wait(mt.TIMEOUT)
        with open(os.path.join(d, 'said')) as f:
            said = f.read()

        def beyond():
            with open(out) as f:
                return any(int(x.split()[2]) > LIMIT + 5000 for x in f.read().splitlines()[:-1])
        if p.returncode or len(HIT.findall(said)) != 1 or 'killed: it met' in said or 'still in hooks' in said or not mt.until(beyond):
            bad.append(f'{script}: {p.returncode} {said}')
        pid = re.search(r'^process (\d+) \(meets\)', said, re.M)
        if pid:
            os.kill(int(pid[1]), signal.SIGKILL)


@case('the image alone is above the limit')
def _(bad):
    for opts, rc in (([], -9), (['--limit-exit', '6'], 6), (['--on-limit', 'stop'], -9)):
        r = run(['-l', '1', '-q', *opts])
        if r.rc != rc or r.out or len(r.hits) != 1 or r.hits[0][0] % 4096 or not r.hits[0][0] or r.hits[0][1:] != (0, 1):
            bad.append(f'{opts}: {r.rc} {r.out} {r.text[:300]}')
        if not re.search(r"^process \d+ \(meets\): the executable's text alone, \d+ bytes, is more than the limit; nothing of it has run", r.text, re.M):
            bad.append(r.text[:400])


@case('one that is attached')
def _(bad):
    for opts, rc in (([], 0), (['--limit-exit', '77'], 77)):
        p = mt.popen(['python3', '-c', 'input(); x = bytearray(50 << 20); print("it had them")'], stdin=mt.subprocess.PIPE, stdout=mt.subprocess.PIPE)
        m = mt.popen([mt.MTRUN, '-q', '-l', '20M', *opts, '-p', str(p.pid), '-x', 'echo here'], stdout=mt.subprocess.PIPE, stderr=mt.subprocess.STDOUT)
        said = m.stdout.readline()
        out = p.communicate(b'\n', timeout=60)[0]
        said += m.communicate(timeout=60)[0]
        if m.returncode != rc or p.returncode != -9 or out or len(HIT.findall(said.decode())) != 1:
            bad.append(f'{opts}: {m.returncode}, {p.returncode} {out} {said[:300]}')


@case('wrong sizes, times, actions')
def _(bad):
    for opts, quoted, accepted in ((['-l', '0'], "'0'", 'more than 0'), (['-l', '-1'], "'-1'", 'bytes'), (['-l', '10X'], "'10X'", 'bytes'), (['-l', '10 '], "'10 '", 'bytes'),
                                   (['-l', ''], "''", 'bytes'), (['--limit=99999999999999999999'], "'99999999999999999999'", 'bytes'),
                                   (['-l', '16777216T'], "'16777216T'", 'bytes'), (['-l', '1G', '--on-limit', 'no'], "'no'", 'kill, stop, fail or report'),
                                   (['-l', '1G', '--limit-exit', '256'], "'256'", '0 to 255'), (['-i0'], "'0'", 'time'), (['--interval=1y'], "'1y'", 'time'),
                                   (['-i', '5s'], "'5s'", '-i5s')):
        r = run(opts)
        if r.rc != 125 or r.out or len(r.text.splitlines()) != 1 or quoted not in r.text or accepted not in r.text:
            bad.append(f'{opts}: {r.rc} {r.text!r}')
    for name, values in {'MT_MEMORY_LIMIT': ('', '0', '-5', '1M', '99999999999999999999'), 'MT_PRINT_INTERVAL_MS': ('', '0', '-5', '1s')}.items():
        for value in values:
            r = run([], env={**os.environ, name: value})
            if r.rc != 125 or r.out or len(r.text.splitlines()) != 1 or f"{name}: invalid value '{value}'" not in r.text:
                bad.append(f'{name}={value}: {r.rc} {r.text!r}')
    for command, quoted in {'limit 0': "'0'", 'limit 5X': "'5X'", 'limit -5': "'-5'", 'limit 1G 2G': "'2G'", 'limit 1G --on never': "'never'", 'limit 1G --json': '--json',
                            'interval 0': "'0'", 'interval 1s 2s': "'2s'", 'on limits { }': "'limits'"}.items():
        r = run([*HEAP, '-q', '-l', '1M', '-x', f'{command}; limit > {d}/l; kill; wait exit'])
        errors = [x for x in r.text.splitlines() if x.startswith('mtrun: ') and 'limit with' not in x]
        if r.rc != 125 or quoted not in r.text or not open(f'{d}/l').read().startswith('limit      1048576 bytes'):
            bad.append(f'{command}: {r.rc} {errors}')


if shutil.which('tmux') and want.search('prompt'):
    import window

    @window.case('prompt')
    def _(t, bad):
        t.start(f'{PATH} 60000 1000 3 threads', f'-c heap -l {LIMIT} --on-limit stop')
        t.expect(r'is stopped at its limit, the request waits: `limit SIZE` and `cont`\s+let\s+it\s+go\s+on')
        t.expect(r'mt> $')
        if len(HIT.findall(t.screen())) != 1:
            bad.append(t.screen()[:800])
        if not re.search(r'\), stopped, 4 threads', t.run('status')) or 'take' not in t.run('bt all') or f':{LINE["half"]} ' not in t.run('report'):
            bad.append('status, bt or report')
        t.send('clear\n')
        t.send('limit 200K\n')
        t.send('cont\n')
        t.expect(rf'memory_limit: 204800, Memory limit exceeded!\n(.*\n)*.*is stopped at its limit.*\n(.*\n)*mt> $')
        t.run('limit --on fail')
        t.send('cont\n')
        t.expect(r'exited with status 3')
        if '3 requests refused' not in t.run('limit'):
            bad.append(t.run('limit'))
        t.send('quit\n')
        t.expect(r'\n\$ $')
        t.send('echo "status=$?"\n')
        t.expect(r'status=3\n')
        t.send(f'clear; {mt.MTRUN} -c heap -l {LIMIT} {PATH} 60000 1000 3; echo "status=$?"\n')
        t.expect(r'killed by SIGKILL; .*\n(.*\n)*mt> $')
        t.send('quit\n')
        t.expect(r'status=137\n')
elif want.search('prompt'):
    mt.skip('prompt', 'tmux is not installed')
mt.finish()
