#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# waits
# timeout: 400
"""terminal - the prompt as a person meets it: mtrun in a terminal (tmux's), keys sent, the screen looked at."""
import os
import re
import shutil
import signal
import time

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt
from window import PROMPT, Problem, alive, case, d, mtrun_of, shell_again, traced


@case('commands, errors and help at the prompt')
def _(t, bad):
    t.start(f'{PROMPT} 2')
    if not re.search(r'program +\d+ \(prompt\), running', t.run('status')):
        bad.append('status')
    text = t.run('wait allocs>=100; report')
    if not re.search(r'prompt\.c:2', text):
        bad.append(f'report: {text}')
    for what, words in {'foo': 'unknown command', 'report "x': 'quote', 'report --match (': 'regular expression', 'x 0x1': 'mapped', 'echo a > /dev/full': 'No space',
                        'echo a | no-such-command': 'no-such-command', 'record 5M': "'5M'", 'limit 5X': "'5X'", 'interval 0': "'0'"}.items():
        t.send(what + '\n')
        m = t.wait(re.escape(what) + r'\n((?:.*\n)+)mt> $')
        lines = [x for x in (m[1].splitlines() if m else []) if x.startswith('mtrun: ')]
        if len(lines) != 1 or words not in lines[0]:
            bad.append(f'{what}: {m and m[1]!r}')
    open(f'{d}/ticks', 'w').close()
    t.run('every 50ms { echo tick; echo tick >> ticks }')
    seen = {}   # how many bytes, and since when
    mt.until(lambda: seen.setdefault(os.path.getsize(f'{d}/ticks'), time.monotonic()) and len(seen) > 22)
    since = list(seen.values())[1:]
    gaps = sorted(b - a for a, b in zip(since, since[1:]))
    if len(gaps) < 20 or gaps[10] > 0.075:  # the median: the machine may stand still now and then
        bad.append(f'every: {gaps}')
    t.run('every off')
    if t.screen().count('tick\n') < 4:
        bad.append('every: what it prints')
    t.send('on exit {\n')
    t.expect(r'\n  > $')
    t.send('echo it has ended\n}\n')
    t.expect(r'mt> $')
    if 'on exit' not in t.run('on'):
        bad.append('on')
    t.send('kill\n')
    t.expect(r'\nit has ended\n(.*\n)*mtrun: prompt \(\d+\) killed by SIGKILL; .*\n(.*\n)*mt> $')
    text = t.run('report; bt')
    if 'prompt.c' not in text or 'thread' not in text:
        bad.append(f'nothing is answered after its end: {text}')
    t.run('run')
    if 'running' not in t.run('status'):
        bad.append('run')
    os.kill(mtrun_of(t.pid()), signal.SIGUSR1)
    t.expect(r"mtrun: wrote '\./mtrun\.\d+\.0\.u0\.heap'\n(.*\n)*mt> $")
    os.kill(mtrun_of(t.pid()), signal.SIGUSR2)          # at the prompt it is passed on to nobody
    if 'running' not in t.run('wait 0.2; status'):
        bad.append('SIGUSR1, SIGUSR2')
    t.send('quit\n')
    t.expect(r'ancel\?$')
    t.send('k')
    t.expect(r'\n\$ $')
    t.send('echo "status=$?"\n')
    t.expect(r'\nstatus=0\n')
    shell_again(t, bad, 'quit')


@case('completion')
def _(t, bad):
    t.start(f'{PROMPT} 1')
    for keys, pattern in {'rep': r'mt> report$', 'report --st': r'mt> report --stacks$', 'report --s': r'--sort +--stacks', 'report --by si': r'site +size', 'sta': r'mt> status$',
                          'kill TE': r'mt> kill TERM$', 'help proc': r'process +processes', 'set site-s': r'mt> set site-skip$', 'source /et': r'mt> source /etc/$',
                          'report > /usr/bi': r'mt> report > /usr/bin/$', 'report --match print_s': r'mt> report --match print_size$', 'every 1s { stat': r'mt> every 1s { status$',
                          'echo a; hist': r'mt> echo a; history$', 'report --match fgets': r'fgets'}.items():
        t.send(keys)
        t.key('Tab')
        if not t.wait(pattern, 1):
            t.key('Tab')
        if not t.wait(pattern, 3):
            bad.append(f'{keys}: {t.last[-200:]!r}')
        t.key('C-c')
        t.expect(r'mt> $')
        t.key('C-l')
        t.expect(r'\Amt> $', history=False)


@case('history and start-up commands')
def _(t, bad):
    os.makedirs(f'{d}/.config/mtrun', exist_ok=True)
    with open(f'{d}/.config/mtrun/rc', 'w') as f:
        f.write('echo from the rc file\n')
    t.start(f'{PROMPT} 0')
    if not t.wait(r'\nfrom the rc file\n'):
        bad.append('the rc file is not run')
    os.unlink(f'{d}/.config/mtrun/rc')
    t.run('echo to be remembered')
    t.send('quit\n')
    t.expect(r'ancel\?')
    t.send('k')
    t.expect(r'\n\$ $')
    t.send('clear\n')
    t.start(f'{PROMPT} 0')
    t.key('C-r')
    t.send('be rem')
    if not t.wait(r'echo to be remembered'):
        bad.append('Ctrl-R finds nothing')
    t.key('C-c')
    t.expect(r'mt> $')
    if 'to be remembered' not in t.run('history 5'):
        bad.append('history')


@case('the program prints while a line is typed')
def _(t, bad):
    t.start(f'{PROMPT} flood')
    for c in 'echo what was typed is whole':
        t.send(c)
    t.expect(r'mt> echo what was typed is whole\s*\Z', history=False)
    for _ in range(10):
        lines = t.screen(False).splitlines()
        if lines[1:] and re.fullmatch(r'l?i?n?e? ?\d* ?x*', lines[-2]):
            del lines[-2]           # the rest of it has not come yet
        wrong = [x for x in lines[:-1] if not re.fullmatch(r'line \d+ x+', x)]
        if wrong[:1] and not re.match(r'\S*/mtrun |mt> |\$ ', wrong[0]) or len(wrong) > 2:
            bad.append(f'garbled: {wrong[:3]}')
            break
    t.key('C-c')
    t.send('stop\n')
    t.expect(r'mt> stop\n(.*\n)*mt> $')
    t.send('echo on\n')
    t.expect(r'mt> echo on\non\nmt> $')
    t.send('cont\n')
    t.send('kill\n')
    t.expect(r'killed by SIGKILL')


@case('a question without a newline, and keys by fg')
def _(t, bad):
    t.start(f'{PROMPT} words')
    t.expect(r'\nword\?\n(mtrun: .*\n)?mt> $')    # the question may come before the greeting
    t.send('fg\n')
    t.expect(r'mt> fg\nword\?$')
    t.send('one\n')
    t.expect(r'\nword\? one\nword one\nword\?$')
    t.key('C-z')
    t.expect(r'\nword one\nword\?\nmt> $')
    if 'running' not in t.run('status'):
        bad.append('not running after Ctrl-Z')
    t.send('fg\n')
    t.send('two\n')
    t.expect(r'\nword two\nword\?$')
    t.key('C-d')
    t.expect(r'exited with status 0.*\n(.*\n)*mt> $')
    t.send('run; wait 500ms; echo a line of ours\n')
    t.expect(r'\nword\?\na line of ours\nmt> $')
    t.send('fg\n')
    t.expect(r'mt> fg\nword\?$')
    t.send('three\n')
    t.expect(r'\nword\? three\nword three\nword\?$')
    t.key('C-d')
    t.expect(r'exited with status 0.*\n(.*\n)*mt> $')
    t.key('C-d')
    t.expect(r'\n\$ $')
    shell_again(t, bad, 'end')


@case('fg with programs that edit lines')
def _(t, bad):
    t.start('bash --norc --noprofile')
    t.send('fg\n')
    t.send('echo $((6 * 7))\n')
    t.expect(r'\n42\n')
    t.send('sleep 100\n')
    t.expect(r'sleep 100\Z')
    time.sleep(0.5)
    t.key('C-c')
    time.sleep(0.5)
    t.send('echo "after=$?"\n')
    t.expect(r'\nafter=130\n')
    t.key('C-z')
    t.expect(r'mt> $')
    t.run('status')
    t.send('fg\n')
    t.send('exit 5\n')
    t.expect(r'bash \(\d+\) exited with status 5')
    t.send('quit\n')
    t.expect(r'\n\$ $')
    t.send('echo "status=$?"\n')
    t.expect(r'\nstatus=5\n')
    for program, text, answer, end in (('python3', 'print(6 * 7)', '42', 'exit()'), ('sqlite3', 'select 6 * 7;', '42', '.quit')):
        if not shutil.which(program):
            mt.skip(f'fg with {program}', 'it is not installed')
            continue
        t.send('clear\n')
        t.start(program)
        t.send('fg\n')
        t.send(text + '\n')
        t.expect(rf'\n{answer}\n')
        t.send(end + '\n')
        t.expect(rf'{program} \(\d+\) exited with status 0.*\nmt> $')
        t.send('quit\n')
        t.expect(r'\n\$ $')


@case('the window changes its size')
def _(t, bad):
    t.start(f'{PROMPT} size')
    t.expect(r'\nsize 30 100\n')
    t.send('echo a b c')
    t.tmux('resize-window', '-x', '60', '-y', '20')
    t.expect(r'\nsize 20 60\n')
    t.expect(r'mt> echo a b c$')
    t.key('Enter')
    t.expect(r'\na b c\nmt> $')


@case('Ctrl-C ends the command, never the program')
def _(t, bad):
    t.start(f'{PROMPT} 2')
    pid = t.pid()
    t.send('echo not to be run')
    t.key('C-c')
    t.expect(r'\^C\nmt> $')
    t.send('wait 100s; echo not this\n')
    time.sleep(0.3)
    t.key('C-c')
    t.expect(r'\n\^C\n+mt> $')
    t.send('top\n')
    t.expect(r'^prompt \(\d+\) running.*\n(.*\n)*total .* blocks', history=False)
    t.key('C-c')
    t.expect(r'mt> $', history=False)
    t.send('top -n 1\n')
    t.expect(r'^prompt \(\d+\) running', history=False)
    time.sleep(1.2)
    t.send('q')
    t.expect(r'mt> $', history=False)
    t.send('every 1ms\n')
    t.expect(r"invalid value '1ms'")
    t.send("! yes 'a long report' | head -100000000\n")
    t.expect(r'^a long report\n', history=False)
    t.key('C-c')
    t.expect(r'a long report\n(.*\n)*?.*\^C\n+mt> $', history=False)
    text = t.screen()
    if 'not to be run\nnot' in text or '\nnot this' in text:
        bad.append('commands went on')
    if not alive(pid) or 'running' not in t.run('status'):
        bad.append('the program was hit')


@case('top: what was on the screen comes back')
def _(t, bad):
    t.start(f'{PROMPT} 2')
    t.run('echo something on the screen')
    before = t.screen(False)
    picture = r'\Aprompt \(\d+\) running.*\ntotal .* blocks\nFUNCTION .*\n(.*\n)*.*prompt\.c:'
    for what, columns, rows in ('q', 80, 24), ('C-c', 60, 12), ('C-z', 100, 30):
        t.send('top\n')
        t.expect(picture, history=False)
        for x, y in ((200, 50), (40, 8), (columns, rows)):
            t.tmux('resize-window', '-x', str(x), '-y', str(y))
            t.expect(rf'\Aprompt .*\ntotal.*\nFUNCTION .*\n.* {"prom…" if x == 40 else "/.*prompt.c" if x == 200 else ".*prompt.c"}:\d+ ', 5, history=False)
            if 'mt>' in t.screen(False) or t.screen(False).count('FUNCTION') != 1:
                bad.append(f'{what}: {x} by {y}: {t.screen(False)!r}')
        t.key(what)
        if what == 'C-z':
            t.expect(r'\n\[1\]\+ +Stopped.*\n\$ $', history=False)
            t.send('fg\n')
            t.expect(picture, history=False)
            t.send('q')
        t.expect(r'mt> top\n(.*\n)*mt> $', history=False)       # (tmux has its own idea of the line after new sizes)
        t.tmux('resize-window', '-x', '100', '-y', '30')
        if f'{before}top\n' not in t.screen() or 'FUNCTION' in t.screen():
            bad.append(f'{what}: {before!r} {t.screen()!r}')
        t.key('C-l')
        t.expect(r'\Amt> $', history=False)
        t.run('echo something on the screen')
        before = t.screen(False)
    pid = t.pid()
    t.run('every 50ms { echo told meanwhile; echo told >> told }')
    t.send('top\n')
    t.expect(picture, history=False)
    told = os.path.getsize(f'{d}/told') if os.path.exists(f'{d}/told') else 0
    mt.until(lambda: os.path.exists(f'{d}/told') and os.path.getsize(f'{d}/told') > told + len('told\n'))
    os.kill(pid, signal.SIGKILL)                    # the program's end is top's
    t.expect(r'mt> top\n(told meanwhile\n)+mtrun: prompt \(\d+\) killed by SIGKILL.*\n(.*\n)*mt> $')
    t.run('every off')
    t.send('top\n')                                 # it has ended before: until a key
    t.expect(r'\Aprompt \(\d+\) exited', history=False)
    os.kill(mtrun_of(pid), signal.SIGKILL)
    t.expect(r'\nmt> top\n(.*\n)*\$ $', history=False)
    mt.until(t.has_size)
    shell_again(t, bad, 'killed')


def pager_of(mtrun):
    """The less that mtrun has started by /bin/sh; None: there is none."""
    for pid in [p for sh in mt.children_of(mtrun) for p in [sh, *mt.children_of(sh)]]:
        if mt.exe(pid).endswith('/less'):
            return pid
    return None


@case('a list that is longer than the screen has a pager')
def _(t, bad):
    if not shutil.which('less'):
        mt.skip('less', 'it is not installed')
        return
    t.send('unset PAGER LESS; clear\n')
    t.start(f'{PROMPT} 2')
    pid = t.pid()
    mtrun = mtrun_of(pid)
    t.run('every 50ms { echo told; echo told >> told }')
    for key, then in ('C-c', ''), ('C-z', r'\n\[1\]\+ +Stopped.*\n\$ $'), ('G', r'\n\(END\)$'):
        t.send('help all\n')
        t.expect(r'(.*\n){29}:$', history=False)
        less = pager_of(mtrun)
        files = [os.readlink(f'/proc/{less}/fd/{n}') for n in os.listdir(f'/proc/{less}/fd')]
        if sorted(x[:5] for x in files) not in (['/dev/', '/dev/', '/dev/', 'pipe:'], ['/dev/', '/dev/', 'pipe:']):
            bad.append(f'less has {files}')
        size = os.path.getsize(f'{d}/told')
        mt.until(lambda: os.path.getsize(f'{d}/told') > size + 20)      # the program is looked after, and that is told later
        if 'told' in t.screen(False):
            bad.append(f'told over it: {t.screen(False)!r}')
        t.key(key)
        if key == 'C-z':
            t.expect(then, history=False)
            t.send('fg\n')
            t.expect(r'\n:$', history=False)
        elif then:
            t.expect(then, history=False)
        t.send('q')
        if key == 'C-c' and not mt.until(lambda: not pager_of(mtrun), 2):       # less forgets a key that comes with an interrupt
            t.send('q')
        t.expect(r'\n(told\n)+mt> $', history=False)
        if pager_of(mtrun):
            bad.append(f'less after {key}')
        t.run('echo')
    t.run('every off')
    t.send('help all; echo and on\n')
    t.expect(r'\n:$', history=False)
    os.kill(pager_of(mtrun), signal.SIGKILL)
    t.expect(r'\nand on\nmt> $')
    if not alive(pid) or 'running' not in t.run('status'):
        bad.append('the program was hit')
    if 'mt> help; echo' not in t.run('help') + t.screen(False):         # it fits
        bad.append(f'help: {t.screen(False)!r}')
    t.send('quit\n')
    t.expect(r'ancel\?$')
    t.send('k')
    t.expect(r'\n\$ $')
    shell_again(t, bad, 'pager')

    def listed(pager, command='help all', **env):
        t.send('clear\n')
        t.tmux('clear-history')
        t.send(f"PAGER='{pager}' {mt.MTRUN} -q true\n")
        t.expect(r'mt> $')
        text = t.run(command)
        t.send('quit\n')
        t.expect(r'\n\$ $')
        return text
    plain = listed('cat')
    if plain.count('\n') < 45 or 'sites' not in plain:
        bad.append(f'help all: {plain!r}')
    with open(f'{d}/script', 'w') as f:
        f.write('help all\n')
    for what, got, expected in (('none', listed(''), plain), ('sed', listed('sed s/^/+/'), re.sub('^', '+', plain, flags=re.M)[:-1]), ('one that ends early', listed('head -n 2'), ''.join(plain.splitlines(True)[:2])),
                                ('there is none', re.sub('^.*no-such-pager.*\n', '', listed('no-such-pager')), plain), ('a script', listed('sed s/^/+/', 'source script'), plain),
                                ('a pipe', listed('sed s/^/+/', 'help all | wc -l > lines; ! head -n 3 lines').count('+'), 0)):
        if got != expected:
            bad.append(f'{what}: {got!r}')
    t.send(f"PAGER='sed s/^/+/' {mt.MTRUN} -q -x 'help all' true\n")
    t.expect(r'\n\$ $')
    if '\n+' in t.screen():
        bad.append('a pager in batch')


@case('Ctrl-Z at the prompt suspends mtrun')
def _(t, bad):
    t.start(f'{PROMPT} 1')
    pid = t.pid()
    t.send('echo half')
    t.expect(r'mt> echo half$')        # what mtrun has not read yet the terminal would forget
    t.key('C-z')
    t.expect(r'Stopped.*\n\$ $')
    shell_again(t, bad, 'suspended')
    t.send('fg\n')
    t.expect(r'mt> echo half$')
    t.send(' a line\n')
    t.expect(r'\nhalf a line\nmt> $')
    if not alive(pid):
        bad.append('the program is gone')


@case('Ctrl-D asks')
def _(t, bad):
    t.start(f'{PROMPT} 1')
    pid = t.pid()
    t.key('C-d')
    t.expect(r'ancel\?$')
    t.send('xc')
    t.expect(r'\(c\)ancel\? c\nmt> $')
    t.key('C-d')
    t.expect(r'mt> \n.*\(c\)ancel\?$')
    t.send('d')
    t.expect(r'\n\$ $')
    shell_again(t, bad, 'detached')
    if not alive(pid) or traced(pid):
        bad.append('the program does not live on by itself')
    mt.kill(pid)


@case('stop, cont, bt, threads, gdb on a program with threads')
def _(t, bad):
    t.start(f'{PROMPT} 8')
    pid = t.pid()
    for _ in range(3):
        t.run('stop')
        with open(f'/proc/{pid}/stat') as f:
            if f.read().rsplit(')', 1)[1].split()[0] != 't':
                bad.append('stop does not')
        if t.run('bt | grep -c ^thread').strip() != '9':
            bad.append('bt of the stopped program')
        t.run('cont')
        if 'running' not in t.run('status | head -1'):
            bad.append('cont does not')
        if t.run('bt | grep -c allocate').strip() != '8':
            bad.append('bt of the running program')
    if t.run('threads --json | grep -o tid | wc -l').strip() != '9':
        bad.append('threads')
    if shutil.which('gdb'):
        t.send("gdb -nx -q -batch -ex 'info threads'\n")
        t.expect(r'\n +9 +(Thread|LWP).*\n(.*\n)*mt> $', 30)
        before = int(t.run('status --json | grep -o \'"allocs":[0-9]*\' | head -1').split(':')[1])
        time.sleep(0.2)
        if traced(pid) != mtrun_of(pid) or int(t.run('status --json | grep -o \'"allocs":[0-9]*\' | head -1').split(':')[1]) <= before:
            bad.append('not taken back from gdb')
        if t.run('bt | grep -c ^thread').strip() != '9':
            bad.append('bt after gdb')
    else:
        mt.skip('gdb', 'it is not installed')
    t.run('detach')
    if not alive(pid) or traced(pid):
        bad.append('detach')
    if 'detached' not in t.run('status'):
        bad.append('nothing is answered after detach')
    t.send('quit\n')
    t.expect(r'\n\$ $')
    mt.kill(pid)


for signame in ('KILL', 'TERM', 'HUP'):
    @case(f'SIG{signame} to mtrun')
    def _(t, bad, signame=signame):
        t.start(f'{PROMPT} 2')
        pid = t.pid()
        t.send('echo half a li')
        t.expect('half a li')
        os.kill(mtrun_of(pid), getattr(signal, 'SIG' + signame))
        t.expect(r'\n(Killed.*\n)?\$ $')
        shell_again(t, bad, signame)
        time.sleep(0.3)
        if not alive(pid) or traced(pid):
            bad.append('the program does not live on by itself')
        mt.kill(pid)


for command, shows in (('top', r'total .* blocks'), ('fg', r'mt> fg'), ('wait 100s', r'wait 100s'), ('! sleep 100', 'sleep 100'), ('source fifo', 'source fifo'), *((('help all', r'\n:$'),) if shutil.which('less') else ())):
    for signame in ('TERM', 'KILL') if command != 'help all' else ('TERM',):        # (less outlives a mtrun that is killed, and takes one key more)
        @case(f'SIG{signame} during {command}')
        def _(t, bad, command=command, shows=shows, signame=signame):
            t.send('rm -f fifo; mkfifo fifo; export PAGER=less; clear\n')
            t.start(f'{PROMPT} 1')
            pid = t.pid()
            mtrun = mtrun_of(pid)
            t.send(command + '\n')
            t.expect(shows)
            time.sleep(0.2)
            os.kill(mtrun, getattr(signal, 'SIG' + signame))
            if not mt.until(lambda: not alive(mtrun), 8):
                bad.append('mtrun is still there')
            if not mt.until(lambda: t.tmux('display-message', '-p', '#{alternate_on}').strip() == '0', 8):
                bad.append('the other screen is still there')
            t.expect(r'\$ $')
            mt.until(t.has_size)
            shell_again(t, bad, command)
            if not alive(pid) or traced(pid):
                bad.append('the program does not live on by itself')
            mt.kill(pid)


@case('SIGKILL during top, and the shell is faster than the keeper')
def _(t, bad):
    t.start(f'{PROMPT} 1')
    pid = t.pid()
    mtrun = mtrun_of(pid)
    keeper = [p for p in mt.children_of(mtrun) if open(f'/proc/{p}/comm').read() == 'mtrun-keeper\n'][0]
    t.send('top\n')
    t.expect(r'total .* blocks')
    os.kill(keeper, signal.SIGSTOP)
    os.kill(mtrun, signal.SIGKILL)
    t.expect(r'\$ $', history=False)                # on the other screen
    os.kill(keeper, signal.SIGCONT)
    t.expect(r'\nmt> top\n(.*\n)*\$ $', history=False)
    mt.until(t.has_size)
    shell_again(t, bad, 'late')
    mt.kill(pid)


@case('what the program prints after mtrun was killed')
def _(t, bad):
    t.start(f'{PROMPT} words')
    pid = t.pid()
    t.send('fg\n')
    t.send('one\n')
    t.expect(r'word one\n')
    os.kill(mtrun_of(pid), signal.SIGKILL)
    t.expect(r'\$ $')
    shell_again(t, bad, 'raw')
    if not alive(pid):
        bad.append('the program is gone')
    mt.kill(pid)


HANGUP = mt.build('hangup.c')


def closed(t, words, opts, end):
    """What the end of the terminal (or whatever END does to mtrun's process id) does to hangup MODE: its lines, and who lives on a moment later."""
    log = f'{d}/hangup-{t.name}'
    t.send(f'{mt.MTRUN + " " + opts + " -- " if opts is not None else ""}{words} {log}\n')
    ups = 2 if ' child' in words else 1
    up = mt.until(lambda: os.path.exists(log) and (m := re.findall(r'(\d+) up', open(log).read())) and len(m) == ups and m)
    if not up:
        raise Problem(f'it did not begin: {t.screen()[-300:]!r}')
    pids = [int(p) for p in up]
    parent = mtrun_of(next(p for p in pids if mtrun_of(p) not in pids))
    if opts == '':
        t.expect(r'mt> $')
    end(t, parent)
    if opts == '' and not mt.until(lambda: not alive(parent), 10):
        raise Problem('mtrun is still there')
    if end is close_terminal and not mt.until(lambda: not [p for p in mt.children() if open(f'/proc/{p}/comm').read() == 'mtrun-keeper\n'], 5):
        raise Problem('the keeper is still there')
    if end is close_terminal:
        mt.until(lambda: not alive(min(pids)) or 'end' in open(log).read(), 8)
    quiet = os.path.getsize(log), time.monotonic()
    while time.monotonic() < quiet[1] + 0.4:                # what is not to come is waited for, too
        if os.path.getsize(log) != quiet[0]:
            quiet = os.path.getsize(log), time.monotonic()
        time.sleep(0.02)
    with open(log) as f:
        lines = f.read().split('\n')[:-1]
    lives = [alive(p) for p in sorted(pids)]
    if opts == '' and [p for p in pids if alive(p) and traced(p)]:
        raise Problem('still traced')
    for p in pids:
        mt.kill(p)
    os.unlink(log)
    return {x.split()[1] for x in lines} - ({'end'} if not lives[0] else set()), lives     # it may have seen the end before it died of it


def close_terminal(t, mtrun):
    t.tmux('kill-server')


def hup(t, mtrun):
    os.kill(mtrun, signal.SIGHUP)


for mode in ('default', 'handle', 'ignore', 'child'):
    natively = []

    @case(f'the terminal is closed, natively: {mode}')
    def _(t, bad, mode=mode, natively=natively):
        natively += closed(t, f'{HANGUP} {mode}', None, close_terminal)

    for opts in ('', '-q -x "wait exit"'):
        @case(f'the terminal is closed: {mode}{" in batch" if opts else ""}')
        def _(t, bad, mode=mode, opts=opts, natively=natively):
            if natively and [*(got := closed(t, f'{HANGUP} {mode}', opts, close_terminal))] != natively:
                bad.append(f'natively {natively}, here {got}')


@case('the terminal is closed over a stopped program')
def _(t, bad):
    got = closed(t, f'{HANGUP} stop', '', close_terminal)      # (natively it is the user's shell that kills stopped jobs)
    if got != ({'up', 'HUP', 'CONT', 'end'}, [True]):
        bad.append(got)


@case('a HUP by kill(2) is not the end of the terminal')
def _(t, bad):
    got = closed(t, f'{HANGUP} handle', '', hup)
    if got != ({'up'}, [True]):
        bad.append(got)
    shell_again(t, bad, 'HUP')


@case('the terminal is closed over a shell with jobs')
def _(t, bad):
    logs = [f'{d}/{x}' for x in ('back', 'front')]
    t.start('bash --norc --noprofile')
    t.send('fg\n')
    for log, end in zip(logs, (' &', '')):
        t.send(f'{HANGUP} default {log}{end}\n')
        if not mt.until(lambda: os.path.exists(log) and 'up' in open(log).read()):
            bad.append(f'{log} did not begin')
    pids = [int(open(log).read().split()[0]) for log in logs]
    t.tmux('kill-server')
    if not mt.until(lambda: not any(alive(p) for p in pids), 10):
        bad.append(f'{[alive(p) for p in pids]} live on')
    for log in logs:
        os.unlink(log)


@case('the terminal is closed: an attached program gets nothing')
def _(t, bad):
    log = f'{d}/attached'
    p = mt.popen([HANGUP, 'handle', log], stdin=-1)
    mt.until(lambda: os.path.exists(log) and 'up' in open(log).read())
    t.send(f'{mt.MTRUN} -p {p.pid}\n')
    t.expect(r'mt> $')
    mtrun = traced(p.pid)
    t.tmux('kill-server')
    if not mt.until(lambda: not alive(mtrun), 10):
        bad.append('mtrun is still there')
    time.sleep(0.3)
    if open(log).read() != f'{p.pid} up\n' or traced(p.pid):
        bad.append(open(log).read())
    p.kill()
    p.wait()


@case('redirected descriptors stay redirected')
def _(t, bad):
    t.send(f"{mt.MTRUN} -- sh -c 'ls -l /proc/self/fd/0 /proc/self/fd/1; tty <&2; read x; echo $x' > out < /dev/tty\n")
    t.expect(r'mt> $')
    t.send('fg\n')
    t.send('typed\n')
    t.expect(r'exited with status 0')
    with open(f'{d}/out') as f:
        text = f.read()
    if not re.search(r'fd/0 -> (/dev/pts/\d+)\n.*fd/1 -> \S*/out\n\1\ntyped\n', text):
        bad.append(text)


mt.finish()
