#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""attach-bad - what -p cannot do is said in one clear line with the way out, and the process is as it was."""
import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
d = mt.tmp()
os.chmod(d, 0o755)
libc = ctypes.CDLL(None)
want = re.compile(sys.argv[1] if len(sys.argv) > 1 else '')
PR_SET_DUMPABLE, PR_SET_NAME, PR_CAPBSET_DROP, CAP_SYS_PTRACE = 4, 15, 24, 19

# Anybody may run this one.
own = os.path.join(d, 'mtrun')
shutil.copy(mt.MTRUN, own)
os.chmod(own, 0o755)


def test(name):
    def decorate(fn):
        if want.search(name):
            reason = fn(bad := [])
            mt.skip(name, reason) if reason else mt.check(name, bad)
    return decorate


def refused(bad, args, words, pid=None, by=None, **kw):
    """mtrun ARGS ends with 125 and one line on stderr that has all of WORDS; PID is not touched."""
    before = mt.fingerprint(pid) if pid else None
    r = mt.plain([own, *args], timeout=20, preexec_fn=by, **kw)
    err = (r.err or b'').decode(errors='replace')
    if r.rc != 125:
        bad.append(f'{args}: status {r.rc}, should be 125')
    if len(err.splitlines()) != 1 or not err.startswith('mtrun: '):
        bad.append(f'{args}: not one line of mtrun: {err[:300]!r}')
    bad += [f'{args}: {w!r} is not in {err[:300]!r}' for w in words if not re.search(w, err)]
    if r.out:
        bad.append(f'{args}: on stdout: {r.out[:100]}')
    if pid:
        bad += mt.changed(before, mt.fingerprint(pid))
    return r


def waits(pid):
    """In pause or (clock_)nanosleep, and i386's pause."""
    with open(f'/proc/{pid}/syscall') as f:
        return f.read().split()[0] in ('34', '35', '230', '29')


class Victim:
    """A process that waits, to be ended at the end of the with."""
    def __init__(self, *cmd, by=None):
        self.p = mt.popen(cmd or ['sleep', '1000'], preexec_fn=by, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.pid = self.p.pid
        self.command = os.path.basename((cmd or ['sleep'])[0])

    def ready(self):
        return waits(self.pid)

    def __enter__(self):
        mt.until(lambda: self.command[:15] in open(f'/proc/{self.pid}/comm').read() and self.ready())
        return self

    def __exit__(self, *_):
        mt.kill(self.pid)
        self.p.wait()


class Tracer(Victim):
    def ready(self):
        return True


def state(pid):
    with open(f'/proc/{pid}/stat') as f:
        return f.read().rsplit(')', 1)[1].split()[0]


def compile_c(name, text, *flags):
    path = os.path.join(d, name)
    with open(path + '.c', 'w') as f:
        f.write(text)
    r = subprocess.run(['gcc', '-O1', '-w', *flags, path + '.c', '-o', path], capture_output=True, text=True)
    return path if not r.returncode else None


def as_nobody():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


def incapable():
    libc.prctl(PR_CAPBSET_DROP, CAP_SYS_PTRACE, 0, 0, 0)


# ---- the command line

@test('bad values are quoted')
def _(bad):
    for value in ('', '0', '-1', '12x', '1,,2', '1,', ',1', ' 1', '1 ', '+1', '0x10', 'self', '2147483648', '99999999999999999999', '1.5'):
        refused(bad, ['-p', value], ['--pid', re.escape(f"'{value}'")])
    me = str(os.getpid())
    refused(bad, ['-p', f'{me},{me}'], [re.escape(f"'{me}'"), 'twice'])
    refused(bad, ['-p', me, '-p', me], [re.escape(f"'{me}'"), 'twice'])


@test('what -p does not go with')
def _(bad):
    with Victim() as v:
        pid = str(v.pid)
        refused(bad, ['-p', pid, 'true'], ["'true'"], v.pid)
        refused(bad, ['-p', pid, '--', 'true', 'x'], ["'true'"], v.pid)
        refused(bad, ['-p', pid, '-S'], ['--stopped', 'stop'], v.pid)
        refused(bad, ['-p', pid, '--tree', '--no-follow'], ['--tree', '--no-follow'], v.pid)
        refused(bad, ['--tree', 'true'], ['--tree', '--pid'])
        refused(bad, ['-p'], ["'-p'"])


# ---- what is no process

@test('no such process')
def _(bad):
    gone = mt.popen(['true'])
    gone.wait()
    for pid in (gone.pid, 2 ** 31 - 1):
        refused(bad, ['-p', str(pid)], [f'cannot attach to {pid}: .*no such process'])


@test('a thread: it says whose')
def _(bad):
    go = threading.Event()
    t = threading.Thread(target=go.wait)
    t.start()
    refused(bad, ['-p', str(t.native_id)], [f'to {t.native_id} ', 'thread of process', f'-p {os.getpid()}$'])
    go.set()
    t.join()


@test('a zombie')
def _(bad):
    p = mt.popen(['true'])
    mt.until(lambda: state(p.pid) == 'Z')
    refused(bad, ['-p', str(p.pid)], [f"to {p.pid} \\('true'\\)", 'has ended'])
    if state(p.pid) != 'Z':
        bad.append('its parent does not find it any more')
    p.wait()


@test('a kernel thread')
def _(bad):
    kthreadd = '2'      # of which all others are children, and which never ends
    with open(f'/proc/{kthreadd}/stat') if os.path.exists(f'/proc/{kthreadd}') else open(os.devnull) as f:
        words = f.read().rsplit(')', 1)[-1].split()
    if len(words) < 7 or not int(words[6]) & 0x200000:      # PF_KTHREAD
        return 'there is none in this pid namespace'
    refused(bad, ['-p', kthreadd], ['thread of the kernel'])


# ---- who has it already

@test('traced already: the tracer is named')
def _(bad):
    for tool, cmd in (('strace', ['strace', '-q', '-o', '/dev/null', '-p']), ('gdb', ['gdb', '-q', '-batch', '-ex', 'shell sleep 1000', '-p'])):
        if not shutil.which(tool):
            mt.skip(f'traced by {tool}', f'{tool} is not installed')
            continue
        with Victim() as v, Tracer(*cmd, str(v.pid)) as tracer:
            if not mt.until(lambda: 'TracerPid:\t0' not in open(f'/proc/{v.pid}/status').read()):
                bad.append(f'{tool} does not trace it')
                continue
            r = refused(bad, ['-p', str(v.pid)], ['traced already', f"{tracer.pid} \\('{tool}'\\)"])
            mt.kill(tracer.pid, signal.SIGTERM)
            for pid in mt.children_of(tracer.pid):
                mt.kill(pid)
    with Tracer(own, '-q', 'sleep', '1000') as tracer:
        pid = mt.until(lambda: next((p for p in mt.children_of(tracer.pid) if mt.exe(p).endswith('sleep')), 0))
        refused(bad, ['-p', str(pid)], ['traced already', f"{tracer.pid} \\('mtrun'\\)"])
        mt.kill(pid)


@test('mtrun itself, and what traces it')
def _(bad):
    r = mt.plain(['sh', '-c', f'exec {own} -p $$'], timeout=20)
    if r.rc != 125 or not re.fullmatch(rb"mtrun: cannot attach to \d+ \('mtrun'\): it is mtrun itself\n", r.err):
        bad.append(f'itself: {r.rc} {r.err}')
    r = mt.plain([own, '-q', '--messages', f'{d}/m', 'sh', '-c', f'{own} -p $PPID; exit 7'], timeout=20)
    if r.rc != 7 or b'it traces this mtrun' not in r.err:
        bad.append(f'its tracer: {r.rc} {r.err}')


@test("mtrun's keeper of a terminal")
def _(bad):
    t = mt.Prompt('sleep', '1000')
    t.wait('mt> ')

    def keeper():
        for pid in map(int, filter(str.isdigit, os.listdir('/proc'))):
            try:
                if mt.exe(pid) == mt.MTRUN and open(f'/proc/{pid}/comm').read() == 'mtrun-keeper\n':
                    return pid
            except OSError:
                pass
    pid = mt.until(keeper)
    if pid:
        refused(bad, ['-p', str(pid)], ["mtrun's own"], pid)
    else:
        bad.append('there is none')
    bad += t.end()


# ---- who may

@test("another user's")
def _(bad):
    if os.getuid():
        return 'must be root, to be somebody else'
    with Victim() as v:
        refused(bad, ['-p', str(v.pid)], ["'sleep'", 'user 0', 'as root'], v.pid, by=as_nobody)


@test('one that keeps others out')
def _(bad):
    if os.getuid():
        return 'must be root, to be somebody else'
    path = compile_c('hides', '#include <sys/prctl.h>\n#include <unistd.h>\nint main() { prctl(PR_SET_DUMPABLE, 0); prctl(PR_SET_NAME, "hides, hidden"); pause(); }\n')
    if not path:
        return 'no gcc'
    with Victim(path, by=as_nobody) as v:
        mt.until(lambda: open(f'/proc/{v.pid}/comm').read() == 'hides, hidden\n')
        refused(bad, ['-p', str(v.pid)], ['PR_SET_DUMPABLE', 'as root'], v.pid, by=as_nobody)


@test('root without CAP_SYS_PTRACE')
def _(bad):
    if os.getuid():
        return 'must be root, to give up a capability'
    with Victim() as v:
        refused(bad, ['-p', str(v.pid)], ['CAP_SYS_PTRACE'], v.pid, by=incapable)


@test('kernel.yama.ptrace_scope')
def _(bad):
    scope = '/proc/sys/kernel/yama/ptrace_scope'
    if not os.path.exists(scope):
        return 'this kernel has no yama'
    if os.getuid():
        return 'must be root, to set it'
    with open(scope) as f:
        before = f.read()
    if before.strip() == '3':
        return 'it is 3, which is for good'
    try:
        for value in ('1', '2'):
            with open(scope, 'w') as f:
                f.write(value)
            with Victim(by=as_nobody) as v:
                refused(bad, ['-p', str(v.pid)], [f'kernel.yama.ptrace_scope is {value}', 'as root'], v.pid, by=as_nobody)
    finally:
        with open(scope, 'w') as f:
            f.write(before)


# ---- what it is

@test('a 32-bit process')
def _(bad):
    path = os.path.join(d, 'thirtytwo')
    with open(path + '.s', 'w') as f:
        f.write('.globl _start\n_start: mov $29, %eax\nint $0x80\njmp _start\n')
    if subprocess.run(f'as --32 {path}.s -o {path}.o && ld -m elf_i386 {path}.o -o {path}', shell=True, capture_output=True).returncode:
        return 'as and ld cannot make one'
    try:
        with Victim(path) as v:
            if v.p.poll() is not None:
                return 'this kernel cannot run one'
            refused(bad, ['-p', str(v.pid)], ['32-bit'], v.pid)
    except OSError:
        return 'this kernel cannot run one'


@test('static and stripped, its malloc nowhere to be found')
def _(bad):
    path = compile_c('bare', '#include <stdlib.h>\n#include <unistd.h>\nint main() { free(malloc(10)); pause(); }\n', '-static', '-s')
    if not path:
        return 'no gcc, or no static libc'
    with Victim(path) as v:
        refused(bad, ['-p', str(v.pid)], ['stripped', 'without -s'], v.pid)


@test("in seccomp's strict mode")
def _(bad):
    path = compile_c('strict', '#include <sys/prctl.h>\n#include <unistd.h>\nint main() { char c; prctl(PR_SET_SECCOMP, 1); write(1, "!", 1); while (read(0, &c, 1) > 0); }\n')
    if not path:
        return 'no gcc'
    p = mt.popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    if p.stdout.read(1) != b'!':
        return 'this kernel has no seccomp'
    refused(bad, ['-p', str(p.pid)], ['seccomp', 'under mtrun'], p.pid)
    p.stdin.write(b'x')
    p.stdin.flush()
    if p.poll() is not None:
        bad.append(f'it has ended with {p.poll()}')
    mt.kill(p.pid)
    p.wait()


@test('one of several: none is touched')
def _(bad):
    with Victim() as a, Victim() as b:
        gone = mt.popen(['true'])
        gone.wait()
        before = mt.fingerprint(b.pid)
        refused(bad, ['-p', f'{a.pid},{gone.pid},{b.pid}'], [str(gone.pid), 'no such process'], a.pid)
        bad += mt.changed(before, mt.fingerprint(b.pid))


mt.finish()
