#!/usr/bin/env python3
"""Runs the conformance cases that tests/conformance_cases.txt claims.

    run_conformance.py --build BUILD_DIR [--suite DIR]

Each line of the list reads "CASE[,CASE...] DTYPE TP[,TP...]"; the suite's own
run.py judges. The last line is "N passed, N failed".
"""
import argparse
import os
import re
import subprocess
import sys


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    top = os.path.dirname(here)
    p = argparse.ArgumentParser()
    p.add_argument('--build', default=os.path.join(top, 'build'))
    p.add_argument('--suite',
                   default=os.path.join(top, '..', 'shared', 'conformance'))
    a = p.parse_args()
    passed = failed = 0
    with open(os.path.join(here, 'conformance_cases.txt'),
              encoding='utf-8') as f:
        rows = [l.split() for l in f if l.strip() and not l.startswith('#')]
    for cases, dtype, ranks in rows:
        for tp in ranks.split(','):
            r = subprocess.run(
                [sys.executable, os.path.join(a.suite, 'run.py'), '--build',
                 a.build, '--dtype', dtype, '--tp', tp, '--only', cases, '-q'],
                stdout=subprocess.PIPE, text=True, check=False)
            lines = r.stdout.strip().splitlines() or ['']
            for line in lines[:-1]:
                print(f'{dtype} tp {tp}: {line}')
            m = re.match(r'(\d+) passed, (\d+) failed', lines[-1])
            ok, bad = (int(m[1]), int(m[2])) if m else (0, 1)
            # A claimed case that is not there is a failure.
            want = len(cases.split(','))
            if '*' not in cases and ok + bad < want:
                bad += want - ok - bad
            print(f'{dtype} tp {tp}: {ok} of {ok + bad} agree', flush=True)
            passed += ok
            failed += bad
    print(f'{passed} passed, {failed} failed')
    return 1 if failed or not passed else 0


sys.exit(main())
