#!/usr/bin/env python3
"""A trained model's perplexity equals its reference, and int8 hardly moves it.

    perplexity.py DSCOMPILE DSRUN
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import CASES, Checks, Scratch, run  # noqa: E402


def main():
    dscompile, dsrun = sys.argv[1:3]
    c = Checks()
    case = os.path.join(CASES, 'real', 'kjv-gpt2')
    with open(os.path.join(case, 'golden.json'), encoding='utf-8') as f:
        want = json.load(f)['eval_ppl']
    for dtype, bound in (('fp32', 1e-4), ('int8', 2e-4)):
        with Scratch() as tmp:
            plan = os.path.join(tmp, 'plan')
            r = run(dscompile, case, '--dtype', dtype, '-o', plan)
            if not c.check(r.returncode == 0, dtype, r.stderr):
                continue
            r = run(dsrun, plan, '--perplexity',
                    os.path.join(CASES, 'real', 'eval.txt'), '--window', 256,
                    timeout=600)
            got = float(r.stdout or 'nan')
            c.check(abs(got / want - 1) <= bound, f'perplexity {dtype}',
                    f'{got} for {want}: {r.stderr}')
    c.finish()


main()
