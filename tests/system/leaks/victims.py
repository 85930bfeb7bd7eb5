#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""
victims - leaks whose bytes are known (tests/victims/lost.h): what --leak-check says of each is what the program itself says, and what memcheck says, to the
byte. What differs is listed here, with the reason.
"""
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import leak
import mt

mt.need_mtrun()
want = re.compile(sys.argv[1] if len(sys.argv) > 1 else '')

# What memcheck finds to be lost, and is not: ((definite bytes, blocks), (indirect bytes, blocks)).
MEMCHECK_ALONE = {
    'r15': ((100, 1), (0, 0)), 'rdx': ((100, 1), (0, 0)), 'xmm': ((100, 1), (0, 0)),   # the registers of who has ended
    'red-zone': ((50, 1), (0, 0)),              # memcheck lets libc's own clean-up run there
    'at-a-gigabyte': None,                      # memcheck gives up: it aligns blocks to 16 MB at most
    'read-only': ((100, 1), (0, 0)),            # what was written before it became read-only
    'empty-array-kept': ((8, 1), (0, 0)),       # a pointer behind the block: new T[0]
}
# What is not lost there, or cannot be seen.
NOTHING = (0, 0), (0, 0)
OTHERS = {
    'static': {'dlclosed': NOTHING},            # the library brings a second libc, with a malloc of its own
    'musl': {'dlclosed': NOTHING},              # its dlclose() keeps libraries
    'clang': {}, 'gcc-O0': {}, 'clang-O0': {},
}
# Allocators, and what is not as it should be. Some link what they have free by words in the blocks: such a
# word is still there in a block that was not written to. And their tables point to what begins a page.
LINKED = 'table', 'freed-table', 'sizes'
PRELOADED = {'jemalloc.so.2': (), 'tcmalloc_minimal.so.4': LINKED, 'mimalloc.so.2.0': LINKED}


def expected(out):
    """What the cases said: {pid: (name, definite, indirect)}."""
    found = {}
    for line in out.decode(errors='replace').splitlines():
        m = re.fullmatch(r'case (\S+) (\d+) (\d+) (\d+) (\d+) (\d+)', line)
        if m:
            found[int(m[2])] = m[1], (int(m[3]), int(m[4])), (int(m[5]), int(m[6]))
    return found


def lost(rows):
    return rows.get('definitely lost'), rows.get('indirectly lost')


def copied(program):
    """PROGRAM by another path, with other times."""
    return shutil.copy(program, mt.tempfile.mkdtemp(dir=mt.tmp()))


def ask_memcheck(program, which, env):
    """{case: what memcheck says is lost}."""
    v = leak.valgrind([program, which], env=env)
    return {case: lost(v.leaks.get(pid, {})) for pid, (case, _, _) in expected(v.out).items()}


def ask_mtrun(program, case, env):
    r = leak.checked([program, case], env=env)
    return [lost(r.reports.get(pid, {'rows': {}})['rows']) for pid in expected(r.out)]


def run(name, program, env, memcheck, differ={}, without=()):
    """
    All cases of PROGRAM but those WITHOUT, each in a process of its own. DIFFER: what is lost in another
    way there.
    """
    r = leak.checked([program, 'all'], env=env)
    cases = expected(r.out)
    if r.rc != 0 or r.timed_out or len(cases) < 20:
        return mt.fail(name, f'status {r.rc}, {len(cases)} cases: {r.err[-300:]} {r.messages[-500:]}')
    of_memcheck = ask_memcheck(program, 'all', env) if memcheck else {}
    for pid, (case, definite, indirect) in cases.items():
        if not want.search(case) or case in without:
            continue
        definite, indirect = differ.get(case, (definite, indirect))
        truth, report = (definite, indirect), r.reports.get(pid, {'rows': {}, 'summary': None})
        bad = []
        if lost(report['rows']) != truth:
            bad.append(f'lost are {lost(report["rows"])}, should be {truth}')
        if report['summary'] != (definite[0] + indirect[0], definite[1] + indirect[1]):
            bad.append(f'the summary says {report["summary"]}')
        # The heap of a static program is below 4 GB: a number of 32 bits is now and then taken for a
        # pointer into it (2 runs of 60).
        low = ' static ' in f'{name} '
        if bad and low and any(ask_mtrun(program, case, env) == [truth] for _ in range(2)):
            bad = []
        if memcheck and MEMCHECK_ALONE.get(case, truth) != of_memcheck.get(case):
            # Blocks have low addresses under memcheck, so a number of 32 bits is now and then taken
            # for a pointer into 5 MB (2 runs of 100). It may come again (part of a file's time, say):
            # so a copy is asked about.
            again = [ask_memcheck(copied(program), case, env).get(case) for _ in range(2)]
            if MEMCHECK_ALONE.get(case, truth) not in again:
                bad.append(f'memcheck says {of_memcheck.get(case)}, then {again}')
        mt.check(f'{name} {case}', bad)


plugin = mt.build('lib/lost_plugin.c', extra='-shared -fPIC', name='lost_plugin.so')
for source in ('lost.c', 'lost_cxx.cc'):
    short = ['gcc', 'clang', 'musl'] if source == 'lost.c' else ['gcc']
    for how in ['gcc', *OTHERS] if mt.SOAK or len(sys.argv) > 1 else short:
        program = mt.build(source, how)
        if not program:
            if how in ('gcc', 'clang', 'musl') and source == 'lost.c':
                mt.skip(f'{source} {how}', mt.build_reason(source, how))
            continue
        memcheck = how == 'gcc' and shutil.which('valgrind')
        if how == 'gcc' and not memcheck:
            mt.skip(f'{source}: as memcheck says', 'valgrind is not installed')
        run(f'{source} {how}', program, {'LOST_LIBRARY': plugin}, memcheck, OTHERS.get(how, {}))
    for name, without in PRELOADED.items():
        path = f'{mt.DEBIAN_LIBS}/lib{name}'
        if not os.path.exists(path):
            mt.skip(f'{source} {name}', 'it is not installed')
            continue
        env = {'LOST_LIBRARY': plugin, 'LD_PRELOAD': path}
        run(f'{source} {name}', mt.build(source, 'gcc'), env, False, {}, without)
mt.finish()
