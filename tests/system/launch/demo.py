#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 300
# waits
"""
demo.py - the first minute: ./bootstrap demo, on a terminal, as a newcomer has it, runs through; and what apt-get says is shown only if it fails.

In the long form it is a clean clone that is built. (What is not committed is not in it.)
"""
import os
import pty
import re
import select
import stat
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt  # noqa: E402

mt.need_mtrun()


def on_terminal(command, cwd, env, seconds):
    """What COMMAND prints on a terminal that nobody types at, and its status; None if it had not ended."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.environ.update(env)
        os.execvp(command[0], command)
    text, end = b'', time.monotonic() + seconds
    while time.monotonic() < end:
        if not select.select([fd], [], [], 1)[0]:
            continue
        try:
            got = os.read(fd, 65536)
        except OSError:
            break
        if not got:
            break
        text += got
    else:
        mt.kill(pid)
        os.waitpid(pid, 0)
        os.close(fd)
        return text.decode(errors='replace'), None
    os.close(fd)
    return text.decode(errors='replace'), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def demo(name, cwd, arguments):
    with open(os.path.join(mt.TOP, 'tests', 'demo', 'demo')) as f:
        titles = re.findall(r'^title "(.*?)"', f.read(), re.M)
    text, status = on_terminal(['./bootstrap', 'demo', *arguments], cwd, {'TERM': 'xterm'}, 250 if not mt.SOAK else 2500)
    bad = [] if status == 0 else [f'{"it does not end" if status is None else f"status {status}"}: ...{text[-300:]!r}']
    bad += [f'no section {t!r}' for t in titles if f'==== {t}' not in text]
    if len(titles) < 5:
        bad.append(f'{len(titles)} titles')
    if 'mt>' in text:
        bad.append('there is a prompt')
    said = re.search(r'in (\d+) nodes, .*, (\d+) forgotten bytes in (\d+) blocks', text)
    rows = dict(re.findall(r'server\.cc:(\d+) +\S+ +[\d.]+% +(\d+)', text.partition('2. at its end')[2].partition('====')[0]))
    if not said or rows.get('18') != said[1] or rows.get('20') != said[3]:
        bad.append(f'the program says {said and said.groups()}, the rows {rows}')
    mt.check(name, bad)


if not mt.shutil.which('g++'):
    mt.skip('the demo', 'no g++')
elif mt.SOAK:
    clone = os.path.join(mt.tmp(), 'clone')
    subprocess.run(['git', 'clone', '-q', '--depth', '1', 'file://' + mt.TOP, clone], check=True)
    demo('a clean clone: ./bootstrap demo on a terminal', clone, [])
else:
    demo('./bootstrap demo on a terminal', mt.TOP, [f'BUILD={mt.BUILD}'])


def stub(name, text):
    path = os.path.join(mt.tmp(), 'bin', name)
    with open(path, 'w') as f:
        f.write('#!/bin/sh\n' + text)
    os.chmod(path, stat.S_IRWXU)


# Somebody who is not root, with nothing installed until apt-get has run; nothing here touches the system.
os.mkdir(os.path.join(mt.tmp(), 'bin'))
stub('id', 'echo 1000\n')
stub('sudo', '[ "$1" = env ] || exit 0\nexec "$@"\n')
stub('make', 'echo "made: $*"\n')
stub('dpkg-query', f'[ -e {mt.tmp()}/installed ] && echo installed\n')


def installing(name, apt, status, want, but):
    if os.path.exists(f'{mt.tmp()}/installed'):
        os.unlink(f'{mt.tmp()}/installed')
    stub('apt-get', apt)
    text, got = on_terminal(['./bootstrap', 'all'], mt.TOP, {'PATH': f'{mt.tmp()}/bin:{os.environ["PATH"]}'}, 60)
    bad = [f'status {got}: {text[-300:]!r}'] if got != status else []
    bad += [f'nothing of {w!r} in {text[-500:]!r}' for w in want if w not in text]
    bad += [f'{b!r} is in {text[-500:]!r}' for b in but if b in text]
    mt.check(name, bad)


installing('what apt-get says is not shown', f'seq -f "Get:%g" 380; echo oh >&2; touch {mt.tmp()}/installed\n', 0,
           ['to be installed with apt-get: gcc make', 'made: -j'], ['Get:', 'oh'])
installing('unless it fails', 'seq -f "Get:%g" 380; echo no such package >&2; exit 100\n', 1,
           ['Get:380', 'no such package', 'cannot build without: gcc'], ['made:'])
# once for the lists, once for the packages
installing('and a lock that another one has is waited for', f"""
[ -e {mt.tmp()}/held-$4 ] && touch {mt.tmp()}/installed && exit 0
echo "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 1 (apt-get)" >&2
touch {mt.tmp()}/held-$4
exit 100
""", 0, ["another program has apt-get's lock", 'made: -j'], ['E: Could'])

mt.finish()
