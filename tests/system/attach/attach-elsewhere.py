#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""
attach-elsewhere - processes that live in another root, mount or pid namespace than mtrun, and one whose executable has been deleted: what they allocate is
told with the names of their own files, not of those that have the same paths here.
"""
import ctypes
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
want = re.compile(sys.argv[1] if len(sys.argv) > 1 else '')
d = mt.tmp()
CLONE_NEWNS, CLONE_NEWPID = 0x20000, 0x20000000
libc = ctypes.CDLL(None, use_errno=True)


def exact(bad, v, pid, file='heap.c', attached=None):
    """1000 blocks of 100 bytes come, 300 old ones go: main at its line, and nothing else."""
    before = mt.fingerprint(pid)
    m = attached or mt.Attached(pid)
    m.json('status')
    v.do('new 1000 100')
    v.do('old 300')
    s, report = m.json('status'), m.json('report')
    if (s['heap'], s['live_blocks'], s['unknown_frees']) != (100000, 1000, 300):
        bad.append(f'heap {s["heap"]}, {s["live_blocks"]} blocks, {s["unknown_frees"]} unknown frees')
    rows = [(r['size'], r['count'], r['function'], os.path.basename(r['file'] or '')) for r in report['mem_report'] if r['function'] != '[before attach]']
    if rows != [(100000, 1000, 'main', file)]:
        bad.append(f'rows: {rows}')
    bad += m.leave() + mt.changed(before, mt.fingerprint(pid), ['maps'])
    files = [[line for line in f['maps'].splitlines() if '/' in line or 'x' in line.split()[1]] for f in (before, mt.fingerprint(pid))]
    bad += [f'mapped: {set(files[0]) ^ set(files[1])}'] if files[0] != files[1] else []


def test(name):
    def decorate(fn):
        if not want.search(name):
            return
        if os.getuid():
            mt.skip(name, 'must be root')
            return
        bad = []
        try:
            reason = fn(bad)
        except (RuntimeError, AttributeError, TypeError) as e:
            reason = bad.append(f'{type(e).__name__}: {e}')
        mt.skip(name, reason) if reason else mt.check(name, bad)
    return decorate


def ended(bad, v):
    if v.end():
        bad.append(f'it ends with {v.p.returncode}')


def root_with(path):
    """A directory that holds the program at /usr/bin/sort, which is something else here, and the loader that it names."""
    root = mt.tempfile.mkdtemp(dir=d)
    os.makedirs(f'{root}/usr/bin')
    shutil.copy(path, f'{root}/usr/bin/sort')
    text = subprocess.run(['readelf', '-lW', path], capture_output=True, text=True).stdout
    m = re.search(r'interpreter: (\S+)\]', text)
    if m:
        os.makedirs(root + os.path.dirname(m[1]), exist_ok=True)
        shutil.copy(m[1], root + m[1])
    return root


for how in ('musl', 'musl-static', 'static'):
    @test(f'chroot: {how}')
    def _(bad):
        path = mt.build('heap.c', how)
        if not path:
            return mt.build_reason('heap.c', how)
        v = mt.Heap(['chroot', root_with(path), '/usr/bin/sort'], 1, 1000, 300, 0)
        exact(bad, v, v.pid)
        ended(bad, v)


@test('a mount namespace')
def _(bad):
    path = mt.build('heap.c', 'gcc')
    mounted = mt.tempfile.mkdtemp(dir=d)
    script = f'mount -t tmpfs none {mounted} && cp {path} {mounted}/heap && exec {mounted}/heap 1 1000 300 0'
    try:
        v = mt.Heap(['unshare', '-m', 'sh', '-c', script])
    except TypeError:
        return 'no mount namespaces here'
    if os.listdir(mounted):
        bad.append('it can be seen from here')
    exact(bad, v, v.pid)
    ended(bad, v)


@test('a pid namespace, from outside')
def _(bad):
    try:
        v = mt.Heap(['unshare', '-p', '-m', '-f', '--kill-child', '--mount-proc', mt.build('heap.c')], 1, 1000, 300, 0)
    except TypeError:
        return 'no pid namespaces here'
    pid = mt.children_of(v.pid)[0]
    with open(f'/proc/{pid}/status') as f:
        if not re.search(r'^NSpid:\s+\d+\s+1$', f.read(), re.M):
            bad.append('it is not the first of a pid namespace')
    exact(bad, v, pid)
    ended(bad, v)


@test('a pid namespace, from within')
def _(bad):
    try:
        v = mt.Heap(['unshare', '-p', '-m', '-f', '--kill-child', '--mount-proc', mt.build('heap.c')], 1, 1000, 300, 0)
    except TypeError:
        return 'no pid namespaces here'
    pid = mt.children_of(v.pid)[0]
    before = mt.fingerprint(pid)
    r = mt.plain(['nsenter', '-t', str(pid), '-p', '-m', mt.MTRUN, '-q', '-p', '1', '-x', 'status --json; quit'], timeout=30)
    # it is pid 1 there
    if r.rc or b'"pid":1,' not in r.out.replace(b' ', b''):
        bad.append(f'status {r.rc}: {r.out[:200]} {r.err[:300]}')
    bad += mt.changed(before, mt.fingerprint(pid))
    exact(bad, v, pid)
    ended(bad, v)


@test('its executable has been deleted')
def _(bad):
    path = f'{d}/gone'
    shutil.copy(mt.build('heap.c'), path)
    v = mt.Heap(path, 1, 1000, 300, 0)
    os.remove(path)
    exact(bad, v, v.pid)
    ended(bad, v)


@test('its executable has been replaced')
def _(bad):
    path = f'{d}/replaced'
    shutil.copy(mt.build('heap.c'), path)
    v = mt.Heap(path, 1, 1000, 300, 0)
    os.remove(path)
    shutil.copy('/bin/true', path)
    exact(bad, v, v.pid)
    ended(bad, v)


# Both are under the same filter: it is not for mtrun to set aside, and lets it do what it does.
@test('inside a filter, as in a container')
def _(bad):
    if 'FENCED' in os.environ:
        v = mt.Heap(mt.build('heap.c'), 1, 1000, 300, 0)
        exact(bad, v, v.pid)
        ended(bad, v)
        return ''
    r = mt.plain([mt.build('filtered.c'), sys.executable, __file__, 'inside a filter'], env={**os.environ, 'FENCED': '1'})
    if r.rc == 77:
        return 'no seccomp here'
    return '' if r.rc == 0 else bad.append((r.out + r.err)[-400:].decode(errors='replace'))


@test('behind a filter that kills for any call that the program does not make')
def _(bad):
    for threads in (1, 4):
        v = mt.Heap(mt.build('heap.c'), threads, 1000, 300, 0)
        v.do('jail')
        exact(bad, v, v.pid)
        exact(bad, v, v.pid)
        v.do('run')
        m = mt.Attached(v.pid)
        v.do('new 1000 100')
        bad += m.leave()
        v.do('rest')
        ended(bad, v)


mt.finish()
