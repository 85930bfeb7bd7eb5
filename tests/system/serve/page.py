#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 90
"""
page - the live page in Chromium, used with a mouse: its curve goes on, two of them at once, a click and a drag, what a stopped mtrun, one that comes again and the program's
end look like. The numbers are the victim's own.
"""
import os
import re
import signal
import subprocess
import time

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt
from cdp import CHROMIUM, Browser
from served import Served, free_port

mt.need_mtrun()
if not CHROMIUM:
    mt.skip('the live page', 'no chromium')
    mt.finish()


def number(n):
    return f'{n:,}'


def live(page):
    return page.text('#live span')


def shows(page, n, seconds=10):
    """What is wrong with what it says is live."""
    return [] if page.until(f'document.querySelector("#live span")?.textContent.startsWith("now: {number(n)} bytes")', seconds) else [f'{live(page)!r}, not {n}']


def at_the_edge(page):
    """What the pointer shows at the curve's last moment."""
    left, top, right, bottom = page.box('#timeline')
    page.move(right - 18, top + 100)
    page.move(right - 2, top + 100)        # beyond it: its end
    return page.text('#tip')


def chosen(page):
    return page.text('#what'), int(page.js('document.querySelector("#what").getAttribute("data-bytes")'))


def path(page):
    return page.js('document.querySelector("#timeline path.edge").getAttribute("d")')


def used(s, pages):
    """Two pages, the curve of each; a click and a drag in one. (Growth since the start: there was none of it in the first moments.)"""
    one = pages[0]
    mt.check('two pages: what is live', [w for p in pages for w in shows(p, s.live)])
    first, loaded = [path(p) for p in pages], s.live
    s.say(500)
    mt.check('two pages: what comes then', [w for p in pages for w in shows(p, s.live)])
    mt.check('two pages: the curve goes on', [f'{before} stays' for p, before in zip(pages, first) if path(p) == before] +
             [f'at its end {said!r}, not {s.live}' for said in map(at_the_edge, pages) if f' {number(s.live)} bytes' not in said])
    left, top, right, bottom = one.box('#timeline')
    one.drag((left + 75, top + 100), (left + 300, top + 120), (right - 17, top + 100))
    said = chosen(one)
    bad = [] if said[0].startswith('From ') and said[1] == loaded else [f'{said}, not {loaded}']
    one.click(right - 20, top + 100)
    said = chosen(one)
    bad += [] if said[0].startswith('Live at ') and said[1] == loaded else [f'{said}, not {loaded}']
    bad += [] if one.js('document.querySelector("#sites tbody tr").textContent').find('keep_block') >= 0 else ['no site']
    mt.check('a drag and a click: what was loaded', bad)
    one.press('#live button')
    one.until(f'document.querySelector("#what")?.getAttribute("data-bytes") == {s.live}')
    mt.check('what is live now, when it is asked for', shows(one, s.live) + [str(c) for c in [chosen(one)] if c[1] != s.live])


def stopped(s, pages, seconds):
    """mtrun is stopped for a while, and the program waits, or goes on, with it; then all goes on."""
    os.kill(s.p.pid, signal.SIGSTOP)
    quiet = [f'{live(p)!r}' for p in pages if not p.until('/has said nothing for/.test(document.querySelector("#live span").textContent)', seconds)]
    os.kill(s.p.pid, signal.SIGCONT)
    s.say(100)
    mt.check('mtrun stopped and continued', quiet + [w for p in pages for w in shows(p, s.live)])


def came_again(browser):
    """The address is another program's, later: the page does not mix them."""
    s = Served()
    s.say(10)
    page = browser.open(f'http://127.0.0.1:{s.port}/')
    bad = shows(page, s.live)
    for pid in mt.children_of(s.p.pid):
        mt.kill(pid)
    s.p.kill()
    s.p.wait()
    bad += [] if page.until('/^no connection/.test(document.querySelector("#live span").textContent)') else [f'{live(page)!r}']
    before = path(page)
    again = Served(port=s.port)
    again.say(20)
    bad += [] if page.until('/^another program/.test(document.querySelector("#live span").textContent)') else [f'{live(page)!r}']
    bad += [] if path(page) == before else ['its curve goes on']
    page.press('#live button')
    bad += shows(page, again.live)
    mt.check('another program at the same address', bad)
    again.end()


browser = Browser()
s = Served()
time.sleep(0.4)
s.say(2000)
pages = [browser.open(f'http://127.0.0.1:{s.port}/') for _ in range(2)]
used(s, pages)
stopped(s, pages, 60 if mt.SOAK else 10)
s.end()
mt.check('the end is said', [f'{live(p)!r}' for p in pages
                             if not p.until(f'document.querySelector("#live span").textContent.startsWith("the program has ended, or was let go; at last: {number(s.live)} bytes")')])
if mt.SOAK:
    came_again(browser)
browser.end()
mt.finish()
