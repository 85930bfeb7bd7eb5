# SPDX-License-Identifier: GPL-3.0-or-later
"""
mounted - a file system that a process of ours serves (victims/fuse.c), in a mount namespace of our own:
the files of SOURCE at DIR, until it is told not to answer any more.
"""
import ctypes
import os
import subprocess

import mt

CLONE_NEWNS, MS_REC, MS_PRIVATE, MNT_DETACH = 0x20000, 1 << 14, 1 << 18, 2
libc = ctypes.CDLL(None, use_errno=True)
DIR, SOURCE = f'{mt.tmp()}/mount', f'{mt.tmp()}/source'


class Server:
    def __init__(self, seconds):
        self.p = mt.popen([mt.build('fuse.c'), DIR, SOURCE, str(seconds)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.works = self.p.stdout.readline() == b'ready\n'

    def tell(self, command):
        self.p.stdin.write(command.encode() + b'\n')
        self.p.stdin.flush()
        return self.p.stdout.readline().decode()

    def end(self):
        self.p.kill()
        why = self.p.communicate()[1].decode()
        libc.umount2(DIR.encode(), MNT_DETACH)
        return why


def begin():
    """Why there can be no such file system here, or None."""
    os.mkdir(DIR)
    os.mkdir(SOURCE)
    if os.getuid() or libc.unshare(CLONE_NEWNS) or libc.mount(
            b'none', b'/', None, MS_REC | MS_PRIVATE, None):
        return 'no mount namespace of its own here'
    server = Server(1)
    why = server.end().strip()
    return None if server.works else f'no FUSE here: {why}'


def turns(p):
    """How far a victim is that says `turns N` for each line."""
    p.stdin.write(b'\n')
    p.stdin.flush()
    return int(p.stdout.readline().split()[1])


def goes_on(p, when):
    before = turns(p)
    return [] if mt.until(lambda: turns(p) > before, 10) else [f'it does not go on {when}']
