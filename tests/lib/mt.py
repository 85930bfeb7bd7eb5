# SPDX-License-Identifier: GPL-3.0-or-later
"""
mt - what the system tests in Python share: building victims in every way, running mtrun over them, comparing.

The environment says where things are (make check sets it): MTRUN, the binary; MTRUN_BUILD, where victims are built. MTRUN_SOAK=1: the long forms.
A test prints `ok NAME`, `FAIL NAME: why` or `skip NAME: why` for each thing it tried and ends with mt.finish().
The test is a child subreaper: what a run leaves behind becomes its child, and is found.
"""
import contextlib
import ctypes
import fcntl
import hashlib
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
VICTIMS = os.path.join(TOP, 'tests', 'victims')
BUILD = os.path.abspath(os.environ.get('MTRUN_BUILD') or os.path.join(TOP, 'build'))
MTRUN = os.path.abspath(os.environ.get('MTRUN') or os.path.join(BUILD, 'mtrun'))
SOAK = os.environ.get('MTRUN_SOAK') == '1'
SLOW = int(os.environ.get('MTRUN_SLOW') or 1)         # a build with sanitizers: times as long
TIMEOUT = 60 * (10 if SOAK else 1)

PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

signal.signal(signal.SIGHUP, signal.SIG_DFL)     # nohup(1) has it ignored, which programs inherit

passed = failed = skipped = 0
_tmp = None


def tmp():
    """A directory of this test, removed at its end."""
    global _tmp
    if not _tmp:
        _tmp = tempfile.mkdtemp(prefix='mtrun-test.')
    return _tmp


def say(line):
    """In one write: tests with threads would mix their lines."""
    sys.stdout.write(line + '\n')
    sys.stdout.flush()


def ok(name):
    global passed
    passed += 1
    say(f'ok {name}')


def fail(name, why):
    global failed
    failed += 1
    why = str(why).strip().replace('\n', ' / ')
    say(f'FAIL {name}: {why[:1500]}')


def skip(name, why):
    global skipped
    skipped += 1
    say(f'skip {name}: {why}')


def processes(pid):
    """A line for each thread of PID and of what descends from it: what it waits for in the kernel."""
    lines = []
    try:
        tasks = os.listdir(f'/proc/{pid}/task')
    except OSError:     # it has ended
        tasks = []
    for task in tasks:
        words = [f'{pid}/{task}']
        for name, word in (('comm', '.+'), ('stat', r'(?<=\) )\w(?=[^)]*$)'),     # the state
                           ('wchan', r'\w+'), ('syscall', r'\w+')):
            try:
                with open(f'/proc/{pid}/task/{task}/{name}', errors='replace') as f:
                    found = re.search(word, f.read())
            except OSError:     # it has ended, or it is not for us
                found = None
            words.append(found[0] if found else '?')
        lines.append(' '.join(words))
    return lines + [line for child in children_of(pid) for line in processes(child)]


def ended(_, frame):
    """tests/run ends what takes too long: where the test was, and what its processes did."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)       # timeout(1) sends a second one, to its group
    where = ''.join(traceback.format_stack(frame)[-4:])
    os.write(1, (where + '\n'.join(processes(os.getpid())[:30]) + '\n').encode())
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


signal.signal(signal.SIGTERM, ended)


def check(name, problems):
    """PROBLEMS: a list of texts; none is ok."""
    if problems:
        more = f' (and {len(problems) - 8} more)' if len(problems) > 8 else ''
        fail(name, '; '.join(str(p) for p in problems[:8]) + more)
    else:
        ok(name)
    return not problems


at_end = []     # functions: what they end is no process left behind


def finish():
    for end in at_end:
        end()
    until(lambda: not children(), 5)        # what was killed just now may need a moment to die
    stray = children()
    if stray:
        fail('nothing left behind', f'processes {stray}')
        for pid in stray:
            kill(pid)
    if _tmp:
        shutil.rmtree(_tmp, ignore_errors=True)
    sys.exit(1 if failed else 0 if passed else 77)


def kill(pid, sig=signal.SIGKILL):
    try:
        os.kill(pid, sig)
    except ProcessLookupError:
        pass


def listed_children(pid):
    """Processes whose parent PID is. Quick; it may miss one while others come and go."""
    found = []
    try:
        for tid in os.listdir(f'/proc/{pid}/task'):
            with open(f'/proc/{pid}/task/{tid}/children') as f:
                found += map(int, f.read().split())
    except OSError:
        pass
    return found


def traced(pid):
    try:
        with open(f'/proc/{pid}/status') as f:
            return re.search(r'^TracerPid:\t(\d+)$', f.read(), re.M)[1] != '0'
    except OSError:
        return False


def children_of(pid):
    """Processes whose parent PID is."""
    found = listed_children(pid)        # nothing is believed only where there is something
    if found:
        return found
    for d in os.listdir('/proc'):
        if d.isdigit():
            try:
                with open(f'/proc/{d}/stat', errors='replace') as f:
                    if int(f.read().rsplit(')', 1)[1].split()[1]) == pid:
                        found.append(int(d))
            except (OSError, IndexError):
                pass
    return found


def exe(pid):
    try:
        return os.readlink(f'/proc/{pid}/exe')
    except OSError:
        return ''


def fingerprint(pid):
    """What a tracer may not leave changed in a process: its mappings, every byte of the executable ones, descriptors, signal dispositions."""
    with open(f'/proc/{pid}/maps') as f:
        maps = f.read()
    code = hashlib.sha256()
    with open(f'/proc/{pid}/mem', 'rb', 0) as mem:
        for line in maps.splitlines():
            start, end = (int(x, 16) for x in line.split()[0].split('-'))
            if 'x' in line.split()[1] and '[vsyscall]' not in line:
                mem.seek(start)
                code.update(mem.read(end - start))
    with open(f'/proc/{pid}/status') as f:
        signals = re.findall(r'^(?:TracerPid|Sig(?:Blk|Ign|Cgt)):.*', f.read(), re.M)
    fds = {}
    for fd in os.listdir(f'/proc/{pid}/fd'):
        try:
            fds[fd] = os.readlink(f'/proc/{pid}/fd/{fd}')
        except OSError:
            pass
    return {'maps': maps, 'code': code.hexdigest(), 'signals': signals, 'fds': fds}


def changed(before, after, but=()):
    """What of two fingerprints differs, as problems; BUT: keys that may."""
    bad = []
    for key in before:
        if key in but or before[key] == after[key]:
            continue
        if key == 'maps':
            a, b = before[key].splitlines(), after[key].splitlines()
            bad.append('maps: ' + ', '.join([f'-{x}' for x in a if x not in b][:4] + [f'+{x}' for x in b if x not in a][:4]))
        else:
            bad.append(f'{key}: {before[key]} became {after[key]}')
    return bad


def children():
    """Our children that live (zombies are reaped on the way)."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return []
    return children_of(os.getpid())


def until(condition, seconds=30):
    """Waits for a condition; its value, or None when it did not come."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.005)
    return None


# ---- time -----------------------------------------------------------------------------------------------------------------------

def queued(*pids):
    """
    Nanoseconds that each thread of PIDS was ready to run while others had the processors, by
    (pid, tid): the kernel's own count, the second number of schedstat.
    """
    found = {}
    for pid in pids:
        try:
            for tid in os.listdir(f'/proc/{pid}/task'):
                with open(f'/proc/{pid}/task/{tid}/schedstat') as f:
                    found[pid, tid] = int(f.read().split()[1])
        except OSError:     # it has ended, or the kernel does not count
            pass
    return found


def let_time_pass(pid, ms):
    """Until the clock of PID, an mtrun, has gone on by MS: it stands while its thread waits for a processor."""
    before, began, stood = queued(pid), time.monotonic(), 0
    while (time.monotonic() - began) * 1000 - stood < ms:
        time.sleep(0.01)
        now = queued(pid)
        stood = max([(now[t] - before[t]) / 1e6 for t in now if t in before], default=0)


def stolen():
    """Milliseconds in which a processor of this machine could have run, and its host let others run."""
    with open('/proc/stat') as f:
        words = f.readline().split()
    return int(words[8]) * 1000 / os.sysconf('SC_CLK_TCK') if len(words) > 8 else 0


def unbound_workers():
    """The kernel's workers that no processor owns: among other things they move a terminal's bytes."""
    found = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/comm', 'rb') as f:   # any process may be called anything
                if f.read().startswith(b'kworker/u'):
                    found.append(int(pid))
        except OSError:     # it has ended
            pass
    return found


class Stopwatch:
    """
    How long PID takes for something, whatever else the machine does: the time that passes, less what
    threads of PID, of what it runs (but for a program that it traces) and of this test were kept
    waiting for a processor meanwhile. At each moment one of these threads has work, or all sleep; one
    that has work runs, or waits for a processor. So with a processor for each the same takes no
    longer than what is left, and if nobody else wants to run all of it is left. A thread that sleeps
    when it should work is not excused.

    What a thread waited is gone with it, and some live for one file: a look is taken every 5 ms.

    A key, and what is printed, goes from one end of a terminal to the other by a kernel worker, which
    waits for a processor like any other; Linux 6.18 keeps it waiting for some 200 ms while two
    programs with a pipe between them wake each other. That is excused, too.
    """
    def __init__(self, pid):
        self.pid = pid
        self.workers = unbound_workers()
        self.over = threading.Event()
        self.watcher = threading.Thread(target=self.watch, daemon=True)
        self.began = None
        self.watcher.start()
        self.before, self.stolen = self.look(), stolen()
        self.queued = dict(self.before)
        self.began = time.monotonic()

    def look(self):
        children = (c for c in listed_children(self.pid) if not traced(c))
        return queued(self.pid, *children, os.getpid(), *self.workers)

    def watch(self):
        while not self.over.wait(0.005):
            if self.began:
                self.queued.update(self.look())

    def ms(self):
        passed = (time.monotonic() - self.began) * 1000
        self.over.set()
        self.watcher.join()
        self.workers = unbound_workers()
        self.queued.update(self.look())
        self.queued.pop((os.getpid(), self.watcher.native_id), None)
        waited = sum(ns - self.before.get(who, 0) for who, ns in self.queued.items()) / 1e6
        return passed - waited - (stolen() - self.stolen)


# ---- victims --------------------------------------------------------------------------------------------------------------------

# build name -> (C compiler, C++ compiler or None, flags)
DEBIAN_LIBS = '/usr/lib/x86_64-linux-gnu'
BUILDS = {
    'gcc': ('gcc', 'g++', '-O2'),
    'gcc-O0': ('gcc', 'g++', '-O0'),
    'gcc-fp': ('gcc', 'g++', '-O2 -fno-omit-frame-pointer'),
    'gcc-nofp': ('gcc', 'g++', '-O2 -fomit-frame-pointer'),
    'gcc-O3': ('gcc', 'g++', '-O3 -march=native'),
    'gcc-lto': ('gcc', 'g++', '-O2 -flto -ffat-lto-objects'),
    'no-pie': ('gcc', 'g++', '-O2 -no-pie -fno-pie'),
    'static': ('gcc', 'g++', '-O2 -static'),
    'static-pie': ('gcc', 'g++', '-O2 -static-pie'),
    'static-now': ('gcc', 'g++', '-O0 -static -no-pie -fno-pie -Wl,-z,now'),
    'clang': ('clang', 'clang++', '-O2'),
    'clang-O0': ('clang', 'clang++', '-O0'),
    'clang-static': ('clang', 'clang++', '-O2 -static'),
    'musl': ('musl-gcc', None, '-O2'),
    'musl-O0': ('musl-gcc', None, '-O0'),
    'musl-static': ('musl-gcc', None, '-O2 -static'),
    'jemalloc': ('gcc', 'g++', '-O2 -Wl,--no-as-needed -ljemalloc'),
    'tcmalloc': ('gcc', 'g++', '-O2 -Wl,--no-as-needed -ltcmalloc_minimal'),
    'tcmalloc-full': ('gcc', 'g++', '-O2 -Wl,--no-as-needed -ltcmalloc'),
    'mimalloc': ('gcc', 'g++', '-O2 -Wl,--no-as-needed -lmimalloc'),
    'jemalloc-static': ('gcc', 'g++', f'-O2 -Wl,--whole-archive {DEBIAN_LIBS}/libjemalloc.a -Wl,--no-whole-archive -lm -ldl -lstdc++'),
    'debuglink': ('gcc', 'g++', '-O2'),
    'dwarf4': ('gcc', 'g++', '-O2 -gdwarf-4'),
    'gz': ('gcc', 'g++', '-O2 -gz'),
}
_reasons = {}


def headers(path):
    """Of this project, that PATH includes, and those include: beside it, or from the top."""
    found = set()
    with open(path, errors='replace') as f:
        for name in re.findall(r'^#include "(.*)"', f.read(), re.M):
            for where in (os.path.dirname(path), TOP):
                header = os.path.join(where, name)
                if os.path.exists(header):
                    found |= {header, *headers(header)}
    return found


def links(word):
    """Whether WORD of a compiler's command line is for the linker alone."""
    return word.startswith(('-Wl,', '-l', '-L', '-static')) or word.endswith('.a') or \
        word in ('-shared', '-rdynamic', '-no-pie')


@contextlib.contextmanager
def being_built(out, deps):
    """Yields whether OUT must be built from DEPS. Others wait meanwhile."""
    os.makedirs(os.path.dirname(out), exist_ok=True)
    with open(out + '.lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield not os.path.exists(out) or os.path.getmtime(out) <= max(os.path.getmtime(d) for d in deps)


def compile_once(cmd, src, deps):
    """The object file of SRC by CMD, which several victims may be linked from; and what the compiler says."""
    key = hashlib.sha256(repr((cmd, src)).encode()).hexdigest()[:16]
    out = os.path.join(BUILD, 'victims', 'objects', f'{os.path.basename(src)}.{key}.o')
    with being_built(out, deps) as needed:
        if needed:
            r = subprocess.run([*cmd, '-c', src, '-o', f'{out}.part'], capture_output=True, text=True)
            if r.returncode:
                return None, r.stderr
            os.rename(f'{out}.part', out)
    return out, ''


def build(source, how='gcc', extra='', name=None):
    """Path of tests/victims/SOURCE built as HOW, or None: no such compiler or library here (why: build_reason)."""
    cc, cxx, flags = BUILDS[how]
    src = os.path.join(VICTIMS, source)
    plus = source.endswith('.cc')
    compiler = cxx if plus else cc
    if not compiler or not shutil.which(compiler):
        _reasons[source, how] = f'no {"C++ " if plus else ""}compiler for {how}'
        return None
    out = os.path.join(BUILD, 'victims', 'as', how, name or os.path.splitext(os.path.basename(source))[0])
    deps = [src, *headers(src), os.path.abspath(__file__)]
    with being_built(out, deps) as needed:
        if not needed:
            return out
        more = [w for w in extra.split() if w.endswith('.c')]       # sources
        libs = [w for w in flags.split() if w.startswith(('-Wl,', '-l', '/'))]      # behind what needs them
        words = [compiler, '-std=gnu++17' if plus else '-std=gnu17', '-D_GNU_SOURCE', '-g', '-w',
                 *(w for w in flags.split() if w not in libs), *(w for w in extra.split() if w not in more)]
        if plus and 'clang' in how:
            words += ['-fsized-deallocation']
        if how.startswith('musl'):      # the kernel's headers
            words += ['-idirafter', '/usr/include', '-idirafter', '/usr/include/x86_64-linux-gnu']
        objects, why = [], ''
        for x in (*more, src):
            obj, said = compile_once([w for w in words if not links(w)], x, deps)
            objects.append(obj)
            why += said
        part = f'{out}.part'
        if all(objects):
            threads = [] if how.startswith('musl') else ['-lpthread']
            r = subprocess.run([*words, *objects, '-o', part, *libs, *threads], capture_output=True,
                               text=True)
            why = r.stderr
        if not all(objects) or r.returncode:
            _reasons[source, how] = 'does not build: ' + why.strip()[-300:]
            return None
        if how == 'debuglink':      # separate debug file, found beside it
            for c in (['objcopy', '--only-keep-debug', part, out + '.debug'], ['strip', '-s', part],
                      ['objcopy', f'--add-gnu-debuglink={out}.debug', part]):
                subprocess.run(c, check=True)
        os.rename(part, out)
    return out


GO_ENV = {'GOCACHE': os.path.join(BUILD, 'victims', 'go-cache'), 'GO111MODULE': 'off', 'GOFLAGS': '-p=2'}


def build_go(source, out, *flags):
    """SOURCE built with Go as OUT. What went wrong, '' if nothing. The cache of compiled packages lasts, so that the next build takes a second."""
    if not shutil.which('go'):
        return 'no go'
    os.makedirs(GO_ENV['GOCACHE'], exist_ok=True)
    r = subprocess.run(['go', 'build', *flags, '-o', out, source], env={**os.environ, **GO_ENV, 'HOME': os.path.dirname(out)}, capture_output=True, text=True)
    return '' if r.returncode == 0 else f'go build fails: {r.stderr[-200:]}'


def build_reason(source, how):
    return _reasons.get((source, how), 'not built')


# ---- running --------------------------------------------------------------------------------------------------------------------

class Result:
    """status, out, err as bytes; the JSON answers by name; messages: mtrun's own text; seconds."""
    def __init__(self):
        self.rc = self.out = self.err = None
        self.answers = {}
        self.messages = ''
        self.timed_out = False
        self.dir = None
        self.seconds = 0.0

    def __getattr__(self, name):
        try:
            return self.__dict__['answers'][name]
        except KeyError:
            raise AttributeError(name)


def need_mtrun():
    if not os.access(MTRUN, os.X_OK):
        print(f'no {MTRUN}: run make')
        sys.exit(1)


ASK = {
    'status': 'status --json',
    'report': 'report --all --json',
    'stacks': 'report --by stack --all --json',
    'blocks': 'blocks --json',
    'tree': 'tree --json',
    'text': 'text --json',
    'processes': 'processes --json',
}


# The keys that an answer has at least, wherever it comes from.
STATUS_KEYS = ('pid state exit_status allocated heap usable mmap mmap_reserved mmap_resident image other unaccounted peak peak_ms live_blocks allocs frees maps unmaps '
               'unknown_frees total_allocated limit limit_hits threads rss mode sample elapsed_ms events dropped truncated waited_ms log_files processes').split()
PROCESS_KEYS = 'pid ppid command state heap mmap allocs'.split()


def status_lacks(status):
    """Keys that an answer of `status --json` should have, as problems."""
    return [f'status has no {k}' for k in STATUS_KEYS if k not in status] + \
           [f'a process in status has no {k}' for p in status.get('processes', [{}]) for k in PROCESS_KEYS if k not in p]


def cases(want):
    """A decorator: fn(bad) is run and checked if its name is wanted."""
    def case(name):
        def decorate(fn):
            if want.search(name):
                bad = []
                fn(bad)
                check(name, bad)
        return decorate
    return case


def as_nobody():
    """For preexec_fn, as root."""
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


def popen(cmd, **kw):
    kw.setdefault('stdin', subprocess.DEVNULL)
    kw.setdefault('start_new_session', True)
    return subprocess.Popen(cmd, **kw)


def end_group(p):
    """Ends what a run started: its process group, then whatever became ours."""
    try:
        os.killpg(p.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    for pid in children_of(os.getpid()):        # P, and who holds it as its tracer
        kill(pid)
    try:
        p.wait(5)
    except subprocess.TimeoutExpired:
        pass
    # what these leave behind is ours then; a program with threads takes its time to die
    until(lambda: not [kill(pid) or pid for pid in children()], 10)


def plain(cmd, timeout=TIMEOUT, judged=True, **kw):
    """
    Runs CMD and nothing else. If it is not done after TIMEOUT s it is ended, and that is a failure
    of its own (unless not JUDGED: the caller looks at timed_out); its status is a text then, not
    that of the signal, for which a test may wait.
    """
    r = Result()
    kw.setdefault('stdout', subprocess.PIPE)
    kw.setdefault('stderr', subprocess.PIPE)
    inp = kw.pop('input', None)
    if inp is not None:
        kw['stdin'] = subprocess.PIPE
    began = time.monotonic()
    p = popen(cmd, **kw)
    try:
        r.out, r.err = p.communicate(inp, timeout=timeout)
        r.rc = p.returncode
    except subprocess.TimeoutExpired:
        r.timed_out, r.rc = True, f'not done after {timeout} s'
        if judged:
            fail(os.path.basename(cmd[0]), f'{r.rc}: {" ".join(map(str, cmd))}')
        end_group(p)
        r.out, r.err = p.communicate()
    r.pid = p.pid
    r.seconds = time.monotonic() - began
    return r


def run(cmd, opts=(), ask=('status', 'report', 'blocks'), when='wait exit', children_too=False, timeout=TIMEOUT, before='', **kw):
    """
    Runs CMD under mtrun: WHEN is waited for, then each of ASK is answered into a file of its own. Nothing of mtrun's is in out and err.
    CHILDREN_TOO: the same questions about each process that `status` lists, in r.child[pid].
    """
    d = tempfile.mkdtemp(dir=tmp())
    script = [before] if before else []
    script += [when] if when else []
    script += [f'{ASK.get(a, a)} > {d}/{a.split()[0]}.json' for a in ask]
    if children_too:
        gen = os.path.join(d, 'gen.py')
        with open(gen, 'w') as f:
            f.write('import json\nfor p in json.load(open(%r))["processes"]:\n'
                    '    print("process", p["pid"])\n' % f'{d}/status.json')
            for a in ask:
                f.write('    print("%s > %s/%s.%%d.json" %% p["pid"])\n' % (ASK.get(a, a), d, a.split()[0]))
        script += [f'! python3 {gen} > {d}/children.mt', f'source {d}/children.mt']
    path = os.path.join(d, 'script.mt')
    with open(path, 'w') as f:
        f.write('\n'.join(script) + '\n')
    r = plain([MTRUN, '-q', '--messages', f'{d}/messages', *opts, '-X', path, '--', *cmd], timeout=timeout, **kw)
    r.dir = d
    if os.path.exists(f'{d}/messages'):
        with open(f'{d}/messages', errors='replace') as f:
            r.messages = f.read()
    r.bad_json = []
    r.child = {}
    for name in sorted(os.listdir(d)):
        if not name.endswith('.json'):
            continue
        try:
            with open(os.path.join(d, name)) as f:
                value = json.load(f)
        except ValueError as e:
            with open(os.path.join(d, name), errors='replace') as f:
                r.bad_json.append(f'{name}: {e}: {f.read(200)!r}')
            continue
        m = re.fullmatch(r'(\w+)\.(\d+)\.json', name)
        if m:
            r.child.setdefault(int(m[2]), Result()).answers[m[1]] = value
        else:
            r.answers[name[:-5]] = value
    return r


class Prompt:
    """mtrun at the other end of a terminal. (Where what is on the screen counts: terminal.py.)"""
    def __init__(self, *cmd):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(tmp())
            os.environ.update(HOME=tmp(), TERM='xterm', PAGER='cat', LC_ALL='C.UTF-8')
            os.environ.pop('INPUTRC', None)
            os.execv(MTRUN, [MTRUN, *cmd])
        self.text, self.over = '', False

    def send(self, keys):
        self.text = ''
        os.write(self.fd, keys.encode())

    def read(self, seconds):
        """Whether there was anything."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            self.text += os.read(self.fd, 65536).decode(errors='replace')
        except OSError:         # nobody has the terminal any more
            self.over = True
        return not self.over

    def wait(self, pattern, seconds=30):
        """For PATTERN in what was printed since the last send()."""
        end = time.monotonic() + seconds
        while not (m := re.search(pattern, self.text, re.S)) and not self.over and time.monotonic() < end:
            self.read(0.1)
        return m

    def end(self):
        """Ends the program and mtrun; problems."""
        self.send('kill; quit\n')
        while not self.over and self.read(10):
            pass
        if not until(lambda: os.waitpid(self.pid, os.WNOHANG)[0], 10):
            kill(self.pid)
            return ['quit does not end it']
        os.close(self.fd)
        return []


class Heap:
    """victims/heap.c: what it is told to do, and what its allocator has handed out then."""
    def __init__(self, path, *args):
        self.p = popen([*([path] if isinstance(path, str) else path), *map(str, args)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self.p.pid
        self.in_use = self.told()

    def told(self):
        return int(re.fullmatch(rb'in use (\d+)\n', self.p.stdout.readline())[1])

    def do(self, words):
        self.p.stdin.write(words.encode() + b'\n')
        self.p.stdin.flush()
        return self.told()

    def end(self):
        self.p.stdin.close()
        return self.p.wait(20)


class Attached:
    """mtrun -p, commands one by one."""
    def __init__(self, pid, *opts):
        self.d = tempfile.mkdtemp(dir=tmp())
        self.n = 0
        self.p = popen([MTRUN, '-q', *opts, '-p', str(pid), '-X', '-'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.commands = self.p.stdin

    def ask(self, command):
        path = f'{self.d}/{self.n}'
        self.n += 1
        self.commands.write(f'{command} > {path}\necho done > {path}.done\n'.encode())
        self.commands.flush()
        until(lambda: self.p.poll() is not None or os.path.exists(f'{path}.done') and os.path.getsize(f'{path}.done'), 60)
        if not os.path.exists(path):
            raise RuntimeError(f'{command}: no answer, mtrun has {"ended" if self.p.poll() is not None else "not"}: '
                               f'{self.p.stdout.read1(3000) if self.p.poll() is not None else ""}')
        with open(path) as f:
            return f.read()

    def json(self, command):
        return json.loads(self.ask(command + ' --json'))

    def leave(self):
        out = self.p.communicate(b'detach\n', timeout=30)[0].decode()
        return [f'status {self.p.returncode}: {out[:300]}'] if self.p.returncode or out else []


class Launched(Attached):
    """The same with a program that mtrun starts: `p` has its stdin, stdout and stderr, and the commands come by a FIFO."""
    def __init__(self, cmd, *opts, **kw):
        self.d = tempfile.mkdtemp(dir=tmp())
        self.n = 0
        fifo = f'{self.d}/commands'
        os.mkfifo(fifo)
        kw = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE, 'stderr': subprocess.STDOUT, **kw}
        self.p = popen([MTRUN, '-q', '--messages', f'{self.d}/messages', *opts, '-X', fifo, '--', *cmd], **kw)
        fd = None

        def opened():
            nonlocal fd
            try:
                fd = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:     # mtrun has not opened it yet
                return self.p.poll() is not None
            return True
        until(opened, 60)
        if fd is None:
            status = self.p.poll()
            end_group(self.p)
            raise RuntimeError(f'mtrun has not opened its commands; its status: {status}')
        os.set_blocking(fd, True)
        self.commands = os.fdopen(fd, 'wb')

    def end(self):
        """Ends both, whatever they do."""
        self.commands.close()
        end_group(self.p)


def each(rows, fn, jobs=2):
    """
    fn(row) for each of ROWS, JOBS at a time, each in a process of its own, which is the parent of what its row leaves behind; what it counts is counted here.
    Results go through check(), fail() and skip() as everywhere.
    """
    global passed, failed, skipped
    rows, running = list(rows), {}
    while rows or running:
        while rows and len(running) < jobs:
            row = rows.pop(0)
            r, w = os.pipe()
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    os.close(r)
                    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
                    passed = failed = skipped = 0
                    fn(row)
                    os.write(w, b'%d %d %d' % (passed, failed, skipped))
                    code = 0
                except Exception as e:
                    print(f'{type(e).__name__}: {e} (line {e.__traceback__.tb_next.tb_lineno if e.__traceback__.tb_next else 0})')
                finally:
                    sys.stdout.flush()
                    os._exit(code)
            os.close(w)
            running[pid] = r, row
        pid, status = os.wait()
        if pid not in running:
            continue
        r, row = running.pop(pid)
        counts = os.read(r, 100)
        os.close(r)
        if status or not counts:
            fail(f'{getattr(row, "name", row)}', f'its comparison ended with {os.waitstatus_to_exitcode(status)}')
            continue
        a, b, c = map(int, counts.split())
        passed, failed, skipped = passed + a, failed + b, skipped + c


# ---- comparing ------------------------------------------------------------------------------------------------------------------

def expectations(out, prefix=''):
    """The `expect` lines of a victim: sites, blocks, status, exact."""
    e = {'also': set(), 'site': {}, 'block': {}, 'status': {}, 'exact': False, 'n': 0}
    for line in out.decode(errors='replace').splitlines():
        m = re.fullmatch(re.escape(prefix) + r'expect (\S+) +(\S+)', line)
        if not m:
            continue
        e['n'] += 1
        key, value = m[1], m[2]
        if key.startswith('site.'):
            name, number = key[5:].rsplit(':', 1)
            e['site'][os.path.basename(name), int(number)] = [None if v == '*' else int(v) for v in value.split(',')]
        elif key.startswith('also.'):
            name, number = key[5:].rsplit(':', 1)
            e['also'].add((os.path.basename(name), int(number)))
        elif key.startswith('block.'):
            e['block'][int(key[6:], 16)] = int(value)
        elif key.startswith('status.'):
            e['status'][key[7:]] = int(value)
        elif key == 'exact':
            e['exact'] = True
    return e


def address(a):
    return int(a, 16) if isinstance(a, str) else a


def compare(r, e, alone=True):
    """
    Problems found comparing the answers in R with the expectations E. ALONE: with `exact`, nothing else in the process allocates; otherwise what
    does (libc's start in a static program, an allocator's own start) is what has no site in the victim's files.
    """
    bad = list(getattr(r, 'bad_json', []))
    if r.__dict__.get('timed_out'):
        return [f'timed out; messages: {r.messages[-300:]}']
    if not e['n']:
        return [f'the victim printed no expectation (rc {r.rc}): {r.err[-300:] if r.err else ""} {r.messages[-300:]}']
    for a in ('status', 'report'):
        if a not in r.answers:
            return bad + [f'no answer to {a}: rc {r.rc}: {r.messages[-400:]} {(r.err or b"")[-300:]}']
    s, rows = r.answers['status'], r.answers['report']['mem_report']
    files = {f for f, _ in set(e["site"]) | e["also"]}
    other = [0, 0, 0, 0]

    got = {}
    for row in rows:
        f = os.path.basename(row.get('file') or '')
        v = got.setdefault((f, row.get('line')), [0, 0, 0, 0]) if f in files else other
        for i, k in enumerate(('size', 'count', 'total_size', 'total_count')):
            v[i] += row[k]
    for site in e['also']:
        got.pop(site, None)
    for site, want in sorted(e['site'].items()):
        have = got.pop(site, [0, 0, 0, 0])
        if any(w is not None and w != h for w, h in zip(want, have)):
            bad.append(f'{site[0]}:{site[1]} is {have}, should be {[w if w is not None else "*" for w in want]}')
    for site, have in sorted(got.items(), key=str):
        bad.append(f'{site[0]}:{site[1]} is {have}, should not be there')

    extra = {} if alone else {'heap': other[0], 'live_blocks': other[1], 'allocs': other[3], 'frees': 0 if r.__dict__.get('forked') else other[3] - other[1]}
    for key, want in e['status'].items():
        want += extra.get(key, 0)
        if s.get(key) != want:
            bad.append(f'status {key} is {s.get(key)}, should be {want}')
    if 'blocks' in r.answers and e['block']:
        have = {address(b['address']): b['size'] for b in r.answers['blocks']['blocks']}
        missing = [hex(a) for a in e['block'] if a not in have]
        wrong = [f'{a:#x}: {have[a]} not {n}' for a, n in e['block'].items() if a in have and have[a] != n]
        more = [f'{a:#x} of {n}' for a, n in have.items() if a not in e['block']] if e['exact'] and alone else []
        for what, list_ in (('missing', missing), ('of wrong size', wrong), ('too many', more)):
            if list_:
                bad.append(f'{len(list_)} blocks {what}: {list_[:3]}')
    return bad + consistent(r)


def consistent(r):
    """What must hold after every run: sums add up, nothing was dropped or is unknown."""
    bad = []
    s = r.answers['status']
    if s['dropped']:
        bad.append(f'dropped {s["dropped"]}')
    if s['unknown_frees']:
        bad.append(f'unknown_frees {s["unknown_frees"]}')
    if s['live_blocks'] != s['allocs'] - s['frees'] and not r.__dict__.get('forked'):
        bad.append(f'live_blocks {s["live_blocks"]} are not allocs {s["allocs"]} - frees {s["frees"]}')
    if 'report' in r.answers:
        rep = r.answers['report']
        rows = rep['mem_report']
        if sum(x['size'] for x in rows) != rep['total_size'] or rep['total_size'] != s['heap'] + s['mmap']:
            bad.append(f'rows {sum(x["size"] for x in rows)}, total_size {rep["total_size"]}, heap + mmap {s["heap"] + s["mmap"]} differ')
        if sum(x['count'] for x in rows) != rep['total_count']:
            bad.append(f'counts of rows {sum(x["count"] for x in rows)}, total_count {rep["total_count"]} differ')
        if s['peak'] < s['heap'] + s['mmap'] and not r.__dict__.get('forked'):
            bad.append(f'peak {s["peak"]} below heap + mmap {s["heap"] + s["mmap"]}')
    if 'blocks' in r.answers:
        heap = sum(b['size'] for b in r.answers['blocks']['blocks'])
        if heap not in (s['heap'], s['heap'] + s['mmap']):
            bad.append(f'blocks add up to {heap}, heap is {s["heap"]}, mmap {s["mmap"]}')
    return bad


def alone(path):
    """In this build of a victim nothing else allocates before main."""
    return not re.search('static|malloc', os.path.basename(os.path.dirname(path)))


def truth(name, cmd, rc=0, opts=(), **kw):
    """Runs a victim under mtrun and holds mtrun's answers against what it printed."""
    r = run(cmd, opts, **kw)
    bad = compare(r, expectations(r.out), alone(cmd[0]))
    if r.rc != rc and not r.timed_out:
        bad.append(f'status {r.rc}, should be {rc}: {r.messages[-200:]} {r.err[-200:]}')
    check(name, bad)
    return r
