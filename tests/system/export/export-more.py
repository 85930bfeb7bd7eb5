#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Exports, each opened in its own viewer: what the viewer says in total, and its first three rows, are what `report` says, to the byte. The program is
victims/phases.cc, which goes up, down and up again.
"""
import base64
import csv
import html
import json
import os
import re
import shutil
import subprocess
import time

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt
from cdp import CHROMIUM, browse

mt.need_mtrun()
DH_VIEW = '/usr/libexec/valgrind/dh_view.html'
FILES = mt.tmp() + '/files'
os.mkdir(FILES)


def path(name):
    return os.path.join(FILES, name)


def read(name):
    with open(path(name), newline='') as f:
        return f.read()


def number(text):
    return int(text.replace(',', ''))


def exports(victim):
    """All formats at the program's end, and what mtrun's own commands say then."""
    ask = ('report --by stack --json --all > {}/stacks.json', 'report --json > {}/sites.json', 'report --by stack --at peak --json > {}/peak.json',
           'report --at peak --json > {}/peaksites.json', 'status --json > {}/status.json', 'text --json > {}/text.json', 'text -n all --json > {}/text.json',
           'timeline --json > {}/timeline.json', 'timeline --csv > {}/timeline.csv', 'export massif {}/massif.out', 'export heaptrack {}/heaptrack.log',
           'export dhat {}/dhat.out', 'export speedscope {}/out.speedscope.json', 'export csv {}/out.csv', 'export json {}/out.json',
           'export csv --total {}/total.csv', 'export html {}/out.html', 'export csv --at peak {}/peak.csv')
    r = mt.plain([mt.MTRUN, '-q', '-x', 'wait exit', *[w for a in ask for w in ('-x', a.format(FILES))], victim])
    mt.check('all are written', [] if r.rc == 0 and os.path.exists(path('out.json')) else [r.rc, r.err])
    return {n: json.load(open(path(n + '.json'))) for n in ('stacks', 'sites', 'peak', 'peaksites', 'status', 'text', 'timeline')}


def top(report, n=3):
    return report['mem_report'][:n]


# ---- massif -----------------------------------------------------------------------------------------------------------------------

def massif(said):
    if not shutil.which('ms_print'):
        return mt.skip('massif', 'no ms_print (valgrind)')
    text = subprocess.run(['ms_print', path('massif.out')], capture_output=True, text=True).stdout
    rows = [[number(w) for w in m.groups()] for m in re.finditer(r'^ +(\d+) +([\d,]+) +([\d,]+) +([\d,]+) +0 +0$', text, re.M)]
    totals, bad = {}, []
    for _, ms, total, useful in rows:
        totals.setdefault(ms // 100 * 100, []).append(total)
        if useful != total:
            bad.append(f'useful {useful} of {total}')
    for ms, size in said['timeline']['points']:
        if ms in totals and size not in totals[ms]:
            bad.append(f'at {ms} ms {totals[ms]}, timeline {size}')
    if len(totals) < 8:
        bad.append(f'{len(totals)} snapshots')
    m = re.search(r'Detailed snapshots: \[.*?(\d+) \(peak\)', text)
    peak = rows[int(m[1])][2] if m else 0
    if peak != said['status']['peak']:
        bad.append(f'peak {peak}, status {said["status"]["peak"]}')
    if rows and rows[-1][2] != said['stacks']['total_size']:
        bad.append(f'at last {rows[-1][2]}, report {said["stacks"]["total_size"]}')
    mt.check('massif: ms_print totals', bad)
    tree = text[text.index(m[0]):] if m else ''
    tree = tree[tree.index('100.00% ({:,}B)'.format(peak)):].split('-----')[0] if m else ''
    sites = {}
    for t, where in re.findall(r'^->[\d.]+% \(([\d,]+)B\) 0x[0-9A-F]+: (.*)$', tree, re.M):
        sites[where] = number(t)
    bad = []
    for row in top(said['peaksites'], 1):
        where = f'{row["function"]} ({os.path.basename(row["file"])}:{row["line"]})'
        if sites.get(where) != row['size']:
            bad.append(f'{where}: {sites.get(where)}, report {row["size"]}')
    for row in top(said['peak']):
        if '({:,}B)'.format(row['size']) not in tree and row['size'] * 100 >= peak:
            bad.append(f'no branch of {row["size"]}')
    mt.check('massif: the tree of the peak', bad)


# ---- heaptrack --------------------------------------------------------------------------------------------------------------------

STOOD_MS = 100      # it stands while its thread has no processor: when.py and time.py look at how long


def heaptrack_over_time():
    """In the middle of each step the log's sum is what the program says, within what 40 steps between start, peak, low and end can tell, and 4 KB of stdio."""
    r = mt.plain([mt.MTRUN, '-q', '-x', f'wait exit; export heaptrack {path("stairs.log")}', mt.build('stairs.c')])
    said, sizes, curve, live = [tuple(map(int, line.split())) for line in r.out.splitlines()], [], [], 0
    with open(path('stairs.log')) as f:
        for words in map(str.split, f):
            if words[0] == 'a':
                sizes.append(int(words[1], 16))
            elif words[0] == 'c':
                curve.append((int(words[1], 16), live))
            elif words[0] in '+-':
                live += sizes[int(words[1], 16)] * (1 if words[0] == '+' else -1)
    curve.append((10 ** 9, live))
    bad = [] if len(said) == 10 and [t for t, _ in curve] == sorted(t for t, _ in curve) else [f'{said}, {curve}']
    # A time stamp has what was live up to then. The first allocation came after the last stamp with nothing
    # live. Stamps are far apart where the program started slowly.
    n, most = next((k for k, (_, b) in enumerate(curve) if b), 1), max((b for b, *_ in said), default=0)
    for i, (want, ms, ms_most) in enumerate(said):
        # a step has 150 ms on each side of its middle: the clock may have stood at the first one
        first = next(k for k, (t, _) in enumerate(curve) if t > curve[n - 1][0] + ms - STOOD_MS)
        last = next(k for k, (t, _) in enumerate(curve) if t > curve[n][0] + ms_most + STOOD_MS)
        got = [b for _, b in curve[first - 1:last + 1]]
        if not min(got) - 0.03 * most - 5000 <= want <= max(got) + 0.03 * most + 5000:
            bad.append(f'step {i}, at {ms} to {ms_most} ms: {got}, not {want}; {curve}')
    mt.check('heaptrack: over time', bad)


def heaptrack(said):
    if not shutil.which('heaptrack_print'):
        return mt.skip('heaptrack', 'no heaptrack_print (heaptrack)')
    rows = {'total_count': 'allocations', 'temporary': 'temporary', 'size': 'leaked', 'peak': 'peak'}
    bad = []
    for key, cost in rows.items():
        subprocess.run(['heaptrack_print', path('heaptrack.log'), '--flamegraph-cost-type', cost, '-F', path('flame'), '--disable-builtin-suppressions'],
                       stdout=subprocess.DEVNULL)
        theirs = sorted((int(line.rsplit(' ', 1)[1]) for line in read('flame').splitlines()), reverse=True)
        report = said['peak' if key == 'peak' else 'stacks']
        ours = sorted((r['size' if key == 'peak' else key] for r in report['mem_report']), reverse=True)
        if sum(theirs) != sum(ours):
            bad.append(f'{cost}: {sum(theirs)}, report {sum(ours)}')
        if theirs[:3] != ours[:3]:
            bad.append(f'{cost}: {theirs[:3]}, report {ours[:3]}')
    mt.check('heaptrack: heaptrack_print', bad)


# ---- in a browser -----------------------------------------------------------------------------------------------------------------

def texts(dom):
    return [html.unescape(t) for t in re.findall(r'[^<>]+(?=<)', dom) if t.strip()]


def dhat(said):
    if not CHROMIUM or not os.path.exists(DH_VIEW):
        return mt.skip('dhat', 'no dh_view.html (valgrind)' if CHROMIUM else 'no chromium')
    with open(path('dhat.html'), 'w') as f:
        f.write('<meta charset="utf-8"><script src="%s"></script><script>onload = () => { onLoad(); const t = new DataTransfer();'
                't.items.add(new File([%s], "x")); gInput.files = t.files;'
                'gSelect.selectedIndex = [...gSelect.options].findIndex(o => o.label == decodeURIComponent(location.hash.slice(1)));'
                'loadFile(); }</script><body>'
                % (DH_VIEW[:-4] + 'js', json.dumps(read('dhat.out')).replace('</', '<\\/')))
    bad = []
    for title, report, size, count in (('Total', 'stacks', 'total_size', 'total_count'), ('At t-gmax', 'peak', 'size', 'count'),
                                       ('At t-end', 'stacks', 'size', 'count')):
        text = ''.join(texts(browse(f'file://{path("dhat.html")}#{title.replace(" ", "%20")}%20(bytes)')))
        theirs = [(number(m[1]), number(m[2])) for m in re.finditer(title + r': +([\d,]+) bytes \(.*? in ([\d,]+) blocks', text)]
        rows = [(r[size], r[count]) for r in said[report]['mem_report']]
        ours = tuple(map(sum, zip(*rows)))
        if theirs[:1] != [ours]:
            bad.append(f'{title}: {theirs[:1]}, report {ours}')
        bad += [f'{title}: no row of {r}' for r in sorted(rows, reverse=True)[:3] if r not in theirs]
    mt.check('dhat: dh_view.html', bad)


# speedscope's importer is in its page: what `./bootstrap check` put into build/npm, or MTRUN_SPEEDSCOPE=DIR of its unpacked package.
def speedscope_page():
    page = (os.environ.get('MTRUN_SPEEDSCOPE') or f'{mt.TOP}/build/npm/node_modules/speedscope') + '/dist/release/index.html'
    return page if os.path.exists(page) else None


def speedscope_bytes(n):
    """As speedscope writes an amount."""
    for unit in ('B', 'KB', 'MB', 'GB'):
        if n < 1024 or unit == 'GB':
            return f'{n:.0f} B' if unit == 'B' else f'{n:.2f} {unit}'
        n /= 1024


def speedscope_percent(p):
    return '100%' if p == 100 else f'{p:.0f}%' if p >= 10 else f'{p:.1f}%' if p >= 1 else f'{p:.2f}%'


def speedscope_rows(url):
    """What its page says of each function: total, own, name."""
    words = texts(browse(url))
    amount = r'[\d.]+ [KM]?B \(.*%\)'
    return [words[i:i + 3] for i in range(len(words) - 2)
            if re.fullmatch(amount, words[i]) and re.fullmatch(amount, words[i + 1])]


def speedscope(said):
    d = json.loads(read('out.speedscope.json'))
    bad = []
    for p, key in zip(d['profiles'], ('size', 'total_size')):
        if sum(p['weights']) != p['endValue'] or p['endValue'] != sum(r[key] for r in said['stacks']['mem_report']):
            bad.append(f'{p["name"]}: {p["endValue"]}')
        if len(p['samples']) != len(p['weights']) or any(not 0 <= i < len(d['shared']['frames']) for s in p['samples'] for i in s):
            bad.append(f'{p["name"]}: samples')
    mt.check('speedscope: the file', bad)
    page = speedscope_page()
    if not CHROMIUM or not page:
        return mt.skip('speedscope: its importer', 'no speedscope in build/npm' if CHROMIUM else 'no chromium')
    with open(path('speedscope.js'), 'w') as f:
        f.write('speedscope.loadFileFromBase64("x.speedscope.json", "%s")' % base64.b64encode(read('out.speedscope.json').encode()).decode())
    url = f'file://{page}#localProfilePath={path("speedscope.js")}&view=sandwich'
    # The page loads its parts by and by, and may count as settled before it has them all.
    rows = mt.until(lambda: speedscope_rows(url), 120) or []
    total = said['stacks']['total_size']
    ours = [(f'{speedscope_bytes(r["flat"])} ({speedscope_percent(100 * r["flat"] / total)})', r['function'])
            for r in sorted(said['text']['rows'], key=lambda r: -r['flat'])[:3]]
    theirs = [(own, name) for _, own, name in rows[:3]]
    bad = [] if theirs == ours else [f'{theirs}, text {ours}']
    mt.check('speedscope: its importer', bad)


def page_says(dom):
    """The sum, and the rows of the table of sites: [(bytes, blocks, function)]."""
    what = re.search(r'id="what" data-bytes="(-?\d+)" data-count="(-?\d+)"', dom)
    rows = re.findall(r'<tr data-bytes="(-?\d+)" data-count="(-?\d+)">(?:<td class="n">[^<]*</td>)+<td class="name"(?: title="[^"]*")?>([^<]*)</td>', dom)
    return (int(what[1]), int(what[2])) if what else None, [(int(b), int(n), html.unescape(f)) for b, n, f in rows]


def page(said):
    text = read('out.html')
    mt.check('html: nothing from elsewhere', [m for m in re.findall(r'(?:src|href|url)\s*[=(][^,;]{0,40}', text)] +
             re.findall(r'https?://(?!www\.w3\.org/2000/svg)\S*', text))
    mt.check('html: names are no markup', ['a mark is'] if '<b>pictures' in text else [])
    if not CHROMIUM:
        return mt.skip('html', 'no chromium')
    url = f'file://{path("out.html")}'
    points = said['timeline']['points']
    peak = said['peaksites']
    last = said['sites']
    everybody = {'_dl_start_user': '[C++ exception pool]'}  # the page says what it is for
    for name, link, report in (('the end', '', last), ('the peak', '#at=peak', peak), ('a moment', f'#at={peak["time_ms"]}', peak)):
        total, rows = page_says(browse(url + link))
        ours = [(r['size'], r['count'], everybody.get(r['function'], r['function']))
                for r in top(report)]
        mt.check(f'html: {name}', [] if total == (report['total_size'], report['total_count']) and rows[:3] == ours and sum(r[0] for r in rows) == total[0]
                 else [f'{total}, {rows[:3]}, report {report["total_size"]}, {ours}'])
    for ms, size in points[1:-1:4 if mt.SOAK else 12]:
        total, rows = page_says(browse(f'{url}#at={ms + 50}'))
        near = [s for m, s in points if abs(m - ms) <= 100]
        if total[0] not in near or sum(r[0] for r in rows) != total[0]:
            mt.fail(f'html: at {ms} ms', f'{total}, timeline {near}')
    total, rows = page_says(browse(f'{url}#from={peak["time_ms"]}&to={last["time_ms"]}'))
    grown = last['total_size'] - peak['total_size']
    mt.check('html: a range', [] if total[0] == grown == sum(r[0] for r in rows) else [f'{total}, {rows}, report {grown}'])
    # From the left edge to the right one: what has come since the start. Where the curve begins and ends is the page's business: the edges are outside of it.
    with open(path('drag.html'), 'w') as f:
        f.write(text.replace('</body>', """<script>
            const r = document.getElementById("timeline").getBoundingClientRect();
            for (const [type, x] of [["pointerdown", r.left + 2], ["pointermove", r.left + 300], ["pointerup", r.right - 2]])
                document.getElementById("timeline").dispatchEvent(new PointerEvent(type, { clientX: x, clientY: r.top + 50, pointerId: 1, bubbles: true }));
            </script></body>"""))
    total, rows = page_says(browse(f'file://{path("drag.html")}'))
    grown = last['total_size'] - points[0][1]
    mt.check('html: a drag', [] if total[0] == grown == sum(r[0] for r in rows) else [f'{total}, report {grown}'])
    used(said, text)
    for media in ('light', 'dark'):
        browse(url + '#at=peak', path('page.png'), media)
        size = os.path.getsize(path('page.png'))
        mt.check(f'html: a picture, {media}', [] if size > 20000 else [f'{size} bytes'])


# What somebody does with the page, and what it shows then.
USE = """<script>
    const said = {}, get = (s) => document.querySelector(s), all = (s) => [...document.querySelectorAll(s)];
    const number = (s, name) => +get(s).getAttribute(name || "data-bytes"), sum = (s, name) => all(s).reduce((n, e) => n + +e.getAttribute(name), 0);
    function find(text) {
        get("#find").value = text;
        get("#find").dispatchEvent(new Event("input"));
        get("#find").dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
        return [number("#matched"), number("#relatives h2")];
    }
    said.cards = all(".card").map((c) => c.id);
    said.live = find("decode(");
    said.sizes = [sum("#sizes tr", "data-of"), sum("#sizes tr", "data-in")];
    said.threads = [sum("#threads tr", "data-of"), sum("#threads tr", "data-in")];
    for (const cost of ["allocated", "allocations", "temporary"]) {
        get(`#cost button[value=${cost}]`).click();
        said[cost] = [number("#what"), ...find("decode("), ...find("parse(")];
        said[cost + " sites"] = sum("#sites tbody tr", "data-bytes");
    }
    get("#cost button[value=allocated]").click();
    for (const shape of ["up", "both", "down"]) {
        get(`#shape button[value=${shape}]`).click();
        const c = get("#flame"), g = c.getContext("2d"), seen = new Set(g.getImageData(0, 0, c.width, c.height).data);
        said[shape] = [c.height > 30, seen.size > 10];
    }
    all("#sites th button").find((b) => b.textContent == "function").click();
    said.names = all("#sites tbody td.name:nth-last-child(2)").map((e) => e.textContent);
    get("#filter").value = "DECODE";
    get("#filter").dispatchEvent(new Event("input"));
    said.filtered = all("#sites tbody tr").length;
    get("#sites tbody tr").click();
    said.stack = get("tr.stacks pre").textContent;
    const before = get("#timeline path.edge").getAttribute("d"), box = get("#timeline").getBoundingClientRect();
    get("#timeline").dispatchEvent(new WheelEvent("wheel", { deltaY: -1, clientX: box.left + 300, clientY: box.top + 50, cancelable: true }));
    said.zoomed = get("#timeline path.edge").getAttribute("d") != before;
    get("#timeline").dispatchEvent(new PointerEvent("pointermove", { clientX: box.right - 30, clientY: box.top + 50 }));
    said.tip = get("#tip").textContent;
    get("#timeline").dispatchEvent(new KeyboardEvent("keydown", { key: "p" }));
    said.peak = number("#what");
    said.activity = JSON.parse(get("#data").textContent).activity;
    said.rates = all("#timeline path.allocating, #timeline path.temporary").length;
    document.body.setAttribute("data-said", JSON.stringify(said));
    </script></body>"""


def used(said, text):
    """phases.cc: pictures of 60000 + 100 i bytes, i < 30, of which 10 stay, then of 90000 + 100 i, i < 8; parse() keeps 20000 bytes six times, all freed."""
    with open(path('used.html'), 'w') as f:
        f.write(text.replace('</body>', USE))
    m = re.search(r'data-said="([^"]*)"', browse(f'file://{path("used.html")}'))
    if not m:
        return mt.fail('html: used', 'it does not get to the end')
    page = json.loads(html.unescape(m[1]))
    all_pictures = sum(60000 + 100 * i for i in range(30)) + sum(90000 + 100 * i for i in range(8))
    live = all_pictures - sum(60000 + 100 * i for i in range(10, 30))
    rows, now = said['stacks']['mem_report'], said['sites']
    total, count, temporary = (sum(r[k] for r in rows) for k in ('total_size', 'total_count', 'temporary'))
    want = {'live': [live] * 2, 'sizes': [now['total_size'], now['total_count']], 'threads': [now['total_size'], now['total_count']],
            'allocated': [total, *[all_pictures] * 2, *[120000] * 2], 'allocations': [count, 38, 38, 6, 6], 'allocated sites': total, 'allocations sites': count,
            'temporary sites': temporary, 'names': sorted(page['names']), 'filtered': 1, 'zoomed': True, 'peak': said['status']['peak'],
            **{shape: [True, True] for shape in ('up', 'both', 'down')}}
    bad = [f'{k}: {page.get(k)}, not {v}' for k, v in want.items() if page.get(k) != v]
    bad += [f'{page["temporary"]}, {temporary} temporary'] if page['temporary'][0] != temporary else []
    bad += [f'no {c}' for c in ('peak', 'live', 'allocated', 'temporary', 'rate') if 'card-' + c not in page['cards']]
    bad += [f'{page["stack"]}'] if not re.match(r'decode\(.*\n.*load_pictures\(.*\n.*main', page['stack']) else []
    bad += [f'{page["tip"]}'] if not re.search(r'^[0-9.]+ s: [0-9,]+ bytes, [0-9,]+ allocations/s\b', page['tip']) or 'decode' not in page['tip'] else []
    went = [page['activity'][i:i + 3] for i in range(0, len(page['activity']), 3)]
    bad += [f'activity: {went[-1]}, {count}, {temporary}'] if went[-1][1:] != [count, temporary] else []
    bad += [f'activity: {a}, {b}' for a, b in zip(went, went[1:]) if not (a[0] < b[0] and a[1] <= b[1] and a[2] <= b[2] <= b[1])]
    bad += [] if len(went) > 50 and page['rates'] == 2 else [f'{len(went)} moments, {page["rates"]} drawn']
    mt.check('html: used', bad)


def many():
    """branches.c has 100000 stacks of equal weight: they are folded, but no deeper than where the tree is too wide; what is below a0 ... a9 is what it says itself."""
    victim = mt.build('branches.c')
    if not victim:
        return mt.skip('html: 100000 stacks', mt.build_reason('branches.c', 'gcc'))
    r = mt.plain([mt.MTRUN, '-q', '-x', f'wait exit; export html {path("many.html")}; export flamegraph {path("many.svg")}', victim])
    truth = {name: int(n) for name, n in re.findall(r'^(a\d) (\d+)$', r.out.decode(), re.M)}
    text = read('many.html')
    d = json.loads(re.search(r'id="data">\n(.*?)</script>', text, re.S)[1])
    nodes = [(0, 0), *zip(d['nodes'][::2], d['nodes'][1::2])]
    live, last = {}, d['keys'][-1]
    for key in d['keys']:
        live.update({c: size for c, size in zip(key[4][::3], key[4][1::3])})
    below, sites, folded = {}, {}, set()
    for c, (node, site) in enumerate(zip(d['columns'][::2], d['columns'][1::2])):
        names = []
        if site >= 0:
            sites[site] = sites.get(site, 0) + live.get(c, 0)
        while node > 0:
            names.append(d['frames'][nodes[node][1]][0])
            node = nodes[node][0]
        for name in names:
            below[name] = below.get(name, 0) + live.get(c, 0)
        if names[:1] == ['(others)'] and live.get(c, 0) >= last[2] / 1000:
            folded.add(names[1][0])
    bad = [f'{len(text)} bytes'] if len(text) > 3 << 20 else []
    bad += [f'{name}: {below.get(name)}, itself {n}' for name, n in truth.items() if below.get(name) != n]
    bad += [f'{d["of"]} stacks'] if d['of'] < 100000 or len(truth) != 10 else []
    bad += [f'in all {last[2]}, by site {sum(sites.values())}'] if sum(sites.values()) != last[2] else []
    bad += [f'much is folded in {folded}'] if folded - set('bcd') else []
    mt.check('html: 100000 stacks', bad)
    if CHROMIUM:
        total, rows = page_says(browse(f'file://{path("many.html")}'))
        mt.check('html: 100000 stacks in a browser', [] if total == (last[2], last[3]) and sum(r[0] for r in rows) == last[2] else [f'{total}, {last[2:4]}'])
    size = os.path.getsize(path('many.svg'))
    mt.check('flamegraph: 100000 stacks', [f'{size} bytes'] if size > 1 << 20 else [])


def cxx_names():
    """A page has C++ names as people write them, and the whole one where the pointer rests on it; what would be longer than 500 bytes is so in the page, too."""
    short, long = mt.build('ranked.cc'), mt.build('screens.cc')
    if not short or not long or not CHROMIUM:
        return mt.skip('html: C++ names', 'no chromium' if short and long else mt.build_reason('screens.cc', 'gcc'))
    mt.plain([mt.MTRUN, '-q', '-x', f'wait exit; export html {path("names.html")}; report --all --json > {path("names.json")}', short])
    dom = browse(f'file://{path("names.html")}#cost=allocated')
    shown = {html.unescape(n): html.unescape(t) for t, n in re.findall(r'<td class="name"(?: title="([^"]*)")?>([^<]*)</td>', dom)}
    whole = {row['function'] for row in json.loads(read('names.json'))['mem_report']}
    want = {'by_vector(std::vector<int>&, int)': 'by_vector(std::vector<int, std::allocator<int> >&, int)',
            'by_string(std::string&, int)': 'by_string(std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >&, int)'}
    mt.check('html: C++ names', [f'{name}: {shown.get(name)}, {whole}' for name, t in want.items() if shown.get(name) != t or t not in whole])
    mt.plain([mt.MTRUN, '-q', '-x', f'wait heap > 150000 timeout 20s; export html {path("names.html")}; kill', long], judged=False)
    names = [name for _, _, name in page_says(browse(f'file://{path("names.html")}'))[1]]
    mt.check('html: long C++ names', [] if any(re.fullmatch('a_company.*::cache_of.*<std::string, std::map<std::string, .*::hold\\(unsigned long\\)', n) for n in names) and
             not any('char_traits' in n or len(n) > 500 for n in names) else [names])


def lifetimes():
    """From a log, what the program has measured itself; also of one that begins in the middle, where blocks live from there on. A live program's page has none."""
    victim = mt.build('lifetimes.c')
    os.mkdir(path('lived'))
    began = time.monotonic()
    rotated, page = path('rotated'), path('lived0.html')     # the program ends when there is a file ROTATED
    script = f'wait allocs > 1000; wait 0.3; log rotate; ! touch {rotated}\nwait exit; export html {page}'
    r = mt.plain([mt.MTRUN, '-q', '-m', 'log', '--log-dir', path('lived'), '-x', script, victim, rotated])
    wall = (time.monotonic() - began) * 1000
    truth = {name: (float(ms), int(n)) for name, ms, n in re.findall(r'^(\w+) (\S+) (\d+)$', r.out.decode(), re.M)}
    logs = sorted(os.listdir(path('lived')))
    if r.rc or len(truth) != 4 or len(logs) != 2:
        return mt.fail('html: lifetimes of a log', [r.rc, r.err, logs])
    bad = []
    for name, what in ('lived', path('lived')), ('later', f'{path("lived")}/{logs[-1]}'):
        mt.plain([mt.MTRUN, '-q', '-r', what, '-x', f'export html {path(name + ".html")}'])
    got = {}
    for name in ('lived0', 'lived', 'later'):
        d = json.loads(re.search(r'id="data">\n(.*?)</script>', read(name + '.html'), re.S)[1])
        sites = {s[0]: s[1] for s in d['sites']}
        for i in range(len(d.get('lived', [])) // 2):
            if d['columns'][2 * i + 1] >= 0:
                f = sites.get(d['columns'][2 * i + 1])
                ms, n = got.get((name, f), (0, 0))
                got[name, f] = ms + d['lived'][2 * i], n + d['lived'][2 * i + 1]
        got[name] = d.get('lived_of')
    if got['lived0'] is not None or not got['lived'] or not got['later'] or got['later'] >= got['lived']:
        bad.append([got[name] for name in ('lived0', 'lived', 'later')])
    for f, (ms, n) in truth.items():        # the log knows its times to some ms, and its end is the program's, after it has looked at its clock
        of, blocks = got.get(('lived', f), (0, 1))
        if blocks != n or not -5 - ms / 20 < of / blocks - ms < (wall - ms if f == 'kept' else 5 + ms / 20):
            bad.append(f'{f}: {n} blocks of {ms} ms, the page says {blocks} of {of / blocks}')
    of, blocks = got.get(('later', 'kept'), (0, 1))
    if blocks != 10 or abs(of / blocks - got['later']) > 5 or got.get(('later', 'soon'), (0, 0))[1]:
        bad.append(f'a log from the middle: {got}')
    mt.check('html: lifetimes of a log', bad)
    mt.check('html: what everybody has is named',
             [] if any('[stdio buffer]' in f for f in sites.values()) else [sites])
    if CHROMIUM and not bad:
        dom = browse(f'file://{path("lived.html")}')
        rows = re.findall(r'<tr data-blocks="(\d+)" data-life="([^"]+)"><td class="n">([^<]*)</td><td class="n">([^<]*)</td><td class="n">[^<]*</td><td class="n">([^<]*)</td><td class="n">([^<]*)</td><td class="n">([^<]*)</td><td class="name">(\w+)', dom)
        shown = {x[7]: x for x in rows}
        mt.check('html: lifetimes in a browser', [] if [x[0] for x in rows][:3] == ['20000', '100', '30'] and shown['soon'][3] == '&lt; 1 ms' and shown['later'][4:7] == ('100,000 in 100', '0', '1.0 %') and
                 shown['kept'][5] == '500 in 10' and shown['soon'][6] == '100.0 %' else [rows])


# ---- tables -----------------------------------------------------------------------------------------------------------------------

def tables(said):
    bad = []
    for name, report in (('out', 'sites'), ('peak', 'peaksites')):
        rows = list(csv.DictReader(open(path(name + '.csv'), newline='')))
        theirs = [(int(r['size']), int(r['count']), r['function'], r['file'], r['line'], r['module']) for r in rows]
        ours = [(r['size'], r['count'], r['function'], r['file'] or '', str(r['line'] or ''), r['module']) for r in said[report]['mem_report']]
        if theirs != ours:
            bad.append(f'{name}: {theirs[:2]}, report {ours[:2]}')
    total = sum(int(r['total_size']) for r in csv.DictReader(open(path('total.csv'), newline='')))
    if total != sum(r['total_size'] for r in said['stacks']['mem_report']):
        bad.append(f'in total {total}')
    if '\n' in read('out.csv').replace('\r\n', ''):
        bad.append('lines end in LF')
    mt.check('csv', bad)
    d = json.loads(read('out.json'))
    bad = []
    if [r for r in d['report']['mem_report'] if r['size']] != json.load(open(path('stacks.json')))['mem_report'] and \
            sum(r['size'] for r in d['report']['mem_report']) != said['stacks']['total_size']:
        bad.append('report')
    if top(d['report']) and [r['size'] for r in top(d['report'])] != [r['size'] for r in top(said['stacks'])]:
        bad.append('rows')
    if d['timeline']['peak'][1] != said['status']['peak'] or d['timeline']['marks'] != said['timeline']['marks'] or len(d['timeline']['marks']) != 3:
        bad.append(f'timeline: {d["timeline"]["peak"]}, {d["timeline"]["marks"]}')
    mt.check('json', bad)


def options(victim):
    r = mt.plain([mt.MTRUN, '-q', '-x', 'wait exit; export massif --total /dev/null', victim])
    mt.check('massif takes no --total', [] if b'massif is about all stacks' in r.err else [r.err])
    r = mt.plain([mt.MTRUN, '-q', '-S', '-x', '; '.join(f'export {f} {path("none")}' for f in ('massif', 'heaptrack', 'dhat', 'speedscope', 'csv', 'json', 'html')),
                  '-x', 'quit', victim])
    mt.check('nothing allocated yet', [r.err] if r.err.strip() else [])


def main():
    victim = mt.build('phases.cc')
    if not victim:
        return mt.skip('exports', mt.build_reason('phases.cc', 'gcc'))
    said = exports(victim)
    massif(said)
    heaptrack(said)
    heaptrack_over_time()
    dhat(said)
    speedscope(said)
    page(said)
    many()
    cxx_names()
    lifetimes()
    tables(said)
    options(victim)


main()
mt.finish()
