#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 300
"""
export - each format opened in its own reader: its total and its functions are those of `report`, in bytes, and those that the victim says; of now, the
peak, an earlier time, the growth since a snapshot, and what was allocated in total. Files that cannot be written, and other mistakes.
"""
import gzip
import json
import os
import re
import resource
import shutil
import stat
import subprocess
import xml.etree.ElementTree as ET

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt
from cdp import browse

mt.need_mtrun()
D = mt.tmp()
SHAPES = mt.build('shapes.c', 'gcc')
FOUR = mt.build('fourlines.cc', 'gcc')
MOMENTS = {'live': '', 'peak': '--at peak', 'total': '--total', 'since': '--since one', 'time': None, 'total-since': '--total --since one'}
REPORT = {'total': '--all', 'total-since': '--all --since one'}
FORMATS = {'heap': 'heap', 'jemalloc': 'jem', 'pprof': 'pb.gz', 'folded': 'folded', 'flamegraph': 'svg', 'graph': 'graph.svg'}
UNSIGNED = [f for f in FORMATS if f not in ('pprof', 'graph')]
SVG = '{http://www.w3.org/2000/svg}'
GRAMMAR = '''syntax = "proto3";
message Profile { repeated Type sample_type = 1; repeated Sample sample = 2; repeated Mapping mapping = 3; repeated Location location = 4;
  repeated Function function = 5; repeated string string_table = 6; int64 time_nanos = 9; int64 duration_nanos = 10; Type period_type = 11; int64 period = 12;
  repeated int64 comment = 13; int64 default_sample_type = 14; }
message Type { int64 type = 1; int64 unit = 2; }
message Sample { repeated uint64 location_id = 1; repeated int64 value = 2; }
message Mapping { uint64 id = 1; uint64 start = 2; uint64 limit = 3; uint64 offset = 4; int64 filename = 5; int64 build_id = 6; bool a = 7; bool b = 8; bool c = 9; bool d = 10; }
message Location { uint64 id = 1; uint64 mapping_id = 2; uint64 address = 3; repeated Line line = 4; }
message Line { uint64 function_id = 1; int64 line = 2; int64 column = 3; }
message Function { uint64 id = 1; int64 name = 2; int64 system_name = 3; int64 filename = 4; }
'''


def run(cmd, **kw):
    r = subprocess.run(cmd, capture_output=True, timeout=100, **kw)
    return r.stdout.decode(errors='replace'), r.stderr.decode(errors='replace'), r.returncode


def is_allocator(name):
    return re.match(r'operator new|operator delete|(malloc|calloc|realloc)$', name)


def stacks_of(report, key):
    """What `report --by stack --json` says: ((outermost, ..., innermost), bytes)."""
    stacks = []
    for row in report['mem_report']:
        names = [f['function'] for f in row['stack']]
        while len(names) > 1 and is_allocator(names[0]):
            names.pop(0)
        if row[key]:
            stacks.append((tuple(reversed(names)), row[key]))
    return stacks


def by_leaf(stacks):
    flat = {}
    for names, size in stacks:
        flat[names[-1]] = flat.get(names[-1], 0) + size
    return flat


def short(flat):
    """As jeprof and pprof shorten names: without arguments of functions and templates."""
    out = {}
    for name, size in flat.items():
        name = name.replace(' (inline)', '').replace('(anonymous namespace)', '')
        while (less := re.sub(r'\([^()]*\)( const)?|<[^<>]*>', '', name)) != name:
            name = less
        out[name] = out.get(name, 0) + size
    return out


# ---- the readers: the total and the functions with what they hold themselves -------------------------------------------------------

def read_table(text, total, rows):
    """jeprof's and pprof's tables."""
    m = re.search(total, text)
    return int(m[1]) if m else None, {m[2]: int(m[1]) for m in re.finditer(rows, text, re.M) if int(m[1])}


def read_jeprof(path, *program, reader='jeprof'):
    return read_table(run([reader, '--text', '--show_bytes', *program, path])[0], r'Total: (-?\d+) B', r'^ *(-?\d+) +\S+% +\S+% +-?\d+ +\S+% (.*)$')


def read_pprof(path):
    return read_table(run(['go', 'tool', 'pprof', '-symbolize=none', '-top', '-unit=B', '-nodefraction=0', '-nodecount=1000', path],
                          env={**os.environ, 'HOME': D})[0],
                      r'of (-?\d+)B total', r'^ *(-?\d+)B +\S+ +\S+ +\S+ +\S+  (.*)$')


def read_proto(path):
    """protoc reads the grammar; the numbers are put together here."""
    with open(f'{D}/grammar.proto', 'w') as f:
        f.write(GRAMMAR)
    text = subprocess.run(['protoc', '-I', D, '--decode=Profile', 'grammar.proto'], input=gzip.open(path).read(), capture_output=True).stdout.decode(errors='replace')
    top = re.findall(r'^(\w+) \{\n(.*?)^\}', text, re.M | re.S)
    strings = [json.loads('"' + re.sub(r"\\'", "'", s) + '"') if '\\' not in s else s for s in re.findall(r'^string_table: "(.*)"$', text, re.M)]
    number = lambda body, key: int((re.findall(rf'^\s*{key}: (-?\d+)', body, re.M) or [0])[0])
    functions = {number(b, 'id'): strings[number(b, 'name')] for k, b in top if k == 'function'}
    locations = {number(b, 'id'): functions[number(b, 'function_id')] for k, b in top if k == 'location'}
    types = [strings[number(b, 'type')] for k, b in top if k == 'sample_type']
    default = strings[int((re.findall(r'^default_sample_type: (\d+)', text, re.M) or [0])[0])]
    flat, total = {}, 0
    for k, b in top:
        if k == 'sample':
            values = [int(x) for x in re.findall(r'^\s*value: (-?\d+)', b, re.M)]
            name = locations[number(b, 'location_id')]
            size = values[types.index(default)]
            total += size
            flat[name] = flat.get(name, 0) + size
    return total, {k: v for k, v in flat.items() if v}


def read_folded(path):
    stacks = []
    for line in open(path):
        m = re.fullmatch(r'(.*) (\d+)\n', line)         # flamegraph.pl's grammar
        stacks.append((tuple(m[1].split(';')), int(m[2])))
    return sum(s for _, s in stacks), by_leaf(stacks)


def read_flamegraph(path):
    """What is not in a frame's children is its own."""
    frames = [g for g in ET.parse(path).iter(f'{SVG}g') if g.get('class') == 'frame']
    flat, above = {}, []
    for g in frames:
        at, size, depth = map(int, g.get('data-at').split())
        name = g.find(f'{SVG}title').text.split('\n')[0]
        above = above[:depth]
        if above:
            if not above[-1][0] <= at <= at + size <= above[-1][0] + above[-1][1]:
                raise ValueError(f'{name} is not within its caller')
            flat[above[-1][2]] -= size
        flat[name] = flat.get(name, 0) + size
        above.append((at, size, name))
    return int(frames[0].get('data-at').split()[1]), {k: v for k, v in flat.items() if v}


def read_graph(path):
    text = [a.get('{http://www.w3.org/1999/xlink}title') for a in ET.parse(path).iter(f'{SVG}a')]
    total = [int(m[1]) for t in text if t and (m := re.fullmatch(r'(-?\d+) bytes', t))]
    flat = {m[1]: int(m[2]) for t in text if t and (m := re.fullmatch(r'(.*): (-?\d+) of -?\d+ bytes', t)) and int(m[2])}
    return total[0] if total else None, flat


def read_again(path):
    out = run([mt.MTRUN, '-q', '-r', path, '-x', 'report --by stack --json'])[0]
    report = json.loads(out)
    return report['total_size'], by_leaf(stacks_of(report, 'size'))


READERS = {
    'heap': [('mtrun -r', read_again, mt.MTRUN), ('jeprof', lambda p: read_jeprof(p, SHAPES), 'jeprof'),
             ('google-pprof', lambda p: read_jeprof(p, SHAPES, reader='google-pprof'), 'google-pprof')],
    'jemalloc': [('jeprof', read_jeprof, 'jeprof')],
    'pprof': [('protoc', read_proto, 'protoc'), ('go tool pprof', read_pprof, 'go')],
    'folded': [('the grammar', read_folded, None)],
    'flamegraph': [('XML', read_flamegraph, None)],
    'graph': [('dot', read_graph, 'dot')],
}


# ---- each format, of each moment ---------------------------------------------------------------------------------------------------

def largest(flat, n=3):
    return sorted(flat.items(), key=lambda x: (-abs(x[1]), x[0]))[:n]


def compare(format, moment, reader, report, expected):
    key = 'total_size' if moment.startswith('total') else 'size'
    stacks = stacks_of(report, key)
    if format in UNSIGNED and moment == 'since':
        stacks = [s for s in stacks if s[1] > 0]
    want, total = short(by_leaf(stacks)), sum(s for _, s in stacks)
    have_total, have = reader(f'{D}/{moment}.{FORMATS[format]}')
    have = short(have)
    if reader == read_pprof:                    # its total is of amounts without their signs
        total = sum(abs(s) for _, s in stacks)
    bad = [] if have_total == total else [f'total {have_total}, report has {total}']
    if largest(have) != largest(want):
        bad.append(f'{largest(have)}, report has {largest(want)}')
    bad += [f'{name}: {have.get(name)}, the victim says {size}' for name, size in expected.items() if have.get(name, 0) != size and
            not (format == 'graph' and size < total // 100)]
    return bad


def shapes():
    """Runs the victim and asks for each format of each moment; `time` is 150 ms after the first block, whenever that was. Its status and what it said."""
    p = mt.popen([mt.MTRUN, '-q', '--messages', f'{D}/messages', '-X', '-', '--', SHAPES], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    p.stdin.write(f'wait exit; timeline --json > {D}/timeline.json; ! mv {D}/timeline.json {D}/timeline\n'.encode())
    p.stdin.flush()
    mt.until(lambda: os.path.exists(f'{D}/timeline'), 60)
    with open(f'{D}/timeline') as f:
        MOMENTS['time'] = f'--at {next(ms for ms, n in json.load(f)["points"] if n) + 150}ms'
    script = []
    for moment, options in MOMENTS.items():
        script.append(f'report --by stack --json {REPORT.get(moment, options)} > {D}/{moment}.json')
        script += [f'export {format} {D}/{moment}.{ending} {options}' for format, ending in FORMATS.items()]
    out = p.communicate('\n'.join(script + ['']).encode(), timeout=100)[0]
    return p.returncode, out.decode()


rc, out = shapes()
messages = open(f'{D}/messages').read()
bad = [] if rc == 0 else [f'status {rc}: {messages[-500:]}']
left = re.findall(r'stacks? that holds? less than before \((-\d+) bytes\) (?:is|are) left out: (\w+)', messages)
if sorted(f for _, f in left) != sorted(UNSIGNED) or any(int(n) > -60000 for n, _ in left):
    bad.append(f'left out: {left}')
mt.check('export: each format, each moment', bad)
said = {}
for moment, name, size in re.findall(r'^(\w+) (\w+) (\d+)', out, re.M):
    said.setdefault(moment, {})[name] = int(size)
for format, readers in READERS.items():
    for moment in MOMENTS:
        for what, reader, program in readers:
            name = f'{format}, {moment}: {what}'
            if program and not shutil.which(program):
                mt.skip(name, f'{program} is not installed')
                continue
            try:
                report = json.load(open(f'{D}/{moment}.json'))
                mt.check(name, compare(format, moment, reader, report, said.get(moment, {})))
            except (OSError, ValueError, KeyError, IndexError, TypeError) as e:
                mt.fail(name, repr(e))

# a moment's time is in what has a place for it
peak, at = (json.load(open(f'{D}/{m}.json'))['time_ms'] for m in ('peak', 'time'))
bad = []
for moment, ms in (('peak', peak), ('time', at)):
    said_ms = f'{ms} ms' if ms < 1000 else f'{ms // 100 / 10:.1f} s'
    for ending in ('svg', 'graph.svg'):
        if said_ms not in open(f'{D}/{moment}.{ending}').read():
            bad.append(f'{moment}.{ending} does not say {said_ms}')
mt.check('the moment is said', bad)

# ---- C++, with templates and functions inlined into each other ---------------------------------------------------------------------

with open(f'{D}/script', 'w') as f:
    f.write(f'wait exit\nreport --by stack --json > {D}/cc.json\n' + ''.join(f'export {f} {D}/cc.{e}\n' for f, e in FORMATS.items()))
r = mt.plain([mt.MTRUN, '-q', '--messages', f'{D}/messages', '-X', f'{D}/script', '--', FOUR])
shutil.copy(f'{D}/cc.json', f'{D}/live.json')
MOMENTS = {'cc': ''}
for format, readers in READERS.items():
    what, reader, program = readers[-1]
    if program and not shutil.which(program):
        mt.skip(f'{format}, C++: {what}', f'{program} is not installed')
    elif format == 'heap':
        mt.check('heap, C++: mtrun -r', compare(format, 'cc', read_again, json.load(open(f'{D}/cc.json')), {}))
    else:
        mt.check(f'{format}, C++: {what}', compare(format, 'cc', reader, json.load(open(f'{D}/cc.json')), {}))

# ---- a name that would break out of each format, in the symbol table -----------------------------------------------------------------

EVIL, PLAIN = b'e"<v>i;l&\'x]]>--\xff\xc3 (\\q\n\x01', b'a_function_that_allocates'
with open(f'{D}/evil.c', 'w') as f:
    f.write('#include <stdlib.h>\nvoid *volatile p;\n__attribute__((noinline)) void %s(void) { p = malloc(1234); }\n'
            'int main(void) { %s(); return 0; }\n' % ((PLAIN.decode(),) * 2))
subprocess.run(['gcc', '-O1', '-fno-optimize-sibling-calls', '-o', f'{D}/evil', f'{D}/evil.c'], check=True)
with open(f'{D}/evil', 'rb') as f:
    image = f.read()
with open(f'{D}/evil', 'wb') as f:
    f.write(image.replace(PLAIN, EVIL.ljust(len(PLAIN), b'.')))
with open(f'{D}/script', 'w') as f:
    f.write(f'wait exit\n' + ''.join(f'export {f} {D}/evil.{e}\n' for f, e in FORMATS.items()))
r = mt.plain([mt.MTRUN, '-q', '--messages', f'{D}/messages', '-X', f'{D}/script', '--', f'{D}/evil'])
for format, readers in READERS.items():
    for what, reader, program in readers:
        if what == 'google-pprof' or program and not shutil.which(program):
            continue
        try:
            total, flat = reader(f'{D}/evil.{FORMATS[format]}')
            bad = [] if total == 1234 and list(flat.values()) == [1234] else [f'{total} {flat}']
        except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, ET.ParseError) as e:
            bad = [repr(e)]
        mt.check(f'{format}, an evil name: {what}', bad)

mt.check('the evil name is in it', [] if 'e"<v>i:l&' in open(f'{D}/evil.folded').read() else [open(f'{D}/evil.folded').read()])

# ---- the flame graph in a browser --------------------------------------------------------------------------------------------------

def frame(dom, name):
    m = re.search(rf'<g class="frame"([^>]*)><title>{name}\n.*?</title><rect x="([\d.]+)"[^>]* width="([\d.]+)"[^>]* fill="([^"]*)"', dom, re.S)
    return m and (m[1], float(m[2]), float(m[3]), m[4])


text = open(f'{D}/live.svg').read()
outside = [u for u in re.findall(r'(?:https?|ftp)://[^"\s<]*|src=|href=|@import|url\(', text) if u != 'http://www.w3.org/2000/svg']
mt.check('flamegraph: nothing from elsewhere', [f'{outside}'] if outside else [])
out, err, rc = run(['xmllint', '--noout', f'{D}/live.svg']) if shutil.which('xmllint') else ('', '', 0)
mt.check('flamegraph: xmllint', [err] if rc or err else [])
if not shutil.which('chromium'):
    mt.skip('flamegraph in a browser', 'chromium is not installed')
else:
    url = f'file://{D}/live.svg'
    dom = browse(url)
    bad = []
    f = frame(dom, 'work')
    if not f or not 1100 < f[2] < 1200:
        bad.append(f'work is {f}: a window of 1200')
    mt.check('flamegraph: as wide as the window', bad)
    dom = browse(f'{url}#search=alpha%7Cepsilon')
    m = re.search(r'id="matched"[^>]*>matched: ([\d.]+) KiB', dom)
    bad = [] if m and abs(float(m[1]) - (said['live']['alpha'] + said['live']['epsilon']) / 1024) < 0.06 else [f'{m and m[0]}']
    if (frame(dom, 'alpha') or [0] * 4)[3] != '#d633d6' or (frame(dom, 'beta') or [0] * 4)[3] == '#d633d6':
        bad.append(f'{frame(dom, "alpha")} {frame(dom, "beta")}')
    mt.check('flamegraph: search', bad)
    names = re.findall(r'<g class="frame"[^>]*><title>(.*)\n', text)
    dom = browse(f'{url}#zoom={names.index("gamma_")}')
    bad = []
    if not (f := frame(dom, 'tucked')) or f[2] < 900:
        bad.append(f'tucked is {f}')
    if not (f := frame(dom, 'work')) or f[2] < 900 or '0.5' not in f[0]:
        bad.append(f'work is {f}')
    if not (f := frame(dom, 'alpha')) or 'display: none' not in f[0]:
        bad.append(f'alpha is {f}')
    mt.check('flamegraph: zoom', bad)
    # by hand: a script that clicks, types and presses a key is added to the picture
    with open(f'{D}/hand.svg', 'w') as f:
        f.write(text.replace('</svg>', f"""<script>window.addEventListener("load", function () {{
            var click = new MouseEvent("click");
            window.prompt = function () {{ return "beta"; }};
            window.dispatchEvent(new KeyboardEvent("keydown", {{ key: "f", ctrlKey: true, cancelable: true }}));
            document.querySelectorAll("g.frame")[{names.index('alpha')}].dispatchEvent(click);
            document.querySelectorAll("g.frame")[{names.index('beta')}].dispatchEvent(new MouseEvent("mouseover"));
            document.getElementById("subtitle").textContent = location.hash;
        }});</script></svg>"""))
    dom = browse(f'file://{D}/hand.svg')
    bad = []
    if not (f := frame(dom, 'alpha')) or f[2] < 900 or not (f := frame(dom, 'beta')) or 'display: none' not in f[0]:
        bad.append(f'after a click: {frame(dom, "alpha")} {frame(dom, "beta")}')
    if not re.search(r'id="matched"[^>]*>matched: 117.2 KiB', dom):
        bad.append(f'matched: {re.findall("matched[^<]*<", dom)}')
    if not re.search(r'id="detail"[^>]*>beta  117.2 KiB \(120000 bytes\), [\d.]+ %, 600 blocks', dom):
        bad.append(f'{re.findall("<text id=.detail.*", dom)}')
    if f'>#zoom={names.index("alpha")}&amp;search=beta<' not in dom:
        bad.append(f'{re.findall("<text id=.subtitle.*", dom)}')
    mt.check('flamegraph: a click, Ctrl-F, the pointer', bad)
    browse(url, f'{D}/shot.png')
    mt.check('flamegraph: a picture', [] if os.path.exists(f'{D}/shot.png') and open(f'{D}/shot.png', 'rb').read(4) == b'\x89PNG' else ['none'])

# ---- files and mistakes ------------------------------------------------------------------------------------------------------------

for ending, magic in (('pdf', b'%PDF'), ('png', b'\x89PNG'), ('dot', b'digraph')):
    name = f'graph: .{ending}'
    if ending != 'dot' and not shutil.which('dot'):
        mt.skip(name, 'dot is not installed')
        continue
    r = mt.plain([mt.MTRUN, '-q', '-x', f'wait exit; export graph {D}/g.{ending}', '--', SHAPES])
    mt.check(name, [] if r.rc == 0 and open(f'{D}/g.{ending}', 'rb').read(len(magic)) == magic else [f'{r.rc} {r.err}'])

r = mt.plain([mt.MTRUN, '-q', '-x', f'wait exit; export graph {D}/none.svg', '--', SHAPES], env={**os.environ, 'PATH': D})
bad = [] if r.rc == 125 and b'graphviz' in r.err and r.err.count(b'\n') == 1 else [f'{r.rc} {r.err}']
if os.path.exists(f'{D}/none.svg') or not open(f'{D}/none.dot').read().startswith('digraph'):
    bad.append('no .dot')
mt.check('graph: without dot', bad)

os.makedirs(f'{D}/files')
os.makedirs(f'{D}/files/ro')
with open(f'{D}/files/old', 'w') as f:
    f.write('old\n')
os.symlink('old', f'{D}/files/link')
for what, command, words in (
        ('unknown format', f'export nope {D}/files/x', b"invalid value 'nope': expected heap, jemalloc, pprof, folded, flamegraph"),
        ('no format', 'export', b'missing format'), ('no file', 'export folded', b'missing file name'),
        ('a word too many', f'export folded {D}/files/x y', b"unexpected argument 'y'"),
        ('no such directory', f'export folded {D}/no/x', b'No such file or directory'), ('a directory', f'export folded {D}', b'Is a directory'),
        ('full disk', 'export folded /dev/full', b'No space left on device'), ('bad ending', f'export graph {D}/files/x.gif', b'.svg, .pdf, .png or .dot'),
        ('total of the past', f'export folded {D}/files/x --total --at peak', b'--total cannot be combined with --at'),
        ('no such snapshot', f'export folded {D}/files/x --since nope', b"'nope' is neither a snapshot"),
        ('bad regex', f'export folded {D}/files/x --match (', b'not a valid regular expression')):
    r = mt.plain([mt.MTRUN, '-q', '-x', f"wait exit; {command.replace('(', chr(39) + '(' + chr(39))}", '--', SHAPES])
    bad = [] if r.rc == 125 and words in r.err and r.err.count(b'\n') == 1 else [f'{r.rc} {r.err}']
    if sorted(os.listdir(f'{D}/files')) != ['link', 'old', 'ro']:
        bad.append(f'{os.listdir(f"{D}/files")}')
    mt.check(f'export: {what}', bad)

# A link in a directory for all, which somebody else has planted: as the kernel has it for the shell's `>>`.
if os.geteuid():
    mt.skip("export: another user's link", 'needs root')
else:
    os.makedirs(f'{D}/all')
    os.chmod(f'{D}/all', 0o1777)
    with open(f'{D}/mine', 'w') as f:
        f.write('mine\n')
    os.symlink(f'{D}/mine', f'{D}/all/theirs')
    os.lchown(f'{D}/all/theirs', 65534, 65534)
    follows = mt.plain(['sh', '-c', f'printf "" >> {D}/all/theirs']).rc == 0
    r = mt.plain([mt.MTRUN, '-q', '-x', f'wait exit; export folded {D}/all/theirs', '--', SHAPES])
    changed = open(f'{D}/mine').read() != 'mine\n'
    bad = []
    if (r.rc == 0, changed) != (follows, follows):
        bad.append(f'{r.rc} {r.err}, the shell follows: {follows}, changed: {changed}')
    bad += [] if os.listdir(f'{D}/all') == ['theirs'] else [f"{os.listdir(f'{D}/all')}"]
    mt.check("export: another user's link", bad)

p = mt.popen([mt.MTRUN, '-q', '-X', '-', '--', SHAPES], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
p.stdin.write(b'wait exit\necho ready\n')
p.stdin.flush()
p.stderr.readline()
resource.prlimit(p.pid, resource.RLIMIT_FSIZE, (4096, 4096))
err = p.communicate(f'export flamegraph {D}/files/old\n'.encode(), timeout=60)[1]
bad = [] if p.returncode == 125 and b'File too large' in err and open(f'{D}/files/old').read() == 'old\n' else [f'{p.returncode} {err}']
if sorted(os.listdir(f'{D}/files')) != ['link', 'old', 'ro']:
    bad.append(f'{os.listdir(f"{D}/files")}')
mt.check('export: cut off, what was there stays', bad)

r = mt.plain([mt.MTRUN, '-q', '-x', f'wait exit; export folded {D}/files/link', '--', SHAPES], preexec_fn=lambda: os.umask(0o027))
mode = stat.S_IMODE(os.stat(f'{D}/files/old').st_mode)
bad = [] if r.rc == 0 and os.path.islink(f'{D}/files/link') and read_folded(f'{D}/files/old')[0] > 1000000 else [f'{r.rc} {r.err}']
mt.check('export: through a symbolic link, mode as umask says', bad + ([] if mode == 0o640 else [f'mode {mode:o}']))

r = mt.plain([mt.MTRUN, '-q', '-x', 'wait exit; export folded /dev/stdout --match tucked', '--', SHAPES])
lines = [line for line in r.out.splitlines() if b';' in line]
bad = [] if r.rc == 0 and sum(int(line.split()[-1]) for line in lines) == said['live']['tucked'] and all(b'work;gamma_;tucked ' in line for line in lines) else [f'{r.rc} {r.out}']
mt.check('export: to a stream, --match', bad)

# ---- to standard output ------------------------------------------------------------------------------------------------------------

bad = []
run([mt.MTRUN, '-q', '-x', f'wait exit; export heap {D}/std.heap', '--', SHAPES])
ALL = [*FORMATS, 'massif', 'heaptrack', 'dhat', 'speedscope', 'csv', 'json', 'html']
for format in ALL:
    ending = '.dot' if format == 'graph' else ''
    r = mt.plain([mt.MTRUN, '-q', '-x', f'export {format} -; export {format} {D}/as-file{ending}; export {format} - >{D}/as-redirected; export {format} - |cat >{D}/as-piped',
                  '-r', f'{D}/std.heap'])
    files = [r.out, *(open(f'{D}/{f}', 'rb').read() for f in (f'as-file{ending}', 'as-redirected', 'as-piped'))]
    if format == 'pprof':
        files = [gzip.decompress(f) for f in files]
    if r.rc or r.err or len(set(files)) != 1 or len(files[0]) < 100:
        bad.append(f'{format}: {r.rc} {r.err} {[len(f) for f in files]}')
mt.check('export to -: the same as to a file', bad)
r = mt.plain([mt.MTRUN, '-q', '--messages', f'{D}/messages', '-x', 'wait exit; export folded - --match tucked; export graph -', '--', SHAPES])
bad = [] if r.rc == 0 and b'work;gamma_;tucked ' in r.out and b'digraph' in r.out and r.out.startswith(b'peak alpha') else [f'{r.rc} {r.out[:300]}']
mt.check("export to -: mtrun's standard output, behind the program's", bad + ([open(f'{D}/messages').read()] if os.path.getsize(f'{D}/messages') else []))

# ---- at the prompt -----------------------------------------------------------------------------------------------------------------

p = mt.Prompt(SHAPES)
bad = [] if p.wait('mt> $') else [p.text]
for keys, pattern in (('export fl', r'amegraph $'), ('export graph /de', r'v/$'), ('export folded x --s', r'ince $')):
    p.send(keys + '\t')
    if not p.wait(re.escape(keys) + pattern):
        bad.append(f'{keys}: {p.text!r}')
    p.send('\x03')
    p.wait('mt> $')
mt.check('Tab: formats, files, options', bad)
p.send('export pprof -\nexport csv - -\nexport csv -\n')
bad = [] if p.wait(r"pprof is not written to a terminal.*unexpected argument '-'.*size,count.*mt> $") else [p.text]
mt.check('export to - on a terminal', bad)
mt.check('it ends', p.end())
mt.finish()
