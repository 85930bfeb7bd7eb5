#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# waits
# timeout: 600
"""
replay.py - what mtrun -r says of a log is what the live process said, byte by byte: every interval, by site and by stack, the peak, differences, text, tree,
exports; of a victim with books of its own, sqlite3, python3, redis-server and a tree of processes; of all files and of each alone; and what is left of a log
that was cut or damaged, or whose mtrun was killed.
"""
import filecmp
import glob
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
VICTIM = mt.build('logs.c', extra='-fno-optimize-sibling-calls') or sys.exit(mt.build_reason('logs.c', 'gcc'))
REDIS_PORT = 17400 + os.getpid() % 1000
DELAY_MS = 1000 if mt.SOAK else 200
MOMENTS = 400 if mt.SOAK else 8         # intervals that are compared, of each process
SQL = ("create table t(a,b); with recursive c(i) as (select 1 union all select i+1 from c where i<300000) insert into t select i, hex(i*7) from c;"
       "create index x on t(b); select count(*) from t where b like '%3%'; drop table t; select 1")
PYTHON = ("import json, time\nd = [{'a': i, 'b': str(i) * (i % 7)} for i in range(20000)]\nt = json.dumps(d)\ntime.sleep(0.35)\ndel d\n"
          "e = json.loads(t)\ntime.sleep(0.25)\n")


def files(d):
    return sorted(glob.glob(f'{d}/memlog*.mtlog'), key=lambda f: int(f.rsplit('-', 1)[1][:-6]))


FORMATS = ('folded', 'csv', 'json', 'speedscope', 'massif', 'heaptrack', 'dhat', 'flamegraph', 'jemalloc', 'html')


def recorded(text):
    """A page without what only a process that lives has, its resident memory, leaks, blocks by size and thread, or only a log: how long blocks lived."""
    m = re.search(r'(<script type="application/json" id="data">\n)(.*?)(</script>)', text, re.S)
    if not m:
        return text
    data = json.loads(m[2])
    for name in ('residency', 'leaks', 'sizes', 'threads', 'lived_of', 'lived'):
        data.pop(name, None)
    return text[:m.start(2)] + json.dumps(data) + text[m.end(2):]


def same(a, b):
    """
    But for the inode numbers among the mappings of jemalloc's format, which nobody needs, the order of processes that began in one millisecond, and how large
    the errors of estimates are, as a log has sums alone.
    """
    if filecmp.cmp(a, b, shallow=False):
        return True
    with open(a) as f, open(b) as g:
        x, y = (recorded(re.sub(r'(error":)\d+', r'\1N', re.sub(r' 00:00 \d+ /', ' /', t.read()))) for t in (f, g))
    return x == y or (x.startswith('{"processes"') and sorted(x.replace(']}', ',').split()) == sorted(y.replace(']}', ',').split()))


class Live:
    """mtrun over a program, with commands by a pipe; what they print goes into files of DIR/live."""
    def __init__(self, cmd, *opts):
        self.dir = mt.tempfile.mkdtemp(dir=mt.tmp())
        self.out = os.path.join(self.dir, 'live')
        os.mkdir(self.out)
        self.err = open(os.path.join(self.dir, 'err'), 'w+')
        self.p = mt.popen([mt.MTRUN, '-q', '-m', 'log-fast', '--log-dir', self.dir, *opts, '-X', '-', '--messages', os.path.join(self.dir, 'said'), '--', *cmd],
                          stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=self.err)
        self.asked = []

    def do(self, command):
        """It is done when this returns."""
        mark = os.path.join(self.dir, 'done')
        self.p.stdin.write(f'{command}\necho > {mark}\n'.encode())
        self.p.stdin.flush()
        done = mt.until(lambda: os.path.exists(mark) or self.p.poll() is not None, 60 * mt.SLOW)
        if not done or self.p.poll() is not None:
            raise ValueError(f'{command}: no answer')
        os.unlink(mark)

    def ask(self, command):
        """The file with its answer."""
        path = os.path.join(self.out, str(len(self.asked)))
        self.asked.append(command)
        self.do(f'{command} > {path}'.replace('@', path))
        return path

    def json(self, command):
        with open(self.ask(command), 'rb') as f:
            return json.load(f)

    def end(self):
        self.p.communicate(b'quit\n', timeout=mt.TIMEOUT)


def questions(live, formats=FORMATS):
    """All that is compared of the chosen process."""
    line = live.json('timeline --json')
    first, last = line['points'][0][0], line['points'][-1][0]
    moments = list(range(first, last + 100, 100))
    if len(moments) > MOMENTS:
        moments = sorted(random.Random(1).sample(moments, MOMENTS))
    points = dict(line['points'])
    for ms in moments:
        total = live.json(f'report --at {ms}ms --json')['total_size']
        if total != points[ms]:
            raise ValueError(f'at {ms} ms {total} bytes, the timeline says {points[ms]}')
        live.ask(f'report --by stack --at {ms}ms --json')
    for command in ('report --json', 'report --by stack --all --json', 'report --at peak --by stack --json', 'report --stacks -n 5', 'text', 'tree', 'timeline --csv',
                    f'report --since {moments[len(moments) // 2]}ms --json', f'diff {moments[len(moments) // 3]}ms {moments[-1]}ms --json', 'diff peak --by file --json'):
        live.ask(command)
    for name in formats:
        live.ask(f'export {name} @')            # over what the command says, which is nothing
    live.ask('export folded @ --at peak')
    live.ask(f'export csv @ --since {moments[len(moments) // 2]}ms')
    live.ask("set site-skip '^[a-m]'")
    live.ask('report --json')
    live.ask("report --json --match '[aeiou]'")
    live.ask("set site-skip ''")
    return line


def compare(bad, live, what='', pick=lambda command: True, before='', opts=()):
    """The same questions to the log."""
    out = os.path.join(live.dir, 'log')
    shutil.rmtree(out, ignore_errors=True)
    os.mkdir(out)
    script = os.path.join(live.dir, 'script')
    with open(script, 'w') as f:
        f.write(before)
        for i, command in enumerate(live.asked):
            if command.startswith(('process ', 'set ')):
                f.write(command + '\n')
            elif pick(command):
                f.write(f'{command} > {out}/{i}\n'.replace('@', f'{out}/{i}'))
    r = mt.plain([mt.MTRUN, '-q', *(opts or ('-r', live.dir)), '-X', script], timeout=mt.TIMEOUT * 2)
    if r.rc or r.err:
        bad.append(f'{what}: status {r.rc}, {r.err.decode()[-500:]}')
    different = [i for i in range(len(live.asked)) if os.path.exists(f'{out}/{i}') and not same(f'{out}/{i}', f'{live.out}/{i}')]
    if different:
        i = different[0]
        bad.append(f'{what}: {len(different)} of {len(os.listdir(out))} answers differ, the first is `{live.asked[i]}`: {open(f"{out}/{i}").read()[:300]} and live '
                   f'{open(f"{live.out}/{i}").read()[:300]}')


def one_program(cmd, work=None, opts=(), formats=FORMATS):
    bad = []
    live = Live(cmd, *opts)
    if work:
        work(live)
    live.do('wait exit')
    line = questions(live, formats)
    live.end()
    if len(line['points']) < 3 or line['coarse_until_ms']:
        bad.append(f'timeline: {line}')
    compare(bad, live)
    return bad


def sqlite():
    return one_program(['sqlite3', ':memory:', SQL]) if shutil.which('sqlite3') else None


def python():
    return one_program(['python3', '-c', PYTHON])


def sampled():
    return one_program(['python3', '-c', PYTHON], opts=('-s', '2000'))


def redis():
    if not shutil.which('redis-server') or not shutil.which('redis-benchmark'):
        return None

    def work(live):
        mt.until(lambda: subprocess.run(['redis-cli', '-p', str(REDIS_PORT), 'ping'], capture_output=True).stdout == b'PONG\n', 20)
        subprocess.run(['redis-benchmark', '-p', str(REDIS_PORT), '-q', '-n', '2000', '-c', '10', '-r', '500', '-t', 'set,lpush,hset,lpop'], capture_output=True,
                       timeout=mt.TIMEOUT)
        # not waited for: it waits for the end of its connection, and the server is held at its last instant until all is asked
        subprocess.Popen(['redis-cli', '-p', str(REDIS_PORT), 'shutdown', 'nosave'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return one_program(['redis-server', '--port', str(REDIS_PORT), '--save', '', '--appendonly', 'no', '--dir', mt.tmp()], work,
                       formats=('folded', 'csv', 'speedscope', 'flamegraph', 'jemalloc'))       # it writes over its arguments, which others say


def tree():
    """Processes that run at the same time, and some that became others."""
    bad = []
    live = Live(['sh', '-c', f'python3 -c "{PYTHON}" & sh -c "printf \'r 20000\\nc 2\\nx 3\\n\' | {VICTIM} >/dev/null; exec python3 -c 1"; wait; echo done'])
    live.do('wait exit')
    pids = [p['pid'] for p in live.json('processes --json')['processes'] if p['state'] != 'replaced']
    live.ask('processes')
    for pid in dict.fromkeys(pids):
        live.ask(f'process {pid}')
        questions(live)
    live.end()
    if len(pids) < 6:
        bad.append(f'processes {pids}')
    compare(bad, live)
    return bad


# ---- a victim with books --------------------------------------------------------------------------------------------------------------------

def feed(lines):
    """A command that gives LINES to the victim, slowly enough for some intervals; its books go to a file."""
    books = os.path.join(mt.tempfile.mkdtemp(dir=mt.tmp()), 'books')
    return ['sh', '-c', '(' + ''.join(f"echo '{line}'; sleep 0.12; " for line in lines) + f') | {VICTIM} > {books}'], books


def ask(d, *commands, opts=()):
    return mt.plain([mt.MTRUN, '-q', *opts, '-r', *([d] if isinstance(d, str) else d), '-x', '; '.join(commands)])


def answers(r, n):
    """The first N JSON answers among what it printed."""
    text, found = r.out.decode(), []
    while len(found) < n and '{' in text:
        answer, end = json.JSONDecoder().raw_decode(text[text.index('{'):])
        found.append(answer)
        text = text[text.index('{') + end:]
    if len(found) < n:
        raise ValueError(f'{r.rc} {r.out} {r.err}')
    return found


def books():
    """Peak and end of the log are what the victim says that they are; nothing live is asked."""
    bad = []
    d = mt.tempfile.mkdtemp(dir=mt.tmp())
    lines = ['r 3000'] * 8 + ['x 0']
    p = mt.popen([mt.MTRUN, '-q', '-m', 'log', '--log-dir', d, '--', VICTIM], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    said = []
    for line in lines[:-1]:
        p.stdin.write((line + '\n').encode())
        p.stdin.flush()
        said.append([int(n) for n in p.stdout.readline().split()])
        mt.let_time_pass(p.pid, 250)
    p.communicate(b'x 0\n', timeout=mt.TIMEOUT)
    r = ask(d, 'status --json')
    status = json.loads(r.out)
    bad += mt.status_lacks(status)
    if any(status[k] is not None for k in ('rss', 'threads', 'limit', 'usable', 'dropped')):
        bad.append(f'{status}: no log tells that')
    told = [status['heap'], status['live_blocks'], status['total_allocated'], status['allocs']]
    if told != said[-1] or status['exit_status'] or status['state'] != 'exited':
        bad.append(f'status says {told}, the program {said[-1]}: {r.out} {r.err}')
    seen = json.loads(ask(d, 'timeline --json').out)['points']
    values = [b for _, b in seen]
    if any(s[0] not in values for s in said[:-1]):
        bad.append(f'the program had {[s[0] for s in said]}, while it waited, and the timeline says {seen}')
    return bad


def rotated():
    """Of what is left after rotation, all files and each alone say what the live process said of their times."""
    bad = []
    cmd, _ = feed(['r 25000'] * 24 + ['x 0'])
    live = Live(cmd, '--log-size', '128K', '--log-files', '4')
    live.do('wait exit')
    pid = [p['pid'] for p in live.json('processes --json')['processes'] if p['command'] == 'logs'][0]
    live.asked.clear()
    live.ask(f'process {pid}')
    line = questions(live)
    live.end()
    found = files(live.dir)
    if len(found) < 4 or files(live.dir)[0].endswith('-1.mtlog'):
        bad.append(f'files: {found}')
    for paths in [found] + [[f] for f in found]:
        r = ask(paths, 'processes --json', f'process {pid}', 'timeline --json', 'status --json')
        there, line_there, status = answers(r, 3)
        if pid not in [p['pid'] for p in there['processes']] and paths == found[-1:]:
            continue            # it had ended before
        points = line_there['points']
        first, last = points[0][0], points[-1][0]
        if paths[-1] != found[-1]:          # the next one has the rest of that interval, and events that were on their way
            last = status['elapsed_ms'] // 100 * 100 - 300
        said = [p for p in line['points'] if first <= p[0] <= last]
        if [p for p in points if p[0] <= last] != said or (not said and paths == found):
            bad.append(f'{paths}: {points} up to {last}, and live {said}')
        compare(bad, live, str(paths), lambda c: ' --at ' in c and 'peak' not in c and first <= int(re.search(r'--at (\d+)ms', c).group(1)) <= last,
                opts=('-r', *paths))
    # One in between is gone.
    if len(found) >= 4:
        r = ask([found[0], found[2]], 'status')
        if r.rc != 125 or b'is missing' not in r.err or r.err.count(b'\n') != 1:
            bad.append(f'a gap: {r.rc} {r.err}')
        os.unlink(found[-3])
        r = mt.plain([mt.MTRUN, '-r', live.dir, '-x', 'open'])
        if r.rc or r.err.count(b'Parse ') != 2 or b' is not there: what was before file ' not in r.err:
            bad.append(f'a gap in the directory: {r.rc} {r.err}')
    return bad


def texts():
    bad = []
    d = mt.tempfile.mkdtemp(dir=mt.tmp())
    mt.plain([mt.MTRUN, '-q', '-m', 'log-fast', '--log-dir', d, VICTIM], input=b'r 5000\nx 0\n')
    path = files(d)[0]
    said = re.compile(rf'Parse {re.escape(path)} complete\nProcess complete, profiler contains record for \d+ ms, start from \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d\n')
    r = mt.plain([mt.MTRUN, '-r', d, '-x', 'report --json'])
    if r.rc or not said.fullmatch(r.err.decode()) or json.loads(r.out)['total_size'] <= 0:
        bad.append(f'-r: {r.rc} {r.out} {r.err}')
    r = mt.plain([mt.MTRUN, '-r', path, '-x', f'parse 2; open {path}; open'])
    lines = r.out.decode()
    if r.rc or not said.match(lines) or len(said.findall(lines)) != 2 or not re.search(r'\* memlog\d+_[0-9a-f]+ .* in 1 file, 1 to 1\n\Z', lines):
        bad.append(f'open, parse: {r.rc} {r.out} {r.err}')
    for command in ('blocks', 'trace 0x1000', 'x 0x1000', 'bt', 'limit', 'stop', 'top', 'record', 'report --by thread', 'report --by size', 'report --min-age 1', 'log',
                    'report --at 1000000', 'report --at 25:00', 'open /nonexistent', f'open {VICTIM}', 'parse 0', 'parse x', 'parse 1 2'):
        r = ask(d, command)
        if r.rc != 125 or r.out or r.err.count(b'\n') != 1:
            bad.append(f'{command}: {r.rc} {r.out} {r.err}')
    empty = mt.tempfile.mkdtemp(dir=mt.tmp())
    for paths in ([empty], [d, '/nonexistent'], [VICTIM], [path, VICTIM]):
        r = ask(paths, 'status')
        if r.rc != 125 or r.out or r.err.count(b'\n') != 1:
            bad.append(f'{paths}: {r.rc} {r.out} {r.err}')
    for words in ([d, '--', d], [path, '--', path], [path, '--']):       # behind -- there is no program either
        r = mt.plain([mt.MTRUN, '-q', '-x', 'status --json', '-r', *words], timeout=20)
        if r.rc or r.err or json.loads(r.out)['log_files'] != [path]:
            bad.append(f'{words}: {r.rc} {r.err}')
    r = mt.plain([mt.MTRUN, '-q', '-x', 'open .; parse', '--', 'true'])
    if r.rc != 125 or r.err.count(b'\n') != 2:
        bad.append(f'with a program: {r.rc} {r.err}')
    mt.plain([mt.MTRUN, '-q', '-m', 'log-fast', '--log-dir', d, VICTIM], input=b'r 500\nx 0\n')
    r = ask(d, 'open', 'status --json')
    newest = [f for f in files(d) if f != path][0]
    if r.rc or r.out.count(b'\n*') + r.out.startswith(b'*') != 1 or answers(r, 1)[0]['log_files'] != [newest]:
        bad.append(f'the newest of two: {r.rc} {r.out} {r.err}')
    r = ask(files(d), 'status')
    if r.rc != 125 or b'2 runs' not in r.err:
        bad.append(f'files of two runs: {r.rc} {r.err}')
    return bad


# ---- logs that are not whole ------------------------------------------------------------------------------------------------------------------

def killed():
    """mtrun is killed: what had been written is there, up to the last whole block."""
    bad = []
    d = mt.tempfile.mkdtemp(dir=mt.tmp())
    victim = mt.popen([VICTIM], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    m = mt.popen([mt.MTRUN, '-q', '-m', 'log-fast', '--log-dir', d, '-x', 'wait exit', '-p', str(victim.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    mt.until(lambda: files(d), 20)
    said = []
    for _ in range(6):
        victim.stdin.write(b'r 200000\n')
        victim.stdin.flush()
        said.append([int(n) for n in victim.stdout.readline().split()])
        time.sleep(0.3)
    m.kill()
    m.wait()
    victim.communicate(b'x 0\n', timeout=mt.TIMEOUT)
    r = ask(d, 'parse 1; status --json; report --json; timeline --json')
    status = answers(r, 1)[0]
    if r.rc or b'up to its last' not in r.err or status['state'] != 'detached':
        bad.append(f'{r.rc} {r.err} {status}')
    if not 0 < status['allocs'] <= said[-1][3] or status['total_allocated'] > said[-1][2]:
        bad.append(f'{status}, and the program {said}')
    return bad


def without_index():
    """A log whose events must all be read when it is opened, as its index is not there."""
    d = mt.tempfile.mkdtemp(dir=mt.tmp())
    mt.plain([mt.MTRUN, '-q', '-m', 'log-fast', '--log-dir', d, VICTIM], input=b'r 5000000\nx 0\n')
    path = files(d)[0]
    os.truncate(path, os.path.getsize(path) - 8)
    return path


def has_it_open(pid, path):
    try:
        return path in [os.readlink(f'/proc/{pid}/fd/{n}') for n in os.listdir(f'/proc/{pid}/fd')]
    except OSError:
        return False


def interrupted():
    """A signal while a log is being opened: mtrun ends, says so in a line, and has answered nothing."""
    bad = []
    path = without_index()
    for sig in (signal.SIGINT, signal.SIGTERM):
        for _ in range(5):      # it may come when everything is read already; not each time
            p = mt.popen([mt.MTRUN, '-q', '-x', 'status', '-r', path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            while not has_it_open(p.pid, path) and p.poll() is None:
                pass
            p.send_signal(sig)
            out, err = p.communicate(timeout=mt.TIMEOUT)
            if p.returncode:
                break
        if (p.returncode, out) != (125, b'') or not re.fullmatch(rb'mtrun: interrupted while the log was being opened\n', err):
            bad.append(f'{sig.name}: {p.returncode} {out} {err}')
    return bad


def interrupted_at_first():
    """
    SIGINT after each of the calls by which mtrun says how it takes signals, should they be delayed:
    it is not lost; and when the log is open, mtrun ends as it says, not by the signal.
    """
    if not shutil.which('strace'):
        return None
    bad = []
    path, d = without_index(), mt.tempfile.mkdtemp(dir=mt.tmp())
    traced = ['strace', '-qq', '-e', 'trace=rt_sigaction,rt_sigprocmask', '-o', f'{d}/calls']
    asked = [mt.MTRUN, '-q', '-x', 'status', '-r', path]
    mt.plain([*traced, *asked])
    with open(f'{d}/calls') as f:
        lines = f.read().splitlines()
    calls = [l.split('(')[0] for l in lines]
    # the last one is when all has been said
    for n in [i + 1 for i, l in enumerate(lines[:-1]) if not re.match(r'rt_sig\w+\(\w+, NULL', l)]:
        call = calls[n - 1]
        delay = f'inject={call}:delay_exit={DELAY_MS * 1000}:when={calls[:n].count(call)}'
        p = mt.popen([*traced[:-1], f'{d}/now', '-e', delay, *asked], stdout=subprocess.PIPE,
                     stderr=subprocess.PIPE)
        mt.until(lambda: os.path.exists(f'{d}/now') and open(f'{d}/now').read().count('\n') >= n - 1)
        time.sleep(DELAY_MS / 4000)
        with open(f'/proc/{p.pid}/task/{p.pid}/children') as f:
            tracee = int((f.read().split() or [0])[0])
        begun = bool(tracee) and has_it_open(tracee, path)
        if tracee:
            os.kill(tracee, signal.SIGINT)
        out, err = p.communicate(timeout=mt.TIMEOUT)
        os.unlink(f'{d}/now')
        said = err == b'mtrun: interrupted while the log was being opened\n'
        # what it says once the log, which has no index, is open
        opened = re.fullmatch(rb"mtrun: '[^\n]+' is cut off or damaged: it is open up to [^\n]+\n", err)
        # the thread that is delayed is the one that reads signals: the answer may come first
        ended = p.returncode == 125 and (said or out or opened) or p.returncode == 0 and out and begun
        if tracee and not (ended or not begun and (p.returncode, out, err) == (-2, b'', b'')):
            bad.append(f'{n}: {call}: {begun} {p.returncode} {out[:80]} {err}')
    return bad


def cut_and_damaged():
    """Wherever it is cut, and whatever bit is another: there is an answer, or one line; what is there still is as before."""
    bad = []
    d = mt.tempfile.mkdtemp(dir=mt.tmp())
    mt.plain([mt.MTRUN, '-q', '-m', 'log-fast', '--log-dir', d, VICTIM], input=b'r 20\nx 0\n')
    path = files(d)[0]
    with open(path, 'rb') as f:
        data = f.read()
    other = os.path.join(mt.tempfile.mkdtemp(dir=mt.tmp()), os.path.basename(path))
    chance = random.Random(2)
    tries = 1000 if mt.SOAK else 25
    for i in range(2 * tries):
        at = chance.randrange(len(data))
        with open(other, 'wb') as f:
            f.write(data[:at] if i % 2 else data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1:])
        r = ask(other, 'parse', 'timeline --json', 'report --at 0.05 --json', 'report --by stack')
        if r.rc not in (0, 125) or b'runtime error' in r.err or (r.rc and not r.err):
            bad.append(f'{"cut" if i % 2 else "damaged"} at {at}: {r.rc} {r.err[-300:]}')
        elif i % 2 and not r.err:
            bad.append(f'cut at {at} of {len(data)}: nothing is said')
    return bad


TESTS = (('sqlite3: every answer of the log is that of the live process', sqlite), ('python3: the same', python), ('python3, sampled: the same', sampled),
         ('redis-server: the same', redis), ('a tree of processes: the same, each of them', tree), ('the end and the quiet times are what the victim says', books),
         ('after rotation: all files, and each alone', rotated), ('texts, errors, open and parse', texts), ('mtrun is killed: the log opens', killed),
         ('a signal while a log is being opened', interrupted),
         ('a signal while mtrun begins', interrupted_at_first),
         ('cut anywhere, any bit: an answer or one line', cut_and_damaged))

for name, test in TESTS:
    if len(sys.argv) > 1 and sys.argv[1] not in test.__name__:
        continue
    try:
        problems = test()
    except (OSError, ValueError, KeyError, subprocess.TimeoutExpired) as e:
        problems = [f'{type(e).__name__}: {e}']
    if problems is None:
        mt.skip(name, 'not installed here')
    else:
        mt.check(name, problems)
mt.finish()
