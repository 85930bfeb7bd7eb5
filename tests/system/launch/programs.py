#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 300
"""
programs [--readme | NAME...] - programs of Debian do the same under mtrun as without it: what they print, how they end, what they leave.

Each row of the table below is run twice, in the same directory with the same environment, first without mtrun, then under it. Compared are stdout, stderr, the exit
status or signal, and every file that is there afterwards: its name, kind, mode and contents. Under mtrun no process may be left, nothing in $TMPDIR, and (as
root, where the test has its own) nothing in /dev/shm or of System V's IPC; mtrun itself may say nothing but its answer to `status`, which is how the test
knows that the program was really supervised.

The README's list of programs is made from the table: --readme prints it, and the test fails if the README says something else. Commands are chosen so that two
runs without mtrun are equal; where a file cannot be (times, random numbers), `vary` names it and only its presence counts. Two rows run at a time; those that take
longest (marked `soak`) only in the long form.
"""
import ctypes
import hashlib
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import textwrap
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

README = os.path.join(mt.TOP, 'README.md')
PG = next((f'/usr/lib/postgresql/{v}/bin' for v in sorted(os.listdir('/usr/lib/postgresql')) if os.path.exists(f'/usr/lib/postgresql/{v}/bin/postgres')),
          '') if os.path.isdir('/usr/lib/postgresql') else ''
PATH = f'/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:{PG}'.rstrip(':')
REAL = os.path.join(mt.TOP, 'tests', 'system', 'counts', 'real')

WORDS = ''.join(f'{i * 7919 % 20011} word{i % 97} {"abc"[i % 3] * (i % 11)}\n' for i in range(6000))
C = '#include <stdio.h>\n#include <stdlib.h>\nint twice(int n)\n{\n\treturn 2 * n;\n}\nint main(void)\n{\n\tprintf("%d\\n", twice(abs(-21)));\n\treturn 3;\n}\n'
CC = '#include <map>\n#include <string>\nint main() { std::map<std::string, int> m; m["a"] = 1; return (int)m.size(); }\n'
GO = ('package main\n\nimport (\n\t"fmt"\n\t"os"\n\t"sync"\n)\n\nfunc main() {\n\tvar wait sync.WaitGroup\n\tsums := make([]int, 8)\n\tfor i := range sums {\n'
      '\t\twait.Add(1)\n\t\tgo func(i int) {\n\t\t\tdefer wait.Done()\n\t\t\tkept := map[int][]byte{}\n\t\t\tfor k := 0; k < 20000; k++ {\n'
      '\t\t\t\tkept[k%512] = make([]byte, k%1000)\n\t\t\t\tsums[i] += len(kept[(k*7)%512])\n\t\t\t}\n\t\t}(i)\n\t}\n\twait.Wait()\n\tfmt.Println(sums)\n\tos.Exit(6)\n}\n')
SQL = """create table t(a integer primary key, b text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 5000) insert into t select i, 'row ' || (i * 7919 % 20011) from n;
create index tb on t(b);
select count(*), sum(a), max(b) from t;
select b from t where b like 'row 12%' order by b desc limit 5;
delete from t where a % 5 = 0;
select no from t;
"""
PYTHON = """import collections, json, re, subprocess, sys, threading
words = open('words').read().split()
print(collections.Counter(w[:3] for w in words).most_common(3), len(json.dumps({w: [i] for i, w in enumerate(words)})))
kept = []
threads = [threading.Thread(target=lambda: kept.extend(re.sub('[02468]', 'x', w) for w in words[:2000])) for _ in range(3)]
[t.start() for t in threads]
[t.join() for t in threads]
print(len(kept), subprocess.run(['sh', '-c', 'exit 7']).returncode)
sys.stderr.write('the end\\n')
sys.exit(3)
"""
PERL = """my %h; open my $f, '<', 'words'; while (<$f>) { my ($n, $w) = split; push @{$h{$w}}, $n; $h{$1}++ if /(c+)$/ }
my $pid = fork; exit 9 unless $pid; waitpid $pid, 0; print $? >> 8, "\\n";
print join(' ', map { "$_=" . (ref $h{$_} ? scalar @{$h{$_}} : $h{$_}) } sort keys %h), "\\n"; kill 'ABRT', $$; sleep 9;
"""
NGINX = """daemon off; master_process on; worker_processes 1; pid nginx.pid; error_log stderr error;
events { worker_connections 16; }
http { access_log off; client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
server { listen unix:s; location / { root .; } } }
"""
GET = ('perl -MIO::Socket::UNIX -e \'for (1..5) { my $s = IO::Socket::UNIX->new("s") or die; print $s "GET /words HTTP/1.0\\r\\n\\r\\n";'
       ' my ($n, $head) = (0, scalar <$s>); $n += length while <$s>; print "$head$n\\n" }\'')
# a socket's file is there before its server listens
LISTENS = 'until perl -MIO::Socket::UNIX -e \'exit !IO::Socket::UNIX->new("s")\'; do sleep 0.02; done; '
TREE = {'d/a': 'a\n', 'd/b/c': 'c\n' * 500, 'd/b/e': '', 'd/f': WORDS[:9000]}
DOT = 'digraph g { rankdir=LR; ' + ' '.join(f'n{i} -> n{i * 7 % 12} [label="{i}"];' for i in range(12)) + ' }\n'
XML = '<?xml version="1.0"?><l>' + ''.join(f'<e n="{i}"><v>{i * i}</v></e>' for i in range(2000)) + '</l>\n'
MAKE = 'all: a b c\n\t@cat a b c\na: words\n\twc -l <words >a\nb c: a\n\t(cat a; echo $@) >$@\n\tsleep 0.01\nclean:\n\trm -f a b c\n.PHONY: all clean\n'


class Program:
    """
    A row. COMMAND: its words, or, with SHELL, a script for sh. NAME is what the README says. FILES: what is in its directory (`words` always is). NEEDS: programs that must
    be there. SOAK: long, only in the long form. AS: an unprivileged user, where the test runs as root.
    """
    def __init__(self, name, command, shell=False, files=(), stdin=b'', needs=None, vary='(?!)', env=(), prepare=None, soak=False, unprivileged=False):
        self.name, self.stdin, self.env, self.prepare, self.soak, self.unprivileged = name, stdin, dict(env), prepare, soak, unprivileged
        self.command = ['sh', '-c', command] if shell else shlex.split(command)
        self.files = {'words': WORDS, **dict(files)}
        self.needs = needs if needs is not None else [name] if shell else [self.command[0]]
        self.vary = re.compile(vary)


def sh(name, command, **kw):
    return Program(name, command, shell=True, **kw)


def built(name, source, compiler, **kw):
    """A program of the tests' own; COMPILER: all of its command line but what is to be compiled."""
    out = os.path.join(mt.BUILD, 'programs', re.sub(r'\W+', '-', name))
    source = os.path.join(REAL, source)

    def prepare(_):
        if os.path.exists(out) and os.path.getmtime(out) > os.path.getmtime(source):
            return ''
        os.makedirs(os.path.dirname(out), exist_ok=True)
        part = f'{out}.{os.getpid()}'
        words = compiler.split()
        r = subprocess.run([words[0], '-O2', '-o', part, source, *words[1:]], stdin=subprocess.DEVNULL, capture_output=True)
        if r.returncode:
            return f'does not build here: {r.stderr.decode(errors="replace").strip()[-200:]}'
        os.rename(part, out)
        return ''
    return Program(name, f'{out} 60000', needs=[compiler.split()[0]], prepare=prepare, **kw)


def compiled(d):
    """Objects for the tools that look at them."""
    for i, opt in enumerate(('-O0', '-O2')):
        r = subprocess.run(['gcc', '-g', opt, '-c', '-o', f'{d}/{"ab"[i]}.o', 'x.c'] + (['-Dmain=other', '-Dtwice=thrice'] if i else []), cwd=d)
        if r.returncode:
            return 'gcc does not compile'
    return '' if subprocess.run(['gcc', '-g', '-o', f'{d}/x', 'a.o'], cwd=d).returncode == 0 else 'gcc does not link'


def gobuild(d):
    return mt.build_go(f'{d}/x.go', f'{d}/first')


def database(d):
    """A new cluster, made once and copied."""
    made = os.path.join(mt.tmp(), 'cluster')
    if not os.path.exists(made):
        os.mkdir(made)
        if os.getuid() == 0:
            os.chmod(mt.tmp(), 0o755)
            os.chown(made, 65534, 65534)
        r = subprocess.run([f'{PG}/initdb', '-D', f'{made}/data', '-N', '-U', 'me', '-A', 'trust', '--locale=C'], capture_output=True, text=True, cwd=made,
                           preexec_fn=drop if os.getuid() == 0 else None, env={'PATH': PATH, 'HOME': made})
        if r.returncode:
            return f'initdb fails: {r.stderr[-200:]}'
    return '' if subprocess.run(['cp', '-a', f'{made}/data', f'{d}/data']).returncode == 0 else 'cp fails'


def drop():
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)


OBJECTS = {'files': {'x.c': C}, 'prepare': compiled}
CC1PLUS = '"$(g++ -print-prog-name=cc1plus)" -quiet -imultiarch x86_64-linux-gnu -D_GNU_SOURCE -O1 x.cc -o x.s'

TABLE = {
    'servers': [
        sh('postgres', 'echo "create table t(a int, b text); insert into t select i, md5(i::text) from generate_series(1, 3000) i; create index x on t(b);'
           ' select count(*), min(b) from t where b > \'8\'; select nothing" | postgres --single -D data -O postgres 2>&1 | sed "s/[-0-9]* [0-9:.]* UTC \\[[0-9]*\\] //; /LOG:/d"; '
           'rm -f data/postmaster.pid', needs=['postgres'], prepare=database, unprivileged=True, vary='^data/'),
        sh('redis-server',
           'redis-server --port 0 --unixsocket "$PWD/s" --save "" --logfile /dev/null --daemonize no & ' + LISTENS +
           'redis-cli -s s eval "for i = 1, 3000 do redis.call(\'set\', \'k\' .. i, string.rep(\'v\', i % 50)) end return redis.call(\'dbsize\')" 0; '
           'redis-cli -s s set n 0; for i in 1 2 3; do redis-cli -s s incr n; done; redis-cli -s s nosuch; redis-cli -s s shutdown nosave; wait $!',
           needs=['redis-server', 'redis-cli', 'perl']),
        sh('nginx',
           f'nginx -e stderr -p "$PWD/" -c nginx.conf & {LISTENS}{GET}; kill -QUIT $!; wait $!; echo $?',
           files={'nginx.conf': NGINX}, needs=['nginx', 'perl']),
        sh('tmux', 'tmux -L t -f /dev/null new-session -d -x 80 -y 24 "echo in the window >out; tmux -L t wait-for -S over; sleep 60"; tmux -L t wait-for over; '
           'tmux -L t list-windows -F "#{window_width} #{window_height}"; tmux -L t kill-server; while pgrep -P $$ tmux; do sleep 0.02; done; cat out', needs=['tmux', 'pgrep']),
    ],
    'languages': [
        Program('python3', 'python3 x.py', files={'x.py': PYTHON}),
        Program('perl', 'perl x.pl', files={'x.pl': PERL}),
        Program('sqlite3', 'sqlite3 t.db', stdin=SQL.encode()),
        Program('jq', "jq -S 'group_by(. % 7) | map(length, add)' n.json", files={'n.json': json.dumps(list(range(5000)))}),
        Program('mawk', "mawk '{ n[$2] += $1 } END { for (w in n) print w, n[w] | \"sort\" }' words"),
        Program('bash', "bash -c 'for i in 1 2 3; do (echo $i; ls d) & wait $!; done | sort | uniq -c; trap \"echo bye\" EXIT; x=$(<words); echo ${#x}; exit 5'", files=TREE),
        Program('dash', "dash -c 'i=0; while [ $i -lt 20 ]; do i=$((i + 1)); (exit $i) || echo $?; done; kill -TERM $$'"),
        Program('busybox', "busybox sh -c 'busybox sort -n words | busybox awk \"{ n += \\$1 } END { print n }\"; busybox sha256sum words; exit 9'"),
    ],
    'compilers and what belongs to them': [
        Program('g++', 'g++ -O1 -o x x.cc', files={'x.cc': CC}, soak=True),
        sh('cc1plus', CC1PLUS, files={'x.cc': CC}, needs=['g++']),
        Program('gcc', 'gcc -Wall -O2 -o x x.c y.c', files={'x.c': C, 'y.c': 'int unused(void) { int n; return n; }\n'}),
        Program('clang', 'clang -O1 -c x.c y.c', files={'x.c': C, 'y.c': 'int broken(void) { return no; }\n'}),
        sh('go', 'go vet x.go; go build -o x x.go && ./x', files={'x.go': GO}, prepare=gobuild, env=mt.GO_ENV, vary='^(first|\\.config/)', soak=True),
        Program('objcopy', 'objcopy --only-keep-debug --compress-debug-sections a.o a.debug', **OBJECTS),
        Program('as', 'as -o x.o x.s', files={'x.s': '.globl f\nf:\n\tmov $1, %eax\n\tret\n.data\n' + '.quad f, 1\n' * 1000}),
        Program('ld', 'ld -r -Map x.map -o x.o a.o b.o', **OBJECTS),
        Program('ld.lld', 'ld.lld -r -o x.o a.o b.o', **OBJECTS),
        Program('ar', 'ar rcsDv x.a a.o b.o', **OBJECTS),
        Program('nm', 'nm -n --line-numbers a.o b.o', **OBJECTS),
        Program('objdump', 'objdump -dS a.o b.o', **OBJECTS),
        Program('readelf', 'readelf -aW --debug-dump=info a.o', **OBJECTS),
        Program('strip', 'strip a.o b.o', **OBJECTS),
        Program('make', 'make -s -j2', files={'Makefile': MAKE}),
        Program('gdb', "gdb -nx -q -batch -ex 'info line main' -ex 'disassemble twice' -ex 'print 6 * 7' x", **OBJECTS),
        Program('valgrind', 'valgrind -q --error-exitcode=8 ./x', **OBJECTS, soak=True),
        Program('protoc', 'protoc --descriptor_set_out=x.pb --include_source_info x.proto',
                files={'x.proto': 'syntax = "proto3";\nmessage a { repeated a b = 1; map<string, int64> c = 2; }\n'}),
        sh('git', 'git init -q -b main && git add -A && git commit -q -m first && sed -i s/word1/other/ words && git diff --stat && git commit -q -a -m second && git log -p --stat',
           files=TREE, vary=r'^\.git/(index|hooks/.*)$',
           env={f'GIT_{who}_{k}': v for who in ('AUTHOR', 'COMMITTER') for k, v in (('NAME', 'a'), ('EMAIL', 'a@b'), ('DATE', '2026-01-01T00:00:00Z'))}),
    ],
    'archives, texts, documents': [
        Program('tar', 'tar --sort=name --mtime=@0 --owner=0 --group=0 -cvf x.tar d', files=TREE),
        Program('gzip', 'gzip -nv9 words'),
        Program('bzip2', 'bzip2 -v words'),
        Program('xz', 'xz -T2 --block-size=32KiB words'),
        Program('zstd', 'zstd -q -T2 -15 words'),
        sh('openssl', 'openssl enc -aes-256-cbc -pbkdf2 -nosalt -k x -in words -out e && openssl dgst -sha512 words e && openssl genrsa 1024 2>/dev/null >key && openssl rsa -in key '
           '-noout -check', vary='^key$'),
        Program('xmllint', "xmllint --xpath 'sum(//e[@n > 100]/v)' x.xml", files={'x.xml': XML}),
        Program('dot', 'dot -Tsvg x.dot', files={'x.dot': DOT}),
        Program('mandoc', f'mandoc -T utf8 {mt.TOP}/man/mtrun.1'),
        Program('diff', 'diff -u words other', files={'other': WORDS.replace('word13', 'changed')}),
        Program('sed', "sed -nE 's/^([0-9]*)7 (.*)/\\2 \\1/p;$=' words"),
        Program('grep', "grep -nE '([0-9])\\1+ .*b{5}' words"),
        Program('find', "find d -type f -name '[a-e]*' -not -empty -size -2 -exec cat {} +", files={'d/a': '1\n', 'd/f': '2\n'}),
        Program('xargs', 'xargs -n 300 echo', stdin=WORDS.encode()),
        Program('file', 'file words x.c /bin/sh /dev/null', files={'x.c': C}),
        Program('iconv', 'iconv -f utf-8 -t utf-16le words'),
    ],
    "the system's own": [
        Program('ls', "ls -lR --time-style=+%Y d missing", files=TREE),
        Program('cp', 'cp -a d e', files=TREE),
        Program('dd', 'dd if=words of=out bs=700 conv=swab status=none'),
        Program('sort', 'sort --parallel=2 -S 1M -k2,2 -k1n words'),
        Program('od', 'od -A x -t x1z -N 5000 words'),
        Program('sha256sum', 'sha256sum words d/a missing', files=TREE),
        Program('factor', 'factor 1000000016000000063 18446744073709551617'),
        Program('split', 'split -l 700 words part-'),
        Program('dpkg-query', 'dpkg-query -W'),
        Program('getent', 'getent passwd'),
        Program('infocmp', 'infocmp -1 xterm'),
        Program('ldconfig', 'ldconfig -p'),
    ],
    'programs made for the test': [
        built('C, glibc', 'mix.c', 'gcc'),
        built('C, glibc, static', 'mix.c', 'gcc -static'),
        built('C, musl', 'mix.c', 'musl-gcc'),
        built('C, musl, static', 'mix.c', 'musl-gcc -static'),
        built('C++, jemalloc', 'mix.cc', 'g++ -pthread -ljemalloc'),
        built('C++, tcmalloc', 'mix.cc', 'g++ -pthread -ltcmalloc'),
        built('C++, mimalloc', 'mix.cc', 'g++ -pthread -lmimalloc'),
    ],
}


# ---- the README --------------------------------------------------------------------------------------------------------------------

def readme():
    """The section's list, which the README has between its heading and the next."""
    items = [f'- {group}: {", ".join(p.name.replace(", ", " ") for p in rows)}' for group, rows in TABLE.items()]
    return ''.join(textwrap.fill(i, 108, subsequent_indent='  ', break_on_hyphens=False) + '\n' for i in items)


def said():
    with open(README) as f:
        section = re.search(r'^## What it has been run on\n(.*?)^## ', f.read(), re.M | re.S)
    found = re.search(r'^- .*\n(^[- ] .*\n)*', section[1], re.M) if section else None
    return found[0] if found else ''


# ---- running -------------------------------------------------------------------------------------------------------------------------

def left(d, vary):
    """Everything under D, as name -> kind, mode and contents."""
    found = {}
    for where, dirs, files in os.walk(d):
        for name in dirs + files:
            path = os.path.join(where, name)
            short = os.path.relpath(path, d)
            st = os.lstat(path)
            what = f'{stat.filemode(st.st_mode)}'
            if vary.search(short):
                what = what[:1]
            elif stat.S_ISLNK(st.st_mode):
                what += ' ' + os.readlink(path)
            elif stat.S_ISREG(st.st_mode):
                with open(path, 'rb') as f:
                    what += f' {st.st_size} {hashlib.sha256(f.read()).hexdigest()[:16]}'
            found[short] = what
    return found


def one(p, d, prefix):
    """A run of P in the directory D, which is made anew: (status, stdout, stderr, files), problems."""
    shutil.rmtree(d, ignore_errors=True)
    os.makedirs(f'{d}/tmp')
    for name, text in p.files.items():
        os.makedirs(os.path.dirname(f'{d}/{name}'), exist_ok=True)
        with open(f'{d}/{name}', 'w') as f:
            f.write(text)
    for where, dirs, files in os.walk(d, topdown=False):
        for name in dirs + files:
            os.utime(os.path.join(where, name), (1767225600, 1767225600))
    why = p.prepare(d) if p.prepare else ''
    if why:
        return None, [why]
    env = {'PATH': PATH, 'HOME': d, 'TMPDIR': f'{d}/tmp', 'TMUX_TMPDIR': f'{d}/tmp', 'LC_ALL': 'C.UTF-8', 'TZ': 'UTC', 'PYTHONHASHSEED': '0', 'PERL_HASH_SEED': '0',
           'GIT_CONFIG_NOSYSTEM': '1', 'TERM': 'xterm', **p.env}
    as_other = p.unprivileged and os.getuid() == 0
    if as_other:
        os.chown(d, 65534, 65534)
        os.chown(f'{d}/tmp', 65534, 65534)
    kw = {'preexec_fn': drop} if as_other else {}
    r = mt.plain([*prefix, *p.command], cwd=d, env=env, input=p.stdin, timeout=mt.TIMEOUT * mt.SLOW, **kw)
    if r.timed_out:
        return None, [f'not done after {mt.TIMEOUT * mt.SLOW} s']
    if not mt.until(lambda: not mt.children(), 5):
        names = [f'{pid} {mt.exe(pid)}' for pid in mt.children()]
        for pid in mt.children():
            mt.kill(pid)
        return None, [f'processes are left: {names}']
    bad = [f'left in $TMPDIR: {os.listdir(f"{d}/tmp")}'] if [x for x in os.listdir(f'{d}/tmp') if not x.startswith('tmux-')] else []
    return (r.rc, r.out, r.err, left(d, p.vary)), bad


def shown(a, b):
    """Where two texts differ."""
    a, b = a.decode(errors='replace').splitlines(), b.decode(errors='replace').splitlines()
    n = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return f'line {n + 1}: {(b + ["(its end)"])[n][:200]!r}, alone {(a + ["(its end)"])[n][:200]!r}'


def compare(p, d):
    """Problems, or a text: why it is skipped."""
    missing = [x for x in p.needs if not shutil.which(x, path=PATH)]
    if missing:
        return f'{missing[0]} is not installed'
    said = f'{mt.tmp()}/said.{os.getpid()}'
    os.makedirs(said)
    os.chmod(said, 0o777)
    alone, bad = one(p, d, [])
    if bad:
        return f'it cannot be run here without mtrun: {bad[0]}' if alone is None else [f'without mtrun: {bad[0]}']
    under, bad = one(p, d, [mt.MTRUN, '-q', '--messages', f'{said}/messages', '-x', f'wait exit; status --json > {said}/status', '--'])
    if under is None:
        return bad
    if under[0] != alone[0]:
        bad.append(f'status {under[0]}, alone {alone[0]}')
    bad += [f'{what}: {shown(a, b)}' for what, a, b in (('stdout', alone[1], under[1]), ('stderr', alone[2], under[2])) if a != b]
    for name in sorted(set(alone[3]) | set(under[3])):
        if alone[3].get(name) != under[3].get(name):
            bad.append(f'{name}: {under[3].get(name, "is not there")}, alone {alone[3].get(name, "not there")}')
    with open(f'{said}/messages') as f:
        if messages := f.read():
            bad.append(f'mtrun says: {messages[:300]}')
    try:
        with open(f'{said}/status') as f:
            status = json.load(f)
        if status['dropped'] or status['state'] != 'exited':
            bad.append(f'dropped {status["dropped"]}, {status["state"]}')
    except (OSError, ValueError, KeyError) as e:
        bad.append(f'no answer to status: {e}')
    return bad


def row(p):
    began = time.monotonic()
    d = f'{mt.tmp()}/{os.getpid()}'
    bad = compare(p, d)
    shutil.rmtree(d, ignore_errors=True)
    if '-v' in sys.argv:
        print(f'{p.name}: {time.monotonic() - began:.2f} s', flush=True)
    if isinstance(bad, str):
        mt.skip(p.name, bad)
    else:
        mt.check(p.name, bad)


def alone_with_ipc():
    """An own /dev/shm and own System V objects, so that what is found there is ours. Whether there are."""
    libc = ctypes.CDLL(None, use_errno=True)
    CLONE_NEWNS, CLONE_NEWIPC, MS_REC, MS_PRIVATE = 0x20000, 0x8000000, 0x4000, 1 << 18
    return (os.getuid() == 0 and libc.unshare(CLONE_NEWNS | CLONE_NEWIPC) == 0 and libc.mount(b'none', b'/', None, MS_REC | MS_PRIVATE, None) == 0
            and libc.mount(b'tmpfs', b'/dev/shm', b'tmpfs', 0, b'mode=1777') == 0)


def main():
    if '--readme' in sys.argv:
        print(readme(), end='')
        return
    mt.need_mtrun()
    wanted = [a for a in sys.argv[1:] if not a.startswith('-')]
    rows = [p for group in TABLE.values() for p in group]
    mt.check('there are 60 programs', [] if len({p.name for p in rows}) >= 60 else [f'{len(rows)} rows'])
    mt.check('the README lists them', [] if said() == readme() else ['its section "What it has been run on" is not what --readme prints'])
    own = alone_with_ipc()
    os.chmod(mt.tmp(), 0o755)
    mt.each([p for p in rows if (p.name in wanted if wanted else mt.SOAK or not p.soak)], row)
    if own:
        there = os.listdir('/dev/shm') + [x for kind in ('shm', 'sem', 'msg') for x in open(f'/proc/sysvipc/{kind}').read().splitlines()[1:]]
        mt.check('nothing is left in /dev/shm and of System V', [str(x) for x in there])
    else:
        mt.skip('nothing is left in /dev/shm and of System V', 'not root: it would be shared with others')
    mt.finish()


main()
