#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
# timeout: 600
"""
real-counts.py [NAME...] - mtrun's counts on real programs equal those of an independent counting preload.

tests/preload/count.c counts in the program itself. Three runs of each program, in the same directory with an environment of the same size:

    plain       without mtrun, with a library that does nothing preloaded: what output and exit status have to be
    together    mtrun and the preload count the same run: allocs, frees, bytes asked for, live bytes and blocks must be equal, for
                every process of the tree, also where threads or time make each run different
    apart       mtrun alone (the idle library preloaded) beside the preload alone: the same numbers again, for programs that
                do the same in each run (compilers do not: they hash pointers). So the preload is not what mtrun sees the program through

Differences that there are, each allowed for where it is named below:

  ld.so       From its first allocation on ld.so uses the program's malloc only after all libraries are relocated, and mtrun is in place
              before any of their code runs: no difference was found. (ld.so's own early allocator is neither's business.)
  thread exit glibc frees a thread's cache (tcache) by calling its inner free, not through the symbol: the preload does not see it. mtrun does, and
              leaves it out, because those blocks were freed before.
  new(0)      libstdc++'s operator new asks malloc for 1 byte instead of 0. mtrun counts what the program asked for; so does the
              preload where it stands in for operator new, but not in a program that carries its own copy of libstdc++ (cc1plus).
              Such programs are marked `own_new`: total and live bytes may differ by at most the number of allocations.
  tcmalloc    Its constructor calls tc_free(tc_malloc(1)) twice, directly: mtrun sees these two blocks, the preload does not.
  static      glibc in a static program allocates before main (for a dlopen that may come: _dl_non_dynamic_init). The program's own arithmetic
              does not know of that, so a run of it that allocates nothing is subtracted.
  killed      A thread that exit_group() catches between the real malloc and its count: at most one block per thread. Only
              programs marked `threads` may show it, and only in `together`.

The same runs show that nothing was dropped, and that at most 1 stack in 1000 is [truncated].
"""
import ctypes
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
MTRUN = os.environ.get("MTRUN", os.path.join(TOP, "build", "mtrun"))
SOAK = os.environ.get("MTRUN_SOAK") == "1"
TIMEOUT = 1200 if SOAK else 300
CALLS = "300000" if SOAK else "60000"		# of mix.c
FIELDS = ("allocs", "frees", "total_allocated", "heap", "live_blocks")

failed = passed = skipped = 0


def say(ok, name, why=""):
    global failed, passed
    if ok:
        passed += 1
        print("ok " + name, flush=True)
    else:
        failed += 1
        print("FAIL %s: %s" % (name, why), flush=True)


def skip(name, why):
    global skipped
    skipped += 1
    print("skip %s: %s" % (name, why), flush=True)


class Record:
    """What count.c wrote for one process image."""
    def __init__(self, path):
        with open(path, "rb") as f:
            data = f.read(88)
        (magic, self.pid, self.ppid, self.allocs, self.frees, self.total_allocated, self.heap,
         self.live_blocks, self.unknown_frees, comm) = struct.unpack("8s8Q16s", data)
        assert magic == b"mtcount1", path
        self.comm = comm.split(b"\0")[0].decode()
        self.turn = int(path.rsplit(".", 1)[1])

    def __repr__(self):
        return "%s %s" % (self.comm, {f: getattr(self, f) for f in FIELDS})


def records(directory):
    """pid -> its records in the order of its images"""
    by_pid = {}
    for name in os.listdir(directory):
        r = Record(os.path.join(directory, name))
        by_pid.setdefault(r.pid, []).append(r)
    for turns in by_pid.values():
        turns.sort(key=lambda r: r.turn)
    return by_pid


class Case:
    """A program to run. ARGV: the command; SETUP(): fills the empty directory that it runs in."""
    def __init__(self, name, argv, setup=None, env=None, stdin=b"", apart=True, output=True, tree=False, threads=0,
                 own_new=False, extra=(0, 0, 0), jit=False, drive=None, preload="count", files=()):
        self.__dict__.update(locals())
        self.env = env or {}


def same_addresses():
    """In a child before its exec: no randomization. What Python keeps by address (sets of classes) needs now and then some more memory otherwise, with or without mtrun."""
    ctypes.CDLL(None).personality(0x0040000)	# ADDR_NO_RANDOMIZE


class Runner:
    def __init__(self, tmp):
        self.tmp = tmp
        self.cwd = os.path.join(tmp, "cwd")
        self.messages = os.path.join(tmp, "messages")
        self.status = os.path.join(tmp, "status")
        self.processes = os.path.join(tmp, "processes")
        self.counts = os.path.join(tmp, "counts")

    def lib(self, name):
        return os.path.join(self.tmp, name + ".so")

    def run(self, case, mtrun, lib, prepare=None):
        """One run; returns (exit status, stdout, stderr, contents of case.files)"""
        for d in (self.cwd, self.counts):
            shutil.rmtree(d, ignore_errors=True)
            os.mkdir(d)
        for f in (self.messages, self.status, self.processes):
            if os.path.exists(f):
                os.unlink(f)
        if case.setup:
            case.setup(self.cwd)
        argv = list(case.argv)
        if mtrun:
            argv = [MTRUN, "-q", "--messages", self.messages, "-x",
                    "wait exit; status --json > %s; processes --json > %s" % (self.status, self.processes), "--"] + argv
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": self.cwd, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0",
               "PERL_HASH_SEED": "0", "GIT_CONFIG_NOSYSTEM": "1", "LD_PRELOAD": self.lib(lib), "MTRUN_COUNT_DIR": self.counts}
        env.update(case.env)
        with open(os.path.join(self.tmp, "out"), "w+b") as out, open(os.path.join(self.tmp, "err"), "w+b") as err:
            p = subprocess.Popen(argv, cwd=self.cwd, env=env, stdin=subprocess.PIPE, stdout=out, stderr=err, preexec_fn=prepare)
            try:
                if case.drive:
                    p.stdin.close()
                    case.drive(p)
                else:
                    try:
                        p.stdin.write(case.stdin)
                        p.stdin.close()
                    except BrokenPipeError:
                        pass
                p.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
                return ("not done after %d s" % TIMEOUT, b"", b"", [])
            out.seek(0)
            err.seek(0)
            files = []
            for f in case.files:
                with open(os.path.join(self.cwd, f), "rb") as opened:
                    files.append(opened.read())
            return (p.returncode, out.read(), err.read(), files)

    def load(self, path):
        try:
            with open(path) as f:
                return json.load(f)
        except (OSError, ValueError) as e:
            messages = open(self.messages).read() if os.path.exists(self.messages) else ""
            raise AssertionError("%s: %s; messages: %s" % (os.path.basename(path), e, messages.strip()[-300:]))


def differences(case, ours, theirs, together):
    """Lines that say how status OURS differs from record THEIRS."""
    lines = []
    for field in FIELDS:
        a, b = ours[field], getattr(theirs, field)
        if field in FIELDS[:3]:
            b += case.extra[FIELDS.index(field)]
        slack = 0
        if case.own_new and field in ("total_allocated", "heap"):
            slack = theirs.allocs if b >= a else 0
        if case.threads and together:
            slack = max(slack, case.threads if field not in ("total_allocated", "heap") else case.threads * 65536)
        if abs(a - b) > slack:
            lines.append("%s %d, preload %d (%+d)" % (field, a, b, a - b))
    return lines


def compare_tree(case, listed, by_pid):
    """Pairs the processes that mtrun lists with the preload's records. Returns differences."""
    listed = listed["processes"] if isinstance(listed, dict) else listed
    lines = []
    ours = {}
    for p in listed:
        ours.setdefault(p["pid"], []).append(p)
    for pid, theirs in by_pid.items():
        images = ours.get(pid, [])
        while len(images) > len(theirs):	# an image that allocated nothing has no record
            idle = [p for p in images if p["allocs"] == 0]
            if not idle:
                break
            images.remove(idle[0])
        if len(images) != len(theirs):
            lines.append("pid %d: mtrun lists %s, the preload %s" % (pid, [(p["command"], p["allocs"]) for p in images], theirs))
            continue
        for p, r in zip(images, theirs):
            if abs(p["allocs"] - r.allocs) > (case.threads if case.threads else 0):
                lines.append("%s (%d): allocs %d, preload %d" % (p["command"], pid, p["allocs"], r.allocs))
            elif p["state"] != "replaced" and not case.own_new and not case.threads and p["heap"] != r.heap:
                lines.append("%s (%d): heap %d, preload %d" % (p["command"], pid, p["heap"], r.heap))
    return lines


def check(runner, case):
    name = case.name
    plain = runner.run(case, False, "inert")
    tail = lambda r: repr(r[2][-200:])

    # together
    got = runner.run(case, True, case.preload)
    try:
        by_pid = records(runner.counts)
        status = runner.load(runner.status)
        same = [what for what, a, b in (("exit status", plain[0], got[0]), ("stdout", plain[1], got[1]), ("stderr", plain[2], got[2]),
                ("files", plain[3], got[3])) if a != b and (case.output or what == "exit status")]
        say(not same, name + " unchanged", "%s differ (exit status %s, plain %s; stderr %s, plain %s)" %
            (", ".join(same), got[0], plain[0], tail(got), tail(plain)))
        theirs = by_pid.get(status["pid"])
        lines = differences(case, status, theirs[-1], True) if theirs else ["no record by the preload"]
        say(not lines, "%s together (%d allocs)" % (name, status["allocs"]), "; ".join(lines))
        if case.tree:
            lines = compare_tree(case, runner.load(runner.processes), by_pid)
            say(not lines, "%s tree (%d processes)" % (name, len(by_pid)), "; ".join(lines[:6]))
        say(status["dropped"] == 0, name + " dropped nothing", "dropped %d" % status["dropped"])
        if not case.jit:	# code made at run time comes without unwind information
            say((status["truncated"] - status["deep"]) * 1000 <= status["allocs"], "%s truncated %d of %d" % (name, status["truncated"], status["allocs"]),
                "more than 1 in 1000")
    except AssertionError as e:
        say(False, name + " together", "%s (exit status %s, stderr %s)" % (e, got[0], tail(got)))

    # apart
    if not case.apart:
        return
    runner.run(case, False, case.preload, same_addresses)
    alone = [r for turns in records(runner.counts).values() for r in turns[-1:]]
    alone.sort(key=lambda r: r.pid)		# the program itself came first
    got = runner.run(case, True, "inert", same_addresses)
    try:
        status = runner.load(runner.status)
        lines = differences(case, status, alone[0], False)
        say(not lines, "%s apart (%d allocs)" % (name, status["allocs"]), "; ".join(lines))
        say((status["truncated"] - status["deep"]) * 1000 <= status["allocs"], "%s apart truncated %d of %d" % (name, status["truncated"], status["allocs"]),
            "more than 1 in 1000")
    except (AssertionError, IndexError) as e:
        say(False, name + " apart", "%s (exit status %s, stderr %s)" % (e, got[0], tail(got)))


# ---- the programs --------------------------------------------------------------------------------------------------------------------

def write(directory, name, text):
    with open(os.path.join(directory, name), "w") as f:
        f.write(text)


SQL = """
create table t(a integer primary key, b text, c real);
begin;
with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000) insert into t select i, 'row ' || (i * 7919 % 20011), i / 3.0 from n;
commit;
create index tb on t(b);
select count(*), sum(a), max(b) from t;
select b, c from t where b like 'row 12%' order by c desc limit 5;
update t set b = b || 'x' where a % 3 = 0;
delete from t where a % 5 = 0;
select group_concat(b) from (select b from t order by b limit 50);
select json_group_array(a) from (select a from t limit 100);
"""

PYTHON = """
import json, re, collections, decimal
words = [re.sub('[02468]', lambda m: chr(97 + int(m.group())), str(i * 7919)) for i in range(20000)]
count = collections.Counter(w[:3] for w in words)
text = json.dumps({w: [i, {'n': w}] for i, w in enumerate(words)})
back = json.loads(text)
print(len(text), len(back), count.most_common(3), sum(map(decimal.Decimal, range(1000))))
class N:
    def __init__(self, depth): self.kids = [N(depth - 1) for _ in range(3)] if depth else []
tree = N(7)
import sys
sys.exit(3)
"""

PERL = """
use strict; my %h; my @a;
for my $i (1 .. 30000) { my $k = "k" . ($i * 7919 % 5003); $h{$k} .= "v$i,"; push @a, [$i, $k] if $i % 3 == 0; }
my $n = 0; for my $k (sort keys %h) { $n += length $h{$k}; $n++ if $h{$k} =~ /v(\\d+)7,.*v\\1/; }
@a = sort { $b->[0] <=> $a->[0] } @a; print "$n $#a $a[0][1]\\n"; exit 4;
"""

HEAVY = os.path.join(HERE, "real", "heavy.cc")
LIGHT = "#include <map>\nint main() { std::map<int, int> m; m[1] = 1; return (int)m.size(); }\n"


def git_setup(directory):
    env = {"PATH": os.environ["PATH"], "HOME": directory, "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
           "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
           "GIT_COMMITTER_EMAIL": "a@b"}

    def git(*args):
        subprocess.run(["git"] + list(args), cwd=directory, env=env, check=True, stdout=subprocess.DEVNULL)
    git("init", "-q", "-b", "main")
    git("config", "pack.threads", "1")
    git("config", "gc.auto", "0")
    for n in range(12):
        for k in range(8):
            write(directory, "file%d.txt" % k, "".join("line %d of %d, version %d\n" % (i, k, n if (i + k) % 5 == 0 else 0) for i in range(200)))
        git("add", "-A")
        git("commit", "-q", "-m", "version %d" % n)


def wait_for_port(port, p):
    import socket
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and p.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        except OSError:
            time.sleep(0.05)
    return False


REDIS_PORT = 20000 + os.getpid() % 20000


def drive_redis(p):
    if wait_for_port(REDIS_PORT, p):
        subprocess.run(["redis-benchmark", "-p", str(REDIS_PORT), "-q", "-n", "20000" if SOAK else "3000", "-c", "20", "-r", "1000", "-t",
                        "set,get,lpush,lpop,sadd,hset,zadd,mset,lrange"], stdout=subprocess.DEVNULL, timeout=TIMEOUT)
        subprocess.run(["redis-cli", "-p", str(REDIS_PORT), "shutdown", "nosave"], stdout=subprocess.DEVNULL, timeout=60)


def cases(tmp):
    def built(name):
        return os.path.join(tmp, name)

    def source(d):
        write(d, "light.cc", LIGHT)
    tool = lambda prog: subprocess.run(["g++", "-print-prog-name=" + prog], capture_output=True, text=True).stdout.strip()
    yield Case("sqlite3", ["sqlite3", ":memory:"], stdin=SQL.encode())
    yield Case("python3", ["/usr/bin/python3", "-c", PYTHON])
    yield Case("python3-malloc", ["/usr/bin/python3", "-c", PYTHON], env={"PYTHONMALLOC": "malloc"})
    yield Case("jq", ["jq", "-c", "[.[]|{a:.,b:(tostring)}]|map(select(.a%3==0))|group_by(.a%7)|map(length)"], stdin=json.dumps(list(range(20000))).encode())
    yield Case("g++", ["g++", "-O1", "-o", "light", "light.cc"], setup=source, tree=True)
    yield Case("cc1plus", [tool("cc1plus"), "-quiet", "-imultiarch", "x86_64-linux-gnu", "-D_GNU_SOURCE", "-O1", "light.cc", "-o", "light.s"], setup=source, own_new=True,
               apart=False, files=["light.s"])
    yield Case("git-log", ["git", "--no-pager", "log", "-p", "--stat"], setup=git_setup, tree=True)
    yield Case("git-gc", ["git", "gc", "-q", "--aggressive"], setup=git_setup, tree=True)
    yield Case("perl", ["perl", "-e", PERL])
    yield Case("redis", ["redis-server", "--port", str(REDIS_PORT), "--save", "", "--appendonly", "no", "--logfile", "log", "--daemonize", "no"],
               drive=drive_redis, apart=False, output=False, threads=8)
    yield Case("bash", ["bash", "-c", "for i in 1 2 3; do (echo $i; ls /); done | sort | uniq -c; x=$(cat /etc/passwd | wc -l); exit 5"], tree=True, apart=False)	# process ids in its variables: their lengths differ
    yield Case("clang-14", ["clang-14", "-cc1", "-internal-isystem", "/usr/lib/llvm-14/lib/clang/14.0.6/include", "-internal-externc-isystem", "/usr/include",
                            "-internal-externc-isystem", "/usr/include/x86_64-linux-gnu", "-O1", "-emit-obj", "-o", "x.o", "x.c"],
               setup=lambda d: write(d, "x.c", "#include <stdio.h>\n#include <stdlib.h>\nint main(void) { puts(\"x\"); return abs(-1); }\n"), files=["x.o"], apart=False)
    yield Case("sort-threads", ["sort", "--parallel=2", "-S", "1M"], stdin="".join("%d\n" % (i * 7919 % 100003) for i in range(100000)).encode(), apart=False)
    yield Case("xz-threads", ["xz", "-T2", "--block-size=64KiB", "-c"], stdin=bytes(range(256)) * 3000, apart=False)
    yield Case("openssl", ["openssl", "dgst", "-sha256", "-sign", "key", "-out", "sig", "key"], apart=False, setup=lambda d: subprocess.run(
        ["openssl", "genrsa", "-out", "key", "2048"], cwd=d, stderr=subprocess.DEVNULL), output=False)
    for lib in ("", "-jemalloc", "-tcmalloc", "-mimalloc"):
        if os.path.exists(built("mixpp" + lib)):
            yield Case("c++" + lib, [built("mixpp" + lib)], apart=not lib, extra=(2, 2, 2) if "tcmalloc" in lib else (0, 0, 0))
        else:
            skip("c++" + lib, "no lib" + lib[1:])
    yield Case("c", [built("mix"), CALLS])
    if os.path.exists(built("mix-musl")):
        yield Case("c-musl", [built("mix-musl"), CALLS], preload="count-musl",
                   env={"LD_PRELOAD": ""}, apart=False)
    if SOAK or len(sys.argv) > 1:
        yield Case("clang-heavy", ["clang++-14", "-O1", "-c", "-o", "h.o", HEAVY], apart=False, tree=True)
        yield Case("g++-heavy", ["g++", "-O1", "-c", "-o", "h.o", HEAVY], apart=False, tree=True)
        yield Case("node", ["node", "-e", "let m=new Map();for(let i=0;i<1e5;i++)m.set('k'+i,Buffer.alloc(100));"
                            "const z=require('zlib');console.log(m.size,z.gzipSync(Buffer.alloc(1e6)).length);process.exitCode=6"], apart=False, threads=12, jit=True)
        yield Case("java", ["java", "-version"], apart=False, threads=40, jit=True)


# ---- programs that a preload cannot enter --------------------------------------------------------------------------------------------

def check_static(runner, name, program):
    """Output and status as without, and the counts that the program prints on stderr itself."""
    case = Case(name, [program, "0"], env={"LD_PRELOAD": ""})
    runner.run(case, True, "inert")
    try:
        before = runner.load(runner.status)	# what the libc has at its start
    except AssertionError as e:
        return say(False, name, str(e))
    case.argv = [program, CALLS]
    plain = runner.run(case, False, "inert")
    got = runner.run(case, True, "inert")
    try:
        say(plain[:3] == got[:3], name + " unchanged", "exit status %s, plain %s; stderr %r" % (got[0], plain[0], got[2][-200:]))
        status = runner.load(runner.status)
        wanted = dict(zip(("allocs", "frees", "total_allocated", "heap"), map(int, plain[2].split())))
        have = {f: status[f] - before[f] for f in wanted}
        say(have == wanted, "%s counts (%d allocs)" % (name, status["allocs"]), "%s, not %s" % (have, wanted))
    except AssertionError as e:
        say(False, name, "%s (exit status %s, stderr %r)" % (e, got[0], got[2][-200:]))


def check_busybox(runner):
    if not os.path.exists("/usr/bin/busybox"):
        return skip("busybox", "not installed")
    text = "".join("%d some words\n" % (i * 7919 % 1009) for i in range(3000)).encode()
    for name, argv in (("sort", ["sort", "-n"]), ("awk", ["awk", "{n[$1 % 7] += NR} END {for (k in n) print k, n[k] | \"sort\"}"]),
                       ("sha256sum", ["sha256sum"]), ("sh", ["sh", "-c", "busybox wc -l; exit 9"])):
        case = Case(name, ["busybox"] + argv, stdin=text, env={"LD_PRELOAD": ""})
        plain = runner.run(case, False, "inert")
        got = runner.run(case, True, "inert")
        say(plain[:3] == got[:3], "busybox %s unchanged" % name, "exit status %s, plain %s; stderr %r" % (got[0], plain[0], got[2][-200:]))


def build(tmp):
    flags = ["-std=gnu17", "-D_GNU_SOURCE", "-O2", "-g", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-builtin"]
    count = os.path.join(TOP, "tests", "preload", "count.c")
    real = os.path.join(HERE, "real")

    def run(*argv):
        return subprocess.run(argv, stderr=subprocess.DEVNULL).returncode == 0

    at = lambda name: os.path.join(tmp, name)
    write(tmp, "inert.c", "_Thread_local int mtrun_test_inert;\n")	# thread-local as count.so's: ld.so allocates per such module
    ok = run("gcc", *flags, "-o", at("count.so"), count) and run("gcc", *flags, "-o", at("inert.so"), at("inert.c"))
    assert ok, "the preload does not build"
    run("gcc", "-O2", "-g", "-o", at("mix"), real + "/mix.c")
    run("gcc", "-O2", "-g", "-static", "-o", at("mix-static"), real + "/mix.c")
    run("gcc", "-O2", "-g", "-static-pie", "-o", at("mix-static-pie"), real + "/mix.c")
    run("gcc", "-O2", "-g", "-no-pie", "-o", at("mix-no-pie"), real + "/mix.c")
    if shutil.which("musl-gcc"):
        run("musl-gcc", *flags, "-o", at("count-musl.so"), count)
        run("musl-gcc", "-O2", "-g", "-o", at("mix-musl"), real + "/mix.c")
        run("musl-gcc", "-O2", "-g", "-static", "-o", at("mix-musl-static"), real + "/mix.c")
    for lib in ("", "-jemalloc", "-tcmalloc", "-mimalloc"):
        run("g++", "-O2", "-g", "-o", at("mixpp" + lib), real + "/mix.cc", "-pthread", *([lib.replace("-", "-l")] if lib else []))


def main():
    if not os.access(MTRUN, os.X_OK):
        print("no " + MTRUN)
        return 77
    wanted = sys.argv[1:]
    tmp = tempfile.mkdtemp(prefix="mtrun-real-")
    try:
        build(tmp)
        runner = Runner(tmp)
        for case in cases(tmp):
            if wanted and case.name not in wanted:
                continue
            if not shutil.which(case.argv[0]):
                skip(case.name, "no " + case.argv[0])
                continue
            if case.preload == "count-musl":
                case.env["LD_PRELOAD"] = os.path.join(tmp, "count-musl.so")
            check(runner, case)
        for name in ("mix", "mix-static", "mix-static-pie", "mix-no-pie", "mix-musl", "mix-musl-static"):
            if not wanted or name in wanted:
                if os.path.exists(os.path.join(tmp, name)):
                    check_static(runner, name, os.path.join(tmp, name))
                else:
                    skip(name, "does not build here")
        if not wanted or "busybox" in wanted:
            check_busybox(runner)
    finally:
        shutil.rmtree(tmp, ignore_errors=True)
    print("# %d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
