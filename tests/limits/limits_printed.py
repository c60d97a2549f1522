#!/usr/bin/env python3
"""`dscompile limits`: the table as text and as JSON, the same in both.

    limits_printed.py DSCOMPILE
"""
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import TOP, Checks, run  # noqa: E402


def main():
    dscompile = sys.argv[1]
    c = Checks()
    text, as_json = run(dscompile, 'limits'), run(dscompile, 'limits', '--json')
    c.check((text.returncode, text.stderr) == (0, ''), 'text', text.stderr)
    c.check((as_json.returncode, as_json.stderr) == (0, ''), '--json',
            as_json.stderr)
    rows = json.loads(as_json.stdout)['limits']
    printed = [re.fullmatch(r'(\S+) +(\d+) (\S+) +(\S.*)', line).groups()
               for line in text.stdout.splitlines()]
    c.check(printed == [(r['name'], str(r['value']), r['unit'], r['of'])
                        for r in rows], 'text and JSON agree', text.stdout)
    with open(os.path.join(TOP, 'schema/base/limits.def'),
              encoding='utf-8') as f:
        defined = re.findall(r'^LIMIT\(\w+, +"([^"]+)"', f.read(), re.MULTILINE)
    c.check([r['name'] for r in rows] == defined, 'every row', defined)
    values = {r['name']: r['value'] for r in rows}
    c.check(values['safetensors-header'] == 100_000_000
            and values['tensor'] == 2**46, 'numbers as they are', values)
    for args, code in ((['limits', '--jsn'], 2), (['limits', 'all'], 2),
                       (['limits', '--help'], 0)):
        r = run(dscompile, *args)
        c.check(r.returncode == code, ' '.join(args),
                f'rc {r.returncode} {r.stderr}')
    c.finish()


main()
