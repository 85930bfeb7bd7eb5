#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 300
# waits
"""
Exports in the viewers that people look at them with: heaptrack_gui and massif-visualizer on a display of their own, each of their pages; pprof's web view in
Chromium. Whether they open them, draw them and stay alive; the numbers are compared in export.py and export-more.py, and here where a viewer tells them.
"""
import html
import json
import os
import re
import shutil
import socket
import subprocess
import urllib.request

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt
from cdp import CHROMIUM, browse
from display import Display

mt.need_mtrun()
D = mt.tmp()
# Some hundred stacks; a few; up, down and up again; hardly anything.
PERL = 'my %h; for my $i (1 .. 3000) { push @{$h{$i % 97}}, "x" x ($i % 300); my @t = map { $_ * 2 } 1 .. 20; } %h = (); my $s = join ",", 1 .. 5000;'
PROGRAMS = {'perl': ['perl', '-e', PERL], 'shapes': [mt.build('shapes.c')], 'true': ['true'], 'phases': [mt.build('phases.cc')]}


def export(name, cmd):
    base = f'{D}/{name.replace(" ", "-")}'
    r = mt.plain([mt.MTRUN, '-q', '-x', f'wait exit; export heaptrack {base}.heaptrack; export massif {base}.massif; export pprof {base}.pb.gz; '
                  f'report --by function --json > {base}.json; status --json > {base}.status', '--', *cmd])
    return base if r.rc == 0 else mt.fail(f'{name}: exports', f'{r.rc} {r.err}')


def colours(picture):
    """How much of it is neither grey nor black: what a page of numbers or curves has, and an empty window has not. (One pixel of seven is looked at.)"""
    return sum(abs(r - b) > 60 for r, b in zip(picture[2::28], picture[0::28]))


def heaptrack_gui(display, name, base):
    """It reads the file, then once more for its curves. The pages are opened by a click on each tab, wherever these are along the row."""
    display.start('heaptrack_gui', f'{base}.heaptrack')
    bad = [display.window('Heaptrack - ')]
    pages = []
    if not bad[0]:
        mt.until(lambda: not display.alive() or colours(display.settled() or b'') or name == 'true')
        pages.append(display.settled())
        for x in range(110, 1000, 65):
            display.click(x, 37)
            now = display.settled()
            if now not in pages:
                pages.append(now)
    if not display.alive():
        bad.append(f'it ended with {display.program.returncode} at page {len(pages)}: {display.said()[-300:]}')
    elif len(pages) < 8:
        bad.append(f'{len(pages)} pages')
    elif not colours(pages[0]) and name != 'true':
        bad.append('the summary is empty')
    display.stop()
    mt.check(f'heaptrack_gui: {name}', [b for b in bad if b])


def massif_visualizer(display, name, base):
    """The key and the mark at the peak have colours of their own; a curve has many more. That of a program
    that allocates nothing is a line along the axis, as long as its milliseconds happen to be."""
    enough = 50 if name == 'true' else 150
    display.start('massif-visualizer', f'{base}.massif')
    bad = [display.window('Evaluation of')]
    mt.until(lambda: not display.alive() or colours(display.settled() or b'') > enough)
    shown, text = display.settled(), display.said()
    with open(f'{base}.massif') as f:
        snapshots = f.read().count('snapshot=')
    if f'snapshots: {snapshots}\n' not in text:
        bad.append(f'{snapshots} snapshots are not in {text[-300:]!r}')
    if shown and colours(shown) <= enough:
        bad.append('there is no curve')
    display.stop()
    mt.check(f'massif-visualizer: {name}', [b for b in bad if b])


def pprof_web(name, base):
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        url = f'http://127.0.0.1:{s.getsockname()[1]}/ui/'
    p = mt.popen(['go', 'tool', 'pprof', '-symbolize=none', '-nodefraction=0', '-no_browser', f'-http={url[7:-4]}', f'{base}.pb.gz'],
                 env={**os.environ, 'HOME': D}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def there():
        try:
            return urllib.request.urlopen(url + 'top', timeout=5).read()
        except OSError:
            return None
    bad = [] if mt.until(there) else ['it does not answer']
    with open(f'{base}.json') as f:
        report = json.load(f)
    dom = browse(url + 'top') if not bad else ''
    rows = re.findall(r'<tr[^>]*>((?:<td>[^<]*</td>)+)</tr>', dom)
    rows = [[html.unescape(c) for c in re.findall(r'<td>([^<]*)</td>', r)] for r in rows]
    theirs = [(r[5].strip(), r[0]) for r in rows[:3]]
    total = re.search(r'makeTopTable\( *(\d+)', dom)
    if not total or int(total[1]) != report['total_size']:
        bad.append(f'total {total and total[1]}, report {report["total_size"]}')
    if len(theirs) < min(3, len(report['mem_report'])):
        bad.append(f'rows {rows[:3]}')
    dom = browse(url + 'flamegraph') if not bad else ''
    if dom.count('d3-flame-graph') < min(3, len(report['mem_report'])) and dom.count('<rect') < 3:
        bad.append(f'the flame graph has {dom.count("<rect")} boxes')
    mt.end_group(p)
    mt.check(f"pprof's web view: {name}", bad)


bases = {}
for name, cmd in PROGRAMS.items():
    if not cmd[0] or not shutil.which(cmd[0]):
        mt.skip(name, 'no such program')
    else:
        bases[name] = export(name, cmd)
missing = [p for p in Display.NEEDS if not shutil.which(p)]
display = Display() if not missing else None
for viewer, fn in (('heaptrack_gui', heaptrack_gui), ('massif-visualizer', massif_visualizer)):
    if missing or not shutil.which(viewer):
        mt.skip(viewer, f'no {" ".join(missing or [viewer])}')
        continue
    for name, base in bases.items():
        if base and (mt.SOAK or fn != heaptrack_gui or name in ('perl', 'true')):
            fn(display, name, base)
if display:
    display.end()
if not CHROMIUM or not shutil.which('go'):
    mt.skip("pprof's web view", 'no chromium' if not CHROMIUM else 'no go')
else:
    for name in ('perl', 'phases'):
        if bases.get(name):
            pprof_web(name, bases[name])
mt.finish()
