# SPDX-License-Identifier: GPL-3.0-or-later
"""
cdp - Chromium, driven by its DevTools protocol as somebody who sits before it: pages that stay open, with a mouse. The protocol goes over a pair of pipes (JSON, each
message ended by a NUL), so that no port is opened.
"""
import json
import os
import select
import time

import mt
from display import CHROMIUM


class Browser:
    """One Chromium, for any number of pages. Names lead nowhere: only this machine is to be had."""

    def __init__(self, width=1200, height=900):
        self.size = width, height
        commands, self.to = os.pipe()
        self.back, answers = os.pipe()
        # it reads from 3 and writes to 4
        self.p = mt.popen(['sh', '-c', f'exec "$@" 3<&{commands} 4>&{answers}', 'sh', CHROMIUM, '--headless', '--no-sandbox', '--disable-gpu', '--no-first-run',
                           '--enable-unsafe-swiftshader', f'--user-data-dir={mt.tmp()}/chromium-cdp', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1',
                           '--remote-debugging-pipe', 'about:blank'],
                          pass_fds=(commands, answers), env=dict(os.environ, HOME=mt.tmp()), stdout=-3, stderr=-3)
        os.close(commands)
        os.close(answers)
        self.last, self.buffer = 0, b''

    def ask(self, method, session=None, seconds=30, **params):
        """What METHOD answers; events on the way are passed over."""
        self.last += 1
        said = {'id': self.last, 'method': method, 'params': params}
        os.write(self.to, json.dumps({**said, 'sessionId': session} if session else said).encode() + b'\0')
        end = time.monotonic() + seconds * mt.SLOW
        while True:
            while b'\0' in self.buffer:
                one, self.buffer = self.buffer.split(b'\0', 1)
                answer = json.loads(one)
                if answer.get('id') == self.last:
                    if 'error' in answer:
                        raise RuntimeError(f'{method}: {answer["error"]}')
                    return answer['result']
            if not select.select([self.back], [], [], max(0, end - time.monotonic()))[0]:
                raise RuntimeError(f'{method}: no answer in {seconds} s')
            got = os.read(self.back, 1 << 20)
            if not got:
                raise RuntimeError('chromium has ended')
            self.buffer += got

    def open(self, url):
        return Page(self, url)

    def end(self):
        os.close(self.to)
        os.close(self.back)
        mt.kill(-self.p.pid)
        self.p.wait()


class Page:
    def __init__(self, browser, url):
        self.browser = browser
        target = browser.ask('Target.createTarget', url='about:blank', newWindow=True)['targetId']
        self.session = browser.ask('Target.attachToTarget', targetId=target, flatten=True)['sessionId']
        width, height = browser.size
        self.ask('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.ask('Page.navigate', url=url)

    def ask(self, method, **params):
        return self.browser.ask(method, self.session, **params)

    def js(self, expression):
        """Its value; None, too, if it cannot be had yet."""
        return self.ask('Runtime.evaluate', expression=expression, returnByValue=True)['result'].get('value')

    def until(self, expression, seconds=20):
        return mt.until(lambda: self.js(expression), seconds * mt.SLOW)

    def text(self, css):
        return self.js(f'document.querySelector({json.dumps(css)})?.textContent') or ''

    def box(self, css):
        """(left, top, right, bottom), after it was scrolled into view."""
        return self.js(f'(() => {{ const e = document.querySelector({json.dumps(css)}); e.scrollIntoView({{block: "nearest"}}); '
                       'const b = e.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; })()')

    def mouse(self, kind, x, y, **more):
        self.ask('Input.dispatchMouseEvent', type='mouse' + kind, x=x, y=y, **more)

    def move(self, x, y):
        self.mouse('Moved', x, y)

    def click(self, x, y):
        self.drag((x, y))

    def drag(self, *points):
        self.move(*points[0])
        self.mouse('Pressed', *points[0], button='left', buttons=1, clickCount=1)
        for x, y in points[1:]:
            self.mouse('Moved', x, y, button='left', buttons=1)
        self.mouse('Released', *points[-1], button='left', clickCount=1)

    def press(self, css):
        """A click in its middle."""
        left, top, right, bottom = self.box(css)
        self.click((left + right) / 2, (top + bottom) / 2)
