#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""
check - --leak-check from outside: the report's words and where it goes, the exit status, each process of a tree, ends of all kinds; suppressions in both
syntaxes, what Valgrind makes of ours and mtrun of Valgrind's, and files that are none.
"""
import html
import json
import os
import re
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import leak
import mt
from cdp import CHROMIUM, browse

mt.need_mtrun()
want = re.compile(sys.argv[1] if len(sys.argv) > 1 else '')
case = mt.cases(want)
LOST = mt.build('lost.c')
CXX = mt.build('lost_cxx.cc')
if not LOST or not CXX:
    print(mt.build_reason('lost.c', 'gcc'), mt.build_reason('lost_cxx.cc', 'gcc'))
    sys.exit(77)


def lost(which, end=0, opts=(), program=LOST, **kw):
    """One case in one process."""
    return leak.checked([program, '-1', which], opts, {'LOST_END': str(end)}, **kw)


def only(r):
    """The one report."""
    return next(iter(r.reports.values())) if len(r.reports) == 1 else {'rows': {}, 'records': [], 'summary': None, 'lines': []}


def sums(report):
    return [report['rows'].get(row) for row in leak.ROWS]


def file(name, text):
    path = os.path.join(mt.tmp(), name)
    with open(path, 'wb') as f:
        f.write(text if isinstance(text, bytes) else text.encode())
    return path


# ---- words, places ------------------------------------------------------------------------------------------------------------------

@case('the report')
def _(bad):
    r = lost('shared', opts=['-q'])
    report = only(r)
    if not re.fullmatch(r'case shared \d+ 64 2 160 5\n', r.out.decode()) or r.err:
        bad.append(f'the program says {r.out} {r.err}')
    lines = report['lines']
    if not r.messages.startswith('mtrun: leaks of lost (') or len(report['records']) != 2:
        bad.append(r.messages[:500])
    if [(x['kind'], x['direct'], x['blocks'], x['index'], x['of']) for x in report['records']] != [('definitely lost', 32, 1, n, 2) for n in (1, 2)]:
        bad.append(report['records'])
    if not all(x['stack'][0] == 'lose_shared' and x['stack'][1] == 'run' for x in report['records']):
        bad.append([x['stack'] for x in report['records']])
    if lines[-7:] != ['LEAK SUMMARY:', '   definitely lost: 64 bytes in 2 blocks', '   indirectly lost: 160 bytes in 5 blocks', '     possibly lost: 0 bytes in 0 blocks',
                      '   still reachable: 0 bytes in 0 blocks', '        suppressed: 0 bytes in 0 blocks', 'SUMMARY: mtrun: 224 byte(s) leaked in 7 allocation(s).']:
        bad.append(lines[-7:])
    if r.messages.splitlines()[-1] != lines[-1]:
        bad.append(f'the last line is {r.messages.splitlines()[-1]}')


@case('the report comes behind the summary')
def _(bad):
    r = mt.plain([mt.MTRUN, '--leak-check', '--', LOST, '-1', 'interior'])
    text = r.err.decode()
    if 'still live' not in text or text.index('still live') > text.index('mtrun: leaks of') or 'possibly lost in loss record 1 of 1' not in text:
        bad.append(text)
    if not text.endswith('SUMMARY: mtrun: 0 byte(s) leaked in 0 allocation(s).\n'):
        bad.append(text[-200:])


@case('summary, no')
def _(bad):
    full, summary, no = (mt.plain([mt.MTRUN, '-q', *opts, '--', LOST, '-1', 'tree']).err.decode()
                         for opts in (['--leak-check=full'], ['--leak-check=summary'], ['--leak-check', '--leak-check=no']))
    if 'loss record' not in full or full[full.index('LEAK SUMMARY'):] != summary[summary.index('LEAK SUMMARY'):] or 'loss record' in summary:
        bad.append(f'{full[:300]} / {summary}')
    if no:
        bad.append(no)


@case('the commands of -x find the same')
def _(bad):
    path = os.path.join(mt.tmp(), 'at-end.json')
    r = lost('ring', opts=['-q', '-x', f'wait exit; leaks --json > {path}'])
    with open(path) as f:
        asked = json.load(f)
    if [tuple(asked[k].values()) for k in ('definite', 'indirect', 'possible', 'reachable', 'suppressed')] != sums(only(r)):
        bad.append(f'{asked} / {r.messages}')


# ---- exit status ------------------------------------------------------------------------------------------------------------------------

@case('exit status')
def _(bad):
    for which, end, opts, status in (
            ('block', 0, [], 0), ('block', 7, [], 7), ('block', 0, ['--leak-exitcode', '33'], 33), ('block', 7, ['--leak-exitcode=33'], 33),
            ('zero-bytes', 0, ['--leak-exitcode', '1'], 1), ('none', 0, ['--leak-exitcode', '33'], 0), ('interior', 5, ['--leak-exitcode', '33'], 5),
            ('globals', 0, ['--leak-exitcode', '255', '-q'], 0), ('block', -signal.SIGTERM, ['--leak-exitcode', '33'], -signal.SIGTERM),
            ('block', -signal.SIGKILL, ['--leak-exitcode', '33'], -signal.SIGKILL), ('block', -signal.SIGSEGV, ['--leak-exitcode', '33', '-q'], -signal.SIGSEGV),
            ('block', 0, ['--leak-exitcode', '33', '-x', 'nonsense'], 125),
            ('block', 0, ['--leak-exitcode', '33', '-x', 'wait exit; detach'], 33),
            ('tree', 0, ['--leak-exitcode', '33', '--leak-check=summary'], 33)):
        r = lost(which, end, opts)
        if r.rc != status:
            bad.append(f'{which} {end} {opts}: {r.rc}, not {status}: {r.messages[-200:]}')
        if end < 0 and sums(only(r))[0] != (100, 1):
            bad.append(f'{which} {end}: {r.messages}')
    r = mt.plain([mt.MTRUN, '-q', '--leak-exitcode', '33', '--', LOST, '-1', 'block'])
    if r.rc != 33 or b'LEAK SUMMARY' not in r.err:
        bad.append(f'--leak-exitcode alone: {r.rc} {r.err}')
    r = mt.plain([mt.MTRUN, '-q', '--limit', '1M', '--limit-exit', '9', '--leak-exitcode', '33', '--', LOST, '-1', 'sizes'])
    if r.rc != 9 or b'LEAK SUMMARY' not in r.err:
        bad.append(f'a limit: {r.rc} {r.err[-300:]}')


@case('usage')
def _(bad):
    for opts, why in ((['--leak-check=some'], "--leak-check: invalid value 'some': expected full, summary or no"),
                      (['--leak-exitcode', '0'], "--leak-exitcode: invalid value '0': expected a number from 1 to 255"),
                      (['--leak-exitcode', '256'], "invalid value '256'"), (['--leak-exitcode', 'x'], "invalid value 'x'"),
                      (['--leak-exitcode', '3', '--leak-check=no'], 'cannot be combined with --leak-check=no'), (['--leak-check', '-s', '1K'], 'cannot be combined with --sample'),
                      (['--leak-check', '-m', 'off'], 'cannot be combined with --mode off'), (['--suppressions', ''], 'missing file name')):
        r = mt.plain([mt.MTRUN, *opts, '--', 'true'])
        text = r.err.decode()
        if r.rc != 125 or why not in text or text.count('\n') != 1:
            bad.append(f'{opts}: {r.rc} {text}')


# ---- processes ----------------------------------------------------------------------------------------------------------------------------

@case('a tree')
def _(bad):
    r = leak.checked(['sh', '-c', f'{LOST} -1 block & {LOST} tree chain; wait; {LOST} -1 interior; exit 4'], ['-q', '--leak-exitcode', '33'])
    told = dict(re.findall(r'case (\S+) (\d+)', r.out.decode()))
    for which, definite, indirect in (('block', (100, 1), (0, 0)), ('tree', (32, 1), (8128, 254)), ('chain', (32, 1), (3168, 99)), ('interior', (0, 0), (0, 0))):
        report = r.reports.get(int(told.get(which, 0)), {'rows': {}})
        if [report['rows'].get(row) for row in leak.ROWS[:2]] != [definite, indirect]:
            bad.append(f'{which}: {report}')
    if r.rc != 33 or len(r.reports) < 6 or any(not x['summary'] for x in r.reports.values()):
        bad.append(f'status {r.rc}, {len(r.reports)} reports: {r.messages[-300:]}')
    r = leak.checked(['sh', '-c', f'{LOST} -1 block; exit 4'], ['-q', '--no-follow', '--leak-exitcode', '33'])
    if r.rc != 4 or len(r.reports) != 1:
        bad.append(f'--no-follow: status {r.rc}, {len(r.reports)} reports')


@case('one that is attached')
def _(bad):
    p = mt.popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    p.stdin.write(b'here')
    p.stdin.flush()
    os.read(p.stdout.fileno(), 4)       # what it has allocated at its start is there
    m = mt.popen([mt.MTRUN, '-q', '--leak-exitcode', '33', '-p', str(p.pid), '-x', 'echo here; wait exit'], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    m.stdout.readline()
    p.terminate()
    out, err = m.communicate(timeout=60)
    p.wait()
    if m.returncode != 0 or b'leaks of cat' not in err or b'blocks were there before the attach' not in err or b'leaks' in out:
        bad.append(f'{m.returncode}: {out} {err}')


@case('one that is let go is not checked, and that is said')
def _(bad):
    said = re.compile(rb'mtrun: sleep \(\d+\) was not checked for leaks: it was let go before its end\n')
    for opts in (['-d', '200ms'], ['-x', 'detach'], ['-x', 'quit']):
        r = mt.plain([mt.MTRUN, '-q', '--leak-exitcode', '33', *opts, '--', 'sleep', '0.5'])
        if r.rc != 125 or not said.fullmatch(r.err):
            bad.append(f'{opts}: {r.rc} {r.err}')
    p = mt.popen(['sleep', '10'])
    mt.until(lambda: os.readlink(f'/proc/{p.pid}/exe').endswith('sleep'))
    m = mt.popen([mt.MTRUN, '-q', '--leak-check', '-p', str(p.pid), '-x', 'echo here; wait exit'],
                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    m.stdout.readline()
    m.terminate()
    err = m.communicate(timeout=60)[1]
    p.kill()
    p.wait()
    if m.returncode != 0 or not said.fullmatch(err):
        bad.append(f'a signal: {m.returncode} {err}')


# ---- suppressions ---------------------------------------------------------------------------------------------------------------------------

TRIED = """<script>
    const said = [], sums = () => said.push([...document.querySelectorAll("#lost tbody tr")].map((r) => [+r.dataset.bytes, +r.dataset.count]));
    sums();
    document.querySelector("#leaks td button").click();
    sums();
    for (const text of ["leak:nobody", "# all\\nleak:lose_*ee$", "leak:^/*lost.c$", ""]) {
        const area = document.querySelector("#suppressions textarea");
        area.value = text;
        area.dispatchEvent(new Event("input"));
        sums();
    }
    document.body.setAttribute("data-said", JSON.stringify(said));
    </script></body>"""


@case('suppressions')
def _(bad):
    tree, leaf = [(32, 1), (8128, 254)], (8160, 255)
    memcheck = '{{\n  a name\n  Memcheck:Leak\n{}  fun:malloc\n  {}\n}}\n'
    for text, rows, summary in (
            ('leak:nobody\n', [*tree, (0, 0)], leaf), ('# all\nleak:lose_tree\n', [(0, 0), (0, 0), leaf], (0, 0)), ('leak:lost.c\n', [(0, 0), (0, 0), leaf], (0, 0)),
            (memcheck.format('', 'fun:tree\n  fun:lose_tree'), [(0, 0), (8128, 254), (32, 1)], (0, 0)),
            (memcheck.format('  match-leak-kinds: indirect\n', '...\n  fun:lose_*'), [(32, 1), (0, 0), (8128, 254)], (32, 1)),
            (memcheck.format('  match-leak-kinds: possible\n', '...\n  fun:lose_tree'), [*tree, (0, 0)], leaf),
            (memcheck.format('', 'src:lost.c:*\n  ...'), [(0, 0), (0, 0), leaf], (0, 0)), (memcheck.format('', 'obj:*/lost'), [(0, 0), (0, 0), leaf], (0, 0)),
            (memcheck.format('', 'obj:*/other'), [*tree, (0, 0)], leaf)):
        r = lost('tree', opts=['-q', '--suppressions', file('one.supp', text), '--leak-exitcode', '33'])
        report = only(r)
        have = sums(report)
        if [have[0], have[1], have[4]] != rows or report['summary'] != summary or r.rc != (33 if rows[0][1] else 0):
            bad.append(f'{text!r}: {have} {report["summary"]} status {r.rc}')
        if sum(x['blocks'] for x in report['records']) != rows[0][1]:
            bad.append(f'{text!r}: {report["records"]}')
    page = f'{mt.tmp()}/suppressed.html'
    mt.plain([mt.MTRUN, '-q', '--suppressions', file('one.supp', 'leak:lose_tree\n'), '-x', f'wait exit; export html {page}', LOST, '-1', 'tree'])
    told = json.loads(re.search(r'id="data">\n(.*?)</script>', open(page).read(), re.S)[1])['leaks']
    if [(s[1], s[2]) for s in told['sums'] if s[0] in ('definitely lost', 'indirectly lost', 'suppressed')] != [(0, 0), (0, 0), leaf] or told['records']:
        bad.append(f'the page: {told}')
    if CHROMIUM:    # and as they are tried in the page itself
        mt.plain([mt.MTRUN, '-q', '-x', f'wait exit; export html {page}', LOST, '-1', 'tree'])
        text = open(page).read().replace('</body>', TRIED)
        with open(page, 'w') as f:
            f.write(text)
        m = re.search(r'data-said="([^"]*)"', browse(f'file://{page}'))
        all_, none = [[32, 1], [8128, 254], [0, 0], [0, 0], [0, 0]], [[0, 0]] * 4 + [[8160, 255]]
        if not m or json.loads(html.unescape(m[1])) != [all_, none, all_, none, none, all_]:
            bad.append(f'tried in the page: {m and m[1]}')
    r = lost('shared', opts=['-q', '--suppressions', file('one.supp', 'leak:nobody'), '--suppressions', file('two.supp', 'leak:lose_shared')])
    if sums(only(r)) != [(0, 0), (0, 0), (0, 0), (0, 0), (224, 7)]:
        bad.append(f'two files: {r.messages}')


@case('other kinds that are suppressed')
def _(bad):
    kinds = '{{\n  a\n  Memcheck:Leak\n  match-leak-kinds: {}\n  ...\n  fun:main\n}}\n'
    for kind, rows in (('possible', [(0, 0), (0, 0), (0, 0), (0, 0), (100, 1)]), ('definite,reachable', [(0, 0), (0, 0), (100, 1), (0, 0), (0, 0)])):
        r = lost('interior', opts=['-q', '--suppressions', file('kind.supp', kinds.format(kind))])
        if sums(only(r)) != rows:
            bad.append(f'{kind}: {r.messages}')
    r = lost('stack', opts=['-q', '--suppressions', file('kind.supp', kinds.format('reachable'))])
    if sums(only(r)) != [(0, 0), (0, 0), (0, 0), (0, 0), (100, 1)]:
        bad.append(f'reachable: {r.messages}')


@case('files that are none')
def _(bad):
    fifo = os.path.join(mt.tmp(), 'fifo')
    os.mkfifo(fifo)
    mark = os.path.join(mt.tmp(), 'it-ran')
    for path, why in ((os.path.join(mt.tmp(), 'no-such'), 'No such file'), (mt.tmp(), 'it is not a regular file'), (fifo, 'it is not a regular file'),
                      ('/dev/zero', 'it is not a regular file'), ('/proc/self/maps', 'it is not on a file system for files'),
                      (file('bad', 'leak:a\n\nlaek:b\n'), "line 3: 'laek:b' is not accepted: leak:PATTERN"),
                      (file('bad2', '{\n a\n Memcheck:Leak\n fun:malloc\n'), "line 4: 'fun:malloc' is not accepted: the file ends within { and }"),
                      (file('bad3', b'\x7fELF\0\0\0'), 'it is not a text file'), (file('bad4', 'evil\x1b[31m\n'), "line 1: 'evil\\x1b[31m' is not accepted"),
                      (file('bad5', 'leak:' + 'x' * 5000), 'it is too long')):
        r = mt.plain([mt.MTRUN, '--leak-check', '--suppressions', path, '--', 'touch', mark])
        text = r.err.decode(errors='replace')
        if r.rc != 125 or why not in text or text.count('\n') != 1 or '--suppressions' not in text or os.path.exists(mark):
            bad.append(f'{path}: {r.rc} {text}')
    r = mt.plain([mt.MTRUN, '--suppressions', file('empty', ''), '-q', '--', 'true'])
    if r.rc != 0 or r.err:
        bad.append(f'an empty one: {r.rc} {r.err}')


def valgrinds(which, program, opts=()):
    v = leak.valgrind([program, '-1', which], opts)
    return next(iter(v.leaks.values()), {}), v


@case('suppressions for Valgrind, and from it')
def _(bad):
    if not shutil.which('valgrind'):
        return mt.skip('suppressions for Valgrind', 'valgrind is not installed')
    for program, which in ((LOST, 'chain'), (LOST, 'table'), (CXX, 'words'), (CXX, 'array')):
        ours = os.path.join(mt.tmp(), f'{which}.ours')
        before = lost(which, opts=['-q', '-x', f'wait exit; leaks --gen-suppressions -n all > {ours}'], program=program)
        all_lost = [sums(only(before))[i] for i in (0, 1)]
        gone = (sum(x[0] for x in all_lost), sum(x[1] for x in all_lost))
        after = only(lost(which, opts=['-q', '--suppressions', ours], program=program))
        if not gone[1] or sums(after)[:2] != [(0, 0)] * 2 or sums(after)[4] != gone:
            bad.append(f'{which}: ours for us: {sums(after)}, {gone} were lost: {open(ours).read()[:800]}')
        rows, v = valgrinds(which, program, [f'--suppressions={ours}'])
        if [rows.get(row) for row in leak.ROWS[:2]] != [(0, 0)] * 2:
            bad.append(f'{which}: ours for Valgrind: {rows}: {open(ours).read()[:800]} {v.err[-600:]}')
        rows, v = valgrinds(which, program, ['--gen-suppressions=all'])
        theirs = file(f'{which}.theirs', '\n'.join(re.findall(r'^\{$.*?^\}$', v.err.decode(), re.M | re.S)) + '\n')
        after = only(lost(which, opts=['-q', '--suppressions', theirs], program=program))
        if sums(after)[:2] != [(0, 0)] * 2 or sums(after)[4] != gone:
            bad.append(f'{which}: theirs for us: {sums(after)}: {open(theirs).read()[:800]}')


mt.finish()
