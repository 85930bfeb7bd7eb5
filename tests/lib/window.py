# SPDX-License-Identifier: GPL-3.0-or-later
"""
window - mtrun in a terminal (tmux's), for tests that meet its prompt as a person does: keys are sent, the screen is looked at.
"""
import os
import re
import shutil
import subprocess
import sys
import time

import mt

mt.need_mtrun()
if not shutil.which('tmux'):
    print('tmux is not installed')
    sys.exit(77)
d = mt.tmp()
PROMPT = mt.build('prompt.c')
ENV = {**os.environ, 'HOME': d, 'PS1': '$ ', 'HISTFILE': '', 'PAGER': 'cat', 'LC_ALL': 'C.UTF-8'}
for name in ('XDG_STATE_HOME', 'XDG_CONFIG_HOME', 'TMUX', 'INPUTRC'):
    ENV.pop(name, None)


class Terminal:
    """A shell with job control in a window of its own."""
    count = 0

    def __init__(self, rows=30, columns=100):
        Terminal.count += 1
        self.name = f'mtrun-test-{os.getpid()}-{Terminal.count}'
        self.marks = 0
        self.tmux('-f', '/dev/null', 'new-session', '-d', '-x', str(columns), '-y', str(rows), 'bash --norc --noprofile')
        self.tmux('set-option', '-g', 'history-limit', '20000')
        self.wait(r'\S')
        self.send("PS1='$ ' TERM=screen; cd; stty -a > before; clear\n")
        self.wait(r'\A\$ $', history=False)
        self.tmux('clear-history')

    def tmux(self, *args):
        return subprocess.run(['tmux', '-L', self.name, *args], env=ENV, capture_output=True, text=True).stdout

    def send(self, text):
        words = []
        for part in re.findall(r'\n|[^\n]+', text):
            words += [';', 'send-keys', *(('Enter',) if part == '\n' else ('-l', re.sub(';$', r'\\;', part)))]
        self.tmux(*words[1:])

    def has_size(self):
        """A prompt is made to come again by another size, for a moment."""
        size = self.tmux('display-message', '-p', '#{pane_tty} #{pane_width} #{pane_height}').split()
        with open(size[0]) as f:
            return os.get_terminal_size(f.fileno()) == (int(size[1]), int(size[2]))

    def key(self, *keys):
        self.tmux('send-keys', *keys)

    def screen(self, history=True):
        """What is to be seen, without the empty lines below; a line's trailing blanks are gone, but for the prompts'."""
        text = self.tmux('capture-pane', '-p', '-J', *(('-S', '-5000') if history else ()))
        return re.sub(r'^(\$|mt>|  >)$', r'\1 ', re.sub(r' +$', '', text.rstrip(), flags=re.M), flags=re.M)

    def wait(self, pattern, seconds=30, history=True):
        end = time.monotonic() + seconds
        while True:
            text = self.screen(history)
            m = re.search(pattern, text, re.M if '\\Z' in pattern else 0)
            if m:
                return m
            if time.monotonic() > end:
                self.last = text
                return None
            time.sleep(0.05)

    def start(self, words, opts=''):
        self.send(f'{mt.MTRUN} {opts} -- {words}\n')
        if not self.wait(r'mt> $'):
            raise Problem(f'no prompt: {self.last[-500:]!r}')

    def run(self, commands, seconds=30):
        """What COMMANDS print."""
        self.marks += 1
        mark = f'mark-{os.getpid()}-{self.marks}'
        self.send(f'{commands}; echo {mark}\n')
        m = self.wait(rf'; echo {mark}\n((?:.*\n)*?){mark}\n(.*\n)*mt> $', seconds)
        if not m:
            raise Problem(f'{commands}: {self.last[-700:]!r}')
        return m[1]

    def expect(self, pattern, seconds=30, history=True):
        m = self.wait(pattern, seconds, history)
        if not m:
            raise Problem(f'{pattern!r} did not come: {self.last[-700:]!r}')
        return m

    def pid(self):
        return int(re.search(r'program +(\d+)', self.run('status'))[1])

    def close(self):
        self.tmux('kill-server')


class Problem(Exception):
    pass


def alive(pid):
    try:
        with open(f'/proc/{pid}/stat') as f:
            return f.read().rsplit(')', 1)[1].split()[0] != 'Z'
    except OSError:
        return False


def mtrun_of(pid):
    with open(f'/proc/{pid}/status') as f:
        return int(re.search(r'PPid:\s*(\d+)', f.read())[1])


def traced(pid):
    with open(f'/proc/{pid}/status') as f:
        return int(re.search(r'TracerPid:\s*(\d+)', f.read())[1])


def case(name):
    """Runs the function that follows with a terminal; everything it started is ended after it."""
    def decorate(fn):
        if len(sys.argv) > 1 and not any(a in name for a in sys.argv[1:]):
            return
        t = Terminal()
        bad = []
        try:
            fn(t, bad)
        except Problem as e:
            bad.append(str(e))
        except Exception as e:                      # the other cases are tried all the same
            bad.append(f'{type(e).__name__}: {e}; {t.screen()[-500:]!r}')
        t.close()
        mt.until(lambda: not [mt.kill(pid) for pid in mt.children()])
        mt.check(name, bad)
    return decorate


def shell_again(t, bad, what):
    """The user's shell has its terminal, as it was."""
    t.send(f'stty -a > after; cmp before after && echo sane-{len(what)}\n')
    if not t.wait(rf'\nsane-{len(what)}\n'):
        bad.append(f'{what}: the terminal is not as it was: {t.last[-300:]!r}')
