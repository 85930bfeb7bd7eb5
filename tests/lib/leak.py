# SPDX-License-Identifier: GPL-3.0-or-later
"""
leak - what mtrun's leak check and memcheck say, as numbers: {pid: {row: (bytes, blocks)}}, rows as in ROWS.
"""
import os
import re

import mt

ROWS = ('definitely lost', 'indirectly lost', 'possibly lost', 'still reachable', 'suppressed')
ROW = re.compile(r'\s*(definitely lost|indirectly lost|possibly lost|still reachable|suppressed): ([\d,]+) bytes in ([\d,]+) blocks$')
HEAD = re.compile(r'mtrun: leaks of (.*) \((\d+)\) at its end:$')
RECORD = re.compile(r'([\d,]+)(?: \(([\d,]+) direct, ([\d,]+) indirect\))? bytes in ([\d,]+) blocks are (definitely lost|indirectly lost|possibly lost|still reachable)'
                    r' in loss record (\d+) of (\d+) \(stack \d+\)$')
SUMMARY = re.compile(r'SUMMARY: mtrun: (\d+) byte\(s\) leaked in (\d+) allocation\(s\)\.$')


def number(text):
    return int(text.replace(',', ''))


def valgrind(cmd, options=(), env=None, timeout=120):
    """CMD under memcheck, its forks included. The result has .leaks."""
    r = mt.plain(['valgrind', '--leak-check=full', '--show-leak-kinds=all', *options, *cmd], timeout=timeout, env={**os.environ, **(env or {})})
    r.leaks = {}
    for line in r.err.decode(errors='replace').splitlines():
        m = re.match(r'==(\d+)== (.*)', line)
        if not m:
            continue
        pid = int(m[1])
        if 'All heap blocks were freed' in m[2]:
            r.leaks[pid] = {row: (0, 0) for row in ROWS}
        row = ROW.match(m[2])
        if row:
            r.leaks.setdefault(pid, {})[row[1]] = number(row[2]), number(row[3])
    return r


def reports(text):
    """The reports in what mtrun has said: {pid: report}, with .rows, .records [{bytes, direct, indirect, blocks, kind, index, of, stack [functions]}], .summary."""
    found, now = {}, None
    for line in text.splitlines():
        head, row, record, summary = HEAD.match(line), ROW.match(line), RECORD.match(line), SUMMARY.match(line)
        if head:
            now = found[int(head[2])] = {'name': head[1], 'rows': {}, 'records': [], 'summary': None, 'lines': []}
        if not now:
            continue
        now['lines'].append(line)
        if row:
            now['rows'][row[1]] = number(row[2]), number(row[3])
        elif record:
            now['records'].append({'bytes': number(record[1]), 'direct': number(record[2] or record[1]), 'indirect': number(record[3] or '0'),
                                   'blocks': number(record[4]), 'kind': record[5], 'index': int(record[6]), 'of': int(record[7]), 'stack': []})
        elif summary:
            now['summary'] = int(summary[1]), int(summary[2])
            now = None
        elif now['records'] and not now['rows']:
            m = re.match(r'\s+(?:\d+: )?(\S.*)$', line)
            if m and not re.match(r'\s+(at|in) ', line):
                now['records'][-1]['stack'].append(m[1])
    return found


def checked(cmd, opts=(), env=None, timeout=mt.TIMEOUT, **kw):
    """CMD under mtrun --leak-check. The result has .reports, and .messages."""
    d = mt.tempfile.mkdtemp(dir=mt.tmp())
    r = mt.plain([mt.MTRUN, '--messages', f'{d}/messages', '--leak-check', *opts, '--', *cmd], timeout=timeout, env={**os.environ, **(env or {})}, **kw)
    with open(f'{d}/messages', errors='replace') as f:
        r.messages = f.read()
    r.reports = reports(r.messages)
    return r
