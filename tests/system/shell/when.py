#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# serial
# timeout: 120
"""
when - one allocation a second in one of eight threads, the others busy: mtrun dates each to 10 ms.

`blocks` says ages, in whole ms, as of one moment M of mtrun's clock: here the program's end, which
is after the last line that it printed and before the first command that follows it. A block's date
M - age is the beginning of the step of 10 ms in which the clock's last tick before the allocation
lay. Ticks come each 3 ms, or later by what the machine kept them waiting just then (which the victim
says: slow.c) and by what a timer's interrupt is late in a virtual machine, which nobody counts: 1 ms.
So the allocation, somewhere between BEFORE and AFTER by the victim's clock, came after its date, by at
most 10 + 3 + 1 ms and that. There must be one M for which all of this is so.
"""
import json
import os
import re

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()
STEP, TICK, TIMER, ROUNDED = 10, 3, 1, 1    # ms; ROUNDED: mtrun's clock has whole ones
CLOCK = f'! {sys.executable} -c "import time; print(time.monotonic_ns() / 1e6)"'


def measure(path, ms, n):
    """Problems."""
    d = mt.tmp()
    r = mt.run([path, str(ms), str(n)], ask=(), when=f'wait exit; {CLOCK} > {d}/after; blocks --json > {d}/blocks')
    when = [(int(a, 16), *map(float, x)) for a, *x in re.findall(rb'when 0x(\w+) 777 (\S+) (\S+) (\S+)', r.out)]
    end = re.search(rb'end (\S+)', r.out)
    if len(when) != n or not end or r.rc:
        return [f'{len(when)} lines; {r.messages[-300:]} rc {r.rc}']
    with open(f'{d}/blocks') as f:
        age = {mt.address(b['address']): b['age_ms'] for b in json.load(f)['blocks'] if b['size'] == 777}
    if any(a not in age for a, *_ in when):
        return [f'{a:#x} is not there' for a, *_ in when if a not in age]
    # What M is at most, lest a date is after its block, and at least, lest one is too early.
    with open(f'{d}/after') as f:
        most = [('the first command', float(f.read()))]
    most += [(f'a date before {after:.1f}', after + age[a]) for a, _, after, _ in when]
    least = [('the last line', float(end[1]) - ROUNDED)]
    least += [(f'a date after {before:.1f}', before + age[a] - STEP - TICK - TIMER - ROUNDED - late) for a, before, _, late in when]
    (why, x), (why_not, y) = max(least, key=lambda v: v[1]), min(most, key=lambda v: v[1])
    print(f'# {name}: the moment is known to {y - x:.1f} ms; the clock was kept waiting for up to {max(late for *_, late in when):.1f} ms')
    return [] if x <= y else [f'{why} and {why_not} do not go together: {x - y:.1f} ms']


for build, ms, n in (('gcc', 1000, 5), ('static', 150, 12), ('musl', 70, 20)):
    name = f'{n} blocks, one each {ms} ms, {build}'
    path = mt.build('slow.c', build)
    if path:
        mt.check(name, measure(path, ms, n))
    else:
        mt.skip(name, mt.build_reason('slow.c', build))

mt.finish()
