# SPDX-License-Identifier: GPL-3.0-or-later
"""
display - programs that draw, on a display of their own (Xvfb), driven by xdotool.
"""
import os
import struct
import subprocess
import time

import mt


class Display:
    """A screen, and one program on it. Its picture is a file that the X server keeps (xwd's format)."""
    WIDTH, HEIGHT = 1280, 900
    NEEDS = ('Xvfb', 'xdotool')

    def __init__(self):
        self.dir = mt.tmp() + '/display'
        os.makedirs(self.dir + '/run', mode=0o700, exist_ok=True)
        r, w = os.pipe()
        self.server = mt.popen(['Xvfb', '-displayfd', str(w), '-screen', '0', f'{self.WIDTH}x{self.HEIGHT}x24', '-nolisten', 'tcp', '-noreset', '-fbdir', self.dir],
                               pass_fds=(w,), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(w)
        with open(r) as f:
            number = f.readline().strip()
        self.env = {**os.environ, 'DISPLAY': f':{number}', 'HOME': self.dir, 'XDG_RUNTIME_DIR': self.dir + '/run', 'QT_QPA_PLATFORM': 'xcb',
                    'LIBGL_ALWAYS_SOFTWARE': '1', 'LC_ALL': 'C.UTF-8'}
        self.program = self.err = None

    def start(self, *cmd):
        self.err = open(self.dir + '/err', 'w+')
        self.program = mt.popen(cmd, env=self.env, stdout=subprocess.DEVNULL, stderr=self.err)

    def said(self):
        with open(self.dir + '/err', errors='replace') as f:
            return f.read()

    def xdotool(self, *words):
        return subprocess.run(['xdotool', *map(str, words)], env=self.env, capture_output=True, text=True)

    def window(self, title, seconds=60):
        """Waits for a window whose title matches; what its program ended with if that was first."""
        mt.until(lambda: self.program.poll() is not None or self.xdotool('search', '--onlyvisible', '--name', title).stdout, seconds)
        return None if self.alive() else f'it ended with {self.program.returncode}: {self.said()[-300:]}'

    def alive(self):
        return self.program.poll() is None

    def picture(self):
        """The pixels, row by row, as bytes."""
        with open(self.dir + '/Xvfb_screen0', 'rb') as f:
            image = f.read()
        size, *_ = struct.unpack('>I', image[:4])
        colours = struct.unpack('>I', image[76:80])[0]
        return image[size + 12 * colours:]

    def settled(self, other_than=None, seconds=60):
        """Waits until the picture is another one than OTHER_THAN, and stays as it is for a while; it, or None if the program has ended."""
        last, end = None, time.monotonic() + seconds
        while self.alive() and time.monotonic() < end:
            now = self.picture()
            if now == last and now != other_than:
                return now
            last = now
            time.sleep(0.2)
        return last if self.alive() else None

    def click(self, x, y):
        self.xdotool('mousemove', x, y, 'click', 1)

    def stop(self):
        """Ends the program, and whatever it has started."""
        mt.kill(-self.program.pid)
        self.program.wait()
        mt.until(lambda: not [mt.kill(pid) for pid in set(mt.children()) - {self.server.pid}])

    def end(self):
        self.server.kill()
        self.server.wait()
