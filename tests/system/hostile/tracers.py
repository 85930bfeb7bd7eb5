#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""tracers - programs that trace processes themselves (strace, gdb, mtrun, LeakSanitizer) do the same under mtrun as without it, and it says what it let go."""
import os
import re
import shutil
import subprocess
import time

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
LIMIT = 20 * mt.SLOW


def both(cmd, opts=(), **kw):
    """CMD natively and under mtrun, its processes; and what differs."""
    a, b = mt.plain(cmd, timeout=LIMIT, **kw), mt.run(cmd, opts=opts, ask=('status', 'processes'), timeout=LIMIT, **kw)
    if b.timed_out:
        return b, ['a hang']
    bad = [] if a.rc == b.rc else [f'status {b.rc}, natively {a.rc}: {b.messages}{b.err}']
    return b, bad + ([] if sorted(a.out.splitlines()) == sorted(b.out.splitlines()) else [f'prints {b.out[-300:]}, natively {a.out[-300:]}'])


def unsupervised(r):
    return [p for p in r.processes['processes'] if p['unsupervised']]


# ---- programs of our own --------------------------------------------------------------------------------------------------------

LET_GO = {'traceme': 1, 'vfork': 1, 'syscall': 1, 'seize': 1, 'attach': 1, 'parent': 1, 'self': 0, 'many': 30}
for how in ('gcc', 'static', 'musl'):
    victim = mt.build('tracing.c', how)
    if not victim:
        mt.skip(f'tracing {how}', mt.build_reason('tracing.c', how))
        continue
    bad = []
    for mode, n in LET_GO.items():
        r, why = both([victim, mode])
        if not why:
            gone = unsupervised(r)
            if len(gone) != n or any(p['unsupervised'] != 'another program traces it' for p in gone):
                why = [f'{len(gone)} of {n} are named: {gone}']
            elif n and (mode != 'parent') and r.messages.count('traces processes: these run unsupervised') != 1:
                why = [f'says {r.messages!r}']
            elif mode != 'parent' and r.status['allocs'] < 200:
                why = [f'{r.status["allocs"]} allocations of the program']
        bad += [f'{mode}: {x}' for x in why]
    r, why = both([victim, 'many'], opts=['--no-follow'])
    bad += [f'--no-follow: {x}' for x in why]
    mt.check(f'ptrace by {how}', bad)

go = os.path.join(mt.tmp(), 'gotrace')
why = mt.build_go(os.path.join(mt.VICTIMS, 'gotrace.go'), go)
if why:
    mt.skip('ptrace by Go', why)
else:
    r, why = both([go, '/bin/echo', 'traced'])
    gone = [p['unsupervised'] for p in unsupervised(r)] if not why else []
    mt.check('ptrace by Go', why or ([] if gone == ['another program traces it'] and b'1000 steps, status 0' in r.out else [gone, r.out]))

# ---- strace, gdb, mtrun ---------------------------------------------------------------------------------------------------------

PROGRAM = mt.build('ends.c') and mt.build('tracing.c')
for name, cmd in {'strace': ['strace', '-f', '-o', '/dev/null', PROGRAM, 'end'],
                  'strace of a shell': ['strace', '-f', '-o', '/dev/null', 'sh', '-c', f'{PROGRAM} end; {PROGRAM} end & wait $!; exit 4'],
                  'gdb': ['gdb', '-nx', '-q', '-batch', '-iex', 'set debuginfod enabled off', '-ex', 'run', '-ex', 'quit $_exitcode', '--args', PROGRAM, 'end'],
                  'mtrun': [mt.MTRUN, '-q', PROGRAM, 'end'],
                  'mtrun of a tree': [mt.MTRUN, '-q', '-x', 'wait exit', 'sh', '-c', f'{PROGRAM} end; {PROGRAM} many']}.items():
    if not shutil.which(cmd[0]):
        mt.skip(f'{name} under mtrun', 'it is not installed')
        continue
    r = mt.plain(cmd, timeout=LIMIT, judged=False)
    if r.timed_out or (name == 'gdb' and r.rc != 7):
        mt.skip(f'{name} under mtrun', f'it does not work here without mtrun: status {r.rc}: {r.err[-200:]}')
        continue
    u = mt.run(cmd, ask=('processes',), timeout=LIMIT * 2)
    bad = ['a hang'] if u.timed_out else [] if u.rc == r.rc else [f'status {u.rc}, natively {r.rc}: {u.err[-300:]}']
    if not bad and not unsupervised(u):
        bad.append(f'nothing is named: {u.processes}')
    mt.check(f'{name} under mtrun', bad)

# ---- one tracer at a time -------------------------------------------------------------------------------------------------------

if shutil.which('strace'):
    p = mt.popen([mt.build('tracing.c'), 'seize'], stdout=subprocess.DEVNULL)
    p.wait()
    p = mt.popen(['sleep', '100'])
    s = mt.popen(['strace', '-o', '/dev/null', '-p', str(p.pid)], stderr=subprocess.DEVNULL)
    mt.until(lambda: 'TracerPid:\t0' not in open(f'/proc/{p.pid}/status').read())
    r = mt.plain([mt.MTRUN, '-q', '-p', str(p.pid), '-x', ''], timeout=LIMIT)
    mt.check('-p of what strace traces', [] if r.rc == 125 and f"traced already, by {s.pid} ('strace')".encode() in r.err else [f'{r.rc} {r.err}'])
    s.terminate()
    s.wait()
    p.kill()
    p.wait()

# ---- LeakSanitizer --------------------------------------------------------------------------------------------------------------

SANITIZED = {}
for how in ('gcc', 'clang'):
    for what in ('address', 'leak'):
        v = mt.build('sanitized.cc', how, extra=f'-O1 -fno-omit-frame-pointer -fsanitize={what}', name=f'sanitized-{what}')
        if v and mt.plain([v, '0'], timeout=LIMIT, judged=False).rc == 5:
            SANITIZED[how, what] = v
        else:
            mt.skip(f'LeakSanitizer by {how} -fsanitize={what}', mt.build_reason('sanitized.cc', how))


def report(err):
    """A sanitizer's report, without numbers that differ each time, and without mtrun's own frame."""
    text = re.sub(rb'==\d+==|0x[0-9a-f]+|#\d+|, std::nothrow_t const&|:\d+$|\(\S*\+\S*\)|\(BuildId.*?\)', b'', err, flags=re.M)
    return sorted(x.strip() for x in text.splitlines() if b'<unknown module>' not in x and b'LLVMSymbolizer' not in x)


for (how, what), victim in SANITIZED.items():
    bad = []
    for args in (['0'], ['30'], ['0', 'threads'], ['30', 'threads'], ['0', 'now'], ['30', 'now'], ['30', 'fork'], ['0', 'fork']):
        a, b = mt.plain([victim, *args], timeout=LIMIT), mt.run([victim, *args], ask=('status', 'processes'), timeout=LIMIT)
        name = ' '.join(args)
        if b.timed_out:
            bad.append(f'{name}: a hang')
        elif a.rc != b.rc or a.out != b.out:
            bad.append(f'{name}: status {b.rc}, natively {a.rc}; {b.out}, natively {a.out}; {b.messages}{b.err[-300:]}')
        elif report(a.err) != report(b.err):
            bad.append(f'{name}: the reports differ: {[x for x in report(b.err) if x not in report(a.err)]}, natively {[x for x in report(a.err) if x not in report(b.err)]}')
        elif b.status['exit_status'] != a.rc or b.status['state'] != 'exited':
            bad.append(f'{name}: status says {b.status["state"]} {b.status["exit_status"]}')
        elif 'now' in args and b.status['allocs'] < 500:
            bad.append(f'{name}: {b.status["allocs"]} allocations: it was not taken back')
        elif unsupervised(b) or b.messages:
            bad.append(f'{name}: {b.messages}{unsupervised(b)}')
    mt.check(f'LeakSanitizer by {how} -fsanitize={what}', bad)

for (how, what), victim in list(SANITIZED.items())[:2]:
    p = mt.popen([victim, '30', 'wait'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    mt.until(lambda: mt.exe(p.pid) == victim)
    time.sleep(0.2)
    m = mt.popen([mt.MTRUN, '-q', '-p', str(p.pid), '-x', f'wait 0.2; ! touch {mt.tmp()}/in-{what}; wait exit; status --json > {mt.tmp()}/status-{what}'],
                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    bad = [] if mt.until(lambda: os.path.exists(f'{mt.tmp()}/in-{what}'), LIMIT) else ['not attached']
    out, err = p.communicate(b'go\n', timeout=LIMIT)
    if p.returncode != mt.plain([victim, '30'], timeout=LIMIT).rc or b'30 allocation' not in err:
        bad.append(f'{p.returncode} {err[-300:]}')
    try:
        why = m.communicate(timeout=LIMIT)[1]
        if m.returncode or f'"exit_status":{p.returncode}' not in open(f'{mt.tmp()}/status-{what}').read():
            bad.append(f'mtrun: {m.returncode} {why}: {open(f"{mt.tmp()}/status-{what}").read()[:200]}')
    except subprocess.TimeoutExpired:
        bad.append('mtrun does not hear of its end')
        m.kill()
        m.wait()
    mt.check(f'LeakSanitizer of an attached program: {what}', bad)

mt.finish()
