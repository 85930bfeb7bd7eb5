#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 200
"""launch - a program cannot see from how it was started that mtrun started it, and its caller cannot see it from how it ends."""
import ctypes
import fcntl
import os
import pty
import re
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import termios
import time

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
QUIET = [mt.MTRUN, '-q', '--messages', '/dev/null', '-x', 'wait exit', '--']
STRACE = ['strace', '-f', '-o', '/dev/null', '--'] if shutil.which('strace') else None
look = mt.build('surroundings.c')
ends = mt.build('ends.c')


def differences(a, b):
    a, b = (re.sub(r'(pipe|socket):\[\d+\]', r'\1', x.decode(errors='replace')).splitlines() for x in (a, b))
    return [f'-{x}' for x in a if x not in b] + [f'+{x}' for x in b if x not in a]


def same(name, cmd, ignore=None, **kw):
    """CMD sees and says the same with and without mtrun."""
    def one(prefix):
        args = dict(kw)
        if 'make' in args:
            args.update(args.pop('make')())
        return mt.plain(prefix + cmd, **args)
    bare, under = one([]), one(QUIET)
    bad = []
    if bare.rc != under.rc:
        bad.append(f'status {under.rc}, alone {bare.rc}')
    d = [x for x in differences(bare.out or b'', under.out or b'') + differences(bare.err or b'', under.err or b'') if not (ignore and re.search(ignore, x))]
    if d and STRACE:    # what strace changes too is the yardstick's
        other = one(STRACE)
        allowed = differences(bare.out or b'', other.out or b'')
        d = [x for x in d if x not in allowed]
    mt.check(name, bad + d)


def surroundings():
    same('surroundings', [look, 'a b', '', '--json', "it's"])
    same('path search', [os.path.basename(look)], env={**os.environ, 'PATH': os.path.dirname(look) + ':/usr/bin:/bin'})
    same('relative path', ['./' + os.path.basename(look)], cwd=os.path.dirname(look))
    same('environment', [look], env={'A': 'b=c', 'EMPTY': '', 'LD_PRELOAD': '', 'PATH': '/bin:/usr/bin'})
    same('empty environment', [look], env={})

    def odd():
        os.umask(0o027)
        os.nice(3)
        os.chdir('/usr')
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2, signal.SIGTERM, signal.SIGRTMIN + 3])
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_NOFILE, (777, 888))
        resource.setrlimit(resource.RLIMIT_STACK, (4 << 20, resource.RLIM_INFINITY))
    same('umask, nice, directory, ignored and blocked signals, limits', [look], preexec_fn=odd)

    def timers():
        signal.setitimer(signal.ITIMER_REAL, 1000.5)
        signal.setitimer(signal.ITIMER_VIRTUAL, 2000.5)
        signal.setitimer(signal.ITIMER_PROF, 3000.5, 7)
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)     # PR_SET_CHILD_SUBREAPER
    same('timers, a subreaper', [look], preexec_fn=timers)
    same('ten descriptors', [look], preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (10, 4096)))
    same('an alarm that goes off', ['sleep', '20'], preexec_fn=lambda: signal.setitimer(signal.ITIMER_REAL, 1))

    def ints():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGQUIT, signal.SIG_IGN)
        signal.signal(signal.SIGTSTP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, list(range(1, 65)))
    same('everything blocked, INT QUIT TSTP ignored', [look], preexec_fn=ints)

    f = os.path.join(mt.tmp(), 'given')
    with open(f, 'w') as out:
        out.write('some input\n')

    def inherit():
        a = os.open(f, os.O_RDONLY)
        b = os.open(f, os.O_RDWR | os.O_APPEND)
        for fd, to in ((a, 5), (b, 9), (a, 700)):
            os.dup2(fd, to)
        os.lseek(5, 3, os.SEEK_SET)
    same('descriptors', [look], preexec_fn=inherit, close_fds=False)

    for fds in ((0,), (1,), (2,), (0, 1, 2)):
        def close_some(which=fds):
            for fd in which:
                os.close(fd)
        same(f'started without descriptors {fds}', [look], preexec_fn=close_some)

    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (12, 4096))
    same('at most 12 descriptors', [look], preexec_fn=few)
    same('stdin from a file', [look], make=lambda: {'stdin': open(f)})
    same('stdin from a pipe', [look], input=b'from a pipe')
    same('bytes through', ['cat'], input=bytes(range(256)) * 5000)
    script = os.path.join(mt.tmp(), 'script.sh')
    with open(script, 'w') as out:
        out.write(f'#!/bin/sh -e\necho "$0" "$@"\n{look} x\nexit 9\n')
    os.chmod(script, 0o755)
    same('script with #!', [script, 'one', 'two words'])
    python = os.path.join(mt.tmp(), 'script.py')
    with open(python, 'w') as out:
        out.write('#!/usr/bin/env python3\nimport os, sys\nprint(sys.argv, os.getcwd())\nsys.exit(3)\n')
    os.chmod(python, 0o755)
    same('script with #!/usr/bin/env', [python, 'x'])


def statuses():
    bad = []
    for n in (0, 1, 2, 77, 124, 125, 126, 127, 128, 137, 255):
        r = mt.plain(QUIET + [ends, 'exit', str(n)])
        if r.rc != n:
            bad.append(f'exit {n} became {r.rc}')
    mt.check('exit statuses', bad)
    bad = []
    for n in [s for s in range(1, 65) if s not in (17, 18, 19, 20, 21, 22, 23, 28, 32, 33)]:
        r = mt.plain(QUIET + [ends, 'signal', str(n)])
        if r.rc != -n:
            bad.append(f'signal {n} became {r.rc}')
    mt.check('deadly signals', bad)
    r = mt.run([ends, 'signal', '6'], ask=('status',))
    mt.check('exit_status of a signal in status', [] if r.answers.get('status', {}).get('exit_status') == 134 else [f'{r.answers}'[:300] + r.messages])
    r = mt.run([ends, 'exit', '7'], ask=('status',))
    mt.check('exit_status in status', [] if r.answers.get('status', {}).get('exit_status') == 7 else [f'{r.answers}'[:300] + r.messages])


def forwarded():
    for sig, code in ((signal.SIGTERM, 11), (signal.SIGHUP, 12), (signal.SIGUSR2, 13)):
        p = mt.popen([mt.MTRUN, '-q', '--messages', '/dev/null', '-x', 'wait exit', '--', ends, 'wait'], stdout=subprocess.PIPE)
        got = p.stdout.read(6)
        p.send_signal(sig)
        try:
            rc = p.wait(20)
            mt.check(f'{sig.name} is forwarded', [] if rc == code and got == b'ready\n' else [f'status {rc} not {code}, said {got}'])
        except subprocess.TimeoutExpired:
            mt.fail(f'{sig.name} is forwarded', 'target did not end')
            mt.end_group(p)
    p = mt.popen([mt.MTRUN, '-q', '--messages', '/dev/null', '-x', 'wait exit', '--', ends, 'wait'], stdout=subprocess.PIPE)
    p.stdout.read(6)
    p.send_signal(signal.SIGINT)
    p.send_signal(signal.SIGQUIT)
    time.sleep(0.1)
    alive = p.poll() is None
    p.send_signal(signal.SIGTERM)
    rc = p.wait(20)
    mt.check('INT and QUIT to mtrun alone are ignored', [] if alive and rc == 11 else [f'alive {alive}, status {rc}'])


def leading():
    """Who leads a session is told of its terminal's end, and nobody else: the program in its place, or mtrun for it."""
    hangup = mt.build('hangup.c')
    got = []
    for argv in ([], [mt.MTRUN, '-q', '--messages', '/dev/null', '-x', 'wait exit', '--']):
        log = f'{mt.tmp()}/hangup-{len(argv)}'
        pid, fd = pty.fork()
        if pid == 0:
            os.execv((argv + [hangup])[0], [*argv, hangup, 'handle', log])
        mt.until(lambda: os.path.exists(log) and 'up' in open(log).read())
        os.close(fd)
        # mtrun's signal comes a moment after the end
        mt.until(lambda: all(word in open(log).read() for word in ('end', 'HUP', 'CONT')))
        lines = open(log).read().split('\n')[:-1]
        mt.kill(int(lines[0].split()[0]))
        os.waitpid(pid, 0)
        got.append(sorted(line.split()[1] for line in lines))
    mt.check("a terminal's end where mtrun leads the session", [] if got[0] == got[1] and 'HUP' in got[0] else [f'natively {got[0]}, here {got[1]}'])


class Terminal:
    """A shell with job control on a terminal of its own."""
    def __init__(self):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(PS1='$ ', TERM='dumb', HISTFILE='')
            os.execvp('bash', ['bash', '--norc', '--noprofile', '-i'])
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack('HHHH', 50, 500, 0, 0))
        self.text = ''

    def read(self, wait):
        ready, _, _ = select.select([self.fd], [], [], wait)
        if ready:
            try:
                self.text += os.read(self.fd, 65536).decode(errors='replace')
            except OSError:
                return False
        return True

    def expect(self, pattern, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            m = re.search(pattern, self.text)
            if m:
                seen, self.text = self.text[:m.end()], self.text[m.end():]
                return m
            if not self.read(0.1):
                break
        return None

    def send(self, text):
        os.write(self.fd, text.encode())

    def close(self):
        os.close(self.fd)
        mt.kill(self.pid)
        try:
            os.waitpid(self.pid, 0)
        except ChildProcessError:
            pass
        time.sleep(0.1)


def terminal():
    quiet = f"{mt.MTRUN} -q --messages /dev/null -x 'wait exit' --"
    for name, prefix in (('alone', ''), ('under mtrun', quiet + ' ')):
        bad = []
        t = Terminal()
        t.expect(r'\$ ')
        t.send('stty -echo\n')
        t.expect(r'\$ ')
        t.send(f'{prefix}{ends} wait; echo "status=$?"\n')
        if not t.expect('ready'):
            bad.append(f'did not start: {t.text[-200:]!r}')
        t.send('\x1a')                              # ^Z
        if not t.expect(r'[Ss]topped'):
            bad.append(f'^Z did not stop the job: {t.text[-200:]!r}')
        t.send('fg\n')
        t.expect('wait')
        time.sleep(0.2)
        t.send('\x03')                              # ^C: the program's handler exits 14
        if not t.expect(r'\$ '):
            bad.append(f'^C did not end the job: {t.text[-200:]!r}')
        t.send('echo "after=$?"\n')
        m = t.expect(r'after=(\d+)')
        if not m or m[1] != '14':
            bad.append(f'after fg and ^C: {m and m[0]}')
        t.send(f'{prefix}{look} | grep -E "group|terminal|isatty"; echo "end="\n')
        t.expect('end=')
        t.send(f'{prefix}{look} 2>/dev/null >{mt.tmp()}/look.{name[0]}; echo "end="\n')
        t.expect('end=')
        t.send(f'{prefix}{ends} signal 2; echo "status=$?"\n')
        m = t.expect(r'status=(\d+)|\$ ')
        t.send(f'{prefix}cat\n')
        time.sleep(0.3)
        t.send('typed\n')
        if not t.expect('typed'):
            bad.append('what is typed does not reach the program')
        t.send('\x04')
        t.send('echo "cat=$?"\n')
        m = t.expect(r'cat=(\d+)')
        if not m or m[1] != '0':
            bad.append(f'cat at the terminal: {m and m[0]}')
        t.send('stty -a | head -3; echo "end="\n')
        t.expect('end=')
        t.send(f'{prefix}{ends} wait &\n')
        if not t.expect('ready'):
            bad.append('does not run in the background')
        t.send('kill -TERM %1; wait %1; echo "bg=$?"\n')
        m = t.expect(r'bg=(\d+)')
        if not m or m[1] != '11':
            bad.append(f'background job after TERM: {m and m[0]}')
        t.close()
        mt.check(f'terminal and job control, {name}', bad)
    seen = {}
    for name in 'a', 'u':
        with open(f'{mt.tmp()}/look.{name}', 'rb') as f:
            seen[name] = f.read()
    d = [x for x in differences(seen['a'], seen['u']) if not re.search("/dev/pts|look\\.|environ '_=|group: leader", x)]     # a job's leader is mtrun
    if d and STRACE:    # the kernel's table of descriptors, say, is as large as whoever forked had it
        t = Terminal()
        t.expect(r'\$ ')
        t.send(f'stty -echo; {" ".join(STRACE)} {look} 2>/dev/null >{mt.tmp()}/look.s; echo "end="\n')
        t.expect('end=\r')
        t.close()
        with open(f'{mt.tmp()}/look.s', 'rb') as f:
            allowed = differences(seen['a'], f.read())
        d = [x for x in d if x not in allowed]
    mt.check('surroundings at a terminal', d)


def silent():
    """With -q nothing of mtrun's is on the target's descriptors; without, the summary is on stderr and nowhere else."""
    r = mt.plain([mt.MTRUN, '-q', '--', ends, 'exit', '0'])
    bad = [f'{r.out} {r.err} {r.rc}'] if r.out or r.err or r.rc else []
    mt.check('-q says nothing', bad)
    r = mt.plain([mt.MTRUN, '--', 'echo', 'hello'])
    mt.check('the summary goes to stderr', [] if r.out == b'hello\n' and r.err and r.rc == 0 else [f'{r.out} {r.err[-200:]} {r.rc}'])
    m = os.path.join(mt.tmp(), 'messages')
    r = mt.plain([mt.MTRUN, '--messages', m, '--', 'sh', '-c', 'echo out; echo err >&2'])
    mt.check('--messages', [] if r.out == b'out\n' and r.err == b'err\n' and os.path.getsize(m) > 50 else [f'{r.out} {r.err}'])
    before = set(os.listdir(mt.tmp()))
    mt.plain([mt.MTRUN, '--', mt.build('sites.c'), '10'], cwd=mt.tmp())
    after = set(os.listdir(mt.tmp()))
    mt.check('no file is left', sorted(after - before))


def ignored():
    """A tracee stops also for signals that it ignores, and some calls would end for that. (strace is no yardstick: under it they do.)"""
    path = mt.build('ignored.c')
    bare, under = mt.plain([path]), mt.plain(QUIET + [path])
    mt.check('calls go on when a signal comes that is ignored', differences(bare.out, under.out) + ([f'status {bare.rc}, {under.rc}'] if bare.rc or under.rc else []))


def timeouts():
    """Questions that stop the program, ten a second: each would make a timeout begin anew."""
    path = mt.build('timeouts.c')
    ask = ['-q', '-x', 'every 0.1s { bt > /dev/null; leaks > /dev/null }']
    bare = mt.plain([path])
    under = mt.plain([mt.MTRUN, *ask, '-x', 'wait exit', '--', path])
    bad = differences(bare.out, under.out)
    bad += [f'status {under.rc}: {under.err}'] if bare.rc or under.rc else []
    mt.check('calls time out while questions are asked', bad)
    with mt.popen([path], stdout=subprocess.PIPE) as p:
        r = mt.plain([mt.MTRUN, *ask, '-d', '30', '-p', str(p.pid)])
        out = p.communicate()[0]
    bad = differences(bare.out, out)
    bad += [f'status {p.returncode}, {r.rc}: {r.err}'] if p.returncode or r.rc else []
    mt.check('calls time out while questions are asked, attached to', bad)


def stepping():
    path = mt.build('stepping.c')
    bare = mt.plain([path, '2'])
    for opts in ([], ['--limit', '1G'], ['-m', 'log', '--log-dir', mt.tmp()]):
        r = mt.plain([mt.MTRUN, '-q', *opts, '--', path, '2'])
        mt.check(f'a program that single-steps itself {" ".join(opts[:2])}'.rstrip(),
                 differences(bare.out, r.out) + ([] if bare.rc == r.rc == 3 else [f'{bare.rc} {r.rc}']))
    bad = []
    for _ in range(20 if mt.SOAK else 4):
        with mt.popen([path, '60'], stdout=subprocess.PIPE) as p:
            p.stdout.readline()
            r = mt.plain([mt.MTRUN, '-q', '-x', 'wait 0.1s; bt > /dev/null; detach', '-p', str(p.pid)])
            out = p.communicate()[0]
        if r.rc or p.returncode != 3 or out != b'all of 60 rounds\n':
            bad.append(f'{r.rc} {r.err} {p.returncode} {out}')
    mt.check('a program that single-steps itself, attached to', bad)


def dispatched():
    name = 'a program whose calls are told to itself'
    path = mt.build('dispatch.c')
    bare = mt.plain([path, '1'])
    if bare.rc == 77 or tuple(int(n) for n in os.uname().release.split('.')[:2]) < (6, 4):
        mt.skip(name, 'it takes Linux 6.4 to set that aside')
        return
    r = mt.plain([mt.MTRUN, '-q', '--', path, '1'])
    bad = differences(bare.out, r.out) + ([] if bare.rc == r.rc == 3 else [f'{bare.rc} {r.rc}'])
    with mt.popen([path, '4'], stdout=subprocess.PIPE) as p:
        p.stdout.readline()
        end = time.monotonic() + 2
        while time.monotonic() < end:
            r = mt.plain([mt.MTRUN, '-q', '-x', 'wait 0.1s; bt > /dev/null; detach', '-p', str(p.pid)])
            bad += [f'attached: {r.rc} {r.err}'] if r.rc else []
        out = p.communicate()[0]
    if p.returncode != 3 or out != b'good\n':
        bad.append(f'{p.returncode} {out}')
    mt.check(name, bad)


def joined():
    """A thread is not kept in its process by us. Natively, too, it is there for some microseconds."""
    path = mt.build('joined.c', extra='-pthread')
    bare = mt.plain([path, '300'])
    if int(bare.out.split()[0]) == 300:
        mt.skip('threads that were joined are gone', 'no user namespaces here')
        return
    for opts in ([], ['-x', 'every 0.1s { bt > /dev/null }', '-x', 'wait exit']):
        r = mt.plain([mt.MTRUN, '-q', *opts, '--', path, '300'])
        few = all(int(n) <= 15 for n in r.out.split()) and len(r.out.split()) == 2
        mt.check(f'threads that were joined are gone {"while questions are asked" if opts else ""}'.rstrip(),
                 [] if few and r.rc == 0 else [f'natively {bare.out}: {r.rc} {r.out} {r.err}'])


def no_room():
    """A child in which there is no room for a part of ours runs without us, at once, and that is said"""
    times = 12
    r = mt.plain([mt.MTRUN, '-q', '-x', 'wait exit', '--', mt.build('noroom.c'), '262144', str(times)])
    said = re.findall(rb"runs unsupervised: Cannot allocate memory$", r.err, re.M)
    right, longest = r.out.split() if len(r.out.split()) == 2 else (0, 0)
    good = int(right) == len(said) == times and int(longest) < 3000 and r.rc == 0
    mt.check('children without room for us', [] if good else [f'{r.rc} {r.out} {r.err}'])


surroundings()
statuses()
ignored()
timeouts()
stepping()
dispatched()
joined()
no_room()
forwarded()
leading()
terminal()
silent()
mt.finish()
