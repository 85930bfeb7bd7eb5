#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""modes - victims print their own arithmetic: it holds with the compact table of live blocks, too, and while the table is switched to and fro."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lib'))
import mt

mt.need_mtrun()

CASES = [('sites.c', 'gcc'), ('family.c', 'gcc'), ('family.c', 'jemalloc'), ('family_cxx.cc', 'tcmalloc'), ('threads.c', 'gcc'), ('churn.c', 'gcc'), ('churn.c', 'jemalloc'),
         ('churn.c', 'musl-static')]
WAYS = {
    'mem': {'opts': ['-m', 'mem']},
    'switched': {'before': 'every 20ms { record mem; ! sleep 0.005; record mem-fast }'},
    'switched at once': {'before': 'every 10ms { record mem; record mem-fast; record mem }'},
}

for source, how in CASES:
    path = mt.build(source, how)
    for way, kw in WAYS.items():
        name = f'{source.split(".")[0]} {how} {way}'
        if path:
            mt.truth(name, [path], **kw)
        else:
            mt.skip(name, mt.build_reason(source, how))

mt.finish()
