#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# waits
"""shell - commands in a batch run: what they print, where it goes, how scripts go on, with which status mtrun ends."""
import json
import os
import re
import shutil
import signal
import subprocess
import time

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
d = mt.tmp()
SITES = mt.build('sites.c')
SH = '/bin/sh'


def run(name, commands, cmd=('true',), rc=0, opts=('-q',), err=None, out=None, **kw):
    """COMMANDS by -x; ERR, OUT: regular expressions that must match all of what was printed."""
    r = mt.plain([mt.MTRUN, *opts, '-x', commands, '--', *cmd], timeout=30, cwd=d, **kw)
    bad = []
    r.text = r.err.decode(errors='replace')
    r.printed = r.out.decode(errors='replace')
    if r.rc != rc:
        bad.append(f'status {r.rc}, should be {rc}')
    if err is not None and not re.fullmatch(err, r.text, re.S):
        bad.append(f'stderr is {r.text[:600]!r}, should be {err!r}')
    if out is not None and not re.fullmatch(out, r.printed, re.S):
        bad.append(f'stdout is {r.printed[:600]!r}, should be {out!r}')
    mt.check(name, bad)
    return r


def read(name):
    with open(os.path.join(d, name)) as f:
        return f.read()


# ---- where text goes
run('echo goes to stderr', 'echo a  "b  c" \'d;e\'; echo f # no', err='a b  c d;e\nf\n', out='')
run('redirections', 'echo one > f; echo two >> f; echo "three" > "g h"', err='')
mt.check('redirected files', [n for n, t in (('f', 'one\ntwo\n'), ('g h', 'three\n')) if read(n) != t])
run('a pipe', 'echo "b\na" | sort', err='a\nb\n')
run('redirections, no blank', 'echo one >f1; echo two >>f1; echo b |cat; echo c\\>d >"i j"', err='b\n')
mt.check('redirected files, no blank', [n for n, t in (('f1', 'one\ntwo\n'), ('i j', 'c>d\n')) if read(n) != t])
run('a pipe that closes', 'report --by stack | head -1; echo on', [SITES, '100'], err=r'total_size: \d+\non\n')
run('a pipe to what fails', 'echo a | exit 3; echo b | cat; status | grep nowhere; echo c | kill -9 $$', rc=125,
    err="mtrun: 'exit 3': exit status 3\nb\nmtrun: 'grep nowhere': exit status 1\nmtrun: 'kill -9 \\$\\$': exit status 137\n")
run('a pipe to what nobody reads', 'report --stacks | kill -PIPE $$; echo on', [SITES, '100'], err='on\n')
run('a shell command', "! printf 'x;%s\\n' y; echo z", err='x;y\nz\n')
run('a shell command that fails', '! exit 3', rc=125, err="mtrun: !: 'exit 3': exit status 3\n")
run('messages in a file', 'echo hello; foo', [SH, '-c', 'echo err >&2; exit 3'], rc=125, opts=['--messages', 'm'], err='err\n')
mt.check('the file has it all', [] if re.match(r"hello\nmtrun: unknown command 'foo'.*\nmtrun: sh \(\d+\) exited with status 3 after", read('m')) else [read('m')])

# ---- mistakes: one line each, the rest is run, 125
for what, words in {
        'foo': "unknown command 'foo'", 's': "'s' is ambiguous: status", 'report --frob': "unknown option '--frob'", 'report -n x': "invalid value 'x'",
        'report --by y': 'site, stack, function', 'report --sort y': 'size, count, total or temporary', 'report --at x': 'peak',
        'report --match (': 'regular expression', 'report --min-age 5x': "'5x'", 'report extra': "'extra'", 'report -n': "missing after '-n'",
        'report --at peak --by thread': 'per stack', 'blocks --site a --stack 1': 'combined', 'blocks --min-size 5X': "'5X'", 'text -x': "'-x'",
        'tree --depth 0': "'0'", 'wait': 'TIME, exit, limit, error, or a condition', 'wait 5x': "'5x'", 'wait heap >': 'heap >', 'wait heap > 5X': 'heap > 5X',
        'wait heap > 1G': 'ended', 'kill NOSUCH': "'NOSUCH'", 'process 1': 'no process 1', 'bt 1': 'no thread 1', 'x': 'missing', 'x zz': "'zz'",
        'leaks --gen-suppressions --json': 'cannot be combined with --json',
        'x 0x10': 'mapped', 'source /no/such': "'/no/such'", 'source': 'missing file name', 'source /bin/true': 'not a text file', 'on exit echo x': 'put the commands in braces', 'set foo': "'foo'", 'record foo': "'foo'", 'set site-skip (': 'regular expression', 'echo a > /no/such/f': '/no/such/f',
        'echo a > /dev/full': 'No space', 'echo a >': "after '>'", 'echo a |': "after '|'", 'echo } ': "without '{'", 'echo a > b c': 'file name', 'status 1': "'1'",
        'quit now': "'now'", 'help nothing': "'nothing'", 'echo a | no-such-command-here': 'no-such-command-here'}.items():
    r = run(f'mistake: {what}', f'wait exit; {what}\necho on', rc=125)
    lines = [line for line in r.text.splitlines() if line.startswith('mtrun: ')]
    if len(lines) != 1 or words not in lines[0] or not r.text.endswith('on\n'):
        mt.fail(f'mistake: {what}: one line and on', r.text)
run('quotes that do not end', 'echo "a', rc=125, err='mtrun: .*quote.*\n')

# ---- the gs driver shell's spellings: the same answers as JSON
GS = {'get_mem_report()': 'report --json', 'get_all_time_size()': 'timeline --json', 'get_mem_report_with_time(100)': 'report --at 0.1 --json'}
script, same = 'wait exit', []
for i, (call, command) in enumerate(GS.items()):
    for k, how in enumerate((call, f"'{call}'", f"'{call}", f'mem_profiler.{call}', f'system.core.mem_profiler.{call}', f"'system.core.{call}'", call.replace('(', '( ').replace(')', ' )'))):
        script += f'\n{how} > gs{i}.{k}'
        same.append((how, f'gs{i}.{k}', f'gs{i}'))
    script += f'\n{command} > gs{i}'
with open(os.path.join(d, 'gs.mt'), 'w') as f:
    f.write(script + '\n')
r = mt.plain([mt.MTRUN, '-q', '-X', 'gs.mt', SITES, '300'], cwd=d, timeout=30)


def gs_shape(answer):
    """What the gs driver says of it."""
    if 'points' in answer:
        return answer['points']
    rows = [(r['file'] or r['module'], r['line'] or 0, r['size']) for r in answer['mem_report']]
    columns = [max(len(c) for c in column) for column in zip(*((f, f'line:{n}') for f, n, _ in rows))]
    return {'total_size': answer['total_size'], 'mem_report': [f'{f:{columns[0]}}  {f"line:{n}":{columns[1]}}  size:{s}' for f, n, s in rows]}


mt.check('gs spellings', [r.err.decode()] if r.rc or r.err else [(how, read(a)[:300]) for how, a, b in same if json.loads(read(a)) != gs_shape(json.loads(read(b)))])
run('gs spellings: recording', "set_enable_mem_profiler(); record; 'mem_profiler.set_enable_mem_profiler(MemRecordType.MEM_FAST)'; record; set_enable_mem_profiler(MEM_RECORD); record; record off; set_enable_mem_profiler(4); record",
    err='true\nmem\ntrue\nmem-fast\ntrue\nmem\ntrue\nmem\n')
run('gs spellings: words', "mem_profiler.set_enable_mem_profiler MemRecordType.MEM_RECORD; record; 'get_mem_profiler_log_number; get_all_time_size | head -c 2; echo; set_enable_mem_profiler\nrecord",
    err='true\nmem\n10\n\\[\\[\ntrue\nmem\n')
run('gs spellings: of a program that is there', 'start_mem_log_profiler()', err='Process complete, profiler contains record for [0-9]+ ms, start from [-0-9 :]+\n')
run('gs spellings: log files', 'set_mem_profiler_log_number(20); get_mem_profiler_log_number(); log --json | jq -c .files', err='true\n20\n20\n')
for what, words in {'set_enable_mem_profiler(MemRecordType.NO_SUCH)': "invalid value 'MemRecordType.NO_SUCH'", 'set_enable_mem_profiler(3)': "invalid value '3'",
                    'set_enable_mem_profiler(44)': "invalid value '44'", 'set_enable_mem_profiler(0)': "invalid value '0'", 'get_mem_report(1)': 'takes no argument', 'get_mem_report_with_time()': 'argument is missing', 'get_mem_report(': "')' is missing", 'no_such_call()': 'unknown command',
                    'get_mem_report_with_time(99999999)': "get_mem_report_with_time(): '99999999ms' is outside", 'set_mem_profiler_log_number(0)': "set_mem_profiler_log_number(): invalid value '0'",
                    'start_mem_log_profiler 0': "start_mem_log_profiler(): invalid value '0'", 'mem_profiler.get_mem_reprt(5)': "(did you mean 'get_mem_report()'?)"}.items():
    run(f'mistake: {what}', f'wait exit; {what}\necho on', rc=125, err=f'mtrun: [^\n]*{re.escape(words)}[^\n]*\non\n')

# ---- what one may have meant, other names, help where it is looked for
for what, words in {'repotr': "'report'", 'statsu': "'status'", 'report --sicne 1': "'--since'", 'text --bsae x': "'--base'", 'tree --jsno': "'--json'"}.items():
    run(f'did you mean: {what}', f'{what}\necho on', rc=125, err=f'mtrun: [^\n]*\\(did you mean {words}\\?\\)\non\n')
r = mt.plain([mt.MTRUN, '--limt', '5', 'true'])
mt.check('did you mean: an option', [] if r.rc == 125 and r.err == b"mtrun: unknown option '--limt' (did you mean '--limit'?)\n" else [r.err])
run('exit is quit', 'echo a; exit; echo b', err='a\n')
for what in ('?', '? report', 'report --help', 'wait --help', 'rep --help'):
    name = what.split()[-1] if what.startswith('? ') else {'?': 'status', 'rep --help': 'report'}.get(what, what.split()[0])
    if not (h := run(f'help: {what}', what)).text.startswith(name):
        mt.fail(f'help: {what}', h.text)
run('echo prints all that it is given', 'echo --help', err='--help\n')

# ---- names of processes, functions and objects
# a child has its name once it has replaced itself: by then it reads
for fifo in 'began', 'began2', 'end', 'end2':
    os.mkfifo(os.path.join(d, fifo))
run('process NAME', '! echo > began\nprocess cat; process sh; process nope\n! echo > end', [SH, '-c', 'cat began end; true'], rc=125,
    err=r"process \d+ \(cat\), running\nprocess \d+ \(sh\), running\nmtrun: process: invalid value 'nope': expected [^\n]*\n.*")
run('process NAME of several', '! echo > began\n! echo > began2\nprocess cat\n! echo > end\n! echo > end2',
    [SH, '-c', 'cat began end & cat began2 end2; wait'], rc=125,
    err=r"mtrun: process: several processes are called 'cat': \d+, \d+\n.*")
run('why a regular expression is none', "set site-skip '('; report --match ')x('", rc=125,
    err=r"(mtrun: .*: '[)x]*\(' is not a valid regular expression: [^\\\n]+\n){2}")
run('a snapshot of another process',
    '! echo > began\nsnapshot s; process cat; diff s; report --since s\n! echo > end',
    [SH, '-c', 'cat began end; true'], rc=125,
    err=r"process (\d+) \(cat\), running\n"
        r"mtrun: diff: A: 's' is a snapshot of process (?!\1)(\d+), not of \1\n"
        r"mtrun: report: --since: 's' is a snapshot of process \2, not of \1\n.*")
run('a snapshot from before an exec', 'snapshot s\n! echo > began\nwait exit; report --since s',
    [SH, '-c', 'cat began; exec true'], rc=125,
    err=r"mtrun: report: --since: 's' was taken before process \d+ executed another program\n")
with open(os.path.join(d, 'names.cc'), 'w') as f:
    f.write('namespace web {\nint table[100];\nstruct server { int handle(int x) const; int handle(long x) const; };\n'
            'int __attribute__((noinline)) server::handle(int x) const { return x + table[1]; }\n'
            'int __attribute__((noinline)) server::handle(long x) const { return static_cast<int>(x) + table[2]; }\n'
            'namespace { int __attribute__((noinline)) hidden(int x) { return x * 3 + table[3]; } }\n'
            'template <class T> int __attribute__((noinline)) twice(T x) { return static_cast<int>(x) * 2 + table[4]; }\n}\n'
            'int main(int argc, char **) { web::server s; volatile int v = web::twice<long>(web::hidden(s.handle(argc) + s.handle(2L))); return v * 0; }\n')
if shutil.which('g++') and subprocess.run(['g++', '-g', '-O1', '-fno-inline', '-o', 'names', 'names.cc'], cwd=d).returncode == 0:
    script = ''
    for name in ('web::server::handle(long) const', 'web::server::handle(int) const', 'web::server::handle', 'web::(anonymous namespace)::hidden', 'web::table',
                 'int web::twice<long>', 'web::twice<long>', 'web::twice<long>(long)', 'web::server::handle(char)'):
        script += f"trace '{name}'\nx '{name}' 4\n"
    r = run('C++ names', 'wait exit\n' + script, ['./names'], rc=125)
    mt.check('trace and x take C++ names', [r.text] if len(re.findall(r'^0x[0-9a-f]+ is in no block: ', r.text, re.M)) < 7 or
             len(re.findall(r'^0x[0-9a-f]{12}  ', r.text, re.M)) < 7 or "invalid value 'web::server::handle(char)'" not in r.text else [])

# ---- addresses that are short
with open(os.path.join(d, 'low.c'), 'w') as f:
    f.write('int low[20] = { 1 };\nint main(void) { return 0; }\n')
if subprocess.run(['gcc', '-g', '-no-pie', '-o', 'low', 'low.c'], cwd=d).returncode == 0:
    nm = subprocess.run(['nm', 'low'], cwd=d, stdout=subprocess.PIPE, text=True).stdout
    low = int(re.search(r'^([0-9a-f]+) D low$', nm, re.M)[1], 16)
    r = run('short addresses', 'wait exit\ntrace low; who low; x low 40', ['./low'], err='(.*\n)+')
    shown = [int(a, 16) for a in re.findall(r'^0x([1-9a-f][0-9a-f]*)', r.text, re.M)]
    mt.check('an address is the same in trace, who and x',
             [r.text] if shown != [low, low, low, low + 16, low + 32] else [])

# ---- one of each: no plurals but in the words that others parse
with open(os.path.join(d, 'one.c'), 'w') as f:
    f.write('#include <stdlib.h>\nvoid *volatile p;\nint main(void) { p = malloc(1); return 0; }\n')
if subprocess.run(['gcc', '-g', '-O0', '-o', 'one', 'one.c'], cwd=d).returncode == 0:
    r = run('one block of one byte', 'wait exit; snapshot a; snapshot; dump one; status; limit; report --stacks -n 1; blocks; ! "$MTRUN" -q -r one*.heap -x status', ['./one'], env=dict(os.environ, MTRUN=mt.MTRUN), opts=[], err='(.*\n)+')
    fixed = re.sub(r'^# .*: 1 bytes$', '', r.text, flags=re.M)
    mt.check('one of each: the words for one', re.findall(r'.*\b1 [a-z]+s\b.*', fixed) + [x for x in ('1 byte in 1 block from 1 stack\n', '1 event, ', '1 byte ever', 'live       1 byte in 1 block from 1 stack\n') if x not in fixed])

# ---- abbreviations, help
run('abbreviations', 'wai exit; statu | head -1; rep --j | wc -l', err=r'program .*\n\d+\n')
r = run('help', 'help')
shown = []
for name in re.findall(r'^(\S+) ', r.text.split('\n\n')[0], re.M):
    h = run(f'help {name}', f'help {name}')
    if not h.text.startswith(name):
        mt.fail(f'help {name}: begins with it', h.text)
    example = re.search(r'^Example: (.+)$', h.text, re.M)
    if not example or name not in re.findall(r'!|[a-z]+', example[1]):
        mt.fail(f'help {name}: has an example', h.text)
    elif name in ('blocks', 'bt', 'cont', 'echo', 'export', 'leaks', 'map', 'processes', 'report', 'sample', 'status',
                  'stop', 'text', 'threads', 'timeline', 'tree', '!'):
        shown.append(example[1])
run('examples of help', '\n'.join(['wait 100ms', 'export html memory.html'] + shown + ['kill']), ['sleep', '100'], rc=-9,
    err='((?!mtrun: [a-z!]+: ).)*')

# ---- lists add up
for victim, several in ((SITES, False), (mt.build('threads.c', 'gcc'), True)):
    r = run(f'the peak of {"several threads" if several else "one thread"} is {"approximate" if several else "exact"}', 'wait exit; status', [victim], err='(.*\n)+')
    if ('approximate' in r.text) != several:
        mt.fail('status says how exact the peak is', r.text)
r = run('forms of report', 'wait exit; report -n 3 > t; report -n 3 --json > j; report --json > all; report --by stack --json > s; report --at peak --json > p; status --json > st;'
        'report --stacks -n 2 > k; text -n 3 --bytes > x; text -n 3 --json > xj; tree --json > tr; blocks --json > b; blocks -n 2 --json > b2', [SITES, '100'])
rows = re.findall(r'^(\S.*?) +line:(\d+) +size:(-?\d+) +count:(\d+) +(.*)$', read('t'), re.M)
total = int(re.match(r'total_size: (\d+)\n', read('t'))[1])
a = {n: json.loads(read(n)) for n in ('j', 'all', 's', 'p', 'st', 'xj', 'tr', 'b', 'b2')}
bad = []
if len(rows) != 4 or rows[3][0] != '(others)' or sum(int(x[2]) for x in rows) != total:
    bad.append(f'text: {read("t")}')
if [x[0] for x in rows[:3]] != [x['file'] for x in a['j']['mem_report'][:3]]:
    bad.append('text and JSON have not the same rows')
for n in ('j', 'all', 's', 'p'):
    if sum(x['size'] for x in a[n]['mem_report']) != a[n]['total_size'] or sum(x['count'] for x in a[n]['mem_report']) != a[n]['total_count']:
        bad.append(f'{n} does not add up')
if not a['j']['total_size'] == a['all']['total_size'] == a['s']['total_size'] == total == a['tr']['size'] == a['xj']['total']:
    bad.append('totals differ between reports')
if a['p']['total_size'] != a['st']['peak'] or a['p']['time_ms'] != a['st']['peak_ms']:
    bad.append(f"at peak: {a['p']['total_size']}, status says {a['st']['peak']}")
if a['st']['heap'] != total or a['st']['live_blocks'] != a['all']['total_count']:
    bad.append('status and report differ')
if sum(x['size'] for x in a['b']['blocks']) != total or sum(x['size'] for x in a['b2']['blocks']) + a['b2']['others']['size'] != total:
    bad.append('blocks do not add up')
if sum(x['flat'] for x in a['xj']['rows']) != total:
    bad.append('flats do not add up')
if not all(x['stack'] and x['stack'][0]['function'] for x in a['s']['mem_report']):
    bad.append('stacks are missing')
mt.check('lists add up', bad)


run('tree -n', 'wait exit; tree -n 4 > t4; tree -n 4 --json > t4j; tree -n 0 > t0; tree --invert -n 3 --json > i3; tree -n all --json > tall; tree --json > tr', [SITES, '100'])
four, whole = json.loads(read('t4j')), json.loads(read('tr'))


def nodes(node):
    return sum(1 + nodes(c) for c in node['children'] if c['function'] != '(others)')


def in_tree(part, node):
    """Whether PART is NODE with nothing but less detail."""
    left = {c['function']: c for c in node['children']}
    if part['function'] != node['function'] or part['size'] != node['size'] or part['self'] != node['self']:
        return False
    for c in part['children']:
        if c['function'] != '(others)' and not in_tree(c, left.pop(c['function'])):
            return False
    return sum(c['size'] for c in left.values()) == sum(c['size'] for c in part['children'] if c['function'] == '(others)')


mt.check('tree -n: the biggest, and others', [f'{nodes(four)} nodes'] if nodes(four) != 4 else [] if in_tree(four, whole) else [read('t4j')])
mt.check('tree -n: as text', [] if read('t0').count('\n') == 2 and '(others)' in read('t0') and read('t4').count('(others)') <= 5 else [read('t0') + read('t4')])
mt.check('tree -n: inverted, all', [] if nodes(json.loads(read('i3'))) == 3 and json.loads(read('tall')) == whole else [read('i3')])


def tree_adds_up(node):
    return node['size'] == node['self'] + sum(c['size'] for c in node['children']) and all(tree_adds_up(c) for c in node['children'])


mt.check('the tree adds up', [] if tree_adds_up(a['tr']) else [read('tr')[:500]])
k = read('k')
mt.check('--stacks', [] if re.findall(r'^# (.*)$', k, re.M)[1:] == [f"{i} bytes" for i in re.findall(r'^# (\d+: \d+) bytes$', k, re.M)]
         and [m[0] for m in re.findall(r'^# (\d+):', k, re.M)] == ['1', '0'] and re.search(r'^   0: \S+\n +at /.*/sites\.c:\d+:\d+$', k, re.M) else [k])
mt.check('text', [] if re.fullmatch(r'Total: \d+ B\n( *\d+ +\d+\.\d% +\d+\.\d% +\d+ +\d+\.\d% .+\n){4}', read('x')) else [read('x')])

KEYS = {
    'st': 'pid state exit_status allocated heap usable mmap mmap_reserved mmap_resident image other unaccounted peak peak_ms live_blocks allocs frees maps '
          'unmaps unknown_frees total_allocated limit limit_hits threads rss mode sample elapsed_ms events dropped truncated waited_ms log_files processes',
    'all': 'time_ms total_size total_count mem_report', 'b': 'blocks', 'tr': 'function size children', 'xj': 'total rows',
}
mt.check('JSON keys', [f'{n}: {k}' for n, ks in KEYS.items() for k in ks.split() if k not in a[n]] +
         [k for k in 'size count total_size total_count temporary function file line module stack_id stack'.split() if k not in a['s']['mem_report'][0]] +
         [k for k in 'function file line column module address inlined'.split() if k not in a['s']['mem_report'][0]['stack'][0]] +
         [k for k in 'pid ppid command state heap mmap allocs'.split() if k not in a['st']['processes'][0]] +
         [k for k in 'address size age_ms thread stack_id'.split() if k not in a['b']['blocks'][0]])

# ---- the program's end
for code in (0, 7, 255):
    run(f'exit status {code}', 'status > /dev/null', [SH, '-c', f'exit {code}'], rc=code, err='')
for sig in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT):
    run(f'killed by {sig.name}', 'status > /dev/null', [SH, '-c', f'kill -{sig.value} $$'], rc=-sig, err='')
run('wait exit holds it', 'wait exit; x 0 ; bt > /dev/null', rc=125)
run('held after SIGKILL', 'wait exit; status | head -1; bt | head -1', [SH, '-c', 'kill -9 $$'], rc=-9,
    err=r'program +\d+ \(sh\), killed by SIGKILL, .*\nthread \d+ \(sh\)\n')
run('the summary', 'echo before', [SITES, '10'], opts=[],
    err=r'before\nmtrun: sites \(\d+\) exited with status 0 after .*\n  peak +[\d,]+ bytes at .*\n  allocated .*\n  still live  [\d,]+ bytes .*\ntotal_size: \d+\n(\S.* line:\d+ .*\n)+')
run('the summary is of the program that `run` started', 'wait exit; run; wait exit', [SITES, '10'], opts=[], err=r'mtrun: sites \(\d+\) exited with status 0 after .*')
run('the summary names who had more', 'wait exit', [SH, '-c', f'{SITES} 2000 & wait'], opts=[], err=r'mtrun: sh .*\n  larger      sites \(\d+\): peak .*')
run('stopped by a signal', 'wait 0.1; ! kill -STOP $(pgrep -n -x -P $PPID sleep); wait 0.2; status | head -1; kill', ['sleep', '30'], rc=-9, err='program .*, stopped, 1 thread.*\n')
run('kill', 'wait 0.1; kill; status | head -1', ['sleep', '30'], rc=-9, err='program .*killed by SIGKILL.*\n')
run('kill TERM', 'wait 0.1; kill TERM', ['sleep', '30'], rc=-15, err='')
run('stop and cont', 'wait 0.1; stop; status | head -1; bt > /dev/null; cont; status | head -1; kill', ['sleep', '30'], rc=-9, err='program .*, stopped,.*\nprogram .*, running,.*\n')
run('left stopped', 'wait 0.1; stop', ['sleep', '2'], err=r'mtrun: no more commands: process \d+ runs on\n')
run('started stopped', 'status | head -1; cont; wait exit', opts=['-q', '-S'], err='program .*, stopped,.*\n')
run('nobody lets it go on', 'wait exit; cont; stop; wait allocs > 1T; cont', opts=['-q', '-S'], rc=125,
    err='mtrun: wait: the program is stopped, `cont` runs it: `exit`\nmtrun: wait: the program is stopped, `cont` runs it: `allocs > 1T`\n')
run('a block lets it go on', 'every 50ms { cont; every off }; wait exit; echo on', opts=['-q', '-S'], err='on\n')
run('the stack before the first instruction', 'bt; cont', [SITES, '10'], opts=['-q', '-S'], err=r'thread \d+ \(sites\)\n   0: _start\n +in \S*/ld-linux-x86-64\.so\.2\n')
run('the same at the limit', 'on limit { bt; limit off; cont }', [SITES, '10'], opts=['-q', '-l', '1', '--on-limit', 'stop'],
    err=r'\[MEMTRACER\].*thread \d+ \(sites\)\n   0: _start\n +in \S*/ld-linux-x86-64\.so\.2\n')
run('wait for a time', 'wait 0.2; echo on', ['sleep', '0.4'], err='on\n')
run('wait no longer than the program', 'wait 100s; echo on', ['sleep', '0.2'], err='on\n')
run('wait for allocations', 'wait allocs>=100; echo on', [SITES, '1000'], err='on\n')
run('wait times out', 'wait heap > 1T timeout 100ms; echo on; kill', ['sleep', '30'], rc=125, err='mtrun: wait: timed out: `heap > 1T timeout 100ms`\non\n')
run('-d', 'wait exit; status | head -1', [SH, '-c', 'sleep 0.6; exit 9'], rc=9, opts=['-q', '-d', '0.2'], err='program .*, detached,.*\n')
r = run('set alone', 'set; set rows 100')
columns = [re.match(r'\S+ +\S+ +# ', x) for x in r.text.splitlines()]
mt.check('set: columns', [] if len(columns) >= 3 and all(columns) and len({len(m[0]) for m in columns}) == 1 else [r.text])
run('set', 'set rows 1; set; wait exit; report | wc -l', [SITES, '10'], err='rows +1 .*\nsite-skip +\'\'.*\n3\n')
run('site-skip', "wait exit; set site-skip '^(branch|leaf_[ab])$'; report --json > skip", [SITES, '10'])
mt.check('site-skip passes over', [x['function'] for x in json.loads(read('skip'))['mem_report'] if x['function'] in ('branch', 'leaf_a', 'leaf_b')])
run('a hook that came to nothing', 'status > /dev/null', opts=['-q', '--hook', 'no_such_function'], err="mtrun: --hook: 'no_such_function' was not hooked: .*\n")

# ---- leaving it alone
def tell(fifo):
    """Gives who reads there a line; whether anybody does."""
    try:
        fd = os.open(os.path.join(d, fifo), os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return False
    os.write(fd, b'line\n')
    os.close(fd)
    return True


for what in ('quit', 'detach'):
    gone = os.path.join(d, what)
    p = mt.popen([mt.MTRUN, '-x', f'wait 0.1; {what}; ! touch after-{what}', SH, '-c', f'read line < end; echo alive > {gone}'], cwd=d,
                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    rc = p.wait(20)
    mt.check(f'{what}: mtrun does not wait for the program', [] if rc == 0 and not os.path.exists(gone) else [rc])
    mt.check(f'{what}: the program lives on', [] if mt.until(lambda: tell('end'), 10) and mt.until(lambda: os.path.exists(gone), 10) else ['it does not'])
    mt.check(f'{what}: what follows', [] if os.path.exists(os.path.join(d, f'after-{what}')) == (what == 'detach') else ['wrong'])

# ---- scripts
with open(os.path.join(d, 'inner.mt'), 'w') as f:
    f.write('echo inner\nfoo\n')
with open(os.path.join(d, 'outer.mt'), 'w') as f:
    f.write('# a comment\necho \\\n  one; source inner.mt\n\nreport --frob\necho last')
r = mt.plain([mt.MTRUN, '-q', '-X', 'outer.mt', 'true'], cwd=d)
mt.check('a script', [] if r.rc == 125 and re.fullmatch(r"one\ninner\nmtrun: inner\.mt:2: unknown command 'foo'.*\nmtrun: outer\.mt:5: report: unknown option '--frob'.*\nlast\n",
                                                        r.err.decode()) else [r.err])
p = mt.popen([mt.MTRUN, '-q', '-X', '-', 'cat'], stdin=subprocess.PIPE, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
bad = []
for i in range(3):
    p.stdin.write(f'echo question {i}\n'.encode())
    p.stdin.flush()
    if p.stderr.readline() != f'question {i}\n'.encode():
        bad.append(f'no answer to {i}')
    time.sleep(0.02)
p.stdin.write(b'wait exit\nstatus')
p.stdin.close()
text = p.stderr.read().decode()
if p.wait() != 0 or 'exited with status 0' not in text:
    bad.append(text)
mt.check('a conversation through -X -', bad)
mt.end_group(p)

mt.finish()
