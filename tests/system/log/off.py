#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 400
"""
Recording switched off and on: answers are those of the moment when it went off, nothing is told of meanwhile, and afterwards exactly what came since is there. What there is
the victim says itself (tests/victims/switched.c): each block and mapping that it has, and in which of its epochs it was got.
"""
import json
import os
import re
import select
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
want = re.compile(sys.argv[1] if len(sys.argv) > 1 else '.')
SWITCHES = 400 if mt.SOAK else 20


class Victim:
    """At the other end of two pipes. FORKED: its child's."""
    def __init__(self, how='gcc', threads=8, more=(), plugin=None):
        self.exe = mt.build('switched.c', how, f'-DPLUGIN="{plugin}"', 'switched-plugin') if plugin else mt.build('switched.c', how)
        self.how = how
        (self.fd, self.write), (self.fd2, self.write2) = os.pipe(), os.pipe()
        self.cmd = [self.exe, str(threads), str(self.fd), str(self.fd2), *more]
        self.p, self.rest = None, b''

    def start(self, cmd=None, **kw):
        self.p = mt.popen(cmd or self.cmd, stdout=subprocess.PIPE, pass_fds=(self.fd, self.fd2), **kw)
        self.out = self.p.stdout
        os.close(self.fd)
        os.close(self.fd2)
        return self

    def line(self):
        while b'\n' not in self.rest:
            more = os.read(self.out.fileno(), 65536) if select.select([self.out], [], [], 60)[0] else b''
            if not more:
                raise RuntimeError(f'the victim says nothing: {self.p.poll()}')
            self.rest += more
        line, self.rest = self.rest.split(b'\n', 1)
        return line.decode().split()

    def tell(self, command, child=False):
        os.write(self.write2 if child else self.write, command.encode())

    def ask(self, command, child=False):
        self.tell(command, child)
        return self.line()

    def hold(self, child=False):
        """All stand still: ({address: (size, epoch)} of blocks, of mappings, how many older ones were given back)."""
        has = {'block': {}, 'map': {}}
        self.tell('h', child)
        while (word := self.line())[0] != 'lost':
            has[word[0]][int(word[1], 16)] = int(word[2]), int(word[3])
        return has['block'], has['map'], int(word[1])

    def end(self):
        """Problems that it has found itself."""
        os.close(self.write)
        os.close(self.write2)
        try:
            rest, _ = self.p.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            mt.end_group(self.p)
            return ['it does not end']
        return [f'status {self.p.returncode}: {rest[-300:]}'] if self.p.returncode else []


class Launched(mt.Attached):
    """The same with mtrun around the victim: commands one by one."""
    def __init__(self, victim, *opts, cmd=None):
        self.d = mt.tempfile.mkdtemp(dir=mt.tmp())
        self.n = 0
        os.mkfifo(f'{self.d}/script')
        self.p = victim.start([mt.MTRUN, '-q', '--messages', f'{self.d}/messages', *opts, '-X', f'{self.d}/script', '--', *(cmd or victim.cmd)]).p
        self.script = open(f'{self.d}/script', 'wb', 0)

    def ask(self, command):
        path = f'{self.d}/{self.n}'
        self.n += 1
        self.script.write(f'{command} > {path}\necho done > {path}.done\n'.encode())
        if not mt.until(lambda: os.path.exists(f'{path}.done') and os.path.getsize(f'{path}.done') or self.p.poll() is not None, 60):
            raise RuntimeError(f'{command}: no answer: {self.messages()}')
        with open(path) as f:
            return f.read()

    def messages(self):
        with open(f'{self.d}/messages') as f:
            return f.read()


def epoch(has, n):
    return {a: size for a, (size, of) in has.items() if of >= n}


def told(m):
    """(blocks, mappings) as mtrun lists them."""
    return {mt.address(b['address']): b['size'] for b in m.json('blocks -n all')['blocks']}


def exactly(m, has, since):
    """Of what the victim has everything from its epoch SINCE on, and nothing else, is known."""
    blocks, maps, lost = has
    s = m.json('status')
    new, new_maps = epoch(blocks, since), epoch(maps, since)
    have = told(m)
    bad = [f'{k} is {s[k]}, should be {v}' for k, v in
           (('heap', sum(new.values())), ('live_blocks', len(new)), ('mmap', sum(new_maps.values())), ('unknown_frees', lost), ('dropped', 0)) if s[k] != v]
    bad += [f'mtrun: {k} {s["mtrun"][k]}' for k in ('missing', 'bad_events') if s['mtrun'][k]]
    expected = {**new, **new_maps} if set(have) & set(new_maps) else new
    if have != expected:
        bad.append(f'blocks: {len(set(have) - set(expected))} too many, {len(set(expected) - set(have))} missing')
    total = m.json('report --all')['total_size']
    if total != s['heap'] + s['mmap'] or m.json('timeline')['points'][-1][1] != total:
        bad.append(f'report {total}, timeline {m.json("timeline")["points"][-1]}, status {s["heap"] + s["mmap"]}')
    return bad


def frozen(m, s, report):
    """Answers are as S and REPORT (`status --json`, `report`'s rows) were, and say so."""
    now = m.json('status')
    keys = ('heap', 'mmap', 'live_blocks', 'allocs', 'frees', 'maps', 'peak', 'peak_ms', 'total_allocated', 'unknown_frees')
    bad = [f'{k} was {s[k]}, is {now[k]}' for k in keys if now[k] != s[k]]
    again = m.json('report --all')
    if again['mem_report'] != report['mem_report']:
        bad.append('the report is another')
    if now['mode'] != 'off' or now['off_since_ms'] is None or again.get('off_since_ms') != now['off_since_ms'] or again['time_ms'] != now['off_since_ms']:
        bad.append(f'mode {now["mode"]}, off since {now["off_since_ms"]}, report {again.get("off_since_ms")} {again["time_ms"]}')
    hint = r': nothing is recorded \(`record mem-fast` does\)' if now['state'] in ('running', 'stopped') else r'(?!:)'
    for command in ('report', 'text', 'tree', 'status', 'record', 'timeline --table', 'blocks -n 1'):
        if len(re.findall(r'off since [\d.]+ m?s' + hint, m.ask(command))) != 1:
            bad.append(f'{command}: {m.ask(command)[-200:]}')
    return bad


def begin(how, threads, attach, opts=(), more=()):
    v = Victim(how, threads, more)
    if not v.exe:
        return None, None
    if attach:
        v.start()
        v.line()
        return v, mt.Attached(v.p.pid, *opts)
    m = Launched(v, *opts)
    v.line()
    return v, m


def leave(v, m):
    bad = m.leave() if type(m) is mt.Attached else []
    if type(m) is Launched:
        m.script.close()
    bad += v.end()
    return bad + ([f'messages: {m.messages()[-1500:]}'] if type(m) is Launched and m.messages() else [])


def calm(name, how, threads, attach):
    """Switched while it stands still: then each byte is certain."""
    v, m = begin(how, threads, attach)
    if not v:
        mt.skip(name, mt.build_reason('switched.c', how))
        return
    try:
        bad = []
        for i in range(3 if mt.SOAK else 2):
            v.ask('g')
            time.sleep(0.1)
            v.hold()
            s, report = m.json('status'), m.json('report --all')
            m.ask('record off')
            bad += [f'{i}: off: {x}' for x in frozen(m, s, report)]
            v.ask('g')
            time.sleep(0.1)
            v.hold()
            bad += [f'{i}: still off: {x}' for x in frozen(m, s, report)]
            if m.json('status')['events'] != s['events']:
                bad.append(f'{i}: events came while it was off')
            n = int(v.ask('e')[1])
            m.ask('record mem' if i == 1 else 'record mem-fast')
            bad += [f'{i}: on: {x}' for x in exactly(m, v.hold(), n)]
            v.ask('g')
            time.sleep(0.2)
            bad += [f'{i}: on, later: {x}' for x in exactly(m, v.hold(), n)]
            s = m.json('status')
            if not s['allocs'] or s['recorded_ms'] <= 0 or s['off_since_ms'] is not None:
                bad.append(f'{i}: {s["allocs"]} allocations, recorded from {s["recorded_ms"]}, off since {s["off_since_ms"]}')
        bad += leave(v, m)
    except (RuntimeError, ValueError) as e:
        bad = [f'{type(e).__name__}: {e}']
        mt.end_group(v.p)
    mt.check(name, bad)


def rough(name, how, switches, opts=(), more=('fork',), attach=False):
    """Switched in the middle of everything. Then what mtrun knows is all there, and all that came since the last time is known."""
    v, m = begin(how, 8, attach, opts, more)
    if not v:
        mt.skip(name, mt.build_reason('switched.c', how))
        return
    try:
        bad, sample = [], '-s' in opts
        for i in range(switches):
            m.ask('record off')
            m.ask('record mem-fast')
            if i % 10 < 9 and i != switches - 1:
                continue
            n = int(v.ask('e')[1])
            time.sleep(0.1)
            blocks, maps, _ = v.hold()
            have = told(m)
            extra = [f'{a:#x}' for a, size in have.items() if a not in maps and blocks.get(a, (0, 0))[0] != size]
            missing = [f'{a:#x}' for a in epoch(blocks, n) if a not in have]
            s = m.json('status')
            if extra or (missing and not sample):
                bad.append(f'{i}: of {len(have)} {len(extra)} are not there ({extra[:3]}), {len(missing)} of {len(epoch(blocks, n))} are not known')
            bad += [f'{i}: {k} {v}' for k, v in (('dropped', s['dropped']), ('bad', s['mtrun']['bad_events']), ('missing', s['mtrun']['missing'])) if v]
            if not s['allocs']:
                bad.append(f'{i}: nothing is recorded')
            v.ask('g')
        bad += leave(v, m)
    except (RuntimeError, ValueError) as e:
        bad = [f'{type(e).__name__}: {e}']
        mt.end_group(v.p)
    mt.check(name, bad)


if want.search('calm'):
    calm('calm: eight threads', 'gcc', 8, False)
    calm('calm: one thread, attached', 'gcc', 1, True)
    calm('calm: eight threads, attached', 'gcc', 8, True)
    for build in ('musl', 'musl-static', 'jemalloc') + (('static', 'clang') if mt.SOAK else ()):
        calm(f'calm: {build}', build, 4, False)
    calm('calm: static, attached', 'static', 4, True)

if want.search('rough'):
    rough(f'rough: {SWITCHES} times, 8 threads, forks, execs', 'gcc', SWITCHES)
    rough('rough: attached', 'gcc', SWITCHES // 4, attach=True)
    rough('rough: static', 'static', SWITCHES // 5)
    rough('rough: musl', 'musl', SWITCHES // 5)
    rough('rough: jemalloc', 'jemalloc', SWITCHES // 5)
    rough('rough: sampling', 'gcc', SWITCHES // 4, ('-s', '2K'))


def from_the_start():
    """-m off, and recorded later: nothing of before is known."""
    v = Victim(threads=0)
    m = Launched(v, '-m', 'off')
    try:
        v.line()
        v.ask('g')
        s = m.json('status')
        bad = [f'{k}: {s[k]}' for k in ('heap', 'allocs', 'events') if s[k]] + ([] if s['mode'] == 'off' else [s['mode']])
        has = v.hold()
        n = int(v.ask('e')[1])
        m.ask('record mem-fast')
        bad += exactly(m, has, n)
        v.ask('g')
        bad += exactly(m, v.hold(), n)
        bad += leave(v, m)
    except (RuntimeError, ValueError) as e:
        bad = [f'{type(e).__name__}: {e}']
        mt.end_group(v.p)
    mt.check('-m off: nothing is recorded until it is told to', bad)


def before():
    """How much there is when recording begins is told beside the numbers, as the victim's own mallinfo2() says."""
    bad = []
    v = mt.Heap(mt.build('heap.c'), 4, 30000, 900, 3)
    m = mt.Attached(v.pid)
    for i in range(2):
        m.ask('record off')
        truth = v.do('new 5000 700')
        m.ask('record mem-fast')
        s, rows = m.json('status'), m.json('report')['mem_report']
        row = [r['size'] for r in rows if r['function'] == '[before attach]']
        if abs((s['before_attach'] or 0) - truth) > truth / 100 or row != [s['before_attach']] or s['heap']:
            bad.append(f'{i}: before {s["before_attach"]}, row {row}, heap {s["heap"]}, it has {truth}')
        v.do('new 10 1000')
        if m.json('status')['heap'] != 10000 or 'before recording began' not in m.ask('status'):
            bad.append(f'{i}: {m.ask("status")}')
    bad += m.leave()
    mt.check('what there is when recording begins again', bad + ([f'{v.p.returncode}'] if v.end() else []))


def children():
    """A fork while it is off, a fork before that, and an exec: each a process that is switched as the others."""
    v = Victim(threads=0)
    m = Launched(v)
    try:
        v.line()
        v.ask('g')
        m.ask('record off')
        child = int(v.ask('f')[1])
        v.ask('g')
        v.ask('g', True)
        n = int(v.ask('e')[1])
        v.ask('e', True)
        m.ask('record mem-fast')
        v.ask('g', True)
        m.ask(f'process {child}')
        bad = [f'child: {x}' for x in exactly(m, v.hold(True), n)]
        s = m.json('status')
        if s['pid'] != child or not s['allocs'] or not s['before_attach']:
            bad.append(f'child: {s["pid"]} {s["allocs"]} {s["before_attach"]}')
        parent = [p['pid'] for p in s['processes'] if p['pid'] != child][-1]
        m.ask(f'process {parent}')
        bad += [f'parent: {x}' for x in exactly(m, v.hold(), n)]
        m.ask('record off')
        v.ask('x')                              # another image while it is off
        s = m.json('status')
        if s['allocs'] or s['heap']:
            bad.append(f'exec: {s["allocs"]} allocations while it was off')
        v.ask('g')
        n = int(v.ask('e')[1])
        m.ask('record mem-fast')
        v.ask('g')
        bad += [f'exec: {x}' for x in exactly(m, v.hold(), n)]
        bad += leave(v, m)
    except (RuntimeError, ValueError) as e:
        bad = [f'{type(e).__name__}: {e}']
        mt.end_group(v.p)
    mt.check('children and images that come while it is off', bad)


def told_all_the_same():
    """What mtrun has to know at any time it hears of also while it is off: a library that is loaded then, a seccomp filter."""
    v = Victim(threads=0, plugin=mt.build('lib/plain_plugin.c', extra='-shared -fPIC', name='plain_plugin.so'))
    m = Launched(v, '-m', 'off')
    try:
        v.line()
        v.ask('d')
        v.ask('g')
        v.ask('j')
        v.ask('g')
        n = int(v.ask('e')[1])
        m.ask('record mem-fast')
        v.ask('g')
        bad = exactly(m, v.hold(), n)
        v.ask('p')
        rows = {r['function']: r for r in m.json('report')['mem_report']}
        made = rows.get('plugin_make', {})
        if (made.get('size'), made.get('count')) != (33000, 1000) or 'plain_plugin' not in (made.get('file') or ''):
            bad.append(f'the library: {made or list(rows)}')
        m.ask('record off')
        v.ask('g')
        bad += leave(v, m)
    except (RuntimeError, ValueError) as e:
        bad = [f'{type(e).__name__}: {e}']
        mt.end_group(v.p)
    mt.check('a library loaded, and a jail entered, while it is off', bad)


def logged():
    """From off to a mode with a log: what is opened later is what was live then, and begins where the record did."""
    v = Victim(threads=0)
    logs = f'{mt.tmp()}/logs'
    os.mkdir(logs)
    m = Launched(v, '--log-dir', logs, '-m', 'log')
    asked = ('timeline --json', 'report --at peak --json')
    try:
        v.line()
        v.ask('g')
        m.ask('record off')
        v.ask('g')
        m.ask('log off')                        # which it is
        bad = [] if 'off since' in m.ask('record') else ['`log off` ended off']
        n = int(v.ask('e')[1])
        m.ask('record log-fast')
        v.ask('g')
        bad += exactly(m, v.hold(), n)
        m.ask('stop')
        live = [json.loads(m.ask(x)) for x in asked]
        m.ask('cont')
        bad += leave(v, m)
        (timeline, peak), again = live, []
        for x in asked:
            r = mt.plain([mt.MTRUN, '-r', logs, '-x', x])
            again.append(json.loads(r.out) if r.rc == 0 else {})
            bad += [f'{x}: {r.err[-300:]}'] if r.rc else []
        points, was = again[0].get('points', [[None]]), timeline['points'][:-1]
        if points[0] != was[0] or points[:len(was)] != was:
            bad.append(f'timeline: {points[:3]} was {was[:3]}')
        if again[1].get('mem_report') != peak['mem_report']:
            bad.append(f'at the peak: {again[1].get("total_size")} was {peak["total_size"]}')
    except (RuntimeError, ValueError) as e:
        bad = [f'{type(e).__name__}: {e}']
        mt.end_group(v.p)
    mt.check('a log that begins when it is on again', bad)


def ends():
    """Its end while it is off: the answers stay, and the summary says of when they are."""
    v = Victim(threads=0)
    m = Launched(v)
    v.line()
    v.ask('g')
    s, report = m.json('status'), m.json('report --all')
    m.ask('record off')
    v.ask('g')
    m.script.write(b'wait exit\n')
    os.close(v.write)
    bad = frozen(m, s, report)
    m.ask('record mem-fast')
    bad += [] if m.json('status')['heap'] == s['heap'] else ['what has ended began anew']
    os.close(v.write2)
    m.script.close()
    bad += [] if v.p.wait(30) == 0 else [f'status {v.p.returncode}']
    v.out.close()
    r = mt.plain([mt.MTRUN, '-S', '-x', 'record off; cont; wait exit', mt.build('steps.c')])
    bad += [] if b'off since' in r.err else [f'summary: {r.err[-300:]}']
    mt.check('its end while it is off', bad)


def killed():
    """mtrun is killed while it is off: the program goes on, also at its next fork; another mtrun gets into it."""
    v, m = begin('gcc', 4, False, more=('fork',))
    m.ask('record off')
    pid = mt.children_of(m.p.pid)[0]
    m.p.kill()
    m.p.wait()
    bad = []
    for _ in range(3):
        v.hold()
        v.ask('g')
    a = mt.Attached(pid)
    n = int(v.ask('e')[1])
    v.hold()
    v.ask('g')
    s = mt.until(lambda: (a.json('status') if a.json('status')['allocs'] > 100 else None))
    bad += [] if s else ['the second mtrun records nothing']
    bad += a.leave()
    os.close(v.write)
    os.close(v.write2)
    v.out.read()
    mt.check('mtrun is killed while it is off', bad + ([] if mt.until(lambda: not mt.exe(pid), 10) else ['it does not end']))


def refusals():
    limit = 'a limit needs every allocation'
    bad = []
    for opts in (['-m', 'off', '-l', '1M'], ['-l', '1M', '--mode=off']):
        r = mt.plain([mt.MTRUN, *opts, 'true'])
        if r.rc != 125 or limit.encode() not in r.err or r.err.count(b'\n') != 1:
            bad.append(f'{opts}: {r.rc} {r.err}')
    r = mt.plain([mt.MTRUN, '-m', 'off', 'true'], env={**os.environ, 'MT_MEMORY_LIMIT': '1000000'})
    if r.rc != 125 or b'MT_MEMORY_LIMIT' not in r.err:
        bad.append(f'MT_MEMORY_LIMIT: {r.rc} {r.err}')
    for script, what in (('record off; limit 1M', b'limit: ' + limit.encode()), ('limit 1M; record off', b'record: ' + limit.encode()), ('record of', b"'of'"),
                         ('record off; report --usable; snapshot a; record mem; diff a', b'began anew')):
        r = mt.plain([mt.MTRUN, '-q', '-x', script + '; kill', mt.build('steps.c'), 'wait'])
        if r.rc != 125 or what not in r.err:
            bad.append(f'{script}: {r.rc} {r.err[-300:]}')
    mt.check('what does not go together', bad)


for one in (from_the_start, before, children, told_all_the_same, logged, ends, killed, refusals):
    if want.search(one.__name__):
        one()
mt.finish()
