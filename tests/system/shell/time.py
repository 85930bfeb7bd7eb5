#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 300
# waits
"""time - the timeline, reports of the past, snapshots and differences; that all of them agree; the peak of threads that pass blocks to each other."""
import csv
import io
import json
import os
import re
import signal
import subprocess
import tempfile
import time

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
SOAK = os.environ.get('MTRUN_SOAK') == '1'
LATE_MS = 1     # as in when.py: what a timer's interrupt is late in a virtual machine, which nobody counts
TICK_MS = 3     # of mtrun's clock: so much earlier than it was an event is dated at most


def script(cmd, text, opts=(), **kw):
    """Runs CMD with the script TEXT; %D in it is a directory. Result with .file(name), .json(name)."""
    d = tempfile.mkdtemp(dir=mt.tmp())
    with open(f'{d}/script.mt', 'w') as f:
        f.write(text.replace('%D', d) + '\n')
    r = mt.plain([mt.MTRUN, '-q', '--messages', f'{d}/messages', *opts, '-X', f'{d}/script.mt', '--', *[c.replace('%D', d) for c in cmd]], **kw)
    r.dir = d
    r.file = lambda name: open(f'{d}/{name}', errors='replace').read() if os.path.exists(f'{d}/{name}') else ''
    r.json = lambda name: json.loads(r.file(name) or '{}')
    r.messages = r.file('messages')
    return r


def is_spike(rows):
    return bool(rows) and [rows[0][k] for k in ('function', 'size', 'count')] == ['spike', 50000000, 1]


def spikes():
    """
    A machine that leaves mtrun's clock no processor for some ms dates a spike wrongly, by as much: the
    victim says of each how long. The end of a spike comes 2.5 ms after its middle and is dated up to
    a tick early: so it may be dated into the interval before, where its middle is the beginning of one.
    What was live by so much before the middle is asked for, too.
    """
    path = mt.build('spikes.c', 'gcc')
    n = 8
    r = script([path, str(n), '%D/ask', 'report --at %s --json > %D/at%d.json', str(TICK_MS + LATE_MS)],
        'wait exit\ntimeline --json > %D/t.json\ntimeline --csv > %D/t.csv\ntimeline --table > %D/t.txt\nstatus --json > %D/s.json\nsource %D/ask')
    bad, name = [], '50 MB for 5 ms each 250 ms: each spike, and its stack'
    t, s, out = r.json('t.json'), r.json('s.json'), list(map(float, r.out.split()))
    late, lasted = out[::2], out[1::2]
    if r.rc or not t or len(late) != n:
        return mt.check(name, [f'rc {r.rc}: {r.messages}, {late}'])
    points = t['points']
    if [p[0] for p in points] != [points[0][0] + 100 * i for i in range(len(points))]:
        bad.append(f'times are {[p[0] for p in points]}')
    high = [p[0] for p in points if p[1] >= 50000000]
    together = sum(ms > 100 for ms in late)     # a spike in the same interval as the one before it
    # every second one may begin at the end of an interval; one that lasted, for want of a processor,
    # has begun anywhere
    most = sum(1.5 if ms < 20 else int((ms + TICK_MS) / 100) + 2 for ms in lasted)
    if not n - together <= len(high) <= most:
        bad.append(f'{len(high)} intervals are high: {high}; the clock was late by {late} ms, they '
                   f'lasted {lasted} ms')
    if any(p[1] not in range(50000000, 50010000) and p[1] > 10000 for p in points):
        bad.append(f'values {sorted({p[1] for p in points})}')
    if t['peak'][1] != s['peak'] or t['peak'][1] != max(p[1] for p in points):
        bad.append(f'peak {t["peak"]}, of status {s["peak"]}')
    if points[-1][1] != s['heap'] + s['mmap']:
        bad.append(f'the last point is {points[-1]}, heap + mmap {s["heap"] + s["mmap"]}')
    lost = []
    for i in range(n):
        now, earlier = (r.json(f'at{k}.json').get('mem_report', []) for k in (i, n + i))
        if not any(is_spike(rows) for rows in (now, earlier)):
            lost.append(f'spike {i}: {now[:1]}; the clock was late by {late[i]} ms')
            bad += lost[-1:] if late[i] < LATE_MS else []
    rows = list(csv.reader(io.StringIO(r.file('t.csv'))))
    if rows[0] != ['ms', 'bytes'] or [[int(a) for a in x] for x in rows[1:]] != points:
        bad.append('CSV differs from JSON')
    table = [x.split() for x in r.file('t.txt').splitlines()[1:]]
    if [[round(float(x[0]) * 1000), int(x[1])] for x in table] != points:
        bad.append('the table differs from JSON')
    if [x for x in table if x[2:] == ['peak']] != [x for x in table if x[2:]] or not any(x[2:] for x in table):
        bad.append('the table does not mark the peak')
    print(f'# {len(lost)} of {n} spikes were lost: {lost}')
    mt.check(name, bad)


def passing():
    runs = 100 if SOAK else 8
    path = mt.build('passing.c', 'gcc')
    bad, room = [], []
    for i in range(runs):
        r = mt.run([path, '8', '400'], ['-c', 'heap'], ask=('status', 'timeline --json'))
        out = {key: int(value) for key, value in (x.split() for x in r.out.decode().splitlines())}
        if 'status' not in r.answers or len(out) != 4:
            bad.append(f'run {i}: rc {r.rc} {r.messages[-200:]}')
            continue
        peak = r.status['peak'] - out['base']
        room.append((peak - out['held'], out['asked'] - peak))
        if min(room[-1]) < 0:
            bad.append(f'run {i}: peak {peak}, the victim held {out["held"]} and had asked for {out["asked"]}')
        if r.timeline['peak'][1] != r.status['peak']:
            bad.append(f'run {i}: peak {r.status["peak"]}, of the timeline {r.timeline["peak"]}')
        if r.status['heap'] != out['base'] + out['left']:
            bad.append(f'run {i}: heap {r.status["heap"]}, the victim has left {out["base"]} + {out["left"]}')
    print(f'# the peak is above what was held by, and below what was asked for by: {room}')
    mt.check(f'8 threads pass 1 MB blocks: the peak is between what they held and what they had asked for, {runs} runs', bad)


def mapped(smaps):
    """Accessible and resident bytes of /proc/PID/smaps, without what mtrun has there."""
    accessible = resident = 0
    maps = re.findall(r'^[0-9a-f]+-[0-9a-f]+ (\S{4}) \S+ \S+ \d+ *(.*)\n(?:.*\n)*?Size: +(\d+) kB\n(?:.*\n)*?Rss: +(\d+) kB$', smaps, re.M)
    ours = [path.startswith('/memfd:mtrun') for _, path, _, _ in maps] + [False]
    for i, (access, path, size, rss) in enumerate(maps):
        blob = not path and maps[i + 1:i + 2] and maps[i + 1][0][:3] == 'r-x' and not maps[i + 1][1]     # what is behind the guard
        guard = size == '4' and not path and (ours[i + 1] or blob and ours[i + 2])
        if guard or ours[i] or path == '[vsyscall]' or (access[:3] == 'r-x' and not path):
            continue
        accessible += int(size) << 10 if access[:3] != '---' else 0
        resident += int(rss) << 10
    return accessible, resident


def agree(victim, *arguments):
    name = f'report, status, timeline, snapshots and the kernel agree while {victim} {" ".join(arguments)} runs'
    path = mt.build(victim, 'gcc')
    text = 'wait allocs > 10000\n'
    for i in range(5):
        text += (f'wait 70ms\nreport --json > %D/live{i}.json\nstatus --json > %D/now{i}.json\nstop\nreport --json > %D/r{i}.json\nreport --by stack --json -n 50 > %D/k{i}.json\n'
                 f'status --json > %D/s{i}.json\ntimeline --json > %D/t{i}.json\nsnapshot s{i}\nsnapshot --json > %D/n{i}.json\ndiff s{i} --json > %D/d{i}.json\n'
                 f'text --json > %D/x{i}.json\ntree --json > %D/e{i}.json\n! cat /proc/$(grep -o "pid.:[0-9]*" %D/s{i}.json | sed "s/.*://;q")/smaps > %D/smaps{i}\ncont\n')
    text += 'stop\nreport --json > %D/last.json\nreport --since s0 --json > %D/since.json\ndiff s0 --by stack --json > %D/diff.json\ndiff s0 s4 --json > %D/between.json\nkill\n'
    r = script([path, *arguments], text)
    bad = []
    try:
        for i in range(5):
            live, rep, k, s, t, x, e = (r.json(f'{c}{i}.json') for c in ('live', 'r', 'k', 's', 't', 'x', 'e'))
            now = r.json(f'now{i}.json')
            own = [p for p in now['processes'] if p['pid'] == now['pid']]
            bad += [f'{i}: status while it runs: {k} {now[k]}, of the process {own[-1][k]}' for k in ('heap', 'mmap', 'allocs', 'peak') if own[-1][k] != now[k]]
            total = s['heap'] + s['mmap']
            sums = {'rows': sum(a['size'] for a in rep['mem_report']), 'stacks': sum(a['size'] for a in k['mem_report']), 'total_size': rep['total_size'],
                    'timeline': t['points'][-1][1], 'text': x['total'], 'tree': e['size'],
                    'snapshot': [a for a in r.json(f'n{i}.json')['snapshots'] if a['name'] == f's{i}'][0]['total_size']}
            bad += [f'{i}: {what} is {value}, heap + mmap {total}' for what, value in sums.items() if value != total]
            accessible, resident = mapped(r.file(f'smaps{i}'))
            if total + s['image'] + s['other'] + s['unaccounted'] != accessible or not 0 <= s['unaccounted'] <= 65536:
                bad.append(f'{i}: {total} + image {s["image"]} + other {s["other"]} + unaccounted {s["unaccounted"]}, the kernel has {accessible}')
            if abs(s['rss'] - resident) > 65536:
                bad.append(f'{i}: rss {s["rss"]}, the kernel has {resident}')
            if sum(a['size'] for a in live['mem_report']) != live['total_size']:
                bad.append(f'{i}: running, rows do not add up')
            if r.json(f'd{i}.json')['mem_report']:
                bad.append(f'{i}: differs from its own snapshot: {r.json(f"d{i}.json")["mem_report"][:2]}')
        change = r.json('last.json')['total_size'] - r.json('r0.json')['total_size']
        for f in ('since', 'diff'):
            d = r.json(f + '.json')
            if d['total_size'] != change or sum(a['size'] for a in d['mem_report']) != change:
                bad.append(f'{f}: {d["total_size"]}, should be {change}')
            sizes = [a['size'] for a in d['mem_report']]
            if sizes != sorted(sizes, reverse=True) or (victim == 'wood.c' and f == 'diff' and sizes and sizes[-1] >= 0):
                bad.append(f'{f}: not the biggest growth first, or nothing negative')
        d = r.json('between.json')
        if d['total_size'] != r.json('r4.json')['total_size'] - r.json('r0.json')['total_size']:
            bad.append(f'between: {d["total_size"]}')
    except (KeyError, IndexError, ValueError) as err:
        bad.append(f'{err!r}: {r.messages[-400:]}')
    mt.check(name, bad)


def texts():
    path = mt.build('spikes.c', 'gcc')
    r = script([path, '3', '%D/ask'], 'snapshot before\nwait 20ms\nwait exit\nsnapshot\ndiff before > %D/d\ndiff before peak --by stack > %D/k\ndiff peak before --by stack --stacks -n all > %D/n\n'
               'report --since before > %D/r')
    bad = []
    if not re.search(r'^before +at .*: \d+ bytes in \d+ blocks?$', r.messages, re.M):
        bad.append(f'snapshot: {r.messages!r}')
    if not re.search(r'^\+ 50000000 \(50000000 - 0\) 1 allocs STACK#\d+$', r.file('k'), re.M) and 'spike' not in r.file('k'):
        bad.append(f'diff by stack: {r.file("k")!r}')
    if not re.search(r'^- 50000000 \(0 - 50000000\) 0 allocs STACK#\d+$', r.file('n'), re.M) or '0: spike' not in r.file('n'):
        bad.append(f'diff by stack, backwards: {r.file("n")!r}')
    for f in 'dkn':
        if not re.match(r'total_size: -?\d+\n', r.file(f)) or not re.search(r'^Total increase == -?\d+$', r.file(f), re.M):
            bad.append(f'{f}: {r.file(f)!r}')
    if not r.file('r').startswith('total_size: '):
        bad.append(f'report --since: {r.file("r")!r}')
    mt.check('differences as text', bad)


def back():
    """A minus counts back from the end; each answer is that of the same time counted from the start."""
    path = mt.build('spikes.c', 'gcc')
    gen = ("import json; end = json.load(open('%D/st'))['elapsed_ms']\n"
           "for n, ago in enumerate((50, 300, 700)):\n"
           "    for k, t in (('a', f'-{ago}ms'), ('b', f'{end - ago}ms')):\n"
           "        print(f'report --at {t} --json > %D/at{n}{k}; report --since={t} --json > %D/since{n}{k}; diff {t} --json > %D/diff{n}{k};'\n"
           "              f'timeline --from {t} --json > %D/line{n}{k}')\n")
    r = script([path, '4', '%D/ask'], f'wait exit\nstatus --json > %D/st\n! python3 -c "{gen}" > %D/gen.mt\nsource %D/gen.mt')
    bad = [] if r.rc == 0 else [r.messages]
    sizes = set()
    for n in range(3):
        for f in ('at', 'since', 'diff', 'line'):
            a, b = (r.file(f'{f}{n}{k}') for k in 'ab')
            if a != b or not a:
                bad.append(f'{f}{n}: {a[:200]!r}, from the start {b[:200]!r}')
        sizes.add(r.json(f'since{n}a')['since_ms'])
    if len(sizes) != 3:
        bad.append(f'since {sizes}')
    mt.check('times with a minus count back from the end', bad)


def plots():
    path = mt.build('spikes.c', 'gcc')
    for columns, lines, locale in ((80, 24, 'C.UTF-8'), (200, 60, 'C.UTF-8'), (80, 24, 'C'), (200, 50, 'C'), (41, 12, 'C')):
        env = dict(os.environ, COLUMNS=str(columns), LINES=str(lines), LC_ALL=locale, LANG=locale)
        r = script([path, '5', '%D/ask'],
                   'wait exit\ntimeline --plot > %D/p\ntimeline --plot --from -700ms --to -1ms > %D/q',
                   env=env)
        bad = []
        for f in 'pq':
            text = r.file(f).splitlines()
            if len(text) != lines - 4:
                bad.append(f'{len(text)} lines, not {lines - 4}')
            if max(map(len, text), default=0) > columns or not any(len(x) == columns for x in text):
                bad.append(f'{max(map(len, text), default=0)} columns, not {columns}')
            if not any('peak 47.7M at ' in x for x in text) or not any(x.lstrip().startswith('47.7M') for x in text):
                bad.append('the peak is not named')
            if locale == 'C' and not r.file(f).isascii():
                bad.append('not ASCII')
            if not re.search('█|#', r.file(f)):
                bad.append('no bars')
        mt.check(f'plot of {columns} by {lines - 4}, {locale}', bad + ([r.file('p') + r.messages] if bad else []))


def short():
    """A difference to a moment before the record is one to its beginning; a timeline from there is the whole."""
    commands = ('diff 0', 'diff -1h', 'report --since -1h', 'diff -99999999999999999999h', 'diff 0 peak', 'diff -1h peak', 'timeline', 'timeline --from -1h')
    r = script([mt.build('spikes.c', 'gcc'), '2', '%D/ask'], 'wait exit\n' + '\n'.join(f'{c} --json > %D/{i}' for i, c in enumerate(commands)) + '\necho after')
    found = [r.file(str(i)) for i in range(len(commands))] if r.rc == 0 else []
    mt.check('a difference to before the record', [] if r.messages == 'after\n' and found[1:4] == found[:1] * 3 and found[4] == found[5] and found[6] == found[7] else [f'{r.rc} {found} {r.messages}'])


def late():
    """
    Times count from when tracing began. A program that is ready later, as on a busy machine, held nothing until then: that is no time outside the record. mtrun is
    stopped for two intervals when it has begun, until one is caught before its program.
    """
    path, name = mt.build('spikes.c', 'gcc'), 'a program that began late'
    commands = 'wait exit; status --json; echo; report --at 0 --json; echo; report --since 0 --json; echo; diff 0 --json; echo; timeline --from 0 --json'
    for _ in range(50):
        p = subprocess.Popen([mt.MTRUN, '-q', '-x', commands, path, '1', '/dev/null'], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        until = time.monotonic() + 5
        while time.monotonic() < until and len(os.listdir(f'/proc/{p.pid}/task')) < 2:
            pass
        os.kill(p.pid, signal.SIGSTOP)
        until = time.monotonic() + 0.25
        while time.monotonic() < until:
            os.sched_yield()
        os.kill(p.pid, signal.SIGCONT)
        text = p.communicate(timeout=60)[1].decode()
        began = re.search(r'"recorded_ms":(\d+)', text)
        if not began or int(began[1]) < 100:
            continue
        mt.check(name, [f'{p.returncode} {text}'] if p.returncode or 'outside' in text else [])
        return
    mt.skip(name, 'mtrun was never caught before its program began')


def refused():
    path = mt.build('spikes.c', 'gcc')
    bad = []
    wrong = {
        'report --at 1h': 'outside the recording', 'report --at 2001-02-03T04:05:06': 'outside the recording', 'report --at tomorrow': 'invalid value',
        'report --at 25:00:00': 'invalid value', 'report --at -9h': 'outside the recording', 'report --at -x': 'invalid value', 'report --at 0.8 --by thread': 'cannot be combined with',
        'report --at 0.8 --all': 'cannot be combined with', 'report --since nothing': 'neither a snapshot', 'timeline --from 9h': 'outside the recording',
        'timeline --from 0.9 --to 0.8': 'later than', 'timeline --csv --plot': 'only one of', 'timeline --json --csv': 'only one of', 'timeline x': 'unexpected',
        'diff': 'missing', 'diff nothing': 'neither a snapshot', 'diff 0 0 0': 'unexpected', 'diff 0.8 --by thread': 'invalid value', 'diff 0.8 --match (': 'regular expression',
        'snapshot a b': 'unexpected', 'snapshot ""': 'not kept', 'snapshot ' + 'x' * 65: 'not kept', 'text --at x': 'invalid value', 'tree --at 1h': 'outside the recording',
        'timeline > /dev/full': 'No space left',
    }
    for command, why in wrong.items():
        spikes = '4' if ' 0.8' in command else '1'      # there is a record of that moment
        r = script([path, spikes, '%D/ask'], f'wait exit\n{command}\necho after')
        said = r.messages.splitlines()
        if r.rc != 125 or len(said) != 2 or why not in said[0] or said[1] != 'after':
            bad.append(f'{command}: rc {r.rc}, {said}')
    mt.check(f'{len(wrong)} mistakes: one line each, and the next command runs', bad)


back()
spikes()
passing()
agree('wood.c', '8', '10000')
agree('prompt.c', '8')          # threads
texts()
plots()
short()
late()
refused()
mt.finish()
