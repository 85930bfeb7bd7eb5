#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# serial
# timeout: 120
"""when - one allocation a second in one of eight threads, the others busy: mtrun dates each to 10 ms."""
import os
import re

import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()


def measure(path, ms, n):
    r = mt.run([path, str(ms), str(n)], ask=('status', 'blocks'))
    when = [(int(a, 16), float(b), float(c)) for a, b, c in re.findall(rb'when 0x(\w+) 777 (\S+) (\S+)', r.out)]
    if len(when) != n or 'blocks' not in r.answers:
        return [f'{len(when)} lines; {r.messages[-300:]} rc {r.rc}']
    age = {mt.address(b['address']): b['age_ms'] for b in r.blocks['blocks'] if b['size'] == 777}
    bad = [f'{a:#x} is not there' for a, _, _ in when if a not in age]
    if not bad:
        # the moment that ages are counted from is not known to better than the command took: so it is what fits best, and must be plausible
        moments = [(b + c) / 2 + age[a] for a, b, c in when]
        moment = (min(moments) + max(moments)) / 2
        for (a, b, c), m in zip(when, moments):
            slack = 10 + (c - b) / 2
            if abs(m - moment) > slack:
                bad.append(f'block of {b - when[0][1]:.1f} ms is dated {m - moment:+.1f} ms beside the others')
        written = os.stat(f'{r.dir}/blocks.json').st_mtime_ns / 1e6
        if not -100 < written - moment < 300:
            bad.append(f'ages are {written - moment:.0f} ms beside the clock')
    return bad


for build, ms, n in (('gcc', 1000, 5), ('static', 150, 12), ('musl', 70, 20)):
    name = f'{n} blocks, one each {ms} ms, {build}'
    path = mt.build('slow.c', build)
    if not path:
        mt.skip(name, mt.build_reason('slow.c', build))
        continue
    bad = measure(path, ms, n)
    if bad and os.getloadavg()[0] > os.cpu_count():     # others want the processors too: mtrun may not have run for 10 ms
        print('# again:', bad)
        bad = measure(path, ms, n)
    mt.check(name, bad)

mt.finish()
