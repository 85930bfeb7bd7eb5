# SPDX-License-Identifier: GPL-3.0-or-later
"""
cdp - Chromium, driven by its DevTools protocol: a page as it is once it has settled, or pages that stay
open, with a mouse. The protocol goes over a pair of pipes (JSON, each message ended by a NUL), so that no
port is opened.
"""
import base64
import json
import os
import select
import shutil
import time

import mt

CHROMIUM = shutil.which('chromium') or shutil.which('chromium-browser') or shutil.which('google-chrome')
_browser = None


def browse(url, picture=None, media=''):
    """
    The document as it is once it has settled: a second of its own time, which runs as fast as it can.
    PICTURE: a file for a picture of it. All pages of a test are in one Chromium.
    """
    global _browser
    if not _browser or not _browser.lives():        # mt.end_group() ends all children
        _browser = Browser()
        mt.at_end.append(_browser.end)
    page = Page(_browser)
    page.ask('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': media}])
    page.ask('Emulation.setVirtualTimePolicy', policy='pause')      # not for the empty page
    page.ask('Page.navigate', url=url)
    page.ask('Emulation.setVirtualTimePolicy', policy='pauseIfNetworkFetchesPending', budget=1000)
    _browser.wait('Emulation.virtualTimeBudgetExpired', page.session)
    text = page.js('document.documentElement.outerHTML')
    if picture:
        page.ask('Emulation.setVirtualTimePolicy', policy='advance')
        with open(picture, 'wb') as f:
            f.write(base64.b64decode(page.ask('Page.captureScreenshot')['data']))
    page.close()
    return text or ''


class Browser:
    """One Chromium, for any number of pages. Names lead nowhere: only this machine is to be had."""

    def __init__(self, width=1200, height=900):
        self.size = width, height
        commands, self.to = os.pipe()
        self.back, answers = os.pipe()
        home = mt.tempfile.mkdtemp(dir=mt.tmp())
        # it reads from 3 and writes to 4
        self.p = mt.popen(['bash', '-c', f'exec "$@" 3<&{commands} 4>&{answers}', 'bash', CHROMIUM,
                           '--headless', '--no-sandbox', '--disable-gpu', '--no-first-run',
                           '--enable-unsafe-swiftshader', '--allow-file-access-from-files',
                           f'--user-data-dir={home}', '--remote-debugging-pipe',
                           '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1', 'about:blank'],
                          pass_fds=(commands, answers), env=dict(os.environ, HOME=home), stdout=-3, stderr=-3)
        os.close(commands)
        os.close(answers)
        self.last, self.buffer, self.events = 0, b'', set()

    def ask(self, method, session=None, seconds=30, **params):
        """What METHOD answers."""
        self.last += 1
        said = {'id': self.last, 'method': method, 'params': params}
        os.write(self.to, json.dumps({**said, 'sessionId': session} if session else said).encode() + b'\0')
        end = time.monotonic() + seconds * mt.SLOW
        while True:
            answer = self.read(method, end)
            if answer.get('id') == self.last:
                if 'error' in answer:
                    raise RuntimeError(f'{method}: {answer["error"]}')
                return answer['result']

    def wait(self, event, session, seconds=60):
        """Until EVENT has come."""
        end = time.monotonic() + seconds * mt.SLOW
        while (session, event) not in self.events:
            self.read(event, end)

    def read(self, what, end):
        """The next message; events are written down."""
        while b'\0' not in self.buffer:
            if not select.select([self.back], [], [], max(0, end - time.monotonic()))[0]:
                raise RuntimeError(f'{what}: no answer in time')
            got = os.read(self.back, 1 << 20)
            if not got:
                raise RuntimeError('chromium has ended')
            self.buffer += got
        one, self.buffer = self.buffer.split(b'\0', 1)
        message = json.loads(one)
        if 'id' not in message:
            self.events.add((message.get('sessionId'), message['method']))
        return message

    def open(self, url):
        page = Page(self)
        page.ask('Page.navigate', url=url)
        return page

    def lives(self):
        return self.p.poll() is None

    def end(self):
        os.close(self.to)
        os.close(self.back)
        if self.lives():
            mt.kill(-self.p.pid)
        self.p.wait()


class Page:
    def __init__(self, browser):
        self.browser = browser
        self.target = browser.ask('Target.createTarget', url='about:blank', newWindow=True)['targetId']
        self.session = browser.ask('Target.attachToTarget', targetId=self.target, flatten=True)['sessionId']
        width, height = browser.size
        self.ask('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1, mobile=False)

    def close(self):
        self.browser.ask('Target.closeTarget', targetId=self.target)

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
