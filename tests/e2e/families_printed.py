#!/usr/bin/env python3
"""`dscompile families`: every policy, the same as text and as JSON.

    families_printed.py DSCOMPILE
"""
import glob
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import TOP, Checks, run  # noqa: E402


def main():
    dscompile = sys.argv[1]
    c = Checks()
    text = run(dscompile, 'families')
    as_json = run(dscompile, 'families', '--json')
    c.check((text.returncode, text.stderr) == (0, ''), 'text', text.stderr)
    c.check((as_json.returncode, as_json.stderr) == (0, ''), '--json',
            as_json.stderr)
    rows = json.loads(as_json.stdout)['families']
    want = []
    for path in sorted(glob.glob(os.path.join(TOP, 'compiler/policies/*.json'))):
        with open(path, encoding='utf-8') as f:
            policy = json.load(f)
        want.append({'name': policy['policy'],
                     'model_types': policy['model_types'],
                     'architectures': policy['architectures']})
    c.check(rows == want, 'every policy', as_json.stdout)
    words = [[r['name'], *r['model_types'], *r['architectures']] for r in rows]
    c.check([line.replace(',', '').split() for line in
             text.stdout.splitlines()] == words, 'text and JSON agree',
            text.stdout)
    for args, code in ((['families', '--jsn'], 2), (['families', 'all'], 2),
                       (['families', '--help'], 0)):
        r = run(dscompile, *args)
        c.check(r.returncode == code, ' '.join(args),
                f'rc {r.returncode} {r.stderr}')
    c.finish()


main()
