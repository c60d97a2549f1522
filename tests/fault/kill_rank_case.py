#!/usr/bin/env python3
"""Compiles a small random checkpoint for 2 and 3 ranks and runs kill_rank.py.

    kill_rank_case.py DSCOMPILE DSRUN
"""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'support'))
from harness import TOP, Checks, Scratch, run  # noqa: E402


def main():
    dscompile, dsrun = sys.argv[1:3]
    c = Checks()
    with Scratch() as tmp:
        source = os.path.join(tmp, 'random')
        run(sys.executable, os.path.join(TOP, 'tools/make_random_checkpoint.py'),
            source)
        for tp in (2, 3):
            plan = os.path.join(tmp, f'plan{tp}')
            r = run(dscompile, source, '--tp', tp, '-o', plan)
            if not c.check(r.returncode == 0, f'compile tp {tp}', r.stderr):
                continue
            r = run(sys.executable, os.path.join(HERE, 'kill_rank.py'), dsrun,
                    plan, timeout=250)
            print(r.stdout, end='')
            m = re.search(r'(\d+) passed, (\d+) failed', r.stdout)
            c.check(m is not None, f'tp {tp}', r.stderr)
            if m:
                c.passed += int(m[1])
                c.failed += int(m[2])
    c.finish()


main()
