#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""badinput - what cannot be done is said in one clear line, with the right status, and nothing is left behind."""
import ctypes
import os
import re
import shutil
import stat
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
d = mt.tmp()


def refused(name, args, status, words=(), **kw):
    """mtrun ARGS ends with STATUS and one line on stderr that has all of WORDS."""
    work = os.path.join(d, 'cwd')
    os.makedirs(work, exist_ok=True)
    os.chmod(work, 0o777)
    kw.setdefault('cwd', work)
    r = mt.plain([mt.MTRUN, *args], timeout=20, **kw)
    bad = []
    err = (r.err or b'').decode(errors='replace')
    lines = err.splitlines()
    if r.rc != status:
        bad.append(f'status {r.rc}, should be {status}')
    if len(lines) != 1 or not lines[0].startswith('mtrun: '):
        bad.append(f'not one line of mtrun: {err[:300]!r}')
    bad += [f'{w!r} is not in {err[:300]!r}' for w in words if not re.search(w, err)]
    if r.out:
        bad.append(f'on stdout: {r.out[:100]}')
    left = os.listdir(work)
    if left:
        bad.append(f'files left: {left}')
        shutil.rmtree(work)
    stray = mt.children()
    if stray:
        bad.append(f'processes left: {[(p, mt.exe(p)) for p in stray]}')
        for p in stray:
            mt.kill(p)
    mt.check(name, bad)
    return r


def put(name, data, mode=0o755):
    path = os.path.join(d, name)
    with open(path, 'wb') as f:
        f.write(data)
    os.chmod(path, mode)
    return path


# ---- programs that cannot be executed
refused('missing program', ['no-such-program-here'], 127, ['no-such-program-here'])
refused('missing path', ['./no/such/program'], 127, ['./no/such/program'])
refused('empty name', [''], 127)
refused('a directory', ['/tmp'], 126, ['/tmp', '[Dd]irectory|[Pp]ermission'])
refused('not executable', [put('plain', b'data', 0o644)], 126, ['plain', 'Permission denied'])
refused('an empty file', [put('empty', b'')], 126, ['empty'])
refused('not a program', [put('junk', b'\x7fJUNK' * 100)], 126, ['junk'])
refused('a truncated ELF file', [put('short', open('/bin/true', 'rb').read(100))], 126, ['short'])
refused('a script whose interpreter is missing', [put('noint', b'#!/no/such/interpreter\n')], 127, ['noint', 'the interpreter that it names was not found'])
long = '/tmp/' + 'x' * 5000
refused('a name that is too long', [long], 127 if mt.plain(['env', long]).rc == 127 else 126)
true = bytearray(open('/bin/true', 'rb').read())
for machine, name in ((183, 'AArch64|aarch64|arm64|ARM'), (243, 'RISC-V|riscv'), (40, 'ARM|arm'), (62, None)):
    if not name:
        continue
    other = bytearray(true)
    struct.pack_into('<H', other, 18, machine)
    refused(f'foreign architecture {machine}', [put(f'machine{machine}', other)], 126, [f'machine{machine}', name])
other = bytearray(true)
other[5] = 2
refused('big endian', [put('bigend', other)], 126, ['bigend'])

# a real 32-bit program
src = put('tiny.s', b'.globl _start\n_start: mov $1,%eax\nmov $0,%ebx\nint $0x80\n', 0o644)
r = subprocess.run(['gcc', '-m32', '-nostdlib', '-static', '-o', f'{d}/tiny32', src], capture_output=True)
if r.returncode:
    r = subprocess.run(f'as --32 -o {d}/tiny32.o {src} && ld -m elf_i386 -o {d}/tiny32 {d}/tiny32.o', shell=True, capture_output=True)
if r.returncode:
    mt.skip('a 32-bit program', 'cannot be built here')
else:
    refused('a 32-bit program', [f'{d}/tiny32'], 126, ['tiny32', '32.bit|i386|x86 '])
    # in a child it is none of our business: it runs
    r = mt.plain([mt.MTRUN, '-q', 'sh', '-c', f'{d}/tiny32; echo $?'])
    want = mt.plain(['sh', '-c', f'{d}/tiny32; echo $?'])
    mt.check('a 32-bit child runs as without', [] if (r.out, r.rc) == (want.out, want.rc) else [f'{r.out} {r.err} {r.rc} instead of {want.out} {want.rc}'])

# a stripped static program: its allocator is recognised and every block is known, or it is refused by name
path = mt.build('family_tree.c', 'static')
bare = shutil.copy(path, f'{d}/stripped')
subprocess.run(['strip', bare], check=True)
r = mt.run([bare, 'second', 'main'], ask=('status',))
if r.rc == 126:
    refused('a stripped static program', [bare, 'second'], 126, ['stripped', 'symbol'])
else:
    e = mt.expectations(r.out)
    s = r.answers.get('status', {})
    mt.check('a stripped static program is supervised', [f'status {r.rc}: {r.messages[-300:]}'] if r.rc or not e['n'] else
             [f'{k} is {s.get(k)}, should be {v}' for k, v in e['status'].items() if s.get(k) != v])
for build in ('static', 'musl-static'):     # one that nothing can be told about: its allocator is its own, without a name
    path = mt.build('lib/nolibc.c', build, '-nostdlib -static -fno-builtin')
    if path:
        bare = shutil.copy(path, f'{d}/nameless')
        subprocess.run(['strip', bare], check=True)
        refused(f'a stripped program without a known allocator, {build}', [bare], 126, ['nameless', 'symbol'])

# ---- options
for opts, words in ((['--no-such-option'], ['no-such-option']), (['-Z'], ['Z']), (['--depth', 'x'], ['x']), (['--depth', '0'], ['0', '1024']),
                    (['--depth', '99999'], ['99999', '1024']), (['--depth', '-5'], ['-5']), (['--depth'], ['depth']),
                    (['-c', 'heap,cows'], ['cows', 'heap']), (['-c', ''], ['heap']), (['-d', '5parsecs'], ['5parsecs', 'ms|s, m']), (['-d', '-1'], ['-1']),
                    (['-d', ''], []), (['--color', 'purple'], ['purple']), (['-X', '/no/such/script'], ['/no/such/script']),
                    (['--hook', 'f=dance'], ['dance', 'malloc']), (['--hook', 'f=malloc@x'], ['x']), (['--hook', '=malloc'], []),
                    (['--messages', '/no/such/dir/file'], ['/no/such/dir/file'])):
    refused('option ' + ' '.join(opts), [*opts, 'true'] if opts != ['--depth'] else opts, 125, words)
refused('no program', [], 125)
refused('only options', ['-q'], 125)
r = mt.plain([mt.MTRUN, '-h'])
mt.check('-h', [] if r.rc == 0 and b'--depth' in r.out and not r.err else [f'{r.rc} {r.err[:200]}'])
r = mt.plain([mt.MTRUN, '-V'])
mt.check('-V', [] if r.rc == 0 and re.fullmatch(rb'mtrun \S+.*\n', r.out) and not r.err else [f'{r.rc} {r.out} {r.err[:200]}'])

# ---- answers that nobody gets are no success
ends = mt.build('ends.c')
mt.plain([mt.MTRUN, '-q', '-o', f'{d}/x.', ends, 'exit', '0'])
heap = next(os.path.join(d, f) for f in os.listdir(d) if f.startswith('x.'))
for args in (['-h'], ['-V'], ['-r', heap], ['-r', heap, '-x', 'report --json'], ['-r', heap, '-x', 'export csv -'], ['-q', '--messages', '/dev/full', '-x', 'status', ends, 'exit', '0']):
    with open('/dev/full', 'w') as full:
        r = subprocess.run([mt.MTRUN, *args], stdout=full, stderr=subprocess.PIPE, timeout=30)
    mt.check(f'a full disk: {" ".join(args[-2:])}', [] if r.returncode == 125 and re.fullmatch(rb'mtrun: .*cannot write .*: No space left on device\n', r.stderr)
             else [f'{r.returncode} {r.stderr}'])
piped = subprocess.run(['bash', '-c', f'{mt.MTRUN} -r {heap} -x "! sleep 0.2; status" | true; echo ${{PIPESTATUS[0]}}'], capture_output=True, timeout=30)
mt.check('a reader that leaves', [] if piped.stdout == b'0\n' and not piped.stderr else [f'{piped.stdout} {piped.stderr}'])

# ---- commands: an error is one line, the rest runs, the status is 125
for cmd, words in (('no-such-command', ['no-such-command']), ('report --by cows', ['cows', 'site']), ('report --sort upwards', ['upwards']), ('report -n x', ['x']),
                   ('report --no-such', ['no-such']), ('report --match "("', [r'\(']), ('blocks --min-size 5Q', ['5Q']), ('wait heap >', ['wait|heap']),
                   ('wait', ['wait']), ('wait cows > 5', ['cows']), ('wait 5x', ['5x']), ('process 1', ['1']), ('report > /no/such/dir/f', ['/no/such/dir/f']),
                   ('report "unclosed', ['quote|unterminated|unclosed|"']), ('source /no/such/file', ['/no/such/file']), ('bt 1', ['1']), ('set no-such 5', ['no-such']),
                   ('kill COWS', ['COWS']), ('help no-such', ['no-such']), ('report }', ['}']), ('blocks --stack x', ['x'])):
    r = mt.plain([mt.MTRUN, '-q', '-x', cmd, '-x', 'echo went on', '--', mt.build('ends.c'), 'exit', '0'], timeout=20)
    err = r.err.decode(errors='replace')
    lines = [x for x in err.splitlines() if x != 'went on']
    bad = [f'status {r.rc}, should be 125'] if r.rc != 125 else []
    if 'went on' not in err:
        bad.append('the next command did not run')
    if len(lines) != 1 or not lines[0].startswith('mtrun: '):
        bad.append(f'not one line: {err[:300]!r}')
    bad += [f'{w!r} is not in {err[:300]!r}' for w in words if not re.search(w, err)]
    mt.check('command ' + cmd, bad)

# ---- what may not be traced
nobody = 65534
uid = os.getuid()
if uid == 0:
    suid = shutil.copy(mt.build('ends.c'), f'{d}/suid')
    shutil.copy(mt.MTRUN, f'{d}/mtrun')
    os.chmod(d, 0o755)
    os.chmod(suid, 0o4755)

    def as_nobody():
        os.setgroups([])
        os.setgid(nobody)
        os.setuid(nobody)
    real, mt.MTRUN = mt.MTRUN, f'{d}/mtrun'
    refused('a setuid program, not as root', [suid, 'exit', '0'], 126, ['suid', 'setuid|set-user-ID'], preexec_fn=as_nobody)
    tree = [shutil.which('sh'), '-c', f'{suid} exit 0; {suid} exit 0; exit 0']
    r = mt.plain([mt.MTRUN, '-q', *tree], preexec_fn=as_nobody, cwd='/')
    mt.check('a setuid child, not as root: said once',
             [] if r.rc == 0 and r.err.count(b'\n') == 1 and b'(suid) has only the rights' in r.err else [f'{r.rc} {r.err[:300]}'])
    os.chmod(suid, 0o755)
    # cap_net_bind_service=ep, as linux/capability.h has it
    os.setxattr(suid, 'security.capability', struct.pack('<5I', 0x02000001, 1 << 10, 0, 0, 0))
    refused('a program with file capabilities, not as root', [suid, 'exit', '0'], 126, ['suid', 'capabilities'], preexec_fn=as_nobody)
    os.removexattr(suid, 'security.capability')
    r = mt.plain([mt.MTRUN, '-q', '-x', 'wait exit; status --json', suid, 'exit', '4'], preexec_fn=as_nobody, cwd='/')
    mt.check('an ordinary user', [] if r.rc == 4 and b'"allocs":1,' in r.err.replace(b' ', b'') else [f'{r.rc} {r.err[:300]}'])
    os.chmod(suid, 0o711)
    refused('a program that may not be read, not as root', [suid, 'exit', '0'], 126, ['suid'], preexec_fn=as_nobody)
    mt.MTRUN = real
else:
    mt.skip('a setuid program', 'needs root to make one')


def no_ptrace(errno=1, kill=False):
    """Installs a seccomp filter that refuses ptrace."""
    libc = ctypes.CDLL(None, use_errno=True)
    code = [(0x20, 0, 0, 0), (0x15, 0, 1, 101), (0x06, 0, 0, 0x50000 | errno), (0x06, 0, 0, 0x7fff0000)]
    prog = b''.join(struct.pack('HBBI', *c) for c in code)
    buf = ctypes.create_string_buffer(prog)

    class Fprog(ctypes.Structure):
        _fields_ = [('len', ctypes.c_ushort), ('filter', ctypes.c_void_p)]
    f = Fprog(len(code), ctypes.addressof(buf))
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(f), 0, 0):
        os._exit(88)


os.environ['ASAN_OPTIONS'] = 'detect_leaks=0'       # in a build with sanitizers: the leak check needs ptrace, too
for errno in (1, 38):
    refused(f'ptrace refused by seccomp with errno {errno}', [mt.build('ends.c'), 'exit', '0'], 125, ['ptrace', 'seccomp|Operation not permitted|not implemented'],
            preexec_fn=lambda e=errno: no_ptrace(e))

mt.finish()
