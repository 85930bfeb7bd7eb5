#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 300
"""
hostile [ATTACK...] - whatever a program does with what it shares with mtrun: no file is changed, no other process is signalled, mtrun answers or ends with one line.

A table: each attack of victims/hostile.c in four ways, with mtrun as root and the attacker as nobody:

    launch      the program that mtrun starts attacks
    attach      it runs already, and attacks while mtrun comes, is there, and leaves
    no-follow   an honest program of root's, under --no-follow, has a child that attacks: what it shares with its parent it must not be able to use
    fork        the same where children are supervised: each is a process of its own

Before and after each cell a file that only root may write is what it was, with its times; a process of root's that blocks all signals has none pending, is not traced, and runs;
an honest parent ends with the status that says all its own work went well. mtrun answers each question within a bound, or has given up with one line that says why and a status
of its own; it is not killed, its own memory is bounded by what the program could have allocated, and nobody is left. The long form is 10^6 rounds of the attack on every shared
page, best with a build that has sanitizers (`make SAN=address,undefined soak TESTS=tests/system/hostile.py`), and longer cells.
"""
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
if os.getuid():
    print('not root: nobody to be protected from a process with the same rights')
    sys.exit(77)

ATTACKS = ('answers', 'orders', 'questions', 'events', 'unique', 'slots', 'stacks', 'tables', 'beacon',
           'dead', 'words', 'truncated', 'swap', 'over', 'ends')
WAYS = ('launch', 'attach', 'no-follow', 'fork')
HARMS_ITSELF = set(ATTACKS) - {'ends'}        # what it breaks is its own
MS = 3000 if mt.SOAK else 150
ANSWER = 1.0 * mt.SLOW            # seconds: the longest that a question may take; of mtrun's own time (mt.Stopwatch)
END = 20 * mt.SLOW * (3 if mt.SOAK else 1)
MEMORY = 300 << 20
QUESTIONS = ('status --json', 'report --by stack -n 5 --json', 'processes --json', 'bt', 'threads', 'timeline --json', 'tree --json', 'blocks -n 5 --json')

mt.tmp()
os.chmod(mt.tmp(), 0o755)
VICTIM = mt.build('hostile.c', 'gcc', f'-I{mt.TOP}')
if not VICTIM:
    mt.fail('the victim', mt.build_reason('hostile.c', 'gcc'))
    mt.finish()


class Watched:
    """A file and a process that nobody may touch."""
    def __init__(self):
        self.path = f'{mt.tmp()}/of-root.{os.getpid()}'
        with open(self.path, 'w') as f:
            f.write('only root writes this\n')
        os.chmod(self.path, 0o600)
        self.p = mt.popen([VICTIM, 'bystander'])
        mt.until(lambda: self.process()['SigBlk'] != '0' * 16 and self.process()['State'] == 'S')
        self.before = self.file(), self.process()

    def file(self):
        st = os.stat(self.path)
        with open(self.path, 'rb') as f:
            text = f.read(100)
        return text, st.st_mode, st.st_uid, st.st_gid, st.st_size, st.st_mtime_ns, st.st_ctime_ns

    def process(self):
        with open(f'/proc/{self.p.pid}/status') as f:
            return dict(re.findall(r'^(State|TracerPid|SigPnd|ShdPnd|SigBlk):\s*(\S+)', f.read(), re.M))

    def problems(self):
        bad = []
        try:
            if self.file() != self.before[0]:
                bad.append(f'the file is changed: {self.before[0]} became {self.file()}')
        except OSError as e:
            bad.append(f'the file: {e}')
        if self.p.poll() is not None:
            bad.append(f'the process was killed: {self.p.returncode}')
        elif self.process() != self.before[1]:
            bad.append(f'the process: {self.before[1]} became {self.process()}')
        self.p.kill()
        self.p.wait()
        return bad


def memory(pid, field):
    """Of /proc/PID/status, in bytes."""
    try:
        with open(f'/proc/{pid}/status') as f:
            m = re.search(rf'^{field}:\s*(\d+) kB', f.read(), re.M)
            return int(m[1]) << 10 if m else 0
    except OSError:
        return 0


class Scale(threading.Thread):
    """Watches mtrun's own memory, and what its program could have allocated in all that it maps for itself."""
    def __init__(self, pid, victim):
        super().__init__(daemon=True)
        self.pid, self.victim, self.most, self.data, self.over = pid, victim, 0, 0, False
        self.start()

    def run(self):
        while not self.over:
            self.most = max(self.most, memory(self.pid, 'RssAnon'))
            self.data = max([self.data] + [memory(pid, 'VmData') for pid in self.victim()])
            time.sleep(0.05)

    def problems(self):
        self.over = True
        self.join()
        most = (MEMORY + self.data // 16 * 64) * (3 if mt.SLOW > 1 else 1)      # a sanitizer's own
        return [f'{self.most >> 20} MB of memory, bound {most >> 20}'] if self.most > most else []


class Cell:
    def __init__(self, attack, way, rounds=0):
        self.attack, self.way, self.rounds, self.name = attack, way, rounds, f'{attack}, {way}'

    def run(self):
        self.d = f'{mt.tmp()}/{os.getpid()}'
        os.mkdir(self.d)
        self.watched = Watched()
        child = self.way in ('no-follow', 'fork')
        cmd = [VICTIM, 'child' if child else 'own', self.attack, str(MS), str(self.rounds), self.watched.path, str(self.watched.p.pid)]
        out = open(f'{self.d}/out', 'wb')
        mtrun = [mt.MTRUN, '--messages', f'{self.d}/messages', '-X', '-']
        self.target = None
        if self.way == 'attach':
            self.target = mt.popen(cmd, stdout=out, stderr=out)
            mt.until(lambda: 'Uid:\t65534' in open(f'/proc/{self.target.pid}/status').read())
            mtrun += ['-p', str(self.target.pid)]
        else:
            mtrun += (['--no-follow'] if self.way == 'no-follow' else []) + ['--', *cmd]
        self.p = mt.popen(mtrun, stdin=subprocess.PIPE, stdout=open(f'{self.d}/said', 'wb'), stderr=out)
        scale = Scale(self.p.pid, lambda: [self.target.pid] if self.target else mt.children_of(self.p.pid))
        bad = self.ask()
        bad += self.end()
        bad += scale.problems()
        bad += self.watched.problems()
        text = ''
        for name in 'out', 'said':          # the program's stdout is mtrun's, unless it ran before
            with open(f'{self.d}/{name}', errors='replace') as f:
                text += f.read()
        if m := re.search(r'ERROR: \w+Sanitizer.*|.*runtime error.*', text):
            bad.append(m[0][:300])
        if 'nothing of mtrun' in text and not child:
            bad.append('it found nothing to attack')
        mt.check(self.name, bad)
        for pid in mt.children():
            mt.kill(pid)
        mt.until(lambda: not mt.children(), 5)

    def question(self, n, command, seconds):
        """Seconds that its answer took; None: there is none."""
        watch = mt.Stopwatch(self.p.pid)
        try:
            self.p.stdin.write(f'{command}{"" if n == "wait" else f" > {self.d}/{n}"}\necho done > {self.d}/{n}.done\n'.encode())
            self.p.stdin.flush()
        except BrokenPipeError:
            return None
        mt.until(lambda: self.p.poll() is not None or os.path.exists(f'{self.d}/{n}.done') and os.path.getsize(f'{self.d}/{n}.done'), seconds)
        if not os.path.exists(f'{self.d}/{n}.done') or not os.path.getsize(f'{self.d}/{n}.done'):
            return None
        return watch.ms() / 1000

    def ask(self):
        """Questions while it is attacked, then its end."""
        bad = []
        if self.question('first', 'status --json', END) is None:
            return [] if self.p.poll() is not None else ['no first answer']      # how it ended: end()
        until = time.monotonic() + MS / 1000
        n = 0
        while n < len(QUESTIONS) or time.monotonic() < until and n < 1000:
            took = self.question(n, QUESTIONS[n % len(QUESTIONS)], END)
            if took is None:
                if self.p.poll() is None:
                    bad.append(f'no answer to `{QUESTIONS[n % len(QUESTIONS)]}` in {END} s')
                return bad
            if took > ANSWER:
                bad.append(f'`{QUESTIONS[n % len(QUESTIONS)]}` took {took:.1f} s')
            n += 1
        if self.question('wait', 'wait exit', END + self.rounds / 2000) is None and self.p.poll() is None:
            bad.append('its end is not seen')
        elif self.question('last', 'status --json', END) is None and self.p.poll() is None:
            bad.append('no answer after its end')
        return bad

    def running(self):
        """Of mtrun's last answer to `processes`, who has not ended."""
        try:
            with open(f'{self.d}/last') as f:
                return [(p['pid'], p['command'], p['state']) for p in json.load(f)['processes'] if p['state'] not in ('exited', 'replaced')]
        except (OSError, ValueError, KeyError) as e:
            return e

    def descendants(self, pid):
        """PID and whoever came of it, with their states."""
        try:
            with open(f'/proc/{pid}/stat', errors='replace') as f:
                found = [f'{pid} {f.read().rsplit(")", 1)[1].split()[0]} {os.path.basename(mt.exe(pid))}']
        except OSError:
            return []
        return sum((self.descendants(p) for p in mt.children_of(pid)), found)

    def end(self):
        """How mtrun ends, and the program."""
        bad = []
        try:
            self.p.stdin.close()
        except BrokenPipeError:
            pass
        try:
            rc = self.p.wait(END)
        except subprocess.TimeoutExpired:
            bad.append(f'mtrun does not end; there are {self.descendants(self.p.pid)}, and it says: {self.running()}')
            mt.kill(self.p.pid)
            rc = self.p.wait()
        try:
            with open(f'{self.d}/messages', errors='replace') as f:
                messages = f.read()
        except OSError:
            messages = ''
        victim = rc
        if self.target:
            try:
                victim = self.target.wait(END)
            except subprocess.TimeoutExpired:
                bad.append('the program does not end')
                self.target.kill()
                victim = self.target.wait()
        harmed = self.way in ('launch', 'attach') and self.attack in HARMS_ITSELF and victim in (-signal.SIGSEGV, -signal.SIGBUS)
        if rc == 125:
            if not re.search(r'^mtrun: .', messages, re.M):
                bad.append('it failed without a line that says why')
        elif rc < 0 and f'killed by {signal.Signals(-rc).name}' not in messages:
            bad.append(f'mtrun was killed by {signal.Signals(-rc).name}: {messages[-200:]}')
        elif self.target and rc:
            bad.append(f'mtrun ended with {rc}: {messages[-200:]}')
        if victim != 7 and not harmed and not (rc == 125 and not self.target):
            bad.append(f'the program ended with {victim}: {messages[-200:]}')
        return bad


wanted = [a for a in sys.argv[1:] if a in ATTACKS] or ATTACKS
ways = [a for a in sys.argv[1:] if a in WAYS] or WAYS
mt.each([Cell(a, w) for a in wanted for w in ways], Cell.run)
if mt.SOAK and 'words' in wanted:
    mt.each([Cell('words', 'launch', 1000000)], Cell.run, 1)
mt.finish()
