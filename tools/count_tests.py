#!/usr/bin/env python3
"""Prints "N passed, N failed" of the last `meson test` run, from its reports.

    count_tests.py MESON_LOGS_DIR

Programs that report single cases (gtest) count each case, others count once. A
program that failed without a failed case (a crash) counts as one failure. What
was left out is said in a line before, with the reason.
Exit status 1 when anything failed or nothing ran.
"""
import json
import os
import re
import sys


def count_cases(log):
    """(passed, failed) of one entry of testlog.json."""
    text = log.get('stdout', '') + log.get('stderr', '')
    # gtest: "[  PASSED  ] 12 tests." and "[  FAILED  ] 1 test, listed below:".
    # Scripts: their own last line "N passed, N failed".
    passed = [int(n) for n in re.findall(r'\[  PASSED  \] (\d+) tests?', text)]
    failed = [int(n) for n in
              re.findall(r'\[  FAILED  \] (\d+) tests?, listed', text)]
    own = re.findall(r'^(\d+) passed, (\d+) failed', text, re.M)
    if passed or failed:
        return sum(passed), sum(failed)
    if own:
        return int(own[-1][0]), int(own[-1][1])
    return (1, 0) if log['result'] == 'OK' else (0, 1)


def left_out(log):
    """Lines on what one entry of testlog.json did not run."""
    text = log.get('stdout', '') + log.get('stderr', '')
    name = log['name'].split(' / ')[-1]
    lines = [f'{name}: {said}'
             for said in re.findall(r'^left out: (.*)', text, re.M)]
    skipped = re.findall(r'\[  SKIPPED \] (\d+) tests?, listed', text)
    if skipped:
        reason = re.search(r': Skipped\n(.+)', text)
        lines.append(f'{name}: {skipped[-1]} tests: '
                     f'{reason[1] if reason else "no reason given"}')
    return lines


def main():
    path = os.path.join(sys.argv[1], 'testlog.json')
    passed = failed = 0
    with open(path, encoding='utf-8') as f:
        for line in f:
            log = json.loads(line)
            for said in left_out(log):
                print(f'left out: {said}')
            if log['result'] == 'SKIP':
                continue
            ok, bad = count_cases(log)
            if log['result'] not in ('OK', 'EXPECTEDFAIL') and bad == 0:
                bad = 1
            passed += ok
            failed += bad
    print(f'{passed} passed, {failed} failed')
    return 1 if failed or not passed else 0


sys.exit(main())
